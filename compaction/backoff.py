"""
Exponential backoff by time and by attempt.

``Cooldown`` counts seconds, ``Backoff`` the occasions on which it could have been tried. Both hold no more than what failed
lately.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_MOST_DOUBLINGS = 2  # of a quarter of an hour, to an hour: what failed in an outage must not wait a day after it
_MOST_KEPT = 1000
_FORGIVEN_S = 3600.0


@dataclass(slots=True)
class _Held:
    until: float
    failures: int


class Cooldown(Generic[Key]):
    """Things to be left alone: for ``seconds`` from when each failed, twice as long when it fails again, at most four times."""

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._held: dict[Key, _Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def give_up(self, key: Key) -> None:
        """Leave it alone from now on. What has not failed again for as long as it was left alone is forgotten."""
        now = self._monotonic()
        self._held = {each: held for each, held in self._held.items() if held.until + self._wait(held.failures) > now}
        failures = self._held[key].failures + 1 if key in self._held else 1
        self._held[key] = _Held(now + self._wait(failures), failures)

    def waits(self, key: Key) -> bool:
        """Is it too early to try it again?"""
        held = self._held.get(key)
        return held is not None and held.until > self._monotonic()

    def _wait(self, failures: int) -> float:
        return self._seconds * float(2 ** min(failures - 1, _MOST_DOUBLINGS))


@dataclass(slots=True)
class _Missed:
    failures: int
    at: float
    successes: int
    occasions: int = 0


class Backoff(Generic[Key]):
    """Things that may be tried at every 1st, 2nd, 4th, 8th ... occasion after they failed so often, and after an hour anyway."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._missed: dict[Key, _Missed] = {}
        self._successes = 0

    def due(self, key: Key) -> bool:
        """Is it due on this occasion? To be asked once on each."""
        missed = self._missed.get(key)
        if missed is None:
            return True
        missed.occasions += 1
        return missed.occasions >= 2 ** (missed.failures - 1) or self._monotonic() >= missed.at + _FORGIVEN_S

    def failures(self, key: Key) -> int:
        """Number of failures without an answer between."""
        missed = self._missed.get(key)
        return missed.failures if missed is not None else 0

    def failed(self, key: Key, *, if_others_succeed: bool = False) -> None:
        """Note a failure. ``if_others_succeed``: its wait grows only if something else succeeded since it failed last."""
        before = self._missed.pop(key, None)
        excused = if_others_succeed and before is not None and before.successes == self._successes
        failures = before.failures if before is not None else 0
        self._missed[key] = _Missed(failures if excused else failures + 1, self._monotonic(), self._successes)
        while len(self._missed) > _MOST_KEPT:
            self._missed.pop(next(iter(self._missed)))

    def succeeded(self, key: Key) -> None:
        """Note a success; no failure is held against it any more."""
        self._successes += 1
        self._missed.pop(key, None)
