"""What a turn costs depends on the list that is shown, not on how much was said before (P6)."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_background import FLOOR, prepared, turn_ends
from test_rewrites import looked, twice
from test_upkeep import GC, talk
from worlds.home import Home
from worlds.process import WAIT_S, Chat, Script, World, chat

from hermes_lcm.compaction.backoff import Cooldown
from hermes_lcm.dag import fingerprint
from hermes_lcm.records import EXTRACT_RUNG, NewNode, Summary, SummaryTask
from hermes_lcm.storage.connection import READER_CACHE_KB, WRITER_CACHE_KB, marks, padded
from hermes_lcm.text import content


def steps(world: World, job: Callable[[], Any]) -> int:
    """How many steps SQLite takes for it, on both connections."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    world.db.open()
    connections = [world.db._reader, world.db._writer]
    for connection in connections:
        assert connection is not None
        connection.set_progress_handler(step, 1)
    try:
        job()
    finally:
        for connection in connections:
            assert connection is not None
            connection.set_progress_handler(None, 1)
    return count


# -- what is read ------------------------------------------------------------------------------------------------------
def leaves(world: World, first: int, stop: int) -> None:
    """Leaves over one message each."""
    for n in range(first, stop):
        world.dag.add(NewNode(1, 0, "verified", "text " * 300, "", 5, 50, (n,), fingerprint(0, [n])), now=1.0)


def test_the_search_for_ready_leaves_reads_no_others(tmp_path: Path) -> None:
    """Those that begin at a message of the backlog; a long conversation has thousands that do not."""
    world = World(tmp_path)
    world.take(chat().turns(200))
    backlog = list(range(381, 401))
    leaves(world, 390, 395)
    before = steps(world, lambda: world.dag.leaves_from(1, backlog))
    leaves(world, 1, 300)

    assert len(world.dag.leaves_from(1, backlog)) == 5
    assert steps(world, lambda: world.dag.leaves_from(1, backlog)) <= before + 20


def test_transcript_gc_looks_at_results_in_files_only(tmp_path: Path) -> None:
    """It looks after every turn: rows that have no file are not even passed over."""
    world = World(tmp_path, **GC)
    live = talk(world)
    before = steps(world, lambda: world.store.collectable(after=0, limit=50))
    world.take(live.turns(200))

    assert world.store.collectable(after=0, limit=50) == [3]
    assert steps(world, lambda: world.store.collectable(after=0, limit=50)) <= before + 20


def test_a_block_is_written_anew_without_a_look_at_the_others(tmp_path: Path) -> None:
    """A purge of one session read a million rows for each block, while every turn waited half a second."""
    took = []
    for count in (40, 640):
        world = World(tmp_path / str(count))
        store, live = world.store, chat()
        for turns in (count, 2):  # the last block is of four messages
            world.take(live.turns(turns, first=len(live)))
            while store.packer.pack(newest=0, least_bytes=1):
                pass
        last = len(live)
        (row,) = store.rows([last])
        others = store.rows([last - 1])
        again = partial(store.rewrite, [(row.head, content.read_message(row.stored_json))])
        took.append(steps(world, again))
        assert store.rows([last - 1]) == others
        assert world.db.query(f"SELECT typeof(envelope) FROM messages WHERE store_id = {last}") == [("integer",)]

    assert took[1] < 2 * took[0]


def test_work_ahead_of_a_long_conversation_reads_no_more(tmp_path: Path) -> None:
    """The same live list with three times the history behind it. Rows are packed in some rounds only, hence the median."""
    world = World(tmp_path, Script("ok"), leaf_chunk_tokens=FLOOR, fresh_tail_count=8, condensation_fanin=4)
    live, took = Chat(), []

    def work() -> None:
        turn_ends(world, live)
        assert world.preparer.idle(WAIT_S)

    for n in range(24):
        live.turns(25, first=25 * n)
        world.take(live)
        took.append(steps(world, work))
        live[:] = world.compact(live, threshold=4000)

    assert world.counts()["messages"] == 24 * 50
    assert median(took[-8:]) <= 1.2 * median(took[3:11])


