"""
Summary nodes, what they cover, and the prompts that were built from them.

Owns tables ``nodes``, ``node_sources`` and ``assemblies``. Knows nothing of models, prompts or budgets. A node and its sources
are one fact; nodes are never changed: a better one replaces a worse one by saying so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from .db.connection import Database
from .db.lists import marks, padded
from .records import ARCHIVE_RUNG, EXTRACT_RUNG, Assembly, NewNode, Node
from .search import NodeIndex

_COLUMNS = (
    "node_id, conversation_id, depth, quality, text, expand_hint, tokens, source_tokens, message_count, first_store_id, "
    "last_store_id, first_pos, last_pos, earliest_at, latest_at, fingerprint, model, rung, checks, created_at, replaces"
)
_ASSEMBLY_COLUMNS = "assembly_id, conversation_id, session_id, roots, tail_ids, last_seq, last_pos, created_at, digest"
_INSERT = """
INSERT INTO nodes(conversation_id, depth, quality, text, expand_hint, tokens, source_tokens, message_count, first_store_id,
                  last_store_id, first_pos, last_pos, earliest_at, latest_at, fingerprint, model, rung, checks, created_at,
                  replaces)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
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
_LEAVES_BELOW = """
WITH RECURSIVE below(node_id) AS (
  SELECT value FROM json_each(:roots)
  UNION ALL
  SELECT s.child_id FROM below b JOIN node_sources s ON s.node_id = b.node_id WHERE s.child_id IS NOT NULL
)
SELECT s.store_id FROM below b JOIN node_sources s ON s.node_id = b.node_id WHERE s.store_id IS NOT NULL
"""


def fingerprint(depth: int, sources: Sequence[int]) -> bytes:
    """The address of a summary by what it covers: same sources, same fingerprint, in every process and retry."""
    state = blake2b(b"n1:%d" % depth, digest_size=16)
    for source in sources:
        state.update(b",%d" % source)
    return state.digest()


