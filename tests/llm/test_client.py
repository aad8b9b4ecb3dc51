"""The seam to the host's auxiliary model: what is asked, what is text, and what an exception means."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hermes_lcm.compaction.compactor import Workers
from hermes_lcm.errors import SummaryTooLong, SummaryUnavailable
from hermes_lcm.llm.client import HostModel, classify, read_reply, split_route, without_reasoning

ASK = [{"role": "user", "content": "hello"}]


def response(content: Any = "fine", finish: str = "stop", **message: Any) -> SimpleNamespace:
    fields = {"content": content, "tool_calls": None, "reasoning": None, "refusal": None, **message}
    choice = SimpleNamespace(message=SimpleNamespace(**fields), finish_reason=finish)
    return SimpleNamespace(model="m1", choices=[choice])


class Host:
    """Stands in for ``agent.auxiliary_client``; ``calls`` holds the arguments of each call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[dict[str, Any]] = []
        self.answer: Any = response()
        self.module = ModuleType("agent.auxiliary_client")
        package = ModuleType("agent")
        package.auxiliary_client = self.module  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "agent", package)
        monkeypatch.setitem(sys.modules, "agent.auxiliary_client", self.module)
        self.install(lambda **kwargs: self.respond(kwargs))

    def install(self, function: Any) -> None:
        self.module.call_llm = function  # type: ignore[attr-defined]

    def respond(self, kwargs: dict[str, Any]) -> Any:
        self.calls.append(kwargs)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture
def host(monkeypatch):
    return Host(monkeypatch)


def ask(model: HostModel | None = None, route: str = "", **more: Any) -> Any:
    return (model or HostModel()).complete(ASK, max_tokens=500, timeout_s=7.5, route=route, **more)


# ------------------------------------------------------------------------------------------------------- request
def test_the_host_decides_which_model_writes_summaries(host):
    """No route: the host's own setting for the task, no model named, no sampling parameters."""
    ask()

    assert host.calls == [{"task": "compression", "messages": ASK, "max_tokens": 500, "timeout": 7.5}]


def configured(monkeypatch: pytest.MonkeyPatch, auxiliary: Any, reader: str = "load_config_readonly") -> None:
    """Stands in for the host's configuration."""
    module = ModuleType("hermes_cli.config")
    setattr(module, reader, lambda: {"auxiliary": auxiliary})
    package = ModuleType("hermes_cli")
    package.config = module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hermes_cli", package)
    monkeypatch.setitem(sys.modules, "hermes_cli.config", module)


