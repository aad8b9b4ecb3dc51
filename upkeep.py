"""
Upkeep: what makes a database smaller without changing what it says. Off the turn: in the worker, and when a session ends.

Composes indexing behind the turn, transcript GC, the packing of cold envelopes, the giving back of free pages, the writing anew
of small files and the folding back of the write-ahead log. What is interrupted is done next time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from .collect import Collector
from .db.connection import WORTH_LOG_BYTES, Database
from .store import MessageStore

#: The newest rows are read at every compaction: they stay as they are until their session ends.
HOT_ROWS: Final = 200
_ENDING_S = 1.0  # a session's end holds up whoever ends it: so long for indexing, and for the rest
_WORKER_S = 5.0
_WORTH_BYTES = 2000


class Upkeep:
    """One per process and database."""

    def __init__(
        self,
        db: Database,
        store: MessageStore,
        collector: Collector | None,
        *,
        index_waiting: Callable[..., object],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._db = db
        self._store = store
        self._collector = collector  # None: transcript GC is off
        self._index_waiting = index_waiting
        self._looked_at = 0  # up to here the collector has looked in this process
        self._monotonic = monotonic

    def between_turns(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """In the worker, after a turn. Raises StoreError."""
        end = self._monotonic() + _WORKER_S
        self._index_waiting(seconds=_WORKER_S)
        self._collect(end)
        while not cancelled() and self._monotonic() < end and self._store.cold.pack(hot=HOT_ROWS):
            pass
        self._db.optimise(log_bytes=WORTH_LOG_BYTES)

    def at_end(self) -> None:
        """When a session ends: the newest rows are cold now too. Raises StoreError."""
        if not self._db.is_open:
            return  # nothing was stored in this process
        self._index_waiting(seconds=_ENDING_S)
        end = self._monotonic() + _ENDING_S
        self._collect(end)
        moved = False
        while self._monotonic() < end and self._store.cold.pack(hot=0, least_bytes=_WORTH_BYTES):
            moved = True
        self._store.fold_index()
        if moved:
            self._db.tighten()
        self._db.optimise(log_bytes=0)  # the file alone is what a user sees, copies and counts

    def _collect(self, end: float) -> None:
        """A round of transcript GC, from where the last one stopped for want of time."""
        while self._collector is not None and self._monotonic() < end:
            _, self._looked_at = self._collector.collect(after=self._looked_at)
            if not self._looked_at:
                return
