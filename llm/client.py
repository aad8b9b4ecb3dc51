"""
The host's auxiliary model, and the only place that talks to it.

Owns how a request is put to ``agent.auxiliary_client.call_llm`` on every supported host, what of the response is
text, and what an exception means. Nobody above reads exception text: an overflow is SummaryTooLong, everything else
is SummaryUnavailable with a reason that is safe to store and to show.
"""

from __future__ import annotations

import inspect
import math
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import Context, ContextVar, copy_context
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

        def ask(**target: str) -> Reply:
            return _asked({**self._wanted(messages, max_tokens, timeout_s, tools), **target}, task)

        provider, model = split_route(route)
        if provider:
            try:
                return ask(provider=provider, model=model)
            except _NoCredentials:
                # ``anthropic/claude`` is a provider and a model to some, an aggregator's name of a model to others.
                pass
        return ask(model=route.strip()) if route.strip() else ask()

    def _summary_task(self) -> str:
        now = self._clock()
        if now >= self._look_again_at:
            self._task = OWN_SUMMARY_TASK if _chosen(OWN_SUMMARY_TASK) else SUMMARY_TASK
            self._look_again_at = now + _LOOK_AGAIN_S
        return self._task

    def _wanted(
        self,
        messages: Sequence[ChatMessage],
        max_tokens: int,
        timeout_s: float,
        tools: Sequence[Mapping[str, Any]] | None,
    ) -> dict[str, Any]:
        # No temperature, no top_p: several providers refuse a request that has them.
        wanted: dict[str, Any] = {
            "messages": [dict(message) for message in messages],
            "max_tokens": max_tokens,
            "timeout": timeout_s,
        }
        if tools:
            wanted["tools"] = [dict(tool) for tool in tools]
        if self._effort:
            wanted["reasoning_config"] = (
                {"enabled": False} if self._effort == "none" else {"enabled": True, "effort": self._effort}
            )
        return wanted


def _asked(wanted: dict[str, Any], task: str) -> Reply:
    """Reply of the host's function. Raises what ``classify`` makes of an exception."""
    try:
        from agent import auxiliary_client

        call = auxiliary_client.call_llm
        with _reporting(auxiliary_client):
            response = call(task=task, **_accepted(call, wanted))
        return read_reply(response)
    except (SummaryTooLong, SummaryUnavailable):
        raise
    except Exception as exc:  # providers raise anything; this is the only place that knows
        raise classify(exc, "/".join(wanted[name] for name in ("provider", "model") if name in wanted)) from exc


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
