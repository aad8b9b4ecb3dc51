"""
Compress pass: one compaction from the host's list to the list it gets back.

Composes ingest's transcript, the compactor's nodes and the assembly into a prompt that fits, and records it. Nothing takes effect
until the host shows that prompt back: an assembly governs only the lists that bear it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..dag import SummaryDag
from ..errors import SourcesChanged, SummaryUnavailable
from ..ingest import filters
from ..ingest.transcript import Entry
from ..llm.ladder import SESSION
from ..prompt import context_message
from ..prompt import rewrites as stubbing
from ..prompt.present_state import PresentState
from ..prompt.rewrites import superseded
from ..records import ARCHIVE_RUNG, Flag, Node, in_order
from ..session import Session, Sessions
from ..store import MessageStore
from ..text import content
from ..text import markup as own
from .compactor import ENOUGH, Compactor, Request, View
from .plan import TINY_TOKENS

_CROWDED = 1.5
_LASTS = 0.75  # of the room: a prompt with whole summaries that is no larger lasts until they are condensed
_EXTRACTED = 0.08  # of the threshold: what may become an extract because no summary of it is ready
#: Stubs to try, largest results first: characters to keep, and the least tokens of a result that is worth one. The last are for
#: a call of hundreds of tools at once.
_STUBS = ((6000, 600), (1500, 600), (300, 600), (60, 150))


@dataclass(frozen=True, slots=True)
class Outcome:
    """A new prompt, or None and why there is none."""

    messages: list[dict[str, Any]] | None
    reason: str
    before_tokens: int = 0
    after_tokens: int = 0
    provisional: int = 0
    assembly_id: int = 0
    over_limit: bool = False
    folded: int = 0  # messages that left the prompt for summaries
    leaves: int = 0  # those summaries
    unused: int = 0  # summaries of the same messages that were written ahead of time and did not fit


STATE_SHARE = 0.06  # of the threshold: the block of present state
_LEAST_STATE = 400  # tokens, where that share holds them
_STANDS_FOR = 4  # times a summary's tokens


_Built = tuple[str, list[dict[str, Any]], int]
"""Text of a context message, the prompt with it, and its tokens."""


class CompressPass:
    """Compaction of a live list into a smaller one. One per process and database; holds nothing between calls."""

    def __init__(
        self,
        compactor: Compactor,
        store: MessageStore,
        dag: SummaryDag,
        sessions: Sessions,
        state: PresentState,
        *,
        rough: Callable[[Sequence[Mapping[str, Any]]], int],
        clean: Callable[[Sequence[Mapping[str, Any]]], Sequence[Mapping[str, Any]]] = list,
        stub_chars: int = 4000,
        policy: Callable[[], str] = str,
    ) -> None:
        self._compactor = compactor
        self._store = store
        self._dag = dag
        self._sessions = sessions
        self._state = state
        self._rough = rough
        self._clean = clean
        self._stub_chars = stub_chars
        self._policy = policy
        self._lock = threading.Lock()
        self._running: set[str] = set()

    @contextmanager
    def only_one(self, session_id: str) -> Iterator[bool]:
        """True for the one caller that may compact the session; a second one is told so at once, not made to wait."""
        with self._lock:
            free = session_id not in self._running
            self._running.add(session_id)
        try:
            yield free
        finally:
            if free:
                self._running.discard(session_id)

    def compact(self, session: Session, request: Request) -> Outcome:
        """A new prompt for the session, or none when that would not make it smaller. Raises StoreError."""
        SESSION.set(session.session_id)
        request = self._without_context(request)
        compactor = self._compactor.with_settings(request)
        view = compactor.view(session, request)
        if not view.units:
            return Outcome(None, "nothing to compact", view.before_tokens)
        try:
            roots = [
                *compactor.roots(session, request, view),
                *compactor.archive_nodes(session, view),
            ]
            # What a model is writing already comes sooner than what it would be asked for now, and costs nothing more.
            ready = self._is_ready(session, view, roots, request) or (
                request.settled() and self._is_ready(session, view, roots, request)
            )
            at_once = replace(request, deadline=time.monotonic()) if ready else request
            view = view if ready else self._chunkwise(session, view, roots, request)
            fresh = compactor.cover(session, view.backlog, at_once)
            roots = in_order([*compactor.repaired(roots, request, ask=not ready), *fresh])
            roots = compactor.condense(session, roots, view.budget.prefix, request, ask=not ready)
        except SummaryUnavailable:
            if not request.cancelled():
                raise
        if request.cancelled():
            return Outcome(None, "cancelled by the host", view.before_tokens)
        outcome = self.publish(session, view, roots, request)
        folded = sum(node.message_count for node in fresh) - (view.rest.message_count if view.rest is not None else 0)
        unused = self._dag.passed_over(fresh, {node.node_id for node in [*roots, *fresh]})
        return replace(outcome, folded=folded, leaves=len(fresh), unused=unused)

    def _is_ready(self, session: Session, view: View, roots: Sequence[Node], request: Request) -> bool:
        """Do the leaves that are ready free enough? Then no model is asked while the user waits.

        What is not prepared yet is an extract until a model has read it. Left raw it would be carried along by hundreds of
        requests, and what a conversation costs would depend on how busy the machine was.
        """
        compactor = self._compactor.with_settings(request)
        if request.force or request.focus or request.narrow or request.critical:
            return False
        chunks = compactor.chunks(session, view.backlog)
        ready = self._dag.nodes([chunk.node_id for chunk in chunks if chunk.node_id is not None])
        late = sum(chunk.tokens for chunk in chunks if chunk.node_id is None and chunk.tokens > TINY_TOKENS)
        prefix = min(context_message.prefix_tokens([*roots, *ready]), view.budget.prefix)
        threshold = view.budget.threshold
        # No pass is asked to get below its low-water mark.
        enough = max(threshold * ENOUGH - view.budget.overhead, view.budget.limit)
        return bool(ready) and late <= threshold * _EXTRACTED and view.tail.tokens + late + prefix <= enough

    def _chunkwise(self, session: Session, view: View, roots: Sequence[Node], request: Request) -> View:
        """The view of a pass that covers no more of the oldest chunks than it takes to get down to the low-water mark."""
        compactor = self._compactor.with_settings(request)
        if (
            not compactor.config.dynamic_leaf_chunk_enabled
            or request.force
            or request.focus
            or request.narrow
            or request.critical
        ):
            return view
        taken: set[int] = set()
        prefix = context_message.prefix_tokens(roots)
        for chunk in compactor.chunks(session, view.backlog):
            taken.update(chunk.ids)
            prefix += compactor.leaf_tokens(chunk.tokens)
            kept = _keeping(view, taken)
            if kept is not None and kept.tail.tokens + min(prefix, view.budget.prefix) <= view.budget.limit:
                return replace(kept, backlog=tuple(u for u in view.backlog if taken.issuperset(u.ids)))
        return view

    def _without_context(self, request: Request) -> Request:
        """The list without our text where the host glued a message to it."""
        glued = [
            n for n, entry in enumerate(request.transcript.entries) if entry.own in ("context", "carrier") and entry.ids
        ]
        if not glued:
            return request
        messages = list(request.messages)
        for n in glued:
            messages[n] = {
                **messages[n],
                "content": self._without_ours(messages[n], request.transcript.entries[n].ids[-1]),
            }
        return replace(request, messages=messages)

    def _without_ours(self, message: Mapping[str, Any], store_id: int) -> str:
        """Words that were glued to text of ours, as they were stored; where these cannot be read, as the list shows them."""
        rows, _ = self._store.legible([store_id])
        if rows:
            return rows[0].text
        (said,) = self._clean([{"content": own.glued(content.text_of(message.get("content")))}])
        return str(said["content"])

    def has_backlog(self, session: Session, request: Request) -> bool:
        """Would a pass find anything to cover?"""
        view = self._compactor.with_settings(request).view(session, request)
        return bool(view.backlog or view.archived)

    def publish(self, session: Session, view: View, roots: Sequence[Node], request: Request) -> Outcome:
        """Build the prompt that fits, record it as an assembly, hand it over; or nothing if it is no smaller."""
        carried, entries = self._carried(session, request), request.transcript.entries
        kept, pinned = _places(view)
        limit = max(256, view.budget.threshold - view.budget.overhead)
        # What the summaries really take, not what they might: a tail with unprepared messages in front uses the rest.
        prefix = min(context_message.prefix_tokens([*carried, *roots]), view.budget.prefix, limit // 3)
        order = ([pinned] if pinned is not None else []) + kept
        whole = self._redacted(request.messages, entries, order)
        messages = request.shown(whole)
        spared = self._rough([whole[n] for n in order]) - self._rough([messages[n] for n in order])
        stubs = self._stubs(session, messages, entries, kept, pinned, limit - prefix)
        if not roots and not stubs:
            return Outcome(None, "nothing outside the protected tail", view.before_tokens)
        tail_ids = [i for n in order for i in entries[n].ids]
        short = {entries[n].ids[0]: chars for n, (_, chars) in stubs.items()}
        state_room = state_tokens(request.threshold, roots)
        state = self._present(session, request, roots, set(tail_ids).difference(short), state_room)
        first, policy = whole[pinned] if pinned is not None else None, self._policy()

        def built(assembly_id: int) -> _Built:
            """The prompt under this number, in the largest room for summaries that fits."""
            for room, most in _rooms(view.budget.prefix, view.budget.limit, limit):
                text = context_message.context_text(session.nonce, assembly_id, roots, carried, room, state, policy)
                out = context_message.prompt(
                    session.nonce, text, first, [whole[n] for n in kept],
                    {kept.index(n): stub for n, (stub, _) in stubs.items()}, _gaps(pinned, kept),
                )  # fmt: skip
                after = self._rough(out) - spared
                if after <= most:
                    break
            return text, out, after

        _, out, after = ready = built(expected := self._dag.next_assembly())
        if after >= view.before_tokens and not request.lacking:
            return Outcome(None, f"the prompt would not get smaller ({view.before_tokens} to {after} tokens)",
                           view.before_tokens, after)  # fmt: skip
        with self._store.writing():
            self._unchanged(session, roots)
            assembly_id = self._dag.publish(
                session.conversation_id, session.session_id, [node.node_id for node in roots], tail_ids,
                last_seq=request.transcript.last_seq, last_pos=self._last_pos(session, roots, tail_ids), now=time.time(),
                state_tokens=state_room, stubs=short,
            )  # fmt: skip
            # Where another process has published meanwhile: the text bears the number.
            text, out, after = ready if assembly_id == expected else built(assembly_id)
            self._dag.seal(assembly_id, own.context_digest(text))
        poor = sum(1 for node in roots if node.quality == "provisional" and node.rung != ARCHIVE_RUNG)
        said = "compacted" if after <= limit else "compacted as far as possible; the prompt is above its threshold"
        return Outcome(out, said, view.before_tokens, after, poor, assembly_id, after > limit)

    def _unchanged(self, session: Session, roots: Sequence[Node]) -> None:
        """Raises SourcesChanged where another file came in place of the one in which the roots were found."""
        found = self._sessions.find(session.session_id)
        if found is None or found.nonce != session.nonce or self._dag.nodes([n.node_id for n in roots]) != list(roots):
            raise SourcesChanged(f"the database of session {session.session_id!r} was replaced during the compaction")

    def _redacted(
        self, messages: Sequence[Mapping[str, Any]], entries: Sequence[Entry], order: Sequence[int]
    ) -> Sequence[Mapping[str, Any]]:
        """The list with messages from which secrets were taken before they were stored as they were stored.

        What cannot be read of them is taken from the list, where it is still whole, without what is secret by today's settings.
        """
        heads = self._store.heads_of([store_id for n in order for store_id in entries[n].ids])
        secret = [n for n in order if any(heads[i].flags & Flag.REDACTED for i in entries[n].ids if i in heads)]
        if not secret:
            return messages
        out = list(messages)
        for n in secret:
            rows, damaged = self._store.legible(entries[n].ids)
            if damaged:
                out[n] = filters.as_redacted(out[n], self._clean([out[n]])[0])
                continue
            text = None if len(rows) == 1 else "\n\n".join(row.text for row in rows)
            out[n] = filters.as_redacted(out[n], rows[0].stored_json if text is None else {"content": text})
        return out

    def _last_pos(self, session: Session, roots: Sequence[Node], tail_ids: Sequence[int]) -> float:
        """Last position of the conversation that the new prompt reaches."""
        tail = self._store.heads_of(tail_ids).values()
        own = [row.pos for row in tail if row.conversation_id == session.conversation_id]
        return max(
            [*own, *(node.last_pos for node in roots if node.conversation_id == session.conversation_id)], default=0.0
        )

    def _carried(self, session: Session, request: Request) -> list[Node]:
        """Summaries of the conversation before; none for a list that may be another person's, and has not shown them yet."""
        if request.listed and request.transcript.assembly is None:
            return []
        return self._dag.nodes(self._sessions.carried(session.conversation_id))

    def _present(
        self, session: Session, request: Request, roots: Sequence[Node], shown: Collection[int], room_tokens: int
    ) -> str:
        """The block of present state, for prompts that cover anything."""
        segments, only = self._sessions.ancestry(session.conversation_id), None
        if request.listed:
            listed = {store_id for entry in request.transcript.entries for store_id in entry.ids}
            only = listed.union(self._dag.messages_below([node.node_id for node in roots]))
        return self._state.block(segments, nonce=session.nonce, shown=shown, room_tokens=room_tokens, only=only)

    def _stubs(
        self,
        session: Session,
        messages: Sequence[Mapping[str, Any]],
        entries: Sequence[Entry],
        kept: Sequence[int],
        pinned: int | None,
        room: int,
    ) -> dict[int, tuple[str, int]]:
        """Tool results of the tail to show by reference, and the characters that are kept of each.

        First those that a later one stands for, then the largest until it fits.
        """
        sizes = {n: self._rough([messages[n]]) for n in ([pinned] if pinned is not None else []) + list(kept)}
        used = sum(sizes.values())
        stubs: dict[int, tuple[str, int]] = {}
        for n in superseded(messages, self._stub_chars):  # the prefix is new anyway, so this costs nothing
            if n in sizes and n != pinned and len(entries[n].ids) == 1:
                text = stubbing.stub(session.nonce, self._store, messages[n], entries[n].ids[0])
                stubs[n] = text, stubbing.KEEP_CHARS
                size = self._rough([{**messages[n], "content": text}])
                used, sizes[n] = used + size - sizes[n], size
        for keep_chars, least in _STUBS:
            for n in sorted(kept, key=lambda i: -sizes[i]):
                if used <= room:
                    return stubs
                message = messages[n]
                if message.get("role") != "tool" or sizes[n] < least or len(entries[n].ids) != 1:
                    continue
                text = stubbing.text_of(self._store, message, entries[n].ids[0])
                name = str(message.get("tool_name") or message.get("name") or "")
                stub = context_message.stub_text(session.nonce, entries[n].ids[0], name, text, keep_chars)
                size = self._rough([{**message, "content": stub}])
                if size < sizes[n]:
                    used += size - sizes[n]
                    sizes[n] = size
                    stubs[n] = stub, keep_chars
        return stubs


