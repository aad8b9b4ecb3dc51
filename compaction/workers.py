"""
Jobs on daemon threads until a deadline.

Owns nothing. A job that is late goes on behind the caller's back; what it returns then is not seen by anybody, so it had
better keep its work itself.
"""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any


class Workers:
    """Runs one batch of jobs. ``skip``: asked before each job; ``quiet``: exceptions that only mean "no result"."""

    def __init__(
        self, jobs: Sequence[Callable[[], Any]], *, skip: Callable[[], bool], quiet: tuple[type[Exception], ...]
    ) -> None:
        self._jobs = jobs
        self._skip = skip
        self._quiet = quiet
        self._done = threading.Semaphore(0)
        self._todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._results: list[Any] = [None] * len(jobs)
        self._failures: list[Exception] = []

    def run(self, workers: int, seconds_left: Callable[[], float]) -> list[Any]:
        """Results in the order of the jobs, None for those that did not end in time. Raises what a job raised first.

        ``seconds_left`` tells how many seconds are left. Each thread works in a copy of the caller's context.
        """
        for n in range(len(self._jobs)):
            self._todo.put(n)
        for _ in range(min(len(self._jobs), max(1, workers))):
            context = contextvars.copy_context()
            threading.Thread(target=context.run, args=(self._work,), name="lcm-summary", daemon=True).start()
        for _ in self._jobs:
            if not self._done.acquire(timeout=max(0.0, seconds_left())):
                break
        if self._failures:
            raise self._failures[0]
        return list(self._results)

    def _work(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._one(self._todo.get_nowait())

    def _one(self, n: int) -> None:
        try:
            if not self._skip():
                self._results[n] = self._jobs[n]()
        except self._quiet:
            pass
        except Exception as exc:  # noqa: BLE001 - handed to the caller's thread, which raises it
            self._failures.append(exc)
        finally:
            self._done.release()
