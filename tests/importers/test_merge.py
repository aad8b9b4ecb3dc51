"""Merging a stand-in while the database is used by others, is exchanged, or fails: each message once, in order (P1, P6)."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from worlds.process import Chat, World, chat, digests

from hermes_lcm import errors, runtime
from hermes_lcm.archive.ranges import ARCHIVED, RESTORED, Archive
from hermes_lcm.config import Config
from hermes_lcm.importers import intake, merge, standby
from hermes_lcm.importers.ledger import Ledger
from hermes_lcm.ingest.ingestor import WORKS_AT
from hermes_lcm.records import NewNode, StatedFact
from hermes_lcm.session import Sessions
from hermes_lcm.storage import leases
from hermes_lcm.storage.disk import stand_in
from hermes_lcm.store import MessageStore

SAID = 12
ALL = "SELECT store_id FROM messages ORDER BY pos, seq"


class Pair:
    """A database that has the first messages of a conversation, and a stand-in that has all of them."""

    def __init__(self, folder: Path) -> None:
        self.said = chat().turns(SAID)
        self.one = self.opened(folder / "lcm.db")
        self.one.ingest_list("s", Chat(self.said[:4]))
        self.other = self.opened(folder / "lcm.standby-20260101-000000-1-1.db")
        self.other.ingest_list("s", self.said)
        self.other.db.close()

    @staticmethod
    def opened(path: Path) -> Any:
        return runtime.by_itself(path, Config())

    def merge(self) -> None:
        self.one.standby._merged(self.other.path)

    def stored(self) -> list[bytes]:
        return digests(row.stored_json for row in self.one.whole_store.rows(self.ids()))

    def ids(self) -> list[int]:
        return [row[0] for row in self.one.db.query(ALL)]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def once(monkeypatch: pytest.MonkeyPatch, of: type, name: str, act: Callable[[], object], *, first: bool) -> None:
    """Something happens the first time that a method is called: before it, or after it."""
    real = getattr(of, name)
    left = [act]

    def called(*args: Any, **keys: Any) -> Any:
        if first and left:
            left.pop()()
        out = real(*args, **keys)
        if not first and left:
            left.pop()()
        return out

    monkeypatch.setattr(of, name, called)


def fails() -> None:
    raise errors.Overtaken("its log was removed while this was written")


def test_a_merge_adds_what_is_missing(pair: Pair) -> None:
    """And adds nothing the second time."""
    for _ in range(2):
        pair.merge()
        assert pair.stored() == digests(pair.said)


def test_a_session_that_began_by_a_clock_that_went_back_goes_on_with_its_parents_conversation(pair: Pair) -> None:
    """It seems to be older than its parent."""
    parent = pair.other.sessions.find("s")
    pair.other.sessions.open("a", now=parent.started_at - 60, parent=parent, origin="rotation")
    pair.other.ingest_list("a", Chat([*pair.said, *chat().turns(1, first=50)]))
    pair.other.db.close()
    pair.merge()

    assert pair.stored() == digests([*pair.said, *chat().turns(1, first=50)])
    assert len({pair.one.sessions.find(name).conversation_id for name in ("s", "a")}) == 1


def archive(db: Any, rows: list[int], handle: str = "mem://s/1", at: float = 5.0) -> Archive:
    """A range over these rows, archived in a database."""
    made = Archive(
        0, handle, 1, "s", tuple(rows), 2, 4, len(rows), "what was said", True, "User: ...", 30, 10, ARCHIVED, at, at
    )
    db.archives.add(made, request=rows[0])
    return made


def test_a_range_that_was_archived_in_an_outage_is_archived_afterwards(pair: Pair) -> None:
    """Over the same messages, under the same handle, once."""
    there = [row[0] for row in pair.other.db.query(ALL)]
    archive(pair.other, there[2:7])
    pair.other.db.close()
    for _ in range(2):
        pair.merge()

    (found,) = pair.one.archives.of_conversation(1)
    assert (found.handle, found.state, found.summary) == ("mem://s/1", ARCHIVED, "what was said")
    assert found.store_ids == tuple(pair.ids()[2:7])
    assert pair.one.archives.request("mem://s/1") == pair.ids()[2]


@pytest.mark.parametrize(("at", "state"), [(9.0, RESTORED), (4.0, ARCHIVED)])
def test_the_later_state_of_an_archived_range_counts(at: float, state: str, pair: Pair) -> None:
    """It was restored in the outage, or archived again behind it."""
    archive(pair.one, pair.ids()[:3])
    archive(pair.other, [row[0] for row in pair.other.db.query(ALL)][:3], at=3.0)
    pair.other.archives.change([pair.other.archives.of_conversation(1)[0].archive_id], RESTORED, now=at)
    pair.other.db.close()
    pair.merge()

    assert [each.state for each in pair.one.archives.of_conversation(1)] == [state]


def test_what_was_rolled_back_is_written_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that failed stored nothing, so nothing of it counts as stored."""
    once(monkeypatch, Ledger, "mark", fails, first=True)
    pair.merge()

    assert pair.stored() == digests(pair.said)


