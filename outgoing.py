"""
Requests on their way out: which hook of this host brings them here, and what an engine does with what became of them.

A host that has ``select_context`` asks the engine; others have request middleware. Both are taken up only while a session
has something to show otherwise: the one makes the host clone the whole conversation for each request, the other the request.
Owns nothing; the work is ``views``'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from . import host
from .boundary import Guard
from .late import REQUEST_MIDDLEWARE
from .records import Lineage

if TYPE_CHECKING:
    from .engine import LCMEngine
    from .runtime import Runtime
    from .swap import Outcome

Messages = Sequence[Mapping[str, Any]]

#: The shape of requests that the middleware understands; "" is a host that does not tell.
_CHAT: Final = ("", "chat_completions")
_HOOK: Final = "select_context"


def rewritable(engine: LCMEngine) -> bool:
    """Can what the model sees be changed for one request alone, on this host and with this provider?"""
    return hasattr(type(engine), _HOOK) or (REQUEST_MIDDLEWARE.possible and engine.api_mode in _CHAT)


def watch(engine: LCMEngine) -> None:
    """Take up, or leave, the hook through which requests of the engine's session come."""
    runtime = engine.runtime
    session = runtime.known(engine.session_id) if engine.session_id else None
    wanted = session is not None and runtime.views.watch(session)
    if not hasattr(type(engine), _HOOK):
        if wanted:
            REQUEST_MIDDLEWARE.want()
    elif wanted:
        engine.__dict__[_HOOK] = partial(selected, engine)  # the host looks whether the engine has one of its own
    else:
        engine.__dict__.pop(_HOOK, None)


def selected(
    engine: LCMEngine, request_messages: Messages, *, conversation_messages: Messages | None = None, **_: Any
) -> list[dict[str, Any]] | None:
    """``select_context`` of newer hosts: what they send instead of a request."""
    runtime = engine.runtime
    if not runtime.views.watched(engine.session_id):
        return None
    with Guard(engine, "request view", False):
        session = runtime.session(engine.session_id)
        live = host.said(conversation_messages) if conversation_messages else None
        seen = (live, runtime.take(engine.session_id, live, thorough=False)) if live else None
        return runtime.views.request(session, request_messages, seen, selected=True)
    return None


def rewritten(runtime: Runtime, session_id: str, request: Any, api_mode: str) -> dict[str, Any] | None:
    """What hosts with middleware send instead of ``request``."""
    if not runtime.views.watched(session_id) or api_mode not in _CHAT or not isinstance(request, Mapping):
        return None
    wire = request.get("messages")
    if not isinstance(wire, list) or not all(isinstance(message, Mapping) for message in wire):
        return None
    out = runtime.views.request(runtime.session(session_id), wire)
    return {"request": {**request, "messages": out}} if out is not None else None


def sent(runtime: Runtime, session_id: str, messages: Messages, lineage: Lineage) -> None:
    """A request has left: note whether it showed what it should."""
    if not runtime.views.watched(session_id):
        return
    why = runtime.views.sent(runtime.session(session_id), messages, lineage)
    topic = f"request view of {session_id}"
    if why:
        runtime.health.degraded(
            topic, f"a request was sent without its placeholders: {why}", severity="warning",
            remedy="nothing to do: the next request begins with a compaction that takes the archived messages out",
        )  # fmt: skip
    else:
        runtime.health.resolved(topic)


def tried(runtime: Runtime, session_id: str, messages: Messages, lineage: Lineage, outcome: Outcome) -> None:
    """A compaction was tried."""
    if runtime.views.watched(session_id):
        session = runtime.session(session_id)
        runtime.views.compacted(session, messages, lineage, progress=outcome.messages is not None)


def changed(engine: LCMEngine, messages: Messages, lineage: Lineage) -> None:
    """Requests of the engine's session are to show something else of this list from now on."""
    watch(engine)
    if rewritable(engine):
        engine.runtime.views.expect(engine.runtime.session(engine.session_id), messages, lineage)
    else:
        engine.runtime.views.must_compact(
            engine.session_id, f"requests to {engine.api_mode} cannot be rewritten on this host"
        )


def caught_up(engine: LCMEngine, messages: Messages) -> None:
    """A session is resumed with this list: take it in, and know what its first request hides before the host measures it."""
    lineage = engine.runtime.take(engine.session_id, messages)
    watch(engine)
    if rewritable(engine):
        engine.runtime.views.expect(engine.runtime.session(engine.session_id), messages, lineage)


def handed_over(engine: LCMEngine, messages: Messages | None) -> None:
    """The host goes on with the list of the last compaction, perhaps under another session id: know it before it is sent."""
    watch(engine)
    if messages and engine.runtime.views.watched(engine.session_id):
        engine.runtime.take(engine.session_id, messages, thorough=False)
