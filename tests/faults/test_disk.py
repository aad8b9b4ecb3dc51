"""A disk that refuses when it is waited for: the commit is seen already, and nothing is lost or doubled for that (P1, P4, P9)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from faults.test_sweeps import ALL, BASE, FIRST, healed
from worlds.breaking import Host, with_new
from worlds.process import Chat, Script

from hermes_lcm.storage import disk

WAYS = [(1, errno.EIO, False), (1, errno.ENOSPC, True)]
CASES = [
    *((name, *way) for name in ("hook", "compress", "first hook") for way in WAYS),
    ("compress", 2, errno.EIO, False),
]


class Disk:
    """Wait ``at`` (from 1) of the log is refused, ``lasting``: and all after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.code, self.lasting, self.seen = 0, 0, False, 0
        monkeypatch.setattr(disk, "sync", self.sync)

    def arm(self, at: int, code: int, lasting: bool) -> None:
        self.at, self.code, self.lasting, self.seen = at, code, lasting, 0

    def disarmed(self) -> bool:
        """Was a wait refused?"""
        refused, self.at = self.seen >= self.at, 0
        return refused

    def sync(self, path: Path) -> None:
        if path.name == "lcm.db-wal" and self.at:
            self.seen += 1
            if self.seen == self.at or (self.lasting and self.seen > self.at):
                raise OSError(self.code, "made to fail")


@pytest.mark.few(3)
@pytest.mark.parametrize(("name", "at", "code", "lasting"), CASES)
def test_a_disk_that_refuses_loses_and_doubles_nothing(
    hermes_home: Path, monkeypatch: pytest.MonkeyPatch, name: str, at: int, code: int, lasting: bool
) -> None:
    """Whatever is done again is what is there: in this process, in a stand-in, and in the next process."""
    disk = Disk(monkeypatch)
    host = Host(hermes_home, Script("ok"))
    if name not in FIRST:
        host.says(BASE)
    said = with_new(BASE, 100, 2)
    disk.arm(at, code, lasting)
    out = Chat(ALL[name](host, said.copy()))
    refused = disk.disarmed()

    assert refused
    healed(host, said, out, name)


def test_a_file_that_cannot_be_erased_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A purge that was refused a flush said `Permission denied`, and not of what."""
    path = tmp_path / "old"
    path.write_bytes(b"secret")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "made to fail")))
    with pytest.raises(OSError, match="made to fail") as refused:
        disk.erase(path)

    assert (refused.value.errno, refused.value.filename) == (errno.EIO, str(path))
    assert path.exists()
