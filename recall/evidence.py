"""
Evidence for a reader of the past: what it is given, and what it may fetch by itself.

Owns the evidence pack (contiguous turns around the best hits), the grant that bounds a reader, and the reader's three steps:
search, describe, expand. Everything read goes through the grant, so that what is cited can be checked against what was read.
"""

from __future__ import annotations

import json
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..errors import BadRequest
from ..records import Flag, Node, Row, Scope
from ..search import query, ranking
from ..search.index import Hit
from ..search.query import STOP_WORDS
from ..text import markers, tokens
from . import arguments, beside
from .access import Access, no_such
from .arguments import Address
from .grep import Ask, Search, searchable
from .paging import LOST, Room, fit, iso, spans, time_said, who

_HITS, _MORE_HITS = 12, 12  # with their turns; alone, around their match
_READ_ON: Final = 4  # best hits whose turns are read as far as they themselves
_SUMMARIES: Final = 2
_BEFORE, _AFTER = 1, 2  # places around a hit that belong to its turn
_PACK_SHARE: Final = 0.6  # of the grant; the rest is for the reader's own steps
_MESSAGE_SHARE: Final = 0.3  # of the pack, for one message
_LEAST_MESSAGE_TOKENS: Final = 500
_NEIGHBOUR_TOKENS: Final = 400
_QUOTE_CHARS: Final = 240
_CHECKED_CHARS: Final = 20_000  # of a piece that is compared with an answer
_STEP_TOKENS: Final = 4000


@dataclass(frozen=True, slots=True)
class Question:
    """The question, and the part of the past that it is about."""

    prompt: str
    search: Ask
    addresses: tuple[Address, ...] = ()
    explicit_query: bool = False
    max_tokens: int = 2000
    context_tokens: int | None = None


@dataclass(slots=True)
class Grant:
    """Allowance of one reader. ``addresses``: those it was shown; ``only``: the messages and nodes it is limited to."""

    tokens: int
    deadline: float
    clock: Callable[[], float]
    scope: Scope = field(default_factory=lambda: Scope(conversations=()))
    only_messages: frozenset[int] | None = None
    only_nodes: frozenset[int] | None = None
    used: int = 0
    addresses: set[str] = field(default_factory=set)
    summaries: set[str] = field(default_factory=set)
    shown: list[str] = field(default_factory=list)  # every text that was read

    def tokens_left(self) -> int:
        """Tokens that may still be read."""
        return max(0, self.tokens - self.used)

    def seconds_left(self) -> float:
        """Time until the deadline."""
        return self.deadline - self.clock()

    def spend(self, text: str) -> None:
        """Count what was read, and keep it: an answer is checked against it."""
        self.shown.append(text)
        self.used += tokens.count(text)

    def allows(self, address: Address) -> bool:
        """Is this address within the grant (beyond its scope, which SQL enforces)?"""
        only = self.only_messages if address.kind == "msg" else self.only_nodes
        return address.kind != "file" and (only is None or address.number in only)


@dataclass(frozen=True, slots=True)
class Item:
    """Piece of evidence. ``rank``: the place of the hit that brought it, 0 first; ``order``: where it stands in time."""

    address: str
    role: str
    time: str | None
    text: str
    rank: int
    order: tuple[int, float, int]
    conversation_id: int
    quote: str = ""  # the stretch that made it evidence
    quote_role: str = ""  # of that stretch, where it may be another
    cut: tuple[int, int, int] | None = None  # first and last character shown, how many there are

    def block(self, *, outside: bool = False) -> str:
        """The piece as the reader sees it; ``outside``: as one who has the tools of the host sees it."""
        head = f"[{self.address} | {self.role} | {self.time or 'time unknown'}]"
        if self.cut is None:
            return f"{head}\n{self.text}"
        start, stop, size = self.cut
        return f"{head}\n{self.text}\n[cut; characters {start} to {stop} of {size}; {self._rest(stop, outside)}]"

    def _rest(self, at: int, outside: bool) -> str:
        if self.address.startswith("sum"):
            return f'lcm_describe(id="{self.address}", content_offset={at})' if outside else f"describe({self.address})"
        if outside:
            return f'lcm_expand(store_id="{self.address}", content_offset={at})'
        return f"expand(address={self.address}, offset={at})"


