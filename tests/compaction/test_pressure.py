"""When a prompt is due for compaction, and by whose measure: what a provider counts against what the host estimates (P6)."""

from __future__ import annotations

import socket
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.process import chat

from hermes_lcm.compaction.compress import Outcome
from hermes_lcm.compaction.pressure import (
    CJK,
    FIXED,
    PROSE,
    STRUCTURED,
    Calibration,
    Pressure,
    class_of,
    deadline,
    mix_of,
)
from hermes_lcm.host import facts
from hermes_lcm.text import tokens

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


# ------------------------------------------------------------
# What a provider counts against what the host estimates: by model and content class, never late, never by network (P6).

PROSE_TEXT = "We went down to the river in the evening and talked about the garden, the weather and what to do next. "
CODE_TEXT = (
    "def load(path: str) -> dict[str, int]:\n    return {k: int(v) for k, v in json.loads(open(path).read()).items()}\n"
)
JSON_TEXT = '{"id": 4711, "items": [{"sku": "A-12", "price": 19.99}, {"sku": "B-7", "price": 3.5}], "paid": true}'
CJK_TEXT = "我们昨天晚上在河边散步，谈到了花园、天气，还有接下来要做的事情。"


def messages(**sizes: int) -> list[dict[str, Any]]:
    """A list with so many repetitions of each kind of text."""
    texts = {"prose": PROSE_TEXT, "structured": JSON_TEXT, "cjk": CJK_TEXT}
    return [{"role": "user", "content": texts[name] * count} for name, count in sizes.items()]


def talked(
    calibration: Calibration, said: list[dict[str, Any]], true: dict[str, float], *, fixed: int = 0, times: int = 12
) -> None:
    """A provider that charges these ratios has counted requests of such lists."""
    rough = tokens.rough(said)
    calibration.measure("s", said, rough + fixed)
    parts = calibration._mixes["s"].of(rough + fixed)
    real = int(sum(size * true[name] for name, size in parts.items()))
    for _ in range(times):
        calibration.observe("m", rough + fixed, real, "s")


# -- classes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "text", "expected"),
    [
        ("user", PROSE_TEXT, PROSE),
        ("user", CODE_TEXT, STRUCTURED),
        ("tool", JSON_TEXT, STRUCTURED),
        ("user", CJK_TEXT, CJK),
        ("user", "日本語のテキストです。", CJK),
        ("user", "한국어 문장입니다.", CJK),
        ("tool", '{"名前": "河边散步花园天气"}', CJK),
        ("user", "Déjà vu, naïve façade – plain prose with accents.", PROSE),
        ("user", "", PROSE),
        ("user", "\ud800", PROSE),
    ],
)
def test_a_text_has_a_class(role: str, text: str, expected: str) -> None:
    """By its characters alone."""
    assert class_of(role, text) == expected


@given(st.text(), st.sampled_from(["user", "assistant", "tool", ""]))
def test_any_text_has_a_class(text: str, role: str) -> None:
    """Also odd ones, and the same each time."""
    assert class_of(role, text) in (PROSE, STRUCTURED, CJK)


def test_the_classes_of_a_list_make_up_all_of_it() -> None:
    """Shares of the messages; beside them what no compaction makes smaller."""
    said = messages(prose=40, structured=40, cjk=40)
    rough = tokens.rough(said)
    mix = mix_of(said, rough=rough, request=rough + 7000, count=tokens.count)

    assert sum(mix.shares.values()) == pytest.approx(1.0)
    assert mix.fixed == 7000
    assert sum(mix.of(rough + 7000).values()) == pytest.approx(rough + 7000)
    assert mix.of(5000) == {FIXED: 5000.0, PROSE: 0.0, STRUCTURED: 0.0, CJK: 0.0}


def test_a_long_list_is_sampled() -> None:
    """What is looked at does not grow with the list."""
    looked = 0

    def count(text: str) -> int:
        nonlocal looked
        looked += len(text)
        return len(text) // 4

    mix_of(messages(prose=30) * 5000, rough=1, request=None, count=count)

    assert looked < 50_000


# -- learning ----------------------------------------------------------------------------------------------------------


def test_each_class_gets_its_own_ratio() -> None:
    """Requests of different mixes tell them apart: Chinese is dearer than English of the same estimate."""
    calibration = Calibration()
    true = {PROSE: 1.0, STRUCTURED: 1.4, CJK: 2.8, FIXED: 1.2}
    for _ in range(6):
        talked(calibration, messages(prose=200), true, fixed=2000, times=2)
        talked(calibration, messages(structured=200), true, fixed=2000, times=2)
        talked(calibration, messages(cjk=600), true, fixed=2000, times=2)
    shown = calibration.status("m", "s", 20_000)["ratios"]

    assert shown[CJK] > shown[STRUCTURED] > shown[PROSE]
    assert shown[CJK] == pytest.approx(2.8, rel=0.25)
    assert shown[PROSE] == pytest.approx(1.0, rel=0.25)


