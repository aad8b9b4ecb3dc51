"""
Commit of a checkout, read from the files of ``.git`` alone.

No subprocess: the status is asked for in the middle of a turn. Best effort: whatever cannot be read is None.
"""

from __future__ import annotations

import hashlib
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MOST_ENTRIES = 5000
_ENTRY_BYTES = 62
_SYMLINK = 0o120000


@dataclass(frozen=True, slots=True)
class GitIdentity:
    """Commit and branch of a checkout; ``dirty``: a tracked file differs from the index (None: unknown)."""

    commit: str | None = None
    branch: str | None = None
    dirty: bool | None = None


def identity(folder: Path) -> GitIdentity:
    """The identity of the checkout that ``folder`` is the top of."""
    git = _git_folder(folder)
    if git is None:
        return GitIdentity()
    head = _line(git / "HEAD")
    common = _common(git)
    if head is None:
        return GitIdentity()
    if not head.startswith("ref: "):
        return GitIdentity(_as_hash(head), None, _dirty(folder, git / "index"))
    ref = head[5:].strip()
    commit = _as_hash(_line(git / ref) or _line(common / ref) or _packed(common / "packed-refs", ref))
    return GitIdentity(commit, ref.removeprefix("refs/heads/"), _dirty(folder, git / "index"))


def _git_folder(folder: Path) -> Path | None:
    git = folder / ".git"
    if git.is_dir():
        return git
    pointer = _line(git)  # a worktree or submodule: a file that names the folder
    if pointer and pointer.startswith("gitdir: "):
        named = folder / pointer[8:].strip()
        return named if named.is_dir() else None
    return None


def _common(git: Path) -> Path:
    named = _line(git / "commondir")
    return git / named if named else git


def _line(path: Path) -> str | None:
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline(4096).strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _packed(path: Path, ref: str) -> str | None:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return next((line.split(" ")[0] for line in text.splitlines() if line.endswith(f" {ref}")), None)


def _as_hash(text: str | None) -> str | None:
    return text if text and _HASH.fullmatch(text) else None


def _dirty(folder: Path, index: Path) -> bool | None:
    """Does a tracked file differ from the index? Untracked files and staged changes are not looked at."""
    try:
        data = index.read_bytes()
        version, count = struct.unpack(">4xII", data[:12])
        if data[:4] != b"DIRC" or version not in (2, 3) or count > _MOST_ENTRIES:
            return None
        at = 12
        for _ in range(count):
            fields = struct.unpack(">10I20sH", data[at : at + _ENTRY_BYTES])
            start = at + _ENTRY_BYTES + (2 if fields[11] & 0x4000 else 0)
            stop = data.index(b"\0", start)
            if _differs(folder / data[start:stop].decode("utf-8", "surrogateescape"), fields):
                return True
            at += (stop - at + 8) // 8 * 8
    except (OSError, struct.error, ValueError):
        return None
    return False


def _differs(path: Path, fields: tuple[Any, ...]) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return True
    if fields[6] & 0o170000 == _SYMLINK:
        return False
    if found.st_size & 0xFFFFFFFF != fields[9]:
        return True
    if divmod(found.st_mtime_ns, 10**9) == (fields[2], fields[3]):
        return False
    body = path.read_bytes()
    blob = hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).digest()
    return bool(blob != fields[10])
