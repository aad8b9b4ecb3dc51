"""Repair, rotate, clean and sources: backup first, nothing lost unsaid, and the second time does nothing."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from worlds.home import (
    LOCKS_OUT,
    READS,
    Holder,
    Home,
    corrupt,
    digest,
    foreign,
    healthy,
    newer,
    no_database,
    stored_blob,
    wrecked,
)

from hermes_lcm.command import answer
from hermes_lcm.errors import BadRequest, StoreBusy, StoreError, StoreFull
from hermes_lcm.ops import backup, explain, rotate
from hermes_lcm.ops.doctor import clean, repair
from hermes_lcm.ops.doctor.checks import doctor
from hermes_lcm.ops.orders import Orders
from hermes_lcm.ops.status import status
from hermes_lcm.ops.survey import Survey
from hermes_lcm.records import Flag
from hermes_lcm.session import Session
from hermes_lcm.storage import files, schema
from hermes_lcm.storage.connection import PAGE_BYTES, Database
from hermes_lcm.store import MessageStore, NewRow
from hermes_lcm.text.content import read_message

pytestmark = pytest.mark.usefixtures("short_waits")


# -- repair ----------------------------------------------------------------------------------------------
def test_a_sound_database_is_left_alone(world: Home) -> None:
    """No backup, no rebuilding."""
    done = repair.repair(world.deps())

    assert done.diagnosis.well
    assert not backup.backup_folder(world.path).exists()


@pytest.mark.few(2)
@pytest.mark.parametrize("at", ["salvage", "brought_home", "seal"])
def test_a_killed_repair_leaves_no_copy_behind(at: str, tmp_path: Path) -> None:
    """The next one removes what was half-made: the damaged file is kept once, not once for each try."""
    world = corrupt(tmp_path)
    child = os.fork()
    if child == 0:
        try:
            setattr(files, at, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
            repair.repair(Home(tmp_path).deps())
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    made = repair.repair(world.restart().deps())

    assert [*backup.backup_folder(world.path).iterdir()] == [made.kept]


def test_an_index_is_built_anew_after_a_backup(world: Home) -> None:
    """And then everything is found again."""
    world.raw("INSERT INTO message_index(message_index) VALUES ('delete-all')")
    world.restart()
    done = repair.repair(world.deps())

    assert done.indexed
    assert done.kept in [each.path for each in backup.backups(world.deps())]
    assert explain.search(world.deps(), "zebra deployment")["results"]
    assert repair.repair(world.deps()).diagnosis.well


def test_a_damaged_file_is_salvaged(tmp_path: Path) -> None:
    """What is readable is in the new file, what is not is counted, and the damaged one is kept as it was."""
    world = corrupt(tmp_path)
    before = world.path.read_bytes()
    done = repair.repair(world.deps())
    kept = world.runtime.store.count()

    assert done.kept is not None
    assert done.kept.read_bytes() == before
    assert 60 < kept < 100
    assert done.lost["messages"] == 100 - kept
    assert doctor(world.deps(), deep=True)["checks"][5]["status"] == "pass"
    assert explain.search(world.deps(), "zebra")["results"]
    assert repair.repair(world.deps()).diagnosis.well


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), StoreFull("no room")], ids=["Ctrl-C", "a full disk"])
def test_a_repair_that_is_stopped_leaves_no_copy(
    stop: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The damaged file is where it was, and each try would leave one more."""
    world = corrupt(tmp_path)
    before = world.path.read_bytes()

    def stopped(*_: Any) -> Any:
        raise stop

    with monkeypatch.context() as late:
        late.setattr(files, "seal", stopped)
        with pytest.raises(type(stop)):
            repair.repair(world.deps())
    assert list(backup.backup_folder(world.path).iterdir()) == []
    assert world.path.read_bytes() == before
    assert repair.repair(world.deps()).kept is not None


#: Changes by hand after which nothing could be done, or nothing was seen.
DAMAGES = {
    "the way to the words": "DELETE FROM message_index_idx",
    "how the index is kept": "DELETE FROM message_index_config",
    "a version of the index": "UPDATE message_index_config SET v = 99",
    "whose file it is": "PRAGMA application_id = 7",
    "which schema it has": "PRAGMA user_version = 5",
    "a position that is a word": "UPDATE messages SET pos = 'x' WHERE store_id = 50",
    "an address far away": "UPDATE messages SET pos = -1e300 WHERE store_id = 50",
    "a text that is none": "UPDATE messages SET tool_name = CAST(x'ff' AS TEXT) WHERE store_id = 50",
    "a column": "ALTER TABLE nodes DROP COLUMN expand_hint",
}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", DAMAGES)
def test_a_repair_leads_out_of_every_change_by_hand(name: str, tmp_path: Path) -> None:
    """The deep doctor sees it; what is not touched is there, and then nothing is left to repair."""
    world = healthy(tmp_path)
    world.close()
    with closing(sqlite3.connect(world.path, isolation_level=None)) as raw:
        raw.execute(DAMAGES[name])
    world = world.restart()
    assert any(each["status"] == "fail" for each in doctor(world.deps(), deep=True)["checks"])
    repair.repair(world.deps())
    world = world.restart()

    assert repair.repair(world.deps()).diagnosis.well
    assert world.runtime.store.count() >= 99
    assert explain.search(world.deps(), "zebra deployment")["results"]
    world.say("later", session="s9")
    assert world.runtime.store.count() >= 100


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_a_folder_in_place_of_a_side_file_is_named(ending: str, tmp_path: Path) -> None:
    """With the way out: it holds nothing of the database."""
    world = healthy(tmp_path)
    world.close()
    side = Path(f"{world.path}{ending}")
    side.unlink(missing_ok=True)
    side.mkdir()
    found = next(each for each in doctor(world.restart().deps())["checks"] if each["status"] == "fail")

    assert f"{side} is a folder" in found["detail"]
    assert "move the folder" in found["remedy"]


