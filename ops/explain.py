"""
Explanation of an address: its content, what covers it, and a search for one; for operators, within their rights.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..errors import BadRequest, NotFound
from ..recall.grep import searchable
from ..records import Assembly, Flag, Node, Row, Scope, Stored
from ..search import documents, ranking
from ..search import query as words
from ..search.scope import own_scope
from ..text.blobs import Ref
from ..text.printable import one_line
from .orders import Orders
from .render import counted, few, moment

if TYPE_CHECKING:
    from ..recall.access import Access

_SHOWN = 20  # messages that are named
ADDRESS = re.compile(r"(msg|sum)_(\d{1,18})")
_EXCERPT_CHARS, _TEXT_CHARS, _FOUND = 160, 600, 10


def readable(deps: Access) -> Scope:
    """Scope of the rows that may be read: a terminal reads all of them, a chat those of its owner."""
    if not deps.db.path.exists():
        raise NotFound(f"{deps.db.path}: nothing is stored yet")
    if deps.reads_all:
        return Scope()
    if deps.rights.principal is not None:
        return Scope(principal=deps.rights.principal, apart=True)
    if deps.session is None or deps.rights.shown:
        raise BadRequest("no session is bound here whose owner is known, so nothing can be shown; send a message first")
    return replace(own_scope(deps.sessions, deps.session.conversation_id), apart=True)


Facts = dict[str, Any]


def explain(deps: Access, address: str) -> tuple[Facts, Facts]:
    """One message, summary or file with its relations: in words, and for programs (numbers, lists, times in seconds)."""
    found = addressed(deps, address)
    if isinstance(found, Node):
        return _node(deps, found)
    return _message(deps, found) if isinstance(found, Row) else _file(deps, *found)


def addressed(deps: Access, address: str) -> Row | Node | tuple[Ref, list[int]]:
    """Message, summary, or file with the messages that show it, behind an address. Raises NotFound."""
    if held := file(deps, address):
        return held
    kind, number = parsed(address)
    scope = readable(deps)
    if kind == "msg" and deps.scopes.messages([number], scope):
        return deps.store.rows([number])[0]
    if kind == "sum" and deps.scopes.nodes([number], scope) and (node := deps.dag.node(number)) is not None:
        return node
    raise _missing(deps, address)


def _missing(deps: Access, address: str) -> NotFound:
    """Error for an unknown address, with the command that finds the right one. A chat may merely lack the right to it."""
    said = "does not exist" if deps.reads_all else "does not exist, or you may not read it here"
    of_summary = address.strip().lower().startswith("sum_")
    way = "`/lcm explain` of a message names its summaries" if of_summary else "`/lcm search` finds addresses by words"
    return NotFound(f"{address} {said}; {way}")


def file(deps: Access, address: str) -> tuple[Ref, list[int]] | None:
    """A payload file and the messages that show it, of those that may be read; None for an address of another kind.

    Raises NotFound where no readable message shows such a file.
    """
    name = address.strip().lower()
    if not name.startswith("file_"):
        return None
    scope = readable(deps)
    for ref in deps.payloads.refs_named(name):
        if not deps.reads_all:  # a digest may hide another image: with the rights of the tools, which look
            return ref, [int(each[4:]) for each in deps.payload(name).facts["messages"]]
        if shown := sorted(deps.scopes.messages(deps.payloads.shown_by(ref.sha), scope)):
            return ref, shown
    raise _missing(deps, address)


def _file(deps: Access, ref: Ref, shown: Sequence[int]) -> tuple[Facts, Facts]:
    path, address, messages = deps.payloads.path(ref.sha), f"file_{ref.sha[:16]}", [f"msg_{n}" for n in shown]
    said = {
        "address": address,
        "is": f"{ref.kind}{f' ({ref.mime})' if ref.mime else ''}, {ref.bytes:,} bytes, kept in a file of its own",
        "file": str(path) if path.is_file() else f"{path} is missing: put it back from a backup",
        "shown in": few(messages, _SHOWN),
        "in the prompt": "as a placeholder; `/lcm show` prints what it holds",
    }
    return said, {
        "address": address, "kind": "file", "holds": ref.kind, "mime": ref.mime, "bytes": ref.bytes, "sha256": ref.sha,
        "path": str(path), "there": path.is_file(), "messages": messages,
        **_in_prompt(Place("placeholder", "", said["in the prompt"])),
    }  # fmt: skip


def parsed(address: str) -> tuple[str, int]:
    """("msg" or "sum", number) of an address. Raises BadRequest for anything else."""
    found = ADDRESS.fullmatch(address.strip().lower())
    if found is None:
        likely = (
            f"did you mean msg_{address} or sum_{address}?" if address.isdecimal() else "it looks like msg_12 or sum_3"
        )
        raise BadRequest(f"{address!r} is not the address of a message, summary or file; {likely}")
    return found[1], int(found[2])


def _readable_nodes(deps: Access, node_ids: Sequence[int]) -> list[str]:
    """Addresses of the summaries among these that may be read: another's branch makes its own of what it inherits."""
    mine = deps.scopes.nodes(node_ids, readable(deps))
    return [f"sum_{node_id}" for node_id in node_ids if node_id in mine]


