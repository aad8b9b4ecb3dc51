"""Sub-agents: children have engine copies and sessions of their own, before 0.22 no engine tools, and belong to their parent."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent.context_engine import ContextEngine

from host.checks import assert_kept, assert_valid, begins, look, said_where
from host.drive import WINDOW, Home
from host.model_server import ModelServer, Reply, Request, last_said, text_of
from host.scripts import LISTING
from host.terminal import terminal

pytestmark = [pytest.mark.host, pytest.mark.slow]

#: Hosts near 0.22 offer a child its engine's tools, with which it reads what its parent's principal may read.
CHILDREN_GET_TOOLS = hasattr(ContextEngine, "select_context")
GOALS = {"left": "Count the apples on the left.", "right": "Count the pears on the right."}


def script(request: Request) -> Reply:
    """The parent delegates two goals at once; each child runs a command and reports; then the parent answers."""
    said, answers = last_said(request)
    for side, goal in GOALS.items():
        if said.startswith(goal):
            look_there = [("terminal", {"command": f"echo {side}; {LISTING}"})]
            return Reply("", look_there) if not answers else Reply(f"There are seven on the {side}.")
    if said.startswith("Count everything") and not answers:
        return Reply("I delegate.", [("delegate_task", {"tasks": [{"goal": goal} for goal in GOALS.values()]})])
    if said.startswith("Count everything"):
        return Reply("They are on their way.")
    return Reply("Fourteen in all.")


def test_children_of_a_turn(tmp_path: Path) -> None:
    """Two children in parallel: three sessions, each with its own messages once, all the parent's principal's."""
    with ModelServer(script, limit=WINDOW) as model:
        home = Home.make(tmp_path / "home", model.base_url)
        with terminal(home) as screen:
            screen.wait_for("❯")
            screen.say("Count everything, please.", r"They are on their way\.")
            screen.wait_for(r"Fourteen in all\.")
            screen.leave()
        sessions = dict(
            home.query(
                "SELECT m.content, s.id FROM sessions s JOIN messages m ON m.session_id = s.id "
                "WHERE m.role = 'user' ORDER BY m.id DESC"
            )
        )
        ids = [
            next(i for text, i in sessions.items() if text.startswith(each))
            for each in ("Count every", *GOALS.values())
        ]
        parent, *children = look(home, *ids)
        truths = [said_where(model, begins(each)) for each in ("Count everything", *GOALS.values())]

    assert len(set(ids)) == 3
    for kept, truth in zip((parent, *children), truths, strict=True):
        said = [
            {**m, "content": text_of(m).partition("\n\nlcm: record of")[0]} if m["role"] == "user" else m for m in truth
        ]
        assert_kept(kept, said)
        assert kept.principal == "local"
    assert [each.origin for each in children] == ["subagent", "subagent"]
    assert [len(each.rows) for each in children] == [4, 4]
    told = [text_of(m) for request in model.of_kind("chat") for m in request.messages if m["role"] == "user"]
    assert any(f'record of the sub-agent "{GOALS["left"]}": lcm_expand(' in text for text in told)
    for request in model.of_kind("chat"):
        assert_valid(request)
        child = any(text_of(m).startswith(tuple(GOALS.values())) for m in request.messages if m["role"] == "user")
        assert any(name.startswith("lcm_") for name in request.tools) is (not child or CHILDREN_GET_TOOLS)
