"""
Vectors of stored messages, for questions that share no word with their answer.

Owns the table ``vectors``, a cache beside the search indexes: made when ``LCM_SEMANTIC`` is on, in the archive's own file. A
background thread encodes the beginnings of messages, some at a time, and gives way to host calls. A search reads
them in the caller's scope. What rewrites or removes a message removes its vector in the same transaction.
"""

from __future__ import annotations

import heapq
import importlib
import json
import math
import threading
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from operator import mul
from typing import Any, Final, NamedTuple

from ..errors import StoreBusy, StoreError
from ..storage.connection import Database, Params, marks
from ..storage.leases import Leases
from ..storage.meta import REWRITTEN, Health, Meta
from . import documents
from .documents import FOUND_SQL
from .fts import Where
from .semantic import Semantic, Vector

#: Characters of a message that are encoded: a piece of the search index. More would take longer than 20 minutes for 100,000.
READ_CHARS: Final = documents.CHUNK_CHARS
#: Numbers of a vector that are kept, one byte each: so two rows fit into a page of 1 KiB, where all 512 would fill one each.
KEPT: Final = 496
#: The nearest messages that join the candidates of a search.
NEAREST: Final = 30
#: Vectors that one search compares at most, of the newest messages.
COMPARED: Final = 200_000
TOPIC: Final = "vectors of messages"

_TABLE: Final = "vectors"
_SCHEMA: Final = "CREATE TABLE vectors(store_id INTEGER PRIMARY KEY, vector BLOB NOT NULL)"
#: Ours, not another program's table or view of that name.
_THERE: Final = f"SELECT 1 FROM sqlite_master WHERE name = 'vectors' AND sql = '{_SCHEMA}'"
_MADE_BY: Final = f"SELECT value FROM meta WHERE key = 'vectors' AND EXISTS ({_THERE})"
_SOUND: Final = "typeof(v.vector) = 'blob'"
_LACKING: Final = f"""
SELECT m.store_id, m.conversation_id, m.chars FROM messages AS m WHERE m.store_id > ? AND {FOUND_SQL}
   AND NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.store_id = m.store_id) ORDER BY m.store_id LIMIT ?
"""
_WRITE: Final = f"""
INSERT OR REPLACE INTO vectors(store_id, vector) SELECT m.store_id, ? FROM messages AS m WHERE m.store_id = ? AND {FOUND_SQL}
"""
_FORGET: Final = "DELETE FROM vectors WHERE store_id IN (SELECT value FROM json_each(?))"
_STRAY: Final = f"""
SELECT v.store_id FROM vectors AS v LEFT JOIN messages AS m USING(store_id)
 WHERE v.store_id > ? AND (m.store_id IS NULL OR NOT {FOUND_SQL} OR NOT {_SOUND} OR length(v.vector) > {KEPT}) LIMIT ?
"""
_SOME: Final = "SELECT store_id FROM vectors WHERE store_id > ? LIMIT ?"
_LAST: Final = "SELECT coalesce(max(store_id), 0) FROM vectors"
_NEWEST: Final = f"SELECT m.store_id FROM messages AS m WHERE {FOUND_SQL} ORDER BY m.store_id DESC LIMIT 1"
#: For ``files.rewrite``: the vectors of a conversation, and of its newest messages.
OF_CONVERSATION: Final = (
    "DELETE FROM vectors WHERE store_id IN (SELECT store_id FROM messages WHERE conversation_id = ?)"
)
OF_NEWEST: Final = """
DELETE FROM vectors WHERE store_id IN (
       SELECT store_id FROM messages WHERE conversation_id = ? ORDER BY seq DESC LIMIT ?)
"""
_AT_ONCE: Final = 32  # messages of a step: a third of a second
_CHARS_AT_ONCE: Final = 2_000_000  # of them together, but for a single one: they are read whole
_DROPPED: Final = 2000  # vectors of a step
_PAGE: Final = 5000  # vectors compared at once: 10 MB
_SPAN: Final = 50_000  # addresses between two looks at the clock, however few of them count
_LOOKED_AT: Final = 100_000  # vectors that the plain doctor looks at: a third of a second
_LEAST_CHARS: Final = 4  # "ok" means nothing by itself
_LEAST_COSINE: Final = 0.2  # what is farther from the question is no candidate
_LEASE, _LEASE_S = "vectors", 3600.0
_LOOK_AGAIN_S: Final = 3600.0  # between two looks at all messages for such as lack a vector


