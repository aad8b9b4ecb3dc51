"""
Marking what another engine stored twice, in rows that came over before duplicates were looked for, or whose place was not proven.

Marks, never deletes: a marked row keeps its address and its words, but is no part of the conversation and not found by a search.
Rows that a live session stored in their places are never touched: ingest stores each message once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..ops import backup
from ..records import Flag, Stored
from ..session import Segment
from ..storage.files import Progress, silent
from . import replays
from .earlier import looks_like_summary
from .intake import HIDDEN
from .ledger import MESSAGE, PRESENT, Ledger
from .replays import Seen

if TYPE_CHECKING:
    from ..recall.access import Access


@dataclass(frozen=True, slots=True)
class Cleaned:
    """``by_conversation``: (row, the row that it repeats) not marked before; ``doubtful``: how many look like others."""

    by_conversation: tuple[tuple[tuple[int, int], ...], ...]
    doubtful: int
    marked_before: int
    backup: Path | None = None

    @property
    def found(self) -> list[tuple[int, int]]:
        """All of them."""
        return [pair for pairs in self.by_conversation for pair in pairs]


def look(deps: Access, progress: Progress = silent) -> Cleaned:
    """Duplicates that are not marked yet. Changes nothing."""
    if not deps.db.exists:
        return Cleaned((), 0, 0)
    ledger = Ledger(deps.db)
    foreign = ledger.brought(MESSAGE) - ledger.brought(PRESENT)
    found: list[tuple[tuple[int, int], ...]] = []
    doubtful = 0
    ids = _conversations(deps, bool(foreign))
    for n, conversation in enumerate(ids, 1):
        heads = sorted(deps.store.heads([Segment(conversation)]), key=lambda row: row.seq)
        seen = replays.find(list(_seen(deps, heads)))
        pairs = tuple(
            (heads[copy].store_id, heads[original].store_id)
            for copy, original in seen.copies.items()
            if heads[copy].store_id in foreign or heads[copy].flags & Flag.UNALIGNED
        )
        found += [pairs] if pairs else []
        doubtful += seen.doubtful
        progress("looking", n, len(ids))
    return Cleaned(tuple(found), doubtful, len(ledger.duplicates()))


def mark(deps: Access, progress: Progress = silent) -> Cleaned:
    """Mark what was found, after a backup."""
    looked = look(deps, progress)
    if not looked.found:
        return looked
    kept = backup.back_up(deps, progress).path
    ledger = Ledger(deps.db)
    for n, part in enumerate(looked.by_conversation, 1):  # a conversation as a whole: half of a replay proves nothing
        with deps.db.transaction():
            deps.store.flag([copy for copy, _ in part], add=HIDDEN)
            ledger.mark(part)
        progress("marking", n, len(looked.by_conversation))
    return replace(looked, backup=kept)


def _conversations(deps: Access, imported: bool) -> list[int]:
    """Conversations with rows that may be marked at all."""
    rows = deps.db.query("SELECT DISTINCT conversation_id FROM messages WHERE flags & ?", (Flag.UNALIGNED,))
    ids = {int(row[0]) for row in rows}
    if imported:
        sql = "SELECT DISTINCT m.conversation_id FROM imported AS i JOIN messages AS m ON m.store_id = i.here WHERE i.kind = ?"
        ids |= {int(row[0]) for row in deps.db.query(sql, (MESSAGE,))}
    return sorted(ids)


def _seen(deps: Access, heads: list[Stored]) -> Iterator[Seen]:
    """Rows as the search for copies sees them: when they were stored first, by whichever engine."""
    for head in heads:
        noted = head.role == "user" and head.chars < 200_000 and bool(head.flags & Flag.HOST_NOTE)
        # A damaged one is told of by the doctor, and says nothing that could be recognised.
        summary = noted and any(
            looks_like_summary(row.head.role, row.text) for row in deps.store.legible([head.store_id])[0]
        )
        at = head.said_at if head.said_at is not None else head.stored_at
        yield Seen(
            head.digest, head.role, at, head.tool_call_id is not None, summary, bool(head.flags & Flag.RETRACTED)
        )
