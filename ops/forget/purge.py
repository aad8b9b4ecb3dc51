"""
Purge: what messages said is removed for good, and all that was made of it; a certificate says where it was looked for.

A row stays as a place in its conversation, with its role, its time and its fingerprint: so the host's own list, which still shows
the message, brings nothing back. Summaries that rest on it become extracts of what remains, until a model writes them anew.
A conversation of which nothing remains, and that the host does not know any more, goes with its rows and names. What is held
(``holds``) stays whole, and is told. No backup is made before: it would hold what is to go; those that hold it go too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...compaction.plan import target_tokens
from ...compaction.sources import source_lines
from ...errors import BadRequest, StoreBusy, StoreError
from ...llm.extract import digest
from ...llm.source import Source
from ...records import (
    ARCHIVE_RUNG,
    PURGED_RUNG,
    PURGED_WORDS,
    Flag,
    Message,
    Node,
    Row,
    SourceLine,
    Stored,
    SummaryTask,
)
from ...search.documents import STORE_ID_SQL
from ...storage import disk, files
from ...storage.files import Progress, silent
from ...storage.foreign import HOST_FILE, of_host
from ...storage.meta import Meta
from ...store import MessageStore
from ...text import content, tokens
from .. import backup
from ..doctor import clean
from ..orders import Orders, Rotation
from ..upkeep import reindex
from . import holds, proof
from .elsewhere import Others, Reach, Selection, Table

if TYPE_CHECKING:
    from ...recall.access import Access

TOPIC: Final = "purge"
_LEFT: Final = "purging:left"  # what a purge on its way has still to erase: backups and exports, payload files
_GONE: Final = "[redacted:purged:{:012x}]"  # one of its own for each row: a list that shows several is still told apart
_KEPT_KEYS: Final = ("role", "name", "tool_name", "tool_call_id", "timestamp", "message_uid", "message_id")
_AT_ONCE: Final = 50  # rows of one transaction
_SELECT: Final = f"""
SELECT m.store_id FROM messages m JOIN sessions s USING(session_key)
  JOIN conversations c ON c.conversation_id = m.conversation_id
 WHERE m.flags & {int(Flag.FORGOTTEN)} <> {int(Flag.PURGED)}
   AND (:ids IS NULL OR m.store_id IN (SELECT value FROM json_each(:ids)))
   AND (:session IS NULL OR s.session_id = :session)
   AND (:principal IS NULL OR c.principal = :principal)
   AND (:before IS NULL OR coalesce(m.said_at, m.stored_at) < :before)
 ORDER BY m.store_id
"""
_LAPSED: Final = f"""
SELECT store_id FROM messages WHERE flags & {int(Flag.LAPSED)} AND store_id IN (SELECT value FROM json_each(?))
"""
_COPIES: Final = """
SELECT store_id FROM duplicates WHERE original_id IN (SELECT value FROM json_each(:ids)) UNION
SELECT original_id FROM duplicates WHERE store_id IN (SELECT value FROM json_each(:ids))
"""
_ABOVE: Final = """
WITH RECURSIVE above(node_id) AS (
  SELECT node_id FROM node_sources WHERE store_id IN (SELECT value FROM json_each(?)) UNION
  SELECT s.node_id FROM above a JOIN node_sources s ON s.child_id = a.node_id)
SELECT n.node_id FROM nodes n JOIN above USING(node_id) ORDER BY n.depth, n.node_id
"""
_ENTRIES: Final = (
    f"SELECT count(*) FROM message_index_docsize WHERE {STORE_ID_SQL.format('id')} IN (SELECT value FROM json_each(?))"
)
_EMPTIED: Final = f"""
SELECT conversation_id FROM messages GROUP BY 1 HAVING min(flags & {int(Flag.FORGOTTEN)} = {int(Flag.PURGED)})
"""
_SIZE: Final = "SELECT count(*) FROM messages WHERE conversation_id = ?"
_NEEDED: Final = """
SELECT parent_id FROM conversations WHERE parent_id IS NOT NULL UNION
SELECT n.conversation_id FROM carried k JOIN nodes n USING(node_id) WHERE k.conversation_id <> n.conversation_id
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """Messages that would go. ``held``: chosen, but under a hold. ``host``: their sessions that the host still has."""

    rows: tuple[int, ...]
    held: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    archives: tuple[int, ...] = ()
    payloads: tuple[str, ...] = ()
    entries: int = 0
    copies: tuple[Path, ...] = ()
    host: tuple[str, ...] = ()
    there: Reach | None = None


