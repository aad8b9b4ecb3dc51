"""
A conversation as a file: JSONL that can be taken in again exactly, or Markdown for people.

The JSONL begins with a line about the conversation; each further line is one message with the stored JSON byte for byte as it is
stored. Summaries are not exported: they are derived, and written anew where the messages go.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..errors import BadRequest, NotFound, StoreCorrupt, StoreError
from ..ingest.transcript import Transcripts
from ..ops.answers import newest
from ..ops.explain import readable
from ..ops.render import counted, moment
from ..records import Flag, Row
from ..search.scope import Scopes
from ..session import ID_OF, Cut, Session
from ..storage.files import EXPORTS, Progress, silent
from ..text import blobs, content
from ..text.printable import one_line, printable
from .ledger import Ledger
from .transcripts import FORMAT

if TYPE_CHECKING:
    from ..recall.access import Access

KINDS = ("jsonl", "markdown")
_EVERY = 1_000_000  # sessions
_PAGE = f"""
SELECT store_id, {ID_OF.format("messages")}, seq, pos, said_at, stored_at, source, flags, revises, envelope FROM messages
 WHERE conversation_id = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT 500
"""
_WITH_FILES = f"SELECT store_id FROM messages WHERE conversation_id = ? AND seq <= ? AND flags & {Flag.EXTERNALISED}"
_FIELDS = ("store_id", "session_id", "seq", "pos", "said_at", "stored_at", "source", "flags", "revises")
_SESSION = (
    "session_id", "origin", "platform", "host_key", "principal", "model", "started_at", "ended_at", "end_reason",
)  # fmt: skip
_HEADING = re.compile(r"(?m)^\s{0,3}#{1,2}\s")  # ours have these levels; what somebody said has none
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Exported:
    """A file that was written. ``lost``: messages that it lacks because they cannot be read.

    ``incomplete``: messages of which a payload file is missing; a placeholder stands for it.
    """

    path: Path
    messages: int
    bytes: int
    lost: tuple[int, ...] = ()
    incomplete: tuple[int, ...] = ()


def export(
    deps: Access, session_id: str | None, kind: str, progress: Progress = silent, *, output: Path | None = None
) -> Exported:
    """Write the conversation that a session belongs to. Raises NotFound where it may not be read.

    ``output``: where to; without it the folder of exports beside the database.
    """
    session = _session(deps, session_id)
    _refuse_kind(kind)
    if output is not None and output.is_dir():
        named = output / file_name(session.session_id, kind)
        raise BadRequest(f"{output} is a folder; name a file in it, such as {named}")
    if output is not None and output.exists() and not output.is_file():  # a device, whose place a file would take
        raise BadRequest(f"{output} is no regular file and stays as it is; `-o -` writes to stdout")
    path = output or deps.db.path.parent / EXPORTS / file_name(session.session_id, kind)
    if path.is_symlink():
        path = Path(os.path.realpath(path))  # not ``resolve``: a link to itself raises no OSError there
    partial = path.with_name(f".{path.name}.partial")
    try:
        if output is None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
            count, lost = _fill(deps, session, kind, file, progress)
        partial.replace(path)
    except OSError as exc:
        raise StoreError(f"{path}: {exc.strerror or exc}") from exc
    finally:
        with suppress(OSError):  # why it was not written is what matters
            partial.unlink(missing_ok=True)
    return Exported(path, count, path.stat().st_size, tuple(sorted(lost)), tuple(incomplete(deps, session, lost)))


def printed(deps: Access, session_id: str | None, kind: str, progress: Progress = silent) -> tuple[Exported, str]:
    """An export as text; makes no file, and so works while the disk is full."""
    session = _session(deps, session_id)
    _refuse_kind(kind)
    file = io.StringIO()
    count, lost = _fill(deps, session, kind, file, progress)
    text = file.getvalue()
    size = len(text.encode("utf-8", "surrogatepass"))
    return Exported(Path("-"), count, size, tuple(sorted(lost)), tuple(incomplete(deps, session, lost))), text


def _refuse_kind(kind: str) -> None:
    if kind not in KINDS:
        raise BadRequest(f"{kind!r} is neither {' nor '.join(KINDS)}")


def _fill(deps: Access, session: Session, kind: str, file: IO[str], progress: Progress) -> tuple[int, frozenset[int]]:
    """Write an export; how many messages it holds, and which of the conversation cannot be read."""
    write = dict(zip(KINDS, (_jsonl, _markdown), strict=True))[kind]
    try:
        return write(deps, session, file, progress, frozenset()), frozenset()
    except StoreCorrupt:  # how many lines there are stands in the first one
        lost = _unreadable(deps, session)
        file.seek(0)
        file.truncate()
        return write(deps, session, file, progress, lost), lost


def file_name(session_id: str, kind: str) -> str:
    """The name of a session's export: two ids that differ in a sign no file may have differ here too."""
    stem = _UNSAFE.sub("_", session_id)[:100]
    if stem != session_id:
        stem += f"-{sha256(session_id.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return f"{stem}.{'md' if kind == 'markdown' else kind}"


