"""
The schema, as a tuple of steps that only grows.

``user_version`` N means that the first N steps have run. Each step and its number are one transaction. A new file gets all of
them at once, but for the tables that it may never need (``LATER``). The full-text indexes are caches and are no part of this;
``search.py`` makes them.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Final

#: "lcm1": tells our file from anybody else's.
APPLICATION_ID = 0x6C636D31

# A message names its session by the number of the session's row: the host's id would be most of what its row needs beside the
# envelope. An index ends with the row's own number: messages_by_session gives a session's rows in order.
_CORE = """
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
CREATE INDEX messages_retracted ON messages(conversation_id, pos) WHERE flags & 1;

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
  created_at REAL NOT NULL
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
CREATE INDEX messages_externalised ON messages(digest) WHERE flags & 256;
"""

# A restored backup gives assembly ids out again: what a prompt of ours said tells which one it is.
_ASSEMBLY_DIGESTS = """
ALTER TABLE assemblies ADD COLUMN digest BLOB;
CREATE INDEX messages_imported ON messages(conversation_id) WHERE flags & 512;
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

# A message in a block has the block's number as its envelope.
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

#: Tables that are made when something is first written to one of their group: one page each, and one for each of their indexes,
#: are a third of a file that holds a short conversation.
LATER: Final[Mapping[str, tuple[str, ...]]] = {
    "summaries": ("nodes", "node_sources", "assemblies", "carried"),
    "payloads": ("payloads", "payload_refs"),
    "imports": ("import_sources", "imported", "duplicates"),
    "archives": ("archives",),
    "leases": ("leases",),
}
GROUP_OF: Final = {table: group for group, tables in LATER.items() for table in tables}
#: In ``meta``: which groups were made. Without one that is noted, tables are lost.
NOTED: Final = "tables:"
_NOTE = f"INSERT INTO meta(key, value) VALUES ('{NOTED}{{}}', 'true');\n"

# Files of before have all tables.
_NOTES = "".join(_NOTE.format(group) for group in LATER)

STEPS: tuple[str, ...] = (_CORE, _PAYLOADS, _ASSEMBLY_DIGESTS, _IMPORTS, _BLOCKS, _ARCHIVES, _NOTES)

_SUBJECT = re.compile(r"(?:CREATE TABLE|CREATE(?: UNIQUE)? INDEX \w+ ON|ALTER TABLE|INSERT INTO) (\w+)")


def statements(group: str | None) -> Iterator[str]:
    """The statements that make a group of tables; None: those that every file has from the beginning."""
    for step in STEPS[: STEPS.index(_NOTES)]:
        for statement in _parts(step):
            subject = _SUBJECT.match(statement)
            if subject is not None and GROUP_OF.get(subject[1]) == group:
                yield statement
    if group is not None:
        yield from _parts(_NOTE.format(group))


def _parts(step: str) -> Iterator[str]:
    """A step's statements, each in one line: a file keeps the text of those that make tables."""
    return (" ".join(part.split()) for part in step.split(";\n") if part.strip())


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a database to the newest schema. Two processes that both try are serialised by SQLite."""
    while _version(connection) < len(STEPS):
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = _version(connection)
            if version < len(STEPS):
                for statement in _parts(STEPS[version]) if version else statements(None):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version={version + 1 if version else len(STEPS)}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
