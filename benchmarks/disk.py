#!/usr/bin/env python3
"""
How many bytes are stored for a byte of text, by the kind of text.

    python benchmarks/disk.py [--quick] [--json FILE]

Each kind goes into an empty database of its own, a hundred messages a hook, beside the bare searchable table with the same
messages. Text: everything of a message that a search should find, in UTF-8. File: the database after a checkpoint (SQLite pages,
so tiny amounts look larger than they are). Real tool transcripts where there are any.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from pathlib import Path

import kit
import material
from driving import Agent, hook
from kit import Bare, Chat, InstantModel, Report, Talk, home, text_of
from lookup import index_bytes


def kinds(size: int) -> dict[str, list[Chat]]:
    """Messages by kind, each of about ``size`` characters in all."""
    found: dict[str, list[Chat]] = {}
    talk = Talk(61)
    makers = {
        "synthetic: short prose": lambda: talk.prose(160),
        "synthetic: long prose": lambda: talk.prose(2500),
        "synthetic: tool output": lambda: talk.output(1500),
        "synthetic: Chinese": lambda: "".join(talk.rng.choices(kit.HAN, k=120)),
    }
    for name, make in makers.items():
        chat: list[Chat] = []
        used = 0
        while used < size:
            text = make()
            used += len(text)
            chat.append({"role": "assistant" if len(chat) % 2 else "user", "content": text})
        found[name] = chat
    mixed = talk.history(size // 550)
    found["synthetic: an agent at work"] = mixed
    folder = kit.data_folder()
    for name, chats in material.transcripts(folder).items() if folder is not None else ():
        chat, used = [], 0
        for message in (m for each in chats for m in each):
            if used >= size:
                break
            chat.append(message)
            used += len(text_of(message))
        while chat and chat[-1].get("tool_calls"):
            chat.pop()
        found[name] = chat
    return found


def measure(chat: list[Chat], where: Path) -> dict[str, int]:
    with home(where) as folder:
        agent = Agent("20260101_000000_disk")
        bare = Bare(folder / "bare.db")
        for at in range(0, len(chat), 100):
            hook("pre_api_request", agent.session_id, chat[: at + 100])
            bare.add("s", chat[at : at + 100])
        path = Path(agent.runtime.path)
        hook("on_session_finalize", agent.session_id, [], reason="exit")
        agent.close()
        bare.close()
        out = {}
        for name, file, index in (("lcm", path, "message_index"), ("bare", folder / "bare.db", "found")):
            with sqlite3.connect(file) as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                out[f"{name} index"] = index_bytes(db, index)
                if name == "lcm":
                    row = db.execute("SELECT count(*), sum(length(envelope)) FROM messages").fetchone()
                    out["rows"], out["envelopes"] = row
            db.close()
            out[name] = file.stat().st_size
    return out


def main() -> int:
    args = kit.arguments(__doc__ or "").parse_args()
    where = args.where or Path(tempfile.gettempdir())
    InstantModel().install()
    report = Report("disk", "bytes stored per byte of text", args.quick)
    rows = []
    for name, chat in kinds(200_000 if args.quick else 3_000_000).items():
        text = sum(len(text_of(m).encode()) for m in chat)
        found = measure(chat, where)
        if found["rows"] != len(chat):
            report.note(f"{name}: {found['rows']} rows of {len(chat)} messages")
        shares = [found[key] / text for key in ("lcm", "envelopes", "lcm index", "bare", "bare index")]
        rows.append(
            [
                name,
                len(chat),
                text // max(1, len(chat)),
                *(round(s, 3) for s in shares),
                round(shares[0] / shares[3], 2),
            ]
        )
    report.table(
        "Bytes stored per byte of text",
        ("", "messages", "bytes each", "file", "of it messages", "of it index", "bare file", "bare index", "file of bare"), rows,
        "messages: whole dicts as they came, compressed; the rest of the file is columns, B-trees and free space;\n"
        "short messages are indexed together with the end of the message before them, Chinese as pairs of characters",
    )  # fmt: skip
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