@dataclass(slots=True)
class Done:
    """Messages that went. ``conversations``: gone as a whole. ``still``: addresses of other texts that say the same.

    ``there``: tables of a fleet's server that were searched.
    """

    plan: Plan
    digests: dict[int, str] = field(default_factory=dict)
    removed: list[tuple[str, str]] = field(default_factory=list)
    conversations: int = 0
    backup: Path | None = None
    found: proof.Proof | None = None
    not_ours: proof.Proof | None = None
    still: list[str] = field(default_factory=list)
    short: int = 0
    there: list[Table] = field(default_factory=list)


# -- what would go ---------------------------------------------------------------------------------------
def plan(deps: Access, asked: Selection, progress: Progress = silent, others: Others | None = None) -> Plan:
    """Name everything that a purge of these messages would remove. Changes nothing."""
    if not any((asked.ids, asked.session, asked.principal, asked.before, asked.matching)):
        raise BadRequest("say what to purge: --messages, --session, --principal, --before or --matching")
    chosen = _chosen(deps, asked, progress)
    # Asked before the server is: a pin that it does not hear of any more is seen again before the act.
    held = holds.held(deps, chosen)
    there = others.reach(asked, chosen, progress) if others is not None else None
    held |= frozenset(there.held if there else ())
    rows = [store_id for store_id in chosen if store_id not in held]
    ids = json.dumps(rows)
    digests = [head.digest for head in deps.store.heads_of(rows).values() if head.flags & Flag.EXTERNALISED]
    archives = deps.archives.over(rows)
    copies = _holding(deps, rows) if rows else ()
    return Plan(
        tuple(rows), tuple(sorted(held)), tuple(row[0] for row in deps.db.query(_ABOVE, (ids,))), tuple(archives),
        tuple(deps.payloads.names_of(digests)), int(deps.db.query(_ENTRIES, (ids,))[0][0]) if rows else 0, copies,
        tuple(_known_to_host(deps, _sessions_of(deps, rows)) or ()), there,
    )  # fmt: skip


def _chosen(deps: Access, asked: Selection, progress: Progress) -> list[int]:
    params = {
        "ids": json.dumps(asked.ids) if asked.ids else None, "session": asked.session, "principal": asked.principal,
        "before": asked.before,
    }  # fmt: skip
    found = [row[0] for row in deps.db.query(_SELECT, params)]
    if asked.matching:
        found = list(_matching(deps, found, proof.folded(asked.matching), progress))
    copies = [row[0] for row in deps.db.query(_COPIES, {"ids": json.dumps(found)})]
    return sorted({*found, *copies}) if copies else found


def _matching(deps: Access, ids: Sequence[int], needle: str, progress: Progress) -> Iterator[int]:
    """Messages that hold a text anywhere: in what was said, in arguments, in files. A damaged one says nothing.

    Of one that a policy emptied its summaries may still say it.
    """
    forms, done = proof.forms_of([needle]), 0
    lapsed = [row[0] for row in deps.db.query(_LAPSED, (json.dumps(ids),))]
    above = [row[0] for row in deps.db.query(_ABOVE, (json.dumps(lapsed),))] if lapsed else []
    saying = [node.node_id for node in deps.dag.nodes(above) if any(form in proof.folded(node.text) for form in forms)]
    yield from sorted(set(lapsed).intersection(deps.dag.messages_below(saying)))
    for part in parts(ids):
        for row in deps.store.legible(part)[0]:
            said = proof.folded(content.encode(deps.payloads.whole(row).stored_json)[0])
            if any(form in said for form in forms):
                yield row.store_id
        done += len(part)
        progress("reading messages", done, len(ids))


