"""Bad lines and servers that take each other's place: no turn waits, the status says what is missing, all arrives later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from loopback import Line
from worlds.fleet import Fleet, Host, Process, eventually
from worlds.process import WAIT_S, chat

from hermes_lcm.command import answer, operator_access, run
from hermes_lcm.config import Secret
from hermes_lcm.errors import FleetError, FleetUnavailable
from hermes_lcm.fleet import background, schema, server
from hermes_lcm.search.scope import Rights

Hosts = Callable[..., Host]


@pytest.fixture
def line(fleet: Fleet) -> Iterator[Line]:
    """A line to the tests' server."""
    made = Line(fleet.postgres.port)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again at once."""
    monkeypatch.setattr(background, "_LONGEST_WAIT_S", 0.05)


def through(line: Line, dsn: str) -> str:
    """A connection string that leads through it."""
    head, _, database = dsn.rpartition("/")
    return f"{head.rpartition(':')[0]}:{line.port}/{database}"


def at_once(what: Callable[[], Any]) -> Any:
    """The result of something that waits for nobody: the line is held until it is there."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(what()), daemon=True)
    thread.start()
    thread.join(3 * WAIT_S)
    assert found, "it waits for the network"
    return found[0]


def status(process: Process) -> str:
    return str(run("status", operator_access(process.runtime, process.runtime.stored("s"), None, Rights(None))))


@pytest.mark.parametrize("known", [True, False])
def test_a_host_that_has_stored_nothing_yet_asks_the_server(fleet: Fleet, tmp_path: Path, known: bool) -> None:
    """So a connection string can be tried before the first message; looking makes no database."""
    dsn = fleet.role("new") if known else "postgresql://nobody:x@127.0.0.1:1/none"
    made = Process(tmp_path / "new", dsn)
    said = answer("fleet status", made.runtime.access(None, Rights(), trusted=True))

    assert ("PostgreSQL" in said.text) is known
    assert ("unreachable" in said.text) is not known
    assert not made.runtime.path.exists()
    made.end()


