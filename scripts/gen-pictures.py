#!/usr/bin/env python3
"""
Draw docs/pictures/*.svg from a conversation that the plugin really compacts: the size of each request, and what summaries cover.

    .venv/bin/python scripts/gen-pictures.py [--out FOLDER]

A synthetic conversation of an agent at work, a model that answers at once, a window of 64,000 tokens, fixed seeds. Needs the
host, whose estimate decides when a compaction begins. Takes some seconds; writes no number that was not measured in this run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import kit  # noqa: E402  - beside this folder, no package
from driving import Agent  # noqa: E402

WINDOW, TURNS = 64_000, 420
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 380, 78, 20, 64, 46
INK, GREY, PAPER = "#1f2328", "#8c959f", "#ffffff"
RAW, SUMMARY, LINE, LIMIT = "#9ec5e8", "#f2b66d", "#57606a", "#cf222e"
DEPTHS = ("#f7d9ae", "#f2b66d", "#d98a2b", "#a85f10")


@dataclass
class Run:
    """What was seen: per request (whole conversation, of it in summaries, of it raw), and the nodes at the end."""

    requests: list[tuple[int, int, int]] = field(default_factory=list)
    nodes: list[Any] = field(default_factory=list)
    roots: set[int] = field(default_factory=set)
    tail: tuple[int, int] = (0, 0)
    threshold: int = 0
    messages: int = 0
    compactions: int = 0


def drive() -> Run:
    """One conversation from its first message to its last."""
    from hermes_lcm.host import facts
    from hermes_lcm.text import markup

    out = Run()
    whole = 0
    kit.InstantModel().install()
    settings = {"background_compaction": "false", "summary_spend_max_calls": 0, "foreground_budget_ms": 600_000,
                "leaf_chunk_tokens": 8000}  # fmt: skip
    with kit.home(Path(tempfile.gettempdir()), **settings):
        agent = Agent("20260101_000000_picture", WINDOW)
        out.threshold = agent.engine.threshold_tokens

        def request(messages: list[kit.Chat]) -> None:
            first = markup.read_context(str(messages[0].get("content") or ""))
            summaries = facts.rough(messages[:1]) if first is not None else 0
            out.requests.append((whole, summaries, facts.rough(messages) - summaries))

        talk, turn = kit.Talk(21).history(TURNS * 4), []
        for message in [*talk, {"role": "user"}]:
            if message["role"] == "user" and turn:
                agent.turn(turn, request)
                turn = []
            whole += facts.rough([message])
            turn.append(message)
        assembly = agent.runtime.dag.latest_assembly(1)
        out.nodes = [node for batch in agent.runtime.dag.node_batches() for node in batch]
        out.roots, out.messages = set(assembly.roots), agent.runtime.store.last_seq(1)
        raw = assembly.tail_ids
        out.tail, out.compactions = (min(raw), out.messages), len(agent.compactions)
        agent.close()
    return out


# -- drawing -------------------------------------------------------------------------------------------------------------
class Picture:
    """One SVG with axes."""

    def __init__(self, title: str, about: str, x_most: float, y_most: float) -> None:
        self._x, self._y = x_most, y_most
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-size="12"',
            f' font-family="system-ui, sans-serif" fill="{INK}">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(about)}</desc>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{PAPER}"/>',
            f'<text x="{LEFT}" y="26" font-size="15" font-weight="600">{escape(title)}</text>',
        ]

    def x(self, value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * value / self._x, 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self._y, 1)

    def axes(self, x_name: str, x_step: int, y_step: int, y_unit: str) -> None:
        for value in range(0, int(self._y) + 1, y_step):
            self.line([(0, value), (self._x, value)], "#d8dee4", 1)
            said = f"{value // 1000}k" if y_unit == "k" else str(value)
            self.text(LEFT - 8, self.y(value) + 4, said, anchor="end", fill=GREY)
        for value in range(0, int(self._x) + 1, x_step):
            self.text(self.x(value), HEIGHT - BOTTOM + 18, f"{value:,}", anchor="middle", fill=GREY)
        self.text(WIDTH - RIGHT, HEIGHT - 10, x_name, anchor="end", fill=GREY)

    def text(self, x: float, y: float, said: str, *, anchor: str = "start", fill: str = INK) -> None:
        self._parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{fill}">{escape(said)}</text>')

    def line(self, points: list[tuple[float, float]], colour: str, width: float, dash: str = "") -> None:
        path = " ".join(f"{self.x(a)},{self.y(b)}" for a, b in points)
        more = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{more}/>')

    def area(self, low: list[tuple[float, float]], high: list[tuple[float, float]], colour: str) -> None:
        path = " ".join(f"{self.x(a)},{self.y(b)}" for a, b in [*low, *reversed(high)])
        self._parts.append(f'<polygon points="{path}" fill="{colour}"/>')

    def box(self, x0: float, x1: float, y0: float, y1: float, colour: str, *, strong: bool = False) -> None:
        left, top = self.x(x0), self.y(y1)
        width, height = max(1.0, round(self.x(x1) - left, 1)), round(self.y(y0) - top, 1)
        edge = f' stroke="{INK}" stroke-width="1.5"' if strong else f' stroke="{PAPER}" stroke-width="0.7"'
        self._parts.append(f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="{colour}"{edge}/>')

    def key(self, *items: tuple[str, str]) -> None:
        at = float(LEFT)
        for colour, said in items:
            self._parts.append(f'<rect x="{at}" y="38" width="12" height="12" rx="2" fill="{colour}"/>')
            self.text(at + 17, 48, said)
            at += 34 + 6.4 * len(said)

    def done(self) -> str:
        return "\n".join([*self._parts, "</svg>"]) + "\n"


def window(run: Run) -> str:
    """Tokens of each request, and what it would be without compaction."""
    most = -(-max(whole for whole, _, _ in run.requests) // 50_000) * 50_000
    title = f"{len(run.requests):,} requests of one conversation, window {WINDOW:,} tokens"
    about = (f"The conversation grows to {run.requests[-1][0]:,} tokens; no request is larger than "
             f"{max(a + b for _, a, b in run.requests):,}. {run.compactions} compactions.")  # fmt: skip
    picture = Picture(title, about, len(run.requests), most)
    picture.axes("request", 250, 50_000, "k")
    ground = [(n, 0.0) for n in range(len(run.requests))]
    first = [(n, float(a)) for n, (_, a, _) in enumerate(run.requests)]
    second = [(n, float(a + b)) for n, (_, a, b) in enumerate(run.requests)]
    picture.area(ground, first, SUMMARY)
    picture.area(first, second, RAW)
    picture.line([(n, float(whole)) for n, (whole, _, _) in enumerate(run.requests)], LINE, 2)
    picture.line([(0, run.threshold), (len(run.requests), run.threshold)], LIMIT, 1.2, "5 4")
    picture.key((LINE, "the whole conversation"), (RAW, "raw messages in the request"), (SUMMARY, "summaries in the request"),
                (LIMIT, f"threshold ({run.threshold:,})"))  # fmt: skip
    return picture.done()


def summaries(run: Run) -> str:
    """Which messages each summary covers."""
    deepest = max(node.depth for node in run.nodes)
    title = f"What {run.messages:,} messages look like after {run.compactions} compactions"
    about = (f"{len(run.nodes)} summaries in {deepest + 1} depths; the prompt shows {len(run.roots)} of them and the newest "
             f"{run.messages - run.tail[0] + 1} messages as they are.")  # fmt: skip
    picture = Picture(title, about, run.messages, deepest + 2)
    step = -(-run.messages // 7 // 100) * 100
    for value in range(0, run.messages + 1, step):
        picture.text(picture.x(value), HEIGHT - BOTTOM + 18, f"{value:,}", anchor="middle", fill=GREY)
    picture.text(WIDTH - RIGHT, HEIGHT - 10, "message", anchor="end", fill=GREY)
    picture.text(LEFT - 8, picture.y(0.4), "messages", anchor="end", fill=GREY)
    picture.box(0, run.messages, 0.1, 0.75, "#d8dee4")
    picture.box(run.tail[0] - 1, run.messages, 0.1, 0.75, RAW, strong=True)
    for depth in range(deepest + 1):
        picture.text(LEFT - 8, picture.y(depth + 1.4), f"depth {depth}", anchor="end", fill=GREY)
        for node in (each for each in run.nodes if each.depth == depth):
            shown = node.node_id in run.roots
            picture.box(node.first_store_id - 1, node.last_store_id, depth + 1.1, depth + 1.8,
                        DEPTHS[min(depth, len(DEPTHS) - 1)], strong=shown)  # fmt: skip
    picture.key(
        (RAW, "raw in the prompt"),
        (DEPTHS[1], "summaries; with an edge: in the prompt"),
        ("#d8dee4", "stored, reached through summaries"),
    )
    return picture.done()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    out: Path = parser.parse_args().out
    run = drive()
    out.mkdir(parents=True, exist_ok=True)
    for name, text in (("window.svg", window(run)), ("summaries.svg", summaries(run))):
        (out / name).write_text(text, encoding="utf-8")
        print(out / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
