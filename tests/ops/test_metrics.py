"""The metrics file: exact text, shared by processes, written by nobody who has something better to do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.home import ROOT, Home

from hermes_lcm import command
from hermes_lcm.config import load
from hermes_lcm.ops import status
from hermes_lcm.ops.metrics import BUCKETS_S, METRICS, PREFIX, Metrics, samples_in, text

# The grammar of the text format 0.0.4, written from its description and not from our writer.
_VALUE = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|[+-]Inf|NaN"
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"'
_LINE = re.compile(
    rf"# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (?:[^\\\n]|\\[\\n])*"
    r"|# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram|summary|untyped)"
    rf"|([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{((?:{_LABEL},)*(?:{_LABEL})?)\}})? ({_VALUE})"
)


def parsed(said: str) -> dict[tuple[str, str], float]:
    """{(name, labels): value} of a file; fails where it breaks a rule of the format."""
    out: dict[tuple[str, str], float] = {}
    types: dict[str, str] = {}
    seen: list[str] = []
    assert said.endswith("\n") or not said
    for line in said.split("\n")[:-1]:
        found = _LINE.fullmatch(line)
        assert found, line
        if found[2]:
            assert found[2] not in types, f"two types for {found[2]}"
            types[found[2]] = found[3]
        if found[4]:
            family = found[4] if found[4] in types else re.sub(r"_(bucket|sum|count)$", "", found[4])
            assert family in types, f"{found[4]} has no type before it"
            assert types[family] != "counter" or family.endswith("_total")
            if not seen or seen[-1] != family:
                assert family not in seen, f"{family} is torn apart"
                seen.append(family)
            assert (found[4], found[5]) not in out, f"twice: {line}"
            out[found[4], found[5] or ""] = float(found[6].replace("Inf", "inf"))
    return out


class Shared:
    """Processes that share one file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "lcm.prom"

    def process(self, database: str = "a.db", **more: Any) -> Metrics:
        return Metrics(self.path, database=database, interval_s=1000, clock=lambda: 5.0, **more)

    def value(self, name: str, *labels: str) -> float:
        """The one sample of this name whose labels contain these."""
        found = [v for (n, said), v in parsed(self.path.read_text()).items()
                 if n == PREFIX + name and all(label in said for label in labels)]  # fmt: skip
        assert len(found) == 1, (name, labels, found)
        return found[0]


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    return Shared(tmp_path)


def wait_for(met: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not met() and time.monotonic() < end:
        time.sleep(0.02)
    assert met()


# -- the format ------------------------------------------------------------------------------------------
def test_every_metric_is_valid_prometheus_text(shared: Shared) -> None:
    """Help and type once, before the samples; families together; no sample twice."""
    process = shared.process()
    for metric in METRICS:
        for n in range(2):
            labels = dict.fromkeys(metric.labels, f"value {n}")
            if metric.kind == "histogram":
                process.observe(metric.name, 0.003, **labels)
                process.observe(metric.name, 1e9, **labels)
            else:
                process.count(metric.name, 1.5, **labels)
    process.write()
    said = shared.path.read_text()

    assert {name for name, _ in parsed(said)} >= {PREFIX + m.name for m in METRICS if m.kind != "histogram"}
    assert re.findall(rf"# HELP {PREFIX}(\w+) ", said) == [metric.name for metric in METRICS]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric: Any) -> None:
    """Counters end in _total, times are seconds, and a help text is a sentence."""
    assert re.fullmatch(r"[a-z][a-z_]*[a-z]", metric.name)
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    assert metric.kind != "histogram" or metric.name.endswith("_seconds")
    assert re.fullmatch(r"[A-Z].*\.", metric.help)
    assert "le" not in metric.labels


@given(st.text(min_size=1, max_size=40), st.floats(0, 1e12))
def test_any_label_is_escaped_and_read_back(label: str, value: float) -> None:
    """Quotes, backslashes, line ends, and whatever else a path or a topic may contain."""
    label = label.encode("utf-8", "replace").decode()
    samples = {("failures_total", (("database", label), ("topic", label[::-1]))): value}
    said = text(samples)

    assert len(parsed(said)) == 1
    assert samples_in(said) == pytest.approx(samples)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30))
