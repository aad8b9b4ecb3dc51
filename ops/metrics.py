"""
Counters and timings of this process, as a Prometheus text file.

Owns the names of all metrics and the file ``LCM_METRICS_PATH``. A thread of its own writes, so a turn never waits for it. All
processes that share the file add to it what they counted since they last wrote; counters therefore go on over restarts, and
processes that live for a second count as well.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import LcmError
from ..storage.connection import Database
from ..storage.meta import Health
from .status import disk_of, version
from .survey import Survey

try:
    import fcntl
except ImportError:  # no such locks there: two processes that write at once may lose a few counts
    fcntl = None  # type: ignore[assignment]

PREFIX = "hermes_lcm_"
#: Upper bounds of the histograms, in seconds.
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_FIRST_WRITE_S = 0.2
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One name. ``labels`` come besides ``database``, which every sample has."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


METRICS: tuple[Metric, ...] = (
    Metric("info", GAUGE, "Always 1; the labels say which release and schema write this file.", ("schema", "version")),
    Metric("messages_stored_total", COUNTER, "Messages that were stored."),
    Metric("ingests_total", COUNTER, "Lists of messages that the host handed over."),
    Metric("ignored_messages_total", COUNTER, "Messages that LCM_IGNORE_MESSAGE_PATTERNS kept out."),
    Metric("ingest_seconds", HISTOGRAM, "Time to store what is new in such a list."),
    Metric("compactions_total", COUNTER, "Compactions that the host asked for: compacted, or unchanged.", ("result",)),
    Metric("compaction_seconds", HISTOGRAM, "Time that a compaction held up the turn."),
    Metric("compaction_saved_tokens_total", COUNTER, "Prompt tokens that compactions removed, as the host estimates."),
    Metric("prompt_tokens_total", COUNTER, "Prompt tokens of all requests, as the provider counts."),
    Metric("cached_prompt_tokens_total", COUNTER, "Of these, what the provider read from its cache."),
    Metric("summaries_total", COUNTER, "Summaries that were written, by quality.", ("quality",)),
    Metric("summary_seconds", HISTOGRAM, "Time to write one summary, retries included."),
    Metric("leaves_prepared_total", COUNTER, "Summaries written ahead of time by the background worker."),
    Metric("nodes_repaired_total", COUNTER, "Provisional summaries that the background worker replaced."),
    Metric("tool_calls_total", COUNTER, "Tool calls of the agent, by tool and result (ok, error).", ("result", "tool")),
    Metric("tool_seconds", HISTOGRAM, "Time of one tool call.", ("tool",)),
    Metric("failures_total", COUNTER, "Failures after which the turn went on, by topic.", ("topic",)),
    Metric("problems", GAUGE, "Problems that are not solved yet, by severity.", ("severity",)),
    Metric("stored_messages", GAUGE, "Messages in the database."),
    Metric("stored_summaries", GAUGE, "Summaries in the database."),
    Metric("disk_bytes", GAUGE, "Bytes on disk, by kind of file.", ("kind",)),
    Metric("disk_free_bytes", GAUGE, "Bytes free where the database is."),
    Metric("last_write_timestamp_seconds", GAUGE, "When a process last wrote these samples."),
)  # fmt: skip
_BY_NAME = {metric.name: metric for metric in METRICS}

Labels = tuple[tuple[str, str], ...]
Key = tuple[str, Labels]
"""A series: its name without prefix (for a histogram with ``_bucket``, ``_sum`` or ``_count``), and its labels, sorted."""
Samples = Iterable[tuple[str, Mapping[str, str], float]]


def nothing() -> Samples:
    """No samples."""
    return ()


class Metrics:
    """The metrics of one database in one process.

    ``counted``: counters that others keep, as totals of this process; ``gauges``: what is so right now. Both are asked for in
    the writing thread. ``told`` learns of each write: the error, or None.
    """

    def __init__(
        self,
        path: Path,
        *,
        database: str,
        interval_s: float,
        counted: Callable[[], Samples] = nothing,
        gauges: Callable[[], Samples] = nothing,
        told: Callable[[OSError | None], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self._database = database
        self._interval_s = interval_s
        self._counted = counted
        self._gauges = gauges
        self._told = told
        self._clock = clock
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._totals: dict[Key, float] = {}
        self._written: dict[Key, float] = {}
        self._timer: threading.Timer | None = None
        self._wrote_at = -math.inf  # monotonic

    # -- counting ---------------------------------------------------------------------------------------
    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Add to a counter."""
        key = self._key(name, labels)
        with self._lock:
            self._totals[key] = self._totals.get(key, 0) + by
        self.changed()

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """One measured time."""
        bound = next((each for each in BUCKETS_S if seconds <= each), math.inf)
        with self._lock:
            for part, more, by in (("bucket", {"le": number(bound)}, 1), ("sum", {}, seconds), ("count", {}, 1)):
                key = self._key(f"{name}_{part}", {**labels, **more})
                self._totals[key] = self._totals.get(key, 0) + by
        self.changed()

    def changed(self) -> None:
        """See that what was counted, here or elsewhere, is written before long."""
        if self._timer is not None:
            return
        with self._lock:
            if self._timer is None:
                wait = max(_FIRST_WRITE_S, self._interval_s - (time.monotonic() - self._wrote_at))
                timer = threading.Timer(wait, self._due)
                timer.daemon, timer.name = True, "lcm-metrics"
                try:
                    timer.start()
                except RuntimeError:  # no more threads, or the process is ending: the next call tries again
                    return
                self._timer = timer

    def _due(self) -> None:
        self._timer = None
        self.write()

    def stop(self) -> None:
        """The process ends: write what is not written yet, and wait for a write under way."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            self.write()
        with self._writing:
            pass

    def _key(self, name: str, labels: Mapping[str, str]) -> Key:
        return name, tuple(sorted({**labels, "database": self._database}.items()))

    # -- writing ----------------------------------------------------------------------------------------
    def write(self) -> None:
        """Add to the file what this process counted since it last did. Never raises: the next call tries again."""
        with self._writing:
            with self._lock:
                totals = dict(self._totals)
            for name, labels, value in self._counted():
                totals[self._key(name, labels)] = value
            gauges = {self._key(name, labels): value for name, labels, value in self._gauges()}
            gauges[self._key("last_write_timestamp_seconds", {})] = self._clock()
            self._wrote_at = time.monotonic()
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with _alone(self.path):
                    self._merge(totals, gauges)
            except OSError as exc:
                self._told(exc)
                return
            self._written = totals
        self._told(None)

    def _merge(self, totals: Mapping[Key, float], gauges: Mapping[Key, float]) -> None:
        try:
            before = samples_in(self.path.read_text(encoding="utf-8"))
        except (FileNotFoundError, UnicodeDecodeError):
            before = {}
        mine = ("database", self._database)
        kept = {key: value for key, value in before.items() if not (_kind(key) == GAUGE and mine in key[1])}
        for key, value in totals.items():
            kept[key] = kept.get(key, 0) + value - self._written.get(key, 0)
        fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        fresh.write_text(text({**kept, **gauges}), encoding="utf-8")
        fresh.replace(self.path)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """No other process writes the file meanwhile."""
    if fcntl is None:
        yield
        return
    handle = os.open(path.with_name(f".{path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # gives the lock back


# -- the text format ---------------------------------------------------------------------------------------
_SAMPLE = re.compile(rf"{PREFIX}(\w+)\{{(.*)\}} (\S+)")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"(?:,|$)')
_PARTS = ("_bucket", "_sum", "_count")


def _family(name: str) -> Metric | None:
    """The metric that a series belongs to."""
    found = _BY_NAME.get(name)
    if found is not None and found.kind != HISTOGRAM:
        return found
    base = next((name.removesuffix(part) for part in _PARTS if name.endswith(part)), "")
    return found if (found := _BY_NAME.get(base)) is not None and found.kind == HISTOGRAM else None


def _kind(key: Key) -> str:
    found = _family(key[0])
    return found.kind if found is not None else ""


def number(value: float) -> str:
    """A value as Go reads it."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value)


