"""
Hosts near 0.22 compact on a thread of a pool, lose patience, and go on without the result: nothing may be lost or doubled.

Only for an environment with such a host (``tox -e py311-h0222``), so pytest does not collect it by its name.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from host.checks import assert_kept, assert_valid, look
from host.drive import WINDOW, Home, compare
from host.model_server import ModelServer, Reply, Request, Turns, summarise
from host.scripts import busy_turn, sayings

pytestmark = [pytest.mark.host, pytest.mark.slow]

WAIT_S = 6
IMPATIENT = {
    "auxiliary": {"compression": {"timeout": WAIT_S}},
    "compression": {
        "enabled": True,
        "in_place": True,
        "context_timeout_seconds": WAIT_S,
        "context_total_ceiling_seconds": 60,
    },
}


class Stuck:
    """A summary model that does not answer before it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked = threading.Event()

    def __call__(self, request: Request) -> Reply:
        if "source ends" in str(request.last["content"]):
            self.asked.set()
            self.released.wait(90)
        return summarise(request)


def impatient(path: Path, model: ModelServer, **settings: str) -> Home:
    """A home whose host gives a compaction up after six seconds without progress, and in which nothing is prepared."""
    return Home.make(
        path, model.base_url, config=IMPATIENT, settings={"LCM_BACKGROUND_COMPACTION": "false", **settings}
    )


def assert_whole(model: ModelServer, home: Home, session: str) -> None:
    """P1, P3, P4 of the only conversation, and no node twice."""
    [kept] = look(home, session)
    assert_kept(kept, home.transcript(model.truth))
    for request in model.of_kind("chat"):
        assert_valid(request)


def given_up(home: Home) -> int:
    """How many compactions the host went on without."""
    logs = "".join(path.read_text(errors="replace") for path in (home.path / "logs").glob("*.log"))
    return logs.count("continuing without compression")


def test_a_compaction_that_the_host_gave_up(tmp_path: Path) -> None:
    """The model hangs, the host goes on; later it answers, and the next compaction is taken."""
    stuck = Stuck()
    with ModelServer(Turns(busy_turn), aux=stuck, limit=WINDOW + 40_000) as model:
        home = impatient(tmp_path / "home", model, LCM_FOREGROUND_BUDGET_MS="20000")
        with home.process() as host:
            session = host.open()["session_id"]
            assert host.impatient(seconds=WAIT_S)["idle"] == WAIT_S
            outcomes = []
            for turn in range(9):
                outcomes.append(host.turn(text=model.says(sayings(turn))))
                if stuck.asked.is_set():
                    time.sleep(1)
                    stuck.released.set()
        gave_up = given_up(home)
        assert_whole(model, home, session)

    assert [outcome["failed"] for outcome in outcomes] == [None] * 9
    assert gave_up, "the host never lost its patience, so nothing was shown"
    prompts = [request.tokens for request in model.of_kind("chat")]
    assert min(prompts[-6:]) < max(prompts), "the last compaction did not reach the prompt"


def test_a_compaction_that_the_user_stopped(tmp_path: Path) -> None:
    """/stop while the summary is being written: the turn ends, and the conversation goes on whole."""
    stuck = Stuck()
    with ModelServer(Turns(busy_turn), aux=stuck, limit=WINDOW + 40_000) as model:
        home = Home.make(
            tmp_path / "home",
            model.base_url,
            settings={"LCM_BACKGROUND_COMPACTION": "false", "LCM_FOREGROUND_BUDGET_MS": "15000"},
        )
        with home.process() as host:
            session = host.open()["session_id"]
            turns: list[dict[str, Any]] = []
            for turn in range(8):
                stop = None if stuck.asked.is_set() or turn < 2 else 4.0
                turns.append(host.turn(text=model.says(sayings(turn)), stop_after=stop))
                if stuck.asked.is_set():
                    stuck.released.set()
        [kept] = look(home, session)
        difference = compare(home.transcript(model.truth), kept.rows)

    assert stuck.asked.is_set(), "no summary was asked for"
    assert [done["completed"] for done in turns].count(False) == 1, "no turn was stopped"
    assert (difference.lost, difference.duplicated, kept.uncovered, kept.doubled) == ([], [], [], [])
    # With this the host closes a turn that ended without an answer; nobody said it.
    assert difference.foreign == [("assistant", "", (), "")]


def test_a_slow_summary_that_streams_is_waited_for(tmp_path: Path) -> None:
    """Longer than the host's patience, but words keep coming: the host sees the progress and takes the compaction."""
    with ModelServer(Turns(busy_turn), limit=WINDOW, pause_s=2.0) as model:
        home = impatient(tmp_path / "home", model, LCM_FOREGROUND_BUDGET_MS="50000")
        with home.process() as host:
            session = host.open()["session_id"]
            host.impatient(seconds=WAIT_S)
            outcomes = [host.turn(text=model.says(sayings(turn))) for turn in range(4)]
            took = [event["seconds"] for event in host.events if event["event"] == "compaction"]
        gave_up = given_up(home)
        assert_whole(model, home, session)

    assert [outcome["failed"] for outcome in outcomes] == [None] * 4
    assert took
    assert max(took) > WAIT_S, "the summary was not slow, so nothing was shown"
    assert not gave_up
