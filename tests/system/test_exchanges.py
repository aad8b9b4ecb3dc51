"""Chats whose files are exchanged, and merged by processes that were killed in between (P1)."""

from __future__ import annotations

from collections.abc import Callable
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


@pytest.mark.parametrize("words", ["ok 0 ok 1", "ok 0 ok", "ok"])
@pytest.mark.parametrize("last", [shelf.emptied, shelf.exchanged], ids=["emptied", "exchanged"])
def test_a_record_between_older_rows_and_its_list_is_no_undo_of_what_its_summaries_cover(
    hermes_home: Path, last: Callable[[Shelf], None], words: str
) -> None:
    """The copy knows no prompt, so it keeps the record behind what it has, but for words with which the list begins."""
    chat = Shelf(hermes_home, 1)
    chat.says_these(words)
    shelf.kept(chat)
    chat.says_much()
    shelf.exchanged_and_killed(chat)
    chat.says_these("ok")
    last(chat)
    chat.merge_all()
    chat.says(1)

    assert chat.verdict() == (0, 0, False)


def test_a_record_in_front_of_what_a_copy_took_for_its_list_is_no_message_of_a_list(hermes_home: Path) -> None:
    """The copy ends with words with which the list begins; the list means others that say the same."""
    chat = Shelf(hermes_home, 1)
    chat.says_these("ok 2")
    shelf.kept(chat)
    shelf.emptied_and_killed(chat)
    chat.says_these("ok")
    chat.merge_all()
    chat.says_much()
    shelf.exchanged(chat)
    chat.says_these("ok")
    chat.merge_all()
    chat.says(1)

    assert chat.verdict() == (0, 0, False)


def test_what_was_merged_into_a_file_comes_in_front_of_it_in_its_copy_too(hermes_home: Path) -> None:
    """All that the copy has came from that file, and what else is there lies before it."""
    chat = Shelf(hermes_home, 1)
    chat.says_much()
    shelf.emptied(chat)
    chat.says_these("ok")
    shelf.kept(chat)
    chat.merge_all()
    shelf.exchanged(chat)
    chat.merge_all()
    chat.says(1)

    assert chat.verdict() == (0, 0, False)


def test_what_a_list_showed_between_two_copies_is_not_new(hermes_home: Path) -> None:
    """Two files have the same rows; by the second time some of them are here by their numbers, one by its place alone."""
    chat = Shelf(hermes_home, 1)
    chat.says_these("ok")
    shelf.kept(chat)
    chat.says_these("ok")
    shelf.exchanged_and_killed(chat)
    chat.says_these("ok")
    shelf.renewed(chat)
    shelf.back(chat)
    chat.merge_all()
    chat.says(1)

    assert chat.verdict() == (0, 0, False)


@pytest.mark.parametrize("seed", range(1, 4))
def test_files_that_are_exchanged_at_random_lose_and_double_nothing(hermes_home: Path, seed: int) -> None:
    chat = Shelf(hermes_home, seed)
    chat.plays(12)

    assert chat.verdict() == (0, 0, False)
