"""A log whose database is gone or empty: nothing is lost or doubled while the file is made again (P1, P9)."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from worlds.breaking import Faults
from worlds.home import Home, readable_home, unprivileged

from hermes_lcm.command import answer
from hermes_lcm.ops import status
from hermes_lcm.storage import disk, leaves
from hermes_lcm.storage.connection import Database

FORK = multiprocessing.get_context("fork")
SAID = [f"message {n}" for n in range(40)]


def left_by_a_kill(home: Home, folder: Path) -> Path:
    """The files of a home as a killed process leaves them, without the database itself."""
    shutil.copytree(home.home, folder, dirs_exist_ok=True)
    (folder / "lcm.db").unlink()
    home.close()
    return folder


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home without its database, all of which is in the log."""
    home = Home(tmp_path_factory.mktemp("said"))
    home.say(*SAID)
    return left_by_a_kill(home, tmp_path_factory.mktemp("lost"))


def said(folder: Path) -> list[str]:
    home = Home(folder)
    try:
        ids = [row[0] for row in home.runtime.db.query("SELECT store_id FROM messages")]
        return sorted(row.text for row in home.runtime.store.rows(ids))
    finally:
        home.close()


def is_killed(work: Callable[[], Any]) -> bool:
    """Do something in a process of its own; was it killed?"""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


class Killer(Faults):
    """Statement ``at`` is the last thing that this process begins."""

    def due(self, sql: str) -> bool:
        if super().due(sql):
            os.kill(os.getpid(), signal.SIGKILL)
        return False


