"""Replay: what settings would have made of the archive's newest day."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from worlds.home import Home

from hermes_lcm import command
from hermes_lcm.compaction import plan
from hermes_lcm.config import load
from hermes_lcm.ops import replay
from hermes_lcm.ops.replay import Said
from hermes_lcm.search.scope import OWN_SESSION

PRICES = plan.DEFAULT


def talk(requests: int, tokens: int = 1_000) -> list[Said]:
    """A user's question and an answer, so often."""
    return [Said(role, tokens, True) for _ in range(requests) for role in ("user", "assistant")]


def day(requests: int, beside: int = 0, **settings: object) -> replay.Replayed:
    config = replay.tried(load({}), settings)
    return replay.replay([talk(requests)], config, window=100_000, prices=PRICES, beside=beside)


def test_a_lower_threshold_compacts_more_often_and_sends_less() -> None:
    low, high = day(200, context_threshold=0.3), day(200, context_threshold=0.9)

    assert low.compactions > high.compactions > 0
    assert low.largest <= 30_000 < high.largest <= 90_000
    assert low.mean < high.mean


def test_a_longer_tail_leaves_more_messages_as_they_are() -> None:
    assert day(200, tail_share=0.3, context_threshold=0.5).raw_per_fold > day(200, context_threshold=0.5).raw_per_fold


def test_smaller_chunks_are_more_summaries() -> None:
    assert day(200, leaf_chunk_tokens=5_000).summaries > day(200).summaries


def test_a_short_conversation_comes_to_the_same_whatever_is_set() -> None:
    assert day(5, context_threshold=0.3) == day(5)


def test_messages_before_the_day_are_in_the_prompt_and_not_in_the_figures() -> None:
    old = [Said(each.role, each.tokens, False) for each in talk(4)]
    found = replay.replay([[*old, *talk(1)]], load({}), window=100_000, prices=PRICES)

    assert found.requests == 1
    assert found.largest == 9_000


def test_what_comes_with_each_request_is_told_by_what_was_measured(tmp_path: Path) -> None:
    """Behind a compaction the prompt holds its summary, its tail and what came since."""
    world = Home(tmp_path)
    world.say(*["word " * 400] * 8)
    folded = world.assembly([world.node(1, 2, 3, 4)], [5], 5)
    (root,) = world.runtime.dag.nodes(folded.roots)
    world.raw("UPDATE messages SET stored_at = 5 WHERE store_id < 6")
    world.raw("UPDATE assemblies SET created_at = 6")
    (one,) = {row[0] for row in world.runtime.db.query("SELECT tokens FROM messages")}
    shown = [root.tokens + one, root.tokens + 3 * one]  # when messages 6 and 8 were asked for
    world.runtime.costs.note("s1", requests=2, prompt=sum(shown) + 2 * 500)
    world.runtime.costs.save()
    said = command.answer("config explain context_threshold 0.4", world.deps(trusted=True, context_length=20_000))

    assert said.data["replay"]["beside_messages"] == 500


def test_what_comes_with_each_request_is_the_same_under_all_settings(tmp_path: Path) -> None:
    """As it was measured, not as today's settings would have had it: else a preset changes what the next replay says."""
    world = Home(tmp_path)
    world.say(*["word " * 400] * 80)
    world.runtime.costs.note("s1", requests=40, prompt=40 * 20_000)
    world.runtime.costs.save()
    now = world.deps(trusted=True, context_length=40_000)
    later = replace(now, config=replay.tried(now.config, {"context_threshold": 0.25}))
    found = [command.answer("config explain context_threshold 0.5", each).data["replay"] for each in (now, later)]

    assert found[0]["beside_messages"] == found[1]["beside_messages"] > 0
    assert found[0]["days"]["with 0.5"] == found[1]["days"]["with 0.5"]


def test_a_setting_is_explained_with_what_another_value_would_have_changed(tmp_path: Path) -> None:
    world = Home(tmp_path)
    world.say(*["word " * 400] * 40)
    deps = world.deps(trusted=True, context_length=20_000)
    said = command.answer("config explain context_threshold 0.4", deps)
    days = said.data["replay"]["days"]

    assert days["with 0.4"]["largest_prompt"] < days["now"]["largest_prompt"]
    assert "with 0.4" in said.text
    assert "40 messages in 1 conversation" in said.text


def test_a_value_that_is_not_accepted_is_refused_and_one_without_a_fold_says_so(tmp_path: Path) -> None:
    deps = Home(tmp_path).deps(None, trusted=True)

    assert "expected a fraction" in command.run("config explain context_threshold much", deps)
    assert "cannot show" in command.run("config explain dashboard off", deps)
    assert "Nothing is stored yet" in command.run("config explain context_threshold 0.5", deps)


def test_a_chat_replays_its_own_conversation_only(tmp_path: Path) -> None:
    world = Home(tmp_path)
    world.say(*["mine"] * 4, session="s1")
    world.say(*["theirs"] * 6, session="s2")
    said = command.answer("preset suggest", replace(world.deps("s1"), rights=OWN_SESSION))

    assert said.data["replay"]["messages"] == 4


@pytest.mark.parametrize(
    ("compactions", "turns", "warned"),
    [(11, 30, True), (10, 30, False), (1, 2, False)],
    ids=["often", "seldom", "once"],
)
def test_compactions_that_come_more_often_than_every_third_turn_are_warned_of(
    compactions: int, turns: int, warned: bool
) -> None:
    figures = dict.fromkeys(
        ("requests", "summaries", "largest_prompt", "mean_prompt", "raw_messages_kept", "dollars"), 1
    )
    data = {
        "conversations": 1, "messages": 99, "turns": turns, "beside_messages": 0, "prices": "stated", "window": 100_000,
        "days": {"now": {**figures, "threshold": 50_000, "compactions": compactions}},
    }  # fmt: skip

    assert ("more than one in three turns" in "\n".join(replay.text(data))) is warned
