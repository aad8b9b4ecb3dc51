"""
Host message dict → ``Message``: lossless stored JSON, readable text, canonical core, identity digest; groups of a list.

Everything the host may do to a message without changing what was said (strip blanks, replace images by
"[screenshot]", leave out sound and other parts without text, drop private keys, add timestamps, append its todo list
when it merges rows) leaves the digest as it is. Everything else changes it. Owns nothing; never raises on any shape of input.
"""

from __future__ import annotations

import base64
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, TypeVar

from ..records import Flag, Message, ToolCall
from . import markers, tokens
from .markers import TODO_HEAD

#: Names the canonical form inside the digest. Bump it when the form changes.
FORM = b"m1"
#: Names of this plugin's tools begin so.
OWN_TOOLS = "lcm_"
SCREENSHOT = "[screenshot]"
_TODO_TAIL = re.compile(re.escape("\n\n" + TODO_HEAD) + r"(?:\n- \[[^\]\n]{1,3}\] [^\n]*)+\s*\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")  # two halves: JSON would make one character of them
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_IMAGES = ("image", "image_url", "input_image")
_ESCAPE = "__lcm_escaped__"
_LAST_SECOND = 4e10  # later times are no times
_BIG_INT = 10**300


# ------------------------------------------------------------------------------------------------ reading
def text_of(content: Any) -> str:
    """Text of a message's content, as a person would read it."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, Mapping):
        if content.get("_multimodal"):
            return str(content.get("text_summary") or "")
        return _dump(content)
    if isinstance(content, Sequence):
        return "\n".join(piece for piece in (_part_text(part) for part in content) if piece)
    return _odd(content) if isinstance(content, int) and not -_BIG_INT < content < _BIG_INT else _printed(content)


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return _printed(part)
    if part.get("type") in _IMAGES:
        return SCREENSHOT
    text = part.get("text")
    if isinstance(text, str):
        return text
    return "" if text is None and part.get("type") == "text" else _dump(part)


def kept_text(content: Any) -> str:
    """Text of a message's content, as the host keeps it over a restart: of a list its text and images, and no other part."""
    if not isinstance(content, list):
        return text_of(content)
    kept = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "text":
            kept.append(str(part.get("text", "")))
        elif kind in _IMAGES:
            kept.append(SCREENSHOT)
    return "\n".join(kept)


def whole_text(content: Any) -> str:
    """Text of a message's content where ``kept_text`` is another; else ""."""
    if not isinstance(content, list):
        return ""
    whole = text_of(content)
    return whole if whole != kept_text(content) else ""


def images_in(content: Any) -> int:
    """Number of image parts in a content list."""
    if not isinstance(content, list):
        return 0
    return sum(1 for part in content if isinstance(part, Mapping) and part.get("type") in _IMAGES)


def calls_of(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """The tool calls of a message, in every shape that providers give them."""
    return tuple(map(_call, _calls(message)))


def _calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls = message.get("tool_calls")
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        return []
    return [item for item in calls if isinstance(item, Mapping)]


def _call(item: Mapping[str, Any]) -> ToolCall:
    function = item.get("function")
    function = function if isinstance(function, Mapping) else item
    arguments = function.get("arguments")
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):
        arguments = _dump(arguments)
    return ToolCall(str(item.get("id") or item.get("call_id") or ""), str(function.get("name") or ""), arguments)


def call_ids(message: Mapping[str, Any]) -> set[str]:
    """Every id under which a result may answer one of the message's calls."""
    return set[str]().union(*map(_ids, _calls(message)))


def _ids(call: Mapping[str, Any]) -> set[str]:
    return {str(call[key]) for key in ("id", "call_id") if call.get(key)}


# ------------------------------------------------------------------------------------------------ identity
def canonical_text(text: str, role: str = "") -> str:
    """The one spelling of a text that survives a reload by the host."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", storable(text))
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if TODO_HEAD in text:
        text = _TODO_TAIL.sub("", text)
    if "emory" in text or "EMORY" in text:
        text = markers.without_recalled(text)
    return markers.unstamped(text.strip()) if role == "user" else text.strip()


def canonical_arguments(arguments: str) -> str:
    """The one spelling of a call's arguments."""
    text = arguments.strip()
    if text[:1] in "{[":
        try:
            return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        except (ValueError, RecursionError):
            return text
    return text


