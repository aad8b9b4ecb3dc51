"""The conformance kit finds what an engine breaks."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent.context_engine import ContextEngine

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = '''
from agent.context_engine import ContextEngine


class Careless(ContextEngine):
    """Throws the older half away, calls and all."""

    name = "careless"

    def __init__(self):
        self.threshold_tokens = 2000

    def update_from_response(self, usage):
        self.last_prompt_tokens = usage["prompt_tokens"]

    def should_compress(self, prompt_tokens=None):
        return (prompt_tokens or 0) >= self.threshold_tokens

    def compress(self, messages, current_tokens=None, **_):
        return messages[-3:]

    def update_model(self, model, context_length, **_):
        self.context_length = context_length


def register(ctx):
    ctx.register_context_engine(Careless())
'''


@pytest.mark.slow
def test_an_engine_that_breaks_the_contract_is_told_which_rule(tmp_path: Path) -> None:
    """Rules that it keeps are told as well, and what it loses is counted."""
    plugin = tmp_path / "careless"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(PLUGIN, encoding="utf-8")
    report = tmp_path / "report.json"
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "conformance.py"),
        str(plugin),
        "--quick",
        "--json",
        str(report),
    ]
    done = subprocess.run(
        [*command, "--markdown", str(tmp_path / "report.md")],
        env={**os.environ, "LCM_DATA": str(tmp_path)}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert done.returncode == 1, done.stderr
    tables = {table["title"]: table["rows"] for table in json.loads(report.read_text(encoding="utf-8"))["tables"]}
    contract = dict(tables["Contract"])
    assert contract["it is a ContextEngine with a name"] == "held"
    assert contract["every tool result stands behind its call"].startswith("broken")
    assert tables["Exam, at the end"][0][-1] > 0.5
    assert "| every tool result stands behind its call |" in (tmp_path / "report.md").read_text(encoding="utf-8")


class Engine(ContextEngine):  # type: ignore[misc]  # the host ships no types
    """An engine that keeps the rules, but for what a compaction makes of a list."""

    name = "engine"

    def __init__(self, compacts: Callable[[list[Any]], Any]) -> None:
        self.compacts, self.threshold_tokens, self.context_length = compacts, 200, 0

    def update_from_response(self, usage: Any) -> None:
        pass

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return (prompt_tokens or 0) >= self.threshold_tokens

    def compress(self, messages: list[Any], current_tokens: int | None = None, **_: Any) -> Any:
        return self.compacts(messages)

    def update_model(self, model: str, context_length: int, **_: Any) -> None:
        self.context_length = context_length


def fails(messages: list[Any]) -> list[Any]:
    raise RuntimeError("out of ideas")


def last(messages: list[Any]) -> list[Any]:
    """The latest request and what came behind it, as the host keeps it."""
    at = max(n for n, message in enumerate(messages) if message["role"] == "user")
    return [{"role": message["role"], "content": message["content"]} for message in messages[at:]]


BROKEN: dict[str, Callable[[list[Any]], Any]] = {
    "no call of the host raises an error": fails,
    "a compaction returns messages, at least one": lambda _: [],
    "user and assistant speak in turns": lambda messages: [{"role": "user", "content": "earlier"}, *last(messages)],
    "no message of it bears the host's mark of those that are written": lambda messages: messages[-1:],
    "every request fits into the window": lambda messages: messages,
}


@pytest.fixture
def kit(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("conformance")


def driven(kit: Any, engine: Any) -> Any:
    """A seat after twenty turns, its engine cloned as the host does it."""
    registry = kit.Registry()
    registry.register_context_engine(engine)
    seat = kit.Seat(registry, 400)
    for n in range(20):
        seat.turn(
            [{"role": "user", "content": f"request {n} {'x ' * 200}"}, {"role": "assistant", "content": "done"}], len
        )
    return seat


@pytest.mark.parametrize("rule", BROKEN)
def test_what_breaks_one_rule_is_told_that_one_and_ends_no_run(kit: Any, rule: str) -> None:
    """The host goes on, so the kit does."""
    broken = driven(kit, Engine(BROKEN[rule])).broken

    assert broken[rule] > 0
    assert {each for each in broken if broken[each]} <= {rule, "every request fits into the window"}


def test_an_engine_that_keeps_the_rules_breaks_none(kit: Any) -> None:
    seat = driven(kit, Engine(last))

    assert (seat.broken.total(), seat.raised) == (0, "")
    assert seat.compactions > 5


def test_the_host_binds_an_engine_before_the_session_begins(kit: Any) -> None:
    """Model, database, session; and each compaction ends a session before it begins one."""
    told: list[Any] = []
    engine = Engine(last)
    for name in ("update_model", "bind_session_state", "on_session_start", "on_session_end"):
        setattr(engine, name, lambda *_, name=name, **facts: told.append((name, facts.get("boundary_reason"))))
    seat = driven(kit, engine)

    assert [name for name, _ in told[:3]] == ["update_model", "bind_session_state", "on_session_start"]
    assert told[3:5] == [("on_session_end", None), ("on_session_start", "compression")]
    assert seat.compactions > 0


def test_an_engine_that_cannot_be_cloned_is_told_so(kit: Any) -> None:
    """The host would say nothing, and go on with its own compressor."""
    engine = Engine(last)
    engine.lock = threading.Lock()
    registry = kit.Registry()
    registry.register_context_engine(engine)

    asked = {rule: kit.held(check) for rule, check in kit.contract(registry, 400)}

    assert asked["the host's clone of it is another object"].startswith("broken: TypeError: cannot pickle")