def test_a_salvage_changes_no_message_that_it_saves(tmp_path: Path) -> None:
    """Byte for byte, under the same address."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    before = {
        row.store_id: row.stored_json for rows in healthy(tmp_path / "a").runtime.store.row_batches() for row in rows
    }
    world = corrupt(tmp_path / "b")
    repair.repair(world.deps())
    after = {row.store_id: row.stored_json for rows in world.runtime.store.row_batches() for row in rows}

    assert after.items() <= before.items()


def test_an_address_is_never_given_twice(tmp_path: Path) -> None:
    """Even when the newest messages were lost: a summary of them must not show others."""
    world = healthy(tmp_path)
    world.raw("DELETE FROM messages WHERE store_id > 90")
    blob = stored_blob(world, "message 50 about")
    world.close()
    data = world.path.read_bytes()
    page = data.index(blob) // 4096 * 4096
    world.path.write_bytes(data[:page] + b"\xde" * 4096 + data[page + 4096 :])
    repair.repair(world.deps())
    world.say("new", session="s2")

    assert world.runtime.store.newest(None, before=1 << 40, limit=1)[0].store_id == 101


def test_a_total_counts_what_is_there_after_a_salvage(tmp_path: Path) -> None:
    """The status derives it without counting."""
    world = corrupt(tmp_path)
    repair.repair(world.deps())

    assert status(world.deps())["store"]["total_messages"] == world.runtime.store.count()


def test_what_is_said_to_be_saved_is_there(world: Home) -> None:
    """Messages whose block was unreadable can be read as rows, and are of no use."""
    world.raw("UPDATE messages SET envelope = 7 WHERE store_id IN (10, 11)")
    overwrite(world, "sessions")
    done = repair.repair(world.deps())

    assert "2 messages whose block was unreadable" in done.notes
    assert (done.saved["messages"], done.saved["sessions"]) == (world.runtime.store.count(), 1)
    assert done.saved["messages"] == 98


def with_holes(folder: Path) -> tuple[Home, list[dict[str, Any]]]:
    """A repaired file that lacks five of thirty messages, and the list that the host has."""
    world = Home(folder)
    session = world.say(*(f"message {n}" for n in range(30)))
    live = [row.stored_json for rows in world.runtime.store.row_batches() for row in rows]
    world.raw("UPDATE messages SET envelope = 7 WHERE store_id IN (1, 10, 11, 12, 20)")
    overwrite(world, "health")
    repair.repair(world.deps(session.session_id))
    return world, live


def missing(world: Home) -> tuple[int, int]:
    """As the doctor sees it: messages missing in conversations, and those that repairs could not read."""
    survey = Survey(world.runtime.db)
    return sum(count for _, count in survey.gaps()), survey.unreadable_once()


def test_a_hole_that_was_filled_again_is_none_any_more(tmp_path: Path) -> None:
    """The host's lists show three of five messages that a repair could not read, then all; a later repair changes nothing."""
    world, live = with_holes(tmp_path)
    counts = [missing(world)]
    for list_ in ([*live[:10], *live[12:]], live):
        world.runtime.ingest_list("s1", list_, source="cli")
        counts.append(missing(world))
    overwrite(world, "health")
    repair.repair(world.deps())

    assert counts == [(5, 5), (2, 2), (0, 0)]
    assert missing(world) == (0, 0)
    assert {each["check"]: each["status"] for each in doctor(world.deps())["checks"]}["ingest_gaps"] == "pass"


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"pos": 10.5, "flags": Flag.IMPORTED}, id="a record of ours"),
        pytest.param({"pos": 10.0, "revises": 9}, id="another version of a message"),
        pytest.param({"pos": 9.0}, id="a message in front of it"),
        pytest.param({"pos": None}, id="a message at the end"),
    ],
)
def test_what_is_no_lost_message_fills_no_hole(facts: dict[str, Any], tmp_path: Path) -> None:
    """Nor do more messages than one hole has room for fill another one."""
    world, live = with_holes(tmp_path)
    store = world.runtime.store
    store.append(1, "s1", store.last_seq(1), [NewRow(read_message(live[9]), **facts)], source="cli", now=world.now)
    before = missing(world)
    rows = [NewRow(read_message({"role": "user", "content": f"new {n}"}), pos=9.1 + n / 10) for n in range(5)]
    store.append(1, "s1", store.last_seq(1), rows, source="cli", now=world.now)

    assert before == (5, 5)
    assert missing(world) == (2, 2)


LOSABLE = [
    (table,) for table in "assemblies blocks carried conversations health meta node_sources nodes sessions".split()
]


@pytest.mark.few(4)
@pytest.mark.parametrize("tables", [*LOSABLE, ("nodes", "message_index"), ("meta", "message_index")], ids=" ".join)
def test_a_file_that_lost_tables_is_salvaged_into_one_that_has_all(tables: tuple[str, ...], world: Home) -> None:
    """SQLite finds such a file sound, and the doctor sends here."""
    world.close()
    for table in tables:
        world.raw(f"DROP TABLE {table}")
    world = world.restart()
    done = repair.repair(world.deps(None))

    assert done.diagnosis.damaged == (f"a part of it is gone: {schema.lacked(tables[:1])}",)
    assert f"gone: {schema.lacked(tables[:1])}" in done.notes
    assert done.lost == {}
    assert world.runtime.store.count() == 100
    found = {each["check"]: each["status"] for each in doctor(world.deps(None))["checks"]}
    assert (found["schema"], found["search_index"], found["problems"]) == ("pass", "pass", "pass")
    assert explain.search(world.deps(trusted=True), "zebra")["results"]
    assert repair.repair(world.deps(None)).diagnosis.well


