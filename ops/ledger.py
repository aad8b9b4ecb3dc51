"""
``/lcm ledger``: the facts that were stated, and what an operator says of them: strike, pin, correct, clear.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..errors import BadRequest
from ..ledger.table import CORRECTED, CORRECTION_CHARS, KEPT, PINNED, STRUCK
from ..recall import ledger
from ..recall.paging import Room
from .answers import Answer, Verb, Words, one
from .explain import readable
from .render import counted
from .status import UNPIN, pins_note

if TYPE_CHECKING:
    from ..recall.access import Access

_TOKENS = 6000


def _list(deps: Access, words: Words) -> Answer:
    readable(deps)  # refuses who is known to own nothing
    data = ledger.view(deps, " ".join(words.rest), 0, Room.of(_TOKENS))
    found = f"{counted(data['total'], 'fact')} stated in this conversation, "
    if words.rest:
        found += "those that say most of these words first:"
        sought = "is struck" if words.rest == ("struck",) else "says any of these words"
        none = f"No fact of this conversation {sought}."
    else:
        found += "pinned ones and the newest first:"
        none = (
            "No fact stands in this conversation."
            if data.get("struck")
            else "No fact was stated in this conversation yet."
        )
    lines = [found if data["total"] else none]
    for each in data["entries"]:
        became = [f"{name.replace('_', ' ')} {each[name]}" for name in _BECAME if name in each]
        lines.append(f"{each['entry']}  {each['what']}  {each['at'][:10]}  {each['said_by']}: {each['quote']}")
        lines += [f"    {'; '.join(became)}"] if became else []
    lines += [
        f"contradiction: {each['subject']}: {each['entry']} and {each['contradicts']}"
        for each in data["contradictions"]
    ]
    foot = f"{data['struck']:,} struck: `/lcm ledger struck`" if data.get("struck") else ""
    if words.rest and not data["total"]:
        foot = "`/lcm ledger` lists all."
    return Answer("\n".join([*lines, *data.get("notes", ())]), data, foot=foot)


_BECAME = ("mark", "correction", "replaces", "replaced_by", "contradicts", "found_by", "lacks")


def _mark(mark: str, deps: Access, words: Words) -> Answer:
    """Put a mark on an entry, or take it off."""
    readable(deps)
    if deps.session is not None and deps.sessions.of_several(deps.session) and not deps.reads_all:
        raise BadRequest(
            "several people talk here, so only the operator marks entries: `hermes lcm ledger` at a terminal"
        )
    name = one(words, "an entry as `/lcm ledger` names it", most=1_000 if mark == CORRECTED else 1)
    said = _correction(deps, words) if mark == CORRECTED else ""
    entry = ledger.find(deps, name)
    became = f"{mark or 'as it was said'}{f' to {said!r}' if said else ''}: {entry.fact.text}"
    data = {"entry": entry.name, "mark": mark, "correction": said}
    if words.dry:
        return Answer(f"{entry.name} would be {became}", data, foot="Dry run: nothing was changed.")
    branch = deps.session.conversation_id if deps.session is not None else None
    deps.ledger.mark(entry, mark, said, now=deps.clock(), branch=branch)
    note = pins_note(deps) if mark in KEPT else ""
    return Answer(
        f"{entry.name} is {became}" + (f"\n{note}. {UNPIN}" if note else ""), data | ({"note": note} if note else {})
    )


def _correction(deps: Access, words: Words) -> str:
    """Correction of an entry, as it is stored. Raises BadRequest without one, or for one that is too long."""
    said = deps.filters.text(" ".join(" ".join(words.rest[1:]).split()))
    if not said:
        raise BadRequest("`/lcm ledger correct` needs the entry and what is right instead")
    if len(said) > CORRECTION_CHARS:
        raise BadRequest(
            f"a correction has at most {CORRECTION_CHARS} characters, which prompts show whole, and this has {len(said):,}"
        )
    return said


VERBS = (
    Verb(
        "ledger",
        _list,
        "rules, decisions, names, values and dates that were stated here",
        "[<words>]",
        quotes=True,
        own=True,
    ),
    *(
        Verb(f"ledger {word}", partial(_mark, mark), text, usage, quotes=True, own=True, example=example, at_once=True)
        for word, mark, text, usage, example in (
            ("strike", STRUCK, "mark an entry as wrong; prompts no longer show it as a rule", "<entry>", "12.a3f1"),
            ("pin", PINNED, "keep an entry in the prompt", "<entry>", "12.a3f1"),
            (
                "correct",
                CORRECTED,
                "say what is right instead; prompts show both",
                "<entry> <words>",
                "12.a3f1 the port is 81",
            ),
            ("clear", "", "take back a strike, a pin or a correction", "<entry>", "12.a3f1"),
        )
    ),
)
