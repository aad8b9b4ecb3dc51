"""
Merging another database of this release into ours: each message once and in its place, summaries and prompts with it.

Messages go the way of every import, and keep their addresses where nobody here has them, so that a prompt that names them stays
true. A summary comes with what it covers; one whose sources are all here already, covered by the same words, is here already.
Doing it again, or going on after an interruption, adds nothing.
"""

from __future__ import annotations

import json
from collections import ChainMap, Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ..dag import fingerprint
from ..ingest.transcript import Transcripts
from ..records import PURGED_RUNG, STATED, Assembly, Flag, NewNode, Node, Row, Stored
from ..session import INHERITS, Cut, Segment, Session, inherited_as
from ..storage.meta import Meta
from ..text.markup import read_context
from .intake import Intake, Item, Ours, prompt_of
from .ledger import MESSAGE, PRESENT, Ledger, Source
from .replays import Replays, Seen

if TYPE_CHECKING:
    from ..recall.access import Access

KIND: Final = "stand-in"
_BATCH: Final = 500
#: In a damaged file messages may have lost their conversation's row.
_CONVERSATIONS: Final = """
SELECT conversation_id, parent_id, fork_seq, nonce, principal FROM conversations UNION ALL
SELECT DISTINCT conversation_id, NULL, NULL, NULL, NULL FROM messages
 WHERE conversation_id NOT IN (SELECT conversation_id FROM conversations) ORDER BY 1
"""
#: What an intake decides anew for each row.
_DERIVED: Final = Flag.UNALIGNED | Flag.EXTERNALISED | Flag.COLLECTED


@dataclass(slots=True)
class Merged:
    """Counts of a merge. ``messages`` and ``nodes``: how many were new here. ``damaged``: not all of it could be read."""

    messages: int = 0
    nodes: int = 0
    damaged: bool = False


@dataclass(slots=True)
class _Ids:
    """Addresses there to those here."""

    conversations: dict[int, int] = field(default_factory=dict)
    messages: dict[int, int] = field(default_factory=dict)
    nodes: dict[int, int] = field(default_factory=dict)


def merge(deps: Access, other: Access, *, gathered: bool = False) -> Merged:
    """Take everything of ``other`` in. Raises StoreError; then some of it is here, and the next call goes on.

    ``gathered``: several hosts wrote it, so the order between their rows says nothing.
    """
    return _Merge(deps, other, gathered=gathered).run()


def is_known(deps: Access, other: Access) -> bool:
    """Is every prompt with which a list there began here, or there as well? Otherwise another stand-in may bring it."""
    return all(
        prompt_of(deps, text) is not None or prompt_of(other, text) is not None for text in _context_texts(other)
    )


def explains(deps: Access, other: Access) -> bool:
    """Does a prompt there explain a context message here that nothing here explains?"""
    return any(prompt_of(other, text) is not None for text in _context_texts(deps) if prompt_of(deps, text) is None)


def _context_texts(deps: Access) -> list[str]:
    """Context messages of prompts that are kept as text."""
    rows = deps.db.query(f"SELECT store_id FROM messages WHERE flags & {Flag.IMPORTED}")
    return [row.text for row in deps.store.legible([row[0] for row in rows])[0] if read_context(row.text)]


