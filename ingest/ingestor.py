"""
Host messages → stored messages, each exactly once.

Owns the seen lists (what each session's live list looked like last time) and turns alignment plans into appended rows.
Idempotent: every hook may hand over the list as often as it likes. Knows nothing of summaries beyond which text is
our own.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce
from itertools import accumulate, dropwhile, pairwise
from operator import or_
from typing import Any, TypeVar

from ..dag import SummaryDag
from ..errors import Overtaken
from ..records import CONTEXT_ROLE, Assembly, Flag, Message, Stored, ToolCall
from ..session import CLIENTS, Session, Sessions
from ..storage.leases import Leases
from ..store import MessageStore, NewRow
from ..text import content, markers
from ..text import markup as own
from ..text.redact import NAMELESS
from ..text.secret_kinds import REDACTED
from . import host_compressor
from .align import Core, Expected, Live, Place, Plan, Seen, align, core, middle, spaced
from .transcript import (
    UNSEEN,
    Entries,
    Entry,
    FirstMessage,
    FirstMessages,
    Messages,
    Recognised,
    SeenList,
    Transcript,
    Transcripts,
    expected_of,
)

_RETRIES = 5
#: Rows that do not say which parts their message had.
_CHANGED = Flag.REDACTED | Flag.PURGED | Flag.QUARANTINED | Flag.COLLECTED | Flag.PRUNED
OVERHEARS = "telegram"  # the platform of groups whose bot hears what nobody says to it
WORKS_AT = "session:{}"  # the claim of a process that writes to a session
#: Sessions whose lists are remembered, and bytes that all of them take; the others align once when they come back.
_SEEN_LISTS, _BYTES = 256, 50_000_000


@dataclass(frozen=True, slots=True)
class _Read:
    """Live message, recognised. ``core`` is None for text of our own; ``text`` is set for what is glued behind such text.

    ``was``: what it was in another file, where this process saw it before; ``name``: of its row, where that is here too.
    ``parts``: its text with those that the host leaves out after a restart; what says the same without them may have others.
    ``heard``: lines of a group, between line ends, that a gateway put in front of it, where each of them is a row of its own.
    """

    core: content.Said | None
    digest: bytes
    own: str = ""
    ids: tuple[int, ...] = ()
    text: str | None = None
    was: Entry | None = None
    name: bytes = b""
    parts: str = ""
    heard: str = ""


_Row = TypeVar("_Row", Stored, Expected)
WriteFilters = Callable[[Mapping[str, Any], Message], Message | None]
"""What happens to a message on its way into the store: redaction, externalisation, filters. None keeps it out."""


class Ingest:
    """Takes live lists in. One per process and database; thread-safe per session."""

    def __init__(
        self,
        store: MessageStore,
        sessions: Sessions,
        dag: SummaryDag,
        *,
        leases: Leases,
        filters: WriteFilters | None = None,
        named: Callable[[str], str] = str,
        lost: Callable[[Message], bool] = lambda _: False,
        elsewhere: Callable[[], Seen | None] = lambda: None,
    ) -> None:
        """``lost``: whether a file of a message was removed since the filters wrote it. ``elsewhere``: was a row said on another
        host? None: there are no others."""
        self._store = store
        self._sessions = sessions
        self._dag = dag
        self._leases = leases
        self._filters = filters
        self._named = named  # how a name or an id is stored
        self._lost = lost
        self._elsewhere = elsewhere
        self._lock = threading.Lock()
        self.transcripts = Transcripts(store, sessions)
        self._first_messages = FirstMessages(store, sessions, self.transcripts, dag)
        self._seen_lists: OrderedDict[str, SeenList] = OrderedDict()
        self._left: OrderedDict[str, SeenList] = OrderedDict()  # as they were when another file was in use
        self._locks: dict[str, threading.RLock] = {}
        self._joined: set[str] = set()

    # -- entry ----------------------------------------------------------------------------------------
    def ingest_list(
        self,
        session: Session,
        messages: Sequence[Mapping[str, Any]],
        *,
        source: str,
        thorough: bool = True,
        seen: Recognised = UNSEEN,
        alone: bool = True,
    ) -> Transcript:
        """Store what is new in a live list. Raises StoreError; then nothing was stored and the next call does it.

        Without ``thorough`` a change inside an old message may be noticed only by the next thorough call. ``seen``: what
        ``recognise`` said of a list that begins like this one. ``alone``: no other agent of this process works at the session.
        """
        with self._session_lock(session.session_id):
            seen_list = self._seen_lists.get(session.session_id)
            known = 0
            if seen_list is not None:
                known = seen_list.recognise(messages, thorough=thorough, known=seen.still(seen_list))
                if known == len(messages):
                    # The same list, or an earlier state of it, which does not replace the later one.
                    return replace(
                        seen_list.transcript, entries=seen_list.transcript.entries.first(known), stored=0, marks=0
                    )
            if seen_list is None:
                alone = alone and not self._leases.has_others(WORKS_AT.format(session.session_id))
            shown = cache(partial(seen_list.shown_rows, alone=alone)) if seen_list is not None else None
            beside = cache(partial(self._said_beside, session))

            def is_known(row: int) -> bool:
                """Has a list shown it before? One of an earlier process showed all but what was said beside it."""
                return row in shown() if shown is not None else alone and row not in beside()

            transcript, pending = self._aligned(session, messages, seen_list, known, source, is_known)
            if seen_list is None:
                seen_list = SeenList.of(messages, transcript, pending, is_known)
            else:
                seen_list.learn(messages, known, transcript, pending)
            self._remember(session.session_id, seen_list)
            return transcript

    def _said_beside(self, session: Session) -> frozenset[int]:
        """Rows that other hosts said behind what this one had said: its lists may never have shown them."""
        is_elsewhere = self._elsewhere()
        if is_elsewhere is None:
            return frozenset()
        rows = [item.store_id for item in self.transcripts.expected(session, None)]
        return frozenset(filter(is_elsewhere, dropwhile(is_elsewhere, rows)))

    def begin_anew(self, session: Session, messages: Messages) -> None:
        """The user has taken back all there was: the conversation begins again, with these. Raises StoreError."""
        with self._session_lock(session.session_id):
            rows = [item.store_id for item in self.transcripts.expected(session, None)]
            reads = [self._read(message, n, frozenset(), FirstMessage()) for n, message in enumerate(messages)]
            retract = self.transcripts.own_rows(session, self._gone(session, rows, reads))
            if retract:
                last = self._store.last_seq(session.conversation_id)
                self._store.append(
                    session.conversation_id, session.session_id, last, [], source="", now=time.time(), retract=retract,
                )  # fmt: skip
            self.forget(session.session_id)

    def recognise(self, session_id: str, messages: Sequence[Mapping[str, Any]], *, thorough: bool) -> Recognised:
        """Number of leading messages that are those of the session's last list; the rest may hold what is no message."""
        if session_id not in self._seen_lists:
            return UNSEEN
        with self._session_lock(session_id):
            seen_list = self._seen_lists.get(session_id)
            if seen_list is None:
                return UNSEEN
            return Recognised(seen_list.recognise(messages, thorough=thorough), seen_list, seen_list.version)

    def _aligned(
        self, session: Session, messages: Messages, seen_list: SeenList | None, known: int, source: str, seen: Seen
    ) -> tuple[Transcript, tuple[Expected, ...]]:
        """Align, and again from the start when another writer was faster; at last with nobody else writing."""
        for _ in range(_RETRIES - 1):
            try:
                return self._align(session, messages, seen_list if known else None, known, source, seen)
            except Overtaken:
                seen_list, known = None, 0
        with self._store.writing():
            return self._align(session, messages, None, 0, source, seen)

    def forget(self, session_id: str) -> None:
        """Drop the list that was seen last of a session; the next list is aligned against the store."""
        with self._lock:
            self._seen_lists.pop(session_id, None)
            self._left.pop(session_id, None)

    def only_read(self, session_id: str) -> None:
        """The last list was read in the host's file, and may hold what another process has said since the agent's own was loaded:
        where one works at the session, it does not count as shown."""
        if self._leases.has_others(WORKS_AT.format(session_id)):
            self.forget(session_id)

    def ended(self, session_id: str) -> None:
        """A session is over for the host: its list is let go. One that goes on after all is aligned against the store."""
        self.forget(session_id)
        with self._lock:
            lock = self._locks.get(session_id)
            if lock is not None and lock.acquire(blocking=False):  # nobody works at it
                del self._locks[session_id]
                lock.release()
        if session_id in self._joined:
            self._joined.discard(session_id)
            self._leases.leave(WORKS_AT.format(session_id))

    @property
    def busy(self) -> bool:
        """Is any session's list remembered? Its session has not ended."""
        return bool(self._seen_lists)

    def forget_all(self) -> None:
        """Drop every seen list: the database is another one than it was. When their rows were stored is still known."""
        with self._lock:
            self._left.update(self._seen_lists)
            _trim(self._left)
            self._seen_lists.clear()
            self._joined.clear()

    def knows(self, session_id: str) -> bool:
        """Has this process seen a live list of the session?"""
        return session_id in self._seen_lists

    def last_seen(self, session_id: str) -> tuple[Sequence[Mapping[str, Any]], Transcript] | None:
        """The live list of a session as it was handed over last, and what its messages are."""
        seen_list = self._seen_lists.get(session_id)
        return (seen_list.objects, seen_list.transcript) if seen_list is not None else None

    def _session_lock(self, session_id: str) -> threading.RLock:
        with self._lock:
            return self._locks.setdefault(session_id, threading.RLock())

    def _remember(self, session_id: str, seen_list: SeenList) -> None:
        with self._lock:
            self._left.pop(session_id, None)
            self._seen_lists[session_id] = seen_list
            self._seen_lists.move_to_end(session_id)
            _trim(self._seen_lists)

    # -- alignment --------------------------------------------------------------------------------------
    def _align(
        self, session: Session, messages: Messages, seen_list: SeenList | None, known: int, source: str, seen: Seen, *,
        roomy: bool = False,
    ) -> tuple[Transcript, tuple[Expected, ...]]:  # fmt: skip
        """Align from the first message that the seen list does not explain. ``seen``: which rows its list has shown before.

        ``roomy``: what could be respaced was.
        """
        ancestry = self.transcripts.conversations(session)
        first_message = (
            self._first_messages.first_message(session, messages, ancestry) if seen_list is None else FirstMessage()
        )
        if seen_list is not None:
            shown = seen_list.transcript
            head, assembly, last_seq = shown.entries.first(known), shown.assembly, shown.last_seq
            expected, before = self._expected_after(seen_list, known)
        else:
            known, head, before, assembly = 0, Entries([]), 0.0, first_message.assembly
            last_seq = self._store.last_seq(session.conversation_id)
            expected = self._behind(assembly, self.transcripts.listed(session, assembly))
        reads = self._reads(session, messages, known, expected, ancestry, first_message)
        reads = self._as_stored(_said_by_others(reads, messages[known:], known, head, expected), expected)
        reads = _named_by_rows(reads, self._was(session, messages) if seen_list is None else (), expected)
        rows, reads = self._by_parts(_by_name(expected, reads), reads)
        theirs = [(n, read) for n, read in enumerate(reads) if read.core is not None or read.ids]
        shared = session.platform.lower() == CLIENTS and session.unclaimed
        plan = self._placed(theirs, rows, first_message, before, seen, shared=shared)
        if seen_list is not None and expected and any(place.new for place in plan.places):
            # The seen list lacks what the host left out before; what looks new may be that, shown by somebody with an older list.
            return self._align(session, messages, None, 0, source, seen)
        if not shared:
            _moved(plan, theirs, rows, seen)
        if not roomy and (crowds := _crowds(plan, expected, before)):
            self._respace(session, crowds)
            return self._align(session, messages, None, 0, source, seen, roomy=True)
        # A list that bears our context message is not foreign: behind it the user may have taken back all that the prompt showed.
        gone = self._gone(session, plan.retracted, reads)
        unaligned = known == 0 and plan.unaligned and assembly is None and (bool(gone) or not plan.retracted)
        forked = session.origin == "branch" and known == 0 and self.transcripts.fork(session, plan.places)
        if forked:
            last_seq = self._store.last_seq(session.conversation_id)
        # A foreign list is no proof that the user took anything back.
        plan.retracted = self.transcripts.own_rows(session, () if unaligned or forked else gone)
        entries = [Entry(read.ids, read.digest, read.own) for read in reads]
        last_known = next((entry.ids[-1] for entry in reversed(head) if entry.ids), 0)
        changes = _Changes(messages[known:], theirs, plan, unaligned, last_known, first_message.kind == "unknown",
                           assembly, {item.store_id: item for item in expected}, self._again(session, messages))  # fmt: skip
        stored, marks = self._store_new(session, changes, entries, last_seq, source)
        leftover = tuple(changes.rows[item.store_id] for item in plan.leftover)
        return Transcript(head.followed_by(entries), assembly, last_seq + stored, stored, marks), leftover

    def _gone(self, session: Session, retracted: Sequence[int], theirs: Sequence[_Read]) -> tuple[int, ...]:
        """Rows that were taken back. Not those that a gateway takes out of the list to put their words into a later message."""
        if not retracted or session.platform.lower() != OVERHEARS:
            return tuple(retracted)
        cores = self._cores(retracted)
        texts = [
            *(read.core.text for read in theirs if read.core is not None),
            *(each.text for each in cores.values()),
        ]
        heard = "".join([*(read.heard for read in theirs), *map(_heard, texts)])
        moved = {i for i, each in cores.items() if f"\n{each.text}\n" in heard and markers.speaker(each.text)[0]}
        return tuple(i for i in retracted if i not in moved)

    def _was(self, session: Session, messages: Messages) -> Sequence[Entry]:
        """The first messages of a list as this process saw them, in another file or before another writer was faster."""
        left = self._left.get(session.session_id) or self._seen_lists.get(session.session_id)
        return left.known(messages) if left is not None else ()

    def _again(self, session: Session, messages: Messages) -> int:
        """Number of leading messages of a list that may be in another file, too: nobody said them since this one is in use."""
        if session.session_id in self._seen_lists:
            return 0
        left = self._left.get(session.session_id)
        return len(left.objects) if left is not None else len(messages)

    def _placed(
        self,
        theirs: Sequence[tuple[int, _Read]],
        expected: Sequence[Expected],
        first_message: FirstMessage,
        before: float,
        seen: Seen,
        *,
        shared: bool,
    ) -> Plan:
        """The plan for a list. A context message of unknown origin at its head is aligned with nothing but itself.

        It stands for what lay before the first message behind it that is known: there it goes.
        """
        if first_message.kind != "unknown":
            live, assembly = [self._live(read) for _, read in theirs], first_message.assembly
            if assembly is not None and live and expected and live[0].digest != expected[0].digest:
                # A request that stays may stand in front of what is covered; what comes before it has its place there.
                before = min(self._covered(assembly), math.ceil(expected[0].pos) - 1.0)
            return align(live, expected, self._cores, before=before, seen=seen, shared=shared, named=self._named)
        row = first_message.row
        others = [item for item in expected if row is None or item.store_id != row.store_id]
        rest = [self._live(read) for _, read in theirs[1:]]
        behind = [item for item in others if row is not None and item.pos > row.pos]
        if rest and behind and behind[0].digest == rest[0].digest:
            others = behind
        else:
            others = others[len(others) - _overlap(rest, others) :]
        plan = align(rest, others, self._cores, before=before, seen=seen, named=self._named)
        first = next((place.ids[0] for place in plan.places if place.ids), None)
        if row is not None:
            plan.places.insert(0, Place((row.store_id,)))
        elif first is None:
            plan.places.insert(0, Place(new=True))
        else:
            at = next(n for n, item in enumerate(expected) if item.store_id == first)
            plan.places.insert(0, Place(new=True, pos=middle(expected[at - 1].pos if at else 0.0, expected[at].pos)))
        plan.unaligned = plan.unaligned and row is None
        return plan

    def _respace(self, session: Session, crowds: Sequence[int]) -> None:
        """Make room behind whole positions; every seen list may name the old ones."""
        own_id = session.conversation_id
        with self._store.writing():
            for whole in crowds:
                rows = self._store.between(own_id, whole)
                fixed = self.transcripts.inherited_between(session, whole)
                places = spaced([pos for _, pos in rows], whole, fixed)
                self._store.move([(store_id, places[pos]) for store_id, pos in rows])
                self._dag.moved(own_id, whole, places)
                self._sessions.respaced(own_id, whole, places)
        self.forget_all()

    def _reads(
        self, session: Session, messages: Messages, known: int, expected: Sequence[Expected], ancestry: frozenset[int],
        first_message: FirstMessage,
    ) -> list[_Read]:  # fmt: skip
        new = messages[known:]
        reads = [self._read(message, n, ancestry, first_message) for n, message in enumerate(new, known)]
        for n in _written_twice(messages, known):
            reads[n - known] = _Read(None, b"", "copy")
        if session.platform.lower() != OVERHEARS:
            return reads
        stored, prompt = {item.digest for item in expected}, first_message.assembly
        out = [_addressed(read, message, stored) for read, message in zip(reads, new, strict=True)]
        if prompt is not None and any(_heard(read.core.text) for read in out if read.core is not None):
            covered = self._store.heads_of(self._dag.messages_below(prompt.roots))
            stored.update(row.digest for row in covered.values())
            out = [_addressed(read, message, stored) for read, message in zip(reads, new, strict=True)]
        return out

    def _read(
        self, message: Mapping[str, Any], at: int, ancestry: frozenset[int], first_message: FirstMessage
    ) -> _Read:
        text = message.get("content")
        if at == 0 and first_message.kind == "overwritten":
            return _Read(None, b"", "context")
        if isinstance(text, str) and (shown := markers.unstamped(text)).startswith("[lcm:"):
            mine = self._read_own(message, shown, at, ancestry, first_message)
            if mine is not None:
                return mine
        core = content.canonical_core(message)
        return _Read(core, core.digest, parts=content.whole_text(text))

    def _read_own(
        self, message: Mapping[str, Any], text: str, at: int, ancestry: frozenset[int], first_message: FirstMessage
    ) -> _Read | None:
        """Our own text: what bears this conversation's nonce in exactly our grammar, where we put it."""
        role = message.get("role")
        if at == 0 and first_message.kind == "ours":
            context = own.read_context(text)
            assert context is not None
            return self._glued_behind(message, "context", context.rest)
        if at == 1 and first_message.kind == "unknown" and text == own.carrier(first_message.nonce):
            return _Read(None, b"", "carrier")  # it came with the context message that nobody knows
        if role in ("user", "assistant") and at:  # behind the context message, and where archived messages left a gap
            carrier = own.read_carrier(text)
            if carrier is not None and self._first_messages.is_ours(carrier[0], ancestry):
                return self._glued_behind(message, "carrier", carrier[1])
        if role == "tool":
            stub = own.read_stub(text)
            if stub is not None and self._first_messages.is_ours(stub[0], ancestry):
                row = self._store.heads_of([stub[1]]).get(stub[1])
                if row is not None and row.tool_call_id in self._stored_as(str(message.get("tool_call_id"))):
                    return _Read(None, row.digest, "stub", (row.store_id,))
        return None

    @staticmethod
    def _glued_behind(message: Mapping[str, Any], kind: str, rest: str) -> _Read:
        """Text (or calls) that the host joined to ours is a message of its own."""
        if not rest and not message.get("tool_calls"):
            return _Read(None, b"", kind)
        core = content.canonical_core(message, text=rest)
        return _Read(core, core.digest, kind, (), rest)

    def _as_stored(self, reads: list[_Read], expected: Sequence[Expected]) -> list[_Read]:
        """Messages in their stored form that come back in another: cut by the host's compressor, redacted by a prompt of ours."""
        reads = self._as_rewritten(reads, expected)
        if not any(read.core is not None and _redacted(read.core) for read in reads):
            return reads
        heads = self._store.heads_of([item.store_id for item in expected])
        rows, _ = self._store.legible([row.store_id for row in heads.values() if row.flags & Flag.REDACTED])
        known = {self._digest(content.canonical_core(row.stored_json)): row.head.digest for row in rows}
        shown = [self._digest(read.core) if read.core is not None and _redacted(read.core) else b"" for read in reads]
        found = [known.get(name) or known.get(read.digest) for name, read in zip(shown, reads, strict=True)]
        as_said = {item.digest for item in expected}  # somebody may quote a placeholder before there is a secret for it
        return [
            replace(read, digest=digest) if digest and read.digest not in as_said else read
            for digest, read in zip(found, reads, strict=True)
        ]

    def _digest(self, core: content.Said) -> bytes:
        """Identity of a message under the names and ids that are stored."""
        calls = [replace(call, id=self._named(call.id), name=self._named(call.name)) for call in core.calls]
        tool_call_id = core.tool_call_id and self._named(core.tool_call_id)
        return content.digest(self._named(core.role), core.text, calls, tool_call_id)

    def _stored_as(self, tool_call_id: str | None) -> tuple[str | None, ...]:
        """Id of a call as a row has it: as it is or, once it was redacted, without its secret."""
        return (content.storable(tool_call_id), content.storable(tool_call_id and self._named(tool_call_id)))

    def _live(self, read: _Read) -> Live:
        said = read.core
        if said is None:
            return Live("tool", read.name or read.digest, None, lambda: Core(""))
        words = read.parts or said.text
        return Live(
            said.role, read.name or _with_parts(read), said.tool_call_id,
            lambda: core(said.role, words, said.calls, self._named), read.heard,
        )  # fmt: skip

    def _as_rewritten(self, reads: list[_Read], expected: Sequence[Expected]) -> list[_Read]:
        """Messages that are here whole, by what the host's own compressor made of them; the user's newest is never its work."""
        if not expected:
            return reads
        known = {item.digest for item in expected}
        out = list(reads)
        pruned: dict[int, content.Said] = {}
        for n, read in enumerate(reads):
            if read.core is None or read.digest in known or (n == len(reads) - 1 and read.core.role == "user"):
                continue
            was = host_compressor.before(read.core.text)
            core = read.core if was is not None and was.moved else host_compressor.unglued(read.core)
            if core.digest in known:
                out[n] = replace(read, digest=core.digest)
            elif host_compressor.is_pruned(core):
                pruned[n] = core
        for n, digest in self._uncut(pruned, expected).items() if pruned else ():
            out[n] = replace(out[n], digest=digest)
        for n, calls in self._left_out(out, expected).items():
            said = out[n].core
            assert said is not None
            whole = replace(said, calls=calls, digest=content.digest(said.role, said.text, calls, said.tool_call_id))
            out[n] = replace(out[n], core=whole, digest=whole.digest)
        return out

    def _left_out(self, reads: Sequence[_Read], expected: Sequence[Expected]) -> dict[int, tuple[ToolCall, ...]]:
        """The calls of replies that are shown without them and their results, as gateways before 0.19 clean a list.

        Only in front of a message that is known: what a model says last is new.
        """
        bare = host_compressor.without_calls([read.core for read in reads], {item.digest for item in expected})
        if not bare:
            return {}
        rows, _ = self._store.legible([item.store_id for item in expected if item.role == "assistant"])
        shown = {read.core.tool_call_id for read in reads if read.core is not None}
        hidden = {
            row.store_id: row
            for row in rows
            if not shown.intersection(each for call in row.calls for each in self._stored_as(call.id))
        }
        stored = [
            (item.digest, content.canonical_text(hidden[item.store_id].text) if item.store_id in hidden else None)
            for item in expected
        ]
        found = host_compressor.with_calls([read.digest for read in reads], bare, stored)
        return {
            n: tuple(call for j in places for call in hidden[expected[j].store_id].calls) for n, places in found.items()
        }

    def _uncut(self, pruned: Mapping[int, content.Said], expected: Sequence[Expected]) -> dict[int, bytes]:
        """The digests of the messages that shortened ones stand for, where they are among those that the list should show."""
        cut = {each for said in pruned.values() if said.role == "tool" for each in self._stored_as(said.tool_call_id)}
        calling = any(said.role == "assistant" for said in pruned.values())
        some = {
            item.store_id: item
            for item in expected
            if (item.role == "tool" and item.tool_call_id in cut) or (calling and item.role == "assistant")
        }
        rows, _ = self._store.legible(list(some))
        out: dict[int, bytes] = {}
        for n, said in pruned.items():
            rivals = [
                host_compressor.Original(row.store_id, row.text, row.calls)
                for row in rows
                if row.head.role == said.role and row.head.tool_call_id in self._stored_as(said.tool_call_id)
            ]
            whole = host_compressor.original(said, rivals)
            if whole is not None:
                out[n] = some[whole].digest
        return out

    def _by_parts(self, expected: Sequence[Expected], reads: list[_Read]) -> tuple[Sequence[Expected], list[_Read]]:
        """Rows and messages that are compared with their parts, where messages have some that the host leaves out later."""
        shown = {_with_parts(read) for read in reads if read.parts}
        words = {read.digest for read in reads if read.parts}
        if not words:
            return expected, reads
        parts = self._parts([item.store_id for item in expected if item.digest in words])
        unclear = {item.digest for item in expected if item.digest in words and item.store_id not in parts}
        reads = [replace(read, parts="") if read.digest in unclear else read for read in reads]
        names = [_with_parts(_Read(None, item.digest, parts=parts.get(item.store_id, ""))) for item in expected]
        return [
            replace(item, digest=name) if name in shown and item.digest not in unclear else item
            for item, name in zip(expected, names, strict=True)
        ], reads

    def _parts(self, store_ids: Sequence[int]) -> dict[int, str]:
        """Texts of rows with what the host leaves out of them after a restart; not of those of which nobody knows it any more."""
        rows = [row for row in self._store.legible(store_ids)[0] if not row.head.flags & _CHANGED] if store_ids else []
        return {row.store_id: content.whole_text(row.stored_json.get("content")) for row in rows}

    def _expected_after(self, seen_list: SeenList, known: int) -> tuple[list[Expected], float]:
        """The rest of the seen list as expected rows, and the position of the row in front of them."""
        ids = [store_id for entry in seen_list.transcript.entries[known:] for store_id in entry.ids]
        if not ids and not seen_list.pending:
            return [], 0.0
        last = next((entry.ids[-1:] for entry in reversed(seen_list.transcript.entries.first(known)) if entry.ids), ())
        heads = self._store.heads_of([*ids, *last])
        rest = [expected_of(row, row.pos) for row in (heads[store_id] for store_id in ids if store_id in heads)]
        return [*rest, *seen_list.pending], heads[last[0]].pos if last and last[0] in heads else 0.0

    def _cores(self, store_ids: Sequence[int]) -> dict[int, Core]:
        """Cores of rows, for the search for joined and edited ones."""
        cores = dict.fromkeys(store_ids, Core(""))
        for row in self._store.legible(store_ids)[0]:  # a damaged one is no reason to store none of the others
            cores[row.store_id] = core(row.head.role, row.text, row.calls, self._named)
        return cores

    # -- storing ----------------------------------------------------------------------------------------
    def _store_new(
        self, session: Session, changes: _Changes, entries: list[Entry], last_seq: int, source: str
    ) -> tuple[int, int]:
        """Append what the plan calls new, and write the ids into ``entries``: how many rows were added, and their flags."""
        restored, places = self._brought_back(session, changes)
        # Behind a context message of unknown origin words alone say which rows these are: in another file that would be a proof.
        guessed = changes.unknown_context and bool(places) and places[0].new
        rows: list[NewRow] = []
        owners: list[tuple[int, tuple[int, ...]]] = []
        for (n, read), place in zip(changes.theirs, places, strict=True):
            if place.ids:
                known = changes.rows.get(place.ids[0]) if len(place.ids) == 1 else None
                at = known.stored_at if known is not None and not guessed else 0.0
                entries[n] = replace(entries[n], ids=place.ids, stored_at=at)
            if not place.new or read.core is None:  # a stub whose row has left the thread still shows that row
                continue
            message = changes.messages[n]
            kept = self._filtered(message, self._whole(message, read, place))
            if kept is not None:
                flags = changes.flags(n)
                if flags & Flag.IMPORTED and not own.glued(read.core.text):
                    kept = replace(kept, role=CONTEXT_ROLE)
                was = read.was if place.rest is None else None
                rows.append(
                    NewRow(kept, place.pos, place.revises, flags, *((was.ids[0], was.stored_at) if was else ()))
                )
                owners.append((n, place.ids))
        if not rows and not changes.plan.retracted and not restored:
            return 0, Flag.NONE
        first = owners[0][0] if owners else 0
        joins, now = session.session_id not in self._joined, time.time()
        in_files = [row.message for row in rows if row.message.files]
        with self._store.writing() if joins or in_files else nullcontext():
            ids = self._store.append(
                session.conversation_id, session.session_id, last_seq, rows, source=source, now=now,
                retract=changes.plan.retracted, restore=restored, previous_text=self._end_before(first, entries),
            )  # fmt: skip
            if any(map(self._lost, in_files)):
                raise Overtaken(
                    f"a file of a message of {session.session_id!r} was removed meanwhile; it is written again"
                )
            if joins:
                self._leases.join(WORKS_AT.format(session.session_id))
        self._joined.add(session.session_id)
        for (n, before), row, store_id in zip(owners, rows, ids, strict=True):
            at = 0.0 if before else row.stored_at or now
            entries[n] = replace(entries[n], ids=(*before, store_id), stored_at=at)
        return len(ids), reduce(or_, (row.flags for row in rows), Flag.NONE)

    def _end_before(self, n: int, entries: Sequence[Entry]) -> str | None:
        """End of the row in front of message ``n``; None where that is not in this part.

        As it is stored: what the host shows may hold secrets, and what was never stored has no place in the index.
        """
        return None if n == 0 else self._store.end_of(entries[n - 1].ids[-1]) if entries[n - 1].ids else ""

    @staticmethod
    def _whole(message: Mapping[str, Any], read: _Read, place: Place) -> Message:
        """All of a new message, or of the new part of one that the host glued together."""
        text = place.rest if place.rest is not None else read.text
        return content.read_message(message, text=text, core=None if place.rest is not None else read.core)

    def _filtered(self, message: Mapping[str, Any], read: Message) -> Message | None:
        if self._filters is None:
            return read
        said = markers.overheard(text)[1] if isinstance(text := message.get("content"), str) else text
        return self._filters({**message, "content": said} if said != text else message, read)

    def _behind(self, assembly: Assembly | None, rows: list[_Row]) -> list[_Row]:
        """Rows that a list with this prompt can show (again): what lies under its summaries only if it came there since."""
        tail = set(assembly.tail_ids) if assembly is not None else set[int]()
        if assembly is None or all(row.pos > assembly.last_pos or row.store_id in tail for row in rows):
            return rows
        covered, made = self._covered(assembly), assembly.created_at
        return [row for row in rows if row.pos > covered or row.store_id in tail or row.stored_at >= made]

    def _covered(self, assembly: Assembly) -> float:
        """Position of the last row under the summaries of a prompt."""
        return max((node.last_pos for node in self._dag.nodes(assembly.roots)), default=0.0)

    def _brought_back(self, session: Session, changes: _Changes) -> tuple[list[int], list[Place]]:
        """Rows that the user had taken back and that are shown again are not new."""
        places = list(changes.plan.places)
        new = {n for n, place in enumerate(places) if place.new and not place.ids and place.rest is None}
        if not new:
            return [], places
        retracted = self._behind(changes.assembly, self.transcripts.taken_back(session))
        if not retracted:
            return [], places
        heads = self._store.heads_of([*(i for place in places for i in place.ids), changes.last_known])
        shown = [[heads[i].pos for i in place.ids if i in heads] for place in places]
        until = [*accumulate(reversed([min(each, default=math.inf) for each in shown]), min)][::-1]
        at = heads[changes.last_known].pos if changes.last_known in heads else 0.0
        restored: list[Stored] = []
        for n, positions in enumerate(shown):
            at = max([at, *positions])
            if n not in new:
                continue
            read = changes.theirs[n][1]
            same = [row for row in retracted if at < row.pos < until[n] and row.digest == read.digest]
            parts = self._parts([row.store_id for row in same]) if read.parts else {}
            found = next((row for row in same if parts.get(row.store_id, read.parts) == read.parts), None)
            if found is not None:
                restored.append(found)
                if (instead := places[n].revises) is not None:  # what was said in its place is taken back for it
                    changes.plan.retracted += self.transcripts.own_rows(session, [instead])
                places[n], at = Place((found.store_id,)), found.pos
            elif until[n] == math.inf:  # behind the last row: what follows the first new message was said anew
                break
        if restored:
            heads.update({row.store_id: row for row in restored})
            _between(places, [[heads[i].pos for i in place.ids if i in heads] for place in places])
        return self.transcripts.inherit_again(session, retracted, restored), places


