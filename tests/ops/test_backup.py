"""Backups are sound while writers work, few, private, and come back."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import random
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import tarfile
import threading
import time
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from worlds.home import (
    READS,
    ROOT,
    WRITES,
    Holder,
    Home,
    corrupt,
    digest,
    empty,
    healthy,
    readable_home,
    unprivileged,
    wrecked,
)

from hermes_lcm.command import FAILED, FOUND, OK, REFUSED, answer, run
from hermes_lcm.errors import BadRequest, NotFound, StoreBusy, StoreCorrupt, StoreError
from hermes_lcm.ops import backup
from hermes_lcm.ops.doctor.checks import doctor
from hermes_lcm.search import documents
from hermes_lcm.storage import connection, disk, files

pytestmark = pytest.mark.usefixtures("short_waits")


# -- making ----------------------------------------------------------------------------------------------
def test_a_backup_is_one_private_sound_file(world: Home) -> None:
    """No side files, readable by its owner only, with every row."""
    made = backup.back_up(world.deps())

    assert [path.name for path in made.path.parent.iterdir()] == ["lcm-20231114-221320.sqlite3"]
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.path.parent.stat().st_mode) == 0o700
    assert not files.faults(made.path)
    assert (made.counts["messages"], made.counts["nodes"], made.counts["sessions"]) == (100, 1, 1)


def test_no_copy_is_for_others_to_read_while_it_is_made(
    world: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the umask: backup, copy on another disk, archive, and what is put back."""
    seen: dict[str, int] = {}
    copied = shutil.copyfile

    def look(*_: object) -> None:
        for path in (each for each in tmp_path.rglob("*") if each.is_file()):
            seen[path.name] = seen.get(path.name, 0) | stat.S_IMODE(path.stat().st_mode)

    def copyfile(source: Path, target: Path, **facts: bool) -> object:
        look()
        assert stat.S_IMODE(Path(target).stat().st_mode) == 0o600
        return copied(source, target, **facts)

    monkeypatch.setattr(shutil, "copyfile", copyfile)
    before = os.umask(0)
    try:
        made = backup.back_up(world.deps(), look)
        backup.copy_to(world.deps(), made, tmp_path / "elsewhere")
        backup.restore(world.deps(), "latest", look)
    finally:
        os.umask(before)

    assert {mode for mode in seen.values() if mode & 0o077} == set()
    assert any(name.endswith(".partial") for name in seen)


def test_the_newest_ten_are_kept(world: Home) -> None:
    """And of the day before the newest one; and nothing else in the folder is touched."""
    world.deps()
    backup.roll(world.deps())
    for _ in range(12):
        world.now += 3600
        made = backup.back_up(world.deps())
    names = [each.path.name for each in backup.backups(world.deps())]

    assert len(names) == 11
    assert names[-1] == made.path.name
    assert backup.rotate_path(world.path).exists()


def test_two_in_the_same_second_are_two(world: Home) -> None:
    """The second does not overwrite the first."""
    names = {backup.back_up(world.deps()).path.name for _ in range(3)}

    assert len(names) == 3


def test_two_at_once_in_one_process_are_two(world: Home) -> None:
    """The second begins while the first is being checked, in the same second; neither takes the other's file."""
    first, others = iter([True]), list[backup.Made]()

    def progress(what: str, _done: int, _total: int) -> None:
        if what == "checking" and next(first, False):
            others.append(backup.back_up(world.deps()))

    made = [backup.back_up(world.deps(), progress), *others]

    assert {each.path.name for each in made} == {"lcm-20231114-221320.sqlite3", "lcm-20231114-221320-2.sqlite3"}
    assert [files.faults(each.path) for each in made] == [(), ()]
    assert sorted(each.name for each in made[0].path.parent.iterdir()) == sorted(each.path.name for each in made)


