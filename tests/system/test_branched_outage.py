"""A chat that branches off while its database cannot be used: the branch shows what the host shows, each message once (P1)."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from worlds.breaking import Host, a_folder
from worlds.process import Chat, chat, reload, texts, tokens_of
from worlds.shelf import Shelf

from hermes_lcm.storage import connection

Mend = Callable[[], None]
HOLDS = (0, 0, False)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No lock here is given back while somebody waits for it."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 50)


def locked(db: Path) -> Mend:
    """All of it can be read."""
    other = sqlite3.connect(db, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other.close


def damaged(db: Path) -> Mend:
    """Its sessions may be read, its messages not."""
    blob = db.read_bytes()
    broken = bytearray(blob)
    for at in range(4096, len(broken), 4096):
        broken[at : at + 1024] = bytes(range(256)) * 4
    db.write_bytes(broken)
    return lambda: db.write_bytes(blob) and None


class Branching:
    """A host with several sessions, of which one branches off another; what each should show is in ``said``."""

    def __init__(self, home: Path) -> None:
        self.home, self.above = home, dict[str, str]()
        self.said, self.live = dict[str, Chat](), dict[str, Chat]()
        self.host = Host(home)
        self.goes_to("other")
        self.turns(2, first=900)  # so that conversations have other numbers in a file that begins without this one
        self.goes_to("s")

    def goes_to(self, name: str) -> None:
        self.said.setdefault(name, Chat())
        self.live.setdefault(name, Chat())
        self.name = self.host.session_id = name
        engine = self.host.engine
        engine.on_session_reset()
        engine.bind_session_state(SimpleNamespace(get_session=self.row), name)
        engine.on_session_start(name, platform="cli")

    def row(self, name: str) -> dict[str, Any]:
        """The host's row of a session."""
        parent = self.above.get(name)
        branched = {"parent_session_id": parent, "model_config": {"_branched_from": parent}} if parent else {}
        return {"id": name, "source": "cli", **branched}

    def branches(self, name: str, *, without: int) -> None:
        """It begins with the list of the session that goes on, or with all but its last messages."""
        for lists in (self.said, self.live):
            lists[name] = Chat(dict(each) for each in lists[self.name][: len(lists[self.name]) - without])
        self.above[name] = self.name
        self.goes_to(name)

    def turns(self, count: int, first: int) -> None:
        for n in range(first, first + count):
            new = chat().turns(1, first=n)
            self.said[self.name] += new
            live = self.live[self.name] = Chat([*self.live[self.name], *new])
            self.host.says(live)
            if self.host.engine.should_compress(tokens_of(live)):
                self.live[self.name] = Chat(self.host.compress(live))

    def restarts(self) -> None:
        self.host.close()
        self.host = Host(self.home)
        self.live = {name: reload(live) for name, live in self.live.items()}
        self.goes_to(self.name)

    def shown(self, name: str) -> list[str]:
        runtime = self.host.runtime
        thread = runtime.ingest.transcripts.expected(runtime.session(name), None)
        return texts(row.stored_json for row in runtime.store.rows([item.store_id for item in thread]))

    def holds(self) -> None:
        """Every session shows exactly what the host said in it; nothing is stored twice, or without its place in the prompt."""
        assert {name: self.shown(name) for name in self.said} == {name: texts(said) for name, said in self.said.items()}
        assert [text for text, times in Counter(texts(self.host.stored())).items() if times > 1] == []
        assert self.host.gaps(self.live[self.name]) == (0, 0)
        assert "FAILED" not in self.host.command("doctor deep").text


