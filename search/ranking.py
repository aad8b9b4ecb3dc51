"""
Ranked list of what several searches found: signals of relevance, their sum, and the stretch of a text that is shown.

Pure. A message counts with its best chunk; users' messages count a bit more and very long ones a bit less; a part of each score
spreads to the neighbours, because a question and its answer rarely use the same words. The best are then ranked by a linear model
over what their texts and neighbours tell, with weights for the kind of conversation that they are from; ``weights``
holds them, as ``benchmarks/train_ranking.py`` learns them.
"""

from __future__ import annotations

import heapq
import itertools
import math
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, pstdev
from typing import Any, Final, NamedTuple

from . import documents, forms
from .dates import When
from .documents import chunk_of
from .forms import stem
from .query import Atom
from .weights import SEMANTIC, WEIGHTS

READ_CHARS: Final = 6000  # of one message
_OCCURRENCES: Final = 30  # of one word
_WINDOWS: Final = {False: (55, 170), True: (14, 40)}  # characters: about 8 and 24 words, and as much Chinese
_PAIR_CHARS: Final = {False: 30, True: 8}
_STRETCH_BEFORE, _STRETCH_AFTER = 150, 350  # around the best window: where the kind of answer is looked for
_PIECE_BEFORE, _PIECE_AFTER = 100, 300  # around it: what an encoder reads
_TYING_CHARS = 300  # of a note, whose words tie it to others

NAMES: Final = (
    "raw", "base", "logrank", "near", "prev", "next", "around", "local", "cov", "cov2", "cov3", "covp", "prevcov", "nextcov",
    "win", "wide", "pairs", "tf", "density", "names", "speaker", "numbers", "user", "loglen", "endq", "prevqcov", "first",
    "firstuser", "kind", "when", "many", "where", "who", "dup", "completed", "tied", "tiedcov",
    "tiedcompleted", "beside",
)  # fmt: skip

