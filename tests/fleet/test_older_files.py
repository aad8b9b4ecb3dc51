"""A file that stands twice, or was put back from a copy: every message once, under one address on every host."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from worlds.fleet import Fleet, Host, Process
from worlds.postgres import Postgres
from worlds.process import Chat, chat, reload

from hermes_lcm.fleet.numbers import Numbers

Hosts = Callable[..., Host]


def _copy(host: Host) -> bytes:
    """The file's bytes, while no process has it."""
    host.db.close()
    return (host.folder / "lcm.db").read_bytes()


def _put(host: Host, old: bytes) -> Host:
    """Put a file in the place of the host's."""
    host.db.close()
    for name in ("lcm.db-wal", "lcm.db-shm"):
        (host.folder / name).unlink(missing_ok=True)
    (host.folder / "lcm.db").write_bytes(old)
    return host.restart()


def _older(a: Host, later: Chat, *others: Host) -> Host:
    """A host whose file of two turns was put back, after the server and other hosts had more of the session."""
    a.take(chat().turns(2), "c")
    a.member.push()
    old = _copy(a)
    a = a.restart()
    a.take(later, "c")
    a.member.push()
    for each in others:
        each.member.pull(30)
    return _put(a, old)


def _says(*hosts: Host, session: str) -> list[list[str]]:
    out = []
    for each in hosts:
        known = each.runtime.sessions.find(session)
        assert known is not None
        rows = each.db.query(
            "SELECT store_id FROM messages WHERE conversation_id = ? ORDER BY store_id", (known.conversation_id,)
        )
        out.append(sorted(row.text for row in each.runtime.store.legible([row[0] for row in rows])[0]))
    return out


def _rounds(*hosts: Host, times: int = 2) -> None:
    for _ in range(times):
        for each in hosts:
            each.member.push()
        for each in hosts:
            each.member.pull(30)


def _settled(fleet: Fleet, *hosts: Host, rows: int) -> None:
    """Every host and the server has so many messages, and no more come with further rounds."""
    _rounds(*hosts)
    counts = [each.counts()["messages"] for each in hosts]
    assert (counts, fleet.count("messages")) == ([rows] * len(hosts), rows)
    assert all(each.member.verify().sound for each in hosts)


def test_a_new_session_of_an_older_file_keeps_apart_from_what_the_server_knows(fleet: Fleet, host: Hosts) -> None:
    """Its messages began before the first connection, under numbers that the server knows."""
    a, b = host("a"), host("b")
    a = _older(a, chat().turns(4), b)
    live = chat().user("new").says("session")
    a.take(live, "x")
    _rounds(a, b)
    for n in range(3):
        live = live.user(f"more {n}").says(f"of it {n}")
        a.take(live, "x")
        _rounds(a, b, times=1)

    _settled(fleet, a, b, rows=16)
    first, second = _says(a, b, session="x")
    assert first == second
    assert len(first) == 8


def test_an_older_file_that_went_on_longer_than_the_server_knows(fleet: Fleet, host: Hosts) -> None:
    """The server's greatest number is no greater than the file's own."""
    a, b = host("a"), host("b")
    a = _older(a, chat().turns(3), b)
    a.take(chat().turns(9), "x")
    _settled(fleet, a, b, rows=24)


def test_an_older_file_whose_session_went_on(fleet: Fleet, host: Hosts) -> None:
    """What was said before the restore comes back, and what was said since stays."""
    a, b = host("a"), host("b")
    a = _older(a, chat().turns(2).user("first life").says("1"), b)
    a.take(chat().turns(2).user("second life").says("2"), "c")
    _settled(fleet, a, b, rows=8)


def test_a_file_that_was_copied_before_both_joined(fleet: Fleet, host: Hosts) -> None:
    """What both have is one message on the server and on each."""
    a, b = host("a"), host("b")
    a.take(chat().turns(3), "c")
    old = _copy(a)
    a = a.restart()
    b = _put(b, old)
    a.take(chat().turns(3).user("on a"), "c")
    b.take(chat().turns(3).user("on b"), "c")
    _settled(fleet, a, b, rows=8)


