"""
Two histories of one conversation that were kept one after the other, or in turns, as one.

Pure. The rule: a row there is a row here only where something proves it; whatever is in doubt is kept beside it, and named as
doubtful where it belongs to a list whose beginning nobody knows. Equal words prove nothing: people and models repeat themselves.
Proof is, in this order:

1. the same words, stored at the same moment: one row, copied; and a row that a copy lacked, put again between the same rows;
2. the lists that the other history began with and went on from, each from a place that is known, up to the first difference,
   whatever the clocks say;
3. a run of rows that one history stored in one go, with words among them that each history holds once only.

Everything else lies in the order of time. Nothing is lost so, in whatever order histories are merged; what a list of unknown
beginning repeats in words that are said again and again is there twice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate, groupby, pairwise
from math import inf
from types import MappingProxyType
from typing import NamedTuple

#: So many rows in a row are no coincidence in the middle of a list; where it begins, two are none.
_ENOUGH = 3
#: So many ways around what was taken back are tried; histories that leave more differ from there on.
_WAYS = 100_000


class Mark(NamedTuple):
    """One row: what it says, and when it was stored. ``shown``: from a list of before, so it may be older elsewhere.

    ``also``: when the same row was stored into other files, as far as that is known. ``gone``: it was taken back.
    """

    digest: bytes
    at: float
    shown: bool = False
    also: tuple[float, ...] = ()
    gone: bool = False

    def names(self) -> list[tuple[bytes, float]]:
        """Names of a row: its words, and when it was stored."""
        return [(self.digest, at) for at in (self.at, *self.also)]


@dataclass(slots=True)
class Woven:
    """``same``: a row there to the row here that it is. ``behind``: any other row there to how many rows here lie before it.

    ``gone``: rows here that the list there did not show any more when it went on. ``doubtful``: rows there that may be here too.
    """

    same: dict[int, int] = field(default_factory=dict)
    behind: dict[int, int] = field(default_factory=dict)
    gone: list[int] = field(default_factory=list)
    doubtful: list[int] = field(default_factory=list)


Lists = Mapping[int, Sequence[int] | None]


class _Row(NamedTuple):
    here: int | None
    there: int | None


def interleave(
    here: Sequence[Mark],
    there: Sequence[Mark],
    lists: Lists = MappingProxyType({}),
    resumed: Lists = MappingProxyType({}),
) -> Woven:
    """Place the rows there between the rows here. Both are in their order; so is what comes out.

    ``lists``: rows there with which a list began, the first and those behind a context message, and the rows here that each
    should show, from its first message on; None where nobody knows. ``resumed``: the same of rows here, behind context messages
    that no prompt here explains.
    """
    out = Woven()
    ours, others = _History(here), _History(there)
    copies = _anchored(ours, others, lists, resumed)
    before = 0
    for mine, theirs in _goes(ours, others):
        for row in _around(mine, theirs, copies):
            before += row.here is not None
            if row.there is not None and row.here is not None:
                out.same[row.there] = row.here
            elif row.there is not None:
                out.behind[row.there] = before
    out.gone = _gone(here, there, copies, lists, out)
    for start, stop in _parts(lists, len(there)):
        if lists[start] is None:
            until = min((n for n in copies if n >= start), default=stop)
            out.doubtful += [n for n in range(start, min(stop, until)) if there[n].at == there[start].at]
    return out


def _gone(
    here: Sequence[Mark], there: Sequence[Mark], copies: Mapping[int, int], lists: Lists, woven: Woven
) -> list[int]:
    """Rows here behind the last one that the list there showed, stored before it went on with other words."""
    last = max(copies, default=-1)
    new = next((n for n in range(last + 1, len(there)) if n in woven.behind), None)
    if last < 0 or new is None or not _goes_on(last, new, lists):
        return []
    began, same = min(there[n].at for n in woven.behind), set(woven.same.values())
    between = range(woven.same[new - 1] + 1, woven.behind[new])
    return [n for n in between if n not in same and here[n].at <= began]


def _goes_on(last: int, new: int, lists: Lists) -> bool:
    """Does the list that shows row ``new`` there go on from row ``last``? Behind a context message begins another list."""
    start = max((n for n in lists if n <= new), default=-1)
    return start <= last and lists.get(start) is not None


def _parts(lists: Lists, size: int) -> Iterator[tuple[int, int]]:
    """The rows of each list: where it begins, and where the next one does."""
    return pairwise([*sorted(n for n in lists if n < size), size])


def _copies(here: Sequence[Mark], there: Sequence[Mark]) -> dict[int, int]:
    """Rows there that are rows here: the same words, stored at the same moment."""
    known: dict[tuple[bytes, float], list[int]] = {}
    for n, row in enumerate(here):
        for name in row.names():
            known.setdefault(name, []).append(n)
    out: dict[int, int] = {}
    taken: set[int] = set()
    for n, row in enumerate(there):
        twin = next((each for name in row.names() for each in known.get(name, ()) if each not in taken), None)
        if twin is not None:
            out[n] = twin
            taken.add(twin)
    return out


class _History:
    """Rows of one history, and when they came into it: no row before its predecessor."""

    def __init__(self, rows: Sequence[Mark]) -> None:
        self.rows, self.at = rows, _steady(rows)

    def was_put(self, n: int) -> bool:
        """Was a row put between older ones, or stored by a clock that was wrong?"""
        return self.at[n] != self.rows[n].at

    def begins_a_list(self, n: int) -> bool:
        return self.rows[n].shown and (n == 0 or self.rows[n - 1].at != self.rows[n].at)

    def hold(self, anchors: Mapping[int, float]) -> None:
        """Fixed times for some rows; each other row gets a time between its fixed neighbours."""
        low, rest = -inf, sorted(anchors.items())
        for (start, at), (stop, until) in pairwise([(-1, low), *rest, (len(self.at), inf)]):
            for n in range(start + 1, stop):
                self.at[n] = min(max(self.at[n], at), until)
        for n, at in rest:
            self.at[n] = at


def _anchored(here: _History, there: _History, lists: Lists, resumed: Lists) -> dict[int, int]:
    """Rows there that are rows here; from now on both came at one moment, and what lies between them comes between."""
    copies = _in_order(_copies(here.rows, there.rows))
    times = {n: here.at[twin] for n, twin in copies.items()}
    for n, twin in _listed(here, there, copies, lists).items():
        copies[n], times[n] = twin, min(here.at[twin], there.at[n])
    for n, twin in _put_again(here, there, copies).items():
        copies[n], times[n] = twin, here.at[twin] if there.was_put(n) else there.at[n]
    for twin, n in _listed(there, here, {mine: n for n, mine in _in_order(copies).items()}, resumed).items():
        copies[n], times[n] = twin, min(here.at[twin], there.at[n])
    for n, twin in _runs(here, there, _in_order(copies)).items():
        copies[n], times[n] = twin, min(here.at[twin], there.at[n])
    copies = _in_order(copies)
    order = sorted(copies)
    steady = dict(zip(order, accumulate((times[n] for n in order), max), strict=True))
    here.hold({copies[n]: at for n, at in steady.items()})
    there.hold(steady)
    return copies


def _in_order(pairs: Mapping[int, int]) -> dict[int, int]:
    """Of pairs of rows the most that lie in the same order in both histories."""
    rows = sorted(pairs.items())
    kept = _longest([float(twin) for _, twin in rows])
    return {n: twin for k, (n, twin) in enumerate(rows) if k in kept}


def _put_again(here: _History, there: _History, copies: Mapping[int, int]) -> dict[int, int]:
    """Rows that one history holds between two copies, and the other too, but younger than what follows them.

    A page that could not be read kept them out of the copy, and the list that shows them brought them back.
    """
    out: dict[int, int] = {}
    before, done = -1, -1
    for theirs, mine in sorted(copies.items()):
        at = done + 1
        for n in range(before + 1, theirs):
            alike = (
                k for k in range(at, mine) if here.rows[k].digest == there.rows[n].digest and not here.rows[k].gone
            )
            twin = next((k for k in alike if here.was_put(k) or there.was_put(n)), None)
            if twin is not None:
                out[n], at = twin, twin + 1
        before, done = theirs, mine
    return out


def _listed(here: _History, there: _History, copies: Mapping[int, int], lists: Lists) -> dict[int, int]:
    """Rows of lists that a history began with: around what it has copies of, in the places that each list should show.

    Rows that were stored alone in both histories were said twice; behind the last copy no list shows what was said later, but
    what came later may itself show what was there.
    """
    last = max(copies, default=len(there.rows))

    def same(n: int, twin: int) -> bool:
        mine, theirs = here.rows[twin], there.rows[n]
        said_twice = not mine.shown and (not theirs.shown or (n > last and here.at[twin] > there.at[n]))
        return mine.digest == theirs.digest and not said_twice

    out: dict[int, int] = {}
    for theirs, places in _shown(here.rows, copies, lists, len(there.rows)):
        out.update(_walked(there.rows, here.rows, theirs, places, same))
    return out


def _shown(
    here: Sequence[Mark], copies: Mapping[int, int], lists: Lists, there: int
) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Rows there between two copies, and the rows here that the list should show there, or showed before they were taken back."""
    order = sorted(copies.items())
    for start, stop in _parts(lists, there):
        listed = _with_gone(lists[start] or (), here)
        known = [(n, twin) for n, twin in order if start <= n < stop]
        for (before, low), (behind, high) in pairwise([(start - 1, -1), *known, (stop, len(here))]):
            yield range(before + 1, behind), listed[bisect_right(listed, low) : bisect_left(listed, high)]


