"""
Where envelopes are: in their rows, or packed together once they are cold.

Owns table ``blocks``. A message whose envelope is in a block has the block's number in the place of its envelope. Blocks never
change: they are written in the transaction that lets their rows point at them, hold messages of one conversation, and go with it.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from .db.connection import Database
from .errors import StoreCorrupt
from .text.packing import BLOCK_BYTES, LARGE_BYTES, Block, pack_block, unpack

_CACHED_BYTES = 4_000_000
#: What ``Blocks.envelope`` and reading what it gives may raise.
UNREADABLE: Final = (zlib.error, ValueError, KeyError, IndexError, TypeError)
_INSERT = "INSERT INTO blocks(conversation_id, data) VALUES (?,?)"

Stored = bytes | int
"""What stands in a row: an envelope by itself, or the number of its block."""


class Blocks:
    """The blocks of one database, and the last ones that were read."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._of: object = None  # the file that the cache is of: another one gives the same numbers to other blocks
        self._cache: OrderedDict[int, Block] = OrderedDict()
        self._bytes = 0

    # -- reading ------------------------------------------------------------------------------------
    def envelope(self, store_id: int, stored: Stored) -> str:
        """The envelope of a message. Raises zlib.error, ValueError or KeyError when it is not there or no envelope."""
        if isinstance(stored, bytes):
            return unpack(stored)
        if not isinstance(stored, int):
            raise ValueError(f"an envelope of type {type(stored).__name__}")
        known = self._block(stored)
        if store_id not in known:
            raise KeyError(f"block {stored} does not hold it")
        return known[store_id].decode("utf-8")

    def legible(self, store_id: int, stored: Stored) -> str:
        """The same. Raises StoreCorrupt when it is not there or no envelope."""
        try:
            return self.envelope(store_id, stored)
        except UNREADABLE as exc:
            raise unreadable(store_id, exc) from exc

    def _block(self, number: int) -> Mapping[int, bytes]:
        with self._lock:
            if self._of != self._db.identity:
                self._of, self._bytes = self._db.identity, 0
                self._cache.clear()
            if number in self._cache:
                self._cache.move_to_end(number)
                return self._cache[number]
        row = self._db.query_one("SELECT data FROM blocks WHERE block_id = ?", (number,))
        if row is None:
            return {}
        known = Block(row[0])
        with self._lock:
            if number not in self._cache:
                self._cache[number] = known
                self._bytes += known.size
            while len(self._cache) > 1 and self._bytes > _CACHED_BYTES:
                self._bytes -= self._cache.popitem(last=False)[1].size
        return known

    # -- writing ------------------------------------------------------------------------------------
    def add(self, conversation_id: int, data: bytes) -> int:
        """Keep a block, inside the caller's transaction; its number."""
        return self._db.execute(_INSERT, (conversation_id, data))


def unreadable(store_id: int, exc: Exception) -> StoreCorrupt:
    """What is raised for a row whose envelope cannot be read."""
    return StoreCorrupt(f"the content of msg_{store_id} cannot be read ({type(exc).__name__}: {exc})")


def grouped(rows: Sequence[tuple[int, int, str]]) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    """Rows (store id, conversation, envelope) as they go into blocks: (conversation, its envelopes), none too large."""
    by_conversation: dict[int, list[tuple[int, str]]] = {}
    for store_id, conversation, envelope in rows:
        if len(envelope) <= LARGE_BYTES:
            by_conversation.setdefault(conversation, []).append((store_id, envelope))
    for conversation, envelopes in by_conversation.items():
        for group in _parts(envelopes):
            if len(group) > 1:  # one by itself gains nothing
                yield conversation, group


def _parts(envelopes: Sequence[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Envelopes in parts of about BLOCK_BYTES, all nearly equal."""
    total = sum(len(envelope) for _, envelope in envelopes)
    count = max(1, round(total / BLOCK_BYTES))
    part: list[tuple[int, str]] = []
    used = done = 0
    for each in envelopes:
        part.append(each)
        used += len(each[1])
        if used >= total * (done + 1) / count:
            yield part
            part, done = [], done + 1
    if part:
        yield part


def packed(groups: Iterable[tuple[int, list[tuple[int, str]]]]) -> list[tuple[int, tuple[int, ...], bytes]]:
    """(conversation, store ids, block) of every group that is smaller packed; what was packed is unpacked to be sure."""
    out = []
    for conversation, group in groups:
        data = pack_block(group)
        if {n: body.decode("utf-8") for n, body in Block(data).items()} == dict(group):
            out.append((conversation, tuple(n for n, _ in group), data))
    return out
