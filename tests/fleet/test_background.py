"""Behind the turns: whatever the server does, the local file serves, status says how far behind, and all arrives later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from worlds.fleet import Fleet, Host, Process, ask, eventually, purger
from worlds.postgres import running
from worlds.process import chat

from hermes_lcm.command import operator_access, run
from hermes_lcm.errors import FleetError, FleetUnavailable, StoreError
from hermes_lcm.fleet.background import SharedLeases
from hermes_lcm.search.scope import Rights

Hosts = Callable[..., Host]


def test_what_a_turn_stores_arrives_by_itself(fleet: Fleet, tmp_path: Path) -> None:
    """Nobody types a verb."""
    process = Process(tmp_path / "p", fleet.role("p"))
    process.take(chat().turns(3))
    eventually(lambda: fleet.count("messages") == 6 and process.behind() == 0)
    process.end()


def refused(_: Fleet) -> str:
    return "host=127.0.0.1 port=1 dbname=x user=x connect_timeout=1"


def wrong_password(fleet: Fleet) -> str:
    return fleet.role("w").replace(":", ":wrong", 2).replace(":wrong//", "://", 1)


def nonsense(_: Fleet) -> str:
    return "this is=no 'dsn and holds a s3cr3t"


@pytest.mark.parametrize("dsn", [refused, wrong_password, nonsense], ids=lambda each: each.__name__)
def test_without_a_server_the_turn_goes_on(
    fleet: Fleet, tmp_path: Path, dsn: Callable[[Fleet], str], caplog: pytest.LogCaptureFixture
) -> None:
    """Stored and read at once; status says what waits and why, and holds no secret."""
    text = dsn(fleet)
    process = Process(tmp_path / "p", text)
    assert process.runtime.fleet is not None
    process.take(chat().turns(3))
    eventually(lambda: bool(process.runtime.fleet.state()["error"]))
    process.take(chat().turns(4))
    said = run("status", operator_access(process.runtime, process.runtime.stored("s"), None))
    told = f"{said} {caplog.text} {process.runtime.health.problems()} {process.runtime.config}"

    assert process.runtime.store.count() == 8
    assert process.behind() > 8
    assert "the server lacks" in run(
        "status", operator_access(process.runtime, process.runtime.stored("s"), None, Rights(None))
    )
    assert "s3cr3t" not in told
    assert "wrong" not in told
    assert text not in told
    process.end()


def test_a_server_that_comes_back_gets_everything(tmp_path: Path) -> None:
    """Killed while a host works, and started again: nothing is lost, nothing is there twice."""
    with running() as server:
        fleet = Fleet(server, tmp_path)
        process = Process(tmp_path / "p", fleet.role("p"))
        process.take(chat().turns(3))
        eventually(lambda: process.behind() == 0)
        server.kill()
        process.take(chat().turns(30))
        server.start()
        eventually(lambda: fleet.count("messages") == 60)
        process.end()


def test_a_read_only_server_is_waited_for(fleet: Fleet, tmp_path: Path) -> None:
    """As after a failover to a standby."""
    process = Process(tmp_path / "p", fleet.role("p"))
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        name = fleet.admin.rpartition("/")[2]
        admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        process.take(chat().turns(3))
        eventually(lambda: "read-only" in process.runtime.fleet.state()["error"])
        admin.execute("SET default_transaction_read_only = off")
        admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    eventually(lambda: process.behind() == 0)
    process.end()


def test_a_search_of_everything_finds_what_another_host_has(fleet: Fleet, tmp_path: Path) -> None:
    """And what it finds can be read on, at its address."""
    one = Process(tmp_path / "one", fleet.role("one"))
    two = Process(tmp_path / "two", fleet.role("two"), LCM_FLEET_PULL_DAYS="0")
    one.take(chat().turns(5).user("the spare key lies under the terracotta flowerpot").says("noted"))
    two.take(chat().turns(2, first=900), "t")
    eventually(lambda: one.behind() == 0 and two.behind() == 0)

    assert "terracotta flowerpot" in two.search("where is the spare key, terracotta flowerpot?")
    assert two.runtime.store.count() == 16
    one.end()
    two.end()


def test_a_chat_finds_elsewhere_what_is_its_own_only(fleet: Fleet, tmp_path: Path) -> None:
    """A host may see two people; each of them is told of one."""
    one = Process(tmp_path / "one", fleet.role("one"))
    two = Process(tmp_path / "two", fleet.role("two"), LCM_FLEET_PULL_DAYS="0")
    one.take(chat().user("my terracotta secret").says("yours"), "sa", platform="telegram", owner="telegram:dm:1")
    two.take(chat().user("hello").says("hi"), "sb", platform="telegram", owner="telegram:dm:2")
    eventually(lambda: one.behind() == 0 and two.behind() == 0)

    assert "terracotta" not in two.search("terracotta secret", "telegram:dm:2").replace("terracotta secret", "")
    assert two.runtime.store.count() == 2
    assert "my terracotta secret" in two.search("terracotta secret", "telegram:dm:1")
    one.end()
    two.end()


def test_a_compaction_is_one_hosts_at_a_time(host: Hosts) -> None:
    """The other waits until the claim is given back; a host without a server waits for nobody."""
    a, b = host("a"), host("b")
    a.take(chat().turns(3))
    a.member.push()
    b.member.pull(30)
    first, second = (SharedLeases(each.runtime.leases, each.member) for each in (a, b))

    assert first.claim("prepare:1", 60)
    assert first.claim("prepare:1", 60)
    assert not second.claim("prepare:1", 60)
    first.release("prepare:1")
    assert second.claim("prepare:1", 60)
    a.to("host=127.0.0.1 port=1 connect_timeout=1")
    assert SharedLeases(a.runtime.leases, a.member).claim("prepare:1", 60)


def test_the_string_of_a_connection_may_stand_in_a_file(fleet: Fleet, tmp_path: Path) -> None:
    """So that it is in no environment."""
    (tmp_path / "dsn").write_text(fleet.role("f") + "\n")
    process = Process(tmp_path / "p", f"file:{tmp_path / 'dsn'}")
    process.take(chat().turns(1))
    eventually(lambda: fleet.count("messages") == 2)
    process.end()


def test_parameters_of_tls_reach_the_server(fleet: Fleet, tmp_path: Path) -> None:
    """A server without TLS is refused by a host that insists on it."""
    process = Process(tmp_path / "p", fleet.role("f") + "?sslmode=require")
    process.take(chat().turns(1))
    eventually(lambda: "SSL" in process.runtime.fleet.state()["error"])

    assert fleet.count("messages") == 0
    process.end()


def test_a_role_that_is_no_hosts_is_refused_and_told(fleet: Fleet, tmp_path: Path) -> None:
    """The operator's own, which would read everything of everybody; with a host's role all is sent."""
    process = Process(tmp_path / "p", fleet.admin)
    process.take(chat().turns(3))
    eventually(lambda: "is no host's role" in process.runtime.fleet.state()["error"])
    assert "fleet init" in str([each.remedy for each in process.runtime.health.problems()])
    assert fleet.count("messages") == fleet.count("blocks") == 0
    process.end()
    process = Process(tmp_path / "p", fleet.role("p"))
    process.take(chat().turns(4))
    eventually(lambda: process.behind() == 0)

    assert fleet.count("messages") == 8
    process.end()


def test_between_two_tries_it_waits_once(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No longer than is said, also where nothing is stored meanwhile."""
    process = Process(tmp_path / "p", refused(fleet))
    worker = process.runtime.fleet
    assert worker is not None
    waits: list[float] = []

    class Clock(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0.0)
            return False

    worker._ready, worker._wake, worker._stopped = lambda: True, Clock(), Clock()
    monkeypatch.setattr(worker, "work", lambda: tries.append(sum(waits)) or failing())
    tries: list[float] = []

    def failing() -> None:
        worker._wait_s = 30.0
        if len(tries) == 3:
            worker._stopped.set()

    worker._run()

    assert [later - sooner for sooner, later in pairwise(tries)] == [30.0, 30.0]
    process.end()


