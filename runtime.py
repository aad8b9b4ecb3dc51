"""
The parts of one database in one process, built once and shared by every engine copy and hook.

Engines come and go (the host deep-copies one per agent); what they work with lives here. ``Process`` knows which runtime serves
which home.
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import time
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from . import config as settings
from .archive.costs import TokenCosts
from .archive.ranges import ArchivedRanges, Archives
from .compaction import plan
from .compaction.background import FOLDS, Preparer
from .compaction.compactor import Compactor
from .compaction.compress import CompressPass
from .compaction.pressure import Calibration
from .config import Config
from .dag import SummaryDag
from .errors import Overtaken, StoreCorrupt, StoreError, StoreReadOnly
from .fleet.background import Background, SharedLeases
from .fleet.member import Member
from .fleet.outbox import Outbox
from .host import facts as host
from .host.offers import Offers
from .importers.standby import Standby
from .ingest.filters import build as build_filters
from .ingest.ingestor import Ingest
from .ingest.transcript import UNSEEN, Recognised, StoredList, Transcript
from .ledger.table import Ledger
from .llm.breaker import Breaker, SpendGuard
from .llm.client import HostModel
from .llm.ladder import DAILY_LIMIT, EXTRACTIVE, SESSION, Ladder, LadderSettings
from .ops import metrics, pull
from .ops.costs import Costs
from .ops.forget import retention
from .ops.metrics import Metrics
from .ops.orders import Orders
from .ops.render import moment
from .ops.survey import Survey
from .ops.upkeep import Upkeep
from .prompt.context_message import carried_text
from .prompt.present_state import PresentState
from .prompt.rewrites import Oversized, RequestRewrites, Superseded
from .recall.access import Access, EngineState, LiveList, Price
from .recall.beside import may_report, subagent_lines
from .recall.paging import Readers
from .records import Flag, Summary, SummaryTask
from .search import scope
from .search.documents import searchable, stored_index_row
from .search.index import MESSAGES, NODES, MessageIndex, NodeIndex
from .search.index import complete as indexes_complete
from .search.index import prepare as prepare_indexes
from .search.scope import OWN_REQUEST, OWN_SESSION, Evidence, HostRow, Rights, Scopes
from .search.semantic import PACKAGES, Semantic
from .search.vectors import Vectors
from .session import CLIENTS, Session, Sessions, alone
from .storage.connection import Database, Databases
from .storage.leases import Leases
from .storage.meta import NOTES, SHOWN, Health, Meta
from .storage.payloads import Payloads, folder_of
from .storage.schema import lacked
from .store import SEARCH_WAITS_S, MessageStore
from .text import content, markers, tokens
from .text.markup import RECALL_POLICY
from .text.tokens import Exact

T = TypeVar("T")

#: Share of the window that one tool's answer may take, and bounds for it (the host cuts at about 15 % by itself).
_ANSWER_SHARE, _ANSWER_LEAST, _ANSWER_MOST = 0.10, 1500, 8000
#: The source of messages whose platform the host does not tell.
UNKNOWN_SOURCE = "unknown"
_SPEND = "spend"
_BREAKER = "breaker"
_DAILY, _COSTS = "daily tokens of summaries", "cost ledger"
_CALIBRATION = "calibration"
_WINDOWS = "windows"
#: The mode of a session while it is not known whether a pattern leaves it out.
HELD = "held"
_HELD_BACK = "sessions held back"
_MOST_HELD = 8
#: How the topic begins under which an owner that contradicts an earlier one is shown.
OWNERS = "owner of "
_MOST_WINDOWS = 20
_METRICS = "metrics file"
_ENCODER = "ranking by meaning"
_CARRIED_TOKENS = 1500  # that a first request may show of the conversation before it
_TRIES = 4  # another file, a stand-in, memory
_FILE = "database file"
_FORK_WAIT_S = 2.0
_NO_MONEY: Price = (0.0, 0.0, 0.0)
_ASK_AGAIN_S = 3600.0
_MOMENT_S = 0.1  # what the host does between two calls, with a long list
_MOST_S = 0.5
_LOOK_S = 0.005
_TABLES, _UNREAD = "tables", "unreadable messages"


@dataclass(slots=True)
class Pending:
    """The host's facts about a session before its first message was stored."""

    platform: str = ""
    host_key: str | None = None
    model: str = ""
    parent: str | None = None
    origin: str = "start"
    carry_from: str | None = None
    owner: str | None = None


