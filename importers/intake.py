"""
Taking the messages of another store in: each once, in their places, beside what is here already.

Rows come in the order in which the other store has them. What repeats earlier rows there is found by ``replays``; what is here
already (because the session was live here) is found by aligning, as ingest does; the rest is appended in short transactions, each
with its notes in the ledger. Never takes anything back, and never changes a row that is here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import inf
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ..errors import Overtaken
from ..ingest import host_compressor
from ..ingest.align import Core, Expected, Live, Place, Plan, align, core
from ..ingest.ingestor import WORKS_AT
from ..ingest.transcript import Transcripts
from ..records import Assembly, Flag, Stored
from ..session import Segment, Session
from ..storage.files import Progress, silent
from ..storage.leases import Leases
from ..store import NewRow
from ..text import content
from ..text import markup as own
from . import replays
from .interleave import Mark, interleave
from .ledger import MESSAGE, PRESENT, Ledger, Source
from .replays import Replays, Seen

if TYPE_CHECKING:
    from ..recall.access import Access

_BATCH: Final = 500
_RETRIES: Final = 5
#: A row that is kept, but is no part of the transcript and not found by a search.
HIDDEN: Final = Flag.DUPLICATE | Flag.RETRACTED | Flag.FILTERED


@dataclass(frozen=True, slots=True)
class Item:
    """One message of another store. ``key``: its address there. ``flags``: RETRACTED, PINNED, HOST_NOTE.

    ``at``: when it was stored there. ``summary``: an engine wrote it in front of a list.
    """

    key: str
    session_id: str
    message: Mapping[str, Any]
    source: str
    at: float | None = None
    flags: int = Flag.NONE
    summary: bool = False
    shown: bool = True  # False: no live list shows it any more; where it only edits another row, that one stands for it
    uid: str | None = None  # the message's lasting id there, which copies of it share
    opens: bool = False  # the first of a session that goes on behind a compaction
    digest: bytes | None = None  # of what was said, where the message shows it without its secrets
    wanted: int | None = None  # the address that it is to have here


@dataclass(slots=True)
class Taken:
    """Counts of one conversation. ``present``: here already; ``own``: texts of our own prompts, which are no messages."""

    rows: int = 0
    added: int = 0
    present: int = 0
    copies: int = 0
    edits: int = 0
    own: int = 0
    doubtful: int = 0

    def __iadd__(self, other: Taken) -> Taken:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


@dataclass(slots=True)
class _Scan:
    """A conversation of the other store without its texts: keys, what was seen, and which rows are no messages at all."""

    keys: list[str] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)  # digests of the rows as they are there
    tool_call_ids: list[str | None] = field(default_factory=list)
    own: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)  # not shown any more
    shown: set[int] = field(default_factory=set)  # stored from a list of before
    pruned: set[int] = field(default_factory=set)  # shortened by the host, and what it stands for is not there
    #: Context messages with which lists began, and their prompts; None where nothing here explains one.
    prompts: dict[int, Assembly | None] = field(default_factory=dict)


@dataclass(slots=True)
class _Verdict:
    """Fate of each row: ``here`` (stored already), ``pos`` (its place, where that is not the end), ``flags``."""

    here: dict[int, int] = field(default_factory=dict)
    pos: dict[int, float] = field(default_factory=dict)
    flags: dict[int, int] = field(default_factory=dict)
    rest: dict[int, str] = field(default_factory=dict)
    revises: dict[int, int] = field(default_factory=dict)  # the shortened form that is here of what comes whole
    #: Rows here that the user had taken back before the other store went on.
    gone: list[int] = field(default_factory=list)


Batches = Callable[[], Iterable[Sequence[Item]]]
"""Gives the rows of a conversation, in order and in batches, as often as it is asked."""


@dataclass(frozen=True, slots=True)
class Ours:
    """Another store that is a database of ours, so when its rows were stored tells where they belong.

    ``gathered``: but several hosts wrote it. ``resumed``: context messages here whose prompts only that one knows, and what their
    lists show of it. ``knows``: does it know such a nonce? Then it told text of ours from what was said. ``times``: other times
    at which its rows were stored. ``inherits``: rows that a branch there shows of its parents, and the rows here that they are.
    """

    gathered: bool
    resumed: Callable[[], Mapping[int, Sequence[str]]]
    knows: Callable[[str], bool]
    times: Mapping[str, tuple[float, ...]]
    inherits: Callable[[], Mapping[str, int]]


class Intake:
    """Takes conversations of one source in (None: it is not noted yet, for a plan), ``total`` messages in all.

    ``keep_copies``: copies are stored too, hidden and marked. ``find``: how copies are found.
    ``rewritten``: the host's own compressor may have written rows anew, shortened or with its summary glued to them.
    ``ours``: the other store is a database of ours.
    """

    def __init__(
        self,
        deps: Access,
        source: Source | None,
        *,
        total: int,
        keep_copies: bool,
        progress: Progress = silent,
        find: Callable[[Sequence[Seen]], Replays] = replays.find,
        rewritten: bool = False,
        ours: Ours | None = None,
    ) -> None:
        self._ours = ours
        self._deps = deps
        self._source = source
        self._keep = keep_copies
        self._progress = progress
        self._ledger = Ledger(deps.db)
        self._find = find
        self._rewritten = rewritten
        self._transcripts = Transcripts(deps.store, deps.sessions)
        self.known = self._ledger.rows_by_source(source, MESSAGE)
        self.copies: dict[str, int] = {}  # rows that a branch inherits there and has itself here
        self._done, self._total = 0, total

    # -- entry ----------------------------------------------------------------------------------------
    def store_new(self, sessions: Mapping[str, Session], batches: Batches) -> Taken:
        """Store what is not here yet. The sessions belong to one conversation."""
        scan = self._scan(batches, sessions)
        found = self._copies(scan)
        for _ in range(_RETRIES):
            try:
                return self._store(sessions, batches, scan, found)
            except Overtaken:  # a live session went on meanwhile, or another import; what was stored is in the ledger
                self.known.update(self._ledger.rows_by_source(self._source, MESSAGE))
        return self._store(sessions, batches, scan, found)

    def plan(self, session: Session | None, batches: Batches) -> Taken:
        """Plan of ``store_new``. Changes nothing. ``session``: None if nothing of the conversation is here."""
        scan = self._scan(batches, {session.session_id: session} if session else {}, planning=True)
        found = self._copies(scan)
        verdict = self._placed(session, batches, scan, found) if session else _Verdict()
        return self._counted(scan, found, verdict)

    # -- looking --------------------------------------------------------------------------------------
    def _scan(self, batches: Batches, sessions: Mapping[str, Session], *, planning: bool = False) -> _Scan:
        scan = _Scan()
        originals = Originals() if self._rewritten else None
        for batch in batches():
            for item in batch:
                said, n = content.canonical_core(item.message), len(scan.keys)
                is_own = self._is_own(item, said.text, sessions)
                if self._ours and (is_own or not n) and own.read_context(said.text):
                    scan.prompts[n] = prompt_of(self._deps, said.text) if is_own else None
                ids, digest = _ids(said)[1], item.digest or said.digest
                scan.keys.append(item.key)
                if is_own:
                    scan.own.add(n)
                if not item.shown:
                    scan.gone.add(n)
                if item.flags & Flag.SHOWN:
                    scan.shown.add(n)
                scan.raw.append(digest)
                seen = Seen(
                    digest, said.role, item.at, bool(ids), item.summary or is_own,
                    is_own or bool(item.flags & Flag.RETRACTED), ids, uid=item.uid, opens=item.opens,
                )  # fmt: skip
                if originals is not None and not is_own:
                    seen = originals.recognised(n, said, seen)
                    if seen.of is None and host_compressor.is_pruned(said):
                        scan.pruned.add(n)
                scan.seen.append(seen)
                scan.tool_call_ids.append(said.tool_call_id)
            self._done += len(batch) if planning else 0
            self._progress("reading" if planning else "storing", self._done, self._total)
        return scan

    def _copies(self, scan: _Scan) -> Replays:
        found = self._find(scan.seen)
        for n in [n for n in found.edits if n in scan.gone]:
            found.copies[n] = found.edits.pop(n)
        return found

    def _is_own(self, item: Item, text: str, sessions: Mapping[str, Session]) -> bool:
        """Text that this plugin put into a prompt of one of these conversations, and that nobody repeated."""
        role = item.message.get("role")
        if not text.startswith("[lcm:") or not sessions or role == "system":
            return False
        context, carrier, stub = own.read_context(text), own.read_carrier(text), own.read_stub(text)
        nonce, glued, said = stub[0] if stub else "", "", role != "tool"
        if context is not None:
            nonce, glued, said = context.nonce, context.rest, self._ours is not None and not item.flags & Flag.IMPORTED
        elif carrier is not None:
            nonce, glued, said = *carrier, self._ours is not None and self._ours.knows(carrier[0])
        # What is glued behind it was taken apart by ingest.
        if glued or said or self._deps.sessions.nonce_owner(nonce) is None:
            return False
        # A context message that nothing here explains waits for the file that does: what it stands for comes in its place.
        return context is None or self._ours is None or prompt_of(self._deps, text) is not None

    def _counted(self, scan: _Scan, found: Replays, verdict: _Verdict) -> Taken:
        known = sum(
            1 for n, key in enumerate(scan.keys) if n not in scan.own and (key in self.known or n in verdict.here)
        )
        copies = sum(1 for n in found.copies if scan.keys[n] not in self.known)
        return Taken(
            len(scan.keys),
            len(scan.keys) - len(scan.own) - known - (0 if self._keep else copies),
            known, len(found.copies), len(found.edits), len(scan.own), found.doubtful,
        )  # fmt: skip

    # -- placing --------------------------------------------------------------------------------------
    def _placed(
        self, session: Session, batches: Batches, scan: _Scan, found: Replays, *, fork: bool = False
    ) -> _Verdict:
        """Places of rows in a conversation that has rows of others already."""
        deps, verdict = self._deps, _Verdict()
        heads = deps.store.heads(deps.sessions.ancestry(session.conversation_id))
        brought = {self.known[key] for key in scan.keys if key in self.known}
        behind = session.parent_id is None and not deps.sessions.branches_of(session.conversation_id)
        if behind and all(head.store_id in brought for head in heads) and self._goes_on(scan):
            return verdict
        own = session.conversation_id
        # What a branch of the fleet inherits came with its parent, and is none of its own rows.
        if self._ours and (
            session.parent_id is None or (self._ours.gathered and deps.sessions.taken_back(own) is not None)
        ):
            return self._by_time(session, [head for head in heads if head.conversation_id == own], scan)
        if self._ours and not self._ours.gathered:
            return self._in_branch(session, scan, fork=fork)
        rows = [n for n in _transcript_order(scan, found) if not scan.seen[n].apart]
        expected = self._transcripts.expected(session, None)
        alias = _aliases(heads, expected)
        messages = {item.key: item.message for batch in batches() for item in batch}
        forms = self._forms(rows, scan, expected, messages) if self._rewritten else Forms()
        lives = [_live(scan, n, {**alias, **forms.whole.get(n, {})}, messages[scan.keys[n]]) for n in rows]
        expected = [replace(item, digest=forms.was.get(item.store_id, item.digest)) for item in expected]
        lives, expected = self._pinned([scan.keys[n] for n in rows], lives, expected)
        plan = align(lives, expected, self._said)
        if fork:
            self._transcripts.fork(session, plan.places)
        _read_plan(rows, plan, expected, verdict)
        for n in [n for n, here in verdict.here.items() if here in forms.was]:
            verdict.revises[n] = verdict.here.pop(n)
        self._match_taken_back(scan, session, verdict)
        return verdict

    def _goes_on(self, scan: _Scan) -> bool:
        """Is all that is to come behind what came?"""
        if self._ours is None or self._ours.gathered:
            return True
        new = [key not in self.known for n, key in enumerate(scan.keys) if n not in scan.own]
        return new == sorted(new)

    def _in_branch(self, session: Session, scan: _Scan, *, fork: bool) -> _Verdict:
        """Places in a branch; one that has not begun begins behind what the other store shows of its parents.

        Where a parent was not there, or not whole, the branch has rows of its own that are the parent's here.
        """
        inherits = self._ours.inherits() if self._ours is not None else {}
        verdict = self._by_time(session, self._deps.store.heads(self._transcripts.visible(session)), scan, inherits)
        if not fork or self._deps.sessions.taken_back(session.conversation_id) is not None:
            return verdict
        shown = [here for n, here in verdict.here.items() if not scan.seen[n].apart]
        self._transcripts.fork(session, [Place((*inherits.values(), *shown))])
        return self._by_time(session, self._deps.store.heads(self._transcripts.visible(session)), scan, inherits)

    def _by_time(
        self, session: Session, shown: Sequence[Stored], scan: _Scan, inherits: Mapping[str, int] = MappingProxyType({})
    ) -> _Verdict:
        """Places of rows of another database of ours: by what its list showed, and by when they were stored, there and here.

        In front of them stand the rows that a branch ``inherits`` there, under numbers below 0: they are placed already.
        """
        verdict = _Verdict()
        rows = [n for n in range(-len(inherits), len(scan.keys)) if n not in scan.own]
        keys = dict(zip(rows, [*inherits, *(scan.keys[n] for n in rows if n >= 0)], strict=True))
        known = {**self.known, **inherits}
        gone = self._transcripts.gone(session, shown)
        ids = [*(head.store_id for head in shown), *inherits.values()]
        times = self._ledger.times(min(ids, default=0), max(ids, default=0))
        mine = {head.store_id: _mark(head, times, gone) for head in shown}
        above = {key: _mark(head, times) for key, head in self._heads_of(inherits).items()}
        marks = [above.get(key) or self._mark_of(scan, n) for n, key in keys.items()]
        there = {name for mark in marks for name in mark.names()}
        came = {n: known[key] for n, key in keys.items() if known.get(key) in mine}
        for each in came.values():  # its row there is known: by its words it is none of the others
            mine[each] = mine[each]._replace(digest=b"came %d" % each)
        marks = [mine[came[n]] if n in came else mark for n, mark in zip(rows, marks, strict=True)]
        # What another process said meanwhile is in no list of the other store, and was not taken back for that.
        alone = not Leases(self._deps.db).has_others(WORKS_AT.format(session.session_id))
        lists: dict[int, list[int] | None] = {}
        if alone or there.isdisjoint(name for mark in mine.values() for name in mark.names()):
            lists = self._lists(session, scan, rows, came, shown)
        resumed = self._resumed_at({key: k for k, key in enumerate(keys.values())}, shown) if alone else {}
        woven = interleave(list(mine.values()), marks, lists, resumed)
        verdict.gone = [
            shown[n].store_id for n in woven.gone
            if alone and shown[n].store_id not in gone and not shown[n].flags & HIDDEN & ~Flag.RETRACTED
        ]  # fmt: skip
        same = {rows[k]: shown[n].store_id for k, n in woven.same.items()}
        verdict.here = {n: store_id for n, store_id in same.items() if n >= 0}
        self.copies = {keys[n]: store_id for n, store_id in same.items() if n < 0 and store_id != known[keys[n]]}
        verdict.flags.update((rows[k], Flag.UNALIGNED) for k in woven.doubtful)
        positions = [head.pos for head in shown]
        for place, group in groupby(
            ((rows[k], at) for k, at in woven.behind.items() if rows[k] >= 0), key=itemgetter(1)
        ):
            new, low = [n for n, _ in group], shown[place - 1].pos if place else 0.0
            if place < len(shown):
                low = max(low, self._end_above(session, shown, place))
                _spread(new, low, shown[place].pos, positions, verdict)
            elif (post := self._resumed_branch(session.conversation_id, low)) is not None:
                _spread(
                    [n for n in new if (scan.seen[n].at or 0.0) < post.stored_at], low, post.pos, positions, verdict
                )
        return verdict

    def _end_above(self, session: Session, shown: Sequence[Stored], place: int) -> float:
        """Position of the last of its parents' rows in front of a branch's first own one: it may come to inherit them."""
        own, first = session.conversation_id, shown[place]
        if first.conversation_id != own or any(head.conversation_id == own for head in shown[:place]):
            return 0.0
        above = [Segment(each) for each, _ in self._deps.sessions.ancestry(own)[:-1]]
        return max((head.pos for head in self._deps.store.heads(above) if head.pos < first.pos), default=0.0)

    def _heads_of(self, ids: Mapping[str, int]) -> dict[str, Stored]:
        """Rows here by the row of the other store."""
        heads = self._deps.store.heads_of([*ids.values()])
        return {key: heads[store_id] for key, store_id in ids.items()}

    def _mark_of(self, scan: _Scan, n: int) -> Mark:
        """A row of the other store."""
        times, seen = self._ours.times if self._ours is not None else {}, scan.seen[n]
        return Mark(scan.raw[n], seen.at or 0.0, n in scan.shown, times.get(scan.keys[n], ()), seen.apart)

    def _resumed_branch(self, conversation: int, low: float) -> Stored | None:
        """The first row of a branch's own that began with a context message: what is older than it belongs before it."""
        store, branches = self._deps.store, self._deps.sessions.branches_of(conversation)
        heads = [
            next((head for head in store.heads([Segment(branch)]) if head.pos > cut.pos), None)
            for branch, cut in branches.items() if store.imported([branch])
        ]  # fmt: skip
        return min((head for head in heads if head and head.pos > low), key=lambda head: head.pos, default=None)

    def _lists(
        self, session: Session, scan: _Scan, rows: Sequence[int], came: Mapping[int, int], shown: Sequence[Stored]
    ) -> dict[int, list[int] | None]:
        """Those of the ``rows`` there with which a list began, and places of the rows here that each list should show.

        Behind a context message may stand older rows, which an older file took for those that the list should show. Where nothing
        here explains one, but it is here as well, another list began with it.
        """
        at = {head.store_id: n for n, head in enumerate(shown)}
        named = {(head.digest, head.stored_at): n for n, head in enumerate(shown)}
        out: dict[int, list[int] | None] = {0: self._listed(session, None, shown)}
        contexts = {head.digest: n for n, head in enumerate(shown) if head.flags & Flag.IMPORTED}
        for context, prompt in scan.prompts.items():
            start, places = bisect_left(rows, context), self._listed(session, prompt, shown) if prompt else None
            if prompt is None and (twin := contexts.get(scan.raw[context])) is not None:
                behind = range(twin + (context in scan.own), len(shown))
                places = [n for n in behind if n == twin or not shown[n].flags & (Flag.IMPORTED | Flag.RETRACTED)]
            for n in rows[start:] if places else ():
                here = at.get(came.get(n, 0), named.get((scan.raw[n], scan.seen[n].at or 0.0), len(shown)))
                if not places or here >= places[0]:
                    break
                start, places = start + 1, places[1:]
            out[start] = places
        return out

    def _resumed_at(self, there: Mapping[str, int], shown: Sequence[Stored]) -> dict[int, list[int]]:
        """Rows here with which a list began behind a context message that only the other store explains, and what it should show.

        Behind such a context message, too, may stand older rows.
        """
        lists, out = self._ours.resumed() if self._ours is not None else {}, dict[int, list[int]]()
        for context, head in enumerate(shown):
            if head.store_id in lists:
                behind = range(context + 1, len(shown))
                start = next((n for n in behind if shown[n].seq > head.seq), len(shown))
                places = [there[key] for key in lists[head.store_id] if key in there]
                out[start] = places[start - context - 1 :]
        return out

    def _listed(self, session: Session, prompt: Assembly | None, shown: Sequence[Stored]) -> list[int]:
        """Places of the rows here that a list with such a prompt should show.

        Up to a row whose own place was not proven: what is missing in front of it may be what the list goes on with. That came
        behind a context message which nothing here explains is such a row.
        """
        at = {head.store_id: n for n, head in enumerate(shown)}
        tail = prompt.tail_ids if prompt is not None else ()
        out: list[int] = []
        context = inf
        for n in [at[item.store_id] for item in self._transcripts.listed(session, prompt) if item.store_id in at]:
            head = shown[n]
            if head.flags & Flag.IMPORTED:
                context = head.seq
            elif head.seq > context or (head.flags & Flag.UNALIGNED and head.store_id not in tail):
                break
            else:
                out.append(n)
        return out

    def _pinned(
        self, keys: Sequence[str], lives: Sequence[Live], expected: Sequence[Expected]
    ) -> tuple[list[Live], list[Expected]]:
        """Rows that came before are those which they became, and no others that say the same."""
        became = {self.known[key] for key in keys if key in self.known}
        mine = [
            replace(live, digest=b"came %d" % self.known[key]) if key in self.known else live
            for key, live in zip(keys, lives, strict=True)
        ]
        return mine, [
            replace(item, digest=b"came %d" % item.store_id) if item.store_id in became else item for item in expected
        ]

    def _forms(
        self, rows: Sequence[int], scan: _Scan, expected: Sequence[Expected], messages: Mapping[str, Mapping[str, Any]]
    ) -> Forms:
        """Rows that are here in another form. Reads only what is not on both sides."""
        there, here = {scan.raw[n] for n in rows}, {item.digest for item in expected}
        odd = {n: content.canonical_core(messages[scan.keys[n]]) for n in rows if scan.raw[n] not in here}
        digests = {item.store_id: item.digest for item in expected if item.digest not in there}
        stored = self._deps.store.legible(list(digests))[0] if odd else []
        mine = {
            row.store_id: replace(content.canonical_core(row.stored_json), digest=digests[row.store_id])
            for row in stored
        }
        return forms(odd, mine, there)

    def _said(self, store_ids: Sequence[int]) -> dict[int, Core]:
        cores = dict.fromkeys(store_ids, Core(""))
        for row in self._deps.store.legible(store_ids)[0]:  # a damaged one is no reason to take in none of the others
            cores[row.store_id] = core(row.head.role, row.text, row.calls)
        return cores

    def _match_taken_back(self, scan: _Scan, session: Session, verdict: _Verdict) -> None:
        """A match of rows that the user took back both there and here."""
        gone = [row for row in self._deps.store.retracted(session.conversation_id) if not row.flags & Flag.DUPLICATE]
        at = 0
        for n, seen in enumerate(scan.seen):
            if not seen.apart or n in scan.own:
                continue
            twin = next((k for k in range(at, len(gone)) if gone[k].digest == scan.raw[n]), None)
            if twin is not None:
                verdict.here[n] = gone[twin].store_id
                at = twin + 1

    # -- storing --------------------------------------------------------------------------------------
    def _store(self, sessions: Mapping[str, Session], batches: Batches, scan: _Scan, found: Replays) -> Taken:
        session = next(iter(sessions.values()))
        last = list(sessions.values())[-1]
        before = self._deps.store.last_seq(session.conversation_id)  # what comes behind it meanwhile has no place yet
        verdict = self._placed(last, batches, scan, found, fork=True)
        taken = self._counted(scan, found, verdict)
        if verdict.gone and not (
            self._ours and self._ours.gathered
        ):  # hosts write at once, and flag what they took back
            with self._deps.db.transaction():
                self._deps.store.append(
                    session.conversation_id, session.session_id, before, [], source="", now=self._deps.clock(),
                    retract=self._transcripts.own_rows(last, verdict.gone),
                )  # fmt: skip
        assert self._source is not None  # a plan stores nothing
        writer = _Writer(self._deps, self._ledger, self._source, scan, found, verdict, self.known, keep=self._keep)
        # A branch without rows has just got its place. Asked in this order: rows that another writer adds in between are seen.
        placed = self._deps.store.last_seq(session.conversation_id)
        writer.seq = before if self._deps.store.has_rows(session.conversation_id) else placed
        at = 0
        for batch in batches():
            numbered = [(at + n, item) for n, item in enumerate(batch)]
            at += len(batch)
            for _, group in groupby(numbered, key=lambda each: (each[1].session_id, each[1].source)):
                rows = list(group)
                writer.write(sessions[rows[0][1].session_id], rows)
            self._done += len(batch)
            self._progress("storing", self._done, self._total)
        return taken


