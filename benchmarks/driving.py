"""
The plugin as the host drives it: one engine, the hooks, a conversation that grows turn by turn.

Nothing here decides anything for the plugin; it only calls in the host's order and notes times.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import Any

from kit import Chat, InstantModel

#: Whether a compaction is waiting for what is asked of the model (the plugin's threads inherit it).
_WAITED_FOR: ContextVar[bool] = ContextVar("waited_for", default=False)


def fresh_process() -> None:
    """What a new process has: nothing but the files."""
    from hermes_lcm import engine, runtime

    for old in engine.PROCESS.runtimes():
        old.preparer.stop()
        old.db.close()
    new = runtime.Process()
    for name, module in list(sys.modules.items()):
        if name.startswith("hermes_lcm") and hasattr(module, "PROCESS"):
            module.PROCESS = new  # type: ignore[attr-defined]


def hook(name: str, session_id: str, messages: Sequence[Chat], **facts: Any) -> None:
    from hermes_lcm import runtime
    from hermes_lcm.plugin import hooks

    runtime.PROCESS.engines.used = True  # hooks store where an agent of the process has the engine
    hooks.HOOKS[name](session_id=session_id, conversation_history=messages, platform="cli", model="m", **facts)


class Agent:
    """One engine in a process of its own, bound to a session. ``settled``: summaries are ready before each request."""

    def __init__(self, session_id: str, window: int = 128_000, *, settled: bool = False) -> None:
        fresh_process()
        from hermes_lcm.engine import LCMEngine

        self.session_id = session_id
        self.settled = settled
        self.engine = LCMEngine()
        self.engine.on_session_start(session_id, platform="cli")
        self.engine.update_model(model="m", context_length=window)
        self.messages: list[Chat] = []
        self.compactions: list[dict[str, Any]] = []

    @property
    def runtime(self) -> Any:
        return self.engine.runtime

    @cached_property
    def host(self) -> Any:
        """The host's database of sessions."""
        from hermes_state import SessionDB  # the home is set by now

        return SessionDB(Path(os.environ["HERMES_HOME"]) / "state.db")

    def begin(self, session_id: str) -> None:
        """Begin or resume a session at the terminal, with a row in the host's database: its user may read all of them."""
        if self.host.get_session(session_id) is None:
            self.host.create_session(session_id, "cli")
        self.session_id = session_id
        self.engine.bind_session_state(session_db=self.host, session_id=session_id)
        self.engine.on_session_start(session_id, platform="cli")

    def close(self) -> None:
        fresh_process()

    # -- tools ----------------------------------------------------------------------------------------
    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        given = arguments if name in ("lcm_archive", "lcm_expand_query") else {"format": "json", **arguments}
        answer = json.loads(self.engine.handle_tool_call(name, given, session_id=self.session_id))
        return answer if isinstance(answer, dict) else {"error": "no object"}

    # -- turns ----------------------------------------------------------------------------------------
    def turn(self, turn: Sequence[Chat], before_request: Callable[[list[Chat]], None] | None = None) -> None:
        """The user's message, then requests: one before each message of the assistant."""
        self.messages.append(dict(turn[0]))
        hook("pre_llm_call", self.session_id, self.messages)
        for message in turn[1:]:
            if message["role"] == "assistant":
                self._request(before_request)
            self.messages.append(dict(message))
        hook("post_llm_call", self.session_id, self.messages)

    def _request(self, before_request: Callable[[list[Chat]], None] | None) -> None:
        from hermes_lcm.host import facts as host

        if self.settled:
            self.runtime.preparer.idle(30)
        size = host.rough(self.messages)
        if self.engine.should_compress(size):
            self._compress(size)
            size = host.rough(self.messages)
        hook("pre_api_request", self.session_id, self.messages, approx_input_tokens=size)
        if before_request is not None:
            before_request(self.messages)

    def _compress(self, size: int) -> None:
        waiting = _WAITED_FOR.set(True)
        began, processor = time.perf_counter(), time.thread_time()
        try:
            out = self.engine.compress(self.messages, current_tokens=size)
        finally:
            _WAITED_FOR.reset(waiting)
        ended, processor = time.perf_counter(), time.thread_time() - processor
        facts = self.engine.last_compression
        self.compactions.append({"began": began, "ended": ended, "processor": processor, "before": size, **facts})
        if out is not self.messages:
            self.messages = list(out)
            self.engine.on_session_start(
                self.session_id, platform="cli", boundary_reason="compression", old_session_id=self.session_id
            )


class SlowModel(InstantModel):
    """The instant model behind a delay; notes when a compaction was waiting for it."""

    def __init__(self, delay_s: float) -> None:
        super().__init__()
        self.delay_s = delay_s
        self.waits: list[tuple[float, float]] = []
        self.ahead = 0
        self._gate = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        if self.delay_s:
            time.sleep(self.delay_s)
        with self._gate:
            if _WAITED_FOR.get():
                self.waits.append((began, time.perf_counter()))
            else:
                self.ahead += 1
        return super().__call__(*args, **kwargs)

    def waited(self, began: float, ended: float) -> float:
        """Seconds of an interval in which a compaction had to wait for the model."""
        total, at = 0.0, began
        for start, stop in sorted(self.waits):
            start, stop = max(start, at), min(stop, ended)
            if stop > start:
                total, at = total + stop - start, stop
        return total
