"""
Files on the disk: their names, which file has a name now, its errors, and how one is whole once it was written.

Errors of SQLite, and of the file, become ours by result code: what SQLite says is for people. Nothing of what is in a file.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, BinaryIO, Final, NamedTuple
from urllib.parse import quote

from ..errors import FAULTS_OF_A_DISK, Exchanged, StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreReadOnly
from . import leaves

try:
    import fcntl
except ImportError:  # no such locks there
    fcntl = None  # type: ignore[assignment]
try:
    import resource
except ImportError:  # no such limits there
    resource = None  # type: ignore[assignment]

#: Ends of the names of files that SQLite keeps beside a database.
SIDE_FILES: Final = ("-wal", "-shm", "-journal")
_FULL_BYTES = 1_000_000
_LOG_HEAD: Final = 32  # bytes of a log that holds nothing
_MARKED: Final = slice(68, 72)  # bytes of a database that say whose it is
#: Number and first of the bytes where SQLite's unix locks are, which no page uses.
_LOCK_BYTES: Final = (512, 0x40000000)
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_INDEX_BYTES: Final = 65_536  # of the log's index at its beginning, and as much again
_OF_ERRNO: Final = {
    **dict.fromkeys(_NO_ROOM, StoreFull), **dict.fromkeys((errno.EACCES, errno.EROFS, errno.EPERM), StoreReadOnly),
}  # fmt: skip
_ZEROS = 1 << 20
_MEMORY: Final = ":memory:"
_MEMORIES: Final = itertools.count(1)
_STAND_INS: Final = itertools.count(1)


def in_memory() -> Path:
    """A name that no other database of this process has: what is stored under it lives as long as a connection to it."""
    return Path(f"{_MEMORY}{os.getpid()}-{next(_MEMORIES)}")


def is_memory(file: Path) -> bool:
    """Is this no file, but memory of this process?"""
    return str(file).startswith(_MEMORY)


def memory_uri(file: Path) -> str:
    """Name under which SQLite opens such memory."""
    return f"file:lcm-{file.name.removeprefix(_MEMORY)}?mode=memory&cache=shared"


def connected(file: Path, how: str, *, wait_s: float) -> sqlite3.Connection:
    """A connection to a file that SQLite opens with these options, which waits so long for a lock."""
    name = f"file:{quote(str(file))}?{how}"
    return sqlite3.connect(name, uri=True, timeout=wait_s, isolation_level=None, check_same_thread=False)


def without_room(file: Path) -> str:
    """Options of SQLite to read a file whose disk is full: no side file grows, and what its log holds is read, too."""
    log = file.with_name(file.name + "-wal")
    if not (log.exists() and log.stat().st_size):
        return "mode=ro&immutable=1"
    file.with_name(file.name + "-shm").touch(0o600)  # its index is made in memory, and only the name must be there
    return "mode=ro&readonly_shm=1"


def like_any_reader(file: Path) -> str:
    """Options of SQLite to read a file that others may have open; without side files that grow where they find no room."""
    return without_room(file) if no_room_for_index(file) else "mode=ro"


def has_lost_file(path: Path) -> bool:
    """Is a database gone or empty, and its write-ahead log still there?"""
    try:
        gone = not path.exists() or (path.is_file() and not path.stat().st_size)
        return gone and path.with_name(path.name + "-wal").stat().st_size > _LOG_HEAD
    except OSError:
        return False


def bring_back(path: Path, *, partly: bool = False) -> None:
    """Make a file for a log that lost its own: SQLite removes the log of an empty file, with all that it holds.

    ``partly``: also a damaged one, where the log holds a part of it. Otherwise that raises StoreCorrupt: a process that has the
    lost file open writes it back, and must find no other in its place, nor one that writes to its log.
    """
    if not has_lost_file(path):
        return
    with Translated(path):
        begin, whole = leaves.beginning(_bytes_of(path.with_name(path.name + "-wal")))
        if begin and not (whole or partly):
            raise StoreCorrupt(f"{path} is gone or empty, and its write-ahead log holds only a part of it")
        with os.fdopen(os.open(path, os.O_CREAT | os.O_RDWR, 0o600), "rb+") as file:
            if is_alone(file) and not os.fstat(file.fileno()).st_size:
                file.write(begin)


def _bytes_of(log: Path) -> bytes:
    with Translated(log):
        return log.read_bytes()


def give_own_file(path: Path, mark: bytes) -> None:
    """A file of its own for a database that has a second name, as in a home that was copied with `cp -l`; before it is opened.

    Each name has a log of its own, so a process that uses the one would write over what was stored under the other. ``mark``: of
    a file of ours. Whose file is open under this name by now is left as it is. Raises StoreBusy where it is open under the
    other one.
    """
    found = path.stat()
    if found.st_nlink < 2 or is_open_here(found.st_dev, found.st_ino):
        return
    log = path.with_name(path.name + "-wal")
    with Translated(path), path.open("rb+") as file:
        if mark not in (file.read(_MARKED.stop)[_MARKED], _first_page(log)[_MARKED]):
            return
        if not is_alone(file):
            if log.exists():
                return
            raise StoreBusy(f"{path} has a second name (a hard link), under which another process has it open")
        path.with_name(path.name + "-shm").unlink(missing_ok=True)  # made anew
        if log.exists():
            with log.open("rb") as of_both:
                _own_copy(of_both, log)
        _own_copy(file, path)


def _first_page(log: Path) -> bytes:
    """The first page of a database as its log has it: of a young one whose process was killed the file has none of ours."""
    return leaves.beginning(log.read_bytes())[0] if log.exists() else b""


def _own_copy(file: BinaryIO, path: Path) -> None:
    """Let a copy of an open file take its name."""
    file.seek(0)
    copy = private(path.with_name(f".{path.name}.{os.getpid()}.own"))
    try:
        with copy.open("wb") as own:
            shutil.copyfileobj(file, own)
        sync(copy)
        copy.replace(path)
    except OSError as exc:
        if exc.errno in _NO_ROOM:
            raise StoreFull(
                f"{path} has a second name (a hard link), and there is no room for a file of its own"
            ) from exc
        raise
    finally:
        copy.unlink(missing_ok=True)  # a part of one fills a disk that has no room for the whole
    sync(path.parent)


def is_open_here(device: int, number: int) -> bool:
    """Has this process a file open? Yes, where the system does not tell."""
    try:
        handles = os.listdir("/dev/fd")
    except OSError:
        return True
    for handle in handles:
        with suppress(OSError, ValueError):
            found = os.fstat(int(handle))
            if (found.st_dev, found.st_ino) == (device, number):
                return True
    return False


def is_alone(file: IO[bytes]) -> bool:
    """Lock an open file against all others until it is closed. False where somebody has it open: then its log is theirs."""
    if fcntl is None:
        return True
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, *_LOCK_BYTES)
    except OSError:
        return False
    return True


def grants_locks(folder: Path) -> bool:
    """Does the file system of a folder lock files? True where a file cannot even be made there: then something else says why."""
    try:
        with tempfile.TemporaryFile(dir=folder) as attempt:
            return is_alone(attempt)
    except OSError:
        return True


def stamp(at: float) -> str:
    """A time as part of a file's name; names sort by it."""
    return f"{datetime.fromtimestamp(at, UTC):%Y%m%d-%H%M%S}"


