"""
Sources of a summary: stored messages as the summariser reads them.

Owns what of a message is a source: decoded text, no notes of the host, of a call made again only what its result says
otherwise; and what a summary is told of a message that cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ..llm.prompts import render_calls
from ..records import Flag, Row, SourceLine, Stored
from ..search import documents
from ..store import MessageStore
from ..text import content, markers, tokens

_OWN_ANSWER_CHARS = 160
_UNREADABLE = "[this message cannot be read any more: what is stored of it is damaged]"


def source_lines(store: MessageStore, ids: Sequence[int]) -> tuple[SourceLine, ...]:
    """Messages as the summariser sees them, in this order. Raises StoreError.

    A damaged one says so itself: it must not keep all others of its conversation from ever being compacted.
    """
    rows, damaged = store.legible(ids)
    lines = dict(_without_repeats(rows))
    lines |= {store_id: _unreadable(head) for store_id, head in store.heads_of(damaged).items()}
    return tuple(lines[store_id] for store_id in ids if store_id in lines)


def _without_repeats(rows: Iterable[Row]) -> Iterator[tuple[int, SourceLine]]:
    """The lines of messages. The result of a call that was made before says only what it did not say then."""
    calls: dict[str, tuple[str, str]] = {}
    told: dict[tuple[str, str], tuple[str, frozenset[str]]] = {}
    for row in rows:
        calls.update((call.id, (call.name, content.canonical_arguments(call.arguments))) for call in row.calls)
        if row.head.flags & Flag.FILTERED:
            continue
        line = source_line(row)
        key = calls.get(row.head.tool_call_id or "") if row.head.role == "tool" else None
        if key is not None and line.text:
            said, before = told.get(key, (line.address, frozenset()))
            lines = line.text.splitlines()
            if said != line.address:
                line = replace(line, text=_difference(line.text, lines, before, said))
            told[key] = said, before | frozenset(lines)
        yield row.store_id, line


def _difference(text: str, lines: Sequence[str], before: frozenset[str], earlier: str) -> str:
    fresh = [each for each in lines if each not in before]
    if not fresh:
        return ""
    changed = "\n".join([f"[the same call as {earlier}; new lines only]", *fresh])
    return min(text, changed, key=len)


def source_line(row: Row) -> SourceLine:
    """A stored message as the summariser sees it: with its calls, without what our own tools recalled.

    A note of the host has no text, but counts as what it takes in a prompt.
    """
    head = row.head
    text = row.text if not head.flags & Flag.HOST_NOTE else ""
    if head.flags & Flag.OWN_TOOL and head.role == "tool":
        text = f"{text[:_OWN_ANSWER_CHARS]} [... recalled history, kept in its original place ...]"
    elif head.role == "user":
        text = markers.typed(text)
    elif head.role == "tool":
        text = documents.as_read(text)
    calls = f"\n{render_calls(row.calls)}" if row.calls else ""
    role = "summary" if head.flags & Flag.IMPORTED else head.role
    return SourceLine(
        f"msg_{head.store_id}", role, (text + calls).strip(), head.said_at or head.stored_at, head.tool_name,
        head.tokens,
    )  # fmt: skip


def _unreadable(head: Stored) -> SourceLine:
    said_at = head.said_at or head.stored_at
    return SourceLine(
        f"msg_{head.store_id}", head.role, _UNREADABLE, said_at, head.tool_name, tokens.count(_UNREADABLE)
    )
