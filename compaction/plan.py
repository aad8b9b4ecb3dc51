"""
Plans of a compaction: sizes to chunks, budgets and a tail; at how many tokens the next fold is due, and what it saves.

Pure: no store, no model. ``Unit`` is what may not be split (a group of messages); ``Tail`` is what stays raw; ``Chunk`` is
what one summary will cover. When a fold is due weighs what it costs once (the prompt read anew behind its first changed byte,
summaries bought) against what each later request saves, in whatever the prices count: money, or time where a model costs none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..records import Node, Unit

#: A chunk that small costs more as a summary than as it is.
TINY_TOKENS = 150
#: Below this, half of what a call reads would be instructions: it waits until there is more.
LEAST_TOKENS = 3000
GAP_SECONDS = 1800.0
_MIN_CHUNK_TOKENS = 8000
_MAX_CHUNK_TOKENS = 60000
_CHUNK_FLOORS = 2  # a third of a chunk is read: fewer, larger ones cost less and say as much
_GOAL_OF_SIZE = 0.75  # fewer, larger leaves are fewer calls, but what is condensed from them twice keeps less of each
_LEAST_OF_GOAL = 0.6  # how much smaller than its even share a chunk may be so that it ends with a turn
_PREFIX_OF_LIMIT = 0.7
_LEAST_TAIL, _LEAST_TAIL_SHARE = 2_000, 0.25  # in a small window the newest messages have that much of it
_EARLY_LOW = 0.6  # of a pass before the threshold: summaries may take as much as at the threshold
_DYNAMIC_CHUNKS = 4  # a backlog is cut into so many when chunks may grow with it
#: Size of a summary: share of its source, least and greatest. A model condenses; an extract keeps what it quotes, so it
#: needs more room for the same recall (benchmarks/summaries.py shows what these reach).
_MODEL: Final = ((1 / 8, 160, 1200), (0.4, 200, 3000))
_EXTRACT: Final = ((1 / 5, 160, 4000), (0.7, 200, 12_000))


@dataclass(frozen=True, slots=True)
class Tail:
    """Units from ``start`` on stay raw. ``request``: the unit with the user's latest request when it lies before them."""

    start: int
    request: int | None
    tokens: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Units that one leaf covers. ``node_id``: a leaf that is ready."""

    ids: tuple[int, ...]
    tokens: int
    node_id: int | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens. ``threshold``: where a pass begins; ``limit``: for tail and summaries, ``tail`` and ``prefix``: for each."""

    threshold: int
    overhead: int
    limit: int
    tail: int
    prefix: int


