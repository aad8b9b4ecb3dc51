#!/usr/bin/env python3
"""
Train the weights of the search's ranking and write them to search/weights.py.

    pip install numpy && python benchmarks/train_ranking.py [--write] [--set NAME] [--json FILE]

Needs the data of benchmarks/recall.py. Every question is asked of the plugin itself; its candidates and their signals are what
the ranking would see. Per kind of conversation a linear model is fitted with listwise loss (softmax over candidates). The
figures are cross-validated: a conversation's questions are ranked by weights that were fitted without it. Questions asked in
one go are searched apart and their hits taken in turns, here as there; where a set asks so about one matter only, two of its
questions about different ones are asked as well. ``--set``: only the kinds that one set has; the weights of the others stay.
"""

from __future__ import annotations

import importlib
import itertools
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import kit
from driving import Agent, hook
from kit import InstantModel, Report, home

import recall

STEPS, RATE = 150, 0.05
DECAY = {"dialogue": 0.001, "work": 0.01, "diary": 0.003}  # few conversations of a kind: weights closer to nothing
DEPTHS = (10, 20, 40)
UNRELATED = "two unrelated questions in one go"
LATE, LATE_WEIGHTS = "beside", [n / 4 for n in range(21)]
SEMANTIC_MARK = "#: Weight of how far a hit stands out by its meaning"  # from here on benchmarks/semantic.py writes
ANEW = "A part of it anew:"
TARGET = kit.ROOT / "search" / "weights.py"


@dataclass
class Question:
    """What was asked, its candidates' signals, which of them are evidence, and in which order they came before."""

    group: str
    conversation: str
    kind: str
    signals: Any
    evidence: Any
    counted: Any  # candidates that are messages of the set, not what was put between them
    before: list[bool]
    wanted: int
    asked: str = ""
    pieces: tuple[str, ...] = ()  # of the candidates' texts, as an encoder reads them
    names: tuple[str | None, ...] = ()  # of the candidates' messages
    ids: tuple[int, ...] = ()
    cosines: Mapping[int, float] = field(
        default_factory=dict
    )  # of the candidates to the question, where an encoder is on
    near: Mapping[int, int] = field(default_factory=dict)  # ranks of the nearest messages
    by_words: Any = None  # candidates that a word found


def ask_all(
    name: str, case: recall.Case, where: Path, out: list[Question], numpy: Any, *, semantic: bool = False
) -> None:
    """All questions about one conversation. ``semantic``: with vectors of its messages."""
    from hermes_lcm.search import ranking

    conversation, docs, asked = case
    chat, places = recall.as_chat(docs)
    seen: list[tuple[Any, ...]] = []
    rerank = ranking.Pool.rerank

    def record(pool: Any, question: Any, texts: Any, *more: Any) -> None:
        examples = pool.examples(question, texts)
        ids = [hit.place.store_id for hit, *_ in examples]
        vectors = agent.runtime.vectors
        found = vectors.cosines(question.raw, ids, lambda n: question.stretch(examples[n][1])) if vectors else None
        cosines = dict(zip(ids, found, strict=True)) if found else {}
        seen.append(
            (pool.kind, examples, [question.stretch(part) for _, part, _ in examples], cosines, dict(pool.near))
        )
        rerank(pool, question, texts, *more)

    with home(where, semantic=semantic), patch.object(ranking.Pool, "rerank", record):
        agent = Agent(f"20260101_{conversation}", 2_000_000)
        hook("pre_api_request", agent.session_id, chat)
        session = agent.runtime.session(agent.session_id)
        rows = sorted(agent.runtime.store.heads([recall.segment(session.conversation_id)]), key=lambda row: row.seq)
        ident = {row.store_id: places[at] for at, row in enumerate(rows) if at in places}
        if agent.runtime.vectors is not None:
            agent.runtime.vectors.begin()
            agent.runtime.vectors.idle(3600)
        for each in asked:
            seen.clear()
            answer = agent.tool("lcm_grep", query=each.question, limit=40)
            hits = [ident.get(hit.get("store_id")) for hit in answer["results"] if hit["type"] == "message"]
            before = [found in each.evidence for found in dict.fromkeys(hits) if found is not None]
            for kind, examples, pieces, cosines, near in seen:
                names = tuple(ident.get(hit.place.store_id) for hit, *_ in examples)
                out.append(
                    Question(
                        f"{name}, {UNRELATED}" if each.kind == UNRELATED else name,
                        conversation.rsplit("_", 1)[0] if name == "memdaily" else conversation, kind,
                        numpy.array([values for *_, values in examples], dtype=float),
                        numpy.array([float(found in each.evidence) for found in names]),
                        numpy.array([found is not None for found in names]),
                        before, len(each.evidence), each.question, tuple(pieces), names,
                        tuple(hit.place.store_id for hit, *_ in examples), cosines, near,
                        numpy.array([hit.rung != "meaning" for hit, *_ in examples]),
                    )
                )  # fmt: skip
        agent.close()


