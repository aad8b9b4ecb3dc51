"""
The outbox of one database: which rows the shared server has not got yet; and the numbers under which the fleet knows its rows.

Owns ``fleet`` among the small facts; what is written is noted by ``storage/changes``. Rows from before the host joined follow
behind newer ones.

Addresses mean the same on every host: the server gives each database blocks of a hundred million numbers. New rows get numbers of
its newest block. Rows from before it joined have small numbers here, and large ones in the fleet. Rows whose numbers the server
knows for others, since an older file was put back, change numbers with these.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from ..storage import changes
from ..storage.changes import KINDS
from ..storage.connection import Database, marks
from ..storage.leases import Leases
from ..storage.meta import COUNT_REMOVED, Meta
from ..storage.standby import give_numbers

BLOCK: Final = 100_000_000
#: So many blocks of its own a database remembers; which rows are its own is asked of new ones only.
REMEMBERED: Final = 1_000
#: Kinds of rows whose numbers are the fleet's, with their tables' keys.
NUMBERED: Final = {"messages": "store_id", "nodes": "node_id", "assemblies": "assembly_id"}
#: Number of the server's oldest transaction that may still write.
NOW: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
_STATE: Final = "fleet"
_FETCHING: Final = "fleet fetching"
_FETCH_S: Final = 3_600.0  # one conversation takes less
#: First and last number here, and by how much the fleet's are greater.
Range = tuple[int, int, int]
_NOTE: Final = "INSERT INTO fleet_outbox(kind, id, fresh) VALUES (?, ?, 0)"


@dataclass(frozen=True, slots=True)
class State:
    """State of a database as a part of the fleet.

    ``blocks``: the newest of its own. ``before``: of each table, the last number before it joined. ``filled``: up to
    which number such rows were noted. ``moved``: of each table, ranges of numbers here, and by how much the fleet's are greater;
    there and here they have changed places. ``pulled``: the server's transaction up to which changes of others were looked at.
    ``mark``: pushes that the server has confirmed to ``role``. ``obeyed``: like ``pulled``, for purges of others; ``kept``:
    messages of these that are held here; ``unswept``: the file is still to be written anew. ``server``: the identifier of the
    server whose transactions these are; ``seen``: when this host was there, by its clock. ``lacks_own``: the next pull looks
    also at conversations that only this role wrote, since the file is new or an older one was put back.
    """

    file: str
    blocks: tuple[int, ...]
    before: dict[str, int]
    filled: dict[str, int]
    moved: dict[str, tuple[Range, ...]]
    pulled: int = 0
    mark: int = 0
    role: str = ""
    obeyed: int = 0
    kept: tuple[int, ...] = ()
    unswept: bool = False
    server: int = 0
    seen: float = 0.0
    lacks_own: bool = False

    @property
    def untold(self) -> bool:
        """Are there rows from before, and was none of them sent yet?"""
        return not any(self.filled.values()) and any(self.before.values())  # filled "until": they were, and are again

    def to_fleet(self, kind: str, number: int) -> int:
        """The fleet's number of a row that has this one here."""
        for first, last, by in self.moved.get(kind, ()):
            if first <= number <= last:
                return number + by
            if first <= number - by <= last:
                return number - by
        return number

    def to_here(self, kind: str, number: int) -> int:
        """The number here of a row that the fleet knows by this one: two numbers have changed places, so it is the same."""
        return self.to_fleet(kind, number)

    def is_own(self, number: int) -> bool:
        """Was a number (of the fleet) given by this database?"""
        return number // BLOCK in self.blocks


class Seen:
    """Rows that the last look at the server named, each with the transaction that changed it.

    While any older transaction is open there, the next look begins at the same place and names them again.
    """

    def __init__(self) -> None:
        self._until, self._rows = 0, dict[Any, int]()

    def news(self, since: int, rows: Mapping[Any, int]) -> list[Any]:
        """Entries that are new or changed since the last look; all, where this look does not go on from that one."""
        return [key for key, at in rows.items() if since != self._until or self._rows.get(key) != at]

    def done(self, until: int, rows: Mapping[Any, int]) -> None:
        """They were looked at; the next look begins at ``until``."""
        self._until, self._rows = until, dict(rows)


