"""The child of a fork works, whatever the threads of its parent held at that moment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from worlds.breaking import Host
from worlds.process import chat

HERE = Path(__file__).resolve().parents[2]
_FORK = """
import os, signal, sys, threading, time
from hermes_lcm.engine import LCMEngine
from hermes_lcm.plugin import hooks
engine = LCMEngine()
engine.on_session_start("s", platform="cli")
stop = threading.Event()
def busy(name):
    live = []
    while not stop.is_set():
        live = [*live[-40:], {"role": "user", "content": f"{name} {len(live)} {time.time()}"}]
        hooks.pre_api_request(session_id=name, conversation_history=live, platform="cli")
threads = [threading.Thread(target=busy, args=(f"busy-{n}",), daemon=True) for n in range(3)]
for thread in threads:
    thread.start()
time.sleep(0.2)
for n in range(10):
    time.sleep(0.01)
    child = os.fork()
    if not child:
        signal.alarm(20)
        hooks.pre_api_request(session_id=f"child-{n}", platform="cli", conversation_history=[{"role": "user", "content": "hi"}])
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
stop.set()
for thread in threads:
    thread.join(20)
os._exit(0)
"""


def test_a_child_of_a_busy_process_stores_what_it_is_shown(hermes_home: Path) -> None:
    """Locks of threads that are not there any more hold it up for ever otherwise."""
    environment = {**os.environ, "PYTHONPATH": str(HERE / ".lcm-path"), "HERMES_HOME": str(hermes_home)}
    run = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", _FORK],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert run.stdout.split() == ["0"] * 10, run.stderr[-800:]
    host = Host(hermes_home)
    host.says(
        chat().turns(1)
    )  # a child that met a locked file stored in a stand-in, which the next turn of anybody merges
    sessions = {row[0] for row in host.runtime.db.query("SELECT session_id FROM sessions")}
    assert {f"child-{n}" for n in range(10)} <= sessions