@pytest.mark.parametrize(
    ("block", "task"),
    [
        ({"provider": "openrouter"}, "lcm_summary"),
        ({"provider": "auto", "model": "small-one"}, "lcm_summary"),
        ({"base_url": "http://localhost:8080/v1"}, "lcm_summary"),
        ({"provider": "auto", "model": "", "base_url": "", "timeout": 120}, "compression"),
        ({"provider": " Auto ", "model": None}, "compression"),
        ("nonsense", "compression"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("reader", ["load_config_readonly", "load_config"])
def test_a_model_chosen_for_our_summaries_is_asked(host, monkeypatch, block, task, reader):
    """In the host's menu; otherwise the one that the host compresses with."""
    configured(monkeypatch, {"compression": {"provider": "other"}, "lcm_summary": block}, reader)
    ask()
    ask(task="lcm_expansion")

    assert [call["task"] for call in host.calls] == [task, "lcm_expansion"]


def test_a_choice_is_noticed_while_the_process_runs(host, monkeypatch):
    """Not at every call: reading the configuration takes longer than preparing the request."""
    now = [100.0]
    model = HostModel(clock=lambda: now[0])
    configured(monkeypatch, {})
    ask(model)
    configured(monkeypatch, {"lcm_summary": {"model": "small-one"}})
    ask(model)
    now[0] += 11
    ask(model)

    assert [call["task"] for call in host.calls] == ["compression", "compression", "lcm_summary"]


@pytest.mark.parametrize("auxiliary", [None, {}, []], ids=repr)
def test_a_configuration_without_our_task_is_no_obstacle(host, monkeypatch, auxiliary):
    """Nor one that cannot be read."""
    configured(monkeypatch, auxiliary)
    ask()
    monkeypatch.setitem(sys.modules, "hermes_cli", None)
    ask()

    assert [call["task"] for call in host.calls] == ["compression"] * 2


def test_the_function_is_looked_up_at_call_time(host):
    """Who replaces the host's function later is heard."""
    model = HostModel()
    host.install(lambda **_: response("from the new one"))

    assert ask(model).text == "from the new one"


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ("gpt-5", ("", "gpt-5")),
        ("openrouter/google/gemini-3", ("openrouter", "google/gemini-3")),
        ("google/gemini-3", ("", "google/gemini-3")),
        ("", ("", "")),
        ("openrouter/", ("", "openrouter/")),
    ],
)
def test_a_route_names_a_provider_only_when_the_host_knows_it(route, expected):
    """``vendor/model`` is also how aggregators name their models."""
    assert split_route(route, lambda name: name == "openrouter") == expected


def test_the_providers_of_the_host_are_known():
    """By its tables, without asking the network."""
    pytest.importorskip("hermes_cli.providers")

    assert [split_route(f"{name}/m")[0] for name in ("openrouter", "anthropic", "custom:mine", "nobody")] == [
        "openrouter",
        "anthropic",
        "custom:mine",
        "",
    ]


def test_a_provider_without_credentials_may_be_part_of_a_name(host, monkeypatch):
    """What is a provider to the host may be a vendor to the aggregator that the user has."""
    monkeypatch.setattr(split_route, "__defaults__", (lambda _: True,))

    def only_models(**kwargs: Any) -> Any:
        host.calls.append(kwargs)
        if "provider" in kwargs:
            raise RuntimeError("Provider 'vendor' is set in config.yaml but no API key was found.")
        return response()

    host.install(only_models)
    ask(route="vendor/model")

    assert [(call.get("provider"), call["model"]) for call in host.calls] == [
        ("vendor", "model"),
        (None, "vendor/model"),
    ]


def test_an_effort_is_sent_only_when_it_is_configured(host):
    """Some providers refuse requests that name one."""
    ask()
    ask(HostModel(reasoning_effort="low"))

    assert [call.get("reasoning_config") for call in host.calls] == [None, {"enabled": True, "effort": "low"}]


def test_an_older_host_gets_the_effort_in_the_body(host):
    """Its function has no ``reasoning_config``."""
    seen: dict[str, Any] = {}

    def old(task: str, *, messages: Any, max_tokens: Any, timeout: Any, extra_body: Any = None) -> Any:
        seen.update(extra_body=extra_body, task=task, rest=(messages, max_tokens, timeout))
        return response()

    host.install(old)
    ask(HostModel(reasoning_effort="none"))

    assert seen["extra_body"] == {"reasoning": {"enabled": False}}


def test_a_parameter_that_the_host_lacks_is_left_out(host):
    """A newer argument must not break an older host."""

    def oldest(task: str, *, messages: Any, timeout: Any) -> Any:
        return response(f"{task} {len(messages)} {timeout}")

    host.install(oldest)

    assert ask(HostModel(reasoning_effort="high"), route="m").text == "compression 1 7.5"


# ------------------------------------------------------------------------------------------------------ response
@pytest.mark.parametrize(
    ("content", "text", "reasoned"),
    [
        ("<think>hm</think>The record.", "The record.", True),
        ("<THINKING a='b'>\nhm\n</THINKING>\n\n<reasoning>x</reasoning>The record.", "The record.", True),
        ("<think>\nOkay, the user", "", True),
        ("Okay, the user wants\n</think>\nThe record.", "The record.", True),
        (
            "The record mentions <think> tags and `</think>` too.",
            "The record mentions <think> tags and `</think>` too.",
            False,
        ),
        ("Plain.", "Plain.", False),
    ],
    ids=["closed", "two", "unclosed", "orphan", "mentioned", "plain"],
)
def test_reasoning_is_no_text(content, text, reasoned):
    """In front of the answer, in tags; never in the middle of it."""
    assert without_reasoning(content) == (text, reasoned)


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "reasoning_details"])
def test_an_answer_of_reasoning_alone_says_so(field):
    """By the protocol's own fields; their content is never used."""
    reply = read_reply(response(None, **{field: "let me think"}))

    assert (reply.text, reply.reasoning_only) == ("", True)


def test_typed_parts_are_joined_without_the_reasoning_among_them():
    """Content as a list of parts."""
    parts = [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "A "}, {"type": "text", "text": "record."}]

    assert read_reply(response(parts)).text == "A record."


def test_dicts_are_read_like_objects():
    """Some adapters return plain JSON."""
    raw = {"choices": [{"message": {"content": "x"}, "finish_reason": "length"}], "model": "m"}

    assert (read_reply(raw).text, read_reply(raw).finish_reason) == ("x", "length")


def test_tool_calls_are_reported():
    """So that verification sees them."""
    call = SimpleNamespace(id="c1", function=SimpleNamespace(name="terminal", arguments="{}"))

    assert read_reply(response(None, "tool_calls", tool_calls=[call])).tool_calls[0]["name"] == "terminal"


