"""
Seals: a running digest of every conversation's rows, so that a change from outside this plugin is noticed.

Owns table ``seals``. Temporary triggers of the writer's connection give each row that comes, goes or changes to ``Sealer``,
which adds its hash to the sum of its conversation, or takes it away, in the same transaction: whatever code writes, the sums are
those of the rows. A row's hash is of all that it holds, its place included; sums do not depend on the order of the writes.
"""

from __future__ import annotations

import json
import re
import sqlite3
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Any, Final, Protocol

from . import schema

SEALED: Final = "sealed"  # in ``meta``: the sums are those of what was written, from the first row on
_ONCE, _NOW = json.dumps(True), json.dumps(2)  # values of it
IDENTITY: Final = "identity"
_CREATE: Final = next(text for table, text in schema.statements() if table == "seals").replace(
    "TABLE", "TABLE IF NOT EXISTS", 1
)
_MODULUS: Final = 1 << 128
#: Columns with numbers that a text would round.
_REAL: Final = frozenset(name for _, text in schema.statements() for name in re.findall(r"(\w+) REAL", text))
_TRIES: Final = 3
_NOTES: Final = "notes"  # a part that files of before have no sums of
#: Notes of ``meta`` that decide what is shown, to whom, or removed. Others say how far some work is, or what it cost.
_SHOWN: Final = "archive_request: hold: inherits: ledger mapped: nonce: notices: pulled: rotate:".split()


@dataclass(frozen=True, slots=True)
class _Table:
    """A table whose rows are sealed. ``conversation``: which one a row belongs to, of a row that is called ``{row}``."""

    name: str
    part: str
    columns: tuple[str, ...]
    conversation: str = "{row}.conversation_id"
    which: str = "1"  # rows that count
    rests_on: tuple[str, ...] = ()  # other tables that ``conversation`` reads

    def hashed(self, row: str) -> str:
        """The arguments of the hash: as bytes, because a damaged row's text may be none, but for numbers with fractions."""
        names = [f"{row}.{column}" for column in self.columns]
        types = "||".join(f"typeof({name})" for name in names)
        return ", ".join([f"'{self.name}'", types, *map(_as_bytes, names)])

    def conversation_of(self, row: str) -> str:
        return f"coalesce({self.conversation.format(row=row)}, 0)"

    def counts(self, row: str) -> str:
        return self.which.format(row=row)


def _as_bytes(name: str) -> str:
    """A short text: SQLite reads all triggers of a connection twice when they are made."""
    bytes_of = f"CAST({name} AS BLOB)"
    return f"iif(typeof({name})='text',{bytes_of},{name})" if name.partition(".")[2] in _REAL else bytes_of


