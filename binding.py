"""
What an engine call needs from its surroundings: the host's session database, the lock of a session, the dependencies of a tool.

Owns nothing. Reads the host's ``SessionDB`` by duck typing, for its shape differs from version to version.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import host, outgoing
from .archiving import Live
from .caller import Payload
from .errors import StoreError
from .ops import checks
from .ops.status import EngineFacts, OpsDeps, status
from .payloads import Payloads
from .records import Lineage, Row, Scope
from .runtime import RUNTIMES, Runtime
from .session import LOCAL, Session, principal_of
from .tools import ToolDeps

if TYPE_CHECKING:
    from .engine import LCMEngine

#: The auxiliary task under which users choose a model for lcm_expand_query.
EXPANSION_TASK = "lcm_expansion"
#: What ``registration.py`` registers.
NEEDED_HOOKS = (
    *("pre_llm_call", "pre_api_request", "post_llm_call", "on_session_finalize", "subagent_start"),
    "pre_gateway_dispatch",
)
#: Share of the window that one tool answer may take, and bounds for it (the host cuts at about 15 % by itself).
_ROOM_SHARE, _ROOM_MIN, _ROOM_MAX = 0.10, 1500, 8000


# -- the host's session database ----------------------------------------------------------------------------
def parent_of(session_db: Any, session_id: str) -> tuple[str | None, str]:
    """(parent session, "rotation" or "branch") as the host's database says it, or (None, "start")."""
    reader = getattr(session_db, "get_session", None)
    row = reader(session_id) if callable(reader) else None
    if not isinstance(row, Mapping):
        return None, "start"
    parent = row.get("parent_session_id")
    if not parent:
        return None, "start"
    above = reader(parent) if callable(reader) else None
    ended_by = above.get("end_reason") if isinstance(above, Mapping) else None
    if ended_by == "compression" and not _branched(row):
        return str(parent), "rotation"
    return (str(parent), "branch") if _branched(row) else (None, "start")


def _branched(row: Mapping[str, Any]) -> bool:
    config = row.get("model_config")
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except ValueError:
            return "_branched_from" in config
    return isinstance(config, Mapping) and bool(config.get("_branched_from"))


def transcript(session_db: Any, session_id: str) -> list[dict[str, Any]]:
    """What the host has persisted of a session, as it would hand it over on resume; [] if that cannot be read."""
    reader = getattr(session_db, "get_messages_as_conversation", None)
    if not callable(reader) or not session_id:
        return []
    found = reader(session_id)
    return list(host.said(found)) if isinstance(found, list) else []


# -- one compaction at a time ---------------------------------------------------------------------------------
_LOCKS: dict[tuple[str, str], threading.Lock] = {}
_LOCKS_GUARD = threading.Lock()


@contextmanager
def only_one(runtime: Runtime, session_id: str) -> Iterator[bool]:
    """True for the one caller that may compact the session; a second one is told so at once, not made to wait."""
    with _LOCKS_GUARD:
        lock = _LOCKS.setdefault((str(runtime.path), session_id), threading.Lock())
    taken = lock.acquire(blocking=False)
    try:
        yield taken
    finally:
        if taken:
            lock.release()


# -- dependencies of tools and commands -----------------------------------------------------------------------
def tool_deps(
    engine: LCMEngine, session_id: str, lineage: Lineage | None, messages: Sequence[Mapping[str, Any]] | None = None
) -> ToolDeps:
    """Everything one tool call may use, with the rights of the session it comes from."""
    runtime = engine.runtime
    session = caller(runtime, session_id)
    principal = session.principal if session is not None else runtime.principal(session_id)
    ops = ops_deps(runtime, session, engine)
    return ToolDeps(
        store=runtime.view_store,
        dag=runtime.dag,
        sessions=runtime.sessions,
        search=runtime.index,
        nodes=runtime.node_index,
        payloads=Shelf(runtime.payloads),
        config=runtime.config,
        session=session,
        principal=None if principal == LOCAL else principal,
        room_tokens=room(engine.context_length),
        model=runtime.model,
        lineage=lineage,
        status=lambda: status(ops),
        doctor=lambda deep: checks.doctor(ops, deep=deep),
        clock=time.time,
        reach=runtime.reach,
        desk=runtime.desk,
        expansion_task=EXPANSION_TASK,
        archives=runtime.archives,
        live=_live_list(engine, session, lineage, messages),
    )


def _live_list(
    engine: LCMEngine, session: Session | None, lineage: Lineage | None, messages: Sequence[Mapping[str, Any]] | None
) -> Live | None:
    """The list that the calling agent works with, if it is stored."""
    if session is None or lineage is None or not messages:
        return None
    runtime = engine.runtime
    return Live(
        runtime.archives, runtime.archived, session, messages, lineage, cache(lambda: engine.prices.of(messages)),
        used_tokens=engine.counted_tokens, window_tokens=runtime.config.window(engine.context_length),
        threshold_tokens=engine.threshold_tokens,
        rewritable=outgoing.rewritable(engine), changed=lambda: outgoing.changed(engine, messages, lineage), clock=time.time,
    )  # fmt: skip


