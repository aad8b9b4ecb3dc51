"""The matrix of P8: every kind of caller, tool, parameter and data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from worlds.gateway import CALLERS, DATA, LOCALS, MALLORY, Matrix, asked, told

from hermes_lcm.command import VERBS
from hermes_lcm.plugin import registration


@pytest.fixture
def world(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Matrix]:
    monkeypatch.setenv("LCM_IGNORE_SESSION_PATTERNS", DATA["setting"])
    made = Matrix(hermes_home)
    yield made
    made.runtime.preparer.stop()
    made.runtime.db.close()


#: Of so many questions one is asked with every change: another one by each caller, so that all together ask every one.
SOME_OR_ALL = [pytest.param(10, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)]


@pytest.mark.parametrize("step", SOME_OR_ALL)
@pytest.mark.parametrize("name", CALLERS)
def test_no_caller_gets_anything_of_others(
    world: Matrix, name: str, step: int, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """By no tool, parameter, id, digest, handle, scope or word."""
    agent = world.caller(name)
    cells = 0
    for tool, args in [*asked(world)][[*CALLERS].index(name) % step :: step]:
        said = str(agent.engine.handle_tool_call(tool, {"format": "json", **args}, messages=list(agent.live)))
        cells += len(DATA)
        assert told(said, args) == [], (tool, args)

    record_testsuite_property(f"cells of {name}", cells)  # in pytest's --junit-xml
    assert cells > 1000 / step
    assert ("gardens" in agent.tool("lcm_load_session")) is (name != "hygiene before the row")  # nothing is stored yet


@pytest.mark.parametrize("name", LOCALS)
def test_the_operator_gets_everything(world: Matrix, name: str) -> None:
    """The same questions at the terminal: what nobody else gets is there to be got."""
    agent = world.agent("s_operator", LOCALS[name]).says("hello")
    missing, questions = {*DATA}, [*asked(world)]
    for tool, args in (each for n in range(10) for each in questions[n::10]):  # of all kinds soon
        missing -= {*told(agent.tool(tool, **args), args)}
        if not missing:
            break

    assert missing == set()


@pytest.mark.parametrize("step", SOME_OR_ALL)
def test_no_command_of_a_chat_tells_or_changes_anything_of_others(
    step: int, world: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every verb of `/lcm`, with what others have behind it; where no agent of the chat runs, too."""
    world.caller("dm")
    monkeypatch.setattr(world.hooks.PROCESS.engines, "gateway", True)
    files = [f"file_{path.stem[:16]}" for path in world.runtime.payloads.folder.rglob("*.z")][:1]
    others = [
        "",
        "msg_1",
        "sum_1",
        *files,
        "s_alice",
        "--session s_term",
        "KESTREL",
        "latest apply",
        "telegram:dm:1",
        str(world.home),
    ]
    before = stored_of_others(world)
    for key in (MALLORY, "agent:main:telegram:dm:999"):
        monkeypatch.setattr(world.hooks, "command_key", lambda key=key: key)
        typed = [(verb.name, each) for verb in VERBS for each in others if verb.name not in ("top", "browse")]
        for name, words in typed[len(key) % step :: step]:
            assert told(registration.answer(f"{name} {words}".strip()), {"typed": words}) == [], (key, name, words)

    assert stored_of_others(world) == before


def stored_of_others(world: Matrix) -> list[object]:
    """Rows, summaries and archives of the first three conversations."""
    count = "SELECT count(*), sum(flags), sum(pos) FROM messages WHERE conversation_id <= 3"
    return [world.runtime.db.query(each) for each in (count, "SELECT * FROM nodes", "SELECT count(*) FROM archives")]


@pytest.mark.parametrize("step", SOME_OR_ALL)
def test_a_sub_agent_reads_what_its_parent_may(step: int, world: Matrix) -> None:
    """And no more, if somebody gives it our tools."""
    parent = world.caller("dm")
    world.hooks.subagent_start(parent_session_id=parent.session, child_session_id="child")
    child = world.agent("child", "subagent").says("a task")

    assert "gardens" in child.tool("lcm_load_session", session_id=parent.session)
    asks = [*asked(world)][::step]
    assert [each for tool, args in asks if (each := told(child.tool(tool, **args), args))] == []
