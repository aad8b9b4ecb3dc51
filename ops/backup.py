"""
Copies of the database: making, checking, keeping, putting one back.

A backup is one self-contained file beside the database, made by SQLite's backup API while writers go on, readable by its owner
only. What it is (which database it is of, when it was made, which payload files there were) is noted inside it. It is checked by
reading every row back against its seal; one that is not as it was written keeps a mark in its name. ``with_files``: an archive of
the copy and of the payload files.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ..errors import BadRequest, LcmError, NotFound, StoreCorrupt, StoreError, StoreTooNew, StoreTooOld, way_out
from ..recall.access import Access
from ..records import Flag
from ..storage import disk, files
from ..storage.connection import Database
from ..storage.files import Facts, Progress, silent
from ..storage.foreign import of_host
from ..storage.meta import Meta
from ..storage.payloads import inflated, unpacked
from ..storage.standby import stand_ins
from ..storage.upgrade import BACKUPS
from .render import moment, size
from .survey import unsound

KEEP = 10
#: Beside the newest ten: of so many days, weeks and months the newest one each.
KEPT_BY_AGE = (("%Y-%m-%d", 7), ("%G-%V", 4), ("%Y-%m", 12))
KEPT_UNSOUND = 3
_NAME = re.compile(r"(?P<of>.+)-\d{8}-\d{6}(?:-\d+)?(?P<unsound>\.unsound)?\.(?:sqlite3|tar)")
#: What lies in the same folder for another reason, by the end of its name before the date.
_OTHERS = ("-before-restore", "-damaged", "hermes-lcm")
_ABOUT, _COPY = "backup.json", "database.sqlite3"  # in an archive; the payload files are in a folder beside it
_FILES = "payloads/"
_STALE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Backup:
    """A file in the backup folder. ``of``: how the database was called; ``facts``: None where it cannot be read."""

    path: Path
    of: str
    sound: bool
    made_at: float
    facts: Facts | None = None

    @property
    def messages(self) -> int:
        """Number of its messages; 0 where that cannot be read."""
        return self.facts.messages if self.facts is not None else 0

    @property
    def payloads(self) -> Mapping[str, str]:
        """Digests by name of the payload files that it names; none where that cannot be read."""
        return self.facts.payloads if self.facts is not None else {}

    @property
    def bytes(self) -> int:
        """Its size; 0 where that cannot be told."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def __str__(self) -> str:
        held, sound = size(self.bytes), "" if self.sound else ", not sound"
        return f"{self.path.name} of {moment(self.made_at)}, {self.messages:,} messages, {held}{sound}"


@dataclass(frozen=True, slots=True)
class Made:
    """A backup that was made. ``dropped``: older ones that gave way; ``problems``: why it is marked as not sound.

    ``payloads``: files that it names; ``missing``: files that messages show and that are not there.
    """

    path: Path
    bytes: int
    counts: Mapping[str, int]
    dropped: tuple[Path, ...] = ()
    payloads: int = 0
    missing: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    with_files: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """Putting a backup back. ``newer``: messages that are stored now and not in it (None: cannot be told).

    ``notes``: what to know before: it is of another database, or newer ones are not sound. ``lacking``: digests by name of
    payload files that are gone or changed, ``archives``: where they are.
    """

    source: Path
    counts: Mapping[str, int]
    newer: int | None
    missing_payloads: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    kept: Path | None = None
    lacking: Mapping[str, str] = field(default_factory=dict)
    archives: tuple[Path, ...] = ()


# -- where they are --------------------------------------------------------------------------------------
def backup_folder(database: Path) -> Path:
    """Folder of a database's backups."""
    return database.parent / BACKUPS


def rotate_path(database: Path) -> Path:
    """The one backup that a rotation overwrites."""
    return backup_folder(database) / f"{database.stem}-rotate-latest.sqlite3"


