"""
Changing every string of a JSON value, keys included.

Pure. Values are what ``json.loads`` gives: no cycles, and no deeper than that reader goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """The same value with changed strings; containers are fresh, everything else is shared."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key) if isinstance(key, str) else key: mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [mapped(item, change) for item in value]
    return value
