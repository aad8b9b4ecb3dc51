"""
Ranges that agents archived: the messages that one placeholder stands for, where a live list hides them, and what came back.

Owns table ``archives``. Holds addresses of rows, never copies of messages. A branch gets archives of its own for what it
inherits, so that restoring in one of the two changes nothing in the other. What is hidden is derived from the list as the host
shows it: an archive whose messages are in the list is hidden by its placeholder; one that a compaction took over stands in the
context message; a restored one is shown again. Answers no tool call.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..dag import SummaryDag, fingerprint
from ..ingest.transcript import Entry, Transcript
from ..prompt import context_message, rewrites
from ..prompt.rewrites import Instead, Replacement, Retold
from ..records import ARCHIVE_RUNG, ARCHIVED_WORDS, NewNode, Node, Scope, Unit, in_order
from ..search.scope import Scopes
from ..session import CLIENTS, Session
from ..storage.connection import Database
from ..storage.meta import Meta
from ..store import MessageStore
from ..text import content, tokens
from ..text.content import storable

ARCHIVED: Final = "archived"
RESTORED: Final = "restored"
PRUNED: Final = "pruned"
_WRITTEN: Final = (
    "handle, conversation_id, session_id, store_ids, first_index, last_index, messages, summary, given, preview, chars, tokens, "
    "state, created_at, changed_at"
)
_COLUMNS: Final = f"a.archive_id, a.{_WRITTEN.replace(', ', ', a.')}"
_OF = f"SELECT {_COLUMNS} FROM archives a WHERE a.conversation_id = ? AND a.state <> 'pruned' ORDER BY a.archive_id"
_INSERT = f"""
INSERT INTO archives({_WRITTEN})
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
"""
# As they stood when the branch began: what the parent restored later is still archived in the branch.
_ADOPT = f"""
INSERT INTO archives({_WRITTEN})
SELECT a.handle, b.conversation_id, a.session_id, a.store_ids, a.first_index, a.last_index, a.messages, a.summary, a.given,
       a.preview, a.chars, a.tokens, CASE WHEN a.changed_at > b.created_at THEN 'archived' ELSE a.state END, a.created_at,
       a.changed_at
  FROM archives a JOIN conversations b ON b.parent_id = a.conversation_id
 WHERE b.conversation_id = ? AND a.created_at <= b.created_at
ON CONFLICT(conversation_id, handle) DO NOTHING
"""
_READABLE = f"""
SELECT {_COLUMNS} FROM archives a JOIN conversations c USING(conversation_id)
 WHERE a.handle = :handle AND a.state <> 'pruned' AND (:principal IS NULL OR c.principal = :principal)
   AND (:conversations IS NULL OR a.conversation_id IN (SELECT value FROM json_each(:conversations)))
 ORDER BY a.conversation_id = :mine DESC, a.archive_id LIMIT 1
