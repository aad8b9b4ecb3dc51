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
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from ..errors import way_out
from ..records import Flag, Message, Row
from ..text import blobs, content
from ..text.blobs import Ref
from . import disk
from .connection import Database, marks, parts_of
from .meta import Health
from .packing import counted, deflated

TEXTS: Final = frozenset((blobs.TEXT,))
ALL: Final = frozenset((blobs.TEXT, blobs.DATA_URI, blobs.BASE64, blobs.LITERAL))
TOPIC: Final = "payload files"
OF_A_FILE: Final = "payload file_"  # and its digest: a topic for each file that cannot be read
_CACHED_CHARS = 40_000_000
#: Larger texts stay in their message; a file that unpacks to more was not written here, whatever the database says of it.
MOST_BYTES: Final = 256 * 1024 * 1024
#: Files younger than this may belong to a row that is being written.
_YOUNG_S = 3600.0
_NOTE = "INSERT OR IGNORE INTO payloads(sha, kind, mime, bytes, chars, created_at) VALUES (?,?,?,?,?,?)"
_REFER = "INSERT OR IGNORE INTO payload_refs(sha, digest) VALUES (?,?)"
_SHOWN = "SELECT sha FROM payload_refs WHERE digest = ?"
_NAMED = "SELECT sha, kind, mime, bytes FROM payloads WHERE sha >= ? AND sha < ? ORDER BY sha"
_SHOWN_BY = f"""
SELECT m.store_id FROM payload_refs AS r JOIN messages AS m ON m.digest = r.digest AND m.flags & {Flag.EXTERNALISED}
 WHERE r.sha = ? ORDER BY m.store_id
"""
_REFERRED = f"""
SELECT DISTINCT r.sha FROM payload_refs AS r
 WHERE EXISTS (SELECT 1 FROM messages AS m WHERE m.digest = r.digest AND m.flags & {Flag.EXTERNALISED})
"""


@dataclass(frozen=True, slots=True)
class Survey:
    """The files: how many there are, which nothing refers to, which are referred to but missing, or not what was written."""

    files: int
    bytes: int
    orphans: tuple[Path, ...]
    missing: tuple[str, ...]
    damaged: tuple[str, ...] = ()
    spared: int = 0  # old ones that nothing refers to, kept for a backup


def folder_of(database: Path) -> Path:
    """Folder of a database's files."""
    return database.with_name(f"{database.stem}-payloads")


