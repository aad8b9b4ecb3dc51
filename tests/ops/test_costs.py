"""The cost ledger: what is counted by session and day, and what it comes to in money."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds.process import Script, World, chat

from hermes_lcm import command, runtime
from hermes_lcm.errors import BadRequest
from hermes_lcm.host import facts
from hermes_lcm.ops import costs, verbs
from hermes_lcm.ops.answers import Words
from hermes_lcm.ops.costs import Costs, Prices, report, text

DAY_S = 86_400.0


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, Script("ok"))


def test_amounts_are_added_by_session_and_day(world: World) -> None:
    """Two processes that write the same day make one sum."""
    for _ in range(2):
        ledger = Costs(world.db, lambda: 10 * DAY_S)
        ledger.note("s1", requests=2, prompt=1000, cached=600, written=50)
        ledger.save()
    ledger.note("s2", requests=1, prompt=10)
    ledger.save()
    found = report(world.db, Prices())

    assert [(row["session"], row["requests"], row["uncached"]) for row in found["days"]] == [
        ("s1", 4, 800),
        ("s2", 1, 10),
    ]
    assert found["days"][0]["money"] == pytest.approx((800 * 3.0 + 1200 * 0.3 + 100 * 15.0) / 1e6)


def test_saving_again_counts_nothing_twice(world: World) -> None:
    ledger = Costs(world.db)
    ledger.note("s1", requests=1)
    ledger.save()
    ledger.save()

    assert report(world.db, Prices())["total"]["requests"] == 1


def test_a_compaction_earns_in_each_request_after_it(world: World) -> None:
    """What it took out of the prompt, at the price of cached tokens, until the next one."""
    ledger = Costs(world.db)
    ledger.note("s1", requests=3, prompt=1)
    ledger.folded("s1", 7, 100_000, 20_000)
    ledger.note("s1", requests=10)
    ledger.save()
    ledger.folded("s1", 9, 90_000, 30_000)
    ledger.note("s1", requests=5)
    ledger.save()
    folds = report(world.db, Prices())["days"][0]["folds"]

    assert [(fold["assembly"], fold["requests_since"]) for fold in folds] == [(7, 10), (9, 5)]
    assert folds[0]["earned"] == pytest.approx(80_000 * 10 * 0.3 / 1e6)


def test_a_compaction_costs_what_its_summaries_did(world: World) -> None:
    """Those since the one before it; summaries for the next one are nobody's yet."""
    ledger = Costs(world.db)
    ledger.note("s1", summaries=2, summary_in=10_000, summary_out=1_000)
    ledger.folded("s1", 7, 100_000, 20_000)
    ledger.save()
    ledger.note("s1", summaries=1, summary_in=4_000)
    ledger.folded("s1", 9, 90_000, 30_000)
    ledger.note("s1", summaries=1, summary_in=5_000)
    ledger.save()
    found = report(world.db, Prices())
    folds = found["days"][0]["folds"]

    assert [fold["summary_money"] for fold in folds] == pytest.approx([0.045, 0.012])
    assert folds[0]["cost"] == pytest.approx(20_000 * 2.7 / 1e6 + 0.045)
    assert "cost $0.0990 ($0.0450 of it for summaries)" in text(found)


@pytest.mark.parametrize("later", [("s", 11), ("next", 10), ("next", 11)])
def test_a_compaction_earns_on_later_days_and_in_the_session_that_goes_on(world: World, later: tuple[str, int]) -> None:
    """Some hosts begin another session at each compaction."""
    session, day = later
    world.session("next", parent=world.session("s"), origin="rotation")
    for name, when, assembly in (("s", 10, 7), (session, day, 9)):
        ledger = Costs(world.db, lambda when=when: when * DAY_S)  # type: ignore[misc]
        ledger.note(name, requests=4, prompt=400_000, summary_in=1_000)
        ledger.folded(name, assembly, 100_000, 20_000)
        ledger.note(name, requests=2, prompt=50_000)
        ledger.save()
    found = report(world.db, Prices(), session_id="s", window=200_000)
    folds = [fold for row in found["days"] for fold in row["folds"]]

    assert [(fold["assembly"], fold["requests_since"]) for fold in folds] == [(7, 6), (9, 2)]
    assert [fold["summary_money"] for fold in folds] == pytest.approx([0.003, 0.003])
    assert text(found).count("  compaction ") == 2


