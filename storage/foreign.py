"""
Databases of other programs, read and never written: what they are, and their rows.

The one reader for importers. A file that nobody has open is read as immutable, so that not even a side file appears beside it;
beside a running program it is read like SQLite reads, without a lock that lasts.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BadRequest, StoreBusy, StoreEarlier, StoreError, StoreForeign
from . import disk, schema

OURS, EARLIER = "an archive of this plugin", "a database of the earlier hermes-lcm plugin"
OPENCLAW, HOST = "a database of lossless-claw", "a session database of Hermes"
#: The host's database in its home.
HOST_FILE = "state.db"
OTHER, EMPTY = "a database of another program", "an empty database"
_KINDS = (
    (EARLIER, {"messages": {"store_id", "session_id", "role", "content"}}),
    (OPENCLAW, {"conversations": {"conversation_id", "session_id"}, "messages": {"message_id", "conversation_id", "seq"}}),
    (HOST, {"sessions": {"id", "source"}, "messages": {"id", "session_id", "role", "content"}}),
)  # fmt: skip
_BUSY_S = 5.0
_BATCH = 500

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """Kind of a file, by its tables; nothing that a name or a number in it claims."""

    name: str
    tables: tuple[str, ...] = ()


class Foreign:
    """A database of another program, opened for reading. ``shared``: this process itself may have it open as well."""

    def __init__(self, path: str | Path, *, shared: bool = False) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise BadRequest(f"{self.path}: there is no such file")
        try:
            self._connection = _opened(self.path, shared=shared)
            self._tables = _tables(self._connection)
        except (sqlite3.Error, UnicodeDecodeError) as exc:
            raise _said(exc, self.path) from exc

    def __enter__(self) -> Foreign:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @property
    def kind(self) -> Kind:
        """Program that wrote the file."""
        return _kind(self._tables, self._pragma("application_id"))

    def columns(self, table: str) -> frozenset[str]:
        """The columns of a table; none when there is no such table."""
        return self._tables.get(table, frozenset())

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        """All rows of a statement."""
        try:
            cursor = self._connection.execute(sql, params)
            names = [each[0] for each in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except sqlite3.Error as exc:
            raise _said(exc, self.path) from exc

    def one(self, sql: str, params: Sequence[Any] = ()) -> Any:
        """The first value of the first row, or None."""
        rows = self.rows(sql, params)
        return next(iter(rows[0].values())) if rows else None

    def walk(self, sql: str, key: str, params: Sequence[Any] = ()) -> Iterator[list[Row]]:
        """All rows in batches, by a key that grows: ``sql`` holds ``{key}`` for the condition and ends before ORDER BY.

        No read lock lasts longer than a batch, so a program that writes meanwhile is not held up.
        """
        last: Any = None
        while True:
            where = f"{key} > ?" if last is not None else "1"
            more = (last,) if last is not None else ()
            rows = self.rows(f"{sql.replace('{key}', where)} ORDER BY {key} LIMIT {_BATCH}", (*params, *more))
            if not rows:
                return
            yield rows
            last = rows[-1][key.rpartition(".")[2]]

    def _pragma(self, name: str) -> int:
        return int(self.one(f"PRAGMA {name}") or 0)


@contextmanager
def of_host(home: Path) -> Iterator[Foreign | None]:
    """The host's own database, which others may have open; None where there is none. Raises LcmError where it cannot be read."""
    path = home / HOST_FILE
    if not path.is_file():
        yield None
        return
    with Foreign(path, shared=True) as found:
        yield found if found.kind.name == HOST else None


def refuse_foreign(path: Path) -> None:
    """Raise StoreForeign when the file belongs to another program. Looks without writing to it."""
    try:
        if path.stat().st_size == 0:
            return
        kind = _looked(path, "immutable=1")
        if kind.name == EMPTY and path.with_name(path.name + "-wal").exists():
            kind = _looked(path, disk.like_any_reader(path))  # whatever it is, all of it is still in the log
    except (OSError, sqlite3.Error, UnicodeDecodeError):
        return  # damaged, or not readable: who opens it next says so
    if kind.name == EARLIER:
        raise StoreEarlier(f"{path} was written by the earlier hermes-lcm plugin; nothing in it was changed")
    if kind.name not in (OURS, EMPTY):
        raise StoreForeign(
            f"{path} is a database of another program (tables: {', '.join(kind.tables[:6])}); it was left as it is",
            remedy="move it away, or point LCM_DATABASE_PATH at another file",
        )


def messages_of_earlier(path: Path) -> int:
    """Number of rows in a database of the earlier plugin. Raises LcmError where it cannot be read."""
    with Foreign(path) as found:
        return int(found.one("SELECT count(*) FROM messages") or 0)


def _looked(path: Path, how: str) -> Kind:
    with closing(disk.connected(path.absolute(), how, wait_s=_BUSY_S)) as connection:
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        if owner == schema.APPLICATION_ID and connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            return Kind(OURS)  # each opening asks, and need not know which columns there are
        return _kind(_tables(connection), owner)


def _kind(tables: dict[str, frozenset[str]], application: int) -> Kind:
    names = tuple(sorted(tables))
    if not tables:
        return Kind(EMPTY)
    if application == schema.APPLICATION_ID or schema.TABLES.issubset(tables):
        return Kind(OURS, names)
    for name, wanted in _KINDS:
        if all(columns <= tables.get(table, frozenset()) for table, columns in wanted.items()):
            return Kind(name, names)
    return Kind(OTHER, names)


def _opened(path: Path, *, shared: bool) -> sqlite3.Connection:
    """Immutable where nobody can be writing: in WAL mode a log is there as long as anybody has the file open."""
    quiet = not shared and not path.with_name(path.name + "-wal").exists() and _in_wal_mode(path)
    connection = disk.connected(path.absolute(), "mode=ro&immutable=1" if quiet else "mode=ro", wait_s=_BUSY_S)
    connection.execute("PRAGMA query_only=1")
    connection.text_factory = _text
    return connection


def _in_wal_mode(path: Path) -> bool:
    """By the header, as SQLite does not tell for an immutable file. Only for files that this process has not open otherwise:
    closing such a descriptor drops SQLite's locks."""
    with path.open("rb") as file:
        return file.read(20)[18:19] == b"\2"


def json_in(text: Any, otherwise: Any) -> Any:
    """The JSON that a column of another program holds; ``otherwise`` where it is none."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return otherwise


def _text(raw: bytes) -> str:
    """Other programs store broken UTF-8; it is kept, not refused."""
    return raw.decode("utf-8", "surrogateescape")


def _tables(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found: dict[str, frozenset[str]] = {}
    for name in names:
        if name.startswith("sqlite_"):
            continue
        try:
            columns = connection.execute(f"PRAGMA table_info({schema.quoted(name)})")
            found[name] = frozenset(str(row[1]) for row in columns)
        except sqlite3.OperationalError:  # a virtual table of a module that this SQLite lacks
            found[name] = frozenset()
    return found


def _said(exc: sqlite3.Error | UnicodeDecodeError, path: Path) -> StoreError:
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or isinstance(exc, UnicodeDecodeError):
        remedy = "name another file, or repair this one with its own program; here it is only read"
        return StoreForeign(f"{path} cannot be read as a database: {exc}", remedy)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(f"{path} is held by another program: {exc}")
    return StoreError(f"{path}: {exc}")
