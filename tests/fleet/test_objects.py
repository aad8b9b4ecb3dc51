"""Large messages and backups in an object store: moto's server on this machine speaks S3."""

from __future__ import annotations

import errno
import json
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
from worlds.fleet import Fleet, Host, Process, ask, eventually, purger
from worlds.home import Home
from worlds.process import chat
from worlds.refusing import Refusals

from hermes_lcm.command import FOUND, OK, Answer
from hermes_lcm.config import Secret
from hermes_lcm.errors import FleetUnavailable
from hermes_lcm.fleet import copies
from hermes_lcm.fleet.member import Member, exact
from hermes_lcm.fleet.objects import Objects
from hermes_lcm.ops.forget import purge
from hermes_lcm.records import Flag
from hermes_lcm.search.scope import Rights
from hermes_lcm.storage.meta import Meta
from hermes_lcm.text.content import read_message

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
    behind = a.member.outbox.rows_behind()
    told = f"{refused.value} {refused.value.remedy} {refused.value.__cause__} {caplog.text} {a.config} {ask(a, 'status').text}"
    access = replace(
        a.runtime.access(None, Rights(), trusted=True), config=replace(a.config, fleet_objects=Secret(place))
    )
    Member(a.db, Secret(a.dsn), lambda: exact(access), a.health).push()

    assert behind >= 2
    assert "s3cr3t" not in told
    assert a.member.outbox.rows_behind() == 0
    assert len(objects(place)) == 1


def test_a_purge_empties_the_store_too(fleet: Fleet, pair: tuple[Host, Host], place: str) -> None:
    """The certificate counts its objects."""
    a, b = pair
    b.member.pull(30)
    purger(fleet, a)
    answer = ask(a, "purge matching aardvark apply")

    assert answer.code == OK, answer.text
    assert objects(place) == []
    found = {each["table"]: each for each in answer.data["certificate"]["fleet"]["tables"]}
    assert found["objects"].items() >= {"rows": 1, "removed": 1, "holds": []}.items()
    assert ask(b, "fleet pull").data["purged"] == 1
    assert "aardvark" not in str(b.stored())


def test_a_purge_leaves_the_object_of_another_message_under_that_number(
    fleet: Fleet, pair: tuple[Host, Host], host: Hosts, place: str
) -> None:
    """It is named with its conversation."""
    a, b = pair
    own = "the badger stays " + os.urandom(20_000).hex()
    b.session("t", principal="telegram:dm:2")
    b.take(chat().user(own).says("noted"), "t")
    b.member.push()
    store, nonce = Objects(place), b.session("t").nonce
    with psycopg.connect(fleet.admin) as admin:  # as hosts store it whose older file was put back
        numbers = dict(admin.execute("SELECT session_id, max(id) - 1 FROM lcm.messages GROUP BY 1").fetchall())
        number, was = numbers["s"], numbers["t"]
        stored = admin.execute("SELECT envelope FROM lcm.messages WHERE id = %s", (was,)).fetchone() or (b"",)
        again = store.keep(number, store.fetch(stored[0]), nonce)
        store.remove(json.loads(stored[0][1:])["object"])
        admin.execute("UPDATE lcm.messages SET id = %s, envelope = %s WHERE id = %s", (number, again, was))
    before = objects(place)
    purger(fleet, a)
    done = ask(a, "purge matching aardvark apply")
    c = host("c", fleet_objects=Secret(place))
    pulled = c.member.pull(30)

    assert done.code == OK, done.text
    assert len(before) == 2
    assert fleet.count(f"messages WHERE id = {number}") == 2
    assert pulled.refused == {}
    assert own in [message["content"] for message in c.thread("t")]
    assert "aardvark" not in str(c.stored())


