#!/usr/bin/env python3
"""
Thirty chats in threads of one process, with a model of 0.1 to 3 s that fails and hangs: does every promise hold?

    python benchmarks/crowd.py [--quick] [--seconds 600] [--chats 30] [--json FILE] [--where FOLDER]

Two thirds of the chats are a gateway's, each of another person, the others terminals'. They begin sessions, come back to old ones
with a new agent, search their own words and those of others. Each is compared with what it said: every message once and before
its request (P1), valid lists (P3) that cover everything (P4), no word of others (P8). The driver is `tests/worlds/crowd.py`; its
short form is in the suite. The model writes honest extracts: after two summaries that are none it would be left alone. Of 100
calls 8 fail and 8 hang for a minute. Thirty threads share the processors: hooks wait. They wait for the disk, too: another
process writes 4 kB to it ten times a second and does nothing else ("the disk alone"). On a virtual machine they wait for other
machines as well.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import kit
from kit import SPREAD, Report, home, spread

HOOKS = ("pre_llm_call", "pre_api_request", "post_llm_call")
sys.path.insert(0, str(kit.ROOT / "tests"))  # before this folder: both have a `recall`


def extracted(prompt: str, room: int) -> str:
    """A summary that holds what it should."""
    return kit.extract(prompt, max(400, min(room, len(prompt) // 12)))


def stolen_s() -> float:
    """Seconds that other machines had our processors, since the start of this one; 0 where the system does not tell."""
    try:
        ticks = Path("/proc/stat").read_text("ascii").split(maxsplit=9)[8]
    except (OSError, IndexError):
        return 0.0
    return int(ticks) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--chats", type=int, default=30)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two turns of a chat, at the mean")
    args = parser.parse_args()
    seconds = args.seconds or (20.0 if args.quick else 600.0)
    report = Report("crowd", f"{args.chats} chats in threads for {seconds:.0f} s", args.quick)
    with home(args.where or Path(tempfile.gettempdir()), fresh_tail_count=8) as folder:
        from agent import auxiliary_client
        from worlds.crowd import Model, Talker, crowd

        auxiliary_client.call_llm = model = Model(0.1, 3.0, 60.0, extracted)
        end, stolen = time.monotonic() + seconds, stolen_s()

        def over(talker: Talker) -> bool:
            time.sleep(2 * args.pause * talker.rng.random())
            return time.monotonic() > end

        with kit.Disk(folder) as disk:
            world, talkers = crowd(folder, args.chats, over)
        stored = world.runtime.store.count()
        world.runtime.db.close()
    wrong = [each for talker in talkers for each in talker.wrong]
    by: dict[str, list[float]] = defaultdict(list)
    for talker in talkers:
        for wait in talker.hooks:
            by[wait.name].append(wait.took)
        by["compress"] += talker.compactions
    by["the disk alone"] = disk.took
    report.table(
        "Waits",
        ("", *SPREAD, "most ms"),
        [[name, *spread(each), round(1000 * max(each), 1)] for name, each in by.items() if each],
    )
    late = sorted((wait for talker in talkers for wait in talker.hooks if wait.name in HOOKS), reverse=True)[:12]
    report.table(
        "Where the slowest hooks were",
        ("", "ms", "at work", "for a processor", "for our locks", "for the interpreter or the disk"),
        [
            [wait.name, *(round(1000 * n, 1) for n in (wait.took, *wait[2:], wait.took - sum(wait[2:])))]
            for wait in late
        ],
    )
    rows = [
        ["sessions", sum(len(talker.said) for talker in talkers)], ["turns", sum(talker.turns for talker in talkers)],
        ["messages stored", stored], ["compactions", len(by["compress"])],
        ["searches", sum(talker.searches for talker in talkers)], *([f"model {move}", n] for move, n in model.calls.items()),
        ["seconds of a processor that other machines had", round(stolen_s() - stolen, 1)],
    ]  # fmt: skip
    report.table("What was done", ("", "count"), rows)
    for promise in ("P1", "P3", "P4", "P8", "chat"):
        report.budget(f"{promise}: what was wrong", sum(each.startswith(promise) for each in wrong), 0)
    for each in wrong[:20]:
        report.note(each)
    for name in HOOKS:
        report.budget(f"{name}: ms, the slowest", 1000 * max(by[name], default=0.0), 500)
    ours = [wait.worked + wait.locked for wait in late]
    report.budget("of it at work and for our locks: ms, the most", 1000 * max(ours, default=0.0), 500)
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
