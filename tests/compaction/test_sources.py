"""What of stored messages a summariser reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from worlds.process import World, chat

from hermes_lcm.compaction.sources import source_lines

LISTING = "\n".join(f"file{n}.py" for n in range(60))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def ran(talk: Any, *results: str) -> Any:
    """The same command again and again."""
    for n, text in enumerate(results):
        talk = talk.calls(f"c{n}", arguments='{"command": "ls"}').results(f"c{n}", text=text)
    return talk.says("done")


def lines(world: World, talk: Any) -> list[str]:
    world.take(talk)
    heads = world.store.page("s", after=0, limit=100)
    return [line.text for line in source_lines(world.store, [row.store_id for row in heads])]


def test_a_listing_made_again_says_nothing_the_second_time(world: World) -> None:
    """The first result stands for both."""
    shown = lines(world, ran(chat().user("list"), LISTING, LISTING))

    assert [text for text in shown if "file7.py" in text] == [LISTING]


def test_a_result_that_changed_says_what_is_new(world: World) -> None:
    """The lines that the same call did not return before."""
    shown = lines(world, ran(chat().user("list"), LISTING, LISTING + "\nfresh.py"))

    assert [text.splitlines()[1:] for text in shown if "fresh.py" in text] == [["fresh.py"]]


def test_results_are_read_decoded(world: World) -> None:
    """A word behind a line end is that word, not one that begins with an n."""
    shown = lines(world, ran(chat().user("go"), json.dumps({"output": "first\nname"})))

    assert any("first\nname" in text for text in shown)
