"""
The host's hooks: every point at which it shows a live list.

Registered once for the process, so they find the session by the id they carry and the engine (if one is needed)
through a registry of live engines. A host boundary, like the engine: nothing that happens in here reaches the turn.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from . import host, outgoing
from .errors import LcmError
from .records import Lineage
from .runtime import RUNTIMES, Runtime

if TYPE_CHECKING:
    from .engine import LCMEngine

logger = logging.getLogger("hermes_lcm")

Messages = Sequence[Mapping[str, Any]]

#: The session key of the gateway message that is being handled, for slash commands (which get none).
_gateway_key: ContextVar[str] = ContextVar("lcm_gateway_key", default="")


#: What is wrong with storing ends when a list was stored (``Runtime.take``), not when a call had none to store.
INGEST = "ingest"


class Engines:
    """The live engine copies by session id; the newest one of a session wins. Holds none of them alive."""

    def __init__(self) -> None:
        self._all: weakref.WeakSet[LCMEngine] = weakref.WeakSet()
        self._by_session: weakref.WeakValueDictionary[str, LCMEngine] = weakref.WeakValueDictionary()
        #: Was one ever bound in this process? Where the host uses another engine its hooks still come here.
        self.used = False

    def add(self, engine: LCMEngine) -> None:
        """An engine was bound to a session (again)."""
        self.used = True
        self._all.add(engine)
        if engine.session_id:
            self._by_session[engine.session_id] = engine

    def of(self, session_id: str) -> LCMEngine | None:
        """The engine that works for a session."""
        engine = self._by_session.get(session_id)
        if engine is not None and engine.session_id == session_id:
            return engine
        found = [engine for engine in list(self._all) if engine.session_id == session_id]
        return max(found, key=lambda engine: engine.born, default=None)

    def with_key(self, host_key: str) -> LCMEngine | None:
        """The newest engine of a gateway chat."""
        found = [engine for engine in list(self._all) if engine.host_key == host_key]
        return max(found, key=lambda engine: engine.born, default=None)

    def newest(self) -> LCMEngine | None:
        """The engine that was bound last, whatever its session."""
        found = [engine for engine in list(self._all) if engine.session_id]
        return max(found, key=lambda engine: engine.born, default=None)


ENGINES = Engines()


def _bound() -> bool:
    """Has an agent of this process been given our engine?"""
    return ENGINES.used


def _chosen() -> bool:
    """The same, or will it be? In a gateway that was just started a session may end before an agent begins."""
    return ENGINES.used or host.selected_engine() == "lcm"


def _survives(
    topic: str, *, when: Callable[[], bool] = _bound, anyway: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A callback whose failure is remembered and goes no further.

    Where the user chose another engine nothing happens; ``anyway``: the callback is called, for it touches no runtime.
    """

    def wrap(callback: Callable[..., None]) -> Callable[..., None]:
        def guarded(**kwargs: Any) -> None:
            ours = when()
            if not ours and not anyway:
                return
            try:
                callback(**kwargs)
                if ours and topic != INGEST:
                    RUNTIMES.at().health.resolved(topic)
            except Exception as exc:
                if not isinstance(exc, LcmError):
                    logger.exception("%s failed", topic)
                if ours:
                    health = RUNTIMES.at().health
                    health.degraded(topic, exc)
                    health.save()

        guarded.__name__ = callback.__name__
        guarded.__doc__ = callback.__doc__
        return guarded

    return wrap


class _Taken(NamedTuple):
    """A live list that was taken in: without notes of a gateway, so that every use of it means the same places."""

    runtime: Runtime
    messages: Messages
    lineage: Lineage


def _take(session_id: str, history: Messages | None, platform: str | None, *, thorough: bool = True) -> _Taken | None:
    """Ingest, unless the list is not the user's conversation."""
    if not session_id or not history or host.in_background_review():
        return None
    runtime = RUNTIMES.at()
    seen = runtime.ingest.recognise(session_id, history, thorough=thorough)
    messages = host.said(history, seen.count)
    if not messages or _is_review(messages) or runtime.mode(session_id) != "full":
        return None
    if platform:
        runtime.announce(session_id, platform=platform)
    return _Taken(runtime, messages, runtime.take(session_id, messages, thorough=thorough, seen=seen))