class _Merge:
    def __init__(self, deps: Access, other: Access, *, gathered: bool) -> None:
        self._deps, self._other, self._gathered = deps, other, gathered
        self._ledger = Ledger(deps.db)
        self._ids = _Ids()
        self._before: dict[
            int, tuple[int, ...]
        ] = {}  # roots of prompts that a list there began with, by their context message
        self._below: dict[tuple[int, ...], set[int]] = {}  # the messages under such roots
        self._copies: dict[int, dict[int, int]] = {}  # by conversation: what it inherits there and has itself here
        self._contexts: set[int] = set()  # here, of prompts that only the other store knew
        self.out = Merged()

    def run(self) -> Merged:
        rows = self._other.db.query(_CONVERSATIONS)
        name = f"{KIND}:{self._other.db.file}"
        source = self._ledger.begin(name, KIND, {"path": str(self._other.db.file)}, now=self._deps.clock())
        for conversation, parent, fork_seq, nonce, principal in rows:
            sessions = {each.session_id: each for each in self._sessions(conversation, parent, fork_seq, nonce)}
            sessions.update(self._lost_sessions(conversation, principal, nonce, sessions))
            by_home: dict[int, dict[str, Session]] = {}
            for there, each in sessions.items():
                by_home.setdefault(each.conversation_id, {})[there] = each
            last = list(sessions.values())[-1] if sessions else None
            if self._gathered and last is not None:
                self._inherited(conversation, last)  # its own rows stand behind what it inherits
            for home, here in by_home.items():
                self._messages(source, conversation, here)
                for above, _ in self._deps.sessions.ancestry(home):  # what summaries cover may be of its parents here
                    self._shown_by_branches(source, above)
            if last is not None:
                self._ids.conversations[conversation] = last.conversation_id
                self._inherited(conversation, last)
        for name, conversation in self._other.sessions.other_nonces().items():
            if conversation in self._ids.conversations:
                self._deps.sessions.also_known(name, self._ids.conversations[conversation])
        self._nodes()
        for conversation in self._ids.conversations:
            self._prompts(conversation)
            self._archives(conversation)
        self._explained()
        self._ledger.forget(source)
        return self.out

    # -- sessions -----------------------------------------------------------------------------------
    def _lost_sessions(
        self, conversation: int, principal: str | None, nonce: str | None, known: Collection[str]
    ) -> dict[str, Session]:
        """Sessions of which a damaged file has messages only, as they are here.

        A message that is stored here too names its session, else the conversation does. Others get the owner of the conversation,
        or none.
        """
        sessions = self._deps.sessions
        lost: dict[str, list[Stored]] = {}
        for head in self._other.store.heads([Segment(conversation)]):
            if head.session_id not in known:
                lost.setdefault(head.session_id, []).append(head)
        owner = sessions.nonce_owner(nonce) if nonce else None
        of_owner = sessions.of_conversation(owner)[-1:] if owner is not None else []
        out: dict[str, Session] = {}
        for name, heads in lost.items():
            twin = self._deps.store.session_of(heads)
            out[name] = (
                (sessions.find(twin) if twin is not None else None)
                or next(iter(of_owner), None)
                or sessions.find(name)
                or sessions.open(name, now=self._deps.clock(), platform="unknown", principal=principal)
            )
        return out

    def _sessions(
        self, conversation: int, parent: int | None, fork_seq: int | None, nonce: str | None
    ) -> list[Session]:
        """The sessions of a conversation as they are here, made where they are not known."""
        deps = self._deps
        above = self._ids.conversations.get(parent or 0)
        before = deps.sessions.of_conversation(above)[-1:] if above else []
        if above and not self._gathered:  # it counts otherwise there
            fork_seq = max(deps.store.last_seq(c) for c, _ in deps.sessions.ancestry(above))
        out: list[Session] = []
        for each in self._other.sessions.of_conversation(conversation):
            known = deps.sessions.find(each.session_id)
            delegated = each.origin == "subagent"
            if known is None:
                # By a clock that went back a session may seem to be older than the one that it goes on from.
                mine = deps.sessions.find(each.parent_session_id or "") if each.origin == "rotation" else None
                rotated = [mine] if mine is not None else out[-1:]
                last = rotated or before
                origin = "rotation" if rotated else each.origin if last or delegated else "start"
                known = deps.sessions.open(
                    each.session_id, now=each.started_at, platform=each.platform, host_key=each.host_key or None,
                    parent=last[0] if last else None, origin=origin,
                    fork_seq=fork_seq, mode=each.mode, model=each.model, principal=each.principal,
                )  # fmt: skip
                if nonce and not rotated:
                    known = deps.sessions.take_nonce(known, nonce)
                if each.ended_at:
                    deps.sessions.end(each.session_id, now=each.ended_at, reason=each.end_reason or "")
            by = deps.sessions.find(each.parent_session_id or "") if delegated and not known.parent_session_id else None
            if by is not None and by.principal == known.principal:
                deps.sessions.adopt(known.session_id, by.session_id)
            if known.compactions < each.compactions:
                deps.sessions.compacted_before(each.session_id, each.compactions)
            if nonce and known.nonce != nonce:
                deps.sessions.also_known(nonce, known.conversation_id)
            out.append(known)
        return out

    def _inherited(self, conversation: int, session: Session) -> None:
        """Inherited stretches of a branch, in the addresses of here."""
        known = Meta(self._other.db).value(INHERITS.format(conversation))
        meta = Meta(self._deps.db)
        mine = INHERITS.format(session.conversation_id)
        if not self._gathered and meta.value(mine) is not None:
            return  # the messages told
        same_file = session.conversation_id == conversation and not self._gathered
        if not known or same_file or any(
            cut[0] not in self._ids.conversations for key in ("cuts", "full") for cut in known.get(key, ())
        ):  # fmt: skip
            if known and meta.value(mine) is None:
                meta.note(mine, known)
            return
        there, here = self._ids.conversations, self._ids.messages
        meta.note(mine, inherited_as(known, there.__getitem__, lambda n: here.get(n, n)))

    # -- messages -----------------------------------------------------------------------------------
    def _messages(self, source: Source, conversation: int, sessions: dict[str, Session]) -> None:
        heads = [each for each in self._other.store.heads([Segment(conversation)]) if each.session_id in sessions]
        if not heads:
            return
        at = {head.store_id: n for n, head in enumerate(heads)}
        edits = {n: at[head.revises] for n, head in enumerate(heads) if head.revises in at}

        def find(_: Sequence[Seen]) -> Replays:
            return Replays(edits=dict(edits))

        def batches() -> Iterator[list[Item]]:
            for first in range(0, len(heads), _BATCH):
                rows, damaged = self._other.store.legible([head.store_id for head in heads[first : first + _BATCH]])
                if damaged:
                    self.out.damaged = True
                    rows.sort(key=lambda row: at[row.store_id])
                self._note_contexts(rows)
                yield [_item(row) for row in rows]

        session = next(iter(sessions.values()))
        home = session.conversation_id
        times = {} if self._gathered else Ledger(self._other.db).times(min(at), max(at))
        intake = Intake(
            self._deps,
            source,
            total=len(heads),
            keep_copies=True,
            find=find,
            ours=Ours(
                self._gathered,
                resumed=lambda: self._resumed(conversation, home),
                knows=lambda nonce: self._other.sessions.nonce_owner(nonce) is not None,
                times={str(there): each for there, each in times.items()},
                inherits=lambda: self._inherits(conversation),
            ),
        )
        same = self._same(session, heads)
        intake.known.update({str(there): here for there, here in same.items()})
        self.out.messages += intake.store_new(sessions, batches).added
        self._ids.messages.update({int(key): store_id for key, store_id in intake.known.items()})
        self._ids.messages.update({int(k): n for k, n in self._ledger.rows_by_source(source, MESSAGE).items()})
        self._copies.setdefault(conversation, {}).update({int(key): here for key, here in intake.copies.items()})
        self._taken_back(conversation, session, heads)
        if not self._gathered:
            self._note_times(heads, times)

    def _inherits(self, conversation: int) -> dict[str, int]:
        """Rows that a branch there shows of its parents, and the rows here that they are."""
        other, known = self._other, self._ids.messages
        last = other.sessions.of_conversation(conversation)[-1:]  # none where its page cannot be read
        if not last or other.sessions.taken_back(conversation) is None:
            return {}
        shown = Transcripts(other.store, other.sessions).expected(last[0], None)
        above = other.store.heads_of([item.store_id for item in shown])
        return {
            str(n): known[n] for n in (item.store_id for item in shown)
            if n in known and above[n].conversation_id != conversation
        }  # fmt: skip

    def _shown_by_branches(self, source: Source, home: int) -> None:
        """Older rows that came into a conversation are part of its branches, too."""
        if self._gathered:
            return
        self._deps.sessions.may_inherit(home, self._deps.store.last_seq(home))
        rows, branches = self._ledger.rows_by_source, self._deps.sessions.branches_of(home)
        brought = {*rows(source, MESSAGE).values()} - {*rows(source, PRESENT).values()} if branches else set[int]()
        for branch, cut in branches.items():
            self._inherit_older(branch, home, cut, brought)

    def _inherit_older(self, branch: int, home: int, cut: Cut, brought: Collection[int]) -> None:
        """Let a branch inherit rows that came before its ``cut``, and what only summaries showed of its past, but no row of which
        it has a copy."""
        line = self._deps.sessions.ancestry(branch)
        later = line[[each for each, _ in line].index(home) + 1 :]
        if not brought and not self._deps.store.imported([each.conversation_id for each in later]):
            return
        own = self._deps.store.heads(later)
        first = next((row for row in own if row.pos > cut.pos), None)
        covered, copied = self._resumed_behind(home, later, first.digest) if first else (0.0, set[int]())
        pos = covered if first and cut.pos < covered < first.pos else cut.pos
        copies = Counter(row.digest for row in own if row.pos <= pos)
        rows = [
            row for row in self._deps.store.heads([Segment(home, Cut(pos=pos))])
            if row.seq > cut.seq or row.pos > cut.pos
        ]  # fmt: skip
        without = {row.store_id for row in rows if row.pos <= cut.pos and row.store_id not in brought}.union(copied)
        without.update(self._undone(branch, rows))
        for row in rows:
            if row.store_id not in without and copies[row.digest] > 0:
                copies[row.digest] -= 1
                without.add(row.store_id)
        if not without.issuperset(row.store_id for row in rows):
            end = Cut(self._deps.store.last_seq(home), pos)
            self._deps.sessions.inherit_older(branch, home, end, but=without)

    def _undone(self, branch: int, rows: Sequence[Stored]) -> set[int]:
        """Rows that came as taken back: a branch shows them only where it does so in the other store."""
        names = (each.session_id for each in self._deps.sessions.of_conversation(branch))
        there = next(filter(None, map(self._other.sessions.find, names)), None)
        shown = self._inherits(there.conversation_id).values() if there is not None else ()
        return {row.store_id for row in rows if row.flags & Flag.RETRACTED}.difference(shown)

    def _resumed_behind(self, home: int, line: Sequence[Segment], first: bytes) -> tuple[float, set[int]]:
        """Position up to which a branch shows nothing of a conversation but summaries, whose prompts only the other store knows;
        and which rows there it has itself, from its ``first`` one on, as such a prompt shows them."""
        store, known = self._deps.store, self._ids.messages
        ends = {each.conversation_id: each.end.pos for each in line}
        end, copied = 0.0, set[int]()
        for context in store.imported([*ends]):
            prompt = prompt_of(self._other, store.text(context.store_id))
            if prompt is None or context.pos > ends[context.conversation_id]:
                continue
            if prompt_of(self._deps, store.text(context.store_id)) is None:
                self._contexts.add(context.store_id)
            heads = store.heads_of([known.get(n, 0) for n in prompt.tail_ids])
            tail = [heads[known[n]] for n in prompt.tail_ids if known.get(n) in heads]
            start = next((n for n, row in enumerate(tail) if row.digest == first), 0)
            below = store.heads_of([known.get(n, 0) for n in self._other.dag.messages_below(prompt.roots)]).values()
            end = max([end, *(row.pos for row in (*below, *tail[:start]) if row.conversation_id == home)])
            copied.update(row.store_id for row in tail[start:] if row.conversation_id == home)
        return end, copied

    def _shown_as(self, conversation: int) -> Mapping[int, int]:
        """Rows there to those that a conversation shows here."""
        line = self._other.sessions.ancestry(conversation)[::-1] if any(self._copies.values()) else ()
        return ChainMap(*(self._copies.get(each, {}) for each, _ in line), self._ids.messages)

    def _same(self, session: Session, heads: Sequence[Stored]) -> dict[int, int]:
        """Rows there that are here: they say the same, stored at the same time, under the same number or as the only ones.

        The number alone proves nothing, but where the hosts of a fleet share them: a copy that is in use gives it out again.
        """
        transcripts = Transcripts(self._deps.store, self._deps.sessions)
        mine = self._deps.store.heads(
            [Segment(session.conversation_id)] if self._gathered else transcripts.visible(session)
        )
        names = {head.store_id: self._name(head) for head in mine}
        out = {head.store_id: head.store_id for head in heads if names.get(head.store_id) == self._name(head)}
        here, there = (_at_once(head for head in rows if head.store_id not in out) for rows in (mine, heads))
        for name, twins in there.items():
            if len(twins) == len(here.get(name, ())):
                out.update(zip(twins, here[name], strict=True))
        return out

    def _name(self, head: Stored) -> tuple[bytes, float]:
        return head.digest, 0.0 if self._gathered else head.stored_at

    def _resumed(self, conversation: int, home: int) -> dict[int, list[str]]:
        """Context messages here whose prompts only the other store knows, and what the lists behind them show of it."""
        last = self._other.sessions.of_conversation(conversation)[-1:]
        line = {each for each, _ in self._other.sessions.ancestry(conversation)}
        out: dict[int, list[str]] = {}
        for context in self._deps.store.imported([home]) if last else ():
            text = self._deps.store.text(context.store_id)
            prompt = prompt_of(self._other, text)
            if prompt is not None and prompt.conversation_id in line and prompt_of(self._deps, text) is None:
                rows = Transcripts(self._other.store, self._other.sessions).listed(last[0], prompt)
                out[context.store_id] = [str(row.store_id) for row in rows]
        self._contexts.update(out)
        return out

    def _explained(self) -> None:
        """Context messages here whose prompts have come are no messages any more, but where a summary has taken one for that."""
        store, homes = self._deps.store, dict[int, list[int]]()
        with self._deps.db.transaction():
            for row in store.heads_of([*self._contexts]).values():
                hidden = row.flags & Flag.RETRACTED or self._deps.dag.covering(row.store_id)
                if not hidden and self._is_explained(row):
                    homes.setdefault(row.conversation_id, []).append(row.store_id)
            for home, known in homes.items():
                session = self._deps.sessions.of_conversation(home)[-1].session_id
                store.append(home, session, store.last_seq(home), [], source="", now=self._deps.clock(), retract=known)
                for branch in self._deps.sessions.branches_of(home):
                    self._deps.sessions.inherit_older(branch, home, Cut(0, 0.0), but=known)

    def _taken_back(self, conversation: int, session: Session, heads: Sequence[Stored]) -> None:
        """Undo of the stand-in, done here too; what it brought back comes back where nothing here knows of that, or where its
        history goes on longer."""
        store, home = self._deps.store, session.conversation_id
        with self._deps.db.transaction():
            mine = store.heads([Segment(home)])
            here = {head.store_id: head for head in mine}
            pairs = [(head, here[n]) for head in heads if (n := self._ids.messages.get(head.store_id, 0)) in here]
            later = heads[-1].stored_at >= max((head.stored_at for head in mine), default=0.0)
            gone = [
                now.store_id for was, now in pairs
                if was.flags & ~now.flags & Flag.RETRACTED and not now.flags & ~was.flags & Flag.RESTORED
            ]  # fmt: skip
            back = [
                now.store_id for was, now in pairs
                if now.flags & ~was.flags & Flag.RETRACTED and (later or was.flags & ~now.flags & Flag.RESTORED)
                and not self._is_explained(now)
            ]  # fmt: skip
            if gone or back:
                store.append(
                    home, session.session_id, store.last_seq(home), [], source="", now=self._deps.clock(),
                    retract=gone, restore=back,
                )  # fmt: skip
            if later and session.parent_id is not None and not self._gathered:
                self._deps.sessions.does_without(home, self._let_go(conversation, session))

    def _is_explained(self, row: Stored) -> bool:
        """Is a row a context message of a prompt that is here? Then it is no message."""
        return (
            bool(row.flags & Flag.IMPORTED) and prompt_of(self._deps, self._deps.store.text(row.store_id)) is not None
        )

    def _let_go(self, conversation: int, session: Session) -> list[int]:
        """Rows that a branch shows here of its parents, and that it had there itself and took back."""
        rows = {self._ids.messages.get(row.store_id, 0) for row in self._other.store.retracted(conversation)}
        shown = Transcripts(self._deps.store, self._deps.sessions).expected(session, None)
        heads = self._deps.store.heads_of([item.store_id for item in shown if item.store_id in rows])
        return [n for n, row in heads.items() if row.conversation_id != session.conversation_id]

    def _note_times(self, heads: Sequence[Stored], times: Mapping[int, tuple[float, ...]]) -> None:
        """Times at which rows were stored there, by which other files may know them: a process's first list was stored anew."""
        here = self._deps.store.heads_of([n for head in heads if (n := self._ids.messages.get(head.store_id))])
        pairs = [(head, here[n]) for head in heads if (n := self._ids.messages.get(head.store_id, 0)) in here]
        self._ledger.note_times(
            (now.store_id, at)
            for was, now in pairs if was.digest == now.digest
            for at in (was.stored_at, *times.get(was.store_id, ())) if at != now.stored_at
        )  # fmt: skip

    def _note_contexts(self, rows: Sequence[Row]) -> None:
        """A context message of ours that was kept there as text: what it covers, the prompts that were built there cover."""
        for row in rows:
            prompt = prompt_of(self._deps, row.text) if row.head.flags & Flag.IMPORTED else None
            if prompt is not None:
                self._before[row.store_id] = prompt.roots

    # -- summaries ----------------------------------------------------------------------------------
    def _nodes(self) -> None:
        waiting = [node for nodes in self._other.dag.node_batches() for node in nodes]
        while waiting:
            late = [node for node in waiting if not self._node(node)]
            if len(late) == len(waiting):
                return  # what they were made of is not here, nor can it be read there
            waiting = late

    def _node(self, node: Node) -> bool:
        """Store a summary that is not here. False: what it covers has not come yet."""
        home = self._ids.conversations.get(node.conversation_id)
        there = self._other.dag.sources(node.node_id)
        known = self._shown_as(node.conversation_id) if node.depth == 0 else self._ids.nodes
        sources = tuple(known[each] for each in there if each in known)
        if self._is_here(node, home, sources):
            self._ids.nodes[node.node_id] = node.node_id  # a copy, of whose sources some may have been unreadable
            return True
        if home is None or not sources or (node.depth and len(sources) < len(there)):
            return False
        sources = self._without_before(node, sources)
        name = node.fingerprint if list(sources) == there else fingerprint(node.depth, sources)
        with self._deps.db.transaction():  # another process may have fetched it meanwhile, perhaps as a purge left it
            if self._is_here(node, home, sources):
                self._ids.nodes[node.node_id] = node.node_id
                return True
            before = self._deps.dag.by_fingerprint(home, name, (node.quality,))
            made = (
                before[0]
                if before
                else self._deps.dag.add(
                    self._new(node, home, sources, name, [known.get(n) for n in there]), now=node.created_at
                )
            )
        self.out.nodes += not before
        self._ids.nodes[node.node_id] = made.node_id
        return True

    def _without_before(self, node: Node, sources: tuple[int, ...]) -> tuple[int, ...]:
        """Sources of a summary without those of the prompts before it, whose context messages were kept there as text; all
        of them where nothing else is left."""
        roots = self._roots_before(node.conversation_id, Cut(pos=node.last_pos))
        if roots not in self._below:
            self._below[roots] = {*self._deps.dag.messages_below(roots)}
        below = self._below[roots] if node.depth == 0 else {*self._deps.dag.nodes_below(roots)}
        return tuple(n for n in sources if n not in below) or sources

    def _is_here(self, node: Node, home: int | None, sources: Sequence[int]) -> bool:
        """Is a summary here under its number? What a purge left of it is the same one."""
        mine = self._deps.dag.node(node.node_id)
        same = mine is not None and (mine.conversation_id, mine.depth) == (home, node.depth) and (
            PURGED_RUNG in (node.rung, mine.rung) or mine.text == node.text or self._deps.dag.is_overwritten(mine)
        )  # fmt: skip
        return same and set(sources).issubset(self._deps.dag.sources(node.node_id))

    def _new(
        self, node: Node, home: int, sources: tuple[int, ...], name: bytes, there: Sequence[int | None]
    ) -> NewNode:
        checks = node.checks
        if STATED in node.facts and there != [*sources]:
            places = {n: sources.index(each) for n, each in enumerate(there) if each in sources}
            rest = {name: said for name, said in node.facts.items() if name != STATED}
            checks = json.dumps({**rest, **self._deps.dag.facts_at(node, places)})
        return NewNode(
            home, node.depth, node.quality, node.text, node.expand_hint, node.tokens, node.source_tokens, sources, name,
            node.model, node.rung, checks, self._ids.nodes.get(node.replaces or 0), node.node_id,
        )  # fmt: skip

    def _prompts(self, conversation: int) -> None:
        """The prompts that were built there, and the summaries that the conversation carries."""
        home = self._ids.conversations[conversation]
        carried = [self._ids.nodes[n] for n in self._other.sessions.carried(conversation) if n in self._ids.nodes]
        self._deps.sessions.carry(home, carried)
        known = self._digests(home)
        new = [prompt for prompt in self._other.dag.assemblies(conversation) if self._is_new(prompt, known)]
        numbers = self._numbers(conversation) if new else []
        moved = [self._moved(prompt, home, numbers) for prompt in new]
        with self._deps.db.transaction():  # another process may have merged the same prompts meanwhile
            known = self._digests(home)
            for prompt in filter(None, moved):
                if self._is_new(prompt, known):
                    known.add(prompt.digest)
                    self._deps.dag.take_over(prompt)

    def _digests(self, home: int) -> set[bytes]:
        return {each.digest for each in self._deps.dag.assemblies(home)}

    def _is_new(self, prompt: Assembly, known: Collection[bytes]) -> bool:
        """Is a prompt not here? One that no list has shown is known by its number only."""
        return prompt.digest not in known and (
            bool(prompt.digest) or self._deps.dag.assembly(prompt.assembly_id) is None
        )

    def _numbers(self, conversation: int) -> list[tuple[int, int]]:
        """Sequence numbers of the rows of a conversation: there, and here."""
        there = {row.store_id: row.seq for row in self._other.store.heads([Segment(conversation)])}
        here = self._deps.store.heads_of([self._ids.messages[n] for n in there if n in self._ids.messages])
        return [(seq, here[at].seq) for n, seq in there.items() if (at := self._ids.messages.get(n, 0)) in here]

    def _archives(self, conversation: int) -> None:
        """The ranges that an agent archived there, or restored; not those of which a message is not here."""
        messages = self._ids.messages
        for each in self._other.archives.of_conversation(conversation):
            if all(n in messages for n in each.store_ids):
                ids = tuple(messages[n] for n in each.store_ids)
                mine = replace(each, conversation_id=self._ids.conversations[conversation], store_ids=ids)
                request = self._other.archives.request(each.handle)
                self._deps.archives.take_over(mine, request=messages.get(request) if request is not None else None)

    def _moved(self, prompt: Assembly, home: int, numbers: Sequence[tuple[int, int]]) -> Assembly | None:
        """A prompt in the addresses and numbers of here; None where not all that it shows is here."""
        nodes, messages = self._ids.nodes, self._shown_as(prompt.conversation_id)
        if any(n not in nodes for n in prompt.roots):
            return None
        before = self._roots_before(prompt.conversation_id, Cut())
        roots = tuple(dict.fromkeys((*before, *(nodes[n] for n in prompt.roots))))
        tail = tuple(messages[n] for n in prompt.tail_ids if n in messages)  # a context message of ours is none
        homes = {conversation for conversation, _ in self._deps.sessions.ancestry(home)}
        shown = [row for row in self._deps.store.heads_of(tail).values() if row.conversation_id in homes]
        below = [node for node in self._deps.dag.nodes(roots) if node.conversation_id in homes]
        return replace(
            prompt, conversation_id=home, roots=roots, tail_ids=tail,
            stubs={messages[n]: chars for n, chars in prompt.stubs.items() if n in messages},
            last_seq=max((here for there, here in numbers if there <= prompt.last_seq), default=0),
            last_pos=max([*(row.pos for row in shown), *(node.last_pos for node in below)], default=0.0),
        )  # fmt: skip

    def _roots_before(self, conversation: int, until: Cut) -> tuple[int, ...]:
        """Roots of the prompts whose context messages a conversation there shows as text, ``until`` some row of it."""
        if not self._before:
            return ()
        ends = {c: end or until for c, end in self._other.sessions.ancestry(conversation)}
        contexts = self._other.store.heads_of([*self._before])
        seen = [n for n, row in contexts.items() if (end := ends.get(row.conversation_id)) and row.pos <= end.pos]
        return tuple(dict.fromkeys(root for n in sorted(seen) for root in self._before[n]))


def _at_once(heads: Iterable[Stored]) -> dict[tuple[bytes, float], list[int]]:
    """Rows that say the same and were stored at the same time."""
    out: dict[tuple[bytes, float], list[int]] = {}
    for head in heads:
        out.setdefault((head.digest, head.stored_at), []).append(head.store_id)
    return out


def _item(row: Row) -> Item:
    head = row.head
    message: dict[str, Any] = dict(row.stored_json)
    return Item(
        str(head.store_id), head.session_id, message, head.source, head.stored_at, head.flags & ~_DERIVED,
        digest=head.digest, wanted=head.store_id,
    )  # fmt: skip
