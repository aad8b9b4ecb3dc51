"""
Host messages → stored messages, each exactly once.

Owns the windows (what each session's live list looked like last time) and turns alignment plans into appended rows. Idempotent:
every hook may hand over the list as often as it likes. Knows nothing of summaries beyond which text is our own.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .align import Expected, Live, Place, align
from .dag import SummaryDag
from .errors import Overtaken
from .records import Assembly, Entry, Flag, Lineage, Message
from .session import Session, Sessions
from .store import MessageStore, NewRow, Segment
from .text import content, own

_RETRIES = 5
_WINDOWS = 256  # sessions whose lists are remembered; the others align once when they come back


@dataclass(slots=True)
class _Window:
    contents: list[Any]
    calls: list[Any]
    lineage: Lineage


@dataclass(frozen=True, slots=True)
class _Read:
    """One live message, read. ``message`` is None for text of our own that shows no row."""

    message: Message | None
    digest: bytes
    own: str = ""
    ids: tuple[int, ...] = ()


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
    def take(self, session: Session, messages: Sequence[Mapping[str, Any]], *, source: str) -> Lineage:
        """Store what is new in a live list. Raises StoreError; then nothing was stored and the next call does it."""
        with self._session_lock(session.session_id):
            window = self._windows.get(session.session_id)
            contents = [message.get("content") for message in messages]
            calls = [message.get("tool_calls") for message in messages]
            known = _common(window, contents, calls)
            if window is not None and known == len(messages) == len(window.contents):
                return window.lineage
            for attempt in range(_RETRIES):
                try:
                    lineage = self._align(session, messages, window if known else None, known, source)
                    break
                except Overtaken:
                    window, known = None, 0
                    if attempt == _RETRIES - 1:
                        raise
            self._remember(session.session_id, _Window(contents, calls, lineage))
            return lineage

    def forget(self, session_id: str) -> None:
        """Drop the window of a session; the next list is aligned against the store."""
        with self._lock:
            self._windows.pop(session_id, None)

    def knows(self, session_id: str) -> bool:
        """Has this process seen a live list of the session?"""
        return session_id in self._windows

    def _session_lock(self, session_id: str) -> threading.RLock:
        with self._lock:
            return self._locks.setdefault(session_id, threading.RLock())

    def _remember(self, session_id: str, window: _Window) -> None:
        with self._lock:
            self._windows[session_id] = window
            self._windows.move_to_end(session_id)
            while len(self._windows) > _WINDOWS:
                dropped, _ = self._windows.popitem(last=False)
                self._locks.pop(dropped, None)

    # -- alignment --------------------------------------------------------------------------------------
    def _align(
        self, session: Session, messages: Sequence[Mapping[str, Any]], window: _Window | None, known: int, source: str
    ) -> Lineage:
        """Align from the first message that the window does not explain."""
        head: tuple[Entry, ...] = ()
        assembly: Assembly | None = None
        last_seq = self._store.last_seq(session.conversation_id)
        if window is not None and window.lineage.last_seq == last_seq:
            head = window.lineage.entries[:known]
            assembly = window.lineage.assembly
            expected = self._expected_after(window, known)
        else:
            known = 0
            expected = None
        reads = [self._read(message, n + known) for n, message in enumerate(messages[known:])]
        if expected is None:
            assembly = self._assembly_of(messages)
            expected = self._expected(session, assembly)
        theirs = [(n, read) for n, read in enumerate(reads) if read.message is not None or read.ids]
        plan = align([_live(read) for _, read in theirs], expected, self._canonical)
        if plan.unaligned:
            self.unaligned += 1
            plan.retracted = ()  # a foreign list is no proof that the user took anything back
        if session.origin == "branch" and last_seq == 0:
            plan.retracted = self._fork(session, plan.places)
        entries = [Entry(read.ids, read.digest, read.own) for read in reads]
        stored = self._store_new(session, theirs, plan.places, plan.retracted, plan.unaligned, entries, last_seq, source)
        return Lineage((*head, *entries), assembly, last_seq + stored, stored)

    def _read(self, message: Mapping[str, Any], at: int) -> _Read:
        text = message.get("content")
        if isinstance(text, str) and text.startswith("[lcm:"):
            mine = self._read_own(message, text, at)
            if mine is not None:
                return mine
        read = content.read(message)
        return _Read(read, read.digest)

    def _read_own(self, message: Mapping[str, Any], text: str, at: int) -> _Read | None:
        """Our own text: what bears a known nonce in exactly our grammar, where we put it."""
        role = message.get("role")
        if role == "user" and at == 0:
            context = own.read_context(text)
            if context is not None and self._sessions.nonce_owner(context.nonce) is not None:
                if context.rest:
                    rest = content.read(message, text=context.rest)
                    return _Read(rest, rest.digest, "context")
                return _Read(None, b"", "context")
        if role == "assistant" and at == 1:
            carrier = own.read_carrier(text)
            if carrier is not None and self._sessions.nonce_owner(carrier[0]) is not None:
                rest_text = carrier[1]
                if rest_text or message.get("tool_calls"):
                    rest = content.read(message, text=rest_text)
                    return _Read(rest, rest.digest, "carrier")
                return _Read(None, b"", "carrier")
        if role == "tool":
            stub = own.read_stub(text)
            if stub is not None and self._sessions.nonce_owner(stub[0]) is not None:
                row = self._store.heads_of([stub[1]]).get(stub[1])
                if row is not None and row.answers == message.get("tool_call_id"):
                    return _Read(None, row.digest, "stub", (row.store_id,))
        return None

    def _assembly_of(self, messages: Sequence[Mapping[str, Any]]) -> Assembly | None:
        """The assembly that the list's context message names."""
        if not messages:
            return None
        text = messages[0].get("content")
        context = own.read_context(text) if isinstance(text, str) else None
        if context is None or self._sessions.nonce_owner(context.nonce) is None:
            return None
        return self._dag.assembly(context.assembly_id)

    def _expected(self, session: Session, assembly: Assembly | None) -> list[Expected]:
        """What the live list should show: from the conversation's start, or from the tail that an assembly recorded."""
        segments = [Segment(*item) for item in self._sessions.lineage(session.conversation_id)]
        if assembly is None:
            return _thread(self._store.heads(segments))
        after = assembly.last_seq if assembly.conversation_id == session.conversation_id else 0
        heads = self._store.heads(segments if not after else segments[-1:], after_seq=after)
        if not after and assembly.conversation_id != session.conversation_id:
            heads = [row for row in heads if row.seq > assembly.last_seq or row.conversation_id != assembly.conversation_id]
            heads = [row for row in heads if row.conversation_id in _after(segments, assembly.conversation_id)]
        tail = self._store.heads_of(assembly.tail_ids)
        start = [tail[store_id] for store_id in assembly.tail_ids if store_id in tail]
        return _thread([*start, *heads], ordered=True)

    def _expected_after(self, window: _Window, known: int) -> list[Expected]:
        """The rest of the window's list, as expected rows."""
        ids = [store_id for entry in window.lineage.entries[known:] for store_id in entry.ids]
        heads = self._store.heads_of(ids)
        return [
            Expected(row.store_id, row.pos, row.role, row.digest, row.answers)
            for row in (heads[store_id] for store_id in ids if store_id in heads)
        ]

    def _fork(self, session: Session, places: Sequence[Place]) -> tuple[int, ...]:
        """A branch begins behind the last of its parent's messages that it shows; the parent itself loses nothing."""
        shared = self._store.heads_of([store_id for place in places for store_id in place.ids])
        parent = [row.seq for row in shared.values() if row.conversation_id == session.parent_id]
        if parent:
            self._sessions.fork_at(session.conversation_id, max(parent))
        return ()

    def expected(self, session: Session, assembly: Assembly | None) -> list[Expected]:
        """What a live list that shows ``assembly`` (None: no summaries yet) should show behind it."""
        return self._expected(session, assembly)

    def _canonical(self, store_id: int) -> str:
        return content.canonical_text(self._store.text(store_id))

    # -- storing ----------------------------------------------------------------------------------------
    def _store_new(
        self,
        session: Session,
        theirs: Sequence[tuple[int, _Read]],
        places: Sequence[Place],
        retracted: Sequence[int],
        unaligned: bool,
        entries: list[Entry],
        last_seq: int,
        source: str,
    ) -> int:
        """Append what the plan calls new, and write the ids into ``entries``. Returns how many rows were added."""
        rows: list[NewRow] = []
        owners: list[tuple[int, tuple[int, ...]]] = []
        restored, places = self._brought_back(session, theirs, places)
        for (n, read), place in zip(theirs, places, strict=True):
            if not place.new:
                entries[n] = replace(entries[n], ids=place.ids)
                continue
            message = read.message
            if message is None:  # a stub whose row has left the thread: it shows that row all the same
                continue
            if place.rest is not None:
                message = content.read(content.decode(message.envelope), text=place.rest)
            kept = self._through_door(message)
            if kept is None:
                entries[n] = replace(entries[n], ids=place.ids)
                continue
            flags = Flag.UNALIGNED if unaligned else Flag.NONE
            rows.append(NewRow(kept, place.after, place.revises, flags))
            owners.append((n, place.ids))
        if not rows and not retracted and not restored:
            return 0
        ids = self._store.append(
            session.conversation_id, session.session_id, last_seq, rows,
            source=source, now=self._clock(), retract=retracted, restore=restored,
        )  # fmt: skip
        for (n, before), store_id in zip(owners, ids, strict=True):
            entries[n] = replace(entries[n], ids=(*before, store_id))
        return len(ids)

    def _through_door(self, message: Message) -> Message | None:
        return message if self._door is None else self._door(content.decode(message.envelope), message)

    def _brought_back(
        self, session: Session, theirs: Sequence[tuple[int, _Read]], places: Sequence[Place]
    ) -> tuple[list[int], list[Place]]:
        """Rows that the user had taken back and that are shown again are not new."""
        first = next((n for n, place in enumerate(places) if place.new and place.after is None and not place.ids), None)
        out = list(places)
        if first is None:
            return [], out
        retracted = [row for row in self._store.retracted(session.conversation_id) if row.revises is None]
        if not retracted:
            return [], out
        before = next((place.ids[-1] for place in reversed(out[:first]) if place.ids), 0)
        candidates = [row for row in retracted if row.store_id > before]
        restored: list[int] = []
        for n in range(first, len(out)):
            if not candidates or candidates[0].digest != theirs[n][1].digest:
                break
            row = candidates.pop(0)
            restored.append(row.store_id)
            out[n] = Place((row.store_id,))
        return restored, out


