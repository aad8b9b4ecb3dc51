"""Work behind the turns: the log stays small, and folding it back waits for nobody; transcript GC loses nothing (P9, P10)."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from worlds.home import Home
from worlds.process import WAIT_S, Chat, World, chat

from hermes_lcm.command import run
from hermes_lcm.dag import fingerprint
from hermes_lcm.errors import StoreError
from hermes_lcm.records import Flag, NewNode, Scope
from hermes_lcm.runtime import Process
from hermes_lcm.search import query as words
from hermes_lcm.search.scope import Rights
from hermes_lcm.storage import connection, disk
from hermes_lcm.storage.connection import WORTH_LOG_BYTES, Database
from hermes_lcm.storage.payloads import Payloads
from hermes_lcm.text import blobs

OTHER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("SELECT count(*) FROM messages").fetchone()
for statement in sys.argv[2:]:
    db.execute(statement).fetchone()
print("ready", flush=True)
sys.stdin.readline()
"""
IDLE: tuple[str, ...] = ()
READING = ("BEGIN", "SELECT count(*) FROM messages")
WRITING = ("BEGIN IMMEDIATE",)


def log_bytes(world: World) -> int:
    log = world.db.path.with_name(world.db.path.name + "-wal")
    return log.stat().st_size if log.exists() else 0


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """``other(*statements)``: another process has the file open, and ran these."""
    running: list[subprocess.Popen[str]] = []

    def start(*statements: str) -> None:
        command = [sys.executable, "-c", OTHER, str(tmp_path / "lcm.db"), *statements]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

    def stop() -> None:
        while running:
            process = running.pop()
            process.kill()
            process.wait(10)

    start.stop = stop  # type: ignore[attr-defined]
    yield start
    stop()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Enough was stored for a log that is worth folding. Whoever waits for a lock waits long, so that it shows."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", round(WAIT_S * 1000))
    made = World(tmp_path)
    made.take(chat().user("go").rounds(400))
    assert log_bytes(made) > WORTH_LOG_BYTES
    return made


def test_the_log_is_gone_when_a_session_ends(world: World) -> None:
    """Nothing lies beside the file but an empty log."""
    world.runtime.ended()

    assert log_bytes(world) == 0


def test_another_process_that_has_the_file_open_keeps_no_log(world: World, other: Callable[..., None]) -> None:
    """As long as it is not reading."""
    other(*IDLE)
    world.runtime.ended()

    assert log_bytes(world) == 0


@pytest.mark.parametrize("statements", [READING, WRITING], ids=["reading", "writing"])
def test_folding_waits_for_no_other_process(
    world: World, other: Callable[..., None], statements: tuple[str, ...]
) -> None:
    """It is left to the next time, and that is no problem to tell of."""
    other(*statements)
    began = time.monotonic()
    world.db.optimise(log_bytes=0)
    took = time.monotonic() - began
    left = log_bytes(world)
    other.stop()  # type: ignore[attr-defined]
    world.db.optimise(log_bytes=0)

    assert took < WAIT_S / 2
    assert left > 0
    assert log_bytes(world) == 0


def unused(world: World) -> float:
    """The share of the pages of messages that holds nothing."""
    sql = "SELECT 1.0 * sum(unused) / sum(pgsize) FROM dbstat WHERE name = 'messages'"
    try:
        return float(world.db.query(sql)[0][0])
    except StoreError:
        pytest.skip("this build of SQLite has no dbstat")


def test_the_end_of_a_session_leaves_a_small_file_without_gaps(world: World) -> None:
    """It says what it said."""
    said = [row.stored_json for rows in world.store.row_batches() for row in rows]
    world.runtime.upkeep.between_turns()
    gaps = unused(world)
    world.runtime.ended()

    assert unused(world) < gaps
    assert unused(world) < 0.06
    assert [row.stored_json for rows in world.store.row_batches() for row in rows] == said
    assert world.db.query("PRAGMA integrity_check") == [("ok",)]


def test_a_large_file_is_not_written_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SMALL_FILE_BYTES", 100_000)
    world.runtime.upkeep.between_turns()
    world.db.optimise(log_bytes=0)
    gaps = unused(world)
    world.db.tighten()

    assert (unused(world), log_bytes(world)) == (gaps, 0)


