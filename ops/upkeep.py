"""
Upkeep of a database: a smaller file with the same content. Runs off the turn: in the worker, and when a session ends.

Composes indexing behind the turn, transcript GC, the packing of older stored JSON, the giving back of free pages, the writing
anew of small files and the folding back of the write-ahead log. What is interrupted is done next time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from ..dag import SummaryDag
from ..records import Row
from ..search.documents import stored_index_row
from ..search.index import MessageIndex
from ..storage import seals
from ..storage.connection import WORTH_LOG_BYTES, Database
from ..storage.files import Progress, silent
from ..storage.meta import Health, Meta
from ..storage.payloads import Payloads
from ..store import MessageStore
from ..text import blobs, content
from .survey import Survey

if TYPE_CHECKING:
    from ..recall.access import Access

Batch = TypeVar("Batch")

#: The newest rows are read at every compaction: they stay as they are until their session ends.
NEWEST_ROWS: Final = 200
_ENDING_S = 1.0  # limit at a session's end, for indexing and for the rest: the host waits for it
_WORKER_S = 5.0
_WORTH_BYTES = 2000
_ROWS: Final = 50  # a step of GC: what is read of files at once, and how long the database is written
#: Between two conversations that the worker compares with their seals.
SAMPLE_S: Final = 600.0
_SAMPLED: Final = "sampled"  # in ``meta``: the last one


class Upkeep:
    """Upkeep of one database, step by step. One per process and database."""

    def __init__(
        self,
        db: Database,
        store: MessageStore,
        index: MessageIndex,
        dag: SummaryDag,
        payloads: Payloads,
        health: Health,
        *,
        index_waiting: Callable[..., object],
        collects: bool,
    ) -> None:
        """``collects``: transcript GC is on."""
        self._db = db
        self._store = store
        self._index = index
        self._dag = dag
        self._payloads = payloads
        self._health = health
        self._index_waiting = index_waiting
        self._collects = collects
        self._sample_at = 0.0
        self._looked_at = 0  # up to here GC has looked in this process
        self._monotonic = time.monotonic

    def between_turns(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Upkeep in the worker, after a turn. Raises StoreError."""
        end = self._monotonic() + _WORKER_S
        self._index_waiting(seconds=_WORKER_S)
        self._collect(end)
        while not cancelled() and self._monotonic() < end and self._store.packer.pack(newest=NEWEST_ROWS):
            pass
        self._db.optimise(log_bytes=WORTH_LOG_BYTES)
        if self._monotonic() >= self._sample_at:
            self._sample_at = self._monotonic() + SAMPLE_S
            self._sample()

    def _sample(self) -> None:
        """Compare the next conversation with its seals: in some days all of them were, without anybody asking."""
        meta = Meta(self._db)
        last, known = meta.value(_SAMPLED), seals.conversations(self._db)
        if not known:
            return
        following = next((each for each in known if isinstance(last, int) and each > last), known[0])
        found = seals.broken(self._db, following)
        meta.note(_SAMPLED, following)
        remedy = "`hermes lcm doctor deep` says what was changed, and what to do"
        self._health.tell(f"silent damage {following}", "; ".join(found), remedy=remedy)

    def session_ended(self, conversation_id: int) -> None:
        """A session ends while others go on: its own rows are packed, everything else is the worker's. Raises StoreError."""
        end = self._monotonic() + _ENDING_S
        while self._monotonic() < end and self._store.packer.pack_own(conversation_id, least_bytes=_WORTH_BYTES):
            pass

    def at_end(self) -> None:
        """Upkeep at the end of the last session, or of the process: the newest rows are packed too. Raises StoreError."""
        if not self._db.is_open or self._db.only_read:
            return  # nothing was stored in this process
        self._index_waiting(seconds=_ENDING_S)
        end = self._monotonic() + _ENDING_S
        self._collect(end)
        moved = False
        while self._monotonic() < end and self._store.packer.pack(newest=0, least_bytes=_WORTH_BYTES):
            moved = True
        self._store.fold_index()
        if moved:
            self._db.tighten()
        self._db.optimise(log_bytes=0)  # the file alone is what a user sees, copies and counts

    def _collect(self, end: float) -> None:
        """A round of transcript GC, from where the last one stopped for want of time."""
        while self._collects and self._monotonic() < end:
            _, self._looked_at = self.collect(after=self._looked_at)
            if not self._looked_at:
                return

    def collect(self, *, after: int = 0) -> tuple[int, int]:
        """Transcript GC: some large tool results shrink that are summarised and stand behind a store id.

        (how many, the last one that was looked at; 0 when there are no more).
        """
        ids = self._store.collectable(after=after, limit=_ROWS)
        summarised = self._dag.summarised(ids) - {
            *self._index.documents.waiting()
        }  # not indexed yet: nothing to exchange
        rows, _ = self._store.legible([n for n in ids if n in summarised])  # a damaged one is never collected
        count = sum(self._shrink(row) for row in rows)
        return count, ids[-1] if len(ids) == _ROWS else 0

    def _shrink(self, row: Row) -> bool:
        """One row, unless its files cannot be read: then it stays as it is, and health tells of them."""
        stored_json = content.mapped(row.stored_json, _bare)
        text = content.encode(stored_json)[0]
        refs = [ref for _, _, ref in blobs.refs(text)]
        if not any(ref.kind == blobs.TEXT for ref in refs) or any(self._payloads.text(ref) is None for ref in refs):
            return False
        before = stored_index_row(self._payloads.view(row))
        with self._db.transaction():
            if not self._store.shrink(row, text):
                return False  # another process was faster
            if self._index.documents.holds(before):  # a rebuild without its file has indexed the placeholder already
                self._index.documents.exchange(before, before._replace(text=blobs.names(text)))
        return True


def reindex(deps: Access, progress: Progress = silent) -> None:
    """Build both search indexes anew from what is stored; where that was killed it goes on."""
    total = Survey(deps.db).total("messages", "store_id")
    last, unread = deps.index.begun()
    progress("indexing messages", last, total)
    rows = deps.store.index_rows(after=last, unread=unread)
    deps.index.rebuild(_watched(rows, "indexing messages", total, progress, last), go_on=bool(last))
    progress("indexing summaries", 0, 0)
    deps.node_index.rebuild(deps.dag.index_rows())
    deps.health.resolved("search index")


def _watched(
    batches: Iterable[list[Batch]], what: str, total: int, progress: Progress, done: int
) -> Iterator[list[Batch]]:
    """Batches, handed on unchanged; progress is told after each."""
    for batch in batches:
        yield batch
        done += len(batch)
        progress(what, min(done, total), total)


def _bare(text: str) -> str:
    """A large text's placeholder without the description behind it."""
    found: Sequence[tuple[int, int, blobs.Ref]] = [each for each in blobs.refs(text) if each[0] == 0][:1]
    return str(found[0][2]) if found and found[0][2].kind == blobs.TEXT else text
