#!/usr/bin/env python3
"""
What local embeddings would add to the search: the questions of benchmarks/recall.py, with and without them.

    pip install wordllama && python benchmarks/semantic.py [--json FILE]

The plugin has no embeddings; this is the measurement that says why. wordllama (static vectors, 256 dimensions, weights in the
wheel, no download) embeds each message in pieces of about 600 characters and each question; a message counts with its best
piece, users' messages 1.3 times. Its scores and those of the search are brought to 0..1 for each question and added with the
weights shown. Without the package or the data this measures nothing and says so.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kit
from driving import Agent, hook
from kit import InstantModel, Report, home

import recall

MIXES = (0.8, 0.65, 0.5)
RULE = "embeddings come in if they add 0.03 to R@10 on two of the three sets"


def load() -> Any:
    """The package's model, or None. Its wheel looks for the tokenizer in another folder than the one it is in."""
    try:
        package = importlib.import_module("wordllama")
    except ImportError:
        return None
    inside = Path(package.__file__ or "").parent
    folder = Path(tempfile.mkdtemp(prefix="wordllama-"))
    for name in ("weights", "tokenizers"):
        (folder / name).symlink_to(inside / name)
    return package.WordLlama.load(cache_dir=folder, disable_download=True)


def scaled(scores: Mapping[str, float]) -> dict[str, float]:
    low, high = min(scores.values(), default=0.0), max(scores.values(), default=1.0)
    return {name: (score - low) / ((high - low) or 1.0) for name, score in scores.items()}


class Vectors:
    """The pieces of one conversation's messages."""

    def __init__(self, model: Any, docs: Sequence[recall.Doc]) -> None:
        from hermes_lcm.search import documents

        pieces = [(doc, piece) for doc in docs for _, piece in documents.chunks(doc.text)]
        self.owners = [doc for doc, _ in pieces]
        self._model = model
        self._matrix = model.embed([piece for _, piece in pieces], norm=True)

    def scores(self, question: str) -> dict[str, float]:
        found = self._matrix @ self._model.embed([question], norm=True)[0]
        out: dict[str, float] = {}
        for doc, score in zip(self.owners, found, strict=True):
            weighted = float(score) * (1.3 if doc.role == "user" else 1.0)
            out[doc.name] = max(out.get(doc.name, -1.0), weighted)
        return out


def ours(agent: Agent, question: str, ident: Mapping[int, str]) -> dict[str, float]:
    """What the search gives, with scores."""
    from hermes_lcm import tools
    from hermes_lcm.recall import grep

    caller = tools.tool_access(agent.engine, "lcm_grep", agent.session_id, None)
    hits = grep.Search(caller, grep.Ask(query=question, chosen=caller.choose())).messages(200)
    return {ident[hit.store_id]: hit.score for hit in hits.hits if hit.store_id in ident}


def best(scores: Mapping[str, float]) -> list[str]:
    return sorted(scores, key=lambda name: -scores[name])[:40]


def compare(
    case: recall.Case, model: Any, where: Path, score: dict[str, recall.Score], times: dict[str, float]
) -> None:
    name, docs, asked = case
    chat, places = recall.as_chat(docs)
    with home(where):
        agent = Agent(f"20260101_{name}", 2_000_000)
        hook("pre_api_request", agent.session_id, chat)
        conversation = agent.runtime.session(agent.session_id).conversation_id
        rows = sorted(agent.runtime.store.heads([recall.segment(conversation)]), key=lambda row: row.seq)
        ident = {row.store_id: places[at] for at, row in enumerate(rows) if at in places}
        began = time.process_time()
        vectors = Vectors(model, docs)
        times["embedding"] = times.get("embedding", 0.0) + time.process_time() - began
        for question in asked:
            lexical = ours(agent, question.question, ident)
            began = time.process_time()
            semantic = vectors.scores(question.question)
            times["asking"] = times.get("asking", 0.0) + time.process_time() - began
            one, two = scaled(lexical), scaled(semantic)
            score.setdefault("search alone", recall.Score()).add(best(lexical), question.evidence)
            score.setdefault("embeddings alone", recall.Score()).add(best(semantic), question.evidence)
            for share in MIXES:
                mixed = {n: share * one.get(n, 0.0) + (1 - share) * two.get(n, 0.0) for n in {*one, *two}}
                score.setdefault(f"{share} search + {1 - share:.2f} embeddings", recall.Score()).add(
                    best(mixed), question.evidence
                )
        agent.close()


def main() -> int:
    args = kit.arguments(__doc__ or "").parse_args()
    report = Report("semantic", "what local embeddings would add", args.quick)
    model, folder = load(), kit.data_folder()
    if model is None or folder is None:
        report.note("not measured: " + ("wordllama is not installed" if model is None else "the data is not here"))
        return report.finish(args.json)
    InstantModel().install()
    rows: list[list[object]] = []
    times: dict[str, float] = {}
    messages = questions = 0
    for name, read in recall.SETS.items():
        score: dict[str, recall.Score] = {}
        for case in read(folder / name):
            compare(case, model, args.where or Path(tempfile.gettempdir()), score, times)
            messages += len(case[1])
            questions += len(case[2])
        rows += [[f"{name}: {way}", *found.row()] for way, found in score.items()]
    report.table("Evidence recall", ("", "questions", *(f"R@{p}" for p in recall.PLACES), "MRR", "no hit"), rows)
    report.note(RULE)
    report.note(
        f"processor time of the embeddings: {1000 * times['embedding'] / messages:.2f} ms a message, "
        f"{1000 * times['asking'] / questions:.2f} ms a question; the package and what it needs take about 200 MB"
    )
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
