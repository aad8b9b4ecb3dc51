"""Scheduled jobs: ``hermes cron`` makes them and runs them, each run is a session of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from host.checks import assert_kept, assert_valid, look, mentions, said_where
from host.drive import WINDOW, Home
from host.model_server import ModelServer, Reply, Request, last_said
from host.scripts import LISTING

pytestmark = [pytest.mark.host, pytest.mark.slow]


def script(request: Request) -> Reply:
    """A job looks at something and reports; a person is answered."""
    said, answers = last_said(request)
    if "water the plants" in said and not answers:
        return Reply("I look.", [("terminal", {"command": LISTING})])
    return Reply("The plants are watered." if "water the plants" in said else "Good morning.")


def test_a_scheduled_job(tmp_path: Path) -> None:
    """A job runs twice between two turns of a person: a session each time, each whole, none of them mixed.

    Who asked for a job is not told, so its session is nobody's but its own.
    """
    with ModelServer(script, limit=WINDOW) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        _, person = home.chat_once("Hello.")
        made = home.hermes("cron", "create", "every 2h", "Please water the plants and say so.", "--deliver", "local")
        job = re.findall(r"\b[0-9a-f]{12}\b", made.stdout)[0]
        runs = []
        for _ in range(2):
            for step in (("run", job), ("tick",)):
                done = home.hermes("cron", *step)
                assert done.returncode == 0, done.stdout + done.stderr
            runs.append(said_where(model, mentions("water the plants")))
        home.chat_once("Hello again.", resume=person)
        sessions = [
            row[0] for row in home.query("SELECT id FROM sessions WHERE source = 'cron' ORDER BY started_at, id")
        ]
        kept = look(home, person, *sessions)

    assert len(sessions) == 2
    assert [each.principal for each in kept] == ["local", *(f"session:{each}" for each in sessions)]
    for run, one in zip(runs, kept[1:], strict=True):
        assert len(run) == 4
        assert_kept(one, run)
    assert_kept(kept[0], said_where(model, mentions("Hello again.")))
    assert "plants" not in kept[0].texts
    for request in model.of_kind("chat"):
        assert_valid(request)
