"""When a summary model is left alone, and when no more is spent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from hermes_lcm.llm.breaker import Breaker, SpendGuard


@dataclass
class Clock:
    """Advanced by assignment."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def breaker(clock: Clock, threshold: int = 2, cooldown_s: float = 300) -> Breaker:
    return Breaker(threshold=threshold, cooldown_s=cooldown_s, clock=clock)


def guard(clock: Clock, calls: int = 0, window_s: float = 3600, in_all: int = 0) -> SpendGuard:
    return SpendGuard(max_calls=calls, window_s=window_s, clock=clock, in_all=in_all)


# ------------------------------------------------------------------------------------------------------- breaker
def test_a_route_is_left_alone_after_failures_in_a_row(clock):
    """The threshold counts, not the single failure."""
    one = breaker(clock)
    one.failure("m", "timed out")
    before = one.allow("m")
    one.failure("m", "timed out")

    assert (before, one.allow("m")) == (True, False)


def test_an_answer_in_between_starts_the_count_again(clock):
    """Only failures in a row open the breaker."""
    one = breaker(clock)
    one.failure("m", "x")
    one.success("m")
    one.failure("m", "x")

    assert one.allow("m")


def test_one_route_does_not_stop_another(clock):
    """Each route has a state of its own."""
    one = breaker(clock, threshold=1)
    one.failure("a", "x")

    assert (one.allow("a"), one.allow("b")) == (False, True)


def test_after_the_cooldown_one_call_tries(clock):
    """Half open: one probe at a time."""
    one = breaker(clock, threshold=1)
    one.failure("m", "x")
    clock.now += 301

    assert [one.allow("m"), one.allow("m")] == [True, False]


def test_a_failed_probe_opens_it_again_at_once(clock):
    """However high the threshold is."""
    one = breaker(clock, threshold=3)
    for _ in range(3):
        one.failure("m", "x")
    clock.now += 301
    one.allow("m")
    one.failure("m", "x")

    assert not one.allow("m")


def test_a_good_probe_closes_it(clock):
    """Then everybody may call."""
    one = breaker(clock, threshold=1)
    one.failure("m", "x")
    clock.now += 301
    one.allow("m")
    one.success("m")

    assert [one.allow("m"), one.allow("m")] == [True, True]


def test_a_probe_that_was_not_made_is_given_back(clock):
    """No time left, no money left: somebody else may try."""
    one = breaker(clock, threshold=1)
    one.failure("m", "x")
    clock.now += 301
    one.allow("m")
    one.release("m")

    assert one.allow("m")


def test_threshold_zero_never_opens(clock):
    """Switched off."""
    one = breaker(clock, threshold=0)
    for _ in range(50):
        one.failure("m", "x")

    assert one.allow("m")


def test_an_outage_survives_a_restart(clock):
    """The state is JSON and comes back."""
    one, two = breaker(clock), breaker(clock)
    one.failure("m", "timed out")
    one.failure("m", "timed out")
    two.load(json.loads(json.dumps(one.dump())))

    assert (two.allow("m"), two.dump()["m"]["reason"]) == (False, "timed out")


def test_a_clock_set_back_does_not_prolong_the_pause(clock):
    """At most one cooldown from now."""
    one = breaker(clock, threshold=1)
    one.failure("m", "x")
    clock.now -= 10_000
    one.allow("m")
    clock.now += 301

    assert one.allow("m")


@pytest.mark.parametrize("rubbish", [{"m": 3}, {"m": {"retry_at": "soon"}}, {"m": {}}, {"": None}], ids=str)
def test_an_unreadable_state_is_no_outage(clock, rubbish):
    """Whatever is in the file, calls go through."""
    one = breaker(clock)
    one.load(rubbish)

    assert one.allow("m")


# --------------------------------------------------------------------------------------------------------- spend
def test_calls_within_the_window_are_limited(clock):
    """The limit is exact."""
    one = guard(clock, calls=3)

    assert [one.reserve(1) for _ in range(4)] == [True, True, True, False]


def test_one_chat_does_not_use_up_what_others_may_call(clock):
    """Each has an allowance of its own."""
    one = guard(clock, calls=2)
    spent = [one.reserve(1, "a") for _ in range(3)]

    assert (spent, one.reserve(1, "b")) == ([True, True, False], True)


def test_all_chats_together_have_a_limit_too(clock):
    """A hundred chats are no reason to pay a hundred times as much."""
    one = guard(clock, calls=2, in_all=5)

    assert [one.reserve(1, f"chat {n % 4}") for n in range(6)] == [True] * 5 + [False]


