#!/usr/bin/env python3
"""
How long does an operator's command stand in the way of a turn, in an archive of 200,000 messages?

    python benchmarks/beside.py [--messages 200000] [--quick] [--json FILE] [--where FOLDER] [--only "backup,redact preview"]
                                [--database FILE]   of a million messages, as million.py leaves it; a copy is used

The command runs in a thread of the process that the agent runs in, the worst place for it. Two things are measured while it does:
how long it held what a turn needs (the writer, or the connection of short reads), as time on the clock and as time of the
processor; and how long another thread waited, which every 5 ms stores a note and reads one, as a turn does. A busy machine or a
slow disk makes the clock longer and the processor's time not: what 4 kB to the same disk took meanwhile is told too. The verdict
is of the processor's time and of the file's lock.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import kit
from driving import fresh_process
from kit import Report, home
from operators import Operator, fill

LOOKING = (
    "status", "status deep", "doctor", "doctor deep", "doctor clean", "doctor retention", "doctor source", "doctor repair",
    "redact preview", "retention", "search river17 bridge4", "sessions", "exam", "backup", "backup drill", "restore latest",
    "export all",
)  # fmt: skip
CHANGING = (
    "doctor clean apply", "doctor repair apply", "redact apply", "purge session NAME apply", "retention apply",
    "rotate apply", "doctor source apply", "restore latest apply",
)  # fmt: skip
#: Sessions that a verb names: of operators.py, and of million.py.
NAMES = ("20260101_00005000_bench", "20240101_000001_million")
LOCKS = ("_write_lock", "_read_lock")
LIMIT_MS = 50.0
EVERY_S = 0.005


class Watched:
    """A lock as ``Database`` uses them, which notes how long each thread had it: (clock, processor), seconds."""

    def __init__(self, lock: Any) -> None:
        self.plain = lock
        self._mine = threading.local()
        self.by_thread: dict[int, tuple[float, float]] = {}
        self.longest: dict[int, str] = {}

    def acquire(self, *args: Any, **kwargs: Any) -> bool:
        got = bool(self.plain.acquire(*args, **kwargs))
        depth = getattr(self._mine, "depth", 0)
        if got and not depth:
            self._mine.began = time.perf_counter(), time.thread_time()
        self._mine.depth = depth + got
        return got

    def release(self) -> None:
        self._mine.depth -= 1
        if not self._mine.depth:
            clock, processor = self._mine.began
            held = time.perf_counter() - clock, time.thread_time() - processor
            who = threading.get_ident()
            most = self.by_thread.get(who, (0.0, 0.0))
            if held[1] > most[1]:
                self.longest[who] = _place()
            self.by_thread[who] = max(most[0], held[0]), max(most[1], held[1])
        self.plain.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def _place() -> str:
    """Callers that hold it, innermost first, above the storage layer."""
    frames = (each for each in reversed(traceback.extract_stack()) if "hermes_lcm" in each.filename)
    above = (each for each in frames if "/storage/connection" not in each.filename)
    return " < ".join(f"{Path(each.filename).stem}.{each.name}:{each.lineno}" for each in islice(above, 3))


class Turn:
    """What a turn does to the database, every few milliseconds, and how long it took at most; and the file's own lock."""

    def __init__(self, db: Any, *, others: bool = True) -> None:
        self._db = db
        self._over = threading.Event()
        self.waited: list[float] = []
        self.locked: list[float] = []
        self._threads = [
            threading.Thread(target=each, daemon=True) for each in (self._turns, self._knocks)[: 1 + others]
        ]

    def __enter__(self) -> Turn:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _turns(self) -> None:
        while not self._over.wait(EVERY_S):
            began = time.perf_counter()
            with self._db.transaction():
                pass
            self._db.query("SELECT max(store_id) FROM messages")
            self.waited.append(time.perf_counter() - began)

    def _knocks(self) -> None:
        """Another process' turn: it only sees the lock of the file."""
        with closing(sqlite3.connect(self._db.path, timeout=30, isolation_level=None)) as other:
            while not self._over.wait(EVERY_S):
                began = time.perf_counter()
                other.execute("BEGIN IMMEDIATE").connection.execute("ROLLBACK")
                self.locked.append(time.perf_counter() - began)


