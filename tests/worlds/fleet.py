"""
A fleet in one line: ``fleet.host("laptop")`` is a process with its own file and its own role on the shared server.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from hermes_lcm import command, runtime
from hermes_lcm.compaction.compactor import Request
from hermes_lcm.config import Secret, load
from hermes_lcm.fleet.member import Member, exact
from hermes_lcm.fleet.server import Server, add_host
from hermes_lcm.recall.grep import Ask, grep
from hermes_lcm.recall.paging import Room
from hermes_lcm.runtime import Runtime
from hermes_lcm.search.scope import Rights
from hermes_lcm.storage.packing import unpack
from worlds.postgres import Postgres
from worlds.process import WAIT_S, World


def eventually(what: Callable[[], bool], wait_s: float = WAIT_S) -> None:
    """Wait for what must come true."""
    end = time.monotonic() + wait_s
    while not what():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


class Host(World):
    """One machine of the fleet."""

    member: Member
    dsn: str

    def to(self, dsn: str) -> Host:
        """Use this connection string."""
        self.dsn = dsn
        everything = self.runtime.access(None, Rights(), trusted=True)
        self.member = Member(self.db, Secret(dsn), lambda: exact(everything), self.health)
        return self

    def restart(self, script: Any = None) -> Host:
        """The process ends; the next one opens the same file."""
        self.preparer.stop()
        self.db.close()
        return Host(self.folder, script or self.model).to(self.dsn)

    def request(self, *given: Any, **wishes: Any) -> Request:
        """As in any world, of a small window: two dozen turns are more than it holds."""
        return super().request(*given, **{"threshold": 1500, **wishes})

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """What this host's role gets for any statement."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []


class Process:
    """A process of Hermes as the plugin sees it, with the settings of its environment."""

    def __init__(self, folder: Path, dsn: str, **settings: str) -> None:
        folder.mkdir(exist_ok=True)
        self.runtime = Runtime(folder / "lcm.db", load({"LCM_FLEET_DSN": dsn, **settings}), runtime.Process())

    def take(self, messages: list[dict[str, object]], session: str = "s", **facts: str) -> None:
        if facts:
            self.runtime.announce(session, **facts)
        self.runtime.announce(session, owner=facts.get("owner", "local"))
        self.runtime.ingest_list(session, messages)

    def behind(self) -> int:
        assert self.runtime.fleet is not None
        return int(self.runtime.fleet.state()["behind"])

    def search(self, words: str, principal: str | None = None) -> str:
        """What ``lcm_grep(session_scope="all")`` answers."""
        caller = self.runtime.access(None, Rights(principal), trusted=principal is None)
        ask = Ask(words, chosen=caller.choose("all"), scope="messages")
        return str(grep(caller, ask, Room.of(8000)))

    def end(self) -> None:
        assert self.runtime.fleet is not None
        self.runtime.fleet.stop()
        self.runtime.db.close()


class Fleet:
    """A database with the schema, and hosts on it."""

    def __init__(self, postgres: Postgres, folder: Path) -> None:
        self.postgres, self.folder = postgres, folder
        self.admin = postgres.with_schema()
        self.tag = secrets.token_hex(3)  # roles are the whole server's
        self.hosts: list[Host] = []

    def role(self, name: str, realm: str = "team", patterns: tuple[str, ...] = ("%",)) -> str:
        """A new host's connection string."""
        role, password = f"lcm_{name}_{self.tag}", secrets.token_hex(8)
        with Server(Secret(self.admin)).connected() as connection:
            add_host(connection, role, password, realm or f"~{role}", patterns if realm else ())
        return self.postgres.dsn(role, password, self.admin.rpartition("/")[2])

    def host(self, name: str, realm: str = "team", patterns: tuple[str, ...] = ("%",), **settings: Any) -> Host:
        """A machine with an empty home. ``realm`` "": it shares with nobody."""
        folder = self.folder / name
        folder.mkdir()
        made = Host(folder, **settings).to(self.role(name, realm, patterns))
        self.hosts.append(made)
        return made

    def count(self, table: str) -> int:
        """Rows of a table on the server, as its operator sees them."""
        with psycopg.connect(self.admin) as connection:
            row = connection.execute(f"SELECT count(*) FROM lcm.{table}").fetchone()
        assert row is not None
        return int(row[0])

    def close(self) -> None:
        for each in self.hosts:
            each.member.close()
            each.db.close()


def purger(fleet: Fleet, *hosts: Host) -> None:
    """These hosts may purge for the fleet."""
    with psycopg.connect(fleet.admin, autocommit=True) as admin:
        for each in hosts:
            admin.execute(f"GRANT lcm_purger TO {each.sql('SELECT session_user')[0][0]}")


def ask(host: Host, words: str) -> command.Answer:
    """What an operator types at a host's terminal."""
    access = host.runtime.access(None, Rights(), trusted=True)
    return command.answer(words, replace(access, config=replace(access.config, fleet_dsn=Secret(host.dsn))))


def on_server(fleet: Fleet) -> list[str]:
    """Everything that the server's tables say."""
    with psycopg.connect(fleet.admin) as admin:
        said = [unpack(row[0]) for row in admin.execute("SELECT envelope FROM lcm.messages").fetchall()]
        said += [row[0] for row in admin.execute("SELECT text || expand_hint FROM lcm.nodes").fetchall()]
        said += [row[0] for row in admin.execute("SELECT summary || preview FROM lcm.archives").fetchall()]
        said += [row[0] for row in admin.execute("SELECT coalesce(words::text, '') FROM lcm.messages").fetchall()]
    return said


def here(host: Host) -> list[str]:
    """Everything that a host's tables say."""
    texts = [str(row.stored_json) for rows in host.runtime.store.row_batches() for row in rows]
    return texts + [node.text for nodes in host.dag.node_batches() for node in nodes]
