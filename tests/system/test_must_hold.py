"""
What must hold whatever a model sends: the prompt converges, nothing bad is ever canonical, and once a model works again every
stand-in is replaced (P4, P5, P6). The model is the host's own seam with scripted answers; ladder and verification are real.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from worlds.process import WAIT_S, Chat, Script, World, chat, run, tokens_of

from hermes_lcm import dag as dags
from hermes_lcm.llm.client import HostModel
from hermes_lcm.llm.ladder import Ladder, LadderSettings
from hermes_lcm.text import content, tokens

GHOST = "/srv/ghost/phantom_module_77.py"


# -- answers ---------------------------------------------------------------------------------------------------------


def reply(text: str | None, *, finish: str = "stop", **fields: Any) -> Any:
    """A provider's response."""
    facts = {"role": "assistant", "content": text, "tool_calls": None, "refusal": None, "reasoning": None, **fields}
    choice = SimpleNamespace(index=0, message=SimpleNamespace(**facts), finish_reason=finish)
    return SimpleNamespace(id="r", model="scripted", choices=[choice])


def good(prompt: str) -> str:
    """A record in words of its own that keeps what it can: what a working model writes."""
    source = [line for line in prompt.splitlines() if line.startswith(("question", "answer"))]
    said = [
        f"- In exchange {line.split()[1].rstrip(':')} the talk was about {' and '.join(line.split()[2:6])}."
        for line in source
    ]
    return "\n".join([*said[:20], "Nothing was left open.", 'Expand for details about: "the exchanges"'])


def raising(error: Exception) -> Callable[[str], Any]:
    def answer(_: str) -> Any:
        raise error

    return answer


class RateLimit(Exception):  # noqa: N818 - named as providers name theirs
    status_code = 429


SENTENCE = "The assistant looked at the river stone table again and again and wrote it down. "
BAD: dict[str, Callable[[str], Any]] = {
    "empty": lambda _: reply(""),
    "no content": lambda _: reply(None),
    "OK": lambda _: reply("OK"),
    "echo": lambda prompt: reply(prompt[-6000:]),
    "40k words": lambda _: reply(" ".join(f"word{n}" for n in range(40_000))),
    "error page": lambda _: reply("Error code: 401 - {'error': {'message': 'Incorrect API key provided'}}"),
    "html page": lambda _: reply("<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>" + " " * 400),
    "refusal": lambda _: reply("I'm sorry, but I can't help with summarizing this conversation. " * 3),
    "refusal field": lambda _: reply(None, refusal="I cannot do that."),
    "reasoning only": lambda _: reply(None, reasoning="Let me think about what the user wanted here. " * 20),
    "reasoning tags": lambda prompt: reply(f"<think>{SENTENCE * 20}</think>"),
    "untagged reasoning": lambda _: reply("Okay, the user wants me to summarize. Let me think. " + SENTENCE * 12),
    "length": lambda prompt: reply(good(prompt), finish="length"),
    "loop": lambda _: reply(SENTENCE * 30),
    "instead a call": lambda _: reply(None, finish="tool_calls", tool_calls=[{"id": "1", "function": {"name": "f"}}]),
    "unrelated": lambda _: reply("A recipe for bread: mix flour, water, yeast and salt, knead it. " + "Bake it. " * 40),
    "no choices": lambda _: SimpleNamespace(choices=[]),
    "timeout": raising(TimeoutError("timed out")),
    "exception": raising(ValueError("bug in the SDK")),
    "rate limit": raising(RateLimit("slow down")),
    "context overflow": raising(RuntimeError("This model's maximum context length is 4096 tokens")),
    "no provider": raising(RuntimeError("No LLM provider configured for task=compression")),
    "hallucinated path": lambda prompt: reply(f"{good(prompt)}\nThe fix went into {GHOST} in the end."),
}  # fmt: skip
#: Answers of which what is left after striking is a record.
MENDED = ("hallucinated path",)


