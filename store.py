"""
Stored messages.

Owns table ``messages``. Appends rows (and their index entries) as one fact, and reads them back. Rows never change but for their
flags; where their stored JSON is, is the business of ``storage/blocks``. Knows nothing of live lists,
summaries or prompts: which message is new is ``ingest``'s business.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any

from .errors import Overtaken, StoreCorrupt
from .records import Flag, Message, Row, Scope, Stored
from .search import vectors
from .search.documents import (
    CONTEXT_CHARS,
    IndexRow,
    Pieces,
    Posting,
    cut,
    ending,
    index_row,
    numbered,
    stored_index_row,
)
from .search.index import MessageIndex
from .session import ID_OF, KEY_OF, Segment
from .storage.blocks import COLUMNS, STORED_COLUMNS, UNREADABLE, Blocks, Packer, unreadable
from .storage.connection import Database, marks, padded, parts_of
from .storage.meta import ADD, FORGET_MADE, INDEXED_STILL, REWRITTEN, skips_counted
from .storage.packing import pack, read_json
from .storage.schema import MOST_ADDRESSES
from .text import blobs, content

#: A row but for its stored JSON, as it is read: with the host's id of its session.
HEAD_COLUMNS = COLUMNS.format(ID_OF.format("messages"))
_FREE = "(SELECT ? WHERE NOT EXISTS (SELECT 1 FROM messages WHERE store_id = ?))"
_INSERT = f"INSERT INTO messages({STORED_COLUMNS}, envelope) VALUES ({_FREE}{',?' * 16})"
_ENDING = f"SELECT {HEAD_COLUMNS}, envelope FROM messages WHERE store_id = ? AND chars < ?"
_BEFORE = "SELECT store_id FROM messages WHERE conversation_id = ? AND seq < ? ORDER BY seq DESC LIMIT 1"
_PLACE = """
SELECT s.session_key, m.seq, m.store_id, m.digest, m.flags FROM sessions s LEFT JOIN messages m ON m.store_id =
    (SELECT store_id FROM messages WHERE conversation_id = s.conversation_id ORDER BY seq DESC LIMIT 1)
WHERE s.session_id = ? AND s.conversation_id = ?
"""
_IN_SESSION = f"session_key = {KEY_OF.format('?')}"
#: As the partial indexes of the schema say it.
_RETRACTED = f"flags & {Flag.RETRACTED}"
_IN_THREAD = f"{_RETRACTED} = 0"
_NEIGHBOUR_CHARS = 200_000
_LONGEST_TURN = 2000  # messages in which the end of a turn is looked for
_ENDS = 256  # conversations of which it is remembered how their newest row ends
#: A larger message is indexed behind its turn (5 MB take a fifth of a second), or by the first search if that comes before.
LATER_CHARS = 250_000
_INDEXED_AT_ONCE = 100  # messages: nobody else can write for some 10 ms
SEARCH_WAITS_S = 5.0  # ... which waits no longer than that: many may have come at once, by an import


@dataclass(frozen=True, slots=True)
class NewRow:
    """A message to append. ``pos``: its position when it goes between old rows. ``wanted``: the address that it is to have if
    nobody has it; ``stored_at``: when it was stored, if that was in another file."""

    message: Message
    pos: float | None = None
    revises: int | None = None
    flags: int = Flag.NONE
    wanted: int | None = None
    stored_at: float | None = None

    @property
    def address(self) -> int | None:
        """Address that is asked for; None where it is so high that no later message would get one."""
        return self.wanted if (self.wanted or 0) < MOST_ADDRESSES else None


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Parts of a new row that cost time: its packed JSON, its pieces for the index (None: not now, or never), its end."""

    stored_json: bytes
    pieces: Pieces | None
    later: bool
    end: str

    @classmethod
    def of(cls, row: NewRow) -> _Prepared:
        message = row.message
        entry = index_row(message) if not (message.flags | row.flags) & Flag.FILTERED else None
        later = entry is not None and len(entry.text) + len(entry.extra) >= LATER_CHARS
        pieces = cut(entry) if entry is not None and not later else None
        if pieces is not None and message.flags & Flag.OWN_TOOL:
            pieces = pieces._replace(borrows=False)
        return cls(pack(message.stored_json), pieces, later, ending(message.role, message.text))


