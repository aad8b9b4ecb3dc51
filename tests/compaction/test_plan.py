"""What a compaction will do, and when it is due by prices: pure functions from sizes to a plan (P3, P4, P6)."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lcm.compaction import plan
from hermes_lcm.compaction.plan import DEFAULT, LOCAL, Budget, Chunk, Prices, Prompt, Unit, next_fold, priced, saving
from hermes_lcm.host import facts
from hermes_lcm.records import Node


def unit(n: int, tokens: int = 100, role: str = "assistant", *, at: float | None = None, whole: bool = True) -> Unit:
    """The unit that shows row ``n`` at place ``n`` of the list."""
    return Unit((n,), tokens, role, at, n, n + 1, whole)


def units(*sizes: int) -> list[Unit]:
    return [unit(n, size, "assistant" if n % 2 else "user") for n, size in enumerate(sizes, 1)]


UNITS = st.lists(st.integers(0, 5000), max_size=40).map(lambda sizes: units(*sizes))


def divided(
    *, threshold: int = 10_000, messages: int = 12_000, current: int | None = None, force: bool = False
) -> Budget:
    return plan.budget(
        threshold=threshold, messages=messages, current=current, low_water=0.6, tail_share=0.4, prefix_share=0.2, force=force
    )  # fmt: skip


# -- the budget ------------------------------------------------------------------------------------------------


@given(
    st.integers(1000, 2_000_000),
    st.integers(0, 2_000_000),
    st.none() | st.integers(0, 4_000_000),
    st.booleans(),
)
def test_the_shares_are_within_the_whole(threshold: int, messages: int, current: int | None, force: bool) -> None:
    """Neither tail nor summaries get more than both together, whatever the host measured."""
    budget = divided(threshold=threshold, messages=messages, current=current, force=force)

    assert 128 <= budget.tail <= max(128, budget.limit)
    assert 128 <= budget.prefix <= budget.limit


def test_what_is_not_in_the_list_is_taken_off() -> None:
    """System prompt and tool schemas are part of the request: the list gets what they leave."""
    budget = divided(current=14_000)

    assert (budget.overhead, budget.limit) == (2000, 4000)


def test_an_enormous_overhead_leaves_something() -> None:
    """Even where schemas fill the window, the newest messages and a few summaries have a place."""
    assert divided(current=1_000_000).limit >= 1500


def test_below_the_threshold_the_request_is_the_measure() -> None:
    """A manual compaction of a small list makes it smaller still."""
    assert divided(messages=4000, force=True).limit == 2400


# -- the tail ----------------------------------------------------------------------------------------------------


@given(UNITS, st.integers(0, 50), st.integers(0, 20_000))
def test_the_tail_keeps_to_its_room(backlog: list[Unit], count: int, room: int) -> None:
    """Only the last unit may be larger than the room, or one more than the count."""
    tail = plan.tail_of(backlog, count=count, room_tokens=room, request=None)
    kept = backlog[tail.start :]

    assert len(kept) <= max(1, count)
    assert len(kept) <= 1 or tail.tokens <= room


@given(UNITS, st.data())
def test_the_request_is_in_the_tail_or_pinned(backlog: list[Unit], data: st.DataObject) -> None:
    """What the user asked last stays raw, wherever it stands."""
    request = data.draw(st.sampled_from(range(len(backlog)))) if backlog else None

    tail = plan.tail_of(backlog, count=5, room_tokens=1000, request=request)

    assert request is None or request >= tail.start or request == tail.request


@given(UNITS, st.data())
def test_the_room_of_a_request_is_reserved(backlog: list[Unit], data: st.DataObject) -> None:
    """The tail's tokens are those of the units that stay, the pinned request among them, each once."""
    request = data.draw(st.sampled_from(range(len(backlog)))) if backlog else None

    tail = plan.tail_of(backlog, count=9, room_tokens=9000, request=request)

    stays = {*range(tail.start, len(backlog)), *([] if request is None else [request])}
    assert tail.tokens == sum(backlog[n].tokens for n in stays)


def test_the_last_unit_stays_whatever_its_size() -> None:
    """A prompt without its newest message answers nothing."""
    assert plan.tail_of(units(10, 10, 99_999), count=1, room_tokens=5, request=None).start == 2


def test_a_group_that_lacks_results_ends_the_tail() -> None:
    """An interrupted tool round in the middle is backlog, and so is everything before it."""
    backlog = [unit(1), unit(2, whole=False), unit(3), unit(4)]

    assert plan.tail_of(backlog, count=99, room_tokens=9999, request=None).start == 2


