"""
The ledger as tools and commands show it: the facts of a conversation that its reader may read, quoted and dated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ..errors import NotFound, StoreError
from ..ledger.facts import DECISION
from ..ledger.table import KEPT, PINNED, STRUCK, Entry, Look
from ..ledger.table import entries as entries_of
from ..prompt.present_state import PINNED_SHARE, kept_tokens
from ..search import forms, query
from .access import Access
from .grep import NOTE
from .paging import Answer, Room, iso, spoken, time_said

_LOOKS_S: Final = 3.0
_WORTH_KEEPING: Final = 200  # messages looked at
_ENOUGH: Final = 0.35  # of what the best entry says of the words, weighed by rarity
#: Words with which people ask for a decision; its own may be others.
_ASKED_FOR: Final = {DECISION: "decide use choose chose chosen agree pick"}


@dataclass(frozen=True, slots=True)
class Found:
    """An entry on something. ``lacks``: words that were asked for and that it does not say."""

    entry: Entry
    lacks: tuple[str, ...] = ()


def entries(caller: Access) -> tuple[list[Entry], Look]:
    """The entries of the current conversation, oldest first, and what was looked at for them."""
    scope = caller.current()
    conversations = scope.conversations or ()
    look = caller.ledger.look(conversations, seconds=_LOOKS_S)
    ids = caller.scopes.messages(look.addresses, scope)
    rows = [row for row in caller.store.legible(sorted(ids))[0] if not caller.taken_back(row.head)]
    speakers = {row.store_id: said for row in rows if (said := spoken(caller.speaker(row)))}
    told = caller.ledger.told(conversations)
    return entries_of(rows, caller.ledger.marks(conversations), speakers, told=told), look


def find(caller: Access, name: str) -> Entry:
    """The entry of a name. Raises NotFound."""
    for entry in entries(caller)[0]:
        if entry.name == name.strip("[]"):
            return entry
    raise NotFound(f"the ledger of this conversation has no entry {name!r}; `/lcm ledger` lists them")


def kept(caller: Access) -> tuple[int, int]:
    """Number of entries that operators keep in this conversation's prompt, and the tokens that they take."""
    if caller.session is None:  # asking makes no database
        return 0, 0
    scope = caller.current()
    marked = [each for each in caller.ledger.marked(scope.conversations or ()) if each.mark in KEPT]
    readable = {*caller.scopes.messages([each.row.store_id for each in marked], scope)}
    marked = [each for each in marked if each.row.store_id in readable]
    return len(marked), sum(map(kept_tokens, marked))


def kept_room(state_tokens: int) -> int:
    """Tokens of the present state that are kept for pinned and corrected entries."""
    return int(state_tokens * PINNED_SHARE)


def view(caller: Access, words: str, start: int, room: Room, *, keep: bool = False) -> Answer:
    """The entries on something (all without words): pinned ones first, then the newest; and which of them disagree.

    ``keep``: what took long to find is not looked for again.
    """
    found, look = entries(caller)
    if keep and look.looked >= _WORTH_KEEPING:
        with suppress(StoreError):  # a cache: who cannot write it now looks again the next time
            caller.ledger.keep(look)
    shown = about(caller, found, words)
    out: Answer = {
        "note": NOTE,
        "view": "ledger",
        "about": words,
        "total": len(shown),
        "contradictions": _against([each.entry for each in shown]),
    }
    notes = ["the newest messages were not looked at yet; the same call goes on with them"] if look.behind else []
    if shown and shown[0].lacks:
        notes.append("no entry says all of these words; those that say most of them come first")
    if notes:
        out["notes"] = notes
    struck = sum(entry.mark == STRUCK for entry in found)
    if struck and not words:
        out["struck"] = struck
    out["entries"] = []
    room.use_up(out)
    for place, each in enumerate(shown[start:], start):
        item = render_entry(caller, each.entry)
        if each.lacks:
            item["lacks"] = ", ".join(each.lacks)
        if out["entries"] and not room.holds(item):
            out["continue_with"] = {"tool": "lcm_describe", "view": "ledger", "about": words, "source_offset": place}
            break
        room.use_up(item)
        out["entries"].append(item)
    return out


