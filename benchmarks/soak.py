#!/usr/bin/env python3
"""
One session of 100,000 messages and 1,000 compactions in one process: does anything grow?

    python benchmarks/soak.py [--quick] [--json FILE] [--where FOLDER] [--messages N] [--compactions N] [--window N] [--model]

The plugin is driven as a terminal drives it, with preparation in the background, which gets the time between turns that a
person would give it. Summaries are extracts (LCM_SUMMARY_MODEL=extractive), so that no model's mood is measured; ``--model``
takes the instant model of the other benchmarks instead, whose time does not count. Judged is the last tenth against the first.
The machine is shared and its speed changes: thirty times in the course of it a young conversation of 600 messages, the same each
time, is timed in a process of its own, and the growth of processor time is told beside what that took then.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import kit
from driving import Agent, hook
from kit import Chat, InstantModel, Report, Talk, home

SESSION = "20260101_000000_soak"
GROWTH = 1.2
PARTS = 10
POINTS = 200
EVERY = 25  # turns between two looks at the process and at the search
YOUNG, YOUNG_MESSAGES = 30, 600  # so many young conversations are timed in the course of the long one; how long each is

#: What is noted once a turn, and once every so many turns.
TURN = ("said", "own", "background", "wall", "prompt", "reads", "writes", "written")
LOOK = ("at", "rss", "files", "threads", "search", "disk")


class Notes:
    """Columns of figures, kept in arrays so that the notes themselves do not look like a leak."""

    def __init__(self, *names: str) -> None:
        self.of = {name: array("d") for name in names}

    def add(self, *values: float) -> None:
        for column, value in zip(self.of.values(), values, strict=True):
            column.append(value)

    def __getitem__(self, name: str) -> array[float]:
        return self.of[name]

    def __len__(self) -> int:
        return len(next(iter(self.of.values())))


def turn(talk: Talk) -> list[Chat]:
    """A request, some tool rounds, an answer."""
    out = [talk.user()]
    for _ in range(talk.rng.choices((0, 1, 2, 4), (25, 35, 25, 15))[0]):
        out.extend(talk.round())
    out.append(talk.answer())
    return out


def young() -> tuple[float, float, float]:
    """Processor seconds (a turn, its background, a compaction) of a conversation that is new, in a process and a home of its own.

    The same each time, so that it tells how fast the machine is just now at work of this kind.
    """
    out = subprocess.run([sys.executable, __file__, "--young"], capture_output=True, text=True, check=True)
    own, background, in_pass = json.loads(out.stdout)
    return own, background, in_pass


def resident() -> float:
    """Megabytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def calls() -> tuple[int, int, int]:
    """(reads, writes, bytes written) that this process has asked the system for: how fast the machine is makes no difference."""
    said = dict(line.split(": ") for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines())
    return int(said["syscr"]), int(said["syscw"]), int(said["wchar"])


class Run:
    """The conversation, and what was noted of it."""

    def __init__(self, folder: Path, window: int, model: InstantModel) -> None:
        self.folder = folder
        self.model = model
        self.agent = Agent(SESSION, window)
        self.talk = Talk(2026)
        self.said = 0
        self.turns = Notes(*TURN)
        self.looks = Notes(*LOOK)
        self.young = Notes("at", "own", "background", "passes")
        self.passes = Notes("at", "own", "wall", "after", "provisional")
        self._in_pass = 0.0
        compress = self.agent.engine.compress

        def timed(*args: Any, **kwargs: Any) -> Any:
            before = time.thread_time()
            out = compress(*args, **kwargs)
            self._in_pass = time.thread_time() - before
            return out

        self.agent.engine.compress = timed  # type: ignore[method-assign]

    def go(self, messages: int, compactions: int, progress: Callable[[str], None]) -> None:
        told = 0
        while self.said < messages or len(self.passes) < compactions:
            self.converse()
            if len(self.turns) % EVERY == 0:
                self._look()
            if self.said * YOUNG >= messages * len(self.young):
                self.young.add(self.said, *young())
            if self.said // 5000 > told:
                told = self.said // 5000
                progress(
                    f"{self.said} messages, {len(self.passes)} compactions, {resident():.0f} MB, {len(self.turns)} turns"
                )

    def converse(self) -> None:
        """One more turn."""
        self._turn(turn(self.talk))

    def _turn(self, said: list[Chat]) -> None:
        agent, asked = self.agent, self.model.seconds
        called = calls()
        mine, all_, wall = time.thread_time(), time.process_time(), time.perf_counter()
        agent.turn(said)
        wall, mine = time.perf_counter() - wall, time.thread_time() - mine
        agent.runtime.preparer.idle(60)
        others = time.process_time() - all_ - mine - (self.model.seconds - asked)
        self.said += len(said)
        for facts in agent.compactions:
            self.passes.add(self.said, self._in_pass, facts["ended"] - facts["began"], facts.get("after_tokens", 0),
                            facts.get("provisional_nodes", 0))  # fmt: skip
        agent.compactions.clear()
        more = (now - before for now, before in zip(calls(), called, strict=True))
        self.turns.add(self.said, mine, others, wall, self.tokens(), *more)

    def tokens(self) -> int:
        from hermes_lcm.host import facts as host

        return host.rough(self.agent.messages)

    def _look(self) -> None:
        words = " ".join(self.talk.words.some(self.talk.rng, 3))
        searched = kit.timed(self.agent.tool, "lcm_grep", query=words, limit=10)
        disk = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file()) / 1e6
        files, threads = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        self.looks.add(self.said, resident(), files, threads, searched, disk)


