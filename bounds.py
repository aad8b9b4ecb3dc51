"""
Which rows a search may return: a scope and filters, as SQL conditions and as a range of addresses.

Owns no table. Reads ``messages`` only for the first and last address of a scope: FTS5 then reads that part of its lists only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .db.connection import Database
from .db.fts import Where
from .records import Flag, Scope
from .scope import inherited
from .session import KEY_OF
from .text import chunk_ids
from .text.moments import When
from .text.words import Atom

_SAID = "coalesce(m.said_at, m.stored_at)"
_PRINCIPAL = (
    "EXISTS (SELECT 1 FROM conversations AS c WHERE c.conversation_id = {}.conversation_id AND c.principal = ?)"
)
_EXCLUDED = f"m.store_id NOT IN (SELECT {chunk_ids.STORE_ID_SQL.format('rowid')} FROM message_index WHERE message_index MATCH ?)"
_OF_SESSION = f"m.session_key = {KEY_OF.format('?')}"
_COVERS_SESSION = f"""EXISTS (
    SELECT 1 FROM messages AS m WHERE m.session_key = {KEY_OF.format("?")} AND m.conversation_id = n.conversation_id
       AND m.store_id BETWEEN n.first_store_id AND n.last_store_id)"""
_SESSION_RANGE = f"""
SELECT (SELECT min(store_id) FROM messages WHERE session_key = {KEY_OF.format("?")}),
       (SELECT max(store_id) FROM messages WHERE session_key = {KEY_OF.format("?")})
"""
# Within a conversation store ids grow with seq: both are given when a row is appended.
_CONVERSATION_RANGE = """
SELECT (SELECT store_id FROM messages WHERE conversation_id = ? ORDER BY seq LIMIT 1),
       (SELECT store_id FROM messages WHERE conversation_id = ? ORDER BY seq DESC LIMIT 1)
"""


@dataclass(frozen=True, slots=True)
class Filters:
    """What a hit must be. Times are Unix seconds: ``since`` included, ``until`` excluded. Ids are inclusive."""

    roles: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    first_id: int | None = None
    last_id: int | None = None


def of_messages(db: Database, scope: Scope, filters: Filters, excluded: Sequence[Atom]) -> Where:
    """The conditions for rows ``m`` of ``messages``."""
    near = _conditions(
        ("m.role", filters.roles or None), ("m.source", filters.sources or None), (_OF_SESSION, scope.session_id),
        (f"{_SAID} >= ?", filters.since), (f"{_SAID} < ?", filters.until),
        ("m.store_id >= ?", filters.first_id), ("m.store_id <= ?", filters.last_id),
        *((_EXCLUDED, "{text} : (" + atom.match + ")") for atom in excluded),
    )  # fmt: skip
    cut, cuts = inherited(scope, "m")
    wide = _conditions(("m.conversation_id", scope.conversations), (_PRINCIPAL.format("m"), scope.principal))
    clauses = [f"m.flags & {int(Flag.FILTERED)} = 0", *(sql for sql, _ in near), *([cut] if cut else [])]
    params = [*(value for _, values in near for value in values), *cuts]
    sql = " AND ".join([*clauses, *(sql for sql, _ in wide)])
    everything = (*params, *(value for _, values in wide for value in values))
    first, last = _range(db, scope, filters)
    return Where(sql, everything, *chunk_ids.rows_of(first, last), " AND ".join(clauses), tuple(params))


def during(where: Where, when: When) -> Where:
    """The same, said at one of these times."""
    spans = " OR ".join([f"{_SAID} BETWEEN ? AND ?"] * len(when.spans))
    return where._replace(sql=f"{where.sql} AND ({spans})", params=(*where.params, *(x for s in when.spans for x in s)))


def of_nodes(scope: Scope) -> Where:
    """The conditions for rows ``n`` of ``nodes``; a session's nodes are those that cover messages of it."""
    conditions = _conditions(
        ("n.conversation_id", scope.conversations),
        (_PRINCIPAL.format("n"), scope.principal),
        (_COVERS_SESSION, scope.session_id),
    )
    cut, cuts = inherited(scope, "n")
    sql = " AND ".join(["1", *(sql for sql, _ in conditions), *([cut] if cut else [])])
    return Where(sql, (*(value for _, values in conditions for value in values), *cuts), 0, 2**62)


def _range(db: Database, scope: Scope, filters: Filters) -> tuple[int, int]:
    """The store ids that the scope can hold."""
    ranges: list[tuple[Any, ...]] = []
    if scope.session_id is not None:
        ranges = db.query(_SESSION_RANGE, (scope.session_id, scope.session_id))
    elif scope.conversations is not None and len(scope.conversations) <= 50:
        for conversation in scope.conversations:
            ranges += db.query(_CONVERSATION_RANGE, (conversation, conversation))
    known = [r for r in ranges if r[0] is not None]
    if ranges and not known:
        return 0, 0
    first = max(min((r[0] for r in known), default=0), filters.first_id or 0)
    last = min(
        max((r[1] for r in known), default=chunk_ids.LAST_STORE_ID),
        chunk_ids.LAST_STORE_ID if filters.last_id is None else filters.last_id,
    )
    return min(first, chunk_ids.LAST_STORE_ID), max(last, 0)


def _conditions(*pairs: tuple[str, Any]) -> list[tuple[str, tuple[Any, ...]]]:
    """SQL and parameters of the conditions that are set; a tuple means one of these."""
    out: list[tuple[str, tuple[Any, ...]]] = []
    for sql, value in pairs:
        if isinstance(value, tuple):
            out.append((f"{sql} IN ({','.join('?' * len(value))})", value))
        elif value is not None:
            out.append((sql, (value,)))
    return out
