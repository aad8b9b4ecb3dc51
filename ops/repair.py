"""
Repair: search indexes built anew, and what is readable of a damaged file saved into a new one.

A sound file is never rewritten: only its indexes are caches. A damaged file is kept as it is found, side files included, and
what could not be read is reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..db import files
from ..db.connection import Database
from ..db.files import Progress, Salvage, silent
from ..db.meta import COUNT_REMOVED, Meta
from ..db.upgrade import Reference
from ..errors import BadRequest, StoreCorrupt, StoreError
from ..session import LOST_ID
from . import backup
from .check_content import index_damage
from .check_file import damages
from .render import counted
from .survey import Survey, intact, intact_block

if TYPE_CHECKING:
    from .status import OpsDeps

Row = TypeVar("Row")

#: Owner of conversations whose own row could not be read: only the local operator sees them.
RECOVERED = "recovered"
_LOST_CONVERSATIONS = """
INSERT INTO conversations(conversation_id, principal, nonce, created_at)
SELECT lost.c, coalesce((SELECT principal FROM sessions s WHERE s.conversation_id = lost.c LIMIT 1), :owner),
       lower(hex(randomblob(8))), lost.at
  FROM (SELECT conversation_id AS c, min(at) AS at FROM (
          SELECT conversation_id, stored_at AS at FROM messages UNION ALL
          SELECT conversation_id, started_at FROM sessions) GROUP BY 1) AS lost
 WHERE lost.c NOT IN (SELECT conversation_id FROM conversations)
"""
# OR IGNORE: sessions whose name is not known wait for the next statement.
_LOST_SESSIONS = """
INSERT OR IGNORE INTO sessions(session_key, session_id, conversation_id, origin, principal, started_at)
SELECT m.session_key, {id}, max(m.conversation_id), 'start', c.principal, min(m.stored_at)
  FROM messages m JOIN conversations c USING(conversation_id)
 WHERE m.session_key NOT IN (SELECT session_key FROM sessions) GROUP BY m.session_key
"""
_NAMED_SESSIONS = _LOST_SESSIONS.format(id="""json_extract(:names, '$."' || m.session_key || '"')""")
_NAMELESS_SESSIONS = _LOST_SESSIONS.format(id=LOST_ID.format("m"))
_DANGLING_SOURCES = """
DELETE FROM node_sources WHERE (store_id IS NOT NULL AND store_id NOT IN (SELECT store_id FROM messages))
    OR (child_id IS NOT NULL AND child_id NOT IN (SELECT node_id FROM nodes))
    OR node_id NOT IN (SELECT node_id FROM nodes)
"""
_LOST_SOURCES = """
INSERT INTO node_sources(node_id, position, store_id)
SELECT n.node_id, row_number() OVER (PARTITION BY n.node_id ORDER BY m.pos, m.seq) - 1, m.store_id
  FROM nodes n JOIN messages m ON m.conversation_id = n.conversation_id
   AND m.store_id BETWEEN n.first_store_id AND n.last_store_id
 WHERE n.depth = 0 AND NOT EXISTS (SELECT 1 FROM node_sources s WHERE s.node_id = n.node_id)
   AND n.message_count = (SELECT count(*) FROM messages x WHERE x.conversation_id = n.conversation_id
                             AND x.store_id BETWEEN n.first_store_id AND n.last_store_id)
"""
# Rows of a damaged file may hold anything: roots that are no list count as one summary that is gone.
_ROOTS = "json_each(CASE WHEN typeof(roots) = 'text' AND json_valid(roots) THEN roots ELSE '[-1]' END)"
# Who refers to summaries that are gone must not be shown others under their numbers.
_SPENT_NODE_IDS = f"""
UPDATE sqlite_sequence SET seq = max(seq, coalesce((SELECT max(node_id) FROM node_sources), 0), coalesce((
       SELECT max(root.value) FROM assemblies, {_ROOTS} AS root WHERE root.type = 'integer'), 0))
 WHERE name = 'nodes'
"""
# Of a node's sources some may have been unreadable; how many it had is in its row.
_PARTIAL_SOURCES = """
DELETE FROM node_sources WHERE node_id IN (SELECT n.node_id FROM nodes n WHERE n.depth = 0
   AND n.message_count > (SELECT count(*) FROM node_sources s WHERE s.node_id = n.node_id))
