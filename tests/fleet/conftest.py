"""Hosts that share a server: real files, a real PostgreSQL, no network beyond this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from worlds.fleet import Fleet
from worlds.postgres import Postgres, running

from hermes_lcm.fleet import background
from hermes_lcm.storage import connection


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for all tests of a process. A password by SCRAM takes as long as all else of a connection."""
    with running(password_encryption="md5", autovacuum="off") as server:
        yield server


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no reason to search without the server, and a test of one thread leaves nobody a turn."""
    monkeypatch.setattr(connection, "_LONGEST_PAUSE_S", 0)
    for limit in ("_SILENCE_S", "_FETCH_S"):
        monkeypatch.setattr(background, limit, 30.0)


@pytest.fixture
def fleet(postgres: Postgres, tmp_path: Path) -> Iterator[Fleet]:
    """A database of its own on that server, with the schema."""
    made = Fleet(postgres, tmp_path)
    yield made
    made.close()


@pytest.fixture
def host(fleet: Fleet) -> Callable[..., Any]:
    """Makes hosts of the fleet by name."""
    return fleet.host
