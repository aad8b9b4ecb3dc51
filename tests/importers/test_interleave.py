"""Two records of one conversation as one: nothing is lost, nothing doubled, whatever people repeat (P1)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import accumulate, pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lcm.importers.interleave import Mark, interleave


def woven(here: Sequence[Mark], there: Sequence[Mark], listed: Sequence[int] | None = ()) -> list[Mark]:
    """The rows of both in their order."""
    found = interleave(here, there, {0: listed})
    new: dict[int, list[Mark]] = {}
    for n, behind in found.behind.items():
        new.setdefault(behind, []).append(there[n])
    assert len(found.same) + len(found.behind) == len(there)
    out = new.get(0, [])
    for n, row in enumerate(here):
        out = [*out, row, *new.get(n + 1, [])]
    return out


def said(rows: Sequence[Mark]) -> list[bytes]:
    return [row.digest for row in rows]


def marks(words: str, at: float, *, each: float = 1.0) -> list[Mark]:
    """One row for each word. ``each``: seconds between two; 0: stored from a list that was shown again."""
    return [Mark(word.encode(), at + n * each, not each) for n, word in enumerate(words.split())]


def test_words_that_were_said_again_are_said_again() -> None:
    """Nothing speaks for one message but that the words are equal."""
    first, then = marks("hello done yes done", 1), marks("go done yes done bye", 11)

    assert said(woven(first, then)) == said([*first, *then])
    assert said(woven(then, first)) == said([*first, *then])


def test_a_list_that_was_shown_again_is_not_stored_again() -> None:
    """The stand-in begins with the end of what was stored before, all of it in one go."""
    first, then = marks("a b done c done", 1), [*marks("c done d", 11, each=0), *marks("done e", 12)]
    whole = b"a b done c done d done e".split()

    assert said(woven(first, then)) == whole
    assert said(woven(then, first)) == whole


def test_rows_that_were_copied_are_the_same_rows() -> None:
    """Also in the middle, and the second time."""
    here = marks("a done b done", 1)
    there = [*here[:2], *marks("x done", 2.5, each=0.1), *here[2:]]
    once = woven(here, there)

    assert said(once) == b"a done x done b done".split()
    assert woven(once, there) == once


@pytest.mark.parametrize("again_at", [9.0, -86_000.0], ids=["later", "by a clock that is a day behind"])
def test_a_row_that_a_copy_lacked_and_that_was_put_again_is_the_same_row(again_at: float) -> None:
    """One page of the file could not be read; the list shows what was on it. Whichever of the two was copied."""
    first = marks("a done b done c", 1)
    copy = [*first[:2], Mark(b"b", again_at), *first[3:], *marks("d", 10)]

    assert said(woven(first, copy)) == said(copy)
    assert said(woven(copy, first)) == said(copy)


def test_a_message_that_a_new_process_shows_alone_is_the_one_that_was_said() -> None:
    """The file that it came to lacked but this one: a list of before shows it, so nobody said it twice."""
    first = marks("a done", 1)
    lost, kept = [*first, *marks("ok", 3)], [*first, *marks("ok", 9, each=0), *marks("done", 10)]

    assert said(woven(kept, lost, range(4))) == b"a done ok done".split()
    assert said(woven(lost, kept, range(3))) == b"a done ok done".split()


def test_rows_that_a_merge_found_to_be_one_are_one_in_every_later_merge() -> None:
    """Each of them is known by both times at which it was stored."""
    first = marks("ok done ok", 1)
    there = [row._replace(at=9.0, also=(row.at,)) for row in first[1:]]

    assert said(woven(first, there, None)) == said(first)
    assert said(woven(there, first, None)) == said(first)


@pytest.mark.parametrize("undone", ["a b", "c", "b c", "a b c"])
def test_what_was_taken_back_in_one_record_is_no_new_row_of_another_list(undone: str) -> None:
    """It lies at the beginning, in the middle or at the end, and is said anew or not; equal words go to what is shown."""
    gone = undone.encode().split()
    first = marks("a b c", 1)
    later = [row._replace(at=9.0, shown=True, gone=row.digest in gone) for row in first]
    shown = [n for n, row in enumerate([*later, *marks("x", 10)]) if not row.gone]

    found = interleave([*later, *marks("x", 10)], first, {0: shown})
    assert found.same == {0: 0, 1: 1, 2: 2}
    found = interleave(first, [*later, *marks("x", 10)], {0: range(3)})
    assert found.same == {0: 0, 1: 1, 2: 2}


def test_words_that_were_taken_back_and_said_again_are_those_that_are_shown() -> None:
    """Of two rows that say the same the one that goes on as the other record does."""
    first = marks("a yes b", 1)
    later = [*marks("a", 9, each=0), *(row._replace(gone=True) for row in marks("yes no", 9, each=0))]
    later += marks("yes b", 9, each=0)

    assert interleave(later, first, {0: [0, 3, 4]}).same == {0: 0, 1: 3, 2: 4}


def test_a_long_record_with_much_that_was_taken_back_is_merged_in_a_moment() -> None:
    """The same words all over, so that each row could be any other one."""
    first = [row._replace(gone=n % 7 == 3) for n, row in enumerate(marks("ok " * 3000, 1))]
    later = [row._replace(gone=n % 5 == 3) for n, row in enumerate(marks("ok " * 3000, 9999, each=0))]
    began = time.monotonic()
    interleave(first, later, {0: [n for n, row in enumerate(first) if not row.gone]})

    assert time.monotonic() - began < 5


def test_equal_words_between_two_copies_are_two_where_both_were_said_in_turn() -> None:
    """Two agents at one conversation: neither of the rows was put between older ones."""
    first = marks("a done b", 1)
    other = [first[0], Mark(b"done", 2.5), first[2]]

    assert said(woven(first, other)) == b"a done done b".split()


def test_a_record_of_two_outages_goes_around_what_was_said_between_them() -> None:
    here = [*marks("a b", 1), *marks("e f", 5)]
    there = [*marks("c d", 3), *marks("g h", 7)]

    assert said(woven(here, there)) == b"a b c d e f g h".split()


def test_a_clock_that_was_wrong_for_a_while_loses_nothing() -> None:
    here = [*marks("a b", 1), *marks("c d", 90_000), *marks("e f g", 5)]
    there = marks("h i", 8)

    assert said(woven(here, there)) == b"a b c d e f g h i".split()


@pytest.mark.parametrize("wrong_by", [-86_400.0, -60.0, 60.0, 86_400.0])
def test_a_stand_in_with_a_wrong_clock_begins_where_its_list_says(wrong_by: float) -> None:
    """The prompt in front of it tells where that is: what follows is known, whatever the time."""
    first = marks("a done b done c", 1)
    other = [*marks("b done c yes", 9 + wrong_by, each=0), *marks("d done", 10 + wrong_by)]

    assert said(woven(first, other, range(2, 5))) == b"a done b done c yes d done".split()


def test_the_same_words_at_the_same_place_are_two_where_both_were_said_alone() -> None:
    """Two agents at one conversation go on from the same list: none of them showed the other's words."""
    first = marks("a b ok", 1)
    other = [*marks("a b", 9, each=0), *marks("ok done", 10)]

    assert said(woven(first, other, range(3))) == b"a b ok ok done".split()


