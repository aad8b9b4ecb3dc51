"""A database that cannot be used: the conversation goes on in a stand-in, and is whole when it works again (P6, P10)."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from worlds.breaking import Host, a_folder, lost_or_doubled, valid
from worlds.earlier import used
from worlds.process import WAIT_S, Chat, chat, reload, texts, tokens_of

from hermes_lcm import runtime
from hermes_lcm.command import OK
from hermes_lcm.config import Config
from hermes_lcm.errors import StoreError
from hermes_lcm.importers import adopt, standby
from hermes_lcm.storage import connection
from hermes_lcm.storage import standby as copies
from hermes_lcm.storage.opened import Left

Mend = Callable[[], None]


def locked(db: Path) -> Mend:
    other = sqlite3.connect(db, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other.close


def damaged(db: Path) -> Mend:
    blob = db.read_bytes()
    broken = bytearray(blob)
    for at in range(4096, len(broken), 4096):
        broken[at : at + 1024] = bytes(range(256)) * 4
    db.write_bytes(broken)
    return lambda: replaced(db, blob)


def no_schema(db: Path) -> Mend:
    blob = db.read_bytes()
    db.write_bytes(blob[:100] + b"\xff" * 924 + blob[1024:])
    return lambda: replaced(db, blob)


def no_header(db: Path) -> Mend:
    blob = db.read_bytes()
    db.write_bytes(b"\0" * 100 + blob[100:])
    return lambda: replaced(db, blob)


def foreign(db: Path) -> Mend:
    kept = db.with_name("kept")
    db.rename(kept)
    with sqlite3.connect(db) as other:
        other.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, body TEXT)")
    other.close()
    return lambda: kept.replace(db) and None


def newer(db: Path) -> Mend:
    def version(number: int) -> None:
        with sqlite3.connect(db) as other:
            other.execute(f"PRAGMA user_version={number}")
        other.close()

    version(102)
    return lambda: version(101)


def triggered(db: Path) -> Mend:
    def run(sql: str) -> None:
        with sqlite3.connect(db) as other:
            other.execute(sql)
        other.close()

    run("CREATE TRIGGER t AFTER INSERT ON messages BEGIN DELETE FROM messages; END")
    return lambda: run("DROP TRIGGER t")


def no_more_addresses(db: Path) -> Mend:
    """A row at the last address there can be: SQLite says that the disk is full."""
    last = 9223372036854775807

    def move(there: int, here: int) -> None:
        with sqlite3.connect(db) as other:
            other.execute("UPDATE messages SET store_id = ? WHERE store_id = ?", (here, there))
        other.close()

    move(5, last)
    return lambda: move(last, 5)


def a_pipe(db: Path) -> Mend:
    """Whoever opens it to read waits for a writer."""
    kept = db.with_name("kept")
    db.rename(kept)
    os.mkfifo(db)
    return lambda: kept.replace(db) and None


def odd(db: Path, wrong: str, right: str) -> Mend:
    """A value by hand: SQLite takes anything for a number."""

    def run(sql: str) -> None:
        with closing(sqlite3.connect(db, isolation_level=None)) as other:
            other.execute(sql)

    run(wrong)
    return lambda: run(right)


def a_flag_of_text(db: Path) -> Mend:
    return odd(
        db, "UPDATE messages SET flags = 'x' WHERE store_id = 5", "UPDATE messages SET flags = 0 WHERE store_id = 5"
    )


def the_last_number(db: Path) -> Mend:
    last = "UPDATE messages SET seq = 9223372036854775807 WHERE store_id = 5"
    return odd(db, last, "UPDATE messages SET seq = 5 WHERE store_id = 5")


def replaced(db: Path, blob: bytes) -> None:
    fresh = db.with_name("fresh")
    fresh.write_bytes(blob)
    fresh.chmod(0o600)
    fresh.replace(db)


FAULTS = [
    locked, damaged, no_schema, no_header, foreign, newer, triggered, no_more_addresses, a_folder, a_pipe, a_flag_of_text,
    the_last_number,
]  # fmt: skip


class Outage:
    """A host whose database fails in the middle of a compacted conversation."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.said = Chat()
        self.host = Host(home)
        self.live = Chat()
        self.largest = 0

    @property
    def db(self) -> Path:
        return self.home / "lcm.db"

    def turns(self, count: int, first: int) -> None:
        """So many turns as the host goes through them; the list is compacted where the engine wants it."""
        for n in range(first, first + count):
            new = chat().turns(1, first=n)
            self.said += new
            self.live = Chat([*self.live, *new])
            self.host.says(self.live)
            size = tokens_of(self.live)
            if self.host.engine.should_compress(size):
                self.live = Chat(self.host.compress(self.live))
            assert valid(self.live)
            self.largest = max(self.largest, tokens_of(self.live))

    def standbys(self) -> list[Path]:
        return sorted(self.home.glob("lcm.standby-*.db"))

    def is_over(self) -> None:
        """No stand-in waits; every message is stored once, and is in the list or under one summary."""
        assert self.standbys() == []
        assert lost_or_doubled(self.host, self.said) == ([], [])
        assert self.host.gaps(self.live) == (0, 0)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Outage:
    """What was said before it failed: each test has a copy of the home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HERMES_HOME", str(home := tmp_path_factory.mktemp("before")))
        made = Outage(home)
        made.turns(40, first=0)
        made.host.close()
    return made


@pytest.fixture
def outage(before: Outage, hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> Outage:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 50)  # no lock here is given back while somebody waits for it
    made = Outage(Path(shutil.copytree(before.home, hermes_home, dirs_exist_ok=True)))
    made.said, made.live, made.largest = before.said.copy(), before.live.copy(), before.largest
    made.host.says(made.live)  # this process knows it
    made.host.close()
    return made


@pytest.mark.few(4)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_an_outage_loses_and_doubles_nothing(outage: Outage, fault: Callable[[Path], Mend]) -> None:
    """Requests fit, status tells it, and every message is there once, in order, when the database works again."""
    mend = fault(outage.db)
    outage.turns(12, first=100)
    assert outage.largest <= 5_333
    assert "stand-in" in outage.host.topics()
    assert len(outage.standbys()) == 1
    answer = json.loads(outage.host.tool("lcm_grep", query="question 102"))
    assert "question 102" in json.dumps(answer)

    mend()
    outage.turns(1, first=900)
    outage.is_over()
    assert outage.host.topics() == set()
    order = [texts([row.stored_json])[0] for row in thread(outage.host)]
    assert order == texts(outage.said)
    assert "healthy" in outage.host.command("doctor deep").text


@pytest.mark.parametrize("fault", [damaged, no_schema])
def test_totals_after_an_outage_count_rows(outage: Outage, fault: Callable[[Path], Mend]) -> None:
    """Not the addresses between those of the database and those of a stand-in that could not read them there."""
    mend = fault(outage.db)
    outage.turns(12, first=100)
    mend()
    outage.turns(1, first=900)
    host = outage.host
    summaries = sum(len(nodes) for nodes in host.runtime.dag.node_batches())

    assert max(row.store_id for row in thread(host)) > 10**9
    assert f"{len(outage.said)} messages, {summaries} summaries;" in host.command("status").text


def test_a_repair_after_an_outage_misses_only_what_was_lost(outage: Outage) -> None:
    """Not the addresses that no message ever had."""
    outage.host.close()
    mend = damaged(outage.db)
    outage.turns(1, first=100)
    mend()
    outage.turns(1, first=900)
    outage.host.close()
    blob = bytearray(outage.db.read_bytes())
    blob[4 * 4096 : 4 * 4096 + 1024] = bytes(range(256)) * 4
    replaced(outage.db, blob)
    outage.host = outage.host.next()
    told = outage.host.command("doctor repair apply").text

    assert "Unreadable: 2 summaries\n" in told
    assert "addresses" not in told
    assert "FAILED" not in outage.host.command("doctor").text


DROPS = [
    "BEFORE INSERT ON messages BEGIN SELECT raise(IGNORE); END",
    "AFTER INSERT ON messages BEGIN UPDATE messages SET pos = 0.5 WHERE store_id = new.store_id; END",
]


@pytest.mark.parametrize("does", DROPS, ids=["drops rows", "moves rows"])
def test_a_trigger_that_comes_while_the_file_is_in_use_is_noticed(outage: Outage, does: str) -> None:
    """By the next write; until it is gone, something stands in."""
    outage.turns(1, first=100)
    mend = odd(outage.db, f"CREATE TRIGGER t {does}", "DROP TRIGGER t")
    outage.turns(2, first=200)
    assert "stand-in" in outage.host.topics()
    mend()
    outage.turns(1, first=900)

    assert outage.host.topics() == set()
    assert [texts([row.stored_json])[0] for row in thread(outage.host)] == texts(outage.said)


def test_a_number_that_is_none_is_repaired(outage: Outage) -> None:
    """The row is left out, and named; the rest is there, with what was said meanwhile."""
    a_flag_of_text(outage.db)
    outage.turns(2, first=100)
    assert "number that is none" in outage.host.command("doctor").text
    outage.host.close()
    outage.host = outage.host.next()
    assert outage.host.command("doctor repair apply").code == 0
    outage.turns(1, first=900)
    outage.host.command("doctor accept apply")

    assert len(lost_or_doubled(outage.host, outage.said)[0]) <= 1
    assert outage.host.topics() == set()
    assert "FAILED" not in outage.host.command("doctor deep").text


def test_a_summary_whose_depth_is_none_is_repaired(outage: Outage) -> None:
    """Every message stays; what the summary covered is covered anew."""
    odd(outage.db, "UPDATE nodes SET depth = 'x' WHERE node_id = 1", "")
    outage.turns(12, first=100)
    told = outage.host.command("doctor").text
    outage.host.close()
    outage.host = outage.host.next()
    repaired = outage.host.command("doctor repair apply")
    outage.turns(12, first=900)

    assert "nodes: 1 with a number that is none" in told
    assert repaired.code == 0, repaired.text
    assert lost_or_doubled(outage.host, outage.said) == ([], [])
    assert outage.host.topics() == set()
    assert "FAILED" not in outage.host.command("doctor deep").text


def thread(host: Host) -> list[Any]:
    session = host.runtime.session(host.session_id)
    return list(
        host.runtime.store.rows([item.store_id for item in host.runtime.ingest.transcripts.expected(session, None)])
    )


CLOSER = """
import sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("create table if not exists zz(i)")
c.execute("drop table zz")
c.close()
"""


def cancel_locks(db: Path, *endings: str) -> None:
    """What another plugin does that opens and closes the files, and then another process that is the last to close them."""
    for ending in ("", *endings):
        Path(f"{db}{ending}").open("rb").close()
    subprocess.run([sys.executable, "-c", CLOSER, str(db)], check=True)


def remove_log(db: Path) -> None:
    Path(f"{db}-wal").unlink(missing_ok=True)


def remove_log_and_index(db: Path) -> None:
    for ending in ("-wal", "-shm"):
        Path(f"{db}{ending}").unlink(missing_ok=True)


def delete(db: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        Path(f"{db}{ending}").unlink(missing_ok=True)


def replace_by_nothing(db: Path) -> None:
    """By an empty file."""
    delete(db)
    db.touch(mode=0o600)


def replace_by_older(db: Path) -> None:
    """By a copy of its first half: a backup that somebody put back by hand."""
    older = db.with_name("older")
    with closing(sqlite3.connect(db)) as now, closing(sqlite3.connect(older)) as copy:
        now.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")
    older.chmod(0o600)
    delete(db)
    older.replace(db)


BEHIND_US = [
    cancel_locks, lambda db: cancel_locks(db, "-shm"), remove_log, remove_log_and_index, delete, replace_by_nothing,
    replace_by_older,
]  # fmt: skip
NAMES = ["locks", "locks of both files", "log", "log and index", "deleted", "emptied", "older"]


@pytest.mark.parametrize("act", BEHIND_US, ids=NAMES)
def test_a_file_that_is_changed_behind_us_loses_nothing(outage: Outage, act: Callable[[Path], None]) -> None:
    """Noticed by the next use, told, and written again, every time that it happens."""
    outage.host.close()
    for n in range(3):
        outage.turns(3, first=100 + 10 * n)
        act(outage.db)
    outage.turns(3, first=200)

    assert lost_or_doubled(outage.host, outage.said) == ([], [])
    assert outage.host.gaps(outage.live) == (0, 0)
    assert outage.host.topics() <= {"database file"}
    assert [texts([row.stored_json])[0] for row in thread(outage.host)] == texts(outage.said)
    outage.host.runtime.ended()
    assert outage.host.topics() == set()
    assert "FAILED" not in outage.host.command("doctor deep").text


def test_what_is_said_while_another_plugin_keeps_the_removed_index_open_is_merged(outage: Outage) -> None:
    """The log is removed under both: as long as the other one is there, its index is all that SQLite gives this process."""
    outage.turns(2, first=100)
    with closing(sqlite3.connect(outage.db)) as other:
        other.execute("SELECT count(*) FROM meta").fetchall()
        remove_log_and_index(outage.db)
        outage.turns(12, first=200)
        assert "stand-in" in outage.host.topics()
    for n in range(60):  # it is asked now and then whether the file works again
        outage.turns(1, first=300 + n)
        if not outage.standbys():
            break
        time.sleep(0.1)

    assert outage.largest <= 5_333
    assert outage.standbys() == []
    assert lost_or_doubled(outage.host, outage.said) == ([], [])
    assert [texts([row.stored_json])[0] for row in thread(outage.host)] == texts(outage.said)
    assert "FAILED" not in outage.host.command("doctor deep").text


@pytest.mark.few(3)
@pytest.mark.parametrize("fault", [locked, damaged, no_header, a_folder])
@pytest.mark.parametrize("shown", [True, False])
def test_what_is_taken_back_in_an_outage_stays_taken_back(
    outage: Outage, fault: Callable[[Path], Mend], shown: bool
) -> None:
    """Whether the stand-in has a copy of it, or saw it in a list only, or never saw it."""
    outage.turns(2, first=100)
    outage.host.close()
    mend = fault(outage.db)
    if shown:
        outage.host.says(outage.live)
    outage.live = Chat(outage.live[:-2])
    outage.turns(2, first=200)
    mend()
    outage.host.runtime.standby._not_before = 0.0
    outage.turns(1, first=300)

    outage.is_over()
    assert "question 101" not in str(texts(row.stored_json for row in thread(outage.host)))


def test_a_session_that_could_not_begin_is_no_trouble_once_it_is_stored(outage: Outage) -> None:
    """The file is mended before anything is said in the new process."""
    outage.host.close()
    mend = no_header(outage.db)
    outage.host = Host(outage.home)
    before = outage.host.topics()
    mend()
    outage.turns(1, first=100)

    assert ("session start" in before, outage.host.topics()) == (True, set())


def test_the_user_is_told_once_that_it_begins_and_once_that_it_is_over(outage: Outage) -> None:
    """One line with the user's next message."""

    def told() -> str:
        live = Chat([*outage.live, {"role": "user", "content": "and now?"}])
        said = outage.host.hooks.pre_llm_call(session_id="s", conversation_history=live, platform="cli")
        return said["context"] if said else ""

    assert told() == ""
    outage.host.close()
    mend = newer(outage.db)
    outage.turns(1, first=300)
    assert "cannot be used" in told()
    assert told() == ""
    mend()
    assert "works again" in told()
    assert told() == ""


