"""
What an address stands for, what covers it, and finding one: for operators, within the rights of the session they type
in.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest, NotFound
from ..records import Flag, Node, Row, Scope
from ..scope import Reach
from ..session import LOCAL
from ..text import words
from .orders import Orders
from .render import moment

if TYPE_CHECKING:
    from .status import OpsDeps

_ADDRESS = re.compile(r"(msg|sum)_(\d{1,18})")
_EXCERPT_CHARS, _TEXT_CHARS, _FOUND = 160, 600, 10


def readable(deps: OpsDeps) -> Scope:
    """What may be shown here: a terminal sees everything, a chat what belongs to its partner."""
    if not deps.db.path.exists():
        raise NotFound("nothing is stored yet")
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
        raise BadRequest(f"{address!r} is no address; addresses look like msg_12 or sum_3")
    return found[1], int(found[2])


def _message(deps: OpsDeps, row: Row) -> dict[str, Any]:
    head = row.head
    covering = [f"sum_{node_id}" for node_id in deps.dag.covering(head.store_id)]
    tool = f" ({head.tool_name})" if head.tool_name else ""
    return {
        "address": f"msg_{head.store_id}",
        "is": f"{head.role}{tool}, {head.chars:,} characters, about {head.tokens} tokens",
        "session": f"{head.session_id}, conversation {head.conversation_id}, number {head.seq}",
        "said": moment(head.said_at) if head.said_at else "unknown",
        "stored": f"{moment(head.stored_at)} by {head.source or 'unknown'}",
        "flags": ", ".join(_flags(head.flags)) or "none",
        "revises": f"msg_{head.revises}" if head.revises else "nothing",
        "covered by": ", ".join(covering) or "no summary",
        "in the prompt": _message_place(deps, head.store_id),
        "text": _short(row.text, _TEXT_CHARS),
    }


def _flags(bits: int) -> list[str]:
    return [name.lower() for name, bit in vars(Flag).items() if name.isupper() and bit & bits]


def _message_place(deps: OpsDeps, store_id: int) -> str:
    assembly = deps.engine.assembly
    if assembly is None:
        return "raw, as long as the host shows it: nothing is summarised here"
    if store_id in assembly.tail_ids:
        return "raw, in the kept tail"
    for root in assembly.roots:
        if store_id in deps.dag.messages_below([root]):
            return f"under sum_{root}"
    return "not in the newest prompt, or stored since"


def _node(deps: OpsDeps, node: Node) -> dict[str, Any]:
    sources = deps.dag.sources(node.node_id)
    kind = "msg" if node.depth == 0 else "sum"
    assembly = deps.engine.assembly
    shown = assembly is not None and node.node_id in assembly.roots
    return {
        "address": node.address,
        "is": f"{node.quality} summary of depth {node.depth}, {node.tokens} tokens for {node.source_tokens:,}",
        "conversation": node.conversation_id,
        "covers": f"{node.message_count} messages, msg_{node.first_store_id} to msg_{node.last_store_id}",
        "times": f"{moment(node.earliest_at)} to {moment(node.latest_at)}",
        "sources": ", ".join(f"{kind}_{each}" for each in sources[:20]) + (" ..." if len(sources) > 20 else ""),
        "condensed into": ", ".join(f"sum_{each}" for each in deps.dag.parents(node.node_id)) or "nothing",
        "replaces": f"sum_{node.replaces}" if node.replaces else "nothing",
        "written": f"{moment(node.created_at)} by {node.model or 'no model'}, rung {node.rung or 'none'}",
        "checks": node.checks,
        "in the prompt": "yes" if shown else "not as a root of the newest prompt",
        "dissolved": "yes" if node.node_id in Orders(deps.db).dissolved() else "no",
        "text": _short(node.text, _TEXT_CHARS),
    }


def _short(text: str, chars: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= chars else flat[: chars - 1] + "…"


# -- searching -----------------------------------------------------------------------------------------
def search(deps: OpsDeps, typed: str) -> dict[str, Any]:
    """The best messages for some words, with a line of each."""
    found = deps.search.search(words.parse(typed), scope=readable(deps), limit=_FOUND)
    rows = deps.store.rows([hit.store_id for hit in found.hits])
    results = [
        {
            "address": f"msg_{row.store_id}",
            "session_id": row.head.session_id,
            "role": row.head.role,
            "when": moment(row.head.said_at or row.head.stored_at),
            "excerpt": _short(row.text, _EXCERPT_CHARS),
        }
        for row in rows
    ]
    notes = list(found.notes)
    if found.nearest and not results:
        notes.append(f"near: {', '.join(found.nearest)}")
    if found.total > len(results):
        notes.append(f"{found.total}{' or more' if found.total_is_bound else ''} messages match")
    return {"query": typed, "results": results, "notes": notes}


# -- dissolving ----------------------------------------------------------------------------------------
def dissolve(deps: OpsDeps, address: str, *, apply: bool, undo: bool = False) -> dict[str, Any]:
    """Order that a summary is used no more, or take the order back. Deletes nothing, so no backup is needed."""
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
        "said": f"{node.address} covers {node.message_count} messages; with apply, {instead} would stand in the prompt from the "
        f"next compaction on. Dry run. `/lcm dissolve {node.address} apply` orders it.",
    }
