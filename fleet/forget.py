"""
Forgetting in the fleet: what a purge of here removes on the server, and what a purge of another host removes here.

A purge begins on the server, which knows what other hosts hold; each host reads there what went, and does the same to its file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from ..errors import FleetError, FleetUnavailable
from ..ops.forget import holds, proof, purge
from ..ops.forget.elsewhere import Reach, Table
from ..records import Flag
from ..storage.packing import pack, unpack
from ..store import MessageStore
from ..text import content
from . import copies
from .member import Member, member_of
from .objects import ODD, fetched, is_elsewhere, objects_of
from .outbox import NOW, State

if TYPE_CHECKING:
    from psycopg import Connection

    from ..ops.forget.elsewhere import Others, Selection
    from ..recall.access import Access
    from ..storage.files import Progress

_T = TypeVar("_T")
#: Conversation and number of a message at the server.
Place: TypeAlias = tuple[int, int]

_HELD: Final = "fleet purge held"
_UNSWEPT: Final = "fleet purge unswept"
_SHOWN: Final = 10
_AT_ONCE: Final = 500
#: Pieces without a whole word that are looked for on the server.
_PIECES: Final = 200
#: Behind the turns a file is written anew only below this size: that takes a second or so, and turns wait for it.
_RENEW_BYTES: Final = 200_000_000
#: What other hosts were told to forget. A row of the server may be empty without that: a policy of one host emptied it.
_TOLD: Final = "WITH told AS MATERIALIZED (SELECT conversation, unnest(ids) AS id FROM lcm.purges)"
_NOT_TOLD: Final = "NOT EXISTS (SELECT FROM told t WHERE t.conversation = m.conversation AND t.id = m.id)"
_SELECT: Final = f"""
{_TOLD} SELECT m.conversation, m.id, m.digest FROM lcm.messages m JOIN lcm.principals p USING(owner)
 WHERE {_NOT_TOLD}
   AND (%(ids)s::bigint[] IS NULL OR m.id = ANY(%(ids)s)) AND (%(session)s::text IS NULL OR m.session_id = %(session)s)
   AND (%(principal)s::text IS NULL OR p.name = %(principal)s)
   AND (%(before)s::float8 IS NULL OR coalesce(m.said_at, m.stored_at) < %(before)s)
