#!/usr/bin/env python3
"""
How often the first search brings the evidence: questions of public test sets typed verbatim into lcm_grep.

    python benchmarks/recall.py [--quick] [--json FILE] [--set locomo|beam|memdaily]

Needs the data (LCM_DATA, or a folder data/ in a folder shared/ beside the checkout); a set that is missing is skipped. Each
conversation is one session in a database of its own. A hit counts when it is an annotated evidence message; summaries
do not count. R@k: the share of a question's evidence among the first k messages; MRR: one over the place of the first; seen: the
share of it that can be read in the first 2,000 tokens (four characters each) of the default answer, more than 30 % of a message.
Questions that name a time are asked twice more: with the day after the last message as today, and with their times not read.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import kit
from driving import Agent, hook
from kit import SPREAD, Chat, InstantModel, Report, home, spread

GOALS = {"locomo": 0.75, "beam": 0.56, "memdaily": 0.47}
SEEN_GOALS = {"locomo": 0.88, "beam": 0.70, "memdaily": 0.75}
PLACES = (1, 5, 10, 20)
READ_CHARS, READ, SLICE = 8000, 0.3, 40
DAY_S = 86_400.0


class Doc(NamedTuple):
    name: str
    role: str
    text: str
    at: float | None = None  # when it was said, as the set tells it


class Asked(NamedTuple):
    kind: str
    question: str
    evidence: frozenset[str]


Case = tuple[str, list[Doc], list[Asked]]


def locomo(folder: Path) -> Iterator[Case]:
    kinds = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
    for path in sorted(folder.glob("*.json")):
        for chat in json.loads(path.read_text(encoding="utf-8")):
            said = chat["conversation"]
            parts = [k for k in said if k.startswith("session_") and isinstance(said[k], list)]
            docs = []
            for part in sorted(parts, key=lambda k: int(k.split("_")[1])):
                began = _moment(said.get(f"{part}_date_time", ""), "%I:%M %p on %d %B, %Y")
                for n, t in enumerate(said[part]):
                    shares = f" [shares {t['blip_caption']}]" if t.get("blip_caption") else ""
                    role = "user" if t["speaker"] == said["speaker_a"] else "assistant"
                    at = began + 60 * n if began else None
                    docs.append(Doc(t["dia_id"], role, f"{t['speaker']}: {t['text']}{shares}", at))
            yield (
                chat["sample_id"],
                docs,
                [
                    Asked(kinds.get(q["category"], "?"), q["question"], frozenset(q["evidence"]))
                    for q in chat["qa"]
                    if q.get("evidence")
                ],
            )


def beam(folder: Path) -> Iterator[Case]:
    for chat in sorted(p for p in folder.iterdir() if p.is_dir()):
        batches = json.loads((chat / "chat.json").read_text(encoding="utf-8"))
        docs = []
        day: float | None = None
        for m in (m for b in batches for turn in b["turns"] for m in turn):
            day = _moment(m.get("time_anchor") or "", "%B-%d-%Y") or day
            docs.append(Doc(str(m["id"]), m["role"], m["content"], day + 60 * len(docs) if day else None))
        asked = []
        for kind, items in json.loads((chat / "probing_questions.json").read_text(encoding="utf-8")).items():
            for q in items:
                ids = q.get("source_chat_ids") or []
                flat = ids if isinstance(ids, list) else [
                    i for v in ids.values() for i in (v if isinstance(v, list) else [v])
                ]  # fmt: skip
                if flat:
                    asked.append(Asked(kind, q["question"], frozenset(map(str, flat))))
        yield chat.name, docs, asked


def memdaily(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        items = found if isinstance(found, list) else [t for v in found.values() for t in v]
        for begin in range(0, len(items) - 49, 50):
            docs, asked = [], []
            for t in items[begin : begin + 50]:
                docs += [
                    Doc(f"{t['tid']}:{m['mid']}", "user", m["message"], _moment(m["time"][:11], "%Y年%m月%d日"))
                    for m in t["message_list"]
                ]
                asked += [
                    Asked("simple", q["question"], frozenset(f"{t['tid']}:{i}" for i in q["target_step_id"]))
                    for q in t["question_list"]
                ]
            yield f"{path.stem}_{begin}", docs, asked


def lost(folder: Path) -> Iterator[Case]:
    """Facts of a long conversation with an assistant; evidence is what says all keywords of a fact. For training only."""
    for path in sorted(folder.glob("*_meta.json")):
        name = path.name.removesuffix("_meta.json")
        rows = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        asked = []
        for fact in json.loads(path.read_text(encoding="utf-8"))["facts"]:
            span = range(fact["message_start"], fact["message_end"])
            keywords = fact.get("keywords") or ()
            evidence = frozenset(str(n) for n in span if keywords and says(rows[n]["content"], keywords))
            if evidence and not fact.get("compacted"):
                asked.append(Asked("fact", fact["question"], evidence))
        yield name, [Doc(str(n), row["role"], row["content"]) for n, row in enumerate(rows)], asked


def says(text: str, keywords: Iterable[str]) -> bool:
    """Do all of the keywords stand in a text, as words?"""
    low = text.lower()
    return all(re.search(rf"(?<!\w){re.escape(str(word).lower())}(?!\w)", low) for word in keywords)


def _moment(text: str, form: str) -> float | None:
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


SETS = {"locomo": locomo, "beam": beam, "memdaily": memdaily}


def as_chat(docs: list[Doc]) -> tuple[list[Chat], dict[int, str]]:
    """The conversation as the host would hold it (roles in turn), and which place of it is which document."""
    chat: list[Chat] = []
    places: dict[int, str] = {}
    for doc in docs:
        expected = "user" if not chat or chat[-1]["role"] == "assistant" else "assistant"
        if doc.role != expected:
            chat.append({"role": expected, "content": "go on" if expected == "user" else "ok"})
        places[len(chat)] = doc.name
        stamp = {"timestamp": doc.at} if doc.at is not None else {}
        chat.append({"role": doc.role, "content": doc.text, **stamp})
    return chat, places


class Score:
    """Sums over questions."""

    def __init__(self) -> None:
        self.n = 0
        self.at = dict.fromkeys(PLACES, 0.0)
        self.mrr = 0.0
        self.empty = 0
        self.read = 0.0

    def add(self, seen: list[str], evidence: frozenset[str], read: float) -> None:
        self.n += 1
        self.read += read
        for place in PLACES:
            self.at[place] += len(evidence & set(seen[:place])) / len(evidence)
        self.mrr += next((1 / rank for rank, name in enumerate(seen, 1) if name in evidence), 0.0)
        self.empty += not seen

    def row(self) -> list[float | int]:
        n = max(1, self.n)
        return [
            self.n,
            *(round(self.at[p] / n, 4) for p in PLACES),
            round(self.mrr / n, 4),
            round(self.empty / n, 4),
            round(self.read / n, 4),
        ]


Way = Callable[[str, float], Any]


def readings(docs: list[Doc]) -> dict[str, Way]:
    """How the times of a question are read, by name."""
    from hermes_lcm.search import dates

    read, last = dates.times_in, max((doc.at for doc in docs if doc.at), default=time.time())
    return {
        "not read": lambda *_: dates.When(),
        "today": read,
        "when it ended": lambda text, _: read(text, last + DAY_S),
    }


def ask_all(
    case: Case, where: Path, score: dict[str, Score], timed: dict[str, Score], times: list[float], most: int
) -> int:
    """All questions about one conversation; how many of its messages could be told apart."""
    from hermes_lcm.search import dates

    name, docs, asked = case
    chat, places = as_chat(docs)
    texts = {doc.name: doc.text for doc in docs}
    with home(where):
        agent = Agent(f"20260101_{name}", 2_000_000)
        hook("pre_api_request", agent.session_id, chat)
        session = agent.runtime.session(agent.session_id)
        rows = sorted(agent.runtime.store.heads([segment(session.conversation_id)]), key=lambda row: row.seq)
        ident = {row.store_id: places[at] for at, row in enumerate(rows) if at in places}
        ways = readings(docs)

        def found(question: Asked) -> list[str]:
            answer = agent.tool("lcm_grep", query=question.question, limit=40)
            hits = [
                hit.get("store_id") for hit in answer.get("results") or () if hit.get("type", "message") == "message"
            ]
            return list(dict.fromkeys(ident[i] for i in hits if i in ident))

        for question in asked[:: max(1, len(asked) // most)] if most else asked:
            began = time.perf_counter()
            seen = found(question)
            times.append(time.perf_counter() - began)
            for reading, way in ways.items() if dates.times_in(question.question, time.time()) else ():
                with patch.object(dates, "times_in", way):
                    timed.setdefault(reading, Score()).add(found(question), question.evidence, 0)
            text = agent.engine.handle_tool_call("lcm_grep", {"query": question.question}, session_id=agent.session_id)
            known = [texts[name] for name in question.evidence if name in texts]
            read = sum(shown(each, text[:READ_CHARS]) > READ for each in known) / len(question.evidence)
            for kind in ("all", question.kind):
                score.setdefault(kind, Score()).add(seen, question.evidence, read)
        agent.close()
    return len(ident)


def shown(text: str, answer: str) -> float:
    """Share of a text's slices that stand in an answer."""
    slices = [text[at : at + SLICE] for at in range(0, max(1, len(text) - SLICE // 2), SLICE)]
    return sum(each in answer for each in slices) / len(slices)


def by_reading(name: str, timed: dict[str, Score]) -> list[list[object]]:
    """The row of a set: its questions that name a time, R@10 by reading."""
    counts = [each.n for each in timed.values()][:1]
    return [[name, n, *(round(each.at[10] / n, 3) for each in timed.values())] for n in counts]


def segment(conversation_id: int) -> object:
    from hermes_lcm.session import Segment

    return Segment(conversation_id)


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--set", choices=sorted(SETS), help="only this set")
    args = parser.parse_args()
    report = Report("recall", "evidence found by the first search", args.quick)
    InstantModel().install()
    folder = kit.data_folder()
    where = args.where or Path(tempfile.gettempdir())
    rows: list[list[object]] = []
    times: list[list[object]] = []
    named: list[list[object]] = []
    for name, read in SETS.items():
        if args.set not in (None, name):
            continue
        if folder is None or not (folder / name).is_dir():
            report.note(
                f"skipped {name}: its data is not here (the top of benchmarks/recall.py says where it is looked for)"
            )
            continue
        score: dict[str, Score] = {}
        timed: dict[str, Score] = {}
        spent: list[float] = []
        messages = 0
        for n, case in enumerate(read(folder / name)):
            if args.quick and n:
                break
            messages += ask_all(case, where, score, timed, spent, 60 if args.quick else 0)
        for kind, found in sorted(score.items(), key=lambda item: (item[0] != "all", item[0])):
            if kind == "all" or len(score) > 2:
                rows.append([f"{name}: {kind}", *found.row()])
        times.append([f"{name}, {messages} messages", *spread(spent)])
        named += by_reading(name, timed)
        report.budget(f"{name}: R@10", score["all"].at[10] / max(1, score["all"].n), GOALS[name], least=True)
        report.budget(f"{name}: seen", score["all"].read / max(1, score["all"].n), SEEN_GOALS[name], least=True)
    if rows:
        columns = ("", "questions", "not read", "today is today", "today is the day after the last message")
        report.table("Evidence recall", ("", "questions", *(f"R@{p}" for p in PLACES), "MRR", "no hit", "seen"), rows)
        report.table("Time of a search that brings 40 hits", ("", *SPREAD), times)
        report.table("Questions that name a time, R@10 by what is made of it", columns, named)
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
