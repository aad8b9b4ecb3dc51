"""
One ranked list out of what several searches found.

Pure. A message counts with its best chunk; users' messages count a bit more and very long ones a bit less; a part of each score
spreads to the neighbours, because a question and its answer rarely use the same words; and messages that cover more of the
query, themselves or with their neighbours, come first. The numbers were measured on long chats (LoCoMo, BEAM, MemDaily).
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from . import escapes, words
from .chunk_ids import chunk_of
from .moments import When
from .words import Atom

SPREAD = (0.25, 0.1, 0.05)  # share of a hit's score for the messages 1, 2, 3 places away
SPREAD_FROM = 90  # best messages whose neighbours are looked at
TRIVIAL_CHARS = 8  # "ok" is not worth showing for its neighbours' sake
USER_WEIGHT = 1.3
LONG_PENALTY = 0.2  # the best of many chunks is a bit lucky
TIMELY = 2.0  # said when the query says: three times the score
COVERAGE = 2.0  # all words instead of none: three times the score
LITERAL = 1.0  # c++ as typed against any c
RERANKED = 32
MAX_READ_CHARS = 20_000  # longer texts are not read for ranking


class Place(NamedTuple):
    """A message as a search row tells it; ``score`` is that of the matching chunk."""

    rowid: int
    score: float
    store_id: int
    conversation_id: int
    seq: int
    role: str
    chars: int
    at: float


@dataclass(slots=True)
class Found:
    """A message in the list. ``own`` is what it earned itself, ``score`` includes what its neighbours gave it."""

    place: Place
    own: float = 0.0
    score: float = 0.0
    chunk: int = 0
    rung: str = "near"


@dataclass(slots=True)
class Pool:
    """What the rungs have found so far, by store id; ``places`` also knows the messages around them."""

    found: dict[int, Found] = field(default_factory=dict)
    places: dict[tuple[int, int], Place] = field(default_factory=dict)
    rungs: list[str] = field(default_factory=list)
    cut: bool = False
    notes: list[str] = field(default_factory=list)
    top: float = 0.0  # the best score that the index gave

    def take(
        self, rung: str, rows: Iterable[tuple[Any, ...]], *, limit: int, best: float = 0.0, bonus: float = 0.0
    ) -> float:
        """Add the rows of a rung, best first; the score of the best. Call with looser rungs first."""
        taken = [Place(*row) for row in rows]
        top = max((place.score for place in taken), default=0.0)
        self.top = max(self.top, top)
        scale = 1 / (best or top or 1.0)
        for place in taken:
            hit = self.found.get(place.store_id)
            if hit is None:
                hit = Found(place, min(1.0, place.score * scale), chunk=chunk_of(place.rowid))
                self.found[place.store_id] = hit
                self.places[place.conversation_id, place.seq] = place
            if hit.rung != rung:
                hit.rung = rung
                hit.own += bonus
        if taken:
            self.rungs.insert(0, rung)
        self.cut = self.cut or len(taken) >= limit
        return top

    @property
    def matching(self) -> int:
        """Messages that match themselves."""
        return sum(1 for hit in self.found.values() if hit.rung != "near")

    def weigh(self, when: When | None = None) -> None:
        """Role, length, and whether it was said at a time that the query names."""
        for hit in self.found.values():
            if hit.place.role == "user":
                hit.own *= USER_WEIGHT
            if hit.place.chars > words.CHUNK_CHARS and hit.rung == "any":
                hit.own /= 1 + LONG_PENALTY * math.log(hit.place.chars / words.CHUNK_CHARS)
            if when and when.covers(hit.place.at):
                hit.own *= 1 + TIMELY
            hit.score = hit.own

    def best(self, count: int) -> list[Found]:
        """The best so far."""
        return heapq.nsmallest(count, self.found.values(), key=_rank)

    def unknown_places(self) -> set[tuple[int, int]]:
        """Conversation and seq of the neighbours that spreading wants to know."""
        reach = [d for d in range(-len(SPREAD), len(SPREAD) + 1) if d]
        top = self.best(SPREAD_FROM)
        return {(f.place.conversation_id, f.place.seq + d) for f in top for d in reach} - self.places.keys()

    def spread(self) -> None:
        """Give the neighbours their share."""
        for hit in self.best(SPREAD_FROM):
            for place, share in self._around(hit.place):
                if place.chars >= TRIVIAL_CHARS:
                    other = self.found.get(place.store_id)
                    if other is None:
                        other = self.found[place.store_id] = Found(place)
                    other.score += share * hit.own * (USER_WEIGHT if place.role == "user" else 1.0)

    def _around(self, place: Place) -> Iterator[tuple[Place, float]]:
        for distance, share in enumerate(SPREAD, 1):
            for seq in (place.seq - distance, place.seq + distance):
                other = self.places.get((place.conversation_id, seq))
                if other is not None:
                    yield other, share

    def to_read(self) -> dict[int, list[int]]:
        """The messages to rank by their texts, each with those whose texts count: itself and its direct neighbours."""
        out: dict[int, list[int]] = {}
        for hit in self.best(RERANKED):
            near = [hit.place, *(place for place, share in self._around(hit.place) if share == SPREAD[0])]
            out[hit.place.store_id] = [place.store_id for place in near if place.chars <= MAX_READ_CHARS]
        return out

    def reward(
        self,
        near: Mapping[int, list[int]],
        texts: Mapping[int, str],
        weights: Mapping[Atom, float],
        literals: Iterable[str],
    ) -> None:
        """More for messages that cover more of the query's words, by the words' rarity, and for literals as typed."""
        signs = [literal.casefold() for literal in literals]
        finder = Finder(weights)
        has = {store_id: finder.atoms_in(text) for store_id, text in texts.items()}
        total = sum(weights.values()) or 1.0
        for store_id, readable in near.items():
            covered: set[Atom] = set().union(*(has.get(other, set()) for other in readable))
            if self.found[store_id].rung in ("all", "phrase"):  # the index says so, however long the message is
                covered = set(weights)
            self.found[store_id].score *= 1 + COVERAGE * sum(weights[a] for a in covered) / total
            if signs:
                text = texts.get(store_id, "").casefold()
                self.found[store_id].score *= 1 + LITERAL * sum(sign in text for sign in signs) / len(signs)


def _rank(found: Found) -> tuple[float, int]:
    return -found.score, -found.place.store_id


class Finder:
    """Finds a query's words in a text without stemming it: by the part that the forms of a word have in common."""

    def __init__(self, atoms: Iterable[Atom]) -> None:
        self._atoms = [(atom, [_beginning(s) for s in atom.stems]) for atom in atoms if atom.stems]
        found = {p for _, parts in self._atoms for p in parts}
        parts = sorted(found | {escapes.escaped(p) for p in found}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, parts))) if parts else None

    def atoms_in(self, text: str) -> set[Atom]:
        """The atoms whose words all occur in the text."""
        lowered = escapes.as_read(text).lower()
        return {atom for atom, parts in self._atoms if all(_occurs(p, lowered) for p in parts)}

    def offset(self, text: str, chunk: int) -> int:
        """Where the first of the words stands in the given chunk; the chunk's begin when Python cannot find it."""
        pieces = words.chunks(text)
        begin, piece = pieces[min(chunk, len(pieces) - 1)]
        lowered = escapes.blanked(text, begin, begin + len(piece)).lower()
        if self._pattern is not None and len(lowered) == len(piece):
            for match in self._pattern.finditer(lowered):
                if _begins_word(lowered, match.start()):
                    return begin + match.start()
        return begin


