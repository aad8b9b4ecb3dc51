"""Tables that a file gets when something is first written to them: nobody above notices, and a lost one is missed (P1, P9)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ops_world import World

from hermes_lcm import errors
from hermes_lcm.db import later, migrations
from hermes_lcm.db.connection import Database
from hermes_lcm.db.migrations import GROUP_OF, LATER, STEPS
from hermes_lcm.ops import check_file, explain

LEASE = "INSERT INTO leases(name, holder, expires_at) VALUES (?, 'me', 1.0)"
LEASES = "SELECT name FROM leases ORDER BY name"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "lcm.db")
    made.open()
    yield made
    made.close()


def made(db: Database) -> set[str]:
    """Tables of ``LATER`` that the file has."""
    names = {name for (name,) in db.query("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return names & GROUP_OF.keys()


def lease(db: Database, name: str = "a") -> None:
    with db.transaction():
        db.execute(LEASE, (name,))


def shape(connection: sqlite3.Connection) -> dict[str, Any]:
    """Every table with its columns, every index with what it is over."""
    names = connection.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
    return {
        name: connection.execute(f"PRAGMA {'table_info' if kind == 'table' else 'index_xinfo'}({name})").fetchall()
        for kind, name in names
    }


def stepwise(path: Path, steps: int) -> None:
    """A file as releases made it that made all tables at once."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for step in STEPS[:steps]:
            connection.executescript(step)
        connection.execute(f"PRAGMA application_id={migrations.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={steps}")


# -- reading and writing -----------------------------------------------------------------------------------------


def test_a_new_file_has_no_table_that_nobody_needed(db: Database) -> None:
    assert made(db) == set()


def test_reading_finds_such_a_table_empty_and_makes_none(db: Database) -> None:
    for table in GROUP_OF:
        assert db.query(f"SELECT count(*) FROM {table}") == [(0,)]
        assert db.query_one(f"SELECT * FROM {table}") is None
        assert list(db.iterate(f"SELECT * FROM {table}")) == []
        assert not db.has(table)
    assert made(db) == set()


def test_what_is_read_together_with_such_a_table_is_there(db: Database) -> None:
    with db.transaction():
        db.execute("INSERT INTO meta(key, value) VALUES ('a', '1')")
    sql = "SELECT m.key, l.holder FROM meta AS m LEFT JOIN leases AS l ON l.name = m.key"
    assert db.query(sql) == [("a", None)]
    assert [*db.iterate(sql, size=1)] == [[("a", None)]]


def test_the_first_write_makes_the_group_and_no_other(db: Database) -> None:
    lease(db)
    assert (made(db), db.query(LEASES)) == ({"leases"}, [("a",)])
    assert db.has("leases")


def test_every_row_of_a_first_write_is_kept(db: Database) -> None:
    with db.transaction():
        db.executemany(LEASE, ((name,) for name in "abc"))
    assert db.query(LEASES) == [("a",), ("b",), ("c",)]


def test_a_transaction_that_fails_makes_no_table(db: Database) -> None:
    def failing() -> None:
        with db.transaction():
            db.execute(LEASE, ("a",))
            assert db.fetch(LEASES) == [("a",)]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert (made(db), db.query(LEASES)) == (set(), [])
    lease(db)
    assert db.query(LEASES) == [("a",)]


def test_every_row_of_a_first_write_is_kept_after_one_that_was_taken_back(db: Database) -> None:
    """SQLite keeps the statement, and finds only with its first row that the table is gone again."""

    def lost() -> None:
        with db.transaction():
            db.executemany(LEASE, ((name,) for name in "xy"))
            raise ZeroDivisionError

    with db.transaction():
        with pytest.raises(ZeroDivisionError):
            lost()
        db.executemany(LEASE, ((name,) for name in "abc"))
    assert db.query(LEASES) == [("a",), ("b",), ("c",)]


