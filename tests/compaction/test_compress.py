"""Whole compactions against real SQLite, and what the user hears of them: P3 valid, P4 covered, P5 honest, P6 bounded."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds.process import WAIT_S, Chat, Script, World, alternates, chat, digests, reload, run, texts, tokens_of

from hermes_lcm.command import answer, operator_access
from hermes_lcm.compaction import compress
from hermes_lcm.compaction.compress import Outcome, state_tokens
from hermes_lcm.prompt import context_message
from hermes_lcm.records import Flag, Summary, SummaryTask
from hermes_lcm.text import content, markup

TODO = "[Your active task list was preserved across context compression]\n- [>] 1. Fix the parser (in_progress)"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def long_chat() -> Chat:
    """About 8,000 tokens of turns and tool rounds."""
    return chat().turns(12).user("do it").rounds(12).says("done").turns(8, first=50)


def test_the_present_state_says_as_much_behind_condensed_summaries(world: World) -> None:
    """A summary of summaries is made of few tokens, and stands for all that they stand for."""
    world.compact(long_chat())
    leaves = [replace(world.nodes()[0], source_tokens=20_000, tokens=1500) for _ in range(4)]
    condensed = replace(leaves[0], depth=1, source_tokens=6000)

    assert state_tokens(32_000, [condensed]) == state_tokens(32_000, leaves) == 0.06 * 32_000
    assert state_tokens(32_000, [replace(leaves[0], source_tokens=2500)]) == 600


# -- what comes out ----------------------------------------------------------------------------------------------


def test_the_prompt_gets_smaller(world: World) -> None:
    """A list above the threshold comes back well below it."""
    compacted = world.compact(long_chat())

    assert tokens_of(compacted) < 4000


def test_every_message_is_shown_or_covered(world: World) -> None:
    """No message is in neither tail nor nodes, and none is in both (P4)."""
    compacted = world.compact(long_chat())

    assert world.gaps(compacted) == ([], [])


def test_the_tail_is_the_end_of_the_conversation(world: World) -> None:
    """What stays raw is byte for byte what the host had."""
    messages = long_chat()

    compacted = world.compact(messages)

    assert compacted[-6:] == messages[-6:]


def test_the_list_that_came_in_is_not_touched(world: World) -> None:
    """The host compares what it gave with what it gets."""
    messages = long_chat()
    before = messages.copy()

    world.compact(messages)

    assert messages == before


def test_the_messages_that_go_out_are_the_callers_own(world: World) -> None:
    """The host may change what it gets without changing what it gave."""
    messages = long_chat()
    compacted = world.compact(messages)
    for message in compacted:
        message["changed"] = True

    assert not any("changed" in message for message in messages)


def test_the_hosts_mark_of_what_it_has_written_is_gone(world: World) -> None:
    """A row that bears the mark would not be written to the host's own database."""
    messages = Chat({**message, "_db_persisted": True} for message in long_chat())

    assert not any("_db_persisted" in message for message in world.compact(messages))


def test_the_context_message_says_what_it_is(world: World) -> None:
    """The record is framed by lines with the conversation's nonce, and ends with its assembly."""
    found = markup.read_context(world.compact(long_chat())[0]["content"])

    assert found is not None
    assert (found.nonce, found.rest) == (world.session().nonce, "")


def test_the_prompt_keeps_its_beginning(world: World) -> None:
    """A second pass that only adds nodes leaves the first bytes of the context message as they were (prompt caches)."""
    compacted = world.compact(chat().turns(30), threshold=40_000, force=True)
    first = compacted[0]["content"].rpartition("</summary>")[0]
    second = world.compact(compacted.turns(30, first=100), threshold=40_000, force=True)[0]["content"]

    assert second.startswith(first)


# -- valid sequences (P3) ---------------------------------------------------------------------------------------------


@pytest.mark.few(12)
@pytest.mark.parametrize("tail", range(1, 65), ids="tail={}".format)
def test_every_tail_size_gives_a_valid_sequence(tmp_path: Path, tail: int) -> None:
    """However many messages stay raw, no call loses a result, and the list begins with a user message."""
    world = World(tmp_path, fresh_tail_count=tail)

    compacted = world.compact(long_chat())

    assert content.problems(compacted) == []
    assert alternates(compacted)


@pytest.mark.few(7)
@pytest.mark.parametrize("order", list(itertools.permutations("abc")), ids="".join)
@pytest.mark.parametrize("tail", [1, 2, 3, 4, 5])
def test_parallel_results_may_come_in_any_order(tmp_path: Path, order: tuple[str, ...], tail: int) -> None:
    """Results are matched by id, not by order."""
    world = World(tmp_path, fresh_tail_count=tail)
    messages = chat().turns(25).user("now").calls("a", "b", "c").results(*order).says("so").calls("d").results("d")

    compacted = world.compact(messages)

    assert content.problems(compacted) == []
    assert world.gaps(compacted) == ([], [])


@pytest.mark.parametrize("missing", ["a", "b", "c"])
def test_a_group_without_all_its_results_is_covered(world: World, missing: str) -> None:
    """An interrupted tool round in the middle goes into a node as a whole; none of it stays without the rest."""
    kept = [name for name in "abc" if name != missing]
    messages = chat().turns(25).user("now").calls("a", "b", "c").results(*kept).user("stop").says("stopped")

    compacted = world.compact(messages)

    assert content.problems(compacted) == []
    assert world.gaps(compacted) == ([], [])


