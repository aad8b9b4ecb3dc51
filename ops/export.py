"""
A conversation as a file: JSONL that can be taken in again exactly, or Markdown for people.

The JSONL begins with a line about the conversation; each further line is one message with the envelope byte for byte as it is
stored. Summaries are not exported: they are derived, and written anew where the messages go.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..db.files import Progress, silent
from ..errors import BadRequest, NotFound, StoreCorrupt, StoreError
from ..records import Flag, Row
from ..scope import Reach
from ..session import ID_OF, Cut, Session
from ..text import content
from ..thread import Threads
from .answers import newest
from .explain import readable
from .ledger import Ledger
from .render import counted, moment
from .transcripts import FORMAT

if TYPE_CHECKING:
    from .status import OpsDeps

FOLDER = "lcm-exports"
KINDS = ("jsonl", "markdown")
_PAGE = f"""
SELECT store_id, {ID_OF.format("messages")}, seq, pos, said_at, stored_at, source, flags, revises, envelope FROM messages
 WHERE conversation_id = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT 500
"""
_FIELDS = ("store_id", "session_id", "seq", "pos", "said_at", "stored_at", "source", "flags", "revises")
_SESSION = (
    "session_id", "origin", "platform", "host_key", "principal", "model", "started_at", "ended_at", "end_reason",
)  # fmt: skip
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Exported:
    """A file that was written. ``lost``: messages that it lacks because they cannot be read."""

    path: Path
    messages: int
    bytes: int
    lost: tuple[int, ...] = ()


def export(deps: OpsDeps, session_id: str | None, kind: str, progress: Progress = silent) -> Exported:
    """Write the conversation that a session belongs to. Raises NotFound where it may not be read."""
    session = _session(deps, session_id)
    writers = dict(zip(KINDS, (_jsonl, _markdown), strict=True))
    if kind not in writers:
        raise BadRequest(f"{kind!r} is neither {' nor '.join(KINDS)}")
    folder = deps.db.path.parent / FOLDER
    path = folder / f"{_UNSAFE.sub('_', session.session_id)[:100]}.{'md' if kind == 'markdown' else kind}"
    partial = path.with_name(f".{path.name}.partial")
    lost = frozenset[int]()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
            try:
                count = writers[kind](deps, session, file, progress, lost)
            except StoreCorrupt:  # how many lines there are stands in the first one
                lost = _unreadable(deps, session)
                file.seek(0)
                file.truncate()
                count = writers[kind](deps, session, file, progress, lost)
        partial.replace(path)
    except OSError as exc:
        raise StoreError(f"{path}: {exc.strerror or exc}") from exc
    finally:
        with suppress(OSError):  # why it was not written is what matters
            partial.unlink(missing_ok=True)
    return Exported(path, count, path.stat().st_size, tuple(sorted(lost)))


def _session(deps: OpsDeps, session_id: str | None) -> Session:
    scope = readable(deps)
    found = deps.sessions.find(session_id) if session_id else deps.session
    if found is None or not Reach(deps.db).conversations([found.conversation_id], scope):
        there = f"; the newest, newest first: {newest(deps.sessions)}" if deps.trusted else ""
        if not session_id:
            raise NotFound("no conversation is stored yet that may be read here")
        raise NotFound(
            f"{session_id!r} is no format (there are {', '.join(KINDS)}), and nothing that may be read here is stored under "
            f"a session {session_id!r}{there}"
        )
    return found


def _unreadable(deps: OpsDeps, session: Session) -> frozenset[int]:
    """Which messages of a conversation, and of those that it branched off from, cannot be read."""
    lost: list[int] = []
    for conversation, cut in deps.sessions.lineage(session.conversation_id):
        seq = 0
        while rows := deps.db.query(_PAGE, (conversation, seq, (cut or Cut()).seq)):
            lost += deps.store.legible([row[0] for row in rows])[1]
            seq = rows[-1][2]
    return frozenset(lost)


def header(deps: OpsDeps, session: Session, lost: frozenset[int] = frozenset()) -> dict[str, Any]:
    """What is known of a conversation, and of those that it branched off from, beside their messages but the ``lost`` ones."""
    lineage = [(c, cut) for c, cut in deps.sessions.lineage(session.conversation_id)]
    about = []
    for n, (conversation, cut) in enumerate(lineage):
        sessions = deps.sessions.of_conversation(conversation)
        each = {
            "sessions": [{key: getattr(one, key) for key in _SESSION} for one in sessions],
            "rows": _count(deps, conversation, cut, lost),
        }
        if n:
            each |= {"parent": n - 1, "fork_seq": sessions[0].fork_seq, **_inherits(deps, conversation)}
        about.append(each)
    return {"lcm_export": FORMAT, "messages": sum(each["rows"] for each in about), "conversations": about}


def _inherits(deps: OpsDeps, conversation: int) -> dict[str, Any]:
    """How much of its parent a branch that has begun inherits, and which rows were gone by then."""
    gone = deps.sessions.taken_back(conversation)
    if gone is None:
        return {}
    cut = deps.sessions.lineage(conversation)[-2][1] or Cut()
    return {"cut": [cut.seq, min(cut.pos, 2.0**62)], "without": sorted(gone)}


def _count(deps: OpsDeps, conversation: int, cut: Cut | None, lost: frozenset[int]) -> int:
    sql = (
        "SELECT count(*) FROM messages WHERE conversation_id = ? AND seq <= ? "
        "AND store_id NOT IN (SELECT value FROM json_each(?))"
    )
    return int(deps.db.query(sql, (conversation, (cut or Cut()).seq, json.dumps(sorted(lost))))[0][0])


def lines(deps: OpsDeps, conversation_id: int, until: int = 2**62, lost: frozenset[int] = frozenset()) -> Iterator[str]:
    """One line per stored message but the ``lost`` ones, in the order they were stored."""
    seq = 0
    repeats = Ledger(deps.db).duplicates()
    while rows := deps.db.query(_PAGE, (conversation_id, seq, until)):
        for row in rows:
            if row[0] in lost:
                continue
            fields, envelope = dict(zip(_FIELDS, row, strict=False)), deps.store.envelope(row[0], row[-1])
            if fields["flags"] & Flag.EXTERNALISED and deps.payloads is not None:
                whole = deps.payloads.whole(deps.store.rows([fields["store_id"]])[0])
                fields["flags"], envelope = whole.head.flags, content.encode(whole.envelope)[0]
            if row[0] in repeats:
                fields["repeats"] = repeats[row[0]]
            yield f'{json.dumps(fields, ensure_ascii=False)[:-1]}, "message": {envelope}}}'
        seq = rows[-1][2]


def _jsonl(deps: OpsDeps, session: Session, file: IO[str], progress: Progress, lost: frozenset[int]) -> int:
    head = header(deps, session, lost)
    file.write(json.dumps(head, ensure_ascii=False) + "\n")
    count = 0
    for conversation, cut in deps.sessions.lineage(session.conversation_id):
        for line in lines(deps, conversation, (cut or Cut()).seq, lost):
            file.write(line + "\n")
            count += 1
            if count % 500 == 0:
                progress("writing", count, head["messages"])
    return count


# -- for people ------------------------------------------------------------------------------------------
def _markdown(deps: OpsDeps, session: Session, file: IO[str], progress: Progress, lost: frozenset[int]) -> int:
    """The thread as a reader wants it: in order, without what was taken back."""
    thread = Threads(deps.store, deps.sessions).expected(session, None)
    ids = [each.store_id for each in thread if each.store_id not in lost]
    file.write(f"# {session.session_id}\n\n{counted(len(ids), 'message')}, {moment(session.started_at)}\n")
    for at in range(0, len(ids), 200):
        for row in deps.store.rows(ids[at : at + 200]):
            file.write(_section(row))
        progress("writing", at, len(ids))
    return len(ids)


def _section(row: Row) -> str:
    head = row.head
    tool = f" ({head.tool_name})" if head.tool_name else ""
    parts = [f"\n## {head.role}{tool} · msg_{head.store_id} · {moment(head.said_at or head.stored_at)}\n"]
    if row.text:
        parts.append(_fenced(row.text) if head.role == "tool" else row.text)
    parts += [f"calls `{call.name}`:\n\n{_fenced(call.arguments)}" for call in row.calls]
    return "\n".join(parts) + "\n"


def _fenced(text: str) -> str:
    """A block whose fence is longer than any in the text."""
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`{3,}", text) or [""]))
    return f"{fence}\n{text}\n{fence}"
