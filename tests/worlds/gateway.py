"""A process of the host with agents of every kind, and the host's own rows of their sessions."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_lcm.dag import fingerprint
from hermes_lcm.records import NewNode
from hermes_lcm.schemas import TOOLS, Param
from worlds.breaking import fresh_process
from worlds.process import Chat, Script, chat
from worlds.recall import Model, as_json

ALICE, MALLORY = "agent:main:telegram:dm:1", "agent:main:telegram:dm:666"
PIN, OWL = "ZEBRAPIN4711", "OWLSECRET99"


@dataclass
class HostDb:
    """The host's session database: rows by session id, and what it has of each session."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    said: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def get_session(self, session_id: str) -> dict[str, Any] | None:
        return self.rows.get(session_id)

    def get_messages_as_conversation(self, session_id: str) -> list[dict[str, Any]]:
        return list(self.said.get(session_id, ()))


class Agent:
    """One agent of the host with its engine. ``platform`` "": the host names none for it, and says "cli" of it."""

    def __init__(self, world: Gateway, session: str, platform: str = "cli", key: str = "") -> None:
        self.world, self.session, self.platform = world, session, platform
        self.live: Chat = chat()
        self.context_compressor = self.engine = world.make()
        self.engine.update_model("m", 64_000)
        self.engine.bind_session_state(world.db, session)
        self._start(key)

    def _start(self, key: str) -> None:
        """As the host's ``agent_init``: the agent is on the stack."""
        home = str(self.world.home)
        self.engine.on_session_start(
            self.session, hermes_home=home, platform=self.platform or "cli", conversation_id=key or None
        )

    def says(self, *texts: str, live: Chat | None = None) -> Agent:
        """Turns of a user and an agent that agrees."""
        self.live = live if live is not None else self.live
        for text in texts:
            self.live.user(text).says("noted")
        self.world.hooks.post_llm_call(
            session_id=self.session, conversation_history=list(self.live), platform=self.platform
        )
        return self

    def tool(self, name: str, **args: Any) -> str:
        return str(self.engine.handle_tool_call(name, as_json(name, args), messages=list(self.live)))

    def finds(self, query: str, **args: Any) -> set[str]:
        """The sessions in which a search finds something."""
        found = json.loads(self.tool("lcm_grep", query=query, **{"session_scope": "all", **args}))
        return {each["session_id"] for each in found.get("results", ())}

    def reads(self, session: str) -> int:
        return len(json.loads(self.tool("lcm_load_session", session_id=session)).get("messages", ()))


class Gateway:
    """A process of the host with everything in one home."""

    def __init__(self, home: Path) -> None:
        from hermes_lcm.engine import LCMEngine
        from hermes_lcm.plugin import hooks

        fresh_process()
        self.home, self.db, self.hooks, self.make = home, HostDb(), hooks, LCMEngine
        self.script = Script()

    def row(self, session: str, source: str, key: str = "", **facts: Any) -> str:
        self.db.rows[session] = {"id": session, "source": source, "session_key": key or None, "user_id": None, **facts}
        return session

    def agent(self, session: str, platform: str, key: str = "") -> Agent:
        """An agent as the host makes it for a session that it has a row of."""
        if session not in self.db.rows:
            self.row(session, platform or "cli", key)
        return Agent(self, session, platform, key)

    @property
    def runtime(self) -> Any:
        from hermes_lcm.runtime import PROCESS

        return PROCESS.at(self.home)

    def owner(self, session: str) -> str:
        self.runtime.refresh(session)
        return str(self.runtime.find_session(session).principal)

    def topics(self) -> Sequence[str]:
        return [each.topic for each in self.runtime.health.problems()]


# -- the matrix of P8 ----------------------------------------------------------------------------------------------
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


class Matrix(Gateway):
    """Three people with every kind of data, and whoever asks."""

    def __init__(self, home: Path, *, theirs: str = "") -> None:
        super().__init__(home)
        self.theirs = theirs
        self.runtime.model = Model(*["No answer."] * 50_000)
        for name, platform, key in (
            ("alice", "telegram", ALICE), ("bob", "telegram", f"{GROUP}bob"), ("term", "cli", "")
        ):  # fmt: skip
            self.fill(f"s_{name}", platform, key)
        self.runtime.health.degraded(
            "request rewrite of s_alice", f"KESTREL {DATA['error']} {theirs}", severity="warning"
        )
        self.runtime.health.degraded("background worker", f"KESTREL {DATA['error']} {theirs}", severity="warning")

    def fill(self, session: str, platform: str, key: str) -> None:
        """A conversation with a message, a file, a summary and an archive."""
        agent = self.agent(session, platform, key)
        uri = f"data:image/png;base64,{base64.b64encode(b'quartzpayload' * 300).decode()}"
        agent.live.user(f"KESTREL {DATA['message']} {self.theirs} common words here").says("KESTREL noted " * 90)
        agent.live.user(f"KESTREL picture {uri}").says("KESTREL seen")
        agent.says("the last word of it")
        agent.tool("lcm_archive", operation="store", start_index=0, end_index=1, summary=f"KESTREL {DATA['archive']}")
        known = self.runtime.find_session(session)
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
        from hermes_lcm.search.scope import Filters

        return Filters()

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
        last = max(row.store_id for rows in store.row_batches() for row in rows)
        messages = [*range(1, min(last, 14) + 1), f"msg_{last}", f"1..{last}", f"msg_1..msg_{last}"]
        files = [path.stem for path in self.runtime.payloads.folder.rglob("*.z")]
        nodes = [f"sum_{node.node_id}" for each in self.runtime.dag.node_batches() for node in each]
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