def test_two_that_end_at_once_are_two(world: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one is made while the first waits for the disk; neither takes the other's name."""
    last, others, sync = iter([False, True]), list[backup.Made](), disk.sync  # first the copy is sealed

    def slow(path: Path) -> None:
        if path.suffix == ".partial" and next(last, False):
            others.append(backup.back_up(world.deps()))
        sync(path)

    monkeypatch.setattr(disk, "sync", slow)
    made = [backup.back_up(world.deps()), *others]

    assert len({each.path for each in made}) == 2


def test_a_damaged_database_makes_no_backup(tmp_path: Path) -> None:
    """A copy that is not sound would push out one that is."""
    world = corrupt(tmp_path)

    with pytest.raises(StoreCorrupt):
        backup.back_up(world.deps())
    assert backup.backups(world.deps()) == []
    assert list(backup.backup_folder(world.path).iterdir()) == []


def test_an_empty_home_has_nothing_to_back_up(tmp_path: Path) -> None:
    """And none is made."""
    with pytest.raises(BadRequest, match="nothing is stored yet"):
        backup.back_up(Home(tmp_path).deps())
    assert list(tmp_path.iterdir()) == []


def test_a_writer_elsewhere_does_not_delay_a_backup(world: Home, held: list[Holder]) -> None:
    """SQLite's backup API reads a snapshot."""
    held.append(Holder(world.path, *WRITES))

    assert backup.back_up(world.deps()).counts["messages"] == 100


def test_putting_a_backup_back_tells_how_far_it_is(world: Home) -> None:
    """Of the check and of the copy: both take long with a large file."""
    deps = world.deps()
    backup.back_up(deps)
    told: list[tuple[str, int, int]] = []
    backup.restore(deps, "latest", lambda *step: told.append(step))

    last = {what: (done, total) for what, done, total in told}
    assert last["copying"] == (1, 1)
    assert last["checking the file"][0] == last["checking the file"][1] or last["checking the file"][1] == 0


def test_a_backup_names_payload_files(world: Home, tmp_path: Path) -> None:
    """Their digests tell at a restore which of them are gone."""
    folder = tmp_path / "lcm-payloads"
    folder.mkdir()
    (folder / "a.json").write_text("large")
    deps = world.deps()
    made = backup.back_up(deps)
    assert made.payloads == 1
    assert list(files.facts(made.path).payloads) == ["a.json"]
    assert backup.plan_restore(deps, "latest").missing_payloads == ()
    (folder / "a.json").write_text("changed")
    assert backup.plan_restore(deps, "latest").missing_payloads == ("a.json",)


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_restore_names_a_folder_that_has_the_name_of_a_side_file(world: Home, ending: str) -> None:
    """Nothing is changed; once the folder is gone the backup goes back."""
    deps = world.deps()
    backup.back_up(deps)
    deps.db.close()
    side = Path(f"{deps.db.path}{ending}")
    side.mkdir()
    with pytest.raises(StoreError, match=f"{re.escape(side.name)} is a folder"):
        backup.restore(deps, "latest")
    side.rmdir()

    assert backup.restore(deps, "latest").counts["messages"] == deps.store.count()


@pytest.mark.parametrize("now", [None, "changed"])
@pytest.mark.parametrize("named", ["latest", "the archive"])
def test_payload_files_that_are_gone_come_out_of_an_older_archive(
    world: Home, tmp_path: Path, now: str | None, named: str
) -> None:
    """The newest backup is put back, which names them and does not hold them."""
    folder, deps = tmp_path / "lcm-payloads", world.deps()
    folder.mkdir()
    (folder / "a.json").write_text("large")
    (folder / "b.json").write_text("as it was")
    packed = backup.back_up(deps, with_files=True)
    (folder / "c.json").write_text("newer than the archive")
    world.now += 60
    backup.back_up(deps)
    for name in ("a.json", "c.json"):
        (folder / name).unlink()
    if now is not None:
        (folder / "a.json").write_text(now)
    done = backup.restore(deps, "latest" if named == "latest" else packed.path.name)

    assert (folder / "a.json").read_text() == "large"
    assert (folder / "b.json").read_text() == "as it was"
    assert done.missing_payloads == (("c.json",) if named == "latest" else ())
    assert f"payload files that are gone come out of {packed.path.name}" in done.notes


@pytest.fixture
def packed(world: Home, tmp_path: Path) -> Path:
    """An archive of backups with two payload files, which are gone since, and a newer backup that names them."""
    folder, deps = tmp_path / "lcm-payloads", world.deps()
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.json").write_text(name * 50_000)
    made = backup.back_up(deps, with_files=True)
    world.now += 60
    backup.back_up(deps)
    for name in ("a", "b"):
        (folder / f"{name}.json").unlink()
    return made.path


@pytest.mark.parametrize("named", ["latest", "the archive"])
def test_an_archive_that_is_cut_off_gives_what_it_holds(world: Home, packed: Path, named: str) -> None:
    """The database goes back all the same; a file that does not come is named."""
    data = packed.read_bytes()
    packed.write_bytes(data[: data.index(b"b" * 1000) + 1000])
    done = backup.restore(world.deps(), "latest" if named == "latest" else packed.name)

    assert done.counts["messages"] == world.deps().store.count()
    assert done.missing_payloads == ("b.json",)
    assert (world.deps().payloads.folder / "a.json").read_text() == "a" * 50_000


def test_a_payload_file_that_an_archive_holds_changed_is_named_as_missing(world: Home, packed: Path) -> None:
    """It would be another one under the right name."""
    packed.write_bytes(packed.read_bytes().replace(b"a" * 1000, b"A" * 1000, 1))
    done = backup.restore(world.deps(), "latest")

    assert done.missing_payloads == ("a.json",)
    assert not (world.deps().payloads.folder / "a.json").exists()


def test_an_archive_writes_nothing_outside_the_folder(world: Home, tmp_path: Path) -> None:
    """Whatever the archive says that it holds, and the backup in it that it names."""
    outside, deps, said = tmp_path / "outside.txt", world.deps(), b"harm"
    made = backup.back_up(deps).path
    with sqlite3.connect(made) as connection:
        note = {"made_at": 1.0, "payloads": {str(outside): hashlib.sha256(said).hexdigest()}}
        connection.execute("UPDATE meta SET value = ? WHERE key = ?", (json.dumps(note), files.NOTE))
    connection.close()
    facts = files.facts(made)
    crafted = tmp_path / "crafted.tar"
    with tarfile.open(crafted, "w") as archive:
        for name, data in (
            ("backup.json", json.dumps(asdict(facts)).encode()),
            ("database.sqlite3", made.read_bytes()),
            (f"payloads/{outside}", said),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    done = backup.restore(deps, str(crafted))

    assert done.missing_payloads == (str(outside),)
    assert not outside.exists()


def test_an_archive_holds_what_a_link_stands_for(world: Home, tmp_path: Path) -> None:
    """A payload file may have been moved to another disk."""
    folder, moved = tmp_path / "lcm-payloads", tmp_path / "moved.json"
    folder.mkdir()
    moved.write_text("large")
    (folder / "a.json").symlink_to(moved)
    made = backup.back_up(world.deps(), with_files=True)
    (folder / "a.json").unlink()
    moved.unlink()
    backup.restore(world.deps(), made.path.name)

    assert (folder / "a.json").read_text() == "large"


def test_a_payload_file_that_cannot_be_written_is_named(world: Home, packed: Path) -> None:
    """The database is not changed."""
    deps = world.deps()
    (deps.payloads.folder / "a.json").mkdir()
    with pytest.raises(StoreError, match=r"a\.json of .*Is a directory; the database was not changed"):
        backup.restore(deps, packed.name)


@pytest.mark.parametrize(
    "tries", [pytest.param(5, id="5-tries"), pytest.param(50, id="50-tries", marks=pytest.mark.slow)]
)
def test_backups_taken_while_two_writers_work_are_consistent(tries: int, tmp_path: Path) -> None:
    """Every message has its session, its place and its index entry, each time."""
    world = Home(tmp_path)
    world.say("start")
    stop = threading.Event()
    failures: list[str] = []

    def write(session: str) -> None:
        other = Home(tmp_path)
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


def test_a_backup_says_which_payload_files_are_missing(world: Home) -> None:
    """They were lost before; the copy of the rows is sound all the same."""
    runtime = world.runtime
    blob = base64.b64encode(random.Random(5).randbytes(3000)).decode()
    world.say(f"look data:image/png;base64,{blob}", session="pictures")
    deps = world.deps()
    assert answer("backup", deps).data["missing_payloads"] == []
    gone = next(runtime.payloads.folder.rglob("*.z"))
    gone.unlink()
    world.now += 1
    said = answer("backup", deps)

    assert (said.code, said.data["missing_payloads"]) == (0, [gone.stem])
    assert f"file_{gone.stem[:16]}" in said.text


def test_a_file_that_disappears_while_one_looks_is_no_error(world: Home, monkeypatch: pytest.MonkeyPatch) -> None:
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
from worlds.home import Home
world, session, texts = Home(Path(sys.argv[2])), sys.argv[3], []
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
    world = Home(tmp_path / "home")
    world.say("start")
    command = [sys.executable, "-c", WRITER, str(Path(__file__).parents[1]), str(world.home)]
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


def restored(world: Home, home: Path) -> int:
    """Messages of a backup made now, after it was put into another home and looked at thoroughly."""
    world.now += 1
    made = backup.back_up(world.deps())
    fresh = Home(home)
    fresh.runtime.payloads.folder.symlink_to(world.runtime.payloads.folder)
    done = backup.restore(fresh.deps(None), str(made.path))
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
            f"SELECT count(*) FROM messages WHERE {documents.FIRST_SQL.format('store_id')} "
            "NOT IN (SELECT id FROM message_index_docsize)"
        ).fetchone()
    copy.close()
    return [f"{path.name}: {gaps} {orphans} {missing}"] if gaps or orphans[0] or missing[0] else []


# -- restoring -------------------------------------------------------------------------------------------
def test_a_dry_run_says_what_would_be_gone(world: Home) -> None:
    """And changes nothing."""
    backup.back_up(world.deps())
    world.say("later", "on", session="s2")
    before = digest(world.path, Path(f"{world.path}-wal"))
    plan = backup.plan_restore(world.deps(), "latest")

    assert (plan.counts["messages"], plan.newer) == (100, 2)
    assert digest(world.path, Path(f"{world.path}-wal")) == before


def test_a_restore_brings_back_what_was(world: Home) -> None:
    """And keeps what it replaced, sound and complete."""
    backup.back_up(world.deps())
    world.say("later", "on", session="s2")
    done = backup.restore(world.deps(), "latest")

    assert world.runtime.store.count() == 100
    assert done.kept is not None
    assert files.counts(done.kept)["messages"] == 102
    assert stat.S_IMODE(world.path.stat().st_mode) == 0o600


def test_work_goes_on_after_a_restore(world: Home) -> None:
    """At its next message the session gets back what was stored since the backup: the live list still has it."""
    texts = [f"message {n} about the zebra deployment of service {n % 7} " * 4 for n in range(100)]
    backup.back_up(world.deps())
    world.say(*texts, "one more", "and its answer")
    backup.restore(world.deps(), "latest")
    world.say(*texts, "one more", "and its answer", "the next", "and its answer")

    assert world.runtime.store.count("s1") == 104
    assert doctor(world.deps())["overall"] == "healthy"


def test_messages_go_to_their_session_in_a_file_that_numbers_sessions_otherwise(world: Home, tmp_path: Path) -> None:
    """A live process remembers numbers of the file that was there before: it looks them up again."""
    other = Home(tmp_path / "other")
    other.say("somebody", "else", session="s2")
    other.say("hello", "there", session="s1")
    other.close()
    assert world.runtime.store.count("s1") == 100
    files.exchange(world.runtime.db, other.path, None)
    live = "hello", "there", "and now"
    world.say(*live, session="s1")

    assert [row.text for row in world.runtime.store.page("s1", after=0, limit=9)] == [*live]
    assert world.runtime.store.count("s2") == 2


def test_restoring_twice_is_restoring_once(world: Home) -> None:
    """The second time finds what the first left."""
    backup.back_up(world.deps())
    backup.restore(world.deps(), "latest")
    world.now += 1
    backup.restore(world.deps(), "latest")

    assert world.runtime.store.count() == 100


@pytest.mark.parametrize("statements", [READS, WRITES], ids=["reader", "writer"])
def test_a_database_in_use_elsewhere_is_not_exchanged(
    statements: tuple[str, ...], world: Home, held: list[Holder]
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
    world = Home(tmp_path / "new")
    backup.restore(world.deps(), str(made))

    assert world.runtime.store.count() == 100


def test_a_damaged_backup_is_refused(world: Home) -> None:
    """Before anything is touched."""
    made = backup.back_up(world.deps()).path
    made.write_bytes(made.read_bytes()[:5000])

    with pytest.raises(StoreCorrupt, match="not a sound backup") as refused:
        backup.restore(world.deps(), made.name)
    assert "name another backup" in refused.value.remedy  # the database is well: nothing is to be repaired
    assert str(world.path) not in refused.value.remedy  # nor to be written over
    assert world.runtime.store.count() == 100


@pytest.mark.parametrize("name", ["latest", "lcm-19990101-000000.sqlite3"])
def test_an_unknown_backup_is_named(name: str, world: Home) -> None:
    """With the ones there are."""
    with pytest.raises(NotFound):
        backup.plan_restore(world.deps(), name)


def test_the_backups_that_may_have_been_meant_are_named_newest_first(world: Home) -> None:
    """As the list of them is."""
    folder = backup.backup_folder(world.path)
    folder.mkdir()
    for day in range(1, 8):
        (folder / f"lcm-2026010{day}-000000.sqlite3").touch()

    with pytest.raises(NotFound, match=r": lcm-20260107\S+ lcm-20260106.*, lcm-20260103-000000\.sqlite3$"):
        backup.plan_restore(world.deps(), "newest")


@pytest.mark.parametrize("words", ["restore", "restore latest", "restore lcm-20260101-000000.sqlite3", "backup"])
def test_a_folder_that_cannot_be_looked_into_is_not_taken_for_an_empty_one(words: str, world: Home) -> None:
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
        world = Home(home)
        said = unprivileged(lambda: answer("restore", world.deps()).text)
    finally:
        shutil.rmtree(home)
    assert (
        "Permission denied" if os.geteuid() == 0 else "no backup of this database yet"
    ) in said  # of somebody who is not root, it is their own


def test_nobody_is_sent_to_a_backup_that_is_not_there(tmp_path: Path) -> None:
    """A file that cannot be saved is put back from one, where there is one."""
    assert "there is no backup in" in backup.way_back(empty(tmp_path).deps())
    world = healthy(tmp_path / "kept")
    made = backup.back_up(world.deps()).path
    assert f"`/lcm restore {made.name}`" in backup.way_back(world.deps())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("CREATE TRIGGER theirs AFTER INSERT ON messages BEGIN DELETE FROM meta; END", "a trigger, theirs"),
        ("CREATE TABLE x AS SELECT * FROM messages; DROP TABLE messages; ALTER TABLE x RENAME TO messages", "keys or checks"),
        ("ALTER TABLE messages RENAME COLUMN envelope TO env", "messages.envelope"),
    ],
    ids=["trigger", "keys", "column"],
)  # fmt: skip
def test_a_backup_that_another_program_changed_takes_no_place(world: Home, change: str, said: str) -> None:
    """The database stays what it is, whole."""
    made = backup.back_up(world.deps()).path
    with closing(sqlite3.connect(made, isolation_level=None)) as raw:
        raw.executescript(change)
    done = answer(f"restore {made.name} apply", world.deps())

    assert (done.code, said in done.text) == (FAILED, True), done.text
    assert answer("doctor deep", world.deps()).code == OK
    assert not list(made.parent.glob("*before-restore*"))


