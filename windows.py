"""
Live lists as they were seen last: how much of the next one is known.

Pure. What is compared is read once and kept, some hundred messages at a time, so that of a fresh copy of a long list each message
is looked at while it is at hand. A list of the very same objects costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .align import Expected
from .columns import Columns, column, same
from .records import Lineage

Messages = Sequence[Mapping[str, Any]]

_NEWEST = 256  # of messages that are the very same objects, so many are looked at inside
_AT_ONCE = 256  # messages with what they point at, as the processor's cache holds them


@dataclass(slots=True)
class Window:
    """A live list as it was seen last, and the expected rows that it did not show (it may have been an old state)."""

    objects: list[Mapping[str, Any]]
    columns: Columns
    lineage: Lineage
    pending: tuple[Expected, ...]
    version: int = 0  # of what is known; other objects that say the same are no other version

    @classmethod
    def of(cls, messages: Messages, lineage: Lineage, pending: tuple[Expected, ...]) -> Window:
        """A list that was taken in."""
        return cls(list(messages), Columns.of(messages), lineage, pending)

    def learn(self, messages: Messages, known: int, lineage: Lineage, pending: tuple[Expected, ...]) -> None:
        """A list was taken in whose first ``known`` messages this window had recognised."""
        self.objects[known:] = messages[known:]
        self.columns.replace(known, len(self.columns.contents), Columns.of(messages[known:]))
        self.lineage, self.pending = lineage, pending
        self.version += 1

    def recognise(self, messages: Messages, *, thorough: bool, known: int = 0) -> int:
        """How many leading messages are as they were; ``known`` of them are so for certain.

        A terminal hands over the same objects at every hook. What the host changes inside them is near the end of the list, so
        only a thorough look (once a turn) reads the texts of all of them.
        """
        size = min(len(self.objects), len(messages))
        at = known or self._familiar(messages, size)
        if thorough and at > known and not self._says_the_same(messages, at):
            at = 0
        while at < size:
            stop = min(size, at + _AT_ONCE)
            shown = messages[at:stop]
            rows = Columns.of(shown)
            alike = self.columns.common(rows, at)
            # Other objects come again, and those that are held in their place are nobody's any more.
            self.objects[at:alike] = shown[: alike - at]
            self.columns.replace(at, alike, rows)
            if alike < stop:
                return alike
            at = stop
        return size

    def _familiar(self, messages: Messages, size: int) -> int:
        """How many messages need no look inside, because they are the objects of the list before; never the newest."""
        if size <= _NEWEST or messages[0] is not self.objects[0] or messages[size - 1] is not self.objects[size - 1]:
            return 0
        old = size - _NEWEST
        return old if _alike(self.objects, messages) or same(self.objects[:old], messages[:old]) else 0

    def _says_the_same(self, messages: Messages, size: int) -> bool:
        """Have so many messages the roles and the contents that they had?"""
        for at in range(0, size, _AT_ONCE):
            stop = min(size, at + _AT_ONCE)
            shown = messages[at:stop]
            if not same(column(shown, "content"), self.columns.contents[at:stop]):
                return False
            if not same(column(shown, "role"), self.columns.roles[at:stop]):
                return False
        return True


def _alike(one: list[Mapping[str, Any]], other: Messages) -> bool:
    """Is one of two lists the beginning of the other? Objects are compared in C, identity first.

    Not by slices: to make one touches every object in it, which takes several times as long as the comparison.
    """
    if not isinstance(other, list):
        return False
    try:
        return one <= other if len(one) <= len(other) else other <= one
    except (RecursionError, TypeError, ValueError):  # two of them differ, and messages have no order; or see ``same``
        return False


@dataclass(frozen=True, slots=True)
class Recognised:
    """How many leading messages of a list are known, as long as their window is what it was."""

    count: int = 0
    window: Window | None = None
    version: int = 0

    def still(self, window: Window) -> int:
        """How many are so for certain."""
        return self.count if window is self.window and window.version == self.version else 0


#: Nobody has looked.
UNSEEN = Recognised()
