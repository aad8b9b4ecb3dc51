"""
Reading stored content back: a session page by page, one message, a range, what a summary was made of.

Owns the answers of ``lcm_load_session`` and ``lcm_expand`` and their continuations. Exact: pages joined are the stored text,
whatever arrives in the meantime, because rows and nodes never change and cursors are addresses. Searching is ``finding``'s
business, looking without reading ``overview``'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import BadRequest
from ..records import Node, Row
from ..search.scope import Filters
from ..session import Session
from . import beside, lines
from .access import Access
from .arguments import Address
from .grep import NOTE
from .paging import (
    MOST_HINT,
    Answer,
    Line,
    Part,
    Room,
    Shown,
    as_json,
    byte_part,
    exact,
    file_facts,
    fit,
    frame,
    iso,
    line_part,
    lost_files,
    node_frame,
    node_text,
    page,
    show,
    spoken,
)

_BATCH = 16  # rows decoded at a time: a page rarely holds more
_MOST_IN_RANGE = 200
#: Summaries below a recursively expanded one; a tree of more is read level by level.
_MOST_NODES = 5000


@dataclass(frozen=True, slots=True)
class Load:
    """A page of a session that is asked for."""

    session_id: str | None = None
    after: int = 0
    limit: int = 50
    most_chars: int = 4000
    as_lines: bool = False  # the answer will be text
    wanted: Filters = field(default_factory=Filters)


@dataclass(frozen=True, slots=True)
class Slice:
    """A piece of a text, and how much of it."""

    content_offset: int = 0
    arguments_offset: int = 0
    lines: tuple[int, int] | None = None
    bytes: tuple[int, int] | None = None
    part: str | None = None


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of a summary that are asked for."""

    offset: int = 0
    limit: int = 200
    recursive: bool = False
    as_lines: bool = False


# ------------------------------------------------------------------------------------------------------------ sessions
def load(caller: Access, ask: Load, room: Room) -> Answer:
    """One page of a session."""
    session_id = ask.session_id or (caller.session.session_id if caller.session else None)
    session = caller.find_session(session_id) if session_id else None
    out: Answer = {"note": NOTE, "session_id": session_id, "messages": [], "has_more": False, "next_cursor": None}
    if session is None or session_id is None:
        what = (
            f"there is no session {session_id!r} with messages that you may read"
            if session_id
            else ("nothing is stored of this session yet")
        )
        return {**out, "total_messages": 0, "notes": [what]}
    scope = caller.everything()
    total, newest = caller.scopes.total(session_id, scope, ask.wanted)
    out.update(conversation_id=session.conversation_id, total_messages=total, started_at=iso(session.started_at))
    before = _before(caller, session)
    if before:
        out["continues"] = before
    room.use_up(out)
    ids = caller.scopes.page(session_id, scope, ask.wanted, after=ask.after, limit=ask.limit)
    newer = caller.scopes.successors(ids, scope)

    places: dict[int, tuple[int, float]] = {}

    def facts(row: Row) -> Answer:
        places[row.store_id] = row.head.conversation_id, row.head.pos
        revised = {"superseded_by": f"msg_{newer[row.store_id]}"} if row.store_id in newer else {}
        return {**revised, **_told(caller, row)}

    written = _writer() if ask.as_lines else None
    shown, _ = page(_rows(caller, ids), room, most_chars=ask.most_chars, extra=facts, written=written)
    last = shown[-1].item["store_id"] if shown else 0
    # Cursors only grow, so what came between others later (an import, a repair, another setting) stands on a later page.
    out["messages"] = sorted((with_handle(each) for each in shown), key=lambda each: places[each["store_id"]])
    if shown and last < newest:
        out["has_more"], out["next_cursor"] = True, last
    elif ask.after > newest > 0:
        out["notes"] = [
            f"after_store_id={ask.after} is past the end: the newest message of this session is msg_{newest}"
        ]
    return out


