"""
Lock that serves threads in the order in which they came.

Python's own lock goes to whoever asks at the right moment: of thirty chats that store all the time, one may wait for seconds
while others have ten turns.
"""

from __future__ import annotations

import threading
from collections import deque


class TurnLock:
    """A lock that its owner may take again; whoever waits longest has it next."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[tuple[int, threading.Lock]] = deque()
        self._owner = 0
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it; False where it is not to be had (in time)."""
        me = threading.get_ident()
        with self._guard:
            if self._owner in (0, me):
                self._owner = me
                self._depth += 1
                return True
            if not blocking:
                return False
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append((me, turn))
        try:
            got = turn.acquire(timeout=timeout)
        except BaseException:  # an interrupt: nobody hands it to a thread that is gone
            self._gives_up(me, turn)
            raise
        return got or not self._gives_up(me, turn, keep=True)

    def _gives_up(self, me: int, turn: threading.Lock, *, keep: bool = False) -> bool:
        """Wait no longer; False where it was handed over meanwhile, and is ``keep``-t or released."""
        with self._guard:
            if (me, turn) in self._waiting:
                self._waiting.remove((me, turn))
                return True
        if not keep:
            self.release()
        return False

    def release(self) -> None:
        """Give it back: to the thread that waits longest."""
        with self._guard:
            if self._owner != threading.get_ident():
                raise RuntimeError("a lock is released by the thread that has it")
            self._depth -= 1
            if self._depth:
                return
            if self._waiting:
                self._owner, turn = self._waiting.popleft()
                self._depth = 1
                turn.release()
            else:
                self._owner = 0

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
