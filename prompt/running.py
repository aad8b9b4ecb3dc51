"""
What runs or holds beside the conversation: background processes, sub-agents, skills and instruction files that were loaded.

Pure; read from calls and results of the host's own tools, and from the notes with which it tells of an end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Final, NamedTuple

from ..records import Row
from ..text import markers
from .work_log import Entry, Step, quoted

_ENDED: Final = ("exited", "killed", "already_exited", "not_found")
_END_NOTE: Final = re.compile(
    r"Background process (\S{1,80}) (?:completed|exited|terminated|marked lost|failed to start|finished)"
)
_INSTRUCTION_FILES: Final = (
    "agents.md",
    "claude.md",
    "gemini.md",
    "skill.md",
    "hermes.md",
    ".hermes.md",
    ".cursorrules",
    "contributing.md",
)
_NAMED: Final = re.compile(r'has invoked the "([^"\n]{1,120})" skill')
_WHAT_CHARS: Final = 120


class Loaded(NamedTuple):
    """Instructions that the agent follows: name, the message that holds them, their text."""

    name: str
    store_id: int
    text: str


def processes(done: Sequence[Step], notes: Iterable[str]) -> list[Entry]:
    """Background processes that nothing says to have ended, oldest first."""
    running: dict[str, Entry] = {}
    for step in done:
        name = step.answer.get("session_id") or step.arguments.get("session_id")
        if not isinstance(name, str):
            continue
        if step.arguments.get("background") is True and not step.failed:
            command = quoted(str(step.arguments.get("command", "")), _WHAT_CHARS)
            running[name] = Entry(step.told, f"{command} as {name}")
        elif step.answer.get("status") in _ENDED or (step.arguments.get("action") == "kill" and not step.failed):
            running.pop(name, None)
    for note in notes:
        for name in _END_NOTE.findall(note):
            running.pop(name, None)
    return list(running.values())


def delegations(done: Sequence[Step], notes: Iterable[tuple[int, str]]) -> list[Entry]:
    """Sub-agents that were sent off and have not reported, oldest first. ``notes``: messages in the user's name."""
    sent = {
        str(step.answer["delegation_id"]): step
        for step in done
        if step.answer.get("status") == "dispatched" and step.answer.get("delegation_id")
    }
    back = {name for name, step in sent.items() for at, note in notes if at > step.told and name in note}
    return [
        Entry(step.told, f"{quoted(_goals(step), _WHAT_CHARS)} as {name}")
        for name, step in sent.items()
        if name not in back
    ]


def _goals(step: Step) -> str:
    goals = step.answer.get("goals")
    return "; ".join(map(str, goals)) if isinstance(goals, list) and goals else str(step.arguments.get("goal", ""))


def loaded(done: Sequence[Step], users: Iterable[Row]) -> list[Loaded]:
    """Skills and instruction files that were read, each as it was read last; oldest first."""
    found = [each for step in done if (each := _from_step(step)) is not None]
    found += [
        Loaded(match[1], row.store_id, row.text)
        for row in users
        if (match := _NAMED.search(row.text[:400])) and any(piece.kind == "skill" for piece in markers.pieces(row.text))
    ]
    return sorted(
        {each.name: each for each in sorted(found, key=lambda each: each.store_id)}.values(),
        key=lambda each: each.store_id,
    )


def _from_step(step: Step) -> Loaded | None:
    text = step.answer.get("content")
    if step.failed or not isinstance(text, str | None):
        return None
    if step.call.name == "skill_view" and text and not step.arguments.get("file_path"):
        return Loaded(str(step.answer.get("name") or step.arguments.get("name")), step.told, text)
    path = step.arguments.get("path")
    if (
        step.call.name.startswith("read")
        and isinstance(path, str)
        and PurePath(path).name.lower() in _INSTRUCTION_FILES
    ):
        return Loaded(path, step.told, text or step.text)
    return None
