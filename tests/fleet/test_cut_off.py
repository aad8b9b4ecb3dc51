"""The host that purges is cut off, or killed, at every statement that it sends; the same purge again ends it everywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from worlds.fleet import Fleet, Host, ask, here, on_server, purger
from worlds.process import Chat, Script, chat

from hermes_lcm.command import OK

pytestmark = pytest.mark.slow
SECRET = "the aardvark of Zwickau sleeps under the third bridge"


def says(texts: list[str]) -> bool:
    return any("aardvark" in text for text in texts)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("at", range(1, 53, 3))
def test_a_purge_that_is_cut_off_at_any_statement_ends_with_the_next(
    fleet: Fleet, host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch, at: int, done: bool, killed: bool
) -> None:
    """``done``: the server had carried the statement out, and its answer was lost."""
    a, b = (host(name, script=Script("provisional")) for name in "ab")
    purger(fleet, a)
    a.compact(chat().user(SECRET).says("noted").turns(24, first=10))
    a.member.push()
    b.member.pull(30)
    count, real = 0, psycopg.Connection.execute

    def breaking(self: psycopg.Connection, *args: Any, **more: Any) -> object:
        nonlocal count
        count += 1
        if count != at:
            return real(self, *args, **more)
        if done:
            real(self, *args, **more)
        if killed:
            raise KeyboardInterrupt
        self.close()
        raise psycopg.OperationalError("the line is cut")

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(psycopg.Connection, "execute", breaking)
        ask(a, f"purge matching '{SECRET}' apply")
    assert count >= at
    a = a.restart()
    last = ask(a, f"purge matching '{SECRET}' apply")
    for each in (b, a, b):
        ask(each, "fleet push")
        ask(each, "fleet pull")

    assert last.code == OK, last.text
    assert not says(on_server(fleet) + here(a) + here(b))
    assert not any("purge" in each.topic for each in a.health.problems())
    assert a.member.verify().sound
    assert b.member.verify().sound
    assert a.counts()["messages"] == b.counts()["messages"] == fleet.count("messages") == 50
    a.member.close()
    a.db.close()


@pytest.mark.parametrize(
    "kinds",
    [("matching aardvark", "matching aardvark"), ("session s", "matching aardvark"), ("messages msg_{}", "session s")],
)
@pytest.mark.parametrize("turn", range(3))
def test_hosts_that_purge_at_once_while_others_write_end_it_together(
    fleet: Fleet, host: Callable[..., Host], kinds: tuple[str, str], turn: int
) -> None:
    """What one of them was refused, the same again does; nothing is lost, doubled or left."""
    a, b, c = (host(name, script=Script("provisional")) for name in "abc")
    purger(fleet, a, b)
    a.compact(chat().user(SECRET).says("noted").turns(24, first=10))
    a.member.push()
    for each in (b, c):
        each.member.pull(30)
    number = next(row.store_id for rows in b.runtime.store.row_batches() for row in rows if row.text == SECRET)
    answers, over = dict[str, Any](), threading.Event()
    live = Chat(c.thread("s"))

    def purges(one: Host, words: str) -> None:
        here = number - 100_000_000 if one is a else number
        answers[one.folder.name] = ask(one, f"purge {words.format(here)} apply")

    def writes() -> None:
        n = 0
        while not over.is_set() or n < 3:
            c.take(live.user(f"question at c {n}").says(f"answer at c {n}"), "s")
            if n == 1:
                c.compact(live)
            ask(c, "fleet push")
            n += 1

    threads = [threading.Thread(target=purges, args=each) for each in zip((a, b), kinds, strict=True)]
    writer = threading.Thread(target=writes)
    for each in (writer, *threads):
        each.start()
    for each in threads:
        each.join(120)
    over.set()
    writer.join(120)
    again = [
        ask(one, f"purge {words.format(number - 100_000_000 if one is a else number)} apply")
        for one, words in zip((a, b), kinds, strict=True)
    ]
    for each in (c, b, a) * 5:
        ask(each, "fleet push")
        ask(each, "fleet pull")

    assert [each.code for each in again] == [OK, OK], [each.text for each in again]
    for texts in (on_server(fleet), here(a), here(b), here(c)):
        assert not says(texts)
    assert [each.counts()["messages"] for each in (a, b, c)] == [fleet.count("messages")] * 3
    assert all(each.member.verify().sound for each in (a, b, c))
    assert "answer at c 2" in [row["content"] for row in a.stored()] or "session s" in kinds
