"""
A process that runs the real host for a test or the demo.

Reads commands as JSON lines from stdin, writes answers and events as JSON lines to a file descriptor; what the host prints
goes to this process's stdout. Every command is a method below. Only observes: no method of the host or the plugin is
replaced, some are timed.

Run as a program it is the parent of such processes: it imports what the host uses of other people's, nothing of the host,
and forks for each one that is asked for over the socket given as first argument.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import copy
import functools
import gc
import importlib
import inspect
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

Answer = dict[str, Any]


class Worker:
    """The commands and what they share: one agent, one terminal, one gateway per process, built on demand."""

    def __init__(self, out: Any) -> None:
        self._out = out
        self._lock = threading.Lock()
        self.agent: Any = None
        self.history: list[dict[str, Any]] = []
        self.cli: Any = None
        self.gateway: Any = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self._depth = threading.local()
        self._observed = False
        self._compacted: set[int] = set()  # engines whose next request is the first after a compaction

    # ---- talking to the parent

    def send(self, **line: Any) -> None:
        with self._lock:
            self._out.write(json.dumps(line) + "\n")
            self._out.flush()

    def serve(self) -> None:
        for line in sys.stdin:
            request = json.loads(line)
            command = getattr(self, "do_" + request.pop("do"))
            try:
                answer = command(**request)
            except Exception as exc:
                self.send(error=f"{type(exc).__name__}: {exc}", trace=traceback.format_exc())
            else:
                self.send(answer=answer)

    # ---- an agent, built and driven as the host's own front ends do

    def do_open(self, session_id: str | None = None, resume: bool = False, toolsets: list[str] | None = None) -> Answer:
        """Build the agent; ``resume`` reads the conversation back from the host's session database."""
        from hermes_cli.config import load_config
        from hermes_cli.runtime_provider import resolve_runtime_provider
        from hermes_state import SessionDB
        from run_agent import AIAgent

        self._observe_plugin()
        self.history = []
        sessions = SessionDB()
        if resume and session_id:
            session_id = sessions.resolve_resume_session_id(session_id) or session_id
            self.history = reloaded(sessions, session_id)
            sessions.reopen_session(session_id)
        runtime = resolve_runtime_provider()
        self.agent = AIAgent(
            model=load_config()["model"]["default"],
            api_key=runtime.get("api_key"),
            base_url=runtime.get("base_url"),
            provider=runtime.get("provider"),
            api_mode=runtime.get("api_mode"),
            enabled_toolsets=toolsets,
            session_id=session_id,
            session_db=sessions,
            platform="cli",
            quiet_mode=True,
            max_iterations=400,
            tool_delay=0.0,
        )
        self.agent.suppress_status_output = True
        self.agent.status_callback = lambda kind, text=None: self.send(event="status", kind=kind, text=text)
        self.agent._ensure_db_session()  # as the first turn does: without a row nobody is known to be the terminal
        return {"session_id": self.agent.session_id, **self.do_engine()}

    def do_engine(self) -> Answer:
        """Which engine the agent got, why not the configured one, and which tools the model is offered."""
        from hermes_cli.config import load_config
        from hermes_cli.plugins import get_plugin_manager

        agent = self._agent()
        wanted, got = load_config()["context"]["engine"], agent.context_compressor.name
        if got != wanted:
            loaded = get_plugin_manager()._plugins.get("hermes-lcm")
            reason = (loaded.error or "no reason given") if loaded else "the host did not find the plugin"
            raise LookupError(f"the host runs engine {got!r} instead of {wanted!r}: {reason}")
        return {
            "engine": agent.context_compressor.name,
            "tools": sorted(tool["function"]["name"] for tool in agent.tools),
            "context_length": agent.context_compressor.context_length,
            "threshold_tokens": agent.context_compressor.threshold_tokens,
        }

    def do_impatient(self, seconds: float) -> Answer:
        """Hosts near 0.22: give a compaction up after so many seconds instead of at least 300."""
        from agent import auxiliary_client, conversation_compression_deadline

        auxiliary_client._COMPRESSION_TIMEOUT_FLOOR_SECONDS = seconds
        idle, ceiling = conversation_compression_deadline.resolve_context_compression_timeouts()
        return {"idle": idle, "ceiling": ceiling}

    def do_turn(self, text: str, stop_after: float | None = None) -> Answer:
        """One user turn. ``failed`` is what the host reports, never an exception of the test's own making.

        ``stop_after``: the user stops it after so many seconds.
        """
        if stop_after is not None:
            timer = threading.Timer(stop_after, self.agent.hard_interrupt)
            timer.daemon = True
            timer.start()
        result = self.agent.run_conversation(text, conversation_history=self.history)
        self.history = result.get("messages") or self.history
        return {
            "final": result.get("final_response"),
            "failed": result.get("error") or (result.get("failed") and "failed") or None,
            "completed": bool(result.get("completed")),
            "session_id": self.agent.session_id,
            "live": len(self.history),
        }

    def do_tool(self, name: str, args: dict[str, Any]) -> Any:
        """Call an engine tool the way the host's executor does, without the model asking for it."""
        agent = self._agent()
        live = self.cli.conversation_history if self.cli else self.history
        engine = agent.context_compressor
        offered = {each["name"]: each["parameters"]["properties"] for each in engine.get_tool_schemas()}
        given = {"format": "json", **args} if "format" in offered.get(name, ()) else args
        return json.loads(engine.handle_tool_call(name, given, messages=list(live)))

    def do_live(self) -> Answer:
        """The live list as the host holds it."""
        live = self.cli.conversation_history if self.cli else self.history
        return {"messages": json.loads(json.dumps(live, default=str))}

    def do_look(self, session_id: str) -> Answer:
        """Whose a stored session is, and what the list that the host would resume it with leaves out or shows twice."""
        from collections import Counter

        from hermes_state import SessionDB

        runtime = self._agent().context_compressor.runtime
        session = runtime.find_session(session_id)
        if session is None:
            raise LookupError(f"nothing is stored of session {session_id}")
        transcript = runtime.ingest_list(session_id, reloaded(SessionDB(), session_id))
        raw = [store_id for entry in transcript.entries for store_id in entry.ids]
        below = runtime.dag.messages_below(transcript.assembly.roots) if transcript.assembly else ()
        shown = Counter([*raw, *below])
        thread = [item.store_id for item in runtime.ingest.transcripts.expected(session, None)]
        return {
            "principal": session.principal,
            "origin": session.origin,
            "uncovered": [runtime.store.text(store_id) for store_id in thread if store_id not in shown],
            "doubled": [runtime.store.text(store_id) for store_id, times in shown.items() if times > 1],
        }

    def do_session_id(self) -> str:
        return str(self._agent().session_id)

    def do_prepared(self, seconds: float) -> bool:
        """Wait until no summary is being prepared any more."""
        return bool(self._agent().context_compressor.runtime.preparer.idle(seconds))

    def do_summaries(self) -> list[Answer]:
        """Every stored summary: its address, messages, quality, rung, text and how the attempts at it ended."""
        batches = self._agent().context_compressor.runtime.dag.node_batches()
        return [
            {name: getattr(node, name) for name in ("address", "message_count", "quality", "rung", "text", "checks")}
            for batch in batches
            for node in batch
        ]

    def do_wait_reviews(self, timeout: float = 30.0) -> Answer:
        """Wait until no background review is running any more."""
        reviews = [thread for thread in threading.enumerate() if thread.name == "bg-review"]
        for thread in reviews:
            thread.join(timeout)
        return {"waited_for": len(reviews)}

    def do_close(self) -> Answer:
        """End the process's agent as the terminal does on exit."""
        agent = self._agent()
        agent.shutdown_memory_provider(self.history)
        agent.close()
        return {}

    def do_spent(self) -> Answer:
        """Seconds and calls inside the plugin, per entry point (nested calls count once)."""
        return {"seconds": self.seconds, "calls": self.calls}

    # ---- many copies

    def do_copies(self, count: int) -> Answer:
        """Deep copies of the engine as the host makes them, each bound to a session: what do they cost?"""
        from hermes_cli.plugins import get_plugin_context_engine

        prototype = get_plugin_context_engine()
        assert prototype is not None
        agent = self._agent()
        before, threads = _open_files(), set(threading.enumerate())
        copies = []
        for number in range(count):
            engine = copy.deepcopy(prototype)
            engine.update_model(model="scripted", context_length=65_536, base_url="", api_key="", provider="custom")
            engine.bind_session_state(session_db=agent._session_db, session_id=f"copy-{number}")
            engine.on_session_start(f"copy-{number}", platform="cli", model="scripted", context_length=65_536)
            copies.append(engine)
        after = _open_files()
        names = {engine.name for engine in copies}
        return {
            "before": before,
            "after": after,
            "threads": [thread.name for thread in threading.enumerate() if thread not in threads],
            "names": sorted(names),
            "distinct": len({id(engine) for engine in copies}),
        }

    # ---- the terminal

    def do_cli(self, resume: str | None = None) -> Answer:
        """The host's own terminal object, as ``hermes chat`` builds it."""
        import cli

        self._observe_plugin()
        self.cli = cli.HermesCLI(resume=resume, compact=True)
        return {"session_id": self.cli.session_id}

    def do_complete(self, prefix: str, typed: str) -> list[str]:
        """Hosts near 0.22: what is offered while ``@prefix:typed`` is typed."""
        from tui_gateway import methods_complete

        return [str(each["text"]) for each in methods_complete._plugin_reference_items(prefix, typed) or ()]

    def do_cli_say(self, text: str) -> Answer:
        """One typed line: a slash command or a message. The reply of the model for a message."""
        if text.startswith("/"):
            self.cli.process_command(text)
            reply = None
            while not self.cli._pending_input.empty():  # what a command wants to have sent
                reply = self.cli.chat(self.cli._pending_input.get())
        else:
            reply = self.cli.chat(text)
        return {"reply": reply, "session_id": self.cli.session_id, "live": len(self.cli.conversation_history)}

    # ---- the gateway

    def do_gateway(self) -> Answer:
        """The real gateway runner with an adapter that keeps what it is told to send."""
        from gateway.config import Platform, PlatformConfig
        from gateway.platforms.base import BasePlatformAdapter, SendResult
        from gateway.run import GatewayRunner

        class Chat(BasePlatformAdapter):  # type: ignore[misc]  # the host ships no types
            """Sends nothing anywhere."""

            def __init__(self) -> None:
                super().__init__(PlatformConfig(enabled=True), Platform.TELEGRAM)
                self.sent: list[str] = []

            async def connect(self, *, is_reconnect: bool = False) -> bool:
                return True

            async def disconnect(self) -> None:
                return None

            async def send(self, chat_id: str, content: str, *_args: Any, **_kwargs: Any) -> SendResult:
                self.sent.append(content)
                return SendResult(success=True, message_id=str(len(self.sent)))

            async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
                return {"name": chat_id, "type": "dm"}

        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)

        async def build() -> Any:
            runner = GatewayRunner()
            adapter = Chat()
            adapter.set_session_store(runner.session_store)
            runner.adapters[Platform.TELEGRAM] = adapter
            runner._gateway_loop = asyncio.get_running_loop()
            runner._running = True
            return runner

        self._observe_plugin()
        self.gateway = self.loop.run_until_complete(build())
        return {}

    def do_gateway_overhears(self, text: str, chat: str = "-5") -> Answer:
        """A line of a Telegram group that nobody said to the bot, as its adapter stores it."""
        from gateway.config import Platform
        from gateway.session import SessionSource

        source = SessionSource(platform=Platform.TELEGRAM, chat_id=chat, chat_type="group")
        store = self.gateway.session_store
        entry = store.get_or_create_session(source)
        said = {"role": "user", "content": text, "timestamp": datetime.now(tz=UTC).isoformat(), "observed": True}
        store.append_to_transcript(entry.session_id, said)
        return {"session_id": entry.session_id}

    def do_gateway_say(self, text: str, chat: str = "42", user: str = "7", overhearing: str = "") -> Answer:
        """One message through the gateway's whole pipeline. ``overhearing``: the prompt of a group whose bot hears all."""
        source, coming = self._incoming(text, chat, user, overhearing=overhearing)
        assert self.loop is not None
        reply = self.loop.run_until_complete(coming)
        key = self.gateway._session_key_for_source(source)
        entry = self.gateway.session_store._entries.get(key)
        cached = self.gateway._agent_cache.get(key)
        self.agent = cached[0] if cached else None
        engine = self.agent.context_compressor if self.agent else None
        return {
            "reply": None if reply is None else str(reply),
            "session_key": key,
            "session_id": entry.session_id if entry else None,
            "engine": engine.name if engine else None,
        }

    def do_gateway_say_at_once(self, messages: list[dict[str, str]]) -> list[Answer]:
        """Messages of several chats (``text``, ``chat``, ``user``) that come in at the same moment; the replies in order."""

        async def all_of_them() -> list[Any]:
            return list(await asyncio.gather(*(coming for _, coming in incoming)))

        incoming = [self._incoming(**message) for message in messages]
        assert self.loop is not None
        replies = self.loop.run_until_complete(all_of_them())
        entries = self.gateway.session_store._entries
        keys = [self.gateway._session_key_for_source(source) for source, _ in incoming]
        return [
            {"reply": None if reply is None else str(reply), "session_id": entries[key].session_id}
            for reply, key in zip(replies, keys, strict=True)
        ]

    def _incoming(self, text: str, chat: str, user: str, *, overhearing: str = "") -> tuple[Any, Any]:
        from gateway.config import Platform
        from gateway.platforms.base import MessageEvent
        from gateway.session import SessionSource

        if overhearing:  # as the adapter's _apply_telegram_group_observe_attribution does
            source = SessionSource(platform=Platform.TELEGRAM, chat_id=chat, chat_type="group")
            event = MessageEvent(text=text, source=source, channel_prompt=overhearing)
            return source, self.gateway._handle_message(event)
        source = SessionSource(
            platform=Platform.TELEGRAM, chat_id=chat, chat_type="dm", user_id=user, user_name="Ada", chat_name="Ada"
        )
        return source, self.gateway._handle_message(MessageEvent(text=text, source=source))

    def do_gateway_handoff(self, session_id: str, chat: str) -> Answer:
        """``/handoff`` of a terminal session to a chat, as the gateway's watcher carries it out; the key it has from then on."""
        from gateway.config import HomeChannel, Platform, PlatformConfig
        from hermes_state import SessionDB

        platforms = self.gateway.config.platforms
        known = platforms.get(Platform.TELEGRAM) or PlatformConfig(enabled=True)
        known.home_channel = HomeChannel(platform=Platform.TELEGRAM, chat_id=chat, name="Home")
        platforms[Platform.TELEGRAM] = known
        SessionDB().request_handoff(session_id, "telegram")

        async def carry_out() -> None:
            for row in await self.gateway._session_db.list_pending_handoffs():
                await self.gateway._session_db.claim_handoff(row["id"])
                await self.gateway._process_handoff(row)

        assert self.loop is not None
        self.loop.run_until_complete(carry_out())
        entries = self.gateway.session_store._entries
        return {"keys": [key for key, entry in entries.items() if entry.session_id == session_id]}

    def do_gateway_evict(self) -> Answer:
        """Drop the cached agents, as the gateway does for idle chats."""
        self.gateway._agent_cache.clear()
        self.agent = None
        return {}

    # ---- inside

    def _agent(self) -> Any:
        agent = self.cli.agent if self.cli else self.agent
        assert agent is not None, "no agent has been built yet"
        return agent

    def _observe_plugin(self) -> None:
        """Time the plugin's entry points on its class and report compactions as events."""
        from hermes_cli.plugins import discover_plugins, get_plugin_context_engine, get_plugin_manager

        if self._observed:
            return
        self._observed = True
        discover_plugins()
        prototype = get_plugin_context_engine()
        if prototype is None:
            return
        kind = type(copy.deepcopy(prototype))  # what an agent gets; the registered object only stands for it
        for name in _ENTRY_POINTS:
            if callable(getattr(kind, name, None)):
                setattr(kind, name, self._timed(name, getattr(kind, name)))
        kind.compress = self._watched(kind.compress)
        kind.update_from_response = self._metered(kind.update_from_response)
        package = ".".join(kind.__module__.split(".")[:2])
        for name, callbacks in get_plugin_manager()._hooks.items():
            for index, callback in enumerate(callbacks):
                if str(getattr(callback, "__module__", "")).startswith(package):
                    callbacks[index] = self._timed(name, callback)

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            outermost = not getattr(self._depth, "inside", False)
            self._depth.inside = True
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                if outermost:
                    self._depth.inside = False
                    self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
                    self.calls[name] = self.calls.get(name, 0) + 1

        timed.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # the host looks at it
        return timed

    def _watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def compress(engine: Any, messages: Any, current_tokens: int | None = None, **kwargs: Any) -> Any:
            started = time.perf_counter()
            result = function(engine, messages, current_tokens=current_tokens, **kwargs)
            if result != messages:
                self._compacted.add(id(engine))
                self.send(
                    event="compaction",
                    before=current_tokens,
                    messages=[len(messages), len(result)],
                    seconds=round(time.perf_counter() - started, 3),
                )
            return result

        compress.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        return compress

    def _metered(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def update_from_response(engine: Any, usage: Any) -> Any:
            if id(engine) in self._compacted and usage:
                self._compacted.discard(id(engine))
                self.send(event="after", tokens=usage.get("prompt_tokens"))
            return function(engine, usage)

        return update_from_response


def reloaded(sessions: Any, session_id: str) -> list[dict[str, Any]]:
    """A stored conversation as the host resumes it; hosts before 0.19 repair it later."""
    read = sessions.get_messages_as_conversation
    known = inspect.signature(read).parameters
    found = read(session_id, **({"repair_alternation": True} if "repair_alternation" in known else {}))
    return [message for message in found if message["role"] not in ("session_meta", "system")]


_ENTRY_POINTS = (
    "should_compress",
    "compress",
    "update_from_response",
    "update_model",
    "bind_session_state",
    "on_session_start",
    "on_session_end",
    "on_session_reset",
    "handle_tool_call",
    "should_defer_preflight_to_real_usage",
)


def _open_files() -> list[str]:
    """What this process has open, by target; one entry per descriptor."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    return sorted(name for name in found if name.startswith("/") and not name.startswith("/proc"))


#: Half of what a process of the host does before its first turn is to import these.
_OF_OTHERS = (
    *("aiohttp", "croniter", "cryptography.x509", "dotenv", "openai.resources", "prompt_toolkit.shortcuts", "regex"),
    *("requests", "rich.live", "rich.markdown", "websockets.asyncio.client", "yaml"),
)
_LAST_TO_CLOSE = 255  # the kernel closes descriptors in their order


def forked(asking: socket.socket) -> int | None:
    """In a child: where it answers. One for each three descriptors that come: its stdin, that one, and what it prints into."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them here
    while given := socket.recv_fds(asking, 1, 3)[1]:
        child = os.fork()
        if not child:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            for number, descriptor in zip((0, _LAST_TO_CLOSE, 1), given, strict=True):
                os.dup2(descriptor, number, inheritable=number < 2)
            os.dup2(1, 2)
        for descriptor in given:
            os.close(descriptor)
        if not child:
            asking.close()
            return _LAST_TO_CLOSE
        asking.send(child.to_bytes(4))
    return None


def leave() -> None:
    """The last of what a process does at its end: to take a thousand modules apart, one by one, shows nothing."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    atexit.register(leave)
    logging.basicConfig(level=logging.WARNING)
    sys.path[:] = [entry for entry in sys.path if entry and not os.path.exists(os.path.join(entry, "model_server.py"))]
    for name in _OF_OTHERS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    if answers := forked(socket.socket(fileno=int(sys.argv[1]))):
        start = json.loads(sys.stdin.readline())
        os.environ.clear()
        os.environ.update(start["env"])
        os.chdir(start["cwd"])
        Worker(os.fdopen(answers, "w", closefd=False)).serve()
