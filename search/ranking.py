"""
One ranked list out of what several searches found.

Pure. A message counts with its best chunk; users' messages count a bit more and very long ones a bit less; a part of each score
spreads to the neighbours, because a question and its answer rarely use the same words. The best are then ranked by a linear model
over what their texts and neighbours tell (``signals``), with weights for the kind of conversation that they are from.
"""

from __future__ import annotations

import heapq
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from . import json_text, query
from .dates import When
from .documents import chunk_of
from .query import Atom
from .signals import NAMES, READ_CHARS, Asked, Candidate, Seen, beginning, begins_word
from .weights import WEIGHTS

SPREAD = (0.25, 0.1, 0.05)  # share of a hit's score for the messages 1, 2, 3 places away
SPREAD_FROM = 90  # best messages whose neighbours are looked at
TRIVIAL_CHARS = 8  # "ok" is not worth showing for its neighbours' sake
AT_WORK_CHARS = 500  # replies of an assistant that works are longer on average, those of a friend shorter
ALONE = 4  # times as many messages of the user as replies worth reading: notes to oneself
TIMELINE = 40  # matches in it
COVERING = 5  # hits that are asked how much of the question they say
REPLIES = 2  # hits whose reply is shown behind them
LOCAL = 10  # messages on both sides that are the same stretch of talk
USER_WEIGHT = 1.3
TOOL_WEIGHT = 0.7  # of work with tools: what people said of it answers more questions than a program's output
LONG_PENALTY = 0.2  # the best of many chunks is a bit lucky
TIMELY = 2.0  # said when the query says: three times the score
RERANKED = 120
# On the scale of the model, where 0.7 is twice as likely to be the answer:
PHRASE_GAIN = 2.0  # the query as it stands, for each word of it from the third on
LITERAL_GAIN = 1.5  # c++ as typed against any c
TIMELY_GAIN = 1.5
UNASKED_LOSS = 2.0  # a neighbour that matches nothing, where no question was asked that it could answer
_LEAST = -40.0
_REASONS, _RAISED = 4, 0.05  # of a hit's rank that are told, and how much each must do
MAX_READ_CHARS = 2_000_000  # of all texts that one ranking reads


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
    at: int | None = None  # where its best sentence begins, once its text was read
    weighed: Sequence[float] = ()  # its signals, times their weights


