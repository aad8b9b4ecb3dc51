"""Installing the dashboard of a package, and leaving: only links of ours are made and removed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from worlds.home import ROOT, Home

from hermes_lcm.command import OK, REFUSED, answer
from hermes_lcm.errors import BadRequest
from hermes_lcm.ops import install


@pytest.fixture
def world(hermes_home: Path) -> Home:
    return Home(hermes_home)


def test_the_dashboard_of_a_package_is_linked_once(world: Home) -> None:
    """Dry run first; the host finds a manifest there; the second time there is nothing to do."""
    place = world.home / "plugins" / "hermes-lcm" / "dashboard" / "manifest.json"
    dry = answer("install", world.deps(trusted=True))
    before = place.exists()
    done = answer("install apply", world.deps(trusted=True))

    assert (dry.code, before, done.code, place.exists()) == (OK, False, OK, True)
    assert answer("install", world.deps(trusted=True)).data["there"] is True


def test_another_copy_of_the_plugin_is_not_mixed_with(world: Home) -> None:
    """Two copies would be one tab with the other's code."""
    folder = world.home / "plugins" / "hermes-lcm"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: hermes-lcm\n")

    with pytest.raises(BadRequest, match="another copy"):
        install.lay(world.home, ROOT, apply=True)


def test_leaving_restores_the_host_and_says_where_the_archive_is(world: Home) -> None:
    """The engine, the list of plugins and our link; not a byte of the archive."""
    world.say("hello", "hi")
    (world.home / "config.yaml").write_text("plugins: {enabled: [hermes-lcm, other]}\ncontext: {engine: lcm}\n")
    (world.home / "plugins").mkdir(exist_ok=True)
    (world.home / "plugins" / "hermes-lcm").symlink_to(ROOT, target_is_directory=True)
    said = answer("uninstall apply", world.deps(trusted=True))
    config = yaml.safe_load((world.home / "config.yaml").read_text())

    assert said.code == OK, said.text
    assert (config["context"]["engine"], config["plugins"]["enabled"]) == ("compressor", ["other"])
    assert not (world.home / "plugins" / "hermes-lcm").exists()
    assert str(world.path) in said.text
    assert world.path.exists()
    assert "pip" not in said.text  # a link is no package
    assert "`pip uninstall hermes-lcm`" in answer("uninstall apply", world.deps(trusted=True)).text


def test_leaving_before_the_first_message_says_that_nothing_stays(world: Home) -> None:
    """A path to a file that there is not would be looked for."""
    said = answer("uninstall", world.deps(trusted=True)).text

    assert "No message is stored, so nothing stays behind." in said
    assert str(world.path) not in said


def test_a_list_of_plugins_that_the_host_cannot_change_is_told(world: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts near 0.22 look for packages on the network; without one the rest is done all the same."""
    monkeypatch.setattr("hermes_cli.plugins_cmd.cmd_disable", lambda *_: (_ for _ in ()).throw(OSError("no network")))
    said = answer("uninstall apply", world.deps(trusted=True))

    assert (said.code, "Hermes says of its list of plugins: no network" in said.text) == (OK, True)


def test_a_chat_installs_nothing(world: Home) -> None:
    """It is the operator's machine."""
    assert answer("uninstall apply", world.deps()).code == REFUSED
