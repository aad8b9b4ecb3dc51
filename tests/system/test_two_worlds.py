"""Two worlds that differ only in what others say give the same answers, timing aside (P8)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from worlds.gateway import ALICE, CALLERS, GROUP, Agent, Matrix, asked
from worlds.recall import wants

from hermes_lcm.errors import LcmError
from hermes_lcm.llm.client import Reply
from hermes_lcm.ops import explain, pull
from hermes_lcm.plugin import registration
from hermes_lcm.recall import grep

QUIET = "nothing of note"
LOUD = (
    "zebra4711 carcinoma alpha gardens weather plums. Always deploy on Fridays. My favourite colour is teal. We decided to use "
    "port 8123. The release is on 2026-03-04. " + "beta common words mine plums gardens ordinary " * 300
)
MINE = (
    "zebqa4711 zebra0000 alpha alpha beta. I prefer spaces. Never push on Mondays.", "beta carcinqma alpha plums",
    "common words mine KESTREL? and plums of my gardens",
)  # fmt: skip
#: What the caller searches for: others' words, words near them, common ones, and long questions, which bring a second look.
QUERIES = (
    "zebra4711", "carcinoma", "alpha beta", "common alpha words", "zebra4712", "alph", "common words", "plums gardens",
    "what was said about plums of the gardens in the ordinary weather of march", "favourite colour teal",
    "when did we decide on the port before the release", "deploy fridays german tabs",
)  # fmt: skip
ADDRESSED = ("explain", "show", "recall", "dissolve", "pin", "purge")
VERBS = (
    *("status", "status deep", "doctor", "doctor deep", "doctor clean", "doctor repair", "cost", "cost since 3", "help"),
    *("search gardens plums", "search KESTREL", "search zebra4711 --limit 5", "recall gardens", "recall zebra4711"),
    *(f"{verb} {address}" for verb in ADDRESSED for address in ("msg_1", "sum_1")), "sessions", "journal", "exam",
    *("ledger", "ledger all", "ledger drop 1", "preset show", "preset suggest", "rotate", "rotate apply"),
    *("redact preview", "retention", "export", "backup", "restore", "import x", "rescue", "fleet status", "config"),
)  # fmt: skip
REFERENCES = ("msg_1", "msg_3", "msg_30", "sum_1", "gardens plums", "zebra4711", "KESTREL", "carcinoma")
NOISE = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?"), "TIME"),
    (re.compile(r'"(started_at|at|seconds|first_at|last_at|created_at|changed_at|free)": [\d.]+'), "NUMBER"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}"), "UUID"),
    (re.compile(r"(quiet|loud)\d+"), "HOME"),
    (re.compile(r"\d\d:\d\d"), "TIME"),
    (re.compile(r"(data|evidence)-[0-9a-f]{8}"), "FENCE"),
    (re.compile(r"plugin_git_dirty[^,]*,|, with local changes"), ""),
)

Ask = tuple[str, dict[str, Any]]
Cell = tuple[str, str, str, tuple[str, ...]]


def plain(said: str) -> str:
    for pattern, word in NOISE:
        said = pattern.sub(word, said)
    return said


class Echo:
    """A model that searches once, where it may, and then says something that depends on every word of its request."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def complete(self, messages: Sequence[Mapping[str, Any]], **given: Any) -> Reply:
        request = plain(json.dumps(list(messages), default=str))
        self.read.append(request)
        if given.get("tools") and not any(each["role"] == "tool" for each in messages):
            return wants("search", query="alpha KESTREL gardens plums")
        return Reply(f"it says {hashlib.sha256(request.encode()).hexdigest()[:20]} (msg_1)", model="scripted")


@contextmanager
def opened(home: Path, theirs: str, name: str) -> Iterator[tuple[Matrix, Agent]]:
    """A world in which others say ``theirs``, and one who asks."""
    world = Matrix(home, theirs=theirs)
    try:
        agent = world.caller(name)
        agent.says(*MINE)
        agent.tool("lcm_archive", operation="store", start_index=2, end_index=3, summary="mine: plums")
        yield world, agent
    finally:
        world.hooks.PROCESS.engines.gateway = False
        world.runtime.preparer.stop()
        world.runtime.db.close()


