"""
Verbatim lines of a source beside its summary: files changed, errors, what was done, what cannot be, values, words of the user.

Owns which are quoted within a room of tokens. Pure; no model is asked. A line is worth the words and names in it that nothing
before it says, so that what was said twice is quoted once. Of rules and of replies the wording counts too: two refusals are
made of the same words. Summaries hand their quotations on.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from ..records import SourceLine
from ..text import salience, statements
from ..text.salience import lazy
from ..text.tokens import Count
from .source import Source, clip

FILES: Final = "Files changed"
WORDS: Final = "The user's words"
ERRORS: Final = "Error lines"
DONE: Final = "Done"
REFUSED: Final = "Said not to be possible"
NAMED: Final = "Values named"
_TITLES: Final = frozenset(f"{title}:" for title in (WORDS, ERRORS, DONE, REFUSED, NAMED))
_LISTS: Final = (f"{FILES}: ", "Anchors: ")
_LINE_CHARS: Final = 280
_ERROR_CHARS: Final = 120
_ERRORS_OF_ONE: Final = 3
#: Of the room that is left, what each section may take; the user's words have the rest. A reply that refuses is long and
#: seldom said again; much of what users write is small talk.
_ERRORS_SHARE: Final = 0.3
_DONE_SHARE: Final = 0.35
_REFUSED_SHARE: Final = 0.7
_NAMED_SHARE: Final = 0.15
_DONE_CHARS: Final = 200
#: Rules hold on. They are few and short, and what they ask is seldom said twice.
_STANDING_WEIGHT: Final = 2.5
_DIRECTIVE_WEIGHT: Final = 1.2
_OWN_WEIGHT: Final = 1.6
#: The same of a line that a summary hands on: it was weighed against what stood around it once already.
_KEPT_OWN_WEIGHT: Final = 1.25
_QUESTION_WEIGHT: Final = 0.7
#: Times that, of a sentence with a date, an amount or an address: these are asked for most.
_VALUE_WEIGHT: Final = 1.3
#: Of a line of code that only names an error: quoted where room is left.
_NAMED_WEIGHT: Final = 0.3

_CHANGE = lazy(
    r"^\[calls? (?:write|edit|create|str_replace|apply_patch|multi_?edit|patch)\w*\] (?:.*?; )?(?:path|file_path|filename|file): "
    r"([^;\n]{1,300}?)(?:;|$)",
    re.MULTILINE | re.IGNORECASE,
)
_SIGNS = lazy(r'[\[\]{}"]')
_CALL = lazy(r"^\[calls? ([\w.-]+)\] ([^\n]+)", re.MULTILINE)
_ERROR = lazy(
    r"(?i)\b(?:[a-z]*error|[a-z]*exception|failed|failure|fatal|cannot|denied|traceback|panic)\b|错误|失败|异常"
)
#: A comment, a row of a table, an item or a key, as it stands in a file that was read, and how a line of code ends.
_NAMES_ERROR = lazy(r"\s*(?:\d+\s*[|:]\s*)?(?://|/\*|[-*]\s|\||[\"'][\w-]+[\"']\s*:|\}\s*catch\b)")
_CODE_ENDS: Final = (";", "{", "(", ",")
#: Tools that show the content of files; a log, a job or a mail tells what happened.
_READS_FILES = lazy(
    r"(?i)(?:read|view|open|cat|search|grep)(?![a-z])(?!.*(?:log|job|mail|order))|(?:get|find|list)_.*file"
)
_FAILED_LINES: Final = 3  # a reading that fails says so in no more
_ASKS: Final = ("?", "？")
_OWN = lazy(
    r"\b(?:i|i'm|i've|i'd|my|mine|we|we're|we've|our|ich|mein\w*|wir|unser\w*|je|mon|ma|mes|yo|mi|mis)\b|我|私|僕",
    re.IGNORECASE,
)
_WORD = lazy(r"\w{4,}|[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{2}")


class _Line(NamedTuple):
    """A line that may be quoted. ``wording``: pairs of words count like words, as in rules and in what replies say."""

    text: str
    weight: float = 1.0
    wording: bool = True


def quotes(source: Source, said: str, *, room: int, count: Count) -> str:
    """The lines to stand behind a summary that says ``said``, as sections; "" when there is nothing, or no room."""
    lines = source.task.lines
    out: list[str] = []
    files = ", ".join(dict.fromkeys(_files(lines)))
    if files and count(files) <= room // 3:
        out.append(f"{FILES}: {files}")
        room -= count(files) + 4
    known = _told(_Line(said))
    for title, found, share in (
        (ERRORS, _handed_on(lines, ERRORS, _errors), _ERRORS_SHARE),
        (DONE, _handed_on(lines, DONE, _done), _DONE_SHARE),
        (REFUSED, _handed_on(lines, REFUSED, _refused), _REFUSED_SHARE),
        (NAMED, _handed_on(lines, NAMED, _named), _NAMED_SHARE),
        (WORDS, _words(source), 1.0),
    ):
        chosen = _covering(list(found), known, int(room * share), count)
        if chosen:
            out.append("\n".join([f"{title}:", *(f"- {line.text}" for line in chosen)]))
            room -= sum(count(line.text) + 2 for line in chosen) + 6
    return "\n".join(out)


def without_quotes(summary: str) -> str:
    """A summary's own sentences: its quotations and anchors are handed on as they are, so no model need read them again."""
    out: list[str] = []
    inside = False
    for line in summary.splitlines():
        inside = line in _TITLES or (inside and line.startswith("- "))
        if not inside and not line.startswith(_LISTS):
            out.append(line)
    return "\n".join(out).strip() or summary


