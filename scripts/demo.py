"""
The demonstration behind ``scripts/demo``.

A real agent of the real host reads, searches and runs commands in this repository until its 64k window has been compacted
three times; then it is asked for a line that it read long ago, and gets it with ``lcm_grep`` and ``lcm_expand``. Only the
model is scripted: it sits on loopback and decides what to look at, not what comes out.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the scripted model and the process driver are shared with the tests

from host.drive import WINDOW, Home, HostError, Process, compare, stored_rows  # noqa: E402
from host.model_server import ModelServer, Reply, Request, text_of  # noqa: E402

TARGET = "docs/design.md"
COMPACTIONS = 3
DISTANCE = 100  # messages between the line and the question for it
SAMPLE_LINES = 4
MOST_TURNS = 60
ROUNDS = 5  # of tools in a turn
PAGE = 160  # lines


class DemoFailedError(RuntimeError):
    """Something did not hold. The message is what the user gets to see."""


def check(holds: object, otherwise: str) -> None:
    """Stop with a reason when something does not hold."""
    if not holds:
        raise DemoFailedError(otherwise)


# ---- the script of the model


def tracked_files() -> list[str]:
    """Text files of the repository, the target first, then by path; without tests and benchmarks, which hold made-up secrets."""
    kinds = {".py", ".md", ".toml", ".yaml", ".sh"}
    hidden = {".git", ".venv", ".venvs", ".lcm-path", "__pycache__", "build", "dist", "tests", "benchmarks"}
    found = [path.relative_to(ROOT) for path in sorted(ROOT.rglob("*")) if path.suffix in kinds and path.is_file()]
    names = [str(path) for path in found if not hidden & set(path.parts) and path.parts[0][0] != "."]
    return [TARGET, *(name for name in names if name != TARGET)]


def pages(name: str) -> Iterator[dict[str, Any]]:
    """Arguments of ``read_file``, one page of a file each."""
    total = len((ROOT / name).read_text(errors="replace").splitlines())
    for offset in range(1, max(2, total + 1), PAGE):
        yield {"path": str(ROOT / name), "offset": offset, "limit": PAGE}


def reading() -> Iterator[Reply]:
    """What the agent does all day: read, search, run commands. Never the same page twice."""
    for name in tracked_files():
        stem = Path(name).stem
        for page in pages(name):
            yield Reply(f"I read {name} from line {page['offset']}.", [("read_file", page)])
        yield Reply(
            f"Which page mentions {stem}, and how large is it?",
            [
                ("search_files", {"pattern": rf"\b{stem}\b", "path": str(ROOT), "file_glob": "*.md", "limit": 15}),
                (
                    "terminal",
                    {
                        "command": f"wc {name}; git log --oneline -3 -- {name}; grep -n '^def\\|^class' {name} | head -20"
                    },
                ),
            ],
        )


@dataclass
class Script:
    """Answers the agent's requests. With ``wanted`` set to a line, it looks for that line among what it read."""

    steps: Iterator[Reply] = field(default_factory=reading)
    wanted: str = ""
    found: str | None = None
    evidence: str = ""  # the tool result that the line was found in, put together from pages
    source: str = ""  # its address
    exhausted: bool = False
    _left: int = 0
    _hits: list[int] = field(default_factory=list)

    def __call__(self, request: Request) -> Reply:
        asked = request.last.get("role") == "user"
        if self.wanted:
            return self.search() if asked else self.recover(json.loads(text_of(request.last)))
        if asked:
            self._left = ROUNDS
        self._left -= 1
        step = next(self.steps, None) if self._left >= 0 else None
        self.exhausted |= step is None and self._left >= 0
        return step or Reply("That is what I found; shall I go on?")

    def search(self) -> Reply:
        """Search for what is remembered of the line."""
        return Reply("I look it up.", [("lcm_grep", {"query": memory_of(self.wanted), "limit": 10, "format": "json"})])

    def recover(self, answer: dict[str, Any]) -> Reply:
        """Expand what was hit, page by page and hit by hit, until the line is there."""
        if "results" in answer:
            self._hits = [hit["store_id"] for hit in answer["results"] if hit.get("role") == "tool"]
        else:
            self.evidence += answer.get("content") or ""
            if answer.get("content_truncated"):
                more = {"store_id": self._hits[0], "content_offset": answer["next_content_offset"], "format": "json"}
                return Reply("It goes on.", [("lcm_expand", more)])
            self.found = next((line for line in lines_of(self.evidence) if line.startswith(self.wanted[:40])), None)
            self.source = f"msg_{self._hits.pop(0)}"
        if self.found is not None:
            return Reply(f"The line reads:\n\n{self.found}")
        if not self._hits:
            return Reply("I cannot find it.")
        self.evidence = ""
        return Reply("It may be in here.", [("lcm_expand", {"store_id": self._hits[0], "format": "json"})])


