"""
Rights of a call, and scopes in SQL: the rows that a caller may read (P8).

Rights come from what the host says of an agent and of its session. Unknown means nobody: the agent that calls decides (its
platform and session key), narrowed to its own session wherever the session's owner or the host's own row of the session says
otherwise, and wherever the host does not say who is asking.

Owns no table: reads ``messages``, ``nodes``, ``conversations`` and ``sessions`` to answer which of them a ``Scope``
covers, in which order, and how many. Content comes from their owners, for ids that passed here. An id outside the
scope and an id that does not exist are the same to every caller.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..records import Scope
from ..session import CLIENTS, KEY_OF, LOCAL, Session, Sessions, principal_of
from ..storage.connection import Database
from ..storage.meta import REWRITTEN
from . import documents
from .dates import When
from .documents import FOUND_SQL
from .fts import Where
from .query import Atom

#: Platforms of the person at this machine. Jobs, workers and agents that the host makes for itself are none of them.
LOCAL_PLATFORMS: Final = frozenset({"cli", "tui", "acp"})
#: Sources of their sessions. Hosts near 0.22 keep ``hermes chat -q`` apart, in which an agent of the terminal answers once.
_LOCAL_SOURCES: Final = LOCAL_PLATFORMS | {"oneshot"}


_OF_HOST: Final = ("source", "session_key", "user_id", "chat_id", "thread_id")


@dataclass(frozen=True, slots=True)
class HostRow:
    """A session as the host's own database has it. ``told``: this host keeps sources of sessions at all."""

    source: str = ""
    key: str = ""
    user: str = ""
    told: bool = False
    chat: str = ""
    thread: str = ""

    @classmethod
    def of(cls, row: object) -> HostRow | None:
        """The host's dict of a session; None where it has none."""
        if not isinstance(row, Mapping):
            return None
        said = {name: str(row.get(name) or "") for name in _OF_HOST}
        source, key, user, chat, thread = said.values()
        return cls(source.lower(), key, user, "source" in row, chat, thread)

    @property
    def local(self) -> bool:
        """Does nothing in the row speak against the person at this machine?"""
        return not (self.key or self.user) and (self.source in _LOCAL_SOURCES or not self.told)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The agent that works in a session, as the host told of it. ``platform`` "": the host did not say.

    ``worker``: it works through a task of somebody else.
    """

    platform: str = ""
    key: str = ""
    row: HostRow | None = None
    worker: bool = False

    @property
    def source(self) -> str:
        """The platform of the session: the agent's, or the one of the host's row."""
        return self.platform or (self.row.source if self.row else "")

    @property
    def principal(self) -> str | None:
        """The principal of the agent itself; None: the host does not tell whom it works for."""
        if self.key:
            return principal_of(self.platform, self.key)
        return LOCAL if self.platform.lower() in LOCAL_PLATFORMS and not self.worker else None

    def owner(self) -> str | None:
        """Owner of the session, where everything that the host says agrees; else None."""
        row, mine = self.row, self.principal
        if row is not None and row.key:
            theirs = principal_of(row.source, row.key)
            return theirs if mine in (theirs, None) and not self.worker else None
        if mine == LOCAL:
            return LOCAL if row is not None and row.local else None
        elsewhere = row is not None and row.told and row.source != self.platform.lower()
        return None if elsewhere else mine


@dataclass(frozen=True, slots=True)
class Rights:
    """Rights of one call. ``principal`` None: everything, but for ``own`` (its session) and ``shown`` (its request)."""

    principal: str | None = None
    own: bool = False
    shown: bool = False

    @property
    def reads_all(self) -> bool:
        """May it read every conversation?"""
        return self.principal is None and not self.own


#: The rights of an agent whose principal is not known.
OWN_SESSION: Final = Rights(own=True)
#: Those of a request in a session that several people may share.
OWN_REQUEST: Final = Rights(own=True, shown=True)


def rights(seen: Evidence, session: Session | None) -> Rights:
    """The rights of an agent in a session (None: nothing of it is stored yet)."""
    mine, owner = seen.principal, session.principal if session is not None else None
    agrees = owner is None or owner == mine
    shared = CLIENTS in (seen.platform.lower(), session.platform.lower() if session is not None else "")
    if mine is None or not agrees:
        # Handed over, or the id was used again: its list tells which.
        elsewhere = mine not in (None, LOCAL) and session is not None and contradicts(session, mine)
        return OWN_REQUEST if elsewhere or (shared and not (mine == LOCAL and not agrees)) else OWN_SESSION
    if mine == LOCAL:
        return Rights() if seen.row is not None and seen.row.local else OWN_SESSION
    row = seen.row
    if row is not None and row.key and principal_of(row.source, row.key) != mine:
        return OWN_SESSION
    return Rights(mine)


def claims(session: Session, owner: str | None) -> bool:
    """May this owner have a session that nobody could be shown to own so far? One of the API server's may be several clients'."""
    platform = session.platform.lower()
    return (
        owner is not None
        and session.unclaimed
        and platform != CLIENTS
        and (owner != LOCAL or platform in LOCAL_PLATFORMS)
    )


def is_several_clients(session: Session, seen: Evidence) -> bool:
    """Does another client of the API server come into a client's session?

    Its id proves nothing: the host makes it from the first words, and of two that are chosen both may be "default".
    """
    both = session.platform.lower() == seen.platform.lower() == CLIENTS
    return both and not session.unclaimed and seen.principal != session.principal


def contradicts(session: Session, owner: str | None) -> bool:
    """Does positive evidence name another owner than earlier evidence did?"""
    return owner is not None and owner != session.principal and not session.unclaimed


def own_scope(sessions: Sessions, conversation_id: int) -> Scope:
    """A conversation and what it inherits, of every speaker: a branch knows nothing of what its parents say later."""
    ancestry = sessions.ancestry(conversation_id)
    cuts = tuple((conversation, cut.seq, cut.pos) for conversation, cut in ancestry if cut is not None)
    gone = sessions.taken_back(conversation_id) if cuts else None
    return Scope(None, tuple(c for c, _ in ancestry), cuts=cuts, without=tuple(sorted(gone)) if gone else ())


_LIST = "(SELECT value FROM json_each({}))"
_AMONG_MESSAGES = f"""
SELECT m.store_id FROM messages m JOIN conversations c USING(conversation_id)
 WHERE m.store_id IN {_LIST.format(":ids")}"""
_AMONG_NODES = f"""
SELECT n.node_id FROM nodes n JOIN conversations c USING(conversation_id)
 WHERE n.node_id IN {_LIST.format(":ids")}"""
_AMONG_CONVERSATIONS = f"""
SELECT c.conversation_id FROM conversations c WHERE c.conversation_id IN {_LIST.format(":ids")}"""
_COUNT_MESSAGES = """
SELECT count(*) FROM conversations c JOIN messages m USING(conversation_id) WHERE 1"""
_COUNT_SESSIONS = """
SELECT count(*) FROM conversations c JOIN sessions s USING(conversation_id) WHERE 1"""
_IN_SESSION = f"""
  FROM messages m JOIN conversations c USING(conversation_id)
 WHERE m.session_key = {KEY_OF.format(":session")}
   AND (:roles IS NULL OR m.role IN {_LIST.format(":roles")})
   AND (:sources IS NULL OR coalesce(nullif(m.source, ''), 'unknown') IN {_LIST.format(":sources")})
   AND (:since IS NULL OR coalesce(m.said_at, m.stored_at) >= :since)
   AND (:until IS NULL OR coalesce(m.said_at, m.stored_at) < :until)"""
_BETWEEN = """
SELECT m.store_id FROM messages m CROSS JOIN conversations c USING(conversation_id)
 WHERE m.store_id BETWEEN :first AND :last"""
# By seq, which is indexed: a row that was inserted between old ones keeps the neighbours of its place.
_AROUND = f"""
SELECT m.store_id FROM messages m JOIN conversations c USING(conversation_id)
 WHERE m.conversation_id = :conversation AND m.seq BETWEEN :low AND :high AND {FOUND_SQL}"""
# Within a conversation store ids grow with seq: the newest row of each is one look-up.
_NEWEST = """
SELECT max((SELECT m.store_id FROM messages m WHERE m.conversation_id = c.conversation_id ORDER BY m.seq DESC LIMIT 1))
  FROM conversations c WHERE 1"""
_NEWEST_OF_ALL = "SELECT max(store_id) FROM messages"
_NEWEST_OF_SESSION = f"""
SELECT max(m.store_id) FROM messages m JOIN conversations c USING(conversation_id)
 WHERE m.session_key = {KEY_OF.format(":session")}"""
_LAST = "SELECT m.store_id FROM messages m CROSS JOIN conversations c USING(conversation_id) WHERE 1"
_NEWEST_NODES = """
SELECT n.node_id FROM nodes n CROSS JOIN conversations c USING(conversation_id) WHERE 1"""
_COVERING = f"""
SELECT s.store_id, max(s.node_id) FROM node_sources s JOIN nodes n USING(node_id) JOIN conversations c USING(conversation_id)
 WHERE s.store_id IN {_LIST.format(":ids")}"""
_SUCCESSORS = f"""
SELECT m.revises, max(m.store_id) FROM messages m CROSS JOIN conversations c USING(conversation_id)
 WHERE m.revises IN {_LIST.format(":ids")}"""
_BETTER = f"""
SELECT n.replaces, max(n.node_id) FROM nodes n CROSS JOIN conversations c USING(conversation_id)
 WHERE n.replaces IN {_LIST.format(":ids")}"""
_FROM_SOURCE = f"""
WITH RECURSIVE below(root, node_id) AS (
  SELECT value, value FROM json_each(:ids)
  UNION
  SELECT b.root, s.child_id FROM below b JOIN node_sources s ON s.node_id = b.node_id WHERE s.child_id IS NOT NULL
)
SELECT DISTINCT b.root FROM below b JOIN node_sources s ON s.node_id = b.node_id JOIN messages m ON m.store_id = s.store_id
 WHERE coalesce(nullif(m.source, ''), 'unknown') IN {_LIST.format(":sources")}
