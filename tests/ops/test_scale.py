"""Operators' verbs on a large archive: linear, with a bar, and in nobody's way."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from worlds.home import Home
from worlds.linear import LIMIT, excess

from hermes_lcm.ops.doctor import clean
from hermes_lcm.ops.upkeep import reindex
from hermes_lcm.storage.connection import Database


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


def test_a_rebuild_that_was_killed_leaves_the_old_index(tmp_path):
    """And the next one ends."""
    world = Home(tmp_path / "home")
    world.say(*(f"message {n} about zebras" for n in range(600)))

    class Killed(BaseException):
        pass

    def dies(what: str, done: int, _total: int) -> None:
        if what == "indexing messages" and done:
            raise Killed

    with pytest.raises(Killed):
        reindex(world.deps(), dies)
    assert world.runtime.index.check(deep=True) == []

    reindex(world.deps())
    assert world.runtime.index.check(deep=True) == []
    assert not world.runtime.db.query("SELECT 1 FROM sqlite_master WHERE name GLOB 'message_*_new*'")


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
