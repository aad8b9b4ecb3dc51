"""
Who asks, and what they may read.

Every look at stored content by a tool goes through a ``Caller``: it turns scope arguments into a ``Scope``, and ids
into rows and nodes that this scope lets through. What may not be read and what does not exist are answered in the
same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from . import reading
from .archives import Archives
from .config import Config
from .dag import SummaryDag
from .errors import BadRequest, NotFound
from .records import Flag, Node, Row, Scope, Stored
from .scope import Reach
from .search import MessageIndex, NodeIndex
from .session import Session, Sessions
from .store import MessageStore


@dataclass(frozen=True, slots=True)
class InPrompt:
    """What the caller's prompt shows now: messages as they are, and the roots of its summaries."""

    store_ids: frozenset[int] = frozenset()
    roots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Payload:
    """A stored file: its text and what is known about it."""

    name: str
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)


class Payloads(Protocol):
    """Files beside the database."""

    def open(self, name: str, scope: Scope) -> Payload | None:
        """The file of this name if the scope may read it, else None."""

    def whole(self, row: Row) -> Row:
        """A message with what its placeholders stand for."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A scope and how to say it. ``missing``: what was asked for is not there or not readable. ``wide``: beyond this talk."""

    scope: Scope
    label: str
    missing: str = ""
    wide: bool = False


def no_such(what: object) -> NotFound:
    """The one answer for what does not exist and for what is somebody else's."""
    return NotFound(f"nothing that you may read has the address {what}")


@dataclass(frozen=True, slots=True)
class Caller:
    """The archive as one session sees it. ``principal`` None: the local operator, who may read everything."""

    store: MessageStore
    dag: SummaryDag
    sessions: Sessions
    reach: Reach
    index: MessageIndex
    node_index: NodeIndex
    config: Config
    session: Session | None
    principal: str | None
    in_prompt: InPrompt = InPrompt()
    payloads: Payloads | None = None
    archives: Archives | None = None

    # -- scopes -------------------------------------------------------------------------------------
    def everything(self) -> Scope:
        """All that this caller may read."""
        if self.principal is not None and self.config.archive_scope == "session":
            carried = self.dag.nodes(self.sessions.carried(self.session.conversation_id)) if self.session else []
            current = self.current()
            conversations = (*(current.conversations or ()), *(node.conversation_id for node in carried))
            return replace(current, conversations=tuple(dict.fromkeys(conversations)))
        return Scope(self.principal)

    def current(self) -> Scope:
        """The current conversation and what it inherits of those it branched from."""
        return self.thread(self.session.conversation_id) if self.session is not None else Scope(self.principal, ())

    def thread(self, conversation_id: int) -> Scope:
        """A conversation and what it inherits: a branch knows nothing of what its parents say later."""
        lineage = self.sessions.lineage(conversation_id)
        cuts = tuple((conversation, cut.seq, cut.pos) for conversation, cut in lineage if cut is not None)
        gone = self.sessions.taken_back(conversation_id) if cuts else None
        return Scope(
            self.principal, tuple(c for c, _ in lineage), cuts=cuts, without=tuple(sorted(gone)) if gone else ()
        )

    def choose(
        self,
        session_scope: str | None = None,
        session_id: str | None = None,
        conversation_id: int | None = None,
        all_conversations: bool | None = None,
    ) -> Chosen:
        """The scope that arguments name; the narrowest of them counts."""
        everything = self.everything()
        if session_id is not None:
            found = self.find_session(session_id)
            if found is None:
                return Chosen(Scope(self.principal, (), session_id), "no session", f"session {session_id!r}", wide=True)
            return Chosen(
                replace(everything, conversations=(found.conversation_id,), session_id=session_id),
                f"session {session_id}",
                wide=True,
            )
        if session_scope == "session":
            raise BadRequest("session_scope=session needs session_id: the session to search")
        if conversation_id is not None:
            known = self.reach.conversations([conversation_id], everything)
            missing = "" if known else f"conversation {conversation_id}"
            return Chosen(replace(everything, conversations=tuple(known)), f"conversation {conversation_id}", missing)
        if session_scope == "all" or (all_conversations and session_scope is None):
            return Chosen(everything, "all readable conversations", wide=True)
        return Chosen(self.current(), "current conversation")

    def find_session(self, session_id: str) -> Session | None:
        """A session that this caller may read, or None."""
        found = self.sessions.find(session_id)
        if found is None or not self.reach.conversations([found.conversation_id], self.everything()):
            return None
        return found

    # -- content ------------------------------------------------------------------------------------
    def rows(self, store_ids: Sequence[int], scope: Scope | None = None) -> list[Row]:
        """Those of the messages that may be read, in the order asked for."""
        readable = self.reach.messages(store_ids, scope or self.everything())
        return self.shown([store_id for store_id in store_ids if store_id in readable])

    def shown(self, store_ids: Sequence[int]) -> list[Row]:
        """Messages in the order asked for, whoever may read them. One that is damaged hides no other: it is ``reading.lost``."""
        rows, damaged = self.store.legible(store_ids)
        found = {row.store_id: row for row in rows}
        found |= {store_id: reading.lost(head) for store_id, head in self.store.heads_of(damaged).items()}
        return [found[store_id] for store_id in store_ids if store_id in found]

    def row(self, store_id: int) -> Row:
        """One message, exactly as it was said. Raises NotFound, and StoreCorrupt when it cannot be read."""
        found = self.store.rows([*self.reach.messages([store_id], self.everything())])
        if not found:
            raise no_such(f"msg_{store_id}")
        return self.payloads.whole(found[0]) if self.payloads is not None else found[0]

    def nodes(self, node_ids: Iterable[int], scope: Scope | None = None) -> list[Node]:
        """Those of the nodes that may be read, in the order asked for."""
        wanted = list(node_ids)
        readable = self.reach.nodes(wanted, scope or self.everything())
        return self.dag.nodes([node_id for node_id in wanted if node_id in readable])

    def node(self, node_id: int) -> Node:
        """One node. Raises NotFound."""
        found = self.nodes([node_id])
        if not found:
            raise no_such(f"sum_{node_id}")
        return found[0]

    def payload(self, name: str) -> Payload:
        """One file. Raises NotFound."""
        found = self.payloads.open(name, self.everything()) if self.payloads is not None else None
        if found is None:
            raise no_such(name)
        return found

    def taken_back(self, head: Stored) -> bool:
        """Was the message taken back, as the current conversation sees it? What its parents do later is not its business."""
        inherited = self.session is not None and self.session.parent_id is not None
        if inherited and any(conversation == head.conversation_id for conversation, *_ in self.current().cuts):
            return False
        return bool(head.flags & Flag.RETRACTED)

    def roots(self) -> tuple[int, ...]:
        """The summaries that the prompt shows, or those of the newest prompt that was built."""
        if self.in_prompt.roots or self.session is None:
            return self.in_prompt.roots
        latest = self.dag.latest_assembly(self.session.conversation_id)
        return latest.roots if latest else ()

    def covering(self, store_ids: Iterable[int]) -> dict[int, str]:
        """By message: the address of the newest readable leaf over it; of the current conversation's messages, one of its own."""
        found = self.reach.covering(store_ids, self.everything())
        current = self.current()
        if found and current.cuts:
            inner = self.reach.messages(found, current)
            own = self.reach.covering(inner, current)
            found = {m: own.get(m, 0) if m in inner else node_id for m, node_id in found.items()}
        return {store_id: f"sum_{node_id}" for store_id, node_id in found.items() if node_id}
