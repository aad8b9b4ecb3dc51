#!/usr/bin/env python3
"""
How often redaction takes away what is no secret: real transcripts, message by message.

    python benchmarks/redaction.py [--json FILE] [--show]

Reads the folder that ``kit.data_folder`` names. Every message that redaction changes counts as a false alarm; ``--show`` prints
what it lost, so that a reader can judge. The report holds no word of the transcripts.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kit
from kit import Report
from material import transcripts

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / ".lcm-path"))

from hermes_lcm.ingest.filters import clean_message
from hermes_lcm.text import content
from hermes_lcm.text.redact import Redactor
from hermes_lcm.text.secret_kinds import DEFAULT

MOST = 1 / 10_000
_DONE = re.compile(r"\[redacted:(\w+)")


def messages(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(source, message) of everything that was said there."""
    for name, chats in transcripts(folder).items():
        yield from ((name, dict(message)) for chat in chats for message in chat)
    for name in ("locomo", "memdaily", "lost"):
        for path in sorted((folder / name).glob("*.json")):
            yield from (
                (name, {"role": "user", "content": text}) for text in _texts(json.loads(path.read_text("utf-8")))
            )


def _texts(data: Any) -> Iterator[str]:
    """The words of messages wherever they stand in a data set's own form."""
    if isinstance(data, dict):
        for key, value in data.items():
            if key in ("text", "message", "content") and isinstance(value, str):
                yield value
            else:
                yield from _texts(value)
    elif isinstance(data, list):
        for item in data:
            yield from _texts(item)


def measured(folder: Path, names: tuple[str, ...], show: bool) -> dict[str, Any]:
    """How many messages there are, how many lose something, and of which kinds that is."""
    redactor, total, lost, kinds = Redactor(names), Counter[str](), Counter[str](), Counter[str]()
    for source, message in messages(folder):
        total[source] += 1
        clean = clean_message(message, redactor)
        if clean != message:
            lost[source] += 1
            text = content.encode(clean)[0]
            kinds.update(_DONE.findall(text))
            if show:
                print(source, [text[max(0, m.start() - 90) : m.end() + 40] for m in _DONE.finditer(text)])
    count = sum(total.values())
    return {
        "kinds": ",".join(names), "messages": count, "changed": sum(lost.values()), "share": sum(lost.values()) / count,
        "by_source": {name: [lost[name], total[name]] for name in total}, "by_kind": dict(kinds),
    }  # fmt: skip


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    folder = kit.data_folder()
    report = Report("redaction", "how often redaction takes away what is no secret", options.quick)
    if folder is None:
        report.note("no folder of transcripts (LCM_DATA): nothing was measured")
        return report.finish(options.json)
    for title, names in (("The kinds of the default", DEFAULT), ("Every kind there is", ("all",))):
        found = measured(folder, names, options.show)
        rows = [[name, *counts] for name, counts in found["by_source"].items()]
        kinds = ", ".join(f"{kind} {count}" for kind, count in found["by_kind"].items()) or "none"
        report.table(title, ("transcripts", "changed", "messages"), rows, f"Of these kinds: {kinds}.")
        report.budget(f"{title.lower()}: messages changed of 10,000", found["share"] * 10_000, MOST * 10_000)
    return report.finish(options.json)


if __name__ == "__main__":
    sys.exit(main())
