"""
A database as a file: what its header says, whether it is sound, copies, and what can be saved from a damaged one.

Everything here opens connections of its own, for the file at hand may be one that ``Database`` refuses. Reading the
header by hand is for files that no connection of this process has open: closing such a descriptor would drop SQLite's
locks on it.
"""

from __future__ import annotations

import json
import mmap
import re
import shutil
import sqlite3
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from threading import get_native_id
from typing import Any, Final, NamedTuple

from ..errors import StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreReadOnly
from . import disk, leaves, seals, upgrade
from . import schema as migrations
from .connection import Database, Params, refuse_other_kinds, refuse_side_folders
from .disk import SIDE_FILES, translate, without_room
from .packing import unpack, unpack_block
from .schema import TABLES, lacked, quoted

_COPIED_BYTES: Final = 4 << 20  # of a file at a time
_BUSY_S = 2.0  # for a program that locked a file which is looked at beside its connection
_LOOK_S: Final = 0.1  # between two looks at how far a check is
#: The folder beside a database in which exports are kept.
EXPORTS: Final = "lcm-exports"
_SHARED = "{} is open in another process; end the other Hermes processes (gateway, terminals) first"

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is (0: unknown)."""


def silent(_what: str, _done: int, _total: int) -> None:
    """Progress that nobody watches."""


# -- looking at a file -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Header:
    """The first 100 bytes. ``sqlite`` False: this is no SQLite file, and the rest means nothing."""

    sqlite: bool
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
    """The header of a file. Raises StoreError when it cannot be read."""
    _refuse_pipes(path)
    try:
        with path.open("rb") as file:
            head = file.read(100)
        size = path.stat().st_size
    except OSError as exc:
        raise StoreError(f"{path}: {exc.strerror or exc}") from exc
    if len(head) < 100 or not head.startswith(leaves.MAGIC):
        return Header(False, bytes=size)
    schema, application = struct.unpack(">I", head[60:64])[0], struct.unpack(">I", head[68:72])[0]
    return Header(True, schema, application, size)


NOTE: Final = "backup"  # in the ``meta`` of a copy: when it was made, and the payload files of that time


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of a file: its database, and how much it holds. ``nonce``: of its first conversation, where it has one."""

    identity: str | None
    nonce: str | None
    messages: int
    newest: int
    made_at: float = 0.0
    payloads: dict[str, str] = field(default_factory=dict)

    def is_of(self, other: Facts) -> bool:
        """Are both of one database?"""
        return (self.identity or "") == other.identity or (self.nonce or "") == other.nonce


def facts_of(db: seals.Readable) -> Facts:
    """The facts of a database. Raises StoreError, or what SQLite does."""
    noted = {key: json.loads(value) for key, value in db.query(
        "SELECT key, value FROM meta WHERE key IN (?, ?)", (seals.IDENTITY, NOTE))}  # fmt: skip
    first = db.query("SELECT nonce FROM conversations ORDER BY conversation_id LIMIT 1")
    count, newest = db.query("SELECT count(*), coalesce(max(store_id), 0) FROM messages")[0]
    note = noted.get(NOTE, {})
    made_at, payloads = note.get("made_at", 0.0), note.get("payloads", {})
    return Facts(noted.get(seals.IDENTITY), first[0][0] if first else None, count, newest, made_at, payloads)


def facts(path: Path) -> Facts:
    """Facts of a file that nobody has open. Raises StoreError."""
    try:
        with reading(path) as connection:
            return facts_of(seals.Plain(connection))
    except (ValueError, AttributeError) as exc:
        raise StoreCorrupt(f"{path}: its notes cannot be read ({exc})") from exc


def has_messages(path: Path, store_ids: str) -> bool:
    """Does a file of ours hold any of these messages (a JSON list)? Raises StoreError."""
    sql = "SELECT 1 FROM messages WHERE store_id IN (SELECT value FROM json_each(?)) LIMIT 1"
    with reading(path) as connection:
        return connection.execute(sql, (store_ids,)).fetchone() is not None


def says_any(path: Path, digests: str) -> bool:
    """Does a file that counts for itself hold any of these messages (a JSON list of digests in hex)? Raises StoreError."""
    sql = "SELECT 1 FROM messages WHERE lower(hex(digest)) IN (SELECT value FROM json_each(?)) LIMIT 1"
    with reading(path) as connection:
        return connection.execute(sql, (digests,)).fetchone() is not None


