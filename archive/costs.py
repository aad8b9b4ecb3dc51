"""
Token costs of messages: the provider's count of one request minus that of the one before is the cost of the messages between.

Pure. Between two counts tokens are shared out by length; what was never counted apart is estimated with what the rest cost. In
memory, per engine: another process begins with estimates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

from ..prompt.rewrites import as_sent
from ..text import content

_CHARS_PER_TOKEN: Final = 4.0
_FRAME_CHARS: Final = 16  # of a message, beside what it says
_LEAST_COUNTED: Final = 400  # tokens; fewer say little about the rest
_LOW, _HIGH = 0.25, 4.0


def length(message: Mapping[str, Any]) -> int:
    """Length of a message in a request, in characters."""
    sent = as_sent(message)
    calls = sent.get("tool_calls")
    said = len(content.text_of(sent.get("content"))) + len(str(sent.get("reasoning_content") or ""))
    return _FRAME_CHARS + said + (len(json.dumps(calls, default=str)) if calls else 0)


class TokenCosts:
    """Counts of one growing list: ``note`` after each request, ``of`` when somebody asks."""

    def __init__(self) -> None:
        self._points: list[tuple[int, int, object]] = []

    def note(self, messages: int, tokens: int, shape: object) -> None:
        """A request of so many messages took so many tokens. ``shape``: what of the list it showed otherwise.

        A shorter list is another one (compaction, /undo): what was known of it no longer holds.
        """
        if self._points and messages < self._points[-1][0]:
            self._points.clear()
        if self._points and messages == self._points[-1][0]:
            self._points.pop()
        if tokens > 0:
            self._points.append((messages, tokens, shape))

    def clear(self) -> None:
        """The list is another one."""
        self._points.clear()

    def of(self, messages: Sequence[Mapping[str, Any]]) -> CostList:
        """Costs of each message of the list."""
        lengths = [length(message) for message in messages]
        rates: list[float | None] = [None] * len(lengths)
        size, tokens = 0, 0.0
        for (low, before, shape), (high, after, other) in pairwise(self._points):
            part = sum(lengths[low:high])
            if shape != other or high > len(lengths) or not part:
                continue
            rate = (after - before) / part
            if _LOW <= rate * _CHARS_PER_TOKEN <= _HIGH:
                rates[low:high] = [rate] * (high - low)
                size, tokens = size + part, tokens + after - before
        scale = tokens / size if tokens >= _LEAST_COUNTED else 1 / _CHARS_PER_TOKEN
        costs = [chars * (scale if rate is None else rate) for chars, rate in zip(lengths, rates, strict=True)]
        return CostList((0.0, *accumulate(costs)), scale)


@dataclass(frozen=True, slots=True)
class CostList:
    """Tokens in front of each place of a list, and tokens a character of what is not in it."""

    before: tuple[float, ...]
    scale: float

    def tokens(self, first: int, stop: int) -> int:
        """Tokens of messages ``first`` to ``stop`` (exclusive)."""
        return round(self.before[stop] - self.before[first])

    def cost(self, new: Sequence[Mapping[str, Any]]) -> int:
        """Tokens of messages that are not in the list."""
        return round(sum(map(length, new)) * self.scale)
