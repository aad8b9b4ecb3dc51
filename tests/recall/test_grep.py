"""A search shows what it found."""

from __future__ import annotations

from pathlib import Path

import pytest
from worlds.recall import Archive, user

from hermes_lcm.recall import grep


def test_the_hits_are_read_however_long_the_index_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first search also indexes what waits; that must not cost the place of the words."""
    filler = "some words of filler here. " * 200
    archive = Archive(tmp_path, user(f"{filler} the wombat burrows. {filler}"))
    monkeypatch.setattr(grep, "SCAN_S", -1.0)

    (hit,) = archive.grep("wombat burrows")["results"]
    assert "wombat" in hit["snippet"]
