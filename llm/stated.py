"""
Facts that a summariser's answer names behind its summary: each must quote a line of a user, or it is struck.

Pure. The answer itself is only a pointer: what is kept are places in the user's message, and a digest that tells whether the same
words still stand there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ..records import SourceLine, StatedFact
from ..text.salience import lazy

#: Kinds that are asked for.
KINDS: Final = ("rule", "decision", "name", "value", "date")
#: Facts of one answer that are kept.
MOST: Final = 8
_QUOTE_CHARS: Final = (6, 300)
_VALUE_CHARS: Final = 160
_LINE = lazy(r"[^\w|]*FACT[^\w|]*\|(?P<fields>.*)")  # a row of a table begins with a bar
_QUOTED: Final = re.compile("[\"'“”‘’„`]")
#: Of a word that blanks set apart; Chinese and Japanese have none between words.
_LETTER: Final = r"[^\W\u3040-\u30ff\u3400-\u9fff]"
_QUOTATION_MARKS: Final = " \t\"'`“”‘’«»„*"


class Named(NamedTuple):
    """A fact as the answer names it."""

    kind: str
    subject: str
    value: str
    quote: str


def taken_out(answer: str) -> tuple[str, tuple[Named, ...]]:
    """The answer without its lines of facts, and these. Never raises."""
    kept: list[str] = []
    named: list[Named] = []
    for line in answer.splitlines(keepends=True):
        match = _LINE.match(line)
        if match is None:
            kept.append(line)
        elif fact := _named(match["fields"]):
            named.append(fact)
    return ("".join(kept).rstrip(), tuple(named[:MOST])) if len(kept) < len(answer.splitlines()) else (answer, ())


def _named(fields: str) -> Named | None:
    kind, *rest = (field.strip(_QUOTATION_MARKS) for field in fields.split("|", 3))
    return Named(kind.casefold(), *rest) if kind.casefold() in KINDS and len(rest) == 3 else None


def found(named: Iterable[Named], lines: Iterable[SourceLine]) -> tuple[StatedFact, ...]:
    """The facts whose words stand in a user's line, value and all, each once; a subject that does not is left out."""
    said = [line for line in lines if line.role == "user"]
    places = (place for fact in named for place in _places(fact, said))
    return tuple(dict.fromkeys(places))[:MOST]


def _places(fact: Named, said: Iterable[SourceLine]) -> Iterator[StatedFact]:
    if not _QUOTE_CHARS[0] <= len(fact.quote) <= _QUOTE_CHARS[1]:
        return
    for line in said:
        if quote := _span(fact.quote, line.text):
            words = line.text[slice(*quote)]
            subject = None if fact.kind == "rule" else _span(fact.subject, words)
            value = (0, len(words)) if fact.kind == "rule" else _span(fact.value, words)
            if value is not None and (fact.kind == "rule" or value[1] - value[0] <= _VALUE_CHARS):
                yield StatedFact(line.address, fact.kind, quote, subject or (0, 0), value, StatedFact.digest_of(words))
            return


def _span(words: str, text: str) -> tuple[int, int] | None:
    """Place of words in a text, in whichever case and with any blanks and quotation marks; None where they are not."""
    parts = (re.escape(word) for word in words.strip(_QUOTATION_MARKS).split())
    pattern = r"\s+".join(_QUOTED.sub(lambda _: _QUOTED.pattern, part) for part in parts)
    match = re.search(rf"(?<!{_LETTER}){pattern}(?!{_LETTER})", text, re.IGNORECASE) if pattern else None
    return match.span() if match else None