def no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby, "stand_in", lambda *_: Path("/proc/none.db"))


@pytest.mark.parametrize("more", [0, 5, 6])
def test_memory_is_left_for_a_file_as_soon_as_there_can_be_one(
    outage: Outage, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """Also while the database cannot be used: a process that is killed then has lost nothing.

    With so many turns more, memory compacts, and the number of its prompt is one that the database gave out.
    """
    outage.turns(more, first=60)
    outage.host.close()
    mend = damaged(outage.db)
    with monkeypatch.context() as nowhere:
        no_file(nowhere)
        outage.turns(3, first=100)
        assert outage.standbys() == []
    outage.host.runtime.standby._not_before = outage.host.runtime.standby._leaves_at = 0.0
    outage.turns(3, first=110)
    assert len(outage.standbys()) == 1
    mend()
    outage.turns(1, first=120)

    assert lost_or_doubled(outage.host, outage.said) == ([], [])
    assert outage.host.gaps(outage.live) == (0, 0)


def test_memory_that_cannot_be_left_yet_keeps_what_it_has(outage: Outage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try opens another file; what is in memory lives as long as a connection to it."""
    mend = damaged(outage.db)
    with monkeypatch.context() as nowhere:
        no_file(nowhere)
        for n in range(12):
            outage.turns(1, first=100 + n)
            outage.host.runtime.standby._not_before = outage.host.runtime.standby._leaves_at = 0.0
    mend()
    outage.turns(1, first=200)

    assert lost_or_doubled(outage.host, outage.said) == ([], [])
    assert outage.host.gaps(outage.live) == (0, 0)


def test_a_file_system_without_locks_holds_up_one_turn_and_not_each(
    outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite asks for a lock for ten seconds each time; as soon as there are some again, memory is merged."""
    asked = list[str]()

    def connect(name: Any, *args: Any, **facts: Any) -> sqlite3.Connection:
        if "memory" in str(name):
            return plain(name, *args, **facts)
        asked.append(name)
        error = sqlite3.OperationalError("locking protocol")
        error.sqlite_errorcode = sqlite3.SQLITE_PROTOCOL
        raise error

    def lockf(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    plain = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect)
        patch.setattr(fcntl, "lockf", lockf)
        outage.turns(1, first=100)
        once = len(asked)
        outage.turns(3, first=101)
        told = {each.message for each in outage.host.runtime.health.problems(may_open=False)}
    outage.turns(1, first=104)

    assert 0 < once == len(asked)
    assert any("grants no locks" in each for each in told)
    outage.is_over()


def test_nobody_takes_a_conversation_for_copied_that_an_earlier_stand_in_had(
    outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread that looks while the next stand-in is begun waits until it is."""
    mend = locked(outage.db)
    outage.turns(1, first=100)
    mend()
    outage.turns(1, first=101)
    mend, plain, waits = locked(outage.db), connection.Database.open, list[bool]()
    another = threading.Thread(target=lambda: outage.host.runtime.standby.copy("s"), daemon=True)

    def opened(db: Any) -> None:
        if db.stands_in and not waits:
            another.start()
            another.join(0.2)
            waits.append(another.is_alive())
        plain(db)

    monkeypatch.setattr(connection.Database, "open", opened)
    outage.turns(1, first=102)
    another.join(WAIT_S)
    mend()
    outage.turns(1, first=103)

    assert waits == [True]
    outage.is_over()


def test_nobody_takes_a_conversation_for_copied_while_it_is(outage: Outage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second thread of its session waits for the first: what it stored meanwhile would be there twice after the merge."""
    mend, plain, waits = locked(outage.db), copies.copy_session, list[bool]()
    another = threading.Thread(target=lambda: outage.host.runtime.standby.copy("s"), daemon=True)

    def copied(*args: Any) -> Any:
        if not waits:
            another.start()
            another.join(0.2)
            waits.append(another.is_alive())
        return plain(*args)

    monkeypatch.setattr(copies, "copy_session", copied)
    outage.turns(1, first=100)
    another.join(WAIT_S)
    mend()
    outage.turns(1, first=101)

    assert waits == [True]
    outage.is_over()


def test_two_profiles_in_memory_see_nothing_of_each_other(
    hermes_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process serves both, and neither can write a file: each stores what is said in it, and only that."""
    no_file(monkeypatch)
    said = [chat().turns(2, first=700), chat().turns(3, first=800)]
    profiles = [runtime.PROCESS.at(home) for home in (hermes_home, tmp_path / "other")]
    for profile, messages in zip(profiles, said, strict=True):
        profile.path.mkdir(parents=True)
        profile.ingest_list("s", messages)

    assert [profile.store.count() for profile in profiles] == [len(messages) for messages in said]
    for profile in profiles:
        profile.path.rmdir()
        profile.ingest_list("s", said[profiles.index(profile)])
        assert not profile.db.stands_in
    assert [profile.store.count() for profile in profiles] == [len(messages) for messages in said]


@pytest.mark.parametrize("act", [delete, replace_by_nothing], ids=["deleted", "emptied"])
def test_a_file_that_goes_while_something_stands_in_for_it_is_saved(
    outage: Outage, act: Callable[[Path], None]
) -> None:
    """Nobody works with it then; sessions of which the stand-in has no copy are not lost for that."""
    old = chat().turns(3, first=900)
    outage.turns(1, first=90)
    outage.host.hooks.pre_api_request(session_id="old", conversation_history=old, platform="cli")
    outage.said += old
    mend = locked(outage.db)
    outage.turns(2, first=100)
    assert len(outage.standbys()) == 1
    act(outage.db)
    mend()
    outage.host.runtime.standby._not_before = outage.host.runtime.standby._leaves_at = 0.0
    outage.turns(2, first=110)

    assert outage.standbys() == []
    assert lost_or_doubled(outage.host, outage.said) == ([], [])


@pytest.mark.parametrize("act", [delete, replace_by_nothing, replace_by_older], ids=["deleted", "emptied", "older"])
def test_a_file_that_goes_with_its_folder_away_is_saved(outage: Outage, act: Callable[[Path], None]) -> None:
    """The folder is renamed back with something else in it: what the file held is still in our hands."""
    away = outage.home.with_name("away")
    outage.turns(1, first=90)
    outage.home.rename(away)
    outage.turns(1, first=100)
    act(away / "lcm.db")
    away.rename(outage.home)
    outage.host.runtime.standby._not_before = outage.host.runtime.standby._leaves_at = 0.0
    outage.turns(2, first=110)

    assert outage.standbys() == []
    assert lost_or_doubled(outage.host, outage.said) == ([], [])


def test_other_processes_tell_of_a_file_that_was_replaced(outage: Outage) -> None:
    """And when that was noticed, as long as the process that noticed it runs."""
    outage.turns(1, first=90)
    replace_by_older(outage.db)
    outage.turns(1, first=91)
    other = runtime.by_itself(outage.db, Config())

    (told,) = (each.message for each in other.health.problems() if each.topic == "database file")
    assert "was replaced while it was in use (noticed at 20" in told
    other.db.close()
    outage.host.runtime.ended()
    assert "database file" not in outage.host.topics()


@pytest.mark.parametrize("act", [delete, replace_by_nothing, replace_by_older], ids=["deleted", "emptied", "older"])
def test_a_file_that_cannot_be_saved_at_once_is_saved_later(
    outage: Outage, act: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No room for the copy of what was deleted: it stays open until there is."""
    outage.turns(1, first=90)
    act(outage.db)
    with monkeypatch.context() as full:
        full.setattr(Left, "_copy", out_of_room)
        outage.turns(1, first=100)
    outage.host.runtime.standby._not_before = outage.host.runtime.standby._leaves_at = 0.0
    outage.turns(2, first=110)

    assert outage.standbys() == []
    assert lost_or_doubled(outage.host, outage.said) == ([], [])
    assert outage.host.topics() <= {"database file"}


def out_of_room(*_: Any, **__: Any) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("fault", [damaged, newer])
def test_a_merge_that_fails_once_is_done_again_though_nothing_changes_the_file(
    outage: Outage, fault: Callable[[Path], Mend], monkeypatch: pytest.MonkeyPatch
) -> None:
    mend = fault(outage.db)
    outage.turns(1, first=100)
    mend()
    with monkeypatch.context() as busy:
        busy.setattr(standby, "merge", refused)
        outage.turns(1, first=110)
    assert len(outage.standbys()) == 1
    outage.host.runtime.standby._not_before = 0.0
    outage.turns(1, first=120)

    assert outage.standbys() == []
    assert lost_or_doubled(outage.host, outage.said) == ([], [])
    assert outage.host.topics() == set()


def refused(*_: Any, **__: Any) -> None:
    raise StoreError("it is busy")


def one_without_the_other(
    outage: Outage, fault: Callable[[Path], Mend], turns: tuple[int, int] = (11, 13)
) -> tuple[Mend, Path, Path]:
    """Two stand-ins, each with so many turns; the second began while the first was hidden.

    How to mend the database, where the first one is, and where it belongs.
    """
    mend = fault(outage.db)
    outage.turns(turns[0], first=100)
    outage.host.close()
    (place,) = outage.standbys()
    hidden = place.rename(outage.home / "hidden")
    outage.host, outage.live = Host(outage.home), reload(outage.live)
    outage.turns(turns[1], first=200)
    outage.host.close()
    return mend, hidden, place


@pytest.mark.parametrize("late", ["20990101", "20000101"])
def test_stand_ins_that_wait_together_are_merged_as_they_follow_each_other(outage: Outage, late: str) -> None:
    """By the prompts that their lists begin with, not by what a clock said: the second one goes on from a prompt of the first."""
    mend, hidden, _ = one_without_the_other(outage, no_header, turns=(12, 3))
    hidden.rename(outage.db.with_name(f"lcm.standby-{late}-000000-1-999999.db"))
    mend()
    outage.host = Host(outage.home)
    outage.turns(1, first=300)

    outage.is_over()
    assert [texts([row.stored_json])[0] for row in thread(outage.host)] == texts(outage.said)


def test_a_stand_in_that_fails_too_is_what_the_next_one_goes_on_from(outage: Outage) -> None:
    """It knows more than the database: the list begins with a prompt of the first one."""
    mend = locked(outage.db)
    outage.turns(12, first=100)
    (first,) = outage.standbys()
    mend_first = locked(first)
    outage.turns(12, first=200)
    assert len(outage.standbys()) == 2
    assert outage.host.topics() == {"stand-in"}
    mend_first()
    mend()
    outage.host.runtime.standby._not_before = 0.0
    outage.turns(1, first=300)

    outage.is_over()


def test_a_stand_in_that_went_on_without_the_one_before_covers_nothing_twice(outage: Outage) -> None:
    """What it copied of the database and summarised anew lies under summaries of the first one, too."""
    mend, hidden, place = one_without_the_other(outage, locked)
    hidden.rename(place)
    mend()
    outage.host, outage.live = Host(outage.home), reload(outage.live)
    outage.turns(1, first=300)

    outage.is_over()


def without_the_one_before(outage: Outage, fault: Callable[[Path], Mend]) -> tuple[Path, Path]:
    """A stand-in that went on from another one, which nobody could read, is merged; where that one is, and where it belongs."""
    mend, hidden, place = one_without_the_other(outage, fault)
    mend()
    outage.host, outage.live = Host(outage.home), reload(outage.live)
    outage.turns(1, first=300)
    return hidden, place


@pytest.mark.parametrize("comes", [True, False], ids=["later", "never"])
def test_a_rotation_covers_what_a_prompt_lacks(outage: Outage, comes: bool) -> None:
    """The second stand-in could read neither the first one nor the database: its prompts cover nothing of either."""
    hidden, place = without_the_one_before(outage, no_header)
    if comes:
        outage.host.close()
        hidden.rename(place)
        outage.host, outage.live = Host(outage.home), reload(outage.live)
    outage.turns(12, first=400)
    assert "the prompt lacks 80" in outage.host.command("doctor").text
    assert "80 messages that it lacks" in outage.host.command("rotate").text
    outage.host.command("rotate apply")
    outage.turns(1, first=900)

    assert outage.host.gaps(outage.live) == (0, 0)
    assert "coverage" not in outage.host.command("doctor").text
    outage.turns(12, first=1000)
    assert outage.host.gaps(outage.live) == (0, 0)


def test_a_rotation_covers_nothing_twice_after_a_late_merge(outage: Outage) -> None:
    """The newest prompt of the database is then one of the stand-in that came later, and not that which the list shows."""
    hidden, place = without_the_one_before(outage, locked)
    outage.host.close()
    hidden.rename(place)
    outage.host, outage.live = Host(outage.home), reload(outage.live)
    outage.turns(1, first=400)
    assert "it lacks" in outage.host.command("rotate apply").text
    outage.turns(1, first=500)

    assert outage.host.gaps(outage.live) == (0, 0)
    assert [text for row in thread(outage.host) for text in texts([row.stored_json])] == texts(outage.said)


def test_a_whole_file_that_waits_beside_what_goes_on_from_it_is_merged_first(outage: Outage) -> None:
    """It holds a record that once was unknown and the prompt of it, so it waits for nothing, however late its name is."""
    mend = no_header(outage.db)
    outage.turns(12, first=100)
    outage.host.close()
    (first,) = outage.standbys()
    hidden = first.rename(outage.home / "hidden")
    mend()
    outage.host, outage.live = Host(outage.home), reload(outage.live)
    outage.turns(3, first=200)
    outage.host.close()
    hidden.rename(first)
    outage.host = Host(outage.home)
    outage.turns(12, first=300)
    outage.host.close()
    assert outage.standbys() == []
    kept = lost_or_doubled(outage.host, outage.said)
    assert (len(kept[0]), len(kept[1])) == (0, 1)  # the record itself, which was kept as text

    back = a_folder(outage.db)
    outage.host, outage.live = Host(outage.home), reload(outage.live)
    outage.turns(3, first=400)
    outage.host.close()
    (later,) = outage.standbys()
    later.rename(outage.db.with_name("lcm.standby-20000101-000000-1-999999.db"))
    back()
    outage.db.rename(outage.db.with_name("lcm.standby-20990101-000000-1-999999.db"))
    outage.host = Host(outage.home)
    outage.turns(1, first=500)

    assert outage.standbys() == []
    assert lost_or_doubled(outage.host, outage.said) == kept


@pytest.mark.few(2)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["same addresses", "other addresses"])
@pytest.mark.parametrize("lost", [("sessions",), ("sessions", "conversations")], ids=" and ".join)
def test_a_stand_in_that_lost_its_sessions_doubles_nothing(
    outage: Outage, lost: Sequence[str], elsewhere: bool
) -> None:
    """Its messages tell whose they are by those that the database has already: by their address, or by when they were stored."""
    mend = locked(outage.db)
    outage.turns(2, first=100)
    outage.host.close()
    mend()
    (left,) = outage.standbys()
    with sqlite3.connect(left) as raw:
        for table in lost:
            raw.execute(f"DELETE FROM {table}")
        raw.execute("UPDATE messages SET store_id = store_id + 1000 WHERE ?", (elsewhere,))
    raw.close()
    outage.host = Host(outage.home)
    outage.turns(1, first=110)

    assert lost_or_doubled(outage.host, outage.said) == ([], [])
    assert outage.host.runtime.db.query("SELECT session_id FROM sessions") == [("s",)]


def test_a_stand_in_of_which_nothing_can_be_read_is_kept(outage: Outage) -> None:
    """It may be all that is left of something: it goes to the backups, as those that were merged do."""
    left = outage.db.with_name("lcm.standby-20260101-000000-1-999999.db")
    left.write_bytes(b"hello" * 1000)
    outage.host.close()
    outage.host = Host(outage.home)
    outage.turns(1, first=100)

    assert not left.exists()
    assert [path.read_bytes() for path in (outage.db.parent / "lcm-backups").iterdir()] == [b"hello" * 1000]


def test_old_stand_ins_are_pruned_like_backups(outage: Outage) -> None:
    """The newest ten stay, and those of days, weeks and months; each was merged before."""
    kept = outage.home / "lcm-backups"
    kept.mkdir()
    for n in range(20):
        old = kept / f"lcm.standby-20240105-1200{n:02d}-1-7.sqlite3"
        old.touch()
        os.utime(old, (1704456000 + n, 1704456000 + n))
    mend = damaged(outage.db)
    outage.turns(1, first=100)
    mend()
    outage.turns(1, first=101)

    left = sorted(path.name for path in kept.glob("lcm.standby-*.sqlite3"))
    assert left[:-1] == [f"lcm.standby-20240105-1200{n:02d}-1-7.sqlite3" for n in range(11, 20)]
    assert outage.standbys() == []


# -- the earlier plugin's database ---------------------------------------------------------------------------


def test_the_earlier_plugins_database_works_from_the_first_turn(hermes_home: Path) -> None:
    """It is searched at once, stays as it is until all of it was adopted, and is then kept beside the new one."""
    plugin, messages = used(hermes_home)
    path = plugin.close()
    before = path.read_bytes()
    host = Host(hermes_home)
    said = chat().turns(2)
    host.says(said)
    assert path.read_bytes() == before or adopted(host)
    assert "zebra" in str(messages), "a word of the earlier conversation"
    answer = host.tool("lcm_grep", query="zebra", session_scope="all", source="")
    assert "zebra" in answer

    wait(lambda: adopted(host))
    said = said.turns(2, first=5)
    host.says(said)
    assert host.topics() == set()
    assert not list(hermes_home.glob("lcm.standby-*"))
    (kept,) = hermes_home.glob("lcm-backups/hermes-lcm-*.sqlite3")
    with closing(sqlite3.connect(kept)) as old, closing(sqlite3.connect(path)) as new:
        assert (
            old.execute("SELECT count(*) FROM summary_nodes").fetchone()
            == new.execute("SELECT count(*) FROM nodes").fetchone()
        )
        rows = old.execute("SELECT count(*) FROM messages").fetchone()[0]
        assert new.execute("SELECT count(*) FROM messages").fetchone()[0] == rows + len(said)
    assert "FAILED" not in host.command("doctor deep").text


def test_while_it_is_taken_over_nothing_reads_as_a_failure(hermes_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status says that it goes on, and the user hears it once, and once that it is over."""
    used(hermes_home)[0].close()
    go_on, done = threading.Event(), adopt.adopt_beside
    monkeypatch.setattr(standby, "adopt_beside", lambda *args: done(*args) if go_on.wait(WAIT_S) else None)
    host = Host(hermes_home)
    said = chat().turns(2)
    host.says(said)

    def told() -> str:
        live = [*said, {"role": "user", "content": "and now?"}]
        told = host.hooks.pre_llm_call(session_id=host.session_id, conversation_history=live, platform="cli")
        return told["context"] if told else ""

    running, news = host.command("status"), told()
    go_on.set()
    wait(lambda: adopted(host))
    over = told()

    assert running.code == OK
    assert "are taken over now" in running.text
    assert {each["severity"] for each in running.data["problems"]} == {"warning"}
    assert not any(word in running.text + news for word in ("cannot", "failed", "when an agent starts"))
    assert "lcm.db was written by the earlier plugin and is taken over now" in news
    assert "works again" not in over
    assert "is taken over" in over


def count(db: sqlite3.Connection, *tables: str) -> tuple[int, ...]:
    return tuple(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables)


def adopted(host: Host) -> bool:
    return not host.runtime.db.stands_in


def wait(until: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not until():
        assert time.monotonic() < end
        time.sleep(0.01)


def a_renamed_column(db: Path) -> Mend:
    """SQLite finds nothing wrong, and no statement of ours works."""
    there, back = "envelope TO env", "env TO envelope"
    return odd(db, f"ALTER TABLE messages RENAME COLUMN {there}", f"ALTER TABLE messages RENAME COLUMN {back}")


def test_a_column_that_was_renamed_is_an_outage_like_any_other(outage: Outage) -> None:
    """What is said meanwhile is stored in one stand-in, and merged when the column has its name again."""
    mend = a_renamed_column(outage.db)
    outage.turns(3, first=100)
    topics, standbys = outage.host.topics(), outage.standbys()
    mend()
    outage.turns(1, first=900)

    assert "stand-in" in topics
    assert "ingest" not in topics
    assert len(standbys) == 1
    assert lost_or_doubled(outage.host, outage.said) == ([], [])
    assert outage.host.topics() == set()
