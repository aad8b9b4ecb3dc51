#!/usr/bin/env python3
"""
How long lcm_grep takes in an archive of 100,000 messages, beside a bare FTS5 query on the same messages.

    python benchmarks/lookup.py [--quick] [--json FILE] [--messages 100000]

Sessions of 5,000 synthetic messages of an agent at a terminal. Queries are drawn from what is stored: words of one to five
messages, words of every tenth message, whole file paths, Chinese phrases, and questions (content words of one sentence
among stop words). The bare query is MATCH ... ORDER BY rank LIMIT 20 with the texts of its hits, words joined by OR for
questions. Each query is asked of both in turns, in random order. Writing both archives is timed on the way, in turns. At the
end a thousand hostile queries (operators, quotes, NUL, surrogates, 10 kB, regex bombs) in both modes: what the worst one takes.
"""

from __future__ import annotations

import random
import re
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import kit
from driving import Agent, hook
from kit import SPREAD, Bare, InstantModel, Report, Talk, home, spread, text_of

LIMIT = 20
SESSION = 5000
KINDS = ("rare word", "common word", "path", "Chinese", "question")
_PATH = re.compile(r"(?:[a-z]+/)+[\w.-]+\.[a-z]{2,4}")
_HAN = re.compile(r"[\u4e00-\u9fff]{12,}")
_HOSTILE = (
    '"', "'", "\\", "AND", "OR OR", "NOT", "NEAR(a b", "a*", "*", "(((", ")", "^", "{a} : b", "-", "--x", "\x00", "\ud800", "😀",
    "'; DROP TABLE messages; --", "%", "_", "a" * 10_000, "a b " * 2500, "(" * 5000, '"' * 999, "数" * 3000, "a-b-c/d.e_f", "[",
    "x NEAR/5 y", "(?", "(a+)+$", "(a|a)*b", ".*.*.*.*=.*", "(?:a{0,99}){99}", "[[:alpha:]]", "^(([a-z])+.)+[A-Z]([a-z])+$",
    "x{1,99999}", "the", "src/api", "数据库", "on 3 June 2023",
)  # fmt: skip
_SENTENCE = re.compile(r"[A-Z][^.?:\n]{60,160}[.?]")