class _Writer:
    """Writes batches of one conversation with their notes in the ledger."""

    def __init__(
        self, deps: Access, ledger: Ledger, source: Source, scan: _Scan, found: Replays, verdict: _Verdict,
        known: dict[str, int], *, keep: bool,
    ) -> None:  # fmt: skip
        self._deps, self._ledger, self._source = deps, ledger, source
        self._scan, self._found, self._verdict = scan, found, verdict
        self._known = known
        self._keep = keep
        self.seq = 0

    def write(self, session: Session, rows: Sequence[tuple[int, Item]]) -> None:
        """Rows of one session and source, in one transaction or, where one stands by another of them, in several."""
        part: list[tuple[int, Item]] = []
        for n, item in rows:
            by = self._found.edits.get(n, self._found.before.get(n))
            if part and by is not None and self._scan.keys[by] not in self._known:
                self._write(session, part)
                part = []
            part.append((n, item))
        self._write(session, part)

    def _write(self, session: Session, rows: Sequence[tuple[int, Item]]) -> None:
        """One transaction: rows, what is noted of them, and which are duplicates."""
        noted: list[tuple[str, int]] = []
        new: list[tuple[int, Item, NewRow]] = []
        late: list[tuple[int, Item]] = []  # copies of rows in this very batch
        for n, item in rows:
            if item.key in self._known or n in self._scan.own:
                continue
            here, original = self._verdict.here.get(n), self._found.copies.get(n)
            if here is not None:
                noted.append((item.key, here))
            elif original is not None and not self._keep:
                late.append((original, item))
            else:
                new.append((n, item, self._row(n, item)))
        if not (noted or new or late):
            return
        present = list(noted)
        fresh = [item.key for _, item in rows if item.key not in self._known]
        try:
            with self._deps.db.transaction():
                ids = self._append(session, rows[0][1].source, [row for _, _, row in new])
                noted += [(item.key, store_id) for (_, item, _), store_id in zip(new, ids, strict=True)]
                self._known.update(noted)
                noted += [(item.key, self._id(original)) for original, item in late if self._id(original)]
                self._known.update(noted)
                self._ledger.note(self._source, MESSAGE, noted)
                self._ledger.note(self._source, PRESENT, present)
                copies = [
                    (self._known[item.key], self._found.copies[n]) for n, item, _ in new if n in self._found.copies
                ]
                self._ledger.mark([(store_id, self._id(original)) for store_id, original in copies])
        except BaseException:  # what was not committed is not here
            for key in fresh:
                self._known.pop(key, None)
            raise

    def _append(self, session: Session, source: str, rows: Sequence[NewRow]) -> list[int]:
        if not rows:
            return []
        ids = self._deps.store.append(
            session.conversation_id, session.session_id, self.seq, rows, source=source, now=self._deps.clock()
        )
        self.seq += len(ids)
        return ids

    def _id(self, n: int) -> int:
        """The row here of a row there; 0 when it has none (a text of our own)."""
        return self._known.get(self._scan.keys[n], 0)

    def _row(self, n: int, item: Item) -> NewRow:
        rest = self._verdict.rest.get(n)
        message = content.read_message(item.message, text=rest)
        message = self._deps.filters.stored_form(message)
        if item.digest is not None:
            message = replace(message, digest=item.digest)
        flags = item.flags | self._verdict.flags.get(n, Flag.NONE)
        if n in self._found.copies:
            flags |= HIDDEN
        elif item.summary:
            flags |= Flag.HOST_NOTE
        elif n in self._scan.pruned:
            flags |= Flag.PRUNED
        pos = self._verdict.pos.get(n)
        if pos is None and n in self._found.before and not self._verdict.pos:
            pos = self._in_front(n)
        revises = self._id(self._found.edits[n]) if n in self._found.edits else self._verdict.revises.get(n, 0)
        if revises:
            pos = self._pos_of(revises)
        return NewRow(message, pos, revises or None, flags, item.wanted, item.at if item.wanted else None)

    def _in_front(self, n: int) -> float | None:
        """The place of a list's summary: in front of the row that followed it there."""
        anchor = self._id(self._found.before[n])
        pos = self._pos_of(anchor) if anchor else None
        if pos is None:
            return None
        conversation = self._deps.store.heads_of([anchor])[anchor].conversation_id
        row = self._deps.db.query_one(
            "SELECT max(pos) FROM messages WHERE conversation_id = ? AND pos < ?", (conversation, pos)
        )
        return ((row[0] if row and row[0] is not None else 0.0) + pos) / 2

    def _pos_of(self, store_id: int) -> float | None:
        head = self._deps.store.heads_of([store_id]).get(store_id)
        return head.pos if head else None