def test_calls_that_wait_for_their_results_stay(world: World) -> None:
    """In the middle of a tool round the newest calls stay raw, their results are still to come."""
    messages = chat().turns(25).user("now").calls("a", "b")
    compacted = world.compact(messages)

    assert compacted[-1] == messages[-1]
    compacted.results("b", "a").says("so")
    assert content.problems(compacted) == []


@pytest.mark.parametrize("tail", [1, 3, 9])
def test_a_call_id_used_twice_is_two_calls(tmp_path: Path, tail: int) -> None:
    """Models use an id again in another round."""
    world = World(tmp_path, fresh_tail_count=tail)
    messages = (
        chat().turns(25).user("go").calls("x").results("x", text="one").calls("x").results("x", text="two").says("so")
    )

    compacted = world.compact(messages)

    assert content.problems(compacted) == []
    assert world.gaps(compacted) == ([], [])


def test_a_todo_snapshot_behind_the_prompt_changes_nothing(world: World) -> None:
    """The host appends its task list to what it got; the next passes go on as ever."""
    messages = long_chat()
    for n in range(3):
        messages = world.compact(messages.user(TODO, _todo_snapshot_synthetic=True).turns(20, first=100 + 50 * n))

    assert world.gaps(messages) == ([], [])
    assert content.problems(messages) == []


# -- the user's request -------------------------------------------------------------------------------------------


@pytest.mark.few(4)
@pytest.mark.parametrize("rounds", [5, 20, 60])
@pytest.mark.parametrize("tail", [1, 8, 64])
def test_the_request_stays_however_many_tool_rounds_follow(tmp_path: Path, rounds: int, tail: int) -> None:
    """In a turn with many tool rounds the user's words stay raw, in front of the tail."""
    world = World(tmp_path, fresh_tail_count=tail)
    messages = chat().turns(20).user("find the leak").rounds(rounds, words=100)

    compacted = world.compact(messages)

    assert [text for text in texts(compacted) if text == "find the leak"] == ["find the leak"]
    assert content.problems(compacted) == []
    assert alternates(compacted)
    assert world.gaps(compacted) == ([], [])


def test_the_request_stays_over_many_passes_of_one_turn(world: World) -> None:
    """Five compactions within one turn keep the same request, once."""
    messages = chat().turns(10).user("find the leak")
    for n in range(5):
        messages = world.compact(messages.rounds(20, first=100 * n, words=80))
        assert texts(messages).count("find the leak") == 1
        assert world.gaps(messages) == ([], [])


def test_a_pinned_request_is_covered_later(world: World) -> None:
    """When a newer request exists the older one is backlog like any other message."""
    messages = world.compact(chat().turns(10).user("find the leak").rounds(40, words=80))
    messages = world.compact(messages.says("found").turns(40, first=300))

    assert "find the leak" not in texts(messages)
    assert world.gaps(messages) == ([], [])


def test_the_hosts_own_note_is_no_request(world: World) -> None:
    """A task list in the user's name does not push the user's words out of the prompt."""
    messages = (
        chat().turns(20).user("find the leak").rounds(30).user(TODO, _todo_snapshot_synthetic=True).rounds(30, first=70)
    )

    compacted = world.compact(messages)

    assert "find the leak" in texts(compacted)
    assert world.gaps(compacted) == ([], [])


@pytest.mark.parametrize("size", [3_000, 30_000])
def test_a_request_larger_than_the_budget_stays_whole(world: World, size: int) -> None:
    """The user's last words are never cut, however long they are."""
    request = "please read: " + "word " * size
    compacted = world.compact(chat().turns(40).user(request))

    assert compacted[-1]["content"] == request


# -- sizes (P6) -----------------------------------------------------------------------------------------------------


def test_a_tail_of_huge_results_fits(tmp_path: Path) -> None:
    """64 protected messages with results of 30,000 tokens each come back under the threshold."""
    world = World(tmp_path)
    messages = chat().turns(3).user("read all of it")
    for n in range(32):
        messages.calls(f"c{n}").results(f"c{n}", text=f"file {n} " + "0123456789 abcdef " * 6_700)

    compacted = world.compact(messages, threshold=48_000)

    assert tokens_of(compacted) <= 48_000
    assert content.problems(compacted) == []
    assert world.gaps(compacted) == ([], [])


def test_one_round_of_huge_parallel_results_fits(tmp_path: Path) -> None:
    """Even when the last group alone is many times the window."""
    world = World(tmp_path)
    names = [f"c{n}" for n in range(64)]
    messages = chat().user("read all of it").calls(*names).results(*names, text="0123456789 abcdef " * 6_700)

    compacted = world.compact(messages, threshold=48_000)

    assert tokens_of(compacted) <= 48_000
    assert content.problems(compacted) == []


def test_one_round_of_hundreds_of_small_results_fits(tmp_path: Path) -> None:
    """None of them is large."""
    world = World(tmp_path)
    names = [f"c{n}" for n in range(300)]
    messages = chat().user("look at all of it").calls(*names).results(*names, text="0123456789 abcdef " * 90)

    compacted = world.compact(messages, threshold=48_000)

    assert tokens_of(messages) > 100_000
    assert tokens_of(compacted) <= 48_000
    assert content.problems(compacted) == []


