"""
What the user hears of a compaction: one line, in words that need no explanation.
"""

from __future__ import annotations

import re

from .compress import Outcome

#: Reasons of a pass without a result, as it gives them, and in words. A reason that is not here is shown as it is.
_WHY = {
    "nothing to compact": "there is nothing to fold yet",
    "nothing outside the protected tail": "only the newest messages are left, and they stay as they are",
    "cancelled by the host": "Hermes stopped waiting; it goes on at the next message",
}
_GREW = re.compile(r"the prompt would not get smaller.*")
BEGINS = "Folding old messages into summaries; every message stays stored."


def folded(outcome: Outcome, seconds: float, where: str) -> str:
    """The line after a compaction. ``where``: how the user can look at what was folded, "" if there is no way from here."""
    size = f"{thousands(outcome.before_tokens)} to {thousands(outcome.after_tokens)} tokens, {seconds:.1f} s"
    if outcome.folded:
        what = f"Folded {_count(outcome.folded, 'message', 'messages')} into {_count(outcome.leaves, 'summary', 'summaries')}"
    else:
        what = "Shortened the prompt"
    kept = "nothing lost" if outcome.assembly_id else "not stored by the plugin, still in Hermes' own transcript"
    notes = [kept, *([where] if where and outcome.assembly_id else [])]
    said = f"{what} ({size}); {', '.join(notes)}."
    if outcome.provisional:
        said += f" {_count(outcome.provisional, 'part is an extract', 'parts are extracts')} until a model answers."
    return said + (" The prompt is still above its threshold." if outcome.over_limit else "")


def not_folded(reason: str) -> str:
    """The line where a compaction was asked for and did not happen."""
    if _GREW.fullmatch(reason):
        reason = "the summaries would be no shorter than the messages"
    return f"Did not fold old messages: {_WHY.get(reason, reason)}."


def thousands(tokens: int) -> str:
    """Tokens for people: 51k, 940."""
    return f"{tokens / 1000:.0f}k" if tokens >= 1000 else str(tokens)


def _count(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