def prompt_of(deps: Access, text: str) -> Assembly | None:
    """The prompt here whose context message a text is."""
    context = own.read_context(text)
    owner = deps.sessions.nonce_owner(context.nonce) if context is not None else None
    if context is None or owner is None:
        return None
    digest = own.context_digest(text)
    prompt = deps.dag.prompt_of(context.assembly_id, digest, [owner])
    same = prompt is not None and prompt.conversation_id == owner and prompt.digest in (b"", digest)
    return prompt if same else None


# -- pure ------------------------------------------------------------------------------------------------
def _mark(head: Stored, times: Mapping[int, tuple[float, ...]], gone: Collection[int] = ()) -> Mark:
    """A row here. ``times``: other times at which rows were stored; ``gone``: rows that were taken back."""
    shown = bool(head.flags & Flag.SHOWN)
    return Mark(head.digest, head.stored_at, shown, times.get(head.store_id, ()), head.store_id in gone)


def _transcript_order(scan: _Scan, found: Replays) -> list[int]:
    """Rows that are no copies, as the transcript reads."""
    before: dict[int, list[int]] = {}
    for n, anchor in found.before.items():
        before.setdefault(anchor, []).append(n)
    out: list[int] = []
    for n in range(len(scan.keys)):
        if n not in found.copies and n not in found.before:
            out += [*before.get(n, ()), n]
    return out


