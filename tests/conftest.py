"""Every test gets a Hermes home of its own, no settings from the developer's shell, and no network beyond loopback."""

from __future__ import annotations

import functools
import importlib
import ipaddress
import os
import socket
import weakref
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parents[1]

#: A thread of a test may hang on purpose inside its database: that one is left open.
_CLOSES_S = 0.5

hypothesis.settings.register_profile("lcm", deadline=None, print_blob=True)
hypothesis.settings.register_profile("few", hypothesis.settings.get_profile("lcm"), max_examples=40)


def pytest_configure(config: pytest.Config) -> None:
    """Make the link that lets tests import the checkout as ``hermes_lcm``; scripts/setup-env does the same."""
    hypothesis.settings.load_profile("few" if config.getoption("markexpr") == "not slow" else "lcm")
    link = ROOT / ".lcm-path" / "hermes_lcm"
    if not link.is_symlink():
        link.parent.mkdir(exist_ok=True)
        link.symlink_to("..", target_is_directory=True)
        importlib.invalidate_caches()  # the folder was missing when Python looked into it


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test marked ``few(n)`` n cases run with every change, spread over all of them; the others are slow.

    So is what Hypothesis makes up, where only the slow ones are asked for: then it makes up more.
    """
    families: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if config.getoption("markexpr") == "slow" and getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("slow")
        if item.get_closest_marker("few") is not None:
            families[item.nodeid.partition("[")[0]].append(item)
    for cases in families.values():
        marker = cases[0].get_closest_marker("few")
        count = marker.args[0] if marker is not None else len(cases)
        kept = {len(cases) * n // count for n in range(count)}
        for n, case in enumerate(cases):
            if n not in kept:
                case.add_marker("slow")


@pytest.fixture(autouse=True)
def hermes_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Hermes home; whatever the developer's shell says about Hermes, LCM or API keys is gone.

    So is what makes every process that a test starts compile the plugin anew.
    """
    for name in list(os.environ):
        if name.startswith(("LCM_", "HERMES_", "PYTHONDONT")) or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("hermes")
    monkeypatch.setenv("HERMES_HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """After a test its databases are closed and its background work has stopped: neither meets the next test."""
    from hermes_lcm.compaction.background import Preparer
    from hermes_lcm.storage.connection import Database

    made: weakref.WeakSet[Any] = weakref.WeakSet()
    with pytest.MonkeyPatch.context() as noted:
        for kind in (Preparer, Database):
            noted.setattr(kind, "__init__", _noted(kind.__init__, made))
        yield
    for each in list(made):
        if isinstance(each, Preparer):
            each.stop()
            each.idle(_CLOSES_S)
    for each in list(made):
        if isinstance(each, Database) and each.hold(_CLOSES_S):
            each.let_go()
            each.close()


def _noted(init: Any, made: weakref.WeakSet[Any]) -> Any:
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        made.add(self)

    return wrapped


@pytest.fixture(autouse=True, scope="session")
def checkout_looked_at_once() -> Iterator[None]:
    """Ask git for the commit that runs with the first doctor only; of other checkouts whenever somebody asks."""
    from hermes_lcm.ops import status

    asked, ours = status.identity, functools.cache(status.identity)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(status, "identity", lambda folder: (ours if folder == status.PLUGIN else asked)(folder))
        yield


class NetworkBlockedError(RuntimeError):
    """A test tried to leave this machine."""


@pytest.fixture(autouse=True, scope="session")
def loopback_only() -> Iterator[None]:
    """Refuse connections and name look-ups that leave the machine."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex", "sendto"):
            patch.setattr(socket.socket, name, _local(getattr(socket.socket, name)))
        lookup = socket.getaddrinfo

        def guarded(host: Any, *args: Any, **kwargs: Any) -> Any:
            _refuse_remote(host)
            return lookup(host, *args, **kwargs)

        patch.setattr(socket, "getaddrinfo", guarded)
        yield


def _local(method: Any) -> Any:
    def guarded(self: socket.socket, *args: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            _refuse_remote(args[-1][0])  # the address is the last argument of all three
        return method(self, *args)

    return guarded


def _refuse_remote(host: Any) -> None:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return
    try:
        local = ipaddress.ip_address(name).is_loopback
    except ValueError:
        local = False
    if not local:
        raise NetworkBlockedError(f"a test wants to reach {name!r}")


@pytest.fixture
def held() -> Iterator[list[Any]]:
    """Programs that hold a database (``worlds.home.Holder``); all of them let go afterwards."""
    holders: list[Any] = []
    yield holders
    for each in holders:
        each.free()
