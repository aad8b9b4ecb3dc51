"""
Transcript GC (opt-in): the stored copy of large tool results that a file holds and a summary covers shrinks to a placeholder.

Composes store, index, nodes and payload files. The row keeps its address, its digest and its place; the file keeps the text, so
that it comes back byte for byte; what goes is the description in the row and the words in the search index. Pinned rows stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..dag import SummaryDag
from ..records import Row
from ..search.documents import stored_index_row
from ..search.index import MessageIndex
from ..storage.connection import Database
from ..storage.payloads import Payloads
from ..store import MessageStore
from ..text import blobs, content

_ROWS: Final = 50  # a step: what is read of files at once, and how long the database is written


class Collector:
    """One per process and database; holds nothing between calls."""

    def __init__(
        self, db: Database, store: MessageStore, index: MessageIndex, dag: SummaryDag, payloads: Payloads
    ) -> None:
        self._db = db
        self._store = store
        self._index = index
        self._dag = dag
        self._payloads = payloads

    def collect(self, *, after: int = 0) -> tuple[int, int]:
        """Shrink some rows behind a store id: (how many, the last one that was looked at; 0 when there are no more)."""
        ids = self._store.collectable(after=after, limit=_ROWS)
        summarised = self._dag.summarised(ids) - {*self._index.waiting.ids()}  # not indexed yet: nothing to exchange
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
        before = stored_index_row(self._payloads.view(row), "")
        with self._db.transaction():
            if not self._store.shrink(row, text):
                return False  # another process was faster
            if self._index.holds(before):  # a rebuild without its file has indexed the placeholder already
                self._index.exchange(before, before._replace(text=blobs.names(text)))
        return True


def _bare(text: str) -> str:
    """A large text's placeholder without the description behind it."""
    found: Sequence[tuple[int, int, blobs.Ref]] = [each for each in blobs.refs(text) if each[0] == 0][:1]
    return str(found[0][2]) if found and found[0][2].kind == blobs.TEXT else text