def _told(caller: Access, row: Row) -> Answer:
    """Speaker of a message of a shared chat, and the records that a delegated result came out of."""
    who, below = spoken(caller.speaker(row)), beside.subagents_of(caller, row)
    return {**({"speaker": who} if who else {}), **({"subagents": below} if below else {})}


def _before(caller: Access, session: Session) -> Answer | None:
    """The session that a rotated or branched one goes on from."""
    parent = session.parent_session_id
    if session.origin not in ("rotation", "branch") or not parent or caller.find_session(parent) is None:
        return None
    out: Answer = {"session_id": parent, "as": session.origin}
    if session.origin == "branch":
        scope = caller.conversation(session.conversation_id)
        last = caller.scopes.last(replace(scope, conversations=tuple(c for c, *_ in scope.cuts)))
        out["up_to"] = f"msg_{last}" if last else None
    return out


def _rows(caller: Access, ids: Sequence[int]) -> Iterator[Row]:
    for at in range(0, len(ids), _BATCH):
        yield from caller.load_rows(ids[at : at + _BATCH])


def _writer() -> Callable[[Shown], Line]:
    """Writer of the messages of one page in lines: each with the line of its day, where it is the first of that day."""
    told = ""

    def written(shown: Shown) -> Line:
        nonlocal told
        item = with_handle(shown)
        before, told = told, (item.get("time") or "")[:10]
        return Line("\n".join([*([] if told == before else [f"lcm: {told} UTC"]), *lines.message(item, day=not told)]))

    return written


def with_handle(shown: Shown) -> Answer:
    """A message of a list; what was cut of it says how to go on."""
    item = shown.item
    if not shown.whole:
        item["continue_with"] = _continuation({"store_id": item["store_id"]}, shown)
    return item


def _continuation(arguments: Answer, shown: Shown) -> Answer:
    out = {"tool": "lcm_expand", **arguments}
    if shown.next_offset is not None:
        out["content_offset"] = shown.next_offset
    if shown.next_arguments is not None:
        out["arguments_offset"] = shown.next_arguments
    return out


# ------------------------------------------------------------------------------------------------------------ messages
def message(caller: Access, store_id: int, piece: Slice, room: Room) -> Answer:
    """One message, exactly, from an offset on."""
    row = caller.row(store_id)
    if piece.part == "message":
        return _whole_message(row, piece, room)
    part = Part(piece.content_offset, None, None, piece.arguments_offset)
    facts = _facts(caller, row)
    room.use_up(facts)
    if piece.lines or piece.bytes:
        start, stop, size = _bounds(exact(row)[0] or "", piece)
        part = Part(max(start, piece.content_offset), stop, None, 0)
        facts["lines_total" if piece.lines else "bytes_total"] = size
        row = Row(row.head, row.text, (), row.stored_json)
    if lost := caller.payloads.missing(row):
        facts["notes"] = lost_files(lost)
    shown = show(row, room, part)
    out = {"note": NOTE, **shown.item, **facts}
    if not shown.whole:
        out["continue_with"] = _continuation({"store_id": store_id, **_ranges(piece)}, shown)
    return out


def _facts(caller: Access, row: Row) -> Answer:
    head = row.head
    out: Answer = {
        "address": f"msg_{head.store_id}",
        "session_id": head.session_id,
        "conversation_id": head.conversation_id,
    }
    out.update(_told(caller, row))
    summaries = caller.covering([head.store_id])
    if summaries:
        out["summary"] = summaries[head.store_id]
    newer = caller.scopes.successors([head.store_id], caller.everything())
    if newer:
        out["superseded_by"] = f"msg_{newer[head.store_id]}"
    return out


def _whole_message(row: Row, piece: Slice, room: Room) -> Answer:
    """The host's dict as JSON: reasoning, unknown keys and all."""
    text = as_json(row.stored_json)
    out: Answer = {"note": NOTE, **frame(row.head), "part": "message", "content_type": "json"}
    room.use_up(out)
    handle = {"tool": "lcm_expand", "store_id": row.store_id, "part": "message", **_ranges(piece)}
    return {**out, **_cut(text, piece, room, handle)}


