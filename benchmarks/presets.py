#!/usr/bin/env python3
"""
What the shipped presets come to beside the defaults: size of requests, compactions, work for the summary model.

    python benchmarks/presets.py [--quick] [--json FILE]

One synthetic conversation of a coding agent with large tool results for each window, an instant model, no preparation ahead of
time, so that every number follows from the settings and not from the clock. Counts are the host's estimates. Repeated: leading
tokens of a request that the one before it had as well, which is what a provider's cache can serve. ops/presets.py quotes these
rows; a test compares.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import kit
from driving import Agent
from kit import Chat, InstantModel, Report, Talk, home

COLUMNS = ("compactions", "largest_request", "mean_request", "repeated_share", "summaries_written", "tokens_summarised",
           "newest_raw_messages")  # fmt: skip
#: Window, tokens of the whole conversation, presets that are meant for it.
CASES = ((272_000, 1_000_000, ("codex_gpt_long_context",)),
         (1_000_000, 1_800_000, ("large_window_balanced", "large_window_economical")))  # fmt: skip


def turns(total: int) -> list[list[Chat]]:
    """A conversation of about so many tokens: requests, tool rounds with results of some thousand characters, answers."""
    from hermes_lcm.host import facts

    talk, out, used = Talk(5), [], 0
    while used < total:
        turn = [talk.user()]
        for _ in range(talk.rng.randint(2, 8)):
            turn += talk.round(talk.rng.randint(2_000, 12_000))
        turn.append(talk.answer())
        out.append(turn)
        used += facts.rough(turn)
    return out


def settings_of(preset: str) -> dict[str, object]:
    from hermes_lcm.ops import presets

    return dict(presets.preset_named(preset).settings) if preset else {}


def leading(one: str, other: str) -> int:
    """Characters that both begin with."""
    short = min(len(one), len(other))
    return next((n for n in range(short) if one[n] != other[n]), short)


def drive(window: int, conversation: list[list[Chat]], settings: dict[str, object], where: Path) -> dict[str, float]:
    """The conversation from its first request to its last."""
    from hermes_lcm.host import facts

    model = InstantModel().install()
    fixed = {"background_compaction": "false", "summary_spend_max_calls": 0, "foreground_budget_ms": 3_600_000}
    seen: list[int] = []
    shares: list[float] = []
    last: list[Chat] = []
    raw: list[int] = []

    def request(messages: list[Chat]) -> None:
        nonlocal last
        seen.append(facts.rough(messages))
        if last:
            same = next((n for n, (a, b) in enumerate(zip(last, messages, strict=False)) if a != b), len(last))
            kept, before = facts.rough(last[:same]), seen[-2]
            if same < len(last):
                kept += leading(str(last[same].get("content") or ""), str(messages[same].get("content") or "")) // 4
            shares.append(kept / before)
        last = list(messages)

    with home(where, **fixed, **settings):
        agent = Agent("20260101_000000_presets", window)
        before = 0
        for turn in conversation:
            agent.turn(turn, request)
            if len(agent.compactions) > before:
                before = len(agent.compactions)
                raw.append(len(agent.runtime.dag.latest_assembly(1).tail_ids))
        agent.close()
    values = (before, max(seen), statistics.fmean(seen), statistics.fmean(shares), model.calls, model.chars // 4,
              statistics.fmean(raw) if raw else 0)  # fmt: skip
    return {
        name: round(value, 3) if name == "repeated_share" else round(value)
        for name, value in zip(COLUMNS, values, strict=True)
    }


def main() -> int:
    args = kit.arguments(__doc__ or "").parse_args()
    where = args.where or Path(tempfile.gettempdir())
    report = Report("presets", "the shipped presets beside the defaults", args.quick)
    for window, total, presets in CASES:
        conversation = turns(total // 5 if args.quick else total)
        size = window // 5 if args.quick else window
        rows: list[list[Any]] = []
        for preset in ("", *presets):
            found = drive(size, conversation, settings_of(preset), where)
            rows.append([preset or "defaults", *found.values()])
            print(window, preset or "defaults", found, file=sys.stderr, flush=True)
        messages = sum(map(len, conversation))
        report.table(f"Window of {size:,} tokens, conversation of {messages:,} messages", ("", *COLUMNS), rows)
    report.note(
        "the model here writes at once and keeps names and figures; a real one writes other summaries of like size"
    )
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
