"""
Stand-in files: databases that are written to while the one that they stand in for cannot be used.

Owns their names, which of them a process may take, and the copy of a conversation from the file that they stand in for: with its
addresses, so that a prompt that names them goes on. Whatever of it cannot be read stays out.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..errors import StoreError
from . import files, schema
from .connection import Database
from .disk import SIDE_FILES, connected, has_lost_file, like_any_reader, stand_in
from .opened import has_removed_index

#: Tables of one conversation, those first to which others refer, with the column that says whose a row is.
_OWNED: Final = (
    ("conversations", "conversation_id"), ("sessions", "conversation_id"), ("blocks", "conversation_id"),
    ("messages", "conversation_id"), ("nodes", "conversation_id"), ("assemblies", "conversation_id"),
    ("carried", "conversation_id"), ("archives", "conversation_id"),
)  # fmt: skip
#: A prompt none of whose messages could be read: a list that shows it keeps its context message, which tells where it belongs.
_WITHOUT_TAIL: Final = """
DELETE FROM assemblies WHERE conversation_id = ? AND json_valid(tail_ids) AND json_array_length(tail_ids) > 0
   AND NOT EXISTS (SELECT 1 FROM json_each(tail_ids) JOIN messages ON store_id = value)
"""
_SHARED: Final = ("payloads", "payload_refs")
_NOTES: Final = ("inherits:", "nonce:", "rotate:", "dissolved:")
_BATCH: Final = 256
_BUSY_S: Final = 0.2


@dataclass(slots=True)
class Copied:
    """Counts of a standby: addresses of messages that a search should find, and summaries."""

    messages: list[int] = field(default_factory=list)
    nodes: list[tuple[int, int, str]] = field(default_factory=list)


# -- files -----------------------------------------------------------------------------------------------
def stand_ins(database: Path) -> list[Path]:
    """The stand-ins of a database, oldest first; none where its folder cannot be looked into."""
    there = database.parent.glob(f"{_stem(database)}*.db") if os.path.isdir(database.parent) else ()
    return sorted(there, key=lambda path: [int(n) if n.isdigit() else n for n in re.split(r"(\d+)", path.name)])


def _stem(database: Path) -> str:
    return f"{database.stem}.standby-"


def free(database: Path, used: Path) -> list[Path]:
    """Stand-ins that wait to be merged: of this process, but for the one in use, and of processes that ended."""
    return [path for path in stand_ins(database) if path != used and not _is_owned(path)]


def _is_owned(path: Path) -> bool:
    """Does another process use it? By the number in its name, and where that says nothing, by SQLite's locks."""
    owner = path.stem.rpartition("-")[2]
    if owner == str(os.getpid()):
        return False
    try:
        if owner.isdigit():
            os.kill(int(owner), 0)
            return True
    except ProcessLookupError:
        pass
    except OSError:
        return True
    try:
        files.refuse_shared(path)
    except (StoreError, OSError):
        return True
    return False


def claimed(database: Path, path: Path) -> Path | None:
    """A stand-in under a name of this process, so that no other one merges it too; None where one was faster."""
    if path.stem.rpartition("-")[2] == str(os.getpid()):
        return path
    try:
        with suppress(StoreError):  # a damaged one keeps its log
            files.seal(path)  # its log becomes a part of it
        mine = stand_in(database, path.stat().st_mtime)
        path.rename(mine)
        for suffix in SIDE_FILES:
            with suppress(FileNotFoundError):
                path.with_name(path.name + suffix).rename(mine.with_name(mine.name + suffix))
    except OSError:
        return None
    return mine


def retire(path: Path, folder: Path) -> None:
    """Keep a stand-in whose messages are in the database among its backups."""
    with suppress(StoreError):  # a damaged one is kept as it is
        files.seal(path)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.replace(path, folder / f"{path.stem}.sqlite3")
    for suffix in SIDE_FILES:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


# -- copying ---------------------------------------------------------------------------------------------
def copy_session(db: Database, source: Path, session_id: str) -> Copied | None:
    """Copy the conversation of a session, and those that it rests on, from a file that cannot be used otherwise.

    None: nothing of the session can be read there.
    """
    try:
        with _reading(db, source) as old:
            wanted = _conversations(old, session_id)
            return _copy(db, old, wanted) if wanted else None
    except (sqlite3.Error, UnicodeDecodeError):
        return None


def sessions(db: Database, source: Path) -> list[str]:
    """The sessions of a file, newest first; none where they cannot be read."""
    try:
        with _reading(db, source) as old:
            rows = old.execute("SELECT session_id FROM sessions ORDER BY session_key DESC").fetchall()
    except (sqlite3.Error, UnicodeDecodeError):
        return []
    return [row[0] for row in rows if isinstance(row[0], str)]


def take_numbers(db: Database, source: Path) -> bool:
    """Give out addresses behind those of a file, so that one address never means two things. False: it does not tell them."""
    try:
        with _reading(db, source) as old:
            numbers = old.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
    except (sqlite3.Error, UnicodeDecodeError):
        return False
    _number(db, numbers)
    return True


def give_numbers(db: Database, number: int) -> None:
    """Give out addresses behind a number."""
    _number(db, [("messages", number), ("nodes", number), ("assemblies", number)])


def _number(db: Database, numbers: Sequence[tuple[str, int]]) -> None:
    with db.transaction():
        for name, number in numbers:
            if name in schema.TABLES and isinstance(number, int) and number < schema.MOST_ADDRESSES:
                db.execute("DELETE FROM sqlite_sequence WHERE name = ? AND seq < ?", (name, number))
                db.execute(
                    "INSERT INTO sqlite_sequence(name, seq) SELECT ?, ? "
                    "WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?)",
                    (name, number, name),
                )


