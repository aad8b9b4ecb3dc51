"""
One FTS5 table as search/index.py uses it: matching within bounds, how common words are, what is affordable, what is damaged.

Owns the mechanics, not the tables: which columns, which joins and which ladder of searches are search/index.py's.
"""

from __future__ import annotations

import difflib
import itertools
import json
import math
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ..errors import StoreBusy, StoreError
from ..storage.connection import Database, marks, padded
from ..storage.files import Progress, silent
from ..storage.meta import REINDEXING, Meta
from . import forms
from .documents import APART
from .query import Atom, Query, needed

#: What one search may score; common words beyond that are left out, or old rows are.
MAX_POSTINGS = 4_000
_CROWD = 2_000  # matching rows that take as long to be read one by one as all of few messages
_ID = 2  # the id of what a row of the index belongs to, the first of the columns asked for
_CHARS = 6  # where there are more: how long it is
_PIECE_CHARS, _USUAL_CHARS = 600, 300
#: Weight of a match by the length of its piece of a message, as bm25 has it for one occurrence.
_BREVITY = [2.2 / (1.3 + 0.9 * chars / _USUAL_CHARS) for chars in range(_PIECE_CHARS + 1)]
_CONTEXT_SHARE = 0.3  # of a word that stands in front of a message, as the table's rank has it
_PARTS = ("data", "idx", "docsize", "config")  # the tables in which FTS5 keeps a contentless one
# Its own check reads the pages in their order, and not what leads to one of them.
_FOUND = "SELECT EXISTS (SELECT 1 FROM words AS found WHERE found.term = w.term) FROM words AS w"
_CHECKING, _COUNTING = 15, 175  # steps of SQLite for a page: of FTS5's own check, and to count its words
_TOLD_WORDS = 1000  # between two words of progress
_HEADS = 10  # the last of the records without which FTS5 cannot open a table, not even to drop it
_DROPPED_ROWS = 250  # of a table that goes
_FOLDED_PAGES = 64  # of a table that is made, behind each part
_INFLECTED = 16  # words of a query
_HEAD_CHARS = 4  # of a form, which tell whether the index may hold it
_LAST_CHAR = "\U0010ffff"
_LEAST_UNKNOWN = 6  # letters of a word that stands nowhere, in a question whose language nothing tells
_COMMON = 20_000  # rows of a word that are worth remembering, until the index is so much smaller or larger
_LASTS = 0.95
_LEAST_WEIGHT = 0.01  # of a word that half of the rows contain: better than none


class Where(NamedTuple):
    """Rows that count. ``near`` is the part of it that may differ between rows of one conversation."""

    sql: str
    params: tuple[Any, ...]
    first: int  # rowids
    last: int
    near: str = "1"
    near_params: tuple[Any, ...] = ()
    apart: bool = False  # statistics of these rows alone: what others say may show in nothing
    size: int = 0  # about how many messages these are, where they are apart
    spans: tuple[tuple[int, int], ...] = ()  # the only rowids between first and last that matter; (): all
    few: Mapping[int, int] | None = None  # characters by message, where they are so few that all rows of them are read


class Plan(NamedTuple):
    """The affordable part of a query: the loose expression, its atoms, and where the rowids begin."""

    loose: str
    atoms: tuple[Atom, ...]
    first: int
    weights: dict[Atom, float]
    known: bool  # every word asked for is in the index, wherever
    notes: tuple[str, ...]
    scores: dict[int, float] | None = None  # by rowid, where rows are ranked apart
    postings: int = 0  # of its words in the whole archive, which bm25 counts whatever the bounds are
    rows: Mapping[str, list[Matched]] = MappingProxyType({})  # by expression, where rows are ranked apart


Matched = tuple[int, int, int]
"""A matching row of the index: its number, the id of what it belongs to, and how many characters that has."""


