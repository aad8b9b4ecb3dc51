"""Several threads and processes that hand over the same session store it once (P1)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from worlds.process import World, chat, digests, run

TODO = "[Your active task list was preserved across context compression]\n- [>] 1. Fix the parser (in_progress)"


HERE = Path(__file__).resolve().parents[1]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_two_threads_with_the_same_list_store_it_once(world: World) -> None:
    """A hook and a worker hand over the same list at the same moment."""
    messages = chat().turns(20)
    run(*[lambda: world.take(messages.copy()) for _ in range(4)])

    assert world.stored() == messages


def test_two_worlds_with_the_same_list_store_it_once(tmp_path: Path) -> None:
    """Two processes resumed the same session."""
    messages = chat().turns(20)
    first, second = World(tmp_path), World(tmp_path)
    first.take(messages[:10])

    def hand_over(world: World) -> None:
        for size in range(10, 41, 3):
            world.take(messages[:size])

    run(lambda: hand_over(first), lambda: hand_over(second))
    first.take(messages)

    assert digests(first.stored()) == digests(messages)


_SAY = """
from pathlib import Path
from worlds.process import World, chat
world = World(Path({folder!r}))
messages = chat().turns(15)
for size in range(1, 31):
    world.take(messages[:size])
"""


def test_two_processes_with_the_same_list_store_it_once(tmp_path: Path) -> None:
    """The same with real processes."""
    paths = os.pathsep.join([str(HERE), str(HERE.parent / ".lcm-path")])
    command = [sys.executable, "-P", "-c", _SAY.format(folder=str(tmp_path))]
    workers = [subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}) for _ in range(2)]

    assert [worker.wait(60) for worker in workers] == [0, 0]
    assert digests(World(tmp_path).stored()) == digests(chat().turns(15))
