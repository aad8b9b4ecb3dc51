"""
Files that are whole and on the disk once they were written: for what lies beside the database, and for its log.

Owns how a private file comes into being, and how it is written through; nothing of what is in it. What writes raises OSError.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path

try:
    import resource
except ImportError:  # no such limits there
    resource = None  # type: ignore[assignment]

_FULL_BYTES = 1_000_000
_ZEROS = 1 << 20


class SharedSync:
    """Disk waits of threads that write to one file in turns: one of them waits for all that were done before it began."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.Condition()
        self._written = self._settled = self._failed = 0
        self._error: tuple[int | None, str | None] = (None, None)
        self._syncing = False

    def wrote(self) -> int:
        """Number of a write that is done; the caller lets nobody else write meanwhile."""
        self._written += 1
        return self._written

    def wait(self, number: int) -> None:
        """Until this write is on the disk. Raises OSError where the disk refused it."""
        with self._turn:
            while self._settled < number and self._syncing:
                self._turn.wait()
            if number <= self._settled:
                if number <= self._failed:
                    raise OSError(*self._error)
                return
            self._syncing, until = True, self._written
        settled, error = 0, None
        try:
            error, settled = self._refused(), until
        finally:  # a thread that is interrupted settles nothing: the next one asks the disk
            with self._turn:
                self._syncing, self._settled = False, max(self._settled, settled)
                if error is not None:
                    self._failed, self._error = settled, (error.errno, error.strerror)
                self._turn.notify_all()
        if error is not None:
            raise error

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


def remedy(exc: OSError) -> str:
    """Advice about a file that could not be written."""
    return "free disk space" if exc.errno in (errno.ENOSPC, errno.EDQUOT) else "make the folder writable for this user"


def no_room(folder: Path) -> str:
    """Why nothing more can be written there: a full disk or a limit of this process; "" where neither is known."""
    if resource is not None and (limit := resource.getrlimit(resource.RLIMIT_FSIZE)[0]) != resource.RLIM_INFINITY:
        return f"this process may write no file of more than {limit:,} bytes (file size limit)"
    return full_disk(folder)


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
