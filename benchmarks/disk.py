#!/usr/bin/env python3
"""
How many bytes are stored for a byte of text, by the kind of text.

    python benchmarks/disk.py [--quick] [--json FILE]

Each kind goes into an empty database of its own, a hundred messages a hook, then its session ends, beside the bare searchable
table with the same messages. Text: everything of a message that a search should find, in UTF-8; JSON: the transcript, whole
messages as the host hands them over. Everything in the home counts that is the plugin's, as it lies there when the session has
ended: the database, its log, payload files. Beside it, the largest the log was between turns while the session ran.
Real tool transcripts where there are any, each by itself and all together in one database, as in a home.

Then sessions of five messages, as a scheduler makes them, and which table or index takes how much: what a session costs beside
its messages is nothing in a long one.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from pathlib import Path

import kit
import material
from driving import Agent, hook
from kit import Bare, Chat, InstantModel, Report, Talk, home, text_of
from lookup import index_bytes

SHORT = 5  # messages of a short session
SHORT_LIMIT = 1.6
#: Tables and indexes by what they are for.
PARTS = {
    "stored JSON": ("blocks",),
    "search index": ("message_index", "message_index_data", "message_index_idx", "message_index_docsize", "message_index_config"),
    "columns of messages": ("messages",),
    "indexes of messages": ("sqlite_autoindex_messages_1", "messages_by_session"),
    "sessions and conversations": (
        "sessions", "sqlite_autoindex_sessions_1", "sessions_by_conversation",
        "conversations", "sqlite_autoindex_conversations_1",
    ),
    "seals": ("seals",),
}  # fmt: skip
TOOL_HEAVY = ("tau-bench", "swe-agent", "pi-sessions", "hermes-session")


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
    together = [message for name in TOOL_HEAVY for message in found.get(name, ())]
    if together:
        found["tool-heavy, in one database"] = together
    return found


def measure(chat: list[Chat], where: Path) -> dict[str, int]:
    with home(where) as folder:
        agent = Agent("20260101_000000_disk")
        bare = Bare(folder / "bare.db")
        path = Path(agent.runtime.path)
        log = 0
        for at in range(0, len(chat), 100):
            hook("pre_api_request", agent.session_id, chat[: at + 100])
            bare.add("s", chat[at : at + 100])
            agent.runtime.upkeep.between_turns()  # what the worker does after a turn
            log = max(log, _size(path.with_name(path.name + "-wal")))
        hook("on_session_finalize", agent.session_id, [], reason="exit")
        rest = sum(_size(f) for f in folder.rglob("*") if f.suffix == ".z" or f.name == f"{path.name}-wal")
        agent.close()
        bare.close()
        out = {"log": log}
        for name, file, index in (("lcm", path, "message_index"), ("bare", folder / "bare.db", "found")):
            with sqlite3.connect(file) as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                out[f"{name} index"] = index_bytes(db, index)
                if name == "lcm":
                    row = db.execute(
                        "SELECT count(*), coalesce(sum(length(envelope)) FILTER (WHERE typeof(envelope) = 'blob'), 0), "
                        "(SELECT coalesce(sum(length(data)), 0) FROM blocks) FROM messages"
                    ).fetchone()
                    out["rows"], out["envelopes"] = row[0], row[1] + row[2]
            db.close()
            out[name] = file.stat().st_size + (rest if name == "lcm" else 0)
    return out


def short_sessions(count: int, where: Path) -> tuple[list[list[object]], float]:
    """Sessions of five messages in one file: (bytes per session by part, of it unused; bytes of the file per byte of text)."""
    talk, text = Talk(5), 0
    with home(where):
        agent = Agent("20260101_000000_none")
        for n in range(count):
            said = [{"role": "assistant" if k % 2 else "user", "content": talk.prose(230)} for k in range(SHORT)]
            text += sum(len(text_of(m).encode()) for m in said)
            agent.engine.on_session_start(f"cron_{n:06d}", platform="cron")
            hook("pre_api_request", f"cron_{n:06d}", said)
            hook("on_session_finalize", f"cron_{n:06d}", [], reason="exit")
        agent.runtime.upkeep.between_turns()
        path = Path(agent.runtime.path)
        agent.close()
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            sizes = {
                row[0]: row[1:] for row in db.execute("SELECT name, sum(pgsize), sum(unused) FROM dbstat GROUP BY name")
            }
        db.close()
        whole = _size(path)
    rows: list[list[object]] = [["the texts", round(text / count), "", 1.0]]
    for part, names in {**PARTS, "the rest": tuple(sizes.keys() - {n for of in PARTS.values() for n in of})}.items():
        taken, unused = (sum(sizes.get(name, (0, 0))[at] for name in names) for at in (0, 1))
        rows.append([part, round(taken / count, 1), round(unused / count, 1), round(taken / text, 3)])
    return rows, whole / text


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def main() -> int:
    args = kit.arguments(__doc__ or "").parse_args()
    where = args.where or Path(tempfile.gettempdir())
    InstantModel().install()
    report = Report("disk", "bytes stored per byte of text", args.quick)
    rows = []
    for name, chat in kinds(200_000 if args.quick else 3_000_000).items():
        text = sum(len(text_of(m).encode()) for m in chat)
        whole = sum(len(json.dumps(m, ensure_ascii=False).encode()) for m in chat)
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
                round(found["lcm"] / whole, 3),
                found["log"] // 1000,
            ]
        )
        if name in TOOL_HEAVY or name.startswith("tool-heavy"):
            report.budget(f"{name}: bytes per byte of the transcript", found["lcm"] / whole, 1.0)
            report.budget(f"{name}: bytes per byte of its text alone", shares[0], 1.0)
    report.table(
        "Bytes stored per byte of text",
        ("", "messages", "bytes each", "file", "of it messages", "of it index", "bare file", "bare index", "file of bare",
         "file per byte of JSON", "log, most kB"), rows,
        "messages: whole dicts as they came, compressed; the rest of the file is columns, B-trees and free space;\n"
        "short messages are indexed together with the end of the message before them, Chinese as pairs of characters",
    )  # fmt: skip
    count = 400 if args.quick else 2000
    parts, ratio = short_sessions(count, where)
    report.table(
        f"{count:,} sessions of {SHORT} messages", ("", "bytes per session", "of it unused", "per byte of text"), parts,
        "A block holds messages of one session, so that it goes with its session, and its page has room for no second one;\n"
        "so few messages repeat too little to be compressed well, and words of the index are no smaller than elsewhere:\n"
        "these two alone take what all was to take. What is a session's own (its row, its conversation, its seals) is the rest.",
    )  # fmt: skip
    report.budget(f"{count:,} sessions of {SHORT} messages: bytes per byte of text", ratio, SHORT_LIMIT)
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
