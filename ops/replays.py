"""
Which rows of another engine's store repeat earlier ones: copies that it stored when the host showed its list again.

Pure. Equal words prove nothing by themselves, for people and models repeat themselves. A copy is believed when the whole of what
was shown speaks for it: rows that were stored in one go and that walk, one by one, through the end of what was there before. Rows
of such a list that are new (the engine's own summary in front of the tail) get their place before what follows them there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

#: Rows that were stored within so many seconds of each other were stored in one go.
BURST_S = 0.25
#: So many rows in a row are no coincidence; fewer need an id that a provider gave out, or a summary in front of them.
ENOUGH = 4
_NEAR_END = 8  # rows at the end of the thread that a replay may lack
_TRIES = 64


class Seen(NamedTuple):
    """One stored row: what it says, when it was stored, and what else speaks for it.

    ``named``: it has the id of a tool call. ``summary``: it looks like a summary that an engine put in front of a list.
    ``apart``: taken back, or no message, so no part of the thread. ``ids``: of its tool calls, or of the one it answers.
    """

    digest: bytes
    role: str
    at: float | None
    named: bool = False
    summary: bool = False
    apart: bool = False
    ids: tuple[str, ...] = ()


@dataclass(slots=True)
class Replays:
    """``copies``: row to the row that it repeats. ``edits``: a changed copy to that row. ``before``: a new row to the one that it
    stands in front of. ``doubtful``: how many rows might be copies, without proof."""

    copies: dict[int, int] = field(default_factory=dict)
    edits: dict[int, int] = field(default_factory=dict)
    before: dict[int, int] = field(default_factory=dict)
    doubtful: int = 0


def find(rows: Sequence[Seen], *, burst_s: float = BURST_S, enough: int = ENOUGH) -> Replays:
    """The copies in a store, by the order in which its rows were stored.

    ``burst_s``, ``enough``: less of both where rows that were stored in one go are known to be a list, whole.
    """
    return _Search(rows, burst_s, enough).run()


class _Search:
    """``thread``: rows that are no copies, in order; ``known``: the newest of them by digest."""

    def __init__(self, rows: Sequence[Seen], burst_s: float, enough: int) -> None:
        self.rows = rows
        self.enough = enough
        self.out = Replays()
        self.thread: list[int] = []
        self.known: dict[bytes, int] = {}
        self.stamped: dict[tuple[bytes, float | None], int] = {}
        self.go = _goes(rows, burst_s)  # which go each row was stored in

    def run(self) -> Replays:
        start = 0
        while start < len(self.rows):
            stop = start
            while stop < len(self.rows) and self.go[stop] == self.go[start]:
                stop += 1
            self._burst(start, stop)
            start = stop
        for n, row in enumerate(self.rows[:-1]):
            if row.summary and n not in self.out.copies and n + 1 in self.out.copies:
                self.out.before.setdefault(n, self.out.copies[n + 1])
        return self.out

    def _burst(self, start: int, stop: int) -> None:
        """Rows that were stored in one go: replays first, what is left is new."""
        where: dict[bytes, list[int]] = {}
        for n in range(start, stop) if start else ():
            where.setdefault(self.rows[n].digest, []).append(n)
        at = start
        while at < stop:
            found = self._replay(at, where, start)
            if found is None:
                for n in range(at, stop):
                    self._new(n)
                return
            first, last, pairs = found
            if start < at < first and not self.rows[at].summary:  # behind a replay: it belongs to that list, and is new
                self._new(at)
                at += 1
                continue
            self._head(at, first, pairs[first], start)
            for n, original in pairs.items():
                same = self.rows[n].digest == self.rows[original].digest
                (self.out.copies if same else self.out.edits)[n] = original
                self._stamp(n)
            at = last + 1

    def _new(self, n: int) -> None:
        """A row that no replay explains: new, unless it has the very time of an equal row that was stored in another go."""
        row = self.rows[n]
        if row.apart:
            return
        if self._twin(n):
            return
        if row.digest in self.known and row.named:
            self.out.doubtful += 1
        self._stamp(n)
        self.known[row.digest] = n
        self.thread.append(n)

    def _stamp(self, n: int) -> None:
        """Note the time of a row. Of a copy too: the next process shows its list with the times that the copies got."""
        if self.rows[n].at is not None:
            self.stamped.setdefault((self.rows[n].digest, self.rows[n].at), n)

    def _twin(self, n: int) -> bool:
        """Is this an equal row of another go again, with its very time? Then it repeats what that one is."""
        row = self.rows[n]
        twin = self.stamped.get((row.digest, row.at)) if row.at is not None else None
        if twin is None or self.go[twin] == self.go[n]:
            return False
        of = self.out.edits if twin in self.out.edits else self.out.copies
        of[n] = of.get(twin, twin)
        return True

    def _head(self, at: int, first: int, anchor: int, start: int) -> None:
        """What a replayed list shows in front of the tail: the first rows of the thread again, and a summary."""
        for n in range(at, first):
            row, k = self.rows[n], n - at
            if row.apart:
                continue
            if k < len(self.thread) and row.digest == self.rows[self.thread[k]].digest and self.thread[k] < anchor:
                self.out.copies[n] = self.thread[k]
            elif k < len(self.thread) and self.thread[k] < anchor and _same_calls(row, self.rows[self.thread[k]]):
                self.out.edits[n] = self.thread[k]
            elif self._twin(n):
                continue
            elif (
                row.digest in self.known and self.known[row.digest] < start
            ):  # the same summary, a request that was kept
                self.out.copies[n] = self.known[row.digest]
            else:
                self.out.before[n] = anchor
                self._insert(n, anchor)
            self._stamp(n)

    def _insert(self, n: int, anchor: int) -> None:
        """A new row in front of one that is near the end of the thread."""
        self.known[self.rows[n].digest] = n
        for place in range(len(self.thread) - 1, -1, -1):
            if self.thread[place] == anchor:
                self.thread.insert(place, n)
                return

    # -- replays ------------------------------------------------------------------------------------
    def _replay(self, at: int, where: dict[bytes, list[int]], start: int) -> tuple[int, int, dict[int, int]] | None:
        """(first row, last row, what each repeats) of the longest believable replay from ``at`` on. ``start``: of its go."""
        best: tuple[int, int, dict[int, int]] | None = None
        for missing in range(min(_NEAR_END, len(self.thread)) if where else 0):
            end = len(self.thread) - 1 - missing
            places = where.get(self.rows[self.thread[end]].digest, [])
            first = bisect_left(places, at)
            for n in places[first : first + _TRIES]:
                pairs = self._backwards(n, end, at)
                if best is not None and len(pairs) <= len(best[2]):
                    continue
                if pairs and self._believable(pairs, at, missing, start):
                    best = (min(pairs), n, pairs)
            if best is not None:
                return best
        return None

    def _backwards(self, n: int, end: int, at: int) -> dict[int, int]:
        """Pairs from (n, end) backwards while both agree; one row that differs between two that agree is an edited copy."""
        pairs: dict[int, int] = {}
        while n >= at and end >= 0:
            mine, theirs = self.rows[n], self.rows[self.thread[end]]
            if mine.apart:
                n -= 1
                continue
            if mine.digest != theirs.digest and not _same_calls(mine, theirs):
                above = n - 1 >= at and end >= 1 and self.rows[n - 1].digest == self.rows[self.thread[end - 1]].digest
                if not above or mine.role != theirs.role or mine.summary:
                    break
            pairs[n] = self.thread[end]
            n, end = n - 1, end - 1
        return pairs

    def _believable(self, pairs: dict[int, int], at: int, missing: int, start: int) -> bool:
        equal = [n for n in pairs if self.rows[n].digest == self.rows[pairs[n]].digest]
        first = min(pairs)
        if min(pairs.values()) >= start:  # nothing but rows of the same go: a list may say the same twice
            return False
        if len(equal) >= self.enough + missing:
            return True
        if missing:
            return False
        if len(equal) >= 2 and any(self.rows[n].named for n in equal):
            return True
        return first > at and any(self.rows[n].summary for n in range(at, first))


def _same_calls(mine: Seen, theirs: Seen) -> bool:
    """The same message with another text: an output that was cut, a summary that was glued to it."""
    return bool(mine.ids) and mine.ids == theirs.ids and mine.role == theirs.role


def _goes(rows: Sequence[Seen], burst_s: float) -> list[int]:
    """A number for each row: the same for neighbours that were stored in one go. Rows without a time each stand alone, and a time
    that goes back begins another one."""
    out: list[int] = []
    go = 0
    for n, row in enumerate(rows):
        before = rows[n - 1].at if n else None
        if n and (row.at is None or before is None or not 0 <= row.at - before <= burst_s):
            go += 1
        out.append(go)
    return out
