"""Summaries ready before they are needed: written in the background, adopted by the next compaction (P5, P6, P9)."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from worlds.process import WAIT_S, Chat, Script, World, chat, interrupted_at, run, texts, tokens_of

from hermes_lcm import command
from hermes_lcm.compaction import background, plan
from hermes_lcm.errors import StoreError, StoreFull
from hermes_lcm.ops.orders import Orders, Rotation
from hermes_lcm.ops.survey import Survey
from hermes_lcm.records import Summary, SummaryTask

FLOOR = 4000


def small(tmp_path: Path, *moves: str) -> World:
    """A process that prepares as soon as ``FLOOR`` tokens lie outside the tail."""
    return World(tmp_path, Script(*moves), leaf_chunk_tokens=FLOOR, fresh_tail_count=8, condensation_fanin=50)


def long_chat() -> Chat:
    """Well above the floor, in one tool-free conversation."""
    return chat().turns(80)


def turn_ends(world: World, messages: Chat, session_id: str = "s") -> None:
    """What the host's hook says after a turn."""
    world.preparer.after_turn(world.session(session_id), world.request(messages, session_id))


def prepared(world: World, messages: Chat, session_id: str = "s") -> list[Any]:
    """The nodes that are there when the worker has nothing left to do."""
    turn_ends(world, messages, session_id)
    assert world.preparer.idle(WAIT_S)
    return world.nodes()


def until(true: Callable[[], bool]) -> bool:
    """Wait for what must happen."""
    end = time.monotonic() + WAIT_S
    while not true() and time.monotonic() < end:
        time.sleep(0.005)
    return true()


# -- leaves --------------------------------------------------------------------------------------------------------


def test_a_long_backlog_is_summarised_ahead_of_time(tmp_path: Path) -> None:
    """Once what lies outside the tail reaches the floor, leaves are written after a turn."""
    nodes = prepared(small(tmp_path), long_chat())

    assert nodes
    assert {(node.depth, node.quality) for node in nodes} == {(0, "verified")}


def test_a_short_backlog_is_left(tmp_path: Path) -> None:
    """Below the floor nobody is asked: larger chunks make better summaries."""
    world = small(tmp_path)

    assert (prepared(world, chat().turns(12)), world.model.tasks) == ([], [])


def test_the_tail_is_not_summarised(tmp_path: Path) -> None:
    """What stays raw is in no leaf."""
    world = small(tmp_path)
    messages = long_chat()
    nodes = prepared(world, messages)

    newest = [entry.ids[0] for entry in world.take(messages).entries[-8:]]
    assert not set(newest) & set(world.dag.messages_below([node.node_id for node in nodes]))


def test_what_is_prepared_shows_nowhere(tmp_path: Path) -> None:
    """Preparing changes no prompt: the list is governed by nothing yet."""
    world = small(tmp_path)
    messages = long_chat()
    prepared(world, messages)

    assert world.take(messages).assembly is None


def test_a_compaction_adopts_what_is_prepared(tmp_path: Path) -> None:
    """The user waits for no model: every leaf of the prompt was there before."""
    world = small(tmp_path)
    messages = long_chat()
    ready = {node.node_id for node in prepared(world, messages)}
    asked = len(world.model.tasks)
    compacted = world.compact(messages, threshold=4000)

    assembly = world.take(compacted).assembly
    assert assembly is not None
    assert set(assembly.roots) & ready == ready
    assert len(world.model.tasks) == asked
    assert world.gaps(compacted) == ([], [])


def read_on(messages: Chat, tokens: int) -> None:
    """More files are read until the list has so many tokens."""
    while tokens_of(messages) <= tokens:
        n = len(messages)
        messages.calls(f"c{n}", arguments=f'{{"path": "{n}"}}').results(
            f"c{n}", text=f"file {n}: " + "river stone " * 300
        )


def test_results_that_fit_beside_what_is_prepared_stay_whole(tmp_path: Path) -> None:
    """A little that came behind what is ready is not asked for while the user waits, and nothing that fits is a reference."""
    world = small(tmp_path)
    messages = chat().turns(80)
    prepared(world, messages)
    asked, before = len(world.model.tasks), tokens_of(messages)
    read_on(messages, before + 300)
    compacted = world.compact(messages, threshold=tokens_of(messages))

    assert len(world.model.tasks) == asked
    assert 300 < tokens_of(compacted) <= 0.6 * tokens_of(messages)
    assert not any("[lcm:stub" in str(message["content"]) for message in compacted)


def qualities(world: World, messages: Chat) -> set[str]:
    """Of the summaries that a list shows."""
    assembly = world.take(messages).assembly
    assert assembly is not None
    return {node.quality for node in world.dag.nodes(assembly.roots)}


