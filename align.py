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


@dataclass(frozen=True, slots=True)
class Expected:
    """One stored row that the live list should show next."""

    store_id: int
    pos: int
    role: str
    digest: bytes
    answers: str | None = None


@dataclass(frozen=True, slots=True)
class Live:
    """One message of the live list. ``text`` gives its canonical text when it is asked for."""

    role: str
    digest: bytes
    answers: str | None
    text: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Place:
    """What a live message is.

    ``ids``: the stored rows it shows (several where the host glued rows together). With ``new`` it (or, with ``rest``, that
    part of it) has to be stored, behind position ``after`` (None: at the end), replacing row ``revises`` if given.
    """

    ids: tuple[int, ...] = ()
    new: bool = False
    after: int | None = None
    revises: int | None = None
    rest: str | None = None


@dataclass(slots=True)
class Plan:
    """The outcome for a whole list: one place per live message, and what the user took back."""

    places: list[Place] = field(default_factory=list)
    retracted: tuple[int, ...] = ()
    unaligned: bool = False


Text = Callable[[int], str]
_GLUE = {"user": "\n\n", "assistant": "\n"}
_MAX_GLUED = 8


def align(live: Sequence[Live], expected: Sequence[Expected], text: Text) -> Plan:
    """Place every live message. ``text(store_id)`` gives a row's canonical text; asked for only around differences."""
    plan = Plan()
    at = 0
    while at < len(live) and at < len(expected) and live[at].digest == expected[at].digest:
        plan.places.append(Place((expected[at].store_id,)))
        at += 1
    if at == len(live):
        return plan
    if at == len(expected):
        plan.places.extend(Place(new=True) for _ in live[at:])
        return plan
    rest, stored = live[at:], expected[at:]
    anchors = _anchors(rest, stored)
    before = expected[at - 1].pos if at else 0
    a = b = 0
    for i, j in anchors:
        plan.places.extend(_between(rest[a:i], stored[b:j], before, text))
        plan.places.append(Place((stored[j].store_id,)))
        before = stored[j].pos
        a, b = i + 1, j + 1
    _end(plan, rest[a:], stored[b:], text)
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
    return chain[::-1]


def _between(live: Sequence[Live], stored: Sequence[Expected], before: int, text: Text) -> list[Place]:
    """A stretch with a fixed end on both sides (the start of the list counts as one)."""
    out: list[Place] = []
    a = b = 0
    while a < len(live) and b < len(stored) and live[a].digest == stored[b].digest:
        out.append(Place((stored[b].store_id,)))
        before = stored[b].pos
        a, b = a + 1, b + 1
    end: list[Place] = []
    x, y = len(live), len(stored)
    while x > a and y > b and live[x - 1].digest == stored[y - 1].digest:
        end.append(Place((stored[y - 1].store_id,)))
        x, y = x - 1, y - 1
    while a < x:
        glued = _glued(live[a], stored[b:y], text)
        if glued is not None:
            place, used = glued
            before = stored[b + used - 1].pos
            out.append(replace(place, after=before) if place.new else place)
            a, b = a + 1, b + used
        elif x - a == y - b and live[a].role == stored[b].role:
            out.append(Place(new=True, after=stored[b].pos, revises=stored[b].store_id))
            before = stored[b].pos
            a, b = a + 1, b + 1
        elif b < y and live[a].digest == stored[b].digest:
            out.append(Place((stored[b].store_id,)))
            before = stored[b].pos
            a, b = a + 1, b + 1
        else:
            out.append(Place(new=True, after=before))
            a += 1
    return out + end[::-1]


def _end(plan: Plan, live: Sequence[Live], stored: Sequence[Expected], text: Text) -> None:
    """Behind the last anchor: continue while equal, then what is left is new."""
    a = b = 0
    while a < len(live) and b < len(stored):
        if live[a].digest == stored[b].digest:
            plan.places.append(Place((stored[b].store_id,)))
            a, b = a + 1, b + 1
            continue
        glued = _glued(live[a], stored[b:], text)
        if glued is not None:
            plan.places.append(glued[0])
            a, b = a + 1, b + glued[1]
        elif _same_but_edited(live[a], stored[b], text):
            plan.places.append(Place(new=True, after=stored[b].pos, revises=stored[b].store_id))
            a, b = a + 1, b + 1
        else:
            break
    if a < len(live):
        plan.retracted = tuple(item.store_id for item in stored[b:])
        plan.places.extend(Place(new=True) for _ in live[a:])


def _glued(live: Live, stored: Sequence[Expected], text: Text) -> tuple[Place, int] | None:
    """Is this message made of stored neighbours (and perhaps something new) that the host joined in place?"""
    glue = _GLUE.get(live.role)
    if glue is None or not stored or stored[0].role != live.role:
        return None
    whole = live.text()
    left = whole
    ids: list[int] = []
    for item in stored[:_MAX_GLUED]:
        if item.role != live.role:
            break
        piece = text(item.store_id)
        if not piece:
            ids.append(item.store_id)
            continue
        if left == piece:
            ids.append(item.store_id)
            return (Place(tuple(ids)), len(ids)) if len(ids) > 1 else None
        behind = left[len(piece) :].lstrip(" \t") if left.startswith(piece) else ""
        if not behind.startswith(glue):
            break
        ids.append(item.store_id)
        left = behind.lstrip()
    if not ids or not left or left == whole or live.role != "user":
        return None
    return Place(tuple(ids), new=True, rest=left), len(ids)


def _same_but_edited(live: Live, stored: Expected, text: Text) -> bool:
    """At the open end: an edit of the row, not another message in its place."""
    if live.role != stored.role:
        return False
    if live.role == "tool":
        return live.answers == stored.answers
    old, new = text(stored.store_id), live.text()
    return bool(old) and bool(new) and (new.startswith(old) or old.startswith(new))
