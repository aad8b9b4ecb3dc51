"""
Reading a database of the earlier hermes-lcm plugin (its schema 5): messages, summary nodes, lifecycle, payload files.

Only reads. What that plugin put into files (tool output, data URIs) is put back into the messages that refer to it, so that each
is again what was said. Columns that are missing in older files are done without; unknown ones are kept with the message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..records import Flag
from ..storage.foreign import Foreign, Row, json_in
from .intake import Item
from .session_links import SessionLink
from .summaries import NodeItem

#: Where that plugin keeps its payload files, beside its database.
PAYLOAD_FOLDERS: Final = ("lcm-large-outputs", "lcm_large_outputs", "lcm-externalized", "lcm-externalized-payloads")
_KNOWN: Final = frozenset(
    "store_id session_id source role content tool_call_id tool_calls tool_name timestamp token_estimate pinned".split()
)
_BODIES: Final = ("content", "payload", "text", "data")
#: LCM-X shows words of the payload in it, 512 characters in all.
_PLACEHOLDER: Final = re.compile(r"\[[^\[\]\n]{0,512}?\bref=([\w.:-]+)[^\[\]\n]{0,200}\]")
_REF: Final = re.compile(r"\bref=([\w.:-]+)")
_MISSING_LOOK: Final = re.compile(r"externali[sz]ed", re.IGNORECASE)
_PARTS: Final = frozenset("text image image_url input_text input_image input_audio file audio output_text".split())
_SUMMARY: Final = re.compile(
    r"\s*\[(?:CONTEXT (?:COMPACTION|SUMMARY)|PRIOR CONTEXT|Note: This conversation uses (?:Lossless|LCM)|LCM\b|"
    r"(?:Recent Summary|Session Arc|Durable\b|Summary)[^\]\n]{0,60}\bd\d)"
)
_MOST_FALLBACK: Final = 30_000


def looks_like_summary(role: str, content: object) -> bool:
    """Did an engine (that plugin's, or the host's own) put this in front of a list?"""
    return role in ("user", "assistant", "system") and isinstance(content, str) and bool(_SUMMARY.match(content))


@dataclass(slots=True)
class OldPayloads:
    """The payload files beside the old database. ``used``: the row that shows each; ``missing``: names without a file."""

    folders: tuple[Path, ...]
    used: dict[str, str] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)

    def files(self) -> dict[str, Path]:
        """All of them by name."""
        return {path.name: path for folder in self.folders for path in sorted(folder.glob("*.json"))}

    def loaded(self, name: str) -> tuple[str, dict[str, Any]] | None:
        """A file by its name, with or without its ending, and what it holds."""
        for path in (each for folder in self.folders for each in (folder / name, folder / f"{name}.json")):
            try:
                found = json.loads(path.read_text(encoding="utf-8", errors="surrogatepass"))
            except (OSError, ValueError):
                continue
            return path.name, found if isinstance(found, dict) else {"content": found}
        return None

    def restored(self, text: str, key: str) -> str:
        """A text of row ``key`` with what its placeholders stand for; those without a file stay."""
        if "ref=" not in text:
            return text

        def put_back(found: re.Match[str]) -> str:
            file = self.loaded(found[1])
            body = (
                next((file[1][part] for part in _BODIES if isinstance(file[1].get(part), str)), None) if file else None
            )
            if file is None or body is None:
                if _MISSING_LOOK.search(found[0]):
                    self.missing.add(found[1])
                return found[0]
            self.used.setdefault(file[0], key)
            return str(body)

        return _PLACEHOLDER.sub(put_back, text)

    def restored_in(self, value: Any, key: str) -> Any:
        """A value of row ``key`` with every text in it restored: as JSON, what is put back would have to be escaped."""
        if isinstance(value, str):
            return self.restored(value, key)
        if isinstance(value, list):
            return [self.restored_in(each, key) for each in value]
        if isinstance(value, dict):
            return {name: self.restored_in(each, key) for name, each in value.items()}
        return value


class Earlier:
    """One database of the earlier plugin."""

    def __init__(self, source: Foreign, payloads: OldPayloads) -> None:
        self._db = source
        self.payloads = payloads
        self._spans: dict[str, tuple[int, int]] = {}

    @property
    def version(self) -> int | None:
        """The number of its schema, where it says one."""
        for table in ("metadata", "lcm_metadata", "meta"):
            if {"key", "value"} <= self._db.columns(table):
                found = self._db.one(f"SELECT value FROM {table} WHERE key = 'schema_version'")
                if found is not None and str(found).isdigit():
                    return int(found)
        return int(self._db.one("PRAGMA user_version") or 0) or None

    def counts(self) -> dict[str, int]:
        """Messages, sessions, and nodes."""
        return {
            "messages": int(self._db.one("SELECT count(*) FROM messages")),
            "sessions": int(self._db.one("SELECT count(DISTINCT session_id) FROM messages")),
            "nodes": int(self._db.one("SELECT count(*) FROM summary_nodes") or 0) if self._has_nodes else 0,
        }

    @property
    def _has_nodes(self) -> bool:
        return {"node_id", "summary"} <= self._db.columns("summary_nodes")

    # -- sessions -----------------------------------------------------------------------------------
    def sessions(self, known: Mapping[str, SessionLink]) -> list[SessionLink]:
        """Its sessions, oldest first. ``known``: what the host's own database knows of them."""
        source = "max(coalesce(source, ''))" if "source" in self._db.columns("messages") else "''"
        when = "min(timestamp)" if "timestamp" in self._db.columns("messages") else "NULL"
        rows = self._db.rows(
            f"SELECT session_id, min(store_id) AS first, max(store_id) AS last, {source} AS source, {when} AS began "
            "FROM messages GROUP BY session_id ORDER BY first"
        )
        self._spans = {str(row["session_id"]): (row["first"], row["last"]) for row in rows}
        keys = self._host_keys()
        names = {str(row["session_id"]) for row in rows}
        out = []
        for row in rows:
            name = str(row["session_id"])
            facts = known.get(name)
            if facts is None:
                platform = str(row["source"] or "").strip() or "unknown"
                facts = SessionLink(name, platform, keys.get(name, ""), started_at=_number(row["began"]))
            out.append(facts)
        orphans = sorted(self._node_sessions() - names)
        return [*out, *(known.get(name) or SessionLink(name, "unknown", keys.get(name, "")) for name in orphans)]

    def _host_keys(self) -> dict[str, str]:
        """The gateway's key of a session, where the lifecycle tells one."""
        columns = self._db.columns("lcm_lifecycle_state")
        out: dict[str, str] = {}
        for column in ("last_finalized_session_id", "current_session_id"):
            if {"conversation_id", column} <= columns:
                for row in self._db.rows(f"SELECT conversation_id AS key, {column} AS name FROM lcm_lifecycle_state"):
                    if row["name"] and ":" in str(row["key"]) and row["key"] != row["name"]:
                        out[str(row["name"])] = str(row["key"])
        return out

    def _node_sessions(self) -> set[str]:
        if not self._has_nodes or "session_id" not in self._db.columns("summary_nodes"):
            return set()
        return {str(row["name"]) for row in self._db.rows("SELECT DISTINCT session_id AS name FROM summary_nodes")}

    # -- messages -----------------------------------------------------------------------------------
    def messages(self, sessions: Sequence[str]) -> Iterator[list[Item]]:
        """The rows of some sessions, in the order in which they were stored."""
        marks = ",".join("?" * len(sessions))
        spans = [self._spans[name] for name in sessions if name in self._spans]
        if not spans:
            return
        span = (min(first for first, _ in spans), max(last for _, last in spans))
        sql = f"SELECT * FROM messages WHERE session_id IN ({marks}) AND store_id BETWEEN ? AND ? AND {{key}}"
        for rows in self._db.walk(sql, "store_id", (*sessions, *span)):
            yield [self.item(row) for row in rows]

    def item(self, row: Row) -> Item:
        """One row as the message that it was."""
        role = str(row["role"] or "unknown")
        text = row.get("content")
        message: dict[str, Any] = {"role": role, "content": self._content(role, text, str(row["store_id"]))}
        calls = row.get("tool_calls")
        if calls:
            message["tool_calls"] = self.payloads.restored_in(json_in(str(calls), calls), str(row["store_id"]))
        for name in ("tool_call_id", "tool_name"):
            if row.get(name):
                message[name] = row[name]
        at = _number(row.get("timestamp"))
        said_at = _number(row.get("observed_at"))  # LCM-X: when the host says that it was, not when it was stored
        if said_at is not None or at is not None:
            message["timestamp"] = at if said_at is None else said_at
        more = {name: value for name, value in row.items() if name not in _KNOWN and value not in (None, "")}
        if more:
            message["hermes_lcm"] = {
                name: value if isinstance(value, (str, int, float)) else repr(value) for name, value in more.items()
            }
        source = str(row.get("source") or "").strip() or "unknown"
        flags = Flag.PINNED if row.get("pinned") else Flag.NONE
        return Item(
            str(row["store_id"]),
            str(row["session_id"]),
            message,
            source,
            at,
            flags,
            looks_like_summary(role, message["content"]),
        )

    def _content(self, role: str, text: Any, key: str) -> Any:
        """The content with its payloads; a list of parts where the text is nothing but that."""
        if not isinstance(text, str):
            return text
        if role == "tool":
            return self.payloads.restored(text, key)
        parts = _parts(text)
        if parts is not None:
            return self.payloads.restored_in(parts, key)
        whole = self.payloads.restored(text, key)
        return _parts(whole) or whole

    # -- nodes --------------------------------------------------------------------------------------
    def nodes(self) -> Iterator[NodeItem]:
        """All summaries, with what they were made of."""
        if not self._has_nodes:
            return
        for rows in self._db.walk("SELECT * FROM summary_nodes WHERE {key}", "node_id"):
            for row in rows:
                yield self._node(row)

    def _node(self, row: Row) -> NodeItem:
        sources = json_in(str(row.get("source_ids") or "[]"), [])
        kind = str(row.get("source_type") or "")
        depth = int(row.get("depth") or 0)
        of_nodes = kind.startswith("node") or (not kind.startswith("message") and depth > 0)
        return NodeItem(
            key=str(row["node_id"]),
            session_id=str(row.get("session_id") or ""),
            depth=depth,
            text=str(row["summary"] or ""),
            sources=tuple(str(each) for each in sources) if isinstance(sources, list) else (),
            of_nodes=of_nodes,
            created_at=_number(row.get("created_at")) or 0.0,
            hint=str(row.get("expand_hint") or ""),
            tokens=int(row.get("token_count") or 0),
            source_tokens=int(row.get("source_token_count") or 0),
            model=str(row.get("model") or ""),
            fallback=self._around(row) if not self._alive(of_nodes, sources) else (),
            files=tuple(self._files_in(str(row["summary"] or ""))),
        )

    def _files_in(self, text: str) -> Iterator[tuple[str, str]]:
        """(name, row that has its content) of payload files that a summary refers to."""
        for name in dict.fromkeys(_REF.findall(text)):
            file = self.payloads.loaded(name)
            if file is None:
                continue
            if file[0] not in self.payloads.used and file[1].get("tool_call_id"):
                row = self._db.one("SELECT store_id FROM messages WHERE tool_call_id = ?", (file[1]["tool_call_id"],))
                if row is not None:
                    self.payloads.used[file[0]] = str(row)
            if file[0] in self.payloads.used:
                yield name, self.payloads.used[file[0]]

    def _alive(self, of_nodes: bool, sources: Any) -> bool:
        """Is any of its recorded sources there?"""
        if not isinstance(sources, list) or not sources:
            return False
        table, key = ("summary_nodes", "node_id") if of_nodes else ("messages", "store_id")
        marks = ",".join("?" * min(len(sources), 500))
        return self._db.one(f"SELECT 1 FROM {table} WHERE {key} IN ({marks}) LIMIT 1", sources[:500]) is not None

    def _around(self, row: Row) -> tuple[str, ...]:
        """Messages of its session from its time; where it tells none, all that were there before it."""
        if "timestamp" not in self._db.columns("messages"):
            return ()
        early, late = _number(row.get("earliest_at")), _number(row.get("latest_at")) or _number(row.get("created_at"))
        found = self._db.rows(
            "SELECT store_id FROM messages WHERE session_id = ? AND timestamp BETWEEN ? AND ? ORDER BY store_id LIMIT ?",
            (row.get("session_id"), early or 0.0, late or 1e18, _MOST_FALLBACK),
        )
        if not found:
            found = self._db.rows(
                "SELECT store_id FROM messages WHERE session_id = ? ORDER BY store_id LIMIT 1", (row.get("session_id"),)
            )
        return tuple(str(each["store_id"]) for each in found)


# -- pure ------------------------------------------------------------------------------------------------
def _number(value: Any) -> float | None:
    try:
        return float(value) if value is not None else None
    except (TypeError, ValueError):
        return None


def _parts(text: str) -> list[Any] | None:
    """The list of parts that a text is."""
    parts = json_in(text, None) if text.startswith("[{") else None
    return parts if _are_parts(parts) and text in _spellings(parts) else None


def _are_parts(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(part, dict) and part.get("type") in _PARTS for part in value)
    )


def _spellings(value: Any) -> set[str]:
    """Spellings of a value as JSON by programs: only then is reading it no loss."""
    return {
        json.dumps(value, ensure_ascii=ascii_only, sort_keys=ordered, separators=separators)
        for ascii_only in (True, False)
        for ordered in (True, False)
        for separators in ((", ", ": "), (",", ":"))
    }
