"""An agent with an archive in a ``World``: the tool as the engine calls it, and requests as a host sends them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hermes_lcm.archive.costs import CostList, TokenCosts
from hermes_lcm.prompt.rewrites import Shown, rewrite_list
from hermes_lcm.recall import archive, arguments
from hermes_lcm.recall.access import Access, EngineState, LiveList
from hermes_lcm.recall.paging import Room
from hermes_lcm.schemas import TOOLS
from hermes_lcm.search.scope import Rights
from worlds.process import Chat, World

SYSTEM = {"role": "system", "content": "You are an agent."}


class Agent:
    """Calls ``lcm_archive`` with a live list. ``clock``: what the archive takes for now."""

    def __init__(
        self, world: World, session_id: str = "s", *, principal: str | None = None, rewritable: bool = True
    ) -> None:
        self.world = world
        self.session_id = session_id
        self.principal = principal
        self.rewritable = rewritable
        self.changes = 0
        self.now = 0.5
        self.used = self.window = self.threshold = 0
        self.dear = False  # every message costs so much that archiving it pays

    def _changed(self) -> None:
        self.changes += 1

    def caller(self, messages: Sequence[dict[str, Any]] | None = None) -> Access:
        """The rights of this agent; with its live list where one is given."""
        runtime = self.world.runtime
        engine = EngineState(context_length=self.window, counted_tokens=self.used, threshold_tokens=self.threshold)
        live = None
        if messages is not None:
            transcript = self.world.take(messages, self.session_id)
            flat = CostList(tuple(range(0, 1000 * len(messages) + 1, 1000)), 0.0)
            costs = flat if self.dear else TokenCosts().of(messages)
            live = LiveList(messages, transcript, lambda: costs, lambda: self.rewritable, self._changed)
        access = runtime.access(self.world.session(self.session_id), engine=engine, live=live)
        return replace(access, rights=Rights(self.principal), clock=lambda: self.now)

    def call(self, messages: Sequence[dict[str, Any]], operation: str, room: int = 8000, **args: Any) -> dict[str, Any]:
        """The answer of one operation; raises what the tool would put into words."""
        checked = arguments.parsed(TOOLS["lcm_archive"], {"operation": operation, **args})
        return archive.answer(self.caller(messages), checked, Room.of(room))

    def store(self, messages: Sequence[dict[str, Any]], first: int, last: int, **args: Any) -> str:
        return str(self.call(messages, "store", start_index=first, end_index=last, **args)["memory_handle"])

    def request(self, messages: Sequence[dict[str, Any]]) -> Shown:
        """What is sent for a list."""
        wire = [dict(SYSTEM), *(as_wire(message) for message in messages)]
        transcript = self.world.take(messages, self.session_id)
        wanted = self.world.runtime.archived.replacements(self.world.session(self.session_id), messages, transcript)
        return rewrite_list(messages, wire, wanted) if wanted else Shown(wire, "applied")

    def prompt(self, messages: Sequence[dict[str, Any]]) -> Chat:
        """The same without its system message; it must have been understood."""
        request = self.request(messages)
        assert request.messages is not None, request.reason
        return Chat(request.messages[1:])


def as_wire(message: dict[str, Any]) -> dict[str, Any]:
    """A message as the host sends it."""
    body = message.get("content")
    keys = ("role", "content", "name", "tool_calls", "tool_call_id")
    return {k: message[k] for k in keys if k in message} | ({"content": body.strip()} if isinstance(body, str) else {})
