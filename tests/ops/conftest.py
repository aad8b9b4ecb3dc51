"""What tests of operators' verbs share: a home in a sound state, and locks that are given up soon."""

from __future__ import annotations

from pathlib import Path

import pytest
from worlds.home import Home, healthy

from hermes_lcm.storage import connection


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two parts of a long work nobody here waits for a turn."""
    monkeypatch.setattr(connection, "_LONGEST_PAUSE_S", 0)


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A locked database is given up after 50 ms."""
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 50)


@pytest.fixture
def world(tmp_path: Path) -> Home:
    """A home in a sound state."""
    return healthy(tmp_path)