def _holding(deps: Access, rows: Sequence[int]) -> tuple[Path, ...]:
    """Backups that hold any of these messages; exports, archives and damaged copies that are younger than the oldest of them."""
    ids, mine = json.dumps(list(rows)), files.facts_of(deps.db)
    sql = "SELECT min(stored_at) FROM messages WHERE store_id IN (SELECT value FROM json_each(?))"
    first = float(deps.db.query(sql, (ids,))[0][0])
    digests = json.dumps([head.digest.hex() for head in deps.store.heads_of(rows).values()])

    def holds_some(path: Path) -> bool:
        try:
            theirs = files.facts(path) if path.suffix == ".sqlite3" else None
            if theirs is None:
                return path.stat().st_mtime >= first
            if mine.is_of(theirs):
                return files.has_messages(path, ids)
            return files.says_any(path, digests)  # a stand-in that was merged, or another profile's
        except StoreError:
            return path.stat().st_mtime >= first

    return tuple(path for path in backup.kept_files(deps.db.path) if holds_some(path))


def _sessions_of(deps: Access, rows: Sequence[int]) -> list[str]:
    sql = (
        "SELECT DISTINCT s.session_id FROM messages m JOIN sessions s USING(session_key) "
        "WHERE m.store_id IN (SELECT value FROM json_each(?)) ORDER BY 1"
    )
    return [str(row[0]) for row in deps.db.query(sql, (json.dumps(list(rows)),))]


def _known_to_host(deps: Access, names: Sequence[str]) -> list[str] | None:
    """Sessions among these of which the host's own database has messages; None where it cannot be asked."""
    with of_host(deps.home) as host:
        if host is None:
            return None
        known = {str(row["name"]) for row in host.rows("SELECT DISTINCT session_id AS name FROM messages")}
    return [name for name in names if name in known]


# -- doing -----------------------------------------------------------------------------------------------
def apply(deps: Access, asked: Selection, progress: Progress = silent, others: Others | None = None) -> Done:
    """Purge, and prove it; in a fleet first there, so that what is held meanwhile stays here too.

    Killed at any point, the same command goes on; status says meanwhile that it was not finished.
    """
    backup.refuse_stand_ins(deps.db.path)
    kept = backup.kept_files(deps.db.path)
    planned = plan(deps, asked, progress, others)
    done, evidence = Done(planned), proof.Evidence()
    if asked.matching:
        evidence.texts[asked.matching] = None
    unfinished = any(each.topic == TOPIC for each in deps.health.problems())
    there = planned.there
    if not planned.rows and not unfinished and not (there and there.messages):
        return done
    _note(deps, done, evidence)
    _unfinished(deps, "a purge was begun and is not finished")
    removed = others.remove(there, evidence) if others is not None and there is not None else {}
    copies, shas = _to_erase(deps, planned)
    done.plan = _less(planned, empty(deps, planned.rows, progress=progress))
    copies += [path for path in backup.kept_files(deps.db.path) if path not in {*kept, *copies}]  # made meanwhile
    done.digests = {store_id: found for store_id, found in done.digests.items() if store_id not in done.plan.held}
    if others is not None:
        others.settle()
    done.conversations = sweep(deps, progress)
    deps.payloads.remove(shas)
    for path in copies:
        done.removed.append((path.name, backup.digest_of(path) or ""))
        disk.erase(path)
    Meta(deps.db).forget(_LEFT)
    deps.health.resolved(TOPIC)
    deps.health.save()
    try:
        done.backup = backup.back_up(deps, progress).path
    except (StoreError, OSError):
        _unfinished(deps, "a purge is done but for its backup and its proof")
        raise
    if others is not None and there is not None:
        done.there = others.search(there, removed, evidence, progress)
    _prove(deps, done, evidence, progress)
    return done


def _unfinished(deps: Access, said: str) -> None:
    deps.health.degraded(TOPIC, said, remedy="run the same `/lcm purge ... apply` again")
    deps.health.save()