def test_a_host_that_says_less_removes_no_object_of_another_message(
    fleet: Fleet, host: Hosts, place: str, pair: tuple[Host, Host]
) -> None:
    """An older file was put back, and what was said since has the number of a message that the server has."""
    facts = {"fleet_objects": Secret(place), "fleet_object_bytes": 5_000}
    d, _ = host("d", **facts), pair[1]
    small = chat().user("hi").says("hello")
    d.take(small, "d")
    d.member.push()
    d.db.close()
    older = (d.folder / "lcm.db").read_bytes()
    d = Host(d.folder, **facts).to(d.dsn)
    d.take(small.copy().user(LARGE), "d")
    d.member.push()
    d.db.close()
    (d.folder / "lcm.db").write_bytes(older)
    d = Host(d.folder, **facts).to(d.dsn)
    d.take(small.copy().user("the badger stays " + os.urandom(20_000).hex()), "d")
    with d.db.transaction():
        d.db.execute("UPDATE messages SET flags = flags | ?", (Flag.REDACTED,))
    told = d.member.push()
    fresh = host("fresh", **facts)
    refused = fresh.member.pull(30).refused

    assert told.conflicts == []
    assert refused == {}
    assert LARGE in [message["content"] for message in fresh.thread("d")]
    d.db.close()


def test_what_a_host_sends_that_has_not_heard_of_a_purge_stays_in_no_store(
    fleet: Fleet, pair: tuple[Host, Host], place: str
) -> None:
    """Its row is not taken, so its object goes again."""
    a, b = pair
    b.member.pull(30)
    purger(fleet, a)
    ask(a, "purge matching aardvark apply")
    with b.db.transaction():
        b.db.execute("UPDATE messages SET flags = flags | ?", (Flag.HOST_NOTE,))
    b.member.push()

    assert objects(place) == []


@pytest.mark.parametrize("later", ["the whole", "the rest"])
def test_of_a_message_that_one_host_took_words_out_of_no_object_has_them(
    fleet: Fleet, pair: tuple[Host, Host], host: Hosts, place: str, later: str
) -> None:
    """Another one sends it whole, before or behind: its row stays readable, and what it had put into the store goes again."""
    a, b = pair
    b.member.pull(30)
    head = next(row.head for rows in a.store.row_batches() for row in rows if "aardvark" in str(row.stored_json))
    rest = "the rest of it: " + os.urandom(20_000).hex()
    said = read_message({"role": "user", "content": rest})
    a.store.rewrite([(head, replace(said, digest=head.digest, tokens=head.tokens, flags=head.flags | Flag.REDACTED))])
    with b.db.transaction():
        b.db.execute("UPDATE messages SET flags = flags | ?", (Flag.HOST_NOTE,))
    for each in (a, b) if later == "the whole" else (b, a):
        each.member.push()
    c = host("c", fleet_objects=Secret(place))
    refused = c.member.pull(30).refused

    assert refused == {}
    assert rest in str(c.stored())
    assert "aardvark" not in str(c.stored())
    assert len(objects(place)) == 1


def spoil(fleet: Fleet, place: str, how: str) -> None:
    """The large message's object is gone, or its row names something else."""
    store = Objects(place)
    (name,) = store.names("")
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        if how == "gone":
            store.remove(name)
        elif how == "changed":
            store.put(name, b"x" * 100)
        else:
            admin.execute(
                "UPDATE lcm.messages SET envelope = %s WHERE octet_length(envelope) = "
                "(SELECT max(octet_length(envelope)) FROM lcm.messages)", (b"\xff" + how.encode(),),
            )  # fmt: skip


SPOILT = (
    "gone",
    "changed",
    "no json",
    '{"object": "", "key": ""}',
    '{"object": "../x", "key": "00"}',
    '{"object": [1]}',
    "7",
)


