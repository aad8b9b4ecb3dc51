#!/usr/bin/env python3
"""
A year of a busy gateway: the size of its archive with and without a retention policy.

    python benchmarks/retention.py [--quick] [--json FILE] [--where FOLDER]

Each week brings jobs of the scheduler, sub-agents and chats with some images, through the store's own layer; once a month the
policy is carried out as the terminal does it. The chats are summarised. Sizes are those of the database file and of its payload
files; backups are not counted.
"""

from __future__ import annotations

import base64
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import kit
from driving import fresh_process
from kit import Report, home

POLICY = "cron:30d=purge,subagent:60d=purge,telegram:90d=payloads,telegram:180d=summaries"
WEEK_S = 7 * 86_400.0
BEGAN = 1_700_000_000.0
MONTH = 4  # weeks
WORDS = [f"{word}{n}" for word in "river stone table green engine bridge window paper".split() for n in range(300)]
KINDS = (
    ("cron", 20, "cron", 6),
    ("sub", 10, "cli", 10),
    ("chat", 4, "telegram", 40),
)  # name, sessions a week, platform, messages


def week(runtime: Any, number: int, rng: random.Random, share: int) -> None:
    """The sessions of one week, as they would have been stored then."""
    from hermes_lcm.dag import fingerprint
    from hermes_lcm.records import NewNode
    from hermes_lcm.store import NewRow
    from hermes_lcm.text import content

    now = BEGAN + number * WEEK_S
    for name, count, platform, length in KINDS:
        for n in range(max(1, count // share)):
            session_id = f"{name}_{number}_{n}"
            origin = "subagent" if name == "sub" else "start"
            session = runtime.sessions.open(session_id, now=now, platform=platform, origin=origin)
            rows = []
            for k in range(length):
                said: Any = " ".join(rng.choices(WORDS, k=60))
                if platform == "telegram" and k == 4:
                    url = "data:image/png;base64," + base64.b64encode(rng.randbytes(40_000)).decode()
                    said = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": url}}]
                message = {"role": ("user", "assistant")[k % 2], "content": said}
                rows.append(NewRow(runtime.filters(message, content.read_message(message)), stored_at=now))
            ids = runtime.store.append(session.conversation_id, session_id, 0, rows, source=platform, now=now)
            runtime.store.packer.pack_own(session.conversation_id, least_bytes=0)
            if platform == "telegram":
                text = f"what was said in {session_id} about rivers and bridges"
                made = NewNode(
                    session.conversation_id,
                    0,
                    "verified",
                    text,
                    "bridges",
                    20,
                    2000,
                    tuple(ids),
                    fingerprint(0, ids),
                    "m",
                    "detailed",
                )
                runtime.dag.add(made, now=now)


def size(runtime: Any) -> tuple[int, int]:
    """(bytes of the database, its log folded into it, and of payload files)."""
    runtime.db.optimise(log_bytes=0)
    files = sum(path.stat().st_size for path in runtime.payloads.folder.rglob("*.z"))
    return runtime.path.stat().st_size, files


def year(policy: str, weeks: int, share: int, where: Path) -> list[tuple[int, int]]:
    """Sizes at the end of each month."""
    with home(where) as folder:
        settings = f"lcm:\n  large_output_externalization_enabled: true\n  retention: '{policy}'\n"
        (folder / "config.yaml").write_text(f"context:\n  engine: lcm\n{settings}", encoding="utf-8")
        fresh_process()
        from hermes_lcm import runtime as runtimes
        from hermes_lcm.command import answer, operator_access

        runtime = runtimes.PROCESS.at()
        rng, out = random.Random(3), []
        for number in range(weeks):
            week(runtime, number, rng, share)
            if number % MONTH == MONTH - 1:
                deps = replace(
                    operator_access(runtime, None, None),
                    trusted=True,
                    clock=lambda at=number: BEGAN + (at + 1) * WEEK_S,
                )
                done = answer("retention apply", deps)
                if done.code:
                    raise RuntimeError(done.text)
                out.append(size(runtime))
        runtime.db.close()
    return out


def main() -> int:
    args = kit.arguments(__doc__ or "").parse_args()
    weeks, share = (16, 4) if args.quick else (52, 1)
    where = args.where or Path(tempfile.gettempdir())
    report = Report("retention", f"{weeks} weeks of a gateway, with and without a policy", args.quick)
    without, kept = year("", weeks, share, where), year(POLICY, weeks, share, where)
    rows = [
        [f"month {n}", round(a[0] / 1e6, 1), round(a[1] / 1e6, 1), round(b[0] / 1e6, 1), round(b[1] / 1e6, 1)]
        for n, (a, b) in enumerate(zip(without, kept, strict=True), 1)
    ]
    head = ("", "database MB, all kept", "files MB, all kept", "database MB, policy", "files MB, policy")
    report.table("Size over time", head, rows, f"policy: {POLICY}")
    report.budget("size at the end, policy by all kept", sum(kept[-1]) / sum(without[-1]), 0.7)
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
