"""
Copies of the database: making, checking, keeping the newest, putting one back.

A backup is one self-contained file beside the database, made by SQLite's backup API while writers go on, checked before it
counts, and readable by its owner only.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = "lcm-backups"
KEEP = 10
_NAME = re.compile(r"lcm-\d{8}-\d{6}(?:-\d+)?\.sqlite3")


def backup_folder(database: Path) -> Path:
    """Where the backups of a database are."""
    return database.parent / FOLDER


def rotate_path(database: Path) -> Path:
    """The one backup that a rotation overwrites."""
    return backup_folder(database) / f"{database.stem}-rotate-latest.sqlite3"


def backups(database: Path) -> list[Path]:
    """The timestamped backups of a database, oldest first."""
    try:
        return sorted(path for path in backup_folder(database).iterdir() if _NAME.fullmatch(path.name))
    except OSError:
        return []
