"""
Host message dict → ``Message``: lossless envelope, readable text, canonical core, identity digest.

Everything the host may do to a message without changing what was said (strip blanks, replace images by "[screenshot]", drop
private keys, add timestamps, append its todo list when it merges rows) leaves the digest as it is. Everything else changes it.
Owns nothing; never raises on any shape of input.
"""

from __future__ import annotations

import base64
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from ..records import Flag, Message, ToolCall
from . import tokens

#: Names the canonical form inside the digest. Bump it when the form changes.
FORM = b"m1"
#: Names of this plugin's tools begin so.
OWN_TOOLS = "lcm_"
SCREENSHOT = "[screenshot]"
TODO_HEAD = "[Your active task list was preserved across context compression]"
_TODO_TAIL = re.compile(re.escape("\n\n" + TODO_HEAD) + r"(?:\n- \[[^\]\n]{1,3}\] [^\n]*)+\s*\Z")
_TODO_WHOLE = re.compile(re.escape(TODO_HEAD) + r"(?:\n- \[[^\]\n]{1,3}\] [^\n]*)+\s*\Z")
_MEMORY = re.compile(r"<\s*memory-context\s*>[\s\S]*?</\s*memory-context\s*>", re.I)
_SURROGATE = re.compile("[\ud800-\udfff]")
_IMAGES = ("image", "image_url", "input_image")
_ESCAPE = "__lcm_escaped__"
_MAX_DEPTH = 64


# ------------------------------------------------------------------------------------------------ reading
def text_of(content: Any) -> str:
    """What a person would read of a message's content."""
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
    return str(content)


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return str(part)
    if part.get("type") in _IMAGES:
        return SCREENSHOT
    text = part.get("text")
    if isinstance(text, str):
        return text
    return "" if text is None and part.get("type") == "text" else _dump(part)


def images_in(content: Any) -> int:
    """How many image parts a content list holds."""
    if not isinstance(content, list):
        return 0
    return sum(1 for part in content if isinstance(part, Mapping) and part.get("type") in _IMAGES)


