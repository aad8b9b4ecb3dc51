"""
Numbers of a file against those that the server knows: was an older file put back, or is this a copy of one that joined?

Asks only; ``outbox`` keeps what follows from it. No number says that two rows are the same: two copies of a file give out the
same ones. They are if they were stored at the same time; messages also if they say the same in the same conversation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..storage.connection import Database
from .outbox import BLOCK, NUMBERED, Outbox, Range, State, Taken

if TYPE_CHECKING:
    from psycopg import Connection

_SAMPLE: Final = 2_000
#: So many blocks are asked for at once; rows of others that lie further beyond are a thief's, since hosts ask before they push.
_MOST_BLOCKS: Final = 10_000
_Mark = tuple[float | str, bytes]
#: Time and words by which a row is known from another one of the same number; here and there.
_MARKS: Final = {
    "messages": ("stored_at", "digest"), "nodes": ("r.created_at", "fingerprint"), "assemblies": ("r.created_at", "NULL"),
}  # fmt: skip
_OWN: Final = "SELECT block FROM lcm.blocks WHERE block = ANY(%s) AND role = session_user"
_KNOWN: Final = "SELECT conversation FROM lcm.conversations WHERE nonce = ANY(%s)"
_BLOCKS: Final = f"SELECT DISTINCT id / {BLOCK} FROM lcm.messages WHERE conversation = ANY(%s)"


class Numbers:
    """Numbers of one file, compared over one connection."""

    def __init__(self, db: Database, outbox: Outbox, connection: Connection[tuple[Any, ...]]) -> None:
        self._db, self._outbox, self._server = db, outbox, connection

    def is_older(self, state: State) -> bool:
        """Does the server have a greater number of the newest block than this file ever gave? Then an older file was put back."""
        low = state.blocks[-1] * BLOCK
        for kind in ("messages", "nodes"):
            greatest = self._greatest(kind, state.blocks[-1])
            if greatest > max(self._outbox.last(kind), low + state.before[kind]):
                return True
        return False

    def taken(self, state: State) -> list[Taken]:
        """Ranges of numbers of rows that wait here, and that the server has for other rows, or never gave to this role.

        The file or its copy gave them twice: after an older one was put back, or on two machines, of which the other one may
        be about to send its rows.
        """
        ranges = [(kind, *each) for kind in NUMBERED for each in self._outbox.waiting(kind)]
        blocks = [first // BLOCK for _, first, _ in ranges]
        own = {row[0] for row in self._server.execute(_OWN, (blocks,)).fetchall()} if blocks else set()
        out = []
        for kind, first, last in ranges:
            clash = self._first_other(state, kind, first, last, given=first // BLOCK in own)
            if clash is not None:
                out.append(Taken(kind, clash, max(last, self._greatest(kind, first // BLOCK))))
        return out

    def clash(self, state: State, kind: str, numbers: Sequence[int]) -> bool:
        """Does the server have one of these numbers, or one between them, for another row than is here?"""
        blocks: dict[int, list[int]] = {}
        for number in numbers:
            blocks.setdefault(number // BLOCK, []).append(number)
        ranges = [(min(each), max(each)) for each in blocks.values()]
        return any(self._first_other(state, kind, *each, given=True) is not None for each in ranges)

    def shared(self) -> dict[str, Range]:
        """Rows that the server has from another copy of this file, which joined first: their range and its distance, by table."""
        nonces = [row[0] for row in self._db.query("SELECT nonce FROM conversations")]
        homes = [row[0] for row in self._server.execute(_KNOWN, (nonces,)).fetchall()]
        blocks = [row[0] for row in self._server.execute(_BLOCKS, (homes,)).fetchall()] if homes else []
        found = {(kind, block): self._last_same(kind, block) for block in blocks for kind in NUMBERED}
        best = max(blocks, key=lambda block: found["messages", block], default=0)
        return {kind: (1, found[kind, best], best * BLOCK) for kind in NUMBERED if found.get((kind, best))}

    def new_block(self, file: str, beyond: int = 0, *, own: bool = False) -> int:
        """A block for a file. ``beyond``: an earlier server gave blocks up to this one; SQLite counts on from there.

        ``own``: by the word of this file, however many these are. One in which the server has rows already is another host's,
        by the word of that earlier server.
        """
        while True:
            block = int(self._server.execute("SELECT lcm.new_block(%s)", (file,)).fetchall()[0][0])
            while block <= beyond and (own or beyond < block + _MOST_BLOCKS):
                sql = "SELECT max(lcm.new_block(%s)) FROM generate_series(%s::bigint, %s)"
                until = min(beyond, block + _MOST_BLOCKS)
                block = int(self._server.execute(sql, (file, block, until)).fetchall()[0][0])
            if not any(self._greatest(kind, block) for kind in ("messages", "nodes")):
                return block

    def _greatest(self, kind: str, block: int) -> int:
        """The greatest number of a block that the server knows; 0 for none."""
        sql = f"SELECT coalesce(max(id), 0) FROM lcm.{kind} WHERE id > %s AND id < %s"
        return int(self._server.execute(sql, (block * BLOCK, (block + 1) * BLOCK)).fetchall()[0][0])

    def _first_other(self, state: State, kind: str, first: int, last: int, *, given: bool) -> int | None:
        """The smallest number of a range that the server has for another row than is here; it has all greater ones so.

        ``given``: by the server, to this role. Of other numbers that wait, the first one that the server has not for this row.
        """
        sql = f"SELECT DISTINCT id FROM lcm.{kind} WHERE id BETWEEN %s AND %s ORDER BY id LIMIT {_SAMPLE}"
        while True:
            numbers = (
                [row[0] for row in self._server.execute(sql, (first, last)).fetchall()]
                if given else self._outbox.fresh(kind, first, last, _SAMPLE)
            )  # fmt: skip
            if not numbers:
                return None
            own = [number for number in numbers if state.to_fleet(kind, number) == number]
            there, here = self._there(kind, own), self._here(kind, own)
            other = [number for number in own if number in here and not here[number] & there.get(number, set())]
            if other:
                return int(other[0])
            first = numbers[-1] + 1

    def _last_same(self, kind: str, block: int) -> int:
        """The greatest number here whose row the server has in a block, as a copy of this file gave it; 0 for none."""
        key, below = NUMBERED[kind], BLOCK
        sql = f"SELECT {key} FROM {kind} WHERE {key} < ? ORDER BY {key} DESC LIMIT ?"
        while numbers := [row[0] for row in self._db.query(sql, (below, _SAMPLE))]:
            here, there = self._here(kind, numbers), self._there(kind, [n + block * BLOCK for n in numbers])
            same = [n for n in numbers if here[n] & there.get(n + block * BLOCK, set())]
            if same:
                return int(same[0])
            below = numbers[-1]
        return 0

    def _there(self, kind: str, numbers: Sequence[int]) -> dict[int, set[_Mark]]:
        """Marks of rows of the server by number; several conversations may have one."""
        at, words = _MARKS[kind]
        sql = f"SELECT id, {at}, {words}, nonce FROM lcm.{kind} r JOIN lcm.conversations USING(conversation) WHERE id = ANY(%s)"
        return _marks(kind, self._server.execute(sql, (list(numbers),)).fetchall())

    def _here(self, kind: str, numbers: Sequence[int]) -> dict[int, set[_Mark]]:
        """Marks of rows here by number."""
        (at, words), key = _MARKS[kind], NUMBERED[kind]
        sql = (
            f"SELECT {key}, {at}, {words}, nonce FROM {kind} r JOIN conversations USING(conversation_id) "
            f"WHERE {key} IN (SELECT value FROM json_each(?))"
        )
        return _marks(kind, self._db.query(sql, (json.dumps(list(numbers)),)))


def _marks(kind: str, rows: Iterable[Sequence[Any]]) -> dict[int, set[_Mark]]:
    out: dict[int, set[_Mark]] = {}
    for number, at, words, nonce in rows:
        known = out.setdefault(number, set())
        known.add((at, bytes(words or b"")))
        if kind == "messages":
            known.add((nonce, bytes(words)))
    return out
