"""
Pushing: rows of the outbox to the shared server, in order and in batches; each batch is one transaction there.

A row that the server has under its number and digest is not stored again; so an interrupted batch is pushed again. Payload files
travel inside the messages that show them. Nothing here waits for anything but the server, and no transaction of the local
file is open meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from ..records import ARCHIVE_RUNG, PURGED_RUNG, PURGED_WORDS, Flag, Row
from ..search.documents import index_text, searchable, stored_index_row
from ..search.query import stems
from ..session import INHERITS, alone, inherited_as, is_alone
from ..storage.connection import marks, padded
from ..storage.meta import Meta
from ..storage.packing import pack
from ..text.content import encode
from .covered import GONE, without_words
from .numbers import Numbers
from .objects import is_elsewhere, objects_of
from .outbox import BLOCK, NUMBERED, Entry, Outbox, State
from .schema import COLUMNS
from .server import cannot_hold, refuses, said

if TYPE_CHECKING:
    from psycopg import Connection

    from ..recall.access import Access

_BATCH: Final = 1_000
_BATCH_CHARS: Final = 8_000_000
_MOST_WORDS, _MOST_WORD_CHARS = 5_000, 64
#: Of all words of a message; PostgreSQL takes a million or so.
_MOST_WORD_BYTES: Final = 1_000_000
#: Flags that say nothing of the message elsewhere.
_OF_HERE: Final = Flag.COLLECTED | Flag.PINNED

_CONVERSATION: Final = """
SELECT c.conversation_id, c.nonce, c.principal, p.nonce, c.fork_seq, c.created_at
  FROM conversations c LEFT JOIN conversations p ON p.conversation_id = c.parent_id WHERE c.conversation_id IN ({})
"""
_SESSIONS: Final = """
SELECT session_key, conversation_id, session_id, parent_session_id, origin, platform, host_key, mode, model, started_at, ended_at,
       end_reason, compactions FROM sessions WHERE session_key IN ({})
"""
_NODES: Final = """
SELECT node_id, conversation_id, depth, quality, text, expand_hint, tokens, source_tokens, fingerprint, model, rung, checks,
       created_at, replaces FROM nodes WHERE node_id IN ({})
"""
_SOURCES: Final = (
    "SELECT node_id, store_id, child_id FROM node_sources WHERE node_id IN ({}) ORDER BY node_id, position"
)
_ASSEMBLIES: Final = """
SELECT assembly_id, conversation_id, session_id, roots, tail_ids, last_seq, last_pos, created_at, digest
  FROM assemblies WHERE assembly_id IN ({})
"""
_ARCHIVES: Final = """
SELECT archive_id, conversation_id, handle, session_id, store_ids, first_index, last_index, messages, summary, given, preview,
       chars, tokens, state, created_at, changed_at FROM archives WHERE archive_id IN ({})
"""
_CARRIED: Final = "SELECT conversation_id, conversation_id, node_id FROM carried WHERE conversation_id IN ({})"
_KEYS: Final = "SELECT nonce, conversation FROM lcm.conversations WHERE nonce = ANY(%s)"

# One statement for a batch: the policies' question is asked once for it. {0}: columns, {1}: their arrays.
_OPEN: Final = """
INSERT INTO lcm.conversations(nonce, owner, parent, fork_seq, created_at, inherits)
VALUES (%(nonce)s, %(owner)s, %(parent)s, %(fork_seq)s, %(created_at)s, %(inherits)s)
ON CONFLICT(nonce) DO UPDATE SET fork_seq = excluded.fork_seq, inherits = coalesce(excluded.inherits, conversations.inherits),
  owner = CASE WHEN (SELECT name LIKE %(nobody)s AND name <> %(whose)s FROM lcm.principals p WHERE p.owner = conversations.owner)
          THEN excluded.owner ELSE conversations.owner END
RETURNING conversation, owner, (SELECT name FROM lcm.principals p WHERE p.owner = conversations.owner)
"""
#: What rows say that lie elsewhere.
_NAMES: Final = """
SELECT m.conversation, m.id, c.nonce, CASE WHEN substr(m.envelope, 1, 1) = '\\xff' THEN m.envelope ELSE '' END
  FROM unnest(%s::bigint[], %s::bigint[]) AS t(conversation, id) JOIN lcm.messages m USING(conversation, id)
  JOIN lcm.conversations c USING(conversation)
