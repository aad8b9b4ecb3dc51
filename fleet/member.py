"""
One database as a member of the fleet: joining, pushing, pulling, comparing, and how far behind it is.

The local file is the truth of its host. Whatever the server does, nothing here is changed but what comes from it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..errors import BadRequest, FleetError, FleetUnavailable
from ..ops.forget import holds
from ..records import PURGED_RUNG, PURGED_WORDS
from ..session import is_alone
from ..storage.connection import Database
from ..storage.meta import Health, Meta
from ..store import MessageStore
from .numbers import Numbers
from .outbox import BLOCK, NUMBERED, Outbox, Seen, State, new_file
from .pull import Pulled, Puller
from .push import Pushed, Pusher, plain
from .server import Server

if TYPE_CHECKING:
    from psycopg import Connection

    from ..recall.access import Access

TOPIC: Final = "fleet"
#: On a server that does not know all blocks, hosts keep so far from their own: others may come with newer ones.
_APART: Final = 1_000
_CONFLICTS: Final = "fleet conflicts"
_UNREADABLE: Final = "fleet unreadable"
_HELD: Final = "fleet held"
_REFUSED: Final = "fleet refused"
_NOT_TAKEN: Final = "fleet not taken"  # in ``meta``, too: conversations, and why
_SESSIONS_HELD: Final = "fleet held"  # in ``meta``: those that the server knows of
_SAMPLE: Final = 2_000
#: What a purge left of a summary: each host makes one of its own of what remains.
_REMADE: Final = f"rung = '{PURGED_RUNG}' OR checks LIKE '%\"{PURGED_WORDS}\"%'"
#: Messages that a search on the server names, and conversations that one search here fetches.
_CANDIDATES, _CONVERSATIONS = 200, 5
_LEASE_WAIT_S, _ALONE_S = 1.0, 30.0
_MARK: Final = """
SELECT coalesce(max(block), 0), coalesce(max(pushed), 0), session_user, (SELECT system_identifier FROM pg_control_system()),
       coalesce((SELECT extract(epoch FROM seen_at) FROM lcm.hosts WHERE role = session_user), 0)::float8
  FROM lcm.blocks WHERE file = %s AND role = session_user
"""
_HOST: Final = "SELECT session_user, EXISTS (SELECT FROM lcm.hosts WHERE role = session_user)"
_SEEN: Final = "SELECT extract(epoch FROM seen_at)::float8 FROM lcm.hosts WHERE role = session_user"
_HOLD_SESSIONS: Final = """
INSERT INTO lcm.holds(conversation, owner, session_id, id)
SELECT conversation, owner, session_id, 0 FROM lcm.sessions WHERE session_id = ANY(%s) ON CONFLICT DO NOTHING
"""
_OWNERS: Final = (
    "SELECT c.nonce, p.name FROM lcm.conversations c JOIN lcm.principals p USING(owner) WHERE c.nonce = ANY(%s)"
)
_LEASE: Final = """
INSERT INTO lcm.leases(conversation, owner, until) VALUES (%s, %s, now() + make_interval(secs => %s))
ON CONFLICT(conversation) DO UPDATE SET role = session_user, until = excluded.until
 WHERE leases.role = session_user OR leases.until < now()