@dataclass(slots=True)
class Pack:
    """The evidence a reader starts from."""

    label: str
    items: list[Item] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    nearest: tuple[str, ...] = ()
    damaged: set[int] = field(default_factory=set)  # messages that would be evidence, but cannot be read

    def ranked(self) -> list[Item]:
        """Best first."""
        return sorted(self.items, key=lambda item: (item.rank, item.order))

    def text(self) -> str:
        """The best match with its surroundings, then the rest in order of time, in a fence that its content cannot close."""
        fence = f"evidence-{secrets.token_hex(4)}"
        best = min((item.rank for item in self.items), default=0)
        ordered = sorted(self.items, key=lambda item: (item.rank != best, item.order))
        blocks = [item.block() for item in ordered]
        return f'<{fence} trust="quoted data">\n' + "\n\n".join(blocks) + f"\n</{fence}>"

    def best(self, count: int) -> list[str]:
        """Addresses of the best pieces."""
        return list(dict.fromkeys(item.address for item in self.ranked()))[:count]

    def quotes(self, wanted: Sequence[str], count: int) -> list[dict[str, Any]]:
        """Quotations of the wanted pieces (and the best ones) at the decisive place."""
        known = {item.address: item for item in self.items}
        chosen = dict.fromkeys([*(address for address in wanted if address in known), *self.best(count)])
        picked = [known[address] for address in chosen][:count]
        return [
            {"address": item.address, "role": item.quote_role or item.role, "time": item.time, "text": item.quote}
            for item in picked
        ]

    def unrelated(self, wanted: Sequence[str], answer: str) -> set[str]:
        """Cited messages that share not one word or value with the answer."""
        said = set(query.stems(answer)) - STOP_WORDS
        return {
            item.address
            for item in self.items
            if item.address.startswith("msg_")
            and item.address in wanted
            and said.isdisjoint(query.stems(item.text[:_CHECKED_CHARS]))
        }

    def holding(self, values: Sequence[str], cited: Sequence[str], answer: str) -> list[str]:
        """Addresses of messages with values of an answer that no cited message has; each shares another word with the answer."""
        texts = {item.address: item.text[:_CHECKED_CHARS].casefold() for item in self.ranked()}
        if any(address not in texts for address in cited):
            return []  # the reader fetched some by itself
        out, words = list[str](), set(query.stems(answer)) - STOP_WORDS
        for value in map(str.casefold, values):
            said = words - set(query.stems(value))
            stands = re.compile(rf"(?<!\w){re.escape(value)}(?!\w)")
            if not any(stands.search(texts[address]) for address in (*cited, *out)):
                holders = (address for address, text in texts.items() if stands.search(text))
                out += [address for address in holders if not said.isdisjoint(query.stems(texts[address]))][:1]
        return out

    def conversations(self) -> list[int]:
        """Conversations that the evidence is from, most of it first."""
        return [number for number, _ in Counter(item.conversation_id for item in self.items).most_common()]


# ------------------------------------------------------------------------------------------------------------- gathering
def gather(caller: Access, question: Question, grant: Grant) -> Pack:
    """The evidence pack of a question, within its share of the grant."""
    chosen = question.search.chosen
    pack = Pack(chosen.label)
    if chosen.missing:
        pack.notes.append(f"there is no {chosen.missing} that you may read")
    grant.scope = chosen.scope
    builder = _Builder(caller, grant, pack, int(grant.tokens * _PACK_SHARE))
    below = _named(caller, question, grant, pack, builder)
    if question.addresses and not question.explicit_query:
        search = Search(caller, replace(question.search, query=question.prompt))
    else:
        search = Search(caller, question.search)
    most = _HITS + _MORE_HITS
    hits = search.messages(most if below is None else 100)
    pack.nearest = hits.nearest
    wanted = [hit for hit in hits.hits if below is None or hit.store_id in below][:most]
    if not wanted and below is None and question.explicit_query:
        search = Search(caller, replace(question.search, query=question.prompt))
        wanted = list(search.messages(most).hits)
    if below is None:
        for place, found in enumerate(search.summaries(_SUMMARIES).hits):
            builder.node(caller.dag.node(found.node_id), 2 + place)
    builder.windows(wanted, search, below)
    if below is not None:
        builder.messages(sorted(below), rank=len(wanted) + 1)
    if pack.damaged:
        pack.notes.append(f"damaged, so not read: {', '.join(spans(sorted(pack.damaged))[:20])}; lcm_doctor says more")
    return pack


