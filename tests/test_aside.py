"""A message of megabytes lies in a file of its own until its turn is over, and no moment of that loses a word of it (P1, P2)."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ops_world import World as Home
from ops_world import corrupt
from world import World, chat

from hermes_lcm import durable
from hermes_lcm.aside import Aside, folder_of
from hermes_lcm.blocks import Blocks
from hermes_lcm.db.connection import Database, Databases
from hermes_lcm.errors import StoreCorrupt, StoreError
from hermes_lcm.ops import backup, clean, repair
from hermes_lcm.ops.check_content import search_index
from hermes_lcm.ops.check_payloads import payload_files
from hermes_lcm.ops.status import disk_of
from hermes_lcm.records import Scope
from hermes_lcm.runtime import Runtime
from hermes_lcm.text import huge as loose
from hermes_lcm.text import words
from hermes_lcm.text.packing import HUGE_BYTES, LARGE_BYTES, Reference, unpack

SAYS = "The quokka said so in line 17000."


def huge(seed: int = 0) -> str:
    """An output of more than HUGE_BYTES."""
    rng = random.Random(seed)
    lines = [f"line {n} of a log ü {rng.randrange(10**6)}" for n in range(HUGE_BYTES // 24)]
    lines[17000] = SAYS
    return "\n".join(lines)


def conversation(seed: int = 0) -> Any:
    return chat().turns(2).calls("a").results("a", text=huge(seed)).says("I see")


def world_with(tmp_path: Path, **settings: Any) -> World:
    world = World(tmp_path, **settings)
    world.take(conversation())
    return world


def files(world: World | Home) -> list[Path]:
    path = world.path if isinstance(world, Home) else world.runtime.path
    return sorted(folder_of(path).glob("*"))


def sizes(world: World) -> list[int]:
    """Bytes of every envelope in the database."""
    return [row[0] for row in world.db.query("SELECT length(envelope) FROM messages ORDER BY store_id")]


def said(world: World) -> list[dict[str, Any]]:
    return [row.envelope for rows in world.runtime.whole_store.every() for row in rows]


def always() -> bool:
    return True


def aged(world: World) -> None:
    """The files have not been touched for two minutes."""
    for path in files(world):
        os.utime(path, (time.time() - 120, time.time() - 120))


# -- the way in --------------------------------------------------------------------------------------------------
def test_a_huge_message_lies_aside_when_its_turn_goes_on(tmp_path: Path) -> None:
    """Whole, in a file for its owner alone; the row says where."""
    world = world_with(tmp_path)
    (path,) = files(world)

    assert sizes(world)[5] <= Reference.MOST_BYTES
    assert path.stat().st_size > HUGE_BYTES
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    assert said(world) == list(conversation())
    assert world.take(conversation()).stored == 0


@pytest.mark.parametrize(
    "piece",
    ['{"path": "C:\\\\x", "n": 1}\n', "\x1b[32mok\x1b[0m\r\n", "\0\x7f\u2028", "12 34\n{", "\U0001f9a5 é"],
    ids=["JSON", "colours", "control characters", "looks like a head", "characters of four bytes"],
)
def test_it_comes_back_exactly_from_its_file_and_from_its_row(piece: str, tmp_path: Path) -> None:
    """Whatever JSON must do to its text, and wherever that stands in the message."""
    world = World(tmp_path)
    text = piece * (HUGE_BYTES // len(piece) + 1)
    result = {"content": text, "role": "tool", "tool_call_id": "a", "name": "terminal", "tool_name": "terminal"}
    messages = [*chat().turns(1).calls("a"), result, *chat().says('I "see"')]
    world.take(messages)
    aside = files(world)
    first = said(world)
    world.runtime.upkeep.between_turns()

    assert (len(aside), world.runtime.upkeep.deflating.waiting()) == (1, 0)
    assert list(map(json.dumps, first)) == list(map(json.dumps, said(world))) == list(map(json.dumps, messages))


def test_a_message_of_less_goes_into_its_row(tmp_path: Path) -> None:
    """A file beside the database is worth its while for few."""
    world = World(tmp_path)
    world.take(chat().user("a" * (HUGE_BYTES - 100)).says("I see"))

    assert files(world) == []


@pytest.mark.parametrize("step", ["between_turns", "at_end"])
def test_it_comes_into_its_row_behind_the_turn(step: str, tmp_path: Path) -> None:
    """Deflated; the doctor knows how many wait."""
    world = world_with(tmp_path)
    waiting = world.runtime.upkeep.deflating.waiting()
    getattr(world.runtime.upkeep, step)()

    assert (waiting, world.runtime.upkeep.deflating.waiting()) == (1, 0)
    assert Reference.MOST_BYTES < sizes(world)[5] < HUGE_BYTES
    assert said(world) == list(conversation())


def test_its_file_goes_a_minute_later_or_when_the_session_ends(tmp_path: Path) -> None:
    """Whoever read the row just before still opens it."""
    world = world_with(tmp_path)
    upkeep = world.runtime.upkeep
    upkeep.between_turns()
    kept = files(world)
    aged(world)
    upkeep.between_turns()
    gone = files(world)
    world.take(conversation().user(huge(2)))
    upkeep.at_end()

    assert (len(kept), gone, files(world)) == (1, [], [])
    assert said(world) == [*conversation(), {"role": "user", "content": huge(2)}]


def test_what_does_not_get_smaller_comes_into_its_row_as_it_is(tmp_path: Path) -> None:
    """Random characters of many alphabets."""
    rng = random.Random(3)
    text = "".join(map(chr, (rng.randrange(0xA000, 0xD700) for _ in range(HUGE_BYTES // 2))))
    world = World(tmp_path)
    world.take(chat().user(text).says("I see"))
    world.runtime.upkeep.at_end()

    assert (sizes(world)[0] > LARGE_BYTES, files(world)) == (True, [])
    assert said(world)[0]["content"] == text


def test_it_is_found_and_read_before_it_came_into_its_row(tmp_path: Path) -> None:
    """By whoever asks in the very next moment."""
    world = world_with(tmp_path)
    world.runtime.store.index_waiting()
    found = world.runtime.index.search(words.parse("quokka"), scope=Scope(), limit=5)

    assert found.hits[0].store_id == 6
    assert SAYS in world.runtime.view_store.text(6)


# -- faults ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["open", "fsync", "replace", "mkdir"])
def test_where_the_file_cannot_be_written_the_row_holds_the_message(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status says so until it works again."""
    world = World(tmp_path)
    world.take(chat().turns(1))
    plain = getattr(os, name)

    def full(path: Any, *args: Any, **keys: Any) -> Any:
        if name == "fsync" or "-aside" in str(path):
            raise OSError(28, "No space left on device")
        return plain(path, *args, **keys)

    live = chat().turns(1).user(huge())
    with monkeypatch.context() as broken:
        broken.setattr(os, name, full)
        world.take(live)

    assert (sizes(world)[-1] > HUGE_BYTES, files(world)) == (True, [])
    assert [each.topic for each in world.health.problems()] == ["huge messages"]
    assert said(world) == list(live)
    world.take(live.says("ok").user(huge(2)))
    assert world.health.problems() == []
    assert (said(world), len(files(world))) == (list(live), 1)


