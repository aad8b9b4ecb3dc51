"""A stolen role of the realm itself: what hosts take from it, and whom it can stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from worlds.fleet import Fleet, Host, Process, eventually
from worlds.process import chat

from hermes_lcm import command
from hermes_lcm.command import FOUND, OK
from hermes_lcm.config import Secret
from hermes_lcm.fleet.forget import obey
from hermes_lcm.records import Flag
from hermes_lcm.search.scope import Rights

Hosts = Callable[..., Host]
REFUSED = (psycopg.errors.InsufficientPrivilege,)
SECRET = "the code of the safe is 4711"
CHAT = "telegram:dm:7"


@pytest.fixture
def victim(host: Hosts) -> Host:
    """Who sits at the terminal, with summaries; and a chat of the thief's."""
    a = host("victim", script=None)
    a.session("desk", principal="local")
    a.compact(chat().user(SECRET).turns(24), "desk")
    a.member.push()
    return a


@pytest.fixture
def thief(host: Hosts, victim: Host) -> Host:
    """A stolen role of a gateway of the same realm, which may read chats only; the thief's own chat is one of them."""
    b = host("gateway", patterns=("telegram:%",))
    b.session("chat", principal=CHAT)
    b.take(chat().user("mine").says("yours"), "chat")
    b.member.push()
    return b


def place(thief: Host) -> tuple[int, int]:
    """Conversation and owner of the thief's chat on the server."""
    found: tuple[int, int] = thief.sql("SELECT conversation, owner FROM lcm.conversations")[0]
    return found


def add(thief: Host, number: int, session: str = "chat", text: str = "forged") -> None:
    """A message of the thief's under a number of its choice."""
    thief.sql(
        "INSERT INTO lcm.messages SELECT conversation, owner, %s, %s, 90, 90, role, tool_name, answers, %s, tokens, chars, "
        "said_at, stored_at + 1, source, 0, NULL, envelope FROM lcm.messages LIMIT 1",
        number, session, text.encode()[:16].ljust(16),
    )  # fmt: skip
    thief.sql("UPDATE lcm.conversations SET fork_seq = fork_seq")


def said(host: Host, session: str) -> list[Any]:
    return [message["content"] for message in host.thread(session)]


def problems(host: Host) -> str:
    return " ".join(each.message for each in host.health.problems())


def test_a_conversation_keeps_its_owner_its_parent_and_who_wrote_it(fleet: Fleet, host: Hosts) -> None:
    """A stolen role that sees the whole realm moves nothing to somebody else; not even what nobody owns yet leaves the realm."""
    a, b = host("a"), host("b")
    for name, principal in (("desk", "local"), ("chat", CHAT), ("new", "session:new")):
        a.session(name, principal=principal)
        a.take(chat().user(f"said in {name}").says("ok"), name)
    a.member.push()
    theirs = b.sql("SELECT lcm.owner_of(%s)", CHAT)[0][0]
    outside = host("c", realm="").sql("SELECT lcm.owner_of('x')")[0][0]
    b.sql("INSERT INTO lcm.conversations(nonce, owner, created_at) SELECT 'own', lcm.owner_of('local'), 0")
    before = a.sql("SELECT nonce, owner, parent, writers FROM lcm.conversations ORDER BY 1")
    for change in (
        f"owner = {theirs}",
        f"owner = {outside}",
        "parent = 'own'",
        "changed = 0",
        "writers = '{}'",
        "nonce = 'x'",
        "created_at = 0",
    ):
        with pytest.raises(REFUSED):
            b.sql(f"UPDATE lcm.conversations SET {change}")

    assert a.sql("SELECT nonce, owner, parent, writers FROM lcm.conversations ORDER BY 1") == before
    assert a.member.verify().sound


