"""Records of ours that no prompt explains: kept, covered, reported (P1, P4, P9). And rows that find no room, or come back."""

from __future__ import annotations

import copy
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from worlds.process import Chat, Script, World, chat, reload, texts

from hermes_lcm.command import operator_access
from hermes_lcm.errors import Exchanged
from hermes_lcm.ops.doctor import repair
from hermes_lcm.records import Flag
from hermes_lcm.text import markup

SECRET = "the vault code is 7741-XK"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def restored(world: World, live: Chat) -> tuple[World, Chat]:
    """The conversation goes on and is compacted after a backup; then the backup is put back. The new world, the live list."""
    world.db.close()
    shutil.copytree(world.folder, world.folder.parent / "backup")
    world = World(world.folder, Script("ok"))
    world.model.extract = Script.extract  # type: ignore[method-assign]
    live = live.copy().user(SECRET).says("noted").turns(30, first=300)
    live = world.compact(live)
    world.db.close()
    shutil.rmtree(world.folder)
    shutil.copytree(world.folder.parent / "backup", world.folder)
    return World(world.folder), live


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.mark.parametrize("reloaded", [False, True], ids=["running", "reloaded"])
@pytest.mark.parametrize("compacted_before", [False, True], ids=["first", "repeated"])
def test_what_a_restored_backup_does_not_know_is_kept(folder: Path, compacted_before: bool, reloaded: bool) -> None:
    """The record of a newer database is stored as text and covered by the next compaction, whatever its id is now."""
    world = World(folder)
    before = chat().turns(30)
    live = world.compact(before) if compacted_before else before
    world.take(live)
    world, live = restored(world, live)
    record = live[0]["content"]
    live = reload(live) if reloaded else live
    # The restored database hands out the very same assembly id again, for another prompt.
    other = world.compact(Chat(before).turns(20, first=700), "s")
    assert markup.read_context(other[0]["content"]).assembly_id == markup.read_context(record).assembly_id  # type: ignore[union-attr]
    transcript = world.take(live)

    kept = world.flagged(Flag.IMPORTED)
    assert transcript.assembly is None
    assert [markup.read_context(str(row["content"])) is not None for row in kept] == [True]
    again = world.compact(live.turns(30, first=900))
    assert world.gaps(again) == ([], [])
    assert len(world.flagged(Flag.IMPORTED)) == 1


def test_what_summaries_covered_that_a_salvage_could_not_save_is_covered_anew(folder: Path) -> None:
    """Their prompt would go on without it; so its record is kept as a message like one that nobody knows."""
    world = World(folder)
    live = world.compact(chat().turns(30))
    world.take(live)
    with closing(sqlite3.connect(world.db.path)) as raw:
        raw.execute("DROP TABLE nodes")
        raw.commit()
    done = repair.repair(operator_access(world.runtime, None, None))
    assert "1 context messages of prompts that rested on summaries that are gone" in done.notes

    world = world.restart()
    assert world.take(live).assembly is None
    again = world.compact(live.turns(30, first=900))
    assert world.gaps(again) == ([], [])
    assert len(world.flagged(Flag.IMPORTED)) == 1


def test_a_record_that_is_kept_is_kept_once(folder: Path) -> None:
    """However often the list is shown, and by however many processes."""
    world = World(folder)
    live = chat().turns(30)
    world.take(live)
    world, live = restored(world, live)
    for _ in range(3):
        world.take(live.turns(1, first=1000 + len(live)))
        world = world.restart()
        live = reload(live)
        world.take(live)

    assert len(world.flagged(Flag.IMPORTED)) == 1
    assert len(world.stored()) == len({str(row["content"]) for row in world.stored()})


def test_a_record_stands_before_the_tail_it_came_with(folder: Path) -> None:
    """What it tells lies before the first message that follows it; it is nobody's first request."""
    world = World(folder)
    live = chat().turns(30)
    world.take(live)
    world, live = restored(world, live)
    world.take(live)
    shown = [content for content in texts(world.thread()) if content]
    record = next(n for n, row in enumerate(world.thread()) if markup.read_context(str(row["content"])))

    assert record > 0
    assert texts(live[1:])[:1][0] in shown
    assert "question 0" in world.store.text(world.store.first_of(segments(world), role="user").store_id)  # type: ignore[union-attr]


def segments(world: World) -> list[object]:

    return world.sessions.ancestry(world.session().conversation_id)


def test_the_summariser_reads_a_kept_record_as_a_record(folder: Path) -> None:
    """What it quotes is no word of the user."""
    world = World(folder)
    live = chat().turns(30)
    world.take(live)
    world, live = restored(world, live)
    world.compact(live.turns(30, first=900))
    roles = {line.role for task in world.model.tasks for line in task.lines if "[lcm:history" in line.text}

    assert roles == {"summary"}


def test_an_unknown_context_is_reported_until_a_prompt_of_ours_governs(folder: Path) -> None:
    """Status shows it; the compaction that covers it ends the matter."""
    world = World(folder)
    live = chat().turns(30)
    world.take(live)
    world, live = restored(world, live)
    world.runtime._sessions.clear()
    world.runtime.ingest_list("s", live)
    reported = [problem.topic for problem in world.health.problems()]
    world.runtime.ingest_list("s", live.turns(30, first=900))
    world.runtime.ingest_list("s", world.compact(live))

    assert "unknown context message in s" in reported
    assert world.health.problems() == []


