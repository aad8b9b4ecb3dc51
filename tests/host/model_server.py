"""
A scripted model behind the OpenAI chat API, on loopback.

Answers ``/v1/models`` and ``/v1/chat/completions`` (streamed or whole) with what a script says, records every request,
and can refuse requests above a limit the way providers do. It also keeps the *truth*: every message that a conversation
really consists of, seen from outside the host (what the user said, what the model answered, what the tools returned).
Standard library only; knows nothing of the plugin.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "scripted"
_PIECE = 200  # characters of a streamed text that leave at once
REVIEW = "Review the conversation above"  # how the host's background review begins its prompt


@dataclass(frozen=True)
class Reply:
    """What the model says: text, tool calls ``(name, arguments)``, or both."""

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()


@dataclass
class Request:
    """One request as the provider saw it, and what became of it."""

    kind: str  # chat: the agent's own turn · aux: summaries, titles · review: the host's background review
    messages: list[dict[str, Any]]
    tools: list[str]
    tokens: int
    streamed: bool
    number: int  # of its kind, from 0
    status: int = 200
    reply: dict[str, Any] | None = None

    @property
    def last(self) -> dict[str, Any]:
        return self.messages[-1]


Script = Callable[[Request], Reply]


def text_of(message: Mapping[str, Any]) -> str:
    """The readable text of a message, content parts joined."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content or ""


def count_tokens(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] = ()) -> int:
    """The provider's count: four characters a token over what is sent."""
    chars = len(json.dumps(tools)) if tools else 0
    for message in messages:
        chars += len(text_of(message)) + 16
        if message.get("tool_calls"):
            chars += len(json.dumps(message["tool_calls"]))
    return chars // 4


def kind_of(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any]) -> str:
    """Which part of the host asks."""
    if any(m.get("role") == "user" and text_of(m).startswith(REVIEW) for m in messages):
        return "review"
    names = {tool.get("function", {}).get("name") for tool in tools}
    return "chat" if names - {None} and not names <= {"submit_answer"} else "aux"


