"""Every setting has an effect: those about compaction one by one, all others by being read at all (P9)."""

from __future__ import annotations

import ast
import inspect
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from worlds.process import WAIT_S, Chat, Script, World, chat, tokens_of

from hermes_lcm.config import KNOBS, Config, load
from hermes_lcm.records import Summary, SummaryTask

ROOT = Path(__file__).resolve().parents[2]
#: Settings that no code outside config.py reads by their name, each with the reason.
READ_ELSEWHERE = {
    "large_output_transcript_gc_enabled": "has no effect yet: what replaces stored results takes it out of here"
}


def read_in(source: str) -> set[str]:
    """Names of attributes that a piece of code reads."""
    return {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}


def read_by_the_plugin() -> set[str]:
    """Settings that code outside config.py reads, directly or by a method of ``Config`` that it calls."""
    rooms = [path for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "." and path.name != "tests"]
    folders = [ROOT, *(path.parent for room in rooms for path in room.rglob("__init__.py"))]
    sources = [path.read_text() for folder in folders for path in folder.glob("*.py") if path.name != "config.py"]
    written = {name: each for name, each in vars(Config).items() if inspect.isfunction(each) and name[:1] != "_"}
    names = set[str]()
    for source in sources:
        if any(f".{name}" in source for name in {*KNOBS, *written} - names):  # else it reads nothing new
            names |= read_in(source)
    for _ in range(2):  # a method may call another
        for name in names & set(written):
            names |= read_in(textwrap.dedent(inspect.getsource(written[name])))
    return names & set(KNOBS)


def test_every_setting_is_read() -> None:
    """A setting that no code reads is a promise nobody keeps."""
    assert set(KNOBS) - read_by_the_plugin() <= set(READ_ELSEWHERE)


# -- pressure ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "used", "critical"),
    [("0", 10**9, False), ("0.9", 89_999, False), ("0.9", 90_000, True), ("90%", 95_000, True)],
)
def test_pressure_is_measured_against_the_window(ratio: str, used: int, critical: bool) -> None:
    """Not against the threshold; 0 switches it off."""
    assert load({"LCM_CRITICAL_BUDGET_PRESSURE_RATIO": ratio}).is_critical(used, 100_000) is critical


def nearly_prepared(folder: Path) -> tuple[World, Chat]:
    """A conversation of which nearly all is prepared."""
    world = World(folder, Script("ok"), leaf_chunk_tokens=4000, fresh_tail_count=8, condensation_fanin=50)
    messages = chat().turns(80)
    world.preparer.after_turn(world.session(), world.request(messages, threshold=tokens_of(messages)))
    assert world.preparer.idle(WAIT_S)
    return world, messages.turns(3, first=300)


@pytest.mark.parametrize("critical", [False, True])
def test_under_critical_pressure_nothing_is_put_off(tmp_path: Path, critical: bool) -> None:
    """What is not prepared is summarised in the turn, which otherwise makes do with what is ready."""
    world, messages = nearly_prepared(tmp_path)
    asked = len(world.model.tasks)
    compacted = Chat(world.compressed(messages, threshold=12_000, critical=critical).messages or [])

    assert (len(world.model.tasks) > asked) is critical
    assert world.gaps(compacted) == ([], [])


@pytest.mark.parametrize("critical", [False, True])
def test_under_critical_pressure_the_worker_waits_for_no_floor(tmp_path: Path, critical: bool) -> None:
    """Deferred maintenance is caught up with, however little there is."""
    world = World(tmp_path, Script("ok"), leaf_chunk_tokens=20_000, fresh_tail_count=4)
    messages = chat().turns(15)
    world.preparer.after_turn(world.session(), world.request(messages, threshold=100_000, critical=critical))
    assert world.preparer.idle(WAIT_S)

    assert bool(world.nodes()) is critical


@pytest.mark.parametrize("critical", [False, True])
def test_under_critical_pressure_caches_are_not_spared(tmp_path: Path, critical: bool) -> None:
    """Summaries are condensed before the prefix outgrows its room, which otherwise leaves the prompt's beginning alone."""
    world = World(tmp_path, Script("long"), condensation_fanin=2, leaf_chunk_tokens=8_000, fresh_tail_count=4)
    messages = chat().turns(200)
    request = world.request(messages, critical=critical)
    leaves = world.compactor.cover(world.session(), world.compactor.view(world.session(), request).backlog, request)
    prefix = sum(node.tokens + 45 for node in leaves)
    world.model.moves = ["ok"]
    roots = world.compactor.condense(world.session(), leaves, int(prefix * 1.1), request)

    assert len(leaves) > 2
    assert (len(roots) < len(leaves)) is critical


