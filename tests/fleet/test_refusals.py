"""
Files that a system refuses while a host is added, a copy fetched, and a fleet joined (P9, P10).

What was there before still works, the answer names the file and the way out, and a second run does what the first did not.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from worlds.breaking import KINDS, Faults
from worlds.fleet import Fleet, Host, ask
from worlds.process import chat
from worlds.refusing import CODES, Refusals, litter

from hermes_lcm.command import FAILED, OK, Answer
from hermes_lcm.errors import LcmError, way_out
from hermes_lcm.fleet import copies
from hermes_lcm.search.scope import Rights

Hosts = Callable[..., Host]
GONE = 4_194_301  # the number of a process that has ended


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> Refusals:
    return Refusals(monkeypatch)


def each_refused(refusals: Refusals, run: Callable[[], Answer], sound: Callable[..., None], most: int = 200) -> int:
    """Run it with each of its calls refused, once and from there on; how many calls there are."""
    for number in range(1, most):
        for lasting in (False, True):
            kind = list(CODES)[(number + 3 * lasting) % len(CODES)]
            refusals.arm(number, CODES[kind], lasting=lasting)
            with pytest.MonkeyPatch.context() as patch:  # the process of the second run is another one
                patch.setattr(os, "getpid", lambda: GONE)
                answer = run()
            refused = refusals.refused
            refusals.arm(0)
            why = f"{number} {kind} {lasting} {refused} {answer.text}"
            assert answer.code in (OK, FAILED), why
            told = os.strerror(CODES[kind]) in answer.text and "What to do: " in answer.text
            assert answer.code == OK or told, why
            sound(why, whole=False)
            if not refused:
                return number - 1
            again = run()
            assert again.code == OK, (why, again.text)
            sound(why, whole=True)
    raise AssertionError(most)


def test_a_host_is_added_or_stays_as_it_was(fleet: Fleet, host: Hosts, refusals: Refusals, hermes_home: Path) -> None:
    """Its connection string works all the time, also where it gets another one."""
    admin = host("admin").to(fleet.admin)
    name = f"laptop{fleet.tag}"
    path = hermes_home / f"fleet-{name}.dsn"

    def sound(why: str, *, whole: bool) -> None:
        if path.exists() and (whole or "fdatasync" not in why):  # of the folder, where the file is in its place
            psycopg.connect(path.read_text(encoding="utf-8").strip()).close()
        assert path.exists() or not whole, why
        assert not whole or "unlink" in why or litter(hermes_home) == [], why

    assert each_refused(refusals, lambda: ask(admin, f"fleet init {name} team"), sound) > 0


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What stands for an object store and for the cipher, which come with packages of their own."""
    stored: dict[str, bytes] = {}

    class Shelf:
        def put_file(self, name: str, path: Path) -> None:
            stored[name] = path.read_bytes()

        def get_file(self, name: str, path: Path) -> None:
            path.write_bytes(stored[name])

        def remove(self, name: str) -> None:
            stored.pop(name, None)

    class Plain:
        encrypt = decrypt = staticmethod(bytes)
        verify = staticmethod(bool)

        def digest(self) -> bytes:
            return bytes(16)

    monkeypatch.setattr(copies, "objects_of", lambda _: Shelf())
    monkeypatch.setattr(copies, "cipher", lambda _: Plain())
    return stored


@pytest.mark.usefixtures("shelf")
def test_a_copy_is_fetched_or_nothing_half_made_stays(host: Hosts, refusals: Refusals) -> None:
    """A second run removes what the first could not."""
    a = host("a")
    a.take(chat().turns(3))
    a.member.push()
    assert ask(a, "fleet keep").code == OK
    folder = a.folder / "lcm-backups"
    before = {each.name: each.read_bytes() for each in folder.iterdir()}
    shutil.rmtree(folder)

    def sound(why: str, *, whole: bool) -> None:
        assert not whole or litter(a.folder) == [], why
        assert {each.name: each.read_bytes() for each in folder.glob("lcm-*")} in ({}, before), why

    assert each_refused(refusals, lambda: ask(a, "fleet fetch"), sound) > 0


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("shelf")
def test_a_copy_that_is_refused_a_file_is_an_error_of_ours(
    fleet: Fleet, host: Hosts, refusals: Refusals, step: int
) -> None:
    """Another kind ended the thread that pushes and pulls, until the next process; the server lists nothing half-made."""
    a = host("a")
    a.take(chat().turns(3))
    a.member.push()
    access = a.runtime.access(None, Rights(), trusted=True)
    number, refused = 1, ["one"]
    while refused:
        refusals.arm(number, CODES["ENOSPC"])
        told = ""
        try:
            copies.keep(a.member, access)
        except LcmError as exc:
            told = way_out(exc)
        refused = refusals.refused
        refusals.arm(0)
        assert not told or "free disk space" in told, (number, refused, told)
        assert fleet.count("backups WHERE sha256 = ''") == 0, (number, refused)
        number += step
    assert number > 30


@pytest.mark.parametrize("step", [41, pytest.param(7, marks=pytest.mark.slow)])
def test_a_host_joins_and_sends_all_that_it_has(host: Hosts, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever statement of its first push is refused."""
    faults = Faults().install(monkeypatch)
    number, fired = 1, ["one"]
    while fired:
        new = host(f"new{number}")
        new.take(chat().turns(3))
        kind = list(KINDS)[number % len(KINDS)]
        faults.arm(number, KINDS[kind], lasting=number % 2 == 0)
        answer = ask(new, "fleet push")
        fired, why = faults.disarm(), (number, kind, answer.text)
        new.runtime.db._busy_until = 0.0
        assert answer.code in (OK, FAILED), why
        assert answer.code == OK or "What to do: " in answer.text, why
        again = ask(new.restart(), "fleet push")
        assert again.code == OK, (why, again.text)
        assert new.member.verify().sound, why
        number += step
    assert number > 95
