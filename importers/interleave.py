"""
Two records of one conversation that were kept one after the other, or in turns, as one.

Pure. Equal words prove nothing: people and models repeat themselves. Rows of both that were stored at one moment with the same
words are one row, copied; one that a copy lacked, and that was put again between the same rows, is one too. A list whose
beginning is known shows again what the other record holds from there, up to the first difference, whatever the clocks say.
Otherwise the order of time says how the rows lie, and a list that the host showed again is recognised by where it was stored: in
one go, behind what the other record ends with just then, and beginning as that ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby, pairwise, takewhile
from math import inf
from typing import NamedTuple

#: So many rows in a row are no coincidence in the middle of a list. At its beginning one is none, where more follows.
_ENOUGH = 3


class Mark(NamedTuple):
    """One row: what it says, and when it was stored."""

    digest: bytes
    at: float


@dataclass(slots=True)
class Woven:
    """``same``: a row there to the row here that it is. ``behind``: any other row there to how many rows here lie before it.

    ``gone``: rows here that the list there did not show any more when it went on.
    """

    same: dict[int, int] = field(default_factory=dict)
    behind: dict[int, int] = field(default_factory=dict)
    gone: list[int] = field(default_factory=list)


class _Row(NamedTuple):
    here: int | None
    there: int | None


def interleave(here: Sequence[Mark], there: Sequence[Mark], listed: Sequence[int] = ()) -> Woven:
    """Place the rows there between the rows here. Both are in their order; so is what comes out.

    ``listed``: the rows here that the list with which the other record begins should show, from its first message on.
    """
    out = Woven()
    ours, others = _Record(here), _Record(there)
    copies = _anchored(ours, others, listed)
    copied = frozenset(copies.values())
    thread: list[_Row] = []
    for mine, theirs in _goes(ours, others):
        new = list(takewhile(lambda n: n not in copied, mine))
        _weave(thread, new, _repeated(thread, [here[n].digest for n in new], there, of_here=True), of_here=True)
        added = list(takewhile(lambda n: n not in copies, theirs))
        _weave(thread, added, _repeated(thread, [there[n].digest for n in added], here, of_here=False), of_here=False)
        thread.extend(_rest(mine[len(new) :], theirs[len(added) :], copies))
    before = 0
    for row in thread:
        if row.here is not None:
            before += 1
            if row.there is not None:
                out.same[row.there] = row.here
        elif row.there is not None:
            out.behind[row.there] = before
    out.gone = _gone(here, there, copies, out)
    return out


def _gone(here: Sequence[Mark], there: Sequence[Mark], copies: Mapping[int, int], woven: Woven) -> list[int]:
    """Rows here behind the last one that the list there showed, stored before it went on with other words."""
    last = max(copies, default=-1)
    new = next((n for n in range(last + 1, len(there)) if n in woven.behind), None)
    if last < 0 or new is None:
        return []
    began, same = min(there[n].at for n in woven.behind), set(woven.same.values())
    between = range(woven.same[new - 1] + 1, woven.behind[new])
    return [n for n in between if n not in same and here[n].at <= began]


def _copies(here: Sequence[Mark], there: Sequence[Mark]) -> dict[int, int]:
    """Rows there that are rows here: the same words, stored at the same moment."""
    known: dict[Mark, list[int]] = {}
    for n in range(len(here) - 1, -1, -1):
        known.setdefault(here[n], []).append(n)
    return {n: known[mark].pop() for n, mark in enumerate(there) if known.get(mark)}


class _Record:
    """Rows of one record, and when they came into it: no row before its predecessor."""

    def __init__(self, rows: Sequence[Mark]) -> None:
        self.rows, self.at = rows, _steady(rows)

    def was_put(self, n: int) -> bool:
        """Was a row put between older ones, or stored by a clock that was wrong?"""
        return self.at[n] != self.rows[n].at

    def in_a_go(self, n: int) -> bool:
        """Was a row stored together with one beside it?"""
        return any(row.at == self.rows[n].at for row in (*self.rows[max(0, n - 1) : n], *self.rows[n + 1 : n + 2]))

    def hold(self, anchors: Mapping[int, float]) -> None:
        """Fixed times for some rows; each other row gets a time between its fixed neighbours."""
        low, rest = -inf, sorted(anchors.items())
        for (start, at), (stop, until) in pairwise([(-1, low), *rest, (len(self.at), inf)]):
            for n in range(start + 1, stop):
                self.at[n] = min(max(self.at[n], at), until)
        for n, at in rest:
            self.at[n] = at


def _anchored(here: _Record, there: _Record, listed: Sequence[int]) -> dict[int, int]:
    """Rows there that are rows here; from now on both came at one moment, and what lies between them comes between."""
    copies = _in_order(_copies(here.rows, there.rows))
    times = {n: here.at[twin] for n, twin in copies.items()}
    for n, twin in _put_again(here, there, copies).items():
        copies[n], times[n] = twin, here.at[twin] if there.was_put(n) else there.at[n]
    for n, twin in _listed(here, there, _in_order(copies), listed).items():
        copies[n], times[n] = twin, min(here.at[twin], there.at[n])
    copies = _in_order(copies)
    order = sorted(copies)
    steady = dict(zip(order, accumulate((times[n] for n in order), max), strict=True))
    here.hold({copies[n]: at for n, at in steady.items()})
    there.hold(steady)
    return copies


def _in_order(pairs: Mapping[int, int]) -> dict[int, int]:
    """Of pairs of rows the most that lie in the same order in both records."""
    rows = sorted(pairs.items())
    kept = _longest([float(twin) for _, twin in rows])
    return {n: twin for k, (n, twin) in enumerate(rows) if k in kept}


def _put_again(here: _Record, there: _Record, copies: Mapping[int, int]) -> dict[int, int]:
    """Rows that one record holds between two copies, and the other too, but younger than what follows them.

    A page that could not be read kept them out of the copy, and the list that shows them brought them back.
    """
    out: dict[int, int] = {}
    before, done = -1, -1
    for theirs, mine in sorted(copies.items()):
        at = done + 1
        for n in range(before + 1, theirs):
            alike = (k for k in range(at, mine) if here.rows[k].digest == there.rows[n].digest)
            twin = next((k for k in alike if here.was_put(k) or there.was_put(n)), None)
            if twin is not None:
                out[n], at = twin, twin + 1
        before, done = theirs, mine
    return out


def _listed(here: _Record, there: _Record, copies: Mapping[int, int], listed: Sequence[int]) -> dict[int, int]:
    """Rows of the list that a record began with: behind what it has copies of, in the places that the list should show.

    Rows that were stored alone in both records were said twice; behind a copy no list shows what was said later.
    """
    last = max(copies, default=-1)
    places = [n for n in listed if n > copies.get(last, -1)]
    out: dict[int, int] = {}
    for n, twin in enumerate(places[: len(there.rows) - last - 1], last + 1):
        mine, theirs = here.rows[twin], there.rows[n]
        said_twice = not (here.in_a_go(twin) or there.in_a_go(n)) or (copies and mine.at > theirs.at)
        if mine.digest != theirs.digest or said_twice:
            break
        out[n] = twin
    return out


def _goes(here: _Record, there: _Record) -> Iterator[tuple[list[int], list[int]]]:
    """Rows that were stored at one moment, here and there, in the order of time."""
    every = [(at, mine, n) for mine, record in ((True, here), (False, there)) for n, at in enumerate(record.at)]
    for _, rows in groupby(sorted(every, key=lambda row: (row[0], row[2])), key=lambda row: row[0]):
        both = list(rows)
        yield [n for _, mine, n in both if mine], [n for _, mine, n in both if not mine]


def _rest(mine: Sequence[int], theirs: Sequence[int], copies: Mapping[int, int]) -> Iterator[_Row]:
    """Rows of one moment from the first that both have: each record keeps its order around those."""
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
    """Which of some values make the longest run of which none is below its predecessor."""
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


def _repeated(
    thread: Sequence[_Row], shown: Sequence[bytes], others: Sequence[Mark], *, of_here: bool
) -> tuple[int, int]:
    """(from where on, how many) of rows that were stored in one go repeat the end of what the other record holds alone."""
    alone: list[bytes] = []  # the last one first
    for row in reversed(thread):
        mine, theirs = (row.here, row.there) if of_here else (row.there, row.here)
        if mine is not None or theirs is None or len(alone) == len(shown):
            break
        alone.append(others[theirs].digest)
    best = (0, 0)
    for end in (n for n, digest in enumerate(shown) if alone and digest == alone[0]):
        count = sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(alone, reversed(shown[: end + 1]), strict=False))
        )
        start = end + 1 - count
        if count > best[1] and (count >= _ENOUGH or (start == 0 and (len(shown) > 1 or len(thread) == 1))):
            best = (start, count)
    return best


def _weave(thread: list[_Row], rows: Sequence[int], repeats: tuple[int, int], *, of_here: bool) -> None:
    """Put rows that were stored in one go behind the others; those that repeat the end are that end."""
    start, count = repeats
    made = [_Row(n, None) if of_here else _Row(None, n) for n in rows]
    end = thread[len(thread) - count :]
    del thread[len(thread) - count :]
    one = [_Row(n, row.there) if of_here else _Row(row.here, n) for n, row in zip(rows[start:], end, strict=False)]
    thread += [*made[:start], *one, *made[start + count :]]
