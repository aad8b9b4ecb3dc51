"""
The tools as data: names, arguments with their kinds and bounds, and the schemas that the model sees.

Each argument is stated once; ``SCHEMAS`` and the reading of arguments (``text/arguments``) are derived from it.
Whatever may be spelt in camelCase is accepted in camelCase. Deterministic: providers cache the prompt that these
schemas begin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

ROLES: Final = ("user", "assistant", "tool", "system")
SCOPES: Final = ("current", "all", "session")


@dataclass(frozen=True, slots=True)
class Param:
    """One argument of a tool. ``kind`` names a reader of ``text/arguments``; ``low`` and ``high`` are inclusive."""

    name: str
    kind: str
    meaning: str = ""
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    low: int = 0
    high: int = 2**62
    default: Any = None
    shown: bool = True  # False: accepted, but not worth its tokens in every prompt

    @property
    def schema(self) -> dict[str, Any]:
        """This argument as JSON schema."""
        out = {**_TYPES[self.kind]}
        if self.choices and self.kind == "choice":
            out["enum"] = list(self.choices)
        if self.kind == "roles":
            out["enum"] = list(ROLES)
        if self.meaning:
            out["description"] = self.meaning
        return out


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: what it is for, and its arguments."""

    name: str
    description: str
    params: tuple[Param, ...] = ()
    required: tuple[str, ...] = ()

    @property
    def schema(self) -> dict[str, Any]:
        """The bare function schema."""
        properties = {param.name: param.schema for param in self.params if param.shown}
        parameters: dict[str, Any] = {"type": "object", "properties": properties}
        if self.required:
            parameters["required"] = list(self.required)
        return {"name": self.name, "description": self.description, "parameters": parameters}


_TYPES: Final[dict[str, dict[str, Any]]] = {
    "text": {"type": "string"},
    "name": {"type": "string"},
    "choice": {"type": "string"},
    "roles": {"type": "string"},
    "names": {"type": "string"},
    "int": {"type": "integer"},
    "bool": {"type": "boolean"},
    "time": {"type": "string"},
    "address": {"type": "string"},
    "addresses": {"type": "array", "items": {"type": "string"}},
    "range": {"type": "string"},
}

_TIME = "Unix seconds or ISO 8601 with zone."
_SESSION_SCOPE = Param(
    "session_scope",
    "choice",
    "current (default): this conversation with its rotations and branch parents; all: every readable conversation; "
    "session: session_id.",
    choices=SCOPES,
)
_SCOPE: Final = (
    _SESSION_SCOPE,
    Param("session_id", "name", "One session, from an earlier result."),
    Param("conversation_id", "int", "One conversation, from an earlier result.", low=0),
    Param("all_conversations", "bool", shown=False),
)
_FILTERS: Final = (
    Param("source", "names", "Where messages came from (cli, telegram, unknown, ...).", aliases=("sources",)),
    Param("role", "roles", "Messages of this role only.", aliases=("roles",)),
    Param("time_from", "time", f"Not before: {_TIME}", aliases=("since",)),
    Param("time_to", "time", "Before.", aliases=("before",)),
)
_CONTENT_OFFSET: Final = Param("content_offset", "int", "Continue a cut text here.", low=0, default=0)

