"""
Long reads: each has a connection of its own, opened for it and closed after it, so many at a time.

A connection sees one moment as long as a statement of it is not read to its end; a long read on the connection of the short ones
would keep them all at the moment when it began.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ..errors import StoreBusy

#: At a time, by database and process: each has a cache of its own.
MOST: Final = 4
#: Whoever comes when there are so many waits so long for one of them to end.
WAIT_S: Final = 10.0

Rows = list[tuple[Any, ...]]


class LongRead:
    """One statement and its connection. For one thread, but for ``close``."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = connection
        self._cursor: sqlite3.Cursor | None = None
        self._lock = threading.Lock()

    def rows(self, sql: str, params: Sequence[Any] | dict[str, Any], size: int) -> Rows:
        """The next rows, at most ``size``; [] at the end. Raises StoreBusy once another thread has closed it."""
        with self._lock:
            if self._connection is None:
                raise StoreBusy(f"{self._path}: closed by another thread just now; the same call works again")
            if self._cursor is None:
                self._cursor = self._connection.execute(sql, params)
            return self._cursor.fetchmany(size)

    def close(self) -> None:
        """Close the connection, between two batches."""
        with self._lock:
            connection, self._connection, self._cursor = self._connection, None, None
            if connection is not None:
                connection.close()


class LongReads:
    """The long reads of one database that are going on."""

    def __init__(self, path: Path, *, most: int = MOST, wait_s: float = WAIT_S) -> None:
        self._path = path
        self._most = most
        self._wait_s = wait_s
        self._free = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self._going_on: set[LongRead] = set()

    @contextmanager
    def begun(self, connect: Callable[[], sqlite3.Connection]) -> Iterator[LongRead]:
        """A long read over the connection that ``connect`` makes. Raises StoreBusy when there are too many for too long."""
        if not self._free.acquire(timeout=self._wait_s):
            raise StoreBusy(
                f"{self._path}: {self._most} long reads are going on; the same call works after one of them"
            )
        try:
            with self._lock:  # who closes them all waits until this one is among them
                read = LongRead(self._path, connect())
                self._going_on.add(read)
            try:
                yield read
            finally:
                self._going_on.discard(read)
                read.close()
        finally:
            self._free.release()

    def close(self, *, mine: bool) -> None:
        """End all of them. ``mine``: false in a process that was forked, where they belong to the parent."""
        with self._lock:
            going_on, self._going_on = self._going_on, set()
        for read in going_on if mine else ():
            read.close()
