#!/usr/bin/env python3
"""
Conformance of a context engine with its host, and what it costs and keeps: any engine, one report.

    scripts/conformance DIR|builtin [--quick] [--json FILE] [--markdown FILE] [--data FOLDER] [--window N] [--threshold SHARE]

DIR is the folder of a plugin with ``register(ctx)``. It is loaded as the host loads it, cloned, and driven in the host's order
with an instant model. Contract: one line a rule, held or broken. Coverage and identity: of messages spread over the
conversation those that stand in the last request, that a search by their rarest words finds, and that come back whole. Exam
and bill: the probes of ``benchmarks/exam.py`` and the meter of ``benchmarks/bill.py``. An engine without a search loses what
its prompt does not say.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import bill
import kit
import material
from driving import Agent
from kit import Chat, InstantModel, Report, home
from run import markdown

SESSION = "20260101_000000_conformance"
_SAMPLE, _ASKED_WORDS, _OPENED = 40, 5, 8
_LOOK_CHARS = 8_000  # of an answer: 2,000 tokens
GRADES = ("prompt", "look", "lost")
_ADDRESS = re.compile(r'msg_(\d+)|"(?:store_id|message_id|id)": ?"?(\d+)')
_WORD = re.compile(r"\w{5,}")


class Registry:
    """The host's side of ``register(ctx)``: keeps engine and hooks, takes everything else and does nothing with it."""

    def __init__(self) -> None:
        self.engine: Any = None
        self.hooks: dict[str, list[Callable[..., Any]]] = {}

    def register_context_engine(self, engine: Any) -> None:
        self.engine = engine

    def register_hook(self, name: str, callback: Callable[..., Any]) -> None:
        self.hooks.setdefault(name, []).append(callback)

    def __getattr__(self, name: str) -> Callable[..., None]:
        from hermes_cli.plugins import PluginContext

        if not hasattr(PluginContext, name):
            raise AttributeError(name)
        return lambda *_args, **_facts: None