def discard(*paths: Path) -> None:
    """Remove half-made databases and their side files; why they were not finished is what matters."""
    for path in paths:
        for suffix in ("", *SIDE_FILES):
            with suppress(OSError):
                path.with_name(path.name + suffix).unlink(missing_ok=True)


def faults(path: Path, progress: Progress = silent) -> tuple[str, ...]:
    """Faults of a file that should be ours: SQLite's quick check, whose it is, and its seals. Changes nothing."""
    try:
        with reading(path) as connection:
            found, names = _checked(connection, progress), tables(connection)
            if connection.execute("PRAGMA application_id").fetchone()[0] != migrations.APPLICATION_ID:
                found.append("not a database of hermes-lcm")
            if "messages" not in names:
                found.append("there is no table of messages")
            found += [f"it holds a trigger, {name}, and this plugin makes none" for name in _triggers_in(connection)]
            if not found and (lost := _lost_in(connection)):
                found = [f"a part of it is gone: {lacked(lost)}"]
            if not found and "seals" in names:
                found = seals.broken(seals.Plain(connection))
    except StoreError as exc:
        return (str(exc),)
    return tuple(found)


def quick_check(path: Path, progress: Progress = silent) -> tuple[str, ...]:
    """Faults that SQLite finds in a file; () when it is sound. Raises StoreError when it may not look."""
    try:
        with reading(path) as connection:
            return tuple(_checked(connection, progress))
    except StoreCorrupt as exc:
        return (str(exc),)


def _checked(connection: sqlite3.Connection, progress: Progress) -> list[str]:
    return _unsound(connection) if progress is silent else _watched(connection, progress)


def _watched(connection: sqlite3.Connection, progress: Progress) -> list[str]:
    """The quick check in a thread of its own: SQLite tells nothing meanwhile, and Python would not notice Ctrl-C before its end.

    It reads every page once, and then the rows again, from memory: what its thread has read is how far it is.
    """
    pages, free, size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    used = pages - free
    with ThreadPoolExecutor(1) as pool:
        thread = pool.submit(get_native_id).result()
        before = disk.bytes_read(thread)
        work = pool.submit(_unsound, connection)
        try:
            ended = False
            while not ended:
                ended = bool(wait([work], _LOOK_S).done)
                read = (disk.bytes_read(thread) - before) // size
                progress("checking the file", used if ended else min(read, used), used if read else 0)
        except BaseException:
            connection.interrupt()
            raise
        return work.result()


def _unsound(connection: sqlite3.Connection) -> list[str]:
    """Faults of SQLite's quick check, one each: it puts all of a database's into one text, below a heading; else odd values."""
    found = [
        line for text in _looked(connection) for line in text.splitlines() if not line.startswith("*** in database")
    ]
    if found:
        return found
    return [*_odd_encoding(connection), *migrations.odd_numbers(connection.execute), *_odd_texts(connection)]


def _looked(connection: sqlite3.Connection, table: str = "") -> list[str]:
    """Lines of SQLite's quick check; of each table by itself where it cannot check one of another program's."""
    what = quoted(table) if table else "20"
    try:
        return [text for (text,) in connection.execute(f"PRAGMA quick_check({what})") if text != "ok"]
    except sqlite3.OperationalError as exc:
        if not migrations.unknown_in(exc):
            raise
    if table:
        return []  # of one of ours ``lost_parts`` tells
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return [text for (name,) in names for text in _looked(connection, name)]


def _odd_encoding(connection: sqlite3.Connection) -> list[str]:
    """The encoding of a file of ours that somebody copied with SQL into one of UTF-16; its indexes cannot be checked."""
    ((ours,), (encoding,)) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "encoding")
    )
    odd = ours == migrations.APPLICATION_ID and encoding != "UTF-8"
    return [f"its texts are {encoding}; this plugin needs UTF-8"] if odd else []


def _odd_texts(connection: sqlite3.Connection) -> list[str]:
    """Tables with a text that is not UTF-8: nobody can read such a row."""
    odd = []
    for table in tables(connection):
        info = connection.execute(f"PRAGMA table_info({quoted(table)})")
        columns = [quoted(row[1]) for row in info if row[2] == "TEXT"]
        try:
            if columns and table in TABLES:
                deque(connection.execute(f"SELECT {', '.join(columns)} FROM {table}"), maxlen=0)
        except sqlite3.OperationalError as exc:
            if not isinstance(translate(exc, Path(table)), StoreCorrupt):
                raise
            odd.append(f"{table}: a text that is not UTF-8")
    return odd


