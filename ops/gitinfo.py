"""
Commit of a checkout, as git tells it. Best effort: without git, or where it says nothing within a second, all of it is None.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

# No lock of the index is taken, and no monitor of the user's is started.
_STATUS = ("-c", "core.fsmonitor=false", "--no-optional-locks", "status", "--porcelain=v2", "--branch", "-uno")


@dataclass(frozen=True, slots=True)
class GitIdentity:
    """Commit and branch of a checkout; ``dirty``: a tracked file has changed (None: unknown)."""

    commit: str | None = None
    branch: str | None = None
    dirty: bool | None = None


def identity(folder: Path) -> GitIdentity:
    """The identity of the checkout that ``folder`` is the top of."""
    if not (folder / ".git").exists():
        return GitIdentity()
    try:
        call = ["git", "-C", str(folder), *_STATUS]
        done = subprocess.run(call, capture_output=True, text=True, timeout=1.0, check=True)  # noqa: S603 - only constants
    except (OSError, subprocess.SubprocessError):
        return GitIdentity()
    heads = dict(line[2:].split(" ", 1) for line in done.stdout.splitlines() if line.startswith("# "))
    commit, branch = heads.get("branch.oid"), heads.get("branch.head")
    return GitIdentity(
        commit if commit != "(initial)" else None,
        branch if branch != "(detached)" else None,
        any(not line.startswith("#") for line in done.stdout.splitlines()),
    )
