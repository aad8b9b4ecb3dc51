"""
Expected transcript of a session: the rows of its conversation and, in a branch, those that it inherits.

Composes the rows of ``store`` with the cuts of ``session``. Owns nothing. Which live message is which of these rows is
``ingest``'s business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..dag import SummaryDag
from ..errors import Exchanged
from ..records import Assembly, Flag, Stored
from ..session import Cut, Session, Sessions
from ..store import MessageStore, Segment
from ..text import content, markup
from .align import Expected, Place


class Transcripts:
    """The transcripts of one database; holds nothing."""

    def __init__(self, store: MessageStore, sessions: Sessions) -> None:
        self._store = store
        self._sessions = sessions

    def conversations(self, session: Session) -> frozenset[int]:
        """The conversations whose text of ours may stand in this session's list."""
        if session.parent_id is None:
            return frozenset((session.conversation_id,))
        return frozenset(item[0] for item in self._sessions.ancestry(session.conversation_id))

    def expected(self, session: Session, assembly: Assembly | None) -> list[Expected]:
        """The expected transcript: from the conversation's start, or from the tail that an assembly recorded.

        Behind an assembly: its tail, what stands behind the last message that it reaches, and what came after it.
        """
        own = session.conversation_id
        gone = self._sessions.taken_back(own) if session.parent_id is not None else None
        if session.parent_id is not None and gone is None:  # it has not begun: it shows what its parent shows
            own, gone = session.parent_id, self._sessions.taken_back(session.parent_id)
        segments = [Segment(*item) for item in self._sessions.ancestry(session.conversation_id)]
        if assembly is None:
            return _thread(self._store.heads(segments), own, gone)
        rows = {row.store_id: row for row in self._store.heads_of(assembly.tail_ids).values()}
        conversations = [segment.conversation_id for segment in segments]
        if assembly.conversation_id not in conversations:
            raise Exchanged(
                f"prompt {assembly.assembly_id} is of conversation {assembly.conversation_id} of a file that is not in use "
                f"any more; session {session.session_id} is read anew"
            )
        at = conversations.index(assembly.conversation_id)
        for n, segment in enumerate(segments[at:]):
            for row in self._store.heads_behind(segment, pos=assembly.last_pos, seq=0 if n else assembly.last_seq):
                rows.setdefault(row.store_id, row)
        return _thread(sorted(rows.values(), key=lambda row: (row.pos, row.seq)), own, gone)

    def fork(self, session: Session, places: Sequence[Place]) -> bool:
        """A branch begins behind the last of its parent's messages that it shows; the parent itself loses nothing."""
        if session.parent_id is None or self._store.has_rows(session.conversation_id):
            return False
        shared = self._store.heads_of([store_id for place in places for store_id in place.ids])
        rows = [row for row in shared.values() if row.conversation_id != session.conversation_id]
        cut = Cut(max((row.seq for row in rows), default=0), max((row.pos for row in rows), default=0.0))
        gone = self._sessions.taken_back(session.parent_id) or frozenset()
        own_gone = [row.store_id for row in self._store.retracted(session.parent_id)]
        self._sessions.fork_at(session.conversation_id, cut, [*gone, *own_gone])
        return True

    def own_rows(self, session: Session, retracted: Sequence[int]) -> tuple[int, ...]:
        """Rows of a branch's own among those taken back in it; what it inherited, it merely no longer inherits."""
        if session.parent_id is None or not retracted:
            return tuple(retracted)
        heads = self._store.heads_of(retracted)
        inherited = [row.pos for row in heads.values() if row.conversation_id != session.conversation_id]
        if inherited:
            self._sessions.inherit_before(session.conversation_id, min(inherited))
        return tuple(i for i in retracted if i in heads and heads[i].conversation_id == session.conversation_id)

    def taken_back(self, session: Session) -> list[Stored]:
        """Rows that may come back: retracted ones, and in a branch those that it inherited once and no longer does."""
        rows = [row for row in self._store.retracted(session.conversation_id) if not row.flags & Flag.DUPLICATE]
        if session.parent_id is None:
            return rows
        full, gone = self._sessions.once_inherited(session.conversation_id)
        if full:
            shown = {item.store_id for item in self.expected(session, None)}
            once = _thread(self._store.heads([Segment(*item) for item in full]), session.conversation_id, gone)
            lost = [item.store_id for item in once if item.store_id not in shown]
            rows = sorted([*rows, *self._store.heads_of(lost).values()], key=lambda row: (row.pos, row.store_id))
        return rows

    def inherit_again(self, session: Session, lost: Sequence[Stored], restored: Sequence[Stored]) -> list[int]:
        """Let a branch inherit again what it shows again; the branch's own rows among the restored ones."""
        own_id = session.conversation_id
        back = [row for row in restored if row.conversation_id != own_id]
        if back:
            until = max(row.pos for row in back)
            shown = {row.store_id for row in back}
            still = [
                r.store_id for r in lost if r.conversation_id != own_id and r.pos <= until and r.store_id not in shown
            ]
            self._sessions.inherit_again(own_id, until, shown=shown, without=still)
        return [row.store_id for row in restored if row.conversation_id == own_id]

    def inherited_between(self, session: Session, whole: int) -> list[float]:
        """Positions between ``whole`` and the next whole one that rows of ancestors hold."""
        segments = [Segment(*item) for item in self._sessions.ancestry(session.conversation_id)[:-1]]
        heads = self._store.heads(segments) if segments else []
        return sorted({row.pos for row in heads if whole < row.pos < whole + 1})


