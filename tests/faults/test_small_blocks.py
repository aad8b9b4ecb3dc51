"""A full file system whose blocks are smaller than a page of memory: a file that is mapped ends the process there (P9, P10)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from worlds.breaking import Host
from worlds.home import Home
from worlds.process import Script, chat

from hermes_lcm.storage.connection import Database


def reads(path: Path, _: Path) -> str:
    database = Database(path)
    database.reads_when_full = True
    return str(database.query("SELECT count(*) FROM messages")[0][0])


def stores(_: Path, home: Path) -> str:
    host = Host(home, Script("ok"))
    host.says(chat().turns(2))
    return f"{host.runtime.db.stands_in} {len(host.stored())}"


#: Between a file without room and one with enough there are sizes at which SQLite's index of the log has half of it.
LEFT_KB = (0, 6, 8, 9, 10, 12, 20, 33, 40, 70)


@pytest.fixture
def small_blocks(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB with blocks of 1 kB."""
    image, place = tmp_path / "image", tmp_path / "mounted"
    place.mkdir()
    image.write_bytes(bytes(8_000_000))
    made = [
        ["mkfs.ext4", "-q", "-b", "1024", "-O", "^has_journal", str(image)],
        ["mount", "-o", "loop", str(image), str(place)],
    ]
    if any(shutil.which(words[0]) is None or subprocess.run(words, check=False).returncode for words in made):
        pytest.skip("this account may not mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def in_a_process(work: Callable[[], str]) -> tuple[int, str]:
    """How a process ended that did this, and what it said."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, work().encode())
        except BaseException as exc:
            os.write(write, repr(exc).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


@pytest.mark.parametrize(
    ("program", "said"), [(reads, {"2"}), (stores, {"True 4", "False 6"})], ids=["a verb reads", "a turn is stored"]
)
def test_no_process_ends_however_little_room_is_left(
    program: Callable[[Path, Path], str],
    said: set[str],
    small_blocks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The system ended it (SIGBUS) with 9 kB left. A turn is kept in memory, or in the file where there is room."""
    world = Home(small_blocks)
    world.say("one", "two")
    world.close()
    monkeypatch.setenv("LCM_DATABASE_PATH", str(world.path))
    (tmp_path / "home").mkdir()
    with (small_blocks / "filling").open("wb", buffering=0) as filling:
        with suppress(OSError):
            while filling.write(bytes(1024)):
                pass
        full = filling.tell()
        for left in LEFT_KB:
            for ending in ("-wal", "-shm"):
                Path(f"{world.path}{ending}").unlink(missing_ok=True)
            filling.truncate(full - 1024 * left)
            code, told = in_a_process(lambda: program(world.path, tmp_path / "home"))
            assert (left, code, told in said) == (left, 0, True), told