def test_nobody_is_sent_to_restore_what_restore_refuses(tmp_path: Path) -> None:
    """Of the only backup, which is not sound, what is readable is saved in the place of the database."""
    world = healthy(tmp_path)
    world.raw("DROP TABLE node_sources")
    made = backup.back_up(world.deps()).path
    world.close()
    world.path.unlink()
    (missing,) = [each for each in doctor(world.deps())["checks"] if each["check"] == "database"]
    refused = answer("restore latest apply", world.deps()).text
    for said in (missing["remedy"], missing.get("command", ""), backup.way_back(world.deps())):
        assert "/lcm restore" not in said
    assert "doctor repair" in missing["remedy"]
    assert "doctor repair" in refused
    shutil.copy(made, world.path)
    answer("doctor repair apply", world.deps())

    assert doctor(world.deps(), deep=True)["counts"]["fail"] == 0


def test_the_database_is_no_backup_of_itself(world: Home) -> None:
    """That would empty it."""
    with pytest.raises(BadRequest, match="the database itself"):
        backup.restore(world.deps(), str(world.path))


# -- what is lost, and whose it is ------------------------------------------------------------------------
LOOKING = ("status", "doctor", "doctor deep", "doctor repair", "search zebra", "explain msg_1", "export", "doctor retention",
           "doctor source", "doctor clean", "redact preview", "dissolve sum_1", "restore", "doctor accept", "doctor duplicates",
           "help")  # fmt: skip


