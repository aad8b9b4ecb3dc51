"""What a host makes over a place that the fleet purged: words of it stay off the server, words of the rest stay there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from worlds.fleet import Fleet, Host, ask, here, on_server, purger
from worlds.process import Chat, Script, chat

from hermes_lcm.archive.ranges import Archive
from hermes_lcm.command import OK
from hermes_lcm.dag import fingerprint
from hermes_lcm.ops.forget import purge
from hermes_lcm.records import Flag, NewNode, Summary, SummaryTask
from hermes_lcm.search.scope import Rights
from hermes_lcm.text import content

Hosts = Callable[..., Host]
SECRET = "the aardvark of Zwickau sleeps under the third bridge"
ABOUT_THE_REST = "what was decided about the third harbour"


def says(texts: list[str], word: str = "aardvark") -> bool:
    return any(word in text for text in texts)


def number(host: Host) -> int:
    return next(row.store_id for rows in host.runtime.store.row_batches() for row in rows if row.text == SECRET)


class Quoting(Script):
    """A model whose summaries say the secret wherever they were made of it."""

    def __call__(self, task: SummaryTask, **wishes: Any) -> Summary:
        made = super().__call__(task, **wishes)
        quoted = SECRET if says([line.text for line in task.lines]) else ""
        return replace(made, text=f"{quoted} {made.text}")

    summarise = __call__


def archive(host: Host, ids: tuple[int, ...], summary: str, session: str = "s") -> None:
    home = host.session(session).conversation_id
    host.runtime.archives.add(
        Archive(
            0,
            f"mem://s/{host.folder.name}",
            home,
            session,
            ids,
            0,
            1,
            2,
            summary,
            True,
            summary,
            9,
            9,
            "archived",
            1.0,
            1.0,
        )
    )


def archived(host: Host) -> list[str]:
    return [" ".join(row) for row in host.db.query("SELECT summary, preview FROM archives")]


@pytest.fixture
def three(fleet: Fleet, host: Hosts) -> tuple[Host, Host, Host]:
    """Hosts that all have a conversation with a secret in it; the first one may purge."""
    a, b, c = (host(name, script=Quoting()) for name in "abc")
    purger(fleet, a)
    a.session("s", principal="telegram:dm:1")
    a.take(chat().user(SECRET).says("noted").turns(24, first=10))
    a.member.push()
    for each in (b, c):
        each.member.pull(30)
    return a, b, c


@pytest.mark.few(1)
@pytest.mark.parametrize("heard", [False, True])
@pytest.mark.parametrize("pinned", [False, True])
def test_no_summary_of_what_was_purged_reaches_the_server(
    fleet: Fleet, three: tuple[Host, Host, Host], heard: bool, pinned: bool
) -> None:
    """Made on a host that has not heard of the purge, or that had pinned it before it heard; condensed ones neither."""
    a, b, c = three
    if pinned:
        ask(b, f"pin msg_{number(b)}")
    ask(a, f"purge matching '{SECRET}' apply")
    if heard and pinned:
        ask(b, "fleet pull")
    live = Chat(b.thread("s"))
    for n in range(3):
        live = b.compact(live.turns(24, first=100 * n + 100))
    leaves = tuple(node.node_id for node in b.nodes())
    home = b.session().conversation_id
    b.dag.add(
        NewNode(home, 1, "verified", SECRET, SECRET, 9, 9, leaves, fingerprint(1, leaves), "m", "detailed", "{}"),
        now=9.0,
    )
    archive(b, (number(b), number(b) + 1), SECRET)
    b.member.push()
    c.member.pull(30)

    assert not says(on_server(fleet))
    assert not says(here(c)[c.counts()["messages"] :] + archived(c))
    assert len(c.nodes()) == len(b.nodes())
    ask(b, f"pin msg_{number(b)} undo")
    for each in (b, a, c) * 2:
        ask(each, "fleet push")
        ask(each, "fleet pull")
    for each in three:
        assert not says(on_server(fleet) + here(each) + archived(each))
        assert each.member.verify().sound


def test_a_host_that_keeps_what_was_purged_takes_no_empty_copy_of_its_own_summary(
    fleet: Fleet, three: tuple[Host, Host, Host]
) -> None:
    """What the purge emptied on the server is here as it was, once."""
    a, b, _ = three
    b.compact(Chat(b.thread("s")))
    b.member.push()
    a.member.pull(30)
    ask(b, f"pin msg_{number(b)}")
    before = [(node.node_id, node.text) for node in b.nodes()]
    ask(a, f"purge matching '{SECRET}' apply")
    for n in range(3):
        a.take(Chat(a.thread("s")).user(f"more {n}").says("ok"))
        a.member.push()
        ask(b, "fleet pull")

    assert [(node.node_id, node.text) for node in b.nodes()] == before


def test_an_archive_that_was_made_after_the_purge_keeps_its_words(fleet: Fleet, three: tuple[Host, Host, Host]) -> None:
    """The place was empty already: on the server and on every host, whenever they hear of the purge."""
    a, b, c = three
    place = number(a)
    ask(c, "fleet pull")
    done = ask(a, f"purge matching '{SECRET}' apply")
    archive(a, (place, place + 1), ABOUT_THE_REST)
    a.member.push()
    for each in (b, c, b, c):
        ask(each, "fleet pull")
        ask(each, "fleet push")

    assert done.code == OK, done.text
    assert says(on_server(fleet), ABOUT_THE_REST)
    for each in three:
        assert archived(each) == [f"{ABOUT_THE_REST} {ABOUT_THE_REST}"]


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", [f"matching '{SECRET}'", "session s"])
@pytest.mark.parametrize("at", ["another host", "the host of the policy"])
def test_a_purge_reaches_every_host_though_a_policy_emptied_the_server_before(
    fleet: Fleet, three: tuple[Host, Host, Host], kind: str, at: str
) -> None:
    """One host's policy took the words off the server; others have them, and hear of the purge."""
    a, b, c = three
    c.compact(Chat(c.thread("s")))
    c.member.push()
    policy, operator = (b, a) if at == "another host" else (a, a)
    purge.empty(policy.runtime.access(None, Rights(), trusted=True), [number(policy)])
    policy.member.push()
    dry = ask(operator, f"purge {kind}")
    done = ask(operator, f"purge {kind} apply")
    again = ask(operator, f"purge {kind} apply")
    for each in (b, c):
        ask(each, "fleet pull")

    if "matching" in kind and at != "another host":
        assert "Nothing to purge" in dry.text  # no text says it any more where it was asked for
        return
    assert done.code == OK, done.text
    assert "Nothing to purge" in again.text
    for each in (on_server(fleet), here(a), here(b), here(c)):
        assert not says(each)


