#!/usr/bin/env python3
"""
How fast the token estimate is, and how far it is off.

    python benchmarks/tokens.py [--quick] [--json FILE]

Speed beside characters/4 of the same texts and, for the host's own estimate of a whole list, beside it. The error is told
against o200k_base where a tokenizer with local tables is installed: tiktoken with its table in TIKTOKEN_CACHE_DIR, or the package
bpe-openai, which brings them along. Nothing is ever downloaded. Error of a text: estimate / count - 1; texts of 4,000 characters.
"""

from __future__ import annotations

import hashlib
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import kit
import material
from kit import Report, Talk

PIECE = 4000
_TABLE = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"  # its digest is the name of the local file
Count = Callable[[str], int]


def tokenizer() -> tuple[Count, str] | None:
    """A real tokenizer whose tables lie on this machine."""
    cache = os.environ.get("TIKTOKEN_CACHE_DIR") or os.path.join(tempfile.gettempdir(), "data-gym-cache")
    local = Path(cache) / hashlib.sha1(_TABLE.encode()).hexdigest()
    encoding = None
    if local.is_file():
        try:
            import tiktoken

            encoding, name = tiktoken.get_encoding("o200k_base"), f"tiktoken {tiktoken.__version__}"
        except ImportError:
            encoding = None
    if encoding is None:
        try:
            import bpe_openai
        except ImportError:
            return None
        encoding, name = bpe_openai.get_encoding("o200k_base"), "bpe-openai"
    return lambda text: len(encoding.encode_ordinary(text)), name


def samples(each: int) -> dict[str, list[str]]:
    """Texts by kind: synthetic ones, and pieces of real transcripts where there are any."""
    talk, rng = Talk(41), random.Random(41)
    found = {
        "synthetic prose": [talk.prose(PIECE) for _ in range(each)],
        "synthetic tool output": [talk.output(PIECE) for _ in range(each)],
        "synthetic Chinese": ["".join(rng.choices(kit.HAN, k=PIECE // 2)) for _ in range(each)],
    }
    folder = kit.data_folder()
    for name, chats in material.transcripts(folder).items() if folder is not None else ():
        for kind, roles in (("talk", ("user", "assistant")), ("tool results", ("tool",))):
            text = "\n\n".join(kit.text_of(m) for chat in chats for m in chat if m["role"] in roles)
            found[f"{name}: {kind}"] = _pieces(text, each, rng)
    if folder is not None and (folder / "memdaily").is_dir():
        import recall

        text = "\n".join(doc.text for _, docs, _ in recall.memdaily(folder / "memdaily") for doc in docs)
        found["memdaily: Chinese"] = _pieces(text, each, rng)
    # our own sources are code that is always at hand
    code = "\n".join(p.read_text(encoding="utf-8") for p in sorted(kit.ROOT.glob("*.py")))
    found["this repository: code"] = _pieces(code, each, rng)
    return {name: texts for name, texts in found.items() if texts}


def _pieces(text: str, most: int, rng: random.Random) -> list[str]:
    pieces = [text[at : at + PIECE] for at in range(0, len(text) - PIECE, PIECE)]
    return rng.sample(pieces, min(most, len(pieces)))


def main() -> int:
    args = kit.arguments(__doc__ or "").parse_args()
    from hermes_lcm.text import tokens

    report = Report("tokens", "the token estimate", args.quick)
    found = samples(20 if args.quick else 120)
    speed(report, found, tokens.count, 5 if args.quick else 25)
    real = tokenizer()
    if real is None:
        report.note(
            "skipped the error: no tokenizer with local tables is installed (tiktoken with tables, or bpe-openai)"
        )
    else:
        error(report, found, tokens.count, *real)
    whole_list(report, 5 if args.quick else 25)
    return report.finish(args.json)


def speed(report: Report, found: dict[str, list[str]], count: Count, laps: int) -> None:
    rng = random.Random(1)
    spent: dict[str, list[float]] = {name: [] for name in found}
    for lap in range(laps):
        names = list(found)
        rng.shuffle(names)
        for name in names:
            texts = found[name]
            began = time.perf_counter()
            for text in texts:
                count(text)
            took = time.perf_counter() - began
            if lap:
                spent[name].append(took / sum(map(len, texts)) * 1e9)
    rows = [
        [name, len(found[name]), min(s), statistics.median(s), kit.at(s, 0.9), 1000 / statistics.median(s)]
        for name, s in spent.items()
    ]
    report.table(
        "Speed of the estimate",
        ("", "texts", "min ns/char", "median ns/char", "p90 ns/char", "million chars a second"), rows,
    )  # fmt: skip


def error(report: Report, found: dict[str, list[str]], count: Count, truth: Count, name: str) -> None:
    rows = []
    for kind, texts in found.items():
        real = [truth(text) for text in texts]
        ours = sorted(count(text) / n - 1 for text, n in zip(texts, real, strict=True))
        plain = sum(map(len, texts)) / 4 / sum(real) - 1
        total = sum(map(count, texts)) / sum(real) - 1
        rows.append(
            [kind, len(texts), *(round(100 * v, 1) for v in (total, ours[0], statistics.median(ours), ours[-1], plain))]
        )
    report.table(
        f"Error against o200k_base ({name}), percent",
        ("", "texts", "in all", "least", "median", "most", "characters/4"),
        rows,
    )
    report.note(
        "synthetic words are made up, so a tokenizer cuts them smaller than any real word: judge by the other rows"
    )
    rows = [row for row in rows if not row[0].startswith("synthetic")]
    worst = max(abs(row[2]) for row in rows)
    report.note(
        f"largest error of a real kind in all: {worst} %, with characters/4: {max(abs(row[6]) for row in rows)} %"
    )


def whole_list(report: Report, laps: int) -> None:
    """What the host's own estimate of a list costs, for scale."""
    from hermes_lcm.host import facts
    from hermes_lcm.text import tokens

    messages = Talk(5).history(2000)
    texts = [kit.text_of(m) for m in messages]
    spent: dict[str, list[float]] = {"host's estimate": [], "ours": []}
    for _ in range(laps):
        spent["host's estimate"].append(kit.timed(facts.rough, messages))
        spent["ours"].append(kit.timed(lambda: [tokens.count(t) for t in texts]))
    report.table("A list of 2,000 messages", ("", *kit.SPREAD), [[name, *kit.spread(s)] for name, s in spent.items()])


if __name__ == "__main__":
    sys.exit(main())
