"""
A database of the earlier hermes-lcm plugin, written by code of our own that follows its documented schema 5.

``EarlierPlugin`` stores what it is shown like that plugin does: a compaction makes it store the list again, so that most messages
are there three or four times.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE metadata(key TEXT PRIMARY KEY, value TEXT);
INSERT INTO metadata VALUES ('schema_version', '5');
CREATE TABLE messages(
  store_id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id TEXT NOT NULL,
  source TEXT DEFAULT '',
  role TEXT NOT NULL,
  content TEXT,
  tool_call_id TEXT,
  tool_calls TEXT,
  tool_name TEXT,
  timestamp REAL NOT NULL,
  token_estimate INTEGER DEFAULT 0,
  pinned INTEGER DEFAULT 0
);
CREATE INDEX idx_messages_session ON messages(session_id, store_id);
CREATE VIRTUAL TABLE messages_fts USING fts5(content, content='messages', content_rowid='store_id');
CREATE TRIGGER messages_ai AFTER INSERT ON messages BEGIN
  INSERT INTO messages_fts(rowid, content) VALUES (new.store_id, new.content);
END;
CREATE TABLE summary_nodes(
  node_id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id TEXT NOT NULL,
  depth INTEGER NOT NULL DEFAULT 0,
  summary TEXT NOT NULL,
  token_count INTEGER NOT NULL DEFAULT 0,
  source_token_count INTEGER NOT NULL DEFAULT 0,
  source_ids TEXT NOT NULL DEFAULT '[]',
  source_type TEXT NOT NULL DEFAULT 'messages',
  created_at REAL NOT NULL,
  earliest_at REAL,
  latest_at REAL,
  expand_hint TEXT DEFAULT ''
);
CREATE VIRTUAL TABLE nodes_fts USING fts5(summary, content='summary_nodes', content_rowid='node_id');
CREATE TABLE lcm_lifecycle_state(
  conversation_id TEXT PRIMARY KEY,
  current_session_id TEXT,
  last_finalized_session_id TEXT,
  current_frontier_store_id INTEGER NOT NULL DEFAULT 0,
  last_finalized_frontier_store_id INTEGER NOT NULL DEFAULT 0,
  debt_kind TEXT,
  debt_size_estimate INTEGER NOT NULL DEFAULT 0,
  current_bound_at REAL,
  last_finalized_at REAL,
  updated_at REAL
);
"""
#: What LCM-X 0.23 adds to the same schema 5 (its `store.py`): columns of times, an index of word stems, side tables.
LCM_X = """
ALTER TABLE messages ADD COLUMN conversation_id TEXT DEFAULT '';
ALTER TABLE messages ADD COLUMN ingested_at REAL;
ALTER TABLE messages ADD COLUMN observed_at REAL;
ALTER TABLE messages ADD COLUMN observed_at_source TEXT;
CREATE VIRTUAL TABLE messages_fts_stem USING fts5(
  content, content='messages', content_rowid='store_id', tokenize='porter unicode61'
);
CREATE TRIGGER msg_fts_stem_insert AFTER INSERT ON messages BEGIN
  INSERT INTO messages_fts_stem(rowid, content) VALUES (new.store_id, new.content);
  UPDATE messages SET conversation_id = 'c1', ingested_at = new.timestamp, observed_at = new.timestamp - 5,
    observed_at_source = 'host' WHERE store_id = new.store_id;
END;
CREATE TABLE message_relations(store_id INTEGER, related_store_id INTEGER);
CREATE TABLE host_uid_bindings(store_id INTEGER, uid TEXT);
"""
PAYLOADS = "lcm-large-outputs"
SUMMARY = (
    "[Note: This conversation uses Lossless Context Management (LCM).]\n[Recent Summary (d0, node 1)]\nwhat was before"
)

Message = dict[str, Any]


