"""
Conversations for the tab: their list, the graph of summaries over a line of messages, one summary beside its sources, one
message whole.

A line of any length is answered in at most ``BUCKETS`` pieces, so a page of 50,000 messages costs what one of 500 does.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

from ..errors import BadRequest
from ..ops import explain, listing
from ..ops.orders import Orders
from ..ops.render import checks_said
from ..recall.paging import time_said
from ..records import ARCHIVE_RUNG, Flag, Row
from ..session import Segment
from ..text import content, salience
from .look import Answer, Look

BUCKETS: Final = 1200
#: Messages that are sent one by one instead of counted.
SINGLE: Final = 400
PAGE: Final = 25
_MOST_PAGE: Final = 200
_NODES: Final = 5000
_TITLE_CHARS, _SOURCE_CHARS, _PART_CHARS = 90, 6000, 20_000
_DROPPED: Final = 60  # terms of one source
_GRAPH = """
SELECT node_id, depth, quality, rung, first_pos, last_pos, message_count, tokens, source_tokens, created_at, replaces
  FROM nodes WHERE conversation_id IN (SELECT value FROM json_each(?)) AND node_id > ? ORDER BY node_id LIMIT ?
"""
_LINKS = "SELECT child_id FROM node_sources WHERE node_id = ? AND child_id IS NOT NULL ORDER BY position"
_COUNTED = """
SELECT min(:most, cast((pos - :low) * :parts / (:high - :low) AS INTEGER)), role, count(*), sum(tokens),
       min(coalesce(said_at, stored_at))
  FROM messages WHERE conversation_id = :c AND seq <= :seq AND pos <= :pos AND seq >= :low AND pos >= :low AND pos <= :high
   AND flags & :gone = 0 GROUP BY 1, 2 ORDER BY 1
"""
_SINGLE = """
SELECT store_id, pos, role, tool_name, tokens, coalesce(said_at, stored_at) FROM messages
 WHERE conversation_id = :c AND seq <= :seq AND seq >= :low AND pos >= :low AND pos <= :pos AND flags & :gone = 0
 ORDER BY pos, seq LIMIT :most
"""
#: The newest ones; the last column counts all of them.
_BUILT = """
SELECT assembly_id, last_pos, created_at, count(*) OVER () FROM assemblies WHERE conversation_id = ?
 ORDER BY assembly_id DESC LIMIT ?
"""
_SPAN = "SELECT count(*), min(pos), max(pos) FROM messages WHERE conversation_id = ? AND seq <= ? AND pos <= ?"


# -- the list ------------------------------------------------------------------------------------------
def sessions(look: Look) -> Answer:
    """Sessions, newest first, a page of them."""
    offset, limit = look.whole("offset"), look.whole("limit", PAGE, most=_MOST_PAGE)
    if look.deps.session is None:
        return {"sessions": [], "offset": 0, "more": False}
    found = look.deps.sessions.recent(principal=None, limit=offset + limit + 1)[offset:]
    shown = [{**listing.described(look.deps, each), "title": _title(look, each.conversation_id),
              "owner": each.principal, "model": each.model} for each in found[:limit]]  # fmt: skip
    return {"sessions": shown, "offset": offset, "more": len(found) > limit}


def _title(look: Look, conversation_id: int) -> str:
    """The user's first words."""
    first = look.deps.store.first_of(look.deps.sessions.ancestry(conversation_id), role="user") if look.full else None
    return " ".join(first.text[: 4 * _TITLE_CHARS].split())[:_TITLE_CHARS] if first is not None else ""


# -- the graph -----------------------------------------------------------------------------------------
def graph(look: Look) -> Answer:
    """Summaries of a conversation as rows of numbers, a page of them; with the first page what they lie over."""
    deps, conversation = look.deps, look.session.conversation_id
    segments = look.deps.sessions.ancestry(conversation)
    after = look.whole("after")
    owners = f"[{','.join(str(each.conversation_id) for each in segments)}]"
    rows = deps.db.query(_GRAPH, (owners, after, _NODES + 1))
    dissolved, assembly = Orders(deps.db).dissolved(), deps.assembly()
    roots = frozenset(assembly.roots) if assembly is not None else frozenset()
    nodes = [
        {
            "id": row[0], "depth": row[1], "state": _state(row[1], row[2], row[3]), "from": row[4], "to": row[5],
            "messages": row[6], "tokens": row[7], "source_tokens": row[8], "at": row[9], "replaces": row[10],
            "shown": row[0] in roots, "dissolved": row[0] in dissolved,
            "of": [each for (each,) in deps.db.query(_LINKS, (row[0],))] if row[1] else [],
        }
        for row in rows[:_NODES]
    ]  # fmt: skip
    more = len(rows) > _NODES
    out: Answer = {"nodes": nodes, "next": nodes[-1]["id"] if more else None}
    return out if after else {**out, **_line(look, segments)}


def _state(depth: int, quality: str, rung: str) -> str:
    """One word for how a summary came about: it decides the colour."""
    if rung == ARCHIVE_RUNG:
        return "archived"
    if quality == "provisional":
        return "extract"
    return "condensed" if depth else quality


