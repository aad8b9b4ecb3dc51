"""
What the user asked for and ruled, by rule from rows: requests with the reply that closed them, rules, what was taken back.

Pure. Rows are those of one speaker, oldest first; nothing is put into other words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from ..records import Row
from ..text import markers, outcomes, salience
from ..text.rules import is_rule, replaces

_REMEMBERED: Final = 1500  # texts whose reading is kept
_READ_CHARS: Final = 4000
_RULES_OF_A_MESSAGE: Final = 8
#: Code, and what somebody is quoted with.
_NOT_TYPED: Final = re.compile(r"```.*?(?:```|\Z)|^[ \t]*>[^\n]*$", re.DOTALL | re.MULTILINE)
_TAKEN_BACK: Final = re.compile(
    r"^\W*(?:actually|sorry|oh|no|ok|wait|hm+)?\W*(?:never ?mind|scratch that|"
    r"forget (?:it|that|about (?:it|that)|what i (?:just )?said)|"
    r"ignore (?:that|my last message|what i (?:just )?said)|i take (?:it|that) back|nvm|scrap that|undo that|"
    r"vergiss (?:es|das)|doch nicht|olvídalo|olvida eso|oublie (?:ça|cela)|laisse tomber|забудь|отмена)\b|"
    r"^(?:算了|当我没说|取消吧)",
    re.IGNORECASE,
)
_TAKING_BACK_CHARS: Final = 80
_QUESTION_CHARS: Final = 100


class Closed(NamedTuple):
    """How a request ended: the reply that says so, and the sentence in which it does."""

    store_id: int
    outcome: str


class Rule(NamedTuple):
    """A sentence of the user that holds beyond the request it stands in; ``replaces``: the one that held before."""

    row: Row
    text: str
    replaces: Rule | None = None


def closed(prose: Iterable[Row]) -> dict[int, Closed]:
    """Requests that a reply says to be finished, by message; prose is what user and agent said, without calls.

    A "yes, go on" belongs to the request that it answers.
    """
    out: dict[int, Closed] = {}
    asked: Row | None = None
    for row in prose:
        if row.head.role == "user":
            if asked is None or not salience.is_acknowledgement(markers.typed(row.text[:_READ_CHARS])):
                asked = row
        elif asked is not None and (text := outcomes.outcome(row.text)):
            out[asked.store_id] = Closed(row.store_id, text)
    return out


def standing(users: Sequence[Row]) -> list[Row]:
    """Messages without those that were taken back, and without the taking back."""
    out: list[Row] = []
    for row in users:
        if len(row.text) <= _TAKING_BACK_CHARS and _TAKEN_BACK.search(row.text):
            out = out[:-1]
        else:
            out.append(row)
    return out


def rules(users: Iterable[Row]) -> list[Rule]:
    """Rules in force, oldest first; one that was said again counts where it was said last. Questions rule nothing.

    A rule that replaces an earlier one by its own words names it.
    """
    out: dict[str, Rule] = {}
    for row in users:
        for sentence in _rules_of(row.text):
            key = salience.normal(sentence)
            out.pop(key, None)
            gone = [each for each, rule in out.items() if replaces(sentence, rule.text)]
            before = [out.pop(each) for each in gone]
            out[key] = Rule(row, sentence, before[-1] if before else None)
    return list(out.values())


@lru_cache(maxsize=_REMEMBERED)
def _rules_of(text: str) -> tuple[str, ...]:
    said = _NOT_TYPED.sub("\n", markers.typed(text)[:_READ_CHARS])
    return tuple(islice(filter(is_rule, salience.sentences(said)), _RULES_OF_A_MESSAGE))


def unfinished(users: Iterable[Row], done: Mapping[int, Closed]) -> list[Row]:
    """Messages that want something and of which no reply says that it is finished; a mere question was answered."""
    return [row for row in users if row.store_id not in done and not _is_small(markers.typed(row.text[:_READ_CHARS]))]


def _is_small(text: str) -> bool:
    questions = len(text) <= _QUESTION_CHARS and text.rstrip().endswith(("?", "？"))
    return questions or salience.is_acknowledgement(text)
