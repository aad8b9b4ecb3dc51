"""
Ranges that agents archived: the messages that one placeholder stands for, and whether it still does.

Owns table ``archives``. Holds addresses of rows, never copies of messages. A branch gets archives of its own for what it
inherits, so that restoring in one of the two changes nothing in the other.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..session import Session
from ..storage.connection import Database
from ..storage.meta import Meta
from ..text.content import storable

ARCHIVED: Final = "archived"
RESTORED: Final = "restored"
PRUNED: Final = "pruned"
_COLUMNS: Final = (
    "a.archive_id, a.handle, a.conversation_id, a.session_id, a.store_ids, a.first_index, a.last_index, a.messages, a.summary, "
    "a.given, a.preview, a.chars, a.tokens, a.state, a.created_at, a.changed_at"
)
_OF = f"SELECT {_COLUMNS} FROM archives a WHERE a.conversation_id = ? AND a.state <> 'pruned' ORDER BY a.archive_id"
_INSERT = """
INSERT INTO archives(handle, conversation_id, session_id, store_ids, first_index, last_index, messages, summary, given, preview,
                     chars, tokens, state, created_at, changed_at)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,'archived',?,?)
"""
# As they stood when the branch began: what the parent restored later is still archived in the branch.
_ADOPT = """
INSERT INTO archives(handle, conversation_id, session_id, store_ids, first_index, last_index, messages, summary, given, preview,
                     chars, tokens, state, created_at, changed_at)
SELECT a.handle, b.conversation_id, a.session_id, a.store_ids, a.first_index, a.last_index, a.messages, a.summary, a.given,
       a.preview, a.chars, a.tokens, CASE WHEN a.changed_at > b.created_at THEN 'archived' ELSE a.state END, a.created_at,
       a.changed_at
  FROM archives a JOIN conversations b ON b.parent_id = a.conversation_id
 WHERE b.conversation_id = ? AND a.created_at <= b.created_at
ON CONFLICT(conversation_id, handle) DO NOTHING
"""
_READABLE = f"""
SELECT {_COLUMNS} FROM archives a JOIN conversations c USING(conversation_id)
 WHERE a.handle = :handle AND a.state <> 'pruned' AND (:principal IS NULL OR c.principal = :principal)
   AND (:conversations IS NULL OR a.conversation_id IN (SELECT value FROM json_each(:conversations)))
 ORDER BY a.conversation_id = :mine DESC, a.archive_id LIMIT 1