def _line(look: Look, segments: Sequence[Segment]) -> Answer:
    """The line of messages: how long it is, where compactions happened, what is raw in the newest prompt."""
    spans = [look.deps.db.query(_SPAN, (each.conversation_id, *each.end))[0] for each in segments]
    some = [each for each in spans if each[0]]
    built = look.deps.db.query(_BUILT, (look.session.conversation_id, _NODES))
    return {
        "session_id": look.session.session_id,
        "messages": sum(each[0] for each in spans),
        "from": min((each[1] for each in some), default=0),
        "to": max((each[2] for each in some), default=0),
        "compactions": [{"assembly": row[0], "pos": row[1], "at": row[2]} for row in reversed(built)],
        "compactions_total": built[0][3] if built else 0,
    }  # fmt: skip


def messages(look: Look) -> Answer:
    """Messages between two positions: one by one where they are few, else counted in equal pieces of the line."""
    low, high = look.whole("from"), look.whole("to", 2**40)
    if high <= low:
        raise BadRequest(f"to={high} is not behind from={low}")
    segments = look.deps.sessions.ancestry(look.session.conversation_id)
    if high - low <= SINGLE:
        return {"from": low, "to": high, "messages": _single(look, segments, low, high)}
    parts = min(BUCKETS, high - low)
    rows = []
    for each in segments:
        end = each.end
        bounds = {"c": each.conversation_id, "seq": end.seq, "pos": end.pos, "low": low, "high": high}
        rows += look.deps.db.query(_COUNTED, {**bounds, "parts": parts, "most": parts - 1, "gone": Flag.RETRACTED})
    return {"from": low, "to": high, "parts": parts, "counts": [list(row) for row in rows]}


def _single(look: Look, segments: Sequence[Segment], low: float, high: float) -> list[Answer]:
    found = []
    for each in segments:
        bounds = {"c": each.conversation_id, "seq": each.end.seq, "pos": min(each.end.pos, high), "low": low}
        found += look.deps.db.query(_SINGLE, {**bounds, "gone": Flag.RETRACTED, "most": 4 * SINGLE})
    return [
        dict(zip(("id", "pos", "role", "tool", "tokens", "at"), row, strict=True))
        for row in sorted(found, key=itemgetter(1))
    ]


# -- one summary ---------------------------------------------------------------------------------------
def node(look: Look) -> Answer:
    """A summary beside a page of its sources, with the names, numbers and paths of each that it does not say."""
    deps = look.deps
    found = deps.node(look.whole("id"))
    offset, limit = look.whole("offset"), look.whole("limit", 10, most=50)
    every = deps.dag.sources(found.node_id)
    part = every[offset : offset + limit]
    told, _ = explain.explain(deps, found.address)
    out: Answer = {
        "address": found.address, "id": found.node_id, "depth": found.depth,
        "state": _state(found.depth, found.quality, found.rung), "quality": found.quality, "model": found.model,
        "rung": found.rung, "checks": checks_said(found.checks), "tokens": found.tokens,
        "source_tokens": found.source_tokens, "messages": found.message_count, "first": found.first_store_id,
        "last": found.last_store_id, "from": found.earliest_at, "to": found.latest_at, "made": found.created_at,
        "place": told["in the prompt"], "dissolved": told["dissolved"] == "yes", "parents": deps.dag.parents(found.node_id),
        "total": len(every), "offset": offset, "limit": limit,
    }  # fmt: skip
    if not look.full:
        return {**out, "sources": [{"address": f"{'sum' if found.depth else 'msg'}_{n}"} for n in part]}
    says = salience.normal(f"{found.text}\n{found.expand_hint}")
    sources: list[Answer] = (
        [
            {"address": each.address, "role": "summary", "at": each.earliest_at, **_cut(each.text)}
            for each in deps.nodes(part)
        ]
        if found.depth
        else [{"address": f"msg_{row.store_id}", **_message(row), **_cut(row.text)} for row in deps.rows(part)]
    )
    return {**out, "text": found.text, "hint": found.expand_hint,
            "sources": [{**each, "dropped": dropped(each["text"], says)} for each in sources]}  # fmt: skip


def _message(row: Row) -> Answer:
    calls = [f"{call.name} {call.arguments}"[:_SOURCE_CHARS] for call in content.calls_of(row.stored_json)]
    return {
        "role": row.head.role,
        "tool": row.head.tool_name,
        "at": time_said(row.head),
        "tokens": row.head.tokens,
        "calls": calls,
    }


def _cut(text: str) -> Answer:
    return {"text": text[:_SOURCE_CHARS], "chars": len(text)}


def dropped(text: str, says: str) -> list[str]:
    """Names, numbers, paths and the like of a text that a summary (in its compared form) does not say."""
    return [item.text for item in salience.terms(text).values() if item.key not in says][:_DROPPED]


# -- one message ---------------------------------------------------------------------------------------
def message(look: Look) -> Answer:
    """A message whole, in parts where it is long, and what is known about it."""
    row = look.deps.row(look.whole("id"))
    offset = look.whole("offset")
    facts: dict[str, Any] = explain.explain(look.deps, f"msg_{row.store_id}")[0]
    facts.pop("text", None)
    end = offset + _PART_CHARS
    return {"address": f"msg_{row.store_id}", "session_id": row.head.session_id, "pos": row.head.pos, **_message(row),
            "text": row.text[offset:end], "chars": len(row.text), "offset": offset,
            "next": end if end < len(row.text) else None, "facts": facts}  # fmt: skip
