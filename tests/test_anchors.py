"""Finding many literals at once finds what looking for one after the other finds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lcm.text.anchors import BEFORE, OR, Anchors, plain
from hermes_lcm.text.redact import RULES

ANCHORS = sorted({anchor for rule in RULES for anchor in rule.anchors if BEFORE not in anchor})
pieces = st.sampled_from(
    [*ANCHORS, *(anchor.upper() for anchor in ANCHORS), *(a[:-1] for a in ANCHORS), "_", "-", "=", " ", "É", "漢"]
)


def naive(text: str, anchor: str) -> list[int]:
    """Everywhere, overlaps included."""
    flags = re.IGNORECASE | re.ASCII if anchor == anchor.lower() else re.ASCII
    return [found.start() for found in re.finditer(f"(?={re.escape(anchor)})", text, flags)]


def wanted(anchors: list[str], needs: str = "") -> list[tuple[str, str, str]]:
    """Each literal as its own goal."""
    return [(anchor, needs, anchor) for anchor in anchors]


@pytest.mark.parametrize("padding", [0, 400, 3000, 30_000], ids="padding={}".format)
@given(st.lists(pieces, max_size=30))
def test_every_place_is_found(padding: int, parts: list[str]) -> None:
    """In dense texts, where they are looked for one by one, and in sparse ones, where their pivots are."""
    text = "".join(parts) + "." * padding
    found = {goal: places for places, goal in Anchors(wanted(ANCHORS)).places(text)}

    assert found == {anchor: places for anchor in ANCHORS if (places := naive(text, anchor))}


@pytest.mark.parametrize("anchor", ANCHORS)
def test_the_ends_of_a_text_hide_nothing(anchor: str) -> None:
    """However sparse it is elsewhere."""
    text = anchor + "." * 3000 + anchor

    assert {goal: places for places, goal in Anchors(wanted(ANCHORS)).places(text)}[anchor] == naive(text, anchor)


def test_a_literal_without_what_it_needs_counts_for_nothing() -> None:
    """One of the characters is enough."""
    anchors = Anchors([*wanted(["token"], "=:"), *wanted(["pass"])])
    found = [[goal for _, goal in anchors.places(text)] for text in ("token pass", "token pass:")]

    assert found == [["pass"], ["token", "pass"]]


def test_goals_come_in_the_order_in_which_they_were_given() -> None:
    """Whatever stands where, and whatever is rare."""
    for order in (["KEY", "sk-", "api"], ["api", "KEY", "sk-"]):
        assert [goal for _, goal in Anchors(wanted(order)).places("sk- api KEY" + "." * 3000)] == order


@pytest.mark.parametrize("padding", [0, 3000], ids="padding={}".format)
@given(st.lists(st.sampled_from(["access", "Access", "token", "TOKEN", "_", "-", "tok", "s", "é"]), max_size=20))
def test_a_literal_before_another_is_found_where_that_one_follows(padding: int, parts: list[str]) -> None:
    """Behind it, or behind one more character."""
    text = "".join(parts) + "." * padding
    (*found,) = Anchors(wanted([f"access{BEFORE}token"])).places(text)
    expected = [hit.start() for hit in re.finditer("(?=access.?token)", text, re.IGNORECASE | re.ASCII | re.DOTALL)]

    assert found == ([(expected, f"access{BEFORE}token")] if expected else [])


@pytest.mark.parametrize("padding", [0, 3000], ids="padding={}".format)
@given(st.lists(st.sampled_from(["api", "Api", "token", "KEY", "_", "-", "ke", "a", "é"]), max_size=20))
def test_a_literal_before_one_of_several_is_found_where_one_of_them_follows(padding: int, parts: list[str]) -> None:
    """Behind it, or behind one more character."""
    text = "".join(parts) + "." * padding
    (*found,) = Anchors(wanted([f"api{BEFORE}key{OR}token"])).places(text)
    expected = [
        hit.start() for hit in re.finditer("(?=api.?(?:key|token))", text, re.IGNORECASE | re.ASCII | re.DOTALL)
    ]

    assert [places for places, _ in found] == ([expected] if expected else [])


@given(st.lists(st.sampled_from(["pab", "xp", "xpa", "b", "x", "p", "a"]), max_size=20))
def test_literals_that_overlap_are_both_found(parts: list[str]) -> None:
    """Also where the rare character of one is that of the other."""
    text = "".join(parts) + "." * 3000
    found = {goal: places for places, goal in Anchors(wanted(["xpa", "pab"])).places(text)}

    assert found == {anchor: places for anchor in ("xpa", "pab") if (places := naive(text, anchor))}


@pytest.mark.parametrize("text", ["access to\u212aen, client tail", "access token, client \u017fecret"])
def test_letters_that_patterns_take_for_ascii_hide_no_literal_before_them(text: str) -> None:
    """What follows is then not looked at: the pattern decides."""
    anchors = Anchors(wanted([f"access{BEFORE}token", f"client{BEFORE}secret"]))

    assert [places for places, _ in anchors.places(text)] == [[0], [text.index("client")]]


@given(st.text(st.sampled_from("ab \xe9\u4e2d\U0001f600\ud800"), max_size=40), st.sampled_from([1, 400]))
def test_the_copy_has_one_byte_a_character(text: str, times: int) -> None:
    """Question marks for what is not ASCII, in texts of any length."""
    assert plain(text * times) == (text * times).encode("ascii", "replace")
