"""
Removing what an operator does not want in the archive: sessions that a pattern names. And filling in blank sources.

Deletes whole conversations or nothing: every session of them must match, and no branch or carried summary of another
conversation may rest on them. Always after a verified backup.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...config import matches_session
from ...errors import BadRequest
from ...search import vectors
from ...storage import files, leases, meta
from ...storage.connection import Params
from ...storage.files import Progress, silent
from ...storage.meta import ADD, FORGET_MADE, INDEXED_STILL
from .. import backup, costs
from ..upkeep import reindex

if TYPE_CHECKING:
    from ...recall.access import Access

_SESSIONS = """
SELECT s.conversation_id, s.session_id, s.platform,
       s.conversation_id IN (SELECT parent_id FROM conversations WHERE parent_id IS NOT NULL)
       OR s.conversation_id IN (SELECT n.conversation_id FROM carried k JOIN nodes n USING(node_id)
                                 WHERE k.conversation_id <> n.conversation_id)
  FROM sessions s ORDER BY s.conversation_id, s.started_at, s.session_id
"""
_SIZE = "SELECT count(*), coalesce(sum(chars), 0) FROM messages WHERE conversation_id = ?"
_SMALL = """
SELECT s.session_id, s.platform, count(m.store_id) FROM sessions s LEFT JOIN messages m USING(session_key)
 WHERE s.ended_at IS NOT NULL GROUP BY s.session_key HAVING count(m.store_id) <= 2 ORDER BY s.started_at LIMIT 50
"""
#: In this order no row ever points at one that is gone: first what was made of the messages, the newest messages first.
_MADE = (
    "DELETE FROM assemblies WHERE conversation_id = ?",
    "DELETE FROM carried WHERE conversation_id = ?",
    "DELETE FROM node_sources WHERE node_id IN (SELECT node_id FROM nodes WHERE conversation_id = ?)",
    "DELETE FROM nodes WHERE conversation_id = ?",
    "DELETE FROM archives WHERE conversation_id = ?",
)
_KEPT_IN = (
    "DELETE FROM blocks WHERE conversation_id = ?",
    "DELETE FROM ledger WHERE conversation_id = ?",
    *costs.FORGET,
    *meta.FORGET_SESSIONS,
    leases.FORGET_SESSIONS,
    "DELETE FROM sessions WHERE conversation_id = ?",
    "DELETE FROM conversations WHERE conversation_id = ?",
)
DELETE = (*_MADE, "DELETE FROM messages WHERE conversation_id = ?", *_KEPT_IN)
_NEWEST = """
DELETE FROM messages WHERE store_id IN (
       SELECT store_id FROM messages WHERE conversation_id = ? ORDER BY seq DESC LIMIT ?)
