"""The host's program in a terminal, as a person uses it: typed lines, slash commands, leaving and coming back."""

from __future__ import annotations

from pathlib import Path

import pytest

from host.checks import assert_kept, assert_valid, look, said_where
from host.drive import WINDOW, Home
from host.model_server import ModelServer, Reply, Turns
from host.scripts import busy_turn
from host.terminal import terminal

pytestmark = [pytest.mark.host, pytest.mark.slow]

PROMPT = "❯"


def steps(turn: int) -> list[Reply]:
    """Tool output in the first turns; later on the model looks at its archive."""
    if turn == 3:
        return [Reply("I look it up.", [("lcm_grep", {"query": "line 700 of the listing"})])]
    return list(busy_turn(turn)) if turn < 2 else []


def test_a_session_in_a_terminal(tmp_path: Path) -> None:
    """Talk, /lcm, /compress with a focus, /new, leave, come back to the first one and go on: both are whole."""
    with ModelServer(Turns(steps), limit=WINDOW) as model:
        home = Home.make(tmp_path / "home", model.base_url, settings={"LCM_ENABLE_SLASH_COMMAND": "1"})
        with terminal(home) as screen:
            screen.wait_for(PROMPT)
            screen.say(model.says("Hello, make two lists."), r"Done with turn 0\.")
            screen.say("/lcm status", r"(?i)messages?\W+\d+")
            screen.say(model.says("Two more, please."), r"Done with turn 1\.")
            compressed = screen.say("/compress the listing", r"(\d+) → (\d+) messages")
            screen.say(model.says("Thank you."), r"Done with turn 2\.")
            old = len(model.truth)
            screen.say("/new", r"(?i)new.session")
            screen.say("What was said elsewhere?", r"Done with turn 3\.")
            screen.leave()
        first, session = sessions_of(home)
        before = look(home, first)[0]
        with terminal(home, "--resume", first) as screen:
            screen.wait_for(PROMPT)
            screen.say("Where were we?", r"Done with turn 4\.")
            screen.leave()
        again, other = look(home, first, session)
        truth = home.transcript(model.truth)

    assert int(compressed[2]) < int(compressed[1])
    assert again.rows[: len(before.rows)] == before.rows
    assert_kept(again, [*truth[:old], {"role": "user", "content": "Where were we?"}, truth[-1]])
    assert_kept(other, said_where(model, lambda request: "elsewhere" in str(request.messages)))
    assert (again.principal, other.principal) == ("local", "local")
    for request in model.of_kind("chat"):
        assert_valid(request)


def test_a_compaction_without_result_says_why_at_the_terminal(tmp_path: Path) -> None:
    """Asked for twice with nothing to fold: one line of ours, the first time."""
    with ModelServer(Turns(lambda turn: [Reply(f"Done with turn {turn}.")]), limit=WINDOW) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        with terminal(home) as screen:
            screen.wait_for(PROMPT)
            for turn in range(3):
                screen.say(f"Hello {turn}.", rf"Done with turn {turn}\.")
            screen.say(
                "/compress",
                r"Did not fold old messages: only the newest messages are left, and they stay as they are\.",
            )
            screen.say("/compress", r"(?is)no changes|nothing|unchanged|messages")
            screen.say("Thank you.", r"Done with turn 3\.")
            seen = " ".join(screen.seen.split())
            screen.leave()

    assert seen.count("Did not fold old messages") == 1


def sessions_of(home: Home) -> list[str]:
    """The host's sessions, oldest first."""
    return [row[0] for row in home.query("SELECT id FROM sessions ORDER BY started_at, id")]