def test_no_words_join_a_conversation_of_somebody_else(fleet: Fleet, victim: Host, thief: Host, host: Hosts) -> None:
    """By the id of its session, which is no secret: the terminal's conversation stays what it was, and the host says so."""
    before = said(victim, "desk")
    thief.sql("INSERT INTO lcm.sessions SELECT conversation, owner, 'desk', NULL, origin, platform, host_key, mode, model, "
              "started_at, NULL, NULL, 0 FROM lcm.sessions")  # fmt: skip
    add(thief, 10**8 * 50 + 1, "desk")
    with psycopg.connect(fleet.admin, autocommit=True) as admin:  # as if it had begun before: it is fetched first
        admin.execute("UPDATE lcm.conversations SET created_at = 0 WHERE conversation = %s", (place(thief)[0],))
    fresh = host("fresh")
    for each in (victim, fresh):
        each.member.pull(30)

        assert said(each, "desk") == before
        assert each.session("desk").principal == "local"
        assert "cannot be taken" in problems(each)


def test_no_archive_joins_a_conversation_of_somebody_else(victim: Host, thief: Host) -> None:
    """Nor does one of a chat's own hold messages of others."""
    numbers = [row[0] for row in victim.sql("SELECT id FROM lcm.messages WHERE session_id = 'desk' LIMIT 2")]
    for handle, session in (("one", "desk"), ("two", "chat")):
        thief.sql(
            "INSERT INTO lcm.archives SELECT conversation, owner, %s, %s, %s, 0, 1, 2, 'forged', 1, 'forged', 1, 1, 'archived', "
            "1, 1 FROM lcm.conversations", handle, session, numbers,
        )  # fmt: skip
    thief.sql("UPDATE lcm.conversations SET fork_seq = fork_seq")
    victim.member.pull(30)

    assert victim.db.query("SELECT handle FROM archives") == []


def test_nothing_of_others_is_carried_or_inherited_into_a_chat(victim: Host, thief: Host, host: Hosts) -> None:
    """Numbers of summaries can be guessed: a chat that names them shows nothing of them, on any host."""
    conversation, owner = place(thief)
    for number in [row[0] for row in victim.sql("SELECT id FROM lcm.nodes")]:
        thief.sql("INSERT INTO lcm.carried VALUES (%s, %s, %s)", conversation, owner, number)
    nonce = victim.session("desk").nonce
    with pytest.raises(REFUSED):
        thief.sql("INSERT INTO lcm.conversations(nonce, owner, parent, fork_seq, created_at) VALUES ('b', %s, %s, 99, 9e9)",
                  owner, nonce)  # fmt: skip
    thief.sql("UPDATE lcm.conversations SET fork_seq = fork_seq")
    fresh = host("fresh")
    for each in (victim, fresh):
        each.member.pull(30)
        mine = each.sessions.find("chat")
        assert mine is not None
        assert each.sessions.carried(mine.conversation_id) == []
        assert SECRET not in said(each, "chat")


@pytest.mark.few(2)
@pytest.mark.parametrize("number", [2**63 - 1, 10**8 * 10**6 + 1, 10**8 * 50 + 1])
def test_a_number_that_the_server_never_gave_stops_nothing(victim: Host, thief: Host, number: int) -> None:
    """SQLite counts on from the greatest number: nothing more would be stored, or nothing more pushed."""
    add(thief, number)
    victim.member.pull(30)
    victim.take(chat().user("and now").says("goes on"), "later")

    assert victim.member.push().messages == 2
    assert victim.member.verify().missing == []
    assert ("cannot be taken" in problems(victim)) == (number > 10**14)


