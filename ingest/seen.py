"""
Live lists as they were seen last: how much of the next one is known.

Pure. What is compared is read once and kept, some hundred messages at a time, so that of a fresh copy of a long list each message
is looked at while it is at hand. A list of the very same objects costs next to nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from ..records import Entries, Lineage
from .align import Expected

Messages = Sequence[Mapping[str, Any]]

_NEWEST = 256  # of messages that are the very same objects, so many are looked at inside
_OF_HAND = 8  # of the newest messages of a list: by these it is known again
_HANDS = 3
_OF_ONE = 1000  # bytes of a message beside its content
_AT_ONCE = 256  # messages with what they point at, as the processor's cache holds them


class Hand(NamedTuple):
    """A list of another agent of the same session: its newest messages with their places, and what it showed."""

    newest: tuple[tuple[int, Mapping[str, Any]], ...]
    entries: Entries

    def holds(self, messages: Messages) -> bool:
        """Is this list that one, gone on or a little shorter? It has the very same objects in their places."""
        return any(n < len(messages) and messages[n] is message for n, message in self.newest)


@dataclass(slots=True)
class Window:
    """A live list as it was seen last, and the expected rows that it did not show (it may have been an old state).

    ``missed``: rows that no list of this process has shown, and that no other process can have written. ``hand``: which of the
    agents that work at the session has the list that is shown now, where that is not the one of ``lineage``; ``unknown``: its
    messages are other objects, and no such list was seen before.
    """

    objects: list[Mapping[str, Any]]
    columns: Columns
    lineage: Lineage
    pending: tuple[Expected, ...]
    missed: frozenset[int] = frozenset()
    hand: Hand | None = None
    hands: tuple[Hand, ...] = ()
    unknown: bool = False
    version: int = 0  # of what is known; other objects that say the same are no other version
    size: int = 0  # bytes that its messages take, about

    @classmethod
    def of(cls, messages: Messages, lineage: Lineage, pending: tuple[Expected, ...], *, alone: bool = True) -> Window:
        """A list that was taken in. ``alone``: no other process works at the session."""
        missed = frozenset(item.store_id for item in pending) if alone else frozenset[int]()
        columns = Columns.of(messages)
        return cls(list(messages), columns, lineage, pending, missed, size=_size(columns.contents))

    def learn(self, messages: Messages, known: int, lineage: Lineage, pending: tuple[Expected, ...]) -> None:
        """A list was taken in whose first ``known`` messages this window had recognised."""
        new = Columns.of(messages[known:])
        self.size += _size(new.contents) - _size(self.columns.contents[known:])
        self.objects[known:] = messages[known:]
        self.columns.replace(known, len(self.columns.contents), new)
        self.missed = self.shown().intersection(item.store_id for item in pending) if pending else frozenset()
        self.lineage, self.pending, self.hand, self.unknown = lineage, pending, None, False
        self.version += 1

    def shown(self, *, alone: bool = True) -> frozenset[int]:
        """The rows that this list showed before: what it lacks of them was taken back; of others it says nothing.

        ``alone``: one agent works at the session, so that an unknown list is its own, loaded again.
        """
        if self.unknown and not alone:
            return frozenset()
        entries = self.hand.entries if self.hand is not None else self.lineage.entries
        return self.missed.union(store_id for entry in entries for store_id in entry.ids)

    def recognise(self, messages: Messages, *, thorough: bool, known: int = 0) -> int:
        """How many leading messages are as they were; ``known`` of them are so for certain.

        A terminal hands over the same objects at every hook. What the host changes inside them is near the end of the list, so
        only a thorough look (once a turn) reads the texts of all of them.
        """
        size = min(len(self.objects), len(messages))
        if not known:
            self._changes_hands(messages, size)
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

    def _changes_hands(self, messages: Messages, size: int) -> None:
        """Note whose list comes now. Other objects are those of another agent, or of a gateway that has loaded the list again."""
        if not size or any(messages[n] is self.objects[n] for n in range(max(0, size - _OF_HAND), size)):
            return
        first = max(0, len(self.objects) - _OF_HAND)
        left = Hand(tuple(enumerate(self.objects[first:], first)), self.lineage.entries)
        self.hand = next((hand for hand in self.hands if hand.holds(messages)), None)
        self.unknown = self.hand is None
        self.hands = (left, *(hand for hand in self.hands if hand.entries is not left.entries))[:_HANDS]

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


def _size(body: Any, depth: int = 3) -> int:
    """Bytes that a message content takes, or a list of them, with what is kept of each; what lies deeper counts for nothing."""
    if isinstance(body, str):
        return sys.getsizeof(body)
    if not depth or not isinstance(body, list | dict):
        return 0
    items = body if isinstance(body, list) else body.values()
    return sum(_OF_ONE + _size(item, depth - 1) for item in items)


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


# -- a live list, column by column -----------------------------------------------------------------------
_PLAIN = {str, type(None)}
_NEARLY_ALWAYS = {name: itemgetter(name) for name in ("content", "role")}


@dataclass(slots=True)
class Columns:
    """What counts of a list's messages, column by column: lists of objects are compared in C."""

    contents: list[Any]
    roles: list[Any]
    calls: list[Any]
    answers: list[Any]

    @classmethod
    def of(cls, messages: Sequence[Mapping[str, Any]]) -> Columns:
        """Contents that can change in place are copied."""
        return cls(
            _copied(column(messages, "content")),
            column(messages, "role"),
            column(messages, "tool_calls"),
            column(messages, "tool_call_id"),
        )

    def all(self) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        """The columns."""
        return self.contents, self.roles, self.calls, self.answers

    def common(self, other: Columns, start: int) -> int:
        """How many leading rows are equal, where ``other`` begins at row ``start`` of this one."""
        size = min(len(self.contents) - start, len(other.contents))
        for mine, theirs in zip(self.all(), other.all(), strict=True):
            if not same(mine[start : start + size], theirs[:size]):
                size = next((n for n in range(size) if not same(mine[start + n], theirs[n])), size)
        return start + size

    def replace(self, start: int, stop: int, other: Columns) -> None:
        """In the place of these rows come the first of ``other``: as many, or all of it at the end."""
        for mine, theirs in zip(self.all(), other.all(), strict=True):
            mine[start:stop] = theirs if stop == len(mine) else theirs[: stop - start]


def same(one: Any, other: Any) -> bool:
    """Equality of two values. False where they go deeper than Python compares, or cannot be compared: digests decide there."""
    try:
        return bool(one == other)
    except (RecursionError, TypeError, ValueError):
        return False


def column(messages: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """What messages have under a name, as it is; None where they have nothing."""
    read = _NEARLY_ALWAYS.get(name)
    try:
        if read is not None:
            return list(map(read, messages))  # three quarters of the time
    except KeyError:
        pass
    return [message.get(name) for message in messages]


def _copied(items: list[Any]) -> list[Any]:
    """Contents; those that can change in place as copies."""
    return items if set(map(type, items)) <= _PLAIN else [_snapshot(item) for item in items]


def _snapshot(item: Any) -> Any:
    if isinstance(item, list):
        return [dict(part) if isinstance(part, dict) else part for part in item]
    return dict(item) if isinstance(item, dict) else item
