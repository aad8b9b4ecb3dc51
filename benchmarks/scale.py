#!/usr/bin/env python3
"""
The same work in an archive of 1,000, 10,000, 100,000 and 1,000,000 messages: what grows with the archive, and how.

    python benchmarks/scale.py [--quick] [--json FILE] [--where FOLDER] [--most 1000000]

One file is filled with sessions of 5,000 synthetic messages. Whenever it has reached a size, the same five things are measured:
keeping two new messages, the first hook of a new process, searching, one compaction of a thousand messages, and bytes on disk.
Judged is processor time at the largest size against the smallest; of a search, processor time at the largest size.
"""

from __future__ import annotations

import gc
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import kit
from driving import Agent, fresh_process, hook
from kit import InstantModel, Report, Talk, home

SIZES = (1_000, 10_000, 100_000, 1_000_000)
SESSION = 5000
LIVE = 1000  # messages of the list that new ones are added to
BACKLOG = 1000
LIMIT = 20
KINDS = ("word of few messages", "word of many messages", "path", "question")
SPREAD = ("messages", "n", "median ms", "p90 ms", "p99 ms", "most ms", "CPU ms, median")
_PATH = re.compile(r"(?:[a-z]+/)+[\w.-]+\.[a-z]{2,4}")

Timed = tuple[float, float]  # seconds on the clock, and of the processor


