"""
Full-text search over messages and summary nodes.

Owns the virtual tables ``message_index`` and ``node_index`` (and their vocabularies). Reads ``messages``, ``conversations``
and ``nodes`` only to push filters into SQL. Holds no text: what must be read is handed in by a callback.

The indexes are caches. They are contentless, so a row costs its postings only, and its number tells which chunk of which message
it is (``text/chunk_ids.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import bounds
from .bounds import Filters
from .db.connection import Database
from .db.fts import FullText, Plan, Where
from .db.lists import marks, padded
from .errors import BadRequest, StoreError
from .indexing import IndexRow, Waiting, postings
from .records import Flag, Scope
from .text import chunk_ids, words
from .text.moments import When
from .text.pattern import compile_pattern
from .text.ranking import ORDERS, Finder, Found, Place, Pool
from .text.words import Query

_TOKENIZE = "tokenize='porter unicode61 remove_diacritics 2'"
SCHEMA = (
    f"CREATE VIRTUAL TABLE IF NOT EXISTS message_index USING fts5(text, context, content='', {_TOKENIZE})",
    "CREATE VIRTUAL TABLE IF NOT EXISTS message_terms USING fts5vocab('message_index', 'row')",
    # What stands in front of a message helps to find it, but a word of its own is worth more.
    "INSERT INTO message_index(message_index, rank) VALUES ('rank', 'bm25(1.0, 0.3)')",
    # A piece of the index with its record's head just fills pages of the database of 1 KiB: a few bytes more, and each would
    # leave a fifth page nearly empty.
    "INSERT INTO message_index(message_index, rank) VALUES ('pgsz', 4030)",
)
NODE_SCHEMA = (
    f"CREATE VIRTUAL TABLE IF NOT EXISTS node_index USING fts5(text, content='', {_TOKENIZE})",
    "CREATE VIRTUAL TABLE IF NOT EXISTS node_terms USING fts5vocab('node_index', 'row')",
)

Texts = Callable[[Sequence[int]], Mapping[int, str]]
"""Store ids to the texts that were indexed: ``words.searchable(text, extra)``."""

ALL_BONUS = 0.2  # shares of the best score
PHRASE_BONUS = 0.5
_FOLDED_PAGES = 300  # some milliseconds
CANDIDATES = 200  # chunks read per search
DATED = 100  # and so many more of the times that the query names
SCAN_S = 0.06
PAGE = 400
READ = 160  # texts read where the index says that they hold the words of a literal
SCANNED = 5000  # addresses read ahead of a scan


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that was found.

    ``offset`` is where to look in its searchable text (0 when no texts were handed in), ``chunk`` the number of its best chunk.
    ``rung``: "phrase", "all", "any", "prefix", "substring", "regex", or "near" when only its neighbours match.
    """

    store_id: int
    score: float
    rung: str
    chunk: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Hits:
    """Found messages in order. ``total`` counts all matching messages; with ``total_is_bound`` there are at least so many.

    ``rungs`` matched, strictest first. ``notes`` say what was read differently from how it was typed. ``nearest``: words that
    readable messages do contain, when nothing was found.
    """

    hits: tuple[Hit, ...]
    rungs: tuple[str, ...]
    total: int
    total_is_bound: bool
    notes: tuple[str, ...] = ()
    nearest: tuple[str, ...] = ()


class NodeHit(NamedTuple):
    """A summary node that was found."""

    node_id: int
    score: float
    rung: str


@dataclass(frozen=True, slots=True)
class NodeHits:
    """Found nodes, best first."""

    hits: tuple[NodeHit, ...]
    rungs: tuple[str, ...]
    total: int
    total_is_bound: bool
    notes: tuple[str, ...] = ()


MESSAGES, NODES = "message_index", "node_index"
_INDEXES = {
    MESSAGES: (SCHEMA, ("message_index", "message_terms")),
    NODES: (NODE_SCHEMA, ("node_index", "node_terms")),
}
_TABLES = tuple(table for _, tables in _INDEXES.values() for table in tables)
_PRESENT = f"SELECT name FROM sqlite_master WHERE name IN {_TABLES}"


def complete(db: Database) -> bool:
    """Are the indexes there? Asks without a lock: whoever only looks need not wait for a writer."""
    return len(db.query(_PRESENT)) == len(_TABLES)


