"""
The host's own session database written again from our record, where it is lost or damaged, or lacks sessions.

Written by the host's own class, so that its schema is the host's business; then opened by it again and compared, message by
message. A sound file of the host is only added to; a damaged one is kept under another name. The other way round, from the host's
file into ours, is ``host_sessions``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import BadRequest, LcmError, NotFound, StoreBusy
from ..host import facts
from ..ingest.transcript import Transcripts
from ..ops import backup
from ..ops.answers import FOUND, OK, Answer, Verb, Words, at_most, newest
from ..ops.render import counted, few
from ..records import Flag
from ..session import LOST_ID, Session
from ..storage import disk, files
from ..storage.files import Progress, silent
from ..storage.foreign import HOST, HOST_FILE, Foreign
from ..text import content

if TYPE_CHECKING:
    from ..recall.access import Access

_MISSING, _DAMAGED, _SOUND = "missing", "damaged", "sound"
_SESSIONS: Final = "SELECT session_id FROM sessions ORDER BY started_at, session_key"
_OWN: Final = f"""
SELECT store_id FROM messages WHERE session_key = (SELECT session_key FROM sessions WHERE session_id = ?)
   AND flags & {int(Flag.RETRACTED | Flag.DUPLICATE)} = 0 ORDER BY pos, seq
"""
_AT_ONCE: Final = 500


@dataclass(slots=True)
class Rescue:
    """The host's file and the sessions that it lacks. ``written`` and ``differing``: messages, once it was done."""

    path: Path
    state: str
    sessions: tuple[str, ...]
    written: int = 0
    differing: list[str] = field(default_factory=list)
    kept: Path | None = None


def plan(deps: Access, named: str = "") -> Rescue:
    """Sessions of ours that the host's file lacks. Changes nothing."""
    path = deps.home / HOST_FILE
    state = _state(path)
    known = _known(path) if state == _SOUND else frozenset()
    every = [str(row[0]) for row in deps.db.query(_SESSIONS)]
    if named and named not in every:
        raise NotFound(f"nothing is stored under a session {named!r}; the newest sessions: {newest(deps.sessions)}")
    lost = LOST_ID.split("'")[1]
    wanted = [
        name for name in every
        if name not in known and named in ("", name) and not name.startswith(lost) and deps.store.count(name)
    ]  # fmt: skip
    return Rescue(path, state, tuple(wanted))


def _state(path: Path) -> str:
    if not path.exists() or not path.stat().st_size:
        return _MISSING
    try:
        with Foreign(path, shared=True) as source:
            if source.kind.name != HOST:
                return _DAMAGED
        return _DAMAGED if files.quick_check(path) else _SOUND
    except StoreBusy:
        raise
    except LcmError:
        return _DAMAGED


def _known(path: Path) -> frozenset[str]:
    """Sessions of which the host has messages."""
    with Foreign(path, shared=True) as source:
        return frozenset(str(row["name"]) for row in source.rows("SELECT DISTINCT session_id AS name FROM messages"))


# -- writing ---------------------------------------------------------------------------------------------
def apply(deps: Access, named: str = "", progress: Progress = silent) -> Rescue:
    """Write the sessions that are missing; a lost or damaged file is replaced as a whole, once the new one was compared."""
    done = plan(deps, named)
    if done.state == _SOUND:
        if done.sessions:
            _write(deps, done, done.path, progress)
        return done
    fresh = done.path.with_name(f".{done.path.name}.{os.getpid()}.rescued")
    backup.remove_half_made(done.path)
    try:
        _write(deps, done, disk.private(fresh), progress)
        files.seal(fresh)
        if done.state == _DAMAGED:
            files.refuse_shared(done.path)
            done.kept = done.path.with_stem(f"{done.path.stem}-damaged-{disk.stamp(deps.clock())}")
            files.copy_raw(done.path, done.kept)
            files.discard(done.path)
        fresh.replace(done.path)
    finally:
        files.discard(fresh)
    return done


def _write(deps: Access, done: Rescue, path: Path, progress: Progress) -> None:
    """Sessions, parents first, and their messages; then all of it is read back by the host's class and compared."""
    wrote: dict[str, list[bytes]] = {}
    with facts.session_database(path) as database:
        for n, name in enumerate(done.sessions):
            session = deps.sessions.find(name)
            assert session is not None
            wrote[name] = _session(deps, database, session)
            done.written += len(wrote[name])
            progress("writing sessions", n + 1, len(done.sessions))
    with facts.session_database(path) as database:
        for name, digests in wrote.items():
            read = [content.canonical_core(message).digest for message in facts.session_transcript(database, name)]
            if read != digests:
                done.differing.append(name)


