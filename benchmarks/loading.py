#!/usr/bin/env python3
"""
What the plugin costs before anybody talks: register() in a fresh process, and each copy of the engine.

    python benchmarks/loading.py [--quick] [--json FILE]

Every figure of register() comes from a process of its own, in which the host's plugin machinery (and so everything that any
plugin finds imported) is loaded first. No home, no database and no session exists.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import kit
from kit import SPREAD, Report, spread

CHILD = r"""
import copy, gc, json, os, sys, time
from pathlib import Path
sys.dont_write_bytecode = {cold}
import hermes_cli.plugins as plugins
import agent.context_engine, hermes_cli.config
home = Path(os.environ["HERMES_HOME"])
manager = plugins.PluginManager()
manager._discovered = True
plugins._plugin_manager = manager
folder = Path({folder!r})
manifest = manager._parse_manifest(folder / "plugin.yaml", folder, "user", "")
modules = len(sys.modules)
began, processor = time.perf_counter(), time.process_time()
manager._load_plugin(manifest)
whole, processor = time.perf_counter() - began, time.process_time() - processor
found = manager._plugins[manifest.key or manifest.name]
if found.error or manager._context_engine is None:
    print(json.dumps({{"error": str(found.error or "no engine was registered")}}))
    raise SystemExit
again = time.perf_counter()
module = sys.modules[next(n for n in sys.modules if n.startswith("hermes_plugins.") and n.count(".") == 1)]
engine = manager._context_engine
def fds(): return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else -1
def threads():
    import threading; return threading.active_count()
files = sorted(str(p.relative_to(home)) for p in home.rglob("*") if p.is_file() and "lcm" in p.name)
out = {{"register": whole, "processor": processor, "modules": len(sys.modules) - modules, "files": files}}
def clone(): return copy.deepcopy(engine)
clone()
before = (fds(), threads())
times, kept = [], []
for _ in range({copies}):
    gc.disable(); t = time.perf_counter(); kept.append(clone()); times.append(time.perf_counter() - t); gc.enable()
out["copies"] = times
out["fresh"] = [b - a for a, b in zip(before, (fds(), threads()))]
# copies that are all bound to sessions with something stored
def use(n, engine):
    engine.on_session_start(f"20260101_{{n:06d}}_copy", platform="cli")
    engine.update_model(model="m", context_length=128000)
    messages = [{{"role": "user", "content": f"hello {{n}}"}}, {{"role": "assistant", "content": "hi"}}]
    manager.invoke_hook("pre_api_request", session_id=f"20260101_{{n:06d}}_copy", conversation_history=messages, platform="cli")
use(0, kept[0])
one = (fds(), threads())
starts = []
for n, copied in enumerate(kept[1:51], 1):
    t = time.perf_counter(); use(n, copied); starts.append(time.perf_counter() - t)
out["bound"] = [b - a for a, b in zip(one, (fds(), threads()))]
out["bound count"] = len(starts)
print(json.dumps(out))
"""
FLOOR = r"""
import json, sys, time
import hermes_cli.plugins, agent.context_engine, hermes_cli.config
t = time.perf_counter()
import sqlite3, zlib
print(json.dumps({"floor": time.perf_counter() - t}))
"""


def child(code: str, folder: Path) -> dict[str, Any]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LCM_", "HERMES_"))} | {"HERMES_HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300, cwd=folder
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {"error": done.stderr.strip()[-600:] or "no answer"}


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--plugin", type=Path, default=kit.ROOT, help="plugin folder (default: this checkout)")
    args = parser.parse_args()
    report = Report("loading", "register() and engine copies", args.quick)
    register: list[float] = []
    processor: list[float] = []
    copies: list[float] = []
    last: dict[str, Any] = {}
    for n in range(5 if args.quick else 30):
        with tempfile.TemporaryDirectory(prefix="lcm-bench-") as folder:
            code = CHILD.format(folder=str(args.plugin), copies=100 if args.quick else 200, cold=False)
            found = child(code, Path(folder))
        if "error" in found:
            report.note(f"skipped: the plugin does not load: {found['error']}")
            return report.finish(args.json)
        if n:  # the first process also writes the bytecode of a changed checkout
            register.append(found["register"])
            processor.append(found["processor"])
            copies += found["copies"]
        last = found
    rows = [
        ["register(), a process each", *spread(register)],
        ["its processor time", *spread(processor)],
        ["deepcopy of the engine", *spread(copies)],
    ]
    report.table("Loading without an active session", ("", *SPREAD), rows)
    report.table(
        "What it holds", ("", "figure"),
        [["modules imported by register()", last["modules"]], ["files of ours made by register()", len(last["files"])],
         ["file descriptors of 100 or more unused copies", last["fresh"][0]], ["threads of them", last["fresh"][1]],
         [f"file descriptors of {last['bound count']} more copies with sessions of their own", last["bound"][0]],
         ["threads of them", last["bound"][1]]],
    )  # fmt: skip
    report.budget("register(): median ms", 1000 * statistics.median(register), 50)
    report.budget("register(): median ms of processor time", 1000 * statistics.median(processor), 50)
    report.budget("engine copy: median ms", 1000 * statistics.median(copies), 1)
    report.budget("engine copy: p99 ms", 1000 * kit.at(copies, 0.99), 1)
    report.budget("descriptors of further copies in use", last["bound"][0], 0)
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
