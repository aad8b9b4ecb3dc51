"""``hermes gateway run`` with nothing but the host's API server, and a client for it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from host.drive import Home, HostError

_KEY = "0123456789abcdef0123456789abcdef"
_PATIENCE_S = 120.0


class Api:
    """A running server."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ask(self, text: str, *, session: str = "", key: str = "", before: list[dict[str, str]] | None = None) -> str:
        """One chat completion. ``session`` and ``key``: the host's headers; ``before``: the history of a client that keeps it."""
        headers = {"X-Hermes-Session-Id": session, "X-Hermes-Session-Key": key}
        body = {"model": "hermes-agent", "messages": [*(before or []), {"role": "user", "content": text}]}
        status, answer = self._call("POST", "/v1/chat/completions", body, {k: v for k, v in headers.items() if v})
        if status != 200:
            raise HostError(f"the API server answered {status}: {answer}")
        return str(answer["choices"][0]["message"]["content"])

    def run(self, text: str, *, session: str, key: str, before: list[dict[str, str]]) -> str:
        """One run of an agent, waited for: the client chooses the session's id and brings its history; its status."""
        body = {"input": text, "session_id": session, "conversation_history": before}
        status, made = self._call("POST", "/v1/runs", body, {"X-Hermes-Session-Key": key})
        end = time.monotonic() + _PATIENCE_S
        while status in (200, 202) and time.monotonic() < end:
            found = self._call("GET", f"/v1/runs/{made['run_id']}", None, {})[1]
            if found.get("status") in ("completed", "failed", "cancelled"):
                return str(found["status"])
            time.sleep(0.2)
        raise HostError(f"the API server answered {status}: {made}")

    def answers(self) -> bool:
        """Is it up?"""
        with contextlib.suppress(OSError):
            return self._call("GET", "/health", None, {})[0] == 200
        return False

    def _call(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_PATIENCE_S)
        with contextlib.closing(connection):
            data = json.dumps(body) if body is not None else None
            auth = {"Authorization": f"Bearer {_KEY}", "Content-Type": "application/json"}
            connection.request(method, path, data, auth | headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())


@contextlib.contextmanager
def api_server(home: Home) -> Iterator[Api]:
    """The gateway as its own process, stopped as a service manager does it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {"ENABLED": "true", "KEY": _KEY, "PORT": str(port), "HOST": "127.0.0.1"}
    environment = home.environment() | {f"API_SERVER_{name}": value for name, value in settings.items()}
    log = home.path / "gateway.log"
    with log.open("ab") as out:
        child = subprocess.Popen(
            [str(Path(sys.executable).with_name("hermes")), "gateway", "run"],
            env=environment,
            cwd=home.path,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield _started(child, Api(port), log)
    finally:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(30)


def _started(child: subprocess.Popen[bytes], api: Api, log: Path) -> Api:
    end = time.monotonic() + _PATIENCE_S
    while not api.answers():
        if child.poll() is not None or time.monotonic() > end:
            raise HostError(f"the gateway does not answer:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.1)
    return api
