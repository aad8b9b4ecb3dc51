"""
The source of a summary, read once.

Owns what a summary should keep of its source (``Source``), and what it may know (``Evidence``: the source, and whatever
else the prompt said). A source is read when it is first asked about, and shared by all attempts at it, by the striking
and by the extract. For one thread at a time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Final

from ..records import SourceLine, SummaryTask
from ..text import markers, salience
from ..text.salience import NUMBER, QUOTE, TERMS, Item, Reading, lazy, normal, stretch

_SEPARATORS: Final = str.maketrans(dict.fromkeys("-_./\\", " "))
#: How the names of months begin, in several languages.
_MONTH_NAMES: Final = (
    "jan|jän|ene|gen", "feb|fév|fev", "mar|mär", "apr|avr|abr", "may|mai|mag", "jun|juin|giu", "jul|juil|lug", "aug|aoû|ago",
    "sep|set", "oct|okt|ott|out", "nov", "dec|dez|déc|dic",
)  # fmt: skip
#: Digits that are a fact when they stand together.
RUN = lazy(r"\d{3,}")
_INTEGER = lazy(r"\d{1,4}")
#: A number with its thousands set apart, as languages do it.
_GROUPED = lazy(r"(?<![\d.,])\d{1,3}(?:[.'’ \u00a0\u202f]\d{3})+(?!\d)")
_THOUSANDS = lazy(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!\d)")
_NO_DIGIT = lazy(r"\D")
#: Numbers that are figures of speech as often as facts.
_ROUND: Final = frozenset({"100", "1000"})


class Source:
    """A task's lines as they are read: without memory that was recalled elsewhere, which a reply may repeat."""

    def __init__(self, task: SummaryTask) -> None:
        lines = tuple(_said_here(line) for line in task.lines)
        self.task = replace(task, lines=lines) if lines != task.lines else task
        self._evidence: tuple[str, Evidence] | None = None

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """The lines, one by one."""
        return tuple(Reading(line) for line in self.task.lines)

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """Salient items of the source, most important first."""
        return salience.salient(self.readings)

    @cached_property
    def terms(self) -> tuple[Item, ...]:
        """The words and numbers among the items."""
        return tuple(item for item in self.items if item.kind in salience.TERMS)

    @cached_property
    def haystack(self) -> Haystack:
        """The lines' text."""
        return Haystack("\n".join(line.text for line in self.task.lines))

    def evidence(self, prompt: str) -> Evidence:
        """Text that a model knew which read ``prompt``."""
        if self._evidence is None or self._evidence[0] != prompt:
            self._evidence = prompt, Evidence(self, prompt)
        return self._evidence[1]


def _said_here(line: SourceLine) -> SourceLine:
    text = markers.unrecalled(line.role, line.text, blanks=False)
    return line if text is line.text else replace(line, text=text.strip())


