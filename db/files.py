"""
A database as a file: what its header says, whether it is sound, copies, and what can be saved from a damaged one.

Everything here opens connections of its own, for the file at hand may be one that ``Database`` refuses. Reading the
header by hand is for files that no connection of this process has open: closing such a descriptor would drop SQLite's
locks on it.
"""

from __future__ import annotations

import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .. import durable
from ..errors import StoreBusy, StoreCorrupt, StoreError
from . import migrations, upgrade
from .connection import Database, Params
from .faults import translate

try:
    import fcntl
except ImportError:  # no such locks there
    fcntl = None  # type: ignore[assignment]

_MAGIC = b"SQLite format 3\0"
_SIDE_FILES = ("-wal", "-shm", "-journal")
_SHARED = "{} is open in another process; end the other Hermes processes (gateway, terminals) first"
# Where SQLite's unix locks are: bytes that no page uses.
_SHARED_FIRST, _SHARED_SIZE = 0x40000002, 510

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is (0: unknown)."""


def silent(_what: str, _done: int, _total: int) -> None:
    """Progress that nobody watches."""


# -- looking at a file -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Header:
    """The first 100 bytes. ``sqlite`` False: this is no SQLite file, and the rest means nothing."""

    sqlite: bool
    wal: bool = False
    schema: int = 0
    application_id: int = 0
    bytes: int = 0

    @property
    def ours(self) -> bool:
        """Did this plugin write it?"""
        return self.sqlite and self.application_id == migrations.APPLICATION_ID

    @property
    def too_new(self) -> bool:
        """Did a newer release write it?"""
        return self.ours and self.schema > migrations.VERSION

    @property
    def development(self) -> bool:
        """Is it in the format of the development version, which is upgraded?"""
        return self.ours and self.schema == upgrade.DEVELOPMENT

    @property
    def too_old(self) -> bool:
        """Did a development version write it that no release reads?"""
        return self.ours and self.schema < migrations.VERSION and not self.development


def header(path: Path) -> Header:
    """What the header says. Raises StoreError when the file cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(100)
        size = path.stat().st_size
    except OSError as exc:
        raise StoreError(f"{path}: {exc.strerror or exc}") from exc
    if len(head) < 100 or not head.startswith(_MAGIC):
        return Header(False, bytes=size)
    schema, application = struct.unpack(">I", head[60:64])[0], struct.unpack(">I", head[68:72])[0]
    return Header(True, head[18] == 2, schema, application, size)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a file is a sound database of ours, and how many rows it has."""

    sound: bool
    problems: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    newest: int = 0  # the last message's address


def verify(path: Path, *, most: int = 20) -> Verdict:
    """Check a whole file: SQLite's quick check, whose it is, and a count of every table. Changes nothing."""
    try:
        with _reading(path) as connection:
            problems = _unsound(connection, most)
            if connection.execute("PRAGMA application_id").fetchone()[0] != migrations.APPLICATION_ID:
                problems.append("not a database of hermes-lcm")
            counts = {name: _count(connection, name) for name in _tables(connection)}
            newest = 0
            if "messages" in counts:
                newest = int(connection.execute("SELECT coalesce(max(store_id), 0) FROM messages").fetchone()[0])
            else:
                problems.append("there is no table of messages")
    except StoreError as exc:
        return Verdict(False, (str(exc),))
    return Verdict(not problems, tuple(problems), counts, newest)


def quick_check(path: Path, *, most: int = 20) -> tuple[str, ...]:
    """What SQLite finds wrong with a file; () when it is sound. Raises StoreError when it may not look."""
    try:
        with _reading(path) as connection:
            return tuple(_unsound(connection, most))
    except StoreCorrupt as exc:
        return (str(exc),)


def _unsound(connection: sqlite3.Connection, most: int) -> list[str]:
    """What SQLite's quick check finds, one problem each: it puts all of a database's into one text, below a heading."""
    rows = connection.execute(f"PRAGMA quick_check({most})")
    found = [line for (text,) in rows for line in text.splitlines() if not line.startswith("*** in database")]
    return [] if found == ["ok"] else found


