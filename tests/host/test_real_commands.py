"""``/lcm`` typed into the real terminal and the real gateway, and ``hermes lcm`` beside a running agent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from host.drive import WINDOW, Home, Process, stored_rows
from host.model_server import ModelServer, Reply, Turns
from host.scripts import busy_turn, sayings
from host.shared import Running

pytestmark = pytest.mark.host

#: The archive of a test: commands on, and patterns that name a session as junk.
SETTINGS = {"LCM_ENABLE_SLASH_COMMAND": "true", "LCM_FRESH_TAIL_COUNT": "8"}


def short(turn: int) -> Sequence[Reply]:
    """A plain answer."""
    return [Reply(f"Reply {turn} about the zebra.")]


def shown(host: Process, text: str) -> str:
    """What the terminal prints for a line that is typed."""
    log = host.home.path / "worker.log"
    before = log.stat().st_size
    host.cli_say(text=text)
    host.engine()  # the next answer comes after everything was printed
    return log.read_bytes()[before:].decode(errors="replace")


def at_terminal(home: Home, *words: str) -> Any:
    """The data of ``hermes lcm ... --json`` from another process."""
    done = home.hermes("lcm", *words, "--json")
    assert "Traceback" not in done.stdout + done.stderr
    return json.loads(done.stdout[done.stdout.index("{") :])


@pytest.fixture(scope="module")
def commanded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A terminal in which /lcm can be typed."""
    running = Running(tmp_path_factory.mktemp("commands"), settings=SETTINGS)
    yield running
    running.close()


def test_a_terminals_commands_are_about_its_session(commanded: Running) -> None:
    """Status, search and a dry run in the session that is typed in, also after /new."""
    model, _, host = commanded.talk(Turns(short))
    first = host.cli()["session_id"]
    host.cli_say(text=model.says("Tell me about the zebra."))
    before = shown(host, "/lcm status")
    found = shown(host, "/lcm search zebra")
    said = stored_rows(host, first)[0]["store_id"]
    second = host.cli_say(text="/new")["session_id"]
    host.cli_say(text=model.says("Something else."))
    after = shown(host, "/lcm")
    covered = shown(host, f"/lcm explain msg_{said}")
    rotate = shown(host, "/lcm rotate")
    wrong = shown(host, "/lcm docter")
    in_all = [re.search(r"2 of this session, (\d+) in all", each) for each in (before, after)]

    assert first in before
    assert f"{WINDOW:,}" in before
    assert "Tell me about the zebra." in found
    assert second in after
    assert first not in after
    assert in_all[0]
    assert in_all[1]
    assert int(in_all[1][1]) - int(in_all[0][1]) == 2
    assert first in covered
    assert "Nothing to do" in rotate
    assert "/lcm help" in wrong


def test_a_rotation_takes_effect_at_the_next_turn(commanded: Running) -> None:
    """A dry run, an order with its backup, a second one that does nothing, and a shorter prompt; every message stays."""
    model, home, host = commanded.talk(Turns(busy_turn))
    session = host.cli()["session_id"]
    for turn in range(2):
        host.cli_say(text=model.says(sayings(turn)))
    dry = shown(host, "/lcm rotate")
    backups = home.path / "lcm-backups"
    made_by_looking = backups.exists()
    ordered, again = shown(host, "/lcm rotate apply"), shown(host, "/lcm rotate apply")
    stored, said = len(stored_rows(host, session)), len(model.truth)
    host.cli_say(text=model.says("Go on."))
    compactions = host.compactions()
    done = shown(host, "/lcm status")

    prompts = [request.tokens for request in model.of_kind("chat")]
    assert "Dry run. `/lcm rotate apply`" in dry
    assert not made_by_looking
    assert "leaves the prompt at the next message" in ordered
    assert "Nothing to do" in again
    assert [path.name for path in backups.glob("*.sqlite3")] == ["lcm-rotate-latest.sqlite3"]
    assert compactions == 1
    assert any(after < before * 0.7 for before, after in pairwise(prompts))
    assert 0 < stored == said
    assert f"{len(model.truth)} of this session, " in done


def test_a_chats_commands_are_about_that_chat(tmp_path: Path) -> None:
    """Two chats of one gateway: each sees its own session and nothing of the other one's."""
    with ModelServer(Turns(short)) as model:
        home = Home.make(tmp_path / "home", model.base_url, settings=SETTINGS)
        with home.process() as host:
            host.gateway()
            ids = {}
            for chat in "12":
                ids[chat] = host.gateway_say(text=f"I am chat {chat}.", chat=chat, user=chat)["session_id"]
            said = {
                (chat, words): host.gateway_say(text=f"/lcm {words}", chat=chat, user=chat)["reply"]
                for chat in "12"
                for words in ("status", "search chat", "explain msg_1", "explain msg_3", "backup", "doctor")
            }
            host.gateway_evict()
            rebuilt = host.gateway_say(text="/lcm status", chat="1", user="1")["reply"]

    for chat, other in ("12", "21"):
        assert ids[chat] in said[chat, "status"]
        assert ids[other] not in said[chat, "status"]
        assert f"I am chat {chat}." in said[chat, "search chat"]
        assert f"I am chat {other}." not in said[chat, "search chat"]
        assert "it is the operator's: `hermes lcm backup`" in said[chat, "backup"]
        assert said[chat, "doctor"].startswith("LCM doctor: healthy")
    assert ids["1"] in said["1", "explain msg_1"]
    assert said["2", "explain msg_1"].startswith("Not done")
    assert said["1", "explain msg_3"].startswith("Not done")
    assert ids["1"] in rebuilt
    assert ids["2"] not in rebuilt


def test_without_its_setting_there_is_no_slash_command(gateway: Running) -> None:
    """Off by default: the host knows no /lcm."""
    _, _, host = gateway.talk(Turns(short))
    host.gateway_say(text="Hello.", chat="off", user="off")
    reply = host.gateway_say(text="/lcm status", chat="off", user="off")["reply"]

    assert "LCM status" not in str(reply)


def test_the_terminal_works_beside_a_running_agent(tmp_path: Path) -> None:
    """Status, doctor and backup from another process while an agent has the database open, and what it knows of the window."""
    with ModelServer(Turns(short)) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        with home.process() as host:
            session = host.open()["session_id"]
            host.turn(text=model.says("Tell me about the zebra."))
            doctor, backup = (at_terminal(home, words) for words in ("doctor", "backup"))
            host.turn(text=model.says("And again."))
            status = at_terminal(home, "status")
            restore = home.hermes("lcm", "restore", "latest", "apply")

    assert (status["session_id"], status["store"]["total_messages"]) == (session, 4)
    assert (status["context_length"], status["context_length_source"]) == (WINDOW, "config.yaml")
    assert doctor["overall"] == "healthy", [each for each in doctor["checks"] if each["status"] != "pass"]
    assert backup["counts"]["messages"] == 2
    assert restore.returncode == 3
    assert "close the other program that holds the database" in restore.stderr
