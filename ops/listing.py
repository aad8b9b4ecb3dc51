"""
Listings for people: the sessions of the archive, and a message, summary or file as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest, NotFound
from ..records import Flag, Node, Row
from ..session import KEY_OF, Session
from ..text import content
from ..text.printable import one_line
from .answers import FOUND, Answer, Words, one
from .explain import addressed, parsed, readable
from .render import counted, moment, table

if TYPE_CHECKING:
    from ..recall.access import Access

SESSIONS = 20
_NOT_SHOWN = Flag.RETRACTED | Flag.DUPLICATE
_HEAD = ("session", "platform", "messages", "summaries", "said (UTC)")
_SPAN = f"""
SELECT sum(flags & {_NOT_SHOWN} = 0), sum(flags & {_NOT_SHOWN} = {Flag.RETRACTED}), sum(flags & {Flag.DUPLICATE} > 0),
       min(coalesce(said_at, stored_at)), max(coalesce(said_at, stored_at)) FROM messages
 WHERE session_key = {KEY_OF.format("?")}
"""
#: A conversation may have several sessions: a summary counts where the first of its messages stands.
_SUMMARIES = f"""
SELECT count(*) FROM nodes n JOIN messages m ON m.store_id = n.first_store_id
 WHERE n.conversation_id = ? AND m.session_key = {KEY_OF.format("?")}
"""


def sessions(deps: Access, words: Words) -> Answer:
    """The newest sessions that may be read here, with what is stored of each."""
    readable(deps)  # refuses who is known to own nothing
    limit = words.limit or SESSIONS
    found = _found(deps, limit + 1)
    data = [described(deps, each) for each in found[:limit]]
    rows = [
        (
            one_line(each["session_id"]), each["platform"] or "unknown", f"{each['messages']:,}", f"{each['summaries']:,}",
            _span(each["first_at"], each["last_at"]),
        )
        for each in data
    ]  # fmt: skip
    lines = table([_HEAD, *rows], indent="") if rows else ["Nothing is stored yet."]
    more = len(found) > limit
    foot = [f"These are the newest {limit}; `/lcm sessions --limit {5 * limit}` shows more."] if more else []
    return Answer("\n".join(lines), {"sessions": data, "more": more}, foot="\n".join([*_left_out(data), *foot]))


def _left_out(data: Sequence[Mapping[str, Any]]) -> list[str]:
    """Note on stored messages that the list does not count: taken back, or repeats of an earlier plugin."""
    gone, again = (sum(each[name] for each in data) for name in ("taken_back", "repeats"))
    said = [f"{counted(gone, 'message')} taken back (/undo, /retry)"] if gone else []
    said += [f"{counted(again, 'repeat')} of an earlier plugin"] if again else []
    return [f"Stored, but not counted here: {' and '.join(said)}."] if said else []


def _found(deps: Access, limit: int) -> list[Session]:
    """The newest sessions of whom asks; without a known owner only the session it is asked in."""
    if deps.reads_all or deps.rights.principal is not None:
        return deps.sessions.recent(principal=None if deps.reads_all else deps.rights.principal, limit=limit)
    return [deps.session] if deps.session is not None else []


def _span(first: float, last: float) -> str:
    """Span of two times, the day named once where it is one."""
    begin, end = moment(first)[:16], moment(last)[:16]
    return begin if begin == end else f"{begin}–{end.removeprefix(begin[:11])}"


def described(deps: Access, session: Session) -> dict[str, Any]:
    """One session: its id, its platform, how much was said in it, when. What was taken back or is a repeat counts apart."""
    count, gone, again, first, last = deps.db.query(_SPAN, (session.session_id,))[0]
    return {
        "session_id": session.session_id,
        "conversation_id": session.conversation_id,
        "platform": session.platform,
        "origin": session.origin,
        "messages": int(count or 0),
        "taken_back": int(gone or 0),
        "repeats": int(again or 0),
        "summaries": int(deps.db.query(_SUMMARIES, (session.conversation_id, session.session_id))[0][0]),
        "first_at": first if first is not None else session.started_at,
        "last_at": last if last is not None else session.started_at,
    }


def named(_deps: Access, words: Words) -> str:
    """The address behind a verb. Raises BadRequest for what is none."""
    address = one(words, "an address such as msg_12 or sum_3")
    if not address.strip().lower().startswith("file_"):
        parsed(address)
    return address


def show(deps: Access, words: Words) -> Answer:
    """One message, summary or file, whole, as it is stored."""
    address = named(deps, words)
    found = addressed(deps, address)
    if isinstance(found, Row):
        return _message(deps, found)
    if isinstance(found, Node):
        quality = "unverified" if found.quality == "provisional" else found.quality
        head = f"{found.address}  {quality} summary of {counted(found.message_count, 'message')}, depth {found.depth}"
        foot = f"It covers msg_{found.first_store_id} to msg_{found.last_store_id}."
        data = {"address": address, "text": found.text, "quality": found.quality}
        return Answer(f"{head}\n\n{found.text}\n\n{foot}", data)
    ref, shown = found
    text = deps.payloads.in_full(ref)
    if text is None:
        raise NotFound(f"{address}: {deps.payloads.path(ref.sha)} is missing or damaged; put it back from a backup")
    head = f"{address}  {ref.kind}, {ref.bytes:,} bytes, shown in msg_{shown[0]}"
    return Answer(f"{head}\n\n{text}", {"address": address, "text": text})


def _message(deps: Access, row: Row) -> Answer:
    whole = deps.payloads.whole(row)
    who = one_line(" ".join(filter(None, (row.head.role, row.head.tool_name))))
    when = moment(row.head.said_at or row.head.stored_at)
    head = f"msg_{row.store_id}  {who}, {when}, session {one_line(row.head.session_id)}"
    gone = deps.payloads.missing(whole)
    text = f"{head}\n\n{with_calls(whole)}"
    data = {
        "address": f"msg_{row.store_id}",
        "session_id": row.head.session_id,
        "message": whole.stored_json,
        "missing": gone,
    }
    if not gone:
        return Answer(text, data)
    text += f"\n\nPlaceholders stand for {', '.join(gone)}, which cannot be read: put them back into {deps.payloads.folder}."
    return Answer(text, data, FOUND)


def with_calls(row: Row) -> str:
    """Text of a message, and a line for each call of a tool."""
    calls = (f"calls {one_line(call.name)}: {call.arguments}" for call in content.calls_of(row.stored_json))
    return "\n".join([row.text, *calls])


def limit_of(text: str) -> int:
    """A number of results, as it was typed. Raises BadRequest for anything else."""
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise BadRequest(f"--limit {text!r}: expected a whole number from 1 to 100,000")
    return int(text)
