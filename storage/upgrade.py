"""
Upgrade of a file that an earlier version wrote, in place, at its first open: schema 7 (commit 919cad3), and 101 as it was before
its newest tables (commit ed0087e) or columns (commit 48ca1d6).

A verified backup comes first, then one transaction: whoever is killed leaves the old file or the new one. Owns what only such
files have: messages of megabytes in files of their own beside the database (``<file>-aside``), with a reference in their row;
large ones that wait to be deflated; tables that were made later, with a note for each group; and the names of these notes.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from ..errors import StoreBusy, StoreCorrupt
from . import disk, schema
from .disk import translate
from .packing import LARGE_BYTES, pack

logger = logging.getLogger("hermes_lcm")

#: ``user_version`` of the last development version.
DEVELOPMENT: Final = 7
#: The folder beside a database in which copies of it are kept.
BACKUPS: Final = "lcm-backups"
#: Tables of those files that were made when something was first written to one of their group, and the notes of groups made.
_GROUPS: Final = {
    "summaries": ("nodes", "node_sources", "assemblies", "carried"),
    "payloads": ("payloads", "payload_refs"),
    "imports": ("import_sources", "imported", "duplicates"),
    "archives": ("archives",),
    "leases": ("leases",),
}
_GROUP_OF: Final = {table: group for group, tables in _GROUPS.items() for table in tables}
#: Tables that came when files of schema 101 were there already. A file that has neither of these two is of before; one that lacks
#: one of them has lost it.
_NEWEST: Final = ("costs", "ledger")
_LATER: Final = {*_NEWEST, "seals"}
#: Columns of prompts that came after these tables; their values stood in the costs. A file with one of them has lost the other.
_NEWEST_COLUMNS: Final = {"state_tokens": "INTEGER NOT NULL DEFAULT 0", "stubs": "TEXT NOT NULL DEFAULT '{}'"}
_NOTES_TO_PROMPTS: Final = (
    (
        "UPDATE assemblies SET state_tokens = coalesce((SELECT sum(amount) FROM costs WHERE what = 'state:' || assembly_id), 0), "
        "stubs = (SELECT json_group_object(replace(what, 'stub:' || assembly_id || ':', ''), amount) FROM costs "
        "WHERE what GLOB 'stub:' || assembly_id || ':*')"
    ),
    "DELETE FROM costs WHERE what GLOB 'stub:*' OR what GLOB 'state:*'",
)
_MADE: Final = "tables:"
_NOTES: Final = ("deflated_to", "files_to_deflate", *(f"{_MADE}{group}" for group in _GROUPS))
_TOPICS: Final = ("huge messages", "files of huge messages", "payload files to deflate")
#: In ``meta`` of an upgraded file: names of files beside it that nothing needs any more.
_LEFT: Final = "upgrade:files"
_UNPACKED: Final = (
    "SELECT store_id FROM messages WHERE typeof(envelope) = 'blob' AND (substr(envelope, 1, 1) = x'03' "
    f"OR (substr(envelope, 1, 1) = x'00' AND length(envelope) > {LARGE_BYTES}))"
)
_REFERRED: Final = "SELECT envelope FROM messages WHERE typeof(envelope) = 'blob' AND substr(envelope, 1, 1) = x'03'"
_AGAIN_S = 0.02


# -- messages beside the database ------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Reference:
    """A row's content that lies in a file: the file's name, its bytes, and their checksum."""

    name: str
    size: int
    checksum: int

    _NAME: ClassVar[str] = r"\d{1,19}-\d{1,19}-[0-9a-f]{8}"
    #: A file, or what there is of one while it is written.
    FILE: ClassVar[re.Pattern[str]] = re.compile(rf"(?:{_NAME}|\.{_NAME}\.\d+\.\d+)", re.ASCII)
    _HEAD: ClassVar[struct.Struct] = struct.Struct(">IQ")

    @classmethod
    def of(cls, stored: object) -> Reference | None:
        """The reference that stands in a row; None where there is none. No name leads out of the folder."""
        if not isinstance(stored, bytes) or stored[:1] != b"\3" or len(stored) <= 1 + cls._HEAD.size:
            return None
        checksum, size = cls._HEAD.unpack_from(stored, 1)
        name = stored[1 + cls._HEAD.size :].decode("ascii", "replace")
        return cls(name, size, checksum) if re.fullmatch(cls._NAME, name, re.ASCII) else None

    def load_json(self, folders: Sequence[Path]) -> bytes | None:
        """The message as JSON, from the first folder that has the file as it was written; None where none has."""
        for folder in folders:
            try:
                with (folder / self.name).open("rb") as file:
                    raw = file.read(self.size + 1)  # never a gigabyte that somebody else put there
            except OSError:
                continue
            if len(raw) == self.size and zlib.adler32(raw) == self.checksum:
                return _as_json(raw)
        return None


def _as_json(raw: bytes) -> bytes:
    """The JSON in such a file: as it is, or in three pieces, of which the second is a string that is not quoted yet."""
    sizes = re.match(rb"(\d{1,9}) (\d{1,9})\n", raw, re.ASCII)
    if sizes is None:
        return raw
    begin, end = sizes.end() + int(sizes[1]), len(raw) - int(sizes[2])
    quoted = json.dumps(raw[begin:end].decode("utf-8"), ensure_ascii=False).encode("utf-8")
    return raw[sizes.end() : begin] + quoted + raw[end:]


def folder_of(database: Path) -> Path:
    """Folder of a database's files: the same one under every name that it is opened by."""
    real = database.resolve()
    return real.with_name(f"{real.name}-aside")


