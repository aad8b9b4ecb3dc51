"""
One request as the pages see it: the database with its rights, arguments as they were typed, and what may be shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import BadRequest, NotFound
from ..recall.access import Access
from ..session import Session

Answer = dict[str, Any]


class Hidden(BadRequest):
    """The setting ``dashboard`` does not permit it."""


@dataclass(frozen=True, slots=True)
class Look:
    """``mode``: metadata or full."""

    deps: Access
    given: Mapping[str, Any]
    mode: str

    @property
    def full(self) -> bool:
        """May words that somebody said be shown?"""
        return self.mode == "full"

    @property
    def session(self) -> Session:
        """The session that is looked at. Raises NotFound where there is none, StoreError where that cannot be told."""
        if self.deps.session is None:
            if self.deps.db.exists:
                self.deps.db.open()  # a file that cannot be read says why
            raise NotFound("no conversation is stored yet")
        return self.deps.session

    def text(self, name: str) -> str:
        """A word or words; "" where none were given."""
        return str(self.given.get(name) or "").strip()

    def whole(self, name: str, default: int = 0, *, most: int = 2**53) -> int:
        """A whole number from 0 on. Raises BadRequest for anything else."""
        typed = str(self.given.get(name, "") if self.given.get(name) is not None else "").strip()
        if not typed:
            return default
        if not typed.isascii() or not typed.isdigit() or int(typed) > most:
            raise BadRequest(f"{name}={typed[:40]!r}: expected a whole number from 0 to {most:,}")
        return int(typed)