# -- judging ---------------------------------------------------------------------------------------------------
def parts(
    values: Sequence[float], at: Sequence[float], end: float, fold: Callable[[Sequence[float]], float]
) -> list[float]:
    """One figure for each tenth of the conversation."""
    groups: list[list[float]] = [[] for _ in range(PARTS)]
    for value, place in zip(values, at, strict=True):
        groups[min(PARTS - 1, int(place / end * PARTS))].append(value)
    return [fold(group) if group else 0.0 for group in groups]


def tell(report: Report, run: Run) -> None:
    turns, looks, passes, end = run.turns, run.looks, run.passes, float(run.said)
    mean, median = statistics.fmean, statistics.median
    fresh = {
        name: _ms(parts(run.young[name], run.young["at"], end, median)) for name in ("own", "background", "passes")
    }
    figures: dict[str, list[float]] = {
        "a turn: processor ms of its thread": _ms(parts(turns["own"], turns["said"], end, mean)),
        "a turn: processor ms in the background": _ms(parts(turns["background"], turns["said"], end, mean)),
        "a turn: wall ms, median": _ms(parts(turns["wall"], turns["said"], end, median)),
        "a compaction: processor ms of its thread": _ms(parts(passes["own"], passes["at"], end, mean)),
        "the same, of a young conversation beside it: a turn": fresh["own"],
        "in the background": fresh["background"],
        "a compaction": fresh["passes"],
        "a turn: calls to read a file": parts(turns["reads"], turns["said"], end, mean),
        "a turn: calls to write one": parts(turns["writes"], turns["said"], end, mean),
        "a turn: kB written": [value / 1000 for value in parts(turns["written"], turns["said"], end, mean)],
        "resident memory, MB": parts(looks["rss"], looks["at"], end, median),
        "open files, most": parts(looks["files"], looks["at"], end, max),
        "threads, most": parts(looks["threads"], looks["at"], end, max),
        "prompt at the end of a turn, tokens": parts(turns["prompt"], turns["said"], end, mean),
        "prompt behind a compaction, tokens": parts(passes["after"], passes["at"], end, mean),
        "lcm_grep of three words, ms, median": _ms(parts(looks["search"], looks["at"], end, median)),
        "files on disk, MB": parts(looks["disk"], looks["at"], end, max),
    }
    shown = (0, 1, 4, 8, 9)
    rows = [[name, *(values[n] for n in shown), ratio(values)] for name, values in figures.items()]
    report.table("By tenths of the conversation", ("", *(f"{n + 1}." for n in shown), "last : first"), rows,
                 "lcm_grep searches all that was said, and the file keeps all of it: these two may grow.")  # fmt: skip
    for name, beside in (
        ("a turn: processor ms of its thread", "own"), ("a turn: processor ms in the background", "background"),
        ("a compaction: processor ms of its thread", "passes"), ("resident memory, MB", ""), ("open files, most", ""),
        ("threads, most", ""), ("prompt at the end of a turn, tokens", ""), ("prompt behind a compaction, tokens", ""),
    ):  # fmt: skip
        values = figures[name]
        pace = ratio(fresh[beside]) if beside else 1.0
        what = f"{name.rsplit(',', 1)[0]}{', beside a young conversation' if beside else ''}: last tenth by first"
        report.budget(what, ratio(values) / pace, GROWTH)
    _draw(report, run)


