"""
What an operator ordered and the next compaction carries out.

The prompt changes only where the host asks for a compaction, so ``/lcm rotate apply`` and ``/lcm dissolve`` cannot act by
themselves: they leave an order here, and ``compact`` reads it. Orders are additive facts in table ``meta``.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..db.connection import Database
from ..db.meta import Meta

_ROTATE = "rotate:"
_DISSOLVED = "dissolved:"


@dataclass(frozen=True, slots=True)
class Rotation:
    """Everything up to ``last_seq`` of a session's conversation, except the fresh tail, leaves the prompt at the next turn."""

    session_id: str
    last_seq: int
    ordered_at: float


class Orders:
    """The orders of one database."""

    def __init__(self, db: Database) -> None:
        self._meta = Meta(db)

    def rotation(self, session_id: str) -> Rotation | None:
        """The rotation that waits for this session, or None."""
        found = self._meta.value(_ROTATE + session_id)
        if not isinstance(found, dict):
            return None
        return Rotation(session_id, int(found.get("last_seq", 0)), float(found.get("at", 0.0)))

    def rotate(self, order: Rotation) -> None:
        """Order a rotation; a second order replaces the first."""
        self._meta.note(_ROTATE + order.session_id, {"last_seq": order.last_seq, "at": order.ordered_at})

    def rotated(self, session_id: str) -> None:
        """The rotation was carried out."""
        self._meta.forget(_ROTATE + session_id)

    def dissolve(self, node_id: int, *, now: float) -> None:
        """A node is not to be shown or condensed again."""
        self._meta.note(f"{_DISSOLVED}{node_id}", {"at": now})

    def keep(self, node_id: int) -> None:
        """Take a ``dissolve`` back."""
        self._meta.forget(f"{_DISSOLVED}{node_id}")

    def dissolved(self) -> frozenset[int]:
        """The nodes that are not to be used."""
        return frozenset(int(key) for key in self._meta.under(_DISSOLVED) if key.isdigit())
