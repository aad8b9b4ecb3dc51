"""The hosts that the README says the plugin runs in are those that were tried, and it runs in no older one."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from hermes_lcm.host import facts
from hermes_lcm.host.facts import session_transcript

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def hosts() -> ModuleType:
    """scripts/hosts.py, which is no module of a package."""
    spec = importlib.util.spec_from_file_location("hosts_script", ROOT / "scripts" / "hosts.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_says_what_was_run(hosts: ModuleType) -> None:
    """The README's table is made from the results, and nobody improved it by hand."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert hosts.written(readme, hosts.read_results()) == readme


def test_no_environment_failed(hosts: ModuleType) -> None:
    """What failed is repaired, not written down."""
    results = hosts.read_results()

    assert {name: (each["failed"], each["exit"]) for name, each in results.items()} == dict.fromkeys(results, (0, 0))
    assert all(each["passed"] for each in results.values())


def test_a_failure_shows_in_the_table(hosts: ModuleType) -> None:
    """No cell turns a failed or crashed run into a yes."""
    name = hosts.environments()[0]
    run = {"on": "2026-01-01", "passed": 9, "failed": 0, "skipped": 0, "exit": 0}

    assert "| yes |" in hosts.table({name: run})
    assert "**2 failed**" in hosts.table({name: run | {"failed": 2, "exit": 1}})
    assert "**all failed**" in hosts.table({name: run | {"exit": 4}})
    assert "not run" in hosts.table({})


def test_tox_tests_with_the_tools_that_we_test_with(hosts: ModuleType) -> None:
    """The same pytest and Hypothesis, so that a verdict means the same everywhere."""
    ours = set(_pins((ROOT / "scripts" / "setup-env").read_text(encoding="utf-8")))
    theirs = set(_pins(hosts.configuration()["testenv"]["deps"]))

    assert {(name, version) for name, version in theirs if not name.startswith("hermes-agent")} <= ours
    assert ours & theirs >= {pin for pin in theirs if pin == ("hermes-agent", "0.19.0")}


def _pins(text: str) -> Iterator[tuple[str, str]]:
    yield from re.findall(r"([a-z][a-z0-9-]+)==([\w.]+)", text)


@pytest.mark.parametrize(
    ("version", "refused"),
    [
        ("0.13.0", True),
        ("0.17.0", True),
        ("0.17.9.post1", True),
        ("0.18.0", False),
        ("0.22.2.post1", False),
        ("1.0.0", False),
        ("2026.9.24", False),
        ("0.0.0", False),  # what development trees call themselves
        (None, False),
    ],
)
def test_hosts_before_018_are_refused(monkeypatch: pytest.MonkeyPatch, version: str | None, refused: bool) -> None:
    """All agents of such a host would share one engine; the refusal names the version that was found."""
    monkeypatch.setattr(facts, "version", lambda: version)
    reason = facts.too_old(SimpleNamespace(register_context_engine=None))

    assert bool(reason) is refused
    assert not refused or f"this is {version}" in str(reason)


def test_notes_of_a_gateway_are_nobodys_words(tmp_path: Path) -> None:
    """A gateway writes a row of its own into the transcript of every chat; catching up leaves it out."""
    from hermes_state import SessionDB

    sessions = SessionDB(tmp_path / "state.db")
    sessions.create_session("s", "telegram")
    for role, text in (("session_meta", "tools: 30"), ("user", "Hello."), ("assistant", "Good morning.")):
        sessions.append_message("s", role=role, content=text)

    assert "session_meta" in [message["role"] for message in sessions.get_messages_as_conversation("s")]
    assert [message["content"] for message in session_transcript(sessions, "s")] == ["Hello.", "Good morning."]


def test_a_list_without_notes_is_the_very_same_list() -> None:
    """Every hook asks: only a list that has notes of a gateway in it is copied without them."""
    messages = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Good morning."}]
    note = {"role": "session_meta", "tools": []}

    assert facts.without_notes(messages) is messages
    assert facts.without_notes([note, messages[0], note, messages[1]]) == messages
