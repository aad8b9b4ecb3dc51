"""
Pulling: a conversation of the shared server into the local file, exactly: rows, summaries, prompts and archives.

What comes is written into a database of its own first, in memory, and merged from there like a stand-in's file; so what is here
already stays as it is, an interrupted pull is done again, and one that is killed leaves no file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..archive.ranges import ARCHIVED, Archive
from ..errors import FleetError, FleetUnavailable, StoreBusy, StoreError, StoreFull, StoreReadOnly, worded
from ..importers.adopt import parts_on
from ..importers.merge import Merged, merge
from ..records import Flag
from ..session import INHERITS, inherited_as, is_alone
from ..storage.connection import Database
from ..storage.disk import in_memory
from .covered import GONE
from .objects import ODD, fetched, objects_of
from .outbox import BLOCK, NOW, NUMBERED, Outbox, Seen, State
from .schema import COLUMNS

if TYPE_CHECKING:
    from psycopg import Connection

    from ..recall.access import Access

#: Those of sub-agents last: whose they are is known by then, whatever the clocks said.
_CHANGED: Final = """
SELECT nonce, changed FROM lcm.conversations
 WHERE changed >= %(since)s AND (%(own)s OR writers <> ARRAY[session_user]::name[])
   AND (nonce = ANY(%(known)s) OR changed_at > now() - make_interval(days => %(days)s))
 ORDER BY EXISTS (SELECT FROM lcm.sessions s WHERE s.conversation = conversations.conversation AND s.origin = 'subagent'),
       created_at
"""
_CONVERSATION: Final = """
SELECT c.conversation, c.nonce, p.name, c.parent, c.fork_seq, c.created_at, c.inherits
  FROM lcm.conversations c JOIN lcm.principals p USING(owner) WHERE c.nonce = ANY(%s)
"""
_NAMED: Final = """
SELECT s.session_id, p.name FROM lcm.sessions s JOIN lcm.principals p USING(owner)
 WHERE s.session_id IN (SELECT session_id FROM lcm.sessions WHERE conversation = ANY(%s)) ORDER BY s.conversation