@pytest.mark.few(17)
@pytest.mark.parametrize("words", LOOKING)
@pytest.mark.parametrize("left", ["empty", "missing"])
def test_looking_makes_no_database_of_an_empty_file(left: str, words: str, world: Home) -> None:
    """And says nowhere that all is well while a backup holds more."""
    backup.back_up(world.deps())
    world.close()
    world.path.unlink()
    if left == "empty":
        world.path.touch()
    fresh = Home(world.home)
    said = answer(words, fresh.deps(None))

    assert [path.stat().st_size for path in world.home.glob("lcm.db*")] == ([0] if left == "empty" else [])
    assert "lcm-20231114-221320.sqlite3" in said.text or words in ("status", "help")


@pytest.mark.parametrize("left", ["empty", "missing"])
def test_an_archive_that_is_gone_is_a_failure_with_its_way_back(left: str, world: Home) -> None:
    """The best backup by name, date and count, and the command; which works."""
    backup.back_up(world.deps())
    world.close()
    world.path.unlink()
    if left == "empty":
        world.path.touch()
    fresh = Home(world.home)
    found = next(each for each in doctor(fresh.deps(None))["checks"] if each["check"] == "database")
    answer(found["command"].removeprefix("/lcm "), fresh.deps(None))

    assert found["status"] == "fail"
    assert "lcm-20231114-221320.sqlite3 of 2023-11-14 22:13:20Z, 100 messages" in found["detail"]
    assert fresh.runtime.store.count() == 100