def _cut(text: str, piece: Slice, room: Room, handle: Mapping[str, Any]) -> Answer:
    """A slice of a text that fits, and how to go on."""
    start, stop, _ = _bounds(text, piece)
    if piece.content_offset > len(text):
        raise BadRequest(f"content_offset={piece.content_offset} is past the end: there are {len(text)} characters")
    start = min(max(start, piece.content_offset), stop)
    end = fit(text, start, stop, room)
    out: Answer = {"content": text[start:end], "content_truncated": end < stop, "content_chars": len(text)}
    if start:
        out["content_offset"] = start
    if end < stop:
        out["next_content_offset"] = end
        out["continue_with"] = {**handle, "content_offset": end}
    return out


def _bounds(text: str, piece: Slice) -> tuple[int, int, int]:
    if piece.lines and piece.bytes:
        raise BadRequest("lines and bytes are two ways to name a piece; give one of them")
    if piece.lines:
        return line_part(text, *piece.lines)
    if piece.bytes:
        return byte_part(text, *piece.bytes)
    return 0, len(text), len(text)


def _ranges(piece: Slice) -> Answer:
    named = (("lines", piece.lines), ("bytes", piece.bytes))
    return {name: f"{value[0]}-{value[1]}" for name, value in named if value}


def stretch(
    caller: Access, address: Address, conversation_id: int | None, room: Room, *, as_lines: bool = False
) -> Answer:
    """The readable messages of a range of addresses (of one conversation, if it is named), in order."""
    last = address.last if address.last is not None else address.number
    if last < address.number:
        raise BadRequest(f"{address} ends before it begins")
    scope = caller.choose(conversation_id=conversation_id).scope if conversation_id is not None else caller.everything()
    ids = caller.scopes.between(address.number, last, scope, limit=_MOST_IN_RANGE + 1)
    rows = caller.store.heads_of(ids)
    out: Answer = {"note": NOTE, "range": str(address), "messages": [], "has_more": False}
    if not ids:
        return {**out, "notes": [f"there are no messages that you may read in {address}"]}
    room.use_up(out)

    def facts(row: Row) -> Answer:
        return {"session_id": rows[row.store_id].session_id, **_told(caller, row)}

    written = _writer() if as_lines else None
    shown, cut = page(_rows(caller, ids[:_MOST_IN_RANGE]), room, most_chars=4000, extra=facts, written=written)
    out["messages"] = [with_handle(each) for each in shown]
    if cut or len(ids) > _MOST_IN_RANGE:
        following = ids[len(shown)]
        out["has_more"], out["next_cursor"] = True, out["messages"][-1]["store_id"]
        of = {"conversation_id": conversation_id} if conversation_id is not None else {}
        out["continue_with"] = {"tool": "lcm_expand", "store_id": f"msg_{following}..msg_{last}", **of}
    return out


# ------------------------------------------------------------------------------------------------------------ summaries
def summary(caller: Access, node_id: int, ask: Sources, content_offset: int, room: Room) -> Answer:
    """Sources of a summary: its immediate ones, or with ``recursive`` all messages below it."""
    node = caller.node(node_id)
    leaf = node.depth == 0
    sources = _messages_below(caller, node) if ask.recursive and not leaf else caller.dag.sources(node_id)
    if ask.offset > len(sources):
        raise BadRequest(f"source_offset={ask.offset} is past the end: {node.address} has {len(sources)} sources")
    out: Answer = {"note": NOTE, "node_id": node_id, **_short(node), "expanded": []}
    if ask.recursive:
        out["recursive"] = True
    room.use_up(out)
    room.use_up(
        {"pagination": {"source_offset": 0, "has_more": True, "next_source_offset": 0, "next_content_offset": 0}}
    )
    wanted = sources[ask.offset : ask.offset + ask.limit]
    if leaf or ask.recursive:
        items, resume = _source_messages(caller, wanted, content_offset, room, as_lines=ask.as_lines)
    else:
        items, resume = _source_nodes(caller, wanted, content_offset, room)
    out["expanded"] = items
    at = ask.offset + (len(items) - 1 if resume else len(items))
    more = at < len(sources)
    out["pagination"] = {
        "source_offset": ask.offset, "total_sources": len(sources), "has_more": more,
        "next_source_offset": at if more else None, "next_content_offset": resume or None,
    }  # fmt: skip
    if more:
        handle = {"tool": "lcm_expand", "node_id": node_id, "source_offset": at}
        extra = {"content_offset": resume} if resume else {}
        extra.update({"recursive": True} if ask.recursive else {})
        out["continue_with"] = {**handle, **extra}
    return out


