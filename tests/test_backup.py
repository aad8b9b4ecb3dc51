"""Backups are sound while writers work, few, private, and come back."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ops_world import (
    READS,
    ROOT,
    WRITES,
    Holder,
    World,
    corrupt,
    digest,
    healthy,
    readable_home,
    unprivileged,
    wrecked,
)

from hermes_lcm.command import answer
from hermes_lcm.db import connection, files
from hermes_lcm.errors import BadRequest, NotFound, StoreBusy, StoreCorrupt, StoreError
from hermes_lcm.ops import backup
from hermes_lcm.ops.checks import doctor
from hermes_lcm.text import chunk_ids


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A locked database is given up after 50 ms."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 50)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return healthy(tmp_path)


@pytest.fixture
def held() -> Iterator[list[Holder]]:
    holders: list[Holder] = []
    yield holders
    for each in holders:
        each.free()


# -- making ----------------------------------------------------------------------------------------------
def test_a_backup_is_one_private_sound_file(world: World) -> None:
    """No side files, readable by its owner only, with every row."""
    made = backup.back_up(world.deps())

    assert [path.name for path in made.path.parent.iterdir()] == ["lcm-20231114-221320.sqlite3"]
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.path.parent.stat().st_mode) == 0o700
    assert files.verify(made.path).sound
    assert (made.counts["messages"], made.counts["nodes"], made.counts["sessions"]) == (100, 1, 1)


def test_the_newest_ten_are_kept(world: World) -> None:
    """And nothing else in the folder is touched."""
    world.deps()
    backup.roll(world.deps())
    for _ in range(12):
        world.now += 3600
        made = backup.back_up(world.deps())
    names = [path.name for path in backup.backups(world.path)]

    assert len(names) == 10
    assert names[-1] == made.path.name
    assert backup.rotate_path(world.path).exists()


def test_two_in_the_same_second_are_two(world: World) -> None:
    """The second does not overwrite the first."""
    names = {backup.back_up(world.deps()).path.name for _ in range(3)}

    assert len(names) == 3


def test_a_damaged_database_makes_no_backup(tmp_path: Path) -> None:
    """A copy that is not sound would push out one that is."""
    world = corrupt(tmp_path)

    with pytest.raises(StoreCorrupt):
        backup.back_up(world.deps())
    assert backup.backups(world.path) == []
    assert list(backup.backup_folder(world.path).iterdir()) == []


def test_an_empty_home_has_nothing_to_back_up(tmp_path: Path) -> None:
    """And none is made."""
    with pytest.raises(BadRequest, match="nothing is stored yet"):
        backup.back_up(World(tmp_path).deps())
    assert list(tmp_path.iterdir()) == []


def test_a_writer_elsewhere_does_not_delay_a_backup(world: World, held: list[Holder]) -> None:
    """SQLite's backup API reads a snapshot."""
    held.append(Holder(world.path, *WRITES))

    assert backup.back_up(world.deps()).counts["messages"] == 100


def test_the_manifest_names_payload_files(world: World, tmp_path: Path) -> None:
    """Their digests tell at a restore which of them are gone."""
    folder = tmp_path / "payloads"
    folder.mkdir()
    (folder / "a.json").write_text("large")
    deps = replace(world.deps(), payload_dir=folder)
    made = backup.back_up(deps)
    assert made.payloads == 1
    assert "a.json" in json.loads(made.path.with_name(made.path.name + ".payloads.json").read_text())
    assert backup.plan_restore(deps, "latest").missing_payloads == ()
    (folder / "a.json").write_text("changed")
    assert backup.plan_restore(deps, "latest").missing_payloads == ("a.json",)


