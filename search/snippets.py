"""
The stretch of a text around what was looked for.

Pure. An excerpt is a slice, so its place can be named; it begins and ends at a line, sentence or word border where one is near.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from . import json_text
from .stem import stem

_WORD = re.compile(r"[^\W_]+")
_BORDER = re.compile(r"\n|[.!?。！？] ?|\s")
_SNAP_CHARS = 40


def window(text: str, at: int, size: int, stems: Collection[str]) -> tuple[int, int]:
    """(start, stop) of the best ``size`` characters near ``at``: those with most of the different words."""
    if len(text) <= size + size // 4:
        return 0, len(text)
    at = max(0, min(at, len(text)))
    low, high = max(0, at - size), min(len(text), at + 2 * size)
    places = _places(json_text.blanked(text, low, high), stems)
    first, last = _densest([(low + n, word) for n, word in places], size, at)
    slack = max(0, size - (last - first))
    start = max(0, min(first - slack // 3, len(text) - size))
    if last < size - size // 8 and start < size // 2:
        start = 0  # a message's first words name its matter
    return _snapped(text, start, min(len(text), start + size), first, last)


def first(text: str, literal: str, stems: Collection[str]) -> int:
    """Where to look first: at the words as they were typed, else at the first of their stems."""
    lowered = text.lower()
    at = lowered.find(literal.lower()) if literal else -1
    return at if at >= 0 else min((n for n in map(lowered.find, stems) if n >= 0), default=0)


def _places(text: str, stems: Collection[str]) -> list[tuple[int, str]]:
    """Where the words stand."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = text
    beginnings = {word[:2] for word in stems}  # a stem begins as its words do, so most words need not be stemmed
    out = [
        (found.start(), s)
        for found in _WORD.finditer(lowered)
        if found.group()[:2] in beginnings and (s := stem(found.group())) in stems
    ]
    for word in stems:
        if not word.isascii():  # scripts without spaces: the pairs that were searched, wherever they stand
            for written in (word, json_text.escaped(word)):
                at = lowered.find(written)
                while at >= 0:
                    out.append((at, word))
                    at = lowered.find(written, at + 1)
    return sorted(set(out))


def _densest(places: list[tuple[int, str]], size: int, at: int) -> tuple[int, int]:
    """First and last place of the window with most different words; near ``at`` when there is a choice."""
    best, chosen = (0, 0), (at, at)
    begin = 0
    for end, (last, _) in enumerate(places):
        while last - places[begin][0] > size * 3 // 4:
            begin += 1
        first = places[begin][0]
        rank = (len({word for _, word in places[begin : end + 1]}), -min(abs(first - at), abs(last - at)))
        if rank > best or best == (0, 0):
            best, chosen = rank, (first, last)
    return chosen


def _snapped(text: str, start: int, stop: int, first: int, last: int) -> tuple[int, int]:
    if start > 0:
        border = _BORDER.search(text, start, min(first, start + _SNAP_CHARS))
        start = border.end() if border and border.end() < stop else start
    if stop < len(text):
        borders = [found.start() for found in _BORDER.finditer(text, max(last, stop - _SNAP_CHARS), stop)]
        stop = borders[-1] + 1 if borders and borders[-1] >= start else stop
    return start, stop