def test_a_row_that_could_not_be_written_leaves_a_file_that_is_removed(tmp_path: Path) -> None:
    """Never the other way round: each statement of storing a huge message fails in turn."""
    world = World(tmp_path)
    world.take(chat().turns(2))
    failed = 0
    for number in range(1, 100):
        try:
            with world.failing_at(number):
                world.take(conversation())
            break
        except StoreError:
            failed += 1
            assert len(files(world)) == failed
    aged(world)
    world.runtime.upkeep.deflating.step(lambda: False)

    assert failed >= 2
    assert len(files(world)) == 1
    assert said(world) == list(conversation())


def test_every_statement_of_bringing_it_home_may_fail(tmp_path: Path) -> None:
    """What it says is the same before and after each; the next time does the rest."""
    world = world_with(tmp_path)
    failed = 0
    for number in range(1, 100):
        try:
            with world.failing_at(number):
                world.runtime.upkeep.deflating.step(always, kept_s=0)
            break
        except StoreError:
            failed += 1
            assert said(world) == list(conversation())
    world.runtime.upkeep.deflating.step(always, kept_s=0)

    assert failed >= 2
    assert files(world) == []
    assert said(world) == list(conversation())


def test_what_a_killed_process_left_comes_home_by_the_next_one(tmp_path: Path) -> None:
    """Nothing that only a process knows is needed for it, and half a file is removed in time."""
    world = world_with(tmp_path)
    half = folder_of(world.runtime.path) / ".1-9-00000000.1.1"
    half.write_bytes(b"{")
    again = World(tmp_path)
    again.runtime.upkeep.deflating.step(always, kept_s=0)
    young = half.exists()
    aged(again)
    again.runtime.upkeep.deflating.step(always)

    assert (young, files(again)) == (True, [])
    assert said(again) == list(conversation())


