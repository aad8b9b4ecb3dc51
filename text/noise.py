"""
Messages that an operator does not want to be stored, by regular expressions.

Pure. Only with the ``regex`` package, whose searches can be stopped: a pattern of the standard library could hold the turn for
ever.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

TIMEOUT_S: Final = 0.05
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
        self, patterns: Sequence[str], *, engine: ModuleType | None = _regex, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.problems: list[str] = []
        self._timeout_s = timeout_s
        self._searches: list[tuple[str, Callable[..., Any]]] = []
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
        """The first pattern that matches what a message says, or None. A pattern that is too slow matches nothing."""
        if not self._searches:
            return None
        text = spoken(content)
        for pattern, search in self._searches:
            try:
                if search(text, timeout=self._timeout_s, concurrent=True):
                    return pattern
            except TimeoutError:
                timed_out(pattern)
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
