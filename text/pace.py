"""
Pauses of a thread that reads long texts, so that others of its process go on meanwhile.

The interpreter runs one thread at a time, and one that computes keeps it for 5 ms. A thread that stores a message needs it some
twenty times while others wait for it to write.
"""

from __future__ import annotations

import threading
import time
from typing import Final

#: Seconds between two pauses of a thread. A pause takes 0.06 ms where nobody else wants to run.
_EVERY_S: Final = 0.002


class _Thread(threading.local):
    paused = 0.0


_THREAD: Final = _Thread()


def pause() -> None:
    """A pause of this thread, where its last one was some time ago."""
    if time.monotonic() - _THREAD.paused > _EVERY_S:
        time.sleep(0)
        _THREAD.paused = time.monotonic()
