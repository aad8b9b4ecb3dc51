"""
Rights of a call, and owners of conversations, from what the host says of an agent and of its session.

Pure. Unknown means nobody: the agent that calls decides (its platform and session key), narrowed to its own session wherever the
session's owner or the host's own row of the session says otherwise, and wherever the host does not say who is asking.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..records import Scope
from ..session import CLIENTS, LOCAL, Session, Sessions, principal_of, unclaimed

#: Platforms of the person at this machine. Jobs, workers and agents that the host makes for itself are none of them.
LOCAL_PLATFORMS: Final = frozenset({"cli", "tui", "acp"})


@dataclass(frozen=True, slots=True)
class HostRow:
    """A session as the host's own database has it. ``told``: this host keeps sources of sessions at all."""

    source: str = ""
    key: str = ""
    user: str = ""
    told: bool = False

    @classmethod
    def of(cls, row: object) -> HostRow | None:
        """The host's dict of a session; None where it has none."""
        if not isinstance(row, Mapping):
            return None
        said = {name: str(row.get(name) or "") for name in ("source", "session_key", "user_id")}
        return cls(said["source"].lower(), said["session_key"], said["user_id"], "source" in row)

    @property
    def local(self) -> bool:
        """Does nothing in the row speak against the person at this machine?"""
        return not (self.key or self.user) and (self.source in LOCAL_PLATFORMS or not self.told)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The agent that works in a session, as the host told of it. ``platform`` "": the host did not say.

    ``worker``: it works through a task of somebody else.
    """

    platform: str = ""
    key: str = ""
    row: HostRow | None = None
    worker: bool = False

    @property
    def source(self) -> str:
        """The platform of the session: the agent's, or the one of the host's row."""
        return self.platform or (self.row.source if self.row else "")

    @property
    def principal(self) -> str | None:
        """The principal of the agent itself; None: the host does not tell whom it works for."""
        if self.key:
            return principal_of(self.platform, self.key)
        return LOCAL if self.platform.lower() in LOCAL_PLATFORMS and not self.worker else None

    def owner(self) -> str | None:
        """Whom the session belongs to, where everything that the host says agrees; else None."""
        row, mine = self.row, self.principal
        if row is not None and row.key:
            theirs = principal_of(row.source, row.key)
            return theirs if mine in (theirs, None) and not self.worker else None
        if mine == LOCAL:
            return LOCAL if row is not None and row.local else None
        elsewhere = row is not None and row.told and row.source != self.platform.lower()
        return None if elsewhere else mine


@dataclass(frozen=True, slots=True)
class Rights:
    """What one call may read. ``principal`` None: everything, but for ``own`` (its session) and ``shown`` (its request)."""

    principal: str | None = None
    own: bool = False
    shown: bool = False

    @property
    def all(self) -> bool:
        """May it read every conversation?"""
        return self.principal is None and not self.own


#: The rights of an agent whose principal is not known.
OWN_SESSION: Final = Rights(own=True)
#: Those of a request in a session that several people may share.
OWN_REQUEST: Final = Rights(own=True, shown=True)


def rights(seen: Evidence, session: Session | None) -> Rights:
    """The rights of an agent in a session (None: nothing of it is stored yet)."""
    mine, owner = seen.principal, session.principal if session is not None else None
    agrees = owner is None or owner == mine
    shared = CLIENTS in (seen.platform.lower(), session.platform.lower() if session is not None else "")
    if mine is None or not agrees:
        # Handed over, or the id was used again: its list tells which.
        elsewhere = mine not in (None, LOCAL) and session is not None and contradicts(session, mine)
        return OWN_REQUEST if elsewhere or (shared and not (mine == LOCAL and not agrees)) else OWN_SESSION
    if mine == LOCAL:
        return Rights() if seen.row is not None and seen.row.local else OWN_SESSION
    row = seen.row
    if row is not None and row.key and principal_of(row.source, row.key) != mine:
        return OWN_SESSION
    return Rights(mine)


def claims(session: Session, owner: str | None) -> bool:
    """May this owner have a session that nobody could be shown to own so far?"""
    return owner is not None and unclaimed(session) and (owner != LOCAL or session.platform.lower() in LOCAL_PLATFORMS)


def contradicts(session: Session, owner: str | None) -> bool:
    """Does positive evidence name another owner than earlier evidence did?"""
    return owner is not None and owner != session.principal and not unclaimed(session)


def own_scope(sessions: Sessions, conversation_id: int) -> Scope:
    """A conversation and what it inherits, of every speaker: a branch knows nothing of what its parents say later."""
    lineage = sessions.lineage(conversation_id)
    cuts = tuple((conversation, cut.seq, cut.pos) for conversation, cut in lineage if cut is not None)
    gone = sessions.taken_back(conversation_id) if cuts else None
    return Scope(None, tuple(c for c, _ in lineage), cuts=cuts, without=tuple(sorted(gone)) if gone else ())
