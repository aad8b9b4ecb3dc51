"""
Conversations that say the same words again and again, through outages, restarts, undo and clocks that jump (P1, P6).

Nothing but its place tells one "ok" from another. A host plays a conversation at random, and what it showed is the truth.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from worlds.breaking import Host
from worlds.process import Chat, chat, reload, texts, tokens_of

from hermes_lcm import runtime
from hermes_lcm.config import Config
from hermes_lcm.importers import intake, merge, standby
from hermes_lcm.records import Flag
from hermes_lcm.storage.disk import is_memory

Mend = Callable[[], object]
_ENDINGS = ("", "-wal", "-shm")
_WORDS = ("ok", "ok", "yes", "go on")
_LONG = tuple(chat().turns(1, first=n, words=120)[1]["content"] for n in range(3))
_TABLES = ("conversations", "sessions", "messages", "assemblies", "nodes", "node_sources", "blocks")
_SEEDS = range(3)
_ACTS = 12
_LAP = 40


class Story:
    """A host that says the same words again and again. ``thread``: what the user has not taken back."""

    def __init__(self, home: Path, seed: int = 0, *, window: int = 5_333) -> None:
        self.home, self.rng = home, random.Random(seed)
        self.shift = 0.0
        self.thread: list[str] = []
        self.live = Chat()
        self.host = Host(home, window=window)
        self.mend: Mend | None = None

    @property
    def db(self) -> Path:
        return self.home / "lcm.db"

    def says(self, turns: int) -> None:
        for _ in range(turns):
            self.turn(self.rng.choice(_WORDS), self.rng.choice((*_WORDS, *_LONG)))

    def says_again(self, turns: int) -> None:
        """The same words in the same order, lap after lap."""
        for _ in range(turns):
            asked, answered = texts(chat().turns(1, first=len(self.thread) // 2 % _LAP, words=20))
            self.turn(asked, answered)

    def turn(self, asked: str, answered: str) -> None:
        new = Chat().user(asked).says(answered)
        self.thread += texts(new)
        self.live = Chat([*self.live, *new])
        self.host.says(self.live)
        if self.host.engine.should_compress(tokens_of(self.live)):
            self.live = Chat(self.host.compress(self.live))

    def restarts(self) -> None:
        """The process is killed, with nothing in its memory alone; the next one begins with the host's own list."""
        if is_memory(self.host.runtime.db.file) or not self.home.is_dir():
            self.works()
            self.says(1)
        self.host, self.live = self.host.next(), reload(self.live)

    def takes_back(self) -> None:
        if len(self.live) > 4 and self.live[-2]["role"] == "user":
            self.live = Chat(self.live[:-2])
            del self.thread[-2:]

    def fails(self) -> None:
        if self.mend is None and self.db.is_file():
            self.mend = self.rng.choice((locked, gone, unreadable, emptied, deleted, renamed))(self)

    def works(self) -> None:
        if self.mend is not None:
            self.mend()
            self.mend = None
        standby = self.host.runtime.standby
        standby._not_before = standby._leaves_at = 0.0

    def ends(self) -> None:
        """The database works, and whatever stood in is merged."""
        for _ in range(4):
            self.works()
            self.says(1)
            if not list(self.home.glob("lcm.standby-*.db")):
                return

    def shown(self) -> list[str]:
        runtime = self.host.runtime
        rows = runtime.store.rows(
            [item.store_id for item in runtime.ingest.transcripts.expected(runtime.session("s"), None)]
        )
        return ["(record)" if row.head.flags & Flag.IMPORTED else texts([row.stored_json])[0] for row in rows]


