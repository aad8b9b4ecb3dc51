"""
Salvage: twenty ways to damage a file; what lies on pages that are as they were comes back.

Which messages those are is told by the pages of the sound file: all pages with the row (and its block) are intact.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from worlds.breaking import Host, lost_or_doubled
from worlds.home import PAGE_BYTES as PAGE
from worlds.home import Home
from worlds.process import chat

from hermes_lcm import command
from hermes_lcm.command import answer
from hermes_lcm.ops.survey import Survey
from hermes_lcm.storage import leaves, schema
from hermes_lcm.store import NewRow
from hermes_lcm.text import content

Damage = Callable[[bytearray, random.Random], None]
SAID = chat().turns(100).rounds(25).says("done")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with messages, summaries, prompts and packed rows."""
    home = tmp_path_factory.mktemp("sound")
    host = Host(home)
    host.says(SAID)
    host.says(host.compress(SAID.copy()))

    host.close()
    return home


def schema_pages(data: bytearray) -> list[int]:
    """Pages (from 0) with the list of tables; the first one is the header's."""
    return [
        0,
        *(
            n
            for n in range(1, len(data) // PAGE)
            if data[n * PAGE] == 13 and b"CREATE" in data[n * PAGE : (n + 1) * PAGE]
        ),
    ]


def wipe(data: bytearray, page: int, with_: bytes = b"\0") -> None:
    data[page * PAGE : (page + 1) * PAGE] = (with_ * PAGE)[:PAGE]


def each(pages: Callable[[bytearray], list[int]], with_: bytes = b"\0") -> Damage:
    def damage(data: bytearray, _: random.Random) -> None:
        for page in pages(data):
            wipe(data, page, with_)

    return damage


def every(step: int, first: int = 0) -> Callable[[bytearray], list[int]]:
    return lambda data: list(range(first, len(data) // PAGE, step))


def cut(share: float) -> Damage:
    def damage(data: bytearray, _: random.Random) -> None:
        del data[int(len(data) * share) :]

    return damage


def put(at: int, what: bytes) -> Damage:
    def damage(data: bytearray, _: random.Random) -> None:
        data[at : at + len(what)] = what

    return damage


def in_schema(word: bytes, what: bytes) -> Damage:
    def damage(data: bytearray, _: random.Random) -> None:
        at = data.index(word)
        data[at : at + len(what)] = what

    return damage


def flips(count: int) -> Damage:
    def damage(data: bytearray, rng: random.Random) -> None:
        for _ in range(count):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)

    return damage


def noise(count: int) -> Damage:
    def damage(data: bytearray, rng: random.Random) -> None:
        for page in rng.sample(range(len(data) // PAGE), count):
            wipe(data, page, rng.randbytes(PAGE))

    return damage


def inner(kind: int) -> Callable[[bytearray], list[int]]:
    """Pages that only point at others."""
    return lambda data: [n for n in range(1, len(data) // PAGE) if data[n * PAGE] == kind]


DAMAGES: dict[str, Damage] = {
    "schema page": each(lambda _: [0]),
    "schema page, noise": each(lambda _: [0], b"\xde\xad\xbe\xef"),
    "all pages of the schema": each(schema_pages),
    "one page of the schema": each(lambda data: schema_pages(data)[1:2]),
    "magic": put(0, b"\xff" * 8),
    "header": put(0, b"\0" * 100),
    "page size": put(16, b"\x20\x00"),
    "text of the schema is no UTF-8": in_schema(b"tablemessages", b"tablemess\xff\xfe\xfd\xfc"),
    "statement of a table": in_schema(b"CREATE TABLE health", b"CREATE TABXX health"),
    "truncated to half": cut(0.5),
    "truncated to a tenth": cut(0.1),
    "truncated within a page": cut(0.77),
    "inner pages of tables": each(inner(5)),
    "inner pages of indexes": each(inner(2)),
    "every tenth page": each(every(10, 3)),
    "every tenth page, noise": each(every(10, 7), b"\x55\xaa\x0d"),
    "every third page": each(every(3, 1)),
    "zeros over a tenth": each(lambda data: list(range(20, 20 + len(data) // PAGE // 10))),
    "pointer map": each(lambda _: [1]),
    "ten pages of noise": noise(10),
    "bit flips": flips(60),
    "the first forty pages": each(lambda _: list(range(40))),
}


def whole(before: bytes, after: bytes) -> set[int]:
    """Messages whose row and block lie on pages that are as they were."""

    def readable(data: bytes) -> tuple[dict[int, object], set[int]]:
        rows: dict[int, object] = {}
        blocks: set[int] = set()
        for cell in leaves.Leaves(data).cells():
            if cell.rowid is not None and len(cell.values) == 17:
                rows[cell.rowid] = cell.values
            elif cell.rowid is not None and len(cell.values) == 3 and isinstance(cell.values[2], bytes):
                blocks.add(cell.rowid)
        return rows, blocks

    same = bytearray(after[: len(before)].ljust(len(before), b"\0"))
    for at in range(0, len(before), PAGE):
        if same[at : at + PAGE] != before[at : at + PAGE]:
            same[at : at + PAGE] = bytes(PAGE)
    # The maps are whole here: which pages a row lies on is asked, not how it is found.
    same[:PAGE] = before[:PAGE]
    for at in range(PAGE, len(before), (PAGE // 5 + 1) * PAGE):
        same[at : at + PAGE] = before[at : at + PAGE]
    rows, blocks = readable(bytes(same))
    return {n for n, values in rows.items() if not isinstance(values[16], int) or values[16] in blocks}  # type: ignore[index]


@pytest.mark.few(4)
@pytest.mark.parametrize("name", DAMAGES)
def test_messages_on_intact_pages_come_back(name: str, source: Path, tmp_path: Path) -> None:
    """At least 95 of 100; and every verb has words for the file, before and after."""
    home = shutil.copytree(source, tmp_path / "home")
    path = home / "lcm.db"
    before = path.read_bytes()
    after = bytearray(before)
    DAMAGES[name](after, random.Random(name))
    path.write_bytes(after)
    wanted = whole(before, bytes(after))

    world = Home(home)
    for words in ("status", "doctor", "search question", "doctor repair"):
        answer(words, world.deps(None))
    done = answer("doctor repair apply", world.deps(None))
    with sqlite3.connect(path) as raw:
        there = {row[0] for row in raw.execute("SELECT store_id FROM messages")} if done.code == 0 else set()
    raw.close()

    assert len(wanted & there) >= 0.95 * len(wanted), (done.text, len(wanted), len(wanted & there))
    assert wanted or name == "truncated to a tenth"
    assert answer("doctor deep", world.deps(None)).code in (0, 1)


@pytest.mark.parametrize("damage", [slice(0, 16), slice(0, 3 * PAGE - 72)], ids=["header", "map"])
def test_the_ledger_of_a_saved_file_is_what_users_stated(damage: slice, source: Path, tmp_path: Path) -> None:
    """Its cache is made anew: rows of an index look like its own, and what it had of lost pages would never be looked for."""
    home = shutil.copytree(source, tmp_path / "home")
    before = answer("ledger", Home(home).deps(None)).data
    path = home / "lcm.db"
    data = bytearray(path.read_bytes())
    data[damage] = bytes(len(data[damage]))
    path.write_bytes(data)

    assert answer("doctor repair apply", Home(home).deps(None)).code == 0
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT count(*) FROM ledger").fetchone() == (0,)
        assert not raw.execute("SELECT key FROM meta WHERE key GLOB 'ledger:*'").fetchall()
    raw.close()
    assert answer("ledger", Home(home).deps(None)).data == before


def test_a_conversation_that_lost_all_of_its_messages_is_named(source: Path, tmp_path: Path) -> None:
    """Until the loss is accepted: no number is missing where no row is left."""
    world = Home(shutil.copytree(source, tmp_path / "home"))
    with sqlite3.connect(world.path) as raw:
        raw.execute("UPDATE messages SET envelope = 1")
        raw.execute("DELETE FROM blocks")
    raw.close()
    answer("doctor repair apply", world.deps(None))

    told = answer("doctor deep", world.deps(None)).text
    assert f"missing: {len(SAID)} messages in 1 conversation" in told, told
    answer("doctor accept apply", world.deps(None))
    assert "FAILED" not in answer("doctor deep", world.deps(None)).text
    world.close()


def test_messages_that_were_cut_off_are_named_until_the_loss_is_accepted(source: Path, tmp_path: Path) -> None:
    """Also by the plain doctor: the newest messages of a conversation leave no gap in its numbers."""
    world = Home(shutil.copytree(source, tmp_path / "home"))
    data = world.path.read_bytes()
    world.path.write_bytes(data[: len(data) * 3 // 4])
    answer("doctor repair apply", world.deps(None))
    with closing(sqlite3.connect(world.path)) as raw:
        gone = len(SAID) - raw.execute("SELECT count(*) FROM messages").fetchone()[0]

    told = [answer(words, world.deps(None)).text for words in ("doctor", "doctor deep")]
    accepted = answer("doctor accept apply", world.deps(None))
    assert gone > 0
    assert all(f"could not read {gone} messages" in each for each in told), told
    assert accepted.code == 0, accepted.text
    assert "FAILED" not in answer("doctor deep", world.deps(None)).text
    world.close()


def test_messages_that_came_back_count_again_and_are_missed_by_no_later_repair(source: Path, tmp_path: Path) -> None:
    """Under their addresses, as a stand-in brings them."""
    world = Home(shutil.copytree(source, tmp_path / "home"))
    stored = [row for rows in world.runtime.whole_store.row_batches() for row in rows]
    world.close()
    data = world.path.read_bytes()
    world.path.write_bytes(data[: len(data) * 3 // 4])
    answer("doctor repair apply", world.deps(None))
    store, survey, conversation = world.runtime.whole_store, Survey(world.runtime.db), stored[0].head.conversation_id
    there = {row.store_id for rows in store.row_batches() for row in rows}
    gone = [row for row in stored if row.store_id not in there]
    back = [NewRow(content.read_message(row.stored_json), wanted=row.store_id) for row in gone]
    lost = survey.unreadable_once()
    store.append(conversation, stored[0].head.session_id, store.last_seq(conversation), back, source="", now=1.0)
    totals = [(survey.total("messages", "store_id"), survey.unreadable_once())]
    world.raw("DROP TABLE health")
    answer("doctor repair apply", world.deps(None))
    totals += [(survey.total("messages", "store_id"), survey.unreadable_once())]
    world.close()

    assert lost == len(back) > 0
    assert totals == [(len(stored), 0)] * 2


#: Columns of messages that a repair fills again: what each says stands in the message, or follows from where it stands.
FILLED = ("role", "tool_name", "answers", "digest", "tokens", "chars", "said_at", "source", "revises", "pos")


@pytest.mark.few(2)
@pytest.mark.parametrize("column", FILLED)
def test_a_column_of_the_messages_that_is_gone_is_filled_again(column: str, source: Path, tmp_path: Path) -> None:
    """Each row holds what it held; the repair names the column, and the deep doctor finds nothing after it."""
    world = Home(shutil.copytree(source, tmp_path / "home"))
    world.close()
    rows = f"SELECT store_id, {column} FROM messages ORDER BY store_id"
    with closing(sqlite3.connect(world.path)) as raw:
        before = raw.execute(rows).fetchall()
        for (name,) in raw.execute(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND sql GLOB '* ON messages(*'"
        ).fetchall():
            raw.execute(f"DROP INDEX {name}")
        raw.execute(f"ALTER TABLE messages DROP COLUMN {column}")
    told, done = (answer(words, world.deps(None)) for words in ("doctor", "doctor repair apply"))
    with closing(sqlite3.connect(world.path)) as raw:
        after = raw.execute(rows).fetchall()

    assert column in told.text
    assert "/lcm doctor repair" in told.text
    assert f"gone: messages.{column}" in done.text
    assert after == before
    assert "FAILED" not in answer("doctor deep", world.deps(None)).text
    world.close()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE messages RENAME TO msgs",
        "ALTER TABLE messages RENAME COLUMN envelope TO env",
        "ALTER TABLE conversations RENAME COLUMN conversation_id TO id",
        "ALTER TABLE sessions RENAME TO chats",
        "ALTER TABLE leases DROP COLUMN holder",
        "DROP TABLE conversations",
        "CREATE TABLE x AS SELECT * FROM messages; DROP TABLE messages; ALTER TABLE x RENAME TO messages",
        "CREATE TABLE x AS SELECT * FROM sessions; DROP TABLE sessions; ALTER TABLE x RENAME TO sessions",
        f"ALTER TABLE messages ADD COLUMN x TEXT CHECK(x IS NOT NULL OR store_id <= {len(SAID) + 2})",
    ],
)
def test_a_chat_whose_tables_were_changed_repairs_its_own_database(change: str, source: Path, tmp_path: Path) -> None:
    """In the process in which a stand-in holds what is said meanwhile; then each message is there once."""
    host = Host(shutil.copytree(source, tmp_path / "home"))
    live = SAID.copy().user("and now?")
    host.says(live)
    with closing(sqlite3.connect(host.home / "lcm.db")) as raw:
        raw.executescript(change)
    host.says(live.says("this").user("and then?"))
    access = command.operator_access(host.runtime, None, None)
    done = answer("doctor repair apply", replace(access, trusted=True))
    host.says(live.says("that").user("and in the end?"))

    assert done.code == 0, done.text
    assert not host.runtime.db.stands_in
    assert lost_or_doubled(host, live) == ([], [])
    host.close()


@pytest.mark.parametrize(
    ("change", "unreadable"),
    [
        ("ALTER TABLE messages RENAME COLUMN envelope TO env", 0),
        ("CREATE TABLE x AS SELECT * FROM messages; DROP TABLE messages; ALTER TABLE x RENAME TO messages", 0),
        ("CREATE TRIGGER t AFTER INSERT ON messages BEGIN DELETE FROM meta; END", 0),
        ("UPDATE messages SET envelope = x'00'", 4),
    ],
    ids=["column", "keys", "trigger", "garbage"],
)
def test_a_stand_in_that_another_program_changed_is_merged_and_kept(
    change: str, unreadable: int, tmp_path: Path
) -> None:
    """Every message that can be read, though no chat shows it any more."""
    path = tmp_path / "lcm.db"
    host = Host(tmp_path)
    said = chat().turns(60).says("done")
    host.says(said)
    host.close()
    sound = path.read_bytes()
    path.write_bytes(b"x" * PAGE + sound[PAGE:])
    host = Host(tmp_path)
    host.says(said.user("one more").says("yes").user("another").says("yes"))
    host.close()
    with closing(sqlite3.connect(next(tmp_path.glob("lcm.standby-*.db")), isolation_level=None)) as raw:
        raw.executescript(change)
    path.write_bytes(sound)
    host = Host(tmp_path)
    host.engine.on_session_start("20270101_000000_other", platform="cli")
    host.session_id = "20270101_000000_other"
    host.says(chat().user("hello").says("hi"))

    assert host.runtime.store.count() == len(said) + 2 - unreadable
    assert list((tmp_path / "lcm-backups").glob("*standby*"))
    host.close()


def test_a_message_whose_flags_are_gone_is_shown_to_nobody(source: Path, tmp_path: Path) -> None:
    """They say what may be shown: no repair makes them up. The file stays as it is, and a backup takes its place."""
    world = Home(shutil.copytree(source, tmp_path / "home"))
    answer("backup", world.deps(None))
    world.close()
    with closing(sqlite3.connect(world.path)) as raw:
        for name in ("messages_retracted", "messages_externalised", "messages_imported"):
            raw.execute(f"DROP INDEX {name}")
        raw.execute("ALTER TABLE messages DROP COLUMN flags")
    dry, done = (answer(words, world.deps(None)) for words in ("doctor repair", "doctor repair apply"))

    assert "read as a whole" in dry.text
    assert (done.code, "restore lcm-" in done.text) == (3, True), done.text
    assert answer("restore latest apply", world.deps(None)).code == 0
    assert "FAILED" not in answer("doctor deep", world.deps(None)).text
    world.close()


def in_utf16(path: Path, encoding: str) -> None:
    """What somebody makes who copies the file with SQL into one of another encoding."""
    new = path.with_name("new.db")
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(new)) as copy:
        old.execute("UPDATE sessions SET model = 'größe 漢字 🙂'")
        copy.execute(f"PRAGMA encoding='{encoding}'")
        for _, statement in schema.statements():
            copy.execute(statement)
        for table in schema.TABLES:
            rows = old.execute(f"SELECT * FROM {table}").fetchall()
            if rows:
                copy.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[0]))})", rows)
        schema.mark(copy)
        copy.commit()
    new.replace(path)


@pytest.mark.few(1)
@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_a_file_whose_texts_are_utf_16_is_named_and_mended(encoding: str, source: Path, tmp_path: Path) -> None:
    """A repair said that it built the indexes, and the doctor named the same fault after it: they cannot be compared there."""
    world = Home(shutil.copytree(source, tmp_path / "home"))
    in_utf16(world.path, encoding)

    def rows() -> list[list[object]]:
        with closing(sqlite3.connect(world.path)) as raw:
            return [raw.execute(f"SELECT * FROM {name}").fetchall() for name in ("messages", "nodes", "sessions")]

    before, told = rows(), answer("doctor", world.deps(None))
    done = answer("doctor repair apply", world.deps(None))

    assert f"its texts are {encoding}" in told.text
    assert done.code == 0, done.text
    assert rows() == before
    assert "FAILED" not in answer("doctor deep", world.deps(None)).text
    world.close()


def test_a_file_in_which_nothing_can_be_read_is_not_offered_for_saving(tmp_path: Path) -> None:
    """Text, where LCM_DATABASE_PATH names the wrong file: its rights are nobody's business either."""
    path = tmp_path / "lcm.db"
    path.write_text("shopping list\n" * 300)
    path.chmod(0o644)
    world = Home(tmp_path)

    assert "No message in it can be read as a whole" in answer("doctor repair", world.deps(None)).text
    told = answer("doctor", world.deps(None)).text
    assert ("is LCM_DATABASE_PATH right?" in told, "chmod" in told) == (True, False), told
    world.close()
