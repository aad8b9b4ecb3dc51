"""Many chats at once hold P1, P3, P4 and P8. (For ten minutes, with a slow model: benchmarks/crowd.py.)"""

from __future__ import annotations

from pathlib import Path

import pytest
from worlds.crowd import Model, crowd


@pytest.mark.parametrize(("chats", "turns"), [(6, 8), pytest.param(30, 25, marks=pytest.mark.slow)])
def test_many_chats_at_once_keep_every_promise(
    chats: int, turns: int, hermes_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message once and before its request, valid lists that cover everything, no word of others; the model fails."""
    from agent import auxiliary_client

    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "4")
    monkeypatch.setattr(auxiliary_client, "call_llm", model := Model(0.0, 0.02, 0.1))
    world, talkers = crowd(hermes_home, chats, lambda talker: talker.turns >= turns)

    assert [each for talker in talkers for each in talker.wrong] == []
    assert sum(len(talker.compactions) for talker in talkers) >= chats / 2
    assert model.calls["answers"]
    assert world.runtime.store.count() == sum(sum(said.values()) for t in talkers for said in t.said.values())