def said_tokens(lines: Iterable[SourceLine], count: Count) -> int:
    """Tokens of the users' words in a source, and of its summaries' quotations of them."""
    users = sum(count(line.text) for line in lines if line.role == "user")
    return users + sum(count(text) for line in lines if line.role == "summary" for text in _section(line.text, WORDS))


def _covering(lines: list[_Line], known: set[str], room: int, count: Count) -> list[_Line]:
    """Lines that say most that is new for what they cost, in their order. ``known`` grows by what they say."""
    chosen: set[_Line] = set()
    waiting = {line.text: (line, frozenset(_told(line)), count(line.text) + 2) for line in lines}
    worth = {text: _worth(*entry, known) for text, entry in waiting.items()}
    while worth and room > 0:
        best = max(worth, key=worth.__getitem__)
        line, words, cost = waiting[best]
        now = _worth(line, words, cost, known)
        if now < worth[best]:  # said meanwhile by another line
            worth[best] = now
            if now <= 0:
                del worth[best]
            continue
        del worth[best]
        if now <= 0:
            break
        if cost <= room:
            chosen.add(line)
            known |= words
            room -= cost
    return [line for line in dict.fromkeys(lines) if line in chosen]


def _told(line: _Line) -> set[str]:
    """Content of a line: its words, and once more the names and figures in it, which nobody can guess."""
    words = _WORD.findall(line.text.casefold())
    names = (*salience.terms(line.text), *salience.phrases(line.text))
    pairs = itertools.pairwise(words) if line.wording else ()
    return {*words, *(f"={name}" for name in names), *map(" ".join, pairs)}


def _worth(line: _Line, words: frozenset[str], cost: int, known: set[str]) -> float:
    fresh = len(words - known)
    return line.weight * fresh / cost if fresh else 0.0


def _files(lines: Iterable[SourceLine]) -> Iterator[str]:
    for line in lines:
        if line.role == "assistant":
            yield from (match[1].strip() for match in _CHANGE.finditer(line.text))
        elif line.role == "summary":
            for told in line.text.splitlines():
                if told.startswith(f"{FILES}: "):
                    yield from told.removeprefix(f"{FILES}: ").split(", ")


def _words(source: Source) -> Iterator[_Line]:
    for reading in source.readings:
        if reading.line.role == "user":
            for text, directive in reading.sentences:
                if salience.is_acknowledgement(text):
                    continue
                rule = _is_rule(text)
                weight = _STANDING_WEIGHT if rule else _weight(text, directive)
                yield from (_Line(part, weight * _valued(part), rule) for part in _parts(text))
        elif reading.line.role == "summary":
            for text in _section(reading.line.text, WORDS):
                if salience.is_acknowledgement(text):
                    continue
                rule = _is_rule(text)
                weight = _STANDING_WEIGHT if rule else _kept_weight(text)
                yield _Line(text, weight * _valued(text), rule)


