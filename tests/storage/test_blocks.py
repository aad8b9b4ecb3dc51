"""Cold stored JSON lie packed together: nothing changes but the size, whatever happens in between."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds.home import Home, healthy
from worlds.process import Chat, World, chat

from hermes_lcm.errors import StoreCorrupt, StoreError
from hermes_lcm.importers import export
from hermes_lcm.ops.doctor import clean, repair
from hermes_lcm.ops.survey import Survey
from hermes_lcm.storage.blocks import STORED_COLUMNS
from hermes_lcm.storage.packing import BLOCK_BYTES, LARGE_BYTES, pack_block, unpack_block
from hermes_lcm.text import content


def busy(count: int = 60) -> Chat:
    """A conversation with tools, and a message that is not JSON."""
    return chat().user("begin").rounds(count).says("done").user("odd \ud83d", extra=float("inf")).says("end")


def packed(world: World, *, newest: int = 0, least_bytes: int = 1) -> int:
    """Pack all there is; how many rows."""
    total = 0
    while count := world.store.packer.pack(newest=newest, least_bytes=least_bytes):
        total += count
    return total


def alone(world: World) -> int:
    """Stored JSON that lie in their row."""
    return int(world.db.query("SELECT count(*) FROM messages WHERE typeof(envelope) = 'blob'")[0][0])


def everything(world: World) -> list[tuple[Any, ...]]:
    rows = world.db.query("SELECT store_id, envelope FROM messages ORDER BY store_id")
    return [(store_id, world.store.blocks.legible(store_id, stored)) for store_id, stored in rows]


@given(st.lists(st.text(), min_size=1, max_size=20))
def test_a_block_gives_back_what_it_was_given(json_texts: list[str]) -> None:
    """Any text, empty ones included."""
    rows = [(n * 7 + 1, text) for n, text in enumerate(json_texts)]
    rows = [(n, text) for n, text in rows if text.encode("utf-8", "ignore").decode() == text]

    assert {n: body.decode() for n, body in unpack_block(pack_block(rows)).items()} == dict(rows)


def test_a_packed_message_comes_back_byte_for_byte(tmp_path: Path) -> None:
    """In this process and in the next."""
    world = World(tmp_path)
    world.take(busy())
    heads, before = world.store.heads_of(range(1, 300)), everything(world)

    assert packed(world) == len(before)
    assert alone(world) == 0
    assert everything(world) == before
    again = world.restart()
    assert everything(again) == before
    assert again.store.heads_of(range(1, 300)) == heads


def test_the_newest_messages_stay_as_they_are(tmp_path: Path) -> None:
    """They are read at every compaction."""
    world = World(tmp_path)
    world.take(busy())
    packed(world, newest=20)

    assert alone(world) == 20


def test_packing_waits_until_it_is_worth_it(tmp_path: Path) -> None:
    """A few rows more do not become a block of their own each time."""
    world = World(tmp_path)
    live = busy()
    world.take(live)
    packed(world)
    world.take(live.turns(2))

    assert world.store.packer.pack(newest=0) == 0
    assert alone(world) == 4


def test_many_short_messages_are_worth_it(tmp_path: Path) -> None:
    """A thousand of them make no text for several blocks; they would wait for the session's end."""
    world = World(tmp_path)
    world.take([{"role": ("user", "assistant")[n % 2], "content": f"word {n}"} for n in range(1220)])

    assert world.store.packer.pack(newest=200) == 1000
    assert alone(world) == 220


def test_packing_makes_the_file_smaller(tmp_path: Path) -> None:
    """Rows that merely got shorter would leave their pages half empty."""
    world = World(tmp_path)
    world.take(chat().user("go").rounds(500))
    world.db.optimise()
    pages = world.db.query("PRAGMA page_count")[0][0]
    packed(world)
    world.db.optimise()

    assert world.db.query("PRAGMA page_count")[0][0] < pages * 0.8
    assert world.db.query("PRAGMA freelist_count")[0][0] == 0


def test_every_statement_of_packing_may_fail(tmp_path: Path) -> None:
    """Each block is moved or not, every message says what it said, and the next call goes on."""
    world = World(tmp_path)
    failed = 0
    for number in range(1, 1000):
        world.take(busy(20), f"s{number}")
        before = everything(world)
        try:
            with world.failing_at(number):
                world.store.packer.pack(newest=0, least_bytes=1)
            break
        except StoreError:
            failed += 1
            assert everything(world) == before
            assert alone(world) in (0, 64)
        packed(world)
        assert (everything(world), alone(world)) == (before, 0)

    assert failed > 4
    assert (everything(world), alone(world)) == (before, 0)