def head(row: Sequence[Any]) -> Stored:
    """A row of ``HEAD_COLUMNS``."""
    return Stored(*row[:16])


class MessageStore:
    """The messages of one database."""

    def __init__(
        self,
        db: Database,
        index: MessageIndex,
        blocks: Blocks | None = None,
        *,
        unfold: Callable[[Row], Row] | None = None,
        lacks: Callable[[Row], bool] = lambda _: False,
        only: Collection[int] | None = None,
    ) -> None:
        """``unfold``: puts payloads back into a row that is read; ``lacks``: whether one of its payloads cannot be read.

        ``only``: the messages that are read with their texts; None: any.
        """
        self._db = db
        self._index = index
        self._unfold = unfold
        self._lacks = lacks
        self._only = json.dumps([*only]) if only is not None else None
        self.blocks = blocks or Blocks(db)
        self.packer = Packer(db, self.blocks)
        #: How the row ends that was appended last, by conversation: (which one, with its flags; its end).
        self._ends: dict[int, tuple[tuple[int, bytes, int], str]] = {}

    def only(self, store_ids: Collection[int]) -> MessageStore:
        """The same store, of which none but these messages are read with their texts."""
        return MessageStore(self._db, self._index, self.blocks, unfold=self._unfold, lacks=self._lacks, only=store_ids)

    # -- writing ------------------------------------------------------------------------------------
    def writing(self) -> AbstractContextManager[None]:
        """One transaction around several writes, of other tables too."""
        return self._db.transaction()

    def append(
        self,
        conversation_id: int,
        session_id: str,
        expected_seq: int,
        rows: Sequence[NewRow],
        *,
        source: str,
        now: float,
        retract: Sequence[int] = (),
        restore: Sequence[int] = (),
        previous_text: str | None = None,
    ) -> list[int]:
        """Append rows behind ``expected_seq`` as one transaction; their store ids.

        ``retract`` and ``restore`` flag rows that the user took back or brought back. ``previous_text`` is what stands in front
        of the first row, for the search index (None: read it). Raises Overtaken when somebody else appended in the meantime.
        """
        prepared = [_Prepared.of(row) for row in rows]  # before anybody waits for the database
        kept = any(row.address for row in rows)
        with self._db.transaction(), skips_counted(self._db, "messages", kept=kept) as ids:
            session_key, last, newest = self._place(session_id, conversation_id)
            if last != expected_seq:
                raise Overtaken(f"conversation {conversation_id} is at {last}, not at {expected_seq}")
            entries, later = list[Posting](), list[int]()
            tail = (self._end_of(conversation_id, newest) if previous_text is None else previous_text)[-CONTEXT_CHARS:]
            for n, (row, ready) in enumerate(zip(rows, prepared, strict=True), 1):
                seq, message = last + n, row.message
                store_id = self._db.execute(
                    _INSERT,
                    (
                        row.address, row.address, conversation_id, session_key, seq, seq if row.pos is None else row.pos,
                        content.storable(message.role), content.storable(message.tool_name),
                        content.storable(message.tool_call_id), message.digest, message.tokens, len(message.text),
                        message.said_at, row.stored_at or now, source, message.flags | row.flags, row.revises, ready.stored_json,
                    ),
                )  # fmt: skip
                ids.append(store_id)
                if ready.pieces is not None:
                    entries.extend(numbered(store_id, ready.pieces, tail))
                elif ready.later:
                    later.append(store_id)
                tail = ready.end
            self._index.documents.add(sorted(entries, key=itemgetter(0)))
            self._index.documents.postpone(later)
            self._flag(retract, add=Flag.RETRACTED)
            self._flag(restore, add=Flag.RESTORED, remove=Flag.RETRACTED)
            self._keep_end(conversation_id, ids, rows)
        return ids

    def _place(self, session_id: str, conversation_id: int) -> tuple[int, int, tuple[int, bytes, int] | None]:
        """Place of the next message: (session, newest sequence number, which message has it; None: the conversation has none).

        Asked for in one statement of the transaction that adds it: a restored file has other numbers. Raises Overtaken where
        the session is not of this conversation: another file came in place of the one it was found in.
        """
        found = self._db.fetch(_PLACE, (session_id, conversation_id))
        if not found:
            raise Overtaken(
                f"{self._db.path} has no session {session_id!r} in conversation {conversation_id} (any more): "
                "nothing was stored; the host's next call looks it up again"
            )
        session_key, seq, *newest = found[0]
        return (session_key, self.last_seq(conversation_id), None) if seq is None else (session_key, seq, tuple(newest))

    def _end_of(self, conversation_id: int, newest: tuple[int, bytes, int] | None) -> str:
        """End of the row in front of the new ones: the index lends it to its successor. "" for a huge or damaged one."""
        if newest is None:
            return ""
        known, end = self._ends.get(conversation_id, (None, ""))
        if known == newest:
            return end
        return self._ended(self._db.fetch(_ENDING, (newest[0], _NEIGHBOUR_CHARS)))

    def end_of(self, store_id: int) -> str:
        """End of a row; "" for a huge or damaged one."""
        return self._ended(self._db.query(_ENDING, (store_id, _NEIGHBOUR_CHARS)))

    def _end_before(self, row: Row) -> str:
        before = self._db.query_one(_BEFORE, (row.head.conversation_id, row.head.seq))
        return self.end_of(before[0]) if before else ""

    def _ended(self, rows: Sequence[tuple[Any, ...]]) -> str:
        return "".join(ending(row.head.role, row.text) for row in self._undamaged(rows))

    def _keep_end(self, conversation_id: int, ids: Sequence[int], rows: Sequence[NewRow]) -> None:
        """Remember how the newest row ends, where that is what its stored JSON says: the next append need not read it.

        One that was redacted is read: another process may redact it once more, and nothing but its words would show that.
        """
        if not rows:
            return
        message = rows[-1].message
        self._ends.pop(conversation_id, None)
        differs = Flag.QUARANTINED | Flag.EXTERNALISED | Flag.REDACTED
        if message.flags & differs == 0 and len(message.text) < _NEIGHBOUR_CHARS:
            newest = (ids[-1], message.digest, message.flags | rows[-1].flags)
            self._ends[conversation_id] = newest, ending(message.role, message.text)
        if len(self._ends) > _ENDS:
            del self._ends[next(iter(self._ends))]

    def flag(self, store_ids: Sequence[int], *, add: int = Flag.NONE, remove: int = Flag.NONE) -> None:
        """Change how rows take part; never what they say."""
        with self._db.transaction():
            self._flag(store_ids, add=add, remove=remove)

    def _flag(self, store_ids: Sequence[int], *, add: int = Flag.NONE, remove: int = Flag.NONE) -> None:
        if store_ids:
            self._db.executemany(
                "UPDATE messages SET flags = (flags | ?) & ~? WHERE store_id = ?",
                [(add, remove, store_id) for store_id in store_ids],
            )
        if add & Flag.FILTERED:
            vectors.forget(self._db, store_ids)

    def collectable(self, *, after: int, limit: int) -> list[int]:
        """Tool results with texts in files that are neither pinned nor shrunk yet."""
        rows = self._db.query(
            # By itself SQLite would go through all rows in the order that is asked for.
            "SELECT store_id FROM messages INDEXED BY messages_externalised "
            f"WHERE flags & {Flag.EXTERNALISED} AND flags & ? = 0 AND role = 'tool' AND store_id > ? ORDER BY store_id LIMIT ?",
            (Flag.PINNED | Flag.COLLECTED | Flag.QUARANTINED, after, limit),
        )
        return [row[0] for row in rows]

    def shrink(self, row: Row, stored_json: str) -> bool:
        """Transcript GC: another stored JSON, from which the same message comes back. False: the row is not what it was."""
        now = self._rows([row.store_id])
        if not now or (now[0].head.flags, now[0].stored_json) != (row.head.flags, row.stored_json):
            return False
        self._db.execute(
            "UPDATE messages SET envelope = ?, flags = flags | ? WHERE store_id = ?",
            (pack(stored_json), Flag.COLLECTED, row.store_id),
        )
        return True

    def rewrite(self, rows: Sequence[tuple[Stored, Message]]) -> None:
        """Other words and names for stored messages, for an operator who takes something out.

        Who they are and where they stand stays.
        """
        with self._db.transaction():
            self.packer.exchange({head.store_id: m.stored_json.decode("utf-8") for head, m in rows})
            self._db.executemany(
                "UPDATE messages SET flags = ?, chars = ?, tokens = ?, tool_name = ?, answers = ? WHERE store_id = ?",
                [
                    (
                        m.flags,
                        len(m.text),
                        m.tokens,
                        content.storable(m.tool_name),
                        content.storable(m.tool_call_id),
                        head.store_id,
                    )
                    for head, m in rows
                ],
            )
            for conversation in {head.conversation_id for head, _ in rows}:
                self._db.execute(ADD, (1, f"{REWRITTEN}{conversation}"))
            vectors.forget(self._db, [head.store_id for head, _ in rows])
            self._db.execute(ADD, (len(rows), INDEXED_STILL))
            self._db.execute(FORGET_MADE)
        self._ends.clear()

    # -- behind the turn ------------------------------------------------------------------------------
    def index_waiting(self, *, seconds: float = SEARCH_WAITS_S) -> int:
        """Index large messages of the last turns for so many seconds; how many wait still. Raises StoreError."""
        return self._index.documents.catch_up(self.late_entry, seconds=seconds)

    def late_entry(self, store_id: int) -> IndexRow | None:
        """The index entry of a message that waits; None when it is gone. Raises StoreCorrupt when it cannot be read."""
        rows = self._rows([store_id])
        if any(self._lacks(row) for row in rows):  # it would never be found by what its payloads say
            raise StoreCorrupt(f"a file of msg_{store_id} cannot be read")
        return stored_index_row(self._unfolded(rows)[0]) if rows else None

    def fold_index(self) -> None:
        """Make the search index a little smaller."""
        with self._db.transaction():
            self._index.documents.fold()

    # -- reading ------------------------------------------------------------------------------------
    def last_seq(self, conversation_id: int) -> int:
        """The newest sequence number of a conversation; an empty branch goes on where it left its parent, others at 0."""
        sql = (
            "SELECT coalesce((SELECT max(seq) FROM messages WHERE conversation_id = :c), "
            "(SELECT fork_seq FROM conversations WHERE conversation_id = :c), 0)"
        )
        return int(self._db.query(sql, {"c": conversation_id})[0][0])

    def has_rows(self, conversation_id: int) -> bool:
        """Is anything stored in the conversation itself (not in what it inherits)?"""
        return (
            self._db.query_one("SELECT 1 FROM messages WHERE conversation_id = ? LIMIT 1", (conversation_id,))
            is not None
        )

    def heads(self, segments: Sequence[Segment]) -> list[Stored]:
        """Rows of a conversation without texts, in order. A branch counts on from its parent: one scale of positions."""
        where = "conversation_id = ? AND seq <= ? AND pos <= ? ORDER BY pos, seq"
        out = [row for each in segments for row in self._heads(where, (each.conversation_id, *each.end))]
        return out if len(segments) == 1 else sorted(out, key=lambda row: (row.pos, row.store_id))

    def session_of(self, others: Sequence[Stored]) -> str | None:
        """Session of another file's messages: that of one here with the same digest, and the same address or time of storing."""
        here = self.heads_of([each.store_id for each in others])
        same = [here[each.store_id] for each in others if each.store_id in here]
        digests = {each.store_id: each.digest for each in others}
        if twin := next((each for each in same if each.digest == digests[each.store_id]), None):
            return twin.session_id
        at = json.dumps([each.stored_at for each in others])
        sql = f"SELECT digest, stored_at, {ID_OF.format('messages')} FROM messages WHERE stored_at IN "
        sql += "(SELECT value FROM json_each(?))"
        known = {(each.digest, each.stored_at) for each in others}
        return next((name for digest, when, name in self._db.query(sql, (at,)) if (digest, when) in known), None)

    def heads_behind(self, segment: Segment, *, pos: float, seq: int) -> list[Stored]:
        """Rows behind a position, and rows that were stored after ``seq`` wherever they stand.

        A position is never larger than its row's sequence number, so both lie behind the smaller of the two.
        """
        return self._heads(
            "conversation_id = ? AND seq > ? AND seq <= ? AND pos <= ? AND (pos > ? OR seq > ?) ORDER BY pos, seq",
            (segment.conversation_id, min(pos, seq), *segment.end, pos, seq),
        )

    def heads_of(self, store_ids: Sequence[int]) -> dict[int, Stored]:
        """Heads by store id."""
        parts = (self._heads(f"store_id IN ({marks(len(part))})", part) for part in parts_of(store_ids))
        return {row.store_id: row for rows in parts for row in rows}

    def between(self, conversation_id: int, whole: int) -> list[tuple[int, float]]:
        """(store id, position) of the rows between two whole positions, in order. Within a transaction."""
        return [
            (row[0], row[1])
            for row in self._db.fetch(
                "SELECT store_id, pos FROM messages WHERE conversation_id = ? AND pos > ? AND pos < ? ORDER BY pos, seq",
                (conversation_id, whole, whole + 1),
            )
        ]

    def move(self, places: Sequence[tuple[int, float]]) -> None:
        """Give rows (store ids) other positions. The caller sees to it that their order stays."""
        with self._db.transaction():
            self._db.executemany(
                "UPDATE messages SET pos = ? WHERE store_id = ?", [(pos, store_id) for store_id, pos in places]
            )

    def imported(self, conversations: Sequence[int]) -> list[Stored]:
        """Rows that keep a context message of ours as text, of these conversations."""
        among = f"conversation_id IN ({marks(len(conversations))})"
        return self._heads(f"{among} AND flags & {Flag.IMPORTED} AND {_IN_THREAD}", list(conversations))

    def retracted(self, conversation_id: int) -> list[Stored]:
        """Rows that the user took back, in order."""
        some = (
            f"SELECT 1 FROM messages WHERE conversation_id = ? AND {_RETRACTED} LIMIT 1"  # nearly always there are none
        )
        if self._db.query_one(some, (conversation_id,)) is None:
            return []
        return self._heads(f"conversation_id = ? AND {_RETRACTED} ORDER BY pos, seq", (conversation_id,))

    def _heads(self, where: str, params: Sequence[Any]) -> list[Stored]:
        """Rows without texts. ``where``: which, and in which order."""
        return [head(row) for row in self._db.query(f"SELECT {HEAD_COLUMNS} FROM messages WHERE {where}", params)]

    def _with_texts(self, where: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Rows with their stored JSON, for ``_decoded``. ``where``: which, and in which order."""
        if self._only is not None:
            where, params = f"store_id IN (SELECT value FROM json_each(?)) AND {where}", (self._only, *params)
        return self._db.query(f"SELECT {HEAD_COLUMNS}, envelope FROM messages WHERE {where}", params)

    def rows(self, store_ids: Sequence[int]) -> list[Row]:
        """Messages with their content, in the order asked for; unknown ids are left out."""
        return self._unfolded(self._rows(store_ids))

    def _unfolded(self, rows: list[Row]) -> list[Row]:
        if self._unfold is None:
            return rows
        return [self._unfold(row) if row.head.flags & Flag.EXTERNALISED else row for row in rows]

    def _rows(self, store_ids: Sequence[int]) -> list[Row]:
        found: dict[int, Row] = {}
        for part in parts_of(store_ids):
            for row in self._with_texts(f"store_id IN ({marks(len(part))})", part):
                found[row[0]] = self._decoded(row)
        return [found[store_id] for store_id in store_ids if store_id in found]

    def legible(self, store_ids: Sequence[int]) -> tuple[list[Row], list[int]]:
        """(what of these messages can be read, which of them are damaged): for answers that need not be complete."""
        try:
            return self.rows(store_ids), []
        except StoreCorrupt:
            if len(store_ids) < 2:
                return [], [*store_ids]
        (rows, bad), (more, worse) = (self.legible(part) for part in (store_ids[::2], store_ids[1::2]))
        return [*rows, *more], [*bad, *worse]

    def text(self, store_id: int) -> str:
        """Text of one message as a person would read it; "" for an unknown id."""
        found = self.rows([store_id])
        return found[0].text if found else ""

    def page(self, session_id: str, *, after: int, limit: int) -> list[Row]:
        """Rows of one host session in the order they were stored."""
        where = f"{_IN_SESSION} AND store_id > ? ORDER BY store_id LIMIT ?"
        return [self._decoded(row) for row in self._with_texts(where, (session_id, after, limit))]

    def said_after(self, conversation_id: int, seq: int, *, role: str, limit: int) -> list[Row]:
        """The next messages of a role behind a sequence number, in the order they were stored; huge and damaged ones left out."""
        where = "conversation_id = ? AND seq > ? AND role = ? AND chars < 100000 ORDER BY seq LIMIT ?"
        return self._undamaged(self._with_texts(where, (conversation_id, seq, role, limit)))

    def first_of(self, segments: Sequence[Segment], *, role: str) -> Row | None:
        """The oldest message of a role in a transcript that was said there: no note of the host, no context message of ours."""
        for segment in segments:
            rows = self._with_texts(
                "conversation_id = ? AND seq <= ? AND pos <= ? AND role = ? AND flags & ? = 0 ORDER BY seq LIMIT 1",
                (segment.conversation_id, *segment.end, role, Flag.RETRACTED | Flag.HOST_NOTE | Flag.IMPORTED),
            )
            if rows:
                return next(iter(self._undamaged(rows)), None)
        return None

    def last_of(
        self, segments: Sequence[Segment], *, role: str, before: int, limit: int, most_chars: int = 100_000
    ) -> list[Row]:
        """The newest messages of a role below a store id, newest first; none of so many characters or more."""
        out: list[Row] = []
        for segment in reversed(segments):
            rows = self._with_texts(
                "conversation_id = ? AND seq <= ? AND pos <= ? AND store_id < ? AND role = ? "
                f"AND {_IN_THREAD} AND chars < ? ORDER BY seq DESC LIMIT ?",
                (segment.conversation_id, *segment.end, before, role, most_chars, limit - len(out)),
            )
            out.extend(self._undamaged(rows))
            if len(out) >= limit:
                break
        return out

    def closings(self, asked: Sequence[Stored]) -> dict[int, int]:
        """Last answer to each user's message before the user spoke again, where they have; by store id."""
        places = padded([(head.store_id, head.conversation_id, head.seq) for head in asked], (None, None, None))
        rows = self._db.query(
            f"WITH asked(id, conversation, seq) AS (VALUES {marks(len(places), '(?,?,?)')}) "
            "SELECT a.id, (SELECT m.store_id FROM messages AS m WHERE m.conversation_id = a.conversation AND m.seq > a.seq "
            "AND m.seq < (SELECT min(u.seq) FROM messages AS u WHERE u.conversation_id = a.conversation AND u.seq > a.seq "
            f"AND u.seq <= a.seq + {_LONGEST_TURN} AND u.role = 'user' "
            f"AND u.flags & {Flag.RETRACTED | Flag.HOST_NOTE | Flag.IMPORTED} = 0) "
            f"AND m.role = 'assistant' AND {_IN_THREAD} ORDER BY m.seq DESC LIMIT 1) AS answer FROM asked AS a "
            "WHERE answer IS NOT NULL",
            [x for place in places for x in place],
        ) if places else []  # fmt: skip
        return dict(rows)

    def last_told(self, segments: Sequence[Segment], *, tool: str, within: int, notes: bool = True) -> list[Row]:
        """Results of one tool, and ``notes`` of the host, among the newest ``within`` rows, newest first; a few of them."""
        out: list[Row] = []
        for segment in reversed(segments):
            last = min(segment.end.seq, self.last_seq(segment.conversation_id))
            rows = self._with_texts(
                "conversation_id = ? AND seq <= ? AND seq > ? AND pos <= ? "
                f"AND (tool_name = ? OR (? AND role = 'user' AND flags & {Flag.HOST_NOTE})) AND {_IN_THREAD} AND chars < 600000 "
                "ORDER BY seq DESC LIMIT 8",
                (segment.conversation_id, last, last - within, segment.end.pos, tool, notes),
            )
            out.extend(self._undamaged(rows))
            if out:
                break
        return out

    def holding(self, segments: Sequence[Segment], words: str, *, before: int, limit: int) -> list[Row]:
        """The newest messages below a store id that hold these words in a row, as the index knows, oldest first."""
        ends = {segment.conversation_id: segment.end for segment in segments}
        found = self._index.holding(words, scope=Scope(conversations=tuple(ends)), limit=limit)
        heads = self.heads_of([each for each in found if each < before])
        return self.legible(
            [
                each.store_id
                for each in sorted(heads.values(), key=attrgetter("store_id"))
                if not each.flags & Flag.RETRACTED
                and (end := ends.get(each.conversation_id)) is not None
                and each.seq <= end.seq
                and each.pos <= end.pos
            ]
        )[0]

    def _undamaged(self, rows: Sequence[Sequence[Any]], damaged: list[int] | None = None) -> list[Row]:
        """Rows that can be read; the ids of the others go into ``damaged``, and the doctor tells of them."""
        out: list[Row] = []
        for row in rows:
            try:
                out.append(self._decoded(row))
            except StoreCorrupt:
                if damaged is not None:
                    damaged.append(row[0])
        return out

    def count(self, session_id: str | None = None) -> int:
        """Stored messages, of one host session or of all."""
        if session_id is None:
            return int(self._db.query("SELECT count(*) FROM messages")[0][0])
        return int(self._db.query(f"SELECT count(*) FROM messages WHERE {_IN_SESSION}", (session_id,))[0][0])

    def row_batches(self, *, after: int = 0, size: int = 512, damaged: list[int] | None = None) -> Iterator[list[Row]]:
        """All rows behind a store id, oldest first, in batches: for rebuilding and checking.

        One that cannot be read raises StoreCorrupt, or is left out where there is a list for its id.
        """
        while True:
            rows = self._with_texts("store_id > ? ORDER BY store_id LIMIT ?", (after, size))
            if not rows:
                return
            after = rows[-1][0]
            decoded = [self._decoded(row) for row in rows] if damaged is None else self._undamaged(rows, damaged)
            yield self._unfolded(decoded)

    def index_rows(self, *, after: int = 0, unread: Sequence[int] = ()) -> Iterator[list[IndexRow]]:
        """Rows for the search index, for rebuilding it. What cannot be read waits, and what was ``unread`` before.

        An empty batch stands where there are no more for now; what follows it is read inside the caller's transaction.
        """
        ends: dict[int, str] = {}
        damaged = [*unread]
        last = after
        for more in (True, False):
            for rows in self.row_batches(after=last, size=_INDEXED_AT_ONCE, damaged=damaged):
                entries = [(row.head.flags & Flag.FILTERED, self._index_row(row, ends)) for row in rows]
                if batch := [entry for filtered, entry in entries if not filtered]:
                    yield batch
                last = rows[-1].store_id if rows else last
            if more:
                yield []
        self._index.documents.stop_waiting(None)
        self._index.documents.postpone(damaged)

    def _index_row(self, row: Row, ends: dict[int, str]) -> IndexRow:
        conversation = row.head.conversation_id
        entry = stored_index_row(row, ends[conversation] if conversation in ends else self._end_before(row))
        ends[conversation] = ending(row.head.role, row.text)
        return self._collected(entry) if row.head.flags & Flag.COLLECTED else entry

    def _collected(self, entry: IndexRow) -> IndexRow:
        """Index text of a row after transcript GC: the names of its files, even in a store that unfolds them."""
        (row,) = self._rows([entry.store_id])
        return entry._replace(text=blobs.names(content.encode(row.stored_json)[0]))

    def newest(self, conversations: Sequence[int] | None, *, before: int, limit: int) -> list[Row]:
        """Rows newest first, below ``before``: for scans that stop when they found enough."""
        among = f" AND conversation_id IN ({marks(len(conversations))})" if conversations is not None else ""
        where = f"store_id < ?{among} ORDER BY store_id DESC LIMIT ?"
        return [self._decoded(row) for row in self._with_texts(where, (before, *(conversations or ()), limit))]

    def stored_bytes(self, store_ids: Sequence[int]) -> list[bytes]:
        """The bytes of the file that hold these messages: their own stored JSON, and the blocks that they share with others."""
        wanted = json.dumps(list(store_ids))
        which = "FROM messages WHERE store_id IN (SELECT value FROM json_each(?)) AND typeof(envelope) ="
        own = self._db.query(f"SELECT envelope {which} 'blob'", (wanted,))
        shared = self._db.query(
            f"SELECT data FROM blocks WHERE block_id IN (SELECT envelope {which} 'integer')", (wanted,)
        )
        return [bytes(row[0]) for row in (*own, *shared)]

    def _decoded(self, row: Sequence[Any]) -> Row:
        """A row of ``HEAD_COLUMNS, stored JSON``. Raises StoreCorrupt when it is none."""
        try:
            stored_json = content.decode(read_json(row[0], row[16], self.blocks.block))
        except UNREADABLE as exc:
            raise unreadable(row[0], exc) from exc
        return Row(head(row), content.text_of(stored_json.get("content")), content.calls_of(stored_json), stored_json)