def digest(role: str, text: str, calls: Sequence[ToolCall] = (), tool_call_id: str | None = None) -> bytes:
    """16 bytes that identify what was said. ``text`` may be raw; it is made canonical here."""
    state = blake2b(FORM, digest_size=16)
    for piece in (role, canonical_text(text, role), tool_call_id or ""):
        state.update(b"\0" + piece.encode("utf-8", "surrogatepass"))
    for call in calls:
        for piece in (call.id, call.name, canonical_arguments(call.arguments)):
            state.update(b"\1" + piece.encode("utf-8", "surrogatepass"))
    return state.digest()


def sendable(text: str) -> str:
    """A text with its lone surrogates, which cannot be sent, written out as JSON writes them."""
    return text if text.isascii() else _SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


_Text = TypeVar("_Text", str, "str | None")


def storable(text: _Text) -> _Text:
    """A text as a database column takes it (the stored JSON keeps the exact one)."""
    return text if text is None or text.isascii() else _SURROGATE.sub("\ufffd", text)


@dataclass(frozen=True, slots=True)
class Said:
    """The canonical core of a message: enough to recognise it, without reading all of it."""

    role: str
    text: str
    calls: tuple[ToolCall, ...]
    tool_call_id: str | None
    digest: bytes


def canonical_core(message: Mapping[str, Any], *, text: str | None = None) -> Said:
    """Canonical core of a message. ``text`` overrides the content, for a part of a message that the host glued together."""
    role = _role(message)
    body = message.get("content") if text is None else text
    words = body if isinstance(body, str) else kept_text(body)
    calls = calls_of(message)
    tool_call_id = _tool_call_id(message)
    return Said(role, words, calls, tool_call_id, digest(role, words, calls, tool_call_id))


def _role(message: Mapping[str, Any]) -> str:
    return str(message.get("role") or "unknown")


def _tool_call_id(message: Mapping[str, Any]) -> str | None:
    tool_call_id = message.get("tool_call_id")
    return str(tool_call_id) if tool_call_id is not None else None


def is_host_note(role: str, text: str, message: Mapping[str, Any]) -> bool:
    """Did the host write this user message itself?"""
    if role != "user":
        return False
    if any(key.endswith("_synthetic") and message[key] for key in message if isinstance(key, str) and key[:1] == "_"):
        return True
    return bool(markers.host_block(text))


def read_message(message: Mapping[str, Any], *, text: str | None = None, core: Said | None = None) -> Message:
    """Read all of one host message. ``text`` as in ``said``; ``core`` if that has been read already."""
    if core is None:
        core = canonical_core(message, text=text)
    words = core.text
    if text is not None:
        message = {**message, "content": text}
    elif isinstance(message.get("content"), list):
        words = text_of(message["content"])
    if "_db_persisted" in message:
        message = _without_bookkeeping(message)
    stored_json, quarantined = _encoded(message)
    flags = Flag.QUARANTINED if quarantined else Flag.NONE
    if is_host_note(core.role, core.text, message):
        flags |= Flag.HOST_NOTE
    if _is_own_tool(core.role, _tool_name(message, core.role) or "", core.text, core.calls):
        flags |= Flag.OWN_TOOL
    elif any(call.name.startswith(OWN_TOOLS) for call in core.calls):
        flags |= Flag.OWN_CALL
    arguments = "".join(call.arguments for call in core.calls)
    return Message(
        role=core.role,
        text=words,
        calls=core.calls,
        tool_call_id=core.tool_call_id,
        tool_name=_tool_name(message, core.role),
        digest=core.digest,
        stored_json=stored_json,
        tokens=tokens.count_message(words, len(core.calls), arguments, images_in(message.get("content"))),
        said_at=said_at(message),
        uid=_uid(message),
        flags=flags,
        value=None if quarantined else message,
    )


def _tool_name(message: Mapping[str, Any], role: str) -> str | None:
    name = message.get("tool_name") or message.get("name")
    return str(name) if name and role == "tool" else None


def _uid(message: Mapping[str, Any]) -> str | None:
    return str(message["message_uid"]) if message.get("message_uid") else None


def said_at(message: Mapping[str, Any]) -> float | None:
    """Time of a message, in seconds, as the host noted it; None where it says nothing that is a time."""
    value = message.get("timestamp")
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if 0 < value < _LAST_SECOND else None


def rewritten(read: Message, message: Mapping[str, Any], flags: int) -> Message:
    """A message with other words and names in it, flagged. Its identity stays: the digest is that of what the host shows."""
    stored_json, quarantined = _encoded(message)
    role = _role(message)
    return replace(
        read,
        role=role,
        text=text_of(message.get("content")),
        calls=calls_of(message),
        tool_call_id=_tool_call_id(message),
        tool_name=_tool_name(message, role),
        uid=_uid(message),
        stored_json=stored_json,
        flags=read.flags | flags,
        value=None if quarantined else message,
    )