def _is_review(messages: Messages) -> bool:
    """Text of the host's background review never belongs to the user's history."""
    return any(
        host.is_review_prompt(message.get("content")) for message in messages[-40:] if message.get("role") == "user"
    )


@_survives(INGEST)
def pre_llm_call(
    session_id: str = "", conversation_history: Messages | None = None, platform: str = "", **_: Any
) -> None:
    """Once a turn, with the new user message."""
    engine = ENGINES.of(session_id)
    if _take(session_id, conversation_history, platform, thorough=False) is not None and engine is not None:
        outgoing.watch(engine)


@_survives(INGEST)
def pre_api_request(
    session_id: str = "", conversation_history: Messages | None = None, platform: str = "", **_: Any
) -> None:
    """Before every request: what the model is about to see is durable before it is sent (P1)."""
    taken = _take(session_id, conversation_history, platform, thorough=False)
    if taken is not None:
        outgoing.sent(taken.runtime, session_id, taken.messages, taken.lineage)
        engine = ENGINES.of(session_id)
        if engine is not None:
            engine.sending = len(taken.messages), taken.runtime.views.shape(session_id)


def llm_request(request: Any = None, session_id: str = "", api_mode: str = "", **_: Any) -> dict[str, Any] | None:
    """Request middleware: the request as it is to be sent, or None for as it is. Registered only while somebody needs it."""
    out: list[dict[str, Any] | None] = []

    @_survives("request view")
    def rewrite() -> None:
        out.append(outgoing.rewritten(RUNTIMES.at(), session_id, request, api_mode or ""))

    rewrite()
    return out[0] if out else None


@_survives(INGEST)
def post_llm_call(
    session_id: str = "", conversation_history: Messages | None = None, platform: str = "", **_: Any
) -> None:
    """After the turn, with the final answer: store it, and let the worker prepare what comes next."""
    taken = _take(session_id, conversation_history, platform)
    engine = ENGINES.of(session_id)
    if taken is not None and engine is not None:
        engine.prepare(taken.messages, taken.lineage)


@_survives("session hook", when=_chosen)
def on_session_finalize(session_id: str = "", old_session_id: str = "", new_session_id: str = "", **_: Any) -> None:
    """A session ended for the host; here it only gets an end."""
    runtime = RUNTIMES.at()
    ended = old_session_id or session_id
    if ended and runtime.db.path.exists() and runtime.known(ended) is not None:
        runtime.sessions.end(ended, now=time.time(), reason=str(_.get("reason") or "finalized"))
    if new_session_id and old_session_id and _.get("reason") == "new_session":
        runtime.announce(new_session_id, carry_from=old_session_id)
    if runtime.db.is_open:
        runtime.ended()


@_survives("session hook")
def subagent_start(parent_session_id: str = "", child_session_id: str = "", **_: Any) -> None:
    """A delegated child belongs to whoever its parent belongs to."""
    if not parent_session_id or not child_session_id:
        return
    runtime = RUNTIMES.at()
    runtime.announce(child_session_id, parent=parent_session_id, origin="subagent")
    if runtime.known(child_session_id) is not None:
        runtime.sessions.adopt(child_session_id, parent_session_id)
        runtime.refresh(child_session_id)


@_survives("session hook", anyway=True)
def pre_gateway_dispatch(event: Any = None, session_store: Any = None, **_: Any) -> None:
    """Note whose message is being handled: a slash command in it has no other way to know."""
    source = getattr(event, "source", None)
    for name in ("_generate_session_key", "session_key_for", "get_session_key"):
        make = getattr(session_store, name, None)
        if callable(make) and source is not None:
            _gateway_key.set(str(make(source) or ""))
            return


def command_key() -> str:
    """The gateway's key of the chat in which a slash command was typed; "" at a terminal."""
    return _gateway_key.get()


def command_engine() -> LCMEngine | None:
    """The engine of the session in which a slash command was typed, or None when the host gives no clue."""
    key = command_key()
    if key:
        return ENGINES.with_key(key)
    session_id = host.current_session_id()
    return (ENGINES.of(session_id) if session_id else None) or ENGINES.newest()


HOOKS: dict[str, Callable[..., None]] = {
    "pre_llm_call": pre_llm_call,
    "pre_api_request": pre_api_request,
    "post_llm_call": post_llm_call,
    "on_session_finalize": on_session_finalize,
    "subagent_start": subagent_start,
    "pre_gateway_dispatch": pre_gateway_dispatch,
}