def test_a_stub_is_the_row_it_stands_for(tmp_path: Path) -> None:
    """A result that is shown by reference is stored once, whole, also after a restart and another pass."""
    world = World(tmp_path)
    names = [f"c{n}" for n in range(4)]
    messages = chat().user("read").calls(*names).results(*names, text="0123456789 abcdef " * 4000)
    compacted = world.compact(messages, threshold=20_000)
    assert any("[lcm:stub" in str(message["content"]) for message in compacted)
    world = world.restart()
    again = world.compact(reload(compacted).says("read").turns(60, words=80), threshold=20_000)
    world.take(again)

    assert len(world.stored()) == len(messages) + 121
    assert world.gaps(again) == ([], [])
    assert not any("[lcm:stub" in str(message["content"]) for message in world.stored())


@pytest.mark.few(6)
@pytest.mark.parametrize("seed", range(12))
def test_the_result_is_never_larger_than_the_input(tmp_path: Path, seed: int) -> None:
    """Whatever the sizes: a smaller prompt or none."""
    rng = random.Random(seed)
    world = World(tmp_path, fresh_tail_count=rng.choice([1, 4, 64]))
    messages = chat()
    for n in range(rng.randint(1, 25)):
        messages.turns(1, first=n, words=rng.choice([0, 1, 20, 400]))
        if rng.random() < 0.4:
            messages.user("go").rounds(rng.randint(1, 3), first=1000 + 10 * n, words=rng.choice([1, 50, 2000])).says(
                "so"
            )
    for threshold in (300, 1000, 4000, 16_000):
        outcome = world.compressed(messages, threshold=threshold, force=True)
        assert outcome.messages is None or tokens_of(outcome.messages) < tokens_of(messages)


@pytest.mark.parametrize("messages", [chat(), chat().user("hi"), chat().user("hi").says("hello")], ids=len)
def test_where_nothing_can_be_done_nothing_is(world: World, messages: Chat) -> None:
    """A list that cannot shrink gives no prompt and leaves no assembly."""
    outcome = world.compressed(messages, force=True)

    assert outcome.messages is None
    assert world.counts()["assemblies"] == 0


def test_passes_at_once_come_to_an_end(world: World) -> None:
    """Compacting again and again what was just compacted stops by itself, complete at every step."""
    messages, passes = long_chat(), 0
    while (outcome := world.compressed(messages)).messages is not None:
        messages, passes = Chat(outcome.messages), passes + 1
        assert world.gaps(messages) == ([], [])
        assert passes < 8

    assert world.compressed(messages).messages is None


def test_a_summariser_that_writes_too_much_is_bounded(tmp_path: Path) -> None:
    """Even if every summary is four times as long as asked for, prompts converge below the threshold."""
    world = World(tmp_path, Script("long"))
    messages = chat()
    for n in range(8):
        messages = messages.turns(30, first=100 * n)
        messages = world.compact(messages)
        assert tokens_of(messages) < 4000
        assert world.gaps(messages) == ([], [])


def test_a_long_conversation_converges(tmp_path: Path) -> None:
    """Sixteen compactions: the prompt stays bounded and complete, nodes are condensed."""
    world = World(tmp_path)
    messages = chat()
    for n in range(16):
        messages = world.compact(messages.turns(20, first=100 * n))
        assert tokens_of(messages) < 4000
    assert world.gaps(messages) == ([], [])
    assert max(node.depth for node in world.nodes()) >= 1
    assert len(world.stored()) == 16 * 40


def test_the_threshold_counts_what_the_host_adds(world: World) -> None:
    """System prompt and tool schemas are part of the request: the list gets what they leave."""
    messages = long_chat()
    overhead = 1500

    compacted = world.compact(messages, current_tokens=tokens_of(messages) + overhead)

    assert tokens_of(compacted) + overhead <= 4000


# -- summarisers that fail (P5, P6) -------------------------------------------------------------------------------


MOVES = ["ok", "provisional", "raise", "long"]


@pytest.mark.parametrize("move", ["provisional", "raise"])
def test_without_a_model_the_prompt_still_shrinks(tmp_path: Path, move: str) -> None:
    """When no model answers, extracts stand in: marked, complete, below the threshold."""
    world = World(tmp_path, Script(move))

    compacted = world.compact(long_chat())

    assert tokens_of(compacted) < 4000
    assert world.gaps(compacted) == ([], [])
    assert "provisional=" in compacted[0]["content"]


def test_an_extract_is_replaced_when_a_model_answers(tmp_path: Path) -> None:
    """The next pass writes what the last one could not."""
    world = World(tmp_path, Script("provisional"))
    compacted = world.compact(long_chat())
    world = world.restart(Script("ok"))

    again = world.compact(compacted.turns(30, first=200))

    assert "provisional=" not in again[0]["content"]
    assert world.gaps(again) == ([], [])


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(10))
def test_a_moody_summariser_leads_to_the_same_end(tmp_path: Path, seed: int) -> None:
    """Whatever mix of answers comes: valid, complete and small after every pass, and no extract is ever condensed."""
    rng = random.Random(seed)
    world = World(tmp_path, Script(*[rng.choice(MOVES) for _ in range(400)]), fresh_tail_count=rng.choice([4, 64]))
    messages = chat()
    for n in range(10):
        messages = messages.turns(rng.randint(5, 30), first=100 * n, words=rng.choice([10, 60]))
        outcome = world.compressed(messages, force=rng.random() < 0.3)
        messages = Chat(outcome.messages or messages)
        assert content.problems(messages) == []
        assert world.gaps(messages) == ([], [])
        if rng.random() < 0.2:
            world = world.restart()
            messages = reload(messages)
    poor = {node.node_id for node in world.nodes() if node.quality == "provisional"}
    assert not any(set(world.dag.sources(node.node_id)) & poor for node in world.nodes() if node.depth > 0)


