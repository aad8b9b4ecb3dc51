"""
What a caller may read, decided in SQL (P8).

Owns no table: reads ``messages``, ``nodes``, ``conversations`` and ``sessions`` to answer which of them a ``Scope`` covers, in
which order, and how many. Content comes from their owners, for ids that passed here. An id outside the scope and an id that does
not exist are the same to every caller.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .db.connection import Database
from .records import Flag, Scope

_MAY = """
   AND (:principal IS NULL OR c.principal = :principal)
   AND (:conversations IS NULL OR c.conversation_id IN (SELECT value FROM json_each(:conversations)))
"""
_MESSAGES = f"""
SELECT m.store_id FROM messages m JOIN conversations c USING(conversation_id)
 WHERE m.store_id IN (SELECT value FROM json_each(:ids)) AND (:session_id IS NULL OR m.session_id = :session_id) {_MAY}
"""
_NODES = f"""
SELECT n.node_id FROM nodes n JOIN conversations c USING(conversation_id)
 WHERE n.node_id IN (SELECT value FROM json_each(:ids)) {_MAY}
"""
_CONVERSATIONS = f"""
SELECT c.conversation_id FROM conversations c WHERE c.conversation_id IN (SELECT value FROM json_each(:ids)) {_MAY}
"""
_COUNTS = f"""
SELECT count(*), count(DISTINCT m.session_id), count(DISTINCT m.conversation_id)
  FROM messages m JOIN conversations c USING(conversation_id)
 WHERE (:session_id IS NULL OR m.session_id = :session_id) {_MAY}
"""
_IN_SESSION = f"""
  FROM messages m JOIN conversations c USING(conversation_id)
 WHERE m.session_id = :session_id {_MAY}
   AND (:roles IS NULL OR m.role IN (SELECT value FROM json_each(:roles)))
   AND (:sources IS NULL OR coalesce(nullif(m.source, ''), 'unknown') IN (SELECT value FROM json_each(:sources)))
   AND (:since IS NULL OR coalesce(m.said_at, m.stored_at) >= :since)
   AND (:until IS NULL OR coalesce(m.said_at, m.stored_at) < :until)
"""
_PAGE = f"SELECT m.store_id {_IN_SESSION} AND m.store_id > :after ORDER BY m.store_id LIMIT :limit"
_TOTAL = f"SELECT count(*), max(m.store_id) {_IN_SESSION}"
_BETWEEN = f"""
SELECT m.store_id FROM messages m JOIN conversations c USING(conversation_id)
 WHERE m.store_id BETWEEN :first AND :last {_MAY} ORDER BY m.store_id LIMIT :limit
"""
_AROUND = f"""
SELECT m.store_id FROM messages m JOIN conversations c USING(conversation_id)
 WHERE m.conversation_id = :conversation AND m.pos BETWEEN :low AND :high AND m.flags & {int(Flag.FILTERED)} = 0 {_MAY}
 ORDER BY m.pos, m.seq
"""
_NEWEST = f"""
SELECT m.store_id FROM messages m JOIN conversations c USING(conversation_id)
 WHERE (:session_id IS NULL OR m.session_id = :session_id) {_MAY} ORDER BY m.store_id DESC LIMIT :limit
"""
_NEWEST_NODES = f"""
SELECT n.node_id FROM nodes n JOIN conversations c USING(conversation_id)
 WHERE (:session_id IS NULL OR EXISTS (
         SELECT 1 FROM messages m WHERE m.session_id = :session_id AND m.conversation_id = n.conversation_id
            AND m.store_id BETWEEN n.first_store_id AND n.last_store_id)) {_MAY}
 ORDER BY n.node_id DESC LIMIT :limit
"""
_SUCCESSORS = "SELECT revises, max(store_id) FROM messages WHERE revises IN (SELECT value FROM json_each(?)) GROUP BY revises"
_BETTER = "SELECT replaces, max(node_id) FROM nodes WHERE replaces IN (SELECT value FROM json_each(?)) GROUP BY replaces"
_FROM_SOURCE = """
WITH RECURSIVE below(root, node_id) AS (
  SELECT value, value FROM json_each(:ids)
  UNION
  SELECT b.root, s.child_id FROM below b JOIN node_sources s ON s.node_id = b.node_id WHERE s.child_id IS NOT NULL
)
SELECT DISTINCT b.root FROM below b JOIN node_sources s ON s.node_id = b.node_id JOIN messages m ON m.store_id = s.store_id
 WHERE coalesce(nullif(m.source, ''), 'unknown') IN (SELECT value FROM json_each(:sources))
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages of a session: filters of ``lcm_load_session``. ``since`` is included, ``until`` is not."""

    roles: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a scope covers."""

    messages: int
    sessions: int
    conversations: int


