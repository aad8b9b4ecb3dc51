"""
Sessions (the host's ids), conversations (trains of thought) and principals (whom a conversation belongs to).

Owns tables ``conversations``, ``sessions`` and ``carried``, and ``inherits:`` among the small facts. Nothing here deletes: an
ended session is a session with an end.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .storage.connection import Database
from .storage.meta import Meta

#: Who sits at the terminal: sees everything.
LOCAL = "local"
#: The platform of clients of the API server. Several people may share one of its sessions.
CLIENTS = "api_server"
_LOCAL_PLATFORMS = frozenset({"cli", "tui", "acp", "local"})
_ALONE = "session:"
_COLUMNS = (
    "s.session_id, s.conversation_id, s.parent_session_id, s.origin, s.platform, s.host_key, s.principal, s.mode, s.model, "
    "s.started_at, s.ended_at, s.end_reason, s.compactions, c.nonce, c.parent_id, c.fork_seq, "
    f"substr(s.principal, 1, {len(_ALONE)}) = '{_ALONE}'"
)
#: SQL, with one parameter: the number by which messages name a session. Of an unknown session nothing is stored.
KEY_OF = "(SELECT session_key FROM sessions WHERE session_id = {})"
#: SQL: the id of a session whose own was lost with its row, from the number that its messages name; a repair gives it the same.
LOST_ID = "'recovered-session-' || {}.session_key"
#: SQL: the id of the session of a row of ``messages`` (by its alias).
ID_OF = f"coalesce((SELECT session_id FROM sessions WHERE sessions.session_key = {{0}}.session_key), {LOST_ID.format('{0}')})"
_ALSO = "nonce:{}"  # a nonce that a conversation had in another file
INHERITS = "inherits:{}"  # of a branch that has begun: [conversation, seq, pos] of every ancestor, rows it does without


def inherited_as(
    known: Mapping[str, Any], conversation: Callable[[Any], object], row: Callable[[int], object]
) -> dict[str, Any]:
    """Facts of ``INHERITS`` with other names for conversations and rows: of another file, or of a fleet."""
    cuts = {key: [[conversation(c), *rest] for c, *rest in known[key]] for key in ("cuts", "full") if key in known}
    return cuts | {key: [row(n) for n in known[key]] for key in ("without", "gone") if key in known}


@dataclass(frozen=True, slots=True)
class Session:
    """A host session and the conversation it belongs to."""

    session_id: str
    conversation_id: int
    parent_session_id: str | None
    origin: str  # start, rotation, branch, subagent
    platform: str
    host_key: str
    principal: str
    mode: str  # full, stateless, ignored
    model: str
    started_at: float
    ended_at: float | None
    end_reason: str | None
    compactions: int
    nonce: str
    parent_id: int | None
    fork_seq: int | None
    unclaimed: bool  # nobody is known to own it


class Cut(NamedTuple):
    """The part of an ancestor that a branch inherits: rows up to a sequence number that stand no further than a position."""

    seq: int = 2**62
    pos: float = math.inf

    def within(self, other: Cut) -> Cut:
        """The rest of both."""
        return Cut(min(self.seq, other.seq), min(self.pos, other.pos))


class Segment(NamedTuple):
    """Rows of one conversation up to ``cut`` (None: all). A branch is its parents' segments and its own."""

    conversation_id: int
    cut: Cut | None = None

    @property
    def end(self) -> Cut:
        """The last row that counts."""
        return self.cut or Cut()

    def within(self, end: Cut) -> Segment:
        """The same, up to another end at most."""
        return Segment(self.conversation_id, self.end.within(end))


def principal_of(platform: str, host_key: str | None, session_id: str = "") -> str:
    """Principal of a new session. A gateway names its chat in the session key; without one a session is alone.

    Clients of the API server choose their key: no choice makes them the terminal's user or a chat of another platform.
    """
    if host_key and platform.lower() == CLIENTS:
        return f"{CLIENTS}:{host_key}"
    if host_key:
        parts = host_key.split(":")
        chat = ":".join(parts[2:]) if parts[0] == "agent" and len(parts) > 2 else host_key
        # No key is one of the names that are given here; one that no gateway made is not the name of a gateway's chat.
        if chat == LOCAL or is_alone(chat) or (chat == host_key and ":" in chat):
            return f"key:{host_key}"
        # The second part is the profile: the host keeps two that serve one chat apart.
        return f"{parts[1]}/{chat}" if chat != host_key and parts[1] != "main" else chat
    return LOCAL if platform.lower() in _LOCAL_PLATFORMS else alone(session_id)