def test_a_file_that_began_anew_is_no_healthy_archive(world: Home) -> None:
    """A backup under its name holds more; until that is accepted."""
    backup.back_up(world.deps())
    world.close()
    world.path.unlink()
    fresh = Home(world.home)
    fresh.say("one", "two")
    before = next(each for each in doctor(fresh.deps())["checks"] if each["check"] == "backups")
    answer("doctor accept apply", fresh.deps())
    after = next(each for each in doctor(fresh.deps())["checks"] if each["check"] == "backups")

    assert (before["status"], before["command"]) == ("fail", "/lcm restore lcm-20231114-221320.sqlite3")
    assert (after["status"], "accepted" in after["detail"]) == ("pass", True)


def test_two_databases_in_one_folder_do_not_mix(tmp_path: Path) -> None:
    """Neither for `latest` nor where backups give way."""
    alice, bob = (Home(tmp_path, database=name) for name in ("alice", "bob"))
    alice.say("alice", "said")
    bob.say("bob", "said", "more")
    kept = backup.back_up(alice.deps()).path
    with pytest.raises(NotFound, match="alice-"):
        backup.plan_restore(bob.deps(), "latest")
    for _ in range(12):
        bob.now += 3600
        backup.back_up(bob.deps())

    assert kept.exists()
    assert backup.chosen(bob.deps(), "latest")[0].name.startswith("bob-")
    assert "of another database" in backup.plan_restore(bob.deps(), kept.name).notes[0]


