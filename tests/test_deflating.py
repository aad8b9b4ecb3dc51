"""What is large is on disk as it is when its turn goes on, and smaller soon after: nothing but the size changes (P1, P2)."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ops_world import PAGE_BYTES
from ops_world import World as Home
from world import PATIENCE_S, World, chat

from hermes_lcm import cold, durable, upkeep
from hermes_lcm.deflating import Deflating
from hermes_lcm.errors import StoreError
from hermes_lcm.ops.check_content import largest
from hermes_lcm.ops.check_payloads import payload_files
from hermes_lcm.text.packing import LARGE_BYTES

FILES = {"large_output_externalization_enabled": True}


def large(seed: int = 0) -> str:
    """An output of more than LARGE_BYTES."""
    rng = random.Random(seed)
    return "\n".join(f"line {n} of a log {rng.randrange(10**6)}" for n in range(LARGE_BYTES // 20))


def conversation(seed: int = 0) -> Any:
    return chat().turns(2).calls("a").results("a", text=large(seed)).says("I see")


def world_with(tmp_path: Path, **settings: Any) -> World:
    world = World(tmp_path, **settings)
    world.take(conversation())
    return world


def sizes(world: World) -> list[int]:
    """Bytes of every envelope."""
    return [row[0] for row in world.db.query("SELECT length(envelope) FROM messages ORDER BY store_id")]


def files(world: World) -> list[Path]:
    return sorted(path for path in world.runtime.payloads.folder.rglob("*") if path.is_file())


def said(world: World) -> list[dict[str, Any]]:
    return [row.envelope for rows in world.runtime.whole_store.every() for row in rows]


def always() -> bool:
    return True


# -- envelopes ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("step", ["between_turns", "at_end"])
def test_a_large_envelope_is_deflated_behind_its_turn(step: str, tmp_path: Path) -> None:
    """By the worker, or when the session ends before that."""
    world = world_with(tmp_path)
    before = sizes(world)
    getattr(world.runtime.upkeep, step)()

    assert before[5] > LARGE_BYTES > 2 * sizes(world)[5]
    assert said(world) == list(conversation())
    assert world.runtime.upkeep.deflating.waiting() == 0


def test_its_turn_does_not_wait_for_that(tmp_path: Path) -> None:
    """The doctor tells how many wait."""
    home = Home(tmp_path / "home")
    home.say(large())

    assert largest(home.deps(), False).data["to_deflate"] == 1
    home.runtime.upkeep.between_turns()
    assert largest(home.deps(), False).data["to_deflate"] == 0


def test_what_a_killed_process_left_is_deflated_by_the_next_one(tmp_path: Path) -> None:
    """Nothing that only a process knows is needed for it."""
    world_with(tmp_path)
    again = World(tmp_path)
    again.runtime.upkeep.between_turns()

    assert sizes(again)[5] < LARGE_BYTES
    assert said(again) == list(conversation())


def test_every_statement_of_deflating_may_fail(tmp_path: Path) -> None:
    """What it says is the same before and after each; the next time does the rest."""
    world = world_with(tmp_path)
    failed = 0
    for number in range(1, 100):
        try:
            with world.failing_at(number):
                world.runtime.upkeep.deflating.step(always)
            break
        except StoreError:
            failed += 1
            assert said(world) == list(conversation())

    assert failed >= 2
    assert world.runtime.upkeep.deflating.waiting() == 0
    assert sizes(world)[5] < LARGE_BYTES
    assert said(world) == list(conversation())


def test_a_row_that_changed_meanwhile_stays_as_it_became(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transcript GC or an operator in another process was faster."""
    world, other = world_with(tmp_path), World(tmp_path)
    plain = cold.deflated

    def slow(blob: bytes) -> bytes | None:
        with other.db.transaction():
            other.db.execute("UPDATE messages SET envelope = ? WHERE store_id = 6", (b"\0{}",))
        return plain(blob)

    monkeypatch.setattr(cold, "deflated", slow)
    assert world.runtime.upkeep.deflating.step(always) == 0
    assert sizes(world)[5] == 3


def test_it_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    """A worker has no time for all of them."""
    world = World(tmp_path)
    live = chat()
    for n in range(3):
        live.user(large(n)).says("I see")
    world.take(live)
    left = iter([True, True, False])
    deflating = world.runtime.upkeep.deflating

    assert (deflating.step(lambda: next(left, False)), deflating.waiting()) == (1, 2)
    assert (deflating.step(always), deflating.waiting()) == (2, 0)
    assert Deflating(world.db, world.store).step(always) == 0
    assert said(world) == list(live)


