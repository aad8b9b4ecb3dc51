"""A large message is stored in its turn and indexed behind it, and found all the same (P1, P7); numbers of index rows."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.process import World, chat

from hermes_lcm import store as store_module
from hermes_lcm.dag import fingerprint
from hermes_lcm.errors import StoreBusy
from hermes_lcm.ops.doctor.content import index_problems
from hermes_lcm.records import Flag, NewNode, Scope
from hermes_lcm.search import documents
from hermes_lcm.search import query as words
from hermes_lcm.search.index import MessageIndex
from hermes_lcm.storage.files import silent
from hermes_lcm.storage.meta import Meta

NEEDLE = "quokka-7731"


@pytest.fixture(autouse=True)
def large_is_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the size from which on a message is indexed behind its turn: all the same happens, sooner."""
    monkeypatch.setattr(store_module, "LATER_CHARS", store_module.LATER_CHARS // 10)


def large(needle: str = NEEDLE) -> dict[str, Any]:
    """A tool's output with one word of its own in the middle."""
    rng = random.Random(needle)
    lines = [f"line {n} of a log {rng.randrange(10**6)}" for n in range(2 * store_module.LATER_CHARS // 25)]
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
    assert world.runtime.index.documents.waiting() == [5]
    assert indexed(world, NEEDLE) == 0
    assert indexed(world, "see") == 1


def test_the_first_search_finds_it(tmp_path: Path) -> None:
    """Whatever the worker has done until then."""
    world = stored(tmp_path)
    assert search(world, NEEDLE)[0] == 5
    assert world.runtime.index.documents.waiting() == []


def test_the_worker_indexes_it_behind_the_turn(tmp_path: Path) -> None:
    """Nobody need search for that."""
    world = stored(tmp_path)
    world.runtime.upkeep.between_turns()
    assert (indexed(world, NEEDLE), world.runtime.index.documents.waiting()) == (1, [])


def test_the_next_process_indexes_what_one_that_was_killed_has_left(tmp_path: Path) -> None:
    """That it waits is a fact of the transaction that stored it."""
    stored(tmp_path)
    again = World(tmp_path)
    assert search(again, NEEDLE)[0] == 5


def test_it_is_indexed_once_whoever_does_it(tmp_path: Path) -> None:
    """Two processes that find it waiting, and a rebuild meanwhile."""
    world = stored(tmp_path)
    index, rows = world.runtime.index, []

    def entry(store_id: int) -> Any:
        rows.append(store_id)
        World(tmp_path).runtime.view_store.index_waiting()  # the other one is faster
        return world.runtime.view_store.late_entry(store_id)

    index.documents.catch_up(entry, seconds=60)
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


def test_a_search_goes_on_where_nothing_can_be_written(tmp_path: Path) -> None:
    """And says what it did not search."""
    world = stored(tmp_path)

    def locked() -> int:
        raise StoreBusy("the database is locked")

    found = MessageIndex(world.db, behind=locked).search(words.parse("see"), scope=Scope(), limit=10)
    assert found.hits
    assert any("not indexed yet" in note for note in found.notes)


# -- many of them -----------------------------------------------------------------------------------------------------
def several(tmp_path: Path, count: int = 3) -> World:
    world = World(tmp_path)
    world.take([large(f"numbat-{n}") for n in range(count)])
    return world


def test_others_can_write_between_two_of_them(tmp_path: Path) -> None:
    """Five of 5 MB in one transaction made every other process wait in vain for the lock."""
    world, other = several(tmp_path), World(tmp_path)
    left: list[int] = []

    def entry(store_id: int) -> Any:
        other.take([{"role": "user", "content": f"a turn of another process, when {store_id} was due"}])
        left.append(len(other.runtime.index.documents.waiting()))
        return world.runtime.view_store.late_entry(store_id)

    assert world.runtime.index.documents.catch_up(entry, seconds=60) == 0
    assert left == [3, 2, 1]


def test_a_search_waits_for_some_of_them_only_and_says_so(tmp_path: Path) -> None:
    """The newest first; the next search goes on where this one stopped."""
    world = several(tmp_path)
    store = world.runtime.view_store
    index = MessageIndex(world.db, behind=lambda: store.index_waiting(seconds=0))

    found = index.search(words.parse("numbat-0"), scope=Scope(), limit=10)
    assert index.documents.waiting() == [1, 2]
    assert any("not searched: 2 large" in note for note in found.notes)
    assert search(world, "numbat-2")[0] == 3
    assert search(world, "numbat-0")[0] == 1


def test_one_that_is_gone_is_waited_for_no_longer(tmp_path: Path) -> None:
    """An operator has deleted it."""
    world = several(tmp_path)
    with world.db.transaction():
        world.db.execute("DELETE FROM messages WHERE store_id = 2")

    assert world.runtime.view_store.index_waiting() == 0
    assert world.runtime.index.documents.waiting() == []
    assert world.runtime.index.check(deep=True) == []


def test_a_list_that_is_none_stops_nobody(tmp_path: Path) -> None:
    """Damage in a cache is no reason to refuse a turn or a search; the doctor misses what is not indexed."""
    world = several(tmp_path)
    Meta(world.db).note("index_waiting", "rubbish")

    assert search(world, "numbat-0") == []
    assert world.runtime.index.check() == ["messages missing from the search index: 3"]
    world.take([*world.stored(), large()])
    assert search(world, NEEDLE)[0] == 4


# -- what cannot be read ----------------------------------------------------------------------------------------------
FILES = {
    "large_output_externalization_enabled": True,
    "large_output_externalization_threshold_chars": 2000,
    "large_output_transcript_gc_enabled": True,
}


def in_a_file(tmp_path: Path) -> tuple[World, Path, Path]:
    """A large result in a payload file, which somebody has moved away before it was indexed; where it was and is."""
    world = World(tmp_path, **FILES)
    world.take(chat().user("look").calls("a").results("a", text=large()["content"]).says("I see"))
    folder = world.runtime.payloads.folder
    return world.restart(), folder, folder.rename(tmp_path / "away")


def problems(world: World) -> list[str]:
    runtime = world.runtime
    deps: Any = type("Deps", (), {})()
    deps.db, deps.index, deps.node_index, deps.store = world.db, runtime.index, runtime.node_index, runtime.view_store
    deps.progress = silent
    return index_problems(deps, deep=True)


def test_what_cannot_be_read_goes_on_waiting_and_the_doctor_says_so(tmp_path: Path) -> None:
    """Indexed by its placeholder it would never be found, and nobody would know."""
    world, folder, away = in_a_file(tmp_path)
    assert search(world, NEEDLE) == []
    assert problems(world) == ["messages that wait for the search index and cannot be read: 1"]

    away.rename(folder)
    assert search(world, NEEDLE)[0] == 3
    assert problems(world) == []


@pytest.mark.parametrize("meanwhile", ["searched", "rebuilt"])
def test_what_was_indexed_without_its_file_can_be_collected_later(tmp_path: Path, meanwhile: str) -> None:
    """Words are taken out of the index only if they were put in: SQLite calls anything else a malformed database."""
    world, folder, away = in_a_file(tmp_path)
    if meanwhile == "rebuilt":
        world.runtime.rebuild_indexes()
    search(world, NEEDLE)
    away.rename(folder)
    world = world.restart()
    world.dag.add(NewNode(1, 0, "verified", "text", "", 5, 50, (3,), fingerprint(0, (3,))), now=1.0)
    world.runtime.upkeep.between_turns()

    assert world.db.query("SELECT store_id FROM messages WHERE flags & ?", (Flag.COLLECTED,)) == [(3,)]
    assert (problems(world), indexed(world, NEEDLE)) == ([], 0)


def context_of(world: World) -> list[tuple[Any, ...]]:
    """Every word of the index: in how many index rows, and how often."""
    return world.db.query("SELECT term, doc, cnt FROM message_terms ORDER BY term")


PAYLOAD = "data:application/pdf;base64," + "QUJD" * 400


@pytest.mark.parametrize(
    "in_front", ["a word at its end: zorilla", PAYLOAD, b"zorilla", [{"type": "text", "text": "a zorilla"}]]
)
def test_what_is_indexed_does_not_depend_on_what_the_process_remembers(tmp_path: Path, in_front: Any) -> None:
    """A short message is indexed with the end of the one before it, whoever stored that one."""
    messages: list[dict[str, Any]] = []
    one, other = World(tmp_path / "one"), World(tmp_path / "other")
    for content in ("hello", in_front, "and now?", "what else?"):
        messages = [
            *messages,
            {"role": "user", "content": content},
            {"role": "assistant", "content": f"answer to {len(messages)}"},
        ]
        for length in (len(messages) - 1, len(messages)):
            one.take(messages[:length])
            other = other.restart()
            other.take(messages[:length])

    assert context_of(one) == context_of(other)


def test_the_end_of_a_message_that_another_process_stored_is_read(tmp_path: Path) -> None:
    """What this process remembers of a conversation's end is not believed when that is another row by now."""
    messages = [*chat().user("hello").says("a word at its end: zorilla")]
    world = World(tmp_path)
    world.take(messages[:1])
    beside = World(tmp_path)
    beside.take(messages)
    world.take([*messages, {"role": "user", "content": "go on"}])

    assert indexed(world, "zorilla") == 2
    assert indexed(world, "hello") == 2


@pytest.mark.parametrize(
    ("first", "settings"),
    [
        ("the key is api_key=sk-proj-Zq9xV2mK7pL4wR8tY3uB6nJ1cF5hD0gS", {"sensitive_patterns_enabled": True}),
        ("heartbeat Zq9xV2mK7pL4wR8tY3uB6nJ1cF5hD0gS", {"ignore_message_patterns": ("^heartbeat",)}),
    ],
)
def test_what_is_not_stored_is_not_indexed_with_the_next_message(tmp_path: Path, first: str, settings: Any) -> None:
    """A secret, or noise, at the end of a message that a new process meets again with something new behind it."""
    messages = chat().user("hello").user(first)
    world = World(tmp_path, **settings)
    world.take(messages)
    world = world.restart()
    world.take([*messages, {"role": "assistant", "content": "thank you"}])

    assert indexed(world, "thank") == 1
    assert [term for term, _, _ in context_of(world) if term.startswith("zq9x")] == []


INNER = json.dumps({"path": "C:\\new", "said": 'he "left"\n\tsmiling \u2603 \U0001f600 "quoted"'})
ANSWER = "Done.\n" + json.dumps({"output": f"one\ntwo {INNER}\nthree", "error": None, "note": "a\\b"})


def test_a_stretch_of_json_reads_as_the_whole_of_it_does() -> None:
    """Wherever it is cut, in an escape or in JSON within a string: whole lines and quotation marks, nothing twice."""
    whole = documents.as_read(ANSWER)
    for low in range(len(ANSWER)):
        for high in range(low, len(ANSWER) + 1):
            assert documents.stretch_as_read(ANSWER, low, high).rstrip("\ufffd") in whole, (low, high)

    assert documents.stretch_as_read(ANSWER, 0, len(ANSWER)) == whole


# ------------------------------------------------------------
# Rows of the search index have computed numbers: of one chunk of one message each, near those of the next message.

STORE_IDS = st.one_of(st.integers(0, 100_000), st.integers(0, documents.LAST_STORE_ID))
CHUNKS = st.integers(0, documents.MAX_CHUNKS - 1)


@pytest.fixture(scope="module")
def sql():
    with sqlite3.connect(":memory:") as connection:
        yield lambda expression, value: connection.execute(
            f"SELECT {expression.format('v')} FROM (SELECT ? AS v)", (value,)
        ).fetchone()[0]
    connection.close()


@given(STORE_IDS, CHUNKS)
def test_a_number_tells_its_message_and_its_chunk(sql, store_id, chunk):
    number = documents.chunk_id(store_id, chunk)
    assert 0 <= number < 2**62
    assert (sql(documents.STORE_ID_SQL, number), documents.chunk_of(number)) == (store_id, chunk)


@given(STORE_IDS)
def test_sql_knows_the_number_of_a_first_chunk(sql, store_id):
    assert sql(documents.FIRST_SQL, store_id) == documents.chunk_id(store_id, 0)


@given(STORE_IDS, st.integers(0, 1000), CHUNKS)
def test_a_range_of_messages_is_a_range_of_numbers(first_id, more, chunk):
    last_id = min(first_id + more, documents.LAST_STORE_ID)
    first, last = documents.rows_of(first_id, last_id)
    assert first <= documents.chunk_id(first_id, chunk) <= last
    assert first <= documents.chunk_id(last_id, chunk) <= last
    low, high = documents.messages_of(first, last)
    assert low <= first_id <= last_id <= high < low + more + 3 * 128


def test_no_two_chunks_of_neighbours_have_one_number():
    numbers = {documents.chunk_id(s, c) for s in range(300) for c in range(documents.MAX_CHUNKS)}
    assert len(numbers) == 300 * documents.MAX_CHUNKS


def test_first_chunks_of_messages_that_follow_each_other_lie_close_together_and_in_order():
    """What makes the index small: the distance to a message said up to 31 messages later takes one byte, mostly."""
    steps = [documents.chunk_id(n + 1, 0) - documents.chunk_id(n, 0) for n in range(1, 1000)]
    assert sum(step == 4 for step in steps) >= 0.99 * len(steps)
    assert all(step > 0 for step in steps)