def brought_back(path: Path, lines: int) -> None:
    """Make the file again, and be killed after so many lines of it."""
    seen = 0

    def watch(frame: Any, event: str, _: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename not in (disk.__file__, leaves.__file__):
            return None
        seen += event == "line"
        if seen == lines:
            os.kill(os.getpid(), signal.SIGKILL)
        return watch

    sys.settrace(watch)
    disk.bring_back(path)


def opened(path: Path, statements: int) -> None:
    """Open the database, and be killed at a statement."""
    with pytest.MonkeyPatch.context() as patch:
        Killer().install(patch).arm(statements, 0)
        Database(path).open()


@pytest.mark.parametrize(("work", "step", "least"), [(brought_back, 40, 400), (opened, 3, 20)])
def test_whoever_is_killed_on_the_way_loses_nothing(
    work: Callable[[Path, int], None], step: int, least: int, lost: Path, tmp_path: Path
) -> None:
    """At the lines that make the file, and at the statements that open it then; the next process finds everything, once."""
    at = 1
    while True:
        folder = Path(shutil.copytree(lost, tmp_path / str(at)))
        if not is_killed(lambda folder=folder, at=at: work(folder / "lcm.db", at)):  # type: ignore[misc]
            break
        assert (at, said(folder)) == (at, sorted(SAID))
        at += step

    assert at > least
    assert said(folder) == sorted(SAID)


class Full:
    """A file that takes no byte."""

    def __init__(self, file: Any, code: int) -> None:
        self._file, self._code = file, code

    def __enter__(self) -> Full:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def fileno(self) -> int:
        return int(self._file.fileno())

    def write(self, _: bytes) -> None:
        raise OSError(self._code, os.strerror(self._code))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("what", ["open", "write"])
def test_a_file_that_cannot_be_made_again_costs_nothing(
    what: str, code: int, lost: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log stays; what is said meanwhile is kept beside it; the status says so until all is in one file again."""
    folder = Path(shutil.copytree(lost, tmp_path / "home"))
    log = (folder / "lcm.db-wal").read_bytes()
    with monkeypatch.context() as patch:
        plain, opening = os.fdopen, os.open

        def refused(path: Any, *args: Any, **keys: Any) -> int:
            if str(path).endswith("lcm.db"):
                raise OSError(code, os.strerror(code))
            return opening(path, *args, **keys)

        if what == "open":
            patch.setattr(os, "open", refused)
        else:
            patch.setattr(os, "fdopen", lambda *args, **keys: Full(plain(*args, **keys), code))
        home = Home(folder)
        home.say("later", "later still", session="s2")
        topics = [each["topic"] for each in status.status(home.deps(None))["problems"]]
        kept = (folder / "lcm.db-wal").read_bytes()
        home.close()
    home = Home(folder)
    home.say("now", session="s3")
    over = home.runtime.health.problems()
    home.close()

    assert (topics, over) == (["stand-in"], [])
    assert kept == log
    assert said(folder) == sorted([*SAID, "later", "later still", "now"])


@pytest.mark.parametrize("shut", ["folder", "file", "log"])
def test_rights_that_are_missing_cost_nothing(shut: str, lost: Path) -> None:
    """Of the folder, of an empty file, of the log: seen by a user who has none there. What is wrong is named."""
    folder = readable_home()
    shutil.copytree(lost, folder, dirs_exist_ok=True)
    log = (folder / "lcm.db-wal").read_bytes()
    if shut == "file":
        (folder / "lcm.db").touch()
    for path in folder.iterdir():
        path.chmod(0o444 if path.name == "lcm.db" else 0o600 if shut == "log" else 0o666)
    folder.chmod(0o755 if shut == "folder" else 0o777)

    def turn() -> list[Any]:
        home = Home(folder)
        home.say("later", session="s2")
        found = status.status(home.deps(None))["problems"]
        home.close()
        return [[each["topic"], each["message"]] for each in found]

    problems = unprivileged(turn)
    kept = (folder / "lcm.db-wal").read_bytes()
    folder.chmod(0o700)
    if shut == "file":
        (folder / "lcm.db").chmod(0o600)
    home = Home(folder)
    home.say("now", session="s3")
    over = home.runtime.health.problems()
    home.close()
    words = said(folder)
    shutil.rmtree(folder)

    assert ([topic for topic, _ in problems], over) == (["stand-in"], [])
    assert f"lcm.db{'-wal' if shut == 'log' else ''}: " in problems[0][1]
    assert kept == log
    assert words == sorted([*SAID, "now", *(["later"] if shut != "folder" else [])])


def test_a_log_that_was_cut_in_a_page_loses_its_last_transaction_alone(tmp_path: Path) -> None:
    """As beside a file that is there."""
    home = Home(tmp_path / "said")
    home.say(*SAID)
    home.say("the last", session="s2")
    folder = left_by_a_kill(home, tmp_path / "home")
    log = folder / "lcm.db-wal"
    os.truncate(log, log.stat().st_size - 5000)

    assert set(SAID) <= set(said(folder))


def test_a_part_of_a_lost_file_is_saved_by_a_repair(tmp_path: Path) -> None:
    """Until then no file takes its place, and what is said is kept beside it."""
    home = Home(tmp_path / "said")
    home.say(*SAID)
    with closing(sqlite3.connect(home.path)) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    home.say("in the log", session="s2")
    folder = left_by_a_kill(home, tmp_path / "home")
    home = Home(folder)
    home.say("meanwhile", session="s3")
    topics = [each["topic"] for each in status.status(home.deps(None))["problems"]]
    there = (folder / "lcm.db").exists()
    home.close()
    home = Home(folder)
    done = answer("doctor repair apply", home.deps(None))
    home.close()
    home = Home(folder)
    home.say("now", session="s4")
    home.close()

    assert (topics, there) == (["stand-in"], False)
    assert done.data["applied"]
    assert {"in the log", "meanwhile", "now"} <= set(said(folder))


class Other:
    """Another process in a home, which says what it is told; nobody here has its file open when it begins."""

    def __init__(self, folder: Path) -> None:
        self._said, theirs = FORK.Pipe()
        self._process = FORK.Process(target=self._works, args=(folder, self._said, theirs))
        self._process.start()
        theirs.close()

    @staticmethod
    def _works(folder: Path, ours: Any, said: Any) -> None:
        ours.close()  # else this process would wait for itself
        home = Home(folder)
        with suppress(EOFError):
            while texts := said.recv():
                home.say(*texts, session=",".join(texts)[:9])
                said.send("said")
        home.close()

    def begin(self, *texts: str) -> None:
        self._said.send(texts)

    def heard(self) -> str:
        """The end of what was begun: "" where it failed."""
        try:
            return str(self._said.recv())
        except EOFError:
            return ""

    def say(self, *texts: str) -> None:
        self.begin(*texts)
        assert self.heard() == "said"

    def end(self) -> None:
        self._said.send(())
        self._process.join(60)


@pytest.mark.parametrize("is_empty", [False, True])
def test_processes_that_find_a_lost_file_at_once_make_one(is_empty: bool, lost: Path, tmp_path: Path) -> None:
    """What each of them says is in it, with all that was in the log."""
    folder = Path(shutil.copytree(lost, tmp_path / "home"))
    if is_empty:
        (folder / "lcm.db").touch()
    others = [Other(folder) for _ in range(3)]
    for n, other in enumerate(others):
        other.begin(f"said by {n}")
    heard = [other.heard() for other in others]
    for other in others:
        other.end()

    assert heard == ["said"] * 3
    assert said(folder) == sorted([*SAID, "said by 0", "said by 1", "said by 2"])


@pytest.mark.parametrize("is_folded", [False, True])
def test_a_file_that_is_lost_while_another_process_has_it_open_comes_back_whole(
    is_folded: bool, tmp_path: Path
) -> None:
    """Most of it may be in that process only, and a part of it in the log: nobody makes a damaged file of that part."""
    folder = tmp_path / "home"
    other = Other(folder)
    other.say(*SAID)
    if is_folded:
        with closing(sqlite3.connect(folder / "lcm.db")) as raw:
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.say("theirs 0")
    (folder / "lcm.db").unlink()
    home = Home(folder)
    for n in range(1, 4):
        home.say(f"ours {n}", session=f"o{n}")
        other.say(f"theirs {n}")
    home.close()
    other.end()

    words = [*SAID, "theirs 0", *(f"{who} {n}" for n in range(1, 4) for who in ("ours", "theirs"))]
    assert said(folder) == sorted(words)