@contextmanager
def _reading(db: Database, source: Path) -> Iterator[sqlite3.Connection]:
    """A connection to the file that something stands in for: that which was left open when it was, if any."""
    left = db.left if source == db.path else None
    if left is not None:
        yield left
        return
    with closing(_opened(source)) as old:
        yield old


def _opened(path: Path) -> sqlite3.Connection:
    """Read like any reader, or, where not even that works (a folder that cannot be written), as a file that nobody changes."""
    last: sqlite3.Error = sqlite3.OperationalError(f"{path} is no file, or an empty one, whose log SQLite would remove")
    for how in (like_any_reader(path), "mode=ro&immutable=1") if path.is_file() and not has_lost_file(path) else ():
        connection = connected(path, how, wait_s=_BUSY_S)
        try:
            if has_removed_index(path, connection):
                raise sqlite3.OperationalError(f"{path}: the index of its log was removed")
            version = schema.version_of(connection)
            owner = connection.execute("PRAGMA application_id").fetchone()[0]
        except sqlite3.Error as exc:
            connection.close()
            last = exc
            continue
        if (owner, version) == (schema.APPLICATION_ID, schema.VERSION):
            return connection
        connection.close()
        raise sqlite3.DatabaseError(f"{path} is not a database of this release")
    raise last


def _conversations(old: sqlite3.Connection, session_id: str) -> list[int]:
    """The conversation of a session, what it branched off, and whose summaries it shows; the oldest first."""
    row = old.execute("SELECT conversation_id FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
    waiting = [row[0]] if row else []
    out: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is None or each in out:
            continue
        out.add(each)
        waiting += [
            row[0]
            for row in old.execute(
                "SELECT parent_id FROM conversations WHERE conversation_id = :c UNION SELECT n.conversation_id "
                "FROM carried k JOIN nodes n USING(node_id) WHERE k.conversation_id = :c",
                {"c": each},
            )
        ]
    return sorted(out)


def _copy(db: Database, old: sqlite3.Connection, wanted: Sequence[int]) -> Copied:
    """One transaction. References are not enforced: what they lead to may be unreadable."""
    out = Copied()
    with db.unreferenced():
        for conversation in wanted:
            if db.fetch("SELECT 1 FROM conversations WHERE conversation_id = ?", (conversation,)):
                continue
            for table, column in _OWNED:
                for row in _rows(old, table, f"{column} = ?", (conversation,)):
                    _insert(db, table, row)
            _copy_sources(db, old, conversation)
            db.execute(_WITHOUT_TAIL, (conversation,))
            _note_for_search(db, conversation, out)
        for table in _SHARED:
            for row in _rows(old, table, "1", ()):
                _insert(db, table, row)
        for row in _rows(old, "meta", "1", ()):
            if str(row["key"]).startswith(_NOTES):
                _insert(db, "meta", row)
    return out


def _copy_sources(db: Database, old: sqlite3.Connection, conversation: int) -> None:
    for (node_id,) in db.fetch("SELECT node_id FROM nodes WHERE conversation_id = ?", (conversation,)):
        for row in _rows(old, "node_sources", "node_id = ?", (node_id,)):
            _insert(db, "node_sources", row)


def _note_for_search(db: Database, conversation: int, out: Copied) -> None:
    rows = db.fetch("SELECT store_id FROM messages WHERE conversation_id = ? ORDER BY store_id", (conversation,))
    out.messages += [row[0] for row in rows]
    out.nodes += db.fetch("SELECT node_id, conversation_id, text FROM nodes WHERE conversation_id = ?", (conversation,))


def _insert(db: Database, table: str, row: dict[str, Any]) -> None:
    key = next(iter(row.values()))
    if (isinstance(key, int) and key >= schema.MOST_ADDRESSES) or not schema.has_numbers(table, row):
        return  # nothing could be stored behind it
    names = [name for name in row if (table, name) in schema.columns()]  # another program may have renamed one
    marks = ", ".join("?" * len(names))
    db.execute(
        f"INSERT OR IGNORE INTO {table}({', '.join(names)}) VALUES ({marks})", tuple(row[name] for name in names)
    )


def _rows(old: sqlite3.Connection, table: str, where: str, params: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Rows of a table; where a page cannot be read, what lies on the others."""
    try:
        rows = _named(old.execute(f"SELECT * FROM {table} WHERE {where}", tuple(params)))
    except (sqlite3.Error, UnicodeDecodeError):
        yield from _readable(old, table, where, params)
    else:
        yield from rows


def _named(cursor: sqlite3.Cursor) -> list[dict[str, Any]]:
    """All rows of a statement, with their columns."""
    names = [each[0] for each in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _readable(old: sqlite3.Connection, table: str, where: str, params: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Row by row, by halves: each statement that fails is asked again about half of the rows."""
    try:
        low, high = old.execute(f"SELECT min(rowid), max(rowid) FROM {table}").fetchone()
    except (sqlite3.Error, UnicodeDecodeError):
        return
    spans = [(low or 0, high or -1)]
    while spans:
        low, high = spans.pop()
        try:
            sql = f"SELECT * FROM {table} WHERE rowid BETWEEN ? AND ? AND {where}"
            rows = _named(old.execute(sql, (low, high, *params)))
        except (sqlite3.Error, UnicodeDecodeError):
            if low < high:
                middle = (low + high) // 2
                spans += [(middle + 1, high), (low, middle)]
        else:
            yield from rows