def _is_own_tool(role: str, name: str, said: str, calls: Sequence[ToolCall]) -> bool:
    """An answer of one of our tools, or a message that does nothing but call them."""
    if role == "tool":
        return name.startswith(OWN_TOOLS)
    return bool(calls) and not said.strip() and all(call.name.startswith(OWN_TOOLS) for call in calls)


# ------------------------------------------------------------------------------------------------ stored JSON
def encode(message: Mapping[str, Any]) -> tuple[str, bool]:
    """(JSON of the whole message, was anything in it not JSON). ``decode`` gives the message back.

    Lone surrogates are escaped by JSON itself. What JSON cannot hold, or would change (bytes, sets, tuples, odd keys, cycles,
    huge integers, any depth), turns the message into a list of nodes that refer to each other. Live-only bookkeeping of the host
    (``_db_persisted``) is no part of the message.
    """
    raw, quarantined = _encoded(_without_bookkeeping(message) if "_db_persisted" in message else message)
    return raw.decode("utf-8"), quarantined


def _without_bookkeeping(message: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "_db_persisted"}


def _encoded(message: Mapping[str, Any]) -> tuple[bytes, bool]:
    """``encode`` as UTF-8, of a message without bookkeeping."""
    try:
        exact = _plain(message)
        out = _JSON(message) if exact else ""
    except (TypeError, ValueError, RecursionError):
        exact, out = False, ""
    if exact:
        try:
            return out.encode("utf-8"), False
        except UnicodeEncodeError:
            exact = not _PAIR.search(out)
    if not exact:
        out = json.dumps({_ESCAPE: _graph(message)}, ensure_ascii=False, separators=(",", ":"))
    try:
        return out.encode("utf-8"), not exact
    except UnicodeEncodeError:
        return sendable(out).encode("utf-8"), not exact


def _plain(value: Any) -> bool:
    """Would JSON give exactly this back?"""
    kind = value.__class__
    if kind is str or value is None or kind is bool or kind is float:
        return True
    if kind is int:
        return bool(-_BIG_INT < value < _BIG_INT)
    if kind is dict:
        return _ESCAPE not in value and all(key.__class__ is str and _plain(item) for key, item in value.items())
    return kind is list and all(_plain(item) for item in value)


def _graph(root: Any) -> list[list[Any]]:
    """A value as nodes ``[kind, payload]``; containers hold the places of their items. Knows cycles and any depth."""
    nodes: list[list[Any]] = []
    places: dict[int, int] = {}
    waiting: list[tuple[Any, int]] = []

    def place(value: Any) -> int:
        known = places.get(id(value)) if isinstance(value, (list, dict)) else None
        if known is not None:
            return known
        nodes.append(_leaf(value))
        if isinstance(value, (list, dict)):
            places[id(value)] = len(nodes) - 1
        if nodes[-1][0] in _CONTAINERS:
            waiting.append((value, len(nodes) - 1))
        return len(nodes) - 1

    place(root)
    while waiting:
        value, at = waiting.pop()
        if isinstance(value, Mapping):
            nodes[at][1] = [[place(key), place(item)] for key, item in value.items()]
        else:
            items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
            nodes[at][1] = [place(item) for item in items]
    return nodes


