#!/usr/bin/env python3
"""
Proactive recall, measured before it is built: would two lines behind the user's message pay?

    python benchmarks/proactive.py [--quick] [--json FILE] [--data FOLDER] [--only REGEX]

Real transcripts (--data, or LCM_DATA; none are part of this repository) are driven through the engine at 64,000 tokens. A turn
asks for something that was folded away when two or more words of the user's message stand neither in the prompt nor in a
common word list, and one message that the prompt does not show has at least half of them. The two best lines of such
messages, 200 tokens together, would stand behind the user's message in the first request of the turn. "used": turns whose
real reply has a name, number or path that only these lines had; "by chance": that the lines of the turn before had. Probes of
the exam that the prompt does not answer are typed as messages, too: "answered" by the two lines. Money: the meter of
``bill``, with the lines and without.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bill
import kit
from driving import Agent
from kit import Chat, InstantModel, Report, home

import exam

COLUMNS = ("turns with summaries", "with lines", "used", "by chance", "tokens a line pair", "probes", "asked", "answered",
           "dollars without", "dollars with", "dearer by")  # fmt: skip
_LINES, _TOKENS = 2, 200
_WORD = re.compile(r"[^\W_]{4,}")
_LEAST_WORDS, _LEAST_SHARE = 2, 0.5


@dataclass(slots=True)
class Tally:
    """What a conversation showed."""

    turns: int = 0
    added: int = 0
    used: int = 0
    chance: int = 0
    before: str = ""
    chars: int = 0
    meters: tuple[bill.Meter, bill.Meter] = field(default_factory=lambda: (bill.Meter(), bill.Meter()))

    def adds(self, lines: str, turn: Sequence[Chat], request: str) -> None:
        """Lines stand behind the user's message: does the real reply name what only they have?"""
        from hermes_lcm.text import salience

        reply = salience.terms(" ".join(kit.text_of(each) for each in turn[1:] if each["role"] == "assistant"))
        fresh = [key for key in reply if key not in request]
        self.added, self.chars = self.added + 1, self.chars + len(lines)
        self.used += any(key in lines.lower() for key in fresh)
        self.chance += any(key in self.before for key in fresh)
        self.before = lines.lower()


def rare(message: str, prompt: str) -> set[str]:
    """Words of a message that the prompt does not say."""
    from hermes_lcm.search.query import STOP_WORDS

    return {word for word in _WORD.findall(message.lower()) if word not in STOP_WORDS and word not in prompt}


def lines(agent: Agent, message: str, prompt: str) -> str:
    """The two best lines of what was folded away; "" where the message asks for nothing of it."""
    wanted = rare(message, prompt)
    if len(wanted) < _LEAST_WORDS:
        return ""
    found = agent.tool("lcm_grep", query=message[:400]).get("results", [])
    said = [each["snippet"] for each in found if each["type"] == "message" and not each.get("in_prompt")]
    # The message itself is stored already, and no part of a prompt yet.
    folded = [text for text in said if text.strip("…")[:60] not in message]
    fitting = [
        text
        for text in folded
        if sum(word in text.lower() for word in wanted) >= max(_LEAST_WORDS, _LEAST_SHARE * len(wanted))
    ]
    room = _TOKENS * 4 // _LINES
    return "\n".join(text[:room] for text in fitting[:_LINES])


def said(messages: Sequence[Chat]) -> str:
    return "\n".join(f"{kit.text_of(message)} {message.get('tool_calls') or ''}" for message in messages).lower()


def drive(turns: Sequence[Sequence[Chat]], where: Path) -> list[Any]:
    model, tally = InstantModel().install(), Tally()
    with home(where, context_threshold=0.5, summary_spend_max_calls=0, foreground_budget_ms=600_000):
        agent = Agent("20260101_000000_proactive", 64_000)
        for turn in turns:
            first = True

            def request(messages: Sequence[Chat], turn: Sequence[Chat] = turn) -> None:
                nonlocal first
                plain = [dict(message) for message in messages]
                tally.meters[0](plain)
                if first and agent.compactions:
                    tally.turns += 1
                    if added := lines(agent, kit.text_of(turn[0]), said(plain[:-1])):
                        tally.adds(added, turn, said(plain))
                        plain[-1] = {**plain[-1], "content": f"{kit.text_of(plain[-1])}\n\n{added}"}
                first = False
                tally.meters[1](plain)

            agent.turn(turn, request)
            agent.runtime.preparer.idle(30)
        probes, asked, answered = ask(agent)
        agent.close()
    without, with_ = (bill.dollars(turns, meter, model)[-1] for meter in tally.meters)
    return [
        tally.turns, tally.added, tally.used, tally.chance, round(tally.chars / 4 / max(1, tally.added)), probes, asked, answered,
        without, with_, round(with_ / without - 1, 4),
    ]  # fmt: skip


def ask(agent: Agent) -> tuple[int, int, int]:
    """(probes that the prompt does not answer, for how many lines would be added, how many of these the lines answer)."""
    from hermes_lcm.exam.grading import Page
    from hermes_lcm.exam.probes import probes

    prompt = said(agent.messages)
    page = Page(prompt)
    made = probes([row for rows in agent.runtime.store.row_batches() for row in rows])
    missing = [probe for probe in made if not page.says(probe)]
    added = [(probe, text) for probe in missing if (text := lines(agent, probe.question, prompt))]
    return len(missing), len(added), sum(Page(text).says(probe) for probe, text in added)


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--data", type=Path, help="folder of transcripts (default: LCM_DATA)")
    parser.add_argument("--only", default="", help="regular expression: sets whose name it is found in")
    args = parser.parse_args()
    if args.data is not None:
        os.environ["LCM_DATA"] = str(args.data.resolve())
    report = Report("proactive", "would two lines of what was folded away pay, behind the user's message?", args.quick)
    rows = [
        [name, *drive(turns, args.where or Path(tempfile.gettempdir()))]
        for name, turns in exam.sets(args.quick).items()
        if re.search(args.only, name)
    ]
    if rows:
        report.table("By conversation", ("", *COLUMNS), rows)
        turns, added, used = (sum(row[n] for row in rows) for n in (1, 2, 3))
        report.note(
            f"not built: lines would stand in {added} of {turns} turns, and {used} replies used them; what they answer, one "
            "search answers too."
        )
    else:
        report.note("skipped: no transcripts on this machine (--data FOLDER)")
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
