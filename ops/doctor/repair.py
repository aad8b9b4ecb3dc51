"""
Repair: search indexes built anew, and what is readable of a damaged file saved into a new one.

A sound file is never rewritten: only its indexes are caches. A damaged file is kept as it is found, side files included, and
what could not be read is reported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...errors import StoreCorrupt, StoreError
from ...search import vectors
from ...search.index import prepare
from ...session import LOST_ID
from ...storage import disk, files
from ...storage.blocks import UNREADABLE, Blocks
from ...storage.connection import Database
from ...storage.files import Progress, Salvage, silent
from ...storage.meta import COUNT_REMOVED, HOLE, NOT_READ, Meta
from ...storage.packing import read_json
from ...storage.schema import lacked
from ...text import content
from .. import backup
from ..render import counted
from ..survey import Survey, damages, readable
from ..upkeep import reindex
from .content import Guess, give_to_owners, guesses, index_damage, left_words
from .file import QUICK_BYTES

if TYPE_CHECKING:
    from ...recall.access import Access


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
# What a prompt rests on that is gone would be missing in the next one, too. A list whose prompt nobody knows keeps its context
# message as a message, and all that it covered is covered anew.
_GROUNDLESS = f"""
DELETE FROM assemblies WHERE EXISTS
       (SELECT 1 FROM {_ROOTS} AS root WHERE root.value NOT IN (SELECT node_id FROM nodes))
"""
_BLOCKLESS = """
DELETE FROM messages WHERE typeof(envelope) = 'integer' AND envelope NOT IN (SELECT block_id FROM blocks)
"""
_FILELESS = "DELETE FROM messages WHERE typeof(envelope) = 'blob' AND substr(envelope, 1, 1) = x'03'"
# Of a conversation that lost all of its messages no number is missing.
_COUNT_MESSAGES = """
INSERT OR REPLACE INTO meta(key, value) SELECT 'lost:' || conversation_id,
       (SELECT count(*) FROM messages m WHERE m.conversation_id = c.conversation_id) FROM conversations c
"""
# Messages from the end of a conversation leave no gap in its numbers, but addresses without a row that no operator removed.
_COUNT_UNREADABLE = f"""
INSERT INTO meta(key, value) SELECT '{NOT_READ}', gone FROM (SELECT
       coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0) - (SELECT count(*) FROM messages)
       - coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'removed:messages'), 0) AS gone) WHERE gone > 0
    ON CONFLICT(key) DO UPDATE SET value = CAST(value AS INTEGER) + excluded.value
"""
# A hole that an earlier repair noted keeps its note: what filled it since was stored after that one.
_NOTE_HOLES = f"""
INSERT OR IGNORE INTO meta(key, value) SELECT '{HOLE}' || conversation_id || ':' || seq,
       json_array(conversation_id, seq, last, (SELECT seq FROM sqlite_sequence WHERE name = 'messages')) FROM (
       SELECT conversation_id, seq, max(seq) OVER c AS last,
              seq - lag(seq, 1, coalesce(fork_seq, 0)) OVER (c ORDER BY seq) AS step
         FROM messages JOIN conversations USING(conversation_id) WINDOW c AS (PARTITION BY conversation_id)) WHERE step > 1
"""
_SOME_ARE_LEFT = """
DELETE FROM meta WHERE key LIKE 'lost:%' AND EXISTS
       (SELECT 1 FROM messages WHERE conversation_id = CAST(substr(key, 6) AS INTEGER))
"""
#: Columns that a message's stored JSON says too, and values for others that another program removed.
_SAID_TOO: Final = ("role", "tool_name", "answers", "digest", "tokens", "chars", "said_at")
_OTHERWISE: Final = {
    "messages.pos": "UPDATE messages SET pos = seq",
    "messages.stored_at": "UPDATE messages SET stored_at = coalesce(said_at, 0)",
    "messages.source": """UPDATE messages SET source = coalesce(
                          (SELECT platform FROM sessions WHERE sessions.session_key = messages.session_key), '')""",
}
_RELINK = (
    ("", _SPENT_NODE_IDS),
    ("", _COUNT_MESSAGES),
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
    ("context messages of prompts that rested on summaries that are gone", _GROUNDLESS),
    ("sources of summaries that are gone", _DANGLING_SOURCES),
    ("carried references that are gone", "DELETE FROM carried WHERE node_id NOT IN (SELECT node_id FROM nodes)"),
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A diagnosis. ``damaged``: the file is unsound, or lost tables; ``indexes``: what the search indexes lack.

    ``guesses``: conversations that the host says are somebody else's; ``triggers``: by name, that somebody put into the file;
    ``vectors``: that are of no use.
    """

    damaged: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    guesses: tuple[Guess, ...] = ()
    triggers: tuple[str, ...] = ()
    vectors: tuple[str, ...] = ()

    @property
    def well(self) -> bool:
        """Is there nothing to repair?"""
        return not (self.damaged or self.indexes or self.guesses or self.triggers or self.vectors)


