"""The order in which the threads of a process write."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_lcm.storage import connection
from hermes_lcm.storage.connection import Database, Turns


def _asks(order: Turns, done: list[str], name: str, *, first: bool = False) -> threading.Thread:
    """A thread that waits in the queue; it is there when this returns."""

    def work() -> None:
        with order.turn(first=first):
            done.append(name)

    before = sum(map(len, order._waiting))
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    _until(lambda: sum(map(len, order._waiting)) > before)
    return thread


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_threads_have_their_turn_in_the_order_in_which_they_asked() -> None:
    order, done = Turns(), list[str]()
    with order.turn():
        threads = [_asks(order, done, name) for name in "abcd"]
    for thread in threads:
        thread.join(30)
    assert done == ["a", "b", "c", "d"]


def test_who_stores_messages_goes_before_the_others() -> None:
    order, done = Turns(), list[str]()
    with order.turn():
        threads = [_asks(order, done, "a"), _asks(order, done, "b"), _asks(order, done, "message", first=True)]
    for thread in threads:
        thread.join(30)
    assert done == ["message", "a", "b"]


def test_who_is_not_called_in_time_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CALLED_S", 0.01)
    order, done = Turns(), list[str]()
    order.turn().__enter__()  # a thread that has ended, and never says so
    for name in "ab":
        with order.turn():
            done.append(name)
    assert done == ["a", "b"]
    monkeypatch.setattr(connection, "CALLED_S", 1e6)
    with order.turn():  # nothing is left of it
        done.append("c")


def test_work_that_fails_in_its_turn_calls_the_next_one() -> None:
    order, done, threads = Turns(), list[str](), list[threading.Thread]()

    def fails() -> None:
        with order.turn():
            threads.append(_asks(order, done, "a"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    threads[0].join(30)
    assert done == ["a"]


def test_a_message_waits_for_no_other_transaction_that_waits(tmp_path: Path) -> None:
    db, done = Database(tmp_path / "lcm.db"), list[str]()
    db.open()

    def writes(name: str) -> None:
        with db.transaction():
            done.append(name)

    def stores() -> None:
        with db.first():
            writes("message")

    with db.transaction():
        threads = [threading.Thread(target=writes, args=(name,), daemon=True) for name in ("a", "b")]
        threads.append(threading.Thread(target=stores, daemon=True))
        for n, thread in enumerate(threads, 1):
            thread.start()
            _until(lambda n=n: sum(map(len, db._turns._waiting)) == n)  # type: ignore[misc]
    for thread in threads:
        thread.join(30)
    db.close()
    assert done[0] == "message"


def test_who_has_the_write_lock_waits_for_no_turn(tmp_path: Path) -> None:
    """A thread that has the turn waits for the lock: if its owner asked for the turn, both would wait for each other."""
    db = Database(tmp_path / "lcm.db")
    db.open()
    with db.alone():
        thread = threading.Thread(target=lambda: db.transaction().__enter__(), daemon=True)
        thread.start()
        _until(lambda: db._turns.taken)
        before = time.monotonic()
        with db.transaction():
            took = time.monotonic() - before
        with db.unreferenced():
            pass
    assert took < connection.CALLED_S


def test_a_reader_holds_up_nobody_while_the_log_is_folded(tmp_path: Path) -> None:
    """To begin the log anew means to wait for readers, with the write lock: beside thirty chats there is always one."""
    db = Database(tmp_path / "lcm.db")
    with db.transaction():
        db.execute("INSERT INTO meta(key, value) VALUES ('a', hex(randomblob(300000)))")
    other = sqlite3.connect(tmp_path / "lcm.db")
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM meta").fetchall()
    with db.transaction():
        db.execute("INSERT INTO meta(key, value) VALUES ('b', hex(randomblob(300000)))")
    waits = list[str]()
    assert db._writer is not None
    db._writer.set_trace_callback(waits.append)
    db.optimise(log_bytes=0)
    other.close()
    assert "PRAGMA busy_timeout=0" in waits[: waits.index("PRAGMA wal_checkpoint(TRUNCATE)")]
    db.close()
