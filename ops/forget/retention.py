"""
Retention carried out, asked for or by itself: of sessions that the policy names, payload files go, then texts, then summaries.

Composes the policy (``ops/retention``) with what a purge does to rows. Unlike a purge it makes a backup first and leaves the
older ones: they go by their own age. What is held stays, and is told. By itself it runs at a stated interval, between turns,
in one process at a time; a dry run unless the operator said otherwise. The first look only notes when the first round will be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...errors import LcmError
from ...records import Flag, Message, Row, Stored
from ...storage.files import Progress, silent
from ...text import blobs, content
from .. import backup
from ..retention import HOUR_S, Due, due, last_round, note_round, settle
from . import holds, purge

if TYPE_CHECKING:
    from ...recall.access import Access
    from ...storage.leases import Claims

_DROPPED: Final = "[{} of {:,} bytes, removed by the retention policy]"
_ROWS: Final = f"""
SELECT store_id FROM messages WHERE session_key = (SELECT session_key FROM sessions WHERE session_id = ?)
   AND flags & {int(Flag.PURGED)} = 0
"""
_WITH_FILES: Final = f"{_ROWS} AND flags & {int(Flag.EXTERNALISED)}"
# A message that no model has summarised keeps its text: nothing would be left of it.
_SUMMARISED: Final = f"""
{_ROWS} AND EXISTS (SELECT 1 FROM node_sources x JOIN nodes n USING(node_id)
                     WHERE x.store_id = messages.store_id AND n.quality = 'verified')
"""
#: Also of messages that a milder step emptied the summaries go.
_LEFT: Final = _ROWS.replace(f"flags & {int(Flag.PURGED)} = 0", f"flags & {int(Flag.FORGOTTEN)} <> {int(Flag.PURGED)}")
_WHICH: Final = {"payloads": _WITH_FILES, "summaries": _SUMMARISED, "purge": _LEFT}
#: A block's bytes belong to its messages by their characters, about a third of them.
_BYTES: Final = """
SELECT coalesce(sum(iif(typeof(envelope) = 'blob', length(envelope), chars / 3)), 0) FROM messages
 WHERE store_id IN (SELECT value FROM json_each(?))
"""


@dataclass(frozen=True, slots=True)
class Share:
    """One step's part of one session. ``frees``: about so many bytes of rows and files."""

    due: Due
    rows: tuple[int, ...]
    frees: int


@dataclass(slots=True)
class Retention:
    """A round of the policy, planned or done. ``held``: messages that stay because of a hold."""

    shares: list[Share] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    backup: Path | None = None

    @property
    def frees(self) -> int:
        return sum(each.frees for each in self.shares)


def plan(deps: Access, progress: Progress = silent) -> Retention:
    """Messages that the policy would remove now. Changes nothing."""
    out = Retention()
    found = due(deps.db, deps.config.retention, now=deps.clock())
    for n, each in enumerate(found):
        ids = [row[0] for row in deps.db.query(_WHICH[each.step], (each.session_id,))]
        held = holds.held(deps, ids) if ids else frozenset()
        out.held += sorted(held)
        rows = [store_id for store_id in ids if store_id not in held]
        share = _payloads(deps, rows) if each.step == "payloads" else (rows, _bytes(deps, rows))
        if share[0]:
            out.shares.append(Share(each, tuple(share[0]), share[1]))
        progress("looking at sessions", n + 1, len(found))
    return out


def _bytes(deps: Access, rows: Sequence[int]) -> int:
    digests = [head.digest for head in deps.store.heads_of(rows).values() if head.flags & Flag.EXTERNALISED]
    named = deps.payloads.names_of(digests)
    sizes = sum(_size(deps, ref.sha) for name in named for ref in deps.payloads.refs_named(name))
    return int(deps.db.query(_BYTES, (json.dumps(list(rows)),))[0][0]) + sizes


def _size(deps: Access, sha: str) -> int:
    path = deps.payloads.path(sha)
    return path.stat().st_size if path.exists() else 0


def _payloads(deps: Access, rows: Sequence[int]) -> tuple[list[int], int]:
    """Rows that show files that are no text, and the bytes of these files."""
    shown: dict[int, set[str]] = {}
    for row in purge.stored_rows(deps, rows):
        shas = {ref.sha for _, _, ref in blobs.refs(content.encode(row.stored_json)[0]) if ref.kind != blobs.TEXT}
        if shas:
            shown[row.store_id] = shas
    files = {sha for shas in shown.values() for sha in shas}
    return sorted(shown), sum(_size(deps, sha) for sha in files)