def _named(caller: Access, question: Question, grant: Grant, pack: Pack, builder: _Builder) -> set[int] | None:
    """Take in what was named by address; the messages below it, or None when nothing was named."""
    if not question.addresses:
        return None
    below: set[int] = set()
    nodes: set[int] = set()
    known = 0
    conversations: set[int] = set()
    for address in question.addresses:
        if address.kind == "sum":
            for node in caller.nodes([address.number]):
                known += 1
                conversations.add(node.conversation_id)
                builder.node(node, 0)
                nodes.update(caller.dag.nodes_below([node.node_id]))
                below |= set(caller.dag.messages_below([node.node_id]))
        elif address.kind == "msg":
            last = address.last if address.last is not None else address.number
            found = caller.scopes.between(address.number, last, caller.everything(), limit=500)
            known += bool(found)
            below |= set(found)
            conversations |= {head.conversation_id for head in caller.store.heads_of(found).values()}
        else:
            caller.payload(address.name)
    if not known:
        raise no_such(", ".join(map(str, question.addresses[:5])))
    if known < len(question.addresses):
        pack.notes.append(f"{len(question.addresses) - known} of the ids do not exist or may not be read")
    grant.scope = replace(caller.everything(), conversations=tuple(conversations))
    grant.only_messages, grant.only_nodes = frozenset(below), frozenset(nodes)
    return below


