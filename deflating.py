"""
Large envelopes are stored as they are in their turn (huge ones in a file aside), and deflated into their rows behind it.

Owns the note up to which row that is done. A row says the same before and after, so nobody need know where this stands; whoever
is killed in the middle does the rest next time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .db.connection import Database
from .db.meta import Meta
from .errors import StoreCorrupt
from .store import MessageStore

_DONE: Final = "deflated_to"  # the last row that was looked at
_STEP: Final = 20_000  # rows that are looked at in one statement
#: Whoever read a row just before its envelope came into it still opens the file.
KEPT_S: Final = 60.0
_WORTH_NOTING: Final = 1000  # rows without a large one: looking at them again costs less than writing that down


class Deflating:
    """What of one database's envelopes is to be made smaller."""

    def __init__(self, db: Database, store: MessageStore) -> None:
        self._db = db
        self._store = store
        self._meta = Meta(db)
        self._tried: set[int] = set()  # of those whose turn is over

    def waiting(self) -> int:
        """How many large envelopes have not been looked at yet."""
        done, last = self._done(), self._last()
        return len(self._store.cold.large_alone(after=done, upto=last)) if done < last else 0

    def step(self, go_on: Callable[[], bool], *, kept_s: float = KEPT_S) -> int:
        """Deflate what came since the last time, as long as ``go_on`` says so; how many were. Raises StoreError.

        Files that envelopes have left for so long are removed.
        """
        noted = done = self._done()
        last = self._last()
        made = 0
        while done < last and go_on():
            upto = min(done + _STEP, last)
            for store_id in self._store.cold.large_alone(after=done, upto=upto):
                if not go_on():
                    break
                made += self._deflated(store_id)
                done = store_id
            else:
                done = upto
        if made or done - noted >= _WORTH_NOTING:
            self._meta.note(_DONE, done)
        made += self._late(done, go_on)
        self._store.cold.sweep_aside(older_s=kept_s)
        return made

    def _late(self, done: int, go_on: Callable[[], bool]) -> int:
        """Bring home what could not be read when its turn came: somebody has put the file back. Tried once by a process."""
        made = 0
        for store_id in self._store.cold.left_aside(older_s=KEPT_S):
            if store_id <= done and store_id not in self._tried and go_on():
                self._tried.add(store_id)
                made += self._deflated(store_id)
        return made

    def _deflated(self, store_id: int) -> bool:
        try:
            return self._store.cold.deflate(store_id)
        except StoreCorrupt:
            return False  # the doctor tells of it; those behind it do not wait for its repair

    def _done(self) -> int:
        return int(self._meta.value(_DONE) or 0)

    def _last(self) -> int:
        newest = self._db.query_one("SELECT max(store_id) FROM messages")
        return int(newest[0] or 0) if newest else 0