def test_a_file_that_another_process_sweeps_before_its_row_is_written_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended its session in between, when no row referred to the file yet."""
    world, other = World(tmp_path), World(tmp_path)
    world.take(chat().turns(2))
    plain = Aside.lay

    def swept(self: Aside, *args: Any) -> Any:
        laid = plain(self, *args)
        other.runtime.upkeep.deflating.step(lambda: False, kept_s=0)
        return laid

    monkeypatch.setattr(Aside, "lay", swept)
    world.take(conversation())

    assert files(world) == []
    assert said(world) == list(conversation())


def test_who_read_the_row_before_reads_the_message_after_it_came_home(tmp_path: Path) -> None:
    """Another process brought it home and swept in between."""
    world, other = world_with(tmp_path), World(tmp_path)
    ((stored,),) = world.db.query("SELECT envelope FROM messages WHERE store_id = 6")
    before = world.store.envelope(6, stored)
    other.runtime.upkeep.deflating.step(always, kept_s=0)

    assert files(world) == []
    assert world.store.envelope(6, stored) == before


def test_who_is_in_the_middle_of_reading_all_rows_reads_it_after_it_came_home(tmp_path: Path) -> None:
    """An open cursor keeps all reads of its process at the moment when it began; the file goes by what is true now."""
    world, other = world_with(tmp_path), World(tmp_path)
    read = []
    for batch in world.db.iterate("SELECT store_id, envelope FROM messages ORDER BY store_id", size=1):
        if not read:
            other.runtime.upkeep.deflating.step(always, kept_s=0)
        read += [json.loads(world.store.envelope(*row)) for row in batch]

    assert files(world) == []
    assert read == list(conversation())


def test_what_somebody_else_put_into_the_folder_is_left_alone(tmp_path: Path) -> None:
    """And keeps nothing from coming home."""
    world = world_with(tmp_path)
    folder = folder_of(world.runtime.path)
    (folder / ".Trash").mkdir()
    (folder / "1-6-0123abcd").mkdir()
    (folder / ".nfs0001").touch()
    (folder / "notes.txt").touch()
    aged(world)
    world.runtime.upkeep.at_end()

    assert [path.name for path in files(world)] == [".Trash", ".nfs0001", "1-6-0123abcd", "notes.txt"]
    assert said(world) == list(conversation())
    assert world.health.problems() == []


@pytest.mark.parametrize("name", ["unlink", "listdir"])
def test_a_file_that_cannot_be_removed_stays_until_it_can(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status says so meanwhile, and the rest of the upkeep is done."""
    world = world_with(tmp_path)
    plain = getattr(os, name)

    def refused(path: Any, *args: Any, **keys: Any) -> Any:
        if "-aside" in str(path):
            raise PermissionError(13, "Permission denied")
        return plain(path, *args, **keys)

    with monkeypatch.context() as broken:
        broken.setattr(os, name, refused)
        world.runtime.upkeep.at_end()
    kept, told = files(world), [each.topic for each in world.health.problems()]
    world.runtime.upkeep.at_end()

    assert (len(kept), told) == (1, ["files of huge messages"])
    assert (files(world), world.health.problems()) == ([], [])
    assert said(world) == list(conversation())