def memory_of(line: str) -> str:
    """A few long words of a line that are rare elsewhere: what one remembers of it."""
    seen = seen_elsewhere()
    return " ".join(sorted(long_words(line), key=lambda word: (seen[word], -len(word), word))[:4])


def long_words(line: str) -> set[str]:
    words = {word.strip(".,:;`*()|") for word in line.split()}
    return {word for word in words if word.isalpha() and len(word) > 5}


@cache
def elsewhere() -> str:
    """All that the agent may read besides the target."""
    return "\n".join((ROOT / name).read_text(errors="replace") for name in tracked_files() if name != TARGET)


@cache
def seen_elsewhere() -> Counter[str]:
    return Counter(re.findall(r"[^\W\d_]+", elsewhere()))


def lines_of(result: str) -> list[str]:
    """The lines in a result of ``read_file``, without their numbers."""
    try:
        content = json.loads(result)["content"]
    except (ValueError, KeyError, TypeError):
        return []
    return [line.split("|", 1)[-1] for line in str(content).split("\n")]


def telling_line() -> str:
    """The line that will be asked for: of the target's first page, in no other file, with the most long words that are rare."""
    lines = [
        line for line in (ROOT / TARGET).read_text().split("\n")[:PAGE] if line.strip() and line not in elsewhere()
    ]
    check(lines, f"every line of {TARGET} stands in another file as well")
    seen = seen_elsewhere()
    return max(lines, key=lambda line: sum(1 / (1 + seen[word]) for word in long_words(line)))


# ---- what one gets to see


class Screen:
    """Progress and tables: with rich on a terminal, plain lines otherwise."""

    def __init__(self) -> None:
        self.rich: Any = None
        if sys.stdout.isatty():
            from rich.console import Console

            self.rich = Console()

    def say(self, text: str, style: str = "", *, soft_wrap: bool = False) -> None:
        """Print a text; ``soft_wrap``: lines stay whole, so that a command in them can be pasted."""
        if self.rich:
            self.rich.print(text, style=style, markup=False, highlight=False, soft_wrap=soft_wrap)
        else:
            print(text, flush=True)

    def heading(self, text: str) -> None:
        if self.rich:
            self.rich.rule(text, align="left", style="cyan")
        else:
            print(f"\n== {text}", flush=True)

    def turn(self, number: int, stored: int, tokens: int) -> None:
        width = 24
        used = min(width, round(width * tokens / WINDOW))
        bar = "█" * used + "░" * (width - used) if self.rich else "#" * used + "." * (width - used)
        self.say(f"turn {number:2}  {stored:4} messages  prompt {tokens:6,} of {WINDOW:,}  {bar}")

    def table(self, rows: Sequence[tuple[str, str]]) -> None:
        if self.rich:
            from rich.table import Table

            table = Table(show_header=False, box=None, padding=(0, 2))
            for name, value in rows:
                table.add_row(name, value, style=None)
            self.rich.print(table, highlight=False)
            return
        wide = max(len(name) for name, _value in rows)
        for name, value in rows:
            print(f"{name:<{wide}}  {value}", flush=True)


# ---- the demonstration


