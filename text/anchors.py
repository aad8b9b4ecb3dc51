"""
Where any of many literals stand in a text, fast.

Pure. Works on a copy with one byte a character. Each literal has a pivot, the rarest character in it. Where that is hardly ever
in a text, Python looks around each; where it is rare, C does, for all the literals that have it; else they are looked for one by
one: whatever costs least by a sample. What holds another literal, or stands before one, is found from there. Linear in any case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_PIVOTS: Final = b"x_-=:JKDPSA9kbpc"  # rare ones first, as texts go; a literal without any has its first character
_STEP: Final = 61  # one character in so many is looked at to see how rare a pivot is
# What a search costs: so much a character, and so much where the pivot stands.
_HOP: Final = (0.05, 700)
_AROUND: Final = (0.65, 45)
_ONE: Final = (0.8, 0.5)  # for a literal, and for a long one
_LONG: Final = 10
#: Characters that are encoded at once: most slices of a text that is not all ASCII still are, which is much cheaper.
_SLICE: Final = 4096
#: Between a literal and the one that must follow (or one of several, with ``OR`` between), with one character between at most.
BEFORE: Final = "\u2026"
OR: Final = "|"
_LIKE_ASCII: Final = "\u212a\u017f"  # the letters that patterns in any case take for k and s


def plain(text: str) -> bytes:
    """The text with one byte a character; what is not ASCII becomes a question mark."""
    if text.isascii():
        return text.encode("ascii")
    return b"".join([text[at : at + _SLICE].encode("ascii", "replace") for at in range(0, len(text), _SLICE)])


class Anchors(Generic[T]):
    """Literals (in any case, unless a capital stands in them) and what each of them is for.

    Each comes as (literal, characters of which one must stand in the text as well or it counts for nothing, goal). A literal may
    be "a…b" or "a…b|c": where a stands with b (or c) behind it, or behind one more character.
    """

    def __init__(self, wanted: Sequence[tuple[str, str, T]]) -> None:
        self._goals: dict[str, list[tuple[bytes, T]]] = {}
        for anchor, needs, goal in wanted:
            self._goals.setdefault(anchor, []).append((needs.encode("ascii"), goal))
        self._needs = {needs for goals in self._goals.values() for needs, _ in goals}
        self._source = {anchor: _source(anchor, self._goals) for anchor in self._goals}
        by_pivot: dict[tuple[bool, int], list[bytes]] = {}
        for literal in dict.fromkeys(source.encode("ascii") for source in self._source.values()):
            pivot = next((each for each in _PIVOTS if each in literal), literal[0])
            by_pivot.setdefault((literal != literal.lower(), pivot), []).append(literal)
        self._groups = [_Group(pivot, anchors, exact=exact) for (exact, pivot), anchors in by_pivot.items()]

    def places(self, text: str, raw: bytes | None = None) -> Iterator[tuple[list[int], T]]:
        """(everywhere a literal stands, in order; what it is for), as given. Only of literals that do stand somewhere.

        ``raw``: what ``plain`` makes of the text, where that is at hand.
        """
        raw = plain(text) if raw is None else raw
        met = {needs for needs in self._needs if not needs or any(bytes((each,)) in raw for each in needs)}
        useful = {anchor for anchor, goals in self._goals.items() if any(needs in met for needs, _ in goals)}
        if not useful:
            return
        low = raw.lower()
        sources = {self._source[anchor].encode("ascii") for anchor in useful}
        copies = ((low, low[::_STEP]), (raw, raw[::_STEP]))
        found: dict[bytes, list[int]] = {}
        for group in self._groups:
            anchors = [anchor for anchor in group.anchors if anchor in sources]
            if anchors:
                found |= group.places(*copies[group.exact], anchors)
        odd = not text.isascii() and any(char in text for char in _LIKE_ASCII)
        for anchor, goals in self._goals.items():
            if anchor in useful:
                exact = anchor != anchor.lower()
                places = self._derived(anchor, found, raw if exact else low, odd=odd)
                if places:
                    yield from ((places, goal) for needs, goal in goals if needs in met)

    def _derived(self, anchor: str, found: dict[bytes, list[int]], raw: bytes, *, odd: bool) -> list[int]:
        """Where a literal stands, from where its source does."""
        source = self._source[anchor]
        places = found.get(source.encode("ascii"), [])
        if anchor == source:
            return places
        first, _, then = anchor.partition(BEFORE)
        literal = first.encode("ascii")
        if not then:
            offset = anchor.lower().index(source)
            return [at - offset for at in places if at >= offset and raw.startswith(literal, at - offset)]
        if odd:  # what follows may not be written in ASCII
            return _each(raw, literal)
        size, last = len(literal), literal[-1]
        if first == source:
            thens = tuple(then.encode("ascii").split(OR.encode("ascii")))
            return [at for at in places if raw.startswith(thens, at + size) or raw.startswith(thens, at + size + 1)]
        out: list[int] = []
        for at in places:
            if at > size and raw[at - 2] == last and raw.endswith(literal, at - 1 - size, at - 1):
                out.append(at - 1 - size)
            if at >= size and raw[at - 1] == last and raw.endswith(literal, at - size, at):
                out.append(at - size)
        return out


def _source(anchor: str, anchors: Iterable[str]) -> str:
    """The literal that is looked for where this one is wanted."""
    first, _, then = anchor.partition(BEFORE)
    if then:
        return first if OR in then else then
    inside = [each for each in anchors if BEFORE not in each and each == each.lower() and each in anchor.lower()]
    return min([*inside, anchor], key=len)


class _Group:
    """Literals with one pivot."""

    def __init__(self, pivot: int, anchors: list[bytes], *, exact: bool) -> None:
        self.exact = exact
        self.anchors = anchors
        self._pivot = bytes((pivot,))
        self._ending = [anchor for anchor in anchors if anchor[-1] == pivot and len(anchor) > 1]
        self._inside = [(anchor, anchor.index(self._pivot)) for anchor in anchors if anchor not in self._ending]
        self._size = min((len(anchor) for anchor in self._ending), default=0)
        #: Can C say which one stands at a place? Where it is one at most.
        self._told = not self._ending and not any(_meet(a, b) for a, b in combinations(self._inside, 2))
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
                b"(?="
                + re.escape(anchor[at + 1 :])
                + b")(?<="
                + re.escape(anchor[: at + 1])
                + b")"
                + b"()" * self._told
                for anchor, at in self._inside
            )
            tries.append(b"(?=" + _one_of(anchor[at + 1] for anchor, at in self._inside) + b")(?:" + whole + b")")
        return re.compile(pivot + b"(?:" + b"|".join(tries) + b")")

    def places(self, raw: bytes, sample: bytes, anchors: list[bytes]) -> dict[bytes, list[int]]:
        """Where some of the literals stand, or all of them if that is as cheap."""
        share = sample.count(self._pivot) / max(1, len(sample))
        hop, around = (each + share * hit for each, hit in (_HOP, _AROUND))
        if sum(_ONE[len(anchor) >= _LONG] for anchor in anchors) < min(hop, around):
            return {anchor: _each(raw, anchor) for anchor in anchors}
        if hop < around:
            fits = self._pattern.match
            hits: Iterable[re.Match[bytes]] = (hit for at in _each(raw, self._pivot) if (hit := fits(raw, at)))
        else:
            hits = self._pattern.finditer(raw)
        return self._said(hits) if self._told else self._around(raw, (hit.start() for hit in hits))

    def _said(self, hits: Iterable[re.Match[bytes]]) -> dict[bytes, list[int]]:
        """Which literals stand where the pattern fits, as it tells itself."""
        out: dict[bytes, list[int]] = {anchor: [] for anchor, _ in self._inside}
        each = [(out[anchor].append, offset) for anchor, offset in self._inside]
        for hit in hits:
            append, offset = each[hit.lastindex - 1]  # type: ignore[operator] # every way through has a group
            append(hit.start() - offset)
        return out

    def _around(self, raw: bytes, hits: Iterable[int]) -> dict[bytes, list[int]]:
        out: dict[bytes, list[int]] = {anchor: [] for anchor in self.anchors}
        for at in hits:
            for anchor in self._by_tail.get(raw[at + 1 - self._size : at + 1], ()) if at >= self._size - 1 else ():
                if raw.endswith(anchor, 0, at + 1):
                    out[anchor].append(at + 1 - len(anchor))
            for anchor, offset in self._inside:
                if at >= offset and raw.startswith(anchor, at - offset):
                    out[anchor].append(at - offset)
        return out


def _meet(one: tuple[bytes, int], other: tuple[bytes, int]) -> bool:
    """Can two literals stand in one text so that their pivots are the same character?"""
    (a, i), (b, j) = one, other
    before = min(i, j)
    both = zip(a[i - before :], b[j - before :], strict=False)
    return all(x == y for x, y in both)


def _one_of(characters: Iterable[int]) -> bytes:
    return b"[" + b"".join(sorted({re.escape(bytes((each,))) for each in characters})) + b"]"


def _each(raw: bytes, anchor: bytes) -> list[int]:
    found: list[int] = []
    at = raw.find(anchor)
    while at >= 0:
        found.append(at)
        at = raw.find(anchor, at + 1)
    return found