def prepare(db: Database) -> set[str]:
    """Make the indexes that are missing. Which were: they must be rebuilt where there is something to index."""
    if complete(db):
        return set()
    made = set()
    with db.transaction():  # another process may have made them while we waited for the lock
        present = {name for (name,) in db.fetch(_PRESENT)}
        for index, (schema, tables) in _INDEXES.items():
            if present.issuperset(tables):
                continue
            for table in reversed(tables):
                db.execute(f"DROP TABLE IF EXISTS {table}")
            for statement in schema:
                db.execute(statement)
            made.add(index)
    return made


# ------------------------------------------------------------------------------------------------- messages


_COLUMNS = "m.store_id, m.conversation_id, m.seq, m.role, m.chars, coalesce(m.said_at, m.stored_at)"


class MessageIndex:
    """The index of all messages of one database."""

    def __init__(self, db: Database, *, behind: Callable[[], int] = lambda: 0) -> None:
        """``behind``: indexes what waits and says how many messages wait still."""
        self._db = db
        self.waiting = Waiting(db)
        self._behind = behind
        join = "messages AS m ON m.store_id = " + chunk_ids.STORE_ID_SQL.format("f.rowid")
        self._fts = FullText(
            db, "message_index", SCHEMA, columns=_COLUMNS, join=join, own="{text} : ", group=chunk_ids.GROUP
        )

    # -- writing ------------------------------------------------------------------------------------
    def add(self, rows: Sequence[IndexRow]) -> None:
        """Index messages, inside the caller's transaction."""
        self._insert(postings(rows))

    def _insert(self, entries: Sequence[tuple[int, str, str]]) -> None:
        self._db.executemany("INSERT INTO message_index(rowid, text, context) VALUES (?, ?, ?)", entries)

    def catch_up(self, entry: Callable[[int], IndexRow | None], *, seconds: float) -> int:
        """Index what waits, as ``entry`` gives it, for so many seconds; how many wait still. Raises StoreError."""

        def read(store_id: int) -> list[tuple[int, str, str]] | None:
            row = entry(store_id)
            return None if row is None else postings([row])

        return self.waiting.work_off(read, self._insert, seconds=seconds)

    def fold(self) -> None:
        """Fold newer pieces of the index into older ones, a bounded part of it; inside the caller's transaction."""
        self._db.execute("INSERT INTO message_index(message_index, rank) VALUES ('usermerge', 2)")
        self._db.execute("INSERT INTO message_index(message_index, rank) VALUES ('merge', ?)", (_FOLDED_PAGES,))

    def holds(self, row: IndexRow) -> bool:
        """Does the index hold as many pieces of a message as it has, inside the caller's transaction?"""
        numbers = padded([number for number, _, _ in postings([row])])
        sql = f"SELECT count(*) FROM message_index_docsize WHERE id IN ({marks(len(numbers))})"
        return bool(self._db.fetch(sql, numbers)[0][0] == len({*numbers} - {None}))

    def exchange(self, before: IndexRow, after: IndexRow) -> None:
        """Index other words for a message, inside the caller's transaction. ``before``: exactly what was indexed."""
        self._db.executemany(
            "INSERT INTO message_index(message_index, rowid, text, context) VALUES ('delete', ?, ?, ?)",
            postings([before]),
        )
        self.add([after])

    def rebuild(self, batches: Iterable[Sequence[IndexRow]]) -> int:
        """Drop the index and make it again from all messages, as one transaction. How many wait, as they cannot be read."""
        with self._db.transaction():
            self._fts.rebuild()
            self.waiting.take(None)
            for rows in batches:
                self.add(rows)
            return self.waiting.count()

    def check(self, *, deep: bool = False) -> list[str]:
        """What is wrong, for people; empty when all is well. ``deep`` reads the whole index."""
        waiting = ",".join(str(int(store_id)) for store_id in self.waiting.ids())
        readable = f"m.flags & {int(Flag.FILTERED)} = 0 AND m.store_id NOT IN ({waiting})"
        order = "" if deep else " ORDER BY m.store_id DESC LIMIT 200"
        missing = self._db.query(
            f"SELECT count(*) FROM (SELECT m.store_id FROM messages AS m WHERE {readable}{order}) AS m "
            f"WHERE NOT EXISTS (SELECT 1 FROM message_index_docsize AS d WHERE d.id = {chunk_ids.FIRST_SQL.format('m.store_id')})"
        )[0][0]
        problems = [f"messages missing from the search index: {missing}"] if missing else []
        return [*problems, *(self._fts.damage() if deep else [])]

    # -- searching ----------------------------------------------------------------------------------
    def search(
        self,
        query: Query,
        *,
        scope: Scope,
        filters: Filters | None = None,
        limit: int,
        sort: str = "relevance",
        texts: Texts | None = None,
        when: When | None = None,
    ) -> Hits:
        """All rungs of the ladder in one call, one list. ``sort``: relevance, recency or hybrid.

        ``when``: times that the query names; messages of these times count more.

        ``texts`` lets the ranking see how much of the query a message and its neighbours cover, gives exact offsets, and
        makes the substring scan possible when no word matches.
        """
        if sort not in ORDERS:
            raise BadRequest(f"sort={sort!r} is not one of {', '.join(ORDERS)}")
        where = bounds.of_messages(self._db, scope, filters or Filters(), query.excluded)
        pool = Pool(notes=list(query.notes))
        try:
            if late := self._behind():
                pool.notes.append(
                    f"not indexed yet, so not searched: {late} large message(s); later searches find them"
                )
        except StoreError as exc:
            pool.notes.append(f"the largest of the newest messages are not indexed yet ({exc})")
        plan = self._climb(pool, query, where, newest=sort == "recency")
        if not pool.found or (query.strict and pool.rungs == ["any"]):
            self._fall_back(pool, query, plan, where, texts, limit)
        if not pool.found and query.required:
            query = words.loosened(query)
            plan = self._climb(pool, query, where, newest=sort == "recency")
        if when and pool.found:
            self._recall(pool, plan, where, when)
        self._rank(pool, query, plan, where, texts, when)
        ranked = ORDERS[sort](pool)[:limit]
        hits = self._located(ranked, plan, texts)
        nearest = () if pool.found else self._fts.nearest(query, where)
        return Hits(hits, tuple(pool.rungs), pool.matching, pool.cut, tuple(dict.fromkeys(pool.notes)), nearest)

    def _climb(self, pool: Pool, query: Query, where: Where, *, newest: bool) -> Plan:
        """Any, all, phrase: from loose to strict, so that each row ends with the strictest rung that it matches."""
        plan = self._fts.plan(query, where)
        strict: list[tuple[str, float, list[tuple[Any, ...]]]] = []
        for rung, expression, bonus in (("all", query.all, ALL_BONUS), ("phrase", query.phrase, PHRASE_BONUS)):
            if expression and (rung == "all" or len(query.any) > 1):
                rows = self._fts.match(expression, where, CANDIDATES, own=True, newest=newest, first=plan.first)
                strict.append((rung, bonus, rows))
        satisfied = any(rows for *_, rows in strict)
        best = 0.0
        if plan.any and query.loosens and not (satisfied and (query.strict or newest)):
            best = pool.take("any", self._fts.match(plan.any, where, CANDIDATES, first=plan.first), limit=CANDIDATES)
            pool.notes.extend(plan.notes)
            if pool.found and query.strict:
                pool.notes.append(_LOOSER)
        elif plan.first > where.first:
            pool.notes.extend(plan.notes)
        pool.cut = pool.cut or plan.first > where.first
        for rung, bonus, rows in strict:
            pool.take(rung, rows, best=best, bonus=bonus, limit=CANDIDATES)
        if query.phrase_lost and pool.found:
            pool.notes.append(_LOOSER)
        return plan

    def _recall(self, pool: Pool, plan: Plan, where: Where, when: When) -> None:
        """Where there are more matches than candidates: also the best of the times that the query names."""
        if pool.cut and plan.any:
            rows = self._fts.match(plan.any, bounds.during(where, when), DATED, first=plan.first)
            pool.take("any", rows, best=pool.top, limit=CANDIDATES)
        if any(when.covers(found.place.at) for found in pool.found.values()):
            pool.notes.append(
                "messages of the time that the query names come first; time_from and time_to insist on it"
            )

    def _fall_back(self, pool: Pool, query: Query, plan: Plan, where: Where, texts: Texts | None, limit: int) -> None:
        """Beginnings of words, then the literal anywhere in the texts."""
        single = not any(c.isspace() for c in query.literal)
        begins = words.beginning(query.literal) if single else ""
        if begins:
            pool.take("prefix", self._fts.match(begins, where, CANDIDATES, own=True), bonus=1.0, limit=CANDIDATES)
        if "prefix" in pool.rungs:
            return
        if texts is None or not query.literal or len(query.literal) > 200 or (pool.found and not single):
            return
        needle = query.literal.casefold()
        inner = words.inner(query.literal)
        if inner:  # all but the first of its words must be there as words, so the index says which texts to read
            rows = [Place(*r) for r in self._fts.match(inner, where, READ, own=True, newest=True)]
            known = texts([row.store_id for row in rows]) if rows else {}
            found, cut = [row for row in rows if needle in known.get(row.store_id, "").casefold()], len(rows) >= READ
        else:
            seconds = SCAN_S / 4 if single and plan.known else SCAN_S  # a word that others use is hardly a part of one
            hits, cut = self._scan(lambda text, _: text.casefold().find(needle), where, texts, seconds, limit)
            found = [row for row, _ in hits]
        pool.take("substring", [row._replace(score=1.0) for row in found], bonus=1.0, limit=PAGE)
        if cut:
            pool.cut = True
            pool.notes.append("only the newest messages were scanned for the literal text")

    # -- ranking ------------------------------------------------------------------------------------
    def _rank(self, pool: Pool, query: Query, plan: Plan, where: Where, texts: Texts | None, when: When | None) -> None:
        pool.weigh(when)
        self._learn_places(pool, where)
        pool.spread()
        if texts is not None and pool.found and (len(plan.weights) > 1 or query.literals):
            near = pool.to_read()
            pool.reward(near, texts(sorted({i for ids in near.values() for i in ids})), plan.weights, query.literals)

    def _learn_places(self, pool: Pool, where: Where) -> None:
        """Messages next to the best hits, as far as this caller may read them."""
        unknown = padded(pool.unknown_places(), (None, None))
        if not unknown:
            return
        sql = (
            f"WITH place(conversation, seq) AS (VALUES {marks(len(unknown), '(?,?)')}) "
            f"SELECT 0, 0.0, {_COLUMNS} FROM place CROSS JOIN messages AS m "
            f"ON m.conversation_id = place.conversation AND m.seq = place.seq WHERE {where.near}"
        )
        for row in self._db.query(sql, (*(x for place in unknown for x in place), *where.near_params)):
            place = Place(*row)
            pool.places[place.conversation_id, place.seq] = place

    def _located(self, ranked: Sequence[Found], plan: Plan, texts: Texts | None) -> tuple[Hit, ...]:
        known = texts([f.place.store_id for f in ranked]) if texts is not None and ranked else {}
        finder = Finder(plan.weights)
        return tuple(
            Hit(
                f.place.store_id,
                round(f.score, 4),
                f.rung,
                f.chunk,
                finder.offset(known.get(f.place.store_id, ""), f.chunk),
            )
            for f in ranked
        )

    # -- scanning -----------------------------------------------------------------------------------
    def scan(
        self,
        pattern: str,
        *,
        texts: Texts,
        scope: Scope,
        filters: Filters | None = None,
        limit: int,
        timeout_s: float = 2.0,
        ignore_case: bool = True,
    ) -> Hits:
        """Messages that a regular expression matches, newest first. Stops at ``limit`` or when the time is over."""
        compiled = compile_pattern(pattern, ignore_case=ignore_case)
        where = bounds.of_messages(self._db, scope, filters or Filters(), ())
        found, cut = self._scan(compiled.find, where, texts, timeout_s, limit)
        hits = tuple(Hit(row.store_id, 1.0, "regex", 0, offset) for row, offset in found)
        notes = ("stopped before the oldest messages were read; narrow the search to see more",) if cut else ()
        return Hits(hits, ("regex",) if hits else (), len(hits), cut, notes)

    def _scan(
        self, find: Callable[[str, float], int], where: Where, texts: Texts, timeout_s: float, limit: int
    ) -> tuple[list[tuple[Place, int]], bool]:
        """Rows whose text has a match, with its offset; whether there may be more."""
        deadline = time.monotonic() + timeout_s
        found: list[tuple[Place, int]] = []
        for rows in self._newest_first(where):
            known = texts([row.store_id for row in rows])
            for row in rows:
                left = deadline - time.monotonic()
                if left <= 0 or len(found) >= limit:
                    return found, True
                try:
                    at = find(known.get(row.store_id, ""), left)
                except TimeoutError:
                    return found, True
                if at >= 0:
                    found.append((row, at))
        return found, False

    def _newest_first(self, where: Where) -> Iterator[list[Place]]:
        """Rows from the newest on. Their addresses first: SQLite would sort whole rows of a conversation for every page."""
        sql = (
            f"SELECT m.store_id FROM messages AS m WHERE m.store_id BETWEEN ? AND ? AND {where.sql} "
            "ORDER BY m.store_id DESC LIMIT ?"
        )
        first, last = chunk_ids.messages_of(where.first, where.last)
        size = PAGE // 8
        while True:
            ids = [row[0] for row in self._db.query(sql, (first, last, *where.params, SCANNED))]
            for at in (0, *range(size, len(ids), PAGE)):
                part = padded(ids[at : at + (PAGE if at else size)])
                rows = self._db.query(
                    f"SELECT 0, 1.0, {_COLUMNS} FROM messages AS m WHERE m.store_id IN ({marks(len(part))})", part
                )
                yield sorted((Place(*row) for row in rows), key=lambda place: -place.store_id)
            if len(ids) < SCANNED:
                return
            last = ids[-1] - 1