class Read(dict[str, Any]):
    """A message of the host that counts how often somebody looks inside."""

    looks = 0

    def __getitem__(self, key: str) -> Any:
        Read.looks += 1
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        Read.looks += 1
        return super().get(key, default)


def one_round(world: World, live: list[dict[str, Any]], n: int) -> tuple[int, int]:
    """What one tool round more takes, as the request hook sees it: (looks into messages, steps of SQLite)."""
    live.extend(Read(message) for message in chat().rounds(1, first=n))
    Read.looks = 0
    session = world.session()
    taken = steps(world, lambda: world.ingest.ingest_list(session, [*live], source="test", thorough=False))
    return Read.looks, taken


def test_a_tool_round_costs_the_same_in_a_long_list(tmp_path: Path) -> None:
    """The request hook looks at the newest messages only, and stores the new ones; everything else is the very same object."""
    costs = []
    for count in (200, 1000):
        world = World(tmp_path / str(count))
        live: list[dict[str, Any]] = [Read(message) for message in chat().turns(count)]
        world.take(live)
        one_round(world, live, 0)
        costs.append([one_round(world, live, n) for n in range(1, 9)])
    short, long = costs

    assert [looks for looks, _ in short] == [looks for looks, _ in long]
    assert median(taken for _, taken in long) <= 1.2 * median(taken for _, taken in short)


def test_a_look_for_too_large_messages_costs_the_same_in_a_long_list(tmp_path: Path) -> None:
    """Once a turn, while the user waits: what was looked at in the turn before was not too large."""
    looks = []
    for count in (200, 1000):
        world = World(tmp_path / str(count))
        live: list[dict[str, Any]] = [Read(message) for message in chat().turns(count)]
        world.runtime.oversized.look("s", live, world.take(live), 10_000, 1.0)
        live.extend(Read(message) for message in chat().turns(1, first=count))
        transcript, Read.looks = world.take(live), 0
        world.runtime.oversized.look("s", live, transcript, 9_000, 1.0)
        looks.append(Read.looks)

    assert looks[0] == looks[1] > 0


def test_a_longer_list_copies_nothing_of_what_is_known_of_the_shorter_one(tmp_path: Path) -> None:
    """And what was known of the shorter one stays as it was."""
    world = World(tmp_path)
    live = chat().turns(50)
    before = world.take(live)
    after = world.take(live.user("one more"))

    assert after.entries._shared is before.entries._shared
    assert (len(before.entries), len(after.entries)) == (100, 101)
    assert [*before.entries] == [*after.entries][:100]


def test_lists_that_part_do_not_share_what_comes_behind(tmp_path: Path) -> None:
    """An /undo leads to another list; the transcript of the first one is still what it was."""
    world = World(tmp_path)
    live = chat().turns(5)
    before = world.take(live)
    shown = [*before.entries]
    after = world.take([*live[:-2], {"role": "user", "content": "something else"}])

    assert [*before.entries] == shown
    assert [*after.entries][:8] == shown[:8]
    assert after.entries[8] != shown[8]


# -- what is held ------------------------------------------------------------------------------------------------------
def test_each_connection_holds_a_fixed_part_of_the_file(tmp_path: Path) -> None:
    """However large it is."""
    world = World(tmp_path)
    world.take(chat().turns(1))
    limits = [world.db.query("PRAGMA cache_size")[0][0]]
    with world.db.transaction():
        limits.append(world.db.fetch("PRAGMA cache_size")[0][0])

    assert limits == [-READER_CACHE_KB, -WRITER_CACHE_KB]
    assert READER_CACHE_KB + WRITER_CACHE_KB <= 10_000