def all_backups(database: Path, folder: Path | None = None) -> list[Backup]:
    """Every backup in the folder (another one, if it is named), of any database, by the time it was made."""
    folder = folder or backup_folder(database)
    try:
        found = [(path, _NAME.fullmatch(path.name)) for path in folder.iterdir()]
    except OSError as exc:
        if isinstance(exc, FileNotFoundError | NotADirectoryError) and not folder.exists():
            return []
        closed = StoreError(f"{folder}: {exc.strerror or exc}; the list of backups cannot be read")
        closed.remedy = f"make {folder} a folder that the account Hermes runs as may read"
        raise closed from exc
    known = [_looked_at(path, name) for path, name in found if name and not name["of"].endswith(_OTHERS)]
    return sorted(known, key=lambda each: (each.made_at, each.path.name))


def kept_files(database: Path) -> list[Path]:
    """Backups, exports and damaged copies: all files in their folders."""
    folders = (backup_folder(database), database.parent / files.EXPORTS)
    return [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]


def set_aside(database: Path) -> list[Path]:
    """Files that a restore, a repair or a rotation put beside the backups: nobody prunes them."""
    folder = backup_folder(database)
    kinds = ("before-restore-*", "damaged-*", "rotate-latest*")
    try:
        return sorted(path for kind in kinds for path in folder.glob(f"{database.stem}-{kind}") if path.suffix != ".z")
    except OSError:
        return []


def _looked_at(path: Path, name: re.Match[str]) -> Backup:
    try:
        facts: Facts | None = _packed_facts(path) if path.suffix == ".tar" else files.facts(path)
    except (StoreError, OSError):
        facts = None
    made_at = facts.made_at if facts is not None and facts.made_at else _written_at(path)
    return Backup(path, name["of"], not name["unsound"] and facts is not None, made_at, facts)


def _written_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def backups(deps: Access, folder: Path | None = None) -> list[Backup]:
    """The backups of this database, oldest first: by its identity, or by its name where either has none."""
    mine = _identity(deps)
    return [each for each in all_backups(deps.db.path, folder) if _belongs(each, deps.db.path.stem, mine)]


def _identity(deps: Access) -> Facts | None:
    """Identity of a database; None where there is none that can be read."""
    try:
        return files.facts_of(deps.db) if deps.db.exists else None
    except StoreError:
        return None


def _belongs(backup: Backup, stem: str, mine: Facts | None) -> bool:
    if mine is None or backup.facts is None or not (mine.identity or mine.nonce):
        return backup.of == stem
    return mine.is_of(backup.facts)


def stamped(database: Path, now: float, stem: str = "", end: str = ".sqlite3") -> Path:
    """A file name in the backup folder that nobody has taken yet."""
    folder = backup_folder(database)
    stem = f"{stem or database.stem}-{disk.stamp(now)}"
    taken = {path.name.partition(".")[0] for path in folder.glob(f"{stem}*")} if folder.is_dir() else set()
    name, n = stem, 2
    while name in taken:
        name, n = f"{stem}-{n}", n + 1
    return folder / f"{name}{end}"


def half_made(target: Path) -> Path:
    """A name for a file until it is whole: of one call, with the number of its process at the end."""
    return target.with_name(f".{target.name}.{time.monotonic_ns()}.{os.getpid()}.partial")


def left_over(database: Path, *, now: float) -> list[Path]:
    """Files that a backup, a restore or a repair left half-made when it was killed."""
    beside = (f".{database.name}.*", f".{database.stem}.standby-*")
    names = [path for each in beside for path in database.parent.glob(each)]
    names += backup_folder(database).glob(".*.partial*")
    return [path for path in names if _abandoned(path, now)]