def test_writing_anew_waits_for_no_other_process(world: World, other: Callable[..., None]) -> None:
    other(*WRITING)
    began = time.monotonic()
    world.db.tighten()

    assert time.monotonic() - began < WAIT_S / 2


def test_a_reader_elsewhere_keeps_nobody_from_writing(world: World, other: Callable[..., None]) -> None:
    """Messages are stored as before while the log cannot be folded."""
    other(*READING)
    world.db.optimise(log_bytes=0)
    began = time.monotonic()
    world.take(chat().user("go").rounds(420))

    assert time.monotonic() - began < WAIT_S / 2
    assert world.db.query("SELECT max(seq) FROM messages")[0][0] > 800


def test_the_log_stays_small_while_a_session_runs(tmp_path: Path) -> None:
    """What the worker does between turns is enough."""
    world = World(tmp_path)
    live = chat().user("go")
    sizes = []
    for _ in range(12):
        world.take(live.rounds(60))
        world.runtime.upkeep.between_turns()
        sizes.append(log_bytes(world))

    assert max(sizes) <= WORTH_LOG_BYTES


def test_a_small_log_is_left_alone_between_turns(tmp_path: Path) -> None:
    """Folding a few pages after every turn would only wear the disk."""
    world = World(tmp_path)
    world.take(chat().turns(1))
    before = log_bytes(world)
    world.runtime.upkeep.between_turns()

    assert 0 < before < WORTH_LOG_BYTES
    assert log_bytes(world) >= before


