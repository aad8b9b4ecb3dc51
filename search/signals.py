"""
Signals of relevance: what of a message speaks for its being the answer to a question.

Pure. ``Asked`` holds what a question asks for; ``signals`` are numbers of one candidate, in the order of ``NAMES``. Their weights
are learned by ``benchmarks/train_ranking.py`` and stand in ``weights.py``.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from . import forms, json_text
from .query import Atom

READ_CHARS: Final = 6000  # of one message
_OCCURRENCES: Final = 30  # of one word
_WINDOWS: Final = {False: (55, 170), True: (14, 40)}  # characters: about 8 and 24 words, and as much Chinese
_PAIR_CHARS: Final = {False: 30, True: 8}
_STRETCH_BEFORE, _STRETCH_AFTER = 150, 350  # around the best window: where the kind of answer is looked for

NAMES: Final = (
    "raw", "base", "logrank", "near", "prev", "next", "around", "local", "cov", "cov2", "cov3", "covp", "prevcov", "nextcov",
    "win", "wide", "pairs", "tf", "density", "names", "speaker", "numbers", "user", "loglen", "endq", "prevqcov", "first",
    "firstuser", "kind", "when", "many", "where", "who", "dup",
)  # fmt: skip

_CJK: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
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
#: Kind of question: how it is asked, and what its answer holds.
_KINDS: Final = {
    "when": (re.compile(_WHEN, re.IGNORECASE), _DATE),
    "many": (re.compile(_MANY, re.IGNORECASE), _AMOUNT),
    "where": (re.compile(r"\bwhere\b|which (?:city|country|place)|哪里|哪儿|地点|地方|哪个(?:城市|地)", re.IGNORECASE),
              re.compile(r"\b(?:in|at|to|from|near)\s+(?:the\s+)?[A-Z]|[省市区县路街镇国]|在")),
    "who": (re.compile(r"\bwho(?:m|se)?\b|谁|哪位", re.IGNORECASE), re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+")),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """A text with the places of the question's words in it: (offset, number of the word), in order."""

    lowered: str
    places: tuple[tuple[int, int], ...]
    words: frozenset[int]
    begin: int = 0  # where the part that was read begins in the text


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


def beginning(stem: str) -> str:
    """What "happi" and "happy" share."""
    return stem[:-1] if len(stem) > 3 and stem[-1] in "ie" else stem


def begins_word(text: str, at: int) -> bool:
    """Does a word begin here? Scripts without blanks have no beginnings."""
    return at == 0 or not text[at].isascii() or text[at] == "\\" or not text[at - 1].isalnum()


def _begun(text: str, sought: str) -> Iterator[int]:
    """Where words of a text begin like this."""
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


class Asked:
    """A question: its words by rarity, its names and numbers, its kind."""

    def __init__(self, raw: str, weights: Mapping[Atom, float]) -> None:
        self._words = [([beginning(s) for s in atom.stems], weight) for atom, weight in weights.items() if atom.stems]
        self._roots = [atom.roots for atom in weights if atom.stems]
        self._written = [atom.written.strip('"*()') for atom in weights if atom.stems]
        self._total = sum(weight for _, weight in self._words) or 1.0
        lowered = raw.lower()
        order = sorted(range(len(self._words)), key=lambda n: lowered.find(self._words[n][0][0]) % (len(raw) + 1))
        self._following = dict(pairwise(order))
        cjk = bool(_CJK.search(raw))
        self._windows, self._pair_chars = _WINDOWS[cjk], _PAIR_CHARS[cjk]
        capitalised = {found.group().lower() for found in _CAPITALISED.finditer(raw)}
        self._names = capitalised - {"i", "i'm", "i've", "i'd"}
        self._numbers = _NUMBER.findall(raw)
        self._kinds = {name for name, (asked, _) in _KINDS.items() if asked.search(raw)}
        self.length = max(1, len(raw.split()) - 2)
        self.is_question = bool(_QUESTION.search(raw))
        self.wants_replies = asks_for_replies(raw)

    def see(self, text: str, begin: int = 0) -> Seen:
        """Where the question's words stand in a text, or in the part of it that begins here."""
        lowered = json_text.blanked(text, begin, begin + READ_CHARS).lower() if begin < len(text) else ""
        lowered = forms.plain(lowered)
        places: list[tuple[int, int]] = []
        for number, (parts, _) in enumerate(self._words):
            if len(parts) > 1 and not all(part in lowered for part in parts):
                continue
            most = _OCCURRENCES if len(parts) == 1 else 1
            for sought in self._roots[number] or parts[:1]:
                places += [(at, number) for at in itertools.islice(_begun(lowered, sought), most)]
        places.sort()
        return Seen(lowered, tuple(places), frozenset(number for _, number in places), begin)

    def share(self, words: Collection[int]) -> float:
        """The rarity-weighted share of the question's words."""
        return sum(self._words[number][1] for number in words) / self._total

    def densest(self, seen: Seen, size: int) -> tuple[float, int]:
        """(share of the words in the best window of so many characters, where it begins)."""
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
            if now > best + 1e-9:
                best, chosen = now, seen.places[begin][0]
        return best / self._total, chosen

    def missing(self, seen: Iterable[Seen]) -> tuple[float, tuple[str, ...]]:
        """(share of the question's words that stand in these texts, the words that do not, rarest first)."""
        found = {number for each in seen for number in each.words}
        left = sorted(set(range(len(self._words))) - found, key=lambda n: -self._words[n][1])
        return self.share(found), tuple(self._written[n] for n in left)

    def window(self, seen: Seen) -> int:
        """Where the best sentence begins in the text."""
        return seen.begin + self.densest(seen, self._windows[1])[1]

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
        self, candidate: Candidate, texts: Sequence[str], seen: Sequence[Seen], *, repeated: bool
    ) -> list[float]:
        """One candidate's numbers, in the order of ``NAMES``."""
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
        ]  # fmt: skip

    def _named(self, text: str, lowered: str) -> tuple[float, float, float]:
        """Names of the question in the text, in the speaker's place, and its numbers."""
        names = sum(name in lowered for name in self._names) / max(1, len(self._names))
        speaker = any(lowered.startswith(name) for name in self._names)
        return names, speaker, sum(number in text for number in self._numbers) / max(1, len(self._numbers))