def _live(scan: _Scan, n: int, alias: Mapping[bytes, bytes], message: Mapping[str, Any]) -> Live:
    seen = scan.seen[n]

    def read() -> Core:
        said = content.canonical_core(message)
        return core(said.role, said.text, said.calls)

    return Live(seen.role, alias.get(scan.raw[n], scan.raw[n]), scan.tool_call_ids[n], read)


def _aliases(heads: Iterable[Stored], expected: Sequence[Expected]) -> dict[bytes, bytes]:
    """Digests of rows that were edited since: the transcript has the edit, the other store may have the first version."""
    by_id = {head.store_id: head for head in heads}
    shown = {item.store_id: item.digest for item in expected}
    known = {item.digest for item in expected}
    out: dict[bytes, bytes] = {}
    for item in expected:
        head = by_id.get(item.store_id)
        while head is not None and head.revises is not None and head.revises in by_id:
            head = by_id[head.revises]
            if head.digest not in known:
                out[head.digest] = shown[item.store_id]
    return out


def _read_plan(rows: Sequence[int], plan: Plan, expected: Sequence[Expected], verdict: _Verdict) -> None:
    """The alignment as places: new rows stand evenly between the rows around them, and nothing is taken back."""
    positions = sorted(item.pos for item in expected)
    at = {item.store_id: item.pos for item in expected}
    low = 0.0
    waiting: list[int] = []
    behind = bool(plan.retracted) or plan.unaligned
    for n, place in zip(rows, plan.places, strict=True):
        if place.ids:
            _spread(waiting, low, at[place.ids[0]], positions, verdict)
            waiting = []
            low = at[place.ids[-1]]
            if not place.new:
                verdict.here[n] = place.ids[0]
                continue
            verdict.rest[n] = place.rest or ""
        if place.pos is not None or behind:
            waiting.append(n)
    if waiting:
        _spread(waiting, low, positions[-1] + 1 if positions else 1.0, positions, verdict)
    if plan.unaligned:
        verdict.flags.update(dict.fromkeys(rows, Flag.UNALIGNED))