class Spoken:
    """The host's auxiliary model: it answers as it is told, and notes what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from agent import auxiliary_client

        self.answer: Callable[[str], Any] = lambda prompt: reply(good(prompt))
        self.calls = 0
        monkeypatch.setattr(auxiliary_client, "call_llm", self)

    def __call__(self, *_: Any, messages: Any = (), **__: Any) -> Any:
        self.calls += 1
        return self.answer("\n".join(str(message["content"]) for message in messages))


@pytest.fixture
def spoken(monkeypatch: pytest.MonkeyPatch) -> Spoken:
    return Spoken(monkeypatch)


def real(folder: Path, **settings: Any) -> World:
    """A process with the real ladder behind the host's seam; its breaker's pauses are over at once."""
    world = World(folder, fresh_tail_count=8, leaf_chunk_tokens=8_000, condensation_fanin=2, **settings)
    runtime = world.runtime
    runtime.breaker._cooldown_s = 0.0
    runtime.ladder = Ladder(
        HostModel(), LadderSettings(), runtime.breaker, runtime.spend, time.monotonic, count=tokens.count
    )
    return world


def covered(world: World, live: Chat) -> None:
    """P3 and P4, by the function of the design and by the tests' own count."""
    transcript = world.take(live)
    roots = transcript.assembly.roots if transcript.assembly is not None else ()
    thread = [item.store_id for item in world.ingest.transcripts.expected(world.session(), None)]
    raw = [store_id for entry in transcript.entries for store_id in entry.ids]
    assert dags.coverage(thread, world.dag.messages_below(roots), raw) == (set(), set())
    assert world.gaps(live) == ([], [])
    assert content.problems(live) == []


def roots_of(world: World, live: Chat) -> list[Any]:
    assembly = world.take(live).assembly
    return world.dag.nodes(assembly.roots) if assembly is not None else []


@pytest.mark.few(4)
@pytest.mark.parametrize("name", BAD)
def test_whatever_a_model_sends_the_prompt_converges_and_is_mended(tmp_path: Path, spoken: Spoken, name: str) -> None:
    """Three compactions with the bad model, then turns with one that works."""
    world = real(tmp_path)
    spoken.answer = BAD[name]
    live = chat()
    for n in range(3):
        live = world.compact(live.turns(25, first=100 * n), threshold=4000)
        assert tokens_of(live) < 4000
        covered(world, live)
    canonical = [node for node in world.nodes() if node.quality == "verified"]
    poor = [node for node in roots_of(world, live) if node.quality == "provisional"]

    if name in MENDED:
        assert not any("ghost" in node.text + node.expand_hint for node in canonical)
    else:
        assert canonical == []
        assert poor
        assert not any(node.depth for node in world.nodes())
        assert all('provisional="' in str(live[0]["content"]) for _ in poor)

    spoken.answer = lambda prompt: reply(good(prompt))
    world.preparer.after_turn(world.session(), world.request(live.turns(1, first=900), threshold=4000))
    assert world.preparer.idle(WAIT_S)
    after = world.compact(live.turns(25, first=1000), threshold=4000)
    covered(world, after)
    shown = roots_of(world, after)
    assert [node for node in shown if node.quality == "provisional"] == []
    better = {node.replaces: node for node in world.nodes() if node.replaces is not None}
    assert set(better) >= {node.node_id for node in poor}
    for node in poor:  # the same messages, the same place
        assert world.dag.sources(better[node.node_id].node_id) == world.dag.sources(node.node_id)
        assert (better[node.node_id].first_pos, better[node.node_id].last_pos) == (node.first_pos, node.last_pos)
    places = [node.first_pos for node in shown]
    assert places == sorted(places)
    assert all(json.loads(node.checks) for node in world.nodes() if node.quality == "verified")


def test_a_rejected_answer_is_no_failure_of_the_provider(tmp_path: Path, spoken: Spoken) -> None:
    """One refused chunk closes no route; it is counted by itself, and exceptions are failures."""
    world = real(tmp_path)
    spoken.answer = BAD["OK"]
    world.compact(chat().turns(40), threshold=4000)
    rejected = world.runtime.breaker.dump().get("", {"failures": 0, "retry_at": 0.0})
    spoken.answer = BAD["exception"]
    world.compact(chat().turns(40, first=500), "other", threshold=4000)

    assert (rejected["failures"], rejected["retry_at"]) == (0, 0.0)
    assert world.runtime.breaker.dump()[""]["failures"]


