"""The host's own database in front of a ``Home``: driven as the host drives it, and what of it came over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermes_lcm.importers import host_sessions
from hermes_lcm.ingest.transcript import Transcripts
from hermes_lcm.recall.access import Access
from hermes_lcm.records import Row
from hermes_lcm.runtime import Runtime
from worlds.home import Home

Message = dict[str, Any]
SUMMARY = "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into this summary:\nwhat was before"


class Clock:
    """Time for the host: every look at it is two milliseconds later, as fast as a plugin compacts."""

    def __init__(self) -> None:
        self.now = 1_650_000_000.0

    def time(self) -> float:
        self.now += 0.002
        return self.now

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class HostDb:
    """The host's real SessionDB on ``state.db`` of a home, driven as the host drives it."""

    def __init__(self, home: Path, clock: Clock) -> None:
        from hermes_state import SessionDB

        home.mkdir(exist_ok=True)
        self.clock = clock
        self.db = SessionDB(home / "state.db")

    def begin(self, session: str, source: str = "cli", **facts: Any) -> None:
        self.db.create_session(session, source, **facts)

    def say(self, session: str, messages: Sequence[Message]) -> None:
        for message in messages:
            facts = {key: value for key, value in message.items() if key not in ("role", "content")}
            self.db.append_message(session, message["role"], message["content"], **facts)

    def compact(
        self, session: str, tail: Sequence[Message], *, head: Sequence[Message] = (), text: str = SUMMARY
    ) -> list[Message]:
        """In place: the host's own compressor puts its summary between the messages it protects and the tail."""
        shown = [*head, {"role": "user", "content": text}, *tail]
        self.db.archive_and_compact(session, shown)
        return shown

    def rotate(self, old: str, new: str, tail: Sequence[Message]) -> list[Message]:
        """The older way: another session goes on."""
        self.db.end_session(old, "compression")
        self.begin(new, parent_session_id=old)
        shown = [{"role": "user", "content": SUMMARY}, *tail]
        self.db.replace_messages(new, shown)
        return shown

    def branch(self, parent: str, new: str) -> list[Message]:
        """/branch copies the list."""
        self.begin(new, parent_session_id=parent, model_config={"_branched_from": parent})
        live = self.live(parent)
        self.db.replace_messages(new, live)
        return live

    def live(self, session: str) -> list[Message]:
        """The list as the host resumes it."""
        return list(self.db.get_messages_as_conversation(session))


def talk(first: int, stop: int) -> list[Message]:
    """A long-winded conversation with a tool round now and then."""
    out: list[Message] = []
    for n in range(first, stop):
        out.append({"role": "user", "content": f"question {n} about the zebra"})
        if n % 3 == 0:
            call = {"id": f"call_{n}", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}
            out.append({"role": "assistant", "content": "", "tool_calls": [call], "finish_reason": "tool_calls"})
            out.append({"role": "tool", "content": "ok", "tool_call_id": f"call_{n}", "tool_name": "terminal"})
        out.append({"role": "assistant", "content": f"answer {n}", "finish_reason": "stop"})
    return out


def host_db(home: Path, monkeypatch: pytest.MonkeyPatch) -> HostDb:
    """The host's database of a home, with a clock of its own."""
    import hermes_state

    clock = Clock()
    monkeypatch.setattr(hermes_state, "time", clock)
    return HostDb(home, clock)


def deps_of(runtime: Runtime, world: Home) -> Access:
    return replace(world.deps(None, trusted=True), store=runtime.view_store)


def take(world: Home, session: str | None = None) -> host_sessions.HostImport:
    return host_sessions.take_in(deps_of(world.runtime, world), session)


def thread(world: Home, session: str) -> list[Row]:
    found = world.runtime.sessions.find(session)
    assert found is not None
    shown = Transcripts(world.runtime.store, world.runtime.sessions).expected(found, None)
    return world.runtime.store.rows([item.store_id for item in shown])


def said(rows: Sequence[Row]) -> list[tuple[str, str]]:
    return [(row.head.role, row.text) for row in rows if not row.text.startswith("[CONTEXT")]


def words(messages: Sequence[Message]) -> list[tuple[str, str]]:
    return [(m["role"], m["content"]) for m in messages]