def test_the_allowance_of_a_chat_survives_a_restart(clock):
    """And another chat's does too."""
    one, two = guard(clock, calls=1), guard(clock, calls=1)
    one.reserve(5, "a")
    two.load(json.loads(json.dumps(one.dump())))

    assert (two.reserve(5, "a"), two.reserve(5, "b")) == (False, True)


def test_a_settled_call_gives_back_what_it_did_not_use(clock):
    """Reserved is an upper bound."""
    one = guard(clock)
    one.reserve(90)
    one.settle(reserved=90, spent=30)

    assert one.used() == (1, 30)


def test_the_window_slides(clock):
    """What was spent an hour ago is forgotten."""
    one = guard(clock, calls=1)
    one.reserve(1)
    clock.now += 3601

    assert one.reserve(1)


def test_no_limits_means_no_limits(clock):
    """Zero is off."""
    one = guard(clock)

    assert all(one.reserve(10**9) for _ in range(1000))


def test_the_spend_survives_a_restart(clock):
    """A budget that a restart resets is none."""
    one, two = guard(clock, calls=2), guard(clock, calls=2)
    one.reserve(5)
    one.reserve(5)
    two.load(json.loads(json.dumps(one.dump())))

    assert (two.reserve(5), two.used()) == (False, (2, 10))


class Shelf:
    """A state that several processes share."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.writable = True

    def __call__(self, made: Callable[[Mapping[str, Any]], dict[str, Any]]) -> bool:
        written = json.loads(json.dumps(made(self.state)))
        if self.writable:
            self.state = written
        return self.writable


def shared(clock: Clock, shelf: Shelf) -> SpendGuard:
    return SpendGuard(max_calls=0, max_tokens=100, window_s=86_400.0, clock=clock, shared=shelf)


def test_processes_spend_one_budget_together(clock):
    """Each sees at once what another booked and gave back; a new one knows it though none ended."""
    shelf = Shelf()
    one, two = shared(clock, shelf), shared(clock, shelf)
    assert [one.reserve(40), two.reserve(40), one.reserve(40)] == [True, True, False]
    two.settle(reserved=40, spent=10)

    assert one.reserve(40)
    assert not shared(clock, shelf).reserve(20)
    assert shared(clock, shelf).used()[1] == 0  # until it is asked


def test_processes_that_book_at_once_do_not_overspend(clock, monkeypatch):
    """The one that is told second gives its part back."""
    shelf = Shelf()
    one, two = shared(clock, shelf), shared(clock, shelf)
    book, faster = one._reserve, []

    def booked_later(*call: Any) -> bool:
        faster.append(two.reserve(60))
        return book(*call)

    monkeypatch.setattr(one, "_reserve", booked_later)
    assert (one.reserve(60), faster) == (False, [True])
    monkeypatch.undo()
    assert one.used()[1] == 60
    assert one.reserve(40)


def test_what_could_not_be_shared_is_shared_later(clock):
    """A full disk: the own spending counts meanwhile, and is told once."""
    shelf = Shelf()
    one = shared(clock, shelf)
    shelf.writable = False
    assert [one.reserve(60), one.reserve(60)] == [True, False]
    shelf.writable = True
    one.settle(reserved=60, spent=50)

    assert not shared(clock, shelf).reserve(51)
    assert shared(clock, shelf).reserve(50)


def test_a_shared_budget_is_free_again_after_a_day(clock):
    """Hour by hour, wherever midnight is."""
    shelf = Shelf()
    assert shared(clock, shelf).reserve(100)
    clock.now += 84_000
    assert not shared(clock, shelf).reserve(1)
    clock.now += 3_000

    assert shared(clock, shelf).reserve(100)


@pytest.mark.parametrize("rubbish", [{}, {"width": 60.0, "buckets": {"x": [1], "1": "y"}}, {"buckets": 3}], ids=str)
def test_an_unreadable_spend_is_none(clock, rubbish):
    """It starts from zero."""
    one = guard(clock, calls=1)
    one.load(rubbish)

    assert one.reserve(1)


def test_threads_do_not_overspend(clock):
    """Eight threads, one budget."""
    one = guard(clock, calls=500)
    booked: list[bool] = []
    threads = [threading.Thread(target=lambda: booked.extend(one.reserve(1) for _ in range(200))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(booked) == 500