def test_a_file_that_lost_its_messages_needs_a_backup(world: Home) -> None:
    """There is nothing to save; it is left as it is."""
    world.close()
    world.raw("DROP TABLE messages")
    before = world.path.read_bytes()

    with pytest.raises(StoreError, match="it was left as it is") as refused:
        repair.repair(world.deps())
    assert "there is no backup in" in refused.value.remedy
    assert world.runtime.sessions.find("s1") is not None
    world.close()
    assert len(world.path.read_bytes()) == len(before)


@pytest.mark.parametrize("lost", ["dropped", "overwritten"])
def test_a_lost_summarys_number_is_never_given_again(lost: str, world: Home) -> None:
    """A prompt that showed it must not show another one."""
    if lost == "dropped":
        world.raw("DROP TABLE nodes")
    else:
        overwrite(world, "nodes")
    repair.repair(world.deps())

    assert world.runtime.dag.nodes([1]) == []
    assert world.node(*range(20, 30)).node_id == 2


def test_prompts_that_rest_on_a_lost_summary_govern_no_longer(world: Home, tmp_path: Path) -> None:
    """However deep below it was; those whose summaries are all there do."""
    lost, kept = world.node(*range(20, 30)), world.node(*range(30, 40))
    above = world.node(lost.node_id, kept.node_id, depth=1)
    whole = world.assembly([kept], [40], 40)
    for roots in ([above], [kept, lost]):
        world.assembly(roots, [40], 40)
    garbled = world.assembly([kept], [41], 41)
    world.raw("UPDATE assemblies SET roots = x'00ff' WHERE assembly_id = ?", garbled.assembly_id)
    world.raw("DELETE FROM nodes WHERE node_id = ?", lost.node_id)
    world.close()
    fresh = tmp_path / "fresh.db"
    notes = repair._relinked(fresh, files.salvage(world.path, fresh, repair.readable))

    assert "2 context messages of prompts that rested on summaries that are gone" in notes
    with closing(Database(fresh)) as saved:
        assert saved.query("SELECT assembly_id FROM assemblies") == [(1,), (whole.assembly_id,)]


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        ("node_id IN (1, 2) AND position = 3", {1, 2, 3, 4}),
        ("node_id = 3 AND position = 3", {1, 2}),
        ("node_id = 4 AND position = 0", {1, 2, 3}),
    ],
    ids=["found again", "unknown", "of summaries"],
)
def test_a_summary_whose_sources_are_not_all_known_is_no_summary_of_them(
    gone: str, left: set[int], world: Home, tmp_path: Path
) -> None:
    """They would be covered by nothing. Where the rows between the first and the last are just as many, it was these."""
    spread = [*range(30, 40), 50]
    assert [world.node(*range(20, 30)).node_id, world.node(*spread).node_id] == [2, 3]
    assert world.node(2, 3, depth=1).node_id == 4
    world.raw(f"DELETE FROM node_sources WHERE {gone}")
    world.close()
    fresh = tmp_path / "fresh.db"
    repair._relinked(fresh, files.salvage(world.path, fresh, repair.readable))

    with closing(Database(fresh)) as saved:
        assert {row[0] for row in saved.query("SELECT node_id FROM nodes")} == left
        leaves = saved.query(
            "SELECT message_count, count(*) FROM nodes JOIN node_sources USING(node_id) WHERE depth = 0 GROUP BY node_id"
        )
        assert all(count == sources for count, sources in leaves)


def test_a_damaged_file_is_described_one_problem_a_line(tmp_path: Path) -> None:
    """SQLite joins them to one text under a heading of its own."""
    found = repair.diagnose(corrupt(tmp_path).deps()).damaged

    assert found
    assert not [each for each in found if "\n" in each or each.startswith("***")]


def test_stored_json_that_was_overwritten_is_not_saved(world: Home) -> None:
    """Damage that SQLite does not notice."""
    good = {"envelope": b"\0{}", "seq": 1, "session_key": 1}
    assert repair.readable("messages", good)
    for bad in (b"\1garbage", b"\0\xff", b"\1" + zlib.compress(b"\xff"), b"\0[", "text", None):
        assert not repair.readable("messages", {**good, "envelope": bad})


def test_garbage_that_sqlite_accepts_is_found_and_left_behind(world: Home) -> None:
    """A deep check reads every message; the newest one is read by the cheap one, too."""
    world.raw("UPDATE messages SET envelope = x'01ff' WHERE store_id IN (30, 100)")
    cheap, deep = (
        next(c for c in doctor(world.deps(), deep=d)["checks"] if c["check"] == "integrity") for d in (False, True)
    )
    assert (cheap["status"], deep["status"]) == ("fail", "fail")
    done = repair.repair(world.deps())

    assert done.lost == {"messages": 2}
    assert world.runtime.store.count() == 98


@pytest.mark.parametrize("state", [wrecked, no_database], ids=["wrecked", "no-database"])
def test_what_cannot_be_read_at_all_is_left_as_it_is(state: Any, tmp_path: Path) -> None:
    """With a word about backups."""
    world = state(tmp_path)
    before = world.path.read_bytes()

    with pytest.raises(StoreError) as refused:
        repair.repair(world.deps())
    assert "backup" in refused.value.remedy
    assert world.path.read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".lcm")]


def test_a_look_for_damage_keeps_the_locks_of_the_running_agent(tmp_path: Path) -> None:
    """A descriptor that is closed drops them: then the next process that leaves removes the log under the agent."""
    world = healthy(tmp_path)
    log = world.path.with_name(f"{world.path.name}-wal")
    world.runtime.db.open()
    assert repair.diagnose(world.deps()).well
    other = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM messages').fetchone()"
    subprocess.run([sys.executable, "-c", other, world.path], check=True)

    assert log.exists()


@pytest.mark.parametrize("state", [newer, foreign], ids=["newer", "foreign"])
def test_somebody_elses_file_is_not_repaired(state: Any, tmp_path: Path) -> None:
    """There is nothing wrong with it."""
    world = state(tmp_path)
    before = digest(world.path)

    with pytest.raises(StoreError):
        repair.repair(world.deps())
    assert digest(world.path) == before


