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
_UNSAID: Final = "a record of the log could not be made free of secrets and is left out"
#: What a text may raise that is put together of anything: another number of arguments, an odd object, endless nesting.
_UNREADABLE: Final = (TypeError, ValueError, LookupError, AttributeError, RuntimeError)


class Clean(logging.Filter):
    """Takes secrets out of messages and tracebacks."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self.redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Every record passes, reworded where it must be."""
        try:
            said = self.redactor.text(record.getMessage())
            trace = (
                self.redactor.text(logging.Formatter().formatException(record.exc_info)) if record.exc_info else None
            )
        except _UNREADABLE as exc:  # a filter that raises would end the turn that logs; what is not clean is not shown
            said, trace, record.exc_info = f"{_UNSAID} ({type(exc).__name__})", None, None
        record.msg, record.args = said, ()
        record.exc_text = trace or record.exc_text
        return True


def keep_clean(redactor: Redactor) -> None:
    """From now on; a second call replaces what the first asked for."""
    logger = logging.getLogger(LOGGER)
    for each in list(logger.filters):
        if type(each).__name__ == Clean.__name__:  # of this module, or of another copy of the plugin in this process
            logger.removeFilter(each)
    logger.addFilter(Clean(redactor))