def test_a_hanging_summariser_costs_the_budget_and_no_more(tmp_path: Path) -> None:
    """When the time is over, extracts stand in; nobody waits for the hanging call."""
    script = Script("hang")
    world = World(tmp_path, script)
    began = time.monotonic()

    compacted = world.compact(long_chat(), budget_s=0.3)

    waited = time.monotonic() - began
    script.release.set()
    assert waited < WAIT_S  # the call takes as long as that
    assert world.gaps(compacted) == ([], [])


def test_a_late_summary_is_found_by_the_next_pass(tmp_path: Path) -> None:
    """A call that outlives its budget is not wasted: its leaf replaces the extract."""
    script = Script("hang")
    script.extract = lambda task: Script.summary(task, "verified", "Late but good.")  # type: ignore[method-assign]
    world = World(tmp_path, script)
    messages = chat().turns(30)
    outcome = world.compressed(messages, budget_s=0.2)
    script.release.set()
    for thread in threading.enumerate():
        if thread.name == "lcm-summary":
            thread.join(10)

    asked = len(script.tasks)
    again = world.compressed(Chat(outcome.messages or messages).turns(2, first=90), force=True)

    assert again.provisional == 0
    assert all("msg_1" not in [line.address for line in task.lines] for task in script.tasks[asked:])


def test_a_cancelled_pass_changes_nothing(tmp_path: Path) -> None:
    """The host gave up: no new prompt, no error, and the next pass succeeds."""
    world = World(tmp_path)
    messages = long_chat()

    outcome = world.compressed(messages, cancelled=lambda: True)

    assert outcome.messages is None
    assert world.counts()["assemblies"] == 0
    assert world.gaps(world.compact(messages)) == ([], [])


def test_a_pass_that_is_cancelled_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    """The host gives up while summaries are being written."""
    script = Script("hang")
    world = World(tmp_path, script)
    given_up = threading.Event()
    results = run(
        lambda: world.compressed(long_chat(), cancelled=given_up.is_set, budget_s=2.0),
        lambda: (time.sleep(0.2), given_up.set(), script.release.set()),
    )

    assert results[0].messages is None


# -- passes that come to nothing ------------------------------------------------------------------------------------


def test_an_abandoned_pass_leaves_no_overlap_and_no_gap(world: World) -> None:
    """The host throws the result away and goes on with its old list."""
    messages = long_chat()
    world.compact(messages)
    compacted = world.compact(messages.turns(5, first=90))

    assert world.gaps(compacted) == ([], [])
    assert len(world.stored()) == len(messages)


def test_an_abandoned_pass_is_not_paid_twice(world: World) -> None:
    """Leaves that an abandoned pass wrote are found ready."""
    messages = long_chat()
    world.compact(messages)
    asked = len(world.model.tasks)
    world.compact(messages)

    assert len(world.model.tasks) == asked


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(6))
def test_any_list_that_was_handed_out_may_be_the_one_that_counts(tmp_path: Path, seed: int) -> None:
    """The host may go on with any older prompt, whatever was published since."""
    rng = random.Random(seed)
    world = World(tmp_path)
    said = chat().turns(30)
    held = [said.copy()]
    for n in range(8):
        base = rng.choice(held[-3:]).copy()
        compacted = world.compact(base.turns(20, first=100 * (n + 1)))
        assert content.problems(compacted) == []
        held.append(compacted)
        if rng.random() < 0.3:
            world = world.restart()
    covered = world.compact(held[-1].copy().turns(30, first=2000))

    assert world.gaps(covered)[1] == []


def test_compressing_the_head_only_keeps_the_rest(world: World) -> None:
    """/compress here: the host passes the head and appends the rest by itself. Nothing is stored again."""
    messages = chat().turns(40)
    world.take(messages)
    head, rest = messages[:60], messages[60:]
    rejoined = Chat([*world.compact(Chat(head), force=True), *rest])
    world.take(rejoined)

    assert len(world.stored()) == len(messages)
    assert world.gaps(rejoined) == ([], [])


def test_compressing_the_head_only_survives_a_restart(world: World) -> None:
    """/compress here, then a restart."""
    messages = chat().turns(40)
    world.take(messages)
    rejoined = Chat([*world.compact(Chat(messages[:60]), force=True), *messages[60:]])
    world = world.restart()
    world.take(reload(rejoined))

    assert len(world.stored()) == len(messages)


# -- after a compaction ------------------------------------------------------------------------------------------------


def tail_of(compacted: Chat) -> int:
    """Where the raw messages begin."""
    return 1 if compacted[1]["role"] != "assistant" or not markup.read_carrier(compacted[1]["content"]) else 2


CHANGES: dict[str, Any] = {
    "nothing": lambda live, at: live,
    "edit": lambda live, at: [*live[:at], {**live[at], "content": "edited"}, *live[at + 1 :]],
    "injection": lambda live, at: [*live[:at], {"role": "user", "content": "[note]"}, *live[at:]],
    "drop": lambda live, at: live[:at] + live[at + 1 :],
}
NEW_ROWS = {"nothing": 0, "edit": 1, "injection": 1, "drop": 0}


