"""The preview says what redaction would take out of what is stored, shows no secret and changes nothing; logs hold none."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from ops_world import World

from hermes_lcm.command import run
from hermes_lcm.logs import LOGGER, keep_clean
from hermes_lcm.ops.redaction import ENCODED, preview
from hermes_lcm.records import Flag
from hermes_lcm.text.redact import Redactor

SECRETS = ("hunter2secret", "k9f8e7d6c5b4", "ghp_0123456789abcdefghijABCDEFGHIJ012345")


@pytest.fixture(autouse=True)
def quiet_logger() -> Iterator[None]:
    """What a test asks of the logger ends with it."""
    before = list(logging.getLogger(LOGGER).filters)
    yield
    logging.getLogger(LOGGER).filters[:] = before


@pytest.fixture
def world(tmp_path: Path) -> World:
    home = World(tmp_path / "home")
    home.say(
        f"password: {SECRETS[0]}", f"api_key = '{SECRETS[1]}' twice api_key = '{SECRETS[1]}'", f"use {SECRETS[2]}",
        base64.b64encode(f"password={SECRETS[0]} and some more words".encode()).decode(), "nothing here",
    )  # fmt: skip
    return home


def test_it_counts_by_kind_and_says_where(world: World) -> None:
    """With the kinds that are configured."""
    made = preview(world.deps(), (), lambda *_: None)

    assert (made.read, made.changed) == (5, 3)
    assert {kind: (f.count, f.addresses) for kind, f in made.found.items()} == {
        "password_assignment": (1, ["msg_1"]),
        "api_key": (2, ["msg_2"]),
        ENCODED: (1, ["msg_4"]),
    }
    (sample,) = made.found["password_assignment"].samples
    assert sample.endswith("password: [redacted:password_assignment]")


def test_a_huge_message_is_looked_at_as_any_other(tmp_path: Path) -> None:
    """Megabytes in front of a secret hide it from nobody."""
    home = World(tmp_path / "home")
    home.say("word\n" * 300_000 + f"password: {SECRETS[0]}")
    found = preview(home.deps(), (), lambda *_: None).found

    assert {kind: (f.count, f.addresses) for kind, f in found.items()} == {"password_assignment": (1, ["msg_1"])}


def test_no_secret_is_shown_and_nothing_changes(world: World) -> None:
    """Neither to people nor to programs."""
    before = world.path.read_bytes()
    text = run("redact preview all", world.deps())
    data = json.dumps([f.samples for f in preview(world.deps(), ("all",), lambda *_: None).found.values()])

    assert "github_token" in text
    assert not any(secret in text + data for secret in SECRETS)
    assert world.path.read_bytes() == before


def test_a_message_that_is_no_json_stops_no_preview(world: World) -> None:
    """It is looked at leaf by leaf, as it was when it was stored."""
    knot: dict[str, object] = {"note": f"password: {SECRETS[0]}"}
    knot["knot"] = knot
    odd = [{1: f"password: {SECRETS[0]}"}, (f"password: {SECRETS[0]}",), knot, {"nothing": (1, {2})}]
    live = [{"role": "user", "content": f"odd {n}", "extra": each} for n, each in enumerate(odd)]
    world.runtime.take("odd", live, source="cli")
    found = preview(world.deps(), (), lambda *_: None).found["password_assignment"]

    assert found.addresses == ["msg_1", "msg_6", "msg_7", "msg_8"]


def test_unknown_names_are_told(world: World, tmp_path: Path) -> None:
    """The others count; none at all is refused, also before there is a message."""
    assert "not a kind of secret: nonsense" in run("redact preview jwt,nonsense", world.deps())
    assert "no kind of secret" in run("redact preview nonsense", world.deps())
    assert "no kind of secret" in run("redact preview nonsense", World(tmp_path / "new").idle())


def test_a_chat_sees_its_own_messages_only(world: World) -> None:
    """Like every verb that quotes."""
    world.runtime.announce("tg", platform="telegram", host_key="agent:main:telegram:dm:1")
    mine = world.say("pwd = other999secret", session="tg", platform="telegram")
    world.runtime.refresh("tg")
    deps = world.deps("tg")

    assert mine.principal != "local"
    assert preview(deps, (), lambda *_: None).read == 1


def test_problems_and_logs_hold_no_secrets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever an error quotes."""
    home = World(tmp_path / "home", sensitive_patterns_enabled="true")
    home.say("password: hunter9secret")
    with caplog.at_level(logging.WARNING, LOGGER):
        home.runtime.health.degraded("test", ValueError(f"cannot send password={SECRETS[0]}"))
        try:
            raise ValueError(f"api_key={SECRETS[1]}")
        except ValueError:
            logging.getLogger(LOGGER).exception("failed with password=%s", SECRETS[0])

    said = caplog.text + str(home.runtime.health.problems())
    assert "[redacted:" in said
    assert not any(secret in said for secret in SECRETS)
    assert [row.head.flags & Flag.REDACTED for rows in home.runtime.store.every() for row in rows] == [Flag.REDACTED]


class Odd:
    """What cannot even be printed."""

    def __str__(self) -> str:
        raise RuntimeError(SECRETS[0])


@pytest.mark.parametrize("args", [(1,), (Odd(), 2)])
def test_a_record_that_cannot_be_cleaned_ends_no_turn(
    caplog: pytest.LogCaptureFixture, args: tuple[object, ...]
) -> None:
    """Filters run in the thread that logs, and nobody catches what they raise."""
    keep_clean(Redactor(("all",)))
    with caplog.at_level(logging.WARNING, LOGGER):
        logging.getLogger(LOGGER).warning("%s and %s", *args)

    assert "left out" in caplog.text
    assert SECRETS[0] not in caplog.text