@pytest.mark.parametrize("how", SPOILT, ids=range(len(SPOILT)))
def test_a_message_whose_object_cannot_be_read_holds_back_nothing_else(
    fleet: Fleet, pair: tuple[Host, Host], host: Hosts, place: str, how: str
) -> None:
    """Its conversation is named; others are pulled, and a purge of it goes through."""
    a, b = pair
    spoil(fleet, place, how)
    a.take(chat().user("another conversation").says("yes"), "t")
    a.member.push()
    told = b.member.pull(30).refused
    purger(fleet, a)
    done = ask(a, "purge matching aardvark apply")
    c = host("c", fleet_objects=Secret(place))

    assert list(told) == [a.session("s").nonce]
    assert [message["content"] for message in b.thread("t")] == ["another conversation", "yes"]
    assert done.code == OK, done.text
    assert c.member.pull(30).refused == {}
    assert len(c.thread("s")) == 4


def test_a_host_that_does_not_know_the_store_purges_and_says_what_it_left(
    fleet: Fleet, pair: tuple[Host, Host], host: Hosts
) -> None:
    """The row with the key is empty, so nobody opens the object that stays."""
    _, b = pair
    b.member.pull(30)
    c = host("c")
    c.take(chat().turns(1), "own")
    purger(fleet, c)
    dry = ask(c, "purge session s")
    done = ask(c, "purge session s apply")
    ask(b, "fleet pull")

    assert len(dry.data["fleet"]["only_there"]) == 4
    assert done.code == FOUND, done.text
    found = {each["table"]: each for each in done.data["certificate"]["fleet"]["tables"]}
    assert found["objects"].items() >= {"rows": 1, "removed": 0, "rows_not_readable": 1}.items()
    assert fleet.count("messages WHERE substr(envelope, 1, 1) = '\\xff'") == 0
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


