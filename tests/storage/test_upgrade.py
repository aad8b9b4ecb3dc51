"""Files of the last development version are upgraded when they are opened: nothing changes, no moment loses anything (P1, P2)."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import signal
import sqlite3
import stat
import tarfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from worlds.breaking import KINDS, Faults
from worlds.home import PAGE_BYTES, READS, Holder, Home
from worlds.process import World

from hermes_lcm import errors
from hermes_lcm.command import answer
from hermes_lcm.ops import backup
from hermes_lcm.ops.doctor import repair
from hermes_lcm.ops.survey import Survey
from hermes_lcm.records import Scope
from hermes_lcm.search import query as words
from hermes_lcm.storage import connection, files, seals, upgrade
from hermes_lcm.storage.connection import Database
from hermes_lcm.storage.schema import VERSION

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
NAMES = ("busy", "young", "unsealed")
#: What only that version notes.
NOTES = ("deflated_to", "files_to_deflate", "tables:")


@dataclass(frozen=True)
class Old:
    """A home as that version left it, and what it read there."""

    home: Path
    expected: dict[str, Any]

    @property
    def path(self) -> Path:
        return self.home / "lcm.db"

    @property
    def aside(self) -> Path:
        return self.home / "lcm.db-aside"

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.expected["messages"]  # type: ignore[no-any-return]

    def laid_aside(self) -> list[int]:
        """Addresses of messages that lie in files."""
        return [each["store_id"] for each in self.messages if each["kept"] == "aside"]

    def backups(self) -> list[Path]:
        return sorted((self.home / "lcm-backups").glob("*"))

    def version(self) -> int:
        """As SQLite says, after it has taken back what was not finished."""
        with closing(sqlite3.connect(self.path)) as raw:
            return int(raw.execute("PRAGMA user_version").fetchone()[0])

    def copy(self, folder: Path) -> Old:
        shutil.rmtree(folder, ignore_errors=True)
        return Old(Path(shutil.copytree(self.home, folder)), self.expected)


#: Python before 3.11.4 does not know the filter.
_SAFE: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Old]:
    out = {}
    for name in NAMES:
        home = tmp_path_factory.mktemp(name)
        with tarfile.open(FIXTURES / f"development-{name}.tar.xz") as archive:
            archive.extractall(home, **_SAFE)
        expected = home / "expected.json"
        out[name] = Old(home, json.loads(expected.read_text(encoding="utf-8")))
        expected.unlink()
    return out


@pytest.fixture(scope="module")
def light(templates: dict[str, Old], tmp_path_factory: pytest.TempPathFactory) -> Old:
    """The same with one message beside the database instead of five, for what is tried many times."""
    busy = templates["busy"]
    old = busy.copy(tmp_path_factory.mktemp("light") / "home")
    _, *gone = busy.laid_aside()
    with closing(sqlite3.connect(old.path)) as raw:
        raw.executemany("DELETE FROM messages WHERE store_id = ?", [(store_id,) for store_id in gone])
        raw.commit()
    tables = {**busy.expected["tables"]}
    tables["messages"] = [row for row in tables["messages"] if row[0] not in gone]
    kept = [each for each in busy.messages if each["store_id"] not in gone]
    return Old(old.home, {**busy.expected, "messages": kept, "tables": tables})


@pytest.fixture
def old(templates: dict[str, Old], tmp_path: Path) -> Old:
    return templates["busy"].copy(tmp_path / "home")


def sha256(said: str | bytes) -> str:
    return hashlib.sha256(said if isinstance(said, bytes) else said.encode("utf-8", "surrogatepass")).hexdigest()


def wrong(world: World, old: Old, *, without: list[int] | None = None) -> list[Any]:
    """Messages that are not read as that version read them: stored JSON byte for byte, files unfolded, searchable texts."""
    out = []
    for each in old.messages:
        store_id = each["store_id"]
        if store_id in (without or ()):
            continue
        ((stored,),) = world.db.query("SELECT envelope FROM messages WHERE store_id = ?", (store_id,))
        stored_json = world.store.blocks.legible(store_id, stored).encode()
        (whole,) = world.runtime.whole_store.rows([store_id])
        (view,) = world.runtime.view_store.rows([store_id])
        read = {"bytes": len(stored_json), "sha256": sha256(stored_json)}
        read |= {"whole": sha256(repr(whole.stored_json)), "view": sha256(view.text)}
        out += [(store_id, key) for key, value in read.items() if each[key] != value]
    return out


#: Columns that expectations leave out: stored JSON, and what came later.
UNTOLD = {("messages", "envelope"), ("assemblies", "state_tokens"), ("assemblies", "stubs")}


def tables(path: Path) -> dict[str, list[Any]]:
    """All rows but those of caches, without what expectations leave out."""
    names = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
    out = {}
    with closing(sqlite3.connect(path)) as raw:
        for (table,) in raw.execute(names).fetchall():
            columns = [row[1] for row in raw.execute(f"PRAGMA table_info({table})")]
            columns = [name for name in columns if (table, name) not in UNTOLD]
            order = ",".join(str(n + 1) for n in range(len(columns)))
            rows = raw.execute(f"SELECT {','.join(columns)} FROM {table} ORDER BY {order}").fetchall()
            if not table.startswith(("sqlite_", "message_index_", "node_index_")):
                out[table] = [[f"x'{v.hex()}'" if isinstance(v, bytes) else v for v in row] for row in rows]
    return out


def shape(path: Path) -> dict[str, Any]:
    """Every table of ours with its columns, every index with what it is over."""
    with closing(sqlite3.connect(path)) as raw:
        names = raw.execute(
            "SELECT type, name FROM sqlite_master WHERE name NOT GLOB '*_index*_*' AND name NOT LIKE 'sqlite%'"
        )
        return {
            name: raw.execute(f"PRAGMA {'table_info' if kind == 'table' else 'index_xinfo'}({name})").fetchall()
            for kind, name in names.fetchall()
            if not name.startswith(("message_", "node_")) or name == "node_sources"
        }


# -- nothing changes ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_every_message_is_the_same_byte_for_byte(name: str, templates: dict[str, Old], tmp_path: Path) -> None:
    """Packed, deflated, as it came, in a file beside the database; with a payload in a file of its own."""
    old = templates[name].copy(tmp_path / "home")
    world = World(old.home)

    assert wrong(world, old) == []
    assert old.version() == VERSION
    kinds = {"busy": ["aside", "deflated", "packed", "plain"], "young": ["plain"], "unsealed": ["packed", "plain"]}
    assert sorted({each["kept"] for each in old.messages}) == kinds[name]


@pytest.mark.parametrize("name", NAMES)
def test_all_other_rows_are_the_same(name: str, templates: dict[str, Old], tmp_path: Path) -> None:
    """Sessions, summaries, prompts, archives, payload files, health: but for what only that version notes."""
    old = templates[name].copy(tmp_path / "home")
    db = Database(old.path)
    db.open()
    db.close()
    before, after = {**old.expected["tables"]}, tables(old.path)
    after["meta"] = [row for row in after["meta"] if row[0] not in ("identity", "sealed")]
    assert after.pop("seals")
    before["meta"] = [row for row in before["meta"] if not row[0].startswith(NOTES)]
    before["health"] = [row for row in before["health"] if row[0] != "huge messages"]

    assert {table: after[table] for table in before} == before
    assert all(after[table] == [] for table in after.keys() - before.keys())
    assert name == "young" or all(
        before[table] for table in ("nodes", "assemblies", "archives", "payload_refs", "health")
    )


@pytest.mark.parametrize("name", NAMES)
def test_an_upgraded_file_is_made_like_a_new_one(name: str, templates: dict[str, Old], tmp_path: Path) -> None:
    """The same tables, columns and indexes."""
    old, new = templates[name].copy(tmp_path / "home"), Database(tmp_path / "new.db")
    new.open()
    new.close()
    Database(old.path).open()

    assert shape(old.path) == shape(new.path)


def test_what_was_not_indexed_yet_is_indexed_by_the_next_search(old: Old) -> None:
    """The index that was there is kept as it was."""
    world = World(old.home)
    waiting = world.runtime.index.documents.waiting()
    found = world.runtime.index.search(words.parse("quokka"), scope=Scope(), limit=5)
    known = world.runtime.index.search(words.parse("deflated large"), scope=Scope(), limit=5)

    assert waiting == old.expected["waiting"] != []
    assert found.hits[0].store_id in old.laid_aside()
    assert known.hits
    assert (world.runtime.index.documents.waiting(), world.runtime.index.check(deep=True)) == ([], [])


def test_a_conversation_goes_on_where_it_was(old: Old) -> None:
    """Its thread is known, a compaction adopts what is there, nothing is stored twice."""
    world = World(old.home, fresh_tail_count=8)
    thread = [item.store_id for item in world.ingest.transcripts.expected(world.session(), None)]
    live = [row.stored_json for row in world.runtime.whole_store.rows(thread)] + [
        {"role": "user", "content": "and then?"}
    ]
    stored = world.store.count()
    world.take(live, "s")
    again = world.compact(live)

    assert world.store.count() == stored + 1
    assert world.gaps(again) == ([], [])
    assert World(old.home).runtime.health.problems()[0].topic == "summaries"


def test_messages_lie_in_their_rows_and_nothing_beside_them(old: Old) -> None:
    """Files that no row needs are gone with the others, and the folder."""
    world = World(old.home)
    world.db.open()
    sizes = dict(world.db.query("SELECT store_id, length(envelope) FROM messages"))

    assert len(old.laid_aside()) == 5
    assert all(1000 < sizes[store_id] < 300_000 for store_id in old.laid_aside())
    assert not old.aside.exists()
    assert world.db.query("SELECT key FROM meta WHERE key GLOB 'upgrade*' OR key GLOB 'tables:*'") == []


def test_what_somebody_else_put_beside_the_database_is_left_alone(old: Old) -> None:
    """And keeps nothing from coming home."""
    (old.aside / "notes.txt").touch()
    (old.aside / ".Trash").mkdir()
    world = World(old.home)

    assert wrong(world, old) == []
    assert sorted(path.name for path in old.aside.iterdir()) == [".Trash", "notes.txt"]


def test_an_upgraded_file_is_opened_like_any_other(old: Old) -> None:
    """No second backup, nothing rewritten."""
    world = World(old.home)
    world.db.open()
    world.db.close()
    before = old.path.read_bytes()
    world = World(old.home)
    world.db.open()
    world.db.close()

    assert len(old.backups()) == 1
    assert old.path.read_bytes() == before


# -- the backup --------------------------------------------------------------------------------------------------
def test_the_backup_is_the_old_file_complete(old: Old, tmp_path: Path) -> None:
    """In that version's format, whole by itself, for its owner alone; put back, it is upgraded like the file was."""
    world = World(old.home)
    world.db.open()
    (kept,) = old.backups()
    with closing(sqlite3.connect(kept)) as raw:
        version = raw.execute("PRAGMA user_version").fetchone()[0]
        checked = raw.execute("PRAGMA integrity_check").fetchall()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copytree(old.home / "lcm-payloads", elsewhere / "lcm-payloads")
    backup.restore(Home(elsewhere).deps(None), str(kept))

    assert (version, checked) == (upgrade.DEVELOPMENT, [("ok",)])
    assert (stat.S_IMODE(kept.stat().st_mode), stat.S_IMODE(kept.parent.stat().st_mode)) == (0o600, 0o700)
    assert {table: rows for table, rows in tables(kept).items() if table in old.expected["tables"]} == old.expected[
        "tables"
    ]
    assert wrong(World(elsewhere), old) == []