def _spread(rows: Sequence[int], low: float, high: float, positions: Sequence[float], verdict: _Verdict) -> None:
    """New rows between two positions, in front of the rows there that the other store does not have."""
    if not rows:
        return
    k = bisect_right(positions, low)
    high = min(high, positions[k]) if k < len(positions) else high
    for n, row in enumerate(rows, 1):
        verdict.pos[row] = low + (high - low) * n / (len(rows) + 1)


# -- rows that the host's own compressor wrote anew ------------------------------------------------------
class Originals:
    """The messages of a conversation as they were before the host's compressor wrote them anew, as far as rows come by."""

    def __init__(self) -> None:
        self._by_ids: dict[tuple[str, tuple[str, ...]], host_compressor.Candidates] = {}
        self._digests: dict[int, bytes] = {}
        self._known: set[tuple[str, tuple[str, ...], bytes]] = set()

    def recognised(self, n: int, said: content.Said, seen: Seen) -> Seen:
        """The row with the digest of what it was: without a glued summary, or that of the row whose shortened form it is."""
        was = host_compressor.before(said.text)
        if was is not None and (was.text or said.calls):
            said = host_compressor.unglued(said)
            seen = seen._replace(digest=said.digest, more=was.summary, summary=False)
        if not seen.ids:
            return seen
        known = self._by_ids.setdefault((said.role, seen.ids), host_compressor.Candidates())
        of = known.original(said) if host_compressor.is_pruned(said) else None
        if of is not None:
            return seen._replace(of=of, digest=self._digests[of])
        if (said.role, seen.ids, seen.digest) not in self._known:
            self._known.add((said.role, seen.ids, seen.digest))
            known.add(host_compressor.Original(n, said.text, said.calls))
            self._digests[n] = seen.digest
        return seen


