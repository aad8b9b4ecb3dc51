"""
Alignment: which messages of a live list are which stored rows, which are new, which changed.

Pure. The live list and the expected list (what the store says it should show) are compared by digest: common prefix
first, then, behind the first difference, the longest common subsequence. What is left between its members is searched
for rows that the host joined; then for rows that it edited or inserted. Costs the length of the lists times the
number of differences among messages that occur in both; where there are too many of these, only messages that are
unique on both sides are trusted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile
from typing import NamedTuple

from ..records import ToolCall
from ..text import content, markers
from ..text.blobs import MARK


@dataclass(frozen=True, slots=True)
class Expected:
    """Stored row that the live list should show next."""

    store_id: int
    pos: float
    role: str
    digest: bytes
    tool_call_id: str | None = None
    tokens: int = 0
    at: float = 0.0  # when it was said, or else stored
    stored_at: float = 0.0


class Asked(NamedTuple):
    """A tool call: its id, and what it asks for; "" where a placeholder stands for some of that."""

    id: str
    what: str = ""


class Core(NamedTuple):
    """Core of a message: its canonical text and its tool calls."""

    text: str
    calls: tuple[Asked, ...] = ()


def core(role: str, text: str, calls: Sequence[ToolCall], named: Callable[[str], str] = str) -> Core:
    """Core of a message. ``named``: how an id of a call is stored."""
    return Core(content.canonical_text(text, role), tuple(Asked(named(call.id), _asked(call)) for call in calls))


def _asked(call: ToolCall) -> str:
    """Arguments of a call in one spelling. The host writes an empty object where there were no arguments."""
    if any(mark in call.arguments for mark in PLACEHOLDERS):
        return ""
    return f"{call.name}\0{content.canonical_arguments(call.arguments) or '{}'}"


@dataclass(frozen=True, slots=True)
class Live:
    """Message of the live list. ``core`` tells what it says when that is asked for.

    ``heard``: lines of a group that came with it, which are other messages.
    """

    role: str
    digest: bytes
    tool_call_id: str | None
    core: Callable[[], Core]
    heard: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Meaning of one live message: stored rows, a new row, a revision.

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


Said = Callable[[Sequence[int]], Mapping[int, Core]]
"""What rows say; asked for only around differences."""
Seen = Callable[[int], bool]
"""Did the list show this row before? Only then its lack means that it was edited or taken back."""

_GLUE = {"user": "\n\n", "assistant": "\n"}
_MAX_JOINED = 256
_MAX_EDITS = 800
_MAX_TRIES = 64
_NOTHING = Core("")
#: Words of ours in the place of what was said.
PLACEHOLDERS = (MARK, "[redacted:")


def align(
    live: Sequence[Live],
    expected: Sequence[Expected],
    said: Said,
    *,
    before: float = 0.0,
    seen: Seen = lambda _: True,
    shared: bool = False,
    named: Callable[[str], str] = str,
) -> Plan:
    """Place every live message. ``before``: the position of the row in front of both lists, if they are a rest of longer ones.

    ``shared``: the rows are of several people, who began alike. Behind the first difference nothing is compared. ``named``:
    how an id of a call is stored.
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
    if shared and at:
        plan.retracted = tuple(item.store_id for item in stored)
        plan.places.extend(Place(new=True) for _ in rest)
        return plan
    before = expected[at - 1].pos if at else before
    a = b = 0
    fixed = list(_fixed(rest, stored, said))
    for i, j, stop, place in fixed:
        plan.places.extend(_gap(rest[a:i], _those(stored[b:j], seen), before, stored[j].pos))
        a, b = i + 1, stop
        before = stored[b - 1].pos
        if place.new and i < fixed[-1][0]:
            before = middle(before, stored[b].pos)
            place = replace(place, pos=before)
        plan.places.append(place)
    _end(plan, rest[a:], stored[b:], said, seen, named)
    plan.unaligned = at == 0 and not any(place.ids or place.revises for place in plan.places)
    return plan


def _fixed(live: Sequence[Live], stored: Sequence[Expected], said: Said) -> Iterator[tuple[int, int, int, Place]]:
    """Live messages that show rows, in order: (place in ``live``, first place in ``stored``, stop there, what it is)."""
    joined = _joined(live, stored, said)
    flat = [(i, piece) for i, item in enumerate(live) for piece in joined.get(i, (_Piece(item.digest),))]
    found: dict[int, list[tuple[_Piece, int | None]]] = {}
    rows = dict(_common([piece.digest for _, piece in flat], [item.digest for item in stored]))
    for n, (i, piece) in enumerate(flat):
        found.setdefault(i, []).append((piece, rows.get(n)))
    for i, pieces in found.items():
        shown = [(piece, j) for piece, j in takewhile(lambda item: item[1] is not None, pieces) if j is not None]
        if not shown:
            continue
        ids = tuple(stored[j].store_id for _, j in shown)
        behind = shown[-1][0].behind
        if behind == _NOTHING:
            yield i, shown[0][1], shown[-1][1] + 1, Place(ids)
        elif live[i].role == "user" and not behind.calls:
            yield i, shown[0][1], shown[-1][1] + 1, Place(ids, new=True, rest=behind.text)


