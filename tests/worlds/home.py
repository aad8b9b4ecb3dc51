"""
Databases in every state an operator may meet, and the dependencies of a command on them.

``Home(path)`` is a Hermes home with a real SQLite file; the functions below it bring that file into a state.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from hermes_lcm.config import load
from hermes_lcm.dag import fingerprint
from hermes_lcm.errors import LcmError
from hermes_lcm.recall.access import Access, EngineState
from hermes_lcm.records import Assembly, NewNode, Node
from hermes_lcm.runtime import Process, Runtime
from hermes_lcm.session import Session, principal_of
from hermes_lcm.storage import connection
from hermes_lcm.store import NewRow
from hermes_lcm.text import content
from worlds.process import another, owner_rights

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
PAGE_BYTES = connection.PAGE_BYTES


class Home:
    """One home, one process."""

    def __init__(self, home: Path, *, database: str = "lcm", **settings: str) -> None:
        home.mkdir(exist_ok=True)
        self.home = home
        self.spared = b""  # what is stored of a message that a corruption spared
        self.now = 1_700_000_000.0
        self.path = home / f"{database}.db"
        self.config = load({f"LCM_{name.upper()}": value for name, value in settings.items()})
        self.runtime = Runtime(self.path, self.config, Process())

    # -- content ----------------------------------------------------------------------------------------
    def say(self, *texts: str, session: str = "s1", platform: str = "cli", source: str = "cli") -> Session:
        """A conversation of these texts, user and assistant in turn."""
        key = self.runtime.announce(session, platform=platform).host_key
        self.runtime.announce(session, owner=principal_of(platform, key, session))
        roles = ("user", "assistant")
        live = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
        self.runtime.ingest_list(session, live, source=source)
        found = self.runtime.find_session(session)
        assert found is not None
        return found

    def node(
        self, *sources: int, depth: int = 0, quality: str = "verified", text: str = "summary", conversation: int = 1
    ) -> Node:
        """A summary over these messages (or nodes)."""
        new = NewNode(
            conversation,
            depth,
            quality,
            text,
            "details",
            10,
            100,
            sources,
            fingerprint(depth, sources),
            "a-model",
            "detailed",
        )
        return self.runtime.dag.add(new, now=self.now)

    def assembly(self, roots: list[Node], tail: list[int], last_seq: int, session: str = "s1") -> Assembly:
        """A prompt over these nodes, with this tail."""
        names = [root.node_id for root in roots]
        number = self.runtime.dag.publish(1, session, names, tail, last_seq=last_seq, last_pos=last_seq, now=self.now)
        found = self.runtime.dag.assembly(number)
        assert found is not None
        return found

    def raw(self, sql: str, *params: Any) -> None:
        """Change the file behind the plugin's back."""
        with sqlite3.connect(self.path) as connection:
            connection.execute(sql, params)
        connection.close()

    # -- asking -----------------------------------------------------------------------------------------
    def deps(self, session: str | None = "s1", *, trusted: bool = False, **facts: Any) -> Access:
        """What a command works with. ``facts`` are those of the engine."""
        runtime = self.runtime
        found = None
        if session is not None and self.path.exists():
            try:
                found = runtime.sessions.find(session)
            except LcmError:
                found = None
        engine = EngineState(**{"context_length": 200_000, "engine_name_in_use": "lcm", **facts})
        access = runtime.access(found, owner_rights(found), engine=engine, home=self.home, trusted=trusted)
        return replace(access, store=runtime.store, clock=lambda: self.now)

    def idle(self, **facts: Any) -> Access:
        """The same where no engine runs and no session is bound."""
        return replace(self.deps(None), engine=EngineState(**facts))

    def close(self) -> None:
        """Close the connections; the next use opens them again."""
        self.runtime.db.close()

    def restart(self) -> Home:
        """The next process on the same file."""
        self.close()
        fresh = Home(self.home)
        fresh.config, fresh.now = self.config, self.now
        return fresh


# -- states ----------------------------------------------------------------------------------------------
def healthy(home: Path) -> Home:
    """A hundred messages, a leaf over ten of them, and a prompt that shows it."""
    home.mkdir(exist_ok=True)
    path = home / "lcm.db"
    path.touch(0o600)
    path.write_bytes(another(_healthy()))
    world = Home(home, doctor_clean_apply_enabled="true")
    world.runtime.announce("s1", platform="cli")
    world.runtime.db.open()
    return world


@cache
def _healthy() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        world = _said(Path(folder))
        world.close()
        return world.path.read_bytes()


def _said(home: Path) -> Home:
    world = Home(home, doctor_clean_apply_enabled="true")
    world.say(*(f"message {n} about the zebra deployment of service {n % 7} " * 4 for n in range(100)))
    world.assembly([world.node(*range(1, 11))], list(range(11, 101)), 100)
    return world


def empty(home: Path) -> Home:
    """Nothing was ever stored."""
    return Home(home)