def budget(
    *,
    threshold: int,
    messages: int,
    current: int | None,
    low_water: float,
    tail_share: float,
    prefix_share: float,
    force: bool,
    due: int = 0,
) -> Budget:
    """Divide the window.

    ``due``: where the pass begins if that is before the threshold. ``current``: what the host measured for the whole request,
    ``messages`` the list's part of it; below ``due`` (manual compaction, a refused request) the request itself is the measure.
    """
    due = due or threshold
    overhead = max(0, (current or 0) - messages)
    whole = messages + overhead
    base = min(due, whole) if whole > 0 else due
    overhead = min(overhead, int(base * 0.7))
    low = base * low_water if due >= threshold else min(base * _EARLY_LOW, threshold * low_water)
    limit = max(int(low) - overhead, int(base * 0.15), 256)
    share = tail_share if not force else min(tail_share, 0.3)
    prefix = max(128, min(int(threshold * prefix_share), int(limit * _PREFIX_OF_LIMIT)))
    least = min(_LEAST_TAIL, int(base * min(_LEAST_TAIL_SHARE, 8 * share)))
    tail = max(128, min(max(int(base * share), least), limit - min(prefix, limit // 3)))
    return Budget(due, overhead, limit, tail, prefix)


def target_tokens(source_tokens: int, depth: int, extractive: bool) -> int:
    """Target length of a summary: of ``source_tokens`` of messages at depth 0, of summaries above."""
    share, least, most = (_EXTRACT if extractive else _MODEL)[min(depth, 1)]
    return max(least, min(most, int(source_tokens * share)))


def tail_of(units: Sequence[Unit], *, count: int, room_tokens: int, request: int | None) -> Tail:
    """The newest units, at most ``count`` messages and ``room_tokens``; the last one and the request always.

    A group without all its results can only be the last one: everything before it is backlog.
    """
    if not units:
        return Tail(0, None, 0)
    start = len(units)
    used = messages = 0
    reserved = units[request].tokens if request is not None else 0
    for n in range(len(units) - 1, -1, -1):
        unit = units[n]
        extra = 0 if n == request else unit.tokens
        size = max(1, unit.stop - unit.index)
        last = n == len(units) - 1
        if not last and (messages + size > count or used + extra + reserved > room_tokens or not unit.whole):
            break
        used += extra
        messages += size
        start = n
    pinned = request if request is not None and request < start else None
    return Tail(start, pinned, used + reserved)


def parted_at(backlog: Sequence[Unit], request: int) -> tuple[Unit, ...]:
    """The backlog with no chunk that reaches over the request at this index: that is missing in between now, and soon is not."""
    behind = next((n for n, unit in enumerate(backlog) if unit.index > request), None)
    if not behind:
        return tuple(backlog)
    return *backlog[:behind], replace(backlog[behind], behind_gap=True), *backlog[behind + 1 :]


def settled(backlog: Sequence[Unit], request: int | None, floor_tokens: int) -> tuple[Unit, ...]:
    """The backlog that can be summarised for later; behind the latest request only as much as is worth a call of its own."""
    if request is None:
        return tuple(backlog)
    before = tuple(unit for unit in backlog if unit.index < request)
    behind = sum(unit.tokens for unit in backlog if unit.index > request)
    return tuple(backlog) if behind >= floor_tokens else before


def chunk_tokens(floor: int, backlog: int, *, dynamic: bool, dynamic_max: int) -> int:
    """Size of a chunk: the leaf floor within what summarisers handle well.

    ``dynamic``: the floor is where chunks begin; they grow with the backlog, up to a bound that the operator answers for.
    """
    if dynamic:
        return max(floor, min(dynamic_max, math.ceil(backlog / _DYNAMIC_CHUNKS)))
    return max(_MIN_CHUNK_TOKENS, min(_CHUNK_FLOORS * floor, _MAX_CHUNK_TOKENS))


def chunks(
    backlog: Sequence[Unit], ready: Mapping[int, Sequence[tuple[int, tuple[int, ...]]]], size: int
) -> list[Chunk]:
    """Cover the backlog: ready leaves where they fit exactly, even chunks of at most ``size`` tokens elsewhere.

    ``ready``: by first store id, (node id, sources) of leaves that exist. Units without stored rows cover nothing.
    """
    out: list[Chunk] = []
    run: list[Unit] = []
    at = 0
    units = [unit for unit in backlog if unit.ids]
    while at < len(units):
        if units[at].behind_gap:
            out.extend(_even(run, size))
            run = []
        fit = _fitting(units, at, ready)
        if fit is None:
            run.append(units[at])
            at += 1
            continue
        out.extend(_even(run, size))
        run = []
        node_id, stop = fit
        out.append(Chunk(_ids(units[at:stop]), sum(unit.tokens for unit in units[at:stop]), node_id))
        at = stop
    out.extend(_even(run, size))
    return out


def _fitting(
    units: Sequence[Unit], at: int, ready: Mapping[int, Sequence[tuple[int, tuple[int, ...]]]]
) -> tuple[int, int] | None:
    """The longest ready leaf that covers exactly the units from ``at`` on: (node id, stop)."""
    best: tuple[int, int] | None = None
    for node_id, sources in ready.get(units[at].ids[0], ()):
        stop, taken = at, 0
        while stop < len(units) and taken < len(sources):
            ids = units[stop].ids
            if sources[taken : taken + len(ids)] != ids:
                break
            taken += len(ids)
            stop += 1
        if taken == len(sources) and (best is None or stop > best[1]):
            best = (node_id, stop)
    return best


def _even(run: Sequence[Unit], size: int) -> list[Chunk]:
    """Few chunks, of about equal size, cut where a turn begins or after a pause if one is near.

    Few: each is a call that somebody pays and, if nothing was prepared, waits for.
    """
    out: list[Chunk] = []
    left, at = sum(unit.tokens for unit in run), 0
    while at < len(run):
        stop = _cut(run, at, left, size)
        used = sum(unit.tokens for unit in run[at:stop])
        out.append(Chunk(_ids(run[at:stop]), used))
        left, at = left - used, stop
    return out


def _cut(run: Sequence[Unit], at: int, left: int, size: int) -> int:
    """End of the chunk that begins at ``at``. ``left``: the tokens from there on."""
    if left <= size:
        return len(run)
    count = max(2, math.ceil(left / (size * _GOAL_OF_SIZE)))
    goal = left / count
    least = max(left - (count - 1) * size, goal * _LEAST_OF_GOAL)  # less than that, and the rest takes a chunk more
    best, stop, used = (True, True, 0.0), at + 1, 0
    for n in range(at + 1, len(run)):
        used += run[n - 1].tokens
        if used > size:
            break
        turn = run[n].role == "user" or _pause(run[n - 1], run[n])
        worth = (used < least, used >= least and not turn, abs(used - goal))
        if n == at + 1 or worth < best:
            best, stop = worth, n
    return stop


def _pause(before: Unit, after: Unit) -> bool:
    return before.said_at is not None and after.said_at is not None and after.said_at - before.said_at > GAP_SECONDS


def _ids(units: Sequence[Unit]) -> tuple[int, ...]:
    return tuple(store_id for unit in units for store_id in unit.ids)


def condensations(
    roots: Sequence[Node], *, room_tokens: int, fanin: int, max_depth: int, frame_tokens: int
) -> Iterator[list[int]]:
    """Runs of roots to condense, best first: oldest ones of the lowest depth that has enough. None if nothing need be.

    Only when the prefix outgrows its room, and then a batch at once, so that the prompt's beginning changes rarely. A run has
    exactly ``fanin`` members: one that grew with each new leaf would be condensed ahead of time again after every turn.
    """
    if sum(root.tokens + frame_tokens for root in roots) <= room_tokens or max_depth == 0:
        return
    for depth in sorted({root.depth for root in roots}):
        if max_depth > 0 and depth >= max_depth:
            continue
        run: list[int] = []
        for root in roots:
            run = [*run, root.node_id] if root.depth == depth and root.is_sound else []
            if len(run) == max(2, fanin):
                yield run
                run = []


#: Tokens that a summariser reads and writes for each token of conversation, frame included.
READ_SHARE: Final = 0.4
WRITTEN_SHARE: Final = 0.04
#: What a conversation says raw is worth something that no price tells: below so much of the window, and below so many tokens,
#: nothing is folded before its threshold.
EARLIEST_SHARE: Final = 0.2
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
    """A prompt's sizes in tokens. ``kept``: what a fold leaves; ``growth``: what a request adds; ``exact``: why none is early."""

    tokens: int
    threshold: int
    window: int
    kept: int
    growth: float
    exact: str = ""


@dataclass(frozen=True, slots=True)
class Fold:
    """The next fold: due at so many tokens, and ``saves`` of what the prices count until the conversation ends as expected."""

    due: int
    saves: float
    why: str


def next_fold(prices: Prices, prompt: Prompt, ready: int, expected: float) -> Fold:
    """The next fold. ``ready``: tokens of the backlog that are summarised already; ``expected``: requests to come."""
    latest = min(prompt.threshold, prompt.window)
    late = saving(prices, prompt, latest, ready, expected)
    if prompt.exact:
        return Fold(latest, late, prompt.exact)
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
    """Saving of a fold of a prompt of ``at`` tokens over the requests expected, less its costs."""
    folded = max(0, at - prompt.kept)
    once = prompt.kept * _read_anew(prices) + max(0, folded - ready) * _summarised(prices)
    return (expected * folded * prices.cached - once) / 1e6


def earliest(window: int) -> int:
    """Below how many tokens nothing is folded before its threshold."""
    return max(EARLIEST_TOKENS, int(window * EARLIEST_SHARE))


def _read_anew(prices: Prices) -> float:
    """Extra price of a prompt token when a fold has changed something in front of it."""
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