class Seat:
    """One clone of an engine, bound to a session and driven turn by turn; what it raises is noted, and ends nothing."""

    def __init__(self, registry: Registry, window: int) -> None:
        self.hooks = registry.hooks
        self.engine = copy.deepcopy(registry.engine)
        self.window = window
        self.messages: list[Chat] = []
        self.broken: Counter[str] = Counter()
        self.raised = ""
        self.compactions = 0
        self.engine.update_model(
            model="m", context_length=window, base_url="", api_key="", provider="custom", api_mode=""
        )
        if callable(bind := getattr(self.engine, "bind_session_state", None)):
            self._call(bind, session_db=sessions(), session_id=SESSION)
        self._begins(hermes_home=os.environ["HERMES_HOME"], model="m", context_length=window)

    def _begins(self, **facts: Any) -> None:
        self._call(self.engine.on_session_start, SESSION, platform="cli", conversation_id=None, **facts)

    def _call(self, what: Callable[..., Any], *args: Any, **facts: Any) -> Any:
        """What a call returns; None, and a rule that is broken, where it raises."""
        try:
            return what(*args, **facts)
        except Exception as exc:  # noqa: BLE001  # whatever an engine of others does is the finding
            self.raised = self.raised or f"{type(exc).__name__}: {str(exc)[:80]}"
            self.broken[RAISES_NOTHING] += 1
            return None

    def hook(self, name: str, **facts: Any) -> None:
        said = {"session_id": SESSION, "conversation_history": self.messages, "platform": "cli", "model": "m", **facts}
        for callback in self.hooks.get(name, ()):
            self._call(callback, **said)

    def turn(self, turn: Sequence[Chat], meter: Callable[[list[Chat]], None]) -> None:
        self.messages.append(dict(turn[0]))
        self.hook("pre_llm_call")
        for message in turn[1:]:
            if message["role"] == "assistant":
                self._request(meter)
            self.messages.append(dict(message))
        self.hook("post_llm_call")

    def _request(self, meter: Callable[[list[Chat]], None]) -> None:
        size = rough(self.messages)
        if self._call(self.engine.should_compress, size):
            self._compress(size)
            size = rough(self.messages)
        self.broken[FITS] += size > self.window
        self.hook("pre_api_request", approx_input_tokens=size)
        meter(self.messages)
        self._call(self.engine.update_from_response, {"prompt_tokens": size, "completion_tokens": 1})

    def _compress(self, size: int) -> None:
        given = [{**message, WRITTEN: True} for message in self.messages]
        before = copy.deepcopy(given)
        earlier = self.broken[RAISES_NOTHING]
        out = self._call(self.engine.compress, given, current_tokens=size)
        if self.broken[RAISES_NOTHING] > earlier:
            return
        self.broken[LEAVES_ITS_LIST] += given != before
        if out == before or getattr(self.engine, "_last_compress_aborted", False):
            return
        self.broken.update(found := list(flaws(before, out)))
        if ARE_MESSAGES in found:
            return
        self.compactions += 1
        self.messages = [{name: value for name, value in message.items() if name != WRITTEN} for message in out]
        self._call(self.engine.on_session_end, SESSION, before)
        self._begins(boundary_reason="compression", old_session_id=SESSION)
        self._call(self._marked)

    def _marked(self) -> None:
        """Fields that the host sets on an engine after a compaction."""
        self.engine.last_compression_rough_tokens = rough(self.messages)
        self.engine.last_prompt_tokens, self.engine.last_completion_tokens = -1, 0
        self.engine.awaiting_real_usage_after_compression = True

    def ask(self, **words: Any) -> str:
        """What the engine's search answers: its first tool with a ``query``; "" without one."""
        return self._called("query", words["query"])

    def opened(self, number: int) -> str:
        """A message by its number, by the first tool that takes one."""
        return next((said for name in ("store_id", "message_id") if (said := self._called(name, number))), "")

    def _called(self, parameter: str, value: Any) -> str:
        for schema in self._call(self.engine.get_tool_schemas) or ():
            if parameter in schema.get("parameters", {}).get("properties", {}):
                asked = self.engine.handle_tool_call
                return str(self._call(asked, schema["name"], {parameter: value}, messages=self.messages) or "")
        return ""


def sessions() -> Any:
    """The host's database of sessions, with a row for the one that is driven."""
    from hermes_state import SessionDB

    found = SessionDB(Path(os.environ["HERMES_HOME"]) / "state.db")
    if found.get_session(SESSION) is None:
        found.create_session(SESSION, "cli")
    return found


def rough(messages: Sequence[Chat]) -> int:
    from hermes_lcm.host import facts

    return facts.rough(messages)


#: The host's mark of a message that its database has; it writes none that bears it.
WRITTEN = "_db_persisted"
RAISES_NOTHING = "no call of the host raises an error"
LEAVES_ITS_LIST = "compress leaves the list it was given as it was"
ARE_MESSAGES = "a compaction returns messages, at least one"
ALTERNATES = "user and assistant speak in turns"
UNWRITTEN = "no message of it bears the host's mark of those that are written"
BEHIND_CALLS = "every tool result stands behind its call"
ANSWERED = "every call has its result"
SMALLER = "a compaction makes the list smaller"
KEEPS_REQUEST = "the user's latest request stays whole"
FITS = "every request fits into the window"
CHANGES = (
    RAISES_NOTHING, LEAVES_ITS_LIST, ARE_MESSAGES, ALTERNATES, UNWRITTEN, BEHIND_CALLS, ANSWERED, SMALLER, KEEPS_REQUEST,
    FITS,
)  # fmt: skip


