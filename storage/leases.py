"""
Claims of processes: who works on a thing, so that no other process does.

Owns table ``leases``. A claim ends with its process, which is known by its number and by when it began: a number is given out
again. The clock only ends the claims of processes that cannot be looked up, on another machine or in another container; and it
may go back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, Protocol

from .connection import Database

#: Ends the claims to write to the sessions of a conversation.
FORGET_SESSIONS: Final = (
    "DELETE FROM leases WHERE EXISTS (SELECT 1 FROM sessions WHERE conversation_id = ? AND "
    "substr(name, 1, length(session_id) + 9) = 'session:' || session_id || '|')"
)
_FOR_GOOD_S: Final = 30 * 86_400.0
_ENDED: Final = frozenset("ZX")  # states of a process of which only the number is left


class Claims(Protocol):
    """Claims that are taken and given back: of one database, or of many."""

    def claim(self, name: str, seconds: float) -> bool:
        """Claim a thing for so long; False while somebody else has it."""

    def release(self, name: str) -> None:
        """Give a claim back."""


class Leases:
    """The claims in one database, as one of its users sees them."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock

    @property
    def _holder(self) -> str:
        return f"{_process()}|{id(self)}"

    def claim(self, name: str, seconds: float) -> bool:
        """Claim a thing, or go on claiming it, for so long; False while a process that lives has it."""
        now = self._clock()
        with self._db.transaction():
            for holder, until in self._db.fetch(
                "SELECT holder, CAST(expires_at AS REAL) FROM leases WHERE name = ?", (name,)
            ):
                if holder != self._holder and _holds(holder, until, now, seconds):
                    return False
            self._db.execute(
                "INSERT INTO leases(name, holder, expires_at) VALUES (?,?,?) "
                "ON CONFLICT(name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at",
                (name, self._holder, now + seconds),
            )
        return True

    def release(self, name: str) -> None:
        """Give a claim back."""
        with self._db.transaction():
            self._db.execute("DELETE FROM leases WHERE name = ? AND holder = ?", (name, self._holder))

    # -- things that several processes may have at a time -------------------------------------------------------
    def join(self, name: str, seconds: float = _FOR_GOOD_S) -> None:
        """Be one of those that have a thing; those whose processes have ended are forgotten.

        ``seconds``: so long it counts where nobody can look whether this process lives.
        """
        now = self._clock()
        with self._db.transaction():
            for each, holder, until in self._members(name, self._db.fetch):
                if not _has(holder, until, now):
                    self._db.execute("DELETE FROM leases WHERE name = ?", (each,))
            self._db.execute(
                "INSERT INTO leases(name, holder, expires_at) VALUES (?,?,?) ON CONFLICT(name) DO NOTHING",
                (f"{name}|{_process()}", self._holder, now + seconds),
            )

    def leave(self, name: str) -> None:
        """Be none of them any more."""
        with self._db.transaction():
            self._db.execute("DELETE FROM leases WHERE name = ?", (f"{name}|{_process()}",))

    def has_others(self, name: str) -> bool:
        """Is there another process among those that have it?"""
        return any(not holder.startswith(f"{_process()}|") for holder in self._living(name))

    def has_any(self, name: str) -> bool:
        """Is there a process, this one or another, among those that have it?"""
        return any(True for _ in self._living(name))

    def _living(self, name: str) -> Iterator[str]:
        now = self._clock()
        for _, holder, until in self._members(name, self._db.query):
            if _has(holder, until, now):
                yield holder

    def _members(self, name: str, read: Callable[..., list[tuple[str, str, float]]]) -> list[tuple[str, str, float]]:
        span = (f"{name}|", f"{name}|\U0010ffff")
        return read("SELECT name, holder, CAST(expires_at AS REAL) FROM leases WHERE name >= ? AND name < ?", span)


def _holds(holder: str, until: float, now: float, seconds: float) -> bool:
    """Does a claim stand? One that ends later than any that is made now is of before the clock went back."""
    return now <= until <= now + seconds and _lives(holder) is not False


def _has(holder: str, until: float, now: float) -> bool:
    """Has a process a thing still? Only of one that cannot be looked up the clock decides: it may go back meanwhile."""
    lives = _lives(holder)
    return now <= until <= now + _FOR_GOOD_S if lives is None else lives


def _process() -> str:
    return _named(os.getpid())


@cache
def _named(pid: int) -> str:
    return f"{_machine()}|{pid}|{_began(pid)}"


@cache
def _host() -> str:
    return os.uname().nodename.replace("|", "_") if hasattr(os, "uname") else ""


@cache
def _machine() -> str:
    """Name of the host and its PID namespace: two containers may bear one name, and each counts its own processes."""
    try:
        return f"{_host()}:{Path('/proc/self/ns/pid').readlink()}".replace("|", "_")
    except OSError:
        return _host()


def _lives(holder: str) -> bool | None:
    """Does the process of a claim live? None: it cannot be looked up from here."""
    machine, _, rest = holder.partition("|")
    pid, _, rest = rest.partition("|")
    if machine not in (_machine(), _host()) or os.name != "posix" or not pid.isdigit():
        return None  # (an earlier release named only the host)
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass  # another user's: it lives
    return _began(int(pid)) == rest.partition("|")[0]


def _began(pid: int) -> str:
    """Begin of a process, in ticks since the machine's; "" where nothing tells, or of one that has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return "" if stat[0] in _ENDED else stat[19]
    except (OSError, IndexError):
        return ""
