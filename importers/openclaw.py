"""
Backfill from a lossless-claw (OpenClaw) database: raw messages under an explicit provenance, and its summaries on request.

Only reads the source. Nothing of OpenClaw's configuration or secrets is looked at; transcripts and tool payloads come over and
may hold what people keep to themselves. A row has only the text that its program searches: what was said is in the parts beside
it, and what was large in a file, which belongs back into its message.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import BadRequest
from ..ops import backup
from ..storage.files import Progress, silent
from ..storage.foreign import OPENCLAW, Foreign, Row, json_in
from .intake import Batches, Intake, Item, Taken
from .ledger import NODE, Ledger, Source
from .session_links import SessionLink, open_chain
from .summaries import NodeItem, NodesTaken, take_nodes

if TYPE_CHECKING:
    from ..recall.access import Access

KIND: Final = "lossless-claw"
NAMESPACE: Final = "openclaw-lcm"
IDENTITIES: Final = ("session_id", "session_key")
_NAME: Final = re.compile(r"[^\s:]+")
_READ: Final = frozenset(
    "conversations messages message_parts summaries summary_messages summary_parents context_items large_files".split()
)


@dataclass(frozen=True, slots=True)
class Mapped:
    """Map from conversations there to sessions here. ``import_id``: under this name nothing comes over twice."""

    agent: str = ""
    namespace: str = NAMESPACE
    identity: str = "session_id"
    import_id: str = ""
    summaries: bool = False

    def session(self, row: Mapping[str, Any]) -> str:
        """The session of a conversation: its provenance."""
        own = str(row.get(self.identity) or row.get("session_id") or row["conversation_id"])
        return ":".join([self.namespace, *(["agent", self.agent] if self.agent else []), own])


@dataclass(frozen=True, slots=True)
class ClawImport:
    """An import, planned or done. ``suppressed``: messages that were purged there; ``unread``: tables that stay there."""

    path: Path
    import_id: str
    sessions: tuple[str, ...]
    conversations: int
    taken: Taken = field(default_factory=Taken)
    nodes: NodesTaken = field(default_factory=NodesTaken)
    backup: Path | None = None
    suppressed: int = 0
    files: int = 0
    missing_files: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def run(deps: Access, path: Path, mapped: Mapped, *, apply: bool, progress: Progress = silent) -> ClawImport:
    """Look, or with ``apply`` take in what is not here yet, after a backup."""
    if mapped.identity not in IDENTITIES:
        raise BadRequest(f"--session-identity {mapped.identity!r}: expected one of {', '.join(IDENTITIES)}")
    for name, value in (("--agent", mapped.agent or "x"), ("--namespace", mapped.namespace)):
        if not _NAME.fullmatch(value):
            raise BadRequest(f"{name} {value!r}: expected a word without blanks and colons")
    with Foreign(path) as source:
        if source.kind.name != OPENCLAW:
            raise BadRequest(f"{path} is not a lossless-claw database (it is {source.kind.name})")
        return _Claw(deps, source, mapped, progress).run(apply=apply)


class _Claw:
    def __init__(self, deps: Access, source: Foreign, mapped: Mapped, progress: Progress) -> None:
        self._deps, self._source, self._mapped, self._progress = deps, source, mapped, progress
        self._files = LargeFiles(source)
        self._import_id = mapped.import_id or f"lossless-claw:{source.path.resolve()}"
        self._groups: dict[str, list[Row]] = {}
        for row in source.rows("SELECT * FROM conversations ORDER BY conversation_id"):
            self._groups.setdefault(mapped.session(row), []).append(row)

    def run(self, *, apply: bool) -> ClawImport:
        deps, there = self._deps, self._deps.db.exists
        ledger = Ledger(deps.db)
        known = ledger.find(self._import_id) if there else None
        taken = Taken()
        looking = self._intake(known)
        for name, rows in self._groups.items():
            session = deps.sessions.find(name) if there else None
            taken += looking.plan(session, self._batches(name, rows))
        nodes = self._wanted_nodes()
        waiting = len(nodes) - len(ledger.rows_by_source(known, NODE))
        if not apply or not (taken.added or waiting > 0):
            return self._result(taken, NodesTaken(max(0, waiting), len(nodes) - max(0, waiting)), None)
        kept = backup.back_up(deps, self._progress).path if there else None
        about = {"path": str(self._source.path), "agent": self._mapped.agent, "identity": self._mapped.identity}
        source = ledger.begin(self._import_id, KIND, about, now=deps.clock())
        intake, taken = self._intake(source), Taken()
        for name, rows in self._groups.items():
            facts = SessionLink(name, self._mapped.namespace, started_at=_moment(rows[0].get("created_at")))
            taken += intake.store_new(open_chain(deps, [facts]), self._batches(name, rows))
        done = take_nodes(deps, source, nodes, self._progress)
        ledger.finish(source, about, now=deps.clock())
        return self._result(taken, done, kept)

    def _intake(self, source: Source | None) -> Intake:
        total = int(self._source.one(f"SELECT count(*) FROM messages WHERE {self._shown('messages')}") or 0)
        return Intake(self._deps, source, total=total, keep_copies=True, progress=self._progress)

    def _result(self, taken: Taken, nodes: NodesTaken, kept: Path | None) -> ClawImport:
        count = sum(len(rows) for rows in self._groups.values())
        hidden = self._source.one(f"SELECT count(*) FROM messages WHERE NOT ({self._shown('messages')})")
        tables = (name for name in self._source.kind.tables if name not in _READ and "_fts" not in name)
        unread = tuple(name for name in tables if self._source.one(f'SELECT 1 FROM "{name}" LIMIT 1'))
        return ClawImport(
            self._source.path, self._import_id, tuple(self._groups), count, taken, nodes, kept, int(hidden or 0),
            len(self._files.used), tuple(sorted(self._files.missing)), unread,
        )  # fmt: skip

    def _shown(self, table: str) -> str:
        """Condition for the rows that were not purged there: a purge leaves them, and hides them from every reader."""
        return "suppressed_at IS NULL" if "suppressed_at" in self._source.columns(table) else "1"

    # -- messages -----------------------------------------------------------------------------------
    def _batches(self, name: str, conversations: Sequence[Row]) -> Batches:
        def batches() -> Iterator[list[Item]]:
            for conversation in conversations:
                sql = f"SELECT * FROM messages WHERE conversation_id = ? AND {self._shown('messages')} AND {{key}}"
                for rows in self._source.walk(sql, "seq", (conversation["conversation_id"],)):
                    parts = self._parts([row["message_id"] for row in rows])
                    yield [self._item(row, name, parts.get(row["message_id"], [])) for row in rows]

        return batches

    def _item(self, row: Row, session: str, parts: Sequence[Row]) -> Item:
        said, at = message(row, parts, self._files), _moment(row.get("created_at"))
        if at is not None:
            said["timestamp"] = at
        return Item(str(row["message_id"]), session, said, session, at)

    def _parts(self, ids: Sequence[Any]) -> dict[Any, list[Row]]:
        if "message_id" not in self._source.columns("message_parts"):
            return {}
        marks = ",".join("?" * len(ids))
        out: dict[Any, list[Row]] = {}
        for row in self._source.rows(
            f"SELECT * FROM message_parts WHERE message_id IN ({marks}) ORDER BY message_id, ordinal", ids
        ):
            out.setdefault(row["message_id"], []).append(row)
        return out

    # -- summaries ----------------------------------------------------------------------------------
    def _wanted_nodes(self) -> list[NodeItem]:
        if not self._mapped.summaries or "summary_id" not in self._source.columns("summaries"):
            return []
        names = {row["conversation_id"]: name for name, rows in self._groups.items() for row in rows}
        rows = self._source.rows(
            f"SELECT * FROM summaries WHERE {self._shown('summaries')} ORDER BY created_at, summary_id"
        )
        below = self._links("summary_messages", "message_id")
        above = self._links("summary_parents", "parent_summary_id") or self._links(
            "summary_parents", "child_id", "parent_id"
        )
        return [self._node(row, names.get(row["conversation_id"], ""), below, above) for row in rows]

    def _links(self, table: str, column: str, of: str = "summary_id") -> dict[str, list[str]]:
        """Sources of each summary, in order. A condensed summary calls what it was made of its parents.

        The port to Hermes (lossless-hermes-py) keeps no order, and calls the condensed one the parent.
        """
        out: dict[str, list[str]] = {}
        columns = self._source.columns(table)
        if {of, column} <= columns:
            order = "ordinal" if "ordinal" in columns else "rowid"
            for row in self._source.rows(f"SELECT * FROM {table} ORDER BY {of}, {order}"):
                out.setdefault(str(row[of]), []).append(str(row[column]))
        return out

    def _node(self, row: Row, session: str, below: Mapping[str, list[str]], above: Mapping[str, list[str]]) -> NodeItem:
        key = str(row["summary_id"])
        of_nodes = bool(above.get(key)) or (row.get("kind") == "condensed" and not below.get(key))
        sources = above.get(key, []) if of_nodes else below.get(key, [])
        depth = int(row.get("depth") or 0) or int(of_nodes)
        return NodeItem(
            key, depth, str(row["content"] or ""), tuple(sources), of_nodes, _moment(row.get("created_at")) or 0.0,
            tokens=int(row.get("token_count") or 0), model=str(row.get("model") or ""), session_id=session,
            fallback=tuple(self._around(row)) if not sources else (),
            files=tuple((name, self._files.used[name]) for name in self._named(row)),
        )  # fmt: skip

    def _named(self, row: Row) -> list[str]:
        """Files that a summary names and that are in a message now."""
        named = FILE_ID.findall(f"{row['content']} {row.get('file_ids') or ''}")
        return [name for name in dict.fromkeys(named) if name in self._files.used]

    def _around(self, row: Row) -> Iterator[str]:
        """Messages of its conversation and time, for a summary whose sources are not recorded."""
        early = str(row.get("earliest_at") or "0000-01-01")
        late = str(row.get("latest_at") or row.get("created_at") or "9999-12-31")
        sql = (  # its times are in ISO 8601, those of messages as SQLite writes them
            "SELECT message_id FROM messages WHERE conversation_id = ? AND datetime(created_at) BETWEEN datetime(?) AND "
            "datetime(?) ORDER BY seq LIMIT 30000"
        )
        yield from (str(each["message_id"]) for each in self._source.rows(sql, (row["conversation_id"], early, late)))


# -- pure ------------------------------------------------------------------------------------------------
def _moment(value: Any) -> float | None:
    """A time of SQLite (UTC, without a zone) or ISO 8601, as Unix seconds."""
    if isinstance(value, (int, float)):
        return float(value) / (1000 if value > 1e11 else 1)
    try:
        read = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


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

    def read(self, name: str, key: str) -> tuple[Row, bytes] | None:
        """A file's row and bytes, which message ``key`` shows: from where it was written, else from beside the database."""
        row = self._rows.get(name)
        if row is None:
            return None
        path = Path(str(row["storage_uri"]).removeprefix("file://"))
        for place in (path, self._beside / str(row.get("conversation_id")) / path.name):
            try:
                if place.stem == name:  # no database decides which other file is read
                    found = place.read_bytes()
                    self.used.setdefault(name, key)
                    return row, found
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
    file = files.read(name, key)
    if file is None:
        files.missing.add(name)
        yield text
        return
    row, said = file[0], file[1].decode("utf-8", "surrogateescape")
    parts = json_in(said, None) if row.get("mime_type") == "application/json" else None
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
        file = files.read(found[1], key)
        if file is None or found.start() < at:
            continue
        row, body = file
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
    read = json_in(value, None)
    return read if isinstance(read, str) else value


def _object(value: Any) -> Mapping[str, Any]:
    read = json_in(value, None) if isinstance(value, str) else None
    return read if isinstance(read, Mapping) else {}
