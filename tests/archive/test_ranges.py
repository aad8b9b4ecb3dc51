"""The agent's own archive: ranges hidden by a placeholder, taken over by compactions, shown again, never lost or shown twice."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from worlds.archive import Agent
from worlds.process import Chat, Script, World, alternates, chat

from hermes_lcm.archive import ranges
from hermes_lcm.archive.costs import TokenCosts, length
from hermes_lcm.errors import BadRequest, NotFound
from hermes_lcm.ops.doctor import clean
from hermes_lcm.ops.survey import Survey
from hermes_lcm.recall import describe, expand
from hermes_lcm.recall.arguments import Address
from hermes_lcm.recall.paging import Room, dumps
from hermes_lcm.schemas import SCHEMAS
from hermes_lcm.text import content, markup, tokens


def talk(turns: int = 6, *, words: int = 120) -> Chat:
    """Turns with a tool round each: user, call, result, answer."""
    out = chat()
    for n in range(turns):
        out.user(" ".join([f"question {n}", *["please"] * (words // 15)])).calls(f"c{n}", arguments='{"command": "ls"}')
        out.results(f"c{n}", text=" ".join(f"line{n}x{k}" for k in range(words))).says(
            " ".join([f"answer {n}", *["so"] * words])
        )
    return out


def contents(messages: Any) -> list[str]:
    return [content.text_of(message["content"]) for message in messages]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, Script("ok"), fresh_tail_count=8)


@pytest.fixture
def agent(world: World) -> Agent:
    return Agent(world)


# -- store -------------------------------------------------------------------------------------------------------------
def test_the_next_request_shows_the_placeholder(agent: Agent) -> None:
    """In place of the range; the host's own list is as it was."""
    live = talk()
    before = copy.deepcopy(live)

    made = agent.call(live, "store", start_index=4, end_index=7, summary="Turn 1 went well.")
    prompt = agent.prompt(live)

    assert live == before
    assert made["archived"] == "4..7"
    assert [m for m in prompt if m in live] == [*live[:4], *live[8:]]
    assert contents(prompt).count(made["placeholder"]) == 1
    assert alternates(prompt)
    assert agent.changes == 1


def test_the_preview_shows_calls_as_they_read(agent: Agent) -> None:
    """As summarisers see them: characters, where the provider sent escapes."""
    live = talk()
    live[5]["tool_calls"][0]["function"]["arguments"] = json.dumps({"command": "grep größe"})
    made = agent.call(live, "store", start_index=4, end_index=7, max_preview_chars=400)

    assert "Assistant: [calls terminal] command: grep größe Tool:" in made["placeholder"]


def test_the_placeholder_says_what_it_stands_for(agent: Agent) -> None:
    """The format of the specification, the agent's words, how the range begins."""
    made = agent.call(
        talk(), "store", start_index=4, end_index=7, summary="Kept:\n a, b [[and c]]", max_preview_chars=5
    )

    first, second, third = made["placeholder"].splitlines()
    facts = f"range=4..7 messages=4 chars={made['chars']} tokens={made['tokens']}"
    assert first == f"[[memory archived handle={made['memory_handle']} {facts}]]"
    assert made["memory_handle"].startswith("mem://s/")
    assert second == "Summary: Kept: a, b [ [and c] ]"
    assert third == f"Preview: {'User: question 1 please please please please please'[:40]}...(truncated)"


@pytest.mark.parametrize(("auto", "summary"), [(True, "question 1 please"), (False, "(none given)")])
def test_without_a_summary(agent: Agent, auto: bool, summary: str) -> None:
    """The first line and how much there is, if that was asked for."""
    made = agent.call(talk(), "store", start_index=4, end_index=7, auto=auto)

    assert made["placeholder"].splitlines()[1].startswith(f"Summary: {summary}")
    assert ("(4 msgs)" in made["placeholder"]) is auto


@pytest.mark.parametrize(("first", "last"), [(5, 5), (6, 6), (4, 5), (6, 9)])
def test_a_tool_call_is_archived_with_its_results(agent: Agent, first: int, last: int) -> None:
    """P3: widened, and said so."""
    live = talk()

    made = agent.call(live, "store", start_index=first, end_index=last)

    assert made["widened"].startswith(f"{first}..{last} cut through")
    assert content.problems(agent.prompt(live)) == []


