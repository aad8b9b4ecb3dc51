"""
One FTS5 table as search.py uses it: matching within bounds, how common words are, what is affordable, what is damaged.

Owns the mechanics, not the tables: which columns, which joins and which ladder of searches are search.py's.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..errors import StoreError
from ..text.words import Atom, Query
from .connection import Database
from .lists import marks, padded

#: What one search may score; common words beyond that are left out, or old rows are.
MAX_POSTINGS = 4_000
_ID = 2  # the id of what a row of the index belongs to, the first of the columns asked for


class Where(NamedTuple):
    """Which rows count. ``near`` is the part of it that may differ between rows of one conversation."""

    sql: str
    params: tuple[Any, ...]
    first: int  # rowids
    last: int
    near: str = "1"
    near_params: tuple[Any, ...] = ()


class Plan(NamedTuple):
    """What of a query is affordable: the loose expression, its atoms, and where the rowids begin."""

    any: str
    atoms: tuple[Atom, ...]
    first: int
    weights: dict[Atom, float]
    known: bool  # every word asked for is in the index, wherever
    notes: tuple[str, ...]


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
        self._select = f"SELECT f.rowid, -f.rank, {columns} FROM {name} AS f CROSS JOIN {join} WHERE {name} MATCH ?"
        self._newest = f"SELECT f.rowid, 0.0, {columns} FROM {name} AS f CROSS JOIN {join} WHERE {name} MATCH ?"

    def match(
        self, expression: str, where: Where, limit: int, *, own: bool = False, newest: bool = False, first: int = 0
    ) -> list[tuple[Any, ...]]:
        """Matching rows, best (or newest) first: rowid, score, and the columns that were asked for."""
        expression = f"{self._own}({expression})" if own else expression
        select, order = (self._newest, "f.rowid DESC") if newest else (self._select, "f.rank")
        sql = f"{select} AND f.rowid BETWEEN ? AND ? AND {where.sql} ORDER BY {order} LIMIT ?"

        def read(first: int, last: int, most: int) -> list[tuple[Any, ...]]:
            return self._db.query(sql, (expression, first, last, *where.params, most))

        first = max(first, where.first)
        found = read(first, where.last, limit)
        if not newest or self._group == 1:
            return found
        if len(found) == limit:  # the rest of the oldest group that was reached: newer rows may be among it
            oldest = int(found[-1][0])
            found += read(max(first, oldest - oldest % self._group), oldest - 1, self._group)
        return sorted(found, key=lambda row: -row[_ID])[:limit]

    def _occurs(self, expression: str, where: Where) -> bool:
        sql = f"{self._newest} AND f.rowid BETWEEN ? AND ? AND {where.sql} LIMIT 1"
        return self._db.query_one(sql, (expression, where.first, where.last, *where.params)) is not None

    def rows(self) -> int:
        """How many rows are indexed: the first number of FTS5's averages record."""
        found = self._db.query_one(f"SELECT block FROM {self._name}_data WHERE id = 1")
        total = 0
        for byte in found[0] if found and found[0] else b"":
            total = total << 7 | byte & 127
            if byte < 128:
                break
        return total

    def frequencies(self, atoms: Iterable[Atom]) -> dict[str, int]:
        """Rows by stem."""
        stems = padded(sorted({s for a in atoms for s in a.stems}))
        return dict(self._db.query(f"SELECT term, doc FROM {self._terms} WHERE term IN ({marks(len(stems))})", stems))

    def plan(self, query: Query, where: Where) -> Plan:
        """The rarest words first, until the budget of postings is used up."""
        frequency = self.frequencies(query.any)
        total = max(self.rows(), 1)
        newest = self._db.query_one(f"SELECT max(rowid) FROM {self._name}")
        last = min(where.last, (newest[0] if newest else 0) or 0)
        share = min(1.0, (last - where.first + 1) / max(last, 1))

        def cost(atom: Atom) -> float:
            known = [frequency.get(s, 0) for s in atom.stems]
            if atom.match.endswith("*"):
                known = [sum(n for _, n in self.terms(atom.stems[-1], 300))] if atom.stems else []
            return min(known, default=0) * share

        costs = {a: cost(a) for a in query.any}
        kept: list[Atom] = []
        used = 0.0
        for atom in sorted(query.any, key=lambda a: costs[a]):
            if used and used + costs[atom] > MAX_POSTINGS:
                break
            kept.append(atom)
            used += costs[atom]
        notes = []
        left = [a for a in query.any if a not in kept and a not in query.required]
        if left:
            notes.append(f"too common to rank by: {', '.join(a.match for a in left)}")
        first = where.first
        if used > MAX_POSTINGS:
            first = max(first, last - int((last - where.first) * MAX_POSTINGS / used))
            first -= first % self._group
            notes.append(f"very common words: only the newest {MAX_POSTINGS / used:.0%} were searched")
        weights = {a: _rarity(total, min((frequency.get(s, 0) for s in a.stems), default=0)) for a in kept}
        loose = " OR ".join(a.match for a in kept)
        if query.required and loose:
            loose = f"({' AND '.join(a.match for a in query.required)}) AND ({loose})"
        known = all(frequency.get(s) for a in query.any for s in a.stems)
        return Plan(loose, tuple(kept), first, weights, known, tuple(notes))

    def terms(self, prefix: str, limit: int) -> list[tuple[str, int]]:
        """Indexed terms that begin like this, with their rows."""
        sql = f"SELECT term, doc FROM {self._terms} WHERE term >= ? AND term < ? LIMIT ?"
        return [(t, n) for t, n in self._db.query(sql, (prefix, prefix + "\U0010ffff", limit))]

    def nearest(self, query: Query, where: Where) -> tuple[str, ...]:
        """Terms like those asked for that occur in rows this caller may read."""
        found: list[str] = []
        known = self.frequencies(query.any)
        for stem in dict.fromkeys(s for a in query.any if not a.stop for s in a.stems if s not in known):
            begin = stem[: max(1, min(3, len(stem) - 1))]
            candidates = [t for t, _ in self.terms(begin, 800) if len(t) > 2]
            for term in difflib.get_close_matches(stem, candidates, 3, 0.7):
                if term not in found and self._occurs(f'{self._own}("{term}")', where):
                    found.append(term)
        return tuple(found[:6])

    def rebuild(self) -> None:
        """Drop and create again, inside the caller's transaction."""
        self._db.execute(f"DROP TABLE IF EXISTS {self._terms}")
        self._db.execute(f"DROP TABLE IF EXISTS {self._name}")
        for statement in self._schema:
            self._db.execute(statement)

    def damage(self) -> list[str]:
        """FTS5's own check of its structure; reads all of it."""
        try:
            with self._db.transaction():
                self._db.execute(f"INSERT INTO {self._name}({self._name}) VALUES ('integrity-check')")
        except StoreError as exc:
            return [f"{self._name} is damaged: {exc}"]
        return []


def _rarity(total: int, frequency: int) -> float:
    """The weight of a word, as bm25 has it: nothing when half of the rows contain it."""
    return max(0.0, math.log((total - frequency + 0.5) / (frequency + 0.5))) if frequency < total else 0.0
