"""The matrix of P8: every kind of caller, tool, parameter and data; and two worlds that only others make differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rights_world import CALLERS, DATA, LOCALS, Matrix, asked, told


@pytest.fixture
def world(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Matrix]:
    monkeypatch.setenv("LCM_IGNORE_SESSION_PATTERNS", DATA["setting"])
    made = Matrix(hermes_home)
    yield made
    made.runtime.preparer.stop()
    made.runtime.db.close()


@pytest.mark.parametrize("name", CALLERS)
def test_no_caller_gets_anything_of_others(
    world: Matrix, name: str, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """By no tool, parameter, id, digest, handle, scope or word."""
    agent = world.caller(name)
    cells = 0
    for tool, args in asked(world):
        said = str(agent.engine.handle_tool_call(tool, {"format": "json", **args}, messages=list(agent.live)))
        cells += len(DATA)
        assert told(said, args) == [], (tool, args)

    record_testsuite_property(f"cells of {name}", cells)  # in pytest's --junit-xml
    assert cells > 1000
    assert ("gardens" in agent.tool("lcm_load_session")) is (name != "hygiene before the row")  # nothing is stored yet


@pytest.mark.parametrize("name", LOCALS)
def test_the_operator_gets_everything(world: Matrix, name: str) -> None:
    """The same questions at the terminal: what nobody else gets is there to be got."""
    agent = world.agent("s_operator", LOCALS[name]).says("hello")
    found = {kind for tool, args in asked(world) for kind in told(agent.tool(tool, **args), args)}

    assert found >= {*DATA}


def test_a_sub_agent_reads_what_its_parent_may(world: Matrix) -> None:
    """And no more, if somebody gives it our tools."""
    parent = world.caller("dm")
    world.hooks.subagent_start(parent_session_id=parent.session, child_session_id="child")
    child = world.agent("child", "subagent").says("a task")

    assert "gardens" in child.tool("lcm_load_session", session_id=parent.session)
    assert [each for tool, args in asked(world) if (each := told(child.tool(tool, **args), args))] == []


# -- two worlds ----------------------------------------------------------------------------------------------------
_NOISE = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?"), "TIME"),
    (re.compile(r'"(started_at|at|seconds|first_at|last_at|created_at|changed_at|free)": [\d.]+'), "NUMBER"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}"), "UUID"),
    (re.compile(r"hermes\d+"), "HOME"),
    (re.compile(r"\d\d:\d\d"), "TIME"),
)


def plain(said: str) -> str:
    for pattern, word in _NOISE:
        said = pattern.sub(word, said)
    return said


def answers(home: Path, theirs: str, query: str, name: str, asks: Any = None) -> list[tuple[str, Any, str]]:
    """All answers to one caller in a world in which the others say ``theirs``; to the same questions, if they are given."""
    world = Matrix(home, theirs=theirs)
    try:
        agent = world.caller(name)
        agent.says("zebqa4711 zebra0000 alpha alpha beta", "beta carcinqma alpha", f"{query} mine")
        probes = [("lcm_grep", {"query": q, "session_scope": s}) for q in (
            "zebra4711", "carcinoma", "alpha beta", "common alpha words", query, "zebra4712", "alph"
        ) for s in ("all", "current")]  # fmt: skip
        probes += [("lcm_grep", {"query": "alpha beta", "sort": each}) for each in ("recency", "hybrid")]
        asks = asks or [*asked(world), *probes]
        return [(tool, args, plain(agent.tool(tool, **args))) for tool, args in asks]
    finally:
        world.runtime.preparer.stop()
        world.runtime.db.close()


@pytest.mark.parametrize("name", ["dm", "group user", "api", "hygiene"])
def test_what_others_say_changes_no_answer(
    tmp_path_factory: pytest.TempPathFactory, name: str, monkeypatch: Any
) -> None:
    """Two worlds that differ only in that give the same answers to every tool, timing aside."""
    quiet, loud = (tmp_path_factory.mktemp("hermes") for _ in range(2))
    monkeypatch.setenv("HERMES_HOME", str(quiet))
    first = answers(quiet, "nothing of note", "common words", name)
    monkeypatch.setenv("HERMES_HOME", str(loud))
    second = answers(
        loud,
        "zebra4711 carcinoma alpha " + "beta common words mine " * 300,
        "common words",
        name,
        [each[:2] for each in first],
    )
    files = [path.stem for home in (quiet, loud) for path in (home / "lcm-payloads").rglob("*.z")]

    assert len(first) == len(second) > 150
    told_apart = [(a, b) for a, b in zip(first, second, strict=True) if a[2] != b[2]]
    assert told_apart == []
    assert files