def stand_in(database: Path, now: float) -> Path:
    """A name for a file that stands in for a database, in the order of time; it says which process it is of.

    None is given out twice: what was merged of a file is noted under its name.
    """
    stem = f"{database.stem}.standby-{stamp(now)}"
    names = (database.with_name(f"{stem}-{n}-{os.getpid()}.db") for n in _STAND_INS)
    return next(path for path in names if not os.path.lexists(path))  # SQLite would follow a link that leads nowhere


class Identity(NamedTuple):
    """Identity of an open file, its write-ahead log and its index; 0: none."""

    process: int
    device: int
    file: int
    log: int
    shared: int


def identity_of(file: Path) -> Identity | None:
    """The file and the log that have these names now; None without a file."""
    name = str(file)
    if name.startswith(_MEMORY):
        return Identity(os.getpid(), 0, int(name.rpartition("-")[2]), 1, 1)
    try:
        found = os.stat(name)
    except OSError:
        return None
    return Identity(os.getpid(), found.st_dev, found.st_ino, _number(f"{name}-wal"), _number(f"{name}-shm"))


def _number(file: str) -> int:
    try:
        return os.stat(file).st_ino
    except OSError:
        return 0


class Translated:
    """Errors of SQLite and of the file become ours. Without state: one serves all statements of a database, nested ones too."""

    __slots__ = ("_moved", "_on_busy", "_path")

    def __init__(
        self, path: Path, on_busy: Callable[[], None] | None = None, *, moved: Callable[[], bool] = lambda: False
    ) -> None:
        self._path = path
        self._on_busy = on_busy
        self._moved = moved

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, _: object) -> None:
        if exc is None:
            return
        if isinstance(exc, sqlite3.Error) and self._moved():
            raise Exchanged(
                f"{self._path} or its log was exchanged while it was in use ({exc}); it is read again"
            ) from exc
        if isinstance(exc, sqlite3.Error):
            error = translate(exc, self._path)
            if self._on_busy is not None and isinstance(error, StoreBusy):
                self._on_busy()
            raise error from exc
        if isinstance(exc, UnicodeDecodeError):  # of the list of tables, or of a row
            raise StoreCorrupt(
                f"{self._path}: text in it is not UTF-8 ({exc.reason} {exc.object[exc.start]:#x})"
            ) from exc
        if isinstance(exc, (UnicodeEncodeError, OverflowError)):
            raise StoreError(f"{self._path}: a value that SQLite cannot hold ({exc})") from exc
        if isinstance(exc, OSError):
            of = _OF_ERRNO.get(exc.errno or 0, StoreError)
            raise of(f"{self._path}: {exc.strerror or exc}") from exc