def _to_erase(deps: Access, planned: Plan) -> tuple[list[Path], list[str]]:
    """Copies that hold what goes, and its payload files, with those that a killed purge left: nobody finds them by empty rows.

    A database may have come from somewhere: what it names outside the folders of copies is left alone.
    """
    meta = Meta(deps.db)
    left = meta.value(_LEFT) or {}
    shas = {ref.sha for name in planned.payloads for ref in deps.payloads.refs_named(name)}
    left = {
        "copies": sorted({*map(str, planned.copies), *left.get("copies", ())}),
        "files": sorted(shas.union(left.get("files", ()))),
    }
    if any(left.values()):
        meta.note(_LEFT, left)
    return [path for path in backup.kept_files(deps.db.path) if str(path) in left["copies"]], [
        sha for sha in left["files"] if sha.isalnum()
    ]


def _note(deps: Access, done: Done, evidence: proof.Evidence) -> None:
    """Note what will be looked for. Raises BadRequest where some of it was pinned since it was chosen."""
    rows = done.plan.rows
    for part in parts(rows):
        heads = deps.store.heads_of(part)
        done.digests |= {store_id: head.digest.hex() for store_id, head in heads.items()}
        said = [store_id for store_id in part if store_id in heads and not heads[store_id].flags & Flag.PURGED]
        for row in deps.store.legible(said)[0]:
            evidence.note(deps.payloads.whole(row))
        evidence.note_stored(deps.store.stored_bytes(said))
    if late := holds.held(deps, rows):
        raise BadRequest(
            f"msg_{min(late)} was pinned meanwhile: nothing was removed; the same again leaves what is pinned"
        )


def follow(deps: Access, rows: Sequence[int], nodes: Sequence[int]) -> Plan:
    """Another host purged these: they go here too, backups that hold them included; what is held here stays.

    ``nodes``: summaries that were made of them. The file is still to be renewed.
    """
    kept_files = backup.kept_files(deps.db.path)
    planned = plan(deps, Selection(ids=tuple(rows)))
    late = any(each.rung != PURGED_RUNG for each in deps.dag.nodes(nodes))
    copies, shas = _to_erase(deps, planned)
    if planned.rows or late:
        kept = empty(deps, [store_id for store_id in rows if store_id not in planned.held] if late else planned.rows)
        planned = _less(planned, kept)
        copies += [
            path for path in backup.kept_files(deps.db.path) if path not in {*kept_files, *copies}
        ]  # made meanwhile
    if copies or shas:
        deps.payloads.remove(shas)
        for path in copies:
            disk.erase(path)
        Meta(deps.db).forget(_LEFT)
    return planned


def _less(planned: Plan, late: frozenset[int]) -> Plan:
    """A plan without what was pinned while it was carried out."""
    rows = tuple(store_id for store_id in planned.rows if store_id not in late)
    return replace(planned, rows=rows, held=tuple(sorted({*planned.held, *late})))


def renewed(deps: Access, most_bytes: float) -> bool:
    """Overwrite what is left in indexes, free pages and log; False: the file is larger than that, or somebody reads it."""
    if deps.db.path.stat().st_size > most_bytes:
        return False
    reindex(deps)
    with deps.db.secure(), suppress(StoreBusy):
        deps.db.renew()
        return True
    return False


def stored_rows(deps: Access, ids: Sequence[int]) -> Iterator[Row]:
    """Messages as they are stored, files as placeholders; damaged ones are left out."""
    store = MessageStore(deps.db, deps.index, deps.store.blocks)
    for part in parts(ids):
        yield from store.legible(part)[0]


def parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """As many of these at a time as one transaction rewrites."""
    for at in range(0, len(ids), _AT_ONCE):
        yield ids[at : at + _AT_ONCE]


