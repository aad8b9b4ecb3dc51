"""
Frozen value types that the modules share.

Owns no behaviour beyond small derived properties. Tokens are estimates in model tokens, times are Unix seconds (UTC),
sizes are characters unless the name says bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

#: The rung of a node that an archive became: its text is a placeholder, not a summary that a model wrote.
ARCHIVE_RUNG = "archive"
#: Rung of a summary that was made again of what a purge left.
PURGED_RUNG = "purged"
#: Who wrote the words of such a node: in its checks.
ARCHIVED_WORDS = "the agent's"
#: The same, where a purge took what they stood for.
PURGED_WORDS = "what a purge left"
#: Facts that a summariser found in the sources of a leaf: in its checks.
STATED = "stated"
#: The role of a stored record of ours that no prompt explains: the host shows it as the user's, who never said it.
CONTEXT_ROLE = "record"
#: The rung of an extract that the user chose instead of a model's words: no stand-in that waits to be replaced.
EXTRACT_RUNG = "extractive"
#: Reason of an extract for whose summary no time was left; where it is the only one, no model was asked.
OUT_OF_TIME = "out of time"


class Flag:
    """Flags of a stored message: how it takes part, never what it says. Bits of an int.

    Not an ``enum.IntFlag``: its operators cost more than all the rest of an alignment.
    """

    NONE = 0
    RETRACTED = 1  # undone by the user (/undo, /retry); kept, searchable, no longer part of the transcript
    HOST_NOTE = 2  # written by the host in the user's name (todo snapshot, model-switch note)
    FILTERED = 4  # matched LCM_IGNORE_MESSAGE_PATTERNS at a place where it could not be left out
    UNALIGNED = 8  # stored although its place in the conversation could not be proven
    PINNED = 16  # exempt from transcript GC
    QUARANTINED = 32  # not representable as JSON; the stored JSON holds an escaped rendering
    OWN_TOOL = 64  # an answer of one of our own lcm_* tools, or the call that asked for it
    REDACTED = 128  # secrets were taken out; the digest is still that of what the host showed
    EXTERNALISED = 256  # the stored JSON holds placeholders of payload files
    IMPORTED = 512  # a record in our own grammar that belongs to no prompt we know: kept as text, nobody's words
    DUPLICATE = 1024  # another engine stored the same message again: kept, not in the transcript, not found by a search
    COLLECTED = 2048  # transcript GC left the placeholders only, in the row and in the search index
    PRUNED = 4096  # the host's own compressor left only this of it, before it came here
    PURGED = 8192  # an operator removed what it said; the row keeps its place
    OWN_CALL = 16384  # it says something and also calls an lcm_* tool; that call is not in the search index
    SHOWN = 32768  # stored from the first list that a process had of its session: it may have been said before, into another file
    LAPSED = 65536  # beside PURGED: a policy removed what it said, and left the summaries of it
    RESTORED = 131072  # taken back once, and brought back: a copy of in between still has it as taken back
    FORGOTTEN = PURGED | LAPSED  # a mask: of a row where this gives PURGED nothing is left, nor in a summary


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of an assistant message; ``arguments`` is the text as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the host, read but not yet stored.

    ``text`` is what a person would read (content parts joined, no tool calls); ``stored_json`` is the host's whole dict as
    JSON in UTF-8; ``digest`` (16 bytes) identifies the canonical core. ``value`` is what the stored JSON of a message that nobody
    has changed yet says: to be read, never to be changed. None: not at hand. ``files``: digests of the payload files that
    were just written for it.
    """

    role: str
    text: str
    calls: tuple[ToolCall, ...]
    tool_call_id: str | None
    tool_name: str | None
    digest: bytes
    stored_json: bytes
    tokens: int
    said_at: float | None = None
    uid: str | None = None
    flags: int = Flag.NONE
    value: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    files: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored message without its text: what alignment, planning and paging need."""

    store_id: int
    conversation_id: int
    session_id: str
    seq: int
    pos: float
    role: str
    tool_name: str | None
    tool_call_id: str | None
    digest: bytes
    tokens: int
    chars: int
    said_at: float | None
    stored_at: float
    source: str
    flags: int
    revises: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """A stored message with its content, decoded."""

    head: Stored
    text: str
    calls: tuple[ToolCall, ...]
    stored_json: dict[str, object]

    @property
    def store_id(self) -> int:
        return self.head.store_id


@dataclass(frozen=True, slots=True)
class Node:
    """A summary node and what it covers.

    ``quality``: "verified" (a model wrote it and it passed), "verbatim" (the sources themselves, too small to shorten) or
    "provisional" (no model wrote it, or it failed). Only the first two may be condensed.
    """

    node_id: int
    conversation_id: int
    depth: int
    quality: str
    text: str
    expand_hint: str
    tokens: int
    source_tokens: int
    message_count: int
    first_store_id: int
    last_store_id: int
    first_pos: float
    last_pos: float
    earliest_at: float | None
    latest_at: float | None
    fingerprint: bytes
    model: str
    rung: str
    checks: str
    created_at: float
    replaces: int | None = None

    @property
    def address(self) -> str:
        return f"sum_{self.node_id}"

    @property
    def is_sound(self) -> bool:
        """May it be condensed? An extract that the user chose may."""
        return self.quality != "provisional" or self.rung == EXTRACT_RUNG

    @property
    def facts(self) -> Mapping[str, Any]:
        """The checks as they are read; {} where they are no JSON object."""
        try:
            found = json.loads(self.checks)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def in_order(nodes: Iterable[Node]) -> list[Node]:
    """Nodes as a prompt shows them: oldest messages first."""
    return sorted(nodes, key=lambda node: (node.first_pos, node.node_id))


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node that is not stored yet; ``sources`` are store ids (depth 0) or node ids (above), in order.

    ``wanted``: the address that it is to have if nobody has it. ``witness``: who the sources were when they were summarised
    (``SummaryDag.witness``); empty where no time has passed since.
    """

    conversation_id: int
    depth: int
    quality: str
    text: str
    expand_hint: str
    tokens: int
    source_tokens: int
    sources: tuple[int, ...]
    fingerprint: bytes
    model: str = ""
    rung: str = ""
    checks: str = "{}"
    replaces: int | None = None
    wanted: int | None = None
    witness: bytes = b""
    stated: tuple[StatedFact, ...] = ()


