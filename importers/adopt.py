"""
Taking over a database of the earlier hermes-lcm plugin, whole: messages, summaries, payload files.

Where that file lies at our own database's place, everything is built in a file beside it, compared with the original row by row,
and only then does the new file take its place; the original is kept among the backups. Until then nothing of it is changed: an
adoption that was interrupted leaves it, and goes on when it is asked for again. From any other place the rows join the database
that is here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..archive.ranges import Archives
from ..dag import SummaryDag
from ..errors import BadRequest, LcmError, StoreBusy, StoreCorrupt, StoreError, StoreForeign
from ..ingest.filters import build as build_filters
from ..ops import backup
from ..records import Flag, Row
from ..search.index import MessageIndex, NodeIndex, prepare
from ..search.scope import Scopes
from ..session import Sessions
from ..storage import files
from ..storage.connection import Database
from ..storage.files import Progress, silent
from ..storage.foreign import EARLIER, Foreign
from ..storage.meta import Health
from ..storage.payloads import Payloads, folder_of
from ..store import MessageStore
from .earlier import PAYLOAD_FOLDERS, Earlier, OldPayloads
from .host_sessions import known_sessions
from .intake import Batches, Intake, Item, Taken
from .ledger import MESSAGE, NODE, PRESENT, Ledger, Source
from .session_links import SessionLink, by_conversation, chains, open_chain
from .summaries import NodesTaken, take_nodes

if TYPE_CHECKING:
    from ..recall.access import Access

KIND: Final = "earlier hermes-lcm"
KEPT: Final = "hermes-lcm"


@dataclass(frozen=True, slots=True)
class Adoption:
    """An adoption, planned or done. ``in_place``: the file lies where ours belongs."""

    path: Path
    in_place: bool
    version: int | None
    found: Mapping[str, int]
    taken: Taken = field(default_factory=Taken)
    nodes: NodesTaken = field(default_factory=NodesTaken)
    payloads: int = 0
    unused_payloads: int = 0
    missing_payloads: tuple[str, ...] = ()
    kept: Path | None = None
    finished: bool = False
    resumed: bool = False


# -- asking ----------------------------------------------------------------------------------------------
def plan(deps: Access, where: str | None, payloads: str | None, progress: Progress = silent) -> Adoption:
    """Plan of an adoption. Changes nothing, not even a side file."""
    path, in_place = _chosen(deps, where)
    if path is None:
        return _adopted_already(deps)
    with Foreign(path) as source:
        old = _opened(source, payloads)
        found = old.counts()
        target = _workplace(deps.db.path)
        taken = Taken()
        here = Ledger(deps.db).find(_import_id(path)) if not in_place and deps.db.exists else None
        intake = Intake(deps, here, total=found["messages"], keep_copies=True, progress=progress)
        for chain in chains(old.sessions(known_sessions(deps.home))):
            session = None if in_place or not deps.db.exists else deps.sessions.find(chain[0].session_id)
            taken += intake.plan(session, _batches(old, [each.session_id for each in chain]))
        for _ in old.nodes():  # which files they refer to
            pass
        known_nodes = Ledger(deps.db).rows_by_source(here, NODE)
        nodes = NodesTaken(found["nodes"] - len(known_nodes), len(known_nodes))
        return Adoption(
            path, in_place, old.version, found, taken, nodes, **_payload_facts(old), resumed=target.exists()
        )


def adopt(deps: Access, where: str | None, payloads: str | None, progress: Progress = silent) -> Adoption:
    """Do it. Raises StoreError with the original left as it was, wherever it stops."""
    path, in_place = _chosen(deps, where)
    if path is None:
        return _adopted_already(deps)
    if in_place:
        return _in_place(deps, path, payloads, progress)
    kept = backup.back_up(deps, progress).path if deps.db.exists else None
    # Compared with what was said, not with how it reads.
    deps = replace(deps, store=MessageStore(deps.db, deps.index, unfold=deps.payloads.whole))
    return replace(_take_in(deps, path, payloads, progress), kept=kept)


def _chosen(deps: Access, where: str | None) -> tuple[Path | None, bool]:
    if not deps.trusted:
        raise BadRequest("databases are adopted at the terminal: hermes lcm adopt")
    mine = deps.db.path
    if where is None:
        return (mine, True) if _is_foreign(deps) else (None, True)
    path = Path(where).expanduser()
    if path.is_dir():
        path = path / "lcm.db"
    if not path.is_file():
        raise BadRequest(f"{path}: there is no such file")
    if mine.exists() and path.samefile(mine):
        return (mine, True) if _is_foreign(deps) else (None, True)
    return path.resolve(), False


def _is_foreign(deps: Access) -> bool:
    """Does another program's database lie where ours belongs?"""
    if not deps.db.exists:
        return False
    try:
        deps.db.open()
    except StoreForeign:
        return True
    return False