def _with_gone(listed: Sequence[int], here: Sequence[Mark]) -> list[int]:
    """Places of a list, and of the rows taken back that stand around each of them."""
    out: list[int] = []
    for n in listed[:1]:
        first = next((k for k in range(n, 0, -1) if not here[k - 1].gone), 0)
        out += range(first, n)
    for n in listed:
        stop = next((k for k in range(n + 1, len(here)) if not here[k].gone), len(here))
        out += range(n, stop)
    return out


def _walked(
    there: Sequence[Mark], here: Sequence[Mark], theirs: Sequence[int], places: Sequence[int],
    same: Callable[[int, int], bool],
) -> dict[int, int]:  # fmt: skip
    """Pairs of rows of two lists, from their beginnings on; as many as can be where only what was taken back is left out."""
    best = {(0, 0): (0, 0)}  # so many pairs up to there, and so many of them of rows that are shown
    ways: dict[tuple[int, int], tuple[int, int]] = {}
    todo, most = [(0, 0, 0)], _WAYS + len(theirs) + len(places)
    while todo and len(best) < most:
        _, i, j = heappop(todo)
        n, twin = theirs[i : i + 1], places[j : j + 1]
        steps = [(1, 0)] * any(there[k].gone for k in n) + [(0, 1)] * any(here[k].gone for k in twin)
        if n and twin and same(n[0], twin[0]):
            steps.append((1, 1))
        for down, along in steps:
            count, shown = best[i, j]
            if down and along:
                count, shown = count + 1, shown + (not there[n[0]].gone and not here[twin[0]].gone)
            to = i + down, j + along
            if to not in best:
                heappush(todo, (sum(to), *to))
            if (count, shown) > best.get(to, (-1, 0)):
                best[to], ways[to] = (count, shown), (i, j)
    at, out = max(best, key=lambda each: (best[each], -sum(each))), dict[int, int]()
    while at in ways:
        i, j = ways[at]
        if at == (i + 1, j + 1):
            out[theirs[i]] = places[j]
        at = i, j
    return out


