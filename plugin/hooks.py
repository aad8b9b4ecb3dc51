"""
The host's hooks: every point at which it shows a live list.

Registered once for the process, so they find the session by the id they carry and the engine (if one is needed)
through a registry of live engines. A host boundary, like the engine: nothing that happens in here reaches the turn.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from ..errors import LcmError
from ..host import facts
from ..host.offers import CHAT
from ..ingest.transcript import Messages, Transcript
from ..runtime import INGEST, PROCESS, LiveEngine, Runtime, is_owners
from ..search.scope import LOCAL_PLATFORMS

logger = logging.getLogger("hermes_lcm")


#: The session key of the gateway message that is being handled, for slash commands (which get none).
_gateway_key: ContextVar[str] = ContextVar("lcm_gateway_key", default="")


def _bound() -> bool:
    """Has an agent of this process been given our engine?"""
    return PROCESS.engines.used


def _chosen() -> bool:
    """Has an agent our engine, or will one? In a gateway that was just started a session may end before an agent begins."""
    return PROCESS.engines.used or facts.selected_engine() == "lcm"


def _survives(
    topic: str, *, when: Callable[[], bool] = _bound, anyway: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A callback, given the runtime of the current home, whose failure is remembered and goes no further.

    Where the user chose another engine nothing happens; ``anyway``: the callback is called without a runtime.
    """

    def wrap(callback: Callable[..., None]) -> Callable[..., None]:
        def guarded(**kwargs: Any) -> None:
            ours = when()
            if not ours and not anyway:
                return
            try:
                if not ours:
                    callback(None, **kwargs)
                    return
                runtime = PROCESS.at()
                with runtime.foreground:
                    callback(runtime, **kwargs)
                if topic != INGEST:
                    runtime.health.resolved(topic)
            except Exception as exc:
                if not isinstance(exc, LcmError):
                    logger.exception("%s failed", topic)
                if ours:
                    _note(topic, exc)

        guarded.__name__ = callback.__name__
        guarded.__doc__ = callback.__doc__
        return guarded

    return wrap


def _note(topic: str, error: Exception) -> None:
    try:
        health = PROCESS.at().health
        health.degraded(topic, error)
        health.save()
    except Exception:
        logger.exception("the failure of %s could not be noted", topic)


def pre_llm_call(
    session_id: str = "",
    conversation_history: Messages | None = None,
    platform: str = "",
    is_first_turn: bool = False,
    **_: Any,
) -> dict[str, str] | None:
    """Hook once a turn, with the new user message. With the first one: what was carried over from the conversation before;
    with any: that something stands in for the database, or does no longer."""
    out: list[str] = []

    @_survives(INGEST)
    def observe(runtime: Runtime) -> None:
        engine, history = PROCESS.engines.of(session_id), conversation_history
        before = engine.left_before(history or ()) if is_first_turn and engine is not None else None
        seen = runtime.observe(session_id, history, platform=platform, thorough=False, before=before)
        if seen is None or engine is None:
            return
        engine.look(*seen)
        out.append(runtime.standby.news(session_id))
        owners = is_owners(engine, runtime.session(session_id))
        if owners:
            out.append(runtime.pulled_text(session_id))
        out.append(runtime.delegated(engine, session_id, seen))
        if owners and len(seen.messages) == 1:
            out.append(runtime.carried_text(session_id))

    observe()
    said = "\n\n".join(filter(None, out))
    return {"context": said} if said else None


@_survives(INGEST)
def pre_api_request(
    runtime: Runtime, session_id: str = "", conversation_history: Messages | None = None, platform: str = "", **_: Any
) -> None:
    """Hook before every request: what the model is about to see is durable before it is sent (P1)."""
    seen = runtime.observe(session_id, conversation_history, platform=platform, thorough=False)
    if seen is not None:
        sent(runtime, session_id, *seen)
        engine = PROCESS.engines.of(session_id)
        if engine is not None:
            watched = runtime.rewrites.states.get(session_id)
            engine.sending = len(seen.messages), watched.saving if watched is not None else 0


def rewritten(
    runtime: Runtime, session_id: str, request: Any, api_mode: str, *, typed: bool = False
) -> dict[str, Any] | None:
    """The request that hosts with middleware send instead of ``request``. ``typed``: without a look at what is stored."""
    if session_id not in runtime.rewrites.states or api_mode not in CHAT or not isinstance(request, Mapping):
        return None
    wire = request.get("messages")
    if not isinstance(wire, list) or not all(isinstance(message, Mapping) for message in wire):
        return None
    rewrites = runtime.rewrites
    out = rewrites.typed(session_id, wire) if typed else rewrites.request(runtime.session(session_id), wire)
    return {"request": {**request, "messages": out}} if out is not None else None


def sent(runtime: Runtime, session_id: str, messages: Messages, transcript: Transcript) -> None:
    """A request has left: note whether it showed what it should."""
    if session_id not in runtime.rewrites.states:
        return
    why = runtime.rewrites.sent(runtime.session(session_id), messages, transcript)
    runtime.health.tell(
        f"request rewrite of {session_id}", why and f"a request was sent without its placeholders: {why}", severity="warning",
        remedy="nothing: the next request begins with a compaction that takes the archived messages out",
    )  # fmt: skip