@pytest.mark.parametrize(
    "tries", [pytest.param(5, id="5-tries"), pytest.param(50, id="50-tries", marks=pytest.mark.slow)]
)
def test_backups_taken_while_two_writers_work_are_consistent(tries: int, tmp_path: Path) -> None:
    """Every message has its session, its place and its index entry, each time."""
    world = World(tmp_path)
    world.say("start")
    stop = threading.Event()
    failures: list[str] = []

    def write(session: str) -> None:
        other = World(tmp_path)
        texts: list[str] = []
        while not stop.is_set():
            texts += [f"{session} {len(texts)}", "answer"]
            try:
                other.say(*texts, session=session)
            except StoreBusy:  # the other writer was first; the same call works later
                texts = texts[:-2]
        other.close()

    writers = [threading.Thread(target=write, args=(f"w{n}",)) for n in range(2)]
    for each in writers:
        each.start()
    made = []
    for _ in range(tries):
        world.now += 1
        made.append(backup.back_up(world.deps()).path)
        if len(made) >= 2:
            failures += consistent(made.pop(0))
    stop.set()
    for each in writers:
        each.join()
    failures += consistent(made[-1])

    assert failures == []
    assert world.runtime.store.count() > tries


def test_a_backup_says_which_payload_files_are_missing(world: World) -> None:
    """They were lost before; the copy of the rows is sound all the same."""
    runtime = world.runtime
    blob = base64.b64encode(random.Random(5).randbytes(3000)).decode()
    world.say(f"look data:image/png;base64,{blob}", session="pictures")
    deps = replace(world.deps(), payloads=runtime.payloads, payload_dir=runtime.payloads.folder)
    assert answer("backup", deps).data["missing_payloads"] == []
    gone = next(runtime.payloads.folder.rglob("*.z"))
    gone.unlink()
    world.now += 1
    said = answer("backup", deps)

    assert (said.code, said.data["missing_payloads"]) == (0, [gone.stem])
    assert f"file_{gone.stem[:16]}" in said.text


def test_a_file_that_disappears_while_one_looks_is_no_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running agent finishes or removes payload files at any time."""
    payloads = world.runtime.payloads
    ghost = payloads.folder / "ab" / f"{'ab' * 32}.z"
    monkeypatch.setattr(type(payloads), "_files", lambda _self: iter([ghost]))
    monkeypatch.setattr(type(payloads), "_unfinished", lambda _self: [ghost.with_name(".unfinished")])
    said = doctor(replace(world.deps(), payloads=payloads), deep=False)

    assert next(each for each in said["checks"] if each["check"] == "payload_files")["status"] == "pass"


WRITER = """
import base64, random, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from ops_world import World
world, session, texts = World(Path(sys.argv[2])), sys.argv[3], []
rng = random.Random(session)
while True:
    image = f"data:image/png;base64,{base64.b64encode(rng.randbytes(3000)).decode()}" if len(texts) % 20 == 0 else ""
    texts += [f"{session} {len(texts)} {image}", "answer"]
    try:
        world.say(*texts[-400:], session=f"{session}-{len(texts) // 400}") if len(texts) % 400 else texts.clear()
    except Exception as exc:  # the other writer was first; the same call works later
        if "locked" not in str(exc):
            raise
        texts = texts[:-2]
    print(len(texts), flush=True)
