"""The comparison that the tests of the real host rest on notices every kind of difference."""

from __future__ import annotations

from typing import Any

import pytest

from host.drive import compare

SAID: list[dict[str, Any]] = [
    {"role": "user", "content": "yes"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]},
    {"role": "tool", "content": "42", "tool_call_id": "a"},
    {"role": "user", "content": "yes"},
    {"role": "assistant", "content": "done"},
]


def test_no_difference() -> None:
    """Equal messages are counted, outer blanks do not matter."""
    assert not compare(SAID, [*SAID[:3], {"role": "user", "content": " yes\n"}, SAID[4]])


@pytest.mark.parametrize(
    ("stored", "what"),
    [
        (SAID[1:], "1 lost"),
        ([*SAID, SAID[2]], "1 duplicated"),
        ([*SAID, {"role": "user", "content": "Review"}], "1 foreign"),
        ([SAID[0], SAID[2], SAID[1], *SAID[3:]], "1 out of order"),
        ([SAID[0], {**SAID[1], "tool_calls": [{"id": "b"}]}, *SAID[2:]], "1 lost"),
    ],
    ids=["lost", "duplicated", "foreign", "disordered", "other-call"],
)
def test_every_difference(stored: list[dict[str, Any]], what: str) -> None:
    """Each kind is found and named."""
    difference = compare(SAID, stored)

    assert difference
    assert what in str(difference)
