"""
Reads beside the common reader: long ones, each with a connection of its own; readers of one thread; and spare ones.

A connection sees one moment as long as a statement of it is not read to its end; a long read on the connection of the short ones
would keep them all at the moment when it began. And whoever reads on it keeps all others waiting for it: an operator's command
that counts a million rows has a reader of its own, and where thirty chats read at once a few spare ones serve them, too.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

from ..errors import StoreBusy

#: At a time, by database and process: each has a cache of its own.
MOST: Final = 4
#: Whoever comes when there are so many waits so long for one of them to end.
WAIT_S: Final = 10.0
#: Beside the common reader, where that is taken.
SPARE: Final = 3

Rows = list[tuple[Any, ...]]
#: A connection; None where another thread has just closed the file. It is called under a lock that the closer waits for.
Connect = Callable[[], sqlite3.Connection | None]


class LongRead:
    """One statement and its connection. For one thread, but for ``close``."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = connection
        self._cursor: sqlite3.Cursor | None = None
        self.lock = threading.Lock()

    def rows(self, sql: str, params: Sequence[Any] | dict[str, Any], size: int) -> Rows:
        """The next rows, at most ``size``; [] at the end. Raises StoreBusy once another thread has closed it."""
        with self.lock:
            if self._connection is None:
                raise StoreBusy(f"{self._path}: closed by another thread just now; the same call works again")
            if self._cursor is None:
                self._cursor = self._connection.execute(sql, params)
            return self._cursor.fetchmany(size)

    def close(self) -> None:
        """Close the connection, between two batches."""
        with self.lock:
            connection, self._connection, self._cursor = self._connection, None, None
            if connection is not None:
                connection.close()


class OwnReader:
    """A connection for the short reads of one thread, made again when another thread has closed it: each sees the last commit."""

    def __init__(self, connect: Connect, ready: Callable[[], object]) -> None:
        self._connect = connect
        self._ready = ready
        self._connection: sqlite3.Connection | None = None
        self.lock = threading.Lock()

    @property
    def is_free(self) -> bool:
        return not self.lock.locked()

    def read(self, sql: str, params: Sequence[Any] | dict[str, Any], fetch: Callable[[sqlite3.Cursor], Any]) -> Any:
        """Rows that ``fetch`` takes of a reading statement."""
        while True:
            with self.lock:
                if self._connection is None:
                    self._connection = self._connect()
                if self._connection is not None:
                    with closing(self._connection.execute(sql, params)) as cursor:
                        return fetch(cursor)
            self._ready()

    def close(self) -> None:
        """Close the connection, between two statements."""
        with self.lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()


class LongReads:
    """The long reads of one database that are going on, and the readers of single threads."""

    def __init__(self, path: Path, *, wait_s: float = WAIT_S) -> None:
        self.path = path
        self._wait_s = wait_s
        # No semaphore: Ctrl-C within its methods can leave the lock inside it locked for ever.
        self._free: SimpleQueue[int] = SimpleQueue()
        for n in range(MOST):
            self._free.put(n)
        self._lock = threading.Lock()
        self._going_on: set[LongRead] = set()
        self._own: set[OwnReader] = set()
        self._spare: deque[OwnReader] = deque()
        self._held: list[threading.Lock] = []

    @contextmanager
    def begun(self, connect: Connect, ready: Callable[[], object]) -> Iterator[LongRead]:
        """A long read over the connection that ``connect`` makes; ``ready`` opens the file again where another thread closed it.

        Raises StoreBusy when there are too many for too long.
        """
        try:
            place = self._free.get(timeout=self._wait_s)
        except Empty:
            raise StoreBusy(
                f"{self.path}: {MOST} long reads are going on; the same call works after one of them"
            ) from None
        try:
            while (read := self._added(connect)) is None:
                ready()
            try:
                yield read
            finally:
                self._going_on.discard(read)
                read.close()
        finally:
            self._free.put(place)

    def _added(self, connect: Connect) -> LongRead | None:
        with self._lock:  # who closes them all waits until this one is among them
            if (connection := connect()) is None:
                return None
            read = LongRead(self.path, connection)
            self._going_on.add(read)
            return read

    @contextmanager
    def own(self, connect: Connect, ready: Callable[[], object]) -> Iterator[OwnReader]:
        """A reader for this thread, over connections that ``connect`` makes."""
        reader = OwnReader(connect, ready)
        with self._lock:
            self._own.add(reader)
        try:
            yield reader
        finally:
            with self._lock:
                self._own.discard(reader)
            reader.close()

    def spare(self, connect: Connect, ready: Callable[[], object]) -> OwnReader:
        """One of a few readers that all threads share: a free one, where there is any."""
        with self._lock:
            for _ in range(len(self._spare)):
                if self._spare[0].is_free:
                    return self._spare[0]
                self._spare.rotate()
            if len(self._spare) < SPARE:
                self._spare.appendleft(OwnReader(connect, ready))
            else:
                self._spare.rotate()
            return self._spare[0]

    def hold(self, until: float) -> bool:
        """Keep every read at rest until ``let_go``; False where one was not done by this moment, and nothing is held."""
        if not self._lock.acquire(timeout=max(0.0, until - time.monotonic())):
            return False
        self._held = [self._lock]
        reads: tuple[LongRead | OwnReader, ...] = (*self._going_on, *self._own, *self._spare)
        for read in reads:
            if not read.lock.acquire(timeout=max(0.0, until - time.monotonic())):
                self.let_go()
                return False
            self._held.append(read.lock)
        return True

    def let_go(self) -> None:
        """Let the reads go on that ``hold`` stopped."""
        while self._held:
            self._held.pop().release()

    def close(self, *, mine: bool) -> None:
        """End all of them. ``mine``: false in a process that was forked, where they belong to the parent."""
        with self._lock:
            going_on, self._going_on = self._going_on, set()
            readers = [*self._own, *self._spare]
        if mine:
            for read in going_on:
                read.close()
            for reader in readers:
                reader.close()
