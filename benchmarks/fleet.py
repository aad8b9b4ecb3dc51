#!/usr/bin/env python3
"""
Several hosts on one PostgreSQL server of this machine: rows a second, how late they arrive, searches, room, the cost of idling.

    python benchmarks/fleet.py [--quick] [--json FILE] [--hosts 4] [--conversations 10] [--messages 2000] [--rows 1000000]

Each host is a process with a file and a role of its own. The server shares the processors with them, writes to memory
(/dev/shm) and does not wait for a disk: rows a second are those of the processors. For searches the server's table is filled by
SQL up to so many rows, with words as rare as in a language; what a search on an empty host brings is measured on a public
question set (LCM_DATA).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import kit
from kit import SPREAD, Report, spread

kit.importable()
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))  # behind ours: it has a `recall` too

import psycopg  # noqa: E402
from worlds.postgres import Postgres, running  # noqa: E402

IDLE_S = 30.0
FILL = """
WITH made AS (
  SELECT n, array(SELECT DISTINCT 'w' || floor(20000 * power(random(), 3))::int FROM generate_series(1, 40) WHERE n > 0) AS w
    FROM generate_series(%(first)s, %(last)s) AS n
)
INSERT INTO lcm.messages SELECT c.conversation, c.owner, 90000000000 + n, 's', n, n, 'user', NULL, NULL,
       decode(md5(n::text), 'hex'), 60, 240, NULL, n, 'bench', 0, NULL, decode(repeat(md5(n::text), 10), 'hex'),
       array_to_tsvector(w)
  FROM made JOIN lcm.conversations c ON c.conversation = 1 + n %% %(conversations)s
