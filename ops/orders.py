"""
Orders of an operator that the next compaction carries out, and what a chat wants to hear of it.

The prompt changes only where the host asks for a compaction, so ``/lcm rotate apply`` and ``/lcm dissolve`` cannot act by
themselves: they leave an order here, and ``compact`` reads it. Orders are additive facts in table ``meta``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..storage.connection import Database
from ..storage.meta import Meta

_ROTATE = "rotate:"
_DISSOLVED = "dissolved:"
_NOTICES = "notices:"
_PULLED = "pulled:"


@dataclass(frozen=True, slots=True)
class Rotation:
    """Order of a rotation: all but the fresh tail leaves the prompt at the next turn.

    ``lacking``: messages that the prompt neither shows nor covers; the rotation covers them.
    """

    session_id: str
    lacking: tuple[int, ...] = ()


class Orders:
    """The orders of one database."""

    def __init__(self, db: Database) -> None:
        self._meta = Meta(db)

    def rotation(self, session_id: str) -> Rotation | None:
        """The rotation that waits for this session, or None."""
        found = self._meta.value(_ROTATE + session_id)
        if not isinstance(found, dict):
            return None
        return Rotation(session_id, tuple(each for each in found.get("lacking", ()) if isinstance(each, int)))

    def rotate(self, order: Rotation) -> None:
        """Order a rotation; a second order replaces the first."""
        self._meta.note(_ROTATE + order.session_id, {"lacking": list(order.lacking)})

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
        return frozenset(int(key) for key in self._meta.with_prefix(_DISSOLVED) if key.isdigit())

    def notices(self, principal: str) -> bool | None:
        """Does this chat want a line at each compaction? None: nobody said, so the setting decides."""
        found = self._meta.value(_NOTICES + principal)
        return found if isinstance(found, bool) else None

    def say_notices(self, principal: str, *, wanted: bool) -> None:
        """The choice of a chat; it holds for its later conversations too."""
        self._meta.note(_NOTICES + principal, wanted)

    def pull(self, session_id: str, addresses: Sequence[str]) -> None:
        """Order what goes along with the next message of a session; a second order replaces the first."""
        self._meta.note(_PULLED + session_id, list(addresses))

    def pulled(self, session_id: str) -> list[str]:
        """The order for this message; it holds once."""
        found = self._meta.value(_PULLED + session_id)
        if not found:
            return []
        self._meta.forget(_PULLED + session_id)
        return [str(each) for each in found]
