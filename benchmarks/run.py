#!/usr/bin/env python3
"""
All benchmarks, one after the other, each in a process of its own; then docs/benchmarks.md and docs/plots/ from what they wrote.

    scripts/bench [--quick] [--only NAME,NAME] [--docs] [--where FOLDER]

Raw output: benchmarks/results/NAME.txt and NAME.json (with --quick: results/quick/, which no page is made of). A benchmark that
fails leaves its old results alone. --docs only writes the page again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import plots

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
PAGE = HERE.parent / "docs" / "benchmarks.md"
TUNING = HERE.parent / "docs" / "tuning.md"
PLOTS = HERE.parent / "docs" / "plots"
NO_BENCHMARKS = {"run", "kit", "driving", "material", "plots", "conformance", "hosted"}
TITLES = {
    "ingest": "Keeping messages", "compress": "Compaction", "turns": "Compaction while turns keep coming",
    "prefix": "What a compaction leaves of the prompt", "summaries": "Summaries", "recall": "Recall",
    "facts": "Facts of a long conversation", "exam": "What the agent still knows",
    "proactive": "Recall that nobody asked for",
    "languages": "Words in other forms",
    "train_ranking": "The ranking, for conversations that it was not trained on",
    "situations": "A small model before the tools", "semantic": "Ranking by meaning", "lookup": "Search",
    "loading": "Loading", "tokens": "Token estimate", "disk": "Disk", "scale": "From a thousand to a million messages",
    "soak": "A hundred thousand messages in one session", "adoption": "Taking over other archives",
    "operators": "Operators' commands", "beside": "Operators' commands beside a turn",
    "presets": "Presets", "bill": "The bill", "huge_message": "A huge message",
    "fleet": "Several hosts on one server", "rounds": "Tool rounds", "redaction": "False alarms of redaction",
    "million": "Search in a million messages", "weak_model": "A small model on this machine",
    "outages": "Outages", "crowd": "Thirty chats at once", "memory": "Memory of a process that takes in a million",
    "pairs": "Beside an earlier release", "retention": "Forgetting by age",
}  # fmt: skip
HOW = """## How to run them again

```sh
scripts/bench                 # all of them: two hours on two shared processors; a benchmark that fails keeps its old results
scripts/bench --quick         # small sizes, minutes; results go to benchmarks/results/quick/, and no page is written
scripts/bench --only soak     # one or some of them, and the page
scripts/bench --docs          # no measuring: the page and its plots from the results that are there
```

Each script is a program of its own as well: `.venv/bin/python benchmarks/scale.py --help`. The first lines of its file say
what it measures and how. `--where FOLDER` puts the temporary databases on another disk.
"""
HEAD = """# Benchmarks