def _short(node: Node) -> Answer:
    facts = node_frame(node)
    return {name: facts[name] for name in ("address", "depth", "kind", "quality", "messages", "message_count")}


def _messages_below(caller: Access, node: Node) -> list[int]:
    """Store ids under a node in the order of its sources."""
    out: list[int] = []
    stack = [node.node_id]
    seen = 0
    while stack:
        current = caller.dag.node(stack.pop())
        seen += 1
        if current is None or seen > _MOST_NODES:
            continue
        below = caller.dag.sources(current.node_id)
        if current.depth == 0:
            out.extend(below)
        else:
            stack.extend(reversed(below))
    return list(dict.fromkeys(out))


def _source_messages(
    caller: Access, ids: Sequence[int], offset: int, room: Room, *, as_lines: bool
) -> tuple[list[Answer], int]:
    """Messages that fit; where the last of them was cut (0: nowhere)."""
    items: list[Answer] = []
    written = _writer()
    readable = caller.scopes.messages(ids, caller.everything())
    for row in _rows(caller, ids):
        if row.store_id not in readable:
            items.append({"store_id": row.store_id, "content": None, "notes": ["not readable"]})
            continue
        if items and (room.tokens < 80 or room.chars < 300):
            return items, 0
        before = Room(room.tokens, room.chars)
        first = not items
        if first and offset:
            row = caller.payloads.whole(row)  # the page before ended in front of a stored file
        shown = show(row, room, Part(offset if first else 0), _told(caller, row))
        if shown.next_offset is not None and not first and before.tokens < 1000 and len(exact(row)[0] or "") < 8000:
            return items, 0  # a message that fits on the next page is not torn apart for a few lines on this one
        items.append(with_handle(shown))
        if shown.next_offset is not None:
            return items, shown.next_offset
        if as_lines:
            before.use_up(written(shown))
            room.tokens, room.chars = before.tokens, before.chars
    return items, 0


def _source_nodes(caller: Access, ids: Sequence[int], offset: int, room: Room) -> tuple[list[Answer], int]:
    """Child summaries that fit; where the text of the last of them was cut (0: nowhere)."""
    items: list[Answer] = []
    for node in caller.nodes(ids):
        item: Answer = {"node_id": node.node_id, **node_frame(node)}
        if items and (not room.holds(item) or room.tokens < 150):
            return items, 0
        room.use_up(item)
        text = node_text(node)
        start = min(offset if not items else 0, len(text))
        end = fit(text, start, len(text), room)
        item["content"], item["content_truncated"] = text[start:end], end < len(text)
        if node.expand_hint:
            item["expand_hint"] = node.expand_hint[:MOST_HINT]
        room.use_up(item["content"])
        items.append(item)
        if end < len(text):
            item["next_content_offset"] = end
            return items, end
    return items, 0


# ------------------------------------------------------------------------------------------------------------ files
def file(caller: Access, name: str, piece: Slice, room: Room) -> Answer:
    """One stored file, from an offset on."""
    payload = caller.payload(name)
    out: Answer = {"note": NOTE, "externalized_ref": name, **file_facts(name, payload.facts)}
    room.use_up(out)
    handle = {"tool": "lcm_expand", "externalized_ref": name, **_ranges(piece)}
    return {**out, **_cut(payload.text, piece, room, handle)}
