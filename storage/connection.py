"""
The database file: opening it, refusing it, transactions; a short read sees the last commit beside any long read.

One ``Database`` per process and file, however many engines there are: a writer connection under one lock, a reader for short
reads under another, and a connection for each long read while it lasts. Nothing above this package sees ``sqlite3``. The file is
opened at first use and again at every use after a failure, so that a repaired disk needs no restart.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ..errors import (
    Exchanged,
    Overtaken,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
    StoreTooOld,
)
from . import changes, disk, schema, seals, upgrade
from .disk import Identity, Translated, identity_of, is_memory, memory_uri, translate, without_room
from .foreign import refuse_foreign
from .long_reads import LongReads, OwnReader
from .opened import Left, drop_index, has_lost_log, has_removed_index

try:
    import fcntl
except ImportError:  # no such locks there
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")
Params = Sequence[Any] | dict[str, Any]

BUSY_TIMEOUT_MS = 2000
#: After a lock timeout the next writes give up at once for this long: a turn waits once, not at each hook.
BUSY_MEMORY_S = 3.0
BUSY_AGAIN_MS = 20
#: Seconds after which a thread goes on without being called: longer than ordinary waits, shorter than what looks like a hang.
CALLED_S = 2.0
BACKUP_S = 600.0
TOLD_STEPS, COPYING = 10_000, 5  # steps of SQLite: between two words of progress; to copy a row
COPIED_PAGES = 4096
#: Of the write-ahead log: above this size each process that has the file open folds it back, above the other one the worker.
LARGE_LOG_BYTES = 2_000_000
WORTH_LOG_BYTES = 256_000
#: Small: twenty tables and indexes of a page each are much beside one short conversation, and a commit writes whole pages. With
#: 512 a file of 100,000 messages would be 2 % larger.
PAGE_BYTES = 1024
#: Pages that each connection keeps of a file, however large: what they lack comes from the system's own cache.
READER_CACHE_KB, WRITER_CACHE_KB = 6000, 4000
#: Statements over lists have a text for every length and take up to 100 KB: kept by the hundred they are never used again.
KEPT_STATEMENTS = 48
#: Before a commit folds it back itself, which costs the turn that commits; the worker folds back what is much smaller.
_LOG_BYTES = 4_096_000
#: Free pages that are not worth giving back: the next messages use them.
SPARE_PAGES = 16
#: So many at once: nobody can write meanwhile.
RETURNED_PAGES = 4000
#: So many where many follow each other. The pauses in between, and how long a step is tried while others are in the way.
_PAUSE_S, _LONGEST_PAUSE_S, _MOST_WAIT_S = 0.005, 0.5, 30.0
#: A read does not look again whether the file still has its name where its thread looked within this time: each look is three
#: calls of the system, and beside many threads each of these waits for the interpreter.
_LOOKED_S = 0.02
#: Pages given back in one step, at least and at most, and how long it may take: where many are free, finding one takes longer.
_LEAST_PAGES, _MOST_PAGES, _STEP_S = 20, 500, 0.01
_TABLES_AND_TRIGGERS = """
SELECT count(*), group_concat(name || ' on ' || tbl_name, ', ') FILTER (WHERE type = 'trigger') FROM sqlite_master
"""
_IN_STEPS = 2  # ``auto_vacuum`` of a file that gives pages back when it is told to
#: Written anew in 30 ms of processor time.
SMALL_FILE_BYTES = 2_000_000


@contextmanager
def _folder(folder: Path, *, alone: bool) -> Iterator[None]:
    """Lock of a folder beside others that open files there, or ``alone``: none opens one meanwhile. Where there are such locks.

    Raises StoreBusy where another keeps it for too long: the other threads of the process wait as well.
    """
    handle = None
    try:
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
        if handle is not None and fcntl is not None:
            end = time.monotonic() + _MOST_WAIT_S
            while not _locked(handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH):
                if time.monotonic() > end:
                    raise StoreBusy(
                        f"{folder}: another process has been opening a database there for {_MOST_WAIT_S:.0f} s"
                    )
                time.sleep(_PAUSE_S)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _locked(handle: int, how: int) -> bool:
    """False: another has a lock that excludes this one. A file system without such locks excludes nobody."""
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


class _Looked(threading.local):
    """The file that a thread found under its name and with its log, and when."""

    file: Identity | None = None
    at = 0.0


class Database:
    """One SQLite file. Thread-safe."""

    def __init__(
        self,
        path: str | Path,
        *,
        on_open: Callable[[Database], None] | None = None,
        busy_ms: int | None = None,
    ) -> None:
        self.path = Path(path)
        #: The file in use: that of ``path``, or one that stands in for it.
        self.file = self.path
        self._busy_ms = BUSY_TIMEOUT_MS if busy_ms is None else busy_ms
        self._on_open = on_open
        self._clock = time.monotonic
        self._translated = Translated(self.path, moved=self._has_moved)
        self._translated_or_busy = Translated(self.path, self._saw_busy, moved=self._has_moved)
        self._write_lock = threading.RLock()
        self._turns = Turns()
        self._alone = 0  # the thread that has the write lock for more than a transaction
        self._read_lock = threading.RLock()
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._sealer: seals.Sealer | None = None
        self._long_reads = LongReads(self.path)
        self._opened: Identity | None = None
        self._log = disk.SharedSync(self._log_name)
        self._left = Left(self.path, self.path)
        #: What was found wrong with the file when it was opened again, in words; shown to callers that are told of the opening.
        self.notice = ""
        self._tables: object = None  # the file, and the state of its tables, that were looked at
        self._depth = 0
        #: Transactions and parts of them that were undone: what was read in one may be of a row that never came to be.
        self.rollbacks = 0
        self._owner = 0  # the thread whose transaction it is
        self._busy_until = 0.0
        self._pinned = threading.local()
        self._apart = threading.local()
        self._first = threading.local()
        self._looked = _Looked()
        self._known = False  # was it ever open?
        #: Read the file as it is where the disk has no room for its side files; for processes that store nothing.
        self.reads_when_full = False
        self._full: StoreFull | StoreReadOnly | None = None  # why it is read so now
        #: Takes secrets out of names and notes before they are written.
        self.clean: Callable[[str], str] = str

    # -- opening ------------------------------------------------------------------------------------
    def open(self) -> None:
        """Open now (otherwise the first use does). Raises a StoreError that says what is wrong."""
        with self._write_lock:
            self._connected()

    def close(self) -> None:
        """Close the connections; the next use opens them again."""
        with self._write_lock, self._read_lock:
            mine = self._opened is not None and self._opened[0] == os.getpid()
            open_ones = (self._reader, self._writer)
            self._reader = self._writer = self._opened = None
            self._full = None
            self._long_reads.close(mine=mine)
            if mine:  # after a fork the file belongs to the parent: closing here would drop its locks
                for connection in open_ones:
                    if connection is not None:
                        connection.close()

    def use(self, file: Path, *, watched: bool = False) -> None:
        """Work with another file from the next use on: a stand-in, or the database's own. Raises StoreBusy in a transaction.

        ``watched``: the database's own file, which is left, stays open for ``rescue``.
        """
        with self._write_lock, self._read_lock:
            if self._depth:
                raise StoreBusy(f"{self.file}: a transaction is going on")
            if watched and self.file == self.path:
                self._keep(self._left)
            self.close()
            self.file = self.path if file == self.path else file
            self._busy_until = 0.0
            self._translated = Translated(file, moved=self._has_moved)
            self._translated_or_busy = Translated(file, self._saw_busy, moved=self._has_moved)
            self._long_reads.path = file
            self._read_lock = self._write_lock if is_memory(file) else threading.RLock()

    def rescue(self) -> None:
        """Save what the file that was left holds, where it was removed or replaced meanwhile. Raises StoreError."""
        with _folder(self.path.parent, alone=True), self._translated:
            self.notice += self._left.save()

    @property
    def left(self) -> sqlite3.Connection | None:
        """A connection to the database's own file as it was when it was left, for reading; None where none is open."""
        return self._left.reader

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other thread writes meanwhile, to any file in use."""
        with self._write_lock, self._by_itself():
            yield

    @contextmanager
    def _by_itself(self) -> Iterator[None]:
        """This thread has the write lock, and waits for no turn of others, who wait for the lock."""
        before, self._alone = self._alone, threading.get_ident()
        try:
            yield
        finally:
            self._alone = before

    def hold(self, seconds: float) -> bool:
        """Keep every other thread out until ``let_go``; False: one was not done in time, and nothing is held."""
        if not self._write_lock.acquire(timeout=max(0.0, seconds)):
            return False
        if self._read_lock.acquire(timeout=max(0.0, seconds)):
            if self._long_reads.hold(time.monotonic() + seconds):
                return True
            self._read_lock.release()
        self._write_lock.release()
        return False

    def let_go(self) -> None:
        """Let the others in that ``hold`` kept out."""
        self._long_reads.let_go()
        self._read_lock.release()
        self._write_lock.release()

    @contextmanager
    def steady(self) -> Iterator[None]:
        """Refuse this thread's transactions in the block once another file is in use: addresses mean something else there.

        Each of them looks whether the file was exchanged; reads in the block do not.
        """
        if self._reader is None:
            self._ready()
        before, self._pinned.file = getattr(self._pinned, "file", None), self._opened
        try:
            yield
        finally:
            self._pinned.file = before

    @property
    def is_open(self) -> bool:
        return self._writer is not None

    @property
    def exists(self) -> bool:
        """Is there a file of its own with something in it?"""
        try:
            found = self.path.stat()
        except OSError:
            return disk.has_lost_file(self.path)
        return found.st_size > 0 or not stat.S_ISREG(found.st_mode) or disk.has_lost_file(self.path)

    @property
    def only_read(self) -> str:
        """Why the file is only read: its disk has no room, or a limit, or is read-only; "" where it is written, too."""
        return str(self._full or "").removeprefix(f"{self.path}: ")

    @property
    def way_to_write(self) -> str:
        """Remedy for a file that is only read."""
        return StoreFull.remedy if self._full is None else self._full.remedy

    @property
    def identity(self) -> Identity | None:
        """Identity of the open file; another one after a restore, though its path is the same."""
        return self._opened

    @property
    def stands_in(self) -> bool:
        """Is something else in use than the file of ``path``?"""
        return self.file is not self.path

    @property
    def in_use(self) -> tuple[Path, Identity | None]:
        """The file in use; another one with the same name is another one."""
        return self.file, self._opened

    @property
    def is_current(self) -> bool:
        """Is the open file still the one with its name?"""
        return self._opened is not None and self._keeps_name()

    def _keeps_name(self, within_s: float = 0.0) -> bool:
        """Does the file in use still have its name and its log? A look of this thread counts for ``within_s``."""
        opened, looked, now = self._opened, self._looked, time.monotonic()
        if looked.file == opened is not None and now - looked.at < within_s and opened.process == os.getpid():
            return True
        if opened != self._identity():
            return False
        looked.file, looked.at = opened, now
        return True

    def _connected(self) -> sqlite3.Connection:
        if self._writer is not None and self._depth == 0 and not self._keeps_name():
            self._leave()
        if self._writer is None:
            self._open()
        assert self._writer is not None
        return self._writer

    def _identity(self) -> Identity | None:
        return identity_of(self.file)

    def _leave(self) -> None:
        """Close connections to a file that lost its name or its log meanwhile; what only they show is kept.

        A log is removed by SQLite itself where another program's locks cancelled ours: closing any descriptor of a file drops
        all POSIX locks that the process has on it. After a fork the connections are the parent's.
        """
        left = self._left if self.file == self.path else Left(self.file, self.path)
        self._keep(left)
        self.close()
        if left is not self._left:
            try:
                self.notice = left.save()
            except (sqlite3.Error, OSError) as exc:
                self.notice = f"{self.file} was deleted or replaced; what it held could not be saved: {exc}"
            finally:
                left.forget()

    def _keep(self, left: Left) -> None:
        """Leave the connections to what is left of their file; in memory, or after a fork, there is nothing to leave."""
        if self._writer is not None and self._reader not in (None, self._writer) and self._opened is not None:
            assert self._reader is not None
            left.keep(self._writer, self._reader, self._opened)
            self._reader = self._writer = None

    def _open(self) -> None:
        try:
            self._open_whole()
        except (StoreFull, StoreReadOnly) as exc:
            if not self.reads_when_full or not self.file.is_file():
                raise
            self._open_still(exc)

    def _open_still(self, full: StoreFull | StoreReadOnly) -> None:
        """Read the file without making or growing a side file: as one that nobody changes, or with its log as it is."""
        self._full = full
        with self._translated:
            reader = self._connect_reader()
            try:
                self._accepted(reader)
            except BaseException:
                self._full = None
                reader.close()
                raise
        self._writer = self._reader = reader
        self._opened = self._identity()

    def _reading_uri(self) -> str:
        return f"{self.file.resolve().as_uri()}?{'mode=ro' if self._full is None else without_room(self.file)}"

    def _open_whole(self) -> None:
        wait_ms = BUSY_AGAIN_MS if self._clock() < self._busy_until else self._busy_ms
        if not is_memory(self.file):
            refuse_side_folders(self.file)
            if full := disk.no_room_for_index(self.file):
                raise StoreFull(f"{self.file}: {full}")
        lost = self.file == self.path and (self._left.held or has_lost_log(self.file))
        with self._translated_or_busy, _folder(self.file.parent, alone=lost):
            if lost:
                self.notice += self._left.save()
                drop_index(self.file)
            writer, reader, opened = self._connections(wait_ms)
        self._writer, self._reader, self._opened = writer, reader, opened
        self._log = disk.SharedSync(self._log_name)
        self._known = True
        if self.file == self.path:
            self._left.forget()
        if self._on_open is not None:
            try:
                with self._by_itself():
                    self._on_open(self)
            except BaseException:
                self.close()
                raise

    def _connections(self, wait_ms: int) -> tuple[sqlite3.Connection, sqlite3.Connection, Identity]:
        """Writer, reader, and which file they have open. Raises Exchanged where it lost its name or its log meanwhile."""
        self._create_file()
        before = self._identity()
        refuse_foreign(self.file)
        writer = reader = self._connect(wait_ms)
        try:
            older = self._accepted(writer) and upgrade.wanted(writer)
            if before is None or (before.log and self._log_of() != before.log):
                raise self._exchanged()
            if not is_memory(self.file) and has_removed_index(self.file, writer):
                raise StoreBusy(
                    f"{self.file}: its log was removed, and a connection of this process that is not ours has it open still"
                )
            if older:
                writer.close()  # nobody else may have the file open, not even we
                upgrade.upgrade(self.file, wait_s=wait_ms / 1000)
                writer = reader = self._connect(wait_ms)
            self._prepare(writer, wait_ms)
            writer.execute(f"PRAGMA busy_timeout={self._busy_ms}")
            self._sealer = seals.Sealer(writer)
            changes.attach(writer)
            begun = self._identity()
            if not is_memory(self.file):
                reader = self._connect_reader()
            opened = self._identity()
            # Without a name its index is a removed one, which a connection of ours still holds: no other process would see it.
            if opened is None or begun != opened or before[:3] != opened[:3] or not opened.log or not opened.shared:
                raise self._exchanged()
        except BaseException as exc:
            log = self._log_of()  # before the last one is closed, which may remove it
            writer.close()
            reader.close()  # the last one folds no log
            if isinstance(exc, sqlite3.Error) and before is not None and before.log not in (0, log):
                raise self._exchanged() from exc  # a log that is not that of the index beside it
            raise
        return writer, reader, opened

    @property
    def _log_name(self) -> Path:
        return self.file.with_name(self.file.name + "-wal")

    def _log_of(self) -> int:
        now = self._identity()
        return now.log if now is not None else 0

    def _exchanged(self) -> Exchanged:
        return Exchanged(f"{self.file} or its log was exchanged while it was in use; the same call works again")

    def _has_moved(self) -> bool:
        """Is the open file not the one with its name, or its log another one? Whatever fails then says nothing of the file."""
        return self._opened is not None and self._opened != self._identity()

    def _connect(self, wait_ms: int, *, only_reads: bool = False) -> sqlite3.Connection:
        """A connection that waits so many milliseconds for a lock."""
        memory = is_memory(self.file)
        name = memory_uri(self.file) if memory else str(self.file)
        if only_reads and not memory:
            name = self._reading_uri()
        return sqlite3.connect(
            name, timeout=wait_ms / 1000, isolation_level=None, check_same_thread=False, uri=memory or only_reads,
            cached_statements=KEPT_STATEMENTS,
        )  # fmt: skip

    def _connect_reader(self) -> sqlite3.Connection:
        # SQLite folds the log when the last connection is closed: one that only reads does not, and the log may be a removed one.
        reader = self._connect(self._busy_ms, only_reads=True)
        if is_memory(self.file):  # there a second connection would be refused while anybody writes
            reader.execute("PRAGMA read_uncommitted=1")
        reader.execute("PRAGMA trusted_schema=OFF")
        reader.execute("PRAGMA query_only=1")
        reader.execute(f"PRAGMA cache_size=-{READER_CACHE_KB}")
        return reader

    def _create_file(self) -> None:
        """An empty file of the right mode: SQLite gives its side files the mode of the main file."""
        if is_memory(self.file):
            return
        if self.file.exists():
            refuse_other_kinds(self.file)
            disk.bring_back(self.file)
            disk.give_own_file(self.file, schema.APPLICATION_ID.to_bytes(4))
            return
        if self._known and not self.file.parent.is_dir():
            raise StoreReadOnly(
                f"{self.file.parent} is gone: it was renamed or removed while {self.file.name} was in use"
            )
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        disk.bring_back(self.file)
        with suppress(FileExistsError):
            os.close(os.open(self.file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    def _accepted(self, connection: sqlite3.Connection) -> int:
        """Schema of the file (0: it holds nothing yet). Raises a StoreError for a file that this release does not read."""
        connection.execute("PRAGMA trusted_schema=OFF")
        tables, triggers = connection.execute(_TABLES_AND_TRIGGERS).fetchone()
        # Read after the tables: a process that makes them meanwhile says in the same transaction whose they are.
        version = schema.version_of(connection)
        owner = _pragma(connection, "application_id")
        marked = (owner, version) == (schema.APPLICATION_ID, schema.VERSION)
        if tables and not marked and version <= schema.VERSION and schema.is_whole(connection):
            raise StoreCorrupt(
                f"{self.file} has all tables of this release, and a header that was changed (application_id {owner}, "
                f"user_version {version})"
            )
        if tables and owner != schema.APPLICATION_ID:  # its tables are in the log only: seen now that it is open
            raise StoreForeign(
                f"{self.file} is a database of another program (application_id {owner})",
                remedy="move it away, or point LCM_DATABASE_PATH at another file",
            )
        if triggers:
            raise StoreForeign(
                f"{self.file} holds triggers ({triggers}), and this plugin makes none: they may change or drop what is stored",
                remedy="run `/lcm doctor repair`, which removes them, or restore a backup",
            )
        if version > schema.VERSION:
            raise StoreTooNew(
                f"{self.file} has schema {version}, this release knows {schema.VERSION}: update the plugin"
            )
        if tables and version not in (upgrade.DEVELOPMENT, schema.VERSION):
            raise StoreTooOld(
                f"{self.file} has schema {version} of an early development version; this release reads "
                f"{schema.VERSION}, and {upgrade.DEVELOPMENT}, which it upgrades"
            )
        return version if tables else 0

    def _accept_again(self, connection: sqlite3.Connection) -> None:
        """Another program may have changed the tables while they are in use, or given them triggers.

        Another process may have joined a fleet with the file: notes are taken from now on.
        """
        with self._translated:
            if (now := (self._opened, _pragma(connection, "schema_version"))) != self._tables:
                self._accepted(connection)
                changes.attach(connection)
                self._tables = now

    def _prepare(self, connection: sqlite3.Connection, wait_ms: int) -> None:
        """Prepare a connection, waiting so many milliseconds for another that holds the file."""
        if not self._accepted(connection):  # both are for files that hold nothing yet; others keep what they have
            connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        self._use_wal(connection, wait_ms)
        connection.execute("PRAGMA synchronous=NORMAL")  # ``transaction`` waits for the disk itself
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(f"PRAGMA cache_size=-{WRITER_CACHE_KB}")
        connection.execute(f"PRAGMA wal_autocheckpoint={_LOG_BYTES // _pragma(connection, 'page_size')}")
        connection.execute(f"PRAGMA journal_size_limit={WORTH_LOG_BYTES}")
        connection.execute("PRAGMA temp_store=MEMORY")
        if not _pragma(connection, "secure_delete"):
            connection.execute("PRAGMA secure_delete=FAST")
        schema.create(connection)
        schema.mend(connection)
        seals.ensure(connection)
        upgrade.tidy(connection, self.file)

    def _use_wal(self, connection: sqlite3.Connection, wait_ms: int) -> None:
        """SQLite does not wait for a lock here, and processes that start together all ask for it."""
        end = self._clock() + wait_ms / 1000
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as exc:
                if not isinstance(translate(exc, self.file), StoreBusy) or self._clock() > end:
                    raise
                time.sleep(0.02)

    # -- writing ------------------------------------------------------------------------------------
    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, on the disk when it is over. Nested use joins the outer one. Never hold one over a model call."""
        with self._turn(), self._write_lock:
            if self._depth:
                with self._nested():
                    yield
                return
            with self._translated_or_busy:
                connection = self._connected()
                if self._full is not None:
                    raise self._full
                if getattr(self._pinned, "file", None) not in (None, self._opened):
                    raise Exchanged(
                        f"{self.file} took the place of the file that this work began with; it is done again"
                    )
                self._sealed().attach()
            try:
                self._begin(connection)
                self._accept_again(connection)
                yield
                with self._translated:
                    self._sealed().flush()
                    connection.execute("COMMIT")
                if not self._keeps_name():
                    raise Overtaken(f"{self.file} or its log was removed while this was written; it is written again")
                log, number = self._log, self._log.wrote()
            except BaseException:
                self._rollback(connection)
                raise
            finally:
                self._depth = self._owner = 0
        if not is_memory(self.file):
            with self._translated:  # others write meanwhile
                log.wait(number)

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Begin a transaction. If an error or Ctrl-C comes meanwhile, the caller rolls it back."""
        with self._translated_or_busy:
            again = self._clock() < self._busy_until
            if again:
                connection.execute(f"PRAGMA busy_timeout={BUSY_AGAIN_MS}")
            try:
                connection.execute("BEGIN IMMEDIATE")
            finally:
                if again:
                    connection.execute(f"PRAGMA busy_timeout={self._busy_ms}")
        self._depth, self._owner = 1, threading.get_ident()

    def _turn(self) -> AbstractContextManager[None]:
        """A turn of this thread among those that write; none where it has the write lock already."""
        if threading.get_ident() in (self._owner, self._alone):
            return nullcontext()
        return self._turns.turn(first=getattr(self._first, "on", False))

    @contextmanager
    def first(self) -> Iterator[None]:
        """Transactions of this thread in the block go before those of others that wait: what it stores is waited for."""
        before, self._first.on = getattr(self._first, "on", False), True
        try:
            yield
        finally:
            self._first.on = before

    @contextmanager
    def part(self) -> Iterator[None]:
        """Transaction that is one of many of a long work; then others have a turn."""
        with self.transaction():
            began = time.monotonic()
            yield
        self.give_way(time.monotonic() - began)

    def give_way(self, held_s: float) -> None:
        """Fold a large log back, and pause twice as long as nobody else could write: who waits looks only now and then."""
        if not self._depth:
            self.relieve()
            time.sleep(min(max(_PAUSE_S, 2 * held_s), _LONGEST_PAUSE_S))

    @contextmanager
    def _nested(self) -> Iterator[None]:
        """A part of the open transaction that is all or nothing by itself, for callers that survive its failure."""
        connection = self._in_transaction()
        name, mark = f"part{self._depth}", self._sealed().mark()
        with self._translated:
            connection.execute(f"SAVEPOINT {name}")
        self._depth += 1
        try:
            yield
        except BaseException:
            self.rollbacks += 1
            self._sealed().back_to(mark)
            if connection.in_transaction:  # SQLite ends the whole transaction by itself on some errors
                with self._translated:
                    connection.execute(f"ROLLBACK TO {name}")
                    connection.execute(f"RELEASE {name}")
            raise
        else:
            with self._translated:
                connection.execute(f"RELEASE {name}")
        finally:
            self._depth -= 1

    def _sealed(self) -> seals.Sealer:
        assert self._sealer is not None  # made with the writer
        return self._sealer

    def _rollback(self, connection: sqlite3.Connection) -> None:
        self.rollbacks += 1
        self._tables = None  # what was attached in it is undone as well
        self._sealed().back_to({})
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self.close()  # the connection is unusable; the next use opens a new one

    def _saw_busy(self) -> None:
        self._busy_until = self._clock() + BUSY_MEMORY_S

    @contextmanager
    def unreferenced(self) -> Iterator[None]:
        """A transaction that does not enforce references: for copies of rows whose neighbours may be unreadable."""
        with self._write_lock, self._by_itself():
            with self._translated:
                connection = self._connected()
                connection.execute("PRAGMA foreign_keys=OFF")
            try:
                with self.transaction():
                    yield
            finally:
                with self._translated:
                    connection.execute("PRAGMA foreign_keys=ON")

    def execute(self, sql: str, params: Params = ()) -> int:
        """One writing statement inside a transaction. Returns the last inserted rowid."""
        with self._write_lock, self._translated:
            return self._in_transaction().execute(sql, params).lastrowid or 0

    def executemany(self, sql: str, rows: Iterable[Params]) -> None:
        """One writing statement for many rows, inside a transaction."""
        with self._write_lock, self._translated:
            self._in_transaction().executemany(sql, rows)

    def rename(self, tables: Sequence[tuple[str, str]]) -> None:
        """Give tables other names, inside a transaction. SQLite reads all triggers again for each: they are away meanwhile."""
        with self._write_lock, self._translated:
            connection = self._in_transaction()
            triggers = connection.execute("SELECT name, sql FROM sqlite_temp_master WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER temp.{name}")
            for old, new in tables:
                connection.execute(f"ALTER TABLE {old} RENAME TO {new}")
            for _, sql in triggers:
                connection.execute(sql.replace("CREATE TRIGGER", "CREATE TEMP TRIGGER", 1))

    def fetch(self, sql: str, params: Params = ()) -> list[tuple[Any, ...]]:
        """Read inside the open transaction: what this transaction itself has written is seen."""
        with self._write_lock, self._translated:
            return self._in_transaction().execute(sql, params).fetchall()

    def _in_transaction(self) -> sqlite3.Connection:
        if not self._depth or self._writer is None:
            raise RuntimeError("write outside a transaction")
        return self._writer

    # -- reading ------------------------------------------------------------------------------------
    def query(self, sql: str, params: Params = ()) -> list[tuple[Any, ...]]:
        """All rows of a reading statement: of the last commit, and within a transaction what it has written itself."""
        rows: list[tuple[Any, ...]] = self._read(sql, params, sqlite3.Cursor.fetchall)
        return rows

    def query_one(self, sql: str, params: Params = ()) -> tuple[Any, ...] | None:
        """The first row, or None."""
        row: tuple[Any, ...] | None = self._read(sql, params, sqlite3.Cursor.fetchone)
        return row

    def _read(self, sql: str, params: Params, fetch: Callable[[sqlite3.Cursor], Any]) -> Any:
        """Over the writer in a transaction, else this thread's reader or the common one or, while that is taken, a spare one."""
        if self._owner == threading.get_ident():
            with self._write_lock, self._translated:
                return _fetched(self._in_transaction(), sql, params, fetch)
        while True:
            self._ready()
            own, lock = self._own_reader(), self._read_lock
            if own is None and not lock.acquire(blocking=is_memory(self.file)):
                own = self._long_reads.spare(self._connect_for_long_read, self._ready)
            if own is not None:
                try:
                    with self._translated:
                        return own.read(sql, params, fetch)
                except StoreReadOnly:  # this process may open nothing more: the common one is open
                    own.close()
                    lock.acquire()
            try:
                with self._translated:
                    if self._reader is not None:  # another thread may have closed it just now
                        return _fetched(self._reader, sql, params, fetch)
            finally:
                lock.release()

    def iterate(self, sql: str, params: Params = (), *, size: int = 500) -> Iterator[list[tuple[Any, ...]]]:
        """Rows in batches, all of the moment of the first batch, read over a connection of their own.

        A connection sees one moment as long as a statement of it is not read to its end: short reads beside this one go on to
        see every commit. Raises StoreBusy when too many are going on and none of them ends in time.
        """
        self._ready()
        with self._translated, self._long_reads.begun(self._connect_for_long_read, self._ready) as read:
            while rows := read.rows(sql, params, size):
                yield rows

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Short reads of this thread go over a connection of their own: however long they take, no other thread waits."""
        if is_memory(self.file) or self._own_reader() is not None:
            yield
            return
        with self._long_reads.own(self._connect_for_long_read, self._ready) as reader:
            self._apart.reader = reader
            try:
                yield
            finally:
                self._apart.reader = None

    def _own_reader(self) -> OwnReader | None:
        return None if is_memory(self.file) else getattr(self._apart, "reader", None)

    def _connect_for_long_read(self) -> sqlite3.Connection | None:
        return None if self._reader is None else self._connect_reader()

    def _ready(self) -> None:
        """Open if need be, under the write lock and before the read lock is taken: the order in which ``close`` takes them."""
        pinned = getattr(self._pinned, "file", None)
        if self._reader is None or (self._depth == 0 and not pinned and not self._keeps_name(_LOOKED_S)):
            with self._write_lock:
                self._connected()

    # -- maintenance --------------------------------------------------------------------------------
    def backup(self, target: Path, progress: Callable[[str, int, int], None] = lambda *_: None) -> None:
        """A consistent copy through SQLite's backup API, on connections of its own."""
        with Translated(target):
            source = sqlite3.connect(self._reading_uri(), uri=True, isolation_level=None)
            copy = sqlite3.connect(target if target.exists() else disk.private(target))
            end = self._clock() + BACKUP_S

            def told(_status: int, left: int, pages: int) -> None:
                progress("copying", pages - left, pages)
                if self._clock() > end:
                    raise StoreBusy(f"{self.file}: no consistent copy within {BACKUP_S:.0f} s")

            try:
                # One moment for all steps: otherwise each commit of an agent would begin the copy anew.
                source.execute("BEGIN")
                source.execute("SELECT 1 FROM sqlite_master").fetchall()
                source.backup(copy, pages=COPIED_PAGES, progress=told)
            finally:
                copy.close()
                source.close()
            os.chmod(target, 0o600)

    @contextmanager
    def copied(
        self, tables: Sequence[str], schema: Sequence[str], progress: Callable[[str, int, int], None] = lambda *_: None
    ) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """A private copy of some tables as they are now, over ``schema``, which makes them. Locks nobody.

        Yields its ``execute(sql, what, steps)``: ``progress`` hears of ``what`` that it takes about so many steps of SQLite.
        """
        source = memory_uri(self.file) if is_memory(self.file) else self._reading_uri()
        self._ready()
        with self._translated, closing(sqlite3.connect("file:", uri=True, isolation_level=None)) as copy:
            for statement in schema:
                copy.execute(statement)
            copy.execute("ATTACH ? AS source", (source,))
            copy.execute("BEGIN")
            execute = partial(_executed, copy, progress)
            for table in tables:
                copy.execute(f"DELETE FROM main.{table}")
                (rows,) = copy.execute(f"SELECT count(*) FROM source.{table}").fetchone()
                what = f"reading {table.replace('_', ' ')}"
                execute(f"INSERT INTO main.{table} SELECT * FROM source.{table}", what, rows * COPYING)
            copy.execute("COMMIT")
            copy.execute("PRAGMA writable_schema=RESET")  # what a search index knew of itself is read anew
            yield execute

    def optimise(self, *, log_bytes: int = LARGE_LOG_BYTES) -> None:
        """Give free pages back and fold a write-ahead log of more than ``log_bytes`` into the file.

        Waits for nobody: what a reader or a writer of any process stands in the way of is left to the next time.
        """
        if not self.is_open or self._depth:
            return
        try:
            if self.query("PRAGMA freelist_count")[0][0] > SPARE_PAGES:  # mostly not, and nobody waits for the question
                with self._hurried() as connection:  # ``execute`` would give one page back
                    connection.executescript(f"PRAGMA incremental_vacuum({RETURNED_PAGES});")
            self._fold_log(log_bytes)
        except StoreBusy:
            return

    def tighten(self) -> None:
        """Write a small file anew, its rows side by side: those that were moved left a tenth of their pages empty.

        Waits for nobody, like ``optimise``; in a large file it would take too long.
        """
        if not self.is_open or self._depth:
            return
        try:
            with self._hurried() as connection:
                if _pragma(connection, "page_count") * _pragma(connection, "page_size") <= SMALL_FILE_BYTES:
                    connection.execute("VACUUM")
        except StoreBusy:
            return

    @contextmanager
    def secure(self) -> Iterator[None]:
        """Overwrite with zeros what this process deletes or moves meanwhile."""
        with self._write_lock, self._translated:
            before = _pragma(self._connected(), "secure_delete")
            self._connected().execute("PRAGMA secure_delete=ON").fetchall()
        try:
            yield
        finally:
            with self._write_lock, self._translated:
                self._connected().execute(f"PRAGMA secure_delete={before if before < 2 else 'FAST'}").fetchall()

    def renew(self, progress: Callable[[str, int, int], None] = lambda *_: None) -> None:
        """Leave nothing of what was deleted in file and log, in steps between which others write. Raises StoreBusy.

        Within pages it was overwritten when it was deleted, so free pages are given back. A file that was not always written so,
        or that cannot give pages back, is written anew as a whole.
        """
        if self._overwritten():
            total, pages = 0, _LEAST_PAGES
            while True:
                left, pages = self._patiently(partial(self._give_back, pages))
                if not left:
                    break
                total = max(total, left)
                progress("giving back free pages", total - left, total)
        else:
            progress("writing the file anew", 0, 0)
            with self._write_lock, self._translated:
                self._connected().execute("VACUUM")
                self._connected().execute(
                    "INSERT OR REPLACE INTO meta(key, value) VALUES (?, 'true')", (schema.OVERWRITTEN,)
                )
        self._patiently(self._empty_log)

    def _overwritten(self) -> bool:
        marked = self.query_one("SELECT 1 FROM meta WHERE key = ?", (schema.OVERWRITTEN,))
        return marked is not None and self.query("PRAGMA auto_vacuum")[0][0] == _IN_STEPS

    def _patiently(self, step: Callable[[], T]) -> T:
        """A step that waits for nobody, again and again for a while."""
        end = self._clock() + _MOST_WAIT_S
        while True:
            try:
                return step()
            except StoreBusy:
                if self._clock() > end:
                    raise
            time.sleep(BUSY_AGAIN_MS / 1000)

    def _give_back(self, pages: int) -> tuple[int, int]:
        """Give so many free pages back; how many there were, and how many to give back in the next step."""
        with self._hurried() as connection:
            began, free = time.monotonic(), _pragma(connection, "freelist_count")
            if free:  # ``execute`` would give one page back
                connection.executescript(f"PRAGMA incremental_vacuum({pages});")
        took = time.monotonic() - began
        self.give_way(took)
        fits = int(pages * _STEP_S / max(took, 1e-6))
        return free, min(max(fits, _LEAST_PAGES), 2 * pages, _MOST_PAGES)

    def _empty_log(self) -> None:
        self._fold_beside(0)
        with self._hurried() as connection:
            if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                raise StoreBusy(f"{self.file}: another process reads it, so its log still holds what was deleted")

    def relieve(self) -> None:
        """Checkpoint of a large log, over a connection beside the writer: so no commit has to do it while turns wait."""
        if not is_memory(self.file):
            self._fold_beside(LARGE_LOG_BYTES)

    def _fold_beside(self, above: int) -> bool:
        """Fold a log that is larger back, without any lock of ours or of those who write; False where it is not."""
        log = self._log_name
        if not log.exists() or log.stat().st_size <= above:
            return False
        with self._translated, self._long_reads.begun(self._connect_beside, self._ready) as beside:
            beside.rows("PRAGMA wal_checkpoint(PASSIVE)", (), 1)
        return True

    def _connect_beside(self) -> sqlite3.Connection:
        beside = self._connect(0)
        beside.execute("PRAGMA synchronous=FULL")
        return beside

    def _fold_log(self, above: int) -> None:
        if not self._fold_beside(above) or self._turns.taken:
            return  # while others write, the log begins anew by itself as soon as nobody reads the rest
        # Only what came meanwhile is left to do, while nobody may write: readers are not waited for.
        with self._hurried(wait_ms=0) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @contextmanager
    def _hurried(self, wait_ms: int = BUSY_AGAIN_MS) -> Iterator[sqlite3.Connection]:
        """The writer's connection, for statements that hardly wait for other connections."""
        with self._write_lock, self._translated:
            connection = self._connected()
            connection.execute(f"PRAGMA busy_timeout={wait_ms}")
            try:
                yield connection
            finally:
                connection.execute(f"PRAGMA busy_timeout={self._busy_ms}")


