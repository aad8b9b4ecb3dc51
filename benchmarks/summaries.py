#!/usr/bin/env python3
"""
What extracts keep: the share of salient items (paths, numbers, names, dates, demands, open points) that the record of a
real transcript still holds at depth 0, 1 and 2 when no model writes it, and how large it is.

    LCM_DATA=FOLDER python benchmarks/summaries.py [--quick] [--json FILE] [--fanin N]

Per transcript: chunks as a compaction makes them, an extract of each, then extracts of every N neighbours, twice. "of messages"
counts what the messages below hold, "of children" what the records right below hold.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import kit
import material
from kit import Chat, Report

from hermes_lcm.compaction import plan
from hermes_lcm.compaction.plan import target_tokens
from hermes_lcm.config import Config
from hermes_lcm.llm.extract import digest
from hermes_lcm.llm.source import Haystack, Source, recall
from hermes_lcm.llm.verify import band
from hermes_lcm.records import SourceLine, SummaryTask
from hermes_lcm.text import content
from hermes_lcm.text.salience import Item, salient
from hermes_lcm.text.tokens import MESSAGE_OVERHEAD_TOKENS, count

DEEPEST = 2
GOALS = {0: 0.95, 1: 0.85, 2: 0.75}


class Record(NamedTuple):
    """An extract, with what is below it."""

    text: str
    hint: str
    tokens: int
    lines: tuple[SourceLine, ...]
    source_tokens: int
    raw_tokens: int
    of_children: float
    of_messages: float
    items: tuple[Item, ...]
    seconds: float
    fits: bool


def as_line(place: int, message: Chat) -> SourceLine:
    """A message as the summariser sees it."""
    calls = "".join(
        f"\n[calls {call['function']['name']}] {call['function']['arguments']}"
        for call in message.get("tool_calls") or ()
    )
    text = str(message["content"])
    size = count(text) + count(calls) + MESSAGE_OVERHEAD_TOKENS
    return SourceLine(f"msg_{place}", message["role"], (text + calls).strip(), None, message.get("tool_name"), size)


def chunks(chat: Sequence[Chat]) -> list[tuple[SourceLine, ...]]:
    """The conversation cut as a compaction with the default settings cuts it."""
    lines = [as_line(place, message) for place, message in enumerate(chat, 1)]
    units = [
        plan.Unit(
            tuple(range(group.start + 1, group.stop + 1)), sum(line.tokens for line in lines[group.start : group.stop]),
            group.role, None, group.start, group.stop, group.whole,
        )
        for group in content.groups(chat)
    ]  # fmt: skip
    config = Config()
    size = plan.chunk_tokens(config.leaf_chunk_tokens, 0, dynamic=False, dynamic_max=config.dynamic_leaf_chunk_max)
    cut = plan.chunks(units, {}, size)
    found = [tuple(lines[place - 1] for place in chunk.ids) for chunk in cut]
    return [chunk for chunk in found if sum(line.tokens for line in chunk) > plan.TINY_TOKENS]


def extract(depth: int, source_lines: tuple[SourceLine, ...], lines: tuple[SourceLine, ...]) -> Record:
    """The record of ``source_lines``, which are the messages ``lines`` or records of these."""
    size = sum(line.tokens for line in source_lines)
    task = SummaryTask(depth, source_lines, size, target_tokens(size, depth, extractive=True))
    source = Source(task)
    began = time.perf_counter()
    made = digest(source, count=count)
    seconds = time.perf_counter() - began
    items = source.items if depth == 0 else salient(Source(SummaryTask(0, lines, 0, 0)).readings)
    held = Haystack(made.text)
    tokens = count(made.text)
    return Record(
        made.text, made.hint, tokens, lines, size, sum(line.tokens for line in lines), made.recall, recall(items, held)[0],
        items, seconds, tokens <= band(task).ceiling,
    )  # fmt: skip


def levels(chat: Sequence[Chat], fanin: int) -> list[list[Record]]:
    """Records by depth; a rest of fewer than ``fanin`` is not condensed."""
    out = [[extract(0, chunk, chunk) for chunk in chunks(chat)]]
    for depth in range(1, DEEPEST + 1):
        below = out[-1]
        up: list[Record] = []
        for start in range(0, len(below) - fanin + 1, fanin):
            part = below[start : start + fanin]
            source = tuple(
                SourceLine(
                    f"part_{place}", "summary", f"{r.text}\nExpand for details about: {r.hint}", None, None, r.tokens
                )
                for place, r in enumerate(part, 1)
            )
            up.append(extract(depth, source, tuple(line for r in part for line in r.lines)))
        out.append(up)
    return out


def row(name: str, depth: int, records: Sequence[Record]) -> list[object]:
    of_messages = [r.of_messages for r in records]
    return [
        name, depth, len(records), round(statistics.mean(len(r.items) for r in records)),
        round(statistics.mean(of_messages), 3), round(min(of_messages), 3),
        round(statistics.mean(r.of_children for r in records), 3),
        round(statistics.mean(r.tokens for r in records)),
        round(sum(r.tokens for r in records) / sum(r.raw_tokens for r in records), 3),
        round(sum(r.tokens for r in records) / sum(r.source_tokens for r in records), 3),
        round(1000 * statistics.mean(r.seconds for r in records), 1),
    ]  # fmt: skip


COLUMNS = (
    "transcripts", "depth", "records", "items", "of messages", "worst", "of children", "tokens", "of raw size",
    "of source", "ms",
)  # fmt: skip


def measure(folder: Path, report: Report, fanin: int, quick: bool) -> None:
    rows: list[list[object]] = []
    every: dict[int, list[Record]] = {depth: [] for depth in GOALS}
    for name, chats in material.transcripts(folder).items():
        chat = [message for one in chats for message in one]
        for depth, records in enumerate(levels(chat[:400] if quick else chat, fanin)):
            if records:
                rows.append(row(name, depth, records))
                every[depth] += records
    rows += [row("all", depth, records) for depth, records in every.items() if records]
    report.table(
        "Salient-item recall of extracts", COLUMNS, rows, f"{fanin} records make one above; sizes are mean tokens"
    )
    for depth, records in every.items():
        if records:
            mean = statistics.mean(r.of_messages for r in records)
            report.budget(f"recall of what the messages hold, depth {depth}", mean, GOALS[depth], least=True)
    oversized = sum(not r.fits for records in every.values() for r in records)
    report.budget("extracts larger than a summary may be", oversized, 0)


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--fanin", type=int, default=Config().condensation_fanin, help="records that make one above")
    options = parser.parse_args()
    folder = kit.data_folder()
    if folder is None or not material.transcripts(folder):
        print("skipped: no transcripts (set LCM_DATA to a folder that holds some)")
        return 0
    report = Report("summaries", "what extracts of real transcripts keep, by depth", options.quick)
    measure(folder, report, options.fanin, options.quick)
    return report.finish(options.json)


if __name__ == "__main__":
    sys.exit(main())
