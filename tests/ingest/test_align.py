"""Which messages of a live list are which rows: pure alignment, by Hypothesis (P1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lcm.ingest.align import Core, Expected, Live, Plan, align

#: So few that hardly any message is unique.
WORDS = ["yes", "ok", "go on"]


@dataclass(frozen=True)
class Line:
    """One message: its role alternates unless said otherwise."""

    role: str
    text: str


def lines(texts: Sequence[str]) -> list[Line]:
    return [Line("assistant" if n % 2 else "user", text) for n, text in enumerate(texts)]


def digest(line: Line) -> bytes:
    return f"{line.role}:{line.text}".encode()


def aligned(live: Sequence[Line], stored: Sequence[Line]) -> Plan:
    """The plan for a live list against rows 1, 2, 3 ... at positions 1.0, 2.0, 3.0 ..."""
    expected = [Expected(n, float(n), line.role, digest(line)) for n, line in enumerate(stored, 1)]
    shown = [Live(line.role, digest(line), None, lambda line=line: Core(line.text)) for line in live]  # type: ignore[misc]

    def said(ids: Sequence[int]) -> Mapping[int, Core]:
        return {store_id: Core(stored[store_id - 1].text) for store_id in ids}

    return align(shown, expected, said)


def used(plan: Plan) -> list[int]:
    """The rows that the plan names, in the order of the list."""
    return [i for place in plan.places for i in (*place.ids, *((place.revises,) if place.revises else ()))]


def new_texts(plan: Plan, live: Sequence[Line]) -> list[str]:
    """What would be stored."""
    return [place.rest or line.text for place, line in zip(plan.places, live, strict=True) if place.new]


def positions(plan: Plan) -> list[float]:
    """Where every message stands, one after the other; what goes to the end stands behind everything."""
    out: list[float] = []
    for place in plan.places:
        out.extend(float(store_id) for store_id in place.ids)
        if place.new:
            out.append(place.pos if place.pos is not None else 1e9 + len(out))
    return out


@st.composite
def edited(draw: st.DrawFn) -> tuple[list[Line], list[Line]]:
    """A stored list, and what a host may have made of it."""
    stored = lines(draw(st.lists(st.sampled_from([*WORDS, "a", "b", "c", "d"]), max_size=25)))
    live = list(stored)
    for n in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(live)))
        match draw(st.sampled_from(["edit", "inject", "drop", "merge", "undo", "append"])):
            case "edit" if at < len(live):
                live[at] = Line(live[at].role, f"edited {n}")
            case "inject":
                live.insert(at, Line("user", f"injected {n}"))
            case "drop":
                del live[at : at + 1]
            case "merge":
                live = joined(live)
            case "undo":
                live = [*live[:at], Line("user", f"another way {n}")]
            case _:
                live.append(Line("user", draw(st.sampled_from(WORDS))))
    return stored, live


def joined(messages: Sequence[Line]) -> list[Line]:
    """Neighbours of one role as one, as the host joins them."""
    out: list[Line] = []
    for line in messages:
        if out and out[-1].role == line.role:
            glue = "\n\n" if line.role == "user" else "\n"
            out[-1] = Line(line.role, f"{out[-1].text}{glue}{line.text}")
        else:
            out.append(line)
    return out


# -- whatever the host did -------------------------------------------------------------------------------------


@given(edited())
def test_every_message_has_a_place(lists: tuple[list[Line], list[Line]]) -> None:
    """One place per live message: a row, several rows, or something to store."""
    stored, live = lists

    plan = aligned(live, stored)

    assert len(plan.places) == len(live)
    assert all(place.ids or place.new for place in plan.places)


@given(edited())
def test_no_row_is_used_twice(lists: tuple[list[Line], list[Line]]) -> None:
    """A row is shown by one message, or replaced by one, or taken back, or left over: never two of these."""
    stored, live = lists

    plan = aligned(live, stored)

    all_of_them = [*used(plan), *plan.retracted, *(item.store_id for item in plan.leftover)]
    assert max(Counter(all_of_them).values(), default=1) == 1


@given(edited())
def test_rows_keep_their_order(lists: tuple[list[Line], list[Line]]) -> None:
    """Nothing that is shown later stands earlier in the store."""
    stored, live = lists

    plan = aligned(live, stored)

    assert used(plan) == sorted(used(plan))


@given(edited())
def test_positions_lie_strictly_between_their_neighbours(lists: tuple[list[Line], list[Line]]) -> None:
    """Read back in the order of positions, the list is as it was shown."""
    stored, live = lists

    where = positions(aligned(live, stored))

    assert all(one < other for one, other in pairwise(where))


def test_hundreds_of_rows_have_room_in_front_of_one() -> None:
    """A stretch that a repair lost and the host shows again. Halves of what is left of the room are none after 53 rows."""
    known = lines(["known", "too"])

    where = positions(aligned([*lines([f"lost {n}" for n in range(400)]), *known], known))

    assert all(one < other for one, other in pairwise([0.0, *where]))


@given(edited())
def test_an_inserted_row_does_not_pass_a_row_that_is_left_out(lists: tuple[list[Line], list[Line]]) -> None:
    """No inserted row takes the very position of a stored one, unless it replaces that."""
    stored, live = lists

    plan = aligned(live, stored)

    inserted = [place.pos for place in plan.places if place.pos is not None and place.revises is None]
    assert not set(inserted) & {float(n) for n in range(len(stored) + 1)}


@given(edited())
def test_a_row_is_shown_by_what_it_says(lists: tuple[list[Line], list[Line]]) -> None:
    """What a place names says what the live message says."""
    stored, live = lists

    plan = aligned(live, stored)

    for place, line in zip(plan.places, live, strict=True):
        if place.ids:
            glue = "\n\n" if line.role == "user" else "\n"
            parts = [*(stored[n - 1].text for n in place.ids), *([place.rest] if place.rest else [])]
            assert glue.join(parts) == line.text


@given(st.lists(st.sampled_from(WORDS), max_size=40), st.lists(st.sampled_from(WORDS), max_size=5))
def test_a_list_that_grows_by_equal_words_is_new_at_its_end(old: list[str], more: list[str]) -> None:
    """The known messages are the rows, one by one; only what follows them is new."""
    live = lines([*old, *more])

    plan = aligned(live, live[: len(old)])

    assert used(plan) == list(range(1, len(old) + 1))
    assert [place.pos for place in plan.places if place.new] == [None] * len(more)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=60), st.data())
def test_one_edit_is_one_new_row(old: list[str], data: st.DataObject) -> None:
    """However often a list repeats itself."""
    stored = lines(old)
    at = data.draw(st.integers(0, len(stored) - 1))
    live = [*stored[:at], Line(stored[at].role, "edited"), *stored[at + 1 :]]

    assert new_texts(aligned(live, stored), live) == ["edited"]


@given(st.lists(st.sampled_from(WORDS), max_size=60), st.data())
def test_one_injection_is_one_new_row(old: list[str], data: st.DataObject) -> None:
    """However often a list repeats itself."""
    stored = lines(old)
    at = data.draw(st.integers(0, len(stored)))
    live = [*stored[:at], Line("user", "injected"), *stored[at:]]

    assert new_texts(aligned(live, stored), live) == ["injected"]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=60), st.data())
def test_one_drop_is_nothing_new(old: list[str], data: st.DataObject) -> None:
    """However often a list repeats itself."""
    stored = lines(old)
    at = data.draw(st.integers(0, len(stored) - 1))
    live = [*stored[:at], *stored[at + 1 :]]

    assert new_texts(aligned(live, stored), live) == []


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.sampled_from(WORDS)), max_size=30))
def test_a_merge_is_nothing_new(said: list[tuple[str, str]]) -> None:
    """Neighbours of any number and any words, joined in place, are the rows they were."""
    stored = [Line(*item) for item in said]
    live = joined(stored)

    assert new_texts(aligned(live, stored), live) == []


@given(st.lists(st.text("abcdefgh", min_size=3), min_size=4, max_size=30, unique=True), st.data())
def test_a_merge_after_a_drop_is_nothing_new(said: list[str], data: st.DataObject) -> None:
    """The host drops a row, and what stood around it becomes one message."""
    stored = lines(said)
    at = data.draw(st.integers(1, len(stored) - 2))
    live = joined([*stored[:at], *stored[at + 1 :]])

    assert new_texts(aligned(live, stored), live) == []


@given(st.integers(1, 20), st.data())
def test_what_is_undone_is_taken_back(size: int, data: st.DataObject) -> None:
    """Whatever follows the place where the user went another way, and nothing before it."""
    stored = lines([f"said {n}" for n in range(size)])
    at = data.draw(st.integers(0, size - 1))

    plan = aligned([*stored[:at], Line("user", "another way")], stored)

    assert plan.retracted == tuple(range(at + 1, size + 1))


@given(st.integers(0, 20), st.data())
def test_a_shorter_list_takes_nothing_back(size: int, data: st.DataObject) -> None:
    """An old state of the list leaves rows over, for whoever shows them later."""
    stored = lines([f"said {n}" for n in range(size)])
    at = data.draw(st.integers(0, size))

    plan = aligned(stored[:at], stored)

    assert (plan.retracted, [item.store_id for item in plan.leftover]) == ((), list(range(at + 1, size + 1)))


# -- one example each -------------------------------------------------------------------------------------------


def test_a_foreign_list_is_not_aligned() -> None:
    """Nothing in common, from the first message on."""
    assert aligned(lines(["x", "y", "z"]), lines(["a", "b"])).unaligned


def test_an_edited_list_is_aligned() -> None:
    """One message in common is enough."""
    assert not aligned(lines(["x", "b"]), lines(["a", "b"])).unaligned


def test_new_words_behind_a_joined_row_stand_behind_it() -> None:
    """A merge with something new in the middle: the new part stands in front of the next row."""
    stored = lines(["one", "two", "three", "four"])
    live = [stored[0], stored[1], Line("user", "three\n\nand more"), stored[3], Line("user", "five")]

    plan = aligned(live, stored)

    assert (plan.places[2].ids, plan.places[2].rest, plan.places[2].pos) == ((3,), "and more", 3.5)


def test_a_message_that_quotes_a_row_is_new() -> None:
    """Words that merely begin as a row begins are no joined rows."""
    stored = lines(["go", "ok", "yes", "fine"])
    live = [*stored[:2], Line("user", "yesterday\n\nit rained"), stored[3]]

    assert new_texts(aligned(live, stored), live) == ["yesterday\n\nit rained"]


# -- long lists ---------------------------------------------------------------------------------------------------


class Counted(bytes):
    """A digest that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return bytes.__eq__(self, other)  # type: ignore[arg-type]

    def __hash__(self) -> int:
        return bytes.__hash__(self)


