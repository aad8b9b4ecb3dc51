#!/usr/bin/env python3
"""
Take docs/pictures/tab-*.webp: the tab in the host's real dashboard, over a conversation that the plugin really compacted.

    .venv/bin/python scripts/gen-screens.py [--out FOLDER] [--turns 420] [--kind png]

A synthetic conversation of an agent at work, a model that answers at once, a window of 64,000 tokens, fixed seeds. Needs the host
and Chromium (apt install chromium). Takes about a minute.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests"), str(ROOT / ".lcm-path")]

import kit  # noqa: E402  - beside this folder, no package
from driving import Agent  # noqa: E402
from host.browser import Browser, dashboard  # noqa: E402
from host.drive import Home  # noqa: E402

WINDOW = 64_000
SESSION = "20260101_090000_screens"
FACTS = (
    "Always run the tests before you commit.", "Our budget for the release is $400.", "The deadline is December 12.",
    "We decided to use PostgreSQL for the new service.", "Our budget for the release is now $450.",
)  # fmt: skip
#: A view, and what it says when it is there.
VIEWS = {
    "now": "The next compaction", "prompt": "What the model saw", "money": "By day",
    "ledger": r"is now \$450", "settings": "context_threshold",
    "doctor": r"\d+ failed",
}  # fmt: skip
_LIGHT = """fetch('/api/dashboard/theme', {method: 'PUT', body: JSON.stringify({name: 'nous-blue'}), headers: {
  'Content-Type': 'application/json', 'X-Hermes-Session-Token': window.__HERMES_SESSION_TOKEN__}})"""


def converse(home: Path, turns: int) -> None:
    """A conversation with compactions, and its requests in the cost ledger."""
    os.environ["HERMES_HOME"] = str(home)
    os.environ |= {"LCM_BACKGROUND_COMPACTION": "false", "LCM_SUMMARY_SPEND_MAX_CALLS": "0", "LCM_LEAF_CHUNK_TOKENS": "8000",
                   "LCM_FOREGROUND_BUDGET_MS": "600000"}  # fmt: skip
    kit.InstantModel().install()
    agent = Agent(SESSION, WINDOW)
    read = 0

    def request(messages: list[kit.Chat]) -> None:
        nonlocal read
        from hermes_lcm.host import facts

        size = facts.rough(messages)
        cached = min(read, size) if size >= read else 0
        usage = {"prompt_tokens": size, "completion_tokens": 200, "cache_read_tokens": cached}
        agent.engine.update_from_response(usage)
        read = size

    turn: list[kit.Chat] = []
    talk = [*kit.Talk(21).history(turns * 4), {"role": "user"}]
    facts = [({"role": "user", "content": fact}, {"role": "assistant", "content": "Understood."}) for fact in FACTS]
    for message in [message for fact in facts for message in fact] + talk:
        if message["role"] == "user" and turn:
            agent.turn(turn, request)
            turn = []
        turn.append(message)
    agent.runtime.save_states()
    agent.close()
    for name in [name for name in os.environ if name.startswith("LCM_")]:
        del os.environ[name]


def take(home: Home, out: Path, kind: str) -> None:
    """Every view once, then one of them at 400 pixels and one in the light theme."""
    with dashboard(home) as address, Browser() as page:
        page.open(f"{address}/lcm")
        page.sees("The window")
        for name, wanted in VIEWS.items():
            page.js(f"location.hash = 'view={name}'")
            page.sees(wanted)
            time.sleep(1)  # the canvas draws behind its data
            page.picture(out / f"tab-{name}.{kind}")
        page.js("location.hash = 'view=exam'")
        page.click("button", "Run the exam now")
        page.sees(r"Run .*, about")
        page.picture(out / f"tab-exam.{kind}")
        page.js("location.hash = 'view=conversation'")
        page.sees("Choose a summary")
        page.js("document.querySelector('.lcm-canvas').focus()")
        page.key("ArrowRight")
        page.sees("What the summary says")
        time.sleep(1)
        page.picture(out / f"tab-summary.{kind}", whole=True)
        page.js("location.hash = 'view=search'")
        page.click("input[type=search]")
        page.type("which ERROR was in the log?")
        page.key("Enter")
        page.sees("Why here")
        page.picture(out / f"tab-search.{kind}")
        page.resize(400, 860)
        page.js("location.hash = 'view=now'")
        page.sees("The next compaction")
        time.sleep(1)
        page.picture(out / f"tab-narrow.{kind}")
        page.resize(1280, 860)
        page.js(_LIGHT)
        page.js("location.hash = 'view=conversation'; location.reload()")
        page.sees("Choose a summary")
        time.sleep(1)
        page.picture(out / f"tab-light.{kind}")
        assert not page.errors, page.errors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--turns", type=int, default=420)
    parser.add_argument("--kind", choices=("webp", "png"), default="webp")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Home.make(Path(folder) / "home", "http://127.0.0.1:9/v1", window=WINDOW)
        converse(home.path, args.turns)
        take(home, args.out, args.kind)
    return 0


if __name__ == "__main__":
    sys.exit(main())