def test_what_a_fold_leaves_raw_does_not_depend_on_how_far_the_worker_came(tmp_path: Path) -> None:
    """A little that no leaf covers is an extract, until a model reads it: carried along raw it would be paid for each time."""
    world = small(tmp_path)
    messages = chat().turns(80)
    prepared(world, messages)
    messages.turns(4, first=80)
    asked = len(world.model.tasks)
    compacted = world.compact(messages, threshold=tokens_of(messages))
    shown = texts(compacted)

    assert len(world.model.tasks) == asked
    assert qualities(world, compacted) == {"verified", "provisional"}
    assert sum(text in shown for text in texts(messages)) <= 8
    prepared(world, compacted)
    assert qualities(world, world.compact(compacted.turns(20, first=84), threshold=3000)) == {"verified"}


def rest_left(world: World) -> tuple[Chat, Any]:
    """A list after a fold in which no leaf covered the last of it, and the node that stands for that."""
    messages = chat().turns(80)
    prepared(world, messages)
    compacted = world.compact(messages.turns(4, first=80), threshold=tokens_of(messages))
    return compacted, next(node for node in world.nodes() if node.quality == "provisional")


def shows(world: World, messages: Chat, node: Any) -> bool:
    assembly = world.take(messages).assembly
    return assembly is not None and node.node_id in assembly.roots


def test_a_little_that_no_leaf_covered_is_summarised_with_what_follows(tmp_path: Path) -> None:
    """A call of its own would read more instructions than conversation."""
    world = small(tmp_path)
    compacted, rest = rest_left(world)
    asked = len(world.model.tasks)
    prepared(world, compacted.turns(4, first=84))
    alone = len(world.model.tasks) - asked
    prepared(world, compacted.turns(80, first=90))
    listed = len(compacted) - 1
    outcome = world.compressed(compacted, threshold=tokens_of(compacted))
    again = Chat(outcome.messages or [])

    covering = world.model.tasks[asked]
    assert alone == 0
    assert covering.lines[0].address == f"msg_{rest.first_store_id}"
    assert len(covering.lines) > rest.message_count
    assert not shows(world, again, rest)
    assert world.gaps(again) == ([], [])
    assert outcome.folded < listed
    assert Survey(world.db).provisional(limit=10) == []


def test_such_a_little_waits_also_while_nothing_lies_outside_the_tail(tmp_path: Path) -> None:
    """Just behind a compaction all that is raw is the tail."""
    world = small(tmp_path)
    compacted, _ = rest_left(world)
    asked = len(world.model.tasks)
    roomy = replace(world.config, fresh_tail_count=500, tail_share=0.8)
    request = world.request(compacted.turns(3, first=90), threshold=20_000, config=roomy)
    world.preparer.after_turn(world.session("s"), request)

    assert world.preparer.idle(WAIT_S)
    assert len(world.model.tasks) == asked


def test_such_a_little_is_never_covered_in_part(tmp_path: Path) -> None:
    """Also where a summary over its first messages came late, and a pass goes chunk by chunk."""
    world = small(tmp_path)
    compacted, rest = rest_left(world)
    first = tuple(world.dag.sources(rest.node_id)[:3])
    late = world.compactor.leaf_ahead(world.session("s"), plan.Chunk(first, 300), world.request(compacted))
    compacted.turns(60, first=100)
    chunkwise = replace(world.config, dynamic_leaf_chunk_enabled=True, dynamic_leaf_chunk_max=FLOOR)
    again = world.compact(compacted, threshold=tokens_of(compacted), config=chunkwise)

    assert late is not None
    assert not shows(world, again, late)
    assert world.gaps(again) == ([], [])


@pytest.mark.parametrize("move", ["raise", "provisional"])
def test_such_a_little_is_covered_once_while_no_model_answers(tmp_path: Path, move: str) -> None:
    """It grows into the next extract, and a model reads both when one answers."""
    world = small(tmp_path)
    compacted, rest = rest_left(world)
    world.model.moves[:] = [move]
    again = world.compact(compacted.turns(20, first=100), threshold=3000)
    without = shows(world, again, rest), world.gaps(again)
    world.model.moves[:] = ["ok"]
    mended = world.compact(Chat(again).turns(60, first=200), threshold=3000)

    assert without == (False, ([], []))
    assert world.gaps(mended) == ([], [])
    assert qualities(world, mended) == {"verified"}


def test_such_a_little_is_covered_once_by_whichever_process_folds_it(tmp_path: Path) -> None:
    """Two compact the same list, the first is killed behind its leaf; each prompt covers everything."""
    world = small(tmp_path)
    compacted, rest = rest_left(world)
    compacted.turns(40, first=100)
    threshold = tokens_of(compacted)
    with patch.object(world.compress_pass, "publish", side_effect=StoreError("killed")), suppress(StoreError):
        world.compressed(compacted, threshold=threshold, force=True)
    other = World(tmp_path, Script(), **world.settings)
    theirs = other.compact(Chat(compacted), threshold=threshold)
    ours = world.compact(Chat(compacted), threshold=threshold)

    assert not shows(world, ours, rest)
    assert world.gaps(ours) == ([], [])
    assert other.gaps(theirs) == ([], [])
    assert other.model.tasks == []


