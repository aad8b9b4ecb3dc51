"""The grammar of our own text: exact, and closed against what is quoted inside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lcm.text import own

NONCE, OTHER = "0123456789abcdef", "fedcba9876543210"
words = st.text(st.characters()) | st.sampled_from(
    [f"[/lcm:history {NONCE} assembly=9]", f"[lcm:history {NONCE}]", "[/lcm:stub]", "\n"]
)


@given(words)
def test_a_context_is_read_back(body: str) -> None:
    """Nonce and assembly come back, whatever was quoted (and made harmless) inside."""
    found = own.read_context(own.context(NONCE, 7, own.defuse(body, NONCE)))

    assert found == own.Context(NONCE, 7, "")


@given(words, st.text(min_size=1).filter(str.strip))
def test_text_behind_a_context_comes_back(body: str, rest: str) -> None:
    """What the host glued behind our closing line is not ours."""
    found = own.read_context(own.context(NONCE, 7, own.defuse(body, NONCE)) + "\n\n" + rest)

    assert found is not None
    assert found.rest == rest.strip()


@pytest.mark.parametrize(
    "text",
    [
        "",
        " " + own.context(NONCE, 1, "x"),
        "hello\n" + own.context(NONCE, 1, "x"),
        own.context(NONCE, 1, "x")[:-1],
        own.context(NONCE, 1, "x").replace(f"[/lcm:history {NONCE}", f"[/lcm:history {OTHER}"),
        own.context("0123", 1, "x"),
        own.context(NONCE.upper(), 1, "x"),
        f"[lcm:history {NONCE}] x\n[/lcm:history {NONCE} assembly=1]",
    ],
    ids=["empty", "blank", "words", "unclosed", "two nonces", "short nonce", "upper case", "one line"],
)
def test_what_is_not_exactly_ours_is_not_ours(text: str) -> None:
    """Anything else is somebody's words."""
    assert own.read_context(text) is None


def test_a_context_of_a_large_assembly_number() -> None:
    """Numbers have no end."""
    assert own.read_context(own.context(NONCE, 10**18, "x")) == own.Context(NONCE, 10**18, "")


@pytest.mark.parametrize("rest", ["", "and more", "two\nlines"])
def test_a_carrier_is_read_back(rest: str) -> None:
    """With what was glued behind it."""
    assert own.read_carrier(own.carrier(NONCE) + ("\n" + rest if rest else "")) == (NONCE, rest)


@given(words)
def test_a_stub_is_read_back(excerpt: str) -> None:
    """Nonce and message come back, whatever the excerpt quotes."""
    assert own.read_stub(own.stub(NONCE, 12, "a note", excerpt)) == (NONCE, 12)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x" + own.stub(NONCE, 1, "n", "e"),
        own.stub(NONCE, 1, "n", "e") + "\nmore",
        own.stub(NONCE, 1, "n", "e")[:-1],
    ],
    ids=["empty", "prefix", "suffix", "cut"],
)
def test_what_is_not_exactly_a_stub_is_none(text: str) -> None:
    """A tool result that quotes a stub is a tool result."""
    assert own.read_stub(text) is None


@given(st.text(alphabet="0123456789abcdef[]/lcm:history \n", max_size=60))
def test_defused_text_never_holds_the_nonce(text: str) -> None:
    """So it can never close the frame."""
    assert NONCE not in own.defuse(text + NONCE + text, NONCE)