def test_a_folder_that_somebody_has_emptied_is_no_problem_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left that could not be removed."""
    world = world_with(tmp_path)
    plain = os.unlink

    def refused(path: Any, *args: Any, **keys: Any) -> Any:
        if "-aside" in str(path):
            raise PermissionError(13, "Permission denied")
        return plain(path, *args, **keys)

    with monkeypatch.context() as broken:
        broken.setattr(os, "unlink", refused)
        world.runtime.upkeep.at_end()
    told = [each.topic for each in world.health.problems()]
    shutil.rmtree(folder_of(world.runtime.path))
    world.runtime.upkeep.at_end()

    assert (told, world.health.problems()) == (["files of huge messages"], [])


def test_a_file_in_the_place_of_the_folder_keeps_no_message_and_no_upkeep_from_their_way(tmp_path: Path) -> None:
    """The row holds the message then."""
    world = World(tmp_path)
    world.take(chat().turns(1))
    folder_of(world.runtime.path).touch()
    world.take(conversation())
    world.runtime.upkeep.at_end()

    assert said(world) == list(conversation())


def test_databases_of_nearly_one_name_do_not_share_a_folder(tmp_path: Path) -> None:
    """Each would remove what the other still needs."""
    names = ("lcm.db", "lcm.sqlite3", "lcm")

    assert len({folder_of(tmp_path / name) for name in names}) == len(names)


def test_a_database_has_one_folder_under_all_its_names(tmp_path: Path) -> None:
    """Processes that open it through a link and directly read each other's messages."""
    world = world_with(tmp_path)
    link = tmp_path / "elsewhere" / "mine.db"
    link.parent.mkdir()
    link.symlink_to(world.runtime.path)
    other = Runtime(link, world.runtime.config, Databases())

    assert [row.envelope for rows in other.whole_store.every() for row in rows] == list(conversation())


