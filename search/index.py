"""
Full-text search over messages and summary nodes.

Owns the virtual tables ``message_index`` and ``node_index`` (and their vocabularies). Reads ``messages``, ``conversations``
and ``nodes`` only to push filters into SQL. Holds no text: what must be read is handed in by a callback.

The indexes are caches. They are contentless, so a row costs its postings only, and its number tells which chunk of which
message it is (``search/documents.py``). ``Zones`` is a cache of one process: smallest and largest time, and the sources, of
each stretch of addresses. A filter then reads those stretches that can hold what it lets through, instead of every message.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ..errors import BadRequest, StoreError
from ..records import Scope
from ..storage.connection import Database, marks, padded
from ..storage.files import Progress, silent
from ..storage.meta import INDEXED_STILL, Meta
from . import documents, forms
from . import query as words
from .dates import When
from .documents import FOUND_SQL, IndexRow, postings
from .fts import FullText, Plan, Where
from .pattern import Pattern, compile_pattern
from .query import Atom, Query
from .ranking import ASKED_CHARS, ORDERS, Asked, Cosines, Finder, Found, Place, Pool
from .scope import Filters, Scopes, during, of_messages, of_nodes
from .vectors import Nearest
from .weights import SEMANTIC

_BITS = 10  # of an address: stretches of 1,024
_ROWS = f"""
SELECT store_id >> {_BITS}, min(coalesce(said_at, stored_at)), max(coalesce(said_at, stored_at)),
       json_group_array(DISTINCT source)
  FROM messages WHERE store_id >= ? GROUP BY 1 ORDER BY 1"""
_NEWEST = "SELECT max(store_id) FROM messages"
_MOST_SPANS = 16

Zone = tuple[float, float, frozenset[str | None]]


class Zones:
    """The zone map of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._zones: dict[int, Zone] = {}
        self._newest = 0

    def narrowed(self, where: Where, filters: Filters) -> Where:
        """A filter narrowed to rows where a time or a source of the filters occurs."""
        if filters.since is None and filters.until is None and not filters.sources:
            return where
        first, last = documents.messages_of(where.first, where.last)
        numbers = (
            number
            for number, zone in self._current().items()
            if number >= first >> _BITS and number <= last >> _BITS and _passes(zone, filters)
        )
        found = [
            documents.rows_of(max(first, low << _BITS), min(last, ((high + 1) << _BITS) - 1))
            for low, high in documents.runs(numbers)
        ]
        if not found:
            return where._replace(last=where.first - 1, spans=((where.first, where.first - 1),))
        return where._replace(first=found[0][0], last=found[-1][1], spans=tuple(few(found)))

    def _current(self) -> dict[int, Zone]:
        with self._lock:
            newest = self._db.query(_NEWEST)[0][0] or 0
            if newest < self._newest:  # another file took the place
                self._zones, self._newest = {}, 0
            if newest > self._newest:
                for number, low, high, sources in self._db.query(_ROWS, (self._newest >> _BITS << _BITS,)):
                    self._zones[number] = (low, high, frozenset(json.loads(sources)))
                self._newest = newest
            return dict(self._zones)


def _passes(zone: Zone, filters: Filters) -> bool:
    low, high, sources = zone
    if filters.sources and sources.isdisjoint(filters.sources):
        return False
    return (filters.since is None or high >= filters.since) and (filters.until is None or low < filters.until)