"""
# Of conversations that are gone, too: each was somebody's.
_REWRITES = f"""
SELECT total(k.value) FROM meta k
  LEFT JOIN conversations c ON c.conversation_id = CAST(substr(k.key, {len(REWRITTEN) + 1}) AS INTEGER)
 WHERE k.key GLOB '{REWRITTEN}*' AND (c.conversation_id IS NULL OR (1"""
# A branch inherits its ancestors up to where it began: what they say later, or had taken back by then, is not its past.
_CUT = "SELECT 1 FROM json_each({cuts}) AS cut WHERE json_extract(cut.value, '$[0]') = {row}.conversation_id AND"
_INHERITED = (
    f"NOT EXISTS ({_CUT} (m.seq > json_extract(cut.value, '$[1]') OR m.pos > json_extract(cut.value, '$[2]'))) "
    "AND m.store_id NOT IN (SELECT value FROM json_each({without}))"
)
_INHERITED_NODE = (
    f"NOT EXISTS ({_CUT} (n.last_pos > json_extract(cut.value, '$[2]') OR "
    "(SELECT m.seq FROM messages AS m WHERE m.store_id = n.last_store_id) > json_extract(cut.value, '$[1]')))"
)
_FAR = 2**62  # stands for "all of it": JSON knows no infinity
_PRINCIPAL = " AND c.principal = :principal"
_CONVERSATIONS = f" AND c.conversation_id IN {_LIST.format(':conversations')}"
_ONLY = {"m": f" AND m.store_id IN {_LIST.format(':only')}", "n": f" AND n.node_id IN {_LIST.format(':only')}"}
_OF_SESSION = f"m.session_key = {KEY_OF}"
_COVERS_SESSION = f"""EXISTS (
  SELECT 1 FROM messages AS m WHERE {_OF_SESSION} AND m.conversation_id = n.conversation_id
     AND m.store_id BETWEEN n.first_store_id AND n.last_store_id)"""
#: By alias of what is read: messages, nodes, sessions.
_SESSION = {
    "m": f" AND {_OF_SESSION.format(':session')}",
    "n": f" AND {_COVERS_SESSION.format(':session')}",
    "s": f" AND s.session_key = {KEY_OF.format(':session')}",
}


class Scopes:
    """Answers what a scope covers, for one database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def messages(self, store_ids: Iterable[int], scope: Scope) -> set[int]:
        """Messages among these that exist and may be read."""
        return set(self._ids(_AMONG_MESSAGES, scope, of="m", ids=json.dumps(list(store_ids))))

    def nodes(self, node_ids: Iterable[int], scope: Scope) -> set[int]:
        """Nodes among these that exist and may be read."""
        return set(self._ids(_AMONG_NODES, scope, of="n", ids=json.dumps(list(node_ids))))

    def covering(self, store_ids: Iterable[int], scope: Scope) -> dict[int, int]:
        """Newest leaf over each message that may be read, by store id."""
        sql, params = _within(_COVERING, scope, "n")
        wanted = {**params, "ids": json.dumps(list(store_ids))}
        return {row[0]: row[1] for row in self._db.query(f"{sql} GROUP BY s.store_id", wanted)}

    def conversations(self, ids: Iterable[int], scope: Scope) -> set[int]:
        """Conversations among these that exist and may be read."""
        return set(self._ids(_AMONG_CONVERSATIONS, scope, ids=json.dumps(list(ids))))

    def rewrites(self, scope: Scope) -> int:
        """How often words of a scope were taken out of stored messages: what was made of them before is not to be shown."""
        sql, params = _within(_REWRITES, scope)
        return int(self._db.query(f"{sql}))", params)[0][0])

    def counts(self, scope: Scope) -> tuple[int, int]:
        """(messages, sessions) of a scope."""
        messages = self._ids(_COUNT_MESSAGES, scope, of="m")[0]
        return messages, self._ids(_COUNT_SESSIONS, scope, of="s")[0]

    def page(self, session_id: str, scope: Scope, wanted: Filters, *, after: int, limit: int) -> list[int]:
        """Store ids of a session above ``after``, in order."""
        sql = f"SELECT m.store_id {_IN_SESSION} AND m.store_id > :after"
        end = "ORDER BY m.store_id LIMIT :limit"
        return self._ids(sql, scope, end, of="m", **_filters(session_id, wanted), after=after, limit=limit)

    def total(self, session_id: str, scope: Scope, wanted: Filters) -> tuple[int, int]:
        """(how many messages of a session pass the filters, the newest of them or 0)."""
        sql, params = _within(f"SELECT count(*), max(m.store_id) {_IN_SESSION}", scope, "m")
        row = self._db.query(sql, {**params, **_filters(session_id, wanted)})[0]
        return int(row[0]), int(row[1] or 0)

    def between(self, first: int, last: int, scope: Scope, *, limit: int) -> list[int]:
        """Readable store ids of a range, in order."""
        end = "ORDER BY m.store_id LIMIT :limit"
        return self._ids(_BETWEEN, scope, end, of="m", first=first, last=last, limit=limit)

    def readable_stretch(self, conversation_id: int, low: int, high: int, scope: Scope) -> list[int]:
        """Readable store ids of a stretch of one conversation (by place), in order."""
        end = "ORDER BY m.pos, m.seq"
        params = {"conversation": conversation_id, "low": low, "high": high}
        return self._ids(_AROUND, scope, end, of="m", **params)

    def newest(self, scope: Scope) -> int:
        """The newest store id of a scope, 0 if it is empty."""
        everybodys = scope.principal is None and scope.conversations is None
        sql = _NEWEST_OF_SESSION if scope.session_id is not None else _NEWEST_OF_ALL if everybodys else _NEWEST
        return self._ids(sql, scope)[0] or 0

    def last(self, scope: Scope) -> int:
        """The newest message that a scope lets through, 0 if there is none."""
        found = self._ids(_LAST, scope, "ORDER BY m.store_id DESC LIMIT 1", of="m")
        return found[0] if found else 0

    def newest_nodes(self, scope: Scope, *, limit: int) -> list[int]:
        """The newest node ids of a scope, newest first."""
        return self._ids(_NEWEST_NODES, scope, "ORDER BY n.node_id DESC LIMIT :limit", of="n", limit=limit)

    def successors(self, store_ids: Sequence[int], scope: Scope) -> dict[int, int]:
        """Newest row of a scope that revises each message, by store id."""
        sql, params = _within(_SUCCESSORS, scope, "m")
        return dict(self._db.query(f"{sql} GROUP BY m.revises", {**params, "ids": json.dumps(list(store_ids))}))

    def better(self, node_ids: Sequence[int], scope: Scope) -> dict[int, int]:
        """Newest node of a scope that replaces each node, by node id."""
        sql, params = _within(_BETTER, scope, "n")
        return dict(self._db.query(f"{sql} GROUP BY n.replaces", {**params, "ids": json.dumps(list(node_ids))}))

    def from_source(self, node_ids: Sequence[int], sources: Sequence[str]) -> set[int]:
        """Nodes with at least one message of these sources below them."""
        params = {"ids": json.dumps(list(node_ids)), "sources": json.dumps(list(sources))}
        return {row[0] for row in self._db.query(_FROM_SOURCE, params)}

    def _ids(self, sql: str, scope: Scope, end: str = "", *, of: str = "", **params: Any) -> list[int]:
        """The first column of a statement, narrowed to a scope."""
        text, own = _within(sql, scope, of)
        return [row[0] for row in self._db.query(f"{text} {end}", {**own, **params})]


def inherited(scope: Scope, of: str, cuts: str = "?", without: str = "?") -> tuple[str, tuple[str, ...]]:
    """SQL (and its parameters) for what of messages ``m`` or nodes ``n`` a branch inherits; "" when the scope cuts nothing."""
    if not scope.cuts and not scope.without:
        return "", ()
    values = (json.dumps([(c, seq, min(pos, _FAR)) for c, seq, pos in scope.cuts]), json.dumps(list(scope.without)))
    if of == "n":
        return _INHERITED_NODE.format(cuts=cuts, row="n"), values[:1]
    return _INHERITED.format(cuts=cuts, row="m", without=without), values


def _within(sql: str, scope: Scope, of: str = "") -> tuple[str, dict[str, Any]]:
    """A statement and its parameters, with the clauses of a scope added.

    ``of``: the alias of the rows it reads, messages (m), nodes (n) or sessions (s); "" where the session is no condition.
    """
    params: dict[str, Any] = {"session": scope.session_id}
    if scope.principal is not None:
        sql, params["principal"] = sql + _PRINCIPAL, scope.principal
    if scope.conversations is not None:
        sql, params["conversations"] = sql + _CONVERSATIONS, json.dumps(list(scope.conversations))
    if scope.session_id is not None:
        sql += _SESSION.get(of, "")
    only = scope.messages if of == "m" else scope.nodes if of == "n" else None
    if only is not None:
        sql, params["only"] = sql + _ONLY[of], json.dumps(list(only))
    cut, values = inherited(scope, of, ":cuts", ":without") if of in _ONLY else ("", ())
    if cut:
        sql, params = f"{sql} AND {cut}", {**params, **dict(zip(("cuts", "without"), values, strict=False))}
    return sql, params


def _filters(session_id: str, wanted: Filters) -> dict[str, Any]:
    return {
        "session": session_id,
        "roles": json.dumps(list(wanted.roles)) if wanted.roles else None,
        "sources": json.dumps(list(wanted.sources)) if wanted.sources else None,
        "since": wanted.since,
        "until": wanted.until,
    }


# -- scope and filters of a search, as SQL conditions and as a range of addresses ------------------------
# The first and last address of a scope: FTS5 then reads that part of its lists only.
_SAID = "coalesce(m.said_at, m.stored_at)"
_OF_PRINCIPAL = (
    "EXISTS (SELECT 1 FROM conversations AS c WHERE c.conversation_id = {}.conversation_id AND c.principal = ?)"
)
_MATCHING = f"(SELECT {documents.STORE_ID_SQL.format('rowid')} FROM message_index WHERE message_index MATCH ?)"
_ONE_OF = "{} IN (SELECT value FROM json_each(?))"
_SESSION_RANGE = f"""
SELECT (SELECT min(store_id) FROM messages WHERE session_key = {KEY_OF.format("?")}),
       (SELECT max(store_id) FROM messages WHERE session_key = {KEY_OF.format("?")})
"""
# Within a conversation store ids grow with seq: both are given when a row is appended.
_CONVERSATION_RANGE = """
SELECT (SELECT store_id FROM messages WHERE conversation_id = ? ORDER BY seq LIMIT 1),
       (SELECT store_id FROM messages WHERE conversation_id = ? ORDER BY seq DESC LIMIT 1)
"""
_SIZE = """
SELECT sum((SELECT max(seq) FROM messages AS m WHERE m.conversation_id = c.value)) FROM json_each(?) AS c"""
_MOST = 900  # conversations that one statement names


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters of a search, or of a session that is read. Times are Unix seconds: ``since`` included, ``until`` excluded. Ids are
    inclusive; these and the speaker are of a search alone."""

    roles: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    first_id: int | None = None
    last_id: int | None = None
    speaker: str = ""  # an expression for the index: words that its text must hold


def of_messages(db: Database, scope: Scope, filters: Filters, excluded: Sequence[Atom]) -> Where:
    """The conditions for rows ``m`` of ``messages``."""
    scope = _resolved(db, scope)
    near = _conditions(
        ("m.role", filters.roles or None), ("m.source", filters.sources or None), (_OF_SESSION.format("?"), scope.session_id),
        (f"{_SAID} >= ?", filters.since), (f"{_SAID} < ?", filters.until),
        ("m.store_id >= ?", filters.first_id), ("m.store_id <= ?", filters.last_id),
        (_ONE_OF.format("m.store_id"), _listed(scope.messages)),
        (f"m.store_id IN {_MATCHING}", "{text} : (" + filters.speaker + ")" if filters.speaker else None),
        *((f"m.store_id NOT IN {_MATCHING}", "{text} : (" + atom.match + ")") for atom in excluded),
    )  # fmt: skip
    cut, cuts = inherited(scope, "m")
    wide = _conditions(("m.conversation_id", scope.conversations), (_OF_PRINCIPAL.format("m"), scope.principal))
    clauses = [FOUND_SQL, *(sql for sql, _ in near), *([cut] if cut else [])]
    params = [*(value for _, values in near for value in values), *cuts]
    sql = " AND ".join([*clauses, *(sql for sql, _ in wide)])
    everything = (*params, *(value for _, values in wide for value in values))
    first, last = _range(db, scope, filters)
    size = _messages_of(db, scope.conversations) if scope.apart else 0
    return Where(
        sql, everything, *documents.rows_of(first, last), " AND ".join(clauses), tuple(params), scope.apart, size
    )


def during(where: Where, when: When) -> Where:
    """A condition for rows said at one of these times."""
    spans = " OR ".join([f"{_SAID} BETWEEN ? AND ?"] * len(when.spans))
    return where._replace(sql=f"{where.sql} AND ({spans})", params=(*where.params, *(x for s in when.spans for x in s)))


def of_nodes(db: Database, scope: Scope) -> Where:
    """The conditions for rows ``n`` of ``nodes``; a session's nodes are those that cover messages of it."""
    scope = _resolved(db, scope)
    conditions = _conditions(
        ("n.conversation_id", scope.conversations),
        (_OF_PRINCIPAL.format("n"), scope.principal),
        (_COVERS_SESSION.format("?"), scope.session_id),
        (_ONE_OF.format("n.node_id"), _listed(scope.nodes)),
    )
    cut, cuts = inherited(scope, "n")
    sql = " AND ".join(["1", *(sql for sql, _ in conditions), *([cut] if cut else [])])
    params = (*(value for _, values in conditions for value in values), *cuts)
    size = _messages_of(db, scope.conversations) if scope.apart else 0
    return Where(sql, params, 0, 2**62, apart=scope.apart, size=size)


def _resolved(db: Database, scope: Scope) -> Scope:
    """A scope of one among many principals, by its conversations: how much others say shall not even cost time."""
    if not scope.apart or scope.conversations is not None or scope.principal is None:
        return scope
    rows = db.query("SELECT conversation_id FROM conversations WHERE principal = ? LIMIT ?", (scope.principal, _MOST))
    return replace(scope, conversations=tuple(row[0] for row in rows)) if len(rows) < _MOST else scope


def _messages_of(db: Database, conversations: Sequence[int] | None) -> int:
    """About how many messages conversations have: a look-up for each."""
    return int(db.query(_SIZE, (json.dumps(list(conversations or ())),))[0][0] or 0)


def _listed(ids: Sequence[int] | None) -> str | None:
    return json.dumps(list(ids)) if ids is not None else None


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
        max((r[1] for r in known), default=documents.LAST_STORE_ID),
        documents.LAST_STORE_ID if filters.last_id is None else filters.last_id,
    )
    return min(first, documents.LAST_STORE_ID), max(last, 0)


def _conditions(*pairs: tuple[str, Any]) -> list[tuple[str, tuple[Any, ...]]]:
    """SQL and parameters of the conditions that are set; a tuple means one of these."""
    out: list[tuple[str, tuple[Any, ...]]] = []
    for sql, value in pairs:
        if isinstance(value, tuple):
            out.append((f"{sql} IN ({','.join('?' * len(value))})", value))
        elif value is not None:
            out.append((sql, (value,)))
    return out