def counts(path: Path) -> dict[str, int]:
    """Number of rows of each table that is no cache."""
    with reading(path) as connection:
        return {name: _count(connection, name) for name in tables(connection)}


def tables(connection: sqlite3.Connection) -> list[str]:
    """Tables with rows of ours; the indexes for searching are caches and count for nothing."""
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    caches = [name for name, sql in rows if sql and sql.upper().startswith("CREATE VIRTUAL")]
    return [
        name
        for name, _ in rows
        if name not in caches and not name.startswith(("sqlite_", *(f"{cache}_" for cache in caches)))
    ]


def _count(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {quoted(table)}").fetchone()[0])


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that only reads, of a file that nobody has to have opened."""
    with _failures(path), closing(_connect(path, _how_to_read(path))) as connection:
        yield connection


def _how_to_read(path: Path) -> str:
    """Options of SQLite: where the disk is full or read-only, no side file can be made."""
    how = disk.like_any_reader(path)
    with closing(_connect(path, how)) as connection:
        try:
            connection.execute("PRAGMA schema_version").fetchone()
        except sqlite3.Error as exc:
            said = translate(exc, path)
            if isinstance(said, StoreFull | StoreReadOnly):
                return without_room(path)
            if isinstance(said, StoreBusy):  # the reader itself would wait as long again
                raise said from exc
    return how


def _refuse_pipes(path: Path) -> None:
    """Raise StoreError for a path that is no regular file. To open a pipe would be to wait for its writer."""
    if path.exists() and not path.is_file():
        raise StoreError(f"{path} is not a regular file")


def _connect(path: Path, how: str) -> sqlite3.Connection:
    _refuse_pipes(path)
    if path.exists():
        disk.bring_back(path)
    connection = disk.connected(path, how, wait_s=_BUSY_S)
    if how == "mode=rw":
        connection.execute("PRAGMA secure_delete=ON")  # what a file no longer says is nowhere in it
    return connection


@contextmanager
def _failures(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as exc:
        raise translate(exc, path) from exc
    except UnicodeDecodeError as exc:
        raise StoreCorrupt(f"{path}: text in it is not UTF-8 ({exc.reason})") from exc
    except OSError as exc:
        raise StoreError(f"{path}: {exc.strerror or exc}") from exc


# -- copies ----------------------------------------------------------------------------------------------
def seal(path: Path) -> None:
    """Make a copy one self-contained file: no write-ahead log beside it, written through to the disk."""
    with _failures(path):
        with closing(_connect(path, "mode=rw")) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
        path.chmod(0o600)
        disk.sync(path)


def copy_raw(path: Path, target: Path) -> None:
    """The bytes of a file and its side files, for one that SQLite cannot read."""
    with _failures(path):
        for suffix in ("", *SIDE_FILES):
            source = path.with_name(path.name + suffix)
            if suffix != "-shm" and source.exists():  # a shared-memory index is rebuilt, and wrong for a copy
                copy = target.with_name(target.name + suffix)
                shutil.copy2(source, disk.private(copy))
                copy.chmod(0o600)


def renamed(path: Path, target: Path) -> None:
    """Another name for a file and its side files, which is theirs even if the machine stops then."""
    for suffix in SIDE_FILES:
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).replace(target.with_name(target.name + suffix))
    path.replace(target)
    disk.sync(target.parent)


def copied(path: Path, target: Path, progress: Progress) -> None:
    """The bytes of a file in another one, which is there."""
    parts = -(-path.stat().st_size // _COPIED_BYTES)
    with path.open("rb") as source, target.open("wb") as copy:
        for n in range(parts):
            copy.write(source.read(_COPIED_BYTES))
            progress("copying", n + 1, parts)


def exchange(db: Database, new: Path, kept: Path | None) -> None:
    """Let ``new`` take the place of a database file and keep the old one as ``kept`` (None: somebody kept it already).

    Only while nobody else has the file open: a process that goes on with the old file would delete the new one's log when it
    closes. Connections of this process are closed and kept away meanwhile; the next use opens the new file. Raises StoreBusy.
    """
    path = db.path
    with db._write_lock, db._read_lock, _failures(path):  # noqa: SLF001 - the same package; no thread may reopen in between
        db.close()
        refuse_side_folders(path)
        disk.bring_back(path, partly=True)
        if path.exists():
            refuse_other_kinds(path)
            damaged = _alone(path)
            if kept is not None and damaged:
                copy_raw(path, kept)
            elif kept is not None:
                disk.second_name(path, kept)
        disk.sync(new)
        for suffix in SIDE_FILES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        new.replace(path)
        disk.sync(path.parent)


def _alone(path: Path) -> bool:
    """Make sure that no other process has the file open, and fold its log into it. True: SQLite cannot read it."""
    refuse_shared(path)
    try:
        with closing(_connect(path, "mode=rw")) as connection:
            left = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
    except UnicodeDecodeError:
        return True
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
    with path.open("rb+") as file:
        if not disk.is_alone(file):  # every connection in WAL mode has a shared lock, as long as it is open
            raise StoreBusy(_SHARED.format(path))


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
    with _failures(path), closing(_connect(path, "mode=rw")) as connection, migrations.as_one(connection):
        upgrade.bring_home(connection, [upgrade.folder_of(damaged)])
        upgrade.adapt(connection, ())


# -- rewriting -------------------------------------------------------------------------------------------
def rewrite(path: Path, statements: Sequence[tuple[str, Params]]) -> list[int]:
    """Run statements as one transaction; how many rows each of them changed.

    Without enforcing references: SQLite would look through a whole table for each row that is deleted. The statements must leave
    none dangling.
    """
    with _failures(path), closing(_connect(path, "mode=rw")) as connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        logged = connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        if logged:  # the disk is waited for below, when others can write again
            connection.execute("PRAGMA synchronous=NORMAL")
        sealer = seals.Sealer(connection)
        sealer.attach()
        changed = []
        with migrations.as_one(connection):
            for sql, params in statements:
                before = connection.total_changes
                connection.execute(sql, params)
                changed.append(connection.total_changes - before)
            sealer.flush()
        if logged and any(changed):
            disk.sync(path.with_name(path.name + "-wal"))
        return changed


def triggers(path: Path) -> tuple[str, ...]:
    """Triggers in a file of ours, which never has any; none where it cannot be read. Raises StoreBusy.

    SQLite looks, also for whose it is: a descriptor of our own would drop the locks of this process when it is closed.
    """
    try:
        with reading(path) as connection:
            if connection.execute("PRAGMA application_id").fetchone()[0] != migrations.APPLICATION_ID:
                return ()
            return tuple(_triggers_in(connection))
    except StoreBusy:
        raise
    except StoreError:
        return ()


def _triggers_in(connection: sqlite3.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]


def lost_parts(path: Path) -> list[str]:
    """Tables and columns that a file of this release lacks; none where it cannot be read."""
    try:
        with reading(path) as connection:
            owner = connection.execute("PRAGMA application_id").fetchone()[0]
            return _lost_in(connection) if owner == migrations.APPLICATION_ID else []
    except StoreError:
        return []


def _lost_in(connection: sqlite3.Connection) -> list[str]:
    """Parts that a file lacks; none of an older one, which gets the newest tables when it is opened."""
    older = migrations.version_of(connection) != migrations.VERSION or upgrade.wanted(connection)
    return [] if older else migrations.lost_parts(connection.execute)


def drop_triggers(path: Path) -> None:
    """Take the triggers out of a file. What they did before stays done."""
    rewrite(path, [(f"DROP TRIGGER main.{quoted(name)}", ()) for name in triggers(path)])


def reseal(path: Path) -> None:
    """Take what a file of ours holds for what was written: after a salvage, or when an operator accepts a loss."""
    with _failures(path), closing(_connect(path, "mode=rw")) as connection, migrations.as_one(connection):
        seals.reseal(connection)


# -- salvage ---------------------------------------------------------------------------------------------
#: Made anew: the seals, and the cache of messages that state facts, with how far it had come.
_MADE_ANEW: Final = frozenset(("seals", "ledger"))
_READ_OF_LEDGER: Final = "ledger:*"
#: Of an unknown tree these rows look like those of an index.
_AMBIGUOUS: Final = frozenset(("carried",))
#: Their rows go only when an operator removes conversations.
_LASTING: Final = ("messages", "nodes", "conversations", "sessions", "archives", "blocks")
_OTHER_TREES: Final = frozenset(migrations.INDEX.findall(" ".join(text for _, text in migrations.statements())))
_NAMES_OF_SESSIONS: Final = "sqlite_autoindex_sessions_1"
_FITS: Final[dict[str, tuple[type, ...]]] = {
    "INTEGER": (int,),
    "REAL": (int, float),
    "TEXT": (str,),
    "BLOB": (bytes, int),
}
#: Tables whose rows are saved without columns that another program removed. Of others they are made anew.
_WITHOUT: Final = frozenset(("messages", "sessions", "conversations"))
#: Values of columns that are gone and have no default, until the message itself says them.
_UNSAID: Final[dict[str, leaves.Value]] = {
    "role": "user", "digest": b"", "tokens": 0, "chars": 0, "pos": 0.0, "stored_at": 0.0, "source": "",
    "created_at": 0.0, "started_at": 0.0,
}  # fmt: skip
#: Without it nothing tells whether a message may be shown.
_NEEDED: Final = "flags"
_TABLE_TEXT: Final = re.compile(r"CREATE TABLE [^(]*\(")
#: Columns in the order of a row's values, but for those that are computed when they are read, and whether each is in the key.
_IN_A_ROW: Final = """
SELECT c.name, c.pk FROM sqlite_master AS m JOIN pragma_table_xinfo(m.name) AS c
 WHERE m.name NOT GLOB 'sqlite_*' AND c.hidden <> 2 ORDER BY c.cid
"""
#: The index over a key, and whether it is one beside the table. Where it is none, rows lie in it, and have no numbers.
_KEY_INDEX: Final = """
SELECT i.name, i.name IN (SELECT name FROM sqlite_master) FROM sqlite_master AS m JOIN pragma_index_list(m.name) AS i
 WHERE m.type = 'table' AND i.origin = 'pk'
"""
#: Of a table without numbers of rows: its key comes first.
_IN_A_KEYED_ROW: Final = "SELECT name FROM pragma_index_xinfo(?) ORDER BY seqno"


@dataclass(slots=True)
class Salvage:
    """Rows that came over from a damaged file, by table, and what could not be read.

    ``names``: ids of sessions by number; ``gone``: columns (`messages.chars`) that the file lacks.
    """

    kept: dict[str, int] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    unreadable: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)


Accept = Callable[[str, dict[str, Any]], bool]
"""Is this row (table, values) worth keeping? Damage that SQLite does not notice is found here."""

_Row = tuple[leaves.Value, ...]


@dataclass(frozen=True, slots=True)
class _Shape:
    """Shape of a table's rows. ``alias``: the column that is the row's number.

    ``places``: where the damaged file has each column, None for one that is gone; () where it has them as they should be.
    ``width``: how many columns it has; ``number``: which of them is the row's number there.
    """

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    required: tuple[bool, ...]
    defaults: tuple[leaves.Value, ...]
    has_rowid: bool
    alias: int | None
    number: int | None
    places: tuple[int | None, ...] = ()
    width: int = 0

    @classmethod
    def of(cls, connection: sqlite3.Connection, table: str) -> _Shape:
        info = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
        text = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
        has_rowid = "WITHOUT ROWID" not in text
        alias = next((n for n, row in enumerate(info) if row[5] and row[2] == "INTEGER"), None) if has_rowid else None
        names, types = tuple(row[1] for row in info), tuple(row[2] for row in info)
        defaults = tuple(connection.execute(f"SELECT {row[4] or 'NULL'}").fetchone()[0] for row in info)
        return cls(table, names, types, tuple(bool(row[3]) for row in info), defaults, has_rowid, alias, alias)

    def as_in(self, theirs: _Said) -> _Shape:
        """The same for a file in which columns were removed, renamed or moved, or the table made anew without its keys."""
        columns = theirs.columns
        if theirs == _Said(self.columns, self.has_rowid, self.alias):
            return self
        renamed = {n for n, name in enumerate(columns) if name not in self.columns}
        places = (columns.index(c) if c in columns else n if n in renamed else None for n, c in enumerate(self.columns))
        return replace(self, places=tuple(places), width=len(columns), has_rowid=theirs.has_rowid, number=theirs.number)

    @property
    def gone(self) -> Iterator[str]:
        """Columns that the damaged file lacks."""
        return (f"{self.name}.{self.columns[n]}" for n, place in enumerate(self.places) if place is None)

    def _placed(self, values: _Row) -> _Row:
        """Values of a cell in the order of the columns; () where what is gone is needed.

        A row that has all columns although the list of tables names others is one as it should be: that list may be damaged.
        One that is older than the last of the columns there has all of ours where the others have them.
        """
        whole = all(place is not None and place < len(values) for place in self.places)
        if len(values) == len(self.columns) != self.width and not whole:
            return values
        out: list[leaves.Value] = []
        for n, place in enumerate(self.places):
            name = self.columns[n]
            if place is not None and place < len(values):
                out.append(values[place])
            elif name == _NEEDED or (self.defaults[n] is None and self.name not in _WITHOUT):
                return ()
            else:
                out.append(_UNSAID.get(name) if self.defaults[n] is None else self.defaults[n])
        return tuple(out)

    def named(self, row: _Row) -> dict[str, Any]:
        """Values of a row by their columns; 0 for a number that nobody gave it."""
        values: dict[str, Any] = dict(zip(self.columns, row, strict=True))
        if self.alias is not None and row[self.alias] is None:
            values[self.columns[self.alias]] = 0
        return values

    def row(self, cell: leaves.Cell) -> _Row | None:
        """The row that a cell holds; None for one of something else, or garbage. Its number is None where nobody gave it one."""
        values, number = cell.values, self.number if cell.of else self.alias
        if (cell.rowid is not None) != self.has_rowid:
            return None
        if number is not None and number < len(values) and values[number] is None:
            values = (*values[:number], cell.rowid, *values[number + 1 :])
        elif not cell.of and number is not None:
            return None
        values = self._placed(values) if self.places and cell.of else values
        if len(values) != len(self.columns):
            return None
        for n, value in enumerate(values):
            if value is None and (n == self.alias or not self.required[n]):
                continue
            if not isinstance(value, _FITS[self.types[n]]):
                return None
        return values


def salvage(source: Path, target: Path, accept: Accept, progress: Progress = silent) -> Salvage:
    """Copy every row that can be read into a new database at ``target``. ``source``: read as bytes; nobody may have it open."""
    made = Database(target)
    made.open()
    made.close()
    out = Salvage()
    with _leaves_of(source) as found, closing(_connect(target, "mode=rw")) as new:
        new.execute("PRAGMA foreign_keys=OFF")
        new.execute("BEGIN")
        new.execute("DELETE FROM meta")  # what it has of its own: it gets that of the damaged one
        shapes = {table: _Shape.of(new, table) for table in tables(new) if table not in _MADE_ANEW}
        shapes |= _as_found(shapes, found.texts)
        out.gone = frozenset(name for shape in shapes.values() for name in shape.gone)
        _copy(found, shapes, new, accept, out, progress)
        new.execute("DELETE FROM meta WHERE key GLOB ?", (_READ_OF_LEDGER,))
        new.execute("COMMIT")
        known = set(found.names.values())
        if known and found.version != upgrade.DEVELOPMENT:
            gone = [table for table in out.kept if table not in known and not out.kept[table]]
            out.notes += [f"gone: {lacked([part])}" for part in (*gone, *sorted(out.gone))]
    return out


@contextmanager
def _leaves_of(path: Path) -> Iterator[leaves.Leaves]:
    """The pages of a damaged file and of its log."""
    log = path.with_name(path.name + "-wal")
    with (
        _failures(path),
        path.open("rb") as file,
        closing(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) as data,
    ):
        yield leaves.Leaves(data, log.read_bytes() if log.is_file() else b"")


class _Said(NamedTuple):
    """Columns of a table in the order of a row's values, whether its rows have numbers, and which column is the number."""

    columns: tuple[str, ...]
    has_rowid: bool
    number: int | None


def _as_found(shapes: Mapping[str, _Shape], texts: Mapping[str, str]) -> dict[str, _Shape]:
    """Shapes of a damaged file's tables by their names there, as far as its schema can be read; a table may have been renamed."""
    theirs = {name: said for name, text in texts.items() if (said := _said(text)) is not None}
    lost = {shape.columns: shape for name, shape in shapes.items() if name not in theirs}
    return {name: shape.as_in(said) for name, said in theirs.items()
            if (shape := shapes.get(name) or lost.get(said.columns)) is not None}  # fmt: skip


def _said(text: str) -> _Said | None:
    """Columns of a CREATE TABLE statement; None where SQLite does not understand it."""
    if not _TABLE_TEXT.match(text):
        return None
    with closing(sqlite3.connect(":memory:")) as made:
        try:
            made.execute(text)
            columns, key = made.execute(_IN_A_ROW).fetchall(), made.execute(_KEY_INDEX).fetchone()
            if key is not None and not key[1]:
                return _Said(tuple(row[0] for row in made.execute(_IN_A_KEYED_ROW, key[:1])), False, None)
        except sqlite3.Error:
            return None
    number = next((n for n, (_, place) in enumerate(columns) if place), None) if key is None else None
    return _Said(tuple(name for name, _ in columns), True, number)


def holds_messages(path: Path) -> bool:
    """Can any message be read in a damaged file or its log?"""
    with _leaves_of(path) as found, migrations.made() as new:
        shapes = {"messages": _Shape.of(new, "messages")}
        shapes |= _as_found(shapes, found.texts)
        return any(_told_apart(cell, shapes, found)[1] for cell in found.cells())


def _copy(
    found: leaves.Leaves,
    shapes: dict[str, _Shape],
    new: sqlite3.Connection,
    accept: Accept,
    out: Salvage,
    progress: Progress,
) -> None:
    out.kept = dict.fromkeys((shape.name for shape in shapes.values()), 0)
    last: dict[str, int] = {}
    nameless: list[tuple[_Shape, _Row]] = []
    for n, cell in enumerate(found.cells()):
        if n % 1000 == 0:
            progress("reading pages", n, 0)
        if _aside(cell, shapes, last, out):
            continue
        shape, row = _told_apart(cell, shapes, found)
        if shape is None:
            continue
        if row is None or not accept(shape.name, shape.named(row)):
            out.unreadable[shape.name] = out.unreadable.get(shape.name, 0) + 1
        elif shape.alias is not None and row[shape.alias] is None:
            nameless.append((shape, row))
        else:
            _insert(new, shape, row, out)
            if shape.alias is not None and cell.rowid is not None:
                last[shape.name] = max(last.get(shape.name, 0), int(row[shape.alias] or 0))
    _number(new, shapes, nameless, last, out)
    _count_gaps(new, last, out)


def _number(
    new: sqlite3.Connection,
    shapes: Mapping[str, _Shape],
    nameless: Sequence[tuple[_Shape, _Row]],
    last: dict[str, int],
    out: Salvage,
) -> None:
    """Give numbers to rows that have none: behind all others, and in the order of what numbers they have, as of their places."""
    for shape in shapes.values():
        if shape.alias is not None:
            _spend(new, shape.name, last.get(shape.name, 0))
    for shape, row in sorted(nameless, key=lambda each: [value for value in each[1] if isinstance(value, int | float)]):
        last[shape.name] = max(last.get(shape.name, 0), _insert(new, shape, row, out))


def _insert(new: sqlite3.Connection, shape: _Shape, row: _Row, out: Salvage) -> int:
    """Number of a row that was inserted; 0 where it says what another one does."""
    done = new.execute(f'INSERT OR IGNORE INTO "{shape.name}" VALUES ({",".join("?" * len(row))})', row)
    out.kept[shape.name] += done.rowcount
    return (done.lastrowid or 0) if done.rowcount else 0


def _aside(cell: leaves.Cell, shapes: dict[str, _Shape], last: dict[str, int], out: Salvage) -> bool:
    """Take what is no row of ours: SQLite's own counters, and the names of sessions in the index over them."""
    match cell.values:
        case (str(name), int(number)):
            pass
        case _:
            return False
    if cell.rowid is not None and name in shapes and cell.of in ("", "sqlite_sequence"):
        last[name] = max(last.get(name, 0), number)
    elif cell.rowid is None and cell.of in ("", _NAMES_OF_SESSIONS) and not re.fullmatch("[0-9a-f]{16}", name):
        out.names.setdefault(number, name)
    return True


def _told_apart(
    cell: leaves.Cell, shapes: dict[str, _Shape], found: leaves.Leaves
) -> tuple[_Shape | None, _Row | None]:
    """Table and row of a cell: by its tree, otherwise by what it looks like."""
    if (shape := shapes.get(cell.of)) is not None:
        return shape, shape.row(cell)
    if cell.of in _OTHER_TREES or cell.of.startswith(("sqlite_", "message_index", "node_index", "vectors")):
        return None, None
    known = found.names.values() if cell.of else ()  # another program's copy of a table that is there may be older
    fitting = [(shape, row) for name, shape in shapes.items()
               if shape.name not in _AMBIGUOUS and name not in known and (row := shape.row(cell))]  # fmt: skip
    return fitting[0] if fitting else (None, None)


def _spend(new: sqlite3.Connection, table: str, last: int) -> None:
    """An address that was given is never given again, even where no row of the table could be saved."""
    if not new.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (last, table)).rowcount:
        new.execute("INSERT INTO sqlite_sequence(name, seq) VALUES (?, ?)", (table, last))