GARBAGE = """
INSERT INTO lcm.messages SELECT conversation, owner, 5000000001, 'nowhere', 9, 9, role, tool_name, answers, digest, tokens, chars, said_at, stored_at, source, 0, NULL, envelope FROM lcm.messages LIMIT 1
INSERT INTO lcm.messages SELECT conversation, owner, 5000000001, session_id, 9, 9, role, tool_name, answers, digest, tokens, chars, said_at, stored_at, source, 0, NULL, '\\xdeadbeef' FROM lcm.messages LIMIT 1
INSERT INTO lcm.messages SELECT conversation, owner, 5000000001, session_id, 9, 'NaN', 'nobody', tool_name, answers, '', -1, -1, 'Infinity', 'NaN', source, -1, 7, '' FROM lcm.messages LIMIT 1
INSERT INTO lcm.messages SELECT conversation, owner, -1, session_id, 9223372036854775807, 9, role, tool_name, answers, digest, tokens, chars, said_at, stored_at, source, 0, NULL, envelope FROM lcm.messages LIMIT 1
INSERT INTO lcm.assemblies SELECT conversation, owner, 5000000001, 'chat', '{1,NULL}', '{NULL}', 1, 1, 1, 'x' FROM lcm.conversations
INSERT INTO lcm.nodes SELECT conversation, owner, 5000000001, -3, 'odd', '', '', -1, 1, 'x', '', '', 'no json', 'NaN', 5000000001, '{5000000001,NULL}' FROM lcm.conversations
INSERT INTO lcm.archives SELECT conversation, owner, 'h', 'chat', '{1,NULL}', -1, -2, 0, '', 7, '', 1, 1, 'archived', 'NaN', 0 FROM lcm.conversations
INSERT INTO lcm.sessions SELECT conversation, owner, '', 'x', 'odd', 'p', 'k', 'm', 'm', 'NaN', 'NaN', NULL, -5 FROM lcm.conversations
UPDATE lcm.conversations SET inherits = 'no json'
UPDATE lcm.conversations SET inherits = '{"cuts": [["x", 1, 2], 3], "full": 7}'
UPDATE lcm.conversations SET inherits = '{"cuts": [["x", 1, 2]], "without": ["a"]}'
UPDATE lcm.conversations SET fork_seq = -9223372036854775808
UPDATE lcm.sessions SET compactions = 2147483647, platform = 'cli', host_key = 'agent:main:telegram:dm:1', ended_at = 'NaN'
""".strip().splitlines()  # noqa: E501


@pytest.mark.few(1)
@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_rows_that_no_host_writes_hold_nothing_else_back(victim: Host, thief: Host, host: Hosts, garbage: str) -> None:
    """What another host pushes comes all the same, and this one goes on storing and pushing."""
    thief.sql(garbage)
    thief.sql("UPDATE lcm.conversations SET fork_seq = fork_seq")
    other = host("other")
    other.take(chat().user("from elsewhere").says("ok"), "far")
    other.member.push()
    for each in (victim, host("fresh")):
        for _ in range(2):
            each.member.pull(30)
        each.take(chat().user("and now").says("goes on"), f"later-{id(each)}")
        assert each.member.push().messages >= 2
        assert "from elsewhere" in said(each, "far")
        assert each.member.verify().missing == []


def test_a_conversation_that_the_server_refuses_holds_back_no_other(victim: Host, host: Hosts) -> None:
    """Somebody had taken its name there: all else is pushed, the host says so, and its rows wait."""
    a = host("a")
    a.session("one", principal="local")
    a.session("two", principal="local")
    nonce = a.session("one").nonce
    outsider = host("outsider", realm="other")
    owner = outsider.sql("SELECT lcm.owner_of('x')")[0][0]
    outsider.sql("INSERT INTO lcm.conversations(nonce, owner, created_at) VALUES (%s, %s, 0)", nonce, owner)
    for name in ("one", "two"):
        a.take(chat().turns(3), name)
    pushed = a.member.push()
    again = a.member.push()

    assert (pushed.messages, again.messages) == (6, 0)
    assert a.member.outbox.rows_behind() >= 6
    assert a.sql("SELECT DISTINCT session_id FROM lcm.messages m WHERE session_id <> 'desk'") == [("two",)]
    assert nonce in problems(a)


def test_a_conversation_that_is_somebody_elses_on_the_server_is_told(fleet: Fleet, victim: Host, host: Hosts) -> None:
    """As an earlier schema let a stolen role move it: hosts that have it keep it and say so; the operator moves it back."""
    b = host("b")
    b.member.pull(30)
    before = said(victim, "desk"), said(b, "desk")
    owner = b.sql("SELECT lcm.owner_of(%s)", CHAT)[0][0]
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        was = admin.execute("SELECT owner FROM lcm.conversations").fetchone()
        admin.execute("UPDATE lcm.conversations SET owner = %s", (owner,))
        victim.take(victim.thread("desk") + chat().user("more").says("yes"), "desk")
        pushed, found = victim.member.push(), victim.member.verify()
        victim.take(chat().user("on").says("yes"), "desk2")
        victim.member.push()
        b.member.pull(30)
        assert (said(victim, "desk")[:-2], said(b, "desk")) == before
        assert b.session("desk").principal == "local"
        assert (len(pushed.refused), found.sound) == (1, False)
        assert f"{CHAT}'s there and local's here" in found.different[-1]
        assert "as somebody else's" in problems(victim)
        admin.execute("UPDATE lcm.conversations SET owner = %s WHERE owner = %s", (*was, owner))
    assert victim.member.push().messages == 2
    assert victim.member.verify().sound
    assert "as somebody else's" not in problems(victim)