def _message(deps: Access, row: Row) -> tuple[Facts, Facts]:
    head = row.head
    covering = _readable_nodes(deps, deps.dag.covering(head.store_id))
    tool = f" ({head.tool_name})" if head.tool_name else ""
    place, root = _message_place(deps, head)
    revises = f"msg_{head.revises}" if head.revises else None
    said = {
        "address": f"msg_{head.store_id}",
        "is": f"{one_line(head.role + tool)}, {counted(head.chars, 'character')}, about {counted(head.tokens, 'token')}",
        "session": f"{head.session_id}, conversation {head.conversation_id}, number {head.seq}",
        "said": moment(head.said_at) if head.said_at else "unknown",
        "stored": f"{moment(head.stored_at)} by {head.source or 'unknown'}",
        "notes": _noted(head.flags),
        "revises": revises or "nothing",
        "covered by": ", ".join(covering) or "no summary",
        "in the prompt": place.said,
        **(_shown_by(deps, root, head.store_id) if root is not None else {}),
        "text": _short(row.text, _TEXT_CHARS),
    }
    return said, {
        "address": said["address"], "kind": "message", "role": head.role, "tool": head.tool_name or None,
        "session_id": head.session_id, "conversation_id": head.conversation_id, "seq": head.seq,
        "chars": head.chars, "tokens": head.tokens, "said_at": head.said_at, "stored_at": head.stored_at,
        "source": head.source or None, "flags": _flags(head.flags), "revises": revises, "covered_by": covering,
        "text": row.text, **_in_prompt(place),
    }  # fmt: skip


def _shown_by(deps: Access, root: Node, store_id: int) -> dict[str, Any]:
    """Author and checks of the summary in a message's place in the prompt, and of the first summary made of it."""
    below = {*deps.dag.nodes_below([root.node_id])}
    leaf = next((n for n in deps.dag.nodes(deps.dag.covering(store_id)) if n.node_id in below), root)
    out = {"shown by": _origin(root), "checks": root.checks}
    return (
        out
        if leaf.node_id == root.node_id
        else {**out, "first summary": _origin(leaf), "checks of the first": leaf.checks}
    )


def _origin(node: Node) -> str:
    return f"{node.address}, {_said(node)}, depth {node.depth}, by {node.model or 'no model'}"


def _assembly(deps: Access, conversation: int) -> Assembly | None:
    """Prompt in which an address of a conversation is looked up: that of the caller's session where it shows the conversation
    (a branch shows its parent's messages), else the newest of the conversation itself."""
    session = deps.session
    if session is not None and conversation in {each for each, _ in deps.sessions.ancestry(session.conversation_id)}:
        return deps.assembly()
    return deps.dag.latest_assembly(conversation)


#: Flags of messages in words for people; "" of flags that only the plugin needs.
_NOTES: Final = {
    "retracted": "the user took it back",
    "restored": "it was taken back once, and brought back",
    "host_note": "Hermes wrote it in the user's name",
    "filtered": "it matches LCM_IGNORE_MESSAGE_PATTERNS, and had to be kept",
    "unaligned": "its place in the conversation is not certain",
    "pinned": "it is pinned: no purge and no retention removes it, and its text is never put into a file later",
    "quarantined": "it was not valid JSON, and is stored escaped",
    "own_tool": "it belongs to a call of an lcm_* tool",
    "redacted": "secrets were taken out of it",
    "externalised": "parts of it are in files",
    "imported": "a record of another archive, kept as text",
    "duplicate": "it repeats another message",
    "collected": "its large parts are only in files",
    "pruned": "Hermes had cut it before it came here",
    "purged": "what it said was removed",
    "lapsed": "a retention policy removed it, and left the summaries of it",
    "own_call": "",
    "shown": "",
}


def _noted(bits: int) -> str:
    """Flags of a message in words; of a purged one without those that only hide it from the search."""
    told = bits & ~(Flag.FILTERED | Flag.REDACTED) if bits & Flag.PURGED else bits
    return "; ".join(filter(None, map(_NOTES.get, _flags(told)))) or "none"