def test_what_an_operator_purged_of_such_a_little_is_read_by_nobody(tmp_path: Path) -> None:
    """What remains of it is covered once."""
    world = small(tmp_path)
    compacted, rest = rest_left(world)
    gone = world.dag.sources(rest.node_id)[1]
    words = world.store.text(gone)
    deps = replace(world.runtime.access(None, trusted=True), home=world.folder)
    command.answer(f"purge messages msg_{gone} apply", deps)
    asked = len(world.model.tasks)
    again = world.compact(compacted.turns(60, first=100), threshold=tokens_of(compacted))

    assert world.gaps(again) == ([], [])
    assert words not in str(again)
    assert words not in str(world.model.tasks[asked:])


def test_a_dissolved_little_is_written_anew(tmp_path: Path) -> None:
    """What an operator dissolved does not come back under another summary's name."""
    world = small(tmp_path)
    compacted, rest = rest_left(world)
    Orders(world.db).dissolve(rest.node_id, now=1.0)
    world.model.moves[:] = ["raise"]
    again = world.compact(compacted.turns(20, first=100), threshold=3000)

    assert not shows(world, again, rest)
    assert world.gaps(again) == ([], [])


def test_a_branch_leaves_the_little_of_its_parent_as_it_is(tmp_path: Path) -> None:
    """It is another conversation's node; the branch covers its own messages."""
    world = small(tmp_path)
    compacted, rest = rest_left(world)
    forked = world.take(compacted).last_seq
    world.session("b", parent=world.session("s"), origin="branch", fork_seq=forked)
    branched = Chat(compacted).turns(40, first=500)
    prepared(world, branched, "b")
    theirs = world.compact(branched, "b", threshold=tokens_of(branched))
    again = world.compact(compacted.turns(60, first=100), threshold=tokens_of(compacted))

    assert world.gaps(theirs, "b") == ([], [])
    assert world.gaps(again) == ([], [])
    assert not shows(world, again, rest)


def test_a_request_between_such_a_little_and_what_follows_stays_where_it_is(tmp_path: Path) -> None:
    """No summary reaches over the request that is being worked on, in whichever turn the little was left over."""
    world = small(tmp_path)
    messages = chat().turns(80).user("the long job: read all the files")
    read_on(messages, tokens_of(messages) + 6000)
    prepared(world, messages)
    read_on(messages, tokens_of(messages) + 100)
    compacted = world.compact(messages, threshold=tokens_of(messages))
    read_on(compacted, tokens_of(compacted) + 6000)
    prepared(world, compacted)
    again = world.compact(compacted, threshold=tokens_of(compacted))

    assert sum("the long job" in str(message["content"]) for message in again if message["role"] == "user") >= 1
    assert world.gaps(again) == ([], [])
    assert world.gaps(world.compact(again.says("done").turns(40, first=200), threshold=tokens_of(again))) == ([], [])


def test_a_prompt_at_its_low_water_mark_waits_for_no_model(tmp_path: Path) -> None:
    """What is ready frees as much as any pass would."""
    world = World(
        tmp_path, Script(), leaf_chunk_tokens=FLOOR, fresh_tail_count=200, tail_share=0.55, low_water=0.8,
        condensation_fanin=50,
    )  # fmt: skip
    messages = chat().turns(80)
    threshold = tokens_of(messages) + 100
    world.preparer.after_turn(world.session("s"), world.request(messages, threshold=threshold))
    assert world.preparer.idle(WAIT_S)
    asked = len(world.model.tasks)
    world.compact(messages.turns(1, first=80), threshold=threshold)

    assert asked
    assert len(world.model.tasks) == asked


def test_much_that_is_not_prepared_is_asked_for_at_the_compaction(tmp_path: Path) -> None:
    """Hundreds of requests would carry it along; what is ready is not asked for again."""
    world = small(tmp_path)
    messages = chat().turns(80)
    prepared(world, messages)
    asked, before = len(world.model.tasks), tokens_of(messages)
    read_on(messages, before + 4000)
    compacted = world.compact(messages, threshold=tokens_of(messages))

    lines = [line.address for task in world.model.tasks for line in task.lines]
    assert len(world.model.tasks) == asked + 1
    assert len(lines) == len(set(lines))
    assert tokens_of(compacted) <= 0.35 * tokens_of(messages)


def test_nothing_is_written_for_a_list_that_a_compaction_has_folded(tmp_path: Path) -> None:
    """What still waits when a pass begins is out of date: it would buy the same messages a second time."""
    world = small(tmp_path)
    messages = long_chat()
    with world.runtime.foreground:  # the worker lets the host go first
        turn_ends(world, messages)
        world.preparer.give_up(world.session().conversation_id)
        world.compact(messages, threshold=4000)
    asked = len(world.model.tasks)
    assert world.preparer.idle(WAIT_S)

    assert asked
    assert len(world.model.tasks) == asked


def test_what_is_being_written_is_waited_for_and_used(tmp_path: Path) -> None:
    """It comes sooner than an answer that is asked for now, and is paid for already."""
    world = small(tmp_path)
    model, held = world.model, threading.Event()
    write = model.__call__

    def slow(task: SummaryTask, **wishes: Any) -> Summary:
        held.wait(WAIT_S)
        return write(task, **wishes)

    world.runtime.compactor._summarise = slow
    messages = long_chat()
    turn_ends(world, messages)
    conversation = world.session().conversation_id
    assert until(lambda: conversation in world.preparer._working)
    threading.Timer(0.3, held.set).start()
    world.preparer.give_up(conversation)
    compacted = world.compact(
        messages, threshold=4000, settled=lambda: world.preparer.settled(conversation, time.monotonic() + WAIT_S)
    )

    lines = [line.address for task in model.tasks for line in task.lines]
    assert len(lines) == len(set(lines))
    assert world.gaps(compacted) == ([], [])


