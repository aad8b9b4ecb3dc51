#!/usr/bin/env python3
"""
How much of a request's beginning is still the beginning of the next one, by what broke it: what a provider's cache can keep.

    python benchmarks/prefix.py [--quick] [--json FILE] [--compactions 20] [--window 64000]

A long conversation (real transcripts where there are any), an instant model, preparation switched on and finished between turns.
Two requests that follow each other are compared text by text. Share: leading tokens of the earlier request that stay, of all its
tokens; system prompt and tool schemas, which never change, are left out. "Of the summaries": the same for the context message
alone, which is all that a swap could keep.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kit
import material
from driving import Agent
from kit import Chat, InstantModel, Report, home

CAUSES = (
    "no compaction",
    "first swap",
    "swap, nodes added",
    "swap, node repaired",
    "swap, nodes condensed",
    "swap, nodes as before",
)


def printed(message: Chat) -> str:
    return json.dumps(message, ensure_ascii=False, sort_keys=True)


def sizes(before: Sequence[Chat], after: Sequence[Chat]) -> tuple[int, int]:
    """Tokens of a request, and how many of them, from the start, the next request repeats."""
    from hermes_lcm.text import tokens

    total = sum(tokens.count(printed(m)) for m in before)
    kept = 0
    for old, new in zip(before, after, strict=False):
        one, other = printed(old), printed(new)
        if one != other:
            return total, kept + tokens.count(_same(str(old.get("content") or ""), str(new.get("content") or "")))
        kept += tokens.count(one)
    return total, kept


def _same(one: str, other: str) -> str:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return one[:low]


class Watch:
    """Compares each request with the one before it."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.last: list[Chat] = []
        self.roots: tuple[int, ...] | None = None
        self.passes = 0
        self.found: dict[str, list[tuple[float, float | None]]] = {}

    def __call__(self, messages: list[Chat]) -> None:
        roots = self._roots(messages)
        if self.last:
            cause = self._cause(roots)
            total, kept = sizes(self.last, messages)
            summaries = None
            if self.roots is not None and roots is not None:
                whole, same = sizes(self.last[:1], messages[:1])
                summaries = same / whole
            self.found.setdefault(cause, []).append((kept / total, summaries))
        self.last, self.roots, self.passes = list(messages), roots, len(self.agent.compactions)

    def _roots(self, messages: Sequence[Chat]) -> tuple[int, ...] | None:
        from hermes_lcm.text import markup

        context = markup.read_context(str(messages[0].get("content") or ""))
        found = self.agent.runtime.dag.assembly(context.assembly_id) if context is not None else None
        return tuple(found.roots) if found is not None else None

    def _cause(self, roots: tuple[int, ...] | None) -> str:
        if self.passes == len(self.agent.compactions):
            return "no compaction"
        if self.roots is None or roots is None:
            return "first swap"
        if roots[: len(self.roots)] == self.roots:
            return "swap, nodes added" if len(roots) > len(self.roots) else "swap, nodes as before"
        depths = {node.node_id: node.depth for node in self.agent.runtime.dag.nodes([*self.roots, *roots])}
        gone, come = ({depths[i] for i in set(a) - set(b)} for a, b in ((self.roots, roots), (roots, self.roots)))
        return "swap, nodes condensed" if gone and come and max(come) > min(gone) else "swap, node repaired"


def mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--compactions", type=int, default=0, help="how many (default: 20, quick: 8)")
    parser.add_argument("--window", type=int, default=64_000, help="the model's context window")
    args = parser.parse_args()
    wanted = args.compactions or (8 if args.quick else 20)
    InstantModel().install()
    report = Report("prefix", "what one request leaves of the one before it", args.quick)
    turns, made_of = material.turns(wanted * 60)
    with home(args.where or Path(tempfile.gettempdir()), summary_spend_max_calls=0, foreground_budget_ms=600_000):
        agent = Agent("20260101_000000_prefix", args.window)
        watch = Watch(agent)
        used = 0
        for turn in turns:
            if len(agent.compactions) >= wanted:
                break
            agent.turn(turn, watch)
            agent.runtime.preparer.idle(30)
            used += 1
        done = len(agent.compactions)
        agent.close()
    _tell(report, watch.found)
    report.note(f"{done} compactions in {used} turns of {made_of}; window {args.window}")
    return report.finish(args.json)


def _tell(report: Report, found: dict[str, list[tuple[float, float | None]]]) -> None:
    rows: list[list[Any]] = []
    for cause in [*CAUSES, *sorted(set(found) - set(CAUSES))]:
        pairs = found.get(cause)
        if pairs:
            shares = [share for share, _ in pairs]
            context = [share for _, share in pairs if share is not None]
            broken = sum(share < 1 for share in shares)
            rows.append([cause, len(pairs), broken, mean(shares), min(shares), mean(context) if context else "-"])
    report.table(
        "Leading tokens of a request that the next one repeats, by what lay between them",
        ("between them", "requests", "broken", "mean share", "least", "of the summaries"), rows,
    )  # fmt: skip
    swaps = [share for cause, pairs in found.items() if cause != "no compaction" for share, _ in pairs]
    still = [share for share, _ in found.get("no compaction", [])]
    report.table(
        "All together", ("", "requests", "mean share"),
        [["requests behind a compaction", len(swaps), mean(swaps)], ["all other requests", len(still), mean(still)],
         ["all requests", len(swaps) + len(still), mean([*swaps, *still])]],
    )  # fmt: skip
    report.budget("requests broken without a compaction", sum(share < 1 for share in still), 0)


if __name__ == "__main__":
    sys.exit(main())
