"""
The doctor: one table of small checks for the tool, the slash command and the terminal.

A check answers one question, changes nothing and costs little; ``deep`` ones may read everything, and never run
unasked. Adding a check is adding a row.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...errors import LcmError, StoreBusy, StoreError, way_out, worded
from ...recall.access import Access
from ...storage import files
from ...storage.files import Progress, silent
from ...storage.meta import Meta
from ...storage.payloads import OF_A_FILE
from .. import backup
from ..findings import FAIL, PASS, WARN, Finding, fail, ok, warn
from ..render import moment
from ..status import database_state
from ..survey import ACCEPTED, Survey
from . import content, engine, file, prompt
from .content import owners
from .file import payload_files

Run = Callable[[Access, bool], Finding]


@dataclass(frozen=True, slots=True)
class Check:
    """``reads``: needs a database that answers. ``own``: tells of nothing that others have a part in."""

    name: str
    run: Run
    reads: bool = True
    own: bool = False


CHECKS: tuple[Check, ...] = (
    Check("database", file.database, reads=False, own=True),
    Check("file_modes", file.modes, reads=False),
    Check("disk_space", file.space, reads=False),
    Check("schema", file.schema, own=True),
    Check("journal_mode", file.journal),
    Check("integrity", file.integrity),
    Check("seals", file.altered),
    Check("owners", owners),
    Check("sizes", file.sizes),
    Check("backups", file.backups, reads=False),
    Check("search_index", content.search_index),
    Check("links", content.links),
    Check("ingest_gaps", content.gaps),
    Check("unaligned", content.unaligned),
    Check("coverage", prompt.coverage, own=True),
    Check("cache_prefix", prompt.cache_prefix, own=True),
    Check("provisional_nodes", content.provisional),
    Check("sources", content.sources),
    Check("largest_rows", content.largest),
    Check("inline_payloads", content.inline_payloads),
    Check("payload_files", payload_files),
    Check("lifecycle", content.lifecycle, own=True),
    Check("problems", engine.problems, reads=False, own=True),
    Check("plugin", engine.plugin, reads=False, own=True),
    Check("settings", engine.settings, reads=False),
    Check("packages", engine.packages, reads=False, own=True),
    Check("host", engine.host, reads=False, own=True),
    Check("engine_in_use", engine.in_use, reads=False, own=True),
    Check("context_length", engine.context_length, reads=False, own=True),
    Check("context_pressure", engine.pressure, reads=False, own=True),
    Check("background", engine.background, reads=False),
    Check("summary_routes", engine.routes, reads=False),
    Check("summary_spend", engine.spending, reads=False),
    Check("redaction", engine.redaction, reads=False, own=True),
)

_OVERALL = {PASS: "healthy", WARN: "warnings", FAIL: "unhealthy"}


def doctor(deps: Access, deep: bool = False, progress: Progress = silent) -> dict[str, Any]:
    """Every check and its verdict. ``overall``: healthy, warnings or unhealthy."""
    deps = replace(deps.for_session_facts(), progress=progress)
    ready = database_state(deps)["state"] == "ready"
    asked = [check for check in CHECKS if (ready or not check.reads) and (check.own or deps.reads_all)]
    accepted = _accepted(deps) if ready else {}
    checks = []
    for n, check in enumerate(asked):
        progress(f"checking {check.name}", n, len(asked))
        found = _asked(check, deps, deep)
        if found.status == FAIL and (when := _accepted_at(check.name, found.data, found.detail, accepted)):
            found = ok(f"{found.detail} (accepted {moment(when)})", **found.data)
        checks.append({**found.as_dict(check.name), "stored": check.reads})
    worst = max((each["status"] for each in checks), key=(PASS, WARN, FAIL).index)
    counts = {status: sum(each["status"] == status for each in checks) for status in (PASS, WARN, FAIL)}
    out: dict[str, Any] = {
        "overall": _OVERALL[worst],
        "deep": deep,
        "session_id": deps.session.session_id if deps.session else None,
        "counts": counts,
        "checks": checks,
    }
    if deps.reads_all and ready:
        out["sessions"] = _sessions(deps)
    if not deps.reads_all:
        out["left_out"] = "checks of the whole archive, which are the operator's: `hermes lcm doctor`"
    if not ready:
        out["not_checked"] = [check.name for check in CHECKS if check.reads]
    return out


def _sessions(deps: Access) -> int:
    """Number of sessions; 0 where that cannot be read, which a check of its own says."""
    try:
        return Survey(deps.db).archive()[1]
    except LcmError:
        return 0


#: Checks whose finding may be a loss that nothing brings back.
ACCEPTABLE = ("seals", "links", "ingest_gaps", "payload_files", "backups")


def _accepted(deps: Access) -> dict[str, dict[str, float]]:
    """Findings that an operator accepted, and when, by check."""
    try:
        return {name: each for name, each in Meta(deps.db).with_prefix(ACCEPTED).items() if isinstance(each, dict)}
    except StoreError:
        return {}


def _accepted_at(name: str, data: Mapping[str, Any], detail: str, accepted: dict[str, dict[str, float]]) -> float:
    """Time at which a finding was accepted, 0.0 for never. What readers met of a lost payload file is accepted with the file."""
    if name == "problems" and _is_of_files(data):
        return max(accepted.get("payload_files", {}).values(), default=0.0)
    return accepted.get(name, {}).get(detail, 0.0)


def _is_of_files(data: Mapping[str, Any]) -> bool:
    """Are all of these problems about payload files that cannot be read?"""
    found = data.get("problems", ())
    return bool(found) and all(each["topic"].startswith(OF_A_FILE) for each in found)


def accept(
    deps: Access, *, apply: bool, progress: Progress = silent
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(losses that are accepted, or would be; failures that are none). Accepted losses are noted with their date."""
    checks = doctor(deps, deep=True, progress=progress)["checks"]
    failed = [each for each in checks if each["status"] == FAIL]
    losses = [each for each in failed if each["check"] in ACCEPTABLE]
    others = [each for each in failed if each not in losses]
    if any(each["check"] == "payload_files" for each in losses):
        others = [each for each in others if each["check"] != "problems" or not _is_of_files(each.get("data", {}))]
    if apply and losses and not others:
        accepted = _accepted(deps)
        with deps.db.transaction():
            for each in losses:
                known = accepted.get(each["check"], {})
                Meta(deps.db).note(f"{ACCEPTED}{each['check']}", {**known, each["detail"]: deps.clock()})
    # One that was accepted, and no more than that, belongs to a run that was stopped in between.
    if apply and not others and any(each["check"] == "seals" and "altered" in each.get("data", {}) for each in checks):
        files.reseal(deps.db.path)
    return losses, others