"""
_REQUEST = "archive_request:{}"
_ODD = re.compile(r"[^\w.:@+-]+")


@dataclass(frozen=True, slots=True)
class Archive:
    """One archived range. ``first_index`` to ``last_index``: in the live list of then, both included; ``given``: by the agent."""

    archive_id: int
    handle: str
    conversation_id: int
    session_id: str
    store_ids: tuple[int, ...]
    first_index: int
    last_index: int
    messages: int
    summary: str
    given: bool
    preview: str
    chars: int
    tokens: int
    state: str
    created_at: float
    changed_at: float


def new_handle(session_id: str) -> str:
    """An address that no other archive has."""
    return f"mem://{_ODD.sub('_', session_id) or 'session'}/{uuid.uuid4()}"


class Archives:
    """The archives of one database."""

    def __init__(self, db: Database, clean: Callable[[str], str] = str) -> None:
        """``clean`` takes secrets out of what is written."""
        self._db = db
        self._meta = Meta(db)
        self._clean = clean
        self._adopted: set[int] = set()

    def of(self, session: Session) -> list[Archive]:
        """Archives of a session's conversation that were not pruned, oldest first."""
        if session.parent_id is not None and session.conversation_id not in self._adopted:
            self._adopt(session.conversation_id)
        return [_archive(row) for row in self._db.query(_OF, (session.conversation_id,))]

    def _adopt(self, conversation_id: int) -> None:
        """Let a branch have what its parent had when it began."""
        if self._db.query_one("SELECT 1 FROM archives LIMIT 1") is not None:
            with self._db.transaction():
                self._db.execute(_ADOPT, (conversation_id,))
        self._adopted.add(conversation_id)

    def add(self, archive: Archive, *, request: int | None = None) -> None:
        """Note a new one; its id is given here. ``request``: the message that it was made for."""
        summary, preview = (storable(self._clean(each)) for each in (archive.summary, archive.preview))
        with self._db.transaction():
            if request is not None:
                self._meta.note(_REQUEST.format(archive.handle), request)
            self._db.execute(
                _INSERT,
                (
                    archive.handle, archive.conversation_id, archive.session_id, json.dumps(list(archive.store_ids)),
                    archive.first_index, archive.last_index, archive.messages, summary, int(archive.given),
                    preview, archive.chars, archive.tokens, archive.state, archive.created_at, archive.changed_at,
                ),
            )  # fmt: skip

    def of_conversation(self, conversation_id: int) -> list[Archive]:
        """All of a conversation, pruned ones too, oldest first. Only reads."""
        sql = f"SELECT {_COLUMNS} FROM archives a WHERE a.conversation_id = ? ORDER BY a.archive_id"
        return [_archive(row) for row in self._db.query(sql, (conversation_id,))]

    def take_over(self, archive: Archive, *, request: int | None = None) -> None:
        """Have an archive of another file, with the addresses of here; of one that is here, its later state."""
        known = next(
            (each for each in self.of_conversation(archive.conversation_id) if each.handle == archive.handle), None
        )
        if known is None:
            self.add(archive, request=request)
        elif archive.changed_at > known.changed_at and archive.state != known.state:
            self.change([known.archive_id], archive.state, now=archive.changed_at)

    def request(self, handle: str) -> int | None:
        """The message that an archive was made for, if that was noted."""
        found = self._meta.value(_REQUEST.format(handle))
        return found if isinstance(found, int) else None

    def find(
        self, handle: str, *, principal: str | None, conversations: Sequence[int] | None, mine: int | None
    ) -> Archive | None:
        """The archive of this handle that may be read; the one of conversation ``mine`` where there are several."""
        among = json.dumps(list(conversations)) if conversations is not None else None
        row = self._db.query_one(
            _READABLE,
            {"handle": storable(handle), "principal": principal, "conversations": among, "mine": mine},
        )
        return _archive(row) if row else None

    def change(self, archive_ids: Sequence[int], state: str, *, now: float) -> None:
        """Restored or pruned. Never touches a message."""
        with self._db.transaction():
            self._db.executemany(
                "UPDATE archives SET state = ?, changed_at = ? WHERE archive_id = ?",
                [(state, now, archive_id) for archive_id in archive_ids],
            )

    def over(self, store_ids: Collection[int]) -> list[int]:
        """The archives, pruned ones too, that stand for any of these messages."""
        rows = self._db.query("SELECT archive_id, store_ids FROM archives ORDER BY archive_id")
        return [row[0] for row in rows if not set(json.loads(row[1])).isdisjoint(store_ids)]

    def blank(self, archive_ids: Sequence[int], text: str) -> None:
        """Other words for archives, for an operator who purges what they stand for."""
        with self._db.transaction():
            self._db.executemany(
                "UPDATE archives SET summary = ?, preview = '' WHERE archive_id = ?",
                [(text, archive_id) for archive_id in archive_ids],
            )

    def states(self, conversation_id: int) -> dict[str, int]:
        """Number of archives of a conversation, by state. Only reads."""
        sql = "SELECT state, count(*) FROM archives WHERE conversation_id = ? AND state <> 'pruned' GROUP BY state"
        return {str(state): int(count) for state, count in self._db.query(sql, (conversation_id,))}


def _archive(row: Sequence[Any]) -> Archive:
    fields = list(row)
    fields[4], fields[9] = tuple(json.loads(row[4])), bool(row[9])
    return Archive(*fields)