"""


@pytest.mark.parametrize(
    "tries", [pytest.param(2, id="2-tries"), pytest.param(50, id="50-tries", marks=pytest.mark.slow)]
)
def test_what_two_processes_were_writing_is_restored_whole(
    tries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each backup goes into a home of its own, where the doctor finds nothing wrong and every session has no gap."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 2000)
    world = World(tmp_path / "home")
    world.say("start")
    command = [sys.executable, "-c", WRITER, str(Path(__file__).parent), str(world.home)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / ".lcm-path")}
    writers = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True, env=env) for name in ("w0", "w1")]
    try:
        for each in writers:  # both are at work
            assert each.stdout is not None
            assert each.stdout.readline()
            threading.Thread(target=each.stdout.read, daemon=True).start()
        counts = [restored(world, tmp_path / f"restored-{n}") for n in range(tries)]
        assert [each.poll() for each in writers] == [None, None]
    finally:
        for each in writers:
            each.kill()
            each.wait()

    assert counts == sorted(counts)
    assert counts[-1] > counts[0]


def restored(world: World, home: Path) -> int:
    """Messages of a backup made now, after it was put into another home and looked at thoroughly."""
    runtime = world.runtime
    world.now += 1
    made = backup.back_up(replace(world.deps(), payload_dir=runtime.payloads.folder))
    fresh = World(home)
    done = backup.restore(replace(fresh.deps(None), payload_dir=runtime.payloads.folder), str(made.path))
    said = doctor(fresh.deps(None), deep=True)

    assert done.missing_payloads == ()
    assert made.payloads > 0
    assert said["overall"] == "healthy", [each for each in said["checks"] if each["status"] != "pass"]
    assert consistent(fresh.path) == []
    assert fresh.runtime.store.count() == made.counts["messages"]
    fresh.close()
    return made.counts["messages"]


def consistent(path: Path) -> list[str]:
    """What is wrong with a backup."""
    with sqlite3.connect(path) as copy:
        gaps = copy.execute(
            "SELECT conversation_id FROM messages GROUP BY 1 HAVING max(seq) <> count(*) OR min(seq) <> 1"
        ).fetchall()
        orphans = copy.execute(
            "SELECT count(*) FROM messages WHERE session_key NOT IN (SELECT session_key FROM sessions)"
        ).fetchone()
        missing = copy.execute(
            f"SELECT count(*) FROM messages WHERE {chunk_ids.FIRST_SQL.format('store_id')} "
            "NOT IN (SELECT id FROM message_index_docsize)"
        ).fetchone()
    copy.close()
    return [f"{path.name}: {gaps} {orphans} {missing}"] if gaps or orphans[0] or missing[0] else []


# -- restoring -------------------------------------------------------------------------------------------
def test_a_dry_run_says_what_would_be_gone(world: World) -> None:
    """And changes nothing."""
    backup.back_up(world.deps())
    world.say("later", "on", session="s2")
    before = digest(world.path, Path(f"{world.path}-wal"))
    plan = backup.plan_restore(world.deps(), "latest")

    assert (plan.counts["messages"], plan.newer) == (100, 2)
    assert digest(world.path, Path(f"{world.path}-wal")) == before


def test_a_restore_brings_back_what_was(world: World) -> None:
    """And keeps what it replaced, sound and complete."""
    backup.back_up(world.deps())
    world.say("later", "on", session="s2")
    done = backup.restore(world.deps(), "latest")

    assert world.runtime.store.count() == 100
    assert done.kept is not None
    assert files.verify(done.kept).counts["messages"] == 102
    assert stat.S_IMODE(world.path.stat().st_mode) == 0o600


def test_work_goes_on_after_a_restore(world: World) -> None:
    """At its next message the session gets back what was stored since the backup: the live list still has it."""
    texts = [f"message {n} about the zebra deployment of service {n % 7} " * 4 for n in range(100)]
    backup.back_up(world.deps())
    world.say(*texts, "one more", "and its answer")
    backup.restore(world.deps(), "latest")
    world.say(*texts, "one more", "and its answer", "the next", "and its answer")

    assert world.runtime.store.count("s1") == 104
    assert doctor(world.deps())["overall"] == "healthy"


def test_messages_go_to_their_session_in_a_file_that_numbers_sessions_otherwise(world: World, tmp_path: Path) -> None:
    """A live process that still remembers numbers of the file that was there before stores nothing; its next call does."""
    other = World(tmp_path / "other")
    other.say("somebody", "else", session="s2")
    other.say("hello", "there", session="s1")
    other.close()
    assert world.runtime.store.count("s1") == 100
    files.exchange(world.runtime.db, other.path, None)
    live = "hello", "there", "and now"
    with pytest.raises(StoreError, match="no session 's1' in conversation 1"):
        world.say(*live, session="s1")
    world.say(*live, session="s1")

    assert [row.text for row in world.runtime.store.page("s1", after=0, limit=9)] == [*live]
    assert world.runtime.store.count("s2") == 2


def test_restoring_twice_is_restoring_once(world: World) -> None:
    """The second time finds what the first left."""
    backup.back_up(world.deps())
    backup.restore(world.deps(), "latest")
    world.now += 1
    backup.restore(world.deps(), "latest")

    assert world.runtime.store.count() == 100


@pytest.mark.parametrize("statements", [READS, WRITES], ids=["reader", "writer"])
def test_a_database_in_use_elsewhere_is_not_exchanged(
    statements: tuple[str, ...], world: World, held: list[Holder]
) -> None:
    """The other process would delete the new file's log; so it is refused, and nothing changed."""
    backup.back_up(world.deps())
    held.append(Holder(world.path, *statements))

    with pytest.raises(StoreBusy, match="another process"):
        backup.restore(world.deps(), "latest")
    assert world.runtime.store.count() == 100
    assert not list(world.home.glob(".*"))


