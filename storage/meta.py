"""
Notes of a database on itself: small facts by name, and problems that were survived, until they are resolved (P9).

Owns the tables ``meta`` and ``health``. A fact is JSON. Its prefix tells whose it is: ``rotate:`` and ``dissolved:`` are
orders of an operator, ``notices:`` and ``pulled:`` a chat's wishes (``session.py``), ``purging:`` what a purge has still to
erase, ``removed:`` counts addresses without a row (deleted by an operator, lost to a salvage, or never given here); others are
states that outlive a process (breakers, what was spent). A problem lives in memory first, because the database may be the
problem; it is written as soon as that works.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..errors import LcmError, StoreBusy, StoreError, StoreFull, StoreReadOnly, worded
from ..text.content import mapped
from .connection import Database

#: ``removed:<table>``: how many of the addresses ever given have no row (any more). Statements for ``files.rewrite``.
COUNT_REMOVED = tuple(
    f"INSERT INTO meta(key, value) SELECT 'removed:{table}', "
    f"coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{table}'), 0) - (SELECT count(*) FROM {table}) "
    "WHERE true ON CONFLICT(key) DO UPDATE SET value = excluded.value"
    for table in ("messages", "nodes")
)
#: How many messages were removed or rewritten since the search index was made: it holds their words until it is made anew.
INDEXED_STILL = "index_removed"
#: Answers of a model to a question that is put to many messages, until all were asked.
ANSWERS = "mapped:"
#: ``reindexing:<index>``: who makes it anew, or was killed at it; the next one goes on where that one stopped.
REINDEXING = "reindexing:"
#: ``shown:<session>``: [the newest prompt, the one that the list shows instead or 0], where the host refused the newest.
SHOWN = "shown:"
#: Both are made of what messages say: they go when any message is rewritten or removed.
FORGET_MADE = f"DELETE FROM meta WHERE key GLOB '{ANSWERS}*' OR key GLOB '{REINDEXING}*'"
_NAMES = "SELECT session_id FROM sessions WHERE conversation_id = ?"
#: How topics of problems begin behind which a session is named.
OF_SESSIONS = ("owner of ", "unknown context message in ", "request rewrite of ")
#: Takes the sessions of a conversation, and a person who has no other one, out of what is kept by their names: orders, plans, the
#: last exam, problems, choices.
FORGET_SESSIONS = (
    f"""
    DELETE FROM meta WHERE key IN (SELECT column1 || session_id FROM ({_NAMES}),
           (VALUES ('rotate:'), ('pulled:'), ('retained:'), ('mapping:'), ('shown:')))
    """,
    f"""
    UPDATE meta SET value = (SELECT json_group_object(key, json(value)) FROM json_each(meta.value) WHERE key NOT IN ({_NAMES}))
     WHERE key = 'folds' AND json_valid(value)
    """,
    f"DELETE FROM meta WHERE key = 'exam:last' AND json_valid(value) AND json_extract(value, '$.session_id') IN ({_NAMES})",
    f"""
    DELETE FROM health
     WHERE topic IN (SELECT value || session_id FROM ({_NAMES}), json_each('{json.dumps(OF_SESSIONS)}'))
    """,
    """
    DELETE FROM meta WHERE key = (SELECT 'notices:' || principal FROM conversations AS c WHERE conversation_id = ?
           AND NOT EXISTS (SELECT 1 FROM conversations WHERE principal = c.principal AND conversation_id <> c.conversation_id))
    """,
)
#: ``rewritten:<conversation>``: how often messages of it were; what a model wrote of them meanwhile is of words that are gone.
REWRITTEN = "rewritten:"
#: So many more under a key. After a deletion, instead of a count of all rows that are left.
ADD = "INSERT INTO meta(key, value) VALUES (?2, ?1) ON CONFLICT(key) DO UPDATE SET value = CAST(value AS INTEGER) + ?1"
_COUNT_BOTH = (
    "INSERT INTO meta(key, value) SELECT column1, '0' FROM (VALUES ('removed:messages'), ('removed:nodes')) "
    "WHERE NOT EXISTS (SELECT 1 FROM meta WHERE key GLOB 'removed:*')"
)
_GIVEN = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?"
#: How many messages repairs could not read, but for those that came back under their addresses since.
NOT_READ = "not_read"
#: ``hole:<conversation>:<sequence number behind it>``: where a repair found numbers missing: [both, the last sequence number of
#: the conversation then, the last address of the file]. What was stored later, in between, fills it.
HOLE = "hole:"
_FEWER = "UPDATE meta SET value = max(0, CAST(value AS INTEGER) - ?) WHERE key = ?"


@contextmanager
def skips_counted(db: Database, table: str, *, kept: bool) -> Iterator[list[int]]:
    """Count of addresses that an insert skips: they count as removed, for a total would count them as rows.

    One that had no row, and gets one back, counts as removed no more. ``kept``: the rows have their addresses from another file;
    others skip none. The caller adds their addresses to the list.
    """
    before, added = db.fetch(_GIVEN, (table,))[0][0] if kept else 0, list[int]()
    yield added
    if kept:
        back = sum(address <= before for address in added)
        skipped = db.fetch(_GIVEN, (table,))[0][0] - before - (len(added) - back)
        if skipped > 0:
            db.execute(_COUNT_BOTH)
            db.execute(ADD, (skipped, f"removed:{table}"))
        for key in (f"removed:{table}", *([NOT_READ] if table == "messages" else [])) if back else ():
            db.execute(_FEWER, (back, key))


class Meta:
    """The facts of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def value(self, key: str) -> Any:
        """The value under ``key``, or None."""
        row = self._db.query_one("SELECT value FROM meta WHERE key = ?", (self._db.clean(key),))
        return _read(row[0]) if row else None

    def with_prefix(self, prefix: str) -> dict[str, Any]:
        """Facts whose key begins with ``prefix``, by the rest of the key."""
        prefix = self._db.clean(prefix)
        rows = self._db.query(
            "SELECT key, value FROM meta WHERE key >= :low AND key < :high ORDER BY key",
            {"low": prefix, "high": prefix + "\U0010ffff"},
        )
        return {key[len(prefix) :]: _read(value) for key, value in rows}

    def note(self, key: str, value: Any) -> None:
        """Write one fact, inside or outside a transaction. Neither it nor its key keeps a secret."""
        value = mapped(value, self._db.clean)
        with self._db.transaction():
            self._db.execute(
                "INSERT INTO meta(key, value) VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value",
                (
                    self._db.clean(key),
                    json.dumps(value),
                ),  # escaped: SQLite takes no lone surrogate, which a name of others may hold
            )

    def forget(self, key: str) -> None:
        """Remove one fact; one that is not there is no error."""
        with self._db.transaction():
            self._db.execute("DELETE FROM meta WHERE key = ?", (self._db.clean(key),))


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