# -- the same message ------------------------------------------------------------------------------------
def _common(here: Sequence[bytes], there: Sequence[bytes]) -> list[tuple[int, int]]:
    """Pairs of equal digests, as many as there are in both lists in the same order."""
    both = set(here) & set(there)
    ones = [n for n, digest in enumerate(here) if digest in both]
    others = [n for n, digest in enumerate(there) if digest in both]
    pairs = _chain([here[n] for n in ones], [there[n] for n in others])
    return [(ones[i], others[j]) for i, j in pairs]


def _chain(here: Sequence[bytes], there: Sequence[bytes]) -> list[tuple[int, int]]:
    """The longest common subsequence; where the lists differ too much, the one of their unique members and what lies between."""
    pairs = _subsequence(here, there)
    if pairs is not None:
        return pairs
    out: list[tuple[int, int]] = []
    a = b = 0
    for i, j in [*_unique(here, there), (len(here), len(there))]:
        out.extend((a + n, b + m) for n, m in _subsequence(here[a:i], there[b:j]) or ())
        if i < len(here):
            out.append((i, j))
        a, b = i + 1, j + 1
    return out


def _subsequence(here: Sequence[bytes], there: Sequence[bytes]) -> list[tuple[int, int]] | None:
    """The longest common subsequence (Myers 1986); None when more than ``_MAX_EDITS`` members are not in it."""
    n, m = len(here), len(there)
    reach = {1: 0}
    trace: list[dict[int, int]] = []
    for edits in range(min(n + m, _MAX_EDITS) + 1):
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
            x = reach[k + 1] if down else reach[k - 1] + 1
            while x < n and x - k < m and here[x] == there[x - k]:
                x += 1
            reach[k] = x
        trace.append({k: reach[k] for k in range(-edits, edits + 1, 2)})
        if trace[-1].get(n - m, -1) >= n:
            return _walked(trace, n, m)
    return None


def _walked(trace: Sequence[dict[int, int]], n: int, m: int) -> list[tuple[int, int]]:
    """The pairs on the way that ``_subsequence`` found, read from its end."""
    out: list[tuple[int, int]] = []
    x, k = n, n - m
    for edits in range(len(trace) - 1, -1, -1):
        if edits:
            last = trace[edits - 1]
            down = k == -edits or (k != edits and last[k - 1] < last[k + 1])
            start = last[k + 1] if down else last[k - 1] + 1
        else:
            down, start = False, 0
        out.extend((at, at - k) for at in range(x - 1, start - 1, -1))
        x, k = (start, k + 1) if down else (start - 1, k - 1)
    out.reverse()
    return out


def _unique(here: Sequence[bytes], there: Sequence[bytes]) -> list[tuple[int, int]]:
    """Pairs that occur once on each side, longest increasing chain of them."""
    mine, theirs = Counter(here), Counter(there)
    index = {digest: j for j, digest in enumerate(there) if theirs[digest] == 1}
    pairs = [(i, index[digest]) for i, digest in enumerate(here) if mine[digest] == 1 and digest in index]
    tails: list[int] = []
    ends: list[int] = []
    back: list[int] = []
    for n, (_, j) in enumerate(pairs):
        k = bisect_left(tails, j)
        tails[k : k + 1], ends[k : k + 1] = [j], [n]
        back.append(ends[k - 1] if k else -1)
    chain = []
    n = ends[-1] if ends else -1
    while n >= 0:
        chain.append(pairs[n])
        n = back[n]
    return chain[::-1]


# -- joined rows -------------------------------------------------------------------------------------------
class _Piece(NamedTuple):
    """A message, or what was one before the host joined it to others. ``behind``: what follows it."""

    digest: bytes
    behind: Core = _NOTHING


def _joined(live: Sequence[Live], stored: Sequence[Expected], said: Said) -> dict[int, list[_Piece]]:
    """Live messages that the host may have made of rows (and something new), taken apart.

    Rows that say the same are read once; those that occur once, on both sides, are not read at all.
    """
    there = Counter(item.digest for item in stored)
    here = Counter(item.digest for item in live)
    mine = [n for n, item in enumerate(live) if item.role in _GLUE and item.digest not in there]
    some = {item.digest: item for item in stored if item.role in _GLUE} if mine else {}
    rows = [item for digest, item in some.items() if there[digest] > min(1, here[digest])]
    cores = said([item.store_id for item in rows]) if rows else {}
    begins: dict[tuple[str, str], list[tuple[Core, bytes]]] = {}
    for item in rows:
        core = cores[item.store_id]
        begins.setdefault(_begin(item.role, core), []).append((core, item.digest))
    for same in begins.values():
        same.sort(key=lambda item: -len(item[0].text))
    parts = {n: _taken_apart(live[n].role, live[n].core(), begins) for n in mine} if begins else {}
    return {n: pieces for n, pieces in parts.items() if pieces}