def test_a_server_that_accepts_and_never_answers_keeps_no_turn_waiting(
    fleet: Fleet, line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns, searches and the status are answered from here; when it answers, everything arrives."""
    monkeypatch.setattr(background, "_SILENCE_S", 0.1)
    line.hold()
    process = Process(tmp_path / "p", through(line, fleet.role("p") + "?connect_timeout=2"))
    at_once(lambda: process.take(chat().user("the key lies under the terracotta pot").says("noted").turns(2)))
    answer = at_once(lambda: process.search("terracotta pot"))
    said = at_once(lambda: status(process))
    line.go()

    assert "terracotta pot" in answer
    assert "were not searched" in answer
    assert "the server lacks" in said
    eventually(lambda: process.behind() == 0)
    assert fleet.count("messages") == 6
    process.end()


def test_a_line_that_goes_silent_keeps_no_turn_waiting(
    fleet: Fleet, line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the midst of a push, with connections that were good; what was under way arrives once."""
    monkeypatch.setattr(background, "_SILENCE_S", 0.1)
    process = Process(tmp_path / "p", through(line, fleet.role("p") + "?connect_timeout=2"))
    process.take(chat().turns(2))
    eventually(lambda: process.behind() == 0)
    process.search("anything")  # its connection is in the pool now
    line.hold()
    at_once(lambda: process.take(chat().turns(4)))
    answer = at_once(lambda: process.search("anything"))
    missing = at_once(process.behind)
    line.go()

    assert "were not searched" in answer
    assert missing >= 4
    eventually(lambda: process.behind() == 0)
    assert fleet.count("messages") == 8
    process.end()


@pytest.mark.slow
def test_a_silent_line_is_given_up_and_tried_again(
    fleet: Fleet, line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing says that the other end is gone: no packet comes, and no error either."""
    process = Process(tmp_path / "p", through(line, fleet.role("p") + "?connect_timeout=2"))
    process.take(chat().turns(2))
    eventually(lambda: process.runtime.fleet.state()["last_push_at"] is not None)
    monkeypatch.setattr(server, "SILENCE_S", 0.1)
    line.hold()
    process.take(chat().turns(4))
    eventually(lambda: bool(process.runtime.fleet.state()["error"]))
    monkeypatch.setattr(server, "SILENCE_S", 60.0)
    line.go()

    eventually(lambda: process.behind() == 0)
    assert fleet.count("messages") == 8
    process.end()


def test_a_line_that_breaks_under_load_loses_and_doubles_nothing(fleet: Fleet, line: Line, tmp_path: Path) -> None:
    """Broken again and again while turns go on."""
    process = Process(tmp_path / "p", through(line, fleet.role("p") + "?connect_timeout=2"))
    for n in range(1, 21):
        process.take(chat().turns(n))
        line.cut()
    eventually(lambda: process.behind() == 0)

    assert fleet.count("messages") == 40
    assert process.runtime.fleet.member.verify().sound
    process.end()


def failed_over(fleet: Fleet) -> None:
    """A standby that lags takes the server's place: what was written since ``copied`` is gone."""
    name = fleet.admin.rpartition("/")[2]
    with psycopg.connect(fleet.postgres.admin, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        admin.execute(f"ALTER DATABASE {name} RENAME TO {name}_lost")
        admin.execute(f"ALTER DATABASE {name}_standby RENAME TO {name}")


def copied(fleet: Fleet) -> None:
    name = fleet.admin.rpartition("/")[2]
    with psycopg.connect(fleet.postgres.admin, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}_standby TEMPLATE {name}")


def test_a_standby_that_lags_gets_again_what_it_lacks(fleet: Fleet, host: Hosts) -> None:
    """Messages, summaries and changes that the lost server had confirmed are sent once more."""
    a = host("a")
    live = chat().turns(2)
    a.take(live)
    a.member.push()
    a.member.close()
    copied(fleet)
    a.compact(live.turns(24, first=10))
    a.member.push()
    wanted = [fleet.count(table) for table in ("messages", "nodes", "assemblies")]
    a.take(chat().turns(2).user("the rest is taken back"))
    a.member.push()
    retracted = a.sql("SELECT count(*) FROM lcm.messages WHERE flags & 1024 <> 0 OR flags <> 0")
    a.member.close()
    failed_over(fleet)
    less = fleet.count("messages")
    a.member.push()

    assert less == 4
    assert [fleet.count(table) for table in ("messages", "nodes", "assemblies")] == [wanted[0] + 1, *wanted[1:]]
    assert a.sql("SELECT count(*) FROM lcm.messages WHERE flags & 1024 <> 0 OR flags <> 0") == retracted
    assert a.member.verify().sound
    assert a.member.push().messages == 0


def test_a_line_that_leads_to_a_standby_waits_until_it_may_write(fleet: Fleet, line: Line, tmp_path: Path) -> None:
    """The primary is gone, the standby answers reads only, then it is promoted."""
    process = Process(tmp_path / "p", through(line, fleet.role("p") + "?connect_timeout=2"))
    process.take(chat().turns(2))
    eventually(lambda: process.behind() == 0)
    name = fleet.admin.rpartition("/")[2]
    line.target = 1  # nobody listens there
    line.cut()
    process.take(chat().turns(4))
    eventually(lambda: "cannot be reached" in process.runtime.fleet.state()["error"])
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        line.target = fleet.postgres.port
        eventually(lambda: "read-only" in process.runtime.fleet.state()["error"])
        missing = process.behind()
        admin.execute("SET default_transaction_read_only = off")
        admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")

    assert missing >= 4
    eventually(lambda: process.behind() == 0)
    assert fleet.count("messages") == 8
    process.end()


def test_a_schema_of_an_older_release_is_waited_for(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status names the two versions and the operator's verb; after it everything arrives."""
    one_more_step(monkeypatch, "CREATE TABLE lcm.more()")
    process = Process(tmp_path / "p", fleet.role("p"))
    process.take(chat().turns(3))
    eventually(lambda: f"schema is version {schema.VERSION}" in process.runtime.fleet.state()["error"])
    said = status(process)
    asked = answer("fleet status", process.runtime.access(None, Rights(), trusted=True)).text
    with server.Server(Secret(fleet.admin)).connected() as connection:
        assert server.migrate(connection) == (schema.VERSION, schema.VERSION + 1)

    assert "fleet init" in said
    assert "unreachable" not in asked
    eventually(lambda: process.behind() == 0)
    assert fleet.count("messages") == 6
    process.end()


def one_more_step(monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    """The next release's schema."""
    monkeypatch.setattr(server, "STEPS", {**schema.STEPS, schema.VERSION + 1: sql})
    monkeypatch.setattr(server, "VERSION", schema.VERSION + 1)


def test_a_schema_that_no_release_wrote_is_refused_and_left_as_it_is(fleet: Fleet) -> None:
    """Versions before the first release's were of its development; the answer says how to begin anew."""
    with psycopg.connect(fleet.admin) as admin:
        admin.execute("UPDATE lcm.meta SET value = '5'")
    with (
        pytest.raises(FleetError, match="no release wrote") as refused,
        server.Server(Secret(fleet.admin)).connected() as connection,
    ):
        server.migrate(connection)

    assert "empty database" in refused.value.remedy
    with psycopg.connect(fleet.admin) as admin:
        assert admin.execute("SELECT value FROM lcm.meta").fetchall() == [("5",)]


def test_a_host_of_such_a_server_is_told_how_to_begin_anew(fleet: Fleet) -> None:
    """Its operator's `fleet init` would refuse as well, so nobody is sent there."""
    with psycopg.connect(fleet.admin) as admin:
        admin.execute("UPDATE lcm.meta SET value = '5'")
    with (
        pytest.raises(FleetError, match="no release wrote") as refused,
        server.Server(Secret(fleet.role("host"))).checked(),
    ):
        pass

    assert "empty database" in refused.value.remedy
    assert "for each host" in refused.value.remedy  # an empty database knows no host's realm


def test_an_upgrade_that_a_reader_stands_in_the_way_of_says_so(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may read leaves a transaction open; the server answers well, and the next try does it."""
    one_more_step(monkeypatch, "ALTER TABLE lcm.nodes ADD more int")
    monkeypatch.setattr(server, "_LOCK_MS", 50)
    with psycopg.connect(fleet.role("reader")) as reader:
        reader.execute("SELECT FROM lcm.nodes")
        with (
            pytest.raises(FleetUnavailable, match="keeps a lock") as refused,
            server.Server(Secret(fleet.admin)).connected() as connection,
        ):
            server.migrate(connection)
    with server.Server(Secret(fleet.admin)).connected() as connection:
        done = server.migrate(connection)

    assert "pg_stat_activity" in refused.value.remedy
    assert done == (schema.VERSION, schema.VERSION + 1)