GREP: Final = Tool(
    "lcm_grep",
    "Search everything ever said in this conversation, also what was compacted away: messages, tool calls, tool output and "
    "summaries. Start here whenever you need something that is not in view; one search usually suffices. Type the question "
    "or distinctive words (names, paths, error text, any language); quotes, AND, OR, NOT and word* work. Snippets often hold "
    "the answer; lcm_expand(store_id) gives the whole message.",
    (
        Param(
            "query", "text", 'A question, words, a path, a "phrase"; or a pattern in regex mode.', aliases=("pattern",)
        ),
        Param("mode", "choice", "Default full_text.", choices=("full_text", "regex")),
        Param(
            "scope",
            "choice",
            "Default both; wider session scopes: messages.",
            choices=("messages", "summaries", "both"),
        ),
        *_SCOPE,
        *_FILTERS,
        Param("sort", "choice", "Default relevance.", choices=("relevance", "recency", "hybrid")),
        Param("limit", "int", "1 to 200, default 10.", low=1, high=200, default=10),
        Param("cursor", "text", "next_cursor of the same search."),
    ),
    ("query",),
)
LOAD: Final = Tool(
    "lcm_load_session",
    "Read a session's stored messages in order, page by page. Use it to see what surrounds a hit or to walk through a session; "
    "to find something, use lcm_grep.",
    (
        Param("session_id", "name", "Default: the current one."),
        Param("after_store_id", "int", "next_cursor of the page before.", low=0, default=0, aliases=("cursor",)),
        Param("limit", "int", "1 to 200, default 50.", low=1, high=200, default=50),
        Param(
            "max_content_chars", "int", "Longest text per message, default 4000; cut ones say how to go on.",
            low=0, high=10_000_000, default=4000,
        ),
        Param("role", "roles", "Messages of this role only.", aliases=("roles",)),
        Param("time_from", "time", f"Not before: {_TIME}", aliases=("since",)),
        Param("time_to", "time", "Before.", aliases=("before",)),
        Param("source", "names", aliases=("sources",), shown=False),
    ),
)  # fmt: skip
DESCRIBE: Final = Tool(
    "lcm_describe",
    "Look at what there is without paying for it. Without arguments: an overview of this conversation (summaries in the prompt, "
    "what they cover and cost). With an id: a summary's text, sources, subtree and quality; a message's size, place and tool "
    "calls; or a stored file.",
    (
        Param(
            "id",
            "address",
            "sum_3, msg_12 or file_...",
            aliases=("address", "summary_id", "file_id", "externalized_ref"),
        ),
        Param("node_id", "address", "A summary; plain number or sum_3.", aliases=("node",), shown=False),
        Param("store_id", "address", "A message; plain number or msg_12.", aliases=("message_id",), shown=False),
        Param("session_id", "name", "Overview of this session instead."),
        Param("conversation_id", "int", low=0, shown=False),
        Param("all_conversations", "bool", shown=False),
        Param("session_scope", "choice", choices=SCOPES, shown=False),
        Param("max_tokens", "int", low=1, high=10_000_000, shown=False),
        Param("source_offset", "int", "Continue a cut list here.", low=0, default=0),
        _CONTENT_OFFSET,
    ),
)
EXPAND: Final = Tool(
    "lcm_expand",
    "Get originals back exactly. store_id: one message with its tool calls, whatever session it is from (or a range "
    '"msg_10..msg_20"). node_id: what a summary was made of. Cut answers name the arguments that continue.',
    (
        Param("store_id", "address", "Message: 12, msg_12, or a range.", aliases=("message_id", "id", "address")),
        Param("node_id", "address", "Summary: 3 or sum_3.", aliases=("summary_id", "node")),
        Param("externalized_ref", "address", "Stored file: file_...", aliases=("file_id", "ref")),
        _CONTENT_OFFSET,
        Param("max_tokens", "int", "Size of one answer.", low=1, high=10_000_000),
        Param("lines", "range", 'Lines of a message or file, counted from 1: "40-80".'),
        Param("bytes", "range", 'UTF-8 bytes, counted from 0, end included: "0-4095".'),
        Param(
            "part",
            "choice",
            "Default content. message: the whole host message as JSON.",
            choices=("content", "message"),
        ),
        Param("arguments_offset", "int", "Continue cut tool call arguments here.", low=0, default=0),
        Param("source_offset", "int", "Summary: first source to show.", low=0, default=0),
        Param("source_limit", "int", "Summary: most sources, 1 to 200.", low=1, high=200, default=200),
        Param("recursive", "bool", "Summary: go down to the messages.", aliases=("include_messages",), default=False),
        Param("session_id", "name", shown=False),
        Param("conversation_id", "int", low=0, shown=False),
        Param("all_conversations", "bool", shown=False),
    ),
)
EXPAND_QUERY: Final = Tool(
    "lcm_expand_query",
    "Ask a question about the past and get a short answer with sources. A helper model reads the originals, so they do not fill "
    "your context. Use it when the answer is spread over many messages; for one exact value, lcm_grep is faster.",
    (
        Param("prompt", "text", "The question.", aliases=("question",)),
        Param("query", "text", "Words to search for; default: the question.", aliases=("pattern",)),
        Param(
            "node_ids", "addresses", "Summaries (or messages) to read.",
            aliases=("summary_ids", "node_id", "ids", "store_ids", "store_id"),
        ),
        Param("max_tokens", "int", "Longest answer, default 2000.", low=1, high=100_000, default=2000),
        Param("context_max_tokens", "int", "Most that the helper reads.", low=100, high=10_000_000),
        *_SCOPE,
        *(Param(p.name, p.kind, aliases=p.aliases, shown=False) for p in _FILTERS),
        Param("cursor", "text", shown=False),
    ),
    ("prompt",),
)  # fmt: skip
ARCHIVE: Final = Tool(
    "lcm_archive",
    "Take a range of this conversation out of your context and leave a placeholder; for long logs, dumped files, past detours. "
    "Nothing is lost. history lists the live messages with index and tokens; store hides start_index..end_index from the next "
    "request on (tool calls stay with their results; not the latest request); list shows the archives; load reads one and "
    "changes nothing; restore shows its messages again in their place; prune forgets archives whose placeholder is gone. "
    "Worth it when the prompt passes 70 % of the window (lcm_status says what to take).",
    (
        Param("operation", "choice", choices=("history", "store", "list", "load", "restore", "prune")),
        Param("start_index", "int", "store: first message. history: where the page begins.", low=0),
        Param("end_index", "int", "store: last message, included.", low=0),
        Param(
            "summary", "text", "store: what later turns need: decisions, constraints, open questions. Not a paraphrase."
        ),
        Param("auto", "bool", "store: without summary, take the first line.", default=False),
        Param("max_preview_chars", "int", "40 to 400, default 200.", low=0, high=1_000_000, default=200),
        Param("memory_handle", "name", "load, restore: mem://...", aliases=("handle", "memory_id")),
        Param(
            "after_store_id",
            "int",
            "next_cursor of the page before.",
            low=0,
            default=0,
            aliases=("cursor", "next_cursor"),
        ),
        Param("limit", "int", "Most entries of a page, default 50.", low=1, high=200, default=50),
        Param("restore_insert_index", "int", low=0, shown=False),
        Param("remove_placeholder", "bool", shown=False),
        Param("replace_placeholder_with", "text", shown=False),
    ),
    ("operation",),
)
STATUS: Final = Tool("lcm_status", "State of the context engine: pressure, what is stored, settings, problems.")
DOCTOR: Final = Tool(
    "lcm_doctor",
    "Check database, search index and settings; each finding with its remedy.",
    (Param("deep", "bool", "Also check every row (slow).", default=False),),
)

TOOLS: Final = {tool.name: tool for tool in (GREP, LOAD, DESCRIBE, EXPAND, EXPAND_QUERY, ARCHIVE, STATUS, DOCTOR)}
SCHEMAS: Final[tuple[dict[str, Any], ...]] = tuple(tool.schema for tool in TOOLS.values())
