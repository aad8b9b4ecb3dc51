"""
Every statement of every public operation fails, in every way that SQLite knows, once or from then on (P1, P2, P4, P9, P10).

By default every 67th statement in one of the ways; ``-m slow`` takes all statements in all ways.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worlds.breaking import KINDS, Faults, Host, copied, lost_or_doubled, template, valid, with_new
from worlds.process import Chat, Script, World, chat, reload

from hermes_lcm.config import load
from hermes_lcm.errors import StoreError
from hermes_lcm.runtime import Process, Runtime

BASE = chat().turns(6).rounds(2).says("so far").turns(24, first=10)
STEP = 67  # of so many statements one fails by default; no multiple of the number of ways

Act = Callable[[Host, Chat], Any]


def hook(host: Host, live: Chat) -> Any:
    host.says(live)
    return live


def compress(host: Host, live: Chat) -> Any:
    return host.compress(live)


def turn(host: Host, live: Chat) -> Any:
    host.ends_turn(live)
    return live


def begin(host: Host, live: Chat) -> Any:
    """A new process binds the session and sees its list."""
    host.runtime.db.close()
    host.engine = host.next().engine
    host.says(live)
    return live


def unindexed(host: Host) -> None:
    """Somebody removed the search indexes."""
    host.compress(BASE, force=True)
    with host.runtime.db.transaction():
        for name in ("message_terms", "message_index", "node_terms", "node_index"):
            host.runtime.db.execute(f"DROP TABLE {name}")


def end(host: Host, live: Chat) -> Any:
    host.engine.on_session_end(host.session_id, list(live))
    host.hooks.on_session_finalize(session_id=host.session_id)
    return live


ACTS: dict[str, Act] = {"hook": hook, "compress": compress, "turn": turn, "begin": begin, "end": end}
FIRST: dict[str, Act] = {"first hook": hook, "first compress": compress}
ALL = {**ACTS, **FIRST}
WAYS: dict[str, dict[str, Any]] = {
    **{name: {"code": code} for name, code in KINDS.items()},
    "lasting": {"code": KINDS["input-output"], "lasting": True},
    "after the commit": {"code": KINDS["input-output"], "late": True},
}


@pytest.fixture
def faults(monkeypatch: Any) -> Faults:
    return Faults().install(monkeypatch)


def healed(host: Host, said: Chat, out: Any, why: str) -> None:
    """Everything that must hold when the fault is gone: at once, after the next hook and pass, and in the next process."""
    assert valid(out), why
    host.says(out)
    assert lost_or_doubled(host, said) == ([], []), why
    assert host.gaps(out) == (0, 0), why
    again = Chat(host.compress(out, force=True))
    said.turns(4, first=500)  # the worker looks again when there is something new
    again.turns(4, first=500)
    host.ends_turn(again)
    host.engine.on_session_end(host.session_id, list(again))
    host.hooks.on_session_finalize(session_id=host.session_id)
    assert valid(again), why
    assert host.gaps(again) == (0, 0), why
    assert host.topics() == set(), why
    host = host.next()
    shown = reload(again)
    host.says(shown)
    assert lost_or_doubled(host, said) == ([], []), why
    assert host.gaps(shown) == (0, 0), why
    verdict = host.command("doctor deep")
    assert verdict.code == 0, (why, verdict.text)
    host.close()


def attempt(act: Act, source: Path, home: Path, faults: Faults, number: int, way: dict[str, Any]) -> bool:
    """One run of ``act`` with a statement that fails. False: it got through before that statement."""
    said = with_new(BASE, 100, 2)
    host = Host(copied(source, home), Script("ok"))
    faults.arm(number, **way)
    out = act(host, said.copy())
    topics = host.topics()
    fired = faults.disarm()
    why = f"statement {number}: {fired[:1]}"
    host.engine._cooldown_until = 0.0
    lost, doubled = lost_or_doubled(host, said)
    assert doubled == [], why
    assert not lost or topics, f"{why}: nobody was told"
    healed(host, said, out, why)
    return bool(fired)


def prepared(name: str, folder: Path) -> tuple[Act, Path]:
    return ALL[name], template(folder, lambda host: host.says(BASE if name in ACTS else []))


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ALL)
def test_a_statement_that_fails_costs_nothing(name: str, tmp_path: Path, faults: Faults) -> None:
    """No turn is broken, nothing is lost or doubled, it shows while it lasts, and it is over when it is over."""
    act, source = prepared(name, tmp_path)
    ways, number = list(WAYS.values()), 1
    while attempt(act, source, tmp_path / "home", faults, number, way := ways[number % len(ways)]) or way.get("late"):
        number += STEP
    assert number > 1


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("name", ALL)
def test_whatever_statement_fails_it_costs_nothing(
    name: str, way: dict[str, Any], tmp_path: Path, faults: Faults
) -> None:
    """The same with every statement in every way."""
    act, source = prepared(name, tmp_path)
    number = 1
    while attempt(act, source, tmp_path / "home", faults, number, way):
        number += 1
    assert number > 1


def test_an_index_that_was_made_is_full(tmp_path: Path, faults: Faults) -> None:
    """A process that ends while it makes a missing index leaves none, so that the next one makes it."""
    source, number, fired = template(tmp_path, unindexed), 1, ["first"]
    while fired:
        world = World(copied(source, tmp_path / "home"))
        faults.arm(number, KINDS["input-output"], lasting=True)
        with contextlib.suppress(StoreError):
            world.db.open()
        fired = faults.disarm()
        runtime = world.restart().runtime
        problems = [*runtime.index.check(deep=True), *runtime.node_index.check(deep=True)]
        assert problems == [], f"statement {number}: {fired[:1]}"
        number += 31


@pytest.mark.parametrize("step", [pytest.param(17, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)])
def test_a_first_opening_that_fails_somewhere_is_no_lasting_trouble(step: int, tmp_path: Path, faults: Faults) -> None:
    """Indexes of nothing are complete as soon as they are made."""
    number, fired = 1, ["first"]
    while fired:
        runtime = Runtime(tmp_path / str(number) / "lcm.db", load({}), Process())
        faults.arm(number, KINDS["corrupt"])
        with contextlib.suppress(StoreError):
            runtime.db.open()
        fired = faults.disarm()
        runtime.ingest_list("s", chat().turns(1))
        problems = [*runtime.health.problems(), *runtime.index.check(deep=True)]
        runtime.db.close()
        assert problems == [], f"statement {number}: {fired[:1]}"
        number += step
    assert number > 50
