"""A full file system whose blocks are smaller than a page of memory: a file that is mapped ends the process there (P9, P10)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from worlds.home import Home

ROOT = Path(__file__).resolve().parents[2]
READ = """
import sys
sys.path.insert(0, sys.argv[1])
from hermes_lcm.storage.connection import Database
database = Database(sys.argv[2])
database.reads_when_full = True
print(database.query("SELECT count(*) FROM messages")[0][0])
"""


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


def test_what_is_stored_is_read_however_little_room_is_left(small_blocks: Path) -> None:
    """Between a file of no room and one of enough there are sizes at which SQLite's index of the log has half of it."""
    world = Home(small_blocks)
    world.say("one", "two")
    world.close()
    with (small_blocks / "filling").open("wb", buffering=0) as filling:
        try:
            while filling.write(bytes(1024)):
                pass
        except OSError:
            pass
        full = filling.tell()
        for left in (0, 6, 8, 9, 10, 12, 20, 33, 40, 70):
            for ending in ("-wal", "-shm"):
                Path(f"{world.path}{ending}").unlink(missing_ok=True)
            filling.truncate(full - 1024 * left)
            read = subprocess.run(
                [sys.executable, "-P", "-c", READ, str(ROOT / ".lcm-path"), str(world.path)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert (left, read.returncode, read.stdout, read.stderr) == (left, 0, "2\n", "")
