"""A purge in a fleet: the server and the other hosts forget too, nothing comes back, and what somebody holds stays."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from worlds.fleet import Fleet, Host, Process, ask, eventually, here, on_server, purger
from worlds.process import Chat, Script, chat

from hermes_lcm.archive.ranges import Archive
from hermes_lcm.command import FOUND, OK
from hermes_lcm.errors import LcmError
from hermes_lcm.fleet.forget import Purging, obey
from hermes_lcm.fleet.pull import Puller
from hermes_lcm.ops.forget import purge
from hermes_lcm.records import Flag
from hermes_lcm.search.scope import Rights

Hosts = Callable[..., Host]
ROOT = Path(__file__).resolve().parents[2]
SECRET = "the aardvark of Zwickau sleeps under the third bridge"


def says(texts: list[str]) -> bool:
    return any(SECRET in text or "aardvark" in text for text in texts)


def number(host: Host) -> int:
    """The secret's number there."""
    return next(row.store_id for rows in host.runtime.store.row_batches() for row in rows if row.text == SECRET)


@pytest.fixture
def pair(fleet: Fleet, host: Hosts) -> tuple[Host, Host]:
    """Two hosts that both have a conversation with a secret in it and a summary over it."""
    a, b = host("a", script=Script("provisional")), host("b")
    a.session("s", principal="telegram:dm:1")
    a.compact(chat().user(SECRET).says("noted").turns(24, first=10))
    a.member.push()
    b.member.pull(30)
    purger(fleet, a)
    return a, b


@pytest.mark.slow
def test_a_dry_run_names_what_the_server_has_and_changes_nothing(fleet: Fleet, pair: tuple[Host, Host]) -> None:
    """Messages and summaries by their numbers there."""
    before = on_server(fleet)
    answer = ask(pair[0], f"purge matching '{SECRET}'")

    assert answer.data["fleet"]["tables"]["messages"] == 1
    assert answer.data["fleet"]["tables"]["nodes"] >= 1
    assert len(answer.data["fleet"]["messages"]) == 1
    assert "VACUUM FULL" in answer.text
    assert on_server(fleet) == before


def test_a_purge_empties_the_server_and_certifies_it(fleet: Fleet, pair: tuple[Host, Host]) -> None:
    """Rows, words and summaries; what remains is as it was, and a comparison finds nothing amiss."""
    a, _ = pair
    count = fleet.count("messages")
    answer = ask(a, f"purge matching '{SECRET}' apply")
    tables = answer.data["certificate"]["fleet"]["tables"]

    assert answer.code == OK, answer.text
    assert not says(on_server(fleet))
    assert [(each["table"], each["removed"], each["holds"]) for each in tables[:1]] == [("messages", 1, [])]
    assert tables[0]["rows"] == fleet.count("messages") == count
    assert tables[1]["removed"] >= 1
    assert "clean" in answer.text
    assert a.member.verify().sound


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["before", "messages", "session", "principal", "matching"])
def test_each_way_to_name_messages_reaches_the_server_and_the_other_host(
    fleet: Fleet, pair: tuple[Host, Host], kind: str
) -> None:
    """What another session of another person said in between stays on all three."""
    a, b = pair
    a.session("chat", principal="telegram:dm:2")
    a.take(chat().user("the badger of Gera stays awake").says("good"), "chat")
    a.member.push()
    b.member.pull(30)
    named = {
        "messages": f"msg_{number(a)}", "session": "s", "principal": "telegram:dm:1", "matching": "aardvark",
        "before": "2000-01-01",
    }  # fmt: skip
    if kind == "before":
        with a.db.transaction():
            a.db.execute("UPDATE messages SET said_at = 1 WHERE store_id = ?", (number(a),))
    dry = ask(a, f"purge {kind} {named[kind]}")

    assert dry.code == OK, dry.text
    assert all(says(each) for each in (on_server(fleet), here(a), here(b)))
    done = ask(a, f"purge {kind} {named[kind]} apply")
    ask(b, "fleet pull")

    assert done.code == OK, done.text
    for texts in (on_server(fleet), here(a), here(b)):
        assert not says(texts)
        assert any("badger of Gera" in text for text in texts)
    assert dry.data["messages"] == done.data["messages"]
    assert b.member.verify().sound


