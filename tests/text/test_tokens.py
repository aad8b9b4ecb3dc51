"""Token estimates: monotone, cheap, and the host's own where the host decides."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.process import chat

from hermes_lcm.host import facts
from hermes_lcm.text import tokens


@pytest.mark.parametrize(("text", "expected"), [("", 0), ("a", 1), (" ", 1), ("\ud800", 1)])
def test_small_texts(text: str, expected: int) -> None:
    """Nothing costs nothing; anything costs something."""
    assert tokens.count(text) == expected


@given(st.text(st.characters()), st.text(st.characters()))
def test_more_text_is_never_fewer_tokens(one: str, other: str) -> None:
    """Estimates grow with the text (up to rounding)."""
    assert tokens.count(one + other) >= max(tokens.count(one), tokens.count(other)) - 1


@given(st.text(st.characters(), max_size=50), st.integers(2, 50))
def test_estimates_add_up(text: str, times: int) -> None:
    """A text a hundred times is about a hundred times the tokens."""
    assert abs(tokens.count(text * times) - times * tokens.count(text)) <= times


def samples() -> dict[str, str]:
    return {
        "prose": "The quick brown fox jumps over the lazy dog and runs away from the river bank. " * 40,
        "code": "def read(path: Path) -> dict[str, Any]:\n    return json.loads(path.read_text())\n\n\n" * 40,
        "json": json.dumps([{"id": n, "name": f"item {n}", "ok": True} for n in range(80)]),
        "chinese": "今天天气很好我们一起去公园散步吧" * 40,
    }


#: Tokens of the samples in the encoding o200k, counted once with tiktoken 0.9.
KNOWN = {"prose": 680, "code": 880, "json": 1120, "chinese": 480}


@pytest.mark.parametrize("name", KNOWN)
def test_estimates_are_near_a_tokeniser(name: str) -> None:
    """Within a factor that budgets can live with, in any script."""
    assert 0.6 < tokens.count(samples()[name]) / KNOWN[name] < 1.6


@pytest.mark.parametrize(
    "messages",
    [
        chat(),
        chat().turns(5).rounds(3),
        chat().user([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "x" * 100_000}}]),
        chat().user("\u4eca\u5929" * 500),
        chat().calls("a", arguments=json.dumps({"a": "x" * 1000})),
    ],
    ids=["empty", "chat", "image", "chinese", "arguments"],
)
def test_the_stand_in_agrees_with_the_host(messages: list[dict[str, object]]) -> None:
    """Where the host's estimate cannot be imported, ours means the same."""
    from agent.model_metadata import estimate_messages_tokens_rough

    assert tokens.rough(messages) == pytest.approx(estimate_messages_tokens_rough(messages), rel=0.02, abs=4)
    assert facts.rough(messages) == estimate_messages_tokens_rough(messages)


def test_a_huge_text_is_counted_by_its_stretches() -> None:
    """Whatever it is made of, in whatever order."""
    parts = [
        "def read(self) -> str:\n    return 1\n",
        "数据库连接超时",
        "The words of a sentence. ",
        "aGVsbG8gd29ybGQ9PQ",
    ]
    text = "".join(part * (400_000 // len(part)) for part in parts)
    exact = sum(tokens.count(text[at : at + 100_000]) for at in range(0, len(text), 100_000))

    assert tokens.count(text) == pytest.approx(exact, rel=0.02)
