"""
Proof of a purge: what the purged messages said is looked for in the bytes of every file, and in all that these unpack to.

Pure looking. What is looked for: pieces of their texts, and pieces of the very bytes in which they were stored.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import mmap
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ...errors import StoreError
from ...records import Message, Row
from ...search.documents import HARMFUL
from ...storage.files import Progress
from .. import backup

#: Characters of a piece: of the longest lines of a text the beginning and the middle. A shorter text is looked for as a whole.
_LEAST: Final = 16
_MOST: Final = 40
_LEAST_WHOLE: Final = 8
_LINES: Final = 3
_SLICE: Final = 48
#: So many bytes are compared one piece after another: of very many pieces without a word inside, and of stored bytes, some are.
_WORK_BYTES: Final = 4_000_000_000
_LEAST_PIECES: Final = 50
_WORD: Final = re.compile(r"\w{4,}")
_ESCAPE: Final = re.compile(r"\\+u")
_ESCAPES: Final = re.compile(r"(?:\\+u[0-9a-fA-F]{4})+")
_CHUNK_BYTES: Final = 500_000  # other threads wait while one is searched


@dataclass(slots=True)
class Evidence:
    """Words of purged messages, and their stored form. ``short``: messages too short to be looked for."""

    texts: dict[str, None] = field(default_factory=dict)
    stored: dict[bytes, None] = field(default_factory=dict)
    short: int = 0

    def note(self, row: Row | Message) -> None:
        """Take pieces of what a whole message says."""
        whole = [row.text, *(call.arguments for call in row.calls)]
        said = [part for text in whole for part in HARMFUL.split(text)]  # half a character is written in many ways
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


class Pieces:
    """Pieces of texts, as they are and as they stand inside JSON, looked for together.

    A text that holds a piece holds the pairs of whole words inside it, or the one word. So one look at the words of a text and
    at their pairs says which pieces can be there, however many there are and however few words they share. Pieces without such
    a word are compared one by one, ``most`` of them; ``left_out``: the rest.
    """

    def __init__(self, texts: Iterable[str], most: int | None = None) -> None:
        inside = {form: _inside(form) for form in forms_of(texts)}
        counts = Counter(key for keys in inside.values() for key in keys)
        self._by_key: dict[str, list[tuple[str, int]]] = {}
        for form, keys in inside.items():
            if keys:
                rarest = min(keys, key=lambda key: (counts[key], key))
                self._by_key.setdefault(rarest, []).append((form, keys[rarest]))
        self._longest_key = max(map(len, self._by_key), default=0)
        bare = [form for form, keys in inside.items() if not keys]
        self._bare = bare if most is None else bare[:: max(1, math.ceil(len(bare) / most))]
        self.longest_bytes = max((len(form.encode("utf-8", "surrogatepass")) for form in inside), default=0)
        self.left_out = len(bare) - len(self._bare)

    def in_text(self, text: str) -> set[str]:
        """Pieces that the text holds."""
        found = {form for form in self._bare if form in text}
        before = 0
        for match in _WORD.finditer(text) if self._by_key else ():
            start, end = match.span()
            for first in (start, before):
                if end - first <= self._longest_key and (placed := self._by_key.get(text[first:end])):
                    found.update(form for form, at in placed if at <= first and text.startswith(form, first - at))
            before = start
        return found


def _inside(form: str) -> dict[str, int]:
    """Pairs of neighbouring whole words inside a form, or its only word, and where they begin."""
    words = [match.span() for match in _WORD.finditer(form) if match.start() > 0 and match.end() < len(form)]
    stretches = [(first, end) for (first, _), (_, end) in itertools.pairwise(words)] or words
    return {form[first:end]: first for first, end in stretches}


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
    stored = (path for path in payloads.rglob("*") if path.is_file())
    return sorted({*beside, *stored, *backup.kept_files(database)})


def search(paths: Sequence[Path], evidence: Evidence, progress: Progress) -> Proof:
    """Look for the pieces in these files. Only while this process has none of them open (its locks would be dropped)."""
    total = sum(path.stat().st_size for path in paths if path.exists())
    most = max(_LEAST_PIECES, _WORK_BYTES // max(1, total))
    pieces, stored = Pieces(evidence.texts, most), [*evidence.stored]
    stored = stored[:: max(1, len(stored) // most)]
    found = []
    for n, path in enumerate(paths):
        progress("searching files", n, len(paths))
        if path.exists():
            found.append(_searched(path, pieces, stored))
    every = len(evidence.texts)
    return Proof(tuple(found), max(0, every - pieces.left_out), every)


def _searched(path: Path, pieces: Pieces, stored: Sequence[bytes]) -> Searched:
    sha, size, held = hashlib.sha256(), path.stat().st_size, set[str | bytes]()
    if size:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for at in range(0, size, _CHUNK_BYTES):
                part = data[at : at + _CHUNK_BYTES + max(pieces.longest_bytes, _SLICE)]
                held.update(each for each in stored if each in part)
                held |= pieces.in_text(part.decode("utf-8", "replace"))
            sha.update(data)
    for said in _unpacked(path) if not held else ():
        held |= pieces.in_text(said)
    return Searched(path, size, sha.hexdigest(), len(held))


def forms_of(texts: Iterable[str]) -> list[str]:
    """Texts as they are, as they stand inside JSON (of ASCII, too), and inside JSON that is a text of JSON."""
    forms = set(texts)
    for _ in range(2):
        forms |= {json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in forms for ascii_only in (False, True)}
    return sorted(forms)


def folded(text: str) -> str:
    """A text without case, its accents written in one way, and no character as an escape of JSON."""
    plain = _ESCAPES.sub(lambda found: _characters(found[0]), text) if "\\u" in text else text
    return unicodedata.normalize("NFC", plain.casefold())


def _characters(escapes: str) -> str:
    return bytes.fromhex(_ESCAPE.sub("", escapes)).decode("utf-16-be", "surrogatepass")


def _unpacked(path: Path) -> Iterator[str]:
    """Texts of a file once it is unpacked."""
    with suppress(StoreError):  # no database, or a damaged one: its bytes were searched
        yield from backup.texts_of(path)