_CJK: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_WORD: Final = re.compile(r"[^\W_]+")
_LONGER_WORD: Final = re.compile(r"[^\W_]{3,}")
_FIRST_PERSON: Final = re.compile(r"\b(?:i|i'm|i've|my|me|mine)\b|我", re.IGNORECASE)
_CAPITALISED: Final = re.compile(r"(?<!^)(?<![.?!]\s)\b[A-Z][\w'-]*")
_NUMBER: Final = re.compile(r"\d[\d.,:/-]*\d|\d")
_DATE: Final = re.compile(
    r"\b(?:\d{4}|\d{1,2}(?:st|nd|rd|th)|january|february|march|april|may|june|july|august|september|october|november|december|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|yesterday|today|tomorrow|tonight|last|next|ago|week|weekend|month|year|morning|"
    r"\d{1,2}:\d\d|[ap]m)\b|[年月日点]|周[一二三四五六日末]|星期",
    re.IGNORECASE,
)
_AMOUNT: Final = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|once|twice|several|dozen|couple)\b|[一二两三四五六七八九十百千万]",
    re.IGNORECASE,
)
_QUESTION: Final = re.compile(
    r"[?？]|^\W*(?:who|whom|whose|what|when|where|which|why|how|did|do|does|is|are|was|were|can|could|have|has|will|would)\b"
    r"|[吗呢谁哪啥]|什么|怎么|多少|几",
    re.IGNORECASE,
)
_REPLIES: Final = re.compile(
    r"\b(?:you|we)\s+(?:\w+\s+)?(?:mentioned|recommended|suggested|provided|said|told|gave|listed|proposed|wrote|described|"
    r"explained|advised|answered|discussed|talked)\b|\bdid you\b|\bremind me\b|"
    r"\b(?:previous|earlier|last|past) (?:conversation|chat|discussion)\b|"
    r"\b(?:hast|habt|hattest) (?:du|ihr)\b|\bdu (?:mir )?(?:hast|hattest)\b|你(?:之前|上次)?(?:说|推荐|建议|提到|列)",
    re.IGNORECASE,
)
_WHEN: Final = r"\bwhen\b|(?:what|which) (?:date|day|time|year|month)|how long|[什啥]么?时候|何时|几点|日期|生日|哪天"
_MANY: Final = (
    r"how (?:many|much|often|old)|(?:what|which) (?:number|percentage|amount|price|port|version)|"
    r"多少|几[个次岁年]|多大|电话|号码"
)
_OF_MONEY: Final = re.compile(r"\b(?:amount|price|cost|fee|refund|total|how much)\b|多少钱|价格", re.IGNORECASE)
_CODE_SPAN: Final = re.compile(r"`[^`\n]{1,40}`")
_MONEY: Final = re.compile(r"[$€£¥]\s?\d|\d\s?(?:[€£¥元块]|(?:dollar|euro|usd|eur)s?\b)")
#: Kind of question: how it is asked, and what its answer holds.
_KINDS: Final = {
    "when": (re.compile(_WHEN, re.IGNORECASE), _DATE),
    "many": (re.compile(_MANY, re.IGNORECASE), _AMOUNT),
    "where": (re.compile(r"\bwhere\b|which (?:city|country|place)|哪里|哪儿|地点|地方|哪个(?:城市|地)", re.IGNORECASE),
              re.compile(r"\b(?:in|at|to|from|near)\s+(?:the\s+)?[A-Z]|[省市区县路街镇国]|在")),
    "who": (re.compile(r"\bwho(?:m|se)?\b|谁|哪位", re.IGNORECASE), re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+")),
}  # fmt: skip


#: By conversation and seq.
Shares = dict[int, dict[int, float]]


@dataclass(frozen=True, slots=True)
class Seen:
    """A text with the places of the question's words in it: (offset, number of the word), in order."""

    lowered: str
    places: tuple[tuple[int, int], ...]
    words: frozenset[int]
    begin: int = 0  # where the part that was read begins in the text
    text: str = ""  # the whole text


@dataclass(frozen=True, slots=True)
class Candidate:
    """A message that may answer, with what the index says of it and of those around it.

    ``before`` and ``after``: the number of the neighbour's text. Scores are shares of the best one.
    """

    text: int
    before: int | None
    after: int | None
    user: bool
    chars: int
    rank: int
    raw: float
    base: float
    near: bool
    prev: float
    next: float
    around: float
    local: float
    notes: tuple[tuple[int, float], ...] = ()  # in a diary: numbers and scores of the notes around it
    beside: float = 0.0  # in a diary: of its score, as far as a note near it answers what else was asked in the same go


def beginning(stem: str) -> str:
    """The common beginning of "happi" and "happy"."""
    return stem[:-1] if len(stem) > 3 and stem[-1] in "ie" else stem


def begins_word(text: str, at: int) -> bool:
    """Does a word begin here? Scripts without blanks have no beginnings."""
    return at == 0 or not text[at].isascii() or text[at] == "\\" or not text[at - 1].isalnum()


def _begun(text: str, sought: str) -> Iterator[int]:
    """Places of words in a text that begin like this."""
    at = text.find(sought)
    while at >= 0:
        if begins_word(text, at):
            yield at
        at = text.find(sought, at + len(sought))


def asks(query: str) -> bool:
    """Is it a question, rather than words to look for?"""
    return _QUESTION.search(query) is not None


def asks_for_replies(question: str) -> bool:
    """Does a question ask for what the assistant said?"""
    return bool(_REPLIES.search(question[:READ_CHARS]))


class Ties:
    """Rare words that texts share, beside those of the question: a thing that has a name in one note is praised in the next."""

    def __init__(self, texts: Mapping[int, str], question: str) -> None:
        asked = _tying(question)
        self._words = {number: _tying(text) - asked for number, text in texts.items()}
        count = Counter(word for each in self._words.values() for word in each)
        self._rarity = {word: math.log((len(texts) + 1) / n) for word, n in count.items()}
        self._weight = {number: self._sum(each) for number, each in self._words.items()}

    def __contains__(self, number: int) -> bool:
        return number in self._words

    def tie(self, one: int, other: int) -> float:
        """Share of the shorter text's rare words that the other one has too."""
        shared = self._sum(self._words[one] & self._words[other])
        return shared / (1 + min(self._weight[one], self._weight[other]))

    def _sum(self, words: Iterable[str]) -> float:
        return sum(map(self._rarity.__getitem__, words))


def _tying(text: str) -> set[str]:
    """Words of a text's beginning, and the pairs of characters in runs of CJK."""
    lowered = text[:_TYING_CHARS].lower()
    pairs = {a + b for run in documents.CJK_RUN.findall(lowered) for a, b in pairwise(run)}
    return pairs | set(_LONGER_WORD.findall(documents.CJK_RUN.sub(" ", lowered)))


class Asked:
    """A question: its words by rarity, its names and numbers, its kind."""

    def __init__(self, raw: str, weights: Mapping[Atom, float]) -> None:
        self._words = [
            ([forms.folded(beginning(s)) for s in atom.stems], weight) for atom, weight in weights.items() if atom.stems
        ]
        self._roots = [[*dict.fromkeys(map(forms.folded, atom.roots))] for atom in weights if atom.stems]
        self._written = [atom.written.strip('"*()') for atom in weights if atom.stems]
        self._total = sum(weight for _, weight in self._words) or 1.0
        self._typed = {word for each in self._written for word in _WORD.findall(forms.folded(each.lower()))}
        lowered = raw.lower()
        order = sorted(range(len(self._words)), key=lambda n: lowered.find(self._words[n][0][0]) % (len(raw) + 1))
        self._following = dict(pairwise(order))
        cjk = bool(_CJK.search(raw))
        self._windows, self._pair_chars = _WINDOWS[cjk], _PAIR_CHARS[cjk]
        capitalised = {found.group().lower() for found in _CAPITALISED.finditer(raw)}
        self._names = capitalised - {"i", "i'm", "i've", "i'd"}
        self._numbers = _NUMBER.findall(raw)
        self._kinds = {name for name, (asked, _) in _KINDS.items() if asked.search(raw)}
        self.raw = raw
        self.length = max(1, len(raw.split()) - 2)
        self.is_question = bool(_QUESTION.search(raw))
        self.of_money = self.is_question and bool(_OF_MONEY.search(raw))
        self.wants_replies = asks_for_replies(raw)

    def see(self, text: str, begin: int = 0) -> Seen:
        """Places of the question's words in a text, or in the part of it that begins here."""
        lowered = documents.blanked(text, begin, begin + READ_CHARS).lower() if begin < len(text) else ""
        lowered = forms.folded(lowered)
        places: list[tuple[int, int]] = []
        for number, (parts, _) in enumerate(self._words):
            if len(parts) > 1 and not all(part in lowered for part in parts):
                continue
            most = _OCCURRENCES if len(parts) == 1 else 1
            for sought in self._roots[number] or parts[:1]:
                places += [(at, number) for at in itertools.islice(_begun(lowered, sought), most)]
        places.sort()
        return Seen(lowered, tuple(places), frozenset(number for _, number in places), begin, text)

    def share(self, words: Collection[int]) -> float:
        """The rarity-weighted share of the question's words."""
        return sum(self._words[number][1] for number in words) / self._total

    def densest(self, seen: Seen, size: int, fits: Callable[[str], bool] = bool) -> tuple[float, int]:
        """(share of the words in the best window of so many characters that fits, where it begins)."""
        best, begin, chosen = 0.0, 0, 0
        count = [0] * len(self._words)
        now = 0.0
        for at, number in seen.places:
            now += self._words[number][1] * (not count[number])
            count[number] += 1
            while at - seen.places[begin][0] > size:
                left = seen.places[begin][1]
                count[left] -= 1
                now -= self._words[left][1] * (not count[left])
                begin += 1
            if now > best + 1e-9 and fits(seen.lowered[(start := seen.places[begin][0]) : start + size]):
                best, chosen = now, start
        return best / self._total, chosen

    def missing(self, seen: Iterable[Seen]) -> tuple[float, tuple[str, ...]]:
        """(share of the question's words that stand in these texts, the words that do not, rarest first)."""
        found = {number for each in seen for number in each.words}
        left = sorted(set(range(len(self._words))) - found, key=lambda n: -self._words[n][1])
        told = any(weight for _, weight in self._words)  # in a few notes every word may be common
        return self.share(found) if told else len(found) / max(1, len(self._words)), tuple(
            self._written[n] for n in left
        )

    def window(self, seen: Seen) -> int:
        """Begin of the best sentence in the text."""
        return seen.begin + self.densest(seen, self._windows[1])[1]

    def stretch(self, seen: Seen) -> str:
        """The part of the text around its best sentence."""
        at = self.window(seen)
        return seen.text[max(0, at - _PIECE_BEFORE) : at + _PIECE_AFTER]

    def told(self, seen: Seen) -> tuple[float, int]:
        """(share of the words in the best stretch that tells it, where it begins in the text)."""
        share, at = self.densest(seen, self._windows[1], self._tells)
        return share, seen.begin + at

    def as_typed(self, seen: Seen, at: int) -> float:
        """Share of the typed words that the sentence at this place has in the same form; 0 where a question was asked."""
        stretch = seen.lowered[at - seen.begin :][: self._windows[1]]
        if self.is_question or not self._tells(stretch):
            return 0.0
        return len(self._typed.intersection(_WORD.findall(stretch))) / max(1, len(self._typed))

    def _tells(self, stretch: str) -> bool:
        """Is it a sentence, no list and no JSON; or does it name the sum that is asked for?"""
        if self.of_money:
            return _MONEY.search(stretch) is not None
        said = _CODE_SPAN.sub("", stretch)  # a value in its sentence
        return sum(sign.isalpha() or sign == " " for sign in said) >= PROSE_SHARE * len(said)

    def _pairs(self, seen: Seen) -> float:
        """Share of neighbours of the question that stand close together in their order."""
        if not self._following:
            return 0.0
        found = set()
        for n, (at, number) in enumerate(seen.places):
            for other, following in seen.places[n + 1 : n + 5]:
                if other - at > self._pair_chars:
                    break
                if self._following.get(number) == following:
                    found.add(number)
        return len(found) / len(self._following)

    def signals(
        self, candidate: Candidate, texts: Sequence[str], seen: Sequence[Seen], ties: Ties, *, repeated: bool
    ) -> list[float]:
        """Signals of one candidate, in the order of ``NAMES``."""
        text, own = texts[candidate.text], seen[candidate.text]
        before = seen[candidate.before].words if candidate.before is not None else frozenset()
        after = seen[candidate.after].words if candidate.after is not None else frozenset()
        covered = self.share(own.words)
        window, at = self.densest(own, self._windows[0])
        at += own.begin
        stretch = text[max(0, at - _STRETCH_BEFORE) : at + _STRETCH_AFTER]
        asks = candidate.before is not None and texts[candidate.before].rstrip().endswith(("?", "？"))
        first = bool(_FIRST_PERSON.search(stretch))
        fits = {name for name in self._kinds if _KINDS[name][1].search(stretch)}
        return [
            candidate.raw, candidate.base, math.log(1 + candidate.rank) / 5, candidate.near,
            candidate.prev, candidate.next, candidate.around, candidate.local,
            covered, covered**2, self.share(own.words | before | after), self.share(own.words | before),
            self.share(before), self.share(after),
            window, self.densest(own, self._windows[1])[0], self._pairs(own),
            min(1.0, math.log(1 + len(own.places)) / 4), len(own.places) / (20 + len(own.lowered) / 6),
            *self._named(text, own.lowered),
            candidate.user, math.log(1 + candidate.chars) / 10, text.rstrip().endswith(("?", "？")), asks * self.share(before),
            first, first and candidate.user, bool(fits), *(name in fits for name in _KINDS), repeated,
            *self._tied(candidate, seen, ties), candidate.beside,
        ]  # fmt: skip

    def _tied(self, candidate: Candidate, seen: Sequence[Seen], ties: Ties) -> list[float]:
        """Gain by the notes around a note: words of the question that it lacks, and how far they are about the same."""
        own, best = seen[candidate.text].words, [0.0] * 4
        for note, score in candidate.notes if candidate.text in ties else ():
            if note not in ties:
                continue
            tie, more = ties.tie(candidate.text, note), self.share(seen[note].words - own)
            best = [*map(max, best, (more, tie * score, tie * self.share(seen[note].words), tie * more))]
        return best

    def _named(self, text: str, lowered: str) -> tuple[float, float, float]:
        """Names of the question in the text, in the speaker's place, and its numbers."""
        names = sum(name in lowered for name in self._names) / max(1, len(self._names))
        speaker = any(lowered.startswith(name) for name in self._names)
        return names, speaker, sum(number in text for number in self._numbers) / max(1, len(self._numbers))


#: Cosines of messages, by their ids, to a question, or None. The last argument gives the text of the n-th.
Cosines = Callable[[str, Sequence[int], Callable[[int], str]], Sequence[float] | None]


def meant(
    question: str,
    ids: Sequence[int],
    piece: Callable[[int], str],
    scores: Sequence[float],
    cosines: Cosines,
    near: Mapping[int, int],
) -> dict[int, tuple[float, float]]:
    """Two signals of meaning, by a candidate's number: how far it stands out among the best, in standard deviations, and how it
    stands among the nearest of all messages. Empty without cosines.

    ``ids``: of the candidates' messages; ``near``: ranks of the nearest.
    """
    best = heapq.nlargest(ENCODED, range(len(scores)), key=scores.__getitem__)
    chosen = [*dict.fromkeys((*best, *(n for n, store_id in enumerate(ids) if store_id in near)))]
    found = cosines(question[:ASKED_CHARS], [ids[n] for n in chosen], lambda k: piece(chosen[k]))
    if not found:
        return {}
    among = found[: len(best)]
    mean, apart = fmean(among), pstdev(among) + _ALIKE
    return {n: ((each - mean) / apart, standing(near.get(ids[n]))) for n, each in zip(chosen, found, strict=True)}


def standing(rank: int | None) -> float:
    """Standing of a message by its rank among the nearest; 0 behind them."""
    return 0.0 if rank is None else 1 / math.sqrt(1 + rank)


SPREAD = (0.25, 0.1, 0.05)  # share of a hit's score for the messages 1, 2, 3 places away
_AROUND: Final = tuple(d for d in range(-len(SPREAD), len(SPREAD) + 1) if d)
SPREAD_FROM = 90  # best messages whose neighbours are looked at
TRIVIAL_CHARS = 8  # "ok" is not worth showing for its neighbours' sake
AT_WORK_CHARS = 500  # replies of an assistant that works are longer on average, those of a friend shorter
ALONE = 4  # times as many messages of the user as replies worth reading: notes to oneself
TIMELINE = 40  # matches in it, where fewer say all of the words
COVERING = 5  # hits that are asked how much of the question they say
REPLIES = 2  # hits whose reply is shown behind them
LOCAL = 10  # messages on both sides that are the same stretch of talk
_LOCAL: Final = tuple((d, 1 + abs(d)) for d in range(-LOCAL, LOCAL + 1) if d)
BESIDE = 32  # and as many around a note in which one may answer what else was asked in the same go
USER_WEIGHT = 1.3
TOOL_WEIGHT = 0.7  # of work with tools: what people said of it answers more questions than a program's output
EXACT = 30  # messages that say all of the words; where more do, the words are common
PROSE_GAIN, PROSE_SHARE = 2.0, 0.85  # what says common words close together; letters and blanks of such a stretch
TYPED_GAIN = 2.0  # of words to look for, what says them there as they were typed: "cancel", not "cancelled"
TOLD = 0.6  # of the words in one stretch: that one is shown
LONG_PENALTY = 0.2  # the best of many chunks is a bit lucky
TIMELY = 2.0  # said when the query says: three times the score
RERANKED = 120
ENCODED = 30  # best of them that an encoder compares with the question
NEAR_SCORE = 0.001  # of a message that no word finds, before the model weighs it
MEANING: Final = "meaning"  # its rung
ASKED_CHARS: Final = 1000  # of the question that it reads
_ALIKE = 0.001  # cosines that differ no more say nothing
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
    """Hits of the rungs so far, by store id; ``places`` also knows the messages around them."""

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
    by_meaning: bool = False  # an encoder took part
    near: Mapping[int, int] = field(default_factory=dict)  # ranks of the nearest messages by meaning
    common: bool = False  # many messages say all of the words
    in_diary: bool = False  # the neighbours of a note are notes, whatever short replies stand between them
    others: Sequence[Pool] = ()  # of the questions that were asked in the same go

    def add_rows(
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

    def add_near(self, cosines: Mapping[int, float], rows: Iterable[tuple[Any, ...]]) -> None:
        """Add the nearest messages by meaning, nearest first."""
        self.near = {store_id: rank for rank, store_id in enumerate(cosines)}
        self.by_meaning = True
        for place in (Place(*row) for row in rows):
            if place.store_id not in self.found and place.chars >= TRIVIAL_CHARS:
                score = NEAR_SCORE * cosines[place.store_id]
                self.found[place.store_id] = Found(place, score=score, rung=MEANING)
                self.places.setdefault((place.conversation_id, place.seq), place)
        if any(hit.rung == MEANING for hit in self.found.values()):
            self.rungs.append(MEANING)

    def _candidates(self, count: int) -> list[Found]:
        """The best so far, and the nearest by meaning."""
        best = self.best(count)
        known = {hit.place.store_id for hit in best}
        return best + [hit for n in self.near if n not in known and (hit := self.found.get(n)) is not None]

    @property
    def matching(self) -> int:
        """Messages that match themselves."""
        return sum(1 for hit in self.found.values() if hit.rung != "near")

    def weigh(self, when: When | None = None) -> None:
        """Role, length, and whether it was said at a time that the query names."""
        self.common = sum(hit.rung == "all" for hit in self.found.values()) > EXACT
        for hit in self.found.values():
            loose = hit.rung == "any" or (hit.rung == "all" and self.common)
            if hit.place.role == "user":
                hit.own *= USER_WEIGHT
            if hit.place.role == "tool" and loose:
                hit.own *= TOOL_WEIGHT
            if hit.place.chars > documents.CHUNK_CHARS and loose:
                hit.own /= 1 + LONG_PENALTY * math.log(hit.place.chars / documents.CHUNK_CHARS)
            if when and when.covers(hit.place.at):
                hit.own *= 1 + TIMELY * when.share
            hit.score = hit.own

    def best(self, count: int) -> list[Found]:
        """The best so far."""
        return heapq.nsmallest(count, self.found.values(), key=_rank)

    def unknown_places(self) -> set[tuple[int, int]]:
        """Conversation and seq of the neighbours that spreading wants to know."""
        self.in_diary = self.kind == "diary"
        most = len(SPREAD) * (1 + self.in_diary)
        reach = [d for d in range(-most, most + 1) if d]
        top = self._candidates(SPREAD_FROM)
        return {(f.place.conversation_id, f.place.seq + d) for f in top for d in reach} - self.places.keys()

    def spread(self) -> None:
        """Give the neighbours their share."""
        for hit in self.best(SPREAD_FROM):
            for place, share in self._around(hit.place) if hit.own else ():
                if place.chars >= TRIVIAL_CHARS:
                    other = self.found.get(place.store_id)
                    if other is None:
                        other = self.found[place.store_id] = Found(place)
                    other.score += share * hit.own * (USER_WEIGHT if place.role == "user" else 1.0)

    def reply(self, hit: Found) -> Found | None:
        """The reply to a user's message, where it is more than a word."""
        place = self.places.get((hit.place.conversation_id, hit.place.seq + 1)) if hit.place.role == "user" else None
        if place is None or place.role != "assistant" or place.chars < TRIVIAL_CHARS:
            return None
        return self.found.setdefault(place.store_id, Found(place))

    def _around(self, place: Place) -> Iterator[tuple[Place, float]]:
        for distance, share in enumerate(SPREAD, 1):
            for other in (self._beside(place, -distance), self._beside(place, distance)):
                if other is not None:
                    yield other, share

    def _beside(self, place: Place, distance: int) -> Place | None:
        """The message so far before (below 0) or after, as far as it is known; in a diary past short replies."""
        if not self.in_diary:
            return self.places.get((place.conversation_id, place.seq + distance))
        way = 1 if distance > 0 else -1
        near = (self.places.get((place.conversation_id, place.seq + way * n)) for n in range(1, 2 * abs(distance) + 1))
        notes = (other for other in near if other and (other.role == "user" or other.chars >= TRIVIAL_CHARS))
        return next(itertools.islice(notes, abs(distance) - 1, None), None)

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
        self,
        asked: Asked,
        texts: Callable[[list[int]], Mapping[int, str]],
        literals: Sequence[str],
        when: When | None,
        cosines: Cosines | None = None,
    ) -> None:
        """Order the best by the learned model; the others stay behind them. Nothing was learned of work with tools."""
        self.wants_replies = asked.wants_replies
        if (kind := self.kind) not in WEIGHTS:
            if self.common or asked.of_money:
                self._raise_prose(asked, texts)
            return
        weights = WEIGHTS[kind]
        examples = self.examples(asked, texts)
        scores = []
        for hit, seen, values in examples:
            hit.weighed = [*map(operator.mul, weights, values)]
            score = sum(hit.weighed) + PHRASE_GAIN * (hit.rung == "phrase") * asked.length
            score += LITERAL_GAIN * sum(sign in seen.lowered for sign in literals) / max(1, len(literals))
            score -= UNASKED_LOSS * (_nods(hit, seen) or (hit.rung == "near" and not asked.is_question))
            scores.append(score + (TIMELY_GAIN * when.share if when and when.covers(hit.place.at) else 0.0))
            if hit.rung != "substring":
                hit.at = asked.window(seen) if seen.places else None
        if cosines is not None and kind in SEMANTIC:
            ids = [hit.place.store_id for hit, *_ in examples]
            gains = meant(asked.raw, ids, lambda n: asked.stretch(examples[n][1]), scores, cosines, self.near)
            self.by_meaning = bool(gains)
            for n, gain in gains.items():
                scores[n] += sum(map(operator.mul, SEMANTIC[kind], gain))
        self.mean = [sum(column) / len(examples) for column in zip(*(hit.weighed for hit, *_ in examples), strict=True)]
        self._settle([hit for hit, *_ in examples], scores)

    def _raise_prose(self, asked: Asked, texts: Callable[[list[int]], Mapping[int, str]]) -> None:
        """Raise what says the words close together in prose, where many messages of a work with tools say them somewhere."""
        best = self.best(RERANKED)
        known = texts(self._to_read(best))
        for hit in best:
            if text := known.get(hit.place.store_id, ""):
                begin = _part(text, hit.chunk if hit.place.chars > READ_CHARS else 0)
                share, at = asked.told(seen := asked.see(text, begin))
                hit.score *= 1 + PROSE_GAIN * share**2 + TYPED_GAIN * asked.as_typed(seen, at) ** 2
                if share > TOLD:
                    hit.at = at

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
        best = self._candidates(RERANKED)
        self.in_diary = self.kind == "diary"
        known = texts(self._to_read(best))
        numbers = {store_id: n for n, store_id in enumerate(known)}
        shown = [*known.values(), ""]  # the last one stands for what was not read
        chunks = {hit.place.store_id: hit.chunk for hit in best if hit.place.chars > READ_CHARS}
        seen = [asked.see(text, _part(text, chunks.get(store_id, 0))) for store_id, text in known.items()]
        seen.append(asked.see(""))
        read = [n for hit in best if (n := numbers.get(hit.place.store_id)) is not None] if self.in_diary else []
        ties = Ties({n: shown[n] for n in read}, asked.raw)
        shares = [pool.shares() for pool in (self, *(self.others if self.in_diary else ()))]
        top = best[0].score or 1.0
        begun: set[str] = set()
        out = []
        for rank, hit in enumerate(best):
            candidate = self._candidate(hit, rank, numbers, top, shares)
            first = shown[candidate.text][:200]
            out.append(
                (hit, seen[candidate.text], asked.signals(candidate, shown, seen, ties, repeated=first in begun))
            )
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
        return [other for d in (-1, 1) if (other := self._beside(place, d)) is not None]

    def shares(self) -> Shares:
        """Score that each message earned itself, as a share of the best."""
        top = max((hit.own for hit in self.found.values()), default=0.0) or 1.0
        out: Shares = defaultdict(dict)
        for hit in self.found.values():
            out[hit.place.conversation_id][hit.place.seq] = hit.own / top
        return out

    def _candidate(
        self, hit: Found, rank: int, numbers: Mapping[int, int], top: float, shares: Sequence[Shares]
    ) -> Candidate:
        """A hit as the model sees it. ``shares``: of this question's messages, and of those asked in the same go."""
        place, unread = hit.place, len(numbers)
        seq = place.seq
        own, *others = (of.get(place.conversation_id, {}) for of in shares)

        beside = {d: self._beside(place, d) for d in _AROUND}
        near = {d: own.get(other.seq, 0.0) if other is not None else 0.0 for d, other in beside.items()}
        text = {d: numbers.get(other.store_id) if other is not None else None for d, other in beside.items()}
        notes = tuple((n, near[d]) for d, n in text.items() if n is not None) if self.in_diary else ()

        return Candidate(
            text=numbers.get(place.store_id, unread), before=text[-1], after=text[1], user=place.role == "user",
            chars=min(place.chars, documents.CHUNK_CHARS if place.role == "tool" else READ_CHARS),  # output is as long as it is
            rank=rank, raw=own.get(seq, 0.0), base=hit.score / top, near=hit.rung == "near", prev=near[-1], next=near[1],
            around=max(near[d] for d in _AROUND if abs(d) > 1),
            local=sum([own.get(seq + d, 0.0) / n for d, n in _LOCAL]) / 3, notes=notes,
            beside=own.get(seq, 0.0) * max((of.get(seq + d, 0.0) * (1 - abs(d) / (2 * BESIDE)) for of in others
                                            for d in range(-BESIDE, BESIDE + 1)), default=0.0),
        )  # fmt: skip


def _part(text: str, chunk: int) -> int:
    """Place to read a long text from: some way before the chunk that matched."""
    pieces = documents.chunks(text) if chunk else [(0, text)]
    return max(0, pieces[min(chunk, len(pieces) - 1)][0] - READ_CHARS // 3)


def _rank(found: Found) -> tuple[float, int]:
    return -found.score, -found.place.store_id


class Finder:
    """Finds a query's words in a text without stemming it: by the part that the forms of a word have in common."""

    def __init__(self, atoms: Iterable[Atom]) -> None:
        found = {forms.folded(beginning(s)) for atom in atoms for s in (*atom.stems, *atom.roots)}
        parts = sorted(found | {documents.escaped(p) for p in found}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, parts))) if parts else None

    def offset(self, text: str, chunk: int) -> int:
        """Offset of the first of the words in the given chunk; the chunk's begin when Python cannot find it."""
        pieces = documents.chunks(text)
        begin, piece = pieces[min(chunk, len(pieces) - 1)]
        lowered = documents.blanked(text, begin, begin + len(piece)).lower()
        if self._pattern is not None and len(lowered) == len(piece):
            for match in self._pattern.finditer(forms.folded(lowered)):
                if begins_word(lowered, match.start()):
                    return begin + match.start()
        return begin


