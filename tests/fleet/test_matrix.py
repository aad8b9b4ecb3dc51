"""The matrix of P8 through the fleet: every caller by every tool, on a host that shares with others; every role by raw SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from worlds.fleet import Fleet, Host
from worlds.gateway import CALLERS, DATA, Gateway, Matrix, asked, told
from worlds.postgres import Postgres
from worlds.process import chat
from worlds.recall import Model

from hermes_lcm.fleet import member
from hermes_lcm.ops.forget import purge
from hermes_lcm.search.scope import Rights

Hosts = Callable[..., Host]


# -- every tool ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Filled:
    """A fleet on whose server three people have every kind of data, and what tools are tried with."""

    fleet: Fleet
    addresses: dict[str, list[Any]]


@pytest.fixture(scope="module")
def filled(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    """Pushed by the host on which they spoke."""
    fleet = Fleet(postgres, tmp_path_factory.mktemp("fleet"))
    home = tmp_path_factory.mktemp("hermes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMES_HOME", str(home))
        patch.setenv("LCM_FLEET_DSN", fleet.role("first"))
        world = Matrix(home)
        world.runtime.fleet.stop()
        world.runtime.fleet.member.push()
        found = world.addresses()
        end(world)
    with psycopg.connect(fleet.admin) as admin:
        ids = [row[0] for row in admin.execute("SELECT id FROM lcm.messages ORDER BY id").fetchall()]
        nodes = [f"sum_{row[0]}" for row in admin.execute("SELECT id FROM lcm.nodes").fetchall()]
    messages = [*ids[:14], f"msg_{ids[-1]}", f"{ids[0]}..{ids[-1]}", f"msg_{ids[0]}..msg_{ids[-1]}"]
    files = [
        each for each in found["address"] if isinstance(each, str) and not each.startswith(("msg_", "sum_", "1.."))
    ]
    yield Filled(
        fleet,
        {
            **found,
            "address": [*messages, *nodes, *files],
            "addresses": [nodes, ids[:4]],
            "int": [0, 1, 2, ids[0], ids[-1]],
        },
    )
    fleet.close()


class There(Matrix):
    """Another host of that fleet, on which nobody of them ever spoke."""

    def __init__(self, home: Path, filled: Filled) -> None:
        Gateway.__init__(self, home)
        self.runtime.model = Model(*["No answer."] * 50_000)
        self._addresses = filled.addresses

    def addresses(self) -> dict[str, list[Any]]:
        return self._addresses


def end(world: Gateway) -> None:
    if world.runtime.fleet is not None:
        world.runtime.fleet.stop()
    world.runtime.preparer.stop()
    world.runtime.db.close()


@pytest.fixture(params=["pulled", "by search"])
def there(
    filled: Filled, hermes_home: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[There]:
    """With everything of the others in its own file, and with nothing but what searches bring."""
    role = "b" + request.node.name.encode().hex()[-30:]
    monkeypatch.setenv("LCM_FLEET_DSN", filled.fleet.role(role))
    monkeypatch.setenv("LCM_FLEET_PULL_DAYS", "30" if request.param == "pulled" else "0")
    made = There(hermes_home, filled)
    if request.param == "pulled":
        made.runtime.fleet.member.pull(30)
        assert made.runtime.store.count() > 10
    yield made
    end(made)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLERS)
def test_no_caller_gets_anything_of_others_from_the_fleet(
    there: There, name: str, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """By no tool, parameter, id, digest, handle, scope or word, though this host's role may read all of it."""
    agent = there.caller(name)
    cells = 0
    for tool, args in asked(there):
        said = str(agent.engine.handle_tool_call(tool, {"format": "json", **args}, messages=list(agent.live)))
        cells += len(DATA)
        assert told(said, args) == [], (tool, args)

    record_testsuite_property(f"cells of {name}", cells)
    assert cells > 1000


@pytest.mark.slow
def test_the_operator_gets_what_is_in_the_fleet(there: There) -> None:
    """The same questions at the terminal: it is there to be got."""
    agent = there.agent("s_operator", "cli").says("hello")
    found = {kind for tool, args in asked(there) for kind in told(agent.tool(tool, **args), args)}

    assert found >= {"message", "summary", "payload"}


