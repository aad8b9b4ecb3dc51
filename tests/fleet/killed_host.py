"""
A host that talks without an end, for tests that kill it: ``python killed_host.py HOME DSN NAME``; each stored turn is told.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path


def main(home: str, dsn: str, name: str) -> None:
    """A session for each life; a line on stdout once its turn is stored."""
    from hermes_lcm.config import load
    from hermes_lcm.runtime import Process, Runtime

    runtime = Runtime(Path(home) / "lcm.db", load({"LCM_FLEET_DSN": dsn}), Process())
    life = time.time_ns()
    session = f"{name}-{life}"
    runtime.announce(session, platform="cli", owner="local")
    live: list[dict[str, object]] = []
    for n in range(100_000):
        said = f"{name} {life} {n}"
        live += [{"role": "user", "content": f"{said} asks"}, {"role": "assistant", "content": f"{said} answers"}]
        runtime.ingest_list(session, live)
        print(said, flush=True)
        time.sleep(0.005)


if __name__ == "__main__":
    main(*sys.argv[1:])