"""


def runtime(folder: Path, dsn: str, **settings: str) -> Any:
    from hermes_lcm.config import load
    from hermes_lcm.runtime import Process, Runtime

    folder.mkdir(exist_ok=True)
    return Runtime(folder / "lcm.db", load({"LCM_FLEET_DSN": dsn, **settings}), Process())


def host(folder: str, dsn: str, conversations: str, messages: str) -> None:
    """One host: fills its file, says so, waits for the word, pushes, and tells its seconds."""
    made = runtime(Path(folder), dsn, LCM_FLEET_PULL_DAYS="0")
    talk = kit.Talk(hash(folder) % 1000)
    count = int(messages) // int(conversations)
    for n in range(int(conversations)):
        live = [{"role": ("user", "assistant")[k % 2], "content": talk.prose(240)} for k in range(count)]
        made.announce(f"{folder}-{n}", platform="cli", owner="local")
        made.ingest.ingest_list(made.session(f"{folder}-{n}"), live, source="cli")
    print("filled", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    out = made.fleet.member.push()
    print(json.dumps({"rows": out.messages, "seconds": time.perf_counter() - began}), flush=True)


class Shared:
    """A database with the schema, and roles on it."""

    def __init__(self, server: Postgres) -> None:
        from hermes_lcm.config import Secret
        from hermes_lcm.fleet.server import Server, add_host, migrate

        self.admin, self.server = server.database(), server
        self._server, self._add = Server(Secret(self.admin)), add_host
        with self._server.connected() as connection:
            migrate(connection)

    def role(self, name: str, realm: str) -> str:
        with self._server.connected() as connection:
            self._add(connection, f"lcm_{name}", "bench", realm, ("%",))
        return self.server.dsn(f"lcm_{name}", "bench", self.admin.rpartition("/")[2])

    def ask(self, sql: str, *values: Any) -> Any:
        with psycopg.connect(self.admin, autocommit=True) as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchone()[0] if cursor.description else None  # type: ignore[index]


def pushing(report: Report, shared: Shared, where: Path, hosts: int, conversations: int, messages: int) -> None:
    rows = []
    for count in sorted({1, hosts}):
        given = [
            (str(where / f"{count}-{n}"), shared.role(f"p{count}_{n}", f"r{n}"), str(conversations), str(messages))
            for n in range(count)
        ]
        running = [
            subprocess.Popen(
                [sys.executable, __file__, "--host", *each], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for each in given
        ]
        assert all(each.stdout and each.stdout.readline() == "filled\n" for each in running)
        began = time.perf_counter()
        for each in running:
            each.stdin.write("go\n")  # type: ignore[union-attr]
            each.stdin.flush()  # type: ignore[union-attr]
        told = [json.loads(each.stdout.readline()) for each in running]  # type: ignore[union-attr]
        seconds = time.perf_counter() - began
        total = sum(each["rows"] for each in told)
        rows.append([count, conversations, messages, total, round(total / seconds)])
        for each in running:
            each.wait()
    columns = ("hosts", "conversations each", "messages each", "pushed", "messages a second, all hosts")
    report.table("A first push", columns, rows, "messages of 240 characters; words, policies and keys included")
    size = shared.ask(
        "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'lcm.messages'::regclass"
    )
    count = shared.ask("SELECT count(*) FROM lcm.messages")
    index = shared.ask(
        "SELECT sum(pg_indexes_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'lcm.messages'::regclass"
    )
    row = [count, round(size / count), round(index / count), 240]
    report.table("Bytes on the server", ("messages", "a message", "of it indexes", "characters said"), [row])


def lag(report: Report, shared: Shared, where: Path, turns: int) -> None:
    made = runtime(where / "lag", shared.role("lag", "lag"))
    made.announce("lag", platform="cli", owner="local")
    live: list[dict[str, str]] = []
    seconds, held = [], []
    with psycopg.connect(shared.admin, autocommit=True) as admin:
        sql = (
            "SELECT count(*) FROM lcm.messages"
            " WHERE conversation IN (SELECT conversation FROM lcm.sessions WHERE session_id = 'lag')"
        )
        for n in range(turns):
            live += [{"role": "user", "content": f"turn {n}"}, {"role": "assistant", "content": "yes"}]
            held.append(kit.timed(made.ingest_list, "lag", live))
            began = time.perf_counter()
            while admin.execute(sql).fetchone()[0] < len(live):  # type: ignore[index]
                time.sleep(0.002)
            seconds.append(time.perf_counter() - began)
    report.table(
        "A turn", ("", *SPREAD), [["the turn was held", *spread(held)], ["later on the server", *spread(seconds)]]
    )
    began, wall = time.process_time(), time.perf_counter()
    time.sleep(IDLE_S)
    share = (time.process_time() - began) / (time.perf_counter() - wall)
    report.table(
        "An idle host", ("processor, per cent",), [[round(100 * share, 3)]], f"{IDLE_S:.0f} s with a look every 15 s"
    )
    made.fleet.stop()


def fill(admin: str, first: int, last: int, conversations: int) -> None:
    """Rows of the server's table made by SQL, from `first` to `last`."""
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(FILL, {"first": first, "last": last, "conversations": conversations})


def searching(report: Report, shared: Shared, sizes: list[int]) -> None:
    """The server's part of a search, at several sizes of the table."""
    dsn, done, rows = shared.role("p1_0", "r0"), 0, []
    conversations = shared.ask("SELECT count(*) FROM lcm.conversations WHERE conversation <= 10")
    with psycopg.connect(shared.admin, autocommit=True) as admin, psycopg.connect(dsn, autocommit=True) as role:
        for size in sizes:
            began = time.perf_counter()
            parts = [(n + 1, min(n + 50_000, size)) for n in range(done, size, 50_000)]
            with ThreadPoolExecutor(2) as fillers:
                list(fillers.map(lambda part: fill(shared.admin, *part, conversations), parts))
            done = size
            filled = time.perf_counter() - began
            admin.execute("VACUUM ANALYZE lcm.messages")
            times = []
            for n in range(60):
                words = [f"w{(7919 * n * k) % 20000}" for k in (1, 3, 11, 29)]
                times.append(
                    kit.timed(
                        lambda words=words: role.execute("SELECT * FROM lcm.search(%s, NULL, 200)", (words,)).fetchall()
                    )
                )
            size_now = shared.ask("SELECT count(*) FROM lcm.messages")
            rows.append([size_now, *spread(times), round(1000 * kit.at(times, 0.95), 1), round(filled, 1)])
    columns = ("messages", *SPREAD, "p95 ms", "s to fill")
    report.table("The server's part of a search, four words", columns, rows)


