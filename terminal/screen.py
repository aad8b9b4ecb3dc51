"""
Text on a terminal: lines that fit its width, and a pager for what is longer than the screen.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import unicodedata
from collections.abc import Mapping
from typing import Final

_LEAST_COLUMNS: Final = 40
_GAP: Final = re.compile(r" {2,}(?=\S)")
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;]*m")


def columns(text: str) -> int:
    """Columns that a line takes: wide letters take two, colours and combining marks none."""
    plain = _ESCAPE.sub("", text)
    if plain.isascii():
        return len(plain)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in plain)
    return len(plain) + wide - sum(bool(unicodedata.combining(char)) for char in plain)


def clipped(line: str, width: int) -> str:
    """A line of at most ``width`` columns, with a mark where its end is left out."""
    if columns(line) <= width:
        return line
    at = width - 1
    while columns(line[:at]) >= width:
        at -= 1
    return f"{line[:at]}…"


def fitted(text: str, width: int) -> str:
    """Lines of at most ``width`` columns. The rest of a long line goes on below its last column; a long word stays whole."""
    if width < _LEAST_COLUMNS:
        return text
    return "\n".join(part for line in text.split("\n") for part in _broken(line, width))


def _broken(line: str, width: int) -> list[str]:
    out: list[str] = []
    indent = ""
    while columns(line) > width:
        indent = indent or " " * _hang(line, width)
        at = _cut(line, width, len(indent))
        if at <= 0:
            break
        out.append(line[:at].rstrip())
        line = indent + line[at:].lstrip()
    return [*out, line]


def _hang(line: str, width: int) -> int:
    """Indent of a line's rest: its last column of a table in the first half, or a step behind its own begin."""
    gaps = [found.end() for found in _GAP.finditer(line) if found.end() <= width // 2]
    start = len(line) - len(line.lstrip())
    return gaps[-1] if gaps and gaps[-1] > start else min(start + 2, width // 2)


def _cut(line: str, width: int, least: int) -> int:
    """Place of the last blank that still fits, or of the first one behind; 0 where there is none."""
    end, used = 0, 0
    for end, char in enumerate(line):  # noqa: B007  - the place is what is looked for
        used += columns(char)
        if used > width:
            break
    at = line.rfind(" ", least + 1, end + 1)
    return at if at > 0 else line.find(" ", max(end, least + 1))


def paged(text: str, pager: tuple[str, ...], environment: Mapping[str, str]) -> bool:
    """Show a text that is longer than the screen with a pager. False where none was needed, wanted or found."""
    size = shutil.get_terminal_size()
    lines = sum(max(1, -(-columns(line) // size.columns)) for line in text.split("\n"))
    if not pager or lines < size.lines or shutil.which(pager[0]) is None:
        return False
    with subprocess.Popen(pager, stdin=subprocess.PIPE, env=dict(environment)) as process:  # noqa: S603  - the user's own
        try:
            process.communicate(f"{text}\n".encode("utf-8", "replace"))
        except (BrokenPipeError, KeyboardInterrupt):
            pass  # the pager was left before its end
    return True