def test_a_refusal_in_its_own_field_is_an_end_of_its_own():
    """Not an empty answer."""
    assert read_reply(response(None, refusal="no")).finish_reason == "refusal"


@pytest.mark.parametrize("raw", [None, {}, {"choices": []}, "text", SimpleNamespace(choices=None)], ids=repr)
def test_a_response_without_a_message_is_a_failure(host, raw):
    """Not an empty summary."""
    host.answer = raw
    with pytest.raises(SummaryUnavailable):
        ask()


# ---------------------------------------------------------------------------------------------------- exceptions
class StatusError(Exception):
    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status_code = status


OVERFLOWS = [
    RuntimeError("Error code: 400 - {'error': {'message': \"This model's maximum context length is 8192 tokens.\"}}"),
    StatusError("prompt is too long: 210000 tokens > 200000 maximum", 400),
    StatusError("Payload", 413),
    RuntimeError("request (9000 tokens) exceeds the available context size (n_ctx 4096)"),
    RuntimeError("The input token count (1200000) exceeds the maximum number of tokens allowed"),
    RuntimeError("您的输入超过最大长度"),
]
OTHERS = [
    (TimeoutError("Request timed out."), "timed out"),
    (StatusError("Incorrect API key provided: sk-secret", 401), "credentials"),
    (StatusError("Rate limit: too many tokens per minute (TPM)", 429), "rate limit"),
    (RuntimeError("No LLM provider configured for task=compression"), "no provider"),
    (RuntimeError("Connection error: sk-secret"), "RuntimeError"),
    (StatusError("upstream", 503), "503"),
    (KeyError("x"), "KeyError"),
]


@pytest.mark.parametrize("raised", OVERFLOWS, ids=lambda exc: str(exc)[:30])
def test_a_prompt_that_does_not_fit_is_told_apart(host, raised):
    """Splitting helps there and nowhere else."""
    host.answer = raised
    with pytest.raises(SummaryTooLong):
        ask()


@pytest.mark.parametrize(("raised", "words"), OTHERS, ids=lambda value: str(value)[:30])
def test_every_other_failure_is_unavailability_with_a_safe_reason(host, raised, words):
    """The reason is stored and shown: it names the kind of failure, never the provider's text."""
    host.answer = raised
    with pytest.raises(SummaryUnavailable) as caught:
        ask()

    assert words in str(caught.value)
    assert "sk-secret" not in str(caught.value)
    assert caught.value.__cause__ is raised


def test_an_overflow_below_a_wrapper_is_found():
    """The host re-raises some errors as its own."""
    outer = RuntimeError("auxiliary call failed")
    outer.__cause__ = StatusError("context_length_exceeded", 400)

    assert isinstance(classify(outer, "m"), SummaryTooLong)


def test_without_the_host_there_is_no_model(monkeypatch):
    """Tools outside of the host still work."""
    monkeypatch.setitem(sys.modules, "agent", None)
    with pytest.raises(SummaryUnavailable, match="no auxiliary model"):
        ask()


def test_an_interrupt_is_not_a_failure_of_the_model(host):
    """Ctrl-C goes through."""
    host.answer = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        ask()


# ------------------------------------------------------------------------------------------------------- progress
def test_a_thread_that_works_for_a_compaction_reports_to_the_host(host):
    """Hosts near 0.22 wait as long as words stream in, and listen in the threads that have their hook only."""
    installed: list[Any] = []

    @contextmanager
    def aux_progress_hook(hook):
        installed.append(hook)
        yield

    def hook() -> None: ...

    host.module.aux_progress_hook = aux_progress_hook
    host.module._aux_progress = SimpleNamespace(hook=hook)
    Workers([ask], skip=lambda: False, quiet=()).run(1, lambda: 30.0)
    host.module._aux_progress.hook = None
    Workers([ask], skip=lambda: False, quiet=()).run(1, lambda: 30.0)

    assert installed == [hook]
    assert len(host.calls) == 2


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        ({"prompt_tokens": 900, "completion_tokens": 80}, (900, 80)),
        ({"input_tokens": 900, "output_tokens": 80}, (900, 80)),
        ({"prompt_tokens": 900}, (900, 0)),
        ({"prompt_tokens": 0, "completion_tokens": 80}, None),
        ({"prompt_tokens": "many", "completion_tokens": True}, None),
        (None, None),
    ],
)
def test_the_provider_s_count_is_read_if_there_is_one(told: dict[str, Any] | None, usage: tuple[int, int] | None):
    """By either pair of names."""
    raw = {"choices": [{"message": {"content": "x"}}], "usage": told}

    assert read_reply(raw).usage == usage