def _count_gaps(new: sqlite3.Connection, last: dict[str, int], out: Salvage) -> None:
    """Rows that are gone by their numbers, but for those that an operator removed."""
    removed = {
        key: int(value)
        for key, value in new.execute("SELECT substr(key, 9), value FROM meta WHERE key GLOB 'removed:*'")
    }
    for table in _LASTING:
        gone = last.get(table, 0) - out.kept[table] - removed.get(table, 0)
        if gone > 0 and (table in removed or not any(removed.values())):
            out.unreadable[table] = gone


_UNREADABLE = (zlib.error, ValueError, KeyError, IndexError, TypeError, json.JSONDecodeError)
_AT_ONCE = 100  # rows of one transaction
#: Columns of bytes that are no text: of a million digests one reads like a secret.
_NO_TEXT: Final = frozenset({"digest", "fingerprint", "sum", "vector"})


def rewrite_texts(db: Database, change: Callable[[str], str], progress: Progress = silent, *, dry: bool = False) -> int:
    """Change every text of every table but the indexes, some rows a transaction; how many differ now.

    ``dry``: only how many would; those of messages are left out, as these are rewritten before.
    """
    count, columns = 0, [each for each in _columns(db) if not dry or each[0] != "messages"]
    changed = lru_cache(maxsize=_AT_ONCE**2)(change)  # names and roles come again and again
    for n, (table, column, keys) in enumerate(columns):
        progress("reading other texts", n, len(columns))
        same = " AND ".join(f"{key} IS ?" for key in keys)
        these = f"WHERE {same} AND {column} = ?"
        update, left = f"UPDATE OR IGNORE {table} SET {column} = ? {these}", f"SELECT 1 FROM {table} {these}"
        sql = f"SELECT {', '.join(keys)}, {column} FROM {table} WHERE typeof({column}) = 'text'"
        for rows in db.iterate(sql):
            found = [(new, *row) for row in rows if (new := changed(row[-1])) != row[-1]]
            for at in range(0, 0 if dry else len(found), _AT_ONCE):
                with db.part():
                    for new, *row in found[at : at + _AT_ONCE]:
                        db.execute(update, (new, *row))
                        while db.fetch(left, row):  # another row has that name now: what told them apart was the secret
                            new += "_"
                            db.execute(update, (new, *row))
            count += len(found)
    return count


def _columns(db: Database) -> Iterator[tuple[str, str, list[str]]]:
    """(table, column of texts, columns by which a row is found)."""
    for table in sorted(TABLES):
        info = db.query(f"PRAGMA table_info({table})")
        keys = [quoted(row[1]) for row in info if row[5]] or ["rowid"]
        yield from ((table, quoted(row[1]), keys) for row in info if str(row[2]).upper() == "TEXT")


def texts_of(path: Path) -> Iterator[str]:
    """All texts of a database file, stored JSON and blocks unpacked. Changes nothing. Raises StoreError."""
    with reading(path) as connection:
        for table in tables(connection):
            found = connection.execute(f"SELECT * FROM {quoted(table)}")
            others = {n for n, column in enumerate(found.description) if column[0] in _NO_TEXT}
            for row in found:
                said = (value for n, value in enumerate(row) if n not in others or isinstance(value, str))
                yield from (text for value in said for text in _texts_in(value))


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        try:
            yield unpack(value)
        except _UNREADABLE:
            try:
                yield from (body.decode("utf-8", "replace") for body in unpack_block(value).values())
            except _UNREADABLE:
                yield value.decode("utf-8", "replace")
