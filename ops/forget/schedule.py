"""
Retention by itself: at a stated interval, between turns, in one process at a time; a dry run unless the operator said otherwise.

Each round is noted, so that the status says what it freed, or would have, and when the next one is. The first look only notes
when the first round will be: whoever sets a policy has that long to see what it would do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...errors import LcmError
from ..retention import HOUR_S, last_round, note_round
from . import retention

if TYPE_CHECKING:
    from ...recall.access import Access
    from ...storage.leases import Claims

_LEASE: Final = "retention"
_LEASE_S: Final = 3_600.0
TOPIC: Final = "retention"


class Schedule:
    """One per process and database. ``access``: to the whole of it; ``give_way``: called between the steps of a round."""

    def __init__(self, access: Callable[[], Access], leases: Claims, give_way: Callable[[], object]) -> None:
        self._access, self._leases, self._give_way = access, leases, give_way

    def between_turns(self) -> None:
        """A round, if one is due. A failure is shown in status, and the next interval tries again."""
        deps = self._access()
        every = deps.config.retention_every_hours * HOUR_S
        if not every or not deps.config.retention:
            return
        last = last_round(deps.db)
        if last is None:
            note_round(deps.db, at=deps.clock(), applied=False, sessions=0, messages=0, frees=0)
        elif deps.clock() >= last.at + every and self._leases.claim(_LEASE, _LEASE_S):
            try:
                self._round(deps)
            finally:
                self._leases.release(_LEASE)

    def _step(self, *_: object) -> None:
        self._give_way()

    def _round(self, deps: Access) -> None:
        apply = deps.config.retention_apply
        try:
            done = retention.apply(deps, self._step, renew=False) if apply else retention.plan(deps, self._step)
        except LcmError as exc:
            note_round(deps.db, at=deps.clock(), applied=apply, sessions=0, messages=0, frees=0, failed=True)
            deps.health.degraded(TOPIC, exc, severity="warning", remedy="run `hermes lcm retention`")
            return
        deps.health.resolved(TOPIC)
        messages = sum(len(each.rows) for each in done.shares)
        note_round(
            deps.db,
            at=deps.clock(),
            applied=apply,
            sessions=len(done.shares),
            messages=messages,
            frees=done.frees,
            held=len(done.held),
        )
