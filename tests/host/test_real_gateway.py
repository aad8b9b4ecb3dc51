"""Chats through the real gateway: its sessions, its cached agents, its slash commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from host.drive import WINDOW, Home, all_rows, compare, stored_rows
from host.model_server import REVIEW, ModelServer, Reply, Turns
from host.scripts import busy_turn, long_turn, sayings

pytestmark = pytest.mark.host


@pytest.mark.parametrize(
    "in_place", [pytest.param(True, id="in-place"), pytest.param(False, id="rotating", marks=pytest.mark.slow)]
)
def test_each_message_of_a_chat_is_stored_once(tmp_path: Path, in_place: bool) -> None:
    """Eight turns with three compactions, background reviews, and the agent rebuilt in between."""
    with ModelServer(Turns(busy_turn), limit=WINDOW) as model:
        home = Home.make(tmp_path / "home", model.base_url, in_place=in_place, review_every=2)
        with home.process() as host:
            host.gateway()
            sessions = []
            for turn in range(8):
                if turn == 5:
                    host.wait_reviews()
                    host.gateway_evict()
                done = host.gateway_say(text=model.says(sayings(turn)))
                assert (done["engine"], done["reply"]) == ("lcm", f"Done with turn {turn}.")
                sessions.append(done["session_id"])
            host.wait_reviews()
            rows = all_rows(host, sessions[-1])
            compactions = host.compactions()

    assert compactions >= 3
    assert (len(set(sessions)) == 1) is in_place
    assert not (difference := compare(home.transcript(model.truth), rows)), difference
    assert model.of_kind("review"), "no background review ran, so nothing was shown about it"
    assert not [row for row in rows if REVIEW in str(row["content"])]


def test_a_first_turn_longer_than_the_window(tmp_path: Path) -> None:
    """The gateway writes its clean version of the request over whatever stands at the request's old place in the list."""
    with ModelServer(Turns(lambda turn: long_turn(14) if not turn else []), limit=WINDOW) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        with home.process() as host:
            host.gateway()
            for turn in range(3):
                done = host.gateway_say(text=model.says(sayings(turn)))
            rows = all_rows(host, done["session_id"])
            compactions = host.compactions()

    assert compactions
    assert not (difference := compare(home.transcript(model.truth), rows)), difference


def test_chats_of_one_process_do_not_mix(tmp_path: Path) -> None:
    """Two people talk in turns, one of them starts anew: three sessions, each with its own messages."""
    with ModelServer(Turns(lambda turn: [Reply(f"Reply {turn}.")])) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        said: dict[str, list[str]] = {}
        with home.process() as host:
            host.gateway()
            for number, chat in enumerate(["1", "2", "1", "2", "1"]):
                if number == 4:
                    host.gateway_say(text="/new", chat=chat, user=chat)
                done = host.gateway_say(text=f"Message {number}", chat=chat, user=chat)
                said.setdefault(done["session_id"], []).extend([f"Message {number}", f"Reply {number}."])
            found = {}
            for chat, session in zip("121", said, strict=True):
                host.gateway_say(text="/help", chat=chat, user=chat)  # each chat reads with its own agent
                found[session] = [row["content"] for row in stored_rows(host, session)]

    assert len(said) == 3
    assert found == said
