"""
Conversations that were claimed by a guess: the host's own rows of their sessions name another owner than ours.

Earlier versions took an agent without a chat for the terminal's. Owns nothing: reads the host's database, and gives conversations
to their owners through ``session``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...errors import LcmError
from ...session import LOCAL, Session, principal_of
from ...storage.foreign import HOST, Foreign
from ..findings import Finding, ok, warn
from ..render import counted

if TYPE_CHECKING:
    from ...recall.access import Access

FILE: Final = "state.db"
_CHATS: Final = "SELECT * FROM sessions WHERE session_key IS NOT NULL AND session_key <> ''"


@dataclass(frozen=True, slots=True)
class Guess:
    """A conversation of the terminal that is a chat's, as the host has it."""

    session: Session
    owner: str

    def __str__(self) -> str:
        return f"{self.session.session_id}: {self.session.principal}, and the host says {self.owner}"


def guesses(deps: Access) -> tuple[Guess, ...]:
    """Conversations of the terminal whose sessions are one chat's. What was handed over to a chat stays the terminal's."""
    rows = _chats(deps)
    ours = deps.sessions.recent(principal=LOCAL, limit=-1) if rows else []
    owners: defaultdict[int, set[str]] = defaultdict(set)
    for each in ours:
        if (row := rows.get(each.session_id)) is not None:
            owners[each.conversation_id].add(principal_of(str(row.get("source") or ""), str(row["session_key"])))
    found = {
        each.conversation_id: Guess(each, *owner) for each in ours if len(owner := owners[each.conversation_id]) == 1
    }
    known: dict[str, str] = {guess.session.session_id: guess.owner for guess in found.values()}
    for each in reversed(ours):  # oldest first: what a chat delegated is the chat's
        asker = known.get(each.parent_session_id or "") if each.origin == "subagent" else None
        if asker and each.conversation_id not in found:
            found[each.conversation_id], known[each.session_id] = Guess(each, asker), asker
    return tuple(found.values())


def _chats(deps: Access) -> dict[str, Mapping[str, Any]]:
    """The host's sessions of chats by id, but for those that were handed over; none where its database cannot be read."""
    path = deps.home / FILE
    if not path.is_file():
        return {}
    try:
        with Foreign(path, shared=True) as source:
            if source.kind.name != HOST or "session_key" not in source.columns("sessions"):
                return {}
            return {str(row["id"]): row for row in source.rows(_CHATS) if not row.get("handoff_state")}
    except LcmError:
        return {}


def give(deps: Access, found: tuple[Guess, ...]) -> None:
    """Give conversations to their owners, as one fact; what was carried into them from others is carried no longer."""
    with deps.db.transaction():
        for guess in found:
            deps.sessions.claim(guess.session, guess.owner)
            deps.sessions.uncarry(guess.session.conversation_id, guess.owner)


def owners(deps: Access, _deep: bool) -> Finding:
    """Does every conversation belong to whom the host says?"""
    found = guesses(deps)
    if not found:
        return ok("no conversation of the terminal is a chat's")
    return warn(
        f"{counted(len(found), 'conversation')} of the terminal that the host says are chats'",
        meaning="an earlier version took the host's own agents for the terminal's; their users see these sessions only",
        remedy="give them to their owners; the dry run names them",
        command="/lcm doctor repair",
        sessions=[{"session_id": each.session.session_id, "owner": each.owner} for each in found[:20]],
    )