def test_what_is_prepared_is_not_written_again(tmp_path: Path) -> None:
    """The next turns ask for what is new, never for the same."""
    world = small(tmp_path)
    messages = long_chat()
    first = prepared(world, messages)
    again = prepared(world, messages.turns(3, first=200))

    asked = [line.address for task in world.model.tasks for line in task.lines]
    assert again[: len(first)] == first
    assert len(asked) == len(set(asked))


def test_what_was_prepared_in_the_middle_of_a_turn_is_used_after_it(tmp_path: Path) -> None:
    """The request that stood raw meanwhile is covered too, beside the leaves and without a call of its own."""
    world = small(tmp_path)
    messages = chat().turns(40).user("look at all of it").rounds(60).says("seen")
    ready = {node.node_id for node in prepared(world, messages)}
    messages.turns(6, first=300)
    asked = len(world.model.tasks)
    compacted = world.compact(messages, threshold=tokens_of(messages))

    assembly = world.take(compacted).assembly
    assert assembly is not None
    assert set(assembly.roots) > ready > set()
    assert len(world.model.tasks) == asked
    assert world.gaps(compacted) == ([], [])


def test_a_little_behind_the_latest_request_waits(tmp_path: Path) -> None:
    """What a leaf of its own would not be worth is written with what comes."""
    world = small(tmp_path)
    messages = chat().turns(60).user("look at all of it").rounds(6).says("seen")
    request = next(n for n, message in enumerate(messages) if message["content"] == "look at all of it")
    covered = {address for node in prepared(world, messages) for address in world.dag.sources(node.node_id)}

    rows = world.take(messages).entries
    assert covered
    assert covered.isdisjoint(store_id for entry in rows[request:] for store_id in entry.ids)


def test_a_new_chat_is_planned_before_the_worker_gives_way(tmp_path: Path) -> None:
    """A host that never pauses would else have it wait for its threshold."""
    world = small(tmp_path)
    messages, planned = long_chat(), []
    request = world.request(messages, threshold=100_000, window=130_000)
    world.preparer.after_turn(world.session(), request, look=lambda *_: planned.append(due_early(world)))

    assert until(lambda: bool(planned))
    assert planned[0]


def test_a_chat_that_does_not_pause_is_planned_anew_after_each_turn(tmp_path: Path) -> None:
    """What is due would else be what its first turns made of it, however it has grown."""
    world = small(tmp_path)
    planned_ahead(world)
    first = world.preparer.folds()["s"]
    session = world.session()
    with world.runtime.foreground:
        world.preparer.after_turn(session, world.request(long_chat().turns(4), threshold=100_000, window=130_000))
        assert until(lambda: bool(world.preparer.state()["running"]))
        world.preparer.give_up(session.conversation_id)
        assert world.preparer.idle(WAIT_S)

    assert world.preparer.folds()["s"] != first


def planned_ahead(world: World) -> None:
    """A turn of a long chat has ended, far below its threshold."""
    world.preparer.after_turn(world.session(), world.request(long_chat(), threshold=100_000, window=130_000))
    assert world.preparer.idle(WAIT_S)


def due_early(world: World, **settings: Any) -> bool:
    """Is the next compaction of the long chat due before its threshold of 100,000 tokens?"""
    return world.preparer.fold("s", 100_000, replace(world.config, **settings)).due < 100_000


def test_where_nothing_is_written_ahead_the_next_compaction_is_planned_all_the_same(tmp_path: Path) -> None:
    """Who wants no model behind the turns pays no more for requests."""
    world = small(tmp_path)
    silent = World(tmp_path / "silent", background_compaction=False)
    for each in (world, silent):
        planned_ahead(each)

    assert due_early(world)
    assert due_early(silent)
    assert silent.model.tasks == []


def test_a_restarted_process_knows_when_the_next_compaction_is_due(tmp_path: Path) -> None:
    """What status said before is what it does."""
    world = small(tmp_path)
    planned_ahead(world)
    world.runtime.save_states()
    told = world.preparer.fold("s", 100_000, world.config)
    world = world.restart()
    world.take(long_chat())

    assert told.due < 100_000
    assert world.preparer.fold("s", 100_000, world.config) == told


def test_a_smaller_window_makes_no_fold_earlier_than_any_is(tmp_path: Path) -> None:
    """What a fold leaves does not shrink with the window; in a larger one it is due as much later."""
    world = small(tmp_path)
    planned_ahead(world)
    planned = world.preparer.fold("s", 100_000, world.config).due

    assert [world.preparer.fold("s", size, world.config).due for size in (24_000, 70_000, 500_000)] == [
        24_000, min(70_000, planned), planned * 5,
    ]  # fmt: skip
    assert "cheaper" not in world.preparer.fold("s", 24_000, world.config).why


