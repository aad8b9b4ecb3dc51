#!/usr/bin/env python3
"""
How long a turn is held by a compaction when the model takes 3 s a call and a turn comes every 10 s.

    python benchmarks/turns.py [--quick] [--json FILE] [--scale 100] [--turns N] [--window 64000]

Time runs faster by the scale: model, turns, the foreground budget and the plugin's own waiting times alike. Its own work does
not, so in this run it weighs that much more than in life. For each compress() the time is therefore told twice: as it was,
and as it would be at full length: own work as measured + scale x the time in which it waited for the model. Beside it the
same conversation with nothing prepared ahead, for the number of model calls.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import kit
import material
from driving import Agent, SlowModel
from kit import SPREAD, Report, home, spread

MODEL_S, PERIOD_S, BUDGET_S = 3.0, 10.0, 20.0


def hurry(scale: float) -> None:
    """The plugin's own waiting times, divided by the scale like everybody's."""
    from hermes_lcm.compaction import background, compactor
    from hermes_lcm.llm import ladder

    for module, names in ((ladder, ("_LEAST_S",)), (compactor, ("_REFUSED_S",)), (background, ("_LEASE_S", "_JOB_S"))):
        for name in names:
            if hasattr(module, name):
                setattr(module, name, getattr(module, name) / scale)


def run(turns: list[list[kit.Chat]], *, ahead: bool, scale: float, window: int, where: Path) -> dict[str, Any]:
    """The whole conversation once. Inline, turns need not wait for their time: nothing happens between them."""
    model = SlowModel(MODEL_S / scale)
    model.install()
    settings: dict[str, object] = {
        "summary_spend_max_calls": 0,
        "background_compaction": str(ahead).lower(),
        "foreground_budget_ms": int(1000 * BUDGET_S / scale) if ahead else 600_000,
    }
    with home(where, **settings):
        agent = Agent("20260101_000000_turns", window)
        began = time.perf_counter()
        late = 0.0
        spent = []
        for n, turn in enumerate(turns):
            due = began + n * PERIOD_S / scale
            now = time.perf_counter()
            if ahead and due > now:
                time.sleep(due - now)
            elif ahead:
                late = max(late, now - due)
            at = time.perf_counter()
            agent.turn(turn)
            spent.append(time.perf_counter() - at)
        agent.runtime.preparer.idle(30)
        passes = agent.compactions
        counters = dict(agent.runtime.health.counters)
        provisional = sum(c.get("provisional_nodes", 0) for c in passes)
        leaves = [node.source_tokens for nodes in agent.runtime.dag.node_batches() for node in nodes if node.depth == 0]
        agent.close()
    inside = sum(any(a < c["ended"] and b > c["began"] for c in passes) for a, b in model.waits)
    waited = [model.waited(c["began"], c["ended"]) for c in passes]
    wall = [c["ended"] - c["began"] for c in passes]
    life = [w - m + m * scale for w, m in zip(wall, waited, strict=True)]
    processor = [c["processor"] for c in passes]
    return {"wall": wall, "processor": processor, "life": life, "own": [w - m for w, m in zip(wall, waited, strict=True)],
            "calls": model.calls, "inside": inside, "turns": spent, "late": late, "provisional": provisional,
            "results": sorted({str(c.get("result")) for c in passes}), "prepared": counters.get("leaves_prepared", 0),
            "repaired": counters.get("nodes_repaired", 0), "leaves": leaves}  # fmt: skip


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--scale", type=float, default=100.0, help="how much faster than life time runs")
    parser.add_argument("--turns", type=int, default=0, help="turns (default: 1000, quick: 150)")
    parser.add_argument("--window", type=int, default=64_000, help="the model's context window")
    args = parser.parse_args()
    count = args.turns or (150 if args.quick else 1000)
    turns, made_of = material.turns(count)
    where = args.where or Path(tempfile.gettempdir())
    report = Report("turns", "compaction while turns keep coming", args.quick)
    hurry(args.scale)
    found = {name: run(turns, ahead=ahead, scale=args.scale, window=args.window, where=where)
             for name, ahead in (("prepared ahead", True), ("inline", False))}  # fmt: skip
    _tell(report, found, count)
    messages = sum(map(len, turns))
    report.note(f"{count} turns, {messages} messages of {made_of}; window {args.window}")
    report.note(
        f"a turn every {1000 * PERIOD_S / args.scale:.0f} ms, a model call {1000 * MODEL_S / args.scale:.0f} ms, "
        f"foreground budget {1000 * BUDGET_S / args.scale:.0f} ms: scale {args.scale:g}"
    )
    return report.finish(args.json)


def _tell(report: Report, found: dict[str, dict[str, Any]], count: int) -> None:
    rows = []
    for name, run_ in found.items():
        for what, key in (
            ("compress() as it was", "wall"),
            ("own work in it", "own"),
            ("processor time in it", "processor"),
            ("compress() at full length", "life"),
        ):
            if run_[key]:
                rows.append([f"{name}: {what}", *spread(run_[key])])
        rows.append([f"{name}: a whole turn as it was", *spread(run_["turns"])])
    report.table("Times", ("", *SPREAD), rows)
    columns = (
        "compactions",
        "model calls",
        "while a turn waited",
        "leaves prepared",
        "repaired",
        "provisional",
        "leaves",
        "tokens each",
        "most late ms",
    )
    rows = []
    for name, r in found.items():
        figures = (len(r["wall"]), r["calls"], r["inside"], r["prepared"], r["repaired"], r["provisional"],
                   len(r["leaves"]), sum(r["leaves"]) // max(1, len(r["leaves"])))  # fmt: skip
        rows.append([name, *figures, round(1000 * r["late"], 1)])
    report.table(
        "Work", ("", *columns), rows,
        "provisional: stand-in nodes shown in a prompt, summed over the compactions; most late: how far a turn began behind time",
    )  # fmt: skip
    for name, run_ in found.items():
        report.note(f"{name}: results {', '.join(run_['results'])}")
    ahead, inline = found["prepared ahead"], found["inline"]
    if not ahead["wall"] or not inline["calls"]:
        report.note(f"skipped: {count} turns need no compaction")
        return
    report.budget("compress() at full length: median ms", 1000 * statistics.median(ahead["life"]), 50)
    report.budget("compress(): median ms of processor time", 1000 * statistics.median(ahead["processor"]), 50)
    report.budget("compress() at full length: p99 s", kit.at(ahead["life"], 0.99), BUDGET_S)
    report.budget("model calls against inline", ahead["calls"] / inline["calls"], 1.1)
    report.budget("model calls of inline against these", inline["calls"] / ahead["calls"], 1.1)


if __name__ == "__main__":
    sys.exit(main())
