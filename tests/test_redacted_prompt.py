"""Secrets that were taken out before storing are not in the prompt that we build; what comes back is no new message."""

from __future__ import annotations

from pathlib import Path

import pytest
from world import Chat, Script, World, chat, reload

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