def test_one_that_cannot_be_read_keeps_no_other_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for being deflated nor, behind that, for the search index, however long that takes here."""
    monkeypatch.setattr(upkeep, "_ENDING_S", 6 * PATIENCE_S)
    home = Home(tmp_path / "home")
    home.say(large(1))
    home.close()
    damaged = home.path.read_bytes().index(b"line 7000 of a log") // PAGE_BYTES * PAGE_BYTES
    with home.path.open("r+b") as file:
        file.seek(damaged)
        file.write(b"\xde\xad\xbe\xef" * (PAGE_BYTES // 4))
    home.say(large(2), session="s2")
    home.say(large(3), session="s3")
    home.runtime.ended()

    stored = [row[0] for row in home.runtime.db.query("SELECT length(envelope) FROM messages ORDER BY store_id")]
    assert [size < LARGE_BYTES for size in stored] == [False, True, True]
    assert home.runtime.index.waiting.ids() == [1]
    assert [each.topic for each in home.runtime.health.problems()] == ["upkeep"]


# -- files -------------------------------------------------------------------------------------------------------
def test_a_large_file_is_deflated_behind_its_turn(tmp_path: Path) -> None:
    """It is whole and durable before the row is, as every file is."""
    world = world_with(tmp_path, **FILES)
    (path,) = files(world)
    before = path.stat().st_size
    world.runtime.upkeep.between_turns()

    assert before > LARGE_BYTES > 2 * path.stat().st_size
    assert files(world) == [path]
    assert said(world) == list(conversation())
    assert world.runtime.payloads.survey(deep=True).damaged == ()


def test_the_doctor_tells_which_files_wait(tmp_path: Path) -> None:
    """Until the worker had time for them."""
    world = world_with(tmp_path, **FILES)
    deps = replace(Home(tmp_path / "home").deps(), payloads=world.runtime.payloads)
    before = payload_files(deps, False)
    world.runtime.upkeep.between_turns()

    assert [before.data["to_deflate"], payload_files(deps, False).data["to_deflate"]] == [1, 0]


def test_every_statement_of_deflating_files_may_fail(tmp_path: Path) -> None:
    """The file is read all the same, and waits or does not."""
    world = world_with(tmp_path, **FILES)
    failed = 0
    for number in range(1, 100):
        try:
            with world.failing_at(number):
                world.runtime.payloads.deflate(always)
            break
        except StoreError:
            failed += 1
            assert said(world) == list(conversation())

    assert failed >= 1
    assert world.runtime.payloads.waiting() == 0
    assert files(world)[0].stat().st_size < LARGE_BYTES


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_file_that_cannot_be_written_anew_stays(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is told until it works."""
    world = world_with(tmp_path, **FILES)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, name, full)
        assert world.runtime.payloads.deflate(always) == 0
    assert [each.topic for each in world.health.problems()] == ["payload files to deflate"]
    assert len(files(world)) == 1
    assert said(world) == list(conversation())
    assert world.runtime.payloads.deflate(always) == 1
    assert world.health.problems() == []


def test_no_file_waits_for_one_that_cannot_be_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody made its folder read-only: that stays said while others get smaller."""
    world = World(tmp_path, **FILES)
    live = chat()
    for n in range(5):
        live.user(f"request {n}").calls(f"c{n}").results(f"c{n}", text=large(n)).says("I see")
    world.take(live)
    plain, bad = durable.write, files(world)[:2]

    def guarded(path: Path, *pieces: bytes, within: Path) -> None:
        if path in bad:
            raise PermissionError(13, "Permission denied")
        plain(path, *pieces, within=within)

    with monkeypatch.context() as broken:
        broken.setattr(durable, "write", guarded)
        for _ in range(3):
            world.runtime.payloads.deflate(always)
        assert world.runtime.payloads.waiting() == 2
        assert [each.topic for each in world.health.problems()] == ["payload files to deflate"]
    assert world.runtime.payloads.deflate(always) == 2
    assert world.health.problems() == []
    assert said(world) == list(live)


def test_a_file_that_is_gone_waits_no_longer(tmp_path: Path) -> None:
    """The doctor's check of the files tells of it."""
    world = world_with(tmp_path, **FILES)
    files(world)[0].unlink()
    world.runtime.upkeep.between_turns()

    assert world.runtime.payloads.waiting() == 0
    assert len(world.runtime.payloads.survey().missing) == 1


def test_what_could_not_be_written_anew_is_not_told_of_when_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator removed its session: nothing waits, and nobody would ever take the warning back."""
    world = world_with(tmp_path, **FILES)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", full)
        world.runtime.payloads.deflate(always)
    assert len(world.health.problems()) == 1
    with world.db.transaction():
        world.db.execute("DELETE FROM payloads")
    world.runtime.payloads.deflate(always)

    assert world.health.problems() == []