_LOOSER = "nothing matches the query as it was typed; these contain some of its words"


# ------------------------------------------------------------------------------------------------- nodes


class NodeIndex:
    """The index of summary nodes; a rowid is a node id."""

    def __init__(self, db: Database) -> None:
        self._db = db
        join = "nodes AS n ON n.node_id = f.rowid"
        self._fts = FullText(db, "node_index", NODE_SCHEMA, columns="n.node_id", join=join)

    def add(self, node_id: int, conversation_id: int, text: str) -> None:  # noqa: ARG002 - the node's row knows it
        """Index a node, inside the caller's transaction."""
        self._db.execute("INSERT INTO node_index(rowid, text) VALUES (?, ?)", (node_id, words.index_text(text)))

    def search(self, query: Query, *, scope: Scope, limit: int) -> NodeHits:
        """The same ladder; a session's nodes are those that cover messages of it."""
        where = bounds.of_nodes(scope)
        plan = self._fts.plan(query, where)
        found: dict[int, NodeHit] = {}
        rungs: list[str] = []
        cut = False
        for rung, expression, bonus in (
            ("phrase", query.phrase, PHRASE_BONUS + ALL_BONUS),
            ("all", query.all, ALL_BONUS),
            ("any", plan.any if query.loosens else "", 0.0),
        ):
            if not expression or (rung == "any" and query.strict and found):
                continue
            rows = self._fts.match(expression, where, CANDIDATES, first=plan.first)
            for _, score, node_id in rows:
                found.setdefault(node_id, NodeHit(node_id, score / (rows[0][1] or 1.0) + bonus, rung))
            rungs += [rung] if rows else []
            cut = cut or len(rows) >= CANDIDATES
        ranked = sorted(found.values(), key=lambda h: (-h.score, -h.node_id))[:limit]
        return NodeHits(tuple(ranked), tuple(rungs), len(found), cut or plan.first > where.first, query.notes)

    def rebuild(self, nodes: Iterable[tuple[int, str]]) -> None:
        """Drop the index and make it again from ids and texts, as one transaction."""
        with self._db.transaction():
            self._fts.rebuild()
            for node_id, text in nodes:
                self.add(node_id, 0, text)

    def check(self, *, deep: bool = False) -> list[str]:
        """What is wrong, for people."""
        missing = self._db.query(
            "SELECT count(*) FROM nodes AS n WHERE NOT EXISTS (SELECT 1 FROM node_index_docsize AS d WHERE d.id = n.node_id)"
        )[0][0]
        problems = [f"nodes missing from the search index: {missing}"] if missing else []
        return [*problems, *(self._fts.damage() if deep else [])]
