"""
``/lcm``: words in, text out. The verbs are in ``ops/verbs.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import BadRequest, LcmError, StoreError
from .ops.verbs import FAILED, REFUSED, Answer, parsed

if TYPE_CHECKING:
    from .ops.status import OpsDeps

_REMEDY = "see that the account that Hermes runs as may write this file and its folder, and that the disk has room"


def run(words: str, deps: OpsDeps) -> str:
    """The answer to what was typed behind ``/lcm``; never an exception for a reason of the archive."""
    return answer(words, deps).text


def answer(words: str, deps: OpsDeps) -> Answer:
    """The same with its data and an exit code."""
    try:
        verb, rest = parsed(words)
        return verb.run(deps, rest)
    except (LcmError, OSError) as exc:
        return refused(exc)


def refused(exc: LcmError | OSError) -> Answer:
    """An error as an answer: what is wrong, and what to do about it."""
    said = str(exc)
    if isinstance(exc, OSError) and exc.filename is not None:  # a file or folder beside the database
        said = f"{exc.filename}: {exc.strerror or exc}"
    if isinstance(exc, BadRequest):
        return Answer(f"Not done: {said}", {"error": said, "kind": type(exc).__name__}, REFUSED)
    of_the_system = isinstance(exc, OSError) or (type(exc) is StoreError and isinstance(exc.__cause__, OSError))
    remedy = _REMEDY if of_the_system else str(getattr(exc, "remedy", StoreError.remedy))
    text = f"Not done: {said}\nWhat to do: {remedy}"
    return Answer(text, {"error": said, "kind": type(exc).__name__, "remedy": remedy}, FAILED)
