"""The agent's own archive with the real host: what the provider is sent, to the token and to the byte."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from host.checks import assert_valid
from host.drive import WINDOW, Home, Process, all_rows, compare
from host.model_server import ModelServer, Reply, Request, Turns, count_tokens, text_of
from host.shared import Running

pytestmark = pytest.mark.host

Call = tuple[str, dict[str, Any]]


class Agent:
    """Runs a command every turn, but for turns in which it archives: ``plan`` says which calls it makes then."""

    def __init__(self, plan: dict[int, Callable[[Agent], Call]]) -> None:
        self.plan = plan
        self.answers: list[dict[str, Any]] = []
        self.script = Turns(self._turn)

    def __call__(self, request: Request) -> Reply:
        if request.last.get("role") == "tool" and '"lcm_archive"' in json.dumps(request.messages[-2]):
            self.answers.append(json.loads(text_of(request.last)))
        return self.script(request)

    def _turn(self, turn: int) -> Sequence[Reply]:
        if turn in self.plan:
            return [Reply("", [self.plan[turn](self)])]
        return [Reply(f"I look {turn}.", [("terminal", {"command": f"seq -f 'turn {turn} line %g' 1 300"})])]

    @property
    def handle(self) -> str:
        return str(self.answers[0]["memory_handle"])


def archive(operation: str, **arguments: Any) -> Callable[[Agent], Call]:
    return lambda agent: (
        "lcm_archive",
        {
            "operation": operation,
            **arguments,
            **({"memory_handle": agent.handle} if operation in ("load", "restore") else {}),
        },
    )


def talk(host: Process, model: ModelServer, turns: range) -> str:
    session = ""
    for turn in turns:
        done = host.turn(text=model.says(f"Go on with part {turn}."))
        assert done["failed"] is None
        session = done["session_id"]
    return session


def said(messages: Sequence[dict[str, Any]]) -> list[tuple[str, str, list[str], str]]:
    """What of messages counts for a model."""
    return [
        (m["role"], text_of(m).strip(), [c["id"] for c in m.get("tool_calls") or []], str(m.get("tool_call_id") or ""))
        for m in messages
    ]


def conversation(request: Request) -> list[dict[str, Any]]:
    return [message for message in request.messages if message["role"] != "system"]


def test_stored_loaded_and_restored(agents: Running) -> None:
    """Store, five more turns, load, restore: the saving is what was announced, and the originals come back equal."""
    agent = Agent(
        {
            3: archive("store", start_index=1, end_index=6, summary="Part 0 and 1 are fine."),
            9: archive("load"),
            10: archive("restore", restore_insert_index=0),
        }
    )
    model, home, host = agents.talk(agent, limit=WINDOW)
    host.open()
    session = talk(host, model, range(12))
    live = host.live()["messages"]
    rows = all_rows(host, session)
    status = host.tool(name="lcm_status", args={})
    compactions = host.compactions()
    chats = model.of_kind("chat")
    stored, loaded, restored = agent.answers[0], agent.answers[1], agent.answers[-1]
    asked = next(n for n, request in enumerate(chats) if text_of(request.last) == "Go on with part 3.")
    before, after = conversation(chats[asked]), conversation(chats[asked + 1])

    assert compactions == 0
    assert "error" not in stored, stored
    assert stored["archived"] == "1..6"
    shown = [m for m in after if text_of(m).startswith("[[memory archived")]
    assert [text_of(m) for m in shown] == [stored["placeholder"]]
    assert after[0] == before[0]
    assert said(after[-len(before) + 7 - 2 : -2]) == said(before[7:])
    measured = count_tokens(before) - count_tokens(after[:-2])
    assert abs(stored["saves_tokens"] - measured) <= 0.05 * measured
    assert chats[asked + 1].tokens - chats[asked].tokens == pytest.approx(
        count_tokens(after[-2:]) - stored["saves_tokens"], rel=0.05
    )
    for request in chats[asked + 1 : -4]:
        assert [text_of(m) for m in conversation(request)].count(stored["placeholder"]) == 1
    assert [m["content"] for m in loaded["messages"]] == [text_of(m) or m.get("content") for m in live[1:7]][
        : len(loaded["messages"])
    ]
    assert restored["restored"] is True
    assert "restore_insert_index=0 was not followed" in restored["notes"][0]
    assert said(conversation(chats[-1])[:7]) == said(before[:7])
    assert said(conversation(chats[-1])) == said(live[:-1])
    assert not (difference := compare(home.transcript(model.truth), rows)), difference
    assert not status.get("problems"), status["problems"]
    for request in chats:
        assert_valid(request)


def placeholders(request: Request) -> int:
    """How often a request shows an archive's placeholder. The answer to the call that archived quotes it once more."""
    shown = (text_of(message) for message in conversation(request) if message["role"] != "tool")
    return sum(text.count("[[memory archived handle=mem://") for text in shown)


@pytest.mark.parametrize(
    "in_place",
    [pytest.param(True, id="in-place"), pytest.param(False, id="rotating", marks=pytest.mark.slow)],
)
def test_archive_compaction_restart_restore(tmp_path: Path, in_place: bool) -> None:
    """Archived, compacted, resumed by another process, restored: nothing is lost or shown twice, the originals come back."""
    big = "seq -f 'turn {} much of line %g' 1 1450"
    agent = Agent(
        {2: archive("store", start_index=1, end_index=6, summary="Fine."), 8: archive("restore"), 9: archive("list")}
    )
    small = agent._turn
    agent.script.steps = lambda turn: (
        [Reply("I look.", [("terminal", {"command": big.format(turn)})])] if 3 <= turn <= 7 else small(turn)
    )
    with ModelServer(agent, limit=WINDOW) as model:
        home = Home.make(tmp_path / "home", model.base_url, in_place=in_place)
        with home.process() as host:
            host.open()
            session = talk(host, model, range(8))
            compactions = host.compactions()
        with home.process() as host:
            host.open(session_id=session, resume=True)
            session = talk(host, model, range(8, 11))
            rows = all_rows(host, session)
            status = host.tool(name="lcm_status", args={})
    chats = model.of_kind("chat")
    truth = home.transcript(model.truth)
    original = next(request for request in chats if text_of(request.last) == "Go on with part 2.")
    restored = next(answer for answer in agent.answers if "restored" in answer)
    listed = agent.answers[-1]

    assert compactions
    assert agent.answers[0]["archived"] == "1..6"
    assert restored["restored"] is True, restored
    assert [item["where"] for item in listed["archives"]] == ["restored: shown as messages"]
    at = next(
        n
        for n, request in enumerate(chats)
        if request.last["role"] == "tool" and '"restored": true' in text_of(request.last)
    )
    archived = next(n for n, request in enumerate(chats) if placeholders(request))
    assert at - archived > 4
    assert [placeholders(request) for request in chats[archived:at]] == [1] * (at - archived)
    assert [placeholders(request) for request in chats[at:]] == [0] * len(chats[at:])
    shown = said(conversation(chats[at]))
    first = shown.index(said(conversation(original)[1:2])[0])
    assert shown[first : first + 6] == said(conversation(original)[1:7])
    assert not (difference := compare(truth, rows)), difference
    assert not status.get("problems"), status["problems"]
    for request in chats:
        assert_valid(request)
