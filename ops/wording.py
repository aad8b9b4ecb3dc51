"""
Answers as they are worded at a terminal: commands as they are typed there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .answers import Answer

_SLASH = re.compile(r"(?<![\w/.])/lcm(?=[ `)]|$)( rotate(?: apply)?(?=`|$))?")
#: Fields of an answer's data in which we speak to the operator.
_OURS = frozenset(("command", "remedy", "detail", "meaning", "note", "reason", "error", "said", "message"))


def at_terminal(answer: Answer, session_id: str | None) -> Answer:
    """The same answer with the commands as they are typed here: ``hermes lcm ...`` instead of ``/lcm ...``."""

    def typed(found: re.Match[str]) -> str:
        which = f" --session {shlex.quote(session_id)}" if found[1] and session_id else ""
        return f"hermes lcm{found[1] or ''}{which}"

    def spoken(value: Any, ours: bool) -> Any:
        if isinstance(value, str):
            return _SLASH.sub(typed, value) if ours else value
        if isinstance(value, Mapping):
            return {key: spoken(each, key in _OURS) for key, each in value.items()}
        if isinstance(value, list):
            return [spoken(each, ours) for each in value]
        return value

    text, foot = (_SLASH.sub(typed, each) for each in (answer.text, answer.foot))
    return replace(answer, text=text, foot=foot, data=spoken(answer.data, False))
