"""
The doctor's check of the files beside the database.
"""

from __future__ import annotations

from typing import Any

from ..cold import LAID_ASIDE
from ..text.packing import Reference
from .findings import Finding, fail, ok, warn
from .render import counted, size
from .status import OpsDeps
from .survey import Survey

_NAMED = 20


def payload_files(deps: OpsDeps, deep: bool) -> Finding:
    """Is every file that a message shows or lies in there (``deep``: and what was written), and every file shown by a message?"""
    if deps.payloads is None:
        return ok("not looked at")
    found = deps.payloads.survey(deep=deep)
    data: dict[str, Any] = {
        "files": found.files,
        "bytes": found.bytes,
        "unreferenced": len(found.orphans),
        "missing": [f"file_{sha[:16]}" for sha in found.missing],
        "to_deflate": deps.payloads.waiting(),
        "huge_missing": _huge_missing(deps, deep),
        "damaged": [f"file_{sha[:16]}" for sha in found.damaged],
    }
    if found.missing or found.damaged:
        told = [
            f"{counted(len(data[kind]), 'payload file')} {kind}: {_names(data[kind])}"
            for kind in ("missing", "damaged")
            if data[kind]
        ]
        return fail(
            "; ".join(told),
            meaning="the messages that show them cannot be read back completely",
            remedy=f"put them back into {deps.payloads.folder} from a backup of that folder",
            **data,
        )
    if data["huge_missing"]:
        return fail(
            f"{counted(len(data['huge_missing']), 'huge message')} without its file: {_names(data['huge_missing'])}",
            meaning="a turn lays a message of megabytes aside, and behind the turn it comes into the database; in between "
            "somebody removed the files, so these messages cannot be read",
            remedy=f"put them back into {deps.store.blocks.aside.folder}",
            **data,
        )
    if found.orphans:
        return warn(
            f"{counted(len(found.orphans), 'payload file')} of {found.files} without a message",
            meaning="a crash or a deleted session left them behind; they only take room",
            remedy="remove them",
            command="/lcm doctor repair apply",
            **data,
        )
    return ok(f"{counted(found.files, 'file')}, {size(found.bytes)}; every one is shown by a message", **data)


def _huge_missing(deps: OpsDeps, deep: bool) -> list[str]:
    """Messages that lie aside, and whose file does not (``deep``: or is not what it was)."""
    above = Survey(deps.db).floor(deep=deep)
    rows = deps.db.query(f"{LAID_ASIDE} AND store_id > ?", (above,))
    laid = [(store_id, Reference.read(stored)) for store_id, stored in rows]
    aside = deps.store.blocks.aside
    there = aside.holds if deep else aside.has
    return [f"msg_{store_id}" for store_id, to in laid if to is not None and not there(to)]


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