def later(world: Matrix) -> None:
    """Others go on: messages, sessions, archives and errors behind everything that the caller has."""
    for who, platform, key in (("alice", "telegram", ALICE), ("term", "cli", ""), ("bob", "telegram", f"{GROUP}bob")):
        other = world.agent(f"s_{who}_2", platform, key).says(*(f"{n} {LOUD}" for n in range(12)))
        other.tool("lcm_archive", operation="store", start_index=0, end_index=1, summary=f"late {LOUD}")
        world.runtime.health.degraded(f"tool lcm_grep of s_{who}", LOUD)


def questions(world: Matrix, step: int) -> list[Ask]:
    """Every tool with every parameter, or some of them, as JSON and as lines; second looks; the ledger."""
    grid = [*asked(world)][::step]
    asks = [(tool, {"format": "json", **args}) for tool, args in grid]
    asks += [(tool, dict(args)) for tool, args in grid[::6]]
    for query in QUERIES:
        asks += [("lcm_grep", {"query": query, "session_scope": each}) for each in ("all", "current")]
        asks += [("lcm_grep", {"query": query, "session_scope": "all", "format": "json", "reasons": True})]
    asks += [("lcm_grep", {"query": "alpha beta plums", "sort": each}) for each in ("recency", "hybrid", "time")]
    asks += [("lcm_describe", {"view": "ledger", "about": each}) for each in ("colour", "port", "deploy", "")]
    return asks


def of_tools(world: Matrix, agent: Agent, asks: Sequence[Ask]) -> Iterator[Cell]:
    """Answers, and what the model read for them."""
    model = world.runtime.model = Echo()
    for tool, args in asks:
        model.read.clear()
        said = str(agent.engine.handle_tool_call(tool, args, messages=list(agent.live)))
        yield tool, json.dumps(args), plain(said), tuple(sorted(model.read))


def of_the_chat(world: Matrix, key: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cell]:
    """`/lcm` and `@lcm:` as they are typed there."""
    monkeypatch.setattr(world.hooks.PROCESS.engines, "gateway", True)
    monkeypatch.setattr(world.hooks, "command_key", lambda: key)
    for words in VERBS:
        yield "/lcm", words, plain(registration.answer(words)), ()
    access = registration._asked()  # what a reference of the host asks with
    for target in REFERENCES if access is not None else ():
        said = [_said(pull.addresses, access, target), _said(explain.search, access, target)]
        if said[0].startswith("["):
            said.append(pull.text(access.store, access.dag, json.loads(said[0])))
        yield "@lcm", target, plain("\n".join(said)), ()


def _said(ask: Callable[..., Any], *args: Any) -> str:
    try:
        return json.dumps(ask(*args))
    except LcmError as exc:
        return f"{type(exc).__name__}: {exc}"


SOME = [pytest.param(each, 15, id=f"{each}, some") for each in ("dm", "api with a key")]
ALL = [
    pytest.param(each, 1, id=each, marks=pytest.mark.slow)
    for each in ("dm", "group user", "api", "api with a key", "hygiene", "handed over", "job")
]


@pytest.mark.parametrize(("name", "step"), SOME + ALL)
def test_what_others_say_changes_no_answer(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    step: int,
    monkeypatch: pytest.MonkeyPatch,
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    """By every tool and parameter, second look, question to the model, verb and reference; before the caller speaks and after."""
    monkeypatch.setattr(grep, "SCAN_S", 600.0)  # how far a scan comes in its time is up to the machine
    key = "" if "api" in name else CALLERS[name][2]  # nobody types a command there
    worlds: list[list[Cell]] = []
    asks: list[Ask] = []
    for theirs, folder in ((QUIET, "quiet"), (LOUD, "loud")):
        home = tmp_path_factory.mktemp(folder)
        monkeypatch.setenv("HERMES_HOME", str(home))
        with monkeypatch.context() as patched, opened(home, theirs, name) as (world, agent):
            if theirs is LOUD:
                later(world)
            asks = asks or questions(world, step)
            worlds.append([*of_tools(world, agent, asks), *of_the_chat(world, key, patched)])
    first, second = worlds
    record_testsuite_property(f"two worlds: cells of {name}", len(first))  # in pytest's --junit-xml

    assert [(a, b) for a, b in zip(first, second, strict=True) if a != b] == []
    assert len(first) > 300 / step
    assert any(read for *_, read in first)