def score(host: Any, question: Any, texts: dict[str, str]) -> float:
    """Share of a question's evidence among the first ten messages of a search of everything."""
    from hermes_lcm.recall.grep import Ask, grep
    from hermes_lcm.recall.paging import Room
    from hermes_lcm.search.scope import Rights

    caller = host.access(None, Rights(None), trusted=True)
    ask = Ask(question.question, chosen=caller.choose("all"), scope="messages", limit=10)
    addresses = [str(hit.get("address", "")) for hit in grep(caller, ask, Room.of(30_000))["results"]]
    rows = host.store.rows([int(each[4:]) for each in addresses if each.startswith("msg_")])
    found = {row.text for row in rows}
    return sum(texts[each] in found for each in question.evidence if each in texts) / len(question.evidence)


def recalling(report: Report, shared: Shared, where: Path, questions: int) -> None:
    """R@10 where everything is here, and on a host that has nothing and asks the server."""
    import recall

    folder = kit.data_folder()
    if folder is None or not (folder / "locomo").is_dir():
        report.note("no question set here: recall across the fleet was not measured")
        return
    home = runtime(where / "all", shared.role("all", "quiz"), LCM_FLEET_PULL_DAYS="0")
    asked, said = [], {}
    for name, docs, each in recall.locomo(folder / "locomo"):
        home.announce(name, platform="cli", owner="local")
        home.ingest_list(name, recall.as_chat(docs)[0])
        said[name] = {doc.name: doc.text for doc in docs}
        asked += [(name, question) for question in each]
    home.fleet.stop()
    home.fleet.member.push()
    here, there, times, came = [], [], [], []
    bare = runtime(where / "all", "")
    for n, (name, question) in enumerate(asked[:: max(1, len(asked) // questions)][:questions]):
        far = runtime(where / f"far{n}", shared.role(f"far{n % 4}", "quiz"), LCM_FLEET_PULL_DAYS="0")
        far.fleet.member.push()
        here.append(score(bare, question, said[name]))
        began = time.perf_counter()
        there.append(score(far, question, said[name]))
        times.append(time.perf_counter() - began)
        came.append(far.store.count())
        far.db.close()
        far.fleet.member.close()
    local, fetched = sum(here) / len(here), sum(there) / len(there)
    rows = [[len(here), round(local, 4), round(fetched, 4), *spread(times)[2:], round(sum(came) / len(came))]]
    columns = ("questions", "R@10 local", "R@10 empty host", *SPREAD[2:], "messages fetched")
    report.table(
        "The first search of an empty host", columns, rows, "over all conversations; the time includes fetching them"
    )
    report.budget("R@10 of an empty host against local", fetched / max(local, 1e-9), 0.95, least=True)


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--host", nargs=4, help="one host of a push; the benchmark starts these itself")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--conversations", type=int, default=10, help="of each host")
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    args = parser.parse_args()
    if args.host:
        host(*args.host)
        return 0
    report = Report("fleet", "hosts that share a PostgreSQL server", args.quick)
    with running() as server, tempfile.TemporaryDirectory(dir=args.where) as folder:
        shared, where = Shared(server), Path(folder)
        pushing(report, shared, where, args.hosts, args.conversations, 500 if args.quick else args.messages)
        lag(report, shared, where, 20 if args.quick else 200)
        recalling(report, shared, where, 5 if args.quick else 40)
        searching(report, shared, [50_000] if args.quick else sorted({100_000, 1_000_000, args.rows}))
    each = args.messages // args.conversations
    report.note(f"{args.hosts} hosts x {args.conversations} conversations x {each:,} messages")
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
