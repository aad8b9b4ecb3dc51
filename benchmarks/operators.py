#!/usr/bin/env python3
"""
Status, doctor and the other operators' commands on a database of 1,000,000 messages, beside one of 5,000.

    python benchmarks/operators.py [--quick] [--json FILE] [--where FOLDER] [--messages 1000000]

Sessions of 5,000 short messages through the store's own layer, each summarised but for its newest hundred messages. A command is
called as the terminal calls it, without the start of a process. After status and doctor (not deep) the file and its log must be
byte for byte what they were. Judged by the clock: status below 50 ms, doctor below 10 s, at the largest size.
"""

from __future__ import annotations

import hashlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kit
from driving import fresh_process
from kit import SPREAD, Report, home, spread

SESSION = 5000
LEAF = 100
SMALL = 5000
#: What is looked at once at the largest size; some of it reads everything.
ONCE = (
    "search river17", "search what did we decide about the river17 bridge4", "explain msg_1", "explain sum_1", "doctor clean",
    "doctor source", "doctor retention", "rotate", "preset suggest", "backup", "restore latest", "doctor repair", "doctor deep",
)  # fmt: skip


def fill(runtime: Any, count: int, *, summarised: bool = True) -> None:
    """So many messages, and leaves over all but the newest of each session."""
    from hermes_lcm.store import NewRow
    from hermes_lcm.text import content

    rng = random.Random(11)
    words = [f"{word}{n}" for word in "river stone table green engine bridge window paper".split() for n in range(300)]
    for at in range(0, count, SESSION):
        name = f"20260101_{at:08d}_bench"
        runtime.announce(name, platform="cli", model="m")
        session = runtime.session(name)
        rows = []
        for n in range(at, min(at + SESSION, count)):
            said = f"message {n} {' '.join(rng.choices(words, k=12))}"
            rows.append(
                NewRow(content.read_message({"role": ("user", "assistant")[n % 2], "content": said}), None, None, 0)
            )
        ids = runtime.store.append(session.conversation_id, name, 0, rows, source="cli", now=1.7e9 + at)
        if summarised:
            summarise(runtime, session, ids)


def summarise(runtime: Any, session: Any, ids: Sequence[int]) -> None:
    """Leaves in the order of the messages, and the prompt that shows them."""
    from hermes_lcm.dag import fingerprint
    from hermes_lcm.records import NewNode

    leaves = []
    with runtime.store.writing():
        for at in range(0, len(ids) - LEAF, LEAF):
            part = ids[at : at + LEAF]
            text = f"summary of messages {part[0]} to {part[-1]} about the river and its bridges"
            print_ = fingerprint(0, part)
            new = NewNode(
                session.conversation_id, 0, "verified", text, "bridges", 20, 2000, part, print_, "m", "detailed"
            )
            leaves.append(runtime.dag.add(new, now=1.7e9).node_id)
        tail = ids[len(leaves) * LEAF :]
        runtime.dag.publish(
            session.conversation_id, session.session_id, leaves, tail, last_seq=len(ids), last_pos=len(ids), now=1.7e9
        )


def digest(path: Path) -> str:
    """Of the file and its log. Only while this process has it closed: closing it here would drop SQLite's locks."""
    state = hashlib.sha256()
    for each in (path, path.with_name(path.name + "-wal")):
        if each.exists():
            with each.open("rb") as file:
                state.update(hashlib.file_digest(file, "sha256").digest())
    return state.hexdigest()


class Operator:
    """A terminal on one home."""

    def __init__(self) -> None:
        fresh_process()
        from hermes_lcm import runtime

        self.runtime = runtime.PROCESS.at()

    def does(self, words: str) -> Any:
        """One command, from its words to its answer."""
        from dataclasses import replace

        from hermes_lcm.command import answer, operator_access

        newest = self.runtime.sessions.recent(principal=None, limit=1)
        return answer(words, replace(operator_access(self.runtime, newest[0], None), trusted=True))

    def times(self, words: str, laps: int) -> list[float]:
        """The same command again and again; the first call, which warms the page cache, is left out."""
        self.does(words)
        found = []
        for _ in range(laps):
            began = time.perf_counter()
            said = self.does(words)
            found.append(time.perf_counter() - began)
            if said.code not in (0, 1):
                raise RuntimeError(f"{words}: {said.text}")
        return found

    def close(self) -> None:
        self.runtime.db.close()


def looking(count: int, laps: dict[str, int], where: Path) -> tuple[dict[str, list[float]], list[Any], bool]:
    """(times of status and doctor, what the rest took once, did a byte change) in a database of so many messages."""
    with home(where) as folder:
        (folder / "config.yaml").write_text("context:\n  engine: lcm\n", encoding="utf-8")
        operator = Operator()
        began = time.perf_counter()
        fill(operator.runtime, count)
        operator.runtime.save_states()
        operator.close()
        path = operator.runtime.path
        print(
            f"{count} messages, {path.stat().st_size / 1e6:.0f} MB, made in {time.perf_counter() - began:.0f} s",
            file=sys.stderr,
        )
        before = digest(path)
        times = {words: operator.times(words, n) for words, n in laps.items()}
        operator.close()
        same = digest(path) == before
        once = []
        for words in ONCE:
            began, processor = time.perf_counter(), time.process_time()
            said = operator.does(words)
            once.append(
                [
                    words,
                    time.perf_counter() - began,
                    time.process_time() - processor,
                    ("done", "found something wrong", "refused", "failed")[said.code],
                ]
            )
        operator.close()
    return times, once, same


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--messages", type=int, default=0, help="largest size (default: 1000000, quick: 50000)")
    args = parser.parse_args()
    large = args.messages or (50_000 if args.quick else 1_000_000)
    where = args.where or Path(tempfile.gettempdir())
    report = Report("operators", f"status, doctor and other commands on {large} messages", args.quick)
    laps = {"status": 50, "doctor": 3 if args.quick else 5}
    found = {size: looking(size, laps, where) for size in (SMALL, large)}
    rows = [[f"{words}, {size} messages", *spread(found[size][0][words])] for words in laps for size in found]
    report.table("Looking", ("", *SPREAD), rows)
    report.table(
        f"Once, {large} messages",
        ("command", "s", "CPU s", "said"),
        found[large][1],
        "made in this order, page cache warm",
    )
    middle = {(words, size): statistics.median(found[size][0][words]) for words in laps for size in found}
    report.budget(f"status at {large}: ms, median", 1000 * middle["status", large], 50)
    report.budget(f"status at {large}: ms, p90", 1000 * kit.at(found[large][0]["status"], 0.9), 50)
    least = {size: min(found[size][0]["status"]) for size in found}
    report.budget(f"status: {large} by {SMALL}, fastest of {laps['status']} each", least[large] / least[SMALL], 2)
    report.budget(f"doctor at {large}: s, slowest", max(found[large][0]["doctor"]), 10)
    report.budget("files changed by status and doctor", sum(not same for _, _, same in found.values()), 0)
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