# -- what others do to the table ---------------------------------------------------------------------------
def there(db: Database) -> bool:
    """Does the file hold vectors?"""
    return bool(db.query(_THERE))


def forget(db: Database, store_ids: Sequence[int]) -> None:
    """Remove the vectors of messages, inside the caller's transaction."""
    if db.fetch(_THERE):
        db.execute(_FORGET, (json.dumps(list(store_ids)),))


def forgetting(db: Database, sql: str, params: Params) -> list[tuple[str, Params]]:
    """A statement that removes vectors, where there are any."""
    return [(sql, params)] if there(db) else []


def faults(db: Database, *, wanted: bool, deep: bool = True) -> list[str]:
    """Faults of the vectors in words. ``wanted``: the setting is on; ``deep``: not only of the newest."""
    if not there(db):
        return []
    if not wanted:
        count = db.query("SELECT count(*) FROM vectors")[0][0]
        return [f"vectors of {count:,} messages are stored, and LCM_SEMANTIC is off"]
    before = -1 if deep else db.query(_LAST)[0][0] - _LOOKED_AT
    stray = len(db.query(_STRAY, (before, -1)))
    return [f"vectors of no message, or damaged: {stray:,}"] if stray else []


def mend(db: Database, *, wanted: bool) -> None:
    """Remove what ``faults`` tells of, some rows a transaction."""
    while there(db) and (rows := db.query(_STRAY if wanted else _SOME, (-1, _DROPPED))):
        with db.part():
            forget(db, [row[0] for row in rows])
    if not wanted:
        with db.transaction():
            if db.fetch(_THERE):
                db.execute("DROP TABLE vectors")
            Meta(db).forget(_TABLE)


# -- one vector ----------------------------------------------------------------------------------------------
def packed(vector: Vector) -> bytes:
    """A vector's direction, a byte for each number."""
    kept = [float(each) for each in vector[:KEPT]]
    scale = 127 / (max(map(abs, kept), default=0.0) or 1.0)
    return array("b", [round(each * scale) for each in kept]).tobytes()


def cosine(asked: Sequence[float], stored: bytes) -> float:
    """Cosine of a question, of length 1, and a stored vector."""
    numbers = array("b", stored)
    length = math.sqrt(sum(map(mul, numbers, numbers))) or 1.0
    return float(sum(map(mul, asked, numbers)) / length)


def _unit(vector: Vector) -> list[float]:
    kept = [float(each) for each in vector[:KEPT]]
    length = math.sqrt(sum(map(mul, kept, kept))) or 1.0
    return [each / length for each in kept]


def _compared(asked: Sequence[float], stored: Sequence[bytes]) -> Sequence[float]:
    """Cosines of many; without numpy, which comes with the encoder, each by itself."""
    try:
        numpy: Any = importlib.import_module("numpy")
    except ImportError:
        return [cosine(asked, each) for each in stored]
    rows = numpy.frombuffer(b"".join(stored), numpy.int8).reshape(len(stored), -1).astype(numpy.float32)
    lengths = numpy.sqrt(numpy.einsum("ij,ij->i", rows, rows))
    return list((rows @ numpy.asarray(asked, numpy.float32) / numpy.maximum(lengths, 1.0)).tolist())


class Nearest(NamedTuple):
    """The nearest messages to a question: cosines by store id, nearest first.

    ``reached``: the oldest that was compared, where not all were.
    """

    cosines: Mapping[int, float]
    reached: int = 0


def _affordable(rows: Sequence[tuple[int, int, int]]) -> Sequence[tuple[int, int, int]]:
    """Rows of a step, as many as may be in memory at a time."""
    total = accumulate(chars for *_, chars in rows)
    return rows[: max(1, sum(each <= _CHARS_AT_ONCE for each in total))]