def test_commits_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after folding, once others see them (``World`` switches that off, so it is not used here)."""
    db = Database(tmp_path / "lcm.db")
    db.open()
    plain, synced = disk.sync, list[tuple[str, int]]()

    def sync(path: Path) -> None:
        plain(path)
        synced.append((path.name, len(db.query("SELECT 1 FROM meta WHERE key LIKE 'told%'"))))

    monkeypatch.setattr(disk, "sync", sync)
    for n in range(2):
        with db.transaction():
            db.execute("INSERT INTO meta(key, value) VALUES (?, '1')", (f"told{n}",))
        db.optimise(log_bytes=0)
    modes = db.query("PRAGMA journal_mode")
    db.close()

    assert (synced, modes) == ([("lcm.db-wal", 1), ("lcm.db-wal", 2)], [("wal",)])


def test_what_was_in_the_log_is_in_the_file(world: World) -> None:
    """Which is complete by itself from then on."""
    world.runtime.ended()
    alone = world.db.path.with_name("copy.db")
    alone.write_bytes(world.db.path.read_bytes())  # without the log
    copy = sqlite3.connect(alone)
    rows = copy.execute("SELECT count(*) FROM messages").fetchone()
    copy.close()

    assert rows == world.db.query_one("SELECT count(*) FROM messages")


def test_a_process_that_ends_leaves_the_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No log and no shared memory beside it."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    runtimes = Process()
    runtime = runtimes.at(tmp_path)
    with runtime.db.transaction():
        runtime.db.execute("INSERT INTO meta(key, value) VALUES ('a', '1')")
    runtimes.stop()

    assert sorted(path.name for path in tmp_path.glob("lcm.db*")) == ["lcm.db"]


# -- a session among others --------------------------------------------------------------------------------------------
def lonely(world: World, session_id: str) -> int:
    """How many stored JSON of a session lie in their own rows."""
    own = world.session(session_id).conversation_id
    sql = "SELECT count(*) FROM messages WHERE conversation_id = ? AND typeof(envelope) = 'blob'"
    return int(world.db.query(sql, (own,))[0][0])


def test_a_session_that_ends_packs_its_own_rows_only(tmp_path: Path) -> None:
    """Nobody waits for the rows of all other chats when one of them ends."""
    world = World(tmp_path)
    for name in ("one", "two"):
        world.take(chat().turns(30), name)
    two = lonely(world, "two")
    world.runtime.ended("one")

    assert (lonely(world, "one"), lonely(world, "two")) == (0, two)
    assert world.stored() == [*chat().turns(30), *chat().turns(30)]


def test_the_last_session_that_ends_packs_what_the_others_left(tmp_path: Path) -> None:
    """Rows that were packed out of turn stay as they are."""
    world = World(tmp_path)
    for name in ("one", "two"):
        world.take(chat().turns(30), name)
    world.runtime.ended("two")
    world.runtime.ended("one")

    assert (lonely(world, "one"), lonely(world, "two")) == (0, 0)
    assert world.stored() == [*chat().turns(30), *chat().turns(30)]


# ------------------------------------------------------------
# Transcript GC: what is in a file and summarised shrinks to a placeholder; nothing is lost, and nothing else shrinks.

GC = {
    "large_output_externalization_enabled": True,
    "large_output_externalization_threshold_chars": 2000,
    "large_output_transcript_gc_enabled": True,
}
LOG = "\n".join(f"2026-01-01T00:00:{n % 60:02d}Z INFO worker {n}: marzipan{n} done" for n in range(200))


@pytest.fixture
def shrinking(tmp_path: Path) -> World:
    return World(tmp_path, **GC)


def talk(world: World, **keys: Any) -> Chat:
    """Message 3 is a large result; 4 is a large answer of the assistant; 6 a small result."""
    live = (
        chat().user("look").calls("a").results("a", text=LOG).says(LOG + " said").calls("b").results("b", text="small")
    )
    live[2].update(keys)
    world.take(live)
    return live


def summarised(world: World, *store_ids: int, quality: str = "verified") -> None:
    """A summary over messages."""
    node = NewNode(1, 0, quality, "text", "", 5, 50, store_ids, fingerprint(0, store_ids))
    world.dag.add(node, now=1.0)


def collected(world: World) -> list[int]:
    world.runtime.upkeep.between_turns()
    rows = world.db.query("SELECT store_id FROM messages WHERE flags & ? ORDER BY store_id", (Flag.COLLECTED,))
    return [row[0] for row in rows]


def found(world: World, query: str) -> list[int]:
    """Messages that say it themselves."""
    hits = world.runtime.index.search(words.parse(query), scope=Scope(), limit=5).hits
    return sorted(hit.store_id for hit in hits if hit.rung != "near")


def test_a_summarised_result_in_a_file_shrinks_to_its_placeholder(shrinking: World) -> None:
    """The same address, nothing but the reference."""
    talk(shrinking)
    summarised(shrinking, 2, 3, 4, 6)

    assert collected(shrinking) == [3]
    text = shrinking.store.text(3)
    assert blobs.PLACEHOLDER.fullmatch(text)
    assert "INFO" in shrinking.store.text(4)


def test_it_comes_back_byte_for_byte(shrinking: World) -> None:
    """By address and by reference, in this process and in the next."""
    live = talk(shrinking)
    summarised(shrinking, 3)
    collected(shrinking)
    again = shrinking.restart()

    assert [row.stored_json for rows in again.runtime.whole_store.row_batches() for row in rows] == list(live)
    assert again.runtime.view_store.text(3) == LOG
    opened = again.runtime.access(None, Rights("session:s")).payload(blobs.names(again.store.text(3)))
    assert opened is not None
    assert opened.text == LOG


@pytest.mark.parametrize("quality", ["provisional", "verbatim"])
def test_what_no_model_summarised_stays(shrinking: World, quality: str) -> None:
    """An extract is no summary."""
    talk(shrinking)
    assert collected(shrinking) == []
    summarised(shrinking, 3, quality=quality)
    assert collected(shrinking) == []


def test_a_pinned_result_stays(shrinking: World) -> None:
    """Whoever pinned it wants it as it is."""
    talk(shrinking)
    summarised(shrinking, 3)
    shrinking.store.flag([3], add=Flag.PINNED)

    assert collected(shrinking) == []


def test_without_the_setting_nothing_shrinks(tmp_path: Path) -> None:
    """It is opt-in."""
    world = World(tmp_path, **{**GC, "large_output_transcript_gc_enabled": False})
    talk(world)
    summarised(world, 3)

    assert collected(world) == []


def test_a_result_whose_file_is_gone_stays_as_it_is(shrinking: World) -> None:
    """Its description is all there is left."""
    talk(shrinking)
    summarised(shrinking, 3)
    for file in shrinking.runtime.payloads.folder.rglob("*.z"):
        file.unlink()
    shrinking.runtime.payloads._cache.clear()

    assert collected(shrinking) == []
    assert "lines" in shrinking.store.text(3)


def test_a_search_finds_the_file_and_no_longer_the_words(shrinking: World) -> None:
    """And everybody else's words; the same after the index is built anew."""
    talk(shrinking)
    summarised(shrinking, 3)
    assert found(shrinking, "marzipan77") == [3, 4]
    collected(shrinking)
    for _ in range(2):
        assert found(shrinking, "marzipan77") == [4]
        assert found(shrinking, blobs.names(shrinking.store.text(3))) == [3]
        assert shrinking.runtime.index.check(deep=True) == []
        shrinking.runtime.rebuild_indexes()


