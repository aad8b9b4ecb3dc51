"""Priority of host calls over background work."""

from __future__ import annotations

import threading
from pathlib import Path

from test_background import turn_ends
from worlds.process import WAIT_S, Script, World, chat

from hermes_lcm.runtime import Foreground


def step_of(foreground: Foreground) -> threading.Thread:
    """A step of background work that waits for its turn."""
    step = threading.Thread(target=foreground.give_way, daemon=True)
    step.start()
    return step


def test_a_step_of_background_work_waits_while_a_host_call_goes_on_and_a_moment_after_it() -> None:
    """With the clock standing still it would wait for ever."""
    now = [0.0]
    foreground = Foreground(lambda: now[0])
    with foreground:
        step = step_of(foreground)
        step.join(0.05)
        during = step.is_alive()
    step.join(0.05)
    just_after = step.is_alive()
    now[0] = 0.2
    step.join(WAIT_S)

    assert (during, just_after, step.is_alive()) == (True, True, False)


def test_host_calls_without_a_gap_do_not_stop_background_work() -> None:
    """A gateway always answers somebody."""
    now = [0.0]
    foreground = Foreground(lambda: now[0])
    with foreground:
        step = step_of(foreground)
        now[0] = 1.0
        step.join(WAIT_S)

        assert not step.is_alive()


def test_a_call_within_a_call_goes_on_until_both_have_ended() -> None:
    """Chats of a gateway call at the same time."""
    now = [0.0]
    foreground = Foreground(lambda: now[0])
    with foreground:
        with foreground:
            pass
        step = step_of(foreground)
        step.join(0.05)

        assert step.is_alive()
    now[0] = 1.0
    step.join(WAIT_S)


def test_the_worker_asks_no_model_while_a_turn_is_answered(tmp_path: Path) -> None:
    """What comes in the meantime waits."""
    now = [0.0]
    world = World(tmp_path, Script("ok"), leaf_chunk_tokens=2000, fresh_tail_count=8)
    world.runtime.foreground._monotonic = lambda: now[0]
    with world.runtime.foreground:
        turn_ends(world, chat().turns(80))
        assert not world.preparer.idle(0.1)
        asked = len(world.model.tasks)
    now[0] = 1.0

    assert asked == 0
    assert world.preparer.idle(WAIT_S)
    assert world.model.tasks
