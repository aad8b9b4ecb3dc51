"""
An extract that no model wrote.

Owns the substitute for a summary when no model answers, or none is wanted: the user's first request and directives
verbatim, decisions, open points, commands, errors, the last state, and an anchor line with the names and numbers
that fit. Pure and quick; says in its first line what it is. Never copies a long stretch of a tool result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from ..records import SourceLine, SummaryTask
from ..text import salience
from ..text.salience import Item, Reading, lazy
from ..text.tokens import Count
from .source import Haystack, Source, clip, recall, with_more
from .verify import anchor_line

#: Of a tool result, no more than this in one piece.
TOOL_RUN_CHARS: Final = 200
_LINE_CHARS: Final = 320

_FIRST, _DIRECTIVES, _SAID = "First request", "The user asked and demanded", "The user said"
_RECORD, _DECISIONS = "Record", "Decisions and findings"
_COMMANDS, _ERRORS, _OPEN, _LAST = "Commands and calls", "Errors and outcomes", "Left open", "Last state"
#: Sections in the order in which they are printed, with their share of the room for sentences.
_SHARES: Final = {
    _FIRST: 0.16,
    _DIRECTIVES: 0.30,
    _SAID: 0.06,
    _RECORD: 0.50,
    _DECISIONS: 0.16,
    _COMMANDS: 0.12,
    _ERRORS: 0.12,
    _OPEN: 0.06,
    _LAST: 0.14,
}
#: The rest of the room holds anchors: a name costs three tokens, a sentence thirty.
_SENTENCES_SHARE: Final = 0.45
_LEAST_SENTENCES_SHARE: Final = 0.25

_DECISION = lazy(
    r"\b(?:decided|decision|chose|choose|because|instead|root cause|the (?:problem|issue|fix|cause|reason|"
    r"bug)|turns out|"
    r"fixed|implemented|created|updated|changed|added|removed|works? now|passes|confirmed|conclusion|recommend|agreed|"
    r"successfully|completed|done|found|booked|cancell?ed)\b|决定|因为|原因|已经|完成|改为|结论",
    re.IGNORECASE,
)
_CALL = lazy(r"^\[calls? ([^\]\s]{1,80})\] (.*)$")
_COMMAND = lazy(r"(?:^|; )(?:command|cmd|code|query|path|file_path|filename|url|pattern): (.{1,300}?)(?=; \w+: |$)")
_PLACE = lazy(r" \(((?:msg|sum|part)_\d+)\)$")
_HEADING = lazy(r"^([A-Z][^:\n]{2,40}):$")
_MACHINE: Final = ("Extract made without a model", "Anchors: ", "Expand for details about:")


class _Piece(NamedTuple):
    section: str
    order: int
    text: str
    address: str
    weight: float


def _prose(text: str) -> str:
    """Words of a line, without calls and code."""
    return "\n".join(
        line for line in salience.without_syntax(text).splitlines() if not line.startswith(("[call ", "[calls "))
    )


def _calls(line: SourceLine) -> Iterator[str]:
    for text in line.text.splitlines():
        if match := _CALL.match(text[:4000]):
            found = _COMMAND.search(match[2])
            yield f"{match[1]}: {clip(found[1] if found else match[2], 140)}"


def _density(text: str) -> float:
    """Density of a sentence: its names and numbers."""
    return 1.0 + min(len(salience.terms(text)), 6) / 3


def _from_user(reading: Reading, order: int) -> Iterator[_Piece]:
    address = reading.line.address
    for text, directive in reading.sentences:
        section = _DIRECTIVES if directive else _SAID
        if len(text) > (3 if directive or not text.isascii() else 14):
            weight = _density(text) + (3.0 if salience.is_standing(text) else 0.0)
            yield _Piece(section, order, clip(text, _LINE_CHARS), address, weight)
    for text in reading.open_points(4):
        yield _Piece(_OPEN, order, clip(text, _LINE_CHARS), address, 1.0)


def _from_assistant(reading: Reading, order: int) -> Iterator[_Piece]:
    line = reading.line
    for call in _calls(line):
        yield _Piece(_COMMANDS, order, call, line.address, 1.0)
    prose = _prose(line.text)
    every = tuple(salience.sentences(prose))
    for text in every:
        if 12 < len(text) <= 600 and _DECISION.search(text):
            yield _Piece(_DECISIONS, order, clip(text, 240), line.address, _density(text))
    for text in salience.last_open(every, 4):
        yield _Piece(_OPEN, order, clip(text, _LINE_CHARS), line.address, 1.0)


def _from_tool(reading: Reading, order: int) -> Iterator[_Piece]:
    for _, text in reading.telling_lines(6):
        if text.strip():
            yield _Piece(_ERRORS, order, clip(text, TOOL_RUN_CHARS), reading.line.address, 1.0)


def _from_summary(reading: Reading, order: int) -> Iterator[_Piece]:
    """An earlier summary, line by line; its sections are kept where they are ours."""
    section, line = _RECORD, reading.line
    for raw in line.text.splitlines():
        text = raw.strip()
        if heading := _HEADING.match(text):
            section = heading[1] if heading[1] in _SHARES else _RECORD
        elif text and not text.startswith(_MACHINE):
            bare = text.lstrip("-*• ")
            place = _PLACE.search(bare)
            if place:
                bare = bare[: place.start()]
            # A part is one of what that summary was condensed from: a number that means nothing here.
            address = place[1] if place and not place[1].startswith("part_") else line.address
            weight = _density(bare) + (3.0 if section == _DIRECTIVES and salience.is_standing(bare) else 0.0)
            yield _Piece(section, order, clip(bare, _LINE_CHARS), address, weight)


_READERS: Final[dict[str, Callable[[Reading, int], Iterator[_Piece]]]] = {
    "user": _from_user,
    "assistant": _from_assistant,
    "tool": _from_tool,
    "summary": _from_summary,
}


def _ends(lines: tuple[SourceLine, ...]) -> Iterator[_Piece]:
    """The first request and the last words."""
    first = next(((n, line) for n, line in enumerate(lines) if line.role == "user" and line.text.strip()), None)
    if first:
        yield _Piece(_FIRST, first[0], clip(first[1].text, 600), first[1].address, 3.0)
    last = next(
        (
            (n, line)
            for n, line in reversed(list(enumerate(lines)))
            if line.role == "assistant" and _prose(line.text).strip()
        ),
        None,
    )
    if last:
        yield _Piece(_LAST, last[0], clip(_prose(last[1].text), 400), last[1].address, 3.0)


def _pieces(source: Source) -> list[_Piece]:
    out = list(_ends(source.task.lines))
    for order, reading in enumerate(source.readings):
        reader = _READERS.get(reading.line.role)
        if reader:
            out.extend(reader(reading, order))
    return out


def _pick(pieces: Iterable[_Piece], room: int, count: Count) -> list[_Piece]:
    """The best piece of every section, then the weightiest within its share; what is left over goes to larger ones.

    No piece is chosen that says what is said already.
    """
    by_section: dict[str, list[_Piece]] = {}
    for piece in pieces:
        by_section.setdefault(piece.section, []).append(piece)
    for section in by_section.values():
        section.sort(key=lambda piece: (-piece.weight, -piece.order))
    chosen: list[_Piece] = []
    said, left = "", room

    def cost_of(piece: _Piece, allowance: float) -> int:
        """Cost of a piece that is chosen: it is new and fits into the allowance; else 0."""
        nonlocal said, left
        key = salience.normal(piece.text)
        cost = count(piece.text) + 6
        if cost > min(allowance, left) or key in said:
            return 0
        said += "\n" + key
        left -= cost
        chosen.append(piece)
        return cost

    for name in _SHARES:
        if name in by_section:
            cost_of(by_section[name][0], room)
    present = sum(_SHARES[name] for name in by_section) or 1.0
    rest, spare = left, 0.0
    for name in sorted(by_section, key=lambda name: len(by_section[name])):
        spare += rest * _SHARES[name] / present
        for piece in by_section[name][1:]:
            spare -= cost_of(piece, spare)
    return chosen


def _print(chosen: list[_Piece]) -> str:
    out: list[str] = []
    for name in _SHARES:
        section = sorted((piece for piece in chosen if piece.section == name), key=lambda piece: piece.order)
        if section:
            out.append(f"{name}:")
            out.extend(f"- {piece.text} ({piece.address})" for piece in section)
    return "\n".join(out)


def _title(lines: tuple[SourceLine, ...]) -> str:
    if lines[0].role == "summary":
        return "Extract made without a model from earlier records."
    span = lines[0].address if len(lines) == 1 else f"{lines[0].address} to {lines[-1].address}"
    return f"Extract made without a model ({span})."


class Digest(NamedTuple):
    """The extract; ``recall`` is the share of the source's salient items that it holds."""

    text: str
    hint: str
    recall: float


