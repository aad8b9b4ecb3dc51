"""
What the search index gets of a message, and which messages it gets later.

Pure but for ``Waiting``, which keeps the list of messages that are not indexed yet as a fact of the database. Large ones are
stored in their turn and indexed behind it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeVar

from .db.connection import Database
from .db.meta import Meta
from .errors import StoreCorrupt
from .records import Flag, Message, Row, ToolCall
from .text import chunk_ids, escapes, words

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


def index_row(store_id: int, conversation_id: int, message: Message, previous_tail: str) -> IndexRow:
    """What the search index gets of a message."""
    return _index_row(
        store_id, conversation_id, message.text, message.calls, message.tool_name, message.flags, previous_tail
    )


def stored_index_row(row: Row, previous_tail: str) -> IndexRow:
    """The same from a stored row, for rebuilding the index."""
    head = row.head
    return _index_row(
        head.store_id, head.conversation_id, row.text, row.calls, head.tool_name, head.flags, previous_tail
    )


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
    index_text, chunks, chunk_id = words.index_text, words.chunks, chunk_ids.chunk_id
    for store_id, _, text, extra, tail in rows:
        full = f"{text}\n{extra}" if text and extra else text or extra
        escaped = escapes.json_begins(full)
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
    return piece if escaped >= len(piece) else piece[:escaped] + escapes.unescaped(piece[escaped:])


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
