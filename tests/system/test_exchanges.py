"""Chats whose files are exchanged, and merged by processes that were killed in between (P1)."""

from __future__ import annotations

from pathlib import Path

import pytest
from worlds import shelf
from worlds.shelf import Shelf


def test_a_message_that_a_new_process_shows_alone_to_an_older_copy_is_there_once(hermes_home: Path) -> None:
    """All that the copy lacks is this one message, and the file that has it comes later."""
    chat = Shelf(hermes_home, 1)
    chat.says(3)
    shelf.kept(chat)
    chat.says(0.5)
    shelf.exchanged_and_killed(chat)
    chat.shows()
    chat.says(1)
    chat.merge_all()

    assert chat.verdict() == (0, 0, False)


@pytest.mark.parametrize("seed", range(1, 4))
def test_files_that_are_exchanged_at_random_lose_and_double_nothing(hermes_home: Path, seed: int) -> None:
    chat = Shelf(hermes_home, seed)
    chat.plays(12)

    assert chat.verdict() == (0, 0, False)