def calls_of(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """The tool calls of a message, whatever shape the provider gave them."""
    calls = message.get("tool_calls")
    if not calls or not isinstance(calls, Sequence) or isinstance(calls, str):
        return ()
    return tuple(_call(item) for item in calls if isinstance(item, Mapping))


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
    calls = message.get("tool_calls")
    if not calls or not isinstance(calls, Sequence) or isinstance(calls, str):
        return set()
    found = (item.get(key) for item in calls if isinstance(item, Mapping) for key in ("id", "call_id"))
    return {str(value) for value in found if value}


# ------------------------------------------------------------------------------------------------ identity
def canonical_text(text: str) -> str:
    """The one spelling of a text that survives a reload by the host."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", _SURROGATE.sub("\ufffd", text))
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if TODO_HEAD in text:
        text = _TODO_TAIL.sub("", text)
    if "memory-context" in text:
        text = _MEMORY.sub("", text)
    return text.strip()


def _canonical_arguments(arguments: str) -> str:
    text = arguments.strip()
    if text[:1] in "{[":
        try:
            return json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        except (ValueError, RecursionError):
            return text
    return text


def digest(role: str, text: str, calls: Sequence[ToolCall] = (), answers: str | None = None) -> bytes:
    """16 bytes that identify what was said. ``text`` may be raw; it is made canonical here."""
    state = blake2b(FORM, digest_size=16)
    for piece in (role, canonical_text(text), answers or ""):
        state.update(b"\0" + piece.encode("utf-8", "surrogatepass"))
    for call in calls:
        for piece in (call.id, call.name, _canonical_arguments(call.arguments)):
            state.update(b"\1" + piece.encode("utf-8", "surrogatepass"))
    return state.digest()


def is_host_note(role: str, text: str, message: Mapping[str, Any]) -> bool:
    """Did the host write this user message itself?"""
    if role != "user":
        return False
    if any(key.endswith("_synthetic") and message[key] for key in message if isinstance(key, str) and key[:1] == "_"):
        return True
    return text.startswith(TODO_HEAD) and _TODO_WHOLE.match(text) is not None


def read(message: Mapping[str, Any], *, text: str | None = None) -> Message:
    """Read one host message. ``text`` overrides the content, for a part of a message that the host glued together."""
    role = str(message.get("role") or "unknown")
    content = message.get("content")
    if text is not None:
        message = {**message, "content": text}
        content = text
    said = content if isinstance(content, str) else text_of(content)
    calls = calls_of(message)
    answers = message.get("tool_call_id")
    answers = str(answers) if answers is not None else None
    envelope, quarantined = encode(message)
    flags = Flag.QUARANTINED if quarantined else Flag.NONE
    if is_host_note(role, said, message):
        flags |= Flag.HOST_NOTE
    name = message.get("tool_name") or message.get("name")
    if _is_own_tool(role, str(name or ""), said, calls):
        flags |= Flag.OWN_TOOL
    arguments = "".join(call.arguments for call in calls)
    return Message(
        role=role,
        text=said,
        calls=calls,
        answers=answers,
        tool_name=str(name) if name and role == "tool" else None,
        digest=digest(role, said, calls, answers),
        envelope=envelope,
        tokens=tokens.count_message(said, len(calls), arguments, images_in(content)),
        said_at=_time(message.get("timestamp")),
        uid=str(message["message_uid"]) if message.get("message_uid") else None,
        flags=flags,
    )


def _is_own_tool(role: str, name: str, said: str, calls: Sequence[ToolCall]) -> bool:
    """An answer of one of our tools, or a message that does nothing but call them."""
    if role == "tool":
        return name.startswith(OWN_TOOLS)
    return bool(calls) and not said.strip() and all(call.name.startswith(OWN_TOOLS) for call in calls)


def _time(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else None


# ------------------------------------------------------------------------------------------------ envelope
def encode(message: Mapping[str, Any]) -> tuple[str, bool]:
    """(JSON of the whole message, was anything in it not JSON). ``decode`` gives the message back.

    Lone surrogates are escaped by JSON itself; bytes, sets, tuples, odd keys and cycles are wrapped. Live-only bookkeeping
    of the host (``_db_persisted``) is no part of the message.
    """
    if "_db_persisted" in message:
        message = {key: value for key, value in message.items() if key != "_db_persisted"}
    try:
        out = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=True)
        if not _plain(message):
            raise TypeError("keys or tuples that JSON would change")
        quarantined = False
    except (TypeError, ValueError, RecursionError):
        out = json.dumps(_wrap(message, 0, ()), ensure_ascii=False, separators=(",", ":"))
        quarantined = True
    if not out.isascii() and _SURROGATE.search(out):
        out = _SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", out)
    return out, quarantined


def _plain(value: Any) -> bool:
    """Would JSON give exactly this back? (Only the shapes that it silently changes are looked for.)"""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _plain(item) for key, item in value.items()) and _ESCAPE not in value
    if isinstance(value, list):
        return all(_plain(item) for item in value)
    return value is None or isinstance(value, (str, int, float))


def _wrap(value: Any, depth: int, parents: tuple[int, ...]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if depth > _MAX_DEPTH or id(value) in parents:
        return {_ESCAPE: "cut", "value": repr(type(value))}
    inner = (*parents, id(value))
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value) and _ESCAPE not in value:
            return {key: _wrap(item, depth + 1, inner) for key, item in value.items()}
        pairs = [[_wrap(key, depth + 1, inner), _wrap(item, depth + 1, inner)] for key, item in value.items()]
        return {_ESCAPE: "dict", "value": pairs}
    if isinstance(value, list):
        return [_wrap(item, depth + 1, inner) for item in value]
    if isinstance(value, (tuple, set, frozenset)):
        kind = "tuple" if isinstance(value, tuple) else "set"
        items = list(value) if kind == "tuple" else sorted(value, key=repr)
        return {_ESCAPE: kind, "value": [_wrap(item, depth + 1, inner) for item in items]}
    if isinstance(value, (bytes, bytearray)):
        return {_ESCAPE: "bytes", "value": base64.b64encode(bytes(value)).decode("ascii")}
    return {_ESCAPE: "repr", "value": repr(value)}


def decode(envelope: str) -> dict[str, Any]:
    """The message that ``encode`` was given."""
    message = json.loads(envelope)
    if _ESCAPE in envelope:
        message = _unwrap(message)
    return message if isinstance(message, dict) else {"role": "unknown", "content": message}


def _unwrap(value: Any) -> Any:
    if isinstance(value, list):
        return [_unwrap(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_ESCAPE)
    if kind is None or set(value) != {_ESCAPE, "value"}:
        return {key: _unwrap(item) for key, item in value.items()}
    inner = value["value"]
    if kind == "bytes":
        return base64.b64decode(inner)
    if kind == "dict":
        return {_key(_unwrap(key)): _unwrap(item) for key, item in inner}
    if kind == "tuple":
        return tuple(_unwrap(item) for item in inner)
    if kind == "set":
        return {_key(_unwrap(item)) for item in inner}
    return inner


def _key(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _dump(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):
        return repr(type(value))