def test_a_smaller_archive_pushes_out_no_larger_backup(world: Home) -> None:
    """Twelve backups later it is still there; so is one of each day, week and month."""
    large = backup.back_up(world.deps()).path
    world.raw("DELETE FROM messages WHERE store_id > 50")
    for hours in (1, 2, 3, 24, 48, 24 * 30, 24 * 60, *range(1500, 1512)):
        world.now = 1_700_000_000.0 + hours * 3600
        backup.back_up(world.deps(), marked=True)

    assert large.exists()
    assert len(backup.all_backups(world.path)) < 20


def test_the_order_is_that_of_the_making(world: Home) -> None:
    """Within one second too."""
    names = []
    for n in range(3):
        world.now += 0.1
        world.say("more", str(n), session=f"t{n}")
        names.append(backup.back_up(world.deps()).path)

    assert [each.path for each in backup.backups(world.deps())] == names
    assert backup.chosen(world.deps(), "latest")[0] == names[-1]


def test_a_backup_of_an_altered_file_is_marked_and_passed_over(world: Home) -> None:
    """`latest` is the newest sound one, and says what is newer."""
    sound = backup.back_up(world.deps()).path
    world.close()
    world.raw("UPDATE messages SET role = 'tool' WHERE store_id = 7")
    world.now += 60
    said = answer("backup", world.deps())
    path, notes = backup.chosen(world.deps(), "latest")

    assert (said.code, Path(said.data["path"]).name) == (1, "lcm-20231114-221420.unsound.sqlite3")
    assert (path, len(notes)) == (sound, 1)
    assert "lcm-20231114-221420.unsound.sqlite3" in notes[0]


def test_an_archive_of_database_and_files_brings_both_back(world: Home, tmp_path: Path) -> None:
    """Into a home that has neither."""
    blob = base64.b64encode(random.Random(5).randbytes(3000)).decode()
    world.say(f"look data:image/png;base64,{blob}", session="pictures")
    deps = world.deps()
    made = answer("backup --with-files", deps)
    fresh = Home(tmp_path / "other")
    there = fresh.deps(None, trusted=True)
    done = answer(f"restore {made.data['path']} apply", there)

    assert (made.code, done.code, done.data["counts"]["messages"]) == (0, 0, 101)
    assert fresh.runtime.payloads.survey(deep=True).missing == ()
    assert stat.S_IMODE(Path(made.data["path"]).stat().st_mode) == 0o600