def test_a_backup_of_before_the_file_joined(fleet: Fleet, host: Hosts) -> None:
    """The server knows its messages by the numbers that it gave the file in its first life."""
    a, b = host("a"), host("b")
    a.take(chat().turns(3), "c")
    old = _copy(a)
    a = a.restart()
    a.member.push()
    b.member.pull(30)
    a = _put(a, old)
    a.take(chat().turns(3).user("after it"), "c")
    _settled(fleet, a, b, rows=7)


def test_a_file_that_was_copied_to_another_machine(fleet: Fleet, host: Hosts) -> None:
    """Both wrote before either sent it."""
    a, b = host("a"), host("b")
    a.take(chat().turns(3), "c")
    a.member.push()
    old = _copy(a)
    a = a.restart()
    b = _put(b, old)
    a.take(chat().turns(1), "xa")
    b.take(chat().turns(2), "xb")
    a.member.push()
    _settled(fleet, a, b, rows=12)


def test_summaries_of_an_older_file(fleet: Fleet, host: Hosts) -> None:
    """Summaries and prompts whose numbers the server knows change places, too."""
    a, b = host("a"), host("b")
    a.take(chat().turns(24), "c")
    a.member.push()
    old = _copy(a)
    a = a.restart()
    a.compact(chat().turns(24), "c")
    a.member.push()
    b.member.pull(30)
    a = _put(a, old)
    a.compact(chat().turns(50), "x")
    _settled(fleet, a, b, rows=148)
    assert a.counts()["nodes"] == b.counts()["nodes"] == fleet.count("nodes")


def test_what_waited_longer_keeps_its_new_numbers(fleet: Fleet, host: Hosts) -> None:
    """The first connection found that the numbers are taken; the rows were sent with a later one."""
    a, b = host("a"), host("b")
    a = _older(a, chat().turns(4))
    a.take(chat().turns(3), "x")
    a.member.pull(30)
    a = a.restart()
    a.member.pull(30)
    _settled(fleet, a, b, rows=14)


def test_two_copies_of_which_the_second_sends_first(fleet: Fleet, host: Hosts) -> None:
    """The first one had its numbers already, and had sent nothing."""
    a, b = host("a"), host("b")
    a.take(chat().turns(3), "c")
    old = _copy(a)
    a = a.restart()
    a.member.pull(30)
    b = _put(b, old)
    b.member.push()
    a.take(chat().turns(3).user("on a"), "c")
    _settled(fleet, a, b, rows=7)