def alone(session_id: str) -> str:
    """The principal of a session of which nobody could be shown to be the owner."""
    return f"{_ALONE}{session_id}"


def is_alone(principal: str) -> bool:
    """Is it the principal of a session of which nobody could be shown to be the owner?"""
    return principal.startswith(_ALONE)


class Sessions:
    """The sessions of one database."""

    def __init__(self, db: Database, clean: Callable[[str], str] = str, named: Callable[[str], str] = str) -> None:
        """``clean`` takes secrets out of a text, ``named`` out of the ids under which sessions are stored: no two become one."""
        self._db = db
        self._clean, self._named = clean, named
        self._meta = Meta(db)
        #: (chat, thread) of a session, as the host's own row of it has them.
        self.chat_of: Callable[[Session], tuple[str, str]] = lambda _: ("", "")

    def find(self, session_id: str) -> Session | None:
        """A session that is known, or None."""
        named = self._named(session_id)
        if any("\ud800" <= char <= "\udfff" for char in named):  # typed by mistake; no database holds such a name
            return None
        return self._found(self._db.query, named)

    @staticmethod
    def _found(read: Callable[..., list[tuple[Any, ...]]], session_id: str) -> Session | None:
        rows = read(
            f"SELECT {_COLUMNS} FROM sessions s JOIN conversations c USING(conversation_id) WHERE s.session_id = ?",
            (session_id,),
        )
        return Session(*rows[0]) if rows else None

    def of_several(self, session: Session) -> bool:
        """Do several people talk in it? The host's key then names the chat, and perhaps its thread, and nobody in it."""
        kind, _, ids = ":".join(session.host_key.split(":")[3:]).partition(":")
        if kind == "dm" or not ids:
            return False
        chat, thread = self.chat_of(session) if ":" in ids else (ids, "")
        return ids in (chat, f"{chat}:{thread}" if thread else chat)

    def open(
        self,
        session_id: str,
        *,
        now: float,
        platform: str = "",
        host_key: str | None = None,
        parent: Session | None = None,
        origin: str = "start",
        fork_seq: int | None = None,
        mode: str = "full",
        model: str = "",
        principal: str | None = None,
    ) -> Session:
        """The session, made if it is new. ``principal``: whose it is, if not the parent's or what platform and key say.

        ``origin`` "rotation" continues the parent's conversation; "branch" starts one that inherits the parent's messages up to
        ``fork_seq``; "subagent" starts one of its own.
        """
        mine, session_id = alone(session_id), self._named(session_id)
        principal = alone(session_id) if principal == mine else principal
        with self._db.transaction():
            known = self._found(self._db.fetch, session_id)  # another thread or process may have been faster
            if known is not None:
                return known
            principal = principal or (parent.principal if parent else principal_of(platform, host_key, session_id))
            if parent is not None and origin == "rotation":
                conversation_id, principal = parent.conversation_id, parent.principal  # it has one owner
            else:
                conversation_id = self._db.execute(
                    "INSERT INTO conversations(parent_id, fork_seq, principal, nonce, created_at) VALUES (?,?,?,?,?)",
                    (
                        parent.conversation_id if parent and origin == "branch" else None,
                        fork_seq if origin == "branch" else None,
                        principal,
                        secrets.token_hex(8),
                        now,
                    ),
                )
            self._db.execute(
                "INSERT INTO sessions(session_id, conversation_id, parent_session_id, origin, platform, host_key, principal, "
                "mode, model, started_at) VALUES (?,?,?,?,?,?,?,?,?,?)",
                (
                    session_id, conversation_id, parent.session_id if parent else None, origin, platform, host_key or "",
                    principal, mode, model, now,
                ),
            )  # fmt: skip
            made = self._found(self._db.fetch, session_id)
            assert made is not None
            return made

    def take_nonce(self, session: Session, nonce: str) -> Session:
        """A conversation that was just made keeps the nonce that it has in another file, unless somebody has it here."""
        if self.nonce_owner(nonce) is not None:
            return session
        with self._db.transaction():
            self._db.execute(
                "UPDATE conversations SET nonce = ? WHERE conversation_id = ?", (nonce, session.conversation_id)
            )
        return replace(session, nonce=nonce)

    def adopt(self, child: str, parent: str) -> None:
        """A sub-agent's session belongs to its parent's principal."""
        child, parent = self._named(child), self._named(parent)
        with self._db.transaction():
            self._db.execute(
                "UPDATE sessions SET parent_session_id = :parent, origin = 'subagent', "
                "principal = coalesce((SELECT principal FROM sessions WHERE session_id = :parent), principal) "
                "WHERE session_id = :child",
                {"child": child, "parent": parent},
            )
            self._db.execute(
                "UPDATE conversations SET principal = (SELECT principal FROM sessions WHERE session_id = :child) "
                "WHERE conversation_id = (SELECT conversation_id FROM sessions WHERE session_id = :child)",
                {"child": child},
            )

    def claim(self, session: Session, principal: str, *, platform: str = "", host_key: str | None = None) -> None:
        """The conversation of a session, all its sessions and what its sub-agents did belong to a principal from now on.

        ``platform`` and ``host_key``: of the session, where they were not known when it began.
        """
        with self._db.transaction():
            self._db.execute(
                "UPDATE sessions SET platform = coalesce(nullif(platform, ''), ?), host_key = coalesce(nullif(host_key, ''), ?) "
                "WHERE session_id = ?",
                (platform, host_key or "", session.session_id),
            )
            nobody = session.principal if session.unclaimed else alone(session.session_id)
            for table in ("conversations", "sessions"):
                self._db.execute(
                    f"UPDATE {table} SET principal = :principal WHERE conversation_id = :conversation OR conversation_id IN "
                    "(SELECT conversation_id FROM sessions WHERE origin = 'subagent' AND principal = :nobody)",
                    {"principal": principal, "conversation": session.conversation_id, "nobody": nobody},
                )

    def uncarry(self, conversation_id: int, principal: str) -> None:
        """Let a conversation show no nodes of other principals that were carried into it."""
        with self._db.transaction():
            self._db.execute(
                "DELETE FROM carried WHERE conversation_id = ? AND node_id NOT IN (SELECT node_id FROM nodes n "
                "JOIN conversations c USING(conversation_id) WHERE c.principal = ?)",
                (conversation_id, principal),
            )

    def shares(self, session: Session) -> bool:
        """Does a conversation inherit messages of another principal?"""
        ancestors = [each for each, _ in self.ancestry(session.conversation_id)[:-1]]
        if not ancestors:
            return False
        sql = "SELECT 1 FROM conversations WHERE conversation_id IN (SELECT value FROM json_each(?)) AND principal <> ? LIMIT 1"
        return self._db.query_one(sql, (json.dumps(ancestors), session.principal)) is not None

    def fork_at(self, conversation_id: int, cut: Cut, without: Collection[int] = ()) -> None:
        """A branch begins: it inherits what its parent shows up to ``cut``, but for rows taken back by then (``without``).

        Noted for every ancestor, so that nothing that they take back later changes the branch.
        """
        with self._db.transaction():
            before = self.ancestry(conversation_id)[:-1]
            known = self._meta.value(INHERITS.format(conversation_id)) or {}
            full = known.get("full") or [(c, *(end or Cut())) for c, end in before]
            # Its own rows count on from all that it ever inherited: taken back and shown again, that keeps its place.
            self._db.execute(
                "UPDATE conversations SET fork_seq = max(coalesce(fork_seq, 0), ?) WHERE conversation_id = ?",
                (cut.seq, conversation_id),
            )
            cuts = [(c, *(end or cut).within(cut)) for c, end in before]
            gone = known.get("gone") or sorted(without)
            self._meta.note(
                INHERITS.format(conversation_id),
                {"cuts": cuts, "without": sorted(without), "full": full, "gone": gone},
            )

    def inherit_before(self, conversation_id: int, pos: float) -> None:
        """A branch takes back what it inherited from a position on. Not a matter of sequence numbers: rows that the host edited
        or inserted before that position may be among the newest."""
        cut = Cut(pos=math.nextafter(pos, -math.inf))
        with self._db.transaction():
            known = self._meta.value(INHERITS.format(conversation_id)) or {"without": []}
            before = self.ancestry(conversation_id)[:-1]
            cuts = [(c, *(end or cut).within(cut)) for c, end in before]
            full = known.get("full") or [(c, *(end or Cut())) for c, end in before]
            gone = known.get("gone", known["without"])
            self._meta.note(
                INHERITS.format(conversation_id),
                {"cuts": cuts, "without": known["without"], "full": full, "gone": gone},
            )

    def once_inherited(self, conversation_id: int) -> tuple[list[Segment], frozenset[int]]:
        """Segments that a branch inherited when it began, and rows gone by then; nothing if it has taken nothing back."""
        known = self._meta.value(INHERITS.format(conversation_id)) or {}
        return [Segment(c, Cut(seq, pos)) for c, seq, pos in known.get("full", ())], frozenset(known.get("gone", ()))

    def inherit_again(
        self, conversation_id: int, until: float, *, shown: Collection[int], without: Collection[int]
    ) -> None:
        """A branch shows again what it had taken back, up to a position, but for the rows ``without``."""
        with self._db.transaction():
            known = self._meta.value(INHERITS.format(conversation_id))
            now = {c: Cut(seq, pos) for c, seq, pos in known["cuts"]}
            # Up to the position, and never less than what is inherited anyway.
            cuts = [(c, seq, min(pos, max(until, now[c].pos if c in now else until))) for c, seq, pos in known["full"]]
            gone = sorted({*known["without"], *without}.difference(shown))
            self._meta.note(INHERITS.format(conversation_id), {**known, "cuts": cuts, "without": gone})

    def respaced(self, conversation_id: int, whole: int, places: Mapping[float, float]) -> None:
        """Positions of a conversation behind ``whole`` were respaced: branches that end between them end there still."""

        def moved(cut: list[Any]) -> list[Any]:
            c, seq, pos = cut
            if c != conversation_id or not whole < pos < whole + 1:
                return cut
            last = max((old for old in places if old <= pos), default=None)
            return [c, seq, places[last] if last is not None else float(whole)]

        with self._db.transaction():
            for name, known in self._meta.with_prefix(INHERITS.format("")).items():
                ends = {key: [moved(list(cut)) for cut in known[key]] for key in ("cuts", "full") if key in known}
                if any(list(map(list, known[key])) != cuts for key, cuts in ends.items()):
                    self._meta.note(INHERITS.format(name), {**known, **ends})

    def branches_of(self, conversation_id: int) -> dict[int, Cut]:
        """Cuts of the branches of a conversation that have begun: how much of it each inherits."""
        found = self._meta.with_prefix(INHERITS.format(""))
        return {
            int(name): Cut(*end)
            for name, known in found.items() for c, *end in known["cuts"] if c == conversation_id
        }  # fmt: skip

    def may_inherit(self, conversation_id: int, seq: int) -> None:
        """Rows up to a number came into a conversation: branches that have nothing of their own yet may begin behind them."""
        with self._db.transaction():
            self._db.execute(
                "UPDATE conversations SET fork_seq = :seq WHERE parent_id = :parent AND fork_seq < :seq AND NOT EXISTS "
                "(SELECT 1 FROM messages WHERE messages.conversation_id = conversations.conversation_id)",
                {"seq": seq, "parent": conversation_id},
            )

    def inherit_older(self, branch: int, conversation_id: int, cut: Cut, *, but: Collection[int]) -> None:
        """Older rows came into a conversation: a branch inherits what lies before ``cut``, ``but`` some."""
        with self._db.transaction():
            known = self._meta.value(INHERITS.format(branch))
            ends = {
                key: [[c, max(seq, cut.seq), max(pos, cut.pos)] if c == conversation_id else [c, seq, pos]
                      for c, seq, pos in known[key]]
                for key in ("cuts", "full") if key in known
            }  # fmt: skip
            gone = {key: sorted({*known[key], *but}) for key in ("without", "gone") if key in known}
            self._meta.note(INHERITS.format(branch), {**known, **ends, **gone})

    def does_without(self, branch: int, rows: Collection[int]) -> None:
        """A branch has taken back some of what it inherited; they may come back."""
        with self._db.transaction():
            known = self._meta.value(INHERITS.format(branch)) if rows else None
            if known:
                note = {"gone": known["without"], **known, "without": sorted({*known["without"], *rows})}
                self._meta.note(INHERITS.format(branch), note)

    def taken_back(self, conversation_id: int) -> frozenset[int] | None:
        """Inherited rows that were taken back before the branch began; None if it has not begun (or is none)."""
        known = self._meta.value(INHERITS.format(conversation_id))
        return frozenset(known["without"]) if known else None

    def end(self, session_id: str, *, now: float, reason: str) -> None:
        """Note that the host ended a session. Nothing else changes."""
        with self._db.transaction():
            self._db.execute(
                "UPDATE sessions SET ended_at = ?, end_reason = ? WHERE session_id = ?",
                (now, self._clean(reason), self._named(session_id)),
            )

    def compacted(self, session_id: str) -> None:
        """Count one compaction that the host took over."""
        with self._db.transaction():
            self._db.execute(
                "UPDATE sessions SET compactions = compactions + 1 WHERE session_id = ?", (self._named(session_id),)
            )

    def compacted_before(self, session_id: str, count: int) -> None:
        """Raise the count of compactions to that of another record of the session; what two records count is not added up."""
        with self._db.transaction():
            self._db.execute(
                "UPDATE sessions SET compactions = max(compactions, ?) WHERE session_id = ?",
                (count, self._named(session_id)),
            )

    def carry(self, conversation_id: int, node_ids: Sequence[int]) -> None:
        """Let a conversation show nodes of the one before it: a reference, never a move."""
        with self._db.transaction():
            self._db.executemany(
                "INSERT INTO carried(conversation_id, node_id) VALUES (?,?) ON CONFLICT DO NOTHING",
                [(conversation_id, node_id) for node_id in node_ids],
            )

    def carried(self, conversation_id: int) -> list[int]:
        """The nodes carried into a conversation."""
        rows = self._db.query(
            "SELECT node_id FROM carried WHERE conversation_id = ? ORDER BY node_id", (conversation_id,)
        )
        return [row[0] for row in rows]

    def nonce_owner(self, nonce: str) -> int | None:
        """The conversation whose nonce this is, or None."""
        row = self._db.query_one("SELECT conversation_id FROM conversations WHERE nonce = ?", (nonce,))
        return int(row[0]) if row else self._meta.value(_ALSO.format(nonce))

    def also_known(self, nonce: str, conversation_id: int) -> None:
        """A conversation that had another nonce in another file: lists that bear it are lists of this one."""
        if self.nonce_owner(nonce) != conversation_id:
            self._meta.note(_ALSO.format(nonce), conversation_id)

    def other_nonces(self) -> dict[str, int]:
        """Nonces that conversations had in other files."""
        return self._meta.with_prefix(_ALSO.format(""))

    def ancestry(self, conversation_id: int) -> list[Segment]:
        """Segments of a conversation, from its oldest ancestor to itself."""
        known = self._meta.value(INHERITS.format(conversation_id))
        if known:
            return [*(Segment(c, Cut(seq, pos)) for c, seq, pos in known["cuts"]), Segment(conversation_id)]
        row = self._db.query_one(
            "SELECT parent_id, fork_seq FROM conversations WHERE conversation_id = ?", (conversation_id,)
        )
        if row is None or row[0] is None or row[0] >= conversation_id:  # a parent is older than its branch: no circles
            return [Segment(conversation_id)]
        cut = Cut() if row[1] is None else Cut(row[1])
        return [*(Segment(c, end or cut) for c, end in self.ancestry(row[0])), Segment(conversation_id)]

    def of_conversation(self, conversation_id: int) -> list[Session]:
        """All sessions of a conversation, oldest first."""
        rows = self._db.query(
            f"SELECT {_COLUMNS} FROM sessions s JOIN conversations c USING(conversation_id) "
            "WHERE s.conversation_id = ? ORDER BY s.started_at, s.session_id",
            (conversation_id,),
        )
        return [Session(*row) for row in rows]

    def children(self, session_ids: Sequence[str]) -> list[Session]:
        """The sessions of sub-agents that began in one of these sessions, oldest first."""
        rows = self._db.query(
            f"SELECT {_COLUMNS} FROM sessions s JOIN conversations c USING(conversation_id) WHERE s.origin = 'subagent' "
            "AND s.parent_session_id IN (SELECT value FROM json_each(?)) ORDER BY s.started_at, s.session_key",
            (json.dumps(list(session_ids)),),
        )
        return [Session(*row) for row in rows]

    def recent(self, *, principal: str | None, limit: int, conversations: Sequence[int] | None = None) -> list[Session]:
        """Sessions of a principal (None: all), perhaps only of these conversations, newest first."""
        rows = self._db.query(
            f"SELECT {_COLUMNS} FROM sessions s JOIN conversations c USING(conversation_id) "
            "WHERE (:principal IS NULL OR c.principal = :principal) "
            "AND (:among IS NULL OR c.conversation_id IN (SELECT value FROM json_each(:among))) "
            "ORDER BY s.started_at DESC, s.session_id LIMIT :limit",
            {
                "principal": principal,
                "among": json.dumps(list(conversations)) if conversations is not None else None,
                "limit": limit,
            },
        )
        return [Session(*row) for row in rows]
