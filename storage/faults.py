"""
SQLite's errors, and those of the file, as ours.

By result code: what SQLite says is for people. Owns nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from ..errors import Exchanged, StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreReadOnly
from . import durable


class Translated:
    """Errors of SQLite and of the file become ours. Without state: one serves all statements of a database, nested ones too."""

    __slots__ = ("_moved", "_on_busy", "_path")

    def __init__(
        self, path: Path, on_busy: Callable[[], None] | None = None, *, moved: Callable[[], bool] = lambda: False
    ) -> None:
        self._path = path
        self._on_busy = on_busy
        self._moved = moved

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, _: object) -> None:
        if exc is None:
            return
        if isinstance(exc, sqlite3.Error) and self._moved():
            raise Exchanged(
                f"{self._path} or its log was exchanged while it was in use ({exc}); it is read anew"
            ) from exc
        if isinstance(exc, sqlite3.Error):
            error = translate(exc, self._path)
            if self._on_busy is not None and isinstance(error, StoreBusy):
                self._on_busy()
            raise error from exc
        if isinstance(exc, UnicodeDecodeError):  # of the list of tables, or of a row
            raise StoreCorrupt(
                f"{self._path}: text in it is no UTF-8 ({exc.reason} {exc.object[exc.start]:#x})"
            ) from exc
        if isinstance(exc, (UnicodeEncodeError, OverflowError)):
            raise StoreError(f"{self._path}: a value that SQLite cannot hold ({exc})") from exc
        if isinstance(exc, OSError):
            of = StoreFull if exc.errno == 28 else StoreReadOnly if exc.errno in (13, 30, 1) else StoreError
            raise of(f"{self._path}: {exc.strerror or exc}") from exc


def translate(exc: sqlite3.Error, path: Path) -> StoreError:
    """SQLite's error as one of ours, by result code (the text is for people)."""
    code = getattr(exc, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else -1
    said = f"{path}: {exc}"
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(said)
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return StoreReadOnly(said)
    if primary == sqlite3.SQLITE_CANTOPEN:
        return StoreReadOnly(said)
    if primary == sqlite3.SQLITE_FULL:
        return StoreFull(said)
    if primary == sqlite3.SQLITE_NOTADB:
        return StoreCorrupt(f"{said} (is LCM_DATABASE_PATH right? Otherwise its first bytes are damaged)")
    if primary == sqlite3.SQLITE_CORRUPT or "Could not decode to UTF-8" in said:
        return StoreCorrupt(said)  # Python has no code for a text that is none
    if primary == sqlite3.SQLITE_IOERR and (full := durable.no_room(path.parent)):
        return StoreFull(f"{said}: {full}")
    return StoreError(said)
