"""
Text columns of a whole database: read for a search, changed in place.

Owns no table. For operators who take a secret out of everything: which words stand in which table is known to the tables' owners.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import files
from .connection import Database
from .packing import unpack, unpack_block
from .schema import TABLES

_UNREADABLE = (zlib.error, ValueError, KeyError, IndexError, TypeError, json.JSONDecodeError)
_TEXTS = "SELECT DISTINCT {column} FROM {table} WHERE typeof({column}) = 'text'"


def rewrite(db: Database, change: Callable[[str], str]) -> int:
    """Change every text of every table but the indexes, inside the caller's transaction; how many differ now."""
    count = 0
    for table, column in _columns(db):
        values = [row[0] for row in db.fetch(_TEXTS.format(table=table, column=column))]
        changed = [(new, old) for old in values if (new := change(old)) != old]
        db.executemany(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", changed)
        count += len(changed)
    return count


def _columns(db: Database) -> Iterator[tuple[str, str]]:
    for table in sorted(TABLES):
        for row in db.fetch(f"PRAGMA table_info({table})"):
            if str(row[2]).upper() == "TEXT":
                yield table, str(row[1])


def texts(path: Path) -> Iterator[str]:
    """Everything that a database file says, envelopes and blocks unpacked. Changes nothing. Raises StoreError."""
    with files.reading(path) as connection:
        for table in files.tables(connection):
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                yield from (text for value in row for text in _said(value))


def _said(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        try:
            yield unpack(value)
        except _UNREADABLE:
            try:
                yield from (body.decode("utf-8", "replace") for body in unpack_block(value).values())
            except _UNREADABLE:
                yield value.decode("utf-8", "replace")
