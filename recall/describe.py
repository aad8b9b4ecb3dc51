"""
Looking without reading: what there is, what it covers, what it would cost.

Owns the answers of ``lcm_describe``: the overview of a conversation, a summary with its subtree, a message's facts, a file.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import BadRequest
from ..records import STATED, Flag, Node
from ..search import documents
from ..session import Session
from ..text import blobs
from ..text.explore import explore
from .access import Access
from .arguments import Address
from .grep import NOTE
from .paging import (
    MOST_HINT,
    Answer,
    Room,
    exact,
    file_facts,
    fit,
    frame,
    iso,
    lost_files,
    node_frame,
    node_text,
    spans,
    time_said,
)

_MOST_LISTED = 40
_PREVIEW_CHARS = 400
_SESSIONS = 12
_MOST_FILES = 20  # of a summary, in one answer
_FILE_CHARS = 2000  # of a file's content, where no other size was asked for
_EXPLORED_CHARS = 1800


def describe(
    caller: Access, address: Address, source_offset: int, content_offset: int, room: Room, *, in_full: bool = False
) -> Answer:
    """Description of anything with an address. ``in_full``: as much of a file as fits, not just its beginning."""
    if address.kind == "file":
        most = None if in_full or content_offset else _FILE_CHARS
        return _file(caller, address.name, source_offset, content_offset, room, most)
    if address.kind == "msg":
        if address.last is not None:
            raise BadRequest(f"{address} is a range; lcm_expand(store_id) reads it")
        return _message(caller, address.number)
    if address.last is not None:
        raise BadRequest(f"{address} is a range; describe one summary at a time")
    return _summary(caller, caller.node(address.number), source_offset, content_offset, room)


# ------------------------------------------------------------------------------------------------------------ overview
def overview(caller: Access, session: Session | None, room: Room, others_from: int = 0) -> Answer:
    """Overview of a conversation: the summaries its prompt shows, what is stored, which sessions there are."""
    current = session is None or (caller.session is not None and session.session_id == caller.session.session_id)
    session = session or caller.session
    out: Answer = {"note": NOTE}
    if session is None:
        return {
            **out,
            "notes": ["nothing is stored of this session yet"],
            **_others(caller, None, room, others_from),
        }
    messages, _ = caller.scopes.counts(caller.conversation(session.conversation_id))
    out.update(
        session_id=session.session_id, conversation_id=session.conversation_id, origin=session.origin,
        messages=messages, compactions=session.compactions,
        sessions=_last([each.session_id for each in caller.sessions.of_conversation(session.conversation_id)]),
    )  # fmt: skip
    latest = None if current else caller.dag.latest_assembly(session.conversation_id)
    roots = caller.roots() if current else latest.roots if latest is not None else ()
    roots = (*(n for n in caller.sessions.carried(session.conversation_id) if n not in roots), *roots)
    out["nodes_by_depth"] = [
        {"depth": depth, "quality": quality, "count": count}
        for (depth, quality), count in caller.dag.by_depth(session.conversation_id).items()
        if not caller.rights.shown  # other people's are among them
    ]
    if current and (ids := caller.in_prompt()):
        out["in_prompt"] = _last(spans(tuple(ids)))
    room.use_up(out)
    _roots(out, caller, roots, room)
    out.update(_others(caller, session, room, others_from))
    out["read_on"] = "lcm_describe(id=sum_N) for one summary, lcm_expand(node_id=N) for its sources"
    return out


def _first(items: list[str]) -> list[str]:
    """The first of a list; how many more there are stands where they would."""
    return items if len(items) <= _MOST_LISTED else [*items[:_MOST_LISTED], f"… {len(items) - _MOST_LISTED} more"]


def _last(items: list[str]) -> list[str]:
    """The last of a list; of those before, lcm_load_session tells one by one (``continues``)."""
    return items if len(items) <= _MOST_LISTED else [f"… {len(items) - _MOST_LISTED} more", *items[-_MOST_LISTED:]]


def _roots(out: Answer, caller: Access, roots: Sequence[int], room: Room) -> None:
    """The summaries of the prompt: ids always, facts and first words while there is room."""
    out["roots"] = []
    carried = set(caller.sessions.carried(out["conversation_id"]))
    for node in caller.nodes(roots):
        item: Answer = {"node_id": node.node_id}
        full = {**item, **node_frame(node), "begins": " ".join(node.text.split())[:120]}
        if node.node_id in carried:
            full["carried_over"] = True
        item = full if room.holds(full) else item
        room.use_up(item)
        out["roots"].append(item)


def _others(caller: Access, session: Session | None, room: Room, start: int) -> Answer:
    """Other sessions that this caller may read, newest first, from a place on; and how to get the next ones."""
    out: list[Answer] = []
    scope = caller.everything()
    recent = caller.sessions.recent(
        principal=scope.principal, limit=start + _SESSIONS + 2, conversations=scope.conversations
    )
    given: Answer = {"tool": "lcm_describe", **({"session_id": session.session_id} if session else {})}
    readable = caller.scopes.conversations([each.conversation_id for each in recent], scope)
    wanted = [each for each in recent if not (session and each.session_id == session.session_id)]
    _within(start, len(wanted), "other sessions")
    for place, each in enumerate(wanted[start:], start):
        if each.conversation_id not in readable:
            continue
        item = {
            "session_id": each.session_id, "conversation_id": each.conversation_id, "platform": each.platform,
            "started_at": iso(each.started_at),
        }  # fmt: skip
        if len(out) >= _SESSIONS or not room.holds(item):
            return {"other_sessions": out, "other_sessions_continue_with": {**given, "source_offset": place}}
        room.use_up(item)
        out.append(item)
    return {"other_sessions": out}


# ------------------------------------------------------------------------------------------------------------ a summary
def _checks(node: Node) -> Answer:
    """Findings of verification; not the places of facts, which the ledger shows."""
    return {name: said for name, said in node.facts.items() if name != STATED}


def _summary(caller: Access, node: Node, source_offset: int, content_offset: int, room: Room) -> Answer:
    sources = caller.dag.sources(node.node_id)
    out: Answer = {"note": NOTE, "type": "summary", "node_id": node.node_id, **node_frame(node)}
    better = caller.scopes.better([node.node_id], caller.everything())
    out.update(
        conversation_id=node.conversation_id, created_at=iso(node.created_at),
        descendant_count=len(caller.dag.nodes_below([node.node_id])) - 1,
        parents=[each.address for each in caller.nodes(caller.dag.parents(node.node_id))],
        verification={"quality": node.quality, "model": node.model, "rung": node.rung, "checks": _checks(node)},
        in_prompt=node.node_id in (*caller.roots(), *caller.carried()), expand_hint=node.expand_hint[:MOST_HINT],
    )  # fmt: skip
    out.update(_files_below(caller, node))
    if node.replaces is not None:
        out["replaces"] = f"sum_{node.replaces}"
    if better:
        out["replaced_by"] = f"sum_{better[node.node_id]}"
    room.use_up(out)
    text = node_text(node)
    if content_offset > len(text):
        raise BadRequest(f"content_offset={content_offset} is past the end: the text has {len(text)} characters")
    end = fit(text, content_offset, len(text), room.part(0.7))
    out["content"], out["content_truncated"] = text[content_offset:end], end < len(text)
    handle: Answer = {"tool": "lcm_describe", "id": node.address}
    if end < len(text):
        out["next_content_offset"] = end
        out["continue_with"] = {**handle, "content_offset": end}
    else:
        handle["content_offset"] = end  # all of it was shown: what goes on behind it is the list of sources
    room.use_up(out["content"])
    if node.depth == 0:
        _leaf_sources(caller, out, sources, source_offset, room, handle)
    else:
        _subtree(caller, out, sources, source_offset, room, handle)
    return out


def _files_below(caller: Access, node: Node) -> Answer:
    """Files that messages under a summary show, by name."""
    ids = caller.dag.messages_below([node.node_id])
    readable = caller.scopes.messages(ids, caller.everything())
    heads = caller.store.heads_of([n for n in ids if n in readable])
    shown = [head.digest for head in heads.values() if head.flags & Flag.EXTERNALISED]
    names = caller.payloads.names_of(shown) if shown else []
    more = {"files_total": len(names)} if len(names) > _MOST_FILES else {}
    return {"files": names[:_MOST_FILES], **more} if names else {}


def _leaf_sources(caller: Access, out: Answer, sources: Sequence[int], offset: int, room: Room, handle: Answer) -> None:
    """The messages of a leaf as ranges, and what reading them costs."""
    heads = caller.store.heads_of(sources)
    _within(offset, len(sources), "messages below it")
    out["source_count"] = len(sources)
    out["source_messages"] = _first(spans(sources))
    roles: dict[str, int] = {}
    for head in heads.values():
        roles[head.role] = roles.get(head.role, 0) + 1
    out["source_roles"] = roles
    out["sessions"] = _first(list(dict.fromkeys(head.session_id for head in heads.values())))
    items: list[Answer] = []
    for store_id in sources[offset:]:
        head = heads[store_id]
        item = {"store_id": store_id, "role": head.role, "tokens": head.tokens, "time": iso(time_said(head))}
        if head.tool_name:
            item["tool_name"] = head.tool_name
        if not room.holds(item) or len(items) >= _MOST_LISTED:
            out.setdefault("continue_with", {**handle, "source_offset": offset + len(items)})
            out["next_source_offset"] = offset + len(items)
            break
        room.use_up(item)
        items.append(item)
    out["sources"] = items


def _subtree(caller: Access, out: Answer, sources: Sequence[int], offset: int, room: Room, handle: Answer) -> None:
    """Every summary below, depth first, with its cost, as far as there is room."""
    out["children"] = [f"sum_{child}" for child in sources]
    listed: list[Answer] = []
    stack = [(child, 1) for child in reversed(sources)]
    place = 0
    while stack:
        node_id, level = stack.pop()
        found = caller.dag.node(node_id)
        if found is None:
            continue
        if found.depth > 0:
            stack.extend((child, level + 1) for child in reversed(caller.dag.sources(node_id)))
        place += 1
        if place <= offset:
            continue
        facts = node_frame(found)
        kept = ("address", "depth", "quality", "tokens", "source_tokens", "message_count", "messages")
        item = {"level": level, **{name: facts[name] for name in kept}}
        if not room.holds(item) or len(listed) >= 2 * _MOST_LISTED:
            out["next_source_offset"] = place - 1
            out.setdefault("continue_with", {**handle, "source_offset": place - 1})
            break
        room.use_up(item)
        listed.append(item)
    _within(offset, place, "summaries below it")
    out["subtree"] = listed


def _within(offset: int, count: int, what: str) -> None:
    """Raises BadRequest for a place behind the end of a list: an empty page would say that there is nothing."""
    if offset > count:
        raise BadRequest(f"source_offset={offset} is past the end: there are {count} {what}")


# ------------------------------------------------------------------------------------------------------------ the rest
def _message(caller: Access, store_id: int) -> Answer:
    row = caller.row(store_id)
    head = row.head
    text, is_json = exact(row)
    newer = caller.scopes.successors([store_id], caller.everything())
    out: Answer = {
        "note": NOTE, "type": "message", "address": f"msg_{store_id}", **frame(head), "session_id": head.session_id,
        "conversation_id": head.conversation_id, "position": head.pos, "stored_at": iso(head.stored_at),
        "source": head.source, "tokens": head.tokens, "chars": len(text or ""), "lines": len(documents.line_ends(text or "")) + 1,
        "content_type": "parts" if is_json else "text", "begins": row.text[:_PREVIEW_CHARS],
        "in_prompt": store_id in caller.in_prompt(), "summaries": _summaries_over(caller, store_id),
    }  # fmt: skip
    if lost := caller.payloads.missing(row):
        out["notes"] = lost_files(lost)
    if newer:
        out["superseded_by"] = f"msg_{newer[store_id]}"
    if row.calls:
        out["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments_chars": len(call.arguments)}
            for call in row.calls[:_MOST_LISTED]
        ]
        out["tool_calls_total"] = len(row.calls)
    others = sorted(key for key in row.stored_json if key not in ("role", "content", "tool_calls", "tool_call_id"))
    if others:
        out["other_fields"] = _first(others)
    out["read_on"] = f"lcm_expand(store_id={store_id})"
    return out


def _summaries_over(caller: Access, store_id: int) -> list[str]:
    """The summaries over a message, from the leaf up."""
    out: list[int] = []
    level = [node.node_id for node in caller.nodes(caller.dag.covering(store_id))]
    while level and len(out) < _MOST_LISTED:
        out.extend(node_id for node_id in level if node_id not in out)
        above = [parent for node_id in level for parent in caller.dag.parents(node_id) if parent not in out]
        level = [node.node_id for node in caller.nodes(above)]
    return [f"sum_{node_id}" for node_id in out]


def _file(caller: Access, name: str, source_offset: int, content_offset: int, room: Room, most: int | None) -> Answer:
    payload = caller.payload(name)
    _within(source_offset, len(payload.facts.get("messages", ())), "messages that show it")
    out: Answer = {"note": NOTE, "type": "file", "id": name, **file_facts(name, payload.facts, source_offset)}
    out["content_chars"] = len(payload.text)
    if payload.facts.get("kind") == blobs.TEXT:
        out["exploration"] = explore(payload.text)[1][:_EXPLORED_CHARS]
    if content_offset > len(payload.text):
        raise BadRequest(f"content_offset={content_offset} is past the end: there are {len(payload.text)} characters")
    room.use_up(out)
    stop = len(payload.text) if most is None else min(len(payload.text), content_offset + most)
    end = fit(payload.text, content_offset, stop, room)
    out["content"], out["content_truncated"] = payload.text[content_offset:end], end < len(payload.text)
    if end < len(payload.text):
        out["next_content_offset"] = end
        out["continue_with"] = {"tool": "lcm_describe", "id": name, "content_offset": end}
    return out