def operate(fleet: Fleet, host: Host, words: str) -> command.Answer:
    """What an operator types at the terminal of a host that may purge."""
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        admin.execute(f"GRANT lcm_purger TO {host.sql('SELECT session_user')[0][0]}")
    access = host.runtime.access(None, Rights(), trusted=True)
    return command.answer(words, replace(access, config=replace(access.config, fleet_dsn=Secret(host.dsn))))


def test_a_purge_of_what_a_thief_said_takes_nothing_else_under_that_number(
    fleet: Fleet, victim: Host, thief: Host
) -> None:
    """Numbers can be guessed: the message that was chosen goes, neither another one that has its number, nor one that gets it."""
    number, coming = victim.sql("SELECT min(id), max(id) + 2 FROM lcm.messages WHERE session_id = 'desk'")[0]
    for each in (number, coming):
        add(thief, each, text=f"forged {each}")
    purged = operate(fleet, victim, f"purge principal {CHAT} apply")
    with victim.db.transaction():  # as a host that pushed meanwhile, before it saw the other one's row
        victim.db.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'messages'", (coming - 2,))
    victim.take(chat().user("one").says("two").user("three"), "more")
    assert coming in victim.store.heads_of([coming])
    victim.member.push()
    victim.member.pull(30)
    obey(victim.member, victim.runtime.access(None, Rights(), trusted=True))

    assert purged.code == OK, purged.text
    assert thief.sql("SELECT count(*) FROM lcm.messages WHERE flags & %s = 0", Flag.PURGED) == [(0,)]
    assert said(victim, "more") == ["one", "two", "three"]
    assert SECRET in said(victim, "desk")
    assert victim.sql(
        "SELECT DISTINCT flags & %s FROM lcm.messages WHERE owner <> %s", Flag.PURGED, place(thief)[1]
    ) == [(0,)]


def test_a_thief_keeps_nothing_of_others_from_being_purged(fleet: Fleet, victim: Host, thief: Host) -> None:
    """It gives its own messages the same numbers and pins them: what was chosen goes, here and on the server."""
    for (number,) in victim.sql("SELECT id FROM lcm.messages WHERE session_id = 'desk' ORDER BY id LIMIT 3"):
        add(thief, number, text=f"forged {number}")
    thief.sql(
        "INSERT INTO lcm.holds(conversation, owner, session_id, id) SELECT conversation, owner, session_id, id FROM lcm.messages"
    )
    purged = operate(fleet, victim, f"purge matching '{SECRET}' apply")

    assert purged.code == OK, purged.text
    assert SECRET not in said(victim, "desk")
    assert victim.sql(
        "SELECT count(*) FROM lcm.messages WHERE session_id = 'desk' AND flags & %s <> 0", Flag.PURGED
    ) == [(1,)]
    assert thief.sql("SELECT count(*) FROM lcm.messages WHERE flags & %s <> 0", Flag.PURGED) == [(0,)]


