"""
The first page: whose archive this is, how full the window is and with what, what the next compaction would fold, health, money.

No agent runs in the process of a dashboard. So the prompt is reckoned from what is stored: the newest prompt that was built,
and all messages behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..command import answer as verb
from ..compaction import plan
from ..compaction.compress import state_tokens
from ..config import MODE_SETTINGS
from ..host import facts
from ..host.facts import system_prompt
from ..ops.status import status, unquoted, version
from ..prompt.context_message import prefix_tokens
from ..prompt.present_state import PresentState
from ..recall.paging import time_said
from ..records import Assembly, Flag, Stored, Unit
from ..text import tokens
from .look import Answer, Look

_SHOWN: Final = (
    "session_id", "bound", "context_length", "context_length_source", "effective_context_length", "threshold_tokens",
    "threshold_source", "model", "provider", "store", "dag", "lifecycle", "disk", "plugin_version", "refused_settings",
)  # fmt: skip


def about(look: Look) -> Answer:
    """Owner of the data, and how much of it is shown."""
    deps = look.deps
    return {
        "mode": look.mode,
        "home": str(deps.home),
        "database": str(deps.db.path),
        "stored": deps.db.exists,
        "plugin": version(),
        "host": facts.version(),
        "engine": facts.selected_engine(),
    }


def now(look: Look) -> Answer:
    """Status, window and money of one session."""
    said_ = status(look.deps)
    if not look.full:
        said_ |= unquoted(look.deps, said_["problems"])
    out: Answer = {name: said_[name] for name in _SHOWN if name in said_}
    out |= {
        "database": said_["database"],
        "problems": said_["problems"],
        "mode": said_.get("lifecycle", {}).get("mode"),
        "engine": facts.selected_engine(),
    }
    if look.deps.session is None:
        return {**out, "window": None, "next": None, "money": None}
    parts, raw, used = _window(look, said_["threshold_tokens"])
    size, threshold = said_["effective_context_length"], said_["threshold_tokens"]
    out["window"] = {"size": size, "threshold": threshold, "used": used, "parts": parts}
    due = said_["background"].get("next_fold", {}).get("due", threshold)
    coming = _next(look, raw, used, threshold)
    return {**out, "next": coming and {"left": max(0, due - used), **coming}, "money": money(look)}


# -- the window ----------------------------------------------------------------------------------------
def _window(look: Look, threshold: int) -> tuple[list[Answer], list[Stored], int]:
    """(parts of the prompt with their tokens, its raw messages, tokens of all parts)."""
    deps, session = look.deps, look.session
    assembly = deps.assembly()
    shown = deps.dag.nodes(assembly.roots) if assembly is not None else []
    roots = [*deps.dag.nodes(deps.sessions.carried(session.conversation_id)), *shown]
    raw = _raw(look, assembly)
    system = tokens.count(system_prompt(deps.home, session.session_id))
    parts: list[Answer] = [{"kind": "system", "tokens": system, "known": bool(system)}]
    depths = Counter(node.depth for node in roots)
    for depth, count in sorted(depths.items(), reverse=True):
        size = prefix_tokens([node for node in roots if node.depth == depth]) - prefix_tokens([])
        parts.append({"kind": "summaries", "depth": depth, "count": count, "tokens": size})
    if assembly is not None:
        state = PresentState(deps.store, deps.ledger, deps.sessions).block(
            look.deps.sessions.ancestry(session.conversation_id),
            nonce=session.nonce,
            shown=[head.store_id for head in raw],
            room_tokens=state_tokens(threshold, roots),
        )
        parts.append({"kind": "state", "tokens": tokens.count(state)})
    parts.append({"kind": "tail", "count": len(raw), "tokens": sum(head.tokens for head in raw)})
    return parts, raw, sum(int(part["tokens"]) for part in parts)


def _raw(look: Look, assembly: Assembly | None) -> list[Stored]:
    """Messages that stand in the prompt as they are, in order."""
    store = look.deps.store
    segments = look.deps.sessions.ancestry(look.session.conversation_id)
    if assembly is None:
        found = store.heads(segments)
    else:
        behind = store.heads_behind(segments[-1], pos=assembly.last_pos, seq=assembly.last_seq)
        kept = store.heads_of(assembly.tail_ids)
        found = list({head.store_id: head for head in [*kept.values(), *behind]}.values())
    return sorted(
        (head for head in found if not head.flags & Flag.RETRACTED), key=lambda head: (head.pos, head.store_id)
    )


def _next(look: Look, raw: Sequence[Stored], used: int, threshold: int) -> Answer | None:
    """The next compaction's fold, if it came now. None where this session is not compacted."""
    if look.deps.mode() in MODE_SETTINGS:
        return None
    config = look.deps.config
    units = [Unit((each.store_id,), each.tokens, each.role, time_said(each), n, n + 1) for n, each in enumerate(raw)]
    room = plan.budget(
        threshold=threshold, messages=sum(each.tokens for each in raw), current=max(used, threshold),
        low_water=config.low_water, tail_share=config.tail_share, prefix_share=config.prefix_share, force=False,
    )  # fmt: skip
    asked = max(
        (n for n, each in enumerate(raw) if each.role == "user" and not each.flags & Flag.HOST_NOTE), default=None
    )
    tail = plan.tail_of(units, count=config.fresh_tail_count, room_tokens=room.tail, request=asked)
    leaving = [each for n, each in enumerate(raw[: tail.start]) if n != tail.request]
    return {
        "messages": len(leaving),
        "tokens": sum(each.tokens for each in leaving),
        "first": leaving[0].store_id if leaving else None,
        "last": leaving[-1].store_id if leaving else None,
        "stay": len(raw) - len(leaving),
    }


# -- money ---------------------------------------------------------------------------------------------
def money(look: Look) -> Answer:
    """Money spent, as ``hermes lcm cost`` says it: of all sessions, and of the one that is looked at."""
    data = verb("cost", look.deps).data
    if "total" not in data:
        return {"error": data.get("error")}
    mine: Counter[str] = Counter()
    for row in data["days"]:
        if row["session"] == look.session.session_id:
            mine.update({name: value for name, value in row.items() if isinstance(value, (int, float))})
    estimate = data["host_compressor_estimate"]
    return {
        "total": data["total"],
        "session": dict(mine),
        "days": _by_day(data["days"]),
        "prices": data["prices"],
        "host_estimate": estimate,
        "saved": None if estimate is None else round(estimate - data["total"]["money"], 4),
        "formula": data["host_compressor_formula"],
    }


def _by_day(rows: Sequence[Mapping[str, Any]]) -> list[Answer]:
    """Days with the sums of their sessions, and their compactions."""
    days: dict[str, Answer] = {}
    for row in rows:
        day = days.setdefault(str(row["day"]), {"day": row["day"], "money": 0.0, "summary_money": 0.0, "cached": 0,
                                                "uncached": 0, "requests": 0, "folds": []})  # fmt: skip
        for name in ("money", "summary_money", "cached", "uncached", "requests"):
            day[name] += row[name]
        day["folds"] += [{**fold, "session": row["session"]} for fold in row["folds"]]
    return list(days.values())