def counts(path: Path) -> dict[str, int]:
    """How many rows each table has that is no cache."""
    with _reading(path) as connection:
        return {name: _count(connection, name) for name in _tables(connection)}


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Tables with rows of ours; the indexes for searching are caches and count for nothing."""
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    caches = [name for name, sql in rows if sql and sql.upper().startswith("CREATE VIRTUAL")]
    return [
        name
        for name, _ in rows
        if name not in caches and not name.startswith(("sqlite_", *(f"{cache}_" for cache in caches)))
    ]


def _count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    with _failures(path), closing(_connect(path, "ro")) as connection:
        yield connection


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", uri=True, timeout=2.0, isolation_level=None)


@contextmanager
def _failures(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        raise translate(exc, path) from exc
    except OSError as exc:
        raise StoreError(f"{path}: {exc.strerror or exc}") from exc


# -- copies ----------------------------------------------------------------------------------------------
def seal(path: Path) -> None:
    """Make a copy one self-contained file: no write-ahead log beside it, written through to the disk."""
    with _failures(path):
        with closing(_connect(path, "rw")) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
        path.chmod(0o600)
        durable.sync(path)


def copy_raw(path: Path, target: Path) -> list[Path]:
    """The bytes of a file and its side files, for one that SQLite cannot read. Returns what was written."""
    written = []
    with _failures(path):
        for suffix in ("", *_SIDE_FILES):
            source = path.with_name(path.name + suffix)
            if suffix != "-shm" and source.exists():  # a shared-memory index is rebuilt, and wrong for a copy
                copy = target.with_name(target.name + suffix)
                shutil.copy2(source, copy)
                copy.chmod(0o600)
                written.append(copy)
    return written


def exchange(db: Database, new: Path, kept: Path | None) -> None:
    """Let ``new`` take the place of a database file and keep the old one as ``kept`` (None: somebody kept it already).

    Only while nobody else has the file open: a process that goes on with the old file would delete the new one's log when it
    closes. Connections of this process are closed and kept away meanwhile; the next use opens the new file. Raises StoreBusy.
    """
    path = db.path
    with db._write_lock, db._read_lock, _failures(path):  # noqa: SLF001 - the same package; no thread may reopen in between
        db.close()
        if path.exists():
            damaged = _alone(path)
            if kept is not None and damaged:
                copy_raw(path, kept)
            elif kept is not None:
                durable.second_name(path, kept)
        durable.sync(new)
        for suffix in _SIDE_FILES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        new.replace(path)
        durable.sync(path.parent)


def _alone(path: Path) -> bool:
    """Make sure that no other process has the file open, and fold its log into it. True: SQLite cannot read it."""
    refuse_shared(path)
    try:
        with closing(_connect(path, "rw")) as connection:
            left = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
    except sqlite3.DatabaseError as exc:
        error = translate(exc, path)
        if isinstance(error, StoreCorrupt):
            return True
        raise error from exc
    if str(left).lower() == "wal":
        raise StoreBusy(_SHARED.format(path))
    return False


def refuse_shared(path: Path) -> None:
    """Raise StoreBusy when another process has the file open. Only while this process does not."""
    if _held_elsewhere(path):
        raise StoreBusy(_SHARED.format(path))


def _held_elsewhere(path: Path) -> bool:
    """Does another process hold SQLite's shared lock? Every connection in WAL mode does, as long as it is open."""
    if fcntl is None:
        return False
    with path.open("rb+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _SHARED_SIZE, _SHARED_FIRST)
        except OSError:
            return True
        fcntl.lockf(file, fcntl.LOCK_UN, _SHARED_SIZE, _SHARED_FIRST)
    return False


# -- development versions --------------------------------------------------------------------------------
def upgraded(path: Path, beside: Sequence[Path]) -> None:
    """Bring a copy that nobody has open to this release's format, if the development version wrote it.

    ``beside``: databases beside which its messages may lie. Raises StoreError.
    """
    if header(path).development:
        with _failures(path):
            upgrade.upgrade(path, wait_s=0.0, folders=[upgrade.folder_of(each) for each in beside], backup=False)


def brought_home(path: Path, damaged: Path) -> None:
    """Let what was saved from a ``damaged`` file of the development version hold the messages that lay beside that."""
    with _failures(path), closing(_connect(path, "rw")) as connection:
        connection.execute("BEGIN IMMEDIATE")
        upgrade.bring_home(connection, [upgrade.folder_of(damaged)])
        upgrade.adapt(connection, ())
        connection.execute("COMMIT")


# -- rewriting -------------------------------------------------------------------------------------------
def rewrite(path: Path, statements: Sequence[tuple[str, Params]]) -> int:
    """Run statements as one transaction; how many rows changed.

    Without enforcing references: SQLite would look through a whole table for each row that is deleted. The statements must leave
    none dangling.
    """
    with _failures(path), closing(_connect(path, "rw")) as connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        connection.execute("BEGIN IMMEDIATE")
        try:
            before = connection.total_changes
            for sql, params in statements:
                connection.execute(sql, params)
            connection.execute("COMMIT")
        except BaseException:
            if (
                connection.in_transaction
            ):  # SQLite ends it by itself on some errors; a refused ROLLBACK would hide which
                connection.execute("ROLLBACK")
            raise
        return connection.total_changes - before


# -- salvage ---------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Salvage:
    """What came over from a damaged file, by table, and what could not be read."""

    kept: dict[str, int] = field(default_factory=dict)
    unreadable: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


Accept = Callable[[str, dict[str, Any]], bool]
"""Is this row (table, values) worth keeping? Damage that SQLite does not notice is found here."""


def salvage(source: Path, target: Path, accept: Accept, progress: Progress = silent) -> Salvage:
    """Copy every row that can be read into a new database at ``target``. ``source`` is opened for writing: use a copy."""
    made = Database(target)
    made.open()
    made.close()
    out = Salvage()
    with _failures(source), closing(_connect(source, "rw")) as old, closing(_connect(target, "rw")) as new:
        new.execute("PRAGMA foreign_keys=OFF")
        never = _never_made(old)
        for table in _tables(new):
            if table in never:
                out.kept[table] = 0
                continue
            columns = [row[1] for row in new.execute(f'PRAGMA table_info("{table}")')]
            made_by = new.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0].upper()
            damaged = _Table(old, table, tuple(columns), has_rowid="WITHOUT ROWID" not in made_by.replace("\n", " "))
            if _is_gone(damaged):
                out.kept[table] = 0
                out.notes.append(f"{table}: the table was not there any more")
            else:
                _copy_table(damaged, new, accept, out, progress)
            if "AUTOINCREMENT" in made_by:
                _spend(new, table, _last_rowid(damaged) or 0)
    return out


