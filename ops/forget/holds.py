"""
Legal holds: messages and sessions that no purge and no retention removes.

A held message has a flag; a held session a note, which counts for what is said there later too. Notes are in table ``meta``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ...errors import BadRequest, NotFound
from ...records import Flag
from ...storage.meta import Meta
from ..answers import Answer, Verb, Words, at_most
from ..explain import parsed
from ..render import counted

if TYPE_CHECKING:
    from ...recall.access import Access

_HOLD: Final = "hold:"
_GONE: Final = "{} was purged: nothing is left of it that could be kept"
_HELD: Final = f"""
SELECT m.store_id FROM messages m JOIN sessions s USING(session_key)
 WHERE m.store_id IN (SELECT value FROM json_each(:ids))
   AND (m.flags & {int(Flag.PINNED)} OR s.session_id IN (SELECT value FROM json_each(:sessions)))
"""
_PINNED: Final = f"SELECT store_id FROM messages WHERE flags & {int(Flag.PINNED)} ORDER BY store_id"


def held(deps: Access, store_ids: Sequence[int]) -> frozenset[int]:
    """Messages among these that are held."""

    params = {"ids": json.dumps(list(store_ids)), "sessions": json.dumps(list(sessions(deps)))}
    return frozenset(row[0] for row in deps.db.query(_HELD, params))


def sessions(deps: Access) -> list[str]:
    """Sessions that are held as a whole."""
    return sorted(Meta(deps.db).with_prefix(_HOLD))


def _pin(deps: Access, words: Words) -> Answer:
    at_most(words, 2, "a message or a session, and perhaps `undo`")
    if not words.rest:
        return _list(deps)
    undo = words.rest[1:] == ("undo",)
    if words.rest[1:] and not undo:
        raise BadRequest(f"`/lcm pin` takes undo behind a name, not {words.rest[1]!r}")
    name = words.rest[0]
    before = _named(deps)
    _hold(deps, name, undo=undo, dry=words.dry)
    said = "may be purged again" if undo else "is pinned: no purge and no retention removes it"
    if words.dry:
        return Answer(
            f"{name} {said.replace('may', 'could').replace('is pinned', 'would be pinned')}. Dry run.", {"name": name}
        )
    return Answer(f"{name} {said}.", {"held": not undo, "name": name}, idle=_named(deps) == before)


def _hold(deps: Access, name: str, *, undo: bool, dry: bool) -> None:
    if name.lower().startswith("msg_"):
        _, number = parsed(name)
        head = deps.store.heads_of([number]).get(number)
        if head is None:
            raise NotFound(f"nothing is stored under {name}")
        if head.flags & Flag.PURGED and not undo:
            raise BadRequest(_GONE.format(name))
        if not dry:
            deps.store.flag([number], **({"remove": Flag.PINNED} if undo else {"add": Flag.PINNED}))
        # Asked last: what is pinned now stays, so a purge that is on its way came before.
        if not undo and deps.store.heads_of([number])[number].flags & Flag.PURGED:
            raise BadRequest(_GONE.format(name))
    elif deps.sessions.find(name) is None and not undo:
        raise NotFound(f"nothing is stored under a session {name!r}; a message is named like msg_12")
    elif undo and not dry:
        Meta(deps.db).forget(_HOLD + name)
    elif not dry:
        Meta(deps.db).note(_HOLD + name, {"at": deps.clock()})


def _named(deps: Access) -> tuple[list[str], list[str]]:
    """Sessions and messages that are pinned by name."""
    return sessions(deps), [f"msg_{row[0]}" for row in deps.db.query(_PINNED)]


def _list(deps: Access) -> Answer:
    named, single = _named(deps)
    held = f"Pinned: {counted(len(named), 'session')}, {counted(len(single), 'message')}."
    said = held if named or single else "Nothing is pinned; `/lcm pin msg_12` pins a message."
    return Answer(
        "\n".join([said, *(f"  {each}" for each in [*named, *single[:50]])]), {"sessions": named, "messages": single}
    )


VERBS: Final = (
    Verb(
        "pin",
        _pin,
        "pin a message or a session: no purge removes it; undo ends that",
        "[<msg_12|session>] [undo]",
        example="msg_12",
        at_once=True,
    ),
)