class EarlierPlugin:
    """One home with that plugin's files in it."""

    def __init__(self, home: Path, *, name: str = "lcm.db", wal: bool = True) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.path = home / name
        self.now = 1_600_000_000.0
        self.db = sqlite3.connect(self.path, isolation_level=None)
        if wal:
            self.db.execute("PRAGMA journal_mode=WAL")
        self.db.executescript(SCHEMA)

    def store(self, session: str, messages: Sequence[Message], *, source: str = "cli") -> list[int]:
        """One go of storing; where each row is."""
        self.now += 60
        self.db.execute("BEGIN")
        ids = []
        for n, message in enumerate(messages):
            calls, content = message.get("tool_calls"), message.get("content")
            cursor = self.db.execute(
                "INSERT INTO messages(session_id, source, role, content, tool_call_id, tool_calls, tool_name, timestamp) "
                "VALUES (?,?,?,?,?,?,?,?)",
                (
                    session, source, message["role"], json.dumps(content) if isinstance(content, list) else content,
                    message.get("tool_call_id"), json.dumps(calls) if calls else None, message.get("tool_name"),
                    self.now + n * 0.0001,
                ),
            )  # fmt: skip
            ids.append(cursor.lastrowid or 0)
        self.db.execute("COMMIT")
        return ids

    def node(self, session: str, sources: Sequence[int], text: str, *, depth: int = 0, hint: str = "") -> int:
        """A summary of messages (depth 0) or of nodes."""
        span = self.db.execute(
            "SELECT min(timestamp), max(timestamp) FROM messages WHERE session_id = ?", (session,)
        ).fetchone()
        kind = "nodes" if depth else "messages"
        cursor = self.db.execute(
            "INSERT INTO summary_nodes(session_id, depth, summary, token_count, source_token_count, source_ids, source_type, "
            "created_at, earliest_at, latest_at, expand_hint) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            (session, depth, text, 50, 500, json.dumps(list(sources)), kind, self.now, *span, hint),
        )
        return cursor.lastrowid or 0

    def lifecycle(self, conversation: str, session: str) -> None:
        """Which gateway chat a session belongs to."""
        self.db.execute(
            "INSERT INTO lcm_lifecycle_state(conversation_id, current_session_id, updated_at) VALUES (?,?,?)",
            (conversation, session, self.now),
        )

    def payload(self, name: str, content: str, **facts: Any) -> str:
        """A payload file, and the placeholder that stands for it."""
        folder = self.home / PAYLOADS
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps({"kind": "raw_payload", "content": content, **facts}))
        return f"[Externalized payload: kind=raw_payload; chars={len(content)}; ref={name}]"

    def close(self) -> Path:
        """The file as that plugin leaves it."""
        self.db.close()
        return self.path


def talk(count: int, *, start: int = 0) -> list[Message]:
    """User and assistant in turn, with a tool call now and then."""
    out: list[Message] = []
    for n in range(start, start + count):
        if n % 4 == 2:
            call = {
                "id": f"call_{n}",
                "type": "function",
                "function": {"name": "terminal", "arguments": f'{{"n": {n}}}'},
            }
            out.append({"role": "assistant", "content": "", "tool_calls": [call]})
        elif n % 4 == 3:
            out.append(
                {
                    "role": "tool",
                    "content": f"output {n} of zebra",
                    "tool_call_id": f"call_{n - 1}",
                    "tool_name": "terminal",
                }
            )
        else:
            out.append({"role": ("user", "assistant")[n % 4], "content": f"message {n} about the zebra deployment"})
    return out


def used(home: Path, *, size: int = 40) -> tuple[EarlierPlugin, list[Message]]:
    """A home in which that plugin compacted: most messages several times, two leaves, a node above; and the real messages."""
    plugin = EarlierPlugin(home)
    messages = talk(size)
    half, tail = size // 2, 8
    first = plugin.store("s1", messages[:half])
    plugin.store("s1", messages[:half])  # on_session_end
    leaf = plugin.node("s1", first[: half - tail], "the first leaf about the zebra", hint="details")
    shown = [{"role": "user", "content": SUMMARY}, *messages[half - tail : half]]
    plugin.store("s1", shown)  # on_session_start
    rest = plugin.store("s1", [*shown, *messages[half:]])
    other = plugin.node("s1", rest[: size - half - 4], "the second leaf")
    plugin.node("s1", [leaf, other], "all of it", depth=1)
    return plugin, messages