def apply(deps: Access, progress: Progress = silent, *, renew: bool = True) -> Retention:
    """Carry the policy out, after a backup. Killed, the next one goes on: what is done is no longer due.

    Without ``renew`` the file keeps its size, and what goes is overwritten in it but for its words in the search index.
    """
    found = due(deps.db, deps.config.retention, now=deps.clock())
    planned = plan(deps, progress)
    if planned.shares:
        planned.backup = backup.back_up(deps, progress).path
    done, total = 0, sum(len(share.rows) for share in planned.shares)
    for share in planned.shares:
        told = partial(_told, progress, done, total)
        if share.due.step == "payloads":
            late = _drop_payloads(deps, share.rows, told)
        else:
            late = purge.empty(deps, share.rows, summaries=share.due.step == "purge", progress=told)
        planned.held += sorted(late)
        done += len(share.rows)
    if renew and deps.index.removed():
        purge.sweep(deps, progress)
    settle(deps.db, found)
    return planned


def _told(progress: Progress, before: int, total: int, _what: str, done: int, _of: int) -> None:
    progress("removing", before + done, total)


def _drop_payloads(deps: Access, rows: Sequence[int], progress: Progress) -> frozenset[int]:
    """A line stands where the encoded bytes were; texts in files stay. Some rows a transaction, so that nobody waits.

    What was pinned meanwhile stays whole: these are returned.
    """
    shas: set[str] = set()
    done, pinned = 0, frozenset[int]()
    for chosen in purge.parts(rows):
        progress("removing", done, len(rows))
        done += len(chosen)
        with deps.db.part():
            late = holds.held(deps, chosen)
            pinned |= late
            part = [store_id for store_id in chosen if store_id not in late]
            before = [*purge.stored_rows(deps, part)]
            shown = deps.payloads.shown_in(before)
            changed = [_without(row.head, row.stored_json) for row in before]
            deps.store.rewrite(changed)
            kept = {ref.sha for _, m in changed for _, _, ref in blobs.refs(m.stored_json.decode("utf-8", "replace"))}
            shas |= deps.payloads.let_go(shown - kept, partial(_others, deps, frozenset(part)))
    deps.payloads.remove(shas)
    return pinned


def _others(deps: Access, changed: frozenset[int], ids: Sequence[int]) -> Iterator[Row]:
    """Messages but those that were changed: they are read as they were before the transaction."""
    return purge.stored_rows(deps, [store_id for store_id in ids if store_id not in changed])


def _without(head: Stored, stored_json: dict[str, object]) -> tuple[Stored, Message]:
    def change(text: str) -> str:
        for start, stop, ref in reversed([*blobs.refs(text)]):
            if ref.kind != blobs.TEXT:
                text = text[:start] + _DROPPED.format(ref.mime or ref.kind, ref.bytes) + text[stop:]
        return text

    said = content.mapped(stored_json, change)
    left = any(True for _ in blobs.refs(content.encode(said)[0]))
    flags = head.flags if left else head.flags & ~(Flag.EXTERNALISED | Flag.COLLECTED)
    return head, replace(
        content.read_message(said), digest=head.digest, tokens=head.tokens, flags=flags | Flag.REDACTED
    )


_LEASE: Final = "retention"
_LEASE_S: Final = 3_600.0
TOPIC: Final = "retention"


def between_turns(deps: Access, leases: Claims, give_way: Callable[[], None]) -> None:
    """A round of the schedule, if one is due; ``give_way`` is called between its steps.

    A failure is shown in status, and the next interval tries again.
    """
    every = deps.config.retention_every_hours * HOUR_S
    if not every or not deps.config.retention:
        return
    last = last_round(deps.db)
    if last is None:
        note_round(deps.db, at=deps.clock(), applied=False)
    elif not last.at <= deps.clock() < last.at + every and leases.claim(_LEASE, _LEASE_S):  # a clock may go back
        try:
            _round(deps, lambda *_: give_way())
        finally:
            leases.release(_LEASE)


def _round(deps: Access, progress: Progress) -> None:
    applied = deps.config.retention_apply
    try:
        done = apply(deps, progress, renew=False) if applied else plan(deps, progress)
    except LcmError as exc:
        note_round(deps.db, at=deps.clock(), applied=applied, failed=True)
        deps.health.degraded(TOPIC, exc, severity="warning", remedy="run `hermes lcm retention`")
        return
    deps.health.resolved(TOPIC)
    note_round(
        deps.db, at=deps.clock(), applied=applied, sessions=len(done.shares), frees=done.frees, held=len(done.held),
        messages=sum(len(each.rows) for each in done.shares),
    )  # fmt: skip
