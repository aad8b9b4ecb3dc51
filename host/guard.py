"""
The host boundary: what goes wrong inside of an engine call is remembered and goes no further; numbers are read that may be none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from ..errors import LcmError

logger = logging.getLogger("hermes_lcm")

_MOST_TOKENS: Final = 10**12  # more is no count of anything


def count(value: Any, default: int) -> int:
    """Tokens that a provider reported; what cannot be such a number is ``default``."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and -_MOST_TOKENS < value < _MOST_TOKENS
    return max(0, int(value)) if known else default


class Guard:
    """The host boundary: an exception inside is remembered and goes no further."""

    def __init__(self, topic: str, succeeded: Callable[[str], None], failed: Callable[[str, Exception], None]) -> None:
        self._topic = topic
        self._succeeded = succeeded
        self._failed = failed

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            try:
                self._succeeded(self._topic)
            except Exception:
                logger.exception("the success of %s could not be noted", self._topic)
            return False
        if not isinstance(error, Exception):
            return False
        if not isinstance(error, LcmError):
            logger.error("%s failed", self._topic, exc_info=error)
        try:
            self._failed(self._topic, error)
        except Exception:
            logger.exception("the failure of %s could not be noted", self._topic)
        return True