def _beginning(stem: str) -> str:
    """What "happi" and "happy" share."""
    return stem[:-1] if len(stem) > 3 and stem[-1] in "ie" else stem


def _begins_word(text: str, at: int) -> bool:
    return at == 0 or not text[at].isascii() or text[at] == "\\" or not text[at - 1].isalnum()


def _occurs(part: str, lowered: str) -> bool:
    """Whether a word of the text begins like that."""
    at = lowered.find(part)
    while at >= 0:
        if _begins_word(lowered, at):
            return True
        at = lowered.find(part, at + 1)
    return False


def by_relevance(pool: Pool) -> list[Found]:
    """Best first."""
    return pool.best(len(pool.found))


def by_recency(pool: Pool) -> list[Found]:
    """Newest first, of what matches itself: strictly when anything does, else at least half as well as the best."""
    own = [f for f in pool.found.values() if f.rung != "near"]
    strict = [f for f in own if f.rung != "any"]
    best = max((f.own for f in own), default=0.0)
    chosen = strict or [f for f in own if f.own >= best / 2]
    return sorted(chosen, key=lambda f: (-f.place.at, -f.place.store_id))


def by_both(pool: Pool) -> list[Found]:
    """Relevance, up to a half more for the newest of the hits."""
    age = sorted(pool.found.values(), key=lambda f: (f.place.at, f.place.store_id))
    rank = {f.place.store_id: n / max(len(age) - 1, 1) for n, f in enumerate(age)}
    return sorted(pool.found.values(), key=lambda f: (-f.score * (1 + rank[f.place.store_id] / 2), -f.place.store_id))


ORDERS: dict[str, Callable[[Pool], list[Found]]] = {"relevance": by_relevance, "recency": by_recency, "hybrid": by_both}