def test_every_row_of_a_first_write_is_kept_after_a_transaction_that_failed(db: Database) -> None:
    def lost() -> None:
        with db.transaction():
            db.executemany(LEASE, ((name,) for name in "xy"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lost()
    with db.transaction():
        db.executemany(LEASE, ((name,) for name in "abc"))
    assert db.query(LEASES) == [("a",), ("b",), ("c",)]


def test_a_table_that_another_process_makes_is_read_at_once(db: Database) -> None:
    """Though the same statement found it empty before."""
    assert (db.query(LEASES), db.has("leases")) == ([], False)
    with closing(Database(db.path)) as other:
        lease(other)
        assert (db.query(LEASES), db.has("leases")) == ([("a",)], True)


def test_a_table_that_another_process_makes_is_not_made_again(db: Database) -> None:
    with closing(Database(db.path)) as other:
        other.open()
        lease(other, "theirs")
        lease(db, "ours")
        assert other.query(LEASES) == [("ours",), ("theirs",)]


def test_a_name_that_no_schema_knows_is_a_mistake(db: Database) -> None:
    with pytest.raises(errors.StoreError, match="no such table: nowhere"):
        db.query("SELECT * FROM nowhere")
    with pytest.raises(errors.StoreError, match="no such table: nowhere"), db.transaction():
        db.execute("DELETE FROM nowhere")


# -- what is lost ------------------------------------------------------------------------------------------------


def test_a_table_that_was_made_and_is_lost_is_missed(db: Database) -> None:
    lease(db)
    with db.transaction():
        db.execute("DROP TABLE leases")
    with pytest.raises(errors.StoreError, match="no such table: leases"):
        db.query(LEASES)
    with pytest.raises(errors.StoreError, match="no such table: leases"):
        lease(db)


def test_who_asks_first_whether_a_table_is_there_misses_a_lost_one(tmp_path: Path) -> None:
    """Otherwise a conversation would go on as if it had never been compacted."""
    world = World(tmp_path)
    world.say("one", "two")
    world.assembly([world.node(1)], [2], 2)
    world.raw("DROP TABLE assemblies")
    world = world.restart()
    with pytest.raises(errors.StoreError, match="no such table: assemblies"):
        world.runtime.dag.latest_assembly(1)


def test_messages_are_stored_though_summaries_and_their_index_are_lost(tmp_path: Path) -> None:
    """Whoever opens the file makes no index of what is not there."""
    world = World(tmp_path)
    world.say("one", "two")
    world.node(1)
    world.close()
    for table in ("nodes", "node_terms", "node_index"):
        world.raw(f"DROP TABLE {table}")
    world = world.restart()
    world.say("three", session="s2")
    assert world.runtime.db.query("SELECT count(*) FROM messages") == [(3,)]


@pytest.mark.parametrize("table", ["nodes", "meta", "sessions", "messages"])
@pytest.mark.parametrize("index", ["message_index", "message_terms"])
def test_a_file_without_a_table_and_an_index_opens_and_says_what_is_lost(
    table: str, index: str, tmp_path: Path
) -> None:
    """The index is made from what is there: what is not is no reason to refuse the rest."""
    world = World(tmp_path)
    world.say("one", "two")
    world.node(1)
    world.close()
    for name in (table, index):
        world.raw(f"DROP TABLE {name}")
    world = world.restart()
    world.runtime.db.open()
    found = {problem.topic: problem for problem in world.runtime.health.problems()}
    assert (found["tables"].message, found["tables"].remedy) == (f"lost: {table}", "run `/lcm doctor repair`")
    if table == "nodes":
        assert explain.search(world.deps(), "one")["results"]
        world.say("three", session="s2")
        assert world.runtime.store.count() == 3


def test_a_table_that_is_back_is_not_missed_any_more(tmp_path: Path) -> None:
    """A backup was restored, by whatever process."""
    world = World(tmp_path)
    world.say("one", "two")
    world.close()
    kept = world.path.read_bytes()
    world.raw("DROP TABLE blocks")
    world = world.restart()
    world.say("three", session="s2")
    assert [problem.topic for problem in world.runtime.health.problems()] == ["tables"]
    world.close()
    world.path.write_bytes(kept)
    world.runtime.db.open()
    assert world.runtime.health.problems() == []


def test_the_doctor_misses_only_tables_that_were_made(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.say("one", "two")
    assert check_file.schema(world.deps(), False).status == "pass"
    world.node(1, 2)
    assert check_file.schema(world.deps(), False).status == "pass"
    world.raw("DROP TABLE assemblies")
    found = check_file.schema(world.deps(), False)
    assert (found.status, found.data["missing"]) == ("fail", ["assemblies"])


# -- files of before ---------------------------------------------------------------------------------------------


def test_all_groups_together_are_what_the_steps_make(db: Database, tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    stepwise(old, len(STEPS))
    with closing(sqlite3.connect(old)) as theirs, closing(sqlite3.connect(db.path)) as ours:
        later.make_all(ours)
        assert shape(ours) == shape(theirs)
        assert later.noted(ours) == later.noted(theirs) == LATER.keys()


def test_a_file_that_has_all_tables_keeps_them_and_misses_one_that_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    stepwise(path, STEPS.index(migrations._NOTES))
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("INSERT INTO leases(name, holder, expires_at) VALUES ('a', 'me', 1.0)")
        raw.commit()
    with closing(Database(path)) as db:
        assert (made(db), db.query(LEASES)) == (set(GROUP_OF), [("a",)])
        with db.transaction():
            db.execute("DROP TABLE leases")
        with pytest.raises(errors.StoreError, match="no such table: leases"):
            db.query(LEASES)


def test_a_new_file_is_small(db: Database) -> None:
    """Without its search index; a page for every table and index would be fifty."""
    pages = db.query("PRAGMA page_count")[0][0]
    assert pages <= 22