def test_buckets_are_cumulative(seconds: list[float]) -> None:
    """Each bucket counts everything up to its bound; +Inf, sum and count agree."""
    process = Metrics(Path("nowhere"), database="d", interval_s=1e9)
    process.changed = lambda: None  # type: ignore[method-assign]  # nothing is written here
    for each in seconds:
        process.observe("ingest_seconds", each)
    samples = parsed(text(process._totals))
    buckets = {re.search(r'le="([^"]+)"', labels)[1]: v  # type: ignore[index]
               for (name, labels), v in samples.items() if name.endswith("_bucket")}  # fmt: skip

    assert list(buckets)[-1] == "+Inf"
    assert [buckets[key] for key in buckets] == [
        sum(each <= bound for each in seconds) for bound in (*BUCKETS_S, float("inf"))
    ]
    assert buckets["+Inf"] == len(seconds) == samples[f"{PREFIX}ingest_seconds_count", 'database="d"']
    assert samples[f"{PREFIX}ingest_seconds_sum", 'database="d"'] == pytest.approx(sum(seconds))
    again = samples_in(text(process._totals))
    assert {key: again.get(key) for key in process._totals} == pytest.approx(process._totals)
    assert not any(again[key] for key in again if key not in process._totals)


# -- the file --------------------------------------------------------------------------------------------
def test_counters_go_on_over_restarts_and_processes(shared: Shared) -> None:
    """Two processes and a successor: the file has the sum, however often each of them wrote."""
    one, two = shared.process(), shared.process()
    one.count("messages_stored_total", 3)
    one.write()
    one.write()
    two.count("messages_stored_total", 4)
    two.write()
    one.count("messages_stored_total", 10)
    one.write()
    successor = shared.process()
    successor.count("messages_stored_total", 100)
    successor.write()

    assert shared.value("messages_stored_total") == 117


def test_histograms_add_up_over_processes(shared: Shared) -> None:
    """Bucket by bucket."""
    for seconds in (0.002, 0.002, 99.0):
        process = shared.process()
        process.observe("compaction_seconds", seconds)
        process.write()

    assert shared.value("compaction_seconds_bucket", 'le="0.0025"') == 2
    assert shared.value("compaction_seconds_bucket", 'le="60"') == 2
    assert shared.value("compaction_seconds_bucket", 'le="+Inf"') == 3
    assert shared.value("compaction_seconds_count") == 3


def test_databases_share_a_file(shared: Shared) -> None:
    """A gauge that is gone disappears with its own database only."""
    first = shared.process("a.db", gauges=lambda: [("problems", {"severity": "error"}, 2)])
    first.write()
    shared.process("b.db", gauges=lambda: [("problems", {"severity": "error"}, 0)]).write()

    assert shared.value("problems", 'database="a.db"') == 2
    assert shared.value("problems", 'database="b.db"') == 0
    shared.process("a.db").write()
    assert [n for (n, said) in parsed(shared.path.read_text()) if n.endswith("problems") and "a.db" in said] == []


@pytest.mark.parametrize("found", ["", "garbage\n", "\x00\xff", 'hermes_lcm_ingests_total{database="a.db"} NaN\n'])
def test_a_file_that_cannot_be_read_is_begun_anew(found: str, shared: Shared) -> None:
    """Somebody wrote something else there."""
    shared.path.write_bytes(found.encode("latin-1"))
    process = shared.process()
    process.count("ingests_total", 2)
    process.write()

    assert shared.value("ingests_total") == 2


def test_writers_at_the_same_time_lose_nothing(shared: Shared) -> None:
    """Four threads with a process's metrics each, writing after every count; a reader always sees a whole file."""

    def work() -> None:
        process = shared.process()
        for _ in range(25):
            process.count("ingests_total")
            process.write()
        process.stop()  # a write that the first count made due may be under way

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    while any(each.is_alive() for each in threads):
        if shared.path.exists():
            parsed(shared.path.read_text())
    for each in threads:
        each.join()

    assert shared.value("ingests_total") == 100
    assert sorted(path.name for path in shared.path.parent.iterdir()) == [".lcm.prom.lock", "lcm.prom"]


def test_a_process_that_ends_waits_for_the_write_under_way(shared: Shared) -> None:
    """No half of a file is left beside it."""
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> list[tuple[str, dict[str, str], float]]:
        begun.set()
        go_on.wait(10)
        return []

    process = shared.process(gauges=slow)
    writer = threading.Thread(target=process.write)
    writer.start()
    begun.wait(10)
    ending = threading.Thread(target=process.stop)
    ending.start()
    ending.join(0.1)

    assert ending.is_alive()
    go_on.set()
    ending.join(10)
    writer.join(10)
    assert sorted(path.name for path in shared.path.parent.iterdir()) == [".lcm.prom.lock", "lcm.prom"]