@pytest.mark.parametrize("at", [0, 2500, 4999], ids="at={}".format)
@pytest.mark.parametrize("equal", [False, True], ids=["all different", "all equal"])
def test_one_change_of_a_long_list_costs_its_length(at: int, equal: bool) -> None:
    """5000 rows, one of them edited, two new ones: a few comparisons per row, and what each row says is not asked for."""
    said = [Counted(b"same" if equal else b"%d" % n) for n in range(5000)]
    asked: list[int] = []

    def texts(ids: Sequence[int]) -> Mapping[int, Core]:
        asked.extend(ids)
        return dict.fromkeys(ids, Core("old"))

    live = [Live("user", Counted(item), None, lambda: Core("new")) for item in said]
    live[at] = Live("user", Counted(b"edited"), None, lambda: Core("new"))
    live += [Live("user", Counted(b"new %d" % n), None, lambda: Core("new")) for n in range(2)]
    Counted.compared = 0

    plan = align(live, [Expected(n, float(n), "user", item) for n, item in enumerate(said, 1)], texts)

    assert sum(place.new for place in plan.places) == 3
    assert Counted.compared < 12 * len(live)
    assert len(asked) < 10


def test_a_long_list_that_is_altogether_another_is_given_up_early() -> None:
    """Two shuffles of a thousand words: no more comparisons than the limit allows, and what is unique is found."""
    here = [f"w{n * 7 % 1000}" for n in range(3000)]
    there = [f"w{n * 11 % 1000}" for n in range(3000)]
    stored = [Line("user", text) for text in [*there, "unique"]]
    live = [Line("user", text) for text in [*here, "unique", "new"]]

    plan = aligned(live, stored)

    assert plan.places[len(here)].ids == (len(stored),)
    assert used(plan) == sorted(used(plan))
