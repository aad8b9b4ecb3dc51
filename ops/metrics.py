"""
Counters and timings of this process, as a Prometheus text file.

Owns the names of all metrics and the file ``LCM_METRICS_PATH``. A thread of its own writes, so a turn never waits for it. All
processes that share the file add to it what they counted since they last wrote; counters therefore go on over restarts, and
processes that live for a second count as well.
"""

from __future__ import annotations

import errno
import math
import os
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
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
_PARTS = ("_bucket", "_sum", "_count")  # of a histogram
#: The metric that a series belongs to, by the name of the series.
_METRIC_OF = {f"{each.name}{part}": each for each in METRICS for part in (_PARTS if each.kind == HISTOGRAM else ("",))}

Key = tuple[str, tuple[tuple[str, str], ...]]
"""A series: its name without prefix (for a histogram with ``_bucket``, ``_sum`` or ``_count``), and its labels, sorted."""
Sample = tuple[str, Mapping[str, str], float]


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
        counted: Callable[[], Iterable[Sample]] = list,
        gauges: Callable[[], Iterable[Sample]] = list,
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
        self._totals: defaultdict[Key, float] = defaultdict(float)
        self._written: Mapping[Key, float] = {}
        self._timer: threading.Timer | None = None
        self._wrote_at = -math.inf  # monotonic

    # -- counting ---------------------------------------------------------------------------------------
    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Add to a counter."""
        self._add({self._key(name, labels): by})

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """One measured time: each bucket counts all up to its bound, as the format wants them."""
        buckets = {
            self._key(f"{name}_bucket", {**labels, "le": number(bound)}): int(seconds <= bound)
            for bound in (*BUCKETS_S, math.inf)
        }
        self._add({**buckets, self._key(f"{name}_sum", labels): seconds, self._key(f"{name}_count", labels): 1})

    def _add(self, amounts: Mapping[Key, float]) -> None:
        with self._lock:
            for key, amount in amounts.items():
                self._totals[key] += amount
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
                if self.path.exists() and not self.path.is_file():  # a device, whose place the file would take
                    raise FileExistsError(errno.EEXIST, "is no regular file and stays as it is", str(self.path))
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
        kept = {key: n for key, n in before.items() if not (_METRIC_OF[key[0]].kind == GAUGE and mine in key[1])}
        for key, value in totals.items():
            kept[key] = kept.get(key, 0) + value - self._written.get(key, 0)
        path = self.path.resolve()  # a link stays one
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        fresh.write_text(text({**kept, **gauges}), encoding="utf-8")
        fresh.replace(path)


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
    """The file: families in the order of ``METRICS``, each with its help and type, series in a fixed order."""
    lines: list[str] = []
    for metric, series in groupby(sorted(samples, key=_place), key=lambda key: _METRIC_OF[key[0]]):
        said = metric.help.replace("\\", r"\\").replace("\n", r"\n")
        lines += [f"# HELP {PREFIX}{metric.name} {said}", f"# TYPE {PREFIX}{metric.name} {metric.kind}"]
        lines += [_line(key, samples[key]) for key in series]
    return "".join(f"{line}\n" for line in lines)


def _place(key: Key) -> tuple[object, ...]:
    """Place of a series in the file; of a histogram all buckets, the smallest first, then sum and count."""
    name, labels = key
    metric = _METRIC_OF[name]
    part = ("", *_PARTS).index(name.removeprefix(metric.name))
    return METRICS.index(metric), tuple(each for each in labels if each[0] != "le"), part, _bound(labels)


def _line(key: Key, value: float) -> str:
    labels = ",".join(f'{name}="{_escaped(said)}"' for name, said in key[1])
    return f"{PREFIX}{key[0]}{{{labels}}} {number(value)}"


def samples_in(said: str) -> dict[Key, float]:
    """Samples of a file of ours. Lines that are not ours are left out."""
    out: dict[Key, float] = {}
    for line in said.split("\n"):
        found = _SAMPLE.fullmatch(line)
        if found is None or found[1] not in _METRIC_OF:
            continue
        labels = tuple(sorted((name, _unescaped(value)) for name, value in _LABEL.findall(found[2])))
        with suppress(ValueError):
            _bound(labels)
            if math.isfinite(value := float(found[3])):
                out[found[1], labels] = value
    return out


def _bound(labels: Iterable[tuple[str, str]]) -> float:
    return float(dict(labels).get("le", "inf"))


# -- gauges of the present state ----------------------------------------------------------------------------
# They read what the status reads; asked for in the thread that writes the file, never in a turn.
#: Counters of ``Health`` that are metrics by themselves.
_COUNTED = {
    "messages_stored": "messages_stored_total",
    "ingests": "ingests_total",
    "ignored_messages": "ignored_messages_total",
    "leaves_prepared": "leaves_prepared_total",
    "nodes_repaired": "nodes_repaired_total",
}


def counted(health: Health) -> list[Sample]:
    """Counters that the parts of a runtime keep in ``Health``."""
    counters = health.counters.copy()
    out: list[Sample] = [(name, {}, float(counters[key])) for key, name in _COUNTED.items()]
    done, tries = counters["compactions"], counters["compaction_tries"]
    out += [("compactions_total", {"result": "compacted"}, done)]
    out += [("compactions_total", {"result": "unchanged"}, tries - done)]
    return out + [("failures_total", {"topic": topic}, count) for topic, count in health.failures.copy().items()]


def gauges(db: Database, health: Health, payload_dir: Path) -> list[Sample]:
    """Sizes, totals and unresolved problems of one database."""
    severities = Counter(problem.severity for problem in health.problems(may_open=False))
    out: list[Sample] = [("problems", {"severity": each}, severities[each]) for each in ("error", "warning")]
    disk = disk_of(db.path, payload_dir)
    free = disk.pop("free")
    out += [("disk_bytes", {"kind": kind}, size) for kind, size in disk.items() if isinstance(size, int)]
    out += [("disk_free_bytes", {}, free)] if free is not None else []
    release = version() or "unknown"
    if not db.is_open:  # asking would open it, or even make the file
        return [*out, ("info", {"version": release, "schema": "unknown"}, 1)]
    with suppress(LcmError):  # the status says what is wrong with the database
        survey = Survey(db)
        out += [("stored_messages", {}, survey.total("messages", "store_id"))]
        out += [("stored_summaries", {}, survey.total("nodes", "node_id"))]
        out += [("info", {"version": release, "schema": str(survey.pragma("user_version"))}, 1)]
    return out