def _thread(heads: Sequence[Stored], own_id: int, gone: frozenset[int] | None) -> list[Expected]:
    """Rows as the live list shows them: revisions in the place of what they revise, nothing that was taken back.

    ``gone``: which inherited rows were taken back before conversation ``own_id`` branched off (None: whatever is by now).
    """
    latest: dict[int, Stored] = {row.revises: row for row in heads if row.revises is not None}
    present = {row.store_id for row in heads} if latest else set()
    out: list[Expected] = []
    for row in heads:
        if row.revises is not None and row.revises in present:
            continue
        shown = row
        while shown.store_id in latest:
            shown = latest[shown.store_id]
        inherited = gone is not None and shown.conversation_id != own_id
        hidden = shown.store_id in gone if inherited and gone is not None else shown.flags & Flag.RETRACTED
        if not hidden:
            out.append(expected_of(shown, row.pos))
    return out


def expected_of(row: Stored, pos: float) -> Expected:
    """A stored row as the live list should show it, at a position."""
    return Expected(
        row.store_id, pos, row.role, row.digest, row.answers, row.tokens, row.said_at or row.stored_at
    )  # fmt: skip


# -- the first message of a live list --------------------------------------------------------------------
# Which prompt governs a list is decided here alone: the id in the closing line says which assembly it claims to be, the digest of
# the text whether it is. After a restored backup an id may have been given out twice, or never.
Messages = Sequence[Mapping[str, Any]]


class FirstMessage(NamedTuple):
    """``kind``: "ours", "overwritten", "unknown" or "" (a message like any other).

    ``assembly``: the prompt that governs the list. ``row``: where an unknown one is kept, if it is stored already. ``nonce``:
    of an unknown context message.
    """

    kind: str = ""
    assembly: Assembly | None = None
    row: Stored | None = None
    nonce: str = ""


class FirstMessages:
    """Reads the first message of live lists."""

    def __init__(self, store: MessageStore, sessions: Sessions, transcripts: Transcripts, dag: SummaryDag) -> None:
        self._store = store
        self._sessions = sessions
        self._transcripts = transcripts
        self._dag = dag

    def first_message(self, session: Session, messages: Messages, ancestry: frozenset[int]) -> FirstMessage:
        """The first message of a list. ``ancestry``: the conversations whose text of ours may stand in it."""
        if not messages or messages[0].get("role") != "user":
            return FirstMessage()
        text = messages[0].get("content")
        context = markup.read_context(text) if isinstance(text, str) else None
        if context is None:
            if self._overwritten(session, messages, ancestry):
                return FirstMessage("overwritten", self._dag.latest_assembly(session.conversation_id))
            return FirstMessage()
        digest = content.canonical_core(messages[0]).digest
        row = next((row for row in self._store.imported(sorted(ancestry)) if row.digest == digest), None)
        assembly = None
        if self.is_ours(context.nonce, ancestry):
            assembly = self._dag.prompt_of(context.assembly_id, markup.context_digest(str(text)), sorted(ancestry))
        if row is None and assembly is not None and self._governs(session, assembly, messages, ancestry, context.rest):
            return FirstMessage("ours", assembly)
        return FirstMessage("unknown", None, row, context.nonce)

    def is_ours(self, nonce: str, ancestry: frozenset[int]) -> bool:
        """Was this nonce given to one of these conversations?"""
        return self._sessions.nonce_owner(nonce) in ancestry

    def _governs(
        self, session: Session, assembly: Assembly, messages: Messages, ancestry: frozenset[int], rest: str
    ) -> bool:
        """Is this the text of that prompt, and in its place?"""
        if assembly.conversation_id not in ancestry:
            return False
        if assembly.digest and assembly.digest != markup.context_digest(str(messages[0]["content"])):
            return False
        return bool(rest) or not assembly.tail_ids or not self._answered(session, assembly, messages, ancestry)

    def _answered(self, session: Session, assembly: Assembly, messages: Messages, ancestry: frozenset[int]) -> bool:
        """Was a record said by somebody? Then it stands last, or what follows is an answer and nothing of the prompt's tail."""
        if len(messages) == 1:
            return True
        text = messages[1].get("content")
        carrier = markup.read_carrier(text) if isinstance(text, str) else None
        if messages[1].get("role") == "user" or (carrier is not None and self.is_ours(carrier[0], ancestry)):
            return False
        known = {item.digest for item in self._transcripts.expected(session, assembly)}
        return not any(content.canonical_core(message).digest in known for message in messages[1:])

    def _overwritten(self, session: Session, messages: Messages, ancestry: frozenset[int]) -> bool:
        """Did the host write the user's request over our context message?

        Host 0.19 does, at the end of a turn that was compacted between two requests: it puts the clean text of the request
        where the request stood before. Our carrier behind it and the pinned request give it away.
        """
        if len(messages) < 2 or messages[1].get("role") != "assistant":
            return False
        text = messages[1].get("content")
        carrier = markup.read_carrier(text) if isinstance(text, str) else None
        if carrier is None or not self.is_ours(carrier[0], ancestry):
            return False
        assembly = self._dag.latest_assembly(session.conversation_id)
        pinned = self._store.heads_of(assembly.tail_ids[:1]) if assembly is not None else {}
        return any(row.digest == content.canonical_core(messages[0]).digest for row in pinned.values())