def test_another_host_forgets_at_its_next_pull(fleet: Fleet, pair: tuple[Host, Host]) -> None:
    """Its rows, its summaries, its index; the conversation stays whole."""
    a, b = pair
    assert says(here(b))
    ask(a, f"purge matching '{SECRET}' apply")
    answer = ask(b, "fleet pull")

    assert answer.data["purged"] == 1
    assert not says(here(b))
    assert b.db.query("SELECT term FROM message_terms WHERE term = 'aardvark'") == []
    assert b.counts()["messages"] == a.counts()["messages"]
    assert b.member.verify().sound
    assert ask(b, "fleet pull").data["purged"] == 0


def of_another_message(host: Host) -> int:
    """The secret's number there, which is now that of another message than on the server: an older file was put back."""
    found = number(host)
    with host.db.transaction():
        host.db.execute("UPDATE messages SET digest = zeroblob(length(digest)) WHERE store_id = ?", (found,))
    return found


def test_another_message_under_a_purged_number_stays(pair: tuple[Host, Host]) -> None:
    """A number that two hosts gave to different messages: nobody purged the other one."""
    a, b = pair
    found = of_another_message(b)
    ask(a, f"purge matching '{SECRET}' apply")
    ask(b, "fleet pull")

    assert not b.runtime.store.heads_of([found])[found].flags & Flag.PURGED
    assert says(here(b))


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["session s", "matching aardvark"])
def test_a_message_of_the_server_goes_though_its_number_is_anothers_here(
    fleet: Fleet, pair: tuple[Host, Host], kind: str
) -> None:
    """It was chosen, and is only there."""
    a, b = pair
    of_another_message(a)
    answer = ask(a, f"purge {kind} apply")
    ask(b, "fleet pull")

    assert answer.code == OK, answer.text
    assert len(answer.data["fleet"]["only_there"]) == 1
    assert not says(on_server(fleet) + here(b))


def test_an_older_transaction_that_stays_open_keeps_no_host_from_forgetting(
    fleet: Fleet, pair: tuple[Host, Host]
) -> None:
    """A role in wrong hands, or another program of that server, may leave one open for as long as it likes."""
    a, b = pair
    with psycopg.connect(b.dsn) as idle:
        idle.execute("SELECT pg_current_xact_id()")
        gone = ask(a, f"purge matching '{SECRET}' apply")
        done = [obey(b.member, b.runtime.access(None, Rights(), trusted=True)) for _ in range(2)]
        idle.rollback()

    assert gone.code == OK, gone.text
    assert done == [1, 0]
    assert not says(here(b))


def test_behind_the_turns_it_happens_by_itself(fleet: Fleet, pair: tuple[Host, Host], tmp_path: Any) -> None:
    """Also where nothing is pulled."""
    a, _ = pair
    process = Process(tmp_path / "p", fleet.role("p"), LCM_FLEET_PULL_DAYS="0")
    process.take(chat().turns(1), "own")
    eventually(lambda: process.behind() == 0)
    process.search("aardvark of Zwickau")
    said = [row.text for rows in process.runtime.store.row_batches() for row in rows]
    ask(a, f"purge matching '{SECRET}' apply")
    process.runtime.fleet.work()

    assert SECRET in said
    assert not says([row.text for rows in process.runtime.store.row_batches() for row in rows])
    process.end()


def test_no_push_brings_it_back(fleet: Fleet, pair: tuple[Host, Host]) -> None:
    """Another host that has not heard of the purge changes the rows, compares, and sends all of it again."""
    a, b = pair
    ask(a, f"purge matching '{SECRET}' apply")
    with b.db.transaction():
        b.db.execute("UPDATE messages SET flags = flags | ?", (Flag.RETRACTED,))
        b.db.execute("UPDATE nodes SET text = text || ' '")
    b.member.push()
    b.member.verify()
    b.member.push()

    assert not says(on_server(fleet))


