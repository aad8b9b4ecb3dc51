"""What must hold after any way of talking to the host: P1 to P4 and whose a conversation is, seen from another process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from host.drive import Home, all_rows, compare
from host.model_server import ModelServer, Request, text_of

Messages = Sequence[Mapping[str, Any]]


def assert_valid(request: Request) -> None:
    """A chat sequence that every provider takes: a user first, calls with all their results, nothing orphaned (P3)."""
    messages = [message for message in request.messages if message["role"] != "system"]
    assert messages[0]["role"] == "user"
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting, f"orphaned result {message['tool_call_id']}"
            waiting.discard(message["tool_call_id"])
            continue
        assert not waiting, f"no result for {sorted(waiting)}"
        waiting = {call["id"] for call in message.get("tool_calls") or []}
        assert text_of(message).strip() or waiting, "an empty message"
    assert not waiting


def said_where(model: ModelServer, mine: Callable[[Request], bool]) -> list[dict[str, Any]]:
    """What was said in the one conversation whose requests ``mine`` knows, as the provider saw it.

    For conversations that were not compacted: the last request and its reply are all of it.
    """
    last = [request for request in model.of_kind("chat") if mine(request)][-1]
    assert last.reply is not None
    return [*(message for message in last.messages if message["role"] != "system"), last.reply]


def mentions(text: str) -> Callable[[Request], bool]:
    """Requests in which a user said this."""
    return lambda request: any(m["role"] == "user" and text in text_of(m) for m in request.messages)


def begins(text: str) -> Callable[[Request], bool]:
    """Requests of the conversation that a user began with this."""
    return lambda request: next(text_of(m) for m in request.messages if m["role"] == "user").startswith(text)


@dataclass(frozen=True)
class Kept:
    """One conversation as another process finds it."""

    rows: list[dict[str, Any]]
    principal: str
    origin: str
    uncovered: list[str]  # P4: neither in the list that the host would go on with nor below one of its nodes
    doubled: list[str]  # P4: both, or below two nodes

    @property
    def texts(self) -> str:
        return "\n".join(str(row["content"]) for row in self.rows)


def look(home: Home, *sessions: str) -> list[Kept]:
    """What a process that had no part in it finds of these sessions. The doctor must find nothing wrong."""
    found = []
    with home.process() as host:
        host.open()
        for session in sessions:
            facts = host.look(session_id=session)
            found.append(Kept(all_rows(host, session), **facts))
    done = home.hermes("lcm", "doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    return found


def assert_kept(kept: Kept, truth: Messages) -> None:
    """Each message once and in order (P1), and all of it in front of the model or covered once (P4)."""
    assert not (difference := compare(truth, kept.rows)), difference
    assert (kept.uncovered, kept.doubled) == ([], [])