def test_a_condensation_that_fails_keeps_the_children(tmp_path: Path, spoken: Spoken) -> None:
    """Leaves that a model wrote are not given up because it cannot condense them."""
    world = real(tmp_path)
    depth_one = "The source consists of records in order of time"
    for bad in ("empty", "context overflow"):
        spoken.answer = lambda prompt, bad=bad: BAD[bad](prompt) if depth_one in prompt else reply(good(prompt))  # type: ignore[misc]
        name = bad.replace(" ", "-")
        live = chat()
        for n in range(5):
            live = world.compact(live.turns(25, first=100 * n), name, threshold=4000)
        shown = roots_of_session(world, live, name)
        assert len(shown) > 2
        assert {(node.depth, node.quality) for node in shown} == {(0, "verified")}
        assert world.gaps(live, name) == ([], [])


@pytest.mark.few(1)
@pytest.mark.parametrize("bad", ["empty", "loop", "echo"])
def test_roots_do_not_pile_up_under_a_model_that_never_condenses(tmp_path: Path, spoken: Spoken, bad: str) -> None:
    """In a long run what verified summaries say themselves stands for them: the prompt has room for its roots (P5, P6)."""
    world = real(tmp_path)
    spoken.answer = lambda prompt: (
        BAD[bad](prompt) if "The source consists of records" in prompt else reply(good(prompt))
    )
    live, roots = chat(), []
    for n in range(16):
        live = world.compact(live.turns(25, first=100 * n), threshold=4000)
        roots.append(len(roots_of(world, live)))
        assert tokens_of(live) < 3000
    covered(world, live)

    assert max(roots) < 12
    above = [node for node in world.nodes() if node.depth]
    assert {(node.quality, node.rung, node.model) for node in above} == {("verified", "quoted", "")}
    assert all("Extract made without a model from earlier records" in node.text for node in above)
    below = world.dag.nodes([source for node in above for source in world.dag.sources(node.node_id)])
    assert {node.quality for node in below} == {"verified"}


def test_extracts_that_were_chosen_are_not_verified_by_an_extract_of_them(tmp_path: Path, spoken: Spoken) -> None:
    """The user chose extracts, and then a model that condenses nothing: what nobody verified stays marked (P5)."""
    chosen = real(tmp_path, summary_model="extractive")
    chosen.runtime.ladder = Ladder(
        HostModel(), LadderSettings(summary_model="extractive"), chosen.runtime.breaker, chosen.runtime.spend,
        time.monotonic, count=tokens.count,
    )  # fmt: skip
    live = chat()
    for n in range(6):
        live = chosen.compact(live.turns(25, first=100 * n), threshold=4000)
    chosen.db.close()

    world = real(tmp_path)
    spoken.answer = lambda prompt: reply("") if "The source consists of records" in prompt else reply(good(prompt))
    for n in range(6, 15):
        live = world.compact(live.turns(25, first=100 * n), threshold=4000)
    covered(world, live)
    quoted = [node for node in world.nodes() if node.rung == "quoted"]
    below = world.dag.nodes([source for node in quoted for source in world.dag.sources(node.node_id)])

    assert quoted
    assert {node.quality for node in below} == {"verified"}


def roots_of_session(world: World, live: Chat, session_id: str) -> list[Any]:
    assembly = world.take(live, session_id).assembly
    return world.dag.nodes(assembly.roots) if assembly is not None else []


# -- a thousand nodes ---------------------------------------------------------------------------------------------------


def test_a_thousand_nodes_at_one_depth_all_count(tmp_path: Path) -> None:
    """No limit anywhere: each is in the prompt, covers what it covers, and can be condensed."""
    world = World(tmp_path, fresh_tail_count=4, incremental_max_depth=0)
    live = chat().turns(1_020, words=2)
    transcript = world.take(live)
    session = world.session()
    request = world.request(live, threshold=400_000)
    ids = [entry.ids[0] for entry in transcript.entries]
    from hermes_lcm.compaction.plan import Chunk

    leaves = [world.compactor.leaf(session, Chunk(tuple(ids[n : n + 2]), 10), request) for n in range(0, 2_000, 2)]
    view = world.compactor.view(session, request)
    kept = tuple(unit for unit in view.units if unit.ids[0] not in set(ids[:2_000]))
    start = next(n for n, unit in enumerate(view.units) if unit in kept)
    from dataclasses import replace

    view = replace(view, tail=replace(view.tail, start=start, request=None))
    outcome = world.compress_pass.publish(session, replace(view, before_tokens=10**9), leaves, request)
    shown = Chat(outcome.messages or [])
    text = str(shown[0]["content"])

    assert len(leaves) == len({node.node_id for node in leaves}) == 1_000
    assert all(f'id="{node.address}"' in text for node in leaves)
    covered(world, shown)
    assert world.dag.by_depth(session.conversation_id) == {(0, "verbatim"): 1_000}
    world.compactor.config = replace(world.config, incremental_max_depth=-1)
    parents = world.compactor.condense(session, leaves, 500, world.request(shown, threshold=400_000, budget_s=60.0))
    below = world.dag.messages_below([node.node_id for node in parents])
    assert len(parents) < 1_000
    assert sorted(below) == sorted(ids[:2_000])


