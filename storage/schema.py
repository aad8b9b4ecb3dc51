"""
The schema: version 1 of the released format, all of it made when the file is made.

The full-text indexes are caches and are no part of this; ``search/index.py`` makes them. Files of development versions are
the business of ``upgrade``.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from typing import Any, Final

from ..errors import StoreError
from ..records import Flag

#: "lcm1": tells our file from anybody else's.
APPLICATION_ID: Final = 0x6C636D31
#: ``user_version`` of version 1. Development versions of the schema counted 1 to 7 there, and refuse what is greater as too new:
#: no file of the one kind is taken for the other.
VERSION: Final = 101
#: No address is as high: behind one that another program wrote there would be room for no row.
MOST_ADDRESSES: Final = 1 << 62
#: A fact of a file in which all that was ever deleted was overwritten at once, but for whole pages.
OVERWRITTEN: Final = "overwritten"

# A message names its session by the number of the session's row: the host's id would be most of what its row needs beside the
# stored JSON. An index ends with the row's own number: messages_by_session gives a session's rows in order.
_CORE = f"""
CREATE TABLE meta(
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE conversations(
  conversation_id INTEGER PRIMARY KEY AUTOINCREMENT,
  parent_id INTEGER REFERENCES conversations(conversation_id),
  fork_seq INTEGER,
  principal TEXT NOT NULL,
  nonce TEXT NOT NULL UNIQUE,
  created_at REAL NOT NULL
);

CREATE TABLE sessions(
  session_key INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id TEXT NOT NULL UNIQUE,
  conversation_id INTEGER NOT NULL REFERENCES conversations(conversation_id),
  parent_session_id TEXT,
  origin TEXT NOT NULL,
  platform TEXT NOT NULL DEFAULT '',
  host_key TEXT NOT NULL DEFAULT '',
  principal TEXT NOT NULL,
  mode TEXT NOT NULL DEFAULT 'full',
  model TEXT NOT NULL DEFAULT '',
  started_at REAL NOT NULL,
  ended_at REAL,
  end_reason TEXT,
  compactions INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX sessions_by_conversation ON sessions(conversation_id);

CREATE TABLE messages(
  store_id INTEGER PRIMARY KEY AUTOINCREMENT,
  conversation_id INTEGER NOT NULL REFERENCES conversations(conversation_id),
  session_key INTEGER NOT NULL REFERENCES sessions(session_key),
  seq INTEGER NOT NULL,
  pos REAL NOT NULL,
  role TEXT NOT NULL,
  tool_name TEXT,
  answers TEXT,
  digest BLOB NOT NULL,
  tokens INTEGER NOT NULL,
  chars INTEGER NOT NULL,
  said_at REAL,
  stored_at REAL NOT NULL,
  source TEXT NOT NULL,
  flags INTEGER NOT NULL DEFAULT 0,
  revises INTEGER REFERENCES messages(store_id),
  envelope BLOB NOT NULL,
  UNIQUE(conversation_id, seq)
);
CREATE INDEX messages_by_session ON messages(session_key);
CREATE INDEX messages_revised ON messages(revises) WHERE revises IS NOT NULL;
CREATE INDEX messages_retracted ON messages(conversation_id, pos) WHERE flags & {Flag.RETRACTED};
CREATE INDEX messages_externalised ON messages(digest) WHERE flags & {Flag.EXTERNALISED};
CREATE INDEX messages_imported ON messages(conversation_id) WHERE flags & {Flag.IMPORTED};

CREATE TABLE nodes(
  node_id INTEGER PRIMARY KEY AUTOINCREMENT,
  conversation_id INTEGER NOT NULL REFERENCES conversations(conversation_id),
  depth INTEGER NOT NULL,
  quality TEXT NOT NULL CHECK(quality IN ('verified', 'verbatim', 'provisional')),
  text TEXT NOT NULL,
  expand_hint TEXT NOT NULL,
  tokens INTEGER NOT NULL,
  source_tokens INTEGER NOT NULL,
  message_count INTEGER NOT NULL,
  first_store_id INTEGER NOT NULL,
  last_store_id INTEGER NOT NULL,
  first_pos REAL NOT NULL,
  last_pos REAL NOT NULL,
  earliest_at REAL,
  latest_at REAL,
  fingerprint BLOB NOT NULL,
  model TEXT NOT NULL,
  rung TEXT NOT NULL,
  checks TEXT NOT NULL,
  created_at REAL NOT NULL,
  replaces INTEGER REFERENCES nodes(node_id)
);
CREATE UNIQUE INDEX nodes_by_source ON nodes(conversation_id, fingerprint, quality);
CREATE INDEX nodes_by_first ON nodes(conversation_id, first_store_id);
CREATE INDEX nodes_by_depth ON nodes(conversation_id, depth, quality);
CREATE INDEX nodes_replaced ON nodes(replaces) WHERE replaces IS NOT NULL;

CREATE TABLE node_sources(
  node_id INTEGER NOT NULL REFERENCES nodes(node_id),
  position INTEGER NOT NULL,
  store_id INTEGER REFERENCES messages(store_id),
  child_id INTEGER REFERENCES nodes(node_id),
  PRIMARY KEY(node_id, position),
  CHECK((store_id IS NULL) <> (child_id IS NULL))
) WITHOUT ROWID;
CREATE INDEX node_sources_by_message ON node_sources(store_id) WHERE store_id IS NOT NULL;
CREATE INDEX node_sources_by_child ON node_sources(child_id) WHERE child_id IS NOT NULL;

CREATE TABLE assemblies(
  assembly_id INTEGER PRIMARY KEY AUTOINCREMENT,
  conversation_id INTEGER NOT NULL REFERENCES conversations(conversation_id),
  session_id TEXT NOT NULL,
  roots TEXT NOT NULL,
  tail_ids TEXT NOT NULL,
  last_seq INTEGER NOT NULL,
  last_pos REAL NOT NULL,
  created_at REAL NOT NULL,
  digest BLOB,
  state_tokens INTEGER NOT NULL DEFAULT 0,
  stubs TEXT NOT NULL DEFAULT '{{}}'
);
CREATE INDEX assemblies_by_conversation ON assemblies(conversation_id, assembly_id);

CREATE TABLE carried(
  conversation_id INTEGER NOT NULL REFERENCES conversations(conversation_id),
  node_id INTEGER NOT NULL REFERENCES nodes(node_id),
  PRIMARY KEY(conversation_id, node_id)
) WITHOUT ROWID;

CREATE TABLE health(
  topic TEXT PRIMARY KEY,
  severity TEXT NOT NULL,
  message TEXT NOT NULL,
  remedy TEXT NOT NULL,
  count INTEGER NOT NULL,
  first_at REAL NOT NULL,
  last_at REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE leases(
  name TEXT PRIMARY KEY,
  holder TEXT NOT NULL,
  expires_at REAL NOT NULL
) WITHOUT ROWID;
"""

# Which file a message shows is noted before its row is written, so by its digest; the row's flag says that it does.
_PAYLOADS = """
CREATE TABLE payloads(
  sha TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  mime TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  chars INTEGER NOT NULL,
  created_at REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE payload_refs(
  sha TEXT NOT NULL,
  digest BLOB NOT NULL,
  PRIMARY KEY(sha, digest)
) WITHOUT ROWID;
"""

# What was imported: which row here every row of a source became, so that doing it again, or going on, adds nothing twice.
# No references: what an operator removed here stays known as imported.
_IMPORTS = """
CREATE TABLE import_sources(
  source_id INTEGER PRIMARY KEY AUTOINCREMENT,
  import_id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  about TEXT NOT NULL,
  started_at REAL NOT NULL,
  finished_at REAL
);
CREATE TABLE imported(
  source_id INTEGER NOT NULL,
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  here INTEGER NOT NULL,
  PRIMARY KEY(source_id, kind, key)
) WITHOUT ROWID;
CREATE INDEX imported_here ON imported(kind, here);
CREATE TABLE duplicates(
  store_id INTEGER PRIMARY KEY,
  original_id INTEGER NOT NULL
);
"""

# A message in a block has the block's number as its stored JSON.
_BLOCKS = """
CREATE TABLE blocks(
  block_id INTEGER PRIMARY KEY AUTOINCREMENT,
  conversation_id INTEGER NOT NULL REFERENCES conversations(conversation_id),
  data BLOB NOT NULL
);
"""

# What an agent archived: which rows of a conversation one placeholder stands for. Messages are not copied. A branch gets rows of
# its own for what it inherits, under the same handle.
_ARCHIVES = """
CREATE TABLE archives(
  archive_id INTEGER PRIMARY KEY AUTOINCREMENT,
  handle TEXT NOT NULL,
  conversation_id INTEGER NOT NULL REFERENCES conversations(conversation_id),
  session_id TEXT NOT NULL,
  store_ids TEXT NOT NULL,
  first_index INTEGER NOT NULL,
  last_index INTEGER NOT NULL,
  messages INTEGER NOT NULL,
  summary TEXT NOT NULL,
  given INTEGER NOT NULL,
  preview TEXT NOT NULL,
  chars INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('archived', 'restored', 'pruned')),
  created_at REAL NOT NULL,
  changed_at REAL NOT NULL,
  UNIQUE(conversation_id, handle)
);
CREATE INDEX archives_by_handle ON archives(handle);
"""

# The sums of ``seals``: of the rows of a conversation, by the part that they are.
_SEALS = """
CREATE TABLE seals(
  conversation_id INTEGER NOT NULL,
  part TEXT NOT NULL,
  count INTEGER NOT NULL,
  sum BLOB NOT NULL,
  PRIMARY KEY(conversation_id, part)
) WITHOUT ROWID;
"""

# Tokens by day, session and what they were; amounts are added.
_COSTS = """
CREATE TABLE costs(
  day TEXT NOT NULL,
  session_id TEXT NOT NULL,
  what TEXT NOT NULL,
  amount INTEGER NOT NULL,
  PRIMARY KEY(day, session_id, what)
) WITHOUT ROWID;
"""

# Messages that state facts: a cache of addresses.
_LEDGER = """
CREATE TABLE ledger(
  conversation_id INTEGER NOT NULL,
  store_id INTEGER NOT NULL,
  PRIMARY KEY(conversation_id, store_id)
) WITHOUT ROWID;
"""

_PARTS = (_CORE, _PAYLOADS, _IMPORTS, _BLOCKS, _ARCHIVES, _SEALS, _COSTS, _LEDGER)
_SUBJECT = re.compile(r"CREATE (?:TABLE|(?:UNIQUE )?INDEX \w+ ON) (\w+)")


def statements() -> Iterator[tuple[str, str]]:
    """(table, a statement that makes it or an index of it), each in one line: a file keeps the text."""
    for part in _PARTS:
        for statement in part.split(";\n"):
            if text := " ".join(statement.split()):
                yield _SUBJECT.match(text)[1], text  # type: ignore[index] # the schema above is all there is


#: What each table holds, in words for whoever lost it.
HOLDS: Final = {
    "archives": "what the agent archived",
    "assemblies": "which summaries stand in which prompt",
    "blocks": "the text of older messages",
    "carried": "which summaries new sessions were given",
    "conversations": "conversations, and whose they are",
    "costs": "what requests cost",
    "duplicates": "which messages repeat others",
    "health": "noted problems",
    "import_sources": "which imports were made",
    "imported": "which import brought which message",
    "leases": "which process does what",
    "ledger": "which messages state facts",
    "messages": "messages",
    "meta": "notes of the plugin",
    "node_sources": "which messages each summary covers",
    "nodes": "summaries",
    "payload_refs": "which message shows which payload file",
    "payloads": "which payload files there are",
    "seals": "checksums of what is stored",
    "sessions": "sessions",
}
INDEX: Final = re.compile(r"CREATE (?:UNIQUE )?INDEX (\w+)")
_INDEXES: Final = {found[1]: text for _, text in statements() if (found := INDEX.match(text))}
TABLES: Final = frozenset(table for table, _ in statements())
_OURS: Final = f"m.type = 'table' AND m.name IN ({', '.join(repr(table) for table in sorted(TABLES))})"
_COLUMNS: Final = f"SELECT m.name, c.name FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c WHERE {_OURS}"
_TEXTS: Final = f"SELECT m.name, m.sql FROM sqlite_master AS m WHERE {_OURS}"
_ALL_TEXTS: Final = f"SELECT name, sql FROM sqlite_master WHERE tbl_name IN ({', '.join(map(repr, sorted(TABLES)))})"
_KINDS: Final = f"""
SELECT m.name, c.name, upper(c.type), c.pk, c."notnull", c.dflt_value IS NULL
  FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c WHERE {_OURS}
"""
#: Columns that no two rows may have in common, without the indexes that ``mend`` makes again, and the names of these columns.
_UNIQUE: Final = f"""
SELECT m.name, json_group_array(x.name), group_concat(coalesce(x.name, '') || ' ' || x.coll)
  FROM sqlite_master AS m JOIN pragma_index_list(m.name) AS i JOIN pragma_index_xinfo(i.name) AS x
 WHERE {_OURS} AND i."unique" AND x.key AND i.name NOT IN ({", ".join(map(repr, sorted(_INDEXES)))}) GROUP BY m.name, i.name
"""
_REFERENCES: Final = f"""
SELECT m.name, json_array(f."from"), f."from" || ' ' || f."table" || ' ' || coalesce(f."to", '') || ' ' || f.on_delete
  FROM sqlite_master AS m JOIN pragma_foreign_key_list(m.name) AS f WHERE {_OURS}
"""
#: Words of a statement, whatever is quoted in one; comments and blanks are none.
_WORD: Final = re.compile(
    r"""--[^\n]*|/\*.*?\*/|('(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^]]*\]|\w+|[^\w\s])""", re.DOTALL
)
#: How a definition begins that is of the table, not of one column.
_OF_TABLE: Final = frozenset(("CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"))
_UNKNOWN: Final = re.compile(r"unknown function: .*|no such (?:function|collation sequence): .*")
_CHANGED: Final = ".*"


def version_of(connection: sqlite3.Connection) -> int:
    """``user_version`` of a file; 0 for one that holds nothing yet."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


_Query = Callable[[str], Iterable[Sequence[Any]]]


@contextmanager
def made() -> Iterator[sqlite3.Connection]:
    """A database of this release that holds nothing."""
    with closing(sqlite3.connect(":memory:")) as new:
        for _, statement in statements():
            new.execute(statement)
        yield new


@cache
def columns() -> frozenset[tuple[str, str]]:
    """Columns of this release, each with its table."""
    with made() as new:
        return frozenset(new.execute(_COLUMNS))


@cache
def _texts() -> frozenset[tuple[Any, ...]]:
    """Tables and indexes of a file of this release, word for word."""
    with made() as new:
        return frozenset(new.execute(_ALL_TEXTS))


@cache
def _parts() -> frozenset[tuple[Any, ...]]:
    """Parts of a file of this release, as ``_parts_in`` reads them."""
    with made() as new:
        return _parts_in(new.execute)


def _parts_in(query: _Query) -> frozenset[tuple[Any, ...]]:
    """Parts of a file: (table, column), (table, column, what it takes), and (table, "", rules for its rows)."""
    parts: set[tuple[Any, ...]] = set()
    rules = {table: _rules_said(table, text) for table, text in query(_TEXTS)}
    empty: set[tuple[str, str]] = set()  # columns of others in which our rows have nothing: no rule concerns these
    for table, column, kind, key, needed, without in query(_KINDS):
        parts |= {(table, column), (table, column, kind, key)}
        if not needed:
            parts.add((table, column, "NULL"))
            empty |= {(table, column)} if without and (table, column) not in columns() else set()
        elif without and not key:
            rules[table].append(f"{column} is needed")
    for table, names, rule in (*query(_UNIQUE), *query(_REFERENCES)):
        if not any((table, name) in empty for name in json.loads(names)):
            rules[table].append(rule)
    for table in rules:
        rules[table] += _unknown_to_sqlite(query, table)
    return frozenset(parts | {(table, "", *sorted(each)) for table, each in rules.items()})


def _rules_said(table: str, text: str) -> list[str]:
    """Rules of a CREATE TABLE statement that decide which rows it takes, without those of columns of others."""
    definitions, options = _definitions(text)
    rules = [word for word in options if word != ","]
    for first, *words in filter(None, definitions):
        if first in _OF_TABLE:
            rules += _rules_in([first, *words])
        elif (table, first.lower()) in columns():
            rules += _rules_in(words)
    return rules


def _rules_in(words: Sequence[str]) -> Iterator[str]:
    """Rules among the words of a definition; what SQLite does anyway is none."""
    for n, word in enumerate(words):
        following = words[n + 1 : n + 3]
        if word == "AUTOINCREMENT":
            yield word
        elif word == "COLLATE" and following[:1] != ["BINARY"]:
            yield " ".join((word, *following[:1]))
        elif word == "ON" and following[:1] == ["CONFLICT"] and following[1:] != ["ABORT"]:
            yield " ".join((word, *following))
        elif word == "CHECK":
            yield " ".join((word, *_group(words[n + 1 :])))


def _group(words: Sequence[str]) -> Iterator[str]:
    """Words up to the end of the brackets that they begin with."""
    depth = 0
    for word in words:
        depth += (word == "(") - (word == ")")
        yield word
        if not depth:
            return


def _definitions(text: str) -> tuple[list[list[str]], list[str]]:
    """Words of each definition of a CREATE TABLE statement, and those behind them; names without quotes, as capitals."""
    found = (word[1] for word in _WORD.finditer(text) if word[1])
    words = iter([word if word[0] == "'" else word.strip('"`[]').upper() or word for word in found])
    definitions, depth = [list[str]()], 1
    while next(words, "(") != "(":
        pass
    for word in words:
        depth += (word == "(") - (word == ")")
        if not depth:
            break
        if word == "," and depth == 1:
            definitions.append([])
        else:
            definitions[-1].append(word)
    return definitions, [*words]


def _unknown_to_sqlite(query: _Query, table: str) -> list[str]:
    """A function or an order of another program's index that SQLite does not know: the table takes no new row then."""
    try:
        query(f"EXPLAIN QUERY PLAN INSERT INTO main.{table} DEFAULT VALUES")
    except (sqlite3.OperationalError, StoreError) as exc:
        if found := unknown_in(exc):
            return [found]
        raise
    return []


def quoted(name: str) -> str:
    """Name of a table or column as SQL quotes it, with its quotation marks doubled."""
    return '"' + name.replace('"', '""') + '"'


def unknown_in(exc: Exception) -> str:
    """A function or an order that SQLite does not know, by the words of its error; "" for any other error."""
    found = _UNKNOWN.search(str(exc))
    return found.group() if found else ""


def lost_parts(query: _Query) -> list[str]:
    """Tables of this release that a file lacks, columns (`nodes.text`), and `nodes.*` where a table has other keys or checks."""
    if frozenset(query(_ALL_TEXTS)) == _texts():
        return []
    there = _parts_in(query)
    tables, lost = {row[0] for row in there}, _parts() - there
    columns = {
        f"{table}.{column}" if table in tables else table for table, column, *rule in lost if column and not rule
    }
    less = {part.partition(".")[0] for part in columns}
    return sorted(columns | {f"{table}{_CHANGED}" for table, *_ in lost if table not in less})


def lacked(parts: Iterable[str]) -> str:
    """Lost parts in words."""
    return ", ".join(f"{_named(part)} ({HOLDS[part.partition('.')[0]]})" for part in parts)


def _named(part: str) -> str:
    return f"the keys or checks of {part.removesuffix(_CHANGED)}" if part.endswith(_CHANGED) else part


def is_whole(connection: sqlite3.Connection) -> bool:
    """True where a file holds each table of this release; its header may say something else."""
    return TABLES.issubset(row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))


def create(connection: sqlite3.Connection) -> None:
    """Make the tables in a file that holds nothing yet. Two processes that both try are serialised by SQLite."""
    if version_of(connection):
        return
    with as_one(connection):
        if not version_of(connection):
            for _, statement in statements():
                connection.execute(statement)
            mark(connection)
            connection.execute("INSERT INTO meta(key, value) VALUES (?, 'true')", (OVERWRITTEN,))


@contextmanager
def as_one(connection: sqlite3.Connection, how: str = "IMMEDIATE") -> Iterator[None]:
    """A transaction of a connection that no ``Database`` has: all or nothing."""
    connection.execute(f"BEGIN {how}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite ends it by itself on some errors; a refused ROLLBACK would hide which
            connection.execute("ROLLBACK")
        raise


def mark(connection: sqlite3.Connection) -> None:
    """Note in a file's header whose it is and which schema it has, inside the caller's transaction."""
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={VERSION}")


#: Numbers of a row without which nothing can be stored or summarised: SQLite takes anything for a value.
_NUMBERS: Final = {
    "messages": ("store_id", "conversation_id", "session_key", "seq", "pos", "tokens", "chars", "stored_at", "flags"),
    "nodes": (
        "node_id", "conversation_id", "depth", "tokens", "source_tokens", "message_count", "first_store_id", "last_store_id",
        "first_pos", "last_pos", "created_at",
    ),
}  # fmt: skip


def has_numbers(table: str, row: Mapping[str, Any]) -> bool:
    """Are the numbers of a message or a summary numbers, with room behind them?"""
    numbers = [row[name] for name in _NUMBERS.get(table, ()) if name in row]
    return all(isinstance(each, int | float) and abs(each) < MOST_ADDRESSES for each in numbers)


def odd_numbers(query: Callable[[str], Iterable[Sequence[Any]]]) -> list[str]:
    """Messages and summaries of which ``has_numbers`` is not true, in words."""
    there, most, found = {(table, column) for table, column in query(_COLUMNS)}, MOST_ADDRESSES - 1, []
    for table, names in _NUMBERS.items():
        if not there.issuperset((table, name) for name in names):
            continue  # no such table, or another program's
        odd = " OR ".join(
            f"typeof({name}) NOT IN ('integer', 'real') OR {name} NOT BETWEEN -{most} AND {most}" for name in names
        )
        ((count,),) = query(f"SELECT count(*) FROM {table} WHERE {odd}")
        found += [f"{table}: {count} with a number that is none"] if count else []
    return found


def mend(connection: sqlite3.Connection) -> None:
    """Make indexes again that another program dropped or changed, and counters that leave no room for another row.

    Statements name the indexes, and nothing of what is stored is in them alone.
    """
    there = {name: (kind, text) for name, kind, text in connection.execute("SELECT name, type, sql FROM sqlite_master")}
    for table, statement in statements():
        found = INDEX.match(statement)
        if found is None or table not in there:
            continue
        kind, text = there.get(found[1], ("index", None))
        if kind == "index" and text != statement:
            _make_again(connection, found[1], statement)
    beyond = f"FROM sqlite_sequence WHERE typeof(seq) <> 'integer' OR seq >= {MOST_ADDRESSES}"
    with suppress(sqlite3.DatabaseError):  # a damaged page: the doctor tells of it
        if connection.execute(f"SELECT 1 {beyond}").fetchone():  # SQLite counts on from the last row then
            connection.execute(f"DELETE {beyond}")


def _make_again(connection: sqlite3.Connection, index: str, statement: str) -> None:
    """Make an index in place of another one of its name: another process may open the file at the same time, and be faster."""
    connection.execute("SAVEPOINT again")
    try:
        try:
            connection.execute(f"DROP INDEX IF EXISTS {index}")
            connection.execute(statement)
        except (sqlite3.IntegrityError, sqlite3.OperationalError) as exc:
            if isinstance(exc, sqlite3.OperationalError) and exc.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise
            # Rows that it would not have let in, or a column that is gone: the doctor tells of them, and the rest is read.
            connection.execute("ROLLBACK TO again")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("RELEASE again")
