"""
Selection of a purge, and its reach in a fleet, whose side is in room ``fleet``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...storage.files import Progress
    from .proof import Evidence


@dataclass(frozen=True, slots=True)
class Selection:
    """Selection of messages that fit all that is said. ``before``: Unix seconds; ``matching``: a text in any case."""

    ids: tuple[int, ...] = ()
    session: str | None = None
    principal: str | None = None
    before: float | None = None
    matching: str = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """Reach of a purge in a fleet.

    ``tables``: rows by table; ``places``: conversation and number of each message there; ``summaries``: their numbers.
    ``only_there``: messages that were chosen and are not here. ``held``: numbers of here to those who hold
    them; ``held_there``: messages that are only there and held. ``silent``: messages that a policy emptied, so that a text to
    match is found neither here nor there.
    """

    where: str
    tables: Mapping[str, int] = field(default_factory=dict)
    places: tuple[tuple[int, int], ...] = ()
    summaries: tuple[int, ...] = ()
    only_there: tuple[int, ...] = ()
    held: Mapping[int, str] = field(default_factory=dict)
    held_there: Mapping[int, str] = field(default_factory=dict)
    silent: int = 0

    @property
    def messages(self) -> tuple[int, ...]:
        """Their numbers."""
        return tuple(number for _, number in self.places)


@dataclass(frozen=True, slots=True)
class Table:
    """A table that was searched there. ``removed``: rows that the purge changed; ``holds``: rows that still say it.

    ``left_out``: pieces that were too many to be looked for one by one; ``unread``: rows that nobody could read.
    """

    name: str
    rows: int
    removed: int
    holds: tuple[int, ...] = ()
    left_out: int = 0
    unread: int = 0


class Others(Protocol):
    """Other holders of this database's messages. Each call raises LcmError where they cannot be asked."""

    def reach(self, asked: Selection, chosen: Sequence[int], progress: Progress) -> Reach:
        """Their rows of a selection, of which these are here."""

    def remove(self, reach: Reach, evidence: Evidence) -> Mapping[str, int]:
        """Empty it there: rows by table. What was only there is noted as evidence."""

    def settle(self) -> None:
        """Send what was made again here."""

    def search(self, reach: Reach, removed: Mapping[str, int], evidence: Evidence, progress: Progress) -> list[Table]:
        """Look there for what was said."""
