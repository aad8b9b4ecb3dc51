"""
Envelopes that move once they are cold: many are packed into one block.

What a row says stays what it was; only where it lies changes, one fact at a time. When that is due decides ``upkeep``; how
envelopes are stored is ``packing``'s business.
"""

from __future__ import annotations

from collections.abc import Sequence

from .blocks import UNREADABLE, Blocks, grouped, packed
from .blocks import Stored as Packed
from .db.connection import Database
from .db.lists import marks, padded
from .db.meta import Meta
from .text.packing import BLOCK_BYTES

#: A row but for its envelope; STORED_COLUMNS: as it is stored, with the number of its session.
COLUMNS = (
    "store_id, conversation_id, {}, seq, pos, role, tool_name, answers, digest, tokens, chars, said_at, stored_at, "
    "source, flags, revises"
)
STORED_COLUMNS = COLUMNS.format("session_key")
_PACKED = "packed_to"  # the last row that was looked at for packing
_STEP_BYTES, _STEP_ROWS = 4 * BLOCK_BYTES, 1000


class ColdRows:
    """The rows of one database whose envelopes may move."""

    def __init__(self, db: Database, blocks: Blocks) -> None:
        self._db = db
        self._blocks = blocks

    def pack(self, *, hot: int, least_bytes: int = _STEP_BYTES) -> int:
        """Pack some of the oldest envelopes that lie alone, except those of the newest ``hot`` rows; how many were packed.

        0: there are too few of them yet. What a row says stays what it was; only where it lies changes.
        """
        meta = Meta(self._db)
        done = int(meta.value(_PACKED) or 0)
        window = self._window(done, hot)
        if len(window) < _STEP_ROWS and sum(len(envelope) for *_, envelope in window) < least_bytes:
            return 0
        alone = [
            (i, conversation, text) for i, conversation, stored, text in window if text and isinstance(stored, bytes)
        ]
        blocks = packed(grouped(alone))
        read = {store_id: stored for store_id, _, stored, _ in window}
        with self._db.transaction():
            now = self._db.fetch(
                "SELECT store_id, envelope FROM messages WHERE store_id > ? AND store_id <= ?", (done, window[-1][0])
            )
            if dict(now) != read or int(meta.value(_PACKED) or 0) != done:
                return 0  # another process packs, or an operator removes: the next call looks again
            for conversation, store_ids, data in blocks:
                self._move(store_ids, self._blocks.add(conversation, data))
            meta.note(_PACKED, window[-1][0])
        return sum(len(store_ids) for _, store_ids, _ in blocks)

    def _move(self, store_ids: Sequence[int], number: int) -> None:
        """Let rows point at a block. Taken out and put back: SQLite leaves the room empty where a row merely gets shorter."""
        wanted = padded(store_ids)
        which = f"store_id IN ({marks(len(wanted))})"
        rows = self._db.fetch(f"SELECT {STORED_COLUMNS} FROM messages WHERE {which}", wanted)
        self._db.execute("PRAGMA defer_foreign_keys=ON")
        self._db.execute(f"DELETE FROM messages WHERE {which}", wanted)
        self._db.executemany(
            f"INSERT INTO messages({STORED_COLUMNS}, envelope) VALUES ({'?,' * len(rows[0])}?)",
            [(*row, number) for row in rows],
        )

    def _window(self, done: int, hot: int) -> list[tuple[int, int, Packed, str]]:
        """The next rows to pack: (store id, conversation, what is stored, envelope), about ``_STEP_BYTES`` of text."""
        newest = self._db.query_one("SELECT max(store_id) FROM messages")
        last = int(newest[0] or 0) - hot if newest else 0
        sql = "SELECT store_id, conversation_id, envelope FROM messages WHERE store_id BETWEEN ? AND ? ORDER BY store_id LIMIT ?"
        window: list[tuple[int, int, Packed, str]] = []
        if last <= done:
            return window  # nearly always, in the worker
        size = 0
        for rows in self._db.iterate(sql, (done + 1, last, _STEP_ROWS), size=50):
            for store_id, conversation, stored in rows:
                try:
                    text = self._blocks.envelope(store_id, stored)
                except UNREADABLE:
                    text = ""  # the doctor tells of it; as it cannot be read it stays where it is
                window.append((store_id, conversation, stored, text))
                size += len(text)
                if size >= _STEP_BYTES:
                    return window
        return window
