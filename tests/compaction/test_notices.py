"""What the user hears of a compaction: one line, with figures, once; and why one did not happen."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds.process import Script, chat

from hermes_lcm.command import answer, operator_access
from hermes_lcm.compaction import compress
from hermes_lcm.compaction.compress import Outcome


class Agent:
    """The host's agent, as far as a line to the user goes: it holds its engine and calls it."""

    def __init__(self, home: Path, platform: str = "cli", key: str | None = None) -> None:
        from hermes_lcm.engine import LCMEngine

        self.shown: list[str] = []
        self.platform = platform
        self.context_compressor: Any = LCMEngine()
        self.context_compressor.update_model("m", 5_333)
        about = {"hermes_home": str(home), "platform": platform, "conversation_id": key}
        self.context_compressor.on_session_start("s", **about)
        runtime = self.context_compressor.runtime
        runtime.compactor._summarise = runtime.ladder.summarise = Script()

    def _emit_status(self, text: str) -> None:
        self.shown.append(text)

    def compact(self, messages: Any, *, taken: bool = True, **wishes: Any) -> None:
        """As the host does it: ask, and say that the list was taken over."""
        out = self.context_compressor.compress(messages, **wishes)
        if out is not messages and taken:
            self.context_compressor.on_session_start("s", boundary_reason="compression", old_session_id="s")


@pytest.fixture
def agent(hermes_home: Path) -> Iterator[Agent]:
    agent = Agent(hermes_home)
    yield agent
    agent.context_compressor.runtime.preparer.stop()
    agent.context_compressor.runtime.db.close()


def test_a_compaction_says_one_line_with_its_figures(agent: Agent) -> None:
    """Messages, summaries, tokens before and after; and where they can be seen."""
    agent.compact(chat().turns(30), force=True)
    (line,) = agent.shown

    assert line.startswith("Folded ")
    assert " messages into " in line
    assert "nothing lost, `hermes lcm` shows them." in line


def test_a_compaction_that_the_host_drops_says_nothing(agent: Agent) -> None:
    """Nothing was folded then."""
    agent.compact(chat().turns(30), force=True, taken=False)

    assert agent.shown == []


def test_a_compaction_that_did_not_happen_says_why_once(agent: Agent) -> None:
    """The host asks again in each turn; nobody wants to read it each time."""
    for _ in range(2):
        agent.compact(chat().turns(1), force=True)

    assert agent.shown == ["Did not fold old messages: only the newest messages are left, and they stay as they are."]


def test_a_chat_turns_its_lines_off_and_on(agent: Agent) -> None:
    """The choice is the chat's and outlasts the process; the host's own text is silent with it."""
    engine = agent.context_compressor
    engine.runtime.observe("s", chat().turns(1))
    deps = operator_access(engine.runtime, engine.runtime.find_session("s"), engine)
    off = answer("notices off", deps)
    agent.compact(chat().turns(30), force=True)
    quiet, asked = list(agent.shown), engine.get_automatic_compaction_status_message(phase="compress")
    answer("notices on", deps)

    assert (off.data["notices"], quiet, asked) == (False, [], None)
    assert engine.get_automatic_compaction_status_message(phase="compress") == compress.BEGINS


def test_a_gateways_chat_hears_only_the_line_with_the_figures(hermes_home: Path) -> None:
    """Newer hosts ask before a pass for what to say; two lines would be one too many in a chat."""
    engine = Agent(hermes_home, platform="telegram", key="agent:main:telegram:dm:1").context_compressor

    assert engine.get_automatic_compaction_status_message(phase="compress", default_message="x") is None
    engine.runtime.db.close()


OUTCOME = Outcome([], "compacted", 51_000, 36_400, assembly_id=1, folded=84, leaves=3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Folded 84 messages into 3 summaries (51k to 36k tokens, 0.4 s); nothing lost, /lcm shows them."),
        ({"provisional": 1}, " 1 part is an extract until a model answers."),
        ({"over_limit": True}, " The prompt is still above its threshold."),
        ({"folded": 0, "leaves": 0}, "Shortened the prompt (51k to 36k tokens, 0.4 s)"),
        ({"assembly_id": 0}, "; not stored by the plugin, still in Hermes' own transcript."),
    ],
)
def test_the_line_is_honest(changes: dict[str, Any], said: str) -> None:
    """What is not whole is said."""
    assert said in compress.folded(dataclasses.replace(OUTCOME, **changes), 0.41, "/lcm shows them")


@pytest.mark.parametrize(("trusted", "where"), [(True, "at this terminal"), (False, "in this chat")])
def test_the_answer_says_whose_lines_are_meant(agent: Agent, trusted: bool, where: str) -> None:
    """At a terminal they are those of all its sessions; there is no chat."""
    engine = agent.context_compressor
    engine.runtime.observe("s", chat().turns(1))
    deps = replace(operator_access(engine.runtime, engine.runtime.find_session("s"), engine), trusted=trusted)

    assert answer("notices off", deps).text.startswith(f"Compactions say nothing {where} (chosen here).")