#: Damage that has no code of its own: a text that is none, a search index whose own tables were changed or lost.
_DAMAGE: Final = (
    "Could not decode to UTF-8", "invalid fts5 file format", "vtable constructor failed",
    "fts5: error creating shadow table", "SQL logic error", "no such table: message_index_", "no such table: node_index_",
)  # fmt: skip


def translate(exc: sqlite3.Error, path: Path) -> StoreError:
    """SQLite's error as one of ours, by result code (the text is for people)."""
    code = getattr(exc, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else -1
    said = f"{path}: {exc}"
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(said)
    if primary == sqlite3.SQLITE_PROTOCOL:  # it has asked for ten seconds
        return StoreBusy(f"{said}: its file system grants no locks, as some that are shared over a network")
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_CANTOPEN):
        return StoreReadOnly(f"{path}: {shut(path.parent) or exc}")
    if primary == sqlite3.SQLITE_FULL:
        return StoreFull(said)
    if primary == sqlite3.SQLITE_NOTADB:
        return StoreCorrupt(f"{said} (is LCM_DATABASE_PATH right? Otherwise its first bytes are damaged)")
    if primary == sqlite3.SQLITE_CORRUPT or any(words in said for words in _DAMAGE):
        return StoreCorrupt(said)
    if primary == sqlite3.SQLITE_IOERR:
        if closed := shut(path.parent):
            return StoreReadOnly(f"{path}: {closed}")
        if full := no_room(path.parent):
            return StoreFull(f"{said}: {full}")
        return StoreError(f"{said} ({getattr(exc, 'sqlite_errorname', code)})", FAULTS_OF_A_DISK)
    return StoreError(said)


def bytes_read(thread: int) -> int:
    """Bytes that a thread of this process has read from files so far; 0 where the system does not count them."""
    try:
        counts = Path(f"/proc/self/task/{thread}/io").read_text(encoding="ascii")
    except OSError:
        return 0
    return int(counts.split()[1])