# -- raw SQL -------------------------------------------------------------------------------------------------------
TABLES = (
    *("conversations", "sessions", "messages", "nodes", "assemblies", "carried", "archives", "leases", "principals"),
    *("holds", "purges", "hosts", "blocks", "grants", "backups", "meta"),
)
MARK = "quartzvictim"
#: {0}: a number, {1}: a nonce, {2}: an owner, {3}: a conversation, {4}: a block of the victim's.
ANY_TABLE = """
SELECT * FROM {t}
SELECT t::text FROM {t} t
SELECT row_to_json(t) FROM {t} t
SELECT count(*), min(t::text), max(t::text), string_agg(t::text, ' ') FROM {t} t
SELECT * FROM ONLY {t}
SELECT * FROM {t} FOR UPDATE
SELECT (SELECT string_agg(t::text, ' ') FROM {t} t)
SELECT * FROM {t} t WHERE pg_temp.leak(t::text)
TABLE {t}
COPY {t} TO STDOUT
COPY (SELECT * FROM {t}) TO STDOUT
COPY {t} TO '/tmp/stolen'
COPY {t} FROM STDIN
PREPARE p AS SELECT * FROM {t}; EXECUTE p; DEALLOCATE p
DECLARE c CURSOR WITH HOLD FOR SELECT * FROM {t}; FETCH ALL FROM c; CLOSE c
CREATE TEMP VIEW v AS SELECT * FROM {t}; TABLE v; DROP VIEW v
CREATE TEMP TABLE k AS SELECT * FROM {t}; TABLE k; DROP TABLE k
CREATE VIEW public.v AS SELECT * FROM {t}
SELECT * FROM query_to_xml('SELECT * FROM {t}', true, true, '')
SELECT * FROM table_to_xml('{t}', true, true, '')
SET row_security = off; SELECT * FROM {t}
SET ROLE lcm_member; SELECT * FROM {t}; RESET ROLE
EXPLAIN (VERBOSE) SELECT * FROM {t}
INSERT INTO {t} SELECT * FROM {t}
INSERT INTO {t} SELECT * FROM {t} ON CONFLICT DO NOTHING
DELETE FROM {t}
DELETE FROM {t} RETURNING *
TRUNCATE {t}
TRUNCATE {t} CASCADE
LOCK TABLE {t} IN ACCESS EXCLUSIVE MODE
DROP TABLE {t}
ALTER TABLE {t} DISABLE ROW LEVEL SECURITY
ALTER TABLE {t} OWNER TO CURRENT_USER
CREATE POLICY mine ON {t} USING (true)
DROP POLICY own ON {t}
CREATE TRIGGER t AFTER INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION pg_temp.caught()
CREATE RULE r AS ON SELECT TO {t} DO INSTEAD SELECT 1
GRANT ALL ON {t} TO PUBLIC
VACUUM {t}
ANALYZE {t}
MERGE INTO {t} USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE
MERGE INTO {t} t USING (SELECT * FROM {t}) s ON false WHEN NOT MATCHED THEN INSERT DEFAULT VALUES
SELECT * FROM {t} TABLESAMPLE SYSTEM (100)
SELECT * FROM {t} TABLESAMPLE BERNOULLI (100) REPEATABLE (1)
SELECT tableoid::regclass, ctid, xmin, xmax, t.* FROM {t} t
SELECT * FROM {t} WHERE ctid = '(0,1)'
SELECT * FROM {t} t WHERE t::text::int > 0
SELECT * FROM {t} t WHERE CASE WHEN t::text <> '' THEN 1 / 0 > 0 END
SELECT * FROM {t} t WHERE pg_temp.same(t::text, 'x')
SELECT * FROM {t} t WHERE t::text OPERATOR(pg_temp.=) 'x'
SELECT * FROM {t} t ORDER BY pg_temp.leak(t::text)
SELECT * FROM {t} t JOIN LATERAL pg_temp.leak(t::text) x ON true
INSERT INTO {t} SELECT * FROM {t} ON CONFLICT DO NOTHING RETURNING *
INSERT INTO {t} DEFAULT VALUES RETURNING *
INSERT INTO {t} OVERRIDING SYSTEM VALUE SELECT * FROM {t} RETURNING *
WITH gone AS (DELETE FROM {t} RETURNING *) SELECT * FROM gone
DECLARE c BINARY CURSOR WITH HOLD FOR SELECT * FROM {t} FOR UPDATE; FETCH ALL FROM c; CLOSE c
CREATE TEMP TABLE k(LIKE {t} INCLUDING ALL); INSERT INTO k SELECT * FROM {t}; TABLE k; DROP TABLE k
CREATE TEMP TABLE k() INHERITS ({t})
CREATE TEMP TABLE k PARTITION OF {t} FOR VALUES WITH (MODULUS 8, REMAINDER 0)
ALTER TABLE {t} DISABLE TRIGGER ALL
ALTER TABLE {t} SET (autovacuum_enabled = false)
CREATE INDEX ON {t} ((pg_temp.leak('x')))
CREATE STATISTICS pg_temp.s ON 1, 2 FROM {t}
CREATE PUBLICATION p FOR TABLE {t}
SECURITY LABEL ON TABLE {t} IS 'x'
CLUSTER {t}
REINDEX TABLE {t}
SELECT pg_relation_size('{t}'), pg_get_viewdef('{t}'::regclass), has_table_privilege('{t}', 'UPDATE')
SELECT pg_column_size(t.*), hashtext(t::text) FROM {t} t
SELECT cursor_to_xml('nothing', 1, true, true, '')
SELECT ts_stat('SELECT t::text::tsvector FROM {t} t')
""".strip().splitlines()
ONCE = """
SELECT * FROM lcm.messages_0
SELECT * FROM lcm.messages_7
SELECT * FROM pg_authid
SELECT * FROM pg_shadow
SELECT * FROM pg_statistic
SELECT * FROM pg_stats
SELECT * FROM pg_stats_ext
SELECT query FROM pg_stat_activity
SELECT * FROM pg_prepared_statements
SELECT * FROM pg_cursors
SELECT * FROM pg_hba_file_rules
SELECT pg_read_file('postgresql.conf')
SELECT pg_ls_dir('.')
SELECT lo_import('/etc/passwd')
SELECT * FROM lcm.principals WHERE realm = 'family'
SELECT * FROM lcm.search(ARRAY['{mark}', 'safe'], NULL, 1000)
SELECT * FROM lcm.search(ARRAY['{mark}', 'safe'], 'local', 1000)
SELECT * FROM lcm.held(ARRAY[{3}]::bigint[], ARRAY[{0}]::bigint[])
SELECT h.* FROM generate_series({3} - 5, {3} + 5) c, lcm.held(array_fill(c::bigint, ARRAY[251]), ARRAY(SELECT generate_series({0} - 50, {0} + 200))) h
SELECT h.* FROM generate_series({3} - 5, {3} + 5) c, lcm.above(array_fill(c::bigint, ARRAY[251]), ARRAY(SELECT generate_series({0} - 50, {0} + 200))) h
SELECT h.* FROM generate_series({3} - 5, {3} + 5) c, lcm.archived(array_fill(c::bigint, ARRAY[251]), ARRAY(SELECT generate_series({0} - 50, {0} + 200))) h
SELECT * FROM lcm.clear(ARRAY(SELECT generate_series(1::bigint, 200)))
SELECT * FROM lcm.clear(array_fill({3}::bigint, ARRAY[251]), ARRAY(SELECT generate_series({0} - 50, {0} + 200)), true)
SELECT * FROM lcm.purge(ARRAY[{3}]::bigint[], ARRAY[{0}]::bigint[], ARRAY['']::bytea[])
SELECT lcm.mark({4}, 1000000)
SELECT lcm.seen(5)
SELECT lcm.new_block('another')
SELECT lcm.mine()
SELECT lcm.owner_of('local')
SELECT nextval('lcm.principals_owner_seq')
SELECT setval('lcm.principals_owner_seq', 1)
SELECT setval('lcm.blocks_block_seq', 1)
SELECT * FROM lcm.blocks_block_seq
SELECT * FROM lcm.conversations_conversation_seq
INSERT INTO lcm.conversations(nonce, owner, created_at) VALUES ('{1}', {2}, 0)
INSERT INTO lcm.conversations(nonce, owner, created_at) VALUES ('other', {2}, 0)
INSERT INTO lcm.conversations(nonce, owner, created_at) SELECT '{1}', owner, 0 FROM lcm.principals ON CONFLICT(nonce) DO UPDATE SET owner = excluded.owner
INSERT INTO lcm.sessions SELECT {3}, {2}, 'x', NULL, '', '', '', '', '', 0, NULL, NULL, 0
INSERT INTO lcm.carried VALUES ({3}, {2}, 1)
INSERT INTO lcm.carried SELECT {3}, owner, 1 FROM lcm.principals
INSERT INTO lcm.leases(conversation, owner, until) SELECT {3}, owner, now() FROM lcm.principals
INSERT INTO lcm.leases(conversation, owner, until) SELECT {3}, owner, now() FROM lcm.principals ON CONFLICT(conversation) DO UPDATE SET role = session_user
INSERT INTO lcm.holds(conversation, owner, session_id, id) VALUES ({3}, {2}, 's', 0)
INSERT INTO lcm.holds(role, conversation, owner, session_id, id) VALUES ('postgres', {3}, {2}, 's', 0)
INSERT INTO lcm.purges(conversation, owner, ids, nodes) VALUES ({3}, {2}, '{{{0}}}', '{{}}')
INSERT INTO lcm.grants VALUES (session_user, 'family', '%')
INSERT INTO lcm.principals(realm, name) VALUES ('family', 'local')
UPDATE lcm.conversations SET owner = {2}
UPDATE lcm.messages SET flags = 8192 WHERE id = {0}
UPDATE lcm.messages SET flags = 1, envelope = '', words = NULL
UPDATE lcm.nodes SET text = ''
UPDATE lcm.hosts SET realm = 'family'
DELETE FROM lcm.leases
DELETE FROM lcm.holds
SET ROLE postgres
SET SESSION AUTHORIZATION postgres
SET ROLE lcm_purger
GRANT lcm_purger TO CURRENT_USER
CREATE ROLE another
ALTER ROLE postgres PASSWORD 'x'
CREATE EXTENSION dblink
CREATE SCHEMA mine
CREATE FUNCTION lcm.mine() RETURNS SETOF int LANGUAGE sql AS 'SELECT {2}'
CREATE FUNCTION pg_temp.mine() RETURNS SETOF int LANGUAGE sql AS 'SELECT {2}'; SET search_path = pg_temp, lcm; SELECT * FROM messages
CREATE TEMP TABLE grants(role name, realm text, pattern text); SET search_path = pg_temp; INSERT INTO grants VALUES (session_user, 'family', '%'); SELECT lcm.mine()
ALTER FUNCTION lcm.mine() SECURITY INVOKER
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC
COPY (SELECT 1) TO PROGRAM 'true'
DO $$ BEGIN PERFORM 1 / (SELECT count(*) FROM lcm.messages WHERE id = {0}); END $$
NOTIFY x; LISTEN x
SELECT pg_notify('x', string_agg(t::text, ' ')) FROM lcm.nodes t
SELECT * FROM pg_stat_statements
SELECT * FROM pg_locks
SELECT relname, reltuples FROM pg_class
SELECT * FROM pg_stat_all_tables
SELECT * FROM pg_stat_progress_vacuum
SELECT * FROM pg_prepared_xacts
SELECT * FROM pg_largeobject
SELECT * FROM pg_largeobject_metadata
SELECT * FROM pg_db_role_setting
SELECT * FROM pg_file_settings
SELECT current_setting('data_directory')
SELECT prosrc FROM pg_proc WHERE pronamespace = 'lcm'::regnamespace
SELECT pg_get_functiondef('lcm.mine'::regproc)
PREPARE TRANSACTION 'x'
SET session_replication_role = replica
SET log_statement = 'all'
SET SESSION AUTHORIZATION DEFAULT; SELECT * FROM lcm.mine()
SET search_path = pg_temp, lcm, pg_catalog; SELECT * FROM conversations
CREATE TABLE public.grants(role name, realm text, pattern text)
CREATE EVENT TRIGGER t ON ddl_command_end EXECUTE FUNCTION pg_temp.caught()
CREATE CAST (int AS text) WITH INOUT AS IMPLICIT
CREATE OPERATOR lcm.= (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq)
CREATE FUNCTION pg_temp.pg_has_role(name, oid, text) RETURNS bool LANGUAGE sql AS 'SELECT true'; SET search_path = pg_temp, pg_catalog; SELECT lcm.mine()
CREATE FUNCTION pg_temp.to_regrole(text) RETURNS regrole LANGUAGE sql AS 'SELECT session_user::regrole'; SET search_path = pg_temp, pg_catalog; SELECT * FROM lcm.messages
CREATE TEMP TABLE principals(owner int, realm text, name text); INSERT INTO principals VALUES ({2}, 'other', 'x'); SET search_path = pg_temp; SELECT lcm.mine()
DO $$ BEGIN EXECUTE 'SET LOCAL ROLE postgres'; END $$
SELECT set_config('role', 'postgres', false)
SELECT set_config('session_authorization', 'postgres', false)
SELECT lcm.let_go(ARRAY(SELECT generate_series({0} - 50, {0} + 200)), ARRAY['{mark}-s'])
SELECT lcm.release('{1}')
SELECT lcm.drop_copy('{mark}o')
SELECT lcm.fixed()
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename <> current_user
SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename <> current_user
SELECT pg_advisory_unlock_all()
SELECT pg_stat_reset()
SELECT pg_stat_reset_single_table_counters('lcm.messages'::regclass)
SELECT pg_switch_wal()
SELECT pg_export_snapshot()
SELECT * FROM pg_logical_slot_peek_changes('x', NULL, NULL)
SELECT pg_create_physical_replication_slot('x')
SELECT lo_export(1, '/tmp/stolen')
SELECT lo_from_bytea(0, string_agg(t::text, ' ')::bytea) FROM lcm.nodes t
INSERT INTO lcm.conversations(conversation, nonce, owner, created_at) OVERRIDING SYSTEM VALUE SELECT {3}, 'x', owner, 0 FROM lcm.principals
INSERT INTO lcm.conversations(nonce, owner, parent, created_at) SELECT 'x', owner, '{1}', 0 FROM lcm.principals
INSERT INTO lcm.messages SELECT {3}, owner, {0}, 's', 1, 1, '', '', '', '', 1, 1, 0, 0, '', 0, NULL, '' FROM lcm.principals ON CONFLICT(conversation, id) DO UPDATE SET flags = 1 RETURNING *
INSERT INTO lcm.purges(conversation, owner, ids, nodes) SELECT conversation, owner, '{{{0}}}', '{{}}' FROM lcm.conversations
REASSIGN OWNED BY postgres TO CURRENT_USER
COMMENT ON TABLE lcm.messages IS 'x'
""".strip().splitlines()  # noqa: E501