def test_a_group_that_waits_for_results_may_be_the_last() -> None:
    """In the middle of a tool round the newest calls stay raw."""
    backlog = [unit(1), unit(2), unit(3, whole=False)]

    assert plan.tail_of(backlog, count=99, room_tokens=9999, request=None).start == 0


def test_a_group_counts_as_its_messages() -> None:
    """The count is one of messages, not of groups."""
    backlog = [unit(1), Unit((2, 3, 4), 10, "assistant", None, 2, 5), unit(5)]

    assert plan.tail_of(backlog, count=3, room_tokens=9999, request=None).start == 2


# -- chunks --------------------------------------------------------------------------------------------------------


@given(UNITS, st.integers(100, 9000))
def test_chunks_cover_the_backlog_once_and_in_order(backlog: list[Unit], size: int) -> None:
    """No message is left out, none is in two chunks (P4)."""
    chunks = plan.chunks(backlog, {}, size)

    assert [n for chunk in chunks for n in chunk.ids] == [n for item in backlog for n in item.ids]
    assert [chunk.tokens for chunk in chunks] == [
        sum(item.tokens for item in backlog if item.ids[0] in chunk.ids) for chunk in chunks
    ]


@given(UNITS, st.integers(100, 9000))
def test_no_chunk_is_larger_than_its_size(backlog: list[Unit], size: int) -> None:
    """Unless a single group is."""
    chunks = plan.chunks(backlog, {}, size)

    assert all(chunk.tokens <= size or len(chunk.ids) == 1 for chunk in chunks)


@given(st.integers(2, 60), st.integers(1, 300), st.integers(300, 3000))
def test_chunks_are_about_equal(count: int, each: int, size: int) -> None:
    """No long chunks followed by a scrap: none is less than half of the largest, save for what is left at the end."""
    chunks = plan.chunks([unit(n, each) for n in range(count)], {}, size)

    sizes = [chunk.tokens for chunk in chunks]
    assert all(2 * one >= max(sizes) for one in sizes[:-1])


@given(st.lists(st.tuples(st.integers(1, 300), st.booleans()), min_size=1, max_size=120), st.integers(3000, 9000))
def test_a_backlog_is_cut_into_few_chunks(sizes: list[tuple[int, bool]], size: int) -> None:
    """Each chunk is a call: a good place to cut is no reason for one more, where the groups are small enough to choose."""
    backlog = [unit(n, each, role="user" if turn else "assistant") for n, (each, turn) in enumerate(sizes)]

    chunks = plan.chunks(backlog, {}, size)

    # Three quarters full; what does not divide may leave up to a group of room in each chunk.
    fewest = math.ceil(sum(each for each, _ in sizes) / size)
    most = math.ceil(sum(each for each, _ in sizes) / (0.75 * size - 300))
    assert fewest <= len(chunks) <= most


def test_a_chunk_begins_where_a_turn_begins() -> None:
    """Where a user message is near, that is where the cut goes."""
    backlog = [unit(n, role="user" if n == 7 else "assistant") for n in range(17)]

    assert plan.chunks(backlog, {}, 1000)[1].ids[0] == 7


def test_a_chunk_begins_after_a_pause() -> None:
    """Where the conversation rested is where it is cut."""
    backlog = [unit(n, at=float(n + (7200 if n >= 7 else 0))) for n in range(17)]

    assert plan.chunks(backlog, {}, 1000)[1].ids[0] == 7


READY = {3: [(50, (3, 4, 5))]}


def test_a_ready_leaf_is_adopted_where_it_fits_exactly() -> None:
    """What was prepared is not written again, and the rest is cut around it."""
    chunks = plan.chunks([unit(n) for n in range(1, 9)], READY, 8000)

    assert chunks == [Chunk((1, 2), 200), Chunk((3, 4, 5), 300, 50), Chunk((6, 7, 8), 300)]


@pytest.mark.parametrize(
    "present",
    [(1, 2, 3, 4, 6), (3, 4), (4, 5, 6), (3, 5, 4)],
    ids=["lacks its last", "ends early", "lacks its first", "other order"],
)
def test_a_ready_leaf_that_fits_in_part_is_left(present: tuple[int, ...]) -> None:
    """A leaf over anything else than what is to be covered would cover too much or twice."""
    chunks = plan.chunks([unit(n) for n in present], READY, 8000)

    assert [(chunk.ids, chunk.node_id) for chunk in chunks] == [(present, None)]