def _places(view: View) -> tuple[list[int], int | None]:
    """Places in the list of the messages that stay, and of the request that stays in front of them."""
    kept = [n for unit in view.units[view.tail.start :] if unit.index >= 0 for n in range(unit.index, unit.stop)]
    return kept, view.units[view.tail.request].index if view.tail.request is not None else None


def _rooms(prefix: int, wanted: int, limit: int) -> tuple[tuple[int, int], ...]:
    """Rooms for the summaries to try, with what the prompt may take then.

    The first one is for summaries that will be condensed before the next compaction: to shorten them now would break what a
    provider has cached twice, and lose the oldest one from the prompt.
    """
    lasts = min(limit, max(wanted, int(limit * _LASTS)))
    return (int(prefix * _CROWDED), lasts), (prefix, limit), (prefix // 2, limit), (0, limit)


def state_tokens(threshold: int, roots: Sequence[Node]) -> int:
    """Room of the present state: where the summaries stand for little, it says little too.

    What a condensed one is made of are summaries, and stands for several times as much itself.
    """
    stands_for = sum(node.source_tokens * _STANDS_FOR**node.depth for node in roots)
    return int(min(threshold * STATE_SHARE, max(_LEAST_STATE, _STANDS_FOR * stands_for * STATE_SHARE)))


def _gaps(pinned: int | None, kept: Sequence[int]) -> frozenset[int]:
    """Places of kept messages in front of which others of the list are left out."""
    before = [pinned, *kept[:-1]]
    return frozenset(
        at for at, (last, n) in enumerate(zip(before, kept, strict=False)) if last is not None and n != last + 1
    )


def _keeping(view: View, taken: set[int]) -> View | None:
    """The view when only these rows leave the prompt, oldest first; None when rows that are not shown would stay uncovered."""
    left = [n for n, unit in enumerate(view.units) if not taken.issuperset(unit.ids) and unit.ids]
    if any(view.units[n].index < 0 for n in left):
        return None
    asked = view.tail.request
    start = next((n for n in left if n != asked), len(view.units))
    raw = sum(view.units[n].tokens for n in {*left, *range(start, len(view.units))})
    pinned = asked if asked is not None and asked < start else None
    return replace(view, tail=replace(view.tail, start=start, request=pinned, tokens=raw))


#: Reasons of a pass without a result, as it gives them, and in words. A reason that is not here is shown as it is.
_WHY = {
    "nothing to compact": "there is nothing to fold yet",
    "nothing outside the protected tail": "only the newest messages are left, and they stay as they are",
    "cancelled by the host": "Hermes stopped waiting; it goes on at the next message",
}
_GREW = re.compile(r"the prompt would not get smaller.*")
BEGINS = "Folding old messages into summaries; every message stays stored."


def folded(outcome: Outcome, seconds: float, where: str) -> str:
    """The line after a compaction. ``where``: how the user can look at what was folded, "" if there is no way from here."""
    size = f"{thousands(outcome.before_tokens)} to {thousands(outcome.after_tokens)} tokens, {seconds:.1f} s"
    if outcome.folded:
        what = f"Folded {_count(outcome.folded, 'message', 'messages')} into {_count(outcome.leaves, 'summary', 'summaries')}"
    else:
        what = "Shortened the prompt"
    kept = "nothing lost" if outcome.assembly_id else "not stored by the plugin, still in Hermes' own transcript"
    notes = [kept, *([where] if where and outcome.assembly_id else [])]
    said = f"{what} ({size}); {', '.join(notes)}."
    if outcome.provisional:
        said += f" {_count(outcome.provisional, 'part is an extract', 'parts are extracts')} until a model answers."
    return said + (" The prompt is still above its threshold." if outcome.over_limit else "")


def not_folded(reason: str) -> str:
    """The line where a compaction was asked for and did not happen."""
    if _GREW.fullmatch(reason):
        reason = "the summaries would be no shorter than the messages"
    return f"Did not fold old messages: {_WHY.get(reason, reason)}."


def thousands(tokens: int) -> str:
    """Tokens for people: 51k, 940."""
    return f"{tokens / 1000:.0f}k" if tokens >= 1000 else str(tokens)


def _count(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
