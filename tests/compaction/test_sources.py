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


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ({"output": "first\nname"}, "first\nname"),
        ({"output": 'say "order_id"now'}, 'say "order_id"now'),
        ({"output": "C:\\temp\\notes.txt\tof C:\\new"}, "C:\\temp\\notes.txt\tof C:\\new"),
        ({"output": r"a pattern \n and \u0041"}, r"a pattern \n and \u0041"),
        ({"output": "gr\u00fcn \U0001f600 \u65e5\u672c"}, "gr\u00fcn \U0001f600 \u65e5\u672c"),
        ({"result": json.dumps({"content": 'def f():\n    return "order_id"\n'})}, 'def f():\n    return "order_id"\n'),
        ([{"type": "text", "text": 'a "quoted_name"\nb'}], 'a "quoted_name"\nb'),
    ],
)
def test_results_are_read_decoded(world: World, answer: Any, read: str) -> None:
    """A word behind a line end or a quotation mark is that word, a path keeps its backslashes, JSON within JSON is read too."""
    shown = "\n".join(lines(world, ran(chat().user("go"), json.dumps(answer))))

    assert read in shown
    assert '\\"' not in shown


def test_a_result_that_was_cut_off_within_an_escape_is_read_decoded(world: World) -> None:
    """Hosts cut long results anywhere."""
    shown = "\n".join(lines(world, ran(chat().user("go"), json.dumps({"output": 'alpha\n"beta"\n' * 9})[:-3])))

    assert 'alpha\n"beta"\nalpha' in shown
    assert '\\"' not in shown


def test_a_lone_half_of_a_character_is_no_obstacle(world: World) -> None:
    """It cannot be stored or sent."""
    shown = "\n".join(lines(world, ran(chat().user("go"), '{"output": "half \\ud83d of it\\nend"}')))

    assert "of it\nend" in shown
    shown.encode()
