"""
Tables that a file gets when something is first written to them (``migrations.LATER``).

Nobody above needs to know: who writes makes them, in the same transaction; who reads finds them empty, and makes nothing. A group
of tables that was made is noted, so that tables which were lost are missed as ever.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Any

from .migrations import GROUP_OF, LATER, NOTED, statements

_ABSENT = re.compile(r"no such table: (?:main\.)?(\w+)$")
_MAKES = re.compile(r"(CREATE TABLE |CREATE (?:UNIQUE )?INDEX |ALTER TABLE )")


def noted(connection: sqlite3.Connection) -> set[str]:
    """The groups of tables that were made."""
    rows = connection.execute("SELECT key FROM meta WHERE key >= ? AND key < ?", (NOTED, NOTED + "\U0010ffff"))
    return {key.removeprefix(NOTED) for (key,) in rows}


def missed(exc: sqlite3.Error) -> str | None:
    """The group whose tables a statement did not find."""
    said = _ABSENT.search(str(exc))
    return GROUP_OF.get(said[1]) if said else None


def is_or_was(connection: sqlite3.Connection, table: str) -> bool:
    """Is a table there, or was it made and is lost? Who reads a lost one is told."""
    there = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return bool(connection.execute(there, (table,)).fetchall()) or GROUP_OF.get(table) in noted(connection)


def unmade(connection: sqlite3.Connection) -> set[str]:
    """Tables that a file, perhaps a damaged one, does not have because nobody needed them yet."""
    try:
        present = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error:
        return set()
    try:
        known = noted(connection)
    except sqlite3.Error:
        known = {GROUP_OF[table] for table in present & GROUP_OF.keys()}
    return {table for table, group in GROUP_OF.items() if table not in present and group not in known}


def made(connection: sqlite3.Connection, exc: sqlite3.Error) -> bool:
    """Make the tables that a statement inside the caller's transaction did not find. False: that is not why it failed."""
    group = missed(exc)
    if group is None or group in noted(connection):
        return False
    _make(connection, group)
    return True


def write_many(connection: sqlite3.Connection, sql: str, rows: Iterable[Any]) -> None:
    """The same statement for many rows, inside the caller's transaction, with the tables that it does not find."""
    rest = iter(rows)
    first = [*islice(rest, 1)]  # a statement that was kept from before a rollback fails when it has taken one
    try:
        connection.executemany(sql, chain(first, rest))
    except sqlite3.OperationalError as exc:
        if not made(connection, exc):
            raise
        connection.executemany(sql, chain(first, rest))


def make_all(connection: sqlite3.Connection) -> None:
    """Make all tables that are not there yet, inside the caller's transaction."""
    for group in sorted(LATER.keys() - noted(connection)):
        _make(connection, group)


def _make(connection: sqlite3.Connection, group: str) -> None:
    for statement in statements(group):
        connection.execute(statement)


def beside(path: Path, busy_s: float) -> sqlite3.Connection:
    """A connection to a file that shows the tables which it does not have, without a row. Only for ``asked``."""
    connection = sqlite3.connect(
        path, timeout=busy_s, isolation_level=None, check_same_thread=False, cached_statements=0
    )
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA cache_size=-500")
        # A name is looked for in the file first, and then here.
        connection.execute("ATTACH ':memory:' AS later")
        for group in LATER:
            for statement in statements(group):
                if _MAKES.match(statement):
                    connection.execute(_MAKES.sub(r"\1later.", statement, count=1))
        connection.execute("PRAGMA query_only=1")
    except BaseException:
        connection.close()
        raise
    return connection


def asked(connection: sqlite3.Connection, sql: str, params: Any) -> list[tuple[Any, ...]]:
    """What a reading statement gives on a connection of ``beside``."""
    connection.execute("BEGIN")
    try:
        # A statement over tables that are not in the file would not notice that another connection has made them there.
        connection.execute("SELECT 1 FROM meta LIMIT 1").fetchall()
        return connection.execute(sql, params).fetchall()
    finally:
        if connection.in_transaction:  # SQLite ends it by itself on some errors
            connection.execute("COMMIT")


class Rows:
    """Rows that were read, given like those of a cursor."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows = rows

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        """The next rows."""
        part, self._rows = self._rows[:size], self._rows[size:]
        return part
