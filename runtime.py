"""
The parts of one database in one process, built once and shared by every engine copy and hook.

Engines come and go (the host deep-copies one per agent); what they work with lives here. Owns which runtime serves which home.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import config as settings
from . import host
from .answer import Desk
from .archive import ArchivedRanges
from .archives import Archives
from .calibration import Calibration
from .collect import Collector
from .compact import Compactor
from .config import Config
from .dag import SummaryDag
from .db.connection import Database, Databases
from .door import build as build_door
from .errors import StoreCorrupt, StoreError
from .health import Health
from .ingest import Ingest
from .llm.breaker import Breaker, SpendGuard
from .llm.client import HostModel
from .llm.ladder import Ladder, LadderSettings
from .metrics import Metrics
from .ops import gauges
from .ops.orders import Orders
from .ops.survey import Survey
from .payloads import unfolded
from .prepare import Preparer
from .records import Lineage, Summary, SummaryTask
from .scope import Reach
from .search import MESSAGES, NODES, MessageIndex, NodeIndex
from .search import complete as indexes_complete
from .search import prepare as prepare_indexes
from .session import Session, Sessions, principal_of
from .state import PresentState
from .store import SEARCH_WAITS_S, MessageStore
from .stubbing import Superseded
from .swap import Swap
from .text import tokens
from .text.exact import Exact
from .upkeep import Upkeep
from .views import Views
from .windows import UNSEEN, Recognised

#: The source of messages whose platform the host does not tell.
UNKNOWN_SOURCE = "unknown"
_SPEND = "spend"
_BREAKER = "breaker"
_CALIBRATION = "calibration"
_WINDOWS = "windows"
_MOST_WINDOWS = 20
_METRICS = "metrics file"
_TABLES, _UNREAD = "tables", "unreadable messages"


@dataclass(slots=True)
class Pending:
    """What the host said about a session before its first message was stored."""

    platform: str = ""
    host_key: str | None = None
    model: str = ""
    parent: str | None = None
    origin: str = "start"
    carry_from: str | None = None


class Runtime:
    """Store, dag, ingest, compactor and worker of one database."""

    def __init__(self, path: Path, config: Config, databases: Databases) -> None:
        self.config = config
        self.path = path
        self.db: Database = databases.at(path, self._opened)
        self.health = Health(self.db)
        self.index = MessageIndex(self.db, behind=self._index_waiting)
        self.node_index = NodeIndex(self.db)
        self.sessions = Sessions(self.db)
        self.store = MessageStore(self.db, self.index)
        self.dag = SummaryDag(self.db, self.node_index)
        self.payloads, self.whole_store, self.view_store = unfolded(
            self.db, self.index, path, self.health, self.store.blocks
        )
        self.metrics = self._measuring(config)
        self.door = build_door(config, self.payloads, self.health)
        self.ingest = Ingest(self.whole_store, self.sessions, self.dag, door=self.door)
        self.breaker, self.spend = _guards(config)
        self.calibration = Calibration(count=Exact(tokens.count, host.tiktoken_cache), rough=host.rough)
        #: The context window that the host reported last, by model: what a terminal knows when no agent runs in it.
        self.windows: dict[str, int] = {}
        self.desk = Desk()
        self.reach = Reach(self.db)
        self.orders = Orders(self.db)
        self.model = HostModel(reasoning_effort=config.summary_reasoning_effort)
        self.ladder = Ladder(
            self.model, _ladder_settings(config), self.breaker, self.spend, time.monotonic, count=tokens.count
        )
        self._compaction(config)
        self._pending: dict[str, Pending] = {}
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        for problem in config.problems:
            self.health.degraded(f"setting {problem.name}", str(problem), severity="warning")

    def _measuring(self, config: Config) -> Metrics:
        """Counters and timings for the file that the operator named, if any."""
        plugin = Path(__file__).resolve().parent
        return Metrics(
            self.path.parent / Path(config.metrics_path).expanduser() if config.metrics_path else None,
            database=str(self.path),
            interval_s=config.metrics_interval_seconds,
            counted=gauges.counted(self.health),
            gauges=gauges.gauges(self.db, self.health, self.payloads.folder, plugin),
            told=self._metrics_written,
        )

    def _metrics_written(self, error: OSError | None) -> None:
        if error is None:
            self.health.resolved(_METRICS)
        else:
            remedy = "LCM_METRICS_PATH must name a file in a folder that Hermes may write"
            self.health.degraded(_METRICS, error, severity="warning", remedy=remedy)

    def summarise(self, task: SummaryTask, **limits: Any) -> Summary:
        """The ladder, counted and timed."""
        with self.metrics.timing("summary_seconds"):
            made = self.ladder.summarise(task, **limits)
        self.metrics.count("summaries_total", quality=made.quality)
        return made

    def _compaction(self, config: Config) -> None:
        """What makes prompts: the archives' view of requests, the compactor, the swap, the worker."""
        self.archives = Archives(self.db)
        self.archived = ArchivedRanges(self.archives, self.whole_store, self.dag, self.reach)
        self.superseded = Superseded(
            self.whole_store, least_chars=config.stub_min_chars, repay=config.stub_repay_share, rough=host.rough
        )
        self.views = Views(self.ingest, [self.archived, self.superseded], rough=host.rough)
        self.compactor = Compactor(
            self.store,
            self.dag,
            self.ingest.expected,
            self.summarise,
            config,
            rough=host.rough,
            dissolved=self.orders.dissolved,
            archives=self.archived,
        )
        state = PresentState(self.store)
        self.swap = Swap(
            self.compactor,
            self.whole_store,
            self.dag,
            self.sessions,
            state,
            rough=host.rough,
            clean=self.door.clean,
            stub_chars=config.stub_min_chars,
        )
        self.collector = Collector(self.db, self.store, self.index, self.dag, self.payloads)
        self.upkeep = Upkeep(
            self.db,
            self.store,
            self.collector if config.large_output_transcript_gc_enabled else None,
            index_waiting=self._index_waiting,
        )
        self.preparer = Preparer(
            self.db,
            self.compactor,
            self.dag,
            self.health,
            config,
            upkeep=self.upkeep.between_turns,
            measured=self.calibration.measure,
        )

    def _opened(self, db: Database) -> None:
        """Everything that a new connection needs: search indexes (caches) and what earlier processes left behind."""
        self._make_indexes(db, self._missed_tables(db))
        self._sessions.clear()
        self.ingest.forget_all()
        self.breaker.load(self.health.kept(_BREAKER))
        self.spend.load(self.health.kept(_SPEND))
        self.calibration.load(self.health.kept(_CALIBRATION))
        self.windows = {**_windows(self.health.kept(_WINDOWS)), **self.windows}

    def _missed_tables(self, db: Database) -> list[str]:
        """Tables that the file has lost. What they do not concern goes on."""
        try:
            lost = Survey(db).lost_tables()
        except StoreCorrupt:  # a page of the notes is damaged: whoever needs them meets it
            return []
        if lost:
            self.health.degraded(_TABLES, f"lost: {', '.join(lost)}", remedy="run `/lcm doctor repair`")
        else:
            self.health.resolved(_TABLES)
        return lost

    def _make_indexes(self, db: Database, lost: list[str]) -> None:
        """The search indexes where they are missing, filled: as one fact, or a process that ends in between leaves them empty.

        They are caches: rows that cannot be read, or tables that are ``lost``, are no reason to refuse the others.
        """
        if indexes_complete(db):
            return
        try:
            with db.transaction():
                made = prepare_indexes(db)
                if made and self.store.count():
                    self.rebuild_indexes(made)
        except (StoreError, zlib.error, ValueError, TypeError, AttributeError) as exc:
            # What its subclasses tell of (a lock, a full disk) is over sooner or later, and the next opening builds them.
            missing = lost and type(exc) is StoreError
            if isinstance(exc, StoreError) and not missing and not isinstance(exc, StoreCorrupt):
                raise
            prepare_indexes(db)
            if not self._is_empty():  # otherwise they hold all there is
                self.health.degraded("search index", exc, remedy="run `/lcm doctor repair`")

    def _is_empty(self) -> bool:
        try:
            return not self.store.count()
        except StoreError:
            return False

    def rebuild_indexes(self, which: Collection[str] = (MESSAGES, NODES)) -> None:
        """Make search indexes again from what is stored."""
        if MESSAGES in which:
            self._note_unread(self.index.rebuild(self.view_store.index_rows()))
        if NODES in which:
            self.node_index.rebuild((node.node_id, node.text) for nodes in self.dag.every() for node in nodes)
        self.health.resolved("search index")

    def _note_unread(self, count: int) -> None:
        """So many messages could not be read when they were to be indexed."""
        if count:
            told = f"stored messages that cannot be read, so that no search finds them: {count}"
            self.health.degraded(_UNREAD, told, remedy="run `/lcm doctor deep`, which names them")
        else:
            self.health.resolved(_UNREAD)

    def _index_waiting(self, *, seconds: float = SEARCH_WAITS_S) -> int:
        """Index what waits for it, for so many seconds; how many messages wait still."""
        left = self.view_store.index_waiting(seconds=seconds)
        if not left:
            self.health.resolved(_UNREAD)
        return left

    # -- sessions ---------------------------------------------------------------------------------------
    def announce(self, session_id: str, **facts: Any) -> Pending:
        """Remember what the host says about a session, until there is something to store in it."""
        with self._lock:
            pending = self._pending.setdefault(session_id, Pending())
            for name, value in facts.items():
                if value is not None:
                    setattr(pending, name, value)
            return pending

    def session(self, session_id: str) -> Session:
        """The session, made at its first use from what the host announced."""
        known = self._sessions.get(session_id)
        if known is not None:
            return known
        found = self.sessions.find(session_id) or self._open(session_id)
        self._sessions[session_id] = found
        return found

    def known(self, session_id: str) -> Session | None:
        """The session if anything of it is stored."""
        return self._sessions.get(session_id) or self.sessions.find(session_id)

    def refresh(self, session_id: str) -> None:
        """The next use reads the session again."""
        self._sessions.pop(session_id, None)

    def _open(self, session_id: str) -> Session:
        facts = self._pending.get(session_id) or Pending()
        parent = self.sessions.find(facts.parent) if facts.parent else None
        opened = self.sessions.open(
            session_id,
            now=time.time(),
            platform=facts.platform,
            host_key=facts.host_key,
            parent=parent,
            origin=facts.origin if parent else "start",
            fork_seq=self.store.last_seq(parent.conversation_id) if parent and facts.origin == "branch" else None,
            mode=self._mode(session_id, facts.platform),
            model=facts.model,
        )
        if facts.carry_from:
            self._carry(facts.carry_from, opened)
        return opened

    def _mode(self, session_id: str, platform: str) -> str:
        if settings.matches_session(self.config.ignore_session_patterns, session_id, platform):
            return "ignored"
        if settings.matches_session(self.config.stateless_session_patterns, session_id, platform):
            return "stateless"
        return "full"

    def mode(self, session_id: str) -> str:
        """full, stateless or ignored: by the patterns of now, whatever they were when the session began."""
        facts = self._pending.get(session_id)
        platform = facts.platform if facts else ""
        if not platform:
            known = self._sessions.get(session_id)
            platform = known.platform if known else ""
        return self._mode(session_id, platform)

    def principal(self, session_id: str) -> str:
        """Whom a session belongs to (or will, once something is stored in it)."""
        facts = self._pending.get(session_id) or Pending()
        return principal_of(facts.platform, facts.host_key, session_id)

    def _carry(self, old_id: str, new: Session) -> None:
        """After /new: let the new conversation show the deep nodes of the old one (references only)."""
        depth = self.config.new_session_retain_depth
        old = self.sessions.find(old_id)
        if depth == 0 or old is None or old.principal != new.principal or old.conversation_id == new.conversation_id:
            return
        latest = self.dag.latest_assembly(old.conversation_id)
        roots = self.dag.nodes(latest.roots) if latest else []
        self.sessions.carry(new.conversation_id, [node.node_id for node in roots if depth < 0 or node.depth >= depth])

    # -- the verbs that hooks and engines share -------------------------------------------------------------
    def take(
        self,
        session_id: str,
        messages: Any,
        *,
        source: str = "",
        thorough: bool = True,
        seen: Recognised = UNSEEN,
    ) -> Lineage:
        """Ingest a live list; a success resolves what had been wrong. ``source``: the platform, if not the session's."""
        session = self.session(session_id)
        source = source or session.platform or UNKNOWN_SOURCE
        began = time.perf_counter()
        lineage = self.ingest.take(session, messages, source=source, thorough=thorough, seen=seen)
        self.metrics.observe("ingest_seconds", time.perf_counter() - began)
        self.health.counters["ingests"] += 1
        self.health.counters["messages_stored"] += lineage.stored
        self.health.resolved("ingest")
        if lineage.stored:
            self.health.written()
            self.health.keep(_WINDOWS, self.windows)
        if self.ingest.unaligned:
            self.health.degraded(
                "unaligned list",
                f"{self.ingest.unaligned} list(s) had nothing in common with what was stored; everything was kept",
                severity="warning",
            )
            self.ingest.unaligned = 0
        elif lineage.stored:  # the rows keep their mark, which the doctor counts; the trouble itself is over
            self.health.resolved("unaligned list")
        self._note_unknown_record(f"unknown record in {session_id}", lineage)
        return lineage

    def _note_unknown_record(self, topic: str, lineage: Lineage) -> None:
        """A list began with a record of ours that no prompt explains; over as soon as a prompt of ours governs the session."""
        if self.ingest.unknown_records:
            self.health.degraded(
                topic,
                "its list begins with a record whose prompt this database does not know: an older backup was restored, or "
                "somebody pasted it; it is kept as text and will be summarised like any message",
                severity="warning",
                remedy="nothing to do; the next compaction covers it",
            )
            self.ingest.unknown_records = 0
        elif lineage.assembly is not None:
            self.health.resolved(topic)

    def saw_window(self, model: str, context_length: int) -> None:
        """An engine works with this model; its window is kept with the next message that is stored."""
        if model and context_length > 0:
            self.windows.pop(model, None)
            self.windows = dict([*self.windows.items(), (model, context_length)][-_MOST_WINDOWS:])

    def ended(self) -> None:
        """A session, or the process, ends: keep the states, and make the file small."""
        self.save_states()
        try:
            self.upkeep.at_end()
        except StoreError as exc:
            self.health.degraded("upkeep", exc, severity="warning")
        else:
            self.health.resolved("upkeep")

    def save_states(self) -> None:
        """Keep breaker and spend for the next process."""
        self.health.keep(_BREAKER, self.breaker.dump())
        self.health.keep(_SPEND, self.spend.dump())
        self.health.keep(_CALIBRATION, self.calibration.dump())
        self.health.save()
        try:
            self.db.optimise()
        except StoreError as exc:
            self.health.degraded("write-ahead log", exc, severity="warning")
        else:
            self.health.resolved("write-ahead log")


