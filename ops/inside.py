"""
Bytes of the database file by kind of content.

Exact, and therefore slow: SQLite looks at every page (about a second a gigabyte), so it is only done when asked for. Reads only.
"""

from __future__ import annotations

from typing import Final

from ..errors import StoreBusy, StoreError
from ..storage.connection import Database
from .survey import Survey

#: By the table that pages belong to, or its beginning where that ends in "_"; what is in none of these is "other".
_KINDS: Final = {
    "messages": "messages",
    "blocks": "message_blocks",
    "message_index_": "search_index",
    "node_index_": "search_index",
    "nodes": "summaries",
    "node_sources": "summaries",
    "assemblies": "summaries",
    "carried": "summaries",
    "stubs": "summaries",
    "archives": "summaries",
    "payloads": "payload_references",
    "payload_refs": "payload_references",
}
_ORDER: Final = (
    "messages", "message_columns", "message_indexes", "message_blocks", "search_index", "summaries", "payload_references",
    "other", "free_pages",
)  # fmt: skip
# An index and a table that lies in one are told apart: only what has a table's name by itself holds rows.
_MISSING = "no such table: dbstat"
_PAGES = """
SELECT s.name, coalesce(m.tbl_name, s.name), s.pgsize FROM dbstat AS s LEFT JOIN sqlite_master AS m ON m.name = s.name
 WHERE s.aggregate = TRUE
"""


def free_bytes(db: Database) -> int:
    """Pages that nothing uses: the next messages fill them, or upkeep gives them back. Costs nothing."""
    survey = Survey(db)
    return int(survey.pragma("freelist_count") or 0) * int(survey.pragma("page_size") or 0)


def inside(db: Database) -> dict[str, int]:
    """Bytes by kind; together they are the file. Empty where this build of SQLite cannot tell (no dbstat)."""
    try:
        rows = db.query(_PAGES)
    except StoreBusy:
        raise
    except StoreError as exc:
        if _MISSING in str(exc):
            return {}
        raise
    out = dict.fromkeys(_ORDER, 0)
    for name, table, size in rows:
        kind = _kind_of(table)
        out["message_indexes" if kind == "messages" and name != table else kind] += size
    json_texts = min(Survey(db).stored_json_bytes(), out["messages"])
    out["messages"], out["message_columns"] = json_texts, out["messages"] - json_texts
    out["free_pages"] = free_bytes(db)
    return out


def _kind_of(table: str) -> str:
    return _KINDS.get(table) or next((k for t, k in _KINDS.items() if t[-1] == "_" and table.startswith(t)), "other")
