"""
What counts of a list of host messages, column by column.

Pure. Lists of objects are compared in C, identity first, so that a long list that has not changed costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PLAIN = {str, type(None)}
_NEWEST = 256  # of messages that are the very same objects, so many are looked at inside


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
            _copied(contents(messages)),
            [message.get("role") for message in messages],
            [message.get("tool_calls") for message in messages],
            [message.get("tool_call_id") for message in messages],
        )

    def all(self) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        """The columns."""
        return self.contents, self.roles, self.calls, self.answers

    def common(self, other: Columns, start: int) -> int:
        """How many leading rows are equal, where ``other`` begins at row ``start`` of this one."""
        size = min(len(self.contents) - start, len(other.contents))
        for mine, theirs in zip(self.all(), other.all(), strict=True):
            if mine[start : start + size] != theirs[:size]:
                size = next(n for n in range(size) if mine[start + n] != theirs[n])
        return start + size

    def replace_from(self, start: int, other: Columns) -> None:
        """Rows from ``start`` on are those of ``other``."""
        for mine, theirs in zip(self.all(), other.all(), strict=True):
            mine[start:] = theirs


def same_objects(before: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]) -> int:
    """How many leading messages need no look inside, because they are the objects of the list before; never the newest."""
    size = min(len(before), len(messages))
    if size <= _NEWEST or messages[0] is not before[0] or messages[size - 1] is not before[size - 1]:
        return 0
    old = size - _NEWEST
    return old if before[:old] == messages[:old] else 0


def contents(messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The contents of messages, as they are."""
    return [message.get("content") for message in messages]


def _copied(items: list[Any]) -> list[Any]:
    """Contents; those that can change in place as copies."""
    return items if set(map(type, items)) <= _PLAIN else [_snapshot(item) for item in items]


def _snapshot(item: Any) -> Any:
    if isinstance(item, list):
        return [dict(part) if isinstance(part, dict) else part for part in item]
    return dict(item) if isinstance(item, dict) else item
