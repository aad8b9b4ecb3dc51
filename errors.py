"""
The error tree.

* LcmError                  caught at the host, tool and command boundaries, nothing else
  - BadRequest              a caller's argument is wrong; says which, its value, and what is accepted
    - NotFound              nothing readable by this caller has that address
  - StoreError              the database cannot keep a promise
    - StoreBusy             somebody else holds the lock; the same call works later
    - StoreReadOnly         the file or its folder cannot be written
    - StoreFull             the disk is full
    - StoreCorrupt          SQLite refuses the file's content
    - StoreTooNew           the file was written by a newer release
    - StoreTooOld           the file was written by a development version that no release reads
    - StoreForeign          another program wrote the file
      - StoreEarlier        the plugin before this one wrote it, and an agent takes it over
    - Overtaken             another writer appended first; align again
      - Exchanged           another file is in use now; the same call works
  - FleetError              the shared server cannot be used as it is; says what to do about it
    - FleetUnavailable      it does not work now: the same call works later
      - FleetUnreachable    no connection, or it broke: any other call fails as well
  - SummaryError            no usable summary
    - SummaryTooLong        retry with less input
    - SummaryRejected       a model answered, verification refused; says why
    - SummaryUnavailable    no provider, an error or a timeout; the breaker counts these
    - SourcesChanged        what was summarised is not what is stored there (any more): a restore, a repair, a removal
"""

import errno


class LcmError(Exception):
    """Base of all errors this plugin raises on purpose."""


class BadRequest(LcmError):
    """A caller's argument is wrong."""


class NotFound(BadRequest):
    """An address at which this caller may read nothing."""


class StoreError(LcmError):
    """The database cannot keep a promise. ``remedy`` tells the operator what to do."""

    remedy = "run `/lcm doctor`"

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        if remedy:  # else ``way_out`` looks for that of the system's error behind it
            self.remedy = remedy


class StoreBusy(StoreError):
    """Another process holds the write lock for longer than we wait."""

    remedy = "close the other program that holds the database; messages are stored again as soon as the lock is free"


class StoreReadOnly(StoreError):
    """The database file or its folder cannot be written."""

    remedy = "make the file and its folder writable for this user; if the file system is mounted read-only, mount it for writing"


class StoreFull(StoreError):
    """The disk has no room."""

    remedy = (
        "free disk space; what is still in a conversation is stored then by itself, a command has to be given again"
    )


class StoreCorrupt(StoreError):
    """SQLite refuses the content of the file."""

    remedy = "run `/lcm doctor repair`, or restore a backup; the file is never deleted by the plugin"


class StoreTooNew(StoreError):
    """A newer release of the plugin wrote this file."""

    remedy = "update the plugin, or point LCM_DATABASE_PATH at another file"


class StoreTooOld(StoreError):
    """A development version whose schema was never released wrote this file."""

    remedy = (
        "open it once with the plugin's commit 919cad3, which brings it to schema 7, and then with this release; "
        "or move it away, or point LCM_DATABASE_PATH at another file"
    )


class StoreForeign(StoreError):
    """The file belongs to another program or to the plugin that was here before; it is never written to."""


class StoreEarlier(StoreForeign):
    """The plugin before this one wrote the file. What it holds is taken over, so that nothing is wrong with it."""

    TAKES_OVER = "its messages are taken over when an agent starts"
    BY_HAND = "`hermes lcm adopt --apply` does it now"

    def __init__(self, message: str) -> None:
        super().__init__(message, f"{self.TAKES_OVER}; {self.BY_HAND}")


class Overtaken(StoreError):
    """Another writer appended to the same conversation first."""

    remedy = "nothing: the plugin aligns again by itself"


class Exchanged(Overtaken, StoreBusy):
    """Another file is in use now, or the same one opened anew; it works."""


class FleetError(LcmError):
    """The shared server cannot be used as it is. ``remedy`` tells the operator what to do."""

    def __init__(self, message: str, remedy: str = "run `/lcm fleet status`") -> None:
        super().__init__(message)
        self.remedy = remedy


class FleetUnavailable(FleetError):
    """No connection, or it broke, or it takes too long."""


class FleetUnreachable(FleetUnavailable):
    """No connection to the server, or it broke: nothing else that asks the server works now."""


def worded(exc: BaseException) -> str:
    """Text of an error for an operator: ours and the system's in their own words, a defect as what it is."""
    if isinstance(exc, OSError) and exc.strerror:
        return f"{exc.filename}: {exc.strerror}" if exc.filename is not None else exc.strerror
    if isinstance(exc, LcmError | OSError) and str(exc):
        return str(exc)
    name = type(exc).__name__
    return f"an unexpected error: {exc} ({name})" if str(exc) else f"an unexpected error ({name})"


#: The way out where a disk does not do what it is told.
FAULTS_OF_A_DISK = "look for faults of the disk in the system's log; the same command works once they are over"
#: The way out of an error of the system that concerns a file.
_WAYS_OUT = {
    errno.ENOSPC: "free disk space",
    errno.EDQUOT: "free disk space, or have the quota raised",
    errno.EFBIG: "raise the limit for the size of a file (`ulimit -f`)",
    errno.EROFS: "mount the file system for writing",
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM), "make the file and its folder writable for the account that Hermes runs as"
    ),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "let more files be open (`ulimit -n`), or restart Hermes"),
    errno.EIO: FAULTS_OF_A_DISK,
}
_ANY_WAY_OUT = "see that the account that Hermes runs as may write this file and its folder, and that the disk has room"


def is_of_a_disk(exc: OSError) -> bool:
    """Did the system refuse a file, and not a connection?"""
    return exc.errno in _WAYS_OUT


def way_out(exc: BaseException) -> str:
    """The way out of an error: its own, that of the system's error behind it, or the doctor."""
    cause = exc.__cause__ if type(exc) is StoreError and "remedy" not in vars(exc) else exc
    if isinstance(cause, OSError):
        return _WAYS_OUT.get(cause.errno or 0, _ANY_WAY_OUT)
    return str(getattr(exc, "remedy", StoreError.remedy))


class SummaryError(LcmError):
    """No usable summary was obtained."""


class SummaryTooLong(SummaryError):
    """The source does not fit into the summariser's window."""


class SummaryRejected(SummaryError):
    """A model answered, and verification refused the text."""


class SummaryUnavailable(SummaryError):
    """No provider, an error, or a timeout."""


class SourcesChanged(SummaryError):
    """Sources of a summary are not what is stored at these addresses (any more)."""
