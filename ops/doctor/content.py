"""
Checks of the doctor about what is stored, and whose it is.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...config import MODE_SETTINGS
from ...errors import LcmError, StoreCorrupt
from ...recall.access import Access
from ...records import EXTRACT_RUNG
from ...search import vectors
from ...session import LOCAL, Session, principal_of
from ...storage.foreign import of_host
from ...text import blobs
from ..backup import command_for_a_loss, way_back
from ..findings import Finding, fail, ok, warn
from ..orders import Orders
from ..render import counted
from ..survey import RECENT_ROWS, Survey

_INLINE_CHARS, _INLINE_ROWS, _INLINE_DEEP_ROWS = 2000, 200, 20_000
_LIVE_DAYS_S = 86_400.0


def _scope(deep: bool) -> str:
    return "all messages" if deep else f"the newest {RECENT_ROWS:,} messages"


def index_problems(deps: Access, *, deep: bool) -> list[str]:
    """Faults of either search index. Deep: FTS5 checks itself, under the write lock; raises StoreBusy without it."""
    return [*_unreadable(deps), *index_damage(deps, deep=deep)]


def index_damage(deps: Access, *, deep: bool) -> list[str]:
    """Damage of the search indexes that building them anew would mend."""
    if deep and not deps.db.only_read:
        with deps.db.transaction():
            pass
    indexes = (deps.index, deps.node_index)
    return [problem for each in indexes for problem in each.check(deep=deep, progress=deps.progress)]


def left_words(deps: Access, *, deep: bool) -> list[str]:
    """Words that only building the index anew removes."""
    gone = deps.index.removed(deep=deep)
    return [f"removed or rewritten messages whose words are still in the search index: {gone:,}"] if gone else []


def _unreadable(deps: Access) -> list[str]:
    """Messages that are not indexed, as nobody can read them."""
    count = 0
    for store_id in deps.index.documents.waiting():
        try:
            deps.store.late_entry(store_id)
        except StoreCorrupt:
            count += 1
    return [f"messages that wait for the search index and cannot be read: {count}"] if count else []


def search_index(deps: Access, deep: bool) -> Finding:
    """Do the full-text indexes hold what is stored?"""
    said = index_problems(deps, deep=deep)
    if not said and (left := left_words(deps, deep=deep)):
        return warn(
            "; ".join(left),
            meaning="nothing finds them, but who reads the file can read these words",
            remedy="rebuild the index from the stored messages",
            command="/lcm doctor repair apply",
        )
    if not said and (left := vectors.faults(deps.db, wanted=deps.config.semantic, deep=deep)):
        return warn(
            "; ".join(left),
            meaning="no search reads them; they take room in the file",
            remedy="remove them",
            command="/lcm doctor repair apply",
        )
    if not said:
        return ok("messages and summaries are indexed")
    if said == _unreadable(deps):
        return fail(
            "; ".join(said),
            meaning="searches miss these messages; all others are found",
            remedy="`payload_files` names their files if these are missing; whatever can be read again is indexed by itself",
            command="/lcm doctor deep",
        )
    return fail(
        "; ".join(said[:5]),
        meaning="searches miss stored messages; nothing is lost",
        remedy="rebuild the indexes from the stored messages",
        command="/lcm doctor repair apply",
    )


def links(deps: Access, _deep: bool) -> Finding:
    """Does every row point at something that exists?"""
    broken = {name: count for name, count in Survey(deps.db).orphans().items() if count}
    if not broken:
        return ok("every row points at something that exists")
    return fail(
        ", ".join(_some(count, name) for name, count in broken.items()),
        meaning="the file was damaged, or another program changed it; after a repair some rows lack what they point at",
        remedy=f"{way_back(deps)}; or accept the loss: `/lcm doctor accept`",
        command=command_for_a_loss(deps),
        **{name.replace(" ", "_"): count for name, count in broken.items()},
    )


def _some(count: int, name: str) -> str:
    thing, _, lack = name.partition(" ")
    return f"{counted(count, thing[:-3] + 'y' if thing.endswith('ies') else thing[:-1])} {lack}"


def gaps(deps: Access, _deep: bool) -> Finding:
    """Is every conversation complete from its first message on?"""
    survey = Survey(deps.db)
    found, unread = survey.gaps(), survey.unreadable_once()
    if not found and not unread:
        return ok("no message is missing")
    missing = sum(count for _, count in found)
    said = [f"missing: {counted(missing, 'message')} in {counted(len(found), 'conversation')}"] if found else []
    if unread > missing:  # the newest of a conversation leave no gap
        said.append(f"a repair could not read {counted(unread, 'message')}")
    return fail(
        "; ".join(said),
        meaning="another program removed rows, or a repair could not read them",
        remedy=f"what the host keeps of the session is taken in again when it goes on; {way_back(deps)}; or accept the loss: "
        "`/lcm doctor accept`",
        command=command_for_a_loss(deps),
        conversations=[{"conversation_id": each, "missing": count} for each, count in found],
    )


def unaligned(deps: Access, deep: bool) -> Finding:
    """Was anything stored whose place could not be proven?"""
    survey = Survey(deps.db)
    found = survey.unaligned(above=survey.floor(deep=deep))
    if not found:
        return ok(f"none in {_scope(deep)}")
    return warn(
        f"{counted(sum(count for _, count in found), 'message')} in {counted(len(found), 'session')} (of {_scope(deep)})",
        meaning="the host handed over lists that had nothing in common with what was stored, or a stand-in was merged of which "
        "nobody knows where it began; all of it was kept, possibly twice",
        remedy="nothing to repair; if it goes on, another plugin or a wrapper rewrites the history before we see it",
        sessions=[{"session_id": each, "messages": count} for each, count in found],
    )


# -- nodes ---------------------------------------------------------------------------------------------
def provisional(deps: Access, _deep: bool) -> Finding:
    """Which summaries were not written by a model, and why?"""
    found = Survey(deps.db).provisional(limit=200)
    dissolved = len(Orders(deps.db).dissolved())
    if not found:
        return ok("every summary was written by a model and verified", dissolved=dissolved)
    reasons = Counter(_reason(rung, checks) for _, _, rung, checks in found)
    more = " or more" if len(found) == 200 else ""
    if deps.config.summary_model.strip().lower() == EXTRACT_RUNG:
        return ok(
            f"extracts: {counted(len(found), 'summary')}{more}; LCM_SUMMARY_MODEL chose them", dissolved=dissolved
        )
    return warn(
        f"extracts, or not verified: {counted(len(found), 'summary')}{more}: "
        + ", ".join(f"{why} ({count})" for why, count in reasons.most_common(5)),
        meaning="they hold extracts instead of a summary; their messages are complete and can be expanded",
        remedy="the background worker replaces them once a model answers; see the checks summary_routes and background",
        nodes=[f"sum_{node_id}" for node_id, *_ in found[:20]],
        reasons=dict(reasons),
    )


def _reason(rung: str, checks: str) -> str:
    try:
        noted = json.loads(checks)
    except ValueError:
        noted = {}
    said = noted.get("reason") or noted.get("error") if isinstance(noted, dict) else ""
    return str(said or rung or "unknown")[:80]


# -- rows ----------------------------------------------------------------------------------------------
def sources(deps: Access, deep: bool) -> Finding:
    """Does every message say where it came from?"""
    survey = Survey(deps.db)
    blank = survey.blank_sources(above=survey.floor(deep=deep))
    if not blank:
        return ok(f"{_scope(deep)} have one")
    return warn(
        f"without a source: {counted(blank, 'message')} of {_scope(deep)}",
        meaning="rows written by an importer or another program; they are treated as source 'unknown'",
        remedy="write the word into the rows",
        command="/lcm doctor source apply",
        blank=blank,
    )


def largest(deps: Access, deep: bool) -> Finding:
    """Which messages take the most room?"""
    survey = Survey(deps.db)
    rows = survey.largest(above=survey.floor(deep=deep), limit=5)
    said = ", ".join(
        f"msg_{row['store_id']} {row['role']}{f' {tool}' if (tool := row['tool']) else ''} {row['chars']:,}"
        for row in rows
    )
    return ok(f"characters, of {_scope(deep)}: {said}" if rows else "nothing stored yet", rows=rows)


def inline_payloads(deps: Access, deep: bool) -> Finding:
    """Are there binary payloads inside messages? Looks at the largest ones; says only which."""
    survey = Survey(deps.db)
    limit = _INLINE_DEEP_ROWS if deep else _INLINE_ROWS
    ids = survey.large_ids(above=survey.floor(deep=deep), chars=_INLINE_CHARS, limit=limit)
    uris, runs = [], []
    for at in range(0, len(ids), 50):
        for row in deps.store.legible(ids[at : at + 50])[0]:  # other checks tell of the rest
            text = row.text + "".join(call.arguments for call in row.calls)
            kinds = {span.kind for span in blobs.spans(text)}
            if blobs.DATA_URI in kinds:
                uris.append(row.store_id)
            elif kinds:
                runs.append(row.store_id)
    looked = f"{len(ids)} largest of {_scope(deep)}"
    if not uris and not runs:
        return ok(f"none in the {looked}", examined=len(ids))
    return warn(
        f"{counted(len(uris), 'message')} with data: URIs and {len(runs)} with long base64 text, in the {looked}",
        meaning="they are kept as they are and make the database, its backups and its index larger",
        remedy="keep large outputs in files from now on; stored rows are not rewritten",
        command="export LCM_LARGE_OUTPUT_EXTERNALIZATION_ENABLED=true",
        data_uri_rows=uris[:20],
        base64_rows=runs[:20],
        examined=len(ids),
    )


def lifecycle(deps: Access, _deep: bool) -> Finding:
    """Which session is this, and is it open?"""
    session, mode = deps.session, deps.mode()
    if session is None and mode not in MODE_SETTINGS:
        sql = "SELECT count(*) FROM sessions WHERE ended_at >= ?"
        ended = deps.db.query(sql, (deps.clock() - _LIVE_DAYS_S,))[0][0]
        return ok(f"no session is bound; {ended} ended in the last day")
    if session is not None and mode not in MODE_SETTINGS:
        state = f"ended: {session.end_reason}" if session.ended_at else "open"
        return ok(f"{session.session_id}: {state}, {counted(session.compactions, 'compaction')}", mode=mode)
    return warn(
        f"{session.session_id if session is not None else deps.engine.session_id} is {mode}",
        meaning="a pattern keeps this session out of the archive"
        if mode == "ignored"
        else "it reads and stores nothing",
        remedy=f"change {MODE_SETTINGS[mode]} if that is not meant",
        mode=mode,
    )


_CHATS: Final = "SELECT * FROM sessions WHERE session_key IS NOT NULL AND session_key <> ''"


@dataclass(frozen=True, slots=True)
class Guess:
    """A conversation of the terminal that is a chat's, as the host has it."""

    session: Session
    owner: str

    def __str__(self) -> str:
        return f"{self.session.session_id}: {self.session.principal}, and the host says {self.owner}"


