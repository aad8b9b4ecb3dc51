"""
Surfaces of hosts near 0.22: the API of the tab behind the host's real server, the plugin catalog, the validator.

Only for an environment with such a host (``tox -e py311-h0222``), so pytest does not collect it by its name.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from worlds.home import Home as Stored

from host.drive import REPOSITORY, Home
from host.model_server import ModelServer, Reply, Turns, last_said

pytestmark = [pytest.mark.host, pytest.mark.slow]

#: A list of requests in, their answers out, from the server that `hermes dashboard` runs, without its lifespan.
_ASK = """
import json, sys
from starlette.testclient import TestClient
from hermes_cli import plugins, web_server
plugins.discover_plugins() if hasattr(plugins, "discover_plugins") else None
client = TestClient(web_server.app, base_url="http://127.0.0.1:9119")
token = {"X-Hermes-Session-Token": web_server._SESSION_TOKEN}
for line in sys.stdin:
    method, path, body, known = json.loads(line)
    got = client.request(method, path, json=body, headers=token if known else {})
    try:
        said = got.json()
    except ValueError:
        said = got.text[:200]
    print("ANSWER " + json.dumps([got.status_code, said]), flush=True)
"""


class Server:
    """The host's dashboard server in a process of its own."""

    def __init__(self, home: Home) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _ASK], env=home.environment(), cwd=home.path, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(home.path / "server.log").open("w"),
        )  # fmt: skip
        self._log = home.path / "server.log"

    def ask(self, method: str, path: str, body: Any = None, *, known: bool = True) -> tuple[int, Any]:
        """(status, answer)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([method, path, body, known]) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("ANSWER "):
                status, said = json.loads(line.removeprefix("ANSWER "))
                return status, said
        raise AssertionError(self._log.read_text()[-3000:])

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def test_the_api_of_the_tab_behind_the_real_server(tmp_path: Path) -> None:
    """Only with the host's token; every page answers; a change is shown, done, and noted."""
    home = Home.make(tmp_path / "home", "http://127.0.0.1:9/v1")
    world = Stored(home.path)
    world.say("Always answer in German, please.", "ok", *[f"message {n} about zebras" for n in range(30)])
    world.close()
    server, at = Server(home), "/api/plugins/hermes-lcm"
    try:
        assert server.ask("GET", f"{at}/about", known=False)[0] == 401
        status, about = server.ask("GET", f"{at}/about")
        assert (status, about["mode"], about["home"]) == (200, "full", str(home.path)), about
        for page in ("now", "sessions", "graph", "prompts", "exam?ask=1", "ledger", "settings", "verbs", "journal"):
            assert server.ask("GET", f"{at}/{page}")[0] == 200, page
        assert server.ask("GET", f"{at}/search?query=zebras")[1]["total_results"] == 30
        entry = server.ask("GET", f"{at}/ledger")[1]["entries"][0]["entry"]
        dry = server.ask("POST", f"{at}/run", {"words": f"ledger strike {entry}"})[1]
        assert server.ask("GET", f"{at}/ledger")[1]["marks"] == {}
        done = server.ask("POST", f"{at}/run", {"words": f"ledger strike {entry}", "apply": True, "seen": dry["seen"]})
        assert (done[0], done[1]["applied"]) == (200, True)
        assert server.ask("GET", f"{at}/journal")[1]["entries"][0]["words"] == f"ledger strike {entry}"
        listed = server.ask("GET", "/api/dashboard/plugins")[1]
        assert "hermes-lcm" in json.dumps(listed)
        assert server.ask("GET", "/dashboard-plugins/hermes-lcm/web/app.mjs", known=False)[0] == 200
        assert server.ask("GET", "/dashboard-plugins/hermes-lcm/plugin_api.py", known=False)[0] == 404
    finally:
        server.close()


@pytest.mark.parametrize("folder", ["hermes-lcm", "lcm", "anything"])
def test_the_picker_offers_us_once(folder: str, tmp_path: Path) -> None:
    """Whatever the folder is called; and what it offers is the engine that stores."""
    home = Home.make(tmp_path / "home", "http://127.0.0.1:9/v1")
    (home.path / "plugins" / "hermes-lcm").unlink()
    subprocess.run(
        [REPOSITORY / "scripts" / "release", home.path / "plugins" / folder], check=True, capture_output=True
    )
    server = Server(home)
    try:
        providers = server.ask("GET", "/api/dashboard/plugins/hub")[1]["providers"]
    finally:
        server.close()

    assert [each["name"] for each in providers["context_options"]] == ["lcm"]
    assert providers["context_engine"] == "lcm"