class Payloads:
    """The files of one database."""

    def __init__(self, db: Database, folder: Path, health: Health) -> None:
        self.folder = folder
        self._db = db
        self._health = health
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, str] = OrderedDict()

    # -- writing ------------------------------------------------------------------------------------
    def keep(self, text: str, kind: str, mime: str) -> Ref | None:
        """Write a text into its file, durably, unless it is there. None when that failed: the text must stay where it is."""
        raw = text.encode("utf-8", "surrogatepass")
        if len(raw) > MOST_BYTES:
            return None
        ref = Ref(sha256(raw).hexdigest(), kind, mime, len(raw))
        path = self.path(ref.sha)
        try:
            if not path.exists() or self._read(ref.sha, ref.bytes)[1]:  # a damaged one would damage this message, too
                disk.write(path, _deflated(raw, kind), within=self.folder)
        except OSError as exc:
            self._health.degraded(
                TOPIC,
                f"{path.parent}: {exc.strerror or exc}; payloads stay in the database",
                severity="warning",
                remedy=way_out(exc),
            )
            return None
        self._health.resolved(TOPIC)
        return ref

    def refer(self, digest: bytes, found: Iterable[Ref], chars: dict[str, int]) -> None:
        """Note which message (known by its digest) shows which files. Before its row is written: never the other way round."""
        each = list({ref.sha: ref for ref in found}.values())
        now = time.time()
        with self._db.transaction():
            self._db.executemany(_NOTE, [(r.sha, r.kind, r.mime, r.bytes, chars.get(r.sha, 0), now) for r in each])
            self._db.executemany(_REFER, [(r.sha, digest) for r in each])

    def lost(self, message: Message) -> bool:
        """Was a file of a message removed, with the last other one that showed it? Inside the transaction that stores it."""
        noted = {str(row[0]) for row in self._db.fetch(_SHOWN, (message.digest,))}
        return not noted.issuperset(message.files) or not all(self.path(sha).exists() for sha in message.files)

    def path(self, sha: str) -> Path:
        """Path of a digest's file."""
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
            self._health.found(OF_A_FILE + sha[:16], f"file_{sha[:16]} cannot be read: {why}", remedy=remedy)
            return None
        text = raw.decode("utf-8", "surrogatepass")
        self._health.resolved(OF_A_FILE + sha[:16])
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
            return b"", _why(exc)
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
        refs = [ref for _, _, ref in blobs.refs(content.encode(row.stored_json)[0])]
        return any(self.text(ref) is None for ref in refs if ref.kind == blobs.TEXT)

    def _unfolded(self, row: Row, kinds: frozenset[str]) -> Row:
        if not row.head.flags & Flag.EXTERNALISED:
            return row

        def change(text: str) -> str:
            return blobs.unfold(text, self.text, kinds=kinds)

        if row.head.flags & Flag.QUARANTINED:
            stored_json = content.decode(
                json.dumps(content.mapped(json.loads(content.encode(row.stored_json)[0]), change))
            )
        else:
            stored_json = content.mapped(row.stored_json, change)
        flags = row.head.flags if kinds != ALL else row.head.flags & ~Flag.EXTERNALISED
        body = content.text_of(stored_json.get("content"))
        return Row(replace(row.head, flags=flags), body, content.calls_of(stored_json), stored_json)

    def refs_named(self, name: str) -> list[Ref]:
        """Files whose digest begins as the name says; [] where it names none."""
        prefix = name.removeprefix("file_").lower()
        if len(prefix) < 16 or prefix.strip("0123456789abcdef"):
            return []
        return [Ref(*row) for row in self._db.query(_NAMED, (prefix, prefix + "g"))]

    def names_of(self, digests: Sequence[bytes]) -> list[str]:
        """Names of the files that these messages (known by their digests) may show."""
        found: dict[str, None] = {}
        for part in parts_of(digests):
            sql = f"SELECT DISTINCT sha FROM payload_refs WHERE digest IN ({marks(len(part))}) ORDER BY sha"
            found |= {f"file_{row[0][:16]}": None for row in self._db.query(sql, part)}
        return list(found)

    def missing(self, row: Row) -> list[str]:
        """Names of files whose placeholders are left in a message that was put together, because they cannot be read."""
        refs = {ref.name: ref for _, _, ref in blobs.refs(content.encode(row.stored_json)[0])}
        shown = self.names_of([row.head.digest]) if refs else ()  # others are somebody's words
        return [name for name in shown if name in refs and self.text(refs[name]) is None]

    def in_full(self, ref: Ref) -> str | None:
        """The text of a file, with the files that it shows itself; None where it cannot be read."""
        text = self.text(ref)
        return blobs.unfold(text, self.text, kinds=ALL - TEXTS) if text is not None and ref.kind == blobs.TEXT else text

    def shown_by(self, sha: str) -> list[int]:
        """Messages that may show a file: equal digests may hide different images."""
        return [int(row[0]) for row in self._db.query(_SHOWN_BY, (sha,))]

    def shows(self, row: Row, sha: str) -> bool:
        """Reference to a file in a message, or in a file that the message shows."""
        text = content.encode(row.stored_json)[0]
        if sha in text:
            return True
        inner = (self.text(ref) for _, _, ref in blobs.refs(text) if ref.kind == blobs.TEXT)
        return any(sha in each for each in inner if each is not None)

    # -- upkeep -------------------------------------------------------------------------------------
    def survey(self, *, deep: bool = False, spare: Collection[str] = ()) -> Survey:
        """Look at every file and every reference; ``deep``: read every file. ``spare``: names of files that a backup needs."""
        present = {path.stem: path for path in self._files()}
        wanted = {str(row[0]) for row in self._db.query(_REFERRED)}
        size = sum(_stat(path)[0] for path in present.values())
        before = time.time() - _YOUNG_S
        lost = [path for sha, path in sorted(present.items()) if sha not in wanted]
        old = [path for path in [*lost, *self._unfinished()] if _stat(path)[1] < before]
        orphans = tuple(path for path in old if path.relative_to(self.folder).as_posix() not in spare)
        known = dict(self._db.query("SELECT sha, bytes FROM payloads")) if deep else {}
        read = sorted(wanted & present.keys() & known.keys())
        damaged = tuple(sha for sha in read if self._read(sha, known[sha])[1])
        missing = tuple(sorted(wanted - set(present)))
        short = {OF_A_FILE + sha[:16] for sha in wanted}
        for each in self._health.problems():
            if each.topic.startswith(OF_A_FILE) and each.topic not in short:  # no message shows it any more
                self._health.resolved(each.topic)
        return Survey(len(present), size, orphans, missing, damaged, len(old) - len(orphans))

    def forget(self, digest: bytes) -> list[str]:
        """Files that a message (known by its digest) showed: it shows them no more, until ``refer`` says so again."""
        shas = [str(row[0]) for row in self._db.fetch(_SHOWN, (digest,))]
        self._db.execute("DELETE FROM payload_refs WHERE digest = ?", (digest,))
        return shas

    def shown_in(self, rows: Iterable[Row]) -> set[str]:
        """Files that these messages show as they are stored, and those that their large texts show in turn."""
        out: set[str] = set()
        for row in rows:
            outer = [ref for _, _, ref in blobs.refs(content.encode(row.stored_json)[0])]
            inner = (self.text(ref) or "" for ref in outer if ref.kind == blobs.TEXT)
            out |= {ref.sha for ref in outer} | {ref.sha for text in inner for _, _, ref in blobs.refs(text)}
        return out

    def let_go(self, shas: Iterable[str], read: Callable[[Sequence[int]], Iterable[Row]]) -> set[str]:
        """Files among these that no message shows any more. Inside the transaction in which others ceased to show them.

        ``read`` gives messages as they are stored: equal digests may hide different files, so what each one shows is looked at.
        """
        gone = set()
        for sha in shas:
            ids = [int(row[0]) for row in self._db.fetch(_SHOWN_BY, (sha,))]
            if not any(self.shows(row, sha) for row in read(ids)):
                self._db.execute("DELETE FROM payload_refs WHERE sha = ?", (sha,))
                gone.add(sha)
        return gone

    def remove(self, shas: Iterable[str]) -> None:
        """Remove those of these files that no message shows, for good: they are overwritten first.

        Each in a transaction: who stores a message that shows it meanwhile has noted that, or finds it gone (``lost``).
        """
        named = {str(row[0]) for row in self._db.query("SELECT DISTINCT sha FROM payload_refs")}
        for sha in sorted(set(shas) - named):
            with self._db.part():
                if self._db.fetch("SELECT 1 FROM payload_refs WHERE sha = ? LIMIT 1", (sha,)):
                    continue
                disk.erase(self.path(sha))
                self._db.execute("DELETE FROM payloads WHERE sha = ?", (sha,))
            with self._lock:
                self._cache.pop(sha, None)

    def each(self) -> Iterator[tuple[Path, str]]:
        """Every file and what it says; one that is damaged is passed over."""
        for path in self._files():
            yield path, unpacked(path)

    def sweep(self, *, spare: Collection[str] = ()) -> int:
        """Remove files that nothing refers to (a crash, or deleted sessions, left them behind), but for those to ``spare``."""
        found = self.survey(spare=spare).orphans
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


