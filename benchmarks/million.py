#!/usr/bin/env python3
"""
Does search tell the truth in an archive of a million messages, and how fast?

    python benchmarks/million.py [--messages 1000000] [--where /tmp/lcm-million] [--most-seconds 500] [--json FILE]

Builds the archive in parts: each call goes on where the last one stopped, until the time is over. Sessions of 1,000 short
messages of common words; needles of eight kinds are planted in the first sessions, in the middle and in the last ones. Once all
is there, every needle is looked for in five ways and within every filter, and common words in small scopes are counted. What was
asked and found, with seconds, is kept beside the archive as raw-SIZE.json.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import kit
from driving import Agent, hook
from kit import Chat, InstantModel, Report

SESSION = 1000
DAY = 86_400.0
BEGAN = 1_700_000_000.0
COMMON = (
    "deploy fail schema error config branch worker queue cache index review output request token check handler release test "
    "code merge issue change remove file user service build server client update value page table query node list time "
    "remove the from to of and a in is it for on with that this"
).split()
PLACES = {"start": 0.0025, "middle": 0.5, "end": 0.99}
GOALS_MS = (60.0, 300.0)
RARE_MS = 5.0


class Needle(NamedTuple):
    """A message that must be found: its session, place and text, and the ways to look for it."""

    kind: str
    place: str
    session: int
    at: int
    text: str
    asks: tuple[dict[str, Any], ...]


def needles(sessions: int) -> Iterator[Needle]:
    """Eight kinds at three places."""
    for place, share in PLACES.items():
        rng = random.Random(place)
        session = min(sessions - 1, int(share * sessions))
        word = "".join(rng.choices("bcdfghklmnprstvz", k=3)) + "".join(rng.choices("aeiou", k=2)) + "qz"
        number, name = rng.randint(10**6, 10**7), f"{word}Handler_retry"
        path, code = f"src/{word}/index-{number % 97}.md", f"TLS_{word.upper()}_ALTNAME_{number % 9973}"
        ident = str(uuid.UUID(int=rng.getrandbits(128)))
        phrase = " ".join(random.Random(f"{place} phrase").sample(COMMON[:30], 6))
        chinese = "".join(rng.sample("数据库密码轮换周期负责备份方案测试环境部署", 8))
        part = " ".join(phrase.split()[:5])
        each: dict[str, tuple[str, list[str], str]] = {
            "sentence": (f"the {word} lives beside the river {number}",
                         [f"where does the {word} live", f"{word} river", f'"beside the river {number}"', f"{word}*"],
                         rf"{word} lives\s+\w+"),
            "path": (f"see {path} for it", [path, f'"{path}"', f"what is in {path}", path.rsplit("/", 1)[1]], rf"src/{word}/\w+"),
            "error code": (f"it said {code} again", [code, f'"{code}"', f"what does {code} mean", code.lower()],
                           rf"TLS_{word.upper()}_\w+_\d+"),
            "uuid": (f"request {ident} failed", [ident, f'"{ident}"', ident[:8], f"request {ident}"], ident[:8]),
            "identifier": (f"call {name} now", [name, f'"{name}"', f"{word}Handler", f"who calls {name}"], rf"{word}Handler_\w+"),
            "number": (f"the total is {number}", [str(number), f'"{number}"', f"what was {number}", f"total {number}"],
                       rf"total is {number}"),
            "common phrase": (f"{phrase} today", [f'"{phrase}"', phrase, f'"{part}"', f"{phrase} today"],
                              phrase.replace(" ", r"\s+")),
            "Chinese": (f"他说{chinese}。", [chinese, f'"{chinese}"', chinese[:4], chinese[2:7]], chinese[:5]),
        }  # fmt: skip
        for n, (kind, (text, queries, pattern)) in enumerate(each.items()):
            asks = [*({"query": query} for query in queries), {"query": pattern, "mode": "regex"}]
            yield Needle(kind, place, session, 100 + 50 * n, text, tuple(asks))


def name_of(session: int) -> str:
    return f"20240101_{session:06d}_million"


def messages_of(session: int, planted: dict[int, list[Needle]]) -> list[Chat]:
    """A session of short messages of common words, with what is planted in it."""
    rng = random.Random(session)
    texts = [" ".join(rng.choices(COMMON, k=rng.randint(15, 45))) for _ in range(SESSION)]
    for needle in planted.get(session, ()):
        texts[needle.at] = f"{texts[needle.at][:60]} {needle.text}"
    begin = BEGAN + session * DAY / 10
    return [
        {"role": "assistant" if n % 2 else "user", "content": text, "timestamp": begin + 5 * n}
        for n, text in enumerate(texts)
    ]


def build(agent: Agent, sessions: int, planted: dict[int, list[Needle]], deadline: float) -> int:
    """As many of the missing sessions as the time allows; how many there are now."""
    database = agent.runtime.db
    done = int(database.query("SELECT count(*) FROM sessions WHERE session_id LIKE '%_million'")[0][0])
    for session in range(done, sessions):
        if time.monotonic() > deadline:
            return session
        agent.engine.on_session_start(name_of(session), platform="cli")
        hook("pre_api_request", name_of(session), messages_of(session, planted))
        agent.runtime.ingest.forget_all()
        if session % 20 == 19:
            print(f"{session + 1} of {sessions} sessions", flush=True)
    return sessions


class Asker:
    """Asks, times, and keeps what came."""

    def __init__(self, agent: Agent) -> None:
        from hermes_lcm import tools
        from hermes_lcm.search.scope import Rights

        runtime = agent.runtime
        access = runtime.access(runtime.sessions.find(agent.session_id), Rights())  # as somebody at this machine
        self._call = partial(tools.call, access, "lcm_grep")
        self.raw: list[dict[str, Any]] = []

    def ask(self, kind: str, what: str, wanted: int | None = None, **arguments: Any) -> dict[str, Any]:
        began = time.perf_counter(), time.thread_time()
        given = {"scope": "messages", "format": "json", "limit": 20, **arguments}
        answer: dict[str, Any] = json.loads(self._call(given).text)
        seconds, worked = time.perf_counter() - began[0], time.thread_time() - began[1]
        ids = [hit["store_id"] for hit in answer.get("results", ())]
        self.raw.append(
            {"kind": kind, "what": what, "arguments": arguments, "seconds": seconds, "worked": worked,
             "found": wanted in ids if wanted else None,
             "hits": len(ids), "total": answer.get("total_results"), "bound": answer.get("total_is_lower_bound", False),
             "notes": answer.get("notes", []), "error": answer.get("error")}
        )  # fmt: skip
        return answer


def small_scopes(asker: Asker, sessions: int) -> list[list[object]]:
    """What common words find in one session, and within its time; a total that is not cut."""
    rows: list[list[object]] = []
    for session in (0, 3, sessions // 2, sessions - 1):
        begin = BEGAN + session * DAY / 10
        times = {"time_from": begin - 1, "time_to": begin + 5 * SESSION + 1, "session_scope": "all"}
        for query in ("error", "deploy fail schema", '"cache index"'):
            one = asker.ask("small scope", "session", query=query, session_id=name_of(session), limit=200)
            other = asker.ask("small scope", "time", query=query, limit=200, **times)
            rows.append(
                [
                    f"{query} in session {session}",
                    one["total_results"],
                    other["total_results"],
                    len(one["results"]),
                    len(other["results"]),
                ]
            )
    return rows


def hunt(asker: Asker, planted: list[Needle], ids: dict[tuple[int, int], int]) -> list[list[object]]:
    """Every needle in five ways, and by every filter."""
    found: dict[str, list[bool]] = defaultdict(list)
    for needle in planted:
        wanted = ids[needle.session, needle.at]
        begin = BEGAN + needle.session * DAY / 10
        filters = {
            "everything": {"session_scope": "all"},
            "session": {"session_id": name_of(needle.session)},
            "time": {"session_scope": "all", "time_from": begin - 1, "time_to": begin + DAY / 10},
            "role": {"session_scope": "all", "role": "assistant" if needle.at % 2 else "user"},
            "source": {"session_scope": "all", "source": "cli"},
        }
        for name, filtered in filters.items():
            for n, ask in enumerate(needle.asks):
                limits = {} if n == 4 else {"limit": 20}
                answer = asker.ask(
                    needle.kind, f"{needle.place}, {name}, way {n + 1}", wanted, **ask, **filtered, **limits
                )
                hit = wanted in [each["store_id"] for each in answer.get("results", ())]
                for _ in range(12):  # a regex goes on from its cursor
                    if hit or n < 4 or not answer.get("next_cursor"):
                        break
                    answer = asker.ask(needle.kind, "goes on", wanted, **ask, **filtered, cursor=answer["next_cursor"])
                    hit = wanted in [each["store_id"] for each in answer.get("results", ())]
                found[f"{needle.kind}, {needle.place}"].append(hit)
    return [[what, sum(hits), len(hits)] for what, hits in found.items()]


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--most-seconds", type=float, default=500.0)
    args = parser.parse_args()
    sessions = max(4, (20_000 if args.quick else args.messages) // SESSION)
    import os

    home = args.where or Path("/tmp/lcm-million")
    home.mkdir(parents=True, exist_ok=True)
    os.environ["HERMES_HOME"] = str(home)
    InstantModel().install()
    planted: dict[int, list[Needle]] = defaultdict(list)
    for needle in needles(sessions):
        planted[needle.session].append(needle)
    agent = Agent("20260101_000000_none")
    done = build(agent, sessions, planted, time.monotonic() + args.most_seconds)
    report = Report("million", f"search in {sessions * SESSION:,} messages", args.quick)
    if done < sessions:
        report.note(f"{done} of {sessions} sessions are there; the same call goes on")
        return report.finish(args.json)
    agent.session_id = name_of(sessions - 1)
    agent.runtime.store.index_waiting(seconds=60)
    every = [needle for of in planted.values() for needle in of]
    sql = (
        "SELECT min(store_id) FROM messages WHERE session_key = (SELECT session_key FROM sessions WHERE session_id = ?)"
    )
    firsts = {session: agent.runtime.db.query(sql, (name_of(session),))[0][0] for session in planted}
    ids = {(needle.session, needle.at): firsts[needle.session] + needle.at for needle in every}
    asker = Asker(agent)
    report.table("Needles found", ("kind and place", "found", "asked"), hunt(asker, every, ids))
    head = ("query", "total in session", "total within its time", "shown of session", "shown of time")
    report.table("Common words in small scopes", head, small_scopes(asker, sessions))
    rows: list[list[object]] = []
    for kind in dict.fromkeys(each["kind"] for each in asker.raw):
        clock, worked = (
            sorted(1000 * each[what] for each in asker.raw if each["kind"] == kind) for what in ("seconds", "worked")
        )
        middle, late = statistics.median(worked), worked[int(len(worked) * 0.95)]
        by_clock = statistics.median(clock), clock[int(len(clock) * 0.95)]
        rows.append([kind, len(worked), *(round(n, 1) for n in (*by_clock, middle, late, worked[-1]))])
        report.budget(f"{kind}: median ms", middle, GOALS_MS[0])
        report.budget(f"{kind}: p95 ms", late, GOALS_MS[1])
    head = ("kind", "asked", "clock p50 ms", "clock p95 ms", "processor p50 ms", "p95 ms", "most ms")
    report.table("Time", head, rows)
    raw = home / f"raw-{sessions * SESSION}.json"
    raw.write_text(json.dumps({"at": datetime.now(UTC).isoformat(), "asked": asker.raw}, ensure_ascii=False, indent=1))
    report.note(f"raw output: {raw.name}")
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