# -- killed -------------------------------------------------------------------------------------------------------------


SMALL: dict[str, Any] = {"fresh_tail_count": 8, "leaf_chunk_tokens": 4_000}


def killed_at(folder: Path, number: int, work: Callable[[World], Any]) -> bool:
    """Do the work in a process that is killed at its n-th writing statement; True when it got through before that."""
    child = os.fork()
    if child == 0:  # pragma: no cover - the other process
        try:
            world = World(folder, **SMALL)
            world.db.query("SELECT 1")
            plain = {"execute": world.db.execute, "executemany": world.db.executemany}
            count = 0

            def counting(name: str) -> Callable[..., Any]:
                def statement(*args: Any) -> Any:
                    nonlocal count
                    count += 1
                    if count == number:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return plain[name](*args)

                return statement

            for name in plain:
                setattr(world.db, name, counting(name))
            work(world)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return not os.WIFSIGNALED(status)


def publishes(world: World) -> None:
    world.compact(chat().turns(80), threshold=4000)


def prepares(world: World) -> None:
    session, messages = world.session(), chat().turns(80)
    world.preparer.after_turn(session, world.request(messages, threshold=12_000))
    world.preparer.idle(WAIT_S)


@pytest.mark.slow
@pytest.mark.parametrize("work", [publishes, prepares])
def test_killed_at_any_statement_the_old_or_the_new_state_is_there(tmp_path: Path, work: Any) -> None:
    """kill -9 at each writing statement of preparation and publication; the next process goes on."""
    messages = chat().turns(80)
    finished, number = False, 0
    while not finished:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        first = World(folder, **SMALL)
        first.take(messages)
        first.db.close()
        before = first.counts()
        first.db.close()
        finished = killed_at(folder, number, work)
        world = World(folder, **SMALL)
        after = world.counts()
        assert after["messages"] == before["messages"] == len(messages)
        assert after["nodes"] == after["node_index"]
        assert all(world.dag.sources(node.node_id) for node in world.nodes())
        last = world.dag.latest_assembly(1)
        if last is not None:
            assert last.digest
            assert len(world.dag.nodes(last.roots)) == len(last.roots)
            tail = [store_id for store_id in last.tail_ids]  # noqa: C416
            thread = [item.store_id for item in world.ingest.transcripts.expected(world.session(), None)]
            assert dags.coverage(thread, world.dag.messages_below(last.roots), tail) == (set(), set())
        live = world.compact(messages.copy(), threshold=4000)
        assert world.gaps(live) == ([], [])
        prints = [node.fingerprint for node in world.nodes()]
        assert len(prints) == len(set(prints))
        world.db.close()

    assert number > 7


# -- two processes ------------------------------------------------------------------------------------------------------


def test_two_processes_never_publish_overlapping_nodes(tmp_path: Path) -> None:
    """Both prepare and compact one session at once, turn after turn: each prompt is whole, and no message is covered twice."""
    worlds = [World(tmp_path, Script("ok"), fresh_tail_count=8, leaf_chunk_tokens=8_000) for _ in range(2)]
    live = chat().turns(30)
    worlds[0].take(live)
    for n in range(4):
        held = live.copy()

        def turn(world: World, held: Chat = held) -> Chat:
            world.preparer.after_turn(world.session(), world.request(held.copy(), threshold=4000))
            outcome = world.compressed(held.copy(), threshold=4000)
            assert world.preparer.idle(WAIT_S)
            return Chat(outcome.messages or held)

        prompts = run(*[lambda world=world: turn(world) for world in worlds])  # type: ignore[misc]
        for prompt in prompts:
            covered(worlds[0], prompt)
        live = prompts[n % 2].turns(25, first=100 * (n + 1))
        for world in worlds:
            world.ingest.forget("s")
