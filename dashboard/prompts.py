"""
Prompts that were built: their list, one of them as the model saw it, and what changed from one to another.

A prompt is not stored as text. It is built again from its summaries and messages, which never change, and compared with the
digest that was stored with it: so the page can say whether this is the very text, or only nearly so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..errors import NotFound
from ..exam.grading import rebuilt, shown_of
from ..recall.paging import time_said
from ..records import Assembly, Flag, Node, Row, in_order
from ..session import Cut
from .look import Answer, Look

_PAGE: Final = 25
_TEXT_CHARS: Final = 4000
_LIST = """
SELECT assembly_id FROM assemblies WHERE conversation_id = ? ORDER BY assembly_id DESC LIMIT ? OFFSET ?
"""


def prompts(look: Look) -> Answer:
    """Prompts of a conversation, newest first, a page of them."""
    offset, limit = look.whole("offset"), look.whole("limit", _PAGE, most=200)
    rows = look.deps.db.query(_LIST, (look.session.conversation_id, limit + 1, offset))
    found = [_assembly(look, row[0]) for row in rows[:limit]]
    shown = [
        {"id": each.assembly_id, "at": each.created_at, "summaries": len(each.roots), "messages": len(each.tail_ids)}
        for each in found
    ]
    return {"prompts": shown, "offset": offset, "more": len(rows) > limit}


def _assembly(look: Look, number: int) -> Assembly:
    found = look.deps.dag.assembly(number)
    if found is None or found.conversation_id != look.session.conversation_id:
        raise NotFound(f"this conversation has no prompt {number}")
    return found


# -- one prompt ----------------------------------------------------------------------------------------
def prompt(look: Look) -> Answer:
    """The prompt of a compaction (``id``), or of when a message (``at``) was the newest; its messages by pages."""
    assembly, until = _asked(look)
    deps = look.deps
    roots = in_order(deps.dag.nodes(assembly.roots)) if assembly is not None else []
    ids = _shown_ids(look, assembly, until)
    offset, limit = look.whole("offset"), look.whole("limit", _PAGE, most=100)
    rows = deps.rows(ids[offset : offset + limit])
    short = assembly.stubs if assembly is not None else {}
    out: Answer = {
        "id": assembly.assembly_id if assembly is not None else None,
        "made": assembly.created_at if assembly is not None else None,
        "summaries": [_summary(look, node) for node in roots],
        "messages": [
            {"id": row.store_id, "role": row.head.role, "tool": row.head.tool_name, "at": time_said(row.head),
             "tokens": row.head.tokens, **(_text(look, row, short) if look.full else {})}
            for row in rows
        ],
        "total": len(ids), "offset": offset, "limit": limit,
    }  # fmt: skip
    if assembly is None:
        return {**out, "exact": True, "state": ""}
    _, state, exact = rebuilt(deps, look.session, assembly)
    return {**out, "exact": exact, **({"state": state} if look.full else {})}


def _text(look: Look, row: Row, short: Mapping[int, int]) -> Answer:
    """Text of a message as the prompt shows it, and the characters of all of it."""
    said = shown_of(row, short[row.store_id], look.session.nonce) if row.store_id in short else row.text
    return {"text": said[:_TEXT_CHARS], "chars": len(row.text)}


def _asked(look: Look) -> tuple[Assembly | None, int | None]:
    """(the prompt that governed, the newest row then; None: the compaction itself)."""
    if not (at := look.whole("at")):
        number = look.whole("id")
        newest = look.deps.assembly()
        return (_assembly(look, number) if number else newest), None
    head = look.deps.store.heads_of([at]).get(at)
    if head is None or head.conversation_id != look.session.conversation_id:
        raise NotFound(f"this conversation has no message msg_{at}")
    sql = "SELECT max(assembly_id) FROM assemblies WHERE conversation_id = ? AND last_seq < ?"
    (number,) = look.deps.db.query(sql, (head.conversation_id, head.seq))[0]
    return (_assembly(look, number) if number else None), head.seq


def _shown_ids(look: Look, assembly: Assembly | None, until: int | None) -> list[int]:
    """Messages that stood in the prompt as they are, in order."""
    kept = list(assembly.tail_ids) if assembly is not None else []
    if assembly is not None and until is None:
        return kept
    end = Cut() if until is None else Cut(until)
    segments = [each.within(end) for each in look.deps.sessions.ancestry(look.session.conversation_id)]
    if assembly is None:
        behind = look.deps.store.heads(segments)
    else:
        behind = look.deps.store.heads_behind(segments[-1], pos=assembly.last_pos, seq=assembly.last_seq)
    more = [head.store_id for head in behind if not head.flags & Flag.RETRACTED]
    return list(dict.fromkeys([*kept, *more]))


def _summary(look: Look, node: Node) -> Answer:
    out: Answer = {
        "id": node.node_id, "depth": node.depth, "quality": node.quality, "messages": node.message_count,
        "tokens": node.tokens, "first": node.first_store_id, "last": node.last_store_id, "from": node.earliest_at,
        "to": node.latest_at,
    }  # fmt: skip
    return {**out, "text": node.text, "hint": node.expand_hint} if look.full else out


# -- two prompts ---------------------------------------------------------------------------------------
def compare(look: Look) -> Answer:
    """Messages that left and that entered from the prompt ``a`` to the prompt ``b``."""
    old, new = (_assembly(look, look.whole(name)) for name in ("a", "b"))
    before, after = set(old.roots), set(new.roots)
    nodes = {node.node_id: node for node in look.deps.dag.nodes(sorted(before | after))}
    raw_before, raw_after = set(old.tail_ids), set(new.tail_ids)
    folded = set(look.deps.dag.messages_below(sorted(after - before))) - set(
        look.deps.dag.messages_below(sorted(before))
    )
    return {
        "a": old.assembly_id,
        "b": new.assembly_id,
        "kept": [_summary(look, nodes[n]) for n in sorted(before & after) if n in nodes],
        "gone": [_summary(look, nodes[n]) for n in sorted(before - after) if n in nodes],
        "new": [_summary(look, nodes[n]) for n in sorted(after - before) if n in nodes],
        "folded": len(folded),
        "left": len(raw_before - raw_after),
        "came": len(raw_after - raw_before),
        "stayed": len(raw_before & raw_after),
    }