"""


@dataclass(slots=True)
class Verified:
    """A comparison of this database with the server: how many rows of each kind, and those that differ (``kind number``)."""

    rows: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    waiting: int = 0

    @property
    def sound(self) -> bool:
        return not self.missing and not self.different


class Member:
    """Member of a fleet. ``access``: to the whole of the database, messages as they were said."""

    def __init__(
        self,
        db: Database,
        dsn: str,
        access: Callable[[], Access],
        health: Health,
    ) -> None:
        self._db, self.access, self._health = db, access, health
        self.server = Server(dsn)
        self._busy = threading.Lock()
        self.outbox = Outbox(db)
        self._alone_until = 0.0
        self._seen, self.purges = Seen(), Seen()

    @contextmanager
    def joined(self, *, wait_s: float | None = None) -> Iterator[tuple[Connection[tuple[Any, ...]], State]]:
        """A connection, and this database's numbers; asked for where it has none yet, or they are another role's.

        ``wait_s``: for a push or pull that is under way, and for each answer. Raises FleetUnavailable.
        """
        if not self._busy.acquire(timeout=-1 if wait_s is None else wait_s):
            raise FleetUnavailable("this host is busy with the fleet's server", "nothing: it goes on by itself")
        try:
            with self.server.checked(silence_s=wait_s) as connection:
                yield connection, self._state(connection)
        finally:
            self._busy.release()

    def _state(self, connection: Connection[tuple[Any, ...]]) -> State:
        role, is_host = connection.execute(_HOST).fetchall()[0]
        if not is_host:  # the operator's, which reads everything, or one that was shut out
            raise FleetError(
                f"{role} is no host's role on the fleet's server",
                "let the operator of the server run `hermes lcm fleet init NAME REALM`, and LCM_FLEET_DSN name its file here",
            )
        numbers, state = Numbers(self._db, self.outbox, connection), self.outbox.state()
        if state is None:
            file = new_file()
            state = self.outbox.join(file, numbers.new_block(file))
        if not self.outbox.is_made():
            state = self.outbox.remake(state)
        if state.untold:
            state = self.outbox.share(state, numbers.shared())
        newest, mark, role, server, seen = connection.execute(_MARK, (state.file,)).fetchall()[0]
        # Another server, or an older copy of it, counts its transactions for itself.
        elsewhere = bool(state.server) and (server != state.server or seen < state.seen)
        if server != state.server or elsewhere:
            moved: dict[str, Any] = {"pulled": 0, "obeyed": 0} if elsewhere else {}
            self.outbox.change(server=server, seen=seen, **moved)
            state = replace(state, server=server, seen=seen, **moved)
        lost = mark < state.mark and role == state.role
        state = replace(state, mark=mark, role=role)
        if lost:  # another server took the place of the one that confirmed them
            Meta(self.access().db).forget(_SESSIONS_HELD)
            state = self.outbox.remake(replace(state, pulled=0, obeyed=0))
        return self._with_own_numbers(state, numbers, newest, elsewhere=lost or elsewhere)

    def _with_own_numbers(self, state: State, numbers: Numbers, newest: int, *, elsewhere: bool) -> State:
        """A state whose numbers are nobody else's; ``elsewhere``: another server gave them, or a newer copy of this one."""
        taken = numbers.taken(state)
        older = elsewhere or state.blocks[-1] != newest or numbers.is_older(state)  # or it is another role's
        if older or taken:  # another copy of it may be in use: this one goes by a name of its own from now on
            facts: dict[str, Any] = {"file": new_file(), "mark": 0, "lacks_own": True, "pulled": 0}
            self.outbox.change(**facts)
            state = replace(state, **facts)
        for each in taken or ((None,) if older else ()):
            beyond = self.outbox.last() // BLOCK + (_APART if elsewhere else 0)
            state = self.outbox.take_block(state, numbers.new_block(state.file, beyond, own=True), each)
        return state

    def push(self, between: Callable[[], object] = lambda: None) -> Pushed:
        """Push all rows that the server lacks. Raises FleetError; then the next call goes on."""
        with self.joined() as (connection, state):
            pusher = Pusher(self.access(), self.outbox, state, connection, lambda: self._state(connection))
            try:
                while pusher.step():
                    between()
            finally:
                self._note(pusher.out)
            self._hold_sessions(connection)
            self.seen(connection)
        self._health.resolved(TOPIC)
        return pusher.out

    def seen(self, connection: Connection[tuple[Any, ...]]) -> float:
        """Let the server note that this host was there, and how far behind it is; the time that it noted."""
        connection.execute("SELECT lcm.seen(%s)", (self.outbox.rows_behind(),))
        return float(connection.execute(_SEEN).fetchall()[0][0])

    def _hold_sessions(self, connection: Connection[tuple[Any, ...]]) -> None:
        """The fleet knows which sessions are held here as a whole."""
        deps = self.access()
        meta = Meta(deps.db)
        now, before = [plain(name) for name in holds.sessions(deps)], meta.value(_SESSIONS_HELD) or []
        if now == before:
            return
        with connection.transaction():
            gone = [name for name in before if name not in now]
            connection.execute("SELECT lcm.let_go('{}', %s)", (gone,))
            connection.execute(_HOLD_SESSIONS, (now,))
        meta.note(_SESSIONS_HELD, now)

    def _note(self, out: Pushed) -> None:
        if out.conflicts:
            self._health.degraded(
                _CONFLICTS,
                f"{len(out.conflicts)} messages have numbers under which the fleet has others (the first: {out.conflicts[0]})",
                remedy="an older file was put back, or two machines use one file; the messages are safe here, "
                "and `hermes lcm export` takes them along",
            )
        if out.held:
            self._health.degraded(
                _HELD, f"{len(out.held)} messages were emptied here, and other hosts hold them: the fleet keeps them",
                severity="warning", remedy="see there what `hermes lcm pin` shows",
            )  # fmt: skip
        some = "; ".join(f"{nonce}: {why}" for nonce, why in [*out.refused.items()][:3])
        self._health.tell(
            _REFUSED, f"the fleet's server does not take {len(out.refused)} conversation(s); {some}" if some else "",
            severity="warning", remedy="the messages are safe here, and wait; where it has one as somebody else's, "
            "its operator can see who took the name",
        )  # fmt: skip
        if out.unreadable:
            self._health.degraded(
                _UNREADABLE, f"{len(out.unreadable)} messages cannot be read, so the fleet lacks them", severity="warning",
                remedy="run `/lcm doctor deep`, which names them",
            )  # fmt: skip

    def pull(self, days: int, session_id: str = "") -> Pulled:
        """Fetch what others wrote: of one session, or all that changed in conversations known here or in so many days."""
        with self.joined() as (connection, state):
            puller = self._puller(connection, state)
            out = puller.session(session_id) if session_id else puller.changes(days)
        self._tell_refused(out)
        return out

    def _tell_refused(self, out: Pulled) -> None:
        meta = Meta(self.access().db)
        if out.refused == (meta.value(_NOT_TAKEN) or {}):
            return
        meta.note(_NOT_TAKEN, out.refused)
        first = next((f"{nonce}: {why}" for nonce, why in out.refused.items()), "")
        self._health.tell(
            _NOT_TAKEN, f"{len(out.refused)} conversation(s) of the fleet cannot be taken in here; {first}" if first else "",
            severity="warning", remedy="see which host wrote it, and shut out a role that may be stolen (docs/fleet.md); "
            "`hermes lcm fleet pull SESSION` tries again",
        )  # fmt: skip

    def elsewhere(
        self, terms: Sequence[str], principal: str | None, *, silence_s: float, fetch_s: float
    ) -> tuple[int, int]:
        """Bring conversations here that a search would find on other hosts: (how many came, how many are left out).

        ``principal``: whose they must be; None: all that this host may see. ``silence_s``: wait for each answer of the server.
        What matches is fetched for about ``fetch_s``, or as long as one conversation takes.
        """
        end = time.monotonic() + fetch_s
        with self.server.session(wait_s=silence_s) as cursor:
            sql = (
                "SELECT f.id, c.nonce FROM lcm.search(%s, %s, %s) f JOIN lcm.messages m USING(id) "
                "JOIN lcm.conversations c USING(conversation) ORDER BY f.score DESC, f.id DESC"
            )
            found = cursor.execute(sql, (list(terms), principal, _CANDIDATES)).fetchall()
        state = self.outbox.state()
        if state is None:
            return 0, 0
        here = {state.to_here("messages", number): nonce for number, nonce in found}
        for known in self.access().store.heads_of(list(here)):
            del here[known]
        left = list(dict.fromkeys(here.values()))
        came = 0
        if left:
            with self.joined(wait_s=silence_s) as (connection, state):
                puller = self._puller(connection, state)
                while left and came < _CONVERSATIONS and (not came or time.monotonic() < end):
                    puller.conversation(left.pop(0))
                    came += 1
            self._tell_refused(puller.out)
        return came, len(left)

    def lease(self, conversation_id: int, seconds: float) -> bool:
        """Claim the compaction of a conversation in the whole fleet; False while another host has it.

        Without a server every host is alone: then, and for a while, nobody is asked.
        """
        if time.monotonic() < self._alone_until:
            return True
        nonce = self.access().db.query_one(
            "SELECT nonce FROM conversations WHERE conversation_id = ?", (conversation_id,)
        )
        try:
            with self.server.session(wait_s=_LEASE_WAIT_S) as cursor:
                found = cursor.execute(
                    "SELECT conversation, owner FROM lcm.conversations WHERE nonce = %s", (nonce[0] if nonce else "",)
                ).fetchone()
                return found is None or cursor.execute(_LEASE, (*found, seconds)).rowcount == 1
        except FleetError:
            self._alone_until = time.monotonic() + _ALONE_S
            return True

    def release(self, conversation_id: int) -> None:
        """Give a claim back; one that cannot be given back ends by itself."""
        nonce = self.access().db.query_one(
            "SELECT nonce FROM conversations WHERE conversation_id = ?", (conversation_id,)
        )
        with suppress(FleetError):
            if nonce and time.monotonic() >= self._alone_until:
                with self.server.session(wait_s=_LEASE_WAIT_S) as cursor:
                    cursor.execute("SELECT lcm.release(%s)", (nonce[0],))

    def _puller(self, connection: Connection[tuple[Any, ...]], state: State) -> Puller:
        new_block = partial(Numbers(self._db, self.outbox, connection).new_block, state.file)
        refused = Meta(self.access().db).value(_NOT_TAKEN) or {}
        return Puller(self.access(), self.outbox, state, connection, new_block, self._seen, refused)

    def verify(self, between: Callable[[], object] = lambda: None) -> Verified:
        """Every message, summary and prompt of here against the server's, by number and digest, and whose conversations are.

        What the server lacks is noted again.
        """
        out = Verified(waiting=self.outbox.rows_behind())
        deps = self.access()
        with self.joined() as (connection, state):
            for kind, key in NUMBERED.items():
                digest = {"messages": "digest", "nodes": "fingerprint", "assemblies": "digest"}[kind]
                mine = f"CASE WHEN {_REMADE} THEN NULL ELSE {digest} END" if kind == "nodes" else digest
                sql = f"SELECT {key}, {mine} FROM {kind} WHERE {key} > ? ORDER BY {key} LIMIT {_SAMPLE}"
                if kind == "nodes":
                    digest = f"CASE rung WHEN '{PURGED_RUNG}' THEN NULL ELSE {digest} END"
                last = -1
                while rows := deps.db.query(sql, (last,)):
                    last = rows[-1][0]
                    between()
                    here = {state.to_fleet(kind, row[0]): row[1] for row in rows}
                    asked = f"SELECT id, {digest} FROM lcm.{kind} WHERE id = ANY(%s)"
                    there = dict(connection.execute(asked, (list(here),)).fetchall())
                    out.rows[kind] = out.rows.get(kind, 0) + len(here)
                    missing = [number for number in here if number not in there]
                    out.missing += [f"{kind} {number}" for number in missing]
                    if not out.waiting:
                        self.outbox.note(kind, [state.to_here(kind, number) for number in missing])
                    out.different += [
                        f"{kind} {number}" for number, said in here.items() if number in there and there[number] != said
                    ]
            owners = dict(deps.db.query("SELECT nonce, principal FROM conversations"))
            for nonce, name in connection.execute(_OWNERS, (list(owners),)).fetchall():
                if name != owners[nonce] and not (is_alone(name) or is_alone(owners[nonce])):
                    out.different.append(f"conversation {nonce}, {name}'s there and {owners[nonce]}'s here")
        return out

    def status(self) -> dict[str, Any]:
        """Status of this host for operators: numbers of here, and the server's if it answers."""
        out: dict[str, Any] = {"joined": False, "behind": 0}
        if self._db.exists:  # a new host asks the server first; looking makes no database
            out = {"joined": self.outbox.state() is not None, "behind": self.outbox.rows_behind()}
        try:
            with self.server.checked() as connection:
                row = connection.execute(
                    "SELECT session_user, (SELECT realm FROM lcm.hosts WHERE role = session_user), "
                    "(SELECT count(*) FROM lcm.conversations), (SELECT count(*) FROM lcm.messages), "
                    "(SELECT count(*) FROM lcm.principals)"
                ).fetchone()
                tls = connection.pgconn.ssl_in_use
                version = connection.info.server_version
        except FleetError as exc:
            server = "unreachable" if isinstance(exc, FleetUnavailable) else "not usable from here"
            return {**out, "server": server, "error": str(exc), "remedy": exc.remedy}
        assert row is not None
        names = ("role", "realm", "conversations", "messages", "principals")
        return {
            **out,
            "server": f"PostgreSQL {version // 10000}.{version % 10000}",
            "tls": tls,
            **dict(zip(names, row, strict=True)),
        }

    def close(self) -> None:
        """End the pool of connections."""
        self.server.close()


def member_of(deps: Access) -> Member:
    """The fleet's side of a database. Raises BadRequest where no server is named, or somebody else than the operator asks."""
    if not deps.trusted:
        raise BadRequest("the fleet is the operator's: `hermes lcm fleet status` at a terminal")
    if not deps.config.fleet_dsn:
        raise BadRequest("LCM_FLEET_DSN names no server; docs/fleet.md says how to begin")
    return Member(deps.db, deps.config.fleet_dsn, lambda: exact(deps), deps.health)


def exact(deps: Access) -> Access:
    """A copy of an access that reads messages exactly as they were said."""
    return replace(deps, store=MessageStore(deps.db, deps.index, unfold=deps.payloads.whole))