def test_the_engine_tells_when_pressure_is_critical(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows the window and what the provider counted."""
    from hermes_lcm import engine

    monkeypatch.setenv("LCM_CRITICAL_BUDGET_PRESSURE_RATIO", "0.8")
    lcm: Any = engine.LCMEngine()
    lcm.update_model("m", 10_000)
    lcm.on_session_start("s", hermes_home=str(hermes_home), platform="cli")
    seen = []
    plain = lcm.runtime.compress_pass.compact
    monkeypatch.setattr(
        lcm.runtime.compress_pass,
        "compact",
        lambda session, request: seen.append(request.critical) or plain(session, request),
    )
    script = Script("ok")
    lcm.runtime.compactor._summarise = script
    for used in (5_000, 9_900):
        lcm.compress(chat().turns(40), current_tokens=used)
    lcm.runtime.preparer.stop()
    lcm.runtime.db.close()

    assert seen == [False, True]


# -- chunks -----------------------------------------------------------------------------------------------------------


def sizes(world: World) -> list[int]:
    """Source tokens of what the summariser was asked to summarise."""
    return [task.source_tokens for task in world.model.tasks if task.depth == 0]


def test_chunks_are_as_large_as_the_leaf_setting_says(tmp_path: Path) -> None:
    """Up to twice the setting: larger ones are fewer."""
    found = []
    for size in (4_000, 12_000):
        (tmp_path / str(size)).mkdir()
        world = World(tmp_path / str(size), leaf_chunk_tokens=size, fresh_tail_count=4)
        world.compact(chat().turns(200, words=60), threshold=40_000, force=True)
        found.append(sizes(world))

    assert max(found[0]) < 8_800 < max(found[1])
    assert len(found[0]) > len(found[1])


def test_a_dynamic_pass_covers_no_more_than_it_must(tmp_path: Path) -> None:
    """Chunk-sized passes: what need not leave the prompt stays raw; off, all that is outside the tail is covered."""
    raw = {}
    for dynamic in (False, True):
        (tmp_path / str(dynamic)).mkdir()
        world = World(
            tmp_path / str(dynamic), dynamic_leaf_chunk_enabled=dynamic, leaf_chunk_tokens=1_000, fresh_tail_count=4,
            low_water=0.6,
        )  # fmt: skip
        compacted = world.compact(chat().turns(100), threshold=14_000)
        assert world.gaps(compacted) == ([], [])
        assert tokens_of(compacted) < 14_000
        raw[dynamic] = len(compacted)

    assert raw[True] > 3 * raw[False]


def test_dynamic_chunks_grow_with_the_backlog_up_to_their_bound(tmp_path: Path) -> None:
    """From the leaf setting on, to ``dynamic_leaf_chunk_max``."""
    largest = []
    for n, (turns, most) in enumerate([(20, 3_000), (200, 3_000), (200, 6_000)]):
        (tmp_path / str(n)).mkdir()
        world = World(
            tmp_path / str(n), dynamic_leaf_chunk_enabled=True, dynamic_leaf_chunk_max=most, leaf_chunk_tokens=1_000,
            fresh_tail_count=4,
        )  # fmt: skip
        world.compact(chat().turns(turns), threshold=3_000, force=True)
        largest.append(max(sizes(world)))

    assert largest[0] < largest[1] < 3_300
    assert largest[1] < largest[2] < 6_600


# -- depth, shares, time ------------------------------------------------------------------------------------------------


def deepest(world: World) -> int:
    messages = chat()
    world.model.moves = ["long", "ok"] * 200
    for n in range(8):
        messages = world.compact(messages.turns(20, first=100 * n))
    return max(node.depth for node in world.nodes())


@pytest.mark.parametrize(("limit", "depth"), [(0, 0), (1, 1)])
def test_the_greatest_depth_is_kept(tmp_path: Path, limit: int, depth: int) -> None:
    """0: nothing above leaves."""
    assert deepest(World(tmp_path, incremental_max_depth=limit, condensation_fanin=2, fresh_tail_count=4)) == depth


@pytest.mark.parametrize("fanin", [2, 5])
def test_so_many_are_condensed_into_one(tmp_path: Path, fanin: int) -> None:
    """Exactly the fan-in."""
    world = World(tmp_path, condensation_fanin=fanin, fresh_tail_count=4)
    deepest(world)
    counts = {len(world.dag.sources(node.node_id)) for node in world.nodes() if node.depth}

    assert counts
    assert all(count == fanin for count in counts)


@pytest.mark.parametrize("setting", ["fresh_tail_count", "tail_share", "low_water", "prefix_share"])
def test_what_stays_is_what_the_shares_say(tmp_path: Path, setting: str) -> None:
    """Each of them moves the size of the raw tail or of the summaries."""
    small = {"fresh_tail_count": 4, "tail_share": 0.1, "low_water": 0.3, "prefix_share": 0.01}[setting]
    large = {"fresh_tail_count": 64, "tail_share": 0.5, "low_water": 0.9, "prefix_share": 0.4}[setting]
    found = []
    for value in (small, large):
        (tmp_path / str(value)).mkdir()
        world = World(tmp_path / str(value), leaf_chunk_tokens=8_000, **{"tail_share": 0.5, setting: value})
        compacted = world.compact(chat().turns(300, words=60), threshold=12_000)
        assert world.gaps(compacted) == ([], [])
        found.append(tokens_of(compacted[:1] if setting == "prefix_share" else compacted))

    assert found[0] < found[1]


def test_summaries_are_written_at_the_same_time_as_the_setting_says(tmp_path: Path) -> None:
    """No more of them than that, and as many as that."""
    for most in (1, 3):
        (tmp_path / str(most)).mkdir()
        world = World(tmp_path / str(most), summary_parallelism=most, leaf_chunk_tokens=8_000, fresh_tail_count=4)
        crowd = Crowd(most)
        world.compactor._summarise = crowd
        world.compact(chat().turns(300, words=60), threshold=30_000, force=True, budget_s=60.0)

        assert crowd.peak == most


class Crowd:
    """A summariser that counts how often it is asked at the same time, and waits until so many were."""

    def __init__(self, most: int) -> None:
        self.running = self.peak = 0
        self._most, self._met = most, threading.Event()
        self._lock = threading.Lock()

    def __call__(self, task: SummaryTask, **_: Any) -> Summary:
        with self._lock:
            self.running += 1
            self.peak = max(self.peak, self.running)
            if self.running >= self._most:
                self._met.set()
        self._met.wait(WAIT_S)
        time.sleep(0.01)  # for one too many
        with self._lock:
            self.running -= 1
        return Script.summary(task, "verified", "so it was")


def test_focus_and_memory_reach_condensations(tmp_path: Path) -> None:
    """What the user asks for holds at every depth."""
    world = World(tmp_path, Script("long"), leaf_chunk_tokens=8_000, fresh_tail_count=4)
    request = world.request(chat().turns(200), focus="the parser", memory_context="likes tea")
    leaves = world.compactor.cover(world.session(), world.compactor.view(world.session(), request).backlog, request)
    world.model.moves = ["ok"]
    parent = world.compactor.parent(world.session(), leaves[:2], request)

    assert parent is not None
    assert (world.model.tasks[-1].depth, world.model.tasks[-1].focus) == (1, "the parser")
    assert world.model.tasks[-1].memory_context == "likes tea"


def test_a_model_that_cannot_condense_is_not_asked_about_all_of_a_long_history(tmp_path: Path) -> None:
    """A few refusals end a pass, however many nodes there are; the next pass goes on with others."""
    world = World(tmp_path, Script("long"), leaf_chunk_tokens=8_000, fresh_tail_count=4, condensation_fanin=2)
    request = world.request(chat().turns(900, words=60), budget_s=60.0)
    leaves = world.compactor.cover(world.session(), world.compactor.view(world.session(), request).backlog, request)
    world.model.moves = ["provisional"]
    asked = []
    for _ in range(2):
        before = len(world.model.tasks)
        assert world.compactor.condense(world.session(), leaves, 500, request) == leaves
        asked.append([task.lines[0].text for task in world.model.tasks[before:]])

    assert len(leaves) > 12
    assert 0 < len(asked[0]) <= 3
    assert not set(asked[0]) & set(asked[1])