def test_models_do_not_mix() -> None:
    """What one model charges says nothing about another."""
    calibration = Calibration()
    calibration.observe("dear", 10_000, 20_000)

    assert calibration.factor("dear") >= 2.0
    assert calibration.factor("other") == 1.0


@pytest.mark.parametrize(
    "sizes", [{"prose": 300}, {"structured": 300}, {"cjk": 900}, {"prose": 100, "cjk": 300}], ids=str
)
@given(ratio=st.floats(0.3, 3.9))
def test_an_estimate_is_never_corrected_to_less_than_was_charged(sizes: dict[str, int], ratio: float) -> None:
    """The same request again: what it cost is what it is taken for, or more (the conservative bound)."""
    calibration = Calibration()
    said = messages(**sizes)
    rough = tokens.rough(said)
    calibration.measure("s", said, rough)
    calibration.observe("m", rough, int(rough * ratio), "s")

    assert rough * calibration.factor("m", "s", request=rough) >= min(rough * ratio, rough * 3.9) * 0.999


def test_a_factor_is_never_below_one() -> None:
    """An estimate that was too high is no reason to act late."""
    calibration = Calibration()
    for _ in range(20):
        calibration.observe("m", 10_000, 4_000)

    assert calibration.factor("m") == 1.0


def test_one_cheap_request_is_no_proof() -> None:
    """Upwards at once, downwards slowly."""
    calibration = Calibration()
    calibration.observe("m", 10_000, 20_000)
    calibration.observe("m", 10_000, 10_000)

    assert calibration.factor("m") > 1.5


def test_a_provider_that_varies_is_met_with_a_margin() -> None:
    """Where the guesses were off, a little more is assumed."""
    steady, varying = Calibration(), Calibration()
    for n in range(40):
        steady.observe("m", 10_000, 15_000)
        varying.observe("m", 10_000, 15_000 if n % 2 else 12_000)
    varying.observe("m", 10_000, 15_000)

    assert varying.factor("m") > steady.factor("m")


@pytest.mark.parametrize(("rough", "real"), [(1999, 50_000), (10_000, 0), (10_000, -1)])
def test_what_says_nothing_is_not_learned(rough: int, real: int) -> None:
    """Tiny requests, and providers without a count."""
    calibration = Calibration()
    calibration.observe("m", rough, real)

    assert calibration.dump() == {}


def test_chinese_is_not_underestimated_before_a_provider_has_spoken() -> None:
    """Characters/4 is three times too low; a count of the text stands in until there is a report."""
    calibration = Calibration()
    calibration.measure("s", messages(cjk=600), None)

    assert calibration.factor("m", "s") > 2.0


# -- kept --------------------------------------------------------------------------------------------------------------


def test_what_was_learned_is_kept() -> None:
    """Also over a restart, class by class."""
    one, two = Calibration(), Calibration()
    talked(one, messages(prose=200, cjk=400), {PROSE: 1.1, CJK: 2.5, FIXED: 1.0})
    two.load(one.dump())

    assert two.dump() == one.dump()
    two.measure("s", messages(prose=200, cjk=400), None)
    assert two.factor("m", "s", request=10_000) == pytest.approx(one.factor("m", "s", request=10_000), rel=0.01)


@pytest.mark.parametrize(
    "state",
    [{"m": 1}, {"m": [1]}, {"m": ["a", 1]}, {"m": {"ratios": {"prose": "x"}}}, {"m": {"ratios": 3}}, {"m": None}],
    ids=str,
)
def test_a_damaged_state_is_left_out(state: dict[str, Any]) -> None:
    """Loading never raises, and assumes nothing."""
    calibration = Calibration()
    calibration.load(state)

    assert calibration.factor("m") == 1.0


# -- exact counts ------------------------------------------------------------------------------------------------------


