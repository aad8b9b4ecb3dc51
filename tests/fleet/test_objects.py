"""Large messages and backups in an object store: moto's server on this machine speaks S3."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import psycopg
import pytest
from worlds.fleet import Fleet, Host, Process, eventually
from worlds.process import chat

from hermes_lcm import command
from hermes_lcm.command import OK
from hermes_lcm.config import Secret
from hermes_lcm.errors import FleetUnavailable
from hermes_lcm.fleet import copies
from hermes_lcm.fleet.member import Member, exact
from hermes_lcm.fleet.objects import Objects
from hermes_lcm.search.scope import Rights
from hermes_lcm.storage.meta import Meta

pytestmark = pytest.mark.slow
Hosts = Callable[..., Host]
ROOT = Path(__file__).resolve().parents[2]
SERVER = Path(os.environ.get("LCM_TEST_MOTO") or ROOT / ".moto" / "bin" / "moto_server")
LARGE = "the aardvark sleeps " + os.urandom(20_000).hex()


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """The server's address, without its scheme; a bucket is there."""
    assert SERVER.exists(), "scripts/setup-env moto"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [SERVER, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        client = import_module("minio").Minio(
            f"127.0.0.1:{port}", access_key="k", secret_key="s", secure=False, region="us-east-1"
        )
        end = time.monotonic() + 60
        while True:
            try:
                client.make_bucket("lcm")
                break
            except Exception:
                assert time.monotonic() < end
                time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(10)


@pytest.fixture
def place(store: str, fleet: Fleet) -> str:
    """A prefix of its own."""
    return f"http://akey:s3cr3t%2Fkey@{store}/lcm/{fleet.tag}"


def objects(place: str) -> list[str]:
    return Objects(place).names("")


def ask(host: Host, words: str) -> command.Answer:
    access = host.runtime.access(None, Rights(), trusted=True)
    config = replace(access.config, fleet_dsn=Secret(host.dsn))
    return command.answer(words, replace(access, config=config))


@pytest.fixture
def pair(host: Hosts, place: str) -> tuple[Host, Host]:
    """Two hosts that share a store; the first one said something large."""
    a, b = (host(name, fleet_objects=Secret(place), fleet_object_bytes=5_000) for name in "ab")
    a.take(chat().user("small").says("yes").user(LARGE).says("noted"))
    a.member.push()
    return a, b


def test_a_large_message_goes_through_the_store_and_comes_back_exactly(
    fleet: Fleet, pair: tuple[Host, Host], place: str
) -> None:
    """Only the large one; pushed again it is there once."""
    a, b = pair
    b.member.pull(30)
    sizes = a.sql("SELECT octet_length(envelope) FROM lcm.messages ORDER BY 1 DESC")
    with a.db.transaction():
        a.db.execute("UPDATE messages SET flags = flags | 1")
    a.member.push()

    assert b.stored() == a.stored()
    assert any(LARGE in str(row.stored_json) for rows in b.store.row_batches() for row in rows)
    assert len(objects(place)) == 1
    assert sizes[0][0] < 500
    assert b.member.verify().sound


def test_who_reads_the_bucket_reads_nothing(pair: tuple[Host, Host], place: str) -> None:
    """The key of each object stands in its row, which row level security guards."""
    (name,) = objects(place)
    data = Objects(place).get(name)

    assert b"aardvark" not in data
    assert len(data) > 10_000


def test_an_object_that_was_changed_is_refused(pair: tuple[Host, Host], place: str) -> None:
    """Nothing false comes into a host's file."""
    _, b = pair
    (name,) = objects(place)
    data = Objects(place).get(name)
    Objects(place).put(name, data[:-1] + bytes([data[-1] ^ 1]))
    told = b.member.pull(30).refused

    assert ["not what was stored" in why for why in told.values()] == [True]
    assert b.counts()["messages"] == 0


def test_a_host_without_the_store_is_told(host: Hosts, pair: tuple[Host, Host]) -> None:
    """In its status, too; and nothing of the conversation is taken in."""
    c = host("c")
    told = c.member.pull(30).refused

    assert ["LCM_FLEET_OBJECTS is not set" in why for why in told.values()] == [True]
    assert "LCM_FLEET_OBJECTS is not set" in ask(c, "status").text
    assert c.counts()["messages"] == 0


def test_a_store_that_does_not_answer_is_waited_for(host: Hosts, place: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is lost, and no error, log or status shows the secret."""
    away = "http://akey:s3cr3t%2Fkey@127.0.0.1:1/lcm/x"
    a = host("a", fleet_objects=Secret(away), fleet_object_bytes=5_000)
    a.take(chat().user(LARGE).says("noted"))
    with pytest.raises(FleetUnavailable) as refused:
        a.member.push()
    behind = a.member.rows_behind()
    told = f"{refused.value} {refused.value.remedy} {refused.value.__cause__} {caplog.text} {a.config} {ask(a, 'status').text}"
    access = replace(
        a.runtime.access(None, Rights(), trusted=True), config=replace(a.config, fleet_objects=Secret(place))
    )
    Member(a.db, Secret(a.dsn), lambda: exact(access), a.health).push()

    assert behind >= 2
    assert "s3cr3t" not in told
    assert a.member.rows_behind() == 0
    assert len(objects(place)) == 1


def test_a_purge_empties_the_store_too(fleet: Fleet, pair: tuple[Host, Host], place: str) -> None:
    """The certificate counts its objects."""
    a, b = pair
    b.member.pull(30)
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        admin.execute(f"GRANT lcm_purger TO lcm_a_{fleet.tag}")
    answer = ask(a, "purge matching aardvark apply")

    assert answer.code == OK, answer.text
    assert objects(place) == []
    found = {each["table"]: each for each in answer.data["certificate"]["fleet"]["tables"]}
    assert found["objects"].items() >= {"rows": 1, "removed": 1, "holds": []}.items()
    assert ask(b, "fleet pull").data["purged"] == 1
    assert "aardvark" not in str(b.stored())


# -- copies of backups -------------------------------------------------------------------------------------------------
def test_a_lost_machine_comes_back_from_the_store(pair: tuple[Host, Host], place: str, tmp_path: Path) -> None:
    """Its role on an empty home fetches the newest copy, the drill passes, and a restore has every message."""
    a, _ = pair
    ask(a, "fleet keep")
    a.take(chat().user("small").says("yes").user(LARGE).says("noted").user("later").says("ok"))
    kept = ask(a, "fleet keep")
    (tmp_path / "new").mkdir()
    new = Host(tmp_path / "new", fleet_objects=Secret(place)).to(a.dsn)
    fetched = ask(new, "fleet fetch")
    drill = ask(new, f"backup drill {fetched.data['path']}")
    back = ask(new, f"restore {Path(fetched.data['path']).name} apply")

    assert kept.code == fetched.code == drill.code == back.code == OK, (fetched.text, drill.text, back.text)
    assert kept.data["name"] in fetched.text
    assert "6 messages" in drill.text
    assert [row.stored_json for rows in new.runtime.whole_store.row_batches() for row in rows] == [
        row.stored_json for rows in a.runtime.whole_store.row_batches() for row in rows
    ]
    new.db.close()


def test_who_reads_the_bucket_opens_no_copy(pair: tuple[Host, Host], place: str) -> None:
    """Another host of the same realm neither: a copy is its own host's."""
    a, b = pair
    ask(a, "fleet keep")
    (name,) = [each for each in objects(place) if each.startswith("backups/")]

    assert b"SQLite format" not in Objects(place).get(name)
    assert b"aardvark" not in Objects(place).get(name)
    assert b.sql("SELECT * FROM lcm.backups") == []
    assert "keeps no copy" in ask(b, "fleet fetch").text


def test_a_copy_that_was_changed_is_refused(pair: tuple[Host, Host], place: str) -> None:
    """Nothing of it is left in the folder of backups."""
    a, _ = pair
    kept = ask(a, "fleet keep")
    folder = a.folder / "lcm-backups"
    (folder / kept.data["name"]).unlink()
    before = sorted(folder.iterdir())
    (name,) = [each for each in objects(place) if each.startswith("backups/")]
    data = Objects(place).get(name)
    Objects(place).put(name, bytes([data[0] ^ 1]) + data[1:])

    assert "not what was stored" in ask(a, "fleet fetch").text
    assert sorted(folder.iterdir()) == before


def test_copies_are_made_by_themselves_and_older_ones_go(
    fleet: Fleet, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At their interval, behind the turns; so many are kept."""
    monkeypatch.setattr(copies, "KEPT", 1)
    process = Process(tmp_path / "p", fleet.role("p"), LCM_FLEET_OBJECTS=place, LCM_FLEET_BACKUP_HOURS="1")
    process.take(chat().turns(2))
    eventually(lambda: fleet.count("backups") == 1)
    background = process.runtime.fleet
    background.stop()
    background.work()
    once = objects(place)
    Meta(process.runtime.db).note("fleet kept", 1.0)
    time.sleep(1.1)  # a backup's name is its second
    background.work()

    assert len(once) == len(objects(place)) == 1
    assert once != objects(place)
    process.runtime.db.close()


def test_a_purge_removes_the_copies_that_hold_it(fleet: Fleet, pair: tuple[Host, Host], place: str) -> None:
    """Of this host at once, of others with their next pull."""
    a, b = pair
    b.member.pull(30)
    for each in pair:
        ask(each, "fleet keep")
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        admin.execute(f"GRANT lcm_purger TO lcm_a_{fleet.tag}")
    answer = ask(a, "purge matching aardvark apply")
    left = fleet.count("backups")
    ask(b, "fleet pull")

    assert answer.code == OK, answer.text
    assert (left, fleet.count("backups"), objects(place)) == (1, 0, [])
