"""
What a verb gets and gives: parsed words in, an answer out. Shared by all groups of verbs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ..db.files import Progress, silent
from ..errors import BadRequest

if TYPE_CHECKING:
    from ..session import Sessions
    from .status import OpsDeps

OK, FOUND, REFUSED, FAILED = 0, 1, 2, 3
_NAMED: Final = 5  # sessions to choose from


@dataclass(frozen=True, slots=True)
class Words:
    """What was typed behind the verb ``name``: its free words, and the flags among them."""

    rest: tuple[str, ...] = ()
    apply: bool = False
    dry: bool = False
    deep: bool = False
    progress: Progress = silent
    name: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What to show, what a machine gets, and the exit code of a terminal."""

    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    code: int = OK


@dataclass(frozen=True, slots=True)
class Verb:
    """``name``: one or two words; ``usage``: what may follow; ``changes``: has an apply.

    ``quotes``: shows what somebody said, so nothing in its answer may be reworded.
    """

    name: str
    run: Callable[[OpsDeps, Words], Answer]
    help: str
    usage: str = ""
    changes: bool = False
    quotes: bool = False


def one(words: Words, what: str, most: int = 1) -> str:
    """The one free word that a verb needs."""
    if not words.rest:
        raise BadRequest(f"`/lcm {words.name}` needs {what}")
    at_most(words, most, what)
    return words.rest[0]


def at_most(words: Words, most: int, what: str) -> None:
    """Refuse a word too many, by what it is."""
    if len(words.rest) > most:
        raise BadRequest(f"{words.rest[most]!r} is one word too many: `/lcm {words.name}` takes {what}")


def newest(sessions: Sessions) -> str:
    """The sessions that an operator at the terminal may have meant."""
    return ", ".join(each.session_id for each in sessions.recent(principal=None, limit=_NAMED)) or "none"
