"""
Work as it can be read from rows by rule: files changed last, what tools did, failures that nothing mended, outcomes, values.

Pure. Every entry names the message that says it, and quotes it; nothing is put into other words.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ..records import Row, ToolCall
from ..text import outcomes, salience

_ARGUMENT_CHARS: Final = 200_000
_RESULT_CHARS: Final = 20_000
_REMEMBERED: Final = 1500  # texts whose reading is kept: most were there at the compaction before
_LINE: Final = (20, 220)  # characters of an error line
_PATH_KEYS: Final = ("path", "file_path", "file", "filename", "filepath", "target_file")
_OPERATIONS: Final = (
    ("edited", re.compile(r"(?:^|_)(?:edit|patch|str_?replace|replace|insert|update|modify)", re.IGNORECASE)),
    ("written", re.compile(r"(?:^|_)(?:write|create|save)", re.IGNORECASE)),
    ("deleted", re.compile(r"(?:^|_)(?:delete|remove|unlink)", re.IGNORECASE)),
    ("moved", re.compile(r"(?:^|_)(?:move|rename)", re.IGNORECASE)),
)
_READING: Final = re.compile(r"(?:^|_)(?:read|view|open|cat|search|grep|list|get|find)", re.IGNORECASE)
_SHELL: Final = re.compile(r"(?:^|&&|\|\||;|\n)\s*(?:sudo )?(?:git )?(rm|mv)\s+([^&|;\n]+)")
_COMMIT: Final = re.compile(r"git commit\b[^\"'\n]*[\"']([^\"'\n]{8,160})")
_FAILED: Final = re.compile(
    r"\A\s*(?:error\b|could not\b|no changes\b|traceback\b|failed\b)|exit(?:ed)?(?: with)? (?:code|status)[: ]+[1-9]|"
    r"command failed",
    re.IGNORECASE,
)
#: A result that speaks to its reader instead of telling what went wrong: never repeated as a reason.
_ORDERS: Final = re.compile(
    r"\b(?:ignore|disregard|forget) (?:all|any|the|your|every|previous|prior|earlier)\b|"
    r"\byou (?:must|should|are now|have to|will)\b|\b(?:system prompt|instructions?|assistant|as an ai)\b|忽略|指令",
    re.IGNORECASE,
)
_TRACEBACK: Final = "Traceback (most recent call last)"
_ERROR: Final = re.compile(
    r"\b(?:\w*error|\w*exception|failed|failure|fatal|cannot|can't|denied|could not|no such file|not found|no changes made)\b",
    re.IGNORECASE,
)
_FRAME: Final = re.compile(r"^\s*(?:at \S|File \"|\d+ \||npm ERR! at|from \S+:\d+)")
_CODE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_VALUE: Final = re.compile(
    r"https?://[^\s)\]>`\"',]+|[$€£]\d[\d,]*(?:\.\d+)?|#[0-9a-fA-F]{6}\b|\b\d{4}-\d\d-\d\d\b|(?<![\w.])v?\d+\.\d+\.\d+(?![\w.])|"
    rf"\b{_MONTH}\.? \d{{1,2}}(?:, \d{{4}})?\b|\b[A-Z]{{2,}}-\d+\b|\b\d+(?:\.\d+)?%|(?:(?<=port )|(?<=localhost:))\d{{2,5}}\b"
)
_MAY_NAME: Final = re.compile(r"\d|://|#[0-9a-fA-F]{6}")


_DEED_CHARS: Final = 200
_ARGUMENT_SHOWN: Final = 120
_ID: Final = re.compile(r"(?:^|_)(?:id|key|number|url|code)$", re.IGNORECASE)


class Entry(NamedTuple):
    """One line to show: what it says of which message."""

    store_id: int
    text: str


class Change(NamedTuple):
    """The last change of a file, by the message that called for it."""

    path: str
    operation: str  # edited, written, deleted, moved
    store_id: int


class Failure(NamedTuple):
    """What went wrong: the message that says so, what was tried, the line that says why, how often."""

    store_id: int
    tried: str
    line: str
    times: int


class Step(NamedTuple):
    """A tool call with its result."""

    asked: int  # the message that called
    told: int  # the message with the result
    call: ToolCall
    arguments: Mapping[str, Any]
    text: str  # the result as it reads
    failed: bool
    answer: Mapping[str, Any]  # the result where it is a JSON object, else {}


def steps(rows: Iterable[Row]) -> list[Step]:
    """Calls and their results among rows, in the order of the results."""
    calls: dict[str, tuple[int, ToolCall]] = {}
    out: list[Step] = []
    for row in sorted(rows, key=lambda row: row.store_id):
        calls.update({call.id: (row.store_id, call) for call in row.calls})
        if row.head.role == "tool" and row.head.answers in calls:
            asked, call = calls[row.head.answers]
            answer = _object(row.text)
            text, failed = result(row.text, answer)
            out.append(Step(asked, row.store_id, call, _object(call.arguments), text, failed, answer))
    return out


def _object(text: str) -> Mapping[str, Any]:
    if len(text) > _ARGUMENT_CHARS or not text[:40].lstrip().startswith("{"):
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def result(text: str, told: Mapping[str, Any] | None = None) -> tuple[str, bool]:
    """(a tool's result as it reads, whether it tells of a failure). ``told``: the JSON that it is."""
    told = _object(text) if told is None else told
    if told:
        code, error = told.get("exit_code", told.get("returncode")), told.get("error")
        parts = [
            part
            for part in (error, told.get("output"), told.get("stdout"), told.get("stderr"))
            if isinstance(part, str)
        ]
        failed = (
            (isinstance(code, int) and code != 0)
            or (isinstance(error, str) and bool(error))
            or told.get("success") is False
        )
        if parts or failed:
            return "\n".join(parts)[:_RESULT_CHARS], failed
    shown = text if len(text) <= _RESULT_CHARS else text[: _RESULT_CHARS // 2] + "\n" + text[-_RESULT_CHARS // 2 :]
    return shown, bool(_FAILED.search(shown)) or _TRACEBACK in shown[-3000:]


# -- files ------------------------------------------------------------------------------------------------
def changes(done: Sequence[Step]) -> list[Change]:
    """The last change of each file, oldest first. A change that failed is none."""
    out: dict[str, Change] = {}
    for step in done:
        if not step.failed:
            for path, operation in _changed(step):
                known = next((name for name in out if name == path or name.endswith(f"/{path}")), path)
                out.pop(known, None)
                out[known] = Change(known, operation, step.asked)
    return list(out.values())


def _changed(step: Step) -> Iterator[tuple[str, str]]:
    name = step.call.name
    operation = next((word for word, pattern in _OPERATIONS if pattern.search(name)), "")
    if operation and not _READING.match(name):
        yield from ((path, operation) for path in paths(step.arguments))
    command = step.arguments.get("command")
    if isinstance(command, str):
        for verb, rest in _SHELL.findall(command[:4000]):
            names = [
                word for word in rest.split() if re.search(r"\w\.\w+$", word) and not re.search(r"[*$\"'{<>]", word)
            ]
            yield from (
                (path, "deleted" if verb == "rm" else "moved") for path in (names if verb == "rm" else names[:1])
            )


def paths(arguments: Mapping[str, Any]) -> list[str]:
    """Paths that a call names."""
    found = (arguments.get(key) for key in _PATH_KEYS)
    return [path for path in found if isinstance(path, str) and 0 < len(path) < 200 and "\n" not in path]


# -- what tools did outside -------------------------------------------------------------------------------
def deeds(done: Sequence[Step]) -> list[Entry]:
    """Calls that changed something outside of files, with their arguments and the names that they got back; oldest first."""
    return [Entry(step.asked, _deed(step)) for step in done if _is_deed(step)]


def _is_deed(step: Step) -> bool:
    return (
        not step.failed
        and outcomes.changes_something(step.call.name)
        and bool(step.arguments)
        and not paths(step.arguments)
        and not isinstance(step.arguments.get("command"), str)
    )


def arguments(call: ToolCall, *, besides: str = "") -> str:
    """What a call was made with, as words: what names something first, then the short ones.

    ``besides``: a text that need not be repeated; numbers are left out then.
    """
    made = _object(call.arguments)
    if besides:
        made = {name: value for name, value in made.items() if isinstance(value, str) and value not in besides}
    given = [" ".join(said.split())[:_ARGUMENT_SHOWN] for said in _given(made)]
    return ", ".join(sorted(given, key=lambda said: (not _ID.search(said.partition(" ")[0]), len(said))))


def _given(arguments: Mapping[str, Any]) -> list[str]:
    """Arguments with their names, lists and objects last."""
    plain = {name: value for name, value in arguments.items() if not isinstance(value, (list, dict))}
    nested = {name: value for name, value in arguments.items() if name not in plain}
    return [f"{name} {_flat(value)}" for name, value in {**plain, **nested}.items() if value not in ("", None, [], {})]


def _deed(step: Step) -> str:
    told = [
        f"{name} {value}"
        for name, value in step.answer.items()
        if _ID.search(name) and name not in step.arguments and isinstance(value, (str, int)) and value
    ]
    given = _given(step.arguments)
    # What identifies the deed stands first: a long argument is what gets cut.
    said = ", ".join([*sorted(given, key=len)[:2], *told[:2], *sorted(given, key=len)[2:]])
    return f"{step.call.name} {quoted(said, _DEED_CHARS)}"


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(_flat(each) for each in value.values())
    if isinstance(value, list):
        return "; ".join(_flat(each) for each in value)
    return str(value)[:120]


# -- failures -----------------------------------------------------------------------------------------------
def failures(done: Sequence[Step]) -> list[Entry]:
    """Failures that nothing mended, in a line each: what was tried, how often, and what says why; oldest first."""
    return [
        Entry(
            each.store_id,
            f"{each.tried}{f' ({each.times} times)' if each.times > 1 else ''}: {quoted(each.line, _LINE[1])}",
        )
        for each in unmended(done)
    ]


def unmended(done: Sequence[Step]) -> list[Failure]:
    """What failed and was not done again with success, oldest first."""
    mended = {_purpose(step): step.told for step in done if not step.failed}
    out: dict[tuple[str, str], Failure] = {}
    for step in done:
        purpose = _purpose(step)
        line = error_line(step.text) if step.failed and mended.get(purpose, 0) < step.told else ""
        if line:
            before = out.pop((purpose, line), None)
            out[purpose, line] = Failure(step.told, _tried(step), line, 1 + (before.times if before else 0))
    return list(out.values())


def _purpose(step: Step) -> str:
    """What a call is for: the same program, the same file, or the same arguments."""
    command = step.arguments.get("command")
    if isinstance(command, str):
        return f"{step.call.name} {_program(command)}"
    named = paths(step.arguments)
    return f"{step.call.name} {named[0] if named else step.call.arguments[:200]}"


def _program(command: str) -> str:
    bare = re.sub(r"^\s*cd \S+\s*(?:&&|;)\s*", "", command)
    return " ".join(re.split(r"[|>;&\n]", bare)[0].split()[:3])


def _tried(step: Step) -> str:
    command = step.arguments.get("command")
    if isinstance(command, str):
        return quoted(command, 80)
    named = paths(step.arguments)
    return f"{step.call.name} of {quoted(named[0], 100)}" if named else step.call.name


def error_line(text: str) -> str:
    """The line of a result that says what went wrong; no frame of a stack, and nothing that gives orders."""
    lines = [line.strip() for line in text.splitlines() if _ERROR.search(line[:400]) and not _ORDERS.search(line)]
    good = [
        line for line in lines if len(line) >= _LINE[0] and not _FRAME.match(line) and not line.startswith(_TRACEBACK)
    ]
    return next((line for line in good if len(line) <= _LINE[1]), good[0] if good else lines[0] if lines else "")


# -- requests -------------------------------------------------------------------------------------------------
def commits(done: Sequence[Step]) -> list[Entry]:
    """Messages of commits that went through, oldest first."""
    found = ((step, _COMMIT.search(str(step.arguments.get("command", ""))[:4000])) for step in done if not step.failed)
    return [Entry(step.asked, f"committed {quoted(match[1], 160)}") for step, match in found if match]


# -- values and refusals ----------------------------------------------------------------------------------------
def values(rows: Sequence[Row]) -> list[Entry]:
    """Values that were named more than once, each with the sentence it was named in last; oldest first.

    The user's own sentence stands until somebody changes something: a model repeats what it was told.
    """
    times: Counter[str] = Counter()
    last: dict[str, tuple[int, str]] = {}
    spans: dict[tuple[int, str], tuple[int, int]] = {}
    users = {row.store_id for row in rows if row.head.role == "user"}
    for row in rows:
        named = _named(row.text)
        for sentence, changes, found in named:
            for value, first, stop in found:
                if value in last and last[value][0] in users and row.store_id not in users and not changes:
                    continue
                last.pop(value, None)
                key = last[value] = (row.store_id, sentence)
                known = spans.get(key, (first, stop))
                spans[key] = min(known[0], first), max(known[1], stop)
        times.update({value for _, _, found in named for value, _, _ in found})
    kept = dict.fromkeys(key for value, key in last.items() if times[value] > 1)
    return [Entry(at, quoted(_around(sentence, *spans[at, sentence]), 260)) for at, sentence in kept]


@lru_cache(maxsize=_REMEMBERED)
def _named(text: str) -> tuple[tuple[str, bool, tuple[tuple[str, int, int], ...]], ...]:
    """Sentences with values: (sentence, does it tell of a change, the values and where they stand)."""
    head = text[:8000]
    if not _MAY_NAME.search(head):
        return ()
    out = []
    for sentence in salience.sentences(_CODE.sub("\n", head)):
        if 20 <= len(sentence) <= 400 and _MAY_NAME.search(sentence):
            found = tuple((match[0].rstrip("."), *match.span()) for match in _VALUE.finditer(sentence))
            if found:
                out.append((sentence, bool(outcomes.DID.search(sentence)), found))
    return tuple(out)


def value_in(text: str) -> str:
    """The first value of a text; "" where there is none."""
    found = _VALUE.search(text)
    return found[0].rstrip(".") if found else ""


def _around(sentence: str, start: int, stop: int) -> str:
    """The stretch of a sentence that holds its values, with the words beside them."""
    begin = max(0, start - 90) if len(sentence) > 200 else 0
    return sentence[begin : max(stop + 90, begin + 200)]


def refusals(rows: Sequence[Row]) -> list[Entry]:
    """Sentences in which the agent said that something is not possible, oldest first."""
    out: dict[str, Entry] = {}
    for row in rows:
        for sentence in outcomes.refusals(row.text):
            out.pop(sentence, None)
            out[sentence] = Entry(row.store_id, quoted(sentence, 300))
    return list(out.values())


def quoted(text: str, limit: int) -> str:
    """Somebody's words in quotation marks that nothing in them closes."""
    flat = " ".join(text.split()).replace("“", "‹").replace("”", "›")
    return f"“{flat[:limit]}…”" if len(flat) > limit else f"“{flat}”"