def test_what_rests_on_a_packed_message_still_does(tmp_path: Path) -> None:
    """Summaries and revisions refer to rows; the index finds them."""
    world = World(tmp_path)
    live = world.compact(chat().turns(60))
    world.take(live)
    packed(world)

    assert world.db.query("PRAGMA foreign_key_check") == []
    assert world.gaps(live) == ([], [])
    assert world.runtime.index.check(deep=True) == []


def test_every_column_moves_along(tmp_path: Path) -> None:
    """Whoever adds a column to the table of messages adds it to what a move takes along."""
    world = World(tmp_path)
    world.take(busy(1))
    columns = {row[1] for row in world.db.query("PRAGMA table_info(messages)")}

    assert columns == {*STORED_COLUMNS.split(", "), "envelope"}


def test_a_large_message_stays_alone(tmp_path: Path) -> None:
    """Whoever reads its neighbour would have to unpack it too."""
    world = World(tmp_path)
    world.take(chat().turns(5).user("x y z " * LARGE_BYTES).turns(5, first=9))
    packed(world)

    assert alone(world) == 1


def test_blocks_are_of_one_size_however_much_there_is(tmp_path: Path) -> None:
    """A search that reads one message unpacks about BLOCK_BYTES."""
    world = World(tmp_path)
    world.take(chat().rounds(300))
    packed(world)
    sizes = [sum(map(len, unpack_block(data).values())) for (data,) in world.db.query("SELECT data FROM blocks")]

    assert len(sizes) > 1
    assert max(sizes) < 2 * BLOCK_BYTES


def test_conversations_do_not_share_blocks(tmp_path: Path) -> None:
    """What an operator removes must not go on in a neighbour's block."""
    world = World(tmp_path)
    for n in range(4):
        for name in "ab":
            world.take(chat().turns(3 * n + 3), session_id=name)
    packed(world)

    assert world.db.query("SELECT count(*) FROM blocks")[0][0] == 2
    assert world.db.query(
        "SELECT count(*) FROM messages m JOIN blocks b ON b.block_id = m.envelope WHERE b.conversation_id <> m.conversation_id"
    ) == [(0,)]


def test_each_block_moves_in_a_transaction_of_its_own(tmp_path: Path) -> None:
    """Chats that store meanwhile wait for one block, not for those of thirty conversations."""
    world = World(tmp_path)
    for n in range(5):
        world.take(busy(5), f"s{n}")
    before = world.db._log._written
    packed_rows = world.store.packer.pack(newest=0, least_bytes=1)
    transactions = world.db._log._written - before
    blocks = world.db.query("SELECT count(*) FROM blocks")[0][0]

    assert (packed_rows > 0, blocks, transactions) == (True, 5, 5 + 1)
    assert alone(world) == 0


def test_two_processes_may_pack_at_once(tmp_path: Path) -> None:
    """The second one sees that it came too late."""
    world, other = World(tmp_path), World(tmp_path)
    world.take(busy())
    before = everything(world)
    window = other.store.packer._window
    other.store.packer._window = lambda *a: (window(*a), packed(world))[0]  # type: ignore[method-assign]

    assert other.store.packer.pack(newest=0, least_bytes=1) == 0
    assert everything(other) == before
    assert alone(world) == 0


def test_another_file_is_another_set_of_blocks(tmp_path: Path) -> None:
    """After a restore block 1 is not what it was a moment ago."""
    world = World(tmp_path / "one")
    world.take(chat().turns(30))
    packed(world)
    world.store.rows([1])
    other = World(tmp_path / "two")
    other.take(chat().turns(30, first=100))
    packed(other)
    expected = other.store.text(1)
    other.db.close()
    shutil.copy(other.db.path, world.db.path.with_suffix(".new"))
    world.db.close()
    world.db.path.with_suffix(".new").replace(world.db.path)

    assert world.store.text(1) == expected


def test_the_end_of_a_session_packs_everything_and_folds_the_index(tmp_path: Path) -> None:
    """A smaller file that says and finds the same."""
    world = World(tmp_path)
    live = busy(20)
    for size in range(2, len(live) + 1, 2):
        world.take(live[:size])
    before = everything(world)
    pieces = world.db.query("SELECT count(*) FROM message_index_idx")[0][0]
    world.runtime.ended()

    assert alone(world) == 0
    assert world.db.query("SELECT count(*) FROM message_index_idx")[0][0] <= pieces
    assert everything(world) == before
    assert world.runtime.index.check(deep=True) == []