def few(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Places as few spans, in order: neighbours become one, and so do those with the smallest gaps.

    Each is a search of its own, and FTS5 looks for the first match of a phrase from the end of the whole index on.
    """
    spans = [*dict.fromkeys(spans)]
    gap = [0, *(spans[n][0] - spans[n - 1][1] for n in range(1, len(spans)))]
    apart = (n for n in range(1, len(spans)) if gap[n] > documents.GROUP)
    gaps = sorted(apart, key=gap.__getitem__, reverse=True)[: _MOST_SPANS - 1]
    begins = [0, *sorted(gaps)]
    ends = [*(n - 1 for n in begins[1:]), len(spans) - 1]
    return [(spans[begin][0], spans[end][1]) for begin, end in zip(begins, ends, strict=True)]


_TOKENIZE = "tokenize='porter unicode61 remove_diacritics 2'"
SCHEMA = (
    f"CREATE VIRTUAL TABLE IF NOT EXISTS message_index USING fts5(text, context, content='', {_TOKENIZE})",
    "CREATE VIRTUAL TABLE IF NOT EXISTS message_terms USING fts5vocab('message_index', 'row')",
    # The end of the message before helps to find it, but a word of its own is worth more.
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
"""Store ids to the texts that were indexed: ``documents.searchable``."""

ALL_BONUS = 0.2  # shares of the best score
PHRASE_BONUS = 0.5
RANKED_WORDS = 24  # the rarest of a question, which are looked for in texts
CANDIDATES = 200  # chunks read per search
DATED = 100  # and so many more of the times that the query names
SCAN_S = 0.06
_SLOWER = 10  # by the clock a scan takes at most so many times its own time
PAGE = 400
FEW = 5000  # messages of a scope that is searched whole
COSTLY = 50_000  # postings that take bm25 longer to count than a small scope takes to be read
SCANNED_BY_WORD = 200_000  # rows of a word that a pattern needs: with more, the messages are read one by one as well
LEAST_SCAN_S = 0.02
_TOLD_SPANS = 2  # times of which nothing was found; of a month there is one each year
_LEAST_BEGINNING = 5  # letters of a word that longer ones begin with
SCANNED = 5000  # addresses read ahead of a scan
_OF = documents.STORE_ID_SQL.format("d.id")
_GONE = (
    f"SELECT count(DISTINCT {_OF}) FROM message_index_docsize AS d WHERE {_OF} NOT IN (SELECT store_id FROM messages)"
)
#: SQL: nothing of a message ``m`` is in an index, of ``{}`` its name.
_MISSING = f"NOT EXISTS (SELECT 1 FROM {{}}_docsize AS d WHERE d.id = {documents.FIRST_SQL.format('m.store_id')})"


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
    why: tuple[tuple[str, float], ...] = ()  # signals that raised it above the mean of the candidates, strongest first


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
    reached: int = 0  # the oldest message that was looked at, where not all were
    covered: float = 1.0  # share of the query's words, weighed by rarity, that the best hits and their neighbours say
    missing: tuple[str, ...] = ()  # the others, rarest first
    by_meaning: bool = False  # an encoder took part in the ranking


def in_turns(found: Sequence[Hits], limit: int) -> Hits:
    """The hits of several questions in turns, each message once."""
    hits: dict[int, Hit] = {}
    for turn in itertools.zip_longest(*(each.hits for each in found)):
        for hit in filter(None, turn):
            hits.setdefault(hit.store_id, hit)

    def every(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(word for each in found for word in getattr(each, name)))

    return Hits(
        tuple(hits.values())[:limit],
        every("rungs"),
        max(len(hits), *(each.total for each in found)),
        True,
        every("notes"),
        () if hits else every("nearest"),
        max(each.reached for each in found),
        min(each.covered for each in found),
        every("missing"),
        all(each.by_meaning for each in found),
    )


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
    """Are the indexes there? Asks without a lock, so a reader waits for no writer."""
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


class Meaning(Protocol):
    """Comparison of messages with questions by their meaning."""

    @property
    def cosines(self) -> Cosines:
        """Cosines of messages to a question."""

    def nearest(self, question: str, where: Where) -> Nearest:
        """The nearest messages among the rows that count."""


class _Terms(NamedTuple):
    """Terms of a search that hold for each of its questions."""

    scope: Scope
    filters: Filters
    limit: int
    sort: str
    texts: Texts | None
    when: When | None
    meaning: Meaning | None


class _Gathered(NamedTuple):
    """Candidates of one question, with the plan that found them."""

    pool: Pool
    query: Query
    plan: Plan
    where: Where


_COLUMNS = "m.store_id, m.conversation_id, m.seq, m.role, m.chars, coalesce(m.said_at, m.stored_at)"


class MessageIndex:
    """The index of all messages of one database."""

    def __init__(self, db: Database, *, behind: Callable[[], int] = lambda: 0, meaning: Meaning | None = None) -> None:
        """``behind``: indexes what waits and says how many messages wait still. ``meaning``: of an encoder, if there is one."""
        self._db = db
        self._meta = Meta(db)
        self.documents = documents.Documents(db)
        self._zones = Zones(db)
        self._behind, self._meaning = behind, meaning
        of = documents.STORE_ID_SQL.format("f.rowid")
        self._fts = FullText(
            db,
            MESSAGES,
            SCHEMA,
            columns=_COLUMNS,
            table="messages AS m",
            of=of,
            own="{text} : ",
            context="{context} : ",
            group=documents.GROUP,
        )

    def begun(self) -> tuple[int, list[int]]:
        """Progress of a rebuild that was killed: (the last message, those before it that could not be read); 0 where none was."""
        last = self._fts.begun()
        if not last:
            return 0, []
        last = self._db.query(f"SELECT {documents.STORE_ID_SQL.format('?1')}", (last,))[0][0]
        missing = _MISSING.format(f"{MESSAGES}_new")
        sql = f"SELECT m.store_id FROM messages AS m WHERE {FOUND_SQL} AND m.store_id <= ? AND {missing}"
        return last, [row[0] for row in self._db.query(sql, (last,))]

    def rebuild(self, batches: Iterable[Sequence[IndexRow]], *, go_on: bool = False) -> int:
        """Make the index again from all messages, beside the old one. How many wait, as they cannot be read.

        ``go_on``: from those behind what was ``begun``.
        """
        removed = self._meta.value(INDEXED_STILL)
        self._fts.rebuild("rowid, text, context", map(postings, batches), go_on=go_on)
        with self._db.transaction():
            if removed is not None and removed == self._meta.value(INDEXED_STILL):
                self._meta.forget(INDEXED_STILL)
            return len(self.documents.now_waiting())

    def check(self, *, deep: bool = False, progress: Progress = silent) -> list[str]:
        """Faults of the index in words; empty when all is well. ``deep`` reads the whole index."""
        waiting = ",".join(str(int(store_id)) for store_id in self.documents.waiting())
        order = "" if deep else " ORDER BY m.store_id DESC LIMIT 200"
        missing = self._db.query(
            "SELECT count(*) FROM (SELECT m.store_id FROM messages AS m "
            f"WHERE {FOUND_SQL} AND m.store_id NOT IN ({waiting}){order}) AS m WHERE {_MISSING.format(MESSAGES)}"
        )[0][0]
        problems = [f"messages missing from the search index: {missing}"] if missing else []
        return [*problems, *self._fts.damage(deep=deep, progress=progress)]

    def removed(self, *, deep: bool = False) -> int:
        """Number of messages that are gone and left their words in the index, as it was noted; ``deep`` also counts."""
        return max(int(self._meta.value(INDEXED_STILL) or 0), int(self._db.query(_GONE)[0][0]) if deep else 0)

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
        meaning: bool = True,
        apart: Sequence[Query] = (),
    ) -> Hits:
        """All rungs of the ladder in one call, one list. ``sort``: relevance, recency, hybrid or time.

        ``when``: times that the query names; messages of these times count more. ``meaning``: whether the encoder is asked.
        ``apart``: questions of the query that are answered each by its own; their hits come in turns.

        ``texts`` lets the ranking see how much of the query a message and its neighbours cover, gives exact offsets, and
        makes the substring scan possible when no word matches.
        """
        if sort not in ORDERS:
            raise BadRequest(f"sort={sort!r} is not one of {', '.join(ORDERS)}")
        terms = _Terms(scope, filters or Filters(), limit, sort, texts, when, self._meaning if meaning else None)
        gathered = [self._gathered(each, terms) for each in apart or [query]]
        hits = []
        for each in gathered:
            each.pool.others = [other.pool for other in gathered if other is not each]
            hits.append(self._ranked(each, terms))
        return in_turns(hits, limit) if apart else hits[0]

    def _gathered(self, query: Query, terms: _Terms) -> _Gathered:
        """Candidates of one question from all rungs, weighed."""
        where = self._where(terms.scope, terms.filters, query.excluded)
        pool = Pool(notes=list(query.notes))
        try:
            if late := self._late(terms.scope):
                pool.notes.append(
                    f"not indexed yet, so not searched: {late} large message(s); later searches find them"
                )
        except StoreError as exc:
            pool.notes.append(f"the largest of the newest messages are not indexed yet ({exc})")
        query = self._fts.inflected(query, where)
        plan, where = self._affordable(query, where)
        self._climb(pool, query, plan, where, newest=terms.sort == "recency")
        if not pool.found or (query.strict and pool.rungs == ["any"]):
            self._fall_back(pool, query, plan, where, terms.texts, terms.limit)
        if not pool.found and not query.strict:
            self._go_on(pool, query, where)
        if not pool.found and query.required:
            query = words.loosened(query)
            plan, where = self._affordable(query, where)
            self._climb(pool, query, plan, where, newest=terms.sort == "recency")
        if terms.when and pool.found:
            self._recall(pool, plan, where, terms.when)
        pool.weigh(terms.when)
        return _Gathered(pool, query, plan, where)

    def _ranked(self, found: _Gathered, terms: _Terms) -> Hits:
        """The hits of one question in order."""
        pool, query, plan, where = found
        self._rank(found, terms)
        ordered = ORDERS[terms.sort](pool)
        total = len(ordered) if terms.sort == "recency" else pool.matching  # which leaves weak matches out
        hits = self._located(ordered[: terms.limit], plan, terms.texts, pool)
        nearest = () if pool.found else self._fts.nearest(query, where)
        notes = tuple(dict.fromkeys(pool.notes))
        seen = (pool.reached, pool.covered, pool.missing, pool.by_meaning)
        return Hits(hits, tuple(pool.rungs), total, pool.cut, notes, nearest, *seen)

    def _where(self, scope: Scope, filters: Filters, excluded: Sequence[Atom] = ()) -> Where:
        """The rows of a scope and filters, and where among all addresses they are."""
        return self._zones.narrowed(of_messages(self._db, scope, filters, excluded), filters)

    def _affordable(self, query: Query, where: Where) -> tuple[Plan, Where]:
        """The part of a query that can be searched. Few messages are read whole, however common their words are elsewhere."""
        short = where.apart and where.size <= FEW
        plan = self._fts.sparse(query, where) if short else self._fts.plan(query, where)
        if plan is not None and plan.first == where.first and not plan.notes and plan.postings < COSTLY:
            return plan, where
        small = self._few(where)
        return (self._fts.plan(query, small), small) if small else (plan or self._fts.plan(query, where), where)

    def _few(self, where: Where) -> Where | None:
        """Rows as places of few messages; None when there are more."""
        sql = (
            f"SELECT m.store_id, m.chars FROM messages AS m WHERE m.store_id BETWEEN ? AND ? AND {where.sql} "
            "ORDER BY m.store_id LIMIT ?"
        )
        first, last = documents.messages_of(where.first, where.last)
        if not (where.spans or where.near_params or "conversation_id" in where.sql):
            return None
        rows = self._db.query(sql, (first, last, *where.params, FEW + 1))
        if len(rows) > FEW:
            return None
        chars = dict(rows)
        groups = dict.fromkeys(store_id & -documents.MESSAGES for store_id in chars)
        spans = few([documents.rows_of(first, first) for first in groups]) if chars else [(1, 0)]
        return where._replace(apart=True, few=chars, size=len(chars), spans=tuple(spans))

    def _late(self, scope: Scope) -> int:
        """Number of messages of a scope that are not indexed yet."""
        late = self._behind()
        return len(Scopes(self._db).messages(self.documents.waiting(), scope)) if late and scope.apart else late

    def _climb(self, pool: Pool, query: Query, plan: Plan, where: Where, *, newest: bool) -> None:
        """Climb from loose to strict (any, all, phrase), so that each row ends with the strictest rung that it matches.

        The strict ones have a budget of their own: where the loose one cannot afford all rows, they take the newest of all.
        """
        costly = plan.first > where.first or (bool(plan.notes) and not where.apart)
        strict: list[tuple[str, float, list[tuple[Any, ...]]]] = []
        for rung, expression, bonus in (("all", query.expression, ALL_BONUS), ("phrase", query.phrase, PHRASE_BONUS)):
            if expression and (rung == "all" or len(query.atoms) > 1):
                given = None if costly else plan
                rows = self._fts.match(expression, where, CANDIDATES, own=True, newest=newest or costly, plan=given)
                strict.append((rung, bonus, rows))
        satisfied = any(rows for *_, rows in strict)
        best = 0.0
        if plan.loose and query.loosens and not (satisfied and (query.strict or newest)):
            best = pool.add_rows("any", self._loose(plan, where), limit=CANDIDATES)
            pool.notes.extend(plan.notes)
            if pool.found and query.strict:
                pool.notes.append(_LOOSER)
        elif plan.first > where.first:
            pool.notes.extend(plan.notes)
        if plan.first > where.first:
            pool.cut, pool.reached = True, documents.messages_of(plan.first, plan.first)[0]
        for rung, bonus, rows in strict:
            if costly:  # without a score, yet all that was asked for is there
                rows = [(row[0], best or 1.0, *row[2:]) for row in rows]
            pool.add_rows(rung, rows, best=best, bonus=bonus, limit=CANDIDATES)
        if query.phrase_lost and pool.found:
            pool.notes.append(_LOOSER)

    def _loose(self, plan: Plan, where: Where) -> list[tuple[Any, ...]]:
        """Rows with any of the words; of one that is too common to search all of, which says nothing, the newest."""
        if plan.first == where.first or where.apart:
            return self._fts.match(plan.loose, where, CANDIDATES, plan=plan)
        rows = self._fts.match(plan.loose, where, CANDIDATES, newest=True, plan=plan)
        return [(row[0], 1.0, *row[2:]) for row in rows]

    def _recall(self, pool: Pool, plan: Plan, where: Where, when: When) -> None:
        """Candidates of the times that the query names, where there are more matches than candidates."""
        if pool.cut and plan.loose:
            rows = self._fts.match(plan.loose, during(where, when), DATED, plan=plan)
            pool.add_rows("any", rows, best=pool.top, limit=CANDIDATES)
        if days := when.days(found.place.at for found in pool.found.values()):
            pool.notes.append(
                f"messages of the time that the query names ({days}) come first; time_from and time_to insist on it"
            )
        else:
            days = when.days((first + last) / 2 for first, last in when.spans) if len(when.spans) <= _TOLD_SPANS else ""
            pool.notes.append(
                f"no match is of the time that the query names{f' ({days})' if days else ''}; these are of others"
            )

    def _fall_back(self, pool: Pool, query: Query, plan: Plan, where: Where, texts: Texts | None, limit: int) -> None:
        """Beginnings of words, then the literal anywhere in the texts."""
        single = not any(c.isspace() for c in query.literal)
        begins = words.beginning(query.literal) if single else ""
        if begins:
            pool.add_rows("prefix", self._fts.match(begins, where, CANDIDATES, own=True), bonus=1.0, limit=CANDIDATES)
        if "prefix" in pool.rungs:
            return
        if texts is None or not query.literal or len(query.literal) > 200 or (pool.found and not single):
            return
        needle = query.literal.casefold()
        number = words.separated(query.literal)
        inner = words.inner(query.literal) if number is None else ""
        if inner:  # all but the first of its words must be there as words, so the index says which texts to read
            pages: Iterable[list[Place]] = self._holding(inner, where)
            seconds = SCAN_S
        else:
            pages = self._newest_first(where)
            used = single and query.atoms and plan.known  # a word that others use is hardly a part of one
            seconds = SCAN_S / 4 if used else SCAN_S

        def find(text: str, _: float) -> int:
            at = text.casefold().find(needle)
            apart = number.search(text) if number is not None and at < 0 else None
            return apart.start() if apart else at

        hits, reached = self._scan(find, pages, texts, seconds, limit)
        pool.add_rows("substring", [row._replace(score=1.0) for row, _ in hits], bonus=1.0, limit=PAGE)
        for row, at in hits:
            pool.found[row.store_id].at = at
        if reached:
            pool.cut, pool.reached = True, max(pool.reached, reached)
            pool.notes.append("only the newest messages were scanned for the literal text")

    def _go_on(self, pool: Pool, query: Query, where: Where) -> None:
        """Texts in which a longer word begins with one of the query: "Datenbank Server" is in "Datenbankserver"."""
        said = [atom.written.strip('"') for atom in query.atoms if not atom.stop and len(atom.stems) == 1]
        begun = dict.fromkeys(words.beginning(forms.plain(word)) for word in said if len(word) >= _LEAST_BEGINNING)
        if begins := " OR ".join(filter(None, begun)):
            pool.add_rows("prefix", self._fts.match(begins, where, CANDIDATES, own=True), bonus=1.0, limit=CANDIDATES)

    # -- ranking ------------------------------------------------------------------------------------
    def _rank(self, found: _Gathered, terms: _Terms) -> None:
        pool, query, plan, where = found
        if terms.meaning is not None and terms.sort == "relevance" and not (query.strict or query.required):
            self._add_near(pool, query, where, terms.meaning)
        self._learn_places(pool, where)
        pool.spread()
        if terms.texts is not None and pool.found and (len(plan.weights) > 1 or query.literals):
            asked = Asked(query.raw, dict(sorted(plan.weights.items(), key=lambda pair: -pair[1])[:RANKED_WORDS]))
            literals = [literal.casefold() for literal in query.literals]
            cosines = terms.meaning.cosines if terms.meaning is not None else None
            pool.rerank(asked, terms.texts, literals, terms.when, cosines)
            pool.cover(asked, terms.texts)

    def _add_near(self, pool: Pool, query: Query, where: Where, meaning: Meaning) -> None:
        """The nearest messages by meaning join the candidates, in scope like these; in kinds of conversation where that helps,
        and where words find nothing.
        """
        if pool.found and pool.kind not in SEMANTIC:
            return
        near = meaning.nearest(query.raw[:ASKED_CHARS], where)
        if not near.cosines:
            return
        ids = padded([*near.cosines])
        sql = f"SELECT 0, 0.0, {_COLUMNS} FROM messages AS m WHERE m.store_id IN ({marks(len(ids))}) AND {where.sql}"
        nothing = not pool.found
        pool.add_near(near.cosines, self._db.query(sql, (*ids, *where.params)))
        if nothing and pool.found:
            pool.notes.append("no word of the query is found: these are the nearest by their meaning")
        if near.reached:
            pool.notes.append(f"by meaning only the messages from msg_{near.reached} on were compared")

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

    def _located(self, ranked: Sequence[Found], plan: Plan, texts: Texts | None, pool: Pool) -> tuple[Hit, ...]:
        known = texts([f.place.store_id for f in ranked]) if texts is not None and ranked else {}
        finder = Finder(plan.weights)
        return tuple(
            Hit(
                f.place.store_id,
                round(f.score, 4),
                f.rung,
                f.chunk,
                f.at if f.at is not None else finder.offset(known.get(f.place.store_id, ""), f.chunk),
                pool.reasons(f),
            )
            for f in ranked
        )

    # -- scanning -----------------------------------------------------------------------------------
    def holding(self, literal: str, *, scope: Scope, limit: int) -> list[int]:
        """Newest messages of a scope that hold these words in a row, newest first."""
        expression = words.likely(literal)
        rows = (
            self._fts.match(expression, self._where(scope, Filters()), limit, own=True, newest=True)
            if expression
            else []
        )
        return list(dict.fromkeys(row[2] for row in rows))

    def scan(
        self,
        pattern: str,
        *,
        texts: Texts,
        scope: Scope,
        filters: Filters | None = None,
        limit: int,
        timeout_s: float = 2.0,
    ) -> Hits:
        """Messages that a regular expression matches, newest first. Stops at ``limit`` or when the time is over."""
        compiled = compile_pattern(pattern)
        find = _finding(compiled)
        where = self._where(scope, filters or Filters())
        narrow = words.whole(compiled.literal)
        expression, rows = self._fts.rarest(narrow) if narrow else ("", SCANNED_BY_WORD)
        end = time.monotonic() + timeout_s
        sequence = words.sequence(compiled.spaced) if rows >= SCANNED_BY_WORD else ""
        where = (self._few(where) if sequence or narrow else None) or where
        # Several words in a row: FTS5 may need most of the time to find them, and all that is found then is worth reading.
        known = self._scan(find, self._holding(sequence, where), texts, timeout_s, limit)[0] if sequence else []
        if rows < SCANNED_BY_WORD:
            first, pages = "", self._holding(expression, where)
        else:
            first, pages = "" if sequence else words.likely(compiled.literal), self._newest_first(where)
        left = max(0.0, end - time.monotonic())
        found, reached = self._scan(find, pages, texts, left * 2 / 3 if first else left, limit)
        if first and reached:  # older ones that the index knows, before all are read
            older = where._replace(last=documents.rows_of(reached, reached)[1])
            known, _ = self._scan(find, self._holding(first, older), texts, left / 3, limit)
        if known:
            each = {row.store_id: (row, at) for row, at in (*known, *found)}
            found = [each[store_id] for store_id in sorted(each, reverse=True)][:limit]
        hits = tuple(Hit(row.store_id, 1.0, "regex", 0, offset) for row, offset in found)
        return Hits(hits, ("regex",) if hits else (), len(hits), bool(reached), reached=reached)

    def _scan(
        self,
        find: Callable[[str, float], int],
        pages: Iterable[list[Place]],
        texts: Texts,
        timeout_s: float,
        limit: int,
    ) -> tuple[list[tuple[Place, int]], int]:
        """Rows whose text has a match, with its offset; the oldest message that was looked at, 0 when none is left.

        What the first page brings is looked at in any case: finding it may have taken all of the time. The thread's own
        time counts, so that it comes as far on a busy machine; but of the clock's no more than ``_SLOWER`` times as much, for
        it counts no waiting for a disk.
        """
        deadline, latest = time.thread_time() + timeout_s, time.monotonic() + timeout_s * _SLOWER
        found: list[tuple[Place, int]] = []
        reached = 0
        for number, rows in enumerate(pages):
            known = texts([row.store_id for row in rows])
            for row in rows:
                left = min(deadline - time.thread_time(), latest - time.monotonic())
                over = left <= 0 and (number > 0 or row.store_id not in known)
                if (over and reached) or len(found) >= limit:
                    return found, reached
                try:
                    at = find(known.get(row.store_id, ""), max(left, LEAST_SCAN_S))
                except TimeoutError:
                    return found, reached or row.store_id
                reached = row.store_id
                if at >= 0:
                    found.append((row, at))
        return found, 0

    def _holding(self, expression: str, where: Where) -> Iterator[list[Place]]:
        """Messages with such a word, from the newest on."""
        size, page = PAGE // 8, where
        while True:
            rows = self._fts.match(expression, page, size, own=True, newest=True)
            places = {row[2]: Place(*row) for row in rows}
            if places:
                yield [places[store_id] for store_id in sorted(places, reverse=True)]
            if len(rows) < size:
                return
            done = min(places)  # its group holds older ones behind it, and newer ones of more rows than a page has
            last = documents.rows_of(done - 1, done - 1)[1]
            page = where._replace(last=last, sql=f"{where.sql} AND m.store_id < ?", params=(*where.params, done))
            size = PAGE

    def _newest_first(self, where: Where) -> Iterator[list[Place]]:
        """Rows from the newest on. Their addresses first: SQLite would sort whole rows of a conversation for every page."""
        sql = (
            f"SELECT m.store_id FROM messages AS m WHERE m.store_id BETWEEN ? AND ? AND {where.sql} "
            "ORDER BY m.store_id DESC LIMIT ?"
        )
        size = PAGE // 8
        for low, high in reversed(where.spans or ((where.first, where.last),)):
            first, last = documents.messages_of(low, min(high, where.last))
            yield from self._page_by_page(sql, where, first, last, size)

    def _page_by_page(self, sql: str, where: Where, first: int, last: int, size: int) -> Iterator[list[Place]]:
        while first <= last:
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


_MOST_READ = 500_000  # characters of JSON that a pattern sees as it reads, too: it takes some 50 ms
#: Signs of a pattern that JSON has as escapes, or that its escapes stand in the way of.
_OF_READ = re.compile(r"[\"^$/\s]|\\[\\bBnrtsSWAZ]|[^\x00-\x7f]")


def _finding(pattern: Pattern) -> Callable[[str, float], int]:
    """Search for a pattern in a text as it is stored, and where that is JSON with escapes, as it reads."""
    if not _OF_READ.search(pattern.source):
        return pattern.find
    core = max(re.findall(r"[^\W_]+", pattern.literal), key=len, default="")
    of_lines = [documents.strings_as_read] if "^" in pattern.source or "$" in pattern.source else []
    readings = [documents.lines_as_read, *of_lines]

    def find(text: str, timeout_s: float) -> int:
        at = pattern.find(text, timeout_s)
        if at >= 0 or len(text) > _MOST_READ or documents.json_begins(text) == len(text) or core not in text.casefold():
            return at
        for reading in readings:
            read = reading(text)
            if (at := pattern.find(read, timeout_s)) >= 0:
                return documents.place_of(text, read, at)
        return -1

    return find


_LOOSER = "nothing matches the query as it was typed; these contain some of its words"


# ------------------------------------------------------------------------------------------------- nodes


class NodeIndex:
    """The index of summary nodes; a rowid is a node id."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._fts = FullText(db, NODES, NODE_SCHEMA, columns="n.node_id", table="nodes AS n", of="f.rowid")

    def add(self, node_id: int, conversation_id: int, text: str) -> None:  # noqa: ARG002 - the node's row knows it
        """Index a node, inside the caller's transaction."""
        self._db.execute("INSERT INTO node_index(rowid, text) VALUES (?, ?)", (node_id, documents.index_text(text)))

    def search(self, query: Query, *, scope: Scope, limit: int) -> NodeHits:
        """All rungs of the ladder over nodes; a session's nodes are those that cover messages of it."""
        where = of_nodes(self._db, scope)
        plan = self._fts.plan(query, where)
        found: dict[int, NodeHit] = {}
        rungs: list[str] = []
        cut = False
        for rung, expression, bonus in (
            ("phrase", query.phrase, PHRASE_BONUS + ALL_BONUS),
            ("all", query.expression, ALL_BONUS),
            ("any", plan.loose if query.loosens else "", 0.0),
        ):
            if not expression or (rung == "any" and query.strict and found):
                continue
            rows = self._fts.match(expression, where, CANDIDATES, plan=plan)
            for _, score, node_id in rows:
                found.setdefault(node_id, NodeHit(node_id, score / (rows[0][1] or 1.0) + bonus, rung))
            rungs += [rung] if rows else []
            cut = cut or len(rows) >= CANDIDATES
        ranked = sorted(found.values(), key=lambda h: (-h.score, -h.node_id))[:limit]
        return NodeHits(tuple(ranked), tuple(rungs), len(found), cut or plan.first > where.first, query.notes)

    def rebuild(self, batches: Iterable[Sequence[tuple[int, str]]]) -> None:
        """Make the index again from ids and texts, beside the old one. An empty batch: there are no more for now."""
        self._fts.rebuild(
            "rowid, text", ([(number, documents.index_text(text)) for number, text in each] for each in batches)
        )

    def check(self, *, deep: bool = False, progress: Progress = silent) -> list[str]:
        """Faults of the index in words."""
        missing = self._db.query(
            "SELECT count(*) FROM nodes AS n WHERE NOT EXISTS (SELECT 1 FROM node_index_docsize AS d WHERE d.id = n.node_id)"
        )[0][0]
        problems = [f"summaries missing from the search index: {missing}"] if missing else []
        return [*problems, *self._fts.damage(deep=deep, progress=progress)]
