"""
How far the host's rough estimate is from what the provider counts.

An online ratio per model, kept between processes by whoever owns it. Only ever used to act earlier: a ratio below one (the
estimate was too high) changes nothing, because acting late is what ends a session.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

_WEIGHT = 0.3  # of the newest observation
_MIN_ROUGH = 2000  # below this the fixed parts of a request decide, not the estimate
_LOW, _HIGH = 0.25, 4.0


class Calibration:
    """Reported prompt tokens over estimated ones, smoothed, by model."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ratios: dict[str, tuple[float, int]] = {}

    def observe(self, model: str, rough: int, real: int) -> None:
        """One request: what was estimated for it and what the provider counted."""
        if rough < _MIN_ROUGH or real <= 0:
            return
        seen = max(_LOW, min(_HIGH, real / rough))
        with self._lock:
            before, count = self._ratios.get(model, (seen, 0))
            # Upwards at once, downwards slowly: one request that was dearer than thought is proof, one cheap one is not.
            ratio = max(seen, before) if seen > before else before + _WEIGHT * (seen - before)
            self._ratios[model] = (ratio, count + 1)

    def factor(self, model: str) -> float:
        """What to multiply an estimate with; never below one."""
        return max(1.0, self._ratios.get(model, (1.0, 0))[0])

    def dump(self) -> dict[str, Any]:
        """JSON-able state."""
        with self._lock:
            return {model: [round(ratio, 4), count] for model, (ratio, count) in self._ratios.items()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over what ``dump`` gave; what is not of its shape is left out."""
        with self._lock:
            for model, item in state.items():
                if isinstance(item, list) and len(item) == 2 and all(isinstance(n, (int, float)) for n in item):
                    self._ratios[str(model)] = (max(_LOW, min(_HIGH, float(item[0]))), int(item[1]))
