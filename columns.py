"""
What counts of a list of host messages, column by column.

Pure. Lists of objects are compared in C, identity first, so that a long list that has not changed costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

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
    """Are two equal? What goes deeper than Python compares, or has no such notion, is not: its digest tells who it is."""
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