class Model:
    """Listwise softmax regression."""

    def __init__(self, numpy: Any, questions: list[Question]) -> None:
        self._numpy = numpy
        every = numpy.concatenate([q.signals[q.counted] for q in questions])
        self.scale = every.std(0)
        self.scale[self.scale < 1e-3] = 1e6  # what never differs has no weight

    def fit(self, questions: list[Question], decay: float) -> Any:
        """Weights of all signals; that of what else was asked comes after the others, over what they say.

        Only some questions have it, so fitted among the others it would change what holds for all.
        """
        from hermes_lcm.search.ranking import NAMES

        late = NAMES.index(LATE)
        weights = self._fitted([q for q in questions if not q.group.endswith(UNRELATED)], decay, late)
        weights[late] = min(LATE_WEIGHTS, key=lambda weight: self._loss(questions, weights, late, weight))
        return weights

    def _loss(self, questions: list[Question], weights: Any, late: int, weight: float) -> float:
        """Listwise loss of the questions that have the late signal."""
        numpy, total = self._numpy, 0.0
        for q in questions:
            signals, evidence = q.signals[q.counted], q.evidence[q.counted]
            if evidence.sum() and signals[:, late].any():
                scores = signals @ weights + weight * signals[:, late]
                odds = scores - scores.max()
                total += float(numpy.log(numpy.exp(odds).sum()) - (odds @ evidence) / evidence.sum())
        return total

    def _fitted(self, questions: list[Question], decay: float, late: int) -> Any:
        numpy = self._numpy
        # What was put between messages of one role ("ok") is no example of what an assistant says.
        real = [(q.signals[q.counted], q.evidence[q.counted]) for q in questions if q.evidence.sum()]
        scale = self.scale.copy()
        scale[late] = 1e6
        pairs = [(signals / scale, evidence / evidence.sum()) for signals, evidence in real]
        weights = numpy.zeros(len(scale))
        mean, square = weights.copy(), weights.copy()
        for step in range(1, STEPS + 1):
            gradient = decay * weights
            for signals, evidence in pairs:
                odds = numpy.exp(signals @ weights - (signals @ weights).max())
                gradient = gradient + signals.T @ (odds / odds.sum() - evidence) / len(pairs)
            mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
            weights = weights - RATE * (mean / (1 - 0.9**step)) / (numpy.sqrt(square / (1 - 0.999**step)) + 1e-8)
        weights = weights / scale
        weights[late] = 0.0
        return weights


def recalls(numpy: Any, parts: list[Question], weights: Any) -> list[float]:
    """Evidence recall at each depth; questions asked in one go give their hits in turns."""
    ranked = []
    for part in parts:
        order = numpy.argsort(-(part.signals @ weights), kind="stable")
        ranked.append([(part.names[n], part.evidence[n]) for n in order if part.counted[n]])
    turns = (found for turn in itertools.zip_longest(*ranked) for found in turn if found is not None)
    evidence = [*dict(turns).values()]  # a name keeps its first place
    return [float(sum(evidence[:depth])) / parts[0].wanted for depth in DEPTHS]


def unrelated(asked: list[recall.Asked]) -> list[recall.Asked]:
    """Questions in pairs that lie far apart in their set, each pair asked in one go."""
    from hermes_lcm.search import query

    single = [each for each in asked if not query.questions(each.question)]
    half = len(single) // 2
    return [
        recall.Asked(
            UNRELATED, f"{first.question.rstrip('？?。')}？另外，{then.question}", first.evidence | then.evidence
        )
        for first, then in zip(single[:half], single[half:], strict=False)
    ]


