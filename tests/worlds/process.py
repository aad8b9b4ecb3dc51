"""
A world in one line: real SQLite in a folder, the parts that work on it, a summariser that follows a script, and a host.

``World(tmp_path)`` is one process with its database; ``world.restart()`` is the next one on the same file. ``Chat`` builds the
host's live list. ``reload``, ``merge`` and ``flatten`` do to a list what the host does to it.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import re
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

from hermes_lcm.compaction.compactor import Request
from hermes_lcm.compaction.compress import Outcome
from hermes_lcm.config import load
from hermes_lcm.errors import StoreError, SummaryUnavailable
from hermes_lcm.host import facts as host
from hermes_lcm.ingest.transcript import Transcript
from hermes_lcm.records import Flag, Summary, SummaryTask
from hermes_lcm.runtime import Process, Runtime
from hermes_lcm.search.scope import Rights
from hermes_lcm.session import LOCAL, Session
from hermes_lcm.storage.connection import Database
from hermes_lcm.text import content, markup, tokens

Messages = list[dict[str, Any]]
WAIT_S = 10.0  # how long a test waits for what must happen; a failing test waits, a passing one does not


# -- the host's list -------------------------------------------------------------------------------------------


class Chat(list[dict[str, Any]]):
    """A live list under construction; every method returns the list, so that a conversation reads as one line."""

    def user(self, text: Any, **keys: Any) -> Chat:
        self.append({"role": "user", "content": text, **keys})
        return self

    def says(self, text: Any, **keys: Any) -> Chat:
        self.append({"role": "assistant", "content": text, **keys})
        return self

    def calls(self, *names: str, text: str = "", arguments: str = "{}", tool: str = "terminal") -> Chat:
        """One assistant message that calls a tool once per id."""
        calls = [{"id": n, "type": "function", "function": {"name": tool, "arguments": arguments}} for n in names]
        self.append({"role": "assistant", "content": text, "tool_calls": calls})
        return self

    def results(self, *names: str, text: str = "done", tool: str = "terminal") -> Chat:
        """Results for the ids, in the order given."""
        for name in names:
            said = text if len(names) == 1 else f"{text} {name}"
            self.append({"role": "tool", "name": tool, "tool_call_id": name, "content": said})
        return self

    def turns(self, count: int, *, words: int = 40, first: int = 0) -> Chat:
        """So many question-and-answer turns, each text different from all others."""
        for n in range(first, first + count):
            self.user(f"question {n}: {_prose(n, words)}").says(f"answer {n}: {_prose(n + 500, words)}")
        return self

    def rounds(self, count: int, *, words: int = 60, first: int = 0) -> Chat:
        """So many tool rounds of two parallel calls each, answered in the reverse order."""
        for n in range(first, first + count):
            self.calls(f"a{n}", f"b{n}", arguments=json.dumps({"command": f"step {n}"}))
            self.results(f"b{n}", f"a{n}", text=f"output {n}: {_prose(n, words)}")
        return self

    def copy(self) -> Chat:
        return Chat(copy.deepcopy(list(self)))


@lru_cache(20_000)
def _prose(seed: int, words: int) -> str:
    """Text that no other seed gives."""
    pool = "river stone table green engine window paper silver market garden bridge letter summer castle winter".split()
    return " ".join(f"{pool[(seed * 7 + n) % len(pool)]}{(seed * 31 + n) % 97}" for n in range(words))


def owner_rights(session: Session | None) -> Rights:
    """The rights of whoever a session belongs to; without one, those of the operator."""
    return Rights(None if session is None or session.principal == LOCAL else session.principal)


def chat() -> Chat:
    return Chat()


def reload(messages: Sequence[Mapping[str, Any]], *, at: float = 1_700_000_000.0) -> Chat:
    """What the host hands over after a restart: through JSON, stripped, images flattened, private keys lost, times added."""
    out = Chat()
    for n, message in enumerate(messages):
        kept = {
            key: value for key, value in message.items() if not key.startswith("_") and key not in ("name", "custom")
        }
        body = flatten(kept.get("content"))
        if isinstance(body, str) and kept.get("role") in ("user", "assistant"):
            body = body.strip()
        out.append(json.loads(json.dumps({**kept, "content": body, "timestamp": at + n})))
    return out


def flatten(body: Any) -> Any:
    """Content parts as the host's session database keeps them."""
    if not isinstance(body, list):
        return body
    parts = []
    for part in body:
        if part.get("type") == "text":
            parts.append(str(part.get("text", "")))
        elif part.get("type") in ("image", "image_url", "input_image"):
            parts.append("[screenshot]")
    return "\n".join(parts) if parts else None