def test_the_end_of_a_session_makes_no_database(tmp_path: Path) -> None:
    """Where nothing was stored nothing is kept small."""
    world = World(tmp_path)
    world.runtime.upkeep.at_end()

    assert list(tmp_path.iterdir()) == []


# -- damage and operators ------------------------------------------------------------------------------------
def damaged(world: World) -> list[int]:
    """Spoil the first of two blocks; the messages in it."""
    world.take(chat().turns(20), session_id="a")
    packed(world)
    world.take(chat().turns(20, first=50), session_id="b")
    packed(world)
    world.db.close()
    with sqlite3.connect(world.db.path) as raw:
        raw.execute("UPDATE blocks SET data = substr(data, 1, length(data) / 2) WHERE block_id = 1")
        lost = [row[0] for row in raw.execute("SELECT store_id FROM messages WHERE envelope = 1")]
    raw.close()
    return lost


def test_a_damaged_block_is_found_and_the_others_are_read(tmp_path: Path) -> None:
    """The error names the message; the doctor counts them all."""
    world = World(tmp_path)
    lost = damaged(world)

    assert Survey(world.db).unreadable() == lost
    assert world.store.text(lost[-1] + 1).startswith("question 50")
    with pytest.raises(StoreCorrupt, match=f"msg_{lost[0]} "):
        world.store.rows([lost[0]])


def emptied(world: World, store_ids: Iterable[int]) -> None:
    """Other words for messages, as a purge writes them: fifty rows a transaction."""
    ids = list(store_ids)
    for at in range(0, len(ids), 50):
        rows = world.store.rows(ids[at : at + 50])
        said = {"role": "user", "content": "[taken out]"}
        world.store.rewrite([(row.head, content.read_message(said)) for row in rows])


def test_a_rewritten_message_lies_in_a_block_with_its_neighbours_again(tmp_path: Path) -> None:
    """These say what they said; the old block is gone."""
    world = World(tmp_path)
    world.take(busy())
    packed(world)
    before = dict(everything(world))
    emptied(world, [3, 5])
    now = dict(everything(world))

    assert [n for n in before if now[n] != before[n]] == [3, 5]
    assert "[taken out]" in now[3]
    assert alone(world) == 0
    blocks = [row[0] for row in world.db.query("SELECT block_id FROM blocks")]
    assert blocks == [row[0] for row in world.db.query("SELECT DISTINCT envelope FROM messages ORDER BY 1")]


def test_a_file_of_which_all_is_taken_out_becomes_small(tmp_path: Path) -> None:
    """What is left of a message is a line: pages that stay half empty would hold the room."""
    world = World(tmp_path)
    world.take(chat().user("go").rounds(200))
    packed(world)
    world.db.renew()
    pages = world.db.query("PRAGMA page_count")[0][0]
    emptied(world, [n for n, _ in everything(world)])
    world.db.renew()

    assert world.db.query("PRAGMA page_count")[0][0] < pages
    assert alone(world) == 0


def test_a_block_of_a_change_that_was_undone_is_never_read_again(tmp_path: Path) -> None:
    """The next block gets its number, with other messages in it."""
    world = World(tmp_path)
    world.take(busy())
    packed(world)
    before = everything(world)

    def undone() -> None:
        with world.db.transaction():
            emptied(world, [3])
            assert "[taken out]" in dict(everything(world))[3]
            raise StoreError("no")

    with pytest.raises(StoreError):
        undone()
    assert everything(world) == before
    emptied(world, [5])
    assert [n for n, text in everything(world) if "[taken out]" in text] == [5]


def test_every_statement_of_a_rewriting_may_fail(tmp_path: Path) -> None:
    """Both messages say something else, or none does."""
    world = World(tmp_path)
    world.take(busy(20))
    packed(world)
    before = everything(world)
    for number in range(1, 1000):
        try:
            with world.failing_at(number):
                emptied(world, [3, 60])
            break
        except StoreError:
            assert everything(world) == before

    assert number > 4
    assert [n for n, text in everything(world) if "[taken out]" in text] == [3, 60]


def test_what_is_rewritten_in_a_damaged_block_can_be_read(tmp_path: Path) -> None:
    """Its neighbours cannot, as before; the doctor finds them."""
    world = World(tmp_path)
    lost = damaged(world)
    head = world.store.heads_of([lost[0]])[lost[0]]
    world.store.rewrite([(head, content.read_message({"role": "user", "content": "[taken out]"}))])

    assert world.store.text(lost[0]) == "[taken out]"
    assert Survey(world.db).unreadable() == lost[1:]


