"""
Payloads: what is too large, or no text at all, and therefore lies in files beside the database.

Owns the folder ``<database>-payloads`` and the tables ``payloads`` (what each file is) and ``payload_refs`` (messages, by digest,
that may show it). A file is named by the SHA-256 of its text, so what it says never changes, and it is there before any row
refers to it. Who may read a file is decided by the messages that show it.
"""

from __future__ import annotations

import json
import math
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from . import durable
from .blocks import Blocks
from .db.connection import Database
from .errors import StoreCorrupt
from .health import Health
from .indexing import IndexRow
from .records import Flag, Row, Scope
from .scope import Reach
from .search import MessageIndex
from .store import MessageStore
from .text import content, deep, guard
from .text.guard import Ref
from .text.packing import counted, deflated

TEXTS: Final = frozenset((guard.TEXT,))
ALL: Final = frozenset((guard.TEXT, guard.DATA_URI, guard.BASE64, guard.LITERAL))
TOPIC: Final = "payload files"
_UNREADABLE = "payload file_"  # and its digest: a topic for each file that cannot be read
_CACHED_CHARS = 40_000_000
#: Larger texts stay in their message; a file that unpacks to more was not written here, whatever the database says of it.
MOST_BYTES: Final = 256 * 1024 * 1024
#: Files younger than this may belong to a row that is being written.
_YOUNG_S = 3600.0
_NOTE = "INSERT OR IGNORE INTO payloads(sha, kind, mime, bytes, chars, created_at) VALUES (?,?,?,?,?,?)"
_REFER = "INSERT OR IGNORE INTO payload_refs(sha, digest) VALUES (?,?)"
_SHOWN_BY = f"""
SELECT m.store_id FROM payload_refs AS r JOIN messages AS m ON m.digest = r.digest AND m.flags & {Flag.EXTERNALISED}
 WHERE r.sha = ? ORDER BY m.store_id
"""
_REFERRED = f"""
SELECT DISTINCT r.sha FROM payload_refs AS r
 WHERE EXISTS (SELECT 1 FROM messages AS m WHERE m.digest = r.digest AND m.flags & {Flag.EXTERNALISED})
"""


@dataclass(frozen=True, slots=True)
class Opened:
    """A stored file: its text and what is known about it."""

    name: str
    text: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Survey:
    """The files: how many there are, which nothing refers to, which are referred to but missing, or not what was written."""

    files: int
    bytes: int
    orphans: tuple[Path, ...]
    missing: tuple[str, ...]
    damaged: tuple[str, ...] = ()


def folder_of(database: Path) -> Path:
    """Where the files of a database lie."""
    return database.with_name(f"{database.stem}-payloads")


