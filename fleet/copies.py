"""
Copies of this host's backups in the fleet's object store: sealed, listed on the server for this host's role only, brought back.

A copy is a backup with payload files, made and checked as any other. Its key is on the server, where no other role reads it; so
the store alone opens nothing, and a copy whose row is gone is gone.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import FleetError, LcmError, NotFound, StoreError
from ..ops import backup
from ..ops.retention import HOUR_S
from ..storage import disk, files
from ..storage.files import Progress, silent
from ..storage.meta import Meta
from .objects import Objects, cipher, objects_of

if TYPE_CHECKING:
    from psycopg import Connection

    from ..recall.access import Access
    from .member import Member

#: So many copies of a host are kept.
KEPT: Final = 7
_PIECE: Final = 1 << 20
_TAG_BYTES: Final = 16
_NOTED: Final = "fleet kept"  # in ``meta``: when the last copy was made, Unix seconds
#: Of one that is not stored yet ``sha256`` is empty.
_LIST: Final = "SELECT name, object, key, sha256, bytes FROM lcm.backups ORDER BY at DESC, name DESC"
_FORGET: Final = "SELECT lcm.drop_copy(%s)"
_ADD: Final = "INSERT INTO lcm.backups(name, object, key, sha256, bytes) VALUES (%s, %s, %s, %s, %s)"


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy. ``sha256``: of the backup as it was made."""

    name: str
    object: str
    key: str
    sha256: str
    bytes: int


def keep(member: Member, deps: Access, progress: Progress = silent) -> Copy:
    """Make a backup and store a copy of it; older ones beyond ``KEPT`` go. Raises LcmError.

    The server knows of it before it is made: so a purge finds it, also one that comes meanwhile, or after a kill.
    """
    objects, key, name = _store(deps), secrets.token_bytes(32), f"backups/{secrets.token_hex(16)}"
    with member.server.checked() as server:
        server.execute(_ADD, (name, name, key.hex(), "", 0))
    try:
        with _of_files(backup.backup_folder(deps.db.path)):
            copy = _made(member, deps, objects, key, name, progress)
    except LcmError:
        with suppress(FleetError), member.server.checked() as server:
            server.execute(_FORGET, (name,))
        raise
    Meta(deps.db).note(_NOTED, deps.clock())
    return copy


def _made(member: Member, deps: Access, objects: Objects, key: bytes, name: str, progress: Progress) -> Copy:
    made = backup.back_up(deps, progress, with_files=True)
    if made.problems:
        raise FleetError(f"{made.path.name} is not sound, so no copy was stored", "run `hermes lcm doctor deep`")
    with _beside(made.path) as sealed, member.server.checked() as server:
        progress("sealing", 0, 0)
        _seal(made.path, sealed, key)
        sha256 = backup.digest_of(made.path) or ""
        copy = Copy(made.path.name, name, key.hex(), sha256, made.path.stat().st_size)
        progress("storing", 0, 0)
        objects.put_file(name, sealed)
        with server.transaction():
            is_wanted = any(each.object == name for each in _listed(server))
            if is_wanted:
                server.execute(_FORGET, (name,))
                server.execute(_ADD, (copy.name, copy.object, copy.key, copy.sha256, copy.bytes))
        if not is_wanted:
            objects.remove(name)
            raise FleetError("something was purged meanwhile, so this copy was not kept", "`hermes lcm fleet keep`")
        _drop(objects, server, [each for each in _listed(server) if each.sha256][KEPT:])
    return copy


def fetch(member: Member, deps: Access, name: str = "", progress: Progress = silent) -> Path:
    """Bring a copy (the newest, unless one is named) into the folder of backups. Raises LcmError."""
    with member.server.checked() as server:
        known = [each for each in _listed(server) if each.sha256]
    found = next((each for each in known if name in ("", each.name)), None)
    if found is None:
        raise NotFound(
            f"the fleet keeps no copy {name or 'of this host'}; there are: {', '.join(each.name for each in known) or 'none'}"
        )
    backup.remove_half_made(deps.db.path)
    target = backup.backup_folder(deps.db.path) / found.name
    with _of_files(target.parent):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _brought(deps, found, target, progress)
    return target


def _brought(deps: Access, found: Copy, target: Path, progress: Progress) -> None:
    with _beside(target) as sealed, _beside(target) as opened:
        progress("fetching", 0, 0)
        _store(deps).get_file(found.object, sealed)
        if not _unseal(sealed, opened, bytes.fromhex(found.key)) or backup.digest_of(opened) != found.sha256:
            raise FleetError(f"the copy {found.name} is not what was stored", "fetch an older one by its name")
        disk.sync(opened)
        opened.replace(target)


def forget(member: Member, deps: Access) -> int:
    """Remove every copy of this host: they hold what was purged. How many."""
    with member.server.checked() as server:
        known = _listed(server)
        if known:
            _drop(_store(deps), server, known)
    return len(known)


def due(deps: Access) -> bool:
    """Is it time for the next copy?"""
    every = deps.config.fleet_backup_hours * HOUR_S
    last = Meta(deps.db).value(_NOTED) or 0.0
    return bool(every and deps.config.fleet_objects) and not last <= deps.clock() < last + every  # a clock may go back


def _listed(server: Connection[tuple[Any, ...]]) -> list[Copy]:
    return [Copy(*row) for row in server.execute(_LIST).fetchall()]


def _drop(objects: Objects, server: Connection[tuple[Any, ...]], copies: list[Copy]) -> None:
    for each in copies:
        objects.remove(each.object)
        server.execute(_FORGET, (each.object,))
        objects.remove(each.object)  # it may have come in between


def _store(deps: Access) -> Objects:
    objects = objects_of(deps.config.fleet_objects)
    if objects is None:
        raise FleetError("LCM_FLEET_OBJECTS names no object store", "docs/fleet.md says how to set one")
    return objects


@contextmanager
def _of_files(folder: Path) -> Iterator[None]:
    """Refusals of the system as errors of ours, which the worker of the fleet outlives."""
    try:
        yield
    except OSError as exc:
        raise StoreError(f"{exc.filename or folder}: {exc.strerror or exc}") from exc


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A file for half-made things, in the same folder, readable for its owner only."""
    partial = path.with_name(f".{path.name}.{time.monotonic_ns()}.{os.getpid()}.partial")
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    try:
        yield partial
    finally:
        files.discard(partial)


def _seal(path: Path, sealed: Path, key: bytes) -> None:
    sealing = cipher(key)
    with path.open("rb") as source, sealed.open("r+b") as target:
        while piece := source.read(_PIECE):
            target.write(sealing.encrypt(piece))
        target.write(sealing.digest())


def _unseal(sealed: Path, opened: Path, key: bytes) -> bool:
    """Write what a sealed file holds; False: it was changed."""
    opening, left = cipher(key), sealed.stat().st_size - _TAG_BYTES
    with sealed.open("rb") as source, opened.open("r+b") as target:
        while left > 0 and (piece := source.read(min(_PIECE, left))):
            left -= len(piece)
            target.write(opening.decrypt(piece))
        try:
            opening.verify(source.read(_TAG_BYTES))
        except ValueError:
            return False
    return True
