"""Conversations that an earlier version took for the terminal's: found by what the host knows, and given to their owners."""

from __future__ import annotations

from pathlib import Path

import pytest
from worlds.home import Home
from worlds.host import Clock, HostDb

from hermes_lcm.command import answer
from hermes_lcm.dag import fingerprint
from hermes_lcm.ops.doctor.checks import doctor
from hermes_lcm.records import NewNode

KEY = "agent:main:telegram:dm:666"


@pytest.fixture
def world(tmp_path: Path) -> Home:
    """A chat, the same handed over, and a terminal's session: all of them the terminal's here."""
    made, host_db = Home(tmp_path), HostDb(tmp_path, Clock())
    for name in ("chat", "handed", "term"):
        made.say("a word", "another", session=name)
    host_db.begin("chat", "telegram", session_key=KEY)
    host_db.begin("handed", "telegram", session_key=KEY)
    host_db.begin("term", "cli")
    host_db.db._conn.execute("UPDATE sessions SET handoff_state = 'completed' WHERE id = 'handed'")
    host_db.db._conn.commit()
    return made


def owner(world: Home, session: str) -> str:
    found = world.runtime.sessions.find(session)
    assert found is not None
    return found.principal


def test_the_doctor_lists_what_was_claimed_by_a_guess(world: Home) -> None:
    """By name, with the owner that the host knows. What was handed over to a chat is no guess."""
    said = next(each for each in doctor(world.deps(None, trusted=True))["checks"] if each["check"] == "owners")

    assert said["status"] == "warn"
    assert said["data"]["sessions"] == [{"session_id": "chat", "owner": "telegram:dm:666"}]


def test_a_repair_gives_it_to_its_owner_after_a_dry_run(world: Home) -> None:
    """With a backup, and without the summaries of the terminal that were carried into it."""
    term, chat = (world.runtime.sessions.find(name) for name in ("term", "chat"))
    assert term is not None
    assert chat is not None
    node = NewNode(term.conversation_id, 0, "verified", "of the terminal", "", 3, 9, (5, 6), fingerprint(0, (5, 6)))
    world.runtime.sessions.carry(chat.conversation_id, [world.runtime.dag.add(node, now=1.0).node_id])
    dry = answer("doctor repair", world.deps(None, trusted=True))
    before = owner(world, "chat")
    done = answer("doctor repair apply", world.deps(None, trusted=True))
    again = answer("doctor repair", world.deps(None, trusted=True))

    assert (before, owner(world, "chat")) == ("local", "telegram:dm:666")
    assert (owner(world, "handed"), owner(world, "term")) == ("local", "local")
    assert "chat" in dry.text
    assert "Dry run" in dry.text
    assert done.data["kept"]
    assert again.data["owners"] == []
    assert world.runtime.sessions.carried(chat.conversation_id) == []


def test_without_the_hosts_database_nothing_is_a_guess(tmp_path: Path) -> None:
    """Nobody knows better then."""
    made = Home(tmp_path)
    made.say("a word")

    assert answer("doctor repair", made.deps(None, trusted=True)).data["owners"] == []