@dataclass(frozen=True, slots=True)
class Assembly:
    """One prompt that was built: which nodes its context message shows and which messages follow raw.

    ``last_seq``: the newest row there was then; ``last_pos``: the position of the last one that the prompt shows or covers;
    ``digest``: of the context message's text (empty: written before digests were kept); ``state_tokens``: room that its present
    state had (0: unknown); ``stubs``: messages that it shows as stubs, with the characters kept.
    """

    assembly_id: int
    conversation_id: int
    session_id: str
    roots: tuple[int, ...]
    tail_ids: tuple[int, ...]
    last_seq: int
    last_pos: float
    created_at: float
    digest: bytes = b""
    state_tokens: int = 0
    stubs: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatedFact:
    """A fact that a summariser found in a user's message: where its words stand.

    ``quote``: first and last place of the quotation in the text as the summariser read it; ``subject`` and ``value``: places in
    the quotation, (0, 0) for none; ``digest``: of the quotation, which is not copied.
    """

    address: str
    kind: str
    quote: tuple[int, int]
    subject: tuple[int, int]
    value: tuple[int, int]
    digest: str

    @staticmethod
    def digest_of(quote: str) -> str:
        """Digest of a quotation: it tells changed words, and nothing of what they were."""
        return blake2b(quote.encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()


@dataclass(frozen=True, slots=True)
class Summary:
    """The ladder's summary of one chunk. ``quality`` is "verified" or "provisional"; ``stated``: facts found beside it."""

    text: str
    expand_hint: str
    quality: str
    rung: str
    model: str
    checks: str
    tokens: int
    stated: tuple[StatedFact, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One message (or child summary) as the summariser sees it."""

    address: str  # msg_12 or sum_3
    role: str  # user, assistant, tool, summary, host
    text: str
    said_at: float | None = None
    tool_name: str | None = None
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class SummaryTask:
    """Task of the ladder: one chunk to summarise."""

    depth: int
    lines: tuple[SourceLine, ...]
    source_tokens: int
    target_tokens: int
    focus: str = ""
    memory_context: str = ""
    previous: str = ""  # the end of the part before, where a source is read in parts
    chat: str = ""  # whose allowance of model calls it takes
    models: tuple[str, ...] = ()  # that are asked, in order; none: those of the settings


@dataclass(frozen=True, slots=True)
class Scope:
    """Rows that a caller may read and wants to read.

    ``principal`` None: everything (the local operator). ``conversations`` None: all readable ones. ``session_id`` narrows
    to one host session. ``cuts`` and ``without``: of a branch, how much of its ancestors it inherits (conversation, last
    sequence number, last position) and which of their rows it does without. ``messages`` and ``nodes`` None: no other limit;
    else these alone: what one request shows. ``apart``: others have rows here too, which may show in nothing, not in statistics
    either.
    """

    principal: str | None = None
    conversations: tuple[int, ...] | None = None
    session_id: str | None = None
    cuts: tuple[tuple[int, int, float], ...] = ()
    without: tuple[int, ...] = ()
    messages: tuple[int, ...] | None = None
    nodes: tuple[int, ...] | None = None
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Unit:
    """A group of the live list (or a stored row that the list lacks). ``index``: its first message, -1 if not live."""

    ids: tuple[int, ...]
    tokens: int
    role: str
    said_at: float | None
    index: int
    stop: int
    whole: bool = True
    behind_gap: bool = False  # messages in front of it are archived: no summary reaches over them
