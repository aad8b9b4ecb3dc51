"""Claims of processes: they end with their process, whatever the clock says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_lcm.storage import leases
from hermes_lcm.storage.connection import Database
from hermes_lcm.storage.leases import Leases

HERE = Path(__file__).resolve().parents[2]
_CLAIM = """
import sys
from hermes_lcm.storage.connection import Database
from hermes_lcm.storage.leases import Leases
held = Leases(Database({path!r}))
assert held.claim("work", 180.0)
held.join("session:s")
print("held", flush=True)
sys.stdin.readline()
"""


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


_CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def has_containers() -> bool:
    try:
        return subprocess.run([*_CONTAINER, "true"], capture_output=True, timeout=10, check=False).returncode == 0
    except OSError:
        return False


def elsewhere(path: Path, *inside: str) -> subprocess.Popen[str]:
    """Another process, which has claimed what there is."""
    process = subprocess.Popen(
        [*inside, sys.executable, "-P", "-c", _CLAIM.format(path=str(path))],
        env={**os.environ, "PYTHONPATH": str(HERE / ".lcm-path")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def pair(path: Path) -> tuple[Leases, Leases, Clock]:
    """Two users in this process, with one clock."""
    clock, db = Clock(), Database(path)
    return Leases(db, clock), Leases(db, clock), clock


def test_what_one_has_taken_another_does_not_get(tmp_path: Path) -> None:
    """Until it is given back."""
    one, two, _ = pair(tmp_path / "lcm.db")
    taken = [one.claim("work", 60.0), two.claim("work", 60.0), one.claim("work", 60.0)]
    one.release("work")

    assert taken == [True, False, True]
    assert two.claim("work", 60.0)


@pytest.mark.parametrize("moved", [61.0, -3600.0], ids=["its time is over", "the clock went back"])
def test_a_claim_ends_by_the_clock(tmp_path: Path, moved: float) -> None:
    """When its time is over; or when it would last longer than any that is made now."""
    one, two, clock = pair(tmp_path / "lcm.db")
    one.claim("work", 60.0)
    clock.now += moved

    assert two.claim("work", 60.0)


@pytest.mark.parametrize("end", ["returns", "is killed"])
def test_a_claim_ends_with_its_process(tmp_path: Path, end: str) -> None:
    """Nobody waits for the clock, however the process ended."""
    path = tmp_path / "lcm.db"
    process, mine = elsewhere(path), Leases(Database(path))
    before = (mine.claim("work", 180.0), mine.has_others("session:s"))
    if end == "is killed":
        process.kill()
        process.wait(10)
    else:
        process.communicate("\n", 10)

    assert before == (False, True)
    assert mine.claim("work", 180.0)
    assert not mine.has_others("session:s")


@pytest.mark.skipif(not has_containers(), reason="needs the right to make a PID namespace")
def test_a_process_in_another_container_keeps_its_claim(tmp_path: Path) -> None:
    """Both bear one host name, and no process here has its number. Here only the clock tells that it has ended."""
    path, clock = tmp_path / "lcm.db", Clock()
    process, mine = elsewhere(path, *_CONTAINER), Leases(Database(path))
    while_it_lives = mine.claim("work", 180.0), mine.has_others("session:s")
    process.kill()
    process.wait(10)
    clock.now = time.time() + 181.0

    assert while_it_lives == (False, True)
    assert Leases(Database(path), clock).claim("work", 180.0)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nothing tells whether a process has ended")
def test_a_claim_ends_with_a_process_that_nobody_has_waited_for(tmp_path: Path) -> None:
    """A parent that does not ask for its child's end leaves its number in use, as the first process of a container does."""
    path = tmp_path / "lcm.db"
    process, mine = elsewhere(path), Leases(Database(path))
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    claimed = mine.claim("work", 180.0), mine.has_others("session:s")
    process.wait(10)

    assert claimed == (True, False)


def test_a_number_that_was_given_out_again_is_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim names when its process began."""
    one, two, _ = pair(tmp_path / "lcm.db")
    one.claim("work", 60.0)
    began: Callable[[int], str] = lambda _: "another moment"  # noqa: E731
    monkeypatch.setattr(leases, "_began", began)

    assert two.claim("work", 60.0)


def test_a_claim_of_another_machine_ends_by_the_clock_only(tmp_path: Path) -> None:
    """Its processes cannot be looked up from here."""
    one, _, clock = pair(tmp_path / "lcm.db")
    one.claim("work", 60.0)
    with one._db.transaction():
        one._db.execute("UPDATE leases SET holder = 'elsewhere|1|1|1'")
    held = one.claim("work", 60.0)
    clock.now += 61.0

    assert not held
    assert one.claim("work", 60.0)


def test_those_who_have_ended_are_forgotten(tmp_path: Path) -> None:
    """By the next one that joins; whoever leaves is gone at once."""
    path = tmp_path / "lcm.db"
    elsewhere(path).communicate("\n", 10)
    mine = Leases(Database(path))
    mine.join("session:s")
    rows = [name for (name,) in mine._db.query("SELECT name FROM leases WHERE name LIKE 'session:%'")]
    mine.leave("session:s")

    assert len(rows) == 1
    assert mine._db.query("SELECT 1 FROM leases WHERE name LIKE 'session:%'") == []


def test_a_claim_until_no_time_has_ended(tmp_path: Path) -> None:
    """SQLite takes anything for a number."""
    db = Database(tmp_path / "lcm.db")
    other, mine = Leases(db), Leases(db)
    assert other.claim("work", 180.0)
    with db.transaction():
        db.execute("UPDATE leases SET expires_at = 'soon'")

    assert mine.claim("work", 180.0)
    assert not mine.has_others("work")
    db.close()


@pytest.mark.parametrize("moved", [-10.0, 10_000_000.0])
def test_one_that_lives_has_a_thing_whatever_the_clock_says(tmp_path: Path, moved: float) -> None:
    """It went back, or far ahead, since the process came to it; nobody who comes later forgets it."""
    clock = Clock()
    one, two = (Leases(Database(tmp_path / "lcm.db"), clock) for _ in range(2))
    one.join("session:s")
    clock.now += moved
    before = two.has_any("session:s")
    two.join("session:s")

    assert before
    assert two.has_any("session:s")


def test_one_of_another_machine_has_a_thing_for_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody here can look whether its process lives."""
    clock = Clock()
    db = Database(tmp_path / "lcm.db")
    with monkeypatch.context() as there:
        there.setattr(leases, "_process", lambda: "elsewhere|1|1")
        Leases(db, clock).join("fetching", 60.0)
    here = Leases(db, clock)
    before = here.has_any("fetching")
    clock.now += 61.0

    assert before
    assert not here.has_any("fetching")