def huge(home: Path, count: int = 1_000_000, session: int = 5000) -> Home:
    """So many messages in sessions ``s1``, ``s2``, ..., and one session of junk, through the store's own layer."""
    world = Home(home, ignore_session_patterns="junk", doctor_clean_apply_enabled="true")
    runtime = world.runtime
    for n, at in enumerate(range(0, count, session), 1):
        opened = runtime.sessions.open(f"s{n}", now=world.now, platform="cli", mode="full")
        said = [
            f"message {k} about the zebra deployment of service {k % 97}" for k in range(at, min(at + session, count))
        ]
        rows = [NewRow(content.read_message({"role": ("user", "assistant")[k % 2], "content": each}), None, None, 0)
                for k, each in enumerate(said)]  # fmt: skip
        runtime.store.append(opened.conversation_id, f"s{n}", 0, rows, source="cli", now=world.now + at)
    junk = runtime.sessions.open("junk", now=world.now, platform="cli", mode="full")
    row = NewRow(content.read_message({"role": "user", "content": "noise"}), None, None, 0)
    runtime.store.append(junk.conversation_id, "junk", 0, [row], source="cli", now=world.now)
    world.assembly([world.node(*range(1, 101))], list(range(101, session + 1)), session)
    return world


def stored_blob(world: Home, words: str) -> bytes:
    """The bytes in which the file holds the message that begins so."""
    row = next(row for rows in world.runtime.store.row_batches() for row in rows if row.text.startswith(words))
    found = world.runtime.db.query("SELECT envelope FROM messages WHERE store_id = ?", (row.store_id,))
    return bytes(found[0][0])[:64]


def corrupt(home: Path) -> Home:
    """The page with message 51 and its neighbours was overwritten."""
    world = healthy(home)
    blob = stored_blob(world, "message 50 about")
    world.spared = stored_blob(world, "message 10 about")
    world.close()
    page = world.path.read_bytes().index(blob) // PAGE_BYTES * PAGE_BYTES
    with world.path.open("r+b") as file:
        file.seek(page)
        file.write(b"\xde\xad\xbe\xef" * (PAGE_BYTES // 4))
    return world


def wrecked(home: Path) -> Home:
    """Everything behind the first pages was overwritten."""
    world = healthy(home)
    world.close()
    with world.path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(2 * PAGE_BYTES)
        file.write(b"\xde\xad\xbe\xef" * ((size - 2 * PAGE_BYTES) // 4))
    return world


def no_database(home: Path) -> Home:
    """The file is none of SQLite's."""
    world = Home(home)
    world.path.write_bytes(b"this was a database once" * 500)
    return world


def newer(home: Path) -> Home:
    """A later release wrote the file."""
    world = healthy(home)
    world.raw("PRAGMA user_version=999")
    world.close()
    return world


def foreign(home: Path) -> Home:
    """The file belongs to another program."""
    world = Home(home)
    world.raw("CREATE TABLE notes(text)")
    return world


class Holder:
    """Another process that keeps the database to itself until ``free`` is called."""

    def __init__(self, path: Path, *statements: str) -> None:
        code = (
            "import sqlite3,sys\nc=sqlite3.connect(sys.argv[1],isolation_level=None)\n"
            "for s in sys.argv[2:]: c.execute(s).fetchall()\nprint('held',flush=True)\nsys.stdin.read()"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code, str(path), *statements],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == "held"

    def free(self) -> None:
        self._process.communicate("")


READS = ("SELECT count(*) FROM messages",)
WRITES = ("BEGIN IMMEDIATE", "UPDATE messages SET source='x' WHERE store_id=1")
LOCKS_OUT = ("PRAGMA locking_mode=EXCLUSIVE", "BEGIN EXCLUSIVE", "UPDATE messages SET source='x' WHERE store_id=1")


def digest(*paths: Path) -> str:
    """Hashes of the files that exist, by another process: opening them here would drop SQLite's locks."""
    there = [str(path) for path in paths if path.exists()]
    return subprocess.run(["sha256sum", *there], capture_output=True, text=True, check=True).stdout if there else ""


def unprivileged(work: Callable[[], Any]) -> Any:
    """The JSON-able result of ``work`` in a process without root's rights."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        if os.getuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        try:
            said = {"result": work()}
        except BaseException as exc:  # the child must not go on as a second pytest
            said = {"error": f"{type(exc).__name__}: {exc}"}
        with os.fdopen(write, "w") as pipe:
            json.dump(said, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = json.load(pipe)
    os.waitpid(child, 0)
    assert "error" not in said, said
    return said["result"]


def readable_home() -> Path:
    """A folder that another user may look into."""
    home = Path(tempfile.mkdtemp(prefix="lcm-readonly-"))
    home.chmod(0o755)
    return home


def make_read_only(home: Path) -> None:
    """Nobody may write here any more."""
    for path in home.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o444)
    home.chmod(0o555)