def empty(deps: Access, rows: Sequence[int], *, summaries: bool = True, progress: Progress = silent) -> frozenset[int]:
    """Rows, and the summaries and archives over them: each part of the rows with what rests on it as one transaction.

    What was pinned meanwhile stays whole; it is returned. Without ``summaries`` these stay: they are what is kept of the rows.
    """
    nodes = [row[0] for row in deps.db.query(_ABOVE, (json.dumps(list(rows)),))] if summaries else []
    texts, known = _made_again(deps, nodes, frozenset(rows)), {*nodes}
    shas: set[str] = set()
    done, kept = 0, frozenset[int]()
    with deps.db.secure():
        for chosen in parts(rows):
            with deps.db.part():
                late = holds.held(deps, chosen)
                part = [store_id for store_id in chosen if store_id not in late]
                above = [row[0] for row in deps.db.fetch(_ABOVE, (json.dumps(part),))] if summaries else []
                new = [node_id for node_id in above if node_id not in known]  # another process wrote it meanwhile
                if late or new:
                    kept |= late
                    texts = _made_again(deps, [*texts, *new], frozenset(rows) - kept)
                    known.update(new)
                for node_id in above:
                    if (made := texts.pop(node_id, None)) is not None:
                        _overwrite(deps, made)
                if summaries and part:
                    deps.archives.blank(deps.archives.over(part), _GONE.format(part[0]))
                shown = deps.payloads.shown_in(stored_rows(deps, part))
                deps.store.rewrite(
                    [_emptied(deps, store_id, Flag.NONE if summaries else Flag.LAPSED) for store_id in part]
                )
                deps.ledger.unmark(part)
                shas |= deps.payloads.let_go(shown, lambda ids: stored_rows(deps, ids))
            done += len(chosen)
            progress("purging", done, len(rows))
    deps.payloads.remove(shas)
    for name in _sessions_of(deps, rows):
        _order(deps, name)
    return kept


def _overwrite(deps: Access, made: Node) -> None:
    """A summary in its new words. One of summaries is dissolved: the next compaction condenses anew what it was made of."""
    deps.dag.overwrite(made)
    if made.depth and made.quality == "provisional":
        Orders(deps.db).dissolve(made.node_id, now=deps.clock())


def _order(deps: Access, session_id: str) -> None:
    """The prompt of a session that goes on is built anew at its next turn: until then the host's list shows what was said."""
    session = deps.sessions.find(session_id)
    if (
        session is not None
        and session.ended_at is None
        and deps.dag.latest_assembly(session.conversation_id) is not None
    ):
        Orders(deps.db).rotate(Rotation(session_id))


def _emptied(deps: Access, store_id: int, more: int) -> tuple[Stored, Message]:
    """The row as it stays: who spoke, when, and which calls belong together; nothing of what was said. A damaged one, too."""
    head = deps.store.heads_of([store_id])[store_id]
    rows, _ = deps.store.legible([store_id])
    names = {"role": head.role, "tool_call_id": head.tool_call_id, "tool_name": head.tool_name}
    said: dict[str, Any] = dict(rows[0].stored_json) if rows else names
    kept = place_of(said, store_id)
    flags = head.flags & ~(Flag.EXTERNALISED | Flag.COLLECTED | Flag.QUARANTINED | Flag.PRUNED | Flag.LAPSED)
    flags |= Flag.PURGED | Flag.REDACTED | Flag.FILTERED | more
    return head, replace(content.read_message(kept), digest=head.digest, tokens=head.tokens, flags=flags)