def test_the_estimate_is_the_same_whether_or_not_a_host_begins_another_session(world: World) -> None:
    """It is of the conversation."""
    world.session("next", parent=world.session("s"), origin="rotation")
    world.session("alone")
    for first, then, assembly in (("s", "next", 1), ("alone", "alone", 2)):
        ledger = Costs(world.db)
        ledger.note(first, requests=40, prompt=4_000_000, cached=3_000_000)
        ledger.folded(first, assembly, 150_000, 20_000)
        ledger.note(then, requests=40, prompt=3_000_000, cached=2_000_000)
        ledger.save()
    found = [report(world.db, Prices(), session_id=name, window=200_000) for name in ("s", "next", "alone")]

    assert len({each["host_compressor_estimate"] for each in found}) == 1
    assert [each["total"]["requests"] for each in found] == [80, 80, 80]


def test_since_leaves_earlier_days_out(world: World) -> None:
    """A date, or a number of days."""
    for day in (10, 20):
        ledger = Costs(world.db, lambda day=day: day * DAY_S)  # type: ignore[misc]
        ledger.note("s1", requests=day)
        ledger.save()

    assert report(world.db, Prices(), since="1970-01-15")["total"]["requests"] == 20
    assert (late := report(world.db, Prices(), since="3"))["total"]["requests"] == 0
    assert text(late) == f"Nothing is counted since {late['since']}."
    assert len(late["since"]) == len("1970-01-15")


@pytest.mark.parametrize("said", ["yesterday", "-1", "7d", "2026-02-30", "9999999", "99999999999", "²"])
def test_a_time_that_is_none_is_refused(world: World, said: str) -> None:
    """Also a number of days that no calendar has."""
    with pytest.raises(BadRequest, match="neither a date"):
        report(world.db, Prices(), since=said)


def test_the_host_s_compressor_is_an_estimate_with_its_formula(world: World) -> None:
    """Of a conversation that outgrows half of the window."""
    ledger = Costs(world.db)
    ledger.note("s1", requests=400, prompt=20_000_000, cached=19_600_000)
    ledger.save()
    found = report(world.db, Prices(), window=200_000)

    assert found["host_compressor_estimate"] > found["total"]["money"] * 0.5
    assert "estimate" in found["host_compressor_formula"]


def test_sessions_that_nobody_would_compact_cost_the_same_with_either(world: World) -> None:
    """However many there are: each is estimated by itself."""
    ledger = Costs(world.db)
    for n in range(100):
        ledger.note(f"s{n}", requests=10, prompt=200_000, cached=150_000, written=3_000)
    ledger.save()
    found = report(world.db, Prices(), window=200_000)

    assert found["host_compressor_estimate"] == found["total"]["money"]


def test_a_cache_that_never_serves_is_as_dear_for_the_host(world: World) -> None:
    """What was read again and again counts as misses, not as a prompt that grew."""
    ledger = Costs(world.db)
    for day in range(3):
        ledger.note("s1", requests=100, prompt=4_000_000)
        ledger.folded("s1", day, before=60_000, after=20_000)
    ledger.save()
    found = report(world.db, Prices(), window=200_000)

    assert 1.0 < found["host_compressor_estimate"] / found["total"]["money"] < 3.0


@pytest.mark.parametrize(("window", "begins"), [(64_000, 54_400), (200_000, 150_000), (1_000_000, 500_000)])
def test_the_estimate_begins_where_the_host_s_compressor_does(window: int, begins: int) -> None:
    """Its own rule, with its floors."""
    from agent.context_compressor import ContextCompressor

    real = ContextCompressor(model="m", quiet_mode=True, config_context_length=window)

    assert costs.host_compressor(window)[0] == real.threshold_tokens == begins
    assert costs.host_compressor(window)[2] <= real.max_summary_tokens


