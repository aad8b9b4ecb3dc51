"""
Checks of the doctor about the database as a file, and the files beside it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from ...errors import StoreCorrupt, StoreError, StoreForeign, StoreReadOnly
from ...recall.access import Access
from ...storage import files, seals
from ...storage import schema as migrations
from ...storage.disk import shut
from ...storage.standby import stand_ins
from .. import backup
from ..findings import Finding, fail, ok, warn
from ..render import counted, disk_said, few, size
from ..status import database_state, disk
from ..survey import Survey, damages, inside

_LOW_BYTES, _EMPTY_BYTES = 500_000_000, 50_000_000
_LARGE_LOG_BYTES = 256_000_000
#: Up to this size SQLite checks the whole file in a fraction of a second.
QUICK_BYTES = 64_000_000
_SAMPLED: Final = (
    "the worker compares stored rows with their checksums, some at a time; `doctor deep` compares all of them"
)
_COUNTED: Final = f"there are as many rows as were written; {_SAMPLED}"
_NO_DATABASE = "file is not a database"  # SQLite's words for other files, and for ours without its first bytes
_OLD_BACKUP_S = 14 * 86_400.0


def database(deps: Access, _deep: bool) -> Finding:
    """Is there a file, and does it answer?"""
    state = database_state(deps)
    if state["state"] == "empty":
        return _nothing(deps)
    if state["state"] == "ready":
        return _writable(deps)
    if state["state"] == "earlier":
        return warn(
            state["note"],
            meaning="its messages are not found yet, and new ones are stored beside it until they are taken over",
            remedy=state["remedy"],
            command="/lcm adopt apply",
            path=str(deps.db.path),
        )
    if state["kind"] == StoreCorrupt.__name__ and not files.holds_messages(deps.db.path):
        return _hopeless(deps, state["error"])
    command = "/lcm doctor repair" if "`/lcm doctor repair`" in state["remedy"] else ""
    return fail(
        state["error"],
        meaning=f"nothing is found in it until this is solved; {_meanwhile(deps.db.path)}",
        remedy=f"run `/lcm doctor repair`; otherwise {backup.way_back(deps)}" if command else state["remedy"],
        command=command,
        path=str(deps.db.path),
        **_header(deps),
    )


def _meanwhile(path: Path) -> str:
    """Words about new messages while the database cannot be used."""
    made = [each.name for each in stand_ins(path)]
    return f"new messages are kept in {' and '.join(made) or 'a file beside it'} until then"


def _hopeless(deps: Access, said: str) -> Finding:
    """A file in which no message can be read: no repair helps."""
    best = backup.best_backup(deps)
    return fail(
        f"{said}; no message can be read in it",
        meaning=f"a repair finds nothing to save; {_meanwhile(deps.db.path)}",
        remedy=backup.way_on(deps),
        command=f"/lcm restore {best.path.name} apply" if best is not None and best.sound else "",
        path=str(deps.db.path),
        **_header(deps),
    )


def _nothing(deps: Access) -> Finding:
    """An archive that was never begun, or one that is gone."""
    path, is_file = str(deps.db.path), deps.db.path.exists()
    best, around = backup.best_backup(deps), backup.traces_around(deps)
    if not around:
        return ok(f"{path}: nothing stored yet ({'an empty file' if is_file else 'no file'})", path=path)
    lost = "what was stored is not here; nothing was made or changed by looking"
    if not deps.reads_all:
        return fail(backup.gone(deps, around), meaning=lost, remedy=backup.ASK_OPERATOR)
    sound = best is not None and best.sound
    command = f"/lcm restore {best.path.name} apply" if best is not None and sound else ""
    command = "/lcm import host apply" if best is None and "sessions" in around else command
    return fail(
        backup.gone(deps, around),
        meaning=lost,
        remedy="put the best backup back"
        if sound
        else backup.way_back(deps)
        if best is not None
        else "put the file back from where it was moved to, or take in what the host still has of its conversations",
        command=command,
        path=path,
    )


def _writable(deps: Access) -> Finding:
    """Another account's file can be read while its owner has it open, and nothing is stored by this one."""
    path = deps.db.path
    mounted = shut(path.parent)
    if said := mounted or deps.db.only_read:
        return fail(
            f"{path}: {said}",
            meaning="what is stored can be read; nothing new is stored in the file",
            remedy="mount the file system for writing, or let LCM_DATABASE_PATH name a file elsewhere"
            if mounted
            else deps.db.way_to_write,
            path=str(path),
        )
    closed = [str(each) for each in (path, path.parent) if not os.access(each, os.W_OK)]
    if not closed:
        return ok(str(path), path=str(path))
    return warn(
        f"this account may not write {' nor '.join(closed)}",
        meaning="what is stored can be read here; an agent of this account stores nothing new",
        remedy=f"run Hermes as the account that owns it, or {StoreReadOnly.remedy}",
        path=str(path),
    )