def running(turns: int = 4) -> Chat:
    """A list in the middle of a turn: the last message calls the tool that is running."""
    return talk(turns).user("and now?").calls("r0").results("r0", text="much " * 400).calls("now", tool="lcm_archive")


@pytest.mark.parametrize(
    ("first", "last", "why"),
    [
        pytest.param(12, 16, "16 is the user's latest request", id="latest-request"),
        pytest.param(16, 16, "16 is the user's latest request", id="only-the-latest-request"),
        pytest.param(17, 19, "19 is the tool call that is running", id="running-call"),
        pytest.param(0, 400, "give a range within 0 to 19", id="past-the-end"),
        pytest.param(7, 4, "the start first", id="backwards"),
        pytest.param(None, 4, "needs start_index and end_index", id="no-start"),
        pytest.param(2, None, "needs start_index and end_index", id="no-end"),
        pytest.param(-1, 4, "start_index=-1 is not accepted", id="negative"),
    ],
)
def test_what_may_not_be_archived_is_refused(agent: Agent, first: int | None, last: int | None, why: str) -> None:
    """A clear error, and nothing has changed."""
    live = running()
    before = agent.prompt(live)

    with pytest.raises(BadRequest, match=why):
        agent.call(live, "store", start_index=first, end_index=last)

    assert agent.call(live, "list")["archives"] == []
    assert agent.prompt(live) == before
    assert agent.changes == 0


def test_within_the_running_turn_results_may_be_archived(agent: Agent) -> None:
    """Behind the latest request, before the running call."""
    live = running()

    agent.store(live, 17, 18, summary="Looked.")

    assert [m for m in agent.prompt(live) if m in live] == [*live[:17], live[19]]


@pytest.mark.parametrize(("first", "last"), [(4, 7), (2, 5), (7, 12), (0, 15)])
def test_ranges_do_not_overlap(agent: Agent, first: int, last: int) -> None:
    """The archive in the way is named."""
    live = talk()
    handle = agent.store(live, 4, 7)

    with pytest.raises(BadRequest, match=f"overlaps {handle}"):
        agent.store(live, first, last)

    assert len(agent.call(live, "list")["archives"]) == 1


def test_a_range_around_an_older_one_stands_for_all_of_it(agent: Agent) -> None:
    """A message stood in the midst of the older one when the larger was archived; then the host dropped it."""
    live = talk()
    agent.store(live, 4, 7)
    agent.store(Chat([*live[:7], *chat().says("Wait."), *live[7:]]), 0, 12)

    assert agent.request(live).state == "applied"


def test_neighbours_may_be_archived_one_by_one(agent: Agent) -> None:
    """Two placeholders in a row are a valid chat."""
    live = talk()

    agent.store(live, 4, 7)
    agent.store(live, 8, 11)
    agent.store(live, 0, 3)

    assert alternates(agent.prompt(live))
    assert [m for m in agent.prompt(live) if m in live] == live[12:]


def test_a_range_that_saves_nothing_is_refused(agent: Agent) -> None:
    """A placeholder costs something too."""
    with pytest.raises(BadRequest, match="choose a longer range"):
        agent.store(chat().user("hi").says("hello").turns(2), 0, 1)


def test_the_record_of_the_past_cannot_be_archived(world: World, agent: Agent) -> None:
    """It is our own text; what is in it has left the prompt already."""
    live = world.compact(talk(12), force=True, threshold=1500)

    with pytest.raises(BadRequest, match="index 0 is our context message"):
        agent.store(live, 0, 1)


