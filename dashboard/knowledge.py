"""
Exam and ledger of one conversation, for the tab.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from ..command import answer as verb
from ..errors import BadRequest
from ..ledger.table import STRUCK
from ..ops.status import last_exam
from ..recall import ledger as stated
from .look import Answer, Look

_PAGE: Final = 25


def exam(look: Look) -> Answer:
    """The last grade; with ``ask`` the exam is held now, as ``hermes lcm exam`` does, and says each probe."""
    if not look.text("ask"):
        return {"asked": False, **(last_exam(look.deps) or {})}
    done = verb("exam", look.deps)
    if "kinds" not in done.data:
        raise BadRequest(str(done.data.get("error", done.text)))
    data = {**done.data, "asked": True}
    if not look.full:
        del data["probes"]
    return data


def ledger(look: Look) -> Answer:
    """Facts that were stated, pinned ones first, then the newest, struck ones last; without texts only how many."""
    found, seen = stated.entries(look.deps)
    out: Answer = {
        "session_id": look.session.session_id,
        "kinds": dict(Counter(entry.fact.kind for entry in found)),
        "marks": dict(Counter(entry.mark for entry in found if entry.mark)),
        "contradictions": sum(bool(entry.contradicts) for entry in found),
        "behind": seen.behind,
    }
    if not look.full:
        return out
    offset, limit, kind = look.whole("offset"), look.whole("limit", _PAGE, most=200), look.text("kind")
    shown = [entry for entry in stated.about(found, look.text("about"), struck=True) if kind in ("", entry.fact.kind)]
    shown.sort(key=lambda entry: entry.mark == STRUCK)
    page = shown[offset : offset + limit]
    return {
        **out, "entries": [stated.render_entry(look.deps, entry) for entry in page], "offset": offset, "total": len(shown),
        "more": len(shown) > offset + limit,
    }  # fmt: skip
