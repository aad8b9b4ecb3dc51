"""
The doctor's check of the files beside the database.
"""

from __future__ import annotations

from typing import Any

from ...recall.access import Access
from ..findings import Finding, fail, ok, warn
from ..render import counted, size

_NAMED = 20


def payload_files(deps: Access, deep: bool) -> Finding:
    """Is every file that a message shows there (``deep``: and what was written), and every file shown by a message?"""
    found = deps.payloads.survey(deep=deep)
    data: dict[str, Any] = {
        "files": found.files,
        "bytes": found.bytes,
        "unreferenced": len(found.orphans),
        "missing": [f"file_{sha[:16]}" for sha in found.missing],
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
    if found.orphans:
        return warn(
            f"{counted(len(found.orphans), 'payload file')} of {found.files} without a message",
            meaning="a crash or a deleted session left them behind; they only take room",
            remedy="remove them",
            command="/lcm doctor repair apply",
            **data,
        )
    return ok(f"{counted(found.files, 'file')}, {size(found.bytes)}; every one is shown by a message", **data)


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
