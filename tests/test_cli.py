"""``hermes lcm``: the verbs of /lcm at a terminal, as the host calls them."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ops_world import LOCKS_OUT, ROOT, WRITES, Holder, World, corrupt, empty, healthy, newer

from hermes_lcm import cli
from hermes_lcm.db import connection
from hermes_lcm.ops.verbs import FAILED, FOUND, OK, REFUSED, VERBS


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A locked database is given up after 20 ms."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 20)


def arguments(*words: str) -> argparse.Namespace:
    """Parsed as the host parses them."""
    parser = argparse.ArgumentParser()
    cli.setup(parser)
    return parser.parse_args(words)


def call(world: World, *words: str) -> int:
    """The exit code of ``hermes lcm <words>``."""
    return cli.main(arguments(*words), world.runtime)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return healthy(tmp_path)


# -- answers -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "verb", [verb for verb in VERBS if not verb.changes], ids=lambda verb: verb.name.replace(" ", "-")
)
def test_every_verb_answers_as_json(verb: Any, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """One object on stdout, nothing else."""
    more = {"explain": ["msg_1"], "search": ["zebra"], "preset apply": ["codex_gpt_long_context", "--dry-run"]}
    call(world, *verb.name.split(), *more.get(verb.name, []), "--json")

    assert isinstance(json.loads(capsys.readouterr().out), dict)


def test_text_is_the_default(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """What a person at a terminal wants."""
    assert call(world) == OK
    assert capsys.readouterr().out.startswith("LCM status")


def test_the_newest_session_is_looked_at(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless one is named."""
    call(world, "status", "--json")
    assert json.loads(capsys.readouterr().out)["session_id"] == "s1"
    assert call(world, "status", "--session", "unknown") == REFUSED


def test_rotating_needs_a_named_session(world: World) -> None:
    """Nobody should rotate the newest session by accident."""
    assert call(world, "rotate") == REFUSED
    assert call(world, "rotate", "--session", "s1") == OK


def test_apply_works_as_a_word_and_as_an_option(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """And --dry-run wins."""
    world.raw("UPDATE messages SET source = ''")
    call(world, "doctor", "source", "--apply", "--dry-run", "--json")
    assert json.loads(capsys.readouterr().out) == {"blank": 100}
    call(world, "doctor", "source", "apply", "--json")
    assert json.loads(capsys.readouterr().out)["filled"] == 100


def test_words_to_search_for_stay_as_quoted(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """The shell has read the quotes already."""
    call(world, "search", "it's apply", "--json")

    assert json.loads(capsys.readouterr().out)["query"] == "it's apply"


# -- exit codes ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("state", "words", "code"),
    [
        (healthy, "doctor", OK),
        (empty, "status", OK),
        (corrupt, "doctor --deep", FOUND),
        (corrupt, "doctor repair", FOUND),
        (newer, "doctor", FOUND),
        (newer, "backup", FAILED),
        (healthy, "nonsense", REFUSED),
        (healthy, "explain msg_999", REFUSED),
        (empty, "backup", REFUSED),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value).replace(" ", "-"),
)
def test_exit_codes_tell_scripts_what_happened(state: Any, words: str, code: int, tmp_path: Path) -> None:
    """0 done, 1 something is wrong, 2 refused, 3 the database could not."""
    world = state(tmp_path)
    engine = {"engine_name_in_use": "lcm"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            cli, "ops_deps", lambda runtime, session, _engine: world.deps(session and session.session_id, **engine)
        )
        assert call(world, *words.split()) == code


def test_the_host_gets_an_exit_code(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ignores what a handler returns."""
    monkeypatch.setattr(cli.RUNTIMES, "at", lambda: world.runtime)
    with pytest.raises(SystemExit) as ended:
        cli.handle(arguments("nonsense"))
    assert ended.value.code == REFUSED
    cli.handle(arguments("help"))


@pytest.mark.parametrize("statements", [WRITES, LOCKS_OUT], ids=["writer", "locked"])
def test_it_works_beside_another_process(
    statements: tuple[str, ...], world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """A running agent writes, or keeps everything to itself: an answer either way."""
    world.close()
    holder = Holder(world.path, *statements)
    try:
        call(world, "status", "--json")
        said = json.loads(capsys.readouterr().out)
    finally:
        holder.free()

    assert said["database"]["state"] == ("ready" if statements is WRITES else "failed")


# -- the whole way -------------------------------------------------------------------------------------
@pytest.mark.host
def test_the_hosts_own_command_answers(hermes_home: Path) -> None:
    """``hermes lcm status --json`` through the host's argument parser, with the plugin installed by a link."""
    (hermes_home / "plugins").mkdir()
    (hermes_home / "plugins" / "hermes-lcm").symlink_to(ROOT, target_is_directory=True)
    (hermes_home / "config.yaml").write_text("plugins:\n  enabled: [hermes-lcm]\ncontext:\n  engine: lcm\n")
    healthy(hermes_home).close()
    code = "import sys; sys.argv = ['hermes', 'lcm', *sys.argv[1:]]; from hermes_cli.main import main; main()"
    env = {**os.environ, "HERMES_HOME": str(hermes_home)}
    command = [sys.executable, "-c", code, "status", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=hermes_home, env=env, timeout=120, check=False)
    said = json.loads(done.stdout[done.stdout.index("{") :])

    assert done.returncode == OK, done.stderr[-2000:]
    assert said["store"]["total_messages"] == 100
    assert said["host"]["engine_in_use"] == "lcm"
