"""
What a verb gets and gives: parsed words in, an answer out. Shared by all groups of verbs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..db.files import Progress, silent
from ..errors import BadRequest

if TYPE_CHECKING:
    from .status import OpsDeps

OK, FOUND, REFUSED, FAILED = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class Words:
    """What was typed behind a verb: its free words, and the flags among them."""

    rest: tuple[str, ...] = ()
    apply: bool = False
    dry: bool = False
    deep: bool = False
    progress: Progress = silent


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
    if not 1 <= len(words.rest) <= most:
        raise BadRequest(f"this needs {what}")
    return words.rest[0]