@dataclass(frozen=True, slots=True)
class _Changes:
    """The part of a live list that had to be aligned, and what came of it. ``theirs``: (place in it, what it is)."""

    messages: Messages
    theirs: Sequence[tuple[int, _Read]]
    plan: Plan
    unaligned: bool
    last_known: int  # the row in front of this part, 0 if there is none
    unknown_context: bool = False  # the first message is a context message of ours that no prompt explains
    assembly: Assembly | None = None  # the prompt that the list begins with
    rows: Mapping[int, Expected] = field(default_factory=dict)  # that the list should show
    again: int = 0  # so many messages were shown before, perhaps to another file

    def flags(self, n: int) -> int:
        """Flags of the row of message ``n``."""
        again = Flag.SHOWN if n < self.again else Flag.NONE
        if n == 0 and self.unknown_context:
            return again | Flag.IMPORTED
        return again | (Flag.UNALIGNED if self.unaligned else Flag.NONE)


def _between(places: list[Place], shown: Sequence[Sequence[float]]) -> None:
    """Give new messages positions between those that stand around them. ``shown``: positions of the rows that places show."""
    until = [*accumulate(reversed([min(each, default=math.inf) for each in shown]), min)][::-1]
    at = 0.0
    for n, place in enumerate(places):
        if place.new and place.pos is not None and place.revises is None and not at < place.pos < until[n] < math.inf:
            places[n] = place = replace(place, pos=middle(at, until[n])) if until[n] < math.inf else place
        at = max([at, *shown[n], *([place.pos] if place.pos is not None else [])])


