"""Groups: a call and all its results, never split (P3)."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.process import chat

from hermes_lcm.text import content


def test_a_group_is_a_call_with_all_its_results() -> None:
    """Two calls, two results, one group."""
    messages = chat().user("go").calls("a", "b").results("b", "a").says("done")

    assert [(g.start, g.stop, g.whole) for g in content.groups(messages)] == [(0, 1, True), (1, 4, True), (4, 5, True)]


@pytest.mark.parametrize("missing", ["a", "b"])
def test_a_group_that_waits_is_not_whole(missing: str) -> None:
    """Without all results a group is open."""
    kept = "b" if missing == "a" else "a"

    assert content.groups(chat().calls("a", "b").results(kept))[0].whole is False


def test_a_result_without_its_call_is_a_group_of_its_own() -> None:
    """An orphan never joins its neighbours."""
    assert [g.whole for g in content.groups(chat().user("x").results("lost").says("y"))] == [True, False, True]


@pytest.mark.parametrize("key", ["id", "call_id"])
def test_results_may_answer_either_name_of_a_call(key: str) -> None:
    """Some providers give a call two ids; a result may use either."""
    call = {"id": "fc_1", "call_id": "call_1", "function": {"name": "t", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call[key], "content": "y"},
    ]

    assert content.problems(messages) == []
    assert [g.whole for g in content.groups(messages)] == [True, True]


def test_an_id_that_is_used_again_is_another_call() -> None:
    """Ids are matched within a group."""
    messages = chat().user("x").calls("a").results("a").calls("a").results("a")

    assert content.problems(messages) == []


def test_a_result_that_comes_twice_is_a_problem() -> None:
    """Strict providers refuse a second answer."""
    assert content.problems(chat().user("x").calls("a").results("a").results("a")) != []


def test_a_result_behind_another_message_is_a_problem() -> None:
    """Results stand directly behind their call."""
    assert content.problems(chat().user("x").calls("a").user("wait").results("a")) != []


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        (chat().says("x"), "begins with"),
        (chat().user(""), "empty user"),
        (chat().user("x").says(" \n"), "empty assistant"),
        (chat().user("x").says(None), "empty assistant"),
        (chat().user("x").calls("a"), "unpaired"),
    ],
    ids=["start", "user", "blank", "none", "open call"],
)
def test_problems_are_named(messages: Any, problem: str) -> None:
    """What a provider would refuse, in words."""
    assert problem in content.problems(messages)[0]


message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system", "", None])},
    optional={
        "content": st.sampled_from(["x", "", None, [], [{"type": "text", "text": "x"}]]),
        "tool_call_id": st.sampled_from(["a", "b", "c", None, 1]),
        "tool_calls": st.sampled_from(
            [None, [], [{"id": "a"}], [{"id": "a"}, {"id": "b"}], [{"call_id": "c"}], [None, {}], 1, "x", {"id": "a"}]
        ),
    },
)


@given(st.lists(message, max_size=12))
def test_groups_cover_every_list_without_gap(messages: list[dict[str, Any]]) -> None:
    """Whatever the list: groups follow each other from its first to its last message."""
    found = content.groups(messages)

    assert [g.start for g in found] == [0, *[g.stop for g in found[:-1]]][: len(found)]
    assert (found[-1].stop if found else 0) == len(messages)


@given(st.lists(message, max_size=12))
def test_whole_groups_in_any_number_have_no_unpaired_call(messages: list[dict[str, Any]]) -> None:
    """Leaving out groups never makes an orphan of what stays."""
    whole = [g for g in content.groups(messages) if g.whole]
    kept = [messages[n] for g in whole if random.Random(g.start).random() < 0.7 for n in range(g.start, g.stop)]

    assert content.unpaired(kept) == set()
