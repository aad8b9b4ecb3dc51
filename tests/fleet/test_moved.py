"""A conversation moves between hosts while the fleet purges some of it: the host's own list still shows the words."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from worlds.fleet import Fleet, Host, ask, here, on_server, purger
from worlds.process import Chat, Script, chat, reload

from hermes_lcm.command import OK

pytestmark = pytest.mark.slow
SECRET = "the aardvark of Zwickau sleeps under the third bridge"
Hosts = Callable[..., Host]


def says(texts: list[str]) -> bool:
    return any("aardvark" in text for text in texts)


def whole(host: Host, session: str) -> list[str]:
    """What a session shows, but for the numbers of what was purged."""
    return [re.sub(r"purged:\w+", "purged", str(row["content"])) for row in host.thread(session)]


def settle(*hosts: Host) -> None:
    for each in hosts * 4:
        ask(each, "fleet push")
        ask(each, "fleet pull")


@pytest.mark.parametrize("begins", ["before the purge", "after the purge"])
@pytest.mark.parametrize("goes_on", ["in its session", "in a branch", "after a restart"])
@pytest.mark.parametrize("script", ["ok", "provisional"])
def test_a_resumed_conversation_brings_nothing_back(
    fleet: Fleet, host: Hosts, begins: str, goes_on: str, script: str
) -> None:
    """Compacted there with the list as it was: neither message, summary nor prompt of it says the words on the server again."""
    a, b = (host(name, script=Script(script)) for name in "ab")
    purger(fleet, a)
    a.session("s", principal="telegram:dm:1")
    shown = chat().turns(3).user(SECRET).says("noted").turns(40, first=10)
    a.take(shown)
    a.member.push()
    b.member.pull(30)
    live = Chat(shown.copy())
    if begins == "before the purge":
        b.take(live.user("resumed at b").says("yes"))
        b.member.push()
    done = ask(a, f"purge matching '{SECRET}' apply")
    ask(b, "fleet pull")
    session = "s"
    if goes_on == "after a restart":
        b = b.restart()
        live = reload(live)
    if goes_on == "in a branch":
        above, session = b.session("s"), "twig"
        b.session(
            "twig",
            parent=above,
            origin="branch",
            fork_seq=b.store.last_seq(above.conversation_id),
            principal="telegram:dm:1",
        )
    live = b.compact(live.turns(40, first=100), session)
    live = b.compact(live.turns(40, first=200), session)
    settle(b, a, b)

    assert done.code == OK, done.text
    assert not says(on_server(fleet))
    assert not says(here(a) + here(b))
    assert [each.counts()["messages"] for each in (a, b)] == [fleet.count("messages")] * 2
    assert [whole(each, session) for each in (a, b)] == [whole(b, session)] * 2
    assert a.member.verify().sound
    assert b.member.verify().sound
    b.db.close()


@pytest.mark.parametrize("others", [0, 1, 2, 3])
def test_a_branch_goes_on_at_another_host(host: Hosts, others: int) -> None:
    """With all that it inherits, once; whatever numbers conversations have there."""
    a, b, c = (host(name) for name in "abc")
    for n in range(others):
        c.take(chat().user(f"own {n}").says("yes"), f"own-{n}")
    a.session("s", principal="telegram:dm:1")
    live = chat().turns(20)
    a.take(live)
    a.member.push()
    b.member.pull(30)
    above = b.session("s")
    fork_seq = b.store.last_seq(above.conversation_id)
    b.session("twig", parent=above, origin="branch", fork_seq=fork_seq, principal="telegram:dm:1")
    live = Chat(live.copy()).turns(3, first=100)
    b.take(live, "twig")
    b.member.push()
    for each in (a, c):
        each.member.pull(30)
        count = each.counts()["messages"]
        each.take(reload(live), "twig")

        assert whole(each, "twig") == whole(b, "twig") == [row["content"] for row in live]
        assert each.counts()["messages"] == count
