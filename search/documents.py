"""
Documents of the search index: the words and pieces that it gets of a message, and which messages it gets later.

Pure but for ``Documents``, which writes them; the list of messages that are not indexed yet is a fact of the database. Large
ones are stored in their turn and indexed behind it.
"""

from __future__ import annotations

import json
import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple

from ..errors import StoreCorrupt
from ..records import Flag, Message, Row, ToolCall
from ..storage.connection import Database, marks, padded
from ..storage.meta import Meta
from ..text import content, markers

CONTEXT_CHARS = 150
CONTEXT_BELOW = 200  # longer messages speak for themselves; their context would only make the index larger

_WAITING = "index_waiting"
_FOLDED_PAGES = 300  # some milliseconds
#: Segments of one level that a large index keeps apart: where they are folded, the list of the commonest word is copied in one
#: step, and nobody else writes meanwhile.
APART: Final = 7
_LARGE = 150_000  # messages; the list of a word that each of them has is copied in some 20 ms
_LIST = "SELECT value FROM meta WHERE key = ?"

#: Pieces of one message in the search index, at most.
MAX_CHUNKS: Final = 128

CHUNK_CHARS = 600

# Scripts that are written without spaces: kana, Han, hangul (whose particles stick to the noun).
_CJK = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
CJK_RUN = re.compile(f"[{_CJK}]+")
ONE_CJK = re.compile(f"[{_CJK}]")
_SPECIAL = re.compile("[\u1100-\u11ff\u3000-\U0010ffff]")  # nothing below needs more than FTS5's own folding
HARMFUL = re.compile("[\0\ud800-\udfff]")  # FTS5 stops at NUL, sqlite3 refuses lone surrogates
_HUMP = re.compile("[A-Z](?<=[a-z][A-Z])|[A-Z](?<=[A-Z][A-Z])(?=[a-z])")  # starts with a set: the scan skips by it
_HAS_HUMP = re.compile("[A-Z](?<=[a-z][A-Z])")
_RUN = re.compile("[A-Za-z0-9]*")
_MAX_IDENTIFIER = 64  # longer runs are base64, not names

