"""
What is so right now, as samples for the metrics file.

Reads what the status reads; asked for in the thread that writes the file, never in a turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from ..db.connection import Database
from ..errors import LcmError
from ..health import Health
from .status import disk_of, version_of
from .survey import Survey

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


def gauges(db: Database, health: Health, payload_dir: Path, plugin_dir: Path) -> Callable[[], list[Sample]]:
    """Sizes, totals and unresolved problems of one database."""

    def samples() -> list[Sample]:
        severities = Counter(problem.severity for problem in health.problems(may_open=False))
        out: list[Sample] = [("problems", {"severity": each}, severities[each]) for each in ("error", "warning")]
        disk = disk_of(db.path, payload_dir)
        free = disk.pop("free")
        out += [("disk_bytes", {"kind": kind}, size) for kind, size in disk.items() if isinstance(size, int)]
        out += [("disk_free_bytes", {}, free)] if free is not None else []
        version = version_of(plugin_dir) or "unknown"
        if not db.is_open:  # asking would open it, or even make the file
            return [*out, ("info", {"version": version, "schema": "unknown"}, 1)]
        try:
            survey = Survey(db)
            out += [("stored_messages", {}, survey.total("messages", "store_id"))]
            out += [("stored_summaries", {}, survey.total("nodes", "node_id"))]
            out += [("info", {"version": version, "schema": str(survey.pragma("user_version"))}, 1)]
        except LcmError:  # the status says what is wrong with the database
            return out
        return out

    return samples
