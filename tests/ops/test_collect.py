"""Transcript GC: what is in a file and summarised shrinks to a placeholder; nothing is lost, and nothing else shrinks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from worlds.home import Home
from worlds.process import Chat, World, chat

from hermes_lcm.command import run
from hermes_lcm.dag import fingerprint
from hermes_lcm.errors import StoreError
from hermes_lcm.records import Flag, NewNode, Scope
from hermes_lcm.search import query as words
from hermes_lcm.search.scope import Rights
from hermes_lcm.storage.payloads import Payloads
from hermes_lcm.text import blobs

GC = {
    "large_output_externalization_enabled": True,
    "large_output_externalization_threshold_chars": 2000,
    "large_output_transcript_gc_enabled": True,
}
LOG = "\n".join(f"2026-01-01T00:00:{n % 60:02d}Z INFO worker {n}: marzipan{n} done" for n in range(200))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, **GC)


def talk(world: World, **keys: Any) -> Chat:
    """Message 3 is a large result; 4 is a large answer of the assistant; 6 a small result."""
    live = (
        chat().user("look").calls("a").results("a", text=LOG).says(LOG + " said").calls("b").results("b", text="small")
    )
    live[2].update(keys)
    world.take(live)
    return live


def summarised(world: World, *store_ids: int, quality: str = "verified") -> None:
    """A summary over messages."""
    node = NewNode(1, 0, quality, "text", "", 5, 50, store_ids, fingerprint(0, store_ids))
    world.dag.add(node, now=1.0)


def collected(world: World) -> list[int]:
    world.runtime.upkeep.between_turns()
    rows = world.db.query("SELECT store_id FROM messages WHERE flags & ? ORDER BY store_id", (Flag.COLLECTED,))
    return [row[0] for row in rows]


def found(world: World, query: str) -> list[int]:
    """Messages that say it themselves."""
    hits = world.runtime.index.search(words.parse(query), scope=Scope(), limit=5).hits
    return sorted(hit.store_id for hit in hits if hit.rung != "near")


def test_a_summarised_result_in_a_file_shrinks_to_its_placeholder(world: World) -> None:
    """The same address, nothing but the reference."""
    talk(world)
    summarised(world, 2, 3, 4, 6)

    assert collected(world) == [3]
    text = world.store.text(3)
    assert blobs.PLACEHOLDER.fullmatch(text)
    assert "INFO" in world.store.text(4)


def test_it_comes_back_byte_for_byte(world: World) -> None:
    """By address and by reference, in this process and in the next."""
    live = talk(world)
    summarised(world, 3)
    collected(world)
    again = world.restart()

    assert [row.stored_json for rows in again.runtime.whole_store.row_batches() for row in rows] == list(live)
    assert again.runtime.view_store.text(3) == LOG
    opened = again.runtime.access(None, Rights("session:s")).payload(blobs.names(again.store.text(3)))
    assert opened is not None
    assert opened.text == LOG


@pytest.mark.parametrize("quality", ["provisional", "verbatim"])
def test_what_no_model_summarised_stays(world: World, quality: str) -> None:
    """An extract is no summary."""
    talk(world)
    assert collected(world) == []
    summarised(world, 3, quality=quality)
    assert collected(world) == []


def test_a_pinned_result_stays(world: World) -> None:
    """Whoever pinned it wants it as it is."""
    talk(world)
    summarised(world, 3)
    world.store.flag([3], add=Flag.PINNED)

    assert collected(world) == []


def test_without_the_setting_nothing_shrinks(tmp_path: Path) -> None:
    """It is opt-in."""
    world = World(tmp_path, **{**GC, "large_output_transcript_gc_enabled": False})
    talk(world)
    summarised(world, 3)

    assert collected(world) == []


def test_a_result_whose_file_is_gone_stays_as_it_is(world: World) -> None:
    """Its description is all there is left."""
    talk(world)
    summarised(world, 3)
    for file in world.runtime.payloads.folder.rglob("*.z"):
        file.unlink()
    world.runtime.payloads._cache.clear()

    assert collected(world) == []
    assert "lines" in world.store.text(3)


def test_a_search_finds_the_file_and_no_longer_the_words(world: World) -> None:
    """And everybody else's words; the same after the index is built anew."""
    talk(world)
    summarised(world, 3)
    assert found(world, "marzipan77") == [3, 4]
    collected(world)
    for _ in range(2):
        assert found(world, "marzipan77") == [4]
        assert found(world, blobs.names(world.store.text(3))) == [3]
        assert world.runtime.index.check(deep=True) == []
        world.runtime.rebuild_indexes()


def test_the_host_s_copy_is_still_recognised(world: World) -> None:
    """The row is who it was."""
    live = talk(world)
    summarised(world, 3)
    collected(world)
    again = world.restart()
    again.take(live.user("go on"))

    assert again.counts()["messages"] == len(live)
    assert again.thread()[-1] == live[-1]


def test_every_statement_may_fail(world: World) -> None:
    """Row and index change together or not at all."""
    talk(world)
    summarised(world, 3)
    for number in range(1, 20):
        try:
            with world.failing_at(number):
                world.runtime.collector.collect()
            break
        except StoreError:
            assert found(world, "marzipan77") == [3, 4]
            assert "lines" in world.store.text(3)

    assert number > 2
    assert collected(world) == [3]


def test_a_packed_result_shrinks_too(world: World) -> None:
    """It leaves its block; the others stay in it."""
    live = talk(world)
    world.store.packer.pack(newest=0, least_bytes=1)
    summarised(world, 3)

    assert collected(world) == [3]
    assert [row.stored_json for rows in world.runtime.whole_store.row_batches() for row in rows] == list(live)


def test_the_second_round_finds_nothing_to_do(world: World) -> None:
    """However many there are."""
    live = chat().user("go")
    for n in range(120):
        live.calls(f"c{n}").results(f"c{n}", text=f"{n} {LOG}")
    world.take(live)
    summarised(world, *range(1, 200))

    assert len(collected(world)) == 99
    assert world.runtime.collector.collect() == (0, 0)
    assert sum("INFO" in str(message["content"]) for message in world.stored()) == 21


def test_a_result_that_another_process_redacts_meanwhile_keeps_its_new_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its flags stay the same where it had lost a secret before; the old words' file is gone by then."""
    token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    world = World(tmp_path, **GC, sensitive_patterns_enabled=True, sensitive_patterns=("github_token",))
    world.take(
        chat().user("look").calls("a").results("a", text=f"{LOG}\n{token}\npassword: hunter2secret").says("done")
    )
    summarised(world, 3)
    other, view = Home(tmp_path, **{name: str(value) for name, value in GC.items()}), Payloads.view

    def viewed(payloads: Payloads, row: Any) -> Any:
        monkeypatch.undo()
        run("redact all apply", other.deps(None, trusted=True))
        return view(payloads, row)

    monkeypatch.setattr(Payloads, "view", viewed)
    world.runtime.upkeep.between_turns()
    text = world.restart().runtime.view_store.text(3)

    assert text.startswith(LOG)
    assert text.endswith("password: [redacted:password_assignment]")


def test_a_damaged_result_keeps_no_other_from_shrinking(world: World) -> None:
    """Nor the rest of the upkeep from being done."""
    live = talk(world)
    world.take(live.calls("c").results("c", text=LOG + " again").says("done"))
    summarised(world, *range(1, len(live) + 1))
    with world.db.transaction():
        world.db.execute("UPDATE messages SET envelope = x'ffff' WHERE store_id = 3")

    assert collected(world) == [8]
