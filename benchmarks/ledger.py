"""
Precision of the ledger: prints the facts that real users stated, to be read by eye.

    benchmarks/ledger.py [count]        so many facts, spread evenly over the transcripts of ``kit.data_folder``

A fact is right if its quotation states, of its subject, its value, and is of its kind.
"""

from __future__ import annotations

import sys
from collections import Counter

from kit import data_folder
from material import transcripts

from hermes_lcm.ledger.facts import Fact, stated


def facts() -> list[tuple[str, Fact]]:
    """Every fact of every user, with where it is from."""
    folder = data_folder()
    chats = transcripts(folder) if folder is not None else {}
    return [
        (f"{name}/{n}", fact)
        for name, found in chats.items()
        for n, chat in enumerate(found)
        for message in chat
        if message["role"] == "user"
        for fact in stated(str(message["content"]))
    ]


def main() -> None:
    """Print them."""
    found = facts()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    step = max(1, len(found) // count)
    print(f"{len(found)} facts: {dict(Counter(fact.kind for _, fact in found))}; every {step}. of them:")
    for n, (where, fact) in enumerate(found[::step][:count], 1):
        print(f"{n:4} {where:16} {fact.kind:8} [{fact.subject}] [{fact.value if fact.subject else ''}] {fact.text}")


if __name__ == "__main__":
    main()
