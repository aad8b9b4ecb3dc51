"""
The host's auxiliary model, the only place that talks to it, and what stops asking it: circuit breaker and limit of spending.

Owns how a request is put to ``agent.auxiliary_client.call_llm`` on every supported host, what of the response is
text, and what an exception means. Nobody above reads exception text: an overflow is SummaryTooLong, everything else
is SummaryUnavailable with a reason that is safe to store and to show.

The state of breaker and limit goes in and out as a JSON-able dict, so that a restart does not forget an outage or a budget; who
keeps it is the caller's business. Their clock is wall time for the same reason. Safe to use from several threads. A model that
answered is a model that works, but not one that can summarise: refused chunks are counted by themselves, and only a summary
that passed ends the pause after them. Until then none of them is asked for again, and one that is refused a second time is no
more.
"""

from __future__ import annotations

import inspect
import math
import queue
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import Context, ContextVar, copy_context
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from ..errors import SummaryTooLong, SummaryUnavailable
from ..text.salience import lazy

ChatMessage = Mapping[str, Any]

#: The host's own auxiliary task for summaries, and the one that is registered for users who want another model for ours.
SUMMARY_TASK: Final = "compression"
OWN_SUMMARY_TASK: Final = "lcm_summary"


class Reply(NamedTuple):
    """Reply of a model. ``text`` never holds reasoning; ``reasoning_only``: there was nothing else.

    ``usage``: tokens read and written as the provider counted them, if it did.
    """

    text: str
    finish_reason: str = "stop"
    model: str = ""
    reasoning_only: bool = False
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    usage: tuple[int, int] | None = None


class Model(Protocol):
    """A model as the ladder needs it; ``HostModel`` in production."""

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_tokens: int,
        timeout_s: float,
        route: str,
        tools: Sequence[Mapping[str, Any]] | None = None,
        task: str = SUMMARY_TASK,
    ) -> Reply:
        """One answer. Raises SummaryTooLong or SummaryUnavailable, nothing else."""


# ------------------------------------------------------------------------------------------------------ exceptions
#: Phrases of providers and local servers about a prompt that does not fit. Not "max_tokens", not "token limit":
#: rate limits and output caps say these too, and splitting the source would answer neither.
_TOO_LONG = lazy(
    r"context[_ ]length|maximum context|max(?:imum)?[_ ]model[_ ]len(?:gth)?|context[_ ](?:window|size)|"
    r"contextwindowexceeded|"
    r"(?:prompt|input|request|message)s? (?:is|are|was|were) too (?:long|large)|too many (?:input )?tokens|"
    r"prompt exceeds|prompt length|input token count|maximum number of (?:input )?tokens|max input token|"
    r"reduce the length|slot context|n_ctx|exceed_context_size|request too large|request_too_large|"
    r"tokens in request more than max|上下文长度|超过最大长度|输入过长",
    re.IGNORECASE,
)
_NOT_TOO_LONG = lazy(
    r"rate[_ ]limit|per minute|per day|\btpm\b|\btpd\b|quota|daily limit|insufficient|billing", re.IGNORECASE
)
_NO_PROVIDER = lazy(r"no llm provider|no api key|api key was (?:not )?found|not configured", re.IGNORECASE)
_STATUS_WORDS: Final = {
    400: "the provider refused the request (400)",
    401: "the provider refused the credentials (401)",
    402: "the provider wants payment (402)",
    403: "the provider denied access (403)",
    404: "the provider does not know the model (404)",
    408: "timed out (408)",
    413: "the request was too large (413)",
    429: "rate limit or quota (429)",
}


class _NoCredentials(SummaryUnavailable):
    """The host has no credentials for that provider."""