def test_a_damaged_file_in_use_elsewhere_is_not_exchanged(tmp_path: Path, held: list[Holder]) -> None:
    """Refused before anything is copied."""
    world = corrupt(tmp_path)
    held.append(Holder(world.path, "SELECT count(*) FROM sessions"))

    with pytest.raises(StoreBusy, match="another process"):
        repair.repair(world.deps())
    assert list(backup.backup_folder(world.path).iterdir()) == []


def test_a_locked_file_is_waited_for_once(tmp_path: Path, held: list[Holder], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its triggers, its tables and its pages are read one after the other; each reader would wait as long as the first."""
    world = healthy(tmp_path)
    world.close()
    held.append(Holder(world.path, *LOCKS_OUT))
    connect, opened = files._connect, list[Path]()
    monkeypatch.setattr(files, "_BUSY_S", 0.02)
    monkeypatch.setattr(files, "_connect", lambda path, how: opened.append(path) or connect(path, how))

    with pytest.raises(StoreBusy, match="locked"):
        repair.diagnose(world.deps(None))
    assert opened == [world.path]


@pytest.mark.parametrize("table", ["conversations", "sessions"])
def test_messages_find_a_home_again(table: str, world: Home, tmp_path: Path) -> None:
    """A message whose conversation or session row is lost gets a new one."""
    world.raw("PRAGMA foreign_keys=OFF")
    world.raw(f"DELETE FROM {table}")
    world.close()
    fresh = tmp_path / "fresh.db"
    saved = files.salvage(world.path, fresh, repair.readable)
    notes = repair._relinked(fresh, saved)

    assert any("made up" in note for note in notes)
    assert files.counts(fresh)[table] == 1


def overwrite(world: Home, *names: str) -> None:
    """Noise over the first page of tables and indexes."""
    marks = ",".join("?" * len(names))
    roots = [row[0] for row in world.runtime.db.query(
        f"SELECT rootpage FROM sqlite_master WHERE name IN ({marks})", names)]  # fmt: skip
    assert len(roots) == len(names)
    world.close()
    with world.path.open("r+b") as file:
        for root in roots:
            file.seek((root - 1) * PAGE_BYTES)
            file.write(b"\xde\xad\xbe\xef" * (PAGE_BYTES // 4))


@pytest.mark.parametrize("table", ["meta", "health", "conversations", "blocks"])
def test_a_file_with_a_damaged_page_opens(table: str, world: Home) -> None:
    """Who needs what was there meets the damage; whether tables are lost is not worth refusing the rest for."""
    overwrite(world, table)
    world = world.restart()
    world.runtime.db.open()

    assert world.runtime.store.count() == 100
    assert repair.diagnose(world.deps(None)).damaged


def test_sessions_whose_rows_are_unreadable_keep_their_ids(world: Home) -> None:
    """The index over the ids has them, too: the host's next call goes on with what is stored."""
    world.say("hello", "there", session="s2")
    overwrite(world, "sessions")
    done = repair.repair(world.deps())
    found = world.runtime.sessions.find("s2")

    assert "2 sessions made up for messages whose own was unreadable" in done.notes
    assert found is not None
    assert found.conversation_id == 2
    assert [row.text for row in world.runtime.store.page("s2", after=0, limit=9)] == ["hello", "there"]
    world.say("hello", "there", "again", session="s2")
    assert world.runtime.store.count() == 103


def test_sessions_whose_ids_are_unreadable_get_some(world: Home) -> None:
    """Every message comes back, under ids that say where they are from; the report tells of it."""
    world.say("hello", "there", session="s2")
    overwrite(world, "sessions", "sqlite_autoindex_sessions_1")
    done = repair.repair(world.deps())

    assert any(note.startswith("2 ") and "`recovered-session-...`" in note for note in done.notes)
    assert world.runtime.store.count() == 102
    assert world.runtime.store.count("recovered-session-1") == 100
    assert [row.text for row in world.runtime.store.page("recovered-session-2", after=0, limit=9)] == ["hello", "there"]
    assert doctor(world.deps("recovered-session-2"), deep=True)["counts"]["fail"] == 0


def test_a_message_without_a_session_is_read_under_the_id_that_a_repair_gives(world: Home, tmp_path: Path) -> None:
    """What was noted of it before the repair is found after it."""
    world.raw("DELETE FROM sessions")
    before = world.runtime.store.heads_of([1])[1].session_id
    world.close()
    fresh = tmp_path / "fresh.db"
    repair._relinked(fresh, files.salvage(world.path, fresh, repair.readable))

    assert MessageStore(Database(fresh), world.runtime.index).count(before) == 100


def test_sources_of_a_leaf_are_found_again(world: Home, tmp_path: Path) -> None:
    """Its first and last message say which they were."""
    world.raw("DELETE FROM node_sources")
    world.close()
    fresh = tmp_path / "fresh.db"
    repair._relinked(fresh, files.salvage(world.path, fresh, repair.readable))

    assert files.counts(fresh)["node_sources"] == 10


# -- tables that another program changed -------------------------------------------------------------------
def made_anew(world: Home, table: str, *changes: tuple[str, str], end: str = "") -> None:
    """A table with the same rows and another text, as a tool for schemas makes it."""
    world.close()
    with closing(sqlite3.connect(world.path, isolation_level=None)) as raw:
        raw.execute("PRAGMA legacy_alter_table=ON")
        text = raw.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0] + end
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        names = ", ".join(row[1] for row in raw.execute(f"PRAGMA table_info({table})"))
        raw.execute(f"ALTER TABLE {table} RENAME TO theirs")
        raw.execute(text)
        raw.execute(f"INSERT INTO {table}({names}) SELECT {names} FROM theirs")
        raw.execute("DROP TABLE theirs")