def newest_of_each(deps: Access) -> list[str]:
    """One session of each conversation that may be read here, the newest, for an export of everything."""
    scope, scopes, found = readable(deps), Scopes(deps.db), dict[int, str]()
    for session in deps.sessions.recent(principal=None, limit=_EVERY):
        if session.conversation_id not in found and scopes.conversations([session.conversation_id], scope):
            found[session.conversation_id] = session.session_id
    return list(found.values())


def incomplete(deps: Access, session: Session, lost: frozenset[int]) -> list[int]:
    """Messages of a conversation that show a payload file which cannot be read."""
    found: list[int] = []
    for conversation, cut in deps.sessions.ancestry(session.conversation_id):
        ids = [row[0] for row in deps.db.query(_WITH_FILES, (conversation, (cut or Cut()).seq)) if row[0] not in lost]
        rows = ((row.store_id, deps.payloads.whole(row)) for row in deps.store.legible(ids)[0])
        found += [number for number, row in rows if any(blobs.refs(content.encode(row.stored_json)[0]))]
    return sorted(found)


def _session(deps: Access, session_id: str | None) -> Session:
    scope = readable(deps)
    found = deps.sessions.find(session_id) if session_id else deps.session
    if found is None or not Scopes(deps.db).conversations([found.conversation_id], scope):
        there = f"; the newest sessions: {newest(deps.sessions)}" if deps.trusted else ""
        if not session_id:
            raise NotFound("no conversation is stored yet that may be read here")
        raise NotFound(
            f"there is no session {session_id!r} that you may read here, and no format of that name (formats: "
            f"{', '.join(KINDS)}){there}"
        )
    return found


def _unreadable(deps: Access, session: Session) -> frozenset[int]:
    """Messages of a conversation, and of those that it branched off from, that cannot be read."""
    lost: list[int] = []
    for conversation, cut in deps.sessions.ancestry(session.conversation_id):
        seq = 0
        while rows := deps.db.query(_PAGE, (conversation, seq, (cut or Cut()).seq)):
            lost += deps.store.legible([row[0] for row in rows])[1]
            seq = rows[-1][2]
    return frozenset(lost)


def header(deps: Access, session: Session, lost: frozenset[int] = frozenset()) -> dict[str, Any]:
    """First line of an export: a conversation and its ancestors, beside their messages but the ``lost`` ones."""
    ancestry = [(c, cut) for c, cut in deps.sessions.ancestry(session.conversation_id)]
    about = []
    for n, (conversation, cut) in enumerate(ancestry):
        sessions = deps.sessions.of_conversation(conversation)
        each = {
            "sessions": [{key: getattr(one, key) for key in _SESSION} for one in sessions],
            "rows": _count(deps, conversation, cut, lost),
        }
        if n:
            each |= {"parent": n - 1, "fork_seq": sessions[0].fork_seq, **_inherits(deps, conversation)}
        about.append(each)
    return {"lcm_export": FORMAT, "messages": sum(each["rows"] for each in about), "conversations": about}