@pytest.mark.few(5)
@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("offset", [0, 1, 4])
@pytest.mark.parametrize("change", CHANGES)
def test_the_tail_is_aligned_like_any_list(world: World, change: str, offset: int, restart: bool) -> None:
    """Behind a context message, each change of the host costs what it is: one row or none, also after restarts."""
    messages = chat().turns(30)
    compacted = world.compact(messages)
    world.take(compacted)
    changed = Chat(CHANGES[change](list(compacted), tail_of(compacted) + offset)).turns(1, first=200)
    for _ in range(3):
        if restart:
            world = world.restart()
            changed = reload(changed)
        world.take(changed)
    again = world.restart()
    again.take(reload(changed))

    assert len(again.stored()) == len(messages) + NEW_ROWS[change] + 2


@pytest.mark.few(5)
@pytest.mark.parametrize("offset", [0, 1, 4])
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_tail_is_covered_by_the_next_pass(world: World, change: str, offset: int) -> None:
    """After a change of the tail the next pass leaves no gap and no overlap."""
    compacted = world.compact(chat().turns(30))
    changed = Chat(CHANGES[change](list(compacted), tail_of(compacted) + offset))
    again = world.compact(changed.turns(30, first=200))

    assert world.gaps(again) == ([], [])


def test_a_restart_after_a_compaction_stores_nothing(world: World) -> None:
    """Also when the restarted process compacts again."""
    messages = chat().turns(30)
    compacted = world.compact(messages)
    for n in range(4):
        world = world.restart()
        compacted = world.compact(reload(compacted).turns(20, first=100 * (n + 1)))
    world.take(compacted)

    assert len(world.stored()) == len(messages) + 160
    assert world.gaps(compacted) == ([], [])


def test_undo_after_a_compaction(world: World) -> None:
    """/undo within the tail, then another way: what was undone is in no later node and not in the prompt."""
    compacted = world.compact(chat().turns(30).user("WRONG WAY").says("as you like"))
    base = Chat(compacted[:-2])
    again = world.compact(base.turns(30, first=200))
    covered = {i for node in world.dag.latest_assembly(1).roots for i in world.dag.messages_below([node])}

    assert "WRONG WAY" not in texts(row.stored_json for row in world.store.rows(sorted(covered)))
    assert world.gaps(again) == ([], [])


@pytest.mark.parametrize("restarted", [False, True])
def test_undo_of_all_that_a_compaction_left_raw(world: World, restarted: bool) -> None:
    """/undo of the turn in which the prompt was compacted: nothing raw is left behind the record, which is no foreign list."""
    compacted = world.compact(chat().turns(10).user("WRONG WAY").rounds(30))
    world.take(compacted)
    asked = next(n for n, message in enumerate(compacted) if message["content"] == "WRONG WAY")
    world = world.restart() if restarted else world
    another = Chat(compacted[:asked]).user("another way").says("as you like")

    assert [message["role"] for message in compacted[:asked]] == ["user", "assistant"]
    assert world.gaps(another) == ([], [])
    assert "WRONG WAY" in texts(world.flagged(Flag.RETRACTED))
    assert world.flagged(Flag.UNALIGNED) == []


@pytest.mark.parametrize("restarted", [False, True])
def test_words_behind_a_record_are_not_those_taken_back_before_it(world: World, restarted: bool) -> None:
    """What was undone lies under the summaries: the same word said now, with nothing raw in front of it, is a new message."""
    first = chat().turns(10).user("yes").says("which one?")
    world.take(first)
    rest = Chat(first[:-2]).turns(20, first=50)
    world.take(rest)
    compacted = world.compact(rest.user("WRONG WAY").rounds(30))
    world.take(compacted)
    asked = next(n for n, message in enumerate(compacted) if message["content"] == "WRONG WAY")
    world = world.restart() if restarted else world
    live = Chat(compacted[:asked]).user("yes").says("done")
    transcript = world.take(live)
    said = [row for rows in world.store.row_batches() for row in rows if row.text == "yes"]

    assert [bool(row.head.flags & Flag.RETRACTED) for row in said] == [True, False]
    assert [entry.ids for entry in transcript.entries][-2] == (said[1].store_id,)
    assert world.gaps(live) == ([], [])


def test_a_request_glued_behind_the_context_stays_alone(world: World) -> None:
    """The host joined the user's request to our context message: later prompts show the request, not the old record."""
    compacted = world.compact(chat().turns(30))
    start = tail_of(compacted)
    glued = Chat(
        [{"role": "user", "content": compacted[0]["content"] + "\n\nfind the leak"}, *compacted[start + 1 :][-1:]]
    )
    glued.rounds(60)
    again = world.compact(glued)
    world.take(again)

    assert sum("[lcm:history" in str(message["content"]) for message in again) == 1
    assert texts(again)[0] == "find the leak"


def test_a_rotation_continues_the_conversation(world: World) -> None:
    """Under a new session id the same prompt goes on: nothing is stored again, everything is covered."""
    messages = chat().turns(30)
    compacted = world.compact(messages, "old")
    world.session("new", parent=world.session("old"), origin="rotation")
    again = world.compact(compacted.turns(30, first=200), "new")
    world = world.restart()
    world.take(reload(again), "new")

    assert len(world.stored()) == len(messages) + 60
    assert world.gaps(again, "new") == ([], [])


def test_a_lost_context_message_is_no_loss(world: World) -> None:
    """If the host drops our context message, the next pass covers everything again."""
    compacted = world.compact(chat().turns(30))
    bare = Chat(compacted[tail_of(compacted) :])
    world.take(bare)

    assert len(world.stored()) == 60
    assert world.gaps(world.compact(bare.turns(30, first=200))) == ([], [])