def stored(world: Home) -> list[tuple[Any, ...]]:
    """Messages under their addresses, and whose they are."""
    sql = """SELECT store_id, seq, flags, envelope, session_id, c.principal FROM messages AS m
               JOIN sessions AS s USING(session_key) JOIN conversations AS c ON c.conversation_id = m.conversation_id
              ORDER BY store_id"""
    return world.runtime.db.query(sql)


_OTHER_KEYS = {
    "messages by their place": (
        "messages",
        ("INTEGER PRIMARY KEY AUTOINCREMENT", "INTEGER UNIQUE"),
        ("UNIQUE(conversation_id, seq)", "PRIMARY KEY(conversation_id, seq)"),
    ),
    "messages by their address": ("messages", (" AUTOINCREMENT", "")),
    "sessions by their name": (
        "sessions",
        ("INTEGER PRIMARY KEY AUTOINCREMENT", "INTEGER UNIQUE"),
        ("session_id TEXT NOT NULL UNIQUE", "session_id TEXT NOT NULL PRIMARY KEY"),
    ),
}


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("end", "more"),
    [(" WITHOUT ROWID", ""), ("\nwithout  rowid", "checked INTEGER"), (" WITHOUT ROWID", "checked AS (1)")],
    ids=["", "one column more", "one computed column more"],
)
@pytest.mark.parametrize("name", _OTHER_KEYS)
def test_rows_of_a_table_that_lies_in_its_key_keep_their_addresses(name: str, end: str, more: str, world: Home) -> None:
    """SQLite writes the columns of the key first, in whatever order the table names them; rows are older than a column."""
    table, *changes = _OTHER_KEYS[name]
    before = stored(world)
    made_anew(world, table, *changes, end=end)
    if more:
        world.raw(f"ALTER TABLE {table} ADD COLUMN {more}")
    world = world.restart()
    done = repair.repair(world.deps(None))

    assert "keys or checks" in done.diagnosis.damaged[0]
    assert stored(world) == before
    assert repair.repair(world.deps(None)).diagnosis.well


@pytest.mark.parametrize("end", ["", " WITHOUT ROWID"], ids=["", "in its key"])
def test_messages_that_came_without_an_address_get_one_behind_all_others(end: str, tmp_path: Path) -> None:
    """SQLite numbers them otherwise in a table with another key: that number is the address of an older one."""
    world = Home(tmp_path)
    world.say("one", "two")
    world.raw("UPDATE messages SET store_id = 4 - store_id")
    world.raw("UPDATE messages SET store_id = 4 WHERE store_id = 3")
    table, *changes = _OTHER_KEYS["messages by their place"]
    made_anew(world, table, *changes, end=end)
    world = world.restart()
    world.say("one", "two", "three", "four")
    repair.repair(world.deps(None))

    assert [row[:2] for row in stored(world)] == [(2, 2), (4, 1), (5, 3), (6, 4)]


def test_a_message_keeps_its_address_whatever_column_is_the_number_of_its_row(tmp_path: Path) -> None:
    """The row says nothing in that column: SQLite keeps it as the number."""
    world = Home(tmp_path)
    world.say("one", "two")
    world.raw("UPDATE messages SET store_id = store_id + 7")
    before = stored(world)
    made_anew(
        world,
        "messages",
        ("INTEGER PRIMARY KEY AUTOINCREMENT", "INTEGER UNIQUE"),
        ("seq INTEGER NOT NULL", "seq INTEGER PRIMARY KEY"),
    )
    world = world.restart()
    repair.repair(world.deps(None))

    assert stored(world) == before


_REFUSING = {
    "addresses that may be given again": ("messages", (" AUTOINCREMENT", "")),
    "a reference to nothing": ("messages", ("REFERENCES sessions(", "REFERENCES gone(")),
    "names that differ in case only are one": ("sessions", ("NOT NULL UNIQUE", "NOT NULL UNIQUE COLLATE NOCASE")),
    "whose it is, in any case": (
        "conversations",
        ("principal TEXT NOT NULL", "principal TEXT NOT NULL COLLATE NOCASE"),
    ),
    "one more column that is needed": ("nodes", ("model TEXT NOT NULL", "model TEXT NOT NULL, more TEXT NOT NULL")),
    "a time that is needed": ("nodes", ("earliest_at REAL", "earliest_at REAL NOT NULL")),
    "no number in place of stored JSON": (
        "messages",
        ("UNIQUE(conversation_id, seq) )", "UNIQUE(conversation_id, seq)) STRICT"),
    ),
    "a list of their own": ("messages", ("UNIQUE(conversation_id, seq)", "UNIQUE(conversation_id, seq), UNIQUE(seq)")),
    "one that is there is kept, and the new one dropped": (
        "messages",
        ("UNIQUE(conversation_id, seq)", "UNIQUE(conversation_id, seq) ON CONFLICT IGNORE"),
    ),
    "one that is there gives way": (
        "messages",
        ("store_id INTEGER PRIMARY KEY", "store_id INTEGER PRIMARY KEY ON CONFLICT REPLACE"),
    ),
    "summaries of another kind": ("nodes", ("'verbatim', 'provisional'", "'verbatim', 'theirs'")),
}


_INDEXES = {
    "an index of their own": "CREATE UNIQUE INDEX theirs ON messages(session_key, role)",
    "an index by a function of theirs": "CREATE INDEX theirs ON messages(told(role))",
    "an index in an order of theirs": "CREATE INDEX theirs ON messages(role COLLATE theirs)",
}


def indexed(world: Home, statement: str) -> None:
    """An index by another program, which knows a function and an order that SQLite does not."""
    world.close()
    with closing(sqlite3.connect(world.path)) as raw:
        raw.create_function("told", 1, str, deterministic=True)
        raw.create_collation("theirs", lambda one, other: (one > other) - (one < other))
        raw.execute(statement)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", [*_REFUSING, *_INDEXES])
