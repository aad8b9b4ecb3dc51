"""
The host boundary: what goes wrong inside of an engine call is remembered and goes no further.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import TYPE_CHECKING

from .errors import LcmError

if TYPE_CHECKING:
    from .engine import LCMEngine

logger = logging.getLogger("hermes_lcm")


class Guard:
    """The host boundary: an exception inside is remembered and goes no further."""

    def __init__(self, engine: LCMEngine, topic: str, aborts: bool) -> None:
        self._engine = engine
        self._topic = topic
        self._aborts = aborts

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            self._engine.succeeded(self._topic)
            return False
        if not isinstance(error, Exception):
            return False
        if not isinstance(error, LcmError):
            logger.error("%s failed", self._topic, exc_info=error)
        try:
            self._engine.failed(self._topic, error, self._aborts)
        except Exception:
            logger.exception("the failure of %s could not be noted", self._topic)
        return True