# -- load, list, history -----------------------------------------------------------------------------------------------
def test_load_pages_come_to_the_exact_messages(agent: Agent) -> None:
    """P7: each page says how to go on; joined they are the archive."""
    live = talk()
    handle = agent.store(live, 4, 15)
    got: list[dict[str, Any]] = []
    after = 0
    while True:
        page = agent.call(live, "load", room=700, memory_handle=handle, after_store_id=after)
        got += page["messages"]
        if not page["has_more"]:
            break
        assert page["continue_with"]["after_store_id"] == page["next_cursor"]
        after = page["next_cursor"]

    assert [(m["index"], m["role"]) for m in got] == [(n, live[n]["role"]) for n in range(4, 16)]
    assert [m["content"] for m in got if not m["content_truncated"]] == [
        live[m["index"]]["content"] for m in got if not m["content_truncated"]
    ]
    assert all(m["continue_with"]["tool"] == "lcm_expand" for m in got if m["content_truncated"])
    assert after, "one page held everything, so nothing was shown"


def test_load_changes_nothing(agent: Agent) -> None:
    live = talk()
    handle = agent.store(live, 4, 7)
    before = agent.prompt(live)

    agent.call(live, "load", memory_handle=handle)

    assert agent.prompt(live) == before


def test_history_shows_what_can_be_chosen(agent: Agent) -> None:
    """Index, role, size, how it begins, what covers or protects it; paged."""
    live = running()
    handle = agent.store(live, 4, 7)
    lines: list[dict[str, Any]] = []
    ask: dict[str, Any] = {}
    while True:
        page = agent.call(live, "history", limit=6, **ask)
        lines += page["messages"]
        if not page["has_more"]:
            break
        ask = {"start_index": page["continue_with"]["start_index"]}

    assert [line["index"] for line in lines] == list(range(20))
    assert [line["role"] for line in lines] == [m["role"] for m in live]
    assert [n for n, line in enumerate(lines) if line.get("archived") == handle] == [4, 5, 6, 7]
    assert {n: line["protected"] for n, line in enumerate(lines) if "protected" in line} == {
        16: "the user's latest request",
        19: "the tool call that is running",
    }
    assert all(line["address"] == f"msg_{n + 1}" for n, line in enumerate(lines))
    assert lines[0]["preview"].startswith("question 0")


def test_list_says_where_each_archive_is(world: World, agent: Agent) -> None:
    """Hidden from requests, in the context message, shown again, or gone."""
    live = talk(10)
    first, second = agent.store(live, 0, 3), agent.store(live, 4, 7)
    where = lambda: [item["where"].split(",")[0] for item in agent.call(live, "list")["archives"]]  # noqa: E731
    assert where() == ["hidden from requests", "hidden from requests"]
    agent.call(live, "restore", memory_handle=first)
    assert where() == ["restored: shown as messages", "hidden from requests"]

    live = world.compact(live, force=True, threshold=2000)

    assert where()[1].startswith("in the context message as sum_")
    assert second in live[0]["content"]


# -- restore -----------------------------------------------------------------------------------------------------------
def test_restored_messages_are_the_very_same(agent: Agent) -> None:
    """While they are in the host's list, restoring is to hide them no longer."""
    live = talk()
    before = agent.prompt(live)
    handle = agent.store(live, 4, 11)
    live.turns(10)

    done = agent.call(live, "restore", memory_handle=handle)

    assert done["restored"] is True
    assert done["insert_position"] == 4
    assert agent.prompt(live)[: len(before)] == before
    assert agent.call(live, "restore", memory_handle=handle)["notes"][0].startswith("it was restored before")


def test_wishes_that_cannot_be_followed_are_answered(agent: Agent) -> None:
    """No argument is silently ignored."""
    live = talk()
    handle = agent.store(live, 4, 11)

    done = agent.call(
        live,
        "restore",
        memoryHandle=handle,
        restoreInsertIndex=100,
        removePlaceholder=False,
        replacePlaceholderWith="x",
    )

    assert [note.split()[0].split("=")[0] for note in done["notes"]] == [
        "restore_insert_index",
        "replace_placeholder_with",
        "the",
    ]


