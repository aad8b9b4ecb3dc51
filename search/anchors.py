"""
Events that a question counts from: "before the move", "nach dem Umzug", "搬家之前", and "the first time".

Pure. Says which words name the event and on which side of it the question looks; when it was, a search must tell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from .dates import When

_MOST_CHARS: Final = 300  # of a question; a page has many words like "before"
_EVENT: Final = r"(?P<event>[^,.;:?!？。，]{3,60})"
_DETERMINED: Final = (
    (r"before|prior to", r"after|since", r"(?:the|our|my|your|his|her|their|we|i|she|he|they|you)\s"),
    (r"vor", r"nach|seit", r"(?:dem|der|den|unsere[mrn]|meine[mrn]|deine[mrn]|seine[mrn]|ihre[mrn])\s"),
    (r"avant", r"après|depuis", r"(?:le|la|les|mon|ma|notre|nos|son|sa)\s|l['’]"),
    (r"antes de", r"después de|desde", r"(?:la|las|los|mi|nuestro|nuestra|su)\s"),
    (r"antes del|antes da|antes do", r"después del|depois da|depois do", r""),
    (r"prima del(?:la|lo)?|prima dell['’]", r"dopo|dopo l['’]", r"(?:il\s|la\s|lo\s)?"),
    (r"до", r"после", r"(?!\d)"),
)
_SIDES: Final = (
    *(
        (side, re.compile(rf"(?<!\w)(?:{words})\s+(?=(?:{determined})){_EVENT}", re.IGNORECASE))
        for before, after, determined in _DETERMINED
        for side, words in (("before", before), ("after", after))
    ),
    ("before", re.compile(r"(?P<event>[\u3400-\u9fff]{2,8})(?:之前|以前)")),
    ("after", re.compile(r"(?P<event>[\u3400-\u9fff]{2,8})(?:之后|以后)")),
)
_FIRST: Final = re.compile(
    r"\bthe (?:very )?first time\b|\bfor the first time\b|\bzum ersten mal\b|\bpremière fois\b|\bprimera vez\b|\bprimeira vez\b|"
    r"\bprima volta\b|\bвпервые\b|\bв первый раз\b|第一次|首次",
    re.IGNORECASE,
)
_SHARE: Final = 0.3  # of what a date counts: half of an archive lies before an event
_FOREVER: Final = 1e11
_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Anchor:
    """``event``: the words of what happened, as they were typed; ``side``: "before" or "after" it, or the "first" of it."""

    event: str
    side: str

    def when(self, at: float, said: str) -> When:
        """The times that are meant, where the event was at ``at``; ``said``: which message tells, for people."""
        spans = {"before": (-_FOREVER, at), "after": (at, _FOREVER), "first": (at - 1, at + _DAY_S)}
        words = f"the first time, {said}" if self.side == "first" else f'{self.side} "{self.event}", {said}'
        return When((spans[self.side],), words, _SHARE)


def read(question: str) -> Anchor | None:
    """The event that a question counts from; None where it names none."""
    if len(question) > _MOST_CHARS:
        return None
    for side, pattern in _SIDES:
        if found := pattern.search(question):
            return Anchor(found["event"].strip(), side)
    return Anchor(question, "first") if _FIRST.search(question) else None
