"""
Transcripts of live lists: which rows a list shows, which it should show, and how much of the next list is known.

The expected transcript composes the rows of ``store`` with the cuts of ``session``: the rows of a conversation and, in a branch,
those that it inherits. ``SeenList`` is the list as it was seen last. What is compared is read once and kept, some hundreds of
messages at a time, so that of a fresh copy of a long list each message is looked at while it is at hand. A list of the very
same objects costs next to nothing; ``align`` is for the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from operator import itemgetter
from typing import Any, NamedTuple, overload

from ..dag import SummaryDag
from ..errors import Exchanged
from ..records import Assembly, Flag, Stored
from ..session import Cut, Segment, Session, Sessions
from ..store import MessageStore
from ..text import content, markers, markup
from .align import Expected, Place, Seen

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Entry:
    """Entry of a live list: the stored rows that one message shows. ``own``: "" or which kind of our own text it is;
    "copy": one that the host wrote down twice, which shows no row a second time.

    ``stored_at``: when the first of them was stored; with what it says that tells it from every other row, in any file.
    """

    ids: tuple[int, ...]
    digest: bytes
    own: str = ""
    stored_at: float = 0.0


class Entries(Sequence[Entry]):
    """The entries of a live list: the beginning of a list that only grows, shared with the later states of it."""

    __slots__ = ("_shared", "_size")

    def __init__(self, shared: list[Entry], size: int | None = None) -> None:
        self._shared = shared
        self._size = len(shared) if size is None else size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> Entry: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Entry]: ...

    def __getitem__(self, at: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(at, int):
            return self._shared[range(self._size)[at]]
        return self._shared[slice(*at.indices(self._size))]

    def __iter__(self) -> Iterator[Entry]:
        return islice(self._shared, self._size)

    def first(self, size: int) -> Entries:
        """The first ``size`` entries."""
        return Entries(self._shared, min(size, self._size))

    def continues(self, before: Entries) -> bool:
        """Are these the entries of the same list, gone on?"""
        return self._shared is before._shared and self._size >= before._size

    def followed_by(self, more: Sequence[Entry]) -> Entries:
        """Entries with more behind them. Only a list that has gone on otherwise is copied."""
        shared = self._shared if self._size == len(self._shared) else self._shared[: self._size]
        shared.extend(more)
        return Entries(shared)


@dataclass(frozen=True, slots=True)
class Transcript:
    """Rows, or text of ours, that the messages of a live list are. ``assembly``: the prompt of ours that it shows, if any.

    ``last_seq``: the newest row of the conversation then; ``stored``: how many rows this list added; ``marks``: their flags.
    """

    entries: Entries
    assembly: Assembly | None
    last_seq: int
    stored: int = 0
    marks: int = 0


class StoredList(NamedTuple):
    """A live list that is stored, without the notes of a gateway, and its transcript."""

    messages: Sequence[Mapping[str, Any]]
    transcript: Transcript


# -- the expected transcript ------------------------------------------------------------------------------
class Transcripts:
    """The transcripts of one database; holds nothing."""

    def __init__(self, store: MessageStore, sessions: Sessions) -> None:
        self._store = store
        self._sessions = sessions

    def conversations(self, session: Session) -> frozenset[int]:
        """The conversations whose text of ours may stand in this session's list."""
        if session.parent_id is None:
            return frozenset((session.conversation_id,))
        return frozenset(item[0] for item in self._sessions.ancestry(session.conversation_id))

    def expected(self, session: Session, assembly: Assembly | None) -> list[Expected]:
        """The expected transcript: from the conversation's start, or from the tail that an assembly recorded.

        Behind an assembly: its tail, the rows behind the last message that it reaches, and those that came after it.
        """
        own, gone = self._past(session)
        segments = self._sessions.ancestry(session.conversation_id)
        if assembly is None:
            return _thread(self._store.heads(segments), own, gone)
        rows = {row.store_id: row for row in self._store.heads_of(assembly.tail_ids).values()}
        conversations = [segment.conversation_id for segment in segments]
        if assembly.conversation_id not in conversations:
            raise Exchanged(
                f"prompt {assembly.assembly_id} is of conversation {assembly.conversation_id} of a file that is not in use "
                f"any more; session {session.session_id} is read anew"
            )
        at = conversations.index(assembly.conversation_id)
        for n, segment in enumerate(segments[at:]):
            for row in self._store.heads_behind(segment, pos=assembly.last_pos, seq=0 if n else assembly.last_seq):
                rows.setdefault(row.store_id, row)
        return _thread(sorted(rows.values(), key=lambda row: (row.pos, row.seq)), own, gone)

    def listed(self, session: Session, assembly: Assembly | None) -> list[Expected]:
        """The expected transcript but for older rows that came into the tail of its prompt since.

        A merge brought them, and no list with that prompt shows them.
        """
        rows = self.expected(session, assembly)
        if assembly is None:
            return rows
        tail, end, made = set(assembly.tail_ids), assembly.last_pos, assembly.created_at
        return [row for row in rows if row.pos > end or row.store_id in tail or row.stored_at >= made]

    def visible(self, session: Session) -> list[Segment]:
        """Stretches of which a session may show rows; a branch that has not begun may show all of its parent."""
        own = session.conversation_id
        if session.parent_id is None or self._sessions.taken_back(own) is not None:
            return self._sessions.ancestry(own)
        return [*self._sessions.ancestry(session.parent_id), Segment(own)]

    def gone(self, session: Session, rows: Sequence[Stored]) -> frozenset[int]:
        """Rows within its reach that a session does not show: they were taken back, in it or before it began."""
        past = self._past(session)
        return frozenset(row.store_id for row in rows if _is_hidden(row, *past))

    def _past(self, session: Session) -> tuple[int, frozenset[int] | None]:
        """Conversation whose rows tell whether they were taken back, and those of others that were before it branched off."""
        gone = self._sessions.taken_back(session.conversation_id) if session.parent_id is not None else None
        if session.parent_id is not None and gone is None:  # it has not begun: it shows what its parent shows
            return session.parent_id, self._sessions.taken_back(session.parent_id)
        return session.conversation_id, gone

    def fork(self, session: Session, places: Sequence[Place]) -> bool:
        """A branch begins behind the last of its parent's messages that it shows; the parent itself loses nothing.

        What was merged into a parent has a high number, however old it is: all that is there counts.
        """
        if session.parent_id is None or self._store.has_rows(session.conversation_id):
            return False
        shared = self._store.heads_of([store_id for place in places for store_id in place.ids])
        rows = [row for row in shared.values() if row.conversation_id != session.conversation_id]
        above = self._sessions.ancestry(session.conversation_id)[:-1]
        newest = max(self._store.last_seq(conversation) for conversation, _ in above)
        cut = Cut(newest, max((row.pos for row in rows), default=0.0))
        gone = self._sessions.taken_back(session.parent_id) or frozenset()
        own_gone = [row.store_id for row in self._store.retracted(session.parent_id)]
        self._sessions.fork_at(session.conversation_id, cut, {*gone, *own_gone}.difference(shared))
        return True

    def own_rows(self, session: Session, retracted: Sequence[int]) -> tuple[int, ...]:
        """Rows of a branch's own among those taken back in it; what it inherited, it merely no longer inherits."""
        if session.parent_id is None or not retracted:
            return tuple(retracted)
        heads = self._store.heads_of(retracted)
        inherited = [row.pos for row in heads.values() if row.conversation_id != session.conversation_id]
        if inherited:
            self._sessions.inherit_before(session.conversation_id, min(inherited))
        return tuple(i for i in retracted if i in heads and heads[i].conversation_id == session.conversation_id)

    def taken_back(self, session: Session) -> list[Stored]:
        """Rows that may come back: retracted ones, and in a branch those that it inherited once and no longer does."""
        rows = [row for row in self._store.retracted(session.conversation_id) if not row.flags & Flag.DUPLICATE]
        if session.parent_id is None:
            return rows
        full, gone = self._sessions.once_inherited(session.conversation_id)
        if full:
            shown = {item.store_id for item in self.expected(session, None)}
            once = _thread(self._store.heads(full), session.conversation_id, gone)
            lost = [item.store_id for item in once if item.store_id not in shown]
            rows = sorted([*rows, *self._store.heads_of(lost).values()], key=lambda row: (row.pos, row.store_id))
        return rows

    def inherit_again(self, session: Session, lost: Sequence[Stored], restored: Sequence[Stored]) -> list[int]:
        """Let a branch inherit again what it shows again; the branch's own rows among the restored ones."""
        own_id = session.conversation_id
        back = [row for row in restored if row.conversation_id != own_id]
        if back:
            until = max(row.pos for row in back)
            shown = {row.store_id for row in back}
            still = [
                r.store_id for r in lost if r.conversation_id != own_id and r.pos <= until and r.store_id not in shown
            ]
            self._sessions.inherit_again(own_id, until, shown=shown, without=still)
        return [row.store_id for row in restored if row.conversation_id == own_id]

    def inherited_between(self, session: Session, whole: int) -> list[float]:
        """Positions between ``whole`` and the next whole one that rows of ancestors hold."""
        segments = self._sessions.ancestry(session.conversation_id)[:-1]
        heads = self._store.heads(segments) if segments else []
        return sorted({row.pos for row in heads if whole < row.pos < whole + 1})


