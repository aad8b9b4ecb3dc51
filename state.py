"""
The block of present state at the end of the context message.

Quoted words of the user, the task list as the host's own tool returned it last, and names of files: each with address and time;
no model writes any of it. Reads a bounded number of stored rows, so it costs the same in a conversation of a hundred messages as
in one of a hundred thousand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from .assemble import stamp
from .records import Flag, Row
from .store import MessageStore, Segment
from .text import markers, salience

_REQUEST_CHARS = 600
_DIRECTIVE_CHARS = 220
_DIRECTIVES = 8
_USER_ROWS = 60
_NEWEST = 8  # of the newest user messages some may be notes of the host
_CALL_ROWS = 40
_FILES = 8
_PATH_KEYS = ("path", "file_path", "file", "filename", "filepath")
_READ_CHARS = 4000
_LAST = 2**62
#: Of the task list, so many open and so many other items, each so long.
_OPEN_TASKS, _OTHER_TASKS, _TASK_CHARS = 20, 8, 200
_TODO_TOOL = "todo"
_TODO_ROWS = 2000  # how far back the host's task list is looked for
_TODO_CHARS = 512_000  # what the host itself takes back into its list
_SNAPSHOT_ITEM = re.compile(r"- \[([ >x~?])\] (\S{1,80})\. (.*) \((pending|in_progress|completed|cancelled)\)")
_OPEN = ("in_progress", "pending")
_NOT_SAID = Flag.HOST_NOTE | Flag.RETRACTED | Flag.IMPORTED | Flag.FILTERED


class Task(NamedTuple):
    """One item of the host's task list."""

    text: str
    status: str  # pending, in_progress, completed, cancelled


class PresentState:
    """What the user first and last asked, what they said must hold, what is still to do, which files were touched last."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def block(self, segments: Sequence[Segment], *, shown: Collection[int]) -> str:
        """The block for a prompt that shows these rows raw; "" when there is nothing to say."""
        raw = frozenset(shown)
        first = self._store.first_of(segments, role="user")
        newest = self._store.last_of(segments, role="user", before=_LAST, limit=_NEWEST)
        latest = next((row for row in newest if not row.head.flags & _NOT_SAID), None)
        users = self._store.last_of(segments, role="user", before=_LAST, limit=_USER_ROWS, without=raw)
        lines: list[str] = []
        if first is not None and first.store_id not in raw:
            lines.append(_request("first", first))
        if latest is not None and latest.store_id not in raw and (first is None or latest.store_id != first.store_id):
            lines.append(_request("latest", latest))
        elif latest is not None and latest.store_id in raw and lines:
            lines.append(f"- the user's latest request {_place(latest)} stands in full behind this record")
        said = [
            row for row in users if not row.head.flags & _NOT_SAID and (first is None or row.store_id != first.store_id)
        ]
        lines.extend(
            f"- the user said {_place(row)}: {_quoted(text, _DIRECTIVE_CHARS)}" for row, text in _standing(said)
        )
        lines.extend(self._tasks(segments))
        calls = self._store.last_of(segments, role="assistant", before=_LAST, limit=_CALL_ROWS, without=raw)
        if files := _files(calls):
            lines.append("- files touched most recently: " + ", ".join(f"{path} [msg_{at}]" for path, at in files))
        if not lines:
            return ""
        return "\n".join(["Words that may still hold (a later message of the user overrides them):", *lines])

    def _tasks(self, segments: Sequence[Segment]) -> list[str]:
        """The task list as it was told last, by the host's tool or by its note behind a compaction."""
        told = self._store.last_told(segments, tool=_TODO_TOOL, within=_TODO_ROWS)
        row = next((row for row in told if tasks_of(row)), None)
        tasks = tasks_of(row) if row is not None else ()
        if row is None or not tasks:
            return []
        # The host's note names open items only: what it does not name is not known to be finished.
        still = [task for status in _OPEN for task in tasks if task.status == status]
        lines = [f"- open tasks {_place(row)}: " + ("; ".join(map(_shown, still[:_OPEN_TASKS])) or "none")]
        if len(still) > _OPEN_TASKS:
            lines[0] += f"; and {len(still) - _OPEN_TASKS} more"
        for status, said in (("completed", "finished, not to be done again"), ("cancelled", "cancelled")):
            others = [task for task in tasks if task.status == status]
            if others:
                more = f"; and {len(others) - _OTHER_TASKS} more" if len(others) > _OTHER_TASKS else ""
                lines.append(f"- {said} {_place(row)}: " + "; ".join(map(_shown, others[-_OTHER_TASKS:])) + more)
        return lines


def tasks_of(row: Row) -> tuple[Task, ...]:
    """The host's task list in a stored message: a result of its tool, or the note that it adds behind a compaction."""
    if row.head.role == "tool":
        return _from_result(row.text)
    at = row.text.find(markers.TODO_HEAD)
    if at < 0:
        return ()
    found = (_SNAPSHOT_ITEM.fullmatch(line) for line in row.text[at:].splitlines()[1:])
    return tuple(Task(item[3], item[4]) for item in found if item)


def _from_result(text: str) -> tuple[Task, ...]:
    if len(text) > _TODO_CHARS or '"todos"' not in text:
        return ()
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    items = parsed.get("todos") if isinstance(parsed, dict) else None
    if not isinstance(items, list):
        return ()
    return tuple(
        Task(str(item.get("content") or ""), str(item.get("status") or "pending"))
        for item in items
        if isinstance(item, dict) and item.get("content")
    )


def _shown(task: Task) -> str:
    state = " (in progress)" if task.status == "in_progress" else ""
    return _quoted(task.text, _TASK_CHARS) + state


def _place(row: Row) -> str:
    """Address and time of a message."""
    return f"[msg_{row.store_id}, {stamp(row.head.said_at or row.head.stored_at)}]"


def _request(which: str, row: Row) -> str:
    return f"- the user's {which} request {_place(row)}: {_quoted(markers.typed(row.text), _REQUEST_CHARS)}"


def _standing(users: Iterable[Row]) -> list[tuple[Row, str]]:
    """Directives, rules that hold beyond the task at hand before others and newest first to be kept; shown oldest first."""
    found = [
        (row, text) for row in users for text in salience.directives(markers.typed(row.text[:_READ_CHARS]), limit=4)
    ]
    rules = [item for item in found if salience.is_standing(item[1])]
    others = [item for item in found if not salience.is_standing(item[1])]
    kept = [*rules[:_DIRECTIVES], *others[: max(0, _DIRECTIVES - len(rules))]]
    return sorted(kept, key=lambda item: item[0].store_id)


def _files(rows: Iterable[Row]) -> list[tuple[str, int]]:
    """Paths in the arguments of the newest tool calls with the message that named them last, most recent first."""
    out: dict[str, int] = {}
    for row in rows:
        for call in row.calls:
            for path in _paths(call.arguments):
                out.setdefault(path, row.store_id)
                if len(out) >= _FILES:
                    return list(out.items())
    return list(out.items())


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
