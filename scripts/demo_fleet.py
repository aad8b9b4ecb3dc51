"""
The demonstration behind ``scripts/demo-fleet``.

A real PostgreSQL server on loopback and two homes with their own files and roles. Only the summariser is scripted.
"""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / ".lcm-path"), str(ROOT / "tests"), str(ROOT / "tests" / "fleet")]

import psycopg  # noqa: E402
from worlds.fleet import Host, eventually  # noqa: E402
from worlds.postgres import Postgres, running  # noqa: E402
from worlds.process import chat, reload  # noqa: E402

from hermes_lcm.command import answer, operator_access  # noqa: E402
from hermes_lcm.config import Secret  # noqa: E402
from hermes_lcm.fleet.background import Background  # noqa: E402

WORDS = "the spare key lies under the terracotta flowerpot"


class DemoFailedError(RuntimeError):
    """Something did not hold. The message is what the user gets to see."""


def check(holds: object, otherwise: str) -> None:
    """Stop with a reason when something does not hold."""
    if not holds:
        raise DemoFailedError(otherwise)


def heading(text: str) -> None:
    print(f"\n== {text}")


def typed(host: Host, words: str, dsn: str) -> str:
    """What ``hermes lcm WORDS`` answers on a host."""
    print(f"$ hermes lcm {words}")
    deps = operator_access(host.runtime, None, None)
    said = answer(
        words, replace(deps, trusted=True, home=host.folder, config=replace(deps.config, fleet_dsn=Secret(dsn)))
    )
    print("\n".join(f"  {line}" for line in said.text.splitlines()))
    check(said.code == 0, f"hermes lcm {words} failed")
    return said.text


def made(folder: Path, name: str) -> Host:
    """A machine with an empty home."""
    (folder / name).mkdir()
    return Host(folder / name)


def hosts(folder: Path, admin: str) -> tuple[Host, Host, Host]:
    """The schema, and a role for each of three machines."""
    heading("A PostgreSQL server, its schema, and a role for each host")
    operator = made(folder, "operator")
    typed(operator, "fleet init", admin)
    out = []
    for name, realm in (("server", "anna"), ("laptop", "anna"), ("stranger", "mallory")):
        typed(operator, f"fleet init {name} {realm}", admin)
        out.append(made(folder, name).to(f"file:{operator.folder / f'fleet-{name}.dsn'}"))
    return out[0], out[1], out[2]


def moves(server: Host, laptop: Host) -> Any:
    """A conversation that began on the server goes on on the laptop."""
    heading("A conversation begins on the server, and is compacted there")
    live = server.compact(chat().user(WORDS).says("Noted.").turns(60))
    print(
        f"  {server.counts()['messages']} messages, {server.counts()['nodes']} summary; the prompt has {len(live)} messages"
    )
    typed(server, "fleet push", server.dsn)
    heading("The laptop takes it over")
    typed(laptop, "fleet pull", laptop.dsn)
    before = laptop.counts()["messages"]
    transcript = laptop.take(reload(live))
    check(laptop.counts()["messages"] == before, "a message was stored twice")
    check(transcript.assembly is not None, "the prompt of the other host was not recognised")
    check(laptop.thread() == server.thread(), "the conversations differ")
    print(f"  {before} messages, none twice; the prompt that the server built is recognised, with the same summary")
    gone_on = laptop.compact(reload(live).turns(60, first=100))
    print(
        f"  the laptop goes on and compacts again: {laptop.counts()['messages']} messages, {laptop.counts()['nodes']} summaries"
    )
    return gone_on


def killed(postgres: Postgres, laptop: Host, live: Any) -> None:
    """The server dies; the laptop does not notice in its turns."""
    heading("The PostgreSQL server is killed (kill -9)")
    postgres.kill()
    laptop.take(live.user("is anybody there?").says("I am."))
    behind = Background(laptop.member, laptop.health, days=30)
    behind.wake()
    eventually(lambda: bool(behind.state()["error"]))
    print(f"  the turn went on; the server lacks {behind.state()['behind']} rows: {behind.state()['error'][:90]}")
    postgres.start()
    print("  it runs again")
    eventually(lambda: behind.state()["behind"] == 0)
    behind.stop()
    typed(laptop, "fleet verify", laptop.dsn)


def comes_back(server: Host, laptop: Host, live: Any) -> None:
    heading("Back on the server")
    typed(server, "fleet pull", server.dsn)
    check(server.take(reload(live)).stored == 0, "a message was stored twice")
    check(server.thread() == laptop.thread(), "the conversations differ")
    print("  the same thread on both, message by message")


def purged(server: Host, laptop: Host, admin: str) -> None:
    """The operator lets the laptop purge; the words go from the server and from the other host."""
    heading("The laptop may purge, and forgets a secret: a dry run, then for good")
    with psycopg.connect(admin, autocommit=True) as operator:
        operator.execute("GRANT lcm_purger TO lcm_laptop")
    typed(laptop, "purge matching terracotta", laptop.dsn)
    check(found(laptop) and found(server), "the words were gone before the purge")
    typed(laptop, "purge matching terracotta apply", laptop.dsn)
    typed(server, "fleet pull", server.dsn)
    for host in (laptop, server):
        check(not found(host), f"the words are still in {host.folder}")
    with psycopg.connect(admin) as operator:
        left = operator.execute("SELECT count(*) FROM lcm.messages WHERE words @@ 'terracotta'::tsquery").fetchone()
    check(left == (0,), "PostgreSQL still holds the word")
    print("  neither host and no row of PostgreSQL holds the word any more")


def found(host: Host) -> bool:
    """Whether any message or summary of a host's file says the words."""
    rows = [str(row.stored_json) for batch in host.runtime.store.row_batches() for row in batch]
    return any("terracotta" in text for text in rows + [n.text for b in host.dag.node_batches() for n in b])


def stolen(server: Host, stranger: Host) -> None:
    heading("Somebody has the stranger's password, and sends SQL")
    stranger.dsn = Path(stranger.dsn.removeprefix("file:")).read_text(encoding="utf-8").strip()
    for table in ("messages", "nodes", "sessions", "principals"):
        seen = stranger.sql(f"SELECT count(*) FROM lcm.{table}")[0][0]
        print(f"  SELECT count(*) FROM lcm.{table}: {seen}")
        check(seen == 0, f"a stolen role read {table}")
    found = stranger.sql("SELECT * FROM lcm.search(%s, NULL, 10)", ["terracotta", "flowerpot"])
    print(f"  SELECT * FROM lcm.search('terracotta flowerpot'): {len(found)} rows")
    check(not found, "a stolen role searched")
    typed(server, "fleet verify", server.dsn)


def play(folder: Path) -> None:
    """All of it."""
    logging.getLogger("hermes_lcm").addHandler(logging.NullHandler())  # a host's log is a file, not the terminal
    with running() as postgres:
        admin = postgres.database()
        server, laptop, stranger = hosts(folder, admin)
        live = moves(server, laptop)
        killed(postgres, laptop, live)
        comes_back(server, laptop, live)
        stolen(server, stranger)
        purged(server, laptop, admin)
    heading("Everything held")


def attempt(work: Callable[[Path], None]) -> int:
    folder = Path(tempfile.mkdtemp(prefix="lcm-demo-fleet-"))
    try:
        work(folder)
    except (DemoFailedError, AssertionError) as exc:
        print(f"\nFAILED: {exc}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(attempt(play))
