"""What the user asked for and ruled, by rule: questions rule nothing, finished work is not open, what was taken back is gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from world import Chat, World, chat

from hermes_lcm.prompt import work_log
from hermes_lcm.records import Row


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def prose(world: World, live: Chat) -> list[Row]:
    """The messages of a conversation, read back from the store."""
    world.take(live)
    return [row for rows in world.store.every() for row in rows]


def ruled(world: World, *said: str) -> list[str]:
    live = chat()
    for text in said:
        live.user(text).says("I see.")
    users = [row for row in prose(world, live) if row.head.role == "user"]
    return [rule.text for rule in work_log.rules(work_log.standing(users))]


@pytest.mark.parametrize(
    "text",
    [
        "Never push to main without asking me.",
        "no, the block should stay as it is",
        "I'd prefer a flight that departs after 8 am.",
        "Please use the card ending in 9725 for this.",
        "From now on answer in German.",
        "以后不要改这个文件 谢谢 你",
    ],
)
def test_what_holds_beyond_the_task_is_a_rule(world: World, text: str) -> None:
    """Whole, in the user's words."""
    assert ruled(world, text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "Should we always use tabs here?",
        "But I don't remember my reservation ID.",
        "I've never written any routes in this project.",
        "I want to make sure I'm handling the error properly.",
        "It never works when I try it.",
        "Thanks, that is perfect!",
        "```\nraise ValueError('must be positive, always')\n```",
    ],
)
def test_questions_thanks_and_plain_facts_are_no_rules(world: World, text: str) -> None:
    """Nobody has to follow them."""
    assert ruled(world, text) == []


def test_a_rule_that_was_said_again_stands_once_where_it_was_said_last(world: World) -> None:
    """Its newest address."""
    assert ruled(world, "Never use tabs here.", "Always run the linter first.", "never use  tabs here.") == [
        "Always run the linter first.",
        "never use  tabs here.",
    ]


@pytest.mark.parametrize("words", ["Actually, never mind.", "forget that", "Scratch that, please.", "算了"])
def test_what_the_user_takes_back_rules_nothing(world: World, words: str) -> None:
    """The message before it."""
    assert ruled(world, "Always run the linter first.", "Never use tabs here.", words) == [
        "Always run the linter first."
    ]


def test_a_request_is_closed_by_the_reply_to_the_yes_in_between(world: World) -> None:
    """Who says "yes, go on" asks for what was asked before."""
    live = chat().user("Delete the old themes from the folder.").says("All three of them?").user("yes please, go ahead")
    live.says("Done. I deleted the three old themes.").user("Now tell me what is left.").says("Two files.")
    rows = prose(world, live)

    assert work_log.closed(rows) == {1: work_log.Closed(4, "I deleted the three old themes.")}
    users = [row for row in rows if row.head.role == "user"]
    assert [row.store_id for row in work_log.unfinished(users, work_log.closed(rows))] == [5]