class SharedSync:
    """Disk waits of threads that write to one file in turns: one of them waits for all that were done before it began."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._asking = threading.Lock()  # no Condition: Ctrl-C within its methods can leave that locked for ever
        self._written = self._settled = self._failed = 0
        self._error: tuple[int | None, str | None] = (None, None)

    def wrote(self) -> int:
        """Number of a write that is done; the caller lets nobody else write meanwhile."""
        self._written += 1
        return self._written

    def wait(self, number: int) -> None:
        """Wait until this write is on the disk. Raises OSError where the disk refused it."""
        with self._asking:
            if number > self._settled:  # a thread that is interrupted settles nothing: the next one asks the disk
                until = self._written
                if (error := self._refused()) is not None:
                    self._failed, self._error = until, (error.errno, error.strerror)
                self._settled = until
            if number <= self._failed:
                raise OSError(*self._error)

    def _refused(self) -> OSError | None:
        try:
            sync(self._path)
        except FileNotFoundError:  # SQLite has removed it: what it held is in the database by now, on the disk
            return None
        except OSError as exc:
            if exc.errno not in (errno.EMFILE, errno.ENFILE) or not hasattr(os, "sync"):
                return exc
            os.sync()  # a process that may open nothing more writes on over what it has open
        return None


def write(path: Path, data: bytes, *, within: Path) -> None:
    """Write a file under another name, then let it take its place: nobody sees half of it. ``within``: the outermost folder."""
    _make(path.parent, within)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with os.fdopen(os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def no_room(folder: Path) -> str:
    """Why nothing more can be written there: a full disk or a limit of this process; "" where neither is known."""
    if resource is not None and (limit := resource.getrlimit(resource.RLIMIT_FSIZE)[0]) != resource.RLIM_INFINITY:
        return f"this process may write no file of more than {limit:,} bytes (file size limit)"
    return full_disk(folder)


def no_room_for_index(path: Path) -> str:
    """Why SQLite must not make the index of a database's log; "" where it may.

    It maps that file into memory. Where a page of it finds no room, on file systems with blocks smaller than a page, the system
    ends the process (SIGBUS). Only an attempt tells: free bytes are not free for everybody.
    """
    if not (full := full_disk(path.parent)):
        return ""
    try:
        with tempfile.TemporaryFile(dir=path.parent, buffering=0) as attempt:
            enough = attempt.write(bytes(_INDEX_BYTES)) == _INDEX_BYTES
    except OSError as exc:
        enough = exc.errno not in _NO_ROOM
    return "" if enough else full


def room(folder: Path) -> tuple[int, ...]:
    """Free bytes of a disk, in steps of a quarter, and the largest file that this process may write."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        free = 0
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0] if resource is not None else 0
    return int(4 * math.log2(free + 1)), limit


def shut(folder: Path) -> str:
    """Why nobody can write there: a file system that is mounted read-only; "" where it is not, or where that is not known."""
    try:
        return "the file system is mounted read-only" if os.statvfs(folder).f_flag & os.ST_RDONLY else ""
    except (OSError, AttributeError):  # there is no such call on Windows
        return ""


def full_disk(folder: Path) -> str:
    """Room on the disk of a folder, in words, where it is little; "" where it is enough, or not known."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return ""
    return f"the disk is full ({free:,} bytes are free)" if free < _FULL_BYTES else ""


def erase(path: Path) -> None:
    """Fill a file with zeros, then remove it; one that is not there is no error."""
    try:
        with path.open("r+b") as file:
            size = os.fstat(file.fileno()).st_size
            for at in range(0, size, _ZEROS):
                file.write(bytes(min(_ZEROS, size - at)))
            file.flush()
            os.fsync(file.fileno())
    except FileNotFoundError:
        return
    except OSError as exc:  # of a write or a flush the system does not say which file
        raise OSError(exc.errno, exc.strerror, str(path)) from exc
    path.unlink()


def second_name(path: Path, other: Path) -> None:
    """Give a file another name that stays when the first one goes, even if the machine stops then."""
    try:
        os.link(path, other)
    except OSError:  # a file system without hard links
        shutil.copy2(path, other)
        sync(other)
    sync(other.parent)


def private(path: Path) -> Path:
    """An empty file that its owner alone can read, made before anything is written into it."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    return path


def sync(path: Path) -> None:
    """Write a file through to the disk, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        getattr(os, "fdatasync", os.fsync)(handle)  # without the time of the last change, where there is such a call
    finally:
        os.close(handle)


def _make(folder: Path, within: Path) -> None:
    """A folder for its owner alone, and those above it up to ``within``."""
    missing = [each for each in (folder, *folder.parents) if each.is_relative_to(within) and not each.is_dir()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
        each.chmod(0o700)
        sync(each.parent)
