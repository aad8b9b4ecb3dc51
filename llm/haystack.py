"""
What of a source's items does a text hold?

Owns the looking up. Pure; each view of a text is made when it is first needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property

from ..text.salience import NUMBER, QUOTE, TERMS, Item, lazy, normal

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
