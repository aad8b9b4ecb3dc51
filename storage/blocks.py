"""
Stored JSON of messages: one by one in its row while it is young, many together in a block once it is old.

Owns table ``blocks``. A block holds the stored JSON of messages of one conversation that followed each other; each of their
rows has the block's number in its place. Blocks never change: they are written in the transaction that lets their rows
point at them, and go with their conversation. When packing is due decides ``upkeep``.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ..errors import StoreCorrupt
from .connection import Database, marks, padded
from .meta import Meta
from .packing import BLOCK_BYTES, LARGE_BYTES, Stored, pack, pack_block, read_json, unpack_block

_CACHED_BYTES = 4_000_000
#: What ``read_json`` and reading what it gives may raise.
UNREADABLE: Final = (zlib.error, ValueError, KeyError, IndexError, TypeError)
_INSERT = "INSERT INTO blocks(conversation_id, data) VALUES (?,?)"


class Blocks:
    """The blocks of one database, and the last ones that were read."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        #: The file that the cache is of, and how often it was undone: both give the same numbers to other blocks.
        self._of: tuple[object, int] = (None, 0)
        self._cache: OrderedDict[int, dict[int, bytes]] = OrderedDict()
        self._bytes = 0

    # -- reading ------------------------------------------------------------------------------------
    def legible(self, store_id: int, stored: Stored) -> str:
        """The stored JSON of a message. Raises StoreCorrupt where it cannot be read."""
        try:
            return read_json(store_id, stored, self.block)
        except UNREADABLE as exc:
            raise unreadable(store_id, exc) from exc

    def block(self, number: int) -> Mapping[int, bytes]:
        """Stored JSON as UTF-8 by store id; of an unknown block nothing."""
        with self._lock:
            if self._of != (now := (self._db.identity, self._db.rollbacks)):
                self._of, self._bytes = now, 0
                self._cache.clear()
            if number in self._cache:
                self._cache.move_to_end(number)
                return self._cache[number]
        row = self._db.query_one("SELECT data FROM blocks WHERE block_id = ?", (number,))
        if row is None:
            return {}
        known = unpack_block(row[0])
        with self._lock:
            if number not in self._cache:
                self._cache[number] = known
                self._bytes += sum(map(len, known.values()))
            while len(self._cache) > 1 and self._bytes > _CACHED_BYTES:
                self._bytes -= sum(map(len, self._cache.popitem(last=False)[1].values()))
        return known

    # -- writing ------------------------------------------------------------------------------------
    def add(self, conversation_id: int, data: bytes) -> int:
        """Keep a block, inside the caller's transaction; its number."""
        return self._db.execute(_INSERT, (conversation_id, data))


def unreadable(store_id: int, exc: Exception) -> StoreCorrupt:
    """The error for a row whose stored JSON cannot be read."""
    return StoreCorrupt(f"the content of msg_{store_id} cannot be read ({exc})")


def grouped(rows: Sequence[tuple[int, int, str]]) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    """Rows (store id, conversation, stored JSON) as they go into blocks: (conversation, its stored JSON), none too large."""
    by_conversation: dict[int, list[tuple[int, str]]] = {}
    for store_id, conversation, stored_json in rows:
        if len(stored_json) <= LARGE_BYTES:
            by_conversation.setdefault(conversation, []).append((store_id, stored_json))
    for conversation, json_texts in by_conversation.items():
        for group in _parts(json_texts):
            if len(group) > 1:  # one by itself gains nothing
                yield conversation, group


