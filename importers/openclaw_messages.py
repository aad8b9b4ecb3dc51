"""
Messages of a lossless-claw database as they were said: its row, the parts beside it, and the files that parts of it went into.

A row has only the text that its program searches. The parts have what was said, and of some only a reference: what was large is a
file, which belongs back into its message. What has no place in a message of ours stays beside it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..storage.foreign import Foreign, Row

FILE_ID: Final = re.compile(r"\bfile_[0-9a-f]{16}\b")
#: Stands in a text for a file; a line and the file's summary may follow.
_REFERENCE: Final = re.compile(r"\[[^\[\]\n]*\b(file_[0-9a-f]{16})\b[^\[\]\n]*\]")
_HEADING: Final = re.compile(r"\n\n[^\n]{1,40}\n")
#: Where a provider's block keeps the text of a result.
_RESULTS: Final = ("output", "content", "result")

Piece = str | dict[str, Any]


class LargeFiles:
    """The files of a lossless-claw database. ``used``: the message that shows each; ``missing``: names without a file."""

    def __init__(self, source: Foreign) -> None:
        there = {"file_id", "storage_uri"} <= source.columns("large_files")
        rows = source.rows("SELECT * FROM large_files") if there else []
        self._rows = {str(row["file_id"]): row for row in rows}
        self._beside = source.path.parent / "lcm-files"
        self.used: dict[str, str] = {}
        self.missing: set[str] = set()

    def facts(self, name: str) -> Row | None:
        """Its name, type and summary."""
        return self._rows.get(name)

    def read(self, name: str, key: str) -> bytes | None:
        """The bytes of a file that message ``key`` shows: from where it was written, else from beside the database."""
        row = self._rows[name]
        path = Path(str(row["storage_uri"]).removeprefix("file://"))
        for place in (path, self._beside / str(row.get("conversation_id")) / path.name):
            try:
                if place.stem == name:  # no database decides which other file is read
                    found = place.read_bytes()
                    self.used.setdefault(name, key)
                    return found
            except OSError:
                continue
        self.missing.add(name)
        return None


def message(row: Row, parts: Sequence[Row], files: LargeFiles) -> dict[str, Any]:
    """A row as an OpenAI message; its parts stay with it as they were."""
    role, key = str(row["role"] or "unknown"), str(row["message_id"])
    abouts = [_object(part.get("metadata")) for part in parts]
    pieces = [piece for part, about in zip(parts, abouts, strict=True) for piece in _pieces(part, about, files, key)]
    text = str(row.get("content") or "")
    out: dict[str, Any] = {"role": role, "content": _content(pieces or list(_restored(text, files, key)))}
    if role == "assistant":
        calls = [_call(part) for part, about in zip(parts, abouts, strict=True) if _is_call(part, about)]
        if calls:
            out["tool_calls"] = calls
        said = [str(part["text_content"]) for part in parts if _is(part, "reasoning") and part.get("text_content")]
        if said:
            out["reasoning"] = "\n".join(said)
        apart = [about["topLevelReasoningContent"] for about in abouts if about.get("topLevelReasoningContent")]
        if apart:
            out["reasoning_content"] = str(apart[0])
    elif role == "tool":
        for name, there in (("tool_call_id", "toolCallId"), ("tool_name", "toolName")):
            found = (part.get(name) or about.get(there) for part, about in zip(parts, abouts, strict=True))
            if value := next(filter(None, found), None):
                out[name] = value
    if parts:
        out["lossless_claw"] = {
            "parts": [{name: value for name, value in part.items() if value not in (None, "")} for part in parts]
        }
    return out


# -- content ---------------------------------------------------------------------------------------------
def _pieces(part: Row, about: Mapping[str, Any], files: LargeFiles, key: str) -> Iterator[Piece]:
    """Texts and pictures of a part; nothing of thoughts and calls."""
    if _is(part, "reasoning") or about.get("emptyContentFallback") or _is_call(part, about):
        return
    raw = about.get("raw")
    if _is(part, "file"):
        picture = _picture(raw) if isinstance(raw, Mapping) else None
        if picture is not None:
            yield picture
            return
    text = part.get("text_content")
    if text is None and _is(part, "tool"):
        text = _result(part, raw)
    if not isinstance(text, str):
        return
    name = about.get("externalizedFileId")
    if name and not about.get("imageExternalized"):
        yield from _whole(str(name), text, files, key)
    else:
        yield from _restored(text, files, key)


def _content(pieces: Sequence[Piece]) -> Any:
    texts = [piece for piece in pieces if isinstance(piece, str)]
    if len(texts) == len(pieces):
        return "\n".join(texts)
    return [{"type": "text", "text": piece} if isinstance(piece, str) else piece for piece in pieces]


def _whole(name: str, text: str, files: LargeFiles, key: str) -> Iterator[Piece]:
    """Text, or list of parts, for which a reference stands that is all of a text."""
    row = files.facts(name)
    found = files.read(name, key) if row is not None else None
    if row is None or found is None:
        files.missing.add(name)
        yield text
        return
    said = found.decode("utf-8", "surrogateescape")
    parts = _loaded(said) if row.get("mime_type") == "application/json" else None
    if not isinstance(parts, list) or not all(isinstance(each, dict) for each in parts):
        yield said
        return
    for each in parts:
        picture = _picture(each)
        yield picture if picture is not None else str(each["text"]) if "text" in each else each


def _restored(text: str, files: LargeFiles, key: str) -> Iterator[Piece]:
    """A text with the files back that references in it stand for, pictures as parts of their own."""
    said, at = "", 0
    for found in _REFERENCE.finditer(text):
        row = files.facts(found[1])
        body = files.read(found[1], key) if row is not None else None
        if row is None or body is None or found.start() < at:
            continue
        said, at = said + text[at : found.start()], found.end()
        mime = str(row.get("mime_type") or "")
        if mime.startswith("image/"):
            if said:
                yield said
            said = ""
            yield _image(mime, base64.b64encode(body).decode())
            continue
        heading, summary = _HEADING.match(text, at), str(row.get("exploration_summary") or "").strip()
        if heading is not None and summary and text.startswith(summary, heading.end()):
            at = heading.end() + len(summary)
        facts = "".join(
            f' {name}="{row[of]}"' for name, of in (("name", "file_name"), ("mime", "mime_type")) if row.get(of)
        )
        said += f"<file{facts}>{body.decode('utf-8', 'surrogateescape')}</file>"
    if said or text[at:] or not at:
        yield said + text[at:]


def _picture(block: Mapping[str, Any]) -> dict[str, Any] | None:
    """A provider's block with a picture in it, as a part of ours."""
    inside = block.get("source") if isinstance(block.get("source"), Mapping) else block
    assert isinstance(inside, Mapping)
    data, mime = inside.get("data"), inside.get("mimeType") or inside.get("media_type")
    return _image(str(mime), data) if block.get("type") == "image" and isinstance(data, str) and mime else None