@pytest.mark.parametrize("rest", ["yes done", "x y", "done"])
def test_what_a_list_that_went_on_does_not_show_any_more_is_gone(rest: str) -> None:
    """An undo in front of the stand-in. What was said to the conversation since is not gone."""
    first = [*marks(f"a b {rest}", 1), *marks("later", 20)]
    other = [*marks("a b new", 9, each=0), *marks("done", 10)]
    found = interleave(first, other, {0: range(len(first))})

    assert found.gone == list(range(2, 2 + len(rest.split())))
    assert interleave(first, other[:2], {0: range(len(first))}).gone == []
    copied = [first[0], *marks("b new", 9, each=0), *marks("done", 10)]  # but for the second row
    assert interleave(first, copied, {0: range(len(first))}).gone == list(range(2, 2 + len(rest.split())))


@given(data=st.data())
def test_parts_with_known_beginnings_are_one_conversation_whatever_is_repeated_and_whatever_the_clocks_say(
    data: st.DataObject,
) -> None:
    """Each part begins with a list: any end of what was said before, and something new."""
    words = data.draw(st.lists(st.sampled_from([b"yes", b"done", b"go"]), min_size=3, max_size=40))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(words) - 1), min_size=1, max_size=4)))
    out: list[Mark] = []
    for start, end in pairwise([0, *cuts, len(words)]):
        first = data.draw(st.integers(0, max(0, start - 2)))
        clock = data.draw(st.floats(-86_400, 86_400))
        part = [Mark(words[n], clock + max(n, start), n <= start) for n in range(first, end)]
        out = woven(out, part, range(first, len(out)))

    assert said(out) == words