def caller(runtime: Runtime, session_id: str) -> Session | None:
    """The session that asks, if it has anything stored and the database can be read."""
    try:
        return runtime.known(session_id) if session_id else None
    except StoreError:
        return None


def chat(runtime: Runtime, host_key: str) -> Session | None:
    """The newest session of a gateway's chat, for commands that come when no agent of it is in memory (after a restart)."""
    if not host_key or not runtime.db.path.exists():
        return None
    try:
        recent = runtime.sessions.recent(principal=principal_of("", host_key, ""), limit=20)
    except StoreError:
        return None
    return next((each for each in recent if each.host_key == host_key), None)


def room(context_length: int) -> int:
    """Tokens that one answer may take."""
    return max(_ROOM_MIN, min(_ROOM_MAX, int((context_length or 128_000) * _ROOM_SHARE)))


def ops_deps(runtime: Runtime, session: Session | None, engine: LCMEngine | None) -> OpsDeps:
    """What status, doctor and commands work with."""
    return OpsDeps(
        db=runtime.db,
        store=runtime.view_store,
        dag=runtime.dag,
        sessions=runtime.sessions,
        health=runtime.health,
        search=runtime.index,
        nodes=runtime.node_index,
        config=runtime.config,
        session=session,
        engine=engine_facts(runtime, session, engine),
        plugin_dir=Path(__file__).resolve().parent,
        home=engine.home if engine is not None else host.hermes_home(),
        clock=time.time,
        payload_dir=runtime.payloads.folder,
        payloads=runtime.payloads,
        door=runtime.door,
    )


@dataclass(frozen=True, slots=True)
class Shelf:
    """Payload files as tools see them."""

    payloads: Payloads

    def open(self, name: str, scope: Scope) -> Payload | None:
        """The file of this name if the scope may read it."""
        found = self.payloads.open(name, scope)
        return Payload(found.name, found.text, found.facts) if found is not None else None

    def whole(self, row: Row) -> Row:
        """A message with its payloads back in their places."""
        return self.payloads.whole(row)


def engine_facts(runtime: Runtime, session: Session | None, engine: LCMEngine | None) -> EngineFacts:
    """What the live engine knows; without one (a terminal command) what the configuration and earlier agents say."""
    try:
        assembly = runtime.dag.latest_assembly(session.conversation_id) if session is not None else None
    except StoreError:
        assembly = None
    common = EngineFacts(
        threshold_source=runtime.config.provenance("context_threshold"),
        compactions=session.compactions if session else 0,
        assembly=assembly,
        host_version=host.version(),
        missing_hooks=host.missing_hooks(NEEDED_HOOKS),
        background=runtime.preparer.state(),
        breaker=runtime.breaker.dump(),
        spend=runtime.spend.dump(),
    )
    return _off_line(runtime, session, common) if engine is None else _live(runtime, engine, common)


def _live(runtime: Runtime, engine: LCMEngine, common: EngineFacts) -> EngineFacts:
    return replace(
        common,
        context_length=engine.context_length,
        threshold_tokens=engine.threshold_tokens,
        last_prompt_tokens=max(0, engine.last_prompt_tokens),
        model=engine.model,
        provider=engine.provider,
        mode=runtime.mode(engine.session_id) if engine.session_id else "full",
        compactions=engine.compactions,
        fallback_context=engine.fallback_context,
        last_compression=engine.last_compression,
        engine_name_in_use=engine.name if engine.session_id else host.selected_engine(),
        calibration=runtime.calibration.shown(engine.model, engine.session_id, max(0, engine.last_prompt_tokens)),
        cache=engine.cache,
    )


def _off_line(runtime: Runtime, session: Session | None, common: EngineFacts) -> EngineFacts:
    """No engine runs here. The window is the one in the host's configuration, or what an agent with that model was told."""
    configured, provider, size = host.configured_model()
    model = (session.model if session is not None else "") or configured
    if size > 0 and model == configured:
        source = "config.yaml"
    else:
        size, source = runtime.windows.get(model, 0), f"the last agent that ran {model}"
    return replace(
        common,
        engine_name_in_use=host.selected_engine(),
        context_length=size,
        context_source=source if size else "",
        model=model if size else "",
        provider=provider if size and model == configured else "",
    )


__all__ = ["RUNTIMES", "caller", "engine_facts", "only_one", "ops_deps", "parent_of", "room", "tool_deps", "transcript"]
