"""The schema: all tables are made with the file, and one that is lost is missed (P1, P9)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from worlds.home import Home

from hermes_lcm import errors
from hermes_lcm.ops import explain
from hermes_lcm.ops.doctor import file
from hermes_lcm.storage import schema
from hermes_lcm.storage.connection import Database
from hermes_lcm.storage.schema import TABLES


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "lcm.db")
    made.open()
    yield made
    made.close()


def test_a_new_file_has_all_tables(db: Database) -> None:
    """Owners write their SQL as if they were there, and they are."""
    names = {name for (name,) in db.query("SELECT name FROM sqlite_master WHERE type = 'table'")}

    assert names - {"sqlite_sequence"} == TABLES
    assert {"messages", "nodes", "payloads", "imported", "archives", "leases", "blocks"} < TABLES


@pytest.mark.parametrize("counter", [9223372036854775807, "garbage"])
def test_a_counter_that_leaves_no_room_for_a_row_is_mended(tmp_path: Path, counter: object) -> None:
    """SQLite would say that the disk is full, whatever is to be stored."""
    home = Home(tmp_path)
    home.say("one", "two")
    home.runtime.db.close()
    home.raw("UPDATE sqlite_sequence SET seq = ?", counter)
    home.say("one", "two", "three")

    assert home.runtime.db.query("SELECT count(*), max(store_id) FROM messages") == [(3, 3)]
    assert home.runtime.db.file == home.path
    home.runtime.preparer.stop()
    home.runtime.db.close()


def test_a_new_file_is_small(db: Database) -> None:
    """A page for every table and index, and a few for the schema itself; the search indexes come on top."""
    assert db.query("PRAGMA page_count")[0][0] <= 54


def test_a_name_that_no_schema_knows_is_a_mistake(db: Database) -> None:
    """Read or written."""
    with pytest.raises(errors.StoreError, match="no such table: nowhere"):
        db.query("SELECT * FROM nowhere")
    with pytest.raises(errors.StoreError, match="no such table: nowhere"), db.transaction():
        db.execute("DELETE FROM nowhere")


def test_who_reads_a_lost_table_is_told(tmp_path: Path) -> None:
    """Otherwise a conversation would go on as if it had never been compacted."""
    world = Home(tmp_path)
    world.say("one", "two")
    world.assembly([world.node(1)], [2], 2)
    world.raw("DROP TABLE assemblies")
    world = world.restart()

    with pytest.raises(errors.StoreError, match="no such table: assemblies"):
        world.runtime.dag.latest_assembly(1)


def test_messages_are_stored_though_summaries_and_their_index_are_lost(tmp_path: Path) -> None:
    """Whoever opens the file makes no index of what is not there."""
    world = Home(tmp_path)
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
    world = Home(tmp_path)
    world.say("one", "two")
    world.node(1)
    world.close()
    for name in (table, index):
        world.raw(f"DROP TABLE {name}")
    world = world.restart()
    world.runtime.db.open()
    found = {problem.topic: problem for problem in world.runtime.health.problems()}

    assert found["tables"].message.startswith(f"a part of the database file is gone: {table} (")
    assert "`/lcm doctor repair` says what can be saved" in found["tables"].remedy
    if table == "nodes":
        assert explain.search(world.deps(), "one")["results"]
        world.say("three", session="s2")
        assert world.runtime.store.count() == 3


def test_a_table_that_is_back_is_not_missed_any_more(tmp_path: Path) -> None:
    """A backup was restored, by whatever process."""
    world = Home(tmp_path)
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


def test_the_doctor_names_lost_tables(tmp_path: Path) -> None:
    """And finds nothing wrong before."""
    world = Home(tmp_path)
    world.say("one", "two")
    assert file.schema(world.deps(), False).status == "pass"
    world.raw("DROP TABLE assemblies")
    found = file.schema(world.deps(), False)

    assert (found.status, found.data["missing"]) == ("fail", ["assemblies"])


def test_an_index_that_was_dropped_is_made_again(db: Database) -> None:
    """Statements that store summaries name one; without it no list would ever be compacted again."""
    with db.transaction():
        db.execute("DROP INDEX nodes_by_source")
    db.close()

    assert db.query("SELECT count(*) FROM sqlite_master WHERE name = 'nodes_by_source'") == [(1,)]


def test_an_index_that_was_made_otherwise_is_made_again(db: Database) -> None:
    """A statement that relies on it fails, or finds other rows."""
    sql = "SELECT sql FROM sqlite_master WHERE name = 'nodes_by_source'"
    before = db.query(sql)
    with db.transaction():
        db.execute("DROP INDEX nodes_by_source")
        db.execute("CREATE INDEX nodes_by_source ON nodes(depth)")
    db.close()

    assert db.query(sql) == before


def test_a_column_that_another_program_renamed_stops_no_reading_of_others(db: Database) -> None:
    """SQLite renames it in our index as well, and the index cannot be made again; the doctor names the column."""
    with db.transaction():
        db.execute("ALTER TABLE archives RENAME COLUMN handle TO name")
    db.close()

    assert db.query("SELECT count(*) FROM messages") == [(0,)]
    assert schema.lost_parts(db.query) == ["archives.handle"]


def test_a_file_as_this_release_makes_it_is_known_by_one_look_at_its_texts(db: Database) -> None:
    """Each opening asks."""
    asked = list[str]()

    assert schema.lost_parts(lambda sql: asked.append(sql) or db.query(sql)) == []
    assert len(asked) == 1


def test_two_processes_that_make_a_dropped_index_again_are_in_nobodys_way(db: Database) -> None:
    """Both have seen that it is not there."""
    with db.transaction():
        db.execute("DROP INDEX nodes_by_source")
    db.close()

    class Slower(sqlite3.Connection):
        """The other one makes it as soon as this one has looked."""

        def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
            found = super().execute(sql, *rest)
            if "sqlite_master" in sql:
                schema.mend(other)
            return found

    with closing(sqlite3.connect(db.path)) as other, closing(sqlite3.connect(db.path, factory=Slower)) as slower:
        schema.mend(slower)
        made = slower.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'nodes_by_source'").fetchall()

    assert made == [(1,)]


def test_each_table_has_words_for_whoever_lost_it() -> None:
    """A name of a table tells a user nothing."""
    assert set(schema.HOLDS) == schema.TABLES
    assert schema.lacked(["node_sources", "nodes.text"]) == (
        "node_sources (which messages each summary covers), nodes.text (summaries)"
    )
