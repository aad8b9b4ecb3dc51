"""
The ledger of a conversation: which messages state facts, what operators said of them, and the entries that come of both.

Owns table ``ledger``, a cache of addresses: a quotation is read out of its message each time, so nothing taken out of a message
stays here. Marks of operators are facts in ``meta``. Whose messages may be read is the caller's business.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final

from ..dag import SummaryDag
from ..records import Flag, Row, StatedFact
from ..storage.connection import Database
from ..storage.meta import Meta
from ..store import MessageStore
from ..text import markers, salience, statements
from . import choices, facts
from .facts import Fact
from .rules import is_rule

PINNED, STRUCK, CORRECTED = "pinned", "struck", "corrected"
CORRECTION_CHARS: Final = 400  # at most: prompts show it whole
KEPT: Final = (PINNED, CORRECTED)  # what stays in the prompt
_BATCH: Final = 200
_SLOWER: Final = 10  # by the clock a look takes at most so many times its own time
_READ: Final = "ledger:{}"  # the newest sequence number that was looked at
_MARKS: Final = "ledger_marks:{}"
_SPEAKERS: Final = 50  # of whom the last message is remembered
_IN_A_ROW: Final = 5  # messages of a speaker that may be taken back one after the other
_COMPARED: Final = 200  # newest rules or decisions that one is compared with
NOT_SAID: Final = Flag.HOST_NOTE | Flag.RETRACTED | Flag.IMPORTED | Flag.FILTERED

#: Facts that summarisers found, by the address of their message.
Told = Mapping[int, Sequence[StatedFact]]
#: What a later fact does to an earlier one of its kind.
Relation = Callable[[Fact, Fact], choices.Relation]
NONE_TOLD: Final[Told] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Entry:
    """Fact in the ledger. ``replaces``, ``replaced_by`` and ``contradicts``: names of other entries on the same thing.

    ``mark``: "", pinned, struck or corrected; ``correction``: what an operator says instead.
    """

    name: str
    fact: Fact
    row: Row
    mark: str = ""
    correction: str = ""
    times: int = 1  # that it was said; ``row`` is the last
    replaces: str = ""
    replaced_by: str = ""
    contradicts: str = ""


@dataclass(slots=True)
class Look:
    """Messages that state facts. ``behind``: the time was up before the newest were looked at."""

    addresses: list[int] = field(default_factory=list)
    behind: bool = False
    fresh: list[tuple[int, int]] = field(default_factory=list)  # (conversation, message) that were not known
    looked: int = 0  # messages
    seen: dict[int, int] = field(default_factory=dict)  # the newest sequence number looked at, by conversation


class Ledger:
    """The ledgers of one database."""

    def __init__(self, db: Database, store: MessageStore, dag: SummaryDag) -> None:
        self._db = db
        self._store = store
        self._dag = dag
        self._meta = Meta(db)

    def only(self, store_ids: Collection[int]) -> Ledger:
        """The same ledgers, as far as these messages state facts."""
        return Ledger(self._db, self._store.only(store_ids), self._dag)

    def look(self, conversations: Collection[int], *, seconds: float) -> Look:
        """The messages that state facts: those that are known, and those among what came since. Writes nothing."""
        until = time.thread_time() + seconds  # a busy machine finds as much
        latest = time.monotonic() + _SLOWER * seconds
        out = Look()
        for each in conversations:
            known = self._db.query("SELECT store_id FROM ledger WHERE conversation_id = ?", (each,))
            out.addresses += [store_id for (store_id,) in known]
            self._look(out, each, lambda: time.thread_time() > until or time.monotonic() > latest)
        out.addresses += self.told(conversations).keys() - {*out.addresses}
        return out

    def told(self, conversations: Collection[int]) -> Told:
        """The facts that summarisers found, by message."""
        found: dict[int, list[StatedFact]] = {}
        for store_id, fact in self._dag.stated(conversations):
            found.setdefault(store_id, []).append(fact)
        return found

    def _look(self, out: Look, conversation_id: int, is_over: Callable[[], bool]) -> None:
        seen = self._meta.value(_READ.format(conversation_id)) or 0
        found, last = list[int](), dict[tuple[str, str], list[int]]()
        while rows := self._store.said_after(conversation_id, seen, role="user", limit=_BATCH):
            if is_over():
                out.behind = True
                break
            seen = out.seen[conversation_id] = rows[-1].head.seq
            out.looked += len(rows)
            for row in rows:
                who = markers.speaker(row.text)
                said = markers.by_speaker(row.text, named=True, source=row.head.source)
                if not statements.topic(said) and statements.takes_back(said):  # told by what stood before it
                    found += [*last.get(who, [])[-1:], row.store_id]
                    last[who] = last.pop(who, [])[:-1]
                    if not statements.wants_else(said):
                        continue
                elif of_row(row, named=bool(who[0])) or statements.topic(said):
                    found.append(row.store_id)
                last[who] = [*last.pop(who, []), row.store_id][-_IN_A_ROW:]
        found += [
            at for said in list(last.values())[-_SPEAKERS:] for at in said[-1:]
        ]  # the next message may take it back
        found = sorted({*found} - {*out.addresses})
        out.fresh += [(conversation_id, store_id) for store_id in found]
        out.addresses += found

    def keep(self, look: Look) -> None:
        """Cache the addresses that were found, so that nobody looks for them again."""
        with self._db.transaction():
            self._db.executemany("INSERT OR IGNORE INTO ledger(conversation_id, store_id) VALUES (?, ?)", look.fresh)
            for conversation_id, seen in look.seen.items():
                self._meta.note(_READ.format(conversation_id), seen)

    # -- marks --------------------------------------------------------------------------------------------
    def mark(self, entry: Entry, mark: str, correction: str = "", *, now: float, branch: int | None = None) -> None:
        """Mark an entry with an operator's verdict; "" takes it back. ``branch``: the conversation in which it counts, where it
        inherits the entry; the others hear nothing of it."""
        key = _MARKS.format(branch or entry.row.head.conversation_id)
        with self._db.transaction():
            marks = {name: said for name, said in (self._meta.value(key) or {}).items() if name != entry.name}
            if mark or branch not in (None, entry.row.head.conversation_id):
                marks[entry.name] = {"mark": mark, "correction": correction, "at": now}
            self._meta.note(key, marks)

    def unmark(self, store_ids: Collection[int]) -> None:
        """Forget what operators said of facts of messages that say nothing any more."""
        gone = {str(each) for each in store_ids}
        for conversation, marks in self._meta.with_prefix(_MARKS.format("")).items():
            legible = marks if isinstance(marks, dict) else {}  # a damaged note may hold what is to go
            kept = {name: said for name, said in legible.items() if name.partition(".")[0] not in gone}
            if kept != marks:
                self._meta.note(_MARKS.format(conversation), kept)

    def marks(self, conversations: Collection[int]) -> dict[str, dict[str, Any]]:
        """The marks of conversations, by the entry's name."""
        out: dict[str, dict[str, Any]] = {}
        for each in conversations:
            out |= self._meta.value(_MARKS.format(each)) or {}
        return out

    def marked(self, conversations: Collection[int]) -> list[Entry]:
        """The entries that operators marked, oldest first. Reads no message but theirs."""
        marks = self.marks(conversations)
        ids = sorted({int(name.partition(".")[0]) for name in marks})
        told = self.told(conversations) if ids else {}
        rows = self._store.legible(ids)[0]
        found = (entries([row], marks, who, told=told) for row in rows for who in _readings(row))
        return list({each.name: each for some in found for each in some if each.mark}.values())