class Reach:
    """Answers what a scope covers, for one database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def messages(self, store_ids: Iterable[int], scope: Scope) -> set[int]:
        """Those of the messages that exist and may be read."""
        return self._among(_MESSAGES, store_ids, scope)

    def nodes(self, node_ids: Iterable[int], scope: Scope) -> set[int]:
        """Those of the nodes that exist and may be read."""
        return self._among(_NODES, node_ids, scope)

    def conversations(self, ids: Iterable[int], scope: Scope) -> set[int]:
        """Those of the conversations that exist and may be read."""
        return self._among(_CONVERSATIONS, ids, scope)

    def _among(self, sql: str, ids: Iterable[int], scope: Scope) -> set[int]:
        return {row[0] for row in self._db.query(sql, {**_params(scope), "ids": json.dumps(list(ids))})}

    def counts(self, scope: Scope) -> Counts:
        """How many messages, sessions and conversations a scope covers."""
        return Counts(*self._db.query(_COUNTS, _params(scope))[0])

    def page(self, session_id: str, scope: Scope, wanted: Wanted, *, after: int, limit: int) -> list[int]:
        """Store ids of a session above ``after``, in order."""
        params = {**_params(scope), **_filters(session_id, wanted), "after": after, "limit": limit}
        return [row[0] for row in self._db.query(_PAGE, params)]

    def total(self, session_id: str, scope: Scope, wanted: Wanted) -> tuple[int, int]:
        """(how many messages of a session pass the filters, the newest of them or 0)."""
        row = self._db.query(_TOTAL, {**_params(scope), **_filters(session_id, wanted)})[0]
        return int(row[0]), int(row[1] or 0)

    def between(self, first: int, last: int, scope: Scope, *, limit: int) -> list[int]:
        """Readable store ids of a range, in order."""
        params = {**_params(scope), "first": first, "last": last, "limit": limit}
        return [row[0] for row in self._db.query(_BETWEEN, params)]

    def around(self, conversation_id: int, low_pos: int, high_pos: int, scope: Scope) -> list[int]:
        """Readable store ids of a stretch of one conversation, in order."""
        params = {**_params(scope), "conversation": conversation_id, "low": low_pos, "high": high_pos}
        return [row[0] for row in self._db.query(_AROUND, params)]

    def newest(self, scope: Scope, *, limit: int) -> list[int]:
        """The newest store ids of a scope, oldest of them first."""
        return [row[0] for row in self._db.query(_NEWEST, {**_params(scope), "limit": limit})][::-1]

    def newest_nodes(self, scope: Scope, *, limit: int) -> list[int]:
        """The newest node ids of a scope, newest first."""
        return [row[0] for row in self._db.query(_NEWEST_NODES, {**_params(scope), "limit": limit})]

    def successors(self, store_ids: Sequence[int]) -> dict[int, int]:
        """By store id: the newest row that revises it."""
        return {row[0]: row[1] for row in self._db.query(_SUCCESSORS, (json.dumps(list(store_ids)),))}

    def better(self, node_ids: Sequence[int]) -> dict[int, int]:
        """By node id: the newest node that replaces it."""
        return {row[0]: row[1] for row in self._db.query(_BETTER, (json.dumps(list(node_ids)),))}

    def from_source(self, node_ids: Sequence[int], sources: Sequence[str]) -> set[int]:
        """Nodes with at least one message of these sources below them."""
        params = {"ids": json.dumps(list(node_ids)), "sources": json.dumps(list(sources))}
        return {row[0] for row in self._db.query(_FROM_SOURCE, params)}


def _params(scope: Scope) -> dict[str, Any]:
    return {
        "principal": scope.principal,
        "conversations": None if scope.conversations is None else json.dumps(list(scope.conversations)),
        "session_id": scope.session_id,
    }


def _filters(session_id: str, wanted: Wanted) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "roles": json.dumps(list(wanted.roles)) if wanted.roles else None,
        "sources": json.dumps(list(wanted.sources)) if wanted.sources else None,
        "since": wanted.since,
        "until": wanted.until,
    }
