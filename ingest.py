"""
Host messages → stored messages, each exactly once.

Owns the windows (what each session's live list looked like last time) and turns alignment plans into appended rows.
Idempotent: every hook may hand over the list as often as it likes. Knows nothing of summaries beyond which text is
our own.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .align import Core, Expected, Live, Place, Plan, align
from .columns import Columns, contents_of
from .dag import SummaryDag
from .errors import Overtaken
from .records import Assembly, Entry, Flag, Lineage, Message, Stored
from .session import Cut, Session, Sessions
from .store import MessageStore, NewRow, Segment
from .text import content, own

_RETRIES = 5
_REDACTED = "[redacted:"  # how every placeholder of ``text.redact`` begins
_WINDOWS = 256  # sessions whose lists are remembered; the others align once when they come back


@dataclass(slots=True)
class _Window:
    """A live list as it was seen last, and the expected rows that it did not show (it may have been an old state)."""

    objects: list[Mapping[str, Any]]
    columns: Columns
    lineage: Lineage
    pending: tuple[Expected, ...]


@dataclass(frozen=True, slots=True)
class _Seen:
    """A live list that was aligned, with the rows of it that were read anew."""

    messages: Sequence[Mapping[str, Any]]
    start: int
    rows: Columns | None
    lineage: Lineage
    pending: tuple[Expected, ...]


@dataclass(frozen=True, slots=True)
class _Read:
    """One live message, recognised. ``core`` is None for text of our own; ``text`` is set for what is glued behind such text."""

    core: content.Said | None
    digest: bytes
    own: str = ""
    ids: tuple[int, ...] = ()
    text: str | None = None


Door = Callable[[Mapping[str, Any], Message], Message | None]
"""What happens to a message on its way into the store: redaction, externalisation, filters. None keeps it out."""


class Ingest:
    """Takes live lists in. One per process and database; thread-safe per session."""

    def __init__(
        self,
        store: MessageStore,
        sessions: Sessions,
        dag: SummaryDag,
        *,
        door: Door | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._dag = dag
        self._door = door
        self._clock = clock
        self._lock = threading.Lock()
        self._windows: OrderedDict[str, _Window] = OrderedDict()
        self._locks: dict[str, threading.RLock] = {}
        self.unaligned = 0

    # -- entry ----------------------------------------------------------------------------------------
    def take(
        self, session: Session, messages: Sequence[Mapping[str, Any]], *, source: str, thorough: bool = True
    ) -> Lineage:
        """Store what is new in a live list. Raises StoreError; then nothing was stored and the next call does it.

        Without ``thorough`` a change inside an old message may be noticed only by the next thorough call.
        """
        with self._session_lock(session.session_id):
            window = self._windows.get(session.session_id)
            known = start = 0
            rows: Columns | None = None
            if window is not None:
                known, start, rows = _common(window, messages, thorough=thorough)
                if known == len(messages):
                    return self._seen(window, messages, start, rows)
            lineage, pending = self._aligned(session, messages, window, known, source)
            self._remember(session.session_id, window, _Seen(messages, start, rows, lineage, pending))
            return lineage

    def _aligned(
        self,
        session: Session,
        messages: Sequence[Mapping[str, Any]],
        window: _Window | None,
        known: int,
        source: str,
    ) -> tuple[Lineage, tuple[Expected, ...]]:
        """Align, and again from the start when another writer was faster."""
        for _ in range(_RETRIES - 1):
            try:
                return self._align(session, messages, window if known else None, known, source)
            except Overtaken:
                window, known = None, 0
        return self._align(session, messages, None, 0, source)

    def _seen(self, window: _Window, messages: Sequence[Mapping[str, Any]], start: int, rows: Columns) -> Lineage:
        """A list that shows nothing unknown: the same one, or an earlier state of it (which does not replace the later one)."""
        size = len(messages)
        if size == len(window.objects):
            window.objects = list(messages)
            window.columns.replace_from(start, rows)
            return replace(window.lineage, stored=0)
        return replace(window.lineage, entries=window.lineage.entries[:size], stored=0)

    def forget(self, session_id: str) -> None:
        """Drop the window of a session; the next list is aligned against the store."""
        with self._lock:
            self._windows.pop(session_id, None)

    def forget_all(self) -> None:
        """Drop every window: the database is another one than it was."""
        with self._lock:
            self._windows.clear()

    def knows(self, session_id: str) -> bool:
        """Has this process seen a live list of the session?"""
        return session_id in self._windows

    def _session_lock(self, session_id: str) -> threading.RLock:
        with self._lock:
            return self._locks.setdefault(session_id, threading.RLock())

    def _remember(self, session_id: str, window: _Window | None, seen: _Seen) -> None:
        if window is None or seen.rows is None:
            window = _Window(list(seen.messages), Columns.of(seen.messages), seen.lineage, seen.pending)
        else:
            window.objects[seen.start :] = seen.messages[seen.start :]
            window.columns.replace_from(seen.start, seen.rows)
            window.lineage, window.pending = seen.lineage, seen.pending
        with self._lock:
            self._windows[session_id] = window
            self._windows.move_to_end(session_id)
            while len(self._windows) > _WINDOWS:
                self._windows.popitem(last=False)  # its lock stays: somebody may hold it

    # -- alignment --------------------------------------------------------------------------------------
    def _align(
        self, session: Session, messages: Sequence[Mapping[str, Any]], window: _Window | None, known: int, source: str
    ) -> tuple[Lineage, tuple[Expected, ...]]:
        """Align from the first message that the window does not explain."""
        if window is not None:
            head, assembly, last_seq = window.lineage.entries[:known], window.lineage.assembly, window.lineage.last_seq
            expected, before = self._expected_after(window, known)
        else:
            known, head, before = 0, (), 0.0
            assembly = self._assembly_of(session, messages)
            last_seq = self._store.last_seq(session.conversation_id)
            expected = self._expected(session, assembly)
        lineage = self._lineage_ids(session)
        reads = [self._read(message, n + known, lineage) for n, message in enumerate(messages[known:])]
        if window is None and self._overwritten(session, messages, lineage):
            reads[0] = _Read(None, b"", "context")
        reads = self._as_stored(reads, expected)
        theirs = [(n, read) for n, read in enumerate(reads) if read.core is not None or read.ids]
        plan = align([_live(read) for _, read in theirs], expected, self._cores, before=before)
        if window is not None and expected and any(place.new for place in plan.places):
            # The window lacks what the host left out before; what looks new may be that, shown by somebody with an older list.
            return self._align(session, messages, None, 0, source)
        if known == 0 and plan.unaligned:
            self.unaligned += 1
            plan.retracted = ()  # a foreign list is no proof that the user took anything back
        if session.origin == "branch" and known == 0 and self._fork(session, plan.places):
            plan.retracted = ()
            last_seq = self._store.last_seq(session.conversation_id)
        plan.retracted = self._own_rows(session, plan.retracted)
        entries = [Entry(read.ids, read.digest, read.own) for read in reads]
        last_known = next((entry.ids[-1] for entry in reversed(head) if entry.ids), 0)
        changes = _Changes(messages[known:], theirs, plan, known == 0 and plan.unaligned, last_known)
        stored = self._store_new(session, changes, entries, last_seq, source)
        return Lineage((*head, *entries), assembly, last_seq + stored, stored), plan.leftover

    def _lineage_ids(self, session: Session) -> frozenset[int]:
        """The conversations whose text of ours may stand in this session's list."""
        if session.parent_id is None:
            return frozenset((session.conversation_id,))
        return frozenset(item[0] for item in self._sessions.lineage(session.conversation_id))

    def _read(self, message: Mapping[str, Any], at: int, lineage: frozenset[int]) -> _Read:
        text = message.get("content")
        if isinstance(text, str) and text.startswith("[lcm:"):
            mine = self._read_own(message, text, at, lineage)
            if mine is not None:
                return mine
        core = content.said(message)
        return _Read(core, core.digest)

    def _read_own(self, message: Mapping[str, Any], text: str, at: int, lineage: frozenset[int]) -> _Read | None:
        """Our own text: what bears this conversation's nonce in exactly our grammar, where we put it."""
        role = message.get("role")
        if role == "user" and at == 0:
            context = own.read_context(text)
            if context is not None and self._is_ours(context.nonce, lineage):
                return self._glued_behind(message, "context", context.rest)
        if role == "assistant" and at == 1:
            carrier = own.read_carrier(text)
            if carrier is not None and self._is_ours(carrier[0], lineage):
                return self._glued_behind(message, "carrier", carrier[1])
        if role == "tool":
            stub = own.read_stub(text)
            if stub is not None and self._is_ours(stub[0], lineage):
                row = self._store.heads_of([stub[1]]).get(stub[1])
                if row is not None and row.answers == content.storable(str(message.get("tool_call_id"))):
                    return _Read(None, row.digest, "stub", (row.store_id,))
        return None

    def _is_ours(self, nonce: str, lineage: frozenset[int]) -> bool:
        return self._sessions.nonce_owner(nonce) in lineage

    @staticmethod
    def _glued_behind(message: Mapping[str, Any], kind: str, rest: str) -> _Read:
        """Text (or calls) that the host joined to ours is a message of its own."""
        if not rest and not message.get("tool_calls"):
            return _Read(None, b"", kind)
        core = content.said(message, text=rest)
        return _Read(core, core.digest, kind, (), rest)

    def _as_stored(self, reads: list[_Read], expected: Sequence[Expected]) -> list[_Read]:
        """Text that a prompt of ours showed redacted comes back so; it is still the message from which it was redacted."""
        if not any(read.core is not None and _REDACTED in f"{read.core.text}{read.core.calls}" for read in reads):
            return reads
        heads = self._store.heads_of([item.store_id for item in expected])
        rows = self._store.rows([row.store_id for row in heads.values() if row.flags & Flag.REDACTED])
        known = {content.said(row.envelope).digest: row.head.digest for row in rows}
        return [replace(read, digest=known.get(read.digest, read.digest)) for read in reads]

    def _assembly_of(self, session: Session, messages: Sequence[Mapping[str, Any]]) -> Assembly | None:
        """The assembly that the list's context message names."""
        if not messages:
            return None
        text = messages[0].get("content")
        context = own.read_context(text) if isinstance(text, str) else None
        lineage = self._lineage_ids(session)
        if context is None and self._overwritten(session, messages, lineage):
            return self._dag.latest_assembly(session.conversation_id)
        if context is None or not self._is_ours(context.nonce, lineage):
            return None
        assembly = self._dag.assembly(context.assembly_id)
        return assembly if assembly is not None and assembly.conversation_id in lineage else None

    def _overwritten(self, session: Session, messages: Sequence[Mapping[str, Any]], lineage: frozenset[int]) -> bool:
        """Did the host write the user's request over our context message?

        Host 0.19 does, at the end of a turn that was compacted between two requests: it puts the clean text of the request
        where the request stood before. Our carrier behind it and the pinned request give it away.
        """
        if len(messages) < 2 or messages[0].get("role") != "user" or messages[1].get("role") != "assistant":
            return False
        text = messages[1].get("content")
        carrier = own.read_carrier(text) if isinstance(text, str) else None
        if carrier is None or not self._is_ours(carrier[0], lineage):
            return False
        assembly = self._dag.latest_assembly(session.conversation_id)
        pinned = self._store.heads_of(assembly.tail_ids[:1]) if assembly is not None else {}
        return any(row.digest == content.said(messages[0]).digest for row in pinned.values())

    def _expected(self, session: Session, assembly: Assembly | None) -> list[Expected]:
        """What the live list should show: from the conversation's start, or from the tail that an assembly recorded.

        Behind an assembly: its tail, what stands behind the last message that it reaches, and what came after it.
        """
        own = session.conversation_id
        gone = self._sessions.taken_back(own) if session.parent_id is not None else None
        segments = [Segment(*item) for item in self._sessions.lineage(session.conversation_id)]
        if assembly is None:
            return _thread(self._store.heads(segments), own, gone)
        rows = {row.store_id: row for row in self._store.heads_of(assembly.tail_ids).values()}
        at = [segment.conversation_id for segment in segments].index(assembly.conversation_id)
        for n, segment in enumerate(segments[at:]):
            for row in self._store.heads_behind(segment, pos=assembly.last_pos, seq=0 if n else assembly.last_seq):
                rows.setdefault(row.store_id, row)
        return _thread(sorted(rows.values(), key=lambda row: (row.pos, row.seq)), own, gone)

    def _expected_after(self, window: _Window, known: int) -> tuple[list[Expected], float]:
        """The rest of the window's list as expected rows, and the position of the row in front of them."""
        ids = [store_id for entry in window.lineage.entries[known:] for store_id in entry.ids]
        if not ids and not window.pending:
            return [], 0.0
        last = next((entry.ids[-1:] for entry in reversed(window.lineage.entries[:known]) if entry.ids), ())
        heads = self._store.heads_of([*ids, *last])
        rest = [
            Expected(row.store_id, row.pos, row.role, row.digest, row.answers)
            for row in (heads[store_id] for store_id in ids if store_id in heads)
        ]
        return [*rest, *window.pending], heads[last[0]].pos if last and last[0] in heads else 0.0

    def _fork(self, session: Session, places: Sequence[Place]) -> bool:
        """A branch begins behind the last of its parent's messages that it shows; the parent itself loses nothing."""
        if session.parent_id is None or self._store.has_rows(session.conversation_id):
            return False
        shared = self._store.heads_of([store_id for place in places for store_id in place.ids])
        rows = [row for row in shared.values() if row.conversation_id != session.conversation_id]
        cut = Cut(max((row.seq for row in rows), default=0), max((row.pos for row in rows), default=0.0))
        gone = self._sessions.taken_back(session.parent_id) or frozenset()
        own_gone = [row.store_id for row in self._store.retracted(session.parent_id)]
        self._sessions.fork_at(session.conversation_id, cut, [*gone, *own_gone])
        return True

    def _own_rows(self, session: Session, retracted: Sequence[int]) -> tuple[int, ...]:
        """Of what was taken back in a branch, what is its own; what it inherited, it merely no longer inherits."""
        if session.parent_id is None or not retracted:
            return tuple(retracted)
        heads = self._store.heads_of(retracted)
        inherited = [row.pos for row in heads.values() if row.conversation_id != session.conversation_id]
        if inherited:
            self._sessions.inherit_before(session.conversation_id, min(inherited))
        return tuple(i for i in retracted if i in heads and heads[i].conversation_id == session.conversation_id)

    def expected(self, session: Session, assembly: Assembly | None) -> list[Expected]:
        """What a live list that shows ``assembly`` (None: no summaries yet) should show behind it."""
        return self._expected(session, assembly)

    def _cores(self, store_ids: Sequence[int]) -> dict[int, Core]:
        """What rows say, for the search for joined and edited ones."""
        cores = dict.fromkeys(store_ids, Core(""))
        for row in self._store.rows(store_ids):
            cores[row.store_id] = Core(content.canonical_text(row.text), tuple(call.id for call in row.calls))
        return cores

    # -- storing ----------------------------------------------------------------------------------------
    def _store_new(self, session: Session, changes: _Changes, entries: list[Entry], last_seq: int, source: str) -> int:
        """Append what the plan calls new, and write the ids into ``entries``. Returns how many rows were added."""
        restored, places = self._brought_back(session, changes)
        rows: list[NewRow] = []
        owners: list[tuple[int, tuple[int, ...]]] = []
        for (n, read), place in zip(changes.theirs, places, strict=True):
            entries[n] = replace(entries[n], ids=place.ids or entries[n].ids)
            if not place.new or read.core is None:  # a stub whose row has left the thread still shows that row
                continue
            message = changes.messages[n]
            kept = self._through_door(message, self._whole(message, read, place))
            if kept is not None:
                rows.append(NewRow(kept, place.pos, place.revises, Flag.UNALIGNED if changes.unaligned else Flag.NONE))
                owners.append((n, place.ids))
        if not rows and not changes.plan.retracted and not restored:
            return 0
        ids = self._store.append(
            session.conversation_id, session.session_id, last_seq, rows, source=source, now=self._clock(),
            retract=changes.plan.retracted, restore=restored, previous_text=changes.text_before(owners),
        )  # fmt: skip
        for (n, before), store_id in zip(owners, ids, strict=True):
            entries[n] = replace(entries[n], ids=(*before, store_id))
        return len(ids)

    @staticmethod
    def _whole(message: Mapping[str, Any], read: _Read, place: Place) -> Message:
        """All of a new message, or of the new part of one that the host glued together."""
        text = place.rest if place.rest is not None else read.text
        return content.read(message, text=text, core=None if place.rest is not None else read.core)

    def _through_door(self, message: Mapping[str, Any], read: Message) -> Message | None:
        return read if self._door is None else self._door(message, read)

    def _brought_back(self, session: Session, changes: _Changes) -> tuple[list[int], list[Place]]:
        """Rows that the user had taken back and that are shown again are not new."""
        places = list(changes.plan.places)
        first = next((n for n, place in enumerate(places) if place.new and place.pos is None and not place.ids), None)
        if first is None:
            return [], places
        retracted = self._store.retracted(session.conversation_id)
        if not retracted:
            return [], places
        before = next((place.ids[-1] for place in reversed(places[:first]) if place.ids), changes.last_known)
        shown = self._store.heads_of([before]).get(before)
        candidates = [row for row in retracted if shown is None or row.pos > shown.pos]
        restored: list[int] = []
        at = 0
        for n in range(first, len(places)):
            digest = changes.theirs[n][1].digest
            found = next((k for k in range(at, len(candidates)) if candidates[k].digest == digest), None)
            if found is None:
                break
            restored.append(candidates[found].store_id)
            places[n] = Place((candidates[found].store_id,))
            at = found + 1
        return restored, places