def test_a_table_that_takes_other_rows_than_ours_is_named_and_made_as_it_was(name: str, tmp_path: Path) -> None:
    """Else messages stay in a stand-in for ever, or are taken for others."""
    world = Home(tmp_path)
    world.say("one", "two")
    before = stored(world)
    if name in _REFUSING:
        made_anew(world, *_REFUSING[name])
    else:
        indexed(world, _INDEXES[name])
    world = world.restart()
    found = next(each for each in doctor(world.deps())["checks"] if each["check"] == "schema")
    repair.repair(world.deps(None))

    assert (found["status"], "keys or checks" in found["detail"]) == ("fail", True)
    assert repair.repair(world.deps(None)).diagnosis.well
    assert stored(world) == before


_COLUMN = "ALTER TABLE messages ADD COLUMN"


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "statements",
    [
        (f"{_COLUMN} checked INTEGER",),
        (f"{_COLUMN} unique_id TEXT", "CREATE UNIQUE INDEX theirs ON messages(unique_id)"),
        (f"{_COLUMN} note TEXT COLLATE NOCASE",),
        (f"{_COLUMN} owner INTEGER REFERENCES conversations(conversation_id)",),
        (f"{_COLUMN} rank INTEGER CHECK(rank > 0 /* CHECK( */)",),
        (f"{_COLUMN} lang TEXT NOT NULL DEFAULT 'CHECK(,'",),
        (f'{_COLUMN} "order, CHECK (" TEXT COLLATE RTRIM',),
        (f"{_COLUMN} shown TEXT AS (role || '!')",),
    ],
    ids=["plain", "unique", "in an order", "a reference", "checked", "needed", "a name of many words", "computed"],
)
def test_a_column_of_another_program_is_no_damage_whatever_it_takes(statements: tuple[str, ...], world: Home) -> None:
    """Our rows have nothing in it. Backups of such a file are good."""
    for each in statements:
        world.raw(each)
    world = world.restart()
    made = backup.back_up(world.deps())

    assert repair.diagnose(world.deps()).well
    assert doctor(world.deps(), deep=True)["overall"] == "healthy"
    assert files.faults(made.path) == ()


@pytest.mark.parametrize(
    "columns",
    ["word TEXT COLLATE theirs PRIMARY KEY", "word TEXT CHECK(told(word))"],
    ids=["its order", "its function"],
)
def test_another_programs_table_that_sqlite_cannot_check_is_no_damage(columns: str, world: Home) -> None:
    """It said "no such collation sequence", and no backup could be made. Ours are checked as ever."""
    indexed(world, f"""CREATE TABLE "my ""words" ({columns})""")
    world = world.restart()
    found, made = doctor(world.deps(), deep=True), backup.back_up(world.deps())

    assert (found["overall"], files.faults(made.path)) == ("healthy", ())
    overwrite(world, "health")
    assert not repair.diagnose(world.deps()).well


def test_another_programs_table_of_the_name_of_ours_is_in_nobodys_way(world: Home) -> None:
    """We make ours on demand only."""
    before = stored(world)
    world.raw("CREATE TABLE vectors(word TEXT)")
    world = world.restart()

    assert repair.repair(world.deps()).diagnosis.well
    overwrite(world, "health")
    repair.repair(world.deps())
    assert repair.repair(world.deps()).diagnosis.well
    assert stored(world) == before


def test_a_repair_takes_no_rows_from_another_programs_copy_of_a_table(world: Home, tmp_path: Path) -> None:
    """The copy is older: what it says was taken back or redacted since."""
    before = stored(world)
    world.raw("CREATE TABLE copy AS SELECT * FROM messages")
    world.raw('UPDATE copy SET flags = 1, envelope = CAST(x\'00\' || \'{"role":"user","content":"old"}\' AS BLOB)')
    made_anew(world, "messages", ("tokens INTEGER", "tokens  INTEGER"))  # behind the copy
    overwrite(world, "health")
    repair.repair(world.deps())

    assert stored(world) == before


def test_a_column_that_is_computed_and_kept_moves_no_other(world: Home) -> None:
    """SQLite does not list it among the columns, and it lies in the rows."""
    before = stored(world)
    made_anew(world, "messages", ("role TEXT NOT NULL,", "a AS (role) STORED, b AS (role), role TEXT NOT NULL,"))
    overwrite(world, "health")
    repair.repair(world.deps())

    assert stored(world) == before


def test_a_file_without_a_map_of_its_pages_is_salvaged_as_one_with(tmp_path: Path) -> None:
    """Another program wrote it anew; what was deleted since does not come back."""
    world = healthy(tmp_path)
    world.say(*(f"to be purged {n} " * 50 for n in range(50)), session="s2")
    world.close()
    with closing(sqlite3.connect(world.path, isolation_level=None)) as raw:
        for sql in ("journal_mode=DELETE", "auto_vacuum=NONE"):
            raw.execute(f"PRAGMA {sql}")
        raw.execute("VACUUM")
        raw.execute("PRAGMA secure_delete=OFF")
        raw.execute("DELETE FROM messages WHERE session_key = 2")
    world = world.restart()
    before = stored(world)
    overwrite(world, "sessions")
    repair.repair(world.deps())

    assert [row for row in stored(world) if row[4] == "s1"] == before


# -- rotate ----------------------------------------------------------------------------------------------
def test_a_preview_changes_nothing(world: Home) -> None:
    """100 messages, 64 of them the tail."""
    done = rotate.preview(world.deps())

    assert (done.status, done.leaving, done.tail) == ("preview", 36 - 10, 64)
    assert Orders(world.runtime.db).rotation("s1") is None
    assert not backup.rotate_path(world.path).exists()


