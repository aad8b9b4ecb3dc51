#!/usr/bin/env python3
"""
Two checkouts side by side: the same work in turns, in one run, and how many times as long it takes in this one.

    python benchmarks/pairs.py --before CHECKOUT [--quick] [--json FILE] [--where FOLDER] [--only WORD]

Each checkout works in a process of its own and is driven by its own `benchmarks/driving.py`; they take turns after each measured
call, first one, then the other. `--before` (or LCM_BEFORE): a clone of an earlier release, with its own files; without one
nothing is measured. A turn is a question and an answer in hooks of their own; a turn of 20 tool rounds is all that passes inside
of hooks and engine calls. Judged is the ratio of medians by the clock; beside it stands that of processor time, worker included.
"""

from __future__ import annotations

import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

SIZES, ROUNDS, WINDOW, MOST = (200, 1000, 5000), 20, 4_000_000, 1.1
COPIES = 8
SESSION = 5000
PAGE = 200
Job = Callable[[], Any]
Spent = tuple[float, float]  # seconds by the clock, and of the processor


# -- in the process of one checkout ----------------------------------------------------------------------------------
def cost(call: Callable[..., Any], *args: Any, **facts: Any) -> Spent:
    began, processor = time.perf_counter(), time.process_time()
    call(*args, **facts)
    return time.perf_counter() - began, time.process_time() - processor


class Live:
    """A live list as the host hands it over: the same objects (terminal) or equal ones (gateway)."""

    def __init__(self, name: str, size: int, *, again: bool) -> None:
        self.name, self.talk, self.again = name, Talk(size), again
        self.messages = self.talk.history(size)
        self.before: list[Chat] = []
        self.shown: list[Chat] = []
        driving.hook("pre_api_request", name, self.messages)

    def turn(self) -> Spent:
        """A question is kept before the request, the answer after it."""
        self.messages.append(self.talk.user(400))
        self.before, self.shown = self.shown, (kit.reloaded(self.messages) if self.again else list(self.messages))
        asked = cost(self._asked)
        self.messages.append(self.talk.answer(600))
        self.shown.append(self.messages[-1])
        answered = cost(driving.hook, "post_llm_call", self.name, self.shown)
        return asked[0] + answered[0], asked[1] + answered[1]

    def _asked(self) -> None:
        driving.hook("pre_llm_call", self.name, self.shown)
        driving.hook("pre_api_request", self.name, self.shown)


class Rounds:
    """A conversation whose turns have 20 tool rounds."""

    def __init__(self, size: int) -> None:
        self.talk = Talk(size)
        self.agent = driving.Agent(f"20260101_{size:06d}_rounds", WINDOW)
        self.agent.messages = self.talk.history(size)
        self.agent.turn([self.talk.user(), self.talk.answer()])
        self.agent.runtime.preparer.idle(300)

    def turn(self) -> Spent:
        self.spent = (0.0, 0.0)
        messages = self.agent.messages
        messages.append(self.talk.user())
        self._hook("pre_llm_call")
        for _ in range(ROUNDS):
            self._ask()
            messages.extend(self.talk.round())
        self._ask()
        messages.append(self.talk.answer())
        self._hook("post_llm_call")
        spent = self.spent
        self.agent.runtime.preparer.idle(300)
        return spent

    def _ask(self) -> None:
        size = 250 * len(self.agent.messages)
        self._clocked(self.agent.engine.should_compress, size)
        self._hook("pre_api_request")
        self._clocked(self.agent.engine.update_from_response, {"prompt_tokens": size, "completion_tokens": 200})

    def _hook(self, name: str) -> None:
        self._clocked(driving.hook, name, self.agent.session_id, list(self.agent.messages))

    def _clocked(self, *call: Any) -> None:
        spent = cost(*call)
        self.spent = (self.spent[0] + spent[0], self.spent[1] + spent[1])


def turns(again: bool) -> Callable[[bool], Iterator[tuple[str, Job]]]:
    def made(_: bool) -> Iterator[tuple[str, Job]]:
        for size in SIZES:
            lists = [Live(f"{size}-{n}", size, again=again) for n in range(COPIES if size < 1000 else 1)]
            calls = iter(range(10**6))
            yield (
                f"turn, {'gateway' if again else 'terminal'}, {size}",
                lambda own=lists, at=calls: own[next(at) % len(own)].turn(),
            )

    return made


