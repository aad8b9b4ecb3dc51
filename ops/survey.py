"""
Counts and bounded scans for status and doctor; bytes of the file by kind of content.

Reads all tables and writes none: the one place besides the owners that names their columns. What is called for the status costs
the same on a million rows as on ten; what scans says how far.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from ..compaction.plan import LEAST_TOKENS
from ..errors import StoreBusy, StoreError
from ..records import ARCHIVE_RUNG, EXTRACT_RUNG, OUT_OF_TIME, Flag
from ..session import ID_OF, KEY_OF
from ..storage import seals
from ..storage.blocks import UNREADABLE, Blocks
from ..storage.connection import Database
from ..storage.files import Progress, quick_check, silent
from ..storage.meta import HOLE, NOT_READ, Meta
from ..storage.packing import read_json, unpack, unpack_block
from ..storage.schema import has_numbers, lacked, lost_parts, quoted
from ..storage.upgrade import Reference
from ..text import content

#: In ``meta``, and the name of a check: what of it an operator has accepted.
ACCEPTED = "accepted:"
#: Rows that a count may touch before it says "at least".
COUNT_LIMIT = 50_000
#: How many of the newest rows a scan of the doctor looks at, unless a deep check was asked for.
RECENT_ROWS = 20_000
#: So many of a large file: each is unpacked.
_NEWEST_OF_MANY = 2_000

#: Holes that repairs noted, by conversation: how many messages came back into each, and how many of these have new addresses. No
#: more than it lacks, and neither other versions of a message nor records of ours.
_FILLED: Final = f"""
WITH holes(id, seq, last, address) AS MATERIALIZED (
       SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]')
         FROM meta WHERE key GLOB '{HOLE}*' AND json_valid(value)),
     bounds AS (
       SELECT h.*, h.seq - coalesce(b.seq, c.fork_seq, 0) - 1 AS width, coalesce(b.pos, c.fork_seq, 0) AS after, e.pos AS before
         FROM holes AS h CROSS JOIN messages AS e ON (e.conversation_id, e.seq) = (h.id, h.seq)
         CROSS JOIN conversations AS c ON c.conversation_id = h.id LEFT JOIN messages AS b ON b.conversation_id = h.id
          AND b.seq = (SELECT max(seq) FROM messages WHERE conversation_id = h.id AND seq < h.seq))
SELECT h.id, min(width, count(*)) AS back, min(width, count(*) FILTER (WHERE m.store_id > address)) AS anew
  FROM bounds AS h CROSS JOIN messages AS m ON m.conversation_id = h.id AND m.seq > last AND m.pos > after AND m.pos < before
   AND m.revises IS NULL AND m.flags & {Flag.IMPORTED} = 0 GROUP BY h.id, h.seq
"""


def intact(stored_json: object) -> bool:
    """Is this what the store wrote? (Stored JSON by itself; the number of a block proves nothing.)"""
    if isinstance(stored_json, int):
        return True
    if not isinstance(stored_json, bytes):
        return False
    try:
        return isinstance(content.decode(unpack(stored_json)), dict)
    except (zlib.error, ValueError):
        return False


def intact_block(data: object) -> bool:
    """Is this a block of stored JSON?"""
    try:
        return isinstance(data, bytes) and bool(unpack_block(data))  # all of it is inflated
    except (zlib.error, ValueError, TypeError):
        return False


def readable(table: str, row: Mapping[str, Any]) -> bool:
    """Can the row be used? A page that was overwritten may still look like rows to SQLite."""
    if table == "blocks":
        return intact_block(row["data"])
    if table == "sessions":
        return isinstance(row["session_id"], str)
    if table != "messages":
        return has_numbers(table, row)
    kept = intact(row["envelope"]) or Reference.of(row["envelope"]) is not None
    return kept and isinstance(row["seq"], int) and isinstance(row["session_key"], int) and has_numbers(table, row)


def damages(db: Database, progress: Progress = silent) -> tuple[str, ...]:
    """Faults of a file, by SQLite's own check and by reading every message."""
    found = quick_check(db.path, progress)
    return found or tuple(f"msg_{each} holds garbage" for each in Survey(db).unreadable(progress))


def unsound(db: Database, progress: Progress = silent) -> tuple[str, ...]:
    """Faults of a database as a file, read as a whole: every page, every message, every seal, every reference."""
    survey = Survey(db)
    if lost := survey.lost_tables():
        return (f"a part of it is gone: {lacked(lost)}",)
    found = damages(db, progress)
    accepted = Meta(db).with_prefix(ACCEPTED)
    gaps = survey.gaps() if "ingest_gaps" not in accepted else []
    broken = [f"{count} {name}" for name, count in survey.orphans().items() if count and "links" not in accepted]
    missing = [f"messages of conversation {number} are missing: {count}" for number, count in gaps]
    if "ingest_gaps" not in accepted and (unread := survey.unreadable_once()):
        missing.append(f"a repair could not read {unread} messages")
    return found or (*seals.broken(db, progress=partial(progress, "comparing with seals")), *missing, *broken)