class SummaryDag:
    """The nodes of one database."""

    def __init__(self, db: Database, index: NodeIndex) -> None:
        self._db = db
        self._index = index

    # -- writing ------------------------------------------------------------------------------------
    def add(self, node: NewNode, *, now: float) -> Node:
        """Store a node and its sources as one fact. One with the same sources and quality is returned instead."""
        with self._db.transaction():
            node = replace(node, text=_storable(node.text), expand_hint=_storable(node.expand_hint))
            before = self.by_fingerprint(node.conversation_id, node.fingerprint, (node.quality,), writing=True)
            if before:
                return before[0]
            count, first, last, low, high, early, late = self._span(node)
            node_id = self._db.execute(
                _INSERT,
                (
                    node.conversation_id, node.depth, node.quality, node.text, node.expand_hint, node.tokens,
                    node.source_tokens, count, first, last, low, high, early, late, node.fingerprint, node.model, node.rung,
                    node.checks, now, node.replaces,
                ),
            )  # fmt: skip
            column = "store_id" if node.depth == 0 else "child_id"
            self._db.executemany(
                f"INSERT INTO node_sources(node_id, position, {column}) VALUES (?,?,?)",
                [(node_id, position, source) for position, source in enumerate(node.sources)],
            )
            self._index.add(node_id, node.conversation_id, node.text)
            return _node(self._db.fetch(f"SELECT {_COLUMNS} FROM nodes WHERE node_id = ?", (node_id,))[0])

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
    ) -> int:
        """Record one prompt that was built; its assembly id. It governs only lists that show it."""
        with self._db.transaction():
            return self._db.execute(
                "INSERT INTO assemblies(conversation_id, session_id, roots, tail_ids, last_seq, last_pos, created_at) "
                "VALUES (?,?,?,?,?,?,?)",
                (
                    conversation_id,
                    session_id,
                    json.dumps(list(roots)),
                    json.dumps(list(tail_ids)),
                    last_seq,
                    last_pos,
                    now,
                ),
            )

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

    def withdraw(self, assembly_id: int) -> None:
        """Forget a prompt that was not handed over after all."""
        with self._db.transaction():
            self._db.execute("DELETE FROM assemblies WHERE assembly_id = ?", (assembly_id,))

    def writing(self) -> AbstractContextManager[None]:
        """One transaction around several writes."""
        return self._db.transaction()

    # -- reading ------------------------------------------------------------------------------------
    def nodes(self, node_ids: Sequence[int]) -> list[Node]:
        """Nodes in the order asked for; unknown ids are left out."""
        found: dict[int, Node] = {}
        for at in range(0, len(node_ids), 512):
            part = padded(node_ids[at : at + 512])
            for row in self._db.query(f"SELECT {_COLUMNS} FROM nodes WHERE node_id IN ({marks(len(part))})", part):
                found[row[0]] = _node(row)
        return [found[node_id] for node_id in node_ids if node_id in found]

    def node(self, node_id: int) -> Node | None:
        """One node, or None."""
        found = self.nodes([node_id])
        return found[0] if found else None

    def by_fingerprint(
        self, conversation_id: int, print_: bytes, qualities: Iterable[str], *, writing: bool = False
    ) -> list[Node]:
        """Nodes with exactly these sources, of the qualities asked for, best first."""
        wanted = list(qualities)
        read = self._db.fetch if writing else self._db.query
        rows = read(
            f"SELECT {_COLUMNS} FROM nodes WHERE conversation_id = ? AND fingerprint = ? AND quality IN ({marks(len(wanted))}) "
            "ORDER BY quality DESC",
            (conversation_id, print_, *wanted),
        )
        return [_node(row) for row in rows]

    def leaves_from(
        self, conversation_id: int, first_store_ids: Sequence[int], *, extracts: bool = False
    ) -> list[tuple[Node, tuple[int, ...]]]:
        """Sound leaves that begin at one of these messages, with their sources: what a new plan may adopt.

        ``extracts``: the user wants extracts instead of a model's words, so they are sound too.
        """
        sound = f"(quality <> 'provisional' OR rung = '{EXTRACT_RUNG}')" if extracts else "quality <> 'provisional'"
        out: list[tuple[Node, tuple[int, ...]]] = []
        for at in range(0, len(first_store_ids), 512):
            part = padded(first_store_ids[at : at + 512])
            rows = self._db.query(
                # Left to itself SQLite takes the index by depth: it would read all leaves that the conversation ever had.
                f"SELECT {_COLUMNS} FROM nodes INDEXED BY nodes_by_first "
                f"WHERE conversation_id = ? AND first_store_id IN ({marks(len(part))}) AND depth = 0 AND {sound} "
                "ORDER BY node_id",
                (conversation_id, *part),
            )
            out.extend((_node(row), tuple(self.sources(row[0]))) for row in rows)
        return out

    def sources(self, node_id: int) -> list[int]:
        """Store ids (of a leaf) or node ids (above) in order."""
        rows = self._db.query(
            "SELECT coalesce(store_id, child_id) FROM node_sources WHERE node_id = ? ORDER BY position", (node_id,)
        )
        return [row[0] for row in rows]

    def parents(self, node_id: int) -> list[int]:
        """Nodes that were condensed from this one."""
        rows = self._db.query(
            "SELECT DISTINCT node_id FROM node_sources WHERE child_id = ? ORDER BY node_id", (node_id,)
        )
        return [row[0] for row in rows]

    def covering(self, store_id: int) -> list[int]:
        """Leaves over a message."""
        rows = self._db.query(
            "SELECT DISTINCT node_id FROM node_sources WHERE store_id = ? ORDER BY node_id", (store_id,)
        )
        return [row[0] for row in rows]

    def summarised(self, store_ids: Sequence[int]) -> set[int]:
        """Which of these messages a summary covers that a model wrote."""
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

    def assembly(self, assembly_id: int) -> Assembly | None:
        """A prompt that was built, or None."""
        row = self._db.query_one(
            f"SELECT {_ASSEMBLY_COLUMNS} FROM assemblies WHERE assembly_id = ?",
            (assembly_id,),
        )
        return _assembly(row) if row else None

    def latest_assembly(self, conversation_id: int) -> Assembly | None:
        """The newest prompt built for a conversation, taken over by the host or not."""
        row = self._db.query_one(
            f"SELECT {_ASSEMBLY_COLUMNS} FROM assemblies WHERE conversation_id = ? ORDER BY assembly_id DESC LIMIT 1",
            (conversation_id,),
        )
        return _assembly(row) if row else None

    def by_depth(self, conversation_id: int | None = None) -> dict[tuple[int, str], int]:
        """How many nodes there are by (depth, quality); what an agent archived is no missing summary."""
        where, params = ("WHERE conversation_id = ?", (conversation_id,)) if conversation_id is not None else ("", ())
        kind = f"CASE rung WHEN '{ARCHIVE_RUNG}' THEN 'archived' ELSE quality END"
        rows = self._db.query(f"SELECT depth, {kind}, count(*) FROM nodes {where} GROUP BY 1, 2 ORDER BY 1, 2", params)
        return {(row[0], row[1]): row[2] for row in rows}

    def every(self) -> Iterator[list[Node]]:
        """All nodes in batches, oldest first."""
        last = 0
        while True:
            rows = self._db.query(f"SELECT {_COLUMNS} FROM nodes WHERE node_id > ? ORDER BY node_id LIMIT 500", (last,))
            if not rows:
                return
            last = rows[-1][0]
            yield [_node(row) for row in rows]


def coverage(thread: Iterable[int], below: Sequence[int], raw: Iterable[int]) -> tuple[set[int], set[int]]:
    """P4: (messages that nothing covers, messages that are covered twice) of a thread.

    ``below`` are the messages under the prompt's nodes (with repetitions), ``raw`` those it shows as they are.
    """
    seen: set[int] = set()
    twice: set[int] = set()
    for store_id in [*below, *raw]:
        (twice if store_id in seen else seen).add(store_id)
    return set(thread) - seen, twice


def _storable(text: str) -> str:
    """SQLite refuses lone surrogates; a summary is no exact copy of anything, so it loses nothing by a substitute."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _node(row: Sequence[object]) -> Node:
    return Node(*row)  # type: ignore[arg-type]


def _assembly(row: Sequence[object]) -> Assembly:
    return Assembly(
        int(str(row[0])), int(str(row[1])), str(row[2]), tuple(json.loads(str(row[3]))), tuple(json.loads(str(row[4]))),
        int(str(row[5])), float(str(row[6])), float(str(row[7])), row[8] if isinstance(row[8], bytes) else b"",
    )  # fmt: skip
