"""
Instructions that the agent follows: skills, and instruction files that are known to speak to it.

Pure. A skill that the host's own tool or the user loaded is followed. An instruction file that was merely read is one only with
evidence: it lies in the working directory or above it, or in a folder below which the agent changed a file, or the user told the
agent to follow it. Of a clone that was looked at, of a dependency and of a place that nobody knows nothing is followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from posixpath import basename, dirname, join, normpath
from typing import Final, NamedTuple

from ..records import Row
from ..text import markers, others, salience
from .work_log import Step, changed

SKILL_TOOL: Final = "skill_view"
_FILES: Final = frozenset(
    ("agents.md", "claude.md", "gemini.md", "skill.md", "hermes.md", ".hermes.md", ".cursorrules", "contributing.md")
)
#: Folders of other people's code: what its authors tell their agents is told to nobody here.
_OF_OTHERS: Final = frozenset(
    ("node_modules", "site-packages", "dist-packages", "vendor", "third_party", ".venv", "venv")
)
_NAMED: Final = re.compile(r'has invoked the "([^"\n]{1,120})" skill')
_CD: Final = re.compile(r"(?:\A|[;&\n])[ \t]*cd[ \t]+(?:--[ \t]+)?(?P<quote>[\"']?)(?P<folder>[^\s\"';&|]+)(?P=quote)")
_UP: Final = re.compile(r"\.\.(?:/\.\.)*")
_UNKNOWN: Final = "?"  # folder, of which nothing is known
_AROUND: Final = "\"'`()<>,:;!@*"
_READ_CHARS: Final = 4000
#: In front of each line that the host's own tool reads.
_NUMBER: Final = re.compile(r"^[ \t]*\d{1,6}\|", re.MULTILINE)


class Loaded(NamedTuple):
    """Instructions that the agent follows: name, the message that holds them, their text."""

    name: str
    store_id: int
    text: str


def loaded(done: Sequence[Step], users: Iterable[Row]) -> list[Loaded]:
    """Skills and instruction files that are followed, each as it was read last; oldest first."""
    said = list(users)
    found = [each for step in done if (each := _skill(step)) is not None]
    found += [
        Loaded(match[1], row.store_id, row.text)
        for row in said
        if (match := _NAMED.search(row.text[:400])) and any(piece.kind == "skill" for piece in markers.pieces(row.text))
    ]
    found += _files(done, said)
    last = {each.name: each for each in sorted(found, key=lambda each: each.store_id)}
    return sorted(last.values(), key=lambda each: each.store_id)


def _skill(step: Step) -> Loaded | None:
    text = step.answer.get("content")
    if step.failed or step.call.name != SKILL_TOOL or step.arguments.get("file_path"):
        return None
    name = str(step.answer.get("name") or step.arguments.get("name"))
    return Loaded(name, step.told, text) if isinstance(text, str) and text else None


def _files(done: Sequence[Step], users: Sequence[Row]) -> list[Loaded]:
    """Instruction files that were read, and are followed."""
    here, read, worked = "", list[tuple[str, Loaded]](), set[str]()
    for step in done:
        command = step.arguments.get("command")
        for match in _CD.finditer(command[:_READ_CHARS] if isinstance(command, str) else ""):
            here = _UNKNOWN if match["folder"] == "-" else join(here, match["folder"])
        each = _file(step)
        if each is not None:
            read.append((normpath(join(here, each.name)), each))
        worked |= {normpath(join(here, path)) for path in _written(step)}
    return [each for path, each in read if _is_ours(path, worked) or _is_told(path, each.store_id, users)]


def _file(step: Step) -> Loaded | None:
    path, text = step.arguments.get("path"), step.answer.get("content")
    if step.failed or not isinstance(path, str) or not isinstance(text, str | None):
        return None
    if not step.call.name.startswith("read") or basename(path).lower() not in _FILES:
        return None
    return Loaded(path, step.told, _NUMBER.sub("", text or step.text))


def _written(step: Step) -> list[str]:
    """Files that a step changed, as it named them and as the host found them."""
    if step.failed:
        return []
    named = [path for path, operation in changed(step) if operation in ("written", "edited")]
    told = step.answer.get("files_modified") if named else None
    return named + [path for path in told if isinstance(path, str)] if isinstance(told, list) else named


def _is_ours(path: str, worked: Iterable[str]) -> bool:
    """Does it lie where the agent works: in the working directory or above, or above a file that it changed?"""
    folder = dirname(path)
    if not _OF_OTHERS.isdisjoint(PurePath(path).parts):
        return False
    if not folder or _UP.fullmatch(folder):
        return True
    return any(each != path and each.startswith(f"{folder.rstrip('/')}/") for each in worked)


def _is_told(path: str, at: int, users: Iterable[Row]) -> bool:
    """Did the user tell the agent to follow it: by its path, or by its name in the request that it was read for?"""
    before = [row for row in users if row.store_id < at]
    return any(
        path == word or (word and f"/{path}".endswith(f"/{word}") and ("/" in word or row is before[-1]))
        for row in before
        for sentence in salience.sentences(markers.typed(row.text)[:_READ_CHARS])
        if others.adopts(sentence)
        for word in (each.strip(_AROUND).rstrip(".").removeprefix("./") for each in sentence.split())
    )