def _header(deps: Access) -> dict[str, object]:
    """A finding from the first bytes of a refused file."""
    if deps.db.is_open:
        return {}
    try:
        head = files.header(deps.db.path)
    except StoreError:
        return {}
    known = {"schema": head.schema, "known_schema": migrations.VERSION, "ours": head.ours}
    return {"sqlite": head.sqlite, "bytes": head.bytes, **(known if head.sqlite else {})}


def modes(deps: Access, _deep: bool) -> Finding:
    """Can anybody else on this machine read the conversations?"""
    path = deps.db.path
    ours = () if _of_others(deps) else (path, path.with_name(path.name + "-wal"))
    seen = [each for each in (*ours, *(each.path for each in backup.all_backups(path))) if each.exists()]
    wide = [each for each in seen if stat.S_IMODE(each.stat().st_mode) & 0o077]
    if not wide:
        return ok("readable by their owner only" if seen else "no file yet")
    said = f"{len(wide)} of {len(seen)} files can be read by other users: {wide[0]}"
    meaning = "other accounts on this machine can read the conversations"
    if not all(map(_may_change, wide)):
        return warn(said, meaning=meaning, remedy="ask the account that owns them whether you are meant to read them")
    return warn(
        said,
        meaning=meaning,
        remedy="take the rights of the others away",
        command="chmod 600 " + " ".join(f"'{each}'" for each in wide[:5]),
    )


def _may_change(path: Path) -> bool:
    """May this account change the rights of a file?"""
    return not hasattr(os, "geteuid") or os.geteuid() in (0, path.stat().st_uid)


def _of_others(deps: Access) -> bool:
    """Is there something in the place of the database whose rights are not ours to change?"""
    try:
        state = database_state(deps)
        foreign = (
            state["state"] == "earlier"
            or state.get("kind") == StoreForeign.__name__
            or _NO_DATABASE in str(state.get("error", ""))
        )
        return foreign or not deps.db.path.is_file()
    except OSError:
        return True


def space(deps: Access, _deep: bool) -> Finding:
    """Is there room to go on?"""
    sizes_ = disk(deps)
    free, needed = sizes_["free"], max(_LOW_BYTES, sizes_["database"])
    if free is None or free >= needed:
        return ok(f"{size(free)} free", free=free)
    said = f"{size(free)} free where the database ({size(sizes_['database'])}) is"
    if free < _EMPTY_BYTES:
        return fail(said, meaning="messages will soon not be stored", remedy="free disk space", free=free)
    return warn(
        said, meaning="a backup or a repair may not fit", remedy="free disk space, or move old backups away", free=free
    )


def schema(deps: Access, _deep: bool) -> Finding:
    """Are all tables there?"""
    version = Survey(deps.db).pragma("user_version")
    missing = Survey(deps.db).lost_tables()
    if not missing:
        return ok(f"version {version}", version=version)
    return fail(
        f"a part of the database file is gone: {migrations.lacked(missing)}",
        meaning="the file is damaged or was changed by another program",
        remedy="save what is readable into a new file, or restore a backup",
        command="/lcm doctor repair",
        missing=missing,
    )


def journal(deps: Access, _deep: bool) -> Finding:
    """Can readers and a writer work at the same time?"""
    mode = str(Survey(deps.db).pragma("journal_mode"))
    if deps.db.only_read:
        return ok(f"not asked: {deps.db.only_read}")
    if mode.lower() == "wal":
        return ok("wal", mode=mode)
    return warn(
        f"journal_mode is {mode}, not wal",
        meaning="the file system does not support write-ahead logging; a reader and a writer wait for each other",
        remedy="put the database on a local disk (LCM_DATABASE_PATH)",
        mode=mode,
    )


def integrity(deps: Access, deep: bool) -> Finding:
    """Is the content readable? Deep: does SQLite find the whole file sound?"""
    if deep:
        found = damages(deps.db, deps.progress)
        return _damaged(found) if found else ok("quick_check: ok; every message is readable", quick_check="ok")
    if not deps.store.newest(None, before=1 << 62, limit=1):
        return ok("nothing to read yet")
    large = disk(deps)["database"] > QUICK_BYTES
    if not large and (found := files.quick_check(deps.db.path)):
        return _damaged(found)
    if lost := Survey(deps.db).unreadable_lately(large=large):
        return _damaged([f"msg_{each} holds garbage" for each in lost])
    if large:
        return ok("the newest messages are readable; `doctor deep` checks all of the file", quick_check="not asked")
    return ok("quick_check: ok; `doctor deep` also reads every message", quick_check="ok")


def _damaged(found: Sequence[str]) -> Finding:
    return fail(
        few(found, 1),
        meaning="the file is damaged; some of it may be unreadable",
        remedy="look at what can be saved; apply keeps the damaged file",
        command="/lcm doctor repair",
    )