def flaws(before: Sequence[Chat], after: Any) -> Iterator[str]:
    """Rules of the host that a compacted list breaks."""
    if not isinstance(after, list) or not after or not all(isinstance(m, dict) and m.get("role") for m in after):
        yield ARE_MESSAGES
        return
    asked = next((kit.text_of(m) for m in reversed(before) if m["role"] == "user"), "")
    broken = {
        ALTERNATES: neighbours(after) > neighbours(before),
        UNWRITTEN: any(WRITTEN in message for message in after),
        SMALLER: rough(after) >= rough(before),
        KEEPS_REQUEST: not any(asked in kit.text_of(m) for m in after),
    }
    yield from (rule for rule, is_broken in broken.items() if is_broken)
    yield from unpaired(after)


def neighbours(messages: Sequence[Chat]) -> int:
    """Number of messages of a user or an assistant that stand behind one of the same role, and of messages of the system."""
    roles = [message["role"] for message in messages]
    return roles.count("system") + sum(one == other != "tool" for one, other in pairwise(roles))


def unpaired(after: Sequence[Chat]) -> Iterator[str]:
    called: set[str] = set()
    answered: set[str] = set()
    for message in after:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in called:
                yield BEHIND_CALLS
            answered.add(str(message.get("tool_call_id")))
        called.update(str(call["id"]) for call in message.get("tool_calls") or [])
    if called - answered - {str(call["id"]) for call in after[-1].get("tool_calls") or []}:
        yield ANSWERED


def loaded(where: str, window: int, threshold: float, model: InstantModel | None = None) -> Registry:
    """The plugin as it registers itself, or the host's own compressor; ``model``: writes what that asks of one."""
    registry = Registry()
    if where == "builtin":
        from agent import context_compressor

        context_compressor.call_llm = model or InstantModel().install()
        registry.engine = context_compressor.ContextCompressor(
            model="m", threshold_percent=threshold, quiet_mode=True, config_context_length=window
        )
        return registry
    folder = Path(where).resolve()
    name = "conformance_of_" + re.sub(r"\W", "_", folder.name)
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None or not (folder / "__init__.py").exists():
        raise SystemExit(f"{folder} is no plugin: it has no __init__.py")
    for old in [module for module in sys.modules if module == name or module.startswith(f"{name}.")]:
        del sys.modules[old]  # what an earlier conversation left in them is not this one's
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    module.register(registry)
    if registry.engine is None:
        raise SystemExit(f"{folder} registers no context engine")
    return registry


def contract(registry: Registry, window: int) -> Iterator[tuple[str, Callable[[], bool]]]:
    """Rules that can be asked of an engine before any conversation."""
    from agent.context_engine import ContextEngine

    def engine() -> Any:
        return Seat(registry, window).engine

    def fed() -> bool:
        one = engine()
        one.update_from_response({"prompt_tokens": 1234, "completion_tokens": 5, "total_tokens": 1239})
        return bool(one.last_prompt_tokens == 1234)

    def schemas() -> bool:
        found = engine().get_tool_schemas()
        return all({"name", "description", "parameters"} <= set(each) for each in found) and json.dumps(
            found
        ) == json.dumps(engine().get_tool_schemas())

    def ends() -> bool:
        one = engine()
        one.on_session_end(SESSION, [])
        one.on_session_reset()
        return True

    yield "it is a ContextEngine with a name", lambda: isinstance(engine(), ContextEngine) and bool(engine().name)
    yield "the host's clone of it is another object", lambda: engine() is not registry.engine
    yield "it knows the window it is told", lambda: engine().context_length == window
    yield "its threshold lies within the window", lambda: 0 < engine().threshold_tokens <= window
    yield "an empty prompt is not compacted", lambda: not engine().should_compress(0)
    yield "a prompt as large as the window is compacted", lambda: bool(engine().should_compress(window))
    yield "it takes the provider's count", fed
    yield "tool schemas are complete, and the same bytes each time", schemas
    yield (
        "a tool that it does not have is answered in words",
        lambda: isinstance(engine().handle_tool_call("none", {}), str),
    )
    yield "an empty list is no error", lambda: list(engine().compress([])) == []
    yield "its status is JSON", lambda: bool(json.dumps(engine().get_status()))
    yield "a session ends and another begins", ends


