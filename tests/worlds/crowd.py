"""Many chats in threads of one process, with a model that is slow and fails, against a model of the truth (P1, P3, P4, P8)."""

from __future__ import annotations

import copy
import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from worlds.breaking import valid
from worlds.gateway import Agent, Gateway
from worlds.process import _prose, chat

WINDOW = 12_000


class Wait(NamedTuple):
    """How long a call of ours took, in seconds, and what of it the thread worked, waited for a processor, and for a lock of ours.

    The rest is the interpreter's lock, which the other threads of the process have, and the disk.
    """

    took: float
    name: str
    worked: float
    queued: float
    locked: float


def queued() -> float:
    """How long this thread has waited for a processor so far; 0 where the system does not tell."""
    try:
        if not hasattr(_OWN, "file"):  # kept open: measuring is one call then, and takes less time itself
            _OWN.file = open("/proc/thread-self/schedstat", "rb", buffering=0)  # noqa: SIM115
        return int(os.pread(_OWN.file.fileno(), 100, 0).split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


_OWN = threading.local()


class Timed:
    """A lock of the database that notes how long each thread waited for it."""

    waits = threading.local()

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def acquire(self, *args: Any, **kwargs: Any) -> bool:
        if self._lock.acquire(blocking=False):
            return True
        began = time.perf_counter()
        got = bool(self._lock.acquire(*args, **kwargs))
        self.waits.seconds = self.so_far() + time.perf_counter() - began
        return got

    @classmethod
    def so_far(cls) -> float:
        return float(getattr(cls.waits, "seconds", 0.0))

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def timed_turns() -> Any:
    """The order in which threads write, with the waits noted in the same place."""
    from hermes_lcm.storage.connection import Turns

    class TimedTurns(Turns):
        @contextmanager
        def turn(self, *, first: bool = False) -> Iterator[None]:
            began = time.perf_counter()
            with super().turn(first=first):
                Timed.waits.seconds = Timed.so_far() + time.perf_counter() - began
                yield

    return TimedTurns()


class Model:
    """In the place of the host's auxiliary model: answers after a while, or fails, or hangs.

    ``says``: its answer to a prompt with so much room; without it one that is no summary.
    """

    def __init__(
        self,
        least_s: float,
        most_s: float,
        hang_s: float,
        says: Callable[[str, int], str] = lambda *_: "They asked, and it was noted.",
    ) -> None:
        self._times, self._says = (least_s, most_s, hang_s), says
        self._rng = random.Random(1)
        self._lock = threading.Lock()
        self.calls = Counter[str]()

    def __call__(self, *_: Any, messages: Any = (), max_tokens: int | None = None, **__: Any) -> Any:
        least, most, hang = self._times
        with self._lock:
            move = self._rng.choices(("answers", "fails", "hangs"), (84, 8, 8))[0]
            pause = hang if move == "hangs" else self._rng.uniform(least, most)
            self.calls[move] += 1
        time.sleep(pause)
        if move == "fails":
            raise ConnectionError("no provider")
        prompt = "\n".join(str(each.get("content") or "") for each in messages)
        message = SimpleNamespace(
            role="assistant", content=self._says(prompt, max_tokens or 2000), tool_calls=None, refusal=None,
            reasoning=None,
        )  # fmt: skip
        return SimpleNamespace(
            id="m", model="m", usage=None, choices=[SimpleNamespace(index=0, message=message, finish_reason="stop")]
        )


class Talker:
    """One chat: what it says, what it should be, and what went wrong."""

    def __init__(self, world: Gateway, number: int, others: int) -> None:
        self._world, self.number, self._others = world, number, others
        self.rng = random.Random(number)
        self.platform = "cli" if number % 3 == 2 else "telegram"
        self._key = "" if self.platform == "cli" else f"agent:main:telegram:dm:{number}"
        self.said: dict[str, Counter[str]] = {}
        self.wrong: list[str] = []
        self.hooks: list[Wait] = []
        self.compactions: list[float] = []
        self.searches = self.turns = self._count = 0
        self._begin()

    # -- sessions -----------------------------------------------------------------------------------------------
    def _begin(self) -> None:
        session = f"chat{self.number}_{len(self.said)}"
        self._world.row(session, self.platform, self._key)
        self.said[session] = Counter()
        self._agent_of(session)

    def _agent_of(self, session: str) -> None:
        live = copy.deepcopy(list(self._world.db.said.get(session, [])))
        self.agent = Agent(self._world, session, self.platform, self._key)
        self.agent.engine.update_model("m", WINDOW)
        self.agent.live = chat()
        self.agent.live.extend(live)

    def _timed(self, name: str, does: Callable[[], Any]) -> Any:
        before = time.perf_counter(), time.thread_time(), queued(), Timed.so_far()
        out = does()
        after = time.perf_counter(), time.thread_time(), queued(), Timed.so_far()
        took, *shares = (late - early for early, late in zip(before, after, strict=True))
        self.hooks.append(Wait(took, name, *shares))
        return out

    def _hook(self, name: str, **facts: Any) -> None:
        hook = getattr(self._world.hooks, name)
        live = list(self.agent.live)
        self._timed(
            name,
            lambda: hook(session_id=self.agent.session, conversation_history=live, platform=self.platform, **facts),
        )

    # -- a turn -------------------------------------------------------------------------------------------------
    def _add(self, message: dict[str, Any]) -> None:
        self.agent.live.append(message)
        self.said[self.agent.session][str(message.get("content") or message.get("tool_calls"))] += 1

    def _text(self, what: str) -> str:
        self._count += 1
        return f"{what} {self._count} of quokka{self.number}x: {_prose(1000 * self.number + self._count, 250)}"

    def _request(self) -> None:
        from hermes_lcm.host import facts

        engine = self.agent.engine
        if engine.should_compress(size := facts.rough(list(self.agent.live))):
            began = time.perf_counter()
            out = engine.compress(list(self.agent.live), current_tokens=size)
            self.compactions.append(time.perf_counter() - began)
            if not valid(out):
                self.wrong.append(f"P3: {self.agent.session} got a list that is no valid sequence")
            if out != list(self.agent.live):
                engine.on_session_start(
                    self.agent.session,
                    platform=self.platform,
                    boundary_reason="compression",
                    old_session_id=self.agent.session,
                )
                self.agent.live = chat()
                self.agent.live.extend(copy.deepcopy(out))
        self._hook("pre_api_request")
        if sum(self.said[self.agent.session].values()) > self._stored():
            self.wrong.append(f"P1: a request of {self.agent.session} left before its messages were stored")

    def _stored(self) -> int:
        """Messages of the session in the file: one short read, so that the measuring does not keep the processors busy."""
        sql = (
            "SELECT count(*) FROM messages WHERE session_key = (SELECT session_key FROM sessions WHERE session_id = ?)"
        )
        row = self._world.runtime.db.query_one(sql, (self.agent.session,))
        return int(row[0]) if row is not None else 0

    def turn(self) -> None:
        """A request, tool rounds, an answer; now and then a search, another session, or another agent of the same one."""
        first, self.turns = not self.agent.live, self.turns + 1
        self._add({"role": "user", "content": self._text("question")})
        self._hook("pre_llm_call", is_first_turn=first)
        for _ in range(self.rng.randint(0, 2)):
            self._request()
            for message in chat().calls(f"c{self._count}").results(f"c{self._count}", text=self._text("output")):
                self._add(message)
        self._request()
        self._add({"role": "assistant", "content": self._text("answer")})
        self._hook("post_llm_call")
        self._world.db.said[self.agent.session] = copy.deepcopy(list(self.agent.live))
        if self.rng.random() < 0.2:
            self._search()
        if self.rng.random() < 0.04:
            self._begin()
        elif self.rng.random() < 0.06:
            self._agent_of(self.rng.choice(list(self.said)))

    def _search(self) -> None:
        """What others say is found by nobody in a chat; one's own words are, right after the turn."""
        other = self.rng.choice([n for n in range(self._others) if n != self.number])
        self.searches += 1
        found = {n: self._finds(f"quokka{n}x") for n in (self.number, other)}
        if not found[self.number]:
            self.wrong.append(f"P1: {self.agent.session} does not find what it said")
        if self.platform != "cli" and found[other]:
            self.wrong.append(f"P8: {self.agent.session} finds words of chat {other}")

    def _finds(self, word: str) -> int:
        said = self._timed("lcm_grep", lambda: self.agent.tool("lcm_grep", query=word, session_scope="all"))
        return len(json.loads(said).get("results", ()))

    # -- the truth ----------------------------------------------------------------------------------------------
    def check(self) -> None:
        """Every message of every session once and exactly, and the list that is shown covers all of its session (P1, P4)."""
        runtime = self._world.runtime
        for session, said in self.said.items():
            have = Counter(
                str(row.stored_json.get("content") or row.stored_json.get("tool_calls"))
                for row in runtime.store.page(session, after=0, limit=100_000)
            )
            if have != said:
                self.wrong.append(
                    f"P1: {session} lacks {sum((said - have).values())}, has {sum((have - said).values())} too many"
                )
        session = self.agent.session
        if self.agent.live:
            seen = runtime.observe(session, list(self.agent.live))
            shown = {item.store_id for item in runtime.ingest.transcripts.expected(runtime.session(session), None)}
            raw = {entry.ids[-1] for entry in seen.transcript.entries if entry.ids and not entry.own}
            roots = seen.transcript.assembly.roots if seen.transcript.assembly else ()
            if shown - raw != set(runtime.dag.messages_below(roots)) - raw:
                self.wrong.append(f"P4: the list of {session} does not cover its session")


def crowd(home: Path, count: int, until: Callable[[Talker], bool]) -> tuple[Gateway, list[Talker]]:
    """So many chats, each in a thread until it has had enough; then all is compared with what was said."""
    world = Gateway(home)
    db = world.runtime.db
    db.open()
    db._write_lock, db._read_lock, db._turns = Timed(db._write_lock), Timed(db._read_lock), timed_turns()
    talkers = [Talker(world, n, count) for n in range(count)]

    def talk(talker: Talker) -> None:
        try:
            while not until(talker):
                talker.turn()
        except BaseException as exc:
            talker.wrong.append(f"chat {talker.number} ended by {type(exc).__name__}: {exc}")
            raise

    threads = [threading.Thread(target=talk, args=(talker,), daemon=True) for talker in talkers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world.runtime.preparer.stop()
    for talker in talkers:
        talker.check()
    return world, talkers