def cost(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Timed:
    began, processor = time.perf_counter(), time.process_time()
    function(*args, **kwargs)
    return time.perf_counter() - began, time.process_time() - processor


class Archive:
    """The file that grows."""

    def __init__(self, folder: Path, model: InstantModel) -> None:
        self.folder = folder
        self.model = model
        self.count = self.bytes = 0
        self.texts: list[str] = []
        self.sessions = 0
        self._rng = random.Random(5)
        self.agent = Agent("20260101_000000_none")

    def fill(self, count: int) -> Timed:
        """Up to so many messages; what it cost."""
        wall = processor = 0.0
        while self.count < count:
            messages = Talk(100 + self.sessions).history(min(SESSION, count - self.count))
            session = f"20250101_{self.sessions:06d}_old"
            self.agent.begin(session)
            spent = cost(hook, "pre_api_request", session, messages)
            self.agent.runtime.ingest.forget_all()  # a live list of each is no part of an archive
            wall, processor = wall + spent[0], processor + spent[1]
            texts = [kit.text_of(message) for message in messages]
            self.texts += self._rng.sample(texts, min(len(texts), 100))
            self.sessions += 1
            self.note(messages)
        return wall, processor

    def note(self, messages: Sequence[kit.Chat]) -> None:
        """So much more is stored."""
        self.count += len(messages)
        self.bytes += sum(len(kit.text_of(message).encode()) for message in messages)

    def new_session(self, kind: str) -> str:
        self.sessions += 1
        return f"20260101_{self.sessions:06d}_{kind}"

    def disk(self) -> float:
        """Megabytes of everything beside the home's own files."""
        return sum(path.stat().st_size for path in self.folder.rglob("lcm*") if path.is_file()) / 1e6


# -- what is measured at each size ---------------------------------------------------------------------------------
def keeping(archive: Archive, times: int) -> list[Timed]:
    """A tool round on a live list of a thousand messages."""
    session, talk = archive.new_session("live"), Talk(7)
    messages = talk.history(LIVE)
    hook("pre_api_request", session, messages)
    found = []
    for n in range(-3, times):
        messages += talk.round(600)[:2]
        spent = cost(hook, "pre_api_request", session, messages)
        if n >= 0:
            found.append(spent)
    archive.note(messages)
    return found


def restarting(archive: Archive, times: int) -> list[Timed]:
    """A new process opens the file and meets a stored list of a thousand messages."""
    session, messages = archive.new_session("restart"), Talk(8).history(LIVE)
    hook("pre_api_request", session, messages)
    archive.note(messages)
    found = []
    for _ in range(times):
        fresh_process()
        gc.collect()
        found.append(cost(hook, "pre_api_request", session, kit.reloaded(messages)))
    archive.agent = Agent("20260101_000000_none")
    return found


def compacting(archive: Archive, times: int) -> list[Timed]:
    """A thousand messages of a session of its own; the model's own time does not count."""
    from hermes_lcm.host import facts

    found = []
    for n in range(times):
        session, messages = archive.new_session("compact"), Talk(40 + n).history(BACKLOG)
        agent = Agent(session)
        hook("pre_api_request", session, messages)
        model = archive.model.seconds
        wall, processor = cost(agent.engine.compress, messages, current_tokens=facts.rough(messages))
        found.append((wall, processor - (archive.model.seconds - model)))
        archive.note(messages)
    archive.agent = Agent("20260101_000000_none")
    return found


def searching(archive: Archive, each: int) -> dict[str, list[Timed]]:
    """Words, paths and questions drawn from what is stored, over all sessions."""
    rng = random.Random(17)
    texts = rng.sample(archive.texts, min(len(archive.texts), 2000))
    words = [word for text in texts for word in re.findall(r"[a-z]{4,}", text)]
    often = {word: words.count(word) for word in rng.sample(words, min(len(words), 600))}
    ranked = sorted(often, key=lambda word: (often[word], word))
    sentences = [s for text in texts for s in re.findall(r"[A-Z][^.?:\n]{60,160}[.?]", text)]
    paths = sorted({path for text in texts for path in _PATH.findall(text)})
    asked = [f"what did we decide about {' '.join(rng.sample(s.rstrip('.?').split(), 6))}?" for s in sentences]
    pools = (ranked[: len(ranked) // 4], ranked[-len(ranked) // 10 :], paths, asked)
    jobs = [
        (kind, query)
        for kind, pool in zip(KINDS, pools, strict=True)
        for query in rng.sample(pool, min(each, len(pool)))
    ]
    rng.shuffle(jobs)
    found: dict[str, list[Timed]] = {kind: [] for kind in KINDS}
    archive.agent.begin(archive.new_session("search"))
    archive.agent.tool("lcm_grep", query="warm", limit=LIMIT, session_scope="all")
    for kind, query in jobs:
        found[kind].append(cost(_search, archive, query))
    return found


def _search(archive: Archive, query: str) -> None:
    answer = archive.agent.tool("lcm_grep", query=query, limit=LIMIT, session_scope="all")
    if "error" in answer:
        raise RuntimeError(f"lcm_grep({query!r}): {answer['error']}")


def measured(archive: Archive, *, quick: bool) -> dict[str, list[Timed]]:
    """All of it at the present size."""
    out = {
        "keeping two new messages": keeping(archive, 20 if quick else 200),
        "first hook of a new process": restarting(archive, 3 if quick else 15),
        "compaction of 1,000 messages": compacting(archive, 1 if quick else 5),
    }
    searches = searching(archive, 8 if quick else 50)
    return out | {f"search: {kind}": spent for kind, spent in searches.items()}


# -- telling ----------------------------------------------------------------------------------------------------------
def row(size: int, found: Sequence[Timed]) -> list[Any]:
    wall = [1000 * spent[0] for spent in found]
    return [size, len(found), statistics.median(wall), kit.at(wall, 0.9), kit.at(wall, 0.99), max(wall),
            1000 * statistics.median(spent[1] for spent in found)]  # fmt: skip


def tell(report: Report, found: dict[str, dict[int, list[Timed]]], sizes: Sequence[int]) -> None:
    small, large = sizes[0], sizes[-1]
    for name, by_size in found.items():
        rows = [row(size, by_size[size]) for size in sizes]
        report.table(name, SPREAD, rows)
        search = name.startswith("search")
        growth = rows[-1][-1] / rows[0][-1]
        if search:
            report.budget(f"{name}: CPU ms at {large}, median", rows[-1][-1], 250)
        else:
            report.budget(f"{name}: CPU at {large} by {small}", growth, 1.5)
    for title, names in (("Turns and restarts", [n for n in found if not n.startswith("search")]),
                         ("Searches over all sessions", [n for n in found if n.startswith("search")])):  # fmt: skip
        lines = {}
        for name in names:
            short = name.removeprefix("search: ")
            lines[short] = [(size, row(size, found[name][size])[-1]) for size in sizes]
        report.plot(title, "messages in the file", "processor ms, median", lines, log=True)


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--most", type=int, default=0, help="largest size (default: 1000000, quick: 10000)")
    args = parser.parse_args()
    sizes = [size for size in SIZES if size <= (args.most or (10_000 if args.quick else SIZES[-1]))]
    report = Report("scale", f"the same work in archives of {sizes[0]} to {sizes[-1]} messages", args.quick)
    found: dict[str, dict[int, list[Timed]]] = {}
    filled, disk = [], []
    settings: dict[str, object] = {"summary_spend_max_calls": 0, "background_compaction": "false",
                                   "foreground_budget_ms": 600_000}  # fmt: skip
    with home(args.where or Path(tempfile.gettempdir()), **settings) as folder:
        archive = Archive(folder, InstantModel().install())
        for size in sizes:
            before = archive.count
            wall, processor = archive.fill(size)
            if size > before:
                filled.append([size, size - before, (size - before) / wall, 1e6 * processor / (size - before)])
            disk.append(
                [size, archive.disk(), 1e6 * archive.disk() / archive.count, archive.disk() * 1e6 / archive.bytes]
            )
            for name, spent in measured(archive, quick=args.quick).items():
                found.setdefault(name, {})[size] = spent
            print(f"{size}: {time.strftime('%H:%M:%S')}", file=sys.stderr, flush=True)
        archive.agent.close()
    tell(report, found, sizes)
    report.table("Filling the file, sessions of 5,000", ("up to", "messages", "rows/s", "CPU µs each"), filled)
    report.table("Bytes on disk, log included", ("messages", "MB", "bytes each", "of text"), disk)
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