def _readings(row: Row) -> list[Mapping[int, str]]:
    """Speakers by whom a message may be said: its first words are a name only where several people talk."""
    name, _ = markers.speaker(row.text)
    return [statements.NOBODY, {row.store_id: name}] if name else [statements.NOBODY]


def of_row(row: Row, told: Iterable[StatedFact] = (), *, named: bool = False) -> tuple[Fact, ...]:
    """The facts that a message states: a user's words only, and none that were taken back.

    ``named``: several people talk, and the name of who said it stands in front.
    """
    if row.head.role != "user" or row.head.flags & NOT_SAID:
        return ()
    found = facts.stated(row.text, row.head.source, named=named, turning=True)
    return found + facts.told(row.text, told, found, row.head.source, named=named)


def entries(
    rows: Iterable[Row],
    marks: Mapping[str, Mapping[str, Any]],
    speakers: Mapping[int, str] = statements.NOBODY,
    *,
    told: Told = NONE_TOLD,
) -> list[Entry]:
    """The entries of messages, oldest first. The same fact said again is one entry, named after where it was said first.

    A later value of the same thing replaces the earlier one if its own words speak of a change; else the two contradict each
    other, and both stand. ``speakers``: who said a message where several people talk; what is somebody's own is only theirs.
    """
    found: dict[tuple[str, ...], Entry] = {}
    for row in _standing(rows, speakers):
        who = speakers.get(row.store_id, "")
        for fact in of_row(row, told.get(row.store_id, ()), named=row.store_id in speakers):
            named = (salience.normal(fact.subject),) if fact.kind in (facts.NAME, facts.VALUE) else (fact.text,)
            same = (who, fact.kind, *(fact.key or named), _normal(fact.value))
            before = found.pop(same, None)
            name = before.name if before is not None else _name(row, fact)
            said = marks.get(name, {})
            times = before.times + 1 if before is not None else 1
            found[same] = Entry(name, fact, row, said.get("mark", ""), said.get("correction", ""), times)
    related = _related(list(found.values()), speakers)
    for kind, relation in ((facts.RULE, _of_rules), (facts.DECISION, _of_decisions)):
        related = _by_words(related, speakers, kind, relation)
    return [each for each in related if each.mark or each.replaces or each.contradicts or _holds(each.fact)]