def text(samples: Mapping[Key, float]) -> str:
    """The file: families in the order of ``METRICS``, each with its help and type, series in a fixed order.

    Buckets are kept apart inside and cumulative here, as the format wants them.
    """
    by_family: dict[str, list[tuple[Key, float]]] = {}
    for key, value in samples.items():
        family = _family(key[0])
        if family is not None:
            by_family.setdefault(family.name, []).append((key, value))
    lines: list[str] = []
    for metric in METRICS:
        found = by_family.get(metric.name)
        if found:
            said = metric.help.replace("\\", r"\\").replace("\n", r"\n")
            lines += [f"# HELP {PREFIX}{metric.name} {said}", f"# TYPE {PREFIX}{metric.name} {metric.kind}"]
            series = _cumulative(metric, dict(found)) if metric.kind == HISTOGRAM else sorted(found)
            lines += [_line(key, value) for key, value in series]
    return "".join(f"{line}\n" for line in lines)


def _line(key: Key, value: float) -> str:
    labels = ",".join(f'{name}="{_escaped(said)}"' for name, said in key[1])
    return f"{PREFIX}{key[0]}{{{labels}}} {number(value)}"


def _cumulative(metric: Metric, found: Mapping[Key, float]) -> Iterator[tuple[Key, float]]:
    """All buckets of each series, smallest first, then sum and count."""
    series = sorted({tuple(pair for pair in labels if pair[0] != "le") for _, labels in found})
    for labels in series:
        total = 0.0
        for bound in (*BUCKETS_S, math.inf):
            key = (f"{metric.name}_bucket", tuple(sorted((*labels, ("le", number(bound))))))
            total += found.get(key, 0)
            yield key, total
        yield (f"{metric.name}_sum", labels), found.get((f"{metric.name}_sum", labels), 0)
        yield (f"{metric.name}_count", labels), total


