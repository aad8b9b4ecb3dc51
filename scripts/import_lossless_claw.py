#!/usr/bin/env python3
"""
Backfill messages of a lossless-claw (OpenClaw) database into the database of this plugin.

    python scripts/import_lossless_claw.py --source-db ~/.openclaw/path/to/lcm.db --target-db ~/.hermes/lcm.db --agent sammy

shows what it would do; --apply does it, after a backup of the target. It is safe to repeat: under the same --import-id (by
default the path of the source) nothing is imported twice, whatever the mapping. Use a new one for another mapping. --summaries
takes the summaries over too, marked as not verified. Best run while Hermes is stopped for that profile.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def plugin(name: str) -> Any:
    """A module of the plugin, without its folder on the path: it holds a ``tools.py``, as the host does."""
    if "lcm_scripts" not in sys.modules:
        package = types.ModuleType("lcm_scripts")
        package.__path__ = [str(ROOT)]
        sys.modules["lcm_scripts"] = package
    return importlib.import_module(f"lcm_scripts.{name}")


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").strip(), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source-db", required=True, type=Path, help="the lossless-claw database; it is only read")
    parser.add_argument(
        "--target-db", required=True, type=Path, help="the database of this plugin, made if it is not there"
    )
    parser.add_argument("--agent", default="", help="whose sessions they are; part of their names here")
    parser.add_argument("--namespace", default="openclaw-lcm", help="how their names here begin")
    parser.add_argument(
        "--session-identity", default="session_id", choices=("session_id", "session_key"), help="what a session is"
    )
    parser.add_argument(
        "--import-id", default="", help="under this name nothing is imported twice (default: from the source's path)"
    )
    parser.add_argument("--summaries", action="store_true", help="the summaries too")
    parser.add_argument("--apply", action="store_true", help="do it, instead of showing what would be done")
    parser.add_argument("--json", action="store_true", help="print the data instead of text")
    return parser


def main() -> int:
    args = arguments().parse_args()
    verbs = plugin("importers.verbs")
    command = plugin("command")
    try:
        deps = dependencies(args.target_db.expanduser())
        mapped = plugin("importers.openclaw").Mapped(
            args.agent, args.namespace, args.session_identity, args.import_id, args.summaries
        )
        answer = verbs.lossless_claw(
            deps, args.source_db.expanduser(), mapped, apply=args.apply, progress=progress(args)
        )
    except plugin("errors").LcmError as exc:
        answer = command.refused(exc)
    print(json.dumps(answer.data, ensure_ascii=False, indent=2, default=str) if args.json else answer.text)
    return int(answer.code)


def dependencies(target: Path) -> Any:
    """What a command at a terminal works with, on this database."""
    runtime = plugin("runtime").Runtime(target, plugin("config").load(None), plugin("runtime").Process())
    return replace(plugin("command").operator_access(runtime, None, None), trusted=True)


def progress(args: argparse.Namespace) -> Any:
    """A line that counts, where somebody watches."""

    def show(what: str, done: int, total: int) -> None:
        print(f"\r{what} {done:,}{f' of {total:,}' if total else ''}   ", end="", file=sys.stderr, flush=True)

    return plugin("storage.files").silent if args.json or not sys.stderr.isatty() else show


if __name__ == "__main__":
    sys.exit(main())
