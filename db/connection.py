"""
The database file: opening it, refusing it, transactions; a short read sees the last commit, whatever long reads are going on.

One ``Database`` per process and file, however many engines there are: a writer connection under one lock, a reader for short
reads under another, and a connection for each long read while it lasts. Nothing above this package sees ``sqlite3``. The file is
opened at first use and again at every use after a failure, so that a repaired disk needs no restart.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import StoreBusy, StoreError, StoreForeign, StoreTooNew, StoreTooOld
from . import migrations, upgrade
from .faults import Translated, translate
from .foreign import refuse_foreign
from .long_reads import LongReads

Params = Sequence[Any] | dict[str, Any]

BUSY_TIMEOUT_MS = 2000
#: After a lock timeout the next writes give up at once for this long: a turn waits once, not at each hook.
BUSY_MEMORY_S = 3.0
BUSY_AGAIN_MS = 20
BACKUP_S = 600.0
#: Of the write-ahead log: above this whoever has the file open folds it back, above the other one the worker does after a turn.
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
#: Written anew in 30 ms of processor time.
SMALL_FILE_BYTES = 2_000_000


class Database:
    """One SQLite file. Thread-safe; ``clock`` is ``time.monotonic`` unless a test says otherwise."""

    def __init__(
        self,
        path: str | Path,
        *,
        on_open: Callable[[Database], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = Path(path)
        self._on_open = on_open
        self._clock = clock
        self._translated = Translated(self.path)
        self._translated_or_busy = Translated(self.path, self._saw_busy)
        self._write_lock = threading.RLock()
        self._read_lock = threading.RLock()
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._long_reads = LongReads(self.path)
        self._opened: tuple[int, int, int] | None = None  # pid, device, inode
        self._depth = 0
        self._busy_until = 0.0

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
            self._long_reads.close(mine=mine)
            if mine:  # after a fork the file belongs to the parent: closing here would drop its locks
                for connection in open_ones:
                    if connection is not None:
                        connection.close()

    @property
    def is_open(self) -> bool:
        return self._writer is not None

    @property
    def identity(self) -> tuple[int, int, int] | None:
        """Which file is open; another one after a restore, though its path is the same."""
        return self._opened

    def _connected(self) -> sqlite3.Connection:
        if self._writer is not None and self._opened != self._identity() and self._depth == 0:
            self.close()  # the file was replaced (restored, repaired) or the process forked
        if self._writer is None:
            self._open()
        assert self._writer is not None
        return self._writer

    def _identity(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return os.getpid(), found.st_dev, found.st_ino

    def _open(self) -> None:
        patience = BUSY_AGAIN_MS if self._clock() < self._busy_until else BUSY_TIMEOUT_MS
        with self._translated_or_busy:
            self._create_file()
            refuse_foreign(self.path)
            writer = self._connect(patience)
            try:
                if self._accepted(writer) == upgrade.DEVELOPMENT:
                    writer.close()  # nobody else may have the file open, not even we
                    upgrade.upgrade(self.path, wait_s=patience / 1000)
                    writer = self._connect(patience)
                self._prepare(writer, patience)
                writer.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
                reader = self._connect_reader()
            except BaseException:
                writer.close()
                raise
        self._writer, self._reader, self._opened = writer, reader, self._identity()
        if self._on_open is not None:
            try:
                self._on_open(self)
            except BaseException:
                self.close()
                raise

    def _connect(self, patience: int) -> sqlite3.Connection:
        """A connection that waits so many milliseconds for a lock."""
        return sqlite3.connect(
            self.path, timeout=patience / 1000, isolation_level=None, check_same_thread=False,
            cached_statements=KEPT_STATEMENTS,
        )  # fmt: skip

    def _connect_reader(self) -> sqlite3.Connection:
        reader = self._connect(BUSY_TIMEOUT_MS)
        reader.execute("PRAGMA trusted_schema=OFF")
        reader.execute("PRAGMA query_only=1")
        reader.execute(f"PRAGMA cache_size=-{READER_CACHE_KB}")
        return reader

    def _create_file(self) -> None:
        """An empty file of the right mode: SQLite gives its side files the mode of the main file."""
        if self.path.exists():
            return
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    def _accepted(self, connection: sqlite3.Connection) -> int:
        """Which schema the file has (0: it holds nothing yet). Raises a StoreError for a file that this release does not read."""
        connection.execute("PRAGMA trusted_schema=OFF")
        tables, triggers = connection.execute("SELECT count(*), total(type = 'trigger') FROM sqlite_master").fetchone()
        # Read after the tables: a process that makes them meanwhile says in the same transaction whose they are.
        version = migrations.version_of(connection)
        owner = _pragma(connection, "application_id")
        if tables and owner != migrations.APPLICATION_ID:  # its tables are in the log only: seen now that it is open
            raise StoreForeign(
                f"{self.path} is a database of another program (application_id {owner})",
                remedy="move it away, or point LCM_DATABASE_PATH at another file",
            )
        if triggers:
            raise StoreError(
                f"{self.path} holds triggers, and this plugin makes none: they may change or drop what is stored; "
                "remove them, or restore a backup"
            )
        if version > migrations.VERSION:
            raise StoreTooNew(
                f"{self.path} has schema {version}, this release knows {migrations.VERSION}: update the plugin"
            )
        if tables and version not in (upgrade.DEVELOPMENT, migrations.VERSION):
            raise StoreTooOld(
                f"{self.path} has schema {version} of an early development version; this release reads "
                f"{migrations.VERSION}, and {upgrade.DEVELOPMENT}, which it upgrades"
            )
        return version if tables else 0

    def _prepare(self, connection: sqlite3.Connection, patience: int) -> None:
        """Everything a connection needs, waiting so many milliseconds for whoever holds the file."""
        if not self._accepted(connection):  # both are for files that hold nothing yet; others keep what they have
            connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        self._use_wal(connection, patience)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(f"PRAGMA cache_size=-{WRITER_CACHE_KB}")
        connection.execute(f"PRAGMA wal_autocheckpoint={_LOG_BYTES // _pragma(connection, 'page_size')}")
        connection.execute(f"PRAGMA journal_size_limit={WORTH_LOG_BYTES}")
        connection.execute("PRAGMA temp_store=MEMORY")
        migrations.create(connection)
        upgrade.tidy(connection, self.path)

    def _use_wal(self, connection: sqlite3.Connection, patience: int) -> None:
        """SQLite does not wait for a lock here, and processes that start together all ask for it."""
        end = self._clock() + patience / 1000
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as exc:
                if not isinstance(translate(exc, self.path), StoreBusy) or self._clock() > end:
                    raise
                time.sleep(0.02)

    # -- writing ------------------------------------------------------------------------------------
    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing. Nested use joins the outer transaction. Never hold one over a model call."""
        with self._write_lock:
            if self._depth:
                with self._nested():
                    yield
                return
            with self._translated_or_busy:
                connection = self._connected()
                again = self._clock() < self._busy_until
                if again:
                    connection.execute(f"PRAGMA busy_timeout={BUSY_AGAIN_MS}")
                try:
                    connection.execute("BEGIN IMMEDIATE")
                finally:
                    if again:
                        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
            self._depth = 1
            try:
                yield
                with self._translated:
                    connection.execute("COMMIT")
            except BaseException:
                self._rollback(connection)
                raise
            finally:
                self._depth = 0

    @contextmanager
    def _nested(self) -> Iterator[None]:
        """A part of the open transaction that is all or nothing by itself, for callers that survive its failure."""
        connection = self._in_transaction()
        name = f"part{self._depth}"
        with self._translated:
            connection.execute(f"SAVEPOINT {name}")
        self._depth += 1
        try:
            yield
        except BaseException:
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

    def _rollback(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self.close()  # the connection is unusable; the next use opens a new one

    def _saw_busy(self) -> None:
        self._busy_until = self._clock() + BUSY_MEMORY_S

    def execute(self, sql: str, params: Params = ()) -> int:
        """One writing statement inside a transaction. Returns the last inserted rowid."""
        with self._write_lock, self._translated:
            return self._in_transaction().execute(sql, params).lastrowid or 0

    def executemany(self, sql: str, rows: Iterable[Params]) -> None:
        """The same statement for many rows, inside a transaction."""
        with self._write_lock, self._translated:
            self._in_transaction().executemany(sql, rows)

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
        """All rows of a reading statement."""
        self._ready()
        with self._read_lock, self._translated:
            return self._reading().execute(sql, params).fetchall()

    def query_one(self, sql: str, params: Params = ()) -> tuple[Any, ...] | None:
        """The first row, or None."""
        self._ready()
        with self._read_lock, self._translated:
            with closing(self._reading().execute(sql, params)) as cursor:  # a statement that is not read to its end
                row: tuple[Any, ...] | None = cursor.fetchone()
            return row

    def iterate(self, sql: str, params: Params = (), *, size: int = 500) -> Iterator[list[tuple[Any, ...]]]:
        """Rows in batches, all of the moment of the first batch, read over a connection of their own.

        A connection sees one moment as long as a statement of it is not read to its end: short reads beside this one go on to
        see every commit. Raises StoreBusy when too many are going on and none of them ends in time.
        """
        self._ready()
        with self._translated, self._long_reads.begun(self._connect_for_long_read) as read:
            while rows := read.rows(sql, params, size):
                yield rows

    def _connect_for_long_read(self) -> sqlite3.Connection:
        self._reading()  # raises where another thread has just closed the file
        return self._connect_reader()

    def _ready(self) -> None:
        """Open if need be, under the write lock and before the read lock is taken: the order in which ``close`` takes them."""
        if self._reader is None or (self._depth == 0 and self._opened != self._identity()):
            with self._write_lock:
                self._connected()

    def _reading(self) -> sqlite3.Connection:
        if self._reader is None:
            raise StoreBusy(f"{self.path}: closed by another thread just now; the same call works again")
        return self._reader

    # -- maintenance --------------------------------------------------------------------------------
    def backup(self, target: Path) -> None:
        """A consistent copy through SQLite's backup API, on connections of its own."""
        with Translated(target):
            source = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True)
            copy = sqlite3.connect(target)
            end = self._clock() + BACKUP_S

            def patience(*_: int) -> None:
                if self._clock() > end:
                    raise StoreBusy(f"{self.path}: no consistent copy within {BACKUP_S:.0f} s")

            try:
                source.backup(copy, progress=patience)
            finally:
                copy.close()
                source.close()
            os.chmod(target, 0o600)

    def optimise(self, *, log_bytes: int = LARGE_LOG_BYTES) -> None:
        """Give free pages back and fold a write-ahead log of more than ``log_bytes`` into the file.

        Waits for nobody: what a reader or a writer of any process stands in the way of is left to the next time.
        """
        if not self.is_open or self._depth:
            return
        try:
            with self._hurried() as connection:
                if _pragma(connection, "freelist_count") > SPARE_PAGES:
                    # ``execute`` would give one page back
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

    def _fold_log(self, above: int) -> None:
        log = self.path.with_name(self.path.name + "-wal")
        if not log.exists() or log.stat().st_size <= above:
            return
        # First beside whoever writes, without any lock of theirs or ours; then only what came meanwhile is left to do, while
        # nobody may write.
        with self._translated, closing(sqlite3.connect(self.path, timeout=0, isolation_level=None)) as beside:
            beside.execute("PRAGMA synchronous=FULL")
            beside.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        with self._hurried() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @contextmanager
    def _hurried(self) -> Iterator[sqlite3.Connection]:
        """The writer's connection, for statements that wait for no other process."""
        with self._write_lock, self._translated:
            connection = self._connected()
            connection.execute(f"PRAGMA busy_timeout={BUSY_AGAIN_MS}")
            try:
                yield connection
            finally:
                connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


# -- one database per file -------------------------------------------------------------------------------
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
