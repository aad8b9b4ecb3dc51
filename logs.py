"""
What the plugin writes to the log, without secrets.

Owns the filter on the plugin's logger. There is one logger for all homes of a process: once redaction is on in one of them, it
is on for the log.
"""

from __future__ import annotations

import logging
from typing import Final

from .text.redact import Redactor

LOGGER: Final = "hermes_lcm"


class Clean(logging.Filter):
    """Takes secrets out of messages and tracebacks."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self.redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Every record passes, reworded where it must be."""
        record.msg, record.args = self.redactor.text(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = self.redactor.text(logging.Formatter().formatException(record.exc_info))
        return True


def keep_clean(redactor: Redactor) -> None:
    """From now on; a second call replaces what the first asked for."""
    logger = logging.getLogger(LOGGER)
    for each in list(logger.filters):
        if type(each).__name__ == Clean.__name__:  # of this module, or of another copy of the plugin in this process
            logger.removeFilter(each)
    logger.addFilter(Clean(redactor))
