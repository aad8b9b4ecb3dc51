"""
A huge text as UTF-8: encoded once, looked at as little as possible, with the same outcome as any other text.

Pure. Everybody who needs the bytes of a huge text on its way in (its digest, its file) gets the same ones; what is looked for in
them is what ``content`` looks for in a text. None and False mean that the ordinary way must be taken. Owns the form in which a
message with such a text lies in a file: its JSON but for that text, which is not quoted yet.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from typing import Final

from .markers import TODO_HEAD

#: Texts of so many characters are worth the trouble.
HUGE_CHARS: Final = 100_000
_PIECE_CHARS = (
    4096  # encoded at a time: mostly without a character outside ASCII, and small enough for a processor's cache
)
_SAMPLE_CHARS = 64
_LOOKED_AT_BYTES = 128 * 1024
_END_CHARS = 4096
_FEW = 200
_TODO = TODO_HEAD.encode()
_TAG, _NOTE, _NOTE_HEAD = b"memory-context", b"recalled memory context", b"system note:"
_MAY_OPEN_TAG = frozenset(b"/mM \t\n\r\f\v\x1c\x1d\x1e\x1f") | frozenset(range(128, 256))
_ESCAPED = ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n"), (b"\r", b"\\r"), (b"\t", b"\\t"))
_LOOSE = re.compile(rb"(\d{1,9}) (\d{1,9})\n", re.ASCII)
_ODD = tuple(bytes([n]) for n in range(32) if n not in b"\n\r\t")  # what JSON escapes otherwise; rare in texts


def utf8(text: str) -> tuple[bytes, str]:
    """(a text as UTF-8, the pieces of it that are not all ASCII). Raises UnicodeEncodeError where half a character stands."""
    if text.isascii():
        return text.encode("ascii"), ""
    samples = [text[at : at + _SAMPLE_CHARS].isascii() for at in range(0, len(text), len(text) // 16 or 1)]
    if 2 * sum(samples) < len(samples):
        return text.encode("utf-8"), text
    pieces = [text[at : at + _PIECE_CHARS] for at in range(0, len(text), _PIECE_CHARS)]
    return b"".join([piece.encode("utf-8") for piece in pieces]), "".join([p for p in pieces if not p.isascii()])


def canonical(text: str, raw: bytes, others: str) -> bytes | memoryview | None:
    """``content.canonical_text`` as UTF-8, for what ``utf8`` made of a text. None: it takes more than line ends and blanks."""
    if (
        others and unicodedata.normalize("NFC", others) is not others
    ):  # ASCII between them changes nothing about the answer
        return None
    body = _stripped(text, raw)
    if body is None:
        return None
    if b"\r" in raw:
        body = raw = bytes(body).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if (b"[" in raw and _TODO in raw) or may_recall(raw):
        return None
    return body


def _stripped(text: str, raw: bytes) -> bytes | memoryview | None:
    """Without blanks around it; None where there is a whole page of them."""
    head, tail = text[:_END_CHARS], text[-_END_CHARS:]
    first, last = len(head) - len(head.lstrip()), len(tail.rstrip())
    if first == len(head) or not last:
        return None
    if not first and last == len(tail):
        return raw
    return memoryview(raw)[len(head[:first].encode()) : len(raw) - len(tail[last:].encode())]


def may_recall(raw: bytes) -> bool:
    """May the host's cleaning of recalled memory find something in it? False means no."""
    tag, note = _may_open(raw, b"<", _opens_tag), _may_open(raw, b"[", _opens_note)
    if not tag and not note:
        return False
    low = raw.lower()
    return ((tag and _TAG in low) or (note and _NOTE in low)) and (b"emory" in raw or b"EMORY" in raw)


def _may_open(raw: bytes, bracket: bytes, opens: Callable[[bytes, int], bool]) -> bool:
    """Does a bracket open what is looked for? Few are looked at; of many one may."""
    at = -1
    for _ in range(_FEW):
        at = raw.find(bracket, at + 1)
        if at < 0:
            return False
        if opens(raw, at + 1):
            return True
    return True


def _opens_tag(raw: bytes, at: int) -> bool:
    return raw[at : at + 1] != b"" and raw[at] in _MAY_OPEN_TAG


def _opens_note(raw: bytes, at: int) -> bool:
    word = raw[at : at + len(_NOTE_HEAD)]
    return word.lower() == _NOTE_HEAD or not word.isascii()


def quoted(raw: bytes) -> bytes | None:
    """A string as JSON has it. None: there are control characters in it."""
    for at in range(0, len(raw), _LOOKED_AT_BYTES):
        piece = raw[at : at + _LOOKED_AT_BYTES]
        for odd in _ODD:
            if odd in piece:
                return None
    for plain, escaped in _ESCAPED:
        raw = raw.replace(plain, escaped)
    return b'"%b"' % raw


# ------------------------------------------------------------------------------------------------ loose
Loose = tuple[bytes, bytes, bytes]
"""A JSON object in three pieces: what stands before one of its strings, that string as UTF-8 and not quoted yet, and the rest."""


def joined(loose: Loose) -> bytes:
    """The JSON."""
    before, raw, after = loose
    said = quoted(raw) or json.dumps(raw.decode("utf-8"), ensure_ascii=False).encode("utf-8")
    return b"".join((before, said, after))


def laid(loose: Loose) -> tuple[bytes, ...]:
    """What lies in a file of it, in pieces: quoting takes longer than writing, and can be done by whoever reads it."""
    before, raw, after = loose
    return b"%d %d\n" % (len(before), len(after)), before, raw, after


def taken_up(data: bytes) -> bytes:
    """The JSON of what ``laid`` made, or of a file that holds just that. Raises ValueError for anything else."""
    if data[:1] == b"{":
        return data
    head = _LOOSE.match(data)
    if head is None:
        raise ValueError("neither JSON nor the pieces of it")
    begin, end = head.end() + int(head[1]), len(data) - int(head[2])
    if begin > end:
        raise ValueError("the pieces are larger than the whole")
    return joined((data[head.end() : begin], data[begin:end], data[end:]))
