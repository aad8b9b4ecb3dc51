"""
Summary nodes, what they cover, and the prompts that were built from them.

Owns tables ``nodes``, ``node_sources`` and ``assemblies``. Knows nothing of models, prompts or budgets. A node and its sources
are one fact; nodes are never changed: a better one replaces a worse one by saying so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, TypeVar

from .errors import SourcesChanged
from .records import ARCHIVE_RUNG, EXTRACT_RUNG, STATED, Assembly, NewNode, Node, StatedFact
from .search.index import NodeIndex
from .storage.connection import Database, marks, padded, parts_of
from .storage.meta import REWRITTEN, skips_counted
from .text.content import storable

_SomeNode = TypeVar("_SomeNode", Node, NewNode)
_COLUMNS = (
    "node_id, conversation_id, depth, quality, text, expand_hint, tokens, source_tokens, message_count, first_store_id, "
    "last_store_id, first_pos, last_pos, earliest_at, latest_at, fingerprint, model, rung, checks, created_at, replaces"
)
_ASSEMBLY_COLUMNS = (
    "assembly_id, conversation_id, session_id, roots, tail_ids, last_seq, last_pos, created_at, digest, "
    "state_tokens, stubs"
)
_INSERT = f"""
INSERT INTO nodes({_COLUMNS})
VALUES ((SELECT ? WHERE NOT EXISTS (SELECT 1 FROM nodes WHERE node_id = ?)),?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
ON CONFLICT(conversation_id, fingerprint, quality) DO NOTHING
"""
_SPAN_OF_MESSAGES = """
SELECT count(*), min(store_id), max(store_id), min(pos), max(pos), min(coalesce(said_at, stored_at)),
       max(coalesce(said_at, stored_at))
  FROM messages WHERE store_id IN (SELECT value FROM json_each(?))
"""
_SPAN_OF_NODES = """
SELECT sum(message_count), min(first_store_id), max(last_store_id), min(first_pos), max(last_pos), min(earliest_at),
       max(latest_at)
  FROM nodes WHERE node_id IN (SELECT value FROM json_each(?))
"""
# A summary lies above its sources. A file from somewhere may say otherwise: such a link is no link, so no walk goes in circles.
_SOURCES = """
SELECT coalesce(s.store_id, s.child_id) FROM node_sources s LEFT JOIN nodes c ON c.node_id = s.child_id
 WHERE s.node_id = ? AND (c.depth IS NULL OR c.depth < (SELECT depth FROM nodes p WHERE p.node_id = s.node_id))
 ORDER BY s.position
"""
_PARENTS = """
SELECT DISTINCT s.node_id FROM node_sources s JOIN nodes p ON p.node_id = s.node_id JOIN nodes c ON c.node_id = s.child_id
 WHERE s.child_id = ? AND c.depth < p.depth ORDER BY s.node_id
"""
#: With the rows of conversations that are no ancestors of the node's: a replaced file gives addresses to other chats' messages.
_ABOVE = """
WITH RECURSIVE above(conversation_id) AS (
  SELECT :own UNION
  SELECT c.parent_id FROM conversations c JOIN above USING(conversation_id) WHERE c.parent_id IS NOT NULL
)
SELECT {}, s.conversation_id IN above, c.nonce, (SELECT nonce FROM conversations WHERE conversation_id = :own)
  FROM {} s LEFT JOIN conversations c USING(conversation_id) WHERE {} IN (SELECT value FROM json_each(:sources)) ORDER BY 1
"""
# Also whether an operator took something out of messages: their digests stay those of what the host shows.
_REWRITTEN = f"coalesce((SELECT value FROM meta WHERE key = '{REWRITTEN}' || s.conversation_id), '')"
_WITNESS_OF_MESSAGES = _ABOVE.format(f"store_id, hex(digest) || '.' || {_REWRITTEN}", "messages", "store_id")
_WITNESS_OF_NODES = _ABOVE.format("node_id, text || '\n' || expand_hint", "nodes", "node_id")
_LEAVES_BELOW = """
WITH RECURSIVE below(node_id) AS (
  SELECT value FROM json_each(:roots)
  UNION ALL
  SELECT s.child_id FROM below b JOIN node_sources s ON s.node_id = b.node_id
    JOIN nodes p ON p.node_id = s.node_id JOIN nodes c ON c.node_id = s.child_id AND c.depth < p.depth
)
SELECT s.store_id FROM below b JOIN node_sources s ON s.node_id = b.node_id WHERE s.store_id IS NOT NULL
"""
_NODES_BELOW = """
WITH RECURSIVE below(node_id) AS (
  SELECT value FROM json_each(:roots)
  UNION
  SELECT s.child_id FROM below b JOIN node_sources s ON s.node_id = b.node_id WHERE s.child_id IS NOT NULL
)
SELECT node_id FROM below
"""


def fingerprint(depth: int, sources: Sequence[int], *, variant: str = "") -> bytes:
    """Address of a summary by its sources: the same in every process and retry. ``variant``: another summary of the same ones."""
    state = blake2b(b"n1:%d" % depth, digest_size=16)
    for source in sources:
        state.update(b",%d" % source)
    state.update(variant.encode("utf-8", "surrogatepass"))
    return state.digest()


class SummaryDag:
    """The nodes of one database."""

    def __init__(self, db: Database, index: NodeIndex, clean: Callable[[str], str] = str) -> None:
        """``clean`` takes secrets out of what is written."""
        self._db = db
        self._clean = clean
        self._index = index

    # -- writing ------------------------------------------------------------------------------------
    def add(self, node: NewNode, *, now: float) -> Node:
        """Store a node and its sources as one fact. One with the same sources and quality is returned instead."""
        with self._db.transaction(), skips_counted(self._db, "nodes", kept=node.wanted is not None) as added:
            node = _with_stated(self._without_secrets(node))
            before = self.by_fingerprint(node.conversation_id, node.fingerprint, (node.quality,))
            if before:
                return before[0]
            if node.witness and self.witness(node.conversation_id, node.depth, node.sources) != node.witness:
                raise SourcesChanged(
                    f"what was to be a summary in conversation {node.conversation_id} lost its sources"
                )
            count, first, last, low, high, early, late = self._span(node)
            node_id = self._db.execute(
                _INSERT,
                (
                    node.wanted, node.wanted, node.conversation_id, node.depth, node.quality, node.text, node.expand_hint,
                    node.tokens, node.source_tokens, count, first, last, low, high, early, late, node.fingerprint,
                    node.model, node.rung, node.checks, now, node.replaces,
                ),
            )  # fmt: skip
            added.append(node_id)
            column = "store_id" if node.depth == 0 else "child_id"
            self._db.execute(
                f"INSERT INTO node_sources(node_id, position, {column}) SELECT ?, key, value FROM json_each(?) ORDER BY key",
                (node_id, json.dumps(list(node.sources))),
            )
            self._index.add(node_id, node.conversation_id, node.text)
            return _node(self._db.fetch(f"SELECT {_COLUMNS} FROM nodes WHERE node_id = ?", (node_id,))[0])

    def witness(self, conversation_id: int, depth: int, sources: Sequence[int], *, nonce: str = "") -> bytes:
        """Identity of a node's sources, in any file: what is written about them is published if it is still the same.

        ``nonce``: of the conversation, where it is known. Raises SourcesChanged when they are gone or another conversation's.
        """
        sql = _WITNESS_OF_NODES if depth else _WITNESS_OF_MESSAGES
        rows = self._db.query(sql, {"own": conversation_id, "sources": json.dumps(list(sources))})
        if not rows or not all(row[2] for row in rows) or (nonce and rows[0][4] not in (nonce, None)):
            raise SourcesChanged(f"conversation {conversation_id} has no messages at these addresses (any more)")
        return blake2b(repr(rows).encode(), digest_size=16).digest()

    def _span(self, node: NewNode) -> tuple[Any, ...]:
        if not node.sources:
            raise ValueError("a node without sources covers nothing")
        sql = _SPAN_OF_MESSAGES if node.depth == 0 else _SPAN_OF_NODES
        return tuple(self._db.fetch(sql, (json.dumps(list(node.sources)),))[0])

    def publish(
        self,
        conversation_id: int,
        session_id: str,
        roots: Sequence[int],
        tail_ids: Sequence[int],
        *,
        last_seq: int,
        last_pos: float,
        now: float,
        state_tokens: int = 0,
        stubs: Mapping[int, int] = MappingProxyType({}),
    ) -> int:
        """Record one prompt that was built; its assembly id. It governs only lists that show it. As ``Assembly`` else."""
        made = Assembly(
            0, conversation_id, session_id, tuple(roots), tuple(tail_ids), last_seq, last_pos, now,
            state_tokens=state_tokens, stubs=stubs,
        )  # fmt: skip
        return self._put(made, None)

    def take_over(self, assembly: Assembly) -> None:
        """A prompt that was built with another file: under its own number, or a new one where another prompt has that."""
        with self._db.transaction():
            taken = self.assembly(assembly.assembly_id) is not None
            self._put(assembly, None if taken else assembly.assembly_id)

    def _put(self, assembly: Assembly, number: int | None) -> int:
        """Write a prompt under this number, or the next one; which it is."""
        with self._db.transaction():
            return self._db.execute(
                f"INSERT INTO assemblies({_ASSEMBLY_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                (
                    number, assembly.conversation_id, assembly.session_id, json.dumps(assembly.roots),
                    json.dumps(assembly.tail_ids), assembly.last_seq, assembly.last_pos, assembly.created_at,
                    assembly.digest or None, assembly.state_tokens, json.dumps(dict(assembly.stubs)),
                ),
            )  # fmt: skip

    def _without_secrets(self, node: _SomeNode) -> _SomeNode:
        """Also where a model's name, or what a provider said of it, holds one."""
        text, hint = (storable(self._clean(each)) for each in (node.text, node.expand_hint))
        return replace(
            node, text=text, expand_hint=hint, model=self._clean(node.model), checks=self._clean(node.checks)
        )

    def overwrite(self, node: Node) -> None:
        """Other words for a node, for an operator who purges what it rests on; its sources, and who refers to it, stay.

        It is no longer found by its sources: a later one over them is another summary.
        """
        print_ = self._overwritten(node)
        node = self._without_secrets(node)
        with self._db.transaction():
            self._db.execute(
                "UPDATE nodes SET text = ?, expand_hint = ?, tokens = ?, quality = ?, model = ?, rung = ?, checks = ?, "
                "fingerprint = ? WHERE node_id = ?",
                (
                    node.text, node.expand_hint, node.tokens, node.quality, node.model, node.rung, node.checks, print_,
                    node.node_id,
                ),
            )  # fmt: skip

    def is_overwritten(self, node: Node) -> bool:
        """Did an operator give it other words?"""
        return node.fingerprint == self._overwritten(node)

    def _overwritten(self, node: Node) -> bytes:
        return fingerprint(node.depth, self.sources(node.node_id), variant=f"purged:{node.node_id}")

    def seal(self, assembly_id: int, digest: bytes) -> None:
        """Note what the context message of a prompt says, as soon as that is known: its text bears the id."""
        with self._db.transaction():
            self._db.execute("UPDATE assemblies SET digest = ? WHERE assembly_id = ?", (digest, assembly_id))

    def moved(self, conversation_id: int, whole: int, places: Mapping[float, float]) -> None:
        """Positions behind ``whole`` were respaced: nodes and prompts name them too."""
        span = (conversation_id, whole, whole + 1)
        with self._db.transaction():
            for table, key, column in (
                ("nodes", "node_id", "first_pos"), ("nodes", "node_id", "last_pos"), ("assemblies", "assembly_id", "last_pos")
            ):  # fmt: skip
                sql = f"SELECT {key}, {column} FROM {table} WHERE conversation_id = ? AND {column} > ? AND {column} < ?"
                rows = self._db.fetch(sql, span)
                self._db.executemany(
                    f"UPDATE {table} SET {column} = ? WHERE {key} = ?",
                    [(places.get(row[1], row[1]), row[0]) for row in rows],
                )

    def next_assembly(self) -> int:
        """The number that the next prompt probably gets."""
        row = self._db.query_one("SELECT seq FROM sqlite_sequence WHERE name = 'assemblies'")
        return int(row[0]) + 1 if row else 1

    # -- reading ------------------------------------------------------------------------------------
    def nodes(self, node_ids: Sequence[int]) -> list[Node]:
        """Nodes in the order asked for; unknown ids are left out."""
        parts = (self._some(f"WHERE node_id IN ({marks(len(part))})", part) for part in parts_of(node_ids))
        found = {node.node_id: node for nodes in parts for node in nodes}
        return [found[node_id] for node_id in node_ids if node_id in found]

    def node(self, node_id: int) -> Node | None:
        """One node, or None."""
        found = self.nodes([node_id])
        return found[0] if found else None

    def by_fingerprint(self, conversation_id: int, print_: bytes, qualities: Iterable[str]) -> list[Node]:
        """Nodes with exactly these sources, of the qualities asked for, best first."""
        wanted = list(qualities)
        which = (
            f"WHERE conversation_id = ? AND fingerprint = ? AND quality IN ({marks(len(wanted))}) ORDER BY quality DESC"
        )
        return self._some(which, (conversation_id, print_, *wanted))

    def _some(self, which: str, params: Sequence[Any]) -> list[Node]:
        """Nodes. ``which``: by which index, under which condition, and in which order."""
        return [_node(row) for row in self._db.query(f"SELECT {_COLUMNS} FROM nodes {which}", params)]

    def leaves_from(
        self, conversation_id: int, first_store_ids: Sequence[int], *, extracts: bool = False
    ) -> list[tuple[Node, tuple[int, ...]]]:
        """Sound leaves that begin at one of these messages, with their sources: what a new plan may adopt.

        ``extracts``: the user wants extracts instead of a model's words, so they are sound too.
        """
        sound = f"(quality <> 'provisional' OR rung = '{EXTRACT_RUNG}')" if extracts else "quality <> 'provisional'"
        out: list[tuple[Node, tuple[int, ...]]] = []
        for part in parts_of(first_store_ids):
            leaves = self._some(
                # Left to itself SQLite takes the index by depth: it would read all leaves that the conversation ever had.
                f"INDEXED BY nodes_by_first WHERE conversation_id = ? AND first_store_id IN ({marks(len(part))}) AND depth = 0 "
                f"AND {sound} ORDER BY node_id",
                (conversation_id, *part),
            )
            out.extend((leaf, tuple(self.sources(leaf.node_id))) for leaf in leaves)
        return out

    def passed_over(self, leaves: Sequence[Node], shown: Collection[int]) -> int:
        """Number of a model's leaves that begin among these messages, and stand neither in the prompt nor below a summary."""
        if not leaves:
            return 0
        first, last = min(leaf.first_store_id for leaf in leaves), max(leaf.last_store_id for leaf in leaves)
        rows = self._db.query(
            "SELECT node_id FROM nodes INDEXED BY nodes_by_first WHERE conversation_id = ? AND first_store_id BETWEEN ? AND ? "
            "AND depth = 0 AND quality = 'verified'",
            (leaves[0].conversation_id, first, last),
        )
        return sum(1 for (node_id,) in rows if node_id not in shown and not self.parents(node_id))

    def sources(self, node_id: int) -> list[int]:
        """Store ids (of a leaf) or node ids (above) in order."""
        return [row[0] for row in self._db.query(_SOURCES, (node_id,))]

    def stated(self, conversations: Iterable[int]) -> Iterator[tuple[int, StatedFact]]:
        """Facts that summarisers found in messages of conversations, with the message's store id."""
        sql = "SELECT node_id, checks FROM nodes WHERE conversation_id = ? AND depth = 0 AND instr(checks, ?) ORDER BY node_id"
        for conversation_id in conversations:
            for node_id, checks in self._db.query(sql, (conversation_id, f'"{STATED}"')):
                sources = self.sources(node_id)
                for place, fact in _stated(checks):
                    if place < len(sources):
                        yield sources[place], fact

    @staticmethod
    def facts_at(node: Node, places: Mapping[int, int]) -> dict[str, Any]:
        """Checks with the facts beside a leaf whose messages stand at other places among its sources; no other message's."""
        facts = [
            [places[place], each.kind, each.quote, each.subject, each.value, each.digest]
            for place, each in _stated(node.checks)
            if place in places
        ]
        return {STATED: facts} if facts else {}

    def parents(self, node_id: int) -> list[int]:
        """Nodes that were condensed from this one."""
        return [row[0] for row in self._db.query(_PARENTS, (node_id,))]

    def covering(self, store_id: int) -> list[int]:
        """Leaves over a message."""
        rows = self._db.query(
            "SELECT DISTINCT node_id FROM node_sources WHERE store_id = ? ORDER BY node_id", (store_id,)
        )
        return [row[0] for row in rows]

    def summarised(self, store_ids: Sequence[int]) -> set[int]:
        """Messages among these that a model's summary covers."""
        wanted = padded(store_ids)
        rows = self._db.query(
            "SELECT DISTINCT s.store_id FROM node_sources s JOIN nodes n USING(node_id) "
            f"WHERE s.store_id IN ({marks(len(wanted))}) AND n.quality = 'verified'",
            wanted,
        )
        return {row[0] for row in rows}

    def messages_below(self, roots: Sequence[int]) -> list[int]:
        """Store ids under the roots, with repetitions where two of them cover the same message."""
        rows = self._db.query(_LEAVES_BELOW, {"roots": json.dumps(list(roots))})
        return [row[0] for row in rows]

    def nodes_below(self, roots: Sequence[int]) -> list[int]:
        """The roots and all nodes under them."""
        return [row[0] for row in self._db.query(_NODES_BELOW, {"roots": json.dumps(list(roots))})]

    def assembly(self, assembly_id: int) -> Assembly | None:
        """A prompt that was built, or None."""
        return next(iter(self._prompts("assembly_id = ?", assembly_id)), None)

    def _prompts(self, where: str, number: int) -> list[Assembly]:
        """Prompts that were built. ``where``: which, by one number, and in which order."""
        rows = self._db.query(f"SELECT {_ASSEMBLY_COLUMNS} FROM assemblies WHERE {where}", (number,))
        return [_assembly(row) for row in rows]

    def prompt_of(self, assembly_id: int, digest: bytes, conversations: Collection[int]) -> Assembly | None:
        """The prompt that a context message names, or that of one of these conversations with its very text.

        The number alone is no proof: a stand-in may have given out one that the database has for another prompt.
        """
        named = self.assembly(assembly_id)
        if named is not None and named.digest in (b"", digest):
            return named
        twin = next((each for c in conversations for each in self.assemblies(c) if each.digest == digest), None)
        return twin or named

    def latest_assembly(self, conversation_id: int) -> Assembly | None:
        """The newest prompt built for a conversation, taken over by the host or not."""
        return next(iter(self._prompts("conversation_id = ? ORDER BY assembly_id DESC LIMIT 1", conversation_id)), None)

    def prompted(self) -> list[int]:
        """The conversations for which a prompt was built, that with the newest prompt first."""
        sql = "SELECT conversation_id FROM assemblies GROUP BY conversation_id ORDER BY max(assembly_id) DESC"
        return [row[0] for row in self._db.query(sql)]

    def assemblies(self, conversation_id: int) -> list[Assembly]:
        """Every prompt built for a conversation, oldest first."""
        return self._prompts("conversation_id = ? ORDER BY assembly_id", conversation_id)

    def topmost(self, conversation_id: int, depth: int, *, without: Collection[int] = ()) -> list[Node]:
        """The summaries of at least a depth that no other of them covers, in order: deep ones first, then the newest."""
        which = "WHERE conversation_id = ? AND depth >= ? ORDER BY depth DESC, quality = 'provisional', node_id DESC"
        out: list[Node] = []
        below: set[int] = set()
        for node in self._some(which, (conversation_id, depth)):
            if node.node_id in below or node.node_id in without:
                continue
            # Two that stand for each other cover the same messages; neighbours may only reach into each other's range.
            rivals = [n.node_id for n in out if node.first_pos <= n.last_pos and n.first_pos <= node.last_pos]
            if not rivals or set(self.messages_below([node.node_id])).isdisjoint(self.messages_below(rivals)):
                out.append(node)
                below.update(self.nodes_below([node.node_id]))
        return sorted(out, key=lambda node: node.first_pos)

    def by_depth(self, conversation_id: int | None = None) -> dict[tuple[int, str], int]:
        """Number of nodes by (depth, quality); what an agent archived is no missing summary."""
        where, params = ("WHERE conversation_id = ?", (conversation_id,)) if conversation_id is not None else ("", ())
        kind = f"CASE rung WHEN '{ARCHIVE_RUNG}' THEN 'archived' ELSE quality END"
        rows = self._db.query(f"SELECT depth, {kind}, count(*) FROM nodes {where} GROUP BY 1, 2 ORDER BY 1, 2", params)
        return {(row[0], row[1]): row[2] for row in rows}

    def node_batches(self, *, after: int = 0) -> Iterator[list[Node]]:
        """All nodes behind an id in batches, oldest first."""
        while True:
            nodes = self._some("WHERE node_id > ? ORDER BY node_id LIMIT 500", (after,))
            if not nodes:
                return
            after = nodes[-1].node_id
            yield nodes

    def index_rows(self) -> Iterator[list[tuple[int, str]]]:
        """Rows for the search index of nodes; as ``MessageStore.index_rows``."""
        last = 0
        for more in (True, False):
            for nodes in self.node_batches(after=last):
                last = nodes[-1].node_id
                yield [(node.node_id, node.text) for node in nodes]
            if more:
                yield []


def coverage(transcript: Iterable[int], below: Sequence[int], raw: Iterable[int]) -> tuple[set[int], set[int]]:
    """P4: (messages that nothing covers, messages that are covered twice) of a transcript.

    ``below`` are the messages under the prompt's nodes (with repetitions), ``raw`` those it shows as they are.
    """
    seen: set[int] = set()
    twice: set[int] = set()
    for store_id in [*below, *raw]:
        (twice if store_id in seen else seen).add(store_id)
    return set(transcript) - seen, twice


def _node(row: Sequence[object]) -> Node:
    return Node(*row)  # type: ignore[arg-type]


def _with_stated(node: NewNode) -> NewNode:
    """The node with the facts beside it in its checks; each names its message by the place among the sources."""
    places = {f"msg_{store_id}": place for place, store_id in enumerate(node.sources)}
    facts = [
        [places[each.address], each.kind, each.quote, each.subject, each.value, each.digest]
        for each in node.stated
        if each.address in places
    ]
    return replace(node, checks=json.dumps({**json.loads(node.checks), STATED: facts})) if facts else node


def _stated(checks: str) -> Iterator[tuple[int, StatedFact]]:
    """The facts in a node's checks, with the place of their message; none of what another program wrote there."""
    with suppress(ValueError, TypeError, LookupError, OverflowError, RecursionError):
        for place, kind, quote, subject, value, digest in json.loads(checks)[STATED]:
            spans = ((int(start), int(stop)) for start, stop in (quote, subject, value))
            yield abs(int(place)), StatedFact("", str(kind), next(spans), next(spans), next(spans), str(digest))


def _addresses(text: str) -> tuple[Any, ...]:
    """Addresses of a prompt. Raises ValueError or TypeError where they are none."""
    try:
        return tuple(json.loads(text))
    except RecursionError as exc:
        raise ValueError("a list of addresses is nested too deep") from exc


def _assembly(row: Sequence[object]) -> Assembly:
    return Assembly(
        int(str(row[0])), int(str(row[1])), str(row[2]), _addresses(str(row[3])), _addresses(str(row[4])),
        int(str(row[5])), float(str(row[6])), float(str(row[7])), row[8] if isinstance(row[8], bytes) else b"",
        int(str(row[9])), {int(n): int(chars) for n, chars in json.loads(str(row[10])).items()},
    )  # fmt: skip
