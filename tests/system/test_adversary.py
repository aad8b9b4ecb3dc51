"""What somebody who wanted to break the promises found."""

from __future__ import annotations

import random
import sqlite3
import time
import tracemalloc
import zlib
from pathlib import Path

import pytest
from worlds.home import Home
from worlds.process import World, chat

from hermes_lcm.errors import StoreBusy, StoreCorrupt, StoreError, StoreFull
from hermes_lcm.ops.doctor.checks import doctor
from hermes_lcm.ops.doctor.content import gaps, inline_payloads
from hermes_lcm.runtime import Process, Runtime

NOISE = random.Random(7).randbytes(30_000).hex()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def topics(world: World) -> list[str]:
    return [each.topic for each in world.health.problems()]


# -- P9: shown until it is resolved, and no longer --------------------------------------------------------------
@pytest.mark.parametrize("kind", [StoreBusy, StoreFull])
def test_a_stored_message_ends_the_trouble_of_every_topic(world: World, kind: type[Exception]) -> None:
    """A locked file or a full disk stopped a compaction; the next one may be hours away, but the file is usable again."""
    session = world.session()
    world.health.degraded("compaction", kind("lcm.db: not now"))
    world.health.save()
    world.runtime.ingest_list(session.session_id, chat().user("hello"))

    assert topics(world) == []
    assert topics(world.restart()) == []


def test_a_stored_message_does_not_prove_that_the_rest_is_sound(world: World) -> None:
    """Where SQLite refused some page, it may take others."""
    session = world.session()
    world.health.degraded("compaction", StoreCorrupt("lcm.db: malformed"))
    world.runtime.ingest_list(session.session_id, chat().user("hello"))

    assert topics(world) == ["compaction"]


def test_a_list_that_brings_nothing_new_proves_nothing(world: World) -> None:
    """It was compared, not written."""
    session = world.session()
    messages = chat().user("hello")
    world.runtime.ingest_list(session.session_id, messages)
    world.health.degraded("compaction", StoreFull("lcm.db: full"))
    world.runtime.ingest_list(session.session_id, messages)

    assert topics(world) == ["compaction"]


def test_a_branch_is_no_gap(tmp_path: Path) -> None:
    """It counts on from where it left its parent; what is missing in it is still found."""
    home = Home(tmp_path)
    home.say("a", "b", "c", "d")
    home.runtime.announce("s2", parent="s1", origin="branch")
    home.say("a", "b", "c", "e", "f", session="s2")

    assert gaps(home.deps(), False).status == "pass"
    home.raw(
        "DELETE FROM messages WHERE conversation_id = 2 AND seq = (SELECT min(seq) FROM messages WHERE conversation_id = 2)"
    )
    assert gaps(home.deps(), False).data["conversations"] == [{"conversation_id": 2, "missing": 1}]


# -- files beside the database ---------------------------------------------------------------------------------
def payload(world: World) -> Path:
    world.take(chat().user(f"data:image/png;base64,{NOISE}"))
    (file,) = world.runtime.payloads.folder.rglob("*.z")
    return file


def test_a_file_that_was_exchanged_for_a_bomb_is_not_unpacked(world: World) -> None:
    """Not more of it than there should be."""
    file = payload(world)
    file.write_bytes(zlib.compress(b"A" * 50_000_000, 9))
    tracemalloc.start()
    (row,) = next(world.runtime.whole_store.row_batches())
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert "[lcm:file" in row.text
    assert most < 10_000_000


def test_a_file_that_was_put_back_is_no_trouble_any_more(world: World) -> None:
    """The message is whole again, and nothing is unresolved."""
    file = payload(world)
    data = file.read_bytes()
    file.unlink()
    assert "[lcm:file" in next(world.runtime.whole_store.row_batches())[0].text
    assert topics(world) == [f"payload file_{file.stem[:16]}"]

    file.write_bytes(data)
    assert NOISE in next(world.runtime.whole_store.row_batches())[0].text
    assert topics(world) == []


def test_a_database_that_cannot_be_made_is_no_healthy_one(tmp_path: Path) -> None:
    """Its folder is a file: nothing is stored, and the doctor must not say that nothing is wrong."""
    home = Home(tmp_path)
    (tmp_path / "file").write_text("x")
    home.path = tmp_path / "file" / "lcm.db"
    home.runtime = Runtime(home.path, home.config, Process())
    try:
        home.say("hello")
    except StoreError as exc:
        home.runtime.health.degraded("ingest", exc)

    told = doctor(home.deps())
    assert told["overall"] == "unhealthy"
    assert [each["check"] for each in told["checks"] if each["status"] == "fail"] == ["problems"]


def test_what_the_guard_takes_for_text_is_no_inline_payload(tmp_path: Path) -> None:
    """A ruler, a hex dump and a small icon are stored as they are on purpose; a warning could never be got rid of."""
    home = Home(tmp_path)
    home.say("z" * 5000, NOISE, f"data:image/png;base64,{'iVBORw0KGgo' * 40} " + "and so on " * 500)

    assert inline_payloads(home.deps(), False).status == "pass"


def test_a_file_that_is_locked_before_it_was_opened_is_waited_for_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every hook of a turn tries to open it; only the first of them is patient."""
    monkeypatch.setattr(world.db, "_busy_ms", 600)
    world.take(chat().user("hello"))
    world.db.close()
    with sqlite3.connect(world.folder / "lcm.db", isolation_level=None) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        waits = []
        for _ in range(8):
            began = time.monotonic()
            with pytest.raises(StoreBusy):
                world.store.count()
            waits.append(time.monotonic() - began)
        other.execute("ROLLBACK")
    other.close()

    assert sum(waits[1:]) < waits[0]
    assert world.store.count() == 1