@dataclass(frozen=True, slots=True)
class _Changes:
    """The part of a live list that had to be aligned, and what came of it. ``theirs``: (place in it, what it is)."""

    messages: Sequence[Mapping[str, Any]]
    theirs: Sequence[tuple[int, _Read]]
    plan: Plan
    unaligned: bool
    last_known: int  # the row in front of this part, 0 if there is none

    def text_before(self, owners: Sequence[tuple[int, tuple[int, ...]]]) -> str | None:
        """What stands in front of the first new message, if that is in this part."""
        first = owners[0][0] if owners else 0
        return content.text_of(self.messages[first - 1].get("content")) if first else None


# -- pure helpers ------------------------------------------------------------------------------------------
_NEWEST = 256  # of messages that are the very same objects, so many are looked at inside


def _common(window: _Window, messages: Sequence[Mapping[str, Any]], *, thorough: bool) -> tuple[int, int, Columns]:
    """(how many leading messages are as they were, from which row on they were looked at, these rows).

    A terminal hands over the same objects at every hook. What the host changes inside them is near the end of the list, so only
    a thorough look (once a turn) reads the texts of all of them.
    """
    size = min(len(window.objects), len(messages))
    start = 0
    if size > _NEWEST and messages[0] is window.objects[0] and messages[size - 1] is window.objects[size - 1]:
        old = size - _NEWEST
        same = window.objects[:old] == messages[:old]  # identity first, in C
        if same and (not thorough or contents_of(messages[:old]) == window.columns.contents[:old]):
            start = old
    rows = Columns.of(messages[start:])
    return window.columns.common(rows, start), start, rows


def _live(read: _Read) -> Live:
    core = read.core
    if core is None:
        return Live("tool", read.digest, None, lambda: Core(""))
    ids = tuple(call.id for call in core.calls)
    return Live(core.role, read.digest, core.answers, lambda: Core(content.canonical_text(core.text), ids))


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
        inherited = gone is not None and shown.conversation_id != own_id
        hidden = shown.store_id in gone if inherited and gone is not None else shown.flags & Flag.RETRACTED
        if not hidden:
            out.append(Expected(shown.store_id, row.pos, shown.role, shown.digest, shown.answers))
    return out