def test_copies_that_sent_the_same_before_they_met(fleet: Fleet, host: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both looked at the same moment, and the server has each message twice; no host does, nor does a third one."""
    a, b, c = host("a"), host("b"), host("c")
    live = chat().turns(24)
    live = a.compact(live, "c")
    old = _copy(a)
    a = a.restart()
    b = _put(b, old)
    with monkeypatch.context() as patch:
        patch.setattr(Numbers, "shared", lambda _: {})
        a.member.push()
        b.member.push()
    b.take(live.user("on b").says("yes"), "c")
    _rounds(a, b, c)

    assert fleet.count("messages") == 98
    assert [each.counts()["messages"] for each in (a, b, c)] == [50] * 3
    assert [each.counts()["nodes"] for each in (a, b, c)] == [a.counts()["nodes"]] * 3
    assert a.thread() == b.thread() == c.thread()
    assert all(each.member.verify().sound for each in (a, b, c))


def test_a_host_that_lost_its_file_gets_it_back(fleet: Fleet, host: Hosts) -> None:
    """All of it was its own, so nobody else has it."""
    a = host("a")
    live = chat().turns(4)
    a.take(live, "c")
    a.member.push()
    a.db.close()
    for each in a.folder.glob("lcm.db*"):
        each.unlink()
    a = a.restart()
    a.member.pull(30)
    _settled(fleet, a, rows=len(live))


@pytest.mark.few(1)
@pytest.mark.parametrize("between", [True, False], ids=["fetched in between", "fetched at the end"])
@pytest.mark.parametrize("known", [True, False], ids=["known there", "new there"])
def test_a_record_in_the_list_of_a_lost_file_is_a_message_on_no_host(
    host: Hosts, *, between: bool, known: bool
) -> None:
    """The host stores it as text until the server brings its prompt; no host shows it then."""
    a, b = host("a"), host("b")
    live = a.compact(chat().turns(24))
    a.member.push()
    if known:
        b.member.pull(30)
    a.db.close()
    for each in a.folder.glob("lcm.db*"):
        each.unlink()
    a = a.restart()
    live = reload(live).user("one thing more").says("yes")
    a.take(live)
    a.member.push()
    if between:
        b.member.pull(30)
    _rounds(a, b)

    assert [len(each.thread()) for each in (a, b)] == [50, 50]
    assert b.runtime.store.imported([1]) == []


def test_a_session_whose_list_is_newer_than_its_restored_file(fleet: Fleet, host: Hosts) -> None:
    """Hermes shows the messages again; the server has them from before."""
    a, b = host("a"), host("b")
    live = chat().turns(2)
    a.take(live, "c")
    a.member.push()
    old = _copy(a)
    a = a.restart()
    live = live.user("behind the backup").says("yes")
    a.take(live, "c")
    a.member.push()
    b.member.pull(30)
    a = _put(a, old)
    live = live.user("and on").says("good")
    a.take(live, "c")
    _settled(fleet, a, b, rows=8)


@pytest.mark.few(1)
@pytest.mark.parametrize("answer", ["done on {}", "done"], ids=["answered differently", "answered alike"])
def test_two_hosts_on_which_the_same_word_was_said(host: Hosts, answer: str) -> None:
    """At the same place of one session, while they were apart: each said it, and none of it is given up."""
    a, b = host("a"), host("b")
    live = chat().turns(2)
    a.take(live, "s")
    a.member.push()
    b.member.pull(30)
    for each in (a, b):
        each.take(live.copy().user("yes").says(answer.format(each.folder.name)), "s")
    _rounds(a, b)

    assert [each.counts()["messages"] for each in (a, b)] == [8] * 2


def _while_it_looks(host: Host, what: Callable[[], object]) -> None:
    """Once, between a host's look at the server and its push, something else happens."""
    look, left = host.member._state, [what]

    def state(connection: object) -> object:
        found = look(connection)  # type: ignore[arg-type]
        if left:
            left.pop()()
        return found

    host.member._state = state  # type: ignore[method-assign,assignment]


@pytest.mark.few(1)
@pytest.mark.parametrize("role", ["the same role", "a role of its own"])
@pytest.mark.parametrize("session", ["in one session", "in two"])
def test_two_copies_that_send_at_the_same_moment(fleet: Fleet, host: Hosts, role: str, session: str) -> None:
    """Neither has seen what the other one sends; both gave the same numbers."""
    a, b, c = host("a"), host("b"), host("c")
    a.take(chat().turns(3), "c")
    a.member.push()
    old = _copy(a)
    a = a.restart()
    b = _put(b, old)
    if role == "the same role":
        b.to(a.dsn)
    for first, each in ((100, a), (200, b)):
        if session == "in one session":
            each.take(chat().turns(3).turns(2, first=first), "c")
        else:
            each.take(chat().turns(2, first=first), f"x{first}")
    _while_it_looks(b, a.member.push)
    _settled(fleet, a, b, c, rows=14)


def test_copies_under_one_role_take_few_numbers(fleet: Fleet, host: Hosts) -> None:
    """Each goes by a name of its own once they have met."""
    a, b = host("a"), host("b")
    a.take(chat().turns(3), "c")
    a.member.push()
    old = _copy(a)
    a = a.restart()
    b = _put(b, old).to(a.dsn)
    for each in (a, b):
        each.take(chat().turns(2), f"x{each.folder.name}")
    _rounds(a, b)
    blocks = fleet.count("blocks")
    _rounds(a, b)

    assert fleet.count("blocks") == blocks <= 4
    assert fleet.count("messages") == 14


@pytest.mark.few(1)
@pytest.mark.parametrize("first", ["a", "b"])
def test_a_new_server_gives_nobody_the_numbers_of_a_host_that_has_not_come_yet(
    postgres: Postgres, fleet: Fleet, host: Hosts, tmp_path: Path, first: str
) -> None:
    """An empty one counts from one again; the hosts never fetched from each other, and bring their rows."""
    a, b, c = host("a"), host("b"), host("c")
    a.take(chat().turns(1), "ca")
    a.member.push()
    b.take(chat().turns(10, first=50), "cb")
    b.member.push()
    (tmp_path / "new").mkdir()
    new = Fleet(postgres, tmp_path / "new")
    new.tag = fleet.tag
    for each in (a, b, c):
        each.to(new.role(each.folder.name))
    order = (a, b) if first == "a" else (b, a)
    order[0].member.push()
    a.member.push()
    a.take(chat().turns(4, first=100), "later")
    a.member.push()
    _settled(new, a, b, c, rows=30)
    new.close()


def test_hosts_move_to_a_new_server_after_very_many_blocks(
    postgres: Postgres, fleet: Fleet, host: Hosts, tmp_path: Path
) -> None:
    """Hosts that fetch from each other take one each time: the new server counts from one, and all fetch there as before."""
    a, b, c = host("a"), host("b"), host("c")
    a.sql("SELECT count(lcm.new_block('used up')) FROM generate_series(1, 22000)")
    for first, each in ((0, a), (20, b)):
        each.take(chat().turns(1, first=first), f"c{first}")
        each.member.push()
    (tmp_path / "new").mkdir()
    new = Fleet(postgres, tmp_path / "new")
    new.tag = fleet.tag
    for each in (a, b, c):
        each.to(new.role(each.folder.name))
    a.take(chat().turns(2), "c0")
    b.take(chat().turns(1, first=60), "later")
    _settled(new, a, b, c, rows=8)
    new.close()


def test_two_processes_of_a_host_that_join_at_the_same_moment(
    fleet: Fleet, host: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were given a block for the file: it goes by one name, and sends each row once."""
    a, b = host("a"), host("b")
    a.take(chat().turns(3), "c")
    gateway, terminal = a.member, a.to(a.dsn).member
    ask, look = Numbers.new_block, gateway._state

    def asked(self: Numbers, *given: object, **more: bool) -> int:
        block = ask(self, *given, **more)  # type: ignore[arg-type]
        monkeypatch.setattr(Numbers, "new_block", ask)
        gateway._state = meanwhile  # type: ignore[method-assign]
        gateway.push()
        return block

    def meanwhile(connection: object) -> object:
        found = look(connection)  # type: ignore[arg-type]
        joined.append(found)
        return found

    joined: list[object] = []
    monkeypatch.setattr(Numbers, "new_block", asked)
    terminal.push()

    assert joined
    assert terminal.outbox.state().file == joined[0].file  # type: ignore[union-attr, attr-defined]
    _settled(fleet, a, b, rows=6)


def test_a_process_that_had_the_file_open_before_it_joined_takes_notes_too(
    fleet: Fleet, host: Hosts, tmp_path: Path
) -> None:
    """A gateway without a server's name, and a terminal with one: a session of the gateway's arrives on every host."""
    b, dsn = host("b"), fleet.role("p")
    gateway = Process(tmp_path / "p", "")
    gateway.take(chat().turns(1), "before")
    terminal = Process(tmp_path / "p", dsn)
    terminal.runtime.fleet.work()
    for n in range(2):
        with suppress(ValueError), gateway.runtime.db.transaction():
            raise ValueError("undone")
        gateway.take(chat().turns(2, first=90), f"later {n}")
    terminal.runtime.fleet.work()
    b.member.pull(30)

    assert b.counts()["messages"] == fleet.count("messages") == 10
    terminal.end()
    gateway.runtime.db.close()
