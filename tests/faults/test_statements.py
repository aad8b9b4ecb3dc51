"""Fail statement 1, 2, 3 ... of every write until it gets through: no attempt leaves a trace (P2, P10)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worlds.process import Chat, World, chat, digests, texts

from hermes_lcm.dag import fingerprint
from hermes_lcm.errors import StoreError, StoreFull
from hermes_lcm.records import Flag, NewNode
from hermes_lcm.store import NewRow
from hermes_lcm.text import content

MOST = 400  # statements; a write that needs more has gone wrong


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.take(chat().turns(4))
    return world


def until_it_succeeds(world: World, act: Callable[[], Any]) -> int:
    """Let every statement fail once; after each failure nothing may have changed. How many statements it took."""
    for number in range(1, MOST):
        before = world.counts(), digests(world.stored()), len(world.flagged(Flag.RETRACTED))
        with world.failing_at(number) as tried:
            try:
                act()
            except StoreError:
                after = world.counts(), digests(world.stored()), len(world.flagged(Flag.RETRACTED))
                assert after == before, f"statement {number} left a trace"
                continue
            return tried()
    raise AssertionError("it never succeeds")


def test_append_is_one_fact(world: World) -> None:
    """Rows, index entries and flags come together or not at all."""
    session = world.session()
    rows = [NewRow(content.read_message(message)) for message in chat().turns(3, first=10)]

    def append() -> list[int]:
        return world.store.append(
            session.conversation_id, "s", 8, rows, source="t", now=1.0, retract=[7, 8], restore=[]
        )

    assert until_it_succeeds(world, append) > 3
    assert world.counts()["messages"] == 14
    assert len(world.flagged(Flag.RETRACTED)) == 2


def test_a_list_is_taken_as_one_fact(world: World) -> None:
    """Whatever statement fails, the same call stores everything once when it gets through."""
    messages = chat().turns(4)
    messages[3] = {**messages[3], "content": "edited"}
    messages = Chat([*messages[:6], *chat().user("another way").rounds(2)])

    assert until_it_succeeds(world, lambda: world.take(messages)) > 3
    assert digests(world.thread()) == digests(messages)
    assert len(world.stored()) == 8 + 1 + 7


def test_a_new_session_is_one_fact(world: World) -> None:
    """No conversation without its session."""
    assert until_it_succeeds(world, lambda: world.session("new")) >= 2


def test_a_node_is_one_fact(world: World) -> None:
    """Node, sources and index entry come together."""
    node = NewNode(
        world.session().conversation_id, 0, "verified", "text", "hint", 5, 50, (1, 2, 3), fingerprint(0, (1, 2, 3))
    )

    assert until_it_succeeds(world, lambda: world.dag.add(node, now=1.0)) >= 3
    assert world.dag.sources(1) == [1, 2, 3]


def test_an_assembly_is_one_fact(world: World) -> None:
    """A prompt is recorded or not."""
    conversation_id = world.session().conversation_id

    def publish() -> int:
        return world.dag.publish(conversation_id, "s", [], [1, 2], last_seq=8, last_pos=8.0, now=1.0)

    assert until_it_succeeds(world, publish) >= 1


def test_a_compaction_that_fails_anywhere_is_repeated_without_harm(world: World) -> None:
    """Whatever statement of a whole pass fails: no message changes, and the pass that succeeds is complete."""
    messages = chat().turns(4).turns(30, first=10)
    world.take(messages)
    for number in range(1, MOST):
        with world.failing_at(number):
            try:
                compacted = world.compact(messages)
            except StoreError:
                assert digests(world.stored()) == digests(messages)
                continue
            break
    assert world.gaps(compacted) == ([], [])
    assert world.counts()["node_index"] == world.counts()["nodes"]
    assert all(world.dag.sources(node.node_id) for node in world.nodes())


def test_a_full_disk_in_the_middle_of_a_pass_leaves_the_old_list_valid(world: World) -> None:
    """The host goes on with its own list; the next pass covers it."""
    messages = chat().turns(4).turns(30, first=10)
    with world.failing_at(6, StoreFull("no room")), pytest.raises(StoreError):
        world.compact(messages)
    messages.turns(3, first=60)
    world.take(messages)

    assert texts(world.stored()) == texts(messages)
    assert world.gaps(world.compact(messages)) == ([], [])


def test_the_process_may_end_between_any_two_statements(tmp_path: Path) -> None:
    """A restart after each failure: the next process finds a consistent file."""
    messages = chat().turns(30)
    world, number = World(tmp_path), 0
    while True:
        number += 1
        with world.failing_at(number):
            try:
                compacted = world.compact(messages)
                break
            except StoreError:
                pass
        world = world.restart()
        assert world.stored() in ([], messages)
    world = world.restart()

    assert world.gaps(compacted) == ([], [])


@pytest.mark.parametrize("table", ["messages", "node_sources"])
def test_what_was_stored_is_not_changed_by_anything_later(world: World, table: str) -> None:
    """Compactions, restarts and undo add rows and flags; nothing that was said changes (P2)."""
    columns = "store_id, seq, pos, role, digest, envelope, revises" if table == "messages" else "*"
    live = world.compact(chat().turns(4).turns(30, first=10))
    before = world.db.query(f"SELECT {columns} FROM {table} ORDER BY 1, 2")
    live = world.compact(live.turns(30, first=100))
    world = world.restart()
    world.compact(Chat(live[:-2]).turns(30, first=200))

    assert world.db.query(f"SELECT {columns} FROM {table} ORDER BY 1, 2")[: len(before)] == before