def altered(deps: Access, deep: bool) -> Finding:
    """Is everything that is shown what was written? Not deep: of a small file, are there as many rows?"""
    large = disk(deps)["database"] > QUICK_BYTES
    if deep:
        found = seals.broken(deps.db, progress=partial(deps.progress, "comparing with seals"))
    else:
        found = [] if large else seals.miscounted(deps.db)
    if not found:
        return ok("all rows are as they were written" if deep else _SAMPLED if large else _COUNTED)
    return fail(
        few(found, 5, "; "),
        meaning="rows were written, changed or removed by something that is not this release of the plugin (an older one counts "
        "none of what it writes), or by a fault of the disk",
        remedy=f"{backup.way_back(deps)}; or accept what is there: `/lcm doctor accept`",
        command=backup.command_for_a_loss(deps),
        altered=found,
    )


def sizes(deps: Access, deep: bool) -> Finding:
    """How much there is of what, and does the write-ahead log get folded back?"""
    kinds = disk(deps)
    said = disk_said(kinds)
    if deep and (parts := inside(deps.db)):
        kinds["inside_database"] = parts
        said += f"; inside the database: {disk_said(parts)}"
    log = kinds["write_ahead_log"]
    if log > _LARGE_LOG_BYTES:
        return warn(
            f"the write-ahead log has {size(log)}",
            meaning="some process keeps an old reading position open, so the log cannot be folded back into the file",
            remedy="restart long-running Hermes processes",
            **kinds,
        )
    if closed := kinds.get("not_readable"):
        return warn(
            f"cannot be looked into: {', '.join(closed.values())}",
            meaning="how much lies there is not counted, and what is written there may fail",
            remedy="make it a folder that the account Hermes runs as may read and write",
            **kinds,
        )
    return ok(said, **kinds)


def backups(deps: Access, _deep: bool) -> Finding:
    """Is there a recent copy, and is none of an archive that was larger?"""
    if not deps.db.exists:
        return ok("nothing to back up yet")
    everything, known = backup.all_backups(deps.db.path), backup.backups(deps)
    if lost := _larger(deps, everything):
        return fail(
            f"{deps.db.path.name} holds fewer messages than {lost}",
            meaning="the file was lost or replaced, and a new one was begun",
            remedy="put that backup back (what is newer here stays in the file that is kept), or accept what is here: "
            "`/lcm doctor accept`",
            command=f"/lcm restore {lost.path.name}",
        )
    if not known:
        return ok("none yet; `/lcm backup` makes one", count=0)
    newest = known[-1]
    age = deps.clock() - newest.made_at
    note = " (older than two weeks; `/lcm backup` makes a new one)" if age > _OLD_BACKUP_S else ""
    return ok(f"{len(known)}, newest: {newest}{note}", count=len(known), newest=str(newest.path))


def _larger(deps: Access, known: Sequence[backup.Backup]) -> backup.Backup | None:
    """The largest backup under this database's name that holds what this file has never held."""
    try:
        mine, given = files.facts_of(deps.db), Survey(deps.db).given("messages")
    except StoreError:
        return None  # another check says why
    lost = [each for each in known if each.of == deps.db.path.stem and each.facts is not None and each.sound
            and each.messages > mine.messages and not (mine.is_of(each.facts) and each.facts.newest <= given)]  # fmt: skip
    return max(lost, key=lambda each: each.messages, default=None)


_NAMED = 20


def payload_files(deps: Access, deep: bool) -> Finding:
    """Is every file that a message shows there (``deep``: and what was written), and every file shown by a message?"""
    found = deps.payloads.survey(deep=deep, spare=backup.named_payloads(deps.db.path))
    data: dict[str, Any] = {
        "files": found.files,
        "bytes": found.bytes,
        "unreferenced": len(found.orphans),
        "kept_for_backups": found.spared,
        "missing": [f"file_{sha[:16]}" for sha in found.missing],
        "damaged": [f"file_{sha[:16]}" for sha in found.damaged],
    }
    if found.missing or found.damaged:
        told = [
            f"{counted(len(data[kind]), 'payload file')} {kind}: {few(data[kind], _NAMED)}"
            for kind in ("missing", "damaged")
            if data[kind]
        ]
        held = backup.archive_with(deps, (*found.missing, *found.damaged))
        return fail(
            "; ".join(told),
            meaning="the messages that show them cannot be read back completely",
            remedy=(
                f"{held.path.name} holds them: put it back (without apply it says which messages are newer)"
                if held is not None
                else f"put what is missing back into {deps.payloads.folder} from a backup of that folder; or accept the loss: "
                "`/lcm doctor accept`"
            ),
            command="/lcm doctor accept" if held is None else f"/lcm restore {held.path.name}",
            **data,
        )
    if found.orphans:
        return warn(
            f"{counted(len(found.orphans), 'payload file')} of {found.files} without a message",
            meaning="a crash or a deleted session left them behind; they only take room",
            remedy="remove them",
            command="/lcm doctor repair apply",
            **data,
        )
    shown = f"{found.spared} kept for backups, every other one" if found.spared else "every one"
    return ok(f"{counted(found.files, 'file')}, {size(found.bytes)}; {shown} is shown by a message", **data)
