"""
An archive in one line: sessions with their messages and summaries in a real database, and the tools as each principal sees them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hermes_lcm import tools
from hermes_lcm.archive.costs import TokenCosts
from hermes_lcm.config import load
from hermes_lcm.dag import fingerprint
from hermes_lcm.ingest.transcript import Transcript
from hermes_lcm.llm.client import Reply
from hermes_lcm.recall.access import Access, LiveList
from hermes_lcm.records import NewNode, Node
from hermes_lcm.runtime import Process, Runtime
from hermes_lcm.schemas import TOOLS
from hermes_lcm.session import Session
from hermes_lcm.store import NewRow
from hermes_lcm.text import content
from worlds.process import copy_new, owner_rights

NOW = 1_760_000_000.0


def user(text: Any, **keys: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **keys}


def says(text: Any, **keys: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **keys}


def calls(*arguments: Any, name: str = "terminal", text: Any = None) -> dict[str, Any]:
    made = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": each}}
        for n, each in enumerate(arguments)
    ]
    return {"role": "assistant", "content": text, "tool_calls": made}


def result(text: Any, of: str = "call_0", name: str = "terminal") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": of, "name": name, "content": text}


class Model:
    """A model that answers from a list of replies; an exception in it is raised, a function is called with the request."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies) or ["From the evidence: nothing special."]
        self.requests: list[dict[str, Any]] = []

    def complete(self, messages: Sequence[Mapping[str, Any]], **kwargs: Any) -> Reply:
        self.requests.append({"messages": list(messages), **kwargs})
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if callable(reply):
            reply = reply(self.requests[-1])
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, Reply) else Reply(str(reply), model="scripted")


def wants(name: str, **arguments: Any) -> Reply:
    """A reply that calls one of the reader's tools."""
    call = {"id": "step", "name": name, "arguments": json.dumps(arguments)}
    return Reply("", "tool_calls", "scripted", tool_calls=(call,))


class Archive:
    """One database and the tools on it. ``me`` is the session that the tools are called from."""

    def __init__(self, folder: Path, *messages: dict[str, Any], room: int = 6000, **settings: Any) -> None:
        self.config = replace(load({}), **settings)
        if not (folder / "lcm.db").exists():
            copy_new(folder / "lcm.db")
        self.runtime = runtime = Runtime(folder / "lcm.db", self.config, Process())
        self.db, self.index, self.node_index = runtime.db, runtime.index, runtime.node_index
        self.store, self.dag, self.sessions, self.scopes = runtime.store, runtime.dag, runtime.sessions, runtime.scopes
        self.room = room
        self.model = Model()
        self.live_transcript: Transcript | None = None
        self.clock: Callable[[], float] = time.time
        self.me = self.sessions.open("main", now=NOW, platform="cli")
        if messages:
            self.say(*messages)

    def say(self, *messages: dict[str, Any], to: str | None = None, source: str = "cli", at: float = NOW) -> list[int]:
        """Store messages in a session; their ids."""
        session = self.sessions.find(to) if to else self.me
        assert session is not None
        rows = [NewRow(content.read_message(message)) for message in messages]
        last = self.store.last_seq(session.conversation_id)
        return self.store.append(session.conversation_id, session.session_id, last, rows, source=source, now=at)

    def open(self, session_id: str, **facts: Any) -> Session:
        return self.sessions.open(session_id, now=NOW, **{"platform": "cli", **facts})

    def node(
        self, text: str, sources: Sequence[int], *, depth: int = 0, quality: str = "verified", **facts: Any
    ) -> Node:
        """A summary over messages (depth 0) or summaries."""
        conversation = facts.pop("conversation_id", self.me.conversation_id)
        made = NewNode(
            conversation, depth, quality, text, facts.pop("expand_hint", "details"), max(1, len(text) // 4), 500,
            tuple(sources), fingerprint(depth, sources), **facts,
        )  # fmt: skip
        return self.dag.add(made, now=NOW)

    def deps(self, session: Session | None = None) -> Access:
        session = session or self.me
        live = None
        if self.live_transcript is not None:
            live = LiveList((), self.live_transcript, lambda: TokenCosts().of(()))
        return replace(
            self.runtime.access(session, owner_rights(session), live=live), store=self.store, config=self.config,
            model=self.model, answer_tokens=self.room, clock=self.clock,
        )  # fmt: skip

    def raw(self, name: str, session: Session | None = None, **args: Any) -> str:
        return tools.call(self.deps(session), name, args).text

    def call(self, name: str, session: Session | None = None, **args: Any) -> dict[str, Any]:
        """The structured answer of a tool."""
        answer = json.loads(self.raw(name, session, **as_json(name, args)))
        assert isinstance(answer, dict)
        return answer

    def grep(self, query: str, session: Session | None = None, **args: Any) -> dict[str, Any]:
        return self.call("lcm_grep", session, query=query, **args)

    def found(self, query: str, session: Session | None = None, **args: Any) -> list[int]:
        """Store ids that a search brings, in order, neighbours left out."""
        hits = self.grep(query, session, **args)["results"]
        return [hit["store_id"] for hit in hits if hit["type"] == "message" and hit["match"] != "near"]

    def read(self, store_id: Any, session: Session | None = None, **args: Any) -> str:
        """The whole content of a message, page by page."""
        text, offset = "", 0
        while True:
            page = self.call("lcm_expand", session, store_id=store_id, content_offset=offset, **args)
            assert "error" not in page, page
            text += page["content"] or ""
            if not page["content_truncated"]:
                return text
            assert page["next_content_offset"] > offset
            offset = page["next_content_offset"]

    def transcript(self, session_id: str | None = None, **args: Any) -> list[dict[str, Any]]:
        """All messages of a session as the pages show them."""
        out: list[dict[str, Any]] = []
        cursor = 0
        while True:
            page = self.call("lcm_load_session", session_id=session_id, after_store_id=cursor, **args)
            out += page["messages"]
            if not page["has_more"]:
                return out
            assert page["next_cursor"] > cursor
            cursor = page["next_cursor"]

    def sources(self, node_id: Any, **args: Any) -> list[dict[str, Any]]:
        """All sources of a node, pages of one message joined."""
        out: list[dict[str, Any]] = []
        at: dict[str, Any] = {"source_offset": 0}
        while True:
            page = self.call("lcm_expand", node_id=node_id, **at, **args)
            assert "error" not in page, page
            for item in page["expanded"]:
                if out and at.get("content_offset") and out[-1].get("store_id") == item.get("store_id"):
                    out[-1]["content"] += item["content"]
                else:
                    out.append(item)
            if not page["pagination"]["has_more"]:
                return out
            handle = page["continue_with"]
            assert handle.pop("tool") == "lcm_expand"
            assert handle.pop("node_id") == int(str(node_id).removeprefix("sum_"))
            assert (handle["source_offset"], handle.get("content_offset", 0)) > (
                at["source_offset"], at.get("content_offset", 0),
            )  # fmt: skip
            handle.pop("recursive", None)
            at = handle


def as_json(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that ask for a structured answer where lines are the default."""
    offered = name in TOOLS and any(param.name == "format" for param in TOOLS[name].params)
    return {"format": "json", **args} if offered else dict(args)


ALL_TOOLS = tuple(TOOLS)
