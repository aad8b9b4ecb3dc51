"""
Claims of processes: who works on a thing, so that no other process does.

Owns table ``leases``. A claim ends with its process, which is known by its number and by when it began: a number is given out
again. Of a process in another container neither can be looked up: a lock of the folder, which the system gives back, says that
it lives. The clock only ends the claims of processes on another machine; and it may go back.
"""

from __future__ import annotations

import os
import struct
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, Protocol

from .connection import Database

try:
    import fcntl
except ImportError:  # no such locks there
    fcntl = None  # type: ignore[assignment]

_FOR_GOOD_S: Final = 30 * 86_400.0
_PID_BITS: Final = 22
_LAST_PLACE: Final = (1 << 62) - 1
_LOCK: Final = "hhqqi4x"  # ``struct flock`` where a pointer has 8 bytes
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
        self._lives_here = (0, -1)  # process, and the folder that it has a lock of

    @property
    def _holder(self) -> str:
        return f"{_process()}|{id(self)}"

    def claim(self, name: str, seconds: float) -> bool:
        """Claim a thing, or go on claiming it, for so long; False while a process that lives has it."""
        now = self._clock()
        self._show_life()
        with self._db.transaction():
            for holder, until in self._db.fetch(
                "SELECT holder, CAST(expires_at AS REAL) FROM leases WHERE name = ?", (name,)
            ):
                if holder != self._holder and self._holds(holder, until, now, seconds):
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
    def join(self, name: str) -> None:
        """Be one of those that have a thing; those whose processes have ended are forgotten."""
        now = self._clock()
        self._show_life()
        with self._db.transaction():
            for each, holder, until in self._members(name, self._db.fetch):
                if not self._holds(holder, until, now, _FOR_GOOD_S):
                    self._db.execute("DELETE FROM leases WHERE name = ?", (each,))
            self._db.execute(
                "INSERT INTO leases(name, holder, expires_at) VALUES (?,?,?) ON CONFLICT(name) DO NOTHING",
                (f"{name}|{_process()}", self._holder, now + _FOR_GOOD_S),
            )

    def leave(self, name: str) -> None:
        """Be none of them any more."""
        with self._db.transaction():
            self._db.execute("DELETE FROM leases WHERE name = ?", (f"{name}|{_process()}",))

    def has_others(self, name: str) -> bool:
        """Is there another process among those that have it?"""
        now, me = self._clock(), _process()
        return any(
            not holder.startswith(f"{me}|") and self._holds(holder, until, now, _FOR_GOOD_S)
            for _, holder, until in self._members(name, self._db.query)
        )

    def _members(self, name: str, read: Callable[..., list[tuple[str, str, float]]]) -> list[tuple[str, str, float]]:
        span = (f"{name}|", f"{name}|\U0010ffff")
        return read("SELECT name, holder, CAST(expires_at AS REAL) FROM leases WHERE name >= ? AND name < ?", span)

    # -- who lives ------------------------------------------------------------------------------------------------
    def _holds(self, holder: str, until: float, now: float, seconds: float) -> bool:
        """Does a claim stand? One that ends later than any that is made now is of before the clock went back."""
        return now <= until <= now + seconds and self._lives(holder) is not False

    def _lives(self, holder: str) -> bool | None:
        """Does the process of a claim live? None: it cannot be looked up from here."""
        machine, _, rest = holder.partition("|")
        pid, _, rest = rest.partition("|")
        if os.name != "posix" or not pid.isdigit():
            return None
        if machine not in (_machine(), _host()):  # the release before named the host
            return self._is_seen(machine, int(pid))
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return False
        except (OSError, OverflowError):
            pass  # another user's: it lives
        return _began(int(pid)) == rest.partition("|")[0]

    def _show_life(self) -> None:
        """Have a lock of the folder that ends with this process; where there are none, the clock has to do."""
        if self._lives_here[0] != os.getpid() and (place := _place(_machine(), os.getpid())):
            with suppress(OSError):
                folder = os.open(self._db.path.parent, os.O_RDONLY)
                self._lives_here = os.getpid(), folder
                weakref.finalize(self, os.close, folder)
                fcntl.fcntl(folder, fcntl.F_OFD_SETLK, struct.pack(_LOCK, fcntl.F_RDLCK, os.SEEK_SET, place, 1, 0))

    def _is_seen(self, machine: str, pid: int) -> bool | None:
        """Has a process in another container of this machine its lock of the folder? None: on another machine."""
        place = _place(machine, pid)
        if not place or machine.partition(":")[0] != _machine().partition(":")[0]:
            return None
        try:
            folder = os.open(self._db.path.parent, os.O_RDONLY)
            try:
                asked = struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
                kind: int = struct.unpack(_LOCK, fcntl.fcntl(folder, fcntl.F_OFD_GETLK, asked))[0]
                return kind != fcntl.F_UNLCK
            finally:
                os.close(folder)
        except OSError:
            return None


def _process() -> str:
    return _named(os.getpid())


@cache
def _named(pid: int) -> str:
    return f"{_machine()}|{pid}|{_began(pid)}"


@cache
def _machine() -> str:
    """A name for where numbers of processes mean the same: a run of the system and, where it has them, a room of such numbers."""
    try:
        run = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{run}:{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return _host()


def _host() -> str:
    return os.uname().nodename.replace("|", "_") if hasattr(os, "uname") else ""


def _place(machine: str, pid: int) -> int:
    """The byte of the folder's lock that is this process's; 0 where there is none."""
    room = machine.rpartition(":")[2]
    known = hasattr(fcntl, "F_OFD_SETLK") and struct.calcsize("P") == 8 and room.isdigit()
    return (int(room) << _PID_BITS | pid) & _LAST_PLACE if known else 0


def _began(pid: int) -> str:
    """Begin of a process, in ticks since the machine's; "" where nothing tells, or of one that has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return "" if stat[0] in _ENDED else stat[19]
    except (OSError, IndexError):
        return ""