def test_a_row_that_changed_meanwhile_stays_as_it_became(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator in another process was faster."""
    world, other = world_with(tmp_path), World(tmp_path)
    plain = Aside.read

    def slow(self: Aside, reference: Reference) -> bytes:
        with other.db.transaction():
            other.db.execute("UPDATE messages SET envelope = ? WHERE store_id = 6", (b"\0{}",))
        return plain(self, reference)

    monkeypatch.setattr(Aside, "read", slow)
    assert world.runtime.upkeep.deflating.step(always) == 0
    assert sizes(world)[5] == 3


def test_the_files_of_a_removed_session_go_with_it(tmp_path: Path) -> None:
    """Nothing refers to them any more."""
    world = world_with(tmp_path)
    with world.db.transaction():
        world.db.execute("DELETE FROM messages WHERE store_id = 6")
    world.runtime.upkeep.at_end()

    assert files(world) == []


# -- operators ---------------------------------------------------------------------------------------------------
def test_the_doctor_names_messages_whose_file_is_gone(tmp_path: Path) -> None:
    """They raise an error that says where the file should be; all others are read."""
    home = Home(tmp_path / "home")
    home.say("hello", huge(), "thanks")
    deps = replace(home.deps(), payloads=home.runtime.payloads)
    before = payload_files(deps, False)
    files(home)[0].unlink()
    after = payload_files(deps, False)

    assert (before.status, after.status, after.data["huge_missing"]) == ("pass", "fail", ["msg_2"])
    with pytest.raises(StoreCorrupt, match=r"lcm\.db-aside") as refused:
        home.runtime.store.rows([2])
    assert "put the file back" in refused.value.remedy
    assert [row.text for row in home.runtime.store.rows([1, 3])] == ["hello", "thanks"]
    home.runtime.ended()
    assert payload_files(deps, False).status == "fail"


@pytest.mark.parametrize("what", ["lost", "changed"])
def test_a_lost_file_is_no_damage_of_the_database(what: str, tmp_path: Path) -> None:
    """Nothing that a repair could do would bring it back: it rewrites nothing, and what can be read stays found."""
    home = Home(tmp_path / "home")
    home.say("hello", huge(), "thanks")
    (path,) = files(home)
    path.unlink() if what == "lost" else path.write_bytes(b"{}")
    home = home.restart()
    deps = replace(home.deps(), payloads=home.runtime.payloads)
    done = repair.repair(deps)
    home.runtime.rebuild_indexes()
    found = home.runtime.index.search(words.parse("thanks"), scope=Scope(), limit=5).hits

    assert done.diagnosis.well
    assert payload_files(deps, True).data["huge_missing"] == ["msg_2"]
    assert search_index(deps, False).status == "fail"
    assert [hit.store_id for hit in found if hit.rung != "near"] == [3]


def test_a_rebuilt_index_takes_in_what_could_not_be_read_once_it_can_be(tmp_path: Path) -> None:
    """The next search does. Until then status tells of it."""
    world = world_with(tmp_path)
    (path,) = files(world)
    moved = path.rename(tmp_path / "moved")
    world.runtime.rebuild_indexes()
    before = [problem.topic for problem in world.runtime.health.problems()]
    moved.rename(path)
    found = world.runtime.index.search(words.parse("zebra quokka"), scope=Scope(), limit=5).hits

    assert 6 in [hit.store_id for hit in found]
    assert (before, world.runtime.health.problems()) == (["unreadable messages"], [])


def test_a_lost_file_keeps_nothing_behind_it_from_being_stored(tmp_path: Path) -> None:
    """Redacted messages are read again to recognise what a prompt of ours showed of them."""
    lost = {"role": "user", "content": "password=hunter2xyz9", "reasoning": huge()}
    world = World(tmp_path, sensitive_patterns_enabled=True)
    world.take([*chat().turns(2), lost])
    files(world)[0].unlink()
    again = World(tmp_path, sensitive_patterns_enabled=True)
    shown = {**lost, "content": "password=[redacted:password_assignment]"}
    done = again.take([*chat().turns(2), shown, {"role": "assistant", "content": "fine"}])

    assert [row.text for row in again.store.rows(done.entries[-1].ids)] == ["fine"]


def test_a_file_that_was_put_back_comes_home(tmp_path: Path) -> None:
    """Others have come home meanwhile, so its turn was over."""
    world = world_with(tmp_path)
    (path,) = files(world)
    moved = path.rename(tmp_path / "moved")
    world.take(conversation().user(huge(2)).says("I see"))
    world.runtime.upkeep.at_end()
    moved.rename(path)
    aged(world)
    world.runtime.upkeep.at_end()

    assert files(world) == []
    assert said(world)[: len(conversation())] == list(conversation())


def test_a_file_that_was_changed_is_never_taken_for_the_message(tmp_path: Path) -> None:
    """It stays where it is, for whoever looks into it."""
    home = Home(tmp_path / "home")
    home.say("hello", huge())
    files(home)[0].write_bytes(files(home)[0].read_bytes().replace(b"quokka", b"wombat"))
    home.runtime.ended()

    with pytest.raises(StoreCorrupt, match="does not hold what was written"):
        home.runtime.store.rows([2])
    assert len(files(home)) == 1


def test_status_counts_the_files(tmp_path: Path) -> None:
    """By their own name among what the disk holds."""
    home = Home(tmp_path / "home")
    home.say("hello", huge())

    assert disk_of(home.path, None)["huge_messages"] == files(home)[0].stat().st_size


def test_what_lay_aside_of_a_session_is_removed_with_it(tmp_path: Path) -> None:
    """At once: a command of an operator is over when it says so."""
    home = Home(tmp_path / "home", doctor_clean_apply_enabled="true", ignore_session_patterns="junk*")
    home.say("hello", huge(), session="junk-1")
    home.say("hello", huge(2), session="s1")
    done = clean.clean(home.deps(None))

    assert (done.removed_messages, len(files(home))) == (2, 1)
    assert [row.text for row in home.runtime.store.rows([3, 4])] == ["hello", huge(2)]


def test_a_backup_holds_messages_that_lay_aside(tmp_path: Path) -> None:
    """It is one file, and its copy in another home is complete."""
    home = Home(tmp_path / "home")
    home.say("hello", huge(), "thanks")
    made = backup.back_up(home.deps())
    home.close()
    shutil.rmtree(folder_of(home.path))
    fresh = Home(tmp_path / "fresh")
    backup.restore(fresh.deps(None), str(made.path))

    assert [row.text for row in fresh.runtime.store.rows([1, 2, 3])] == ["hello", huge(), "thanks"]


def test_a_backup_says_which_messages_it_lacks(tmp_path: Path) -> None:
    """It is sound but for them; putting it back says so too, before it is done."""
    home = Home(tmp_path / "home")
    home.say("hello", huge(), "thanks")
    (path,) = files(home)
    moved = path.rename(tmp_path / "moved")
    made = backup.back_up(home.deps())
    without = backup.plan_restore(home.deps(None), str(made.path)).lost
    moved.rename(path)
    done = backup.restore(home.deps(None), str(made.path))

    assert (made.lost, without, done.lost) == (("msg_2",), ("msg_2",), ())
    assert [row.text for row in home.runtime.store.rows([1, 2, 3])] == ["hello", huge(), "thanks"]


def test_a_copy_that_somebody_made_of_the_database_alone_finds_the_files_where_they_still_are(tmp_path: Path) -> None:
    """They are taken into it before those go that the database itself needs no more."""
    home = Home(tmp_path / "home")
    home.say("hello", huge())
    home.close()
    copy = tmp_path / "copy.db"
    shutil.copyfile(home.path, copy)
    backup.restore(home.deps(None), str(copy))

    assert [row.text for row in home.runtime.store.rows([1, 2])] == ["hello", huge()]


def test_a_backup_holds_messages_that_came_home_while_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy refers to a file that is gone when it is looked at."""
    home = Home(tmp_path / "home")
    home.say("hello", huge(), "thanks")
    plain = home.runtime.db.backup

    def slow(target: Path) -> None:
        plain(target)
        Home(tmp_path / "home").runtime.ended()

    monkeypatch.setattr(home.runtime.db, "backup", slow)
    made = backup.back_up(home.deps())
    copy = sqlite3.connect(made.path)
    ((stored,),) = copy.execute("SELECT envelope FROM messages WHERE store_id = 2").fetchall()
    copy.close()

    assert files(home) == []
    assert SAYS in unpack(stored)


def test_what_a_restore_keeps_of_the_database_is_complete(tmp_path: Path) -> None:
    """Whoever puts it back later finds no folder beside it."""
    home = Home(tmp_path / "home")
    home.say("hello")
    made = backup.back_up(home.deps())
    home.say("hello", huge())
    done = backup.restore(home.deps(None), str(made.path))
    assert done.kept is not None
    home.runtime.ended()
    shutil.rmtree(folder_of(home.path), ignore_errors=True)
    backup.restore(home.deps(None), str(done.kept))

    assert [row.text for row in home.runtime.store.rows([1, 2])] == ["hello", huge()]


def test_a_damaged_database_is_rescued_with_what_lies_aside(tmp_path: Path) -> None:
    """Its rows refer to the same files from the new one."""
    home = corrupt(tmp_path / "home")
    home.runtime.db.open()
    home.say("hello", huge(), "thanks", session="s2")
    repaired = repair.repair(home.deps())

    assert repaired.diagnosis.damaged
    assert [row.text for row in home.runtime.store.rows([101, 102, 103])] == ["hello", huge(), "thanks"]


def kept_message(kept: Path) -> str:
    """What message 102 says in a database that was kept."""
    copy = sqlite3.connect(kept)
    ((stored,),) = copy.execute("SELECT envelope FROM messages WHERE store_id = 102").fetchall()
    copy.close()
    said = json.loads(Blocks(Database(kept)).envelope(102, stored))
    return str(said["content"])


def test_the_damaged_database_that_a_repair_keeps_has_its_files(tmp_path: Path) -> None:
    """Rows that could not be saved may be read from it by better means, when nothing else refers to the files any more."""
    home = corrupt(tmp_path / "home")
    home.runtime.db.open()
    home.say("hello", huge(), "thanks", session="s2")
    done = repair.repair(home.deps())
    home.runtime.ended()

    assert done.kept is not None
    assert files(home) == []
    assert kept_message(done.kept) == huge()


def test_the_damaged_database_that_a_restore_keeps_has_its_files(tmp_path: Path) -> None:
    """From a damaged database not every huge message comes home first, and the restored one needs none of the files."""
    other = Home(tmp_path / "other")
    other.say("hello")
    made = backup.back_up(other.deps())
    home = corrupt(tmp_path / "home")
    home.runtime.db.open()
    home.say("hello", huge(), "thanks", session="s2")
    home.close()
    home = Home(tmp_path / "home")
    done = backup.restore(home.deps(None), str(made.path))
    home.runtime.db.open()
    home.runtime.ended()

    assert done.kept is not None
    assert files(home) == []
    assert kept_message(done.kept) == huge()


@pytest.mark.parametrize("links", [True, False], ids=["links", "no-links"])
def test_what_a_repair_keeps_is_on_the_disk_before_the_files_go(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their second names, or the copies where a file system has none."""
    home = corrupt(tmp_path / "home")
    home.runtime.db.open()
    home.say("hello", huge(), "thanks", session="s2")
    synced: list[Path] = []
    plain = durable.sync
    monkeypatch.setattr(durable, "sync", lambda path: (synced.append(path), plain(path)))
    if not links:
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError(1, "not here")))
    done = repair.repair(home.deps())
    assert done.kept is not None
    (kept,) = folder_of(done.kept).iterdir()

    assert {kept.parent, *([] if links else [kept])} <= {*synced}


def test_a_copy_that_somebody_made_of_database_and_folder_is_restored_whole(tmp_path: Path) -> None:
    """By the means of a shell, while nobody had it open."""
    home = Home(tmp_path / "home")
    home.say("hello", huge())
    home.close()
    copy = tmp_path / "copy.db"
    shutil.copyfile(home.path, copy)
    shutil.copytree(folder_of(home.path), folder_of(copy))
    fresh = Home(tmp_path / "fresh")
    backup.restore(fresh.deps(None), str(copy))

    assert [row.text for row in fresh.runtime.store.rows([1, 2])] == ["hello", huge()]


# -- what stands in a row ----------------------------------------------------------------------------------------
@given(st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1), st.binary(max_size=200), st.binary(max_size=200))
def test_a_reference_is_to_what_was_written_and_nothing_else(
    conversation: int, seq: int, raw: bytes, other: bytes
) -> None:
    """And it comes back from its row as it was."""
    reference = Reference.to(f"{conversation}-{seq}-0123abcd", raw)

    assert Reference.read(reference.packed()) == reference
    assert Reference.row(reference.name) == (conversation, seq)
    assert reference.is_to(raw)
    assert reference.is_to(other) == (other == raw)


@given(st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=9), max_size=4), st.text())
def test_what_lies_in_a_file_is_the_same_message(others: dict[str, Any], text: str) -> None:
    """Its JSON is made by whoever reads it."""
    message = {**others, "content": text}
    before, after = json.dumps(message | {"content": 0}, ensure_ascii=False).encode().split(b'"content": 0')
    laid = b"".join(loose.laid((before + b'"content": ', text.encode(), after)))

    assert json.loads(loose.taken_up(laid)) == message
    assert loose.taken_up(json.dumps(message).encode()) == json.dumps(message).encode()


@pytest.mark.parametrize("data", [b"", b"[]", b"1 2", b"1 2 3\n", b"9 9\n{}", b"-1 1\n{}", b"1 1\r\n{}", b"\0{}"])
def test_what_was_never_laid_there_is_refused(data: bytes) -> None:
    """It is not taken for an empty message."""
    with pytest.raises(ValueError, match="pieces"):
        loose.taken_up(data)


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "1-1-0123abcd/../x", "", "1-1-0123ABCD", "1-1-0123abcd\n", "/etc/passwd", "٣-1-0123abcd"],
)
def test_no_reference_leads_out_of_the_folder(name: str) -> None:
    """Whoever wrote the database."""
    blob = Reference(name, 1, 1).packed() if name.isascii() else b"\3" + bytes(12) + name.encode()

    assert Reference.read(blob) is None
    with pytest.raises(ValueError, match="no envelope"):
        unpack(blob)


def test_a_file_of_another_size_is_not_read_into_memory(tmp_path: Path) -> None:
    """A gigabyte that somebody put there is no message."""
    aside = Aside(tmp_path / "lcm.db")
    aside.folder.mkdir()
    reference = Reference.to("1-1-0123abcd", b"{}")
    with (aside.folder / reference.name).open("wb") as file:
        file.truncate(2**40)

    with pytest.raises(ValueError, match="does not hold"):
        aside.read(reference)
