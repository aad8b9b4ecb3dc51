"""What one host stores is on the server and on the others: each row once, exactly, whatever was interrupted."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from worlds.fleet import Fleet, Host
from worlds.postgres import Postgres
from worlds.process import Chat, chat, reload

from hermes_lcm.errors import FleetError, FleetUnavailable
from hermes_lcm.fleet import member, outbox
from hermes_lcm.fleet.outbox import Outbox
from hermes_lcm.fleet.pull import Puller
from hermes_lcm.fleet.push import Pusher
from hermes_lcm.records import Flag
from hermes_lcm.storage import standby

Hosts = Callable[..., Host]


def test_everything_that_is_stored_is_pushed_once(fleet: Fleet, host: Hosts) -> None:
    """Pushing again adds nothing, and a comparison finds nothing missing."""
    a = host("a")
    a.compact(chat().turns(24))
    first = a.member.push()
    again = a.member.push()

    assert first.messages == fleet.count("messages") == a.counts()["messages"]
    assert fleet.count("nodes") == a.counts()["nodes"] > 0
    assert again.messages == 0
    assert a.member.verify().sound
    assert a.member.status()["behind"] == 0


def test_what_was_stored_before_the_host_joined_is_pushed_too(fleet: Fleet, host: Hosts) -> None:
    """Behind what came since; and both keep their own addresses here."""
    a = host("a")
    a.take(chat().turns(5))
    a.member.push()
    live = chat().turns(5).user("after it joined").says("yes")
    a.take(live)

    assert a.member.status()["behind"] == 2
    a.member.push()
    assert fleet.count("messages") == len(live)
    assert a.thread() == live
    assert a.member.verify().sound


def test_what_the_server_has_is_pushed_again_without_a_refusal(fleet: Fleet, host: Hosts) -> None:
    """A confirmation that was lost; PostgreSQL 15.20 asks the policies of every row that an upsert meets."""
    a = host("a")
    a.compact(chat().turns(24))
    a.member.push()
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        admin.execute(f"UPDATE lcm.messages SET flags = {int(Flag.PURGED)}, envelope = '' WHERE id % 2 = 0")
        before = admin.execute("SELECT m::text FROM lcm.messages m ORDER BY 1").fetchall()
    outbox = Outbox(a.db)
    state = outbox.state()
    assert state is not None
    outbox.remake(state)
    again = a.member.push()

    assert again.messages == a.counts()["messages"]
    assert not again.conflicts
    with psycopg.connect(fleet.admin) as admin:
        assert admin.execute("SELECT m::text FROM lcm.messages m ORDER BY 1").fetchall() == before


@pytest.mark.parametrize("at", range(1, 12, 3))
def test_a_push_that_breaks_anywhere_goes_on(
    fleet: Fleet, host: Hosts, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statement by statement: nothing is lost, nothing is there twice."""
    a = host("a")
    live = a.compact(chat().turns(40))
    count = 0
    real = psycopg.Connection.execute

    def breaking(self: psycopg.Connection, *args: object, **more: object) -> object:
        nonlocal count
        count += 1
        if count == at:
            self.close()
            raise psycopg.OperationalError("the line is cut")
        return real(self, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", breaking)
        with pytest.raises(FleetUnavailable):
            a.member.push()
    a.take(live.user("meanwhile"))
    a.member.push()

    assert fleet.count("messages") == a.counts()["messages"]
    assert fleet.count("nodes") == a.counts()["nodes"]
    assert a.member.verify().sound


def test_a_conversation_that_moves_goes_on_exactly(host: Hosts) -> None:
    """The other host takes the list over as it is: no message twice, the same summaries under the same addresses."""
    a, b = host("a"), host("b")
    a.take(chat().user("hi"), "before")
    a.member.push()
    live = a.compact(chat().turns(24))
    a.member.push()
    b.member.pull(30, "s")
    before = b.counts()["messages"]
    moved = b.take(reload(live))

    assert b.counts()["messages"] == before
    assert moved.assembly is not None
    assert [b.dag.node(n).text for n in moved.assembly.roots] == [a.dag.node(n).text for n in moved.assembly.roots]
    assert b.thread() == a.thread()
    assert b.gaps(reload(live)) == ([], [])


def test_a_conversation_that_comes_back_brings_what_was_said_elsewhere(host: Hosts) -> None:
    """There and back again, with a compaction on each host."""
    a, b = host("a"), host("b")
    live = a.compact(chat().turns(24))
    a.member.push()
    b.member.pull(30)
    gone_on = b.compact(reload(live).turns(24, first=100))
    b.member.push()
    a.member.pull(30)
    transcript = a.take(reload(gone_on))

    assert transcript.stored == 0
    assert a.gaps(reload(gone_on)) == ([], [])
    assert a.counts()["messages"] == b.counts()["messages"] == 96
    a.member.push()
    assert a.member.verify().sound
    assert b.member.verify().sound


def test_two_hosts_that_wrote_before_they_joined_keep_their_addresses(host: Hosts) -> None:
    """Both began to count at one; on the other host a row has its number in the fleet."""
    a, b = host("a"), host("b")
    for each, name in ((a, "sa"), (b, "sb")):
        each.compact(chat().turns(24, first=0 if name == "sa" else 500), name)
        each.member.push()
    a.member.pull(30)
    b.member.pull(30)

    assert a.thread("sb") == b.thread("sb")
    assert b.thread("sa") == a.thread("sa")
    assert len(a.nodes()) == len(b.nodes()) > 1
    assert a.member.verify().sound
    assert b.member.verify().sound


def test_hosts_that_write_at_the_same_time_lose_nothing(host: Hosts) -> None:
    """Each went on while the other was away: both have all that was said."""
    a, b = host("a"), host("b")
    live = chat().turns(3)
    a.take(live)
    a.member.push()
    b.member.pull(30)
    a.take(live.copy().user("said at a").says("answered at a"))
    b.take(live.copy().user("said at b").says("answered at b"))
    for each in (a, b, a):
        each.member.push()
        each.member.pull(30)
    said = {text["content"] for text in a.stored()}

    assert {"said at a", "said at b"} <= said
    assert said == {text["content"] for text in b.stored()}
    assert a.counts()["messages"] == b.counts()["messages"] == 10


def test_a_new_server_gives_no_numbers_that_an_earlier_one_gave(
    postgres: Postgres, host: Hosts, tmp_path: Path
) -> None:
    """Hosts move to an empty one: what each stores there arrives there, and on the other."""
    a, b = host("a"), host("b")
    for n in range(3):
        for one in (a, b):
            one.take(chat().user(f"early {n}").says("ok"), f"{n}-{one.folder.name}")
            one.member.push()
            one.member.pull(30)
    a.member.pull(30)
    (tmp_path / "new").mkdir()
    fleet = Fleet(postgres, tmp_path / "new")
    a.to(fleet.role("a"))
    b.to(fleet.role("b"))
    for n in range(3):
        for one in (b, a):
            one.take(chat().user(f"late {n}").says("ok"), f"late-{n}-{one.folder.name}")
            assert one.member.push().messages == 2
            one.member.pull(30)
    b.member.pull(30)

    assert fleet.count("messages") == 12
    assert a.counts()["messages"] == b.counts()["messages"] == 24
    assert len({row[0] for row in a.sql("SELECT id FROM lcm.messages")}) == 12
    fleet.close()


def test_two_hosts_that_summarise_the_same_bring_it_to_a_third(host: Hosts) -> None:
    """Both were alone: the server has two summaries of the same messages, and a host that has none takes one."""
    a, b, c, d = (host(name) for name in "abcd")
    live = chat().turns(24)
    a.take(live)
    a.member.push()
    for one in (b, c):
        one.member.pull(30)
        one.compact(reload(live))
    for one in (b, c):
        one.member.push()
    for one in (d, a, b, c):
        one.member.pull(30)

    assert d.counts()["messages"] == 48
    assert d.counts()["nodes"] == b.counts()["nodes"] > 0
    assert d.gaps(reload(live)) == ([], [])
    assert all(one.member.verify().sound for one in (a, b, c, d))


WAYS = {
    "one takes back and asks again": (2, 0, "a"),
    "both take back and ask something else": (2, 2, "ab"),
    "both take back and ask the same": (2, 2, "same"),
    "one goes back further than the other goes on": (0, 4, "ab"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_conversation_that_is_edited_on_two_hosts_at_once_loses_nothing(host: Hosts, way: str, order: str) -> None:
    """Each message once on both; each host shows what it said itself in its order, and then goes on with its own list."""
    by_name = {"a": host("a"), "b": host("b")}
    a, b = by_name.values()
    live = chat().turns(3)
    a.take(live)
    a.member.push()
    b.member.pull(30)
    b.take(reload(live))
    back_a, back_b, words = WAYS[way]
    at_a = Chat(live[: len(live) - back_a]).user("again" if words == "same" else "on at a").says("answered at a")
    at_b = (
        Chat(reload(live)[: len(live) - back_b]).user("again" if words == "same" else "on at b").says("answered at b")
    )
    for rest in ([], ["later"]):
        for one, its in ((a, at_a), (b, at_b)):
            one.take(its.user(*rest).says("yes") if rest else its)
        for name in order * 2:
            by_name[name].member.push()
            by_name[name].member.pull(30)
    new = [message["content"] for message in (*at_a[-4:], *at_b[-4:])]

    for one, its in ((a, at_a), (b, at_b)):
        texts = [message["content"] for message in one.stored()]
        assert sorted(texts) == sorted([*(message["content"] for message in live), *new])
        thread = [message["content"] for message in one.thread()]
        assert [text for text in thread if text in {message["content"] for message in its[-4:-2]}][:2] == [
            message["content"] for message in its[-4:-2]
        ]
        assert set(new) <= set(thread)
        assert one.member.verify().sound


def test_an_older_transaction_that_stays_open_holds_nothing_back(host: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody's, on the whole server: what others wrote comes at once, and is fetched once."""
    a, b = host("a"), host("b")
    a.take(chat().user("early").says("ok"), "early")
    a.member.push()
    fetched: list[str] = []
    real = Puller.conversation

    def counted(self: Puller, nonce: str) -> None:
        fetched.append(nonce)
        real(self, nonce)

    monkeypatch.setattr(Puller, "conversation", counted)
    with psycopg.connect(a.dsn) as idle:
        idle.execute("UPDATE lcm.conversations SET fork_seq = fork_seq")
        a.take(chat().user("late").says("ok"), "late")
        a.member.push()
        first = b.member.pull(30).messages
        again = b.member.pull(30).conversations
        seen = len(fetched)
        a.take(chat().user("late").says("ok").user("later").says("ok"), "late")
        a.member.push()
        later = b.member.pull(30).messages
        idle.rollback()

    assert (first, again, later) == (4, 0, 2)
    assert (seen, len(fetched)) == (2, 3)


def test_a_message_that_is_taken_back_is_taken_back_on_the_server(fleet: Fleet, host: Hosts) -> None:
    """Flags are the one thing about a message that changes."""
    a = host("a")
    live = chat().turns(3)
    a.take(live)
    a.member.push()
    a.take(chat().turns(2).user("another question"))
    a.member.push()

    assert [row[0] for row in a.sql(f"SELECT count(*) FROM lcm.messages WHERE flags & {Flag.RETRACTED} <> 0")] == [2]


def test_what_changed_since_it_came_is_pushed(host: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the fetch was killed before it dropped its notes, and both stand in one batch."""
    a, b = host("a"), host("b")
    a.take(chat().turns(3))
    a.member.push()
    with monkeypatch.context() as patch:
        patch.setattr(Outbox, "drop_fresh", lambda *_: None)
        b.member.pull(30)
    b.take(chat().turns(2).user("another question"))
    b.member.push()

    assert [row[0] for row in a.sql(f"SELECT count(*) FROM lcm.messages WHERE flags & {Flag.RETRACTED} <> 0")] == [2]


def test_an_older_file_that_was_put_back_takes_nobodys_numbers(host: Hosts, tmp_path: Path) -> None:
    """What it stores from now on gets numbers of its own."""
    a = host("a")
    a.take(chat().turns(2))
    a.member.push()
    a.db.close()
    old = (a.folder / "lcm.db").read_bytes()
    a = a.restart()
    a.take(chat().turns(4))
    a.member.push()
    a.db.close()
    for name in ("lcm.db-wal", "lcm.db-shm"):
        (a.folder / name).unlink(missing_ok=True)
    (a.folder / "lcm.db").write_bytes(old)
    a = a.restart()
    a.member.push()
    a.take(chat().turns(2).user("something else"))
    out = a.member.push()

    assert out.conflicts == []
    assert len(a.sql("SELECT id FROM lcm.messages")) == 9


def test_hosts_that_fetch_from_each_other_for_long_remember_few_blocks(
    host: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fetch of newer rows takes a block; rows that wait in an older one are sent all the same."""
    monkeypatch.setattr(outbox, "REMEMBERED", 3)
    a, b = host("a"), host("b")
    at_a, at_b = chat(), chat()
    for n in range(7):
        at_a, at_b = at_a.user(f"a {n}").says("yes"), at_b.user(f"b {n}").says("yes")
        a.take(at_a, "on a")
        b.take(at_b, "on b")
        if n % 2:
            b.member.push()
        a.member.push()
        b.member.pull(30)
        a.member.pull(30)
    for one in (b, a):
        one.member.push()
        one.member.pull(30)

    assert [len(Outbox(one.db).state().blocks) for one in (a, b)] == [4, 4]
    assert a.counts()["messages"] == b.counts()["messages"] == 28
    assert all(one.member.verify().sound for one in (a, b))


def test_a_connection_reads_no_list_of_all_blocks(fleet: Fleet, host: Hosts) -> None:
    """There are as many as fetches of newer rows."""
    a = host("a")
    a.take(chat().turns(1))
    a.member.push()
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        admin.execute("INSERT INTO lcm.blocks(role, file) SELECT 'another', n::text FROM generate_series(1, 20000) n")
        admin.execute("ANALYZE lcm.blocks")
    plan = [row[0] for row in a.sql(f"EXPLAIN {member._MARK}", "a file")]
    plan += [row[0] for row in a.sql("EXPLAIN UPDATE lcm.nodes SET rung = 'purged' WHERE id = 5")]

    assert not [line for line in plan if "Seq Scan on blocks" in line]


def test_messages_under_numbers_that_no_server_gave_are_pushed(fleet: Fleet, host: Hosts) -> None:
    """A stand-in of a file that could not be read gave them."""
    a, b = host("a"), host("b")
    a.take(chat().turns(2))
    a.member.push()
    standby.give_numbers(a.db, 1_795_000_000)
    live = chat().turns(2).user("in the stand-in").says("yes")
    a.take(live)
    a.member.push()
    b.member.pull(30)

    assert fleet.count("messages") == len(live) == b.counts()["messages"]
    assert a.member.verify().sound


def test_only_messages_whose_number_is_taken_are_named_as_conflicts(host: Hosts) -> None:
    """Others that changed in the same batch are not."""
    a = host("a")
    a.take(chat().turns(3))
    a.member.push()
    with a.db.transaction():
        a.db.execute("UPDATE messages SET digest = zeroblob(16), flags = 1 WHERE store_id = 2")
        a.db.execute("UPDATE messages SET flags = 1 WHERE store_id = 3")

    assert [number % 100_000_000 for number in a.member.push().conflicts] == [2]


def test_a_server_of_another_version_is_refused_in_words(fleet: Fleet, host: Hosts) -> None:
    """Nothing is pushed, and the error says who does what."""
    a = host("a")
    a.take(chat().turns(1))
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        admin.execute("UPDATE lcm.meta SET value = '99' WHERE key = 'schema'")
    with pytest.raises(FleetError, match="version 99") as refused:
        a.member.push()

    assert "update the plugin" in refused.value.remedy
    assert a.member.status()["behind"] == 4


def said(host: Host, session: str = "s") -> list[str]:
    return [str(message["content"]) for message in host.thread(session)]


DAY = 86_400.0


def test_a_branch_comes_with_its_parent_whatever_the_clocks_said(host: Hosts) -> None:
    """The clock of the host that began the conversation was days ahead of that of the host that branched it off."""
    a, b, c = host("a"), host("b"), host("c")
    a.ingest.ingest_list(a.sessions.open("s", now=3 * DAY), chat().turns(2), source="test")
    a.member.push()
    b.member.pull(30)
    twig = b.sessions.open("twig", now=1.0, parent=b.sessions.find("s"), origin="branch", fork_seq=4)
    b.ingest.ingest_list(twig, Chat(b.thread("s")).user("and here").says("yes"), source="test")
    b.member.push()
    c.member.pull(30)

    assert said(c, "twig") == said(b, "twig")
    assert c.counts()["messages"] == 6


@pytest.mark.parametrize("ahead", [0.0, 3 * DAY])
def test_what_a_sub_agent_did_is_its_parents_on_every_host(host: Hosts, ahead: float) -> None:
    """Also where the clock of the parent's host was days ahead."""
    a, b, c = host("a"), host("b"), host("c")
    parent = a.sessions.open("s", now=ahead, principal="telegram:dm:1")
    a.ingest.ingest_list(parent, chat().turns(1), source="test")
    a.member.push()
    b.member.pull(30)
    sub = b.sessions.open("sub", now=1.0, parent=b.sessions.find("s"), origin="subagent", principal="telegram:dm:1")
    b.ingest.ingest_list(sub, chat().user("look").says("found"), source="test")
    b.member.push()
    for each in (a, c):
        each.member.pull(30)

        assert [child.session_id for child in each.sessions.children(["s"])] == ["sub"]


def test_a_sub_agent_of_somebody_else_stays_nobodys_child(host: Hosts) -> None:
    """A row may name any session as the one that began it."""
    a, b = host("a"), host("b")
    a.session("s", principal="telegram:dm:1")
    a.take(chat().turns(1))
    a.member.push()
    b.session("theirs", principal="telegram:dm:2")
    b.session("sub", parent=b.session("theirs"), origin="subagent", principal="telegram:dm:2")
    b.take(chat().user("look").says("found"), "sub")
    b.member.push()
    b.sql("INSERT INTO lcm.sessions SELECT conversation, owner, 'forged', 's', origin, platform, host_key, mode, model, "
          "started_at, NULL, NULL, 0 FROM lcm.sessions WHERE session_id = 'sub'")  # fmt: skip
    a.member.pull(30)

    assert a.sessions.find("forged") is not None
    assert a.sessions.children(["s"]) == []


def test_hosts_that_send_the_same_conversations_take_them_in_one_order(
    host: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever numbers these have there; else each would wait for what the other one has, and the server end one of them."""
    a, b = host("a"), host("b")
    for each in (a, b):
        for n in range(4):
            each.take(chat().user(f"{n} at {each.folder.name}").says("ok"), f"{each.folder.name}{n}")
    for each in (a, b, a):
        each.member.push()
        each.member.pull(30)
    taken: dict[str, list[str]] = {"a": [], "b": []}
    real = Pusher._open

    def noting(self: Pusher, conversations: Any) -> None:
        before = set(self._opened)
        real(self, conversations)
        taken[now].extend(str(home) for key, (home, _) in self._opened.items() if key not in before)

    monkeypatch.setattr(Pusher, "_open", noting)
    for now, one in (("a", a), ("b", b)):
        for name in [f"{by}{n}" for by in "ab" for n in range(4)]:
            one.take(Chat(one.thread(name)).user(f"more at {now}").says("yes"), name)
        one.member.push()

    assert taken["a"] == taken["b"] == sorted(taken["a"], key=int)
    assert len(taken["a"]) == 8


def test_what_was_not_sent_yet_is_not_taken_back_by_what_others_said(host: Hosts) -> None:
    """A fetch between two pushes: the other host went on without words of which it could not know."""
    a, b = host("a"), host("b")
    a.take(chat().turns(1))
    a.member.push()
    b.member.pull(30)
    a.take(Chat(a.thread()).user("at a").says("yes"))
    b.take(Chat(b.thread()).user("at b").says("no"))
    b.member.push()
    a.member.pull(30)

    assert {"at a", "yes", "at b", "no"} <= set(said(a))
    a.member.push()
    b.member.pull(30)
    assert {"at a", "yes", "at b", "no"} <= set(said(b))


@pytest.mark.parametrize("compacted", [False, True])
def test_a_list_of_a_new_process_takes_nothing_back_that_another_host_said(host: Hosts, compacted: bool) -> None:
    """The host's own list has never shown it, before the process ended or after."""
    a, b = host("a"), host("b")
    live = chat().turns(8)
    a.take(live)
    a.member.push()
    b.member.pull(30)
    if compacted:
        live = a.compact(live, threshold=300)
    b.take(Chat(b.thread()).user("at b").says("no"))
    b.member.push()
    a.member.pull(30)
    a = a.restart()
    for n in range(2):
        a.take(live.user(f"at a {n}").says("yes"))
    a.member.push()
    b.member.pull(30)

    assert {"at b", "no", "at a 0", "at a 1"} <= set(said(a)) & set(said(b))
    assert a.counts()["messages"] == b.counts()["messages"] == 22
    a.member.close()
    a.db.close()


def test_what_a_new_process_takes_back_is_what_its_own_lists_showed(host: Hosts) -> None:
    """Its first list has nothing new, and lacks what another host said meanwhile; the last one lacks what the second showed."""
    a, b = host("a"), host("b")
    live = chat().turns(3)
    a.take(live)
    a.member.push()
    b.member.pull(30)
    b.take(Chat(b.thread()).user("at b").says("no"))
    b.member.push()
    a.member.pull(30)
    a = a.restart()
    a.take(live)
    a.take(live.copy().user("at a").says("yes"))
    a.take(live.copy().user("instead").says("yes"))

    assert sorted(said(a)[-4:]) == ["at b", "instead", "no", "yes"]
    a.member.close()
    a.db.close()


def test_what_this_host_said_is_taken_back_by_the_first_list_of_a_new_process(host: Hosts) -> None:
    """As without a fleet."""
    a = host("a")
    live = chat().turns(3)
    a.take(live)
    a.member.push()
    a = a.restart()
    a.take(Chat(live[:-2]).user("instead").says("yes"))

    assert said(a)[-2:] == ["instead", "yes"]
    assert len(said(a)) == 6
    a.member.close()
    a.db.close()


def test_what_a_conversation_that_moved_here_began_with_is_taken_back_at_once(host: Hosts) -> None:
    """It was in front of what this host said, so its lists showed it."""
    a, b = host("a"), host("b")
    b.take(chat().turns(3))
    b.member.push()
    a.member.pull(30)
    live = Chat(a.thread())
    a.take(live.copy().user("at a").says("yes"))
    a = a.restart()
    a.take(Chat(live[:-2]).user("instead").says("done"))

    assert said(a)[-2:] == ["instead", "done"]
    assert len(said(a)) == 6
    a.member.close()
    a.db.close()


def test_a_message_of_very_many_long_words_is_pushed(fleet: Fleet, host: Hosts) -> None:
    """In letters of four bytes they are more than PostgreSQL takes for a search; all that comes behind it is sent, too."""
    a = host("a")
    adlam = [chr(n) for n in range(0x1E922, 0x1E942)]
    words = (format(n, "060b").translate({48: adlam[n % 32], 49: adlam[(n + 7) % 31]}) for n in range(4_900))
    a.take(chat().user(" ".join(words)).says("yes"))
    a.take(chat().user("later").says("yes"), "later")

    assert a.member.push().messages == fleet.count("messages") == 4


LONG = "".join(random.Random(1).choices(string.ascii_letters, k=5_000))  # longer than an entry of an index, also packed


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize(
    ("session", "principal"),
    [(LONG, "local"), ("bad", f"telegram:dm:{LONG}"), ("bad\0", "session:bad\0")],
    ids=["session", "principal", "NUL"],
)
def test_a_conversation_that_the_server_cannot_hold_stops_no_other(
    fleet: Fleet, host: Hosts, session: str, principal: str, known: bool
) -> None:
    """It waits and is told; all else of its batch, of later ones and of other hosts goes on."""
    a, b = host("a"), host("b")
    if known:
        a.take(chat().turns(2))
        a.member.push()
    a.session(session, principal=principal)
    nonce = a.session(session).nonce
    for name in ("before", session, "behind"):
        a.take(chat().user(f"for {len(name)}").says("yes"), name)

    for _ in range(2):
        out = a.member.push()
        assert out.refused.keys() == {nonce}
    a.take(chat().user("later").says("yes"), "later")
    assert a.member.push().messages == 2
    assert fleet.count("messages") == 6 + 4 * known
    assert nonce in str([(each.topic, each.message) for each in a.health.problems()])
    b.member.pull(30)
    assert b.counts()["messages"] == fleet.count("messages")
    assert a.thread(session) == chat().user(f"for {len(session)}").says("yes")


def test_a_row_that_the_server_cannot_hold_is_told_until_it_can(fleet: Fleet, host: Hosts) -> None:
    """A number out of range among messages of several conversations; each is counted once."""
    a = host("a")
    for name in ("s", "t", "u"):
        a.take(chat().turns(2), name)
    with a.db.transaction():
        a.db.execute("UPDATE messages SET tokens = tokens + (1 << 40) WHERE store_id = 6")
    out = a.member.push()

    assert out.refused.keys() == {a.session("t").nonce}
    assert (out.messages, fleet.count("messages")) == (8, 8)
    assert "out of range" in str([each.message for each in a.health.problems()])
    with a.db.transaction():
        a.db.execute("UPDATE messages SET tokens = tokens - (1 << 40) WHERE store_id = 6")
    assert (a.member.push().messages, fleet.count("messages")) == (4, 12)
    assert a.health.problems() == []
    assert a.member.verify().sound


def test_of_what_is_here_already_no_text_is_fetched_again(host: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host goes on in a conversation that another one wrote to: at its next pull it looks at numbers only."""
    a, b = host("a"), host("b")
    a.take(chat().turns(3))
    a.member.push()
    b.member.pull(30)
    b.take(Chat(b.thread()).user("at b").says("yes"))
    asked: list[str] = []
    real = psycopg.Connection.execute

    def noting(self: Any, query: Any, *args: Any, **more: Any) -> Any:
        asked.append(str(query))
        return real(self, query, *args, **more)

    b.member.push()
    monkeypatch.setattr(psycopg.Connection, "execute", noting)
    b.member.pull(30)

    assert any("lcm.messages" in each for each in asked)
    assert not any("envelope" in each for each in asked)
