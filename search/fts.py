"""
One FTS5 table as search/index.py uses it: matching within bounds, how common words are, what is affordable, what is damaged.

Owns the mechanics, not the tables: which columns, which joins and which ladder of searches are search/index.py's.
"""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from ..errors import StoreError
from ..storage.connection import Database, marks, padded
from . import forms
from .query import Atom, Query

#: What one search may score; common words beyond that are left out, or old rows are.
MAX_POSTINGS = 4_000
_ID = 2  # the id of what a row of the index belongs to, the first of the columns asked for
_CHARS = 6  # where there are more: how long it is
_PIECE_CHARS, _USUAL_CHARS = 600, 300
_CONTEXT_SHARE = 0.3  # of a word that stands in front of a message, as the table's rank has it
_PARTS = ("data", "idx", "docsize", "config")  # the tables in which FTS5 keeps a contentless one
_HEADS = 10  # the last of the records without which FTS5 cannot open a table, not even to drop it
_DROPPED_ROWS = 250  # of a table that goes
_INFLECTED = 16  # words of a query
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
    whole: bool = False  # so few that every one of them is read


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
    rows: Mapping[str, list[tuple[Any, ...]]] = MappingProxyType({})  # by expression, where rows are ranked apart


class FullText:
    """One FTS5 table with its vocabulary, joined to the table whose rows it indexes."""

    def __init__(
        self, db: Database, name: str, schema: Sequence[str], *, columns: str, join: str, own: str = "", group: int = 1
    ) -> None:
        self._db = db
        self._name = name
        self._schema = schema
        self._own = own  # column filter: the row's own text, not its context
        self._group = group  # so many rowids are in no order among themselves
        self._terms = name.replace("_index", "_terms")
        self._common: dict[str, tuple[int, int]] = {}  # stem: its rows, of how many
        self._select = f"SELECT f.rowid, -f.rank, {columns} FROM {name} AS f CROSS JOIN {join} WHERE {name} MATCH ?"
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
        expression = f"{self._own}({expression})" if own else expression
        if where.apart and not newest:
            scores = (plan.scores if plan else None) or {}
            known = plan.rows.get(expression) if plan else None
            found = self._read(expression, where, where.first) if known is None else known
            ranked = [(row[0], scores.get(row[0], 0.0), *row[2:]) for row in found]
            return sorted(ranked, key=lambda row: (-row[1], -row[0]))[:limit]
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

    def _read(self, expression: str, where: Where, first: int) -> list[tuple[Any, ...]]:
        """The newest matching rows, as many as are ranked, without a score; of few messages all."""
        most = -1 if where.whole else MAX_POSTINGS
        return self._newest_first(expression, where, first, most)

    def _newest_first(self, expression: str, where: Where, first: int, most: int) -> list[tuple[Any, ...]]:
        """Matching rows by falling number, read in the spans only."""
        out: list[tuple[Any, ...]] = []
        for low, high in reversed(where.spans or ((where.first, where.last),)):
            if most < 0 or len(out) < most:
                left = most if most < 0 else most - len(out)
                out += self._within(expression, where, max(first, low), min(high, where.last), left)
        return out

    def _within(self, expression: str, where: Where, low: int, high: int, most: int) -> list[tuple[Any, ...]]:
        """The newest matching rows of a range.

        FTS5 goes on behind the end of a range until the next match, through all of the index for a phrase of common words: so it
        reads towards the end of the index that is nearer. The older rows come first then, and count if they are all.
        """
        params = (expression, low, high, *where.params)
        sql = f"{self._newest} AND f.rowid BETWEEN ? AND ? AND {where.sql} ORDER BY f.rowid"
        if self._last() - high <= low:
            rows = self._db.query(f"{sql} LIMIT ?", (*params, most + 1 if most >= 0 else -1))
            if most < 0 or len(rows) <= most:
                return rows[::-1]
        return self._db.query(f"{sql} DESC LIMIT ?", (*params, most))

    def _last(self) -> int:
        """The number of the newest row."""
        return int(self._db.query(f"SELECT coalesce(max(id), 0) FROM {self._name}_docsize")[0][0])

    def _occurs(self, expression: str, where: Where) -> bool:
        return bool(self._newest_first(expression, where, where.first, 1))

    def rarest(self, expressions: Sequence[tuple[str, str]]) -> tuple[str, int]:
        """The rarest of expressions, each with a word that it needs, and about how many rows can match it."""
        known = self._counts({word for _, word in expressions})
        return min(((expression, known.get(word, 0)) for expression, word in expressions), key=lambda pair: pair[1])

    def rows(self) -> int:
        """Number of indexed rows: the first number of FTS5's averages record."""
        found = self._db.query_one(f"SELECT block FROM {self._name}_data WHERE id = 1")
        total = 0
        for byte in found[0] if found and found[0] else b"":
            total = total << 7 | byte & 127
            if byte < 128:
                break
        return total

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

    def inflected(self, query: Query, where: Where) -> Query:
        """The query with the forms of its words that the index holds. They are made of the word: what stands in rows that this
        caller may not read only says which of them need not be tried."""
        plain = [a for a in query.atoms if len(a.stems) == 1 and a.match.count('"') == 2 and not a.stop]
        single = {a: a.match.strip('"') for a in (plain[:_INFLECTED] if query.languages else ())}
        made: dict[Atom, list[forms.Forms]] = {}
        for atom, word in single.items():
            told = len(query.languages) == 1 or (len(word) >= _LEAST_UNKNOWN and not self._occurs(atom.match, where))
            languages = query.languages if told else ()
            made[atom] = [found for of in languages if (found := forms.forms(word, of)).words]
        known = self._counts({token for each in made.values() for found in each for token, _ in found.words})
        expression, atoms = query.expression, list(query.atoms)
        for atom, several in ((atom, each) for atom, each in made.items() if each):
            words = {token: word for each in several for token, word in each.words if token in known}
            match = " OR ".join(dict.fromkeys([atom.match, *(f'"{word}"' for word in words.values())]))
            roots = tuple(dict.fromkeys(root for each in several for root in each.roots))
            atoms[atoms.index(atom)] = replace(
                atom, match=f"({match})", forms=tuple(words), roots=roots, typed=atom.match
            )
            expression = expression.replace(atom.match, f"({match})")
        return replace(query, expression=expression, atoms=tuple(atoms)) if any(made.values()) else query

    def plan(self, query: Query, where: Where) -> Plan:
        """The rarest words first, until the budget of postings is used up."""
        if where.apart:
            return self._plan_apart(query, where)
        frequency = self.frequencies(query.atoms)
        total = max(self.rows(), 1)
        newest = self._last()
        last = min(where.last, newest)
        # Of the addresses of the whole archive: an old scope is not charged with what others said since.
        inside = sum(min(high, last) - low + 1 for low, high in where.spans or ((where.first, last),) if low <= last)
        share = min(1.0, inside / max(newest, 1))

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

    def _plan_apart(self, query: Query, where: Where) -> Plan:
        """Plan from readable rows alone: how common a word is among them, and how far each of them is about it."""
        found = {a: self._read(a.match, where, where.first) for a in query.atoms}
        most = math.inf if where.whole else MAX_POSTINGS
        kept, _, notes = _affordable(query, {a: len(found[a]) for a in query.atoms}, most)
        if not where.whole and any(len(found[a]) == MAX_POSTINGS for a in kept):
            notes.append(f"very common words: only the newest {MAX_POSTINGS:,} places were searched")
        weights = {a: _rarity(max(where.size, 1), len({row[_ID] for row in found[a]})) for a in kept}
        own = {a: f"{self._own}({a.match})" for a in kept if found[a]} if self._own else {}
        read = {expression: self._read(expression, where, where.first) for expression in own.values()}
        scores: dict[int, float] = {}
        for atom in kept:
            inside = {row[0] for row in read[own[atom]]} if atom in own else None
            weight = max(weights[atom], _LEAST_WEIGHT)
            for row in found[atom]:
                share = weight if inside is None or row[0] in inside else weight * _CONTEXT_SHARE
                scores[row[0]] = scores.get(row[0], 0.0) + share * _brevity(row)
        known = all(found[a] for a in query.atoms)
        return Plan(_loose(query, kept), tuple(kept), where.first, weights, known, tuple(notes), scores, rows=read)

    def terms(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """Indexed terms that begin like this, with their rows."""
        sql = f"SELECT term, doc FROM {self._terms} WHERE term >= ? AND term < ? LIMIT ?"
        return [(t, n) for t, n in self._db.query(sql, (prefix, prefix + "\U0010ffff", limit))]

    def nearest(self, query: Query, where: Where) -> tuple[str, ...]:
        """Terms like those asked for that occur in rows this caller may read."""
        if where.apart:
            return self._nearest_apart(query, where)
        found: list[str] = []
        known = self.frequencies(query.atoms)
        for stem in dict.fromkeys(s for a in query.atoms if not a.stop for s in a.stems if s not in known):
            begin = stem[: max(1, min(3, len(stem) - 1))]
            candidates = [t for t, _ in self.terms(begin, 800) if len(t) > 2]
            for term in difflib.get_close_matches(stem, candidates, 3, 0.7):
                if term not in found and self._occurs(f'{self._own}("{term}")', where):
                    found.append(term)
        return tuple(found[:6])

    def _nearest_apart(self, query: Query, where: Where) -> tuple[str, ...]:
        """Nearest words where the vocabulary is everybody's: every near word is tried until enough are found to be readable."""
        found: list[str] = []
        for stem in dict.fromkeys(s for a in query.atoms if not a.stop for s in a.stems):
            if self._occurs(f'"{stem}"', where):
                continue
            begin = stem[: max(1, min(3, len(stem) - 1))]
            near = [term for term, _ in self.terms(begin, -1) if len(term) > 2 and term != stem]
            ranked = difflib.get_close_matches(stem, near, max(len(near), 1), 0.7)
            mine = (term for term in ranked if term not in found and self._occurs(f'{self._own}("{term}")', where))
            found.extend(itertools.islice(mine, 3))
        return tuple(found[:6])

    def rebuild(self, columns: str, parts: Iterable[Sequence[tuple[Any, ...]]]) -> None:
        """Make the table again from rows (of ``columns``) beside the old one, which serves until the new one takes its place.

        Each part is a transaction of its own, so that others have a turn to store. An empty part says that there are no more
        for now: what comes behind it is read in the last transaction, while nobody else writes. Killed, the old one stays.
        """
        spare, old, terms, rest = f"{self._name}_new", f"{self._name}_old", f"{self._terms}_new", iter(parts)
        insert = f"INSERT INTO {spare}({columns}) VALUES ({marks(columns.count(',') + 1)})"
        self._drop(spare, terms)
        self._drop(old)
        with self._db.transaction():
            for statement in self._schema:
                self._db.execute(statement.replace(self._terms, terms).replace(self._name, spare))
        for rows in itertools.takewhile(bool, rest):
            with self._db.part():
                self._db.executemany(insert, rows)
        with self._db.transaction():
            for rows in itertools.takewhile(bool, rest):
                self._db.executemany(insert, rows)
            for table in (terms, self._terms):
                self._db.execute(f"DROP TABLE IF EXISTS {table}")
            there = [(self._name, old)] if self._exists(self._name) else []
            self._db.rename([*there, (spare, self._name)])
            self._db.execute(next(each for each in self._schema if self._terms in each))
        self._drop(old)

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

    def damage(self) -> list[str]:
        """FTS5's own check of its structure, of a copy: it takes seconds, and would keep every writer waiting."""
        try:
            with self._db.copied([f"{self._name}_{part}" for part in _PARTS], self._schema[:1]) as copy:
                copy(f"INSERT INTO {self._name}({self._name}) VALUES ('integrity-check')")
        except StoreError as exc:
            return [f"{self._name} is damaged: {exc}"]
        return []


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


def _brevity(row: Sequence[Any]) -> float:
    """Weight of a match by the length of its piece of a message, as bm25 has it for one occurrence."""
    chars = min(row[_CHARS], _PIECE_CHARS) if len(row) > _CHARS else _USUAL_CHARS
    return 2.2 / (1.3 + 0.9 * chars / _USUAL_CHARS)


def _rarity(total: int, frequency: int) -> float:
    """The weight of a word, as bm25 has it: nothing when half of the rows contain it."""
    return max(0.0, math.log((total - frequency + 0.5) / (frequency + 0.5))) if frequency < total else 0.0
