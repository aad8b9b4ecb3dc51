"""Names of what stands in for a database: files beside it, and memory. Owns nothing."""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

_MEMORY: Final = ":memory:"
_MEMORIES: Final = itertools.count(1)
_STAND_INS: Final = itertools.count(1)


def in_memory() -> Path:
    """A name that no other database of this process has: what is stored under it lives as long as a connection to it."""
    return Path(f"{_MEMORY}{os.getpid()}-{next(_MEMORIES)}")


def is_memory(file: Path) -> bool:
    """Is this no file, but memory of this process?"""
    return file.name.startswith(_MEMORY)


def memory_uri(file: Path) -> str:
    """What SQLite opens under such a name."""
    return f"file:lcm-{file.name.removeprefix(_MEMORY)}?mode=memory&cache=shared"


def stand_in(database: Path, now: float) -> Path:
    """A name for a file that stands in for a database, in the order of time; it says which process it is of.

    None is given out twice: what was merged of a file is noted under its name.
    """
    stem = f"{database.stem}.standby-{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}"
    names = (database.with_name(f"{stem}-{n}-{os.getpid()}.db") for n in _STAND_INS)
    return next(path for path in names if not path.exists())