def test_after_a_compaction_the_messages_come_back_in_their_place(world: World, agent: Agent) -> None:
    """Raw, valid, in order, between the record and the rest; the record no longer shows their placeholder."""
    live = talk(10)
    handle = agent.store(live, 28, 31)
    kept = world.compact(live, force=True, threshold=4000)
    assert live[28] not in kept

    done = agent.call(kept, "restore", memory_handle=handle)
    prompt = agent.prompt(kept)

    assert done["as"] == "live messages"
    assert contents(prompt)[contents(prompt).index(live[28]["content"]) :][:4] == contents(live[28:32])
    assert handle not in "".join(contents(prompt))
    assert handle in kept[0]["content"]
    assert content.problems(prompt) == []
    assert alternates(prompt)


def test_restored_messages_of_one_role_are_kept_apart(world: World, agent: Agent) -> None:
    """The host dropped the answer between two requests; next to each other it would join them to one."""
    live = chat().turns(10, words=250)
    world.take(live, "s")
    del live[5]
    live.user("and now?").says("that is all")
    handle = agent.store(live, 4, 5)
    kept = world.compact(live, narrow=True, threshold=5000)
    assert live[4] not in kept

    agent.call(kept, "restore", memory_handle=handle)
    prompt = agent.prompt(kept)

    at = contents(prompt).index(live[4]["content"])
    assert contents(prompt)[at + 2] == live[5]["content"]
    assert markup.read_carrier(contents(prompt)[at + 1]) is not None
    assert alternates(prompt)


def test_a_list_that_ends_with_a_carrier_of_ours_says_nothing_more(world: World, agent: Agent) -> None:
    """An answer was archived, the request behind it undone, and another process sees what is left; then somebody copies it."""
    live = chat().turns(10, words=250).user("and now?").says("that is all")
    agent.store(live, 5, 5)
    kept = world.compact(live, narrow=True, threshold=5000)
    (at,) = [n for n, each in enumerate(contents(kept)) if n > 1 and markup.read_carrier(each) is not None]
    world = world.restart()
    world.take(Chat(kept[: at + 1]))
    assert not [each for each in contents(world.stored()) if "[lcm:carrier" in each]

    world.take(
        Chat(
            [
                *kept[: at + 1],
                {"role": "user", "content": "again"},
                {"role": "assistant", "content": kept[at]["content"]},
            ]
        )
    )
    assert len([each for each in contents(world.stored()) if "[lcm:carrier" in each]) == 1


def test_what_was_restored_is_compacted_like_any_other_message(world: World, agent: Agent) -> None:
    """The next pass covers it once, without its placeholder."""
    live = talk(10)
    handle = agent.store(live, 4, 7)
    live = world.compact(live, force=True, threshold=2000)
    agent.call(live, "restore", memory_handle=handle)

    live = world.compact(Chat([*live, *talk(8)[4:]]), force=True, threshold=2000)

    assert world.gaps(live) == ([], [])
    assert handle not in live[0]["content"]


def test_where_requests_cannot_be_changed_the_messages_are_quoted(world: World, agent: Agent) -> None:
    """And the answer says that this is what it is."""
    live = talk(10)
    handle = agent.store(live, 4, 7)
    live = world.compact(live, force=True, threshold=2000)
    agent.rewritable = False

    done = agent.call(live, "restore", memory_handle=handle)

    assert (done["restored"], done["as"]) == (False, "quoted block")
    assert done["messages"][0]["content"] == talk(10)[4]["content"]
    assert "quoted" in done["notes"][0]
    assert agent.prompt(live)[0] == live[0]


# -- prune -------------------------------------------------------------------------------------------------------------
def test_prune_forgets_archives_without_a_placeholder(world: World, agent: Agent) -> None:
    """Never one that is shown, never a message."""
    live = talk(10)
    gone, kept = agent.store(live, 4, 7), agent.store(live, 8, 11)
    agent.call(live, "restore", memory_handle=gone)
    stored = world.counts()["messages"]

    done = agent.call(live, "prune")

    assert (done["pruned"], done["remaining"]) == ([gone], 1)
    assert [item["memory_handle"] for item in agent.call(live, "list")["archives"]] == [kept]
    assert world.counts()["messages"] == stored
    with pytest.raises(NotFound, match="there is no archive"):
        agent.call(live, "load", memory_handle=gone)