Message = Mapping[str, Any]
#: What is left of a context message's block whose messages stand in the prompt again.
_RESTORED: Final = "(archived messages that stood here were restored: they follow in full)"


@dataclass(frozen=True, slots=True)
class Run:
    """Messages ``first`` to ``stop`` (exclusive) of the live list that an archive stands for."""

    archive: Archive
    first: int
    stop: int


def text_of(archive: Archive) -> str:
    """The placeholder of an archive; its range in the live list has both ends included."""
    span = f"{archive.first_index}..{archive.last_index}"
    sizes = f"messages={archive.messages} chars={archive.chars} tokens={archive.tokens}"
    head = f"[[memory archived handle={archive.handle} range={span} {sizes}]]"
    return f"{head}\nSummary: {line(archive.summary)}\nPreview: {line(archive.preview)}"


@dataclass(frozen=True, slots=True)
class Archived:
    """Messages that an archive stands for when the list is compacted: neither raw nor in a summary."""

    archive: Archive
    ids: tuple[int, ...]
    tokens: int

    def node(self, conversation_id: int) -> NewNode:
        """Node that the context message shows for them. No model is asked: the agent that archived them knew what to keep.

        Provisional, for nothing has compared the words with the messages (P5); the rung keeps it from being replaced.
        """
        text = text_of(self.archive)
        words = ARCHIVED_WORDS if self.archive.given else "heuristic"
        return NewNode(
            conversation_id, 0, "provisional", text, "", tokens.count(text), self.tokens, self.ids,
            fingerprint(0, self.ids, variant=f"archive:{self.archive.handle}"), "", ARCHIVE_RUNG,
            json.dumps({"archive": self.archive.handle, "words": words}),
        )  # fmt: skip


def handle_of(node: Node) -> str:
    """The archive that a node came from, or ""."""
    return str(node.facts.get("archive") or "") if node.rung == ARCHIVE_RUNG else ""


def latest_request(messages: Sequence[Message], entries: Sequence[Entry]) -> int | None:
    """Place of the user's latest request; text that the host or we wrote in the user's name does not count."""
    for n in range(min(len(messages), len(entries)) - 1, -1, -1):
        message = messages[n]
        if message.get("role") != "user" or (entries[n].own and not entries[n].ids):
            continue
        if not content.is_host_note("user", content.text_of(message.get("content")), message):
            return n
    return None