def _thread(heads: Sequence[Stored], own_id: int, gone: frozenset[int] | None) -> list[Expected]:
    """Rows as the live list shows them: revisions in the place of what they revise, nothing that was taken back.

    ``gone``: which inherited rows were taken back before conversation ``own_id`` branched off (None: whatever is by now).
    """
    latest: dict[int, Stored] = {row.revises: row for row in heads if row.revises is not None}
    present = {row.store_id for row in heads} if latest else set()
    out: list[Expected] = []
    for row in heads:
        if row.revises is not None and row.revises in present:
            continue
        shown = row
        while shown.store_id in latest:
            shown = latest[shown.store_id]
        if not _is_hidden(shown, own_id, gone):
            out.append(expected_of(shown, row.pos))
    return out


def _is_hidden(row: Stored, own_id: int, gone: frozenset[int] | None) -> bool:
    """Was a row taken back, as conversation ``own_id`` sees it?"""
    if gone is not None and row.conversation_id != own_id:
        return row.store_id in gone
    return bool(row.flags & Flag.RETRACTED)


def expected_of(row: Stored, pos: float) -> Expected:
    """A stored row as the live list should show it, at a position."""
    return Expected(
        row.store_id, pos, row.role, row.digest, row.tool_call_id, row.tokens, row.said_at or row.stored_at, row.stored_at
    )  # fmt: skip