@pytest.fixture
def fetching(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A ``tiktoken`` that is installed, and a network that nobody may touch. What was asked of the one."""
    asked: list[str] = []
    module = types.ModuleType("tiktoken")

    def get_encoding(name: str) -> Any:
        asked.append(name)
        return types.SimpleNamespace(name=name, encode_ordinary=list)

    def no_network(*_: Any, **__: Any) -> None:
        raise AssertionError("the network was used")

    module.get_encoding = get_encoding  # type: ignore[attr-defined]
    module.__spec__ = __import__("importlib.machinery").machinery.ModuleSpec("tiktoken", None)
    monkeypatch.setitem(sys.modules, "tiktoken", module)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.setattr(socket.socket, "connect", no_network)
    return asked


def counted(cache: Path | None) -> tokens.Exact:
    """A counter that has had its chance to load."""
    count = tokens.Exact(tokens.count, lambda: cache)
    count("a")
    count.wait(10)
    return count


@pytest.mark.parametrize("cache", ["missing", "empty", "damaged", "none"])
def test_without_its_tables_tiktoken_is_not_asked(tmp_path: Path, fetching: list[str], cache: str) -> None:
    """It would fetch a table that is missing, and one whose digest is wrong."""
    folder = tmp_path / "cache"
    if cache != "missing":
        folder.mkdir()
    if cache == "damaged":
        for name, _ in tokens.ENCODINGS:
            tokens.table_path(folder, name).write_bytes(b"no table")
    count = counted(None if cache == "none" else folder)

    assert count("four words of text") == tokens.count("four words of text")
    assert fetching == []


def test_with_its_tables_tiktoken_counts(tmp_path: Path, fetching: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A table under the name and with the digest that it expects."""
    from hashlib import sha256

    table = b"IQ== 0\n"
    monkeypatch.setattr(tokens, "ENCODINGS", (("o200k_base", sha256(table).hexdigest()),))
    tokens.table_path(tmp_path, "o200k_base").write_bytes(table)
    count = counted(tmp_path)

    assert fetching == ["o200k_base"]
    assert count("four") == len("four")
    assert count.name == "tiktoken o200k_base"


def test_without_tiktoken_an_estimate_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the standard library is needed."""
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)

    assert counted(tmp_path)("some words") == tokens.count("some words")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TIKTOKEN_CACHE_DIR": "/a", "DATA_GYM_CACHE_DIR": "/b"}, "/a"),
        ({"DATA_GYM_CACHE_DIR": "/b"}, "/b"),
        ({"TIKTOKEN_CACHE_DIR": ""}, None),
    ],
)
def test_the_tables_are_looked_for_where_tiktoken_keeps_them(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str | None
) -> None:
    """The same variables, and an empty one means that it keeps none."""
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert facts.tiktoken_cache().name == "data-gym-cache"  # type: ignore[union-attr]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    found = facts.tiktoken_cache()
    assert (str(found) if found is not None else None) == expected


# -- in the engine -----------------------------------------------------------------------------------------------------


def test_the_engine_separates_what_cannot_shrink(hermes_home: Path) -> None:
    """System prompt and tool schemas are told apart from the messages, and status says so."""
    from hermes_lcm import command, engine
    from hermes_lcm.ops.render import status_text
    from hermes_lcm.ops.status import status

    lcm: Any = engine.LCMEngine()
    lcm.update_model("m", 200_000)
    lcm.on_session_start("s", hermes_home=str(hermes_home), platform="cli")
    said = chat().turns(40, words=120)
    rough = facts.rough(said)
    lcm.should_compress(rough + 9_000)
    lcm.compress(said, current_tokens=rough + 9_000)
    lcm.update_from_response({"prompt_tokens": int((rough + 9_000) * 1.5)})
    access = replace(
        command.operator_access(lcm.runtime, lcm.runtime.find_session("s"), lcm), trusted=True
    )  # as an operator sees it
    data = status(access)
    shown = data["token_calibration"]
    lcm.runtime.preparer.stop()
    lcm.runtime.db.close()

    assert shown["fixed_tokens"] == 9_000
    assert shown["shrinkable_tokens"] == data["last_prompt_tokens"] - 9_000
    assert shown["factor"] >= 1.5
    assert {FIXED} < set(shown["ratios"])
    assert "9,000 fixed" in status_text(data)


def test_the_request_behind_a_compaction_is_measured_by_its_own_size(hermes_home: Path) -> None:
    """The host estimates before it compacts and not again: what was saved is no proof that estimates are too high."""
    from hermes_lcm import engine

    lcm: Any = engine.LCMEngine()
    lcm.update_model("m", 8_000)
    lcm.on_session_start("s", hermes_home=str(hermes_home), platform="cli")
    said = chat().turns(60)
    lcm.should_compress(facts.rough(said) + 2_000)
    out = lcm.compress(said, current_tokens=facts.rough(said) + 2_000)
    lcm.update_from_response({"prompt_tokens": facts.rough(out) + 2_000})
    ratios = lcm.runtime.calibration.status("m", "s", 4_000)["ratios"]
    lcm.runtime.preparer.stop()
    lcm.runtime.db.close()

    assert facts.rough(out) < facts.rough(said) / 2
    assert ratios == pytest.approx(dict.fromkeys(ratios, 1.0), abs=0.02)