def _image(mime: str, data: str) -> dict[str, Any]:
    url = data if data.startswith("data:") else f"data:{mime};base64,{data}"
    return {"type": "image_url", "image_url": {"url": url}}


# -- tools -----------------------------------------------------------------------------------------------
def _is(part: Row, kind: str) -> bool:
    return part.get("part_type") == kind


def _is_call(part: Row, about: Mapping[str, Any]) -> bool:
    """Is it a call? Every kind of part may have an id of a call, also texts and thoughts; a result is a tool's part as well."""
    kind = str(about.get("originalRole") or "assistant")
    return _is(part, "tool") and kind == "assistant" and bool(part.get("tool_call_id"))


def _call(part: Row) -> dict[str, Any]:
    arguments = part.get("tool_input")
    return {
        "id": part["tool_call_id"],
        "type": "function",
        "function": {"name": str(part.get("tool_name") or ""), "arguments": _plain(arguments) or "{}"},
    }


def _result(part: Row, raw: Any) -> str | None:
    """The text of a tool's answer: beside the part, or in its block."""
    if part.get("tool_output") is not None:
        return _plain(part["tool_output"])
    found = (
        next((raw[name] for name in _RESULTS if raw.get(name) is not None), None) if isinstance(raw, Mapping) else None
    )
    if isinstance(found, list) and all(
        isinstance(each, Mapping) and isinstance(each.get("text"), str) for each in found
    ):
        return "\n".join(each["text"] for each in found)
    return found if isinstance(found, str) or found is None else json.dumps(found, ensure_ascii=False)


def _plain(value: Any) -> str | None:
    """A value that is stored as JSON: a text as itself, anything else as JSON."""
    if not isinstance(value, str):
        return None if value is None else json.dumps(value, ensure_ascii=False)
    read = _loaded(value)
    return read if isinstance(read, str) else value


def _object(value: Any) -> Mapping[str, Any]:
    read = _loaded(value) if isinstance(value, str) else None
    return read if isinstance(read, Mapping) else {}


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