@pytest.mark.parametrize("state", [wrecked], ids=["wrecked"])
def test_a_damaged_database_is_replaced_and_kept(state: object, tmp_path: Path) -> None:
    """A restore is the way out of damage."""
    made = backup.back_up(healthy(tmp_path / "sound").deps()).path
    (tmp_path / "broken").mkdir()
    world = wrecked(tmp_path / "broken")
    broken = world.path.read_bytes()
    done = backup.restore(world.deps(), str(made))

    assert world.runtime.store.count() == 100
    assert done.kept is not None
    assert done.kept.read_bytes() == broken


def test_a_lost_database_comes_back(tmp_path: Path) -> None:
    """There need not be one."""
    made = backup.back_up(healthy(tmp_path / "old").deps()).path
    world = World(tmp_path / "new")
    backup.restore(world.deps(), str(made))

    assert world.runtime.store.count() == 100


def test_a_damaged_backup_is_refused(world: World) -> None:
    """Before anything is touched."""
    made = backup.back_up(world.deps()).path
    made.write_bytes(made.read_bytes()[:5000])

    with pytest.raises(StoreCorrupt, match="no sound backup") as refused:
        backup.restore(world.deps(), made.name)
    assert "name another backup" in refused.value.remedy  # the database is well: nothing is to be repaired
    assert world.runtime.store.count() == 100


@pytest.mark.parametrize("name", ["latest", "lcm-19990101-000000.sqlite3"])
def test_an_unknown_backup_is_named(name: str, world: World) -> None:
    """With the ones there are."""
    with pytest.raises(NotFound):
        backup.plan_restore(world.deps(), name)


def test_the_backups_that_may_have_been_meant_are_named_newest_first(world: World) -> None:
    """As the list of them is."""
    folder = backup.backup_folder(world.path)
    folder.mkdir()
    for day in range(1, 8):
        (folder / f"lcm-2026010{day}-000000.sqlite3").touch()

    with pytest.raises(NotFound, match=r"newest first: lcm-20260107\S+ lcm-20260106.*, lcm-20260103-000000\.sqlite3$"):
        backup.plan_restore(world.deps(), "newest")


@pytest.mark.parametrize("words", ["restore", "restore latest", "restore lcm-20260101-000000.sqlite3", "backup"])
def test_a_folder_that_cannot_be_looked_into_is_not_taken_for_an_empty_one(words: str, world: World) -> None:
    """Whoever is told that there is no backup stops looking for one."""
    backup.backup_folder(world.path).write_text("in the way")
    said = answer(words, world.deps())

    assert said.code != 0
    assert "lcm-backups" in said.text
    assert "none" not in said.text
    assert "lcm-backups" in str(doctor(world.deps())["checks"])
    assert doctor(world.deps())["overall"] != "healthy"


def test_the_backups_of_another_account_are_no_empty_folder(tmp_path: Path) -> None:
    """It is closed to everybody but whoever made it, and anybody may ask."""
    home = readable_home()
    try:
        backup.backup_folder(home / "lcm.db").mkdir(mode=0o700)
        world = World(home)
        said = unprivileged(lambda: answer("restore", world.deps()).text)
    finally:
        shutil.rmtree(home)
    assert (
        "Permission denied" if os.geteuid() == 0 else "none yet"
    ) in said  # of somebody who is not root, it is their own


def test_nobody_is_sent_to_a_backup_that_is_not_there(tmp_path: Path) -> None:
    """A file that cannot be saved is put back from one, where there is one."""
    assert "there is no backup in" in backup.way_back(tmp_path / "lcm.db")
    world = healthy(tmp_path / "kept")
    made = backup.back_up(world.deps()).path
    assert made.name in backup.way_back(world.path)


def test_the_database_is_no_backup_of_itself(world: World) -> None:
    """That would empty it."""
    with pytest.raises(BadRequest, match="the database itself"):
        backup.restore(world.deps(), str(world.path))