class Demo:
    """One run, from an empty home to the verdict."""

    def __init__(self, home: Home, model: ModelServer, script: Script, screen: Screen) -> None:
        self.home, self.model, self.script, self.screen = home, model, script, screen
        self.compactions: list[tuple[int, int, float]] = []
        self.session = ""
        self.started = time.monotonic()

    def event(self, event: dict[str, Any]) -> None:
        """Progress as the agent's process reports it."""
        if event["event"] == "compaction":
            self._pending = event
        elif event["event"] != "status":
            before, after = self._pending["before"], event["tokens"]
            self.compactions.append((before, after, self._pending["seconds"]))
            live = "{} messages became {}".format(*self._pending["messages"])
            text = f"  compaction {len(self.compactions)}: {live}; prompt {before:,} -> {after:,} tokens"
            self.screen.say(text, "bold yellow")

    def run(self) -> None:
        """Everything, in order. Raises with the reason when something does not hold."""
        self.screen.heading(f"A real agent works in {ROOT.name}, window {WINDOW:,} tokens")
        with self.home.process(cwd=ROOT, on_event=self.event) as host:
            opened = host.open()
            self.session = opened["session_id"]
            self.work(host)
            # The scripted provider counts what the host estimates: there is no reason to compact early.
            early = [
                before for before, _after, _seconds in self.compactions if before < 0.9 * opened["threshold_tokens"]
            ]
            check(
                not early,
                f"it compacted at {early} prompt tokens, below the threshold of {opened['threshold_tokens']:,}",
            )
            rows = stored_rows(host, self.session)
            self.compare(rows)
            spent = host.spent()
            self.figures(host, spent)
            self.sample()
            self.recover(host)
            rows = stored_rows(host, self.session)
            self.compare(rows)
            host.close()
        self.restart(rows)

    def turn(self, host: Process, text: str) -> str:
        """One turn of the conversation; what the agent answered."""
        done = host.turn(text=self.model.says(text))
        check(not done["failed"] and done["completed"], f"a turn failed: {done['failed']}\n{host.log()}")
        check(done["session_id"] == self.session, "the session changed under the conversation")
        return str(done["final"])

    def work(self, host: Process) -> None:
        """Turns until there were enough compactions and enough messages."""
        for number in range(1, MOST_TURNS + 1):
            self.turn(host, f"Go on exploring, part {number}. Tell me what you find.")
            page = host.tool(name="lcm_load_session", args={"session_id": self.session, "limit": 1})
            self.screen.turn(number, page["total_messages"], self.model.of_kind("chat")[-1].tokens)
            if len(self.compactions) >= COMPACTIONS and page["total_messages"] > DISTANCE + 10:
                return
            check(not self.script.exhausted, f"nothing left to read after {len(self.compactions)} compactions")
        raise DemoFailedError(f"only {len(self.compactions)} compactions in {MOST_TURNS} turns")

    def compare(self, rows: Sequence[dict[str, Any]]) -> None:
        """Stored messages equal those that were said."""
        difference = compare(self.home.transcript(self.model.truth), rows)
        check(not difference, f"what is stored is not what was said:\n{difference}")
        check(not self.model.refused, f"the provider refused {self.model.refused} requests as too long")

    def figures(self, host: Process, spent: dict[str, Any]) -> None:
        """The table."""
        status = host.tool(name="lcm_status", args={})
        seconds, calls = spent["seconds"], spent["calls"]
        took = time.monotonic() - self.started
        compacting = seconds.get("compress", 0.0)
        others = sum(seconds.values()) - compacting
        other_calls = sum(calls.values()) - calls.get("compress", 0)
        self.screen.heading("What happened")
        self.screen.table(
            [
                ("messages stored", f"{len(self.model.truth)}, each exactly once"),
                summaries(status),
                *(
                    (f"compaction {n}", f"{before:,} -> {after:,} prompt tokens, {seconds:.2f} s")
                    for n, (before, after, seconds) in enumerate(self.compactions, 1)
                ),
                ("time in the plugin", f"{compacting:.2f} s compacting, {others:.2f} s in {other_calls:,} other calls"),
                ("time in all", f"{took:.1f} s"),
            ]
        )

    def sample(self) -> None:
        """The beginning of the context message for the messages that left the prompt."""
        request = self.model.of_kind("chat")[-1]
        own = next((text_of(m) for m in request.messages if "sum_" in text_of(m) and m["role"] == "user"), "")
        check(own, "no summary stands in the prompt after a compaction")
        self.screen.heading(f"What the model sees instead of the old messages (parts of {len(own):,} characters)")
        lines = [line for line in own.split("\n") if line.strip()]
        first = next((n for n, line in enumerate(lines) if line.startswith("<summary ")), -1)
        check(first > 0, "no summary begins with its tag")
        for line in [*lines[:2], "...", *lines[first : first + SAMPLE_LINES]]:
            self.screen.say(f"  {line[:110]}{'…' if len(line) > 110 else ''}")

    def recover(self, host: Process) -> None:
        """Ask for the line, and compare what comes back with the file and with what the tool had said."""
        line = telling_line()
        truth = self.home.transcript(self.model.truth)
        told = next((n for n, m in enumerate(truth) if m["role"] == "tool" and line in lines_of(text_of(m))), -1)
        check(told >= 0, f"the line was never read: {line!r}")
        distance = len(self.model.truth) - told
        self.screen.heading(f"A line that was read {distance} messages ago")
        check(distance > DISTANCE, f"only {distance} messages lie in between")
        shown = [text_of(message) for message in self.model.of_kind("chat")[-1].messages]
        check(not any(text_of(self.model.truth[told]) in text for text in shown), "the line was still in the prompt")
        self.script.wanted = line
        self.screen.say(
            "It has left the prompt. The user remembers four words of it, and the agent searches the archive for them."
        )
        self.screen.say(f"searched for: {memory_of(line)}")
        answer = self.turn(
            host, f"In what you read first there was a line about {memory_of(line)}. What does it say exactly?"
        )
        self.script.wanted = ""
        check(
            self.script.found is not None, f"lcm_grep and lcm_expand did not lead to the line; the agent said: {answer}"
        )
        found, evidence = str(self.script.found).encode(), self.script.evidence.encode()
        check(found == line.encode(), f"the line came back changed:\n{self.script.found!r}\ninstead of\n{line!r}")
        check(evidence == text_of(self.model.truth[told]).encode(), "the tool result came back changed")
        self.screen.say(f"came back:    {self.script.found}", "green")
        self.screen.say(
            f"              equal to the file byte for byte ({len(found)} bytes);"
            f" so is the whole page it was read in ({len(evidence):,} bytes)"
        )

    def restart(self, before: Sequence[dict[str, Any]]) -> None:
        """A new process resumes: nothing is stored twice, and the conversation goes on."""
        self.screen.heading("A new process resumes the conversation")
        with self.home.process(cwd=ROOT) as host:
            host.open(session_id=self.session, resume=True)
            resumed = stored_rows(host, self.session)
            check(
                [row["store_id"] for row in resumed] == [row["store_id"] for row in before],
                "resuming changed the store",
            )
            self.turn(host, "Go on where we stopped.")
            after = stored_rows(host, self.session)
            self.compare(after)
        self.screen.say(
            f"{len(before)} messages before, {len(resumed)} after resuming, {len(after)} after one more turn"
        )


