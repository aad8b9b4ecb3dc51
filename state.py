"""
The block of present state at the end of the context message.

Quoted words of the user and names of files, each with its address; no model writes any of it. Reads a bounded number
of stored rows, so it costs the same in a conversation of a hundred messages as in one of a hundred thousand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from .records import Flag, Row
from .store import MessageStore, Segment
from .text import markers, salience

_FIRST_CHARS = 400
_DIRECTIVE_CHARS = 220
_DIRECTIVES = 8
_USER_ROWS = 60
_CALL_ROWS = 40
_FILES = 8
_PATH_KEYS = ("path", "file_path", "file", "filename", "filepath")
_READ_CHARS = 4000


class PresentState:
    """What the user first asked, what they said must hold, which files were touched last."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def block(self, segments: Sequence[Segment], *, before: int) -> str:
        """The block for a prompt whose raw tail begins at store id ``before``; "" when there is nothing to say."""
        lines: list[str] = []
        first = self._store.first_of(segments, role="user")
        users = self._store.last_of(segments, role="user", before=before, limit=_USER_ROWS)
        if first is not None and first.store_id < before:
            lines.append(f"- the user's first request [msg_{first.store_id}]: {_quoted(markers.typed(first.text), _FIRST_CHARS)}")
        lines.extend(
            f"- the user said [msg_{row.store_id}]: {_quoted(sentence, _DIRECTIVE_CHARS)}"
            for row, sentence in _standing(users, first)
        )
        files = _files(self._store.last_of(segments, role="assistant", before=before, limit=_CALL_ROWS))
        if files:
            lines.append("- files touched most recently: " + ", ".join(files))
        return (
            "\n".join(["Words that may still hold (a later message of the user overrides them):", *lines])
            if lines
            else ""
        )


def _standing(users: Iterable[Row], first: Row | None) -> list[tuple[Row, str]]:
    """Directives, newest of the user's messages first to be kept, shown oldest first."""
    found: list[tuple[Row, str]] = []
    for row in users:  # newest first
        if row.head.flags & (Flag.HOST_NOTE | Flag.RETRACTED) or (first is not None and row.store_id == first.store_id):
            continue
        found.extend((row, sentence) for sentence in salience.directives(markers.typed(row.text[:_READ_CHARS]), limit=2))
        if len(found) >= _DIRECTIVES:
            break
    return found[:_DIRECTIVES][::-1]


def _files(rows: Iterable[Row]) -> list[str]:
    """Paths in the arguments of the newest tool calls, most recent first."""
    out: dict[str, None] = {}
    for row in rows:
        for call in row.calls:
            for path in _paths(call.arguments):
                out.setdefault(path)
                if len(out) >= _FILES:
                    return list(out)
    return list(out)


def _paths(arguments: str) -> list[str]:
    if len(arguments) > _READ_CHARS or not arguments.lstrip().startswith("{"):
        return []
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return []
    found = (parsed.get(key) for key in _PATH_KEYS) if isinstance(parsed, dict) else ()
    return [path for path in found if isinstance(path, str) and 0 < len(path) < 200 and "\n" not in path]


def _quoted(text: str, limit: int) -> str:
    flat = " ".join(text.split())
    return f"“{flat[:limit]}…”" if len(flat) > limit else f"“{flat}”"