@pytest.mark.parametrize("how", ["gone", "changed"])
def test_the_doctor_names_the_archive_that_holds_a_lost_payload_file(how: str, world: Home) -> None:
    """Not the acceptance of a loss that is none; and putting it back helps."""
    blob = base64.b64encode(random.Random(5).randbytes(3000)).decode()
    world.say(f"look data:image/png;base64,{blob}", session="pictures")
    made = answer("backup --with-files", world.deps())
    world.now += 60
    answer("backup", world.deps())
    (path,) = world.runtime.payloads.folder.rglob("*.z")
    path.unlink() if how == "gone" else path.write_bytes(b"")
    checks = {each["check"]: each for each in doctor(world.deps(), deep=True)["checks"]}
    named = checks["payload_files"]["command"]
    answer(f"{named.removeprefix('/lcm ')} apply", world.deps())

    assert named == f"/lcm restore {Path(made.data['path']).name}"
    assert world.runtime.payloads.survey(deep=True).missing == ()
    assert answer("doctor deep", world.deps()).code == 0


def test_what_a_backup_needs_outlives_clean_and_repair(world: Home) -> None:
    """Its message is gone from the database, and comes back with the backup, whole; the doctor asks for nothing."""
    blob = base64.b64encode(random.Random(5).randbytes(3000)).decode()
    world.say(f"look data:image/png;base64,{blob}", session="pictures")
    deps = replace(world.deps(), config=replace(world.config, ignore_session_patterns=("pictures",)))
    assert answer("doctor clean apply", deps).code == 0
    (path,) = world.runtime.payloads.folder.rglob("*.z")
    os.utime(path, (1, 1))
    files_check = next(each for each in doctor(deps, deep=True)["checks"] if each["check"] == "payload_files")
    answer("doctor repair apply", deps)
    restored = answer("restore latest apply", deps)

    assert (files_check["status"], files_check["data"]["kept_for_backups"]) == ("pass", 1)
    assert restored.code == 0, restored.text
    (row,) = world.runtime.store.legible([101])[0]
    assert blob in str(world.runtime.whole_store.legible([row.store_id])[0][0].stored_json)


def test_a_drill_puts_the_backup_into_an_empty_home(world: Home) -> None:
    """It says how long that took, and leaves nothing."""
    backup.back_up(world.deps())
    before = sorted(path.name for path in world.home.iterdir())
    said = answer("backup drill", world.deps())

    assert said.code == 0, said.text
    assert "100 messages" in said.text
    assert said.data["seconds"] > 0
    assert sorted(path.name for path in world.home.iterdir()) == before


def test_what_a_killed_backup_left_goes_with_the_next_one(world: Home) -> None:
    """Of a process that is gone; never of one that is still at work."""
    folder = backup.backup_folder(world.path)
    folder.mkdir(mode=0o700)
    left = folder / ".lcm-20231114-000000.sqlite3.99999999.partial-journal"
    mine = folder / f".lcm-20231114-000000.sqlite3.{os.getppid()}.partial"
    left.touch()
    mine.touch()
    backup.back_up(world.deps())

    assert (left.exists(), mine.exists()) == (False, True)


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from worlds.home import Home
from hermes_lcm.ops import backup
world = Home(Path(sys.argv[2]))
print("begun", flush=True)
while True:
    world.now += 3600
    backup.back_up(world.deps())
"""


@pytest.mark.few(2)
@pytest.mark.parametrize("delay", [0.01, 0.03, 0.05, 0.08])
def test_a_backup_that_is_killed_harms_none(delay: float, world: Home) -> None:
    """Those that were made before are as they were; the next command removes what was half-made."""
    first = backup.back_up(world.deps()).path
    before = first.read_bytes()
    env = {**os.environ, "PYTHONPATH": str(ROOT / ".lcm-path")}
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parents[1]), str(world.home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.kill()
    world.now += 10**7
    backup.back_up(world.deps())

    assert first.read_bytes() == before
    assert [path.name for path in first.parent.iterdir() if path.name.startswith(".")] == []
    assert all(each.sound for each in backup.all_backups(world.path))


def test_no_room_for_a_backup_is_said_as_that(world: Home) -> None:
    """Nothing is left, and the remedy is about the room."""
    resource = pytest.importorskip("resource")
    deps = world.deps()
    world.runtime.store.count()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        said = answer("backup", deps)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert said.code == 3
    assert "file size limit" in said.text
    assert list(backup.backup_folder(world.path).iterdir()) == []


# -- a second copy, and the drill --------------------------------------------------------------------------------
def test_a_second_copy_goes_to_another_folder(world: Home, tmp_path: Path) -> None:
    """It can be drilled and put back from there; in a chat no folder may be named."""
    trusted = world.deps(None, trusted=True)
    made = answer(f"backup {tmp_path / 'disk'}", trusted)

    assert made.code == OK, made.text
    assert Path(made.data["copy"]).read_bytes() == Path(made.data["path"]).read_bytes()
    drilled = answer(f"backup drill {made.data['copy']}", trusted)
    assert (drilled.code, drilled.data["same"], drilled.data["newer"]) == (OK, world.runtime.store.count(), 0)
    assert answer(f"backup {tmp_path / 'disk'}", world.deps()).code == REFUSED
    assert answer("backup disk", trusted).code == REFUSED


def test_a_second_copy_that_differs_is_no_backup(world: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that changes bytes is told, and leaves nothing behind."""
    monkeypatch.setattr(
        backup.shutil, "copyfile", lambda source, target: target.write_bytes(source.read_bytes()[:-1] + b"?")
    )
    said = answer(f"backup {tmp_path / 'disk'}", world.deps(None, trusted=True))

    assert said.code == FAILED
    assert "changes bytes" in said.text
    assert [*(tmp_path / "disk").iterdir()] == []


