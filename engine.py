"""
The context engine: the host's calls in, the plugin's verbs out.

Holds no SQL, no prompts and no policy. A copied engine carries a home and a session id; everything else is the
runtime's. This is a host boundary: nothing that goes wrong in here ends the user's turn (P10), and nothing of it is
forgotten (P9).
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar, cast

from agent.context_engine import ContextEngine

from . import tools
from .archive.costs import TokenCosts
from .archive.ranges import latest_request
from .compaction import compress, unstored
from .compaction.compactor import Request
from .compaction.compress import Outcome
from .compaction.pressure import Factor, Pressure, deadline
from .config import Config
from .errors import LcmError, StoreError, worded
from .host import facts
from .host.offers import CHAT
from .ingest.transcript import StoredList, Transcript
from .runtime import INGEST, PROCESS, Process, Runtime, sees_list
from .schemas import SCHEMAS
from .search.scope import LOCAL_PLATFORMS
from .session import CLIENTS

logger = logging.getLogger("hermes_lcm")

_STORE_COOLDOWN_S = 10.0
_SAME_START_S = 60.0  # a host that lost its transcript begins sessions of old names anew, much later than we did
_SELECT = "select_context"
_MOST_TOKENS: Final = 10**12  # more is no count of anything
_OVERSIZED = (
    "What you typed is more than the model's window holds: requests show its beginning and its end. All of it is stored, and the "
    "agent can read it with lcm_expand."
)
_NEARLY_FULL = 0.85  # of the window: from here on a prompt is cut even where nothing can be stored

Call = TypeVar("Call", bound=Callable[..., Any])


def _harmless(otherwise: Callable[..., Any]) -> Callable[[Call], Call]:
    """Decorator of a host call that never raises: an unexpected error goes to log and status, the host gets ``otherwise``."""

    def wrap(method: Call) -> Call:
        topic = method.__name__

        @wraps(method)
        def harmless(engine: LCMEngine, *args: Any, **kwargs: Any) -> Any:
            try:
                said = method(engine, *args, **kwargs)
                if topic in engine.failing:
                    engine.failing.discard(topic)
                    engine.runtime.health.resolved(topic)
            except Exception as exc:
                logger.exception("%s failed", topic)
                engine.failing.add(topic)
                with suppress(Exception):
                    engine.runtime.health.degraded(topic, exc)
                return otherwise(*args, **kwargs)
            return said

        return cast(Call, harmless)

    return wrap


class LCMEngine(ContextEngine):
    """Lossless context management for one agent. The registered object is a prototype; the host copies it."""

    protect_first_n = 0
    protect_last_n = 2

    def __init__(self, process: Process | None = None) -> None:
        self.process = process or PROCESS
        self.last_prompt_tokens = 0
        self.last_completion_tokens = 0
        self.last_total_tokens = 0
        self.threshold_tokens = 0
        self.context_length = 0
        # What the host reads to warn "accuracy may degrade" from the second compaction on. Nothing is lost here, so it never
        # shows more than one; status and get_status() say how many there really were.
        self.compression_count = 0
        self.model = self.base_url = self.provider = self.api_mode = ""
        self.api_key: Any = ""
        self.max_tokens: int | None = None
        self.compactions = 0
        self.fallback_context = False
        #: The host session that it works for, the platform, the gateway's key of the chat: "" where the host has not said.
        self.session_id = self.platform = self.host_key = ""
        #: The host's session database, if it handed one over.
        self.session_db: Any = None
        self.overhears = False  # whether its chat is a group of which lines came that nobody said to the bot
        #: Calls of the host that failed the last time.
        self.failing = set[str]()
        self._home: str | None = None
        self._left: str | None = None
        self._cooldown_until = 0.0
        #: Size of a prompt beyond the window about which the host asks again with its list; 0 where it does not.
        self._put_off = 0
        self.last_compression: dict[str, Any] = {}
        #: What the user is to hear once the host took over the last compaction, and what was said last of one that failed.
        self._line = self._refusal = ""
        self._last_compress_aborted = False
        self._store_failed = False
        self._last_compression_made_progress = False
        self._last_summary_error: str | None = None
        self._last_summary_fallback_used = False
        self._last_aux_model_failure_model: str | None = None
        self._last_aux_model_failure_error: str | None = None
        self._compression_cancelled_check: Callable[[], bool] | None = None
        #: When it was bound, and when a model answered it last: counted over all engines.
        self.born = self.answered = 0
        self.pressure = Pressure()
        self.costs = TokenCosts()
        self.sending: tuple[int, object] | None = (
            None  # how long the list of the request on its way is, what it shows otherwise
        )
        self._proposed: list[dict[str, Any]] | None = (
            None  # the list of the last compaction, until the host takes it over
        )
        #: What the provider counted since this engine began: requests, prompt_tokens, cache_read_tokens.
        self.cache: Counter[str] = Counter()

    @property
    def counted_tokens(self) -> int:
        """The prompt as the provider counted it last; 0 if that was before a compaction, or never."""
        return max(0, self.pressure.counted) if self.last_prompt_tokens > 0 else 0

    @property
    def name(self) -> str:
        return "lcm"

    def is_available(self) -> bool:
        """Nothing but the standard library is needed."""
        return True

    # -- copies ---------------------------------------------------------------------------------------
    def __deepcopy__(self, memo: dict[int, Any]) -> LCMEngine:
        """A new engine for another agent: no connection, no thread, no lock is copied or opened."""
        return type(self)(self.process)

    def clone_for_agent(self, *_: Any, **__: Any) -> LCMEngine:
        """A copy for an agent, on newer hosts that ask for it instead of a deep copy."""
        return type(self)(self.process)

    @property
    def runtime(self) -> Runtime:
        return self.process.at(self._home)

    # -- model and tokens -----------------------------------------------------------------------------
    @_harmless(lambda *_, **__: None)
    def update_model(
        self,
        model: str = "",
        context_length: int = 0,
        base_url: str = "",
        api_key: Any = "",
        provider: str = "",
        api_mode: str = "",
        **_: Any,
    ) -> None:
        """A model was chosen: its window decides the threshold. An unknown window gets a stated fallback."""
        self.model, self.base_url, self.provider, self.api_mode = model, base_url, provider, api_mode
        self.api_key = api_key
        try:
            self.context_length = max(0, int(context_length or 0))
        except (TypeError, ValueError, OverflowError):
            self.context_length = 0
        runtime = self.runtime
        self.fallback_context = self.context_length <= 0
        runtime.saw_window(model, self.context_length)
        self._take_threshold()
        self.pressure.forget()

    @property
    def config(self) -> Config:
        """The settings for this model on this platform."""
        share = facts.host_threshold(self.model, self.provider, getattr(self, "model_thresholds", None))
        return self.runtime.config.of(self.model, self.platform, share)

    def _take_threshold(self) -> None:
        config = self.config
        self.threshold_tokens = config.threshold_tokens(self.context_length)
        self.threshold_percent = self.threshold_tokens / max(1, config.window(self.context_length))

    @_harmless(lambda *_, **__: None)
    def update_from_response(self, usage: Mapping[str, Any] | None = None, **_: Any) -> None:
        """Usage of a request as the provider counted it."""
        usage, runtime = usage if isinstance(usage, Mapping) else {}, self.runtime
        self.last_prompt_tokens = count(usage.get("prompt_tokens"), self.last_prompt_tokens)
        self.last_completion_tokens = count(usage.get("completion_tokens"), 0)
        self.last_total_tokens = count(usage.get("total_tokens"), self.last_prompt_tokens + self.last_completion_tokens)
        if count(usage.get("prompt_tokens"), 0):
            self.answered = next(self.process.engines.clock)
            runtime.rewrites.answered(self.session_id)
            if self.sending is not None:
                self.costs.note(self.sending[0], self.last_prompt_tokens, self.sending[1])
            estimated = self.pressure.answered(self.last_prompt_tokens)
            runtime.calibration.observe(self.model, estimated, self.last_prompt_tokens, self.session_id)
            read = min(count(usage.get("cache_read_tokens"), 0), self.last_prompt_tokens)
            self.cache.update(requests=1, prompt_tokens=self.last_prompt_tokens, cache_read_tokens=read)
            runtime.count("prompt_tokens_total", self.last_prompt_tokens)
            runtime.count("cached_prompt_tokens_total", read)
            if self.session_id:
                runtime.costs.asked(
                    self.session_id, model=self.model, provider=self.provider or "", local=facts.is_local(self.base_url or ""),
                    prompt=self.last_prompt_tokens, cached=read, written=self.last_completion_tokens,
                )  # fmt: skip

    @_harmless(lambda *_, **__: False)
    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Is the prompt at its threshold, and has anything changed since a pass that could do nothing?"""
        used = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        # The list tells how much of it is sent, and a pass in vain would end the turn.
        self._put_off = used if 0 < self.context_length < used and facts.asks_again() else 0
        return not self._put_off and self._is_due(used)

    def _is_due(self, used: int) -> bool:
        """Is a compaction due for a prompt that the host estimates at so many tokens?"""
        runtime = self.runtime
        used = self.pressure.noted(used, spared=runtime.rewrites.spared(self.session_id))
        if not self.threshold_tokens or self.pressure.calibrated(used, self._factor(runtime)) < self._due(runtime):
            return self._rotation_waits(runtime) or bool(runtime.rewrites.unshown(self.session_id))
        return self.pressure.worth_a_pass(used)

    def _due(self, runtime: Runtime) -> int:
        """At how many tokens the next compaction is due: the threshold, or before where the planner says so."""
        return runtime.preparer.fold(self.session_id, self.threshold_tokens, self.config).due

    def _factor(self, runtime: Runtime) -> Factor:
        """Factor between the host's estimates of this agent's requests and its provider's counts."""
        return lambda request: runtime.calibration.factor(self.model, self.session_id, request=request)

    def _rotation_waits(self, runtime: Runtime) -> bool:
        """Has an operator ordered that this session's old messages leave the prompt (``/lcm rotate apply``)?"""
        with self._guard("orders", runtime=runtime):
            return bool(self.session_id) and runtime.orders.rotation(self.session_id) is not None
        return False

    @_harmless(lambda *_, **__: False)
    def should_compress_preflight(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """The same question, as hosts ask it from 0.22 on where nothing is due by the size alone."""
        used, self._put_off = self._put_off, 0
        if not used:
            return self._is_due(facts.rough(messages))
        with self._guard(INGEST):
            if (seen := self.runtime.observe(self.session_id, messages)) is not None:
                self.look(*seen)
        return self._is_due(used)

    @_harmless(lambda *_, **__: None)
    def get_active_compression_failure_cooldown(self, **_: Any) -> dict[str, Any] | None:
        """Cooldown of automatic compaction while the database cannot be used; None otherwise."""
        left = 0.0 if self._nearly_full(self.pressure.estimated) else self._cooldown_until - time.monotonic()
        return {"remaining_seconds": left, "reason": "the LCM database cannot be used"} if left > 0 else None

    # -- sessions ---------------------------------------------------------------------------------------
    @_harmless(lambda *_, **__: None)
    def bind_session_state(self, session_db: Any = None, session_id: str = "", **_: Any) -> None:
        """The host's own transcript, and which session this engine works for from now on."""
        self.session_db = session_db
        self._enlist()
        left, self._left = self._left, None
        if not session_id:
            return
        self.session_id = session_id
        if session_db is None:
            return
        with self._guard("bind"):
            self._announce(session_id, left)
            if left is not None:
                self._catch_up()

    @_harmless(lambda *_, **__: None)
    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        """A new agent for a session, or (``boundary_reason="compression"``) the prompt of ours was taken over."""
        self._home = str(kwargs.get("hermes_home") or self._home or "") or None
        before = self.platform
        self.platform = facts.named_platform(str(kwargs.get("platform") or "")) or before
        self.host_key = kwargs.get("conversation_id") or self.host_key
        if self.threshold_tokens and self.platform != before and self.runtime.config.overrides:
            self._take_threshold()  # else it stays: the host may have lowered it
        self.session_id = session_id or self.session_id
        self._enlist()
        with self._guard("session start"):
            if kwargs.get("boundary_reason") == "compression":
                self._boundary(str(kwargs.get("old_session_id") or session_id))
                line, self._line = self._line, ""
                self._refusal = "" if line else self._refusal  # hosts of 0.18 go on so behind a refused pass, too
                self._tell(line)
                return
            self._announce(session_id, None)
            known = self.runtime.find_session(session_id) if self.runtime.db.path.exists() else None
            self.compactions = known.compactions if known else 0
            self._catch_up()
            self.runtime.make_vectors()

    def _enlist(self) -> None:
        """Let hooks and commands find this engine."""
        self.born = next(self.process.engines.clock)
        self.process.engines.add(self)

    def _announce(self, session_id: str, left: str | None) -> None:
        """Tell the runtime what is known of a session that may be new."""
        runtime = self.runtime
        parent, origin = facts.session_parent(self.session_db, session_id)
        # A session that there was before is resumed: nothing is carried into it.
        fresh = left is not None and left != session_id and parent is None and not self._has_past(session_id)
        runtime.announce(
            session_id, host_key=self.host_key or None, model=self.model or None,
            parent=parent, origin=origin if parent else None, carry_from=left if fresh else None,
        )  # fmt: skip
        runtime.note_owner(self, session_id)

    def _has_past(self, session_id: str) -> bool:
        """Has anything been said in a session, as the host or we know?"""
        runtime = self.runtime
        known = runtime.db.path.exists() and runtime.find_session(session_id) is not None
        return known or bool(facts.session_transcript(self.session_db, session_id))

    def left_before(self, messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]] | None:
        """What the host's own transcript of this session, as old as ours, shows in front of this first message; None: not known.

        What it shows neither there nor here the user has taken back (``/undo``). That is all there was, or what came behind a
        context message: the host counts that as a turn of his, and takes it out of the list, but perhaps not out of its file. A
        turn that begins with a rotation is called the first, too, but shows more. Clients of the API server show what they like.
        """
        if len(facts.without_notes(messages)) > 1:
            return None
        row, known = facts.session_row(self.session_db, self.session_id), self.runtime.stored(self.session_id)
        if not isinstance(row, Mapping) or known is None or known.platform == CLIENTS:
            return None
        if float(row.get("started_at") or 0.0) > known.started_at + _SAME_START_S:
            return None
        shown = facts.session_transcript(self.session_db, self.session_id)
        if len(shown) <= len(messages):
            return ()
        return shown if shown[-1].get("role") == "assistant" else None  # a request may be this one, written already

    def _boundary(self, old_id: str) -> None:
        """The host goes on with the prompt of the last ``compress``; under rotation with a new session id."""
        runtime = self.runtime
        if old_id != self.session_id:
            runtime.announce(
                self.session_id,
                platform=self.platform or None,
                host_key=self.host_key or None,
                parent=old_id,
                origin="rotation",
            )
            runtime.note_owner(self, self.session_id)
        if runtime.mode(self.session_id) == "full":
            session = runtime.session(self.session_id)
            if old_id != session.session_id:
                runtime.sessions.end(old_id, now=time.time(), reason="compression")
            runtime.sessions.compacted(session.session_id)
            runtime.refresh(session.session_id)
        self.compactions += 1
        self.compression_count = min(1, self.compactions)
        proposed, self._proposed = self._proposed, None
        self.costs.clear()
        self._handed(proposed)

    def _catch_up(self) -> None:
        """Take in what the host persisted and a killed process never handed over."""
        if self.session_db is None or self.runtime.ingest.knows(self.session_id):
            return
        seen = self.runtime.observe(self.session_id, facts.session_transcript(self.session_db, self.session_id))
        if seen is not None:
            self._resumed(*seen)
            self.runtime.ingest.only_read(self.session_id)

    def overhear(self) -> None:
        """Lines of a group that nobody said to the bot, from the host's transcript: there each is its speaker's own."""
        self.overhears = True
        self.runtime.overhear(self.session_id, facts.session_transcript(self.session_db, self.session_id))

    def on_session_end(self, session_id: str, messages: Sequence[Mapping[str, Any]] | None = None, **_: Any) -> None:
        """A boundary (also inside every compaction). A list is a list; an empty one says nothing."""
        with self._guard("session end"):
            self.runtime.observe(session_id, messages)
            self.runtime.save_states()

    def on_session_reset(self) -> None:
        """/new, /resume or /branch: which one is known when the next session is bound. Nothing is deleted."""
        self._left = self.session_id or None
        self.last_prompt_tokens = self.last_completion_tokens = self.last_total_tokens = 0
        self.compression_count = self.compactions = 0
        self.pressure.forget()

    def carry_over_new_session_context(self, old_session_id: str, new_session_id: str, **_: Any) -> None:
        """The host says itself that a new session continues an old one."""
        with self._guard("carry over"):
            self.runtime.announce(new_session_id, carry_from=old_session_id)

    def on_turn_complete(self, messages: Sequence[Mapping[str, Any]] | None = None, **_: Any) -> None:
        """The normal end of a turn, on hosts that tell it."""
        with self._guard(INGEST):
            seen = self.runtime.observe(self.session_id, messages)
            if seen is not None:
                self.prepare(seen)

    def prepare(self, seen: StoredList) -> None:
        """Let the worker look at the session."""
        runtime, session_id, tokens, config = self.runtime, self.session_id, self.pressure.estimated, self.config
        if self._nearly_full(tokens):
            self.pressure.forget()  # what had to stay raw for this turn may leave the prompt in the next
        threshold = self.pressure.size(self.threshold_tokens, None, self._factor(runtime)).threshold
        critical = runtime.config.is_critical(self.last_prompt_tokens, self.context_length)
        route = (self.model, self.provider, self.base_url, self.api_key)
        cached = self.cache["cache_read_tokens"] / max(1, self.cache["prompt_tokens"]), self.cache["requests"]
        request = Request(
            list(seen.messages), seen.transcript, threshold, tokens, critical=critical,
            retold=runtime.oversized.shown(runtime.session(session_id), *seen)[0],
            window=threshold * self.context_length // max(1, self.threshold_tokens),
            prices=lambda: runtime.prices(*route, cached=cached, summary_model=config.summary_model), config=config,
            listed=sees_list(self, runtime.session(session_id)),
        )  # fmt: skip
        look = runtime.superseded.look if self.rewritable() else None
        runtime.preparer.after_turn(runtime.session(session_id), request, look=look)
        if not config.background_compaction:
            runtime.save_costs()  # else the worker does
        runtime.make_vectors()

    # -- requests on their way out --------------------------------------------------------------------
    # A host that has ``select_context`` asks the engine; others have request middleware. Both are taken up only while a
    # session has something to show otherwise: the one makes the host clone the whole conversation for each request, the
    # other the request.
    def rewritable(self) -> bool:
        """Can what the model sees be changed for one request alone, on this host and with this provider?"""
        return hasattr(type(self), _SELECT) or (self.process.offers.has_middleware and self.api_mode in CHAT)

    def watch(self) -> None:
        """Take up, or leave, the hook through which requests of this session come."""
        runtime = self.runtime
        session = runtime.find_session(self.session_id) if self.session_id else None
        wanted = session is not None and runtime.rewrites.watch(session)
        if not hasattr(type(self), _SELECT):
            if wanted:
                self.process.offers.take_middleware()
        elif wanted:
            self.__dict__[_SELECT] = self._selected  # the host looks whether the engine has one of its own
        else:
            self.__dict__.pop(_SELECT, None)

    def _selected(
        self,
        request_messages: Sequence[Mapping[str, Any]],
        *,
        conversation_messages: Sequence[Mapping[str, Any]] | None = None,
        **_: Any,
    ) -> list[dict[str, Any]] | None:
        """``select_context`` of newer hosts: what they send instead of a request."""
        runtime = self.runtime
        if self.session_id not in runtime.rewrites.states:
            return None
        with self._guard("request rewrite"):
            session = runtime.session(self.session_id)
            seen = runtime.observe(self.session_id, conversation_messages, thorough=False)
            return runtime.rewrites.request(session, request_messages, seen, selected=True)
        return runtime.rewrites.typed(self.session_id, request_messages)

    def changed(self, messages: Sequence[Mapping[str, Any]], transcript: Transcript) -> None:
        """Requests are to show something else of this list from now on."""
        self.watch()
        rewrites = self.runtime.rewrites
        if self.rewritable():
            rewrites.expect(self.runtime.session(self.session_id), messages, transcript)
        else:
            rewrites.must_compact(self.session_id, f"requests to {self.api_mode} cannot be rewritten on this host")

    def _resumed(self, messages: Sequence[Mapping[str, Any]], transcript: Transcript) -> None:
        """The session is resumed with this list: know what its first request hides before the host measures it."""
        self.look(messages, transcript, turn=False)
        if self.rewritable():
            self.runtime.rewrites.expect(self.runtime.session(self.session_id), messages, transcript)

    def look(self, messages: Sequence[Mapping[str, Any]], transcript: Transcript, *, turn: bool = True) -> bool:
        """Is there anything that requests are to show otherwise? True where somebody typed more than a request can hold.

        ``turn``: a request is about to be made of the list, and the user hears of it when it is his latest.
        """
        runtime, window, most = self.runtime, self.config.window(self.context_length), _MOST_TOKENS
        fixed, factor = runtime.calibration.fixed(self.session_id), self._factor(runtime)(window)
        if self.rewritable():
            most = max(int(_NEARLY_FULL * window / factor) - fixed, self.threshold_tokens // 4)
        found = runtime.oversized.look(self.session_id, messages, transcript, most, factor)
        self.watch()
        if found:
            before = runtime.rewrites.spared(self.session_id)
            runtime.rewrites.expect(runtime.session(self.session_id), messages, transcript)
        if found and turn:
            self.pressure.shrank(runtime.rewrites.spared(self.session_id) - before)
            if latest_request(messages, transcript.entries) in found:
                self._tell(_OVERSIZED)
        return bool(found)

    def _handed(self, messages: Sequence[Mapping[str, Any]] | None) -> None:
        """The host goes on with the list of the last compaction, perhaps under another session id: know it before it is sent."""
        seen = self.runtime.observe(self.session_id, messages, thorough=False)
        if seen is None:
            self.watch()
            return
        self.look(*seen, turn=False)
        self.runtime.rewrites.expect(self.runtime.session(self.session_id), *seen)

    # -- compaction -----------------------------------------------------------------------------------
    def has_content_to_compress(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Would a manual compaction find anything?"""
        with self._guard("preflight"):
            runtime = self.runtime
            seen = runtime.observe(self.session_id, messages)
            if seen is None:
                return len(messages) > 2
            session, config = runtime.session(self.session_id), self.config
            request = Request(
                *seen, self.threshold_tokens, None, force=True, config=config, listed=sees_list(self, session)
            )
            return runtime.compress_pass.has_backlog(session, request)
        return True

    @_harmless(lambda messages, *_, **__: messages)
    def compress(
        self,
        messages: list[dict[str, Any]],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
        memory_context: str = "",
        **_: Any,
    ) -> list[dict[str, Any]]:
        """A smaller prompt that shows everything, or the very same list when none can be had."""
        self._last_compress_aborted = self._last_compression_made_progress = False
        self._last_summary_error = None
        self._last_summary_fallback_used = False
        self._line = ""
        began = time.monotonic()
        if not isinstance(messages, list) or not messages:
            return messages
        outcome: Outcome | None = None
        runtime = self.runtime
        with (
            self._guard("compaction", aborts=True),
            runtime.foreground,
            runtime.compress_pass.only_one(self.session_id) as first,
        ):
            if not first:
                logger.info("compaction of %s is already under way", self.session_id)
                return messages
            said = list(facts.without_notes(messages))
            focus, memory = runtime.filters.text(focus_topic or ""), runtime.filters.text(memory_context or "")
            wishes = (said, current_tokens, focus, force, memory, began)
            outcome = runtime.outlasting(lambda: self._compact(*wishes))
        if self._last_compress_aborted and not self._store_failed:
            outcome = self._last_resort(messages, current_tokens)
        self._account(outcome, current_tokens, force, began)
        self._proposed = outcome.messages if outcome is not None else None
        return outcome.messages if outcome is not None and outcome.messages is not None else messages

    def _compact(
        self, messages: list[dict[str, Any]], current: int | None, focus: str, force: bool, memory: str, began: float
    ) -> Outcome | None:
        runtime, config = self.runtime, self.config
        factor = self._factor(runtime)
        # From here on everything is in the host's own estimates.
        limit = self.threshold_tokens or config.threshold_tokens(self.context_length)
        seen = runtime.observe(self.session_id, messages)
        found = seen is not None and self.look(*seen)
        retold, shown, sent = self._sent(seen, messages, current)
        runtime.calibration.measure(self.session_id, shown, self.pressure.estimate_of(sent))
        if seen is not None and (self.look(*seen) or found):  # again: now it is known what goes out beside the list
            retold, _, sent = self._sent(seen, messages, current)
            if not force and self.pressure.calibrated(sent or 0, factor) < self._due(runtime):
                return None
        current = sent
        critical = runtime.config.is_critical(self.pressure.calibrated(current or 0, factor), self.context_length)
        threshold, current = self.pressure.size(limit, current, factor)
        rotation = runtime.orders.rotation(self.session_id) if seen is not None else None
        until = deadline(began, config.foreground_budget_ms, rotation=rotation is not None)
        if seen is None:
            return self._unstored(messages, threshold, current, focus, force=force, until=until)
        # Has the host (0.20 and newer) stopped waiting for this pass? It asks about the next pass in the same place.
        given_up = self._compression_cancelled_check or (lambda: False)
        force = force or rotation is not None
        due = threshold * self._due(runtime) // max(1, limit)
        narrow = not force and (current or 0) < due and bool(runtime.rewrites.unshown(self.session_id))
        runtime.refresh(self.session_id)  # another process may have learnt whose it is
        session = runtime.session(self.session_id)
        request = Request(
            *seen, threshold, current, force, focus, memory, until, given_up, narrow=narrow, critical=critical, due=due,
            settled=lambda: runtime.preparer.settled(session.conversation_id, until), config=config, retold=retold,
            lacking=rotation.lacking if rotation is not None else (), listed=sees_list(self, session),
        )  # fmt: skip
        runtime.preparer.give_up(session.conversation_id)
        with runtime.db.steady():
            outcome = runtime.compress_pass.compact(session, request)
        if self.session_id in runtime.rewrites.states:
            runtime.rewrites.compacted(session, *seen, progress=outcome.messages is not None)
        if rotation is not None and (outcome.messages is not None or not given_up()):
            runtime.orders.rotated(self.session_id)
        return outcome

    def _sent(
        self, seen: StoredList | None, messages: Sequence[Mapping[str, Any]], current: int | None
    ) -> tuple[dict[int, str], Sequence[Mapping[str, Any]], int | None]:
        """Other texts, by place, with which requests show messages; the list with them; the size of a request as it is sent."""
        if seen is None:
            return {}, messages, current
        retold, shown = self.runtime.oversized.shown(self.runtime.session(self.session_id), *seen)
        spared = facts.rough(seen.messages) - facts.rough(shown) if retold else 0
        return retold, shown, self.pressure.sent(current, min(spared, self.runtime.rewrites.spared(self.session_id)))

    def _unstored(
        self,
        messages: list[dict[str, Any]],
        threshold: int,
        current: int | None,
        focus: str,
        *,
        force: bool,
        until: float,
    ) -> Outcome:
        """A pass that neither reads nor writes the store."""
        runtime = self.runtime
        return unstored.compact(
            messages, threshold=threshold, current=current, force=force, focus=focus, config=self.config,
            summarise=runtime.summarise, rough=facts.rough, deadline=until, filters=runtime.filters,
        )  # fmt: skip

    def _nearly_full(self, used: int) -> bool:
        runtime = self.runtime
        filled = self.pressure.calibrated(used, self._factor(runtime))
        return filled >= _NEARLY_FULL * runtime.config.window(self.context_length)

    def _last_resort(self, messages: list[dict[str, Any]], current: int | None) -> Outcome | None:
        """A prompt inside the window where nothing can be stored: extracts instead of the oldest messages.

        They are still in the host's own transcript. None: the list is no danger yet, so the host goes on with it.
        """
        said = list(facts.without_notes(messages))
        used = max(facts.rough(said), current or 0) - self.runtime.rewrites.spared(self.session_id)
        if not self._nearly_full(used):
            return None
        with self._guard("extract"):
            limit = self.threshold_tokens or self.config.threshold_tokens(self.context_length)
            threshold = int(limit / self._factor(self.runtime)(used))
            outcome = self._unstored(said, threshold, used, "", force=True, until=time.monotonic() - 1.0)
            if outcome.messages is not None:
                self._last_compress_aborted, self._cooldown_until = False, 0.0
                session = self.runtime.stored(self.session_id)
                if session is not None:
                    outcome = replace(outcome, messages=unstored.as_context_message(outcome.messages, session.nonce))
            return outcome
        return None

    def _account(self, outcome: Outcome | None, current: int | None, force: bool, began: float) -> None:
        """Tell host and status what came of the pass."""
        if outcome is None:
            return
        self.last_compression = {
            "at": time.time(), "seconds": round(time.monotonic() - began, 3), "result": outcome.reason,
            "before_tokens": outcome.before_tokens, "after_tokens": outcome.after_tokens,
            "provisional_nodes": outcome.provisional, "assembly": outcome.assembly_id, "forced": force,
        }  # fmt: skip
        runtime, factor, seconds = self.runtime, self._factor(self.runtime), time.monotonic() - began
        runtime.health.counters["compaction_tries"] += 1
        runtime.took("compaction_seconds", seconds)
        self.pressure.passed(outcome, current, self._due(runtime), factor, force=force)
        if outcome.messages is None:
            if force or current is None or self.pressure.calibrated(current, factor) >= self.threshold_tokens:
                self._refuse(compress.not_folded(outcome.reason))
            return
        self._line = compress.folded(outcome, seconds, self._where())
        runtime.health.counters["compactions"] += 1
        saved = max(0, outcome.before_tokens - outcome.after_tokens)
        runtime.count("compaction_saved_tokens_total", saved)
        if outcome.assembly_id:
            with self._guard("cost ledger"):
                runtime.costs.folded(self.session_id, outcome.assembly_id, outcome.before_tokens, outcome.after_tokens)
                runtime.costs.note(self.session_id, unused=outcome.unused)
        self._last_compression_made_progress = True
        self._last_summary_fallback_used = outcome.provisional > 0
        runtime.save_states()  # a host without a session database makes no boundary behind a compaction

    # -- what the user hears --------------------------------------------------------------------------
    def _tell(self, line: str) -> None:
        """A line for the user, if this chat wants it and the host has a place for it."""
        if line and self.runtime.wants_notices(self.session_id):
            with self._guard("notice"):
                facts.tell(self, line)

    def _refuse(self, line: str) -> None:
        """Tell of a compaction that did not happen; a host that asks again in each turn is not answered again."""
        if line != self._refusal:
            self._refusal = line
            self._tell(line)

    def _where(self) -> str:
        """The user's way to look at what was folded."""
        if self.runtime.config.enable_slash_command:
            return "/lcm shows them"
        return "`hermes lcm` shows them" if self.platform in LOCAL_PLATFORMS else ""

    @_harmless(lambda *_, **__: None)
    def get_automatic_compaction_status_message(self, *, phase: str = "", **_: Any) -> str | None:
        """Status line of newer hosts before a pass. The line with the figures comes after it, so a chat hears nothing here."""
        local = phase == "compress" and self.platform in LOCAL_PLATFORMS
        return compress.BEGINS if local and self.runtime.wants_notices(self.session_id) else None

    @_harmless(lambda *_, **__: (False, None))
    def should_compress_info(self, prompt_tokens: int | None = None) -> tuple[bool, str | None]:
        """Answer of ``should_compress``, and for newer hosts the reason why a prompt over its threshold is not folded."""
        due = self.should_compress(prompt_tokens)
        used = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        if due or self._put_off or not self.threshold_tokens or used < self.threshold_tokens:
            return due, None
        if self.get_active_compression_failure_cooldown() is not None:
            return due, "cooldown: the LCM database cannot be used; the next try comes within seconds"
        full = self._nearly_full(used)  # before that there is no danger to warn of
        return due, "ineffective: only the newest messages are left, and they stay as they are" if full else None

    # -- tools ----------------------------------------------------------------------------------------
    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Bare function schemas, the same bytes at every call."""
        return [dict(schema) for schema in SCHEMAS]

    @_harmless(lambda name, *_, **__: tools.failed(f"{name} failed; the log of Hermes says why").text)
    def handle_tool_call(self, name: str, args: Mapping[str, Any] | None = None, **kwargs: Any) -> str:
        """Answer one of the agent's tool calls; errors are part of the answer."""
        began = time.monotonic()
        said = self._answer(name, args, kwargs)
        tool = name if any(schema["name"] == name for schema in SCHEMAS) else "unknown"
        self.runtime.took("tool_seconds", time.monotonic() - began, tool=tool)
        self.runtime.count("tool_calls_total", tool=tool, result=said.result)
        return facts.told_apart(said.text) if said.result == "ok" else said.text

    def _answer(self, name: str, args: Mapping[str, Any] | None, kwargs: Mapping[str, Any]) -> tools.Called:
        messages, transcript = kwargs.get("messages"), None
        session_id = str(kwargs.get("session_id") or self.session_id)
        with self._guard(INGEST):
            messages, transcript = self.runtime.observe(session_id, messages) or (messages, None)
        try:
            access = tools.tool_access(self, name, session_id, transcript, messages)
            said = tools.call(access, name, args if isinstance(args, Mapping) else {})
        except LcmError as exc:
            return tools.failed(str(exc), getattr(exc, "remedy", "run lcm_doctor"))
        except Exception as exc:
            logger.exception("tool %s failed", name)
            self.runtime.health.degraded(f"tool {name}", exc)
            return tools.failed(f"{name} failed: {worded(exc)}")
        self.runtime.health.resolved(f"tool {name}")
        return said

    # -- status ---------------------------------------------------------------------------------------
    def get_status(self) -> dict[str, Any]:
        """The host's display fields, with the true number of compactions."""
        used = max(0, self.last_prompt_tokens)
        return {
            "last_prompt_tokens": used,
            "threshold_tokens": self.threshold_tokens,
            "context_length": self.context_length,
            "usage_percent": min(100, used / self.context_length * 100) if self.context_length else 0,
            "compression_count": self.compactions,
        }

    @property
    def home(self) -> Path:
        return Path(self._home) if self._home else facts.hermes_home()

    def _guard(self, topic: str, *, aborts: bool = False, runtime: Runtime | None = None) -> Guard:
        """A guard that survives every failure inside, and remembers it."""
        return Guard(topic, partial(self._succeeded, runtime), partial(self._failed, aborts=aborts))

    def _succeeded(self, runtime: Runtime | None, topic: str) -> None:
        """Called by the guard: what had been wrong before is resolved."""
        if topic != INGEST:
            (runtime or self.runtime).health.resolved(topic)

    def _failed(self, topic: str, error: Exception, *, aborts: bool) -> None:
        """Called by the guard: the host goes on with its own messages, status says why."""
        self.runtime.health.degraded(topic, error)
        self.runtime.health.save()
        if aborts:
            self._last_compress_aborted = True
            # A stand-in took over where one can be made, in memory at the least; what remains is no list to rewrite.
            self._store_failed = isinstance(error, StoreError)
            self._last_summary_error = worded(error)
            self._cooldown_until = time.monotonic() + _STORE_COOLDOWN_S
            self.last_compression = {"at": time.time(), "result": f"failed: {error}"}


def count(value: Any, default: int) -> int:
    """Tokens that a provider reported; what cannot be such a number is ``default``."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and -_MOST_TOKENS < value < _MOST_TOKENS
    return max(0, int(value)) if known else default


class Guard:
    """The host boundary: an exception inside is remembered and goes no further."""

    def __init__(self, topic: str, succeeded: Callable[[str], None], failed: Callable[[str, Exception], None]) -> None:
        self._topic = topic
        self._succeeded = succeeded
        self._failed = failed

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            try:
                self._succeeded(self._topic)
            except Exception:
                logger.exception("the success of %s could not be noted", self._topic)
            return False
        if not isinstance(error, Exception):
            return False
        if not isinstance(error, LcmError):
            logger.error("%s failed", self._topic, exc_info=error)
        try:
            self._failed(self._topic, error)
        except Exception:
            logger.exception("the failure of %s could not be noted", self._topic)
        return True
