"""A process of the host with agents of every kind, and the host's own rows of their sessions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breaking import fresh_process
from world import Chat, Script, chat

from recall import as_json

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

    def __init__(self, world: World, session: str, platform: str = "cli", key: str = "") -> None:
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


class World:
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
        from hermes_lcm.runtime import RUNTIMES

        return RUNTIMES.at(self.home)

    def owner(self, session: str) -> str:
        self.runtime.refresh(session)
        return str(self.runtime.known(session).principal)

    def topics(self) -> Sequence[str]:
        return [each.topic for each in self.runtime.health.problems()]
