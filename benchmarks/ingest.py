#!/usr/bin/env python3
"""
What it costs to keep every message, beside the least that a durable, searchable row costs on the same disk.

    python benchmarks/ingest.py [--quick] [--json FILE] [--where FOLDER]

Each repetition measures every variant once, in a new random order, so that a busy machine slows all of them alike. The bare
transaction is BEGIN, two INSERTs with an FTS5 trigger, COMMIT in WAL with synchronous=FULL, on a table that holds as much.
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kit
from driving import fresh_process
from kit import SPREAD, Bare, Chat, Report, Talk, home, reloaded, spread, timed

SMALL, LARGE = 200, 5000


class Live:
    """A live list that is handed over as the host does it: same objects (terminal) or equal ones (gateway)."""

    def __init__(self, session_id: str, count: int, seed: int, *, again: bool) -> None:
        self.session_id = session_id
        self.talk = Talk(seed)
        self.messages = self.talk.history(count)
        self.again = again
        self.held: list[list[Chat]] = []

    def fire(self, *names: str, messages: list[Chat] | None = None) -> None:
        from hermes_lcm.plugin import hooks

        hooks.PROCESS.engines.used = True  # hooks store where an agent of the process has the engine
        shown = self.messages if messages is None else messages
        for name in names:
            hooks.HOOKS[name](session_id=self.session_id, conversation_history=shown, platform="cli", model="m")

    def stored(self) -> bool:
        """Is every message of it in the store?"""
        return bool(runtime().store.count(self.session_id) == len(self.messages))

    def _seen(self) -> list[Chat]:
        """The list as the host shows it now. Its agent holds the one of the turn before until this turn is over."""
        self.held = [*self.held[-1:], reloaded(self.messages) if self.again else list(self.messages)]
        return self.held[-1]

    def request(self) -> float:
        """A tool round: a call and its result are new when the next request is made. One transaction."""
        self.messages += self.talk.round(600)[:2]
        shown = self._seen()
        return timed(self.fire, "pre_api_request", messages=shown)

    def turn(self) -> float:
        """A turn without tools: the question is kept before the request, the answer after it. Two transactions."""
        self.messages.append(self.talk.user(400))
        shown = self._seen()
        spent = timed(self.fire, "pre_llm_call", "pre_api_request", messages=shown)
        self.messages.append(self.talk.answer(600))
        shown.append(self.messages[-1])
        return spent + timed(self.fire, "post_llm_call", messages=shown)

    def unchanged(self) -> float:
        shown = self._seen()
        return timed(self.fire, "pre_api_request", messages=shown)


def two_messages(report: Report, repetitions: int, where: Path | None) -> None:
    """Two new messages on a list of 200 and of 5,000."""
    with home(where) as folder:
        bare = Bare(folder / "bare.db")
        lists = _stored_lists(bare)
        spent: dict[str, list[float]] = {}
        rng, talk = random.Random(5), Talk(99)
        settled()
        for n in range(-3, repetitions):  # the first three warm up
            jobs = _jobs(bare, lists, talk, n)
            rng.shuffle(jobs)
            for name, measure in jobs:
                value = measure()
                if n >= 0:
                    spent.setdefault(name, []).append(value)
        bare.close()
        lost = [live.session_id for group in lists.values() for live in group if not live.stored()]
        if lost:
            raise RuntimeError(f"nothing was measured: the messages of {lost} are not in the store")
    _judge(report, spent)


def _stored_lists(bare: Bare) -> dict[str, list[Live]]:
    """Live lists that are stored already. A list grows by what is measured: of the short ones several, so that 200 stays 200."""
    lists: dict[str, list[Live]] = {}
    for size, copies in ((SMALL, 10), (LARGE, 1)):
        for kind, again in (("terminal", False), ("gateway", True)):
            found = [Live(f"{kind}-{size}-{n}", size, 1000 + size + n, again=again) for n in range(copies)]
            lists[f"{kind}, {size}"] = found
            for live in found:
                live.fire("pre_api_request")
                bare.add(live.session_id, live.messages)
    return lists


def _jobs(bare: Bare, lists: dict[str, list[Live]], talk: Talk, n: int) -> list[tuple[str, Callable[[], float]]]:
    """One measurement of every variant."""
    pair, first, second = talk.round(600)[:2], [talk.user(400)], [talk.answer(600)]
    jobs: list[tuple[str, Callable[[], float]]] = [
        ("bare, two rows", lambda: timed(bare.add, "bare", pair)),
        ("bare, one row twice", lambda: timed(bare.add, "bare", first) + timed(bare.add, "bare", second)),
    ]
    for name, group in lists.items():
        live = group[n % len(group)]
        jobs += [
            (f"tool round, {name}", live.request),
            (f"turn, {name}", live.turn),
            (f"nothing new, {name}", live.unchanged),
        ]
    return jobs


def _judge(report: Report, spent: dict[str, list[float]]) -> None:
    floor = {"tool": "bare, two rows", "turn": "bare, one row twice"}
    rows = []
    for name in sorted(
        spent, key=lambda key: ("bare tool turn nothing".split().index(key.split()[0].rstrip(",")), key)
    ):
        base = floor.get(name.split()[0], "bare, two rows")
        rows.append([name, *spread(spent[name]), round(middle(spent[name]) / middle(spent[base]), 2),
                     round(min(spent[name]) / min(spent[base]), 2)])  # fmt: skip
    report.table(
        "Two new messages (n, live list)",
        ("", *SPREAD, "of bare", "min of min"),
        rows,
        "tool round: both in one hook, beside one transaction of two rows; turn: question and answer in hooks of their own\n"
        "(each is durable before the host goes on), beside two transactions of one row.",
    )
    for kind in ("terminal", "gateway"):
        for what, base in (("tool round", "bare, two rows"), ("turn", "bare, one row twice")):
            large, small = middle(spent[f"{what}, {kind}, {LARGE}"]), middle(spent[f"{what}, {kind}, {SMALL}"])
            report.budget(f"{what} on {LARGE}, {kind}: times bare", large / middle(spent[base]), 3)
            report.budget(f"{what}, {kind}: {LARGE} against {SMALL}", large / small, 1.5)
        strict = middle(spent[f"turn, {kind}, {LARGE}"]) / middle(spent["bare, two rows"])
        report.budget(f"turn on {LARGE}, {kind}: times ONE bare transaction", strict, 3)


def middle(values: list[float]) -> float:
    return statistics.median(values)


def first_ingest(report: Report, repetitions: int, where: Path | None) -> None:
    """5,000 messages that were never seen, beside one batch insert."""
    spent: dict[str, list[float]] = {"bare batch": [], "first ingest": []}
    messages = Talk(7).history(LARGE)
    chars = sum(len(kit.text_of(m)) for m in messages)
    for n in range(repetitions):
        order = list(spent)
        random.Random(n).shuffle(order)
        for name in order:
            with home(where) as folder:
                if name == "bare batch":
                    bare = Bare(folder / "bare.db")
                    spent[name].append(timed(bare.add, "s", messages))
                    bare.close()
                else:
                    live = Live("first", 0, 1, again=False)
                    live.messages = reloaded(messages)
                    spent[name].append(timed(live.fire, "pre_api_request"))
                    runtime().db.close()
    rows = [[name, *spread(v), round(LARGE / middle(v))] for name, v in spent.items()]
    report.table(
        f"First ingest of {LARGE} messages ({chars // LARGE} characters each)", ("", *SPREAD, "rows/s"), rows,
    )  # fmt: skip
    report.budget(
        "first ingest: rows/s of the bare batch",
        middle(spent["bare batch"]) / middle(spent["first ingest"]),
        0.5,
        least=True,
    )


def settled() -> None:
    """The benchmark's own lists are no concern of the garbage collector while something is timed."""
    gc.collect()
    gc.freeze()