def _flags(bits: int) -> list[str]:
    return [name.lower() for name, bit in vars(Flag).items() if name.isupper() and bit.bit_count() == 1 and bit & bits]


class Place(NamedTuple):
    """Place in the newest prompt. ``value``: raw, stub, summary, placeholder or no; ``by``: the summary that shows it."""

    value: str
    by: str
    said: str


def _in_prompt(place: Place) -> Facts:
    return {"in_prompt": place.value, "in_prompt_by": place.by or None, "in_prompt_said": place.said}


def _message_place(deps: Access, head: Stored) -> tuple[Place, Node | None]:
    """Place of a message in the newest prompt, and the summary that stands for it there."""
    assembly = _assembly(deps, head.conversation_id)
    if head.flags & Flag.RETRACTED:
        return Place("no", "", "no: the user took it back"), None
    if assembly is None:
        return Place("raw", "", "word for word, as long as Hermes shows it: nothing is summarised here"), None
    if kept := assembly.stubs.get(head.store_id):
        ends = f"by {kept} characters of its beginning and end, among the newest messages"
        return Place("stub", "", f"{ends}; all of it: lcm_expand(store_id={head.store_id})"), None
    if head.store_id in assembly.tail_ids:
        return Place("raw", "", "word for word, among the newest messages"), None
    for root in deps.dag.nodes(assembly.roots):
        if head.store_id in deps.dag.messages_below([root.node_id]):
            return Place("summary", root.address, f"as part of {root.address}"), root
    return Place("no", "", "not in the newest prompt, or stored after it"), None


def _node(deps: Access, node: Node) -> tuple[Facts, Facts]:
    kind = "msg" if node.depth == 0 else "sum"
    sources = [f"{kind}_{each}" for each in deps.dag.sources(node.node_id)]
    condensed = _readable_nodes(deps, deps.dag.parents(node.node_id))
    replaces = f"sum_{node.replaces}" if node.replaces else None
    dissolved = node.node_id in Orders(deps.db).dissolved()
    place = _node_place(deps, node)
    said = {
        "address": node.address,
        "is": f"summary of depth {node.depth}: {counted(node.source_tokens, 'token')} became {node.tokens:,}",
        "verified": _verified(node),
        "conversation": node.conversation_id,
        "covers": f"{counted(node.message_count, 'message')}, msg_{node.first_store_id} to msg_{node.last_store_id}",
        "times": f"{moment(node.earliest_at)} to {moment(node.latest_at)}",
        "sources": ", ".join(sources[:_SHOWN]) + (" ..." if len(sources) > _SHOWN else ""),
        "condensed into": ", ".join(condensed) or "nothing",
        "replaces": replaces or "nothing",
        "written": f"{moment(node.created_at)} by {node.model or 'no model'}",
        "checks": node.checks,
        "in the prompt": place.said,
        "dissolved": "yes" if dissolved else "no",
        "text": _short(node.text, _TEXT_CHARS),
    }
    return said, {
        "address": node.address, "kind": "summary", "quality": node.quality, "depth": node.depth, "tokens": node.tokens,
        "source_tokens": node.source_tokens, "conversation_id": node.conversation_id, "messages": node.message_count,
        "first": f"msg_{node.first_store_id}", "last": f"msg_{node.last_store_id}", "earliest_at": node.earliest_at,
        "latest_at": node.latest_at, "sources": sources, "condensed_into": condensed, "replaces": replaces,
        "created_at": node.created_at, "model": node.model or None, "rung": node.rung or None,
        "checks": dict(node.facts), "dissolved": dissolved, "text": node.text, **_in_prompt(place),
    }  # fmt: skip


def _said(node: Node) -> str:
    return "not verified" if node.quality == "provisional" else node.quality


def _verified(node: Node) -> str:
    if node.quality == "provisional":
        return "no: it is an extract, or a check failed"
    return "yes: every path, number and identifier in it stands in what it was made of; it need not keep all of theirs"


def _node_place(deps: Access, node: Node) -> Place:
    """Place of a summary in the newest prompt, or the reason why it has none."""
    if deps.session is not None and node.node_id in deps.sessions.carried(deps.session.conversation_id):
        return Place("summary", node.address, "yes, taken along from an earlier conversation")
    assembly = _assembly(deps, node.conversation_id)
    if assembly is not None and node.node_id in assembly.roots:
        return Place("summary", node.address, "yes")
    roots = deps.dag.nodes(assembly.roots) if assembly is not None else []
    above = next((root for root in roots if node.node_id in deps.dag.nodes_below([root.node_id])), None)
    if above is not None:
        return Place("summary", above.address, f"no, but it is part of {above.address}")
    better = next((root for root in roots if root.replaces == node.node_id), None)
    if better is not None:
        return Place("no", "", f"no: {better.address} replaced it")
    return Place("no", "", "no")