def test_a_ready_leaf_does_not_split_a_group() -> None:
    """A leaf that ends in the middle of a group fits nowhere."""
    group = Unit((4, 5, 6), 100, "assistant", None, 4, 7)

    assert [c.node_id for c in plan.chunks([unit(3), group], READY, 8000)] == [None]


def test_the_longest_ready_leaf_wins() -> None:
    """Of two that begin at one message the larger one saves more."""
    ready = {1: [(50, (1,)), (51, (1, 2, 3)), (52, (1, 2))]}

    assert [c.node_id for c in plan.chunks(units(100, 100, 100), ready, 8000)] == [51]


def test_what_has_no_rows_is_covered_by_nothing() -> None:
    """Units that nobody stored (filtered at the filters) are no part of any chunk."""
    hidden = Unit((), 100, "user", None, 2, 3)

    assert plan.chunks([unit(1), hidden, unit(3)], {}, 8000) == [Chunk((1, 3), 200)]


# -- condensation ----------------------------------------------------------------------------------------------------


def root(n: int, depth: int, tokens: int, *, sound: bool) -> Node:
    quality = "verified" if sound else "provisional"
    return Node(n, 1, depth, quality, "", "", tokens, 0, 0, 0, 0, 0.0, 0.0, None, None, b"", "", "", "{}", 0.0)


def roots(*depths: int, tokens: int = 100, poor: tuple[int, ...] = ()) -> list[Node]:
    return [root(n, depth, tokens, sound=n not in poor) for n, depth in enumerate(depths)]


def runs(these: list[Node], *, room: int = 100, fanin: int = 4, deepest: int = -1) -> list[list[int]]:
    return list(plan.condensations(these, room_tokens=room, fanin=fanin, max_depth=deepest, frame_tokens=10))


def test_nothing_is_condensed_while_there_is_room() -> None:
    """The prompt's beginning changes only when it must."""
    assert runs(roots(0, 0, 0, 0), room=440) == []


def test_frames_count() -> None:
    """What stands around the summaries takes room too."""
    assert runs(roots(0, 0, 0, 0), room=439) == [[0, 1, 2, 3]]


def test_the_lowest_depth_comes_first() -> None:
    """Deep nodes are condensed last: they were condensed before."""
    assert runs(roots(2, 2, 1, 1, 0, 0), fanin=2) == [[4, 5], [2, 3], [0, 1]]


def test_only_neighbours_are_condensed() -> None:
    """A node never covers messages on both sides of another one's."""
    assert runs(roots(0, 0, 1, 0, 0, 1), fanin=2) == [[0, 1], [3, 4]]


def test_no_extract_is_condensed() -> None:
    """P5: a run ends in front of a provisional node and begins anew behind it."""
    assert runs(roots(0, 0, 0, 0, 0, poor=(2,)), fanin=2) == [[0, 1], [3, 4]]


def test_a_run_stays_as_it_is_when_leaves_are_added() -> None:
    """What was condensed ahead of time is still what the next compaction wants."""
    assert runs(roots(*[0] * 9), fanin=4) == runs(roots(*[0] * 8), fanin=4) == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize(("deepest", "found"), [(0, []), (1, [[2, 3]]), (2, [[2, 3], [0, 1]]), (-1, [[2, 3], [0, 1]])])
def test_no_node_is_deeper_than_allowed(deepest: int, found: list[list[int]]) -> None:
    """0 condenses nothing, -1 knows no end."""
    assert runs(roots(1, 1, 0, 0), fanin=2, deepest=deepest) == found


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40), st.integers(2, 6))
def test_every_run_is_of_sound_neighbours_of_one_depth(shape: list[tuple[int, bool]], fanin: int) -> None:
    """Whatever roots there are."""
    these = [root(n, depth, 500, sound=sound) for n, (depth, sound) in enumerate(shape)]

    for run in runs(these, fanin=fanin):
        assert len(run) == fanin
        assert run == list(range(run[0], run[-1] + 1))
        assert len({these[n].depth for n in run}) == 1
        assert all(these[n].is_sound for n in run)