@given(st.lists(st.integers(), max_size=600))
def test_lists_of_all_lengths_are_asked_for_in_few_statements(values: list[int]) -> None:
    """Padded with what is equal to nothing: 1, 2, 4, 8, ... of them."""
    longer = padded(values)
    assert [value for value in longer if value is not None] == values
    assert len(longer) in {0, *(2**n for n in range(11))}
    assert len(longer) < 2 * max(len(values), 1)
    assert marks(len(longer)).count("?") == len(longer)


def test_a_connection_keeps_few_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of all lengths make ever new ones, and large ones take much memory."""
    kept, connect = [], sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *a, **facts: kept.append(facts.get("cached_statements")) or connect(*a, **facts)
    )
    Home(tmp_path).say("hello")  # which makes the file

    assert len(kept) >= 2
    assert all(number is not None and number <= 64 for number in kept[:2])


def test_blocks_are_held_once(tmp_path: Path) -> None:
    """The three views of the stored messages share what was unpacked."""
    runtime = World(tmp_path).runtime

    assert runtime.store.blocks is runtime.whole_store.blocks is runtime.view_store.blocks


def test_stubs_of_what_left_the_list_are_forgotten(tmp_path: Path) -> None:
    """A session that goes on for weeks stubs thousands of results; only those in the list are held."""
    world = World(tmp_path)
    looked(world, twice())
    live = twice()
    for message in live:
        message["content"] = f"{message['content']} again" if message["content"] else ""
    looked(world, live)

    held = world.runtime.superseded._stubs["s"]
    assert set(held) == {entry.ids[0] for entry in world.take(live).entries[2:3]}


def test_what_failed_is_left_alone_for_a_time_and_not_held_for_ever() -> None:
    """Runs that no model condensed are tried again, and do not pile up."""
    now = [0.0]
    refused = Cooldown[int](900.0, lambda: now[0])
    for n in range(20):
        refused.give_up(n)
        now[0] += 225.0

    assert len(refused) <= 8
    assert refused.waits(19)
    assert not refused.waits(0)


# -- extracts that the user chose ---------------------------------------------------------------------------------------
class Extracting(Script):
    """What the ladder does when no model is to be asked."""

    def __call__(self, task: SummaryTask, **_: Any) -> Summary:
        self.tasks.append(task)
        said = self.summary(task, "provisional", f"Extract of {task.lines[0].address}")
        return Summary(said.text, said.expand_hint, said.quality, EXTRACT_RUNG, "", "{}", said.tokens)

    summarise = __call__


def extracting(folder: Path, model: Script) -> World:
    return World(folder, model, leaf_chunk_tokens=FLOOR, fresh_tail_count=8, summary_model="extractive")


def test_prepared_extracts_are_adopted(tmp_path: Path) -> None:
    """They were written once, all of them, and the compaction shows them: no message is extracted a second time."""
    world = extracting(tmp_path, Extracting())
    live = chat().turns(80)
    first = prepared(world, live)
    again = prepared(world, live.turns(3, first=200))
    compacted = world.compact(live, threshold=4000)

    assembly = world.take(compacted).assembly
    assert len(first) > 1
    assert again == first
    assert max(Counter(line.address for task in world.model.tasks for line in task.lines).values()) == 1
    assert assembly is not None
    assert {node.node_id for node in first} <= set(assembly.roots)
    assert world.gaps(compacted) == ([], [])


def test_extracts_are_not_adopted_when_a_model_is_chosen(tmp_path: Path) -> None:
    """Then they are stand-ins that a model did not write (P5)."""
    live = chat().turns(80)
    world = extracting(tmp_path, Extracting())
    prepared(world, live)
    world.preparer.stop()
    world.db.close()
    world = World(tmp_path, Script("ok"), leaf_chunk_tokens=FLOOR, fresh_tail_count=8)
    compacted = world.compact(live, threshold=4000)

    assembly = world.take(compacted).assembly
    assert assembly is not None
    assert {node.quality for node in world.dag.nodes(assembly.roots)} == {"verified"}
