"""The host finds the plugin, selects its engine, offers its tools and copies it, at no cost per copy."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from host.drive import REPOSITORY, WINDOW, Home
from host.model_server import ModelServer, Reply, Turns

pytestmark = pytest.mark.host

TOOLS = set(re.findall(r"- (lcm_\w+)", (REPOSITORY / "plugin.yaml").read_text()))


@pytest.fixture
def model() -> ModelServer:
    return ModelServer(Turns(lambda _turn: [Reply("hello")]))


def test_the_plugin_is_listed_and_enabled(tmp_path: Path, model: ModelServer) -> None:
    """``hermes plugins list`` shows it, as a plugin of the user's, and looking at it leaves nothing behind."""
    with model:
        home = Home.make(tmp_path / "home", model.base_url)
        listed = json.loads(home.hermes("plugins", "list", "--user", "--json").stdout)

    [plugin] = [plugin for plugin in listed if plugin["name"] == "hermes-lcm"]
    assert plugin["status"] == "enabled"
    assert list(home.path.rglob("*lcm*.db*")) == []


def test_the_engine_is_selected_and_its_tools_reach_the_model(tmp_path: Path, model: ModelServer) -> None:
    """The agent runs on engine ``lcm``, and what the model is offered includes every tool of the manifest."""
    with model:
        home = Home.make(tmp_path / "home", model.base_url)
        with home.process() as host:
            opened = host.open()
            host.turn(text="hello")

    assert (opened["engine"], opened["context_length"]) == ("lcm", WINDOW)
    assert {"lcm_grep", "lcm_expand", "lcm_status"} <= TOOLS
    assert set(model.of_kind("chat")[0].tools) >= TOOLS


def test_fifty_copies_open_nothing(tmp_path: Path, model: ModelServer) -> None:
    """Each agent gets a deep copy; fifty of them, bound to sessions, share the connections of the first."""
    with model:
        home = Home.make(tmp_path / "home", model.base_url)
        with home.process() as host:
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