def _is_rule(text: str) -> bool:
    """A sentence that forbids, corrects or prefers; it may speak of its speaker too."""
    return salience.is_standing(text) and not text.rstrip().endswith(_ASKS)


def _weight(text: str, directive: bool) -> float:
    """Weight of a user's sentence: what is said of oneself stays true, a question has been answered."""
    if text.rstrip().endswith(_ASKS):
        return _QUESTION_WEIGHT
    return _OWN_WEIGHT if _OWN.search(text) else _DIRECTIVE_WEIGHT if directive else 1.0


def _kept_weight(text: str) -> float:
    """The weight of a user's line in a summary that is no rule: what users say of themselves is handed on first."""
    return _KEPT_OWN_WEIGHT if _OWN.search(text) else 1.0


def _valued(text: str) -> float:
    return _VALUE_WEIGHT if statements.value_in(text) else 1.0


def _parts(text: str) -> Iterator[str]:
    """A long sentence in pieces that may be quoted by themselves."""
    words = text.split()
    piece: list[str] = []
    for word in words:
        if piece and sum(map(len, piece)) + len(piece) + len(word) > _LINE_CHARS:
            yield clip(" ".join(piece), _LINE_CHARS)
            piece = []
        piece.append(word)
    if piece:
        yield clip(" ".join(piece), _LINE_CHARS)


def _handed_on(
    lines: Iterable[SourceLine], title: str, found: Callable[[SourceLine], Iterable[_Line]]
) -> Iterator[_Line]:
    """Lines for a section: of a summary those that it has of it, of any other line what is ``found``."""
    for line in lines:
        if line.role != "summary":
            yield from found(line)
        else:
            kept = _section(line.text, title)
            yield from (_Line(text, _error_weight(text) if title == ERRORS else 1.0) for text in kept)


def _errors(line: SourceLine) -> list[_Line]:
    if line.role != "tool" or _was_read(line):
        return []
    telling = (told for _, told in salience.telling_lines(line.text, limit=40))
    found = [told for told in telling if _ERROR.search(salience.NO_ERROR.sub("", told[:400]))]
    found.sort(key=_is_code)
    return [_Line(clip(told, _ERROR_CHARS), _error_weight(told)) for told in found[:_ERRORS_OF_ONE]]


def _was_read(line: SourceLine) -> bool:
    """Is a result the content of a file? An error that it names is none that happened."""
    return _READS_FILES.match(line.tool_name or "") is not None and line.text.count("\n") >= _FAILED_LINES


def _is_code(line: str) -> bool:
    return line.rstrip().endswith(_CODE_ENDS) or _NAMES_ERROR.match(line[:400]) is not None


def _error_weight(line: str) -> float:
    return _NAMED_WEIGHT if _is_code(line) else 1.0


def _done(line: SourceLine) -> Iterator[_Line]:
    """Calls that changed something outside of files, and the sentence in which a reply says what was done."""
    if line.role != "assistant":
        return
    for name, given in _CALL.findall(line.text):
        if statements.changes_something(name) and not _CHANGE.match(f"[calls {name}] {given}"):
            yield _Line(clip(f"{name} {_SIGNS.sub('', given)}", _DONE_CHARS))
    text = statements.outcome(_reply(line))
    if len(_WORD.findall(text)) > 1:  # "Done." alone does not say what
        yield _Line(clip(text, _DONE_CHARS))


def _refused(line: SourceLine) -> list[_Line]:
    return [_Line(clip(text, _LINE_CHARS)) for text in statements.refusals(_reply(line))]


def _named(line: SourceLine) -> list[_Line]:
    """Sentences in which a reply names values; what users name is among their words."""
    return [_Line(clip(each.text, _LINE_CHARS)) for each in statements.naming(_reply(line))]


def _reply(line: SourceLine) -> str:
    """Words of a reply in front of its calls; "" of any other line."""
    return _CALL.split(line.text, maxsplit=1)[0] if line.role == "assistant" else ""


def _section(text: str, title: str) -> Iterator[str]:
    """The lines of a section of a summary."""
    inside = False
    for line in text.splitlines():
        if line == f"{title}:":
            inside = True
        elif inside and line.startswith("- "):
            yield line.removeprefix("- ")
        else:
            inside = False
