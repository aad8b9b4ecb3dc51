"""
Taking conversations in from files: our own exports exactly, and transcripts of OpenAI messages (JSON or JSONL).

A dry run first, a backup before anything is written, and safe to repeat: what is there already is counted and left
alone, and an import that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..db.files import Progress, silent
from ..errors import BadRequest
from ..session import Session
from ..store import NewRow
from ..text import content
from . import backup
from .status import exists

if TYPE_CHECKING:
    from ..door import Door
    from .status import OpsDeps

SOURCE = "import"
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Line:
    """One message of a file, with what an export knows about it."""

    message: dict[str, Any]
    envelope: str | None = None
    session_id: str = ""
    seq: int = 0
    pos: float = 0
    stored_at: float | None = None
    source: str = SOURCE
    flags: int = 0
    old_id: int = 0
    revises: int | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """A file that was read: sessions in order, then messages in order."""

    sessions: tuple[dict[str, Any], ...]
    lines: tuple[Line, ...]
    exact: bool


@dataclass(frozen=True, slots=True)
class Imported:
    """``present``: messages that were there already; ``added``: those written now (or, in a dry run, to be written)."""

    sessions: tuple[str, ...]
    present: int
    added: int
    exact: bool
    backup: Path | None = None


# -- reading ---------------------------------------------------------------------------------------------
def read(path: Path) -> Transcript:
    """A file of either kind. Raises BadRequest with the line that cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="surrogatepass")
    except (OSError, UnicodeDecodeError) as exc:
        raise BadRequest(f"{path} cannot be read: {exc}") from exc
    items = list(_items(text, path))
    if items and isinstance(items[0][0].get("sessions"), list) and "lcm_export" in items[0][0]:
        return _export(items, path)
    name = f"import:{path.stem}"
    lines = tuple(
        Line(item, None, name, n, n) for n, (item, _) in enumerate((each for each in items if "role" in each[0]), 1)
    )
    if not lines:
        raise BadRequest(f"{path} holds no messages: expected objects with a role, as JSONL or as a JSON list")
    return Transcript(({"session_id": name},), lines, exact=False)


