"""
Messages that an operator does not want to be stored, by regular expressions.

Only with the ``regex`` package, whose searches can be stopped: a pattern of the standard library could hold the turn for ever.
One message has one limit for all patterns together. Each has a share that no other can take; what a pattern leaves of the rest,
the next may use. One that was stopped is tried after the others, so that it takes time from none of them, until it ends in time.
"""

from __future__ import annotations

import importlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

TIMEOUT_S: Final = 0.05  # for one message and the only pattern
SEVERAL_TIMEOUT_S: Final = 0.04  # for all of several: each may be stopped a little late
_SHARED: Final = 0.5  # of that is divided among the patterns; the rest goes to whoever comes first
NO_REGEX: Final = (
    "LCM_IGNORE_MESSAGE_PATTERNS is not applied: install the package `regex`, whose searches can be stopped"
)


def _installed() -> ModuleType | None:
    try:
        return importlib.import_module("regex")
    except ImportError:
        return None


_regex = _installed()


class Noise:
    """Compiled patterns. ``problems``: what is wrong with them, for health; the others work.

    ``engine`` None: the package is missing, so nothing is filtered.
    """

    def __init__(
        self, patterns: Sequence[str], *, engine: ModuleType | None = _regex, timeout_s: float | None = None
    ) -> None:
        self.problems: list[str] = []
        several = SEVERAL_TIMEOUT_S if len(patterns) > 1 else TIMEOUT_S
        self._timeout_s = several if timeout_s is None else timeout_s
        self._searches: list[tuple[str, Callable[..., Any]]] = []
        self._stopped: set[str] = set()  # patterns that were too slow when they were last tried
        if patterns and engine is None:
            self.problems.append(NO_REGEX)
            return
        for pattern in patterns:
            assert engine is not None
            try:
                self._searches.append((pattern, engine.compile(pattern).search))
            except (engine.error, RecursionError, OverflowError, re.error) as exc:
                self.problems.append(f"pattern {pattern!r} is not a regular expression: {exc}")

    def __bool__(self) -> bool:
        return bool(self._searches)

    def match(self, content: Any, *, timed_out: Callable[[str], None] = lambda _: None) -> str | None:
        """The first pattern that matches what a message says, or None. What was not decided in time matches nothing."""
        if not self._searches:
            return None
        text = spoken(content)
        least = self._timeout_s * _SHARED / len(self._searches)
        left = self._timeout_s
        waiting = len(self._searches)
        for pattern, search in sorted(self._searches, key=lambda each: each[0] in self._stopped):
            waiting -= 1
            began = time.perf_counter()
            try:
                found = search(text, timeout=max(least, left - waiting * least), concurrent=True)
            except TimeoutError:
                self._stopped.add(pattern)
                timed_out(pattern)
            else:
                self._stopped.discard(pattern)
                if found:
                    return pattern
            left -= time.perf_counter() - began
        return None


def spoken(content: Any) -> str:
    """What patterns are matched against: the text, the text parts, or the JSON of what has neither."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, Sequence):
        parts = [_text(part) for part in content]
        if any(part is not None for part in parts):
            return "\n".join(part for part in parts if part is not None)
    try:
        return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=repr)
    except (TypeError, ValueError, RecursionError):
        return ""


def _text(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and isinstance(part.get("text"), str):
        return str(part["text"])
    return None