def test_a_clock_that_jumps_while_rows_were_copied_doubles_none_of_them() -> None:
    """What both have is one row, though only one of the two knows by what comes behind it that its clock was wrong."""
    there = [*marks("a b", 1), *marks("c d", 90_000)]
    here = [*there, *marks("e f", 5)]

    assert woven(here, there) == here
    assert woven(there, here) == here


def test_three_stand_ins_are_merged_in_any_order() -> None:
    """The last one shows the end of the one before, which comes later."""
    parts = [
        marks("a b c", 1),
        [*marks("b c d", 4, each=0), *marks("e f", 5)],
        [*marks("e f g", 7, each=0), *marks("h", 8)],
    ]
    for order in permutations(parts):
        out: list[Mark] = []
        for part in order:
            out = woven(out, part)
        assert said(out) == b"a b c d e f g h".split()


def parts(sizes: Sequence[int], words: Sequence[bytes], overlap: int) -> list[list[Mark]]:
    """A conversation in parts. Each begins with a list that shows some of what was said before, of which nobody knows where."""
    out = []
    for start, end in pairwise(accumulate(sizes, initial=0)):
        first = max(0, start - overlap) if start else 0
        out.append([Mark(words[n], float(max(n, start)), n <= start) for n in range(first, end)])
    return out


SIZES = st.lists(st.integers(3, 15), min_size=2, max_size=5)


@given(sizes=SIZES, overlap=st.integers(2, 9), data=st.data())
def test_parts_in_any_order_lose_nothing(sizes: list[int], overlap: int, data: st.DataObject) -> None:
    """What is said once only tells where a part belongs. A single row proves nothing, so it may be there twice."""
    words = [b"%d" % n for n in range(sum(sizes))]
    out: list[Mark] = []
    for part in data.draw(st.permutations(parts(sizes, words, overlap))):
        out = woven(out, part, None)

    assert list(dict.fromkeys(said(out))) == words
    assert len(out) < len(words) + len(sizes)


@given(sizes=SIZES, overlap=st.integers(2, 9), data=st.data())
def test_words_that_are_said_again_and_again_prove_nothing(sizes: list[int], overlap: int, data: st.DataObject) -> None:
    """In whatever order parts are merged, no row is taken for another one that says the same; such lists are named."""
    out: list[Mark] = []
    all_ = [part for part in parts(sizes, [b"yes", b"done"] * sum(sizes), overlap) if len(part) > 3]
    for part in data.draw(st.permutations(all_)):
        doubtful = interleave(out, part, {0: None}).doubtful
        assert doubtful == [n for n, row in enumerate(part) if row.at == part[0].at]
        out = woven(out, part, None)

    assert len(out) == sum(map(len, all_))
