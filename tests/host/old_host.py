"""
A host before 0.18: the plugin refuses it in words, and the host works on without it.

Only for an environment with such a host (``tox -e py311-h0170``), so pytest does not collect it by its name.
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest

from host.drive import Home, HostError
from host.model_server import ModelServer, Reply, Turns

pytestmark = pytest.mark.host

VERSION = metadata.version("hermes-agent")


@pytest.fixture
def model() -> ModelServer:
    return ModelServer(Turns(lambda turn: [Reply(f"Reply {turn}.")]))


def test_the_refusal_names_the_version_and_the_way_out(tmp_path: Path, model: ModelServer) -> None:
    """What the host keeps as the plugin's error says which version it is, which it should be, and what to type."""
    with model:
        home = Home.make(tmp_path / "home", model.base_url)
        with home.process() as host, pytest.raises(HostError) as refused:
            host.open()

    reason = str(refused.value)
    assert f"this is {VERSION}" in reason
    assert "needs Hermes Agent 0.18 or newer" in reason
    assert "hermes plugins disable hermes-lcm" in reason


def test_the_host_works_on_with_its_own_compressor(tmp_path: Path, model: ModelServer) -> None:
    """Two turns of a conversation, the second in a process of its own, with the plugin still configured."""
    with model:
        home = Home.make(tmp_path / "home", model.base_url)
        first, session = home.chat_once("Hello.")
        second, _ = home.chat_once("Still there?", resume=session)
        offered = model.of_kind("chat")[-1]

    assert "Reply 0." in first
    assert "Reply 1." in second
    assert [name for name in offered.tools if name.startswith("lcm_")] == []
    assert [m["content"] for m in offered.messages if m["role"] == "assistant"] == ["Reply 0."]


def test_the_refusal_is_in_the_log_and_leaves_no_files(tmp_path: Path, model: ModelServer) -> None:
    """The reason is where a user looks for it; the plugin writes nothing."""
    with model:
        home = Home.make(tmp_path / "home", model.base_url)
        home.chat_once("Hello.")
        listed = json.loads(home.hermes("plugins", "list", "--user", "--json").stdout)
    logs = "".join(path.read_text(errors="replace") for path in (home.path / "logs").glob("*.log"))

    assert [plugin["name"] for plugin in listed] == ["hermes-lcm"]
    assert f"this is {VERSION}" in logs
    assert list(home.path.rglob("*lcm*.db*")) == []