@pytest.mark.parametrize("error", [FleetError, FleetUnavailable, StoreError], ids=lambda each: each.__name__)
def test_a_host_that_cannot_send_obeys_and_fetches(
    fleet: Fleet, host: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """A push that fails keeps no purge and no news from a host; status tells of it."""
    a, process = host("a"), Process(tmp_path / "p", fleet.role("p"))
    purger(fleet, a)
    worker = process.runtime.fleet
    assert worker is not None
    process.take(chat().turns(1, first=9), "t")
    a.take(chat().user("the aardvark sleeps").says("noted"))
    a.member.push()
    worker.work()
    assert process.runtime.store.count() == 4

    def failing(*_: object) -> None:
        raise error("no row is taken")

    monkeypatch.setattr(worker.member, "push", failing)
    assert ask(a, "purge matching 'the aardvark sleeps' apply").code == 0
    a.take(chat().user("news").says("yes"), "u")
    a.member.push()
    worker.work()

    assert "aardvark" not in str([row.text for rows in process.runtime.store.row_batches() for row in rows])
    assert process.runtime.store.count() == 6
    assert worker.state()["error"] == "no row is taken"
    process.end()


@pytest.mark.parametrize("dsn", [refused, wrong_password], ids=lambda each: each.__name__)
def test_a_server_that_is_away_is_asked_once_a_try(
    fleet: Fleet, host: Hosts, tmp_path: Path, dsn: Callable[[Fleet], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What needs it is not tried one by one, each with a wait of its own."""
    process = Process(tmp_path / "p", dsn(fleet))
    worker = process.runtime.fleet
    assert worker is not None
    process.runtime.db.query("SELECT 1")
    tries: list[object] = []
    real = worker.member.server.connected
    monkeypatch.setattr(worker.member.server, "connected", lambda **given: tries.append(given) or real(**given))
    worker.work()

    assert len(tries) == 1
    process.end()


def test_an_unforeseen_error_behind_the_turns_is_told_and_tried_again(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends no thread: nobody would begin another one."""
    process = Process(tmp_path / "p", fleet.role("p"))
    worker = process.runtime.fleet
    assert worker is not None
    with monkeypatch.context() as patch:
        patch.setattr(worker.member, "push", lambda *_: {}["a defect"])
        process.take(chat().turns(1))
        eventually(lambda: "unexpected" in worker.state()["error"])
        access = operator_access(process.runtime, process.runtime.stored("s"), None, Rights(None))
        eventually(lambda: "(KeyError)" in run("status", access))
    eventually(lambda: process.behind() == 0)
    eventually(lambda: not worker.state()["error"])
    process.end()