_CONTAINERS = {"dict": Mapping, "list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


def _leaf(value: Any) -> list[Any]:
    if isinstance(value, str) and _PAIR.search(value):
        return ["text", base64.b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")]
    if value is None or isinstance(value, (bool, float, str)):
        return ["value", value]
    if isinstance(value, int):
        return ["int", hex(value)]
    if isinstance(value, (bytes, bytearray)):
        return ["bytes", base64.b64encode(bytes(value)).decode("ascii")]
    for name, kind in _CONTAINERS.items():
        if isinstance(value, kind):
            return [name, []]
    return ["repr", repr(value)]


def decode(stored_json: str | bytes) -> dict[str, Any]:
    """The message that ``encode`` was given. Raises ValueError for what it never writes."""
    try:
        message = json.loads(stored_json)
    except RecursionError as exc:  # what is nested so deeply is stored as a list of its parts
        raise ValueError("nested more deeply than anything that is stored") from exc
    if isinstance(message, dict) and set(message) == {_ESCAPE}:
        message = _value(message[_ESCAPE])
    return message if isinstance(message, dict) else {"role": "unknown", "content": message}


def _value(nodes: list[list[Any]]) -> Any:
    """The value that ``_graph`` was given."""
    built: dict[int, Any] = {
        n: [] if kind == "list" else {} for n, (kind, _) in enumerate(nodes) if kind in ("list", "dict")
    }
    for n in range(len(nodes) - 1, -1, -1):
        if n not in built:
            _build(nodes, n, built)
    for n, (kind, payload) in enumerate(nodes):
        if kind == "list":
            built[n].extend(built[at] for at in payload)
        elif kind == "dict":
            built[n].update({built[key]: built[item] for key, item in payload})
    return built[0]


def _build(nodes: list[list[Any]], n: int, built: dict[int, Any]) -> None:
    """Value of a node that is no list and no dict: its items first, without recursion (they may lie anywhere)."""
    stack = [n]
    while stack:
        at = stack[-1]
        kind, payload = nodes[at]
        missing = [item for item in payload if item not in built] if kind in ("tuple", "set", "frozenset") else []
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        built[at] = _MAKE[kind](payload, built)


_MAKE: dict[str, Callable[[Any, dict[int, Any]], Any]] = {
    "value": lambda payload, _: payload,
    "repr": lambda payload, _: payload,
    "int": lambda payload, _: int(payload, 16),
    "text": lambda payload, _: base64.b64decode(payload).decode("utf-8", "surrogatepass"),
    "bytes": lambda payload, _: base64.b64decode(payload),
    "tuple": lambda payload, built: tuple(built[at] for at in payload),
    "set": lambda payload, built: {built[at] for at in payload},
    "frozenset": lambda payload, built: frozenset(built[at] for at in payload),
}


def _dump(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):
        return _odd(value)


def _printed(value: Any) -> str:
    """Text of a value as Python prints it, where it can."""
    try:
        return str(value)
    except (RecursionError, ValueError):  # nested too deeply, or with a number of thousands of digits inside
        return _odd(value)


def _odd(value: Any) -> str:
    """Text for a value that cannot be printed."""
    if isinstance(value, int):
        return hex(value)
    return f"[{type(value).__name__} that cannot be shown as text]"


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A value with changed strings; containers are fresh, everything else is shared."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key) if isinstance(key, str) else key: mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [mapped(item, change) for item in value]
    return value


# -- groups: an assistant message with its calls and all their results; nothing ever splits one -----------------
@dataclass(frozen=True, slots=True)
class Group:
    """Messages ``start`` to ``stop`` (exclusive) of a list. ``whole``: every call has its result and the reverse."""

    start: int
    stop: int
    whole: bool
    role: str


def groups(messages: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Cut a list into groups, in order and without a gap."""
    out: list[Group] = []
    at = 0
    while at < len(messages):
        role = str(messages[at].get("role") or "")
        if role == "tool":  # a result whose call is not in front of it
            out.append(Group(at, at + 1, False, role))
            at += 1
            continue
        wanted = call_ids(messages[at]) if role == "assistant" else set()
        stop = at + 1
        while stop < len(messages) and messages[stop].get("role") == "tool" and wanted:
            stop += 1
        out.append(Group(at, stop, not unpaired(messages[at:stop]), role))
        at = stop
    return out


def unpaired(messages: Sequence[Mapping[str, Any]]) -> set[str]:
    """Ids of calls without a result directly behind their message, and of results without such a call."""
    wrong: set[str] = set()
    waiting: dict[str, set[str]] = {}
    for message in messages:
        if message.get("role") == "tool":
            tool_call_id = str(message.get("tool_call_id") or "")
            ids = waiting.pop(tool_call_id, None)
            if ids is None:
                wrong.add(tool_call_id or "?")
            else:
                for other in ids:
                    waiting.pop(other, None)
            continue
        wrong.update(waiting)
        waiting = {}
        if message.get("role") == "assistant":
            for ids in map(_ids, _calls(message)):
                waiting.update(dict.fromkeys(ids, ids))
    return wrong | set(waiting)


def problems(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Faults of a list that a strict provider would refuse, in words; empty for a valid one."""
    out = [f"unpaired tool call or result {name}" for name in sorted(unpaired(messages))]
    if messages and messages[0].get("role") != "user":
        out.append(f"begins with {messages[0].get('role')}")
    for n, message in enumerate(messages):
        content = message.get("content")
        blank = not isinstance(content, list) and not text_of(content).strip()
        if blank and not message.get("tool_calls") and message.get("role") != "tool":
            out.append(f"message {n} is an empty {message.get('role')}")
    return out
