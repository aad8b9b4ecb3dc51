"""
The rights of one call: who asks, and what they may read.

Every look at stored content by a tool or a command goes through an ``Access``: it turns scope arguments into a ``Scope``, and ids
into rows and nodes that this scope lets through. What may not be read and what does not exist are answered in the
same words.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ..archive.costs import CostList
from ..archive.ranges import ArchivedRanges, Archives
from ..config import Config, mode_of
from ..dag import SummaryDag
from ..errors import BadRequest, NotFound
from ..ingest.filters import WriteFilters
from ..ingest.transcript import Transcript
from ..ledger.table import Ledger
from ..llm.client import ChatMessage, Model, Reply, in_time
from ..records import Assembly, Flag, Node, Row, Scope, Stored
from ..search.index import MessageIndex, NodeIndex
from ..search.scope import OWN_SESSION, Rights, Scopes, own_scope
from ..session import Session, Sessions
from ..storage.connection import Database
from ..storage.files import Progress, silent
from ..storage.meta import SHOWN, Health, Meta
from ..storage.payloads import Payloads
from ..store import MessageStore
from ..text import markers
from . import paging

#: The auxiliary task under which users choose a model for questions about the past.
QUESTION_TASK: Final = "lcm_expansion"
#: Dollars for a million tokens: read, read from the prompt cache, written; None where nobody knows.
Price = tuple[float, float | None, float] | None


@dataclass(frozen=True, slots=True)
class EngineState:
    """The running engine's own numbers. The defaults say "no engine runs": a terminal, or a chat before its first turn.

    ``breaker`` and ``spend`` are what ``Breaker.dump()`` and ``SpendGuard.dump()`` return; ``background`` is shown as it is.
    """

    context_length: int = 0
    context_source: str = ""  # where the window is known from, if not from an engine that runs here
    threshold_tokens: int = 0
    threshold_source: str = ""  # which setting, or rule of overrides, decided it
    last_prompt_tokens: int = 0
    counted_tokens: int = 0  # the same where the provider counted it, and no compaction came since
    model: str = ""
    provider: str = ""
    local: bool = False  # the model's address is this machine, or its network
    session_id: str = ""  # that it works for
    mode: str = "full"  # by the patterns of now: full, stateless or ignored
    compactions: int = 0
    fallback_context: bool = False
    last_compression: Mapping[str, Any] = field(default_factory=dict)
    engine_name_in_use: str | None = None
    compression_enabled: bool = True
    misspelt_block: str = ""  # a key of config.yaml that was meant to be ``lcm``
    host_version: str | None = None
    missing_hooks: tuple[str, ...] = ()  # of those that the plugin registers, what the host does not know
    background: Mapping[str, Any] = field(default_factory=dict)
    breaker: Mapping[str, Any] = field(default_factory=dict)
    spend: Mapping[str, Any] = field(default_factory=dict)
    calibration: Mapping[str, Any] = field(default_factory=dict)  # as ``Calibration.shown`` tells it
    prices: tuple[Price, Price] = (None, None)  # of the model and of its summariser, as far as the host was asked
    priced: Mapping[tuple[str, str], Price] = field(
        default_factory=dict
    )  # of each (model, provider) that it was asked about
    cache: Mapping[str, int] = field(default_factory=dict)  # requests, prompt_tokens, cache_read_tokens of this engine

    @property
    def live(self) -> bool:
        """Is there an engine that the host drives?"""
        return not self.context_source and (self.context_length > 0 or self.fallback_context or bool(self.model))


@dataclass(frozen=True, slots=True)
class LiveList:
    """The list that the calling agent works with, as it is stored.

    ``rewritable``: can single requests be changed on this host? ``changed``: called when requests are to show something else.
    """

    messages: Sequence[Mapping[str, Any]]
    transcript: Transcript
    costs: Callable[[], CostList]
    rewritable: Callable[[], bool] = lambda: False
    changed: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Payload:
    """A stored file: its text and what is known about it."""

    name: str
    text: str
    facts: Mapping[str, Any]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Access of one call to a database; made anew for each. ``rights``: of the agent that calls, in its session."""

    db: Database
    store: MessageStore
    dag: SummaryDag
    sessions: Sessions
    scopes: Scopes
    index: MessageIndex
    node_index: NodeIndex
    archives: Archives
    ledger: Ledger
    ranges: ArchivedRanges
    payloads: Payloads
    filters: WriteFilters
    health: Health
    config: Config
    model: Model
    readers: paging.Readers
    home: Path
    session: Session | None
    rights: Rights = OWN_SESSION
    trusted: bool = False  # asked at a terminal of this machine: may read every conversation
    answer_tokens: int = 8000  # that one answer may take
    engine: EngineState = EngineState()
    live: LiveList | None = None
    clock: Callable[[], float] = time.time
    #: Before a search of everything: fetches what other hosts have for these stems, of one principal; a note for the answer.
    elsewhere: Callable[[tuple[str, ...], str | None], str] | None = None
    progress: Progress = silent  # of long work, for who watches
    _threads: dict[int, Scope] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def principal(self) -> str | None:
        return self.rights.principal

    @property
    def reads_all(self) -> bool:
        """May the caller know of every conversation?"""
        return self.trusted or self.rights.reads_all

    @property
    def owner(self) -> str:
        """Owner of the rest of an answer: the rights that its evidence was read with."""
        session_id = self.session.session_id if self.session else ""
        narrow = self.rights.own or (self.principal is not None and self.config.archive_scope == "session")
        who = self.principal or ("" if self.reads_all else "\0nobody")
        return f"{who}\n{session_id if narrow else ''}\n{self.current().messages or ''}"

    def for_session_facts(self) -> Access:
        """An access for facts about a session: of one that several people share there is nothing to tell to one of them."""
        return replace(self, session=None) if self.rights.shown else self

    def mode(self) -> str:
        """full, stateless or ignored, by the patterns of now, not by those when the session began."""
        if self.session is None or self.engine.mode != "full":
            return self.engine.mode
        return mode_of(self.config, self.session.session_id, self.session.platform)

    def ask(
        self, messages: Sequence[ChatMessage], seconds: float, *, max_tokens: int,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> Reply:  # fmt: skip
        """Reply of the model for questions about the past, in time. Raises SummaryError."""
        route = self.config.expansion_model or self.config.summary_model
        return in_time(
            lambda: self.model.complete(
                messages, max_tokens=max_tokens, timeout_s=seconds, route=route, tools=tools, task=QUESTION_TASK
            ),
            seconds,
        )

    # -- the prompt ---------------------------------------------------------------------------------
    def in_prompt(self) -> frozenset[int]:
        """Messages that the caller's prompt shows as they are."""
        entries = self.live.transcript.entries if self.live is not None else ()
        return frozenset(store_id for entry in entries if not entry.own for store_id in entry.ids)

    def roots(self) -> tuple[int, ...]:
        """The summaries that the prompt shows, or those of the newest prompt that was built."""
        assembly = self.live.transcript.assembly if self.live is not None else None
        if (assembly is None or not assembly.roots) and not self.rights.shown:
            assembly = self.assembly()
        return assembly.roots if assembly is not None else ()

    def carried(self) -> Sequence[int]:
        """Summaries of the conversation before that the prompts show: beside the first message, later in the context message."""
        return self.sessions.carried(self.session.conversation_id) if self.session is not None else ()

    def assembly(self) -> Assembly | None:
        """The newest prompt that was built in this conversation."""
        return self.dag.latest_assembly(self.session.conversation_id) if self.session is not None else None

    def shown_assembly(self) -> Assembly | None:
        """The newest prompt of this conversation; where the host refused that, the one that its list shows instead."""
        newest = self.assembly()
        if newest is None or self.session is None:
            return None
        match Meta(self.db).value(SHOWN + self.session.session_id):
            case [newest.assembly_id, int(instead)]:
                return self.dag.assembly(instead)
        return newest

    # -- scopes -------------------------------------------------------------------------------------
    def everything(self) -> Scope:
        """Scope of all that this caller may read."""
        if self.rights.own and not self.trusted:
            return self.current()
        if self.principal is not None and self.config.archive_scope == "session":
            carried = self.dag.nodes(self.sessions.carried(self.session.conversation_id)) if self.session else []
            current = self.current()
            carried_from = (node.conversation_id for node in carried)
            conversations = (*(current.conversations or ()), *carried_from, *self._delegated())
            return replace(current, principal=self.principal, conversations=tuple(dict.fromkeys(conversations)))
        return Scope(self.principal, apart=not self.reads_all)

    def _delegated(self) -> list[int]:
        """Conversations of the sub-agents that this one started, and of theirs; not those of a parent it branched from."""
        if self.session is None:
            return []
        found = dict[str, int]()
        began = [each.session_id for each in self.sessions.of_conversation(self.session.conversation_id)]
        while children := [each for each in self.sessions.children(began) if each.session_id not in found]:
            found.update((each.session_id, each.conversation_id) for each in children)
            began = [each.session_id for each in children]
        return [*found.values()]

    def current(self) -> Scope:
        """The current conversation and what it inherits of those it branched from."""
        return (
            self.conversation(self.session.conversation_id) if self.session is not None else Scope(self.principal, ())
        )

    def conversation(self, conversation_id: int) -> Scope:
        """A conversation and what it inherits: a branch knows nothing of what its parents say later."""
        if conversation_id not in self._threads:
            self._threads[conversation_id] = self._thread_now(conversation_id)
        return self._threads[conversation_id]

    def _thread_now(self, conversation_id: int) -> Scope:
        mine = self.session is not None and conversation_id == self.session.conversation_id
        if self.rights.own and not (mine or self.trusted):
            return replace(self.everything(), conversations=(conversation_id,))
        messages, nodes = self._of_request() if self.rights.shown else (None, None)
        scope = own_scope(self.sessions, conversation_id)
        principal = None if mine else self.principal
        return replace(scope, principal=principal, messages=messages, nodes=nodes, apart=not self.reads_all)

    def _of_request(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Messages and summaries that the request's own history shows: as they are, or under its summaries."""
        raw = self.in_prompt().union(self.dag.messages_below(self.roots()))
        return tuple(sorted(raw)), tuple(self.dag.nodes_below(self.roots()))

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
            known = self.scopes.conversations([conversation_id], everything)
            missing = "" if known else f"conversation {conversation_id}"
            return Chosen(replace(everything, conversations=tuple(known)), f"conversation {conversation_id}", missing)
        if session_scope == "all" or (all_conversations and session_scope is None):
            return Chosen(everything, "all readable conversations", wide=True)
        return Chosen(self.current(), "this conversation")

    def find_session(self, session_id: str) -> Session | None:
        """A session that this caller may read, or None."""
        found = self.sessions.find(session_id)
        if found is None or not self.scopes.conversations([found.conversation_id], self.everything()):
            return None
        return found

    # -- content ------------------------------------------------------------------------------------
    def rows(self, store_ids: Sequence[int], scope: Scope | None = None) -> list[Row]:
        """Messages among these that may be read, in the order asked for."""
        readable = self.scopes.messages(store_ids, scope or self.everything())
        return self.load_rows([store_id for store_id in store_ids if store_id in readable])

    def load_rows(self, store_ids: Sequence[int]) -> list[Row]:
        """Messages in the order asked for, without a check of rights. A damaged one is ``paging.damaged_row``."""
        rows, damaged = self.store.legible(store_ids)
        found = {row.store_id: row for row in rows}
        found |= {store_id: paging.damaged_row(head) for store_id, head in self.store.heads_of(damaged).items()}
        return [found[store_id] for store_id in store_ids if store_id in found]

    def row(self, store_id: int) -> Row:
        """One message, exactly as it was said. Raises NotFound, and StoreCorrupt when it cannot be read."""
        found = self.store.rows([*self.scopes.messages([store_id], self.everything())])
        if not found:
            raise no_such(f"msg_{store_id}")
        return self.payloads.whole(found[0])

    def nodes(self, node_ids: Iterable[int], scope: Scope | None = None) -> list[Node]:
        """Nodes among these that may be read, in the order asked for."""
        if not (wanted := list(node_ids)):
            return []
        readable = self.scopes.nodes(wanted, scope or self.everything())
        return self.dag.nodes([node_id for node_id in wanted if node_id in readable])

    def node(self, node_id: int) -> Node:
        """One node. Raises NotFound."""
        found = self.nodes([node_id])
        if not found:
            raise no_such(f"sum_{node_id}")
        return found[0]

    def payload(self, name: str) -> Payload:
        """One file, if a message that shows it may be read. Raises NotFound."""
        for ref in self.payloads.refs_named(name):
            shown = self._shown_by(ref.sha)
            text = self.payloads.in_full(ref) if shown else None
            if text is not None:
                facts = {"kind": ref.kind, "mime": ref.mime, "bytes": ref.bytes, "sha256": ref.sha}
                return Payload(name, text, {**facts, "messages": [f"msg_{n}" for n in shown]})
        raise no_such(name)

    def _shown_by(self, sha: str) -> list[int]:
        """Readable messages that show a file. What they store is looked at, not what they read as."""
        ids = self.payloads.shown_by(sha)
        readable = self.scopes.messages(ids, self.everything()) if ids else ()
        rows, _ = MessageStore(self.db, self.index).legible([n for n in ids if n in readable])
        return sorted(row.store_id for row in rows if self.payloads.shows(row, sha))

    def speaker(self, row: Row) -> tuple[str, str]:
        """(name, id) of who said a user's message, as the host gives them; "" for what it does not tell."""
        name = row.stored_json.get("name")
        if row.head.role != "user":
            return "", ""
        if isinstance(name, str) and name:
            return name, ""
        said = markers.speaker(row.text)
        session = self.sessions.find(row.head.session_id) if said[0] else None
        return said if session is not None and self.sessions.of_several(session) else ("", "")

    def taken_back(self, head: Stored) -> bool:
        """Was the message taken back, as the current conversation sees it? What its parents do later is not its business."""
        inherited = self.session is not None and self.session.parent_id is not None
        if inherited and any(conversation == head.conversation_id for conversation, *_ in self.current().cuts):
            return False
        return bool(head.flags & Flag.RETRACTED)

    def covering(self, store_ids: Iterable[int]) -> dict[int, str]:
        """By message: the address of the newest readable leaf over it; of the current conversation's messages, one of its own."""
        found = self.scopes.covering(store_ids, self.everything())
        current = self.current()
        if found and current.cuts:
            inner = self.scopes.messages(found, current)
            own = self.scopes.covering(inner, current)
            found = {m: own.get(m, 0) if m in inner else node_id for m, node_id in found.items()}
        return {store_id: f"sum_{node_id}" for store_id, node_id in found.items() if node_id}
