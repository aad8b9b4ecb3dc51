"""
File that was left: a connection shows still what was deleted or replaced, or lost its log, while it was in use.

Owns that connection until what only it shows is saved, under the file's own name where that is free, else as a stand-in, which is
merged like any other.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from .disk import Identity, connected, has_lost_file, identity_of, is_open_here, stand_in

#: What cannot be saved for so long is given up: the file that has its name now works.
GIVE_UP_S = 60.0
_BUSY_S = 2.0
_TABLES = (
    "SELECT store_id, digest FROM messages",
    "SELECT node_id, text FROM nodes",
    "SELECT assembly_id FROM assemblies",
)


def has_lost_log(file: Path) -> bool:
    """Is there an index of a write-ahead log, and no log? SQLite makes the log first, and removes it first."""
    return not os.path.exists(f"{file}-wal") and os.path.exists(f"{file}-shm")


def has_removed_index(file: Path, connection: sqlite3.Connection) -> bool:
    """Does a connection use an index without a name? SQLite has one for a file in a process, as long as anybody there holds it.

    With it whatever is read from the log that has the name now, or written to it, lies in the wrong place.
    """
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        return False
    now = identity_of(file)
    return now is None or not is_open_here(now.device, now.shared)


def drop_index(file: Path, *, made_by_a_reader: bool = False) -> None:
    """Remove the index of a log that was removed: it tells of frames that no log has. Nobody may open the file meanwhile.

    Who has the removed log open keeps both, and notices. ``made_by_a_reader``: an empty log beside the old index goes too.
    """
    log = Path(f"{file}-wal")
    if made_by_a_reader and log.exists() and not log.stat().st_size:
        log.unlink()
    if has_lost_log(file):
        with suppress(FileNotFoundError):
            os.unlink(f"{file}-shm")


class _Held(NamedTuple):
    """Connections to a file, and which one that was."""

    writer: sqlite3.Connection
    reader: sqlite3.Connection
    was: Identity


class Left:
    """Connections to one file that was left. ``database``: for which a stand-in is made of it where another has its name."""

    def __init__(self, file: Path, database: Path) -> None:
        self._file, self._database = file, database
        self._held: _Held | None = None
        self._failed_at: float | None = None

    def keep(self, writer: sqlite3.Connection, reader: sqlite3.Connection, was: Identity) -> None:
        """Hold connections to the file as it was. The reader was opened for reading only, and is closed last.

        Otherwise SQLite would fold a log that was removed into a file that others have written to since.
        """
        self.forget()
        self._held = _Held(writer, reader, was)

    @property
    def held(self) -> bool:
        """Is there anything to save?"""
        return self._held is not None

    @property
    def reader(self) -> sqlite3.Connection | None:
        """The connection that is held by this process."""
        return self._held.reader if self._held is not None and self._held.was.process == os.getpid() else None

    def forget(self) -> None:
        """Let the connection go."""
        held, self._held, self._failed_at = self._held, None, None
        if held is not None and held.was.process == os.getpid():  # after a fork they are the parent's
            held.writer.close()
            held.reader.close()

    def save(self) -> str:
        """Save what would be lost; in words what had happened to the file, "" where it is as it was.

        Raises sqlite3.Error and OSError where that is not possible now; after a minute of that it is given up.
        """
        if self._held is None or self._held.was.process != os.getpid() or not self._file.parent.is_dir():
            return ""
        try:
            said = self._saved(self._held)
        except (sqlite3.Error, OSError) as exc:
            now = time.monotonic()
            self._failed_at = now if self._failed_at is None else self._failed_at
            if getattr(exc, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) and (
                now < self._failed_at + GIVE_UP_S
            ):
                raise
            said = f"{self._file} was deleted or replaced while it was in use; what it held could not be saved: {exc}"
        if said:
            self.forget()
        return said

    def _saved(self, held: _Held) -> str:
        now, was = identity_of(self._file), held.was
        if now is None or (now.device, now.file) != (was.device, was.file):
            self._copy(held.reader, missing=now is None)
            return f"{self._file} was {'deleted' if now is None else 'replaced'} while it was in use"
        if (now.log, now.shared) == (was.log, was.shared):
            return ""
        if now.log and now.shared != was.shared:  # another process has begun a log of its own
            self._add(held.reader)
        else:
            _fold(held.writer)
            self.forget()
            drop_index(self._file, made_by_a_reader=True)
        return f"the write-ahead log of {self._file} was removed by another program"

    def _add(self, reader: sqlite3.Connection) -> None:
        """Make a stand-in of what the connection shows, where that is more than the file.

        Only one of the two is open at a time: within a process SQLite has one index for a file, whatever the log.
        """
        copy = self._written(reader)
        self.forget()
        if _shows_more(copy, self._file):
            copy.replace(stand_in(self._database, time.time()))
        else:
            copy.unlink()

    def _copy(self, reader: sqlite3.Connection, *, missing: bool) -> None:
        """Write what the connection shows to a file with a name."""
        copy = self._written(reader)
        if not (missing and _placed(copy, self._file)):
            copy.replace(stand_in(self._database, time.time()))

    def _written(self, reader: sqlite3.Connection) -> Path:
        copy = self._file.with_name(f".{self._file.name}.{os.getpid()}.saved")
        with closing(sqlite3.connect(copy)) as target:
            os.chmod(copy, 0o600)
            reader.backup(target)
        return copy


def _fold(writer: sqlite3.Connection) -> None:
    """Write what a removed log holds into its file. Raises sqlite3.OperationalError where somebody uses it still."""
    busy, frames, folded = writer.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
    if busy or frames != folded:
        in_use = sqlite3.OperationalError(f"its removed log is in use still ({folded} of {frames} frames are saved)")
        in_use.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise in_use


def _shows_more(copy: Path, file: Path) -> bool:
    """Has a copy rows that a file lacks?"""
    if has_lost_file(file):
        return True  # SQLite would remove its log
    try:
        with (
            closing(connected(copy, "immutable=1", wait_s=_BUSY_S)) as was,
            closing(connected(file, "mode=ro", wait_s=_BUSY_S)) as now,
        ):
            return has_removed_index(file, now) or any(
                set(was.execute(rows)) - set(now.execute(rows)) for rows in _TABLES
            )
    except sqlite3.Error:
        return True


def _placed(copy: Path, file: Path) -> bool:
    """Give a copy the name of a file that is missing. False where it is not, by now: its folder may have been renamed back.

    In one folder, whatever it is called by now: a log that is removed is that of the missing file, and nothing is replaced.
    """
    folder = os.open(copy.parent, os.O_RDONLY)
    try:
        if file.name in os.listdir(folder) or copy.name not in os.listdir(folder):
            return False
        for ending in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(f"{file.name}{ending}", dir_fd=folder)
        try:
            os.link(copy.name, file.name, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            os.rename(copy.name, file.name, src_dir_fd=folder, dst_dir_fd=folder)
            return True
        os.unlink(copy.name, dir_fd=folder)
        return True
    finally:
        os.close(folder)
