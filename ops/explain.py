"""
What an address stands for, what covers it, and finding one: for operators, within the rights of the session they type
in.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest, NotFound
from ..indexing import stored_index_row
from ..records import Assembly, Flag, Node, Row, Scope, Stored
from ..scope import Reach
from ..session import LOCAL
from ..text import excerpt, words
from .orders import Orders
from .render import counted, moment

if TYPE_CHECKING:
    from .status import OpsDeps

_ADDRESS = re.compile(r"(msg|sum)_(\d{1,18})")
_EXCERPT_CHARS, _TEXT_CHARS, _FOUND = 160, 600, 10


def readable(deps: OpsDeps) -> Scope:
    """What may be shown here: a terminal sees everything, a chat what belongs to its partner."""
    if not deps.db.path.exists():
        raise NotFound(f"{deps.db.path}: nothing is stored yet")
    if deps.trusted or (deps.session is not None and deps.session.principal == LOCAL):
        return Scope()
    if deps.session is None:
        raise BadRequest("no session is bound here yet, so it is not known what may be shown; send a message first")
    return Scope(principal=deps.session.principal)


def explain(deps: OpsDeps, address: str) -> dict[str, Any]:
    """One message or summary with its relations."""
    kind, number = _parsed(address)
    scope, reach = readable(deps), Reach(deps.db)
    if kind == "msg" and reach.messages([number], scope):
        return _message(deps, deps.store.rows([number])[0])
    if kind == "sum" and reach.nodes([number], scope):
        node = deps.dag.node(number)
        if node is not None:
            return _node(deps, node)
    raise NotFound(f"nothing that may be read here has the address {address}")


def _parsed(address: str) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(address.strip().lower())
    if found is None:
        likely = (
            f"did you mean msg_{address} or sum_{address}?" if address.isdecimal() else "it looks like msg_12 or sum_3"
        )
        raise BadRequest(f"{address!r} is no address of a message or summary; {likely}")
    return found[1], int(found[2])


def _message(deps: OpsDeps, row: Row) -> dict[str, Any]:
    head = row.head
    covering = [f"sum_{node_id}" for node_id in deps.dag.covering(head.store_id)]
    tool = f" ({head.tool_name})" if head.tool_name else ""
    place, root = _message_place(deps, head)
    return {
        "address": f"msg_{head.store_id}",
        "is": f"{head.role}{tool}, {counted(head.chars, 'character')}, about {counted(head.tokens, 'token')}",
        "session": f"{head.session_id}, conversation {head.conversation_id}, number {head.seq}",
        "said": moment(head.said_at) if head.said_at else "unknown",
        "stored": f"{moment(head.stored_at)} by {head.source or 'unknown'}",
        "flags": ", ".join(_flags(head.flags)) or "none",
        "revises": f"msg_{head.revises}" if head.revises else "nothing",
        "covered by": ", ".join(covering) or "no summary",
        "in the prompt": place,
        **(_shown_by(deps, root, head.store_id) if root is not None else {}),
        "text": _short(row.text, _TEXT_CHARS),
    }


def _shown_by(deps: OpsDeps, root: Node, store_id: int) -> dict[str, Any]:
    """Which summary the prompt shows instead of a message, and the leaf over it: who wrote them, which checks they passed."""
    leaf = next((n for n in deps.dag.nodes(deps.dag.covering(store_id)) if _below(deps, n.node_id, root)), root)
    out = {"shown by": _origin(root), "checks": root.checks}
    return (
        out
        if leaf.node_id == root.node_id
        else {**out, "leaf over it": _origin(leaf), "checks of the leaf": leaf.checks}
    )


def _below(deps: OpsDeps, node_id: int, root: Node) -> bool:
    """Is a node the root, or among what it was condensed from?"""
    level = {root.node_id}
    while level:
        if node_id in level:
            return True
        level = {
            child for each in deps.dag.nodes(sorted(level)) if each.depth for child in deps.dag.sources(each.node_id)
        }
    return False


def _origin(node: Node) -> str:
    return (
        f"{node.address}, {node.quality}, depth {node.depth}, by {node.model or 'no model'}, rung {node.rung or 'none'}"
    )


def _assembly(deps: OpsDeps, conversation: int) -> Assembly | None:
    """The prompt that an address of a conversation is looked for in: that of the session asked from if it shows that
    conversation (a branch shows its parent's messages), else the newest of the conversation itself."""
    session = deps.session
    if session is not None and conversation in {each for each, _ in deps.sessions.lineage(session.conversation_id)}:
        return deps.engine.assembly or deps.dag.latest_assembly(session.conversation_id)
    return deps.dag.latest_assembly(conversation)


def _flags(bits: int) -> list[str]:
    return [name.lower() for name, bit in vars(Flag).items() if name.isupper() and bit & bits]


def _message_place(deps: OpsDeps, head: Stored) -> tuple[str, Node | None]:
    """Where the newest prompt has a message, and the summary that stands for it there."""
    assembly = _assembly(deps, head.conversation_id)
    if head.flags & Flag.RETRACTED:
        return "no: the user took it back", None
    if assembly is None:
        return "raw, as long as the host shows it: nothing is summarised here", None
    if head.store_id in assembly.tail_ids:
        return "raw, in the kept tail", None
    for root in deps.dag.nodes(assembly.roots):
        if head.store_id in deps.dag.messages_below([root.node_id]):
            return f"under {root.address}", root
    return "not in the newest prompt, or stored since", None


def _node(deps: OpsDeps, node: Node) -> dict[str, Any]:
    sources = deps.dag.sources(node.node_id)
    kind = "msg" if node.depth == 0 else "sum"
    return {
        "address": node.address,
        "is": f"{node.quality} summary of depth {node.depth}, {counted(node.tokens, 'token')} for {node.source_tokens:,}",
        "conversation": node.conversation_id,
        "covers": f"{counted(node.message_count, 'message')}, msg_{node.first_store_id} to msg_{node.last_store_id}",
        "times": f"{moment(node.earliest_at)} to {moment(node.latest_at)}",
        "sources": ", ".join(f"{kind}_{each}" for each in sources[:20]) + (" ..." if len(sources) > 20 else ""),
        "condensed into": ", ".join(f"sum_{each}" for each in deps.dag.parents(node.node_id)) or "nothing",
        "replaces": f"sum_{node.replaces}" if node.replaces else "nothing",
        "written": f"{moment(node.created_at)} by {node.model or 'no model'}, rung {node.rung or 'none'}",
        "checks": node.checks,
        "in the prompt": _node_place(deps, node),
        "dissolved": "yes" if node.node_id in Orders(deps.db).dissolved() else "no",
        "text": _short(node.text, _TEXT_CHARS),
    }


def _node_place(deps: OpsDeps, node: Node) -> str:
    """Whether the newest prompt shows a summary, and if not, why not."""
    if deps.session is not None and node.node_id in deps.sessions.carried(deps.session.conversation_id):
        return "yes, carried over from an earlier conversation"
    assembly = _assembly(deps, node.conversation_id)
    if assembly is not None and node.node_id in assembly.roots:
        return "yes"
    roots = deps.dag.nodes(assembly.roots) if assembly is not None else []
    above = next((root for root in roots if root.depth > node.depth and _below(deps, node.node_id, root)), None)
    if above is not None:
        return f"not as a root of the newest prompt: it is part of {above.address}"
    better = next((root for root in roots if root.replaces == node.node_id), None)
    if better is not None:
        return f"not as a root of the newest prompt: {better.address} replaced it"
    return "not as a root of the newest prompt"


def _short(text: str, chars: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= chars else flat[: chars - 1] + "…"


# -- searching -----------------------------------------------------------------------------------------
def search(deps: OpsDeps, typed: str) -> dict[str, Any]:
    """The best messages for some words, with a line of each: where the words stand in it."""
    query = words.parse(typed)
    found = deps.search.search(query, scope=readable(deps), limit=_FOUND)
    rows, damaged = deps.store.legible([hit.store_id for hit in found.hits])
    place = {hit.store_id: n for n, hit in enumerate(found.hits)}
    results = [
        {
            "address": f"msg_{row.store_id}",
            "session_id": row.head.session_id,
            "role": row.head.role,
            "when": moment(row.head.said_at or row.head.stored_at),
            "excerpt": _found(row, query),
        }
        for row in sorted(rows, key=lambda row: place[row.store_id])
    ]
    notes = list(found.notes)
    if damaged:
        notes.append(f"found, but cannot be read: {', '.join(f'msg_{store_id}' for store_id in sorted(damaged))}")
    if found.nearest and not results:
        notes.append(f"near: {', '.join(found.nearest)}")
    if found.total > len(found.hits):
        notes.append(f"{'at least ' if found.total_is_bound else ''}{counted(found.total, 'message')} in all")
    return {"query": typed, "results": results, "notes": notes}


def _found(row: Row, query: words.Query) -> str:
    """The piece of what was indexed of a message, calls of tools included, that holds what was looked for."""
    entry = stored_index_row(row, "")
    text = words.searchable(entry.text, entry.extra)
    start, stop = excerpt.window(text, excerpt.first(text, query.literal, query.stems), _EXCERPT_CHARS, query.stems)
    return f"{'…' if start else ''}{' '.join(text[start:stop].split())}{'…' if stop < len(text) else ''}"


# -- dissolving ----------------------------------------------------------------------------------------
def dissolve(deps: OpsDeps, address: str, *, apply: bool, undo: bool = False) -> dict[str, Any]:
    """Order that a summary is used no more, or take the order back. Deletes nothing."""
    kind, number = _parsed(address)
    if kind != "sum":
        raise BadRequest(f"{address} is a message; only summaries can be dissolved")
    node = deps.dag.node(number) if Reach(deps.db).nodes([number], readable(deps)) else None
    if node is None:
        raise NotFound(f"nothing that may be read here has the address {address}")
    orders = Orders(deps.db)
    already = number in orders.dissolved()
    data: dict[str, Any] = {"address": node.address, "dissolved": (already or apply) and not undo, "applied": apply}
    if undo:
        orders.keep(number)
        return {
            **data,
            "said": f"{node.address} may be used again." if already else f"{node.address} was not dissolved.",
        }
    if already:
        return {
            **data,
            "said": f"{node.address} is dissolved already; `/lcm dissolve {node.address} undo` takes it back.",
        }
    instead = "the summaries it was condensed from" if node.depth else "a new summary of its messages"
    if apply:
        orders.dissolve(number, now=deps.clock())
        return {
            **data,
            "said": f"From the next compaction on {instead} will stand in the prompt. {node.address} stays readable.",
        }
    return {
        **data,
        "said": f"{node.address} covers {counted(node.message_count, 'message')}; with apply, {instead} would stand in the "
        f"prompt from the next compaction on. Dry run. `/lcm dissolve {node.address} apply` orders it.",
    }
