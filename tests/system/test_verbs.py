"""Every verb of the host that rewrites its list, in any order and with restarts, against a model of what was said."""

from __future__ import annotations

import copy
import json
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worlds.gateway import Agent, Gateway
from worlds.process import chat

from hermes_lcm.command import answer, operator_access

VERBS = ("say", "say", "undo", "undo_all", "retry", "edit", "drop", "model", "personality", "compress", "rotate", "restart",
         "branch", "new", "back", "take_over", "take_in", "delegate")  # fmt: skip

LONG = "of many words " * 200  # so that a compaction is worth it


class Terminal:
    """A host's terminal: its live list, its transcript, and a count of everything that was ever said by session."""

    def __init__(self, home: Path) -> None:
        self.world = Gateway(home)
        self.count = self.born = self.folded = 0
        self.said: dict[str, Counter[str]] = {}
        self.ids: list[str] = []
        self.rotated: dict[str, str] = {}
        self.open("s0")

    def open(self, session: str, **facts: Any) -> None:
        self.world.row(session, "cli", **facts)
        self.ids.append(session)
        self.said.setdefault(session, Counter())
        self.agent = Agent(self.world, session, "cli")

    @property
    def session(self) -> str:
        return self.agent.session

    def tip(self, session: str) -> str:
        """The session that goes on with this one."""
        while session in self.rotated:
            session = self.rotated[session]
        return session

    def turn(self, text: str) -> None:
        """A user's message and its answer, with the hooks of a turn."""
        first = not self.agent.live
        self.ask(text)
        self.begin(first=first)
        self.answer()

    def ask(self, text: str) -> None:
        self.count += 1
        self.add(chat().user(text)[0])

    def begin(self, *, first: bool) -> None:
        """The hook of a turn's beginning. ``first``: what the host calls the first turn of a session."""
        self.world.hooks.pre_llm_call(is_first_turn=first, **self.shown())

    def answer(self) -> None:
        self.world.hooks.pre_api_request(**self.shown())
        self.add(chat().says(f"answer {self.count} {LONG}")[0])
        self.world.hooks.post_llm_call(**self.shown())

    def shown(self) -> dict[str, Any]:
        """What every hook is given."""
        history = list(self.agent.live)
        return {"session_id": self.session, "platform": self.agent.platform, "conversation_history": history}

    def add(self, message: dict[str, Any]) -> None:
        self.agent.live.append(message)
        self.world.db.said.setdefault(self.session, []).append(dict(message))
        self.said[self.session][str(message["content"])] += 1

    @property
    def starts(self) -> list[int]:
        """Where the turns begin, as far as they are still shown word by word."""
        live = self.agent.live
        return [n for n, each in enumerate(live) if each["role"] == "user" and not each["content"].startswith("[lcm:")]

    def back_by(self, turns: int) -> int:
        return self.starts[-turns] if len(self.starts) >= turns else 0

    def cut(self, at: int, *, transcript: bool = True) -> None:
        del self.agent.live[at:]
        if transcript:
            self.world.db.said[self.session] = copy.deepcopy(list(self.agent.live))

    # -- verbs -------------------------------------------------------------------------------------------------
    def say(self) -> None:
        self.turn(f"question {self.count}")

    def undo(self) -> None:
        self.cut(self.back_by(1))
        self.say()

    def undo_all(self) -> None:
        self.cut(0)
        self.say()

    def retry(self) -> None:
        if self.starts:
            text = str(self.agent.live[self.starts[-1]]["content"])
            self.cut(self.starts[-1], transcript=False)
            self.turn(text)

    def edit(self) -> None:
        """The newest question again, in other words."""
        if self.starts:
            self.cut(self.starts[-1])
            self.turn(f"other words {self.count}")

    def drop(self) -> None:
        """The last two turns are deleted."""
        self.cut(self.back_by(2))
        self.say()

    def model(self) -> None:
        self.agent.engine.update_model("another", 64_000)

    def personality(self) -> None:
        """The host's next request has another system prompt; its list has none."""
        ask = {"messages": [{"role": "system", "content": f"You are {self.count}."}, *self.agent.live], "model": "m"}
        self.world.hooks.llm_request(request=ask, session_id=self.session, platform="cli")

    def compress(self) -> None:
        """A typed /compress: the host's transcript is what came back, in place."""
        engine, live = self.agent.engine, self.agent.live
        out = engine.compress(list(live), current_tokens=None, force=True)
        if out != list(live):
            self.folded += 1
            engine.on_session_start(
                self.session, platform="cli", boundary_reason="compression", old_session_id=self.session
            )
            self.agent.live = chat()
            self.agent.live.extend(copy.deepcopy(out))
            self.world.db.said[self.session] = copy.deepcopy(list(out))

    def rotate(self) -> None:
        """A turn that begins with a compaction in a new session, to which the host says that it is the first one there."""
        self.ask(f"question {self.count}")
        engine, live, old = self.agent.engine, self.agent.live, self.session
        out = engine.compress(list(live), current_tokens=self.count * 1000, force=True)
        if rotated := out != list(live):
            self.folded += 1
            self.born += 1
            self.world.db.rows[old]["end_reason"] = "compression"
            self.rotated[old] = new = self.world.row(f"r{self.born}", "cli", parent_session_id=old)
            self.said[new] = Counter()
            engine.on_session_start(new, platform="cli", boundary_reason="compression", old_session_id=old)
            self.agent.session = new
            self.agent.live = chat()
            self.agent.live.extend(copy.deepcopy(out))
            if self.born % 2:  # hosts write it now or at the end of the turn
                self.world.db.said[new] = copy.deepcopy(list(out))
        self.begin(first=rotated)
        self.answer()
        self.world.db.said[self.session] = copy.deepcopy(list(self.agent.live))

    def restart(self) -> None:
        self.world.runtime.ingest.forget_all()
        self.resume(self.session)

    def resume(self, session: str) -> None:
        self.agent = Agent(self.world, session, "cli")
        self.agent.live = chat()
        self.agent.live.extend(copy.deepcopy(self.world.db.said.get(session, [])))

    def branch(self) -> None:
        self.born += 1
        parent, past = self.session, copy.deepcopy(list(self.agent.live))
        self.open(f"b{self.born}", parent_session_id=parent, model_config=f'{{"_branched_from": "{parent}"}}')
        self.agent.live.extend(past)
        self.world.db.said[self.session] = copy.deepcopy(past)
        self.say()

    def delegate(self) -> None:
        """A turn whose work a sub-agent does, in a session of its own; the parent goes on with what it reports."""
        self.born += 1
        parent, child, call = self.agent, f"c{self.born}", f"call_{self.born}"
        first = not parent.live
        self.ask(f"question {self.count}")
        self.begin(first=first)
        task = json.dumps({"goal": f"goal {self.born}"})
        self.add(chat().calls(call, tool="delegate_task", arguments=task)[0])
        self.world.row(child, "subagent", model_config=json.dumps({"_delegate_from": parent.session}))
        self.world.hooks.subagent_start(parent_session_id=parent.session, child_session_id=child)
        self.said[child] = Counter()
        self.agent = Agent(self.world, child, "subagent")
        self.turn(f"goal {self.born}")
        report = str(self.agent.live[-1]["content"])
        self.agent = parent
        self.add(chat().results(call, tool="delegate_task", text=json.dumps({"results": [{"summary": report}]}))[0])
        self.answer()

    def new(self) -> None:
        self.born += 1
        self.open(f"n{self.born}")
        self.say()

    def back(self) -> None:
        """`/resume` of the oldest session, or of what the host made of it, and on with it."""
        self.resume(self.tip(self.ids[0]))
        self.say()

    def take_over(self) -> None:
        """The host imports a session from elsewhere into its own database, and goes on there: none of it was seen before."""
        self.born += 1
        live = chat().turns(2, words=400, first=100 * self.born)
        self.open(f"h{self.born}")
        self.agent.live.extend(copy.deepcopy(live))
        self.world.db.said[self.session] = copy.deepcopy(list(live))
        self.said[self.session].update(str(message["content"]) for message in live)
        self.say()

    def take_in(self) -> None:
        """`hermes lcm import` of a file, twice, that repeats what is said here: a conversation of its own, there once."""
        self.born += 1
        live = [*self.agent.live[-2:], *chat().turns(2, words=400, first=5000 + 100 * self.born)]
        lines = [{"role": each["role"], "content": each["content"]} for each in live]
        file = self.world.home / f"file{self.born}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        for _ in range(2):
            done = answer(
                f"import {file} apply", replace(operator_access(self.world.runtime, None, None), trusted=True)
            )
            assert done.code == 0, done.text
        self.said[f"import:{file.stem}"] = Counter(str(line["content"]) for line in lines)
        self.say()

    # -- the truth ---------------------------------------------------------------------------------------------
    def check(self) -> None:
        runtime = self.world.runtime
        stored: dict[str, Counter[str]] = {}
        for rows in runtime.store.row_batches():
            for row in rows:
                stored.setdefault(self.tip(row.head.session_id), Counter())[row.text] += 1
        truth: dict[str, Counter[str]] = {}
        for session, said in self.said.items():
            truth.setdefault(self.tip(session), Counter()).update(said)
        for session, said in truth.items():
            have = stored.get(session, Counter())
            assert set(have) == set(said), session  # kept, whatever was taken back
            assert all(have[text] <= said[text] for text in have), session  # nothing twice
        if self.agent.live:
            seen = runtime.observe(self.session, list(self.agent.live))
            shown = [item.store_id for item in runtime.ingest.transcripts.expected(runtime.session(self.session), None)]
            raw = [entry.ids[-1] for entry in seen.transcript.entries if entry.ids and not entry.own]
            assert raw == [item for item in shown if item in raw]
            roots = seen.transcript.assembly.roots if seen.transcript.assembly else ()
            below = set(runtime.dag.messages_below(roots))
            assert set(shown) - set(raw) == below - set(raw)  # a request that is pinned stands in both
            assert set(shown) == below | set(raw)
        assert "unaligned list" not in self.world.topics()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compaction of a few messages, without a model."""
    monkeypatch.setenv("LCM_SUMMARY_MODEL", "extractive")
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "2")


@pytest.mark.parametrize("verb", VERBS[1:])
def test_each_verb_between_two_turns_and_a_restart(verb: str, hermes_home: Path) -> None:
    """Kept once, marked, not shown."""
    host = Terminal(hermes_home)
    for step in ("say", "say", verb, "restart", "say", verb, "say", "restart"):
        getattr(host, step)()
        host.check()

    assert host.folded == 2 * (verb in ("compress", "rotate"))


@settings(
    max_examples=settings.default.max_examples // 6,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.sampled_from(VERBS), min_size=3, max_size=9))
def test_any_verbs_in_any_order(monkeypatch: pytest.MonkeyPatch, verbs: list[str]) -> None:
    """What was said is stored once; what is shown is what the host shows."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        monkeypatch.setenv("HERMES_HOME", home)
        host = Terminal(Path(home))
        host.say()
        try:
            for verb in verbs:
                getattr(host, verb)()
                host.check()
        finally:
            host.world.runtime.preparer.stop()
            host.world.runtime.db.close()