# -- the first message of a live list --------------------------------------------------------------------
# Which prompt governs a list is decided here alone: the id in the closing line says which assembly it claims to be, the digest of
# the text whether it is. After a restored backup an id may have been given out twice, or never.
class FirstMessage(NamedTuple):
    """``kind``: "ours", "overwritten", "unknown" or "" (a message like any other).

    ``assembly``: the prompt that governs the list. ``row``: where an unknown one is kept, if it is stored already. ``nonce``:
    of an unknown context message.
    """

    kind: str = ""
    assembly: Assembly | None = None
    row: Stored | None = None
    nonce: str = ""


class FirstMessages:
    """Reads the first message of live lists."""

    def __init__(self, store: MessageStore, sessions: Sessions, transcripts: Transcripts, dag: SummaryDag) -> None:
        self._store = store
        self._sessions = sessions
        self._transcripts = transcripts
        self._dag = dag

    def first_message(self, session: Session, messages: Messages, ancestry: frozenset[int]) -> FirstMessage:
        """The first message of a list. ``ancestry``: the conversations whose text of ours may stand in it."""
        if not messages or messages[0].get("role") != "user":
            return FirstMessage()
        text = messages[0].get("content")
        text = markers.unstamped(text) if isinstance(text, str) else text
        context = markup.read_context(text) if isinstance(text, str) else None
        if context is None:
            if self._overwritten(session, messages, ancestry):
                return FirstMessage("overwritten", self._dag.latest_assembly(session.conversation_id))
            return FirstMessage()
        digest = content.canonical_core(messages[0]).digest
        row = next((row for row in self._store.imported(sorted(ancestry)) if row.digest == digest), None)
        assembly = None
        if self.is_ours(context.nonce, ancestry):
            assembly = self._dag.prompt_of(context.assembly_id, markup.context_digest(str(text)), sorted(ancestry))
        if row is None and assembly is not None and self._governs(session, assembly, messages, ancestry, context.rest):
            return FirstMessage("ours", assembly)
        if row is None and self._of_another(context.nonce, ancestry) and self._began(session, messages, digest):
            return FirstMessage()
        return FirstMessage("unknown", None, row, context.nonce)

    def _of_another(self, nonce: str, ancestry: frozenset[int]) -> bool:
        """Was this nonce given to a conversation that is not one of these?"""
        owner = self._sessions.nonce_owner(nonce)
        return owner is not None and owner not in ancestry

    def _began(self, session: Session, messages: Messages, digest: bytes) -> bool:
        """Is this what somebody began a conversation with? Then it stands alone, or was stored so."""
        first = self._store.first_of(self._sessions.ancestry(session.conversation_id), role="user")
        return len(messages) == 1 or (first is not None and first.head.digest == digest)

    def is_ours(self, nonce: str, ancestry: frozenset[int]) -> bool:
        """Was this nonce given to one of these conversations?"""
        return self._sessions.nonce_owner(nonce) in ancestry

    def _governs(
        self, session: Session, assembly: Assembly, messages: Messages, ancestry: frozenset[int], rest: str
    ) -> bool:
        """Is this the text of that prompt, and in its place?"""
        if assembly.conversation_id not in ancestry:
            return False
        if assembly.digest and assembly.digest != markup.context_digest(markers.unstamped(str(messages[0]["content"]))):
            return False
        return bool(rest) or not assembly.tail_ids or not self._answered(session, assembly, messages, ancestry)

    def _answered(self, session: Session, assembly: Assembly, messages: Messages, ancestry: frozenset[int]) -> bool:
        """Was it said by somebody? Then it stands last, or what follows is an answer and nothing of the prompt's tail."""
        if len(messages) == 1:
            return True
        text = messages[1].get("content")
        carrier = markup.read_carrier(text) if isinstance(text, str) else None
        if messages[1].get("role") == "user" or (carrier is not None and self.is_ours(carrier[0], ancestry)):
            return False
        known = {item.digest for item in self._transcripts.expected(session, assembly)}
        return not any(content.canonical_core(message).digest in known for message in messages[1:])

    def _overwritten(self, session: Session, messages: Messages, ancestry: frozenset[int]) -> bool:
        """Did the host write the user's request over our context message?

        Host 0.19 does, at the end of a turn that was compacted between two requests: it puts the clean text of the request
        where the request stood before. Our carrier behind it and the pinned request give it away.
        """
        if len(messages) < 2 or messages[1].get("role") != "assistant":
            return False
        text = messages[1].get("content")
        carrier = markup.read_carrier(text) if isinstance(text, str) else None
        if carrier is None or not self.is_ours(carrier[0], ancestry):
            return False
        assembly = self._dag.latest_assembly(session.conversation_id)
        pinned = self._store.heads_of(assembly.tail_ids[:1]) if assembly is not None else {}
        return any(row.digest == content.canonical_core(messages[0]).digest for row in pinned.values())