def _status(exc: BaseException) -> int:
    for holder in (exc, getattr(exc, "response", None)):
        for name in ("status_code", "status", "code"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and 400 <= value < 600:
                return value
    # The host wraps some provider errors into RuntimeError and keeps only their text.
    found = re.match(r"\s*(?:Error code|HTTP(?: error)?|Status):?\s*([45]\d\d)\b", str(exc)[:80], re.IGNORECASE)
    return int(found[1]) if found else 0


def _chain(exc: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    current: BaseException | None = exc
    while current is not None and current not in chain and len(chain) < 6:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain


def _is_too_long(exc: BaseException) -> bool:
    status = _status(exc)
    text = f"{getattr(exc, 'code', '')} {str(exc)[:4000]}"
    if status in (401, 402, 403, 404, 429) or _NOT_TOO_LONG.search(text):
        return False
    return status == 413 or _TOO_LONG.search(text) is not None


def _is_timeout(exc: BaseException) -> bool:
    return isinstance(exc, TimeoutError) or "timeout" in type(exc).__name__.lower()


def classify(exc: Exception, route: str) -> SummaryTooLong | SummaryUnavailable:
    """A provider's exception as one of ours. The message names the route and the kind of failure, never the text."""
    where = route or "the host's auxiliary model"
    chain = _chain(exc)
    if any(_is_too_long(link) for link in chain):
        return SummaryTooLong(f"{where}: the prompt exceeds the context window")
    if any(_is_timeout(link) for link in chain):
        return SummaryUnavailable(f"{where}: timed out")
    status = next((code for link in chain if (code := _status(link))), 0)
    if status:
        return SummaryUnavailable(f"{where}: {_STATUS_WORDS.get(status, f'the provider failed ({status})')}")
    if isinstance(exc, ImportError):
        return SummaryUnavailable("the host has no auxiliary model")
    if _NO_PROVIDER.search(str(exc)[:400]):
        return _NoCredentials(f"{where}: no provider is configured")
    return SummaryUnavailable(f"{where}: {type(exc).__name__}")


# ------------------------------------------------------------------------------------------------------- responses
_TAGS: Final = "think|thinking|reasoning|thought|REASONING_SCRATCHPAD|seed:think"
_CLOSED = lazy(rf"\s*<({_TAGS})\b[^>\n]*>.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_OPENED = lazy(rf"\s*<(?:{_TAGS})\b[^>\n]*>", re.IGNORECASE)
#: Templates that put the opening tag into the prompt send only the closing one, on a line of its own.
_ORPHAN = lazy(rf"^[^\S\n]*</(?:{_TAGS})\s*>[^\S\n]*$", re.IGNORECASE | re.MULTILINE)


def _field(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _content(message: Any) -> str:
    """The answer's text; parts that are typed as reasoning are left out."""
    content = _field(message, "content")
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence) or isinstance(content, (bytes, bytearray)):
        return ""
    texts = [
        _field(part, "text")
        for part in content
        if not isinstance(part, str) and _field(part, "type") in ("text", "output_text", None)
    ]
    return "".join(text for text in texts if isinstance(text, str))


def without_reasoning(text: str) -> tuple[str, bool]:
    """``text`` without the reasoning in front of it, and whether there was any. An unclosed block leaves nothing."""
    found = False
    while match := _CLOSED.match(text):
        text, found = text[match.end() :], True
    if _OPENED.match(text):
        return "", True
    orphan = _ORPHAN.search(text)
    if orphan and not re.search(rf"<(?:{_TAGS})\b", text[: orphan.start()], re.IGNORECASE):
        text, found = text[orphan.end() :], True
    return text.strip(), found


def _calls(message: Any) -> tuple[Mapping[str, Any], ...]:
    out: list[Mapping[str, Any]] = []
    for call in _field(message, "tool_calls") or ():
        function = _field(call, "function")
        out.append(
            {
                "id": str(_field(call, "id") or ""),
                "name": str(_field(function, "name") or ""),
                "arguments": _field(function, "arguments") or "",
            }
        )
    return tuple(out)


def read_reply(response: Any) -> Reply:
    """A provider's response as a Reply. Raises SummaryUnavailable when it has no message."""
    choices = _field(response, "choices")
    if not choices:
        raise SummaryUnavailable("the provider sent a response without a message")
    message = _field(choices[0], "message")
    text, reasoned = without_reasoning(_content(message))
    hidden = any(_field(message, name) for name in ("reasoning", "reasoning_content", "reasoning_details"))
    refused = bool(_field(message, "refusal")) and not text
    return Reply(
        text=text,
        finish_reason="refusal" if refused else str(_field(choices[0], "finish_reason") or ""),
        model=str(_field(response, "model") or ""),
        reasoning_only=not text and (reasoned or hidden),
        tool_calls=_calls(message),
        usage=_usage(_field(response, "usage")),
    )


def _usage(usage: Any) -> tuple[int, int] | None:
    """Tokens read and written; what a cache served and what was reasoned is in them."""
    read, written = (
        next(
            (n for name in names if isinstance(n := _field(usage, name), int) and not isinstance(n, bool) and n > 0), 0
        )
        for names in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
    )
    return (read, written) if read else None


# -------------------------------------------------------------------------------------------------------- the seam
def _known_provider(name: str) -> bool:
    """Does the host know a provider of this name? Asks its tables only: its own look-up may go to the network."""
    key = name.strip().lower()
    if key.startswith("custom:"):
        return True
    try:
        from agent import auxiliary_client
        from hermes_cli import auth, providers

        key = providers.normalize_provider(key)
        tables = (
            getattr(providers, "HERMES_OVERLAYS", ()),
            getattr(auth, "PROVIDER_REGISTRY", ()),
            getattr(auxiliary_client, "_AUX_DIRECT_API_BASE_URLS", ()),
        )
    except Exception:  # noqa: BLE001 - see the comment below
        # Tables of the host that a release may move: without an answer the route is taken for a model's name.
        return False
    return any(key in table for table in tables)


def split_route(route: str, known_provider: Callable[[str], bool] = _known_provider) -> tuple[str, str]:
    """Provider and model of a route. ``vendor/model`` stays one model name when the host knows no such provider."""
    provider, slash, model = route.strip().partition("/")
    if not slash or not provider or not model or not known_provider(provider):
        return "", route.strip()
    return provider, model


def _chosen(name: str) -> bool:
    """Has the user chosen a model for this auxiliary task of the host's menu?"""
    try:
        from hermes_cli import config

        # The host keeps what it read until the file changes; the read-only variant spares a copy of everything.
        read = getattr(config, "load_config_readonly", None) or config.load_config
        block = read()["auxiliary"][name]
        values = [str(block.get(key) or "").strip().lower() for key in ("provider", "model", "base_url")]
    except Exception:  # noqa: BLE001 - a setting that cannot be read was not made
        return False
    return any(value not in ("", "auto") for value in values)


#: A change in the host's menu is noticed after that long: reading its configuration takes milliseconds.
_LOOK_AGAIN_S: Final = 10.0
#: A provider that is late by itself says why.
_LATE_S: Final = 0.5


#: How the host is told that a summary makes progress (0.20 and newer), for the threads that work for the caller.
_progress: ContextVar[Callable[[], None] | None] = ContextVar("lcm_progress", default=None)


def context_for_thread() -> Context:
    """A copy of this thread's context for a thread that works for it: it reports to what the host installed in this one.

    Such a host gives a compaction up when no summary has streamed a word for a while, and looks at its own thread only.
    """
    context = copy_context()
    with suppress(ImportError):
        from agent import auxiliary_client

        hook = getattr(getattr(auxiliary_client, "_aux_progress", None), "hook", None)
        context.run(_progress.set, hook if callable(hook) else None)
    return context


def in_time(ask: Callable[[], Reply], seconds: float) -> Reply:
    """A reply, in a thread that is left behind when it is late: the host tries again by itself, as long each time.

    Raises SummaryUnavailable then, and what ``ask`` raises.
    """
    box = queue.SimpleQueue[Reply | Exception]()

    def work() -> None:
        try:
            box.put(ask())
        except Exception as exc:  # noqa: BLE001 - handed to the caller's thread, which raises it
            box.put(exc)

    threading.Thread(target=context_for_thread().run, args=(work,), name="lcm-question", daemon=True).start()
    try:
        found = box.get(timeout=seconds + _LATE_S)
    except queue.Empty:
        raise SummaryUnavailable("timed out") from None
    if isinstance(found, Exception):
        raise found
    return found


def _reporting(auxiliary_client: Any) -> AbstractContextManager[Any]:
    hook, install = _progress.get(), getattr(auxiliary_client, "aux_progress_hook", None)
    return install(hook) if hook is not None and callable(install) else nullcontext()


class HostModel:
    """Asks the host's auxiliary model. Safe to share between threads."""

    def __init__(self, *, reasoning_effort: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._effort = reasoning_effort
        self._clock = clock
        self._task = SUMMARY_TASK
        self._look_again_at = -math.inf

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        max_tokens: int,
        timeout_s: float,
        route: str,
        tools: Sequence[Mapping[str, Any]] | None = None,
        task: str = SUMMARY_TASK,
    ) -> Reply:
        """One answer of the model behind ``route`` ("" is what the host's own setting for ``task`` names)."""
        if task == SUMMARY_TASK:
            task = self._summary_task()
        provider, model = split_route(route)
        if provider:
            try:
                return self._complete(messages, max_tokens, timeout_s, (provider, model), tools, task)
            except _NoCredentials:
                # ``anthropic/claude`` is a provider and a model to some, an aggregator's name of a model to others.
                pass
        return self._complete(messages, max_tokens, timeout_s, ("", route.strip()), tools, task)

    def _summary_task(self) -> str:
        now = self._clock()
        if now >= self._look_again_at:
            self._task = OWN_SUMMARY_TASK if _chosen(OWN_SUMMARY_TASK) else SUMMARY_TASK
            self._look_again_at = now + _LOOK_AGAIN_S
        return self._task

    def _complete(
        self,
        messages: Sequence[ChatMessage],
        max_tokens: int,
        timeout_s: float,
        target: tuple[str, str],
        tools: Sequence[Mapping[str, Any]] | None,
        task: str,
    ) -> Reply:
        try:
            from agent import auxiliary_client

            call = auxiliary_client.call_llm
            wanted = self._wanted(messages, max_tokens, timeout_s, target, tools)
            with _reporting(auxiliary_client):
                response = call(task=task, **_accepted(call, wanted))
            return read_reply(response)
        except (SummaryTooLong, SummaryUnavailable):
            raise
        except Exception as exc:  # providers raise anything; this is the only place that knows
            raise classify(exc, "/".join(part for part in target if part)) from exc

    def _wanted(
        self,
        messages: Sequence[ChatMessage],
        max_tokens: int,
        timeout_s: float,
        target: tuple[str, str],
        tools: Sequence[Mapping[str, Any]] | None,
    ) -> dict[str, Any]:
        # No temperature, no top_p: several providers refuse a request that has them.
        wanted: dict[str, Any] = {
            "messages": [dict(message) for message in messages],
            "max_tokens": max_tokens,
            "timeout": timeout_s,
        }
        provider, model = target
        if model:
            wanted["model"] = model
        if provider:
            wanted["provider"] = provider
        if tools:
            wanted["tools"] = [dict(tool) for tool in tools]
        if self._effort:
            wanted["reasoning_config"] = (
                {"enabled": False} if self._effort == "none" else {"enabled": True, "effort": self._effort}
            )
        return wanted


def _accepted(call: Callable[..., Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The arguments that this host's function takes. Older ones have no ``reasoning_config``, but an ``extra_body``."""
    try:
        parameters = inspect.signature(call).parameters
    except (TypeError, ValueError):
        return wanted
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return wanted
    if "reasoning_config" in wanted and "reasoning_config" not in parameters and "extra_body" in parameters:
        wanted = {**wanted, "extra_body": {"reasoning": wanted["reasoning_config"]}}
    return {name: value for name, value in wanted.items() if name in parameters}


# -------------------------------------------------------------------------------- breaker and spending
_MOST_DOUBLINGS: Final = 1  # of the pause, each time that a model is refused again
_MOST_CHUNKS: Final = 1000  # that are remembered as refused
#: A refused chunk: it waits for a summary of another one, may be asked for again since there is one, or was refused again.
_WAITS, _AGAIN, _NEVER = "waits", "again", "never"


class _Route:
    def __init__(
        self,
        failures: int = 0,
        retry_at: float = 0.0,
        reason: str = "",
        refusals: int = 0,
        chunks: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.failures = failures
        self.refusals = refusals  # chunks in a row of which no answer passed
        self.retry_at = retry_at  # 0: closed
        self.reason = reason
        self.chunks = dict(chunks)  # refused ones, oldest first, and what is to be done with each
        self.probing = False

    def as_dict(self) -> dict[str, Any]:
        return {
            "failures": self.failures, "retry_at": self.retry_at, "reason": self.reason, "refusals": self.refusals,
            "chunks": self.chunks,
        }  # fmt: skip


class Breaker:
    """Stops calling a route after ``threshold`` failures in a row, for ``cooldown_s``; then one call may try it.

    ``threshold`` 0: never stops.
    """

    def __init__(self, *, threshold: int, cooldown_s: float, clock: Callable[[], float]) -> None:
        self._threshold = threshold
        self._cooldown_s = cooldown_s
        self._clock = clock
        self._routes: dict[str, _Route] = {}
        self._lock = threading.Lock()

    def has_refused(self, route: str, chunk: str) -> bool:
        """Was this chunk refused, and no summary of the route has passed since, or was it refused twice?"""
        with self._lock:
            state = self._routes.get(route)
            return state is not None and state.chunks.get(chunk, _AGAIN) != _AGAIN

    def allow(self, route: str) -> bool:
        """May this route be called now? A True must be followed by ``success``, ``failure`` or ``release``."""
        with self._lock:
            state = self._routes.get(route)
            if state is None or not state.retry_at:
                return True
            # A clock that was set back must not prolong the pause.
            state.retry_at = min(state.retry_at, self._clock() + self._pause(state.refusals))
            if state.probing or self._clock() < state.retry_at:
                return False
            state.probing = True
            return True

    def success(self, route: str) -> None:
        """The route answered, well or badly."""
        with self._lock:
            state = self._routes.get(route)
            if state is not None and state.refusals:
                state.failures = 0
            else:
                self._close(route)

    def passed(self, route: str) -> None:
        """An answer of the route was a summary."""
        with self._lock:
            chunks = self._close(route)
            chunks.update({chunk: _AGAIN for chunk, then in chunks.items() if then == _WAITS})

    def _close(self, route: str) -> dict[str, str]:
        """The route works: nothing is remembered but the chunks that it was refused for, which are given."""
        state = self._routes.pop(route, None)
        if state is None or not state.chunks:
            return {}
        self._routes[route] = _Route(chunks=state.chunks)
        return self._routes[route].chunks

    def refused(self, route: str, reason: str, chunk: str = "") -> None:
        """No answer of the route about a chunk was a summary. Its pause doubles with each chunk after the first ones."""
        with self._lock:
            state = self._routes.setdefault(route, _Route())
            state.refusals += 1
            if chunk:
                state.chunks[chunk] = _WAITS if state.chunks.get(chunk, _WAITS) == _WAITS else _NEVER
            while len(state.chunks) > _MOST_CHUNKS:
                state.chunks.pop(next(iter(state.chunks)))
            state.reason = reason[:200]
            state.probing = False
            if self._threshold and state.refusals >= self._threshold:
                state.retry_at = self._clock() + self._pause(state.refusals)

    def _pause(self, refusals: int) -> float:
        return self._cooldown_s * float(2 ** min(max(0, refusals - max(1, self._threshold)), _MOST_DOUBLINGS))

    def failure(self, route: str, reason: str) -> None:
        """The route raised or timed out. ``reason`` is shown in the status."""
        with self._lock:
            state = self._routes.setdefault(route, _Route())
            state.failures += 1
            state.reason = reason[:200]
            if self._threshold and (state.probing or state.failures >= self._threshold):
                state.retry_at = self._clock() + self._pause(state.refusals)
            state.probing = False

    def release(self, route: str) -> None:
        """The call was not made after all."""
        with self._lock:
            if state := self._routes.get(route):
                state.probing = False

    def retry_at(self, route: str) -> float | None:
        """Time at which the route is tried again; None while it is in use."""
        with self._lock:
            state = self._routes.get(route)
            return state.retry_at if state and state.retry_at else None

    def dump(self) -> dict[str, Any]:
        """The state as JSON-able values."""
        with self._lock:
            return {route: state.as_dict() for route, state in self._routes.items()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over a dumped state; what cannot be read is left out."""
        routes = {}
        for route, saved in state.items():
            if isinstance(saved, Mapping):
                routes[str(route)] = _Route(
                    int(_number(saved.get("failures"))),
                    _number(saved.get("retry_at")),
                    reason=str(saved.get("reason", "")),
                    refusals=int(_number(saved.get("refusals"))),
                    chunks=_chunks(saved.get("chunks")),
                )
        with self._lock:
            self._routes = routes


def _chunks(saved: object) -> dict[str, str]:
    """Refused chunks as they were dumped; in a list, by earlier versions: all of them wait."""
    if isinstance(saved, Mapping):
        return {str(chunk): str(then) for chunk, then in saved.items()}
    return dict.fromkeys(map(str, saved), _WAITS) if isinstance(saved, list) else {}


_BUCKETS: Final = 60
#: Writes the state that processes share, made from the one there is; False when that was not possible.
Shared = Callable[[Callable[[Mapping[str, Any]], dict[str, Any]]], bool]


class SpendGuard:
    """At most ``max_calls`` model calls for one chat within ``window_s``, ``in_all`` for all of them, ``max_tokens`` tokens.

    0 means no limit.

    Counts in sixtieths of the window, so the state stays small whatever the limit is. ``shared``: what several processes spend
    together is limited, and known after a kill.
    """

    def __init__(
        self, *, max_calls: int, window_s: float, clock: Callable[[], float], in_all: int = 0, max_tokens: int = 0,
        shared: Shared | None = None,
    ) -> None:  # fmt: skip
        self._max_calls = max_calls
        self._in_all = in_all
        self._max_tokens = max_tokens
        self._width = max(window_s, 0.001) / _BUCKETS
        self._clock = clock
        self._buckets: dict[int, list[int]] = {}  # number of the bucket: calls, tokens
        self._chats: dict[int, Counter[str]] = {}  # number of the bucket: calls by chat
        self._lock = threading.Lock()
        self._shared = shared
        self._sharing = threading.Lock()
        self._untold: dict[int, list[int]] = {}  # of the buckets, what the shared state lacks

    def reserve(self, tokens: int, chat: str = "") -> bool:
        """Book one call of about ``tokens`` for a chat; False, and nothing booked, when that would exceed a limit."""
        self._share()
        if not self._reserve(tokens, chat):
            return False
        self._share()
        if (
            self._max_tokens and self.used()[1] > self._max_tokens
        ):  # another process booked meanwhile, and was told first
            self.settle(reserved=tokens, spent=0)
            return False
        return True

    def _reserve(self, tokens: int, chat: str) -> bool:
        with self._lock:
            calls, spent = self._sum()
            of_chat = sum(bucket[chat] for bucket in self._chats.values())
            if (self._max_calls and of_chat >= self._max_calls) or (self._in_all and calls >= self._in_all):
                return False
            if self._max_tokens and spent + tokens > self._max_tokens:
                return False
            self._book(1, tokens)
            self._chats.setdefault(self._now(), Counter())[chat] += 1
            return True

    def settle(self, *, reserved: int, spent: int) -> None:
        """Replace the estimate of a reserved call by what it really took."""
        with self._lock:
            self._book(0, spent - reserved)
        self._share()

    def _share(self) -> None:
        """Tell other processes what this one has spent, and take over what they have."""
        if self._shared is None or not self._max_tokens:
            return
        with self._sharing:
            told: dict[int, list[int]] = {}

            def together(state: Mapping[str, Any]) -> dict[str, Any]:
                buckets, _ = self._read(state)
                with self._lock:
                    told.update({n: list(each) for n, each in self._untold.items()})
                    for n, each in told.items():
                        _add(buckets, n, *each)
                    self._buckets = buckets
                    self._sum()
                    return self._as_dict()

            if self._shared(together):
                with self._lock:
                    for n, (calls, tokens) in told.items():
                        _add(self._untold, n, -calls, -tokens)
                    self._untold = {n: each for n, each in self._untold.items() if any(each)}

    def used(self) -> tuple[int, int]:
        """Calls and tokens within the window."""
        with self._lock:
            return self._sum()

    def _now(self) -> int:
        return int(self._clock() / self._width)

    def _book(self, calls: int, tokens: int) -> None:
        _add(self._buckets, self._now(), calls, tokens)
        if self._shared is not None:
            _add(self._untold, self._now(), calls, tokens)

    def _sum(self) -> tuple[int, int]:
        now = self._now()
        # Buckets of the future: the clock was set back; keeping them would block for as long as it was wrong.
        self._buckets = {n: b for n, b in self._buckets.items() if now - _BUCKETS < n <= now}
        self._chats = {n: b for n, b in self._chats.items() if n in self._buckets}
        return sum(b[0] for b in self._buckets.values()), max(0, sum(b[1] for b in self._buckets.values()))

    def dump(self) -> dict[str, Any]:
        """The state as JSON-able values."""
        with self._lock:
            self._sum()
            return self._as_dict()

    def _as_dict(self) -> dict[str, Any]:
        return {
            "width": self._width,
            "buckets": {str(n): list(b) for n, b in self._buckets.items()},
            "chats": {str(n): dict(b) for n, b in self._chats.items()},
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over a dumped state; one with another window, or one that cannot be read, is left out."""
        buckets, chats = self._read(state)
        if buckets:
            with self._lock:
                self._buckets, self._chats = buckets, chats

    def _read(self, state: Mapping[str, Any]) -> tuple[dict[int, list[int]], dict[int, Counter[str]]]:
        saved, chats = state.get("buckets"), state.get("chats")
        buckets: dict[int, list[int]] = {}
        by_chat: dict[int, Counter[str]] = {}
        if not isinstance(saved, Mapping) or _number(state.get("width")) != self._width:
            return buckets, by_chat
        for number, pair in saved.items():
            if str(number).lstrip("-").isdigit() and isinstance(pair, list) and len(pair) == 2:
                buckets[int(number)] = [int(_number(pair[0])), int(_number(pair[1]))]
                each = chats.get(number) if isinstance(chats, Mapping) else None
                each = each if isinstance(each, Mapping) else {}
                by_chat[int(number)] = Counter({str(chat): int(_number(calls)) for chat, calls in each.items()})
        return buckets, by_chat


def _add(buckets: dict[int, list[int]], n: int, calls: int, tokens: int) -> None:
    bucket = buckets.setdefault(n, [0, 0])
    bucket[0] += calls
    bucket[1] += tokens


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0