def _inherits(deps: Access, conversation: int) -> dict[str, Any]:
    """The part of its parent that a branch which has begun inherits, and rows that were gone by then."""
    gone = deps.sessions.taken_back(conversation)
    if gone is None:
        return {}
    cut = deps.sessions.ancestry(conversation)[-2][1] or Cut()
    return {"cut": [cut.seq, min(cut.pos, 2.0**62)], "without": sorted(gone)}


def _count(deps: Access, conversation: int, cut: Cut | None, lost: frozenset[int]) -> int:
    sql = (
        "SELECT count(*) FROM messages WHERE conversation_id = ? AND seq <= ? "
        "AND store_id NOT IN (SELECT value FROM json_each(?))"
    )
    return int(deps.db.query(sql, (conversation, (cut or Cut()).seq, json.dumps(sorted(lost))))[0][0])


def lines(deps: Access, conversation_id: int, until: int = 2**62, lost: frozenset[int] = frozenset()) -> Iterator[str]:
    """One line per stored message but the ``lost`` ones, in the order they were stored."""
    seq = 0
    repeats = Ledger(deps.db).duplicates()
    while rows := deps.db.query(_PAGE, (conversation_id, seq, until)):
        for row in rows:
            if row[0] in lost:
                continue
            fields, stored_json = dict(zip(_FIELDS, row, strict=False)), deps.store.blocks.legible(row[0], row[-1])
            if fields["flags"] & Flag.EXTERNALISED:
                whole = deps.payloads.whole(deps.store.rows([fields["store_id"]])[0])
                fields["flags"], stored_json = whole.head.flags, content.encode(whole.stored_json)[0]
            if row[0] in repeats:
                fields["repeats"] = repeats[row[0]]
            yield f'{json.dumps(fields, ensure_ascii=False)[:-1]}, "message": {stored_json}}}'
        seq = rows[-1][2]


def _jsonl(deps: Access, session: Session, file: IO[str], progress: Progress, lost: frozenset[int]) -> int:
    head = header(deps, session, lost)
    if gaps := incomplete(deps, session, lost):
        head["incomplete"] = gaps
    file.write(json.dumps(head, ensure_ascii=False) + "\n")
    count = 0
    for conversation, cut in deps.sessions.ancestry(session.conversation_id):
        for line in lines(deps, conversation, (cut or Cut()).seq, lost):
            file.write(line + "\n")
            count += 1
            if count % 500 == 0:
                progress("writing", count, head["messages"])
    return count


# -- for people ------------------------------------------------------------------------------------------
def _markdown(deps: Access, session: Session, file: IO[str], progress: Progress, lost: frozenset[int]) -> int:
    """The transcript as a reader wants it: in order, without what was taken back."""
    transcript = Transcripts(deps.store, deps.sessions).expected(session, None)
    ids = [each.store_id for each in transcript if each.store_id not in lost]
    file.write(f"# {one_line(session.session_id)}\n\n{counted(len(ids), 'message')}, {moment(session.started_at)}\n")
    if gaps := incomplete(deps, session, lost):
        file.write(f"\nA payload file is missing in {', '.join(f'msg_{each}' for each in gaps)}.\n")
    for at in range(0, len(ids), 200):
        for row in deps.store.rows(ids[at : at + 200]):
            file.write(_section(row))
        progress("writing", at, len(ids))
    return len(ids)


def _section(row: Row) -> str:
    head = row.head
    tool = f" ({one_line(head.tool_name)})" if head.tool_name else ""
    parts = [f"\n## {one_line(head.role)}{tool} · msg_{head.store_id} · {moment(head.said_at or head.stored_at)}\n"]
    if row.text:
        parts.append(_fenced(row.text) if head.role == "tool" else _HEADING.sub(r"\\\g<0>", printable(row.text)))
    parts += [f"calls `{one_line(call.name)}`:\n\n{_fenced(call.arguments)}" for call in row.calls]
    return "\n".join(parts) + "\n"


def _fenced(text: str) -> str:
    """A block whose fence is longer than any in the text."""
    text = printable(text)
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`{3,}", text) or [""]))
    return f"{fence}\n{text}\n{fence}"