# -- the list as it was seen last ------------------------------------------------------------------------
_NEWEST = 256  # of messages that are the very same objects, so many are looked at inside
_OF_END = 8  # of the newest messages of a list: by these it is known again
_OTHER_LISTS = 3
_OF_ONE = 1000  # bytes of a message beside its content
_AT_ONCE = 256  # messages with what they point at, as the processor's cache holds them


class OtherList(NamedTuple):
    """A list of another agent of the same session: its newest messages with their places, and what it showed."""

    newest: tuple[tuple[int, Mapping[str, Any]], ...]
    entries: Entries

    def holds(self, messages: Messages) -> bool:
        """Is this list that one, gone on or a little shorter? It has the very same objects in their places."""
        return any(n < len(messages) and messages[n] is message for n, message in self.newest)


@dataclass(slots=True)
class SeenList:
    """A live list as it was seen last, and the expected rows that it did not show (it may have been an old state).

    ``missed``: rows that no list of this process has shown, and that no other process can have written. ``other``: which of the
    agents that work at the session has the list that is shown now, where that is not the one of ``transcript``; ``unknown``: its
    messages are other objects, and no such list was seen before.
    """

    objects: list[Mapping[str, Any]]
    columns: Columns
    transcript: Transcript
    pending: tuple[Expected, ...]
    missed: frozenset[int] = frozenset()
    other: OtherList | None = None
    others: tuple[OtherList, ...] = ()
    unknown: bool = False
    read: bool = False  # all of it, since the last thorough look
    version: int = 0  # of what is known; other objects that say the same are no other version
    size: int = 0  # bytes that its messages take, about

    @classmethod
    def of(
        cls, messages: Messages, transcript: Transcript, pending: tuple[Expected, ...], shown: Seen = lambda _: True
    ) -> SeenList:
        """A list that was taken in. ``shown``: has one before it shown a row?"""
        missed = frozenset(item.store_id for item in pending if shown(item.store_id))
        columns = Columns.of(messages)
        return cls(list(messages), columns, transcript, pending, missed, size=_size(columns.contents))

    def learn(self, messages: Messages, known: int, transcript: Transcript, pending: tuple[Expected, ...]) -> None:
        """A list was taken in whose first ``known`` messages this one had recognised."""
        new = Columns.of(messages[known:])
        self.size += _size(new.contents) - _size(self.columns.contents[known:])
        self.objects[known:] = messages[known:]
        self.columns.replace(known, new)
        self.missed = self.shown_rows().intersection(item.store_id for item in pending) if pending else frozenset()
        self.transcript, self.pending, self.other, self.unknown = transcript, pending, None, False
        self.version += 1

    def known(self, messages: Messages) -> Sequence[Entry]:
        """Entries of the leading messages of a list that are as they were in this one."""
        return self.transcript.entries[: self.columns.common(Columns.of(messages), 0)]

    def shown_rows(self, *, alone: bool = True) -> frozenset[int]:
        """The rows that this list showed before: what it lacks of them was taken back; of others it says nothing.

        ``alone``: one agent works at the session, so that an unknown list is its own, loaded again.
        """
        if self.unknown and not alone:
            return frozenset()
        entries = self.other.entries if self.other is not None else self.transcript.entries
        return self.missed.union(store_id for entry in entries for store_id in entry.ids)

    def recognise(self, messages: Messages, *, thorough: bool, known: int = 0) -> int:
        """Number of leading messages that are as they were; ``known`` of them are so for certain.

        A terminal hands over the same objects at every hook. What the host changes inside them is near the end of the list, so
        only a thorough look (once a turn) reads the texts of all of them; where they came as other objects they were read then.
        """
        size = min(len(self.objects), len(messages))
        if not known:
            self._changes_agent(messages, size)
        at = known or self._familiar(messages, size)
        if thorough and at > known and not self.read and not self._says_the_same(messages, at):
            at = 0
        whole = not at and size == len(self.objects)
        read, self.read = not thorough and (self.read or whole), False
        while at < size:
            stop = min(size, at + _AT_ONCE)
            shown = messages[at:stop]
            rows = Columns(*(column(shown, name) for name in _COUNTS))
            alike = self.columns.common(rows, at)
            if alike > at and (
                shown[0] is not self.objects[at] or shown[alike - at - 1] is not self.objects[alike - 1]
            ):
                # Other objects come again, and those that are held in their place are nobody's any more.
                self.objects[at:alike] = shown[: alike - at]
                self.columns.share(at, alike, rows)
            if alike < stop:
                return alike
            at = stop
        self.read = read
        return size

    def _changes_agent(self, messages: Messages, size: int) -> None:
        """Note whose list comes now. Other objects are those of another agent, or of a gateway that has loaded the list again."""
        if not size or any(messages[n] is self.objects[n] for n in range(max(0, size - _OF_END), size)):
            return
        first = max(0, len(self.objects) - _OF_END)
        left = OtherList(tuple(enumerate(self.objects[first:], first)), self.transcript.entries)
        self.other = next((each for each in self.others if each.holds(messages)), None)
        self.unknown = self.other is None
        self.others = (left, *(each for each in self.others if each.entries is not left.entries))[:_OTHER_LISTS]

    def _familiar(self, messages: Messages, size: int) -> int:
        """Number of messages that need no look inside: they are the objects of the list before; never the newest."""
        if size <= _NEWEST or messages[0] is not self.objects[0] or messages[size - 1] is not self.objects[size - 1]:
            return 0
        old = size - _NEWEST
        return old if _alike(self.objects, messages) or same(self.objects[:old], messages[:old]) else 0

    def _says_the_same(self, messages: Messages, size: int) -> bool:
        """Have so many messages the roles and contents that they had? Calls are written into while they are new, if at all."""
        for at in range(0, size, _AT_ONCE):
            stop = min(size, at + _AT_ONCE)
            shown = messages[at:stop]
            if not same(column(shown, "content"), self.columns.contents[at:stop]):
                return False
            if not same(column(shown, "role"), self.columns.roles[at:stop]):
                return False
        return True


