"""What failed is left alone for a while, and then tried again; each time for longer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_lcm.compaction.backoff import Backoff, Cooldown


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_fails_again_is_left_alone_twice_as_long() -> None:
    """The same question to the same model costs the same every time; but what failed in an outage is not left alone for a day."""
    clock = Clock()
    cooldown = Cooldown[str](100.0, clock)
    for wait in (100.0, 200.0, 400.0, 400.0):
        cooldown.give_up("it")
        clock.now += wait - 1
        assert cooldown.waits("it")
        clock.now += 1
        assert not cooldown.waits("it")


def test_what_rested_long_enough_begins_anew() -> None:
    """A failure of yesterday says little."""
    clock = Clock()
    cooldown = Cooldown[str](100.0, clock)
    cooldown.give_up("it")
    clock.now = 200.0
    cooldown.give_up("it")
    clock.now = 300.0

    assert not cooldown.waits("it")


@given(st.integers(1, 400))
def test_what_always_fails_is_tried_ever_less_often(occasions: int) -> None:
    """At occasions 1, 2, 4, 8 and so on after it failed: n occasions cost about log2(n) attempts."""
    clock = Clock()
    backoff = Backoff[str](clock)
    tried = []
    for n in range(occasions):
        if backoff.due("it"):
            tried.append(n)
            backoff.failed("it")

    assert tried == [n for n in (2**k - 1 for k in range(12)) if n < occasions]


def test_what_failed_is_tried_after_an_hour_anyway() -> None:
    """A conversation with few turns does not wait for days."""
    clock = Clock()
    backoff = Backoff[str](clock)
    for _ in range(6):
        backoff.failed("it")

    assert not backoff.due("it")
    clock.now = 3600.0
    assert backoff.due("it")


def test_where_nothing_succeeds_the_wait_does_not_grow() -> None:
    """It is no fault of its own while everything fails: it is tried on each occasion until the first success."""
    backoff = Backoff[str](Clock())
    for _ in range(20):
        assert backoff.due("it")
        backoff.failed("it", if_others_succeed=True)
    backoff.succeeded("another")
    backoff.failed("it", if_others_succeed=True)

    assert (backoff.due("it"), backoff.due("it")) == (False, True)


def test_what_succeeded_is_held_against_nobody() -> None:
    """And its next failure is the first."""
    backoff = Backoff[str](Clock())
    for _ in range(5):
        backoff.failed("it")
    backoff.succeeded("it")
    assert (backoff.due("it"), backoff.failures("it")) == (True, 0)
    backoff.failed("it")

    assert backoff.due("it")


def test_only_so_many_are_held() -> None:
    """A process of weeks does not collect what failed in it."""
    backoff = Backoff[int](Clock())
    for n in range(3000):
        backoff.failed(n)

    assert (backoff.failures(0), backoff.failures(2999)) == (0, 1)
