#!/usr/bin/env python3
"""
What one long conversation costs, by settings: tokens that a provider bills, what a summariser reads, what the last request shows.

    python benchmarks/bill.py [--quick] [--json FILE] [--data FOLDER] [--only REGEX] [--beside NAME=FOLDER ...] [--kept NAME ...]

Real transcripts (--data, or LCM_DATA; none are part of this repository) are driven through the engine with an instant model;
preparation is finished between turns. Two runs may differ by a compaction: of the airline runs by 1 % of the dollars at 0.5, by
6 % with `memory`. Of each request the longest common beginning with the request before it counts as cached. Dollars: 3.00 /
0.30 / 15.00 for a million tokens read, read from the cache, written; summaries at the same prices. Tokens are characters / 4,
so only ratios mean something.

Least: what a compaction would cost that is free and leaves nothing, of a prompt that grows to the same size: no settings
cost less at that threshold.

Shown at the end: of the user's messages those of which at least 80 % of the longer words stand in the last request, and of the
error lines of tool results those that stand in it. The last request may come just behind a compaction or long after it, so the
mean over every sixth request of the last two thirds stands beside it. Thrown away: of the summaries that were written those that
no prompt has shown, nor a summary in one, and whose messages another summary of a model stands for in the last prompt; waiting:
those for the next one, which may take the place of an extract.

Other engines, driven as ``scripts/conformance`` drives them: the host's own compressor with its defaults, and plugins (--beside),
each with its defaults and at a threshold of a half. --kept: the rows of a plugin that is not at hand, from the results published
here; they follow from the transcripts and its code alone, so nothing of ours changes them.

Read per folded: tokens that summarisers read, condensing included, for each token of conversation that stands below a summary.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kit
import material
from driving import Agent
from kit import Chat, InstantModel, Report, home

from hermes_lcm.ops.presets import preset_named

PUBLISHED = Path(__file__).parent / "results" / "bill.json"
COLUMNS = ("compactions", "mean_request", "uncached_k", "cached_k", "summaries", "summary_in_k", "read_per_folded", "dollars",
           "of_defaults_off", "least_dollars", "asks", "asks_mean", "errors", "thrown_away", "waiting")  # fmt: skip
#: Settings beside the defaults.
CHOICES: dict[str, dict[str, object]] = {
    "at the threshold only": {"fold_early": "off"},
    "defaults (balanced)": {},
    "economy": dict(preset_named("economy").settings),
    "memory": dict(preset_named("memory").settings),
    "extractive": {"summary_model": "extractive"},
    "threshold 0.5": {"context_threshold": 0.5},
    "threshold 0.35": {"context_threshold": 0.35},
}
OURS_TO = ("", "at a threshold of 0.5", "defaults", "economy to its defaults", "nothing kept, at 0.5")
_READ, _CACHED, _WRITTEN = 3.0, 0.3, 15.0
_WORD = re.compile(r"\w{4,}")
_ERROR = re.compile(r"(?im)^.*\b(?:error|exception|failed|fatal|cannot|denied)\b.*$")


def sets(quick: bool) -> dict[str, tuple[int, list[list[Chat]]]]:
    """Window and turns by name."""
    folder = kit.data_folder()
    found = material.transcripts(folder) if folder is not None else {}
    out: dict[str, tuple[int, list[list[Chat]]]] = {}
    for chat in found.get("pi-sessions", [])[:1]:
        out["coding session, 200k"] = 200_000, material.cut(chat)
    tau = [turn for chat in found.get("tau-bench", [])[:40] for turn in material.cut(chat)]
    if tau:
        out["40 airline runs, 64k"] = 64_000, material.relabelled(tau)
    for n, chat in enumerate(found.get("beam", [])[: 1 if quick else 4], 1):
        out[f"chat {n}, 64k"] = 64_000, material.cut(chat)
    return out


def common(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class Meter:
    """Adds up what the provider would bill."""

    def __init__(self) -> None:
        self.last = ""
        self.cached = self.uncached = 0
        self.sizes: list[int] = []
        self.shown: list[Chat] = []

    def __call__(self, messages: Sequence[Chat]) -> None:
        blob = json.dumps(list(messages), ensure_ascii=False)
        same = common(self.last, blob)
        self.cached += same
        self.uncached += len(blob) - same
        self.sizes.append(len(blob) // 4)
        self.last, self.shown = blob, list(messages)


def known(turns: Sequence[Sequence[Chat]], request: Sequence[Chat]) -> tuple[float, float]:
    """Shares of the asks and of the error lines that a request still shows, of all turns but the last two."""
    text = " ".join(
        str(m.get("content") or "") + json.dumps(m.get("tool_calls") or "", ensure_ascii=False) for m in request
    )
    low = text.lower()
    words = set(_WORD.findall(low))
    asks = [set(_WORD.findall(str(turn[0]["content"]).lower())) for turn in turns[:-2]]
    asks = [ask for ask in asks if len(ask) >= 3]
    results = [str(m["content"]) for turn in turns[:-2] for m in turn if m["role"] == "tool"]
    errors = {line.strip()[:120].lower() for text in results for line in _ERROR.findall(text)[:3]}
    kept = [len(ask & words) >= 0.8 * len(ask) for ask in asks]
    return sum(kept) / max(1, len(kept)), sum(error in low for error in errors) / max(1, len(errors))


def drive(turns: Sequence[Sequence[Chat]], window: int, where: Path, settings: dict[str, object]) -> list[Any]:
    model, meter = InstantModel().install(), Meter()
    with home(where, summary_spend_max_calls=0, foreground_budget_ms=600_000, **settings):
        agent = Agent("20260101_000000_bill", window)
        asks_on_the_way = []
        for n, turn in enumerate(turns, 1):
            agent.turn(turn, meter)
            agent.runtime.preparer.idle(30)
            if n > len(turns) // 3 and n % 6 == 0:
                asks_on_the_way.append(known(turns[: n + 1], meter.shown)[0])
        folded = below(agent)
        many = len(agent.compactions)
        unused = fate(agent)
        agent.close()
    *tokens, money = dollars(turns, meter, model)
    asks, errors = known(turns, meter.shown)
    return [
        many, statistics.fmean(meter.sizes), *tokens, round(model.chars / 4 / folded, 3) if folded else 0.0, money, 0.0,
        least(meter.sizes, written(turns)), round(asks, 3), round(statistics.fmean(asks_on_the_way or [asks]), 3),
        round(errors, 3), *unused,
    ]  # fmt: skip


def other(
    turns: Sequence[Sequence[Chat]], window: int, where: Path, engine: str, settings: dict[str, Any]
) -> list[Any]:
    """The row of another plugin (its folder), or of the host's own compressor ("builtin")."""
    import conformance  # which needs this module

    model, meter = InstantModel().install(), Meter()
    with home(where, summary_spend_max_calls=0, **settings):
        seat = conformance.Seat(
            conformance.loaded(engine, window, settings.get("context_threshold", 0.5), model), window
        )
        asks_on_the_way = []
        for n, turn in enumerate(turns, 1):
            seat.turn(turn, meter)
            if n > len(turns) // 3 and n % 6 == 0:
                asks_on_the_way.append(known(turns[: n + 1], meter.shown)[0])
    *tokens, money = dollars(turns, meter, model)
    asks, errors = known(turns, meter.shown)
    mean_asks = round(statistics.fmean(asks_on_the_way or [asks]), 3)
    return [
        seat.compactions, statistics.fmean(meter.sizes), *tokens, "", money, 0.0, least(meter.sizes, written(turns)),
        round(asks, 3), mean_asks, round(errors, 3), "", "",
    ]  # fmt: skip


