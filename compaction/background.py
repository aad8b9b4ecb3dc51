"""
Summaries ready before they are needed.

Owns the worker threads of a database. After a turn they summarise what lies outside the tail into leaves and ask again about
provisional ones; then comes ``upkeep``. The oldest job comes first; a chat gets a share of leaves at a time while others wait,
and one worker. Nothing they do shows until a compaction adopts it; they can be killed at any statement.
"""

from __future__ import annotations

import contextvars
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from ..config import Config
from ..dag import SummaryDag
from ..errors import StoreError, SummaryError
from ..ingest.transcript import Transcript
from ..llm.ladder import SESSION
from ..prompt.context_message import prefix_tokens
from ..records import Node, in_order
from ..session import Session
from ..storage.leases import Claims
from ..storage.meta import WORKER, Health
from . import plan
from .backoff import Backoff
from .compactor import Compactor, Request, View, repairable, rest_of

_LEASE_S = 180.0
_IDLE_S = 30.0
_JOB_S = 600.0
_MIN_NEW_ROWS = 4
_SHARE = 3  # leaves of one chat, then it is the turn of those that wait
#: Summaries are written so many requests before the next fold, for so much of the way at least; then for what came since, so that
#: little is left raw. Earlier they would be for nothing where a conversation ends before.
_AHEAD_REQUESTS = 32  # some minutes
_AHEAD_SHARES = 0.6, 0.8  # of the way, at the earliest and at the latest: one result may be as large as what is left
_AHEAD_PART = 0.6
_CLOSE_SHARE, _CLOSE_PART = 0.95, 0.03
_MOST_FOLDS, _MOST_KEPT = 1000, 50
#: Name of the state that keeps plans between processes.
FOLDS = "folds"
_UNPLANNED = plan.Fold(0, 0.0, "the threshold; after the next turn an earlier one may be planned")
_MOST_JOBS = 32  # chats that wait: each keeps its whole list in memory


Look = Callable[[Session, Sequence[Mapping[str, Any]], Transcript], object]


@dataclass(frozen=True, slots=True)
class _Job:
    session: Session
    request: Request
    context: contextvars.Context
    look: Look | None = None
    given_up: threading.Event = field(default_factory=threading.Event)  # a pass has begun since: its list is an old one


class _Planned(NamedTuple):
    """A fold with the threshold that it was planned for, and the time of the plan."""

    fold: plan.Fold
    threshold: int
    at: float


