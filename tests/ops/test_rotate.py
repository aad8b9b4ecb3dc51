"""Which sessions may be rotated, and what status and doctor call them: by the patterns of now, not of the day they began (P9)."""

from __future__ import annotations

from pathlib import Path

import pytest
from worlds.breaking import Host
from worlds.home import Home
from worlds.process import chat

from hermes_lcm.command import REFUSED, answer, run

PATTERNS = {"ignored": "LCM_IGNORE_SESSION_PATTERNS", "stateless": "LCM_STATELESS_SESSION_PATTERNS"}


@pytest.fixture(params=PATTERNS)
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return str(request.param)


def test_a_session_that_is_left_out_now_is_not_rotated(
    hermes_home: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """What is not stored any more must not leave the prompt; status and doctor say which setting it is."""
    host = Host(hermes_home)
    host.says(chat().turns(40))
    host.close()
    monkeypatch.setenv(PATTERNS[mode], "s*")
    host = host.next()
    host.says(chat().turns(44))
    for words in ("rotate", "rotate apply"):
        refused = host.command(words)
        assert (refused.code, f"s is {mode} ({PATTERNS[mode]})" in refused.text) == (REFUSED, True)
    status = host.command("status")

    assert status.data["session_filters"][mode] is True
    assert status.data["lifecycle"]["mode"] == mode
    assert f"s, {mode} ({PATTERNS[mode]})" in status.text
    assert f"s is {mode}" in host.command("doctor").text
    assert len(host.stored()) == 80


def test_a_session_that_always_was_left_out_is_told_why(
    hermes_home: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Nothing is stored under its id, and it is still the one that was typed in."""
    monkeypatch.setenv(PATTERNS[mode], "s*")
    host = Host(hermes_home)
    host.says(chat().turns(40))
    refused = host.command("rotate")

    assert (refused.code, f"s is {mode} ({PATTERNS[mode]})" in refused.text) == (REFUSED, True)
    assert f"s, {mode}" in host.command("status").text


def test_a_session_that_is_let_in_again_may_be_rotated(tmp_path: Path) -> None:
    """At the terminal the patterns of now count too."""
    home = Home(tmp_path / "home", ignore_session_patterns="s1")
    home.say(*(f"turn {n}" for n in range(80)))
    refused = answer("rotate", home.deps(trusted=True))
    home.close()
    home = Home(tmp_path / "home")

    assert "s1 is ignored" in refused.text
    assert "would leave the prompt" in run("rotate", home.deps(trusted=True))


def test_a_short_session_has_nothing_to_rotate(tmp_path: Path) -> None:
    """In words: nothing left its prompt, there is only little in it."""
    home = Home(tmp_path / "home")
    home.say("hello", "hi")

    said = "Nothing to do: the prompt holds no message before the newest 64."
    assert answer("rotate", home.deps(trusted=True)).text == said
    assert answer("rotate apply", home.deps(trusted=True)).text == said


def test_a_rotation_that_the_host_called_off_waits_for_the_next_message(hermes_home: Path) -> None:
    """The answer said that the messages leave the prompt then."""
    host = Host(hermes_home, window=200_000)
    live = chat().turns(60)
    host.says(live)
    host.command("rotate apply")
    host.engine._compression_cancelled_check = lambda: True
    kept = host.compress(live.copy())
    host.engine._compression_cancelled_check = None

    assert kept == live
    assert host.engine.should_compress(0)
    assert len(host.compress(live.copy())) < len(live)
    assert not host.engine.should_compress(0)