def test_a_process_that_looks_on_hears_of_a_plan_of_another_one(tmp_path: Path) -> None:
    """Such as the dashboard's, which read the file before; whatever it planned itself before that is old."""
    world = small(tmp_path)
    planned_ahead(world)
    world.runtime.save_states()
    watching = World(tmp_path)
    watching.take(long_chat())
    before = due(watching)
    later = world.request(long_chat().turns(4), threshold=100_000, window=200_000)
    world.preparer.after_turn(world.session(), later)
    assert world.preparer.idle(WAIT_S)
    world.runtime.save_states()
    now = world.preparer.fold("s", 100_000, world.config).due

    assert before < now == due(watching)
    watching.runtime.save_states()
    assert due(world.restart()) == now


def test_status_says_that_a_rotation_comes_with_the_next_message(tmp_path: Path) -> None:
    """However few tokens there are."""
    world = small(tmp_path)
    planned_ahead(world)
    world.runtime.orders.rotate(Rotation("s"))
    assert due(world) == 0
    world.runtime.orders.rotated("s")
    assert due(world) > 0


def due(world: World) -> int:
    """At how many tokens status says that the next compaction is due."""
    engine = SimpleNamespace(
        model="m", provider="", base_url="", context_length=130_000, threshold_tokens=100_000, last_prompt_tokens=0,
        counted_tokens=0, compactions=0, fallback_context=False, last_compression={}, session_id="s", cache=Counter(),
        config=world.config, runtime=world.runtime, name="lcm",
    )  # fmt: skip
    state = command.engine_state(world.runtime, world.session(), engine)
    return int(state.background["next_fold"]["due"])


def test_a_plan_that_cannot_be_read_counts_for_nothing(tmp_path: Path) -> None:
    """The threshold stands until the next turn has ended."""
    world = small(tmp_path)
    world.take(long_chat())
    world.health.keep({background.FOLDS: {"s": [5, "much"], "t": "soon", "v": [5, 1.0, "why", 10]}})
    world.preparer.read_kept()

    assert {world.preparer.fold(name, 100_000, world.config).due for name in ("s", "t", "u", "v")} == {100_000}


def test_a_plan_of_a_clock_that_was_ahead_counts_for_nothing(tmp_path: Path) -> None:
    """It would be the newest for years."""
    world = small(tmp_path)
    planned_ahead(world)
    planned = world.preparer.fold("s", 100_000, world.config)
    world.health.keep({background.FOLDS: {"s": [5, 1.0, "why", 10, time.time() + 1e8]}})
    world.preparer.read_kept()

    assert world.preparer.fold("s", 100_000, world.config) == planned
    assert world.preparer.folds()["s"][1:3] == [planned.saves, planned.why]


def test_a_threshold_that_was_set_for_another_model_is_exact_at_once(tmp_path: Path) -> None:
    """A model was chosen after the plan was made; the plan still is of the one before."""
    world = small(tmp_path)
    planned_ahead(world)

    assert due_early(world)
    assert not due_early(world, fold_early="off")


def test_what_was_prepared_and_did_not_fit_is_counted(tmp_path: Path) -> None:
    """A pass for a subject writes leaves of its own, so those that were ready were paid for nothing."""
    world = small(tmp_path)
    messages = long_chat()
    ready = len(prepared(world, messages))
    outcome = world.compressed(messages, force=True, focus="rivers")

    assert outcome.leaves
    assert outcome.unused == ready > 0


def test_nothing_that_a_compaction_uses_counts_as_unused(tmp_path: Path) -> None:
    """Leaves that were ready, and those that a later pass condensed."""
    world = small(tmp_path)
    messages = long_chat()
    prepared(world, messages)
    outcome = world.compressed(messages)

    assert outcome.leaves
    assert outcome.unused == 0


def test_a_restarted_process_finds_what_was_prepared(tmp_path: Path) -> None:
    """Leaves are kept, whoever wrote them."""
    world = small(tmp_path)
    messages = long_chat()
    prepared(world, messages)
    world = world.restart(Script("raise"))
    compacted = world.compact(messages, threshold=4000)

    assert world.model.tasks == []
    assert tokens_of(compacted) < 4000


def test_the_newest_state_of_a_session_counts(tmp_path: Path) -> None:
    """Turns that end while the worker is busy are one job, not a queue."""
    world = small(tmp_path, "hang", "ok")
    messages = long_chat()
    turn_ends(world, messages, "other")
    assert until(lambda: len(world.model.tasks) == 1)
    for n in range(5):
        turn_ends(world, messages.turns(3, first=300 + 3 * n))
    waiting = world.preparer.state()["waiting_sessions"]
    world.model.release.set()

    assert waiting == 1
    assert world.preparer.idle(WAIT_S)