class _Builder:
    """Fills a pack within a budget of tokens."""

    def __init__(self, caller: Access, grant: Grant, pack: Pack, budget: int) -> None:
        self._caller = caller
        self._grant = grant
        self._pack = pack
        self._left = budget
        self._cap = max(_LEAST_MESSAGE_TOKENS, int(budget * _MESSAGE_SHARE))
        self._have: set[str] = set()

    def node(self, node: Node | None, rank: int) -> None:
        """A summary's own text."""
        if node is None:
            return
        order = (node.conversation_id, node.first_pos, -node.depth - 1)
        role = f"summary of {node.message_count} messages" + (", provisional" if node.quality == "provisional" else "")
        quote = node.text[:_QUOTE_CHARS]
        item = Item(node.address, role, iso(node.latest_at), node.text, rank, order, node.conversation_id, quote)
        if self._add(item, 0, self._cap):
            self._grant.summaries.add(node.address)

    def windows(self, hits: Sequence[Hit], search: Search, below: set[int] | None) -> None:
        """The turns around hits, best hit first; of the later ones the stretch that matches."""
        for rank, hit in enumerate(hits):
            rows = self._caller.rows([hit.store_id], self._grant.scope)
            if not rows or self._left <= 0 or beside.said_elsewhere(self._caller, rows):
                continue
            if rank >= _HITS:
                self.rows(rows, rank, hit.offset, search, min(self._cap, _NEIGHBOUR_TOKENS))
                continue
            head = rows[0].head
            around = self._caller.scopes.readable_stretch(
                head.conversation_id, int(head.pos) - _BEFORE, int(head.pos) + _AFTER, self._grant.scope
            )
            near = [store_id for store_id in around if below is None or store_id in below]
            self.rows(rows, rank, hit.offset, search)
            neighbours = self._caller.load_rows([i for i in near if i != hit.store_id])
            again = beside.said_elsewhere(self._caller, neighbours)
            neighbours = [row for row in neighbours if row.head.store_id not in again]
            self.rows(neighbours, rank, 0, search, min(self._cap, _NEIGHBOUR_TOKENS) if rank >= _READ_ON else None)

    def messages(self, store_ids: Iterable[int], rank: int) -> None:
        """Messages in order, while there is room."""
        ids = list(store_ids)
        for at in range(0, len(ids), 20):
            if self._left <= 0:
                return
            self.rows(self._caller.rows(ids[at : at + 20], self._grant.scope), rank, 0, None)

    def rows(self, rows: Sequence[Row], rank: int, offset: int, search: Search | None, cap: int | None = None) -> None:
        """Messages, each around its match; answers of our own tools are no evidence."""
        for row in rows:
            head = row.head
            if row.stored_json is LOST:
                self._pack.damaged.add(head.store_id)
                continue
            text = searchable(row)
            if not text.strip() or head.flags & Flag.OWN_TOOL:
                continue
            order = (head.conversation_id, head.pos, head.seq)
            role = self._role(row, text)
            at, stop = search.window(row, offset, _QUOTE_CHARS) if search is not None else (0, _QUOTE_CHARS)
            time = iso(time_said(head))
            item = Item(
                f"msg_{head.store_id}", role(0, len(text)), time, text, rank, order, head.conversation_id,
                text[at:stop], role(at, stop),
            )  # fmt: skip
            if self._add(item, at, cap or self._cap, role):
                self._grant.summaries.update(self._caller.covering([head.store_id]).values())

    def _role(self, row: Row, text: str) -> Callable[[int, int], str]:
        """Role of a stretch of a message, with the speaker where it holds words of theirs: what others said there is nobody's."""
        speaker, own = self._caller.speaker(row), markers.of_speaker(text)
        end = ", taken back" if self._caller.taken_back(row.head) else ""
        return lambda start, stop: who(row.head, speaker if own[start:stop].strip() else ("", "")) + end

    def _add(self, item: Item, at: int, cap: int, role: Callable[[int, int], str] | None = None) -> bool:
        if item.address in self._have or self._left <= 60:
            return False
        text, cut = _shortened(item, at, min(cap, self._left))
        made = replace(item, text=text, cut=cut, role=role(*cut[:2]) if role and cut else item.role)
        self._left -= tokens.count(made.block())
        self._have.add(item.address)
        self._grant.addresses.add(item.address)
        self._grant.spend(made.block())
        self._pack.items.append(made)
        return True


def _shortened(item: Item, at: int, cap: int) -> tuple[str, tuple[int, int, int] | None]:
    """The text within ``cap`` tokens, around ``at``; and what of it that is."""
    if tokens.count(item.text) <= cap:
        return item.text, None
    start, stop = ranking.window(item.text, at, cap * 3, ())
    stop = fit(item.text, start, stop, Room(cap, cap * 6))
    marks = f"{'…' if start else ''}{item.text[start:stop]}{'…' if stop < len(item.text) else ''}"
    return marks, (start, stop, len(item.text))


# ------------------------------------------------------------------------------------------------------------- steps
def run_step(caller: Access, question: Question, grant: Grant, name: str, arguments_text: str) -> str:
    """One tool call of the reader, as text. Errors are part of the text."""
    step = _STEPS.get(name)
    if step is None:
        return f"there is no tool {arguments.value_text(name)}; there are {', '.join(_STEPS)}"
    if grant.tokens_left() <= 0 or grant.seconds_left() <= 0:
        return "no more reading is allowed; answer from what you have"
    try:
        given = json.loads(arguments_text or "{}")
        if not isinstance(given, dict):
            raise BadRequest("give the arguments as a JSON object")
        out = step(caller, question, grant, given)
    except BadRequest as exc:
        return str(exc)
    except (ValueError, RecursionError):
        return "the arguments are not JSON"
    room = Room.of(min(_STEP_TOKENS, grant.tokens_left()))
    end = fit(out, 0, len(out), room)
    out = out if end == len(out) else f"{out[:end]}\n[cut here: ask for less at a time]"
    out = out or "nothing"
    grant.spend(out)
    return out


