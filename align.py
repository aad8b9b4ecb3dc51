"""
Alignment: which messages of a live list are which stored rows, which are new, which changed.

Pure. The live list and the expected list (what the store says it should show) are compared by digest: common prefix first,
then, behind the first difference, anchors that are unique in both lists, then runs between the anchors. Linear but for the
sort of the anchors.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Expected:
    """One stored row that the live list should show next."""

    store_id: int
    pos: float
    role: str
    digest: bytes
    answers: str | None = None


class Core(NamedTuple):
    """What a message says: its canonical text and the ids of its tool calls."""

    text: str
    call_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Live:
    """One message of the live list. ``core`` tells what it says when that is asked for."""

    role: str
    digest: bytes
    answers: str | None
    core: Callable[[], Core]


@dataclass(frozen=True, slots=True)
class Place:
    """What a live message is.

    ``ids``: the stored rows it shows (several where the host glued rows together). With ``new`` it (or, with ``rest``, that
    part of it) has to be stored, at position ``pos`` (None: at the end), replacing row ``revises`` if given.
    """

    ids: tuple[int, ...] = ()
    new: bool = False
    pos: float | None = None
    revises: int | None = None
    rest: str | None = None


@dataclass(slots=True)
class Plan:
    """The outcome for a whole list: one place per live message, and what the user took back.

    ``leftover``: expected rows behind the end of a list that shows nothing new; it may be an old state of the list.
    """

    places: list[Place] = field(default_factory=list)
    retracted: tuple[int, ...] = ()
    leftover: tuple[Expected, ...] = ()
    unaligned: bool = False


Said = Callable[[int], Core]
_GLUE = {"user": "\n\n", "assistant": "\n"}
_MAX_GLUED = 256
_MAX_CELLS = 250_000


def align(live: Sequence[Live], expected: Sequence[Expected], said: Said, *, before: float = 0.0) -> Plan:
    """Place every live message. ``said(store_id)`` tells what a row says; asked for only around differences.

    ``before``: the position of the row in front of both lists, where they are the rest of longer ones.
    """
    plan = Plan()
    at = 0
    while at < len(live) and at < len(expected) and live[at].digest == expected[at].digest:
        plan.places.append(Place((expected[at].store_id,)))
        at += 1
    if at == len(live):
        plan.leftover = tuple(expected[at:])
        return plan
    if at == len(expected):
        plan.places.extend(Place(new=True) for _ in live[at:])
        return plan
    rest, stored = live[at:], expected[at:]
    anchors = _anchors(rest, stored)
    before = expected[at - 1].pos if at else before
    a = b = 0
    for i, j in anchors:
        plan.places.extend(_between(rest[a:i], stored[b:j], before, stored[j].pos, said))
        plan.places.append(Place((stored[j].store_id,)))
        before = stored[j].pos
        a, b = i + 1, j + 1
    _end(plan, rest[a:], stored[b:], said)
    plan.unaligned = at == 0 and not any(place.ids or place.revises for place in plan.places)
    return plan


def _anchors(live: Sequence[Live], expected: Sequence[Expected]) -> list[tuple[int, int]]:
    """Pairs of equal digests that occur once on each side, longest increasing chain of them."""
    here = Counter(item.digest for item in live)
    there = Counter(item.digest for item in expected)
    index = {item.digest: j for j, item in enumerate(expected) if there[item.digest] == 1}
    pairs = [(i, index[item.digest]) for i, item in enumerate(live) if here[item.digest] == 1 and item.digest in index]
    tails: list[int] = []
    ends: list[int] = []
    back: list[int] = []
    for n, (_, j) in enumerate(pairs):
        k = bisect_left(tails, j)
        if k == len(tails):
            tails.append(j)
            ends.append(n)
        else:
            tails[k] = j
            ends[k] = n
        back.append(ends[k - 1] if k else -1)
    chain = []
    n = ends[-1] if ends else -1
    while n >= 0:
        chain.append(pairs[n])
        n = back[n]
    chain.reverse()
    start = (chain[-1][0] + 1, chain[-1][1] + 1) if chain else (0, 0)
    chain.extend((start[0] + i, start[1] + j) for i, j in _longest(live[start[0] :], expected[start[1] :]))
    return chain


def _longest(live: Sequence[Live], stored: Sequence[Expected]) -> list[tuple[int, int]]:
    """The longest common subsequence, for short stretches without unique messages; [] for stretches that are too long."""
    n, m = len(live), len(stored)
    if not n or not m or n * m > _MAX_CELLS:
        return []
    best = [[0] * (m + 1) for _ in range(n + 1)]
    for i in range(n - 1, -1, -1):
        row, below, mine = best[i], best[i + 1], live[i].digest
        for j in range(m - 1, -1, -1):
            row[j] = below[j + 1] + 1 if mine == stored[j].digest else max(below[j], row[j + 1])
    out = []
    i = j = 0
    while i < n and j < m and best[i][j]:
        if live[i].digest == stored[j].digest:
            out.append((i, j))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return out


def _between(live: Sequence[Live], stored: Sequence[Expected], before: float, until: float, said: Said) -> list[Place]:
    """A stretch without unique messages, with a fixed end on both sides (the start of the list counts as one)."""
    out: list[Place] = []
    a = b = 0
    for i, j in [*_longest(live, stored), (len(live), len(stored))]:
        stop = stored[j].pos if j < len(stored) else until
        out.extend(_gap(live[a:i], stored[b:j], before, stop, said))
        if i < len(live):
            out.append(Place((stored[j].store_id,)))
            before = stop
        a, b = i + 1, j + 1
    return out


def _gap(live: Sequence[Live], stored: Sequence[Expected], before: float, until: float, said: Said) -> list[Place]:
    """A stretch with nothing in common: rows that were glued together, rows that were edited, rows that were inserted."""
    out: list[Place] = []
    b = 0
    for a, item in enumerate(live):
        glued = _glued(item, stored[b:], said)
        if glued is not None:
            place, used = glued
            before, b = stored[b + used - 1].pos, b + used
            out.append(place)
        elif len(live) - a == len(stored) - b and item.role == stored[b].role:
            out.append(Place(new=True, pos=stored[b].pos, revises=stored[b].store_id))
            before, b = stored[b].pos, b + 1
            continue
        else:
            out.append(Place(new=True))
        if out[-1].new:
            before = (before + (stored[b].pos if b < len(stored) else until)) / 2
            out[-1] = replace(out[-1], pos=before)
    return out


def _end(plan: Plan, live: Sequence[Live], stored: Sequence[Expected], said: Said) -> None:
    """Behind the last anchor: continue while equal, then what is left is new."""
    a = b = 0
    while a < len(live) and b < len(stored):
        if live[a].digest == stored[b].digest:
            plan.places.append(Place((stored[b].store_id,)))
            a, b = a + 1, b + 1
            continue
        glued = _glued(live[a], stored[b:], said)
        if glued is not None:
            plan.places.append(glued[0])
            a, b = a + 1, b + glued[1]
        elif _same_but_edited(live[a], stored[b], said):
            plan.places.append(Place(new=True, pos=stored[b].pos, revises=stored[b].store_id))
            a, b = a + 1, b + 1
        else:
            break
    if a < len(live):
        plan.retracted = tuple(item.store_id for item in stored[b:])
        plan.places.extend(Place(new=True) for _ in live[a:])
    else:
        plan.leftover = tuple(stored[b:])


def _glued(live: Live, stored: Sequence[Expected], said: Said) -> tuple[Place, int] | None:
    """Is this message made of stored neighbours (and perhaps something new) that the host joined in place?"""
    glue = _GLUE.get(live.role)
    if glue is None or not stored or stored[0].role != live.role:
        return None
    whole = live.core()
    left, calls = whole.text, whole.call_ids
    ids: list[int] = []
    for item in stored[:_MAX_GLUED]:
        if item.role != live.role:
            break
        piece = said(item.store_id)
        rest = _without(left, piece.text, glue)
        if rest is None or calls[: len(piece.call_ids)] != piece.call_ids:
            break
        left, calls = rest, calls[len(piece.call_ids) :]
        ids.append(item.store_id)
        if not left and not calls and len(ids) > 1:
            return Place(tuple(ids)), len(ids)
    if not ids or not left or left == whole.text or calls or live.role != "user":
        return None
    return Place(tuple(ids), new=True, rest=left), len(ids)


def _without(text: str, piece: str, glue: str) -> str | None:
    """``text`` without the piece (and the glue behind it) at its beginning; None when it does not begin so."""
    if not piece:
        return text
    if not text.startswith(piece):
        return None
    behind = text[len(piece) :]
    if not behind:
        return ""
    behind = behind.lstrip(" \t")
    return behind.lstrip() if behind.startswith(glue) else None


def _same_but_edited(live: Live, stored: Expected, said: Said) -> bool:
    """At the open end: an edit of the row, not another message in its place."""
    if live.role != stored.role:
        return False
    if live.role == "tool":
        return live.answers == stored.answers
    old, new = said(stored.store_id).text, live.core().text
    return bool(old) and bool(new) and (new.startswith(old) or old.startswith(new))