@dataclass
class Victim:
    """One whose rows are in every table."""

    fleet: Fleet
    values: tuple[Any, ...]
    secrets: tuple[str, ...]

    def rows(self) -> dict[str, list[Any]]:
        """All that belongs to the victim, as the operator sees it."""
        out = {}
        with psycopg.connect(self.fleet.admin) as admin:
            for table in TABLES:
                where = {
                    "hosts": "role LIKE 'lcm_victim%'",
                    "grants": "role LIKE 'lcm_victim%'",
                    "backups": "role LIKE 'lcm_victim%'",
                    "meta": "true",
                }.get(table, f"owner = {self.values[2]}")
                where = f"block = {self.values[4]}" if table == "blocks" else where
                out[table] = sorted(
                    row[0] for row in admin.execute(f"SELECT t::text FROM lcm.{table} t WHERE {where}").fetchall()
                )
        return out


@pytest.fixture
def victim(fleet: Fleet, host: Hosts, monkeypatch: pytest.MonkeyPatch) -> Victim:
    """Messages, summaries, an archive, a lease, a hold and a purge of their own."""
    monkeypatch.setattr(member, "_LEASE_WAIT_S", 30.0)
    a = host("victim", realm="family")
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        admin.execute(f"GRANT lcm_purger TO lcm_victim_{fleet.tag}")
        a.session(f"{MARK}-s", principal=f"{MARK}-principal")
        a.compact(chat().user(f"{MARK} the code of the safe is 4711").turns(24), f"{MARK}-s")
        a.take(
            chat().user(f"{MARK} to be held").says("ok"),
            f"{MARK}-t",
        )
        purge.empty(a.runtime.access(None, Rights(), trusted=True), [5])
        a.member.push()
        a.member.lease(1, 600)
        number, conversation, owner = admin.execute(
            "SELECT id, conversation, owner FROM lcm.messages ORDER BY id"
        ).fetchone()
        nonce = admin.execute("SELECT nonce FROM lcm.conversations ORDER BY 1").fetchone()[0]
        a.sql(
            "SELECT * FROM lcm.purge(ARRAY[%s]::bigint[], ARRAY[%s]::bigint[], ARRAY['x']::bytea[])",
            conversation,
            number + 3,
        )
        a.sql(
            "INSERT INTO lcm.holds(conversation, owner, session_id, id) VALUES (%s, %s, %s, 0)",
            conversation,
            owner,
            f"{MARK}-s",
        )
        a.sql("INSERT INTO lcm.carried VALUES (%s, %s, 1)", conversation, owner)
        a.sql(
            "INSERT INTO lcm.archives VALUES (%s, %s, 'h', 's', '{1}', 0, 0, 1, %s, 1, %s, 1, 1, 'archived', 0, 0)",
            conversation, owner, MARK, MARK,
        )  # fmt: skip
        a.sql(
            "INSERT INTO lcm.backups(name, object, key, sha256, bytes) VALUES (%s, %s, %s, '', 1)",
            MARK,
            MARK + "o",
            MARK,
        )
        admin.execute("ANALYZE")
        block = admin.execute("SELECT block FROM lcm.blocks").fetchone()[0]
        digests = [row[0].hex() for row in admin.execute("SELECT digest FROM lcm.messages").fetchall()]
    return Victim(fleet, (number, nonce, owner, conversation, block), (MARK, nonce, *digests))


