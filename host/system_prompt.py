"""
The system prompt of a session, as the host's own database keeps it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from . import facts

logger = logging.getLogger("hermes_lcm")


def system_prompt(home: Path, session_id: str) -> str:
    """The host's copy of a session's system prompt; "" where it keeps none or cannot be asked. Takes no lock."""
    path = home / "state.db"
    if not path.is_file():
        return ""
    try:
        from hermes_state import SessionDB

        database = SessionDB(db_path=path, read_only=True)
        try:
            row = facts.session_row(database, session_id)
        finally:
            database.close()
    except Exception as exc:  # noqa: BLE001 - a file of the host's that is damaged raises whatever its driver raises
        logger.debug("no system prompt of %s: %s", session_id, exc)
        return ""
    return str(row.get("system_prompt") or "") if isinstance(row, Mapping) else ""
