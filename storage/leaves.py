"""
Rows of a damaged SQLite file, read from its pages without asking SQLite, its header or its schema.

Pure: bytes in, rows out. Owns the file format as far as that needs it: cells of leaf pages (and of the inner pages of indexes),
their records and overflow pages, the pages of a write-ahead log, and the pointer map, which says of a page whose it is or whether
it is free.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

Value = int | float | str | bytes | None
#: How a database begins.
MAGIC: Final = b"SQLite format 3\0"

_SIZES: Final = (1024, 4096, 512, 2048, 8192, 16384, 32768, 65536)
_TABLE_LEAF, _INDEX_LEAF, _INDEX_INNER, _TABLE_INNER = 0x0D, 0x0A, 0x02, 0x05
_CELLS_AT: Final = {_TABLE_LEAF: 8, _INDEX_LEAF: 8, _INDEX_INNER: 12}
_ROOT, _FREE, _BTREE = 1, 2, 5  # of the pointer map
_INTEGERS: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_DEEPEST: Final = 30
_HEADER_BYTES: Final = 100
_MOST_BYTES: Final = 1 << 30
_ENCODINGS: Final = {2: "utf-16-le", 3: "utf-16-be"}  # of the header; whatever else it says, we write UTF-8
_NAMES: Final = re.compile(r"CREATE (?:TABLE|INDEX|UNIQUE|VIRTUAL)")


@dataclass(frozen=True, slots=True)
class Cell:
    """One row. ``of``: the table or index, "" where the file does not say any more; ``rowid``: None in an index."""

    of: str
    rowid: int | None
    values: tuple[Value, ...]


class Leaves:
    """The pages of one file. ``data`` and ``log``: the bytes of the file (or a map of them) and of its write-ahead log."""

    def __init__(self, data: bytes | mmap.mmap, log: bytes = b"") -> None:
        self._data = data
        self._size = _page_size(data, log)
        self._logged = _logged(log, self._size)
        self._last = max([len(data) // self._size, *self._logged])
        self.version = int.from_bytes(data[60:64], "big")  # ``user_version``
        head = self._page(1)
        said = int.from_bytes(head[56:60], "big") if head.startswith(MAGIC) else 0
        self._encoding = _ENCODINGS.get(said, "utf-8")
        self._has_map = not head.startswith(MAGIC) or any(head[52:56])

    # -- pages --------------------------------------------------------------------------------------
    def _page(self, number: int) -> bytes:
        if number in self._logged:
            return self._logged[number]
        return self._data[(number - 1) * self._size : number * self._size]

    def _pointer(self, number: int) -> tuple[int, int]:
        """(kind, parent) of a page as the pointer map says it, or the inner pages, where there is none; (0, 0): nothing does."""
        if not self._has_map:
            parent = self._parents.get(number, 0)
            return (_FREE, 0) if number in self._freed else (_BTREE, parent) if parent else (_ROOT, 0)
        span = self._size // 5 + 1
        at = (number - 2) // span * span + 2
        if number < 3 or number == at:
            return 0, 0
        entry = self._page(at)[(number - at - 1) * 5 :][:5]
        if len(entry) < 5 or not _ROOT <= entry[0] <= _BTREE:
            return 0, 0
        return entry[0], int.from_bytes(entry[1:], "big")

    @cached_property
    def _parents(self) -> Mapping[int, int]:
        """The inner page above each page, of a file that another program wrote anew without a pointer map."""
        out: dict[int, int] = {}
        for number in range(1, self._last + 1):
            page, at = self._page(number), 100 if number == 1 else 0
            if number not in self._freed and len(page) > at and page[at] in (_TABLE_INNER, _INDEX_INNER):
                count = min(int.from_bytes(page[at + 3 : at + 5], "big"), self._size // 4)
                cells = [int.from_bytes(page[n : n + 2], "big") for n in range(at + 12, at + 12 + 2 * count, 2)]
                for cell in (at + 8, *cells):
                    out[int.from_bytes(page[cell : cell + 4], "big")] = number
        return out

    @cached_property
    def _freed(self) -> Collection[int]:
        """Pages that such a file lists as free: what is in them was deleted."""
        out: set[int] = set()
        trunk = int.from_bytes(self._page(1)[32:36], "big")
        while 1 < trunk <= self._last and trunk not in out:
            page = self._page(trunk)
            count = min(int.from_bytes(page[4:8], "big"), self._size // 4 - 2)
            listed = page[8 : 8 + 4 * count]  # the file may end in it
            out.update((trunk, *(int.from_bytes(listed[n : n + 4], "big") for n in range(0, len(listed), 4))))
            trunk = int.from_bytes(page[:4], "big")
        return out

    def _root(self, number: int) -> int:
        """The root of the tree that a page is in; 0 where that cannot be told."""
        for _ in range(_DEEPEST):
            if number == 1:
                return 1
            kind, parent = self._pointer(number)
            if kind == _ROOT:
                return number
            if kind != _BTREE:
                return 0
            number = parent
        return 0

    # -- rows ---------------------------------------------------------------------------------------
    def cells(self) -> Iterator[Cell]:
        """Every row that can be read: first those of which is known what they are."""
        for known in (True, False):
            for number in range(1, self._last + 1):
                root = self._root(number)
                if (root in self.names) is known and self._pointer(number)[0] in (0, _ROOT, _BTREE):
                    for rowid, values in self._on(number):
                        yield Cell(self.names.get(root, ""), rowid, values)

    @cached_property
    def names(self) -> Mapping[int, str]:
        """Table of each root page, as far as rows of the schema can be found, wherever they lie."""
        return {root: name for root, name, _ in self._schema if root}  # a virtual table has none

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """CREATE TABLE statements by the names of their tables, as the file says them."""
        return {name: text for _, name, text in self._schema if text.startswith("CREATE TABLE ")}

    @cached_property
    def _schema(self) -> list[tuple[int, str, str]]:
        found: list[tuple[int, str, str]] = []
        for number in range(1, self._last + 1):
            if self._root(number) in (0, 1):
                for _, values in self._on(number):
                    match values:
                        case ("table" | "index", str(name), str(), int(root), sql) if sql is None or _NAMES.match(
                            str(sql)
                        ):
                            found.append((root, name, str(sql or "")))
        return found

    def _on(self, number: int) -> Iterator[tuple[int | None, tuple[Value, ...]]]:
        page = self._page(number)
        at = 100 if number == 1 else 0
        kind = page[at] if len(page) > at else 0
        if kind not in _CELLS_AT:
            return
        count = int.from_bytes(page[at + 3 : at + 5], "big")
        first = at + _CELLS_AT[kind]
        for n in range(min(count, self._size // 4)):
            try:
                yield self._cell(page, int.from_bytes(page[first + 2 * n : first + 2 * n + 2], "big"), kind)
            except (IndexError, ValueError, struct.error):
                continue

    def _cell(self, page: bytes, at: int, kind: int) -> tuple[int | None, tuple[Value, ...]]:
        if not at:
            raise ValueError(at)
        if kind == _INDEX_INNER:
            at += 4
        length, at = _varint(page, at)
        rowid = None
        if kind == _TABLE_LEAF:
            rowid, at = _varint(page, at)
        if not 0 < length < _MOST_BYTES:
            raise ValueError(length)
        return rowid, _record(self._payload(page, at, length, kind), self._encoding)

    def _payload(self, page: bytes, at: int, length: int, kind: int) -> bytes:
        """Payload of a record: the part in its page, and the part in overflow pages."""
        room = self._size - 35 if kind == _TABLE_LEAF else (self._size - 12) * 64 // 255 - 23
        if length <= room:
            return _exactly(page[at : at + length], length)
        least = (self._size - 12) * 32 // 255 - 23
        here = least + (length - least) % (self._size - 4)
        here = here if here <= room else least
        parts = [_exactly(page[at : at + here], here)]
        left, following = length - here, int.from_bytes(page[at + here : at + here + 4], "big")
        while left > 0:
            more = self._page(following) if 1 < following <= self._last else b""
            part = _exactly(more[4 : 4 + left], min(left, self._size - 4))
            parts.append(part)
            left, following = left - len(part), int.from_bytes(more[:4], "big")
        return b"".join(parts)


def _exactly(part: bytes, length: int) -> bytes:
    if len(part) != length:
        raise ValueError(length)
    return part


def _varint(page: bytes, at: int) -> tuple[int, int]:
    value = 0
    for n in range(8):
        byte = page[at + n]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + n + 1
    value = value << 8 | page[at + 8]
    return value - (1 << 64 if value >> 63 else 0), at + 9


def _record(body: bytes, encoding: str) -> tuple[Value, ...]:
    """The values of a record. Raises ValueError for what is none."""
    head, at = _varint(body, 0)
    if not at <= head <= len(body):
        raise ValueError(head)
    data, values = head, list[Value]()
    while at < head:
        kind, at = _varint(body, at)
        value, data = _value(body, data, kind, encoding)
        values.append(value)
    if data != len(body):
        raise ValueError(data)
    return tuple(values)


def _value(body: bytes, at: int, kind: int, encoding: str) -> tuple[Value, int]:
    if kind in (0, 8, 9):
        return (None, 0, 1)[(0, 8, 9).index(kind)], at
    if kind == 7:
        return struct.unpack(">d", _exactly(body[at : at + 8], 8))[0], at + 8
    length = _INTEGERS.get(kind) or (kind - 12) // 2
    if length < 0 or kind in (10, 11):
        raise ValueError(kind)
    raw = _exactly(body[at : at + length], length)
    if kind in _INTEGERS:
        return int.from_bytes(raw, "big", signed=True), at + length
    return (raw.decode(encoding, "replace") if kind % 2 else raw), at + length


# -- sizes and logs --------------------------------------------------------------------------------------
def _page_size(data: bytes | mmap.mmap, log: bytes) -> int:
    """From the header, from the log, or by which size the pages look like pages."""
    said = int.from_bytes(data[16:18], "big") if data[: len(MAGIC)] == MAGIC else int.from_bytes(log[8:12], "big")
    said = 65536 if said == 1 else said
    return max(_SIZES, key=lambda size: (_leaf_bytes(data, size), size == said))


def _leaf_bytes(data: bytes | mmap.mmap, size: int) -> int:
    """Bytes in pages that look like leaves: their cells lie behind the pointers to them and reach the page's second half."""
    total = 0
    for at in range(0, min(len(data), 1 << 24) - size + 1, size):
        count = int.from_bytes(data[at + 3 : at + 5], "big")
        if data[at] in (_TABLE_LEAF, _INDEX_LEAF) and 0 < count < size // 4:
            places = struct.unpack(f">{count}H", data[at + 8 : at + 8 + 2 * count])
            total += size if min(places) >= 8 + 2 * count and size // 2 < max(places) < size else 0
    return total


def beginning(log: bytes) -> tuple[bytes, bool]:
    """First bytes of the database file that a write-ahead log belongs to, and whether the log holds all of that file.

    Its first page, or zeros: a damaged file, of which what the log holds can be saved; b"" where the log holds nothing.
    """
    logged = _logged(log, _page_size(b"", log))
    head = logged.get(1, bytes(_HEADER_BYTES)) if logged else b""
    return head, len(logged) >= int.from_bytes(head[28:32], "big") > 0


def _logged(log: bytes, size: int) -> dict[int, bytes]:
    """The pages of a write-ahead log up to its last commit."""
    out: dict[int, bytes] = {}
    if len(log) < 32 or int.from_bytes(log[8:12], "big") != size:
        return out
    pending: dict[int, bytes] = {}
    for at in range(32, len(log) - size - 23, size + 24):
        if log[at + 8 : at + 16] != log[16:24]:
            break  # of a time before the log began anew
        pending[int.from_bytes(log[at : at + 4], "big")] = log[at + 24 : at + 24 + size]
        if int.from_bytes(log[at + 4 : at + 8], "big"):
            out.update(pending)
            pending = {}
    return out