@dataclass(frozen=True, slots=True)
class Repaired:
    """A repair that was done. ``kept``: the backup, or the damaged file; ``lost``: rows that could not be read, by table."""

    diagnosis: Diagnosis
    kept: Path | None = None
    indexed: bool = False
    saved: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def diagnose(deps: Access, progress: Progress = silent) -> Diagnosis:
    """Read the whole file and both indexes. Changes nothing; raises what only an operator can solve (locked, newer, ...)."""
    if not deps.db.exists:
        return Diagnosis()
    disk.bring_back(deps.db.path, partly=True)
    if added := files.triggers(deps.db.path):
        return Diagnosis(triggers=added)
    if lost := files.lost_parts(deps.db.path):  # SQLite finds such a file sound; a new one has all tables
        return Diagnosis((f"a part of it is gone: {lacked(lost)}",))
    progress("checking the file", 0, 0)
    try:
        deps.db.open()
        damaged = damages(deps.db, progress)
        if damaged:
            return Diagnosis(damaged)
        indexes = [*index_damage(replace(deps, progress=progress), deep=True), *left_words(deps, deep=True)]
        useless = vectors.faults(deps.db, wanted=deps.config.semantic)
        return Diagnosis((), tuple(indexes), guesses(deps), vectors=tuple(useless))
    except StoreCorrupt as exc:
        return Diagnosis((str(exc),))


def glanced(deps: Access) -> StoreCorrupt | None:
    """Damage of a file that answers, as far as looking costs little: its pages, and the newest messages."""
    path = deps.db.path
    deps.db.open()  # a file that is not ours is refused before a look by its path leaves side files beside it
    large = path.stat().st_size > QUICK_BYTES
    if not large and (found := files.quick_check(path)):
        return StoreCorrupt(f"{path}: {found[0].removeprefix(f'{path}: ')}")
    lost = Survey(deps.db).unreadable_lately(large=large)
    said = f"{path}: {counted(len(lost), 'message')} cannot be read, the first is msg_"
    return StoreCorrupt(f"{said}{lost[0]}") if lost else None


def hopeless(deps: Access) -> str:
    """Words about a damaged file in which no message can be read, "" for any other."""
    if files.holds_messages(deps.db.path):
        return ""
    return f"No message in it can be read as a whole, so there is nothing to save: {backup.way_on(deps)}"


def repair(deps: Access, progress: Progress = silent) -> Repaired:
    """Repair what the diagnosis names; nothing at all when it names nothing."""
    found = diagnose(deps, progress)
    if found.well:
        return Repaired(found, notes=_swept(deps))
    if found.triggers:
        return _without_triggers(deps, found, progress)
    if not found.damaged:
        kept = backup.back_up(deps, progress).path
        try:
            if found.indexes:
                reindex(deps, progress)
        except StoreCorrupt as exc:  # an index that cannot even be dropped
            return _rescue(deps, Diagnosis((str(exc),)), progress)
        vectors.mend(deps.db, wanted=deps.config.semantic)
        give_to_owners(deps, found.guesses)
        return Repaired(found, kept, indexed=bool(found.indexes))
    return _rescue(deps, found, progress)


def _without_triggers(deps: Access, found: Diagnosis, progress: Progress) -> Repaired:
    """Repair of a file that triggers are taken out of, in its place: what they did shows in its seals."""
    path = deps.db.path
    kept = backup.stamped(path, deps.clock(), f"{path.stem}-damaged")
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    deps.db.backup(kept, progress)
    files.drop_triggers(path)
    rest = repair(deps, progress)
    notes = (f"removed: the triggers {', '.join(found.triggers)}; the file as it was: {kept}", *rest.notes)
    return replace(
        rest, diagnosis=replace(rest.diagnosis, triggers=found.triggers), kept=rest.kept or kept, notes=notes
    )