def locked(story: Story) -> Mend:
    other = sqlite3.connect(story.db, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other.close


def gone(story: Story) -> Mend:
    """A folder has its name: a process that begins now can read nothing of it."""
    kept = story.home / "kept"
    kept.mkdir(exist_ok=True)
    there = [ending for ending in _ENDINGS if Path(f"{story.db}{ending}").exists()]
    for ending in there:
        Path(f"{story.db}{ending}").rename(kept / f"lcm.db{ending}")
    story.db.mkdir()

    def mend() -> None:
        story.db.rmdir()
        for ending in there:
            (kept / f"lcm.db{ending}").rename(f"{story.db}{ending}")

    return mend


def unreadable(story: Story, table: str = "") -> Mend:
    """A page of one table; what is on the others is copied."""
    story.host.close()
    name = table or story.rng.choice(_TABLES)
    with closing(sqlite3.connect(story.db)) as db:
        size = db.execute("PRAGMA page_size").fetchone()[0]
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages = [row[0] for row in db.execute("SELECT pageno FROM dbstat WHERE name = ? ORDER BY pageno", (name,))]
    blob = story.db.read_bytes()
    broken = bytearray(blob)
    at = (pages[0] if table else story.rng.choice(pages)) * size
    broken[at - size : at] = b"\xa7" * size
    story.db.write_bytes(broken)

    def mend() -> None:
        fresh = story.home / "fresh"
        fresh.write_bytes(blob)
        fresh.chmod(0o600)
        for ending in _ENDINGS[1:]:
            Path(f"{story.db}{ending}").unlink(missing_ok=True)
        fresh.replace(story.db)

    return mend


def deleted(story: Story) -> None:
    for ending in _ENDINGS:
        Path(f"{story.db}{ending}").unlink(missing_ok=True)


def emptied(story: Story) -> None:
    deleted(story)
    story.db.touch(mode=0o600)


def renamed(story: Story) -> Mend:
    """Whatever is made in its place meanwhile is removed."""
    away = story.home.with_name(f"{story.home.name}-away")
    story.home.rename(away)

    def mend() -> None:
        shutil.rmtree(story.home, ignore_errors=True)
        away.rename(story.home)

    return mend


@pytest.mark.few(4)
@pytest.mark.parametrize("jumps", [False, True], ids=["", "jumps"])
@pytest.mark.parametrize("undo", [False, True], ids=["", "undo"])
@pytest.mark.parametrize("seed", _SEEDS)
def test_whatever_is_said_again_is_there_as_often_and_in_order(
    hermes_home: Path, seed: int, undo: bool, jumps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each outage of another kind, some over a restart."""
    story = Story(hermes_home, seed)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + story.shift)
    story.says(15)
    acts = [story.restarts, story.fails, story.fails, story.works, story.works, *([story.takes_back] if undo else [])]
    for _ in range(_ACTS):
        story.rng.choice(acts)()
        if jumps and story.rng.random() < 0.3:
            story.shift = story.rng.choice((0.0, -86_400.0, -60.0, 60.0, 86_400.0))
        story.says(story.rng.choice((1, 1, 2, 5)))
    story.ends()

    assert list(story.home.glob("lcm.standby-*.db")) == []
    assert story.shown() == story.thread


def test_words_that_were_taken_back_come_back_in_place_of_what_was_said_instead(hermes_home: Path) -> None:
    """The reply to both is the same, so it looks like an edit of the request."""
    story = Story(hermes_home)
    story.says(3)
    for asked, answered in (("no", "why?"), ("maybe", "fine"), ("no", "fine")):
        story.turn(asked, answered)
        shown = story.shown()
        assert shown == story.thread
        story.takes_back()


@pytest.mark.few(4)
@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("table", _TABLES)
def test_a_page_that_cannot_be_copied_doubles_and_loses_nothing(hermes_home: Path, table: str, restarted: bool) -> None:
    """What the process knows of its list, or else the record in front of it, tells the place of each message."""
    story = Story(hermes_home)
    story.says(60)
    story.mend = unreadable(story, table)
    if restarted:
        story.restarts()
    story.says(5)
    story.ends()

    assert story.shown() == story.thread
    assert "unknown context message in s" not in story.host.topics()


@pytest.mark.few(2)
@pytest.mark.parametrize("window", [5_333, 16_000])
@pytest.mark.parametrize("batches", [None, 0, 1, 2, 3, 4, 5])
def test_a_chat_goes_on_while_another_process_fills_the_database(
    hermes_home: Path, batches: int | None, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file was lost, and the process that saved it merges it: before that, and after each batch, only a part is there."""
    story = Story(hermes_home, window=window)
    story.says_again(3 * _LAP + 10)
    story.host.close()
    saved = hermes_home / f"lcm.standby-20260101-000000-1-{os.getppid()}.db"
    story.db.rename(saved)
    other, left = runtime.by_itself(story.db, Config()), [batches]

    def goes_on() -> None:
        story.restarts()
        story.says_again(3)

    real = intake._Writer.write

    def write(*args: Any) -> None:
        if left[0] == 0:
            goes_on()
        left[0] = None if not left[0] else left[0] - 1
        real(*args)

    monkeypatch.setattr(standby, "_OTHERS_S", 0.0)  # it gives up waiting for the other one
    monkeypatch.setattr(merge, "_BATCH", 50)
    monkeypatch.setattr(intake._Writer, "write", write)
    if batches is None:
        goes_on()
    other.standby._merged(saved)
    story.says_again(_LAP)

    assert story.shown() == story.thread


def test_a_process_that_begins_waits_for_the_merge_of_another_one(
    hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stores nothing into a file that has only a part of the conversation."""
    story = Story(hermes_home, window=16_000)
    story.says_again(10)
    story.host.close()
    saved = hermes_home / f"lcm.standby-20260101-000000-1-{os.getppid()}.db"
    story.db.rename(saved)
    other, begun, goes_on, real = runtime.by_itself(story.db, Config()), Event(), Event(), intake._Writer.write

    def write(*args: Any) -> None:
        begun.set()
        assert goes_on.wait(10)
        real(*args)

    is_merging, found = standby.Standby._is_merging, list[bool]()

    def looks(*args: Any) -> bool:
        found.append(is_merging(*args))
        if sum(found) == 10:  # who looks only now and then does not wait
            goes_on.set()
        return found[-1]

    monkeypatch.setattr(standby.Standby, "_is_merging", looks)
    monkeypatch.setattr(intake._Writer, "write", write)
    merging = Thread(target=lambda: other.standby._keep(saved, other.standby._merged(saved)))
    merging.start()
    assert begun.wait(10)
    story.restarts()
    story.says_again(1)
    assert goes_on.is_set()
    merging.join()

    assert story.shown() == story.thread
