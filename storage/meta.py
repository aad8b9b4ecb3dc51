"""
Small facts by name.

Owns table ``meta``. A value is JSON. Whoever writes a key owns its prefix: ``rotate:`` and ``dissolved:`` are orders of an
operator, ``notices:`` and ``pulled:`` a chat's wishes (``ops/orders.py``), ``removed:`` counts addresses without a row:
deleted by an operator, or lost to a salvage.
"""

from __future__ import annotations

import json
from typing import Any

from .connection import Database

#: ``removed:<table>``: how many of the addresses ever given have no row (any more). Statements for ``files.rewrite``.
COUNT_REMOVED = tuple(
    f"INSERT INTO meta(key, value) SELECT 'removed:{table}', "
    f"coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{table}'), 0) - (SELECT count(*) FROM {table}) "
    "WHERE true ON CONFLICT(key) DO UPDATE SET value = excluded.value"
    for table in ("messages", "nodes")
)
#: How many messages were removed since the search index was made: it holds their words until it is made anew.
INDEXED_STILL = "index_removed"
#: Answers of a model to a question that is put to many messages, until all were asked. Made of what messages say, they go when
#: any message is rewritten or removed.
ANSWERS = "mapped:"
FORGET_ANSWERS = f"DELETE FROM meta WHERE key >= '{ANSWERS}' AND key < '{ANSWERS[:-1]};'"
#: So many more under a key. After a deletion, instead of a count of all rows that are left.
ADD = "INSERT INTO meta(key, value) VALUES (?2, ?1) ON CONFLICT(key) DO UPDATE SET value = CAST(value AS INTEGER) + ?1"


class Meta:
    """The facts of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def value(self, key: str) -> Any:
        """The value under ``key``, or None."""
        row = self._db.query_one("SELECT value FROM meta WHERE key = ?", (key,))
        return _read(row[0]) if row else None

    def under(self, prefix: str) -> dict[str, Any]:
        """Everything whose key begins with ``prefix``, by the rest of the key."""
        rows = self._db.query(
            "SELECT key, value FROM meta WHERE key >= :low AND key < :high ORDER BY key",
            {"low": prefix, "high": prefix + "\U0010ffff"},
        )
        return {key[len(prefix) :]: _read(value) for key, value in rows}

    def note(self, key: str, value: Any) -> None:
        """Write one fact, inside or outside a transaction."""
        with self._db.transaction():
            self._db.execute(
                "INSERT INTO meta(key, value) VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value",
                (key, json.dumps(value)),  # escaped: SQLite takes no lone surrogate, which a name of others may hold
            )

    def forget(self, key: str) -> None:
        """Remove one fact; one that is not there is no error."""
        with self._db.transaction():
            self._db.execute("DELETE FROM meta WHERE key = ?", (key,))


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
