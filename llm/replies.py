"""
Replies of a model to a question → an answer with citations, or the reason why it is none.

Pure. Accepts the JSON that was asked for, JSON in a fence or cut in the middle, and plain text.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import Any, Final, NamedTuple

from ..text.salience import lazy

_FENCE = lazy(r"```(?:json)?\s*(.*?)\s*(?:```|\Z)", re.DOTALL)
_OPEN_ANSWER = lazy(r'"answer"\s*:\s*"((?:[^"\\]|\\.)*)', re.DOTALL)
_ADDRESS = lazy(r"\b(?:msg|sum)_\d+\b")
_REFUSAL = lazy(
    r"\s*(?:I['’]?m sorry|I am sorry|Sorry|Unfortunately)[^.\n]{0,80}\b(?:can(?:['’]?t|not)|unable|won['’]t)\b[^.\n]{0,60}"
    r"\b(?:help|assist|comply|request|do that)\b",
    re.IGNORECASE,
)
_ERROR_PAGE = lazy(
    r"\s*(?:error code:? ?[45]\d\d|http(?: error)? ?[45]\d\d|\{['\"]error['\"]:|<!doctype html|<html|incorrect api key)",
    re.IGNORECASE,
)
_ECHO_CHARS: Final = 200
_SHORT_CHARS: Final = 600
_LOOP_CHARS: Final = 2000
_LOOP_RATIO: Final = 20


class Parsed(NamedTuple):
    """An answer and the addresses it cites. ``partial``: the JSON broke off."""

    answer: str
    cited: tuple[str, ...]
    partial: bool = False


def why_unusable(text: str, finish_reason: str, prompt: str) -> str:
    """Reason why a reply is no answer; "" when it is one."""
    if not text.strip():
        return "the model sent no text"
    if finish_reason in ("refusal", "content_filter"):
        return "the model refused"
    if len(text) < _SHORT_CHARS and _REFUSAL.match(text):
        return "the model refused"
    if _ERROR_PAGE.match(text):
        return "the model's answer is an error page"
    if len(text) > _LOOP_CHARS and len(text) > _LOOP_RATIO * len(zlib.compress(text.encode("utf-8", "replace"))):
        return "the model repeated itself"
    if len(prompt) > _ECHO_CHARS and prompt[:_ECHO_CHARS] in text:
        return "the model repeated the question"
    return ""


def parse(text: str) -> Parsed:
    """The answer in a reply. Never raises."""
    whole = text.strip()
    fenced = _FENCE.search(whole)
    # An object in the middle of a text may be quoted from the record; one that ends the reply is the reply.
    inner = whole[whole.find("{") :] if whole.endswith("}") and "{" in whole else ""
    for candidate in (whole, fenced[1] if fenced else "", inner):
        found = _object(candidate)
        if found is not None:
            return found
    opened = _OPEN_ANSWER.search(whole)
    if opened is not None and whole.lstrip("`json \n").startswith("{"):
        answer = _unescaped(opened[1])
        return Parsed(answer, _addresses(whole), partial=True)
    return Parsed(whole, _addresses(whole))


def _object(text: str) -> Parsed | None:
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    answer = value.get("answer") if isinstance(value, dict) else None
    if answer is None:
        return None
    said = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    listed = [value.get(name) for name in ("citedIds", "cited_ids", "citations", "sources")]
    return Parsed(said, _addresses(json.dumps([*listed, said], ensure_ascii=False)), bool(value.get("truncated")))


def _unescaped(text: str) -> str:
    while text:
        try:
            found: Any = json.loads(f'"{text}"', strict=False)
        except ValueError:
            text = text[:-1]
        else:
            return str(found)
    return ""


def _addresses(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_ADDRESS.findall(text)))
