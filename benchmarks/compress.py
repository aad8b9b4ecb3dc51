#!/usr/bin/env python3
"""
How long one compaction takes with a model that answers at once: what is left is the plugin's own work.

    python benchmarks/compress.py [--quick] [--json FILE] [--where FOLDER] [--profile]

First: lists of growing length, everything but the tail to be covered. Then: the same backlog on top of a growing history, once
behind the list's own context message (the same conversation, compacted before), once in other sessions of the same file.
"""

from __future__ import annotations

import contextlib
import cProfile
import io
import pstats
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import kit
from driving import Agent, hook
from kit import Chat, InstantModel, Report, Talk, home

SETTINGS: dict[str, object] = {
    "summary_spend_max_calls": 0,
    "foreground_budget_ms": 600_000,  # what is measured is the work, not how well it is cut short
    "background_compaction": "false",
}
WINDOW = 128_000
BACKLOG = 1000
SESSION = "20260101_000000_bench"


def tokens(messages: list[Chat]) -> int:
    from hermes_lcm.host import facts

    return facts.rough(messages)


def one_pass(
    messages: list[Chat], model: InstantModel, profile: cProfile.Profile | None = None
) -> tuple[dict[str, float], list[Chat], str]:
    """Time of one compress() on the present home, the list being stored already."""
    agent = Agent(SESSION, WINDOW)
    hook("pre_api_request", SESSION, messages)
    calls, spent = model.calls, model.seconds
    current = tokens(messages)
    began, processor = time.perf_counter(), time.process_time()
    if profile is not None:
        with profiled(profile):
            out = agent.engine.compress(messages, current_tokens=current)
    else:
        out = agent.engine.compress(messages, current_tokens=current)
    figures = {
        "seconds": time.perf_counter() - began, "processor": time.process_time() - processor,
        "model": model.seconds - spent, "calls": model.calls - calls, "before": current, "after": tokens(out),
    }  # fmt: skip
    found = agent.engine.last_compression
    agent.close()
    return figures, out, f"{found.get('result')}, {found.get('provisional_nodes')} provisional"


@contextlib.contextmanager
def profiled(profile: cProfile.Profile) -> Any:
    """Profile this thread; and let the threads that summarise run here, one after the other, so that they are seen."""
    original = threading.Thread.start

    def here(self: threading.Thread) -> None:
        self.run() if self.name == "lcm-summary" else original(self)

    threading.Thread.start = here  # type: ignore[method-assign]
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        threading.Thread.start = original  # type: ignore[method-assign]


def middle(values: list[float]) -> float:
    return statistics.median(values)


COLUMNS = ("n", "min s", "median s", "p90 s", "CPU s", "of it model", "model calls", "tokens before", "after", "result")


def row(name: str, found: list[dict[str, float]], reason: str) -> list[Any]:
    seconds = [f["seconds"] for f in found]
    last = found[-1]
    return [name, len(found), min(seconds), middle(seconds), kit.at(seconds, 0.9), middle([f["processor"] for f in found]),
            middle([f["model"] for f in found]), int(last["calls"]), int(last["before"]), int(last["after"]), reason]  # fmt: skip


def by_length(report: Report, sizes: tuple[int, ...], repetitions: int, where: Path, model: InstantModel) -> None:
    """Fresh conversations of growing length."""
    found: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
    reasons = {}
    lists = {size: Talk(size).history(size) for size in sizes}
    for n in range(repetitions):
        order = list(sizes)
        random.Random(n).shuffle(order)
        for size in order:
            with home(where, **SETTINGS):
                figures, _, reasons[size] = one_pass(lists[size], model)
            found[size].append(figures)
    rows = [[*row(str(size), found[size], reasons[size]), work(found[size]) * 1e6 / size] for size in sizes]
    report.table(
        "compress() of a list that was never compacted, by messages", ("", *COLUMNS, "CPU ms per 1,000 messages"), rows
    )
    small, large = sizes[0], sizes[-1]
    growth = work(found[large]) / work(found[small]) / (large / small)
    report.budget(f"CPU per message, {large} against {small} messages (1 is linear)", growth, 1.3)
    wall = middle([f["seconds"] for f in found[large]]) / middle([f["seconds"] for f in found[small]]) / (large / small)
    report.budget(f"time per message, {large} against {small} messages (1 is linear)", wall, 1.3)


