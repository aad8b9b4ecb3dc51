"""
Hypothesis plays the host: it speaks, edits, injects, drops, merges, reloads, restarts, compacts and throws away, fails anywhere.

After every step: each message that was said is stored once (P1), nothing stored has changed (P2), the list is valid (P3), and
complete (P4). A few seconds by default; ``LCM_TEST_SECONDS=3600`` plays for an hour.
"""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from worlds.archive import Agent
from worlds.process import Chat, Script, World, alternates, chat, digests, merge, reload, tokens_of

from hermes_lcm.errors import BadRequest, StoreError
from hermes_lcm.records import Flag
from hermes_lcm.text import content, markup
from hermes_lcm.text.content import text_of

SECONDS = float(os.environ.get("LCM_TEST_SECONDS", "0"))
THRESHOLD = 1500
#: Few words, so that equal messages are common.
WORDS = st.sampled_from(["yes", "go on", "stop", "why?"])
SIZES = st.sampled_from([1, 30, 120])


class Hosted(RuleBasedStateMachine):
    """One host with one session at a time. ``said`` counts what must be stored: one row per message that was ever said."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="lcm-machine-"))
        self.world = World(self.folder, Script("ok"), fresh_tail_count=8, leaf_chunk_tokens=8000, condensation_fanin=2)
        self.said: Counter[bytes] = Counter()
        self.sessions: dict[str, Chat] = {"s0": chat()}
        self.current = "s0"
        self.number = 0
        self.seen: dict[int, Any] = {}
        self.dropped = False

    def teardown(self) -> None:
        self.world.preparer.stop()
        self.world.db.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- tools of the rules ----------------------------------------------------------------------------------
    @property
    def live(self) -> Chat:
        return self.sessions[self.current]

    @live.setter
    def live(self, messages: list[dict[str, Any]]) -> None:
        self.sessions[self.current] = Chat(messages)

    def unique(self, words: int = 3) -> str:
        self.number += 1
        return " ".join(f"w{self.number}x{n}" for n in range(words))

    def note(self, messages: list[dict[str, Any]]) -> None:
        self.said.update(digests(messages))

    def hand_over(self) -> None:
        """Every hook shows the list; where the store fails, the next one does."""
        self.world.take(copy.deepcopy(self.live), self.current)

    def raw(self) -> list[int]:
        """Places of messages that are not ours and no part of a tool round: what hosts edit, inject before, or drop."""
        return [
            n
            for n, message in enumerate(self.live)
            if message["role"] in ("user", "assistant")
            and not message.get("tool_calls")
            and not str(message["content"]).startswith("[lcm:")
        ]

    # -- speaking ----------------------------------------------------------------------------------------------
    @initialize(moves=st.lists(st.sampled_from(["ok", "ok", "provisional", "raise"]), min_size=1, max_size=30))
    def begin(self, moves: list[str]) -> None:
        self.world.model.moves[:] = moves

    @rule(size=SIZES)
    def speak(self, size: int) -> None:
        new = chat().user(self.unique(size)).says(self.unique(size))
        self.note(new)
        self.live.extend(new)
        self.hand_over()

    @rule(word=WORDS)
    def speak_as_ever(self, word: str) -> None:
        """Equal messages, handed over one by one."""
        for message in chat().user(word).says("ok"):
            self.note([message])
            self.live.append(message)
            self.hand_over()

    @rule(count=st.integers(1, 3), order=st.randoms(use_true_random=False), size=SIZES)
    def use_tools(self, count: int, order: Any, size: int) -> None:
        """Parallel calls; results in any order, seen by a hook after each."""
        self.number += 1
        names = [f"c{self.number}_{n}" for n in range(count)]
        shuffled = names[:]
        order.shuffle(shuffled)
        new = chat().user(self.unique()).calls(*names).results(*shuffled, text=self.unique(size)).says(self.unique())
        self.note(new)
        for message in new:
            self.live.append(message)
            if order.random() < 0.5:
                self.hand_over()
        self.hand_over()

    # -- what hosts do to their list -----------------------------------------------------------------------------
    @precondition(lambda self: self.raw())
    @rule(data=st.data())
    def edit(self, data: st.DataObject) -> None:
        at = data.draw(st.sampled_from(self.raw()))
        self.dropped |= (
            "\n\n" in self.live[at]["content"]
        )  # a joined row becomes one new row: the two are no longer shown
        self.live[at] = {**self.live[at], "content": self.unique()}
        self.live.extend(tail := chat().user(self.unique()).says(self.unique()))
        self.note([self.live[at], *tail])
        self.hand_over()

    @precondition(lambda self: self.raw())
    @rule(data=st.data())
    def inject(self, data: st.DataObject) -> None:
        at = data.draw(st.sampled_from(self.raw()))
        self.live.insert(at, note := {"role": "user", "content": f"[note] {self.unique()}"})
        self.note([note])
        self.hand_over()

    @precondition(lambda self: len(self.raw()) > 2)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        """Not the last one: that would be an undo."""
        at = data.draw(st.sampled_from(self.raw()[:-1]))
        assume(at < len(self.live) - 1)
        del self.live[at]
        self.live.extend(new := chat().user(self.unique()).says(self.unique()))
        self.note(new)
        self.dropped = True
        self.hand_over()

    @rule(count=st.integers(2, 4))
    def speak_twice_and_merge(self, count: int) -> None:
        """User messages that came in a row are seen, and joined in place later."""
        new = chat()
        for _ in range(count):
            new.user(self.unique())
        self.note(new)
        self.live.extend(new)
        self.hand_over()
        before = len(self.live)
        merge(self.live)
        if len(self.live) == before:
            return
        self.hand_over()
        self.live.says(answer := self.unique())
        self.note([{"role": "assistant", "content": answer}])
        self.hand_over()

    @precondition(lambda self: len(self.raw()) > 4)
    @rule(back=st.integers(1, 3))
    def undo(self, back: int) -> None:
        """/undo of whole turns, and other words."""
        starts = [n for n in self.raw() if self.live[n]["role"] == "user"]
        assume(len(starts) > back)
        at = starts[-back]
        assume(at > 2)
        del self.live[at:]
        self.live.user(self.unique()).says(self.unique())
        self.note(self.live[-2:])
        self.hand_over()

    @precondition(lambda self: len(self.live) > 3)
    @rule(data=st.data())
    def show_an_old_state(self, data: st.DataObject) -> None:
        """Some caller holds a shorter list."""
        size = data.draw(st.integers(0, len(self.live) - 1))
        self.world.take(copy.deepcopy(self.live[:size]), self.current)
        self.hand_over()

    # -- processes ---------------------------------------------------------------------------------------------------
    @rule()
    def reload_the_list(self) -> None:
        """A gateway reads the session anew; the process lives on."""
        self.live = reload(self.live)
        self.hand_over()

    @rule()
    def restart(self) -> None:
        self.world = self.world.restart()
        self.live = reload(self.live)
        self.hand_over()

    @rule(number=st.integers(1, 12))
    def fail_somewhere(self, number: int) -> None:
        """A statement fails while new words are stored; the next hook gets through."""
        self.live.extend(new := chat().user(self.unique()).calls("f").results("f").says("ok"))
        self.note(new)
        before = self.world.counts()
        with self.world.failing_at(number):
            try:
                self.hand_over()
            except StoreError:
                assert self.world.counts() == before, f"statement {number} left a trace"
        self.hand_over()

    # -- compaction ----------------------------------------------------------------------------------------------------
    def pass_over(self, **wishes: Any) -> Chat | None:
        outcome = self.world.compressed(copy.deepcopy(self.live), self.current, threshold=THRESHOLD, **wishes)
        return Chat(outcome.messages) if outcome.messages is not None else None

    @rule(force=st.booleans())
    def compact(self, force: bool) -> None:
        before = tokens_of(self.live)
        after = self.pass_over(force=force)
        if after is not None:
            assert tokens_of(after) < before
            self.live = after
            self.hand_over()

    @rule()
    def compact_and_throw_away(self) -> None:
        """The pass is published, and the host goes on with its old list."""
        self.pass_over()
        self.hand_over()

    @rule(number=st.integers(1, 25))
    def compact_and_fail(self, number: int) -> None:
        with self.world.failing_at(number):
            try:
                self.pass_over()
            except StoreError:
                pass
        self.hand_over()

    @rule()
    def rotate(self) -> None:
        """The prompt goes on under a new session id."""
        after = self.pass_over(force=True)
        if after is None:
            return
        self.number += 1
        name = f"r{self.number}"
        self.world.session(name, parent=self.world.session(self.current), origin="rotation")
        del self.sessions[self.current]
        self.sessions[name] = after
        self.current = name
        self.hand_over()

    # -- what the agent archives -------------------------------------------------------------------------------------
    @property
    def agent(self) -> Agent:
        agent = Agent(self.world, self.current)
        agent.dear = True
        return agent

    @rule(data=st.data(), size=st.integers(1, 8), rounds=st.integers(0, 2))
    def archive(self, data: st.DataObject, size: int, rounds: int) -> None:
        """Some range; what may not be archived is refused and changes nothing."""
        new = chat()
        for n in range(rounds):
            self.number += 1
            new.user(self.unique(20)).calls(f"k{self.number}").results(f"k{self.number}").says(self.unique(20 + n))
        self.note(new)
        self.live.extend(new)
        self.hand_over()
        assume(len(self.live) > 4)
        first = data.draw(st.integers(0, len(self.live) - 3))
        before = len(self.archives())
        try:
            self.agent.store(copy.deepcopy(self.live), first, min(first + size, len(self.live) - 1), auto=True)
        except BadRequest:
            assert len(self.archives()) == before

    def archives(self) -> list[Any]:
        return self.world.runtime.archives.of(self.world.session(self.current))

    @precondition(lambda self: self.archives())
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        known = self.archives()
        handle = data.draw(st.sampled_from([archive.handle for archive in known]))
        with contextlib.suppress(BadRequest):  # its messages were taken back
            self.agent.call(copy.deepcopy(self.live), "restore", memory_handle=handle)

    @precondition(lambda self: self.archives())
    @rule()
    def prune(self) -> None:
        self.agent.call(copy.deepcopy(self.live), "prune")

    @precondition(lambda self: self.archives())
    @rule()
    def compact_what_is_archived(self) -> None:
        """The host cannot rewrite requests: only the archived ranges leave the list."""
        after = self.pass_over(narrow=True)
        if after is not None:
            self.live = after
            self.hand_over()

    # -- sessions -------------------------------------------------------------------------------------------------------
    @rule()
    def new(self) -> None:
        self.number += 1
        self.current = f"n{self.number}"
        self.sessions[self.current] = chat()

    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        self.current = data.draw(st.sampled_from(sorted(self.sessions)))
        self.live = reload(self.live)
        self.hand_over()

    @precondition(lambda self: len(self.live) > 2)
    @rule()
    def branch(self) -> None:
        above = self.world.session(self.current)
        self.number += 1
        name = f"b{self.number}"
        fork = self.world.store.last_seq(above.conversation_id)
        self.world.session(name, parent=above, origin="branch", fork_seq=fork)
        self.sessions[name] = self.live.copy()
        self.current = name
        self.hand_over()
        self.speak(1)

    # -- what always holds ---------------------------------------------------------------------------------------------
    @invariant()
    def each_message_is_stored_once(self) -> None:
        """P1: as many rows as were said, of each kind."""
        stored = Counter(digests(self.world.stored()))
        assert self.said - stored == Counter(), "a message is missing"
        assert stored - self.said == Counter(), "a message is stored twice"

    @invariant()
    def the_list_is_in_order(self) -> None:
        """P1: what the host shows is found in the thread in the host's order."""
        transcript = self.world.take(copy.deepcopy(self.live), self.current)
        thread = [
            item.store_id for item in self.world.ingest.transcripts.expected(self.world.session(self.current), None)
        ]
        place = {store_id: n for n, store_id in enumerate(thread)}
        shown = [store_id for entry in transcript.entries for store_id in entry.ids]
        assert all(store_id in place for store_id in shown), "a message that is shown is not part of the thread"
        pinned = markup.read_context(str(self.live[0]["content"])) is not None if self.live else False
        if not pinned:
            assert [place[n] for n in shown] == sorted(place[n] for n in shown)

    @invariant()
    def nothing_stored_changes(self) -> None:
        """P2: rows that were seen once are the same for ever, but for their flags."""
        for store_id, *row in self.world.db.query(
            "SELECT store_id, seq, pos, role, digest, envelope, revises FROM messages"
        ):
            assert self.seen.setdefault(store_id, row) == row

    @invariant()
    def the_list_is_valid(self) -> None:
        """P3."""
        problems = [text for text in content.problems(self.live) if "begins with" not in text]
        assert problems == []

    @invariant()
    def the_request_is_valid(self) -> None:
        """P3 for what is really sent: archived ranges as placeholders, restored ones as they were."""
        if not self.live:
            return
        assert self.agent.request(copy.deepcopy(self.live)).state == "applied"
        prompt = self.agent.prompt(copy.deepcopy(self.live))
        assert [text for text in content.problems(prompt) if "begins with" not in text] == []
        if alternates(self.live):
            assert alternates(prompt)
        self.what_was_restored_is_shown(prompt)

    def what_was_restored_is_shown(self, prompt: Chat) -> None:
        """P4 for what a compaction took out and was restored: its messages in a row, or still its place in the record.

        Between two of one role, what stood between them being gone, a carrier of ours keeps the host from joining them.
        """
        transcript = self.world.take(copy.deepcopy(self.live), self.current)
        shown = digests(message for message in prompt if markup.read_carrier(text_of(message["content"])) is None)
        for archive, node in self.world.runtime.archived.restored(self.world.session(self.current), transcript):
            rows = digests(row.stored_json for row in self.world.store.rows(self.world.dag.sources(node.node_id)))
            there = any(shown[n : n + len(rows)] == rows for n in range(len(shown)))
            assert there or archive.handle in prompt[0]["content"]

    @invariant()
    def every_message_is_shown_or_covered(self) -> None:
        """P4: never twice; and nothing is missing but what the host itself dropped since."""
        missing, twice = self.world.gaps(copy.deepcopy(self.live), self.current)
        assert twice == []
        if not self.dropped:
            assert missing == []

    @invariant()
    def no_extract_is_condensed(self) -> None:
        """P5."""
        nodes = self.world.nodes()
        poor = {node.node_id for node in nodes if node.quality == "provisional"}
        assert not any(set(self.world.dag.sources(node.node_id)) & poor for node in nodes if node.depth)

    @invariant()
    def nothing_was_taken_for_a_foreign_list(self) -> None:
        """No rule hands over a list that has nothing in common with the stored one."""
        assert self.world.flagged(Flag.UNALIGNED) == []


CHECKS = list(HealthCheck)
SHORT = settings(max_examples=10, stateful_step_count=25, suppress_health_check=CHECKS, deadline=None, print_blob=True)


def test_the_host_may_do_what_it_likes() -> None:
    """Short runs, the same for everybody who has the same example database."""
    run_state_machine_as_test(Hosted, settings=SHORT)


@pytest.mark.slow
@pytest.mark.skipif(not SECONDS, reason="LCM_TEST_SECONDS is not set")
def test_the_host_may_do_what_it_likes_for_long() -> None:
    """Longer and longer runs until the time is over."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        run_state_machine_as_test(Hosted, settings=settings(SHORT, max_examples=100, stateful_step_count=60))
