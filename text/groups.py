"""
Groups: an assistant message with its tool calls and all their results, in any order.

The group is the unit of compaction, tail and eviction; nothing ever splits one. Pure functions over host message dicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .content import call_ids, text_of


@dataclass(frozen=True, slots=True)
class Group:
    """Messages ``start`` to ``stop`` (exclusive) of a list. ``whole``: every call has its result and the reverse."""

    start: int
    stop: int
    whole: bool
    role: str


def groups(messages: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Cut a list into groups, in order and without a gap."""
    out: list[Group] = []
    at = 0
    while at < len(messages):
        role = str(messages[at].get("role") or "")
        if role == "tool":  # a result whose call is not in front of it
            out.append(Group(at, at + 1, False, role))
            at += 1
            continue
        wanted = call_ids(messages[at]) if role == "assistant" else set()
        stop = at + 1
        while stop < len(messages) and messages[stop].get("role") == "tool" and wanted:
            stop += 1
        out.append(Group(at, stop, not unpaired(messages[at:stop]), role))
        at = stop
    return out


def unpaired(messages: Sequence[Mapping[str, Any]]) -> set[str]:
    """Ids of calls without a result directly behind their message, and of results without such a call."""
    wrong: set[str] = set()
    waiting: dict[str, set[str]] = {}
    for message in messages:
        if message.get("role") == "tool":
            answers = str(message.get("tool_call_id") or "")
            ids = waiting.pop(answers, None)
            if ids is None:
                wrong.add(answers or "?")
            else:
                for other in ids:
                    waiting.pop(other, None)
            continue
        wrong.update(waiting)
        waiting = {}
        if message.get("role") == "assistant":
            calls = message.get("tool_calls")
            for call in calls if isinstance(calls, Sequence) else ():
                if isinstance(call, Mapping):
                    ids = {str(call[key]) for key in ("id", "call_id") if call.get(key)}
                    waiting.update(dict.fromkeys(ids, ids))
    return wrong | set(waiting)


def problems(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Faults of a list that a strict provider would refuse, in words; empty for a valid one."""
    out = [f"unpaired tool call or result {name}" for name in sorted(unpaired(messages))]
    if messages and messages[0].get("role") != "user":
        out.append(f"begins with {messages[0].get('role')}")
    for n, message in enumerate(messages):
        content = message.get("content")
        blank = not isinstance(content, list) and not text_of(content).strip()
        if blank and not message.get("tool_calls") and message.get("role") != "tool":
            out.append(f"message {n} is an empty {message.get('role')}")
    return out