def bring_home(connection: sqlite3.Connection, folders: Sequence[Path]) -> list[int]:
    """Store messages that lie in files, or wait to be deflated, as this release does, inside the caller's transaction.

    The messages whose files are gone: their rows stay as they are.
    """
    lost = list[int]()
    for (store_id,) in connection.execute(_UNPACKED).fetchall():
        stored = connection.execute("SELECT envelope FROM messages WHERE store_id = ?", (store_id,)).fetchone()[0]
        reference = Reference.of(stored)
        raw = stored[1:] if stored[:1] == b"\0" else reference.load_json(folders) if reference is not None else None
        if raw is None:
            lost.append(store_id)
        else:
            connection.execute("UPDATE messages SET envelope = ? WHERE store_id = ?", (pack(raw), store_id))
    return lost


# -- the upgrade -----------------------------------------------------------------------------------------
def wanted(connection: sqlite3.Connection) -> bool:
    """Did an earlier version write the file, so that it has to be upgraded?"""
    version = schema.version_of(connection)
    return version == DEVELOPMENT or (
        version == schema.VERSION
        and (not any(_is_there(connection, table) for table in _NEWEST) or _lacks_columns(connection))
    )


def upgrade(path: Path, *, wait_s: float, folders: Sequence[Path] = (), backup: bool = True) -> None:
    """Bring a file of an earlier version to this release's format; nothing if another process was faster.

    ``folders``: where its messages may lie as well. Raises sqlite3.Error and OSError as they come; StoreBusy when another process
    has the file open, for that may be of the development version and go on to write as it does; StoreCorrupt when the backup is
    not sound.
    """
    with _alone(path, wait_s) as connection:
        if not wanted(connection):
            return
        development = schema.version_of(connection) == DEVELOPMENT
        where = (folder_of(path), *folders)
        kept = _backed_up(connection, path, where) if backup else None
        with schema.as_one(connection, "EXCLUSIVE"):
            never = never_made(connection) if development else {t for t in _NEWEST if not _is_there(connection, t)}
            lost = bring_home(connection, where) if development else []
            for table, statement in schema.statements():
                if table in never:
                    connection.execute(statement)
            if _lacks_columns(connection):
                _add_columns(connection)
            if development:
                adapt(connection, _unneeded(connection, folder_of(path)))
            schema.mark(connection)
    logger.info("%s: brought from an earlier version's format to this release's; as it was: %s", path, kept)
    if lost:
        named = ", ".join(f"msg_{store_id}" for store_id in lost[:20])
        logger.warning("%s: messages whose files are not in %s cannot be read: %s", path, where[0], named)


@contextmanager
def _alone(path: Path, wait_s: float) -> Iterator[sqlite3.Connection]:
    """A connection that keeps the file to itself until it is closed, its write-ahead log folded back."""
    end = time.monotonic() + wait_s
    while True:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
            try:
                mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
                connection.execute("PRAGMA locking_mode=EXCLUSIVE")
                connection.execute("PRAGMA synchronous=FULL")
                connection.execute("PRAGMA temp_store=MEMORY")
                connection.execute("BEGIN EXCLUSIVE")
                connection.execute("COMMIT")  # in this mode the lock stays
            except sqlite3.OperationalError as exc:
                if not isinstance(translate(exc, path), StoreBusy):
                    raise
            else:
                if mode != "wal":  # others that have it open keep it so
                    yield connection
                    return
        # Closed in between: two processes that both wait for it must not wait for each other.
        if time.monotonic() > end:
            raise StoreBusy(
                f"{path} has an earlier version's format and is open in another process, so it cannot be brought to this "
                "release's: end the other Hermes processes (gateway, terminals) once"
            )
        time.sleep(_AGAIN_S)