# -- pure helpers ------------------------------------------------------------------------------------------
def _overlap(live: Sequence[Live], stored: Sequence[Expected]) -> int:
    """Number of rows at the end of what is stored with which a list of unknown place begins, as many as there can be."""
    mine, theirs = [item.digest for item in live], [item.digest for item in stored]
    sizes = range(min(len(mine), len(theirs)), 0, -1)
    return next((size for size in sizes if mine[0] == theirs[-size] and mine[:size] == theirs[-size:]), 0)


def _trim(seen_lists: OrderedDict[str, SeenList]) -> None:
    """Let the oldest seen lists go where there are too many; their locks stay: somebody may hold one."""
    taken = sum(each.size for each in seen_lists.values())
    while len(seen_lists) > 1 and (len(seen_lists) > _SEEN_LISTS or taken > _BYTES):
        taken -= seen_lists.popitem(last=False)[1].size


def _named_by_rows(reads: Sequence[_Read], before: Sequence[Entry], expected: Sequence[Expected]) -> list[_Read]:
    """Messages that this process saw in another file, with the rows here that they are, by when they were stored.

    ``before``: what the first messages were there. One that has no such row here may have one that was stored at another time;
    so may those that were stored in one go with the same words, where not all of them are here.
    """
    often = Counter(_name(was.digest, was.stored_at) for was in before)
    here = Counter(_name(item.digest, item.stored_at) for item in expected) if before else Counter[bytes]()
    names = {name for name, count in here.items() if count == often[name]}
    out = list(reads)
    for n, (read, was) in enumerate(zip(reads, before, strict=False)):
        if read.core is not None and not read.own and was.stored_at and was.digest == read.digest:
            name = _name(was.digest, was.stored_at)
            out[n] = replace(read, was=was, name=name if name in names else b"")
    return out