def _abandoned(path: Path, now: float) -> bool:
    """Is the process gone whose number is in the name?"""
    number = re.search(r"\.(\d+)\.(?:partial|restored|work|rescued|saved|drill|own)", path.name)
    if number is None:
        return False
    try:
        os.kill(int(number[1]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        pass
    return int(number[1]) != os.getpid() and now - _written_at(path) > _STALE_S


def refuse_stand_ins(database: Path) -> None:
    """Raise BadRequest where a file waits to be merged: what is taken out of the database would come back with it."""
    if waiting := stand_ins(database):
        raise BadRequest(f"{waiting[0].name} waits to be merged, and may bring messages back: run `/lcm doctor` first")


def remove_half_made(database: Path) -> None:
    """Remove what was left half-made."""
    for path in left_over(database, now=time.time()):
        with suppress(OSError):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


# -- making ----------------------------------------------------------------------------------------------
def back_up(deps: Access, progress: Progress = silent, *, with_files: bool = False, marked: bool = False) -> Made:
    """A new backup with a name of its own; older ones go as ``_spare`` says.

    One that is not sound is kept with a mark; one of a damaged file only where the operator asked for a backup (``marked``),
    otherwise it raises StoreCorrupt.
    """
    end = ".tar" if with_files else ".sqlite3"
    made = _copied(deps, stamped(deps.db.path, deps.clock(), end=end), progress, with_files=with_files, marked=marked)
    return replace(made, dropped=_pruned(backups(deps)))


def copy_to(deps: Access, made: Made, folder: Path) -> tuple[Path, tuple[Path, ...]]:
    """Copy a backup to another folder, such as another disk's, and compare; the copy, and older ones there that gave way."""
    target = folder / made.path.name
    partial = half_made(target)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(made.path, disk.private(partial))
        disk.sync(partial)
        if digest_of(partial) != digest_of(made.path):
            raise StoreError(f"{folder}: the copy is not what was copied; that disk, or the way to it, changes bytes")
        partial.replace(target)
        disk.sync(folder)
    except OSError as exc:
        raise StoreError(f"{target}: {exc.strerror or exc}; the backup itself is {made.path}") from exc
    finally:
        files.discard(partial)
    return target, _pruned(backups(deps, folder))


@dataclass(frozen=True, slots=True)
class Compared:
    """Messages of a restored database beside those here. ``changed``: redacted, purged or removed since; ``newer``: only here."""

    same: int
    changed: int
    differing: tuple[int, ...]
    newer: int


def compared(deps: Access, restored: Access) -> Compared:
    """Read every message of a restored database, and the one of the same address here."""
    same = changed = last = 0
    differing: list[int] = []
    for rows in restored.store.row_batches(damaged=differing):
        here = {row.store_id: row for row in deps.store.legible([row.store_id for row in rows])[0]}
        for row in rows:
            present = here.get(row.store_id)
            if present is not None and present.stored_json == row.stored_json:
                same += 1
            elif present is None or present.head.flags & Flag.REDACTED & ~row.head.flags:
                changed += 1
            else:
                differing.append(row.store_id)
            last = row.store_id
    newer = int(deps.db.query("SELECT count(*) FROM messages WHERE store_id > ?", (last,))[0][0])
    return Compared(same, changed, tuple(sorted(differing)), newer)


def _pruned(known: Sequence[Backup]) -> tuple[Path, ...]:
    """Remove the backups that may go."""
    old = tuple(each.path for each in _spare(known))
    for path in old:
        path.unlink(missing_ok=True)
    return old


def _spare(known: Sequence[Backup]) -> list[Backup]:
    """Backups that may go: never one that holds more than every newer one that stays."""
    sound = [each for each in known if each.sound]
    kept = {each.path for each in [each for each in known if not each.sound][-KEPT_UNSOUND:]}
    kept |= _kept([(each.made_at, each.path) for each in sound])
    out, largest, of_sound = [], -1, -1  # of the newer ones that stay
    for each in reversed(known):
        if each.path in kept or each.messages > (of_sound if each.sound else largest):
            largest = max(largest, each.messages)
            of_sound = max(of_sound, each.messages if each.sound else -1)
        else:
            out.append(each)
    return out[::-1]


def _kept(dated: Sequence[tuple[float, Path]]) -> set[Path]:
    """Files to keep, of some by age: the newest ones and the newest of each day, week and month."""
    kept = {path for _, path in dated[-KEEP:]}
    for form, most in KEPT_BY_AGE:
        newest_of = {f"{datetime.fromtimestamp(at, UTC):{form}}": path for at, path in dated}
        kept |= {path for _, path in sorted(newest_of.items())[-most:]}
    return kept


def prune_stand_ins(database: Path) -> None:
    """Remove old stand-ins whose messages are in the database, as old backups are."""
    dated = sorted(
        (_written_at(path), path) for path in backup_folder(database).glob(f"{database.stem}.standby-*.sqlite3")
    )
    for path in {path for _, path in dated} - _kept(dated):
        path.unlink(missing_ok=True)


def roll(deps: Access, progress: Progress = silent) -> Made:
    """The backup that belongs to rotations: the same file each time, replaced as a whole."""
    return _copied(deps, rotate_path(deps.db.path), progress)


def _copied(deps: Access, target: Path, progress: Progress, *, with_files: bool = False, marked: bool = False) -> Made:
    database = deps.db.path
    if not deps.db.exists:
        raise BadRequest(f"{database}: nothing is stored yet, so there is nothing to back up")
    deps.db.open()  # refuses a file of a newer release or of another program
    before = deps.db.query("SELECT coalesce(max(store_id), 0) FROM messages")[0][0]
    partial, began = half_made(target), deps.clock()
    packed = partial.with_name(f"{partial.name}.tar")
    remove_half_made(database)
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        deps.db.backup(partial, progress)
        found = _payload_digests(deps.payloads.folder)
        progress("checking", 0, 0)
        problems = _checked(partial, {"made_at": deps.clock(), "payloads": found}, progress)
        facts = files.facts(partial)
        if facts.newest < before:
            problems = (*problems, "it lacks messages that were stored before it began")
        if problems and not marked and files.quick_check(partial):
            raise StoreCorrupt(f"the copy is not sound, so it was not kept: {'; '.join(problems[:3])}")
        counts = files.counts(partial)
        if with_files:
            _pack(packed, partial, deps.payloads.folder, facts)
            packed.replace(partial)
        disk.sync(partial)
        if target != rotate_path(database):  # another one may have been made meanwhile
            target = stamped(database, began, end=target.suffix)
        if problems:
            target = target.with_name(target.name.replace(target.suffix, f".unsound{target.suffix}"))
        partial.replace(target)
        disk.sync(target.parent)
    except (StoreError, OSError) as exc:
        said = _not_written(exc, target)
        raise said from (exc.__cause__ if said is exc else exc)  # what the system said tells the way out
    finally:
        files.discard(partial, packed)
    missing = deps.payloads.survey().missing
    return Made(target, target.stat().st_size, counts, (), len(found), missing, problems, with_files)


def _not_written(exc: StoreError | OSError, target: Path) -> StoreError:
    """Why there is no backup; nothing else was changed."""
    full = disk.no_room(target.parent)
    if isinstance(exc, StoreError) and not full:
        return exc
    said = StoreError(
        f"{target}: the copy could not be written: {full or getattr(exc, 'strerror', '') or exc}; there is no new backup"
    )
    room = f"make room where {target.parent} is (or raise the limit), then run the command again"
    said.remedy = room if full else way_out(exc)
    return said


def _checked(copy: Path, note: Mapping[str, Any], progress: Progress) -> tuple[str, ...]:
    """Note inside a copy what it is, and read all of it back; what is wrong with it."""
    try:
        db = Database(copy)
        try:
            Meta(db).note(files.NOTE, note)
            problems = unsound(db, progress)
        finally:
            db.close()
        files.seal(copy)
    except StoreCorrupt as exc:
        return (str(exc),)
    return problems


# -- payload files ---------------------------------------------------------------------------------------
def _payload_digests(folder: Path) -> dict[str, str]:
    """Every finished payload file. One that a running agent is writing belongs to no message of the copy yet."""
    digests = ((path.relative_to(folder).as_posix(), digest_of(path)) for path in _payload_names(folder))
    return {name: digest for name, digest in digests if digest is not None}


def _payload_names(folder: Path) -> list[Path]:
    found = folder.rglob("*") if folder.is_dir() else ()
    return sorted(path for path in found if path.is_file() and not path.name.startswith("."))


def digest_of(path: Path) -> str | None:
    """SHA-256 of a file. None: another process has just removed it."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _pack(target: Path, copy: Path, folder: Path, facts: Facts) -> None:
    """One archive of a copy and its payload files; first of all what it is."""
    about = json.dumps(asdict(facts)).encode("utf-8")
    with tarfile.open(disk.private(target), "w", dereference=True) as archive:  # the file that a link leads to
        member = tarfile.TarInfo(_ABOUT)
        member.size = len(about)
        archive.addfile(member, io.BytesIO(about))
        archive.add(copy, _COPY)
        for name in facts.payloads:
            archive.add(folder / name, _FILES + name)


def _packed_facts(path: Path) -> Facts:
    try:
        with tarfile.open(path) as archive:
            about = archive.extractfile(archive.next() or _ABOUT)
            return Facts(**json.loads(about.read() if about is not None else b""))
    except (tarfile.TarError, KeyError, ValueError, TypeError) as exc:
        raise StoreCorrupt(f"{path} is not a backup archive: {exc}") from exc


@contextmanager
def _database_in(path: Path) -> Iterator[Path]:
    """The database of a backup as a file: itself, or for a while what is in its archive."""
    if path.suffix != ".tar":
        yield path
        return
    copy = half_made(path)
    try:
        with tarfile.open(path) as archive, disk.private(copy).open("wb") as out:
            member = next((each for each in archive if each.name == _COPY), None)  # what is behind it may be cut off
            found = archive.extractfile(member) if member is not None else None
            if found is None:
                raise StoreCorrupt(f"{path} is not a backup archive: it holds no database")
            shutil.copyfileobj(found, out)
        yield copy
    except tarfile.TarError as exc:
        raise StoreCorrupt(f"{path} is not a backup archive: {exc}") from exc
    finally:
        files.discard(copy)


def _packed_files(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Payload files of an archive, by name. Raises StoreCorrupt where it is cut off."""
    try:
        with tarfile.open(archive) as packed:
            for member in packed:
                name = member.name.removeprefix(_FILES)
                outside = name == member.name or name.startswith("/") or ".." in Path(name).parts
                data = packed.extractfile(member) if member.isfile() and not outside else None
                if data is not None:
                    yield name, data.read()
    except tarfile.TarError as exc:
        raise StoreCorrupt(f"{archive} is cut off or changed: {exc}") from exc


def _unpack_files(archive: Path, folder: Path, wanted: dict[str, str]) -> None:
    """Wanted payload files of an archive (digests by name) into the folder of the database; the rest is wanted still."""
    for name, said in _packed_files(archive):
        if wanted.get(name) != hashlib.sha256(said).hexdigest():
            continue
        try:
            disk.write(folder / name, said, within=folder)
        except OSError as exc:
            raise StoreError(
                f"{folder / name} of {archive.name}: {exc.strerror or exc}; the database was not changed"
            ) from exc
        del wanted[name]


def texts_of(path: Path) -> Iterator[str]:
    """All texts of a database, a payload file or an archive of both, unpacked; none of other files. Raises StoreError."""
    if path.suffix == ".z":
        yield unpacked(path)
    elif path.suffix in (".db", ".sqlite3"):
        yield from files.texts_of(path)
    elif path.suffix == ".tar":
        for _, said in _packed_files(path):
            yield inflated(said)
        try:
            with _database_in(path) as copy:
                yield from files.texts_of(copy)
        except OSError as exc:
            raise StoreError(f"{path}: {exc.strerror or exc}; it cannot be unpacked") from exc


def _lacking(deps: Access, facts: Facts) -> dict[str, str]:
    """Digests by name of the payload files that a backup names and that are gone, or not what they were."""
    present = _payload_digests(deps.payloads.folder)
    return {name: digest for name, digest in facts.payloads.items() if present.get(name) != digest}


def _archives(deps: Access, source: Path, facts: Facts) -> dict[Path, Mapping[str, str]]:
    """Archives that hold payload files (digests by name): the backup itself, then the newest ones."""
    try:
        known = backups(deps)
    except StoreError:  # a backup from elsewhere; files that nothing holds are named all the same
        known = []
    others = {each.path: each.payloads for each in reversed(known)}
    return {path: held for path, held in {source: facts.payloads, **others}.items() if path.suffix == ".tar"}


def named_payloads(database: Path) -> frozenset[str]:
    """Payload files (by their path in the folder) that some backup in the folder names: none of them may be removed."""
    return frozenset(name for each in all_backups(database) for name in each.payloads)


def archive_with(deps: Access, shas: Collection[str]) -> Backup | None:
    """The newest sound archive of this database that holds all of these payload files."""
    try:
        known = backups(deps)
    except StoreError:
        return None  # of a folder that cannot be looked into; its own check says so
    archives = [each for each in known if each.path.suffix == ".tar" and each.sound and each.facts is not None]
    held = [each for each in archives if {Path(name).stem for name in each.payloads}.issuperset(shas)]
    return held[-1] if held else None


# -- putting one back ------------------------------------------------------------------------------------
def best_backup(deps: Access) -> Backup | None:
    """The backup to go back to: the newest sound one of this database, or the newest at all."""
    return _best(backups(deps))


def _best(known: Sequence[Backup]) -> Backup | None:
    return next(reversed([each for each in known if each.sound] or known), None)


def way_back(deps: Access) -> str:
    """Advice about a database that cannot be saved."""
    try:
        found = best_backup(deps)
    except StoreError as exc:
        return str(exc)
    if found is not None and found.sound:
        return f"restore a backup, the best is {found}: `/lcm restore {found.path.name}`"
    if found is not None:
        return (
            f"no backup is sound; of {found}, `/lcm doctor repair` saves what can be read, once it is at {deps.db.path}"
        )
    return f"there is no backup in {backup_folder(deps.db.path)} (`/lcm restore PATH` takes one from elsewhere)"


def command_for_a_loss(deps: Access) -> str:
    """What to type first where something is lost: a look at the backup that holds it, and only without one its acceptance."""
    try:
        found = best_backup(deps)
    except StoreError:
        found = None
    return f"/lcm restore {found.path.name}" if found is not None and found.sound else "/lcm doctor accept"


def way_on(deps: Access) -> str:
    """Advice about a database in which no message can be read: its backup, or a new beginning."""
    if backups(deps):
        return way_back(deps)
    anew = "the next message begins a new archive, and `/lcm import host apply` takes in what Hermes still has"
    return f"{way_back(deps)}; without one, move {deps.db.path} away: {anew}"


def way_out_for(deps: Access, exc: LcmError) -> str:
    """The way out of an error, for the operator: no repair of a database in which no message can be read.

    A statement that fails on a table which another program changed is an error of no kind: a repair mends that.
    """
    ours = deps.reads_all and str(deps.db.path) in str(exc)
    try:
        if ours and type(exc) is StoreError and files.lost_parts(deps.db.path):
            return StoreCorrupt.remedy
        damaged = ours and isinstance(exc, StoreCorrupt)
        return way_on(deps) if damaged and not files.holds_messages(deps.db.path) else way_out(exc)
    except (StoreError, OSError, ValueError):  # a file that cannot even be looked at, or nothing in it
        return way_out(exc)


#: What a chat can do where the archive is gone.
ASK_OPERATOR: Final = "the operator's `hermes lcm doctor` names the way back"


def gone(deps: Access, around: str) -> str:
    """Words about a database that is gone, and what is left of it. How much others have said is not a chat's to know."""
    if not deps.reads_all:
        return "the archive is empty or gone, and there was one"
    return f"{deps.db.path} is {'empty' if deps.db.path.exists() else 'not there'}, but there are: {around}"


def traces_around(deps: Access) -> str:
    """Traces around a database that there was one: backups, payload files, and for the operator the host's conversations."""
    told = [said] if (said := left_of(deps)) else []
    if deps.reads_all and (count := _host_messages(deps.home)):
        told.append(f"{count:,} messages in sessions of Hermes")
    return "; ".join(told)


def left_of(deps: Access) -> str:
    """Traces that only this plugin can have left beside a database that is gone; "" where it was never there."""
    told = [f"a backup, {found}"] if (found := best_backup(deps)) is not None else []
    if count := len(_payload_names(deps.payloads.folder)):
        told.append(f"{count:,} payload files")
    return "; ".join(told)


def _host_messages(home: Path) -> int:
    """Number of messages in the host's own session database."""
    try:
        with of_host(home) as host:
            return int(host.one("SELECT count(*) FROM messages") or 0) if host is not None else 0
    except LcmError:
        return 0


def chosen(deps: Access, name: str) -> tuple[Path, tuple[str, ...]]:
    """The backup that an operator means (a path, a file name in the folder, or ``latest``), and notes about it."""
    known, folder = backups(deps), backup_folder(deps.db.path)
    if name == "latest":
        found = _best(known)
        if found is not None:
            newer = known[known.index(found) + 1 :]
            return found.path, tuple(f"newer, and not sound: {each}" for each in newer)
        raise NotFound(f"there is no backup of this database in {folder}; {_others(deps)}")
    for path in (Path(name).expanduser(), folder / name):
        if os.path.isfile(path):  # Path.is_file raises where a folder is closed
            return path, ()
    have = ", ".join(each.path.name for each in known[:-6:-1]) or "none"
    raise NotFound(f"no backup {name!r}; the newest in {folder}: {have}")


def in_a_chat(deps: Access, name: str) -> str:
    """A backup as a chat may name it: by its file name in the folder. Raises BadRequest for any other file of the machine."""
    folder = backup_folder(deps.db.path)
    if deps.trusted or name == "latest":
        return name
    if name != Path(name).name:
        raise BadRequest(
            f"{name!r} is not the name of a backup in {folder}; other files are named at the terminal only"
        )
    return str(folder / name)


def _others(deps: Access) -> str:
    """Backups of other databases, where there are none of this one."""
    others = [str(each) for each in all_backups(deps.db.path)][:-4:-1]
    return f"of other databases there are, by name: {'; '.join(others)}" if others else "`/lcm backup` makes one"


def plan_restore(deps: Access, name: str, progress: Progress = silent) -> Restore:
    """Contents of a backup, and what would be gone after putting it back. Changes nothing."""
    source, notes = chosen(deps, name)
    if source.exists() and deps.db.path.exists() and source.samefile(deps.db.path):
        raise BadRequest(f"{source} is the database itself")
    with _database_in(source) as copy:
        return _planned(deps, source, copy, notes, progress)


def _planned(deps: Access, source: Path, copy: Path, notes: tuple[str, ...], progress: Progress) -> Restore:
    if faults := files.faults(copy, progress):
        damaged = StoreCorrupt(f"{source} is not a sound backup: {'; '.join(faults[:3])}")
        damaged.remedy = (
            "name another backup: `/lcm restore` lists them; or let `hermes lcm doctor repair` save what is readable in a copy "
            "of this one, while LCM_DATABASE_PATH names that copy; nothing was changed"
        )
        raise damaged
    head = files.header(copy)
    if head.too_new:
        raise StoreTooNew(f"{source} was written by a newer release")
    if head.too_old:
        raise StoreTooOld(f"{source} has schema {head.schema} of an early development version")
    facts, mine = files.facts(copy), _identity(deps)
    if mine is not None and mine.messages and not mine.is_of(facts):
        notes = (*notes, "it is of another database than the present one: their conversations have nothing in common")
    newest = mine.newest if mine is not None else 0
    newer = None if mine is None and deps.db.exists else max(0, newest - facts.newest)
    lacking = _lacking(deps, facts)
    archives = _archives(deps, source, facts) if lacking else {}
    held = {item for each in archives.values() for item in each.items()}
    missing = tuple(name for name, digest in lacking.items() if (name, digest) not in held)
    useful = [path for path, each in archives.items() if not lacking.items().isdisjoint(each.items())]
    notes = (*notes, *(f"payload files that are gone come out of {path.name}" for path in useful[:1]))
    return Restore(source, files.counts(copy), newer, missing, notes, lacking=lacking, archives=tuple(useful))


def restore(deps: Access, name: str, progress: Progress = silent) -> Restore:
    """Put a backup back. What was there is kept under a name of its own; nothing else may have the database open."""
    plan = plan_restore(deps, name, progress)
    database = deps.db.path
    fresh = database.with_name(f".{database.name}.{os.getpid()}.restored")
    kept = stamped(database, deps.clock(), f"{database.stem}-before-restore")
    remove_half_made(database)
    try:
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _database_in(plan.source) as copy:
            files.copied(copy, disk.private(fresh), progress)
        files.upgraded(fresh, beside=(plan.source, database))
        lacking = dict(plan.lacking)
        for archive in plan.archives:
            with suppress(StoreCorrupt):  # of one that is cut off, what it still holds
                _unpack_files(archive, deps.payloads.folder, lacking)
        files.exchange(deps.db, fresh, kept if deps.db.exists else None)
    except OSError as exc:
        raise StoreError(f"{fresh}: {exc.strerror or exc}") from exc
    finally:
        files.discard(fresh)
    return replace(plan, kept=kept if kept.exists() else None, missing_payloads=tuple(lacking))
