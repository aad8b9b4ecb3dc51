"""
Calls and statements fail while something stands in for the database, and while it is merged (P1, P2, P4, P9, P10).

The request stays valid, status says what is wrong until it is over, and then every message is there once, backups as they were,
nothing half-made. By default some of the calls; with ``-m slow`` all, and every seventh statement.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from system.test_standin import damaged, locked, no_header
from worlds.breaking import KINDS, Faults, Host, a_folder, copied, lost_or_doubled, template, valid
from worlds.process import Chat, Script, chat, reload
from worlds.refusing import CODES, Refusals, litter

#: Of so many one is refused, by default and with ``-m slow``.
STEPS = {"calls": (5, 1), "statements": (997, 7)}
SAID = chat().turns(6).rounds(2).says("so far").turns(20, first=10)
OUTAGES: dict[str, Callable[[Path], Callable[[], None]]] = {
    "locked": locked, "damaged": damaged, "no header": no_header, "a folder": a_folder,
}  # fmt: skip


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a compacted conversation, a payload file and a backup."""

    def lived(host: Host) -> None:
        host.says(SAID)
        host.says(host.compress(SAID.copy(), force=True))
        host.command("backup")

    return template(tmp_path_factory.mktemp("lived"), lived)


#: A file that is called damaged is asked again when it has changed.
PASSING = [code for name, code in KINDS.items() if name != "corrupt"]


class System:
    """A system that refuses a call, or a SQLite that fails a statement."""

    def __init__(self, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.what = what
        self.calls = Refusals(monkeypatch)
        self.statements = Faults().install(monkeypatch)

    def arm(self, number: int, *, lasting: bool) -> None:
        if self.what == "calls":
            self.calls.arm(number, [*CODES.values()][number % len(CODES)], lasting=lasting)
        else:
            self.statements.arm(number, PASSING[number % len(PASSING)], lasting=lasting)

    def disarm(self) -> list[str]:
        """What was refused."""
        refused = [*self.calls.refused, *self.statements.fired]
        self.calls.arm(0)
        self.statements.disarm()
        self.statements.fired = []
        return refused


@pytest.fixture(params=["calls", "statements"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> System:
    return System(request.param, monkeypatch)


def backups(home: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (home / "lcm-backups").glob("lcm-*.sqlite3")
    }


def goes_on(host: Host, said: Chat, live: Chat, first: int, *, large: bool = False) -> Chat:
    """A turn, with a large result where it is wanted, and a compaction."""
    new = chat().turns(2, first=first)
    if large:
        new.calls(f"c{first}").results(f"c{first}", text=f"large {first} " + "words and words " * 2000).says("read it")
    said.extend(new)
    live = Chat([*live, *new])
    host.says(live)
    return Chat(host.compress(live, force=True))


def outage(name: str, phase: str, source: Path, home: Path, system: System, number: int, *, lasting: bool) -> list[str]:
    """An outage in which something is refused, while it begins or while it is merged; what was refused."""
    home = copied(source, home)
    old = backups(home)
    mend = OUTAGES[name](home / "lcm.db")
    host = Host(home, Script("ok"))
    said, refused = SAID.copy(), list[str]()
    if phase == "begins":
        system.arm(number, lasting=lasting)
    out = goes_on(host, said, Chat(reload(SAID)), 100, large=True)
    topics, told = host.topics(), host.command("status").text
    if phase == "begins":
        refused = system.disarm()
    why = (name, phase, number, lasting, refused)
    assert valid(out), why
    assert "stand-in" in topics or (lasting and topics), (why, topics)  # not even memory, where no statement works
    assert "what to do: " in told, why
    out = goes_on(host, said, out, 200)
    assert "stand-in" in host.topics(), why
    mend()
    host.engine._cooldown_until = host.runtime.db._busy_until = host.runtime.standby._not_before = 0.0
    if phase == "ends":
        system.arm(number, lasting=lasting)
    out = goes_on(host, said, out, 300)
    if phase == "ends":
        refused = system.disarm()
        why = (*why[:-1], refused)
    assert valid(out), why
    for first in (400, 500):
        host.engine._cooldown_until = host.runtime.db._busy_until = host.runtime.standby._not_before = 0.0
        out = goes_on(host, said, out, first)
        host.ends_turn(out)
    whole(host, said, out, old, why)
    return refused


def whole(host: Host, said: Chat, out: Chat, old: dict[str, str], why: object) -> None:
    """Everything that must hold when it is over, also in the next process."""
    for _ in range(2):
        assert host.topics() == set(), (why, host.topics())
        assert lost_or_doubled(host, said) == ([], []), why
        assert host.gaps(out) == (0, 0), why
        host.close()
        host = host.next()
        host.says(reload(out))
    assert host.command("doctor deep").code == 0, (why, host.command("doctor deep").text)
    assert not list(host.home.glob("*standby*")), why
    assert old.items() <= backups(host.home).items(), why
    half_made = [each for each in litter(host.home) if ".z." not in each]
    assert not half_made, (why, half_made)
    host.close()


def sweep(name: str, phase: str, source: Path, tmp_path: Path, system: System, step: int) -> None:
    for lasting in (False, True):
        number = 1
        while outage(name, phase, source, tmp_path / "home", system, number, lasting=lasting):
            number += step
        assert number > 1


@pytest.mark.few(1)
@pytest.mark.parametrize("phase", ["begins", "ends"])
@pytest.mark.parametrize("name", ["locked", "damaged"])
def test_an_outage_in_which_more_is_refused_loses_nothing(
    name: str, phase: str, source: Path, tmp_path: Path, system: System
) -> None:
    """Some of the calls and statements."""
    sweep(name, phase, source, tmp_path, system, STEPS[system.what][0])


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["begins", "ends"])
@pytest.mark.parametrize("name", OUTAGES)
def test_an_outage_may_be_refused_anything(name: str, phase: str, source: Path, tmp_path: Path, system: System) -> None:
    """All calls, and many statements."""
    sweep(name, phase, source, tmp_path, system, STEPS[system.what][1])
