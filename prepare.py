"""
Summaries ready before they are needed.

Owns one worker thread per database (and the table ``leases``). After a turn it summarises what lies outside the tail
into leaves and asks again about provisional ones; then comes ``upkeep``. Nothing it does shows until a compaction adopts it;
it can be killed at any statement.
"""

from __future__ import annotations

import contextvars
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .compact import ENOUGH, Compactor, Request, View, repairable
from .config import Config
from .dag import SummaryDag
from .db.connection import Database
from .errors import StoreError, SummaryError
from .health import Health
from .patience import Backoff
from .records import Lineage, Node
from .session import Session

_LEASE_S = 180.0
_IDLE_S = 30.0
_JOB_S = 600.0
_MIN_NEW_ROWS = 4
_MIN_FLOOR_TOKENS = 4000


Look = Callable[[Session, Sequence[Mapping[str, Any]], Lineage], object]


@dataclass(frozen=True, slots=True)
class _Job:
    session: Session
    request: Request
    context: contextvars.Context
    look: Look | None = None


class Preparer:
    """Takes turns in, works on them one at a time, newest state of each session only."""

    def __init__(
        self, db: Database, compactor: Compactor, dag: SummaryDag, health: Health, config: Config,
        *, upkeep: Callable[[Callable[[], bool]], None] = lambda _: None,
        measured: Callable[[str, Sequence[Mapping[str, Any]], int | None], None] = lambda *_: None,
        clock: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._db = db
        self._compactor = compactor
        self._dag = dag
        self._health = health
        self._config = config
        self._upkeep = upkeep
        self._measured = measured
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._jobs: dict[str, _Job] = {}
        self._seen: dict[str, int] = {}
        self._thread: threading.Thread | None = None
        self._busy = False
        self._stopped = False
        self._holder = f"{os.getpid()}:{id(self)}"
        self._waits = Backoff[tuple[int, str, int]](monotonic)

    # -- from the turn ----------------------------------------------------------------------------------
    def after_turn(self, session: Session, request: Request, *, look: Look | None = None) -> None:
        """Note that a session has a new state. Returns at once. ``look``: what else the worker should look at first."""
        if not self._config.background_compaction or session.mode != "full":
            return
        key = session.session_id
        waiting = request.lineage.assembly is not None and any(
            repairable(node) for node in self._dag.nodes(request.lineage.assembly.roots)
        )
        if not waiting and request.lineage.last_seq < self._seen.get(key, 0) + _MIN_NEW_ROWS:
            return
        with self._wake:
            if self._stopped:
                return
            self._jobs[key] = _Job(session, request, contextvars.copy_context(), look)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="lcm-prepare", daemon=True)
                self._thread.start()
            self._wake.notify()

    def stop(self) -> None:
        """Take nothing new and give up what is running at its next step."""
        with self._wake:
            self._stopped = True
            self._jobs.clear()
            self._wake.notify()

    def state(self) -> dict[str, object]:
        """For status."""
        return {
            "enabled": bool(self._config.background_compaction),
            "running": self._busy,
            "waiting_sessions": len(self._jobs),
            "leaves_prepared": self._health.counters["leaves_prepared"],
            "nodes_repaired": self._health.counters["nodes_repaired"],
        }

    def idle(self, timeout_s: float) -> bool:
        """Wait until there is nothing to do; for tests and clean exits."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            with self._lock:
                if not self._jobs and not self._busy:
                    return True
            time.sleep(0.01)
        return False

    # -- in the worker ----------------------------------------------------------------------------------
    def _run(self) -> None:
        while True:
            with self._wake:
                if not self._jobs and not self._wake.wait_for(lambda: self._jobs or self._stopped, _IDLE_S):
                    self._thread = None
                    return
                if self._stopped:
                    return
                _, job = self._jobs.popitem()
                self._busy = True
            try:
                job.context.run(self._work, job)
                self._health.resolved("background worker")
            except SummaryError:
                pass  # stopped in the middle
            except StoreError as exc:
                self._health.degraded("background worker", exc, severity="warning")
            except BaseException as exc:
                self._health.degraded("background worker", exc)  # the thread ends here; the next turn starts another
                raise
            finally:
                self._busy = False

    def _work(self, job: _Job) -> None:
        """Leaves for the backlog, then better nodes for provisional ones."""
        session = job.session
        if job.look is not None:
            job.look(session, job.request.messages, job.request.lineage)
        request = replace(
            job.request,
            deadline=self._monotonic() + _JOB_S,
            cancelled=lambda: self._stopped,
            ahead=True,
        )
        self._measured(session.session_id, request.messages, request.current_tokens)
        view = self._compactor.view(session, request)
        # One lease for the conversation, not one a leaf: another process would cut what is left differently.
        lease = f"prepare:{session.conversation_id}"
        if not self._lease(lease):
            return
        try:
            self._prepare(session, view, request, lease)
            self._seen[session.session_id] = (
                request.lineage.last_seq
            )  # what was not done is no reason to wait for new rows
        finally:
            self._release(lease)
        self._upkeep(lambda: self._stopped)

    def _prepare(self, session: Session, view: View, request: Request, lease: str) -> None:
        """The work itself, while this process has the conversation's lease."""
        if not self._leaves(session, view, request, lease):
            return
        roots = self._compactor.roots(session, request)
        ready = self._dag.nodes(
            [c.node_id for c in self._compactor.chunks(session, view.backlog) if c.node_id is not None]
        )
        shown = sorted([*roots, *ready], key=lambda node: (node.first_pos, node.node_id))
        self._compactor.condense(session, shown, view.budget.prefix, request)
        self._repairs(roots, request, lease)

    def _leaves(self, session: Session, view: View, request: Request, lease: str) -> bool:
        """Leaves for the backlog if it is worth it. False: no more in this turn."""
        chunks = self._compactor.chunks(session, view.backlog)
        waiting = sum(chunk.tokens for chunk in chunks if chunk.node_id is None)
        if waiting < self._floor(view) and not (request.critical and waiting):
            return True
        for chunk in chunks:
            if chunk.node_id is not None or request.cancelled():
                continue
            # What a chunk begins with is the same in the next turn; where it ends is not.
            begins = (session.conversation_id, "message", chunk.ids[0])
            if not self._waits.due(begins):
                continue
            if not self._lease(lease):
                return False
            if self._compactor.leaf_ahead(session, chunk, request) is None:
                if not request.cancelled():
                    self._waits.failed(begins)
                return False  # perhaps no model answers now: one refusal a turn is enough
            self._waits.succeeded(begins)
            self._health.counters["leaves_prepared"] += 1
        return True

    def _repairs(self, roots: Sequence[Node], request: Request, lease: str) -> None:
        """Better nodes for provisional ones; the next compaction shows them."""
        poor = [root for root in roots if repairable(root) and self._compactor.better(root) is None]
        # What was refused most often comes last: one that no model can write must not keep the others from being asked about.
        for root in sorted(poor, key=lambda root: self._waits.failures(_place(root))):
            place = _place(root)
            if not self._waits.due(place) or request.cancelled() or not self._lease(lease):
                continue
            if self._compactor.repair(root, request).quality == "provisional":
                if not request.cancelled():
                    # While no model has any answer that passes, each turn asks once: the first after that mends it.
                    self._waits.failed(place, if_others_succeed=True)
                return
            self._waits.succeeded(place)
            self._health.counters["nodes_repaired"] += 1

    def _floor(self, view: View) -> int:
        """From how many unprepared tokens on it is worth to ask a model.

        The larger the chunk the fewer calls; but what is still unprepared when the threshold is reached must fit into the
        prompt raw, or the user waits for it. In a small window that is less than the configured floor.
        """
        budget = view.budget
        fits = int(budget.threshold * ENOUGH) - budget.overhead - view.tail.tokens - budget.prefix
        return min(self._config.leaf_chunk_tokens, max(_MIN_FLOOR_TOKENS, fits))

    def _lease(self, name: str) -> bool:
        """Take a piece of work, unless another process has it."""
        now = self._clock()
        with self._db.transaction():
            self._db.execute("DELETE FROM leases WHERE expires_at < ?", (now,))
            taken = self._db.fetch("SELECT holder FROM leases WHERE name = ?", (name,))
            if taken and taken[0][0] != self._holder:
                return False
            self._db.execute(
                "INSERT INTO leases(name, holder, expires_at) VALUES (?,?,?) "
                "ON CONFLICT(name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at",
                (name, self._holder, now + _LEASE_S),
            )
        return True

    def _release(self, name: str) -> None:
        with self._db.transaction():
            self._db.execute("DELETE FROM leases WHERE name = ? AND holder = ?", (name, self._holder))


def _place(root: Node) -> tuple[int, str, int]:
    return root.conversation_id, "node", root.node_id
