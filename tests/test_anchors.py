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


@pytest.mark.parametrize("padding", [0, 3000], ids=["dense", "sparse"])
@given(st.lists(pieces, max_size=30))
def test_every_place_is_found(padding: int, parts: list[str]) -> None:
    """In dense texts, where they are looked for one by one, and in sparse ones, where signs and capitals are."""
    text = "".join(parts) + "." * padding
    found: dict[str, set[int]] = {}
    for at, anchor, goal in Anchors([(anchor, anchor) for anchor in ANCHORS]).places(text):
        assert anchor == goal
        found.setdefault(anchor, set()).add(at)

    assert found == {anchor: set(places) for anchor in ANCHORS if (places := naive(text, anchor))}