# -- searching, and making -------------------------------------------------------------------------------------
class Vectors:
    """The vectors of one database. ``texts``: what messages say, as they are searched."""

    def __init__(
        self,
        db: Database,
        encoder: Semantic,
        texts: Callable[[Sequence[int]], Mapping[int, str]],
        health: Health,
        *,
        give_way: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._db, self._encoder, self._texts, self._health = db, encoder, texts, health
        self._give_way, self._clock = give_way, clock
        self._leases = Leases(db)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._asked = self._running = self._stopped = False
        self._looked, self._look_again, self._file = 0, 0.0, db.in_use

    # -- searching ----------------------------------------------------------------------------------
    def cosines(self, question: str, ids: Sequence[int], text: Callable[[int], str]) -> list[float] | None:
        """Cosines of messages to a question; None when there are none in time.

        ``text``: of the n-th, where no vector is stored.
        """
        stored = self._stored(ids) if self._usable() else {}
        lacking = [n for n, store_id in enumerate(ids) if store_id not in stored]
        made = self._encoder.vectors([question, *map(text, lacking)])
        if made is None:
            return None
        asked = _unit(made[0])
        known = {n: sum(map(mul, made[0], vector)) for n, vector in zip(lacking, made[1:], strict=True)}
        return [known[n] if n in known else cosine(asked, stored[store_id]) for n, store_id in enumerate(ids)]

    def nearest(self, question: str, where: Where) -> Nearest:
        """The nearest messages among the rows that count."""
        made = self._encoder.vectors([question]) if self._usable() else None
        if made is None:
            return Nearest({})
        asked, end = _unit(made[0]), self._clock() + self._encoder.limit_s
        best: list[tuple[float, int]] = []
        left, (first, last) = COMPARED, documents.messages_of(where.first, where.last)
        last = min(last, self._db.query(_LAST)[0][0])
        while last >= first and left > 0 and self._clock() < end:
            low = max(first, last - _SPAN + 1)
            rows = self._page(where, low, last, count := min(_PAGE, left))
            full = [row for row in rows if len(row[1]) == len(asked)]
            if full:
                found = zip(_compared(asked, [row[1] for row in full]), (row[0] for row in full), strict=True)
                best = heapq.nlargest(NEAREST, [*best, *found])
            left, last = left - len(rows), (rows[-1][0] if len(rows) == count else low) - 1
        reached = last + 1 if last >= first else 0
        return Nearest({store_id: near for near, store_id in best if near >= _LEAST_COSINE}, reached)

    def _page(self, where: Where, first: int, last: int, count: int) -> list[tuple[int, bytes]]:
        """Vectors of rows that count, the newest first."""
        everything = where.sql == FOUND_SQL  # its rows are looked at again as they become candidates
        joined = "" if everything else f"JOIN messages AS m ON m.store_id = v.store_id AND {where.sql}"
        few = "" if where.few is None else "AND v.store_id IN (SELECT value FROM json_each(?))"
        sql = f"SELECT v.store_id, v.vector FROM vectors AS v {joined} WHERE v.store_id BETWEEN ? AND ? AND {_SOUND} {few} "
        params = [*(() if everything else where.params), first, last]
        params += [] if where.few is None else [json.dumps(list(where.few))]
        return self._db.query(f"{sql} ORDER BY v.store_id DESC LIMIT ?", (*params, count))

    def _stored(self, ids: Sequence[int]) -> dict[int, bytes]:
        wanted = "v.store_id IN (SELECT value FROM json_each(?))"
        sql = f"SELECT v.store_id, v.vector FROM vectors AS v WHERE length(v.vector) AND {_SOUND} AND {wanted}"
        return dict(self._db.query(sql, (json.dumps(list(ids)),)))

    def _usable(self) -> bool:
        """Are there vectors, and of this encoder?"""
        made_by = self._db.query(_MADE_BY)
        return bool(made_by) and made_by[0][0] == json.dumps(self._encoder.name)

    def state(self) -> dict[str, int]:
        """Progress: the last message that has one, and the newest that a search can find."""
        made = self._db.query(_LAST)[0][0] if self._usable() else 0
        newest = self._db.query(_NEWEST)
        return {"up_to": made, "newest": newest[0][0] if newest else 0}

    # -- making -------------------------------------------------------------------------------------
    def begin(self) -> None:
        """Make what is missing, in a thread of its own. Returns at once."""
        with self._lock:
            if self._stopped or not self._db.exists or self._db.stands_in or self._db.only_read:
                return
            self._asked = True
            if not self._running:
                self._running = True
                self._thread = threading.Thread(target=self._run, name="lcm-vectors", daemon=True)
                self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """End after the step that is being made. While the encoder loads, nothing is."""
        self._stopped = True
        if self._thread is not None and self._encoder.loaded:
            self._thread.join(timeout_s)

    def idle(self, timeout_s: float) -> bool:
        """Wait until nothing is being made; for tests and benchmarks."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while self._is_asked():
                self._round()
        except BaseException as exc:  # the next turn starts another thread
            self._running = False
            self._health.degraded(TOPIC, exc, severity="warning")
            raise

    def _is_asked(self) -> bool:
        """Has a turn asked for it since the last round began? Otherwise the thread ends."""
        with self._lock:
            self._running, self._asked = self._asked and not self._stopped, False
            return self._running

    def _round(self) -> None:
        try:
            ready = self._encoder.wait(given_up=lambda: self._stopped)
            if ready and self._lacking() and self._leases.claim(_LEASE, _LEASE_S):
                self._make()
            if not self._stopped:
                self._health.resolved(TOPIC)
        except StoreBusy:
            pass  # the next turn begins again
        except StoreError as exc:
            self._health.degraded(TOPIC, exc, severity="warning")

    def _lacking(self) -> bool:
        """Is there anything to make? Asked first: a claim is a write."""
        usable = self._usable()  # opens the file
        another = self._db.in_use != self._file  # after a restore
        if another or self._clock() >= self._look_again:  # messages with old addresses may have come, or be rewritten
            self._looked, self._look_again, self._file = 0, self._clock() + _LOOK_AGAIN_S, self._db.in_use
        return not usable or bool(self._db.query(_LACKING, (self._looked, 1)))

    def _make(self) -> None:
        """Make the vectors that are missing, from the oldest message on."""
        try:
            self._prepare()
            while not self._stopped and not self._db.stands_in and self._step():
                self._give_way()
        finally:
            self._leases.release(_LEASE)

    def _prepare(self) -> None:
        """A table of vectors of this encoder: those of another one go."""
        if self._usable():
            return
        mend(self._db, wanted=False)
        with self._db.transaction():
            self._db.execute(_SCHEMA)
            Meta(self._db).note(_TABLE, self._encoder.name)
        self._looked = 0

    def _step(self) -> bool:
        """Vectors of some messages. False: there are no more, or the encoder has failed."""
        rows = _affordable(self._db.query(_LACKING, (self._looked, _AT_ONCE)))
        if not rows:
            return False
        before = self._rewritten({row[1] for row in rows})
        texts = self._texts([row[0] for row in rows])
        said = {n: text[:READ_CHARS] for n, text in texts.items() if len(text.strip()) >= _LEAST_CHARS}
        made = self._encoder.vectors([*said.values()], patient=True) if said else []
        if made is None:
            return False
        known = {**dict.fromkeys(texts, b""), **dict(zip(said, map(packed, made), strict=True))}
        with self._db.transaction():
            if not self._usable():  # a repair removed the table, or it is another encoder's: the next turn begins again
                return False
            if before == self._rewritten({row[1] for row in rows}):  # otherwise some may be of words that are gone
                self._db.executemany(_WRITE, [(vector, store_id) for store_id, vector in known.items()])
                self._looked = rows[-1][0]
        return True

    def _rewritten(self, conversations: set[int]) -> list[tuple[Any, ...]]:
        """Counts of how often messages of these conversations were rewritten."""
        keys = [f"{REWRITTEN}{each}" for each in sorted(conversations)]
        return self._db.query(f"SELECT key, value FROM meta WHERE key IN ({marks(len(keys))}) ORDER BY key", keys)
