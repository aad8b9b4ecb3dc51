"""
Verbs and their answers: parsed words in, an answer out, worded for a chat or for a terminal.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ..errors import BadRequest
from ..storage.files import Progress, silent

if TYPE_CHECKING:
    from ..recall.access import Access
    from ..session import Sessions

OK, FOUND, REFUSED, FAILED = 0, 1, 2, 3
_NAMED: Final = 5  # sessions to choose from


@dataclass(frozen=True, slots=True)
class Words:
    """Typed words behind the verb ``name``: free ones, and the flags among them.

    ``session``: the session that was named at a terminal. ``limit``: results to show, 0 for the verb's own number.
    ``output``: the file that an export goes to, "-" for stdout.
    """

    rest: tuple[str, ...] = ()
    apply: bool = False
    dry: bool = False
    deep: bool = False
    files: bool = False
    verbose: bool = False
    output: str = ""
    progress: Progress = silent
    name: str = ""
    session: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: text for people, data for machines, and the exit code of a terminal.

    ``foot``: our own words below what a verb quotes. ``file``: the text is a file's content, and goes into a pipe as it is.
    ``idle``: there was nothing to change.
    """

    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    code: int = OK
    foot: str = ""
    file: bool = False
    idle: bool = False

    @property
    def whole(self) -> str:
        """Text and foot."""
        return "\n".join(filter(None, [self.text, self.foot]))


@dataclass(frozen=True, slots=True)
class Verb:
    """Verb of ``/lcm``. ``name``: one or two words; ``usage``: the words that may follow it; ``example``: some of these.

    ``changes``: has an apply; ``at_once``: changes something small as soon as it is typed, and ``--dry-run`` shows it.
    ``quotes``: shows stored texts, so nothing in its answer may be reworded. ``own``: limited to rows of the caller's;
    the other verbs are the operator's. ``check``: refuses wrong words, also where nothing is stored yet.
    """

    name: str
    run: Callable[[Access, Words], Answer]
    help: str
    usage: str = ""
    changes: bool = False
    quotes: bool = False
    example: str = ""
    own: bool = False
    check: Callable[[Access, Words], object] | None = None
    at_once: bool = False

    def acts(self, words: Words) -> bool:
        """Do these words change something?"""
        asked = words.apply or (self.changes and "undo" in words.rest) or (self.at_once and bool(words.rest))
        return asked and not words.dry


def one(words: Words, what: str, most: int = 1) -> str:
    """The one free word that a verb needs."""
    if not words.rest:
        raise BadRequest(f"`/lcm {words.name}` needs {what}")
    at_most(words, most, what)
    return words.rest[0]


def at_most(words: Words, most: int, what: str) -> None:
    """Limit of the number of free words. Raises BadRequest, which names the first one too many."""
    if len(words.rest) > most:
        hint = ". Put quotes around names with spaces" if most else ""
        raise BadRequest(f"unexpected {words.rest[most]!r}: `/lcm {words.name}` takes {what}{hint}")


def terminal_only(deps: Access, words: Words, why: str) -> None:
    """Limit to the operator at a terminal. Raises BadRequest in a chat."""
    if not deps.trusted:
        raise BadRequest(f"{why}: `hermes lcm {words.name}`")


def newest(sessions: Sessions) -> str:
    """Ids of the newest sessions, for an error text."""
    return ", ".join(each.session_id for each in sessions.recent(principal=None, limit=_NAMED)) or "none"


_SLASH = re.compile(r"(?<![\w/.])/lcm(?=[ `)]|$)( rotate(?: apply)?(?=`|$))?")
#: Fields of an answer's data that hold words of the plugin, commands among them.
_OURS = frozenset(("command", "remedy", "detail", "meaning", "note", "reason", "error", "said", "message"))


def at_terminal(answer: Answer, session_id: str | None) -> Answer:
    """An answer with the commands as they are typed here: ``hermes lcm ...`` instead of ``/lcm ...``."""

    def typed(found: re.Match[str]) -> str:
        which = f" --session {shlex.quote(session_id)}" if found[1] and session_id else ""
        return f"hermes lcm{found[1] or ''}{which}"

    def spoken(value: Any, ours: bool) -> Any:
        if isinstance(value, str):
            return _SLASH.sub(typed, value) if ours else value
        if isinstance(value, Mapping):
            return {key: spoken(each, key in _OURS) for key, each in value.items()}
        if isinstance(value, list):
            return [spoken(each, ours) for each in value]
        return value

    text, foot = (_SLASH.sub(typed, each) for each in (answer.text, answer.foot))
    return replace(answer, text=text, foot=foot, data=spoken(answer.data, False))