def merge(messages: Messages) -> Messages:
    """The host's own repair of a list: neighbours of one role become one, in place."""
    from agent.agent_runtime_helpers import repair_message_sequence

    repair_message_sequence(None, messages)
    return messages


def alternates(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Would the host leave this list as it is?"""
    before = copy.deepcopy(list(messages))
    return merge(copy.deepcopy(before)) == before


# -- the summariser --------------------------------------------------------------------------------------------


class Script:
    """A summariser that does what it is told: "ok", "provisional", "raise", "hang" or "long", in turn, the last for ever.

    Like the real one it returns an extract at once when the deadline has passed, and raises only when it was cancelled.
    """

    def __init__(self, *moves: str) -> None:
        self.moves = list(moves) or ["ok"]
        self.tasks: list[SummaryTask] = []
        self.release = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, task: SummaryTask, *, deadline: float, cancelled: Callable[[], bool] | None = None) -> Summary:
        if cancelled is not None and cancelled():
            raise SummaryUnavailable("cancelled")
        if time.monotonic() >= deadline:
            return self.extract(task)
        with self._lock:
            self.tasks.append(task)
            move = self.moves.pop(0) if len(self.moves) > 1 else self.moves[0]
        if move == "raise":
            raise SummaryUnavailable("no provider")
        if move == "hang":
            self.release.wait(WAIT_S)
            return self.extract(task)
        if move == "provisional":
            return self.extract(task)
        words = 4 * task.target_tokens if move == "long" else 12
        return self.summary(task, "verified", f"Summary of {task.lines[0].address}: {_prose(len(self.tasks), words)}")

    summarise = __call__

    @staticmethod
    def extract(task: SummaryTask) -> Summary:
        text = "Extract: " + " / ".join(line.text[:30].replace("\n", " ") for line in task.lines[:3])
        return Script.summary(task, "provisional", text)

    @staticmethod
    def summary(task: SummaryTask, quality: str, text: str) -> Summary:
        rung = "detailed" if quality == "verified" else "digest"
        hint = f"{task.lines[0].address} to {task.lines[-1].address}"
        return Summary(text, hint, quality, rung, "scripted", "{}", tokens.count(text))


# -- one process ---------------------------------------------------------------------------------------------------


_DEFAULTS = load({})
_IDENTITY = re.compile(rb'(?<=identity")[0-9a-f]{32}(?=")')


def another(database: bytes) -> bytes:
    """The same file as another database: with an identity of its own."""
    return _IDENTITY.sub(uuid.uuid4().hex.encode(), database)


def copy_new(file: Path) -> None:
    """Put a file there in which nothing was stored yet."""
    file.parent.mkdir(0o700, parents=True, exist_ok=True)
    file.touch(0o600)
    file.write_bytes(another(_new()))


@cache
def _new() -> bytes:
    """A file in which nothing was stored yet: making one is most of what a small test would do."""
    with tempfile.TemporaryDirectory() as folder:
        runtime = Runtime(Path(folder) / "lcm.db", _DEFAULTS, Process())
        runtime.db.open()
        runtime.db.close()
        return runtime.db.file.read_bytes()


class World:
    """One process: a database and everything that works on it. ``settings`` are fields of ``Config``."""

    def __init__(self, folder: Path, script: Script | None = None, *, filters: Any = None, **settings: Any) -> None:
        self.folder = folder
        self.settings = {**settings, "filters": filters}
        self.model = script or Script()
        self.config = replace(_DEFAULTS, **settings)
        with patch("hermes_lcm.runtime.Ladder", lambda *_, **__: self.model):
            self.runtime = Runtime(folder / "lcm.db", self.config, Process())
        self.db = self.runtime.db
        self.health = self.runtime.health
        self.sessions = self.runtime.sessions
        self.store = self.runtime.store
        self.dag = self.runtime.dag
        self.ingest = self.runtime.ingest
        self.compactor = self.runtime.compactor
        self.compress_pass = self.runtime.compress_pass
        self.preparer = self.runtime.preparer
        if filters is not None:
            self.ingest._filters = filters
        if not self.db.file.exists():
            _new()  # now, before anything is made to fail
            self._make, self.db._create_file = self.db._create_file, self._made  # type: ignore[method-assign]
        prepare, self.db._on_open = self.db._on_open, self._opened
        assert prepare is not None
        self._prepare = prepare

    def _made(self) -> None:
        """The first time without making it; whatever comes later is up to the product."""
        self.db._create_file = self._make  # type: ignore[method-assign]
        file = self.db.file
        if not os.path.lexists(file) and file.parent.is_dir():
            fresh = file.with_name(uuid.uuid4().hex)
            copy_new(fresh)
            with suppress(FileExistsError):  # another thread or process was first
                os.link(fresh, file)
            fresh.unlink()
        self._make()

    def _opened(self, db: Database) -> None:
        """Without waiting for the disk: no test here pulls the plug, and waiting is most of what a small test would do."""
        assert db._writer is not None
        db._writer.execute("PRAGMA synchronous=OFF")
        db._log.wait = lambda _: None  # type: ignore[method-assign]
        self._prepare(db)

    def restart(self, script: Script | None = None) -> World:
        """The process ends; the next one opens the same file."""
        self.preparer.stop()
        self.db.close()
        return World(self.folder, script or self.model, **self.settings)

    # -- verbs -----------------------------------------------------------------------------------------------
    def session(self, session_id: str = "s", **facts: Any) -> Session:
        return self.sessions.open(session_id, now=1.0, **facts)

    def take(self, messages: Sequence[Mapping[str, Any]], session_id: str = "s") -> Transcript:
        """Hand a live list over, as every hook of the host does."""
        return self.ingest.ingest_list(self.session(session_id), messages, source="test")

    def request(self, messages: Sequence[Mapping[str, Any]], session_id: str = "s", **wishes: Any) -> Request:
        facts = {"threshold": 4000, "current_tokens": None, "deadline": time.monotonic() + wishes.pop("budget_s", 10.0)}
        return Request(messages, self.take(messages, session_id), **{**facts, **wishes})

    def compressed(self, messages: Sequence[Mapping[str, Any]], session_id: str = "s", **wishes: Any) -> Outcome:
        """One compaction with all that came of it."""
        return self.compress_pass.compact(self.session(session_id), self.request(messages, session_id, **wishes))

    def compact(self, messages: Messages, session_id: str = "s", **wishes: Any) -> Chat:
        """One compaction that must succeed; the new live list."""
        outcome = self.compressed(messages, session_id, **wishes)
        assert outcome.messages is not None, outcome.reason
        return Chat(outcome.messages)

    # -- what is there ---------------------------------------------------------------------------------------
    def stored(self) -> Messages:
        """Everything that is stored, oldest first, as the host said it."""
        return [row.stored_json for rows in self.store.row_batches() for row in rows]

    def thread(self, session_id: str = "s") -> Messages:
        """The conversation as a live list without summaries should show it."""
        ids = [item.store_id for item in self.ingest.transcripts.expected(self.session(session_id), None)]
        return [row.stored_json for row in self.store.rows(ids)]

    def flagged(self, flag: Flag) -> Messages:
        """The stored messages that bear a flag."""
        return [row.stored_json for rows in self.store.row_batches() for row in rows if row.head.flags & flag]

    def gaps(self, messages: Sequence[Mapping[str, Any]], session_id: str = "s") -> tuple[list[Any], list[Any]]:
        """P4, counted here by hand: texts that the prompt neither shows nor covers, and those that it has twice."""
        transcript = self.take(messages, session_id)
        raw = [store_id for entry in transcript.entries for store_id in entry.ids]
        roots = transcript.assembly.roots if transcript.assembly else ()
        below = [store_id for root in roots for store_id in self.dag.messages_below([root])]
        counted = Counter([*raw, *below])
        thread = [item.store_id for item in self.ingest.transcripts.expected(self.session(session_id), None)]
        return (
            [self.store.text(store_id) for store_id in thread if store_id not in counted],
            [self.store.text(store_id) for store_id, times in counted.items() if times > 1],
        )

    def nodes(self) -> list[Any]:
        return [node for batch in self.dag.node_batches() for node in batch]

    def counts(self) -> dict[str, int]:
        """Rows of every table that holds what was said or summarised, the search indexes included."""
        names = ("messages", "nodes", "node_sources", "assemblies", "sessions", "conversations")
        out = {name: self.db.query(f"SELECT count(*) FROM {name}")[0][0] for name in names}
        for name in ("message_index", "node_index"):
            out[name] = self.db.query(f"SELECT count(*) FROM {name}_docsize")[0][0]
        return out

    # -- breaking it --------------------------------------------------------------------------------------------
    @contextmanager
    def failing_at(self, number: int, error: Exception | None = None) -> Iterator[Callable[[], int]]:
        """Writing statement ``number`` (from 1, COMMIT not counted) fails. Yields how many were tried."""
        plain = {"execute": self.db.execute, "executemany": self.db.executemany}
        tried = 0

        def counting(name: str) -> Any:
            def statement(*args: Any) -> Any:
                nonlocal tried
                tried += 1
                if tried == number:
                    raise error or StoreError(f"statement {number} fails")
                return plain[name](*args)

            return statement

        for name in plain:
            setattr(self.db, name, counting(name))
        try:
            yield lambda: tried
        finally:
            for name in plain:
                delattr(self.db, name)


def tokens_of(messages: Sequence[Mapping[str, Any]]) -> int:
    """As the host counts them."""
    return host.rough(messages)


def equal(one: Any, other: Any) -> bool:
    """``==`` that does not give up on deep nesting."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        return bool(one == other)
    finally:
        sys.setrecursionlimit(limit)


def digests(messages: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Who the messages are."""
    return [content.read_message(message).digest for message in messages]


def texts(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """What a person would read of the messages that are not ours."""
    said = [content.text_of(message.get("content")) for message in messages]
    return [text for text in said if markup.read_context(text) is None and markup.read_carrier(text) is None]


def interrupted_at(n: int, work: Callable[[], None]) -> bool:
    """Do it, with Ctrl-C after the n-th call in it, which is where the interpreter looks for signals; False: it has fewer."""
    calls = itertools.count(1)

    def looks(_frame: FrameType, event: str, _arg: object) -> None:
        if event in ("call", "c_return") and next(calls) == n:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(looks)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return next(calls) > n


def run(*jobs: Callable[[], Any]) -> list[Any]:
    """Run jobs at once on threads; their results. A job that does not end fails the test instead of hanging it."""
    results: list[Any] = [None] * len(jobs)
    errors: list[BaseException] = []
    gate = threading.Barrier(len(jobs))

    def work(n: int) -> None:
        try:
            gate.wait(WAIT_S)
            results[n] = jobs[n]()
        except BaseException as exc:
            errors.append(exc)

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(len(jobs))]
    for thread in threads:
        thread.start()
    end = time.monotonic() + WAIT_S
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    if errors:
        raise errors[0]
    return results