def _adopted_already(deps: Access) -> Adoption:
    """Answer where no file of another plugin is at our place: it was adopted before, or never there."""
    if deps.db.exists:
        for source in Ledger(deps.db).sources():
            if source.kind == KIND and source.finished_at:
                kept = Path(str(source.about.get("kept") or "")) if source.about.get("kept") else None
                found = {name: int(source.about.get(name) or 0) for name in ("messages", "sessions", "nodes")}
                taken = Taken(found["messages"], 0, found["messages"])
                nodes = NodesTaken(0, found["nodes"])
                return Adoption(
                    deps.db.path, True, source.about.get("version"), found, taken, nodes, kept=kept, finished=True
                )
    what = "is not a database of the earlier hermes-lcm plugin" if deps.db.path.exists() else "does not exist"
    raise BadRequest(f"{deps.db.path} {what}; name a database of that plugin: hermes lcm adopt <file>")


def _opened(source: Foreign, payloads: str | None) -> Earlier:
    if source.kind.name != EARLIER:
        raise BadRequest(f"{source.path} is not a database of the earlier hermes-lcm plugin (it is {source.kind.name})")
    named = [Path(payloads).expanduser()] if payloads else []
    if named and not named[0].is_dir():
        raise BadRequest(f"{named[0]}: there is no such folder")
    beside = [source.path.parent / name for name in PAYLOAD_FOLDERS]
    return Earlier(source, OldPayloads(tuple(path for path in [*named, *beside] if path.is_dir())))


def _batches(old: Earlier, sessions: Sequence[str]) -> Batches:
    return lambda: old.messages(sessions)


def _payload_facts(old: Earlier) -> dict[str, Any]:
    there = set(old.payloads.files())
    return {
        "payloads": len(old.payloads.used),
        "unused_payloads": len(there - set(old.payloads.used)),
        "missing_payloads": tuple(sorted(old.payloads.missing)),
    }


def _import_id(path: Path) -> str:
    return f"earlier:{path.resolve()}"


# -- doing -----------------------------------------------------------------------------------------------
def _take_in(
    deps: Access, path: Path, payloads: str | None, progress: Progress, about: Mapping[str, Any] | None = None
) -> Adoption:
    """Import the whole file into the database of ``deps``, and prove that it is there."""
    with Foreign(path) as opened:
        old = _opened(opened, payloads)
        found = old.counts()
        ledger = Ledger(deps.db)
        facts = {"path": str(path), "version": old.version, **found, **(about or {})}
        source = ledger.begin(_import_id(path), KIND, facts, now=deps.clock())
        intake = Intake(deps, source, total=found["messages"], keep_copies=True, progress=progress)
        resumed = bool(intake.known)
        taken = Taken()
        conversations = chains(old.sessions(known_sessions(deps.home)))
        for chain in conversations:
            for sessions in by_conversation(open_chain(deps, chain)):
                taken += intake.store_new(sessions, _batches(old, list(sessions)))
        nodes = take_nodes(deps, source, old.nodes(), progress)
        _compare(deps, source, old, conversations, progress)
        ledger.finish(source, facts, now=deps.clock())
        return Adoption(
            path, False, old.version, found, taken, nodes, **_payload_facts(old), finished=True, resumed=resumed
        )


def _compare(
    deps: Access, source: Source, old: Earlier, conversations: Sequence[Sequence[SessionLink]], progress: Progress
) -> None:
    """Every row of the original is here and says the same. Raises StoreCorrupt with the first that does not."""
    ledger = Ledger(deps.db)
    known, present, done = ledger.rows_by_source(source, MESSAGE), ledger.rows_by_source(source, PRESENT), 0
    for chain in conversations:
        for batch in old.messages([each.session_id for each in chain]):
            ids = [known.get(item.key, 0) for item in batch]
            rows = {row.store_id: row for row in deps.store.rows(ids)}
            for item, store_id in zip(batch, ids, strict=True):
                if item.key not in present and not _same(rows.get(store_id), item):
                    raise StoreCorrupt(
                        f"row {item.key} of {source.about['path']} did not arrive as it is; nothing was replaced"
                    )
            done += len(batch)
            progress("comparing", done, 0)
    nodes = ledger.rows_by_source(source, NODE)
    lost = [item.key for item in old.nodes() if item.key not in nodes]
    if lost:
        raise StoreCorrupt(f"{len(lost)} summaries did not arrive, the first is sum_{lost[0]}; nothing was replaced")


