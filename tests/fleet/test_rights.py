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
    a.compact(chat().user("the code of the safe is 4711").turns(24))
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
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        thief.sql("DELETE FROM lcm.leases")
    thief.sql("SELECT lcm.release(%s)", victim.session().nonce)

    assert victim.sql("SELECT sum(flags), count(*) FROM lcm.messages") == before
    assert victim.sql("SELECT count(*) FROM lcm.leases") == [(1,)]


def test_a_search_of_a_stolen_role_finds_only_its_own(victim: Host, thief: Host) -> None:
    """The function reads past the policies, for the index's sake; it asks them itself."""
    sql = "SELECT id FROM lcm.search(%s, %s, 100)"
    found = {whose: thief.sql(sql, ["4711", "safe"], whose) for whose in (None, "session:s", "session:t")}

    assert set(map(tuple, found.values())) == {()}
    assert len(thief.sql(sql, ["mine"], "session:t")) == 1
    assert len(victim.sql(sql, ["4711", "safe"], "session:s")) == 1


def test_init_gives_a_stolen_role_back_to_its_host(fleet: Fleet, victim: Host) -> None:
    """A password and settings of a thief's go, and the thief is no longer connected."""
    role, database = victim.sql("SELECT session_user, current_database()")[0]
    with psycopg.connect(victim.dsn, autocommit=True) as stolen:
        stolen.execute(f"ALTER ROLE {role} PASSWORD 'mine'")
        stolen.execute(f"ALTER ROLE {role} SET default_transaction_read_only = on")
        stolen.execute(f"ALTER ROLE {role} IN DATABASE {database} SET row_security = off")
        victim.to(fleet.role("victim", realm="family"))
        with pytest.raises(psycopg.OperationalError):
            stolen.execute("SELECT 1")
    victim.take(chat().user("all is well"), "later")

    assert victim.member.push().messages == 1


def test_knowing_a_conversations_name_opens_nothing(victim: Host, thief: Host) -> None:
    """A role that says it has the conversation is refused, and its own file stays as it is."""
    nonce = victim.session().nonce
    thief.db.query("SELECT 1")
    with thief.db.transaction():
        thief.db.execute("UPDATE conversations SET nonce = ?", (nonce,))
    thief.take(chat().user("mine").says("yours").user("more"), "t")

    assert thief.member.push().refused.keys() == {nonce}
    assert thief.member.pull(30).messages == 0
    assert thief.member.outbox.rows_behind() > 0
    assert victim.member.verify().sound


def test_no_refusal_tells_whether_others_have_it(victim: Host, thief: Host) -> None:
    """A number, a session's id, a lease: the same words for what is there and what is not."""
    mine = thief.sql("SELECT owner FROM lcm.principals")[0][0]
    conversation, number = victim.sql("SELECT conversation, max(id) FROM lcm.messages GROUP BY 1")[0]
    node, prompt = victim.sql("SELECT (SELECT max(id) FROM lcm.nodes), (SELECT max(id) FROM lcm.assemblies)")[0]
    statements = {
        "INSERT INTO lcm.messages SELECT %s, %s, %s, 's', 1, 1, '', '', '', '', 1, 1, 0, 0, '', 0": (number, 1),
        "INSERT INTO lcm.nodes SELECT %s, %s, %s, 0, '', '', '', 1, 1, '', '', '', '', 0, 1, '{}'": (node, 1),
        "INSERT INTO lcm.assemblies SELECT %s, %s, %s, '', '{}', '{}', 1, 1, 1": (prompt, 1),
        "INSERT INTO lcm.sessions SELECT %s, %s, %s, '', '', '', '', '', '', 0, NULL, NULL, 0": ("s", "none"),
        "INSERT INTO lcm.leases SELECT %s + (%s - %s) * 0, {0}, session_user, now()": (1, 1),
    }
    told: dict[str, set[str]] = {}
    for statement, keys in statements.items():
        for tail in ("", " ON CONFLICT DO NOTHING"):
            for key, where in zip(keys, (conversation, conversation + 99), strict=True):
                with pytest.raises(psycopg.Error) as refused:
                    thief.sql(statement.replace("{0}", str(mine)) + tail, where, mine, key)
                told.setdefault(statement + tail, set()).add(str(refused.value))

    assert {statement: len(texts) for statement, texts in told.items()} == dict.fromkeys(told, 1)
    assert "row-level security" in "".join(map(str, told.values()))


def test_no_estimate_tells_what_others_say(fleet: Fleet, host: Hosts) -> None:
    """EXPLAIN answers every role by statistics of all rows: there are none of words, texts, digests, times and names."""
    a, b = host("a", realm="family"), host("b", realm="other")
    for n in range(20):
        a.take(chat().user("quartz is the secret").says("noted").user("quartz again"), f"s{n}")
    a.take(chat().turns(24), "common")
    for each in (a, b.take(chat().turns(3)) and b):
        each.member.push()
    digest = a.sql("SELECT digest FROM lcm.messages WHERE words @@ 'quartz' LIMIT 1")[0][0]
    pairs = (("words @@ %s::tsquery", "quartz", "absent"), ("digest = %s", digest, b"absent"),
             ("session_id = %s", "common", "absent"), ("stored_at < %s", 1e12, 0.0), ("role = %s", "user", "absent"))  # fmt: skip
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        admin.execute("ANALYZE")
        owners = admin.execute(
            "SELECT count(*) FROM pg_stats WHERE schemaname = 'lcm' AND attname = 'owner'"
        ).fetchone()
    with psycopg.connect(b.dsn, cursor_factory=psycopg.ClientCursor) as thief:
        said = {
            where: [thief.execute(f"EXPLAIN (FORMAT JSON) SELECT FROM lcm.messages WHERE {where}", (value,)).fetchall()[0][0]
                    for value in values]
            for where, *values in pairs
        }  # fmt: skip
    rows = {where: [plan[0]["Plan"]["Plan Rows"] for plan in plans] for where, plans in said.items()}

    assert owners is not None
    assert owners[0] > 0
    assert {where: len({*each}) for where, each in rows.items()} == dict.fromkeys(rows, 1), rows


def test_a_known_principal_uses_up_no_number(fleet: Fleet, host: Hosts) -> None:
    """Their numbers end at two thousand million: a role that asks on and on must not use them up for everybody."""
    a = host("a")
    first = a.sql("SELECT lcm.owner_of('anna')")
    for _ in range(20):
        assert a.sql("SELECT lcm.owner_of('anna')") == first

    assert a.sql("SELECT lcm.owner_of('ben')")[0][0] == first[0][0] + 1


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
