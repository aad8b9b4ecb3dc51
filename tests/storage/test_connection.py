"""The database file: who may read it, what is refused or translated, who writes first; nothing half-written stays (P2, P9)."""

from __future__ import annotations

import errno
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO
from unittest.mock import Mock

import pytest
from worlds.breaking import Faults
from worlds.home import Holder, Home
from worlds.process import WAIT_S, World, chat, interrupted_at, run, texts

from hermes_lcm import errors
from hermes_lcm.storage import connection, disk, files, schema, seals
from hermes_lcm.storage import connection as connection_module
from hermes_lcm.storage.connection import Database, Databases, Turns
from hermes_lcm.storage.disk import in_memory
from hermes_lcm.storage.meta import Health
from hermes_lcm.storage.schema import APPLICATION_ID, VERSION

HERE = Path(__file__).resolve().parents[1]


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return Database(tmp_path / "lcm.db")


def note(db: Database, key: str, value: str = "x") -> None:
    with db.transaction():
        db.execute("INSERT INTO meta(key, value) VALUES (?, ?)", (key, value))


def notes(db: Database) -> list[str]:
    own = ("identity", "sealed", "overwritten")
    return [key for (key,) in db.query("SELECT key FROM meta WHERE key NOT IN (?, ?, ?) ORDER BY key", own)]


@pytest.mark.parametrize("damage", [(0, b"\xff" * 16), (100, b"\0" * 924)], ids=["header", "schema"])
def test_a_damaged_file_whose_log_goes_with_its_connection_is_damaged(
    tmp_path: Path, damage: tuple[int, bytes]
) -> None:
    """SQLite removes a log when its last connection is closed: nobody exchanged it, and the same call works no better."""
    one, copy = Database(tmp_path / "one.db"), tmp_path / "lcm.db"
    one.open()
    one.close()  # the log is folded: what is damaged below is read
    note(one, "in the log")
    for ending in ("", "-wal"):
        shutil.copy(f"{one.path}{ending}", f"{copy}{ending}")
    one.close()
    with copy.open("r+b") as file:
        file.seek(damage[0])
        file.write(damage[1])

    with pytest.raises(errors.StoreCorrupt):
        Database(copy).open()


def test_two_databases_in_memory_see_nothing_of_each_other() -> None:
    """Two profiles of one process that both have no file; another connection to one of them sees what it holds."""
    one, two = Database(in_memory()), Database(in_memory())
    note(one, "a")
    note(two, "b")
    again = Database(one.file)
    assert (notes(one), notes(two), notes(again)) == (["a"], ["b"], ["a"])
    assert one.identity != two.identity
    with two.copied(["meta"], ["CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID"]) as copy:
        assert [row[0] for row in copy("SELECT key FROM meta WHERE key = 'b' OR key = 'a'")] == ["b"]  # type: ignore[attr-defined]
    for each in (one, two, again):
        each.close()


# -- the file ----------------------------------------------------------------------------------------------------


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    """Database, log and shared memory are 0600, the folder that is made for them 0700, whatever the umask."""
    before = os.umask(0)
    try:
        db = Database(tmp_path / "deep" / "lcm.db")
        note(db, "a")
    finally:
        os.umask(before)

    assert mode(tmp_path / "deep") == "0o700"
    assert {mode(path) for path in (tmp_path / "deep").iterdir()} == {"0o600"}


def test_nothing_is_opened_before_the_first_use(tmp_path: Path) -> None:
    """Making a Database touches no file."""
    Database(tmp_path / "lcm.db")

    assert list(tmp_path.iterdir()) == []


def test_reading_cannot_write(db: Database) -> None:
    """The reader connection refuses to write."""
    db.open()
    with pytest.raises(errors.StoreError):
        db.query("INSERT INTO meta(key, value) VALUES ('a', 'b')")


def test_one_database_per_file(tmp_path: Path) -> None:
    """However a file is named, a process opens it once."""
    (tmp_path / "link.db").symlink_to(tmp_path / "lcm.db")
    databases = Databases()

    assert databases.at(tmp_path / "lcm.db") is databases.at(tmp_path / "x" / ".." / "link.db")


def test_the_schema_is_the_newest(db: Database) -> None:
    """A new file carries our mark and the number of the schema."""
    db.open()

    assert (db.query("PRAGMA application_id"), db.query("PRAGMA user_version")) == ([(APPLICATION_ID,)], [(VERSION,)])


def test_a_write_outside_a_transaction_is_a_mistake(db: Database) -> None:
    """Half of a fact cannot be written by accident."""
    with pytest.raises(RuntimeError):
        db.execute("INSERT INTO meta(key, value) VALUES ('a', 'b')")


# -- transactions ------------------------------------------------------------------------------------------------


def test_a_failed_transaction_leaves_nothing(db: Database) -> None:
    """An exception of any kind takes back everything since the outermost beginning."""

    def interrupted() -> None:
        with db.transaction():
            note(db, "a")
            with db.transaction():
                note(db, "b")
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert notes(db) == []
    note(db, "c")
    assert notes(db) == ["c"]


def test_a_failure_that_the_outer_part_survives_leaves_nothing_of_the_inner_part(db: Database) -> None:
    """A nested transaction is all or nothing too, even if its caller catches the error."""
    with db.transaction():
        note(db, "a")
        try:
            with db.transaction():
                note(db, "b")
                note(db, "b")
        except errors.StoreError:
            pass

    assert notes(db) in (["a"], [])