def digest(source: Source, *, count: Count) -> Digest:
    """An extract of the source's lines within about its target. Of nothing, an empty one."""
    task = source.task
    if not task.lines:
        return Digest("", "", 1.0)
    pieces = _pieces(source)
    room = max(40, min(task.target_tokens, int(task.source_tokens * 0.7)))
    sentences = int(room * _SENTENCES_SHARE)
    body = _with_title(task, pieces, sentences, count)
    _, missing = recall(source.items, Haystack(body))
    # What the names do not need goes to sentences, and within limits the other way round.
    spare = room - count(body) - count(anchor_line(missing, source, room=2 * room, count=count))
    sentences = max(int(room * _LEAST_SENTENCES_SHARE), sentences + spare * 9 // 10)
    body = _with_title(task, pieces, sentences, count)
    haystack = Haystack(body)
    _, missing = recall(source.items, haystack)
    anchors = anchor_line(missing, source, room=room - count(body), count=count)
    share = with_more(source.items, missing, haystack.plus(anchors))
    return Digest(f"{body}\n{anchors}".strip(), _hint(source.items), share)


def _with_title(task: SummaryTask, pieces: list[_Piece], room: int, count: Count) -> str:
    return f"{_title(task.lines)}\n{_print(_pick(pieces, room, count))}".strip()


def _hint(items: tuple[Item, ...]) -> str:
    names = [i.text for i in items if i.kind in (salience.PATH, salience.IDENTIFIER, salience.ERROR, salience.URL)]
    names = names or [item.text for item in items if item.kind in salience.TERMS]
    return ", ".join(names[:6]) or "the messages of this part"