def _columns(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_NOBODY: Final = "0"
TABLES: Final = (
    _Table("messages", "messages", _columns(
        "store_id conversation_id session_key seq pos role tool_name answers digest tokens chars said_at stored_at source flags "
        "revises envelope")),
    _Table("blocks", "messages", _columns("block_id conversation_id data")),
    _Table("duplicates", "messages", _columns("store_id original_id"), _NOBODY),
    _Table("nodes", "summaries", _columns(
        "node_id conversation_id depth quality text expand_hint tokens source_tokens message_count first_store_id last_store_id "
        "first_pos last_pos earliest_at latest_at fingerprint model rung checks created_at replaces")),
    _Table("node_sources", "summaries", _columns("node_id position store_id child_id"),
           "(SELECT n.conversation_id FROM nodes AS n WHERE n.node_id = {row}.node_id)",
           rests_on=("nodes",)),
    _Table("assemblies", "summaries", _columns(
        "assembly_id conversation_id session_id roots tail_ids last_seq last_pos created_at digest")),
    _Table("carried", "summaries", _columns("conversation_id node_id")),
    _Table("meta", "summaries", _columns("key value"), _NOBODY, "{row}.key GLOB 'dissolved:*'"),
    _Table("meta", _NOTES, _columns("key value"), _NOBODY,
           "(" + " OR ".join(f"{{row}}.key GLOB '{prefix}*'" for prefix in _SHOWN) + ")"),
    _Table("ledger", _NOTES, _columns("conversation_id store_id")),
    _Table("archives", "archives", _columns(
        "archive_id handle conversation_id session_id store_ids first_index last_index messages summary given preview chars "
        "tokens state created_at changed_at")),
    _Table("conversations", "sessions", _columns("conversation_id parent_id fork_seq principal nonce created_at")),
    _Table("sessions", "sessions", _columns(
        "session_key session_id conversation_id parent_session_id origin platform host_key principal mode model started_at "
        "ended_at end_reason compactions")),
    _Table("payloads", "payload files", _columns("sha kind mime bytes chars created_at"), _NOBODY),
    _Table("payload_refs", "payload files", _columns("sha digest"), _NOBODY),
)  # fmt: skip
PARTS: Final = frozenset(table.part for table in TABLES)

Sums = dict[tuple[int, str], tuple[int, int]]
"""(count, sum) by conversation and part."""


@lru_cache(1000)
def _letters(types: str) -> str:
    """First letter of each type: "integernull" is "in"."""
    return re.sub("nteger|ull|eal|ext|lob", "", types)


def row_hash(table: str, types: str, *values: Any) -> int:
    """A number for what a row holds."""
    kinds = _letters(types)
    parts = [
        b"b%d:%b" % (len(value), value) if kind in "bt"
        else b"f" + struct.pack(">d", float(value)) if kind == "r"
        else b"%b;" % value if isinstance(value, bytes)
        else b"%d;" % value if kind == "i"
        else b"None;"
        for kind, value in zip(kinds, values, strict=True)
    ]  # fmt: skip
    said = f"{table};{kinds};".encode()
    return int.from_bytes(blake2b(said + b"".join(parts), digest_size=16).digest(), "big")


class Sealer:
    """The triggers of one writing connection, and what its open transaction changed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._changed: Sums = {}
        self._attached = False
        self._stopped = False  # by Ctrl-C, of which SQLite would make an error of its own

    def attach(self) -> None:
        """Create the seals' triggers. Called before a connection's first transaction; a connection that only reads has none."""
        if self._attached:
            return
        connection = self._connection
        connection.create_function("lcm_seal", -1, self._row)
        connection.create_function("lcm_sum", 2, _summed_up)
        there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in TABLES:
            if {table.name, *table.rests_on} <= there:  # the doctor tells which tables are lost
                for statement in _triggers(table):
                    connection.execute(statement)
        self._attached = True  # now: one that failed is made at the next call, or what it counts would be missing

    def _row(self, *args: Any) -> None:
        try:
            self._count(*args)
        except KeyboardInterrupt:
            self._stopped = True

    def _count(self, sign: int, conversation: int, part: str, *values: Any) -> None:
        key = (conversation if isinstance(conversation, int) else 0), part
        count, total = self._changed.get(key, (0, 0))
        self._changed[key] = count + sign, (total + sign * row_hash(*values)) % _MODULUS

    def mark(self) -> Sums:
        """The changes so far, for ``back_to`` where a part of the transaction is taken back."""
        return self._changed.copy()

    def back_to(self, mark: Sums) -> None:
        """Forget what was changed since."""
        self._changed = mark

    def flush(self) -> None:
        """Write the new sums, before the transaction is committed. Raises KeyboardInterrupt that came meanwhile."""
        if self._stopped:
            self._stopped = False
            raise KeyboardInterrupt
        changed, self._changed = self._changed, {}
        for (conversation, part), (count, total) in changed.items():
            if count or total:
                # Again: a read that failed once would leave sums that are wrong from then on.
                for _ in range(_TRIES):
                    if self._add(conversation, part, count, total):
                        break

    def _add(self, conversation: int, part: str, count: int, total: int) -> bool:
        """False: the table of sums is lost or damaged. It stops no message; the doctor finds the sums wrong."""
        try:
            _add(self._connection, conversation, part, count, total)
        except sqlite3.DatabaseError as exc:
            if exc.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT):
                raise
            return False
        return True


@cache
def _triggers(table: _Table) -> list[str]:
    made = []
    for event, rows in (("INSERT", (("new", 1),)), ("DELETE", (("old", -1),)), ("UPDATE", (("old", -1), ("new", 1)))):
        calls = " ".join(
            f"SELECT lcm_seal({sign}, {table.conversation_of(row)}, '{table.part}', {table.hashed(row)}) "
            f"WHERE {table.counts(row)};"
            for row, sign in rows
        )
        name = f"seal_{table.part.replace(' ', '_')}_{table.name}_{event}"
        made.append(f"CREATE TEMP TRIGGER IF NOT EXISTS {name} AFTER {event} ON main.{table.name} BEGIN {calls} END")
    return made


def _number(blob: object) -> int:
    return int.from_bytes(blob, "big") if isinstance(blob, bytes) else 0


def _summed_up(one: object, other: object) -> bytes:
    return ((_number(one) + _number(other)) % _MODULUS).to_bytes(16, "big")


def _add(connection: sqlite3.Connection, conversation: int, part: str, count: int, total: int) -> None:
    connection.execute(
        "INSERT INTO seals(conversation_id, part, count, sum) VALUES (?,?,?,?) ON CONFLICT(conversation_id, part) "
        "DO UPDATE SET count = count + excluded.count, sum = lcm_sum(sum, excluded.sum)",
        (conversation, part, count, total.to_bytes(16, "big")),
    )
    if count < 0:
        connection.execute(
            "DELETE FROM seals WHERE conversation_id = ? AND part = ? AND count = 0 AND sum = zeroblob(16)",
            (conversation, part),
        )


# -- checking --------------------------------------------------------------------------------------------
_Progress = Callable[[int, int], object]


class Readable(Protocol):
    """Subject of a check: a database, or a file of one."""

    def query(self, sql: str, params: Any = (), /) -> list[tuple[Any, ...]]:
        """All rows of a statement."""

    def iterate(self, sql: str, params: Any = (), /) -> Iterable[Sequence[tuple[Any, ...]]]:
        """All rows of a statement in batches."""


def conversations(db: Readable) -> list[int]:
    """Every conversation that has, or should have, rows; 0: what belongs to none."""
    rows = db.query("SELECT conversation_id FROM seals UNION SELECT conversation_id FROM conversations ORDER BY 1")
    return [row[0] for row in rows if isinstance(row[0], int)]


def broken(db: Readable, conversation: int | None = None, progress: _Progress = lambda *_: None) -> list[str]:
    """Broken seals in words: of one conversation, or of all. Beside writers: looked at again, or left out.

    ``progress``: called with how many rows were read, and how many there should be.
    """
    return _compared(db, conversation, lambda parts, due: _summed(db, conversation, parts, progress, due), dict)


def miscounted(db: Readable) -> list[str]:
    """Parts with more or fewer rows than were written, in words: no row is read for that."""
    return _compared(db, None, lambda parts, _: _counted(db, parts), _only_counts)


def _compared(
    db: Readable, conversation: int | None, found: Callable[[Collection[str], int], Sums], seen: Callable[[Sums], Sums]
) -> list[str]:
    for _ in range(_TRIES):
        before = _kept(db, conversation)
        parts = PARTS - {_NOTES} if _state(db) == _ONCE else PARTS
        there = found(parts, sum(count for count, _ in before.values()))
        if _kept(db, conversation) == before:
            written = seen(before)
            return [_told(key, written.get(key), there.get(key)) for key in sorted({*written, *there})
                    if written.get(key) != there.get(key)]  # fmt: skip
    return []


def _only_counts(sums: Sums) -> Sums:
    return {key: (count, 0) for key, (count, _) in sums.items() if count}


def _told(key: tuple[int, str], kept: tuple[int, int] | None, found: tuple[int, int] | None) -> str:
    conversation, part = key
    fewer = (kept or (0, 0))[0] - (found or (0, 0))[0]
    how = f"{abs(fewer)} {'fewer' if fewer > 0 else 'more'} than were written" if fewer else "not what was written"
    return f"{part} of conversation {conversation}: {how}" if conversation else f"{part}: {how}"


def _kept(db: Readable, conversation: int | None) -> Sums:
    only = "" if conversation is None else f" WHERE conversation_id = {int(conversation)}"
    return {(row[0], row[1]): (row[2], _number(row[3])) for row in db.query(f"SELECT * FROM seals{only}")}


def _summed(
    db: Readable, conversation: int | None, parts: Collection[str], progress: _Progress = lambda *_: None, due: int = 0
) -> Sums:
    """The sums of what is there. ``due``: how many rows there should be."""
    out: Sums = {}
    done = 0
    there = {row[0] for row in db.query("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in TABLES:
        if table.name not in there or table.part not in parts:
            continue
        for rows in db.iterate(_all_of(table, conversation)):
            for of, *values in rows:
                key = of if isinstance(of, int) else 0, table.part
                count, total = out.get(key, (0, 0))
                out[key] = count + 1, (total + row_hash(*values)) % _MODULUS
            done += len(rows)
            progress(done, due)
    return out


def _counted(db: Readable, parts: Collection[str]) -> Sums:
    """Numbers of rows, with no sums."""
    out: Sums = {}
    there = {row[0] for row in db.query("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in TABLES:
        if table.name in there and table.part in parts:
            of = table.conversation_of("r")
            for conversation, count in db.query(
                f"SELECT {of}, count(*) FROM {table.name} AS r WHERE {table.counts('r')} GROUP BY 1"
            ):
                key = conversation if isinstance(conversation, int) else 0, table.part
                out[key] = out.get(key, (0, 0))[0] + count, 0
    return out


def _all_of(table: _Table, conversation: int | None) -> str:
    of = table.conversation_of("r")
    where = table.counts("r")
    if conversation is not None and table.conversation == _NOBODY:
        where += f" AND {int(conversation)} = 0"
    elif conversation is not None and table.name == "node_sources":
        where += f" AND r.node_id IN (SELECT node_id FROM nodes WHERE conversation_id = {int(conversation)})"
    elif conversation is not None:
        where += f" AND r.conversation_id = {int(conversation)}"
    return f"SELECT {of}, {table.hashed('r')} FROM {table.name} AS r WHERE {where}"


class Plain:
    """A connection, read as ``Readable``."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def query(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement."""
        return self._connection.execute(sql, params).fetchall()

    def iterate(self, sql: str, params: Any = ()) -> Iterator[list[tuple[Any, ...]]]:
        """All rows of a statement in batches."""
        cursor = self._connection.execute(sql, params)
        while rows := cursor.fetchmany(500):
            yield rows


def reseal(connection: sqlite3.Connection) -> None:
    """Take what is there for what was written, inside the caller's transaction."""
    connection.execute("DELETE FROM seals")
    _seal(connection, PARTS)


def _seal(connection: sqlite3.Connection, parts: Collection[str]) -> None:
    connection.create_function("lcm_sum", 2, _summed_up)
    connection.executemany("DELETE FROM seals WHERE part = ?", [(part,) for part in parts])
    for (conversation, part), (count, total) in _summed(Plain(connection), None, parts).items():
        _add(connection, conversation, part, count, total)
    connection.execute("INSERT OR REPLACE INTO meta(key, value) VALUES (?, ?)", (SEALED, _NOW))


def _state(db: Readable) -> str | None:
    """``_NOW``, ``_ONCE`` (without the notes), or None: nothing says that a file was sealed."""
    rows = db.query("SELECT value FROM meta WHERE key = ?", (SEALED,))
    return rows[0][0] if rows else None


def ensure(connection: sqlite3.Connection) -> None:
    """Seal a file that never was, and let it have an identity: what tells its backups from those of other databases."""
    file = Plain(connection)
    try:
        if _state(file) not in (None, _ONCE):
            return
    except sqlite3.DatabaseError:  # a damaged page, or a lost table: the doctor says so
        return
    with schema.as_one(connection):
        connection.execute(_CREATE)
        state = _state(file)
        if state == _ONCE:
            _seal(connection, (_NOTES,))
        elif state is None and not connection.execute("SELECT 1 FROM seals LIMIT 1").fetchone():
            reseal(connection)
        connection.execute(
            "INSERT OR IGNORE INTO meta(key, value) VALUES (?, json_quote(lower(hex(randomblob(16)))))", (IDENTITY,)
        )
