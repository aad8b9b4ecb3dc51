"""What to spend: three choices, and what a conversation's own turns would have cost with each."""

from __future__ import annotations

from pathlib import Path

import pytest
from world import World, chat

from hermes_lcm import command
from hermes_lcm.config import KNOBS, load
from hermes_lcm.ops import presets


@pytest.mark.parametrize("choice", presets.CHOICES, ids=lambda each: each.name)
def test_a_choice_sets_what_a_setting_accepts(choice: presets.Preset) -> None:
    """Its lines can be put into the environment as they are."""
    lines = dict(line.split("=", 1) for line in presets.preview(choice.name))
    read = load(lines)

    assert read.problems == ()
    assert all(getattr(read, name) == value for name, value in choice.settings)
    assert set(lines) == {KNOBS[name].env for name, _ in choice.settings}


def test_a_long_conversation_costs_least_with_the_economical_choice() -> None:
    """And most with the one that keeps most raw."""
    cost = presets.would_have_cost([2_000] * 400, 200_000, (3.0, 0.3, 15.0))

    assert 0 < cost["economy"] <= cost["balanced"] < cost["memory"]


def test_a_short_one_costs_the_same_with_each() -> None:
    """Nothing is compacted."""
    assert len(set(presets.would_have_cost([500] * 10, 200_000, (3.0, 0.3, 15.0)).values())) == 1


def test_the_command_shows_a_choice_and_what_the_session_would_have_cost(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.take(chat().turns(3))
    deps = command.operator_access(world.runtime, world.runtime.known("s"), None)

    assert "LCM_CONTEXT_THRESHOLD: 0.75 -> 0.25" in command.run("preset economy", deps)
    assert "this session's 3 turns" in command.run("preset suggest", deps)
