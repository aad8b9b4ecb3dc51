"""
Ledger of imports, row by row, and of duplicates.

Owns tables ``import_sources``, ``imported`` and ``duplicates``. A row here and its note in the ledger are one fact: an import
that was interrupted goes on where it stopped, and one that is done again adds nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..storage.connection import Database

MESSAGE: Final = "message"
NODE: Final = "node"
#: A message that was here before the import, as a live session had stored it.
PRESENT: Final = "present"
#: Another time at which a message that is here was stored, into a file that was merged.
_TIME: Final = "time"
_OF_MERGES: Final = 0  # no source: it stays when that is forgotten


@dataclass(frozen=True, slots=True)
class Source:
    """An imported source. ``about``: what was known of it when the import began."""

    source_id: int
    import_id: str
    kind: str
    about: Mapping[str, Any]
    started_at: float
    finished_at: float | None


class Ledger:
    """The imports of one database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def find(self, import_id: str) -> Source | None:
        """A source by its name, or None."""
        found = [each for each in self.sources() if each.import_id == import_id]
        return found[0] if found else None

    def sources(self) -> list[Source]:
        """All imported sources, oldest first."""
        rows = self._db.query(
            "SELECT source_id, import_id, kind, about, started_at, finished_at FROM import_sources ORDER BY source_id"
        )
        return [Source(row[0], row[1], row[2], json.loads(row[3]), row[4], row[5]) for row in rows]

    def begin(self, import_id: str, kind: str, about: Mapping[str, Any], *, now: float) -> Source:
        """The source of this name, noted if it is new."""
        with self._db.transaction():
            self._db.execute(
                "INSERT INTO import_sources(import_id, kind, about, started_at) VALUES (?,?,?,?) "
                "ON CONFLICT(import_id) DO NOTHING",
                (import_id, kind, json.dumps(dict(about), ensure_ascii=False), now),
            )
        found = self.find(import_id)
        assert found is not None
        return found

    def finish(self, source: Source, about: Mapping[str, Any], *, now: float) -> None:
        """Note that everything of a source is here, and what it turned out to be."""
        with self._db.transaction():
            self._db.execute(
                "UPDATE import_sources SET finished_at = ?, about = ? WHERE source_id = ?",
                (now, json.dumps(dict(about), ensure_ascii=False), source.source_id),
            )

    def forget(self, source: Source) -> None:
        """Forget a source that is not there to be imported again."""
        with self._db.transaction():
            self._db.execute("DELETE FROM imported WHERE source_id = ?", (source.source_id,))
            self._db.execute("DELETE FROM import_sources WHERE source_id = ?", (source.source_id,))

    # -- rows ---------------------------------------------------------------------------------------
    def note(self, source: Source, kind: str, rows: Iterable[tuple[str, int]]) -> None:
        """Note the rows here that some rows of a source became; inside the transaction that wrote them."""
        self._note(source.source_id, kind, rows)

    def _note(self, source_id: int, kind: str, rows: Iterable[tuple[str, int]]) -> None:
        with self._db.transaction():
            self._db.executemany(
                "INSERT INTO imported(source_id, kind, key, here) VALUES (?,?,?,?) ON CONFLICT DO NOTHING",
                [(source_id, kind, key, here) for key, here in rows],
            )

    def rows_by_source(self, source: Source | None, kind: str) -> dict[str, int]:
        """Rows here by the row of the source."""
        if source is None:
            return {}
        sql = "SELECT key, here FROM imported WHERE source_id = ? AND kind = ?"
        return {str(key): int(here) for key, here in self._db.query(sql, (source.source_id, kind))}

    def brought(self, kind: str) -> set[int]:
        """All rows here that any import brought."""
        return {int(row[0]) for row in self._db.query("SELECT here FROM imported WHERE kind = ?", (kind,))}

    # -- times --------------------------------------------------------------------------------------
    def note_times(self, times: Iterable[tuple[int, float]]) -> None:
        """Note when rows here were stored elsewhere: another file may know them by that."""
        self._note(_OF_MERGES, _TIME, ((f"{at!r} {here}", here) for here, at in times))

    def times(self, first: int, last: int) -> dict[int, tuple[float, ...]]:
        """Other times at which rows here were stored, of those from one address to another."""
        out: dict[int, tuple[float, ...]] = {}
        sql = "SELECT key, here FROM imported WHERE kind = ? AND here BETWEEN ? AND ?"
        for key, here in self._db.query(sql, (_TIME, first, last)):
            out[here] = (*out.get(here, ()), float(key.split()[0]))
        return out

    # -- duplicates ---------------------------------------------------------------------------------
    def mark(self, pairs: Sequence[tuple[int, int]]) -> None:
        """(row, the row that it repeats) of duplicates."""
        with self._db.transaction():
            self._db.executemany(
                "INSERT INTO duplicates(store_id, original_id) VALUES (?,?) ON CONFLICT DO NOTHING", list(pairs)
            )

    def duplicates(self) -> dict[int, int]:
        """The row that each duplicate repeats."""
        return {int(a): int(b) for a, b in self._db.query("SELECT store_id, original_id FROM duplicates")}
