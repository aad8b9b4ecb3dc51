"""
The host's own program in a terminal: keys go in, what is on the screen comes out.

A pseudo-terminal and nothing else; the program cannot tell it from a person's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from host.drive import Home, HostError

_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_=>]|[()][A-Z0-9])|[\x00-\x08\x0b-\x1f]"
)
_CURSOR_WANTED = b"\x1b[6n"
_PROMPT, _SHOWN_S = "❯", 10.0
_PATIENCE_S = 120.0


class Terminal:
    """``hermes chat`` in a terminal of 45 lines and 160 columns."""

    def __init__(self, home: Home, *arguments: str, cwd: Path | None = None) -> None:
        self._home = home
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 160, 0, 0))
        environment = home.environment() | {"TERM": "xterm-256color", "COLUMNS": "160", "LINES": "45"}
        self._child = subprocess.Popen(
            [str(Path(sys.executable).with_name("hermes")), "chat", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            cwd=cwd or home.path,
            start_new_session=True,
        )
        os.close(slave)
        self._seen = ""
        self._last = time.monotonic()
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def seen(self) -> str:
        """Everything that was ever on the screen, without its colours and moves."""
        with self._lock:
            return _CONTROL.sub("", self._seen)

    def type(self, text: str) -> int:
        """Type a line and press Enter; where the screen's text ended before.

        Enter that comes with the text in one piece is part of a paste: it is pressed when the program shows the text behind its
        prompt. What the terminal itself echoes, before the program reads, is no sign.
        """
        mark = len(self.seen)
        os.write(self._master, text.encode())
        shown, end = re.compile(f"{_PROMPT} *{re.escape(text[:40])}"), time.monotonic() + _SHOWN_S
        time.sleep(0.2)
        while _PROMPT in self.seen and not shown.search(self.seen, mark) and time.monotonic() < end:
            time.sleep(0.05)
        os.write(self._master, b"\r")
        return mark

    def wait_for(self, pattern: str, *, since: int = 0, patience_s: float = _PATIENCE_S) -> re.Match[str]:
        """Wait until the pattern is on the screen behind ``since`` and the program has come to rest."""
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            found = re.compile(pattern).search(self.seen, since)
            if found and self._rests():
                return found
            if self._child.poll() is not None and not found:
                break
            time.sleep(0.05)
        raise HostError(f"no {pattern!r} in the terminal; the end of what was there:\n{self.seen[-3000:]}")

    def say(self, text: str, pattern: str) -> re.Match[str]:
        """Type a line and wait for an answer."""
        return self.wait_for(pattern, since=self.type(text))

    def leave(self) -> None:
        """``/quit``, and wait for the end of the program."""
        self.type("/quit")
        self._child.wait(60)

    def close(self) -> None:
        if self._child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait(30)
        self._reader.join(5)
        with contextlib.suppress(OSError):
            os.close(self._master)

    def _rests(self) -> bool:
        return time.monotonic() - self._last > 0.6

    def _read(self) -> None:
        while True:
            try:
                ready, _, _ = select.select([self._master], [], [], 0.2)
                data = os.read(self._master, 65536) if ready else None
            except OSError:
                return
            if data == b"":
                return
            if data is None:
                if self._child.poll() is not None:
                    return
                continue
            if _CURSOR_WANTED in data:
                with contextlib.suppress(OSError):
                    os.write(self._master, b"\x1b[1;1R")
            with self._lock:
                self._seen += data.decode(errors="replace")
                self._last = time.monotonic()


@contextlib.contextmanager
def terminal(home: Home, *arguments: str, cwd: Path | None = None) -> Iterator[Terminal]:
    """A terminal, closed at the end."""
    opened = Terminal(home, *arguments, cwd=cwd)
    try:
        yield opened
    finally:
        opened.close()
