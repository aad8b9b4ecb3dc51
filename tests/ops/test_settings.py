"""Settings at the terminal: value, origin, meaning; a change goes into the host's config.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest
from worlds.home import Home

from hermes_lcm.command import OK, REFUSED, answer
from hermes_lcm.config import load
from hermes_lcm.host import facts


@pytest.fixture
def world(tmp_path: Path) -> Home:
    return Home(tmp_path / "home", low_water="0.5")


def test_a_setting_is_explained(world: Home) -> None:
    """By its name or its variable: value, where it comes from, what it does."""
    said = answer("config explain LCM_LOW_WATER", world.deps(trusted=True))

    assert (said.data["value"], said.data["source"], said.data["default"] != 0.5) == (0.5, "env", True)
    assert str(said.data["meaning"]) in said.text
    assert answer("config get low_water", world.deps(trusted=True)).text == "0.5"
    assert [each["name"] for each in answer("config", world.deps(trusted=True)).data["settings"]] == ["low_water"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("config get low_wather", "Did you mean low_water?"),
        ("config set fresh_tail_count many", "expected "),
        ("config set low_water 0.4", "LCM_LOW_WATER is set in the environment and wins"),
        ("config set low_water", "needs a setting and its value"),
    ],
)
def test_what_would_have_no_effect_is_refused(words: str, why: str, world: Home) -> None:
    """A typing error, a bad value, a variable that wins."""
    said = answer(words, world.deps(trusted=True))

    assert said.code == REFUSED
    assert why in said.text


def test_a_change_is_in_the_hosts_configuration(world: Home, hermes_home: Path) -> None:
    """The next agent reads it; a chat may not change it."""
    assert answer("config set fresh_tail_count 24", world.deps(trusted=True)).code == OK
    read = load({}, facts.config_block())

    assert (read.fresh_tail_count, read.provenance("fresh_tail_count")) == (24, "config.yaml")
    assert answer("config set fresh_tail_count 25", world.deps()).code == REFUSED


def test_what_the_hosts_form_wrote_counts_below_the_block(hermes_home: Path) -> None:
    """Newer hosts keep it with the plugin; who wrote `lcm:` by hand meant that."""
    (hermes_home / "config.yaml").write_text(
        "lcm: {low_water: 0.5}\nplugins: {entries: {hermes-lcm: {settings: {low_water: 0.6, fresh_tail_count: 24}}}}\n"
    )
    read = load({}, facts.config_block())

    assert (read.low_water, read.fresh_tail_count) == (0.5, 24)


def test_a_value_that_is_there_is_not_written_again(world: Home, hermes_home: Path) -> None:
    """Nor is it noted as a change."""
    (hermes_home / "config.yaml").write_text("lcm: {fresh_tail_count: 24}\n")
    world.runtime.config = load({}, facts.config_block())
    said = answer("config set fresh_tail_count 24", world.deps(trusted=True))

    assert (said.code, said.idle, "Nothing to do" in said.text) == (OK, True, True)


def test_a_change_that_is_impossible_beside_another_setting_is_refused(world: Home, hermes_home: Path) -> None:
    """Nothing is written: it would not be in effect."""
    said = answer("config set tail_share 0.9", world.deps(trusted=True))

    assert said.code == REFUSED
    assert "expected a sum below 1" in said.text
    assert facts.config_block() == {}


@pytest.mark.parametrize(
    ("words", "why"), [("tail_share 0.9", "a sum below 1"), ("sensitive_patterns ''", "would not be")]
)
def test_what_config_yaml_cannot_say_is_refused_with_the_reason(
    words: str, why: str, world: Home, hermes_home: Path
) -> None:
    """Also where it is written there already, and for a value that counts as none."""
    (hermes_home / "config.yaml").write_text("lcm: {tail_share: 0.9}\n")
    world.runtime.config = load({}, facts.config_block())
    said = answer(f"config set {words}", world.deps(trusted=True))

    assert (said.code, why in said.text) == (REFUSED, True), said.text


@pytest.mark.parametrize("text", ["on", "No", "123", "1.5"])
def test_a_text_that_looks_like_something_else_stays_a_text(text: str, world: Home, hermes_home: Path) -> None:
    """The host takes such a word for a switch or a number, and a text that is one would be refused."""
    assert answer(f"config set summary_model {text}", world.deps(trusted=True)).code == OK
    assert load({}, facts.config_block()).summary_model == text


def test_a_configuration_that_a_package_manager_owns_is_not_said_to_be_changed(
    world: Home, hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host's own commands print that it is so, and end as if they had done it."""
    for folder in ("cron", "sessions", "logs", "memories"):  # the host expects them then
        (hermes_home / folder).mkdir(exist_ok=True)
    monkeypatch.setenv("HERMES_MANAGED", "true")
    for words in ("config set fresh_tail_count 24", "preset use memory apply", "uninstall apply"):
        said = answer(words, world.deps(trusted=True))

        assert (said.code, "managed by NixOS" in said.text) == (REFUSED, True), said.text
