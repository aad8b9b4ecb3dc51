"""Front ends of the real host that tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from host.shared import Running


@pytest.fixture(scope="session")
def front_ends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Running]]:
    """One of each for all tests of a process; started when the first of them talks."""

    @cache
    def named(name: str) -> Running:
        made.append(Running(tmp_path_factory.mktemp(name), gateway=name == "gateway"))
        return made[-1]

    made: list[Running] = []
    yield named
    for each in made:
        each.close()


@pytest.fixture
def agents(front_ends: Callable[[str], Running]) -> Iterator[Running]:
    """Agents are built in it: ``host.open()`` begins a session."""
    yield from front_ends("agents").lent()


@pytest.fixture
def terminal(front_ends: Callable[[str], Running]) -> Iterator[Running]:
    """The terminal: ``host.cli()`` begins a session."""
    yield from front_ends("terminal").lent()


@pytest.fixture
def gateway(front_ends: Callable[[str], Running]) -> Iterator[Running]:
    """The gateway: each test has chats of its own."""
    yield from front_ends("gateway").lent()
