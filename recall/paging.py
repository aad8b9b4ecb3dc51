"""
Stored messages → pages of an answer.

Owns how a message is shown, what of it fits into the room of one answer, and the handle that continues a cut exactly where it
was made. What is shown of a text is always an exact slice of it: the pages of a text, joined, are the text.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from ..errors import BadRequest
from ..records import Flag, Node, Row, Stored, ToolCall
from ..search import documents
from ..search.documents import runs
from ..text import blobs, content, tokens
from ..text.printable import one_line

#: Characters of one answer, whatever its tokens: the host cuts longer ones by itself.
MOST_CHARS: Final = 28_000
_CHARS_PER_TOKEN: Final = 4
#: Characters of a summary's hint that are shown beside its text; models write fewer, other programs' databases may hold more.
MOST_HINT: Final = 1000
#: The least that a page moves forward, however little room it is given.
_LEAST_TOKENS, _LEAST_CHARS = 16, 48
_RENDERED_CHARS: Final = 2000
_NAME_CHARS: Final = 100
_MOST_FILES: Final = 10
_FILE_MESSAGES: Final = 20  # that show a file, in one answer
_KEPT: Final = 32  # answers of one owner that were cut and may be continued
_OWNERS: Final = 256
_FLAGS: Final = {
    Flag.RETRACTED: "retracted", Flag.HOST_NOTE: "host_note", Flag.FILTERED: "filtered", Flag.UNALIGNED: "unaligned",
    Flag.PURGED: "purged", Flag.QUARANTINED: "quarantined", Flag.REDACTED: "redacted", Flag.DUPLICATE: "duplicate",
}  # fmt: skip

Answer = dict[str, Any]

#: The stored JSON of a message whose own cannot be read.
LOST: Final[dict[str, Any]] = {}
_LOST = "what is stored of it is damaged; lcm_doctor says more"


def damaged_row(head: Stored) -> Row:
    """A message that cannot be read, among others that can: it has its place, and says so itself."""
    return Row(head, "", (), LOST)


def lost_files(names: Iterable[str]) -> list[str]:
    """Notes of a message whose files are gone: their descriptions in its text are not its own words."""
    return [f"{name} cannot be read; its description stands in its place (lcm_doctor)" for name in names]


def dumps(value: Any) -> str:
    """JSON that reads back exactly, lone surrogates included, and can be sent as UTF-8."""
    return content.sendable(json.dumps(value, ensure_ascii=False))


def iso(seconds: float | None) -> str | None:
    """A moment as ISO 8601 in UTC, or None."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (OverflowError, OSError, ValueError):
        return None


def file_facts(name: str, facts: Mapping[str, Any], start: int = 0) -> Answer:
    """Facts of a file. The messages that show it come in parts, with how many there are and how to get the next."""
    every = list(facts.get("messages", ()))
    stop = start + _FILE_MESSAGES
    out: Answer = {**facts, "messages": every[start:stop], "messages_total": len(every)}
    if stop < len(every):
        out["next_source_offset"] = stop
        out["messages_continue_with"] = {"tool": "lcm_describe", "id": name, "source_offset": stop}
    return out


def time_said(head: Stored) -> float:
    """Time at which a message was said, as far as known."""
    return head.said_at if head.said_at is not None else head.stored_at


class Line(str):
    """A line, or several, of an answer in lines; any other value is part of an answer as JSON."""

    __slots__ = ()


def _written(value: Any) -> str:
    return f"{value}\n" if isinstance(value, Line) else dumps(value)


@dataclass(slots=True)
class Room:
    """Room that is left in one answer."""

    tokens: int
    chars: int

    @classmethod
    def of(cls, tokens_: int) -> Room:
        """The room of an answer of so many tokens."""
        return cls(max(_LEAST_TOKENS, tokens_), max(_LEAST_CHARS, min(MOST_CHARS, tokens_ * _CHARS_PER_TOKEN)))

    def holds(self, value: Any) -> bool:
        """Does this value still fit?"""
        text = _written(value)
        return len(text) <= self.chars and tokens.count(text) <= self.tokens

    def use_up(self, value: Any) -> None:
        """Use up what this value costs."""
        text = _written(value)
        self.tokens -= tokens.count(text)
        self.chars -= len(text)

    def part(self, share: float) -> Room:
        """A share of what is left, as a room of its own."""
        return Room(max(_LEAST_TOKENS, int(self.tokens * share)), max(_LEAST_CHARS, int(self.chars * share)))

    def capped(self, tokens_: int | None) -> Room:
        """The smaller of this room and one of so many tokens."""
        other = Room.of(tokens_) if tokens_ is not None else self
        return Room(min(self.tokens, other.tokens), min(self.chars, other.chars))


