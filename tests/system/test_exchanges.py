"""Chats whose files are exchanged, and merged by processes that were killed in between (P1)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from worlds.process import Chat
from worlds.shelf import Shelf

from hermes_lcm.text import markup

HOLDS = (0, 0, False)
_EVERY_CAUSE = (10, 21, 27, 35, 41, 56, 73, 80, 88, 94, 142, 158, 166, 203, 237, 291)
_UNDONE = (5, 7, 46, 59)


def after(home: Path, story: str) -> tuple[int, int, int]:
    """What is lost and what is doubled when everything is merged."""
    chat = Shelf(home, 1)
    chat.goes(story)
    chat.merge_all()
    chat.says(1)
    return chat.verdict()


def test_a_message_that_a_new_process_shows_alone_to_an_older_copy_is_there_once(hermes_home: Path) -> None:
    """All that the copy lacks is this one message, and the file that has it comes later."""
    chat = Shelf(hermes_home, 1)
    chat.goes("ok 0 yes ok ok go kept ok exchanged killed")
    chat.shows()
    chat.says(1)
    chat.merge_all()

    assert chat.verdict() == HOLDS


@pytest.mark.parametrize("words", ["ok 0 ok 1", "ok 0 ok", "ok"])
@pytest.mark.parametrize("last", ["emptied", "exchanged"])
def test_a_record_between_older_rows_and_its_list_is_no_undo_of_what_its_summaries_cover(
    hermes_home: Path, words: str, last: str
) -> None:
    """The copy knows no prompt, so it keeps the record behind what it has, but for words with which the list begins."""
    assert after(hermes_home, f"{words} kept ... exchanged killed ok {last}") == HOLDS


def test_older_rows_behind_a_record_are_known_by_their_time_where_their_number_was_taken(hermes_home: Path) -> None:
    """A copy took them for the beginning of the list; another one gave their number to the record."""
    assert after(hermes_home, "0 1 kept ok kept ... ok exchanged ok older killed ok") == HOLDS


def test_a_record_in_front_of_what_a_copy_took_for_its_list_is_no_message_of_a_list(hermes_home: Path) -> None:
    """The copy ends with words with which the list begins; the list means others that say the same."""
    assert after(hermes_home, "ok 2 kept emptied killed ok merged ... exchanged ok") == HOLDS


def test_what_was_merged_into_a_file_comes_in_front_of_it_in_its_copy_too(hermes_home: Path) -> None:
    """All that the copy has came from that file, and what else is there lies before it."""
    assert after(hermes_home, "... emptied ok kept merged exchanged") == HOLDS


def test_what_a_list_showed_between_two_copies_is_not_new(hermes_home: Path) -> None:
    """Two files have the same rows; by the second time some of them are here by their numbers, one by its place alone."""
    assert after(hermes_home, "ok kept ok exchanged killed ok renewed back") == HOLDS


def test_a_file_that_explains_a_record_is_merged_before_older_ones(hermes_home: Path) -> None:
    """An older one says words that stand behind the record, too."""
    assert after(hermes_home, "ok 0 ok ok ok 1 kept ok 2 ok ok ok ok ok killed emptied ok 1 ... exchanged ok") == HOLDS


def test_a_number_that_an_older_copy_gives_out_again_is_no_proof(hermes_home: Path) -> None:
    """Another message that says the same has it there."""
    story = "go go yes go yes ok emptied kept ok ok ok 0 ok ok exchanged killed yes yes exchanged"
    assert after(hermes_home, story) == HOLDS


@pytest.mark.parametrize("killed", ["", "killed"])
def test_where_a_list_behind_a_record_begins_is_not_known_before_its_prompt(hermes_home: Path, killed: str) -> None:
    """Another file begins with the same words, but at the beginning of the chat."""
    assert after(hermes_home, f"ok 0 ok 1 ok killed ... {killed} emptied killed ok") == HOLDS


def test_what_a_list_shows_behind_a_record_is_what_the_file_that_explains_it_has(hermes_home: Path) -> None:
    """The process had stored some of it elsewhere before, at another time than the record."""
    assert after(hermes_home, "... kept ok exchanged killed ok emptied ok") == HOLDS


@pytest.mark.parametrize("last", ["exchanged back", "killed yes exchanged go"])
def test_what_was_taken_back_and_said_again_stays_where_a_copy_of_in_between_is_merged(
    hermes_home: Path, last: str
) -> None:
    """The copy has it as taken back, whichever of the two files is merged into the other."""
    assert after(hermes_home, f"ok 0 ok 1 ok 2 undo yes yes undo kept ok 2 ... ok {last}") == HOLDS


@pytest.mark.parametrize(
    "story",
    [
        "ok 0 ok 1 yes emptied killed go undo ok",
        "go 0 kept yes 1 ok kept 0 undo ok go ok 1 ok go older killed yes",
    ],
    ids=["here", "there"],
)
def test_what_was_taken_back_in_one_of_two_files_is_no_difference_of_their_lists(hermes_home: Path, story: str) -> None:
    """The other file has it, stored at another time by another process, and may have what follows it, too."""
    assert after(hermes_home, story) == HOLDS


def test_a_row_that_a_merge_has_found_to_be_another_file_s_is_known_by_both_times(hermes_home: Path) -> None:
    """A third file has it from the other one, and no prompt that could tell where a list with it begins."""
    story = "2 yes 0 ok 1 ok 2 ok yes kept yes 1 1 ok 1 ok ok ok kept 2 killed ok yes yes ok yes yes ok ok yes"
    assert after(hermes_home, f"{story} older killed ok kept merged older") == HOLDS


def test_a_file_that_explains_a_record_is_merged_first_though_a_record_of_its_own_waits(hermes_home: Path) -> None:
    """Each of three files begins with a prompt that the one before it knows."""
    assert after(hermes_home, "... ... 1 ok 0 ok 0 ok 1 ok 0 ok 2 emptied ok ok emptied killed 1") == HOLDS


def test_a_record_that_no_prompt_explains_yet_waits_for_the_file_that_does(hermes_home: Path) -> None:
    """The file that explains the record of the last list began with a record of its own."""
    story = "a b kept c ... exchanged killed d ... emptied killed e merged f"
    assert after(hermes_home, story) == HOLDS


@pytest.mark.parametrize(
    "story", ["a b kept ... c branch exchanged ... emptied d", "a kept b ... c branch exchanged killed d ... emptied e"]
)
def test_a_branch_of_two_records_shows_what_the_file_that_explains_the_older_one_brings(
    hermes_home: Path, story: str
) -> None:
    """Two files began with the record of a list, and the prompt of each is in the file before it."""
    assert after(hermes_home, story) == HOLDS


@pytest.mark.parametrize(
    "story",
    [
        "a b c d e f undo g h emptied i j branch k l",
        "a b c d e f g h undo i j ... k branch emptied killed l",
        "a b c d e f kept g h undo i j ... k branch exchanged ... emptied l",
    ],
)
def test_what_was_taken_back_before_a_branch_began_is_no_part_of_it(hermes_home: Path, story: str) -> None:
    """The branch began in a file that lacked its past; the file that has it, with what was taken back, comes later."""
    assert after(hermes_home, story) == HOLDS


def test_a_branch_shows_what_its_parent_took_back_after_it_began(hermes_home: Path) -> None:
    """It goes on in an empty file behind a record; the file that comes later has both conversations."""
    chat = Shelf(hermes_home, 1)
    chat.goes("a b c d e f g h")
    live, thread = Chat(chat.live), [*chat.thread]
    chat.goes("branch i j")
    branch = chat.names, chat.live, chat.thread
    chat.names, chat.live, chat.thread = chat.names[:1], live, thread
    chat.goes("undo k l")
    chat.names, chat.live, chat.thread = branch
    chat.goes("m n ... emptied killed o merged p")

    assert chat.verdict() == HOLDS


@pytest.mark.parametrize("story", ["a b ... c branch emptied killed d", "a b ... c emptied killed d renewed"])
def test_a_record_whose_prompt_has_come_is_no_message_any_more(hermes_home: Path, story: str) -> None:
    """The file that brings it knows nothing of the branch; or a copy that still keeps it as text is merged later."""
    chat = Shelf(hermes_home, 1)
    chat.goes(f"{story} merged e f")

    assert chat.verdict() == HOLDS
    assert chat.world.store.imported([1, 2]) == []


@pytest.mark.parametrize("more", ["", "ok ok ok"])
def test_what_a_file_took_for_its_last_words_behind_a_record_is_no_proof_in_another(
    hermes_home: Path, more: str
) -> None:
    """The list began with words that say the same."""
    assert after(hermes_home, f"ok kept 0 ... {more} exchanged killed ok emptied ok") == HOLDS


@pytest.mark.parametrize(
    "story",
    [
        "ok ok ok yes | ok emptied killed yes yes | back yes",
        "yes yes kept yes ok | yes exchanged killed yes yes | back ok ok",
    ],
)
def test_a_list_that_is_shown_by_a_clock_that_went_back_is_that_list(
    hermes_home: Path, monkeypatch: pytest.MonkeyPatch, story: str
) -> None:
    """It was stored before its messages were said, by their times."""
    real, behind = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() - behind[0])
    chat = Shelf(hermes_home, 1)
    for part in story.split("|"):
        chat.goes(part)
        behind[0] += 60
    chat.merge_all()
    chat.says(1)

    assert chat.verdict() == HOLDS


def test_two_lists_that_began_with_one_record_show_the_same_behind_it(hermes_home: Path) -> None:
    """Where nothing that is merged by then knows its prompt."""
    said = (
        "ok yes yes ok yes 1 ok yes yes yes yes ok ok 1 ok yes ok 1 yes ok yes ok ok ok ok 2 yes 2 killed yes 0 ok ok"
    )
    story = "kept 0 kept yes 2 yes 1 ok 0 yes older killed 0 ok merged yes ok 0 ok 2 emptied ok emptied killed yes 1"
    assert after(hermes_home, f"{said} {story}") == HOLDS


@pytest.mark.parametrize("ours", ["record", "carrier", "stub"])
@pytest.mark.parametrize("first", ["", "ok"])
def test_text_of_ours_that_somebody_repeats_word_for_word_is_a_message(
    hermes_home: Path, ours: str, first: str
) -> None:
    """The file that is merged knows it for that, so it has stored it."""
    chat = Shelf(hermes_home, 1)
    chat.goes(f"... kept {first}")
    record, carrier = (each["content"] for each in chat.live[:2])
    context = markup.read_context(record)
    assert context is not None
    quoted = {"record": record, "carrier": carrier, "stub": markup.stub(context.nonce, 10_001, "", "ok")}[ours]
    chat.says_this(quoted)
    chat.goes("ok exchanged merged")

    assert [each["content"] for each in chat.shown()].count(quoted) == 1


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", [*range(1, 6), *_EVERY_CAUSE])
def test_files_that_are_exchanged_at_random_lose_and_double_nothing(hermes_home: Path, seed: int) -> None:
    chat = Shelf(hermes_home, seed)
    chat.plays(20)

    assert chat.verdict() == HOLDS


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", _UNDONE)
def test_files_that_are_exchanged_at_random_lose_and_double_nothing_of_what_was_undone(
    hermes_home: Path, seed: int
) -> None:
    chat = Shelf(hermes_home, seed, undo=True)
    chat.plays(20)

    assert chat.verdict() == HOLDS
