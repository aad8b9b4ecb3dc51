"""When a prompt is due for compaction, by whose measure, and when another pass is worth trying."""

from __future__ import annotations

import pytest

from hermes_lcm.compaction.compress import Outcome
from hermes_lcm.compaction.pressure import Pressure, deadline

THRESHOLD = 10_000


def twice(_: int) -> float:
    """A provider that counts twice what the host estimates."""
    return 2.0


def stuck(at: int, *, force: bool = False) -> Pressure:
    """After a pass that could do nothing with a prompt of that size."""
    pressure = Pressure()
    pressure.passed(Outcome(None, "nothing to compact"), at, THRESHOLD, twice, force=force)
    return pressure


def test_an_estimate_is_calibrated_and_a_count_is_not() -> None:
    """What the provider itself has counted needs no correction."""
    pressure = Pressure()
    pressure.noted(4000, spared=0)
    pressure.answered(8000)

    assert pressure.calibrated(4000, twice) == 8000
    assert pressure.calibrated(8000, twice) == 8000


def test_tokens_that_are_not_sent_do_not_count() -> None:
    """The host measures its list; what requests show otherwise is less."""
    assert Pressure().noted(5000, spared=1200) == 3800


def test_a_count_answers_one_estimate() -> None:
    """The next count without an estimate teaches nothing."""
    pressure = Pressure()
    pressure.noted(4000, spared=0)

    assert (pressure.answered(8000), pressure.answered(9000)) == (4000, 0)


def test_a_pass_measures_threshold_and_prompt_as_the_host_does() -> None:
    """Whichever of the two the host told."""
    pressure = Pressure()
    pressure.noted(6000, spared=0)
    pressure.answered(12_000)

    assert pressure.size(THRESHOLD, 12_000, twice) == (5000, 6000)
    assert pressure.size(THRESHOLD, 6000, twice) == (5000, 6000)
    assert pressure.size(THRESHOLD, None, twice) == (5000, None)


def test_after_a_pass_in_vain_the_next_one_waits_until_the_prompt_has_grown() -> None:
    """By three per cent."""
    pressure = stuck(20_000)

    assert not pressure.worth_a_pass(20_500)
    assert pressure.worth_a_pass(20_700)


def test_a_size_by_another_measure_does_not_hold_passes_up() -> None:
    """What was reported then was no size of this prompt."""
    assert stuck(100_000).worth_a_pass(20_000)


@pytest.mark.parametrize("change", ["a model", "success", "no pressure"])
def test_nothing_is_held_against_a_prompt_once_something_changed(change: str) -> None:
    """Another model or session, a pass that made progress; a forced pass below the threshold says nothing at all."""
    pressure = stuck(20_000 if change != "no pressure" else 100, force=change == "no pressure")
    if change == "a model":
        pressure.forget()
    if change == "success":
        pressure.passed(Outcome([{}], "compacted", 20_000, 5000), 20_000, THRESHOLD, twice, force=False)

    assert pressure.worth_a_pass(20_000)


def test_a_prompt_that_stays_over_its_threshold_waits_too() -> None:
    """All that can be done was done."""
    pressure = Pressure()
    pressure.passed(Outcome([{}], "compacted", 20_000, 11_000, over_limit=True), 20_000, THRESHOLD, twice, force=False)

    assert not pressure.worth_a_pass(THRESHOLD)


def test_progress_makes_the_estimate_smaller_until_there_is_a_new_one() -> None:
    """The host does not estimate again before it sends."""
    pressure = Pressure()
    pressure.noted(20_000, spared=0)
    pressure.passed(Outcome([{}], "compacted", 18_000, 5000), 20_000, THRESHOLD, twice, force=False)

    assert pressure.estimated == 7000


def test_a_rotation_asks_no_model() -> None:
    """Its time is over before it begins."""
    assert 100.0 < deadline(100.0, 20_000, rotation=False) < 120.0
    assert deadline(100.0, 20_000, rotation=True) < 100.0
