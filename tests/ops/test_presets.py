"""What to spend: three choices, and what a conversation's own turns would have cost with each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from worlds.process import World, chat

from hermes_lcm import command
from hermes_lcm.config import KNOBS, load
from hermes_lcm.host import facts
from hermes_lcm.ops import presets


@pytest.mark.parametrize("choice", presets.CHOICES, ids=lambda each: each.name)
def test_a_choice_sets_what_a_setting_accepts(choice: presets.Preset) -> None:
    """Its lines can be put into the environment as they are."""
    lines = dict(line.split("=", 1) for line in presets.preview(choice.name))
    read = load(lines)

    assert read.problems == ()
    assert all(getattr(read, name) == value for name, value in choice.settings)
    assert set(lines) == {KNOBS[name].env for name, _ in choice.settings}


@pytest.mark.parametrize("preset", presets.PRESETS, ids=lambda each: each.name)
def test_where_the_values_come_from_is_said_once(preset: presets.Preset) -> None:
    """The row is called "values from": what follows it does not begin with the same word."""
    assert not preset.provenance.startswith("values")


def test_a_preset_takes_the_place_of_another_one() -> None:
    """What the earlier one had set goes back to its default."""
    economy, memory = (presets.preset_named(name) for name in ("economy", "memory"))
    before = load({}, dict(economy.settings))

    plan = presets.taking_over(memory, before)

    assert plan.changes == {**dict(memory.settings), "context_threshold": None, "prefix_share": None}
    assert presets.taking_over(economy, before).changes == {}


def test_a_preset_leaves_what_one_has_set_oneself() -> None:
    """In the environment, or in config.yaml to a value that no preset has."""
    config = load({"LCM_LOW_WATER": "0.5"}, {"context_threshold": 0.6})
    plan = presets.taking_over(presets.preset_named("economy"), config)

    assert plan.changes == {"fold_early": "auto", "prefix_share": 0.35}
    assert set(plan.kept) == {"context_threshold", "low_water"}


@pytest.mark.parametrize("own", [{"fresh_tail_count": 24}, {"low_water": 0.5}, {"fold_early": "auto"}], ids=str)
def test_a_value_of_ones_own_stays_where_a_preset_happens_to_have_the_same(own: dict[str, object]) -> None:
    """Only a preset that stands there as a whole can have written it."""
    config = load({}, own)

    assert not set(own) & set(presets.taking_over(presets.preset_named("large_window_economical"), config).changes)
    assert not set(own) & set(presets.taking_over(presets.preset_named("economy"), config).changes)


def test_a_preset_writes_out_a_default_that_means_more_where_it_is_set() -> None:
    """The threshold of economy is its latest point, not an exact one."""
    economy = presets.preset_named("economy")
    config = load({}, dict(presets.taking_over(economy, load({}, {})).changes))

    assert config.why_exact() == ""
    assert presets.taking_over(economy, config).changes == {}


def test_using_a_preset_writes_it_into_the_configuration_of_the_host(hermes_home: Path) -> None:
    """Shown first, then written by the host itself; and balanced takes it out again."""
    import yaml

    def use(words: str) -> str:
        config = load({}, facts.config_block())
        world = World(hermes_home)
        deps = replace(command.operator_access(world.runtime, None, None), trusted=True)
        return command.answer(words, replace(deps, config=config)).text

    path = hermes_home / "config.yaml"
    assert "Dry run" in use("preset use economy")
    assert "lcm" not in (yaml.safe_load(path.read_text()) or {}) if path.exists() else True
    use("preset use economy apply")
    written = yaml.safe_load(path.read_text())["lcm"]
    use("preset use balanced apply")

    assert written == {"context_threshold": 0.25, "fold_early": "auto", "low_water": 0.6, "prefix_share": 0.35}
    assert not yaml.safe_load(path.read_text()).get("lcm")


def test_what_is_shown_of_a_preset_is_what_using_it_does() -> None:
    """Of an earlier preset, too: what it set is nobody's own choice, and goes back to its default."""
    economy, memory = (presets.preset_named(name) for name in ("economy", "memory"))
    shown = presets.described(memory, load({}, dict(economy.settings)))

    assert shown["kept_because_you_set_them"] == {}
    assert shown["would_change"]["LCM_LOW_WATER"] == {"from": 0.6, "to": 0.5}
    assert shown["would_change"]["LCM_CONTEXT_THRESHOLD"] == {"from": 0.25, "to": 0.75}


def test_the_defaults_are_a_choice_that_sets_nothing(tmp_path: Path) -> None:
    """It is not said of somebody's own settings that they are the defaults."""
    deps = command.operator_access(World(tmp_path, context_threshold=0.5).runtime, None, None)

    assert "It sets nothing: it stands for the defaults." in command.run("preset balanced", deps)
    assert "take out those that you have set" in command.run("preset apply balanced --dry-run", deps)


def test_the_command_shows_a_choice_and_what_the_session_would_have_cost(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.take(chat().turns(3))
    deps = command.operator_access(world.runtime, world.runtime.find_session("s"), None)

    assert "LCM_CONTEXT_THRESHOLD: 0.75 -> 0.25" in command.run("preset economy", deps)
    assert "replayed: " in command.run("preset suggest", deps)


def test_the_preset_that_is_suggested_is_replayed_like_the_choices(tmp_path: Path) -> None:
    """What it would have come to stands beside them."""
    world = World(tmp_path)
    world.take(chat().turns(3))
    deps = command.operator_access(world.runtime, world.runtime.find_session("s"), None)
    deps = replace(deps, engine=replace(deps.engine, context_length=300_000))

    found = command.answer("preset suggest", deps).data

    assert list(found["replay"]["days"]) == ["now", "codex_gpt_long_context", "economy", "balanced", "memory"]


@pytest.mark.parametrize("typed", ["preset nope", "preset show nope", "preset apply nope", "preset use nope"])
def test_a_preset_that_is_not_there_is_answered_with_all_that_are(tmp_path: Path, typed: str) -> None:
    world = World(tmp_path)
    said = command.run(typed, replace(command.operator_access(world.runtime, None, None), trusted=True))

    assert all(each.name in said for each in presets.NAMED)