"""
#: What one host took out of a message no other host brings back that still has it.
_LESS: Final = (
    f"CASE WHEN messages.flags & {int(Flag.REDACTED)} > excluded.flags & {int(Flag.REDACTED)} THEN messages.{{0}} "
    "ELSE excluded.{0} END"
)
_ON_CONFLICT: Final = {
    "sessions": "ON CONFLICT(conversation, session_id) DO UPDATE SET platform = excluded.platform, host_key = excluded.host_key, "
    "mode = excluded.mode, model = excluded.model, ended_at = excluded.ended_at, end_reason = excluded.end_reason, "
    "compactions = greatest(sessions.compactions, excluded.compactions)",
    "messages": f"ON CONFLICT(conversation, id) DO UPDATE SET flags = excluded.flags | (messages.flags & {int(Flag.REDACTED)}), "
    f"revises = excluded.revises, envelope = {_LESS.format('envelope')}, words = {_LESS.format('words')} "
    f"WHERE messages.digest = excluded.digest AND messages.flags & {int(Flag.PURGED)} = 0",
    "nodes": "ON CONFLICT(conversation, id) DO UPDATE SET text = excluded.text, expand_hint = excluded.expand_hint, "
    "tokens = excluded.tokens, quality = excluded.quality, model = excluded.model, rung = excluded.rung, "
    "checks = excluded.checks, fingerprint = excluded.fingerprint WHERE excluded.rung = 'purged'",
    "assemblies": "ON CONFLICT(conversation, id) DO UPDATE SET digest = excluded.digest",
    "archives": "ON CONFLICT(conversation, handle) DO UPDATE SET state = excluded.state, changed_at = excluded.changed_at",
}
_TYPES: Final = (
    dict.fromkeys("id conversation seq revises replaces last_seq".split(), "bigint")
    | dict.fromkeys(
        "owner tokens chars flags depth source_tokens compactions first_index last_index messages given".split(), "int"
    )
    | dict.fromkeys("pos said_at stored_at created_at changed_at last_pos started_at ended_at".split(), "float8")
    | dict.fromkeys(("digest", "envelope", "fingerprint"), "bytea")
)
#: Rows that no push changes. Left out beforehand: a policy refuses them, and PostgreSQL 15.20 asks the policies before it looks
#: at the condition of an upsert.
_SETTLED: Final = {
    "messages": f"s.flags & {int(Flag.PURGED)} <> 0",
    "nodes": "NOT (t.rung = 'purged' AND (s.rung = 'purged' "
    f"OR EXISTS (SELECT FROM lcm.blocks b WHERE b.block = s.id / {BLOCK}))) "
    f"OR (t.text = '{GONE}' AND s.rung = 'purged')",
}
#: Columns that travel as text, and what the server makes of them.
_MADE: Final = {"words": "array_to_tsvector(string_to_array({}, ' '))"} | dict.fromkeys(
    ("sources", "roots", "tail_ids", "store_ids"), "{}::bigint[]"
)


@dataclass(slots=True)
class Pushed:
    """Counts of one call. ``conflicts``: numbers under which the server has other rows; ``unreadable``, ``held`` elsewhere:
    rows of here; ``refused``: names of conversations that the server does not take, and why.
    """

    rows: int = 0
    messages: int = 0
    conflicts: list[int] = field(default_factory=list)
    unreadable: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


class _RefusedError(Exception):
    """The server has a conversation as somebody else's, or cannot hold a row of it."""

    def __init__(self, conversation_id: int, why: str = "the server has it as somebody else's") -> None:
        super().__init__(why)
        self.conversation_id, self.why = conversation_id, why


class _TakenError(Exception):
    """The server has some numbers for other rows, since the state was looked at."""


