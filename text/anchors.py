"""
Where any of many literals stand in a text, fast.

Pure. Works on a copy with one byte a character, in which C looks for literals. Those that end in a sign which is rare in most
texts are all looked for where that sign stands, those that begin with a capital where capitals stand; the others, and all where
these are not rare, one by one. Linear in any case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_SIGNS: Final = b"_-="
_RARE: Final = 16  # characters for one sign: below that looking one by one is faster
_NO_CAPITALS: Final = bytes(n for n in range(256) if not 65 <= n <= 90)


class Anchors(Generic[T]):
    """Literals (in any case, unless a capital stands in them) and what each of them is for."""

    def __init__(self, wanted: Sequence[tuple[str, T]]) -> None:
        self._exact: dict[bytes, list[T]] = {}
        self._folded: dict[bytes, list[T]] = {}
        for anchor, goal in wanted:
            table = self._folded if anchor == anchor.lower() else self._exact
            table.setdefault(anchor.encode("ascii"), []).append(goal)
        self._capitals = _initials([anchor for anchor in self._exact if anchor[:1].isupper()])
        self._grouped = {sign: found for sign in _SIGNS if (found := _group(sign, self._folded))}

    def places(self, text: str) -> Iterator[tuple[int, str, T]]:
        """(where, literal, what it is for); in order for each literal, literals in no particular order."""
        raw = text.encode("ascii", "replace")
        low = raw.lower()
        apart = dict(self._folded)
        for sign, (pattern, anchors) in self._grouped.items():
            if low.count(sign) * _RARE > len(low):
                continue
            for anchor in anchors:
                del apart[anchor]
            for hit in pattern.finditer(low):
                anchor = anchors[(hit.lastindex or 1) - 1]
                for goal in self._folded[anchor]:
                    yield hit.end() - len(anchor), anchor.decode("ascii"), goal
        yield from _each(low, apart)
        if self._capitals is None or len(raw.translate(None, _NO_CAPITALS)) * _RARE > len(raw):
            yield from _each(raw, self._exact)
            return
        for hit in self._capitals.finditer(raw):
            anchor = raw[hit.start() : hit.end() + 1]
            for goal in self._exact[anchor]:
                yield hit.start(), anchor.decode("ascii"), goal
        yield from _each(raw, {anchor: goals for anchor, goals in self._exact.items() if not anchor[:1].isupper()})


def _group(sign: int, anchors: dict[bytes, list[T]]) -> tuple[re.Pattern[bytes], list[bytes]] | None:
    """A pattern that begins with the sign, so that nothing but the sign is looked for. None of its literals ends another one."""
    ending = [anchor for anchor in anchors if anchor[-1] == sign]
    mine = [one for one in ending if not any(other != one and other.endswith(one) for other in ending)]
    if len(mine) < 2:
        return None
    behind = b"|".join(b"(?<=(" + re.escape(anchor) + b"))" for anchor in mine)
    end = re.escape(bytes([sign]))
    before = b"".join(sorted({re.escape(anchor[-2:-1]) for anchor in mine}))
    return re.compile(end + b"(?<=[" + before + b"]" + end + b")(?:" + behind + b")"), mine


def _initials(anchors: Sequence[bytes]) -> re.Pattern[bytes] | None:
    """A pattern of literals with different beginnings. It takes all but the last character, with which another may begin."""
    begins = {anchor[:-1] for anchor in anchors}
    if len(begins) < max(2, len(anchors)):
        return None
    return re.compile(b"|".join(re.escape(a[:-1]) + b"(?=" + re.escape(a[-1:]) + b")" for a in anchors))


def _each(raw: bytes, anchors: dict[bytes, list[T]]) -> Iterator[tuple[int, str, T]]:
    for anchor, goals in anchors.items():
        name = anchor.decode("ascii")
        at = raw.find(anchor)
        while at >= 0:
            for goal in goals:
                yield at, name, goal
            at = raw.find(anchor, at + 1)