def fit(text: str, start: int, stop: int, room: Room) -> int:
    """End of a slice of ``text`` from ``start`` on that fits; moves forward if there is text left, and never beyond ``stop``."""
    low = min(stop, start + 1)
    high = min(stop, start + max(1, room.chars))
    if high <= low or room.holds(text[start:high]):
        return max(low, high)
    while high - low > max(1, (low - start) // 50):
        middle = (low + high) // 2
        if room.holds(text[start:middle]):
            low = middle
        else:
            high = middle
    return low


# ------------------------------------------------------------------------------------------------------------- a message
def exact(row: Row) -> tuple[str | None, bool]:
    """(the exact content as text, is that text JSON). Content that is not text comes as its JSON."""
    value = row.stored_json.get("content")
    if value is None or isinstance(value, str):
        return value, False
    return as_json(value), True


def as_json(value: Any) -> str:
    """Any stored value as JSON; what JSON cannot say is written as the stored JSON writes it."""
    wrapped, _ = content.encode({"v": value})
    return wrapped[len('{"v":') : -1]


@dataclass(frozen=True, slots=True)
class Part:
    """A wanted piece of a text: from ``offset`` on, not beyond ``stop``, at most ``most_chars``."""

    offset: int = 0
    stop: int | None = None
    most_chars: int | None = None
    arguments_offset: int = 0


@dataclass(slots=True)
class Shown:
    """A message as one page shows it, and what continues it (None: all was shown)."""

    item: Answer
    next_offset: int | None = None
    next_arguments: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        return self.next_offset is None and self.next_arguments is None


def frame(head: Stored) -> Answer:
    """Short facts about a message."""
    item: Answer = {"store_id": head.store_id, "role": head.role, "time": iso(time_said(head))}
    if head.tool_name:
        item["tool_name"] = head.tool_name
    if head.tool_call_id is not None:
        item["tool_call_id"] = head.tool_call_id
    if head.revises is not None:
        item["revises"] = f"msg_{head.revises}"
    flags = [name for flag, name in _FLAGS.items() if head.flags & flag]
    if flags:
        item["flags"] = flags
    return item


def short(name: str) -> str:
    """A name for an answer, cut where it is long: people and tools choose names themselves."""
    return name if len(name) <= _NAME_CHARS else f"{name[:_NAME_CHARS]}…"


def spoken(speaker: tuple[str, str]) -> str:
    """A speaker as answers name them: name and id."""
    name, number = map(short, speaker)
    return f"{name} ({number})" if number else name


def who(head: Stored, speaker: tuple[str, str]) -> str:
    """Role, tool and speaker of a message in front of its text, where no name may begin a line."""
    return one_line(" ".join(filter(None, (head.role, short(head.tool_name or ""), spoken(speaker)))))


def show(row: Row, room: Room, part: Part = Part(), extra: Mapping[str, Any] | None = None) -> Shown:
    """One message, as much of it as fits. Uses up the room."""
    item = {**frame(row.head), **(extra or {})}
    if row.stored_json is LOST:
        item["unreadable"] = _LOST
    room.use_up({**item, "content": None, "content_truncated": False})
    text, is_json = exact(row)
    calls = part.arguments_offset > 0 or part.offset == 0
    only_calls = part.arguments_offset > 0 and part.offset == 0
    out = Shown(item)
    if row.head.flags & Flag.EXTERNALISED:
        room.use_up(_files(item, row))
    if only_calls:
        item["content_omitted"] = True
    else:
        if is_json and part.offset == 0:
            _rendering(item, row, room.part(0.3))
            room.use_up(item.get("text", ""))
        for_text = room.part(0.5) if calls and row.calls and not room.holds([_call(c) for c in row.calls]) else room
        _text(out, text, part, for_text)
    if is_json and not only_calls:
        item["content_type"] = "parts"
    if part.arguments_offset and not row.calls:
        raise BadRequest(
            f"arguments_offset={part.arguments_offset} is past the end: msg_{row.store_id} has no tool calls"
        )
    if calls and row.calls:
        _arguments(out, row.calls, part, room)
    return out


def _text(out: Shown, text: str | None, part: Part, room: Room) -> None:
    item = out.item
    if text is None:
        item["content"], item["content_truncated"] = None, False
        return
    stop = len(text) if part.stop is None else min(part.stop, len(text))
    if part.offset > len(text):
        raise BadRequest(f"content_offset={part.offset} is past the end: the content has {len(text)} characters")
    start = min(part.offset, stop)
    limit = stop if part.most_chars is None else min(stop, start + part.most_chars)
    limit = _before_file(out, text, start, limit)
    end = fit(text, start, limit, room)
    piece = text[start:end]
    item["content"], item["content_truncated"] = piece, end < stop
    if start:
        item["content_offset"] = start
    if end < stop:
        out.next_offset = item["next_content_offset"] = end
    if (end < stop or start) and "externalized" not in item:
        item["content_chars"] = len(text)
    room.use_up(piece)


def _files(item: Answer, row: Row) -> list[Answer]:
    """Stored files of a message; the first one also by itself, as that is what most have."""
    found = {ref.name: ref for _, _, ref in blobs.refs(content.encode(row.stored_json)[0])}
    files = [{"externalized_ref": r.name, "kind": r.kind, "mime": r.mime, "bytes": r.bytes} for r in found.values()]
    if files:
        item["externalized"] = files[:_MOST_FILES]
        if len(files) > _MOST_FILES:
            item["externalized_total"] = len(files)  # each placeholder in the content names its file
    return files[:_MOST_FILES]


def _before_file(out: Shown, text: str, start: int, limit: int) -> int:
    """End of a text with placeholders on a page: in front of the first one. What follows is counted in the original."""
    if "externalized" in out.item:
        return next((at for at, _, _ in blobs.refs(text) if start <= at < limit), limit)
    return limit


def _rendering(item: Answer, row: Row, room: Room) -> None:
    """Text of parts as a person would read it, beside their exact JSON."""
    end = fit(row.text, 0, min(len(row.text), _RENDERED_CHARS), room)
    if row.text:
        item["text"] = row.text[:end] + ("…" if end < len(row.text) else "")
        if end < len(row.text):
            item["text_truncated"] = True


def _call(call: ToolCall, arguments: str | None = None) -> Answer:
    written = call.arguments if arguments is None else arguments
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": written}}


def _arguments(out: Shown, calls: Sequence[ToolCall], part: Part, room: Room) -> None:
    """Tool calls; their arguments are paged as if they were one text, a character apart, so that an empty one has a place."""
    total = sum(len(call.arguments) + 1 for call in calls) - 1
    if part.arguments_offset > total:
        raise BadRequest(f"arguments_offset={part.arguments_offset} is past the end: there are {total} characters")
    shown: list[Answer] = []
    begin = 0
    left = part.most_chars if part.most_chars is not None else total
    for call in calls:
        end = begin + len(call.arguments)
        if end < part.arguments_offset:
            begin = end + 1
            continue
        if shown and begin > part.arguments_offset and (left <= 0 or not room.holds(_call(call, ""))):
            out.next_arguments = begin
            break
        low = max(begin, part.arguments_offset) - begin
        high = _before_file(out, call.arguments, low, min(len(call.arguments), low + left))
        stop = fit(call.arguments, low, high, room)
        piece = _call(call, call.arguments[low:stop])
        left -= stop - low
        if (stop < len(call.arguments) or low) and "externalized" not in out.item:
            piece["arguments_chars"] = len(call.arguments)
        room.use_up(piece)
        shown.append(piece)
        if stop < len(call.arguments):
            piece["arguments_truncated"] = True
            out.next_arguments = begin + stop
            break
        begin = end + 1
    out.item["tool_calls"] = shown
    if out.next_arguments is not None:
        out.item["arguments_truncated"], out.item["next_arguments_offset"] = True, out.next_arguments


# ------------------------------------------------------------------------------------------------------------- many
def page(
    rows: Iterable[Row], room: Room, *, most_chars: int | None, extra: Callable[[Row], Mapping[str, Any]],
    written: Callable[[Shown], Line] | None = None,
) -> tuple[list[Shown], bool]:  # fmt: skip
    """Messages in order until the room is used up; (them, did one not fit). The first one is always shown.

    ``extra``: what else is told of a message; ``written``: a message as an answer in lines has it.
    """
    out: list[Shown] = []
    for row in rows:
        if out and not _worth(row, room, most_chars):
            return out, True
        before = Room(room.tokens, room.chars)
        out.append(show(row, room, Part(most_chars=most_chars), extra(row)))
        if written is not None:
            before.use_up(written(out[-1]))
            room.tokens, room.chars = before.tokens, before.chars
    return out, False


def _worth(row: Row, room: Room, most_chars: int | None) -> bool:
    """Is there room for a message the way it would be shown on a page of its own?"""
    if room.tokens < 60 or room.chars < 240:
        return False
    text, _ = exact(row)
    text = (text or "")[:most_chars] if most_chars is not None else text or ""
    arguments = "".join(call.arguments for call in row.calls)[:most_chars]
    rough = len(text) + len(arguments)
    if rough > room.chars:
        return False
    return Room(room.tokens - 60 - 25 * len(row.calls), room.chars - 240 - 80 * len(row.calls)).holds(text + arguments)


# ------------------------------------------------------------------------------------------------------------- slices
def line_part(text: str, first: int, last: int) -> tuple[int, int, int]:
    """(start, stop, number of lines): where lines ``first`` to ``last``, counted from 1, stand in a text."""
    starts = [0, *documents.line_ends(text)]
    count = len(starts)
    if first < 1 or first > count:
        raise BadRequest(f"lines={first}-{last}: the text has lines 1 to {count}")
    return starts[first - 1], len(text) if last >= count else starts[last], count


def byte_part(text: str, first: int, last: int) -> tuple[int, int, int]:
    """(start, stop, number of bytes): the characters that begin in bytes ``first`` to ``last`` of the UTF-8 text.

    Ranges that follow each other, joined, are the text: a character that lies across a border belongs to the range before it.
    """
    raw = text.encode("utf-8", "surrogatepass")
    if first >= max(1, len(raw)):
        raise BadRequest(f"bytes={first}-{last}: the text has bytes 0 to {max(0, len(raw) - 1)}")
    ends = [min(first, len(raw)), min(last + 1, len(raw))]
    for n, at in enumerate(ends):
        while at < len(raw) and raw[at] & 0xC0 == 0x80:
            at += 1
        ends[n] = at
    start = len(raw[: ends[0]].decode("utf-8", "surrogatepass"))
    return start, start + len(raw[ends[0] : ends[1]].decode("utf-8", "surrogatepass")), len(raw)


def spans(store_ids: Sequence[int]) -> list[str]:
    """Addresses, runs of neighbours as ranges: msg_1..msg_9, msg_12."""
    found = runs(sorted(set(store_ids)))
    return [f"msg_{first}" if last == first else f"msg_{first}..msg_{last}" for first, last in found]


def node_frame(node: Node) -> Answer:
    """Short facts about a summary, but for its id."""
    return {
        "address": node.address,
        "depth": node.depth,
        "kind": "leaf" if node.depth == 0 else "condensed",
        "quality": node.quality,
        "tokens": node.tokens,
        "source_tokens": node.source_tokens,
        "message_count": node.message_count,
        "messages": f"msg_{node.first_store_id}..msg_{node.last_store_id}",
        "earliest_at": iso(node.earliest_at),
        "latest_at": iso(node.latest_at),
    }


def node_text(node: Node) -> str:
    """A summary's text as it is paged. A hint that is too long to be shown beside it is its last part."""
    if len(node.expand_hint) <= MOST_HINT:
        return node.text
    return f"{node.text}\nExpand for details about: {node.expand_hint}"


class Readers:
    """One reader at a time for each session, and the long answers until they are read. Shared by a process's engines."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._kept: OrderedDict[str, OrderedDict[str, str]] = OrderedDict()  # by owner: nobody pushes out another's

    def keep(self, owner: str, text: str) -> str:
        """Remember an answer that did not fit; the name under which its owner gets the rest."""
        name = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self.keep_as(owner, name, text)
        return name

    def keep_as(self, owner: str, name: str, text: str) -> None:
        """Remember a text under a name."""
        with self._lock:
            mine = self._kept.setdefault(owner, OrderedDict())
            mine[name] = text
            mine.move_to_end(name)
            self._kept.move_to_end(owner)
            while len(mine) > _KEPT:
                mine.popitem(last=False)
            while len(self._kept) > _OWNERS:
                self._kept.popitem(last=False)

    def kept_answer(self, owner: str, name: str) -> str | None:
        """An answer of this owner, or None."""
        with self._lock:
            return self._kept[owner].get(name) if owner in self._kept else None

    @contextmanager
    def only(self, session_id: str) -> Iterator[bool]:
        """True for the one reader of a session; a second one is told so at once."""
        with self._lock:
            free = session_id not in self._busy
            self._busy.add(session_id)
        try:
            yield free
        finally:
            if free:
                with self._lock:
                    self._busy.discard(session_id)