@dataclass(frozen=True, slots=True)
class Taken:
    """A range of numbers of one table that the server has for other rows."""

    kind: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the outbox. ``fresh``: it was inserted; else it changed."""

    n: int
    kind: str
    id: int
    fresh: bool


class Outbox:
    """The outbox of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._meta = Meta(db)

    def state(self) -> State | None:
        """None: the database has not joined a fleet yet."""
        found = self._meta.value(_STATE)
        if not found:
            return None
        blocks = tuple(found["blocks"])
        moved = found.get("moved") or _before(blocks[0], found["before"])  # a state that an earlier release noted
        moved = {kind: tuple(tuple(each) for each in ranges) for kind, ranges in moved.items()}
        return State(**{**found, "blocks": blocks, "moved": moved, "kept": tuple(found.get("kept", ()))})

    def elsewhere(self) -> Callable[[int], bool] | None:
        """Whether a message here (by its number) was stored by another host; None: the database has not joined."""
        state = self.state()
        return None if state is None else lambda number: not state.is_own(state.to_fleet("messages", number))

    def keep(self, state: State) -> None:
        """Note a state."""
        self._meta.note(_STATE, asdict(state))

    def change(self, **facts: Any) -> None:
        """Note some facts of the state; what another process noted meanwhile stays."""
        with self._db.transaction():
            if (state := self.state()) is not None:
                self.keep(replace(state, **facts))

    @contextmanager
    def fetching(self) -> Iterator[None]:
        """Rows are read at the server and stored here. Whatever is purged meanwhile is looked at again behind it."""
        leases, name = Leases(self._db), f"{_FETCHING}|{id(self)}"
        leases.join(name, _FETCH_S)
        try:
            yield
        finally:
            leases.leave(name)

    def is_fetched_for(self) -> bool:
        """Does a process of here fetch just now? One that was killed does not."""
        return Leases(self._db).has_any(_FETCHING)

    def obeyed(self, since: State, until: int, kept: tuple[int, ...], seen: float) -> None:
        """Purges were looked at from there on, up to a transaction of the server; these messages are kept."""
        with self._db.transaction():
            now = self.state()
            self.change(
                kept=kept, seen=seen, **({"obeyed": until} if now is not None and now.obeyed == since.obeyed else {})
            )

    def join(self, file: str, block: int) -> State:
        """Begin to take notes, under a block of numbers that the server gave for this file; another process may have begun."""
        with self._db.transaction():
            if (begun := self.state()) is not None:
                return begun
            self._make()
            before = {kind: self._last(kind) for kind in KINDS}
            state = State(file, (block,), before, dict.fromkeys(KINDS, 0), _before(block, before), lacks_own=True)
            self._number(block)
            self.keep(state)
        return state

    def share(self, state: State, shared: Mapping[str, Range]) -> State:
        """Know rows by the numbers under which another copy of this file brought them to the server."""
        moved = dict(state.moved)
        for kind, (_, last, by) in shared.items():
            others = [each for each in moved[kind] if each[0] > state.before[kind]]
            moved[kind] = ((1, last, by), (last + 1, state.before[kind], state.blocks[0] * BLOCK), *others)
        if shared:
            self.change(moved=moved)
        return replace(state, moved=moved)

    def take_block(self, state: State, block: int, taken: Taken | None = None) -> State:
        """Give out the numbers of another block from now on.

        ``taken``: numbers that the server has for other rows. Those that have them here get numbers of the new block in the
        fleet, and what the server has under them gets those here.
        """
        with self._db.transaction():
            now = self.state() or state
            moved = now.moved
            if taken is not None and now.blocks == state.blocks:  # else another process has seen it, too
                by = (block - taken.first // BLOCK) * BLOCK
                moved = {**moved, taken.kind: (*moved[taken.kind], (taken.first, taken.last, by))}
            self._number(block, taken.last % BLOCK if taken is not None else 0)
            blocks = (*self._remembered(now.blocks), block)
            self.change(blocks=blocks, moved=moved)
        return replace(state, blocks=blocks, moved=moved)

    def _remembered(self, blocks: tuple[int, ...]) -> tuple[int, ...]:
        """The newest blocks, and those of rows that still wait: two hosts that fetch from each other take one each time."""
        waiting = {first // BLOCK for kind in NUMBERED for first, _ in self.waiting(kind)}
        return (*(each for each in blocks[:-REMEMBERED] if each in waiting), *blocks[-REMEMBERED:])

    def recount(self) -> None:
        """Rows of other blocks came: how many addresses have no row is counted anew."""
        with self._db.transaction():
            for statement in COUNT_REMOVED:
                self._db.execute(statement)

    def _number(self, block: int, beyond: int = 0) -> None:
        give_numbers(self._db, block * BLOCK + max(beyond, *(self._last(kind) % BLOCK for kind in NUMBERED)))
        self.recount()

    def _last(self, kind: str) -> int:
        key = KINDS[kind]
        return int(self._db.fetch(f"SELECT coalesce(max({key}), 0) FROM {kind}")[0][0])

    def last(self, *kinds: str) -> int:
        """The greatest number that one of these tables would not give out again."""
        names = kinds or tuple(NUMBERED)
        rows = self._db.query(f"SELECT max(seq) FROM sqlite_sequence WHERE name IN ({marks(len(names))})", names)
        return int(rows[0][0] or 0)

    def is_made(self) -> bool:
        """Does the file note what changes? One that was salvaged has lost that. If it does, this process does from now on."""
        with self._db.transaction():
            if not self._db.fetch("SELECT 1 FROM sqlite_master WHERE name = ?", (changes.TABLE,)):
                return False
            for statement in changes.triggers():
                self._db.execute(statement)
        return True

    def remake(self, state: State) -> State:
        """Notes were lost: everything is noted again, once."""
        with self._db.transaction():
            self._make()
            now = {kind: max(self._last(kind), state.before[kind]) for kind in KINDS}
            state = replace(state, filled={**dict.fromkeys(KINDS, 0), "until": max(now.values())})
            self.keep(state)
        return state

    def _make(self) -> None:
        self._db.execute(changes.CREATE)
        for statement in changes.triggers():
            self._db.execute(statement)

    def note(self, kind: str, numbers: Iterable[int]) -> None:
        """The server lacks these rows (numbers of here)."""
        with self._db.transaction():
            self._db.executemany(_NOTE, [(kind, number) for number in numbers])

    # -- taking and giving --------------------------------------------------------------------------------
    def oldest_entries(self, most: int, after: int = 0) -> list[Entry]:
        """The oldest entries behind one of them, left where they are."""
        rows = self._db.query(
            "SELECT n, kind, id, fresh FROM fleet_outbox WHERE n > ? ORDER BY n LIMIT ?", (after, most)
        )
        return [Entry(n, kind, number, bool(fresh)) for n, kind, number, fresh in rows]

    def done(self, entries: Sequence[Entry], confirmed: State) -> None:
        """The server has these, and knows of so many pushes of this role."""
        with self._db.transaction():
            self.change(mark=confirmed.mark, role=confirmed.role)
            self._db.executemany("DELETE FROM fleet_outbox WHERE n = ?", [(entry.n,) for entry in entries])

    def waiting(self, kind: str) -> list[tuple[int, int]]:
        """First and last number, of each block, of new rows that the server lacks."""
        sql = f"SELECT min(id), max(id) FROM fleet_outbox WHERE kind = ? AND fresh GROUP BY id / {BLOCK}"
        return [(int(first), int(last)) for first, last in self._db.query(sql, (kind,))]

    def fresh(self, kind: str, first: int, last: int, most: int) -> list[int]:
        """The smallest numbers of a range of new rows that the server lacks."""
        sql = "SELECT DISTINCT id FROM fleet_outbox WHERE kind = ? AND fresh AND id BETWEEN ? AND ? ORDER BY id LIMIT ?"
        return [row[0] for row in self._db.query(sql, (kind, first, last, most))]

    def last_entry(self) -> int:
        """The newest entry; 0 for none."""
        return int(self._db.query("SELECT coalesce(max(n), 0) FROM fleet_outbox")[0][0])

    def drop_fresh(self, kind: str, after: int, numbers: Iterable[int]) -> None:
        """Drop the entries, behind one of them, of rows that came from the server."""
        sql = "DELETE FROM fleet_outbox WHERE kind = ? AND id = ? AND n > ? AND fresh"
        with self._db.transaction():
            self._db.executemany(sql, [(kind, number, after) for number in numbers])

    def fill(self, most: int) -> bool:
        """Note some of the rows from before the database joined; False: none are left."""
        state = self.state()
        assert state is not None
        for kind, key in KINDS.items():
            until = state.filled.get("until", state.before[kind])
            rows = self._db.query(
                f"SELECT DISTINCT {key} FROM {kind} WHERE {key} > ? AND {key} <= ? ORDER BY {key} LIMIT ?",
                (state.filled[kind], until, most),
            )
            if rows:
                with self._db.transaction():
                    self.note(kind, [row[0] for row in rows])
                    self.keep(replace(state, filled={**state.filled, kind: rows[-1][0]}))
                return True
        return False

    def rows_behind(self) -> int:
        """Number of rows that the server lacks."""
        state = self.state()
        if state is None:
            return sum(int(self._db.query(f"SELECT count(*) FROM {kind}")[0][0]) for kind in KINDS)
        count = int(self._db.query("SELECT count(*) FROM fleet_outbox")[0][0])
        for kind, key in KINDS.items():
            until = state.filled.get("until", state.before[kind])
            if state.filled[kind] < until:
                sql = f"SELECT count(*) FROM {kind} WHERE {key} > ? AND {key} <= ?"
                count += int(self._db.query(sql, (state.filled[kind], until))[0][0])
        return count


def _before(block: int, before: Mapping[str, int]) -> dict[str, tuple[Range, ...]]:
    """Numbers in the fleet of rows from before a database joined."""
    return {kind: ((1, before[kind], block * BLOCK),) for kind in NUMBERED}


def new_file() -> str:
    """A name for a database that joins."""
    return uuid.uuid4().hex
