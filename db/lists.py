"""
Lists as parameters of a statement.

A connection keeps prepared statements by their text. With one text for every length of a list they would be prepared anew nearly
every time, and those that are kept would be of no use; so a list is made as long as the next power of two, with values that are
equal to nothing: NULL.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any


def padded(values: Collection[Any], blank: Any = None) -> list[Any]:
    """The values, and ``blank`` until there are 1, 2, 4, 8, ... of them; nothing for none."""
    out: list[Any] = list(values)
    if out:
        out += [blank] * ((1 << (len(out) - 1).bit_length()) - len(out))
    return out


def marks(count: int, mark: str = "?") -> str:
    """So many parameters, separated by commas."""
    return ",".join([mark] * count)