def _runs(here: _History, there: _History, copies: Mapping[int, int]) -> dict[int, int]:
    """Runs of equal rows, stored in one go here or there, with words among them that both histories hold once only.

    No list shows what was taken back here.
    """
    free = _free(len(here.rows), len(there.rows), copies)
    mine = [n for n, row in enumerate(here.rows) if not row.gone]

    def shown(n: int, by: int) -> bool:
        """May a list have shown this row again? Rows that were stored alone in both histories were said twice."""
        return (
            0 <= n < len(free) and 0 <= n + by < len(mine) and (twin := mine[n + by]) in free[n]
            and there.rows[n].digest == here.rows[twin].digest and (there.rows[n].shown or here.rows[twin].shown)
        )  # fmt: skip

    once = _once([here.rows[n] for n in mine])
    out: dict[int, int] = {}
    for digest, n in _once(there.rows).items():
        by = once.get(digest, -1) - n
        if n in out or not shown(n, by):
            continue
        first = last = n
        while shown(first - 1, by):
            first -= 1
        while shown(last + 1, by):
            last += 1
        begins = first == 0 or here.begins_a_list(mine[first + by])
        if last - first + 1 >= (_ENOUGH - 1 if begins else _ENOUGH):
            out.update((k, mine[k + by]) for k in range(first, last + 1))
    return out