def test_the_command_tells_it(world: World) -> None:
    """Somebody who may read one session is told of that one."""
    world.take(chat().turns(2))
    ledger = Costs(world.db)
    ledger.note("s", requests=1, prompt=100)
    ledger.note("another", requests=7, prompt=100)
    ledger.save()
    said = command.run("cost", command.operator_access(world.runtime, world.runtime.find_session("s"), None))

    assert "1 request," in said
    assert "another" not in said
    assert costs.text(report(world.db, Prices())).count("request") >= 2


def test_the_last_request_is_told_too(world: World) -> None:
    """Though costs are written later, behind the turns."""
    world.take(chat().turns(2))
    world.runtime.costs.note("s", requests=1, prompt=100)
    access = command.operator_access(world.runtime, world.runtime.find_session("s"), None)

    assert "1 request," in command.run("cost", access)
    assert "for 1 request" in command.run("status", access)


def test_a_session_that_was_named_at_the_terminal_is_the_only_one(world: World) -> None:
    """Without a name all are told."""
    ledger = Costs(world.db)
    for name in ("s", "other"):
        world.session(name)
        ledger.note(name, requests=1, prompt=100)
    ledger.save()
    access = replace(command.operator_access(world.runtime, world.session("s"), None), trusted=True)
    named, every = (
        next(verb for verb in command.VERBS if verb.name == "cost").run(access, Words(session=name)).text
        for name in ("s", "")
    )

    assert "other" not in named
    assert "other" in every


PRICES = {"dear": (3.0, 0.3, 15.0), "cheap": (0.1, 0.01, 0.4)}


