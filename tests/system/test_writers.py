"""Several threads and processes that hand over the same session store it once (P1)."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
from worlds.process import World, chat, digests, run

TODO = "[Your active task list was preserved across context compression]\n- [>] 1. Fix the parser (in_progress)"


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


def say(folder: Path) -> None:
    world, messages = World(folder), chat().turns(15)
    for size in range(1, 31):
        world.take(messages[:size])


def test_two_processes_with_the_same_list_store_it_once(tmp_path: Path) -> None:
    """The same with real processes."""
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=say, args=(tmp_path,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)

    assert [worker.exitcode for worker in workers] == [0, 0]
    assert digests(World(tmp_path).stored()) == digests(chat().turns(15))
