"""
Documents of the search index: what it gets of a message, and which messages it gets later.

Pure but for ``Waiting``, which keeps the list of messages that are not indexed yet as a fact of the database. Large ones are
stored in their turn and indexed behind it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final, NamedTuple, TypeVar

from ..errors import StoreCorrupt
from ..records import Flag, Message, Row, ToolCall
from ..storage.connection import Database
from ..storage.meta import Meta
from ..text import markers
from . import json_text, query
from .query import MAX_CHUNKS

T = TypeVar("T")

CONTEXT_CHARS = 150
CONTEXT_BELOW = 200  # longer messages speak for themselves; their context would only make the index larger

_WAITING = "index_waiting"
_LIST = "SELECT value FROM meta WHERE key = ?"


class IndexRow(NamedTuple):
    """A message to index; ``extra`` renders its tool calls, ``previous_tail`` is the end of the message before it."""

    store_id: int
    conversation_id: int
    text: str
    extra: str = ""
    previous_tail: str = ""


def ending(role: str, text: str) -> str:
    """What a message lends to the index entry of the next one: its end, without recalled memory."""
    said = markers.unrecalled(role, text)
    return said[-CONTEXT_CHARS:] if said is text else said.rstrip()[-CONTEXT_CHARS:]


def index_row(store_id: int, conversation_id: int, message: Message, previous_tail: str) -> IndexRow:
    """What the search index gets of a message."""
    return _index_row(
        store_id, conversation_id, markers.unrecalled(message.role, message.text), message.calls, message.tool_name,
        message.flags, previous_tail,
    )  # fmt: skip


def stored_index_row(row: Row, previous_tail: str) -> IndexRow:
    """The same from a stored row, for rebuilding the index."""
    head = row.head
    return _index_row(
        head.store_id, head.conversation_id, markers.unrecalled(head.role, row.text), row.calls, head.tool_name,
        head.flags, previous_tail,
    )  # fmt: skip


def _index_row(
    store_id: int,
    conversation_id: int,
    text: str,
    calls: Sequence[ToolCall],
    tool_name: str | None,
    flags: int,
    tail: str,
) -> IndexRow:
    if flags & Flag.OWN_TOOL:  # answers of our own tools would only find themselves
        return IndexRow(store_id, conversation_id, "", tool_name or "")
    extra = " ".join(f"{call.name} {call.arguments}" for call in calls)
    if tool_name:
        extra = f"{tool_name} {extra}"
    return IndexRow(store_id, conversation_id, text, extra, tail)


def postings(rows: Iterable[IndexRow]) -> list[tuple[int, str, str]]:
    """(number, text, context) of the index rows, by number: FTS5 writes out what it has gathered whenever one is smaller."""
    return sorted(_pieces(rows), key=itemgetter(0))


def _pieces(rows: Iterable[IndexRow]) -> Iterator[tuple[int, str, str]]:
    index_text, chunks = query.index_text, query.chunks
    for store_id, _, text, extra, tail in rows:
        full = f"{text}\n{extra}" if text and extra else text or extra
        escaped = json_text.json_begins(full)
        if len(full) < CONTEXT_BELOW:
            yield (
                chunk_id(store_id, 0),
                index_text(_read(full, escaped)),
                index_text(tail[-CONTEXT_CHARS:]) if tail else "",
            )
        else:
            for number, (at, piece) in enumerate(chunks(full)):
                yield chunk_id(store_id, number), index_text(_read(piece, max(0, escaped - at))), ""


def _read(piece: str, escaped: int) -> str:
    """A piece of a text as it reads: without the escapes of the JSON that begins at ``escaped``."""
    return piece if escaped >= len(piece) else piece[:escaped] + json_text.unescaped(piece[escaped:])


class Waiting:
    """Messages that are stored and not indexed yet."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._meta = Meta(db)

    def ids(self) -> list[int]:
        """Their store ids."""
        return _ids(self._db.query(_LIST, (_WAITING,)))

    def count(self) -> int:
        """How many, inside the caller's transaction."""
        return len(self._now())

    def add(self, store_ids: Sequence[int]) -> None:
        """These too, inside the caller's transaction."""
        if store_ids:
            self._meta.note(_WAITING, sorted({*self._now(), *store_ids}))

    def take(self, store_ids: Sequence[int] | None) -> set[int]:
        """Those of them (None: all) that still wait; they do no longer. Inside the caller's transaction."""
        waiting = set(self._now())
        taken = waiting if store_ids is None else waiting & {*store_ids}
        if waiting - taken:
            self._meta.note(_WAITING, sorted(waiting - taken))
        elif waiting:
            self._meta.forget(_WAITING)
        return taken

    def work_off(self, read: Callable[[int], T | None], add: Callable[[T], None], *, seconds: float) -> int:
        """Index them, the newest first, for so many seconds but one at least; how many wait still.

        ``read`` makes of a message what ``add`` writes (None: it is gone). One that it cannot read (StoreCorrupt) goes on
        waiting. Each is a transaction of its own that does nothing but write: meanwhile others have a turn to store.
        """
        end = time.monotonic() + seconds
        ids = self.ids()[::-1]
        unreadable = 0
        for done, store_id in enumerate(ids):
            if done and time.monotonic() >= end:
                return unreadable + len(ids) - done
            try:
                entry = read(store_id)
            except StoreCorrupt:
                unreadable += 1
                continue
            with self._db.transaction():
                if self.take([store_id]) and entry is not None:
                    add(entry)
        return unreadable

    def _now(self) -> list[int]:
        """As the writer sees it: another process may have been faster."""
        return _ids(self._db.fetch(_LIST, (_WAITING,)))


