"""Tells how a cost grows, by the processor time of the calling thread: what else runs on the machine is not counted."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sized
from typing import TypeVar

T = TypeVar("T", bound=Sized)

LIMIT = 2.5  # times more than in proportion; a quadratic cost of four times the input reaches four
FLOOR_S = 0.001  # what takes less than this for the small input is counted as this much: no ratio can be told of it
ENOUGH_S = 0.1  # so long a run is hardly disturbed, and tests are to be quick
TRIES = 3  # a cost that grows too fast does so each time, noise does not


def spent(work: Callable[[], object]) -> float:
    """Processor seconds of this thread, without those of the collector, which looks at what other tests left too."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        began = time.thread_time()
        work()
        return time.thread_time() - began
    finally:
        if collecting:
            gc.enable()


def least(work: Callable[[], object], runs: int = 3) -> float:
    """The processor seconds of the best of several runs, or of the first ones when they take ``ENOUGH_S`` together."""
    costs: list[float] = []
    while len(costs) < runs and sum(costs) < ENOUGH_S:
        costs.append(spent(work))
    return min(costs)


def excess(work: Callable[[T], object], small: T, large: T) -> float:
    """How many times more than in proportion to their lengths ``large`` costs than ``small``: one, if the cost is linear.

    The best of some tries when it is over ``LIMIT``. ``large`` has at least four times the length of ``small``.
    """
    times = len(large) / len(small)
    assert times >= 4, "too near each other to tell a quadratic cost from a linear one"
    found = float("inf")
    for _ in range(TRIES):
        cost = max(least(lambda: work(small)), FLOOR_S)
        found = min(found, least(lambda: work(large)) / (cost * times))
        if found <= LIMIT:
            break
    return found