# -- compaction --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("force", [False, True], ids=["threshold", "forced"])
def test_a_compaction_makes_one_node_of_an_archive(world: World, agent: Agent, force: bool) -> None:
    """Its text is the placeholder; no other node covers the messages; everything is covered once."""
    live = talk(12)
    handle = agent.store(live, 4, 11, summary="Turns 1 and 2.")

    after = world.compact(live, force=force, threshold=2500)

    assert world.gaps(after) == ([], [])
    node = next(node for node in world.nodes() if node.rung == "archive")
    assert world.dag.sources(node.node_id) == list(range(5, 13))
    assert node.text == ranges.text_of(world.runtime.archives.of(world.session())[0])
    assert f"[[memory archived handle={handle} range=4..11" in after[0]["content"]
    assert 'archived="by you, with lcm_archive" summary="written by you, not verified"' in after[0]["content"]
    assert alternates(after)


def test_ready_leaves_over_archived_messages_are_not_used(world: World, agent: Agent) -> None:
    """What was summarised ahead of time is not shown beside the placeholder."""
    live = talk(14, words=400)
    request = world.request(live, threshold=9000)
    world.preparer.after_turn(world.session(), request)
    assert world.preparer.idle(10)
    assert [node for node in world.nodes() if node.depth == 0], "nothing was prepared, so nothing is shown"

    agent.store(live, 8, 11)
    after = world.compact(live, threshold=9000)

    assert world.gaps(after) == ([], [])


def test_no_summary_reaches_over_an_archive(world: World, agent: Agent) -> None:
    """What is before it and what is after it are told apart, so that the record stays in order."""
    live = talk(12)
    agent.store(live, 8, 11)

    world.compact(live, force=True, threshold=2500)

    leaves = [world.dag.sources(node.node_id) for node in world.nodes() if node.rung != "archive"]
    assert leaves
    assert all(max(ids) <= 8 or min(ids) > 12 for ids in leaves)


def test_no_model_replaces_what_the_agent_wrote(world: World, agent: Agent) -> None:
    """P5: never repaired, never condensed, not counted as a missing summary."""
    live = talk(12)
    handle = agent.store(live, 4, 11, summary="Turns 1 and 2.")
    for n in range(6):
        live = world.compact(Chat([*live, *chat().turns(12, first=100 * n)]), force=True, threshold=2500)

    assert handle in live[0]["content"]
    node = next(node for node in world.nodes() if node.rung == "archive")
    assert world.dag.parents(node.node_id) == []
    assert node.quality == "provisional"


def test_only_what_was_archived_leaves_the_list_in_a_narrow_pass(world: World, agent: Agent) -> None:
    """For hosts whose requests cannot be rewritten: nothing else is summarised, no model is asked."""
    live = talk(10)
    handle = agent.store(live, 4, 11)

    after = world.compact(live, threshold=100_000, narrow=True)

    assert [m for m in after if m in live] == [*live[:4], *live[12:]]
    assert handle in after[0]["content"]
    assert world.model.tasks == []
    assert alternates(after)
    assert world.gaps(after) == ([], [])


@pytest.mark.parametrize(("first", "last"), [(0, 0), (1, 2), (3, 4), (3, 3), (5, 6), (1, 3), (0, 6), (4, 6)])
def test_gaps_of_every_shape_keep_the_chat_valid(world: World, agent: Agent, first: int, last: int) -> None:
    """P3: hosts merge neighbours of one role in place; a line of ours keeps them apart, and is known when it comes back."""
    live = talk(10, words=4000)
    agent.store(live, first, last)

    after = world.compact(live, threshold=100_000, narrow=True)

    assert alternates(after)
    assert world.gaps(after) == ([], [])
    assert world.counts()["messages"] == len(live)


# -- what the user and the host do -------------------------------------------------------------------------------------
def test_archives_survive_a_restart(world: World, agent: Agent) -> None:
    """Better than the specification asks: they are in the database."""
    live = talk()
    handle = agent.store(live, 4, 7)

    again = Agent(world.restart())

    assert again.call(live, "list")["archives"][0]["memory_handle"] == handle
    assert [m for m in again.prompt(live) if m in live] == [*live[:4], *live[8:]]


