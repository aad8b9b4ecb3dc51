"""
Binary data inside texts: data URIs and long base64, plain, wrapped, or escaped inside JSON.

Pure: finds such runs, and owns the grammar of the placeholder that stands for one. Where the bytes go is ``payloads``' business.
Linear: a run of MIN_CHARS cannot hide between samples taken every STEP characters, and only what a sample hits is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

MIN_CHARS: Final = 2048
_STEP, _WINDOW = 512, 128
_LINE = 40  # lines of wrapped base64 are at least this long, and all but the last are equally long
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-"
_REGION = _ALPHABET + "\\\r\n="
_SAMPLE = re.compile(r"[A-Za-z0-9+/_=\\\r\n-]{128}")
_LONG = re.compile(r"(?:[A-Za-z0-9+/_-]|\\{1,8}/){40}")
#: Steps to the next sample that is one, as many at once as cost little memory.
_STEPS = re.compile(rf"(?s:(?:(?!{_SAMPLE.pattern}).{{{_STEP}}}){{0,1000}})")
_PIECE = re.compile(
    r"(?P<sep>(?:\\{1,8}+[nrt]|[\r\n])++[ \t]*+)|(?P<run>(?:[A-Za-z0-9+/_-]++|\\{1,8}+/)++(?:=|\\{1,8}u003[dD]){0,2})"
)
_BEGINS = re.compile(r"[\r\nA-Za-z0-9+/_-]|\\{1,8}[nrt/]")  # a piece, whatever its length
_URI_HEAD = re.compile(
    r"data:(?P<mime>[\w.+-]*(?:\\{0,8}/[\w.+-]+)?)(?:;[\w.+-]+=[\w.+-]*){0,8};base64,\Z", re.IGNORECASE
)
_HEAD_CHARS = 300
_HEX = frozenset("0123456789abcdefABCDEF")

DATA_URI, BASE64, TEXT, LITERAL = "data-uri", "base64", "text", "literal"
#: Opens every placeholder.
MARK: Final = "[lcm:file "
PLACEHOLDER = re.compile(
    r"\[lcm:file (?P<name>file_[0-9a-f]{16}) kind=(?P<kind>data-uri|base64|text|literal) mime=(?P<mime>[\w.+/-]{1,120}) "
    r"bytes=(?P<bytes>\d{1,12}) sha256=(?P<sha>[0-9a-f]{64})\]"
)


@dataclass(frozen=True, slots=True)
class Span:
    """A run of ``text[start:stop]`` that belongs into a file."""

    start: int
    stop: int
    kind: str
    mime: str


@dataclass(frozen=True, slots=True)
class Ref:
    """A placeholder's facts about its file. ``bytes``: of the text that it stands for, as UTF-8."""

    sha: str
    kind: str
    mime: str
    bytes: int

    @property
    def name(self) -> str:
        return f"file_{self.sha[:16]}"

    def __str__(self) -> str:
        return f"{MARK}{self.name} kind={self.kind} mime={self.mime} bytes={self.bytes} sha256={self.sha}]"


def refs(text: str) -> Iterator[tuple[int, int, Ref]]:
    """(start, stop, what it says) of every placeholder in a text."""
    if MARK in text:
        for found in PLACEHOLDER.finditer(text):
            yield found.start(), found.end(), Ref(found["sha"], found["kind"], found["mime"], int(found["bytes"]))


def names(text: str) -> str:
    """The names of the files that a text refers to."""
    return " ".join(dict.fromkeys(ref.name for *_, ref in refs(text)))


# ------------------------------------------------------------------------------------------------ finding
def suspicious(text: str | bytes) -> bool:
    """May there be a run in a text (or its UTF-8)? Cheap: for texts of any kind, JSON included. False means no."""
    said = text if isinstance(text, str) else text.decode("utf-8")
    return len(said) >= MIN_CHARS and _sample(said, 0)[1]


def _sample(text: str, at: int) -> tuple[int, bool]:
    """(where the first sample from ``at`` on begins that may lie in a run, True), or (the end, False)."""
    last = len(text) - _WINDOW
    while at <= last:
        at = _STEPS.match(text, at).end()  # type: ignore[union-attr] # it matches everywhere
        if _SAMPLE.match(text, at):
            if _LONG.search(text, at, at + _WINDOW):
                return at, True
        elif at > last or at + _STEP <= len(text):
            continue  # at the end, or there was more to skip than is skipped at once
        at += _STEP
    return at, False


def spans(text: str) -> list[Span]:
    """Every run, in order, none overlapping another."""
    out: list[Span] = []
    done = 0
    if len(text) < MIN_CHARS:
        return out
    while True:
        at, hit = _sample(text, done)
        if not hit:
            return out
        before = text[max(done, at - _STEP - _WINDOW) : at]
        stop, found = _region(text, at - len(before) + len(before.rstrip(_REGION)), at)
        out.extend(found)
        done = max(stop, at + _STEP)


