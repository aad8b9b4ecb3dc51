"""
Precision of the ledger: prints what rules made of real users' words, to be read by eye.

    benchmarks/ledger.py [count]        so many facts, spread evenly over the transcripts of ``kit.data_folder``
    benchmarks/ledger.py replaced       every fact that replaces an earlier one, and every pair that contradicts each other

A fact is right if its quotation states, of its subject, its value, and is of its kind. A replacement is right if both facts are
right, are of the same thing, and the earlier one holds no longer. People of chats between two count as users, each by himself.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kit import data_folder
from material import transcripts

from hermes_lcm.ledger.facts import Fact, stated
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


def _entries(texts: list[str]) -> list[Entry]:
    def row(n: int, text: str) -> Row:
        head = Stored(n, 1, "s", n, float(n), "user", None, None, b"", 0, len(text), None, float(n), "", 0, None)
        return Row(head, text, (), {"role": "user", "content": text})

    return entries([row(n, text) for n, text in enumerate(texts, 1)], {})


def _print_facts(count: int) -> None:
    found: list[tuple[str, Fact]] = [
        (where, fact) for where, texts in conversations() for text in texts for fact in stated(text)
    ]
    step = max(1, len(found) // count)
    print(f"{len(found)} facts: {dict(Counter(fact.kind for _, fact in found))}; every {step}. of them:")
    for n, (where, fact) in enumerate(found[::step][:count], 1):
        print(f"{n:4} {where:16} {fact.kind:8} [{fact.subject}] [{fact.value if fact.subject else ''}] {fact.text}")


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
    asked = sys.argv[1] if len(sys.argv) > 1 else "200"
    if asked == "replaced":
        _print_replaced()
    else:
        _print_facts(int(asked))


if __name__ == "__main__":
    main()