def _parts(json_texts: Sequence[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Stored JSON in parts of about BLOCK_BYTES, all nearly equal."""
    total = sum(len(stored_json) for _, stored_json in json_texts)
    count = max(1, round(total / BLOCK_BYTES))
    part: list[tuple[int, str]] = []
    used = done = 0
    for each in json_texts:
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
        if {n: body.decode("utf-8") for n, body in unpack_block(data).items()} == dict(group):
            out.append((conversation, tuple(n for n, _ in group), data))
    return out


# -- packing ----------------------------------------------------------------------------------------------
#: A row but for its stored JSON; STORED_COLUMNS: as it is stored, with the number of its session.
COLUMNS = (
    "store_id, conversation_id, {}, seq, pos, role, tool_name, answers, digest, tokens, chars, said_at, stored_at, "
    "source, flags, revises"
)
STORED_COLUMNS = COLUMNS.format("session_key")
_PACKED = "packed_to"  # the last row that was looked at for packing
_STEP_BYTES, _STEP_ROWS = 4 * BLOCK_BYTES, 1000
_ROWS_AT_ONCE = 8


#: A row as it is packed: store id, conversation, the column ``envelope``, its stored JSON ("" where it cannot be read).
_Lying = tuple[int, int, Stored, str]
_LYING = "store_id, conversation_id, envelope"


class Packer:
    """Packing of one database: stored JSON of rows moves into blocks."""

    def __init__(self, db: Database, blocks: Blocks) -> None:
        self._db = db
        self._blocks = blocks

    def pack(self, *, newest: int, least_bytes: int = _STEP_BYTES) -> int:
        """Pack some of the oldest stored JSON that lies alone, except those of the ``newest`` rows; how many were packed.

        0: there are too few of them yet. What a row says stays what it was; only where it lies changes.
        """
        meta = Meta(self._db)
        done = int(meta.value(_PACKED) or 0)
        window = self._window(done, newest)
        if len(window) < _STEP_ROWS and sum(len(stored_json) for *_, stored_json in window) < least_bytes:
            return 0
        count = self._keep(window)
        if count is None:
            return 0  # another process packs, or an operator removes: the next call looks again
        with self._db.transaction():
            span = "SELECT count(*) FROM messages WHERE store_id > ? AND store_id <= ?"
            if self._db.fetch(span, (done, window[-1][0])) != [(len(window),)] or int(meta.value(_PACKED) or 0) != done:
                return 0
            meta.note(_PACKED, window[-1][0])
        return count

    def pack_own(self, conversation_id: int, *, least_bytes: int) -> int:
        """Pack some stored JSON of one conversation that lies alone, however new; how many messages were packed."""
        lonely = "conversation_id = ? AND store_id > ? AND typeof(envelope) = 'blob'"
        which = (conversation_id, int(Meta(self._db).value(_PACKED) or 0))
        window = self._read(f"SELECT {_LYING} FROM messages WHERE {lonely} ORDER BY seq LIMIT ?", (*which, _STEP_ROWS))
        if sum(len(stored_json) for *_, stored_json in window) < least_bytes:
            return 0
        return self._keep(window) or 0

    def exchange(self, stored_json: Mapping[int, str]) -> None:
        """Other stored JSON for rows, in the caller's transaction: in a new block with its neighbours where it lay in a block."""
        ids = padded(stored_json)
        lies = self._db.fetch(f"SELECT store_id, envelope FROM messages WHERE store_id IN ({marks(len(ids))})", ids)
        alone = [(pack(stored_json[n]), n) for n, where in lies if not isinstance(where, int)]
        self._db.executemany("UPDATE messages SET envelope = ? WHERE store_id = ?", alone)
        for number in sorted({where for _, where in lies if isinstance(where, int)}):
            self._write_anew(number, {n: stored_json[n] for n, where in lies if where == number})

    def _write_anew(self, number: int, changed: Mapping[int, str]) -> None:
        """A block with other stored JSON for some of its rows; of a damaged one nothing is left but that."""
        texts = dict(changed)
        with suppress(*UNREADABLE):
            # It knows its rows: to ask who points at it would be to read all messages.
            ids = padded(self._blocks.block(number))
            pointing = f"store_id IN ({marks(len(ids))}) AND envelope = ? AND typeof(envelope) = 'integer'"
            rows = self._db.fetch(f"SELECT store_id FROM messages WHERE {pointing}", (*ids, number))
            for (n,) in rows:
                with suppress(UnicodeDecodeError):  # of one of them: its neighbours are read
                    texts.setdefault(n, self._blocks.block(number)[n].decode("utf-8"))
        conversation = self._db.fetch("SELECT conversation_id FROM messages WHERE store_id = ?", (min(changed),))[0][0]
        self._db.execute("DELETE FROM blocks WHERE block_id = ?", (number,))
        for _, store_ids, data in packed(grouped([(n, conversation, texts[n]) for n in sorted(texts)])):
            self._move(self._rows(store_ids), self._blocks.add(conversation, data))
            for n in store_ids:
                del texts[n]
        self._db.executemany(
            "UPDATE messages SET envelope = ? WHERE store_id = ?", [(pack(texts[n]), n) for n in texts]
        )

    def _keep(self, window: Sequence[_Lying]) -> int | None:
        """Pack rows, each block in a transaction of its own: nobody else writes meanwhile. None where one is not what it was."""
        was, count = {store_id: stored for store_id, _, stored, _ in window}, 0
        for conversation, store_ids, data in _blocks_of(window):
            with self._db.transaction():
                rows = self._rows(store_ids)
                if {row[0]: row[-1] for row in rows} != {store_id: was[store_id] for store_id in store_ids}:
                    return None
                self._move(rows, self._blocks.add(conversation, data))
            count += len(store_ids)
        return count

    def _rows(self, store_ids: Sequence[int]) -> list[tuple[Any, ...]]:
        """``STORED_COLUMNS`` and ``envelope`` of rows."""
        ids = padded(store_ids)
        return self._db.fetch(
            f"SELECT {STORED_COLUMNS}, envelope FROM messages WHERE store_id IN ({marks(len(ids))})", ids
        )

    def _move(self, rows: Sequence[tuple[Any, ...]], number: int) -> None:
        """Let rows point at a block. Taken out and put back: SQLite leaves the room empty where a row merely gets shorter.

        Some at once: after each statement this thread waits for the interpreter, while others wait to write.
        """
        ids = padded([row[0] for row in rows])
        self._db.execute("PRAGMA defer_foreign_keys=ON")
        self._db.execute(f"DELETE FROM messages WHERE store_id IN ({marks(len(ids))})", ids)
        for at in range(0, len(rows), _ROWS_AT_ONCE):
            some = [(*row[:-1], number) for row in rows[at : at + _ROWS_AT_ONCE]]
            self._db.execute(
                f"INSERT INTO messages({STORED_COLUMNS}, envelope) VALUES "
                + ",".join([f"({marks(len(some[0]))})"] * len(some)),
                [value for row in some for value in row],
            )

    def _window(self, done: int, newest: int) -> list[_Lying]:
        """The next rows to pack: (store id, conversation, what is stored, stored JSON), about ``_STEP_BYTES`` of text."""
        row = self._db.query_one("SELECT max(store_id) FROM messages")
        last = int(row[0] or 0) - newest if row else 0
        if last <= done:
            return []  # nearly always, in the worker
        sql = f"SELECT {_LYING} FROM messages WHERE store_id BETWEEN ? AND ? ORDER BY store_id LIMIT ?"
        return self._read(sql, (done + 1, last, _STEP_ROWS))

    def _read(self, sql: str, params: Sequence[int]) -> list[_Lying]:
        window: list[_Lying] = []
        size = 0
        for rows in self._db.iterate(sql, params, size=50):
            for store_id, conversation, stored in rows:
                try:
                    text = read_json(store_id, stored, self._blocks.block)
                except UNREADABLE:
                    text = ""  # the doctor tells of it; as it cannot be read it stays where it is
                window.append((store_id, conversation, stored, text))
                size += len(text)
                if size >= _STEP_BYTES:
                    return window
        return window


def _blocks_of(window: Sequence[_Lying]) -> list[tuple[int, Sequence[int], bytes]]:
    """Blocks of those messages of a window whose stored JSON lies alone."""
    alone = [(i, conversation, text) for i, conversation, stored, text in window if text and isinstance(stored, bytes)]
    return list(packed(grouped(alone)))
