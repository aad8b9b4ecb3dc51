"""
The host's session database: a session's system prompt, and sessions written again where they were lost.

By duck typing, since its shape differs from version to version.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import BadRequest
from . import facts


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The host's session database at a path, made if it is not there. Raises BadRequest where the host is not installed."""
    try:
        from hermes_state import SessionDB
    except ImportError as exc:
        raise BadRequest(f"the host's own class for {path.name} is needed, and cannot be loaded: {exc}") from exc
    database = SessionDB(db_path=path)
    try:
        yield database
    finally:
        database.close()


def create(database: Any, facts: Mapping[str, Any]) -> None:
    """Make a session. What this version of the host does not know of it is left out."""
    inner = getattr(database, "_insert_session_row", None)  # ``create_session`` hands on whatever it is given
    known = inspect.signature(inner).parameters if callable(inner) else facts
    database.create_session(**{key: value for key, value in facts.items() if key in known and value is not None})


def append(database: Any, session_id: str, message: Mapping[str, Any]) -> None:
    """Append one message, with all of its keys that this version of the host keeps."""
    known = inspect.signature(database.append_message).parameters
    said = {**message, "tool_name": message.get("tool_name") or message.get("name")}
    said["platform_message_id"] = message.get("message_id")
    fields = {key: value for key, value in said.items() if key in known and key != "session_id" and value is not None}
    database.append_message(session_id, **{"content": None, **fields})


def dated(database: Any, session_id: str, began: float, ended: float | None, reason: str) -> None:
    """The times of a session that was written again: the host notes the present one."""
    if ended is not None:
        database.end_session(session_id, reason or "ended")
    write = getattr(database, "_execute_write", None)
    if callable(write):
        sql = "UPDATE sessions SET started_at = ?, ended_at = ? WHERE id = ?"
        write(lambda connection: connection.execute(sql, (began, ended, session_id)))


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