@dataclass(frozen=True, slots=True)
class Forms:
    """Rows of another store that are here in another form, as digests to align them by.

    ``whole``: of what a shortened row there stands for. ``was``: of what a row here was before it was shortened or glued.
    """

    whole: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    was: dict[int, bytes] = field(default_factory=dict)


def forms(there: Mapping[int, content.Said], stored: Mapping[int, content.Said], known: Collection[bytes]) -> Forms:
    """Pairs of a row of the other store and a row here that are one message, the one whole and the other not.

    Both without what is on both sides. ``known``: the digests of all rows there.
    """
    out = Forms()
    mine = _by_ids(stored)
    theirs = _by_ids(there)
    for n, said in there.items():
        if host_compressor.is_pruned(said):
            here = mine[_ids(said)].original(said) if _ids(said) in mine else None
            if here is not None:
                out.whole[n] = {said.digest: stored[here].digest}
    for store_id, said in stored.items():
        plain = host_compressor.unglued(said)
        if plain.digest != said.digest and plain.digest in known:
            out.was[store_id] = plain.digest
        elif host_compressor.is_pruned(plain):
            whole = theirs[_ids(said)].original(plain) if _ids(said) in theirs else None
            if whole is not None:
                out.was[store_id] = there[whole].digest
    return out


def _by_ids(rows: Mapping[int, content.Said]) -> dict[tuple[str, tuple[str, ...]], host_compressor.Candidates]:
    out: dict[tuple[str, tuple[str, ...]], host_compressor.Candidates] = {}
    for n, said in rows.items():
        if _ids(said)[1]:
            out.setdefault(_ids(said), host_compressor.Candidates()).add(
                host_compressor.Original(n, said.text, said.calls)
            )
    return out


def _ids(said: content.Said) -> tuple[str, tuple[str, ...]]:
    return said.role, tuple(filter(None, [*(call.id for call in said.calls), said.tool_call_id]))
