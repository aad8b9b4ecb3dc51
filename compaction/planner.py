"""
Compaction planner: at how many tokens the next fold is due, and what it saves.

Pure. Weighs what a fold costs once (the prompt read anew behind its first changed byte, summaries bought) against what each later
request saves, in whatever the prices count: money, or time where a model costs none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

#: Tokens that a summariser reads and writes for each token of conversation, frame included.
READ_SHARE: Final = 0.4
WRITTEN_SHARE: Final = 0.04
#: What a conversation says raw is worth something that no price tells: below so much of the window, and below so many tokens,
#: nothing is folded before its threshold.
EARLIEST_SHARE: Final = 0.25
EARLIEST_TOKENS: Final = 20_000
#: A conversation is expected to go on for as many requests as it had, and for so many at least.
LEAST_REQUESTS: Final = 10


@dataclass(frozen=True, slots=True)
class Prices:
    """Cost of a million tokens: of a prompt uncached and cached, and what a summariser reads and writes. ``source``: whose."""

    uncached: float
    cached: float
    summary_in: float
    summary_out: float
    source: str = "stated"

    @property
    def free(self) -> bool:
        return not (self.uncached or self.cached)


#: Where nobody knows a price: a large model with a prompt cache.
DEFAULT: Final = Prices(3.0, 0.3, 3.0, 15.0)
#: A model on this machine: reading takes time once, what its cache holds takes next to none, writing takes longest.
LOCAL: Final = Prices(1.0, 0.002, 1.0, 10.0, "time")


#: A provider's cache serves that much of the prompts of a conversation that goes on without a pause.
_CACHED_AT_BEST: Final = 0.9
#: What a cached token costs of an uncached one where a host does not tell.
_CACHED_PART: Final = 0.25
_TRUSTED_REQUESTS: Final = 8


def priced(
    main: tuple[float, float | None, float] | None,
    summariser: tuple[float, float | None, float] | None,
    *,
    local: bool,
    cached_share: float,
    requests: int,
) -> Prices:
    """Prices from what a host knows of two models (read, read cached, written), and the share that a cache really served."""
    if main is None and local:
        return LOCAL
    known = main or (DEFAULT.uncached, DEFAULT.cached, DEFAULT.summary_out)
    uncached, cached, output = known
    read, _, written = summariser or (uncached, None, output)
    seen = requests >= _TRUSTED_REQUESTS
    if cached is None:
        cached = uncached if seen and not cached_share else uncached * _CACHED_PART
    if seen and cached_share:
        cached += max(0.0, _CACHED_AT_BEST - cached_share) * (uncached - cached)
    return Prices(uncached, min(cached, uncached), read, written, "stated" if main is None else "the host's")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's sizes in tokens. ``kept``: what a fold leaves; ``growth``: what one request adds; ``exact``: no early fold."""

    tokens: int
    threshold: int
    window: int
    kept: int
    growth: float
    exact: bool


@dataclass(frozen=True, slots=True)
class Fold:
    """The next fold: due at so many tokens, and ``saves`` of what the prices count until the conversation ends as expected."""

    due: int
    saves: float
    why: str


def plan(prices: Prices, prompt: Prompt, ready: int, expected: float) -> Fold:
    """When to fold. ``ready``: tokens of the backlog that are summarised already; ``expected``: requests to come."""
    latest = min(prompt.threshold, prompt.window)
    late = saving(prices, prompt, latest, ready, expected)
    if prompt.exact:
        return Fold(latest, late, "the threshold that was set")
    if prices.free:
        return Fold(latest, 0.0, "requests cost nothing, so at the threshold")
    least = max(_span(prices, prompt), _break_even(prices, prompt, ready, expected))
    due = max(earliest(prompt.window), prompt.kept + least)
    gain = saving(prices, prompt, int(due), ready, expected) if due < latest else -1.0
    if gain < 0:
        return Fold(latest, late, "an earlier one would cost more than it saves")
    return Fold(
        int(due), gain, f"cheaper than at the threshold in {expected:.0f} more requests, by {prices.source} prices"
    )


def saving(prices: Prices, prompt: Prompt, at: int, ready: int, expected: float) -> float:
    """What a fold of a prompt of ``at`` tokens saves over the requests expected, less what it costs."""
    folded = max(0, at - prompt.kept)
    once = prompt.kept * _read_anew(prices) + max(0, folded - ready) * _summarised(prices)
    return (expected * folded * prices.cached - once) / 1e6


def earliest(window: int) -> int:
    """Below how many tokens nothing is folded before its threshold."""
    return max(EARLIEST_TOKENS, int(window * EARLIEST_SHARE))


def _read_anew(prices: Prices) -> float:
    """What a token of the prompt costs more when a fold has changed something in front of it."""
    return max(0.0, prices.uncached - prices.cached)


def _summarised(prices: Prices) -> float:
    return READ_SHARE * prices.summary_in + WRITTEN_SHARE * prices.summary_out


def _span(prices: Prices, prompt: Prompt) -> float:
    """Tokens between two folds at which reading anew and carrying along cost least together."""
    if not prices.cached:
        return math.inf
    return math.sqrt(2.0 * prompt.growth * _read_anew(prices) * prompt.kept / prices.cached)


def _break_even(prices: Prices, prompt: Prompt, ready: int, expected: float) -> float:
    """Tokens that must be folded so that the requests expected pay for it."""
    carried, once, each = expected * prices.cached, prompt.kept * _read_anew(prices), _summarised(prices)
    if once <= carried * ready:
        return once / carried + 1.0 if carried else 0.0
    return (once - ready * each) / (carried - each) + 1.0 if carried > each else math.inf
