"""
The host's own session database, read and never written: conversations that began before this plugin was installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..db.foreign import HOST, Foreign
from ..errors import LcmError
from .lineages import Facts, from_host

FILE = "state.db"


def known_sessions(home: Path) -> Mapping[str, Facts]:
    """What the host knows of its sessions; nothing where it has no database, or one that cannot be read."""
    path = home / FILE
    if not path.is_file():
        return {}
    try:
        with Foreign(path, shared=True) as source:
            if source.kind.name != HOST:
                return {}
            rows = {str(row["id"]): row for row in source.rows("SELECT * FROM sessions ORDER BY started_at, id")}
    except LcmError:
        return {}  # who belongs to whom is then what the other database says
    return {name: from_host(row, rows.get(str(row.get("parent_session_id") or ""))) for name, row in rows.items()}