@pytest.mark.parametrize(
    ("floor", "backlog", "dynamic", "most", "size"),
    [
        (100, 10**6, False, 0, 8000),
        (12_000, 10**6, False, 0, 24_000),
        (90_000, 10**6, False, 0, 60_000),
        (90_000, 10**6, True, 90_000, 90_000),
        (5_000, 12_000, True, 40_000, 5_000),
        (5_000, 60_000, True, 40_000, 15_000),
        (5_000, 10**6, True, 40_000, 40_000),
    ],
)
def test_a_chunk_is_of_a_size_that_summarisers_handle(
    floor: int, backlog: int, dynamic: bool, most: int, size: int
) -> None:
    """Neither crumbs nor more than a model reads well; a dynamic one begins at the floor and grows with the backlog."""
    assert plan.chunk_tokens(floor, backlog, dynamic=dynamic, dynamic_max=most) == size


@pytest.mark.parametrize(
    ("source", "depth", "by_model", "extracted"),
    [(12_000, 0, 1200, 2400), (4_000, 0, 500, 800), (40_000, 0, 1200, 4000), (300, 0, 160, 160),
     (3_000, 1, 1200, 2100), (9_000, 1, 3000, 6300), (40_000, 3, 3000, 12_000), (300, 2, 200, 210)],
)  # fmt: skip
def test_an_extract_gets_more_room_than_a_summary(source: int, depth: int, by_model: int, extracted: int) -> None:
    """It keeps what it quotes; a model condenses."""
    assert plan.target_tokens(source, depth, extractive=False) == by_model
    assert plan.target_tokens(source, depth, extractive=True) == extracted


# ------------------------------------------------------------
# When the next fold is due, by prices: properties of a pure function.

PROMPT = Prompt(tokens=60_000, threshold=150_000, window=200_000, kept=12_000, growth=800.0, exact=False)

