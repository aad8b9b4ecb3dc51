"""Pauses of a thread that reads long texts."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from hermes_lcm.text import pace


def test_a_thread_pauses_every_two_milliseconds_and_not_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is told that it may."""
    now, pauses = [time.monotonic() + 1.0], list[float]()
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: pauses.append(now[0])))
    for _ in range(1000):
        now[0] += 0.0001
        pace.pause()

    assert 45 <= len(pauses) <= 50


def test_each_thread_has_its_own_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that just paused keeps no other from it."""
    pauses = list[int]()
    monkeypatch.setattr(
        pace, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: pauses.append(threading.get_ident()))
    )
    pace.pause()
    other = threading.Thread(target=pace.pause)
    other.start()
    other.join()

    assert other.ident in pauses