@dataclass(slots=True)
class Pool:
    """What the rungs have found so far, by store id; ``places`` also knows the messages around them."""

    found: dict[int, Found] = field(default_factory=dict)
    places: dict[tuple[int, int], Place] = field(default_factory=dict)
    rungs: list[str] = field(default_factory=list)
    cut: bool = False
    notes: list[str] = field(default_factory=list)
    top: float = 0.0  # the best score that the index gave
    reached: int = 0  # the oldest message that was looked at, where not all were
    covered: float = 1.0  # share of the question's words, weighed by rarity, that the best hits say
    missing: tuple[str, ...] = ()  # the others, rarest first
    wants_replies: bool = False  # asked for is what the assistant said
    mean: Sequence[float] = ()  # of the candidates' weighed signals

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
            hit.own = max(hit.own, min(1.0, place.score * scale))
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
            if hit.place.role == "tool" and hit.rung == "any":
                hit.own *= TOOL_WEIGHT
            if hit.place.chars > query.CHUNK_CHARS and hit.rung == "any":
                hit.own /= 1 + LONG_PENALTY * math.log(hit.place.chars / query.CHUNK_CHARS)
            if when and when.covers(hit.place.at):
                hit.own *= 1 + TIMELY * when.share
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

    def reply(self, hit: Found) -> Found | None:
        """What was replied to a user's message, where it is more than a word."""
        place = self.places.get((hit.place.conversation_id, hit.place.seq + 1)) if hit.place.role == "user" else None
        if place is None or place.role != "assistant" or place.chars < TRIVIAL_CHARS:
            return None
        return self.found.setdefault(place.store_id, Found(place))

    def _around(self, place: Place) -> Iterator[tuple[Place, float]]:
        for distance, share in enumerate(SPREAD, 1):
            for seq in (place.seq - distance, place.seq + distance):
                other = self.places.get((place.conversation_id, seq))
                if other is not None:
                    yield other, share

    @property
    def kind(self) -> str:
        """The kind of conversation that the candidates are from, by who says how much."""
        said = [place for place in self.places.values() if place.chars >= TRIVIAL_CHARS]
        users = [place.chars for place in said if place.role == "user"]
        others = [place.chars for place in said if place.role == "assistant"]
        if any(place.role == "tool" for place in said):
            return "tools"
        if sum(others) > AT_WORK_CHARS * max(1, len(others)):
            return "work"
        return "dialogue" if len(others) * ALONE > len(users) else "diary"

    def rerank(
        self, asked: Asked, texts: Callable[[list[int]], Mapping[int, str]], literals: Sequence[str], when: When | None
    ) -> None:
        """Order the best by the learned model; the others stay behind them. Nothing was learned of work with tools."""
        self.wants_replies = asked.wants_replies
        if (kind := self.kind) not in WEIGHTS:
            return
        weights = WEIGHTS[kind]
        examples = self.examples(asked, texts)
        scores = []
        for hit, seen, values in examples:
            hit.weighed = [*map(operator.mul, weights, values)]
            score = sum(hit.weighed) + PHRASE_GAIN * (hit.rung == "phrase") * asked.length
            score += LITERAL_GAIN * sum(sign in seen.lowered for sign in literals) / max(1, len(literals))
            score -= UNASKED_LOSS * (hit.rung == "near" and not asked.is_question)
            scores.append(score + (TIMELY_GAIN * when.share if when and when.covers(hit.place.at) else 0.0))
            hit.at = asked.window(seen) if seen.places else None
        self.mean = [sum(column) / len(examples) for column in zip(*(hit.weighed for hit, *_ in examples), strict=True)]
        self._settle([hit for hit, *_ in examples], scores)

    def reasons(self, hit: Found) -> tuple[tuple[str, float], ...]:
        """Signals that raised a hit above the mean of the candidates, strongest first; where no model ranked them, what of its
        score its neighbours and its speaker gave."""
        if not hit.weighed:
            given = (("around", hit.score - hit.own), ("user", hit.own * (1 - 1 / USER_WEIGHT)))
            return tuple((name, round(more, 2)) for name, more in given
                         if more >= _RAISED and (name != "user" or hit.place.role == "user"))  # fmt: skip
        raised = [(name, round(own - mean, 2)) for name, own, mean in zip(NAMES, hit.weighed, self.mean, strict=False)]
        return tuple(sorted((each for each in raised if each[1] >= _RAISED), key=lambda each: -each[1])[:_REASONS])

    def examples(
        self, asked: Asked, texts: Callable[[list[int]], Mapping[int, str]]
    ) -> list[tuple[Found, Seen, list[float]]]:
        """The best hits with their signals, as the model is trained on and applied to."""
        best = self.best(RERANKED)
        known = texts(self._to_read(best))
        numbers = {store_id: n for n, store_id in enumerate(known)}
        shown = [*known.values(), ""]  # the last one stands for what was not read
        chunks = {hit.place.store_id: hit.chunk for hit in best if hit.place.chars > READ_CHARS}
        seen = [asked.see(text, _part(text, chunks.get(store_id, 0))) for store_id, text in known.items()]
        seen.append(asked.see(""))
        top = max(hit.own for hit in self.found.values()) or 1.0, best[0].score or 1.0
        begun: set[str] = set()
        out = []
        for rank, hit in enumerate(best):
            candidate = self._candidate(hit, rank, numbers, top)
            first = shown[candidate.text][:200]
            out.append((hit, seen[candidate.text], asked.signals(candidate, shown, seen, repeated=first in begun)))
            begun.add(first)
        return out

    def cover(self, asked: Asked, texts: Callable[[list[int]], Mapping[int, str]]) -> None:
        """Note how much of the question the best hits and their neighbours say, and what they do not."""
        best = self.best(COVERING)
        known = texts(sorted({place.store_id for hit in best for place in (hit.place, *self._direct(hit.place))}))
        self.covered, self.missing = asked.missing(map(asked.see, known.values()))

    def _to_read(self, best: Sequence[Found]) -> list[int]:
        """The messages whose texts count, and their direct neighbours; best first, until enough is read."""
        wanted: set[int] = set()
        left = MAX_READ_CHARS
        for place in (place for hit in best for place in (hit.place, *self._direct(hit.place))):
            if left > 0 and place.store_id not in wanted:
                wanted.add(place.store_id)
                left -= place.chars
        return sorted(wanted)

    def _settle(self, best: Sequence[Found], scores: Sequence[float]) -> None:
        """Scores of the model as shares of the best one; what it has not seen comes behind."""
        highest = max(scores)
        for hit, score in zip(best, scores, strict=True):
            hit.score = math.exp(max(_LEAST, score - highest))
        ranked = {hit.place.store_id for hit in best}
        rest = [hit for store_id, hit in self.found.items() if store_id not in ranked]
        scale = min(hit.score for hit in best) / max((hit.score for hit in rest), default=1.0)
        for hit in rest:
            hit.score *= scale

    def _direct(self, place: Place) -> list[Place]:
        """The messages just before and after, as far as they are known."""
        around = (self.places.get((place.conversation_id, place.seq + d)) for d in (-1, 1))
        return [other for other in around if other is not None]

    def _candidate(self, hit: Found, rank: int, numbers: Mapping[int, int], top: tuple[float, float]) -> Candidate:
        """A hit as the model sees it."""
        place, unread = hit.place, len(numbers)

        def near(distance: int) -> float:
            other = self.places.get((place.conversation_id, place.seq + distance))
            found = self.found.get(other.store_id) if other is not None else None
            return found.own / top[0] if found is not None else 0.0

        def text(distance: int) -> int | None:
            other = self.places.get((place.conversation_id, place.seq + distance))
            return numbers.get(other.store_id) if other is not None else None

        return Candidate(
            text=numbers.get(place.store_id, unread), before=text(-1), after=text(1), user=place.role == "user",
            chars=min(place.chars, query.CHUNK_CHARS if place.role == "tool" else READ_CHARS),  # output is as long as it is
            rank=rank, raw=hit.own / top[0], base=hit.score / top[1], near=hit.rung == "near", prev=near(-1), next=near(1),
            around=max(map(near, (-3, -2, 2, 3))),
            local=sum(near(d) / (1 + abs(d)) for d in range(-LOCAL, LOCAL + 1) if d) / 3,
        )  # fmt: skip


