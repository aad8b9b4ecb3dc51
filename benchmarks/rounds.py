#!/usr/bin/env python3
"""
What the plugin adds to a turn of 20 tool rounds, by the length of the live list.

    python benchmarks/rounds.py [--quick] [--json FILE] [--sizes 200,1000,5000]

Per size one conversation whose list is in memory whole (no compaction: the window is 4 M tokens), turns of 20 rounds one behind
the other. Counted is what passes inside of hooks and engine calls, in the host's order; what the host does between them is not.
"Beside the worker": the turns follow at once on the first one, which gives the background worker the whole list to summarise.
"Loaded again": the turn begins with a list of other objects that say the same, as a gateway reads it from the host's database.
The sizes take turns; the ratios are of medians of one run.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import driving
import kit
from driving import Agent
from kit import SPREAD, Report, Talk, home, spread

ROUNDS, WINDOW, MOST = 20, 4_000_000, 1.5


class Clocked(Agent):
    """Notes what passes inside of the plugin while a turn lasts."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id, WINDOW)
        self.spent = 0.0

    def clocked(self, call: Any, *args: Any, **facts: Any) -> Any:
        began = time.perf_counter()
        try:
            return call(*args, **facts)
        finally:
            self.spent += time.perf_counter() - began

    def rounds(self, talk: Talk) -> float:
        """One turn; as the host does, every hook gets a new list of the same objects."""
        from hermes_lcm.host import facts as host

        self.spent = 0.0
        self.messages.append(talk.user())
        self._hook("pre_llm_call")
        for _ in range(ROUNDS):
            self._ask(host)
            self.messages.extend(talk.round())
        self._ask(host)
        self.messages.append(talk.answer())
        self._hook("post_llm_call")
        return self.spent

    def _ask(self, host: Any) -> None:
        size = host.rough(self.messages)
        self.clocked(self.engine.should_compress, size)
        self._hook("pre_api_request")
        self.clocked(self.engine.update_from_response, {"prompt_tokens": size + 9000, "completion_tokens": 200})

    def _hook(self, name: str) -> None:
        self.clocked(driving.hook, name, self.session_id, list(self.messages))


def conversation(size: int, turns: int, where: Path | None) -> dict[str, list[float]]:
    """Seconds in the plugin by condition."""
    kit.InstantModel().install()
    with home(where):
        talk = Talk(size)
        agent = Clocked(f"20260101_{size:06d}_rounds")
        agent.messages = talk.history(size)
        agent.turn([talk.user(), talk.answer()])
        beside = [agent.rounds(talk) for _ in range(turns)]
        agent.runtime.preparer.idle(300)
        quiet, loaded = [], []
        for _ in range(turns):
            quiet.append(agent.rounds(talk))
            agent.runtime.preparer.idle(300)
            agent.messages = kit.reloaded(agent.messages)
            loaded.append(agent.rounds(talk))
            agent.runtime.preparer.idle(300)
        agent.close()
    return {"beside the worker": beside, "quiet": quiet, "loaded again": loaded}


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--sizes", default="200,1000,5000")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    series: dict[tuple[str, int], list[float]] = {}
    for _ in range(2 if options.quick else 5):
        for size in sizes:
            for name, spent in conversation(size, 2 if options.quick else 4, options.where).items():
                series.setdefault((name, size), []).extend(spent)
    report = Report("rounds", f"what the plugin adds to a turn of {ROUNDS} tool rounds", options.quick)
    rows = [[name, size, *spread(spent)] for (name, size), spent in sorted(series.items())]
    report.table("Inside of hooks and engine calls, a turn", ("condition", "live messages", *SPREAD), rows)
    for name in sorted({name for name, _ in series}):
        least, most = (statistics.median(series[name, size]) for size in (sizes[0], sizes[-1]))
        report.budget(f"{name}: {sizes[-1]} live messages over {sizes[0]}", most / least, MOST)
    return report.finish(options.json)


if __name__ == "__main__":
    sys.exit(main())
