"""P8 on the shared server: a role reads and writes what its principals own, whatever SQL it sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from worlds.fleet import Fleet, Host
from worlds.process import chat

Hosts = Callable[..., Host]
TABLES = ("conversations", "sessions", "messages", "nodes", "assemblies", "carried", "archives", "leases", "principals")
REFUSED = (psycopg.errors.InsufficientPrivilege, psycopg.errors.UniqueViolation, psycopg.errors.ForeignKeyViolation)


@pytest.fixture
def victim(host: Hosts) -> Host:
    """A host whose rows nobody else may see."""
    a = host("victim", realm="family")
    a.compact(chat().user("the code of the safe is 4711").turns(60))
    a.member.push()
    a.member.lease(1, 600)
    return a


@pytest.fixture
def thief(host: Hosts, victim: Host) -> Host:
    """A role of another realm, in wrong hands."""
    b = host("thief", realm="other")
    b.take(chat().user("mine").says("yours"), "t")
    b.member.push()
    return b


#: Owner and conversation of the victim are 1.
STATEMENTS = """
SELECT * FROM lcm.messages_0
SELECT * FROM lcm.grants
SELECT * FROM pg_authid
SET ROLE postgres
SET SESSION AUTHORIZATION postgres
CREATE ROLE another
GRANT lcm_member TO postgres
DELETE FROM lcm.messages
TRUNCATE lcm.messages
DROP TABLE lcm.messages
ALTER TABLE lcm.messages DISABLE ROW LEVEL SECURITY
INSERT INTO lcm.grants VALUES (session_user, 'family', 'local')
INSERT INTO lcm.principals(realm, name) VALUES ('family', 'local')
INSERT INTO lcm.conversations(nonce, owner, created_at) VALUES ('x', 1, 0)
INSERT INTO lcm.carried VALUES (1, 1, 1)
INSERT INTO lcm.carried SELECT 1, owner, 1 FROM lcm.principals
UPDATE lcm.hosts SET realm = 'family'
UPDATE lcm.meta SET value = '0'
UPDATE lcm.messages SET digest = ''
UPDATE lcm.messages SET conversation = 1
UPDATE lcm.conversations SET owner = 1
CREATE FUNCTION lcm.f() RETURNS int LANGUAGE sql AS 'SELECT 1'
COPY (SELECT 1) TO PROGRAM 'true'
""".strip().splitlines()


def test_a_stolen_role_reads_only_its_own(victim: Host, thief: Host) -> None:
    """Every table, every row: what it sees is what it pushed."""
    mine = {row[0] for row in thief.sql("SELECT owner FROM lcm.principals")}
    seen = {table: {row[0] for row in thief.sql(f"SELECT owner FROM lcm.{table}")} for table in TABLES}
    there = {table: {row[0] for row in victim.sql(f"SELECT owner FROM lcm.{table}")} for table in TABLES}

    assert len(mine) == 1
    assert all(owners <= mine for owners in seen.values())
    assert all(seen[table] == mine for table in ("conversations", "sessions", "messages"))
    assert all(
        there[table] == {1} for table in ("conversations", "sessions", "messages", "nodes", "assemblies", "leases")
    )


def test_a_stolen_role_changes_nothing_of_others(victim: Host, thief: Host) -> None:
    """Rights, policies and foreign keys refuse it; the victim's rows are as they were."""
    for statement in STATEMENTS:
        with pytest.raises(REFUSED):
            thief.sql(statement)

    assert victim.member.verify().sound
    assert victim.sql("SELECT array_agg(DISTINCT owner) FROM lcm.messages") == [([1],)]


def test_statements_without_a_where_touch_only_ones_own(victim: Host, thief: Host) -> None:
    """What the role may change it changes in its own rows."""
    before = victim.sql("SELECT sum(flags), count(*) FROM lcm.messages")
    thief.sql("UPDATE lcm.messages SET flags = 1, envelope = ''")
    thief.sql("DELETE FROM lcm.leases")

    assert victim.sql("SELECT sum(flags), count(*) FROM lcm.messages") == before
    assert victim.sql("SELECT count(*) FROM lcm.leases") == [(1,)]


