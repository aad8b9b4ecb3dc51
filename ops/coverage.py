"""
Coverage of a prompt: which messages of a conversation it shows, raw or under a summary, and which not (P4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dag import coverage as covered
from ..ingest.transcript import Transcripts

if TYPE_CHECKING:
    from ..recall.access import Access
    from ..records import Assembly
    from ..session import Session


def uncovered(deps: Access, session: Session, assembly: Assembly) -> tuple[set[int], set[int], int]:
    """(messages that the prompt lacks, messages that it has twice, messages of the transcript); each by its first version.

    A revision stands where the row it revises stood, so a summary over the one covers the other.
    """
    heads = deps.store.heads(deps.sessions.ancestry(session.conversation_id))
    first: dict[int, int] = {}
    for row in heads:
        first[row.store_id] = first.get(row.revises, row.revises) if row.revises is not None else row.store_id
    transcripts = Transcripts(deps.store, deps.sessions)
    transcript = {first.get(item.store_id, item.store_id) for item in transcripts.expected(session, None)}
    raw = {first.get(item.store_id, item.store_id) for item in transcripts.expected(session, assembly)}
    below = [first.get(each, each) for each in deps.dag.messages_below(assembly.roots)]
    tail = {first.get(each, each) for each in assembly.tail_ids}
    missing, twice = covered(transcript, below, raw - set(below))
    return missing, twice | (tail & set(below)), len(transcript)


def lacking(deps: Access, session: Session) -> tuple[int, ...]:
    """Messages of a session that its prompt neither shows nor covers, and that no later one would."""
    assembly = deps.assembly()
    missing = uncovered(deps, session, assembly)[0] if assembly is not None else set[int]()
    rows = Transcripts(deps.store, deps.sessions).expected(session, None) if missing else ()
    heads = deps.store.heads_of([item.store_id for item in rows])
    return tuple(n for n, row in heads.items() if n in missing or row.revises in missing)