def ask_sets(args: Any, folder: Path, numpy: Any) -> list[Question]:
    """All questions of the chosen sets."""
    out: list[Question] = []
    for name, read in recall.SETS.items():
        for case in read(folder / name) if args.set in (None, name) else ():
            conversation, docs, asked = case
            more = unrelated(asked) if name == "memdaily" else []
            ask_all(name, (conversation, docs, asked + more), args.where or Path(tempfile.gettempdir()), out, numpy)
    return out


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--set", choices=sorted(recall.SETS), help="only the kinds of conversation that this set has")
    parser.add_argument("--write", action="store_true", help="write search/weights.py")
    args = parser.parse_args()
    report = Report("train_ranking", "learned ranking, cross-validated by conversation", args.quick)
    folder = kit.data_folder()
    try:
        numpy = importlib.import_module("numpy")
    except ImportError:
        numpy = None
    if numpy is None or folder is None:
        report.note("skipped: needs numpy and the data of benchmarks/recall.py")
        return report.finish(args.json)
    InstantModel().install()
    questions = ask_sets(args, folder, numpy)
    weights: dict[str, Any] = {}
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * (1 + 2 * len(DEPTHS)))
    for kind, decay in DECAY.items():
        of_kind = [q for q in questions if q.kind == kind]
        if not of_kind:
            continue
        model = Model(numpy, of_kind)
        weights[kind] = model.fit(of_kind, decay)
        for left_out in sorted({q.conversation for q in of_kind}):
            fitted = model.fit([q for q in of_kind if q.conversation != left_out], decay)
            for _, parts in itertools.groupby(
                (q for q in of_kind if q.conversation == left_out), lambda q: id(q.before)
            ):
                several = [*parts]
                q = several[0]
                now = [sum(q.before[:depth]) / q.wanted for depth in DEPTHS]
                for n, value in enumerate([1.0, *recalls(numpy, several, fitted), *now]):
                    sums[q.group][n] += value
    rows = [[name, int(s[0]), *(round(value / s[0], 4) for value in s[1:])] for name, s in sums.items()]
    head = ("", "questions", *(f"R@{d}" for d in DEPTHS), *(f"R@{d} as it is written" for d in DEPTHS))
    report.table("Evidence recall of conversations left out", head, rows)
    if args.write:
        TARGET.write_text(written(weights, rows, questions), encoding="utf-8")
        report.note(f"{TARGET} written")
    return report.finish(args.json)


def written(weights: Mapping[str, Any], rows: list[list[Any]], questions: list[Question]) -> str:
    """The module with the weights and where they are from."""
    from hermes_lcm.search import weights as old
    from hermes_lcm.search.ranking import NAMES

    kinds = ", ".join(f"{kind}: {sum(q.kind == kind for q in questions)} questions" for kind in weights)
    figures = "; ".join(f"{row[0]} {row[2]:.3f} of {row[1]} questions" for row in rows)
    first = ["Weights of the ranking's signals, by kind of conversation."]
    if not weights.keys() >= DECAY.keys():
        whole, *parts = (old.__doc__ or "").strip().split(f"\n\n{ANEW}\n\n")
        others = [part for part in parts if not any(f"{kind}: " in part for kind in weights)]
        first = [*f"\n\n{ANEW}\n\n".join([whole, *others]).splitlines(), "", ANEW]
    lines = [
        '"""',
        *first,
        "",
        f"Written by benchmarks/train_ranking.py on {datetime.now(UTC):%Y-%m-%d}; change nothing by hand. Listwise softmax,",
        "trained on parts of LoCoMo, BEAM and MemDaily, none of whose text is here. By the shape of the conversations:",
        f"{kinds}.",
        "Evidence among the first ten, each conversation ranked by weights fitted without it:",
        f"{figures}.",
        '"""',
        "",
        "from typing import Final",
        "",
    ]
    fitted = {**old.WEIGHTS, **weights}
    kinds = ", ".join(f'"{kind}"' for kind in fitted)
    lines += [
        f"_KINDS: Final = ({kinds})",
        "#: By signal, in the order of ``ranking.NAMES``: a weight for each of these kinds.",
        "_TABLE: Final = {",
        *(f'    "{name}": ({", ".join(f"{v:.4f}" for v in row)}),'
          for name, row in zip(NAMES, zip(*fitted.values(), strict=True), strict=True)),
        "}",
        "#: By kind, in the order of the signals.",
        "WEIGHTS: Final[dict[str, tuple[float, ...]]] = dict(zip(_KINDS, zip(*_TABLE.values(), strict=True), strict=True))",
    ]  # fmt: skip
    _, mark, rest = TARGET.read_text(encoding="utf-8").partition(SEMANTIC_MARK)  # fit it anew after this
    return "\n".join([*lines, "", mark + rest])


if __name__ == "__main__":
    sys.exit(main())