def test_a_failed_write_is_told_and_made_up_for(tmp_path: Path) -> None:
    """What was counted meanwhile is not lost."""
    told: list[OSError | None] = []
    (tmp_path / "lcm.prom").mkdir()
    shared = Shared(tmp_path)
    process = shared.process(told=told.append)
    process.count("ingests_total", 7)
    process.write()
    (tmp_path / "lcm.prom").rmdir()
    process.write()

    assert isinstance(told[0], OSError)
    assert told[1] is None
    assert shared.value("ingests_total") == 7


def test_the_file_takes_the_place_of_no_device(tmp_path: Path) -> None:
    """`LCM_METRICS_PATH=/dev/null`, in a process of root's: every program on the machine needs it."""
    told: list[OSError | None] = []
    os.mkfifo(tmp_path / "lcm.prom")
    process = Shared(tmp_path).process(told=told.append)
    process.count("ingests_total", 7)
    process.write()

    assert (tmp_path / "lcm.prom").is_fifo()
    assert "no regular file" in str(told[0])


# -- when it is written ----------------------------------------------------------------------------------
def test_without_a_path_nothing_happens(tmp_path: Path) -> None:
    """Off: no file, no thread, nothing is even counted."""
    before = set(threading.enumerate())  # some of them, of other tests, may end meanwhile
    world = Home(tmp_path)
    world.runtime.count("ingests_total")
    world.runtime.took("ingest_seconds", 1.0)

    assert world.runtime.metrics is None
    assert not set(threading.enumerate()) - before
    assert list(tmp_path.rglob("*.prom")) == []


