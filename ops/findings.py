"""
Findings: the answers of the doctor's checks.

A finding that is not "pass" says what it means, what to do, and the exact command, if there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PASS, WARN, FAIL = "pass", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer. ``data`` holds numbers for machines; never text of a message."""

    status: str
    detail: str
    meaning: str = ""
    remedy: str = ""
    command: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self, check: str) -> dict[str, Any]:
        """The finding as a report has it; empty parts left out."""
        more = {"meaning": self.meaning, "remedy": self.remedy, "command": self.command, "data": dict(self.data)}
        found = {"check": check, "status": self.status, "detail": self.detail}
        return {**found, **{name: value for name, value in more.items() if value}}


def ok(detail: str, **data: Any) -> Finding:
    """A finding with nothing to do."""
    return Finding(PASS, detail, data=data)


def warn(detail: str, *, meaning: str, remedy: str, command: str = "", **data: Any) -> Finding:
    """A finding to know about; no promise is broken."""
    return Finding(WARN, detail, meaning, remedy, command, data)


def fail(detail: str, *, meaning: str, remedy: str, command: str = "", **data: Any) -> Finding:
    """A promise is broken or about to be."""
    return Finding(FAIL, detail, meaning, remedy, command, data)
