"""
Neighbours of a hit: the call beside a result, the failure beside a call, the records of sub-agents beside their result.

A result says little without what it was asked for, a call little without what came of it. Only what the caller may read is told.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from ..prompt import work_log
from ..records import Flag, Row, ToolCall
from ..session import Segment, Session
from ..text import content, markers, statements
from .access import Access
from .lines import records_of
from .paging import Answer

_WITHIN: Final = 20  # rows between a call and its result
_CALL_CHARS: Final = 300


def is_deed(row: Row) -> bool:
    """Is it the result of a tool that changes something, by its name?"""
    return row.head.role == "tool" and statements.changes_something(row.head.tool_name or "")


def related_calls(caller: Access, row: Row, shown: Collection[int]) -> Answer:
    """``called_by`` of a result, ``failed`` of a call: address and what it says; {} where that is among those ``shown``."""
    if row.head.role == "tool" and row.head.tool_call_id:
        return _call_of(caller, row, shown)
    return _failure_of(caller, row, shown) if row.calls else {}


def _call_of(caller: Access, row: Row, shown: Collection[int]) -> Answer:
    head = row.head
    before = caller.scopes.readable_stretch(head.conversation_id, head.seq - _WITHIN, head.seq - 1, caller.everything())
    heads = caller.store.heads_of(before)
    asking = [at for at in before if heads[at].role == "assistant"][-1:]
    if not asking or asking[0] in shown:
        return {}
    made = next(
        (call for each in caller.load_rows(asking) for call in each.calls if call.id == head.tool_call_id), None
    )
    said = _words_of_call(made, row.text) if made is not None else ""
    return {"called_by": {"address": f"msg_{asking[0]}", "snippet": said}} if said else {}


def _failure_of(caller: Access, row: Row, shown: Collection[int]) -> Answer:
    head, calls = row.head, {call.id for call in row.calls}
    after = caller.scopes.readable_stretch(head.conversation_id, head.seq + 1, head.seq + _WITHIN, caller.everything())
    heads = caller.store.heads_of(after)
    results = [at for at in after if heads[at].role == "tool" and heads[at].tool_call_id in calls and at not in shown]
    for each in caller.load_rows(results):
        text, failed = work_log.result(each.text)
        if failed and (line := work_log.error_line(text)):
            return {"failed": {"address": f"msg_{each.store_id}", "snippet": line}}
    return {}


def _words_of_call(call: ToolCall, result: str) -> str:
    """Arguments of a call in words: all of what changes something, else what its result does not repeat."""
    changes = statements.changes_something(call.name)
    given = work_log.arguments(call, result=result if changes else "", besides="" if changes else result)
    said = f"{call.name} {given}" if given else ""
    return said if len(said) <= _CALL_CHARS else f"{said[:_CALL_CHARS]}…"


_REPORTS: Final = tuple(f"[ASYNC DELEGATION {what} — " for what in ("COMPLETE", "BATCH COMPLETE", "TASK FAILED"))
_DISPATCHED: Final = re.compile(r'\s*\{"status": "dispatched"')  # the report comes later
_GOAL_CHARS: Final = 80


def subagents_of(caller: Access, row: Row) -> list[Answer]:
    """The records of the sub-agents whose result a message is, in the order they began; [] for any other message."""
    asked = _asked(caller, row)
    if not asked:
        return []
    sessions = [each.session_id for each in caller.sessions.of_conversation(row.head.conversation_id)]
    children = caller.sessions.children(sessions)
    readable = caller.scopes.conversations([each.conversation_id for each in children], caller.everything())
    by_goal = defaultdict[str, list[tuple[int, Session]]](list)  # in the order they began
    for child in children:
        first = caller.store.first_of([Segment(child.conversation_id)], role="user")
        if (
            first is not None
            and _flat(first.text)
            and child.conversation_id in readable
            and first.store_id < row.store_id
        ):
            by_goal[_flat(first.text)].append((first.store_id, child))
    found = list[tuple[int, Session, str]]()
    for goal in sorted(by_goal, key=len, reverse=True):  # a shorter one may be a part of it
        times = _times(goal, asked)
        found += [(*each, goal) for each in by_goal[goal][-times:] if times]  # of those before, the last
        asked = asked.replace(goal, "") if isinstance(asked, str) else asked
    return [_record(caller, *each) for each in sorted(found, key=lambda each: each[0])]


def _times(goal: str, asked: str | list[str]) -> int:
    """Number of sub-agents that got a task, by the call or by the headings of the report."""
    if isinstance(asked, str):
        return max(goal in asked, asked.count(f": {goal} (status="))
    return asked.count(goal)


def _record(caller: Access, first: int, child: Session, goal: str) -> Answer:
    last = caller.scopes.last(caller.conversation(child.conversation_id))
    address = {"store_id": f"msg_{first}..msg_{last}", "conversation_id": child.conversation_id}
    return {"task": goal[:_GOAL_CHARS], "session_id": child.session_id, "read": {"tool": "lcm_expand", **address}}


def may_report(message: Mapping[str, Any]) -> bool:
    """May a message of the host be the result of a sub-agent? Ordinary words of the user are not."""
    said = content.text_of(message.get("content"))
    return message.get("role") != "user" or any(head in said for head in _REPORTS)


def subagent_lines(caller: Access, row: Row) -> str:
    """Records of sub-agents as lines behind their result; "" where there are none."""
    return "\n".join(records_of({"subagents": subagents_of(caller, row)}))


def _asked(caller: Access, row: Row) -> str | list[str]:
    """Tasks that were delegated: the host's report itself, or the tasks of the call that a result answers."""
    head = row.head
    if head.role == "user" and head.flags & Flag.HOST_NOTE and markers.host_block(row.text) == "subagent":
        return _flat(row.text)
    if head.role != "tool" or head.tool_name != work_log.DELEGATING or _DISPATCHED.match(row.text):
        return []
    before = caller.scopes.readable_stretch(head.conversation_id, head.seq - _WITHIN, head.seq - 1, caller.everything())
    calls = (each for made in caller.load_rows(before) for each in made.calls if each.id == head.tool_call_id)
    return [
        _flat(goal)
        for each in calls
        for goal in _goals(work_log.parsed(each.arguments, most_chars=len(each.arguments)))
    ]


def _goals(given: Mapping[str, Any]) -> Iterator[str]:
    """The goals of a call."""
    tasks = given.get("tasks")
    for each in [given, *(tasks if isinstance(tasks, list) else ())]:
        if isinstance(each, Mapping) and isinstance(each.get("goal"), str):
            yield each["goal"]


def _flat(text: str) -> str:
    return " ".join(text.split())


def said_elsewhere(caller: Access, rows: Sequence[Row]) -> list[int]:
    """Earlier forms of group messages whose every line, and what was said behind them, is stored as a message of its own.

    Each shows the lines of the group from the beginning of the talk on.
    """
    held = [row for row in rows if row.head.role == "user" and markers.overheard(row.text)[0]]
    revised = caller.scopes.successors([row.store_id for row in held], caller.everything()) if held else {}
    held = [row for row in held if row.store_id in revised]
    stored = {
        number: {head.digest for head in caller.store.heads([Segment(number)])}
        for number in {row.head.conversation_id for row in held}
    }

    def elsewhere(row: Row, line: str) -> bool:
        return content.digest("user", line) in stored[row.head.conversation_id]

    return [
        row.store_id
        for row in held
        if elsewhere(row, markers.overheard(row.text)[1]) and markers.only_says(row.text, partial(elsewhere, row))
    ]
