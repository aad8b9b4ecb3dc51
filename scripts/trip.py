"""
Trips through the running engine: one stored message, one search, one compaction.

The engine is the real one, in a scratch Hermes home with the host's own session database; only the model that writes summaries is
scripted. A step is the calling thread's first entry into a file; what workers do behind it is no step.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = f"{ROOT}/.lcm-path/hermes_lcm/"
PAGE = ROOT / "docs" / "how-it-works.md"
WINDOW = 32_000
TURNS = 40
WORDS = "the parser reads each line of the file and keeps what it needs for the next step of the build"


class Trace:
    """Files of the plugin in the order of their first entry, with the function that was entered."""

    def __init__(self) -> None:
        self.steps: dict[str, CodeType] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """One call, as ``sys.setprofile`` tells it."""
        code = frame.f_code
        if (
            event == "call"
            and code.co_filename.startswith(PLUGIN)
            and code.co_name[0] != "<"
            and code.co_name != "harmless"
        ):
            self.steps.setdefault(code.co_filename.removeprefix(PLUGIN), code)

    def lines(self) -> list[str]:
        """A line for each step: file, function, purpose."""
        rows = [(name, code.co_qualname, _purpose(name, code)) for name, code in self.steps.items()]
        widths = [max(len(row[n]) for row in rows) for n in (0, 1)]
        return [f"{n:2} {a:{widths[0]}}  {b:{widths[1]}}  {c}" for n, (a, b, c) in enumerate(rows, 1)]


def _purpose(name: str, code: CodeType) -> str:
    """The first line of a function's docstring; of its class's or module's where it has none."""
    module = importlib.import_module("hermes_lcm." + name.removesuffix(".py").replace("/", "."))
    names = code.co_qualname.replace("<locals>.", "").split(".")
    while names:
        found: Any = module
        for part in names:
            found = getattr(found, part, None)
        text = found.__doc__ if names[-1] != "__init__" and found is not None else None
        if text and not text.startswith(names[-1] + "("):  # a dataclass without words of its own repeats its fields
            return inspect.cleandoc(text).splitlines()[0].removesuffix(".")
        names.pop()
    return (module.__doc__ or "").strip().splitlines()[0].removesuffix(".")


class Echo:
    """A model that answers with the beginning of what it was given, as a summary."""

    def complete(self, messages: Any, **_: Any) -> Any:
        """One answer."""
        from hermes_lcm.llm.client import Reply

        said = re.findall(r"[A-Za-z][^\n]{20,300}", str(messages[-1]["content"]))
        return Reply("\n".join(f"- {line}" for line in said[-12:]))


def talk(turns: int) -> list[dict[str, Any]]:
    """A conversation with tool results."""
    live: list[dict[str, Any]] = []
    for n in range(turns):
        live.append({"role": "user", "content": f"Please look at part {n}. {WORDS}"})
        call = {"id": f"c{n}", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}
        live.append({"role": "assistant", "content": "", "tool_calls": [call]})
        live.append(
            {"role": "tool", "tool_call_id": f"c{n}", "content": f"part {n}: port {8000 + n}\n" + f"{WORDS}\n" * 30}
        )
        live.append({"role": "assistant", "content": f"Part {n} listens on port {8000 + n}. {WORDS}"})
    return live


class Agent:
    """The engine of one conversation, in a home of its own."""

    def __init__(self, home: Path) -> None:
        os.environ["HERMES_HOME"] = str(home)
        sys.path.insert(0, str(ROOT / ".lcm-path"))
        from hermes_state import SessionDB

        from hermes_lcm.engine import LCMEngine
        from hermes_lcm.plugin import hooks

        self.hooks = hooks
        self.engine = LCMEngine()
        self.engine.update_model("scripted", WINDOW)
        self.sessions = SessionDB(db_path=home / "state.db")  # the host's: it tells whose session this is
        self.sessions.create_session("s", source="cli")
        self.engine.bind_session_state(session_db=self.sessions, session_id="s")
        self.engine.on_session_start("s", hermes_home=str(home), platform="cli")
        self.engine.runtime.ladder._model = Echo()  # noqa: SLF001 - the one place where a model is put in
        self.live = talk(TURNS)
        self.shows(self.live)

    def shows(self, live: list[dict[str, Any]]) -> None:
        """The host is about to send this list."""
        self.hooks.pre_api_request(session_id="s", conversation_history=live, platform="cli", model="scripted")

    def message(self) -> None:
        """One new message on its way to the provider."""
        self.shows([*self.live, {"role": "user", "content": "Which port does part 7 use?"}])

    def search(self) -> None:
        """One search of the agent."""
        said = self.engine.handle_tool_call("lcm_grep", {"query": "part listens port"}, messages=self.live)
        assert "msg_" in said, said

    def compaction(self) -> None:
        """One compaction with two summaries bought."""
        before = json.dumps(self.live)
        after = self.engine.compress([dict(message) for message in self.live], 30_000)
        assert len(json.dumps(after)) < len(before), self.engine.last_compression


def trip(kind: str) -> list[str]:
    """The lines of one trip, made in a scratch home."""
    with tempfile.TemporaryDirectory() as home:
        agent = Agent(Path(home))
        if kind != "message":  # what is done once in a process is no part of the trip
            agent.message()
            agent.search()
        else:
            agent.live += [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "Done."}]
            agent.shows(agent.live)
        trace = Trace()
        action: Callable[[], None] = getattr(agent, kind)
        sys.setprofile(trace)
        try:
            action()
        finally:
            sys.setprofile(None)
        agent.engine.runtime.preparer.stop()
        agent.engine.runtime.db.close()
        agent.sessions.close()
        return trace.lines()


KINDS = ("message", "search", "compaction")


def main(words: list[str]) -> int:
    """Print one trip, or write all of them into the page."""
    if words == ["--write"]:
        import subprocess

        text = PAGE.read_text(encoding="utf-8")
        for kind in KINDS:
            lines = subprocess.run(
                [sys.executable, "-P", __file__, kind], capture_output=True, text=True, check=True
            ).stdout
            text = re.sub(rf"(<!-- trip {kind} -->\n```\n).*?(```)", rf"\g<1>{lines}\g<2>", text, flags=re.DOTALL)
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if len(words) != 1 or words[0] not in KINDS:
        print(f"usage: scripts/trip {'|'.join(KINDS)}", file=sys.stderr)
        return 2
    print("\n".join(trip(words[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