_JSON = re.compile(r'[{\[]\s{0,8}"')
_ESCAPE = re.compile(r"\\(?:[\\nrtbf]|u([0-9a-fA-F]{4}))")
_LOW_HALF = re.compile(r"\\u[dD][c-fC-F]")  # the second escape of a character that has two
_HALF = 6
_UNICODE = re.compile(r"(?:\\u[0-9a-fA-F]{4})+")
#: A string of JSON; the last one of a text that was cut off has no end.
_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)("|\\?\Z)', re.DOTALL)
_ESCAPED = re.compile(r"((?:\\u[0-9a-fA-F]{4})+)|\\.", re.DOTALL)
_LINE_END, _ESCAPED_END = re.compile("\n"), re.compile(r"(?<!\\)(?:\\\\)*\\n")
_PLAIN_WORDS = re.compile(r"[ !#-.0-\[\]-~]{1,40}")  # as JSON has them, too
_NUMBERED = re.compile(r"^ {0,8}\d{1,7}\|", re.MULTILINE)  # as the host's tool numbers the lines of a file
_CUT_ESCAPE = re.compile(r"\\+(?:u[0-9a-fA-F]{0,3})?\Z")
_SHORT = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\f": "\f", "\\b": " ", '\\"': '"', "\\\\": "\\", "\\/": "/"}


class IndexRow(NamedTuple):
    """A message to index; ``extra`` renders its tool calls, ``previous_tail`` is the end of the message before it."""

    store_id: int
    text: str
    extra: str = ""
    previous_tail: str = ""


def ending(role: str, text: str) -> str:
    """The end of a message, for the index entry of the next one, without recalled memory."""
    said = markers.unrecalled(role, text)
    return said[-CONTEXT_CHARS:] if said is text else said.rstrip()[-CONTEXT_CHARS:]


def index_row(message: Message) -> IndexRow:
    """The row of the search index for a message that has no address yet."""
    return _index_row(0, message.role, message.text, message.calls, message.tool_name, message.flags)


def stored_index_row(row: Row, previous_tail: str = "") -> IndexRow:
    """Row of the search index from a stored row, for rebuilding the index."""
    head = row.head
    return _index_row(head.store_id, head.role, row.text, row.calls, head.tool_name, head.flags, previous_tail)


def _index_row(
    store_id: int, role: str, text: str, calls: Sequence[ToolCall], tool_name: str | None, flags: int, tail: str = ""
) -> IndexRow:
    if flags & Flag.OWN_TOOL:  # answers of our own tools would only find themselves
        return IndexRow(store_id, "", tool_name or "")
    if flags & Flag.OWN_CALL:  # it repeats the question, and would stand above the answer
        calls = [call for call in calls if not call.name.startswith(content.OWN_TOOLS)]
    extra = " ".join(f"{call.name} {call.arguments}" for call in calls)
    if tool_name:
        extra = f"{tool_name} {extra}"
    return IndexRow(store_id, markers.unrecalled(role, text), extra, tail)


Posting = tuple[int, str, str]
"""(number, text, context) as FTS5 gets it."""


def postings(rows: Iterable[IndexRow]) -> list[Posting]:
    """Postings of index rows, by number: FTS5 writes out what it has gathered whenever one is smaller."""
    return sorted(
        (each for row in rows for each in numbered(row.store_id, cut(row), row.previous_tail)), key=itemgetter(0)
    )


class Pieces(NamedTuple):
    """Texts of a message's pieces. ``borrows``: a short message, which also holds the end of the one before it."""

    texts: tuple[str, ...]
    borrows: bool


def cut(row: IndexRow) -> Pieces:
    """Pieces of an index row. They need no row number, so they are cut before the writer's lock is taken."""
    full = searchable(row.text, row.extra)
    escaped, borrows = json_begins(full), len(full) < CONTEXT_BELOW
    pieces = [(0, full)] if borrows else chunks(full)
    return Pieces(tuple(index_text(_read(piece, max(0, escaped - at))) for at, piece in pieces), borrows)


def numbered(store_id: int, pieces: Pieces, tail: str) -> Iterator[Posting]:
    """Postings of a message under its address. ``tail``: end of the message before it."""
    context = index_text(tail[-CONTEXT_CHARS:]) if pieces.borrows and tail else ""
    return ((chunk_id(store_id, n), text, context) for n, text in enumerate(pieces.texts))


def _read(piece: str, escaped: int) -> str:
    """A piece of a text as it reads: without the escapes of the JSON that begins at ``escaped``."""
    return piece if escaped >= len(piece) else piece[:escaped] + unescaped(piece[escaped:])


class Documents:
    """The documents of the message index, as they are written; and the messages that are stored and not indexed yet."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._meta = Meta(db)

    def add(self, entries: Sequence[Posting]) -> None:
        """Index messages, inside the caller's transaction."""
        self._db.executemany("INSERT INTO message_index(rowid, text, context) VALUES (?, ?, ?)", entries)

    def exchange(self, before: IndexRow, after: IndexRow) -> None:
        """Index other words for a message, inside the caller's transaction. ``before``: exactly what was indexed."""
        self._db.executemany(
            "INSERT INTO message_index(message_index, rowid, text, context) VALUES ('delete', ?, ?, ?)",
            postings([before]),
        )
        self.add(postings([after]))

    def holds(self, row: IndexRow) -> bool:
        """Does the index hold as many pieces of a message as it has, inside the caller's transaction?"""
        numbers = padded([number for number, _, _ in postings([row])])
        sql = f"SELECT count(*) FROM message_index_docsize WHERE id IN ({marks(len(numbers))})"
        return bool(self._db.fetch(sql, numbers)[0][0] == len({*numbers} - {None}))

    def fold(self) -> None:
        """Fold newer pieces of the index into older ones, a bounded part of it; inside the caller's transaction."""
        last = self._db.fetch("SELECT coalesce(max(id), 0) FROM message_index_docsize")[0][0]
        least = 2 if last < chunk_id(_LARGE, 0) else APART
        self._db.execute("INSERT INTO message_index(message_index, rank) VALUES ('usermerge', ?)", (least,))
        self._db.execute("INSERT INTO message_index(message_index, rank) VALUES ('merge', ?)", (_FOLDED_PAGES,))

    # -- later --------------------------------------------------------------------------------------------
    def waiting(self) -> list[int]:
        """Store ids of messages that are not indexed yet."""
        return _ids(self._db.query(_LIST, (_WAITING,)))

    def postpone(self, store_ids: Sequence[int]) -> None:
        """Let these wait, too, inside the caller's transaction."""
        if store_ids:
            self._meta.note(_WAITING, sorted({*self.now_waiting(), *store_ids}))

    def stop_waiting(self, store_ids: Sequence[int] | None) -> set[int]:
        """Messages among these (None: all) that still wait; they do no longer. Inside the caller's transaction."""
        waiting = set(self.now_waiting())
        taken = waiting if store_ids is None else waiting & {*store_ids}
        if waiting - taken:
            self._meta.note(_WAITING, sorted(waiting - taken))
        elif waiting:
            self._meta.forget(_WAITING)
        return taken

    def catch_up(self, entry: Callable[[int], IndexRow | None], *, seconds: float) -> int:
        """Index what waits, the newest first, for so many seconds but one at least; how many wait still. Raises StoreError.

        ``entry`` gives a message as it is indexed (None: it is gone). One that it cannot read (StoreCorrupt) goes on waiting.
        Each is a transaction of its own that does nothing but write: meanwhile others have a turn to store.
        """
        end = time.monotonic() + seconds
        ids = self.waiting()[::-1]
        unreadable = 0
        for done, store_id in enumerate(ids):
            if done and time.monotonic() >= end:
                return unreadable + len(ids) - done
            try:
                row = entry(store_id)
            except StoreCorrupt:
                unreadable += 1
                continue
            written = postings([row]) if row is not None else []
            with self._db.transaction():
                if self.stop_waiting([store_id]):
                    self.add(written)
        return unreadable

    def now_waiting(self) -> list[int]:
        """The list as the writer sees it: another process may have been faster."""
        return _ids(self._db.fetch(_LIST, (_WAITING,)))


def _ids(rows: Sequence[tuple[str]]) -> list[int]:
    """Ids of a list; nothing when damage has made it something else: the doctor misses what is not indexed."""
    try:
        found = json.loads(rows[0][0]) if rows else []
    except ValueError:
        return []
    return [each for each in found if isinstance(each, int)] if isinstance(found, list) else []


# -- numbers of the rows that hold messages in chunks ------------------------------------------------------
# FTS5 keeps the distance from one row of a word's list to the next, in one byte below 128 and in two below 16,384. So the first
# chunks of messages that follow each other get numbers that lie close together: 128 messages share a group of 16,384 numbers, and
# the first four chunks of each are at its end, in the order of the messages; further chunks of long ones come before. A number is
# computed, never looked up; a range of messages is a range of groups.
_MESSAGES_BITS = 7  # messages in a group
_NEAR_BITS = 2  # chunks of a message that lie at the end of its group

#: Numbers of one group: within it, rows are not in the order of their messages.
GROUP: Final = MAX_CHUNKS << _MESSAGES_BITS
#: Messages of one group.
MESSAGES: Final = 1 << _MESSAGES_BITS
_NEAR = 1 << _NEAR_BITS
_FAR = MAX_CHUNKS - _NEAR
_NEAR_FROM = MESSAGES * _FAR
_NEAR_MASK = MESSAGES * _NEAR - 1  # _NEAR_FROM is a multiple of the numbers behind it

#: The greatest store id that has numbers.
LAST_STORE_ID: Final = (1 << (62 - MAX_CHUNKS.bit_length() + 1)) - 1

#: SQL: the number of a message's first chunk, of ``{}`` its store id.
FIRST_SQL: Final = (
    f"(({{0}} >> {_MESSAGES_BITS}) * {GROUP} + {_NEAR_FROM} + (({{0}} & {MESSAGES - 1}) << {_NEAR_BITS}))"
)
#: SQL: a message ``m`` is to be found.
FOUND_SQL: Final = f"m.flags & {int(Flag.FILTERED)} = 0"
#: SQL: the store id of the message that a row belongs to, of ``{}`` its number.
STORE_ID_SQL: Final = (
    f"(({{0}} / {GROUP} << {_MESSAGES_BITS}) + CASE WHEN {{0}} & {GROUP - 1} >= {_NEAR_FROM} "
    f"THEN ({{0}} & {_NEAR_MASK}) >> {_NEAR_BITS} ELSE ({{0}} & {GROUP - 1}) / {_FAR} END)"
)


def chunk_id(store_id: int, chunk: int) -> int:
    """The number of a message's chunk, counted from 0."""
    base, place = (store_id >> _MESSAGES_BITS) * GROUP, store_id & (MESSAGES - 1)
    if chunk < _NEAR:
        return base + _NEAR_FROM + (place << _NEAR_BITS) + chunk
    return base + place * _FAR + chunk - _NEAR


def chunk_of(number: int) -> int:
    """Chunk of its message that a row is."""
    offset = number & (GROUP - 1)
    return offset & (_NEAR - 1) if offset >= _NEAR_FROM else _NEAR + offset % _FAR


def rows_of(first_id: int, last_id: int) -> tuple[int, int]:
    """The first and last number that messages between two store ids may have; some of their neighbours lie there too."""
    return (first_id >> _MESSAGES_BITS) * GROUP, ((last_id >> _MESSAGES_BITS) + 1) * GROUP - 1


def messages_of(first: int, last: int) -> tuple[int, int]:
    """The store ids of all groups that a range of numbers touches."""
    return first // GROUP << _MESSAGES_BITS, ((last // GROUP + 1) << _MESSAGES_BITS) - 1


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Neighbouring numbers as (first, last)."""
    out: list[tuple[int, int]] = []
    for number in numbers:
        if out and number == out[-1][1] + 1:
            out[-1] = out[-1][0], number
        else:
            out.append((number, number))
    return out


# -- words ---------------------------------------------------------------------------------------------------
def index_text(text: str) -> str:
    """The text as FTS5 gets it: CJK runs as bigrams, parts of camelCase names appended, nothing that SQLite chokes on."""
    if "\0" in text:
        text = text.replace("\0", " ")
    if not text.isascii() and _SPECIAL.search(text):
        text = CJK_RUN.sub(bigrams, normal(text))
    if _HAS_HUMP.search(text):
        text = f"{text}\n{' '.join(humps(text))}"
    return text


def normal(text: str) -> str:
    """Common spelling of what looks the same: full-width letters, half-width kana, jamo. Surrogates become blanks."""
    if not _SPECIAL.search(text):
        return text
    if HARMFUL.search(text):
        text = HARMFUL.sub(" ", text)
    return unicodedata.normalize("NFKC", text)


def bigrams(match: re.Match[str]) -> str:
    """Every pair of neighbours, then the last character: so each character begins a token, and ``x*`` finds x alone."""
    run = match.group()
    return f" {' '.join(map(''.join, pairwise(run)))} {run[-1]} "


def humps(text: str) -> Iterator[str]:
    """The parts of each camelCase name, once per name. Appended, not inserted: phrases across the name stay phrases."""
    names: dict[str, None] = {}
    end = 0
    for match in _HAS_HUMP.finditer(text):
        at = match.start()
        if at >= end:
            start = at - 1
            while start > end and text[start - 1].isalnum():
                start -= 1
            run = _RUN.match(text, at)
            end = run.end() if run else at + 1
            if end - start <= _MAX_IDENTIFIER:
                names[text[start:end]] = None
    return map(_split_name, names)


@lru_cache(maxsize=4000)
def _split_name(name: str) -> str:
    return _HUMP.sub(r" \g<0>", name)


def searchable(text: str, extra: str = "") -> str:
    """Text and ``extra`` (tool names, arguments) of a message as the one text that offsets refer to."""
    return f"{text}\n{extra}" if text and extra else text or extra


def chunks(text: str, size: int = CHUNK_CHARS) -> list[tuple[int, str]]:
    """``text`` in pieces of about ``size`` characters with their offsets; together they are the text.

    Cuts at a line, sentence or word border. Huge texts get larger pieces, so that there are never more than MAX_CHUNKS.
    """
    total = len(text)
    if total <= size + size // 4:
        return [(0, text)]
    size = max(size, -(-total // (MAX_CHUNKS // 2)))
    out = []
    at = 0
    while total - at > size + size // 4:
        end = _border(text, at + size // 2 + 1, at + size)
        out.append((at, text[at:end]))
        at = end
    out.append((at, text[at:]))
    return out


def _border(text: str, low: int, high: int) -> int:
    for sign in ("\n", ". ", "。", "? ", "! ", " "):
        found = text.rfind(sign, low, high)
        if found >= 0:
            return found + len(sign)
    return border(text, low, high)


# -- JSON within texts, as it reads -----------------------------------------------------------------------------
# What most tools answer, and the arguments of calls. Only for what is indexed, for finding it in the text, and for summarisers:
# texts, offsets and literals stay those of what is stored.
def json_begins(text: str) -> int:
    """Begin of JSON with escapes in a text (the output of most tools, the arguments of calls); its length if nowhere."""
    found = _JSON.search(text) if "\\" in text else None
    return found.start() if found else len(text)


def unescaped(text: str) -> str:
    """A piece of JSON with its line ends and characters as such: ``\\nname`` is no word that begins with an n."""
    text = text.replace("\\\\", " ").replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r")
    text = text.replace("\\f", "\f").replace("\\b", " ")
    return _UNICODE.sub(_characters, text) if "\\u" in text else text


def as_read(text: str) -> str:
    """A whole text as it reads, not for the index: each string of its JSON decoded, those within strings too."""
    begin = json_begins(text)
    return text if begin == len(text) else text[:begin] + _STRING.sub(_decoded, text[begin:])


def line_ends(text: str) -> list[int]:
    """Places behind the line ends of a text; of JSON in one line, behind those that its strings have as escapes."""
    escaped = "\n" not in text and json_begins(text) < len(text)
    return [found.end() for found in (_ESCAPED_END if escaped else _LINE_END).finditer(text)]


def lines_as_read(text: str) -> str:
    """A whole text as it reads, in the lines of the file that it shows: without their numbers."""
    return _NUMBERED.sub("", as_read(text))


def strings_as_read(text: str) -> str:
    """A text as it reads, each string with escapes on lines of its own, so that the lines of a file begin and end there."""
    begin = json_begins(text)
    return _NUMBERED.sub("", text[:begin] + _STRING.sub(_in_own_lines, text[begin:]))


def place_of(text: str, read: str, at: int) -> int:
    """Place in a text of the first plain words from a place on, of the text as it is ``read``."""
    found = _PLAIN_WORDS.search(read, at)
    if found is None:
        return 0
    end = 0
    for _ in range(read.count(found[0], 0, found.start()) + 1):
        end = text.find(found[0], end) + len(found[0])
    return max(0, end - len(found[0]))


def stretch_as_read(text: str, low: int, high: int) -> str:
    """A stretch of such a text as it reads; an escape that is cut is left out."""
    if "\\" not in text[max(0, low - _HALF) : high]:
        return text[low:high]
    before, until = (_CUT_ESCAPE.sub("", as_read(text[:end])) for end in (low, high))
    return until[len(before) :]


def _decoded(match: re.Match[str]) -> str:
    if "\\" not in match[1]:
        return match[0]
    said = _ESCAPED.sub(_character, match[1])
    if "\\" in said and said.lstrip().startswith(("{", "[")):
        said = as_read(said)
    return f'"{said}{match[2]}'


def _in_own_lines(match: re.Match[str]) -> str:
    said = _decoded(match)
    return said if said == match[0] else f"\n{said[1:].removesuffix(match[2])}\n"


def _character(match: re.Match[str]) -> str:
    return _characters(match) if match[1] else _SHORT.get(match[0], match[0])


def blanked(text: str, low: int, high: int) -> str:
    """A stretch of a text at its length, with blanks for the escapes between words of its JSON: they begin where they stand."""
    begin = min(max(json_begins(text), low), high)
    return text[low:begin] + _ESCAPE.sub(_blank, text[begin:high])


def _blank(match: re.Match[str]) -> str:
    code = match.group(1)
    return match.group() if code and chr(int(code, 16)).isalnum() else " " * len(match.group())


def border(text: str, low: int, high: int) -> int:
    """Border at which to cut JSON without blanks: before a line end, a full stop or any escape; else at ``high``."""
    for escape in ("\\n", "\\u3002", "\\"):
        at = text.rfind(escape, low, high)
        if at < 0:
            continue
        at = low + len(text[low:at].rstrip("\\"))  # it may be the second backslash of an escaped one
        half = at > low + _HALF and _LOW_HALF.match(text, at)
        return at - _HALF if half else at
    return high


def escaped(word: str) -> str:
    """A word as JSON in ASCII has it."""
    return json.dumps(word)[1:-1]


def _characters(match: re.Match[str]) -> str:
    codes = bytes.fromhex(match.group().replace("\\u", ""))
    return codes.decode("utf-16-be", "replace")
