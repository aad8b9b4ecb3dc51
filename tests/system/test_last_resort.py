"""Where a compaction fails, extracts keep the request in its window; nothing of them is taken for what somebody said (P1, P6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from worlds.breaking import Host
from worlds.process import Chat, chat, reload, texts

from hermes_lcm.records import CONTEXT_ROLE, Flag


@pytest.mark.parametrize("compacted_before", [False, True], ids=["first", "repeated"])
@pytest.mark.parametrize("again", [False, True], ids=["running", "restarted"])
def test_extracts_in_place_of_a_compaction_are_nobodys_words(
    hermes_home: Path, monkeypatch: pytest.MonkeyPatch, compacted_before: bool, again: bool
) -> None:
    """They are kept as a record; what was said is stored once, and the next compaction covers all of it."""

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("bug")

    host = Host(hermes_home)
    said = chat().turns(30)
    live = Chat(host.compress(said.copy())) if compacted_before else said.copy()
    new = chat().turns(20, first=100)
    live, said = Chat([*live, *new]), Chat([*said, *new])
    host.says(live)
    with monkeypatch.context() as failing:
        failing.setattr(host.runtime.compress_pass, "compact", broken)
        live = Chat(host.compress(live))
    assert len(live) < len(said) / 2
    if again:
        host.close()
        host = host.next()
        live = reload(live)
    for n in range(3):
        new = chat().turns(1, first=200 + n)
        live, said = Chat([*live, *new]), Chat([*said, *new])
        host.says(live)
    shown = [row for rows in host.runtime.whole_store.row_batches() for row in rows]
    assert texts([row.stored_json for row in shown if row.head.role != CONTEXT_ROLE]) == texts(said)
    assert [row.head.flags & Flag.RETRACTED for row in shown] == [0] * len(shown)
    live = host.compress(live, force=True)
    host.says(live)
    assert host.gaps(live) == (0, 0)
    assert len([row for rows in host.runtime.whole_store.row_batches() for row in rows]) == len(shown)
