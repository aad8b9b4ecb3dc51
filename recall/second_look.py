"""
A second look: what to try when the best hits say little of what was asked for.

Pure. Owns when an answer says so and which three calls it names. Their words are from hits that the caller has read, so they
tell nothing of what others wrote.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from ..search.forms import stem
from ..search.query import STOP_WORDS

LITTLE: Final = 0.4  # share of the question's words, weighed by rarity
_MOST_MISSING, _NEAR_WORDS = 4, 3
_MOST_ASKED: Final = 300  # characters of a question that a call repeats: of a log that was pasted, the missing words
_MOST_WORD: Final = 60
_AROUND: Final = 250  # characters beside a match
_WORD: Final = re.compile(r"[^\W\d_]{4,30}")


class Read(NamedTuple):
    """A hit's text, where it matched, its address and when it was said (Unix seconds)."""

    address: str
    text: str
    offset: int
    at: float | None


def second_look(
    asked: str, missing: Sequence[str], stems: frozenset[str], best: Sequence[Read], *, wide: bool
) -> dict[str, Any]:
    """The words that no good hit says (``missing``), and the next calls (``next``): other words, their time, other sessions."""
    whole = [word for word in missing if not any(word != other and word in other.split() for other in missing)]
    whole = [word if len(word) <= _MOST_WORD else f"{word[:_MOST_WORD]}…" for word in whole[:_MOST_MISSING]]
    asked = asked if len(asked) <= _MOST_ASKED or not whole else " ".join(whole)
    near = _near(best, stems)
    calls: list[dict[str, Any]] = [{"tool": "lcm_grep", "query": " ".join(near)}] if near else []
    times = [read.at for read in best if read.at is not None]
    if times:
        first, last = (
            datetime.fromtimestamp(at, UTC) + timedelta(days=n) for n, at in ((0, min(times)), (1, max(times)))
        )
        days = {"time_from": f"{first:%Y-%m-%d}T00:00Z", "time_to": f"{last:%Y-%m-%d}T00:00Z"}
        calls.append({"tool": "lcm_grep", "query": asked, **days})
    if not wide:
        calls.append({"tool": "lcm_grep", "query": asked, "session_scope": "all"})
    elif best:
        calls.append({"tool": "lcm_expand", "store_id": best[0].address})
    return {"missing": whole, "next": calls}


def _near(best: Sequence[Read], stems: frozenset[str]) -> list[str]:
    """Words of the best hits near their matches that were not asked for, those of most hits first."""
    found: Counter[str] = Counter()
    forms: dict[str, str] = {}
    for read in best:
        stretch = read.text[max(0, read.offset - _AROUND) : read.offset + _AROUND].lower()
        words = {stem(word): word for word in _WORD.findall(stretch) if word not in STOP_WORDS}
        found.update(words.keys() - stems)
        forms.update(words)
    return [forms[each] for each in sorted(found, key=lambda each: (-found[each], -len(each), each))[:_NEAR_WORDS]]
