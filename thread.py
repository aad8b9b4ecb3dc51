"""
What a session's live list should show: the rows of its conversation and, in a branch, what it inherits.

Composes the rows of ``store`` with the cuts of ``session``. Owns nothing. Which live message is which of these rows is
``ingest``'s business.
"""

from __future__ import annotations

from collections.abc import Sequence

from .align import Expected, Place
from .records import Assembly, Flag, Stored
from .session import Cut, Session, Sessions
from .store import MessageStore, Segment


class Threads:
    """The threads of one database; holds nothing."""

    def __init__(self, store: MessageStore, sessions: Sessions) -> None:
        self._store = store
        self._sessions = sessions

    def lineage(self, session: Session) -> frozenset[int]:
        """The conversations whose text of ours may stand in this session's list."""
        if session.parent_id is None:
            return frozenset((session.conversation_id,))
        return frozenset(item[0] for item in self._sessions.lineage(session.conversation_id))

    def expected(self, session: Session, assembly: Assembly | None) -> list[Expected]:
        """What the live list should show: from the conversation's start, or from the tail that an assembly recorded.

        Behind an assembly: its tail, what stands behind the last message that it reaches, and what came after it.
        """
        own = session.conversation_id
        gone = self._sessions.taken_back(own) if session.parent_id is not None else None
        if session.parent_id is not None and gone is None:  # it has not begun: it shows what its parent shows
            own, gone = session.parent_id, self._sessions.taken_back(session.parent_id)
        segments = [Segment(*item) for item in self._sessions.lineage(session.conversation_id)]
        if assembly is None:
            return _thread(self._store.heads(segments), own, gone)
        rows = {row.store_id: row for row in self._store.heads_of(assembly.tail_ids).values()}
        at = [segment.conversation_id for segment in segments].index(assembly.conversation_id)
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
        """Of what was taken back in a branch, what is its own; what it inherited, it merely no longer inherits."""
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
        segments = [Segment(*item) for item in self._sessions.lineage(session.conversation_id)[:-1]]
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
            out.append(Expected(shown.store_id, row.pos, shown.role, shown.digest, shown.answers))
    return out
