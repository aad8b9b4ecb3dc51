"""
Going on without the database: a stand-in file takes what is stored while it cannot be used, and is merged when it works again.

One per process and database. Decides when the stand-in is taken, what is copied into it, and when the database works again; the
files are the business of ``storage/standby``, the merging of ``merge``. A stand-in that another process left behind is merged by
the next one that stores anything, or taken over while the database still cannot be used.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import LcmError, Overtaken, StoreCorrupt, StoreEarlier, StoreError, StoreForeign, StoreTooNew, StoreTooOld
from ..ops.backup import prune_stand_ins
from ..ops.survey import readable
from ..storage import disk, files, schema, standby
from ..storage.connection import Database
from ..storage.disk import in_memory, is_memory, stand_in
from ..storage.meta import Health
from ..storage.upgrade import BACKUPS
from .adopt import adopt_beside, exchange, is_earlier, parts_on
from .ledger import Ledger, Source
from .merge import KIND, Merged, explains, is_known, merge

if TYPE_CHECKING:
    from ..recall.access import Access

logger = logging.getLogger("hermes_lcm")

TOPIC: Final = "stand-in"
ADOPTION: Final = "adoption"
_BY_ITSELF: Final = "nothing to do; it goes on by itself"
_TELL_S: Final = 1.0
_PROBE_MS: Final = 20
#: What only another file can cure: no question to this one until it has changed.
_LASTING: Final = (StoreCorrupt, StoreForeign, StoreTooNew, StoreTooOld)
#: Rows may hold anything.
_NOT_MERGED: Final = (StoreError, ValueError, TypeError, LookupError, AttributeError, zlib.error)
#: What a value that SQLite refuses raises: it would be refused by a stand-in, too.
_OF_A_VALUE: Final = (UnicodeError, OverflowError)
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 5.0
_OTHERS_S, _LOOK_S = 3.0, 0.02
_FIRST, _NEXT, _WAITS = range(3)


class Standby:
    """The stand-in of one database, if it needs one."""

    def __init__(
        self,
        db: Database,
        deps: Callable[[], Access],
        health: Health,
        *,
        give_way: Callable[[], object] = lambda: None,
    ) -> None:
        self._db, self._deps, self._health = db, deps, health
        self._beside = Database(db.path)  # one for all who look: what one of them has open would lock another out
        self._beside.reads_when_full = True
        self._lock = threading.RLock()
        self._looked: object = None  # the same, whether or not all of them could be merged
        #: Identity of the file whose left-over stand-ins are merged.
        self.settled: object = None
        self._reason: type[StoreError] | None = None
        self._seen: object = None  # what the file looked like when it failed
        self._wait_s, self._not_before = _FIRST_WAIT_S, 0.0
        self._passes = (
            False  # did the last look at a damaged file fail for a reason that ends by itself, such as a lock?
        )
        self._leaves_at = 0.0  # not before that: memory goes to a file
        self._copied: set[str] = set()
        self._source: Path = db.path
        self._rest: list[str] | None = None
        self._give_way = give_way
        self._adopting: threading.Thread | None = None
        self._left, self._told_at = 0, 0.0
        #: Sessions whose user knows of the stand-in: where it is, and whether the earlier plugin's file is the reason.
        self._told: dict[str, tuple[str, bool]] = {}

    def of_database(self, deps: Access) -> Access:
        """Access to the database itself, not to its stand-in."""
        if not self._db.stands_in:
            return deps
        return replace(parts_on(deps, self._beside, ready=False), health=deps.health)

    def _is(self, *kinds: type[StoreError]) -> bool:
        """Is the database unusable for such a reason?"""
        return self._reason is not None and issubclass(self._reason, kinds)

    def news(self, session_id: str) -> str:
        """One line for the user of a session, once: that something stands in for the database, or does no longer."""
        if self._db.stands_in and session_id not in self._told:
            where = "memory" if is_memory(self._db.file) else self._db.file.name
            earlier = self._is(StoreEarlier) and not is_memory(self._db.file)
            self._told[session_id] = where, earlier
            wrong = f"cannot be used: {(self._reason or StoreError).remedy}"
            wrong = "was written by the earlier plugin and is taken over now" if earlier else wrong
            said = f"its database {self._db.path.name} {wrong}; everything is kept in {where} meanwhile"
        elif not self._db.stands_in and session_id in self._told:
            where, earlier = self._told.pop(session_id)
            over = "the earlier plugin's database is taken over" if earlier else "its database works again"
            said = f"{over}, and what was kept in {where} is in it"
        else:
            return ""
        return f"[The conversation archive asks you to begin your answer with one line for the user: {said}.]"

    # -- taking it ------------------------------------------------------------------------------------
    def takes_over(self, exc: Exception, was: object) -> bool:
        """Is it worth while to do again what failed? ``was``: what was ``in_use`` when it began.

        A stand-in is taken where the file in use cannot be used; where it stood in already, what is left is memory.
        """
        error = self._reason_of(exc)
        if error is None or isinstance(error, Overtaken):
            return False
        with self._lock, self._db.alone():
            if self._db.in_use != was and self._db.is_open:
                return True  # another thread was faster, or somebody exchanged the file
            return not is_memory(self._db.file) and self._take(error)

    def _reason_of(self, exc: Exception) -> StoreError | None:
        """Why the file cannot be used; None where what failed is no matter of the file."""
        if isinstance(exc, StoreError) and not isinstance(exc.__cause__, _OF_A_VALUE):
            lost = files.lost_parts(self._db.file) if type(exc) is StoreError and not is_memory(self._db.file) else []
            return StoreCorrupt(f"{exc}; gone: {schema.lacked(lost)}") if lost else exc
        with suppress(StoreError):
            if odd := schema.odd_numbers(self._db.query):
                return StoreCorrupt(f"{self._db.file}: {'; '.join(odd)}")
        return None

    def _take(self, error: StoreError) -> bool:
        source = self._db.file
        if source == self._db.path:
            self._reason, self._seen = type(error), self._look()  # not the error: it holds on to whatever met it
            self._wait_s, self._not_before = _FIRST_WAIT_S, 0.0
        chosen = [] if self._db.stands_in else self._files()
        for file in (*chosen, in_memory()):
            try:
                self._begin(file, source)
            except StoreError as exc:
                logger.warning("no stand-in at %s: %s", file, exc)
                with suppress(StoreError):
                    self._db.use(source)
                continue
            for problem in self._health.problems(may_open=False):
                if problem.remedy == error.remedy:  # the same, of whatever met it first
                    self._health.resolved(problem.topic)
            self._tell(error, file)
            if not is_memory(file) and isinstance(error, StoreForeign) and is_earlier(self._db.path):
                self._adopt()
            return True
        return False

    def _tell(self, error: StoreError, file: Path) -> None:
        """Say what is stored where meanwhile."""
        kept = f"new messages are stored in {'memory' if is_memory(file) else file} meanwhile"
        if isinstance(error, StoreEarlier) and not is_memory(file):
            said = f"{self._db.path} was written by the earlier plugin and is taken over now; {kept}"
            self._health.degraded(TOPIC, said, severity="warning", remedy=_BY_ITSELF)
            return
        said = f"the database cannot be used ({error}); {kept}, and merged when it works again"
        self._health.degraded(TOPIC, said, remedy=f"{error.remedy}; then they are merged")

    def _files(self) -> list[Path]:
        """Files that may stand in: one that a process left behind, or a new one."""
        if not self._may_ask():
            return []
        try:
            left = standby.free(self._db.path, self._db.file)[-1:]
            mine = [standby.claimed(self._db.path, path) for path in left]
            return [*filter(None, mine), stand_in(self._db.path, time.time())]
        except OSError:
            return []

    def _may_ask(self) -> bool:
        """Is it of use to ask a file? Where its file system grants no locks, SQLite asks for ten seconds each time."""
        return disk.grants_locks(self._db.path.parent)

    def _begin(self, file: Path, source: Path) -> None:
        fresh = is_memory(file) or not file.exists()
        self._copied.clear()  # before the file is in use: who looks whether a conversation was copied holds no lock
        self._rest = None
        self._source = source
        self._db.use(file, watched=not self._is(*_LASTING))
        try:
            self._db.open()
            known = (self._may_ask() and standby.take_numbers(self._db, source)) if fresh else True
            if not known and not self._is(StoreForeign) and source.exists() and source.stat().st_size:
                standby.give_numbers(self._db, int(time.time()))
        except StoreError:
            if fresh and not is_memory(file):
                self._db.close()
                files.discard(file)
            raise

    def _sources(self) -> list[Path]:
        """Files that cannot be used: a stand-in that failed knows more of a session than the database behind it."""
        return [*dict.fromkeys((self._source, self._db.path))]

    def copy(self, session_id: str) -> None:
        """Bring the conversation of a session over from the file that cannot be used, as far as it can be read; once."""
        if session_id in self._copied or not self._may_ask():
            return
        with self._lock:
            try:
                if session_id not in self._copied:  # by another thread, for which this one waited
                    self._copy(session_id)
            finally:
                self._copied.add(session_id)

    def _copy(self, session_id: str) -> None:
        tried = (standby.copy_session(self._db, each, session_id) for each in self._sources())
        found = next(filter(None, tried), None)
        if found is None:
            return
        deps = self._deps()
        with self._db.transaction():
            deps.index.documents.postpone(found.messages)
            for node_id, conversation_id, text in found.nodes:
                deps.node_index.add(node_id, conversation_id, text)

    def copy_more(self, *, seconds: float) -> int:
        """Bring other sessions over, the newest first, for so many seconds; how many are left."""
        if self._adopting is not None and self._adopting.is_alive():
            self._adopting.join(seconds)
            return self._left
        rest = self._rest
        if rest is None:
            names = (name for each in self._sources() for name in standby.sessions(self._db, each))
            rest = self._rest = [*dict.fromkeys(names)][::-1]
        end = time.monotonic() + seconds
        while rest and time.monotonic() < end:  # another stand-in that is begun meanwhile has a list of its own
            self.copy(rest.pop())
        return len(rest)

    # -- the earlier plugin's database ----------------------------------------------------------------
    def _adopt(self) -> None:
        """Take the earlier plugin's database into the stand-in, behind the turns; then it takes that one's place."""
        if self._adopting is None or not self._adopting.is_alive():
            self._adopting = threading.Thread(
                target=copy_context().run, args=(self._adopted,), name="lcm-adopt", daemon=True
            )
            self._adopting.start()

    def _adopt_again(self) -> None:
        """An adoption that failed is tried again after a while: the other plugin may have had the file open."""
        tried = self._adopting is not None and not self._adopting.is_alive()
        if (
            tried
            and self._db.stands_in
            and not is_memory(self._db.file)
            and time.monotonic() >= self._not_before
            and is_earlier(self._db.path)
        ):
            self._adopt()

    def _adopted(self) -> None:
        deps = self._deps()
        try:
            with self._db.steady():
                done = adopt_beside(deps, self._progress)
            with self._lock, self._db.alone():
                if self._db.stands_in:
                    exchange(deps, done)
        except (LcmError, OSError) as exc:
            if self._db.stands_in:
                self._health.degraded(ADOPTION, exc, severity="warning")
                self._later()
            return
        self._left = 0
        self._reason = None
        logger.warning("%s: adopted; the original is %s", self._db.path, done.kept)
        for topic in (TOPIC, ADOPTION):
            self._health.resolved(topic)

    def _progress(self, what: str, done: int, total: int) -> None:
        self._left = max(0, total - done)
        self._give_way()
        now = time.monotonic()
        if now >= self._told_at + _TELL_S:
            self._told_at = now
            said = f"{self._db.path} is taken over from the earlier plugin: {what}, {done:,}" + (
                f" of {total:,}" if total else ""
            )
            self._health.degraded(ADOPTION, said, severity="warning", remedy=_BY_ITSELF)

    # -- giving it back -------------------------------------------------------------------------------
    def settle(self) -> None:
        """Merge what stood in, if the database works (again). Never raises. Not needed for a current file that is ``settled``."""
        if self._looked == self._db.identity and time.monotonic() < self._not_before and self._db.is_current:
            return
        with self._lock:  # while another thread merges: what this one is to store belongs behind that
            if self._db.stands_in:
                self._come_back()
                self._adopt_again()
            elif self.settled == self._db.identity and self._db.is_current:
                return
            if not self._db.stands_in:
                whole = self._merge_left()
                if self._looked != self._db.identity:  # once for each file
                    self._wait_for_others()
                self._looked = self._db.identity
                self.settled = self._looked if whole else None

    @property
    def looked(self) -> bool:
        """Was it looked for stand-ins of the file that is open now?"""
        return self._db.stands_in or self._looked == self._db.identity

    def _merge_left(self, *, but: Path | None = None) -> bool:
        """Merge the stand-ins that ended processes left beside the database, and what was saved of files that were replaced."""
        with suppress(StoreError):  # the next read of it meets that
            self._db.open()  # another file may have come in its place, and what was in this one beside it
        left = [path for path in standby.free(self._db.path, self._db.file) if path != but]
        mine = [standby.claimed(self._db.path, path) for path in left]
        gone = all(now or not was.exists() for was, now in zip(left, mine, strict=True))  # else somebody has it again
        merged = [self._merge_one(path) for path in self._in_turn([*filter(None, mine)], last=but is None)]
        whole = gone and all(merged)
        if not whole:
            self._later()
        elif left:
            self._health.resolved(TOPIC)
        return whole

    def _wait_for_others(self) -> None:
        """Wait for a while for another process that merges into this file: only a part of what was said is here."""
        end = time.monotonic() + _OTHERS_S
        with suppress(StoreError):
            while time.monotonic() < end and any(map(self._is_merging, Ledger(self._db).sources())):
                time.sleep(_LOOK_S)

    def _is_merging(self, source: Source) -> bool:
        """Is a merge going on, of a process that lives?"""
        path = Path(str(source.about.get("path", "")))
        return source.kind == KIND and path in standby.stand_ins(self._db.path) and path not in standby.free(
            self._db.path, self._db.file
        )  # fmt: skip

    def _in_turn(self, left: Sequence[Path], *, last: bool) -> Iterator[Path]:
        """Stand-ins, the oldest first; but one that brings the prompt of a context message here comes before the others, and of
        these one that begins with a prompt which is not here waits for that which may bring it.

        ``last``: nothing else is to come, so those that nothing explains come at the end.
        """
        waiting = [*left]
        while waiting:
            path = waiting[0]
            if len(waiting) > 1 or not last:
                turns = {each: self._turn(each) for each in waiting}
                path = min(waiting, key=lambda each: turns[each])
                if turns[path] == _WAITS and not last:
                    return
            waiting.remove(path)
            yield path

    def _turn(self, path: Path) -> int:
        """Place of a stand-in in the order of merges. One that cannot be read waits for nothing."""
        there = Database(path)
        try:
            deps = self._deps()
            other = parts_on(deps, there, ready=False)
            if explains(deps, other):
                return _FIRST
            return _NEXT if is_known(deps, other) else _WAITS
        except _NOT_MERGED:
            return _NEXT
        finally:
            there.close()

    def _merge_one(self, path: Path) -> bool:
        """Merge a stand-in of this process that nobody has open; False: not now, and status says why."""
        try:
            with self._db.alone():
                self._keep(path, self._merge(path))
        except _NOT_MERGED as exc:
            self._health.degraded(TOPIC, f"{path} is not merged yet: {exc}", severity="warning")
            return False
        return True

    def _come_back(self) -> None:
        if not self._due() or not self._may_ask() or not self._rescued() or not self._works():
            self._leave_memory()
            return
        file = self._db.file
        held = Database(file)
        with self._db.alone():
            try:
                held.open()  # what is in memory lives as long as a connection
                self._db.use(self._db.path)
                self._db.open()
                self._merge_left(but=file)  # first: lists that this one saw go on from what was said before it
                done = self._merge(file)
            except _NOT_MERGED as exc:
                logger.warning("%s cannot be merged yet: %s", file, exc)
                self._db.use(file)
                self._reason = type(exc) if isinstance(exc, StoreError) else StoreError  # what was wrong before is over
                self._later()
                with suppress(StoreError):
                    self._db.open()  # before the last connection to memory is closed
                return
            finally:
                held.close()
            self._keep(file, done)
        self._reason = None
        self._health.resolved(TOPIC)

    def _rescued(self) -> bool:
        """Is what the database held safe, where somebody removed or replaced it meanwhile?"""
        try:
            with self._db.alone():
                self._db.rescue()
        except (StoreError, OSError) as exc:
            logger.warning("%s was removed or replaced, and what it held cannot be saved yet: %s", self._db.path, exc)
            self._later()
            return False
        return True

    def _leave_memory(self) -> None:
        """Memory goes to a file as soon as one can be written, also while the database cannot be used."""
        if not is_memory(self._db.file) or time.monotonic() < self._leaves_at or not self._may_ask():
            return
        memory = self._db.file
        held = Database(memory)
        with self._db.alone():
            try:
                held.open()
                self._begin(stand_in(self._db.path, time.time()), self._source)
                self._merged(memory)
            except _NOT_MERGED as exc:
                logger.warning("memory stands in still: %s", exc)
                self._db.use(memory)
                self._db.open()  # before the last connection to it is closed
                self._leaves_at = time.monotonic() + _FIRST_WAIT_S
            finally:
                held.close()

    def _merge(self, path: Path) -> Merged:
        """Merge one stand-in into the database; of a damaged one what can be read."""
        try:
            if not is_memory(path) and (files.lost_parts(path) or files.triggers(path)):
                raise StoreCorrupt(f"{path}: another program changed its tables")
            return self._merged(path)
        except StoreCorrupt as exc:
            if is_memory(path) or str(path) not in str(exc):
                raise
        saved = path.with_name(f".{path.name}.{os.getpid()}.saved")
        files.discard(saved)
        try:
            files.salvage(path, saved, readable)
            return replace(self._merged(saved), damaged=True)
        finally:
            files.discard(saved)

    def _merged(self, path: Path) -> Merged:
        db = Database(path)
        try:
            deps = self._deps()
            with self._db.steady():  # what is there already, and what is written then, is of one file
                done = merge(deps, parts_on(deps, db))
        finally:
            db.close()
        logger.warning("%s: %d messages and %d summaries were merged", path, done.messages, done.nodes)
        return done

    def _keep(self, path: Path, done: Merged) -> None:
        """Keep a stand-in that was merged among the backups; one that cannot be moved now is merged again, which adds nothing."""
        if not is_memory(path) and not (done.messages or done.nodes or done.damaged):
            files.discard(path)  # it held nothing of its own
        elif not is_memory(path):
            try:
                standby.retire(path, self._db.path.parent / BACKUPS)
                prune_stand_ins(self._db.path)
            except (OSError, StoreError) as exc:
                logger.warning("%s stays where it is for now: %s", path, exc)

    def _due(self) -> bool:
        now = self._look()
        if now != self._seen:
            self._seen, self._wait_s, self._not_before = now, _FIRST_WAIT_S, 0.0
            return True
        return (self._passes or not self._is(*_LASTING)) and time.monotonic() >= self._not_before

    def _later(self) -> None:
        """After a merge that failed the next one waits, unless the file changes."""
        self._not_before = time.monotonic() + self._wait_s
        self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)
        self._seen = self._look()

    def _works(self) -> bool:
        """Can the database be written, and where it was damaged, is it sound?"""
        if not self._db.path.parent.is_dir():
            return False
        probe = Database(self._db.path, busy_ms=_PROBE_MS)
        self._passes = False
        try:
            if self._is(StoreCorrupt) and files.quick_check(self._db.path):
                return False
            if any(part.startswith("messages") for part in schema.lost_parts(probe.query)):
                return False
            with probe.transaction():
                probe.execute("INSERT OR REPLACE INTO meta(key, value) VALUES ('standby', '0')")
                probe.execute("DELETE FROM meta WHERE key = 'standby'")
        except StoreError as exc:
            logger.info("%s cannot be used yet: %s", self._db.path, exc)
            self._passes = self._is(*_LASTING) and not isinstance(exc, _LASTING)
            if self._passes:
                self._later()
            return False
        finally:
            probe.close()
        return True

    def _look(self) -> object:
        """State of the file, its log, its folder, the room on the disk and the limits: it tells that somebody changed one."""
        path = self._db.path
        log = path.with_name(path.name + "-wal")
        return [*_stat(path), *_stat(log), *_stat(path.parent)[::3], *disk.room(path.parent)]


def _stat(path: Path) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode
