"""The journal: what operators did, from whatever place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from worlds.earlier import used
from worlds.home import Home, healthy

from hermes_lcm import command
from hermes_lcm.ops import journal
from hermes_lcm.ops.answers import OK


@pytest.fixture
def world(tmp_path: Path) -> Home:
    return healthy(tmp_path / "home")


def noted(world: Home) -> list[str]:
    return [each["words"] for each in journal.entries(world.runtime.db)]


def test_what_is_done_is_noted_and_what_is_shown_is_not(world: Home) -> None:
    """Applied and taken back; a dry run, a refusal and a look leave no trace."""
    for words in ("dissolve sum_1", "dissolve sum_1 apply", "dissolve sum_9 apply", "dissolve sum_1 undo", "status"):
        command.answer(words, world.deps(trusted=True))

    assert noted(world) == ["dissolve sum_1 apply", "dissolve sum_1 undo"]


_IDLE = (
    "doctor clean", "doctor repair", "doctor accept", "doctor source", "doctor duplicates", "retention",
    "purge matching 'never said'", "rotate", "restore", "preset use balanced", "import lcm-exports/s1.jsonl",
)  # fmt: skip


@pytest.mark.parametrize("words", _IDLE)
def test_an_apply_that_changed_nothing_is_not_noted(world: Home, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal names changes: where there was nothing to do, there is none."""
    monkeypatch.chdir(world.home)
    world.runtime.config = replace(world.runtime.config, doctor_clean_apply_enabled=True, fresh_tail_count=1000)
    command.answer("export s1", world.deps(trusted=True))
    said = command.answer(f"{words} apply", world.deps(trusted=True))

    assert said.code == OK, said.text
    assert noted(world) == []


def test_a_database_that_was_adopted_in_its_place_is_noted(tmp_path: Path) -> None:
    """Once: the second time there is nothing left to do."""
    used(tmp_path / "home")[0].close()
    for _ in range(2):
        world = Home(tmp_path / "home")
        command.answer("adopt apply", world.deps(None, trusted=True))
        world.close()

    assert noted(world) == ["adopt apply"]


def test_a_pin_that_was_there_is_not_noted_twice(world: Home) -> None:
    """What is done at once is noted where it changed something, too."""
    for words in (
        "pin msg_2",
        "pin msg_2",
        "pin msg_2 undo",
        "pin msg_2 undo",
        "pin s1",
        "pin s1",
        "dissolve sum_1 undo",
    ):
        command.answer(words, world.deps(trusted=True))

    assert noted(world) == ["pin msg_2", "pin msg_2 undo", "pin s1"]


def test_what_was_purged_leaves_no_word_in_the_journal(world: Home) -> None:
    """Its text is what nobody shall find again; a hold is noted with its address."""
    for words in ("pin msg_2", "purge matching 'message 5 about'", "purge matching 'message 5 about' apply"):
        command.answer(words, world.deps(trusted=True))

    assert noted(world) == ["pin msg_2", "purge apply"]


def test_a_setting_that_nothing_shows_is_not_shown_by_the_journal(world: Home, hermes_home: Path) -> None:
    """A server's password would stand in the file, its backups and the dashboard."""
    command.answer("config set fleet_dsn postgresql://anna:swordfish@server/lcm", world.deps(trusted=True))

    assert noted(world) == ["config set fleet_dsn (set)"]
    assert "swordfish" not in str(journal.entries(world.runtime.db))


def test_the_verb_tells_the_newest_first(world: Home) -> None:
    """With the first line of each answer, and how to see more."""
    for n in range(3):
        journal.note(world.runtime.db, f"dissolve sum_{n} apply", f"done {n}\nand more", now=1_700_000_000.0 + n)
    lines = command.answer("journal --limit 2", world.deps(trusted=True)).text.splitlines()

    assert [line.split("  ")[1:] for line in lines[:2]] == [
        ["dissolve sum_2 apply", "done 2"],
        ["dissolve sum_1 apply", "done 1"],
    ]
    assert "--limit 10" in lines[2]


def test_the_journal_is_the_operators(world: Home) -> None:
    """It tells of the whole archive, so a chat is not told."""
    world.say("hello", "hi", session="t", platform="telegram")

    assert "the operator's" in command.answer("journal", world.deps("t")).text


def test_the_journal_keeps_the_newest(world: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many entries, and no more."""
    monkeypatch.setattr(journal, "MOST", 3)
    for n in range(5):
        journal.note(world.runtime.db, f"verb {n}", "", now=float(n))

    assert noted(world) == ["verb 2", "verb 3", "verb 4"]
