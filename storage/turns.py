"""
Order in which the threads of a process write to one file: messages first, then everything else, each as it came.

The interpreter's locks keep no order: beside thirty chats one thread was overtaken by a hundred others. This order is advice
beside the lock. A thread that is not called in time goes on, so nothing hangs on a thread that has ended.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Seconds after which a thread goes on without being called: longer than ordinary waits, shorter than what looks like a hang.
CALLED_S: Final = 2.0


class Turns:
    """The threads that wait to write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.taken = False  # does anybody write?
        self._waiting: tuple[deque[threading.Lock], deque[threading.Lock]] = deque(), deque()  # messages, others

    @contextmanager
    def turn(self, *, first: bool = False) -> Iterator[None]:
        """A turn of this thread; ``first``: before all that store no messages."""
        mine = self._asked(first)
        called = mine is None
        try:
            if mine is not None:
                called = mine.acquire(timeout=CALLED_S)
            yield
        finally:
            self._over(None if called else mine)

    def _asked(self, first: bool) -> threading.Lock | None:
        """A lock that is released when this thread is called; None where nobody else has the turn."""
        with self._lock:
            if not self.taken:
                self.taken = True
                return None
            mine = threading.Lock()
            mine.acquire()
            self._waiting[not first].append(mine)
            return mine

    def _over(self, uncalled: threading.Lock | None) -> None:
        """Call the next one. ``uncalled``: the place in the queue of a thread that has waited long enough."""
        with self._lock:
            for queue in self._waiting:
                if uncalled is not None and uncalled in queue:
                    queue.remove(uncalled)
            for queue in self._waiting:
                if queue:
                    queue.popleft().release()
                    return
            self.taken = False