def _by_name(expected: Sequence[Expected], reads: Sequence[_Read]) -> Sequence[Expected]:
    """Rows that are compared by their names where a message has one: equal words are no proof then."""
    names = {read.name for read in reads if read.name}
    if not names:
        return expected
    rows = [(item, _name(item.digest, item.stored_at)) for item in expected]
    return [replace(item, digest=name) if name in names else item for item, name in rows]


def _with_parts(read: _Read) -> bytes:
    """Digest of a message, followed by its text with the parts that the host leaves out after a restart."""
    return read.digest + read.parts.encode("utf-8", "surrogatepass")


def _name(digest: bytes, stored_at: float) -> bytes:
    """Name of a row that is the same in each file that holds it: its digest, and when it was first stored."""
    return b"%b %r" % (digest, stored_at)


def _said_by_others(
    reads: list[_Read], messages: Messages, known: int, head: Iterable[Entry], expected: Sequence[Expected]
) -> list[_Read]:
    """Copies of our own text are what somebody said.

    A carrier never ends a list but behind the context message or in a gap, and no copy of it that was stored is ours; a stub
    stands for its message once.
    """
    if all(read.own not in ("carrier", "stub") for read in reads):
        return reads
    rows = {item.digest for item in expected}
    shown = {store_id for entry in head for store_id in entry.ids}
    out = []
    for n, read in enumerate(reads):
        said = content.canonical_core(messages[n]) if read.own in ("carrier", "stub") else None
        if said is not None and read.own == "carrier":
            ends = n == len(reads) - 1 and not (n and _joined(reads[n - 1].digest, expected))
            copied = n + known > 1 and (ends or said.digest in rows)
        else:
            copied = said is not None and read.ids[0] in shown
        if said is not None and copied:
            read = _Read(said, said.digest)
        shown.update(read.ids)
        out.append(read)
    return out


