"""Seals: what this plugin writes keeps them right, and what anybody else changes breaks them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from worlds.breaking import Host
from worlds.home import Home, healthy
from worlds.process import chat

from hermes_lcm.errors import StoreError
from hermes_lcm.storage import files, seals
from hermes_lcm.storage.connection import Database

CHANGES = (
    "UPDATE messages SET role = 'system' WHERE store_id = 3",
    "UPDATE messages SET pos = 3.5 WHERE store_id = 5",
    "UPDATE messages SET seq = seq + 1000 WHERE store_id = 5",
    "UPDATE messages SET flags = 1 WHERE store_id = 5",
    "UPDATE messages SET envelope = (SELECT envelope FROM messages WHERE store_id = 6) WHERE store_id = 5",
    "DELETE FROM messages WHERE store_id = 100",
    "UPDATE nodes SET text = 'another' WHERE node_id = 1",
    "UPDATE node_sources SET store_id = 50 WHERE position = 0",
    "UPDATE assemblies SET roots = '[]'",
    "UPDATE sessions SET principal = 'somebody'",
    "UPDATE conversations SET fork_seq = 3",
    "INSERT INTO duplicates VALUES (3, 1)",
    "INSERT INTO payloads VALUES ('ab', 'text', '', 1, 1, 0)",
    "INSERT INTO meta VALUES ('dissolved:1', '{}')",
    "DELETE FROM seals",
)


def test_a_life_of_compactions_keeps_the_seals(hermes_home: Path) -> None:
    """Messages, summaries, prompts, retractions, packing and the end of a session."""
    host = Host(hermes_home)
    said = chat().turns(40).rounds(4).says("done").turns(10, first=50)
    host.says(said)
    host.says(host.compress(said.copy()))
    host.says(said[:60])
    host.ends_turn(said[:60])
    host.runtime.ended()

    assert seals.broken(host.runtime.db) == []
    assert len(host.runtime.db.query("SELECT 1 FROM seals")) >= 3
    host.close()


def test_triggers_that_could_not_be_made_are_made_at_the_next_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else that process would count some of its changes only, and the doctor would call its own work damage."""
    world = healthy(tmp_path).restart()
    triggers, fails = seals._triggers, ["SELECT no_such_function()"]

    def some(table: seals._Table) -> Iterator[str]:
        for n, statement in enumerate(triggers(table)):
            yield fails.pop() if fails and n else statement

    monkeypatch.setattr(seals, "_triggers", some)
    with pytest.raises(StoreError), world.runtime.db.transaction():
        pass
    world.say("one", session="s2")

    assert seals.broken(world.runtime.db) == []


def test_ctrl_c_while_a_row_is_sealed_is_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite makes an error of its own of it: a verb said that the database could not do it, and sent its user to the doctor."""
    world = healthy(tmp_path)
    row_hash, stops = seals.row_hash, [KeyboardInterrupt()]

    def stopped(*values: object) -> int:
        if stops:
            raise stops.pop()
        return row_hash(*values)

    monkeypatch.setattr(seals, "row_hash", stopped)
    with pytest.raises(KeyboardInterrupt):
        world.runtime.store.flag([1, 2, 3], add=1)
    assert world.runtime.store.heads_of([1])[1].flags & 1 == 0

    world.runtime.store.flag([1, 2, 3], add=1)
    assert world.runtime.store.heads_of([1])[1].flags & 1
    assert seals.broken(world.runtime.db) == []


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_from_outside_breaks_a_seal(change: str, tmp_path: Path) -> None:
    """Of content, order, role, summaries, edges, roots, rights, files and orders; and of the seals themselves."""
    world = healthy(tmp_path)
    assert seals.broken(world.runtime.db) == []
    world.close()
    world.raw(change)

    assert len(seals.broken(world.runtime.db)) >= 1


def test_what_is_taken_back_counts_for_nothing(tmp_path: Path) -> None:
    """A part of a transaction that fails leaves the sums as the rows are; so does a whole one."""
    db = healthy(tmp_path).runtime.db
    with db.transaction():
        db.execute("UPDATE messages SET source = 'a' WHERE store_id = 1")
        with pytest.raises(StoreError):
            fails(db)
    with pytest.raises(StoreError):
        fails(db)

    assert seals.broken(db) == []


def fails(db: Database) -> None:
    with db.transaction():
        db.execute("UPDATE messages SET source = 'b'")
        db.execute("no statement")


def test_lost_sums_stop_no_message(tmp_path: Path) -> None:
    """What is said is stored; that the sums are lost is for the doctor."""
    world = healthy(tmp_path)
    world.close()
    world.raw("DROP TABLE seals")
    world.say("after", "the loss", session="s2")

    assert world.runtime.store.count() == 102


def test_a_file_that_was_never_sealed_is_sealed_as_it_is(tmp_path: Path) -> None:
    """One that was made before there were seals: from its next open on."""
    world = healthy(tmp_path)
    world.close()
    with sqlite3.connect(world.path) as raw:
        raw.execute("DROP TABLE seals")
        raw.execute("DELETE FROM meta WHERE key = ?", (seals.SEALED,))
    raw.close()

    assert seals.broken(Home(tmp_path).runtime.db) == []


def test_a_file_whose_notes_were_never_sealed_is_sound_and_is_sealed_on_open(tmp_path: Path) -> None:
    """A backup of before there were seals of them counts as what it is; what was broken then stays broken."""
    world = healthy(tmp_path)
    world.raw("INSERT INTO meta VALUES ('hold:s', '{}')")
    world.raw("DELETE FROM seals WHERE part = 'notes'")
    world.raw("UPDATE meta SET value = 'true' WHERE key = 'sealed'")
    world.close()

    assert not files.faults(world.path)
    home = Home(tmp_path)
    assert seals.broken(home.runtime.db) == []
    home.raw("DELETE FROM meta WHERE key = 'hold:s'")
    assert seals.broken(home.runtime.db) == ["notes: 1 fewer than were written"]


def test_a_rewrite_keeps_the_seals(tmp_path: Path) -> None:
    """Purge, redaction and retention go over a connection of their own."""
    world = healthy(tmp_path)
    world.close()
    files.rewrite(world.path, [("UPDATE messages SET source = 'elsewhere' WHERE store_id < 9", ())])

    assert seals.broken(Home(tmp_path).runtime.db) == []
