#!/usr/bin/env python3
"""
What a huge message costs on its way in: noise patterns, redaction, the guard, exploration, and the turn that brings it.

    python benchmarks/huge_message.py [--quick] [--json FILE] [--where FOLDER]

Texts of 5 MB: tool output, prose, code (this repository, over and over), JSON, base64, and texts made to be as bad as possible.
Processor time; the best of three. Linear: the time of 5 MB against five times that of 1 MB.

Whole turns: the hooks of a turn as the host calls them, the message as a tool's result; what they take more than the hooks of the
same turn with a result of 600 characters, on the thread that the host waits for. A message is never the same twice. Between turns
the write-ahead log is folded back, as the plugin's worker does.
"""

from __future__ import annotations

import json
import random
import statistics
import string
import sys
import time
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import kit
from driving import Agent, hook
from kit import Report, Talk, home

LIMIT_MS = 100.0  # for each of the workers alone
TURN_MS = 150.0  # for all that a turn does with the message
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
    from hermes_lcm.ingest.filters import Noise
    from hermes_lcm.text import blobs
    from hermes_lcm.text.explore import explore
    from hermes_lcm.text.redact import Redactor

    default, everything = Redactor(), Redactor(["all"])
    noise = Noise([r"^Cronjob Response:", r"(a+)+$", r"(\w+\s?)*!$"])
    return {
        "redaction, default kinds": default.text,
        "redaction, all kinds": everything.text,
        "guard": blobs.spans,
        "exploration": explore,
        "three noise patterns, two of them catastrophic": noise.match,
    }


# ------------------------------------------------------------------------------------------------- whole turns
PATTERNS = r"^Cronjob Response:,(a+)+$,(\w+\s?)*!$"
SETTINGS: dict[str, dict[str, object]] = {
    "as it comes": {},
    "large outputs in files": {"large_output_externalization_enabled": "true"},
    "redaction, default kinds": {"sensitive_patterns_enabled": "true"},
    "redaction, all kinds": {"sensitive_patterns_enabled": "true", "sensitive_patterns": "all"},
    "three noise patterns, two of them catastrophic": {"ignore_message_patterns": PATTERNS},
    "one noise pattern, catastrophic": {"ignore_message_patterns": r"(\w+\s?)*!$"},
}
SMALL_CHARS = 600