def test_what_another_process_appends_meanwhile_is_not_stored_twice(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It merges the same messages, between our look at what is here and our first row."""
    monkeypatch.setattr(standby, "_OTHERS_S", 0.0)  # it does not wait for the end of ours
    again = pair.opened(pair.one.path)
    once(monkeypatch, intake.Intake, "_placed", lambda: again.ingest_list("s", pair.said), first=False)
    pair.merge()

    assert pair.stored() == digests(pair.said)


def test_two_processes_that_fill_an_empty_database_store_each_message_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a stand-in with all of it; the second one writes just when the first has seen that nothing is here yet."""
    pair = Pair(tmp_path / "before")
    copy = tmp_path / "lcm.standby-20260101-000000-2-2.db"
    shutil.copy(pair.other.path, copy)
    pair.one = Pair.opened(tmp_path / "lcm.db")
    second = Pair.opened(tmp_path / "lcm.db")
    once(monkeypatch, MessageStore, "has_rows", lambda: second.standby._merged(copy), first=False)
    pair.merge()
    assert pair.stored() == digests(pair.said)


def test_a_list_goes_past_what_was_taken_back_before_the_outage(tmp_path: Path) -> None:
    """The stand-in's list shows what lies around it, as neighbours."""
    pair = Pair(tmp_path)
    first, rest = chat().user("begin").says("the answer"), chat().turns(2)
    pair.one.ingest_list("u", [*first, *chat().user("yes").says("done")])
    pair.one.ingest_list("u", [*first, *rest])
    pair.other.ingest_list("u", [first[1], *rest, *chat().turns(1, first=9)])
    pair.other.db.close()
    pair.merge()

    thread = [item.store_id for item in pair.one.ingest.transcripts.expected(pair.one.session("u"), None)]
    shown = digests(row.stored_json for row in pair.one.whole_store.rows(thread))
    assert shown == digests([*first, *rest, *chat().turns(1, first=9)])


@pytest.mark.parametrize("beside", [False, True])
def test_what_another_agent_said_meanwhile_is_not_taken_back(
    tmp_path: Path, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that the stand-in's list lacks were undone, unless another process works at the session."""
    pair = Pair(tmp_path)
    first, rest = chat().turns(1), chat().turns(1, first=9)
    pair.one.ingest_list("u", [*first, *chat().user("yes").says("done")])
    pair.other.ingest_list("u", [*first, *rest])
    pair.other.db.close()
    if beside:
        with monkeypatch.context() as patch:
            patch.setattr(leases, "_process", lambda: leases._named(os.getppid()))
            pair.one.leases.join(WORKS_AT.format("u"))
    pair.merge()

    thread = [item.store_id for item in pair.one.ingest.transcripts.expected(pair.one.session("u"), None)]
    shown = digests(row.stored_json for row in pair.one.whole_store.rows(thread))
    assert shown == digests([*first, *(chat().user("yes").says("done") if beside else ()), *rest])


def test_what_is_said_again_and_again_is_stored_as_often(tmp_path: Path) -> None:
    """A row that is here already is that very row of the stand-in, not the first one that says the same."""
    said = Chat(chat().turns(1) * 3)
    one, other = (Pair.opened(tmp_path / f"{name}.db") for name in ("one", "other"))
    one.ingest_list("s", chat().turns(1, first=5))
    other.ingest_list("s", said)
    other.db.close()
    part = Path(shutil.copy(other.path, tmp_path / "part.db"))
    with closing(sqlite3.connect(part)) as raw:
        raw.execute("DELETE FROM messages WHERE store_id <> 5")
        raw.commit()
    one.standby._merged(part)
    one.standby._merged(other.path)

    kept = [row.stored_json for row in one.whole_store.rows([row[0] for row in one.db.query(ALL)])]
    assert sorted(digests(kept)) == sorted(digests([*chat().turns(1, first=5), *said]))


def test_a_database_that_is_exchanged_meanwhile_is_merged_into_from_the_beginning(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found in one file says nothing of the other."""
    older = pair.one.path.with_name("older.db")
    pair.one.db.backup(older)
    with closing(sqlite3.connect(older)) as raw:
        raw.execute("DELETE FROM messages WHERE seq > 2")
        raw.commit()

    def exchange() -> None:
        for ending in ("-wal", "-shm"):
            Path(f"{pair.one.path}{ending}").unlink(missing_ok=True)
        older.replace(pair.one.path)

    once(monkeypatch, intake.Intake, "_placed", exchange, first=False)
    with pytest.raises(errors.Exchanged):
        pair.merge()
    pair.merge()

    assert pair.stored() == digests(pair.said)


def test_prompts_that_another_process_merges_meanwhile_are_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each time that two processes save the same file there would be twice as many."""
    one, other = World(tmp_path / "one"), World(tmp_path / "other")
    other.compact(chat().turns(30))
    other.db.close()
    again = Pair.opened(one.db.path)
    once(monkeypatch, merge._Merge, "_numbers", lambda: again.standby._merged(other.db.path), first=False)
    one.runtime.standby._merged(other.db.path)

    built = len(other.runtime.dag.assemblies(1))
    assert built > 0
    assert len(one.runtime.dag.assemblies(1)) == built


def test_compactions_that_another_process_merges_meanwhile_are_counted_once(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the count grows at each merge of two processes: 100,000 after some outages, and a commit for each of them."""
    for _ in range(3):
        pair.other.sessions.compacted("s")
    pair.other.db.close()
    again = Pair.opened(pair.one.path)
    once(monkeypatch, Sessions, "find", lambda: again.standby._merged(pair.other.path), first=False)
    pair.merge()

    assert pair.one.sessions.find("s").compactions == 3


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_behind_a_prompt_that_was_merged_nothing_is_stored_twice(tmp_path: Path, lost: int) -> None:
    """Rows are numbered anew where the file has fewer of them; so is what the prompt reached."""
    one, other = World(tmp_path / "one"), World(tmp_path / "other")
    said = chat().turns(30)
    live = other.compact(said)
    behind = chat().turns(2, first=100)
    live += behind
    other.take(live)
    other.db.close()
    with closing(sqlite3.connect(other.db.path)) as raw:
        raw.execute("DELETE FROM messages WHERE seq <= ?", (lost,))
        raw.commit()
    one.runtime.standby._merged(other.db.path)
    live += chat().turns(1, first=200)
    one.take(live)

    assert digests(one.stored()) == digests([*said[lost:], *behind, *chat().turns(1, first=200)])


def test_a_stand_in_is_not_made_through_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    """SQLite would make the file that the link names, in another folder."""
    database = tmp_path / "lcm.db"
    stem, number, pid = stand_in(database, 0.0).stem.rsplit("-", 2)
    taken = database.with_name(f"{stem}-{int(number) + 1}-{pid}.db")
    taken.symlink_to(tmp_path / "elsewhere" / "lcm.db")

    assert stand_in(database, 0.0) != taken


def test_no_name_of_a_stand_in_is_given_out_twice(tmp_path: Path) -> None:
    """Its predecessor may have been removed within the same second; what was merged is noted by name."""
    database = tmp_path / "lcm.db"
    assert stand_in(database, 0.0) != stand_in(database, 0.0)


def test_a_fact_beside_a_summary_keeps_its_message_where_another_one_is_lost(pair: Pair) -> None:
    """The first message of the summary cannot be read in the stand-in any more."""
    conversation = pair.other.sessions.find("s").conversation_id
    rows = tuple(row[0] for row in pair.other.db.query(ALL))[4:]
    said = pair.other.store.text(rows[2])
    fact = StatedFact(f"msg_{rows[2]}", "rule", (0, len(said)), (0, 0), (0, len(said)), StatedFact.digest_of(said))
    node = NewNode(
        conversation, 0, "verified", "what was said", "", 10, 90, rows, b"n", checks='{"a": 1}', stated=(fact,)
    )
    pair.other.dag.add(node, now=5.0)
    pair.other.db.close()
    with closing(sqlite3.connect(pair.other.path)) as raw:
        raw.execute("DELETE FROM messages WHERE store_id = ?", (rows[0],))
        raw.commit()
    pair.merge()
    here = pair.one.sessions.find("s").conversation_id

    assert [(pair.one.store.text(n), each.digest) for n, each in pair.one.dag.stated([here])] == [(said, fact.digest)]
    assert [made.facts["a"] for made in pair.one.dag.nodes([1])] == [1]
