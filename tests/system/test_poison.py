"""Messages of any shape are stored exactly, and once (P1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from worlds.process import Chat, World, chat, equal, texts

from hermes_lcm.records import Flag

TODO = "[Your active task list was preserved across context compression]\n- [>] 1. Fix the parser (in_progress)"


HERE = Path(__file__).resolve().parents[1]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def cyclic() -> dict[str, Any]:
    knot: dict[str, Any] = {}
    knot["self"] = knot
    return knot


def nested(depth: int) -> list[Any]:
    out: list[Any] = ["bottom"]
    for _ in range(depth):
        out = [out]
    return out


POISON: dict[str, dict[str, Any]] = {
    "lone surrogate": {"role": "user", "content": "broken \ud800 half"},
    "two lone surrogates": {"role": "user", "content": "\ud83d" + "\ude00"},
    "surrogate in names": {"role": "tool", "tool_call_id": "\udc00", "name": "\ud8ff", "content": "x"},
    "surrogate role": {"role": "\ud800", "content": "x"},
    "NUL": {"role": "user", "content": "a\0b"},
    "NUL in names": {"role": "tool", "tool_call_id": "a\0b", "name": "n\0m", "content": "\0"},
    "image": {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
    "odd parts": {"role": "user", "content": [None, 3, "text", {"type": "text"}, {"type": "text", "text": None}, []]},
    "content is a dict": {"role": "tool", "tool_call_id": "q", "content": {"_multimodal": True, "text_summary": None}},
    "content is a number": {"role": "user", "content": 3.5},
    "no content": {"role": "assistant"},
    "calls null": {"role": "assistant", "content": "x", "tool_calls": None},
    "calls of odd shapes": {"role": "assistant", "content": "", "tool_calls": [None, "a", 1, {}, {"function": None}]},
    "calls are a number": {"role": "assistant", "content": "x", "tool_calls": 1},
    "calls are a dict": {"role": "assistant", "content": "x", "tool_calls": {"id": "a"}},
    "dict arguments": {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "z", "function": {"name": "f", "arguments": {"a": [1, {"b": None}]}}}],
    },
    "unknown role": {"role": "developer", "content": "x"},
    "no role": {"content": "x"},
    "unknown keys": {"role": "user", "content": "x", "\u00e9": {"deep": [1, 2, {"\0": True}]}},
    "escape look-alike": {"role": "user", "content": "x", "extra": {"__lcm_escaped__": "bytes", "value": "AAAA"}},
    "NaN": {"role": "user", "content": "x", "score": [float("inf"), -0.0]},
    "huge timestamp": {"role": "user", "content": "x", "timestamp": 10**400},
    "infinite timestamp": {"role": "user", "content": "x", "timestamp": float("inf")},
    "huge integer": {"role": "user", "content": "x", "count": 10**300},
    "integer of 5000 digits": {"role": "user", "content": "x", "count": 10**5000},
    "integer of 5000 digits as content": {"role": "user", "content": 10**5000},
    "bytes": {"role": "user", "content": "x", "raw": b"\x00\xff"},
    "tuple": {"role": "user", "content": "x", "pair": (1, (2, b"3"))},
    "odd keys": {"role": "user", "content": "x", "table": {1: "a", None: "b", (1, 2): "c"}},
    "nested 1000 deep": {"role": "user", "content": "x", "tree": nested(1000)},
    "nested 90 deep with a tuple": {"role": "user", "content": "x", "tree": nested(90), "pair": (1,)},
    "5 MB": {"role": "tool", "tool_call_id": "big", "content": "0123456789abcdef\n" * 300_000},
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON.keys())
def test_poison_is_stored_exactly_and_once(world: World, poison: dict[str, Any]) -> None:
    """A message of any shape comes back as it was, as do those around it, and is recognised after a restart."""
    messages = Chat([*chat().user("before").says("ok"), poison, {"role": "assistant", "content": "after"}])
    world.take(messages)
    assert equal(world.stored(), messages)
    world = world.restart()
    world.take(messages.user("more"))

    assert len(world.stored()) == 5


@pytest.mark.parametrize("odd", [lambda: [cyclic()], lambda: nested(5000)], ids=["a cycle", "deeper than Python goes"])
def test_a_copy_of_a_message_without_end_keeps_none_behind_it_from_being_stored(world: World, odd: Any) -> None:
    """Python cannot compare the two; their digests tell that they are one message."""
    for live in (chat().user(odd()).says("one"), chat().user(odd()).says("one").user("two")):
        world.take(live)

    assert texts(world.stored())[1:] == ["one", "two"]


def test_cycles_are_stored_as_far_as_they_go(world: World) -> None:
    """What has no end cannot come back exactly; it is marked, and the messages after it are stored."""
    messages = Chat([{"role": "user", "content": "x", "knot": cyclic()}, {"role": "assistant", "content": "after"}])
    world.take(messages)

    assert texts(world.stored()) == ["x", "after"]
    assert texts(world.flagged(Flag.QUARANTINED)) == ["x"]