def test_after_an_undo_into_the_range_the_latest_request_is_shown(agent: Agent) -> None:
    """What the user asked last is never hidden."""
    live = talk()
    agent.store(live, 4, 15)

    prompt = agent.prompt(Chat(live[:13]))

    assert prompt[-1] == live[12]
    assert [m for m in prompt if m in live] == [*live[:4], live[12]]


def test_a_rotated_session_keeps_its_archives(world: World, agent: Agent) -> None:
    """Another session id, the same conversation."""
    live = talk()
    handle = agent.store(live, 4, 7)
    world.session("t", parent=world.session("s"), origin="rotation")

    assert Agent(world, "t").call(live, "list")["archives"][0]["memory_handle"] == handle


def test_a_branch_and_its_parent_restore_apart(world: World, agent: Agent) -> None:
    """What is restored in one of them stays archived in the other."""
    live = talk()
    handle = agent.store(live, 4, 7)
    world.session("b", parent=world.session("s"), origin="branch", fork_seq=len(live))
    branch = Agent(world, "b")
    world.take(live, "b")

    branch.call(live, "restore", memory_handle=handle)

    assert branch.prompt(live) == live
    assert [m for m in agent.prompt(live) if m in live] == [*live[:4], *live[8:]]


def test_what_a_parent_restores_later_stays_archived_in_its_branch(world: World, agent: Agent) -> None:
    """The branch has what there was when it began, however late it first looks."""
    live = talk()
    handle = agent.store(live, 4, 7)
    world.session("b", parent=world.session("s"), origin="branch", fork_seq=len(live))
    agent.now = 5.0
    agent.call(live, "restore", memory_handle=handle)

    assert [m for m in Agent(world, "b").prompt(live) if m in live] == [*live[:4], *live[8:]]


@pytest.mark.parametrize(("first", "last", "edited"), [(4, 7, 6), (7, 7, 7)], ids=["one-of-four", "the-only-one"])
def test_a_message_that_the_host_edits_stays_archived(
    world: World, agent: Agent, first: int, last: int, edited: int
) -> None:
    """Hosts shorten messages in place, also twice; the newest version is part of the range."""
    live = talk()
    agent.dear = True
    agent.store(live, first, last)
    for text in ("cut by the host", "cut again by the host"):
        live[edited] = {**live[edited], "content": text}
        live.turns(1)
        assert text not in contents(agent.prompt(live))

    after = world.compact(live, force=True, threshold=2500)

    assert world.gaps(after) == ([], [])
    assert not any("cut again by the host" in text for text in contents(after))


# -- privacy -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("operation", ["load", "restore"])
def test_a_foreign_archive_is_like_none(world: World, agent: Agent, operation: str) -> None:
    """P8: the same words for somebody else's handle and for one that never was."""
    handle = agent.store(talk(), 4, 7)
    world.session("x", platform="telegram", host_key="agent:main:telegram:dm:7")
    stranger = Agent(world, "x", principal="telegram:dm:7")
    said = []
    for asked in (handle, handle[:-4] + "0000"):
        with pytest.raises(NotFound) as refused:
            stranger.call(talk(2), operation, memory_handle=asked)
        said.append(str(refused.value).replace(asked, "?"))

    assert said[0] == said[1]
    assert stranger.call(talk(2), "list")["archives"] == []


# -- advice and accounting ---------------------------------------------------------------------------------------------
def test_from_70_percent_on_the_earliest_range_that_helps_is_named(agent: Agent) -> None:
    """It leads below 60 %, and can be archived as it is."""
    live = talk(20)
    agent.window, agent.used = 10_000, 7_500

    advice = agent.call(live, "history")["advice"]
    made = agent.call(live, "store", start_index=advice["start_index"], end_index=advice["end_index"])

    assert advice["start_index"] == 0
    assert advice["leads_to_share"] < 0.6
    assert "widened" not in made
    assert made["saves_tokens"] == pytest.approx(advice["saves_tokens"], rel=0.1)


def test_below_70_percent_nothing_is_advised(agent: Agent) -> None:
    agent.window, agent.used = 10_000, 6_900

    assert "advice" not in agent.call(talk(), "list")


