"""
Driving the real host from outside: a temporary home, processes, and the comparison of what is stored with the truth.

``Home`` is a ``HERMES_HOME`` with the plugin linked in; ``Process`` is a process of the host under command
(``worker.py``); ``chat_once`` runs ``hermes chat -q``. Standard library only, so that the demo can use it from anywhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
#: The plugin under test. Another folder shows that the tests fail when a rule is broken.
PLUGIN = Path(os.environ.get("PLUGIN_UNDER_TEST") or REPOSITORY)
WINDOW = 65_536
#: With the second each process would compile the plugin anew, with the others read all certificates ten times.
_NOT_FOR_THE_HOST = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
Event = Callable[[dict[str, Any]], None]
#: The session that a compaction ended and this one continues; children and branches have parents too.
_ROTATED_FROM = (
    "SELECT parent.id FROM sessions child JOIN sessions parent ON parent.id = child.parent_session_id "
    "WHERE child.id = ? AND parent.end_reason = 'compression'"
)


class HostError(RuntimeError):
    """The host's process answered with an error, or died."""


class HostDiedError(HostError):
    """The process is gone."""


@dataclass
class Home:
    """A ``HERMES_HOME`` for one test."""

    path: Path
    settings: dict[str, str] = field(default_factory=dict)

    @classmethod
    def make(
        cls,
        path: Path,
        base_url: str,
        *,
        in_place: bool = True,
        engine: str = "lcm",
        review_every: int = 0,
        window: int = WINDOW,
        config: Mapping[str, Any] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Home:
        """Write config.yaml and link the plugin. ``settings`` are environment variables (``LCM_*``).

        ``review_every``: background reviews after so many tool rounds and user turns; 0 never. ``config``: further
        sections of config.yaml.
        """
        (path / "plugins").mkdir(parents=True)
        (path / "plugins" / "hermes-lcm").symlink_to(PLUGIN, target_is_directory=True)
        sections = {
            "model": {
                "default": "scripted",
                "provider": "custom",
                "base_url": base_url,
                "api_key": "none",
                "context_length": window,
            },
            "context": {"engine": engine},
            "plugins": {"enabled": ["hermes-lcm"]},
            "compression": {"enabled": True, "in_place": in_place},
            "skills": {"creation_nudge_interval": review_every},
            "memory": {"nudge_interval": review_every},
            "security": {"tirith_enabled": False},
            "telemetry": {"shared_metrics": {"enabled": False, "send": False, "offer_version": 2}},  # else 0.22 asks
            "approvals": {"mode": "off", "destructive_slash_confirm": False},
            "agent": {"environment_probe": False},  # which Pythons there are: six processes for each of the host's
        }
        (path / "config.yaml").write_text(json.dumps(sections | dict(config or {}), indent=2) + "\n")  # JSON is YAML
        return cls(path, dict(settings or {}))

    def environment(self) -> dict[str, str]:
        """The caller's environment without what belongs to another host or plugin, plus this home."""
        foreign = ("HERMES_", "LCM_", "TERMINAL_", "OPENAI_", "ANTHROPIC_", "OPENROUTER_", "TELEGRAM_")
        env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        for name in _NOT_FOR_THE_HOST:
            env.pop(name, None)
        # Whatever the host looks up on the internet (price lists, model catalogues) fails at once instead of later.
        env |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
        env |= dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
        env |= {
            "HERMES_HOME": str(self.path),
            "HERMES_DISABLE_LAZY_INSTALLS": "1",  # the host would install packages while it runs
            "HOME": str(self.path / "user"),
            "GATEWAY_ALLOW_ALL_USERS": "true",
            "HERMES_YOLO_MODE": "1",
            "HERMES_ACCEPT_HOOKS": "1",
            "NO_COLOR": "1",
            "SSL_CERT_DIR": str(self.path / "plugins"),  # none
            "HERMES_SKIP_SSL_GUARD": "1",
        }
        (self.path / "user").mkdir(exist_ok=True)
        return env | self.settings

    @contextlib.contextmanager
    def process(self, *, cwd: Path | None = None, on_event: Event | None = None) -> Iterator[Process]:
        """A fresh process of the host, closed at the end."""
        process = Process(self, cwd=cwd or self.path, on_event=on_event)
        try:
            yield process
        finally:
            process.stop()

    def hermes(
        self, *arguments: str, timeout: float = 300, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the ``hermes`` command that belongs to this Python."""
        command = [str(Path(sys.executable).with_name("hermes")), *arguments]
        return subprocess.run(
            command,
            check=False,
            env=self.environment(),
            cwd=cwd or self.path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask the host's own database."""
        with contextlib.closing(sqlite3.connect(f"file:{self.path}/state.db?mode=ro", uri=True)) as database:
            return database.execute(sql, values).fetchall()

    def session_chain(self, session_id: str) -> list[str]:
        """The host sessions that a conversation went through, oldest first, as the host wrote them down."""
        chain = [session_id]
        while True:
            rows = self.query(_ROTATED_FROM, chain[0])
            if not rows:
                return chain
            chain.insert(0, rows[0][0])

    def transcript(self, truth: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The truth with tool results as the host wrote them down when they came, before any engine could shorten them."""
        rows = self.query("SELECT tool_call_id, content FROM messages WHERE role = 'tool' ORDER BY id DESC")
        first = dict(rows)
        return [
            {**message, "content": first.get(message["tool_call_id"], message["content"])}
            if message["role"] == "tool"
            else message
            for message in truth
        ]

    def chat_once(self, text: str, resume: str | None = None) -> tuple[str, str]:
        """``hermes chat -q`` in a process of its own: what it printed, and the session id it names."""
        more = ["--resume", resume] if resume else []
        done = self.hermes("chat", "-Q", "-q", text, *more)
        found = re.findall(r"session_id: *(\S+)", done.stdout + done.stderr)
        if done.returncode or not found:
            raise HostError(f"hermes chat ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done.stdout, found[-1]


@cache
def _parent() -> socket.socket:
    """Where processes of the host are asked for: one of this Python's forks for each, and ends with this process."""
    ours, its = socket.socketpair()
    with its:
        subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("worker.py")), str(its.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if name not in _NOT_FOR_THE_HOST},
            pass_fds=(its.fileno(),),
            start_new_session=True,
        )
    return ours


class Process:
    """A process running ``worker.py``. Commands are method calls: ``process.turn(text="hello")``."""

    def __init__(self, home: Home, *, cwd: Path, on_event: Event | None = None) -> None:
        self.home, self.on_event = home, on_event
        self.events: list[dict[str, Any]] = []
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._log = (home.path / "worker.log").open("ab")
        (reading, answering), (taking, giving) = os.pipe(), os.pipe()
        parent = _parent()
        socket.send_fds(parent, [b"."], [taking, answering, self._log.fileno()])
        self._pid = int.from_bytes(parent.recv(4))
        os.close(answering)
        os.close(taking)
        self._commands = os.fdopen(giving, "wb")
        self._reader = threading.Thread(target=self._read, args=(reading,), daemon=True)
        self._reader.start()
        self._write({"env": home.environment(), "cwd": str(cwd)})

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)

        def command(*, timeout: float = 300, **arguments: Any) -> Any:
            self.send(name, **arguments)
            return self.receive(timeout)

        return command

    def send(self, command: str, /, **arguments: Any) -> None:
        """Give a command without waiting for its answer."""
        try:
            self._write({"do": command, **arguments})
        except BrokenPipeError:
            raise HostDiedError(f"the host's process is gone:\n{self.log()}") from None

    def receive(self, timeout: float = 300) -> Any:
        """The answer to the command given last."""
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise HostError(f"no answer from the host's process in {timeout:.0f} s:\n{self.log()}") from None
        if line is None:
            raise HostDiedError(f"the host's process died:\n{self.log()}")
        if "error" in line:
            raise HostError(f"{line['error']}\n{line['trace']}")
        return line["answer"]

    @property
    def lives(self) -> bool:
        """A process's end is the end of the pipe into which only it can write."""
        return self._reader.is_alive()

    def kill(self) -> None:
        """SIGKILL, as a power cut does it."""
        if self.lives:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)
            self._reader.join(30)

    def stop(self) -> None:
        """Let the process end; kill what does not."""
        with contextlib.suppress(OSError):
            self._commands.close()
        self._reader.join(20)
        self.kill()
        self._log.close()

    def compactions(self) -> int:
        """How many compactions have changed a live list so far."""
        return sum(1 for event in self.events if event["event"] == "compaction")

    def log(self) -> str:
        """The end of what the host printed."""
        return (self.home.path / "worker.log").read_text(errors="replace")[-3000:]

    def _write(self, line: dict[str, Any]) -> None:
        self._commands.write(json.dumps(line).encode() + b"\n")
        self._commands.flush()

    def _read(self, reading: int) -> None:
        with os.fdopen(reading) as lines:
            for text in lines:
                line = json.loads(text)
                if "event" in line:
                    self.events.append(line)
                    if self.on_event:
                        self.on_event(line)
                else:
                    self._lines.put(line)
        self._lines.put(None)