"""
_REQUEST = "archive_request:{}"
_ODD = re.compile(r"[^\w.:@+-]+")


@dataclass(frozen=True, slots=True)
class Archive:
    """One archived range. ``first_index`` to ``last_index``: in the live list of then, both included; ``given``: by the agent."""

    archive_id: int
    handle: str
    conversation_id: int
    session_id: str
    store_ids: tuple[int, ...]
    first_index: int
    last_index: int
    messages: int
    summary: str
    given: bool
    preview: str
    chars: int
    tokens: int
    state: str
    created_at: float
    changed_at: float


def new_handle(session_id: str) -> str:
    """An address that no other archive has."""
    return f"mem://{_ODD.sub('_', session_id) or 'session'}/{uuid.uuid4()}"


class Archives:
    """The archives of one database."""

    def __init__(self, db: Database, clean: Callable[[str], str] = str) -> None:
        """``clean`` takes secrets out of what is written."""
        self._db = db
        self._meta = Meta(db)
        self._clean = clean
        self._adopted: set[int] = set()

    def of(self, session: Session) -> list[Archive]:
        """Those of a session's conversation that were not pruned, oldest first."""
        if session.parent_id is not None and session.conversation_id not in self._adopted:
            self._adopt(session.conversation_id)
        return [_archive(row) for row in self._db.query(_OF, (session.conversation_id,))]

    def _adopt(self, conversation_id: int) -> None:
        """Let a branch have what its parent had when it began."""
        if self._db.query_one("SELECT 1 FROM archives LIMIT 1") is not None:
            with self._db.transaction():
                self._db.execute(_ADOPT, (conversation_id,))
        self._adopted.add(conversation_id)

    def add(self, archive: Archive, *, request: int | None = None) -> None:
        """Note a new one; its id is given here. ``request``: the message that it was made for."""
        summary, preview = (storable(self._clean(each)) for each in (archive.summary, archive.preview))
        with self._db.transaction():
            if request is not None:
                self._meta.note(_REQUEST.format(archive.handle), request)
            self._db.execute(
                _INSERT,
                (
                    archive.handle, archive.conversation_id, archive.session_id, json.dumps(list(archive.store_ids)),
                    archive.first_index, archive.last_index, archive.messages, summary, int(archive.given),
                    preview, archive.chars, archive.tokens, archive.created_at, archive.changed_at,
                ),
            )  # fmt: skip

    def every(self, conversation_id: int) -> list[Archive]:
        """All of a conversation, pruned ones too, oldest first. Only reads."""
        sql = f"SELECT {_COLUMNS} FROM archives a WHERE a.conversation_id = ? ORDER BY a.archive_id"
        return [_archive(row) for row in self._db.query(sql, (conversation_id,))]

    def take_over(self, archive: Archive, *, request: int | None = None) -> bool:
        """Have an archive of another file, with the addresses of here; of one that is here, its later state. True: it is new."""
        known = next((each for each in self.every(archive.conversation_id) if each.handle == archive.handle), None)
        if known is not None:
            if archive.changed_at > known.changed_at and archive.state != known.state:
                self.change([known.archive_id], archive.state, now=archive.changed_at)
            return False
        with self._db.transaction():
            self.add(archive, request=request)
            if archive.state != ARCHIVED:
                self._db.execute(
                    "UPDATE archives SET state = ? WHERE conversation_id = ? AND handle = ?",
                    (archive.state, archive.conversation_id, archive.handle),
                )
        return True

    def request(self, handle: str) -> int | None:
        """The message that an archive was made for, if that was noted."""
        found = self._meta.value(_REQUEST.format(handle))
        return found if isinstance(found, int) else None

    def find(
        self, handle: str, *, principal: str | None, conversations: Sequence[int] | None, mine: int | None
    ) -> Archive | None:
        """The archive of this handle that may be read; the one of conversation ``mine`` where there are several."""
        among = json.dumps(list(conversations)) if conversations is not None else None
        row = self._db.query_one(
            _READABLE,
            {"handle": storable(handle), "principal": principal, "conversations": among, "mine": mine},
        )
        return _archive(row) if row else None

    def change(self, archive_ids: Sequence[int], state: str, *, now: float) -> None:
        """Restored or pruned. Never touches a message."""
        with self._db.transaction():
            self._db.executemany(
                "UPDATE archives SET state = ?, changed_at = ? WHERE archive_id = ?",
                [(state, now, archive_id) for archive_id in archive_ids],
            )

    def over(self, store_ids: Collection[int]) -> list[int]:
        """The archives, pruned ones too, that stand for any of these messages."""
        rows = self._db.query("SELECT archive_id, store_ids FROM archives ORDER BY archive_id")
        return [row[0] for row in rows if not set(json.loads(row[1])).isdisjoint(store_ids)]

    def blank(self, archive_ids: Sequence[int], text: str) -> None:
        """Other words for archives, for an operator who purges what they stand for."""
        with self._db.transaction():
            self._db.executemany(
                "UPDATE archives SET summary = ?, preview = '' WHERE archive_id = ?",
                [(text, archive_id) for archive_id in archive_ids],
            )

    def states(self, conversation_id: int) -> dict[str, int]:
        """How many a conversation has, by state. Only reads."""
        sql = "SELECT state, count(*) FROM archives WHERE conversation_id = ? AND state <> 'pruned' GROUP BY state"
        return {str(state): int(count) for state, count in self._db.query(sql, (conversation_id,))}

    def count(self) -> int:
        """All that were not pruned, in every conversation."""
        return int(self._db.query("SELECT count(*) FROM archives WHERE state <> 'pruned'")[0][0])


def _archive(row: Sequence[Any]) -> Archive:
    fields = list(row)
    fields[4], fields[9] = tuple(json.loads(row[4])), bool(row[9])
    return Archive(*fields)
