"""
Records of sub-agents: which conversations of its own a result of delegated work came out of.

A child of the host's has a session that names its parent; what it was asked to do begins its record, and stands in the call (or
in the host's report) as well. Only what the caller may read anyway is named.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from ..records import Flag, Row
from ..store import Segment
from .access import Access
from .lines import records_of
from .paging import Answer

_TOOL: Final = "delegate_task"
_REPORTS: Final = ("[ASYNC DELEGATION COMPLETE — ", "[ASYNC DELEGATION BATCH COMPLETE — ")
_GOAL_CHARS: Final = 80
_CALL_WITHIN: Final = 20  # rows between a call and its result


def of_result(caller: Access, row: Row) -> list[Answer]:
    """The records of the sub-agents whose result a message is, in the order they began; [] for any other message."""
    asked = _asked(caller, row)
    if not asked:
        return []
    sessions = [each.session_id for each in caller.sessions.of_conversation(row.head.conversation_id)]
    children = caller.sessions.children(sessions)
    readable = caller.scopes.conversations([each.conversation_id for each in children], caller.everything())
    newest = dict[str, Answer]()  # of children that were asked the same, the last before the result
    for child in children:
        first = caller.store.first_of([Segment(child.conversation_id)], role="user")
        goal = _flat(first.text) if first is not None else ""
        if first is None or child.conversation_id not in readable or first.store_id > row.store_id or goal not in asked:
            continue
        last = caller.scopes.last(caller.thread(child.conversation_id))
        address = {"store_id": f"msg_{first.store_id}..msg_{last}", "conversation_id": child.conversation_id}
        newest[goal] = {
            "task": goal[:_GOAL_CHARS],
            "session_id": child.session_id,
            "read": {"tool": "lcm_expand", **address},
        }
    return list(newest.values())


def note(caller: Access, row: Row) -> str:
    """The same as lines that stand behind the result; "" where there is nothing to tell."""
    return "\n".join(records_of({"subagents": of_result(caller, row)}))


def _asked(caller: Access, row: Row) -> str:
    """The task that was delegated: in the host's report itself, or in the call that a result answers."""
    head = row.head
    if head.role == "user" and head.flags & Flag.HOST_NOTE and row.text.startswith(_REPORTS):
        return _flat(row.text)
    if head.role != "tool" or head.tool_name != _TOOL:
        return ""
    before = caller.scopes.around(head.conversation_id, head.seq - _CALL_WITHIN, head.seq - 1, caller.everything())
    calls = (each for made in caller.rows(before) for each in made.calls if each.id == head.answers)
    return "\n".join(_flat(goal) for each in calls for goal in _goals(each.arguments))


def _goals(arguments: str) -> Iterator[str]:
    """The goals of a call, as it was written."""
    try:
        given = json.loads(arguments)
    except ValueError:
        return
    tasks = given.get("tasks") if isinstance(given, Mapping) else None
    for each in [given, *(tasks if isinstance(tasks, list) else ())]:
        if isinstance(each, Mapping) and isinstance(each.get("goal"), str):
            yield each["goal"]


def _flat(text: str) -> str:
    return " ".join(text.split())
