"""
Huge envelopes between their turn and the database: each lies in a file of its own until it is deflated into its row.

Owns the folder ``<database file>-aside``. SQLite writes 5 MB as thousands of pages, ten times as slowly as one file, and
a turn waits for that. So the turn writes the file, durably, and then the row, which says where it is and what it must be; behind
the turn the envelope comes into its row. No file goes while a row refers to it. Knows nothing of rows.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from . import durable
from .health import Health
from .text import huge
from .text.packing import Reference

TOPIC: Final = "huge messages"
_SWEEPING: Final = "files of huge messages"
_UNFINISHED_S = 60.0
#: A file, or what there is of one while it is written.
_OURS = re.compile(rf"(?:{Reference.NAME}|\.{Reference.NAME}\.\d+\.\d+)", re.ASCII)


def folder_of(database: Path) -> Path:
    """Where the files of a database lie: the same place under whatever name it is opened, and no other database's."""
    real = database.resolve()
    return real.with_name(f"{real.name}-aside")


def keep_with(database: Path, copy: Path) -> None:
    """Give the bytes of a database that were kept elsewhere the files that rows in them may refer to. Raises OSError.

    Under second names: the database goes on with its own, and removes those that it needs no more.
    """
    source, target = folder_of(database), folder_of(copy)
    if not source.is_dir():
        return
    for path in sorted(source.iterdir()):
        if path.is_file() and Reference.row(path.name) is not None and not (target / path.name).exists():
            target.mkdir(mode=0o700, exist_ok=True)
            durable.second_name(path, target / path.name)


class Aside:
    """The files of one database. Without ``health`` they are only read: whoever lays something aside must see to it later."""

    def __init__(self, database: Path, health: Health | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._health = health
        self._clock = clock

    @property
    def folder(self) -> Path:
        """Where they lie by now: a link may lead elsewhere than before."""
        return folder_of(self._database)

    def lay(self, conversation_id: int, seq: int, *pieces: bytes) -> Reference | None:
        """Write the envelope of a message that is going to be stored, durably; None: it must go into its row.

        ``pieces``: JSON, or what ``huge.laid`` makes of it.
        The name says for which row, so that a file that nothing refers to is known at once.
        """
        if self._health is None:
            return None
        name = f"{conversation_id}-{seq}-{secrets.token_hex(4)}"
        try:
            durable.write(self.folder / name, *pieces, within=self.folder)
        except OSError as exc:
            self._health.degraded(
                TOPIC,
                f"{self.folder}: {exc.strerror or exc}; messages of megabytes hold their turn for longer",
                severity="warning",
                remedy=durable.remedy(exc),
            )
            return None
        self._health.resolved(TOPIC)
        return Reference.to(name, *pieces)

    def has(self, reference: Reference) -> bool:
        """Is the file there?"""
        return (self.folder / reference.name).is_file()

    def holds(self, reference: Reference) -> bool:
        """Is it there, and still what was written?"""
        try:
            self.read(reference)
        except (KeyError, ValueError):
            return False
        return True

    def read(self, reference: Reference) -> bytes:
        """The envelope. Raises KeyError when its file is gone, ValueError when it is not what was written."""
        try:
            with (self.folder / reference.name).open("rb") as file:
                raw = file.read(reference.size + 1)  # never a gigabyte that somebody else put there
        except OSError as exc:
            raise KeyError(f"{self.folder / reference.name}: {exc.strerror or exc}") from exc
        if not reference.is_to(raw):
            raise ValueError(f"{self.folder / reference.name} does not hold what was written")
        return huge.taken_up(raw)

    def touch(self, reference: Reference) -> None:
        """The envelope has come into its row: from now on the file counts as old."""
        try:
            (self.folder / reference.name).touch()
        except OSError:
            pass  # gone already; it is not needed any more

    def old(self, seconds: float) -> list[Path]:
        """Files that nobody has touched for so long; half-written ones (of processes that were killed) after a minute.

        Never what somebody else has put there.
        """
        try:
            found = sorted(path for path in self.folder.iterdir() if _OURS.fullmatch(path.name) and path.is_file())
        except FileNotFoundError:
            found = []  # nothing huge has come yet
        except OSError as exc:
            self._stay(exc)
            return []
        if not found and self._health is not None:
            self._health.resolved(_SWEEPING)
        now = self._clock()
        return [
            path for path in found if now - _touched(path, now) >= (seconds if path.name[0] != "." else _UNFINISHED_S)
        ]

    def remove(self, paths: Sequence[Path]) -> int:
        """Remove files that nobody needs; how many are gone. One that cannot be removed stays until the next time."""
        gone = 0
        failed: OSError | None = None
        for path in paths:
            try:
                path.unlink(missing_ok=True)
                gone += 1
            except OSError as exc:
                failed = exc
        if failed is not None:
            self._stay(failed)
        elif self._health is not None and paths:
            self._health.resolved(_SWEEPING)
        return gone

    def _stay(self, exc: OSError) -> None:
        if self._health is not None:
            self._health.degraded(
                _SWEEPING,
                f"{self.folder}: {exc.strerror or exc}; files that no message needs any more cannot be removed",
                severity="warning",
                remedy=durable.remedy(exc),
            )


def _touched(path: Path, now: float) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return now + 1  # another process has removed it