def _short(text: str, chars: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= chars else flat[: chars - 1] + "…"


# -- searching -----------------------------------------------------------------------------------------
def search(deps: Access, typed: str, *, session_id: str = "", limit: int = 0) -> dict[str, Any]:
    """The best messages for some words, with a line of each: where the words stand in it.

    ``session_id``: only messages of this session. ``near`` marks a neighbour of a hit, which need not hold the words itself.
    """
    query = words.parse(typed)
    scope = readable(deps)
    if session_id:
        scope = replace(scope, session_id=session_id)
    limit = limit or _FOUND
    found = deps.index.search(query, scope=scope, limit=limit)
    rows, damaged = deps.store.legible([hit.store_id for hit in found.hits])
    place = {hit.store_id: n for n, hit in enumerate(found.hits)}
    near = {hit.store_id for hit in found.hits if hit.rung == "near"}
    loose = {hit.store_id for hit in found.hits if hit.rung == "any"}  # the end of the message before counts too
    near |= {row.store_id for row in rows if row.store_id in loose and not _says_any(row, query)}
    results = [
        {
            "address": f"msg_{row.store_id}",
            "session_id": row.head.session_id,
            "role": row.head.role,
            "when": moment(row.head.said_at or row.head.stored_at),
            "near": row.store_id in near,
            "snippet": _found(row, query, found.hits[place[row.store_id]].chunk),
        }
        for row in sorted(rows, key=lambda row: place[row.store_id])
    ]
    notes = list(found.notes)
    if damaged:
        notes.append(f"found, but cannot be read: {', '.join(f'msg_{store_id}' for store_id in sorted(damaged))}")
    if found.nearest and not results:
        notes.append(f"near: {', '.join(found.nearest)}")
    if found.total > len(found.hits):
        at_least = "at least " if found.total_is_bound else ""
        notes.append(f"{at_least}{counted(found.total, 'message')} in all; --limit {5 * limit} shows more")
    return {"query": typed, "results": results, "notes": notes}


def _says_any(row: Row, query: words.Query) -> bool:
    """Does the message itself hold one of the words, in any of their forms? Yes where that cannot be told."""
    if not all(atom.stems for atom in query.atoms):
        return True
    said = set(words.stems(searchable(row)))
    return not said.isdisjoint(each for atom in query.atoms for each in (*atom.stems, *atom.forms))


def _found(row: Row, query: words.Query, chunk: int) -> str:
    """Snippet of a message, calls of tools included: where its best chunk holds most of the words."""
    text = searchable(row)
    pieces = documents.chunks(text)
    begin, piece = pieces[min(chunk, len(pieces) - 1)]
    at = begin + ranking.first(piece, query.literal, _EXCERPT_CHARS, query.stems)
    start, stop = ranking.window(text, at, _EXCERPT_CHARS, query.stems)
    return f"{'…' if start else ''}{' '.join(text[start:stop].split())}{'…' if stop < len(text) else ''}"


# -- dissolving ----------------------------------------------------------------------------------------
def dissolve(deps: Access, address: str, *, apply: bool, undo: bool = False) -> dict[str, Any]:
    """Order to stop using a summary (``apply``), or its cancellation (``undo``). Deletes nothing."""
    if parsed(address)[0] != "sum":
        raise BadRequest(f"{address} is a message; only summaries can be dissolved")
    node = addressed(deps, address)
    assert isinstance(node, Node)
    number, orders = node.node_id, Orders(deps.db)
    already = number in orders.dissolved()
    instead = "the summaries it was condensed from" if node.depth else "a new summary of its messages"
    if undo:
        orders.keep(number)
        said = f"{node.address} may be used again." if already else f"{node.address} was not dissolved."
    elif already:
        said = f"{node.address} is dissolved already; `/lcm dissolve {node.address} undo` takes it back."
    elif apply:
        orders.dissolve(number, now=deps.clock())
        said = f"From the next compaction on {instead} will stand in the prompt. {node.address} stays readable."
    else:
        said = (
            f"{node.address} covers {counted(node.message_count, 'message')}. In its place, {instead} would stand in the prompt, "
            f"from the next compaction on. Dry run. `/lcm dissolve {node.address} apply` orders it."
        )
    return {
        "address": node.address, "dissolved": (already or apply) and not undo, "applied": apply, "said": said,
    }  # fmt: skip