def _written_twice(messages: Messages, known: int) -> list[int]:
    """Places, from ``known`` on, of messages that have the words of one before them and, to the microsecond, its time.

    Host 0.19 writes a resumed list into its file once more when another session is resumed before anything is said. Whole seconds
    are no proof (some platforms know no others), nor is a time that other words have, too: a list that is written anew gets one.
    """
    if all(content.said_at(message) is None for message in messages[known:]):
        return []
    of_a_time: dict[float, list[int]] = {}
    for n, message in enumerate(messages):
        if (at := content.said_at(message) or 0.0) % 1:
            of_a_time.setdefault(at, []).append(n)
    out = []
    for places in of_a_time.values():
        if not (again := [n for n in places[1:] if n >= known]):
            continue
        first = content.canonical_core(messages[places[0]]).digest
        if all(content.canonical_core(messages[n]).digest == first for n in places[1:]):
            out += again
    return out


def _addressed(read: _Read, message: Mapping[str, Any], stored: Collection[bytes]) -> _Read:
    """Message to the bot without the lines of the group in front of it, where each of them is a row."""
    text = message.get("content")
    if read.core is None or read.own or not isinstance(text, str) or not (heard := _heard(text)):
        return read
    if not markers.only_says(text, lambda line: content.digest("user", line) in stored):
        return read
    said = content.canonical_core(message, text=markers.overheard(text)[1])
    if not said.text.strip():
        return read
    return _Read(said, said.digest, text=said.text, heard=heard)