def test_a_record_that_could_not_be_stored_is_reported_of_no_other_session(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is exchanged while one chat's list is read; another chat stores something meanwhile."""
    world = World(folder)
    live = chat().turns(30)
    world.take(live)
    world, live = restored(world, live)

    def exchanged(*_: object, **__: object) -> list[int]:
        raise Exchanged("another file is in use now")

    with monkeypatch.context() as patched:
        patched.setattr(world.runtime.whole_store, "append", exchanged)
        with pytest.raises(Exchanged):
            world.runtime.ingest_list("s", live)
    world.runtime.ingest_list("another", chat().turns(1))

    assert world.health.problems() == []


def test_a_record_pasted_after_everything_was_undone_is_stored(world: World) -> None:
    """The user undoes all, and pastes our context message as the very first message."""
    compacted = world.compact(chat().turns(30))
    pasted = chat().user(compacted[0]["content"])
    world.take(compacted)
    world.take([])
    world.take(pasted)
    pasted.says("what is this?")
    world.take(pasted)
    world = world.restart()
    world.take(reload(pasted).user("go on"))

    assert texts(world.stored())[60:] == ["what is this?", "go on"]
    assert len(world.flagged(Flag.IMPORTED)) == 1
    assert world.take(reload(pasted)).assembly is None


def test_a_record_with_nothing_behind_it_was_said_by_somebody(world: World) -> None:
    """What a user says last stands last; a prompt of ours has a tail. It is stored before it is sent."""
    compacted = world.compact(chat().turns(30))
    world = world.restart()
    world.take(chat().user(compacted[0]["content"]))

    assert len(world.flagged(Flag.IMPORTED)) == 1


def test_our_own_prompt_is_known_however_the_host_spaced_it(world: World) -> None:
    """A reload strips and joins; the digest does not mind, and the prompt goes on governing."""
    compacted = world.compact(chat().turns(30))
    compacted[0]["content"] = "  " + str(compacted[0]["content"]).replace("\n\n", "\n \n") + "\n"
    compacted[0]["content"] = str(compacted[0]["content"]).strip()
    world = world.restart()

    assert world.take(reload(compacted)).assembly is not None
    assert len(world.stored()) == 60


def test_a_prompt_from_before_digests_were_kept_governs(world: World) -> None:
    """Databases of an older schema have assemblies without a digest."""
    compacted = world.compact(chat().turns(30))
    with world.db.transaction():
        world.db.execute("UPDATE assemblies SET digest = NULL")
    world = world.restart()

    assert world.take(reload(compacted)).assembly is not None


# -- no room between two rows ---------------------------------------------------------------------------------------


@pytest.mark.few(3)
@pytest.mark.parametrize("where", ["before the same", "behind the same", "in turns"])
@pytest.mark.parametrize("in_branch", [False, True], ids=["", "branch"])
def test_there_is_always_room_between_two_rows(world: World, where: str, in_branch: bool) -> None:
    """Sixty at one place, more than halving a place leaves room for, are stored once each, in order, also after a restart."""
    name = "s"
    live = chat().turns(4)
    world.take(live)
    if in_branch:
        above = world.session("s")
        world.session(name := "b", parent=above, origin="branch", fork_seq=world.store.last_seq(above.conversation_id))
        world.take(live, name)
        world.take(live.turns(1, first=50), name)
    low, high = 3, 4
    for n in range(60):
        at = {"before the same": high, "behind the same": low, "in turns": high if n % 2 else low}[where]
        live.insert(
            at if where != "in turns" else low + len(range(high - low)) // 2, {"role": "user", "content": f"[note {n}]"}
        )
        high += 1
        world.take(live.copy(), name)
    world = world.restart()
    world.take(reload(live), name)

    assert texts(world.thread(name)) == texts(live)
    assert len(world.stored()) == len(live)


def test_respacing_moves_no_message_past_another(world: World) -> None:
    """Nodes and prompts go on naming the rows they named."""
    live = world.compact(chat().turns(30))
    raw = len(live) - 6
    for n in range(80):
        live.insert(raw, {"role": "user", "content": f"[note {n}]"})
        world.take(live.copy())
    world = world.restart()
    world.take(reload(live))
    again = world.compact(live.turns(30, first=300))

    assert world.gaps(again) == ([], [])
    assert len(world.stored()) == 60 + 80 + 60


# -- redo in a branch -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("back", [1, 2, 3])
def test_a_branch_that_shows_again_what_it_inherited_stores_nothing(world: World, back: int, restart: bool) -> None:
    """Undo of inherited turns in a branch, other words, undo of these, and redo: the parent's rows are shown again."""
    live = chat().turns(6)
    world.take(live)
    above = world.session("s")
    world.session("b", parent=above, origin="branch", fork_seq=world.store.last_seq(above.conversation_id))
    world.take(live.copy(), "b")
    undone = Chat(live[: -2 * back]).user("another way").says("as you like")
    world.take(undone.copy(), "b")
    stored = len(world.stored())
    redone = live.copy().user("after all").says("good")
    if restart:
        world = world.restart()
        redone = reload(redone)
    world.take(copy.deepcopy(redone), "b")
    world = world.restart()
    world.take(reload(redone), "b")

    assert len(world.stored()) == stored + 2
    assert texts(world.thread("b")) == texts(redone)
    assert texts(world.thread("s")) == texts(live)


def test_a_branch_may_redo_part_of_what_it_undid(world: World) -> None:
    """And the rest later: undone rows stay where they are until they are shown."""
    live = chat().turns(6)
    world.take(live)
    above = world.session("s")
    world.session("b", parent=above, origin="branch", fork_seq=world.store.last_seq(above.conversation_id))
    world.take(live.copy(), "b")
    world.take(Chat(live[:4]).user("a").says("b"), "b")
    world.take(Chat(live[:8]).user("c").says("d"), "b")
    world.take(live.copy().user("e").says("f"), "b")
    world = world.restart()

    assert texts(world.thread("b")) == [*texts(live), "e", "f"]
    assert len(world.stored()) == 12 + 6
