"""
Exploration of a text that went into a file: a few lines without a model, for its row and for summaries.

Pure, deterministic and linear. Quotes lines exactly; says how much it left out.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from .salience import NO_ERROR

MOST_CHARS: Final = 1800
_PARSED_CHARS = 2_000_000  # larger texts are not read as JSON
_FIRST_CHARS, _LAST_CHARS = 200_000, 50_000  # of a text that is larger, these lines are looked at
_END_CHARS = 4096
_LINE_CHARS = 160
_ERROR = re.compile(
    r"\b(error|exception|traceback|fatal|fail(?:ed|ure)?|panic|critical|denied|refused|warning)\b", re.IGNORECASE
)
_STAMP = re.compile(r"^\W?\d{2,4}[-/.:]\d{2}[-/.:]\d{2}|^\[?\w{3} \d{1,2} \d\d:\d\d")
_OUTLINE = re.compile(
    r"^\s{0,8}+(?=[ac-fimpst])(?:export |public |private |static |async |pub )*"
    r"(?:def|class|function|func|fn|struct|interface|impl|module|package|trait|enum)\s+[\w$.:<>]+.*$"
)
_HEADING = re.compile(r"^#{1,6} \S.*$")
_TAG = re.compile(r"<([A-Za-z][\w:.-]*)")


def explore(text: str) -> tuple[str, str]:
    """(kind of text, a description of at most MOST_CHARS)."""
    lines, left_out = _lines(text)
    told = ((kind, look(text, lines)) for kind, look in _LOOKS)
    kind, found = next(((kind, found) for kind, found in told if found), ("text", []))
    body = "\n".join(found or _plain(lines))
    total = text.count("\n") + 1
    head = f"{kind}, {len(text):,} characters, {total:,} {'line' if total == 1 else 'lines'}"
    if left_out and kind != "json":
        head += f", looked at but for {left_out:,} characters in the middle"
    return kind, f"{head}\n{body}"[:MOST_CHARS]


def _lines(text: str) -> tuple[list[str], int]:
    """(its lines; of a large text the first and the last ones, all of them whole, how many characters lie between them)."""
    if len(text) <= _FIRST_CHARS + _LAST_CHARS:
        return text.splitlines(), 0
    first, last = text[:_FIRST_CHARS].splitlines(keepends=True), text[-_LAST_CHARS:].splitlines(keepends=True)
    if len(first) > 1 and not first[-1].endswith(("\n", "\r")):
        first.pop()
    if len(last) > 1:
        del last[0]
    seen = sum(map(len, first)) + sum(map(len, last))
    return [line for each in (first, last) for line in "".join(each).splitlines()], len(text) - seen


def _short(line: str, size: int = _LINE_CHARS) -> str:
    if len(line) > _END_CHARS and len(head := " ".join(line[:_END_CHARS].split())) > size:
        line = head  # what follows cannot change its beginning
    else:
        line = " ".join(line.split())
    return line if len(line) <= size else line[: size - 1] + "…"


# ------------------------------------------------------------------------------------------------ JSON
def _json(text: str, _lines: list[str]) -> list[str]:
    if len(text) > _PARSED_CHARS:
        return []
    stripped = text.lstrip()
    end = text[-_END_CHARS:].rstrip() or text.rstrip()
    if stripped[:1] + end[-1:] not in ("{}", "[]"):
        return []
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return []
    return _shape(value, "$", 0)[:40]


def _shape(value: Any, path: str, depth: int) -> list[str]:
    if isinstance(value, dict):
        out = [f"{path}: object with {len(value)} keys: {_short(', '.join(map(str, list(value)[:20])))}"]
        if depth < 2:
            for key in list(value)[:8]:
                if isinstance(value[key], (dict, list)):
                    out += _shape(value[key], f"{path}.{_short(str(key), 40)}", depth + 1)
                else:
                    out.append(
                        f"{path}.{_short(str(key), 40)}: {_short(json.dumps(value[key], ensure_ascii=False), 80)}"
                    )
        return out
    if isinstance(value, list):
        out = [f"{path}: list of {len(value)}"]
        return out + (_shape(value[0], f"{path}[0]", depth + 1) if value and depth < 2 else [])
    return [f"{path}: {_short(json.dumps(value, ensure_ascii=False), 80)}"]


# ------------------------------------------------------------------------------------------------ tables, markup
def _table(_text: str, lines: list[str]) -> list[str]:
    rows = [line for line in lines[:50] if line.strip()]
    if len(rows) < 4:
        return []
    for delimiter, name in ((",", "comma"), ("\t", "tab"), (";", "semicolon"), ("|", "bar")):
        try:
            widths = {len(row) for row in csv.reader(rows, delimiter=delimiter)}
        except csv.Error:  # a field of more characters than any table has
            continue
        if len(widths) == 1 and widths.pop() > 2:
            columns = next(csv.reader(rows[:1], delimiter=delimiter))
            return [
                f"{name}-separated table with {len(columns)} columns",
                *map(_short, rows[:3]),
                f"… {_short(lines[-1])}",
            ]
    return []


def _markup(text: str, _lines: list[str]) -> list[str]:
    if not text[:_END_CHARS].lstrip().startswith("<"):
        return []
    tags = Counter(_TAG.findall(text, 0, _FIRST_CHARS + _LAST_CHARS))
    if sum(tags.values()) < 3:
        return []
    most = sorted(tags.items(), key=lambda item: (-item[1], item[0]))[:15]
    return ["elements: " + ", ".join(f"{name} × {count}" for name, count in most)]


# ------------------------------------------------------------------------------------------------ lines
def _log(_text: str, lines: list[str]) -> list[str]:
    head = lines[:200]
    if not head or sum(1 for line in head if _STAMP.match(line)) < len(head) // 2:
        return []
    return [f"from: {_short(lines[0])}", f"to: {_short(lines[-1])}", *_errors(lines, 8)]


def _code(_text: str, lines: list[str]) -> list[str]:
    found = [line for line in lines if len(line) < 400 and _OUTLINE.match(line)]
    if len(found) < 3:
        return []
    rest = [f"… {len(found) - 25} more definitions"] if len(found) > 25 else []
    return ["definitions:", *(_short(line, 100) for line in found[:25]), *rest]


def _errors(lines: list[str], most: int) -> list[str]:
    found = [line for line in lines if len(line) < 4000 and _tells_error(line)]
    if not found:
        return []
    head = f"lines that speak of errors: {len(found)}"
    return [head, *(_short(line) for line in (found if len(found) <= most else [*found[: most - 2], *found[-2:]]))]


def _tells_error(line: str) -> bool:
    """Does a line speak of an error, and not only to say that there was none?"""
    return bool(_ERROR.search(line) and _ERROR.search(NO_ERROR.sub("", line)))


def _plain(lines: list[str]) -> list[str]:
    headings = [_short(line, 100) for line in lines if line[:1] == "#" and len(line) < 400 and _HEADING.match(line)][
        :12
    ]
    told = [line for line in lines if line.strip()]
    out = [*map(_short, told[:5])]
    if headings:
        out += ["headings:", *headings]
    out += _errors(lines[5:], 4)
    if len(told) > 5:
        out += ["…", *map(_short, told[-2:])]
    return out


_LOOKS: tuple[tuple[str, Callable[[str, list[str]], list[str]]], ...] = (
    ("json", _json), ("table", _table), ("markup", _markup), ("log", _log), ("code", _code),
)  # fmt: skip