def test_the_host_s_copy_is_still_recognised(shrinking: World) -> None:
    """The row is who it was."""
    live = talk(shrinking)
    summarised(shrinking, 3)
    collected(shrinking)
    again = shrinking.restart()
    again.take(live.user("go on"))

    assert again.counts()["messages"] == len(live)
    assert again.thread()[-1] == live[-1]


def test_every_statement_may_fail(shrinking: World) -> None:
    """Row and index change together or not at all."""
    talk(shrinking)
    summarised(shrinking, 3)
    for number in range(1, 20):
        try:
            with shrinking.failing_at(number):
                shrinking.runtime.upkeep.collect()
            break
        except StoreError:
            assert found(shrinking, "marzipan77") == [3, 4]
            assert "lines" in shrinking.store.text(3)

    assert number > 2
    assert collected(shrinking) == [3]


def test_a_packed_result_shrinks_too(shrinking: World) -> None:
    """It leaves its block; the others stay in it."""
    live = talk(shrinking)
    shrinking.store.packer.pack(newest=0, least_bytes=1)
    summarised(shrinking, 3)

    assert collected(shrinking) == [3]
    assert [row.stored_json for rows in shrinking.runtime.whole_store.row_batches() for row in rows] == list(live)


def test_the_second_round_finds_nothing_to_do(shrinking: World) -> None:
    """However many there are."""
    live = chat().user("go")
    for n in range(120):
        live.calls(f"c{n}").results(f"c{n}", text=f"{n} {LOG}")
    shrinking.take(live)
    summarised(shrinking, *range(1, 200))

    assert len(collected(shrinking)) == 99
    assert shrinking.runtime.upkeep.collect() == (0, 0)
    assert sum("INFO" in str(message["content"]) for message in shrinking.stored()) == 21


def test_a_result_that_another_process_redacts_meanwhile_keeps_its_new_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its flags stay the same where it had lost a secret before; the old words' file is gone by then."""
    token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    world = World(tmp_path, **GC, sensitive_patterns_enabled=True, sensitive_patterns=("github_token",))
    world.take(
        chat().user("look").calls("a").results("a", text=f"{LOG}\n{token}\npassword: hunter2secret").says("done")
    )
    summarised(world, 3)
    other, view = Home(tmp_path, **{name: str(value) for name, value in GC.items()}), Payloads.view

    def viewed(payloads: Payloads, row: Any) -> Any:
        monkeypatch.undo()
        run("redact all apply", other.deps(None, trusted=True))
        return view(payloads, row)

    monkeypatch.setattr(Payloads, "view", viewed)
    world.runtime.upkeep.between_turns()
    text = world.restart().runtime.view_store.text(3)

    assert text.startswith(LOG)
    assert text.endswith("password: [redacted:password_assignment]")


def test_a_damaged_result_keeps_no_other_from_shrinking(shrinking: World) -> None:
    """Nor the rest of the upkeep from being done."""
    live = talk(shrinking)
    shrinking.take(live.calls("c").results("c", text=LOG + " again").says("done"))
    summarised(shrinking, *range(1, len(live) + 1))
    with shrinking.db.transaction():
        shrinking.db.execute("UPDATE messages SET envelope = x'ffff' WHERE store_id = 3")

    assert collected(shrinking) == [8]