def test_a_backup_that_is_made_while_a_copy_is_stored_spares_it(
    pair: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another process, which looks for what killed ones left half-made."""
    a, _ = pair
    store = Objects.put_file

    def slow(self: Objects, name: str, path: Path) -> None:
        with monkeypatch.context() as other:
            other.setattr(os, "getpid", os.getppid)
            ask(a, "backup")
        store(self, name, path)

    monkeypatch.setattr(Objects, "put_file", slow)
    kept = ask(a, "fleet keep")

    assert kept.code == OK, kept.text
    assert ask(a, "fleet fetch").code == OK


def test_who_reads_the_bucket_opens_no_copy(pair: tuple[Host, Host], place: str) -> None:
    """Another host of the same realm neither: a copy is its own host's."""
    a, b = pair
    ask(a, "fleet keep")
    (name,) = [each for each in objects(place) if each.startswith("backups/")]

    assert b"SQLite format" not in Objects(place).get(name)
    assert b"aardvark" not in Objects(place).get(name)
    assert b.sql("SELECT * FROM lcm.backups") == []
    assert "keeps no copy" in ask(b, "fleet fetch").text


def test_a_copy_for_which_there_is_no_room_is_no_fault_of_the_store(
    pair: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer names the file and what to do about the disk."""
    a, _ = pair
    ask(a, "fleet keep")
    refusals, number, refused = Refusals(monkeypatch), 1, ["one"]
    while refused:
        refusals.arm(number, errno.ENOSPC)
        answer, refused = ask(a, "fleet fetch"), refusals.refused
        refusals.arm(0)
        assert answer.code == OK or "What to do: free disk space" in answer.text, (refused, answer.text)
        number += 1
    assert number > 5


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
    purger(fleet, a)
    answer = ask(a, "purge matching aardvark apply")
    left = fleet.count("backups")
    ask(b, "fleet pull")

    assert answer.code == OK, answer.text
    assert (left, fleet.count("backups"), objects(place)) == (1, 0, [])


# -- killed in between -------------------------------------------------------------------------------------------------
def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("only_there", [False, True])
def test_objects_of_a_purge_that_was_killed_go_with_the_next_round(
    fleet: Fleet, pair: tuple[Host, Host], place: str, monkeypatch: pytest.MonkeyPatch, only_there: bool
) -> None:
    """The server had forgotten them, and the key with the row; also where the host never had the message."""
    purging = pair[only_there]
    purging.take(chat().turns(1), "own")
    purger(fleet, purging)
    with monkeypatch.context() as patch:
        patch.setattr(Objects, "forget", killed)
        with pytest.raises(KeyboardInterrupt):
            ask(purging, "purge matching aardvark apply")
    before = objects(place), fleet.count("messages WHERE substr(envelope, 1, 1) = '\\xff'")
    for verb in ("fleet push", "fleet pull", "fleet push"):
        assert ask(purging, verb).code == OK

    assert (len(before[0]), before[1]) == (1, 0)
    assert objects(place) == []


def test_objects_of_a_purge_that_was_refused_stay(
    fleet: Fleet, pair: tuple[Host, Host], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed before the server had forgotten anything."""
    a, b = pair
    purger(fleet, a)
    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "transaction", killed)
        with pytest.raises(KeyboardInterrupt):
            ask(a, "purge matching aardvark apply")
    ask(a, "fleet pull")
    b.member.pull(30)

    assert len(objects(place)) == 1
    assert LARGE in [message["content"] for message in b.thread("s")]


@pytest.mark.parametrize("at", ["_drop", "keep"])
def test_a_copy_whose_host_was_killed_meanwhile_goes_with_a_purge(
    fleet: Fleet, pair: tuple[Host, Host], place: str, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """The server knows of every copy that is in the store."""
    a, _ = pair
    purger(fleet, a)
    ask(a, "fleet keep")
    with monkeypatch.context() as patch:
        if at == "keep":
            time.sleep(1.1)  # a backup's name is its second
            real = Objects.put_file

            def put_file(self: Objects, name: str, path: Path) -> None:
                real(self, name, path)
                raise KeyboardInterrupt

            patch.setattr(Objects, "put_file", put_file)
        else:
            patch.setattr(Objects, "remove", lambda self, name: killed() if name.startswith("backups/") else None)
        with pytest.raises(KeyboardInterrupt):
            ask(a, "fleet keep" if at == "keep" else "purge matching aardvark apply")
    fetched = ask(a, "fleet fetch")
    answer = ask(a, "purge matching aardvark apply")

    assert fetched.code == OK, fetched.text
    assert answer.code == OK, answer.text
    assert (fleet.count("backups"), objects(place)) == (0, [])


@pytest.mark.parametrize("meanwhile", ["the copy", "the purge"])
def test_a_copy_that_is_made_beside_a_purge_is_not_kept(
    fleet: Fleet, pair: tuple[Host, Host], place: str, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """It holds what the purge removes, whichever of the two began first."""
    a, _ = pair
    purger(fleet, a)
    ordered, inner = "purge matching aardvark apply", "fleet keep"
    if meanwhile == "the purge":
        ordered, inner = inner, ordered
    owner, name = (purge, "empty") if meanwhile == "the copy" else (Objects, "put_file")
    real, answers = getattr(owner, name), list[Answer]()

    def beside(*given: object, **more: object) -> object:
        patch.undo()
        answers.append(ask(a, inner))
        return real(*given, **more)

    patch = monkeypatch
    patch.setattr(owner, name, beside)
    answers.append(ask(a, ordered))
    purged = answers[meanwhile == "the copy"]

    assert purged.code == OK, purged.text
    assert (fleet.count("backups"), objects(place)) == (0, [])


def test_a_clock_that_goes_back_by_years_ends_no_schedule_of_copies(tmp_path: Path) -> None:
    """It was ahead when the last copy was made: the next one is due at once."""
    world = Home(tmp_path, fleet_objects=str(tmp_path / "objects"), fleet_backup_hours="24")
    world.say("hello")
    due = []
    for made in (0, -23, -25, 5 * 365 * 24):
        Meta(world.runtime.db).note("fleet kept", world.now + made * 3600)
        due.append(copies.due(world.deps()))

    assert due == [False, False, True, True]
