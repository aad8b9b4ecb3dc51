"""
The ledger as tools and commands show it: the facts of a conversation that its reader may read, quoted and dated.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ..errors import NotFound, StoreError
from ..ledger.table import KEPT, PINNED, STRUCK, Entry, Look
from ..ledger.table import entries as entries_of
from ..prompt.present_state import PINNED_SHARE, kept_tokens
from ..text import salience
from .access import Access
from .grep import NOTE
from .paging import Answer, Room, iso, spoken, time_said

_LOOKS_S: Final = 3.0
_WORTH_KEEPING: Final = 200  # messages looked at


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
    """(entries that operators keep in this conversation's prompt, tokens that they take there)."""
    if caller.session is None:  # asking makes no database
        return 0, 0
    scope = caller.current()
    marked = [each for each in caller.ledger.marked(scope.conversations or ()) if each.mark in KEPT]
    readable = {*caller.scopes.messages([each.row.store_id for each in marked], scope)}
    marked = [each for each in marked if each.row.store_id in readable]
    return len(marked), sum(map(kept_tokens, marked))


def kept_room(state_tokens: int) -> int:
    """Tokens that the present state keeps for such entries, whatever else it has to say."""
    return int(state_tokens * PINNED_SHARE)


def view(caller: Access, words: str, start: int, room: Room, *, keep: bool = False) -> Answer:
    """The entries on something (all without words): pinned ones first, then the newest; and which of them disagree.

    ``keep``: what took long to find is not looked for again.
    """
    found, look = entries(caller)
    if keep and look.looked >= _WORTH_KEEPING:
        with suppress(StoreError):  # a cache: who cannot write it now looks again the next time
            caller.ledger.keep(look)
    shown = about(found, words)
    out: Answer = {
        "note": NOTE,
        "view": "ledger",
        "about": words,
        "total": len(shown),
        "contradictions": _against(shown),
    }
    if look.behind:
        out["notes"] = ["the newest messages were not looked at yet; the same call goes on with them"]
    out["entries"] = []
    room.use_up(out)
    for place, entry in enumerate(shown[start:], start):
        item = render_entry(caller, entry)
        if out["entries"] and not room.holds(item):
            out["continue_with"] = {"tool": "lcm_describe", "view": "ledger", "about": words, "source_offset": place}
            break
        room.use_up(item)
        out["entries"].append(item)
    return out


def about(found: Sequence[Entry], words: str, *, struck: bool = False) -> list[Entry]:
    """The entries on something: pinned ones first, then the newest. Without words all but the struck ones, or all."""
    wanted = salience.normal(words).split()
    shown = [entry for entry in found if (struck and not wanted) or _is_about(entry, wanted)]
    return sorted(shown, key=lambda entry: (entry.mark == PINNED, entry.row.store_id), reverse=True)


def render_entry(caller: Access, entry: Entry) -> Answer:
    """One entry: who said what of what, where and when, and what became of it."""
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


def _is_about(entry: Entry, wanted: Sequence[str]) -> bool:
    if not wanted:
        return entry.mark != STRUCK
    text = salience.normal(
        f"{entry.fact.kind} {entry.fact.subject} {entry.fact.text} {entry.correction} {entry.name} {entry.mark}"
    )
    return all(word.removesuffix("s") in text for word in wanted)