# A branch counts on from where it left its parent; nodes are counted by their index.
_BELONGING = """
SELECT sum(max(0, (SELECT coalesce(max(seq), 0) FROM messages m WHERE m.conversation_id = c.conversation_id)
                  - coalesce(fork_seq, 0))),
       sum((SELECT count(*) FROM nodes n WHERE n.conversation_id = c.conversation_id))
  FROM conversations c WHERE c.principal = ?
"""


class Survey:
    """Reading questions about one database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._blocks = Blocks(db)

    # -- cheap ----------------------------------------------------------------------------------------
    def total(self, table: str, key: str) -> int:
        """Rows of a table whose key only grows, from the last key ever given and what an operator removed."""
        removed = Meta(self._db).value(f"removed:{table}")
        newest = self._db.query_one(f"SELECT max({key}) FROM {table}")
        if newest is None or newest[0] is None:
            return 0
        return max(0, (self.given(table) or int(newest[0])) - (removed if isinstance(removed, int) else 0))

    def ownerless(self) -> bool:
        """Are there messages, and no session at all? Both tables are asked for one row."""
        sql = "SELECT EXISTS (SELECT 1 FROM messages LIMIT 1) AND NOT EXISTS (SELECT 1 FROM sessions LIMIT 1)"
        row = self._db.query_one(sql)
        return bool(row and row[0])

    def given(self, table: str) -> int:
        """The last key that a table ever gave."""
        row = self._db.query_one("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
        return int(row[0]) if row else 0

    def belonging_to(self, principal: str) -> tuple[int, int]:
        """(messages, summaries) of one principal: a look-up for each conversation, of any size."""
        row = self._db.query(_BELONGING, (principal,))[0]
        return int(row[0] or 0), int(row[1] or 0)

    def messages_of(self, session_id: str) -> int:
        """Messages stored under one host session, counted up to ``COUNT_LIMIT``."""
        sql = f"SELECT count(*) FROM (SELECT 1 FROM messages WHERE session_key = {KEY_OF.format('?')} LIMIT ?)"
        return int(self._db.query(sql, (session_id, COUNT_LIMIT))[0][0])

    def archive(self) -> tuple[int, int, float | None]:
        """(conversations, sessions, when the first of them began) of the whole database."""
        sql = "SELECT (SELECT count(*) FROM conversations), count(*), min(started_at) FROM sessions"
        row = self._db.query(sql)[0]
        return int(row[0]), int(row[1]), row[2]

    def sessions_of(self, conversation_id: int) -> int:
        """Host sessions that a conversation went through."""
        sql = "SELECT count(*) FROM sessions WHERE conversation_id = ?"
        return int(self._db.query(sql, (conversation_id,))[0][0])

    def sources_of(self, session_id: str, *, newest: int) -> dict[str, int]:
        """Sources of the newest messages of a session; "" counts as unknown."""
        rows = self._db.query(
            "SELECT coalesce(nullif(trim(source), ''), 'unknown'), count(*) FROM (SELECT source FROM messages "
            f"WHERE session_key = {KEY_OF.format('?')} ORDER BY store_id DESC LIMIT ?) GROUP BY 1 ORDER BY 2 DESC, 1",
            (session_id, newest),
        )
        return dict(rows)

    # -- scans ----------------------------------------------------------------------------------------
    def floor(self, *, deep: bool, newest: int = RECENT_ROWS) -> int:
        """The store id from which a scan begins: 0, or so many below the last one."""
        row = self._db.query_one("SELECT max(store_id) FROM messages")
        last = int(row[0]) if row and row[0] is not None else 0
        return 0 if deep else max(0, last - newest)

    def largest(self, *, above: int, limit: int) -> list[dict[str, Any]]:
        """The largest messages, largest first; nothing of their texts."""
        sql = "SELECT store_id, role, tool_name, chars, length(envelope) FROM messages WHERE store_id > ? "
        rows = self._db.query(f"{sql} ORDER BY chars DESC, store_id LIMIT ?", (above, limit))
        return [dict(zip(("store_id", "role", "tool", "chars", "stored_bytes"), row, strict=True)) for row in rows]

    def large_ids(self, *, above: int, chars: int, limit: int) -> list[int]:
        """Messages of at least ``chars`` characters, largest first."""
        rows = self._db.query(
            "SELECT store_id FROM messages WHERE store_id > ? AND chars >= ? ORDER BY chars DESC, store_id LIMIT ?",
            (above, chars, limit),
        )
        return [row[0] for row in rows]

    def lost_tables(self) -> list[str]:
        """Tables that are not there, and columns of others (`nodes.text`)."""
        return lost_parts(self._db.query)

    def unaligned(self, *, above: int) -> list[tuple[str, int]]:
        """(session, how many) of messages whose place could not be proven."""
        return self._db.query(
            f"SELECT {ID_OF.format('m')}, m.count FROM (SELECT session_key, count(*) AS count FROM messages "
            "WHERE store_id > ? AND flags & ? GROUP BY 1) AS m ORDER BY 2 DESC, 1 LIMIT 20",
            (above, Flag.UNALIGNED),
        )

    def unreadable(self, progress: Progress = silent, *, above: int = 0) -> list[int]:
        """Messages whose stored JSON is garbage: damage that SQLite does not notice. Reads every row above an address."""
        found: list[int] = []
        done, total = 0, self.total("messages", "store_id")
        sql = "SELECT store_id, envelope FROM messages WHERE store_id > ? ORDER BY store_id"
        for rows in self._db.iterate(sql, (above,), size=2000):
            found.extend(store_id for store_id, stored_json in rows if not self._readable(store_id, stored_json))
            done += len(rows)
            progress("reading messages", min(done, total), total)
        return found

    def unreadable_lately(self, *, large: bool) -> list[int]:
        """The same among the newest messages: what every look at a file may cost."""
        return self.unreadable(above=self.floor(deep=False, newest=_NEWEST_OF_MANY if large else RECENT_ROWS))

    def _readable(self, store_id: int, stored_json: object) -> bool:
        if not isinstance(stored_json, int | bytes):
            return False
        try:
            return isinstance(content.decode(read_json(store_id, stored_json, self._blocks.block)), dict)
        except UNREADABLE:
            return False

    def blank_sources(self, *, above: int = 0) -> int:
        """Messages whose source is blank."""
        sql = "SELECT count(*) FROM messages WHERE store_id > ? AND trim(source) = ''"
        return int(self._db.query(sql, (above,))[0][0])

    def gaps(self) -> list[tuple[int, int]]:
        """(conversation, how many sequence numbers are missing); the scan reads one index only.

        A branch counts on from where it left its parent. A salvage notes of which conversations nothing was left, and holes,
        which may have been filled.
        """
        return self._db.query(
            "SELECT CAST(substr(key, 6) AS INTEGER), max(1, CAST(value AS INTEGER)) AS gone FROM meta "
            "WHERE key LIKE 'lost:%' AND NOT EXISTS "
            "(SELECT 1 FROM messages WHERE conversation_id = CAST(substr(key, 6) AS INTEGER)) UNION ALL "
            "SELECT m.id, m.last - m.rows - coalesce(c.fork_seq, 0) - coalesce(f.back, 0) AS gone FROM "
            "(SELECT conversation_id AS id, max(seq) AS last, count(*) AS rows FROM messages GROUP BY conversation_id) AS m "
            "LEFT JOIN conversations AS c ON c.conversation_id = m.id "
            f"LEFT JOIN (SELECT id, sum(back) AS back FROM ({_FILLED}) GROUP BY id) AS f ON f.id = m.id "
            "WHERE gone <> 0 ORDER BY gone DESC LIMIT 20"
        )

    def unreadable_once(self) -> int:
        """Messages that repairs could not read, but for those that came back: under their addresses, or into their holes."""
        noted = Meta(self._db).value(NOT_READ)
        if not isinstance(noted, int):
            return 0
        (came_back,) = self._db.query(f"SELECT coalesce(sum(anew), 0) FROM ({_FILLED})")[0]
        return max(0, noted - int(came_back))

    def provisional(self, *, limit: int) -> list[tuple[int, int, str, str]]:
        """(node, conversation, rung, checks) of provisional nodes that nothing has replaced yet, newest first.

        Not those that an import brought, which no prompt shows, nor those that the operator chose (extracts instead of a model),
        nor a little that no model was asked about: it is summarised with what follows.
        """
        return self._db.query(
            "SELECT n.node_id, n.conversation_id, n.rung, n.checks FROM nodes n WHERE n.quality = 'provisional' "
            f"AND n.rung NOT IN ('imported', '{ARCHIVE_RUNG}', '{EXTRACT_RUNG}') "
            "AND NOT (n.source_tokens < ? AND instr(n.checks, ?)) "
            "AND NOT EXISTS (SELECT 1 FROM nodes b WHERE b.conversation_id = n.conversation_id "
            "AND b.fingerprint = n.fingerprint AND b.quality <> 'provisional') "
            "AND (n.depth > 0 OR EXISTS (SELECT 1 FROM node_sources s WHERE s.node_id = n.node_id AND NOT EXISTS "
            "(SELECT 1 FROM node_sources t JOIN nodes b ON b.node_id = t.node_id WHERE t.store_id = s.store_id "
            "AND b.conversation_id = n.conversation_id AND b.quality = 'verified'))) ORDER BY n.node_id DESC LIMIT ?",
            (LEAST_TOKENS, f'"reasons": ["{OUT_OF_TIME}"]', limit),
        )

    def prompts(self, conversation_id: int, *, newest: int) -> list[list[int]]:
        """The summaries that the newest prompts of a conversation showed, oldest prompt first."""
        rows = self._db.query(
            "SELECT roots FROM assemblies WHERE conversation_id = ? ORDER BY assembly_id DESC LIMIT ?",
            (conversation_id, newest),
        )
        return [json.loads(row[0]) for row in reversed(rows)]

    def orphans(self) -> dict[str, int]:
        """Rows that point at nothing, by what is missing; all of them 0 in a sound database."""
        questions = {
            "messages without a conversation": "SELECT count(*) FROM (SELECT DISTINCT conversation_id AS c FROM messages) "
            "WHERE c NOT IN (SELECT conversation_id FROM conversations)",
            "messages without a session": "SELECT count(*) FROM messages "
            "WHERE session_key NOT IN (SELECT session_key FROM sessions)",
            "sessions without a conversation": "SELECT count(*) FROM sessions WHERE conversation_id NOT IN "
            "(SELECT conversation_id FROM conversations)",
            "summaries without sources": "SELECT count(*) FROM nodes n WHERE NOT EXISTS "
            "(SELECT 1 FROM node_sources s WHERE s.node_id = n.node_id)",
            "summaries above themselves": "SELECT count(*) FROM node_sources s JOIN nodes p ON p.node_id = s.node_id "
            "JOIN nodes c ON c.node_id = s.child_id WHERE c.depth >= p.depth",
        }
        return {name: int(self._db.query(sql)[0][0]) for name, sql in questions.items()}

    def pragma(self, name: str) -> Any:
        """One value that SQLite reports about the file."""
        row = self._db.query_one(f"PRAGMA {name}")
        return row[0] if row else None

    def touch(self) -> None:
        """Read the first page of every table. Raises StoreCorrupt where one of them is none."""
        for name in self.tables():
            self._db.query(f"SELECT 1 FROM {quoted(name)} NOT INDEXED LIMIT 1")

    def tables(self) -> Sequence[str]:
        """Names of all tables."""
        rows = self._db.query("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        return [row[0] for row in rows]


#: By the table that pages belong to, or its beginning where that ends in "_"; what is in none of these is "other".
_KINDS: Final = {
    "messages": "messages",
    "blocks": "message_blocks",
    "message_index_": "search_index",
    "node_index_": "search_index",
    "vectors": "search_index",
    "nodes": "summaries",
    "node_sources": "summaries",
    "assemblies": "summaries",
    "carried": "summaries",
    "stubs": "summaries",
    "archives": "summaries",
    "payloads": "payload_references",
    "payload_refs": "payload_references",
}
_ORDER: Final = (
    "messages", "message_columns", "message_indexes", "message_blocks", "search_index", "summaries", "payload_references",
    "other", "free_pages",
)  # fmt: skip
# An index and a table that lies in one are told apart: only what has a table's name by itself holds rows.
_MISSING = "no such table: dbstat"
_UNPACKED = "SELECT coalesce(sum(length(envelope)), 0) FROM messages WHERE typeof(envelope) = 'blob'"
_PAGES = """
SELECT s.name, coalesce(m.tbl_name, s.name), s.pgsize FROM dbstat AS s LEFT JOIN sqlite_master AS m ON m.name = s.name
 WHERE s.aggregate = TRUE
"""


def free_bytes(db: Database) -> int:
    """Pages that nothing uses: the next messages fill them, or upkeep gives them back. Costs nothing."""
    survey = Survey(db)
    return int(survey.pragma("freelist_count") or 0) * int(survey.pragma("page_size") or 0)


def inside(db: Database) -> dict[str, int]:
    """Bytes by kind; together they are the file. Empty where this build of SQLite cannot tell (no dbstat)."""
    try:
        rows = db.query(_PAGES)
    except StoreBusy:
        raise
    except StoreError as exc:
        if _MISSING in str(exc):
            return {}
        raise
    out = dict.fromkeys(_ORDER, 0)
    for name, table, size in rows:
        kind = _kind_of(table)
        out["message_indexes" if kind == "messages" and name != table else kind] += size
    json_texts = min(int(db.query(_UNPACKED)[0][0]), out["messages"])
    out["messages"], out["message_columns"] = json_texts, out["messages"] - json_texts
    out["free_pages"] = free_bytes(db)
    return out


def _kind_of(table: str) -> str:
    return _KINDS.get(table) or next((k for t, k in _KINDS.items() if t[-1] == "_" and table.startswith(t)), "other")