class Preparer:
    """Takes turns in, works on them one at a time, newest state of each session only."""

    def __init__(
        self, leases: Claims, compactor: Compactor, dag: SummaryDag, health: Health, config: Config,
        *, upkeep: Callable[[Callable[[], bool]], None] = lambda _: None,
        measured: Callable[[str, Sequence[Mapping[str, Any]], int | None], None] = lambda *_: None,
        give_way: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._leases = leases
        self._compactor = compactor
        self._dag = dag
        self._health = health
        self._config = config
        self._upkeep = upkeep
        self._measured = measured
        self._give_way = give_way
        self._lock = threading.Lock()
        # Entered by its lock: Ctrl-C within the methods of a Condition can leave that locked for ever.
        self._wake = threading.Condition(self._lock)
        self._jobs: dict[str, _Job] = {}  # oldest first: a newer state of a session takes the place of the older one
        self._seen: dict[str, int] = {}
        self._working: dict[int, _Job] = {}  # by conversation
        self._threads = self._waiting = 0
        self._tidying = threading.Lock()
        self._stopped = False
        self._waits = Backoff[tuple[int, str, int]](time.monotonic)
        self._folds: dict[str, _Planned] = {}
        self._kept: Mapping[str, Any] = {}

    # -- from the turn ----------------------------------------------------------------------------------
    def after_turn(self, session: Session, request: Request, *, look: Look | None = None) -> None:
        """Note that a session has a new state. Returns at once. ``look``: what else the worker should look at first."""
        if session.mode != "full":
            return
        key = session.session_id
        assembly = request.transcript.assembly
        roots = self._dag.nodes(assembly.roots) if assembly is not None else []
        rest = rest_of(roots, session.conversation_id)
        waiting = any(repairable(node) for node in roots if node is not rest)
        if not waiting and request.transcript.last_seq < self._seen.get(key, 0) + _MIN_NEW_ROWS:
            return
        with self._lock:
            if self._stopped or (key not in self._jobs and len(self._jobs) >= _MOST_JOBS):
                return  # one too many waits for its next turn
            self._jobs[key] = _Job(session, request, contextvars.copy_context(), look)
            if not self._waiting and self._threads < self._config.summary_parallelism:
                self._threads += 1
                threading.Thread(target=self._run, name="lcm-prepare", daemon=True).start()
            self._wake.notify()

    def fold(self, session_id: str, threshold: int, config: Config) -> plan.Fold:
        """The next fold of a session as it was planned after its last turn, in the measure of this threshold.

        In a smaller window what a fold leaves is no smaller, so it is due no earlier than it was in the larger one.
        """
        known = filter(None, (self._folds.get(session_id), self._kept_fold(session_id)))
        fold, at, _ = max(known, key=lambda each: each.at, default=(_UNPLANNED, 0, 0.0))
        if why := config.why_exact():  # now: the plan may be of another model
            return plan.Fold(threshold, fold.saves, why)
        due = max(fold.due, threshold * fold.due // at) if at else threshold
        if due >= threshold and fold.due < at:  # what it was planned for is not so any more
            return replace(_UNPLANNED, due=threshold)
        return replace(fold, due=min(threshold, due))

    def _kept_fold(self, session_id: str) -> _Planned | None:
        """The plan that another process kept. Not one of a clock that was ahead: it would outlast all that come after it."""
        match self._kept.get(session_id):
            case [int(due), int() | float() as saves, str(why), int(threshold), float(at)] if 0 < due <= threshold:
                return _Planned(plan.Fold(due, saves, why), threshold, at) if at <= time.time() else None
        return None

    def read_kept(self) -> None:
        """Take over the plans that other processes kept."""
        self._kept = self._health.kept_state(FOLDS)

    def folds(self) -> dict[str, object]:
        """The newest plans, those that other processes kept included, for a process after this one."""
        self.read_kept()
        known = list(self._folds.items()) + [(key, each) for key in self._kept if (each := self._kept_fold(key))]
        newest = dict(sorted(known, key=lambda item: item[1].at)[-_MOST_KEPT:])
        return {key: [fold.due, fold.saves, fold.why, threshold, at] for key, (fold, threshold, at) in newest.items()}

    def give_up(self, conversation_id: int) -> None:
        """A pass begins: nothing more is written for the list before it. What a model is writing already is kept."""
        with self._lock:
            for key in [k for k, job in self._jobs.items() if job.session.conversation_id == conversation_id]:
                del self._jobs[key]
            if conversation_id in self._working:
                self._working[conversation_id].given_up.set()

    def settled(self, conversation_id: int, deadline: float) -> bool:
        """Wait for what is being written for a conversation, half of the time at most. False: nothing was, or it took longer."""
        timeout_s = max(0.0, deadline - time.monotonic()) / 2
        with self._lock:
            if conversation_id not in self._working:
                return False
            return self._wake.wait_for(lambda: conversation_id not in self._working, timeout_s)

    def stop(self) -> None:
        """Take nothing new and give up what is running at its next step."""
        with self._lock:
            self._stopped = True
            self._jobs.clear()
            self._wake.notify_all()

    def state(self) -> dict[str, object]:
        """State of the worker for status."""
        return {
            "enabled": bool(self._config.background_compaction),
            "running": bool(self._working),
            "waiting_sessions": len(self._jobs),
            "leaves_prepared": self._health.counters["leaves_prepared"],
            "nodes_repaired": self._health.counters["nodes_repaired"],
        }

    def idle(self, timeout_s: float) -> bool:
        """Wait until there is nothing to do; for tests and clean exits."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            with self._lock:
                if not self._jobs and not self._working:
                    return True
            time.sleep(0.01)
        return False

    # -- in the worker ----------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            while (job := self._next()) is not None:
                self._one(job)
        finally:
            with self._lock:
                self._threads -= 1

    def _next(self) -> _Job | None:
        """The oldest job of a conversation at which nobody works; None when none came for a while, or all ends."""
        with self._lock:
            self._waiting += 1
            self._wake.wait_for(lambda: self._due() is not None or self._stopped, _IDLE_S)
            self._waiting -= 1
            key = self._due()
            if self._stopped or key is None:
                return None
            job = self._jobs.pop(key)
            self._working[job.session.conversation_id] = job
            return job

    def _due(self) -> str | None:
        return next((k for k, job in self._jobs.items() if job.session.conversation_id not in self._working), None)

    def _others_wait(self) -> bool:
        with self._lock:
            return self._due() is not None

    def _one(self, job: _Job) -> None:
        unfinished = False
        try:
            unfinished = job.context.run(self._work, job)
            self._health.resolved(WORKER)
        except SummaryError:
            pass  # stopped in the middle, or its sources are gone
        except StoreError as exc:
            self._health.degraded(WORKER, exc, severity="warning")
        except BaseException as exc:
            self._health.degraded(WORKER, exc)  # the thread ends here; the next turn starts another
            raise
        finally:
            with self._lock:
                self._working.pop(job.session.conversation_id, None)
                if unfinished and not self._stopped and not job.given_up.is_set():
                    self._jobs.setdefault(job.session.session_id, job)
                self._wake.notify_all()

    def _work(self, job: _Job) -> bool:
        """Leaves for the backlog, then better nodes for provisional ones. True: its share is used up, and more is to be done."""
        session = job.session
        SESSION.set(session.session_id)
        request = replace(
            job.request, deadline=time.monotonic() + _JOB_S, cancelled=lambda: self._between_steps(job), ahead=True
        )
        compactor = self._compactor.with_settings(request)
        # Before it gives way: a chat that does not pause leaves no time for it later.
        view = compactor.view(session, request)
        fold = self._planned(session, view, request)
        if request.cancelled():
            return False
        if not self._config.background_compaction:
            self._seen[session.session_id] = request.transcript.last_seq
            return False
        if job.look is not None:
            job.look(session, request.messages, request.transcript)
            if request.cancelled():
                return False
        self._measured(session.session_id, request.shown(request.messages), request.current_tokens)
        if fold.due < request.threshold:
            request = replace(request, due=fold.due)
            view = compactor.view(session, request)
        asked = view.units[view.tail.request].index if view.tail.request is not None else None
        view = replace(view, backlog=plan.settled(view.backlog, asked, self._floor(view, request)))
        # One lease for the conversation, not one a leaf: another process would cut what is left differently.
        lease = f"prepare:{session.conversation_id}"
        if not self._leases.claim(lease, _LEASE_S):
            return False
        try:
            if not self._prepare(session, view, request, lease):
                return True
            # What was not done is no reason to wait for new rows.
            self._seen[session.session_id] = request.transcript.last_seq
        finally:
            self._leases.release(lease)
        if self._tidying.acquire(blocking=False):
            try:
                self._upkeep(self._between_steps)
            finally:
                self._tidying.release()
        return False

    def _between_steps(self, job: _Job | None = None) -> bool:
        """Let host calls go first. True: no step is to follow.

        The process ends, the host has loaded the plugin anew, or a pass has begun that the job was for.
        """
        self._stopped = self._stopped or getattr(sys.modules.get(__name__), "Preparer", None) is not Preparer
        if not self._ends(job):
            self._give_way()
        return self._ends(job)

    def _ends(self, job: _Job | None) -> bool:
        return self._stopped or (job is not None and job.given_up.is_set())

    def _prepare(self, session: Session, view: View, request: Request, lease: str) -> bool:
        """The work itself, while this process has the conversation's lease. False: its share is used up before its end."""
        compactor = self._compactor.with_settings(request)
        state = self._leaves(session, view, request, lease)
        if state != "done":
            return state == "refused"
        roots = compactor.roots(session, request, view)
        ready = self._dag.nodes([c.node_id for c in compactor.chunks(session, view.backlog) if c.node_id is not None])
        shown = in_order([*roots, *ready])
        compactor.condense(session, shown, view.budget.prefix, request)
        self._repairs(roots, request, lease)
        return True

    def _leaves(
        self, session: Session, view: View, request: Request, lease: str
    ) -> Literal["done", "refused", "share"]:
        """Leaves for the backlog if it is worth it, as many as there are while no other chat waits."""
        compactor = self._compactor.with_settings(request)
        made = 0
        chunks = compactor.chunks(session, view.backlog)
        waiting = sum(chunk.tokens for chunk in chunks if chunk.node_id is None)
        if waiting < self._floor(view, request) and not (request.critical and waiting):
            return "done"
        for chunk in chunks:
            if chunk.node_id is not None or request.cancelled():
                continue
            # What a chunk begins with is the same in the next turn; where it ends is not.
            begins = (session.conversation_id, "message", chunk.ids[0])
            if not self._waits.due(begins):
                continue
            if made >= _SHARE and self._others_wait():
                return "share"
            if not self._leases.claim(lease, _LEASE_S):
                return "refused"
            if compactor.leaf_ahead(session, chunk, request) is None:
                if not request.cancelled():
                    self._waits.failed(begins)
                return "refused"  # perhaps no model answers now: one refusal a turn is enough
            made += 1
            self._waits.succeeded(begins)
            self._health.counters["leaves_prepared"] += 1
        return "done"

    def _repairs(self, roots: Sequence[Node], request: Request, lease: str) -> None:
        """Better nodes for provisional ones; the next compaction shows them."""
        compactor = self._compactor.with_settings(request)
        poor = [root for root in roots if repairable(root) and compactor.better(root) is None]
        # What was refused most often comes last: one that no model can write must not keep the others from being asked about.
        for root in sorted(poor, key=lambda root: self._waits.failures(_place(root))):
            place = _place(root)
            if not self._waits.due(place) or request.cancelled() or not self._leases.claim(lease, _LEASE_S):
                continue
            if compactor.repair(root, request).quality == "provisional":
                if not request.cancelled():
                    # While no model has any answer that passes, each turn asks once: the first after that mends it.
                    self._waits.failed(place, if_others_succeed=True)
                return
            self._waits.succeeded(place)
            self._health.counters["nodes_repaired"] += 1

    def _planned(self, session: Session, view: View, request: Request) -> plan.Fold:
        """The next fold: when it is due, and what for."""
        compactor = self._compactor.with_settings(request)
        roots = compactor.roots(session, request, view)
        used = max(view.before_tokens, request.current_tokens or 0)
        backlog = sum(unit.tokens for unit in view.backlog)
        ready = sum(c.tokens for c in compactor.chunks(session, view.backlog) if c.node_id is not None)
        asked = sum(unit.role == "assistant" for unit in view.units)
        config = request.config or self._config
        tail = min(view.tail.tokens, int(config.tail_share * used))
        prompt = plan.Prompt(
            used,
            request.threshold,
            request.window or request.threshold,
            max(0, used - view.before_tokens) + prefix_tokens(roots) + compactor.leaf_tokens(backlog) + tail,
            _growth(view),
            config.why_exact(),
        )
        requests = asked + sum(root.message_count for root in roots) // 2
        fold = plan.next_fold(request.prices(), prompt, ready, max(plan.LEAST_REQUESTS, requests))
        self._folds.pop(session.session_id, None)
        self._folds[session.session_id] = _Planned(fold, request.threshold, time.time())
        while len(self._folds) > _MOST_FOLDS:
            self._folds.pop(next(iter(self._folds)))
        return fold

    def _floor(self, view: View, request: Request) -> int:
        """From how many unprepared tokens on it is worth to ask a model: larger chunks are fewer calls."""
        way = max(view.before_tokens, request.current_tokens or 0) / max(1, request.begins)
        earliest, latest = _AHEAD_SHARES
        if way < max(earliest, min(latest, 1.0 - _AHEAD_REQUESTS * _growth(view) / max(1, request.begins))):
            return sys.maxsize
        part = _CLOSE_PART if way >= _CLOSE_SHARE else _AHEAD_PART
        return min(self._config.leaf_chunk_tokens, max(plan.LEAST_TOKENS, int(part * request.begins)))


def _growth(view: View) -> float:
    """Tokens that one request adds to the prompt."""
    asked = sum(unit.role == "assistant" for unit in view.units)
    return (sum(unit.tokens for unit in view.backlog if unit.index >= 0) + view.tail.tokens) / max(1, asked)


def _place(root: Node) -> tuple[int, str, int]:
    return root.conversation_id, "node", root.node_id