"""
#: Which of some messages the fleet purged.
_PURGED: Final = """
SELECT DISTINCT t.id FROM lcm.purges p, unnest(p.ids) AS t(id) WHERE p.conversation = ANY(%s) AND t.id = ANY(%s::bigint[])
"""


@dataclass(slots=True)
class Pulled:
    """Counts of one call. ``refused``: names of conversations that cannot be taken in, and why, of earlier calls too."""

    conversations: int = 0
    messages: int = 0
    nodes: int = 0
    refused: dict[str, str] = field(default_factory=dict)


class Puller:
    """Pulls into one database over one connection. ``new_block``: asks the server for numbers beyond a block."""

    def __init__(
        self,
        deps: Access,
        outbox: Outbox,
        state: State,
        connection: Connection[tuple[Any, ...]],
        new_block: Callable[[int], int],
        seen: Seen,
        refused: dict[str, str],
    ) -> None:
        self._deps, self._outbox, self.state, self._server = deps, outbox, state, connection
        self._new_block, self._seen = new_block, seen
        self.out = Pulled(refused=refused)

    def changes(self, days: int) -> Pulled:
        """Rows that others wrote since the last call, in conversations that are known here or changed in so many days."""
        until = self._server.execute(NOW).fetchall()[0][0]
        known = [row[0] for row in self._deps.db.query("SELECT nonce FROM conversations")]
        given = {"since": self.state.pulled, "known": known, "days": days, "own": self.state.lacks_own}
        changed = dict(self._server.execute(_CHANGED, given).fetchall())
        for nonce in self._seen.news(self.state.pulled, changed):
            self.conversation(nonce)
        self._seen.done(until, changed)
        self._outbox.change(pulled=until, lacks_own=False)
        return self.out

    def session(self, session_id: str) -> Pulled:
        """The conversations of a session. None where no row of it may be read."""
        sql = "SELECT DISTINCT c.nonce FROM lcm.sessions s JOIN lcm.conversations c USING(conversation) WHERE s.session_id = %s"
        for (nonce,) in self._server.execute(sql, (session_id,)).fetchall():
            self.conversation(nonce)
        return self.out

    def conversation(self, nonce: str) -> None:
        """One conversation and those that it rests on. What cannot be taken in is told, and holds back no other."""
        with self._outbox.fetching():
            self._fetch(nonce)

    def _fetch(self, nonce: str) -> None:
        with self._server.transaction():
            self._server.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            chain = self._chain(nonce)
            keys = [row[0] for row in chain]
            if not self._lacks({table: self._rows(sql, keys) for table, sql in _NUMBERS.items()}, keys):
                return
            tables = {table: self._rows(sql, keys) for table, sql in _TABLES.items()}
            named = dict(reversed([(row[0], row[1]) for row in self._rows(_NAMED, keys)]))
            shown = [each for row in tables["archives"] for each in row[3]]
            tables["purged"] = self._server.execute(_PURGED, (keys, shown)).fetchall() if shown else []
        self._leave_out_twins(tables)
        if not self._lacks(tables, keys):
            return
        greatest = max((row[1] for kind in NUMBERED for row in tables[kind]), default=0) // BLOCK
        if greatest > self.state.blocks[-1]:  # SQLite counts on from it: that must be one of this database's own
            self.state = self._outbox.take_block(self.state, self._new_block(greatest))
        if greatest > self.state.blocks[-1]:
            self.out.refused[nonce] = "it has numbers that no server gave"
            return
        try:
            self._refuse_of_others(chain, tables["sessions"], named)
            done = self._take(chain, tables)
        except (FleetUnavailable, StoreError):
            raise
        except ODD as exc:  # rows are as another host wrote them, or who stole its role
            self.out.refused[nonce] = worded(exc)
            return
        self.out.refused.pop(nonce, None)
        self.out.conversations += 1
        self.out.messages += done.messages
        self.out.nodes += done.nodes

    def _leave_out_twins(self, tables: dict[str, list[tuple[Any, ...]]]) -> None:
        """Of a message that two copies of a file sent, each under its own number, keep the one that is here, or the first."""
        same: dict[tuple[Any, ...], list[int]] = {}
        for row in tables["messages"]:
            same.setdefault((row[0], row[1] % BLOCK, row[8], row[12]), []).append(row[1])
        twins = [numbers for numbers in same.values() if len(numbers) > 1]
        if not twins:
            return
        to_here = self.state.to_here
        here = self._deps.store.heads_of([to_here("messages", number) for numbers in twins for number in numbers])
        kept: dict[int, int] = {}
        for numbers in twins:
            one = next((number for number in numbers if to_here("messages", number) in here), numbers[0])
            kept.update((number, one) for number in numbers if number != one)
        tables["messages"] = [
            (*row[:15], kept.get(row[15], row[15]), row[16]) for row in tables["messages"] if row[1] not in kept
        ]
        for table, column in (("nodes", 14), ("assemblies", 4), ("archives", 3)):
            tables[table] = [
                row if table == "nodes" and row[2] else (*row[:column], _named(row[column], kept), *row[column + 1 :])
                for row in tables[table]
            ]

    def _take(self, chain: Sequence[tuple[Any, ...]], tables: dict[str, list[tuple[Any, ...]]]) -> Merged:
        objects = objects_of(self._deps.config.fleet_objects)
        tables["messages"] = [(*row[:16], fetched(objects, row[16])) for row in tables["messages"]]
        other = Database(self._deps.db.path)
        other.use(in_memory())
        try:
            there = parts_on(self._deps, other)
            try:
                self._write(other, chain, tables)
            except (StoreBusy, StoreFull, StoreReadOnly):
                raise
            except StoreError as exc:
                raise FleetError(f"it has rows that no host writes: {worded(exc)}") from exc
            last = self._outbox.last_entry()
            with self._deps.db.steady():
                done = merge(self._deps, there, gathered=True)
        finally:
            other.close()
        for kind in NUMBERED:
            self._outbox.drop_fresh(kind, last, (self.state.to_here(kind, row[1]) for row in tables[kind]))
        self._archives(tables)
        self._outbox.recount()
        return done

    def _refuse_of_others(
        self, chain: Sequence[tuple[Any, ...]], sessions: Sequence[tuple[Any, ...]], named: dict[str, str]
    ) -> None:
        """Raise FleetError where rows of one person would join a conversation of another, by its name or by a session's.

        ``named``: whose a session is on the server, by who was first there with it.
        """
        mine = self._deps.sessions
        for key, nonce, principal, *_ in chain:
            same = mine.nonce_owner(nonce)
            ids = [row[1] for row in sessions if row[0] == key]
            for each in ids:
                if principal != named[each] and not (is_alone(principal) or is_alone(named[each])):
                    raise FleetError(f"it has {each}, which is {named[each]}'s on the server")
            found = [mine.find(each) for each in ids]
            for each in filter(None, [*(mine.of_conversation(same) if same is not None else ()), *found]):
                unclaimed = is_alone(principal) or (each.unclaimed and each.conversation_id == same)
                if each.principal != principal and not unclaimed:
                    raise FleetError(
                        f"it is {principal}'s on the server, and {each.session_id} is {each.principal}'s here"
                    )

    def _rows(self, sql: str, keys: Sequence[int]) -> list[tuple[Any, ...]]:
        return self._server.execute(sql, (list(keys),)).fetchall()

    def _chain(self, nonce: str) -> list[tuple[Any, ...]]:
        """Rows of a conversation, of those that it branched off, and of those whose summaries it carries; these first.

        A clock that is wrong makes no branch older than what it branched off.
        """
        found: dict[str, tuple[Any, ...]] = {}
        waiting = [nonce]
        while waiting:
            for row in self._server.execute(_CONVERSATION, (waiting,)).fetchall():
                found[row[1]] = row
            keys = [row[0] for row in found.values()]
            carried = self._rows(
                "SELECT DISTINCT c.nonce FROM lcm.carried k JOIN lcm.nodes n USING(id) JOIN lcm.conversations c "
                "ON c.conversation = n.conversation WHERE k.conversation = ANY(%s) AND n.owner = k.owner",
                keys,
            )
            wanted = {row[3] for row in found.values() if row[3]} | {row[0] for row in carried}
            waiting = sorted(wanted - set(found)) if wanted - set(found) != set(waiting) else []
        out: dict[str, tuple[Any, ...]] = {}
        for row in sorted(found.values(), key=lambda row: (row[5], row[0])):
            line = [row]
            while (above := found.get(line[-1][3])) is not None and above not in line:
                line.append(above)
            out.update((each[1], each) for each in reversed(line) if each[1] not in out)
        return [*out.values()]

    def _lacks(self, tables: dict[str, list[tuple[Any, ...]]], keys: Sequence[int]) -> bool:
        """Is there a row that is not here?"""
        for kind, key in NUMBERED.items():
            wanted = [self.state.to_here(kind, row[1]) for row in tables[kind]]
            sql = f"SELECT count(*) FROM {kind} WHERE {key} IN (SELECT value FROM json_each(?))"
            if int(self._deps.db.query(sql, (json.dumps(wanted),))[0][0]) < len(wanted):
                return True
        handles = [row[1] for row in tables["archives"] if row[12] == ARCHIVED]
        sql = "SELECT count(DISTINCT handle) FROM archives WHERE handle IN (SELECT value FROM json_each(?))"
        return bool(keys) and int(self._deps.db.query(sql, (json.dumps(handles),))[0][0]) < len(set(handles))

    # -- the file that is merged -----------------------------------------------------------------------------
    def _write(
        self, other: Database, chain: Sequence[tuple[Any, ...]], tables: dict[str, list[tuple[Any, ...]]]
    ) -> None:
        here = self.state.to_here
        homes = {row[0]: n for n, row in enumerate(chain, 1)}
        by_nonce = {row[1]: homes[row[0]] for row in chain}
        with other.unreferenced():
            for row in chain:
                _insert(other, "conversations", _OF_CONVERSATIONS, [
                    (homes[row[0]], by_nonce.get(row[3]), row[4], row[2], row[1], row[5])])  # fmt: skip
                if row[6]:
                    known = inherited_as(json.loads(row[6]), lambda c: by_nonce.get(c, 0), partial(here, "messages"))
                    other.execute("INSERT INTO meta(key, value) VALUES (?, ?)", (
                        INHERITS.format(homes[row[0]]), json.dumps(known)))  # fmt: skip
            whose = {homes[row[0]]: row[2] for row in chain}
            sessions = [
                (n, homes[row[0]], *row[1:6], whose[homes[row[0]]], *row[6:])
                for n, row in enumerate(tables["sessions"], 1)
            ]
            _insert(other, "sessions", _OF_SESSIONS, sessions)
            keys = {(row[1], row[2]): row[0] for row in sessions}
            _insert(other, "messages", _OF_MESSAGES, _numbered_by_place([
                (here("messages", row[1]), homes[row[0]], keys[homes[row[0]], row[2]], *row[3:15],
                 None if row[15] is None else here("messages", row[15]), row[16]) for row in tables["messages"]]))  # fmt: skip
            first = self._write_nodes(other, homes, tables["nodes"])
            _insert(other, "assemblies", _OF_ASSEMBLIES, [
                (here("assemblies", row[1]), homes[row[0]], row[2],
                 json.dumps(list(dict.fromkeys(here("nodes", first.get(n, n)) for n in row[3]))),
                 json.dumps([here("messages", n) for n in row[4]]), *row[5:]) for row in tables["assemblies"]])  # fmt: skip
            _insert(other, "carried", "conversation_id node_id", [
                *{(homes[row[0]], here("nodes", first.get(row[1], row[1]))) for row in tables["carried"]}])  # fmt: skip

    def _write_nodes(self, other: Database, homes: dict[int, int], rows: Sequence[tuple[Any, ...]]) -> dict[int, int]:
        """Write summaries. Of those that several hosts made of the same the first counts: the others' numbers to its."""
        here, firsts = self.state.to_here, dict[tuple[Any, ...], int]()
        first = {row[1]: firsts.setdefault((row[0], row[8], row[3]), row[1]) for row in rows}
        rows = [row for row in rows if first[row[1]] == row[1]]
        low, high = rows and min(row[1] for row in rows), rows and max(row[1] for row in rows)
        _insert(other, "nodes", _OF_NODES, [
            (here("nodes", row[1]), homes[row[0]], *row[2:13],
             None if row[13] is None else here("nodes", first.get(row[13], row[13])), 0, low, high, 0.0, 0.0)
            for row in rows])  # fmt: skip
        edges = []
        for row in rows:
            leaf = row[2] == 0
            kind = "messages" if leaf else "nodes"
            for position, number in enumerate(row[14]):
                number = here(kind, number if leaf else first.get(number, number))
                edges.append((here("nodes", row[1]), position, number if leaf else None, None if leaf else number))
        _insert(other, "node_sources", "node_id position store_id child_id", edges)
        return first

    def _archives(self, tables: dict[str, list[tuple[Any, ...]]]) -> None:
        """Archives of messages that came with them, in their sessions; of one over what only this host emptied, its place.

        What the fleet purged is not in the words that the server has.
        """
        purged = {self.state.to_here("messages", row[0]) for row in tables["purged"]}
        came, named = {row[1] for row in tables["messages"]}, {row[:2] for row in tables["sessions"]}
        for row in tables["archives"]:
            session = (
                self._deps.sessions.find(row[2]) if (row[0], row[2]) in named and came.issuperset(row[3]) else None
            )
            sql = "SELECT 1 FROM archives WHERE conversation_id = ? AND handle = ?"
            if session is None or row[12] != ARCHIVED or self._deps.db.query(sql, (session.conversation_id, row[1])):
                continue
            ids = tuple(self.state.to_here("messages", n) for n in row[3])
            facts: list[Any] = [0, row[1], session.conversation_id, row[2], ids, *row[4:8], bool(row[8]), *row[9:]]
            archive = Archive(*facts)
            heads = self._deps.store.heads_of([each for each in ids if each not in purged])
            if any(head.flags & Flag.FORGOTTEN == Flag.PURGED for head in heads.values()):
                archive = replace(archive, summary=GONE, preview="")
            self._deps.archives.add(archive)