def runtime() -> Any:
    from hermes_lcm.plugin import hooks

    return hooks.PROCESS.at()


def restart(report: Report, repetitions: int, where: Path | None) -> None:
    """A new process meets a list that is stored already."""
    sizes = (1000, LARGE)
    cases = ("as stored", "one edited", "one inserted")
    spent: dict[tuple[str, int], list[float]] = {}
    with home(where):
        lists = {}
        for size in sizes:
            for case in cases:
                live = Live(f"restart-{size}-{case}", size, size, again=True)
                live.fire("pre_api_request")
                lists[case, size] = live
        for n in range(repetitions):
            jobs = list(lists)
            random.Random(n).shuffle(jobs)
            for case, size in jobs:
                live = lists[case, size]
                shown = reloaded(live.messages)
                spot = size // 2 + 7 * n
                if case == "one edited":
                    spot = next(i for i in range(spot, size) if shown[i]["role"] == "user")
                    shown[spot]["content"] += f" (edited {n})"
                elif case == "one inserted":
                    spot = next(i for i in range(spot, size) if shown[i]["role"] == "user")
                    shown.insert(spot, {"role": "user", "content": f"note {n} of the host"})
                fresh_process()
                settled()
                spent.setdefault((case, size), []).append(timed(live.fire, "pre_api_request", messages=shown))
                if case != "as stored":
                    live.messages = shown
        fresh_process()
    rows = [
        [f"{case}, {size}", *spread(v), round(1e6 * middle(v) / size, 1)] for (case, size), v in sorted(spent.items())
    ]
    report.table("Restart: open the file and align a list that is stored", ("", *SPREAD, "ms per 1,000"), rows)
    for case in cases:
        small, large = middle(spent[case, sizes[0]]), middle(spent[case, sizes[1]])
        report.budget(f"restart, {case}: {LARGE} against {sizes[0]}", large / small, 6)
        report.budget(f"restart, {case}: ms per 1,000", 1e6 * large / LARGE, 100)


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    args = parser.parse_args()
    report = Report("ingest", "keeping messages, beside bare SQLite", args.quick)
    where = args.where or Path(tempfile.gettempdir())
    two_messages(report, 25 if args.quick else 150, where)
    first_ingest(report, 3 if args.quick else 9, where)
    restart(report, 5 if args.quick else 20, where)
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
