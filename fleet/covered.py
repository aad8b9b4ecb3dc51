"""
Words of a push that rest on what the fleet purged and this host still has: it has not heard of it yet, or holds the message.

Such a summary or archive goes to the server empty, as the purge would have left it there. Asked in the transaction of the push,
beside a lock that a purge needs too: whatever is purged later, the purge finds there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..records import PURGED_RUNG, Flag

if TYPE_CHECKING:
    from psycopg import Connection

    from ..storage.connection import Database

#: What the server says in the place of a summary or archive that a purge emptied.
GONE: Final = "[redacted:purged]"
_BELOW: Final = f"""
WITH RECURSIVE below(node_id) AS (
  SELECT value FROM json_each(:nodes) UNION
  SELECT s.child_id FROM below JOIN node_sources s USING(node_id) WHERE s.child_id IS NOT NULL
), covered(store_id) AS (
  SELECT s.store_id FROM below JOIN node_sources s USING(node_id) WHERE s.store_id IS NOT NULL UNION
  SELECT value FROM json_each(:messages)
)
SELECT c.nonce, m.store_id FROM covered JOIN messages m USING(store_id) JOIN conversations c USING(conversation_id)
 WHERE m.flags & {int(Flag.FORGOTTEN)} <> {int(Flag.PURGED)}
"""
_ABOVE: Final = """
WITH RECURSIVE above(node_id) AS (
  SELECT node_id FROM node_sources WHERE store_id IN (SELECT value FROM json_each(?)) UNION
  SELECT s.node_id FROM above a JOIN node_sources s ON s.child_id = a.node_id
) SELECT node_id FROM above
"""
_LOCK: Final = "SELECT FROM lcm.conversations WHERE nonce = ANY(%s) ORDER BY conversation FOR SHARE"
_PURGED: Final = """
SELECT DISTINCT t.id FROM lcm.conversations c JOIN lcm.purges p USING(conversation) CROSS JOIN LATERAL unnest(p.ids) AS gone(id)
  JOIN unnest(%s::text[], %s::bigint[]) AS t(nonce, id) ON t.nonce = c.nonce AND t.id = gone.id
"""


def without_words(
    db: Database,
    server: Connection[tuple[Any, ...]],
    nodes: Sequence[tuple[Any, ...]],
    archives: Sequence[tuple[Any, ...]],
    to_fleet: Callable[[str, int], int],
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows as the server may have them. Columns as a push reads them."""
    shown = {row[0]: frozenset[int](json.loads(row[4])) for row in archives}
    gone = _purged(db, server, [row[0] for row in nodes], frozenset[int]().union(*shown.values()), to_fleet)
    if not gone:
        return [*nodes], [*archives]
    above = {row[0] for row in db.query(_ABOVE, (json.dumps(sorted(gone)),))}
    return (
        [
            (*row[:3], "provisional", GONE, "", 6, *row[7:9], "", PURGED_RUNG, "{}", *row[12:])
            if row[0] in above else row for row in nodes
        ],
        [row if gone.isdisjoint(shown[row[0]]) else (*row[:8], GONE, row[9], "", *row[11:]) for row in archives],
    )  # fmt: skip


def _purged(
    db: Database,
    server: Connection[tuple[Any, ...]],
    nodes: Sequence[int],
    messages: Iterable[int],
    to_fleet: Callable[[str, int], int],
) -> frozenset[int]:
    """Messages below these that the fleet purged, and that are not empty here."""
    given = {"nodes": json.dumps(nodes), "messages": json.dumps(sorted(messages))}
    places = {to_fleet("messages", store_id): (nonce, store_id) for nonce, store_id in db.query(_BELOW, given)}
    if not places:
        return frozenset()
    nonces = [nonce for nonce, _ in places.values()]
    server.execute(_LOCK, (sorted(set(nonces)),))
    found = server.execute(_PURGED, (nonces, list(places))).fetchall()
    return frozenset(places[number][1] for (number,) in found)