def held(rule: Callable[[], bool]) -> str:
    try:
        return "held" if rule() else "broken"
    except Exception as exc:  # noqa: BLE001  # whatever an engine of others does is the finding
        return f"broken: {type(exc).__name__}: {str(exc)[:80]}"


def verdict(times: int, example: str) -> str:
    return f"broken {times} times{': ' * bool(example)}{example}" if times else "held"


def probes_of(turns: Sequence[Sequence[Chat]]) -> list[Any]:
    """The exam's probes, from an archive of the whole conversation."""
    from hermes_lcm.exam.probes import probes

    with home(background_compaction=False):
        agent = Agent(SESSION, 1_000_000_000)
        for turn in turns:
            agent.turn(turn)
        made = probes([row for rows in agent.runtime.store.row_batches() for row in rows])
        agent.close()
    return made


def grades(seat: Seat, made: Sequence[Any], *, asked: bool = True) -> dict[str, dict[str, int]]:
    """Numbers of probes by kind and grade: in the prompt, one look away, lost; "all" has those of every kind.

    Unless ``asked``, what is not in the prompt has no grade: a search may take seconds.
    """
    from hermes_lcm.exam.grading import Page

    page = Page("\n\n".join(spoken(message) for message in seat.messages))
    counts = {"all": dict.fromkeys(("n", *GRADES), 0)}
    for probe in made:
        grade = "prompt" if page.says(probe) else ""
        if not grade and asked:
            answer = plain(seat.ask(query=probe.question)).replace(probe.question, "")[:_LOOK_CHARS]
            grade = "look" if Page(answer).says(probe) else "lost"
        for each in (counts["all"], counts.setdefault(probe.kind, dict.fromkeys(("n", *GRADES), 0))):
            each["n"] += 1
            if grade:
                each[grade] += 1
    return counts


def exam(seat: Seat, made: Sequence[Any]) -> list[Any]:
    """Probes, and the shares in the prompt, one look away, and lost."""
    every = grades(seat, made)["all"]
    return [every["n"], *(round(every[grade] / max(1, every["n"]), 3) for grade in GRADES)]


def spoken(message: Chat) -> str:
    asked = (call["function"] for call in message.get("tool_calls") or [])
    calls = (f"{each['name']} {plain(each['arguments'])}" for each in asked)
    return "\n".join([kit.text_of(message), *calls])


def plain(answer: str) -> str:
    """An answer as text, whether it came as JSON or not."""
    try:
        parsed = json.loads(answer)
    except ValueError:
        return answer
    return json.dumps(parsed, ensure_ascii=False).replace("\\n", "\n").replace('\\"', '"')


