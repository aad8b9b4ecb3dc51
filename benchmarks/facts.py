#!/usr/bin/env python3
"""
How many facts of a long conversation can be read in the first answer: questions typed verbatim into lcm_grep.

    python benchmarks/facts.py [--quick] [--json FILE] [--missed]

Needs the data (LCM_DATA, or a folder data/ in a folder shared/ beside the checkout), its folder lost/. A fact is shown when
all its keywords stand in the first 2,000 tokens (four characters each) of an answer. Some facts have keywords that no message
of theirs says (an inference: "a mix of Irish and Italian"); the second line of each answer leaves them out. The evidence of
lcm_expand_query is what its reader is given before it has taken a step.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import kit
from driving import Agent, hook
from kit import Chat, InstantModel, Report, home

import recall

CHARS = 8000
GOAL = 0.92


class Fact(NamedTuple):
    question: str
    keywords: Sequence[str]
    said: bool  # its own messages say all the keywords


def facts(rows: Sequence[Chat], meta: dict[str, Any]) -> list[Fact]:
    out = []
    for each in meta["facts"]:
        if each.get("keywords") and not each.get("compacted"):
            span = "\n".join(row["content"] for row in rows[each["message_start"] : each["message_end"]])
            out.append(Fact(each["question"], each["keywords"], recall.says(span, each["keywords"])))
    return out


def as_chat(rows: Sequence[Chat]) -> list[Chat]:
    """The conversation with roles in turn, as the host would hold it."""
    out: list[Chat] = []
    for row in rows:
        expected = "user" if not out or out[-1]["role"] == "assistant" else "assistant"
        if row["role"] != expected:
            out.append({"role": expected, "content": "Go on." if expected == "user" else "Noted."})
        out.append({"role": row["role"], "content": row["content"]})
    return out


def evidence(agent: Agent, question: str) -> str:
    """What the reader of lcm_expand_query is asked with."""
    seen: list[str] = []

    def note(*_: object, messages: Sequence[Chat] = (), **__: object) -> None:
        seen.extend(str(message["content"]) for message in messages if message["role"] == "user")

    MODEL.listener = note
    agent.tool("lcm_expand_query", prompt=question)
    MODEL.listener = None
    return seen[0] if seen else ""


class Listening(InstantModel):
    """The instant model; somebody hears what it is asked."""

    listener: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.listener is not None:
            self.listener(*args, **kwargs)
        return super().__call__(*args, **kwargs)


MODEL = Listening()


def ask_all(name: str, rows: Sequence[Chat], wanted: Sequence[Fact], where: Path) -> dict[str, list[bool]]:
    """For each kind of answer: is each fact shown?"""
    shown: dict[str, list[bool]] = {"lcm_grep, text": [], "lcm_grep, JSON": [], "lcm_expand_query, evidence": []}
    chat = as_chat(rows)
    with home(where):
        agent = Agent(f"20260101_{name}", 2_000_000)
        hook("pre_api_request", agent.session_id, chat)
        for fact in wanted:
            text = agent.engine.handle_tool_call("lcm_grep", {"query": fact.question}, session_id=agent.session_id)
            data = json.dumps(agent.tool("lcm_grep", query=fact.question), ensure_ascii=False)
            answers = (text[:CHARS], data[:CHARS], evidence(agent, fact.question))
            for kind, answer in zip(shown, answers, strict=True):
                shown[kind].append(recall.says(answer, fact.keywords))
        agent.close()
    return shown


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--missed", action="store_true", help="print the questions whose facts are not shown")
    args = parser.parse_args()
    report = Report("facts", "facts that the first answer shows", args.quick)
    folder = kit.data_folder()
    if folder is None or not (folder / "lost").is_dir():
        report.note("skipped: its data is not here (the top of benchmarks/facts.py says where it is looked for)")
        return report.finish(args.json)
    MODEL.install()
    where = args.where or Path(tempfile.gettempdir())
    lines: list[list[object]] = []
    for path in sorted((folder / "lost").glob("*_meta.json")):
        name = path.name.removesuffix("_meta.json")
        rows = json.loads((path.parent / f"{name}.json").read_text(encoding="utf-8"))
        wanted = facts(rows, json.loads(path.read_text(encoding="utf-8")))[: 6 if args.quick else None]
        said = [fact.said for fact in wanted]
        for kind, found in ask_all(name, rows, wanted, where).items():
            own = statistics.mean(f for f, s in zip(found, said, strict=True) if s)
            lines.append([f"{name}: {kind}", len(wanted), statistics.mean(found), sum(said), own])
            goal = 0.9 if "evidence" in kind else GOAL
            report.budget(f"{name}: {kind}: facts that are said", own, goal, least=True)
            for fact, f in zip(wanted, found, strict=True):
                if args.missed and fact.said and not f:
                    print(kind, "|", fact.question, fact.keywords)
    report.table("Facts shown", ("", "facts", "shown", "that are said", "of these shown"), lines)
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