def _same_calls(some: Sequence[Asked], others: Sequence[Asked]) -> bool:
    """Are these the same calls? An id that comes again with other arguments asks for something else."""
    return len(some) == len(others) and all(
        one.id == other.id and (one.what == other.what or not one.what or not other.what)
        for one, other in zip(some, others, strict=True)
    )


def _begin(role: str, core: Core) -> tuple[str, str]:
    """Beginning of a message for the search for joined ones: its first paragraph, or its first call."""
    return role, core.text.split(_GLUE[role], 1)[0].rstrip() if core.text else _first_call(core)


def _first_call(core: Core) -> str:
    return f"\0{core.calls[0].id}" if core.calls else ""


def _taken_apart(
    role: str, whole: Core, begins: Mapping[tuple[str, str], Sequence[tuple[Core, bytes]]]
) -> list[_Piece]:
    """The rows that a message begins with, one behind the other: so that nothing is left, or as far as the longest rows go."""
    best: list[_Piece] = []
    for longest in (True, False):
        out: list[_Piece] = []
        left = whole
        while left != _NOTHING and len(out) < _MAX_JOINED:
            left = left._replace(text=markers.unstamped(left.text)) if role == "user" else left
            tries = [*begins.get(_begin(role, left), ()), *begins.get((role, _first_call(left)), ())]
            tries = tries[:_MAX_TRIES] if longest else tries[: -_MAX_TRIES - 1 : -1]
            found = next(
                ((rest, name) for core, name in tries if (rest := _less(left, core, _GLUE[role])) is not None), None
            )
            if found is None or found[0] == left:
                break
            left = found[0]
            out.append(_Piece(found[1], left))
        if left == _NOTHING:
            return out
        best = best or out
    return best


def _less(whole: Core, piece: Core, glue: str) -> Core | None:
    """The message without the piece at its beginning; None when it does not begin so."""
    rest = _without(whole.text, piece.text, glue)
    if rest is None or not _same_calls(whole.calls[: len(piece.calls)], piece.calls):
        return None
    return Core(rest, whole.calls[len(piece.calls) :])


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


# -- other messages ------------------------------------------------------------------------------------------
def _gap(live: Sequence[Live], stored: Sequence[Expected], before: float, until: float) -> list[Place]:
    """A stretch with nothing in common, between rows that are shown: as many of the same roles were edited, others inserted."""
    out: list[Place] = []
    b = 0
    for a, item in enumerate(live):
        if len(live) - a == len(stored) - b and item.role == stored[b].role:
            before = stored[b].pos
            out.append(Place(new=True, pos=before, revises=stored[b].store_id))
            b += 1
        else:
            before += ((stored[b].pos if b < len(stored) else until) - before) / (len(live) - a + 1)
            out.append(Place(new=True, pos=before))
    return out


def middle(before: float, until: float) -> float:
    """A position between two others; equal to one of them when there is none left."""
    return (before + until) / 2


def spaced(positions: Iterable[float], whole: int, fixed: Iterable[float]) -> dict[float, float]:
    """Positions in the same order behind ``whole``, evenly between those that cannot move: the new one by the old one."""
    every = sorted(set(positions))
    out: dict[float, float] = {}
    for low, high in pairwise([float(whole), *sorted(fixed), float(whole + 1)]):
        here = [pos for pos in every if low <= pos < high]
        out.update({pos: low + (high - low) * n / (len(here) + 1) for n, pos in enumerate(here, 1)})
    return out


def _those(stored: Sequence[Expected], seen: Seen) -> list[Expected]:
    return [item for item in stored if seen(item.store_id)]


def _end(
    plan: Plan, live: Sequence[Live], stored: Sequence[Expected], said: Said, seen: Seen, named: Callable[[str], str]
) -> None:
    """Plan behind the last row that is shown: rows that were edited, then what is left is new."""
    at = 0
    every, stored = stored, _those(stored, seen)
    while at < min(len(live), len(stored)) and _same_but_edited(live[at], stored[at], said, named):
        plan.places.append(Place(new=True, pos=stored[at].pos, revises=stored[at].store_id))
        at += 1
    if at < len(live):
        plan.retracted = tuple(item.store_id for item in stored[at:])
        plan.places.extend(Place(new=True) for _ in live[at:])
    else:
        edited = {item.store_id for item in stored[:at]}
        plan.leftover = tuple(item for item in every if item.store_id not in edited)


def _same_but_edited(live: Live, stored: Expected, said: Said, named: Callable[[str], str]) -> bool:
    """At the open end: an edit of the row, not another message in its place."""
    if live.role != stored.role:
        return False
    if live.role == "tool":
        return stored.tool_call_id in (live.tool_call_id, live.tool_call_id and named(live.tool_call_id))
    was, core = said([stored.store_id])[stored.store_id], live.core()
    if core.calls and was.text == core.text and [call.id for call in was.calls] == [call.id for call in core.calls]:
        return True
    old, new = was.text, core.text
    if f"\n{old}\n" in live.heard:
        return False
    # A gateway shows the model more than it keeps: what others said in the group in front of what was said to the bot.
    addressed = markers.unstamped(markers.overheard(old)[1])
    return bool(old) and bool(new) and (new.startswith(old) or old.startswith(new) or new == addressed)