def rounds(size: int) -> Callable[[bool], Iterator[tuple[str, Job]]]:
    def made(_: bool) -> Iterator[tuple[str, Job]]:
        yield f"turn of {ROUNDS} tool rounds, {size}", Rounds(size).turn

    return made


def restarts(_: bool) -> Iterator[tuple[str, Job]]:
    for size in SIZES[1:]:
        name, messages = f"20260101_{size:06d}_restart", Talk(size).history(size)
        driving.hook("pre_api_request", name, messages)

        def again(name: str = name, messages: list[Chat] = messages) -> Spent:
            shown = kit.reloaded(messages)
            driving.fresh_process()
            return cost(driving.hook, "pre_api_request", name, shown)

        yield f"restart with a stored list, {size}", again


def compactions(_: bool) -> Iterator[tuple[str, Job]]:
    calls = iter(range(10**6))

    def one() -> Spent:
        n = next(calls)
        agent = driving.Agent(f"20260101_{n:06d}_compress", 128_000)
        messages = Talk(n).history(1000)
        driving.hook("pre_api_request", agent.session_id, messages)
        spent = cost(agent.engine.compress, messages, current_tokens=250 * len(messages))
        agent.close()
        return spent

    yield "compress() of 1,000 messages, a model that answers at once", one


def archives(quick: bool) -> Iterator[tuple[str, Job]]:
    """An archive of many messages, as the worker leaves it: packed and indexed."""
    count, rng, texts = (10_000 if quick else 100_000), random.Random(3), []
    agent = driving.Agent("20260101_000000_none")
    written = 0
    for n in range(count // SESSION):
        messages = Talk(100 + n).history(SESSION)
        name = f"20260101_{n:06d}_grep"
        driving.hook("pre_api_request", name, messages)
        texts += rng.sample([kit.text_of(message) for message in messages], 500)
        written += sum(len(kit.text_of(message).encode()) for message in messages)
        agent.session_id = name
        driving.hook("on_session_finalize", name, [], reason="exit")
    agent.engine.on_session_start(agent.session_id, platform="cli")
    agent.engine.update_model(model="m", context_length=128_000)
    agent.runtime.preparer.idle(300)
    questions = iter(_questions(rng, texts))

    def search() -> Spent:
        return cost(agent.tool, "lcm_grep", query=next(questions), limit=20)

    def load() -> Spent:
        return cost(agent.tool, "lcm_load_session", session_id=agent.session_id, limit=PAGE)

    def bytes_each() -> Spent:
        agent.runtime.preparer.idle(300)
        found = sum(p.stat().st_size for p in Path(os.environ["HERMES_HOME"]).rglob("lcm*") if p.is_file()) / written
        return found, found

    yield f"lcm_grep, {count} stored", search
    yield f"lcm_load_session of {PAGE} messages, {count} stored", load
    yield f"bytes on disk a byte of text, {count} stored", bytes_each


def _questions(rng: random.Random, texts: list[str]) -> list[str]:
    """Words, paths and questions in turn, the same for both."""
    words = [word for text in texts for word in re.findall(r"[a-z]{5,}", text)]
    paths = [path for text in texts for path in re.findall(r"(?:[a-z]+/)+[\w.-]+\.[a-z]{2,4}", text)]
    said = [s.rstrip(".?").split() for text in texts for s in re.findall(r"[A-Z][^.?:\n]{60,160}[.?]", text)]
    kinds: tuple[Job, ...] = (
        lambda: rng.choice(words), lambda: rng.choice(paths),
        lambda: f"what did we decide about {' '.join(rng.sample(rng.choice(said), 6))}?",
    )  # fmt: skip
    return [kinds[n % len(kinds)]() for n in range(3000)]


PARTS: dict[str, Callable[[bool], Iterator[tuple[str, Job]]]] = {
    "turn, terminal": turns(False), "turn, gateway": turns(True), **{f"rounds, {size}": rounds(size) for size in SIZES},
    "restart": restarts, "compress": compactions, "archive": archives,
}  # fmt: skip
LAPS = {"turn, terminal": 120, "turn, gateway": 60, "restart": 15, "compress": 7, "archive": 90}


def work(where: str, part: str, quick: bool) -> None:
    """Serve one part: a line with the names of its jobs, then for each number that is read what that job took."""
    settings = {"summary_spend_max_calls": 0, "foreground_budget_ms": 600_000, "background_compaction": "false"}
    with kit.home(Path(where), **(settings if part == "compress" else {})):
        kit.InstantModel().install()
        jobs = dict(PARTS[part](quick))
        calls = list(jobs.values())
        print(json.dumps([*jobs]), flush=True)
        for line in sys.stdin:
            print(json.dumps(calls[int(line)]()), flush=True)
        driving.fresh_process()


# -- in the process that compares ------------------------------------------------------------------------------------
class Side:
    """The process of one checkout."""

    def __init__(self, checkout: Path, part: str, where: Path, quick: bool) -> None:
        command = [sys.executable, __file__, "--worker", str(checkout), "--part", part, "--where", str(where)]
        self.process = subprocess.Popen(
            [*command, *(["--quick"] if quick else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=where,
        )
        self.jobs: list[str] = []

    def __enter__(self) -> Side:
        return self

    def ready(self) -> None:
        self.jobs = self._answer()

    def does(self, job: int) -> Spent:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{job}\n")
        self.process.stdin.flush()
        wall, processor = self._answer()
        return wall, processor

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        while (line := self.process.stdout.readline()) and line[0] != "[":
            pass  # what the host has to say
        if not line:
            raise RuntimeError(f"{self.process.args}: ended with {self.process.wait()}")
        return json.loads(line)

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def compared(part: str, before: Path, where: Path, quick: bool) -> dict[str, tuple[list[Spent], list[Spent]]]:
    """What each job of a part took, before and now."""
    with ExitStack() as stack:
        sides = [stack.enter_context(Side(each, part, where, quick)) for each in (before, kit.ROOT)]
        for side in sides:
            side.ready()
        found: dict[str, tuple[list[Spent], list[Spent]]] = {name: ([], []) for name in sides[0].jobs}
        laps = LAPS.get(part, 10)
        for lap in range(-2, laps // 5 if quick else laps):
            for job, name in enumerate(sides[0].jobs):
                for n in random.Random(lap).sample((0, 1), 2):
                    spent = sides[n].does(job)
                    if lap >= 0:  # the first two warm up
                        found[name][n].append(spent)
    return found


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--before", default=os.environ.get("LCM_BEFORE", ""), help="checkout of an earlier release")
    parser.add_argument("--only", default="", help="parts with this word in their name")
    options = parser.parse_args()
    report = Report("pairs", "this release beside an earlier one, in turns", options.quick)
    if not options.before:
        report.note("skipped: no earlier checkout (--before, or LCM_BEFORE)")
        return report.finish(options.json)
    before = Path(options.before).resolve()
    rows = []
    for part in (name for name in PARTS if options.only in name):
        with tempfile.TemporaryDirectory(prefix="lcm-bench-", dir=options.where) as where:
            for name, pair in compared(part, before, Path(where), options.quick).items():
                clock, processor = ([statistics.median(spent[n] for spent in side) for side in pair] for n in (0, 1))
                scale = 1 if name.startswith("bytes") else 1000
                rows.append([name, len(pair[0]), *(round(scale * each, 3) for each in clock), round(clock[1] / clock[0], 2),
                             *(round(scale * each, 3) for each in processor), round(processor[1] / processor[0], 2)])  # fmt: skip
                print(*rows[-1], file=sys.stderr, flush=True)
                report.budget(name, clock[1] / clock[0], MOST)
    columns = ("", "n", "before: ms", "now: ms", "times", "before: processor ms", "now: processor ms", "times of it")
    report.table("Medians", columns, rows)
    commit = subprocess.run(
        ["git", "-C", str(before), "log", "-1", "--format=%h of %as"], capture_output=True, text=True
    )
    report.note(f"before: {commit.stdout.strip() or before.name}")
    return report.finish(options.json)


def checkout() -> Path:
    """The checkout that this process works with."""
    here = Path(__file__).resolve().parents[1]
    return Path(sys.argv[sys.argv.index("--worker") + 1]) if "--worker" in sys.argv else here


sys.path[0] = str(checkout() / "benchmarks")
import driving  # noqa: E402
import kit  # noqa: E402
from kit import Chat, Report, Talk  # noqa: E402

if __name__ == "__main__":
    if "--worker" in sys.argv:
        at = {name: sys.argv[sys.argv.index(name) + 1] for name in ("--part", "--where")}
        work(at["--where"], at["--part"], "--quick" in sys.argv)
        os._exit(0)
    sys.exit(main())