class Payloads:
    """The files of one database."""

    def __init__(self, db: Database, folder: Path, health: Health, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._db = db
        self._health = health
        self._clock = clock
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, str] = OrderedDict()

    # -- writing ------------------------------------------------------------------------------------
    def keep(self, text: str, kind: str, mime: str) -> Ref | None:
        """Write a text into its file, durably. None when that failed: the text must stay where it is."""
        raw = text.encode("utf-8", "surrogatepass")
        if len(raw) > MOST_BYTES:
            return None
        ref = Ref(sha256(raw).hexdigest(), kind, mime, len(raw))
        path = self.path(ref.sha)
        try:
            if not path.exists():
                durable.write(path, _deflated(raw, kind), within=self.folder)
        except OSError as exc:
            self._health.degraded(
                TOPIC,
                f"{path.parent}: {exc.strerror or exc}; payloads stay in the database",
                severity="warning",
                remedy=durable.remedy(exc),
            )
            return None
        self._health.resolved(TOPIC)
        return ref

    def refer(self, digest: bytes, found: Iterable[Ref], chars: dict[str, int]) -> None:
        """Note which message (known by its digest) shows which files. Before its row is written: never the other way round."""
        each = list({ref.sha: ref for ref in found}.values())
        now = self._clock()
        with self._db.transaction():
            self._db.executemany(_NOTE, [(r.sha, r.kind, r.mime, r.bytes, chars.get(r.sha, 0), now) for r in each])
            self._db.executemany(_REFER, [(r.sha, digest) for r in each])

    def path(self, sha: str) -> Path:
        """Where the file of a digest lies."""
        return self.folder / sha[:2] / f"{sha}.z"

    # -- reading ------------------------------------------------------------------------------------
    def text(self, ref: Ref) -> str | None:
        """The text behind a placeholder; None (and a note in health) when its file is gone or damaged."""
        return self._text(ref.sha, ref.bytes)

    def _text(self, sha: str, size: int) -> str | None:
        with self._lock:
            if sha in self._cache:
                self._cache.move_to_end(sha)
                return self._cache[sha]
        raw, why = self._read(sha, size)
        if why:
            remedy = f"put {sha}.z back from a backup of {self.folder}"
            self._health.degraded(_UNREADABLE + sha[:16], f"file_{sha[:16]} cannot be read: {why}", remedy=remedy)
            return None
        text = raw.decode("utf-8", "surrogatepass")
        self._health.resolved(_UNREADABLE + sha[:16])
        with self._lock:
            self._cache[sha] = text
            while len(self._cache) > 1 and sum(map(len, self._cache.values())) > _CACHED_CHARS:
                self._cache.popitem(last=False)
        return text

    def _read(self, sha: str, size: int) -> tuple[bytes, str]:
        """(what a file holds, why it cannot be that)."""
        try:
            raw = _inflated(self.path(sha), size)
        except (OSError, zlib.error) as exc:
            return b"", type(exc).__name__
        return raw, "" if sha256(raw).hexdigest() == sha else "its content is not what was written"

    def whole(self, row: Row) -> Row:
        """The message exactly as the host said it. What cannot be read stays a placeholder."""
        return self._unfolded(row, ALL)

    def view(self, row: Row) -> Row:
        """The message as it is read and searched: large texts in full, encoded bytes as placeholders."""
        return self._unfolded(row, TEXTS)

    def lacks(self, row: Row) -> bool:
        """Is there a large text in a stored message whose file cannot be read?"""
        if not row.head.flags & Flag.EXTERNALISED:
            return False
        refs = [ref for _, _, ref in guard.refs(content.encode(row.envelope)[0])]
        return any(self.text(ref) is None for ref in refs if ref.kind == guard.TEXT)

    def _unfolded(self, row: Row, kinds: frozenset[str]) -> Row:
        if not row.head.flags & Flag.EXTERNALISED:
            return row

        def change(text: str) -> str:
            return guard.unfold(text, self.text, kinds=kinds)

        if row.head.flags & Flag.QUARANTINED:
            envelope = content.decode(json.dumps(deep.mapped(json.loads(content.encode(row.envelope)[0]), change)))
        else:
            envelope = deep.mapped(row.envelope, change)
        flags = row.head.flags if kinds != ALL else row.head.flags & ~Flag.EXTERNALISED
        body = content.text_of(envelope.get("content"))
        return Row(replace(row.head, flags=flags), body, content.calls_of(envelope), envelope)

    def open(self, name: str, scope: Scope) -> Opened | None:
        """The file of this name if the scope may read a message that shows it."""
        prefix = name.removeprefix("file_").lower()
        if len(prefix) < 16 or prefix.strip("0123456789abcdef"):
            return None
        rows = self._db.query(
            "SELECT sha, kind, mime, bytes FROM payloads WHERE sha >= ? AND sha < ? ORDER BY sha",
            (prefix, prefix + "g"),
        )
        for sha, kind, mime, size in rows:
            shown = self._shown_by(sha, scope)
            text = self._text(sha, size) if shown else None
            if text is not None:
                text = guard.unfold(text, self.text, kinds=ALL - TEXTS) if kind == guard.TEXT else text
                facts = {
                    "kind": kind,
                    "mime": mime,
                    "bytes": size,
                    "sha256": sha,
                    "messages": [f"msg_{n}" for n in shown],
                }
                return Opened(name, text, facts)
        return None

    def _shown_by(self, sha: str, scope: Scope) -> list[int]:
        """Readable messages that really show the file: equal digests may hide different images."""
        ids = [int(row[0]) for row in self._db.query(_SHOWN_BY, (sha,))]
        readable = Reach(self._db).messages(ids, scope) if ids else ()
        store = MessageStore(self._db, MessageIndex(self._db))
        rows, _ = store.legible([n for n in ids if n in readable])
        return sorted(row.store_id for row in rows if self._shows(row, sha))

    def _shows(self, row: Row, sha: str) -> bool:
        text = content.encode(row.envelope)[0]
        if sha in text:
            return True
        inner = (self.text(ref) for _, _, ref in guard.refs(text) if ref.kind == guard.TEXT)
        return any(sha in each for each in inner if each is not None)

    # -- upkeep -------------------------------------------------------------------------------------
    def survey(self, *, deep: bool = False) -> Survey:
        """Look at every file and every reference; ``deep``: read every file."""
        present = {path.stem: path for path in self._files()}
        wanted = {str(row[0]) for row in self._db.query(_REFERRED)}
        size = sum(_stat(path)[0] for path in present.values())
        before = self._clock() - _YOUNG_S
        lost = [path for sha, path in sorted(present.items()) if sha not in wanted]
        orphans = tuple(path for path in [*lost, *self._unfinished()] if _stat(path)[1] < before)
        known = dict(self._db.query("SELECT sha, bytes FROM payloads")) if deep else {}
        read = sorted(wanted & present.keys() & known.keys())
        damaged = tuple(sha for sha in read if self._read(sha, known[sha])[1])
        return Survey(len(present), size, orphans, tuple(sorted(wanted - set(present))), damaged)

    def sweep(self) -> int:
        """Remove files that nothing refers to (a crash, or deleted sessions, left them behind). How many there were."""
        found = self.survey().orphans
        for path in found:
            path.unlink(missing_ok=True)
        gone = [(path.stem,) for path in found]
        with self._db.transaction():
            self._db.executemany("DELETE FROM payload_refs WHERE sha = ?", gone)
            self._db.executemany("DELETE FROM payloads WHERE sha = ?", gone)
        return len(found)

    def _unfinished(self) -> list[Path]:
        """Files that were being written."""
        return sorted(self.folder.glob("??/.*")) if self.folder.is_dir() else []

    def _files(self) -> Iterator[Path]:
        if self.folder.is_dir():
            yield from (path for path in self.folder.glob("??/*.z") if not path.name.startswith("."))


