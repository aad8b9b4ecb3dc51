"""
The doctor's check of the payload files, and what repair does about it.
"""

from __future__ import annotations

from typing import Any

from .findings import Finding, fail, ok, warn
from .render import size
from .status import OpsDeps


def payload_files(deps: OpsDeps, _deep: bool) -> Finding:
    """Is every file that a message shows there, and every file shown by a message?"""
    if deps.payloads is None:
        return ok("not looked at")
    found = deps.payloads.survey()
    data: dict[str, Any] = {
        "files": found.files,
        "bytes": found.bytes,
        "unreferenced": len(found.orphans),
        "missing": len(found.missing),
    }
    if found.missing:
        return fail(
            f"{len(found.missing)} payload files are missing: {', '.join(f'file_{sha[:16]}' for sha in found.missing[:5])}",
            meaning="the messages that show them cannot be read back completely",
            remedy=f"put them back into {deps.payloads.folder} from a backup of that folder",
            **data,
        )
    if found.orphans:
        return warn(
            f"{len(found.orphans)} of {found.files} payload files belong to no message",
            meaning="a crash or a deleted session left them behind; they only take room",
            remedy="remove them",
            command="/lcm doctor repair apply",
            **data,
        )
    return ok(f"{found.files} files, {size(found.bytes)}; every one is shown by a message", **data)
