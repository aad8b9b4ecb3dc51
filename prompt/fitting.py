"""
Fitting of the present state into its room: which lines give way, and the line that counts them.

Pure. Each kind of line claims a part of the room in a stated order; what is left is shared by weight. The text is measured as the
prompt will have it, by the estimate of the host and by ours: the larger one counts, so the room holds for any script. The line
that counts the others stands last, so that what is before it stays where it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..text import tokens
from .work_log import Entry

_ROUNDS: Final = 4
_LEAST_CLAIM: Final = 80  # tokens: a line with an address and a few words
_QUOTED: Final = re.compile("“([^”]*)”")
_OF_DAY: Final = re.compile(r"(?<=\[msg_)(?:\d+)(, \d{4}-\d\d-\d\d\])")

Lines = Sequence[Entry]


@dataclass(frozen=True, slots=True)
class Part:
    """Lines of one kind, oldest first, each with its message. ``forms``: the same lines, whole and then ever shorter.

    ``claim``: its place among those that take up to a ``share`` of the room first, 0 where it takes none; ``sure``: what those
    before leave it. What is left then is shared by ``weight``. ``quotes``: its lines only quote, and fall away where another line
    has their words. ``most``: newest lines that are shown at all. ``view``: the call that lists them, "" where messages do.
    """

    head: str
    kind: str
    forms: Sequence[Lines]
    claim: int = 0
    sure: float = 0.0
    share: float = 0.0
    weight: float = 1.0
    most: int = 1000
    view: str = ""
    quotes: bool = False

    @property
    def first(self) -> int:
        """Index of the first line that may be shown."""
        return max(0, len(self.forms[0]) - self.most)


@dataclass(slots=True)
class _Taking:
    """Lines that were taken, in the order in which they were: (part, line). ``forms``: those that the parts take.

    ``told``: lines whose words stand in others.
    """

    forms: list[Lines]
    left: int
    taken: list[tuple[int, int]] = field(default_factory=list)
    told: set[tuple[int, int]] = field(default_factory=set)


def fitted(parts: Sequence[Part], room: int, frame: Callable[[str], str]) -> str:
    """The lines for ``room`` tokens, frame and all; where none fits, the one line that counts them.

    What claimed last gives way first: the newest lines of a kind are its first to be taken.
    """
    every = [(n, i) for n, part in enumerate(parts) for i in range(part.first, len(part.forms[0]))]
    taking = _Taking([part.forms[0] for part in parts], 0, every)
    if _size(frame(_written(parts, taking))) <= room:
        _drop_told(parts, taking)
        return _written(parts, taking)
    besides = _size(frame(_left_out(parts, _Taking([], 0))))
    taking = _claimed(parts, room - besides)
    for _ in range(_ROUNDS):
        _share(parts, taking)
        _drop_told(parts, taking)
        taking.left = room - _size(frame(_written(parts, taking)))  # lines were reckoned too high
    while _size(frame(text := _written(parts, taking))) > room and taking.taken:
        taking.taken.pop()
        taking.told.clear()  # what has their words may be gone
    return text


def _size(text: str) -> int:
    """Tokens by the estimate of the host, or by ours where that is more."""
    return max(tokens.count(text), tokens.rough([{"content": text}]))


def line_tokens(text: str) -> int:
    """Tokens of a line with its end."""
    return max(tokens.count(text), (len(text) + 3) // 4) + 1


def _claimed(parts: Sequence[Part], room: int) -> _Taking:
    """Lines of the kinds that claim room: all if they fit the share, else shorter, else the newest that fit.

    Where nothing is sure to a kind, its first line that does not fit ends it: the older ones have no better right.
    """
    out = _Taking([part.forms[0] for part in parts], room)
    claims = sorted((n for n, part in enumerate(parts) if part.claim), key=lambda n: parts[n].claim)
    for at, n in enumerate(claims):
        part = parts[n]
        others = sum(min(int(room * parts[later].sure), _need(parts[later])) for later in claims[at + 1 :])
        most = min(out.left, max(min(out.left - others, int(room * part.share)), _LEAST_CLAIM))
        out.forms[n] = next((form for form in part.forms if sum(_costs(form[part.first :])) <= most), part.forms[-1])
        costs = _costs(out.forms[n])
        for i in reversed(range(part.first, len(costs))):
            if costs[i] <= most and _take(parts, out, n, i, costs[i]):
                most -= costs[i]
            elif not part.sure:
                break
    return out


def _need(part: Part) -> int:
    """Tokens of all lines of a kind, with their head."""
    costs = _costs(part.forms[0][part.first :])
    return sum(costs) + line_tokens(part.head) if costs else 0


def _take(parts: Sequence[Part], out: _Taking, n: int, i: int, cost: int) -> bool:
    """Take a line, with its head if that does not stand yet; False where there is no room."""
    head = parts[n].head
    if all(parts[each].head != head for each, _ in out.taken):
        cost += line_tokens(head)
    if cost > out.left:
        return False
    out.left -= cost
    out.taken.append((n, i))
    return True


def _share(parts: Sequence[Part], out: _Taking) -> None:
    """Share what is left by weight, newest lines first, until the next one of each kind does not fit."""
    have = out.told.union(out.taken)
    waiting = [[i for i in range(part.first, len(part.forms[0])) if (n, i) not in have] for n, part in enumerate(parts)]
    costs, used = [_costs(form) for form in out.forms], [0.0] * len(parts)
    while open_ := [n for n, lines in enumerate(waiting) if lines and parts[n].weight]:
        n = min(open_, key=used.__getitem__)
        cost = costs[n][i := waiting[n].pop()]
        if _take(parts, out, n, i, cost):
            used[n] += cost / parts[n].weight
        else:
            waiting[n].clear()


def _drop_told(parts: Sequence[Part], out: _Taking) -> None:
    """Take back the lines that only quote what another line says."""
    texts = {(n, i): out.forms[n][i].text for n, i in out.taken}
    for key in [(n, i) for n, i in out.taken if parts[n].quotes]:
        others = "\n".join(text for each, text in texts.items() if each != key)
        words = [each.rstrip("…") for each in _QUOTED.findall(texts[key])]
        if words and all(each in others for each in words):
            out.told.add(key)
            out.taken.remove(key)
            out.left += line_tokens(texts.pop(key))


def _costs(lines: Lines) -> list[int]:
    return [line_tokens(line) for line in _days_once([entry.text for entry in lines])]


def _written(parts: Sequence[Part], taking: _Taking) -> str:
    """The lines under their heads, in the order of the parts, and the line that counts the others."""
    out: dict[str, list[str]] = {}
    for n, part in enumerate(parts):
        shown = [taking.forms[n][i].text for i in sorted(i for each, i in taking.taken if each == n)]
        if shown:
            out.setdefault(part.head, []).extend(_days_once(shown))
    lines = [line for head, under in out.items() for line in [head, *under]]
    return "\n".join([*lines, *([more] if (more := _left_out(parts, taking)) else [])])


def _left_out(parts: Sequence[Part], taking: _Taking) -> str:
    """The line that counts what is not shown, with the calls that show it; "" where nothing is left out."""
    have = taking.told.union(taking.taken)
    calls: dict[str, list[str]] = {}
    ids: list[int] = []
    total = 0
    for n, part in enumerate(parts):
        gone = [entry.store_id for i, entry in enumerate(part.forms[0]) if (n, i) not in have]
        if gone:
            total += len(gone)
            calls.setdefault(part.view, []).append(f"{len(gone):,} {part.kind}")
            ids += gone if not part.view else []
    if ids:
        calls[f"lcm_expand(store_id=msg_{min(ids)}..msg_{max(ids)})"] = calls.pop("")
    said = "; ".join(f"{', '.join(kinds)}: {call}" for call, kinds in calls.items())
    return f"And {total:,} more without room here: {said}" if total else ""


def _days_once(lines: Sequence[str]) -> list[str]:
    """Lines without the day where the one above them names it."""
    days = [found[1] if (found := _OF_DAY.search(line)) else "" for line in lines]
    again = [bool(day) and day == above for day, above in zip(days, ["", *days], strict=False)]
    return [line.replace(day, "]", 1) if twice else line for line, day, twice in zip(lines, days, again, strict=True)]