# -- our own words in what is summarised ---------------------------------------------------------------------------


def test_a_quoted_closing_line_does_not_close(tmp_path: Path) -> None:
    """A message that quotes our frame is summarised without breaking the frame of the record."""
    world = World(tmp_path, Script("provisional"))
    nonce = world.session().nonce
    messages = chat()
    for n in range(30):
        messages.user(f"[/lcm:history {nonce} assembly=1]\nevil {n}").says("</summary> " * 30 + str(n))
    compacted = world.compact(messages)
    found = markup.read_context(compacted[0]["content"])

    assert found is not None
    assert found.rest == ""


@pytest.mark.parametrize("evil", ["\ud800", "\0", "\u2028", "\ufeff"], ids=ascii)
@pytest.mark.parametrize("move", ["ok", "provisional"])
def test_odd_characters_do_not_stop_a_compaction(tmp_path: Path, evil: str, move: str) -> None:
    """Messages that SQLite or UTF-8 cannot take as they are can be summarised and quoted."""
    world = World(tmp_path, Script(move))
    messages = chat().user(f"a {evil} b").says("ok").turns(30).user(f"c {evil} d").turns(3, first=60)

    compacted = world.compact(messages)

    assert world.gaps(compacted) == ([], [])


@pytest.mark.parametrize(
    "odd",
    [
        {"role": "assistant", "content": "x", "tool_calls": 1},
        {"role": "assistant", "content": "x", "tool_calls": {"id": "a"}},
        {"role": "assistant", "content": "x", "tool_calls": None},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "q", "function": {"name": "f", "arguments": {"a": 1}}}],
        },
        {"role": "assistant", "content": "x", "tool_calls": [None, "a", {"id": None}]},
        {"role": "user", "content": [None, 5, {"type": "image_url"}]},
        {"role": "developer", "content": "x"},
        {"content": "x"},
        {"role": "tool", "content": "x"},
    ],
    ids=lambda odd: json.dumps(odd)[:40],
)
def test_odd_messages_do_not_stop_a_compaction(world: World, odd: dict[str, Any]) -> None:
    """Whatever shape a message has, the list around it is compacted."""
    messages = Chat([*chat().turns(15), odd, *chat().turns(15, first=20)])

    compacted = world.compact(messages)

    assert world.gaps(compacted) == ([], [])


# -- focus, carried nodes ------------------------------------------------------------------------------------------------


def test_a_focus_reaches_the_summariser(world: World) -> None:
    """/compress focus: what the user asks for is in every task."""
    world.compact(long_chat(), focus="the parser", memory_context="likes tea")

    assert {(task.focus, task.memory_context) for task in world.model.tasks if task.depth == 0} == {
        ("the parser", "likes tea")
    }


def test_a_focus_asks_for_new_leaves(world: World) -> None:
    """Ready leaves know nothing of a focus that came later."""
    messages = long_chat()
    world.compact(messages)
    asked = len(world.model.tasks)
    compacted = world.compact(messages, focus="the parser")

    assert len(world.model.tasks) > asked
    assert world.gaps(compacted) == ([], [])


def test_carried_nodes_are_shown_and_stay_where_they_are(world: World) -> None:
    """After /new, summaries of the old conversation are shown by reference."""
    world.compact(long_chat(), "old")
    roots = world.dag.latest_assembly(world.session("old").conversation_id).roots
    world.sessions.carry(world.session("new").conversation_id, roots)

    compacted = world.compact(long_chat(), "new")

    assert all(f'id="sum_{node}"' in compacted[0]["content"] for node in roots)
    assert world.gaps(compacted, "new") == ([], [])


# -- several at once ----------------------------------------------------------------------------------------------------


def test_two_compactions_at_once_agree(tmp_path: Path) -> None:
    """Two processes compact the same session: each prompt is complete by itself."""
    first, second = World(tmp_path), World(tmp_path)
    messages = long_chat()
    first.take(messages)
    prompts = run(lambda: first.compact(messages.copy()), lambda: second.compact(messages.copy()))

    assert [first.gaps(prompt) for prompt in prompts] == [([], []), ([], [])]
    assert digests(first.stored()) == digests(messages)


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(6))
def test_random_conversations_stay_covered(tmp_path: Path, seed: int) -> None:
    """After every step of a random conversation: valid, complete, each message once (P1, P3, P4)."""
    rng = random.Random(seed)
    world = World(tmp_path, fresh_tail_count=rng.choice([2, 8, 64]))
    live, said = chat(), 0
    for step in range(40):
        before = len(live)
        kind = rng.random()
        if kind < 0.5:
            live.turns(rng.randint(1, 4), first=step * 10, words=rng.choice([5, 80]))
        else:
            live.user(f"task {step}").rounds(rng.randint(1, 3), first=step * 10, words=rng.choice([5, 200])).says("so")
        said += len(live) - before
        world.take(live)
        if tokens_of(live) > 3000:
            live = Chat(world.compressed(live).messages or live)
        if rng.random() < 0.1:
            world, live = world.restart(), reload(live)
        assert world.gaps(live) == ([], [])
        assert content.problems(live) == []
    assert len(world.stored()) == said


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_a_request_written_over_the_context_is_not_stored_again(world: World, restart: bool) -> None:
    """Host 0.19 puts the clean request where it stood before the compaction, over our context message: nothing is new or lost."""
    messages = chat().user("find the leak").rounds(60)
    compacted = world.compact(messages)
    overwritten = Chat([{"role": "user", "content": "find the leak"}, *compacted[1:]]).says("found it")
    if restart:
        world = world.restart()
        overwritten = reload(overwritten)
    world.take(overwritten)
    again = world.compact(Chat(overwritten).turns(40, first=300))

    assert len(world.stored()) == len(messages) + 1 + 80
    assert world.gaps(again) == ([], [])


