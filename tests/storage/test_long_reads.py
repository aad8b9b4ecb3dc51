"""A short read sees the last commit, from any thread, whatever long reads are going on (P1, P2, P4, P8)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from worlds.archive import Agent
from worlds.home import Home
from worlds.process import WAIT_S, World, chat, run

from hermes_lcm import errors
from hermes_lcm.ops import backup
from hermes_lcm.ops.survey import Survey
from hermes_lcm.records import Scope
from hermes_lcm.search import query
from hermes_lcm.storage import blocks, files, long_reads, seals
from hermes_lcm.storage.connection import Database

ALL = "SELECT store_id, envelope FROM messages ORDER BY store_id"


# -- reads that are held open, wherever something iterates ---------------------------------------------------------
@contextmanager
def cursor(world: World) -> Iterator[None]:
    """In the same thread."""
    rows = world.db.iterate(ALL, size=1)
    next(rows)
    yield
    rows.close()  # type: ignore[attr-defined] # a generator


@contextmanager
def in_another_thread(begin: Callable[[], Any], reached: threading.Event, go_on: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=begin, daemon=True)
    thread.start()
    assert reached.wait(WAIT_S)
    yield
    go_on.set()
    thread.join(WAIT_S)
    assert not thread.is_alive()


@contextmanager
def deep_doctor(world: World) -> Iterator[None]:
    """In the middle of reading all messages."""
    reached, go_on = threading.Event(), threading.Event()

    def progress(_what: str, done: int, _total: int) -> None:
        if done == 2:
            reached.set()
            assert go_on.wait(WAIT_S)

    plain = Database.iterate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Database, "iterate", lambda db, sql, params=(), *, size=1: plain(db, sql, params, size=min(size, 1))
        )
        with in_another_thread(lambda: Survey(world.db).unreadable(progress), reached, go_on):
            yield


@contextmanager
def packing(world: World) -> Iterator[None]:
    """In the middle of looking for what is to be packed."""
    reached, go_on = threading.Event(), threading.Event()
    plain = blocks.read_json
    packer = threading.local()

    def slowly(*row: Any) -> str:
        if getattr(packer, "packs", False) and not reached.is_set():
            reached.set()
            assert go_on.wait(WAIT_S)
        return plain(*row)

    def pack() -> None:
        packer.packs = True
        world.store.packer.pack(newest=0, least_bytes=1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "read_json", slowly)
        with in_another_thread(pack, reached, go_on):
            yield


def iterating(work: Callable[[World], object]) -> Callable[[World], AbstractContextManager[None]]:
    """In the middle of a work, behind the first row that it reads."""

    @contextmanager
    def held(world: World) -> Iterator[None]:
        reached, go_on, mine = threading.Event(), threading.Event(), threading.local()
        plain = Database.iterate

        def slowly(db: Database, sql: str, params: Any = (), *, size: int = 1) -> Iterator[Any]:
            for rows in plain(db, sql, params, size=min(size, 1)):
                yield rows
                if getattr(mine, "reads", False) and not reached.is_set():
                    reached.set()
                    assert go_on.wait(WAIT_S)

        def begin() -> None:
            mine.reads = True
            work(world)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Database, "iterate", slowly)
            with in_another_thread(begin, reached, go_on):
                yield

    return held


HELD = {
    "cursor": cursor,
    "deep doctor": deep_doctor,
    "packing": packing,
    "seals": iterating(lambda world: seals.broken(world.db)),
    "other texts": iterating(lambda world: files.rewrite_texts(world.db, str)),
}


# -- what goes on beside them --------------------------------------------------------------------------------------
def state(world: World, *sessions: str) -> Any:
    """Every stored row with its flags, what each thread shows, and what holds it together."""
    rows = [(row.text, row.head.flags, row.head.seq) for rows in world.store.row_batches() for row in rows]
    threads = [[message.get("content") for message in world.thread(name)] for name in sessions]
    orphans = world.db.query(
        "SELECT count(*) FROM conversations WHERE conversation_id NOT IN (SELECT conversation_id FROM sessions)"
    )
    return rows, threads, orphans, [problem.topic for problem in world.health.problems()]


def new_session(world: World) -> Any:
    live = chat().turns(3, first=50)
    world.take(live, "new")
    world.take(live.turns(1, first=60), "new")
    return state(world, "s", "new")


def edit(world: World) -> Any:
    live = chat().turns(30, first=100)
    world.take(live)
    live[-3] = {**live[-3], "content": "another request"}
    world.take(live.turns(1, first=70))
    return state(world, "s")


def undo(world: World) -> Any:
    live = chat().turns(31, first=100)
    world.take(live)
    del live[-4:]
    world.take(live.turns(2, first=80))
    return state(world, "s")


def retry(world: World) -> Any:
    live = chat().turns(31, first=100)
    world.take(live)
    before = live.copy()
    del live[-2:]
    world.take(live.turns(1, first=90))
    world.take(before)
    return state(world, "s")


def compaction(world: World) -> Any:
    live = chat().turns(31, first=100)
    world.take(live)
    live = world.compact(live)
    again = World(world.folder, world.model, **world.settings)  # the engine was evicted
    stored = again.take(live.turns(1, first=95)).stored
    world.take(live.turns(1, first=96))
    return stored, world.gaps(live), state(world, "s")


def sub_agent(world: World) -> Any:
    world.runtime.announce("chat", platform="telegram", host_key="agent:main:telegram:dm:7")
    world.runtime.ingest_list("chat", chat().turns(1, first=40))
    world.runtime.announce("child", parent="chat", origin="subagent")
    world.runtime.ingest_list("child", chat().turns(1, first=41))
    found = world.runtime.find_session("child")
    assert found is not None
    return found.principal, found.origin, state(world, "chat", "child")


def rotation(world: World) -> Any:
    world.runtime.announce("next", parent="s", origin="rotation")
    world.runtime.ingest_list("next", chat().turns(30, first=100).turns(1, first=42))
    found = world.runtime.find_session("next")
    assert found is not None
    return found.conversation_id, state(world, "next")


def search(world: World) -> Any:
    world.take(chat().turns(30, first=100).user("where is the quokka?"))
    hits = world.runtime.index.search(query.parse("quokka"), scope=Scope(), limit=5).hits
    page = [row.text for row in world.store.page("s", after=58, limit=10)]
    return [hit.store_id for hit in hits], page


def archive(world: World) -> Any:
    live = chat().turns(30, first=100)
    agent = Agent(world)
    made = agent.call(live, "store", start_index=4, end_index=7, summary="Two turns went well.")
    listed = agent.call(live, "list")
    back = agent.call(live, "restore", memory_handle=made["memory_handle"])
    again = agent.call(live, "store", start_index=4, end_index=7, summary="Two turns went well.")
    return len(listed["archives"]), sorted(back), again["archived"]


FLOWS = (new_session, edit, undo, retry, compaction, sub_agent, rotation, search, archive)


def begun(folder: Path) -> World:
    folder.mkdir()
    world = World(folder, fresh_tail_count=8)
    world.take(chat().turns(30, first=100))
    return world


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each flow gives while nothing else reads."""
    return {flow.__name__: flow(begun(tmp_path_factory.mktemp(flow.__name__) / "home")) for flow in FLOWS}


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.__name__)
@pytest.mark.parametrize("held", HELD)
def test_what_goes_on_beside_a_long_read_is_the_same_as_without(
    held: str, flow: Callable[[World], Any], alone: dict[str, Any], tmp_path: Path
) -> None:
    """It sees what it has just written itself."""
    world = begun(tmp_path / "home")
    with HELD[held](world):
        beside = flow(world)

    assert beside == alone[flow.__name__]