@pytest.mark.few(1)
@pytest.mark.parametrize("garbage", ["\\xdeadbeef", "\\xff", "\\xff7b7d", "\\x003762"])
def test_rows_that_nobody_can_read_keep_no_purge_from_its_end(
    fleet: Fleet, victim: Host, thief: Host, garbage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate counts them; they can be purged themselves, and none hides another row of its number."""
    monkeypatch.setattr("hermes_lcm.fleet.forget._PAGE", 1)
    number = victim.sql("SELECT min(id) FROM lcm.messages WHERE session_id = 'desk'")[0][0]
    add(thief, number)
    thief.sql("UPDATE lcm.messages SET envelope = %s::bytea WHERE id = %s", garbage, number)
    count = fleet.count("messages")
    purged = operate(fleet, victim, f"purge matching '{SECRET}' apply")
    table = purged.data["certificate"]["fleet"]["tables"][0]
    other = operate(fleet, victim, f"purge principal {CHAT} apply")

    assert purged.code == FOUND, purged.text
    assert other.code in (OK, FOUND), other.text
    assert (table["rows"], table["rows_not_readable"]) == (count, 1)
    assert "1 row not readable" in purged.text
    assert thief.sql("SELECT count(*) FROM lcm.messages WHERE flags & %s = 0", Flag.PURGED) == [(0,)]


def test_a_purge_of_what_a_thief_said_empties_no_summary_of_others(fleet: Fleet, victim: Host, thief: Host) -> None:
    """It guessed the numbers of theirs, and gave them to messages and summaries of its own."""
    theirs = "SELECT n::text FROM lcm.{} n WHERE owner <> " + str(place(thief)[1]) + " ORDER BY 1"
    number = victim.sql("SELECT min(id) FROM lcm.messages WHERE session_id = 'desk'")[0][0]
    victim.sql(
        "INSERT INTO lcm.archives SELECT conversation, owner, 'h', 'desk', ARRAY[%s::bigint], 0, 1, 2, 'of it', 1, "
        "'of it', 1, 1, 'archived', 1, 1 FROM lcm.conversations WHERE nonce = %s", number, victim.session("desk").nonce,
    )  # fmt: skip
    add(thief, number)
    for (node,) in victim.sql("SELECT id FROM lcm.nodes"):
        thief.sql(
            "INSERT INTO lcm.nodes SELECT conversation, owner, %s, 0, 'verified', 'forged', '', 1, 1, 'x', '', '', '{}', 1, "
            "NULL, ARRAY[id] FROM lcm.messages LIMIT 1", node,
        )  # fmt: skip
    before = [victim.sql(theirs.format(table)) for table in ("nodes", "archives", "messages")]
    purged = operate(fleet, victim, f"purge principal {CHAT} apply")

    assert purged.code == OK, purged.text
    assert [victim.sql(theirs.format(table)) for table in ("nodes", "archives", "messages")] == before
    assert thief.sql("SELECT DISTINCT text FROM lcm.nodes") == [("[redacted:purged]",)]


def test_a_host_that_obeys_empties_no_summary_of_its_own_for_a_number_of_a_thief(
    fleet: Fleet, victim: Host, thief: Host, host: Hosts
) -> None:
    """The thief's message was purged; under its number the host had stored one of its own meanwhile, and summarised it."""
    coming = victim.sql("SELECT max(id) + 2 FROM lcm.messages WHERE session_id = 'desk'")[0][0]
    add(thief, coming)
    other = host("other")
    other.member.pull(30)
    for words in (f"principal {CHAT}", f"matching '{SECRET}'"):
        assert operate(fleet, other, f"purge {words} apply").code == OK
    with victim.db.transaction():
        victim.db.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'messages'", (coming - 2,))
    victim.compact(chat().turns(24, first=900), "more")
    victim.member.push()
    sql = (
        "SELECT n.id, n.text FROM lcm.nodes n JOIN lcm.sessions USING(conversation) WHERE session_id = 'more' "
        "ORDER BY %s::bigint = ANY(n.sources) DESC, 1"
    )
    before = victim.sql(sql, coming)
    done = obey(victim.member, victim.runtime.access(None, Rights(), trusted=True))
    victim.member.push()

    assert done == 1
    assert before
    assert victim.sql(sql, coming) == before


STOPS = """
INSERT INTO lcm.conversations(conversation, nonce, owner, created_at) OVERRIDING SYSTEM VALUE SELECT n, 'n' || n, lcm.owner_of('x'), 0 FROM generate_series((SELECT max(conversation) FROM lcm.conversations) + 1, (SELECT max(conversation) FROM lcm.conversations) + 50) n
LOCK TABLE lcm.leases IN ACCESS EXCLUSIVE MODE
LOCK TABLE lcm.holds IN ACCESS EXCLUSIVE MODE
LOCK TABLE lcm.holds IN SHARE MODE
LOCK TABLE lcm.backups IN ACCESS EXCLUSIVE MODE
LOCK TABLE lcm.messages IN ACCESS EXCLUSIVE MODE
LOCK TABLE lcm.conversations IN SHARE MODE
LOCK TABLE lcm.meta IN ACCESS EXCLUSIVE MODE
LOCK TABLE lcm.holds, lcm.messages, lcm.purges IN ROW EXCLUSIVE MODE
SELECT pg_advisory_xact_lock(generate_series(0, 300)), pg_advisory_xact_lock(7105389)
UPDATE lcm.conversations SET fork_seq = fork_seq
INSERT INTO lcm.holds(conversation, owner, session_id, id) SELECT conversation, owner, 'x', 0 FROM lcm.conversations
INSERT INTO lcm.leases(conversation, owner, until) SELECT conversation, owner, 'infinity' FROM lcm.conversations
SELECT * FROM lcm.conversations, lcm.messages FOR UPDATE
SELECT lcm.new_block('x'), lcm.owner_of('y'), lcm.seen(1)
SELECT nextval('lcm.conversations_conversation_seq')
SELECT count(lcm.new_block('x')) FROM generate_series(1, 20000)
SELECT setval('lcm.blocks_block_seq', 9223372036854775807)
SELECT pg_current_xact_id(), lo_create(0)
CREATE TEMP TABLE messages(x int); CREATE TEMP TABLE grants(x int); SET LOCAL search_path = pg_temp
SELECT pg_notify('lcm', 'x')
""".strip().splitlines()  # noqa: E501
PURGE = """
SELECT p.messages FROM (SELECT conversation, id FROM lcm.messages ORDER BY id DESC LIMIT 1) m,
  lcm.purge(ARRAY[m.conversation], ARRAY[m.id], ARRAY['x']::bytea[]) p
"""


@pytest.mark.few(2)
@pytest.mark.parametrize("statement", STOPS, ids=range(len(STOPS)))
def test_a_role_of_another_realm_stops_nobody(
    fleet: Fleet, victim: Host, host: Hosts, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it locks, takes or leaves open: others push, pull, claim, pin and purge."""
    monkeypatch.setattr("hermes_lcm.fleet.member._LEASE_WAIT_S", 20.0)
    outsider, other = host("outsider", realm="other"), host("other")
    outsider.take(chat().turns(2), "own")
    outsider.member.push()
    outsider.sql("SELECT lcm.owner_of('x')")
    role = victim.sql("SELECT session_user")[0][0]
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        admin.execute(f"GRANT lcm_purger TO {role}")
    with psycopg.connect(outsider.dsn) as stolen:
        try:
            stolen.execute(statement)
        except psycopg.Error:
            stolen.rollback()
        else:
            if "OVERRIDING" in statement:
                stolen.commit()
        victim.take(chat().user("go on").says("yes"), "more")
        pushed = victim.member.push().messages
        pulled = other.member.pull(30).messages
        claimed = victim.member.lease(1, 600)
        victim.member.release(1)
        with psycopg.connect(victim.dsn, options="-c lock_timeout=5s") as purging:
            purged = purging.execute(PURGE).fetchall()
        other.take(chat().user("from another host").says("ok"), "far")
        other.member.push()
        victim.member.pull(30)

    assert (pushed, purged) == (2, [(1,)])
    assert pulled > 40
    assert claimed
    assert "from another host" in said(victim, "far")
    assert victim.member.verify().missing == []


@pytest.mark.slow
def test_no_turn_waits_for_a_lock_of_a_stolen_role_of_the_realm(fleet: Fleet, tmp_path: Path) -> None:
    """It locks all rows that it sees: turns go on, the status says what waits, and all arrives once it is shut out."""
    process, thief = Process(tmp_path / "p", fleet.role("p")), fleet.role("t")
    assert process.runtime.fleet is not None
    process.take(chat().turns(1))
    eventually(lambda: fleet.count("messages") == 2 and process.behind() == 0)
    with psycopg.connect(thief) as stolen:
        stolen.execute("UPDATE lcm.conversations SET fork_seq = fork_seq")
        stolen.execute("SELECT FROM lcm.messages, lcm.sessions FOR UPDATE")
        began = time.monotonic()
        process.take(chat().turns(3))
        took = time.monotonic() - began
        eventually(lambda: "keeps a lock" in str(process.runtime.fleet.state()["error"]), 60)
        assert fleet.count("messages") == 2
    eventually(lambda: process.behind() == 0, 60)

    assert took < 4, "the server's limit is five seconds"
    assert fleet.count("messages") == 6
    process.end()
