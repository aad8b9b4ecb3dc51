"""
Lists as parameters of a statement.

A connection keeps prepared statements by their text. With one text for every length of a list they would be prepared anew nearly
every time, and those that are kept would be of no use; so a list is made as long as the next power of two by saying its last
value again, which changes no set.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

Value = TypeVar("Value")


def padded(values: Collection[Value]) -> list[Value]:
    """The values, the last one repeated until there are 1, 2, 4, 8, ... of them; nothing for none."""
    out = list(values)
    if out:
        out += [out[-1]] * ((1 << (len(out) - 1).bit_length()) - len(out))
    return out


def marks(count: int, mark: str = "?") -> str:
    """So many parameters, separated by commas."""
    return ",".join([mark] * count)