class FullText:
    """FTS5 table with its vocabulary, joined to the table whose rows it indexes."""

    def __init__(
        self, db: Database, name: str, schema: Sequence[str], *, columns: str, table: str, of: str,
        own: str = "", context: str = "", group: int = 1,
    ) -> None:  # fmt: skip
        """``columns`` of ``table`` are asked for, the first of them its key, which ``of`` makes of a rowid."""
        self._db = db
        self._meta, self._making = Meta(db), f"{REINDEXING}{name}"
        self._name = name
        self._schema = schema
        self._own, self._context = own, context  # column filters: the row's own text, and the end of the message before
        key = columns.partition(",")[0]
        join = f"{table} ON {key} = {of}"
        self._rows_of = f"SELECT {columns} FROM {table} WHERE {key}"
        self._numbers = f"SELECT f.rowid, {of} FROM {name} AS f WHERE {name} MATCH ? AND f.rowid BETWEEN ? AND ?"
        self._group = group  # so many rowids are in no order among themselves
        self._terms = name.replace("_index", "_terms")
        self._common: dict[str, tuple[int, int]] = {}  # stem: its rows, of how many
        self._end = 0  # the newest row, when a search began
        self._select = (
            f"SELECT f.rowid, coalesce(-f.rank, 0.0), {columns} FROM {name} AS f CROSS JOIN {join} WHERE {name} MATCH ?"
        )
        self._newest = f"SELECT f.rowid, 0.0, {columns} FROM {name} AS f CROSS JOIN {join} WHERE {name} MATCH ?"

    def match(
        self,
        expression: str,
        where: Where,
        limit: int,
        *,
        own: bool = False,
        newest: bool = False,
        plan: Plan | None = None,
    ) -> list[tuple[Any, ...]]:
        """Matching rows, best (or newest) first: rowid, score, and the columns that were asked for."""
        if where.few is not None or (where.apart and not newest):
            column = self._own if own else ""
            known = plan.rows.get(_in_column(column, expression)) if plan else None
            found = self._read(expression, where, column) if known is None else known
            return self._best(found, {} if newest else (plan.scores if plan else None) or {}, where, limit, newest)
        expression = _in_column(self._own, expression) if own else expression
        sql = f"{self._select} AND f.rowid BETWEEN ? AND ? AND {where.sql} ORDER BY f.rank LIMIT ?"

        first = max(plan.first if plan else 0, where.first)
        if not newest:
            return self._db.query(sql, (expression, first, where.last, *where.params, limit))
        found = self._newest_first(expression, where, first, limit)
        if self._group == 1:
            return found
        if len(found) == limit:  # the rest of the oldest group that was reached: newer rows may be among it
            oldest = int(found[-1][0])
            rest = where._replace(last=oldest - 1)
            found += self._newest_first(expression, rest, max(first, oldest - oldest % self._group), self._group)
        return sorted(found, key=lambda row: -row[_ID])[:limit]

    def _best(
        self, found: Sequence[Matched], scores: Mapping[int, float], where: Where, limit: int, newest: bool
    ) -> list[tuple[Any, ...]]:
        """The best of matching rows, or the newest, with their columns."""
        ranked = sorted(found, key=lambda m: (-m[1] if newest else -scores.get(m[0], 0.0), -m[0]))
        out: list[tuple[Any, ...]] = []
        while ranked and len(out) < limit:
            part, ranked = ranked[:limit], ranked[limit:]
            ids = padded(sorted({of for _, of, _ in part}))
            sql = f"{self._rows_of} IN ({marks(len(ids))}) AND {where.sql}"
            rows = {row[0]: row for row in self._db.query(sql, (*ids, *where.params))}
            out += [(number, scores.get(number, 0.0), *rows[of]) for number, of, _ in part if of in rows]
        return out[:limit]

    def _read(self, expression: str, where: Where, column: str = "", most: int = MAX_POSTINGS) -> list[Matched]:
        """The newest matching rows, as many as are ranked; of few messages all."""
        if (few := where.few) is not None:
            return [(number, of, few[of]) for number, of in self._all(expression, where, column) if of in few]
        rows = self._newest_first(_in_column(column, expression), where, where.first, most)
        return [(row[0], row[_ID], row[_CHARS] if len(row) > _CHARS else _USUAL_CHARS) for row in rows]

    def _all(self, expression: str, where: Where, column: str) -> list[tuple[int, int]]:
        """Matching rows of spans.

        FTS5 goes on behind the end of a range until the next match, through all of the index for a phrase of common words. So
        it is asked for the rows with a word that every match holds, and for those of them that do not match: it meets the
        word again soon.
        """
        word = needed(expression)
        asked = [word, f"{word} NOT ({expression})"] if word else [expression]
        sql = " EXCEPT ".join([self._numbers] * len(asked))
        out: list[tuple[int, int]] = []
        for low, high in where.spans:
            span = max(low, where.first), min(high, where.last)
            out += self._db.query(sql, [x for each in asked for x in (_in_column(column, each), *span)])
        return out

    def _newest_first(self, expression: str, where: Where, first: int, most: int) -> list[tuple[Any, ...]]:
        """Matching rows by falling number, read in the spans only."""
        out: list[tuple[Any, ...]] = []
        for low, high in reversed(where.spans or ((where.first, where.last),)):
            if len(out) < most:
                out += self._within(expression, where, max(first, low), min(high, where.last), most - len(out))
        return out

    def _within(self, expression: str, where: Where, low: int, high: int, most: int) -> list[tuple[Any, ...]]:
        """The newest matching rows of a range.

        FTS5 goes on behind the end of a range until the next match, through all of the index for a phrase of common words: so it
        reads towards the end of the index that is nearer. The older rows come first then, and count if they are all.
        """
        params = (expression, low, high, *where.params)
        sql = f"{self._newest} AND f.rowid BETWEEN ? AND ? AND {where.sql} ORDER BY f.rowid"
        if self._end - high <= low:
            rows = self._db.query(f"{sql} LIMIT ?", (*params, most + 1))
            if len(rows) <= most:
                return rows[::-1]
        return self._db.query(f"{sql} DESC LIMIT ?", (*params, most))

    def _last(self, table: str = "") -> int:
        """The number of the newest row."""
        return int(self._db.query(f"SELECT coalesce(max(id), 0) FROM {table or self._name}_docsize")[0][0])

    def _occurs(self, expression: str, where: Where, *, own: bool = False) -> bool:
        column = self._own if own else ""
        if where.few is not None:
            return bool(self._read(expression, where, column))
        return bool(self._newest_first(_in_column(column, expression), where, where.first, 1))

    def rarest(self, expressions: Sequence[tuple[str, str]]) -> tuple[str, int]:
        """The rarest of expressions, each with a word that it needs, and about how many rows can match it."""
        known = self._counts({word for _, word in expressions})
        return min(((expression, known.get(word, 0)) for expression, word in expressions), key=lambda pair: pair[1])

    def rows(self) -> int:
        """Number of indexed rows: the first number of FTS5's averages record."""
        return next(iter(_numbers(self._db.query_one(f"SELECT block FROM {self._name}_data WHERE id = 1"))), 0)

    def frequencies(self, atoms: Iterable[Atom]) -> dict[str, int]:
        """Rows by stem."""
        return self._counts({s for a in atoms for s in (*a.stems, *a.forms)})

    def _counts(self, stems: Collection[str]) -> dict[str, int]:
        """Rows by stem. To count a common one FTS5 reads all its rows, so its share of them is remembered for a while."""
        total = max(self.rows(), 1)
        lasting = {
            s: n for s in stems if (n := self._common.get(s)) is not None and _LASTS * total <= n[1] <= total / _LASTS
        }
        asked = padded(sorted(set(stems) - lasting.keys()))
        sql = f"SELECT term, doc FROM {self._terms} WHERE term IN ({marks(len(asked))})"
        found = self._db.query(sql, asked) if asked else []
        self._common.update({term: (count, total) for term, count in found if count >= _COMMON})
        return {**{s: count * total // then for s, (count, then) in lasting.items()}, **dict(found)}

    def _begun(self, tokens: set[str]) -> set[str]:
        """Tokens that begin as a term does, where there are many forms of a word: most need not be looked up."""
        heads = {token[:_HEAD_CHARS] for token in tokens}
        if len(tokens) <= _HEAD_CHARS * len(heads):
            return tokens
        begun = f"EXISTS (SELECT 1 FROM {self._terms} WHERE term >= column1 AND term < column1 || ?)"
        asked = padded(sorted(heads))
        rows = self._db.query(
            f"SELECT column1 FROM (VALUES {marks(len(asked), '(?)')}) WHERE {begun}", (*asked, _LAST_CHAR)
        )
        present = {head for (head,) in rows}
        return {token for token in tokens if token[:_HEAD_CHARS] in present}

    def inflected(self, query: Query, where: Where) -> Query:
        """The query with the forms of its words that the index holds. They are made of the word: the text of rows that this
        caller may not read only says which of them need not be tried."""
        plain = [a for a in query.atoms if len(a.stems) == 1 and a.match.count('"') == 2 and not a.stop]
        single = {a: a.match.strip('"') for a in plain[:_INFLECTED]}
        made: dict[Atom, list[forms.Forms]] = {}
        for atom, word in single.items():
            told = len(query.languages) == 1 or (
                len(query.languages) > 1 and len(word) >= _LEAST_UNKNOWN and not self._occurs(atom.match, where)
            )
            languages = query.languages if told else ()
            found = [found for of in languages if (found := forms.forms(word, of)).words]
            made[atom] = [*found, forms.spelt(word)]
        own = {one.words[0][0] for each in made.values() for one in each[-1:] if one.words}
        tokens = {token for each in made.values() for one in each for token, _ in one.words} - own
        known = own | self._counts(self._begun(tokens)).keys()
        expression, atoms = query.expression, list(query.atoms)
        for atom, several in made.items():
            words = {token: word for each in several for token, word in each.words if token in known}
            grouped = any(" " in word for word in words.values())
            if grouped and self._occurs(atom.match, where):  # the number is there as it was typed
                words = {token: word for token, word in words.items() if " " not in word}
            if len(several) == 1 and words.keys() <= {*atom.stems}:
                continue
            match = " OR ".join(dict.fromkeys([atom.match, *(f'"{word}"' for word in words.values())]))
            roots = tuple(dict.fromkeys(root for each in several for root in each.roots))
            atoms[atoms.index(atom)] = replace(
                atom,
                match=f"({match})",
                forms=tuple(token for token, word in words.items() if " " not in word),
                roots=roots,
                typed=atom.match,
            )
            expression = expression.replace(atom.match, f"({match})")
        return replace(query, expression=expression, atoms=tuple(atoms)) if atoms != [*query.atoms] else query

    def plan(self, query: Query, where: Where) -> Plan:
        """The rarest words first, until the budget of postings is used up."""
        self._end = self._last()
        if where.apart:
            return self._plan_apart(query, where, {a: self._both(a.match, where) for a in query.atoms})
        frequency = self.frequencies(query.atoms)
        total = max(self.rows(), 1)
        last = min(where.last, self._end)
        # Of the addresses of the whole archive: an old scope is not charged with what others said since.
        inside = sum(min(high, last) - low + 1 for low, high in where.spans or ((where.first, last),) if low <= last)
        share = min(1.0, inside / max(self._end, 1))

        def cost(atom: Atom) -> float:
            if atom.match.endswith("*"):
                return (sum(n for _, n in self.terms(atom.stems[-1], 300)) if atom.stems else 0) * share
            return atom.rows(frequency) * share

        kept, used, notes = _affordable(query, {a: cost(a) for a in query.atoms}, MAX_POSTINGS)
        first = where.first
        if used > MAX_POSTINGS:
            first = max(first, last - int((last - where.first) * MAX_POSTINGS / used))
            first -= first % self._group
            notes.append(f"very common words: only the newest {MAX_POSTINGS / used:.0%} were searched")
        weights = {a: _rarity(total, a.rows(frequency)) for a in query.atoms}
        known = all(frequency.get(s) for a in query.atoms for s in a.stems if not a.forms)
        postings = sum(a.rows(frequency) for a in kept)
        return Plan(_loose(query, kept), tuple(kept), first, weights, known, tuple(notes), postings=postings)

    def sparse(self, query: Query, where: Where) -> Plan | None:
        """The plan of a query that not many readable rows match; else None, and for a phrase, which FTS5 looks for in all of the
        index: all rows of few messages are read sooner."""
        self._end = self._last()
        found: dict[Atom, tuple[list[Matched], list[Matched]]] = {}
        if any(needed(atom.match) for atom in query.atoms):
            return None
        left = _CROWD
        for atom in query.atoms:
            found[atom] = self._both(atom.match, where, left)
            left -= sum(map(len, found[atom]))
            if left <= 0:
                return None
        return self._plan_apart(query, where, found)

    def _both(self, expression: str, where: Where, most: int = MAX_POSTINGS) -> tuple[list[Matched], list[Matched]]:
        """Rows whose own text matches, and rows where only the end of the message before does."""
        own = self._read(expression, where, self._own, most)
        inside = {number for number, *_ in own}
        beside = self._read(expression, where, self._context, most) if self._context else []
        return own, [row for row in beside if row[0] not in inside]

    def _plan_apart(
        self, query: Query, where: Where, found: Mapping[Atom, tuple[list[Matched], list[Matched]]]
    ) -> Plan:
        """Plan from readable rows alone: how common a word is among them, and how far each of them is about it."""
        most = MAX_POSTINGS if where.few is None else math.inf
        counts = {a: sum(map(len, found[a])) for a in query.atoms}
        kept, _, notes = _affordable(query, counts, most)
        if any(counts[a] >= most for a in kept):
            notes.append(f"very common words: only the newest {MAX_POSTINGS:,} places were searched")
        size = max(where.size, 1)
        weights = {a: _rarity(size, len({of for rows in found[a] for _, of, _ in rows})) for a in kept}
        scores: dict[int, float] = {}
        for atom in kept:
            weight = max(weights[atom], _LEAST_WEIGHT)
            for rows, share in zip(found[atom], (weight, weight * _CONTEXT_SHARE), strict=True):
                for number, _, chars in rows:
                    scores[number] = scores.get(number, 0.0) + share * _BREVITY[min(chars, _PIECE_CHARS)]
        loose = _loose(query, kept)
        ready = {_in_column(self._own, a.match): found[a][0] for a in kept}
        if not query.required:
            ready[loose] = [*{row[0]: row for a in kept for rows in found[a] for row in rows}.values()]
        return Plan(loose, tuple(kept), where.first, weights, all(counts.values()), tuple(notes), scores, rows=ready)

    def terms(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """Indexed terms that begin like this, with their rows."""
        sql = f"SELECT term, doc FROM {self._terms} WHERE term >= ? AND term < ? LIMIT ?"
        return [(t, n) for t, n in self._db.query(sql, (prefix, prefix + _LAST_CHAR, limit))]

    def nearest(self, query: Query, where: Where) -> tuple[str, ...]:
        """Terms like those asked for that occur in rows this caller may read.

        Where the vocabulary is everybody's, every near term is tried until enough are found to be readable.
        """
        found: list[str] = []
        known = {} if where.apart else self.frequencies(query.atoms)
        for stem in dict.fromkeys(s for a in query.atoms if not a.stop for s in a.stems):
            if self._occurs(f'"{stem}"', where) if where.apart else stem in known:
                continue
            begin = stem[: max(1, min(3, len(stem) - 1))]
            near = [t for t, _ in self.terms(begin, -1 if where.apart else 800) if len(t) > 2 and t != stem]
            ranked = difflib.get_close_matches(stem, near, max(len(near), 1) if where.apart else 3, 0.7)
            mine = (term for term in ranked if term not in found and self._occurs(f'"{term}"', where, own=True))
            found.extend(itertools.islice(mine, 3))
        return tuple(found[:6])

    def begun(self) -> int:
        """The greatest number in a table that a killed ``rebuild`` left, of messages as they are now; 0 where there is none."""
        there = self._db.query("SELECT 1 FROM sqlite_master WHERE name = ?", (f"{self._name}_new",))
        return self._last(f"{self._name}_new") if there and self._meta.value(self._making) else 0

    def rebuild(self, columns: str, parts: Iterable[Sequence[tuple[Any, ...]]], *, go_on: bool = False) -> None:
        """Make the table again from rows (of ``columns``) beside the old one, which serves until the new one takes its place.

        Each part is a transaction of its own, so that others have a turn to store. An empty part says that there are no more
        for now: what comes behind it is read in the last transaction, while nobody else writes. Killed, the old one stays.
        ``go_on``: the parts are those behind what was ``begun``. Raises StoreBusy where another one begins, or messages are
        rewritten.
        """
        spare, old, terms, rest = f"{self._name}_new", f"{self._name}_old", f"{self._terms}_new", iter(parts)
        insert = f"INSERT INTO {spare}({columns}) VALUES ({marks(columns.count(',') + 1)})"
        order, mine = f"INSERT INTO {spare}({spare}, rank) VALUES (?, ?)", uuid.uuid4().hex
        if not go_on:
            self._drop(spare, terms)
        self._drop(old)
        with self._db.transaction():
            if not go_on:
                for statement in self._schema:
                    self._db.execute(statement.replace(self._terms, terms).replace(self._name, spare))
                self._db.execute(order, ("automerge", 0))  # the larger the index, the more it would fold at once
                self._db.execute(order, ("usermerge", APART))
            self._meta.note(self._making, mine)
        for rows in itertools.takewhile(bool, rest):
            with self._db.part():
                self._go_on(mine)
                self._db.executemany(insert, rows)
                self._db.execute(order, ("merge", _FOLDED_PAGES))
        with self._db.transaction():
            self._go_on(mine)
            self._meta.forget(self._making)
            for rows in itertools.takewhile(bool, rest):
                self._db.executemany(insert, rows)
            self._db.execute(order, ("automerge", APART))
            for table in (terms, self._terms):
                self._db.execute(f"DROP TABLE IF EXISTS {table}")
            there = [(self._name, old)] if self._exists(self._name) else []
            self._db.rename([*there, (spare, self._name)])
            self._db.execute(next(each for each in self._schema if self._terms in each))
        self._drop(old)

    def _go_on(self, mine: str) -> None:
        if self._db.fetch("SELECT value FROM meta WHERE key = ?", (self._making,)) != [(json.dumps(mine),)]:
            raise StoreBusy(
                f"{self._name} was not made anew: messages were rewritten meanwhile, or somebody else makes it; do it again"
            )

    def _exists(self, table: str) -> bool:
        return bool(self._db.fetch("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)))

    def _drop(self, table: str, terms: str = "") -> None:
        """Remove a table that nobody searches, its rows in parts first: all at once would keep every writer waiting."""
        with self._db.transaction():
            if terms:
                self._db.execute(f"DROP TABLE IF EXISTS {terms}")
            if not self._exists(table):
                return
        for part in (f"{table}_data", f"{table}_docsize"):
            with suppress(StoreError):  # a damaged one goes as a whole
                while self._deleted(part):
                    pass
        with self._db.transaction():
            self._db.execute(f"DROP TABLE IF EXISTS {table}")

    def _deleted(self, table: str) -> bool:
        """Delete some rows; False when there are none."""
        with self._db.part():
            rows = self._db.fetch(f"SELECT id FROM {table} WHERE id > {_HEADS} ORDER BY id LIMIT ?", (_DROPPED_ROWS,))
            if rows:
                self._db.execute(f"DELETE FROM {table} WHERE id > {_HEADS} AND id <= ?", rows[-1])
        return bool(rows)

    def damage(self, *, deep: bool = True, progress: Progress = silent) -> list[str]:
        """Faults of the table, in words. ``deep``: of all that it holds, read in a copy: it takes seconds, and would keep every
        writer waiting."""
        parts = [f"{self._name}_{part}" for part in (_PARTS if deep else ())]
        plain = [each for each in self._schema if self._terms not in each]
        try:
            with self._db.copied([], plain) as copy:
                settings = set(copy(f"SELECT k, v FROM {self._name}_config"))
            found = self._glanced(settings)
            if deep and not found:
                with self._db.copied(parts, plain, progress) as copy:
                    found = self._compared(copy, progress)
        except StoreError as exc:
            found = str(exc)
        return [f"{self._name} is damaged: {found}"] if found else []

    def _glanced(self, settings: set[tuple[Any, ...]]) -> str:
        """Faults that show without reading the table: what every search and every write begins with."""
        name = self._name
        if not settings.issubset(self._db.query(f"SELECT k, v FROM {name}_config")):  # others say how pages are merged
            return "its settings were changed"
        counts = self._db.query_one(
            f"SELECT (SELECT block FROM {name}_data WHERE id = 1), (SELECT count(*) FROM {name}_docsize)"
        )
        rows, (counted, *words) = counts[1] if counts else 0, _numbers(counts) or [0]
        if counted != rows:
            return f"it has {rows:,} rows and counts {counted:,}"
        first = self._db.query_one(f"SELECT term FROM {self._terms} LIMIT 1")
        if any(words) and not first:
            return f"it counts {sum(words):,} words and holds none"
        self._db.query_one(f"SELECT rowid FROM {name} WHERE {name} MATCH '\"a\"' ORDER BY rank LIMIT 1")
        if first and not self._db.query_one(f"SELECT 1 FROM {self._terms} WHERE term = ?", first):
            return "a word that it holds is not found"
        return ""

    def _compared(self, copy: Callable[..., Any], progress: Progress) -> str:
        """FTS5's own check of its structure, and whether words, lengths of rows and totals are the same number."""
        what = f"checking {self._name.replace('_', ' ')}"
        (pages,) = copy(f"SELECT count(*) FROM {self._name}_data").fetchone()
        copy(f"INSERT INTO {self._name}({self._name}) VALUES ('integrity-check')", what, pages * _CHECKING)
        (odd,) = copy(
            f"SELECT count(*) FROM {self._name}_idx AS i WHERE NOT EXISTS (SELECT 1 FROM {self._name}_data "
            "WHERE id BETWEEN i.segid << 37 AND ((i.segid + 1) << 37) - 1)"
        ).fetchone()
        if odd:  # a later write that takes the number of such a part would be refused
            return f"ways into parts that it does not have: {odd:,}"
        copy(f"CREATE VIRTUAL TABLE temp.words USING fts5vocab('main', '{self._name}', 'row')")
        count, words = copy("SELECT count(*), coalesce(sum(cnt), 0) FROM words", what, pages * _COUNTING).fetchone()
        lost = 0
        for n, (found,) in enumerate(copy(_FOUND)):
            lost += not found
            if n % _TOLD_WORDS == 0:
                progress(what, n, count)
        if lost:
            return f"words that it holds and does not find: {lost:,}"
        _, *totals = _numbers(copy(f"SELECT block FROM {self._name}_data WHERE id = 1").fetchone()) or [0]
        lengths = [0] * len(totals)
        for size, rows in copy(f"SELECT sz, count(*) FROM {self._name}_docsize GROUP BY 1"):
            lengths = [a + b * rows for a, b in itertools.zip_longest(lengths, _numbers((size,)), fillvalue=0)]
        if lengths != totals or words != sum(totals):
            return f"it holds {words:,} words, its rows {sum(lengths):,}, and it counts {sum(totals):,}"
        return ""


def _numbers(row: tuple[Any, ...] | None) -> list[int]:
    """The numbers of a record of FTS5, SQLite's varints: of 7 bits a byte, the ninth of 8. Nothing of what is no record."""
    out, number, length = [], 0, 0
    for byte in row[0] if row and isinstance(row[0], bytes) else b"":
        length += 1
        number = number << 8 | byte if length == 9 else number << 7 | byte & 127
        if byte < 128 or length == 9:
            out.append(number)
            number = length = 0
    return out


def _in_column(column: str, expression: str) -> str:
    return f"{column}({expression})" if column else expression


def _affordable(query: Query, costs: Mapping[Atom, float], most: float) -> tuple[list[Atom], float, list[str]]:
    """The rarest atoms until their rows are used up, how many rows those are, and a note of the others."""
    kept: list[Atom] = []
    used = 0.0
    for atom in sorted(query.atoms, key=lambda a: costs[a]):
        if used and used + costs[atom] > most:
            break
        kept.append(atom)
        used += costs[atom]
    left = [a for a in query.atoms if a not in kept and a not in query.required]
    return kept, used, [f"too common to rank by: {', '.join(a.written for a in left)}"] if left else []


def _loose(query: Query, kept: Sequence[Atom]) -> str:
    """The loosest expression: any of these atoms, and all that is required."""
    loose = " OR ".join(a.match for a in kept)
    required = " AND ".join(a.match for a in query.required)
    return f"({required}) AND ({loose})" if required and loose else loose


def _rarity(total: int, frequency: int) -> float:
    """The weight of a word, as bm25 has it: nothing when half of the rows contain it."""
    return max(0.0, math.log((total - frequency + 0.5) / (frequency + 0.5))) if frequency < total else 0.0
