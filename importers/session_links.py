"""
Session links: which sessions of another store continue which, and whom they belong to, opened here as conversations.

Knows the host's rules (a rotation continues a conversation, a branch begins one that inherits, a delegated child belongs to its
parent's owner) and nothing of messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..session import Session

if TYPE_CHECKING:
    from ..recall.access import Access


@dataclass(frozen=True, slots=True)
class SessionLink:
    """Another store's facts about a session. ``origin``: start, rotation, branch or subagent of ``parent``."""

    session_id: str
    platform: str = ""
    host_key: str = ""
    model: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    end_reason: str = ""
    parent: str = ""
    origin: str = "start"


def from_host(row: Mapping[str, Any], above: Mapping[str, Any] | None) -> SessionLink:
    """A row of the host's table of sessions, and its parent's row."""
    parent = str(row.get("parent_session_id") or "")
    origin = "start"
    if parent and above is not None:
        config = _config(row)
        if config.get("_branched_from"):
            origin = "branch"
        elif config.get("_delegate_from"):
            origin = "subagent"
        elif above.get("end_reason") == "compression":
            origin = "rotation"
    return SessionLink(
        str(row["id"]),
        str(row.get("source") or ""),
        str(row.get("session_key") or ""),
        str(row.get("model") or ""),
        row.get("started_at"),
        row.get("ended_at"),
        str(row.get("end_reason") or ""),
        parent if origin != "start" else "",
        origin,
    )


def _config(row: Mapping[str, Any]) -> Mapping[str, Any]:
    raw = row.get("model_config")
    if isinstance(raw, str):
        try:
            raw = json.loads(raw)
        except ValueError:
            return {"_branched_from": True} if "_branched_from" in raw else {}
    return raw if isinstance(raw, Mapping) else {}


def chains(sessions: Sequence[SessionLink]) -> list[list[SessionLink]]:
    """Conversations: sessions that rotations tie together, in order; parents come before their branches."""
    by_id = {each.session_id: each for each in sessions}
    known = [each if each.parent in by_id else replace(each, parent="", origin="start") for each in sessions]
    by_id = {each.session_id: each for each in known}
    following: dict[str, list[SessionLink]] = {}
    for each in known:
        if each.origin == "rotation":
            following.setdefault(each.parent, []).append(each)
    out: list[list[SessionLink]] = []
    done: set[str] = set()

    def begin(first: SessionLink) -> None:
        waiting = [first]
        while waiting and waiting[-1].parent and waiting[-1].parent not in done and len(waiting) <= len(known):
            waiting.append(by_id[waiting[-1].parent])
        for each in reversed(waiting):
            if each.session_id in done:
                continue
            chain = [each]
            done.add(each.session_id)
            while more := [item for item in following.get(chain[-1].session_id, ()) if item.session_id not in done]:
                chain.append(more[0])
                done.add(more[0].session_id)
            out.append(chain)

    for each in known:
        if each.session_id not in done:
            begin(each)
    return out


def open_chain(deps: Access, chain: Sequence[SessionLink]) -> dict[str, Session]:
    """The sessions of a conversation here, made where they are not known."""
    out: dict[str, Session] = {}
    before: Session | None = None
    for facts in chain:
        parent, origin = before, "rotation"
        if before is None:
            parent = deps.sessions.find(facts.parent) if facts.parent else None
            origin = facts.origin if parent is not None else "start"
            origin = "branch" if origin == "rotation" else origin  # the parent goes on under another session already
        known = deps.sessions.find(facts.session_id)
        before = known or deps.sessions.open(
            facts.session_id,
            now=facts.started_at or deps.clock(),
            platform=facts.platform,
            host_key=facts.host_key or None,
            parent=parent,
            origin=origin,
            fork_seq=deps.store.last_seq(parent.conversation_id) if parent is not None and origin == "branch" else None,
            model=facts.model,
        )
        if known is None and facts.ended_at:
            deps.sessions.end(facts.session_id, now=facts.ended_at, reason=facts.end_reason)
        out[facts.session_id] = before
    return out


def by_conversation(sessions: Mapping[str, Session]) -> list[dict[str, Session]]:
    """The sessions of a chain by the conversation that they are part of here: usually one."""
    out: dict[int, dict[str, Session]] = {}
    for name, session in sessions.items():
        out.setdefault(session.conversation_id, {})[name] = session
    return list(out.values())
