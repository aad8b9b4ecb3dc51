"""
Recalled memory, which the host puts into messages and takes out of them again: text without it.

Pure. Does what the host's own cleaning does, in time that grows with the text alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

#: What the host's own cleaning takes out of user and assistant text, in its order: blocks, its note, stray tags. It says so with
#: one expression each; two of these look through the rest of a text at every beginning that has no end, so they are taken apart.
_BLOCK_HEAD = re.compile(r"<\s*memory-context\s*>", re.IGNORECASE)
_BLOCK_TAIL = re.compile(r"</\s*memory-context\s*>", re.IGNORECASE)
_RECALLED = re.compile(
    r"\[System note:\s*The following is recalled memory context,\s*NOT new user input\.\s*"
    r"Treat as (?:informational background data(?P<end>\.\]\s*)|authoritative reference data)",
    re.IGNORECASE,
)
_RECALLED_TAIL = re.compile(r"\]\s*")
_TAG = b"memory-context"
_STRAY = re.compile(r"</?\s*memory-context\s*>", re.IGNORECASE)


def without(text: str) -> str:
    """The text without recalled memory, its note and its tags. Linear."""
    low = text.encode("utf-8", "surrogatepass").lower()  # as fast for any text as ``str.lower`` is for ASCII
    tags, notes, size = _TAG in low, b"recalled memory context" in low, len(text)
    if tags:
        text = "".join(_outside_blocks(text))
        # A block that stood inside of a note had hidden it.
        notes = notes or (len(text) != size and bool(_RECALLED.search(text)))
    if notes:
        text = "".join(_outside_notes(text))
    if not tags and not notes:
        return text
    return _untagged(text, low.count(_TAG) if len(text) == size else None)


def _untagged(text: str, named: int | None) -> str:
    """Without single tags; where all of them are written alike C finds them, which matters where there are thousands.

    ``named``: how often their name stands in the text, in letters of any case, if that is known.
    """
    opening, closing = "<memory-context>", "</memory-context>"
    some = text.replace(opening, "")
    out = some.replace(closing, "")
    # Fewer than there were: taking one out made another one, which must stay. Others in the rest are written in another way.
    taken = (len(text) - len(some)) // len(opening), (len(some) - len(out)) // len(closing)
    if taken[1] and taken[1] != text.count(closing):
        return _STRAY.sub("", text)
    left = _TAG in out.encode("utf-8", "surrogatepass").lower() if named is None else sum(taken) != named
    return _STRAY.sub("", text) if left else out


def _outside_blocks(text: str) -> Iterator[str]:
    """What stands outside of closed blocks of recalled memory."""
    at = 0
    while (head := _BLOCK_HEAD.search(text, at)) and (tail := _BLOCK_TAIL.search(text, head.end())):
        yield text[at : head.start()]
        at = tail.end()
    yield text[at:]


def _outside_notes(text: str) -> Iterator[str]:
    """What stands outside of notes on recalled memory; one ends with the first bracket behind it, if that ends a sentence."""
    at = bracket = 0
    for head in _RECALLED.finditer(text):
        tail = head if head["end"] else None
        if head.start() >= at and tail is None:
            bracket = bracket if bracket >= head.end() else text.find("]", head.end())
            if bracket < 0:
                break
            if bracket > head.end() and text[bracket - 1] == ".":
                tail = _RECALLED_TAIL.match(text, bracket)
        if head.start() >= at and tail is not None:
            yield text[at : head.start()]
            at = tail.end()
    yield text[at:]