def beside(runtime: Any, does: Callable[[], Any], *, others: bool = True) -> tuple[list[object], str]:
    """Seconds, then milliseconds: held on the clock, of the processor, waited for at the 99.9th percentile, at most."""
    db = runtime.db
    db.open()
    locks = {name: Watched(getattr(db, name)) for name in LOCKS}
    for name, lock in locks.items():
        setattr(db, name, lock)
    writer, reader = locks.values()
    me = threading.get_ident()
    began = time.perf_counter()
    try:
        with Turn(db, others=others) as turn:
            said = does()
            seconds = time.perf_counter() - began
    finally:
        for name, lock in locks.items():
            setattr(db, name, lock.plain)
    held = [lock.by_thread.get(me, (0.0, 0.0)) for lock in (writer, reader)]
    figures = [1000 * each for pair in held for each in pair]
    late = [1000 * kit.at([0.0, *of], 0.999) for of in (turn.waited, turn.locked)]
    result = ("done", "found", "refused", "failed")[said.code]
    places = " | ".join(lock.longest.get(me, "") for lock in (writer, reader))
    return [round(seconds, 2), *(round(n, 1) for n in (*figures, *late)), result], places


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--messages", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--database", type=Path)
    args = parser.parse_args()
    count = args.messages or (20_000 if args.quick else 200_000)
    report = Report("beside", f"operators' commands beside a turn, {count:,} messages", args.quick)
    with (
        home(
            args.where or Path(tempfile.gettempdir()),
            ignore_session_patterns="*00015000*,20240101_00003*_million",
            doctor_clean_apply_enabled="true",
            retention="*00010000*:1d=purge,20240101_000002_million:1d=purge",
        ) as folder,
        kit.Disk(folder) as disk,
    ):
        (folder / "config.yaml").write_text("context:\n  engine: lcm\n", encoding="utf-8")
        operator = Operator()
        if args.database:
            shutil.copyfile(args.database, folder / "lcm.db")
        else:
            fill(operator.runtime, count)
            operator.runtime.save_states()
        with operator.runtime.db.transaction():  # the policy of retention is about old sessions
            operator.runtime.db.execute("UPDATE sessions SET started_at = 1.7e9")
        wanted = [word.strip() for word in args.only.split(",") if word.strip()] or [*LOOKING, *CHANGING]
        rows: list[list[object]] = []
        with Turn(operator.runtime.db) as alone:
            time.sleep(2 if args.quick else 10)
        rows.append(
            [
                "nothing",
                0,
                0,
                0,
                0,
                0,
                *(round(1000 * kit.at([0.0, *n], 0.999), 1) for n in (alone.waited, alone.locked)),
                "",
            ]
        )
        for words in wanted:
            if words in _BEFORE:
                _BEFORE[words](operator.runtime)
            name = NAMES[bool(args.database)]
            words = words.replace("NAME", name)
            alone_only = words == "restore latest apply"  # it is refused while another process has the file
            figures, place = beside(
                operator.runtime,
                lambda words=words: operator.does(words),
                others=not alone_only,  # type: ignore[misc]
            )
            rows.append([words, *figures])
            print(f"{rows[-1]} {place}", file=sys.stderr, flush=True)
            if figures[-1] in ("refused", "failed"):
                report.budget(f"{words}: {figures[-1]}", 1, 0)
            report.budget(
                f"{words}: ms of the processor", max(float(str(figures[2])), float(str(figures[4]))), LIMIT_MS
            )
        operator.close()
    head = (
        "command",
        "s",
        "writer held ms",
        "CPU ms",
        "reader held ms",
        "CPU ms",
        "turn p99.9 ms",
        "file p99.9 ms",
        "said",
    )
    report.table("Beside a turn", head, rows)
    report.table(
        "The disk alone", (*kit.SPREAD, "most ms"), [[*kit.spread(disk.took), round(1000 * max(disk.took), 1)]]
    )
    fresh_process()
    return report.finish(args.json)


def _break(runtime: Any) -> None:
    """Take a row out of the search index, so that a repair makes it anew."""
    with runtime.db.transaction():
        runtime.db.execute("DELETE FROM message_index_docsize WHERE id = (SELECT max(id) FROM message_index_docsize)")


def _tell_secrets(runtime: Any) -> None:
    """A session in which each message says a password."""
    from hermes_lcm.store import NewRow
    from hermes_lcm.text import content

    runtime.announce("20260102_secrets", platform="cli", model="m")
    said = ({"role": "user", "content": f"the login: password = Xk9_{n}qZ7w{n}v, and more words"} for n in range(3000))
    rows = [NewRow(content.read_message(each), None, None, 0) for each in said]
    session = runtime.session("20260102_secrets")
    runtime.store.append(session.conversation_id, "20260102_secrets", 0, rows, source="cli", now=1.7e9)


def _blank(runtime: Any) -> None:
    """Messages without a source, as an early release left them."""
    with runtime.db.transaction():
        runtime.db.execute("UPDATE messages SET source = '' WHERE store_id % 10 = 0 AND store_id <= 500000")


_BEFORE = {"doctor repair apply": _break, "redact apply": _tell_secrets, "doctor source apply": _blank}


if __name__ == "__main__":
    sys.exit(main())
