"""The host finds the plugin, selects its engine, offers its tools and copies it, at no cost per copy."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from host.drive import REPOSITORY, WINDOW, Home
from host.model_server import ModelServer, Reply, Turns
from host.shared import Running

pytestmark = pytest.mark.host

TOOLS = set(re.findall(r"- (lcm_\w+)", (REPOSITORY / "plugin.yaml").read_text()))


def hello(_turn: int) -> Sequence[Reply]:
    return [Reply("hello")]


@pytest.fixture
def model() -> ModelServer:
    return ModelServer(Turns(hello))


def test_the_plugin_is_listed_and_enabled(tmp_path: Path, model: ModelServer) -> None:
    """``hermes plugins list`` shows it, as a plugin of the user's, and looking at it leaves nothing behind."""
    with model:
        home = Home.make(tmp_path / "home", model.base_url)
        listed = json.loads(home.hermes("plugins", "list", "--user", "--json").stdout)

    [plugin] = [plugin for plugin in listed if plugin["name"] == "hermes-lcm"]
    assert plugin["status"] == "enabled"
    assert list(home.path.rglob("*lcm*.db*")) == []


def test_the_engine_is_selected_and_its_tools_reach_the_model(agents: Running) -> None:
    """The agent runs on engine ``lcm``, and what the model is offered includes every tool of the manifest."""
    model, _, host = agents.talk(Turns(hello))
    opened = host.open()
    host.turn(text="hello")

    assert (opened["engine"], opened["context_length"]) == ("lcm", WINDOW)
    assert {"lcm_grep", "lcm_expand", "lcm_status"} <= TOOLS
    assert set(model.of_kind("chat")[0].tools) >= TOOLS


def test_fifty_copies_open_nothing(agents: Running) -> None:
    """Each agent gets a deep copy; fifty of them, bound to sessions, share the connections of the first."""
    _, _, host = agents.talk(Turns(hello))
    host.open()
    host.turn(text="hello")
    cost = host.copies(count=50)

    assert (cost["names"], cost["distinct"]) == (["lcm"], 50)
    opened = [[name for name in cost[when] if Path(name).name.startswith("lcm")] for when in ("before", "after")]
    assert opened[0] == opened[1] != []
    assert [
        name for name in cost["threads"] if name.startswith("lcm")
    ] == []  # the host starts some of its own meanwhile


def test_without_the_plugin_the_host_says_so(tmp_path: Path, model: ModelServer) -> None:
    """The other tests mean something: a home that does not enable the plugin gets the host's own compressor."""
    with model:
        home = Home.make(tmp_path / "home", model.base_url, engine="compressor")
        with home.process() as host:
            opened = host.open()

    assert opened["engine"] == "compressor"
    assert not TOOLS & set(opened["tools"])


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """The tree that is released, as the plugin's folder of a home."""
    folder = tmp_path / "home" / "plugins" / "hermes-lcm"
    subprocess.run([REPOSITORY / "scripts" / "release", folder], check=True, capture_output=True)
    (tmp_path / "home" / "config.yaml").write_text("plugins:\n  enabled: [hermes-lcm]\ncontext:\n  engine: lcm\n")
    return folder


def test_the_release_runs_without_tests_and_benchmarks(released: Path) -> None:
    """It holds what users need, and the host finds it."""
    home = Home(released.parents[1])
    listed = json.loads(home.hermes("plugins", "list", "--user", "--json").stdout)

    assert {path.name for path in released.iterdir()} & {"tests", "benchmarks", "tox.ini"} == set()
    assert [plugin["status"] for plugin in listed if plugin["name"] == "hermes-lcm"] == ["enabled"]
    assert "context.engine lcm" in home.hermes("lcm", "status").stdout


def test_the_validator_of_newer_hosts_accepts_the_release(released: Path) -> None:
    """Where the host has one: no dangerous pattern, no core override. Older hosts list no such command."""
    home = Home(released.parents[1])
    has_one = "validate" in home.hermes("plugins", "--help").stdout

    assert (home.hermes("plugins", "validate", str(released)).returncode == 0) is has_one


def test_newer_hosts_offer_one_engine_and_not_the_folder_as_well(released: Path) -> None:
    """They take a folder for an engine whose first lines name the host's classes; loaded so, its tools would be dead."""
    text = (released / "__init__.py").read_text(encoding="utf-8")[:8192]

    assert "ContextEngine" not in text
    assert "register_context_engine" not in text