class Pusher:
    """Pushes one database over one connection. ``renumber``: looks at the state anew, and gives other numbers to rows."""

    def __init__(
        self,
        deps: Access,
        outbox: Outbox,
        state: State,
        connection: Connection[tuple[Any, ...]],
        renumber: Callable[[], State],
    ) -> None:
        self._deps, self._outbox, self._state, self._server = deps, outbox, state, connection
        self._renumber, self._numbers_there = renumber, Numbers(deps.db, outbox, connection)
        self._opened: dict[int, tuple[int, int]] = {}
        self._refused: set[int] = set()
        self._apart = False  # each conversation's rows in a statement of their own, which tells whose cannot be held
        self._after = 0  # the last entry that was looked at; those of refused conversations stay
        self._objects = objects_of(deps.config.fleet_objects)
        self._json_texts: dict[int, bytes] = {}
        self._came = set[tuple[str, int]]()
        self.out = Pushed()

    def step(self) -> bool:
        """One batch; False: nothing waits but what the server refuses."""
        entries = self._outbox.oldest_entries(_BATCH, self._after)
        if not entries:
            return self._outbox.fill(_BATCH)
        self._came = self._came_from_there(entries)
        rows, entries = self._within_chars(entries)
        self._json_texts = {row.store_id: self._stored_json(row) for row in rows}
        while True:
            left, counted = set[int](), deepcopy(self.out)
            try:
                with self._server.transaction():  # the mark first: its lock lets another copy of this file wait
                    self._server.execute("SELECT lcm.mark(%s, %s)", (self._state.blocks[-1], self._state.mark + 1))
                    self._refuse_taken(entries)
                    self._opened = {}
                    left = self._write(entries, rows)
                break
            except _RefusedError as exc:
                self._refused.add(exc.conversation_id)
                self.out = counted
                self.out.refused[self._read(_CONVERSATION, [exc.conversation_id])[0][1]] = exc.why
            except _TakenError:
                self._state = self._renumber()
                return True
            except Exception as exc:
                if cannot_hold(exc) and not self._apart:
                    self._apart, self.out = True, counted
                    continue
                raise
        self._state = replace(self._state, mark=self._state.mark + 1)
        self._forget_objects([row for row in rows if row.head.conversation_id not in self._refused])
        self._after = entries[-1].n
        self._outbox.done([entry for entry in entries if entry.n not in left], self._state)
        return True

    # -- reading here ---------------------------------------------------------------------------------------
    def _within_chars(self, entries: list[Entry]) -> tuple[list[Row], list[Entry]]:
        """The messages of a batch, and as many of its entries as are not too much for one transaction."""
        numbers = [entry.id for entry in entries if entry.kind == "messages" and self._is_news(entry)]
        heads = self._deps.store.heads_of(numbers)
        total = 0
        for n, entry in enumerate(entries):
            total += heads[entry.id].chars if entry.kind == "messages" and entry.id in heads else 0
            if total > _BATCH_CHARS and n:
                entries = entries[:n]
                break
        wanted = {entry.id for entry in entries if entry.kind == "messages"}
        rows, damaged = self._deps.store.legible([n for n in dict.fromkeys(numbers) if n in wanted and n in heads])
        self.out.unreadable += damaged
        return rows, entries

    def _is_news(self, entry: Entry) -> bool:
        """Is it news for the server, and no row that came from there and has not changed since?"""
        return (entry.kind, entry.id) not in self._came

    def _refuse_taken(self, entries: Sequence[Entry]) -> None:
        """Raise _TakenError where the server has own numbers of new rows for others: a copy of the file was faster."""
        for kind in NUMBERED:
            new = [each.id for each in entries if each.fresh and each.kind == kind and self._state.is_own(each.id)]
            if self._numbers_there.clash(self._state, kind, new):
                raise _TakenError

    def _came_from_there(self, entries: Sequence[Entry]) -> set[tuple[str, int]]:
        """New rows under numbers of other hosts that the server has; a stand-in gives numbers that no server gave."""
        out = set[tuple[str, int]]()
        changed = {(each.kind, each.id) for each in entries if not each.fresh}
        for kind in NUMBERED:
            new = [each.id for each in entries if each.fresh and each.kind == kind]
            others = {n: each for each in new if not self._state.is_own(n := self._state.to_fleet(kind, each))}
            if others:
                rows = self._server.execute(f"SELECT id FROM lcm.{kind} WHERE id = ANY(%s)", (list(others),)).fetchall()
                out |= {(kind, others[row[0]]) for row in rows}
        return out - changed

    def _read(self, sql: str, numbers: Iterable[int]) -> list[tuple[Any, ...]]:
        wanted = padded(sorted(set(numbers)))
        return self._deps.db.query(sql.format(marks(len(wanted))), wanted) if wanted else []

    def _stored_json(self, row: Row) -> bytes:
        """Stored JSON as the server's row holds it; a large one goes to the object store before the row names it."""
        packed = pack(encode(row.stored_json)[0])
        if self._objects is None or len(packed) <= self._deps.config.fleet_object_bytes:
            return packed
        nonce = self._read(_CONVERSATION, [row.head.conversation_id])[0][1]
        return self._objects.keep(self._state.to_fleet("messages", row.store_id), packed, nonce)

    def _forget_objects(self, rows: Sequence[Row]) -> None:
        """Remove objects that no row names: the message says less than it did, or the server did not take it."""
        if self._objects is None:
            return
        stored = {
            (self._opened[row.head.conversation_id][0], self._number("messages", row.store_id)): row
            for row in rows if row.head.flags & Flag.REDACTED or is_elsewhere(self._json_texts[row.store_id])
        }  # fmt: skip
        if not stored:
            return
        for home, number, nonce, there in self._server.execute(_NAMES, [[*each] for each in zip(*stored, strict=True)]):
            row = stored[home, number]
            if row.head.flags & Flag.REDACTED or there != self._json_texts[row.store_id]:
                self._objects.forget(number, nonce, but=there)

    # -- writing there --------------------------------------------------------------------------------------
    def _write(self, entries: Sequence[Entry], messages: Sequence[Row]) -> set[int]:
        """Write a batch; which entries are left, because their conversation is refused."""
        ids: dict[str, list[int]] = {}
        for entry in entries:
            if entry.kind not in ("nodes", "assemblies") or self._is_news(entry):
                ids.setdefault(entry.kind, []).append(entry.id)
        read = {kind: self._read(sql, ids.get(kind, ())) for kind, sql in _READS.items()}
        left = {("messages", row.store_id) for row in messages if row.head.conversation_id in self._refused}
        left |= {(kind, row[0]) for kind, rows in read.items() for row in rows if row[1] in self._refused}
        left |= {("conversations", each) for each in self._refused}
        messages = [row for row in messages if row.head.conversation_id not in self._refused]
        read = {kind: [row for row in rows if row[1] not in self._refused] for kind, rows in read.items()}
        rows = [row for each in read.values() for row in each]
        self._open(
            {*ids.get("conversations", ()), *(row[1] for row in rows), *(row.head.conversation_id for row in messages)}
            - self._refused
        )
        self._sessions(read["sessions"])
        messages = self._without_held(messages)
        self._messages(messages)
        self._hold(messages)
        nodes, archives = without_words(
            self._deps.db, self._server, read["nodes"], read["archives"], self._state.to_fleet
        )
        self._nodes(nodes)
        self._assemblies(read["assemblies"])
        self._archives(archives)
        self._put("carried", [(*self._place(row), self._number("nodes", row[2])) for row in read["carried"]])
        waiting = {entry.n for entry in entries if (entry.kind, entry.id) in left}
        self.out.rows += len(entries) - len(waiting)
        return waiting

    def _open(self, conversations: Iterable[int]) -> None:
        """The server's keys of conversations, made where they are new. Raises _RefusedError.

        In one order for all hosts, which is that of a purge, too: of two that change the same ones, one waits, and never both.
        """
        meta, rows = Meta(self._deps.db), self._read(_CONVERSATION, conversations)
        known = dict(self._server.execute(_KEYS, ([row[1] for row in rows],)).fetchall())
        for row in sorted(rows, key=lambda row: (known.get(row[1], inf), row[1])):
            inherits = meta.value(INHERITS.format(row[0]))
            with _of_conversation(row[0]):
                owner = self._server.execute("SELECT lcm.owner_of(%s)", (row[2],)).fetchone()
            given = {
                "nonce": row[1], "whose": row[2], "nobody": alone("%"), "parent": row[3], "fork_seq": row[4],
                "created_at": row[5], "owner": owner[0] if owner else None, "inherits": self._inherits(inherits),
            }  # fmt: skip
            try:
                with _of_conversation(row[0]):
                    found = self._server.execute(_OPEN, given).fetchone()
            except Exception as exc:
                if refuses(exc):
                    raise _RefusedError(row[0]) from exc
                raise
            if found is None or (found[2] != row[2] and not is_alone(row[2])):
                raise _RefusedError(row[0])
            self._opened[row[0]] = (int(found[0]), int(found[1]))

    def _inherits(self, known: Any) -> str | None:
        """Inherited stretches of a branch, in numbers of the fleet; conversations by their nonces."""
        if not known:
            return None
        nonces = {
            row[0]: row[1]
            for row in self._read(_CONVERSATION, [c for key in ("cuts", "full") for c, *_ in known.get(key, ())])
        }
        return json.dumps(inherited_as(known, nonces.get, partial(self._state.to_fleet, "messages")))

    def _number(self, kind: str, number: int | None) -> int | None:
        return None if number is None else self._state.to_fleet(kind, number)

    def _numbers(self, kind: str, numbers: Iterable[int]) -> str:
        """A PostgreSQL array."""
        return _array(self._state.to_fleet(kind, number) for number in numbers)

    def _place(self, row: Sequence[Any]) -> tuple[int, int]:
        return self._opened[row[1]]

    def _sessions(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._put("sessions", [(*self._place(row), *row[2:]) for row in rows])

    def _without_held(self, rows: Sequence[Row]) -> list[Row]:
        """Messages but those that a policy of here emptied and another host holds: the server keeps them whole."""
        less = {
            (self._opened[row.head.conversation_id][0], self._number("messages", row.store_id)): row.store_id
            for row in rows if row.head.flags & (Flag.PURGED | Flag.REDACTED)
        }  # fmt: skip
        if not less:
            return [*rows]
        sql = "SELECT home, id FROM lcm.held(%s::bigint[], %s::bigint[]) WHERE role <> session_user"
        found = self._server.execute(sql, [[*column] for column in zip(*less, strict=True)]).fetchall()
        held = {less[home, number] for home, number in found}
        self.out.held += held
        return [row for row in rows if row.store_id not in held]

    def _hold(self, rows: Sequence[Row]) -> None:
        """Messages that are held here are held in the fleet; those that changed and are not, are not by this role."""
        places = [(*self._opened[row.head.conversation_id], row) for row in rows]
        held = [(c, owner, row) for c, owner, row in places if row.head.flags & Flag.PINNED]
        self._put("holds", [
            (c, owner, row.head.session_id, self._number("messages", row.store_id)) for c, owner, row in held],
            "session_id id")  # fmt: skip
        free = [self._number("messages", row.store_id) for row in rows if not row.head.flags & Flag.PINNED]
        self._server.execute("SELECT lcm.let_go(%s::bigint[], '{}')", (free,))

    def _messages(self, rows: Sequence[Row]) -> None:
        out = []
        for row in rows:
            h = row.head
            out.append((
                *self._opened[h.conversation_id], self._number("messages", h.store_id), h.session_id, h.seq, h.pos, h.role,
                h.tool_name, h.tool_call_id, h.digest, h.tokens, h.chars, h.said_at, h.stored_at, h.source, h.flags & ~_OF_HERE,
                self._number("messages", h.revises), self._json_texts[row.store_id], _words(row),
            ))  # fmt: skip
        if self._put("messages", out, f"{COLUMNS['messages']} words") < len(out):
            self._note_conflicts(out)
        self.out.messages += len(out)

    def _note_conflicts(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Numbers under which the server has another message: this file was restored, or copied to another machine."""
        sql = "SELECT id, digest FROM lcm.messages WHERE id = ANY(%s)"
        there = dict(self._server.execute(sql, ([row[2] for row in rows],)).fetchall())
        self.out.conflicts += [row[2] for row in rows if there.get(row[2]) != row[9]]

    def _nodes(self, rows: Sequence[tuple[Any, ...]]) -> None:
        below: dict[int, list[int]] = {}
        for node_id, store_id, child_id in self._read(_SOURCES, (row[0] for row in rows)):
            number = self._number("messages", store_id) if child_id is None else self._number("nodes", child_id)
            below.setdefault(node_id, []).append(number or 0)
        rows = [(*row[:10], PURGED_RUNG, "{}", *row[12:]) if _is_emptied_archive(row) else row for row in rows]
        out = [
            (
                *self._place(row),
                self._number("nodes", row[0]),
                *row[2:13],
                self._number("nodes", row[13]),
                _array(below.get(row[0], ())),
            )
            for row in rows
        ]
        self._put("nodes", out)

    def _assemblies(self, rows: Sequence[tuple[Any, ...]]) -> None:
        out = [
            (
                *self._place(row), self._number("assemblies", row[0]), row[2], self._numbers("nodes", json.loads(row[3])),
                self._numbers("messages", json.loads(row[4])), *row[5:],
            )
            for row in rows
        ]  # fmt: skip
        self._put("assemblies", out)

    def _archives(self, rows: Sequence[tuple[Any, ...]]) -> None:
        out = [(*self._place(row), *row[2:4], self._numbers("messages", json.loads(row[4])), *row[5:]) for row in rows]
        self._put("archives", out)

    def _put(self, table: str, rows: Sequence[tuple[Any, ...]], columns: str = "") -> int:
        """Insert rows; how many are new or were changed. ``columns``: where not ``COLUMNS``."""
        if not rows:
            return 0
        names = ("conversation", "owner", *(columns or COLUMNS[table]).split())
        rows = (
            list({(row[0], row[2]): row for row in rows}.values())
            if table not in ("carried", "holds")
            else list(dict.fromkeys(rows))
        )
        arrays = ", ".join(f"%s::{_TYPES.get(name, 'text')}[]" for name in names)
        values = ", ".join(_MADE.get(name, "{}").format(f"t.{name}") for name in names)
        sql = (
            f"INSERT INTO lcm.{table}({', '.join(names)}) SELECT {values} FROM unnest({arrays}) AS t({', '.join(names)}) "
            f"{_without_settled(table)} {_ON_CONFLICT.get(table, 'ON CONFLICT DO NOTHING')}"
        )
        if not self._apart:
            return self._insert(sql, rows)
        count, conversations = 0, {home: conversation_id for conversation_id, (home, _) in self._opened.items()}
        for home, part in groupby(sorted(rows, key=itemgetter(0)), itemgetter(0)):
            with _of_conversation(conversations[home]):
                count += self._insert(sql, [*part])
        return count

    def _insert(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> int:
        columns_of = [[plain(value) for value in column] for column in zip(*rows, strict=True)]
        return self._server.execute(sql, columns_of).rowcount


@contextmanager
def _of_conversation(conversation_id: int) -> Iterator[None]:
    """A statement on one conversation. Raises _RefusedError where the server cannot hold what it says."""
    try:
        yield
    except Exception as exc:
        if cannot_hold(exc):
            raise _RefusedError(conversation_id, f"the server cannot hold it: {said(exc)}") from exc
        raise


_READS: Final = {
    "sessions": _SESSIONS, "nodes": _NODES, "assemblies": _ASSEMBLIES, "archives": _ARCHIVES, "carried": _CARRIED,
}  # fmt: skip


def _without_settled(table: str) -> str:
    settled = _SETTLED.get(table)
    there = f"SELECT FROM lcm.{table} s WHERE s.conversation = t.conversation AND s.id = t.id AND ({settled})"
    return f"WHERE NOT EXISTS ({there})" if settled else ""


def _is_emptied_archive(node: Sequence[Any]) -> bool:
    """Does it stand for an archive, in words that a purge left here? There it is a summary like others that were emptied."""
    return bool(node[10] == ARCHIVE_RUNG and f'"{PURGED_WORDS}"' in node[11])


def plain(value: Any) -> Any:
    """PostgreSQL keeps no NUL in a text."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value


def _array(numbers: Iterable[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def _words(row: Row) -> str:
    """The stems of a message as the search index has them, each once; "" for what no search finds."""
    if row.head.flags & Flag.FILTERED:
        return ""
    entry = stored_index_row(row)
    found = dict.fromkeys(stems(index_text(searchable(entry.text, entry.extra))))
    said = " ".join([word for word in found if len(word) <= _MOST_WORD_CHARS][:_MOST_WORDS])
    whole = said.encode()[:_MOST_WORD_BYTES].decode(errors="ignore")
    return said if whole == said else whole.rpartition(" ")[0]
