"""
What the summariser sees of stored messages.

Owns what of a message is a source for a summary, and what a summary is told of one that cannot be read.
"""

from __future__ import annotations

from collections.abc import Sequence

from .llm.prompts import render_calls
from .records import Flag, Row, SourceLine, Stored
from .store import MessageStore
from .text import markers, tokens

_OWN_ANSWER_CHARS = 160
_UNREADABLE = "[this message cannot be read any more: what is stored of it is damaged]"


def source_lines(store: MessageStore, ids: Sequence[int]) -> tuple[SourceLine, ...]:
    """Messages as the summariser sees them, in this order. Raises StoreError.

    A damaged one says so itself: it must not keep all others of its conversation from ever being compacted.
    """
    rows, damaged = store.legible(ids)
    lines = {row.store_id: source_line(row) for row in rows if not row.head.flags & Flag.FILTERED}
    lines |= {store_id: _unreadable(head) for store_id, head in store.heads_of(damaged).items()}
    return tuple(lines[store_id] for store_id in ids if store_id in lines)


def source_line(row: Row) -> SourceLine:
    """A stored message as the summariser sees it: with its calls, without what our own tools recalled."""
    head = row.head
    text = row.text
    if head.flags & Flag.OWN_TOOL and head.role == "tool":
        text = f"{text[:_OWN_ANSWER_CHARS]} [... recalled history, kept in its original place ...]"
    elif head.role == "user":
        text = markers.typed(text)
    calls = f"\n{render_calls(row.calls)}" if row.calls else ""
    role = "host" if head.flags & Flag.HOST_NOTE else "summary" if head.flags & Flag.IMPORTED else head.role
    return SourceLine(
        f"msg_{head.store_id}", role, (text + calls).strip(), head.said_at or head.stored_at, head.tool_name,
        tokens.count(text) + tokens.count(calls) + tokens.MESSAGE_OVERHEAD_TOKENS,
    )  # fmt: skip


def _unreadable(head: Stored) -> SourceLine:
    said_at = head.said_at or head.stored_at
    return SourceLine(
        f"msg_{head.store_id}", head.role, _UNREADABLE, said_at, head.tool_name, tokens.count(_UNREADABLE)
    )