def _windows(kept: Mapping[str, Any]) -> dict[str, int]:
    return {str(model): size for model, size in kept.items() if isinstance(size, int) and size > 0}


def _guards(config: Config) -> tuple[Breaker, SpendGuard]:
    breaker = Breaker(
        threshold=config.summary_circuit_breaker_failure_threshold,
        cooldown_s=config.summary_circuit_breaker_cooldown_seconds,
        clock=time.time,
    )
    spend = SpendGuard(
        max_calls=config.summary_spend_max_calls,
        max_tokens=0,
        window_s=config.summary_spend_window_seconds,
        clock=time.time,
    )
    return breaker, spend


def _ladder_settings(config: Config) -> LadderSettings:
    return LadderSettings(
        summary_model=config.summary_model,
        fallback_models=tuple(config.summary_fallback_models),
        timeout_s=config.summary_timeout_ms / 1000,
        custom_instructions=config.custom_instructions,
        reasoning_effort=config.summary_reasoning_effort,
    )


class Runtimes:
    """Runtimes by home. The registry is the only state that a module of this plugin holds."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._databases = Databases()
        self._by_home: dict[str, Runtime] = {}
        self._real_paths: dict[str, tuple[os.stat_result, str]] = {}  # by the name, with the folder that it was of

    def at(self, home: Path | str | None = None) -> Runtime:
        """The runtime of a home (the current one if none is named), built at its first use without opening a file."""
        key = self._real(os.fspath(home or host.hermes_home()))
        with self._lock:
            if key not in self._by_home:
                config = settings.load(None, _block())
                path = Path(config.database_path).expanduser() if config.database_path else Path(key) / "lcm.db"
                self._by_home[key] = Runtime(path, config, self._databases)
                if len(self._by_home) == 1:
                    atexit.register(self.stop)
            return self._by_home[key]

    def _real(self, home: str) -> str:
        """A home's real path; looked up again only when its name or that path leads to another folder, for every hook asks."""
        was, path = self._real_paths.get(home, (None, home))
        try:
            there = os.stat(home)
            if was and os.path.samestat(was, there) and (path == home or os.path.samestat(os.stat(path), there)):
                return path
        except OSError:  # nothing is there, or it has moved
            return os.path.realpath(home)
        path = os.path.realpath(home)
        self._real_paths[home] = there, path
        return path

    def stop(self) -> None:
        """The process ends: workers take nothing new, states are kept."""
        for runtime in self.all():
            runtime.preparer.stop()
            if runtime.db.is_open:
                runtime.ended()
                runtime.db.close()  # the last one that has the file open takes the log away
            runtime.metrics.stop()

    def all(self) -> list[Runtime]:
        """Every runtime of this process."""
        with self._lock:
            return list(self._by_home.values())


def _block() -> Mapping[str, Any]:
    return host.config_block()


#: One per process: engine copies and hooks find each other through it.
RUNTIMES = Runtimes()