def damage(path: Path, words: bytes) -> None:
    """Overwrite the page on which these words stand."""
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode=DELETE")
    page = path.read_bytes().index(words) // PAGE_BYTES * PAGE_BYTES
    with path.open("r+b") as file:
        file.seek(page)
        file.write(b"\xde\xad\xbe\xef" * (PAGE_BYTES // 4))


def test_a_damaged_file_is_left_as_it_is_and_can_be_repaired(old: Old) -> None:
    """Its copy is not sound, so there is no backup of it. What a repair saves, it saves with what lies beside the file."""
    damage(old.path, b"Four messages, archived.")
    before = old.path.read_bytes()
    with pytest.raises(errors.StoreCorrupt, match="left as it was"):
        Database(old.path).open()
    untouched = (old.path.read_bytes(), old.backups()) == (before, [])
    home = Home(old.home)
    done = repair.repair(home.deps(None))

    assert untouched
    assert (done.lost, done.notes) == ({"archives": 1}, ())
    assert wrong(World(old.home), old) == []


def test_no_room_for_the_backup_leaves_the_old_file(old: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing half-made stays beside it."""
    plain, begun = os.replace, []

    def full(source: Any, target: Any) -> None:
        begun.append(source)
        raise OSError(28, "No space left on device")

    before = tables(old.path)
    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", full)
        broken.setattr(Path, "replace", full)
        with pytest.raises(errors.StoreFull):
            Database(old.path).open()
    assert (plain, len(begun)) == (os.replace, 1)
    assert (old.backups(), old.version(), tables(old.path)) == ([], upgrade.DEVELOPMENT, before)
    assert wrong(World(old.home), old) == []


# -- no moment loses anything ------------------------------------------------------------------------------------
class Killer(Faults):
    """Statement ``at`` is the last thing that this process begins."""

    def due(self, sql: str) -> bool:
        if super().due(sql):
            os.kill(os.getpid(), signal.SIGKILL)
        return False


def opened_and_killed(path: Path, at: int) -> bool:
    """Open a file in a process that is killed at its statement ``at``; was it?"""
    child = os.fork()
    if child == 0:
        try:
            with pytest.MonkeyPatch.context() as patch:
                Killer().install(patch).arm(at, 0)
                Database(path).open()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


SOME_OR_ALL = [pytest.param(23, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)]


@pytest.mark.parametrize("step", SOME_OR_ALL)
def test_whoever_is_killed_leaves_the_old_file_or_the_new_one(step: int, light: Old, tmp_path: Path) -> None:
    """At every statement of opening it; the next process does the rest."""
    rows = {table: rows for table, rows in light.expected["tables"].items() if table not in ("meta", "health")}
    left = set()
    at = 1
    while opened_and_killed((old := light.copy(tmp_path / "home")).path, at):
        left.add(old.version())
        there = tables(old.path)
        assert {table: there[table] for table in rows} == rows
        if at % 5 == 0:
            world = World(old.home)
            assert (at, wrong(world, old), old.version(), old.aside.exists()) == (at, [], VERSION, False)
            world.db.close()
        at += step

    assert left == {upgrade.DEVELOPMENT, VERSION}
    assert at > 50


@pytest.mark.parametrize("step", SOME_OR_ALL)
@pytest.mark.parametrize(
    "kind", ["full", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "full")]
)
def test_whatever_fails_leaves_the_old_file_or_the_new_one(
    kind: str, step: int, light: Old, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every statement in turn: a full disk, a lock, a disk that answers no more. It is told, and tried again at the next use."""
    faults = Faults().install(monkeypatch)
    at, left = 1, set()
    while True:
        old = light.copy(tmp_path / "home")
        db = Database(old.path)
        faults.arm(at, KINDS[kind])
        try:
            db.open()
        except errors.StoreError:
            pass
        if not faults.disarm():
            break
        db.close()
        left.add(old.version())
        world = World(old.home)
        assert (wrong(world, old), old.version()) == ([], VERSION)
        assert not [path for path in old.backups() if path.name.startswith(".")]
        world.db.close()
        at += step

    assert left == {upgrade.DEVELOPMENT, VERSION}
    assert at > 50


def test_files_that_cannot_be_removed_wait_for_the_next_open(old: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages are in their rows by then."""
    plain = os.unlink

    def refused(path: Any, *args: Any, **keys: Any) -> Any:
        if "-aside" in str(path):
            raise PermissionError(13, "Permission denied")
        return plain(path, *args, **keys)

    with monkeypatch.context() as broken:
        broken.setattr(os, "unlink", refused)
        world = World(old.home)
        assert wrong(world, old) == []
        world.db.close()
    assert len(list(old.aside.iterdir())) > 5
    World(old.home).db.open()

    assert not old.aside.exists()


# -- others ------------------------------------------------------------------------------------------------------
def test_a_file_that_another_process_has_open_is_not_upgraded(old: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be one of the development version, and would go on to write as that does."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 100)
    other = Holder(old.path, *READS)
    with pytest.raises(errors.StoreBusy, match="end the other Hermes processes"):
        Database(old.path).open()
    assert (old.version(), old.backups()) == (upgrade.DEVELOPMENT, [])
    other.free()

    assert wrong(World(old.home), old) == []


def test_processes_that_open_it_at_once_agree(old: Old) -> None:
    """One does it; whoever comes meanwhile waits, or is told that it is busy, and finds it done."""
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for _ in range(20):
                    try:
                        Database(old.path).open()
                        code = 0
                        break
                    except errors.StoreBusy:
                        continue
            finally:
                os._exit(code)
        children.append(child)

    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    assert len(old.backups()) == 1
    assert wrong(World(old.home), old) == []


@pytest.mark.parametrize("schema", [1, 6])
def test_a_file_of_an_older_development_version_is_refused_with_the_way_out(
    schema: int, templates: dict[str, Old], tmp_path: Path
) -> None:
    """It stays byte for byte what it is."""
    old = templates["young"].copy(tmp_path / "home")
    with closing(sqlite3.connect(old.path)) as raw:
        raw.execute(f"PRAGMA user_version={schema}")
    before = old.path.read_bytes()
    with pytest.raises(errors.StoreTooOld, match=f"has schema {schema} of an early development version") as refused:
        Database(old.path).open()

    assert "919cad3" in refused.value.remedy
    assert old.path.read_bytes() == before
    with pytest.raises(errors.StoreTooOld):
        backup.restore(Home(tmp_path / "other").deps(None), str(old.path))


def test_no_schema_number_means_two_things() -> None:
    """That version says of our files that they are newer than it, and we know its."""
    assert upgrade.DEVELOPMENT < VERSION


# -- what is not there -------------------------------------------------------------------------------------------
def test_a_message_whose_file_is_gone_keeps_no_other_from_being_upgraded(
    old: Old, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named. Once somebody has put the file back, the backup from before brings it."""
    world = World(old.home)
    lost, *_ = old.laid_aside()
    (path,) = [each for each in old.aside.iterdir() if each.name.startswith("4-8-")]
    moved = path.rename(old.home / "moved")
    with caplog.at_level(logging.WARNING, "hermes_lcm"):
        assert wrong(world, old, without=[lost]) == []
    with pytest.raises(errors.StoreCorrupt):
        world.store.rows([lost])
    assert f"msg_{lost}" in caplog.text
    world.db.close()
    (kept,) = old.backups()
    old.aside.mkdir()
    moved.rename(old.aside / path.name)
    backup.restore(Home(old.home).deps(None), str(kept))

    assert wrong(World(old.home), old) == []


def test_a_file_that_was_changed_is_never_taken_for_the_message(old: Old) -> None:
    """It stays where it is, for whoever looks into it."""
    lost, *_ = old.laid_aside()
    (path,) = [each for each in old.aside.iterdir() if each.name.startswith("4-8-")]
    path.write_bytes(path.read_bytes().replace(b"quokka", b"wombat"))
    world = World(old.home)

    assert wrong(world, old, without=[lost]) == []
    with pytest.raises(errors.StoreCorrupt):
        world.store.rows([lost])
    assert list(old.aside.iterdir()) == [path]


def test_a_table_that_was_lost_before_stays_missed(old: Old) -> None:
    """An empty one in its place would hide that."""
    with closing(sqlite3.connect(old.path)) as raw:
        raw.execute("DROP TABLE archives")
    home = Home(old.home)
    home.runtime.db.open()

    assert {problem.topic: problem.message for problem in home.runtime.health.problems()}["tables"].startswith(
        "a part of the database file is gone: archives"
    )


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "1-1-0123abcd/../x", "", "1-1-0123ABCD", "1-1-0123abcd\n", "/etc/passwd", "\u0663-1-0123abcd"],
)
def test_no_reference_leads_out_of_the_folder(name: str, old: Old) -> None:
    """Whoever wrote the database; nor does a note of what is to be removed."""
    assert upgrade.Reference.of(b"\3" + bytes(12) + name.encode()) is None
    outside = old.home / "outside"
    outside.touch()
    World(old.home).db.open()
    old.aside.mkdir()
    with closing(sqlite3.connect(old.path, isolation_level=None)) as raw:
        noted = json.dumps(["../outside", str(outside), name])
        raw.execute("INSERT INTO meta(key, value) VALUES ('upgrade:files', ?)", (noted,))
    World(old.home).db.open()

    assert outside.exists()


def test_a_file_of_another_size_is_not_read_into_memory(tmp_path: Path) -> None:
    """A gigabyte that somebody put there is no message."""
    with (tmp_path / "1-1-0123abcd").open("wb") as file:
        file.truncate(2**40)

    assert upgrade.Reference("1-1-0123abcd", 2, 1).load_json([tmp_path]) is None


def test_a_copy_of_file_and_folder_that_somebody_made_is_restored_whole(old: Old, tmp_path: Path) -> None:
    """By the means of a shell, while nobody had it open."""
    with closing(sqlite3.connect(old.path, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode=DELETE")
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    shutil.copytree(old.home / "lcm-payloads", fresh / "lcm-payloads")
    backup.restore(Home(fresh).deps(None), str(old.path))

    assert wrong(World(fresh), old) == []
    assert old.aside.exists()


# -- schema 101 without its newest tables ------------------------------------------------------------------------
@pytest.fixture
def unsealed(templates: dict[str, Old], tmp_path: Path) -> Old:
    return templates["unsealed"].copy(tmp_path / "home")


def newest_of(path: Path) -> set[str]:
    return {"costs", "ledger", "seals"} & tables(path).keys()


def test_a_file_without_the_newest_tables_gets_them_when_it_is_opened(unsealed: Old) -> None:
    """After one backup of the file as it was; nobody is asked for a repair, and the next open finds nothing to do."""
    assert newest_of(unsealed.path) == set()
    for _ in range(2):
        world = World(unsealed.home)
        world.db.open()
        topics = [problem.topic for problem in world.health.problems()]
        sound = (Survey(world.db).lost_tables(), seals.broken(world.db), wrong(world, unsealed))
        world.db.close()
        assert (topics, sound) == (["summaries"], ([], [], []))
    (kept,) = unsealed.backups()

    assert newest_of(kept) == set()
    assert tables(kept)["messages"] == unsealed.expected["tables"]["messages"]


def test_a_backup_without_the_newest_tables_can_be_put_back(unsealed: Old, tmp_path: Path) -> None:
    """It is upgraded like the file was."""
    World(unsealed.home).db.open()
    (kept,) = unsealed.backups()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copytree(unsealed.home / "lcm-payloads", elsewhere / "lcm-payloads")
    backup.restore(Home(elsewhere).deps(None), str(kept))

    assert wrong(world := World(elsewhere), unsealed) == []
    assert Survey(world.db).lost_tables() == []


def test_a_repair_of_an_older_file_finds_nothing_to_repair(unsealed: Old) -> None:
    """It is upgraded first: the newest tables are not lost."""
    done = answer("doctor repair", Home(unsealed.home).deps(None))

    assert done.text.startswith("Nothing to repair"), done.text


@pytest.mark.parametrize("table", ["costs", "ledger"])
def test_one_of_the_newest_tables_that_is_lost_is_no_older_file(table: str, unsealed: Old) -> None:
    """The doctor tells of it, as of any other."""
    World(unsealed.home).db.open()
    with closing(sqlite3.connect(unsealed.path)) as raw:
        raw.execute(f"DROP TABLE {table}")
    world = World(unsealed.home)
    world.db.open()

    assert Survey(world.db).lost_tables() == [table]
    assert len(unsealed.backups()) == 1


@pytest.mark.parametrize("step", [pytest.param(19, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)])
def test_whoever_is_killed_leaves_none_of_the_newest_tables_or_both(step: int, unsealed: Old, tmp_path: Path) -> None:
    """At every statement of opening it."""
    left = set()
    at = 1
    while opened_and_killed((old := unsealed.copy(tmp_path / "other")).path, at):
        found = newest_of(old.path)
        left.add(frozenset(found - {"seals"}))
        world = World(old.home)
        assert (at, wrong(world, old), Survey(world.db).lost_tables()) == (at, [], [])
        world.db.close()
        at += step

    assert left == {frozenset(), frozenset({"costs", "ledger"})}
    assert at > 20


# -- schema 101 without the newest columns of prompts ------------------------------------------------------------
def narrow(folder: Path) -> Home:
    """A home whose prompts had their notes among the costs."""
    home = Home(folder)
    home.say(*"abcdef")
    root = home.node(1, 2)
    home.assembly([root], [3, 4, 5, 6], 6)
    home.assembly([root], [5, 6], 6)
    home.runtime.costs.note("s1", prompt=70)
    home.runtime.costs.save()
    home.close()
    for column in ("state_tokens", "stubs"):
        home.raw(f"ALTER TABLE assemblies DROP COLUMN {column}")
    for what, amount in (("state:1", 900), ("stub:1:4", 30), ("stub:1:6", 40), ("state:2", 800), ("before:2", 7)):
        home.raw("INSERT INTO costs VALUES ('2026-05-05', 's1', ?, ?)", what, amount)
    return home


def test_what_a_prompt_showed_by_its_ends_moves_from_the_costs_to_the_prompt(tmp_path: Path) -> None:
    """With the room of its present state; costs stay, seals hold, and the file is made like a new one."""
    home, new = narrow(tmp_path).restart(), Database(tmp_path / "new.db")
    new.open()
    new.close()
    db, first, second = home.runtime.db, home.runtime.dag.assembly(1), home.runtime.dag.assembly(2)
    left = {what for (what,) in db.query("SELECT what FROM costs")}
    faults = (Survey(db).lost_tables(), seals.broken(db))
    home.close()

    assert first is not None
    assert second is not None
    assert (first.state_tokens, first.stubs, first.tail_ids) == (900, {4: 30, 6: 40}, (3, 4, 5, 6))
    assert (second.state_tokens, second.stubs) == (800, {})
    assert (left, faults) == ({"prompt", "before:2"}, ([], []))
    assert shape(home.path)["assemblies"] == shape(new.path)["assemblies"]
    assert len([*(tmp_path / "lcm-backups").iterdir()]) == 1


def test_one_of_the_newest_columns_that_is_lost_is_no_older_file(tmp_path: Path) -> None:
    """The doctor tells of it, as of any other."""
    home = Home(tmp_path)
    home.say("a")
    home.close()
    home.raw("ALTER TABLE assemblies DROP COLUMN stubs")
    home = home.restart()
    home.runtime.db.open()

    assert Survey(home.runtime.db).lost_tables() == ["assemblies.stubs"]
    assert not (tmp_path / "lcm-backups").exists()


def test_a_repair_keeps_prompts_without_the_newest_columns(tmp_path: Path) -> None:
    """Of a damaged file, which nobody upgrades."""
    home = narrow(tmp_path)
    target = tmp_path / "saved.db"
    files.salvage(home.path, target, lambda *_: True)

    assert tables(target)["assemblies"] == tables(home.path)["assemblies"] != []


# -- files whose notes have no seals -----------------------------------------------------------------------------
def sealed(path: Path) -> str:
    with closing(sqlite3.connect(path)) as raw:
        return str(raw.execute("SELECT value FROM meta WHERE key = 'sealed'").fetchone()[0])


#: What an older release left: seals of all but the notes, or none.
BEFORE = {
    "notes": ("DELETE FROM seals WHERE part = 'notes'", "UPDATE meta SET value = 'true' WHERE key = 'sealed'"),
    "all": ("DROP TABLE seals", "DELETE FROM meta WHERE key = 'sealed'"),
}


@pytest.mark.parametrize("step", [pytest.param(7, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "missing", [pytest.param(each, marks=[pytest.mark.slow][: each != "notes"]) for each in BEFORE]
)
def test_whoever_is_killed_while_a_file_is_sealed_leaves_it_sound(
    missing: str, step: int, unsealed: Old, tmp_path: Path
) -> None:
    """At every statement of opening it: with the seals that it had, or with all; the next process makes the rest."""
    World(unsealed.home).db.open()
    with closing(sqlite3.connect(unsealed.path, isolation_level=None)) as raw:
        for statement in ("INSERT INTO meta VALUES ('hold:s', '{}')", *BEFORE[missing]):
            raw.execute(statement)
        before = states(raw)
    left = set()
    at = 1
    while opened_and_killed((old := unsealed.copy(tmp_path / "other")).path, at):
        with closing(sqlite3.connect(old.path)) as raw:
            left.add(states(raw))
        world = World(old.home)
        assert (at, seals.broken(world.db), wrong(world, old)) == (at, [], [])
        world.db.close()
        at += step

    assert left == {before, "2"}
    assert at > 20


def states(raw: sqlite3.Connection) -> str:
    """What the file says of its seals."""
    return next((row[0] for row in raw.execute("SELECT value FROM meta WHERE key = 'sealed'")), "")