def below(agent: Agent) -> int:
    """Tokens of the messages below the last prompt's summaries."""
    dag = agent.runtime.dag
    prompts = dag.assemblies(agent.runtime.session(agent.session_id).conversation_id)
    nodes = dag.nodes(dag.nodes_below(prompts[-1].roots)) if prompts else []
    return sum(node.source_tokens for node in nodes if node.depth == 0)


def fate(agent: Agent) -> tuple[float, int]:
    """Share of a model's summaries that no prompt has shown and none will; number of those that wait for the next compaction."""
    from hermes_lcm.records import Scope

    dag, runtime = agent.runtime.dag, agent.runtime
    conversation = runtime.session(agent.session_id).conversation_id
    prompts = dag.assemblies(conversation)
    ids = runtime.scopes.newest_nodes(Scope(conversations=(conversation,)), limit=100_000)
    made = [node for node in dag.nodes(ids) if node.quality != "provisional"]
    shown = {node_id for prompt in prompts for node_id in dag.nodes_below(prompt.roots)}
    roots = dag.nodes(prompts[-1].roots) if prompts else []
    covered = set(dag.messages_below([node.node_id for node in roots if node.quality != "provisional"]))
    unused = [node for node in made if node.node_id not in shown]
    shows = set(prompts[-1].roots) if prompts else set()
    waits: set[int] = set()
    for node in sorted(unused, key=lambda node: node.depth):
        sources = dag.sources(node.node_id) if node.depth else ()
        if (sources and (shows | waits).issuperset(sources)) or (
            not node.depth and (node.first_store_id not in covered or node.replaces in shows)
        ):
            waits.add(node.node_id)
    gone = len(unused) - len(waits)
    return round(gone / max(1, len(made)), 3), len(waits)


def written(turns: Sequence[Sequence[Chat]]) -> int:
    """Characters that the model answered with."""
    return sum(len(json.dumps(m.get("tool_calls") or "")) + len(str(m.get("content") or ""))
               for turn in turns for m in turn if m["role"] == "assistant")  # fmt: skip