def test_a_rotation_is_ordered_after_its_backup(world: Home) -> None:
    """And the status shows both."""
    done = rotate.apply(world.deps())
    said = status(world.deps())

    assert (done.status, done.backup) == ("ordered", backup.rotate_path(world.path))
    assert Orders(world.runtime.db).rotation("s1") is not None
    assert said["last_rotate_at"] == backup.rotate_path(world.path).stat().st_mtime
    assert said["lifecycle"]["rotate_ordered"]


def test_a_second_rotation_is_a_noop_and_keeps_the_backup(world: Home) -> None:
    """Safe to retry: the last good backup survives."""
    rotate.apply(world.deps())
    before = backup.rotate_path(world.path).stat()
    done = rotate.apply(world.deps())
    after = backup.rotate_path(world.path).stat()

    assert (done.status, done.backup) == ("noop", None)
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


def test_nothing_before_the_tail_is_a_noop(world: Home) -> None:
    """A prompt that shows 64 raw messages is as short as a rotation makes it."""
    world.assembly([world.node(*range(1, 37))], list(range(37, 101)), 100)

    assert rotate.apply(world.deps()).status == "noop"
    assert not backup.rotate_path(world.path).exists()


def test_a_rotation_deletes_nothing(world: Home) -> None:
    """And asks no model: it is an order."""
    rotate.apply(world.deps())

    assert world.runtime.store.count() == 100
    assert doctor(world.deps())["overall"] == "healthy"


def test_rotating_without_a_session_is_refused(world: Home) -> None:
    """A rotation is about one session."""
    with pytest.raises(BadRequest, match="no session"):
        rotate.apply(world.deps(None))


# -- clean -----------------------------------------------------------------------------------------------
@pytest.fixture
def noisy(tmp_path: Path) -> Home:
    """A session that a pattern names, and one that it does not."""
    world = Home(tmp_path, ignore_session_patterns="cron:*", doctor_clean_apply_enabled="true")
    world.say("keep", "this", session="s1")
    world.say("cron ran", "fine", "cron ran", "fine", session="job", platform="cron")
    return world


def test_only_sessions_that_a_pattern_names_are_junk(noisy: Home) -> None:
    """The rest is listed at most."""
    found = clean.candidates(noisy.deps())

    assert [(each.sessions, each.messages, each.pattern) for each in found.junk] == [(("job",), 4, "cron:*")]


def test_cleaning_needs_its_permission(tmp_path: Path) -> None:
    """Deleting is off unless an operator switched it on."""
    world = Home(tmp_path, ignore_session_patterns="cron:*")
    world.say("cron ran", "fine", session="job", platform="cron")

    with pytest.raises(BadRequest, match="LCM_DOCTOR_CLEAN_APPLY_ENABLED"):
        clean.clean(world.deps())
    assert world.runtime.store.count() == 2


def test_cleaning_backs_up_and_removes_exactly_the_junk(noisy: Home) -> None:
    """No row is left pointing at one that is gone, and totals and searches agree."""
    done = clean.clean(noisy.deps())

    assert done.removed_messages == 4
    assert done.backup is not None
    assert files.counts(done.backup)["messages"] == 6
    assert noisy.runtime.store.count() == 2
    assert explain.search(noisy.deps(), "cron")["results"] == []
    assert status(noisy.deps())["store"]["total_messages"] == 2
    assert noisy.runtime.db.query("PRAGMA foreign_key_check") == []
    assert doctor(noisy.deps(), deep=True)["overall"] == "healthy"


def test_nothing_of_a_removed_conversation_is_left(noisy: Home) -> None:
    """In no table that knows conversations, whatever a later release adds."""
    job = noisy.runtime.find_session("job")
    assert job is not None
    gone = job.conversation_id
    rows = [row.store_id for row in noisy.runtime.store.page("job", after=0, limit=9)]
    node = noisy.node(*rows[:2], conversation=gone)
    noisy.runtime.dag.publish(gone, "job", [node.node_id], rows[2:], last_seq=4, last_pos=4.0, now=noisy.now)
    noisy.runtime.sessions.carry(gone, [node.node_id])
    with noisy.runtime.db.transaction():
        noisy.runtime.db.execute("INSERT INTO blocks(conversation_id, data) VALUES (?, x'00')", (gone,))
        noisy.runtime.db.execute("INSERT OR IGNORE INTO ledger(conversation_id, store_id) VALUES (?, 1)", (gone,))
        noisy.runtime.db.execute(
            "INSERT INTO archives(handle, conversation_id, session_id, store_ids, first_index, last_index, messages, summary, "
            "given, preview, chars, tokens, state, created_at, changed_at) VALUES ('a', ?, 'job', '[]', 0, 0, 0, '', 0, '', 0, "
            "0, 'archived', 0, 0)",
            (gone,),
        )
    tables = [row[0] for row in noisy.runtime.db.query(
        "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' "
        "AND c.name = 'conversation_id'"
    )]  # fmt: skip
    before = {name: rows_of(noisy, name, gone) for name in tables}
    clean.clean(noisy.deps())

    assert all(before.values()), "a table without a row shows nothing"
    assert {name: rows_of(noisy, name, gone) for name in tables} == dict.fromkeys(tables, 0)


def rows_of(world: Home, table: str, conversation: int) -> int:
    """Rows of a table that belong to a conversation."""
    return int(world.runtime.db.query(f"SELECT count(*) FROM {table} WHERE conversation_id = ?", (conversation,))[0][0])


def test_cleaning_twice_is_cleaning_once(noisy: Home) -> None:
    """The second time makes no backup."""
    clean.clean(noisy.deps())
    noisy.now += 1
    assert clean.clean(noisy.deps()).backup is None
    assert len(backup.backups(noisy.deps())) == 1


def terms(world: Home) -> set[str]:
    """The vocabulary of the search index."""
    return {term for (term,) in world.runtime.db.query("SELECT term FROM message_terms")}


def test_words_of_removed_sessions_leave_the_index(noisy: Home) -> None:
    """Whatever the size of the archive: they could be read out of the vocabulary."""
    assert {"cron", "keep"} <= terms(noisy)
    clean.clean(noisy.deps())

    assert "cron" not in terms(noisy)
    assert "keep" in terms(noisy)