amounts = st.floats(0.0, 100.0)
prices = st.builds(
    lambda cached, more, read, written: Prices(cached + more, cached, read, written), amounts, amounts, amounts, amounts
)
windows = st.integers(4_000, 2_000_000)
prompts = st.builds(
    lambda window, share, kept, growth, exact: Prompt(window // 2, int(window * share), window, kept, growth, exact),
    windows, st.floats(0.01, 1.0), st.integers(0, 200_000), st.floats(0.0, 50_000.0), st.sampled_from(("", "it was set")),
)  # fmt: skip
ready = st.integers(0, 300_000)
requests = st.floats(0.0, 10_000.0)


@given(prices, prompts, ready, requests)
def test_a_fold_is_due_at_the_threshold_at_the_latest(cost: Prices, prompt: Prompt, done: int, expected: float) -> None:
    """And so never above the window."""
    assert next_fold(cost, prompt, done, expected).due <= prompt.threshold <= prompt.window


@given(prices, prompts, ready, requests)
def test_no_early_fold_is_a_loss_by_its_own_estimate(cost: Prices, prompt: Prompt, done: int, expected: float) -> None:
    """Only the threshold asks for a fold that does not pay."""
    fold = next_fold(cost, prompt, done, expected)

    assert fold.due == prompt.threshold or fold.saves >= -1e-9


@given(prices, prompts, ready, requests)
def test_a_threshold_that_was_set_is_exact(cost: Prices, prompt: Prompt, done: int, expected: float) -> None:
    """Whatever would be cheaper."""
    assert next_fold(cost, replace(prompt, exact="it was set"), done, expected).due == prompt.threshold


@given(prices, prompts, ready, requests, amounts)
def test_dearer_reading_from_the_cache_never_makes_folds_later(
    cost: Prices, prompt: Prompt, done: int, expected: float, more: float
) -> None:
    """What is carried along costs more, and reading it anew costs less besides."""
    dearer = replace(cost, cached=min(cost.uncached, cost.cached + more))

    assert next_fold(dearer, prompt, done, expected).due <= next_fold(cost, prompt, done, expected).due + 1 or cost.free


@given(prices, prompts, ready, requests, amounts, amounts, amounts)
def test_dearer_folds_never_come_earlier(
    cost: Prices, prompt: Prompt, done: int, expected: float, anew: float, read: float, written: float
) -> None:
    """Neither with a dearer first reading nor with a dearer summariser."""
    dearer = replace(
        cost, uncached=cost.uncached + anew, summary_in=cost.summary_in + read, summary_out=cost.summary_out + written
    )

    assert next_fold(dearer, prompt, done, expected).due >= next_fold(cost, prompt, done, expected).due - 1 or cost.free


@given(prompts, ready, requests, requests)
def test_a_longer_conversation_never_folds_later(prompt: Prompt, done: int, expected: float, more: float) -> None:
    """Each request to come pays back."""
    assert next_fold(DEFAULT, prompt, done, expected + more).due <= next_fold(DEFAULT, prompt, done, expected).due + 1


@given(prompts, ready, requests)
def test_little_is_never_folded_early(prompt: Prompt, done: int, expected: float) -> None:
    """What a conversation says raw is worth more than it costs."""
    assert next_fold(DEFAULT, prompt, done, expected).due >= min(prompt.threshold, plan.earliest(prompt.window))


def test_a_long_conversation_with_a_large_model_folds_early() -> None:
    """At less than a third of the threshold, with the stated prices."""
    fold = next_fold(DEFAULT, PROMPT, 0, 200.0)

    assert 35_000 < fold.due < 50_000
    assert fold.saves > 0
    assert "stated prices" in fold.why


def test_a_conversation_that_has_just_begun_waits_for_its_threshold() -> None:
    """Five requests do not pay for a summary."""
    assert next_fold(DEFAULT, PROMPT, 0, 5.0).due == PROMPT.threshold


def test_where_requests_cost_nothing_the_threshold_counts() -> None:
    """A subscription: nothing is saved by forgetting early."""
    assert next_fold(Prices(0.0, 0.0, 0.0, 0.0), PROMPT, 0, 500.0).due == PROMPT.threshold


def test_a_local_model_with_a_cache_reads_on() -> None:
    """What its cache holds costs it no time."""
    assert next_fold(LOCAL, PROMPT, 0, 100.0).due == PROMPT.threshold


def test_without_a_prompt_cache_folds_come_as_early_as_they_may() -> None:
    """Reading anew costs no more than reading."""
    assert next_fold(Prices(3.0, 3.0, 3.0, 15.0), PROMPT, 0, 50.0).due == plan.earliest(PROMPT.window)


def test_a_saving_is_what_is_carried_less_what_is_paid() -> None:
    """By hand: 38,000 tokens less in 100 requests; 12,000 read anew; 28,000 of them summarised."""
    carried, anew = 100 * 38_000 * 0.3, 12_000 * 2.7
    summarised = 28_000 * (plan.READ_SHARE * 3.0 + plan.WRITTEN_SHARE * 15.0)

    assert math.isclose(saving(DEFAULT, PROMPT, 50_000, 10_000, 100.0), (carried - anew - summarised) / 1e6)


# -- prices ------------------------------------------------------------------------------------------------------------
def test_prices_are_the_host_s_else_stated_ones() -> None:
    """And a local model, of which nobody knows a price, is measured in time."""
    known = priced((2.0, 0.2, 8.0), None, local=False, cached_share=0.0, requests=0)

    assert known == Prices(2.0, 0.2, 2.0, 8.0, "the host's")
    assert priced(None, None, local=False, cached_share=0.0, requests=0) == DEFAULT
    assert priced(None, None, local=True, cached_share=0.0, requests=0) == LOCAL


def test_a_cache_that_serves_little_is_worth_little() -> None:
    """The provider's own counts decide, once there are some."""
    served = [priced((3.0, 0.3, 15.0), None, local=False, cached_share=s, requests=50).cached for s in (0.9, 0.5, 0.1)]

    assert served == sorted(served)
    assert served[0] == 0.3 < served[2] < 3.0


def test_a_provider_without_a_cache_is_known_by_its_counts() -> None:
    """No price for cached tokens, and none were ever counted."""
    assert priced((3.0, None, 15.0), None, local=False, cached_share=0.0, requests=50).cached == 3.0


@pytest.mark.parametrize(
    ("listed", "known"),
    [
        (("3", "0.3", "15"), (3.0, 0.3, 15.0)),
        (("3", None, None), (3.0, None, 0.0)),
        (("3", "-1", "15"), (3.0, None, 15.0)),
        (("-1000000", None, "-1000000"), None),
        (("NaN", "0.3", "15"), None),
        (("sNaN", "0.3", "15"), None),
        (("Infinity", "0.3", "15"), None),
    ],
)
def test_what_can_be_no_price_is_none(
    listed: tuple[str | None, ...], known: tuple[float, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Price lists say -1 for a model that is chosen later."""
    read, cached, written = (Decimal(each) if each is not None else None for each in listed)
    entry = SimpleNamespace(
        input_cost_per_million=read, cache_read_cost_per_million=cached, output_cost_per_million=written
    )
    monkeypatch.setattr("agent.usage_pricing.get_pricing_entry", lambda *_: entry)

    assert facts.token_prices("openrouter/auto") == known