def thief(host: Hosts, fleet: Fleet, kind: str) -> Host:
    """A role in wrong hands: of another realm, of none, of the same realm with other principals, and one that may purge."""
    made = {
        "another realm": lambda: host("thief", realm="other"),
        "no realm": lambda: host("thief", realm=""),
        "same realm, other principals": lambda: host("thief", realm="family", patterns=("telegram:%",)),
        "one that may purge": lambda: host("thief", realm="other"),
    }[kind]()
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        if kind == "one that may purge":
            admin.execute(f"GRANT lcm_purger TO lcm_thief_{fleet.tag}")
    made.take(chat().user("mine").says("yours"), "t")
    made.member.push()
    return made


def run(connection: psycopg.Connection[Any], statement: str) -> tuple[str, bool]:
    """Everything that a statement tells, errors included; and whether it was refused."""
    said: list[str] = []
    try:
        if statement.startswith("COPY") and statement.endswith("STDOUT"):
            with connection.cursor().copy(statement) as copy:
                said += [bytes(each).decode("utf-8", "replace") for each in copy]
            return "".join(said), False
        cursor = connection.cursor()
        cursor.execute(statement)
        while True:
            if cursor.description:
                said += [
                    str([each.hex() if isinstance(each, bytes) else each for each in row]) for row in cursor.fetchall()
                ]
            if not cursor.nextset():
                return "".join(said), False
    except psycopg.Error as exc:
        return f"{''.join(said)}{exc} {exc.diag.message_detail} {exc.diag.message_hint} {exc.diag.context}", True