@pytest.mark.few(1)
@pytest.mark.parametrize("pushed", [False, True])
def test_summaries_that_a_policy_left_go_with_a_purge_of_another_host(
    fleet: Fleet, three: tuple[Host, Host, Host], pushed: bool
) -> None:
    """The texts are gone here already; what a summary says of them is not."""
    a, b, c = three
    b.compact(Chat(b.thread("s")))
    if pushed:
        b.member.push()
        c.member.pull(30)
    purge.empty(b.runtime.access(None, Rights(), trusted=True), [number(b)], summaries=False)
    assert says(here(b))
    ask(a, "purge session s apply")
    for each in (b, c, b, c):
        ask(each, "fleet push")
        ask(each, "fleet pull")

    for each in (on_server(fleet), here(a), here(b), here(c)):
        assert not says(each)


def archive_node(host: Host) -> None:
    """An archive that a compaction took over: a node whose words are the agent's."""
    home, ids = host.session("s").conversation_id, (number(host), number(host) + 1)
    text = f"Archived as mem://s/1:\n{SECRET}"
    host.dag.add(
        NewNode(home, 0, "verified", text, "", 9, 9, ids, fingerprint(0, ids, variant="archive"), "m", "archive", "{}"),
        now=9.0,
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("unaware", [False, True])
def test_an_archive_in_a_summarys_place_goes_with_a_purge(
    fleet: Fleet, three: tuple[Host, Host, Host], unaware: bool
) -> None:
    """From server and hosts; and a comparison finds nothing amiss."""
    a, b, c = three
    archive_node(b)
    if not unaware:
        for each in (b, a, c):
            ask(each, "fleet push")
            ask(each, "fleet pull")
    done = ask(a, f"purge matching '{SECRET}' apply")
    for each in (b, c, a) * 2:
        ask(each, "fleet push")
        ask(each, "fleet pull")

    assert done.code == OK, done.text
    for each in (on_server(fleet), here(a), here(b), here(c)):
        assert not says(each)
    for host in three:
        assert host.member.verify().sound
        assert len(host.nodes()) == 1


def test_an_archive_in_a_summarys_place_leaves_the_server_with_a_policy(
    fleet: Fleet, three: tuple[Host, Host, Host]
) -> None:
    """It is of this host, as other summaries are."""
    a, b, _ = three
    archive_node(a)
    a.member.push()
    purge.empty(a.runtime.access(None, Rights(), trusted=True), [number(a)])
    a.member.push()

    assert not says(on_server(fleet))
    assert not says(here(a))
    assert a.member.verify().sound
    assert says(here(b))


def less(host: Host, word: str) -> None:
    """Take a message's words out, as `redact apply` does."""
    store = host.runtime.store
    row = next(row for rows in store.row_batches() for row in rows if word in row.text)
    said = content.read_message({"role": "user", "content": "[redacted:name]"})
    store.rewrite(
        [
            (
                row.head,
                replace(said, digest=row.head.digest, tokens=row.head.tokens, flags=row.head.flags | Flag.REDACTED),
            )
        ]
    )


def test_what_one_host_took_out_comes_back_with_no_push_of_another(fleet: Fleet, host: Hosts) -> None:
    """Another host still has the message whole: its other changes arrive, its words do not."""
    a, b, c = (host(name) for name in "abc")
    a.take(chat().user(SECRET).says("noted").turns(2))
    a.member.push()
    b.member.pull(30)
    less(a, SECRET)
    a.member.push()
    with b.db.transaction():
        b.db.execute("UPDATE messages SET flags = flags | ?", (Flag.RETRACTED,))
    b.member.push()
    c.member.pull(30)

    assert not says(on_server(fleet) + here(c))
    assert a.sql("SELECT DISTINCT flags & %s FROM lcm.messages", int(Flag.RETRACTED)) == [(Flag.RETRACTED,)]
    assert says(here(b))