def _holds(fact: Fact) -> bool:
    """Does a fact that replaces nothing say something? Words that only lift a rule, or turn from one, do not."""
    return fact.kind != facts.RULE or fact.told or (is_rule(fact.text) and not statements.lifts(fact.text))


def _standing(rows: Iterable[Row], speakers: Mapping[int, str]) -> list[Row]:
    """Messages in order, without those that the next one of their speaker took back."""
    said = sorted((row for row in rows if not row.head.flags & NOT_SAID), key=lambda row: (row.head.pos, row.store_id))
    words = [
        replace(row, text=markers.by_speaker(row.text, named=row.store_id in speakers, source=row.head.source))
        for row in said
    ]
    kept = {row.store_id for row in statements.standing(words, speakers)}
    return [row for row in said if row.store_id in kept]


def _related(found: Sequence[Entry], speakers: Mapping[int, str]) -> list[Entry]:
    """Entries with what replaces and contradicts what; struck ones count for nothing."""
    out = {each.name: each for each in found}
    newest: dict[tuple[str, ...], str] = {}
    for entry in found:
        if entry.fact.key is None or entry.mark == STRUCK:
            continue
        key = (*entry.fact.key, speakers.get(entry.row.store_id, "") if entry.fact.own else "")
        if key in newest:
            old = out[newest[key]]
            if _same(entry.fact.value, old.fact.value):
                pass
            elif entry.fact.changes or _denies(entry.fact.text, old.fact.value):
                out[old.name], out[entry.name] = replace(old, replaced_by=entry.name), replace(entry, replaces=old.name)
            else:
                out[old.name] = replace(old, contradicts=entry.name)
                out[entry.name] = replace(entry, contradicts=old.name)
        newest[key] = entry.name
    return list(out.values())


def _denies(text: str, value: str) -> bool:
    """Does a text name a value as what it is not: "3 %, not 5 %"?"""
    found = re.search(
        rf"\b(?:not|instead of|rather than|nicht|statt|no)\W+(?:\w+ )?{re.escape(value)}(?!\w)", text, re.IGNORECASE
    )
    return found is not None


def _by_words(found: Sequence[Entry], speakers: Mapping[int, str], kind: str, relation: Relation) -> list[Entry]:
    """Entries of a kind with those that replace others; what somebody else says of the same contradicts."""
    out = {each.name: each for each in found}
    known: list[Entry] = []
    for entry in (each for each in found if each.fact.kind == kind and each.mark != STRUCK):
        became_of = [(old, relation(entry.fact, old.fact)) for old in known[-_COMPARED:]]
        meant = statements.meant(entry.fact.text, [old.fact.text for old, became in became_of if became == "replaces"])
        for old, became in became_of:
            if became == "replaces" and old.fact.text not in meant:
                continue
            if became == "replaces" and speakers.get(entry.row.store_id) == speakers.get(old.row.store_id):
                out[old.name] = replace(out[old.name], replaced_by=entry.name)
                out[entry.name] = replace(out[entry.name], replaces=old.name)
                known.remove(old)
            elif became:
                out[old.name] = replace(out[old.name], contradicts=entry.name)
                out[entry.name] = replace(out[entry.name], contradicts=old.name)
        if out[entry.name].replaces or _holds(entry.fact):
            known.append(entry)
    return list(out.values())


def _of_rules(later: Fact, earlier: Fact) -> choices.Relation:
    return "replaces" if statements.replaces(later.text, earlier.text) else ""


def _of_decisions(later: Fact, earlier: Fact) -> choices.Relation:
    return "" if later.told or earlier.told else choices.relation(_decided(later), _decided(earlier))


def _decided(fact: Fact) -> str:
    """Words of a decision, with its verb."""
    return choices.told(fact.verb, fact.clause, fact.text)


def _name(row: Row, fact: Fact) -> str:
    """A name that stays as long as the words do: the message, and a digest of the quotation and its value."""
    return f"{row.store_id}.{blake2b((fact.kind + (fact.clause or fact.value) + fact.text).encode(), digest_size=2).hexdigest()}"


def _same(one: str, other: str) -> bool:
    """Is one of two versions or dates only told more exactly?"""
    short, long = sorted((_normal(one), _normal(other)), key=len)
    return long.startswith((f"{short}.", f"{short},", f"{short} "))


def _normal(value: str) -> str:
    """A value as it is compared: 5.3, v5.3 and 5.3.0 are the same version, and Dr. Klein is Klein."""
    plain = re.sub(r"^(?:(?:dr|prof|mrs?|ms)\. )+", "", salience.normal(value))
    return plain.removeprefix("v").removesuffix(".0") if plain[-1:].isdigit() else plain