def test_counting_never_writes_itself(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is written in another thread, however slow the disk is."""
    writers: list[str] = []
    monkeypatch.setattr(Metrics, "write", lambda _self: writers.append(threading.current_thread().name))
    process = shared.process()
    for _ in range(1000):
        process.count("ingests_total")
    wait_for(lambda: bool(writers))

    assert set(writers) == {"lcm-metrics"}


def test_writes_keep_their_distance(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a write the next one waits for the interval."""
    waits: list[float] = []
    made = threading.Timer

    def timer(seconds: float, function: Any) -> threading.Timer:
        waits.append(seconds)
        return made(1000, function)

    monkeypatch.setattr("hermes_lcm.ops.metrics.threading.Timer", timer)
    process = shared.process()
    process.count("ingests_total")
    process.stop()
    process.count("ingests_total")
    process.stop()

    assert waits[0] < 1
    assert 990 < waits[1] <= 1000
    assert shared.value("ingests_total") == 2


def test_a_thread_that_cannot_be_started_harms_nobody(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of a process, or where there are too many: the count is written later."""

    def refuse(_self: threading.Timer) -> None:
        raise RuntimeError("can't start new thread")

    process = shared.process()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Timer, "start", refuse)
        process.count("ingests_total")
    process.count("ingests_total")
    process.stop()

    assert shared.value("ingests_total") == 2


# -- in the plugin ---------------------------------------------------------------------------------------
@pytest.fixture
def world(tmp_path: Path) -> Iterator[Home]:
    world = Home(tmp_path / "home", metrics_path="lcm.prom", metrics_interval_seconds="1000")
    yield world
    world.runtime.metrics.stop()


def test_what_the_plugin_does_is_in_the_file(world: Home) -> None:
    """Stored messages, time, sizes, failures and the release; and no word that was said."""
    world.say("a secret about the zebra", "noted")
    world.runtime.health.degraded("some topic", "it failed")
    world.runtime.metrics.stop()
    shared = Shared(world.home)

    assert shared.value("messages_stored_total") == 2
    assert shared.value("ingest_seconds_count") == 1
    assert shared.value("stored_messages") == 2
    assert shared.value("failures_total", 'topic="some topic"') == 1
    assert shared.value("problems", 'severity="error"') == 1
    assert shared.value("disk_bytes", 'kind="database"') > 0
    assert shared.value("info") == 1
    assert f'database="{world.path}"' in shared.path.read_text()
    assert "zebra" not in shared.path.read_text()


@pytest.mark.host
def test_an_engine_counts_requests_tools_and_compactions(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the provider read from its cache, answers and errors of tools, and a compaction that the model wrote nothing for."""
    from hermes_lcm.engine import LCMEngine

    monkeypatch.setenv("LCM_METRICS_PATH", str(hermes_home / "lcm.prom"))
    monkeypatch.setenv("LCM_SUMMARY_MODEL", "extractive")
    engine = LCMEngine()
    engine.on_session_start("s1", platform="cli")
    engine.update_model(model="m", context_length=8000)
    engine.update_from_response({"prompt_tokens": 1000, "cache_read_tokens": 800, "completion_tokens": 5})
    live = [{"role": ("user", "assistant")[n % 2], "content": f"message {n} " + "word " * 150} for n in range(60)]
    shorter = engine.compress(live, current_tokens=20_000)
    engine.handle_tool_call("lcm_status", {})
    engine.handle_tool_call("lcm_expand", {"store_id": 999_999})
    engine.handle_tool_call("no_such_tool", {})
    engine.runtime.metrics.stop()
    shared = Shared(hermes_home)

    assert len(shorter) < len(live)
    assert shared.value("prompt_tokens_total") == 1000
    assert shared.value("cached_prompt_tokens_total") == 800
    assert command.engine_state(engine.runtime, None, engine).cache == {
        "requests": 1, "prompt_tokens": 1000, "cache_read_tokens": 800}  # fmt: skip
    assert shared.value("compactions_total", 'result="compacted"') == 1
    assert shared.value("compaction_saved_tokens_total") > 1000
    assert shared.value("summaries_total", 'quality="provisional"') >= 1
    assert shared.value("tool_calls_total", 'tool="lcm_status"', 'result="ok"') == 1
    assert shared.value("tool_calls_total", 'tool="lcm_expand"', 'result="error"') == 1
    assert shared.value("tool_calls_total", 'tool="unknown"', 'result="error"') == 1
    assert shared.value("tool_seconds_count", 'tool="lcm_status"') == 1


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    """Status shows it until it works."""
    world = Home(tmp_path / "home", metrics_path="lcm.prom")
    (world.home / "lcm.prom").mkdir()
    world.say("one", "two")
    world.runtime.metrics.write()
    shown = [each for each in status.status(world.deps())["problems"] if each["topic"] == "metrics file"]
    (world.home / "lcm.prom").rmdir()
    world.runtime.metrics.write()  # due or not

    assert [(each["severity"], "LCM_METRICS_PATH" in each["remedy"]) for each in shown] == [("warning", True)]
    assert "metrics file" not in [each["topic"] for each in status.status(world.deps())["problems"]]


def test_a_file_that_is_no_longer_asked_for_is_not_complained_about(tmp_path: Path) -> None:
    """Whether today's file can be written, today's process finds out."""
    world = Home(tmp_path / "home", metrics_path="lcm.prom")
    (world.home / "lcm.prom").mkdir()
    world.say("one", "two")
    world.runtime.metrics.write()
    world.runtime.ended()
    world.close()

    assert status.status(Home(tmp_path / "home").deps())["problems"] == []


def test_looking_writes_no_metrics(world: Home) -> None:
    """`hermes lcm status` must not change anything."""
    status.status(world.deps())
    world.runtime.metrics.stop()

    assert not (world.home / "lcm.prom").exists()


def test_a_process_that_ends_leaves_its_counts(tmp_path: Path) -> None:
    """A short-lived process writes once at its end, through the host's environment variable."""
    code = "from hermes_lcm.runtime import PROCESS\nPROCESS.at().ingest_list('s1', [{'role': 'user', 'content': 'hello'}])\n"
    env = {
        "HERMES_HOME": str(tmp_path),
        "LCM_METRICS_PATH": str(tmp_path / "lcm.prom"),
        "PYTHONPATH": str(ROOT / ".lcm-path"),
    }
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=60)

    assert Shared(tmp_path).value("ingests_total") == 2
    assert Shared(tmp_path).value("messages_stored_total") == 1
    assert Shared(tmp_path).value("stored_messages") == 1  # what is stored does not end with the process
    assert 'schema="unknown"' not in (tmp_path / "lcm.prom").read_text(encoding="utf-8")


def test_it_is_off_by_default() -> None:
    """Nobody asked for a file."""
    assert load({}).metrics_path == ""
