"""
Backfill from a lossless-claw (OpenClaw) database: raw messages under an explicit provenance, and its summaries on request.

Only reads the source. Nothing of OpenClaw's configuration or secrets is looked at; transcripts and tool payloads come over and
may hold what people keep to themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import BadRequest
from ..ops import backup
from ..storage.files import Progress, silent
from ..storage.foreign import OPENCLAW, Foreign, Row
from .intake import Batches, Intake, Item, Taken
from .ledger import NODE, Ledger, Source
from .openclaw_messages import FILE_ID, LargeFiles, message
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
        looking = self._intake(known or Source(0, "", KIND, {}, 0.0, None))
        for name, rows in self._groups.items():
            session = deps.sessions.find(name) if there else None
            taken += looking.plan(session, self._batches(name, rows))
        nodes = self._wanted_nodes()
        waiting = len(nodes) - len(ledger.rows_by_source(known, NODE)) if known else len(nodes)
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

    def _intake(self, source: Source) -> Intake:
        intake = Intake(self._deps, source, keep_copies=True, progress=self._progress)
        intake.total = int(self._source.one(f"SELECT count(*) FROM messages WHERE {self._shown('messages')}") or 0)
        return intake

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
