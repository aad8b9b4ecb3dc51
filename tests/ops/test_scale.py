"""Operators' verbs on a large archive: linear, with a bar, and in nobody's way."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from worlds.home import Home
from worlds.linear import LIMIT, excess

from hermes_lcm.errors import StoreBusy
from hermes_lcm.ops.doctor import clean
from hermes_lcm.ops.upkeep import reindex
from hermes_lcm.storage.connection import Database
from hermes_lcm.text import content


def crons(home: Path, count: int) -> Home:
    """So many short sessions of a scheduler, each of whose messages lie in a block of their own."""
    world = Home(home, ignore_session_patterns="junk*")
    for n in range(count):
        session = world.say(*(f"job {n} step {k} " * 30 for k in range(4)), session=f"cron_{n}")
        world.runtime.store.packer.pack_own(session.conversation_id, least_bytes=0)
    return world


@pytest.fixture(scope="module")
def two_sizes(tmp_path_factory: pytest.TempPathFactory) -> list[Home]:
    return [crons(tmp_path_factory.mktemp(f"crons{n}") / "home", n) for n in (60, 240)]


@pytest.mark.parametrize("verb", [clean.retention, clean.candidates], ids=["retention", "clean"])
def test_a_verb_costs_as_many_times_more_as_there_are_more_sessions(two_sizes, verb):
    """It was messages times blocks, and sessions times conversations."""
    small, large = two_sizes
    by_size = {60: small.deps(None), 240: large.deps(None)}

    assert excess(lambda sessions: verb(by_size[len(sessions)]), range(60), range(240)) < LIMIT


def test_retention_says_how_far_it_is(two_sizes):
    """With the total, so that a bar can tell the time that is left."""
    seen: list[tuple[int, int]] = []
    clean.retention(two_sizes[0].deps(None), lambda _what, done, total: seen.append((done, total)))

    assert seen[-1] == (240, 240)


def test_others_store_while_the_index_is_built_anew(tmp_path, monkeypatch):
    """And what they store meanwhile is found in it."""
    world = Home(tmp_path / "home")
    world.say(*(f"message {n} about zebras" for n in range(600)))
    other = Database(world.path, busy_ms=0)
    stored = []

    def stores(what: str, done: int, _total: int) -> None:
        if what == "indexing messages" and done and not stored:
            with other.transaction():  # waits for nobody
                stored.append(other.fetch("SELECT count(*) FROM messages"))
            world.say(*(f"message {n} about zebras" for n in range(600)), "a quagga came late")

    reindex(world.deps(), stores)

    assert stored
    assert world.runtime.index.check(deep=True) == []
    assert len(other.query("SELECT rowid FROM message_index WHERE message_index MATCH 'quagga'")) == 1
    other.close()


class Killed(BaseException):
    """The end of a process in the middle of a rebuild."""


def half_indexed(home: Path) -> Home:
    """A home whose index was being made anew when the process was killed: half of its messages were done."""
    world = Home(home)
    world.say(*(f"message {n} about zebras" for n in range(600)))

    def dies(what: str, done: int, _total: int) -> None:
        if what == "indexing messages" and done >= 300:
            raise Killed

    with pytest.raises(Killed):
        reindex(world.deps(), dies)
    return world


def matching(world: Home, word: str) -> int:
    """Number of messages whose own text the index finds by a word."""
    return len(
        world.runtime.db.query("SELECT rowid FROM message_index WHERE message_index MATCH ?", (f"text : {word}",))
    )


def progress_of(world: Home) -> list[int]:
    """How far the next rebuild says that it is, from its beginning on."""
    seen: list[int] = []
    reindex(world.deps(), lambda what, done, _: seen.append(done) if what == "indexing messages" else None)
    return seen


def test_a_rebuild_that_was_killed_leaves_the_old_index_and_the_next_goes_on(tmp_path):
    world = half_indexed(tmp_path / "home")
    assert world.runtime.index.check(deep=True) == []

    world.say("a quagga came late")
    assert progress_of(world)[0] >= 300
    assert world.runtime.index.check(deep=True) == []
    assert (matching(world, "zebras"), matching(world, "quagga")) == (600, 1)
    assert not world.runtime.db.query("SELECT 1 FROM sqlite_master WHERE name GLOB 'message_*_new*'")
    assert progress_of(world)[0] == 0


def test_a_rebuild_that_goes_on_makes_the_same_index(tmp_path):
    """The end of the message before it in front of each, where it went on too."""
    world = half_indexed(tmp_path / "home")
    reindex(world.deps())
    rows = "SELECT id, block FROM message_index_data WHERE id = 1 UNION ALL SELECT id, sz FROM message_index_docsize"
    gone_on = world.runtime.db.query(rows)
    reindex(world.deps())

    assert gone_on == world.runtime.db.query(rows)


def test_words_that_were_taken_out_between_do_not_come_back(tmp_path):
    """A rebuild begins anew where messages were rewritten since it was killed."""
    world = half_indexed(tmp_path / "home")
    store = world.runtime.store
    (row,) = store.rows([7])
    store.rewrite([(row.head, content.read_message({"role": "user", "content": "nothing"}))])

    assert progress_of(world)[0] == 0
    assert matching(world, "zebras") == 599


def test_a_message_that_could_not_be_read_waits_after_a_rebuild_that_goes_on(tmp_path):
    world = Home(tmp_path / "home")
    world.say(*(f"message {n} about zebras" for n in range(600)))
    with world.runtime.db.transaction():
        world.runtime.db.execute("UPDATE messages SET envelope = x'ff' WHERE store_id = 5")

    def dies(what: str, done: int, _total: int) -> None:
        if what == "indexing messages" and done >= 300:
            raise Killed

    with pytest.raises(Killed):
        reindex(world.deps(), dies)
    reindex(world.deps())

    assert world.runtime.index.documents.waiting() == [5]
    assert world.runtime.index.check(deep=True) == []


@pytest.mark.parametrize("meanwhile", ["another", "rewritten"])
def test_a_rebuild_stops_when_another_begins_or_messages_are_rewritten(tmp_path, meanwhile):
    """The one that comes last makes the index, with the words that there are then."""
    world = Home(tmp_path / "home")
    world.say(*(f"message {n} about zebras" for n in range(600)))
    store = world.runtime.store
    (row,) = store.rows([7])
    done = []

    def between(what: str, at: int, _total: int) -> None:
        if what == "indexing messages" and at >= 300 and not done:
            done.append(at)
            if meanwhile == "rewritten":
                store.rewrite([(row.head, content.read_message({"role": "user", "content": "nothing"}))])
            else:
                reindex(world.deps())

    with pytest.raises(StoreBusy, match="do it again"):
        reindex(world.deps(), between)
    reindex(world.deps())

    assert world.runtime.index.check(deep=True) == []
    assert matching(world, "zebras") == (599 if meanwhile == "rewritten" else 600)


def test_an_index_is_examined_while_another_writes(tmp_path):
    """A looking doctor holds no lock: with one held by somebody else it finds what it would find without."""
    world = Home(tmp_path / "home")
    world.say("one", "two")
    writer = Database(world.path, busy_ms=0)
    done = threading.Event()
    with writer.transaction():
        assert world.runtime.index.check(deep=True) == []
        done.set()
    writer.close()

    assert done.is_set()


def test_a_backup_says_how_far_it_is(tmp_path):
    """Copied in steps of one moment, whatever is stored meanwhile."""
    world = Home(tmp_path / "home")
    world.say(*(f"message {n} about zebras" for n in range(50)))
    seen: list[tuple[int, int]] = []
    copy = tmp_path / "copy.db"

    def meanwhile(_what: str, done: int, total: int) -> None:
        seen.append((done, total))
        world.runtime.sessions.open(f"s{len(seen)}x", now=world.now)

    world.runtime.db.backup(copy, meanwhile)

    assert seen[-1][0] == seen[-1][1] > 0
    assert Database(copy).query("SELECT count(*) FROM messages") == [(50,)]


def test_preview_of_redaction_knows_its_total(tmp_path):
    """A bar, not only a number that grows."""
    from hermes_lcm.ops import redaction

    world = Home(tmp_path / "home")
    world.say(*(f"message {n}" for n in range(1001)))
    seen: list[int] = []
    deps = replace(world.deps(), trusted=True)
    redaction.preview(deps, (), lambda _what, _done, total: seen.append(total))

    assert seen == [1001]