@pytest.mark.few(5)
@pytest.mark.parametrize("fault", [a_folder, damaged])
@pytest.mark.parametrize("before", [4, 40], ids=["whole", "compacted"])
@pytest.mark.parametrize("first", ["branch", "parent"])
@pytest.mark.parametrize(
    ("without", "killed"), [(0, False), (2, True)], ids=["at the end", "in the middle, in a new process"]
)
def test_a_branch_that_begins_in_an_outage_shows_what_its_host_shows(
    hermes_home: Path, fault: Callable[[Path], Mend], before: int, first: str, without: int, killed: bool
) -> None:
    """Afterwards, when a new process resumes it, and when its parent goes on. ``first``: who speaks first in the outage."""
    host = Branching(hermes_home)
    host.turns(before, first=0)
    if killed:
        host.restarts()
    host.host.close()
    mend = fault(hermes_home / "lcm.db")
    if first == "parent":
        host.turns(1, first=100)
    host.branches("b", without=without)
    host.turns(2, first=200)
    host.branches("c", without=0)
    host.turns(1, first=300)
    assert "stand-in" in host.host.topics()

    mend()
    host.host.runtime.standby._not_before = 0.0
    host.turns(1, first=400)
    assert [*hermes_home.glob("lcm.standby-*.db")] == []
    host.holds()
    host.restarts()
    host.turns(1, first=500)
    host.holds()
    host.goes_to("s")
    host.turns(1, first=600)
    host.holds()


@pytest.mark.parametrize("fault", [a_folder, damaged])
def test_a_branch_of_a_branch_that_compacts_in_an_outage_covers_all_of_its_past(
    hermes_home: Path, fault: Callable[[Path], Mend]
) -> None:
    """The summary that its list begins with is text in the stand-in, and the first branch has that text."""
    host = Branching(hermes_home)
    host.turns(40, first=0)
    host.branches("b", without=0)
    host.turns(1, first=100)
    host.host.close()
    mend = fault(hermes_home / "lcm.db")
    host.turns(1, first=200)
    host.branches("c", without=0)
    host.turns(6, first=300)

    mend()
    host.host.runtime.standby._not_before = 0.0
    host.turns(1, first=400)
    assert [*hermes_home.glob("lcm.standby-*.db")] == []
    host.holds()


@pytest.mark.parametrize(("fault", "back"), [(locked, 4), (a_folder, 4), (a_folder, 6), (damaged, 6)])
def test_what_a_branch_takes_back_in_an_outage_stays_taken_back(
    hermes_home: Path, fault: Callable[[Path], Mend], back: int
) -> None:
    """It had begun before; with ``back`` over 4 it takes back some of what it inherits, and its parent keeps that."""
    host = Branching(hermes_home)
    host.turns(4, first=0)
    host.branches("b", without=0)
    host.turns(1, first=100)
    host.host.close()
    mend = fault(hermes_home / "lcm.db")
    host.turns(1, first=200)
    for lists in (host.said, host.live):
        del lists["b"][-back:]
    host.turns(1, first=300)

    mend()
    host.host.runtime.standby._not_before = 0.0
    host.turns(1, first=400)
    assert {name: host.shown(name) for name in host.said} == {name: texts(said) for name, said in host.said.items()}


def test_a_stand_in_of_a_branch_whose_sessions_are_gone_keeps_nothing_from_being_stored(hermes_home: Path) -> None:
    host = Branching(hermes_home)
    host.turns(4, first=0)
    host.branches("b", without=0)
    host.turns(1, first=100)
    host.host.close()
    mend = locked(hermes_home / "lcm.db")
    host.turns(2, first=200)
    host.host.close()
    with closing(sqlite3.connect(next(hermes_home.glob("lcm.standby-*.db")), isolation_level=None)) as db:
        db.execute("DELETE FROM sessions")

    mend()
    host.restarts()
    host.turns(1, first=300)
    assert host.shown("b") == texts(host.said["b"])


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", [1, 5, 6, 9, 14, 15, 21, 24, 39])
def test_branches_in_files_that_are_exchanged_at_random_lose_and_double_nothing(hermes_home: Path, seed: int) -> None:
    shelf = Shelf(hermes_home, seed, branch=True)
    shelf.plays(20)

    assert shelf.verdict() == HOLDS
