"""Hosts and the server are killed at any moment: nothing is lost, nothing is there twice, nobody reads what is another's."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest
from worlds.fleet import Fleet, Host, eventually
from worlds.postgres import running

from hermes_lcm.errors import FleetError
from hermes_lcm.storage.packing import unpack
from hermes_lcm.text.content import decode

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("LCM_TEST_KILLS", "40"))
NAMES = ("one", "two", "three")


class Talking:
    """A host's process, and which turns it said were stored."""

    def __init__(self, folder: Path, dsn: str, name: str) -> None:
        folder.mkdir(exist_ok=True)
        words = [sys.executable, "-P", str(ROOT / "tests" / "fleet" / "killed_host.py"), str(folder), dsn, name]
        env = {**os.environ, "PYTHONPATH": str(ROOT / ".lcm-path")}
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env)
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):
                self.said.append(line.strip())

    def kill(self) -> list[str]:
        """End it; the turns that it told."""
        self._process.kill()
        self._process.wait()
        self._reader.join(10)
        return self.said


def texts(rows: list[tuple[bytes]]) -> list[str]:
    return [str(decode(unpack(row[0]))["content"]) for row in rows]


@pytest.mark.slow
def test_hosts_and_server_may_die_at_any_moment(tmp_path: Path) -> None:
    """``LCM_TEST_KILLS`` times: every fifth time the server."""
    chance = random.Random(26)
    with running() as server:
        fleet = Fleet(server, tmp_path)
        dsns = {name: fleet.role(name, realm=name) for name in NAMES}
        stored: dict[str, list[str]] = {name: [] for name in NAMES}
        hosts = {name: Talking(tmp_path / name, dsns[name], name) for name in NAMES}
        for n in range(KILLS):
            time.sleep(chance.uniform(0.1, 1.2))
            if n % 5 == 4:
                server.kill()
                time.sleep(chance.uniform(0.0, 0.5))
                server.start()
                continue
            name = chance.choice(NAMES)
            stored[name] += hosts[name].kill()
            hosts[name] = Talking(tmp_path / name, dsns[name], name)
        for name, each in hosts.items():
            eventually(lambda each=each: bool(each.said), 120)
            stored[name] += each.kill()
        for name in NAMES:
            last = Host(tmp_path / name).to(dsns[name])
            while True:
                try:
                    last.member.push()
                    break
                except FleetError:
                    time.sleep(0.5)
            here = sorted(message["content"] for message in last.stored())
            told = [f"{said} {what}" for said in stored[name] for what in ("asks", "answers")]
            there = sorted(texts(last.sql("SELECT envelope FROM lcm.messages")))

            assert told
            assert set(told) <= set(here)
            assert there == here
            assert len(set(there)) == len(there)
            assert all(text.startswith(f"{name} ") for text in there)
            assert last.member.verify().sound
            last.db.close()
        with psycopg.connect(fleet.admin) as admin:
            shown = admin.execute("SELECT count(*), count(DISTINCT id) FROM lcm.messages").fetchone()
        assert shown is not None
        assert shown[0] == shown[1]
        print(f"{KILLS} kills, {shown[0]} messages")
