"""
Envelopes that move once their turn is over: large ones are deflated, huge ones come into their rows, cold ones are packed.

What a row says stays what it was; only where it lies changes, one fact at a time. When that is due decide ``deflating`` and
``upkeep``; how envelopes are stored is ``packing``'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .blocks import UNREADABLE, Blocks, grouped, packed
from .blocks import Stored as Packed
from .db.connection import Database
from .db.lists import marks, padded
from .db.meta import Meta
from .text.packing import BLOCK_BYTES, LARGE_BYTES, Reference, deflated, plain

#: A row but for its envelope; STORED_COLUMNS: as it is stored, with the number of its session.
COLUMNS = (
    "store_id, conversation_id, {}, seq, pos, role, tool_name, answers, digest, tokens, chars, said_at, stored_at, "
    "source, flags, revises"
)
STORED_COLUMNS = COLUMNS.format("session_key")
#: Rows whose envelopes lie aside, with what stands in them; and what puts one into its row.
_ASIDE = f"length(envelope) <= {Reference.MOST_BYTES} AND substr(envelope, 1, 1) = x'03'"
LAID_ASIDE = f"SELECT store_id, envelope FROM messages WHERE {_ASIDE}"
CAME_HOME = "UPDATE messages SET envelope = ? WHERE store_id = ?"
_PACKED = "packed_to"  # the last row that was looked at for packing
_STEP_BYTES, _STEP_ROWS = 4 * BLOCK_BYTES, 1000


class ColdRows:
    """The rows of one database whose envelopes may move."""

    def __init__(self, db: Database, blocks: Blocks) -> None:
        self._db = db
        self._blocks = blocks

    # -- packing ------------------------------------------------------------------------------------
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

    # -- large ones ---------------------------------------------------------------------------------
    def large_alone(self, *, after: int, upto: int) -> list[int]:
        """Envelopes that lie alone and are so large that they always will, or aside, within a range of addresses."""
        sql = (
            "SELECT store_id FROM messages WHERE store_id > ? AND store_id <= ? AND "
            f"(length(envelope) > ? OR ({_ASIDE})) ORDER BY store_id"
        )
        return [row[0] for row in self._db.query(sql, (after, upto, LARGE_BYTES))]

    def deflate(self, store_id: int) -> bool:
        """Store a large envelope in its smaller form, and one that lies aside in its row in any case.

        False: it has no smaller form, or somebody changed the row meanwhile. Raises StoreCorrupt when the file is not there.
        """
        row = self._db.query_one("SELECT envelope FROM messages WHERE store_id = ?", (store_id,))
        if row is None or not isinstance(row[0], bytes):
            return False
        reference = Reference.read(row[0])
        if reference is None:
            return self._exchanged(store_id, row[0], deflated(row[0]))
        now = at_home(self._blocks, store_id, row[0])
        done = now != row[0] and self._exchanged(store_id, row[0], now)
        self._blocks.aside.touch(reference)
        return done

    def _exchanged(self, store_id: int, before: bytes, after: bytes | None) -> bool:
        if after is None:
            return False
        with self._db.transaction():
            sql = "UPDATE messages SET envelope = ? WHERE store_id = ? AND envelope = ?"
            self._db.execute(sql, (after, store_id, before))
            return bool(self._db.fetch("SELECT changes()")[0][0])

    def sweep_aside(self, *, older_s: float) -> int:
        """Remove files whose envelopes have come into their rows, or never got one; how many there were.

        As the writer: a turn looks for the file that its row will name once it may write itself, and does without if it is gone.
        """
        old = self._blocks.aside.old(older_s)
        if not old:
            return 0
        with self._db.transaction():
            return self._blocks.aside.remove([path for path in old if _referring(self._db.fetch, path.name) is None])

    def left_aside(self, *, older_s: float) -> list[int]:
        """Rows whose files have been there for so long: most are waiting for their turn, some were not there when it came."""
        found = (_referring(self._db.query, path.name) for path in self._blocks.aside.old(older_s))
        return sorted(store_id for store_id in found if store_id is not None)


def _referring(read: Callable[..., list[tuple[Any, ...]]], name: str) -> int | None:
    """The row that refers to a file."""
    sql = "SELECT store_id, envelope FROM messages WHERE conversation_id = ? AND seq = ?"
    for store_id, stored in read(sql, Reference.row(name) or (0, 0)):
        reference = Reference.read(stored)
        if reference is not None and reference.name == name:
            return int(store_id)
    return None


def at_home(blocks: Blocks, store_id: int, stored: bytes) -> bytes:
    """What goes into a row whose envelope lies aside. Raises StoreCorrupt when the file is not there."""
    whole = plain(blocks.legible(store_id, stored).encode("utf-8"))
    return deflated(whole) or whole