def test_reads_in_other_threads_see_what_was_just_written(tmp_path: Path) -> None:
    """Each read of each thread, while a long read stands still in a third."""
    world = begun(tmp_path / "home")
    with deep_doctor(world):
        for n in range(3):
            world.take(chat().turns(30, first=100).turns(n + 1, first=200))
            assert run(*[world.store.count] * 2) == [62 + 2 * n] * 2


# -- the connections -------------------------------------------------------------------------------------------------
def handles(path: Path) -> int:
    """How often this process has a file open."""
    links = (os.path.realpath(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd"))
    return sum(link == str(path.resolve()) for link in links)


@pytest.mark.parametrize("end", [list, lambda rows: (next(rows), rows.close()), lambda rows: (next(rows), None)[1]])
def test_the_connection_goes_with_the_read(end: Callable[[Any], Any], tmp_path: Path) -> None:
    """Read to its end, given up, or forgotten."""
    world = begun(tmp_path / "home")
    end(world.db.iterate(ALL, size=1))
    before = handles(world.db.path)  # SQLite keeps one open as long as others have locks, and uses it again
    for _ in range(10):
        end(world.db.iterate(ALL, size=1))

    assert handles(world.db.path) == before > 0


def test_a_long_read_is_of_one_moment(tmp_path: Path) -> None:
    """What is stored meanwhile is not in it."""
    world = begun(tmp_path / "home")
    rows = world.db.iterate(ALL, size=1)
    first = next(rows)
    world.take(chat().turns(40, first=100))

    assert len([*first, *(row for batch in rows for row in batch)]) == 60
    assert world.store.count() == 80


def test_there_are_only_so_many_at_a_time(tmp_path: Path) -> None:
    """One more is told to come again; after one has ended it may."""
    db = Database(tmp_path / "lcm.db")
    db._long_reads = long_reads.LongReads(db.path, wait_s=0.01)
    db.open()
    reads = [db.iterate("SELECT name FROM sqlite_master", size=1) for _ in range(long_reads.MOST + 1)]
    for each in reads[:-1]:
        next(each)
    with pytest.raises(errors.StoreBusy, match="long reads are going on"):
        next(reads[-1])
    list(reads[0])

    assert next(db.iterate("SELECT name FROM sqlite_master", size=1))


def test_a_database_can_be_put_back_beside_a_long_read(tmp_path: Path) -> None:
    """The read is told; the next one reads the new file."""
    home = Home(tmp_path / "home")
    home.say(*(f"message {n}" for n in range(20)))
    made = backup.back_up(home.deps())
    home.say(*(f"message {n}" for n in range(30)))
    rows = home.runtime.db.iterate(ALL, size=1)
    next(rows)
    backup.restore(home.deps(None), str(made.path))
    with pytest.raises(errors.StoreBusy, match="the same call works again"):
        next(rows)

    assert len(list(home.runtime.db.iterate(ALL, size=1))) == 20


def test_a_session_that_many_begin_at_once_is_one(tmp_path: Path) -> None:
    """Finding and making it is one fact: no conversation is left behind without a session."""
    world = World(tmp_path)
    found = run(*[lambda: [world.session(f"s{n}").conversation_id for n in range(20)] for _ in range(8)])

    assert all(each == found[0] for each in found)
    assert world.counts()["conversations"] == world.counts()["sessions"] == 20


# -- readers of one thread -----------------------------------------------------------------------------------------
@contextmanager
def held(db: Database) -> Iterator[None]:
    """Another thread keeps everybody else from the writer and from the reader that all share."""
    reached, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with db._write_lock, db._read_lock:
            reached.set()
            go_on.wait(WAIT_S)

    with in_another_thread(hold, reached, go_on):
        yield


def in_time(does: Callable[[], Any]) -> Any:
    """What it returns; fails where it waits for what is held."""
    out: list[Any] = []
    thread = threading.Thread(target=lambda: out.append(does()), daemon=True)
    thread.start()
    thread.join(WAIT_S / 3)
    assert out, "it waits for the others"
    return out[0]


def test_a_thread_that_reads_apart_waits_for_nobody(tmp_path: Path) -> None:
    """So nobody waits for it either: its reads go over a connection of its own."""
    world = begun(tmp_path / "home")

    def apart() -> Any:
        with world.db.apart():
            return len(world.db.query(ALL)), world.db.query_one("SELECT count(*) FROM messages")

    with held(world.db):
        assert in_time(apart) == (60, (60,))


def test_a_thread_that_reads_apart_sees_each_commit_and_each_file(tmp_path: Path) -> None:
    """Also what it wrote itself, and after the file was closed, or another one was taken."""
    db = Database(tmp_path / "lcm.db")
    sql = "SELECT count(*) FROM meta WHERE key = 'here'"
    with db.apart():
        seen = db.query(sql)
        with db.transaction():
            db.execute("INSERT INTO meta(key, value) VALUES ('here', '1')")
        seen += db.query(sql)
        db.close()
        seen += db.query(sql)
        db.use(tmp_path / "other.db")
        seen += db.query(sql)
        db.use(db.path)
        seen += db.query(sql)

    assert seen == [(0,), (1,), (1,), (0,), (1,)]


def test_a_restore_closes_the_readers_of_single_threads(tmp_path: Path) -> None:
    """An open one would keep the file from being exchanged."""
    home = Home(tmp_path / "home")
    home.say("hello", "yes?")
    made = backup.back_up(home.deps())
    home.say("hello", "yes?", "more")
    with home.runtime.db.apart():
        before = home.runtime.db.query("SELECT count(*) FROM messages")
        backup.restore(home.deps(), made.path.name)

        assert [*before, *home.runtime.db.query("SELECT count(*) FROM messages")] == [(3,), (2,)]


# -- where the common reader is taken ------------------------------------------------------------------------------
@contextmanager
def taken(db: Database) -> Iterator[None]:
    """Another thread reads over the connection that all share."""
    reached, go_on = threading.Event(), threading.Event()

    def read() -> None:
        with db._read_lock:
            reached.set()
            go_on.wait(WAIT_S)

    with in_another_thread(read, reached, go_on):
        yield


def test_a_read_does_not_wait_for_another_one(tmp_path: Path) -> None:
    """A few spare connections serve whoever finds the common one taken; each sees the last commit."""
    db = Database(tmp_path / "lcm.db")
    sql, counts = "SELECT count(*) FROM meta WHERE key LIKE 'n%'", []
    db.open()
    with taken(db):
        for n in range(3):
            with db.transaction():
                db.execute("INSERT INTO meta(key, value) VALUES (?, '1')", (f"n{n}",))
            counts.append(in_time(lambda: db.query_one(sql)))
        counts += in_time(lambda: run(*[lambda: db.query_one(sql)] * 8))
    spare = [reader._connection for reader in db._long_reads._spare]
    db.close()

    assert counts == [(1,), (2,), (3,)] + [(3,)] * 8
    assert 1 <= len(spare) <= long_reads.SPARE
    assert [reader._connection for reader in db._long_reads._spare] == [None] * len(spare)


def test_a_spare_reader_reads_the_file_that_is_in_use(tmp_path: Path) -> None:
    """After the file was closed, or another one was taken in its place."""
    db = Database(tmp_path / "lcm.db")
    sql = "SELECT count(*) FROM meta WHERE key = 'here'"
    with db.transaction():
        db.execute("INSERT INTO meta(key, value) VALUES ('here', '1')")
    found = []
    for move in (db.open, db.close, lambda: db.use(tmp_path / "other.db"), lambda: db.use(db.path)):
        move()
        db.open()
        with taken(db):
            found.append(in_time(lambda: db.query_one(sql)))
    db.close()

    assert found == [(1,), (1,), (0,), (1,)]


def test_nothing_reads_while_a_process_is_forked(tmp_path: Path) -> None:
    """A thread inside SQLite would leave its locks taken in the child: spare readers and those of single threads, too."""
    db = Database(tmp_path / "lcm.db")
    db.open()
    with taken(db):
        in_time(lambda: db.query("SELECT 1"))
    spare = db._long_reads._spare[0]
    with spare.lock:
        refused = db.hold(0.01)
    held = db.hold(WAIT_S), spare.is_free
    db.let_go()
    found = spare.is_free, in_time(lambda: db.query("SELECT 1"))
    db.close()

    assert (refused, held, found) == (False, (True, False), (True, [(1,)]))