def least(sizes: Sequence[int], characters: int) -> float:
    """Dollars of a prompt that grows as this one did and falls to nothing, for nothing, where this one was largest."""
    grown = [max(0, size - before) for before, size in itertools.pairwise([0, *sizes])]
    size, read = 0, 0
    for growth in grown:
        size = growth if size + growth > max(sizes) else size + growth
        read += size - growth
    return round((sum(grown) * _READ + read * _CACHED + characters / 4 * _WRITTEN) / 1e6, 3)


def dollars(turns: Sequence[Sequence[Chat]], meter: Meter, model: InstantModel) -> list[Any]:
    """Thousands of tokens uncached and cached, summaries and what they read, and the bill."""
    money = (meter.uncached * _READ + meter.cached * _CACHED + written(turns) * _WRITTEN) / 4e6
    money += (model.chars * _READ + model.written * _WRITTEN) / 4e6
    return [meter.uncached // 4000, meter.cached // 4000, model.calls, model.chars // 4000, round(money, 3)]


def published(name: str, title: str) -> dict[str, list[Any]]:
    """Rows of a plugin from the published results of a set."""
    tables = json.loads(PUBLISHED.read_text(encoding="utf-8"))["tables"]
    rows = next(table["rows"] for table in tables if table["title"].startswith(name))
    return {row[0]: row[1:] for row in rows if row[0].startswith(f"{title}, ")}


def ours_to(title: str, driven: Mapping[str, Mapping[str, Sequence[Any]]]) -> list[list[Any]]:
    """Shares of another plugin's dollars by set, and their mean."""
    at = COLUMNS.index("dollars")
    out = []
    for name, made in driven.items():
        half, usual = made[f"{title}, threshold 0.5"], made[f"{title}, its defaults"]
        pairs = (made["threshold 0.5"], half), (made["defaults (balanced)"], usual), (made["economy"], usual)
        least_of_half = made["threshold 0.5"][COLUMNS.index("least_dollars")] / half[at]
        out.append([name, *(round(one[at] / other[at], 3) for one, other in pairs), round(least_of_half, 3)])
    return [
        *out,
        ["mean", *(round(statistics.fmean(column), 3) for column in zip(*(row[1:] for row in out), strict=True))],
    ]


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--data", type=Path, help="folder of transcripts (default: LCM_DATA)")
    parser.add_argument("--only", default="", help="regular expression: sets whose name it is found in")
    parser.add_argument("--beside", action="append", default=[], help="NAME=FOLDER of another plugin; repeatable")
    parser.add_argument("--kept", action="append", default=[], help="NAME of another plugin in the published results")
    args = parser.parse_args()
    if args.data is not None:
        os.environ["LCM_DATA"] = str(args.data.resolve())
    report = Report("bill", "what one long conversation costs, by settings", args.quick)
    shares: dict[str, list[float]] = {}
    where = args.where or Path(tempfile.gettempdir())
    asked = {name: of for name, of in sets(args.quick).items() if re.search(args.only, name)}
    driven = {
        name: {choice: drive(turns, window, where, settings) for choice, settings in CHOICES.items()}
        for name, (window, turns) in asked.items()
    }
    # Behind all of ours: what another plugin leaves in the process is not theirs.
    for name, (window, turns) in asked.items():
        made = driven[name]
        made["the host's compressor, its defaults"] = other(turns, window, where, "builtin", {})
        for title, _, folder in (each.partition("=") for each in args.beside):
            for choice, settings in {"its defaults": {}, "threshold 0.5": {"context_threshold": 0.5}}.items():
                made[f"{title}, {choice}"] = other(turns, window, where, folder, settings)
        for title in args.kept:
            made |= published(name, title)
        rows = []
        for choice, row in made.items():
            rows.append([choice, *row])
            rows[-1][9] = round(rows[-1][8] / rows[0][8], 3)
            shares.setdefault(choice, []).append(rows[-1][9])
        report.table(f"{name} ({len(turns)} turns)", ("", *COLUMNS), rows)
    if not shares:
        report.note("skipped: no transcripts on this machine (--data FOLDER)")
    else:
        report.table("Dollars of those without early compactions, mean of all sets", ("", "share"),
                     [[choice, round(statistics.fmean(of), 3)] for choice, of in shares.items()])  # fmt: skip
    for title in [*(each.partition("=")[0] for each in args.beside), *args.kept]:
        report.table(f"Dollars of those of {title}", OURS_TO, ours_to(title, driven))
    for title in args.kept:
        report.note(f"the rows of {title} are those of the results published before")
    report.note(
        "the model here writes at once and keeps names and figures; a real one writes other summaries of like size"
    )
    report.note(
        "least_dollars: a prompt that grows to the same size and falls to nothing, for nothing; no engine costs less at that "
        "threshold"
    )
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