<!-- Written by scripts/bench from benchmarks/results/*.json; do not edit. -->

Every figure below is copied from a raw output file in `benchmarks/results/`. `scripts/bench` measures all of them again and
writes this page; `scripts/bench --quick` is a smaller run that leaves the page alone. Seeds are fixed. Real transcripts and
question sets are not part of this repository (the top of `benchmarks/recall.py` says where they are looked for); what needs
them is skipped without.

Times depend on the machine, and this one was shared: read the ratios, which compare two things measured in turns in one run,
before the milliseconds. Budgets that were missed are shown as missed.
"""


def names() -> list[str]:
    found = {path.stem for path in HERE.glob("*.py")} - NO_BENCHMARKS
    return sorted(found, key=lambda name: (list(TITLES).index(name) if name in TITLES else len(TITLES), name))


def measure(name: str, folder: Path, arguments: list[str]) -> bool:
    """Run one; its results replace the old ones only when it succeeds."""
    fresh = folder / f"{name}.json.new"
    command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(fresh), *arguments]
    print(f"\n== {name}", flush=True)
    began = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=HERE)
    print(done.stdout, end="")
    print(
        f"== {name}: {'done' if done.returncode == 0 else f'FAILED ({done.returncode})'} in {time.monotonic() - began:.0f} s"
    )
    if done.returncode != 0 or not fresh.exists():
        fresh.unlink(missing_ok=True)
        return False
    (folder / f"{name}.txt").write_text(done.stdout, encoding="utf-8")
    fresh.replace(folder / f"{name}.json")
    return True


def page() -> str:
    """The page from the raw files."""
    reports = [json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
               for name in names() if (RESULTS / f"{name}.json").exists()]  # fmt: skip
    out = [HEAD, "## Budgets", ""]
    rows = [[f"[{r['name']}](#{_anchor(r['name'])})", b["what"], b["value"], b["limit"], "holds" if b["holds"] else "**missed**"]
            for r in reports for b in r["budgets"]]  # fmt: skip
    out += _table(["benchmark", "what", "measured", "limit", ""], rows)
    for report in reports:
        out += ["", f"## {TITLES.get(report['name'], report['name'])}", "", *_about(report)]
        out += [*markdown(report), *_plots(report)]
    return "\n".join([*out, "", HOW]).rstrip() + "\n"


SETTINGS = {
    "none set": "defaults (balanced)", "0.75": "at the threshold only", "0.5": "threshold 0.5", "0.35": "threshold 0.35",
    "`economy`": "economy", "`balanced` (the defaults)": "defaults (balanced)", "`memory`": "memory",
    "`LCM_SUMMARY_MODEL=extractive`": "extractive",
}  # fmt: skip


def tuning(text: str, bill: dict[str, Any]) -> str:
    """The page with its tables of what a conversation costs, from the raw file of ``bill.py``."""
    shown: dict[str, list[list[Any]]] = {"threshold": [], "preset": []}
    for table in bill["tables"]:
        if "compactions" not in table["columns"]:
            continue
        found = {row[0]: dict(zip(table["columns"][1:], row[1:], strict=True)) for row in table["rows"]}
        for name, of in SETTINGS.items():
            row = found[of]
            asks = [row[key] for key in ("asks", "asks_mean") if key in row]
            figures = [
                row["compactions"],
                row["dollars"],
                row["of_defaults_off"],
                " / ".join(f"{each:.2f}" for each in asks),
            ]
            shown["preset" if name[0] == "`" else "threshold"].append(
                [table["title"].partition(" (")[0], name, *figures]
            )
    for kind, rows in shown.items():
        head = [
            "conversation, window",
            kind,
            "compactions",
            "dollars",
            "of those at 0.75",
            "asks: at the end / on the way",
        ]
        marks = f"<!-- {kind}s: benchmarks/run.py -->", f"<!-- {kind}s end -->"
        before, rest = text.split(marks[0])
        text = "\n".join([before + marks[0], "", *_table(head, rows), "", marks[1] + rest.split(marks[1])[1]])
    return text


def markdown(report: dict[str, Any]) -> list[str]:
    """Tables and notes of a report."""
    out: list[str] = []
    for table in report["tables"]:
        out += ["", f"**{table['title']}**", "", *_table(table["columns"], table["rows"])]
        out += ["", table["note"].replace("\n", " ")] if table["note"] else []
    return [*out, "", *(f"- {note}" for note in report["notes"])] if report["notes"] else out


def _plots(report: dict[str, Any]) -> list[str]:
    """Drawn anew where matplotlib is there; else those of the last time."""
    if plots.available():
        names = plots.draw(report, PLOTS)
    else:
        names = [plots.file_name(report, number) for number in range(len(report.get("plots", ())))]
        names = [name for name in names if (PLOTS / name).exists()]
    titles = [plot["title"] for plot in report.get("plots", ())]
    return [line for name, title in zip(names, titles, strict=False) for line in ("", f"![{title}](plots/{name})")]


def _about(report: dict[str, Any]) -> list[str]:
    machine = report["machine"]
    load = f"load average {machine['load before']} before and {machine['load after']} after"
    raw = f"results/{report['name']}.txt"
    where = f"Python {machine['python']}, SQLite {machine['sqlite']}, {machine['processors']} processors"
    about = f"`benchmarks/{report['name']}.py`: {report['about']}. Raw: [{raw}](../benchmarks/{raw})."
    return [f"{about} {where}, {load}; {report['seconds']:.0f} s."]


def _anchor(name: str) -> str:
    """As GitHub makes it: punctuation goes, blanks become hyphens."""
    return re.sub(r"[^\w\- ]", "", TITLES.get(name, name).lower()).replace(" ", "-")


def _table(columns: list[str], rows: list[list[Any]]) -> list[str]:
    from kit import shown

    figures = [all(isinstance(row[n], (int, float)) for row in rows) for n in range(len(columns))]
    head = [f"| {' | '.join(columns)} |", f"|{'|'.join('---:' if right else '---' for right in figures)}|"]
    return [*head, *(f"| {' | '.join(shown(cell).replace('|', '/') for cell in row)} |" for row in rows)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes; results go to results/quick/")
    parser.add_argument("--only", default="", help=f"of {', '.join(names())}")
    parser.add_argument(
        "--docs", action="store_true", help="measure nothing, write the page from the results that are there"
    )
    parser.add_argument("--where", help="folder for temporary databases (on the disk to be measured)")
    args = parser.parse_args()
    folder = RESULTS / "quick" if args.quick else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in args.only.split(",") if name] or names()
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(names())}")
    arguments = [*(["--quick"] if args.quick else []), *(["--where", args.where] if args.where else [])]
    failed = [] if args.docs else [name for name in wanted if not measure(name, folder, arguments)]
    if not args.quick:
        PAGE.write_text(page(), encoding="utf-8")
        bill = json.loads((RESULTS / "bill.json").read_text(encoding="utf-8"))
        TUNING.write_text(tuning(TUNING.read_text(encoding="utf-8"), bill), encoding="utf-8")
        drawn = "" if plots.available() else "; plots are those of the last time (scripts/setup-env plots)"
        print(f"\nwritten: {os.path.relpath(PAGE)}{drawn}")
    if failed:
        print(f"FAILED: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