def test_arguments_of_any_depth_do_not_stop_a_compaction(tmp_path: Path) -> None:
    """They are text that a model wrote: nobody need be able to parse them."""
    deep = "[" * 200_000 + r'"\u4f60"'
    assert (
        World(tmp_path).compressed(chat().turns(3).calls("a", arguments=deep).results("a").turns(60)).messages
        is not None
    )


# -- the beginning of the prompt -----------------------------------------------------------------------------------
class Wordy(Script):
    """Every summary has about 370 tokens."""

    def __call__(self, task: SummaryTask, *, deadline: float, cancelled: Callable[[], bool] | None = None) -> Summary:
        self.tasks.append(task)
        return self.summary(task, "verified", " ".join(f"fact-{len(self.tasks)}-{n}" for n in range(70)))

    summarise = __call__


def test_a_few_summaries_too_many_are_shown_whole(tmp_path: Path) -> None:
    """They are condensed before the next compaction; to shorten some and write them out then would break the prefix twice.

    Only so far: what needs more than half as much again, or leaves the prompt too large, is shortened as ever.
    """
    world = World(tmp_path, Wordy(), fresh_tail_count=4, incremental_max_depth=0, low_water=0.6)
    threshold, room, live, seen, n = 8000, 2000, chat(), [], 0
    while len(seen) < 10:
        live, n = live.turns(1, first=n, words=200), n + 1
        if tokens_of(live) > threshold:
            live = world.compact(live, threshold=threshold)
            transcript = world.take(live)
            assert transcript.assembly is not None
            nodes = world.dag.nodes(transcript.assembly.roots)
            whole = sum(node.text in live[0]["content"] for node in nodes)
            seen.append((context_message.prefix_tokens(nodes) / room, whole == len(nodes), tokens_of(live)))

    assert [whole for need, whole, _ in seen if need < 1.4] == [True] * sum(need < 1.4 for need, *_ in seen)
    assert sum(1 < need < 1.4 for need, *_ in seen) >= 1
    assert not any(whole for need, whole, _ in seen if need > 1.6)
    assert max(tokens for *_, tokens in seen) < 0.75 * threshold


def test_summaries_that_will_be_condensed_are_not_cut_for_a_few_tokens(tmp_path: Path) -> None:
    """What stands beside them may need the room as well: the oldest would be one line, and the prefix another one, for that."""
    world = World(tmp_path, Wordy(), fresh_tail_count=4, incremental_max_depth=0, low_water=0.3)
    live, n, seen = chat(), 0, []
    while len(seen) < 6:
        live, n = live.turns(1, first=n, words=200), n + 1
        if tokens_of(live) > 8000:
            live = world.compact(live, threshold=8000)
            assembly = world.take(live).assembly
            assert assembly is not None
            nodes = world.dag.nodes(assembly.roots)
            need = context_message.prefix_tokens(nodes) / 1680  # the prefix's part of the low-water mark
            seen.append((need, all(node.text in live[0]["content"] for node in nodes)))

    assert [whole for need, whole in seen if need < 1.4] == [True] * sum(need < 1.4 for need, _ in seen)
    assert sum(0.8 < need < 1.4 for need, _ in seen) >= 1


# -- damage --------------------------------------------------------------------------------------------------------
def test_a_damaged_message_keeps_no_other_from_being_compacted(tmp_path: Path) -> None:
    """Its summary says that it could not be read; all others of its conversation are summarised as they are (P6, P10)."""
    script = Script()
    world = World(tmp_path, script)
    messages = chat().turns(60)
    world.take(messages)
    with world.db.transaction():
        world.db.execute("UPDATE messages SET envelope = ? WHERE store_id IN (4, 7)", (b"\xff\xff",))
    outcome = world.compressed(messages, force=True)

    shown = {line.address: line.text for task in script.tasks for line in task.lines if task.depth == 0}
    assert outcome.messages is not None
    assert {name for name, text in shown.items() if "cannot be read" in text} == {"msg_4", "msg_7"}
    assert shown["msg_3"] == messages[2]["content"]
    assert world.gaps(outcome.messages) == ([], [])


def damaged(world: World, *store_ids: int) -> None:
    """What is stored of these messages cannot be read any more."""
    with world.db.transaction():
        world.db.executemany("UPDATE messages SET envelope = x'ffff' WHERE store_id = ?", [(n,) for n in store_ids])


def test_a_damaged_result_that_is_too_large_is_shortened_as_the_list_shows_it(tmp_path: Path) -> None:
    """The prompt must fit all the same (P6)."""
    world = World(tmp_path, fresh_tail_count=6)
    messages = chat().turns(40).user("go").calls("a").results("a", text="begins here\n" + "line of output\n" * 3000)
    world.take(messages)
    damaged(world, len(messages))
    outcome = world.compressed(messages)

    assert outcome.messages is not None
    assert not outcome.over_limit
    assert "begins here" in outcome.messages[-1]["content"]


