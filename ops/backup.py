"""
Copies of the database: making, checking, keeping the newest, putting one back.

A backup is one self-contained file beside the database, made by SQLite's backup API while writers go on, checked before it
counts, and readable by its owner only. Files with large outputs stay where they are; the backup's manifest names them with
their digests.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..db import files
from ..db.files import Progress, silent
from ..db.upgrade import BACKUPS
from ..errors import BadRequest, NotFound, StoreCorrupt, StoreError, StoreTooNew, StoreTooOld

if TYPE_CHECKING:
    from .status import OpsDeps

KEEP = 10
_NAME = re.compile(r"lcm-\d{8}-\d{6}(?:-\d+)?\.sqlite3")
_MANIFEST = ".payloads.json"


@dataclass(frozen=True, slots=True)
class Made:
    """A backup that was made and checked. ``dropped``: older ones that gave way.

    ``payloads``: files that the manifest names; ``missing``: files that messages show and that are not there.
    """

    path: Path
    bytes: int
    counts: Mapping[str, int]
    dropped: tuple[Path, ...] = ()
    payloads: int = 0
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Restore:
    """What putting a backup back means. ``newer``: messages that are stored now and not in it (None: cannot be told)."""

    source: Path
    counts: Mapping[str, int]
    now: Mapping[str, int]
    newer: int | None
    missing_payloads: tuple[str, ...] = ()
    kept: Path | None = None


# -- where they are --------------------------------------------------------------------------------------
def backup_folder(database: Path) -> Path:
    """Where the backups of a database are."""
    return database.parent / BACKUPS


def rotate_path(database: Path) -> Path:
    """The one backup that a rotation overwrites."""
    return backup_folder(database) / f"{database.stem}-rotate-latest.sqlite3"


def backups(database: Path) -> list[Path]:
    """The timestamped backups of a database, oldest first. Raises StoreError for a folder that cannot be looked into."""
    folder = backup_folder(database)
    try:
        return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    except OSError as exc:
        if isinstance(exc, FileNotFoundError | NotADirectoryError) and not folder.exists():
            return []
        closed = StoreError(f"{folder}: {exc.strerror or exc}; which backups there are cannot be told")
        closed.remedy = f"make {folder} a folder that the account Hermes runs as may read"
        raise closed from exc


def stamped(database: Path, now: float, word: str = "lcm") -> Path:
    """A file name in the backup folder that nobody has taken yet."""
    folder = backup_folder(database)
    stem = f"{word}-{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}"
    path, n = folder / f"{stem}.sqlite3", 2
    while path.exists():
        path, n = folder / f"{stem}-{n}.sqlite3", n + 1
    return path


# -- making ----------------------------------------------------------------------------------------------
def back_up(deps: OpsDeps, progress: Progress = silent) -> Made:
    """A new backup with a name of its own; the oldest ones beyond the newest ten go."""
    made = _copied(deps, stamped(deps.db.path, deps.clock()), progress)
    old = backups(deps.db.path)[:-KEEP]
    for path in old:
        path.unlink(missing_ok=True)
        _manifest_of(path).unlink(missing_ok=True)
    return replace(made, dropped=tuple(old))


def roll(deps: OpsDeps, progress: Progress = silent) -> Made:
    """The backup that belongs to rotations: the same file each time, replaced as a whole."""
    return _copied(deps, rotate_path(deps.db.path), progress)


def _copied(deps: OpsDeps, target: Path, progress: Progress) -> Made:
    database = deps.db.path
    if not database.exists() or database.stat().st_size == 0:
        raise BadRequest(f"{database}: nothing is stored yet, so there is nothing to back up")
    deps.db.open()  # refuses a file of a newer release or of another program
    before = deps.db.query("SELECT coalesce(max(store_id), 0) FROM messages")[0][0]
    partial = target.with_name(f".{target.name}.partial")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        progress("copying", 0, 0)
        deps.db.backup(partial)
        files.seal(partial)
        progress("checking", 0, 0)
        verdict = files.verify(partial)
        if not verdict.sound or verdict.newest < before:
            why = "; ".join(verdict.problems[:3]) or "it lacks messages that were stored before it began"
            raise StoreCorrupt(f"the copy is not sound, so it was not kept: {why}")
        partial.replace(target)
    except OSError as exc:
        raise StoreError(f"{target}: {exc.strerror or exc}") from exc
    finally:
        with suppress(OSError):  # why it was not written is what matters
            partial.unlink(missing_ok=True)
    payloads = _write_manifest(deps, target)
    missing = deps.payloads.survey().missing if deps.payloads is not None else ()
    return Made(target, target.stat().st_size, verdict.counts, payloads=payloads, missing=missing)


# -- payload files ---------------------------------------------------------------------------------------
def _manifest_of(backup: Path) -> Path:
    return backup.with_name(backup.name + _MANIFEST)


def _write_manifest(deps: OpsDeps, backup: Path) -> int:
    found = _payload_digests(deps.payload_dir)
    if found:
        _manifest_of(backup).write_text(json.dumps(found, indent=1, sort_keys=True), encoding="utf-8")
        _manifest_of(backup).chmod(0o600)
    return len(found)


def _payload_digests(folder: Path | None) -> dict[str, str]:
    """Every finished payload file. One that a running agent is writing belongs to no message of the copy yet."""
    if folder is None or not folder.is_dir():
        return {}
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    digests = ((path.relative_to(folder).as_posix(), _digest(path)) for path in paths)
    return {name: digest for name, digest in digests if digest is not None}


def _digest(path: Path) -> str | None:
    """None: another process has just removed it."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _missing_payloads(deps: OpsDeps, backup: Path) -> tuple[str, ...]:
    """Files the backup's manifest names that are gone or not what they were."""
    try:
        named: dict[str, Any] = json.loads(_manifest_of(backup).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()
    present = _payload_digests(deps.payload_dir)
    return tuple(name for name, digest in named.items() if present.get(name) != digest)


# -- putting one back ------------------------------------------------------------------------------------
def way_back(database: Path) -> str:
    """What to do about a database that cannot be saved."""
    try:
        known = backups(database)
    except StoreError as exc:
        return str(exc)
    if known:
        return f"restore a backup, the newest is {known[-1].name}: `/lcm restore latest`"
    return f"there is no backup in {backup_folder(database)}; one from elsewhere is put back by `/lcm restore PATH`"


def chosen(database: Path, name: str) -> Path:
    """The backup that an operator means: a path, a file name in the folder, or ``latest``."""
    if name == "latest":
        if known := backups(database):
            return known[-1]
        raise NotFound(f"there is no backup in {backup_folder(database)}; `/lcm backup` makes one")
    for path in (Path(name).expanduser(), backup_folder(database) / name):
        if os.path.isfile(path):  # Path.is_file raises where a folder is closed
            return path
    known = backups(database)
    have = ", ".join(path.name for path in known[:-6:-1]) or "none"
    raise NotFound(f"no backup {name!r}; the newest in {backup_folder(database)}, newest first: {have}")


def plan_restore(deps: OpsDeps, name: str) -> Restore:
    """What is in a backup and what would be gone after putting it back. Changes nothing."""
    source = chosen(deps.db.path, name)
    if source.exists() and deps.db.path.exists() and source.samefile(deps.db.path):
        raise BadRequest(f"{source} is the database itself")
    verdict = files.verify(source)
    if not verdict.sound:
        damaged = StoreCorrupt(f"{source} is no sound backup: {'; '.join(verdict.problems[:3])}")
        damaged.remedy = "name another backup: `/lcm restore` lists them; nothing was changed"
        raise damaged
    head = files.header(source)
    if head.too_new:
        raise StoreTooNew(f"{source} was written by a newer release")
    if head.too_old:
        raise StoreTooOld(f"{source} has schema {head.schema} of an early development version")
    now, newest = _now(deps)
    newer = None if newest is None else max(0, newest - verdict.newest)
    return Restore(source, verdict.counts, now, newer, _missing_payloads(deps, source))


def _now(deps: OpsDeps) -> tuple[dict[str, int], int | None]:
    if not deps.db.path.exists():
        return {}, 0
    try:
        row = deps.db.query("SELECT count(*), coalesce(max(store_id), 0) FROM messages")[0]
    except StoreError:
        return {}, None
    return {"messages": int(row[0])}, int(row[1])


def restore(deps: OpsDeps, name: str, progress: Progress = silent) -> Restore:
    """Put a backup back. What was there is kept under a name of its own; nothing else may have the database open."""
    plan = plan_restore(deps, name)
    database = deps.db.path
    fresh = database.with_name(f".{database.name}.restored")
    kept = stamped(database, deps.clock(), "lcm-before-restore")
    try:
        progress("copying", 0, 0)
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(plan.source, fresh)
        fresh.chmod(0o600)
        files.upgraded(fresh, beside=(plan.source, database))
        files.exchange(deps.db, fresh, kept)
    except OSError as exc:
        raise StoreError(f"{fresh}: {exc.strerror or exc}") from exc
    finally:
        fresh.unlink(missing_ok=True)
    return replace(plan, kept=kept if kept.exists() else None)
