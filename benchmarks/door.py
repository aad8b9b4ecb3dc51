#!/usr/bin/env python3
"""
What a huge message costs on its way in: noise patterns, redaction, the guard, exploration.

    python benchmarks/door.py [--quick] [--json FILE]

Texts of 5 MB: tool output, prose, code (this repository, over and over), JSON, base64, and texts made to be as bad as possible.
Processor time; the best of three. Linear: the time of 5 MB against five times that of 1 MB.
"""

from __future__ import annotations

import json
import random
import string
import sys
import time
from collections.abc import Callable
from typing import Any

import kit
from kit import Report, Talk

LIMIT_MS = 100.0
LEAST_MS = 10.0  # below this a ratio says nothing


def texts(size: int) -> dict[str, str]:
    """By kind, each of ``size`` characters."""
    talk = Talk(7)
    code = "".join(path.read_text(encoding="utf-8") for path in sorted(kit.ROOT.glob("*.py")))
    rows = json.dumps([{"id": n, "path": talk.path(), "note": talk.name(), "size": n * 17} for n in range(2000)])
    kinds = {
        "tool output": "\n".join(talk.output(4000) for _ in range(60)),
        "prose": "\n".join(talk.prose(4000) for _ in range(60)),
        "Chinese": "".join(talk.rng.choices(kit.HAN, k=200_000)),
        "code": code,
        "JSON": rows,
        "base64": "".join(random.Random(1).choices(string.ascii_letters + string.digits + "+/", k=200_000)),
        "bad: names of secrets": "password token api_key secret ",
        "bad: assignments": "api_key=a12 password=1234567 ",
        "bad: words that might be base64": "YWJjZGVmZ2hpamtsbW5vcHFy ",
        "bad: signs": "sk-_=_-eyJ.",
        "bad: one PEM that never ends": "-----BEGIN PRIVATE KEY-----\n" + "A" * 1000,
        "bad: brackets": "[" * 1000,
    }
    return {name: (text * (size // len(text) + 1))[:size] for name, text in kinds.items()}


def best(work: Callable[[str], Any], text: str, times: int = 3) -> float:
    out = []
    for _ in range(times):
        began = time.process_time()
        work(text)
        out.append(time.process_time() - began)
    return 1000 * min(out)


def workers() -> dict[str, Callable[[str], Any]]:
    from hermes_lcm.text import guard
    from hermes_lcm.text.explore import explore
    from hermes_lcm.text.noise import Noise
    from hermes_lcm.text.redact import Redactor

    default, everything = Redactor(), Redactor(["all"])
    noise = Noise([r"^Cronjob Response:", r"(a+)+$", r"(\w+\s?)*!$"])
    return {
        "redaction, default kinds": default.text,
        "redaction, all kinds": everything.text,
        "guard": guard.spans,
        "exploration": explore,
        "three noise patterns, two of them catastrophic": noise.match,
    }


def main() -> int:
    args = kit.arguments(__doc__ or "").parse_args()
    report = Report("door", "what a message of 5 MB costs on its way in", args.quick)
    large = 1_000_000 if args.quick else 5_000_000
    rows, worst = [], 0.0
    by_size = [texts(size) for size in (large // 5, large)]
    ordinary: dict[str, float] = {}
    for what, work in workers().items():
        for kind, text in by_size[1].items():
            small, full = best(work, by_size[0][kind]), best(work, text)
            ratio = full / max(small * 5, LEAST_MS)
            rows.append([what, kind, round(small, 1), round(full, 1), round(ratio, 2)])
            worst = max(worst, ratio)
            if not kind.startswith("bad"):
                ordinary[what] = max(ordinary.get(what, 0.0), full)
    report.table("Milliseconds", ("", "text", f"{large // 5:,} characters", f"{large:,}", "times linear"), rows,
                 "linear: 1; noise patterns are stopped after 50 ms each, so their time does not grow at all")  # fmt: skip
    for what, ms in ordinary.items():
        if not what.startswith("three"):
            report.budget(f"{what}: ms for the slowest ordinary text", ms, LIMIT_MS * large / 5_000_000)
    report.budget("most times linear", worst, 1.6)
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
