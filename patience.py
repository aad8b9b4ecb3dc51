"""
What failed is left alone for a while, and then tried again.

Holds no more than what was given up within that time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Patience(Generic[Key]):
    """Things to be left alone, each for ``seconds`` from when it failed."""

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._until: dict[Key, float] = {}

    def __len__(self) -> int:
        return len(self._until)

    def give_up(self, key: Key) -> None:
        """Leave it alone from now on; what was left alone long enough is forgotten."""
        now = self._monotonic()
        self._until = {each: until for each, until in self._until.items() if until > now}
        self._until[key] = now + self._seconds

    def waits(self, key: Key) -> bool:
        """Is it too early to try it again?"""
        return self._until.get(key, 0.0) > self._monotonic()