def work(found: list[dict[str, float]]) -> float:
    """Processor seconds of the plugin, without what the instant model took."""
    return middle([f["processor"] - f["model"] for f in found])


def own_history(size: int) -> list[Chat]:
    """A conversation of ``size`` messages as it becomes by compacting it again and again; the list that is left of it."""
    agent, talk, shown, done = Agent(SESSION, WINDOW), Talk(size), [], 0
    while done < size:
        step = min(2000, size - done)
        shown = [*shown, *talk.history(step)]
        done += step
        hook("pre_api_request", SESSION, shown)
        shown = agent.engine.compress(shown, current_tokens=tokens(shown))
    agent.close()
    return shown


def other_history(size: int) -> list[Chat]:
    """Other sessions of a thousand messages each."""
    agent = Agent(SESSION, WINDOW)
    for n in range(size // 1000):
        hook("pre_api_request", f"20250101_{n:06d}_other", Talk(n).history(1000))
    agent.close()
    return []


def by_history(report: Report, sizes: tuple[int, ...], repetitions: int, where: Path, model: InstantModel) -> None:
    """The same backlog behind a growing history."""
    fresh = Talk(31).history(BACKLOG)
    for title, build in (("of the same conversation", own_history), ("in other sessions", other_history)):
        found: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
        reasons: dict[int, str] = {}
        with tempfile.TemporaryDirectory(prefix="lcm-bench-", dir=where) as kept:
            starts = {}
            for size in sizes:
                with home(where, **SETTINGS) as folder:
                    starts[size] = build(size)
                    shutil.copytree(folder, Path(kept) / str(size))
            for n in range(repetitions):
                order = list(sizes)
                random.Random(n).shuffle(order)
                for size in order:
                    with home(where, **SETTINGS) as folder:
                        shutil.copytree(Path(kept) / str(size), folder, dirs_exist_ok=True)
                        figures, _, reasons[size] = one_pass([*starts[size], *fresh], model)
                    found[size].append(figures)
        rows = [row(f"{size}", found[size], reasons[size]) for size in sizes]
        report.table(
            f"compress() of {BACKLOG} new messages on a stored history {title}, by its messages", ("", *COLUMNS), rows
        )
        small, large = sizes[0], sizes[-1]
        report.budget(f"history {title}: CPU at {large} against {small}", work(found[large]) / work(found[small]), 1.5)


def profile_one(size: int, where: Path, model: InstantModel) -> str:
    profile = cProfile.Profile()
    with home(where, **SETTINGS):
        one_pass(Talk(size).history(size), model, profile)
    out = io.StringIO()
    pstats.Stats(profile, stream=out).strip_dirs().sort_stats("tottime").print_stats(35)
    pstats.Stats(profile, stream=out).strip_dirs().sort_stats("cumulative").print_stats(60)
    return out.getvalue()


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--profile", action="store_true", help="only profile one pass over 2,000 messages")
    args = parser.parse_args()
    model = InstantModel().install()
    where = args.where or Path(tempfile.gettempdir())
    if args.profile:
        print(profile_one(2000, where, model))
        return 0
    report = Report("compress", "one compaction with a model that answers at once", args.quick)
    by_length(
        report, (500, 1000, 2000) if args.quick else (1000, 2000, 4000, 8000), 2 if args.quick else 5, where, model
    )
    by_history(report, (1000, 5000) if args.quick else (1000, 10_000, 100_000), 2 if args.quick else 5, where, model)
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
