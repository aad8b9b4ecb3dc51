"""
Replays in another engine's store: copies of earlier rows that it stored when the host showed its list again.

Pure. Equal words prove nothing by themselves, for people and models repeat themselves. A copy is believed when the whole of what
was shown speaks for it: rows that were stored in one go and that walk, one by one, through the end of what was there before. Rows
of such a list that are new (the engine's own summary in front of the tail) get their place before what follows them there. A
session that goes on behind a compaction begins with such a list, however slowly it was stored. What a row is known to repeat (it
bears the message's lasting id, or is the shortened form of it) needs no other proof, and speaks for its neighbours.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

#: Rows that were stored within so many seconds of each other were stored in one go.
BURST_S = 0.25
#: So many rows in a row are no coincidence; fewer need an id that a provider gave out, or a summary in front of them.
ENOUGH = 4
#: Rows of a list that a new session begins with are stored one by one, but no person or model answers between them.
_WRITTEN_S = 1.0
#: So many rows a compressor keeps at the end of a list, at least.
_LEAST_TAIL = 3
#: Rows of summary at the head of a list: the host's, or this plugin's record and carrier.
_HEADS = 2
_NEAR_END = 8  # rows at the end of the transcript that a replay may lack
_TRIES = 64


class Seen(NamedTuple):
    """One stored row: what it says, when it was stored, and what else speaks for it.

    ``named``: it has the id of a tool call. ``summary``: it looks like a summary that an engine put in front of a list.
    ``apart``: taken back, or no message, so no part of the transcript. ``ids``: of its tool calls, or of the one it answers.
    ``digest`` of a rewritten row is that of what it was before. ``more``: a summary is glued to it.
    ``uid``: the lasting id of the message, which its copies share. ``of``: the row whose shortened form this is.
    ``opens``: it is the first of a session that goes on behind a compaction.
    """

    digest: bytes
    role: str
    at: float | None
    named: bool = False
    summary: bool = False
    apart: bool = False
    ids: tuple[str, ...] = ()
    more: bool = False
    uid: str | None = None
    of: int | None = None
    opens: bool = False


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
    """``transcript``: rows that are no copies, in order; ``known``: the newest of them by digest."""

    def __init__(self, rows: Sequence[Seen], burst_s: float, enough: int) -> None:
        self.rows = rows
        self.enough = enough
        self.out = Replays()
        self.transcript: list[int] = []
        self.known: dict[bytes, int] = {}
        self.stamped: dict[tuple[bytes, float | None], int] = {}
        self.go = _goes(rows, burst_s)  # which go each row was stored in
        self.proven = _proven(rows)

    def run(self) -> Replays:
        start = 0
        while start < len(self.rows):
            stop = start + 1
            while stop < len(self.rows) and self.go[stop] == self.go[start] and not self.rows[stop].opens:
                stop += 1
            behind = self._opening(start) if self.rows[start].opens else None
            if behind is not None:
                start = behind
                continue
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
            again = self._again(at, first, last, stop) if at == start else {}
            if again:
                for n in again.values():
                    self._new(n)
            else:
                self._head(at, first, pairs[first], start)
            self._take(pairs | again)
            at = last + len(again) + 1

    def _again(self, at: int, first: int, last: int, stop: int) -> dict[int, int]:
        """New rows in front of a replay that it ends with, as pairs; none where it does not end with all of them."""
        pairs = dict(zip(range(last + 1, stop), range(at, first), strict=False))
        told = list(map(self._what, pairs)) == list(map(self._what, range(at, first)))
        new = all(not (self.rows[n].summary or self.rows[n].apart or n in self.proven) for n in range(at, first))
        return pairs if told and new else {}

    def _what(self, n: int) -> tuple[bytes, str | None]:
        return self.rows[n].digest, self.rows[n].uid

    def _opening(self, start: int) -> int | None:
        """The row behind the list that a session begins with; None when it begins with none.

        Head, summary and tail, nothing else: behind the summary come the last rows of the transcript, all of them.
        """
        stop = start + 1
        while stop < len(self.rows) and not self.rows[stop].opens and self._same_writing(stop):
            stop += 1
        for last in range(stop - 1, start - 1, -1):
            pairs = self._backwards(last, len(self.transcript) - 1, start)
            if not pairs or min(pairs.values()) >= start:
                continue
            first = min(pairs)
            sure = len(pairs) >= _LEAST_TAIL or any(self.rows[n].named or self._is_proven(n, pairs[n]) for n in pairs)
            if sure and self._is_front(start, first, glued=any(self.rows[n].more for n in pairs)):
                self._head(start, first, pairs[first], start)
                self._take(pairs)
                return last + 1
        return None

    def _is_front(self, start: int, first: int, *, glued: bool) -> bool:
        """Is this what may stand in front of a list's tail: protected rows, a summary, a request that was kept behind it?

        ``glued``: the tail bears the summary.
        """
        rows = [n for n in range(start, first) if not self.rows[n].apart or self.rows[n].summary]
        at = [k for k, n in enumerate(rows) if self.rows[n].summary] or [len(rows)] * glued
        if not at or len(at) > _HEADS or at[-1] - at[0] >= len(at):
            return False
        behind = [self.rows[n] for n in rows[at[0] + len(at) :]] if not glued else []
        kept = not behind or (
            len(behind) == 1 and self.known.get(behind[0].digest, start) < start and not behind[0].named
        )
        return kept and all(self._is_head(n, k) for k, n in enumerate(rows[: at[0]]))

    def _same_writing(self, n: int) -> bool:
        """Was this row stored with the one in front of it, or does it bear the time of what it repeats?"""
        row, above = self.rows[n].at, self.rows[n - 1].at
        if row is None or above is None:
            return False
        return 0 <= row - above <= _WRITTEN_S or row < above or (self.rows[n].digest, row) in self.stamped

    def _is_head(self, n: int, k: int) -> bool:
        """Is this the k-th row of the transcript, which the compressor protects?"""
        if n in self.proven:
            return True
        if k >= len(self.transcript):
            return False
        row, there = self.rows[n], self.rows[self.transcript[k]]
        return row.digest == there.digest or _same_calls(row, there)

    def _take(self, pairs: Mapping[int, int]) -> None:
        for n, original in pairs.items():
            self._repeat(n, original)
            self._stamp(n)

    def _repeat(self, n: int, original: int) -> None:
        """Row ``n`` is that one again; an edit of it where it says something else, or no more what an engine had glued to it."""
        row, there = self.rows[n], self.rows[original]
        same = row.of is not None or (row.digest == there.digest and row.more >= there.more)
        (self.out.copies if same else self.out.edits)[n] = original

    def _is_proven(self, n: int, original: int) -> bool:
        return self.proven.get(n) == original

    def _new(self, n: int) -> None:
        """A row that no replay explains: new, unless it has the very time of an equal row that was stored in another go."""
        row = self.rows[n]
        if n in self.proven:
            self._repeat(n, self.proven[n])
            self._stamp(n)
            return
        if row.apart:
            return
        if self._twin(n):
            return
        if row.digest in self.known and row.named:
            self.out.doubtful += 1
        self._stamp(n)
        self.known[row.digest] = n
        self.transcript.append(n)

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
        """The head of a replayed list, in front of the tail: the first rows of the transcript again, and a summary."""
        for n in range(at, first):
            row, k = self.rows[n], n - at
            if n in self.proven:
                self._repeat(n, self.proven[n])
                self._stamp(n)
                continue
            if row.apart:
                continue
            if (
                k < len(self.transcript)
                and row.digest == self.rows[self.transcript[k]].digest
                and _may_repeat(row, self.rows[self.transcript[k]])
                and self.transcript[k] < anchor
            ):
                self._repeat(n, self.transcript[k])
            elif (
                k < len(self.transcript)
                and self.transcript[k] < anchor
                and _same_calls(row, self.rows[self.transcript[k]])
            ):
                self.out.edits[n] = self.transcript[k]
            elif self._twin(n):
                continue
            elif self.known.get(row.digest, start) < start and _may_repeat(row, self.rows[self.known[row.digest]]):
                # the same summary, a request that was kept
                self.out.copies[n] = self.known[row.digest]
            else:
                self.out.before[n] = anchor
                self._insert(n, anchor)
            self._stamp(n)

    def _insert(self, n: int, anchor: int) -> None:
        """A new row in front of one that is near the end of the transcript."""
        self.known[self.rows[n].digest] = n
        for place in range(len(self.transcript) - 1, -1, -1):
            if self.transcript[place] == anchor:
                self.transcript.insert(place, n)
                return

    # -- replays ------------------------------------------------------------------------------------
    def _replay(self, at: int, where: dict[bytes, list[int]], start: int) -> tuple[int, int, dict[int, int]] | None:
        """(first row, last row, what each repeats) of the longest believable replay from ``at`` on. ``start``: of its go."""
        best: tuple[int, int, dict[int, int]] | None = None
        for missing in range(min(_NEAR_END, len(self.transcript)) if where else 0):
            end = len(self.transcript) - 1 - missing
            places = where.get(self.rows[self.transcript[end]].digest, [])
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
            mine, theirs = self.rows[n], self.rows[self.transcript[end]]
            if mine.apart and n not in self.proven:
                n -= 1
                continue
            proven = self.proven.get(n)
            if proven != self.transcript[end] if proven is not None else not _may_repeat(mine, theirs):
                break
            if proven is None and mine.digest != theirs.digest and not _same_calls(mine, theirs):
                above = (
                    n - 1 >= at and end >= 1 and self.rows[n - 1].digest == self.rows[self.transcript[end - 1]].digest
                )
                if not above or mine.role != theirs.role or mine.summary:
                    break
            pairs[n] = self.transcript[end]
            n, end = n - 1, end - 1
        return pairs

    def _believable(self, pairs: dict[int, int], at: int, missing: int, start: int) -> bool:
        equal = [n for n in pairs if self.rows[n].digest == self.rows[pairs[n]].digest]
        first = min(pairs)
        if min(pairs.values()) >= start:  # nothing but rows of the same go: a list may say the same twice
            return False
        if len(equal) >= self.enough + missing or any(self._is_proven(n, pairs[n]) for n in pairs):
            return True
        if missing:
            return False
        if len(equal) >= 2 and any(self.rows[n].named for n in equal):
            return True
        return first > at and any(self.rows[n].summary for n in range(at, first))


def _may_repeat(mine: Seen, theirs: Seen) -> bool:
    """Has not each its own lasting id? Another text of the same calls may have got a new one."""
    return not (mine.uid and theirs.uid) or mine.uid == theirs.uid or _same_calls(mine, theirs)


def _same_calls(mine: Seen, theirs: Seen) -> bool:
    """Is it the same message with another text: an output that was cut, a summary that was glued to it?"""
    return bool(mine.ids) and mine.ids == theirs.ids and mine.role == theirs.role


def _proven(rows: Sequence[Seen]) -> dict[int, int]:
    """Rows that are known to repeat an earlier one, and the first of these."""
    out: dict[int, int] = {}
    first: dict[tuple[str, str], int] = {}
    for n, row in enumerate(rows):
        original = first.setdefault((row.uid, row.role), n) if row.uid else n
        if original == n and row.of is not None:
            original = row.of
        if original != n:
            out[n] = out.get(original, original)
    return out


def _goes(rows: Sequence[Seen], burst_s: float) -> list[int]:
    """A number for each row: the same for neighbours that were stored in one go. Rows without a time each stand alone, and a time
    that goes back begins another one, unless it is the time of the row that is repeated: then the list goes on behind it."""
    out: list[int] = []
    known: set[tuple[bytes, float | None]] = set()
    go = 0
    before: float | None = None  # the time of the last row that has its own
    waiting = 0  # rows since then that bear the times of what they repeat
    for n, row in enumerate(rows):
        back = row.at is not None and before is not None and (row.at < before or (waiting and row.at == before))
        if back and (row.digest, row.at) in known:
            waiting += 1
            go += 1
        else:
            alone = n and (row.at is None or before is None or not 0 <= row.at - before <= burst_s * (1 + waiting))
            go += bool(alone)
            if waiting and not alone:
                go = out[n - waiting - 1]
                out[n - waiting :] = [go] * waiting
            before, waiting = row.at, 0
        out.append(go)
        if row.at is not None:
            known.add((row.digest, row.at))
    return out
