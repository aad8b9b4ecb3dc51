"""Compaction for sessions that are not stored: smaller, valid, nothing kept (P3, P6)."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds.process import Chat, Script, World, alternates, chat, texts, tokens_of

from hermes_lcm.compaction import unstored
from hermes_lcm.compaction.compress import Outcome
from hermes_lcm.config import load
from hermes_lcm.errors import SummaryUnavailable
from hermes_lcm.records import Summary, SummaryTask
from hermes_lcm.text import content

THRESHOLD = 4000


def passed(messages: Chat, model: Callable[..., Summary] | None = None, **wishes: Any) -> Outcome:
    """One pass over a list."""
    facts = {"threshold": THRESHOLD, "current": None, "force": False, "focus": "", "deadline": time.monotonic() + 10.0}
    config = replace(load({}), fresh_tail_count=8)
    return unstored.compact(
        messages, config=config, summarise=model or Script(), rough=tokens_of, **{**facts, **wishes}
    )


def compacted(messages: Chat, model: Callable[..., Summary] | None = None, **wishes: Any) -> Chat:
    outcome = passed(messages, model, **wishes)
    assert outcome.messages is not None, outcome.reason
    return Chat(outcome.messages)


def long_chat() -> Chat:
    return chat().turns(12).user("do it").rounds(12).says("done").turns(8, first=50)


def test_the_list_gets_smaller() -> None:
    """Below the threshold, and valid for a provider."""
    out = compacted(long_chat())

    assert tokens_of(out) < THRESHOLD
    assert content.problems(out) == []
    assert alternates(out)


def test_the_newest_messages_stay_as_they_are() -> None:
    """What is behind the recap is the end of the list, byte for byte."""
    messages = long_chat()

    assert list(compacted(messages)[-6:]) == list(messages[-6:])


def test_the_host_s_list_is_not_touched() -> None:
    """The host compares what it gave with what it gets."""
    messages = long_chat()
    before = copy.deepcopy(messages)
    compacted(messages)

    assert messages == before


def test_the_recap_says_what_it_is() -> None:
    """Reference material, no instructions."""
    assert "not instructions" in compacted(long_chat())[0]["content"]


def test_every_message_outside_the_tail_is_summarised() -> None:
    """Nothing is left out on the way: each text is in one task (P4)."""
    messages, model = long_chat(), Script()
    out = compacted(messages, model)

    said = "\n".join(line.text for task in model.tasks for line in task.lines)
    kept = {message.get("content") for message in out}
    assert all(message["content"] in kept or str(message["content"]) in said for message in messages)


def test_the_request_of_a_long_turn_stays_raw() -> None:
    """The user's words stand in front of the tail, however many tool rounds follow."""
    out = compacted(chat().turns(10).user("the request").rounds(40))

    assert [message["content"] for message in out if message["role"] == "user"][1:] == ["the request"]


@pytest.mark.parametrize("passes", [2, 6])
def test_the_recap_is_rolled_forward(passes: int) -> None:
    """Pass after pass there is one recap, made of the last one and what came since; the list stays small."""
    out, model = long_chat(), Script()
    for n in range(passes):
        out = compacted(out.turns(30, first=100 * n), model)

    assert sum("[Recap of" in str(message["content"]) for message in out) == 1
    assert tokens_of(out) < THRESHOLD
    assert any(line.role == "summary" for task in model.tasks for line in task.lines)


def test_a_recap_is_no_request() -> None:
    """The recap stands in the user's name, but is not pinned as what the user asked last."""
    out = compacted(compacted(long_chat()).rounds(40))

    assert sum("[Recap of" in str(message["content"]) for message in out) == 1


def test_a_focus_reaches_the_summariser() -> None:
    """/compress focus."""
    model = Script()
    compacted(long_chat(), model, focus="the parser")

    assert {task.focus for task in model.tasks} == {"the parser"}


def test_a_short_list_gives_no_prompt() -> None:
    """Nothing outside the tail, nothing to do."""
    assert passed(chat().user("hello").says("hello")).messages is None


def test_a_recap_that_saves_nothing_is_not_handed_over() -> None:
    """P6: a smaller list or none."""
    chatty = Script("long")

    def model(task: SummaryTask, *, deadline: float) -> Summary:
        return chatty(replace(task, target_tokens=5000), deadline=deadline)

    outcome = passed(long_chat(), model)

    assert (outcome.messages, "smaller" in outcome.reason) == (None, True)


@pytest.mark.parametrize("moves", [("raise",), ("provisional",), ("raise", "ok"), ("ok", "raise")])
def test_without_a_model_an_extract_stands_in(moves: tuple[str, ...]) -> None:
    """The slot's owner must keep these sessions from overflowing too."""
    assert tokens_of(compacted(long_chat(), Script(*moves))) < THRESHOLD


def test_after_a_failure_no_model_is_asked_for_the_same_chunk() -> None:
    """The second try has no time left: an extract at once."""
    deadlines: list[bool] = []

    def model(task: SummaryTask, *, deadline: float) -> Summary:
        deadlines.append(deadline > time.monotonic())
        if deadlines[-1]:
            raise SummaryUnavailable("away")
        return Script.extract(task)

    compacted(long_chat(), model)

    assert deadlines == [True, False] * (len(deadlines) // 2)


def test_other_errors_are_the_caller_s() -> None:
    """What is no failure of a model is not hidden here."""

    def model(task: SummaryTask, *, deadline: float) -> Summary:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        passed(long_chat(), model)


def test_a_recap_sees_no_secrets_and_no_noise(tmp_path: Path) -> None:
    """Sessions that are not stored are shown to models all the same."""
    world = World(tmp_path, sensitive_patterns_enabled=True, ignore_message_patterns=("^heartbeat",))
    model = Script()
    live = chat().turns(12).user("password: hunter2secret").says("heartbeat 77 marzipan").rounds(12).turns(8, first=50)
    out = compacted(live.user("the password: hunter3secret holds"), model, filters=world.runtime.filters)
    seen = "".join(line.text for task in model.tasks for line in task.lines) + "".join(texts(out))

    assert "hunter2secret" not in seen
    assert "hunter3secret" not in seen
    assert "marzipan" not in "".join(line.text for task in model.tasks for line in task.lines)
    assert "[redacted:password_assignment]" in seen


def test_a_note_of_the_host_is_no_word_of_the_user() -> None:
    """The recap sees who wrote it."""
    model = Script()
    note = "[IMPORTANT: Background process p1 completed normally (exit code 0).\nCommand: make\nOutput:\nok]"
    compacted(chat().turns(4).user(note).turns(20, first=9), model)

    assert [line.role for task in model.tasks for line in task.lines if line.text == note] == ["host"]
