"""A full file system whose blocks are smaller than a page of memory: a file that is mapped ends the process there (P9, P10)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from worlds.home import Home

ROOT = Path(__file__).resolve().parents[2]
READ = """
database = Database(sys.argv[1])
database.reads_when_full = True
print(database.query("SELECT count(*) FROM messages")[0][0])
"""
TURN = """
host = Host(Path(sys.argv[2]), Script("ok"))
host.says(chat().turns(2))
print(host.runtime.db.stands_in, len(host.stored()))
"""
HEAD = f"""
import sys
sys.path[:0] = {[str(ROOT / "tests"), str(ROOT / ".lcm-path")]!r}
from pathlib import Path
from hermes_lcm.storage.connection import Database
from worlds.breaking import Host
from worlds.process import Script, chat
"""
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


@pytest.mark.parametrize(
    ("program", "said"), [(READ, {"2"}), (TURN, {"True 4", "False 6"})], ids=["a verb reads", "a turn is stored"]
)
def test_no_process_ends_however_little_room_is_left(
    program: str, said: set[str], small_blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
            words = [sys.executable, "-P", "-c", HEAD + program, str(world.path), str(tmp_path / "home")]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            assert (left, done.returncode, done.stdout.strip() in said) == (left, 0, True), done.stdout + done.stderr