def _swept(deps: Access) -> tuple[str, ...]:
    """Payload files that belong to no message are removed."""
    gone = deps.payloads.sweep(spare=backup.named_payloads(deps.db.path)) if deps.db.exists else 0
    return (f"removed, because no message shows them: {counted(gone, 'payload file')}",) if gone else ()


# -- damaged files ---------------------------------------------------------------------------------------
def _rescue(deps: Access, found: Diagnosis, progress: Progress) -> Repaired:
    """Save what can be read into a new file and let it take the place of the damaged one."""
    path = deps.db.path
    kept = backup.stamped(path, deps.clock(), f"{path.stem}-damaged")
    copy, fresh = backup.half_made(kept), path.with_name(f".{path.name}.{os.getpid()}.rescued")
    touched = False
    try:
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        backup.remove_half_made(path)
        deps.db.close()
        files.refuse_shared(path)
        files.copy_raw(path, copy)
        saved = files.salvage(copy, fresh, readable, progress)
        if not saved.kept.get("messages"):
            error = StoreCorrupt(f"no message of {path} can be read as a whole; it was left as it is")
            error.remedy = backup.way_on(deps)
            raise error
        files.brought_home(fresh, path)
        notes = _relinked(fresh, saved)
        files.seal(fresh)
        there = files.counts(fresh)  # not all that could be read was of use: a message without its block is none
        files.renamed(copy, kept)
        touched = True
        files.exchange(deps.db, fresh, None)
    except OSError as exc:
        raise StoreError(f"{path}: {exc.strerror or exc}") from exc
    finally:
        files.discard(fresh, copy)
        if not touched:  # the damaged file is where it was: each try would leave one more copy of it
            files.discard(kept)
    if prepare(deps.db) or index_damage(deps, deep=False):  # unless opening the new file has built them already
        reindex(deps, progress)
    counts = {table: there.get(table, 0) for table in saved.kept}
    return Repaired(found, kept, indexed=True, saved=counts, lost=saved.unreadable, notes=(*saved.notes, *notes))


def _relinked(path: Path, saved: Salvage) -> list[str]:
    """Make the saved rows point at each other again, and note what is gone."""
    _read_again(path, saved.gone)
    before = _rowless(path)
    given = {"owner": RECOVERED, "names": json.dumps(saved.names)}
    changed = files.rewrite(path, [
        *((sql, {name: value for name, value in given.items() if f":{name}" in sql}) for _, sql in _RELINK),
        *((sql, ()) for sql in (_COUNT_UNREADABLE, *COUNT_REMOVED, _SOME_ARE_LEFT, _NOTE_HOLES)),
    ])  # fmt: skip
    notes = [f"{rows} {what}" for (what, _), rows in zip(_RELINK, changed, strict=False) if rows and what]
    files.reseal(path)
    if gone := _rowless(path) - before:
        notes.append(f"{gone:,} addresses of messages have no row any more")
    if not saved.unreadable and not saved.notes:
        notes.append("every row that the damaged file lists was saved")
    return notes


def _read_again(path: Path, gone: Collection[str]) -> None:
    """Fill columns of messages that the damaged file lacked, from what the messages themselves say."""
    if not gone:
        return
    said = [name for name in _SAID_TOO if f"messages.{name}" in gone]
    fresh = Database(path)
    try:
        if said:
            update = f"UPDATE messages SET {', '.join(f'{name} = ?' for name in said)} WHERE store_id = ?"
            blocks = Blocks(fresh)
            for rows in fresh.iterate("SELECT store_id, envelope FROM messages"):
                values = [_values(blocks, said, *row) for row in rows]
                with fresh.transaction():
                    fresh.executemany(update, [each for each in values if each])
        with fresh.transaction():
            for part, sql in _OTHERWISE.items():
                if part in gone:
                    fresh.execute(sql)
    finally:
        fresh.close()


def _values(blocks: Blocks, said: Sequence[str], store_id: int, stored: Any) -> tuple[Any, ...]:
    """Columns that a message's own JSON tells, and its address; () where it cannot be read."""
    try:
        message = content.read_message(content.decode(read_json(store_id, stored, blocks.block)))
    except UNREADABLE:
        return ()
    found = {"chars": len(message.text), "answers": message.tool_call_id}
    return (*(found[name] if name in found else getattr(message, name) for name in said), store_id)


def _rowless(path: Path) -> int:
    """Number of addresses of messages without a row, as the file counts them."""
    there = Database(path)
    count = Meta(there).value("removed:messages")
    there.close()
    return count if isinstance(count, int) else 0
