"""
Files with conversations: our own exports, and transcripts of OpenAI messages (JSON or JSONL).

Reads and checks; what becomes of it is ``importers``' business. A file that cannot be read says in which line, and what is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..errors import BadRequest
from ..text import content

#: Newest format of an export that is understood.
FORMAT: Final = 2
SOURCE: Final = "import"
_SHOWN: Final = 60
_WANTED: Final = 'an object with a "role", as JSONL, as a JSON list, or as {"messages": [...]}'


@dataclass(frozen=True, slots=True)
class Line:
    """One message of a file, with what an export knows about it. ``repeats``: the message that it is a duplicate of."""

    message: dict[str, Any]
    stored_json: str | None = None
    session_id: str = ""
    seq: int = 0
    pos: float = 0
    stored_at: float | None = None
    source: str = SOURCE
    flags: int = 0
    old_id: int = 0
    revises: int | None = None
    repeats: int | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """Sessions in order, then messages in order.

    A branch: ``parent`` is the place of its parent in the file, ``cut`` how much of it counts, ``without`` what was gone by then.
    """

    sessions: tuple[Mapping[str, Any], ...]
    lines: tuple[Line, ...]
    parent: int | None = None
    fork_seq: int | None = None
    cut: tuple[int, float] | None = None
    without: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class File:
    """Conversations, ancestors first. ``exact``: an export of ours."""

    path: Path
    conversations: tuple[Conversation, ...]
    exact: bool


def read_file(path: Path) -> File:
    """A file of either kind. Raises BadRequest with the line that cannot be read, and what it holds."""
    try:
        text = path.read_text(encoding="utf-8", errors="surrogatepass")
    except OSError as exc:
        raise BadRequest(f"{path} cannot be read: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise BadRequest(f"{path} is not text in UTF-8 (byte {exc.start}); save it as UTF-8, then import it") from exc
    first = text.lstrip("\ufeff \t\r\n").split("\n", 1)[0]
    head = _object(first)
    if head is not None and "lcm_export" in head:
        return _export(path, head, text.split("\n")[1:])
    name = f"import:{path.stem}".encode("utf-8", "backslashreplace").decode()  # a name that is not text, too
    found = [lines for lines in _conversations(path, text.lstrip("\ufeff")) if lines]
    if not found:
        raise BadRequest(f"{path} holds no messages: expected {_WANTED}")
    names = [name] if len(found) == 1 else [f"{name}:{n}" for n in range(1, len(found) + 1)]
    return File(path, tuple(map(_transcript, names, found)), exact=False)


def _transcript(name: str, messages: Sequence[dict[str, Any]]) -> Conversation:
    lines = tuple(Line(message, None, name, n, n) for n, message in enumerate(messages, 1))
    return Conversation(({"session_id": name},), lines)


# -- transcripts -----------------------------------------------------------------------------------------
def _conversations(path: Path, text: str) -> Iterable[list[dict[str, Any]]]:
    """Message lists: a JSON document is one of them; of JSONL, each line with ``messages`` is, and all other lines together."""
    whole = text.strip()
    if whole.startswith("[") or (whole.startswith("{") and _object(whole.split("\n", 1)[0]) is None):
        try:
            loaded = json.loads(whole)
        except ValueError as exc:
            raise BadRequest(f"{path}: no JSON document ({exc})") from exc
        return [_messages(path, loaded, "")]
    single: list[dict[str, Any]] = []
    out = [single]
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except ValueError as exc:
            why = getattr(exc, "msg", exc)
            raise BadRequest(f"{path}, line {number}: {_short(line)} is not JSON ({why}); expected {_WANTED}") from exc
        if isinstance(item, dict) and "role" not in item and "messages" in item:
            out.append(_messages(path, item, f", line {number}"))
        else:
            single.append(_message(item, f"{path}, line {number}"))
    return out


def _messages(path: Path, loaded: Any, where: str) -> list[dict[str, Any]]:
    items = loaded.get("messages") if isinstance(loaded, dict) and "role" not in loaded else [loaded]
    items = loaded if isinstance(loaded, list) else items
    if not isinstance(items, list):
        raise BadRequest(f"{path}{where}: {_short(json.dumps(loaded))} has no list of messages; expected {_WANTED}")
    return [_message(item, f"{path}{where}, message {n}") for n, item in enumerate(items, 1)]


def _message(item: Any, where: str) -> dict[str, Any]:
    if not isinstance(item, dict) or not isinstance(item.get("role"), str) or not item["role"]:
        raise BadRequest(
            f"{where}: {_short(json.dumps(item, ensure_ascii=False))} is not a message; expected {_WANTED}"
        )
    return item


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _object(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


# -- exports ---------------------------------------------------------------------------------------------
def _export(path: Path, head: Mapping[str, Any], raw: Sequence[str]) -> File:
    version = head["lcm_export"]
    if not isinstance(version, int) or not 1 <= version <= FORMAT:
        raise BadRequest(
            f"{path}, line 1: an export of format {version!r}; this release reads 1 to {FORMAT}: update the plugin"
        )
    about = head.get("conversations") or [{"sessions": head.get("sessions"), "rows": head.get("messages")}]
    numbered = [(n, line) for n, line in enumerate(raw, 2) if line]
    expected = sum(int(each.get("rows") or 0) for each in about)
    if expected != len(numbered):
        raise BadRequest(f"{path} is not complete: {len(numbered)} messages of {expected}")
    out: list[Conversation] = []
    at = 0
    for each in about:
        part = numbered[at : at + int(each.get("rows") or 0)]
        at += len(part)
        out.append(_conversation(path, each, tuple(_line(path, n, line) for n, line in part)))
    return File(path, tuple(out), exact=True)


def _conversation(path: Path, about: Mapping[str, Any], lines: tuple[Line, ...]) -> Conversation:
    sessions = about.get("sessions")
    if not isinstance(sessions, list) or not sessions or not all(isinstance(each, dict) for each in sessions):
        raise BadRequest(f"{path}, line 1: {_short(json.dumps(about))} names no sessions")
    names = {str(each.get("session_id")) for each in sessions}
    stray = next((line for line in lines if line.session_id not in names), None)
    if stray is not None:
        raise BadRequest(
            f"{path}: message {stray.old_id} belongs to session {stray.session_id!r}, which line 1 does not name"
        )
    cut = about.get("cut")
    return Conversation(
        tuple(sessions), lines, about.get("parent"), about.get("fork_seq"), (int(cut[0]), float(cut[1])) if cut else None,
        tuple(about.get("without") or ()),
    )  # fmt: skip


def _line(path: Path, number: int, raw: str) -> Line:
    try:
        item = json.loads(raw)
        stored_json = raw[raw.index('"message": ') + len('"message": ') : -1]
        return Line(
            content.decode(stored_json), stored_json, item["session_id"], item["seq"], item["pos"], item["stored_at"],
            item["source"], item["flags"], item["store_id"], item["revises"], item.get("repeats"),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as exc:
        raise BadRequest(f"{path}, line {number}: {_short(raw)} is not a line of an export ({exc})") from exc