class ArchivedRanges:
    """Archived ranges as requests show them. One per process and database; holds nothing between calls."""

    def __init__(self, archives: Archives, store: MessageStore, dag: SummaryDag, scopes: Scopes) -> None:
        self._archives = archives
        self._scopes = scopes
        self._store = store
        self._dag = dag

    # -- where they are ---------------------------------------------------------------------------------
    def waits(self, session: Session) -> bool:
        """Is there anything that a request might have to show otherwise?"""
        return bool(self._archives.of(session))

    def of(self, session: Session, transcript: Transcript) -> list[Archive]:
        """The archives that a list may have. Several people may share a session of the API server: those of its own history."""
        found = self._archives.of(session)
        if not found or session.platform.lower() != CLIENTS:
            return found
        shown = {store_id for entry in transcript.entries for store_id in entry.ids}
        if transcript.assembly is not None:
            shown.update(self._dag.messages_below(transcript.assembly.roots))
        return [archive for archive in found if self._archives.request(archive.handle) in shown]

    def runs(self, messages: Sequence[Message], entries: Sequence[Entry], archives: Sequence[Archive]) -> list[Run]:
        """The archived ranges that the list shows as they are, in order, whole groups, never the latest request.

        No two overlap: a range that was archived while a message stood in the midst of another one may hold all of that.
        """
        raw = {store_id for entry in entries for store_id in entry.ids}
        members = [(each, self.members(each)) for each in archives if each.state == ARCHIVED]
        wanted = [(each, ids) for each, ids in members if not raw.isdisjoint(ids)]
        if not wanted:
            return []
        request = latest_request(messages, entries)
        groups = content.groups(messages[: len(entries)])
        out: list[Run] = []
        for archive, ids in wanted:
            shown = [n for n, entry in enumerate(entries) if entry.ids and ids.issuperset(entry.ids)]
            if not shown or any(entry.ids and not ids.issuperset(entry.ids) for entry in entries[shown[0] : shown[-1]]):
                continue
            stop = shown[-1] + 1
            if request is not None and shown[0] <= request < stop:
                stop = request  # after an /undo a request of the range may be the latest one again
            whole = [g for g in groups if g.whole and g.start >= shown[0] and g.stop <= stop]
            if whole:
                out.append(Run(archive, whole[0].start, whole[-1].stop))
        apart: list[Run] = []
        for run in sorted(out, key=lambda run: (run.first, -run.stop)):
            if not apart or run.first >= apart[-1].stop:
                apart.append(run)
        return apart

    def members(self, archive: Archive) -> frozenset[int]:
        """The rows of an archive, and those that replaced one of them since (the host edits messages in place)."""
        ids = set(archive.store_ids)
        new = list(archive.store_ids)
        while new:
            new = [i for i in self._scopes.successors(new, Scope()).values() if i not in ids]
            ids.update(new)
        return frozenset(ids)

    def restored(self, session: Session, transcript: Transcript) -> list[tuple[Archive, Node]]:
        """Archives that a compaction took over and that were restored since, with the nodes that stand for them."""
        back = {archive.handle: archive for archive in self.of(session, transcript) if archive.state == RESTORED}
        if not back or transcript.assembly is None:
            return []
        nodes = self._dag.nodes(transcript.assembly.roots)
        return [(back[handle], node) for node in nodes if (handle := handle_of(node)) in back]

    # -- what a compaction leaves out -------------------------------------------------------------------
    def parted(
        self, session: Session, transcript: Transcript, units: Sequence[Unit], asked: int | None
    ) -> tuple[list[Unit], tuple[Archived, ...]]:
        """(units that no archive stands for, what archives stand for). ``asked``: the unit of the latest request, never archived.

        Messages under a node that was restored come back as units: from now on they are covered like any other.
        """
        live = [archive for archive in self.of(session, transcript) if archive.state == ARCHIVED]
        members = [(archive.handle, self.members(archive)) for archive in live]
        found: dict[str, list[Unit]] = {}
        kept: list[Unit] = []
        gap = False
        for n, unit in enumerate(units):
            owner = next((name for name, ids in members if unit.ids and unit.whole and ids.issuperset(unit.ids)), "")
            if owner and n != asked:
                found.setdefault(owner, []).append(unit)
            else:
                kept.append(replace(unit, behind_gap=True) if gap else unit)
            gap = bool(owner) and n != asked
        archived = tuple(
            Archived(archive, tuple(i for unit in mine for i in unit.ids), sum(unit.tokens for unit in mine))
            for archive in live
            if (mine := found.get(archive.handle))
        )
        back = self._units_back(session, transcript)
        if back and kept:  # other nodes stand between them
            kept[0] = replace(kept[0], behind_gap=True)
        return [*back, *kept], archived

    def _units_back(self, session: Session, transcript: Transcript) -> list[Unit]:
        nodes = in_order(node for _, node in self.restored(session, transcript))
        ids = [i for node in nodes for i in self._dag.sources(node.node_id)]
        heads = self._store.heads_of(ids)
        return [Unit((i,), heads[i].tokens, heads[i].role, heads[i].said_at, -1, 0) for i in ids if i in heads]

    # -- what a request shows ---------------------------------------------------------------------------
    def replacements(self, session: Session, messages: Sequence[Message], transcript: Transcript) -> list[Replacement]:
        """Replacements by which a request differs from the list."""
        archives = self.of(session, transcript)
        if not archives:
            return []
        out: list[Instead] = []
        before: Message | None = None
        runs = self.runs(messages, transcript.entries, archives)
        for n, run in enumerate(runs):
            if not n or runs[n - 1].stop != run.first:
                before = messages[run.first - 1] if run.first else None
            touches = n + 1 < len(runs) and runs[n + 1].first == run.stop
            after = messages[run.stop] if run.stop < len(messages) and not touches else None
            mine = context_message.placeholder(before, after, text_of(run.archive), session.nonce)
            out.append(Instead(run.first, run.stop, mine))
            before = mine[-1]
        return [*out, *self._brought_back(session, messages, transcript, out)]

    def _brought_back(
        self, session: Session, messages: Sequence[Message], transcript: Transcript, hidden: Sequence[Instead]
    ) -> list[Replacement]:
        """Messages of restored nodes in their old place, and the context message without their placeholders."""
        body = messages[0].get("content") if messages else None
        context = body if isinstance(body, str) else ""
        inserts: dict[int, list[dict[str, Any]]] = {}
        for _, node in sorted(self.restored(session, transcript), key=lambda item: item[1].first_pos):
            place = self._place(messages, transcript, node, hidden)
            rows, damaged = self._store.legible(self._dag.sources(node.node_id))
            if (
                place is None
                or damaged
                or content.unpaired(sent := [rewrites.as_sent(row.stored_json) for row in rows])
            ):
                continue
            inserts.setdefault(place, []).extend(sent)
            context = _without(context, node)
        last = {item.stop: item.messages[-1] for item in hidden}
        first = {item.first: item.messages[0] for item in hidden}
        out: list[Replacement] = [Retold(0, context)] if inserts and context else []
        for place, sent in inserts.items():
            before, after = last.get(place, messages[place - 1]), first.get(place, messages[place])
            out.append(Instead(place, place, context_message.inserted(before, sent, after, session.nonce)))
        return out

    def _place(
        self, messages: Sequence[Message], transcript: Transcript, node: Node, hidden: Sequence[Instead]
    ) -> int | None:
        """Place in the live list, in front of which the messages of a node belong."""
        entries = transcript.entries
        heads = self._store.heads_of([entry.ids[0] for entry in entries if entry.ids])
        for group in content.groups(messages[: len(entries)]):
            ids = entries[group.start].ids
            inside = any(item.first < group.start < item.stop for item in hidden)
            if ids and ids[0] in heads and heads[ids[0]].pos > node.last_pos and group.start and not inside:
                return group.start
        return None