def _free(here: int, there: int, copies: Mapping[int, int]) -> list[range]:
    """Rows here that each row there may be, between the copies around it."""
    out: list[range] = []
    low = 0
    for n, twin in [*sorted(copies.items()), (there, here)]:
        out += [range(low, twin)] * (n - len(out))
        out += [range(0)]
        low = twin + 1
    return out[:there]


def _once(rows: Sequence[Mark]) -> dict[bytes, int]:
    """Words that a history holds once only, and where."""
    often = Counter(row.digest for row in rows)
    return {row.digest: n for n, row in enumerate(rows) if often[row.digest] == 1}


def _goes(here: _History, there: _History) -> Iterator[tuple[list[int], list[int]]]:
    """Rows that were stored at one moment, here and there, in the order of time."""
    every = [(at, mine, n) for mine, history in ((True, here), (False, there)) for n, at in enumerate(history.at)]
    for _, rows in groupby(sorted(every, key=lambda row: (row[0], row[2])), key=lambda row: row[0]):
        both = list(rows)
        yield [n for _, mine, n in both if mine], [n for _, mine, n in both if not mine]


def _around(mine: Sequence[int], theirs: Sequence[int], copies: Mapping[int, int]) -> Iterator[_Row]:
    """Rows of one moment: each history keeps its order around those that both have."""
    at = {row: n for n, row in enumerate(mine)}
    done = 0
    for n in theirs:
        if (twin := at.get(copies.get(n, -1))) is None or twin < done:
            yield _Row(None, n)
            continue
        yield from (_Row(row, None) for row in mine[done:twin])
        yield _Row(mine[twin], n)
        done = twin + 1
    yield from (_Row(row, None) for row in mine[done:])


def _steady(rows: Sequence[Mark]) -> list[float]:
    """Times at which rows were stored, no row before its predecessor.

    One that was put between older ones, or stored by a clock that was wrong for a while, goes with the next that was not.
    """
    kept = _longest([row.at for row in rows])
    out: list[float] = []
    following = rows[max(kept)].at if kept else 0.0
    for n in range(len(rows) - 1, -1, -1):
        following = rows[n].at if n in kept else following
        out.append(following)
    return out[::-1]


def _longest(values: Sequence[float]) -> set[int]:
    """Longest run of values of which none is below its predecessor: their places."""
    ends: list[float] = []
    last: list[int] = []  # which one ends the best run of each length
    back: list[int] = []
    for n, value in enumerate(values):
        k = bisect_right(ends, value)
        ends[k : k + 1], last[k : k + 1] = [value], [n]
        back.append(last[k - 1] if k else -1)
    kept: set[int] = set()
    n = last[-1] if last else -1
    while n >= 0:
        kept.add(n)
        n = back[n]
    return kept
