"""
Zone map of the messages: smallest and largest time, and the sources, of each stretch of addresses.

A cache of one process; reads ``messages`` once, and what is new since at each look. A filter then reads those stretches that can
hold what it lets through, instead of every message.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable

from ..storage.connection import Database
from . import documents
from .fts import Where
from .scope import Filters

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
        """The same rows, looked for only where a time or a source of the filters occurs."""
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
            for low, high in _runs(numbers)
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


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Neighbouring numbers as (first, last)."""
    out: list[tuple[int, int]] = []
    for number in numbers:
        if out and number == out[-1][1] + 1:
            out[-1] = out[-1][0], number
        else:
            out.append((number, number))
    return out


def few(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same places, in order, as few spans: neighbours become one, and so do those with the smallest gaps.

    Each is a search of its own, and FTS5 looks for the first match of a phrase from the end of the whole index on.
    """
    spans = [*dict.fromkeys(spans)]
    gap = [0, *(spans[n][0] - spans[n - 1][1] for n in range(1, len(spans)))]
    apart = (n for n in range(1, len(spans)) if gap[n] > documents.GROUP)
    gaps = sorted(apart, key=gap.__getitem__, reverse=True)[: _MOST_SPANS - 1]
    begins = [0, *sorted(gaps)]
    ends = [*(n - 1 for n in begins[1:]), len(spans) - 1]
    return [(spans[begin][0], spans[end][1]) for begin, end in zip(begins, ends, strict=True)]
