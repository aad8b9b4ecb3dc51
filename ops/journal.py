"""
Journal of operators' deeds on the archive: facts in table ``meta`` that only grow, up to ``MOST`` of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..storage.connection import Database
from ..storage.meta import Meta
from .answers import Answer, Words
from .render import moment, table

if TYPE_CHECKING:
    from ..recall.access import Access

_DONE = "done:"
MOST: Final = 1000
SHOWN: Final = 20
_SAID_CHARS: Final = 300


def note(db: Database, words: str, said: str, *, now: float) -> None:
    """A verb that changes something was carried out: its words, and the first line of its answer."""
    meta = Meta(db)
    with db.transaction():
        known = sorted(meta.with_prefix(_DONE))
        for old in known[: -MOST + 1]:
            meta.forget(f"{_DONE}{old}")
        at = max(int(now * 1_000_000), int(known[-1]) + 1 if known else 0)  # two of one moment are two
        meta.note(f"{_DONE}{at:020}", {"at": now, "words": words, "said": said.partition("\n")[0][:_SAID_CHARS]})


def journal(deps: Access, words: Words) -> Answer:
    """The newest entries, newest first."""
    limit = words.limit or SHOWN
    found = entries(deps.db)[::-1]
    lines = table([(moment(each["at"]), each["words"], each["said"]) for each in found[:limit]], indent="")
    if len(found) > limit:
        lines.append(f"These are the newest {limit}; `/lcm journal --limit {5 * limit}` shows more.")
    return Answer("\n".join(lines or ["No changes yet."]), {"entries": found[:limit], "more": len(found) > limit})


def entries(db: Database) -> list[dict[str, Any]]:
    """Entries of the journal, oldest first."""
    return [each for _, each in sorted(Meta(db).with_prefix(_DONE).items()) if isinstance(each, dict)]