def _size(body: Any, depth: int = 3) -> int:
    """Bytes that a message content takes, or a list of them, with what is kept of each; what lies deeper counts for nothing."""
    if isinstance(body, str):
        return sys.getsizeof(body)
    if not depth or not isinstance(body, list | dict):
        return 0
    items = body if isinstance(body, list) else body.values()
    return sum(_OF_ONE + _size(item, depth - 1) for item in items)


def _alike(one: list[Mapping[str, Any]], other: Messages) -> bool:
    """Is one of two lists the beginning of the other? Objects are compared in C, identity first.

    Not by slices: to make one touches every object in it, which takes several times as long as the comparison.
    """
    if not isinstance(other, list):
        return False
    try:
        return one <= other if len(one) <= len(other) else other <= one
    except (RecursionError, TypeError, ValueError):  # two of them differ, and messages have no order; or see ``same``
        return False


@dataclass(frozen=True, slots=True)
class Recognised:
    """Number of leading messages of a list that are known, as long as the seen list is what it was."""

    count: int = 0
    seen_list: SeenList | None = None
    version: int = 0

    def still(self, seen_list: SeenList) -> int:
        """Number of messages that are known for certain."""
        return self.count if seen_list is self.seen_list and seen_list.version == self.version else 0


#: Nobody has looked.
UNSEEN = Recognised()
_PLAIN = {str, type(None)}
_DEEP = 4  # levels that are copied: a list of calls, a call, its function, its arguments
_COUNTS = ("content", "role", "tool_calls", "tool_call_id")
_NEARLY_ALWAYS = {name: itemgetter(name) for name in ("content", "role")}