def _backed_up(connection: sqlite3.Connection, path: Path, folders: Sequence[Path]) -> Path:
    """A checked copy of the file as it is, but for messages that lie beside it: a copy has them in their rows."""
    folder, name = path.parent / BACKUPS, f"{path.stem}-before-upgrade"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial, journal = folder / f".{name}.partial", folder / f".{name}.partial-journal"
    target = folder / f"{name}-{disk.stamp(time.time())}.sqlite3"
    try:
        for left in (partial, journal):  # of a process that was killed
            left.unlink(missing_ok=True)
        partial.touch(mode=0o600)
        with closing(sqlite3.connect(partial, isolation_level=None)) as copy:
            connection.backup(copy)
            with schema.as_one(copy):
                bring_home(copy, folders)
            _verify(connection, copy, path)
        disk.sync(partial)
        partial.replace(target)
        disk.sync(folder)
    finally:
        for left in (partial, journal):
            left.unlink(missing_ok=True)
    return target


def _verify(connection: sqlite3.Connection, copy: sqlite3.Connection, path: Path) -> None:
    """Raise StoreCorrupt where the copy of a file is not sound, or has other rows than the file."""
    try:
        problems = [text for (text,) in copy.execute("PRAGMA quick_check(3)") if text != "ok"]
        for table in sorted(schema.TABLES):
            if not problems and _is_there(connection, table):
                have, wanted = (
                    each.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for each in (copy, connection)
                )
                problems += [f"{table}: {have} rows of {wanted}"] if have != wanted else []
    except sqlite3.DatabaseError as exc:
        problems = [str(exc)]
    if problems:
        raise StoreCorrupt(
            f"{path} has an earlier version's format; the backup that is made before it is brought to this release's is not "
            f"sound, so the file was left as it was: {'; '.join(problems)}"
        )


def _is_there(connection: sqlite3.Connection, table: str) -> bool:
    sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(sql, (table,)).fetchone() is not None


def _lacks_columns(connection: sqlite3.Connection) -> bool:
    """Has the table of prompts none of its newest columns?"""
    there = {row[1] for row in connection.execute("PRAGMA table_info(assemblies)")}
    return bool(there) and there.isdisjoint(_NEWEST_COLUMNS)


def _add_columns(connection: sqlite3.Connection) -> None:
    for name, kind in _NEWEST_COLUMNS.items():
        connection.execute(f"ALTER TABLE assemblies ADD COLUMN {name} {kind}")
    for statement in _NOTES_TO_PROMPTS:
        connection.execute(statement)


def never_made(connection: sqlite3.Connection) -> set[str]:
    """Tables that a file of the development version does not have because nothing was ever written to them; others are lost."""
    rows = connection.execute("SELECT key FROM meta WHERE key >= ? AND key < ?", (_MADE, _MADE + "\U0010ffff"))
    made = {key.removeprefix(_MADE) for (key,) in rows}
    never = {table for table, group in _GROUP_OF.items() if group not in made} | _LATER
    return {table for table in never if not _is_there(connection, table)}


def adapt(connection: sqlite3.Connection, unneeded: Sequence[str]) -> None:
    """Forget what only the development version notes, inside the caller's transaction. ``unneeded``: names of files to remove."""
    connection.executemany("DELETE FROM meta WHERE key = ?", [(key,) for key in _NOTES])
    connection.executemany("DELETE FROM health WHERE topic = ?", [(topic,) for topic in _TOPICS])
    if unneeded:
        connection.execute("INSERT OR REPLACE INTO meta(key, value) VALUES (?, ?)", (_LEFT, json.dumps(list(unneeded))))


# -- afterwards ------------------------------------------------------------------------------------------
def _unneeded(connection: sqlite3.Connection, folder: Path) -> list[str]:
    """Files beside the database to which no row refers any more."""
    wanted = {each.name for (stored,) in connection.execute(_REFERRED) if (each := Reference.of(stored)) is not None}
    there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return [name for name in there if Reference.FILE.fullmatch(name) and name not in wanted]


def tidy(connection: sqlite3.Connection, path: Path) -> None:
    """Remove the files beside an upgraded database that its rows hold now. One that cannot be removed waits for the next open."""
    folder = folder_of(path)
    if not folder.is_dir():
        return
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (_LEFT,)).fetchone()
    if row is None:
        return
    try:
        for name in filter(Reference.FILE.fullmatch, json.loads(row[0])):
            (folder / name).unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()
    except OSError as exc:
        logger.warning("%s: files that no message needs any more cannot be removed: %s", folder, exc)
        return
    connection.execute("DELETE FROM meta WHERE key = ?", (_LEFT,))