def _named(numbers: Sequence[int], kept: dict[int, int]) -> list[int]:
    return list(dict.fromkeys(kept.get(number, number) for number in numbers))


def _numbered_by_place(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Messages with sequence numbers that no two have: hosts that wrote at the same time gave the same ones."""
    out, used = [], set[tuple[int, int]]()
    for row in sorted(rows, key=lambda row: (row[1], row[3], row[0])):
        seq = row[3]
        while (row[1], seq) in used:
            seq += 1
        used.add((row[1], seq))
        out.append((*row[:3], seq, row[4] if seq == row[3] else float(seq), *row[5:]))
    return out


def _insert(db: Database, table: str, columns: str, rows: Sequence[tuple[Any, ...]]) -> None:
    names = columns.split()
    db.executemany(f"INSERT INTO {table}({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", rows)


_OF_CONVERSATIONS: Final = "conversation_id parent_id fork_seq principal nonce created_at"
_OF_SESSIONS: Final = (
    "session_key conversation_id session_id parent_session_id origin platform host_key principal mode model started_at ended_at "
    "end_reason compactions"
)
_OF_MESSAGES: Final = (
    "store_id conversation_id session_key seq pos role tool_name answers digest tokens chars said_at stored_at source flags "
    "revises envelope"
)
_OF_NODES: Final = (
    "node_id conversation_id depth quality text expand_hint tokens source_tokens fingerprint model rung checks created_at "
    "replaces message_count first_store_id last_store_id first_pos last_pos"
)
_OF_ASSEMBLIES: Final = "assembly_id conversation_id session_id roots tail_ids last_seq last_pos created_at digest"
#: What is read of each table of some conversations; the number comes second.
_TABLES: Final = {
    table: f"SELECT conversation, {columns.replace(' ', ', ')} FROM lcm.{table} WHERE conversation = ANY(%s) ORDER BY 1, 2"
    for table, columns in COLUMNS.items()
}
#: As much of them as tells whether anything is new here.
_NUMBERS: Final = {
    **{kind: f"SELECT conversation, id FROM lcm.{kind} WHERE conversation = ANY(%s)" for kind in NUMBERED},
    "archives": _TABLES["archives"],
}