def _session(deps: Access, database: Any, session: Session) -> list[bytes]:
    """One session as the host would hand it over on resume; the digests of its messages."""
    facts.create_session(database, _facts(session))
    digests = []
    for message in _messages(deps, session):
        facts.append_message(database, session.session_id, message)
        digests.append(content.canonical_core(message).digest)
    facts.date_session(database, session.session_id, session.started_at, session.ended_at, session.end_reason or "")
    return digests


def _facts(session: Session) -> dict[str, Any]:
    parent = session.parent_session_id
    marks = {"branch": "_branched_from", "subagent": "_delegate_from"}
    return {
        "session_id": session.session_id,
        "source": session.platform or "unknown",
        "model": session.model or None,
        "session_key": session.host_key or None,
        "parent_session_id": parent,
        "model_config": {marks[session.origin]: parent} if parent and session.origin in marks else None,
    }


def _messages(deps: Access, session: Session) -> Iterator[Mapping[str, Any]]:
    """The newest session of a conversation shows its whole transcript; those that rotations ended, what was said in them.

    What the user took back is not shown: it stays in our record.
    """
    newest = deps.sessions.of_conversation(session.conversation_id)[-1]
    if newest.session_id == session.session_id:
        ids = [item.store_id for item in Transcripts(deps.store, deps.sessions).expected(session, None)]
    else:
        ids = [row[0] for row in deps.db.query(_OWN, (session.session_id,))]
    for at in range(0, len(ids), _AT_ONCE):
        for row in deps.store.legible(ids[at : at + _AT_ONCE])[0]:
            whole = deps.payloads.whole(row)
            at_time = {"timestamp": row.head.said_at} if row.head.said_at is not None else {}
            yield {**whole.stored_json, **at_time}


# -- the verb --------------------------------------------------------------------------------------------
def _rescue(deps: Access, words: Words) -> Answer:
    at_most(words, 1, "one session, or none for all of them")
    if not deps.trusted:
        raise BadRequest("the host's own file is written at the terminal only: `hermes lcm rescue`")
    if not deps.db.exists:
        there = _state(deps.home / HOST_FILE)
        way = (
            "`hermes lcm import host --apply` takes its conversations in"
            if there == _SOUND
            else "there is nothing to rescue"
        )
        raise BadRequest(f"nothing is stored in {deps.db.path}, and {deps.home / HOST_FILE} is {there}: {way}")
    named = words.rest[0] if words.rest else ""
    done = apply(deps, named, words.progress) if words.apply else plan(deps, named)
    text, code = "\n".join(_said(done, applied=words.apply)), FOUND if done.differing else OK
    return Answer(text, _data(done, applied=words.apply), code, idle=not (done.written or done.kept))


def _said(done: Rescue, *, applied: bool) -> Sequence[str]:
    names = few(done.sessions, 20)
    lacks = f"it lacks {counted(len(done.sessions), 'session')}: {names}" if names else "every session is in it"
    lines = [f"{done.path} is {done.state}; {lacks}"]
    if not names and not done.kept:
        return lines
    if not applied:
        return [*lines, "Dry run. `hermes lcm rescue --apply` writes them. End other Hermes processes first."]
    lines.append(f"written: {counted(done.written, 'message')}, read back by the host's own class and compared")
    lines += [f"DIFFERS: session {name}" for name in done.differing]
    lines += [f"the damaged file is kept as {done.kept}"] if done.kept else []
    lines.append(
        "Titles, costs and system prompts are not stored here, so they are not written. What the user took back stays here."
    )
    return lines


def _data(done: Rescue, *, applied: bool) -> dict[str, Any]:
    return {
        "path": str(done.path), "state": done.state, "sessions": list(done.sessions), "applied": applied,
        "messages": done.written, "differing": done.differing, "kept": str(done.kept) if done.kept else None,
    }  # fmt: skip


VERBS: Final = (
    Verb(
        "rescue",
        _rescue,
        "write lost conversations back into Hermes' own database (state.db)",
        "[<session>] [apply]",
        changes=True,
    ),
)
