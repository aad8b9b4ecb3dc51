"""
The text that stands in a prompt for messages that an agent archived, and the few lines it shows of them.

Pure. The format is that of the memory tool's specification; everything in it is one line, so that a text which was archived
cannot look like a placeholder of its own.
"""

from __future__ import annotations

import re
from typing import Final

_BLANKS = re.compile(r"\s+")
_SUMMARY_CHARS: Final = 140
_MOST_SUMMARY_CHARS: Final = 4000
_CUT: Final = "...(truncated)"
LEAST_PREVIEW, MOST_PREVIEW, PREVIEW = 40, 400, 200


def render(
    handle: str, first: int, last: int, *, messages: int, chars: int, tokens: int, summary: str, preview: str
) -> str:
    """The whole placeholder; ``first`` to ``last`` is the range of the live list, both included."""
    facts = f"handle={handle} range={first}..{last} messages={messages} chars={chars} tokens={tokens}"
    return f"[[memory archived {facts}]]\nSummary: {line(summary)}\nPreview: {line(preview)}"


def heuristic(first_text: str, messages: int) -> str:
    """A summary that nobody wrote: the first line that says something, and how much there is."""
    said = next((each.strip() for each in first_text.splitlines() if each.strip()), "(no text)")
    said = said if len(said) <= _SUMMARY_CHARS else said[: _SUMMARY_CHARS - 1] + "…"
    return f"{said} ({messages} msgs)"


def given(summary: str) -> str:
    """What the agent wrote, as one line of bearable length."""
    text = line(summary)
    return text if len(text) <= _MOST_SUMMARY_CHARS else text[: _MOST_SUMMARY_CHARS - len(_CUT)] + _CUT


def preview(lines: list[tuple[str, str]], most_chars: int) -> str:
    """How the range begins: role and words, at most so many characters."""
    most = max(LEAST_PREVIEW, min(MOST_PREVIEW, most_chars))
    text = " ".join(f"{role.capitalize()}: {line(said[: most + 20])}" for role, said in lines if said.strip())
    return text if len(text) <= most else text[:most] + _CUT


def line(text: str) -> str:
    """A text on one line; double brackets in it do not open or close a placeholder."""
    return _BLANKS.sub(" ", text).replace("[[", "[ [").replace("]]", "] ]").strip()
