"""When the next fold is due, by prices: properties of a pure function."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lcm.compaction import plan
from hermes_lcm.compaction.plan import DEFAULT, LOCAL, Prices, Prompt, next_fold, priced, saving
from hermes_lcm.host import facts

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
    """At a third of the threshold, with the stated prices."""
    fold = next_fold(DEFAULT, PROMPT, 0, 200.0)

    assert 45_000 < fold.due < 60_000
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
