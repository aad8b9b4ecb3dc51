"""
Files with conversations and their import: our own exports exactly, and transcripts of OpenAI messages (JSON or JSONL).

A file that cannot be read says in which line, and what is there. Importing the same file again adds nothing. A session that is
stored with other messages is refused.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import BadRequest, Exchanged, Overtaken
from ..ops import backup
from ..ops.render import counted, moment
from ..records import Flag, Stored
from ..session import LOCAL, Cut, Segment, Session, alone
from ..storage.files import Progress, silent
from ..store import NewRow
from ..text import content
from .ledger import MESSAGE, Ledger, Source

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
    """Conversations, ancestors first. ``exact``: an export of ours.

    ``whole``: places of the exported conversations; the others are their ancestors.
    """

    path: Path
    conversations: tuple[Conversation, ...]
    exact: bool
    whole: tuple[int, ...] = ()


def read_file(path: Path) -> File:
    """A file of either kind. Raises BadRequest with the line that cannot be read, and what it holds."""
    if path.is_char_device() or path.is_block_device():  # some never end
        raise BadRequest(f"{path} is a device; name a file of messages")
    try:
        text = path.read_text(encoding="utf-8", errors="surrogatepass")
    except OSError as exc:
        raise BadRequest(f"{path} cannot be read: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise BadRequest(f"{path} is not text in UTF-8 (byte {exc.start}); save it as UTF-8, then import it") from exc
    first = text.lstrip("\ufeff \t\r\n").split("\n", 1)[0]
    head = _object(first)
    if head is not None and "lcm_export" in head:
        return _exports(path, text.lstrip("\ufeff \t\r\n").split("\n"))
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
            raise BadRequest(
                f"{path}, line {number}: {_short(line)!r} is not JSON ({why}); expected {_WANTED}"
            ) from exc
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
def _exports(path: Path, lines: Sequence[str]) -> File:
    """One export, or several behind each other."""
    heads = [n for n, line in enumerate(lines) if n == 0 or line.startswith('{"lcm_export"')]
    out: list[Conversation] = []
    whole = []
    for at, end in pairwise([*heads, len(lines)]):
        first = len(out)
        found = _export(path, at + 1, _object(lines[at]) or {}, lines[at + 1 : end])
        out += [each if each.parent is None else replace(each, parent=first + each.parent) for each in found]
        whole.append(len(out) - 1)
    return File(path, tuple(out), exact=True, whole=tuple(whole))


def _export(path: Path, at: int, head: Mapping[str, Any], raw: Sequence[str]) -> list[Conversation]:
    version = head.get("lcm_export")
    if not isinstance(version, int) or not 1 <= version <= FORMAT:
        raise BadRequest(
            f"{path}, line {at}: an export of format {version!r}; this release reads 1 to {FORMAT}: update the plugin"
        )
    about = head.get("conversations") or [{"sessions": head.get("sessions"), "rows": head.get("messages")}]
    numbered = [(n, line) for n, line in enumerate(raw, at + 1) if line]
    expected = sum(int(each.get("rows") or 0) for each in about)
    if expected != len(numbered):
        raise BadRequest(f"{path} is not complete: {len(numbered)} messages of {expected}")
    out: list[Conversation] = []
    for each in about:
        part, numbered = numbered[: int(each.get("rows") or 0)], numbered[int(each.get("rows") or 0) :]
        out.append(_conversation(path, at, each, tuple(_line(path, n, line) for n, line in part)))
    return out


def _conversation(path: Path, at: int, about: Mapping[str, Any], lines: tuple[Line, ...]) -> Conversation:
    sessions = about.get("sessions")
    if not isinstance(sessions, list) or not sessions or not all(isinstance(each, dict) for each in sessions):
        raise BadRequest(f"{path}, line {at}: {_short(json.dumps(about))} names no sessions")
    names = {str(each.get("session_id")) for each in sessions}
    stray = next((line for line in lines if line.session_id not in names), None)
    if stray is not None:
        raise BadRequest(
            f"{path}: message {stray.old_id} belongs to session {stray.session_id!r}, which line {at} does not name"
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


if TYPE_CHECKING:
    from ..ingest.filters import WriteFilters
    from ..recall.access import Access

KIND = "file"
# -- taking in -------------------------------------------------------------------------------------------
_ROLES = {"system", "user", "assistant", "tool", "developer", "function"}
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Imported:
    """``present``: messages that were there already; ``added``: those written now (or, in a dry run, to be written).

    ``about``: what a transcript holds, by name: its roles, its times, who may read it, and what is odd in it.
    """

    sessions: tuple[str, ...]
    present: int
    added: int
    exact: bool
    backup: Path | None = None
    about: tuple[tuple[str, str], ...] = ()


def plan(deps: Access, path: Path) -> tuple[File, Imported]:
    """Plan of an import. Changes nothing."""
    if not deps.trusted:
        raise BadRequest("conversations are imported at the terminal: hermes lcm import <file>")
    found = read_file(path)
    present = sum(
        _present(deps, each, whole=n in found.whole or not found.exact) for n, each in enumerate(found.conversations)
    )
    total = sum(len(each.lines) for each in found.conversations)
    shown = (
        [each for n in found.whole for each in found.conversations[n].sessions]
        if found.exact
        else [each.sessions[0] for each in found.conversations]
    )
    names = tuple(str(each["session_id"]) for each in shown)
    return found, Imported(names, present, total - present, found.exact, about=() if found.exact else _about(found))


def _about(found: File) -> tuple[tuple[str, str], ...]:
    """Contents of a transcript in a line, so that a mistake is seen before it is stored."""
    messages = [line.message for each in found.conversations for line in each.lines]
    roles = Counter(str(message["role"]) for message in messages)
    times = sorted(when for when in map(content.said_at, messages) if when is not None)
    said = (
        f"{moment(times[0])} to {moment(times[-1])}" if times else "none in the file, so the time of the import counts"
    )
    about = [("roles", ", ".join(f"{count} {role}" for role, count in roles.items())), ("times", said)]
    about.append(("readable", "at the terminal only"))
    odd = {
        f"a role that no model knows ({', '.join(sorted(roles.keys() - _ROLES))})": sum(
            roles[each] for each in roles.keys() - _ROLES
        ),
        "content that is not text": sum(not isinstance(m.get("content", ""), str | list | None) for m in messages),
        "neither content nor calls": sum("content" not in m and not m.get("tool_calls") for m in messages),
        "a timestamp that is not a time": sum("timestamp" in m and content.said_at(m) is None for m in messages),
    }
    about += [("to check", f"{counted(count, 'message')} with {what}") for what, count in odd.items() if count]
    return tuple(about)


def _present(deps: Access, conversation: Conversation, *, whole: bool) -> int:
    """Number of the file's messages that are here. An ancestor of a branch may have gone on here; the branch itself may not."""
    names = [str(each["session_id"]) for each in conversation.sessions]
    session, *more = [deps.sessions.find(name) if deps.db.exists else None for name in names]
    name, home = names[0], session.conversation_id if session is not None else None
    if apart := [each.session_id for each in more if each is not None and each.conversation_id != home]:
        raise BadRequest(f"{apart[0]} is stored already apart from {name}; an import never mixes two conversations")
    if session is None:
        return 0
    here = _stored(deps, session)
    both = list(zip(here, conversation.lines, strict=False))
    if (whole and len(here) > len(conversation.lines)) or not all(_same(row, line) for row, line in both):
        raise BadRequest(f"{name} is stored already with other messages; an import never mixes two conversations")
    return len(both)


