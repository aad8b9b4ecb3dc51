"""
The fleet's work behind the turns of one process: push when something was stored, pull now and then, try again when it fails.

No turn waits for it. What it cannot do is in the outbox, in health and in the status, until it is done.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from ..errors import FleetError, FleetUnreachable, LcmError, worded
from ..storage.leases import Claims
from ..storage.meta import Health
from . import copies
from .forget import obey
from .member import TOPIC, Member

#: Between two looks at what others wrote; after a failure, at least and at most.
PULL_S: Final = 15.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 60.0
#: The end of a process waits so long for a push that is under way.
_STOP_S: Final = 2.0
#: A search waits so long for each answer of the server, and fetches for so long what matches and is not here.
_SILENCE_S: Final = 2.0
_FETCH_S: Final = 5.0
logger = logging.getLogger("hermes_lcm")


class Background:
    """Worker that pushes and pulls behind the turns, one per process and database.

    ``ready``: may the database be worked with now (it is no stand-in)? ``changed``: called when rows of other hosts came.
    """

    def __init__(
        self,
        member: Member,
        health: Health,
        *,
        days: int,
        ready: Callable[[], bool] = lambda: True,
        changed: Callable[[], object] = lambda: None,
        give_way: Callable[[], object] = lambda: None,
    ) -> None:
        self.member, self._health, self._days = member, health, days
        self._ready, self._changed, self._give_way = ready, changed, give_way
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._mended = False
        self._wait_s = 0.0
        self._error = ""
        self._done_at: float | None = None

    def wake(self) -> None:
        """Tell the worker that something was stored. Returns at once."""
        self._wake.set()
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._run, name="lcm-fleet", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """The process ends: what is left is pushed by the next one."""
        self._stopped.set()
        self._wake.set()
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(_STOP_S)
        self.member.close()

    def state(self) -> dict[str, Any]:
        """State for the status, from what is known here: nobody is asked."""
        return {"behind": self.member.outbox.rows_behind(), "last_push_at": self._done_at, "error": self._error}

    def bring(self, terms: tuple[str, ...], principal: str | None) -> str:
        """Fetch what a search would find on other hosts; a note for its answer, or ""."""
        try:
            came, left = (
                self.member.elsewhere(terms, principal, silence_s=_SILENCE_S, fetch_s=_FETCH_S)
                if self._ready()
                else (0, 0)
            )
        except LcmError as exc:
            return f"other hosts of the fleet were not searched: {worded(exc)}"
        if came:
            self._changed()
        return f"{left} more conversation(s) of other hosts match: search again to have them fetched" if left else ""

    def _run(self) -> None:
        while not self._stopped.is_set():
            if self._wait_s:  # what is stored meanwhile must not shorten it
                self._stopped.wait(self._wait_s)
            else:
                self._wake.wait(PULL_S)
            self._wake.clear()
            try:
                if not self._stopped.is_set() and self._ready():
                    self.work()
            except Exception as exc:  # nobody else would see it, and nobody begins this thread again
                logger.exception("the fleet's work failed")
                self._failed(exc)

    def work(self) -> None:
        """Push, and pull what changed, each also where the other fails. Raises nothing of the server's or the file's."""
        failed: LcmError | None = None
        for step in (partial(self.member.push, self._between), self._obey, self._pull, self._keep, self._compare):
            if failed is not None and step == self._compare:  # once a process, and behind a push that sent all
                break
            try:
                step()
            except LcmError as exc:
                if self._stopped.is_set():
                    return
                failed = failed or exc
                if isinstance(exc, FleetUnreachable):
                    break
        if failed is not None:
            self._failed(failed)
        else:
            self._wait_s, self._error, self._done_at = 0.0, "", time.time()
            self._health.resolved(TOPIC)

    def _obey(self) -> None:
        if obey(self.member, self.member.access()):
            self._changed()

    def _pull(self) -> None:
        if self._days and self.member.pull(self._days).conversations:
            self._changed()

    def _keep(self) -> None:
        if copies.due(self.member.access()):
            copies.keep(self.member, self.member.access())

    def _compare(self) -> None:
        if not self._mended:
            self._mended = True
            self.member.verify(self._between)

    def _failed(self, exc: Exception) -> None:
        self._wait_s = min(_LONGEST_WAIT_S, 2 * self._wait_s or _FIRST_WAIT_S)
        self._error = worded(exc)
        remedy = exc.remedy if isinstance(exc, FleetError) else ""
        self._health.degraded(TOPIC, exc, severity="warning", remedy=remedy)

    def _between(self) -> None:
        self._give_way()
        if self._stopped.is_set():
            raise FleetError("the process ends", "nothing: the next one goes on")


class SharedLeases:
    """Claims on conversations (``prepare:12``) that count in this database and in the whole fleet."""

    def __init__(self, here: Claims, member: Member) -> None:
        self._here, self._member = here, member

    def claim(self, name: str, seconds: float) -> bool:
        """Claim a conversation; False while another process of here, or another host, has it."""
        return self._here.claim(name, seconds) and self._member.lease(_conversation(name), seconds)

    def release(self, name: str) -> None:
        """Give a claim back."""
        self._here.release(name)
        self._member.release(_conversation(name))


def _conversation(name: str) -> int:
    return int(name.partition(":")[2])