def ratio(values: Sequence[float]) -> float:
    """The last tenth by the first."""
    return values[-1] / values[0] if values[0] else 1.0


def _ms(values: Sequence[float]) -> list[float]:
    return [1000 * value for value in values]


def _draw(report: Report, run: Run) -> None:
    turns, looks, passes = run.turns, run.looks, run.passes
    say = "messages so far"
    for title, unit_, lines in (
        ("Processor time of a turn", "ms", (("its thread", turns["said"], turns["own"], 1000.0),
                                            ("background", turns["said"], turns["background"], 1000.0))),
        ("Processor time of a compaction", "ms", (("its thread", passes["at"], passes["own"], 1000.0),)),
        ("Resident memory", "MB", (("process", looks["at"], looks["rss"], 1.0),)),
        ("Handles", "", (("open files", looks["at"], looks["files"], 1.0), ("threads", looks["at"], looks["threads"], 1.0))),
        ("Prompt", "tokens", (("at the end of a turn", turns["said"], turns["prompt"], 1.0),
                              ("behind a compaction", passes["at"], passes["after"], 1.0))),
    ):  # fmt: skip
        report.plot(title, say, unit_, {name: _thin(x, y, scale) for name, x, y, scale in lines})


def _thin(x: Sequence[float], y: Sequence[float], scale: float) -> list[tuple[float, float]]:
    """At most so many points, each the mean of its neighbours."""
    step = max(1, len(x) // POINTS)
    return [(x[min(n + step, len(x)) - 1], scale * statistics.fmean(y[n : n + step])) for n in range(0, len(x), step)]


def check(report: Report, run: Run) -> None:
    """Speed is nothing if anything was lost: every message once, nothing wrong in the doctor's eyes, the prompt complete."""
    agent = run.agent
    stored = agent.runtime.store.count()
    problems = [p.message for p in agent.runtime.health.problems()]
    provisional = int(sum(run.passes["provisional"]))
    report.budget("messages said and not stored, or stored twice", abs(stored - run.said), 0)
    report.budget("problems in health", len(problems), 0)
    for problem in problems:
        report.note(f"health: {problem}")
    began = time.process_time()
    again = Agent(SESSION, agent.engine.context_length)
    hook("pre_api_request", SESSION, kit.reloaded(agent.messages))
    report.note(f"a new process aligns the list of {len(agent.messages)} messages in {time.process_time() - began:.2f} s of "
                f"processor time and stores {again.runtime.store.count() - stored} more")  # fmt: skip
    report.note(f"{stored} messages stored in {len(run.turns)} turns, {len(run.passes)} compactions, {run.model.calls} model "
                f"calls; provisional nodes shown, summed over the compactions: {provisional}")  # fmt: skip


def _young() -> int:
    with home(Path(tempfile.gettempdir()), summary_spend_max_calls=0, summary_model="extractive") as folder:
        run = Run(folder, 48_000, InstantModel().install())
        while run.said < YOUNG_MESSAGES:
            run.converse()
        run.agent.close()
    print(json.dumps([statistics.fmean(run.turns["own"]), statistics.fmean(run.turns["background"]),
                      statistics.fmean(run.passes["own"])]))  # fmt: skip
    return 0


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--messages", type=int, default=0, help="at least so many (default: 100000, quick: 5000)")
    parser.add_argument("--compactions", type=int, default=-1, help="and so many (default: 1000, quick: 50)")
    parser.add_argument("--window", type=int, default=0, help="the model's context window (default: 48000)")
    parser.add_argument("--model", action="store_true", help="summaries by the instant model instead of extracts")
    parser.add_argument("--young", action="store_true", help="nothing but a young conversation: its figures as JSON")
    args = parser.parse_args()
    if args.young:
        return _young()
    report = Report("soak", "one long session in one process", args.quick)
    how: dict[str, object] = {} if args.model else {"summary_model": "extractive"}
    with home(args.where or Path(tempfile.gettempdir()), summary_spend_max_calls=0, **how) as folder:
        run = Run(folder, args.window or 48_000, InstantModel().install())
        gc.collect()
        messages, compactions = args.messages or (5000 if args.quick else 100_000), args.compactions
        compactions = compactions if compactions >= 0 else (50 if args.quick else 1000)
        run.go(messages, compactions, lambda text: print(text, file=sys.stderr, flush=True))
        report.note(
            f"summaries: {'the instant model (--model)' if args.model else 'extracts'}; window {run.agent.engine.context_length}"
        )
        tell(report, run)
        check(report, run)
        run.agent.close()
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
