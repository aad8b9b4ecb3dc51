"""
Rounds of tools: the call beside a result that was found, and the failure beside a call.

A result says little without what it was asked for, a call little without what came of it. Only what the caller may read is told.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ..prompt import work_log
from ..records import Row, ToolCall
from ..text import outcomes
from .access import Access
from .paging import Answer

_WITHIN: Final = 20  # rows between a call and its result
_CALL_CHARS: Final = 300


def is_deed(row: Row) -> bool:
    """Is it the result of a tool that changes something, by its name?"""
    return row.head.role == "tool" and outcomes.changes_something(row.head.tool_name or "")


def beside(caller: Access, row: Row, shown: Collection[int]) -> Answer:
    """``called_by`` of a result, ``failed`` of a call: address and what it says; {} where that is among those ``shown``."""
    if row.head.role == "tool" and row.head.answers:
        return _call_of(caller, row, shown)
    return _failure_of(caller, row, shown) if row.calls else {}


def _call_of(caller: Access, row: Row, shown: Collection[int]) -> Answer:
    head = row.head
    before = caller.scopes.around(head.conversation_id, head.seq - _WITHIN, head.seq - 1, caller.everything())
    heads = caller.store.heads_of(before)
    asking = [at for at in before if heads[at].role == "assistant"][-1:]
    if not asking or asking[0] in shown:
        return {}
    made = next((call for each in caller.rows(asking) for call in each.calls if call.id == head.answers), None)
    said = _said(made, row.text) if made is not None else ""
    return {"called_by": {"address": f"msg_{asking[0]}", "snippet": said}} if said else {}


def _failure_of(caller: Access, row: Row, shown: Collection[int]) -> Answer:
    head, calls = row.head, {call.id for call in row.calls}
    after = caller.scopes.around(head.conversation_id, head.seq + 1, head.seq + _WITHIN, caller.everything())
    heads = caller.store.heads_of(after)
    results = [at for at in after if heads[at].role == "tool" and heads[at].answers in calls and at not in shown]
    for each in caller.rows(results):
        text, failed = work_log.result(each.text)
        if failed and (line := work_log.error_line(text)):
            return {"failed": {"address": f"msg_{each.store_id}", "snippet": line}}
    return {}


def _said(call: ToolCall, result: str) -> str:
    """Arguments of a call in words: all of what changes something, else what its result does not repeat."""
    given = work_log.arguments(call, besides="" if outcomes.changes_something(call.name) else result)
    said = f"{call.name} {given}" if given else ""
    return said if len(said) <= _CALL_CHARS else f"{said[:_CALL_CHARS]}…"