# ---- what is stored, and what should be


def stored_rows(process: Process, session_id: str, *, page: int = 200) -> list[dict[str, Any]]:
    """Every stored message of a session in stored order, contents whole, through the plugin's tools alone."""
    rows: list[dict[str, Any]] = []
    cursor = 0
    while True:
        arguments = {"session_id": session_id, "limit": page, "after_store_id": cursor}
        answer = process.tool(name="lcm_load_session", args=arguments)
        if answer.get("error"):
            raise HostError(f"lcm_load_session: {answer['error']}")
        for row in answer["messages"]:
            cut = row.get("content_truncated")
            rows.append({**row, "content": whole_text(process, row["store_id"])} if cut else row)
        if not answer["messages"] or not answer.get("has_more"):
            return rows
        cursor = answer["next_cursor"]


def all_rows(process: Process, session_id: str) -> list[dict[str, Any]]:
    """The rows of every host session that a conversation went through, in that order."""
    return [row for each in process.home.session_chain(session_id) for row in stored_rows(process, each)]


def whole_text(process: Process, store_id: int) -> str:
    """One stored message, page after page."""
    text, offset = "", 0
    while True:
        answer = process.tool(name="lcm_expand", args={"store_id": store_id, "content_offset": offset})
        if answer.get("error"):
            raise HostError(f"lcm_expand(store_id={store_id}, content_offset={offset}): {answer['error']}")
        text += str(answer["content"])
        if not answer.get("content_truncated"):
            return text
        following = answer["next_content_offset"]
        assert following > offset, f"lcm_expand does not get on from {offset}"
        offset = following