def test_old_second_copies_give_way_by_the_same_rule(world: Home, tmp_path: Path) -> None:
    """The folder of the other disk does not grow for ever."""
    for _ in range(14):
        world.now += 60
        answer(f"backup {tmp_path / 'disk'}", world.deps(None, trusted=True))

    assert len([*(tmp_path / "disk").iterdir()]) == len(backup.backups(world.deps())) == backup.KEEP


def test_a_copy_that_sqlite_made_can_be_drilled_and_restored(world: Home, tmp_path: Path) -> None:
    """VACUUM INTO, beside a writer in the middle of its work."""
    copy = tmp_path / "copy.sqlite3"
    with world.runtime.db.transaction():
        world.runtime.db.execute("UPDATE sessions SET model = 'other'")
        with sqlite3.connect(world.path) as tool:
            tool.execute("VACUUM INTO ?", (str(copy),))
        tool.close()
    trusted = world.deps(None, trusted=True)

    assert answer(f"backup drill {copy}", trusted).code == OK
    assert answer(f"restore {copy} apply", trusted).code == OK
    assert world.runtime.store.count() == world.restart().runtime.store.count()


def test_a_drill_tells_a_backup_that_says_something_else(world: Home) -> None:
    """Sound by itself, and not what is here: a message of the database was changed behind the plugin's back."""
    run("backup", world.deps())
    other = world.runtime.db.query("SELECT envelope FROM messages WHERE store_id = 2")[0][0]
    world.raw("UPDATE messages SET envelope = ? WHERE store_id = 1", other)
    drilled = answer("backup drill", world.deps())

    assert (drilled.code, drilled.data["differing"]) == (FOUND, ["msg_1"])


def test_a_drill_counts_what_was_redacted_since_apart(world: Home) -> None:
    """An operator's purge is no damage of the backup."""
    run("backup", world.deps())
    kept = backup.backups(world.deps())[0].path
    away = world.home / "away.sqlite3"
    away.write_bytes(kept.read_bytes())
    answer("purge messages msg_1 apply", world.deps(None, trusted=True))
    drilled = answer(f"backup drill {away}", world.deps(None, trusted=True))

    assert (drilled.code, drilled.data["changed"]) == (OK, 1)


def test_what_a_restore_sets_aside_is_listed_and_can_be_taken_back(tmp_path: Path) -> None:
    """With its size; the answer of a restore names the line that undoes it."""
    world = healthy(tmp_path)
    run("backup", world.deps(trusted=True))
    said = run("restore latest apply", world.deps(trusted=True))
    listed = run("restore", world.deps(trusted=True))

    assert re.search(r"`/lcm restore lcm-before-restore-\S+ apply` takes this back", said)
    assert re.search(r"100 messages, \d+\.\d kB", listed)
    assert re.search(r"Set aside .*\n  lcm-before-restore-\S+, \d+\.\d kB", listed)


@pytest.mark.parametrize("name", ["/etc/passwd", "../../../etc/passwd", "~/x.sqlite3", "../lcm.db"])
def test_a_chat_names_backups_only(name: str, tmp_path: Path) -> None:
    """No file of the machine is opened from there, whatever stands in the current folder."""
    world = healthy(tmp_path)
    (tmp_path / "there").write_text("x")
    said = run(f"restore {name}", world.deps())

    assert f"'{name}' is not the name of a backup" in said
    assert "not a database" not in said


def test_a_chat_opens_nothing_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare name is one in the folder of backups."""
    world = healthy(tmp_path)
    (tmp_path / "talk.sqlite3").write_text("x")
    monkeypatch.chdir(tmp_path)

    assert "lcm-backups/talk.sqlite3'; the newest" in run("restore talk.sqlite3", world.deps())
