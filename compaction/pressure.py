"""
Compaction policy of one agent: when its prompt is due, by whose measure, and when another pass is worth trying.

Pure but for what it remembers: the sizes of the last request, and the size at which a pass could do nothing. Two measures meet
here. The host estimates a request; the provider counts it. A ``Factor`` tells how far the estimates of now are from its counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from .compress import Outcome

Factor = Callable[[int], float]
"""What to multiply the host's estimate of a request of that size with."""

_RETRY_GROWTH: Final = 1.03  # after a pass without progress: try again when the prompt has grown by this much
_FOR_MODELS: Final = 0.9  # of the foreground budget
_OTHER_MEASURE: Final = 4  # estimates and counts of one prompt do not differ by more


class Size(NamedTuple):
    """A threshold and a prompt, both in the host's own estimates."""

    threshold: int
    current: int | None


class Pressure:
    """Sizes of one agent's prompt. ``counted``: by the provider, -1 if never; ``estimated``: by the host, of the next request."""

    def __init__(self) -> None:
        self.counted = -1
        self.estimated = 0
        self._unanswered = 0
        self._stuck_at = 0

    def forget(self) -> None:
        """Another model or another session: a pass that could do nothing may be able to now."""
        self._stuck_at = 0

    def noted(self, used: int, *, spared: int) -> int:
        """The size of a prompt that the host asks about. Its estimate is of the whole list; ``spared`` tokens are not sent."""
        if used == self.counted:
            return used
        self._unanswered = self.estimated = max(0, used - spared)
        return self.estimated

    def answered(self, counted: int) -> int:
        """The provider has counted the request. What had been estimated for it; 0 if nothing was."""
        estimated, self._unanswered = self._unanswered, 0
        self.counted = counted
        return estimated

    def calibrated(self, used: int, factor: Factor) -> int:
        """An estimate of the host in tokens of the provider; what the provider itself counted stays as it is."""
        return used if used == self.counted else int(used * factor(used))

    def estimate_of(self, current: int | None) -> int:
        """The host's estimate of a prompt of which it says this; of the one on its way if it tells the provider's count."""
        return current if current is not None and current != self.counted else self.estimated

    def size(self, threshold: int, current: int | None, factor: Factor) -> Size:
        """The threshold (in the provider's tokens) and the prompt as a pass measures them."""
        scale = factor(self.estimate_of(current))
        return Size(int(threshold / scale), int(current / scale) if current == self.counted and current else current)

    def worth_a_pass(self, used: int) -> bool:
        """Of a prompt over its threshold: has anything changed since a pass that could do nothing?"""
        if used * _OTHER_MEASURE < self._stuck_at:
            self._stuck_at = 0  # what was reported then was no size of this prompt
        return used > self._stuck_at * _RETRY_GROWTH

    def passed(self, outcome: Outcome, current: int | None, threshold: int, factor: Factor, *, force: bool) -> None:
        """A pass is over. ``threshold``: of the provider's tokens."""
        if outcome.messages is None:
            if not force and (current is None or self.calibrated(current, factor) >= threshold):
                self._stuck_at = max(current or 0, threshold)
            return
        saved = max(0, outcome.before_tokens - outcome.after_tokens)
        self._unanswered = self.estimated = max(0, self.estimated - saved)  # no new estimate comes
        # Still over the threshold: all that can be done was done, so the next pass waits until the prompt has grown.
        self._stuck_at = threshold if outcome.over_limit else 0


def deadline(began: float, budget_ms: int, *, rotation: bool) -> float:
    """Until when a pass may ask models: what is done behind them (extracts, the prompt) takes its part of the budget too.

    An ordered rotation is an operation on prompt and backup, not a synthesis: none is asked.
    """
    return began - 1.0 if rotation else began + budget_ms / 1000 * _FOR_MODELS