def test_a_search_of_a_stolen_role_finds_only_its_own(victim: Host, thief: Host) -> None:
    """The function reads past the policies, for the index's sake; it asks them itself."""
    sql = "SELECT id FROM lcm.search(%s, %s, 100)"
    found = {whose: thief.sql(sql, ["4711", "safe"], whose) for whose in (None, "session:s", "session:t")}

    assert set(map(tuple, found.values())) == {()}
    assert len(thief.sql(sql, ["mine"], "session:t")) == 1
    assert len(victim.sql(sql, ["4711", "safe"], "session:s")) == 1


def test_knowing_a_conversations_name_opens_nothing(victim: Host, thief: Host) -> None:
    """A role that says it has the conversation is refused, and its own file stays as it is."""
    nonce = victim.session().nonce
    thief.db.query("SELECT 1")
    with thief.db.transaction():
        thief.db.execute("UPDATE conversations SET nonce = ?", (nonce,))
    thief.take(chat().user("mine").says("yours").user("more"), "t")
    with pytest.raises(Exception, match="refuses"):
        thief.member.push()

    assert thief.member.pull(30).messages == 0
    assert thief.member.rows_behind() > 0
    assert victim.member.verify().sound


def test_a_realm_is_shared_by_patterns(fleet: Fleet, host: Hosts) -> None:
    """A gateway that was given ``telegram:*`` reads the chats, and not who sits at the terminal; what else it has is its own."""
    a = host("a", realm="team")
    b = host("b", realm="team", patterns=("telegram:%",))
    a.session("chat", principal="telegram:dm:1")
    a.session("desk", principal="local")
    a.take(chat().user("in the chat").says("ok"), "chat")
    a.take(chat().user("at the desk").says("ok"), "desk")
    b.session("job", principal="local")
    b.take(chat().user("a job of b").says("ok"), "job")
    for each in (a, b):
        each.member.push()
        each.member.pull(30)

    def said(one: Host) -> set[Any]:
        return {message["content"] for message in one.stored()}

    assert said(b) == {"in the chat", "a job of b", "ok"}
    assert said(a) == {"in the chat", "at the desk", "ok"}


def test_a_host_without_a_realm_shares_with_nobody(host: Hosts) -> None:
    """Unknown means nobody."""
    a, b = host("a", realm=""), host("b")
    for each in (a, b):
        each.take(chat().user("hello").says("ok"), f"s{id(each)}")
        each.member.push()

    assert a.member.pull(30).messages == b.member.pull(30).messages == 0


def test_members_of_a_team_read_what_the_team_was_given(fleet: Fleet, host: Hosts) -> None:
    """A team is a role of the server; who leaves it reads no more."""
    a, b = host("a", realm="family"), host("b", realm="")
    a.take(chat().user("for the team").says("ok"))
    a.member.push()
    role = b.sql("SELECT session_user")[0][0]
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE team_{fleet.tag} NOLOGIN")
        admin.execute(f"INSERT INTO lcm.grants VALUES ('team_{fleet.tag}', 'family', '%')")
        before = b.sql("SELECT count(*) FROM lcm.messages")
        admin.execute(f"GRANT team_{fleet.tag} TO {role}")
        inside = b.sql("SELECT count(*) FROM lcm.messages")
        admin.execute(f"REVOKE team_{fleet.tag} FROM {role}")

    assert (before, inside, b.sql("SELECT count(*) FROM lcm.messages")) == ([(0,)], [(2,)], [(0,)])


def test_a_conversation_that_is_claimed_changes_its_owner_with_all_its_rows(fleet: Fleet, host: Hosts) -> None:
    """First nobody's, then a person's."""
    a = host("a")
    session = a.session("s", principal="session:s")
    a.take(chat().turns(3))
    a.member.push()
    a.sessions.claim(session, "telegram:dm:1")
    a.member.push()

    sql = "SELECT DISTINCT p.name FROM lcm.messages m JOIN lcm.principals p USING(owner)"
    assert a.sql(sql) == [("telegram:dm:1",)]


def test_no_secret_stands_in_the_servers_log(fleet: Fleet, host: Hosts) -> None:
    """What was said is in no statement that the server writes down, and neither is a password."""
    a = host("a")
    a.take(chat().user("the code of the safe is zebra-4711").says("ok"))
    a.member.push()
    with pytest.raises(psycopg.Error):
        a.sql("SELECT nonsense")

    assert "zebra-4711" not in fleet.postgres.log()
    assert a.dsn.partition("@")[0].rpartition(":")[2] not in fleet.postgres.log()
