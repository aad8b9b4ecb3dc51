"""
A database as a file: what its header says, whether it is sound, copies, and what can be saved from a damaged one.

Everything here opens connections of its own, for the file at hand may be one that ``Database`` refuses. Reading the header by
hand is for files that no connection of this process has open: closing such a descriptor would drop SQLite's locks on it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..errors import StoreBusy, StoreError
from . import migrations
from .connection import Database, translate

_MAGIC = b"SQLite format 3\0"
_SIDE_FILES = ("-wal", "-shm", "-journal")
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_PATIENCE_S = 10.0

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
        return self.ours and self.schema > len(migrations.STEPS)


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


def verify(path: Path, *, most: int = 20) -> Verdict:
    """Check a whole file: SQLite's quick check, whose it is, and a count of every table. Changes nothing."""
    try:
        with _reading(path) as connection:
            found = [row[0] for row in connection.execute(f"PRAGMA quick_check({most})")]
            problems = [] if found == ["ok"] else found
            if connection.execute("PRAGMA application_id").fetchone()[0] != migrations.APPLICATION_ID:
                problems.append("not a database of hermes-lcm")
            counts = {name: _count(connection, name) for name in _tables(connection)}
    except StoreError as exc:
        return Verdict(False, (str(exc),))
    return Verdict(not problems, tuple(problems), counts)


def quick_check(path: Path, *, most: int = 20) -> tuple[str, ...]:
    """What SQLite finds wrong with a file; () when it is sound. Raises StoreError when it cannot look."""
    with _reading(path) as connection:
        found = tuple(row[0] for row in connection.execute(f"PRAGMA quick_check({most})"))
    return () if found == ("ok",) else found


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
        _sync(path)


def replace_content(source: Path, target: Path, progress: Progress = silent) -> None:
    """Make ``target`` hold what ``source`` holds, as one transaction that other processes see like any other commit."""
    deadline = time.monotonic() + _PATIENCE_S

    def watch(code: int, left: int, total: int) -> None:
        if code in _BUSY and time.monotonic() > deadline:
            raise StoreBusy(f"{target}: another process holds the write lock")
        progress("pages", total - left, total)

    with _failures(target), closing(_connect(source, "ro")) as old, closing(_connect(target, "rw")) as live:
        old.backup(live, pages=2000, progress=watch, sleep=0.05)


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


def put_in_place(new: Path, path: Path) -> None:
    """Let ``new`` take the place of ``path``, whose side files go. Only for a file that SQLite cannot read."""
    with _failures(path):
        _sync(new)
        for suffix in _SIDE_FILES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        new.replace(path)
        _sync(path.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
    Database(target).open()
    out = Salvage()
    with _failures(source), closing(_connect(source, "rw")) as old, closing(_connect(target, "rw")) as new:
        new.execute("PRAGMA foreign_keys=OFF")
        for table in _tables(new):
            columns = [row[1] for row in new.execute(f'PRAGMA table_info("{table}")')]
            keyed = "WITHOUT ROWID" not in new.execute(
                "SELECT sql FROM sqlite_master WHERE name = ?", (table,)
            ).fetchone()[0].upper().replace("\n", " ")
            _copy_table(_Table(old, table, tuple(columns), keyed), new, accept, out, progress)
    return out


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
        yield from _both_ends(table, out)
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


def _both_ends(table: _Table, out: Salvage) -> Iterator[tuple[Any, ...]]:
    """Rows of a table without rowids: forwards to the damage, then backwards to it."""
    seen: set[tuple[Any, ...]] = set()
    for direction in ("ASC", "DESC"):
        order = ", ".join(f'"{column}" {direction}' for column in _key(table))
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
