"""
Tool results that a later one made superfluous: the same file read again, the same listing made again.

Pure. Same tool, same arguments, and an answer that is not much shorter: a tool that merely says "unchanged since last time"
leaves the earlier result in force.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from . import content
from .own import read_stub

_SHARE: Final = 0.5  # of the earlier answer's length


def superseded(messages: Sequence[Mapping[str, Any]], least_chars: int) -> list[int]:
    """Places of results of at least so many characters that a later result stands for, in order."""
    calls: dict[str, tuple[str, str]] = {}
    size: dict[tuple[str, str], int] = {}
    found: list[int] = []
    results: list[tuple[int, tuple[str, str], int]] = []
    for place, message in enumerate(messages):
        for call in content.calls_of(message):
            calls[call.id] = (call.name, _canonical(call.arguments))
        key = calls.get(str(message.get("tool_call_id"))) if message.get("role") == "tool" else None
        body = message.get("content")
        if key is not None and isinstance(body, str) and read_stub(body) is None:
            results.append((place, key, len(body)))
    for place, key, chars in reversed(results):
        if chars >= least_chars and size.get(key, 0) >= chars * _SHARE:
            found.append(place)
        size[key] = max(size.get(key, 0), chars)
    return found[::-1]


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments.strip()
