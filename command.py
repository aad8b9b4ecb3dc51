"""
``/lcm``: words in, text out. The verbs are in ``ops/verbs.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import BadRequest, LcmError, StoreError
from .ops.verbs import FAILED, REFUSED, Answer, parsed

if TYPE_CHECKING:
    from .ops.status import OpsDeps


def run(words: str, deps: OpsDeps) -> str:
    """The answer to what was typed behind ``/lcm``; never an exception for a reason of the archive."""
    return answer(words, deps).text


def answer(words: str, deps: OpsDeps) -> Answer:
    """The same with its data and an exit code."""
    try:
        verb, rest = parsed(words)
        return verb.run(deps, rest)
    except LcmError as exc:
        return refused(exc)


def refused(exc: LcmError) -> Answer:
    """An error as an answer: what is wrong, and what to do about it."""
    if isinstance(exc, BadRequest):
        return Answer(f"Not done: {exc}", {"error": str(exc), "kind": type(exc).__name__}, REFUSED)
    remedy = str(getattr(exc, "remedy", StoreError.remedy))
    text = f"Not done: {exc}\nWhat to do: {remedy}"
    return Answer(text, {"error": str(exc), "kind": type(exc).__name__, "remedy": remedy}, FAILED)