def _part(text: str, chunk: int) -> int:
    """Where to read a long text: some way before the chunk that matched."""
    pieces = query.chunks(text) if chunk else [(0, text)]
    return max(0, pieces[min(chunk, len(pieces) - 1)][0] - READ_CHARS // 3)


def _rank(found: Found) -> tuple[float, int]:
    return -found.score, -found.place.store_id


class Finder:
    """Finds a query's words in a text without stemming it: by the part that the forms of a word have in common."""

    def __init__(self, atoms: Iterable[Atom]) -> None:
        found = {beginning(s) for atom in atoms for s in atom.stems}
        parts = sorted(found | {json_text.escaped(p) for p in found}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, parts))) if parts else None

    def offset(self, text: str, chunk: int) -> int:
        """Where the first of the words stands in the given chunk; the chunk's begin when Python cannot find it."""
        pieces = query.chunks(text)
        begin, piece = pieces[min(chunk, len(pieces) - 1)]
        lowered = json_text.blanked(text, begin, begin + len(piece)).lower()
        if self._pattern is not None and len(lowered) == len(piece):
            for match in self._pattern.finditer(lowered):
                if begins_word(lowered, match.start()):
                    return begin + match.start()
        return begin


def by_relevance(pool: Pool) -> list[Found]:
    """Best first. Who asks for what the assistant said gets the replies to the first of what the user said behind them."""
    best = pool.best(len(pool.found))
    if not pool.wants_replies:
        return best
    replies = {hit.place.store_id: pool.reply(hit) for hit in best[:REPLIES]}
    pairs = ((hit, replies.get(hit.place.store_id)) for hit in best)
    return list({hit.place.store_id: hit for pair in pairs for hit in pair if hit is not None}.values())


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


def by_time(pool: Pool) -> list[Found]:
    """A timeline of the best matches, oldest first."""
    best = [hit for hit in by_relevance(pool) if hit.rung != "near"][:TIMELINE]
    return sorted(best, key=lambda hit: (hit.place.at, hit.place.store_id))


ORDERS: dict[str, Callable[[Pool], list[Found]]] = {
    "relevance": by_relevance,
    "recency": by_recency,
    "hybrid": by_both,
    "time": by_time,
}