def _without(context: str, node: Node) -> str:
    """A context message's text without the block of one node."""
    opening = f'<summary id="{node.address}" '
    at = context.find(opening)
    end = context.find("</summary>", at)
    if at < 0 or end < 0 or context.count(opening) != 1:
        return context
    return f"{context[:at]}{_RESTORED}{context[end + len('</summary>') :]}"


# -- placeholders: the text that stands in a prompt for archived messages --------------------------------
# Everything in it is one line, so that a text which was archived cannot look like a placeholder of its own.
_BLANKS = re.compile(r"\s+")
_SUMMARY_CHARS: Final = 140
_MOST_SUMMARY_CHARS: Final = 4000
_CUT: Final = "...(truncated)"
LEAST_PREVIEW, MOST_PREVIEW = 40, 400


def heuristic(first_text: str, messages: int) -> str:
    """A summary that nobody wrote: the first line that says something, and how much there is."""
    said = next((each.strip() for each in first_text.splitlines() if each.strip()), "(no text)")
    said = said if len(said) <= _SUMMARY_CHARS else said[: _SUMMARY_CHARS - 1] + "…"
    return f"{said} ({messages} msgs)"


def given(summary: str) -> str:
    """The agent's summary, as one line of bearable length."""
    text = line(summary)
    return text if len(text) <= _MOST_SUMMARY_CHARS else text[: _MOST_SUMMARY_CHARS - len(_CUT)] + _CUT


def preview(lines: list[tuple[str, str]], most_chars: int) -> str:
    """Preview of the range: role and first words, at most so many characters."""
    most = max(LEAST_PREVIEW, min(MOST_PREVIEW, most_chars))
    text = " ".join(f"{role.capitalize()}: {line(said[: most + 20])}" for role, said in lines if said.strip())
    return text if len(text) <= most else text[:most] + _CUT


def line(text: str) -> str:
    """A text on one line; double brackets in it do not open or close a placeholder."""
    return _BLANKS.sub(" ", text).replace("[[", "[ [").replace("]]", "] ]").strip()
