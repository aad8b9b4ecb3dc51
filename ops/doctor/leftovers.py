"""
Leftovers of earlier development versions in a sound file: records of ours that were stored as messages, empty conversations.

A record is hidden, never deleted (P2): the prompt it belongs to explains it. A conversation goes only if nothing is in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ...records import Flag
from ...text import markup
from ..render import counted

if TYPE_CHECKING:
    from ...recall.access import Access

_RECORDS: Final = f"SELECT store_id FROM messages WHERE flags & {Flag.IMPORTED} AND flags & {Flag.RETRACTED} = 0"
_EMPTY: Final = """
SELECT conversation_id FROM conversations c
 WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.conversation_id = c.conversation_id)
   AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.conversation_id = c.conversation_id)
   AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.conversation_id = c.conversation_id)
   AND NOT EXISTS (SELECT 1 FROM conversations b WHERE b.parent_id = c.conversation_id)
"""


class Leftovers(NamedTuple):
    """Rows that are context messages of known prompts, and conversations without anything."""

    records: tuple[int, ...] = ()
    conversations: tuple[int, ...] = ()

    @property
    def said(self) -> tuple[str, ...]:
        """In words."""
        out = []
        if self.records:
            out.append(f"{counted(len(self.records), 'record')} of prompts stored as messages: to be hidden")
        if self.conversations:
            out.append(
                f"{counted(len(self.conversations), 'conversation')} without a session or a message: to be removed"
            )
        return tuple(out)


def find(deps: Access) -> Leftovers:
    """Leftovers of earlier defects. Changes nothing; raises StoreError."""
    rows, _ = deps.store.legible([row[0] for row in deps.db.query(_RECORDS)])
    records = tuple(row.store_id for row in rows if _is_known_prompt(deps, row.text, row.head.conversation_id))
    return Leftovers(records, tuple(row[0] for row in deps.db.query(_EMPTY)))


def _is_known_prompt(deps: Access, text: str, conversation_id: int) -> bool:
    """Is this text, to the letter, the context message of a prompt of this conversation?"""
    context = markup.read_context(text)
    if context is None:
        return False
    digest = markup.context_digest(text)
    assembly = deps.dag.prompt_of(context.assembly_id, digest, [conversation_id])
    return assembly is not None and (assembly.conversation_id, assembly.digest) == (conversation_id, digest)


def mend(deps: Access, found: Leftovers) -> None:
    """Hide the records and remove the conversations, as one fact. After a backup."""
    with deps.db.transaction():
        deps.store.flag(found.records, add=Flag.RETRACTED | Flag.DUPLICATE | Flag.FILTERED)
        deps.db.executemany("DELETE FROM conversations WHERE conversation_id = ?", [(i,) for i in found.conversations])
