"""
Backlog → leaves → condensed nodes.

Composes the pure plans of ``plan`` with the store, the dag and a summariser. Only adds: leaves and condensed nodes,
each with its sources as one fact. A pass that is abandoned half-way leaves only leaves that the next pass finds
ready. What prompt is built from the nodes is ``compress``'s business.
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..archive.ranges import Archived, ArchivedRanges, latest_request
from ..config import Config
from ..dag import SummaryDag, fingerprint
from ..errors import SourcesChanged, SummaryError
from ..ingest.align import Expected
from ..ingest.transcript import Transcript, expected_of
from ..llm.client import context_for_thread
from ..llm.ladder import EXTRACTIVE, QUOTED
from ..prompt import rewrites
from ..records import (
    ARCHIVE_RUNG,
    EXTRACT_RUNG,
    Assembly,
    NewNode,
    Node,
    SourceLine,
    Summary,
    SummaryTask,
    Unit,
)
from ..session import Session
from ..store import MessageStore
from ..text import content, tokens
from . import plan
from .backoff import Cooldown
from .sources import source_lines

Summarise = Callable[..., Summary]
"""``summarise(task, deadline=..., cancelled=...)`` → Summary; never raises for what a model does."""

#: Tokens that a node's frame costs in a prompt.
FRAME_TOKENS = 45
_REFUSED_S = 900.0
_MOST_REFUSED = 3  # runs that no model could condense, in one pass: a long history has many, each costs several calls
_AT_ONCE = 64  # groups that background work measures before it lets host calls go first
_CONDENSE_SHARE = 0.75  # condense until the prefix is this much of its room, so that it is not condensed at every pass
#: Roots have piled up where there are more than for so many condensations, and so many times the room of the prefix: half of
#: what they say, and more, is cut to one line each. Then an extract of them is more than they are.
_CROWDED_RUNS, _CROWDED_ROOMS = 4, 2


@dataclass(frozen=True, slots=True)
class Request:
    """The host's wish for a compaction, and its limits."""

    messages: Sequence[Mapping[str, Any]]
    transcript: Transcript
    threshold: int
    current_tokens: int | None
    force: bool = False
    focus: str = ""
    memory_context: str = ""
    deadline: float = 0.0
    cancelled: Callable[[], bool] = lambda: False
    salt: int = 0  # the dissolved node that is written anew
    ahead: bool = False  # a plan for later: the list will have grown to the threshold by then
    narrow: bool = False  # only what was archived leaves the prompt
    critical: bool = False  # so near the window's end that nothing is put off and no prompt cache is spared
    due: int = 0  # where the planner lets a pass begin before the threshold; 0: at the threshold
    window: int = 0  # of the model, in the host's estimates; 0: not told
    prices: Callable[[], plan.Prices] = lambda: plan.DEFAULT  # may ask the host, which may ask the network
    settled: Callable[[], bool] = lambda: False  # waits for what is being written ahead of time; False: nothing was
    config: Config | None = None  # the settings for this model and platform; None: the general ones
    retold: Mapping[int, str] = field(default_factory=dict)  # other texts with which requests show messages, by place
    lacking: Sequence[int] = ()  # messages that the prompt neither shows nor covers, to be covered now
    listed: bool = False  # what its list does not show may be others', and is not covered

    def shown(self, messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """The list as requests show it."""
        return rewrites.shown(messages, self.retold)

    @property
    def begins(self) -> int:
        """The size of a prompt at which a pass begins."""
        return min(self.due or self.threshold, self.threshold)


#: A prompt below this share of the threshold lasts for a while.
ENOUGH = 0.5


@dataclass(frozen=True, slots=True)
class View:
    """The live list cut into units, with what stays and what is to be covered."""

    units: tuple[Unit, ...]
    tail: plan.Tail
    backlog: tuple[Unit, ...]
    budget: plan.Budget
    before_tokens: int
    archived: tuple[Archived, ...] = ()
    rest: Node | None = None  # the root whose messages are in the backlog again


class Compactor:
    """Summaries of a backlog, planned, bought and published. One per process and database; holds nothing between calls."""

    def __init__(
        self,
        store: MessageStore,
        dag: SummaryDag,
        expected: Callable[[Session, Assembly | None], Sequence[Expected]],
        summarise: Summarise,
        config: Config,
        *,
        rough: Callable[[Sequence[Mapping[str, Any]]], int],
        dissolved: Callable[[], frozenset[int]] = frozenset,
        archives: ArchivedRanges | None = None,
    ) -> None:
        self._store = store
        self._dag = dag
        self._expected = expected
        self._summarise = summarise
        self.config = config
        self._rough = rough
        self._dissolved = dissolved
        self._archives = archives
        self._refused = Cooldown[tuple[bool, tuple[int, ...]]](_REFUSED_S, time.monotonic)

    def with_settings(self, request: Request) -> Compactor:
        """A copy of this compactor with the settings of a request."""
        if request.config is None or request.config == self.config:
            return self
        other = copy(self)
        other.config = request.config
        return other

    # -- measuring ------------------------------------------------------------------------------------
    def view(self, session: Session, request: Request) -> View:
        """Measure the list and decide what stays raw."""
        units = self._units(session, request)
        newest = latest_request(request.messages, request.transcript.entries)
        archived: tuple[Archived, ...] = ()
        if self._archives is not None and self._archives.waits(session):
            units, archived = self._archives.parted(session, request.transcript, units, _unit_of(newest, units))
        before = self._rough(request.shown(request.messages))
        messages, current = before, request.current_tokens
        if request.ahead:  # as it will be when the threshold is reached
            overhead = min(max(0, (current or 0) - before), request.begins // 2)
            messages = max(before, request.begins - overhead)
            current = messages + overhead
        config = self.config
        budget = plan.budget(
            threshold=request.threshold,
            messages=messages,
            current=current,
            low_water=config.low_water,
            tail_share=config.tail_share,
            prefix_share=config.prefix_share,
            force=request.force or (current or before) < request.begins,
            due=request.begins,
        )
        asked = _unit_of(newest, units)
        tail = plan.tail_of(units, count=config.fresh_tail_count, room_tokens=budget.tail, request=asked)
        backlog = tuple(
            unit for n, unit in enumerate(units) if n != tail.request and (n < tail.start or unit.index < 0)
        )
        if request.narrow:
            tail, backlog = plan.Tail(0, None, tail.tokens), tuple(unit for unit in units if unit.index < 0)
        pinned = units[tail.request] if tail.request is not None else None
        rest = self._rest(session, request, pinned, backlog)
        if rest is not None:
            backlog = (rest[1], *backlog)
        if request.ahead and pinned is not None:
            backlog = plan.parted_at(backlog, pinned.index)
        return View(tuple(units), tail, backlog, budget, before, archived, rest[0] if rest is not None else None)

    def _rest(
        self, session: Session, request: Request, pinned: Unit | None, backlog: Sequence[Unit]
    ) -> tuple[Node, Unit] | None:
        """The rest of the fold before and its messages as one unit, where that is what the next fold begins with."""
        assembly = request.transcript.assembly
        if assembly is None or request.narrow or not (backlog or request.ahead):
            return None
        node = rest_of(self._dag.nodes(assembly.roots), session.conversation_id)
        if node is None or node.node_id in self._dissolved():
            return None
        ids = self._dag.sources(node.node_id)
        behind = [unit.ids[0] for unit in (pinned, *backlog[:1]) if unit is not None and unit.ids]
        heads = self._store.heads_of([*ids, *behind])
        if not heads.keys() >= {*ids, *behind} or any(heads[i].pos < node.last_pos for i in behind):
            return None
        first, size = heads[ids[0]], sum(heads[i].tokens for i in ids)
        return node, Unit(tuple(ids), size, first.role, first.said_at, -1, 0, True)

    # -- units ----------------------------------------------------------------------------------------
    def _units(self, session: Session, request: Request) -> list[Unit]:
        """Groups of the live list, and between them stored rows of the transcript that the list lacks."""
        messages, entries = request.shown(request.messages), request.transcript.entries
        expected = self._with_lacking(session, request)
        shown = {store_id for entry in entries for store_id in entry.ids}
        absent = {} if request.listed else _absent_before(expected, shown)
        rows = {item.store_id: item for item in expected}
        lacking = self._store.heads_of([store_id for store_id in shown if store_id not in rows])
        rows.update({store_id: expected_of(row, row.pos) for store_id, row in lacking.items()})
        live = [n for n, entry in enumerate(entries) if not (entry.own and not entry.ids)]
        out: list[Unit] = []
        for count, group in enumerate(content.groups([messages[n] for n in live])):
            if request.ahead and count and count % _AT_ONCE == 0:
                request.cancelled()  # lets host calls go first
            indexes = live[group.start : group.stop]
            ids = tuple(store_id for n in indexes for store_id in entries[n].ids)
            for store_id in ids:
                out.extend(_absent_unit(item) for item in absent.pop(store_id, ()))
            stubbed = any(entries[n].own == "stub" or n in request.retold for n in indexes)
            size = max(
                self._rough([messages[n] for n in indexes]),
                sum(rows[store_id].tokens for store_id in ids if store_id in rows) if not stubbed else 0,
            )
            said = next((rows[i].at for i in ids if i in rows), None)
            out.append(Unit(ids, size, group.role, said, indexes[0], indexes[-1] + 1, group.whole))
        return out

    def _with_lacking(self, session: Session, request: Request) -> Sequence[Expected]:
        """The transcript behind the prompt of a list, together with messages which that prompt lacks."""
        assembly = request.transcript.assembly
        expected = self._expected(session, assembly)
        if assembly is None or not request.lacking:
            return expected
        known = {*self._dag.messages_below(assembly.roots), *(item.store_id for item in expected)}
        rows = self._store.heads_of([each for each in request.lacking if each not in known]).values()
        return sorted([*expected, *(expected_of(row, row.pos) for row in rows)], key=lambda item: item.pos)

    # -- leaves ---------------------------------------------------------------------------------------
    def cover(self, session: Session, backlog: Sequence[Unit], request: Request) -> list[Node]:
        """A leaf over every unit of the backlog: ready ones, new ones, digests for what time did not suffice."""
        chunks = self.chunks(session, backlog, request.focus)
        ready = {node.node_id: node for node in self._dag.nodes([c.node_id for c in chunks if c.node_id is not None])}
        jobs = [chunk for chunk in chunks if chunk.node_id is None]
        made = self._parallel([partial(self.leaf, session, chunk, request) for chunk in jobs], request)
        nodes: dict[tuple[int, ...], Node] = {}
        for chunk, node in zip(jobs, made, strict=True):
            nodes[chunk.ids] = node if node is not None else self._digest(session, chunk, request)
        return [ready[chunk.node_id] if chunk.node_id is not None else nodes[chunk.ids] for chunk in chunks]

    def leaf_tokens(self, source_tokens: int) -> int:
        """Estimated tokens that a leaf over so many tokens takes in a prompt."""
        return min(source_tokens, self._target(source_tokens, 0)) + FRAME_TOKENS

    def chunks(self, session: Session, backlog: Sequence[Unit], focus: str = "") -> list[plan.Chunk]:
        """The backlog in chunks, ready leaves adopted (unless a focus asks for new ones)."""
        ready: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
        if not focus:
            gone = self._dissolved()
            firsts = [unit.ids[0] for unit in backlog if unit.ids]
            for node, sources in self._dag.leaves_from(session.conversation_id, firsts, extracts=self._extracts):
                if node.node_id in gone:
                    continue
                ready.setdefault(sources[0], []).append((node.node_id, sources))
        config = self.config
        size = plan.chunk_tokens(
            config.leaf_chunk_tokens,
            sum(unit.tokens for unit in backlog),
            dynamic=config.dynamic_leaf_chunk_enabled,
            dynamic_max=config.dynamic_leaf_chunk_max,
        )
        return plan.chunks(backlog, ready, size)

    def leaf(self, session: Session, chunk: plan.Chunk, request: Request) -> Node:
        """Leaf over one chunk, summarised and kept."""
        print_ = _fingerprint(chunk, request)
        witness = self._witness(session, 0, chunk.ids)
        found, size = self._written(session, chunk, request, print_)
        return self._keep(session.conversation_id, 0, chunk.ids, found, print_, size, witness)

    def leaf_ahead(self, session: Session, chunk: plan.Chunk, request: Request) -> Node | None:
        """Summarise one chunk for later. None if no model did: a stand-in is made when one is needed, at once."""
        print_ = _fingerprint(chunk, request)
        witness = self._witness(session, 0, chunk.ids)
        found, size = self._written(session, chunk, request, print_)
        if found.quality == "provisional" and found.rung != EXTRACT_RUNG:
            return None
        return self._keep(session.conversation_id, 0, chunk.ids, found, print_, size, witness)

    def _witness(self, session: Session, depth: int, ids: Sequence[int]) -> bytes:
        """Identity of a node's sources, asked for before they are read. Raises SourcesChanged."""
        return self._dag.witness(session.conversation_id, depth, ids, nonce=session.nonce)

    def _digest(self, session: Session, chunk: plan.Chunk, request: Request) -> Node:
        """An extract that covers a chunk which no model summarised in time, marked as such."""
        late = replace(request, deadline=time.monotonic() - 1.0)
        return self.leaf(session, chunk, late)

    def _written(
        self, session: Session, chunk: plan.Chunk, request: Request, print_: bytes
    ) -> tuple[Summary | Node, int]:
        """Summary of a chunk, with the tokens it covers: the leaf that there is, or words to be kept as one."""
        lines = source_lines(self._store, chunk.ids)
        size = sum(line.tokens for line in lines)
        if size <= plan.TINY_TOKENS or not any(line.text for line in lines):
            return _verbatim(lines), size
        for node in self._dag.by_fingerprint(session.conversation_id, print_, ("verified",)):
            return node, size
        return self._asked(session.conversation_id, 0, lines, size, request, request.focus), size

    def _asked(
        self, chat: int, depth: int, lines: tuple[SourceLine, ...], size: int, request: Request, focus: str
    ) -> Summary:
        target = self._target(size, depth)
        task = SummaryTask(
            depth, lines, size, target, focus, request.memory_context, chat=str(chat), models=self._models
        )
        return self._summarise(task, deadline=request.deadline, cancelled=request.cancelled)

    def _keep(
        self, conversation_id: int, depth: int, ids: tuple[int, ...], summary: Summary | Node, print_: bytes, size: int,
        witness: bytes, replaces: int | None = None,
    ) -> Node:  # fmt: skip
        if isinstance(summary, Node):  # it is kept
            return summary
        return self._dag.add(
            NewNode(
                conversation_id, depth, summary.quality, summary.text, summary.expand_hint, summary.tokens, size, ids, print_,
                summary.model, summary.rung, summary.checks, replaces, witness=witness, stated=summary.stated,
            ),
            now=time.time(),
        )  # fmt: skip

    def _target(self, source_tokens: int, depth: int) -> int:
        """Target length of a summary."""
        return plan.target_tokens(source_tokens, depth, self._extracts)

    @property
    def _models(self) -> tuple[str, ...]:
        return self.config.summary_model, *self.config.summary_fallback_models

    @property
    def _extracts(self) -> bool:
        """Did the user choose extracts instead of a model?"""
        return self.config.summary_model.strip().lower() == EXTRACTIVE

    def archive_nodes(self, session: Session, view: View) -> list[Node]:
        """One node per archive; its text is the placeholder."""
        if self._archives is None:
            return []
        return [self._dag.add(each.node(session.conversation_id), now=time.time()) for each in view.archived]

    # -- roots ----------------------------------------------------------------------------------------
    def roots(self, session: Session, request: Request, view: View) -> list[Node]:
        """The nodes that the live list shows, with those that an operator dissolved replaced by what they were made of.

        Without those whose messages are in the view again.
        """
        assembly = request.transcript.assembly
        back = self._archives.restored(session, request.transcript) if self._archives is not None else []
        gone = {view.rest.node_id if view.rest is not None else 0, *(node.node_id for _, node in back)}
        shown = [i for i in assembly.roots if i not in gone] if assembly is not None else []
        waiting = list(reversed(self._dag.nodes(shown)))
        dissolved = self._dissolved() if waiting else frozenset()
        out: list[Node] = []
        while waiting:
            node = waiting.pop()
            if node.node_id not in dissolved:
                out.append(node)
            elif node.depth:
                waiting.extend(reversed(self._dag.nodes(self._dag.sources(node.node_id))))
            else:
                out.append(self._rewritten(session, node, request))
        return out

    def _rewritten(self, session: Session, leaf: Node, request: Request) -> Node:
        """Another leaf over the messages of one that was dissolved."""
        chunk = plan.Chunk(tuple(self._dag.sources(leaf.node_id)), leaf.source_tokens)
        salted = replace(request, focus=request.focus, salt=leaf.node_id)
        found = self._parallel([lambda: self.leaf(session, chunk, salted)], salted)[0]
        return found if found is not None else self._digest(session, chunk, salted)

    def repaired(self, roots: Sequence[Node], request: Request, *, ask: bool = True) -> list[Node]:
        """Provisional roots replaced by what a model has written since, or (``ask``) writes now, about the same sources."""
        if not ask:
            return [self.better(root) or root if repairable(root) else root for root in roots]
        poor = [root for root in roots if repairable(root)]
        jobs = [partial(self.repair, root, request) for root in poor]
        better = dict(zip(poor, self._parallel(jobs, request), strict=True))
        return [better.get(root) or root for root in roots]

    def better(self, root: Node) -> Node | None:
        """The summary that a model has written since about the sources of a provisional node."""
        found = self._dag.by_fingerprint(root.conversation_id, root.fingerprint, ("verified",))
        return found[0] if found else None

    def repair(self, root: Node, request: Request) -> Node:
        """The verified node over the sources of a provisional one, by asking a model if there is none; or the same node."""
        found = self.better(root)
        if found is not None:
            return found
        sources = self._dag.sources(root.node_id)
        if self._dag.node(root.node_id) != root:
            raise SourcesChanged(f"{root.address} is another node than it was, or none")
        witness = self._dag.witness(root.conversation_id, 0, sources)
        lines = source_lines(self._store, sources)
        size = sum(line.tokens for line in lines)
        summary = self._asked(root.conversation_id, 0, lines, size, request, "")
        if summary.quality != "verified":
            return root
        return self._keep(
            root.conversation_id, 0, tuple(sources), summary, root.fingerprint, size, witness, root.node_id
        )

    def condense(
        self, session: Session, roots: list[Node], room: int, request: Request, *, ask: bool = True
    ) -> list[Node]:
        """Fold the oldest nodes of a depth together while the prefix is larger than its room.

        Without ``ask`` only into parents that are ready. A run that no model could condense is left alone for a while, and
        the next one is tried. Only where the roots of a model that never can have piled up, its extract is better than none.
        """
        config = self.config
        first, refused = True, 0
        while refused < _MOST_REFUSED and time.monotonic() < request.deadline and not request.cancelled():
            runs = plan.condensations(
                roots,
                room_tokens=room if first and not request.critical else int(room * _CONDENSE_SHARE),
                fanin=config.condensation_fanin,
                max_depth=config.incremental_max_depth,
                frame_tokens=FRAME_TOKENS,
            )
            crowded = self._crowded(roots, room)
            run = next((run for run in runs if not self._refused.waits((crowded, tuple(run)))), None)
            if run is None:
                break
            first = False
            members = set(run)
            children = [node for node in roots if node.node_id in members]
            parent = self.parent(session, children, request, crowded) if ask else self.ready_parent(session, children)
            if parent is None and not ask:
                break
            if parent is None:
                self._refused.give_up((crowded, tuple(run)))
                refused += 1
                continue  # the children stay
            roots = sorted(
                [*(n for n in roots if n.node_id not in members), parent], key=lambda n: (n.first_pos, n.node_id)
            )
        return roots

    def _crowded(self, roots: Sequence[Node], room: int) -> bool:
        many = len(roots) > _CROWDED_RUNS * self.config.condensation_fanin
        return many and sum(node.tokens + FRAME_TOKENS for node in roots) > _CROWDED_ROOMS * room

    def ready_parent(self, session: Session, children: Sequence[Node]) -> Node | None:
        """The node that was condensed from exactly these before, unless an operator dissolved it."""
        found = self._parent_of(session, children)
        return found if found is not None and found.node_id not in self._dissolved() else None

    def _parent_of(self, session: Session, children: Sequence[Node]) -> Node | None:
        print_ = fingerprint(children[0].depth + 1, [node.node_id for node in children])
        found = self._dag.by_fingerprint(session.conversation_id, print_, ("verified", "provisional"))
        return found[0] if found else None

    def parent(
        self, session: Session, children: Sequence[Node], request: Request, crowded: bool = False
    ) -> Node | None:
        """Condense nodes of one depth into one above; None when no model did, for children are never given up for less.
        ``crowded``: the prompt has hardly a line for each of them, so verified sentences of their own are more."""
        found = self._parent_of(session, children)
        if found is not None:  # what an operator dissolved is not condensed again
            return found if found.node_id not in self._dissolved() else None
        ids = tuple(node.node_id for node in children)
        depth = children[0].depth + 1
        print_ = fingerprint(depth, ids)
        witness = self._witness(session, depth, ids)
        if self._dag.nodes(ids) != [*children]:
            raise SourcesChanged(f"summaries of conversation {session.conversation_id} have other words than they had")
        lines = tuple(
            SourceLine(
                f"part_{place}", "summary", f"{n.text}\nExpand for details about: {n.expand_hint}", n.earliest_at, None, n.tokens,
            )
            for place, n in enumerate(children, 1)
        )  # fmt: skip
        size = sum(node.tokens for node in children)
        chat = session.conversation_id
        summary = self._parallel([lambda: self._asked(chat, depth, lines, size, request, request.focus)], request)[0]
        if summary is None or (summary.quality != "verified" and summary.rung != EXTRACT_RUNG):
            return None
        quotable = crowded and all(node.quality == "verified" for node in children)
        if summary.tokens >= size or (summary.rung == QUOTED and not quotable):
            return None
        return self._keep(session.conversation_id, depth, ids, summary, print_, size, witness)

    # -- threads --------------------------------------------------------------------------------------
    def _parallel(self, jobs: Sequence[Callable[[], Any]], request: Request) -> list[Any]:
        """Run jobs on daemon threads until the deadline; None for those that did not end in time or failed on storage.

        A job that is late goes on: its leaf is kept and found ready by the next pass.
        """
        workers = Workers(
            jobs, skip=lambda: time.monotonic() >= request.deadline or request.cancelled(), quiet=(SummaryError,)
        )
        return workers.run(self.config.summary_parallelism, lambda: request.deadline - time.monotonic())


# -- pure helpers ------------------------------------------------------------------------------------------
def repairable(node: Node) -> bool:
    """Is this a stand-in that a model should replace? (An extract that the user chose, or what an agent archived, is not.)"""
    return node.quality == "provisional" and node.depth == 0 and node.rung not in (EXTRACT_RUNG, ARCHIVE_RUNG)


def rest_of(roots: Sequence[Node], conversation_id: int) -> Node | None:
    """The newest of a prompt's nodes where it stands in for so little of this conversation that it is folded with what follows.

    A call of its own would read more instructions than conversation.
    """
    newest = max(roots, key=lambda node: node.last_pos, default=None)
    if newest is None or newest.conversation_id != conversation_id or not repairable(newest):
        return None
    return newest if newest.source_tokens < plan.LEAST_TOKENS else None


#: A line within somebody's words that looks like the beginning of another speaker's.
_SPEAKER = re.compile(r"(?im)^(\s*)\[(user|assistant|tool|system|developer|summary|host)\]")


def _verbatim(lines: Sequence[SourceLine]) -> Summary:
    said = [(line.role, _SPEAKER.sub(r"\1‹\2›", line.text)) for line in lines if line.text]
    text = "\n".join(f"[{role}] {text}" for role, text in said) or "[notes of the host]"
    return Summary(text, "", "verbatim", "verbatim", "", "{}", max(1, tokens.count(text)))


def _fingerprint(chunk: plan.Chunk, request: Request) -> bytes:
    """Fingerprint of a leaf; a focus, or a dissolved leaf that it replaces, makes it another one."""
    parts = {"focus": request.focus, "replaces": request.salt}
    return fingerprint(0, chunk.ids, variant="".join(f"{name}:{value};" for name, value in parts.items() if value))


def _absent_before(expected: Sequence[Expected], shown: set[int]) -> dict[int, list[Expected]]:
    """Rows of the transcript that the live list lacks, by the shown row they stand in front of."""
    out: dict[int, list[Expected]] = {}
    waiting: list[Expected] = []
    for item in expected:
        if item.store_id in shown:
            if waiting:
                out[item.store_id] = waiting
            waiting = []
        else:
            waiting.append(item)
    return out


def _absent_unit(row: Expected) -> Unit:
    return Unit((row.store_id,), row.tokens, row.role, row.at, -1, 0, True)


def _unit_of(index: int | None, units: Sequence[Unit]) -> int | None:
    """Place of the unit that begins with a message of the live list."""
    return next((n for n, unit in enumerate(units) if unit.index == index), None)


class Workers:
    """Runs one batch of jobs. ``skip``: asked before each job; ``quiet``: exceptions that only mean "no result"."""

    def __init__(
        self, jobs: Sequence[Callable[[], Any]], *, skip: Callable[[], bool], quiet: tuple[type[Exception], ...]
    ) -> None:
        self._jobs = jobs
        self._skip = skip
        self._quiet = quiet
        self._done = threading.Semaphore(0)
        self._todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._results: list[Any] = [None] * len(jobs)
        self._failures: list[Exception] = []

    def run(self, workers: int, seconds_left: Callable[[], float]) -> list[Any]:
        """Results in the order of the jobs, None for those that did not end in time. Raises what a job raised first.

        ``seconds_left`` tells how many seconds are left. Each thread works in a copy of the caller's context.
        """
        for n in range(len(self._jobs)):
            self._todo.put(n)
        for _ in range(min(len(self._jobs), max(1, workers))):
            threading.Thread(
                target=context_for_thread().run, args=(self._work,), name="lcm-summary", daemon=True
            ).start()
        for _ in self._jobs:
            if not self._done.acquire(timeout=max(0.0, seconds_left())):
                break
        if self._failures:
            raise self._failures[0]
        return list(self._results)

    def _work(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._one(self._todo.get_nowait())

    def _one(self, n: int) -> None:
        try:
            if not self._skip():
                self._results[n] = self._jobs[n]()
        except self._quiet:
            pass
        except Exception as exc:  # noqa: BLE001 - handed to the caller's thread, which raises it
            self._failures.append(exc)
        finally:
            self._done.release()