def _never_made(old: sqlite3.Connection) -> set[str]:
    """Tables that a file of the development version does not have because nobody needed them; () where that cannot be read."""
    try:
        return upgrade.never_made(old) if migrations.version_of(old) == upgrade.DEVELOPMENT else set()
    except sqlite3.Error:
        return set()


def _is_gone(table: _Table) -> bool:
    """Is there no such table in a file whose list of tables can be read?"""
    try:
        return not table.connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table.name,)).fetchall()
    except sqlite3.Error:
        return False


def _spend(new: sqlite3.Connection, table: str, last: int) -> None:
    """An address that was given is never given again, even where no row of the table could be saved."""
    if not new.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (last, table)).rowcount:
        new.execute("INSERT INTO sqlite_sequence(name, seq) VALUES (?, ?)", (table, last))


def indexed(source: Path, table: str, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """What an index on the first of these columns still says of a table that cannot be read. ``source`` as for ``salvage``."""
    with _failures(source), closing(_connect(source, "rw")) as old:
        return list(_both_ends(_Table(old, table, columns, has_rowid=False), Salvage(), columns[:1]))


@dataclass(frozen=True, slots=True)
class _Table:
    connection: sqlite3.Connection
    name: str
    columns: tuple[str, ...]
    has_rowid: bool

    @property
    def selected(self) -> str:
        return ", ".join(f'"{column}"' for column in self.columns)


def _copy_table(table: _Table, new: sqlite3.Connection, accept: Accept, out: Salvage, progress: Progress) -> None:
    marks = ",".join("?" * len(table.columns))
    insert = f'INSERT OR IGNORE INTO "{table.name}"({table.selected}) VALUES ({marks})'
    kept = bad = 0
    new.execute("BEGIN")
    for row in _rows(table, out):
        if not accept(table.name, dict(zip(table.columns, row, strict=True))):
            bad += 1
            continue
        try:
            kept += new.execute(insert, row).rowcount
        except sqlite3.IntegrityError:  # garbage where the schema forbids it
            bad += 1
        if kept % 1000 == 0:
            progress(table.name, kept, 0)
    new.execute("COMMIT")
    out.kept[table.name] = kept
    if bad:
        out.unreadable[table.name] = out.unreadable.get(table.name, 0) + bad


def _rows(table: _Table, out: Salvage) -> Iterator[tuple[Any, ...]]:
    if not table.has_rowid:
        yield from _both_ends(table, out, _key(table))
        return
    top = _last_rowid(table)
    if top is None:
        out.notes.append(f"{table.name}: the table cannot be read at all")
        return
    spans = [(0, top)]
    while spans:
        low, high = spans.pop()
        try:
            sql = f'SELECT {table.selected} FROM "{table.name}" WHERE rowid > ? AND rowid <= ? ORDER BY rowid LIMIT 500'
            rows = table.connection.execute(sql.replace("SELECT ", "SELECT rowid, ", 1), (low, high)).fetchall()
        except sqlite3.Error:
            if high - low <= 1:
                out.unreadable[table.name] = out.unreadable.get(table.name, 0) + 1
            else:
                middle = (low + high) // 2
                spans += [(middle, high), (low, middle)]
            continue
        if len(rows) == 500 and rows[-1][0] < high:
            spans.append((rows[-1][0], high))
        for row in rows:
            yield row[1:]


def _last_rowid(table: _Table) -> int | None:
    """The greatest rowid there can be: from the table itself, or from the counter that SQLite keeps."""
    questions = (
        (f'SELECT max(rowid) FROM "{table.name}"', ()),
        ("SELECT seq FROM sqlite_sequence WHERE name = ?", (table.name,)),
    )
    known: list[int] = []
    for sql, params in questions:
        try:
            row = table.connection.execute(sql, params).fetchone()
        except sqlite3.Error:
            continue
        known.append(int(row[0]) if row and row[0] is not None else 0)
    return max(known) if known else None


def _both_ends(table: _Table, out: Salvage, key: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Rows in the order of a key, of a table without rowids or of an index: forwards to the damage, then backwards to it."""
    seen: set[tuple[Any, ...]] = set()
    for direction in ("ASC", "DESC"):
        order = ", ".join(f'"{column}" {direction}' for column in key)
        try:
            for row in table.connection.execute(f'SELECT {table.selected} FROM "{table.name}" ORDER BY {order}'):
                if direction == "DESC" and row in seen:
                    return
                if row not in seen:
                    seen.add(row)
                    yield row
        except sqlite3.Error as exc:
            if direction == "ASC":
                out.notes.append(f"{table.name}: damaged ({exc}); read from both ends")
            continue
        return


def _key(table: _Table) -> list[str]:
    try:
        info = table.connection.execute(f'PRAGMA table_info("{table.name}")').fetchall()
    except sqlite3.Error:
        info = []
    keyed = sorted((row for row in info if row[5]), key=lambda row: row[5])
    return [row[1] for row in keyed] or [table.columns[0]]