class NoText(str):
    """A text whose bytes are none."""

    def encode(self, *_: Any) -> bytes:
        return b"\xff"


def test_one_text_that_is_none_takes_no_neighbour_along(tmp_path: Path) -> None:
    """A block one of whose texts cannot be read is written anew for another one: the rest says what it said."""
    world = World(tmp_path)
    world.take(busy())
    packed(world)
    before = dict(everything(world))
    (number,) = world.db.query("SELECT envelope FROM messages WHERE store_id = 3")[0]
    rows = [(n, NoText() if n == 4 else body.decode()) for n, body in world.store.packer._blocks.block(number).items()]
    with world.db.transaction():
        world.db.execute("UPDATE blocks SET data = ? WHERE block_id = ?", (pack_block(rows), number))
    world = world.restart()
    emptied(world, [3])

    assert Survey(world.db).unreadable() == [4]
    assert [n for n in before if n != 4 and world.store.rows([n])[0].stored_json != json.loads(before[n])] == [3]


def test_packing_leaves_what_it_cannot_read(tmp_path: Path) -> None:
    """A row that is garbage stays garbage that the doctor finds, and its neighbours are packed."""
    world = World(tmp_path)
    world.take(chat().turns(10))
    with world.db.transaction():
        world.db.execute("UPDATE messages SET envelope = x'01ff' WHERE store_id = 3")
    packed(world)

    assert world.db.query("SELECT store_id, envelope FROM messages WHERE typeof(envelope) = 'blob'") == [
        (3, b"\x01\xff")
    ]


def test_cleaning_takes_the_blocks_along(tmp_path: Path) -> None:
    """No byte of what was removed is left in them."""
    home = Home(tmp_path, doctor_clean_apply_enabled="true", ignore_session_patterns="junk*")
    home.say(*(f"unwanted marzipan {n} " * 30 for n in range(20)), session="junk1")
    home.say("wanted", "kept", session="s1")
    home.runtime.ended()
    kept = home.runtime.find_session("s1")
    assert kept is not None
    assert home.runtime.db.query("SELECT count(*) FROM blocks")[0][0] == 2
    clean.clean(home.deps())

    assert home.runtime.db.query("SELECT conversation_id FROM blocks") == [(kept.conversation_id,)]


def test_an_export_reads_packed_messages(tmp_path: Path) -> None:
    """The same lines as before they were packed."""
    home = healthy(tmp_path)
    session = home.runtime.find_session("s1")
    assert session is not None
    before = list(export.lines(home.deps(), session.conversation_id))
    home.runtime.store.packer.pack(newest=0, least_bytes=1)

    assert home.runtime.db.query("SELECT count(*) FROM blocks")[0][0] == 1
    assert list(export.lines(home.deps(), session.conversation_id)) == before
    assert all(json.loads(line)["message"]["content"] for line in before)


def test_retention_counts_the_bytes_of_blocks(tmp_path: Path) -> None:
    """Not the digits of their numbers."""
    home = healthy(tmp_path)
    home.runtime.store.packer.pack(newest=0, least_bytes=1)
    size = home.runtime.db.query("SELECT sum(length(data)) FROM blocks")[0][0]
    count = home.runtime.db.query("SELECT count(*) FROM messages")[0][0]

    assert size - count <= sum(row[3] for row in clean.retention(home.deps())) <= size


def test_a_salvage_keeps_what_sound_blocks_hold(tmp_path: Path) -> None:
    """Rows whose block is gone are gone, and counted; the others come back."""
    home = healthy(tmp_path)
    home.runtime.store.packer.pack(newest=0, least_bytes=1)
    home.say(*(f"later words {n}" for n in range(30)), session="s9")
    home.runtime.store.packer.pack(newest=0, least_bytes=1)
    home.raw("UPDATE blocks SET data = x'00' WHERE block_id = 1")
    lost = home.runtime.db.query("SELECT count(*) FROM messages WHERE envelope = 1")[0][0]
    deps = home.deps()
    found = repair.Diagnosis(("told to",))
    done = repair._rescue(deps, found, lambda *_: None)

    assert done.lost == {"blocks": 1}
    assert f"{lost} messages whose block was unreadable" in done.notes
    assert Survey(home.runtime.db).unreadable() == []
    assert "later words 3" in [row.text for rows in home.runtime.store.row_batches() for row in rows]