def _items(text: str, path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Objects with the text they were read from."""
    whole = text.lstrip()
    if whole.startswith("[") or (
        whole.startswith("{") and "\n" in whole.strip() and not _is_object(whole.split("\n", 1)[0])
    ):
        loaded = _json(text, path, 1)
        for item in loaded if isinstance(loaded, list) else loaded.get("messages") or []:
            if isinstance(item, dict):
                yield item, ""
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            item = _json(line, path, number)
            if not isinstance(item, dict):
                raise BadRequest(f"{path}, line {number}: expected an object")
            if isinstance(item.get("messages"), list) and "role" not in item:
                yield from ((each, "") for each in item["messages"] if isinstance(each, dict))
            else:
                yield item, line


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _json(text: str, path: Path, number: int) -> Any:
    try:
        return json.loads(text)
    except ValueError as exc:
        raise BadRequest(f"{path}, line {number}: {exc}") from exc


def _export(items: Sequence[tuple[dict[str, Any], str]], path: Path) -> Transcript:
    lines = []
    for number, (item, raw) in enumerate(items[1:], 2):
        try:
            envelope = raw[raw.index('"message": ') + len('"message": ') : -1]
            line = Line(
                content.decode(envelope), envelope, item["session_id"], item["seq"], item["pos"], item["stored_at"],
                item["source"], item["flags"], item["store_id"], item["revises"],
            )  # fmt: skip
        except (KeyError, ValueError) as exc:
            raise BadRequest(f"{path}, line {number}: not a line of an export ({exc})") from exc
        lines.append(line)
    expected = items[0][0].get("messages")
    if expected != len(lines) or [line.seq for line in lines] != list(range(1, len(lines) + 1)):
        raise BadRequest(f"{path} is not complete: {len(lines)} messages of {expected}")
    return Transcript(tuple(items[0][0]["sessions"]), tuple(lines), exact=True)


# -- taking in -------------------------------------------------------------------------------------------
def plan(deps: OpsDeps, path: Path) -> tuple[Transcript, Imported]:
    """What an import would add. Changes nothing."""
    if not deps.trusted:
        raise BadRequest("conversations are imported at the terminal: hermes lcm import <file>")
    found = read(path)
    names = tuple(str(each["session_id"]) for each in found.sessions)
    first = deps.sessions.find(names[0]) if exists(deps) else None
    present = deps.store.last_seq(first.conversation_id) if first else 0
    if present > len(found.lines) or not _same(deps, first, found.lines[:present]):
        raise BadRequest(f"{names[0]} is stored already with other messages; an import never mixes two conversations")
    return found, Imported(names, present, len(found.lines) - present, found.exact)


def _same(deps: OpsDeps, session: Session | None, lines: Sequence[Line]) -> bool:
    """Is what is stored under the session the beginning of the file?"""
    if session is None:
        return True
    sql = "SELECT seq, digest FROM messages WHERE conversation_id = ? ORDER BY seq"
    stored = [digest for _, digest in deps.db.query(sql, (session.conversation_id,))]
    return stored == [content.read(line.message).digest for line in lines]


def take_in(deps: OpsDeps, path: Path, progress: Progress = silent) -> Imported:
    """Import what is not there yet."""
    found, planned = plan(deps, path)
    if not planned.added:
        return planned
    made = backup.back_up(deps, progress).path if exists(deps) else None
    sessions = _sessions(deps, found)
    ids = _known_ids(deps, sessions, found.lines[: planned.present])
    done = planned.present
    now = deps.clock()
    for _, group in groupby(found.lines[done:], key=lambda line: (line.session_id, line.source, line.stored_at)):
        rows = list(group)
        for at in range(0, len(rows), _BATCH):
            part = rows[at : at + _BATCH]
            session = sessions[part[0].session_id]
            stored_at = part[0].stored_at
            new = deps.store.append(
                session.conversation_id, session.session_id, done, [_row(line, ids, deps.door) for line in part],
                source=part[0].source, now=now if stored_at is None else stored_at,
            )  # fmt: skip
            ids.update({line.old_id: store_id for line, store_id in zip(part, new, strict=True)})
            done += len(part)
            progress("storing", done, len(found.lines))
    return replace(planned, backup=made)


def _sessions(deps: OpsDeps, found: Transcript) -> dict[str, Session]:
    out: dict[str, Session] = {}
    before: Session | None = None
    for each in found.sessions:
        before = deps.sessions.open(
            str(each["session_id"]),
            now=float(each.get("started_at") or deps.clock()),
            platform=str(each.get("platform") or ""),
            host_key=each.get("host_key") or None,
            parent=before,
            origin="rotation" if before else "start",
            model=str(each.get("model") or ""),
        )
        out[before.session_id] = before
        if each.get("ended_at"):
            deps.sessions.end(before.session_id, now=float(each["ended_at"]), reason=str(each.get("end_reason") or ""))
    return out


def _known_ids(deps: OpsDeps, sessions: dict[str, Session], lines: Sequence[Line]) -> dict[int, int]:
    """Addresses of the file to those here, for messages that an interrupted import has stored."""
    conversation = next(iter(sessions.values())).conversation_id
    sql = "SELECT store_id FROM messages WHERE conversation_id = ? ORDER BY seq"
    return {line.old_id: row[0] for line, row in zip(lines, deps.db.query(sql, (conversation,)), strict=True)}


def _row(line: Line, ids: dict[int, int], door: Door | None) -> NewRow:
    message = content.read(line.message)
    if line.envelope is not None:
        message = replace(message, envelope=line.envelope)
    if door is not None:
        message = door.kept(message)
    return NewRow(
        message,
        pos=line.pos if line.pos != line.seq else None,
        revises=ids.get(line.revises) if line.revises is not None else None,
        flags=line.flags,
    )
