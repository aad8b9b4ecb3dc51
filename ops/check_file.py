"""
Checks of the doctor about the database as a file.
"""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

from ..db import files, migrations
from ..errors import StoreCorrupt, StoreError, StoreReadOnly
from .backup import backups as existing_backups
from .findings import Finding, fail, ok, warn
from .inside import inside
from .render import disk_said, size
from .status import OpsDeps, database_state, disk, exists
from .survey import Survey

_LOW_BYTES, _EMPTY_BYTES = 500_000_000, 50_000_000
_LARGE_LOG_BYTES = 256_000_000
#: Up to this size SQLite checks the whole file in a fraction of a second.
_QUICK_BYTES = 64_000_000
_OLD_BACKUP_S = 14 * 86_400.0


def database(deps: OpsDeps, _deep: bool) -> Finding:
    """Is there a file, and does it answer?"""
    state = database_state(deps)
    if state["state"] == "empty":
        return ok(f"{deps.db.path}: nothing stored yet", path=str(deps.db.path))
    if state["state"] == "ready":
        return _writable(deps.db.path)
    command = "/lcm doctor repair" if state["error"].startswith(StoreCorrupt.__name__) else ""
    return fail(
        state["error"],
        meaning="nothing new is stored and nothing is found until this is solved; the host goes on with its own messages",
        remedy=state["remedy"],
        command=command,
        path=str(deps.db.path),
        **_header(deps),
    )


def _writable(path: Path) -> Finding:
    """Another account's file can be read while its owner has it open, and nothing is stored by this one."""
    shut = [str(each) for each in (path, path.parent) if not os.access(each, os.W_OK)]
    if not shut:
        return ok(str(path), path=str(path))
    return warn(
        f"this account may not write {' nor '.join(shut)}",
        meaning="what is stored can be read here; an agent of this account stores nothing new",
        remedy=f"run Hermes as the account that owns it, or {StoreReadOnly.remedy}",
        path=str(path),
    )


def _header(deps: OpsDeps) -> dict[str, object]:
    """What the first bytes of a refused file say."""
    if deps.db.is_open:
        return {}
    try:
        head = files.header(deps.db.path)
    except StoreError:
        return {}
    known = {"schema": head.schema, "known_schema": migrations.VERSION, "ours": head.ours}
    return {"sqlite": head.sqlite, "bytes": head.bytes, **(known if head.sqlite else {})}


def modes(deps: OpsDeps, _deep: bool) -> Finding:
    """Can anybody else on this machine read the conversations?"""
    path = deps.db.path
    seen = [each for each in (path, path.with_name(path.name + "-wal"), *existing_backups(path)) if each.exists()]
    wide = [each for each in seen if stat.S_IMODE(each.stat().st_mode) & 0o077]
    if not wide:
        return ok("readable by their owner only" if seen else "no file yet")
    return warn(
        f"{len(wide)} of {len(seen)} files can be read by other users: {wide[0]}",
        meaning="other accounts on this machine can read the conversations",
        remedy="take the rights of the others away",
        command="chmod 600 " + " ".join(f"'{each}'" for each in wide[:5]),
    )


def space(deps: OpsDeps, _deep: bool) -> Finding:
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


def schema(deps: OpsDeps, _deep: bool) -> Finding:
    """Are all tables there?"""
    version = Survey(deps.db).pragma("user_version")
    missing = Survey(deps.db).lost_tables()
    if not missing:
        return ok(f"version {version}", version=version)
    return fail(
        f"tables are missing: {', '.join(missing)}",
        meaning="the file is damaged or was changed by another program",
        remedy="salvage what is readable into a new file, or restore a backup",
        command="/lcm doctor repair",
        missing=missing,
    )


def journal(deps: OpsDeps, _deep: bool) -> Finding:
    """Can readers and a writer work at the same time?"""
    mode = str(Survey(deps.db).pragma("journal_mode"))
    if mode.lower() == "wal":
        return ok("wal", mode=mode)
    return warn(
        f"journal_mode is {mode}, not wal",
        meaning="the file system does not support write-ahead logging; a reader and a writer wait for each other",
        remedy="put the database on a local disk (LCM_DATABASE_PATH)",
        mode=mode,
    )


def integrity(deps: OpsDeps, deep: bool) -> Finding:
    """Is the content readable? Deep: does SQLite find the whole file sound?"""
    if deep:
        found = damages(deps)
        if not found:
            return ok("quick_check: ok; every message is readable", quick_check="ok")
        return _damaged(found[0] + (f" and {len(found) - 1} more" if len(found) > 1 else ""))
    if not deps.store.newest(None, before=1 << 62, limit=1):
        return ok("nothing to read yet")
    if disk(deps)["database"] > _QUICK_BYTES:
        return ok("the newest message is readable; `doctor deep` checks all of the file", quick_check="not asked")
    found = files.quick_check(deps.db.path)
    if found:
        return _damaged(found[0] + (f" and {len(found) - 1} more" if len(found) > 1 else ""))
    return ok("quick_check: ok; `doctor deep` also reads every message", quick_check="ok")


def damages(deps: OpsDeps, progress: files.Progress = files.silent) -> tuple[str, ...]:
    """What is wrong with the file, by SQLite's own check and by reading every message."""
    found = files.quick_check(deps.db.path)
    return found or tuple(f"msg_{store_id} holds garbage" for store_id in Survey(deps.db).unreadable(progress))


def _damaged(said: str) -> Finding:
    return fail(
        said,
        meaning="the file is damaged; some of it may be unreadable",
        remedy="look at what can be saved; apply keeps the damaged file",
        command="/lcm doctor repair",
    )


def sizes(deps: OpsDeps, deep: bool) -> Finding:
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


def backups(deps: OpsDeps, _deep: bool) -> Finding:
    """Is there a recent copy?"""
    if not exists(deps):
        return ok("nothing to back up yet")
    found = existing_backups(deps.db.path)
    if not found:
        return ok("none yet; `/lcm backup` makes one", count=0)
    newest: Path = found[-1]
    age = deps.clock() - newest.stat().st_mtime
    said = (
        f"{len(found)}, newest of {datetime.fromtimestamp(newest.stat().st_mtime, UTC):%Y-%m-%d %H:%MZ}: {newest.name}"
    )
    note = " (older than two weeks; `/lcm backup` makes a new one)" if age > _OLD_BACKUP_S else ""
    return ok(said + note, count=len(found), newest=str(newest))
