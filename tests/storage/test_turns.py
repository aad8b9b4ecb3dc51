"""The lock of a database serves threads in the order in which they came."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from worlds.process import PATIENCE_S

from hermes_lcm.storage.turns import TurnLock


def started(does: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=does, daemon=True)
    thread.start()
    return thread


def in_line(lock: TurnLock, count: int) -> None:
    """Until so many threads wait."""
    end = time.monotonic() + PATIENCE_S
    while len(lock._waiting) < count and time.monotonic() < end:
        time.sleep(0.001)


def test_whoever_waits_longest_has_it_next() -> None:
    """Also before the thread that has it asks again: chats that store all the time keep none waiting."""
    lock, order = TurnLock(), list[object]()

    def waits(name: int) -> None:
        with lock:
            order.append(name)

    lock.acquire()
    threads = []
    for n in range(5):
        threads.append(started(lambda n=n: waits(n)))  # type: ignore[misc]
        in_line(lock, n + 1)
    lock.release()
    with lock:
        order.append("the first again")
    for thread in threads:
        thread.join(PATIENCE_S)

    assert order == [0, 1, 2, 3, 4, "the first again"]


def test_its_owner_takes_it_again_and_gives_it_back_as_often() -> None:
    lock, others = TurnLock(), list[bool]()

    def tries() -> None:
        others.append(lock.acquire(blocking=False))

    with lock:
        with lock:
            pass
        started(tries).join(PATIENCE_S)

    assert (others, lock.acquire(blocking=False)) == ([False], True)


def test_who_waits_in_vain_is_passed_over() -> None:
    """A wait that was given up leaves nothing behind."""
    lock, got = TurnLock(), list[bool]()
    with lock:
        started(lambda: got.append(lock.acquire(timeout=0.01))).join(PATIENCE_S)
    with lock:
        got.append(True)

    assert (got, [*lock._waiting]) == ([False, True], [])