def _fetched(connection: sqlite3.Connection, sql: str, params: Params, fetch: Callable[[sqlite3.Cursor], Any]) -> Any:
    with closing(connection.execute(sql, params)) as cursor:  # it may not be read to its end
        return fetch(cursor)


def refuse_other_kinds(path: Path) -> None:
    """Raise StoreError for a folder or a device; an empty file (``touch``) gets the mode of a database."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "not a regular file"
        remedy = "let LCM_DATABASE_PATH name a file (or leave it out: `lcm.db` in the Hermes home)"
        raise StoreError(f"{path} is {what}; the database needs a file", remedy)
    if not found.st_size and found.st_mode & 0o077:
        path.chmod(0o600)


def refuse_side_folders(path: Path) -> None:
    """Raise StoreError where a folder has the name of a side file."""
    for side in (Path(f"{path}{ending}") for ending in ("-wal", "-shm", "-journal")):
        if side.is_dir():
            remedy = f"move the folder {side} away, or remove it; nothing of the database lies in it"
            raise StoreError(f"{side} is a folder; SQLite needs that name for a file of its own", remedy)


def _executed(
    connection: sqlite3.Connection, progress: Callable[[str, int, int], None], sql: str, what: str = "", steps: int = 0
) -> sqlite3.Cursor:
    """A statement that tells how far it is. Ctrl-C ends it: what is raised while it is told, SQLite turns into "interrupted"."""
    done = 0

    def told() -> None:
        nonlocal done
        done = min(done + TOLD_STEPS, steps)
        progress(what, done, steps)

    connection.set_progress_handler(told if steps else None, TOLD_STEPS)
    try:
        return connection.execute(sql)
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            raise KeyboardInterrupt from None
        raise


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


# -- one database per file -------------------------------------------------------------------------------
class Turns:
    """
    Order in which the threads of a process write to one file: messages first, then everything else, each as it came.

    The interpreter's locks keep no order: beside thirty chats one thread was overtaken by a hundred others. This order is advice
    beside the lock. A thread that is not called in time goes on, so nothing hangs on a thread that has ended.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.taken = False  # does anybody write?
        self._waiting: tuple[deque[threading.Lock], deque[threading.Lock]] = deque(), deque()  # messages, others

    @contextmanager
    def turn(self, *, first: bool = False) -> Iterator[None]:
        """A turn of this thread; ``first``: before all that store no messages."""
        mine = self._asked(first)
        called = mine is None
        try:
            if mine is not None:
                called = mine.acquire(timeout=CALLED_S)
            yield
        finally:
            self._over(None if called else mine)

    def _asked(self, first: bool) -> threading.Lock | None:
        """A lock that is released when this thread is called; None where nobody else has the turn."""
        with self._lock:
            if not self.taken:
                self.taken = True
                return None
            mine = threading.Lock()
            mine.acquire()
            self._waiting[not first].append(mine)
            return mine

    def _over(self, uncalled: threading.Lock | None) -> None:
        """Call the next one. ``uncalled``: the place in the queue of a thread that has waited long enough."""
        with self._lock:
            for queue in self._waiting:
                if uncalled is not None and uncalled in queue:
                    queue.remove(uncalled)
            for queue in self._waiting:
                if queue:
                    queue.popleft().release()
                    return
            self.taken = False


class Databases:
    """The databases of this process by real path, so that no file is ever opened twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_path: dict[str, Database] = {}

    def at(self, path: str | Path, on_open: Callable[[Database], None] | None = None) -> Database:
        key = os.path.realpath(path)
        with self._lock:
            if key not in self._by_path:
                self._by_path[key] = Database(key, on_open=on_open)
            return self._by_path[key]


# -- lists as parameters of a statement ------------------------------------------------------------------
# Prepared statements are kept by their text: a list is as long as the next power of two, with NULLs that are equal to nothing.
def padded(values: Collection[Any], blank: Any = None) -> list[Any]:
    """The values, and ``blank`` until there are 1, 2, 4, 8, ... of them; nothing for none."""
    out: list[Any] = list(values)
    if out:
        out += [blank] * ((1 << (len(out) - 1).bit_length()) - len(out))
    return out


def parts_of(values: Sequence[Any], size: int = 512) -> Iterator[list[Any]]:
    """The values in lists for one statement each."""
    for at in range(0, len(values), size):
        yield padded(values[at : at + size])


def marks(count: int, mark: str = "?") -> str:
    """Parameter marks, separated by commas."""
    return ",".join([mark] * count)
