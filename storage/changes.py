"""
Notes of what changes, for whoever copies the database elsewhere: the outbox of a fleet.

Owns table ``fleet_outbox``, which is there once a database has joined one. Temporary triggers of the writer's connection put each
row that comes or changes into it, in the transaction that writes the row; a file itself holds no triggers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

TABLE: Final = "fleet_outbox"
CREATE: Final = (
    f"CREATE TABLE IF NOT EXISTS {TABLE}(n INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, id INTEGER NOT NULL, "
    "fresh INTEGER NOT NULL)"
)
#: What may be noted, in the order in which one row needs another, with the key that is noted.
KINDS: Final = {
    "conversations": "conversation_id", "sessions": "session_key", "messages": "store_id", "nodes": "node_id",
    "assemblies": "assembly_id", "archives": "archive_id", "carried": "conversation_id",
}  # fmt: skip
_INHERITS: Final = "inherits:"
_OTHER_JSON: Final = "typeof(new.envelope) = 'blob' AND typeof(old.envelope) = 'blob' AND new.envelope <> old.envelope"
#: (kind, event, condition): a row that comes is ``fresh``; one that changes is not. Packing stored JSON changes nothing.
_EVENTS: Final = (
    *((kind, "INSERT", "1") for kind in KINDS if kind != "conversations"),
    ("conversations", "UPDATE OF principal, parent_id, fork_seq", "1"),
    ("sessions", "UPDATE", "1"),
    (
        "messages",
        "UPDATE OF flags, revises, envelope",
        f"new.flags <> old.flags OR new.revises IS NOT old.revises OR ({_OTHER_JSON})",
    ),
    ("nodes", "UPDATE OF text", "1"),
    ("assemblies", "UPDATE OF digest", "1"),
    ("archives", "UPDATE OF state", "1"),
)


def triggers() -> Iterator[str]:
    """Statements that make them, for the writer's connection."""
    note = f"INSERT INTO {TABLE}(kind, id, fresh) VALUES"
    for n, (kind, event, when) in enumerate(_EVENTS):
        values = f"('{kind}', new.{KINDS[kind]}, {int(event == 'INSERT')})"
        yield f"CREATE TEMP TRIGGER IF NOT EXISTS note_{n} AFTER {event} ON main.{kind} WHEN {when} BEGIN {note} {values}; END"
    key = f"CAST(substr(new.key, {len(_INHERITS) + 1}) AS INTEGER)"
    for event in ("INSERT", "UPDATE"):
        yield (
            f"CREATE TEMP TRIGGER IF NOT EXISTS note_inherits_{event} AFTER {event} ON main.meta "
            f"WHEN new.key GLOB '{_INHERITS}*' BEGIN {note} ('conversations', {key}, 0); END"
        )


def attach(connection: sqlite3.Connection) -> None:
    """Let a writer take notes, if its database has joined a fleet."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (TABLE,)).fetchone():
        for statement in triggers():
            connection.execute(statement)
