"""The same list again, from whatever process: nothing is stored twice (P1)."""

from __future__ import annotations

from pathlib import Path

import pytest
from worlds.process import Chat, World, chat, reload

from hermes_lcm.records import Flag

TODO = "[Your active task list was preserved across context compression]\n- [>] 1. Fix the parser (in_progress)"


HERE = Path(__file__).resolve().parents[1]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_list_is_stored_in_order(world: World) -> None:
    """What is handed over is there, in order, with everything the host gave."""
    messages = chat().user("look", custom={"a": 1}).calls("x", "y").results("y", "x").says("done", reasoning="why")

    world.take(messages)

    assert world.stored() == messages


def test_the_same_list_again_stores_nothing(world: World) -> None:
    """Every hook may hand over the list as often as it likes."""
    messages = chat().turns(5)
    for _ in range(3):
        world.take(messages.copy())

    assert world.stored() == messages


def test_a_growing_list_is_stored_message_by_message(world: World) -> None:
    """A list that grows one message at a time ends up as the whole conversation."""
    messages = chat().turns(4).rounds(2).says("end")
    for size in range(1, len(messages) + 1):
        world.take(messages[:size])

    assert world.stored() == messages


def test_entries_name_the_rows(world: World) -> None:
    """The transcript says for each message which row it is."""
    messages = chat().turns(3)

    transcript = world.take(messages)

    assert [world.store.rows(entry.ids)[0].stored_json for entry in transcript.entries] == messages


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_restart_stores_nothing(world: World, times: int) -> None:
    """A process that starts anew finds its list stored."""
    messages = chat().user(" padded \r\n").says("answer\n").turns(4).rounds(3).says("end")
    world.take(messages)
    for _ in range(times):
        world = world.restart()
        world.take(reload(messages))

    assert world.stored() == messages


def test_three_equal_messages_stay_three(world: World) -> None:
    """Equal words said again are said again."""
    messages = chat().user("yes").says("ok").user("yes").says("ok").user("yes").says("ok")
    for size in range(1, 7):
        world.take(messages[:size])
    world = world.restart()
    world.take(reload(messages))

    assert world.stored() == messages


@pytest.mark.parametrize("size", [2, 50, 501])
def test_an_all_equal_session_grows_by_what_is_said(world: World, size: int) -> None:
    """However long a session repeats itself, a restart and one more message store one more message."""
    messages = Chat(chat().user("go").says("ok") * size)
    world.take(messages)
    world = world.restart()
    world.take(reload(messages.user("go")))

    assert len(world.stored()) == 2 * size + 1


def test_an_empty_list_says_nothing(world: World) -> None:
    """A list that is empty takes nothing back."""
    messages = chat().turns(2)
    world.take(messages)
    world.take([])
    world.take(messages)

    assert (world.stored(), world.flagged(Flag.RETRACTED)) == (messages, [])
