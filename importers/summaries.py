"""
Summaries of another engine as nodes here: readable, searchable, followed down to their messages, and never passed off as ours.

An imported summary was not verified by us, so it is provisional, says where it comes from, covers nothing in a prompt, and is
neither condensed nor asked about again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ..records import Flag, NewNode
from ..storage.files import Progress, silent
from ..store import NewRow
from ..text import content, tokens
from .ledger import MESSAGE, NODE, Ledger, Source

if TYPE_CHECKING:
    from ..recall.access import Access

RUNG: Final = "imported"
_MOST_SOURCES: Final = 30_000
_BATCH: Final = 50


@dataclass(frozen=True, slots=True)
class NodeItem:
    """One summary of another store. ``of_nodes``: its sources are summaries there, not messages.

    ``fallback``: messages (by their keys) that it must be about where none of its sources is left.
    """

    key: str
    depth: int
    text: str
    sources: tuple[str, ...]
    of_nodes: bool
    created_at: float
    hint: str = ""
    tokens: int = 0
    source_tokens: int = 0
    model: str = ""
    fallback: tuple[str, ...] = ()
    session_id: str = ""
    files: tuple[
        tuple[str, str], ...
    ] = ()  # names that its text mentions, and the message that has each file's content


@dataclass(slots=True)
class NodesTaken:
    """``relinked``: nodes whose recorded sources were gone; ``homeless``: those of a session without any message."""

    added: int = 0
    present: int = 0
    relinked: int = 0
    homeless: int = 0


def take_nodes(deps: Access, source: Source, nodes: Iterable[NodeItem], progress: Progress = silent) -> NodesTaken:
    """Store what is not here yet, children before what was condensed from them."""
    return _Nodes(deps, source).store_nodes(list(nodes), progress)


class _Nodes:
    def __init__(self, deps: Access, source: Source) -> None:
        self._deps = deps
        self._source = source
        self._ledger = Ledger(deps.db)
        self._messages = self._ledger.rows_by_source(source, MESSAGE)
        self._nodes = self._ledger.rows_by_source(source, NODE)
        self._originals = self._ledger.duplicates()
        self._homes: dict[tuple[bool, int], int] = {}  # conversations of rows that are not committed yet
        self.out = NodesTaken()

    def store_nodes(self, items: Sequence[NodeItem], progress: Progress) -> NodesTaken:
        waiting = [item for item in items if item.key not in self._nodes]
        self.out.present = len(items) - len(waiting)
        keys = {item.key for item in items}
        for item_batch in _batches(_children_first(waiting, keys)):
            with self._deps.db.transaction():
                for item in item_batch:
                    self._add(item)
            progress("storing summaries", self.out.present + self.out.added, len(items))
        return self.out

    def _add(self, item: NodeItem) -> None:
        known = self._nodes if item.of_nodes else self._messages
        sources = self._here(item.sources, known)
        checks: dict[str, Any] = {"imported": self._source.import_id, "node": item.key, "verified": False}
        depth = max(1, item.depth) if item.of_nodes else 0
        if not sources:
            sources, depth = self._here(item.fallback, self._messages), 0
            checks["sources"] = "by time: those that were recorded are gone"
            self.out.relinked += bool(sources)
        elif len(sources) < len(set(item.sources)):
            checks["sources"] = (
                f"{len(set(item.sources)) - len(sources)} of those that were recorded are gone, or copies"
            )
        if not sources:
            sources, depth = (self._stand_in(item),), 0
            self.out.homeless += 1
        made = self._deps.dag.add(self._new(item, depth, sources, checks), now=item.created_at)
        self._nodes[item.key] = made.node_id
        self._homes[True, made.node_id] = made.conversation_id
        self._ledger.note(self._source, NODE, [(item.key, made.node_id)])
        self.out.added += 1

    def _stand_in(self, item: NodeItem) -> int:
        """A row for a summary whose messages are all gone: every node is about something. No part of the transcript."""
        session = self._deps.sessions.find(item.session_id) or self._deps.sessions.open(
            item.session_id or f"import:{self._source.source_id}", now=item.created_at, platform="unknown"
        )
        text = f"[A summary whose messages were gone when it was imported]\n{item.text}"
        said = self._deps.filters.stored_form(content.read_message({"role": "system", "content": text}))
        row = NewRow(said, flags=Flag.HOST_NOTE | Flag.RETRACTED)
        conversation = session.conversation_id
        last = self._deps.store.last_seq(conversation)
        now = self._deps.clock()
        store_id = self._deps.store.append(conversation, session.session_id, last, [row], source="import", now=now)[0]
        self._homes[False, store_id] = conversation
        return store_id

    def _hint(self, item: NodeItem) -> str:
        """The hint of a summary: topics to expand it for, and the files that its text names."""
        where = (f"{name} is msg_{self._messages[key]}" for name, key in item.files if key in self._messages)
        return "; ".join(filter(None, [item.hint, *where]))

    def _here(self, keys: Sequence[str], known: Mapping[str, int]) -> tuple[int, ...]:
        """Addresses here, each once; a copy counts as what it repeats."""
        found = (known.get(key) for key in keys)
        each = (self._originals.get(n, n) if known is self._messages else n for n in found if n)
        return tuple(dict.fromkeys(each))[:_MOST_SOURCES]

    def _new(self, item: NodeItem, depth: int, sources: tuple[int, ...], checks: Mapping[str, Any]) -> NewNode:
        conversation = self._homes.get((depth > 0, sources[0]))
        if conversation is None and depth:
            conversation = self._deps.dag.nodes(sources[:1])[0].conversation_id
        elif conversation is None:
            conversation = self._deps.store.heads_of(sources[:1])[sources[0]].conversation_id
        name = f"i1:{self._source.import_id}:{item.key}".encode("utf-8", "surrogatepass")
        return NewNode(
            conversation,
            depth,
            "provisional",
            item.text,
            self._hint(item),
            item.tokens or tokens.count(item.text),
            item.source_tokens,
            sources,
            # Not that of the sources: our own compaction must never take it for a summary that it may use.
            blake2b(name, digest_size=16).digest(),
            item.model,
            RUNG,
            json.dumps(checks, ensure_ascii=False),
        )


def _children_first(items: Sequence[NodeItem], keys: set[str]) -> Iterator[NodeItem]:
    """Nodes in an order in which sources come first; members of a circle come last, as they are."""
    by_key = {item.key: item for item in items}
    done: set[str] = set()
    for item in items:
        stack = [(item, iter(item.sources if item.of_nodes else ()))]
        path = {item.key}
        while stack:
            node, rest = stack[-1]
            child = next((key for key in rest if key in by_key and key not in done and key not in path), None)
            if child is not None and child in keys:
                path.add(child)
                stack.append((by_key[child], iter(by_key[child].sources if by_key[child].of_nodes else ())))
                continue
            stack.pop()
            if node.key not in done:
                done.add(node.key)
                yield node


def _batches(items: Iterable[NodeItem]) -> Iterator[list[NodeItem]]:
    every = iter(items)
    while batch := [*islice(every, _BATCH)]:
        yield batch