@pytest.mark.parametrize("reason", ["switched off", "not stored"])
def test_nothing_is_prepared_where_it_is_not_wanted(tmp_path: Path, reason: str) -> None:
    """The setting, and sessions that leave no trace."""
    world = World(tmp_path, leaf_chunk_tokens=FLOOR, background_compaction=reason != "switched off")
    session = world.session()
    mode = "stateless" if reason == "not stored" else "full"
    world.preparer.after_turn(replace(session, mode=mode), world.request(long_chat()))

    assert world.preparer.idle(WAIT_S)
    assert (world.nodes(), world.model.tasks) == ([], [])


# -- many chats ---------------------------------------------------------------------------------------------------------


class Taking(Script):
    """Notes whose messages each summary is of; one chat's model hangs until it is let."""

    def __init__(self, world: Callable[[], World], hangs: str = "") -> None:
        super().__init__("ok")
        self.world = world
        self.hangs = hangs
        self.served: list[str] = []

    def __call__(self, task: SummaryTask, **limits: Any) -> Summary:
        store_id = int(task.lines[0].address.removeprefix("msg_"))
        name = self.world().store.heads_of([store_id])[store_id].session_id
        self.served.append(name)
        if name == self.hangs:
            self.release.wait(WAIT_S)
        return super().__call__(task, **limits)

    summarise = __call__


def busy(folder: Path, names: Sequence[str], *, workers: int, hangs: str = "") -> tuple[World, Taking]:
    """Turns of many chats end while the workers are held up: all of them wait."""
    model = Taking(lambda: world, hangs)
    world = World(
        folder, model, leaf_chunk_tokens=FLOOR, fresh_tail_count=8, summary_parallelism=workers, condensation_fanin=50
    )
    now = [0.0]
    world.runtime.foreground._monotonic = lambda: now[0]
    with world.runtime.foreground:
        for name in names:
            turn_ends(world, chat().turns(200, first=1000 * len(model.tasks) + 300 * names.index(name)), name)
    now[0] = 100.0
    return world, model


def firsts(served: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(served))


def test_the_chat_that_waits_longest_is_served_first(tmp_path: Path) -> None:
    """Those that come later do not push in, and none takes all the time: each gets its share and waits again."""
    names = [f"chat {n}" for n in range(6)]
    world, model = busy(tmp_path, names, workers=1)
    assert world.preparer.idle(WAIT_S)

    assert firsts(model.served) == names
    assert max(len(list(group)) for _, group in groupby(model.served[:12])) <= 3
    assert Counter(model.served)["chat 0"] > 3


