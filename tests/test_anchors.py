"""Finding many literals at once finds what looking for one after the other finds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lcm.text.anchors import Anchors
from hermes_lcm.text.redact import RULES

ANCHORS = sorted({anchor for rule in RULES for anchor in rule.anchors})
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