class Archive:
    """The same messages in the plugin's store and in a bare table."""

    def __init__(self, folder: Path, count: int) -> None:
        self.bare = Bare(folder / "bare.db")
        self.texts: list[str] = []
        self.chars = self.bytes = 0
        self.wrote: dict[str, list[float]] = {"plugin": [], "bare": []}
        rng = random.Random(3)
        self.agent = Agent("20260101_000000_none")
        for n in range(-(-count // SESSION)):
            messages = Talk(100 + n).history(min(SESSION, count - n * SESSION))
            session = f"20260101_{n:06d}_lookup"
            self.agent.begin(session)
            # what a session grows by between two hooks is a handful; here all at once, like the bare batch
            for name in rng.sample(["plugin", "bare"], 2):
                began = time.perf_counter()
                if name == "plugin":
                    hook("pre_api_request", session, messages)
                else:
                    self.bare.add(session, messages)
                self.wrote[name].append((time.perf_counter() - began) / len(messages))
            texts = [text_of(m) for m in messages]
            self.bytes += sum(len(t.encode()) for t in texts)
            self.texts += rng.sample(texts, min(len(texts), 1000))
            hook(
                "on_session_finalize", session, [], reason="exit"
            )  # not timed: old rows are packed, as in an archive of weeks
        self.agent.begin(self.agent.session_id)
        self.agent.engine.update_model(model="m", context_length=128_000)

    def bare_search(self, match: str) -> int:
        sql = ("SELECT m.id, m.session, m.content FROM found JOIN messages AS m ON m.id = found.rowid "
               "WHERE found MATCH ? ORDER BY rank LIMIT ?")  # fmt: skip
        return len(self.bare.db.execute(sql, (match, LIMIT)).fetchall())

    def search(self, query: str, **arguments: str) -> int:
        answer = self.agent.tool("lcm_grep", query=query, limit=LIMIT, **arguments)
        if "error" in answer:
            raise RuntimeError(f"lcm_grep({query!r}): {answer['error']}")
        return len(answer.get("results") or ())


def queries(archive: Archive, each: int) -> dict[str, list[str]]:
    """What to look for, by kind; only words whose frequency the bare index confirms."""
    rng = random.Random(17)
    total = archive.bare.db.execute("SELECT count(*) FROM messages").fetchone()[0]
    archive.bare.db.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab('main', 'found', 'row')")
    rare = [
        t for (t,) in archive.bare.db.execute("SELECT term FROM temp.terms WHERE doc BETWEEN 1 AND 5") if t.isalpha()
    ]
    common = [t for (t,) in archive.bare.db.execute(
        "SELECT term FROM temp.terms WHERE doc BETWEEN ? AND ?", (total // 20, total // 4)) if t.isalpha()]  # fmt: skip
    texts = archive.texts
    paths = sorted({p for t in rng.sample(texts, min(len(texts), 4000)) for p in _PATH.findall(t)})
    han = [p.group()[at : at + rng.randint(2, 8)] for t in texts if (p := _HAN.search(t)) for at in (rng.randrange(8),)]
    sentences = [s for t in rng.sample(texts, min(len(texts), 4000)) for s in _SENTENCE.findall(t)]
    said = [s.rstrip(".?").split() for s in sentences]
    asked = [f"what did we decide about {' '.join(rng.sample(words, min(len(words), 6)))}?" for words in said]
    found = dict(zip(KINDS, (rare, common, paths, han, asked), strict=True))
    return {kind: rng.sample(items, min(each, len(items))) for kind, items in found.items()}


def bare_match(kind: str, query: str) -> str:
    words = re.findall(r"\w+", query)
    if kind == "question":
        return " OR ".join(f'"{w}"' for w in words)
    return f'"{" ".join(words)}"'


def index_bytes(db: sqlite3.Connection, index: str) -> int:
    """What the full-text index itself takes: its segments and sizes."""
    total = 0
    for shadow, column in (("data", "block"), ("docsize", "sz")):
        total += db.execute(f"SELECT coalesce(sum(length({column}) + 8), 0) FROM {index}_{shadow}").fetchone()[0]
    return int(total)


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--messages", type=int, default=0, help="how many (default: 100000, quick: 15000)")
    args = parser.parse_args()
    count = args.messages or (15_000 if args.quick else 100_000)
    each, laps = (15, 2) if args.quick else (60, 3)
    InstantModel().install()
    report = Report("lookup", f"searching {count} stored messages", args.quick)
    with home(args.where or Path(tempfile.gettempdir())) as folder:
        archive = Archive(folder, count)
        asked = queries(archive, each)
        times, hits = measure(archive, asked, laps)
        tell(report, times, hits, count)
        hostile(report, archive, 100 if args.quick else 1000)
        sizes(report, archive, folder)
        archive.agent.close()
        archive.bare.close()
    return report.finish(args.json)


def measure(
    archive: Archive, asked: dict[str, list[str]], laps: int
) -> tuple[dict[tuple[str, ...], list[float]], dict[tuple[str, str], list[int]]]:
    rng = random.Random(23)
    times: dict[tuple[str, ...], list[float]] = {}
    hits: dict[tuple[str, str], list[int]] = {}
    ways: dict[str, Any] = {
        "lcm_grep, all sessions": lambda _, q: archive.search(q, session_scope="all"),
        "lcm_grep, this session": lambda _, q: archive.search(q),
        "bare FTS5": lambda kind, q: archive.bare_search(bare_match(kind, q)),
    }
    for lap in range(-1, laps):
        jobs = [
            (kind, q, way) for kind, items in asked.items() for q in items[: 3 if lap < 0 else None] for way in ways
        ]
        rng.shuffle(jobs)
        for kind, q, way in jobs:
            began, worked = time.perf_counter(), time.process_time()
            found = ways[way](kind, q)
            if lap >= 0:
                times.setdefault((kind, way), []).append(time.perf_counter() - began)
                times.setdefault((kind, way, "processor"), []).append(time.process_time() - worked)
                hits.setdefault((kind, way), []).append(found)
    return times, hits


def tell(report: Report, times: dict[Any, list[float]], hits: dict[Any, list[int]], count: int) -> None:
    rows = []
    for kind in KINDS:
        for way in ("lcm_grep, all sessions", "lcm_grep, this session", "bare FTS5"):
            spent = times.get((kind, way))
            if spent:
                p95 = round(1000 * kit.at(spent, 0.95), 3)
                worked = times[kind, way, "processor"]
                own = [round(1000 * value, 3) for value in (statistics.median(worked), kit.at(worked, 0.95))]
                rows.append([f"{kind}: {way}", *spread(spent), p95, *own, round(statistics.fmean(hits[kind, way]), 1)])
    report.table(
        "One search", ("", *SPREAD, "p95 ms", "processor: median ms", "p95 ms", "mean hits"), rows,
        "the tokenizer of the bare table keeps a run of Chinese as one word, so it is fast there and finds nothing",
    )  # fmt: skip
    for kind in KINDS:
        spent = times.get((kind, "lcm_grep, all sessions"))
        if spent:
            report.budget(f"{kind}: median ms", 1000 * statistics.median(spent), 25)
            report.budget(f"{kind}: p95 ms", 1000 * kit.at(spent, 0.95), 100)
            worked = times[kind, "lcm_grep, all sessions", "processor"]
            report.budget(f"{kind}: median ms of processor time", 1000 * statistics.median(worked), 25)
            report.budget(f"{kind}: p95 ms of processor time", 1000 * kit.at(worked, 0.95), 100)
    report.note(f"{count} messages in sessions of {SESSION}; limit {LIMIT}; fixed seeds")


def hostile(report: Report, archive: Archive, count: int) -> None:
    """Pieces of hostile queries glued together at random; an error is an answer, an exception is not."""
    rng = random.Random(29)
    spent: dict[str, list[float]] = {}
    for _ in range(count):
        query = rng.choice(("", " ", '"', "\n")).join(rng.choices(_HOSTILE, k=rng.randint(1, 6)))[:12_000]
        for mode in ("full_text", "regex"):
            began = time.process_time()
            archive.agent.tool("lcm_grep", query=query, mode=mode, session_scope="all")
            spent.setdefault(mode, []).append(time.process_time() - began)
    rows = [[mode, *spread(each), round(1000 * max(each), 1)] for mode, each in spent.items()]
    report.table("Hostile queries, processor time", ("", *SPREAD, "max ms"), rows)
    report.budget("hostile queries: worst, ms of processor time", 1000 * max(map(max, spent.values())), 1000)


def sizes(report: Report, archive: Archive, folder: Path) -> None:
    """Index against text, and how fast both were written."""
    path = Path(archive.agent.runtime.path)
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        db.execute("BEGIN")
        ours = index_bytes(db, "message_index")
    theirs = index_bytes(archive.bare.db, "found")
    rows = [
        ["lcm", archive.bytes, ours, ours / archive.bytes, _file(path)],
        ["bare", archive.bytes, theirs, theirs / archive.bytes, _file(folder / "bare.db")],
    ]
    report.table("Size in bytes", ("", "text", "index", "index per byte of text", "file with log"), rows)
    # All of the time: FTS5 merges what was written now and then, and the bare table does so in every fourth transaction only.
    wrote = {name: statistics.fmean(each) for name, each in archive.wrote.items()}
    report.table(
        f"Writing, {SESSION} messages in one transaction",
        ("", "n", "rows/s over all", "rows/s, median"),
        [
            [name, len(archive.wrote[name]), round(1 / seconds), round(1 / statistics.median(archive.wrote[name]))]
            for name, seconds in wrote.items()
        ],
    )
    report.budget("index: bytes per byte of text", ours / archive.bytes, 0.9)
    report.budget("writing: rows/s of the bare table", wrote["bare"] / wrote["plugin"], 0.5, least=True)


def _file(path: Path) -> int:
    return sum(p.stat().st_size for p in (path, path.with_name(path.name + "-wal")) if p.exists())


if __name__ == "__main__":
    sys.exit(main())