def messages(size: int) -> dict[str, str]:
    """By kind, each of ``size`` bytes of UTF-8."""
    talk, rng = Talk(7), random.Random(3)
    log = [
        f"2026-0{rng.randint(1, 9)}-{rng.randint(10, 28)}T10:{rng.randint(10, 59)}:00Z INFO {talk.name()}: "
        f"{' '.join(talk.words.some(rng, 5))} {talk.number()}"
        for _ in range(12_000)
    ]
    rows = [{"id": n, "path": talk.path(), "note": talk.name(), "text": talk.prose(120)} for n in range(5000)]
    kinds = {
        "log lines": "\n".join(log),
        "log lines in colours": "\n".join(log).replace("INFO", "\x1b[32mINFO\x1b[0m"),
        "one long line": " ".join(log),
        "prose": "\n".join(talk.prose(4000) for _ in range(250)),
        "JSON": json.dumps(rows, indent=1),
        "source code": "".join(path.read_text(encoding="utf-8") for path in sorted(kit.ROOT.glob("*.py"))),
        "base64": "".join(rng.choices(string.ascii_letters + string.digits + "+/", k=1_000_000)),
        "any characters": "".join(rng.choices(string.printable[:95], k=1_000_000)),
        "Chinese": "".join(rng.choices(kit.HAN, k=600_000)),
        "bad: one letter": "a" * 1000,
        "bad: tags that are never closed": "<memory-context>[System note: Your previous turn x]\n\n" * 20,
    }
    return {
        kind: (text * (size // len(text) + 1)).encode()[:size].decode("utf-8", "ignore") for kind, text in kinds.items()
    }


class Turns:
    """Turns of one session, each with one tool result."""

    def __init__(self) -> None:
        self.agent = Agent("20260101_000000_door", 1_000_000_000)  # a window that needs no compaction
        self._count = 0

    def one(self, text: str) -> tuple[float, float]:
        """(processor, wall) seconds of a turn's hooks."""
        self._count += 1
        n, live = self._count, self.agent.messages
        call = {"id": f"c{n}", "type": "function", "function": {"name": "terminal", "arguments": '{"command": "make"}'}}
        result = {"role": "tool", "name": "terminal", "tool_name": "terminal", "tool_call_id": f"c{n}"}
        live.append({"role": "user", "content": f"request {n}"})
        spent = [self._hook("pre_llm_call"), self._hook("pre_api_request")]
        live.append({"role": "assistant", "content": "", "tool_calls": [call], "finish_reason": "tool_calls"})
        live.append({**result, "content": f"{n}: {text[n:]}{text[:n]}."})
        spent.append(self._hook("pre_api_request"))
        live.append({"role": "assistant", "content": f"done {n}", "finish_reason": "stop"})
        spent.append(self._hook("post_llm_call"))
        stored = self.agent.runtime.store.last_seq(1)
        if stored != len(live):
            raise RuntimeError(f"nothing was measured: {stored} of {len(live)} messages are in the store")
        self._upkeep()
        return sum(a for a, _ in spent), sum(b for _, b in spent)

    def _upkeep(self) -> None:
        self.agent.runtime.db.optimise(log_bytes=0)

    def _hook(self, name: str) -> tuple[float, float]:
        processor, wall = time.thread_time(), time.perf_counter()
        hook(name, self.agent.session_id, self.agent.messages)
        return time.thread_time() - processor, time.perf_counter() - wall


def added(text: str, times: int, where: Path | None, settings: dict[str, object]) -> list[float]:
    """Milliseconds that a turn with the text takes more: processor (median, p95), wall (median, p95)."""
    with home(where, background_compaction="false", **settings):
        turns = Turns()
        turns.one(text[:SMALL_CHARS])
        small = [turns.one(text[7 * n : 7 * n + SMALL_CHARS]) for n in range(times)]
        large = [turns.one(text) for _ in range(times)]
        turns.agent.close()
    out = []
    for each in (0, 1):
        least = statistics.median(pair[each] for pair in small)
        more = [1000 * (pair[each] - least) for pair in large]
        out += [round(statistics.median(more), 1), round(kit.at(more, 0.95), 1)]
    return out


def yardstick(text: str) -> float:
    """What this machine takes to hash the text and deflate it, which is the least that anybody who stores it so must do."""
    raw = text.encode()
    return best(lambda _: (sha256(raw).digest(), zlib.compress(raw, 1)), text)


def whole_turns(report: Report, size: int, times: int, where: Path | None) -> None:
    rows: list[list[Any]] = []
    worst: dict[str, float] = {}
    texts = messages(size)
    for name, settings in SETTINGS.items():
        for kind, text in texts.items():
            spent = added(text, times, where, settings)
            rows.append([name, kind, round(yardstick(text), 1), *spent])
            worst[name] = max(worst.get(name, 0.0), spent[0])
    columns = ("", "message", "hash + zlib 1", "processor, median", "p95", "wall, median", "p95 ")
    report.table(f"Milliseconds that a message of {size:,} bytes adds to its turn ({times} turns each)", columns, rows,
                 "hash + zlib 1: SHA-256 and zlib level 1 of the same bytes in this run, processor time")  # fmt: skip
    for name, ms in worst.items():
        report.budget(f"a turn, {name}: processor ms added by the slowest message", ms, TURN_MS * size / 5_000_000)


def main() -> int:
    args = kit.arguments(__doc__ or "").parse_args()
    report = Report("huge_message", "what a message of 5 MB costs on its way in", args.quick)
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
                 "linear: 1; noise patterns are stopped after 40 ms together, so their time does not grow at all")  # fmt: skip
    for what, ms in ordinary.items():
        if not what.startswith("three"):
            report.budget(f"{what}: ms for the slowest ordinary text", ms, LIMIT_MS * large / 5_000_000)
    report.budget("most times linear", worst, 1.6)
    whole_turns(report, large, 3 if args.quick else 7, args.where)
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