logger = logging.getLogger("hermes_lcm")

#: Topics about settings. Each process has its own to tell: what an earlier one told may have been corrected since.
_OF_SETTINGS = ("setting ", "sensitive pattern ", "message pattern ", "slow pattern", "metrics file")
#: Remedies of what is wrong with the file for a while, and with every topic that needs it.
_PASSING = frozenset(kind.remedy for kind in (StoreBusy, StoreFull, StoreReadOnly))
#: Topic of notes that are written again with the next turn: no promise hangs on them, but a disk that refuses one is ill.
NOTES = "notes"
#: Topics of a session that could not be begun: what is stored of it afterwards has begun it.
_BEGINNINGS = ("bind", "session start", "session look-up")
#: Topic of the worker behind the turns.
WORKER = "background worker"
#: Topics that their own next success ends: they may fail again and again where a message can be stored.
_END_THEMSELVES = (WORKER, NOTES)
_DEFECT = "see the log of Hermes for the traceback, and report it with `/lcm status`"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that went wrong. ``severity``: "error" (a promise is at risk) or "warning"."""

    topic: str
    severity: str
    message: str
    remedy: str
    count: int
    first_at: float
    last_at: float


class Health:
    """Problems by topic, and counters of this process."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock
        self._lock = threading.Lock()
        self._problems: dict[str, Problem] = {}
        self._unsaved: set[str] = set()
        self._loaded: object = None  # the file whose problems are known here
        self._kept: dict[str, str] = {}
        #: What is said of a problem goes through this; redaction replaces it.
        self.clean: Callable[[str], str] = str
        self.counters: Counter[str] = Counter()
        #: Failures of this process by topic, resolved or not.
        self.failures: Counter[str] = Counter()

    def degraded(self, topic: str, error: BaseException | str, *, severity: str = "error", remedy: str = "") -> None:
        """Remember a problem. The same topic again counts up."""
        now = self._clock()
        said = error if isinstance(error, str) else worded(error)
        topic = self.clean(topic)
        said = self.clean(said.encode("utf-8", "backslashreplace").decode("utf-8"))
        remedy = remedy or str(getattr(error, "remedy", "" if isinstance(error, str | LcmError | OSError) else _DEFECT))
        with self._lock:
            self.failures[topic] += 1
            before = self._problems.get(topic)
            if before is None:
                named = said.startswith(topic.rpartition(" ")[2])  # a refused setting says its name itself
                logger.warning("%s", said if named else f"{topic}: {said}")
                self._problems[topic] = Problem(topic, severity, said[:500], remedy, 1, now, now)
            else:
                self._problems[topic] = replace(
                    before, severity=severity, message=said[:500], remedy=remedy, count=before.count + 1, last_at=now
                )
            if not topic.startswith(_OF_SETTINGS):
                self._unsaved.add(topic)

    def found(self, topic: str, said: str, *, remedy: str) -> None:
        """Remember a state that lasts until it is mended: met again, it neither counts up nor is written again."""
        self._load()
        before = self._problems.get(self.clean(topic))
        if before is None or before.message != self.clean(said)[:500]:
            self.degraded(topic, said, remedy=remedy)

    def resolved(self, topic: str) -> None:
        """Note that a problem is gone."""
        topic = self.clean(topic)
        if not self._is_loaded:
            self._load(may_open=self._db.path.exists())
        with self._lock:
            if topic not in self._problems:
                return
            del self._problems[topic]
            self._unsaved.add(topic)
        self.save()

    def tell(
        self, topic: str, problem: BaseException | str | None, *, severity: str = "error", remedy: str = ""
    ) -> None:
        """A topic as it is now: what is wrong with it, or nothing."""
        if problem:
            self.degraded(topic, problem, severity=severity, remedy=remedy)
        else:
            self.resolved(topic)

    @contextmanager
    def watched(self, topic: str) -> Iterator[None]:
        """Work whose failure in the database is a warning, until it works again."""
        try:
            yield
        except StoreError as exc:
            self.degraded(topic, exc, severity="warning")
        else:
            self.resolved(topic)

    def written(self) -> None:
        """Note that something was stored: failures to begin, or for want of a lock, of room or of a right, are over."""
        for topic, problem in self._problems.copy().items():
            if topic in _BEGINNINGS or (problem.remedy in _PASSING and topic not in _END_THEMSELVES):
                self.resolved(topic)

    def save(self) -> None:
        """Write what changed. Never raises: the next call tries again."""
        if not self._unsaved:
            return
        with self._lock:
            topics = {topic: self._problems.get(topic) for topic in self._unsaved}
        try:
            with self._db.transaction():
                for topic, problem in topics.items():
                    self._db.execute("DELETE FROM health WHERE topic = ?", (topic,))
                    if problem is not None:
                        self._db.execute(
                            "INSERT INTO health(topic, severity, message, remedy, count, first_at, last_at) "
                            "VALUES (?,?,?,?,?,?,?)",
                            (
                                topic, problem.severity, problem.message, problem.remedy, problem.count, problem.first_at,
                                problem.last_at,
                            ),
                        )  # fmt: skip
        except StoreError as exc:
            logger.debug("health not saved: %s", exc)
            return
        with self._lock:
            self._unsaved -= {topic for topic, problem in topics.items() if self._problems.get(topic) == problem}

    def keep(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Write small states (breaker, spend) that changed, in one go. Never raises: they are kept again at the next call."""
        texts = {key: json.dumps(state, sort_keys=True) for key, state in states.items()}
        changed = [key for key, text in texts.items() if self._kept.get(key) != text]
        if not changed:
            return
        try:
            with self._db.transaction():
                for key in changed:
                    Meta(self._db).note(key, states[key])
        except StoreError as exc:
            self.degraded(NOTES, exc, severity="warning")
        else:
            self._kept.update(texts)
            self.resolved(NOTES)

    def rewrite(self, key: str, made: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> bool:
        """Write a state that processes share, made from the one there is; False where nothing can be written."""
        try:
            with self._db.transaction():
                state = Meta(self._db).value(key)
                Meta(self._db).note(key, made(state if isinstance(state, dict) else {}))
        except StoreError as exc:
            logger.debug("%s not saved: %s", key, exc)
            return False
        return True

    def kept_state(self, key: str) -> dict[str, Any]:
        """The state that was kept, {} if there is none or it cannot be read."""
        try:
            state = Meta(self._db).value(key)
        except StoreError:
            return {}
        return state if isinstance(state, dict) else {}

    def problems(self, *, may_open: bool = True) -> list[Problem]:
        """Unresolved problems of this process and of earlier ones, worst first."""
        self._load(may_open=may_open)
        with self._lock:
            return sorted(self._problems.values(), key=lambda problem: (problem.severity, problem.topic))

    @property
    def _is_loaded(self) -> bool:
        return self._loaded is not None and self._db.identity in (None, self._loaded)

    def _load(self, *, may_open: bool = False) -> None:
        """Read the problems of other processes from the file; once for each file that takes its place.

        A success on the turn's path opens no database for it.
        """
        if self._is_loaded or not (may_open or self._db.is_open):
            return
        try:
            rows = self._db.query("SELECT topic, severity, message, remedy, count, first_at, last_at FROM health")
        except StoreError:
            return
        with self._lock:
            self._loaded = self._db.identity
            for row in rows:
                if not row[0].startswith(_OF_SETTINGS) and row[0] not in self._unsaved:
                    self._problems.setdefault(row[0], Problem(*row))
