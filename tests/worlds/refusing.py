"""
A system that refuses: the n-th call that makes, writes, renames or removes a file of a home fails with an errno.

What SQLite asks for itself goes past it (``worlds.breaking.Faults`` is for that). ``lasting``: every call from the n-th on fails.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Refusals of a call that writes, as a user meets them.
CODES = {name: getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EIO", "EROFS", "EMFILE", "EACCES")}
_CALLS = (
    "mkdir",
    "replace",
    "rename",
    "link",
    "chmod",
    "fsync",
    "fdatasync",
    "unlink",
    "truncate",
    "copy_file_range",
    "sendfile",
)


class Refusals:
    """Which call of this process is refused. Unarmed it only counts."""

    def __init__(self, monkeypatch: Any) -> None:
        self.at, self.code, self.lasting, self.seen = 0, 0, False, 0
        self.refused: list[str] = []
        self._opened = os.open
        for name in _CALLS:
            monkeypatch.setattr(os, name, self._asked(name, getattr(os, name)))
        monkeypatch.setattr(os, "open", self._opening)
        plain = io.open

        def opening(file: Any, mode: str = "r", *args: Any, **facts: Any) -> Any:
            if set(mode) & set("wax+") and not isinstance(file, int):
                self._ask("open", file)
            return plain(file, mode, *args, **facts)

        monkeypatch.setattr(io, "open", opening)
        monkeypatch.setattr(builtins, "open", opening)

    def arm(self, at: int, code: int = errno.ENOSPC, *, lasting: bool = False) -> None:
        """Call ``at`` (from 1; 0: none) fails."""
        self.at, self.code, self.lasting, self.seen, self.refused = at, code, lasting, 0, []

    def _ask(self, name: str, file: Any) -> None:
        self.seen += 1
        if self.at and (self.seen == self.at or (self.lasting and self.seen > self.at)):
            named = None if isinstance(file, int) else os.fspath(file)
            self.refused.append(f"{name} {named}")
            raise OSError(self.code, os.strerror(self.code), named)

    def _asked(self, name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def asked(file: Any, *args: Any, **facts: Any) -> Any:
            self._ask(name, file)
            return plain(file, *args, **facts)

        return asked

    def _opening(self, file: Any, flags: int, *args: Any, **facts: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            self._ask("open", file)
        return self._opened(file, flags, *args, **facts)


def litter(home: Path) -> list[str]:
    """Files in a home that only work that was not finished leaves."""
    ends = (".partial", ".work", ".rescued", ".restored", ".saved", ".tmp")
    found = [path for path in home.rglob("*") if path.name.startswith(".") or path.name.endswith(ends)]
    return sorted(path.name for path in found if not path.name.endswith(".lock") and path.is_file())