def samples_in(said: str) -> dict[Key, float]:
    """Samples of a file of ours; buckets apart again. Lines that are not ours are left out."""
    out: dict[Key, float] = {}
    for line in said.split("\n"):
        found = _SAMPLE.fullmatch(line)
        if found is None or _family(found[1]) is None:
            continue
        labels = tuple(sorted((name, _unescaped(value)) for name, value in _LABEL.findall(found[2])))
        try:
            key, value = (found[1], labels), float(found[3])
            _bound(key)
        except ValueError:
            continue
        if math.isfinite(value):
            out[key] = value
    return _apart(out)


def _apart(samples: Mapping[Key, float]) -> dict[Key, float]:
    """Cumulative buckets as counts of their own."""
    out = dict(samples)
    below: dict[Key, float] = {}
    for key in sorted((each for each in samples if each[0].endswith("_bucket")), key=_bound):
        series = key[0], tuple(pair for pair in key[1] if pair[0] != "le")
        out[key] = samples[key] - below.get(series, 0)
        below[series] = samples[key]
    return out


def _bound(key: Key) -> float:
    return float(dict(key[1]).get("le", "inf"))


# -- gauges of the present state ----------------------------------------------------------------------------
# They read what the status reads; asked for in the thread that writes the file, never in a turn.
Sample = tuple[str, Mapping[str, str], float]
#: Counters of ``Health`` that are metrics by themselves.
_COUNTED = {
    "messages_stored": "messages_stored_total",
    "ingests": "ingests_total",
    "ignored_messages": "ignored_messages_total",
    "leaves_prepared": "leaves_prepared_total",
    "nodes_repaired": "nodes_repaired_total",
}


def counted(health: Health) -> Callable[[], list[Sample]]:
    """Counters that the parts of a runtime keep in ``Health``."""

    def samples() -> list[Sample]:
        counters = health.counters.copy()
        out: list[Sample] = [(name, {}, float(counters[key])) for key, name in _COUNTED.items()]
        done, tries = counters["compactions"], counters["compaction_tries"]
        out += [("compactions_total", {"result": "compacted"}, done)]
        out += [("compactions_total", {"result": "unchanged"}, tries - done)]
        return out + [("failures_total", {"topic": topic}, count) for topic, count in health.failures.copy().items()]

    return samples


def gauges(db: Database, health: Health, payload_dir: Path) -> Callable[[], list[Sample]]:
    """Sizes, totals and unresolved problems of one database."""

    def samples() -> list[Sample]:
        severities = Counter(problem.severity for problem in health.problems(may_open=False))
        out: list[Sample] = [("problems", {"severity": each}, severities[each]) for each in ("error", "warning")]
        disk = disk_of(db.path, payload_dir)
        free = disk.pop("free")
        out += [("disk_bytes", {"kind": kind}, size) for kind, size in disk.items() if isinstance(size, int)]
        out += [("disk_free_bytes", {}, free)] if free is not None else []
        release = version() or "unknown"
        if not db.is_open:  # asking would open it, or even make the file
            return [*out, ("info", {"version": release, "schema": "unknown"}, 1)]
        try:
            survey = Survey(db)
            out += [("stored_messages", {}, survey.total("messages", "store_id"))]
            out += [("stored_summaries", {}, survey.total("nodes", "node_id"))]
            out += [("info", {"version": release, "schema": str(survey.pragma("user_version"))}, 1)]
        except LcmError:  # the status says what is wrong with the database
            return out
        return out

    return samples