"""
_NODES = "SELECT count(*) FROM nodes WHERE conversation_id = ?"
_AT_ONCE = 250  # messages, or nodes: nobody else can write for some 5 ms


@dataclass(frozen=True, slots=True)
class Junk:
    """A conversation that the patterns name, and why."""

    conversation_id: int
    sessions: tuple[str, ...]
    pattern: str
    messages: int = 0
    chars: int = 0


@dataclass(frozen=True, slots=True)
class Cleaning:
    """``junk`` may go; ``spared`` matches in part or is still needed; ``small`` is only worth a look."""

    junk: tuple[Junk, ...]
    spared: tuple[str, ...]
    small: tuple[tuple[str, str, int], ...]
    backup: Path | None = None
    removed_messages: int = 0


def candidates(deps: Access) -> Cleaning:
    """Sessions that cleaning would remove. Changes nothing."""
    patterns = deps.config.ignore_session_patterns
    by_conversation: dict[int, list[tuple[str, str, int]]] = {}
    for conversation, session_id, platform, needed in deps.db.query(_SESSIONS):
        by_conversation.setdefault(conversation, []).append((session_id, platform, needed))
    junk: list[Junk] = []
    spared: list[str] = []
    for conversation, sessions in by_conversation.items():
        hits = [matches_session(patterns, session_id, platform) for session_id, platform, _ in sessions]
        names = tuple(session_id for session_id, *_ in sessions)
        current = deps.session is not None and deps.session.conversation_id == conversation
        if not any(hits):
            continue
        if all(hits) and not current and not any(needed for *_, needed in sessions):
            junk.append(_measured(deps, conversation, names, str(hits[0])))
        else:
            spared.extend(names)
    small = [(str(row[0]), str(row[1]), int(row[2])) for row in deps.db.query(_SMALL)]
    return Cleaning(tuple(junk), tuple(spared), tuple(small))


def _measured(deps: Access, conversation: int, sessions: tuple[str, ...], pattern: str) -> Junk:
    messages, chars = deps.db.query(_SIZE, (conversation,))[0]
    return Junk(conversation, sessions, pattern, messages, chars)


def clean(deps: Access, progress: Progress = silent) -> Cleaning:
    """Remove the candidates, after a backup. Raises BadRequest where that is not permitted."""
    if not deps.config.doctor_clean_apply_enabled:
        raise BadRequest("removing sessions is switched off; LCM_DOCTOR_CLEAN_APPLY_ENABLED=true permits it")
    found = candidates(deps)
    if not found.junk:
        if deps.index.removed():  # killed before that
            reindex(deps, progress)
        return found
    made = backup.back_up(deps, progress)
    removed = sum(each.messages for each in found.junk)
    remove(deps, [(each.conversation_id, each.messages) for each in found.junk], progress)
    reindex(deps, progress)
    return Cleaning(found.junk, found.spared, found.small, made.path, removed)


def remove(deps: Access, sizes: Sequence[tuple[int, int]], progress: Progress = silent) -> None:
    """Delete conversations, of so many messages each, in short transactions, and drop what this process remembers of them.

    Killed in between, what is left of a conversation is its beginning without summaries, and the same command goes on.
    """
    done, total = 0, sum(count for _, count in sizes)
    progress("removing", 0, total)
    for statements, count in _steps(deps, sizes):
        began = time.monotonic()
        files.rewrite(deps.db.path, statements)
        done += count
        progress("removing", done, total)
        deps.db.give_way(time.monotonic() - began)
    deps.db.close()


def _steps(deps: Access, sizes: Sequence[tuple[int, int]]) -> Iterator[tuple[list[tuple[str, Params]], int]]:
    """Statements of one transaction each, and how many messages they delete: parts of large conversations, several small ones."""
    waiting: list[tuple[str, Params]] = []
    messages = nodes = 0
    for conversation, count in sizes:
        made = int(deps.db.query(_NODES, (conversation,))[0][0])
        if waiting and (messages + count > _AT_ONCE or nodes + made > _AT_ONCE):
            yield [*waiting, *_counted(messages, nodes)], messages
            waiting, messages, nodes = [], 0, 0
        while count > _AT_ONCE:
            first: list[tuple[str, Params]] = [(sql, (conversation,)) for sql in _MADE] if made else []
            first += vectors.forgetting(deps.db, vectors.OF_NEWEST, (conversation, _AT_ONCE))
            yield [*first, (_NEWEST, (conversation, _AT_ONCE)), *_counted(_AT_ONCE, made)], _AT_ONCE
            count, made = count - _AT_ONCE, 0
        waiting += vectors.forgetting(deps.db, vectors.OF_CONVERSATION, (conversation,))
        waiting += [(sql, (conversation,)) for sql in DELETE]
        messages, nodes = messages + count, nodes + made
    if waiting:
        yield [*waiting, *_counted(messages, nodes)], messages


def _counted(messages: int, nodes: int) -> list[tuple[str, Params]]:
    return [
        (ADD, (messages, "removed:messages")),
        (ADD, (nodes, "removed:nodes")),
        (ADD, (messages, INDEXED_STILL)),
        (FORGET_MADE, ()),
    ]


# -- sources ---------------------------------------------------------------------------------------------
_BLANK = "trim(source) = ''"
_FILL = f"UPDATE messages SET source = 'unknown' WHERE {_BLANK}"


def fill_sources(deps: Access, progress: Progress = silent) -> tuple[int, Path | None]:
    """Write ``unknown`` where the source is blank, after a backup; how many, and the backup."""
    blank = [row[0] for row in deps.db.query(f"SELECT store_id FROM messages WHERE {_BLANK}")]
    if not blank:
        return 0, None
    made = backup.back_up(deps, progress)
    for at in range(0, len(blank), _AT_ONCE):
        progress("writing sources", at, len(blank))
        part = json.dumps(blank[at : at + _AT_ONCE])
        with deps.db.part():
            deps.db.execute(f"{_FILL} AND store_id IN (SELECT value FROM json_each(?))", (part,))
    return len(blank), made.path


# -- retention -------------------------------------------------------------------------------------------
_BY_MONTH = """
SELECT strftime('%Y-%m', stored_at, 'unixepoch'), session_key, iif(typeof(envelope) = 'integer', envelope, NULL),
       count(*), sum(iif(typeof(envelope) = 'blob', length(envelope), 0))
  FROM messages WHERE store_id > ? AND store_id <= ? GROUP BY 1, 2, 3
"""
_BLOCK_SIZES = "SELECT block_id, length(data) FROM blocks WHERE block_id IN (SELECT value FROM json_each(?))"
_STEP = 20_000  # rows of one statement: a bar moves, and a key stops it


@dataclass(slots=True)
class _Month:
    messages: int = 0
    bytes: float = 0
    sessions: set[int] = field(default_factory=set)


def retention(deps: Access, progress: Progress = silent) -> list[tuple[str, int, int, int]]:
    """(month, messages, sessions, stored bytes), oldest first. Reads every row once."""
    months: dict[str, _Month] = {}
    blocks: dict[int, Counter[str]] = {}
    last = int(deps.db.query("SELECT coalesce(max(store_id), 0) FROM messages")[0][0])
    for at in range(0, last, _STEP):
        for name, session, block, count, size in deps.db.query(_BY_MONTH, (at, at + _STEP)):
            month = months.setdefault(str(name), _Month())
            month.messages += count
            month.bytes += size
            month.sessions.add(session)
            if block is not None:
                blocks.setdefault(block, Counter())[str(name)] += count
        progress("reading messages", min(at + _STEP, last), last)
    for block, size in deps.db.query(_BLOCK_SIZES, (json.dumps(list(blocks)),)):
        for name, count in blocks[block].items():  # a block's bytes belong to its messages in equal parts
            months[name].bytes += size * count / blocks[block].total()
    return [(name, m.messages, len(m.sessions), int(m.bytes)) for name, m in sorted(months.items())]
