#!/usr/bin/env python3
"""
Adopting a database of the earlier hermes-lcm plugin: how long, how much memory, and whether everything is there.

    python benchmarks/adoption.py [--quick] [--json FILE]

The database is written by tests/worlds/earlier.py after that plugin's documented schema 5: messages of agents at work in 20
sessions, most of them stored three times (100,000 rows), summaries and nodes above them. A process of its own adopts it
through the verb of ``hermes lcm``; its CPU time and its peak memory are the kernel's figures.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import kit
from kit import Report, Talk

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))
COPIES = 3
WORK = """
import argparse, json, sys
sys.path.insert(0, {here!r})
import kit
kit.importable()
from hermes_lcm.plugin import cli
parser = argparse.ArgumentParser()
cli.setup(parser)
sys.exit(cli.main(parser.parse_args({words!r})))
"""


def make(home: Path, rows: int) -> int:
    """A database with so many rows; how many messages they are."""
    from worlds.earlier import SUMMARY, EarlierPlugin

    plugin = EarlierPlugin(home)
    talk = Talk(71)
    sessions, each, total = 20, rows // COPIES // 20, 0
    for s in range(sessions):
        name, step, seen = f"s{s}", 50, []
        history = talk.history(each)[:each]
        for at in range(0, len(history), step):
            new = history[at : at + step]
            ids = plugin.store(name, [*seen, *new])
            plugin.node(name, ids[-20:], talk.prose(600))
            for _ in range(COPIES - 1):
                seen = [*seen, *new][-step:]
                plugin.store(name, [{"role": "user", "content": f"{SUMMARY} {at}"}, *seen])
        leaves = [
            row[0] for row in plugin.db.execute("SELECT node_id FROM summary_nodes WHERE session_id = ?", (name,))
        ]
        for at in range(0, len(leaves), 4):
            plugin.node(name, leaves[at : at + 4], talk.prose(800), depth=1)
        total += len(history)
    plugin.close()
    return total


def run(home: Path, *words: str) -> tuple[dict[str, object], float, float, float]:
    """(answer, wall seconds, CPU seconds, peak MB) of ``hermes lcm <words> --json``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    code = WORK.format(here=str(HERE), words=[*words, "--json"])
    env = {"HERMES_HOME": str(home), "PATH": "/usr/bin:/bin", "HOME": str(home)}
    measured = (
        f"import resource, subprocess, sys; p = subprocess.run([sys.executable, '-P', '-c', {code!r}]); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(p.returncode)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", measured], capture_output=True, text=True, env=env, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(done.stdout), time.perf_counter() - began, cpu, int(done.stderr.split()[-1]) / 1024


def main() -> int:
    args = kit.arguments(__doc__ or "").parse_args()
    report = Report("adoption", "adopting a database of the earlier plugin", args.quick)
    size = 4_000 if args.quick else 100_000
    with tempfile.TemporaryDirectory(dir=args.where) as folder:
        home = Path(folder)
        messages = make(home, size)
        table = []
        facts: dict[str, object] = {}
        for name, words in (
            ("dry run", ("adopt",)),
            ("adoption", ("adopt", "--apply")),
            ("again", ("adopt", "--apply")),
        ):
            facts, wall, cpu, peak = run(home, *words)
            table.append(
                [name, facts["found"]["messages"], facts["duplicates"], round(wall, 1), round(cpu, 1), round(peak)]
            )  # type: ignore[index]
            if name == "adoption":
                report.budget(
                    "repetitions that were found, of all",
                    facts["duplicates"] / max(1, facts["found"]["messages"] - messages),
                    0.9,
                    least=True,
                )  # type: ignore[operator,index]
                report.budget(
                    "summaries that arrived, of all", facts["summaries"] / facts["found"]["nodes"], 1, least=True
                )  # type: ignore[operator,index]
                report.budget("peak memory, MB", peak, 500)
        report.table(
            "A database of the earlier plugin", ("", "rows", "repetitions", "seconds", "CPU seconds", "peak MB"), table
        )
        report.note(
            f"{messages:,} messages in {table[0][1]:,} rows; beside them one summary of that plugin's own for each replay"
        )
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
