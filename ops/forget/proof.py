"""
Proof of a purge: what the purged messages said is looked for in the bytes of every file, and in all that these unpack to.

Pure looking. What is looked for: pieces of their texts, and pieces of the very bytes in which they were stored.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ...errors import StoreError
from ...records import Message, Row
from ...storage import files
from ...storage.files import Progress
from ...storage.payloads import unpacked
from ...storage.upgrade import BACKUPS

#: Characters of a piece: of the longest lines of a text the beginning and the middle. A shorter text is looked for as a whole.
_LEAST: Final = 16
_MOST: Final = 40
_LEAST_WHOLE: Final = 8
_LINES: Final = 3
_SLICE: Final = 48
#: So many bytes are compared in all, so that a large archive takes minutes: of very many pieces some are looked for.
_WORK_BYTES: Final = 20_000_000_000
_LEAST_PIECES: Final = 50


@dataclass(slots=True)
class Evidence:
    """Words of purged messages, and their stored form. ``short``: messages too short to be looked for."""

    texts: dict[str, None] = field(default_factory=dict)
    stored: dict[bytes, None] = field(default_factory=dict)
    short: int = 0

    def note(self, row: Row | Message) -> None:
        """Take pieces of what a whole message says."""
        said = [row.text, *(call.arguments for call in row.calls)]
        lines = sorted((line.strip() for text in said for line in text.splitlines()), key=len, reverse=True)
        places = (
            (line, at) for line in lines[:_LINES] if len(line) >= _LEAST for at in (0, max(0, len(line) - _MOST) // 2)
        )
        pieces = [line[at : at + _MOST] for line, at in places]
        pieces = pieces or [text.strip() for text in said if len(text.strip()) >= _LEAST_WHOLE]
        self.short += not pieces
        self.texts.update(dict.fromkeys(pieces))

    def note_stored(self, stored: Iterable[bytes]) -> None:
        """Take pieces of the bytes that hold messages."""
        middle = ((data, len(data) // 2) for data in stored if len(data) >= 2 * _SLICE)
        self.stored.update((data[at : at + _SLICE], None) for data, at in middle)


@dataclass(frozen=True, slots=True)
class Searched:
    """A file that was searched. ``holds``: how many of the pieces are in it."""

    path: Path
    bytes: int
    sha256: str
    holds: int


@dataclass(frozen=True, slots=True)
class Proof:
    """``pieces``: looked for, of so many in ``of``."""

    files: tuple[Searched, ...]
    pieces: int
    of: int

    @property
    def holding(self) -> tuple[Searched, ...]:
        """The files in which something was found."""
        return tuple(each for each in self.files if each.holds)


def ours(database: Path, payloads: Path) -> list[Path]:
    """Every file that may hold what was stored: database, log, stand-ins, what was left half-made, payloads, backups, exports."""
    beside = [path for path in database.parent.glob(f"{database.stem}*") if path.is_file()]
    beside += [path for path in database.parent.glob(f".{database.name}.*") if path.is_file()]
    folders = (payloads, database.parent / BACKUPS, database.parent / "lcm-exports")
    return sorted({*beside, *(path for folder in folders for path in folder.rglob("*") if path.is_file())})


def search(paths: Sequence[Path], evidence: Evidence, progress: Progress) -> Proof:
    """Look for the pieces in these files. Only while this process has none of them open (its locks would be dropped)."""
    total = sum(path.stat().st_size for path in paths if path.exists())
    every = [*evidence.texts]
    step = max(1, len(every) // max(_LEAST_PIECES, _WORK_BYTES // max(1, total)))
    chosen, stored = every[::step], [*evidence.stored][::step]
    found = []
    for n, path in enumerate(paths):
        progress("searching files", n, len(paths))
        if path.exists():
            found.append(_searched(path, chosen, stored))
    return Proof(tuple(found), len(chosen), len(every))


def _searched(path: Path, texts: Sequence[str], stored: Sequence[bytes]) -> Searched:
    sha, size = hashlib.sha256(), path.stat().st_size
    forms = forms_of(texts)
    needles = [form.encode("utf-8", "surrogatepass") for form in forms]
    held = 0
    if size:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            held = sum(data.find(each) >= 0 for each in (*needles, *stored))
            sha.update(data)
    if not held:
        held = sum(any(form in said for form in forms) for said in _unpacked(path))
    return Searched(path, size, sha.hexdigest(), held)


def forms_of(texts: Iterable[str]) -> list[str]:
    """Texts as they are, and as they stand inside JSON."""
    return sorted({form for text in texts for form in (text, json.dumps(text, ensure_ascii=False)[1:-1])})


def _unpacked(path: Path) -> Iterator[str]:
    """Texts of a file once it is unpacked."""
    if path.suffix == ".z":
        yield unpacked(path)
    elif path.suffix in (".db", ".sqlite3"):
        with suppress(StoreError):  # no database, or a damaged one: its bytes were searched
            yield from files.texts_of(path)
