"""How much of a live list is known from the one before it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.process import World, chat

from hermes_lcm.ingest import ingestor
from hermes_lcm.ingest import transcript as lists
from hermes_lcm.ingest.transcript import UNSEEN, Entries, Recognised, SeenList, Transcript

Chat = list[dict[str, Any]]

CALLS = [{"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}]
SPELLINGS: dict[str, Any] = {
    "content": st.sampled_from(
        ["", "yes", "no", None, [{"type": "text", "text": "yes"}], [{"type": "text", "text": "no"}]]
    ),
    "role": st.sampled_from(["user", "assistant"]),
    "tool_calls": st.sampled_from([None, CALLS]),
    "tool_call_id": st.sampled_from([None, "c1"]),
}
MESSAGES = st.fixed_dictionaries(SPELLINGS, optional={"timestamp": st.integers(0, 3)})


@pytest.fixture(autouse=True, scope="module")
def short() -> Any:
    """Lists of a dozen messages are long ones here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists, "_NEWEST", 3)
        patch.setattr(lists, "_AT_ONCE", 2)
        yield


def window(messages: Chat) -> SeenList:
    return SeenList.of(messages, Transcript(Entries([]), None, 0, 0), ())


def alike(one: Chat, other: Chat, names: Any = SPELLINGS) -> int:
    """How many leading messages are equal in what counts, counted one by one."""
    size = min(len(one), len(other))
    return next((n for n in range(size) if any(one[n].get(k) != other[n].get(k) for k in names)), size)


@given(st.lists(MESSAGES, max_size=12), st.lists(MESSAGES, max_size=12), st.integers(0, 12), st.booleans())
def test_of_other_objects_every_message_is_compared(before: Chat, other: Chat, same: int, thorough: bool) -> None:
    """Copies of a list, changed from somewhere on: known is what is equal in what counts, and no more."""
    after = [*copy.deepcopy(before[:same]), *other]
    held = window(before)
    known = held.recognise(after, thorough=thorough)

    assert known == alike(before, after)
    assert all(mine is theirs for mine, theirs in zip(held.objects[:known], after, strict=False))
    assert held.objects == [*after[:known], *before[known:]]


@given(st.lists(MESSAGES, min_size=1, max_size=12), st.integers(0, 11), MESSAGES, st.booleans(), st.data())
def test_of_the_same_objects_the_newest_are_compared_and_at_the_turns_end_all(
    live: Chat, at: int, change: dict[str, Any], thorough: bool, data: Any
) -> None:
    """A message that is changed in place is known no longer where it is looked at: near the end, or by a thorough look."""
    at %= len(live)
    held, before = window(live), copy.deepcopy(live)
    names = data.draw(st.sets(st.sampled_from(["content", "role"]), min_size=1))
    for name in names:
        live[at][name] = copy.deepcopy(change[name])
    live.append({"role": "user", "content": "go on"})
    looked_at = thorough or at >= len(before) - 3
    known = held.recognise(live, thorough=thorough)

    assert known == (alike(before, live) if looked_at else len(before))


@given(st.lists(MESSAGES, min_size=5, max_size=12), st.integers(0, 11))
def test_a_part_of_a_content_that_changes_in_place_changes_the_message(live: Chat, at: int) -> None:
    """What a content of parts said is remembered, not the object that says something else by now."""
    at %= len(live)
    live[at]["content"] = [{"type": "text", "text": "yes"}]
    held = window(live)
    live[at]["content"][0]["text"] = "no"
    copies = copy.deepcopy(live)

    assert held.recognise(copies, thorough=False) == at
    assert held.recognise(live, thorough=True) == at


@given(st.lists(MESSAGES, min_size=5, max_size=12))
def test_other_objects_are_read_when_they_come_and_at_the_end_of_the_next_turn(live: Chat) -> None:
    """A list that a gateway loads anew was read whole in that turn; what is changed in it later is noticed by the next look."""
    held, loaded = window(live), copy.deepcopy(live)
    assert held.recognise(loaded, thorough=False) == len(live)

    loaded[0]["content"] = "something else"
    known = [held.recognise(loaded, thorough=True) for _ in range(2)]

    assert known == [len(live), 0]