"""
_DIGESTS: Final = (
    "SELECT m.conversation, m.id, m.digest, m.flags, c.nonce FROM lcm.messages m JOIN lcm.conversations c USING(conversation) "
    "WHERE m.id = ANY(%s::bigint[])"
)
_PURGES: Final = (
    "SELECT n, changed, conversation, ids, nodes, role = session_user FROM lcm.purges WHERE changed >= %s ORDER BY n"
)
_NONCES: Final = "SELECT conversation, nonce FROM lcm.conversations WHERE conversation = ANY(%s)"
_MAY: Final = "SELECT has_function_privilege('lcm.purge(bigint[], bigint[], bytea[])', 'EXECUTE'), session_user"
#: Rows by their keys: what a certificate names of each, and what it says.
_SEARCHED: Final = {
    "messages": "SELECT conversation, id, id, envelope, '' FROM lcm.messages WHERE (conversation, id) > (%s, %s::bigint)",
    "nodes": "SELECT conversation, id, id, text, expand_hint FROM lcm.nodes WHERE (conversation, id) > (%s, %s::bigint)",
    "archives": "SELECT conversation, handle, conversation, summary, preview FROM lcm.archives "
    "WHERE (conversation, handle) > (%s, %s)",
}
#: Rows of these that are read at a time.
_PAGE: Final = 1_000


def others_of(deps: Access) -> Others | None:
    """The fleet as a purge sees it; None where no server is named."""
    return Purging(member_of(deps), deps) if deps.config.fleet_dsn else None


class Purging:
    """One purge at the server."""

    def __init__(self, member: Member, deps: Access) -> None:
        self._member, self._deps = member, deps
        self._objects = objects_of(deps.config.fleet_objects)
        self._sealed = 0  # messages that lie in a store of which this host does not know

    def reach(self, asked: Selection, chosen: Sequence[int], progress: Progress) -> Reach:
        """Rows of a selection at the server. Raises FleetError where it cannot be asked, or this role may not purge."""
        progress("asking the fleet's server", 0, 0)
        self._member.push()
        with self._member.joined() as (server, state):
            _refuse_without_right(server)
            only_there, silent = self._only_there(server, state, asked, progress)
            wanted = {state.to_fleet("messages", each): each for each in chosen}
            same = _same(server, self._deps, wanted)
            sql = f"{_TOLD} SELECT * FROM unnest({{}}) AS m(conversation, id) WHERE {_NOT_TOLD}"
            found = [*_of(server, sql, same)]
            every = sorted({*found, *only_there})
            held = {
                (home, number): str(role) for home, number, role in _of(server, "SELECT * FROM lcm.held({})", every)
            }
            places = tuple(each for each in every if each not in held)
            nodes = {*_of(server, "SELECT * FROM lcm.above({})", places)}
            archives = {*_of(server, "SELECT * FROM lcm.archived({})", places)}
            return Reach(
                _name(server), {"messages": len(places), "nodes": len(nodes), "archives": len(archives)}, places,
                tuple(sorted(number for _, number in nodes)),
                tuple(number for home, number in only_there if (home, number) not in held),
                {wanted[each[1]]: who for each, who in held.items() if each in same},
                {each[1]: who for each, who in held.items() if each not in same},
                silent,
            )  # fmt: skip

    def _only_there(
        self, server: Connection[tuple[Any, ...]], state: State, asked: Selection, progress: Progress
    ) -> tuple[list[Place], int]:
        """Places of messages that fit and are not here, or are emptied here already; how many have no words to match.

        A number that belongs to another message here is no sign of the one there.
        """
        ids = [state.to_fleet("messages", each) for each in asked.ids] or None
        given = {"ids": ids, "session": asked.session, "principal": asked.principal, "before": asked.before}
        found = {(home, number): digest for home, number, digest in server.execute(_SELECT, given).fetchall()}
        left = []
        for part in _parts(found):
            here = self._deps.store.heads_of([state.to_here("messages", number) for _, number in part])
            known = {
                state.to_fleet("messages", n): head.digest for n, head in here.items() if not head.flags & Flag.PURGED
            }
            left += [each for each in part if known.get(each[1]) != found[each]]
        if not asked.matching:
            return left, 0
        forms, out, silent = proof.forms_of([proof.folded(asked.matching)]), list[Place](), 0
        for place, message, is_empty in self._said(server, left):
            progress("reading messages of other hosts", len(out), len(left))
            silent += is_empty
            said = proof.folded(content.encode(message)[0])
            if any(form in said for form in forms):
                out.append(place)
        return out, silent

    def remove(self, reach: Reach, evidence: proof.Evidence) -> Mapping[str, int]:
        """Empty it there, all or nothing; other hosts are told."""
        removed = dict.fromkeys(("messages", "nodes", "archives"), 0)
        only_there = frozenset(reach.only_there)
        self._sealed = 0
        with self._member.joined() as (server, _), server.transaction():
            for part in _parts(reach.places):
                left = list[tuple[int, int, bytes]]()
                for (home, number), message, is_empty in self._said(server, part):
                    if number in only_there and not is_empty:
                        evidence.note(content.read_message(message))
                    left.append((home, number, pack(content.encode(purge.place_of(message, number))[0])))
                row = server.execute(
                    "SELECT * FROM lcm.purge(%s::bigint[], %s::bigint[], %s::bytea[])",
                    [[*column] for column in zip(*left, strict=True)],
                ).fetchone()
                removed = {name: count + int(n) for (name, count), n in zip(removed.items(), row or (), strict=True)}
        if self._objects is not None:
            removed["objects"] = sum(self._objects.forget(number, nonce) for number, nonce in self._nonces(reach))
            removed["backups"] = copies.forget(self._member, self._deps)
        return removed

    def _said(
        self, server: Connection[tuple[Any, ...]], places: Sequence[Place]
    ) -> Iterator[tuple[Place, dict[str, Any], bool]]:
        """Messages of the server, and whether a policy emptied it; of one that cannot be read here, what its row says."""
        sql = f"SELECT conversation, id, flags & {int(Flag.PURGED)} <> 0, envelope, role, answers, tool_name "
        sql += "FROM unnest({}) AS t(conversation, id) JOIN lcm.messages USING(conversation, id)"
        for home, number, is_empty, stored_json, role, call, tool in _of(server, sql, places):
            said = self._text(stored_json)
            self._sealed += self._objects is None and is_elsewhere(stored_json)
            named = {"role": role, "tool_call_id": call, "tool_name": tool}
            yield (home, number), named if said is None else content.decode(said), is_empty

    def _nonces(self, reach: Reach) -> list[tuple[int, str]]:
        """Numbers of the messages there, each with the name of its conversation."""
        with self._member.joined() as (server, _):
            return _named(server, reach.places)

    def settle(self) -> None:
        """Send the summaries that were made again; a copy of a backup that began before is not kept."""
        self._member.push()
        if self._objects is not None:
            copies.forget(self._member, self._deps)

    def search(
        self, reach: Reach, removed: Mapping[str, int], evidence: proof.Evidence, progress: Progress
    ) -> list[Table]:
        """Look through all that this role sees there."""
        pieces = proof.Pieces(evidence.texts, _PIECES)
        out = []
        with self._member.joined() as (server, _):
            for name, sql in _SEARCHED.items():
                count, unread, holding, last = 0, 0, list[int](), (0, "0")
                while rows := server.execute(f"{sql} ORDER BY 1, 2 LIMIT {_PAGE}", last).fetchall():
                    last, count = rows[-1][:2], count + len(rows)
                    progress(f"searching the fleet's {name}", count, 0)
                    texts = [(row[2], self._text(row[3]), row[4]) for row in rows]
                    unread += sum(text is None for _, text, _ in texts)
                    holding += [number for number, text, more in texts if pieces.in_text((text or "") + more)]
                out.append(Table(name, count, removed.get(name, 0), tuple(holding), pieces.left_out, unread))
        if self._objects is not None:
            left = [number for number, nonce in self._nonces(reach) if self._objects.of(number, nonce)]
            out.append(Table("objects", len(reach.messages), removed.get("objects", 0), tuple(left)))
            out.append(Table("backups", 0, removed.get("backups", 0)))
        elif self._sealed:  # nobody opens them any more: their keys were in the rows
            out.append(Table("objects", self._sealed, 0, unread=self._sealed))
        return out

    def _text(self, value: Any) -> str | None:
        """Text of a row; None where it cannot be read here. Raises FleetUnavailable."""
        if isinstance(value, str):
            return value
        try:
            said = unpack(fetched(self._objects, value))
            content.decode(said)
        except FleetUnavailable:
            raise
        except ODD:
            return None
        return said


def obey(member: Member, deps: Access, *, most_bytes: float = _RENEW_BYTES) -> int:
    """Do here what other hosts purged since the last call: how many messages. Raises LcmError; then the next call goes on.

    What is held here stays, and is told, until it is held no more; then it goes. A file above ``most_bytes`` is not written anew.
    """
    deps = replace(deps, store=MessageStore(deps.db, deps.index, deps.store.blocks), trusted=True)
    with member.joined() as (server, state):
        seen_at = member.seen(server)
        until = int(server.execute(NOW).fetchall()[0][0])
        named = server.execute(_PURGES, (state.obeyed,)).fetchall()
        seen = {row[0]: row[1] for row in named}
        news = frozenset(member.purges.news(state.obeyed, seen))
        is_final = (
            not member.outbox.is_fetched_for()
        )  # else rows that were read before a purge may come behind this look
        rows = [row for row in named if row[0] in news]
        places = {(row[2], each) for row in rows for each in row[3]}
        numbers = {each: state.to_here("messages", each) for _, each in places}
        same = _same(server, deps, numbers)
        _erase_objects(
            server, deps, [(row[2], each) for row in rows if row[5] for each in row[3] if (row[2], each) not in same]
        )
        gone = [numbers[place[1]] for place, flags in same.items() if place in places and flags & Flag.PURGED]
        nodes = sorted({state.to_here("nodes", each) for row in rows for each in row[4]})
        kept = [each for part in _parts(state.kept) for each in deps.store.heads_of(part)]
        here = sorted({*kept, *gone})
        waiting = _waiting(deps, here)
        if waiting:  # all else first: what is empty here the next call takes for done
            if deps.config.fleet_objects:
                copies.forget(member, deps)
            member.outbox.change(unswept=True)
        done = purge.follow(deps, here, nodes) if here else purge.Plan(())
        if waiting and deps.config.fleet_objects:  # a copy may have begun before
            copies.forget(member, deps)
        unswept = bool(state.unswept or waiting)
        if unswept and purge.renewed(deps, most_bytes):
            unswept = False
            member.outbox.change(unswept=False)
        until = until if is_final else state.obeyed
        if (until, done.held) != (state.obeyed, state.kept):
            member.outbox.obeyed(state, until, done.held, seen_at)
        if is_final:
            member.purges.done(until, seen)
    _tell(deps, done.held, unswept)
    return len(done.rows)


def _erase_objects(server: Connection[tuple[Any, ...]], deps: Access, places: Sequence[Place]) -> None:
    """Remove objects of messages that are not here: a purge of this host may have been killed. Those of others go with a push."""
    if (objects := objects_of(deps.config.fleet_objects)) is not None:
        for number, nonce in _named(server, places):
            objects.forget(number, nonce)


def _named(server: Connection[tuple[Any, ...]], places: Sequence[Place]) -> list[tuple[int, str]]:
    """Numbers of messages, each with the name of its conversation."""
    named = dict(server.execute(_NONCES, ([*{home for home, _ in places}],)).fetchall())
    return [(number, named[home]) for home, number in places]


def _waiting(deps: Access, rows: Sequence[int]) -> bool:
    """Is there a message among these that is to be emptied here?"""
    heads = (head for part in _parts(rows) for head in deps.store.heads_of(part).values())
    full = [head.store_id for head in heads if head.flags & Flag.FORGOTTEN != Flag.PURGED]
    return len(full) > len(holds.held(deps, full))


def _same(server: Connection[tuple[Any, ...]], deps: Access, wanted: Mapping[int, int]) -> dict[Place, int]:
    """Flags there of messages that are the same on the server and here. ``wanted``: numbers there to numbers here.

    A number alone does not say which message it is: an older file that was put back gives numbers out again. Nor does what it
    says: a row of another conversation is it only where its own has none.
    """
    out: dict[Place, int] = {}
    for part in _parts(wanted):
        here = deps.store.heads_of([wanted[each] for each in part])
        ours = {each: here[wanted[each]] for each in part if wanted[each] in here}
        there = server.execute(_DIGESTS, (part,)).fetchall()
        homes = {nonce: deps.sessions.nonce_owner(nonce) for nonce in {row[4] for row in there}}
        known = [row for row in there if row[1] in ours and ours[row[1]].digest == row[2] and homes[row[4]] is not None]
        own = {row[1] for row in known if ours[row[1]].conversation_id == homes[row[4]]}
        out |= {
            (home, number): flags for home, number, _, flags, nonce in known
            if number not in own or ours[number].conversation_id == homes[nonce]
        }  # fmt: skip
    return out


def _tell(deps: Access, held: Sequence[int], unswept: bool) -> None:
    first = ", ".join(f"msg_{each}" for each in held[:_SHOWN])
    deps.health.tell(
        _HELD, f"{len(held)} message(s) that the fleet purged are PINNED HERE, so they stay: {first}" if held else "",
        severity="warning", remedy="`hermes lcm pin NAME undo` lets one go; then it is purged here too",
    )  # fmt: skip
    deps.health.tell(
        _UNSWEPT, "what the fleet purged may be left in free pages of the file" if unswept else "", severity="warning",
        remedy="run `hermes lcm fleet pull` while Hermes does not run: it rewrites the file",
    )  # fmt: skip


def _refuse_without_right(server: Connection[tuple[Any, ...]]) -> None:
    may, role = server.execute(_MAY).fetchall()[0]
    if not may:
        raise FleetError(
            f"{role} may not purge for the fleet, and a purge of one host alone would come back from the others",
            f"let the operator of the server run `GRANT lcm_purger TO {role}`",
        )


def _name(server: Connection[tuple[Any, ...]]) -> str:
    info = server.info
    version = f"{info.server_version // 10000}.{info.server_version % 10000}"
    return f"{info.host}:{info.port}/{info.dbname} (PostgreSQL {version}, role {info.user})"


def _of(server: Connection[tuple[Any, ...]], sql: str, places: Iterable[Place]) -> Iterator[tuple[Any, ...]]:
    """Answers about messages, part by part. ``sql``: with a gap for their conversations and numbers."""
    for part in _parts(places):
        homes, numbers = zip(*part, strict=True)
        yield from server.execute(sql.format("%s::bigint[], %s::bigint[]"), ([*homes], [*numbers])).fetchall()


def _parts(each: Iterable[_T]) -> Iterator[list[_T]]:
    every = iter(each)
    while part := [*islice(every, _AT_ONCE)]:
        yield part
