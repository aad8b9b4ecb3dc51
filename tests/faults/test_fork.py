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

_FORK_AGAIN = """
import os, signal, threading
from hermes_lcm.engine import LCMEngine
from hermes_lcm.plugin import hooks
def says(name):
    hooks.pre_api_request(session_id=name, platform="cli", conversation_history=[{"role": "user", "content": "hi"}])
def forked(does):
    child = os.fork()
    if not child:
        signal.alarm(20)
        does()
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
def child():
    says("child")
    forked(lambda: says("grandchild"))
    thread = threading.Thread(target=says, args=("thread of the child",))
    thread.start()
    thread.join()
engine = LCMEngine()
engine.on_session_start("s", platform="cli")
says("parent")
forked(child)
says("parent again")
os._exit(0)
"""


def test_a_child_that_forks_goes_on(hermes_home: Path) -> None:
    """What is held for a fork is let go once, in every generation."""
    assert ran(_FORK_AGAIN, hermes_home) == ["0", "0"]
    host = Host(hermes_home)
    host.says(chat().turns(1))
    sessions = {row[0] for row in host.runtime.db.query("SELECT session_id FROM sessions")}
    host.close()
    assert {"parent", "child", "grandchild", "thread of the child", "parent again"} <= sessions


def ran(program: str, home: Path) -> list[str]:
    """Words that a process on a home prints."""
    environment = {**os.environ, "PYTHONPATH": str(HERE / ".lcm-path"), "HERMES_HOME": str(home)}
    run = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert not run.returncode, run.stderr[-800:]
    return run.stdout.split()


def test_a_child_of_a_busy_process_stores_what_it_is_shown(hermes_home: Path) -> None:
    """Locks of threads that are not there any more hold it up for ever otherwise."""
    assert ran(_FORK, hermes_home) == ["0"] * 10
    host = Host(hermes_home)
    host.says(
        chat().turns(1)
    )  # a child that met a locked file stored in a stand-in, which the next turn of anybody merges
    sessions = {row[0] for row in host.runtime.db.query("SELECT session_id FROM sessions")}
    assert {f"child-{n}" for n in range(10)} <= sessions