@pytest.mark.parametrize(
    ("menu", "read"),
    [
        ({"compression": {"model": "cheap", "provider": "auto"}}, 0.1),
        ({"lcm_summary": {"model": "cheap"}, "compression": {"model": "dear"}}, 0.1),
        ({"compression": {"model": "auto"}}, 3.0),
        ({"compression": None}, 3.0),
    ],
)
def test_summaries_cost_what_the_model_in_the_host_s_menu_costs(
    menu: dict[str, object], read: float, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where our settings name none: to the planner and in the report."""
    monkeypatch.setattr(facts, "_configuration", lambda: {"model": {"default": "dear"}, "auxiliary": menu})
    monkeypatch.setattr(facts, "token_prices", lambda model, *_: PRICES[model])
    ledger = Costs(world.db)
    ledger.note("s", summaries=1, summary_in=1_000_000)
    ledger.save()
    found = costs.report(world.db, verbs._prices(command.operator_access(world.runtime, world.session("s"), None)))

    assert found["total"]["summary_money"] == pytest.approx(read)
    assert world.runtime.prices("dear", "", "", "", cached=(0.0, 0)).summary_in == read


def test_a_terminal_names_the_host_s_own_threshold_of_a_model(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an agent with that model reckons."""
    block = {"model": {"default": "m", "context_length": 100_000}, "compression": {"model_thresholds": {"m": 0.6}}}
    monkeypatch.setattr(facts, "_configuration", lambda: block)
    monkeypatch.setattr(
        "agent.context_compressor.resolve_model_threshold", lambda model, given, *_: given[model], raising=False
    )
    engine = command.operator_access(world.runtime, world.session("s"), None).engine

    assert (engine.threshold_tokens, engine.threshold_source) == (60_000, "the host's model_thresholds")


def test_status_says_what_today_cost_and_what_was_written_for_nothing(world: World) -> None:
    """In one line, of the chat that asks."""
    ledger = Costs(world.db)
    ledger.note(
        "s", requests=2, prompt=1_000_000, cached=0, written=0, summaries=4, summary_in=0, summary_out=0, unused=1
    )
    ledger.note("other", requests=5, prompt=9_000_000)
    ledger.save()
    world.session("s")
    said = command.run("status", command.operator_access(world.runtime, world.runtime.find_session("s"), None))

    assert "$3.000 for 2 requests" in said
    assert "4 summaries" in said
    assert "1 written for nothing (25%)" in said


def test_what_an_earlier_day_wrote_for_nothing_is_no_share_of_today(world: World) -> None:
    """A compaction after midnight may leave more unused than the day has written."""
    ledger = Costs(world.db)
    ledger.note("s", requests=1, prompt=1_000, summaries=1, summary_in=10, summary_out=1, unused=3)
    ledger.save()

    assert "3 written for nothing;" in text(report(world.db, Prices()))


def test_where_no_summary_was_asked_for_none_is_counted(world: World) -> None:
    """A first message tells of no summaries, and says that its prices are assumed: a terminal's status asks nobody."""
    ledger = Costs(world.db)
    ledger.note("s", requests=1, prompt=1_000)
    ledger.save()
    access = command.operator_access(world.runtime, world.session("s"), None)

    assert "$0.003 for 1 request (assumed prices)" in command.run("status", access)
    assert "summar" not in command.run("cost", access).splitlines()[0]


@pytest.mark.parametrize(
    ("price", "url", "said"),
    [
        (None, "http://127.0.0.1:1234/v1", "a local model costs time"),
        ((0.0, 0.0, 0.0), "https://chatgpt.com/backend-api/codex", "Hermes' price for it is 0"),
    ],
)
def test_what_nobody_is_paid_for_is_shown_as_no_money(
    price: costs.Known, url: str, said: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model on this machine, and a subscription: neither in the report nor in status stands a dollar."""
    monkeypatch.setattr(facts, "_configuration", lambda: {"model": {"default": "m", "base_url": url}})
    monkeypatch.setattr(facts, "token_prices", lambda *_: price)
    ledger = Costs(world.db)
    ledger.note("s", requests=2, prompt=50_000, summaries=1, summary_in=9_000)
    ledger.folded("s", 1, 40_000, 9_000)
    ledger.save()
    access = command.operator_access(world.runtime, world.session("s"), None)
    prices = verbs._prices(access)

    assert "$" not in command.run("cost", access)
    assert f"all: no money: {said}" in command.run("cost", access)
    line = costs.line(report(world.db, prices)["total"], prices)
    assert line == f"2 requests; 1 summary, 9,000 tokens in, 0 out: no money ({said})"


def test_a_local_model_s_cloud_summariser_is_paid_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a local summariser costs nothing beside a model in the cloud."""
    ledger = Costs(world.db)
    ledger.note("s", requests=1, prompt=1_000_000, summaries=1, summary_in=1_000_000)
    ledger.save()
    dear, free = (3.0, 0.3, 15.0), (0.0, None, 0.0)

    found = [
        report(world.db, Prices.known(main, other, local=main is None))["total"]
        for main, other in ((None, dear), (dear, free))
    ]
    assert [(each["money"], each["summary_money"]) for each in found] == [(3.0, 3.0), (3.0, 0.0)]


def test_a_price_is_that_of_the_model_that_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one than config.yaml names, after a switch in the chat."""
    monkeypatch.setattr(facts, "_configuration", lambda: {"model": {"default": "cheap"}})
    monkeypatch.setattr(facts, "token_prices", lambda model, *_: PRICES[model])
    access = command.operator_access(world.runtime, world.session("s"), None)
    live = replace(access, engine=replace(access.engine, model="dear", context_length=100_000))

    assert (verbs._prices(access).main, verbs._prices(live).main) == (PRICES["cheap"], PRICES["dear"])


def answered(name: str) -> dict[str, Any]:
    return {"model": name, "provider": "a", "local": False}


def test_each_request_is_priced_by_the_model_that_answered_it(world: World) -> None:
    """Whatever model is in use when somebody asks; what was counted before models were noted is priced by that one."""
    ledger = Costs(world.db)
    ledger.note("s", requests=1, prompt=1_000_000)
    for name in ("dear", "cheap"):
        ledger.asked("s", **answered(name), prompt=1_000_000, cached=500_000, written=100_000)
    ledger.save()
    found = report(world.db, Prices((1.0, 0.1, 1.0)), price_of=lambda model: PRICES[model[0]])
    row = found["days"][0]

    assert (row["prompt"], row["cached"], row["written"], row["uncached"]) == (3_000_000, 1_000_000, 200_000, 2_000_000)
    assert {name: each["money"] for name, each in row["models"].items()} == pytest.approx(
        {
            "": 1.0,
            "a/dear": 3.15,
            "a/cheap": 0.095,
        }
    )
    assert row["money"] == found["total"]["money"] == pytest.approx(4.245)
    assert "a/cheap $0.095, a/dear $3.150" in text(found)


def test_assumed_prices_are_told_as_such_though_the_model_in_use_has_one(world: World) -> None:
    """They are the plugin's, not that model's."""
    ledger = Costs(world.db)
    ledger.asked("s", **answered("unknown"), prompt=1_000_000, cached=0, written=0)
    ledger.save()
    said = text(report(world.db, Prices.known((7.0, 0.7, 70.0), None, local=False)))

    assert "all: $3.000 at assumed prices (per million tokens $3 read, $0.3 cached, $15 written" in said


@pytest.mark.host
def test_requests_are_counted_for_the_model_that_answered(hermes_home: Path) -> None:
    """After a switch in the chat, too; and a cache serves no more than its prompt, or other requests would seem to cost less."""
    from hermes_lcm.engine import LCMEngine

    engine = LCMEngine()
    engine.on_session_start("s1", platform="cli")
    engine.update_model("dear", 100_000, "https://api.example/v1", provider="a")
    engine.update_from_response({"prompt_tokens": 100, "cache_read_tokens": 5_000, "completion_tokens": 5})
    engine.update_model("qwen", 100_000, "http://127.0.0.1:1234/v1", provider="custom")
    engine.update_from_response({"prompt_tokens": 5_000})
    engine.update_from_response({})
    engine.update_model("m", 100_000, None, provider=None)
    engine.update_from_response({"prompt_tokens": 7})
    engine.runtime.costs.save()
    row = report(engine.runtime.db, Prices())["days"][0]

    assert {name: (each["uncached"], each["cached"]) for name, each in row["models"].items()} == {
        "a/dear": (0, 100),
        "custom/qwen (local)": (5_000, 0),
        "/m": (7, 0),
    }
    assert (row["requests"], row["uncached"], row["written"]) == (3, 5_007, 5)


def test_what_a_paid_model_cost_is_told_when_a_local_one_runs(world: World) -> None:
    """And the other way round nothing is paid for the local one."""
    ledger = Costs(world.db)
    ledger.asked("s", **answered("dear"), prompt=1_000_000, cached=0, written=0)
    ledger.asked("s", **{**answered("qwen"), "local": True}, prompt=9_000_000, cached=0, written=0)
    ledger.save()
    free = Prices.known(None, None, local=True)

    for prices in (free, Prices()):
        found = report(world.db, prices, price_of=lambda model: PRICES.get(model[0]))
        assert found["total"]["money"] == 3.0
        assert "all: $3.000" in text(found)
        assert "all: no money" not in text(found)
        assert costs.line(found["total"], prices).startswith("$3.000")


def test_a_compaction_around_midnight_counts_its_own_day(tmp_path: Path) -> None:
    """What that day had so far, though the clock goes on meanwhile."""
    world, now = World(tmp_path, Script("ok")), [10 * DAY_S + 86_399.0]

    def clock() -> float:
        now[0] += 0.7
        return now[0]

    ledger = Costs(world.db, clock)
    with_time = Costs(world.db, lambda: 10 * DAY_S)
    with_time.note("s", requests=5, prompt=500)
    with_time.save()
    ledger.folded("s", 7, 100_000, 20_000)
    ledger.save()
    with_time.note("s", requests=2)
    with_time.save()

    (fold,) = [fold for row in report(world.db, Prices())["days"] for fold in row["folds"]]
    assert fold["requests_since"] == 2


def test_a_turn_does_not_wait_until_costs_are_written(world: World) -> None:
    """Somebody else may be writing to the file for long."""
    ledger = Costs(world.db)
    ledger.note("s", requests=1)
    holds, done = threading.Event(), threading.Event()

    def other() -> None:
        with world.db.transaction():
            holds.set()
            done.wait(20)

    threads = [threading.Thread(target=other)]
    threads[0].start()
    assert holds.wait(10)
    threads += [threading.Thread(target=ledger.save), threading.Thread(target=lambda: ledger.note("s", requests=1))]
    threads[1].start()
    threads[1].join(0.2)
    threads[2].start()
    threads[2].join(5)
    waits = threads[2].is_alive()
    done.set()
    for each in threads:
        each.join()
    ledger.save()

    assert not waits
    assert report(world.db, Prices())["total"]["requests"] == 2


def test_saving_side_by_side_counts_nothing_twice(world: World) -> None:
    """A worker saves while a turn ends."""
    ledger = Costs(world.db)

    def spend() -> None:
        for _ in range(50):
            ledger.note("s", requests=1)
            ledger.save()

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert report(world.db, Prices())["total"]["requests"] == 200


def test_what_a_stand_in_s_time_cost_comes_to_the_database(world: World) -> None:
    """A merge of messages brings no costs, so they wait for the file itself."""
    ledger = Costs(world.db)
    world.session("s")
    world.db.use(world.folder / "other.db")
    ledger.note("s", requests=3)
    ledger.save()
    world.db.use(world.db.path)
    ledger.save()

    assert report(world.db, Prices())["total"]["requests"] == 3


def test_a_provider_that_reports_no_usage_is_no_reason_to_say_that_nothing_happened(world: World) -> None:
    """Its compactions are told, in words as in JSON."""
    ledger = Costs(world.db)
    ledger.folded("s", 7, 100_000, 20_000)
    ledger.save()
    said = text(report(world.db, Prices()))

    assert "1 compaction" in said
    assert "there was none in this time, or the model's provider reports no usage" in said


def test_a_price_that_the_host_did_not_know_is_asked_for_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while: it may have had no network when the process began."""
    known: list[costs.Known] = [None, PRICES["cheap"], PRICES["dear"]]
    monkeypatch.setattr(facts, "token_prices", lambda *_: known.pop(0))

    def read() -> float:
        return world.runtime.prices("m", "p", "", "", cached=(0.0, 0), summary_model="extractive").uncached

    assert (read(), read(), len(known)) == (3.0, 3.0, 2)
    monkeypatch.setattr(runtime, "_ASK_AGAIN_S", 0.0)
    world.runtime._ask_again.clear()
    assert (read(), read(), len(known)) == (0.1, 0.1, 1)


def test_cost_and_status_reckon_with_the_same_price(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """That which the worker was told, who knows where the model is."""
    monkeypatch.setattr(facts, "token_prices", lambda model, provider="", url="", *_: PRICES["dear"] if url else None)
    world.session("s")
    world.runtime.prices("m", "custom", "https://gate.example/v1", "", cached=(0.0, 0))
    ledger = Costs(world.db)
    ledger.asked("s", model="m", provider="custom", local=False, prompt=1_000_000, cached=0, written=0)
    ledger.save()
    access = command.operator_access(world.runtime, world.session("s"), None)
    engine = replace(access.engine, model="m", provider="custom", context_length=100_000)
    engine = replace(
        engine, context_source="", prices=world.runtime.priced("m", "custom"), priced=world.runtime.known_prices()
    )
    live = replace(access, engine=engine)

    assert "$3.000 for 1 request (the host's prices)" in command.run("status", live)
    assert "all: $3.000 at the host's prices" in command.run("cost", live)