@dataclass(slots=True)
class Columns:
    """Columns of a list's messages, by the keys that count: lists of objects are compared in C."""

    contents: list[Any]
    roles: list[Any]
    calls: list[Any]
    tool_call_ids: list[Any]

    @classmethod
    def of(cls, messages: Sequence[Mapping[str, Any]]) -> Columns:
        """Contents and calls that can change in place are copied."""
        return cls(
            _copied(column(messages, "content")),
            column(messages, "role"),
            _copied(column(messages, "tool_calls")),
            column(messages, "tool_call_id"),
        )

    def columns(self) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        """Columns in the order of ``_COUNTS``."""
        return self.contents, self.roles, self.calls, self.tool_call_ids

    def common(self, other: Columns, start: int) -> int:
        """Number of leading rows that are equal, where ``other`` begins at row ``start`` of this one."""
        size = min(len(self.contents) - start, len(other.contents))
        for mine, theirs in zip(self.columns(), other.columns(), strict=True):
            if not same(mine[start : start + size], theirs[:size]):
                size = next((n for n in range(size) if not same(mine[start + n], theirs[n])), size)
        return start + size

    def replace(self, start: int, other: Columns) -> None:
        """Put the rows of the other one in the place of those from this row on."""
        for mine, theirs in zip(self.columns(), other.columns(), strict=True):
            mine[start:] = theirs

    def share(self, start: int, stop: int, equal: Columns) -> None:
        """Hold the texts of a list that says the same: to find them again takes no look inside."""
        for mine, theirs in ((self.contents, equal.contents), (self.roles, equal.roles)):
            new = theirs[: stop - start]
            if set(map(type, new)) <= _PLAIN:
                mine[start:stop] = new


def same(one: Any, other: Any) -> bool:
    """Equality of two values. False where they go deeper than Python compares, or cannot be compared: digests decide there."""
    try:
        return bool(one == other)
    except (RecursionError, TypeError, ValueError):
        return False


def column(messages: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """Values of messages under a name, as they are; None where they have nothing."""
    read = _NEARLY_ALWAYS.get(name)
    try:  # in C: at every hook, for hundreds of messages
        return list(map(read, messages)) if read is not None else list(map(dict.get, messages, repeat(name)))  # type: ignore[arg-type]
    except (KeyError, TypeError):
        return [message.get(name) for message in messages]


def _copied(items: list[Any]) -> list[Any]:
    """Contents, or calls; those that can change in place as copies."""
    return items if set(map(type, items)) <= _PLAIN else [_copy(item) for item in items]


def _copy(item: Any, deep: int = _DEEP) -> Any:
    if isinstance(item, list) and deep:
        return [_copy(part, deep - 1) for part in item]
    if isinstance(item, dict) and deep:
        return {name: _copy(part, deep - 1) for name, part in item.items()}
    return item