def coverage(seat: Seat, turns: Sequence[Sequence[Chat]]) -> list[Any]:
    """Messages asked for, and the shares of them that stand in the request, are found by their rarest words, come back whole."""
    every = [m for turn in turns for m in turn if not m.get("tool_calls")]
    said = list(dict.fromkeys(text for m in every if len(text := str(m.get("content") or "")) >= 60))
    seen = Counter(word for text in said for word in set(_WORD.findall(text)))
    asked = said[:: max(1, len(said) // _SAMPLE)][:_SAMPLE]
    shown = "\n".join(kit.text_of(message) for message in seat.messages)
    raw = found = whole = 0
    for text in asked:
        rare = sorted(set(_WORD.findall(text)), key=lambda word: (seen[word], word))[:_ASKED_WORDS]
        answer = seat.ask(query=" ".join(rare))
        numbers = list(dict.fromkeys(int(a or b) for a, b in _ADDRESS.findall(answer)))[:_OPENED]
        in_prompt = text in shown
        raw += in_prompt
        found += in_prompt or sum(word in plain(answer) for word in rare) > len(rare) // 2
        whole += in_prompt or any(text[:2_000] in plain(seat.opened(number)) for number in numbers)
    return [len(asked), *(round(count / max(1, len(asked)), 3) for count in (raw, found, whole))]


def conversations(quick: bool) -> dict[str, list[list[Chat]]]:
    out = {name: turns for name, (_, turns) in bill.sets(quick=True).items()}
    if not out:
        made, what = material.turns(120 if quick else 400)
        return {what: made}
    return {name: turns[:60] for name, turns in out.items()} if quick else out


def measured(args: argparse.Namespace) -> tuple[list[list[str]], dict[str, list[list[Any]]]]:
    """Rules with how they were kept, and the rows of the other tables; none of them for an engine that cannot be cloned."""
    material_ = conversations(args.quick)
    probes = {name: probes_of(turns) for name, turns in material_.items()}
    broken, raised = Counter[str](), ""
    rows: dict[str, list[list[Any]]] = {"coverage": [], "exam": [], "bill": []}
    where = args.where or Path(tempfile.gettempdir())
    settings = {"context_threshold": args.threshold, "foreground_budget_ms": 600_000, "summary_spend_max_calls": 0}
    with home(where, **settings):
        InstantModel().install()
        registry = loaded(args.engine, args.window, args.threshold)
        asked = [[rule, held(check)] for rule, check in contract(registry, args.window)]
    for name, turns in material_.items():
        with home(where, **settings):
            model, meter = InstantModel().install(), bill.Meter()
            registry = loaded(args.engine, args.window, args.threshold, model)
            try:
                seat = Seat(registry, args.window)
            except Exception:  # noqa: BLE001  # the contract says why; the host would go on with its own compressor
                return asked, rows
            for turn in turns:
                seat.turn(turn, meter)
            rows["coverage"].append([name, *coverage(seat, turns)])
            rows["exam"].append([name, *exam(seat, probes[name])])
            rows["bill"].append([name, seat.compactions, *bill.dollars(turns, meter, model)])
            broken.update(seat.broken)
            raised = raised or seat.raised
    asked += [[rule, verdict(broken[rule], raised if rule == RAISES_NOTHING else "")] for rule in CHANGES]
    return asked, rows


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("engine", help="folder of a plugin, or `builtin`: the host's own compressor")
    parser.add_argument("--markdown", type=Path, help="also write the report as Markdown")
    parser.add_argument("--data", type=Path, help="folder of transcripts (default: LCM_DATA, else made ones)")
    parser.add_argument("--window", type=int, default=64_000)
    parser.add_argument("--threshold", type=float, default=0.5)
    args = parser.parse_args()
    if args.data is not None:
        os.environ["LCM_DATA"] = str(args.data.resolve())
    report = Report(
        "conformance",
        f"the engine {Path(args.engine).resolve().name if args.engine != 'builtin' else 'of the host'}",
        args.quick,
    )
    asked, rows = measured(args)
    report.table("Contract", ("rule", "it is"), asked)
    report.table("Coverage and identity", ("", "messages", "in the request", "found", "whole"), rows["coverage"])
    report.table("Exam, at the end", ("", "probes", "in the prompt", "one look away", "lost"), rows["exam"])
    report.table(
        "Bill", ("", "compactions", "uncached_k", "cached_k", "summaries", "summary_in_k", "dollars"), rows["bill"]
    )
    report.budget("rules of the host that are broken", sum(row[1] != "held" for row in asked), 0)
    if args.markdown:
        args.markdown.write_text(
            "\n".join(["# Conformance", "", f"{report.about}.", *markdown(report.data()), ""]), encoding="utf-8"
        )
    report.finish(args.json)
    return int(any(row[1] != "held" for row in asked))


if __name__ == "__main__":
    sys.exit(main())