def _search(caller: Access, question: Question, grant: Grant, given: dict[str, Any]) -> str:
    query = str(given.get("query") or "").strip()
    if not query:
        raise BadRequest("search needs query")
    limit = given.get("limit")
    count = min(20, max(1, limit)) if isinstance(limit, int) else 8
    chosen = replace(question.search.chosen, scope=grant.scope)
    search = Search(caller, Ask(query=query, chosen=chosen))
    pack = Pack("")
    builder = _Builder(caller, grant, pack, min(_STEP_TOKENS, grant.tokens_left()))
    used = grant.used
    hits = search.messages(100 if grant.only_messages is not None else count).hits
    allowed = [hit for hit in hits if grant.only_messages is None or hit.store_id in grant.only_messages][:count]
    for rank, hit in enumerate(allowed):
        builder.rows(caller.rows([hit.store_id], grant.scope), rank, hit.offset, search)
    grant.used = used  # counted once, by the caller
    return "\n\n".join(item.block() for item in pack.ranked())


def _address(grant: Grant, given: dict[str, Any]) -> Address:
    raw = given.get("address") or given.get("id") or given.get("node_id") or given.get("store_id")
    found = arguments.address(raw, "sum" if "node_id" in given else "msg")
    if found is None:
        raise BadRequest("address is missing: msg_12 or sum_3")
    if not grant.allows(found):
        raise no_such(found)
    return found


def _describe(caller: Access, _: Question, grant: Grant, given: dict[str, Any]) -> str:
    address = _address(grant, given)
    if address.kind == "msg":
        return _message(caller, grant, address, 0)
    node = _node(caller, grant, address)
    grant.addresses.add(node.address)
    grant.summaries.add(node.address)
    kind = "sum" if node.depth else "msg"
    sources = ", ".join(f"{kind}_{source}" for source in caller.dag.sources(node.node_id)[:60])
    return f"[{node.address} | summary of {node.message_count} messages]\n{node.text}\nSources: {sources}"


def _node(caller: Access, grant: Grant, address: Address) -> Node:
    found = caller.nodes([address.number], grant.scope)
    if not found:
        raise no_such(address)
    return found[0]


def _expand(caller: Access, _: Question, grant: Grant, given: dict[str, Any]) -> str:
    address = _address(grant, given)
    offset = given.get("offset")
    start = offset if isinstance(offset, int) and offset > 0 else 0
    if address.kind == "msg":
        return _message(caller, grant, address, start)
    node = _node(caller, grant, address)
    grant.summaries.add(node.address)
    sources = caller.dag.sources(node.node_id)
    blocks: list[str] = []
    left = min(_STEP_TOKENS, grant.tokens_left())
    for source in sources[start:]:
        block = _source(caller, grant, node, source)
        left -= tokens.count(block)
        if left < 60 and blocks:
            blocks.append(f"[{len(sources) - start - len(blocks)} more; offset={start + len(blocks)}]")
            break
        blocks.append(block)
    return "\n\n".join(blocks)


def _source(caller: Access, grant: Grant, node: Node, source: int) -> str:
    if node.depth == 0:
        return _message(caller, grant, Address("msg", source), 0)
    children = caller.nodes([source], grant.scope)
    if not children:
        return ""
    grant.addresses.add(children[0].address)
    return f"[{children[0].address} | summary of {children[0].message_count} messages]\n{children[0].text}"


def _message(caller: Access, grant: Grant, address: Address, start: int) -> str:
    rows = caller.rows([address.number], grant.scope)
    if not rows:
        raise no_such(address)
    text = searchable(rows[0]) if rows[0].stored_json is not LOST else "[damaged: it cannot be read any more]"
    end = fit(text, start, len(text), Room.of(min(_STEP_TOKENS, grant.tokens_left()) // 2))
    head = rows[0].head
    grant.addresses.add(f"msg_{head.store_id}")
    tail = f"\n[cut; offset={end} continues]" if end < len(text) else ""
    return f"[msg_{head.store_id} | {head.role} | {iso(time_said(head))}]\n{text[start:end]}{tail}"


_STEPS: Final[dict[str, Callable[[Access, Question, Grant, dict[str, Any]], str]]] = {
    "search": _search, "describe": _describe, "expand": _expand,
}  # fmt: skip
