"""
The doctor: one table of small checks for the tool, the slash command and the terminal.

A check answers one question, changes nothing and costs little; ``deep`` ones may read everything, and never run
unasked. Adding a check is adding a row.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..db.files import Progress, silent
from ..errors import LcmError, StoreBusy, StoreError
from . import check_content as content
from . import check_engine as engine
from . import check_file as file
from . import check_prompt as prompt
from .check_payloads import payload_files
from .findings import FAIL, PASS, WARN, Finding, fail, warn
from .status import OpsDeps, database_state

Run = Callable[[OpsDeps, bool], Finding]


@dataclass(frozen=True, slots=True)
class Check:
    """``reads``: needs a database that answers."""

    name: str
    run: Run
    reads: bool = True


CHECKS: tuple[Check, ...] = (
    Check("database", file.database, reads=False),
    Check("file_modes", file.modes, reads=False),
    Check("disk_space", file.space, reads=False),
    Check("schema", file.schema),
    Check("journal_mode", file.journal),
    Check("integrity", file.integrity),
    Check("sizes", file.sizes),
    Check("backups", file.backups, reads=False),
    Check("search_index", content.search_index),
    Check("links", content.links),
    Check("ingest_gaps", content.gaps),
    Check("unaligned", content.unaligned),
    Check("coverage", prompt.coverage),
    Check("cache_prefix", prompt.cache_prefix),
    Check("provisional_nodes", content.provisional),
    Check("sources", content.sources),
    Check("largest_rows", content.largest),
    Check("inline_payloads", content.inline_payloads),
    Check("payload_files", payload_files),
    Check("lifecycle", content.lifecycle),
    Check("problems", engine.problems, reads=False),
    Check("plugin", engine.plugin, reads=False),
    Check("settings", engine.settings, reads=False),
    Check("packages", engine.packages, reads=False),
    Check("host", engine.host, reads=False),
    Check("engine_in_use", engine.in_use, reads=False),
    Check("context_length", engine.context_length, reads=False),
    Check("context_pressure", engine.pressure, reads=False),
    Check("background", engine.background, reads=False),
    Check("summary_routes", engine.routes, reads=False),
    Check("summary_spend", engine.spending, reads=False),
    Check("redaction", engine.redaction, reads=False),
)

_OVERALL = {PASS: "healthy", WARN: "warnings", FAIL: "unhealthy"}


def doctor(deps: OpsDeps, deep: bool = False, progress: Progress = silent) -> dict[str, Any]:
    """Every check and its verdict. ``overall``: healthy, warnings or unhealthy."""
    ready = database_state(deps)["state"] == "ready"
    asked = [check for check in CHECKS if ready or not check.reads]
    checks = []
    for n, check in enumerate(asked):
        progress("checking", n, len(asked))
        checks.append(_asked(check, deps, deep).shown(check.name))
    worst = max((each["status"] for each in checks), key=(PASS, WARN, FAIL).index)
    counts = {status: sum(each["status"] == status for each in checks) for status in (PASS, WARN, FAIL)}
    out: dict[str, Any] = {
        "overall": _OVERALL[worst],
        "deep": deep,
        "session_id": deps.session.session_id if deps.session else None,
        "counts": counts,
        "checks": checks,
    }
    if not ready:
        out["not_checked"] = [check.name for check in CHECKS if check.reads]
    return out


def _asked(check: Check, deps: OpsDeps, deep: bool) -> Finding:
    try:
        return check.run(deps, deep)
    except (zlib.error, ValueError, TypeError, AttributeError) as exc:  # a row that is not what the store wrote
        return fail(
            f"a stored row cannot be read ({type(exc).__name__})",
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
        return kind(
            f"{type(exc).__name__}: {exc}",
            meaning="this could not be checked",
            remedy=str(getattr(exc, "remedy", StoreError.remedy)),
        )