def _stored(deps: Access, session: Session) -> list[Stored]:
    """A conversation's own rows as they were stored."""
    return sorted(deps.store.heads([Segment(session.conversation_id)]), key=lambda row: row.seq)


def _same(row: Stored, line: Line) -> bool:
    """Is it the same message? Of one whose secrets were taken out the digest is still that of what was said."""
    if row.flags & line.flags & Flag.REDACTED:
        return row.role == line.message.get("role")
    return row.digest == content.canonical_core(line.message).digest


# -- taking in -------------------------------------------------------------------------------------------
def take_in(deps: Access, path: Path, progress: Progress = silent) -> Imported:
    """Import what is not there yet."""
    found, planned = plan(deps, path)
    if not planned.added:
        return planned
    made = backup.back_up(deps, progress).path if deps.db.exists else None
    ledger = Ledger(deps.db)
    source = ledger.begin(f"file:{path.resolve()}", KIND, {"exact": found.exact}, now=deps.clock())
    work = _Import(deps, ledger, source, found, progress)
    for n, conversation in enumerate(found.conversations):
        work.import_conversation(conversation, whole=n in found.whole or not found.exact)
    ledger.finish(source, {"exact": found.exact}, now=deps.clock())
    return replace(planned, backup=made)


class _Import:
    """One file on its way in. ``ids``: addresses of the file to those here."""

    def __init__(self, deps: Access, ledger: Ledger, source: Source, found: File, progress: Progress) -> None:
        self._deps, self._ledger, self._source, self._found, self._progress = deps, ledger, source, found, progress
        self._total = sum(len(each.lines) for each in found.conversations)
        self._done = self._seq = 0
        self.ids: dict[int, int] = {}

    def import_conversation(self, conversation: Conversation, *, whole: bool) -> None:
        """Import one conversation. Raises BadRequest where other messages are in it."""
        before = self._done
        while True:
            _present(self._deps, conversation, whole=whole)
            try:
                return self._import(conversation)
            except Exchanged:  # the source is noted in the other file
                raise
            except Overtaken:  # another import of the same has written some of it, or a session of that name goes on
                self._done = before

    def _import(self, conversation: Conversation) -> None:
        deps = self._deps
        sessions = self._sessions(conversation)
        own = next(iter(sessions.values()))
        self._seq = deps.store.last_seq(
            own.conversation_id
        )  # before it is read: what comes behind it meanwhile is seen
        here = _stored(deps, own)
        self.ids.update({line.old_id: row.store_id for row, line in zip(here, conversation.lines, strict=False)})
        self._done += min(len(here), len(conversation.lines))
        if conversation.cut is not None and not here:
            without = [self.ids[each] for each in conversation.without if each in self.ids]
            deps.sessions.fork_at(own.conversation_id, Cut(*conversation.cut), without)
            placed = deps.store.last_seq(own.conversation_id)  # a branch without rows has just got its place
            self._seq = self._seq if deps.store.has_rows(own.conversation_id) else placed
        first = 0 if conversation.fork_seq is None else conversation.fork_seq
        places = _Places(conversation.lines, first)
        rest = conversation.lines[len(here) :]
        for _, group in groupby(rest, key=lambda line: (line.session_id, line.source, line.stored_at)):
            rows = list(group)
            for at in range(0, len(rows), _BATCH):
                self._append(sessions, rows[at : at + _BATCH], places)

    def _append(self, sessions: Mapping[str, Session], part: Sequence[Line], places: _Places) -> None:
        """One transaction: rows, their notes, and which are duplicates."""
        deps, session, stored_at = self._deps, sessions[part[0].session_id], part[0].stored_at
        rows = [_row(line, self.ids, deps.filters, places) for line in part]
        with deps.db.transaction():
            new = deps.store.append(
                session.conversation_id, session.session_id, self._seq, rows,
                source=part[0].source, now=deps.clock() if stored_at is None else stored_at,
            )  # fmt: skip
            self._ledger.note(
                self._source, MESSAGE, [(f"{line.session_id}:{line.seq}", n) for line, n in zip(part, new, strict=True)]
            )
            self.ids.update({line.old_id: store_id for line, store_id in zip(part, new, strict=True) if line.old_id})
            copies = [
                (store_id, line.repeats) for line, store_id in zip(part, new, strict=True) if line.repeats is not None
            ]
            self._ledger.mark([(copy, self.ids[original]) for copy, original in copies if original in self.ids])
        self._seq += len(part)
        self._done += len(part)
        self._progress("storing", self._done, self._total)

    def _sessions(self, conversation: Conversation) -> dict[str, Session]:
        deps = self._deps
        root = self._found.conversations[conversation.parent] if conversation.parent is not None else None
        parent = deps.sessions.find(str(root.sessions[-1]["session_id"])) if root is not None else None
        out: dict[str, Session] = {}
        before: Session | None = None
        for each in conversation.sessions:
            name = str(each["session_id"])
            known, owner = deps.sessions.find(name), each.get("principal") or None
            above = before or parent
            if above is not None and owner not in (None, LOCAL, above.principal):
                # A file gives nobody what goes on from another's conversation, and the other one nothing of it.
                owner = alone(name)
            before = known or deps.sessions.open(
                name,
                now=float(each.get("started_at") or deps.clock()),
                platform=str(each.get("platform") or ""),
                host_key=each.get("host_key") or None,
                parent=before or parent,
                origin="rotation" if before else "branch" if parent else "start",
                fork_seq=conversation.fork_seq if before is None else None,
                model=str(each.get("model") or ""),
                principal=owner,
            )
            out[name] = before
            if known is None and each.get("ended_at"):
                deps.sessions.end(name, now=float(each["ended_at"]), reason=str(each.get("end_reason") or ""))
        return out


class _Places:
    """Positions of the file as positions here: the same, unless rows are missing in the file and numbers move up."""

    def __init__(self, lines: Sequence[Line], first: int) -> None:
        self._seqs = [line.seq for line in lines]
        self._first = first
        self._same = self._seqs == list(range(first + 1, first + len(lines) + 1))

    def pos(self, line: Line) -> float | None:
        """None: at the end, where the row is appended."""
        if line.pos == line.seq:
            return None
        if self._same or line.pos < self._first:
            return line.pos
        whole = int(line.pos)
        return self._first + bisect_right(self._seqs, whole) + (line.pos - whole)


def _row(line: Line, ids: Mapping[int, int], filters: WriteFilters, places: _Places) -> NewRow:
    message = content.read_message(line.message)
    if line.stored_json is not None:
        message = replace(message, stored_json=line.stored_json.encode("utf-8"), value=None)
    return NewRow(
        filters.stored_form(message),
        pos=places.pos(line),
        revises=ids.get(line.revises) if line.revises is not None else None,
        flags=line.flags,
    )
