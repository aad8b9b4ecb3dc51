"""
Numbers of a file against those that the server knows: was an older file put back, or is this a copy of one that joined?

Asks only; ``outbox`` keeps what follows from it. A row is the same here and there if it was stored at the same time: no number says
so, since two copies of a file give out the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..storage.connection import Database
from .outbox import BLOCK, NUMBERED, Outbox, Range, State

if TYPE_CHECKING:
    from psycopg import Connection

_SAMPLE: Final = 2_000
_TIME: Final = {"messages": "stored_at", "nodes": "created_at", "assemblies": "created_at"}
_KNOWN: Final = "SELECT conversation FROM lcm.conversations WHERE nonce = ANY(%s)"
_BLOCKS: Final = f"SELECT DISTINCT id / {BLOCK} FROM lcm.messages WHERE conversation = ANY(%s)"


class Numbers:
    """Numbers of one file, compared over one connection."""

    def __init__(self, db: Database, outbox: Outbox, connection: Connection[tuple[Any, ...]]) -> None:
        self._db, self._outbox, self._server = db, outbox, connection

    def apart(self, state: State) -> dict[str, tuple[int, int]] | None:
        """First and last number of the newest block that the server knows for other rows, by table. None: the file is no older one.

        It is one if the server has a greater number than this file ever gave, or another row under the greatest that it has.
        """
        if not any(self._is_older(state, kind) for kind in ("messages", "nodes")):
            return None
        out = {}
        for kind in NUMBERED:
            first, last = self._first_other(state, kind), self._greatest(state, kind)
            if first is not None:
                out[kind] = (first, max(last, self._here(state, kind, 1)[0][0]))
        return out

    def shared(self) -> dict[str, Range]:
        """Rows that the server has from another copy of this file, which joined first: their range and its distance, by table."""
        nonces = [row[0] for row in self._db.query("SELECT nonce FROM conversations")]
        homes = [row[0] for row in self._server.execute(_KNOWN, (nonces,)).fetchall()]
        blocks = [row[0] for row in self._server.execute(_BLOCKS, (homes,)).fetchall()] if homes else []
        found = {(kind, block): self._last_same(kind, block) for block in blocks for kind in NUMBERED}
        best = max(blocks, key=lambda block: found["messages", block], default=0)
        return {kind: (1, found[kind, best], best * BLOCK) for kind in NUMBERED if found.get((kind, best))}

    def _is_older(self, state: State, kind: str) -> bool:
        greatest = self._greatest(state, kind)
        number = state.to_here(kind, greatest)
        if not greatest or number > max(self._outbox.last(kind), state.before[kind]):
            return bool(greatest)
        mine = self._db.query(f"SELECT {_TIME[kind]} FROM {kind} WHERE {NUMBERED[kind]} = ?", (number,))
        return bool(mine) and mine[0][0] not in self._there(kind, [greatest])[greatest]

    def _greatest(self, state: State, kind: str) -> int:
        """The greatest number of the newest block that the server knows; 0 for none."""
        low = state.blocks[-1] * BLOCK
        sql = f"SELECT coalesce(max(id), 0) FROM lcm.{kind} WHERE id > %s AND id < %s"
        return int(self._server.execute(sql, (low, low + BLOCK)).fetchall()[0][0])

    def _there(self, kind: str, numbers: Sequence[int]) -> dict[int, set[float]]:
        """When rows with these numbers were stored; several conversations may have one of a number."""
        out: dict[int, set[float]] = {}
        sql = f"SELECT id, {_TIME[kind]} FROM lcm.{kind} WHERE id = ANY(%s)"
        for number, at in self._server.execute(sql, (list(numbers),)).fetchall():
            out.setdefault(number, set()).add(at)
        return out

    def _here(self, state: State, kind: str, most: int, below: int = BLOCK) -> list[tuple[int, float]]:
        """Numbers of the newest block and times of rows here, the greatest first."""
        low, key = state.blocks[-1] * BLOCK, NUMBERED[kind]
        sql = f"SELECT {key}, {_TIME[kind]} FROM {kind} WHERE {key} > ? AND {key} < ? ORDER BY {key} DESC LIMIT ?"
        return [(int(row[0]), float(row[1])) for row in self._db.query(sql, (low, low + below, most))]

    def _first_other(self, state: State, kind: str) -> int | None:
        """The smallest number here of the newest block that the server has for another row; it has all greater ones so."""
        first, below = None, BLOCK
        while rows := self._here(state, kind, _SAMPLE, below):
            there = self._there(kind, [state.to_fleet(kind, number) for number, _ in rows])
            known = [(number, at in there[n]) for number, at in rows if (n := state.to_fleet(kind, number)) in there]
            first = min([number for number, same in known if not same], default=first)
            if any(same for _, same in known):
                break
            below = rows[-1][0] % BLOCK
        return first

    def _last_same(self, kind: str, block: int) -> int:
        """The greatest number here whose row the server has in a block, as a copy of this file gave it; 0 for none."""
        for rows in self._downwards(kind):
            there = self._there(kind, [number + block * BLOCK for number, _ in rows])
            same = [number for number, at in rows if at in there.get(number + block * BLOCK, ())]
            if same:
                return max(same)
        return 0

    def _downwards(self, kind: str) -> Iterator[list[tuple[int, float]]]:
        key, below = NUMBERED[kind], BLOCK
        sql = f"SELECT {key}, {_TIME[kind]} FROM {kind} WHERE {key} < ? ORDER BY {key} DESC LIMIT ?"
        while rows := [(int(row[0]), float(row[1])) for row in self._db.query(sql, (below, _SAMPLE))]:
            yield rows
            below = rows[-1][0]
