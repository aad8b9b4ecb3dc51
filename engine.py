"""
The context engine: the host's calls in, the plugin's verbs out.

Holds no SQL, no prompts and no policy. A copied engine carries a home and a session id; everything else is the
runtime's. This is a host boundary: nothing that goes wrong in here ends the user's turn (P10), and nothing of it is
forgotten (P9).
"""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.context_engine import ContextEngine

from . import binding, hooks, host, outgoing, plain, tools
from .boundary import Guard, count
from .compact import Request
from .errors import LcmError
from .llm.client import keep_progress
from .prices import Prices
from .records import Lineage
from .runtime import RUNTIMES, Runtime
from .schemas import SCHEMAS
from .swap import Outcome

logger = logging.getLogger("hermes_lcm")

_RETRY_GROWTH = 1.03  # after a pass without progress: try again when the prompt has grown by this much
_OTHER_MEASURE = 4  # estimates and counts of one prompt do not differ by more
_STORE_COOLDOWN_S = 10.0
_births = itertools.count(1)


class LCMEngine(ContextEngine):
    """Lossless context management for one agent. The registered object is a prototype; the host copies it."""

    protect_first_n = 0
    protect_last_n = 2

    def __init__(self) -> None:
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
        self._session_id = ""
        self._platform = ""
        self._host_key: str | None = None
        self._home: str | None = None
        self._session_db: Any = None
        self._left: str | None = None
        self._stuck_at = 0
        self._cooldown_until = 0.0
        self._handed_over = 0
        self.last_compression: dict[str, Any] = {}
        self._last_compress_aborted = False
        self._last_compression_made_progress = False
        self._last_summary_error: str | None = None
        self._last_summary_fallback_used = False
        self._last_aux_model_failure_model: str | None = None
        self._last_aux_model_failure_error: str | None = None
        self._compression_cancelled_check: Callable[[], bool] | None = None
        self.born = 0
        #: The host's estimate of the request that is on its way, and what the provider counted for the last one.
        self._requested_tokens = self._estimated_tokens = 0
        self._reported_tokens = -1
        self.prices = Prices()
        self.sending: tuple[int, object] | None = (
            None  # how long the list of the request on its way is, what it shows otherwise
        )
        self._proposed: list[dict[str, Any]] | None = (
            None  # the list of the last compaction, until the host takes it over
        )
        #: What the provider counted since this engine began: requests, prompt_tokens, cache_read_tokens.
        self.cache: Counter[str] = Counter()

    @property
    def host_key(self) -> str:
        """The gateway's key of the chat this engine works for; "" at a terminal."""
        return self._host_key or ""

    @property
    def counted_tokens(self) -> int:
        """The prompt as the provider counted it last; 0 if that was before a compaction, or never."""
        return max(0, self._reported_tokens) if self.last_prompt_tokens > 0 else 0

    @property
    def name(self) -> str:
        return "lcm"

    def is_available(self) -> bool:
        """Nothing but the standard library is needed."""
        return True

    # -- copies ---------------------------------------------------------------------------------------
    def __deepcopy__(self, memo: dict[int, Any]) -> LCMEngine:
        """A new engine for another agent: no connection, no thread, no lock is copied or opened."""
        return type(self)()

    def clone_for_agent(self, *_: Any, **__: Any) -> LCMEngine:
        """What newer hosts may ask for instead of a deep copy."""
        return type(self)()

    @property
    def runtime(self) -> Runtime:
        return RUNTIMES.at(self._home)

    # -- model and tokens -----------------------------------------------------------------------------
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
        except (TypeError, ValueError):
            self.context_length = 0
        config = self.runtime.config
        self.fallback_context = self.context_length <= 0
        self.runtime.saw_window(model, self.context_length)
        self.threshold_tokens = config.threshold_tokens(self.context_length)
        self.threshold_percent = self.threshold_tokens / max(1, config.window(self.context_length))
        self._stuck_at = 0

    def update_from_response(self, usage: Mapping[str, Any] | None = None, **_: Any) -> None:
        """What the provider counted."""
        usage = usage if isinstance(usage, Mapping) else {}
        self.last_prompt_tokens = count(usage.get("prompt_tokens"), self.last_prompt_tokens)
        if count(usage.get("prompt_tokens"), 0):
            self._reported_tokens = self.last_prompt_tokens
            self.runtime.views.answered(self._session_id)
            if self.sending is not None:
                self.prices.note(self.sending[0], self._reported_tokens, self.sending[1])
            seen = (self._requested_tokens, self._reported_tokens, self._session_id)
            self.runtime.calibration.observe(self.model, *seen)
            self._requested_tokens = 0
            self._count_cached(count(usage.get("cache_read_tokens"), 0))
        self.last_completion_tokens = count(usage.get("completion_tokens"), 0)
        self.last_total_tokens = count(usage.get("total_tokens"), self.last_prompt_tokens + self.last_completion_tokens)

    def _count_cached(self, read: int) -> None:
        """How much of the prompt came from the provider's cache."""
        self.cache.update(requests=1, prompt_tokens=self.last_prompt_tokens, cache_read_tokens=read)
        self.runtime.metrics.count("prompt_tokens_total", self.last_prompt_tokens)
        self.runtime.metrics.count("cached_prompt_tokens_total", read)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Is the prompt at its threshold, and has anything changed since a pass that could do nothing?"""
        used = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        if used != self._reported_tokens:
            # The host's estimate of the whole request, tool schemas included, of its list as it is.
            used = max(0, used - self.runtime.views.spared(self._session_id))
            self._requested_tokens = self._estimated_tokens = used
        if not self.threshold_tokens or self._calibrated(used) < self.threshold_tokens:
            return self._rotation_waits() or bool(self.runtime.views.unshown(self._session_id))
        if used * _OTHER_MEASURE < self._stuck_at:
            self._stuck_at = 0  # what was reported then was no size of this prompt
        return used > self._stuck_at * _RETRY_GROWTH

    def _rotation_waits(self) -> bool:
        """Has an operator ordered that this session's old messages leave the prompt (``/lcm rotate apply``)?"""
        with self._guard("orders"):
            return bool(self._session_id) and self.runtime.orders.rotation(self._session_id) is not None
        return False

    def _calibrated(self, used: int) -> int:
        """An estimate of the host in tokens of the provider; what the provider itself counted stays as it is."""
        if used == self._reported_tokens:
            return used
        return int(used * self.runtime.calibration.factor(self.model, self._session_id, request=used))

    def should_compress_preflight(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Never called by the hosts known; the same question for those that do."""
        return self.should_compress(host.rough(messages))

    def get_active_compression_failure_cooldown(self, **_: Any) -> dict[str, Any] | None:
        """While the database cannot be used, automatic compaction waits a little."""
        left = self._cooldown_until - time.monotonic()
        return {"remaining_seconds": left, "reason": "the LCM database cannot be used"} if left > 0 else None

    # -- sessions ---------------------------------------------------------------------------------------
    def bind_session_state(self, session_db: Any = None, session_id: str = "", **_: Any) -> None:
        """The host's own transcript, and which session this engine works for from now on."""
        self._session_db = session_db
        self._enlist()
        left, self._left = self._left, None
        if not session_id:
            return
        self._session_id = session_id
        if session_db is None:
            return
        with self._guard("bind"):
            self._announce(session_id, left)
            if left is not None:
                self._catch_up()

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        """A new agent for a session, or (``boundary_reason="compression"``) the prompt of ours was taken over."""
        self._home = str(kwargs.get("hermes_home") or self._home or "") or None
        self._platform = str(kwargs.get("platform") or self._platform or "")
        self._host_key = kwargs.get("conversation_id") or self._host_key
        self._session_id = session_id or self._session_id
        self._enlist()
        with self._guard("session start"):
            if kwargs.get("boundary_reason") == "compression":
                self._boundary(str(kwargs.get("old_session_id") or session_id))
                return
            self._announce(session_id, None)
            known = self.runtime.known(session_id) if self.runtime.db.path.exists() else None
            self.compactions = known.compactions if known else 0
            self._catch_up()

    def _enlist(self) -> None:
        """Let hooks and commands find this engine."""
        self.born = next(_births)
        hooks.ENGINES.add(self)

    def _announce(self, session_id: str, left: str | None) -> None:
        """Tell the runtime what is known of a session that may be new."""
        runtime = self.runtime
        parent, origin = binding.parent_of(self._session_db, session_id)
        fresh = left is not None and left != session_id and parent is None
        runtime.announce(
            session_id, platform=self._platform or None, host_key=self._host_key, model=self.model or None,
            parent=parent, origin=origin if parent else None, carry_from=left if fresh else None,
        )  # fmt: skip

    def _boundary(self, old_id: str) -> None:
        """The host goes on with the prompt of the last ``compress``; under rotation with a new session id."""
        runtime = self.runtime
        if old_id != self._session_id:
            runtime.announce(
                self._session_id,
                platform=self._platform or None,
                host_key=self._host_key,
                parent=old_id,
                origin="rotation",
            )
        if runtime.mode(self._session_id) == "full":
            session = runtime.session(self._session_id)
            if old_id != session.session_id:
                runtime.sessions.end(old_id, now=time.time(), reason="compression")
            runtime.sessions.compacted(session.session_id)
            runtime.refresh(session.session_id)
        self.compactions += 1
        self.compression_count = min(1, self.compactions)
        proposed, self._proposed = self._proposed, None
        self.prices.clear()
        outgoing.handed_over(self, proposed)

    def _catch_up(self) -> None:
        """Take in what the host persisted and a killed process never handed over."""
        runtime = self.runtime
        if self._session_db is None or runtime.ingest.knows(self._session_id) or host.in_background_review():
            return
        messages = binding.transcript(self._session_db, self._session_id)
        if messages and runtime.mode(self._session_id) == "full":
            outgoing.caught_up(self, messages)

    def on_session_end(self, session_id: str, messages: Sequence[Mapping[str, Any]] | None = None, **_: Any) -> None:
        """A boundary (also inside every compaction). A list is a list; an empty one says nothing."""
        with self._guard("session end"):
            if messages and session_id and not host.in_background_review():
                self._take(session_id, messages)
            self.runtime.save_states()

    def on_session_reset(self) -> None:
        """/new, /resume or /branch: which one is known when the next session is bound. Nothing is deleted."""
        self._left = self._session_id or None
        self.last_prompt_tokens = self.last_completion_tokens = self.last_total_tokens = 0
        self.compression_count = self.compactions = 0
        self._stuck_at = 0

    def carry_over_new_session_context(self, old_session_id: str, new_session_id: str, **_: Any) -> None:
        """The host says itself that a new session continues an old one."""
        with self._guard("carry over"):
            self.runtime.announce(new_session_id, carry_from=old_session_id)

    def on_turn_complete(self, messages: Sequence[Mapping[str, Any]] | None = None, **_: Any) -> None:
        """The normal end of a turn, on hosts that tell it."""
        with self._guard(hooks.INGEST):
            if messages and self._session_id and not host.in_background_review():
                lineage = self._take(self._session_id, messages)
                if lineage is not None:
                    self.prepare(host.said(messages), lineage)

    def prepare(self, messages: Sequence[Mapping[str, Any]], lineage: Lineage) -> None:
        """Let the worker look at the session."""
        runtime = self.runtime
        factor = runtime.calibration.factor(self.model, self._session_id, request=self._estimated_tokens)
        threshold = int(self.threshold_tokens / factor)
        critical = runtime.config.is_critical(self.last_prompt_tokens, self.context_length)
        request = Request(list(messages), lineage, threshold, self._estimated_tokens, critical=critical)
        look = runtime.superseded.look if outgoing.rewritable(self) else None
        runtime.preparer.after_turn(runtime.session(self._session_id), request, look=look)

    def _take(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> Lineage | None:
        runtime = self.runtime
        if runtime.mode(session_id) != "full":
            return None
        return runtime.take(session_id, host.said(messages))

    # -- compaction -----------------------------------------------------------------------------------
    def has_content_to_compress(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Would a manual compaction find anything?"""
        with self._guard("preflight"):
            lineage = self._take(self._session_id, messages) if self._session_id else None
            if lineage is None:
                return len(messages) > 2
            request = Request(host.said(messages), lineage, self.threshold_tokens, None, force=True)
            return self.runtime.swap.has_backlog(self.runtime.session(self._session_id), request)
        return True

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
        began = time.monotonic()
        if not isinstance(messages, list) or not messages:
            return messages
        outcome: Outcome | None = None
        with self._guard("compaction", aborts=True), binding.only_one(self.runtime, self._session_id) as first:
            if not first:
                logger.info("compaction of %s is already under way", self._session_id)
                return messages
            said = list(host.said(messages))
            outcome = self._compact(said, current_tokens, focus_topic or "", force, memory_context, began)
        self._account(outcome, current_tokens, force, began)
        self._proposed = outcome.messages if outcome is not None else None
        return outcome.messages if outcome is not None and outcome.messages is not None else messages

    def _compact(
        self, messages: list[dict[str, Any]], current: int | None, focus: str, force: bool, memory: str, began: float
    ) -> Outcome:
        runtime = self.runtime
        threshold = self.threshold_tokens or runtime.config.threshold_tokens(self.context_length)
        estimated = current if current is not None and current != self._reported_tokens else self._estimated_tokens
        runtime.calibration.measure(self._session_id, messages, estimated)
        factor = runtime.calibration.factor(self.model, self._session_id, request=estimated)
        threshold = int(threshold / factor)  # from here on everything is in the host's own estimates
        critical = runtime.config.is_critical(self._calibrated(current or 0), self.context_length)
        if current is not None and current == self._reported_tokens:
            current = int(current / factor)
        deadline = began + runtime.config.foreground_budget_ms / 1000
        keep_progress()
        lineage = self._take(self._session_id, messages) if self._session_id else None
        if lineage is None:
            return plain.compact(
                messages, threshold=threshold, current=current, force=force, focus=focus, config=runtime.config,
                summarise=runtime.summarise, rough=host.rough, deadline=deadline, door=runtime.door,
            )  # fmt: skip
        # Has the host (0.20 and newer) stopped waiting for this pass? It asks about the next pass in the same place.
        given_up = self._compression_cancelled_check or (lambda: False)
        rotation = runtime.orders.rotation(self._session_id)
        if rotation is not None:  # an operation on prompt and backup, not a synthesis: no model is asked
            force, deadline = True, began - 1.0
        narrow = not force and (current or 0) < threshold and bool(runtime.views.unshown(self._session_id))
        request = Request(
            messages, lineage, threshold, current, force, focus, memory, deadline, given_up, narrow=narrow,
            critical=critical,
        )  # fmt: skip
        outcome = runtime.swap.compact(runtime.session(self._session_id), request)
        outgoing.tried(runtime, self._session_id, messages, lineage, outcome)
        if rotation is not None:
            runtime.orders.rotated(self._session_id)
        return outcome

    def _account(self, outcome: Outcome | None, current: int | None, force: bool, began: float) -> None:
        """Tell host and status what came of the pass."""
        if outcome is None:
            return
        self.last_compression = {
            "at": time.time(), "seconds": round(time.monotonic() - began, 3), "result": outcome.reason,
            "before_tokens": outcome.before_tokens, "after_tokens": outcome.after_tokens,
            "provisional_nodes": outcome.provisional, "assembly": outcome.assembly_id, "forced": force,
        }  # fmt: skip
        counters, metrics = self.runtime.health.counters, self.runtime.metrics
        counters["compaction_tries"] += 1
        metrics.observe("compaction_seconds", time.monotonic() - began)
        if outcome.messages is None:
            if not force and (current is None or self._calibrated(current) >= self.threshold_tokens):
                self._stuck_at = max(current or 0, self.threshold_tokens)
            return
        counters["compactions"] += 1
        metrics.count("compaction_saved_tokens_total", saved := max(0, outcome.before_tokens - outcome.after_tokens))
        self._requested_tokens = self._estimated_tokens = max(
            0, self._estimated_tokens - saved
        )  # no new estimate comes
        # Still over the threshold: all that can be done was done, so the next pass waits until the prompt has grown.
        self._stuck_at = self.threshold_tokens if outcome.over_limit else 0
        self._last_compression_made_progress = True
        self._last_summary_fallback_used = outcome.provisional > 0
        self.runtime.save_states()

    # -- tools ----------------------------------------------------------------------------------------
    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Bare function schemas, the same bytes at every call."""
        return [dict(schema) for schema in SCHEMAS]

    def handle_tool_call(self, name: str, args: Mapping[str, Any] | None = None, **kwargs: Any) -> str:
        """Answer one of the agent's tool calls; errors are part of the answer."""
        began = time.monotonic()
        said = self._answer(name, args, kwargs)
        tool = name if any(schema["name"] == name for schema in SCHEMAS) else "unknown"
        self.runtime.metrics.observe("tool_seconds", time.monotonic() - began, tool=tool)
        result = "error" if said.startswith('{"error"') else "ok"
        self.runtime.metrics.count("tool_calls_total", tool=tool, result=result)
        return said

    def _answer(self, name: str, args: Mapping[str, Any] | None, kwargs: Mapping[str, Any]) -> str:
        messages = kwargs.get("messages")
        session_id = str(kwargs.get("session_id") or self._session_id)
        lineage: Lineage | None = None
        with self._guard(hooks.INGEST):
            if messages and session_id and not host.in_background_review():
                messages = host.said(messages)
                lineage = self._take(session_id, messages)
        try:
            deps = binding.tool_deps(self, session_id, lineage, messages)
            said = tools.call(deps, name, args if isinstance(args, Mapping) else {}, messages=messages)
        except LcmError as exc:
            return json.dumps({"error": str(exc), "remedy": getattr(exc, "remedy", "run lcm_doctor")})
        except Exception as exc:
            logger.exception("tool %s failed", name)
            self.runtime.health.degraded(f"tool {name}", exc)
            return json.dumps({"error": f"{name} failed: {type(exc).__name__}: {exc}"})
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
    def session_id(self) -> str:
        """The host session this engine works for; "" before the first."""
        return self._session_id

    @property
    def home(self) -> Path:
        return Path(self._home) if self._home else host.hermes_home()

    def _guard(self, topic: str, *, aborts: bool = False) -> Guard:
        """Survive whatever happens inside, and remember it."""
        return Guard(self, topic, aborts)

    def succeeded(self, topic: str) -> None:
        """Called by the guard: what had been wrong before is resolved."""
        if topic != hooks.INGEST:
            self.runtime.health.resolved(topic)

    def failed(self, topic: str, error: Exception, aborts: bool) -> None:
        """Called by the guard: the host goes on with its own messages, status says why."""
        self.runtime.health.degraded(topic, error)
        self.runtime.health.save()
        if aborts:
            self._last_compress_aborted = True
            self._last_summary_error = f"{type(error).__name__}: {error}"
            self._cooldown_until = time.monotonic() + _STORE_COOLDOWN_S
            self.last_compression = {"at": time.time(), "result": f"failed: {error}"}