def summarise(request: Request) -> Reply:
    """An honest record of whatever is to be summarised: who said what, in its own words, thinned out, nothing invented."""
    prompt = text_of(request.last)
    source = re.split(r"^~{4,} source ends", prompt, flags=re.MULTILINE)[0]  # our instructions follow
    wanted = re.search(r"about (\d+) words", prompt)
    room = 6 * int(wanted[1]) if wanted else 600
    blocks = re.split(r"^~{4,} (?=(?:msg|sum|part)_\d+ \|)", source, flags=re.MULTILINE)[1:]
    said = [line for block in blocks for line in _report(*block.partition("\n")[::2])]
    if not said:
        said = [line.strip()[:120] for line in source.splitlines() if len(line.strip()) > 20]
    step = max(1, -(-sum(map(len, said)) // room))
    return Reply("\n".join([*(f"- {line}" for line in said[::step]), "Expand for details about: the tool results"]))


_VERBS = {"user": "The user asked", "assistant": "The assistant answered", "summary": "Earlier"}


def _report(title: str, body: str) -> list[str]:
    """A few sentences about one part of the source; many for a long one."""
    role = title.split(" | ")[1].split(" ", maxsplit=1)[0] if " | " in title else ""
    lines = [line.strip(" -~") for line in body.splitlines() if len(line.strip(" -~")) > 12]
    step = max(1, len(lines) // 8)
    return [f"{_VERBS.get(role, 'The tool showed')}: {' '.join(line[:110].split())}" for line in lines[::step]]


class ModelServer:
    """The server. ``chat`` answers the agent, ``aux`` everything else; ``limit`` refuses larger requests.

    ``truth`` grows by itself with replies and tool results; what the user says is added with ``says()``. Where several
    conversations go on at once, ``topic`` tells from a request which one it belongs to, and ``truths`` keeps them apart.
    ``pause_s``: between two pieces of a streamed text of more than 200 characters.
    """

    def __init__(
        self,
        chat: Script,
        *,
        aux: Script = summarise,
        review: Script | None = None,
        limit: int = 0,
        topic: Callable[[Request], str] = lambda _request: "",
        pause_s: float = 0.0,
    ) -> None:
        self.chat, self.aux, self.topic = chat, aux, topic
        self.review = review or (lambda _request: Reply("Nothing to save."))
        self.limit, self.pause_s = limit, pause_s
        self.requests: list[Request] = []
        self.truths: dict[str, list[dict[str, Any]]] = {"": []}
        self.refused = 0
        self._seen_results: set[str] = set()
        self._lock = threading.Lock()
        self._calls = 0
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    def anew(self, chat: Script, *, limit: int = 0) -> None:
        """Another conversation begins: with this script, and nothing of the earlier ones on record."""
        with self._lock:
            self.chat, self.limit = chat, limit
            self.requests, self.truths, self.refused = [], {"": []}, 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def truth(self) -> list[dict[str, Any]]:
        """All of the only conversation, or of the one without a topic."""
        return self.truths[""]

    def says(self, text: str, topic: str = "") -> str:
        """Note what the user is about to say."""
        with self._lock:
            self.truths.setdefault(topic, []).append({"role": "user", "content": text})
        return text

    def of_kind(self, kind: str) -> list[Request]:
        return [request for request in list(self.requests) if request.kind == kind]

    def answer(self, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and message (or error) for one request body."""
        messages, tools = list(body.get("messages") or []), list(body.get("tools") or [])
        kind = kind_of(messages, tools)
        with self._lock:
            number = sum(1 for known in self.requests if known.kind == kind)
            names = [str(tool.get("function", {}).get("name")) for tool in tools]
            request = Request(kind, messages, names, count_tokens(messages, tools), bool(body.get("stream")), number)
            self.requests.append(request)
            if kind == "chat":
                self._note_results(request)
            if self.limit and request.tokens > self.limit:
                self.refused += 1
                request.status = 400
                return 400, _too_long(self.limit, request.tokens)
        reply = {"chat": self.chat, "aux": self.aux, "review": self.review}[kind](request)
        with self._lock:
            message = self._message(reply)
            request.reply = message
            if kind == "chat":
                self._of(request).append(message)
        return 200, message

    def _of(self, request: Request) -> list[dict[str, Any]]:
        return self.truths.setdefault(self.topic(request), [])

    def _note_results(self, request: Request) -> None:
        for message in request.messages:
            answered = message.get("tool_call_id")
            if answered and answered not in self._seen_results:
                self._seen_results.add(answered)
                self._of(request).append(dict(message))

    def _message(self, reply: Reply) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        calls = []
        for name, arguments in reply.calls:
            self._calls += 1
            function = {"name": name, "arguments": json.dumps(arguments)}
            calls.append({"id": f"call_{self._calls:06d}", "type": "function", "function": function})
        if calls:
            message["tool_calls"] = calls
        return message


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    owner: ModelServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone (killed by the test) is no news; anything else is printed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_args: Any) -> None:
        """Silence: the requests are on record."""

    def do_GET(self) -> None:
        if re.search(r"/models(/|$|\?)", self.path):
            self._json(200, {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "tests"}]})
        else:
            self._json(404, {"error": {"message": "not found"}})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.path.endswith("/chat/completions"):
            self._json(404, {"error": {"message": "not found"}})
            return
        body = json.loads(raw)
        try:
            status, message = self.server.owner.answer(body)
        except Exception as exc:  # a failing script must show up in the test, not hang the host
            self._json(400, {"error": {"message": f"script failed: {exc!r}", "type": "script_error"}})
            raise
        if status != 200:
            self._json(status, message)
            return
        prompt = count_tokens(body.get("messages") or [], body.get("tools") or [])
        said = count_tokens([message])
        usage = {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said}
        if body.get("stream"):
            self._stream(message, usage)
        else:
            reason = "tool_calls" if message.get("tool_calls") else "stop"
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self._json(200, _stored_json("chat.completion", choices=[choice], usage=usage))

    def _json(self, status: int, body: Mapping[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, message: Mapping[str, Any], usage: Mapping[str, int]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        pieces = len(message.get("content") or "") / _PIECE
        for number, chunk in enumerate(_chunks(message, usage)):
            if 1 < number < pieces + 1:
                time.sleep(self.server.owner.pause_s)
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True


def _stored_json(what: str, **rest: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": what, "created": int(time.time()), "model": MODEL, **rest}


def _chunks(message: Mapping[str, Any], usage: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _stored_json("chat.completion.chunk", choices=[choice])

    yield chunk({"role": "assistant", "content": ""})
    text = message.get("content") or ""
    for start in range(0, len(text), _PIECE):
        yield chunk({"content": text[start : start + _PIECE]})
    for index, call in enumerate(message.get("tool_calls") or []):
        yield chunk({"tool_calls": [{"index": index, **call}]})
    yield chunk({}, "tool_calls" if message.get("tool_calls") else "stop")
    yield _stored_json("chat.completion.chunk", choices=[], usage=dict(usage))


def _too_long(limit: int, tokens: int) -> dict[str, Any]:
    message = (
        f"This model's maximum context length is {limit} tokens. However, your messages resulted in {tokens} tokens. "
        "Please reduce the length of the messages."
    )
    return {
        "error": {
            "message": message,
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    }


def last_said(request: Request) -> tuple[str, int]:
    """What the user said last, and how often the model has answered since: scripts for conversations that go on at once."""
    place = max(number for number, message in enumerate(request.messages) if message.get("role") == "user")
    answers = sum(1 for message in request.messages[place + 1 :] if message.get("role") == "assistant")
    return text_of(request.messages[place]), answers


@dataclass
class Turns:
    """A chat script that answers each user message with the next of ``steps``, then falls back to a plain answer.

    A step is a sequence of replies: the first for the user's message, the next ones for the tool results that follow.
    """

    steps: Callable[[int], Sequence[Reply]]
    turn: int = -1
    _left: list[Reply] = field(default_factory=list)

    def __call__(self, request: Request) -> Reply:
        if request.last.get("role") != "tool":
            self.turn += 1
            self._left = list(self.steps(self.turn))
        return self._left.pop(0) if self._left else Reply(f"Done with turn {self.turn}.")