def guesses(deps: Access) -> tuple[Guess, ...]:
    """Conversations of the terminal whose sessions are one chat's. What was handed over to a chat stays the terminal's."""
    rows = _chats(deps)
    ours = deps.sessions.recent(principal=LOCAL, limit=-1) if rows else []
    owners: defaultdict[int, set[str]] = defaultdict(set)
    for each in ours:
        if (row := rows.get(each.session_id)) is not None:
            owners[each.conversation_id].add(principal_of(str(row.get("source") or ""), str(row["session_key"])))
    found = {
        each.conversation_id: Guess(each, *owner) for each in ours if len(owner := owners[each.conversation_id]) == 1
    }
    known: dict[str, str] = {guess.session.session_id: guess.owner for guess in found.values()}
    for each in reversed(ours):  # oldest first: what a chat delegated is the chat's
        asker = known.get(each.parent_session_id or "") if each.origin == "subagent" else None
        if asker and each.conversation_id not in found:
            found[each.conversation_id], known[each.session_id] = Guess(each, asker), asker
    return tuple(found.values())


def _chats(deps: Access) -> dict[str, Mapping[str, Any]]:
    """The host's sessions of chats by id, but for those that were handed over; none where its database cannot be read."""
    try:
        with of_host(deps.home) as source:
            if source is None or "session_key" not in source.columns("sessions"):
                return {}
            return {str(row["id"]): row for row in source.rows(_CHATS) if not row.get("handoff_state")}
    except LcmError:
        return {}


def give_to_owners(deps: Access, found: tuple[Guess, ...]) -> None:
    """Give conversations to their owners, as one fact; what was carried into them from others is carried no longer."""
    with deps.db.transaction():
        for guess in found:
            deps.sessions.claim(guess.session, guess.owner)
            deps.sessions.uncarry(guess.session.conversation_id, guess.owner)


def owners(deps: Access, _deep: bool) -> Finding:
    """Does every conversation belong to whom the host says?"""
    found = guesses(deps)
    if not found:
        return ok("every conversation belongs to whom Hermes says")
    return warn(
        f"{counted(len(found), 'conversation')} stored as the terminal's that Hermes knows as a chat's",
        meaning="an earlier version stored them so; who writes in such a chat finds nothing of it from another chat",
        remedy="give them to their owners; the dry run names them",
        command="/lcm doctor repair",
        sessions=[{"session_id": each.session.session_id, "owner": each.owner} for each in found[:20]],
    )
