"""
Every statement of every command and tool fails (P2, P9, P10): an answer comes, nothing that was said changes, and it works again.

By default every 61st statement in one of the ways; ``-m slow`` takes all statements in all ways.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds.breaking import KINDS, Faults, Host, copied, template
from worlds.home import Home
from worlds.process import Script, chat, digests, texts

from hermes_lcm.command import OK, REFUSED, Answer, answer, operator_access
from hermes_lcm.errors import SummaryUnavailable
from hermes_lcm.records import Row
from hermes_lcm.storage import files

SAID = chat().turns(30)
STEP = 61
JUNK, NAMELESS, JOB = "junk-1", "nameless-1", "job-1"
WAYS: tuple[dict[str, Any], ...] = (
    *({"code": code} for code in KINDS.values()),
    {"code": KINDS["input-output"], "lasting": True},
    {"code": KINDS["input-output"], "late": True},
)
COMMANDS = {
    "status": "status",
    "doctor": "doctor deep",
    "backup": "backup",
    "restore": "restore latest apply",
    "repair of a sound file": "doctor repair apply",
    "repair of an index": "doctor repair apply",
    "export": "export",
    "import": "import {export} --apply",
    "rotate": "rotate apply",
    "clean": "doctor clean apply",
    "source": "doctor source apply",
    "dissolve": "dissolve sum_1 apply",
    "retention": "retention apply",
    "search": "search question",
}
TOOLS: dict[str, dict[str, Any]] = {
    "lcm_grep": {"query": "question 7"},
    "lcm_load_session": {"session_id": "s"},
    "lcm_describe": {"id": "sum_1"},
    "lcm_expand": {"node_id": "sum_1"},
    "lcm_expand_query": {"prompt": "what was question 7?"},
    "lcm_map": {"prompt": "what was question 7?", "query": "question 7"},
    "lcm_status": {},
    "lcm_doctor": {},
}


@pytest.fixture(autouse=True)
def _settings(monkeypatch: Any) -> None:
    monkeypatch.setenv("LCM_DOCTOR_CLEAN_APPLY_ENABLED", "true")
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "8")
    monkeypatch.setenv("LCM_IGNORE_SESSION_PATTERNS", JUNK)
    monkeypatch.setenv("LCM_RETENTION", "cron:30d=purge")


class Silent:
    """No model answers; said at once."""

    def complete(self, *_: Any, **__: Any) -> Any:
        raise SummaryUnavailable("no provider")


@pytest.fixture
def faults(monkeypatch: Any) -> Faults:
    return Faults().install(monkeypatch)


def lived(host: Host) -> None:
    """Messages, summaries, a prompt with messages behind it that a rotation takes out, a backup and an export."""
    host.says(SAID[:40])
    host.says([*host.compress(SAID[:40].copy()), *SAID[40:]])
    host.command("backup")
    host.command("export")


def unindexed(host: Host) -> None:
    lived(host)
    host.close()
    with sqlite3.connect(host.home / "lcm.db") as raw:
        raw.execute("DELETE FROM message_index_docsize WHERE id > 1000")
    raw.close()


def with_others(host: Host) -> None:
    """A session of junk, one whose source nobody gave, and a job that is old."""
    lived(host)
    world = Home(host.home)
    for session in (JUNK, NAMELESS, JOB):
        world.say(
            f"a question of {session}", f"an answer of {session}", session=session, platform="cron", source="cron"
        )
    world.raw(
        "UPDATE messages SET source = '' WHERE session_key = (SELECT session_key FROM sessions WHERE session_id = ?)",
        NAMELESS,
    )
    world.raw(
        "UPDATE messages SET stored_at = 1e9 WHERE session_key = (SELECT session_key FROM sessions WHERE session_id = ?)",
        JOB,
    )
    world.raw("UPDATE sessions SET started_at = 1e9 WHERE session_id = ?", JOB)
    world.close()
    files.reseal(world.path)


def of_session(host: Host, session: str) -> list[Row]:
    return list(host.runtime.whole_store.page(session, after=-1, limit=1000))


def said_in(host: Host) -> list[dict[str, Any]]:
    """Messages of the session that goes on."""
    return [row.stored_json for row in of_session(host, host.session_id)]


#: What a command has done, once it went through.
DONE: dict[str, Callable[[Host], bool]] = {
    "clean": lambda host: not of_session(host, JUNK),
    "source": lambda host: {row.head.source for row in of_session(host, NAMELESS)} == {"unknown"},
    "retention": lambda host: not any("of job-1" in row.text for row in of_session(host, JOB)),
}


def words(name: str, home: Path) -> str:
    exported = next(iter(sorted((home / "lcm-exports").glob("*.jsonl"))), "")
    return COMMANDS[name].format(export=exported)


def typed(host: Host, words: str) -> Answer:
    """The answer at a terminal: some commands are refused in a chat."""
    access = operator_access(host.runtime, host.runtime.stored(host.session_id), host.engine)
    return answer(words, replace(access, trusted=True))


def half_made(home: Path) -> list[str]:
    """Files that only an operation in its middle needs."""
    return [path.name for path in home.rglob("*") if path.name.startswith(".") and "lcm" in path.name]


def command_attempt(name: str, source: Path, home: Path, faults: Faults, number: int, way: dict[str, Any]) -> bool:
    """One command with a statement that fails. False: it got through before that statement."""
    host = Host(copied(source, home), Script("ok"))
    before = said_in(host)
    faults.arm(number, **way)
    typed(host, words(name, home))
    fired = faults.disarm()
    why = f"{name}, statement {number}: {fired[:1]}"
    assert half_made(home) == [], why
    assert said_in(host) == before, why
    again = typed(host, words(name, home))
    assert again.code in (OK, REFUSED), f"{why}: {again.text}"
    assert name not in DONE or DONE[name](host), f"{why}: {again.text}"
    host.says(SAID.copy())
    assert sorted(digests(said_in(host))) == sorted(digests(SAID)), why
    host = host.next()
    assert said_in(host) == before, why
    assert typed(host, "doctor deep").code == OK, f"{why}: {typed(host, 'doctor deep').text}"
    host.close()
    return bool(fired)


def made(name: str, folder: Path) -> Path:
    worlds = {"repair of an index": unindexed, **dict.fromkeys(DONE, with_others)}
    return template(folder, worlds.get(name, lived))


@pytest.mark.few(4)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_whose_statement_fails_harms_nothing(name: str, tmp_path: Path, faults: Faults) -> None:
    """No exception but an answer, no half-made file, the same messages; and the command works when the fault is gone."""
    source, number = made(name, tmp_path), 1
    way = WAYS[1]
    while command_attempt(name, source, tmp_path / "home", faults, number, way) or way.get("late"):
        number += STEP
        way = WAYS[number % len(WAYS)]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=[*KINDS, "lasting", "after the commit"])
@pytest.mark.parametrize("name", COMMANDS)
def test_whatever_statement_of_a_command_fails(name: str, way: dict[str, Any], tmp_path: Path, faults: Faults) -> None:
    """The same with every statement in every way."""
    source, number = made(name, tmp_path), 1
    while command_attempt(name, source, tmp_path / "home", faults, number, way):
        number += 1


def tool_attempt(name: str, host: Host, faults: Faults, number: int, way: dict[str, Any]) -> bool:
    host.runtime.db.close()
    host.runtime.model = Silent()
    faults.arm(number, **way)
    answer = json.loads(host.tool(name, **TOOLS[name]))
    fired = faults.disarm()
    assert isinstance(answer, dict)
    host.runtime.db._busy_until = 0.0
    assert "error" not in json.loads(host.tool(name, **TOOLS[name])), f"{name}, statement {number}: {fired[:1]}"
    return bool(fired)


def sweep_tool(name: str, tmp_path: Path, faults: Faults, step: int) -> None:
    host = Host(copied(template(tmp_path, lived), tmp_path / "home"), Script("ok"))
    number = 1
    for way in WAYS[: None if step == 1 else 1] + WAYS[5:6]:
        number = 1
        while tool_attempt(name, host, faults, number, way):
            number += step
    host.says(SAID.copy())
    assert texts(host.stored()) == texts(SAID)
    host.close()


@pytest.mark.few(2)
@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_whose_statement_fails_answers(name: str, tmp_path: Path, faults: Faults) -> None:
    """An answer in JSON, and the real one when the fault is gone."""
    sweep_tool(name, tmp_path, faults, STEP)


@pytest.mark.slow
@pytest.mark.parametrize("name", TOOLS)
def test_whatever_statement_of_a_tool_fails(name: str, tmp_path: Path, faults: Faults) -> None:
    """The same with every statement in every way."""
    sweep_tool(name, tmp_path, faults, 1)