def unpacked(path: Path) -> str:
    """Text of a payload file, wherever it lies; "" of a damaged one."""
    with suppress(OSError):
        return inflated(path.read_bytes())
    return ""


def inflated(data: bytes) -> str:
    """Text of the bytes of a payload file; "" of damaged ones."""
    with suppress(zlib.error):
        return zlib.decompressobj().decompress(data, MOST_BYTES + 1).decode("utf-8", "replace")
    return ""


def _stat(path: Path) -> tuple[int, float]:
    """(bytes, when it was written); a file that another process has just finished or removed is (0, never)."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, math.inf
    return found.st_size, found.st_mtime


def _deflated(raw: bytes, kind: str) -> bytes:
    """Text as a file holds it: of encoded bytes, which have no repetitions, only the characters are counted."""
    return deflated(raw) if kind in (blobs.TEXT, blobs.LITERAL) else counted(raw)


def _why(exc: OSError | zlib.error) -> str:
    """Why a file cannot be read, for an operator."""
    if isinstance(exc, FileNotFoundError):
        return "the file is missing"
    return exc.strerror or type(exc).__name__ if isinstance(exc, OSError) else "its content is damaged"


def _inflated(path: Path, size: int) -> bytes:
    """Contents of a file, or a little more than it should hold: never a gigabyte that somebody else put there."""
    size = min(size, MOST_BYTES)
    with path.open("rb") as file:
        return zlib.decompressobj().decompress(file.read(2 * size + 1000), size + 1)
