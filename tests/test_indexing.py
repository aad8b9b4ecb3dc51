"""A large message is stored in its turn and indexed behind it; the first search finds it all the same (P1, P7)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from world import World, chat

from hermes_lcm.errors import StoreBusy
from hermes_lcm.records import Scope
from hermes_lcm.store import LATER_CHARS
from hermes_lcm.text import words

NEEDLE = "quokka-7731"


def large(needle: str = NEEDLE) -> dict[str, Any]:
    """A tool's output with one word of its own in the middle."""
    rng = random.Random(needle)
    lines = [f"line {n} of a log {rng.randrange(10**6)}" for n in range(2 * LATER_CHARS // 25)]
    lines.insert(len(lines) // 2, f"here is {needle} at last")
    return {"role": "user", "content": "\n".join(lines)}


def search(world: World, query: str) -> list[int]:
    found = world.runtime.index.search(words.parse(query), scope=Scope(), limit=10)
    return [hit.store_id for hit in found.hits]


def indexed(world: World, word: str) -> int:
    """Index rows that hold a word."""
    sql = "SELECT count(*) FROM message_index WHERE message_index MATCH ?"
    return int(world.db.query(sql, (f'"{word}"',))[0][0])


def stored(tmp_path: Path, **settings: Any) -> World:
    world = World(tmp_path, **settings)
    messages = [*chat().turns(2), large(), {"role": "assistant", "content": "I see"}]
    world.take(messages)
    assert world.stored() == messages
    return world


def test_a_large_message_waits_and_its_neighbours_do_not(tmp_path: Path) -> None:
    """What a turn waits for is that it is on disk."""
    world = stored(tmp_path)
    assert world.runtime.index.waiting.ids() == [5]
    assert indexed(world, NEEDLE) == 0
    assert indexed(world, "see") == 1


def test_the_first_search_finds_it(tmp_path: Path) -> None:
    """Whatever the worker has done until then."""
    world = stored(tmp_path)
    assert search(world, NEEDLE)[0] == 5
    assert world.runtime.index.waiting.ids() == []


def test_the_worker_indexes_it_behind_the_turn(tmp_path: Path) -> None:
    """Nobody need search for that."""
    world = stored(tmp_path)
    world.runtime.upkeep.between_turns()
    assert (indexed(world, NEEDLE), world.runtime.index.waiting.ids()) == (1, [])


def test_the_next_process_indexes_what_one_that_was_killed_has_left(tmp_path: Path) -> None:
    """That it waits is a fact of the transaction that stored it."""
    stored(tmp_path)
    again = World(tmp_path)
    assert search(again, NEEDLE)[0] == 5


def test_it_is_indexed_once_whoever_does_it(tmp_path: Path) -> None:
    """Two processes that find it waiting, and a rebuild meanwhile."""
    world = stored(tmp_path)
    index, rows = world.runtime.index, []

    def entries(ids: Any) -> Any:
        rows.extend(world.runtime.view_store.rows(ids))
        World(tmp_path).runtime.view_store.index_waiting()  # the other one is faster
        return [entry for batch in world.runtime.view_store.index_rows() for entry in batch if entry.store_id in ids]

    index.catch_up(entries)
    assert (len(rows), indexed(world, NEEDLE)) == (1, 1)
    assert index.check(deep=True) == []

    world.take([*world.stored(), large("numbat-9")])
    world.runtime.rebuild_indexes()
    world.runtime.upkeep.between_turns()
    assert indexed(world, "numbat-9") == 1
    assert index.check(deep=True) == []


def test_the_doctor_does_not_miss_it(tmp_path: Path) -> None:
    """It is late, not lost."""
    world = stored(tmp_path)
    assert world.runtime.index.check() == []


def test_a_search_goes_on_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says what it did not search."""
    world = stored(tmp_path)

    def locked() -> None:
        raise StoreBusy("the database is locked")

    monkeypatch.setattr(world.runtime.index, "behind", locked)
    found = world.runtime.index.search(words.parse("see"), scope=Scope(), limit=10)
    assert found.hits
    assert any("not indexed yet" in note for note in found.notes)
