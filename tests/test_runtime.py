"""Which runtime serves which home; host calls go before background work."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

from test_background import turn_ends
from worlds.process import WAIT_S, Script, World, chat

from hermes_lcm import runtime
from hermes_lcm.errors import StoreError, StoreFull
from hermes_lcm.llm.ladder import DAILY_LIMIT
from hermes_lcm.records import Summary, SummaryTask
from hermes_lcm.runtime import Foreground


def test_a_home_whose_name_leads_elsewhere_is_another_home(tmp_path: Path) -> None:
    """The real path of a home is remembered only as long as its name is one of the same folder."""
    runtimes, name = runtime.Process(), tmp_path / "home"
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
    name.symlink_to("first", target_is_directory=True)
    before = [runtimes.at(name).path, runtimes.at(str(name)).path]
    name.unlink()
    name.symlink_to("second", target_is_directory=True)

    assert before == [tmp_path.resolve() / "first" / "lcm.db"] * 2
    assert runtimes.at(name).path == tmp_path.resolve() / "second" / "lcm.db"
    assert runtimes.at(tmp_path / "absent").path == tmp_path.resolve() / "absent" / "lcm.db"


def test_a_home_that_moved_is_where_it_is_now(tmp_path: Path) -> None:
    """Its name still leads to the same folder, which has another path."""
    runtimes, name = runtime.Process(), tmp_path / "home"
    (tmp_path / "first").mkdir()
    name.symlink_to("first", target_is_directory=True)
    before = runtimes.at(name).path
    (tmp_path / "first").rename(tmp_path / "second")
    name.unlink()
    name.symlink_to("second", target_is_directory=True)

    assert before == tmp_path.resolve() / "first" / "lcm.db"
    assert runtimes.at(name).path == tmp_path.resolve() / "second" / "lcm.db"


def test_a_limit_of_a_day_is_told_until_a_summary_does_without_it(tmp_path: Path) -> None:
    """Also where no model answers, or none is to be asked any more: that is no matter of the limit."""
    world = World(tmp_path)
    told = []
    for quality, why in (("provisional", DAILY_LIMIT), ("provisional", "timed out"), ("verified", "accepted")):
        made = Summary("", "", quality, "", "", json.dumps([why]), 1)
        world.runtime.ladder = SimpleNamespace(summarise=MagicMock(return_value=made))  # type: ignore[assignment]
        world.runtime.summarise(SummaryTask(0, (), 1, 1))
        told.append(sum("LCM_SUMMARY_DAILY_TOKENS" in each.message for each in world.health.problems()))

    assert told == [1, 0, 0]


# ------------------------------------------------------------
# Priority of host calls over background work.


def step_of(foreground: Foreground) -> threading.Thread:
    """A step of background work that waits for its turn."""
    step = threading.Thread(target=foreground.give_way, daemon=True)
    step.start()
    return step


def test_a_step_of_background_work_waits_while_a_host_call_goes_on_and_a_moment_after_it() -> None:
    """With the clock standing still it would wait for ever."""
    now = [0.0]
    foreground = Foreground(lambda: now[0])
    with foreground:
        step = step_of(foreground)
        step.join(0.05)
        during = step.is_alive()
    step.join(0.05)
    just_after = step.is_alive()
    now[0] = 0.2
    step.join(WAIT_S)

    assert (during, just_after, step.is_alive()) == (True, True, False)


def test_host_calls_without_a_gap_do_not_stop_background_work() -> None:
    """A gateway always answers somebody."""
    now = [0.0]
    foreground = Foreground(lambda: now[0])
    with foreground:
        step = step_of(foreground)
        now[0] = 1.0
        step.join(WAIT_S)

        assert not step.is_alive()


def test_a_call_within_a_call_goes_on_until_both_have_ended() -> None:
    """Chats of a gateway call at the same time."""
    now = [0.0]
    foreground = Foreground(lambda: now[0])
    with foreground:
        with foreground:
            pass
        step = step_of(foreground)
        step.join(0.05)

        assert step.is_alive()
    now[0] = 1.0
    step.join(WAIT_S)


def test_the_worker_asks_no_model_while_a_turn_is_answered(tmp_path: Path) -> None:
    """What comes in the meantime waits."""
    now = [0.0]
    world = World(tmp_path, Script("ok"), leaf_chunk_tokens=2000, fresh_tail_count=8)
    world.runtime.foreground._monotonic = lambda: now[0]
    with world.runtime.foreground:
        turn_ends(world, chat().turns(80))
        assert not world.preparer.idle(0.1)
        asked = len(world.model.tasks)
    now[0] = 1.0

    assert asked == 0
    assert world.preparer.idle(WAIT_S)
    assert world.model.tasks


def test_a_note_that_fails_behind_a_message_is_told_until_it_is_written(tmp_path: Path, monkeypatch: Any) -> None:
    """The message is stored once; the next look at the list writes the note, though nothing is new in it."""
    world = World(tmp_path)
    said = chat().turns(3)
    world.runtime.announce("s", platform="cli")
    world.runtime.ingest_list("s", said)
    plain, topics = world.dag.latest_assembly, []

    def refused(*_: Any) -> Any:
        monkeypatch.setattr(world.runtime.dag, "latest_assembly", plain)
        raise StoreError("disk I/O error")

    monkeypatch.setattr(world.runtime.dag, "latest_assembly", refused)
    said = said.copy().turns(1, first=9)
    for _ in range(2):
        world.runtime.ingest_list("s", said)
        topics.append({problem.topic for problem in world.health.problems()})

    assert topics == [{"notes"}, set()]
    assert world.stored() == said


def test_a_note_that_a_disk_refuses_each_time_is_told_as_one_problem(tmp_path: Path, monkeypatch: Any) -> None:
    """There is room for the messages, so a message that is stored says nothing of it."""
    world = World(tmp_path)
    said = chat().turns(3)
    world.take(said)
    monkeypatch.setattr(world.runtime.dag, "latest_assembly", Mock(side_effect=StoreFull("the disk is full")))
    for n in range(3):
        world.runtime.ingest_list("s", said.turns(1, first=9 + n))

    assert [(problem.topic, problem.count) for problem in world.health.problems()] == [("notes", 3)]


def test_a_session_that_cannot_be_looked_up_is_told_until_it_can(tmp_path: Path, monkeypatch: Any) -> None:
    """It counts as nobody's meanwhile."""
    world = World(tmp_path)
    world.take(chat().turns(1))
    with monkeypatch.context() as patch:
        patch.setattr(world.runtime.sessions, "find", Mock(side_effect=StoreError("disk I/O error")))
        unknown = world.runtime.stored("s")
        topics = [problem.topic for problem in world.health.problems()]
    known = world.runtime.stored("s")

    assert (unknown, topics) == (None, ["session look-up"])
    assert known is not None
    assert world.health.problems() == []