def _another(remedy: str, deps: Access) -> str:
    """A remedy that is not the command that has just run."""
    return f"see the log of Hermes; {backup.way_back(deps)}" if remedy == StoreError.remedy else remedy


def _asked(check: Check, deps: Access, deep: bool) -> Finding:
    try:
        return check.run(deps, deep)
    except (zlib.error, ValueError, TypeError, AttributeError) as exc:  # a row that is not what the store wrote
        return fail(
            f"a stored row cannot be read: {exc}",
            meaning="the file is damaged in a way that SQLite does not notice",
            remedy="look at what can be saved; apply keeps the damaged file",
            command="/lcm doctor repair",
        )
    except OSError as exc:
        return fail(
            f"{exc.filename or 'a file'}: {exc.strerror or exc}",
            meaning="this could not be checked",
            remedy="make the files beside the database readable for the account that Hermes runs as",
        )
    except LcmError as exc:
        kind = warn if isinstance(exc, StoreBusy) else fail
        meaning = "this could not be checked"
        if "no such table" in str(exc):  # the check of the schema names them all
            said = "not checked: a part of the database file is gone"
            return kind(said, meaning=meaning, remedy="see `schema` above", command="/lcm doctor repair")
        return kind(worded(exc), meaning=meaning, remedy=_another(way_out(exc), deps))