def by_relevance(pool: Pool) -> list[Found]:
    """Best first. A question for the assistant's words gets the replies behind the user's best messages."""
    best = pool.best(len(pool.found))
    if not pool.wants_replies:
        return best
    replies = {hit.place.store_id: pool.reply(hit) for hit in best[:REPLIES]}
    pairs = ((hit, replies.get(hit.place.store_id)) for hit in best)
    return list({hit.place.store_id: hit for pair in pairs for hit in pair if hit is not None}.values())


def _nods(hit: Found, seen: Seen) -> bool:
    """A reply such as "ok": it is found by the end of the message before it, which its index row holds too."""
    return hit.place.chars < TRIVIAL_CHARS and not seen.places and not any(map(str.isdigit, seen.text))


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
    """A timeline of the best matches, oldest first; behind it one of the next best. All that says every word is in the first."""
    best = [hit for hit in by_relevance(pool) if hit.rung != "near"]
    strict = [hit for hit in best if hit.rung != "any"]
    first = max(TIMELINE, len(strict))
    if first > TIMELINE:
        best = strict + [hit for hit in best if hit.rung == "any"]
    timelines = [best[:first], *(best[at : at + TIMELINE] for at in range(first, len(best), TIMELINE))]
    return [hit for each in timelines for hit in sorted(each, key=lambda hit: (hit.place.at, hit.place.store_id))]