# -- pure helpers ------------------------------------------------------------------------------------------
def _common(window: _Window | None, contents: list[Any], calls: list[Any]) -> int:
    """How many leading messages are as they were. List equality compares identity first, in C."""
    if window is None:
        return 0
    size = len(window.contents)
    if len(contents) >= size and contents[:size] == window.contents and calls[:size] == window.calls:
        return size
    n = 0
    for n, (old, new) in enumerate(zip(window.contents, contents, strict=False)):
        if (old is not new and old != new) or window.calls[n] != calls[n]:
            return n
    return min(size, len(contents))


def _live(read: _Read) -> Live:
    if read.message is None:
        return Live("tool", read.digest, None, lambda: "")
    message = read.message
    return Live(message.role, read.digest, message.answers, lambda: content.canonical_text(message.text))


def _thread(heads: Sequence[Any], *, ordered: bool = False) -> list[Expected]:
    """Rows as the live list shows them: revisions in the place of what they revise, nothing that was taken back."""
    latest: dict[int, Any] = {}
    for row in heads:
        if row.revises is not None:
            latest[row.revises] = row
    present = {row.store_id for row in heads}
    out: list[Expected] = []
    for row in heads:
        if row.revises is not None and row.revises in present:
            continue
        shown = row
        while shown.store_id in latest:
            shown = latest[shown.store_id]
        if not shown.flags & Flag.RETRACTED:
            out.append(Expected(shown.store_id, row.pos, shown.role, shown.digest, shown.answers))
    return out


def _after(segments: Sequence[Segment], conversation_id: int) -> set[int]:
    """The conversations of a lineage behind (and with) one of them."""
    names = [segment.conversation_id for segment in segments]
    return set(names[names.index(conversation_id) :]) if conversation_id in names else set(names)
