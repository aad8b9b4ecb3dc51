"""
What the first message of a live list is: the context message of a prompt of ours, the user's request written over it, a record
that no prompt of ours explains, or just a message.

Owns nothing. Which prompt governs a list is decided here and nowhere else: the id in the closing line says which assembly it
claims to be, the digest of the text whether it is. After a restored backup an id may have been given out twice, or never.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .dag import SummaryDag
from .records import Assembly, Stored
from .session import Session, Sessions
from .store import MessageStore
from .text import content, own
from .thread import Threads

Messages = Sequence[Mapping[str, Any]]


class Opening(NamedTuple):
    """``kind``: "ours", "overwritten", "unknown" or "" (a message like any other).

    ``assembly``: the prompt that governs the list. ``row``: where an unknown record is kept, if it is stored already.
    """

    kind: str = ""
    assembly: Assembly | None = None
    row: Stored | None = None


class Openings:
    """Reads the first message of live lists."""

    def __init__(self, store: MessageStore, sessions: Sessions, threads: Threads, dag: SummaryDag) -> None:
        self._store = store
        self._sessions = sessions
        self._threads = threads
        self._dag = dag

    def read(self, session: Session, messages: Messages, lineage: frozenset[int]) -> Opening:
        """What the list begins with. ``lineage``: the conversations whose text of ours may stand in it."""
        if not messages or messages[0].get("role") != "user":
            return Opening()
        text = messages[0].get("content")
        context = own.read_context(text) if isinstance(text, str) else None
        if context is None:
            if self._overwritten(session, messages, lineage):
                return Opening("overwritten", self._dag.latest_assembly(session.conversation_id))
            return Opening()
        digest = content.said(messages[0]).digest
        row = next((row for row in self._store.imported(sorted(lineage)) if row.digest == digest), None)
        assembly = self._dag.assembly(context.assembly_id) if self.is_ours(context.nonce, lineage) else None
        if row is None and assembly is not None and self._governs(session, assembly, messages, lineage, context.rest):
            return Opening("ours", assembly)
        return Opening("unknown", None, row)

    def is_ours(self, nonce: str, lineage: frozenset[int]) -> bool:
        """Was this nonce given to one of these conversations?"""
        return self._sessions.nonce_owner(nonce) in lineage

    def _governs(
        self, session: Session, assembly: Assembly, messages: Messages, lineage: frozenset[int], rest: str
    ) -> bool:
        """Is this the text of that prompt, and in its place?"""
        if assembly.conversation_id not in lineage:
            return False
        if assembly.digest and assembly.digest != own.context_digest(str(messages[0]["content"])):
            return False
        return bool(rest) or not assembly.tail_ids or not self._answered(session, assembly, messages, lineage)

    def _answered(self, session: Session, assembly: Assembly, messages: Messages, lineage: frozenset[int]) -> bool:
        """Was a record said by somebody? Then it stands last, or what follows is an answer and nothing of the prompt's tail."""
        if len(messages) == 1:
            return True
        text = messages[1].get("content")
        carrier = own.read_carrier(text) if isinstance(text, str) else None
        if messages[1].get("role") == "user" or (carrier is not None and self.is_ours(carrier[0], lineage)):
            return False
        known = {item.digest for item in self._threads.expected(session, assembly)}
        return not any(content.said(message).digest in known for message in messages[1:])

    def _overwritten(self, session: Session, messages: Messages, lineage: frozenset[int]) -> bool:
        """Did the host write the user's request over our context message?

        Host 0.19 does, at the end of a turn that was compacted between two requests: it puts the clean text of the request
        where the request stood before. Our carrier behind it and the pinned request give it away.
        """
        if len(messages) < 2 or messages[1].get("role") != "assistant":
            return False
        text = messages[1].get("content")
        carrier = own.read_carrier(text) if isinstance(text, str) else None
        if carrier is None or not self.is_ours(carrier[0], lineage):
            return False
        assembly = self._dag.latest_assembly(session.conversation_id)
        pinned = self._store.heads_of(assembly.tail_ids[:1]) if assembly is not None else {}
        return any(row.digest == content.said(messages[0]).digest for row in pinned.values())
