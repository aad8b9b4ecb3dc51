"""The host that purges is cut off, or killed, at every statement that it sends; the same purge again ends it everywhere."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from worlds.fleet import Fleet, Host, ask, here, on_server, purger
from worlds.process import Script, chat

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
    a.compact(chat().user(SECRET).says("noted").turns(60, first=10))
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
    assert a.counts()["messages"] == b.counts()["messages"] == fleet.count("messages") == 122
    a.member.close()
    a.db.close()
