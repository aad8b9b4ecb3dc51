"""
Precision of the ledger: prints what rules made of real users' words, to be read by eye.

    benchmarks/ledger.py [count] [half]  so many entries out of one half of ``kit.data_folder`` (0 or 1), as many of each source
    benchmarks/ledger.py replaced        every fact that replaces an earlier one, and every pair that contradicts each other

Patterns are tuned on half 0 and judged on half 1. A fact is right if its quotation states, of its subject, its value, and is of
its kind; a rule, if a careful reader would say that the agent was told how to work beyond the request it stands in. A replacement
is right if both facts are right, are of the same thing, and the earlier one holds no longer. People of chats between two count as
users, each by himself.

Read by eye on 29 November 2026: of 200 entries of each half 198 and 199 were right, and all 400 once the three wrong ones were
mended (names 9, decisions 41, rules 50, dates 128, values 172). None of 1,069 was told to replace or to contradict another;
eight came later, what is used for what, all right. 165 of the 400 are sentences of one kind (whose telephone, whose birthday),
most had been seen before, and these people speak to an agent, so expect less of others. Of 66 invented pairs in ten languages
one was told wrongly to replace the other, and none once that was mended; one change of nine that was meant was not seen. Small
talk between people, 64,000 lines never looked at, gave 54 entries, of which 32 were right (names 10 of 10, dates 4 of 4, values
4 of 8, decisions 12 of 18, rules 2 of 14): what people ask of each other is no rule, and looks like one.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from kit import data_folder
from material import transcripts

from hermes_lcm.ledger.facts import Fact
from hermes_lcm.ledger.table import Entry, entries
from hermes_lcm.records import Row, Stored


def conversations() -> Iterator[tuple[str, list[str]]]:
    """What each user said, in order, with where it is from."""
    folder = data_folder()
    if folder is None:
        return
    for name, chats in transcripts(folder).items():
        for n, chat in enumerate(chats):
            yield f"{name}/{n}", [str(message["content"]) for message in chat if message["role"] == "user"]
    yield from _people(folder / "locomo")
    yield from _days(folder / "memdaily")
    for path in sorted((folder / "lost").glob("*_C1.json")):
        said = [str(turn["content"]) for turn in json.loads(path.read_text(encoding="utf-8")) if turn["role"] == "user"]
        yield f"lost/{path.stem}", [text for text in said if not text.startswith("[Summary")]


def _people(folder: Path) -> Iterator[tuple[str, list[str]]]:
    for path in sorted(folder.glob("*.json")):
        for n, chat in enumerate(json.loads(path.read_text(encoding="utf-8"))):
            said = chat["conversation"]
            numbers = sorted(
                int(key.split("_")[1]) for key in said if key.startswith("session_") and key.count("_") == 1
            )
            turns = [turn for number in numbers for turn in said[f"session_{number}"]]
            for who in dict.fromkeys(turn["speaker"] for turn in turns):
                yield f"locomo/{n}/{who}", [turn["text"] for turn in turns if turn["speaker"] == who]


def _days(folder: Path) -> Iterator[tuple[str, list[str]]]:
    for path in sorted(folder.glob("*.json")):
        for chat in json.loads(path.read_text(encoding="utf-8")):
            yield f"memdaily/{path.stem[:2]}-{chat['tid']}", [turn["message"] for turn in chat["message_list"]]


def _entries(texts: list[str]) -> list[Entry]:
    def row(n: int, text: str) -> Row:
        head = Stored(n, 1, "s", n, float(n), "user", None, None, b"", 0, len(text), None, float(n), "", 0, None)
        return Row(head, text, (), {"role": "user", "content": text})

    return entries([row(n, text) for n, text in enumerate(texts, 1)], {})


def _print_entries(count: int, half: int) -> None:
    found: dict[str, list[tuple[str, Fact]]] = {}
    for where, texts in conversations():
        found.setdefault(where.split("/")[0], []).extend((where, entry.fact) for entry in _entries(texts))
    halves = [
        [each for each in some if crc32("".join((each[0], each[1].text)).encode()) % 2 == half]
        for some in found.values()
    ]
    drawn = _evenly([each for each in halves if each], count)
    print(f"{sum(map(len, found.values()))} entries, by source { ({name: len(each) for name, each in found.items()}) }")
    print(f"{len(drawn)} of half {half}: {dict(Counter(fact.kind for _, fact in drawn))}")
    for n, (where, fact) in enumerate(drawn, 1):
        print(f"{n:4} {where:16} {fact.kind:8} [{fact.subject}] [{fact.value if fact.subject else ''}] {fact.text}")


def _evenly(sources: list[list[tuple[str, Fact]]], count: int) -> list[tuple[str, Fact]]:
    """As many of each source, spread over it; of one that has fewer, all."""
    out: list[tuple[str, Fact]] = []
    for left, each in zip(range(len(sources), 0, -1), sorted(sources, key=len), strict=True):
        share = min(len(each), (count - len(out)) // left)
        out += [each[n * len(each) // share] for n in range(share)]
    return out


def _print_replaced() -> None:
    number = Counter[str]()
    for where, texts in conversations():
        found = {each.name: each for each in _entries(texts)}
        for each in found.values():
            number["entries"] += 1
            for said, name in (("replaces", each.replaces), ("contradicts", each.contradicts)):
                if name and found[name].row.store_id <= each.row.store_id:
                    number[said] += 1
                    _print_pair(f"{said} {number[said]:4} {where}", found[name], each)
    print(dict(number))


def _print_pair(head: str, old: Entry, new: Entry) -> None:
    print(f"{head} [{new.fact.subject}]")
    for which, entry in (("was", old), ("now", new)):
        print(f"     {which} [{entry.fact.value}] {entry.row.store_id}: {entry.fact.text}")


def main() -> None:
    """Print them."""
    asked = sys.argv[1:] or ["200"]
    if asked[0] == "replaced":
        _print_replaced()
    else:
        _print_entries(int(asked[0]), int(asked[1]) if len(asked) > 1 else 0)


if __name__ == "__main__":
    main()
