"""
Arguments as a model typed them → checked values.

The host hands them over uncoerced, so "5" stands for 5 and "true" for True. Unknown names and bad values are refused with the
nearest right name or the accepted range: a silently ignored argument would change what was asked. Pure.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ..errors import BadRequest
from ..schemas import ROLES, Param, Tool

MOST: Final = 2**63 - 1  # what SQLite takes
_SHOWN = 80
_LONGEST_NAME: Final = 1000  # of a session, a speaker, an archive: hosts take at most 256
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ADDRESS = re.compile(r"(?:(msg|message|store|sum|summary|node)[_ #:]?)?#?(\d+)", re.IGNORECASE)
_FILE = re.compile(r"(file_[0-9A-Za-z._-]{1,200})")
_BARE_FILE = re.compile(r"([\w.:-]{1,200})")
_RANGE = re.compile(r"(\d+)\s*(?:-|\.\.|:|,)\s*(\d+)|(\d+)")
_SPAN = re.compile(r"\s*(.+?)\s*(?:\.\.+|…|–|-|\bto\b)\s*(.+?)\s*")
_MILLISECONDS = 10**11
_ROLES = (*ROLES, "developer", "function", "unknown")


@dataclass(frozen=True, slots=True)
class Address:
    """``kind`` "msg", "sum" or "file"; of a range of messages ``last`` is the end, included."""

    kind: str
    number: int = 0
    last: int | None = None
    name: str = ""
    sure: bool = True  # the kind was written out, not assumed from the argument's name

    def __str__(self) -> str:
        if self.kind == "file":
            return self.name
        end = f"..{self.kind}_{self.last}" if self.last is not None else ""
        return f"{self.kind}_{self.number}{end}"


def parsed(tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a tool by their own names, defaults filled in; ``typed``: the names as given. Raises BadRequest."""
    known = {name: param for param in tool.params for name in (param.name, *param.aliases)}
    values: dict[str, Any] = {param.name: param.default for param in tool.params}
    seen: dict[str, str] = {}
    for typed, raw in given.items():
        param = known.get(_snake(str(typed)))
        if param is None:
            raise BadRequest(_unknown(tool, str(typed), known))
        if raw is None or (isinstance(raw, str) and not raw.strip() and param.name not in tool.required):
            continue
        value = _READERS[param.kind](param, str(typed), raw)
        if param.name in seen and values[param.name] != value:
            raise BadRequest(f"{typed} and {seen[param.name]} are the same argument; give one of them")
        values[param.name], seen[param.name] = value, str(typed)
    for name in tool.required:
        if values[name] is None or (isinstance(values[name], str) and not values[name].strip()):
            param = known[name]
            what = param.meaning.rstrip(".") or f"one of {', '.join(param.choices)}"
            raise BadRequest(f"{tool.name} needs {name}: {what}")
    values["typed"] = frozenset(map(_snake, seen.values()))
    return values


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like ``name``, or ""."""
    found = difflib.get_close_matches(_snake(name)[:_SHOWN], list(known), n=1, cutoff=0.5)
    return found[0] if found else ""


def value_text(raw: Any) -> str:
    """A refused value as an error message repeats it."""
    try:
        text = repr(raw)
    except (ValueError, RecursionError):
        text = f"({type(raw).__name__})"
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return text.encode("utf-8", "backslashreplace").decode()


def address(raw: Any, kind: str = "msg") -> Address | None:
    """Address as it was typed: msg_12, sum_3, file_<hash>, 12 (then of ``kind``), msg_10..msg_20; None when it is none."""
    if isinstance(raw, bool):
        return None
    if isinstance(raw, float):
        raw = int(raw) if math.isfinite(raw) and raw.is_integer() else None
    if isinstance(raw, int):
        return Address(kind, raw, sure=False) if raw >= 0 else None
    if not isinstance(raw, str):
        return None
    text = raw.strip().strip("[]()<>\"'`")
    single = _single(text, kind)
    if single is not None:
        return single
    span = _SPAN.fullmatch(text[:100])
    if span is None:
        return None
    first, last = _single(span[1], kind), _single(span[2], kind)
    if first is None or last is None or first.kind == "file" or (last.sure and last.kind != first.kind):
        return None
    return Address(first.kind, first.number, last.number, sure=first.sure)


def _single(text: str, kind: str) -> Address | None:
    file = _FILE.fullmatch(text)
    if file:
        return Address("file", name=file[1])
    found = _ADDRESS.fullmatch(text[:40]) if len(text) <= 40 else None
    if found is None:
        return None
    word = (found[1] or "").lower()
    named = "sum" if word in ("sum", "summary", "node") else "msg" if word else kind
    return Address(named, min(int(found[2]), MOST), sure=bool(word))


# -------------------------------------------------------------------------------------------------------------- readers
def _refuse(typed: str, raw: Any, accepted: str) -> BadRequest:
    return BadRequest(f"{typed}={value_text(raw)} is not accepted; give {accepted}")


def _int(param: Param, typed: str, raw: Any) -> int:
    most = f"from {param.low} to {param.high}" if param.high < 2**62 else f"of {param.low} or more"
    accepted = f"a whole number {most}"
    value = raw
    if isinstance(raw, str):
        text = raw.strip().replace("_", "").removeprefix("msg")
        value = int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else _float(text)
    if isinstance(value, float):
        value = int(value) if math.isfinite(value) and value.is_integer() else None
    if isinstance(value, bool) or not isinstance(value, int) or not param.low <= value <= param.high:
        raise _refuse(typed, raw, accepted)
    return value


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _bool(_: Param, typed: str, raw: Any) -> bool:
    word = str(raw).strip().lower() if isinstance(raw, (bool, int, str)) else ""
    if word in ("true", "1", "yes", "on"):
        return True
    if word in ("false", "0", "no", "off"):
        return False
    raise _refuse(typed, raw, "true or false")


def _text(_: Param, typed: str, raw: Any) -> str:
    if isinstance(raw, (bool, int, float)):
        return str(raw)
    if not isinstance(raw, str):
        raise _refuse(typed, raw, "text")
    return raw


def _name(param: Param, typed: str, raw: Any) -> str:
    # SQLite takes no lone surrogates, and no name that we stored holds one.
    name = _text(param, typed, raw).strip().encode("utf-8", "replace").decode("utf-8")
    if len(name) > _LONGEST_NAME:  # answers and errors repeat it
        raise _refuse(typed, raw, f"at most {_LONGEST_NAME} characters")
    return name


def _choice(param: Param, typed: str, raw: Any) -> str:
    word = _snake(raw.strip()) if isinstance(raw, str) else ""
    word = word if word in param.choices else _SYNONYMS.get(word, "")
    if word not in param.choices:
        raise _refuse(typed, raw, f"one of {', '.join(param.choices)}")
    return word


_SYNONYMS: Final = {
    "fulltext": "full_text", "fts": "full_text", "text": "full_text", "regexp": "regex", "re": "regex",
    "message": "messages", "raw": "messages", "summary": "summaries", "nodes": "summaries", "all_conversations": "all",
    "newest": "recency", "recent": "recency", "newest_first": "recency", "timeline": "time", "rank": "relevance",
    "best": "relevance", "envelope": "message",
    "list_history": "history", "show": "load", "archive": "store", "unarchive": "restore",
    "current_session": "current", "conversation": "current",
}  # fmt: skip


def _list(raw: Any) -> list[Any] | None:
    """A list, a JSON list as text, or a comma-separated text; a single value counts as a list of one."""
    if isinstance(raw, (list, tuple)):
        return list(raw)
    if isinstance(raw, str):
        text = raw.strip()
        if text.startswith("["):
            try:
                parsed = json.loads(text)
            except (ValueError, RecursionError):
                return None
            return parsed if isinstance(parsed, list) else None
        return [part for part in (piece.strip() for piece in text.split(",")) if part]
    return [raw] if isinstance(raw, (int, float)) else None


def _roles(_: Param, typed: str, raw: Any) -> tuple[str, ...]:
    items = _list(raw)
    words = tuple(dict.fromkeys(str(item).strip().lower() for item in items or ()))
    if not words or not set(words) <= set(_ROLES):
        raise _refuse(typed, raw, f"{', '.join(ROLES)} or a list of these")
    return words


def _names(_: Param, typed: str, raw: Any) -> tuple[str, ...]:
    items = _list(raw)
    if not items or not all(isinstance(item, str) for item in items):
        raise _refuse(typed, raw, "a name or a list of names")
    return tuple(dict.fromkeys(item.strip().encode("utf-8", "replace").decode() for item in items))


def _time(_: Param, typed: str, raw: Any) -> float:
    accepted = "Unix seconds or ISO 8601 with a zone, such as 2026-02-19T00:00:00Z"
    value = raw if isinstance(raw, (int, float)) and not isinstance(raw, bool) else None
    if isinstance(raw, str):
        number = _float(raw.strip())
        value = number if math.isfinite(number) else _moment(typed, raw, accepted)
    if value is None or (isinstance(value, float) and not math.isfinite(value)) or value < 0:
        raise _refuse(typed, raw, accepted)
    if value > _MILLISECONDS:
        raise _refuse(typed, raw, "seconds (this looks like milliseconds)")
    return float(value)


def _moment(typed: str, raw: str, accepted: str) -> float:
    try:
        moment = datetime.fromisoformat(raw.strip())
        if moment.tzinfo is not None:
            return moment.timestamp()
    except (ValueError, OverflowError):
        raise _refuse(typed, raw, accepted) from None
    raise _refuse(typed, raw, f"{accepted}: without a zone it means another moment on another machine")


def _address(param: Param, typed: str, raw: Any) -> Address:
    kind = "sum" if "node" in param.name or "summary" in _snake(typed) else "msg"
    found = address(raw, kind)
    if (
        _snake(typed) in ("externalized_ref", "file_id", "ref")
        and isinstance(raw, str)
        and (found is None or not found.sure)
    ):
        bare = _BARE_FILE.fullmatch(raw.strip())
        found = Address("file", name=f"file_{bare[1]}") if bare else found
    if found is None:
        raise _refuse(typed, raw, "an address: msg_12, sum_3, file_<hash> or a plain number")
    return found


def _addresses(_: Param, typed: str, raw: Any) -> tuple[Address, ...]:
    kind = "msg" if "store" in _snake(typed) else "sum"
    found = [address(item, kind) for item in _list(raw) or ()]
    if not found or None in found:
        raise _refuse(typed, raw, "a list of addresses: sum_3, msg_12 or plain numbers")
    return tuple(dict.fromkeys(item for item in found if item is not None))


def _range(_: Param, typed: str, raw: Any) -> tuple[int, int]:
    items = raw if isinstance(raw, (list, tuple)) and len(raw) == 2 else None
    text = f"{items[0]}-{items[1]}" if items else str(raw).strip() if isinstance(raw, (str, int)) else ""
    found = _RANGE.fullmatch(text) if len(text) <= 40 and not isinstance(raw, bool) else None
    if found is None:
        raise _refuse(typed, raw, 'a range such as "40-80"')
    first, last = (int(found[1]), int(found[2])) if found[3] is None else (int(found[3]), int(found[3]))
    if last < first:
        raise _refuse(typed, raw, "a range whose end is not before its beginning")
    return first, last


_READERS: Final[dict[str, Callable[[Param, str, Any], Any]]] = {
    "text": _text, "name": _name, "choice": _choice, "roles": _roles, "names": _names, "int": _int, "bool": _bool,
    "time": _time, "address": _address, "addresses": _addresses, "range": _range,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------- names
def _snake(name: str) -> str:
    return _HUMP.sub("_", name).lower().replace("-", "_")


def _unknown(tool: Tool, typed: str, known: Iterable[str]) -> str:
    guess = nearest(typed, known)
    hint = f"; did you mean {guess}?" if guess else "."
    names = ", ".join(param.name for param in tool.params) or "none"
    return f"{tool.name} has no argument {value_text(typed)}{hint} Its arguments: {names}"