def _region(text: str, start: int, at: int) -> tuple[int, list[Span]]:
    """(end of the stretch of base64 characters and line ends, the runs in it)."""
    first = _BEGINS.match(text, start) or _BEGINS.search(text, at, at + _WINDOW)
    lines: list[tuple[int, int]] = []
    end = first.start() if first else at
    for piece in _PIECE.finditer(text, end) if first else ():
        if piece.start() != end:
            break
        if piece["run"] is not None:
            lines.append(piece.span())
        end = piece.end()
    return end, [span for group in _groups(text, lines) if (span := _judged(text, group)) is not None]


def _groups(text: str, lines: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Neighbouring lines of one length and the shorter one that ends them."""
    group: list[tuple[int, int]] = []
    for line in lines:
        size = line[1] - line[0]
        if group and size == group[0][1] - group[0][0] and size >= _LINE and text[group[-1][1] - 1] != "=":
            group.append(line)
            continue
        if group and len(group) > 1 and size < group[0][1] - group[0][0] and text[group[-1][1] - 1] != "=":
            yield [*group, line]
            group = []
            continue
        if group:
            yield group
        group = [line]
    if group:
        yield group


def _judged(text: str, group: list[tuple[int, int]]) -> Span | None:
    """The span of a group if it is what it looks like."""
    start, stop = group[0][0], group[-1][1]
    if stop - start < MIN_CHARS:
        return None
    head = _URI_HEAD.search(text, max(0, start - _HEAD_CHARS), start)
    if head is not None:
        mime = head["mime"].replace("\\", "").lower()
        return Span(head.start(), stop, DATA_URI, mime[:120] or "text/plain")
    if len(group) > 2 and len({text[line[0] : line[0] + 6] for line in group[:3]}) == 1:
        return None  # lines that begin alike are names
    middle = (start + stop) // 2
    sample = text[start : start + 4096] + text[middle : middle + 4096]
    return Span(start, stop, BASE64, "application/octet-stream") if _encoded(sample) else None


def _encoded(sample: str) -> bool:
    """Letters of both cases and digits mixed the way encoded bytes mix them; no hex, words, rulers, sequences of bases."""
    counts = {char: sample.count(char) for char in set(sample)}
    if not set(counts) - _HEX - set("\\\r\n\t nrt"):
        return False
    size = len(sample)
    upper = sum(n for char, n in counts.items() if "A" <= char <= "Z")
    lower = sum(n for char, n in counts.items() if "a" <= char <= "z")
    digits = sum(n for char, n in counts.items() if "0" <= char <= "9")
    return len(counts) >= 30 and upper >= size * 0.12 and lower >= size * 0.12 and digits >= size * 0.03


def in_original(text: str, at: int) -> int:
    """An offset in a text with placeholders as offset in what they stand for (which has one byte a character)."""
    shift = 0
    for start, stop, ref in refs(text):
        if stop <= at:
            shift += ref.bytes - (stop - start)
        elif start < at:
            return start + shift
    return at + shift


# ------------------------------------------------------------------------------------------------ folding
Keep = Callable[[str, str, str], "Ref | None"]
"""Keeps (text, kind, mime) in a file; None when that failed, which leaves the text where it is."""


def fold(text: str, keep: Keep, *, found: list[Span] | None = None, literals: bool = True) -> str:
    """``text`` with placeholders for its runs. With ``literals`` text that only looks like a placeholder becomes one too."""
    whole = [*(spans(text) if found is None else found)]
    if literals and MARK in text:
        taken = {n for span in whole for n in (span.start, span.stop)}
        looks = (Span(start, stop, LITERAL, "text/plain") for start, stop, _ in refs(text))
        whole = sorted([*whole, *(each for each in looks if each.start not in taken)], key=lambda span: span.start)
    out: list[str] = []
    at = 0
    for span in whole:
        if span.start < at:
            continue
        ref = keep(text[span.start : span.stop], span.kind, span.mime)
        if ref is not None:
            out += [text[at : span.start], str(ref)]
            at = span.stop
        elif span.kind == LITERAL:
            raise LiteralLostError(str(span))
    return "".join([*out, text[at:]]) if out else text


class LiteralLostError(ValueError):
    """A look-alike of a placeholder could not be kept: the text must stay as it is, all of it."""


def unfold(text: str, payload: Callable[[Ref], str | None], *, kinds: frozenset[str]) -> str:
    """``text`` with what its placeholders stand for. A text that went into a file as a whole is all that its string holds."""
    out: list[str] = []
    at = 0
    for start, stop, ref in refs(text):
        if ref.kind not in kinds:
            continue
        kept = payload(ref)
        if kept is None:
            continue
        if ref.kind == TEXT and start == 0:
            return unfold(kept, payload, kinds=kinds - {TEXT})
        out += [text[at:start], kept]
        at = stop
    return "".join([*out, text[at:]]) if out else text