@given(st.lists(MESSAGES, max_size=9), st.lists(MESSAGES, max_size=4), st.lists(MESSAGES, max_size=4), st.booleans())
def test_what_was_learned_is_known(old: Chat, new: Chat, newer: Chat, same_objects: bool) -> None:
    """A window that learns lists one after the other knows the last one as if it had seen nothing else."""
    held = window(old)
    for grown in (new, newer):
        live = [*(held.objects if same_objects else copy.deepcopy(held.objects)), *grown]
        known = held.recognise(live, thorough=False)
        held.learn(live, known, held.transcript, ())

        assert held.recognise(copy.deepcopy(live), thorough=True) == len(live)
        assert held.columns == window(live).columns


@pytest.mark.parametrize("thorough", [False, True], ids=["quick", "thorough"])
def test_calls_that_change_in_place_change_the_message(thorough: bool) -> None:
    """The host may write other arguments into the list of calls that it has shown."""
    live: Chat = [{"role": "assistant", "content": "", "tool_calls": copy.deepcopy(CALLS)} for _ in range(5)]
    held = window(live)
    live[4]["tool_calls"][0]["function"]["arguments"] = '{"path": "a"}'

    assert held.recognise(live, thorough=thorough) == 4


def test_what_the_host_notes_beside_a_message_makes_it_no_other() -> None:
    """A list that comes back with other notes is known, and so is the next one with the same notes."""
    live: Chat = [{"role": "user", "content": str(n)} for n in range(9)]
    held = window(live)
    noted = [{**message, "timestamp": n} for n, message in enumerate(live)]

    assert [held.recognise(copy.deepcopy(noted), thorough=True) for _ in range(2)] == [9, 9]
    assert held.objects == noted


def test_what_was_recognised_counts_as_long_as_the_window_is_what_it_was() -> None:
    """Another list may be taken in between the look and its use."""
    live: Chat = [{"role": "user", "content": str(n)} for n in range(5)]
    held = window(live)
    seen = Recognised(held.recognise(live, thorough=False), held, held.version)
    before = seen.still(held)
    held.learn(live[:2], 2, held.transcript, ())

    assert (before, seen.still(held), seen.still(window(live)), UNSEEN.still(held)) == (5, 0, 0, 0)


def nested() -> list[Any]:
    body: list[Any] = []
    for _ in range(5000):
        body = [body]
    return body


def knotted() -> list[Any]:
    part: dict[str, Any] = {"type": "text", "text": "yes"}
    part["part"] = part
    return [part]


class Array:
    """Compares in a way of its own."""

    def __eq__(self, other: object) -> Any:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


ODD = {"nested": nested, "knotted": knotted, "an array": lambda: [{"type": "image", "data": Array()}]}


@pytest.mark.parametrize("thorough", [False, True], ids=["quick", "thorough"])
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_a_copy_of_what_cannot_be_compared_is_another_message(odd: Any, thorough: bool) -> None:
    """Who it is will be told by its digest; what follows it must not wait for that in vain."""

    def live() -> Chat:
        return [{"role": "user", "content": str(n) if n != 2 else odd()} for n in range(9)]

    first = live()
    held = window(first)
    mixed = [*first[:2], live()[2], *first[3:]]

    assert held.recognise(first, thorough=thorough) == 9
    assert held.recognise(mixed, thorough=thorough) == 2
    assert held.recognise(live(), thorough=thorough) == 2


# -- memory ------------------------------------------------------------------------------------------------------------
def test_remembered_lists_are_bounded_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those seen longest ago go first; what goes is aligned once when it comes back, and nothing is stored twice."""
    monkeypatch.setattr(ingestor, "_BYTES", 130_000)
    world = World(tmp_path)
    live = {name: chat().turns(20, first=100 * n) for n, name in enumerate("abc")}
    for name, messages in live.items():
        world.take(messages, name)

    assert [world.ingest.knows(name) for name in "abc"] == [False, True, True]
    assert world.take(live["a"], "a").stored == 0


def test_the_size_of_a_list_follows_what_it_shows(tmp_path: Path) -> None:
    """It grows with it, and shrinks with it; parts and their images count."""
    world = World(tmp_path)
    live = chat().turns(10)
    world.take(live)
    short = world.ingest._seen_lists["s"].size
    world.take([*live, {"role": "user", "content": [{"type": "text", "text": "x" * 50_000}]}])
    long = world.ingest._seen_lists["s"].size
    world.take([*live, {"role": "user", "content": "short"}])

    assert long > short + 50_000
    assert world.ingest._seen_lists["s"].size < short + 5000