def test_only_so_many_chats_wait_for_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that waits keeps its whole list in memory; one that came too many waits for its next turn."""
    monkeypatch.setattr(background, "_MOST_JOBS", 3)
    names = [f"chat {n}" for n in range(6)]
    world, model = busy(tmp_path, names, workers=1)
    assert world.preparer.state()["waiting_sessions"] <= 3
    assert world.preparer.idle(WAIT_S)
    served = firsts(model.served)
    turn_ends(world, chat().turns(200, first=5000), names[-1])
    assert world.preparer.idle(WAIT_S)

    assert 3 <= len(served) <= 4  # and the one that was taken at once
    assert firsts(model.served) == [*served, names[-1]]


def test_a_model_that_hangs_for_one_chat_holds_up_no_other(tmp_path: Path) -> None:
    """There are several workers, and a chat has no more than one of them."""
    names = [f"chat {n}" for n in range(5)]
    world, model = busy(tmp_path, names, workers=2, hangs="chat 0")

    assert until(lambda: set(model.served) == set(names))
    assert Counter(model.served)["chat 0"] == 1
    model.release.set()
    assert world.preparer.idle(WAIT_S)


# -- two processes ---------------------------------------------------------------------------------------------------


def test_two_processes_do_not_write_the_same_leaf(tmp_path: Path) -> None:
    """What one has taken the other leaves alone, though both know the session."""
    one, two = small(tmp_path, "hang", "ok"), small(tmp_path)
    messages = long_chat()
    turn_ends(one, messages)
    assert until(lambda: len(one.model.tasks) == 1)
    prepared(two, messages)
    one.model.release.set()
    assert one.preparer.idle(WAIT_S)

    asked = [task.lines[0].address for task in [*one.model.tasks, *two.model.tasks]]
    assert len(asked) == len(set(asked))


def test_two_processes_at_once_do_no_harm(tmp_path: Path) -> None:
    """Both prepare the same session at the same moment: no leaf is there twice, and the next prompt is complete."""
    worlds = [small(tmp_path), small(tmp_path)]
    messages = long_chat()
    worlds[0].take(messages)
    run(*[lambda world=world: prepared(world, messages) for world in worlds])  # type: ignore[misc]

    leaves = [node.fingerprint for node in worlds[0].nodes()]
    assert len(leaves) == len(set(leaves)) > 0
    assert worlds[0].gaps(worlds[0].compact(messages, threshold=4000)) == ([], [])


def test_the_lease_of_a_dead_process_ends(tmp_path: Path) -> None:
    """What somebody took and never finished is taken up again after a while."""
    dead, heir = small(tmp_path, "hang"), small(tmp_path)
    messages = long_chat()
    turn_ends(dead, messages)
    assert until(lambda: len(dead.model.tasks) == 1)
    dead.preparer.stop()
    heir.runtime.leases._clock = lambda: time.time() + 3600.0
    covered = heir.dag.messages_below([node.node_id for node in prepared(heir, messages)])

    first = heir.take(messages).entries[0].ids[0]
    dead.model.release.set()
    assert first in covered


# -- repair ------------------------------------------------------------------------------------------------------------


def extracted(tmp_path: Path) -> tuple[World, Chat]:
    """A prompt of extracts, in a process whose model answers again."""
    world = small(tmp_path, "provisional")
    compacted = world.compact(long_chat(), threshold=4000)
    return world.restart(Script("ok")), compacted


def test_extracts_are_repaired_when_the_model_is_back(tmp_path: Path) -> None:
    """The next turn writes what the last compaction could not; the next compaction shows it."""
    world, compacted = extracted(tmp_path)
    prepared(world, compacted.turns(1, first=300))
    again = world.compact(compacted.turns(60, first=400), threshold=4000)

    assert "provisional=" in str(compacted[0]["content"])
    assert "provisional=" not in str(again[0]["content"])
    assert world.gaps(again) == ([], [])


def test_a_repair_is_done_and_counted_once(tmp_path: Path) -> None:
    """Until the next compaction shows it, the prompt goes on showing the extract: that is no reason to begin again."""
    world, compacted = extracted(tmp_path)
    poor = [node for node in world.nodes() if node.quality == "provisional"]
    for n in range(3):
        prepared(world, compacted.turns(1, first=300 + n))

    assert world.health.counters["nodes_repaired"] == len(poor)


def test_a_repair_covers_the_same_messages(tmp_path: Path) -> None:
    """A better node for the same sources, beside the extract: nothing is changed in place (P2)."""
    world, compacted = extracted(tmp_path)
    before = {node.node_id: node for node in world.nodes()}
    after = prepared(world, compacted)

    new = [node for node in after if node.replaces is not None]
    assert new
    assert all(world.dag.sources(node.node_id) == world.dag.sources(node.replaces) for node in new)
    assert [before[node.node_id] for node in after if node.node_id in before] == list(before.values())


def test_a_model_that_is_still_away_is_asked_once_per_turn(tmp_path: Path) -> None:
    """One extract that comes back poor is answer enough for this turn."""
    world = small(tmp_path, "provisional")
    compacted = world.compact(chat().turns(300, words=120), threshold=4000)
    asked = len(world.model.tasks)
    prepared(world, compacted.turns(1, first=900))

    assert len([node for node in world.nodes() if node.quality == "provisional"]) > 1
    assert len(world.model.tasks) <= asked + 1


class Picky(Script):
    """A good model that has no answer for what begins with one of these messages."""

    def __init__(self, *refused: str) -> None:
        super().__init__("ok")
        self.refused = refused

    def __call__(self, task: SummaryTask, *, deadline: float, cancelled: Callable[[], bool] | None = None) -> Summary:
        found = super().__call__(task, deadline=deadline, cancelled=cancelled)
        return self.extract(task) if task.lines[0].address in self.refused else found

    summarise = __call__


def test_a_stand_in_is_not_made_ahead_of_time(tmp_path: Path) -> None:
    """One is made at once when it is needed: a worker that keeps those of every turn fills the database with them."""
    world = small(tmp_path, "provisional")
    messages = long_chat()
    for n in range(3):
        messages = messages.turns(1, first=500 + n)
        prepared(world, messages)

    assert len(world.model.tasks) > 1
    assert world.nodes() == []


def test_what_no_model_can_write_is_asked_about_ever_less_often(tmp_path: Path) -> None:
    """A chunk that is refused grows with each turn, and is still the same chunk."""
    world = small(tmp_path, "provisional")
    messages = long_chat()
    for n in range(16):
        messages = messages.turns(2, first=500 + 10 * n)
        prepared(world, messages)

    begun = [task.lines[0].address for task in world.model.tasks]
    assert begun.count("msg_1") == 5  # in turns 1, 2, 4, 8 and 16


def test_one_refused_chunk_does_not_keep_the_others_from_being_prepared(tmp_path: Path) -> None:
    """Behind it the work goes on in the next turns."""
    world = World(tmp_path, Picky("msg_1"), leaf_chunk_tokens=FLOOR, fresh_tail_count=8, condensation_fanin=50)
    messages = chat().turns(300)
    for n in range(6):
        messages = messages.turns(2, first=500 + 10 * n)
        prepared(world, messages)

    covered = world.dag.messages_below([node.node_id for node in world.nodes()])
    assert world.nodes()
    assert not {1} & set(covered)


def test_one_refused_repair_does_not_keep_the_others_from_being_made(tmp_path: Path) -> None:
    """The others are asked about first from then on, and the refused one not in every turn."""
    world = small(tmp_path, "provisional")
    compacted = world.compact(chat().turns(300, words=120), threshold=4000)
    poor = world.take(compacted).assembly
    assert poor is not None
    assert len(poor.roots) > 2
    picky = Picky("msg_1")
    world = world.restart(picky)
    for n in range(16):
        compacted = compacted.turns(2, first=900 + 10 * n)
        prepared(world, compacted)

    assert world.health.counters["nodes_repaired"] == len(poor.roots) - 1
    assert [task.lines[0].address for task in picky.tasks].count("msg_1") <= 8


# -- ends and failures ---------------------------------------------------------------------------------------------------


def test_a_stopped_worker_takes_nothing_new(tmp_path: Path) -> None:
    """After stop() turns end without consequences."""
    world = small(tmp_path)
    world.preparer.stop()

    assert (prepared(world, long_chat()), world.model.tasks) == ([], [])


def test_a_busy_worker_ends_at_its_next_step(tmp_path: Path) -> None:
    """stop() does not wait for a model; what is running is given up when it answers."""
    world = small(tmp_path, "hang", "ok")
    turn_ends(world, chat().turns(400, words=80))
    assert until(lambda: len(world.model.tasks) == 1)
    world.preparer.stop()
    world.model.release.set()

    assert until(lambda: world.preparer._threads == 0)
    assert len(world.model.tasks) == 1


def test_no_thread_before_there_is_work(tmp_path: Path) -> None:
    """A process that only looks on starts nothing."""
    before = threading.active_count()
    small(tmp_path).take(chat().turns(3))

    assert threading.active_count() == before


@pytest.mark.parametrize("number", range(1, 9))
def test_a_failing_statement_leaves_nothing_half_done(tmp_path: Path, number: int) -> None:
    """Wherever the store fails under the worker: whole leaves or none, a problem in status, and the next turn succeeds."""
    world = small(tmp_path)
    messages = long_chat()
    request = world.request(messages)
    with world.failing_at(number, StoreError("the disk is full")) as tried:
        world.preparer.after_turn(world.session(), request)
        assert world.preparer.idle(WAIT_S)
        failed = tried() >= number
    counts = world.counts()
    assert counts["nodes"] == counts["node_index"]
    assert all(world.dag.sources(node.node_id) for node in world.nodes())

    assert prepared(world, messages.turns(3, first=300))
    assert failed
    assert world.health.problems() == []


def test_what_failed_is_done_after_the_next_turn(tmp_path: Path) -> None:
    """However little that turn adds: the worker has not seen what it could not work on."""
    world = small(tmp_path)
    messages = long_chat()
    request = world.request(messages)
    with world.failing_at(1, StoreError("the disk is full")):
        world.preparer.after_turn(world.session(), request)
        assert world.preparer.idle(WAIT_S)

    assert prepared(world, messages)


def test_a_stored_message_does_not_end_what_the_worker_could_not_write(tmp_path: Path) -> None:
    """A disk may have room for a message and none for a summary: status shows it until the worker succeeds."""
    world = small(tmp_path)
    messages = long_chat()
    request = world.request(messages)
    with world.failing_at(1, StoreFull("the disk is full")):
        world.preparer.after_turn(world.session(), request)
        assert world.preparer.idle(WAIT_S)
    before = world.health.problems()
    world.runtime.ingest_list("s", messages.turns(1, first=300))

    assert [problem.topic for problem in before] == ["background worker"]
    assert world.health.problems() == before
    assert prepared(world, messages)
    assert world.health.problems() == []


def test_a_prompt_of_a_file_that_is_not_in_use_any_more_ends_no_worker(tmp_path: Path) -> None:
    """The file was exchanged between the turn and its work: the next turn's work is done."""
    world = small(tmp_path)
    messages = world.compact(long_chat())
    request = world.request(messages)
    assert request.transcript.assembly is not None
    elsewhere = replace(request.transcript.assembly, conversation_id=99)
    other = replace(request, transcript=replace(request.transcript, assembly=elsewhere))
    world.preparer.after_turn(world.session(), other)
    assert world.preparer.idle(WAIT_S)

    (problem,) = world.health.problems()
    assert "conversation 99 of a file that is not in use" in problem.message
    prepared(world, messages.turns(1, first=300))
    assert world.health.problems() == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("error", [MemoryError("no more"), sqlite3.OperationalError("odd")], ids=["memory", "sqlite"])
def test_an_error_that_nobody_expects_ends_one_worker_only(tmp_path: Path, error: Exception) -> None:
    """It is remembered, and the next turn starts another worker."""
    world = small(tmp_path)
    messages = long_chat()
    plain = world.model.__class__.__call__
    world.compactor._summarise = lambda *_, **__: (_ for _ in ()).throw(error)
    prepared(world, messages)
    remembered = [problem.topic for problem in world.health.problems()]
    world.compactor._summarise = lambda *args, **keys: plain(world.model, *args, **keys)

    assert remembered == ["background worker"]
    assert until(lambda: world.preparer._threads == 0)
    world.preparer._clock = lambda: time.time() + 3600.0
    assert prepared(world, messages.turns(3, first=300))


def test_ctrl_c_while_a_pass_begins_keeps_no_other_turn_waiting(tmp_path: Path) -> None:
    preparer, n = small(tmp_path).preparer, 1
    while interrupted_at(n, lambda: preparer.give_up(1)):
        run(lambda: preparer.give_up(1))
        n += 1

    assert n > 1
