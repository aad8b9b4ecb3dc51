"""
A line to the server that a test holds in its hand: it passes bytes on, holds them back, breaks, and leads elsewhere.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Line:
    """A port of this machine that leads to another one. While ``held``, it accepts, and nothing goes through."""

    def __init__(self, port: int) -> None:
        self.target = port
        self._through = threading.Event()
        self._through.set()
        self._ends: list[socket.socket] = []
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._door.getsockname()[1])
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def hold(self) -> None:
        """Bytes wait here, in both directions."""
        self._through.clear()

    def go(self) -> None:
        """What waits goes on."""
        self._through.set()

    def cut(self) -> None:
        """Every connection breaks; new ones are taken."""
        ends, self._ends = self._ends, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        """Nothing of it is left."""
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        self.cut()
        self.go()
        for thread in self._threads:
            thread.join()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._door.accept()
                self._ends.append(near)
                thread = threading.Thread(target=self._lead, args=(near,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _lead(self, near: socket.socket) -> None:
        with suppress(OSError):
            self._through.wait()
            far = socket.create_connection(("127.0.0.1", self.target))
            self._ends.append(far)
            back = threading.Thread(target=self._pass, args=(far, near), daemon=True)
            self._threads.append(back)
            back.start()
            self._pass(near, far)

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                self._through.wait()
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
