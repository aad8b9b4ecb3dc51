"""
What redaction would take out of what is stored: a preview. Changes nothing, and shows no secret.

Redaction works on the way in only; whoever switches it on wants to know what is there already, and where it would be wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ..config import SENSITIVE_PATTERNS
from ..door import clean_message, redacted
from ..errors import BadRequest
from ..scope import Reach
from ..text import content
from ..text.redact import CATALOGUE, Redactor
from . import render
from .answers import Answer, Verb, Words
from .explain import readable

if TYPE_CHECKING:
    from ..db.files import Progress
    from .status import OpsDeps

_DONE = re.compile(r"\[redacted:([a-z_]+)(?::[0-9a-f]{12})?\]")
_SAMPLES: Final = 3
_ADDRESSES: Final = 20
_AROUND: Final = 24
#: A secret inside base64: what stands for it is encoded too, so that its kind is not seen.
ENCODED: Final = "encoded"


@dataclass(slots=True)
class Found:
    """One kind of secret: how often, where, and what it would look like then."""

    count: int = 0
    addresses: list[str] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Preview:
    """``unknown``: names that are no kind. How many rows were read, how many would change, how many are damaged."""

    kinds: tuple[str, ...]
    unknown: tuple[str, ...]
    read: int
    changed: int
    found: dict[str, Found]
    damaged: int = 0


def preview(deps: OpsDeps, names: Sequence[str], progress: Progress) -> Preview:
    """Read every message and summary that may be shown here, as redaction would. ``names``: kinds; none: those configured."""
    redactor = _redactor(deps, names)
    found: dict[str, Found] = {}
    read = changed = 0
    damaged: list[int] = []
    for address, message in _texts(deps, damaged):
        read += 1
        new = _redacted(message, redactor)
        if new is not None:
            changed += 1
            _note(found, address, content.encode(message)[0], new)
        if read % 1000 == 0:
            progress("reading", read, 0)
    return Preview(
        redactor.kinds, redactor.unknown, read, changed, found, len(Reach(deps.db).messages(damaged, readable(deps)))
    )


def _redactor(deps: OpsDeps, names: Sequence[str]) -> Redactor:
    """For the kinds that are named, or configured. Raises BadRequest where none of the names is a kind."""
    redactor = Redactor(names or deps.config.sensitive_patterns or SENSITIVE_PATTERNS)
    if names and len(redactor.unknown) == len(names):
        raise BadRequest(f"{', '.join(redactor.unknown)}: no kind of secret; there are {', '.join(CATALOGUE)}, and all")
    return redactor


def _redacted(message: dict[str, Any], redactor: Redactor) -> str | None:
    """What would be stored of a message, as JSON; None where that is what is stored now."""
    try:
        clean = clean_message(message, redactor)
        return None if clean == message else content.encode(clean)[0]
    except RecursionError:  # it holds itself, or goes deeper than Python does: as it is stored, leaf by leaf
        before = content.read(message)
        after = redacted(before, redactor)
        return None if after is before else after.envelope.decode("utf-8")


def _texts(deps: OpsDeps, damaged: list[int]) -> Iterator[tuple[str, dict[str, Any]]]:
    scope, reach = readable(deps), Reach(deps.db)
    for rows in deps.store.every(damaged=damaged):
        allowed = reach.messages([row.store_id for row in rows], scope)
        for row in rows:
            if row.store_id in allowed:
                yield f"msg_{row.store_id}", row.envelope
    for nodes in deps.dag.every():
        owned = set(reach.conversations(sorted({node.conversation_id for node in nodes}), scope))
        for node in nodes:
            if node.conversation_id in owned:
                yield node.address, {"text": node.text, "hint": node.expand_hint}


def _note(found: dict[str, Found], address: str, before: str, after: str) -> None:
    new = Counter(m[1] for m in _DONE.finditer(after)) - Counter(m[1] for m in _DONE.finditer(before))
    samples = {m[1]: m for m in _DONE.finditer(after)}
    for kind, count in (new or Counter({ENCODED: 1})).items():
        each = found.setdefault(kind, Found())
        each.count += count
        if len(each.addresses) < _ADDRESSES:
            each.addresses.append(address)
        if len(each.samples) < _SAMPLES and kind in samples:
            at = samples[kind]
            each.samples.append(" ".join(after[max(0, at.start() - _AROUND) : at.end()].split()))


def _preview(deps: OpsDeps, words: Words) -> Answer:
    names = [name for word in words.rest for name in word.split(",") if name]
    if not deps.db.path.exists():
        _redactor(deps, names)  # a mistyped kind is told before there is anything to read
        return Answer("Nothing is stored yet.", {"found": {}})
    made = preview(deps, names, words.progress)
    data = {
        "kinds": list(made.kinds), "unknown": list(made.unknown), "read": made.read, "would_change": made.changed,
        "damaged": made.damaged,
        "found": {kind: {"count": f.count, "in": f.addresses, "samples": f.samples} for kind, f in made.found.items()},
    }  # fmt: skip
    rows = [
        (
            kind,
            f"{f.count:,}",
            ", ".join(f.addresses[:5]) + (" …" if len(f.addresses) > 5 else ""),
            f.samples[0] if f.samples else "",
        )
        for kind, f in sorted(made.found.items(), key=lambda item: -item[1].count)
    ]
    lines = [
        f"{made.read:,} messages and summaries read; redaction would change {made.changed:,} (kinds: {', '.join(made.kinds)})"
    ]
    lines += [f"{render.counted(made.damaged, 'damaged message')} could not be read"] if made.damaged else []
    lines += [f"not a kind of secret: {', '.join(made.unknown)}"] if made.unknown else []
    lines += render.table(rows) if rows else []
    lines.append(
        "Redaction works on what comes in; what is stored stays as it is. LCM_SENSITIVE_PATTERNS_ENABLED=true switches it on"
        + ("." if not deps.config.sensitive_patterns_enabled else " (it is on).")
    )
    return Answer("\n".join(lines), data)


VERBS: Final = (
    Verb(
        "redact preview", _preview, "what redaction would take out of what is stored", "[<kind>,... | all]", quotes=True
    ),
)
