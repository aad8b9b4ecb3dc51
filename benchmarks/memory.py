#!/usr/bin/env python3
"""
How much memory has a process that took in a million messages in 1,000 sessions?

    python benchmarks/memory.py [--messages 200000] [--quick] [--json FILE] [--where FOLDER]

As a gateway does it: each session has an agent, says its 1,000 messages in ten requests, and never ends, for nobody ends a chat.
The messages are read from a file each time, so whatever is still in memory afterwards is kept by the plugin. Measured is the
memory of the process after each tenth; the first tenth is what an agent needs, all that follows is growth.
"""

from __future__ import annotations

import gc
import sys
import tempfile
from pathlib import Path

import kit
from driving import Agent, hook
from kit import InstantModel, Report, home, reloaded
from million import SESSION, messages_of, name_of
from soak import resident

LIMIT_MB = 200
REQUESTS = 10


def talk(agent: Agent, session: int) -> None:
    """One session: its messages in ten requests, each with a list of its own, as a gateway reads it from its database."""
    said = messages_of(session, {})
    agent.engine.on_session_start(name_of(session), platform="cli")
    for end in range(SESSION // REQUESTS, SESSION + 1, SESSION // REQUESTS):
        hook("pre_api_request", name_of(session), reloaded(said[:end]))
    hook("post_llm_call", name_of(session), reloaded(said))


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--messages", type=int, default=0)
    args = parser.parse_args()
    sessions = max(10, (args.messages or (20_000 if args.quick else 200_000)) // SESSION)
    report = Report(
        "memory", f"a process that takes in {sessions * SESSION:,} messages in {sessions} sessions", args.quick
    )
    with home(args.where or Path(tempfile.gettempdir())):
        InstantModel().install()
        agent = Agent(name_of(0))
        rows: list[list[object]] = [["nothing", round(resident(), 1)]]
        for session in range(sessions):
            talk(agent, session)
            if (session + 1) % (sessions // 10) == 0:
                gc.collect()
                rows.append([f"{session + 1} sessions", round(resident(), 1)])
                print(rows[-1], file=sys.stderr, flush=True)
        stored = agent.runtime.store.count()
        agent.close()
    report.table("Memory of the process", ("after", "MB"), rows)
    report.budget("messages that are not stored", sessions * SESSION - stored, 0)
    report.budget("MB at the end", float(str(rows[-1][1])), LIMIT_MB)
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