@pytest.mark.parametrize(
    "kind", [pytest.param("another realm"), *(pytest.param(each, marks=pytest.mark.slow) for each in (
        "no realm", "same realm, other principals", "one that may purge"))]
)  # fmt: skip
def test_no_sql_of_a_role_reads_or_changes_anything_of_others(
    fleet: Fleet, host: Hosts, victim: Victim, kind: str, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """Every table by every statement, every column, functions, catalogs, sequences, prepared statements, views."""
    role = thief(host, fleet, kind)
    before = victim.rows()
    assert all(before[table] for table in TABLES), [table for table in TABLES if not before[table]]
    columns = role.sql("SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'lcm'")
    statements = [each.replace("{t}", f"lcm.{table}") for table in TABLES for each in ANY_TABLE]
    statements += [
        f"UPDATE lcm.{table} SET {column} = {value}" for table, column in columns for value in (column, "DEFAULT")
    ]
    statements += [each.format(*victim.values, mark=MARK) for each in ONCE]
    notices: list[str] = []
    refused = 0
    with psycopg.connect(role.dsn, autocommit=True) as connection:
        connection.add_notice_handler(lambda each: notices.append(str(each.message_primary)))
        connection.execute(
            "CREATE FUNCTION pg_temp.caught() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
        )
        connection.execute(
            "CREATE FUNCTION pg_temp.same(said text, other text) RETURNS bool COST 0.0001 LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE NOTICE '%', said; RETURN true; END $$; "
            "CREATE OPERATOR pg_temp.= (LEFTARG = text, RIGHTARG = text, FUNCTION = pg_temp.same)"
        )
        connection.execute(
            "CREATE FUNCTION pg_temp.leak(said text) RETURNS bool COST 0.0001 LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE NOTICE '%', said; RETURN true; END $$"
        )
        for statement in statements:
            said, failed = run(connection, statement)
            refused += failed
            told_by = [each for each in victim.secrets if each in said and each not in statement]
            told_by += [each for each in victim.secrets if any(each in notice for notice in notices)]
            assert told_by == [], (statement, said[:300])
            connection.execute("RESET search_path; RESET row_security; RESET ROLE")

    record_testsuite_property(f"SQL cells of {kind}", len(statements))
    assert len(statements) > 700
    assert refused > len(statements) // 3
    assert victim.rows() == before