class Evidence:
    """Evidence of a summary: all that it may know."""

    def __init__(self, source: Source, prompt: str) -> None:
        task = source.task
        # The prompt may show an oversized result in part; the source itself is the evidence. Both are needed: times
        # and addresses stand only in the prompt. What a memory plugin knows was not said here, though a model reads it.
        if memory := task.memory_context.strip():
            prompt = prompt.replace(memory, "")
        rest = [*(line.address for line in task.lines), task.focus, task.previous, prompt]
        self._haystacks = (source.haystack, Haystack("\n".join(rest)))
        self._written = (*(line.text for line in task.lines), *rest)

    @cached_property
    def _loose(self) -> str:
        return " ".join(" ".join(hay.text for hay in self._haystacks).translate(_SEPARATORS).split())

    @cached_property
    def _numbers(self) -> frozenset[str]:
        runs = (run for hay in self._haystacks for run in RUN.findall(hay.text))
        grouped = (_NO_DIGIT.sub("", each) for hay in self._haystacks for each in _GROUPED.findall(hay.text))
        # Of 110,000 a summary says 110k, too.
        groups = (group for text in self._written for each in _THOUSANDS.findall(text) for group in RUN.findall(each))
        return frozenset([*runs, *grouped, *groups])

    def without_grouped(self, text: str) -> str:
        """A text without those numbers that it writes with their thousands set apart, and that are known."""
        return _GROUPED.sub(lambda found: "" if _NO_DIGIT.sub("", found[0]) in self._numbers else found[0], text)

    def contains(self, text: str) -> bool:
        """Is this very text (in normal form) part of it?"""
        return any(hay.contains(text) for hay in self._haystacks)

    def spellings(self, name: str) -> frozenset[str]:
        """Spellings of a name in the source, by upper and lower case; the given one alone where the source has it."""
        if any(name in text for text in self._written):
            return frozenset((name,))
        written = re.compile(rf"(?<![\w.-]){re.escape(name)}(?!\w)", re.IGNORECASE)
        return frozenset(each for text in self._written for each in written.findall(text))

    def supports(self, item: Item) -> bool:
        """Does the item occur, in this or an equivalent spelling?"""
        key = item.key.rstrip(".…")
        if item.kind == salience.NUMBER:
            return all(self._has_number(run, key) for run in RUN.findall(key))
        if self.contains(key) or " ".join(key.translate(_SEPARATORS).split()) in self._loose:
            return True
        if item.kind == salience.DATE:
            return self._has_day(key)
        if item.kind in (salience.PATH, salience.URL):
            return self._has_joined(key)
        return self._has_parts(item.text)

    def _has_parts(self, text: str) -> bool:
        """A range (msg_1..msg_3), or plain words and numbers joined by hyphens (404-error): is each of them there?"""
        parts = text.split("..") if ".." in text else text.split("-") if text.islower() else []
        return len(parts) > 1 and all(part and self.contains(salience.normal(part)) for part in parts)

    def _has_number(self, run: str, key: str = "") -> bool:
        """Is it there: all of its digits, or, behind the point, the first ones?"""
        if run in _ROUND or run in self._numbers:
            return True
        return f".{run}" in key and any(number.startswith(run) for number in self._numbers)

    def _has_joined(self, path: str) -> bool:
        """A folder named in one place and a file below it named in another."""
        cuts = [n for n, char in enumerate(path) if char in "/:"]
        return any(
            self.contains(path[:n]) and self.contains(path[n + 1 :]) for n in cuts if n >= 3 and len(path) - n > 4
        )

    def _has_day(self, key: str) -> bool:
        numbers = [int(run) for run in _INTEGER.findall(key)[:3]]
        if len(numbers) < 3:
            return all(self._has_number(run) for run in RUN.findall(key))
        year, month, day = numbers if numbers[0] > 31 else (numbers[2], numbers[1], numbers[0])
        spellings = [f"{year}-{month:02}-{day:02}", f"{month}月{day}日", f"{month:02}月{day:02}日", f"{month}/{day}/"]
        if any(self.contains(spelling) for spelling in spellings):
            return True
        if not 1 <= month <= 12:
            return False
        name = f"(?:{_MONTH_NAMES[month - 1]})"
        written = re.compile(
            rf"\b{name}[a-z]*\.?[ -]0?{day}(?:st|nd|rd|th)?\b|\b0?{day}(?:st|nd|rd|th|er|\.)?(?: of| de)? {name}"
        )
        return any(written.search(hay.text) for hay in self._haystacks)


# -- items of a source in a text -------------------------------------------------------------------------
_LONG_WORD = lazy(r"\w{4,}")
_DIGITS = lazy(r"\d+")


class Haystack:
    """Text in which items are looked up."""

    def __init__(self, text: str) -> None:
        self.text = normal(text)

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(_LONG_WORD.findall(self.text))

    @cached_property
    def _numbers(self) -> frozenset[str]:
        return frozenset(_DIGITS.findall(self.text))

    def plus(self, text: str) -> Haystack:
        """A haystack with more text on a line of its own."""
        more = Haystack("")
        more.text = f"{self.text} {normal(text)}"
        return more

    def has(self, item: Item) -> bool:
        """Is the item there: a term as it stands, a sentence when most of its longer words are."""
        if item.kind == NUMBER and item.key.isdigit():
            return item.key in self._numbers
        if item.key.rstrip("…") in self.text:
            return True
        if item.kind in TERMS and item.kind != QUOTE:
            return False
        words = _LONG_WORD.findall(item.key)
        return len(words) >= 3 and sum(word in self._words for word in words) >= 0.7 * len(words)

    def contains(self, text: str) -> bool:
        """Is this very text (already in normal form) part of it?"""
        return text in self.text


def recall(items: Iterable[Item], haystack: Haystack) -> tuple[float, tuple[Item, ...]]:
    """Share of the items that the text holds (1.0 of none), and those it lacks."""
    every = tuple(items)
    missing = tuple(item for item in every if not haystack.has(item))
    return (1.0 - len(missing) / len(every) if every else 1.0), missing


def with_more(items: Collection[Item], missing: Iterable[Item], haystack: Haystack) -> float:
    """The recall of a text that was added to: only what it lacked needs another look."""
    lost = sum(not haystack.has(item) for item in missing)
    return 1.0 - lost / len(items) if items else 1.0


def clip(text: str, limit: int) -> str:
    """A text on one line, cut at its end."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else stretch(flat, 0, limit - 1).rstrip() + "…"