def test_a_damaged_message_that_was_glued_to_our_text_goes_on_without_it(tmp_path: Path) -> None:
    """What the list shows behind our closing line is the message."""
    world = World(tmp_path, fresh_tail_count=3)
    record = world.compact(chat().turns(40))[0]
    live = Chat([{**record, "content": record["content"] + "\n\nwhat now?"}])
    damaged(world, *world.take(live).entries[0].ids)
    outcome = world.compressed(live.rounds(40))

    assert outcome.messages is not None
    assert [message["content"] for message in outcome.messages if message["role"] == "user"][1:] == ["what now?"]


# ------------------------------------------------------------
# What the user hears of a compaction: one line, with figures, once; and why one did not happen.


class Agent:
    """The host's agent, as far as a line to the user goes: it holds its engine and calls it."""

    def __init__(self, home: Path, platform: str = "cli", key: str | None = None) -> None:
        from hermes_lcm.engine import LCMEngine

        self.shown: list[str] = []
        self.platform = platform
        self.context_compressor: Any = LCMEngine()
        self.context_compressor.update_model("m", 5_333)
        about = {"hermes_home": str(home), "platform": platform, "conversation_id": key}
        self.context_compressor.on_session_start("s", **about)
        runtime = self.context_compressor.runtime
        runtime.compactor._summarise = runtime.ladder.summarise = Script()

    def _emit_status(self, text: str) -> None:
        self.shown.append(text)

    def compact(self, messages: Any, *, taken: bool = True, **wishes: Any) -> None:
        """As the host does it: ask, and say that the list was taken over."""
        out = self.context_compressor.compress(messages, **wishes)
        if out is not messages and taken:
            self.context_compressor.on_session_start("s", boundary_reason="compression", old_session_id="s")


@pytest.fixture
def agent(hermes_home: Path) -> Iterator[Agent]:
    agent = Agent(hermes_home)
    yield agent
    agent.context_compressor.runtime.preparer.stop()
    agent.context_compressor.runtime.db.close()


def test_a_compaction_says_one_line_with_its_figures(agent: Agent) -> None:
    """Messages, summaries, tokens before and after; and where they can be seen."""
    agent.compact(chat().turns(30), force=True)
    (line,) = agent.shown

    assert line.startswith("Folded ")
    assert " messages into " in line
    assert "nothing lost, `hermes lcm` shows them." in line


def test_a_compaction_that_the_host_drops_says_nothing(agent: Agent) -> None:
    """Nothing was folded then."""
    agent.compact(chat().turns(30), force=True, taken=False)

    assert agent.shown == []


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_compaction_that_did_not_happen_says_why_once(agent: Agent, goes_on: bool) -> None:
    """The host asks again in each turn; nobody wants to read it each time. Host 0.18 goes on as if the list had been folded."""
    for _ in range(2):
        agent.compact(chat().turns(1), force=True)
        if goes_on:
            agent.context_compressor.on_session_start("s", boundary_reason="compression", old_session_id="s")

    assert agent.shown == ["Did not fold old messages: only the newest messages are left, and they stay as they are."]


def test_a_chat_turns_its_lines_off_and_on(agent: Agent) -> None:
    """The choice is the chat's and outlasts the process; the host's own text is silent with it."""
    engine = agent.context_compressor
    engine.runtime.observe("s", chat().turns(1))
    deps = operator_access(engine.runtime, engine.runtime.find_session("s"), engine)
    off = answer("notices off", deps)
    agent.compact(chat().turns(30), force=True)
    quiet, asked = list(agent.shown), engine.get_automatic_compaction_status_message(phase="compress")
    answer("notices on", deps)

    assert (off.data["notices"], quiet, asked) == (False, [], None)
    assert engine.get_automatic_compaction_status_message(phase="compress") == compress.BEGINS


def test_a_gateways_chat_hears_only_the_line_with_the_figures(hermes_home: Path) -> None:
    """Newer hosts ask before a pass for what to say; two lines would be one too many in a chat."""
    engine = Agent(hermes_home, platform="telegram", key="agent:main:telegram:dm:1").context_compressor

    assert engine.get_automatic_compaction_status_message(phase="compress", default_message="x") is None
    engine.runtime.db.close()


OUTCOME = Outcome([], "compacted", 51_000, 36_400, assembly_id=1, folded=84, leaves=3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Folded 84 messages into 3 summaries (51k to 36k tokens, 0.4 s); nothing lost, /lcm shows them."),
        ({"provisional": 1}, " 1 part is an extract until a model answers."),
        ({"over_limit": True}, " The prompt is still above its threshold."),
        ({"folded": 0, "leaves": 0}, "Shortened the prompt (51k to 36k tokens, 0.4 s)"),
        ({"assembly_id": 0}, "; not stored by the plugin, still in Hermes' own transcript."),
    ],
)
def test_the_line_is_honest(changes: dict[str, Any], said: str) -> None:
    """What is not whole is said."""
    assert said in compress.folded(dataclasses.replace(OUTCOME, **changes), 0.41, "/lcm shows them")


@pytest.mark.parametrize(("trusted", "where"), [(True, "at this terminal"), (False, "in this chat")])
def test_the_answer_says_whose_lines_are_meant(agent: Agent, trusted: bool, where: str) -> None:
    """At a terminal they are those of all its sessions; there is no chat."""
    engine = agent.context_compressor
    engine.runtime.observe("s", chat().turns(1))
    deps = replace(operator_access(engine.runtime, engine.runtime.find_session("s"), engine), trusted=trusted)

    assert answer("notices off", deps).text.startswith(f"Compactions say nothing {where} (chosen here).")
