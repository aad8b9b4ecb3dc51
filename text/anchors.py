"""
Where any of many literals stand in a text, fast.

Pure. Works on a copy with one byte a character. Each literal has a pivot, the rarest character in it; C jumps from pivot to pivot
and looks around each for all the literals that have it. Where a pivot is not rare in a text, its literals are looked for one by
one. Linear in any case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_PIVOTS: Final = b"_-=:JKDPSA9kbpc"  # rare ones first, as texts go; a literal without any has its first character
#: Looking at one pivot costs as much as looking for one literal through so many characters.
_HOP: Final = 75
_RARE: Final = 12  # where one character in so many is the pivot, many of them belong to literals
_STEP: Final = 61  # one character in so many is looked at to see how rare a pivot is


class Anchors(Generic[T]):
    """Literals (in any case, unless a capital stands in them) and what each of them is for.

    Each comes as (literal, characters of which one must stand in the text as well or it counts for nothing, goal).
    """

    def __init__(self, wanted: Sequence[tuple[str, str, T]]) -> None:
        self._goals: dict[bytes, list[tuple[bytes, T]]] = {}
        for anchor, needs, goal in wanted:
            self._goals.setdefault(anchor.encode("ascii"), []).append((needs.encode("ascii"), goal))
        self._needs = {needs for goals in self._goals.values() for needs, _ in goals}
        by_pivot: dict[tuple[bool, int], list[bytes]] = {}
        for literal in self._goals:
            pivot = next((each for each in _PIVOTS if each in literal), literal[0])
            by_pivot.setdefault((literal != literal.lower(), pivot), []).append(literal)
        self._groups = [_Group(pivot, anchors, exact=exact) for (exact, pivot), anchors in by_pivot.items()]

    def places(self, text: str) -> Iterator[tuple[list[int], T]]:
        """(everywhere a literal stands, in order; what it is for), as given. Only of literals that do stand somewhere."""
        raw = text.encode("ascii", "replace")
        low = raw.lower()
        met = {needs for needs in self._needs if not needs or any(bytes((each,)) in raw for each in needs)}
        useful = {anchor for anchor, goals in self._goals.items() if any(needs in met for needs, _ in goals)}
        copies = ((low, low[::_STEP]), (raw, raw[::_STEP]))
        found: dict[bytes, list[int]] = {}
        for group in self._groups:
            anchors = [anchor for anchor in group.anchors if anchor in useful]
            if anchors:
                found |= group.places(*copies[group.exact], anchors)
        for anchor, goals in self._goals.items():
            if found.get(anchor):
                yield from ((found[anchor], goal) for needs, goal in goals if needs in met)


class _Group:
    """Literals with one pivot."""

    def __init__(self, pivot: int, anchors: list[bytes], *, exact: bool) -> None:
        self.exact = exact
        self.anchors = anchors
        self._pivot = bytes((pivot,))
        self._ending = [anchor for anchor in anchors if anchor[-1] == pivot and len(anchor) > 1]
        self._inside = [(anchor, anchor.index(self._pivot)) for anchor in anchors if anchor not in self._ending]
        self._size = min((len(anchor) for anchor in self._ending), default=0)
        self._by_tail: dict[bytes, list[bytes]] = {}
        for anchor in self._ending:
            self._by_tail.setdefault(anchor[-self._size :], []).append(anchor)
        self._pattern = self._compiled()

    def _compiled(self) -> re.Pattern[bytes]:
        """Begins with the pivot alone, which is what makes C jump. First cheap looks at one character, then all of it."""
        pivot = re.escape(self._pivot)
        tries: list[bytes] = []
        if self._ending:
            tails = b"|".join(map(re.escape, sorted(self._by_tail)))
            before = [_one_of(anchor[at] for anchor in self._ending) for at in range(-self._size, -1)]
            tries.append(b"(?<=" + b"".join(before) + pivot + b")(?<=" + tails + b")")
        if self._inside:
            whole = b"|".join(
                b"(?=" + re.escape(anchor[at + 1 :]) + b")(?<=" + re.escape(anchor[: at + 1]) + b")"
                for anchor, at in self._inside
            )
            tries.append(b"(?=" + _one_of(anchor[at + 1] for anchor, at in self._inside) + b")(?:" + whole + b")")
        return re.compile(pivot + b"(?:" + b"|".join(tries) + b")")

    def places(self, raw: bytes, sample: bytes, anchors: list[bytes]) -> dict[bytes, list[int]]:
        """Where some of the literals stand, or all of them if that is as cheap."""
        if sample.count(self._pivot) * max(_RARE, _HOP // len(anchors)) > len(sample):
            return {anchor: _each(raw, anchor) for anchor in anchors}
        return self._around(raw)

    def _around(self, raw: bytes) -> dict[bytes, list[int]]:
        out: dict[bytes, list[int]] = {anchor: [] for anchor in self.anchors}
        for hit in self._pattern.finditer(raw):
            at = hit.start()
            for anchor in self._by_tail.get(raw[at + 1 - self._size : at + 1], ()) if at >= self._size - 1 else ():
                if raw.endswith(anchor, 0, at + 1):
                    out[anchor].append(at + 1 - len(anchor))
            for anchor, offset in self._inside:
                if at >= offset and raw.startswith(anchor, at - offset):
                    out[anchor].append(at - offset)
        return out


def _one_of(characters: Iterable[int]) -> bytes:
    return b"[" + b"".join(sorted({re.escape(bytes((each,))) for each in characters})) + b"]"


def _each(raw: bytes, anchor: bytes) -> list[int]:
    found: list[int] = []
    at = raw.find(anchor)
    while at >= 0:
        found.append(at)
        at = raw.find(anchor, at + 1)
    return found