def llm_request(request: Any = None, session_id: str = "", api_mode: str = "", **_: Any) -> dict[str, Any] | None:
    """Request middleware: the request as it is to be sent, or None for as it is. Registered only while somebody needs it."""
    out: list[dict[str, Any] | None] = []

    @_survives("request rewrite")
    def rewrite(runtime: Runtime) -> None:
        out.append(rewritten(runtime, session_id, request, api_mode or ""))

    @_survives(INGEST)
    def rewrite_typed(runtime: Runtime) -> None:
        out.append(rewritten(runtime, session_id, request, api_mode or "", typed=True))

    rewrite()
    if not out:  # nothing can be read
        rewrite_typed()
    return out[0] if out else None


@_survives(INGEST)
def post_llm_call(
    runtime: Runtime, session_id: str = "", conversation_history: Messages | None = None, platform: str = "", **_: Any
) -> None:
    """Hook after the turn, with the final answer: store it, and let the worker prepare what comes next."""
    seen = runtime.observe(session_id, conversation_history, platform=platform)
    engine = PROCESS.engines.of(session_id)
    if seen is not None and engine is not None:
        engine.prepare(seen)


@_survives("session hook", when=_chosen)
def on_session_finalize(
    runtime: Runtime, session_id: str = "", old_session_id: str = "", new_session_id: str = "", **_: Any
) -> None:
    """A session ended for the host; here it only gets an end."""
    ended = old_session_id or session_id
    if ended and runtime.db.path.exists() and runtime.find_session(ended) is not None:
        runtime.sessions.end(ended, now=time.time(), reason=str(_.get("reason") or "finalized"))
    if new_session_id and old_session_id and _.get("reason") == "new_session":
        runtime.announce(new_session_id, carry_from=old_session_id)
    runtime.let_go(ended)
    if runtime.db.is_open:
        runtime.ended(ended)


@_survives("session hook")
def subagent_start(runtime: Runtime, parent_session_id: str = "", child_session_id: str = "", **_: Any) -> None:
    """A delegated child belongs to its parent's principal."""
    if not parent_session_id or not child_session_id:
        return
    runtime.announce(child_session_id, parent=parent_session_id, origin="subagent")
    child, parent = runtime.find_session(child_session_id), runtime.find_session(parent_session_id)
    # What somebody is known to own stays theirs.
    if child is not None and (child.unclaimed or (parent is not None and child.principal == parent.principal)):
        runtime.sessions.adopt(child_session_id, parent_session_id)
        runtime.refresh(child_session_id)


@_survives("session hook", anyway=True)
def pre_gateway_dispatch(_runtime: Runtime | None, event: Any = None, session_store: Any = None, **_: Any) -> None:
    """Note whose message is being handled: a slash command in it has no other way to know."""
    PROCESS.engines.gateway = True
    _gateway_key.set("")  # whatever fails from here on, this is not the message before
    source = getattr(event, "source", None)
    for name in ("_generate_session_key", "session_key_for", "get_session_key"):
        make = getattr(session_store, name, None)
        if callable(make) and source is not None:
            _gateway_key.set(str(make(source) or ""))
            break
    if str(getattr(event, "text", "")).startswith("/") and getattr(source, "chat_type", "") != "dm":
        _overhear(session_store=session_store)


@_survives("lines of a group", when=_chosen)  # a topic of its own: the hook around it goes on, and ends well
def _overhear(runtime: Runtime, session_store: Any = None) -> None:
    """Before a command joins the lines of a group that nobody said to the bot, or takes them back: each is stored as its own.

    The host's transcript knows them; after a restart there is no engine yet.
    """
    engine = PROCESS.engines.with_key(command_key())
    if engine is not None:
        database, session_id = engine.session_db, engine.session_id
    else:
        database = getattr(session_store, "_db", None)
        session_id = facts.session_of_chat(session_store, command_key())
    transcript = facts.session_transcript(database, session_id)
    observed = any(message.get("observed") for message in transcript)
    if engine is not None and (engine.overhears or observed):
        engine.overhear()
    elif observed and runtime.stored(session_id) is not None:
        runtime.overhear(session_id, transcript)
        runtime.ingest.forget(session_id)  # the agent that comes reads it anew


def command_key() -> str:
    """The gateway's key of the chat in which a slash command was typed; "" at a terminal."""
    return _gateway_key.get()


def asker_known() -> bool:
    """Is it known who typed a slash command: a chat by its key, or the person at the terminal of this process?"""
    if command_key():
        return True
    engine = command_engine()
    return not PROCESS.engines.gateway and (engine is None or engine.platform in LOCAL_PLATFORMS)


def command_engine() -> LiveEngine | None:
    """The engine of the session in which a slash command was typed, or None when the host gives no clue."""
    key = command_key()
    if key:
        return PROCESS.engines.with_key(key)
    session_id = facts.current_session_id()
    return (PROCESS.engines.of(session_id) if session_id else None) or PROCESS.engines.newest()


HOOKS: dict[str, Callable[..., Any]] = {name: globals()[name] for name in facts.HOOKS}