def _heard(text: str) -> str:
    """Lines of a group that a gateway put in front of a message, between line ends; "" without them."""
    heard = markers.overheard(text)[0]
    return f"\n{content.canonical_text(heard)}\n" if heard else ""


def _joined(digest: bytes, expected: Sequence[Expected]) -> bool:
    """Is a row followed by one of its role? What stood between such two is in the context message, and a carrier in its place."""
    return any(row.digest == digest and row.role == after.role for row, after in pairwise(expected))


def _redacted(core: content.Said) -> bool:
    if ("[" in core.text and REDACTED in core.text) or NAMELESS in (core.tool_call_id or ""):
        return True
    return any(REDACTED in call.arguments or NAMELESS in call.id or NAMELESS in call.name for call in core.calls)


def _crowds(plan: Plan, expected: Sequence[Expected], before: float) -> list[int]:
    """Whole positions with no room left behind them for a row that the plan puts between others."""
    taken = {before, *(item.pos for item in expected)}
    out: set[int] = set()
    for pos in [place.pos for place in plan.places if place.pos is not None and place.revises is None]:
        if pos in taken:
            out.update((int(pos), int(pos) - 1) if pos == int(pos) else (int(pos),))
        taken.add(pos)
    return sorted(out)


def _moved(plan: Plan, theirs: Sequence[tuple[int, _Read]], expected: Sequence[Expected], seen: Seen) -> None:
    """Match messages of two agents at once that stand in another order in each of their lists: they are not new for that.

    But the user's newest words are: they are never somebody else's. Nothing to do where all ``expected`` rows were shown before.
    """
    if all(seen(item.store_id) for item in expected):
        return
    placed = {store_id for place in plan.places for store_id in place.ids}
    shown = dropwhile(lambda item: item.store_id not in placed, expected)
    left: dict[bytes, list[int]] = {}
    for item in dropwhile(lambda item: item.store_id in placed, shown):  # what lies in front was said before
        if item.store_id not in placed:
            left.setdefault(item.digest, []).append(item.store_id)
    for n, (place, (_, read)) in enumerate(zip(plan.places, theirs, strict=True)):
        asked = n == len(theirs) - 1 and read.core is not None and read.core.role == "user"
        said = read.name or _with_parts(read)
        if place.new and not place.ids and place.rest is None and not asked and left.get(said):
            plan.places[n] = Place((left[said].pop(0),))
    placed.update(store_id for place in plan.places for store_id in place.ids)
    plan.retracted = tuple(store_id for store_id in plan.retracted if store_id not in placed)