def test_a_summary_that_another_host_made_meanwhile_goes_too(fleet: Fleet, host: Hosts) -> None:
    """It was made of the words before the host heard of the purge."""
    a, b, c = (host(name, script=Script("provisional")) for name in "abc")
    purger(fleet, a)
    live = chat().user(SECRET).says("noted").turns(24, first=10)
    a.take(live)
    a.member.push()
    b.member.pull(30)
    c.member.pull(30)
    ask(a, f"purge matching '{SECRET}' apply")
    ask(c, "fleet pull")
    b.compact(live)
    b.member.push()
    c.member.pull(30)
    ask(b, "fleet pull")
    ask(c, "fleet pull")

    assert not says(on_server(fleet))
    assert not says(here(b))
    assert not says(here(c))


@pytest.mark.few(1)
@pytest.mark.parametrize("at", [5, 1, 2, 3, 4, 6, 7, 8])
def test_a_host_that_is_cut_off_while_it_forgets_goes_on(
    fleet: Fleet, host: Hosts, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statement by statement: its own summary of what was purged leaves the server, and the hosts that fetched it."""
    a, b, c = (host(name, script=Script("provisional")) for name in "abc")
    purger(fleet, a)
    live = chat().user(SECRET).says("noted").turns(24, first=10)
    a.take(live)
    a.member.push()
    b.member.pull(30)
    ask(a, f"purge matching '{SECRET}' apply")
    b.compact(live)
    b.member.push()
    c.member.pull(30)
    count, real = 0, psycopg.Connection.execute

    def breaking(self: psycopg.Connection, *args: object, **more: object) -> object:
        nonlocal count
        count += 1
        if count == at:
            self.close()
            raise psycopg.OperationalError("the line is cut")
        return real(self, *args, **more)

    with monkeypatch.context() as patch, suppress(LcmError):
        patch.setattr(psycopg.Connection, "execute", breaking)
        obey(b.member, b.runtime.access(None, Rights(), trusted=True))
    for each in (b, c):
        ask(each, "fleet push")
        ask(each, "fleet pull")

    assert not says(on_server(fleet) + here(b) + here(c))


def test_a_host_that_is_killed_before_it_rewrites_its_file_rewrites_it_later(
    fleet: Fleet, pair: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows were empty already; their words were left in the index."""
    a, b = pair
    ask(a, f"purge matching '{SECRET}' apply")
    with monkeypatch.context() as killed:
        killed.setattr(purge, "renewed", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            obey(b.member, b.runtime.access(None, Rights(), trusted=True))
    ask(b, "fleet pull")

    assert not says(here(b))
    assert b.db.query("SELECT term FROM message_terms WHERE term = 'aardvark'") == []


def test_what_a_process_notes_stays_though_another_one_pulls(
    fleet: Fleet, pair: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway and a terminal share a file: that it is still to be rewritten is not forgotten."""
    a, b = pair
    gateway, terminal = b.member, b.to(b.dsn).member
    ask(a, f"purge matching '{SECRET}' apply")
    everything = b.runtime.access(None, Rights(), trusted=True)

    def meanwhile(*_: object) -> None:
        obey(terminal, everything, most_bytes=0)

    with monkeypatch.context() as patch:
        patch.setattr(Puller, "conversation", meanwhile)
        gateway.pull(30)
    ask(b, "fleet pull")

    assert not says(here(b))
    assert b.db.query("SELECT term FROM message_terms WHERE term = 'aardvark'") == []


def test_a_purge_on_the_copy_of_a_server_reaches_every_host(fleet: Fleet, pair: tuple[Host, Host]) -> None:
    """It was restored from a dump, and counts its transactions anew: what comes before a host's last look is no old news."""
    a, b = pair
    b.member.outbox.change(server=1, pulled=10**15, obeyed=10**15)  # as of the server before
    ask(a, f"purge matching '{SECRET}' apply")
    a.take(chat().user("and now").says("goes on"), "t")
    a.member.push()
    for _ in range(2):
        ask(b, "fleet pull")

    assert not says(here(b))
    assert "and now" in [row["content"] for row in b.stored()]


def test_words_of_an_archive_that_was_made_meanwhile_reach_no_other_host(fleet: Fleet, host: Hosts) -> None:
    """One host archived what was purged before it heard of that; another one, which had, fetches the archive."""
    a, b, c = (host(name) for name in "abc")
    purger(fleet, a)
    a.take(chat().user(SECRET).says("noted").turns(2))
    a.member.push()
    for each in (b, c):
        each.member.pull(30)
    ask(a, f"purge matching '{SECRET}' apply")
    ask(c, "fleet pull")
    ids = (number(b), number(b) + 1)
    home = b.session("s").conversation_id
    b.runtime.archives.add(
        Archive(0, "mem://s/1", home, "s", ids, 0, 1, 2, SECRET, True, SECRET, 9, 9, "archived", 1.0, 1.0)
    )
    b.member.push()
    for each in (c, b, c):
        ask(each, "fleet pull")

    assert not says(on_server(fleet))
    for each in (b, c):
        assert not says([" ".join(row) for row in each.db.query("SELECT summary, preview FROM archives")])
        assert len(each.db.query("SELECT 1 FROM archives")) == 1


def test_what_is_only_on_the_server_is_purged_too(fleet: Fleet, host: Hosts) -> None:
    """A person is forgotten wherever he spoke."""
    a, b = host("a"), host("b")
    purger(fleet, a)
    b.session("chat", principal="telegram:dm:1")
    b.take(chat().user(SECRET).says("noted"), "chat")
    a.take(chat().turns(1))
    b.member.push()
    answer = ask(a, "purge principal telegram:dm:1 apply")
    ask(b, "fleet pull")

    assert answer.code == OK, answer.text
    assert len(answer.data["fleet"]["only_there"]) == 2
    assert not says(on_server(fleet) + here(b))


@pytest.mark.parametrize("name", ["msg_3", pytest.param("s", marks=pytest.mark.slow)])
def test_what_another_host_holds_stays_everywhere(fleet: Fleet, host: Hosts, name: str) -> None:
    """A message or its whole session: the purge says who holds it, and goes once it is let go."""
    a, b = host("a"), host("b")
    purger(fleet, b)
    a.take(chat().user("hi").says("hello").user(SECRET).says("noted"))
    ask(a, f"pin {name}")
    a.member.push()
    b.member.pull(30)
    kept = ask(b, f"purge matching '{SECRET}' apply")
    still = says(on_server(fleet)), says(here(b)), says(here(a))
    ask(a, f"pin {name} undo")
    a.member.push()
    gone = ask(b, f"purge matching '{SECRET}' apply")

    assert kept.code == FOUND
    assert "PINNED ELSEWHERE" in kept.text
    assert f"lcm_a_{fleet.tag}" in kept.text
    assert still == (True, True, True)
    assert gone.code == OK, gone.text
    assert not says(on_server(fleet) + here(b))


@pytest.mark.slow
def test_what_is_held_here_stays_though_the_fleet_purged_it(pair: tuple[Host, Host]) -> None:
    """Pinned before anybody could know; status shows it, and it goes once it is let go."""
    a, b = pair
    ask(b, f"pin msg_{number(b)}")
    ask(a, f"purge matching '{SECRET}' apply")
    ask(b, "fleet pull")
    still = says(here(b)), [each.message for each in b.health.problems()]
    ask(b, f"pin msg_{number(b)} undo")
    ask(b, "fleet pull")

    assert still[0]
    assert any("PINNED HERE" in text for text in still[1])
    assert not says(here(b))
    assert not any("PINNED HERE" in each.message for each in b.health.problems())


@pytest.mark.parametrize("holder", ["another host", "this host"])
def test_a_hold_between_the_look_and_the_act_wins(
    fleet: Fleet, pair: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch, holder: str
) -> None:
    """The purge fails and says why; nothing is removed on the server or on any host, and the same again leaves it."""
    a, b = pair
    look, one = Purging.reach, b if holder == "another host" else a

    def held_meanwhile(self: Purging, *given: Any) -> Any:
        found = look(self, *given)
        ask(one, f"pin msg_{number(one)}")
        if one is b:
            one.member.push()
        return found

    monkeypatch.setattr(Purging, "reach", held_meanwhile)
    failed = ask(a, f"purge matching '{SECRET}' apply")
    monkeypatch.undo()
    b.member.pull(30)
    ask(b, "fleet pull")
    again = ask(a, f"purge matching '{SECRET}' apply")

    assert failed.code not in (OK, FOUND)
    assert ("held" in failed.text) or ("pinned" in failed.text)
    assert "PINNED" in again.text
    assert says(on_server(fleet))
    assert all(SECRET in " ".join(here(each)) for each in (a, b))


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["purge", "retention"])
def test_what_goes_while_other_hosts_write_and_push_stays_gone(
    fleet: Fleet, pair: tuple[Host, Host], tmp_path: Any, kind: str
) -> None:
    """Both at once, one more host away until later; what is pinned stays everywhere, and nothing else is lost or doubled."""
    a, b = pair
    c = fleet.host("c", script=Script("provisional"))
    pinned = f"the badger of Gera knows: {SECRET}"
    b.session("t", principal="telegram:dm:1")
    b.take(chat().user(pinned).says("noted"), "t")
    b.member.push()
    for each in (a, c):
        each.member.pull(30)
    ask(b, "pin t") if kind == "purge" else None
    b.member.push()
    a_has, over = number(a), threading.Event()
    live = Chat(b.thread("s"))

    def write() -> None:
        n = 0
        while not over.is_set() or n < 3:
            b.take(live.user(f"new question {n}").says(f"new answer {n}"))
            if n == 1:  # a flag of the secret's changes, and a summary of it is made
                with b.db.transaction():
                    b.db.execute(
                        "UPDATE messages SET flags = flags | ? WHERE store_id = ?", (Flag.HOST_NOTE, number(b))
                    )
                b.compact(live)
            b.member.push()
            n += 1

    writer = threading.Thread(target=write)
    writer.start()
    if kind == "purge":
        done = ask(a, f"purge matching '{SECRET}' apply")
    else:
        purge.empty(a.runtime.access(None, Rights(), trusted=True), [a_has])
        done = ask(a, "fleet push")
    over.set()
    writer.join(60)
    c.take(Chat(c.thread("s")).user("said at c").says("ok c"))
    c.compact(Chat(c.thread("s")))
    for each in (c, b, a) * 3:  # each makes a summary of its own of what remains, and takes the others'
        ask(each, "fleet push")
        ask(each, "fleet pull")

    gone = [on_server(fleet), here(a), here(b), here(c)] if kind == "purge" else [here(a)[: a.counts()["messages"]]]
    assert done.code in (OK, FOUND), done.text
    for texts in gone:
        assert not [text for text in texts if "aardvark" in text and "badger" not in text]
        assert any(pinned in text for text in texts)
    said = [
        sorted(str(row.stored_json) for rows in each.runtime.store.row_batches() for row in rows
               if not row.head.flags & Flag.PURGED and row.text != SECRET) for each in (a, b, c)
    ]  # fmt: skip
    assert said[0] == said[1] == said[2]
    assert [each.counts()["messages"] for each in (a, b, c)] == [fleet.count("messages")] * 3 == [len(said[0]) + 1] * 3
    assert all(each.member.verify().sound for each in (a, b, c)) or kind == "retention"  # the server keeps summaries


def test_what_a_policy_purged_comes_back_with_no_pull(fleet: Fleet, pair: tuple[Host, Host]) -> None:
    """The summaries of it neither: those of this host leave the server, those of others stay empty here."""
    a, b = pair
    live = Chat(b.thread("s")).turns(24, first=200)
    b.compact(live)
    b.member.push()
    a.member.pull(30)
    purge.empty(a.runtime.access(None, Rights(), trusted=True), [number(a)])
    a.member.push()
    for n in range(3):
        b.take(Chat(b.thread("s")).user(f"more {n}").says("ok"))
        b.member.push()
        a.member.pull(30)
        a.member.push()

    assert not says(here(a))
    assert len(a.nodes()) == len(b.nodes())
    assert says(here(b))


@pytest.mark.slow
def test_a_policy_of_one_host_takes_nothing_that_another_holds(fleet: Fleet, pair: tuple[Host, Host]) -> None:
    """What it emptied in its own file stays on the server."""
    a, b = pair
    ask(b, f"pin msg_{number(b)}")
    b.member.push()
    purge.empty(a.runtime.access(None, Rights(), trusted=True), [number(a)])
    a.member.push()

    assert says(on_server(fleet))
    assert any("other hosts hold them" in each.message for each in a.health.problems())


def test_a_host_that_was_not_given_the_right_purges_nothing(fleet: Fleet, pair: tuple[Host, Host]) -> None:
    """A stolen host must not be able to erase the others; the refusal says what the operator does."""
    _, b = pair
    refused = ask(b, f"purge matching '{SECRET}' apply")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        b.sql("SELECT * FROM lcm.purge(ARRAY[1]::bigint[], ARRAY[1]::bigint[], ARRAY['']::bytea[])")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        b.sql("INSERT INTO lcm.purges(conversation, owner, ids, nodes) VALUES (1, 1, '{1}', '{}')")

    assert "GRANT lcm_purger" in refused.text
    assert says(on_server(fleet))
    assert says(here(b))


@pytest.mark.slow
def test_without_the_server_nothing_is_purged(fleet: Fleet, pair: tuple[Host, Host]) -> None:
    """Nobody could say who holds it."""
    a, _ = pair
    good = a.dsn
    a.to("host=127.0.0.1 port=1 dbname=x user=x connect_timeout=1")
    refused = ask(a, f"purge matching '{SECRET}' apply")
    a.to(good)

    assert "cannot be reached" in refused.text
    assert says(here(a))


@pytest.mark.slow
def test_a_purge_that_was_cut_off_before_the_file_is_finished_by_the_next_pull(
    fleet: Fleet, pair: tuple[Host, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has forgotten, and this host learns of it like any other."""
    a, _ = pair
    with monkeypatch.context() as killed:
        killed.setattr(purge, "empty", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            ask(a, f"purge matching '{SECRET}' apply")
    assert says(here(a))
    assert obey(a.member, a.member.access()) == 1
    assert not says(here(a) + on_server(fleet))


def test_a_purge_while_another_process_of_the_host_fetches_it_reaches_the_file(
    fleet: Fleet, host: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway has read the rows and not stored them yet; the terminal obeys meanwhile, and finds nothing to empty."""
    a, b = host("a"), host("b")
    purger(fleet, a)
    a.take(chat().user(SECRET).says("noted").turns(2))
    a.member.push()
    b.take(chat().turns(1), "own")
    b.member.push()
    terminal, real = b.to(b.dsn).member, Puller._take
    gateway = b.to(b.dsn).member

    def meanwhile(self: Puller, *given: Any) -> Any:
        with monkeypatch.context() as once:
            once.setattr(Puller, "_take", real)
            assert ask(a, f"purge matching '{SECRET}' apply").code == OK
            for _ in range(2):
                obey(terminal, b.runtime.access(None, Rights(), trusted=True))
        return real(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Puller, "_take", meanwhile)
        gateway.pull(30)
    assert says(here(b))
    for member in (gateway, terminal):
        obey(member, b.runtime.access(None, Rights(), trusted=True))
        member.pull(30)

    assert not says(here(b))
    assert b.member.verify().sound


def test_a_fetch_of_before_a_purge_brings_no_summary_back_beside_a_later_one(
    fleet: Fleet, pair: tuple[Host, Host], host: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway has read the rows; before it stores them, the terminal fetches them as the purge left them."""
    a, _ = pair
    c = host("c")
    c.take(chat().turns(1), "own")
    c.member.push()
    terminal, real = c.to(c.dsn).member, Puller._take
    gateway = c.to(c.dsn).member

    def meanwhile(self: Puller, *given: Any) -> Any:
        with monkeypatch.context() as once:
            once.setattr(Puller, "_take", real)
            assert ask(a, f"purge matching '{SECRET}' apply").code == OK
            terminal.pull(30)
        return real(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Puller, "_take", meanwhile)
        gateway.pull(30)
    for member in (gateway, terminal):
        member.push()
        obey(member, c.runtime.access(None, Rights(), trusted=True))
        member.pull(30)

    assert not says(here(c) + on_server(fleet))
    assert c.counts()["nodes"] == fleet.count("nodes")
    assert c.member.verify().sound


#: A process that fetches, waits once it has read, and is gone once the rows are stored.
FETCHES = """
import os, sys
from pathlib import Path
from worlds.fleet import Host
from hermes_lcm.fleet.pull import Puller
from hermes_lcm.fleet import pull
real, when = getattr(*(at := {"rows": (Puller, "_take"), "merge": (pull, "merge")}[sys.argv[3]])), sys.argv[3]
def take(*given, **more):
    print("read", flush=True)
    sys.stdin.readline()
    if when == "rows":
        real(*given, **more)
    os._exit(9)
setattr(*at, take)
Host(Path(sys.argv[1])).to(sys.argv[2]).member.pull(30)
"""


def fetching(host: Host, stops_at: str, **env: str) -> subprocess.Popen[str]:
    """A process of a host that stops where it has read the rows, or is about to merge them."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / '.lcm-path'}:{ROOT / 'tests'}", **env}
    words = [sys.executable, "-P", "-c", FETCHES, str(host.folder), host.dsn, stops_at]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)


def test_a_purge_reaches_what_a_process_fetched_that_was_killed_then(fleet: Fleet, host: Hosts) -> None:
    """It had read the rows before the purge; another process of that host obeyed before they were stored."""
    a, b = host("a"), host("b")
    purger(fleet, a)
    a.take(chat().user(SECRET).says("noted").turns(2))
    a.member.push()
    b.take(chat().turns(1), "own")
    with fetching(b, "rows") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "read\n"
        assert ask(a, f"purge matching '{SECRET}' apply").code == OK
        for _ in range(2):
            obey(b.member, b.runtime.access(None, Rights(), trusted=True))
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.wait(60) == 9
    came = says(here(b))
    obey(b.member, b.runtime.access(None, Rights(), trusted=True))

    assert came
    assert not says(here(b))


def test_a_text_to_match_says_what_a_policy_of_here_has_emptied(fleet: Fleet, pair: tuple[Host, Host]) -> None:
    """Neither this host nor the server has the words, and another host has them: by session it goes there, too."""
    a, b = pair
    purge.empty(a.runtime.access(None, Rights(), trusted=True), [number(a)])
    a.member.push()
    blind = [ask(a, f"purge matching aardvark{apply}") for apply in ("", " apply")]
    still = says(here(b))
    done = ask(a, "purge session s apply")
    ask(b, "fleet pull")

    assert [answer.data["fleet"]["not_matched"] for answer in blind] == [1, 1]
    assert all("NOT MATCHED: 1 message" in answer.text for answer in blind)
    assert still
    assert done.code == OK, done.text
    assert "NOT MATCHED" not in done.text
    assert not says(here(b) + on_server(fleet))


def test_a_purge_of_a_person_says_that_names_stay(pair: tuple[Host, Host]) -> None:
    """Of persons and sessions, on the server and the hosts; one that names messages says nothing of it."""
    a, _ = pair
    said = {
        words: ask(a, f"purge {words}").text for words in ("session s", "principal telegram:dm:1", "matching aardvark")
    }

    assert ["Names of sessions and persons stay" in text for text in said.values()] == [True, True, False]


def test_a_stand_in_that_was_merged_and_kept_goes_like_a_backup(pair: tuple[Host, Host], tmp_path: Path) -> None:
    """It counts conversations and messages for itself: what it holds is known by digests."""
    (tmp_path / "other").mkdir()
    other = Host(tmp_path / "other")
    other.take(chat().turns(2), "first")
    other.take(chat().user(SECRET).says("noted"), "s")
    other.db.close()
    for each in pair:
        (each.folder / "lcm-backups").mkdir(exist_ok=True)
        (each.folder / "lcm-backups" / "lcm.standby-1-2.sqlite3").write_bytes((other.folder / "lcm.db").read_bytes())
    done = ask(pair[0], f"purge matching '{SECRET}' apply")
    ask(pair[1], "fleet pull")

    assert done.code == OK, done.text
    assert [path.name for each in pair for path in each.folder.rglob("lcm.standby*")] == []


def test_a_fetch_that_is_killed_leaves_no_file(fleet: Fleet, host: Hosts, tmp_path: Path) -> None:
    """Neither in its home nor among temporary files: no purge would find it there."""
    a, b = host("a"), host("b")
    a.take(chat().user(SECRET).says("noted").turns(2))
    a.member.push()
    b.take(chat().turns(1), "own")
    before = {path for path in b.folder.rglob("*") if not path.name.startswith("lcm.db")}
    (tmp_path / "tmp").mkdir()
    with fetching(b, "merge", TMPDIR=str(tmp_path / "tmp")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "read\n"
        process.kill()

    assert {path for path in b.folder.rglob("*") if not path.name.startswith("lcm.db")} == before
    assert [*(tmp_path / "tmp").rglob("*")] == []


def forged(fleet: Fleet, host: Hosts, message: tuple[int, bytes]) -> tuple[Host, int]:
    """A gateway that sees chats only, and its row of this number and these words, in a chat of its own; its conversation."""
    thief = host("gateway", patterns=("telegram:%",))
    thief.session("chat", principal="telegram:dm:7")
    thief.take(chat().user("yes").says("it is done"), "chat")
    thief.member.push()
    thief.sql(
        "INSERT INTO lcm.messages SELECT conversation, owner, %s, session_id, 90, 90, role, tool_name, answers, %s, tokens, "
        "chars, said_at, stored_at + 1, source, 0, NULL, envelope FROM lcm.messages LIMIT 1", *message,
    )  # fmt: skip
    return thief, thief.sql("SELECT conversation FROM lcm.conversations")[0][0]


def said_yes(a: Host) -> tuple[int, bytes]:
    """The first message of the terminal's session, as the server knows it: its number, and the digest of its words."""
    a.session("desk", principal="local")
    a.take(chat().user("yes").says("noted").turns(2), "desk")
    a.member.push()
    found: tuple[int, bytes] = a.sql("SELECT id, digest FROM lcm.messages ORDER BY id LIMIT 1")[0]
    return found


def test_the_same_words_under_the_same_number_of_another_conversation_purge_nothing_here(
    fleet: Fleet, host: Hosts
) -> None:
    """A role that may purge its own chats guesses a number, and what a person may have said."""
    a = host("a")
    message = said_yes(a)
    thief, home = forged(fleet, host, message)
    purger(fleet, thief)
    thief.sql("SELECT * FROM lcm.purge(ARRAY[%s]::bigint[], ARRAY[%s]::bigint[], ARRAY['']::bytea[])", home, message[0])
    for _ in range(2):
        ask(a, "fleet pull")
        a.member.push()

    assert a.thread("desk")[0]["content"] == "yes"
    assert a.sql("SELECT count(*) FROM lcm.messages WHERE flags & 8192 <> 0 AND session_id = 'desk'") == [(0,)]


def test_a_purge_leaves_the_same_words_under_the_same_number_of_another_conversation(fleet: Fleet, host: Hosts) -> None:
    """Somebody else said them there; hosts that moved to another server may have given one number twice."""
    a = host("a")
    message = said_yes(a)
    purger(fleet, a)
    thief, _ = forged(fleet, host, message)
    done = ask(a, "purge messages msg_1 apply")

    assert done.code == OK, done.text
    assert a.sql("SELECT session_id FROM lcm.messages WHERE flags & 8192 <> 0") == [("desk",)]
    assert thief.sql("SELECT count(*) FROM lcm.messages WHERE flags & 8192 <> 0") == [(0,)]
