"""The matrix of P8: every kind of caller, tool, parameter and data; and two worlds that only others make differ."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rights_world import ALICE, MALLORY, Agent, World

from hermes_lcm.dag import fingerprint
from hermes_lcm.records import NewNode
from hermes_lcm.schemas import TOOLS, Param
from recall import Model

GROUP = "agent:main:telegram:group:-5:"
#: What others have, by its kind; every one is found by the word KESTREL.
DATA = {
    "message": "quartzmessage",
    "summary": "quartzsummary",
    "archive": "quartzarchive",
    "error": "quartzerror",
    "setting": "quartzsetting",
    "payload": base64.b64encode(b"quartzpayload" * 300).decode()[80:120],
}
#: Names that tell of others.
NAMES = ("s_alice", "s_bob", "s_term", "telegram:dm:1", "group:-5:bob")
#: Callers: (session, platform, key, row of the host or None for one that agrees). Each may read its own session only.
CALLERS: dict[str, tuple[str, str, str, Any]] = {
    "dm": ("c_dm", "telegram", MALLORY, ()),
    "group user": ("c_group", "telegram", f"{GROUP}mallory", ()),
    "thread": ("c_thread", "telegram", "agent:main:telegram:thread:-5:77", ()),
    "another profile": ("c_profile", "telegram", "agent:work:telegram:dm:1", ()),
    "desktop": ("c_desktop", "desktop", "", ()),
    "api": ("c_api", "api_server", "", ()),
    "api with a key": ("c_api_key", "api_server", ALICE, ("api_server", "")),
    "api named local": ("c_api_local", "api_server", "local", ("api_server", "")),
    "webhook": ("c_webhook", "webhook", "agent:main:webhook:route:1", ()),
    "job": ("cron_1_2", "cron", "", ()),
    "curator": ("c_curator", "curator", "", ()),
    "background review": ("c_review", "telegram", "", None),
    "hygiene": ("c_hygiene", "", "", ("telegram", MALLORY)),
    "hygiene before the row": ("c_nobody", "", "", None),
    "batch runner": ("c_batch", "", "", ("cli", "")),
    "terminal in a chat's session": ("c_resumed", "cli", "", ("telegram", MALLORY)),
    "handed over": ("c_handed", "telegram", MALLORY, ("cli", "")),
    "odd key": ("c_odd", "telegram", "agent:main:local", ()),
}
LOCALS = {"terminal": "cli", "tui": "tui", "acp": "acp"}


class Matrix(World):
    """Three people with every kind of data, and whoever asks."""

    def __init__(self, home: Path, *, theirs: str = "") -> None:
        super().__init__(home)
        self.theirs = theirs
        self.runtime.model = Model(*["No answer."] * 50_000)
        for name, platform, key in (
            ("alice", "telegram", ALICE), ("bob", "telegram", f"{GROUP}bob"), ("term", "cli", "")
        ):  # fmt: skip
            self.fill(f"s_{name}", platform, key)
        self.runtime.health.degraded("request view of s_alice", f"KESTREL {DATA['error']} {theirs}", severity="warning")
        self.runtime.health.degraded("background worker", f"KESTREL {DATA['error']} {theirs}", severity="warning")

    def fill(self, session: str, platform: str, key: str) -> None:
        """A conversation with a message, a file, a summary and an archive."""
        agent = self.agent(session, platform, key)
        uri = f"data:image/png;base64,{base64.b64encode(b'quartzpayload' * 300).decode()}"
        agent.live.user(f"KESTREL {DATA['message']} {self.theirs} common words here").says("KESTREL noted " * 90)
        agent.live.user(f"KESTREL picture {uri}").says("KESTREL seen")
        agent.says("the last word of it")
        agent.tool("lcm_archive", operation="store", start_index=0, end_index=1, summary=f"KESTREL {DATA['archive']}")
        known = self.runtime.known(session)
        rows = self.runtime.scopes.page(session, self.scope(), self.wanted(), after=0, limit=10)
        text = f"KESTREL {DATA['summary']} {self.theirs}"
        node = NewNode(
            known.conversation_id, 0, "verified", text, "KESTREL", 9, 90, tuple(rows[2:4]), fingerprint(0, rows[2:4])
        )
        self.runtime.dag.add(node, now=time.time())

    @staticmethod
    def scope() -> Any:
        from hermes_lcm.records import Scope

        return Scope()

    @staticmethod
    def wanted() -> Any:
        from hermes_lcm.search.scope import Wanted

        return Wanted()

    def caller(self, name: str) -> Agent:
        """One who asks, with something of their own."""
        session, platform, key, row = CALLERS[name]
        if row == ():
            self.row(session, platform, "" if platform == "api_server" else key)
        elif row is not None:
            self.row(session, *row)
        agent = Agent(self, session, platform, key)
        return agent.says("an ordinary question about gardens", "and one about the weather")

    def addresses(self) -> dict[str, list[Any]]:
        """What parameters of each kind are tried with: everything that others have, in every form."""
        store = self.runtime.store
        last = max(row.store_id for rows in store.every() for row in rows)
        messages = [*range(1, min(last, 14) + 1), f"msg_{last}", f"1..{last}", f"msg_1..msg_{last}"]
        files = [path.stem for path in self.runtime.payloads.folder.rglob("*.z")]
        nodes = [f"sum_{node.node_id}" for each in self.runtime.dag.every() for node in each]
        handles = [row[0] for row in self.runtime.db.query("SELECT handle FROM archives")]
        return {
            "address": [*messages, *nodes, *[f"file_{each[:16]}" for each in files], *files],
            "addresses": [nodes, messages[:4]],
            "name": ["s_alice", "s_bob", "s_term", "local", "telegram:dm:1", "%", *handles],
            "int": [0, 1, 2, 3, last],
            "text": ["KESTREL", "common words here"],
            "time": ["2020-01-01"],
            "names": ["cli", "telegram"],
            "roles": ["user"],
            "bool": [True, False],
        }


BASES: dict[str, list[dict[str, Any]]] = {
    "lcm_grep": [
        {"query": "KESTREL"},
        {"query": "KESTREL", "session_scope": "all"},
        {"query": "K.S.REL", "mode": "regex"},
    ],
    "lcm_load_session": [{}],
    "lcm_describe": [{}, {"view": "ledger"}],
    "lcm_expand": [{"store_id": 1}, {"node_id": "sum_1"}, {}],
    "lcm_expand_query": [{"prompt": "KESTREL", "session_scope": "all"}, {"prompt": "what was said of KESTREL?"}],
    "lcm_map": [
        {"prompt": "KESTREL", "query": "KESTREL", "session_scope": "all"},
        {"prompt": "what?", "store_ids": "msg_1..msg_99"},
    ],
    "lcm_archive": [{"operation": each} for each in ("list", "load", "restore")],
    "lcm_status": [{}],
    "lcm_doctor": [{}, {"deep": True}],
}


def asked(world: Matrix) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every tool with every parameter, tried with everything that fits its kind."""
    known = world.addresses()

    def values(param: Param) -> list[Any]:
        return list(param.choices) if param.choices else known.get(param.kind, known["text"])

    for name, tool in TOOLS.items():
        for base in BASES[name]:
            yield name, base
            for param in tool.params:
                for value in values(param):
                    yield name, {**base, param.name: value}


def told(said: str, args: dict[str, Any]) -> list[str]:
    """What an answer gives away: the kinds of data in it, and names that nobody asked by."""
    given = json.dumps(args)
    return [kind for kind, word in DATA.items() if word in said] + [n for n in NAMES if n in said and n not in given]


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