def about(caller: Access, found: Sequence[Entry], words: str, *, struck: bool = False) -> list[Found]:
    """The entries that say most of the words, those that say all of them first; then pinned ones, then the newest.

    Without words all but the struck ones, or all.
    """
    asked = query.parse(words)
    atoms = _typed([atom for atom in asked.atoms if atom.stems], words)
    if not atoms:
        plain = [Found(entry) for entry in found if struck or entry.mark != STRUCK]
        return sorted(plain, key=_order, reverse=True)
    texts = [(entry, f"{_text(entry)} {spoken(caller.speaker(entry.row))}") for entry in found]
    saying = _saying(texts, atoms, asked)
    weights = [_rarity(sum(at in said for _, said in saying), len(saying)) for at in range(len(atoms))]
    shares = {entry.name: sum(weights[at] for at in said) for entry, said in saying}
    least = _ENOUGH * max(shares.values(), default=0.0)
    shown = [
        Found(entry, tuple(_written(atom) for at, atom in enumerate(atoms) if at not in said))
        for entry, said in saying
        if said and shares[entry.name] >= least
    ]
    return sorted(shown, key=lambda each: (shares[each.entry.name], *_order(each)), reverse=True)


def render_entry(caller: Access, entry: Entry) -> Answer:
    """Entry as it is shown: who said what, where and when, and what became of it."""
    head, fact = entry.row.head, entry.fact
    item: Answer = {
        "entry": entry.name, "what": fact.kind, "subject": fact.subject, "value": fact.value if fact.subject else "",
        "quote": fact.text, "said_by": spoken(caller.speaker(entry.row)) or head.role, "at": iso(time_said(head)),
        "address": f"msg_{head.store_id}", "times": entry.times if entry.times > 1 else "", "replaces": entry.replaces,
        "replaced_by": entry.replaced_by, "contradicts": entry.contradicts, "mark": entry.mark, "correction": entry.correction,
        "found_by": "the summariser" if fact.told else "",
    }  # fmt: skip
    return {name: value for name, value in item.items() if value}


def _against(found: Sequence[Entry]) -> list[Answer]:
    return [
        {"subject": each.fact.subject, "value": each.fact.value, "entry": each.name, "contradicts": each.contradicts}
        for each in found
        if each.contradicts
    ]


def _order(each: Found) -> tuple[bool, int]:
    return each.entry.mark == PINNED, each.entry.row.store_id


def _written(atom: query.Atom) -> str:
    return atom.written.strip('"*()')


def _typed(atoms: Sequence[query.Atom], words: str) -> list[query.Atom]:
    """Atoms without the parts of a name ("My" and "SQL" of "MySQL"), which the search adds to it."""
    whole = [each for each in atoms if not each.written.isascii()
             or re.search(rf"(?<!\w){re.escape(_written(each))}(?!\w)", words)]  # fmt: skip
    return whole or list(atoms)


def _rarity(count: int, of: int) -> float:
    return math.log(1 + of / count) if count else 0.0


def _text(entry: Entry) -> str:
    """Text of an entry in which the words of a question are looked for."""
    kind = entry.fact.kind
    return f"{kind} {_ASKED_FOR.get(kind, '')} {entry.fact.text} {entry.correction} {entry.name} {entry.mark}"


def _saying(
    texts: Sequence[tuple[Entry, str]], atoms: Sequence[query.Atom], asked: query.Query
) -> list[tuple[Entry, set[int]]]:
    """Entries with the numbers of the words that their texts say, in the forms that the search knows; none that is excluded.

    Where nothing tells the language, forms are tried of words that no text says as they were asked for.
    """
    stems = [set(query.stems(text)) for _, text in texts]
    said = [{at for at, atom in enumerate(atoms) if each.issuperset(atom.stems)} for each in stems]
    for at, atom in enumerate(atoms):
        if len(asked.languages) > 1 and any(at in each for each in said):
            continue
        roots = [root for of in asked.languages for root in forms.forms(_written(atom), of).roots]
        pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, roots))})") if roots else None
        for (_, text), each in zip(texts, said, strict=True):
            if pattern is not None and pattern.search(forms.plain(text.lower())):
                each.add(at)
    kept = [not any(each.issuperset(atom.stems) for atom in asked.excluded) for each in stems]
    return [(entry, each) for (entry, _), each, keep in zip(texts, said, kept, strict=True) if keep]