def test_a_rewrite_whose_commit_fails_says_why(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the transaction is over already there is nothing to roll back, and the error is that of the COMMIT."""
    note(db, "a")
    db.close()
    faults = Faults().install(monkeypatch)
    faults.arm(1, sqlite3.SQLITE_FULL, late=True)

    with pytest.raises(errors.StoreFull, match="made to fail"):
        files.rewrite(db.path, [("UPDATE meta SET value = ?", ("y",))])
    assert faults.disarm() == ["COMMIT"]


def test_others_write_while_a_rewrite_waits_for_the_disk(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator's removal, in another process: a turn does not wait for it."""
    note(db, "a")
    synced = list[str]()

    def sync(path: Path) -> None:
        if not synced:
            synced.append(path.name)
            note(db, "b")

    monkeypatch.setattr(disk, "sync", sync)
    changed = files.rewrite(db.path, [("UPDATE meta SET value = ? WHERE key = 'a'", ("y",))])
    found = notes(db)
    db.close()

    assert (changed, synced, found) == ([1], ["lcm.db-wal"], ["a", "b"])


@pytest.mark.parametrize(("held_s", "pause_s"), [(0.0, 0.005), (0.1, 0.2), (9.0, 0.5)])
def test_long_work_pauses_twice_as_long_as_it_held_the_file(
    db: Database, held_s: float, pause_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within bounds: who waits for the file looks only now and then whether it is free."""
    slept = list[float]()
    monkeypatch.setattr(connection_module.time, "sleep", slept.append)
    db.give_way(held_s)

    assert slept == [pause_s]


def test_an_open_transaction_is_not_seen_by_readers(db: Database) -> None:
    """Other threads read the state before it."""
    db.open()
    with db.transaction():
        note(db, "a")
        assert run(lambda: notes(db)) == [[]]


def test_a_transaction_reads_what_it_has_written(db: Database) -> None:
    """Nor does it wait for those who read: it keeps everybody else from writing."""
    with db.transaction():
        note(db, "a")
        with db._read_lock:
            found = notes(db), db.query_one("SELECT count(*) FROM meta WHERE key = 'a'")

    assert found == (["a"], (1,))


def test_others_write_while_a_transaction_waits_for_the_disk(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """And those who were done before the disk was asked share one wait."""
    db.open()
    plain, asked, go_on, syncs = disk.sync, threading.Event(), threading.Event(), list[Path]()

    def sync(path: Path) -> None:
        syncs.append(path)
        asked.set()
        assert go_on.wait(WAIT_S)
        plain(path)

    monkeypatch.setattr(disk, "sync", sync)
    threads = [threading.Thread(target=note, args=(db, f"k{n}"), daemon=True) for n in range(6)]
    threads[0].start()
    assert asked.wait(WAIT_S)
    for thread in threads[1:]:
        thread.start()
    end = time.monotonic() + WAIT_S
    while len(notes(db)) < len(threads) and time.monotonic() < end:
        time.sleep(0.001)
    seen, waiting = len(notes(db)), [thread.is_alive() for thread in threads]
    go_on.set()
    for thread in threads:
        thread.join(WAIT_S)

    assert (seen, waiting, len(syncs)) == (6, [True] * 6, 2)


def test_a_disk_that_refuses_is_told_to_all_who_wait_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system tells it once only: the next call would succeed."""
    log = disk.SharedSync(tmp_path / "log")
    numbers = [log.wrote() for _ in range(3)]
    monkeypatch.setattr(disk, "sync", broken := Mock(side_effect=[OSError(5, "Input/output error"), None]))
    told = [suppressed(lambda n=n: log.wait(n)) for n in numbers]  # type: ignore[misc]
    after = suppressed(lambda: log.wait(log.wrote()))

    assert (told, after, broken.call_count) == ([5, 5, 5], None, 2)


def test_a_thread_that_is_interrupted_while_it_waits_for_the_disk_keeps_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has settled nothing: whoever comes next asks the disk, for both."""
    log = disk.SharedSync(tmp_path / "log")
    first, second = log.wrote(), log.wrote()
    monkeypatch.setattr(
        disk, "sync", refuses := Mock(side_effect=[KeyboardInterrupt, OSError(5, "Input/output error")])
    )
    with pytest.raises(KeyboardInterrupt):
        log.wait(first)
    told = run(lambda: suppressed(lambda: log.wait(second)), lambda: suppressed(lambda: log.wait(first)))

    assert (told, refuses.call_count) == ([5, 5], 2)


def test_ctrl_c_in_a_transaction_keeps_no_other_thread_from_writing(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it comes: no transaction of SQLite stays open, and no lock stays taken."""
    monkeypatch.setattr(connection_module, "CALLED_S", 0.01)
    note(db, "first")
    stopped, n = list[int](), 1
    while interrupted_at(n, partial(note, db, f"interrupted {n}")):
        other = threading.Thread(target=note, args=(db, f"other {n}"), daemon=True)
        other.start()
        other.join(5)
        if other.is_alive() or f"other {n}" not in notes(db):
            stopped.append(n)
            break
        n += 1

    assert (stopped, n > 50) == ([], True)


def test_ctrl_c_in_a_long_read_keeps_no_other_thread_from_reading(db: Database) -> None:
    note(db, "first")

    def reads() -> None:
        assert list(db.iterate("SELECT key FROM meta WHERE key = 'first'")) == [[("first",)]]

    n = 1
    while interrupted_at(n, reads):
        run(reads)
        n += 1

    assert n > 20


def test_a_read_looks_for_its_file_once_within_a_moment(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread for itself; later it looks again."""
    looks, real = list[Path](), connection_module.identity_of

    def looked(file: Path) -> disk.Identity | None:
        looks.append(file)
        return real(file)

    monkeypatch.setattr(connection_module, "identity_of", looked)
    monkeypatch.setattr(connection_module, "_LOOKED_S", 3600.0)
    note(db, "a")
    looks.clear()
    counts = list[int]()
    for read in (partial(notes, db), partial(run, partial(notes, db))):
        read()
        counts.append(len(looks))
    monkeypatch.setattr(connection_module, "_LOOKED_S", 0.0)
    notes(db)

    assert [*counts, len(looks)] == [0, 1, 2]


def test_a_forked_child_reads_over_a_connection_of_its_own_at_once(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That its thread looked for the file just now was in the parent."""
    monkeypatch.setattr(connection_module, "_LOOKED_S", 3600.0)
    note(db, "a")
    child = os.fork()
    if not child:
        try:
            said = notes(db)
            os._exit(not (said == ["a"] and db.identity is not None and db.identity.process == os.getpid()))
        finally:
            os._exit(2)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_process_that_may_open_no_file_more_goes_on(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over what it has open: writes are waited for all the same, and a read that would have a connection of its own waits."""
    db.open()
    monkeypatch.setattr(os, "sync", waited := Mock())
    free, found = threading.Event(), list[list[str]]()
    reads = threading.Thread(target=lambda: found.append(notes(db)), daemon=True)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        note(db, "a")
        with db._read_lock:
            reads.start()
            free.wait(0.1)
        reads.join(WAIT_S)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    db.close()

    assert (found, waited.call_count) == ([["a"]], 1)


def test_a_database_in_memory_waits_for_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor for the folder that the process happens to be in."""
    memory = Database(in_memory())
    monkeypatch.setattr(disk, "sync", refuses := Mock(side_effect=OSError(5, "Input/output error")))
    note(memory, "a")
    found = notes(memory)
    memory.close()

    assert (found, refuses.call_count) == (["a"], 0)


def suppressed(does: Callable[[], object]) -> int | None:
    """Number of the error of the system that it raises."""
    try:
        does()
    except OSError as exc:
        return exc.errno
    return None


def test_threads_write_one_after_another(db: Database) -> None:
    """Many threads, one writer connection, nothing lost."""
    run(*[lambda n=n: [note(db, f"{n} {i}") for i in range(20)] for n in range(6)])

    assert len(notes(db)) == 120


def test_the_first_use_by_a_reader_and_a_writer_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that both are the first to use a file do not wait for each other, though opening reads and writes."""
    create, begun = schema.create, threading.Event()

    def slowly(connection: sqlite3.Connection) -> None:
        begun.set()
        time.sleep(0.2)
        create(connection)

    monkeypatch.setattr(schema, "create", slowly)
    db = Database(tmp_path / "lcm.db", on_open=lambda db: notes(db) and None)
    run(lambda: note(db, "a"), lambda: (begun.wait(5), notes(db)))

    assert notes(db) == ["a"]


def test_a_file_that_is_replaced_while_threads_use_it(tmp_path: Path) -> None:
    """A restored or repaired file is picked up by all threads; none of them hangs."""
    source, db = Database(tmp_path / "source.db"), Database(tmp_path / "lcm.db")
    note(source, "restored")
    source.close()
    note(db, "old")
    done = threading.Event()

    def use(act: Callable[[], Any]) -> None:
        while not done.is_set():
            try:
                act()
            except errors.StoreError:
                pass

    def replace() -> None:
        for n in range(20):
            shutil.copy(tmp_path / "source.db", tmp_path / f"new{n}.db")
            for side in ("-wal", "-shm"):
                (tmp_path / f"lcm.db{side}").unlink(missing_ok=True)
            os.replace(tmp_path / f"new{n}.db", tmp_path / "lcm.db")
            time.sleep(0.01)
        done.set()

    def write() -> None:
        with db.transaction():
            pass

    try:
        run(lambda: use(lambda: notes(db)), lambda: use(write), lambda: use(lambda: notes(db)), replace)
    finally:
        done.set()
    assert notes(db) == ["restored"]


def test_a_deleted_file_is_written_back(db: Database) -> None:
    """Somebody removed the file: what the open connections still show gets its name again."""
    note(db, "a")
    for path in db.path.parent.iterdir():
        path.unlink()
    note(db, "b")

    assert notes(db) == ["a", "b"]
    assert "deleted" in db.notice


NEIGHBOUR = """
import sys
sys.path[:0] = sys.argv[1:3]
from hermes_lcm.errors import Overtaken
from hermes_lcm.storage.connection import Database
db = Database(sys.argv[3])
for line in sys.stdin:
    while True:
        try:
            with db.transaction():
                for n in range(30):
                    db.execute("INSERT OR IGNORE INTO meta(key, value) VALUES (?, ?)", (f"{line.strip()} {n}", "y" * 400))
            break
        except Overtaken:
            pass
    print("done", flush=True)
"""


def test_two_processes_that_lose_their_log_lose_nothing(db: Database) -> None:
    """Only the log is removed: the index beside it tells of frames that no new log has."""
    words = [sys.executable, "-c", NEIGHBOUR, str(HERE.parent / ".lcm-path"), str(HERE), str(db.path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None

        def theirs(name: str) -> None:
            assert other.stdin is not None
            assert other.stdout is not None
            other.stdin.write(f"{name}\n")
            other.stdin.flush()
            assert other.stdout.readline() == "done\n"

        theirs("first")
        for n in range(12):
            note(db, f"before {n}")
            theirs(f"theirs {n}")
            Path(f"{db.path}-wal").unlink()
            if n % 3 == 0:  # somebody looks: it makes a log that is not that of the index
                with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{db.path}?mode=ro", uri=True)) as looks:
                    looks.execute("SELECT count(*) FROM meta").fetchall()
            for act in [lambda n=n: note(db, f"after {n}"), lambda n=n: theirs(f"again {n}")][:: 1 if n % 2 else -1]:
                act()
        other.stdin.close()

    assert len(notes(db)) == 30 + 12 * (30 + 30 + 2)
    assert db.query("PRAGMA integrity_check") == [("ok",)]


def test_an_index_that_only_we_have_is_not_used(db: Database) -> None:
    """A connection that somebody here left open holds the index of a removed log: others would make another one beside it."""
    note(db, "a")
    with closing(sqlite3.connect(db.path)) as stray:
        stray.execute("SELECT count(*) FROM meta").fetchall()
        for ending in ("-wal", "-shm"):
            Path(f"{db.path}{ending}").unlink()
        with pytest.raises(errors.StoreBusy, match="is not ours") as met:
            note(db, "b")
    note(db, "b")

    assert not isinstance(met.value, errors.Overtaken)  # doing it again does not help: something must stand in
    assert notes(db) == ["a", "b"]
    assert db.identity is not None
    assert db.identity.shared


def test_a_removed_index_is_not_used_with_the_log_of_another_process(db: Database) -> None:
    """Both are there by their names, but what this process has open is another index: pages would go to the wrong places."""
    note(db, "a")
    words = [sys.executable, "-c", NEIGHBOUR, str(HERE.parent / ".lcm-path"), str(HERE), str(db.path)]
    stray = sqlite3.connect(db.path)
    stray.execute("SELECT count(*) FROM meta").fetchall()
    for ending in ("-wal", "-shm"):
        Path(f"{db.path}{ending}").unlink()
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.write("theirs\n")
        other.stdin.flush()
        other.stdout.readline()  # its log and its index have the names now
        for n in range(20):
            with suppress(errors.StoreBusy):
                note(db, f"b {n}")
        stray.close()
        note(db, "c")
        other.stdin.close()

    assert {"c", "theirs 29"} <= set(notes(db))
    assert db.query("PRAGMA integrity_check") == [("ok",)]


def test_a_file_that_comes_meanwhile_is_not_written_over(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """While what we had of a deleted file was copied, another process made one: both are kept."""
    note(db, "ours")
    for path in db.path.parent.iterdir():
        path.unlink()
    real = os.chmod

    def made(path: Any, mode: int) -> None:
        monkeypatch.undo()
        monkeypatch.setattr(connection_module, "fcntl", None)  # our own thread would wait for itself
        other = Database(db.path)
        note(other, "theirs")
        other.close()
        real(path, mode)

    monkeypatch.setattr(os, "chmod", made)
    note(db, "next")
    (left,) = db.path.parent.glob("*.standby-*.db")

    assert notes(db) == ["next", "theirs"]
    assert notes(Database(left)) == ["ours"]


def test_a_forked_child_opens_its_own_connection(db: Database) -> None:
    """SQLite connections do not survive a fork; the child's use neither fails nor harms the parent."""
    note(db, "parent")
    child = os.fork()
    if child == 0:
        try:
            note(db, "child")
        finally:
            os._exit(0 if notes(db) == ["child", "parent"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    note(db, "parent again")

    assert notes(db) == ["child", "parent", "parent again"]


# -- what cannot be used ------------------------------------------------------------------------------------------


LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[Callable[[], Callable[[], None]]]:
    """``lock()`` lets another process hold the write lock; what it returns lets go."""
    others: list[subprocess.Popen[str]] = []

    def take() -> Callable[[], None]:
        command = [sys.executable, "-c", LOCK, str(tmp_path / "lcm.db")]
        other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        others.append(other)
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        return lambda: (other.kill(), other.wait(10))[0]

    yield take
    for other in others:
        other.kill()
        other.wait(10)


def spoil_locked(world: World, lock: Any) -> Callable[[], None]:
    world.db._clock = iter(range(0, 10_000, 10)).__next__  # each try is a first one: the memory of a lock has passed
    return lock()  # type: ignore[no-any-return]


def spoil_readonly(world: World, lock: Any) -> Callable[[], None]:
    """SQLite's own switch stands for a read-only disk (tests may run as root, who may write anywhere): the same error code."""
    world.db.open()
    writer = world.db._writer
    assert writer is not None
    writer.execute("PRAGMA query_only=1")
    return lambda: writer.execute("PRAGMA query_only=0") and None


def spoil_corrupt(world: World, lock: Any) -> Callable[[], None]:
    world.db.close()
    good = world.db.path.read_bytes()
    world.db.path.write_bytes(b"SQLite format 3\0" + b"\xa5" * 8192)
    return lambda: (world.db.close(), world.db.path.write_bytes(good))[0]


def spoil_newer(world: World, lock: Any) -> Callable[[], None]:
    world.db.close()
    with sqlite3.connect(world.db.path) as raw:
        raw.execute("PRAGMA user_version=999")
    raw.close()

    def undo() -> None:
        with sqlite3.connect(world.db.path) as raw:
            raw.execute(f"PRAGMA user_version={VERSION}")
        raw.close()

    return undo


def spoil_foreign(world: World, lock: Any) -> Callable[[], None]:
    world.db.close()
    with sqlite3.connect(world.db.path) as raw:
        raw.execute("PRAGMA application_id=7")
    raw.close()

    def undo() -> None:
        with sqlite3.connect(world.db.path) as raw:
            raw.execute(f"PRAGMA application_id={APPLICATION_ID}")
        raw.close()

    return undo


def spoil_full(world: World, lock: Any) -> Callable[[], None]:
    """SQLite's own limit stands for the end of the disk: the same error code, at a page's notice."""
    world.db.open()
    assert world.db._writer is not None
    pages = world.db._writer.execute("PRAGMA page_count").fetchone()[0]
    world.db._writer.execute(f"PRAGMA max_page_count={pages}")

    def undo() -> None:
        assert world.db._writer is not None
        world.db._writer.execute("PRAGMA max_page_count=1000000")

    return undo


SPOILS: dict[str, tuple[Any, type[errors.StoreError]]] = {
    "locked": (spoil_locked, errors.StoreBusy),
    "read-only": (spoil_readonly, errors.StoreReadOnly),
    "corrupt": (spoil_corrupt, errors.StoreCorrupt),
    "newer": (spoil_newer, errors.StoreTooNew),
    "foreign": (spoil_foreign, errors.StoreError),
    "full": (spoil_full, errors.StoreFull),
}


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock is given up after 50 ms."""
    monkeypatch.setattr(connection_module, "BUSY_TIMEOUT_MS", 50)


spoiled = pytest.mark.parametrize(("spoil", "error"), SPOILS.values(), ids=SPOILS.keys())


@spoiled
@pytest.mark.usefixtures("short_waits")
def test_what_cannot_be_stored_is_said(tmp_path: Path, lock: Any, spoil: Any, error: type[errors.StoreError]) -> None:
    """Each cause has its own error with a way out, and nothing is half stored."""
    world = World(tmp_path)
    messages = chat().turns(3)
    world.take(messages)
    undo = spoil(world, lock)
    try:
        with pytest.raises(error) as found:
            world.take(messages.copy().turns(40, first=10, words=300))
    finally:
        undo()

    assert found.value.remedy
    assert world.stored() == messages


@spoiled
@pytest.mark.usefixtures("short_waits")
def test_what_is_still_in_the_list_is_stored_later(
    tmp_path: Path, lock: Any, spoil: Any, error: type[errors.StoreError]
) -> None:
    """When the cause is gone, the same process stores what the live list still shows, once."""
    world = World(tmp_path)
    messages = chat().turns(3)
    world.take(messages)
    undo = spoil(world, lock)
    try:
        with pytest.raises(error):
            world.take(messages.copy().turns(40, first=10, words=300))
    finally:
        undo()
    messages.turns(40, first=10, words=300).user("at last")
    world.take(messages)

    assert texts(world.stored()) == texts(messages)


def test_a_folder_that_another_process_keeps_is_no_wait_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that stopped while it opened a database there: whoever waits would keep all threads of this process waiting."""
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(connection_module, "_MOST_WAIT_S", 0.05)
    db = Database(tmp_path / "lcm.db")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(errors.StoreBusy, match="another process has been opening a database there"):
            db.open()
        with pytest.raises(errors.StoreBusy):
            db.rescue()
    finally:
        os.close(folder)
    db.open()
    db.close()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """The path leads through a file: said as what it is, and no other kind of exception."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(errors.StoreError):
        Database(tmp_path / "file" / "lcm.db").open()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    """Without the right to write, the error says so."""
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(errors.StoreReadOnly):
            Database(tmp_path / "lcm.db").open()
    finally:
        tmp_path.chmod(0o700)


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """The operating system refuses to let the file grow: a StoreError, nothing half stored, and all of it later."""

    def refused() -> list[Any]:
        world, messages, noise = World(tmp_path), chat().turns(3), random.Random(1)
        world.take(messages)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = max(path.stat().st_size for path in tmp_path.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4096, resource.RLIM_INFINITY))
        messages.user("".join(chr(noise.randint(33, 1000)) for _ in range(200_000)))
        try:
            world.take(messages)
            said = "stored"
        except errors.StoreError as exc:
            said = type(exc).__name__
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        world.take(messages)
        return [said, texts(world.stored()) == texts(messages)]

    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    fork.Process(target=lambda: theirs.send(refused())).start()
    assert ours.poll(60)
    said, is_whole = ours.recv()

    assert is_whole
    assert said.startswith("Store")


def test_a_lock_is_waited_for_once(tmp_path: Path, lock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After one time-out the next writes give up at once: a turn waits once, not at each hook."""
    monkeypatch.setattr(connection_module, "BUSY_TIMEOUT_MS", 600)
    db = Database(tmp_path / "lcm.db")
    note(db, "a")
    undo = lock()
    waits = []
    for _ in range(4):
        began = time.monotonic()
        with pytest.raises(errors.StoreBusy):
            note(db, "b")
        waits.append(time.monotonic() - began)
    undo()

    assert sum(waits[1:]) < waits[0]


def test_reading_goes_on_under_a_lock(tmp_path: Path) -> None:
    """A writer elsewhere does not keep anybody from reading."""
    mine, other = Database(tmp_path / "lcm.db"), Database(tmp_path / "lcm.db")
    note(mine, "a")
    with other.transaction():
        note(other, "b")
        assert notes(mine) == ["a"]


def test_the_file_of_another_program_is_not_touched(tmp_path: Path) -> None:
    """A database that is not ours stays byte for byte what it is."""
    path = tmp_path / "lcm.db"
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE theirs(x)")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(errors.StoreError):
        Database(path).open()

    assert path.read_bytes() == before


def test_a_newer_file_is_not_touched(db: Database) -> None:
    """A file of a newer release stays byte for byte what it is."""
    note(db, "a")
    db.close()
    with sqlite3.connect(db.path) as raw:
        raw.execute("PRAGMA user_version=999")
    raw.close()
    before = db.path.read_bytes()
    with pytest.raises(errors.StoreTooNew):
        db.open()

    assert db.path.read_bytes() == before


def test_many_processes_may_be_the_first(tmp_path: Path) -> None:
    """Processes that all create the file at once agree on it."""
    fork = multiprocessing.get_context("fork")
    workers = [
        fork.Process(target=lambda name: Home(tmp_path).say(*"abcd", session=name), args=name) for name in "abcd"
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)

    assert [worker.exitcode for worker in workers] == [0] * 4
    assert World(tmp_path).counts()["messages"] == 16


def test_a_file_that_another_process_makes_meanwhile_is_no_strangers(tmp_path: Path, monkeypatch: Any) -> None:
    """Whose the file is, is read after its tables: both appear in one transaction of the other process."""
    read, others = connection_module._pragma, []

    def pragma(connection: sqlite3.Connection, name: str) -> int:
        value = read(connection, name)
        if name == "application_id" and not others:
            others.append(Database(tmp_path / "lcm.db"))
            others[0].query("SELECT 1")
        return value

    monkeypatch.setattr(connection_module, "_pragma", pragma)
    db = Database(tmp_path / "lcm.db")
    assert db.query("SELECT count(*) FROM messages") == [(0,)]
    assert others
    for each in (db, *others):
        each.close()


def test_a_backup_is_complete_and_private(tmp_path: Path) -> None:
    """A copy made while the database is in use holds everything and is the owner's."""
    world = World(tmp_path)
    messages = chat().turns(5)
    world.take(messages)
    world.db.backup(tmp_path / "copy.db")
    (tmp_path / "other").mkdir()
    shutil.move(tmp_path / "copy.db", tmp_path / "other" / "lcm.db")

    assert mode(tmp_path / "other" / "lcm.db") == "0o600"
    assert World(tmp_path / "other").stored() == messages


# -- health (P9) -------------------------------------------------------------------------------------------------------


def test_a_problem_is_remembered_by_the_next_process(tmp_path: Path) -> None:
    """What was survived is shown until it is resolved, whoever asks."""
    health = Health(db := Database(tmp_path / "lcm.db"), clock=lambda: 6.0)
    health.degraded("ingest", errors.StoreFull("no room"))
    health.degraded("ingest", errors.StoreFull("no room"))
    health.save()
    db.close()
    found = Health(Database(tmp_path / "lcm.db")).problems()

    assert [(problem.topic, problem.count, problem.first_at) for problem in found] == [("ingest", 2, 6.0)]
    assert "free disk space" in found[0].remedy


@pytest.mark.parametrize(
    "error",
    [
        *(kind("lcm.db: it is so") for kind in (errors.StoreBusy, errors.StoreFull, errors.StoreCorrupt, errors.Overtaken)),
        sqlite3.OperationalError("no such table: x"), KeyError("x"), OSError(28, "No space left on device", "lcm.db"),
        PermissionError(13, "Permission denied"), ZeroDivisionError(),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_a_problem_is_told_in_words_with_a_way_out(error: Exception, tmp_path: Path) -> None:
    """No name of a Python class begins it; a defect says that it is one."""
    health = Health(Database(tmp_path / "lcm.db"))
    health.degraded("compaction", error)
    (found,) = health.problems()

    assert not re.match(r"[A-Z]\w+(Error|Busy|Full|Corrupt|Overtaken)\b", found.message), found.message
    assert ("unexpected error" in found.message) == (not isinstance(error, errors.LcmError | OSError))
    assert found.remedy or isinstance(error, OSError)


def test_a_lasting_state_is_counted_once(tmp_path: Path) -> None:
    """Whoever looks at a missing file again, in this process or the next, neither counts nor writes anything."""
    for _ in range(2):
        db = Database(tmp_path / "lcm.db")
        health = Health(db)
        db.open()
        for _ in range(3):
            health.found("payload file_1", "the file is missing", remedy="put it back")
        health.save()
        changed = db.query("SELECT total_changes()")[0][0]
        db.close()

    assert [(each.count, each.message) for each in Health(Database(tmp_path / "lcm.db")).problems()] == [
        (1, "the file is missing")
    ]
    assert changed == 0


def test_a_resolved_problem_is_gone_everywhere(tmp_path: Path) -> None:
    """Resolution is remembered like the problem itself."""
    health = Health(Database(tmp_path / "lcm.db"))
    health.degraded("ingest", "broken")
    health.save()
    health.resolved("ingest")

    assert health.problems() == []
    assert Health(Database(tmp_path / "lcm.db")).problems() == []


def test_a_problem_of_an_earlier_process_can_be_resolved(tmp_path: Path) -> None:
    """A success in this process ends what an earlier one had to report, asked about or not."""
    earlier = Health(Database(tmp_path / "lcm.db"))
    earlier.degraded("ingest", "broken")
    earlier.save()
    Health(Database(tmp_path / "lcm.db")).resolved("ingest")

    assert Health(Database(tmp_path / "lcm.db")).problems() == []


def test_a_problem_of_a_file_that_came_back_can_be_resolved(tmp_path: Path) -> None:
    """A copy that takes the file's place may hold a problem that was resolved since."""
    db = Database(tmp_path / "lcm.db")
    health = Health(db)
    health.degraded("orders", "broken")
    health.save()
    db.close()
    old = (tmp_path / "lcm.db").read_bytes()
    health.resolved("orders")
    assert health.problems() == []
    db.close()
    (tmp_path / "copy").write_bytes(old)
    os.replace(tmp_path / "copy", tmp_path / "lcm.db")
    db.open()

    assert [each.topic for each in health.problems()] == ["orders"]
    health.resolved("orders")

    assert Health(Database(tmp_path / "lcm.db")).problems() == []


def test_a_setting_that_was_corrected_is_not_complained_about(tmp_path: Path) -> None:
    """Each process tells of its own settings, whatever an earlier one, or an earlier release, left in the file."""
    wrong = {"sensitive_patterns": ("typo",), "ignore_message_patterns": ("(",)}
    world = World(tmp_path, **wrong)
    world.take(chat().turns(1))
    world.runtime.ended()
    assert {each.topic for each in world.health.problems()} == {"sensitive pattern typo", "message pattern 1"}
    assert world.db.query("SELECT topic FROM health") == []
    with world.db.transaction():
        world.db.execute("INSERT INTO health VALUES ('setting LCM_X', 'warning', 'wrong', '', 1, 0, 0)")
    world.db.close()

    assert World(tmp_path).health.problems() == []


def test_a_pattern_that_was_simplified_is_not_complained_about(tmp_path: Path) -> None:
    """Whether today's patterns are slow, today's messages show."""
    pytest.importorskip("regex")
    world = World(tmp_path, ignore_message_patterns=("(a|aa)+$",))
    world.take(chat().user("a" * 400 + "b"))
    told = [each.topic for each in world.health.problems()]
    world.runtime.ended()
    world.db.close()

    assert told == ["slow pattern"]
    assert World(tmp_path, ignore_message_patterns=("^a+$",)).health.problems() == []


def test_a_problem_of_the_database_is_kept_until_it_can_be_written(tmp_path: Path) -> None:
    """While the database is the problem, memory holds it."""
    world = World(tmp_path)
    world.take(chat().turns(1))
    with world.failing_at(1):
        world.health.degraded("ingest", "broken")
        world.health.save()
    assert [problem.topic for problem in world.health.problems()] == ["ingest"]
    world.health.save()

    assert [problem.topic for problem in world.restart().health.problems()] == ["ingest"]


def test_health_never_raises(tmp_path: Path) -> None:
    """Reporting a problem is no problem, even without a database."""
    (tmp_path / "file").write_text("x")
    health = Health(Database(tmp_path / "file" / "lcm.db"))
    health.degraded("a", ValueError("x" * 10_000))
    health.save()
    health.keep({"k": {"a": 1}})
    health.resolved("b")

    assert (health.kept_state("k"), [problem.topic for problem in health.problems()]) == ({}, ["a", "notes"])


def test_a_state_that_cannot_be_kept_is_told_until_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is kept again with the next turn; but a disk that refuses a note is ill."""
    faults = Faults().install(monkeypatch)
    health = Health(Database(tmp_path / "lcm.db"))
    health.keep({"one": {"at": 1}})
    faults.arm(2, sqlite3.SQLITE_IOERR)
    topics = []
    for _ in range(2):
        health.keep({"one": {"at": 2}})
        topics.append([problem.topic for problem in health.problems()])

    assert faults.disarm()
    assert topics == [["notes"], []]


def test_states_that_are_kept_together_wait_for_the_disk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not at all where none of them has changed."""
    health = Health(db := Database(tmp_path / "lcm.db"))
    db.open()
    monkeypatch.setattr(disk, "sync", synced := Mock())
    for state in ({"at": 1}, {"at": 1}, {"at": 2}):
        health.keep({"one": state, "other": {"at": 1}})
    found = Health(db).kept_state("one"), Health(db).kept_state("other")
    db.close()

    assert (found, synced.call_count) == (({"at": 2}, {"at": 1}), 2)


def test_a_problem_with_odd_characters_is_saved(tmp_path: Path) -> None:
    """An error text that UTF-8 cannot hold is still an error."""
    world = World(tmp_path)
    world.health.degraded("ingest", "bad \ud800 text")
    world.health.save()

    assert [problem.topic for problem in world.restart().health.problems()] == ["ingest"]


def test_tables_get_other_names_while_no_trigger_is_read_again(tmp_path: Path) -> None:
    """SQLite reads all triggers for each name: nobody could write for 60 ms. Rows are sealed as before."""
    world = World(tmp_path)
    world.take(chat().turns(1))
    said: list[str] = []
    assert world.db._writer is not None
    triggers = "SELECT name, sql FROM sqlite_temp_master ORDER BY name"
    before = world.db._writer.execute(triggers).fetchall()
    world.db._writer.set_trace_callback(said.append)
    world.runtime.index.rebuild(world.store.index_rows())
    world.db._writer.set_trace_callback(None)
    named = [n for n, sql in enumerate(said) if sql.startswith("ALTER TABLE message_index")]
    dropped = [n for n, sql in enumerate(said) if sql.startswith("DROP TRIGGER")]
    made = [n for n, sql in enumerate(said) if sql.startswith("CREATE TEMP TRIGGER")]
    world.take(chat().turns(2))

    assert len(named) == 2
    assert len(dropped) == len(made) == len(before) > 30
    assert max(dropped) < min(named) <= max(named) < min(made)
    assert world.db._writer.execute(triggers).fetchall() == before
    assert seals.broken(world.db) == []


# -- nothing is left of what was deleted -------------------------------------------------------------------------------
def spilled(tmp_path: Path) -> Database:
    """A database from which much was deleted, page by page."""
    db = Database(tmp_path / "lcm.db")
    with db.transaction():
        rows = [(f"k{n}", f"quokka {n} " * 200) for n in range(60)]
        db.executemany("INSERT INTO meta(key, value) VALUES (?, ?)", rows)
    with db.transaction():
        db.execute("DELETE FROM meta WHERE key LIKE 'k%'")
    return db


def left_of(db: Database) -> bytes:
    log = db.path.with_name(f"{db.path.name}-wal")
    return db.path.read_bytes() + (log.read_bytes() if log.exists() else b"")


def test_a_file_is_renewed_in_steps_between_which_others_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Free pages go by the dozen; file and log hold nothing of what was deleted, and what came meanwhile is there."""
    monkeypatch.setattr(connection_module, "_LEAST_PAGES", 12)
    monkeypatch.setattr(connection_module, "_MOST_PAGES", 12)
    db, steps = spilled(tmp_path), list[tuple[str, int, int]]()
    other = Database(db.path, busy_ms=0)

    def progress(*step: Any) -> None:
        steps.append(step)
        note(other, f"meanwhile {len(steps)}")

    db.renew(progress)
    other.close()
    free = db.query("PRAGMA freelist_count")[0][0]
    there = notes(db)
    db.close()

    assert (b"quokka" in left_of(db), free, len(steps) > 5) == (False, 0, True)
    assert len(there) == len(steps)
    assert [done for _, done, _ in steps] == sorted(done for _, done, _ in steps)


def test_a_file_that_was_not_always_written_so_is_renewed_as_a_whole(tmp_path: Path) -> None:
    """Once: from then on it is known to hold nothing but what it says."""
    db, told = spilled(tmp_path), list[str]()
    with db.transaction():
        db.execute("DELETE FROM meta WHERE key = 'overwritten'")
    for _ in range(2):
        db.renew(lambda what, *_: told.append(what))
    db.close()

    assert (told, b"quokka" in left_of(db)) == (["writing the file anew"], False)


def apart(db: Database, sql: str) -> list[Any]:
    with db.apart():
        return db.query(sql)


READS: dict[str, Callable[[Database, str], list[Any]]] = {
    "all rows": lambda db, sql: db.query(sql),
    "the first row": lambda db, sql: [db.query_one(sql)],
    "batches": lambda db, sql: [row for rows in db.iterate(sql) for row in rows],
    "rows of a thread that reads apart": apart,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_goes_on_where_another_thread_closes_the_file(
    tmp_path: Path, read: Callable[[Database, str], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator's purge closes it in the same process: an agent that searches is answered all the same."""
    db = Database(tmp_path / "lcm.db")
    note(db, "a")
    plain, closed = Database._ready, list[bool]()

    def ready(mine: Database) -> None:
        plain(mine)
        if not closed:
            closed.append(True)
            run(mine.close)

    monkeypatch.setattr(Database, "_ready", ready)
    found = read(db, "SELECT count(*) FROM meta WHERE key = 'a'")
    db.close()

    assert (closed, found) == ([True], [(1,)])


@pytest.mark.parametrize("gone", [True, False])
def test_a_log_whose_file_is_gone_or_empty_keeps_what_it_holds(tmp_path: Path, gone: bool) -> None:
    """SQLite would remove it."""
    one = Database(tmp_path / "a" / "lcm.db")
    note(one, "said")
    left = tmp_path / "b" / "lcm.db"
    shutil.copytree(one.path.parent, left.parent)  # as a process that was killed leaves them
    left.unlink() if gone else os.truncate(left, 0)
    other = Database(left)

    assert other.exists
    assert notes(other) == ["said"]
    assert mode(left) == "0o600"


def test_a_log_that_holds_a_part_of_a_lost_file_is_kept_for_its_repair(tmp_path: Path) -> None:
    """The file is damaged then, not new."""
    one = Database(tmp_path / "a" / "lcm.db")
    note(one, "said")
    with closing(sqlite3.connect(one.path)) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    note(one, "later")
    left = tmp_path / "b" / "lcm.db"
    shutil.copytree(one.path.parent, left.parent)
    left.unlink()
    log = left.with_name("lcm.db-wal").read_bytes()

    with pytest.raises(errors.StoreCorrupt):
        Database(left).open()
    assert left.with_name("lcm.db-wal").read_bytes()[: len(log)] == log


# ------------------------------------------------------------
# The order in which the threads of a process write.


def _asks(order: Turns, done: list[str], name: str, *, first: bool = False) -> threading.Thread:
    """A thread that waits in the queue; it is there when this returns."""

    def work() -> None:
        with order.turn(first=first):
            done.append(name)

    before = sum(map(len, order._waiting))
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    _until(lambda: sum(map(len, order._waiting)) > before)
    return thread


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_threads_have_their_turn_in_the_order_in_which_they_asked() -> None:
    order, done = Turns(), list[str]()
    with order.turn():
        threads = [_asks(order, done, name) for name in "abcd"]
    for thread in threads:
        thread.join(30)
    assert done == ["a", "b", "c", "d"]


def test_who_stores_messages_goes_before_the_others() -> None:
    order, done = Turns(), list[str]()
    with order.turn():
        threads = [_asks(order, done, "a"), _asks(order, done, "b"), _asks(order, done, "message", first=True)]
    for thread in threads:
        thread.join(30)
    assert done == ["message", "a", "b"]


def test_who_is_not_called_in_time_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CALLED_S", 0.01)
    order, done = Turns(), list[str]()
    order.turn().__enter__()  # a thread that has ended, and never says so
    for name in "ab":
        with order.turn():
            done.append(name)
    assert done == ["a", "b"]
    monkeypatch.setattr(connection, "CALLED_S", 1e6)
    with order.turn():  # nothing is left of it
        done.append("c")


def test_work_that_fails_in_its_turn_calls_the_next_one() -> None:
    order, done, threads = Turns(), list[str](), list[threading.Thread]()

    def fails() -> None:
        with order.turn():
            threads.append(_asks(order, done, "a"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    threads[0].join(30)
    assert done == ["a"]


def test_a_message_waits_for_no_other_transaction_that_waits(tmp_path: Path) -> None:
    db, done = Database(tmp_path / "lcm.db"), list[str]()
    db.open()

    def writes(name: str) -> None:
        with db.transaction():
            done.append(name)

    def stores() -> None:
        with db.first():
            writes("message")

    with db.transaction():
        threads = [threading.Thread(target=writes, args=(name,), daemon=True) for name in ("a", "b")]
        threads.append(threading.Thread(target=stores, daemon=True))
        for n, thread in enumerate(threads, 1):
            thread.start()
            _until(lambda n=n: sum(map(len, db._turns._waiting)) == n)  # type: ignore[misc]
    for thread in threads:
        thread.join(30)
    db.close()
    assert done[0] == "message"


def test_who_has_the_write_lock_waits_for_no_turn(tmp_path: Path) -> None:
    """A thread that has the turn waits for the lock: if its owner asked for the turn, both would wait for each other."""
    db = Database(tmp_path / "lcm.db")
    db.open()

    def takes_turn() -> None:
        with db.transaction():
            pass

    with db.alone():
        thread = threading.Thread(target=takes_turn, daemon=True)
        thread.start()
        _until(lambda: db._turns.taken)
        before = time.monotonic()
        with db.transaction():
            took = time.monotonic() - before
        with db.unreferenced():
            pass
    thread.join(30)
    assert took < connection.CALLED_S


def test_a_reader_holds_up_nobody_while_the_log_is_folded(tmp_path: Path) -> None:
    """To begin the log anew means to wait for readers, with the write lock: beside thirty chats there is always one."""
    db = Database(tmp_path / "lcm.db")
    with db.transaction():
        db.execute("INSERT INTO meta(key, value) VALUES ('a', hex(randomblob(300000)))")
    other = sqlite3.connect(tmp_path / "lcm.db")
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM meta").fetchall()
    with db.transaction():
        db.execute("INSERT INTO meta(key, value) VALUES ('b', hex(randomblob(300000)))")
    waits = list[str]()
    assert db._writer is not None
    db._writer.set_trace_callback(waits.append)
    db.optimise(log_bytes=0)
    other.close()
    assert "PRAGMA busy_timeout=0" in waits[: waits.index("PRAGMA wal_checkpoint(TRUNCATE)")]
    db.close()


def linked(db: Database) -> Path:
    """A second home whose files are hard links, as `cp -al` makes it."""
    other = db.path.parent / "second"
    other.mkdir()
    for path in db.path.parent.glob("lcm.db*"):
        os.link(path, other / path.name)
    return other / db.path.name


@pytest.mark.parametrize(
    ("killed", "young"), [(False, False), (True, False), (True, True)], ids=["closed", "killed", "killed at once"]
)
def test_a_file_with_two_names_becomes_two_files_before_it_is_used(killed: bool, young: bool, db: Database) -> None:
    """Through each name SQLite keeps another log: what the one stored would be written over by the other."""
    note(db, "before")
    if not young:
        db.close()
    note(db, "in the log")
    sides = {path: path.read_bytes() for path in db.path.parent.glob("lcm.db*")}
    db.close()
    for path in sides if killed else ():
        path.write_bytes(sides[path])
    other = Database(linked(db))
    for n in range(20):
        note(db, f"one{n:02}", "x" * 5000)
        note(other, f"two{n:02}", "y" * 5000)
    db.close()
    other.close()

    assert [path.stat().st_nlink for path in (db.path, other.path)] == [1, 1]
    assert notes(db) == ["before", "in the log", *(f"one{n:02}" for n in range(20))]
    assert notes(other) == ["before", "in the log", *(f"two{n:02}" for n in range(20))]
    assert [files.faults(each.path) for each in (db, other)] == [(), ()]


def test_a_file_that_another_process_has_open_under_a_second_name_is_not_used(db: Database) -> None:
    """Nothing is stored through this name until it has ended; then each has a file of its own."""
    note(db, "before")
    db.close()
    other = Database(linked(db))
    holder = Holder(db.path, "SELECT count(*) FROM meta")
    with pytest.raises(errors.StoreBusy, match="second name"):
        note(other, "two")
    holder.free()
    note(other, "two")

    assert notes(other) == ["before", "two"]
    assert notes(db) == ["before"]


def test_a_copy_for_which_there_is_no_room_takes_none(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the disk would be full for everybody, of a part of a file that nobody can use."""

    def fills(_: object, own: BinaryIO) -> None:
        own.write(b"a part")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    note(db, "before")
    db.close()
    other = Database(linked(db))
    with monkeypatch.context() as full:
        full.setattr(shutil, "copyfileobj", fills)
        with pytest.raises(errors.StoreFull, match="second name"):
            note(other, "two")

    assert [path.name for path in other.path.parent.iterdir()] == ["lcm.db"]
    note(other, "two")
    assert notes(other) == ["before", "two"]


def test_a_file_that_this_process_has_open_keeps_its_second_name(db: Database) -> None:
    """A copy in its place would be another file than the open one, and no lock of this process is in its own way."""
    note(db, "before")
    db.close()
    note(db, "one")
    linked(db)
    again = Database(db.path)
    note(again, "two")
    note(db, "three")

    assert notes(db) == notes(again) == ["before", "one", "three", "two"]
    assert db.path.stat().st_nlink == 2
    again.close()


def test_a_second_name_is_in_nobodys_way_who_uses_the_first_one(db: Database) -> None:
    """A snapshot by hard links that is made while a gateway runs: its terminal opens the same file."""
    note(db, "before")
    db.close()
    holder = Holder(db.path, "SELECT count(*) FROM meta")
    linked(db)
    note(db, "terminal")
    holder.free()

    assert notes(db) == ["before", "terminal"]
