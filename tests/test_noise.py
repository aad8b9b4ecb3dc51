"""Noise: what matches is kept out, patterns cannot hold the turn, and what is wrong with them is said."""

from __future__ import annotations

import time

import pytest

from hermes_lcm.text.noise import NO_REGEX, Noise, spoken

pytest.importorskip("regex")


def test_a_message_that_matches_is_noise() -> None:
    """The first pattern that matches is named."""
    assert Noise(["^Cronjob Response:", "alert"]).match("Cronjob Response: fine") == "^Cronjob Response:"


def test_other_messages_are_not() -> None:
    """An anchored pattern binds to the beginning."""
    assert Noise(["^Cronjob Response:"]).match("He said: Cronjob Response: fine") is None


def test_text_parts_are_matched_as_one_text() -> None:
    """So that anchors bind to what a person sees."""
    parts = [
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "text", "text": "Cron: a"},
        {"type": "text", "text": "b"},
    ]
    assert Noise(["^Cron: a\nb$"]).match(parts) is not None


def test_content_without_text_is_matched_as_json() -> None:
    """Sorted and without blanks."""
    assert spoken([{"type": "alert", "code": 7}]) == '[{"code":7,"type":"alert"}]'


def test_an_invalid_pattern_is_reported_and_the_others_work() -> None:
    """One typing error does not switch the filter off."""
    noise = Noise(["(", "^cron"])

    assert "'('" in noise.problems[0]
    assert noise.match("cron job") == "^cron"


def test_without_the_package_nothing_is_filtered() -> None:
    """A pattern that cannot be stopped is not tried."""
    noise = Noise(["^cron"], engine=None)

    assert (noise.problems, noise.match("cron"), bool(noise)) == ([NO_REGEX], None, False)


def test_a_catastrophic_pattern_is_stopped() -> None:
    """The message is kept, the pattern named."""
    slow: list[str] = []
    began = time.perf_counter()

    assert Noise([r"^(a|a)*$"]).match("a" * 50_000 + "b", timed_out=slow.append) is None
    assert slow == [r"^(a|a)*$"]
    assert time.perf_counter() - began < 2.0