ORDERS: dict[str, Callable[[Pool], list[Found]]] = {
    "relevance": by_relevance,
    "recency": by_recency,
    "hybrid": by_both,
    "time": by_time,
}


_BORDER = re.compile(r"\n|[.!?。！？] ?|\s")
_SNAP_CHARS = 40
_SENTENCE_END = re.compile(r"\n|[.!?](?=\s|$)|[。！？]")
_ENDING_CHARS = 120


def window(text: str, at: int, size: int, stems: Collection[str]) -> tuple[int, int]:
    """(start, stop) of the best ``size`` characters near ``at``: those with most of the different words."""
    if len(text) <= size + size // 4:
        return 0, len(text)
    at = max(0, min(at, len(text)))
    low, high = max(0, at - size), min(len(text), at + 2 * size)
    places = _places(documents.blanked(text, low, high), stems)
    first, last = _densest([(low + n, word) for n, word in places], size, at)
    slack = max(0, size - (last - first))
    start = max(0, min(first - slack // 3, len(text) - size))
    if last < size - size // 8 and start < size // 2:
        start = 0  # a message's first words name its matter
    start, stop = _ended(text, start, min(len(text), start + size), first, [low + n for n, _ in places])
    return _snapped(text, start, stop, first, last)


def _ended(text: str, start: int, stop: int, first: int, places: Sequence[int]) -> tuple[int, int]:
    """The window with the end of a sentence that says some of the words: what is told of them often comes last."""
    begun = max((found.end() for found in _SENTENCE_END.finditer(text, start, stop)), default=start)
    end = _SENTENCE_END.search(text, stop, stop + _ENDING_CHARS)
    if end is None or not any(begun <= at < stop for at in places):
        return start, stop
    begin = min(max(start, first), start + end.end() - stop)
    fits = 4 * (end.end() - begin) <= 5 * (stop - start)
    return (begin, end.end()) if fits else (start, stop)


def first(text: str, literal: str, size: int, stems: Collection[str]) -> int:
    """First place to look: at the words as they were typed, else where ``size`` characters have most of them."""
    lowered = text.lower()
    at = lowered.find(literal.lower()) if literal else -1
    if at < 0 and (places := _places(text, stems)):
        return _densest(places, size, 0)[0]
    return at if at >= 0 else min((n for n in map(lowered.find, stems) if n >= 0), default=0)


def _places(text: str, stems: Collection[str]) -> list[tuple[int, str]]:
    """Places of the words."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = text
    lowered, stems = forms.folded(lowered), {*map(forms.folded, stems)}
    beginnings = {word[:2] for word in stems}  # a stem begins as its words do, so most words need not be stemmed
    out = [
        (found.start(), s)
        for found in _WORD.finditer(lowered)
        if found.group()[:2] in beginnings and (s := stem(found.group())) in stems
    ]
    for word in stems:
        if not word.isascii():  # scripts without spaces: the pairs that were searched, wherever they stand
            for written in (word, documents.escaped(word)):
                at = lowered.find(written)
                while at >= 0:
                    out.append((at, word))
                    at = lowered.find(written, at + 1)
    return sorted(set(out))


def _densest(places: list[tuple[int, str]], size: int, at: int) -> tuple[int, int]:
    """First and last place of the window with most different words; near ``at`` when there is a choice."""
    best, chosen = (0, 0), (at, at)
    begin = 0
    for end, (last, _) in enumerate(places):
        while last - places[begin][0] > size * 3 // 4:
            begin += 1
        first = places[begin][0]
        rank = (len({word for _, word in places[begin : end + 1]}), -min(abs(first - at), abs(last - at)))
        if rank > best or best == (0, 0):
            best, chosen = rank, (first, last)
    return chosen


def _snapped(text: str, start: int, stop: int, first: int, last: int) -> tuple[int, int]:
    if start > 0:
        border = _BORDER.search(text, start, min(first, start + _SNAP_CHARS))
        start = border.end() if border and border.end() < stop else start
    if stop < len(text) and not _SENTENCE_END.match(text, stop - 1):
        borders = [found.start() for found in _BORDER.finditer(text, max(last, stop - _SNAP_CHARS), stop)]
        stop = borders[-1] + 1 if borders and borders[-1] >= start else stop
    return start, stop
