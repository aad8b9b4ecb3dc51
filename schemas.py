"""
The tools as data: names, arguments with their kinds and bounds, and the schemas that the model sees.

Each argument is stated once; ``SCHEMAS`` and the reading of arguments (``recall/lines``) are derived from it.
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
    """One argument of a tool. ``kind`` names a reader of ``recall/lines``; ``low`` and ``high`` are inclusive."""

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
        """JSON schema of this argument."""
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

_TIME = "ISO 8601 with zone, or Unix seconds."
_SESSION_SCOPE = Param(
    "session_scope",
    "choice",
    "current (default): this conversation; all: every readable one; session: session_id.",
    choices=SCOPES,
)
_SCOPE: Final = (
    _SESSION_SCOPE,
    Param("session_id", "name"),
    Param("conversation_id", "int", low=0),
    Param("all_conversations", "bool", shown=False),
)
_FILTERS: Final = (
    Param("source", "names", "cli, telegram, ...", aliases=("sources",)),
    Param("role", "roles", aliases=("roles",)),
    Param("speaker", "name", "Who said it, in a group."),
    Param("time_from", "time", _TIME, aliases=("since",)),
    Param("time_to", "time", aliases=("before",)),
)
_FORMAT: Final = Param("format", "choice", choices=("text", "json"), default="text")
_BUDGET: Final = Param("budget_tokens", "int", "Default 2000.", low=250, high=1_000_000, default=2000)
_CONTENT_OFFSET: Final = Param("content_offset", "int", "Continue a text here.", low=0, default=0)

GREP: Final = Tool(
    "lcm_grep",
    "Search everything ever said in this conversation, also what was compacted away: messages, tool calls, tool output and "
    "summaries. Start here for whatever is not in view. Type the question or distinctive words (names, "
    "paths, error text, any language); quotes, AND, OR, NOT and word* work. Each line is a hit with its address; "
    "lcm_expand(store_id) gives the whole message.",
    (
        Param("query", "text", 'A question, words, a path, a "phrase"; or a regex.', aliases=("pattern",)),
        Param("mode", "choice", choices=("full_text", "regex")),
        Param(
            "scope",
            "choice",
            choices=("messages", "summaries", "both"),
        ),
        *_SCOPE,
        *_FILTERS,
        Param("sort", "choice", choices=("relevance", "recency", "hybrid", "time")),
        Param("reasons", "bool", shown=False),
        _BUDGET,
        Param("limit", "int", "Most hits.", low=1, high=200),
        Param("cursor", "text", "From the same search."),
        _FORMAT,
    ),
    ("query",),
)
LOAD: Final = Tool(
    "lcm_load_session",
    "Read a session's stored messages in order, page by page: what surrounds a hit, or a whole session. To find something, use "
    "lcm_grep.",
    (
        Param("session_id", "name", "Default: current."),
        Param("after_store_id", "int", "Go on after this message.", low=0, default=0, aliases=("cursor",)),
        _BUDGET,
        Param("limit", "int", "Most messages.", low=1, high=200),
        Param("max_content_chars", "int", "Default 4000.", low=0, high=10_000_000, default=4000, shown=False),
        Param("role", "roles", aliases=("roles",), shown=False),
        Param("time_from", "time", _TIME, aliases=("since",), shown=False),
        Param("time_to", "time", aliases=("before",), shown=False),
        Param("source", "names", aliases=("sources",), shown=False),
        _FORMAT,
    ),
)
DESCRIBE: Final = Tool(
    "lcm_describe",
    "Look at what there is without paying for it. Without arguments: an overview of this conversation and its summaries. With an "
    "id: a summary's text, sources and quality; a message's size and place; or a stored file.",
    (
        Param(
            "id",
            "address",
            "sum_3, msg_12 or file_...",
            aliases=("address", "summary_id", "file_id", "externalized_ref"),
        ),
        Param("view", "choice", "ledger: rules, decisions, names, values, dates users stated.", choices=("ledger",)),
        Param("about", "name", "Ledger: on what."),
        Param("node_id", "address", "A summary; plain number or sum_3.", aliases=("node",), shown=False),
        Param("store_id", "address", "A message; plain number or msg_12.", aliases=("message_id",), shown=False),
        Param("session_id", "name", "Overview of this session."),
        Param("conversation_id", "int", low=0, shown=False),
        Param("all_conversations", "bool", shown=False),
        Param("session_scope", "choice", choices=SCOPES, shown=False),
        Param("max_tokens", "int", aliases=("budget_tokens",), low=1, high=10_000_000, shown=False),
        Param("source_offset", "int", "Continue a list here.", low=0, default=0),
        _CONTENT_OFFSET,
        _FORMAT,
    ),
)
EXPAND: Final = Tool(
    "lcm_expand",
    "Get originals back exactly. store_id: one message of any session with its tool calls, or a range. node_id: what a summary "
    "was made of. Cut answers name the call that continues.",
    (
        Param("store_id", "address", "msg_12 or msg_10..msg_20.", aliases=("message_id", "id", "address")),
        Param("node_id", "address", "sum_3", aliases=("summary_id", "node")),
        Param("node_ids", "addresses", aliases=("summary_ids",), shown=False),
        Param("externalized_ref", "address", "file_...", aliases=("file_id", "ref")),
        _CONTENT_OFFSET,
        Param("max_tokens", "int", "Answer size.", aliases=("budget_tokens",), low=1, high=10_000_000),
        Param("lines", "range", 'From 1: "40-80".'),
        Param("bytes", "range", 'From 0, end included: "0-4095".', shown=False),
        Param(
            "part",
            "choice",
            "message: the whole host message as JSON.",
            choices=("content", "message"),
            shown=False,
        ),
        Param("arguments_offset", "int", "Continue arguments here.", low=0, default=0),
        Param("source_offset", "int", "Summary: first source.", low=0, default=0),
        Param("source_limit", "int", "Summary: most sources.", low=1, high=200, default=200, shown=False),
        Param("recursive", "bool", "Summary: go down to the messages.", aliases=("include_messages",), default=False),
        Param("session_id", "name", shown=False),
        Param("conversation_id", "int", low=0, shown=False),
        Param("all_conversations", "bool", shown=False),
        _FORMAT,
    ),
)
EXPAND_QUERY: Final = Tool(
    "lcm_expand_query",
    "Ask a question about the past and get a short answer with sources. A helper reads the originals. Use it when an answer "
    "is spread over many messages; for one exact value, lcm_grep is faster.",
    (
        Param("prompt", "text", "The question.", aliases=("question",)),
        Param("query", "text", "Words to search for.", aliases=("pattern",)),
        Param(
            "node_ids", "addresses", "Summaries (or messages) to read.",
            aliases=("summary_ids", "node_id", "ids", "store_ids", "store_id"),
        ),
        Param("max_tokens", "int", "Longest answer.", low=1, high=100_000, default=2000),
        Param("context_max_tokens", "int", "Most that is read.", low=100, high=10_000_000, shown=False),
        *_SCOPE,
        *(Param(p.name, p.kind, aliases=p.aliases, shown=False) for p in _FILTERS),
        Param("cursor", "text", shown=False),
    ),
    ("prompt",),
)  # fmt: skip
MAP: Final = Tool(
    "lcm_map",
    "Put one question to many messages, each by itself, and join the answers. Name them by query or store_ids; the same call "
    "goes on where its budget ended.",
    (
        Param("prompt", "text", "The question.", aliases=("question",)),
        Param("query", "text", aliases=("pattern",)),
        Param("store_ids", "addresses", "msg_10..msg_90, sum_3", aliases=("ids", "node_ids", "store_id", "node_id")),
        Param("limit", "int", "Most messages.", low=1, high=500, shown=False),
        *(
            Param(p.name, p.kind, aliases=p.aliases, choices=p.choices, low=p.low, shown=False)
            for p in (*_SCOPE, *_FILTERS)
        ),
    ),
    ("prompt",),
)
ARCHIVE: Final = Tool(
    "lcm_archive",
    "Take a range of this conversation out of your context and leave a placeholder: long logs, dumped files, past detours. "
    "Nothing is lost. history lists the live messages with index and tokens; store hides start_index..end_index from the next "
    "request on; list shows the archives; load reads one; restore shows its messages again in their place; prune forgets "
    "archives whose placeholder is gone. Worth it when the prompt passes 70 % of the window (lcm_status says what to take).",
    (
        Param("operation", "choice", choices=("history", "store", "list", "load", "restore", "prune")),
        Param("start_index", "int", low=0),
        Param("end_index", "int", "Included.", low=0),
        Param("summary", "text", "store: what later turns need: decisions, constraints, open questions."),
        Param("auto", "bool", "store without summary.", default=False),
        Param("max_preview_chars", "int", "40 to 400.", low=0, high=1_000_000, default=200, shown=False),
        Param("memory_handle", "name", "mem://...", aliases=("handle", "memory_id")),
        Param(
            "after_store_id",
            "int",
            "next_cursor.",
            low=0,
            default=0,
            aliases=("cursor", "next_cursor"),
        ),
        Param("limit", "int", "Default 50.", low=1, high=200, default=50),
        Param("restore_insert_index", "int", low=0, shown=False),
        Param("remove_placeholder", "bool", shown=False),
        Param("replace_placeholder_with", "text", shown=False),
    ),
    ("operation",),
)
STATUS: Final = Tool("lcm_status", "State of the context engine: pressure, what is stored, problems.", (_FORMAT,))
DOCTOR: Final = Tool(
    "lcm_doctor",
    "Check database, index and settings; findings with remedies.",
    (Param("deep", "bool", "Every row (slow).", default=False), _FORMAT),
)

TOOLS: Final = {tool.name: tool for tool in (GREP, LOAD, DESCRIBE, EXPAND, EXPAND_QUERY, MAP, ARCHIVE, STATUS, DOCTOR)}
SCHEMAS: Final[tuple[dict[str, Any], ...]] = tuple(tool.schema for tool in TOOLS.values())
