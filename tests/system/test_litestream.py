"""Litestream beside a working agent: what it copied of the log is a whole archive, in a folder and in an object store."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from worlds.process import World, chat, digests

from hermes_lcm.command import answer
from hermes_lcm.search.scope import Rights

pytestmark = pytest.mark.slow
HERE = Path(__file__).resolve().parents[1]
PROGRAMS = HERE.parent / ".moto" / "bin"
KEYS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
_WAIT_S = 120.0
_SAY = """
import os, signal, sys
from pathlib import Path
from worlds.process import World, chat
world = World(Path(sys.argv[1]))
messages = chat().turns(int(sys.argv[3]))
for size in range(int(sys.argv[2]), len(messages) + 1):
    world.take(messages[:size])
os.kill(os.getpid(), signal.SIGKILL)
"""


def program(name: str) -> Path:
    """One of the programs that ``scripts/setup-env moto`` installs, which ``scripts/test -m slow`` calls."""
    assert (PROGRAMS / name).exists(), "scripts/setup-env moto"
    return PROGRAMS / name


@contextmanager
def streaming(database: Path, replica: str) -> Iterator[Callable[[Path], bool]]:
    """Litestream copies the log while the block lasts. Yields a restore: is there anything yet?"""
    setup = database.with_suffix(".yml")
    setup.write_text(f"dbs:\n- path: {database}\n  replica:\n    sync-interval: 100ms\n{replica}")
    words = [str(program("litestream"))]
    env = {**{name: value for name, value in os.environ.items() if not name.startswith("AWS_")}, **KEYS}
    process = subprocess.Popen(
        [*words, "replicate", "-config", str(setup)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def restored(into: Path) -> bool:
        into.unlink(missing_ok=True)
        given = [*words, "restore", "-config", str(setup), "-o", str(into), str(database)]
        return subprocess.run(given, env=env, capture_output=True).returncode == 0

    try:
        yield restored
    finally:
        process.terminate()
        process.wait(30)


def brought_back(restored: Callable[[Path], bool], folder: Path, messages: list[Any]) -> World:
    """A home with what the copy holds, as soon as that is everything."""
    folder.mkdir()
    end = time.monotonic() + _WAIT_S
    while True:
        if restored(folder / "lcm.db"):
            copy = World(folder)
            if len(copy.stored()) == len(messages):
                return copy
            copy.db.close()
        assert time.monotonic() < end, "the copy does not come up with the archive"
        time.sleep(0.2)


def whole(copy: World, messages: list[Any]) -> bool:
    """The same messages, and a deep doctor that finds nothing but the file's mode, which Litestream chose."""
    found = answer("doctor deep", copy.runtime.access(None, Rights(), trusted=True))
    failed = [line for line in found.text.splitlines() if line.lstrip().startswith(("FAILED", "warning"))]
    return digests(copy.stored()) == digests(messages) and all("file_modes" in line for line in failed)


def lives(folder: Path, messages: list[Any]) -> None:
    """Turns, ends of sessions that fold the log, a killed process: days of an agent in a minute."""
    world = World(folder)
    for size in range(1, 20):
        world.take(messages[:size])
    world = world.restart()
    world.take(messages[:24])
    world.preparer.stop()
    world.db.close()
    paths = os.pathsep.join([str(HERE), str(HERE.parent / ".lcm-path")])
    command = [sys.executable, "-P", "-c", _SAY, str(folder), "25", str(len(messages) // 2 - 10)]
    assert subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}).returncode == -signal.SIGKILL
    world = World(folder)
    world.take(messages)
    assert digests(world.stored()) == digests(messages)
    assert not world.health.problems()
    world.preparer.stop()
    world.db.close()


def test_a_copied_log_in_a_folder_is_the_whole_archive(tmp_path: Path) -> None:
    """Processes that begin, end and are killed meanwhile lose it nothing."""
    messages = chat().turns(40)
    home = tmp_path / "home"
    home.mkdir()
    with streaming(home / "lcm.db", f"    type: file\n    path: {tmp_path / 'replica'}\n") as restored:
        lives(home, messages)
        copy = brought_back(restored, tmp_path / "copy", messages)

    assert whole(copy, messages)


def test_a_copied_log_in_an_object_store_is_the_whole_archive(tmp_path: Path) -> None:
    """The same through S3."""
    messages = chat().turns(40)
    home = tmp_path / "home"
    home.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    store = subprocess.Popen(
        [program("moto_server"), "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    place = f"    type: s3\n    bucket: lcm\n    path: agent\n    region: us-east-1\n    endpoint: http://127.0.0.1:{port}\n"
    try:
        bucket(port)
        with streaming(home / "lcm.db", f"{place}    force-path-style: true\n") as restored:
            lives(home, messages)
            copy = brought_back(restored, tmp_path / "copy", messages)
    finally:
        store.kill()
        store.wait(10)

    assert whole(copy, messages)


def bucket(port: int) -> None:
    """A bucket in the store, as soon as it answers."""
    from minio import Minio

    client = Minio(f"127.0.0.1:{port}", access_key="k", secret_key="s", secure=False, region="us-east-1")
    end = time.monotonic() + _WAIT_S
    while True:
        try:
            client.make_bucket("lcm")
            return
        except Exception:
            assert time.monotonic() < end
            time.sleep(0.1)
