"""Secrets that were taken out before storing are not in the prompt that we build; what comes back is no new message."""

from __future__ import annotations

from pathlib import Path

import pytest
from worlds.process import Chat, Script, World, chat, reload

SECRET = "api_key=sk-live-4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c"


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_a_secret_in_the_tail_is_not_shown_after_a_compaction_nor_stored_again(tmp_path: Path, restart: bool) -> None:
    """The live tail shows what was stored; the host hands that back, and it is the message it was."""
    world = World(tmp_path, Script("ok"), sensitive_patterns_enabled=True, fresh_tail_count=4)
    messages = chat().turns(40).user(f"deploy with {SECRET} please").says(f"I used {SECRET}")
    compacted = world.compact(messages)
    assert SECRET not in str(compacted)
    assert "[redacted:" in str(compacted)

    if restart:
        world = world.restart()
        compacted = reload(compacted)
    world.take(Chat(compacted).turns(1, first=500))
    world.take(Chat(compacted).turns(2, first=500))

    assert len(world.stored()) == len(messages) + 4
    assert SECRET not in str(world.stored())


def test_a_redacted_message_that_cannot_be_read_is_shown_without_its_secret(tmp_path: Path) -> None:
    """It is still whole in the list, and what was taken out of it is taken out again; nothing is shown or covered twice."""
    world = World(tmp_path, Script("ok"), sensitive_patterns_enabled=True, fresh_tail_count=4)
    messages = chat().turns(40).user(f"deploy with {SECRET} please").says(f"I used {SECRET}")
    world.take(messages)
    damaged(world, len(messages) - 1)
    compacted = world.compact(messages)
    transcript = world.take(Chat(compacted).turns(1, first=500))

    assert SECRET not in str(compacted)
    assert "[redacted:" in compacted[-2]["content"]
    assert transcript.assembly is not None
    shown = [store_id for entry in transcript.entries for store_id in entry.ids]
    thread = [item.store_id for item in world.ingest.transcripts.expected(world.session(), None)]
    assert sorted([*shown, *world.dag.messages_below(transcript.assembly.roots)]) == sorted(thread)


def test_a_damaged_result_that_is_shortened_shows_no_secret(tmp_path: Path) -> None:
    """Its beginning is what stands in the prompt."""
    world = World(tmp_path, Script("ok"), sensitive_patterns_enabled=True, fresh_tail_count=6)
    messages = chat().turns(40).user("go").calls("a").results("a", text=f"{SECRET}\n" + "line of output\n" * 3000)
    world.take(messages)
    damaged(world, len(messages))
    compacted = world.compact(messages)

    assert "[lcm:stub" in compacted[-1]["content"]
    assert SECRET not in str(compacted)


def damaged(world: World, store_id: int) -> None:
    """What is stored of a message cannot be read any more."""
    with world.db.transaction():
        world.db.execute("UPDATE messages SET envelope = x'ffff' WHERE store_id = ?", (store_id,))
