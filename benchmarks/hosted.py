"""
A recorded conversation through the real host: its agent says and calls what the record says, its tools answer what they answered.

Owns how a record becomes a home of the host, a model that replays it and a plugin with its tools. The summaries are written by
a server of the caller's; nothing of the engine is replaced.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kit
from kit import Chat

sys.path.append(str(kit.ROOT / "tests"))  # behind this folder: both have a `recall`

from host.drive import Home, Process, compare
from host.model_server import ModelServer, Reply, Request

WINDOW = 65_536  # tokens; the host refuses models under 64,000
#: What a user of a small model sets in config.yaml: the host itself sends no limit, and a model that never ends would write
#: until the call times out.
SUMMARISER = {"max_tokens": 1200, "temperature": 0.3, "repeat_penalty": 1.1}
_TOOLS = '''"""The tools of a recorded conversation: each call is answered with what it was answered with then."""

import json
import os
import threading
from pathlib import Path

_LOCK = threading.Lock()


def register(ctx):
    recorded = json.loads((Path(os.environ["HERMES_HOME"]) / "recorded.json").read_text())
    for name, answers in recorded.items():

        def handler(args, _answers=answers, **_):
            with _LOCK:
                return _answers[json.dumps(args, sort_keys=True)].pop(0)

        schema = {"name": name, "description": name, "parameters": {"type": "object", "properties": {}}}
        ctx.register_tool(name=name, toolset="recorded", schema=schema, handler=handler)
'''


class Recorded:
    """The recorded model: within a turn, each request is answered with the next message of the assistant."""

    def __init__(self) -> None:
        self._left: list[Reply] = []

    def begin(self, turn: Sequence[Chat]) -> None:
        self._left = [
            Reply(
                str(message.get("content") or ""),
                [(each["function"]["name"], _arguments(each)) for each in _calls(message)],
            )
            for message in turn
            if message["role"] == "assistant"
        ]

    def __call__(self, _request: Request) -> Reply:
        return self._left.pop(0) if self._left else Reply("Done.")


def _calls(message: Chat) -> list[Chat]:
    """The calls of a message; the host drops one that stands there twice."""
    once = {json.dumps(each["function"], sort_keys=True): each for each in reversed(message.get("tool_calls") or [])}
    return list(reversed(once.values()))


def _arguments(call: Chat) -> dict[str, Any]:
    given = call["function"]["arguments"]
    found = json.loads(given) if isinstance(given, str) else given
    return dict(found)


def _answers(turns: Sequence[Sequence[Chat]]) -> dict[str, dict[str, list[str]]]:
    """Recorded results by tool and arguments, in the order of the calls."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for turn in turns:
        results = {message["tool_call_id"]: str(message["content"]) for message in turn if message["role"] == "tool"}
        for call in (each for message in turn for each in _calls(message)):
            key = json.dumps(_arguments(call), sort_keys=True)
            found[call["function"]["name"]][key].append(results.get(call["id"], ""))
    return found


def _home(path: Path, base_url: str, summariser_url: str, turns: Sequence[Sequence[Chat]], **settings: object) -> Home:
    where = {"provider": "custom", "base_url": summariser_url, "model": "served", "api_key": "none", "timeout": 3000}
    titles = {**where, "base_url": base_url}
    made = Home.make(
        path,
        base_url,
        window=WINDOW,
        config={
            "plugins": {"enabled": ["hermes-lcm", "recorded"]},
            "auxiliary": {"compression": {**where, "extra_body": SUMMARISER}, "title_generation": titles},
        },
        settings={f"LCM_{name.upper()}": str(value) for name, value in settings.items()},
    )
    plugin = path / "plugins" / "recorded"
    plugin.mkdir()
    (plugin / "plugin.yaml").write_text("name: recorded\nversion: 1.0.0\ndescription: recorded tools\n")
    (plugin / "__init__.py").write_text(_TOOLS)
    (path / "recorded.json").write_text(json.dumps(_answers(turns)))
    return made


def replay(
    turns: Sequence[Sequence[Chat]],
    summariser_url: str,
    path: Path,
    *,
    threshold: float,
    patience: int,
    compactions: int,
    seconds: float,
    **settings: object,
) -> dict[str, Any]:
    """One conversation until so many compactions or seconds; preparation is finished between turns.

    What is stored is compared with what was said, seen from outside the host. ``patience``: seconds that a call may take.
    """
    script = Recorded()
    with ModelServer(script, aux=lambda _request: Reply("Recorded")) as server:
        made = _home(
            path, server.base_url, summariser_url, turns,
            context_threshold=threshold, summary_spend_max_calls=0,
            foreground_budget_ms=patience * 1000, summary_timeout_ms=patience * 1000, **settings,
        )  # fmt: skip
        with made.process() as process:
            process.open(toolsets=["recorded"])
            began, played = time.perf_counter(), 0
            for turn in turns:
                if process.compactions() >= compactions or time.perf_counter() - began > seconds:
                    break
                _play(process, server, script, turn, patience)
                played += 1
            took = time.perf_counter() - began
            session_id = process.session_id()
            nodes = process.summaries()
            process.close()
        told = [made.hermes("lcm", *words, "--json").stdout for words in (("exam", "--session", session_id), ("cost",))]
        lines = made.hermes("lcm", "export", session_id, "jsonl", "-o", "-").stdout.splitlines()
        rows = [row["message"] for row in map(json.loads, lines) if "message" in row]
        return {
            "turns": played,
            "seconds": took,
            "compactions": [event["seconds"] for event in process.events if event["event"] == "compaction"],
            "requests": [request.tokens for request in server.of_kind("chat")],
            "difference": compare(made.transcript(server.truth), rows),
            "nodes": nodes,
            "exam": json.loads(told[0]),
            "cost": json.loads(told[1]),
        }


def _play(process: Process, server: ModelServer, script: Recorded, turn: Sequence[Chat], patience: int) -> None:
    script.begin(turn)
    asked = server.says(str(turn[0]["content"]))
    answer = process.turn(text=asked, timeout=4 * patience)
    if answer["failed"]:
        raise RuntimeError(f"the host's turn failed: {answer['failed']}")
    process.prepared(timeout=patience + 60, seconds=patience)
    if os.environ.get("LCM_BENCH_TRACE"):
        print(f"{process.compactions()} compactions, {server.requests[-1].tokens} tokens", flush=True)
