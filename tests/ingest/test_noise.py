"""Noise: what matches is kept out, patterns cannot hold the turn, and what is wrong with them is said."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from worlds.process import run

from hermes_lcm.ingest.filters import NO_REGEX, Noise, spoken

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

    assert run(lambda: Noise([r"^(a|a)*$"]).match("a" * 50_000 + "b", timed_out=slow.append)) == [None]
    assert slow == [r"^(a|a)*$"]


class Engine:
    """Stands for the package and the clock: patterns are words that texts begin with, and take as long as is said."""

    error = ValueError

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
        self.now = 0.0
        self.seconds = seconds
        self.tried: list[tuple[str, float]] = []
        monkeypatch.setattr("hermes_lcm.ingest.filters.time.perf_counter", lambda: self.now)

    def compile(self, pattern: str) -> SimpleNamespace:
        def search(text: str, *, timeout: float, concurrent: bool) -> bool:
            assert concurrent
            self.tried.append((pattern, timeout))
            self.now += min(self.seconds[pattern], timeout)
            if self.seconds[pattern] > timeout:
                raise TimeoutError
            return text.startswith(pattern)

        return SimpleNamespace(search=search)


def noise(engine: Engine) -> Noise:
    return Noise(list(engine.seconds), engine=engine, timeout_s=1.0)  # type: ignore[arg-type]


def test_all_patterns_of_a_message_have_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of them are catastrophic; each is told."""
    engine = Engine(monkeypatch, **{f"p{n}": 100.0 for n in range(20)})
    slow: list[str] = []

    assert noise(engine).match("text", timed_out=slow.append) is None
    assert slow == list(engine.seconds)
    assert engine.now <= 1.0 + 1e-9


def test_a_good_pattern_behind_catastrophic_ones_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a share that they cannot take."""
    engine = Engine(monkeypatch, bad=100.0, worse=100.0, good=0.1)

    assert noise(engine).match("good text") == "good"


def test_a_pattern_that_was_stopped_is_tried_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the others leave is enough for it, or not."""
    engine = Engine(monkeypatch, bad=100.0, good=0.1)
    filters = noise(engine)
    filters.match("text")
    engine.tried.clear()
    filters.match("text")

    (first, second) = engine.tried
    assert (first[0], second[0]) == ("good", "bad")
    assert second[1] == pytest.approx(0.9)


def test_a_pattern_that_ends_in_time_again_has_its_place_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was the message."""
    engine = Engine(monkeypatch, first=100.0, second=0.1)
    filters = noise(engine)
    filters.match("text")
    engine.seconds["first"] = 0.1
    filters.match("text")
    engine.tried.clear()
    filters.match("text")

    assert [pattern for pattern, _ in engine.tried] == ["first", "second"]


def test_no_pattern_has_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """One alone has all of it."""
    engine = Engine(monkeypatch, only=0.1)
    noise(engine).match("text")

    assert engine.tried == [("only", 1.0)]