class UnfoldedStore(MessageStore):
    """The same messages with what their placeholders stand for: ``unfold`` is ``Payloads.whole`` or ``Payloads.view``."""

    def __init__(
        self,
        db: Database,
        index: MessageIndex,
        unfold: Callable[[Row], Row],
        blocks: Blocks | None = None,
        *,
        lacks: Callable[[Row], bool] = lambda _: False,
    ) -> None:
        super().__init__(db, index, blocks)
        self._unfold = unfold
        self._lacks = lacks

    def rows(self, store_ids: Sequence[int]) -> list[Row]:
        return [self._unfold(row) for row in super().rows(store_ids)]

    def every(self, *, size: int = 500, damaged: list[int] | None = None) -> Iterator[list[Row]]:
        for rows in super().every(size=size, damaged=damaged):
            yield [self._unfold(row) for row in rows]

    def late_entry(self, store_id: int) -> IndexRow | None:
        """Nothing of a message whose large texts cannot be read now: it would never be found by them."""
        if any(self._lacks(row) for row in super().rows([store_id])):
            raise StoreCorrupt(f"a file of msg_{store_id} cannot be read")
        return super().late_entry(store_id)


def unfolded(
    db: Database, index: MessageIndex, path: Path, health: Health, blocks: Blocks
) -> tuple[Payloads, UnfoldedStore, UnfoldedStore]:
    """(the files of a database, its messages exactly as they were said, its messages as they are read and searched)."""
    payloads = Payloads(db, folder_of(path), health)
    whole, view = (
        UnfoldedStore(db, index, unfold, blocks, lacks=payloads.lacks) for unfold in (payloads.whole, payloads.view)
    )
    return payloads, whole, view


def _stat(path: Path) -> tuple[int, float]:
    """(bytes, when it was written); a file that another process has just finished or removed is (0, never)."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, math.inf
    return found.st_size, found.st_mtime


def _deflated(raw: bytes, kind: str) -> bytes:
    """As a file holds it: of encoded bytes, which have no repetitions, only the characters are counted."""
    return deflated(raw) if kind in (guard.TEXT, guard.LITERAL) else counted(raw)


def _inflated(path: Path, size: int) -> bytes:
    """What a file holds, or a little more than it should hold: never a gigabyte that somebody else put there."""
    size = min(size, MOST_BYTES)
    with path.open("rb") as file:
        return zlib.decompressobj().decompress(file.read(2 * size + 1000), size + 1)