def test_words_that_are_left_in_the_index_are_found_and_removed(noisy: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where cleaning was killed before the index was made anew, and in archives of before."""
    monkeypatch.setattr(clean, "reindex", stop)
    with pytest.raises(KeyboardInterrupt):
        clean.clean(noisy.deps())
    monkeypatch.undo()
    assert "cron" in terms(noisy)
    said = ["removed or rewritten messages whose words are still in the search index: 4"]
    assert [each["detail"] for each in checks(noisy, "warn")] == said
    assert [noisy.runtime.index.removed(deep=deep) for deep in (False, True)] == [4, 4]
    assert repair.repair(noisy.deps()).diagnosis.indexes == (*said,)

    assert "cron" not in terms(noisy)
    assert [noisy.runtime.index.removed(deep=deep) for deep in (False, True)] == [0, 0]


def stop(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.few(2)
@pytest.mark.parametrize("steps", range(1, 6))
def test_a_killed_cleaning_goes_on(steps: int, noisy: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large session goes in parts, its newest messages first: at no point is one missing in between."""
    noisy.say("other job", "well", session="job2", platform="cron")
    monkeypatch.setattr(clean, "_AT_ONCE", 1)
    plain, done = files.rewrite, []

    def rewrite(path: Path, statements: Any) -> int:
        if len(done) == steps:
            raise KeyboardInterrupt
        done.append(statements)
        return plain(path, statements)

    monkeypatch.setattr(files, "rewrite", rewrite)
    with pytest.raises(KeyboardInterrupt):
        clean.clean(noisy.deps())
    assert noisy.runtime.store.count() == 8 - steps
    assert noisy.runtime.db.query("PRAGMA foreign_key_check") == []
    assert checks(noisy, "fail") == []
    monkeypatch.undo()
    noisy.now += 1
    clean.clean(noisy.deps())

    assert noisy.runtime.store.count() == 2
    assert doctor(noisy.deps(), deep=True)["overall"] == "healthy"
    assert status(noisy.deps())["store"]["total_messages"] == 2


def checks(world: Home, status: str) -> list[Any]:
    """What the deep doctor found."""
    return [each for each in doctor(world.deps(), deep=True)["checks"] if each["status"] == status]


def test_the_session_typed_in_is_never_junk(noisy: Home) -> None:
    """It would go on without its conversation."""
    found = clean.candidates(noisy.deps("job"))

    assert (found.junk, found.spared) == ((), ("job",))


def branch_of(world: Home, name: str) -> Session:
    """A session that inherits the messages of another one."""
    parent = world.runtime.sessions.find(name)
    return world.runtime.sessions.open("branch", now=world.now, parent=parent, origin="branch", fork_seq=2)


def test_what_others_rest_on_is_spared(noisy: Home) -> None:
    """A branch shows its parent's messages."""
    branch_of(noisy, "job")

    assert clean.candidates(noisy.deps()).spared == ("job",)


# -- sources ---------------------------------------------------------------------------------------------
def test_blank_sources_become_unknown(world: Home) -> None:
    """After a backup; the second time does nothing."""
    world.raw("UPDATE messages SET source = ' ' WHERE store_id <= 5")
    count, path = clean.fill_sources(world.deps())

    assert (count, path in [each.path for each in backup.all_backups(world.path)]) == (5, True)
    assert clean.fill_sources(world.deps()) == (0, None)
    assert world.runtime.store.heads_of([1])[1].source == "unknown"


def test_others_store_while_sources_are_written(world: Home) -> None:
    """Some rows in a transaction; killed, what was written stays and the same command writes the rest."""
    world.say(*(f"message {n}" for n in range(600)), session="s9")
    world.raw("UPDATE messages SET source = ' '")
    total = Survey(world.runtime.db).blank_sources()
    left: list[int] = []

    def looks(what: str, _done: int, _total: int) -> None:
        if what == "writing sources":
            left.append(Survey(world.runtime.db).blank_sources())
        if len(left) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clean.fill_sources(world.deps(), looks)
    assert left == [total, total - 250]
    assert clean.fill_sources(world.deps())[0] == total - 250


# -- dissolve --------------------------------------------------------------------------------------------
def test_dissolving_is_an_order_that_can_be_taken_back(world: Home) -> None:
    """Nothing is deleted."""
    explain.dissolve(world.deps(), "sum_1", apply=False)
    assert Orders(world.runtime.db).dissolved() == frozenset()
    explain.dissolve(world.deps(), "sum_1", apply=True)
    assert Orders(world.runtime.db).dissolved() == {1}
    explain.dissolve(world.deps(), "sum_1", apply=False, undo=True)
    assert Orders(world.runtime.db).dissolved() == frozenset()


@pytest.mark.parametrize("address", ["msg_1", "sum_99", "7", "sum_x"])
def test_only_summaries_that_exist_can_be_dissolved(address: str, world: Home) -> None:
    """The answer names the address."""
    with pytest.raises(BadRequest, match=address):
        explain.dissolve(world.deps(), address, apply=True)


def test_readers_elsewhere_do_not_hinder_a_rotation(world: Home, held: list[Holder]) -> None:
    """It writes one row."""
    held.append(Holder(world.path, *READS))

    assert rotate.apply(world.deps()).status == "ordered"


def test_a_repair_counts_what_an_operator_knows_by_name(world: Home) -> None:
    """Messages, summaries, sessions, conversations; the rows of other tables together."""
    world.close()
    world.raw("DROP TABLE node_sources")
    said = answer("doctor repair apply", world.restart().deps(None, trusted=True)).text

    assert re.search(r"^Saved: 100 messages, 1 summary, 1 session, 1 conversation, \d+ other rows$", said, re.MULTILINE)
    assert "Unreadable: nothing" in said