Key = tuple[str, str, tuple[str, ...], str]


def key_of(message: Mapping[str, Any]) -> Key:
    """What makes a message the one it is: role, stripped text, the calls it makes, the call it answers."""
    content = message.get("content")
    text = content if isinstance(content, str) else "" if content is None else json.dumps(content, sort_keys=True)
    calls = message.get("tool_calls") or []
    if isinstance(calls, str):
        calls = json.loads(calls)
    ids = tuple(str(call.get("id") or call.get("call_id")) for call in calls)
    return str(message.get("role")), text.strip(), ids, str(message.get("tool_call_id") or "")


@dataclass(frozen=True)
class Difference:
    """Truth against rows. Empty lists: each message is there exactly once, and in order."""

    lost: list[Key]
    duplicated: list[Key]
    foreign: list[Key]
    disordered: int = 0

    def __bool__(self) -> bool:
        return bool(self.lost or self.duplicated or self.foreign or self.disordered)

    def __str__(self) -> str:
        def some(keys: Sequence[Key]) -> str:
            return "; ".join(f"{role} {text[:70]!r}" for role, text, _calls, _answers in keys[:3])

        lines = [
            f"{len(keys)} {what}: {some(keys)}"
            for what, keys in (("lost", self.lost), ("duplicated", self.duplicated), ("foreign", self.foreign))
            if keys
        ]
        return "\n".join(lines + [f"{self.disordered} out of order"] * bool(self.disordered)) or "no difference"


def compare(truth: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> Difference:
    """Is every message of the truth stored once, nothing else, and all in order?"""
    said, kept = [key_of(message) for message in truth], [key_of(row) for row in rows]
    wanted, have = Counter(said), Counter(kept)
    surplus = have - wanted
    place = {key: number for number, key in enumerate(said) if wanted[key] == 1}
    order = [place[key] for key in dict.fromkeys(kept) if key in place]
    return Difference(
        lost=list((wanted - have).elements()),
        duplicated=[key for key in surplus.elements() if key in wanted],
        foreign=[key for key in surplus.elements() if key not in wanted],
        disordered=sum(1 for first, second in pairwise(order) if second < first),
    )