def _same(row: Row | None, item: Item) -> bool:
    """Is a row here what the original is? Secrets that the filters took out cannot be compared."""
    return row is not None and (bool(row.head.flags & Flag.REDACTED) or row.stored_json == item.message)


# -- at our own place ------------------------------------------------------------------------------------
def _workplace(path: Path) -> Path:
    return path.with_name(f".{path.name}.adopting")


def _in_place(deps: Access, path: Path, payloads: str | None, progress: Progress) -> Adoption:
    files.refuse_shared(path)
    _refuse_damaged(path, progress)
    db = Database(_workplace(path))
    try:
        done = _beside(parts_on(deps, db), path, payloads, progress)
    finally:
        db.close()
    progress("checking the new file", 0, 0)
    _replace_by(deps.db, db.path, done)
    return done


def is_earlier(path: Path) -> bool:
    """Is this a database of the earlier plugin?"""
    try:
        with Foreign(path) as found:
            return found.kind.name == EARLIER
    except LcmError:
        return False


def adopt_beside(deps: Access, progress: Progress = silent) -> Adoption:
    """Take the file at our place into the stand-in that ``deps`` work on, and prove that everything is there."""
    _refuse_damaged(deps.db.path, progress)
    return _beside(deps, deps.db.path, None, progress)


def exchange(deps: Access, done: Adoption) -> None:
    """Let the stand-in take the place of the file that was adopted into it; that one is kept. Raises StoreError."""
    work = deps.db.file
    deps.db.close()
    _replace_by(deps.db, work, done)
    deps.db.use(deps.db.path)


def _refuse_damaged(path: Path, progress: Progress) -> None:
    progress("checking the original", 0, 0)
    if problems := files.quick_check(path, progress):
        raise StoreCorrupt(
            f"{path} is damaged ({problems[0]}); save what can be saved of it first, then adopt the copy"
        )


def _beside(deps: Access, path: Path, payloads: str | None, progress: Progress) -> Adoption:
    """Take the file at our place into the database of ``deps``, which is to take its place."""
    kept = backup.stamped(path, deps.clock(), KEPT)
    return replace(_take_in(deps, path, payloads, progress, {"kept": str(kept)}), in_place=True, kept=kept)


def _replace_by(db: Database, work: Path, done: Adoption) -> None:
    """Let the new file take the original's place, if it is sound and nobody has written into the original since."""
    assert done.kept is not None
    with Foreign(done.path) as opened:
        if _opened(opened, None).counts() != done.found:
            raise StoreBusy(f"{done.path} has changed since it was read; end what writes into it and adopt again")
    files.seal(work)
    faults = files.faults(work)
    if faults or files.counts(work)["messages"] < done.found["messages"]:
        raise StoreCorrupt(f"{work} is not sound, so nothing was replaced: {'; '.join(faults[:3])}")
    try:
        done.kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        files.exchange(db, work, done.kept)
    except OSError as exc:
        raise StoreError(f"{work}: {exc.strerror or exc}") from exc


def parts_on(deps: Access, db: Database, *, ready: bool = True) -> Access:
    """An access to another database file, with the payload folder that it will have. ``ready``: with its indexes."""
    if ready:
        prepare(db)
    health = Health(db)
    index, nodes = MessageIndex(db), NodeIndex(db)
    payloads = Payloads(db, folder_of(deps.db.path), health)
    filters = build_filters(deps.config, payloads, health)
    return replace(
        deps, db=db, store=MessageStore(db, index, unfold=payloads.whole), dag=SummaryDag(db, nodes, filters.text),
        sessions=Sessions(db, filters.text, filters.identity), scopes=Scopes(db), index=index, node_index=nodes,
        archives=Archives(db, filters.text), health=health, payloads=payloads, filters=filters,
    )  # fmt: skip
