"""The terminal: one process a turn, and the slash commands of a long session."""

from __future__ import annotations

import importlib.util
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from host.drive import WINDOW, Home, all_rows, compare, stored_rows
from host.model_server import REVIEW, ModelServer, Reply, Turns
from host.scripts import busy_turn, sayings
from host.shared import Running

pytestmark = pytest.mark.host

NEAR_0_22 = importlib.util.find_spec("agent.relay_runtime") is not None
#: When a process of one turn ends, hosts near 0.22 wait for ever for a thread of their own (``agent.relay_runtime``): on Python
#: 3.12 no thread starts any more by then. Seen without the plugin too.
NEVER_ENDS = sys.version_info[:2] == (3, 12) and NEAR_0_22
#: Hosts before 0.19, which repair no list that they read, write a request into their file before anybody is asked about it.
_READER = importlib.util.find_spec("hermes_state")
WRITES_EARLY = not NEAR_0_22 and "repair_alternation" not in Path(str(_READER and _READER.origin)).read_text("utf-8")


@pytest.mark.skipif(
    NEVER_ENDS, reason="on Python 3.12 this host's process of one turn never ends, with or without the plugin"
)
@pytest.mark.parametrize(
    ("in_place", "turns"),
    [pytest.param(True, 2, id="in-place"), pytest.param(False, 3, id="rotating", marks=pytest.mark.slow)],
)
def test_each_turn_in_a_process_of_its_own(tmp_path: Path, in_place: bool, turns: int) -> None:
    """``hermes chat``, then ``--resume`` with a compaction in each: rows equal distinct messages."""
    with ModelServer(Turns(busy_turn), limit=WINDOW) as model:
        early = {"LCM_CONTEXT_THRESHOLD": "0.25"}
        home = Home.make(tmp_path / "home", model.base_url, in_place=in_place, review_every=1, settings=early)
        sessions: list[str] = []
        for turn in range(turns):
            shown, session = home.chat_once(model.says(sayings(turn)), resume=sessions[-1] if sessions else None)
            assert f"Done with turn {turn}." in shown
            sessions.append(session)
        with home.process() as host:  # a stranger looks: nothing is caught up on by the session itself
            host.open()
            rows = all_rows(host, sessions[-1])

    prompts = [request.tokens for request in model.of_kind("chat")]
    assert sum(1 for before, after in pairwise(prompts) if after < before) >= turns - 1
    assert (len(set(sessions)) == 1) is in_place
    assert not (difference := compare(home.transcript(model.truth), rows)), difference
    # Whether a review asks anything before the process of its turn ends is up to the machine; with an agent that goes on it
    # always does (test_real_agent, test_real_gateway).
    assert not [row for row in rows if REVIEW in str(row["content"])]


def test_new_compress_and_resume(terminal: Running) -> None:
    """Talk, compress with a focus, start anew, talk, come back: both conversations whole, each message once."""
    model, home, host = terminal.talk(Turns(busy_turn), limit=WINDOW)
    first = host.cli()["session_id"]
    for turn in range(2):
        host.cli_say(text=model.says(sayings(turn)))
    host.cli_say(text="/compress listing 3")
    compressed = host.compactions()
    first = host.cli_say(text=model.says("Still there?"))["session_id"]
    old = len(model.truth)

    second = host.cli_say(text="/new")["session_id"]
    host.cli_say(text=model.says("Something else."))
    new = len(model.truth)

    back = host.cli_say(text=f"/resume {first}")["session_id"]
    reply = host.cli_say(text=model.says("Where were we?"))["reply"]
    rows = {session: stored_rows(host, session) for session in (first, second)}
    truth = home.transcript(model.truth)

    assert (compressed, back) == (1, first)
    assert second != first
    assert reply
    assert not (difference := compare([*truth[:old], *truth[new:]], rows[first])), difference
    assert not (difference := compare(truth[old:new], rows[second])), difference


def test_undo_and_retry_keep_what_was_said(terminal: Running) -> None:
    """The host takes messages out of its list, one of them to send it again: the store keeps all of them."""
    model, _, host = terminal.talk(Turns(lambda turn: [Reply(f"Reply {turn}.")]))
    session = host.cli()["session_id"]
    for text in ("One.", "Two."):
        host.cli_say(text=model.says(text))
    host.cli_say(text="/undo")
    host.cli_say(text=model.says("Three."))
    undone = stored_rows(host, session)
    said = list(model.truth)
    retried = host.cli_say(text="/retry")["reply"]
    rows = stored_rows(host, session)

    assert not (difference := compare(said, undone)), difference
    assert retried == "Reply 3."
    again = [row for row in rows if row["store_id"] not in {row["store_id"] for row in undone}]
    assert [row["content"] for row in again if row["role"] == "assistant"] == ["Reply 3."]
    assert [row["content"] for row in again if row["role"] == "user"] in ([], ["Three."])


@pytest.mark.skipif(
    WRITES_EARLY, reason="this host has written the request by then, and what it shows may end with that"
)
def test_turns_that_only_the_list_lost_are_not_taken_back(terminal: Running) -> None:
    """`/retry` writes the request twice, so `/undo 2` empties the list; the host's file may keep the first turn."""
    _, home, host = terminal.talk(Turns(lambda turn: [Reply(f"Reply {turn}.")]))
    session = host.cli()["session_id"]
    for text in ("One.", "Two.", "/retry", "/undo 2", "Three."):
        host.cli_say(text=text)
    gone = {row["content"] for row in stored_rows(host, session) if "retracted" in row.get("flags", ())}
    hidden = home.query("SELECT content FROM messages WHERE session_id = ? AND active = 0", session)

    assert gone == {content for (content,) in hidden}


def test_the_plugin_leaves_by_its_own_command(tmp_path: Path) -> None:
    """The link in the plugins folder is the folder that runs: it goes, and the answer is shown all the same."""
    home = Home.make(tmp_path / "home", "http://127.0.0.1:9/v1")
    link = home.path / "plugins" / "hermes-lcm"
    assert link.is_symlink()
    done = home.hermes("lcm", "uninstall", "--apply")

    assert (done.returncode, done.stderr) == (0, "")
    assert "Restart Hermes." in done.stdout
    assert not link.is_symlink()
    gone = home.hermes("lcm", "status")
    assert (gone.returncode, "'lcm'" in gone.stderr) == (2, True)