class Foreground:
    """Priority of host calls over background work: a step of it waits while one goes on, and a moment after it.

    Threads of one process share the interpreter: beside a thread that computes, every statement that a host call sends to SQLite
    costs it 5 ms more.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._calls = 0
        self._until = 0.0

    def __enter__(self) -> None:
        with self._lock:
            self._calls += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._calls -= 1
            self._until = self._monotonic() + _MOMENT_S

    def give_way(self) -> None:
        """Wait for the host calls of now; in a gateway there is always one, so no longer than half a second."""
        end = self._monotonic() + _MOST_S
        while (self._calls or self._monotonic() < self._until) and self._monotonic() < end:
            time.sleep(_LOOK_S)


class Runtime:
    """Store, dag, ingest, compactor and worker of one database."""

    def __init__(self, path: Path, config: Config, process: Process) -> None:
        self.config = config
        self.path = path
        self.process = process
        self.db: Database = process.databases.at(path, self._opened)
        self.health = Health(self.db)
        #: Entered by host calls; background work gives way to them.
        self.foreground = Foreground()
        self.vectors = self._vectors()
        self.index = MessageIndex(self.db, behind=self._index_waiting, meaning=self.vectors)
        self.node_index = NodeIndex(self.db)
        self.payloads = Payloads(self.db, folder_of(path), self.health)
        self.filters = build_filters(config, self.payloads, self.health)
        self.config = config = replace(config, custom_instructions=self.filters.text(config.custom_instructions))
        self.db.clean, self.sessions = self.filters.key, Sessions(self.db, self.filters.text, self.filters.identity)
        self.sessions.chat_of = self._chat_of
        self.store = MessageStore(self.db, self.index)
        self.dag = SummaryDag(self.db, self.node_index, self.filters.text)
        #: The messages exactly as they were said; and as they are read and searched: encoded bytes as placeholders.
        self.whole_store, self.view_store = (
            MessageStore(self.db, self.index, self.store.blocks, unfold=unfold, lacks=self.payloads.lacks)
            for unfold in (self.payloads.whole, self.payloads.view)
        )
        self.metrics = self._measuring(config)
        self.leases = Leases(self.db)
        self.ingest = Ingest(
            self.whole_store, self.sessions, self.dag, leases=self.leases, filters=self.filters, named=self.filters.name,
            lost=self.payloads.lost, elsewhere=Outbox(self.db).elsewhere,
        )  # fmt: skip
        self.calibration = Calibration(count=Exact(tokens.count, host.tiktoken_cache), rough=host.rough)
        #: The context window that the host reported last, by model: what a terminal knows when no agent runs in it.
        self.windows: dict[str, int] = {}
        self.standby = Standby(self.db, self._parts, self.health, give_way=self.foreground.give_way)
        self.readers = Readers()
        self.scopes = Scopes(self.db)
        self.orders = Orders(self.db)
        self._summarising(config)
        self.fleet = self._joined(config)
        self._compaction(config)
        self._background(config)
        self._pending: dict[str, Pending] = {}
        self._priced: dict[tuple[str, str], Price] = {}
        self._ask_again: dict[tuple[str, str], float] = {}
        self._sessions: dict[str, Session] = {}
        self._unnoted: set[str] = set()  # sessions of which it could not be noted which prompt their list shows
        self._held: dict[str, Sequence[Mapping[str, Any]]] = {}
        self._lock = threading.Lock()
        for problem in config.problems:
            self.health.degraded(f"setting {problem.name}", str(problem), severity="warning")

    def _summarising(self, config: Config) -> None:
        """Build what asks the summary model: its limits, the cost ledger, the ladder."""
        self.breaker = Breaker(
            threshold=config.summary_circuit_breaker_failure_threshold,
            cooldown_s=config.summary_circuit_breaker_cooldown_seconds,
            clock=time.time,
        )
        self.spend = SpendGuard(
            max_calls=config.summary_spend_max_calls,
            in_all=config.spend_in_all,
            window_s=config.summary_spend_window_seconds,
            clock=time.time,
        )
        self.model = HostModel(reasoning_effort=config.summary_reasoning_effort)
        self.costs = Costs(self.db, clean=self.filters.text)
        self.daily = SpendGuard(
            max_calls=0, max_tokens=config.summary_daily_tokens, window_s=86_400.0, clock=time.time,
            shared=lambda made: self.health.rewrite(_DAILY, made),
        )  # fmt: skip
        settings_of_ladder = LadderSettings(
            summary_model=config.summary_model,
            fallback_models=tuple(config.summary_fallback_models),
            timeout_s=config.summary_timeout_ms / 1000,
            custom_instructions=config.custom_instructions,
        )
        self.ladder = Ladder(
            self.model, settings_of_ladder, self.breaker, self.spend, time.monotonic, count=tokens.count,
            daily=self.daily,
            told=lambda read, written: self.costs.note(SESSION.get(), summaries=1, summary_in=read, summary_out=written),
        )  # fmt: skip

    def _parts(self) -> Access:
        """Access for the merging of stand-ins: messages exactly as they were said."""
        return replace(self._everything(), store=self.whole_store)

    def _everything(self) -> Access:
        """Access as an operator has it."""
        return self.access(None, Rights(), trusted=True)

    def _joined(self, config: Config) -> Background | None:
        """The fleet's work behind the turns, if a server is named."""
        if not config.fleet_dsn:
            return None
        member = Member(self.db, config.fleet_dsn, self._parts, self.health)
        return Background(
            member, self.health, days=config.fleet_pull_days, ready=lambda: self.db.path.exists() and not self.db.stands_in,
            changed=self._others_wrote, give_way=self.foreground.give_way,
        )  # fmt: skip

    def _others_wrote(self) -> None:
        """Rows of other hosts came: what is remembered of lists and sessions is read again."""
        self._sessions.clear()
        self.ingest.forget_all()

    def _measuring(self, config: Config) -> Metrics | None:
        """Counters and timings for the file that the operator named, if any."""
        if not config.metrics_path:
            return None
        return Metrics(
            self.path.parent / Path(config.metrics_path).expanduser(),
            database=str(self.path),
            interval_s=config.metrics_interval_seconds,
            counted=partial(metrics.counted, self.health),
            gauges=partial(metrics.gauges, self.db, self.health, self.payloads.folder),
            told=self._metrics_written,
        )

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Add to a counter of the metrics, where they are on."""
        if self.metrics is not None:
            self.metrics.count(name, by, **labels)

    def took(self, name: str, seconds: float, **labels: str) -> None:
        """Note a measured time, where metrics are on."""
        if self.metrics is not None:
            self.metrics.observe(name, seconds, **labels)

    def _metrics_written(self, error: OSError | None) -> None:
        remedy = "LCM_METRICS_PATH must name a file in a folder that Hermes may write"
        self.health.tell(_METRICS, error, severity="warning", remedy=remedy)

    def _vectors(self) -> Vectors | None:
        """Vectors of the messages, where they are asked for."""
        if not self.config.semantic:
            return None
        encoder = Semantic(self._encoder_told)
        return Vectors(self.db, encoder, self._searchable, self.health, give_way=self.foreground.give_way)

    def _searchable(self, store_ids: Sequence[int]) -> dict[int, str]:
        """Messages as they are searched, answers of our own tools blank; damaged ones are left out."""
        rows = self.view_store.legible(store_ids)[0]
        entries = [stored_index_row(row) for row in rows if not row.head.flags & Flag.OWN_TOOL]
        return {
            **{row.store_id: "" for row in rows},
            **{each.store_id: searchable(each.text, each.extra) for each in entries},
        }

    def _encoder_told(self, error: Exception | None) -> None:
        remedy = (
            f"run `pip install {' '.join(PACKAGES)}` in Hermes' environment and restart it, or set LCM_SEMANTIC=false"
        )
        self.health.tell(_ENCODER, error, severity="warning", remedy=remedy)

    def summarise(self, task: SummaryTask, **limits: Any) -> Summary:
        """The ladder, counted and timed."""
        began = time.perf_counter()
        made = self.ladder.summarise(task, **limits)
        self.took("summary_seconds", time.perf_counter() - began)
        self.count("summaries_total", quality=made.quality)
        used_up = (
            f"LCM_SUMMARY_DAILY_TOKENS={self.config.summary_daily_tokens} are used up: extracts stand for summaries"
        )
        self.health.tell(
            _DAILY, used_up if DAILY_LIMIT in made.checks else "", severity="warning",
            remedy="raise it, or wait: the oldest hour frees its part",
        )  # fmt: skip
        return made

    def _compaction(self, config: Config) -> None:
        """Build what makes prompts: the archives' view of requests, the compactor, the compress pass."""
        self.archives = Archives(self.db, self.filters.text)
        self.archived = ArchivedRanges(self.archives, self.whole_store, self.dag, self.scopes)
        self.superseded = Superseded(
            self.whole_store, least_chars=config.stub_min_chars, repay=config.stub_repay_share, rough=host.rough
        )
        self.oversized = Oversized(self.whole_store, rough=host.rough)
        self.rewrites = RequestRewrites(self.ingest, [self.archived, self.superseded, self.oversized], rough=host.rough)
        self.compactor = Compactor(
            self.store,
            self.dag,
            self.ingest.transcripts.expected,
            self.summarise,
            config,
            rough=host.rough,
            dissolved=self.orders.dissolved,
            archives=self.archived,
        )
        self.ledger = Ledger(self.db, self.whole_store, self.dag)
        state = PresentState(self.store, self.ledger, self.sessions)
        self.compress_pass = CompressPass(
            self.compactor,
            self.whole_store,
            self.dag,
            self.sessions,
            state,
            rough=host.rough,
            clean=self.filters.clean,
            stub_chars=config.stub_min_chars,
            policy=lambda: RECALL_POLICY if config.recall_policy and not self.process.offers.section_taken else "",
        )

    def _background(self, config: Config) -> None:
        """Build what works behind the turns: upkeep, retention, the worker that writes summaries ahead of time."""
        self.upkeep = Upkeep(
            self.db, self.store, self.index, self.dag, self.payloads, self.health,
            index_waiting=self._index_waiting, collects=config.large_output_transcript_gc_enabled,
        )  # fmt: skip
        self.preparer = Preparer(
            self.leases if self.fleet is None else SharedLeases(self.leases, self.fleet.member),
            self.compactor,
            self.dag,
            self.health,
            config,
            upkeep=self._between_turns,
            measured=self.calibration.measure,
            give_way=self.foreground.give_way,
        )

    def _opened(self, db: Database) -> None:
        """Prepare what a new connection needs: search indexes (caches) and what earlier processes left behind."""
        self._make_indexes(db, self._missed_tables(db))
        if db.notice:
            said = f"{db.notice} (noticed at {moment(time.time())})"
            self.health.degraded(_FILE, said, severity="warning", remedy="nothing: what it lacked is written again")
            self.health.save()  # other processes tell of it, too
            db.notice = ""
        self._sessions.clear()
        self.ingest.forget_all()
        if self.db.stands_in:
            return  # what breaker and calibration know is true of any file
        self.breaker.load(self.health.kept_state(_BREAKER))
        self.spend.load(self.health.kept_state(_SPEND))
        self.daily.load(self.health.kept_state(_DAILY))
        self.calibration.load(self.health.kept_state(_CALIBRATION))
        self.windows = self._all_windows()
        self.preparer.read_kept()

    def _missed_tables(self, db: Database) -> list[str]:
        """Tables that the file has lost. What they do not concern goes on."""
        try:
            lost = Survey(db).lost_tables()
        except StoreCorrupt:  # a page of the notes is damaged: the next read of them meets it
            return []
        said = f"a part of the database file is gone: {lacked(lost)}" if lost else ""
        remedy = "`/lcm doctor repair` says what can be saved; or restore a backup: `/lcm restore` lists them"
        self.health.tell(_TABLES, said, remedy=remedy)
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
            self.node_index.rebuild(self.dag.index_rows())
        self.health.resolved("search index")

    def _note_unread(self, count: int) -> None:
        """Note how many messages could not be read when they were to be indexed."""
        told = f"stored messages that cannot be read, so that no search finds them: {count}"
        self.health.tell(_UNREAD, told if count else "", remedy="run `/lcm doctor deep`, which names them")

    def _index_waiting(self, *, seconds: float = SEARCH_WAITS_S) -> int:
        """Index what waits for it, for so many seconds; how many messages wait still."""
        left = (self.standby.copy_more(seconds=seconds) if self.db.stands_in else 0) + self.view_store.index_waiting(
            seconds=seconds
        )
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
        was = self.db.identity
        self._bring(session_id)
        found = self.sessions.find(session_id) or self._open(session_id)
        if was is None or was == self.db.identity:  # or it is of a file that another thread has just left
            self._sessions[session_id] = found
        return found

    def find_session(self, session_id: str) -> Session | None:
        """The session if anything of it is stored."""
        self._bring(session_id)
        return self._sessions.get(session_id) or self.sessions.find(session_id)

    def _bring(self, session_id: str) -> None:
        """Bring a conversation over into the stand-in for the database."""
        if self.db.stands_in:
            self.standby.copy(session_id)

    def stored(self, session_id: str) -> Session | None:
        """The session, if anything of it is stored and the database can be read."""
        if not session_id or not self.db.exists:
            return None
        with self.health.watched("session look-up"):
            return self.find_session(session_id)
        return None

    def stored_now(self, session_id: str) -> Session | None:
        """The same as the file has it now: another process may have learnt whose it is."""
        self.refresh(session_id)
        return self.stored(session_id)

    def wants_notices(self, session_id: str) -> bool:
        """Is this chat to hear of compactions? Where its own choice cannot be read, the setting decides."""
        try:
            session = self.stored(session_id)
            chosen = self.orders.notices(session.principal) if session is not None else None
        except StoreError:
            chosen = None
        return self.config.compaction_notices if chosen is None else chosen

    def pulled_text(self, session_id: str) -> str:
        """The text that a person pulled in for the next message of a session; "" if nothing."""
        found = self.orders.pulled(session_id)
        return pull.text(self.store, self.dag, found) if found else ""

    def refresh(self, session_id: str) -> None:
        """The next use reads the session again."""
        self._sessions.pop(session_id, None)

    def let_go(self, session_id: str) -> None:
        """A session is over for the host. Its stored rows say whose it is, so nothing of it stays in memory."""
        stored = self._sessions.pop(session_id, None)
        with self._lock:
            facts = self._pending.get(session_id)
            if stored is not None and facts is not None and (facts.owner is None or not stored.unclaimed):
                del self._pending[session_id]
        self.ingest.ended(session_id)
        self.oversized.forget(session_id)

    def _open(self, session_id: str) -> Session:
        facts = self._pending.get(session_id) or Pending()
        for other in filter(None, (facts.parent, facts.carry_from)):
            self._bring(other)
        parent = self.sessions.find(facts.parent) if facts.parent else None
        if facts.parent and parent is None and facts.origin == "branch" and self.db.stands_in:
            # What it inherits is in the file that cannot be read, and will be found by this name.
            parent = self.sessions.open(facts.parent, now=time.time(), principal=alone(facts.parent))
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
            # A branch belongs to who makes it.
            principal=None if parent and facts.origin != "branch" else facts.owner or alone(session_id),
        )
        if facts.carry_from:
            self._carry(facts.carry_from, opened)
        return opened

    @property
    def _has_patterns(self) -> bool:
        """May a session be left out at all?"""
        return bool(self.config.ignore_session_patterns or self.config.stateless_session_patterns)

    def _mode(self, session_id: str, platform: str) -> str:
        if not self._has_patterns:
            return "full"
        mode = settings.mode_of(self.config, session_id, platform)
        return HELD if mode == "full" and not platform else mode

    def mode(self, session_id: str) -> str:
        """full, stateless or ignored: by the patterns of now, not by those when the session began.

        HELD: there are patterns, and the host has not said yet where the session is from.
        """
        facts = self._pending.get(session_id)
        platform = facts.platform if facts else ""
        if not platform and self._has_patterns:
            known = self.stored(session_id)
            platform = known.platform if known else ""
        mode = self._mode(session_id, platform)
        return (self._mode_of_parents(session_id) or mode) if mode == "full" and self._has_patterns else mode

    def _mode_of_parents(self, session_id: str) -> str:
        """Mode of a session from which this one was made, where that leaves it out; "" where none does."""
        seen = {session_id}
        facts = self._pending.get(session_id)
        while facts is not None and facts.parent and facts.parent not in seen:
            parent = facts.parent
            seen.add(parent)
            facts = self._pending.get(parent)
            known = None if facts is not None and facts.platform else self.stored(parent)
            platform = known.platform if known else facts.platform if facts is not None else ""
            mode = self._mode(parent, platform)
            if mode not in ("full", HELD):
                return mode
        return ""

    def _admits(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> bool:
        """May this list be stored? Where that is not known yet it is kept in memory until it is."""
        mode = self.mode(session_id)
        if mode == HELD:
            self._held[session_id] = messages
            while len(self._held) > _MOST_HELD:
                self._held.pop(next(iter(self._held)))
            self.health.degraded(
                _HELD_BACK, "a session is not stored: the host does not say where it is from, and patterns leave some out",
                severity="warning", remedy="nothing: it is stored with the first message that says so",
            )  # fmt: skip
        elif mode != "full":
            self._held.pop(session_id, None)
        if not self._held or mode == "full":
            self.health.resolved(_HELD_BACK)
        return mode == "full"

    # -- owners -----------------------------------------------------------------------------------------
    def undecided(self, session_id: str) -> bool:
        """Is it open whom a session belongs to?"""
        if session_id in self._sessions:
            return self._sessions[session_id].unclaimed
        facts = self._pending.get(session_id)
        return facts is None or facts.owner is None

    def note_owner(self, engine: LiveEngine, session_id: str) -> None:
        """Note whose session this is, as far as the host of its engine says."""
        seen = evidence(engine, session_id)
        self.announce(session_id, platform=seen.source or None)
        known = self.stored(session_id)
        if known is not None and scope.is_several_clients(known, seen):
            self.sessions.claim(known, alone(known.session_id))
            for each in self.sessions.of_conversation(known.conversation_id):
                self.refresh(each.session_id)
        self.saw_owner(session_id, seen.owner())

    def saw_owner(self, session_id: str, owner: str | None) -> None:
        """Positive evidence of an owner: claims what nobody owns, and is refused where earlier evidence says otherwise."""
        if owner is None:
            return
        facts = self.announce(session_id, owner=owner)
        session = self.stored(session_id)
        if session is None:
            return
        topic = f"{OWNERS}{session_id}"
        if scope.claims(session, owner):
            self.sessions.claim(session, owner, platform=facts.platform, host_key=facts.host_key)
            self.refresh(session_id)
        elif scope.contradicts(session, owner):
            self.health.degraded(
                topic, f"an agent of {owner} works in a session of {session.principal}; it reads that session only",
                severity="warning", remedy="nothing to do after a /handoff; else see `hermes lcm doctor`",
            )  # fmt: skip
        elif session.principal == owner:
            self.health.resolved(topic)

    def _chat_of(self, session: Session) -> tuple[str, str]:
        """Chat and thread of a session, as the host's row of it has them; nothing where nobody can be asked for that row."""
        engine = self.process.engines.of(session.session_id) or self.process.engines.newest()
        row = HostRow.of(host.session_row(engine.session_db, session.session_id)) if engine is not None else None
        return (row.chat, row.thread) if row is not None and row.key == session.host_key else ("", "")

    def _carry(self, old_id: str, new: Session) -> None:
        """Let a conversation after ``/new`` show the deep nodes of the old one (references only)."""
        depth = self.config.new_session_retain_depth
        old = self.sessions.find(old_id)
        if depth == 0 or old is None or old.principal != new.principal or old.conversation_id == new.conversation_id:
            return
        top = self.dag.topmost(old.conversation_id, max(0, depth), without=self.orders.dissolved())
        self.sessions.carry(new.conversation_id, [node.node_id for node in top])

    def carried_text(self, session_id: str) -> str:
        """The conversation before this one in a session's first request; "" where there is none, or a prompt shows it."""
        session = self.find_session(session_id)
        nodes = self.dag.nodes(self.sessions.carried(session.conversation_id)) if session is not None else []
        if session is None or not nodes or self.dag.latest_assembly(session.conversation_id) is not None:
            return ""
        return carried_text(session.nonce, nodes, _CARRIED_TOKENS)

    def delegated(self, engine: LiveEngine, session_id: str, seen: StoredList) -> str:
        """Addresses of the records of the sub-agents whose result the newest message is; "" for any other message."""
        session, newest = self.find_session(session_id), seen.transcript.entries[-1:]
        if session is None or not newest or not newest[0].ids or not may_report(seen.messages[-1]):
            return ""
        access = self.access(session, rights_of(engine, session, session_id))
        return "".join(subagent_lines(access, row) for row in access.rows(newest[0].ids[-1:]))

    # -- rights -----------------------------------------------------------------------------------------
    def access(
        self,
        session: Session | None,
        allowed: Rights = OWN_SESSION,
        *,
        engine: EngineState | None = None,
        live: LiveList | None = None,
        home: Path | None = None,
        trusted: bool = False,
    ) -> Access:
        """The database as seen from a session (None: nothing of it is stored yet) with these rights."""
        engine = engine or EngineState()
        return Access(
            db=self.db, store=self.view_store, dag=self.dag, sessions=self.sessions, scopes=self.scopes, index=self.index,
            node_index=self.node_index, archives=self.archives, ledger=self.ledger, ranges=self.archived, payloads=self.payloads,
            filters=self.filters, health=self.health, config=self.config, model=self.model, readers=self.readers,
            home=home or host.hermes_home(), session=session, rights=allowed,
            trusted=trusted, answer_tokens=answer_tokens(engine.context_length), engine=engine, live=live,
            elsewhere=self.fleet.bring if self.fleet is not None else None,
        )  # fmt: skip

    # -- the verbs that hooks and engines share -------------------------------------------------------------
    def observe(
        self,
        session_id: str,
        messages: Sequence[Mapping[str, Any]] | None,
        *,
        platform: str = "",
        thorough: bool = True,
        before: Sequence[Mapping[str, Any]] | None = None,
    ) -> StoredList | None:
        """Store what is new in a live list, if the list may be stored at all: what it says, and which rows that is.

        ``before``: what is left of the conversation in front of it, where that is known, whatever was stored before.

        None for an empty list, for one of the host's background review, and in a session that the settings leave out.
        """
        if not session_id or not messages or host.in_background_review():
            return None
        seen = self.ingest.recognise(session_id, messages, thorough=thorough)
        said = host.without_notes(messages, seen.count)
        if not said:
            return None
        if platform:
            self.announce(session_id, platform=platform)
        engine = self.process.engines.of(session_id)
        if engine is not None and self.undecided(session_id):
            self.note_owner(engine, session_id)
        if not self._admits(session_id, said):
            return None
        if before is not None and (known := self.stored(session_id)) is not None:
            if before:
                self.ingest_list(session_id, [*before, *said], thorough=thorough)
            else:
                self.outlasting(lambda: self.ingest.begin_anew(known, said))
            seen = UNSEEN
        if engine is not None and engine.host_key and any(map(_holds_others, said[seen.count :][-2:])):
            engine.overhear()
            seen = UNSEEN
        return StoredList(said, self.ingest_list(session_id, said, thorough=thorough, seen=seen))

    def ingest_list(
        self,
        session_id: str,
        messages: Any,
        *,
        source: str = "",
        thorough: bool = True,
        seen: Recognised = UNSEEN,
    ) -> Transcript:
        """Ingest a live list; a success resolves what had been wrong. ``source``: the platform, if not the session's."""
        return self.outlasting(lambda: self._ingest_list(session_id, messages, source, thorough, seen))

    def overhear(self, session_id: str, transcript: Sequence[Mapping[str, Any]]) -> None:
        """Lines of a group that nobody said to the bot, from the host's transcript: there each is its speaker's own."""
        if transcript and self._admits(session_id, transcript):
            self.ingest_list(session_id, transcript)
            self.ingest.only_read(session_id)

    def _note_past(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """A session that begins here with more than one request was resumed, not made by /new: nothing is carried into it."""
        facts = self._pending.get(session_id)
        if facts is None or facts.carry_from is None or session_id in self._sessions:
            return
        if sum(isinstance(each, Mapping) and each.get("role") == "user" for each in messages) > 1:
            facts.carry_from = None

    def outlasting(self, work: Callable[[], T]) -> T:
        """Work with the database, done again with a stand-in where it cannot be used, or with memory."""
        for _ in range(_TRIES):
            if (done := self.standby.settled) is None or done != self.db.identity or not self.db.is_current:
                self.standby.settle()
            was = self.db.in_use
            try:
                return work()
            except (StoreError, ArithmeticError, TypeError, ValueError) as exc:  # rows may hold anything
                self._sessions.clear()  # they may be of another file
                if not isinstance(exc, Overtaken) and not self.standby.takes_over(exc, was):
                    raise
        return work()

    def _ingest_list(self, session_id: str, messages: Any, source: str, thorough: bool, seen: Recognised) -> Transcript:
        self._note_past(session_id, messages)
        began = time.perf_counter()
        with self.db.first(), self.db.steady():  # what is read, and what is written then, is of one file
            if self.standby.settled != self.db.identity and not self.standby.looked:
                raise Overtaken(f"{self.path} was exchanged just now")
            session = self.session(session_id)
            source = source or session.platform or UNKNOWN_SOURCE
            if (held := self._held.get(session_id)) is not None:
                self.ingest.ingest_list(session, held, source=source)
                self._held.pop(session_id, None)
                seen = UNSEEN
            only = not self.process.engines.shared(session_id)
            transcript = self.ingest.ingest_list(
                session, messages, source=source, thorough=thorough, seen=seen, alone=only
            )
        self.took("ingest_seconds", time.perf_counter() - began)
        self.health.counters["ingests"] += 1
        self.health.counters["messages_stored"] += transcript.stored
        self.health.resolved("ingest")
        if transcript.stored:
            self.health.written()
            if self.fleet is not None:
                self.fleet.wake()
        if transcript.marks & Flag.UNALIGNED:
            self.health.degraded(
                "unaligned list",
                f"a list of {session_id} had nothing in common with what was stored; everything was kept",
                severity="warning",
                remedy="nothing to do; if it goes on, another plugin or a wrapper rewrites the history before we see it",
            )
        elif transcript.stored:  # the rows keep their mark, which the doctor counts; the trouble itself is over
            self.health.resolved("unaligned list")
        self._note_unknown_context(f"unknown context message in {session_id}", transcript)
        if transcript.stored or session_id in self._unnoted:
            self._unnoted.add(session_id)
            with self.health.watched(NOTES):  # the messages are stored: a note is no reason to do it again
                self._note_shown(session, transcript)
                self._unnoted.discard(session_id)
        return transcript

    def _note_shown(self, session: Session, transcript: Transcript) -> None:
        """Note the prompt that a list goes on with where that is not the newest: the host refused what a compaction made."""
        newest = self.dag.latest_assembly(session.conversation_id)
        if newest is None:
            return
        shown = transcript.assembly.assembly_id if transcript.assembly is not None else 0
        meta, key = Meta(self.db), SHOWN + session.session_id
        if shown != newest.assembly_id:
            if meta.value(key) != [newest.assembly_id, shown]:
                meta.note(key, [newest.assembly_id, shown])
        elif meta.value(key) is not None:
            meta.forget(key)

    def _note_unknown_context(self, topic: str, transcript: Transcript) -> None:
        """Note a context message that no prompt explains; over as soon as a prompt of ours governs the session."""
        if transcript.marks & Flag.IMPORTED:
            self.health.degraded(
                topic,
                "its list begins with a context message whose prompt this database does not know: an older backup was restored, "
                "a compaction failed, or somebody pasted it; it is kept as text and will be summarised like any message",
                severity="warning",
                remedy="nothing to do; the next compaction covers it",
            )
        elif transcript.assembly is not None:
            self.health.resolved(topic)

    def saw_window(self, model: str, context_length: int) -> None:
        """An engine works with this model; its window is kept behind the turn, which does not wait for it."""
        if model and context_length > 0:
            others = [each for each in self.windows.items() if each[0] != model]  # the worker may be writing them down
            self.windows = dict([*others, (model, context_length)][-_MOST_WINDOWS:])

    def _all_windows(self) -> dict[str, int]:
        """The windows that were seen, those that other processes wrote down included."""
        kept = [
            (model, size) for model, size in self.health.kept_state(_WINDOWS).items()
            if isinstance(size, int) and size > 0 and model not in self.windows
        ]  # fmt: skip
        return dict([*kept, *self.windows.items()][-_MOST_WINDOWS:])

    def prices(
        self,
        model: str,
        provider: str,
        base_url: str,
        api_key: Any,
        *,
        cached: tuple[float, int],
        summary_model: str = "",
    ) -> plan.Prices:
        """Prices of tokens of a model and of its summariser. The host is asked until it knows them, and may ask the network."""
        named, name, url = host.summariser(summary_model)
        other = None if named == EXTRACTIVE else self._price(named, name, url)
        if other is None and (named == EXTRACTIVE or host.is_local(url)):
            other = _NO_MONEY
        return plan.priced(
            self._price(model, provider, base_url, api_key), other, local=host.is_local(base_url), cached_share=cached[0],
            requests=cached[1],
        )  # fmt: skip

    def _price(self, model: str, provider: str, base_url: str = "", api_key: Any = "") -> Price:
        key, now = (model, provider), time.monotonic()
        if model and self._priced.get(key) is None and now >= self._ask_again.get(key, now):
            self._priced[key] = host.token_prices(model, provider, base_url, api_key)
            self._ask_again[key] = now + _ASK_AGAIN_S  # a host without a network knows no price yet
        return self._priced.get(key)

    def priced(self, model: str, provider: str) -> tuple[Price, Price]:
        """Prices of a model and of its summariser, if the host was asked for them already."""
        main = self._priced.get((model, provider))
        *route, url = host.summariser(self.config.summary_model)
        found = self._priced.get((route[0], route[1]))
        return main, found or (_NO_MONEY if host.is_local(url) else main)

    def known_prices(self) -> dict[tuple[str, str], Price]:
        """Prices of every model and provider that the host was asked about."""
        return dict(self._priced)

    def ended(self, session_id: str = "") -> None:
        """A session, or the process, ends: keep the states, let its list go, and make the file small."""
        self.health.resolved(_FILE)
        self.filters.warn_of_secrets()
        self.save_states()
        with self.health.watched("upkeep"), suppress(StoreReadOnly):  # who may only read has nothing to keep up
            if session_id:
                self.ingest.ended(session_id)
            if not session_id or not self.ingest.busy:
                self.upkeep.at_end()
            elif (session := self.find_session(session_id)) is not None:
                self.upkeep.session_ended(session.conversation_id)

    def _between_turns(self, stopped: Callable[[], bool]) -> None:
        self.filters.warn_of_secrets()
        self.health.keep({_WINDOWS: self._all_windows(), FOLDS: self.preparer.folds()})
        self.save_costs()
        self.upkeep.between_turns(stopped)
        retention.between_turns(self._everything(), self.leases, self.foreground.give_way)

    def make_vectors(self) -> None:
        """Vectors of the messages that lack them, behind the turns; where they are asked for."""
        if self.vectors is not None:
            self.vectors.begin()

    def save_costs(self) -> None:
        """Write what was spent since."""
        with self.health.watched(_COSTS):
            self.costs.save()

    def save_states(self) -> None:
        """Keep breaker, spend, calibration and windows for the next process."""
        self.health.keep({
            _BREAKER: self.breaker.dump(), _SPEND: self.spend.dump(),
            _CALIBRATION: self.calibration.dump(), _WINDOWS: self._all_windows(), FOLDS: self.preparer.folds(),
        })  # fmt: skip
        self.save_costs()
        self.health.save()
        with self.health.watched("write-ahead log"):
            self.db.optimise()


def answer_tokens(context_length: int) -> int:
    """Tokens that one tool's answer may take."""
    return max(_ANSWER_LEAST, min(_ANSWER_MOST, int((context_length or 128_000) * _ANSWER_SHARE)))


def by_itself(path: Path, config: Config) -> Runtime:
    """The runtime of a file that no session uses: a backup that is examined."""
    return Runtime(path, replace(config, fleet_dsn=""), Process())


def file_of(config: Config, home: Path) -> Path:
    """The database of a home."""
    return Path(config.database_path).expanduser() if config.database_path else home / "lcm.db"


class LiveEngine(Protocol):
    """The engine of one agent, as hooks, tools and commands see it."""

    born: int
    answered: int
    model: str
    provider: str
    base_url: str
    context_length: int
    threshold_tokens: int
    last_prompt_tokens: int
    compactions: int
    fallback_context: bool
    last_compression: dict[str, Any]
    costs: TokenCosts
    sending: tuple[int, object] | None
    overhears: bool
    cache: Counter[str]
    session_id: str
    host_key: str
    platform: str
    session_db: Any

    @property
    def name(self) -> str:
        """The engine's name in the host."""

    @property
    def runtime(self) -> Runtime:
        """The runtime of the agent's home."""

    @property
    def home(self) -> Path:
        """The agent's Hermes home."""

    @property
    def config(self) -> Config:
        """The settings for its model on its platform."""

    def left_before(self, messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]] | None:
        """What the host's own transcript shows in front of this first message; None: not known."""

    def overhear(self) -> None:
        """Lines of a group that nobody said to the bot, from the host's transcript."""

    @property
    def counted_tokens(self) -> int:
        """The prompt as the provider counted it last."""

    def prepare(self, seen: StoredList) -> None:
        """Let the worker look at the session."""

    def look(self, messages: Sequence[Mapping[str, Any]], transcript: Transcript) -> bool:
        """Look at what requests are to show otherwise. True where somebody typed more than a request can hold."""

    def rewritable(self) -> bool:
        """Can one request be changed on this host, with this provider?"""

    def changed(self, messages: Sequence[Mapping[str, Any]], transcript: Transcript) -> None:
        """Requests are to show something else of this list from now on."""


def _holds_others(message: object) -> bool:
    """Does a message show lines of a group within what somebody else said? In the host's transcript each stands by itself."""
    return isinstance(message, Mapping) and markers.holds_others(content.text_of(message.get("content")))


#: What is wrong with storing ends when a list was stored (``Runtime.ingest_list``), not when a call had none to store.
INGEST = "ingest"


class Engines:
    """The live engine copies by session id; the newest one of a session wins. Holds none of them alive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: weakref.WeakSet[LiveEngine] = weakref.WeakSet()
        self._by_session: weakref.WeakValueDictionary[str, LiveEngine] = weakref.WeakValueDictionary()
        self.clock = itertools.count(1)  # says of two engines which was bound, or answered, later
        #: Was one ever bound in this process? Where the host uses another engine its hooks still come here.
        self.used = False
        #: Has a gateway of this process handled a message? Then a slash command without a chat is nobody's.
        self.gateway = False

    def add(self, engine: LiveEngine) -> None:
        """An engine was bound to a session (again)."""
        self.used = True
        with self._lock:
            self._all.add(engine)
            if engine.session_id:
                self._by_session[engine.session_id] = engine

    def forked(self) -> None:
        """Make the lock anew in the child of a fork, where nobody holds it."""
        self._lock = threading.Lock()

    def _every(self) -> list[LiveEngine]:
        with self._lock:
            return list(self._all)

    def of(self, session_id: str) -> LiveEngine | None:
        """The engine that works for a session."""
        engine = self._by_session.get(session_id)
        if engine is not None and engine.session_id == session_id:
            return engine
        found = [engine for engine in self._every() if engine.session_id == session_id]
        return max(found, key=lambda engine: engine.born, default=None)

    def shared(self, session_id: str) -> bool:
        """Do two engines work for a session? An older one that is asked nothing any more was merely not let go yet."""
        if len(self._all) < 2:
            return False
        found = [engine for engine in self._every() if engine.session_id == session_id]
        newest = max((engine.born for engine in found), default=0)
        return any(engine.born < newest < engine.answered for engine in found)

    def with_key(self, host_key: str) -> LiveEngine | None:
        """The newest engine of a gateway chat. Clients of the API server choose their key: theirs are other chats."""
        found = [each for each in self._every() if each.host_key == host_key and each.platform.lower() != CLIENTS]
        return max(found, key=lambda engine: engine.born, default=None)

    def newest(self) -> LiveEngine | None:
        """The engine that was bound last, of any session."""
        found = [engine for engine in self._every() if engine.session_id]
        return max(found, key=lambda engine: engine.born, default=None)


class Process:
    """State that this plugin shares within one process: runtimes by home, live engines, what the host offered.

    ``PROCESS`` is the only state that a module of this plugin holds.
    """

    def __init__(self) -> None:
        self.engines = Engines()
        self.offers = Offers()
        self.databases = Databases()
        self._lock = threading.RLock()
        self._by_home: dict[str, Runtime] = {}
        self._real_paths: dict[str, tuple[os.stat_result, str]] = {}  # by the name, with the folder that it was of
        self._parents: list[dict[str, Runtime]] = []
        self._registered = False
        self._held_for_fork: list[Database] = []

    def loaded(self, offers: Offers) -> None:
        """The host has loaded the plugin (again): what it offered before is gone."""
        self.offers = offers

    def at(self, home: Path | str | None = None) -> Runtime:
        """The runtime of a home (the current one if none is named), built at its first use without opening a file."""
        key = self._real(os.fspath(home or host.hermes_home()))
        with self._lock:
            if key not in self._by_home:
                config = settings.load(None, host.config_block())
                self._by_home[key] = Runtime(file_of(config, Path(key)), config, self)
                if not self._registered:  # a child inherits that
                    self._registered = True
                    atexit.register(self.stop)
                    if hasattr(os, "register_at_fork"):
                        os.register_at_fork(
                            before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._forked
                        )
            return self._by_home[key]

    def _before_fork(self) -> None:
        """Wait until no thread of ours is inside SQLite: a lock of its memory that one holds would stay taken in the child."""
        end = time.monotonic() + _FORK_WAIT_S
        self._held_for_fork = [each.db for each in self.runtimes() if each.db.hold(end - time.monotonic())]

    def _after_fork(self) -> None:
        for db in self._held_for_fork:
            db.let_go()
        self._held_for_fork = []

    def _forked(self) -> None:
        """Build all anew in the child of a fork: who held a lock is not there, and connections are the parent's.

        They are kept, unused: to close one would drop the parent's locks on the file.
        """
        self._parents.append(self._by_home)
        self._lock, self.databases, self._by_home = threading.RLock(), Databases(), {}
        self._held_for_fork = []
        self.engines.forked()

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
        for runtime in self.runtimes():
            runtime.preparer.stop()
            if runtime.vectors is not None:
                runtime.vectors.stop()
            if runtime.fleet is not None:
                runtime.fleet.stop()
            if runtime.db.is_open:
                runtime.standby.settle()
                runtime.ended()
            if runtime.metrics is not None:
                runtime.metrics.stop()  # it still counts what is stored
            runtime.db.close()  # the last one that has the file open takes the log away

    def runtimes(self) -> list[Runtime]:
        """Every runtime of this process."""
        with self._lock:
            return list(self._by_home.values())


#: One per process: engine copies and hooks find each other through it.
PROCESS = Process()


def evidence(engine: LiveEngine, session_id: str) -> Evidence:
    """The host's evidence about an engine's agent and a session."""
    row = HostRow.of(host.session_row(engine.session_db, session_id))
    return Evidence(engine.platform, engine.host_key, row, worker=host.is_worker())


def numbers(engine: LiveEngine) -> EngineState:
    """Numbers of an engine that answers depend on. All else of it is for people who look after it."""
    return EngineState(
        context_length=engine.context_length,
        threshold_tokens=engine.threshold_tokens,
        counted_tokens=engine.counted_tokens,
        model=engine.model,
        session_id=engine.session_id,
        mode=engine.runtime.mode(engine.session_id) if engine.session_id else "full",
    )


def rights_of(engine: LiveEngine, session: Session | None, session_id: str = "") -> Rights:
    """The rights of an engine's agent in a session (``session_id``: while nothing of it is stored).

    A sub-agent has those of the agent that asked for it, as long as that one is here. Another agent in its session is none.
    """
    runtime = engine.runtime
    if (
        engine.platform == "subagent"
        and session is not None
        and session.origin == "subagent"
        and session.parent_session_id
    ):
        above = runtime.process.engines.of(session.parent_session_id)
        known = above is not None and above is not engine and runtime.find_session(above.session_id)
        return rights_of(above, known or None) if above is not None and above is not engine else OWN_SESSION
    found = scope.rights(evidence(engine, session.session_id if session is not None else session_id), session)
    return OWN_REQUEST if session is not None and _shares(engine, session, found) else found


def _shares(engine: LiveEngine, session: Session, found: Rights) -> bool:
    """Is it a branch of somebody else's conversation?"""
    return found.principal is not None and engine.runtime.sessions.shares(session)


def _agent(engine: LiveEngine) -> Evidence:
    """The evidence about an engine's agent alone, without the host's row of a session."""
    return Evidence(engine.platform, engine.host_key, worker=host.is_worker())


def sees_list(engine: LiveEngine, session: Session) -> bool:
    """Is no more of a session its agent's business than its list shows? Others may talk in it, or it is somebody else's."""
    found = scope.rights(_agent(engine), session)
    return found.shown or _shares(engine, session, found)


def is_owners(engine: LiveEngine, session: Session) -> bool:
    """Is an engine's agent that of the session's owner? True too where nobody is known to own it."""
    return session.unclaimed or _agent(engine).principal == session.principal
