"""The server itself is lost, and an older copy of it takes its place: nothing is missed, and what was purged stays purged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from worlds.fleet import Fleet, Host, ask, here, on_server, purger
from worlds.postgres import Postgres, programs, running
from worlds.process import Chat, Script, chat

from hermes_lcm.command import OK

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (programs() / "pg_basebackup").exists(), reason="some builds of the server come without it"),
]
SECRET = "the aardvark of Zwickau sleeps under the third bridge"


def says(texts: list[str], word: str = "aardvark") -> bool:
    return any(word in text for text in texts)


@pytest.fixture
def server() -> Iterator[Postgres]:
    """A server of its own."""
    with running() as made:
        yield made


@pytest.fixture
def own(server: Postgres, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(server, tmp_path)
    yield made
    made.close()


@pytest.fixture
def three(own: Fleet) -> tuple[Host, Host, Host]:
    """Hosts that all have a conversation with a secret in it; the first one may purge, the last one only reads."""
    a, b, c = (own.host(name, script=Script("provisional")) for name in "abc")
    purger(own, a)
    a.session("s", principal="telegram:dm:1")
    a.compact(chat().user(SECRET).says("noted").turns(24, first=10))
    a.member.push()
    for each in (b, c):
        ask(each, "fleet pull")
    return a, b, c


def number(host: Host) -> int:
    return next(row.store_id for rows in host.runtime.store.row_batches() for row in rows if row.text == SECRET)


def busy(fleet: Fleet, count: int = 200) -> None:
    """Other programs of that server count its transactions on."""
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        for _ in range(count):
            admin.execute("SELECT pg_current_xact_id()")


def settle(*hosts: Host) -> None:
    for each in hosts * 3:
        ask(each, "fleet push")
        ask(each, "fleet pull")


def test_a_host_that_only_reads_misses_nothing_on_an_older_copy(
    own: Fleet, server: Postgres, three: tuple[Host, Host, Host]
) -> None:
    """Its last look was at a later transaction than those of the copy: neither a purge nor new words pass it by."""
    a, b, c = three
    copy = server.back_up()
    busy(own)
    for each in (b, c):
        ask(each, "fleet pull")
    server.put_back(copy)
    a.take(Chat(a.thread("s")).user("and now").says("goes on"))
    a.member.push()
    done = ask(a, f"purge matching '{SECRET}' apply")
    settle(b, c)

    assert done.code == OK, done.text
    for each in (b, c):
        assert not says(here(each))
        assert says(here(each), "and now")


@pytest.mark.parametrize("heard", [False, True])
def test_what_was_purged_after_the_copy_stays_purged(
    own: Fleet, server: Postgres, three: tuple[Host, Host, Host], heard: bool
) -> None:
    """Whether or not the other hosts had heard of it."""
    a, b, c = three
    copy = server.back_up()
    done = ask(a, f"purge matching '{SECRET}' apply")
    if heard:
        settle(b, c)
    server.put_back(copy)
    settle(a, b, c)
    again = ask(a, "purge session s apply")
    d = own.host("d")
    settle(a, b, c, d)

    assert (done.code, again.code) == (OK, OK), done.text + again.text
    for texts in (on_server(own), here(a), here(b), here(c), here(d)):
        assert not says(texts)
    assert all(each.member.verify().sound for each in (a, b, c, d))


@pytest.mark.parametrize("heard", [False, True])
def test_hosts_go_on_with_a_dump_on_another_server(
    own: Fleet, server: Postgres, three: tuple[Host, Host, Host], heard: bool
) -> None:
    """It lacks a purge and new words: what hosts have is sent again, and the purge made again reaches all of them."""
    a, b, c = three
    dump = server.dump(own.admin)
    ask(b, f"pin msg_{number(b) + 1}")
    done = ask(a, f"purge matching '{SECRET}' apply")
    a.take(Chat(a.thread("s")).user("and now").says("goes on"))
    a.member.push()
    busy(own)
    if heard:
        settle(b, c)
    with running() as other:
        own.admin = other.load(dump)
        for each in three:
            each.to(
                each.dsn.replace(
                    server.dsn("", "", "").rpartition("@")[2].partition("/")[0], f"127.0.0.1:{other.port}"
                ).replace(each.dsn.rpartition("/")[2], own.admin.rpartition("/")[2])
            )
        settle(a, b, c)
        again = ask(a, "purge session s apply")
        settle(a, b, c)

        assert done.code == OK, done.text
        assert "PINNED" in again.text
        for each in three:
            assert not says(here(each))
            assert says(here(each), "noted")
            assert each.counts()["messages"] == own.count("messages") == 52
            assert each.member.verify().missing == []
        assert not says(on_server(own))
        for each in three:
            each.member.close()
