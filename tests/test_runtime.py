"""Which runtime serves which home."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

from worlds.process import World

from hermes_lcm import runtime
from hermes_lcm.llm.ladder import DAILY_LIMIT
from hermes_lcm.records import Summary, SummaryTask


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