"""
_GROUNDLESS_NODES = """
WITH RECURSIVE groundless(node_id) AS (
  SELECT n.node_id FROM nodes n WHERE n.message_count > CASE n.depth
         WHEN 0 THEN (SELECT count(*) FROM node_sources s WHERE s.node_id = n.node_id)
         ELSE (SELECT coalesce(sum(c.message_count), 0) FROM node_sources s JOIN nodes c ON c.node_id = s.child_id
                WHERE s.node_id = n.node_id) END UNION
  SELECT s.node_id FROM groundless g JOIN node_sources s ON s.child_id = g.node_id)
DELETE FROM nodes WHERE node_id IN (SELECT node_id FROM groundless)
"""
# What a prompt rests on that is gone would be missing in the next one, too. A list whose prompt nobody knows keeps its record as
# a message, and all that it covered is covered anew.
_GROUNDLESS = f"""
DELETE FROM assemblies WHERE EXISTS
       (SELECT 1 FROM {_ROOTS} AS root WHERE root.value NOT IN (SELECT node_id FROM nodes))
"""
_BLOCKLESS = """
DELETE FROM messages WHERE typeof(envelope) = 'integer' AND envelope NOT IN (SELECT block_id FROM blocks)
"""
_FILELESS = "DELETE FROM messages WHERE typeof(envelope) = 'blob' AND substr(envelope, 1, 1) = x'03'"
_RELINK = (
    ("messages that a development version laid aside, in files that are gone", _FILELESS),
    ("messages whose block was unreadable", _BLOCKLESS),
    ("conversations made up for messages whose own was unreadable", _LOST_CONVERSATIONS),
    ("sessions made up for messages whose own was unreadable", _NAMED_SESSIONS),
    (
        "sessions made up for messages of which not even the session's id was readable: they are `recovered-session-...` now",
        _NAMELESS_SESSIONS,
    ),
    ("sources of summaries whose other sources were unreadable", _PARTIAL_SOURCES),
    ("sources of summaries found again", _LOST_SOURCES),
    ("summaries left out because not all that they cover is known", _GROUNDLESS_NODES),
    ("records of prompts that rested on summaries that are gone", _GROUNDLESS),
    ("sources of summaries that are gone", _DANGLING_SOURCES),
    ("carried references that are gone", "DELETE FROM carried WHERE node_id NOT IN (SELECT node_id FROM nodes)"),
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong. ``damaged``: the file is unsound, or lost tables; ``indexes``: what the search indexes lack."""

    damaged: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()

    @property
    def well(self) -> bool:
        """Nothing to repair."""
        return not self.damaged and not self.indexes


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was done. ``kept``: the backup, or the damaged file; ``lost``: rows that could not be read, by table."""

    diagnosis: Diagnosis
    kept: Path | None = None
    indexed: bool = False
    saved: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def diagnose(deps: OpsDeps, progress: Progress = silent) -> Diagnosis:
    """Read the whole file and both indexes. Changes nothing; raises what only an operator can solve (locked, newer, ...)."""
    if not deps.db.path.exists() or deps.db.path.stat().st_size == 0:
        return Diagnosis()
    progress("checking the file", 0, 0)
    try:
        deps.db.open()
        if lost := Survey(deps.db).lost_tables():  # SQLite finds such a file sound; a new one has all tables
            return Diagnosis((f"tables are missing: {', '.join(lost)}",))
        damaged = damages(deps, progress)
        if damaged:
            return Diagnosis(damaged)
        progress("checking the indexes", 0, 0)
        return Diagnosis((), tuple(index_damage(deps, deep=True)))
    except StoreCorrupt as exc:
        return Diagnosis((str(exc),))


def repair(deps: OpsDeps, progress: Progress = silent) -> Repaired:
    """Repair what the diagnosis names; nothing at all when it names nothing."""
    found = diagnose(deps, progress)
    if found.well:
        return Repaired(found, notes=_swept(deps))
    if not found.damaged:
        kept = backup.back_up(deps, progress).path
        reindex(deps, progress)
        return Repaired(found, kept, indexed=True)
    return _rescue(deps, found, progress)


def _swept(deps: OpsDeps) -> tuple[str, ...]:
    """Payload files that belong to no message are removed."""
    gone = deps.payloads.sweep() if deps.payloads is not None and deps.db.path.exists() else 0
    return (f"removed, because no message shows them: {counted(gone, 'payload file')}",) if gone else ()


def reindex(deps: OpsDeps, progress: Progress = silent) -> None:
    """Build both search indexes anew from what is stored."""
    total = Survey(deps.db).total("messages", "store_id")
    progress("indexing messages", 0, total)
    deps.search.rebuild(_watched(deps.store.index_rows(), "indexing messages", total, progress))
    progress("indexing summaries", 0, 0)
    deps.nodes.rebuild((node.node_id, node.text) for nodes in deps.dag.every() for node in nodes)
    deps.health.resolved("search index")


def _watched(batches: Iterable[list[Row]], what: str, total: int, progress: Progress) -> Iterator[list[Row]]:
    """The same batches, with a word about each that was used."""
    done = 0
    for batch in batches:
        yield batch
        done += len(batch)
        progress(what, min(done, total), total)


# -- damaged files ---------------------------------------------------------------------------------------
def _rescue(deps: OpsDeps, found: Diagnosis, progress: Progress) -> Repaired:
    """Save what can be read into a new file and let it take the place of the damaged one."""
    path = deps.db.path
    kept = backup.stamped(path, deps.clock(), "lcm-damaged")
    work = path.with_name(f".{path.name}.work")
    fresh = path.with_name(f".{path.name}.rescued")
    try:
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _discard(work, fresh)
        deps.db.close()
        files.refuse_shared(path)
        files.copy_raw(path, kept)
        files.copy_raw(path, work)
        saved = files.salvage(work, fresh, readable, progress)
        if not saved.kept.get("messages"):
            raise BadRequest(
                f"SQLite can read no message of {path}; it was left as it is, with a copy at {kept}: {backup.way_back(path)}"
            )
        files.brought_home(fresh, path)
        notes = _relinked(fresh, saved, session_names(work))
        files.seal(fresh)
        there = files.counts(fresh)  # not all that could be read was of use: a message without its block is none
        files.exchange(deps.db, fresh, None)
    except OSError as exc:
        raise StoreError(f"{path}: {exc.strerror or exc}") from exc
    finally:
        _discard(work, fresh)
    if index_damage(deps, deep=False):  # unless opening the new file has built them already
        reindex(deps, progress)
    counts = {table: there.get(table, 0) for table in saved.kept}
    return Repaired(found, kept, indexed=True, saved=counts, lost=saved.unreadable, notes=(*saved.notes, *notes))


def _discard(*paths: Path) -> None:
    for path in paths:
        for suffix in ("", "-wal", "-shm", "-journal"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def readable(table: str, row: Mapping[str, Any]) -> bool:
    """Can the row be used? A page that was overwritten may still look like rows to SQLite."""
    if table == "blocks":
        return intact_block(row["data"])
    if table == "sessions":
        return isinstance(row["session_id"], str)
    if table != "messages":
        return True
    kept = intact(row["envelope"]) or Reference.of(row["envelope"]) is not None
    return kept and isinstance(row["seq"], int) and isinstance(row["session_key"], int)


def session_names(damaged: Path) -> dict[int, str]:
    """Ids of sessions by number, from the index over them: it lies elsewhere in the file than their rows."""
    rows = files.indexed(damaged, "sessions", ("session_id", "session_key"))
    return {key: name for name, key in rows if isinstance(key, int) and isinstance(name, str)}


def _relinked(path: Path, saved: Salvage, names: Mapping[int, str]) -> list[str]:
    """Make the saved rows point at each other again, and note what is gone. ``names``: ids of sessions by number."""
    notes = []
    files.rewrite(path, [(_SPENT_NODE_IDS, ())])
    given = {"owner": RECOVERED, "names": json.dumps(names)}
    for what, sql in _RELINK:
        changed = files.rewrite(path, [(sql, {name: value for name, value in given.items() if f":{name}" in sql})])
        if changed:
            notes.append(f"{changed} {what}")
    files.rewrite(path, [(sql, ()) for sql in COUNT_REMOVED])
    fresh = Database(path)
    gone = Meta(fresh).value("removed:messages")
    fresh.close()
    if gone:
        notes.append(f"{gone} addresses of messages have no row (unreadable, or removed before)")
    if not saved.unreadable and not saved.notes:
        notes.append("every row that the damaged file lists was saved")
    return notes
