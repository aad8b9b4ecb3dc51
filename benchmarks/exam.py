#!/usr/bin/env python3
"""
What the agent still knows in the last request of a long conversation: the exam of `/lcm exam`, per engine and mode.

    python benchmarks/exam.py [--quick] [--json FILE] [--data FOLDER] [--only REGEX] [--beside NAME=FOLDER ...]

Real transcripts (--data, or LCM_DATA; none are part of this repository) are driven through the engine with a window of 64,000
tokens and a threshold of a half; an instant model writes the summaries, or none at all ("extractive"). The host's own
compressor is given the same turns, the same threshold (which it raises to 0.85 of such a window) and the same model, and is
asked the same probes; it has no search, so what its prompt does not say is lost. So are other plugins (--beside), driven as
``scripts/conformance`` drives them: one look is the default answer of their own search, asked in the last request only, since
it may take seconds.

Each is graded in the last request, and in the first one after every compaction: a last request shows more or less with where
its last compaction happened to fall. Summaries that are prepared beside the turns are finished before each request, as they
are where a model takes seconds to answer. No model judges. The rules that make the probes know the same kinds of lines as the
present state: read the columns beside each other, not as shares of all that was ever said.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import conformance
import kit
import material
from driving import Agent
from kit import Chat, InstantModel, Report, home

WINDOW, SHARE = 64_000, 0.5
KINDS = ("task", "rules", "files", "failed", "finished", "open", "values")
MODES: dict[str, dict[str, object]] = {"ours": {}, "ours, extractive": {"summary_model": "extractive"}}
BUILT_IN = "the host's compressor=builtin"
GRADES = ("n", *conformance.GRADES)
Grades = dict[str, dict[str, int]]
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


def drive(turns: Sequence[Sequence[Chat]], where: Path, settings: dict[str, object]) -> tuple[list[Grades], list[Any]]:
    """(the exam after each compaction and after the last turn, all stored messages)."""
    from hermes_lcm.command import operator_access
    from hermes_lcm.exam import grading

    InstantModel().install()
    given = {"context_threshold": SHARE, "summary_spend_max_calls": 0, "foreground_budget_ms": 600_000, **settings}
    graded: list[Grades] = []

    def grade() -> None:
        deps = operator_access(agent.runtime, agent.runtime.sessions.find(agent.session_id), agent.engine)
        data = grading.exam(deps)
        assert data["prompt_exact"], "another prompt was graded than the one that was sent"
        graded.append({**data["kinds"], "all": data["all"]})

    def after_compaction(_: list[Chat]) -> None:
        if len(agent.compactions) > len(graded):
            grade()

    with home(where, **given):
        agent = Agent("20260101_000000_exam", WINDOW, settled=True)
        for turn in turns:
            agent.turn(turn, after_compaction)
        grade()
        stored = [row for rows in agent.runtime.store.row_batches() for row in rows]
        agent.close()
    return graded, stored


def other(turns: Sequence[Sequence[Chat]], stored: Sequence[Any], engine: str, where: Path) -> list[Grades]:
    """The same probes asked of another plugin (its folder), or of the host's own compressor ("builtin")."""
    from hermes_lcm.exam.probes import probes

    graded: list[Grades] = []
    with home(where, context_threshold=SHARE, summary_spend_max_calls=0):
        InstantModel().install()
        seat = conformance.Seat(conformance.loaded(engine, WINDOW, SHARE), WINDOW)
        said = 0
        for turn in turns:
            replies = iter(n for n, message in enumerate(turn) if message["role"] == "assistant")

            def before_request(_: Sequence[Chat], said: int = said, replies: Iterator[int] = replies) -> None:
                reply = next(replies)
                if seat.compactions > len(graded):
                    graded.append(conformance.grades(seat, probes(stored[: said + reply]), asked=False))

            seat.turn(turn, before_request)
            said += len(turn)
        graded.append(conformance.grades(seat, probes(stored)))
    return graded


def summed(graded: Sequence[Grades]) -> Grades:
    """Counts of several exams as one."""
    out: Grades = {}
    for grades in graded:
        for kind, counts in grades.items():
            total = out.setdefault(kind, dict.fromkeys(GRADES, 0))
            for name in GRADES:
                total[name] += counts[name]
    return out


def shares(grades: Grades) -> list[Any]:
    def share(counts: dict[str, int] | None, grade: str) -> Any:
        return round(counts[grade] / counts["n"], 3) if counts and counts["n"] else ""

    counts = grades["all"]
    looked = sum(counts[grade] for grade in GRADES[1:]) == counts["n"]
    every = [share(counts, grade) if looked or grade == "prompt" else "" for grade in GRADES[1:]]
    return [counts["n"], *every, *(share(grades.get(kind), "prompt") for kind in KINDS)]


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--data", type=Path, help="folder of transcripts (default: LCM_DATA)")
    parser.add_argument("--only", default="", help="regular expression: sets whose name it is found in")
    parser.add_argument("--beside", action="append", default=[], help="NAME=FOLDER of another plugin; repeatable")
    args = parser.parse_args()
    if args.data is not None:
        os.environ["LCM_DATA"] = str(args.data.resolve())
    report = Report("exam", "what the agent still knows, without a model that judges", args.quick)
    last: dict[str, list[float]] = {}
    each: dict[str, list[float]] = {}
    where = args.where or Path(tempfile.gettempdir())
    asked = {name: turns for name, turns in sets(args.quick).items() if re.search(args.only, name)}
    driven = {name: {mode: drive(turns, where, of) for mode, of in MODES.items()} for name, turns in asked.items()}
    # Behind all of ours: what another plugin leaves in the process is not theirs.
    for name, turns in asked.items():
        found = {mode: graded for mode, (graded, _) in driven[name].items()}
        for title, _, engine in (each.partition("=") for each in [BUILT_IN, *args.beside]):
            found[title] = other(turns, driven[name]["ours"][1], engine, where)
        rows, between = [], []
        for mode, graded in found.items():
            rows.append([mode, *shares(graded[-1])])
            between.append([mode, len(graded) - 1, *shares(summed(graded[:-1]))[1:]])
            last.setdefault(mode, []).append(rows[-1][2])
            each.setdefault(mode, []).append(between[-1][2])
        columns = ("in the prompt", "one look away", "lost", *KINDS)
        title = f"{name} ({len(turns)} turns)"
        report.table(
            f"{title}, last request", ("", "probes", *columns), rows, "Kinds: share that stands in the prompt."
        )
        report.table(f"{title}, after each compaction", ("", "compactions", *columns), between)
    if not last:
        report.note("skipped: no transcripts on this machine (--data FOLDER)")
        return report.finish(args.json)
    mean = {mode: (statistics.fmean(of), statistics.fmean(each[mode])) for mode, of in last.items()}
    report.table(
        "In the prompt, mean of all sets",
        ("", "last request", "after each compaction"),
        [[mode, *(round(share, 3) for share in both)] for mode, both in mean.items()],
    )
    for n, when in enumerate(("in the last request", "after each compaction")):
        ours, extractive = mean["ours"][n], mean["ours, extractive"][n]
        report.budget(f"in the prompt, {when}", ours, GOALS["in the prompt"], least=True)
        against = extractive / max(0.001, ours)
        report.budget(f"extractive against a model, {when}", against, GOALS["extractive against a model"], least=True)
    report.note(
        "the model here writes at once and keeps names and figures; a real one writes other summaries of like size"
    )
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