def place_of(said: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The empty place that is left of a message."""
    kept = {key: said[key] for key in _KEPT_KEYS if said.get(key) is not None}
    kept["content"] = _GONE.format(number)
    if calls := content.calls_of(said):
        kept["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": "{}"}} for call in calls
        ]
    return kept


# -- summaries -------------------------------------------------------------------------------------------
def _made_again(deps: Access, node_ids: Sequence[int], gone: frozenset[int]) -> dict[int, Node]:
    """The nodes as extracts of what remains; leaves first, for those above are made of them."""
    out: dict[int, Node] = {}
    for node in deps.dag.nodes(node_ids):
        sources = deps.dag.sources(node.node_id)
        facts: dict[str, Any] = {}
        if node.depth:
            below = {each.node_id: each for each in deps.dag.nodes(sources)}
            below |= {i: out[i] for i in sources if i in out}
            lines = tuple(
                _line(below[i], n) for n, i in enumerate(sources, 1) if i in below and not _is_empty(below[i])
            )
        else:
            lines = source_lines(deps.store, [i for i in sources if i not in gone])
            facts = deps.dag.facts_at(node, {n: n for n, i in enumerate(sources) if i not in gone})
        out[node.node_id] = _extract(node, tuple(line for line in lines if line.text), facts)
    return out


def _is_empty(node: Node) -> bool:
    """Was everything under it purged?"""
    return node.rung == PURGED_RUNG and node.quality == "verbatim"


def _line(node: Node, place: int) -> SourceLine:
    return SourceLine(f"part_{place}", "summary", node.text, node.earliest_at, None, node.tokens)


def _extract(node: Node, lines: tuple[SourceLine, ...], facts: Mapping[str, Any]) -> Node:
    """A node made again without a model, and marked so: provisional, which the worker mends; "verbatim" where nothing is left.

    ``facts``: those beside it that what remains states.
    """
    size = sum(line.tokens for line in lines)
    made = digest(
        Source(SummaryTask(node.depth, lines, size, target_tokens(size, node.depth, True))), count=tokens.count
    )
    text = made.text or _GONE.format(node.node_id)
    if node.rung == ARCHIVE_RUNG:  # its first line says that it stands for an archive
        first = node.text.partition("\n")[0]
        size = tokens.count(text) + tokens.count(first)
        return replace(
            node, text=f"{first}\n{text}", tokens=size, checks=json.dumps({**node.facts, "words": PURGED_WORDS})
        )
    hint = made.hint if made.text else ""
    quality = "provisional" if lines else "verbatim"
    return replace(
        node,
        text=text,
        expand_hint=hint,
        tokens=tokens.count(text),
        quality=quality,
        model="",
        rung=PURGED_RUNG,
        checks=json.dumps(facts),
    )


# -- file and proof --------------------------------------------------------------------------------------
def sweep(deps: Access, progress: Progress) -> int:
    """Overwrite what is left in indexes, free pages and log; conversations of which nothing is left go: how many."""
    count = _without_rows(deps)
    reindex(deps, progress)
    with deps.db.secure():
        deps.db.renew(progress)
    return count


def _without_rows(deps: Access) -> int:
    """Remove conversations that were purged as a whole, if nothing rests on them and the host does not know them; how many."""
    needed = {row[0] for row in deps.db.query(_NEEDED)}
    emptied = [row[0] for row in deps.db.query(_EMPTIED) if row[0] not in needed]
    junk = []
    for conversation in emptied:
        names = [each.session_id for each in deps.sessions.of_conversation(conversation)]
        if _known_to_host(deps, names) == []:
            junk.append(conversation)
    if junk:
        clean.remove(deps, [(each, deps.db.query(_SIZE, (each,))[0][0]) for each in junk])
    return len(junk)


def _prove(deps: Access, done: Done, evidence: proof.Evidence, progress: Progress) -> None:
    done.short = evidence.short
    paths = proof.ours(deps.db.path, deps.payloads.folder)
    deps.db.close()
    done.found = proof.search(paths, evidence, progress)
    done.not_ours = proof.search([deps.home / HOST_FILE], evidence, progress)
    if done.found.holding:
        done.still = _still(deps, evidence)


def _still(deps: Access, evidence: proof.Evidence) -> list[str]:
    """Addresses of messages and summaries that say what was purged: they repeat it, or are held."""
    pieces = proof.Pieces(evidence.texts)
    damaged: list[int] = []
    found = [
        f"msg_{row.store_id}"
        for rows in deps.store.row_batches(damaged=damaged)
        for row in rows
        if pieces.in_text(content.encode(row.stored_json)[0])
    ]
    return found + [node.address for nodes in deps.dag.node_batches() for node in nodes if pieces.in_text(node.text)]