def test_costs_are_what_the_provider_counted() -> None:
    """The difference of two counts is what came between them, whatever the estimate says."""
    live = talk(4)
    counts = TokenCosts()
    for n, counted in ((4, 1000), (8, 1700), (12, 1900)):
        counts.note(n, counted, 0)

    costs = counts.of(live)

    assert (costs.tokens(4, 8), costs.tokens(8, 12), costs.tokens(4, 12)) == (700, 200, 900)
    assert costs.tokens(4, 5) == round(700 * length(live[4]) / sum(map(length, live[4:8])))
    assert costs.tokens(12, 16) == pytest.approx(
        sum(map(length, live[12:])) * 900 / sum(map(length, live[4:12])), abs=2
    )


def test_a_shorter_list_or_another_view_is_another_account() -> None:
    """After a compaction, an /undo, or a new archive, counts cannot be compared."""
    live = talk(4)
    fresh = TokenCosts().of(live).tokens(4, 8)
    for points in ([(12, 9000, 0), (8, 5000, 0)], [(4, 5000, 0), (8, 9000, 1)]):
        counts = TokenCosts()
        for point in points:
            counts.note(*point)
        assert counts.of(live).tokens(4, 8) == fresh


def test_history_of_a_long_list_fits_its_page(agent: Agent) -> None:
    """The host cuts longer answers by itself."""
    page = agent.call(chat().turns(150), "history", limit=200)

    assert tokens.count(dumps(page)) <= 8400
    assert page["has_more"]


def test_a_preview_cannot_pose_as_a_placeholder() -> None:
    """Archived text is data."""
    summary, preview = "a\n[[memory archived handle=mem://x/1]]", "b\nc"
    text = ranges.text_of(
        ranges.Archive(1, "mem://s/1", 1, "s", (1, 2), 0, 1, 2, summary, True, preview, 3, 4, "archived", 0.0, 0.0)
    )

    assert text.count("[[memory archived") == 1
    assert len(text.splitlines()) == 3


# -- elsewhere ---------------------------------------------------------------------------------------------------------
def test_a_restored_archive_that_fills_the_window_is_announced(agent: Agent) -> None:
    """Otherwise the next compaction takes away at once what was just brought back."""
    live = talk()
    handle = agent.store(live, 4, 11)
    agent.used, agent.threshold = 5000, 5100

    assert "will be compacted at 5100" in agent.call(live, "restore", memory_handle=handle)["notes"][0]


def test_the_node_of_an_archive_can_be_opened(world: World, agent: Agent) -> None:
    """lcm_describe and lcm_expand know it like any other summary."""
    live = talk(12)
    handle = agent.store(live, 4, 7)
    world.compact(live, force=True, threshold=2500)
    node = next(node for node in world.nodes() if node.rung == "archive")

    described = describe.describe(agent.caller(), Address("sum", node.node_id), 0, 0, Room.of(8000))
    opened = expand.summary(agent.caller(), node.node_id, expand.Sources(), 0, Room.of(8000))

    assert handle in dumps(described)
    assert all(text in dumps(opened) for text in contents(live[4:8]))


def test_an_archive_is_no_summary_that_is_missing(world: World, agent: Agent) -> None:
    """P9: doctor and status do not wait for a model to write it."""
    live = talk(12, words=400)
    agent.store(live, 4, 7)
    world.compact(live, threshold=100_000, narrow=True)

    assert Survey(world.db).provisional(limit=10) == []
    assert world.dag.by_depth() == {(0, "archived"): 1}


def test_a_conversation_with_archives_can_be_removed(world: World, agent: Agent) -> None:
    """By the operator's command, which leaves no row that points at one that is gone."""
    agent.store(talk(), 4, 7)
    with world.db.transaction():
        for statement in clean.DELETE:
            world.db.execute(statement, (1,))

    assert world.db.query("SELECT count(*) FROM archives") == [(0,)]


def test_all_tools_together_cost_little() -> None:
    """Their schemas are part of every request."""
    assert tokens.count(dumps(list(SCHEMAS))) <= 3000