def test_the_catalog_takes_our_entry(tmp_path: Path) -> None:
    """By the host's own reading of it; its capabilities are those of the manifest."""
    import hermes_yaml as yaml
    from hermes_cli import plugin_catalog

    printed = subprocess.run(
        [sys.executable, REPOSITORY / "scripts" / "catalog", "https://github.com/owner/hermes-lcm"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    entry = plugin_catalog.entry_from_mapping(yaml.safe_load(printed), "hermes-lcm.yaml")
    manifest = yaml.safe_load((REPOSITORY / "plugin.yaml").read_text(encoding="utf-8"))

    assert entry is not None
    assert entry.version == manifest["version"]
    assert entry.capabilities.provides_tools == manifest["provides_tools"]
    assert entry.capabilities.provides_hooks == manifest["provides_hooks"]


def test_the_validator_passes_the_release(tmp_path: Path) -> None:
    """The gate of the catalog."""
    home = Home.make(tmp_path / "home", "http://127.0.0.1:9/v1")
    folder = tmp_path / "release" / "hermes-lcm"
    subprocess.run([REPOSITORY / "scripts" / "release", folder], check=True, capture_output=True)
    done = home.hermes("plugins", "validate", str(folder))

    looked = home.hermes("plugins", "doctor", str(folder))

    assert (done.returncode, looked.returncode) == (0, 0), done.stdout + looked.stdout
    assert "no core override — no runtime rebinds" in done.stdout


# -- @lcm: -----------------------------------------------------------------------------------------------
SECRET = "The rhubarb is in the cellar."


def asked(model: ModelServer) -> str:
    """What the model was shown last of the user's own words, with what the host attached to them."""
    return last_said(model.of_kind("chat")[-1])[0]


@pytest.mark.parametrize("reference", ["@lcm:msg_1", '@lcm:"rhubarb cellar"'])
def test_a_reference_typed_at_the_terminal_brings_its_message(tmp_path: Path, reference: str) -> None:
    """By its address and by its words, from a conversation before this one."""
    with ModelServer(Turns(lambda turn: [Reply(f"Reply {turn}.")])) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        with home.process() as host:
            host.cli()
            host.cli_say(text=SECRET)
            host.cli_say(text="/new")
            host.cli_say(text=f"Where is it? {reference}")

        assert SECRET in asked(model)


def test_a_reference_is_completed_from_words(tmp_path: Path) -> None:
    """As the host's terminal program asks for it."""
    with ModelServer(Turns(lambda turn: [Reply(f"Reply {turn}.")])) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        with home.process() as host:
            host.cli()
            host.cli_say(text=SECRET)
            offered = host.complete(prefix="lcm", typed="rhubarb")

    assert "@lcm:msg_1" in offered


#: This host's own module of onboarding names ``Path`` without importing it: only Python 3.14 starts its program as it is.
_TUI = "import builtins, pathlib; builtins.Path = pathlib.Path; from tui_gateway.entry import main; main()"


class Terminal:
    """The program behind the host's terminal interface, spoken to as that interface does: JSON-RPC over stdio."""

    def __init__(self, home: Home) -> None:
        self._log, self._number = (home.path / "tui.log").open("w"), 0
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _TUI], env=home.environment(), cwd=home.path, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request; events in between are left alone."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if (said := json.loads(line)).get("id") == self._number:
                return dict(said["result"])
        raise AssertionError(Path(self._log.name).read_text()[-3000:])

    def offered(self, word: str) -> list[str]:
        """What is offered while this word is typed."""
        return [each["text"] for each in self.ask("complete.path", word=word)["items"]]

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._log.close()


def test_the_terminal_program_offers_references_before_the_first_message(tmp_path: Path) -> None:
    """That is when somebody wants to go on from an earlier conversation. ``@`` offers the prefix, words the messages."""
    home = Home.make(tmp_path / "home", "http://127.0.0.1:9/v1")
    world = Stored(home.path)
    world.say(SECRET, "I see.", "Something else.")
    world.close()
    terminal = Terminal(home)
    try:
        terminal.ask("session.create", cols=80)
        end = time.monotonic() + 60
        while "@lcm:" not in terminal.offered("@"):  # the plugins are loaded with the agent, behind the answer
            assert time.monotonic() < end
            time.sleep(0.2)

        assert terminal.offered("@lcm:rhubarb") == ["@lcm:msg_1"]
        assert terminal.offered("@lcm:rhub") == ["@lcm:msg_1"]
        assert terminal.offered('@lcm:"the rhubarb in the cel') == ["@lcm:msg_1"]
        assert terminal.offered("@lcm:zebra") == []
    finally:
        terminal.close()


def test_the_first_message_at_a_terminal_brings_what_it_refers_to(tmp_path: Path) -> None:
    """Nothing of this session is stored yet."""
    with ModelServer(Turns(lambda turn: [Reply(f"Reply {turn}.")])) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        world = Stored(home.path)
        world.say(SECRET, "I see.")
        world.close()
        with home.process() as host:
            host.cli()
            host.cli_say(text="Where is it? @lcm:msg_1")

        assert SECRET in asked(model)


def test_a_reference_typed_in_a_chat_brings_only_what_is_that_chat_s(tmp_path: Path) -> None:
    """The same words, typed by the one who said them and by somebody else."""
    with ModelServer(Turns(lambda turn: [Reply(f"Reply {turn}.")])) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        with home.process() as host:
            host.gateway()
            host.gateway_say(text=SECRET, chat="1", user="1")
            for reference in ("@lcm:msg_1", '@lcm:"rhubarb cellar"', "@lcm:rhubarb"):
                host.gateway_say(text=f"What is it? {reference}", chat="2", user="2")
                assert SECRET not in json.dumps(model.of_kind("chat")[-1].messages), reference
            host.gateway_say(text="What is it? @lcm:msg_1", chat="1", user="1")

        assert asked(model).count(SECRET) == 1
