#!/usr/bin/env python3
"""
What the agent still knows in the last request of a long conversation: the exam of `/lcm exam`, per engine and mode.

    python benchmarks/exam.py [--quick] [--json FILE] [--data FOLDER] [--only REGEX]

Real transcripts (--data, or LCM_DATA; none are part of this repository) are driven through the engine with a window of 64,000
tokens and a threshold of a half; an instant model writes the summaries, or none at all ("extractive"). The host's own
compressor is given the same turns, the same threshold and the same model, and is asked the same probes; it has no search, so
what its prompt does not say is lost. No model judges. The rules that make the probes know the same kinds of lines as the
present state: read the columns beside each other, not as shares of all that was ever said.
"""

from __future__ import annotations

import os
import re
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

WINDOW, SHARE = 64_000, 0.5
KINDS = ("task", "rules", "files", "failed", "finished", "open", "values")
MODES: dict[str, dict[str, object]] = {"ours": {}, "ours, extractive": {"summary_model": "extractive"}}
BUILT_IN = "the host's compressor"
GOALS = {"in the prompt": 0.6, "extractive against a model": 0.85}


def sets(quick: bool) -> dict[str, list[list[Chat]]]:
    """Turns by name."""
    folder = kit.data_folder()
    found = material.transcripts(folder) if folder is not None else {}
    out: dict[str, list[list[Chat]]] = {}
    for chat in found.get("pi-sessions", [])[:1]:
        out["coding session"] = material.cut(chat)
    if tau := [turn for chat in found.get("tau-bench", [])[:60] for turn in material.cut(chat)]:
        out["60 airline runs"] = material.relabelled(tau)
    for n, chat in enumerate(found.get("beam", [])[: 1 if quick else 4], 1):
        out[f"chat {n}"] = material.cut(chat)
    return out


def drive(
    turns: Sequence[Sequence[Chat]], where: Path, settings: dict[str, object]
) -> tuple[dict[str, Any], list[Any]]:
    """(the exam after the last turn, its probes)."""
    from hermes_lcm.command import operator_access
    from hermes_lcm.exam import grading
    from hermes_lcm.exam.grading import probes

    InstantModel().install()
    given = {"context_threshold": SHARE, "summary_spend_max_calls": 0, "foreground_budget_ms": 600_000, **settings}
    with home(where, **given):
        agent = Agent("20260101_000000_exam", WINDOW)
        for turn in turns:
            agent.turn(turn)
            agent.runtime.preparer.idle(30)
        deps = operator_access(agent.runtime, agent.runtime.sessions.find(agent.session_id), agent.engine)
        data = grading.exam(deps)
        assert data["prompt_exact"], "another prompt was graded than the one that was sent"
        made = probes([row for rows in agent.runtime.store.row_batches() for row in rows])
        agent.close()
    return data, made


def built_in(turns: Sequence[Sequence[Chat]], made: Sequence[Any]) -> dict[str, Any]:
    """The same probes asked of the last request that the host's own compressor leaves."""
    from agent import context_compressor

    from hermes_lcm.exam.grading import Page
    from hermes_lcm.host import facts as host

    context_compressor.call_llm = InstantModel().install()
    engine = context_compressor.ContextCompressor(
        model="m", threshold_percent=SHARE, quiet_mode=True, config_context_length=WINDOW
    )
    live: list[Chat] = []
    for turn in turns:
        for message in turn:
            if message["role"] == "assistant" and engine.should_compress(host.rough(live)):
                live = list(engine.compress(live, current_tokens=host.rough(live)))
            live.append(dict(message))
    page = Page("\n\n".join(kit.text_of(message) for message in live))
    kinds: dict[str, dict[str, int]] = {}
    for probe in made:
        counts = kinds.setdefault(probe.kind, {"n": 0, "prompt": 0, "look": 0, "lost": 0})
        counts["n"] += 1
        counts["prompt" if page.says(probe) else "lost"] += 1
    every = {name: sum(each[name] for each in kinds.values()) for name in ("n", "prompt", "look", "lost")}
    return {"kinds": kinds, "all": every}


def shares(data: dict[str, Any]) -> list[Any]:
    def share(counts: dict[str, int] | None, grade: str) -> Any:
        return round(counts[grade] / counts["n"], 3) if counts and counts["n"] else ""

    every = [share(data["all"], grade) for grade in ("prompt", "look", "lost")]
    return [data["all"]["n"], *every, *(share(data["kinds"].get(kind), "prompt") for kind in KINDS)]


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--data", type=Path, help="folder of transcripts (default: LCM_DATA)")
    parser.add_argument("--only", default="", help="regular expression: sets whose name it is found in")
    args = parser.parse_args()
    if args.data is not None:
        os.environ["LCM_DATA"] = str(args.data.resolve())
    report = Report("exam", "what the agent still knows, without a model that judges", args.quick)
    grades: dict[str, list[float]] = {}
    for name, turns in sets(args.quick).items():
        if not re.search(args.only, name):
            continue
        rows, made = [], list[Any]()
        for mode, settings in MODES.items():
            data, found = drive(turns, args.where or Path(tempfile.gettempdir()), settings)
            made = made or found
            rows.append([mode, *shares(data)])
        rows.append([BUILT_IN, *shares(built_in(turns, made))])
        for row in rows:
            grades.setdefault(row[0], []).append(row[2])
        columns = ("", "probes", "in the prompt", "one look away", "lost", *KINDS)
        report.table(f"{name} ({len(turns)} turns)", columns, rows, "Kinds: share that stands in the prompt.")
    if not grades:
        report.note("skipped: no transcripts on this machine (--data FOLDER)")
        return report.finish(args.json)
    mean = {mode: statistics.fmean(of) for mode, of in grades.items()}
    report.table(
        "In the prompt, mean of all sets", ("", "share"), [[mode, round(share, 3)] for mode, share in mean.items()]
    )
    report.budget("in the prompt, mean of all sets", mean["ours"], GOALS["in the prompt"], least=True)
    report.budget(
        "extractive against a model, in the prompt",
        mean["ours, extractive"] / max(0.001, mean["ours"]),
        GOALS["extractive against a model"],
        least=True,
    )
    report.note(
        "the model here writes at once and keeps names and figures; a real one writes other summaries of like size"
    )
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