def summaries(status: dict[str, Any]) -> tuple[str, str]:
    """How many summaries there are and what was found of them, from what ``lcm_status`` says."""
    by_depth: dict[str, dict[str, int]] = status["dag"]["by_depth"]
    check(by_depth, "lcm_status shows no summary after a compaction")
    checked, verbatim = (sum(counts.get(each, 0) for counts in by_depth.values()) for each in ("verified", "verbatim"))
    short = f"; {verbatim} {'quotes' if verbatim == 1 else 'quote'} a short message whole" if verbatim else ""
    return (
        "summaries written",
        f"{sum(sum(counts.values()) for counts in by_depth.values())}, {checked} of them checked against their messages{short}",
    )


def explore(home: Home, session: str, source: str) -> str:
    """How to look around in a home that was kept. A search names the question and its answer before their source."""
    programs = Path(sys.executable).parent
    return f"""
The agent's home is kept. To look around in it, type:
  export HERMES_HOME={shlex.quote(str(home.path))} PATH={shlex.quote(str(programs))}:"$PATH"
  hermes lcm sessions
  hermes lcm search {memory_of(telling_line())}
  hermes lcm show {source or "msg_1"}
  hermes lcm show sum_1
  hermes lcm explain sum_1
  hermes lcm browse
To talk to this agent, name a model of your own in {home.path}/config.yaml, then
  hermes chat --resume {session}"""


def main() -> int:
    """Run it; 0 when everything held."""
    parser = argparse.ArgumentParser(prog="scripts/demo", description=(__doc__ or "").strip())
    parser.add_argument("--keep", action="store_true", help="leave the agent's home and say how to explore it")
    keep = parser.parse_args().keep
    screen, script = Screen(), Script()
    folder = Path(tempfile.mkdtemp(prefix="hermes-lcm-demo-"))
    try:
        with ModelServer(script, limit=WINDOW) as model:
            demo = Demo(Home.make(folder / "home", model.base_url), model, script, screen)
            failed = attempt(demo)
        if keep:
            screen.say(explore(demo.home, demo.session, script.source), soft_wrap=True)
        return int(failed)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def attempt(demo: Demo) -> bool:
    """Run it and say how it ended. True: it failed."""
    try:
        demo.run()
    except (DemoFailedError, HostError) as reason:
        demo.screen.say(f"\nFAILED: {reason}", "bold red")
        return True
    except (LookupError, TypeError, ValueError) as reason:
        demo.screen.say(f"\nFAILED: an answer of the plugin has an unexpected form: {reason!r}", "bold red")
        return True
    demo.screen.heading(f"Everything held, in {time.monotonic() - demo.started:.0f} s")
    return False


if __name__ == "__main__":
    sys.exit(main())