def _ids(rows: Sequence[tuple[str]]) -> list[int]:
    """What a list says; nothing when damage has made it something else: the doctor misses what is not indexed."""
    try:
        found = json.loads(rows[0][0]) if rows else []
    except ValueError:
        return []
    return [each for each in found if isinstance(each, int)] if isinstance(found, list) else []


# -- numbers of the rows that hold messages in chunks ------------------------------------------------------
# FTS5 keeps the distance from one row of a word's list to the next, in one byte below 128 and in two below 16,384. So the first
# chunks of messages that follow each other get numbers that lie close together: 128 messages share a group of 16,384 numbers, and
# the first four chunks of each are at its end, in the order of the messages; further chunks of long ones come before. A number is
# computed, never looked up; a range of messages is a range of groups.
_MESSAGES_BITS = 7  # messages in a group
_NEAR_BITS = 2  # chunks of a message that lie at the end of its group

#: Numbers of one group: within it, rows are not in the order of their messages.
GROUP: Final = MAX_CHUNKS << _MESSAGES_BITS
_MESSAGES = 1 << _MESSAGES_BITS
_NEAR = 1 << _NEAR_BITS
_FAR = MAX_CHUNKS - _NEAR
_NEAR_FROM = _MESSAGES * _FAR
_NEAR_MASK = _MESSAGES * _NEAR - 1  # _NEAR_FROM is a multiple of the numbers behind it

#: The greatest store id that has numbers.
LAST_STORE_ID: Final = (1 << (62 - MAX_CHUNKS.bit_length() + 1)) - 1

#: SQL: the number of a message's first chunk, of ``{}`` its store id.
FIRST_SQL: Final = (
    f"(({{0}} >> {_MESSAGES_BITS}) * {GROUP} + {_NEAR_FROM} + (({{0}} & {_MESSAGES - 1}) << {_NEAR_BITS}))"
)
#: SQL: the store id of the message that a row belongs to, of ``{}`` its number.
STORE_ID_SQL: Final = (
    f"(({{0}} / {GROUP} << {_MESSAGES_BITS}) + CASE WHEN {{0}} & {GROUP - 1} >= {_NEAR_FROM} "
    f"THEN ({{0}} & {_NEAR_MASK}) >> {_NEAR_BITS} ELSE ({{0}} & {GROUP - 1}) / {_FAR} END)"
)


def chunk_id(store_id: int, chunk: int) -> int:
    """The number of a message's chunk, counted from 0."""
    base, place = (store_id >> _MESSAGES_BITS) * GROUP, store_id & (_MESSAGES - 1)
    if chunk < _NEAR:
        return base + _NEAR_FROM + (place << _NEAR_BITS) + chunk
    return base + place * _FAR + chunk - _NEAR


def chunk_of(number: int) -> int:
    """Which chunk of its message a row is."""
    offset = number & (GROUP - 1)
    return offset & (_NEAR - 1) if offset >= _NEAR_FROM else _NEAR + offset % _FAR


def rows_of(first_id: int, last_id: int) -> tuple[int, int]:
    """The first and last number that messages between two store ids may have; some of their neighbours lie there too."""
    return (first_id >> _MESSAGES_BITS) * GROUP, ((last_id >> _MESSAGES_BITS) + 1) * GROUP - 1


def messages_of(first: int, last: int) -> tuple[int, int]:
    """The store ids of all groups that a range of numbers touches."""
    return first // GROUP << _MESSAGES_BITS, ((last // GROUP + 1) << _MESSAGES_BITS) - 1
