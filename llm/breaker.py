"""
Limits on calls of summary models: a circuit breaker of each route, and a budget of calls and tokens.

Owns the counting. The state goes in and out as a JSON-able dict, so that a restart does not forget an outage or a
budget; who keeps it is the caller's business. The clock is wall time for the same reason. Safe to use from several
threads.

A model that answered is a model that works, but not one that can summarise: refused chunks are counted by themselves, and only a
summary that passed ends the pause after them. Until then none of them is asked for again, and one that is refused a second time
is no more.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_MOST_DOUBLINGS: Final = 1  # of the pause, each time that a model is refused again
_MOST_CHUNKS: Final = 1000  # that are remembered as refused
#: A refused chunk: it waits for a summary of another one, may be asked for again since there is one, or was refused again.
_WAITS, _AGAIN, _NEVER = "waits", "again", "never"


@dataclass(slots=True)
class _Route:
    """State of a route. ``chunks``: refused ones, oldest first, and what is to be done with each."""

    failures: int = 0
    retry_at: float = 0.0  # 0: closed
    reason: str = ""
    refusals: int = 0  # chunks in a row of which no answer passed
    chunks: dict[str, str] = field(default_factory=dict)
    probing: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {
            "failures": self.failures, "retry_at": self.retry_at, "reason": self.reason, "refusals": self.refusals,
            "chunks": self.chunks,
        }  # fmt: skip


class Breaker:
    """Stops calling a route after ``threshold`` failures in a row, for ``cooldown_s``; then one call may try it.

    ``threshold`` 0: never stops.
    """

    def __init__(self, *, threshold: int, cooldown_s: float, clock: Callable[[], float]) -> None:
        self._threshold = threshold
        self._cooldown_s = cooldown_s
        self._clock = clock
        self._routes: dict[str, _Route] = {}
        self._lock = threading.Lock()

    def has_refused(self, route: str, chunk: str) -> bool:
        """Was this chunk refused, and no summary of the route has passed since, or was it refused twice?"""
        with self._lock:
            state = self._routes.get(route)
            return state is not None and state.chunks.get(chunk, _AGAIN) != _AGAIN

    def allow(self, route: str) -> bool:
        """May this route be called now? A True must be followed by ``success``, ``failure`` or ``release``."""
        with self._lock:
            state = self._routes.get(route)
            if state is None or not state.retry_at:
                return True
            # A clock that was set back must not prolong the pause.
            state.retry_at = min(state.retry_at, self._clock() + self._pause(state.refusals))
            if state.probing or self._clock() < state.retry_at:
                return False
            state.probing = True
            return True

    def success(self, route: str) -> None:
        """The route answered, well or badly."""
        with self._lock:
            state = self._routes.get(route)
            if state is not None and state.refusals:
                state.failures = 0
            else:
                self._close(route)

    def passed(self, route: str) -> None:
        """An answer of the route was a summary."""
        with self._lock:
            chunks = self._close(route)
            chunks.update({chunk: _AGAIN for chunk, then in chunks.items() if then == _WAITS})

    def _close(self, route: str) -> dict[str, str]:
        """The route works: nothing is remembered but the chunks that it was refused for, which are given."""
        state = self._routes.pop(route, None)
        if state is None or not state.chunks:
            return {}
        self._routes[route] = _Route(chunks=state.chunks)
        return self._routes[route].chunks

    def refused(self, route: str, reason: str, chunk: str = "") -> None:
        """Note that no answer of the route about a chunk was a summary. Its pause is longer the second time."""
        with self._lock:
            state = self._routes.setdefault(route, _Route())
            state.refusals += 1
            if chunk:
                state.chunks[chunk] = _WAITS if state.chunks.get(chunk, _WAITS) == _WAITS else _NEVER
            while len(state.chunks) > _MOST_CHUNKS:
                state.chunks.pop(next(iter(state.chunks)))
            state.reason = reason[:200]
            state.probing = False
            if self._threshold and state.refusals >= self._threshold:
                state.retry_at = self._clock() + self._pause(state.refusals)

    def _pause(self, refusals: int) -> float:
        return self._cooldown_s * float(2 ** min(max(0, refusals - max(1, self._threshold)), _MOST_DOUBLINGS))

    def failure(self, route: str, reason: str) -> None:
        """The route raised or timed out. ``reason`` is shown in the status."""
        with self._lock:
            state = self._routes.setdefault(route, _Route())
            state.failures += 1
            state.reason = reason[:200]
            if self._threshold and (state.probing or state.failures >= self._threshold):
                state.retry_at = self._clock() + self._pause(state.refusals)
            state.probing = False

    def release(self, route: str) -> None:
        """The call was not made after all."""
        with self._lock:
            if state := self._routes.get(route):
                state.probing = False

    def retry_at(self, route: str) -> float | None:
        """Time at which the route is tried again; None while it is in use."""
        with self._lock:
            state = self._routes.get(route)
            return state.retry_at if state and state.retry_at else None

    def dump(self) -> dict[str, Any]:
        """The state as JSON-able values."""
        with self._lock:
            return {route: state.as_dict() for route, state in self._routes.items()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over a dumped state; what cannot be read is left out."""
        routes = {}
        for route, saved in state.items():
            if isinstance(saved, Mapping):
                routes[str(route)] = _Route(
                    int(_number(saved.get("failures"))),
                    _number(saved.get("retry_at")),
                    reason=str(saved.get("reason", "")),
                    refusals=int(_number(saved.get("refusals"))),
                    chunks=_chunks(saved.get("chunks")),
                )
        with self._lock:
            self._routes = routes


def _chunks(saved: object) -> dict[str, str]:
    """Refused chunks as they were dumped; in a list, by earlier versions: all of them wait."""
    if isinstance(saved, Mapping):
        return {str(chunk): str(then) for chunk, then in saved.items()}
    return dict.fromkeys(map(str, saved), _WAITS) if isinstance(saved, list) else {}


_BUCKETS: Final = 60
#: Writes the state that processes share, made from the one there is; False when that was not possible.
Shared = Callable[[Callable[[Mapping[str, Any]], dict[str, Any]]], bool]


class SpendGuard:
    """At most ``max_calls`` model calls for one chat within ``window_s``, ``in_all`` for all of them, ``max_tokens`` tokens.

    0 means no limit.

    Counts in sixtieths of the window, so the state stays small whatever the limit is. ``shared``: what several processes spend
    together is limited, and known after a kill.
    """

    def __init__(
        self, *, max_calls: int, window_s: float, clock: Callable[[], float], in_all: int = 0, max_tokens: int = 0,
        shared: Shared | None = None,
    ) -> None:  # fmt: skip
        self._max_calls = max_calls
        self._in_all = in_all
        self._max_tokens = max_tokens
        self._width = max(window_s, 0.001) / _BUCKETS
        self._clock = clock
        self._buckets: dict[int, list[int]] = {}  # number of the bucket: calls, tokens
        self._chats: dict[int, Counter[str]] = {}  # number of the bucket: calls by chat
        self._lock = threading.Lock()
        self._shared = shared
        self._sharing = threading.Lock()
        self._untold: dict[int, list[int]] = {}  # of the buckets, what the shared state lacks

    def reserve(self, tokens: int, chat: str = "") -> bool:
        """Book one call of about ``tokens`` for a chat; False, and nothing booked, when that would exceed a limit."""
        self._share()
        if not self._reserve(tokens, chat):
            return False
        self._share()
        if (
            self._max_tokens and self.used()[1] > self._max_tokens
        ):  # another process booked meanwhile, and was told first
            self.settle(reserved=tokens, spent=0)
            return False
        return True

    def _reserve(self, tokens: int, chat: str) -> bool:
        with self._lock:
            calls, spent = self._sum()
            of_chat = sum(bucket[chat] for bucket in self._chats.values())
            if (self._max_calls and of_chat >= self._max_calls) or (self._in_all and calls >= self._in_all):
                return False
            if self._max_tokens and spent + tokens > self._max_tokens:
                return False
            self._book(1, tokens)
            self._chats.setdefault(self._now(), Counter())[chat] += 1
            return True

    def settle(self, *, reserved: int, spent: int) -> None:
        """Replace the estimate of a reserved call by what it really took."""
        with self._lock:
            self._book(0, spent - reserved)
        self._share()

    def _share(self) -> None:
        """Tell other processes what this one has spent, and take over what they have."""
        if self._shared is None or not self._max_tokens:
            return
        with self._sharing:
            told: dict[int, list[int]] = {}

            def together(state: Mapping[str, Any]) -> dict[str, Any]:
                buckets, _ = self._read(state)
                with self._lock:
                    told.update({n: list(each) for n, each in self._untold.items()})
                    for n, each in told.items():
                        _add(buckets, n, *each)
                    self._buckets = buckets
                    self._sum()
                    return self._as_dict()

            if self._shared(together):
                with self._lock:
                    for n, (calls, tokens) in told.items():
                        _add(self._untold, n, -calls, -tokens)
                    self._untold = {n: each for n, each in self._untold.items() if any(each)}

    def used(self) -> tuple[int, int]:
        """Calls and tokens within the window."""
        with self._lock:
            return self._sum()

    def _now(self) -> int:
        return int(self._clock() / self._width)

    def _book(self, calls: int, tokens: int) -> None:
        _add(self._buckets, self._now(), calls, tokens)
        if self._shared is not None:
            _add(self._untold, self._now(), calls, tokens)

    def _sum(self) -> tuple[int, int]:
        now = self._now()
        # Buckets of the future: the clock was set back; keeping them would block for as long as it was wrong.
        self._buckets = {n: b for n, b in self._buckets.items() if now - _BUCKETS < n <= now}
        self._chats = {n: b for n, b in self._chats.items() if n in self._buckets}
        return sum(b[0] for b in self._buckets.values()), max(0, sum(b[1] for b in self._buckets.values()))

    def dump(self) -> dict[str, Any]:
        """The state as JSON-able values."""
        with self._lock:
            self._sum()
            return self._as_dict()

    def _as_dict(self) -> dict[str, Any]:
        return {
            "width": self._width,
            "buckets": {str(n): list(b) for n, b in self._buckets.items()},
            "chats": {str(n): dict(b) for n, b in self._chats.items()},
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over a dumped state; one with another window, or one that cannot be read, is left out."""
        buckets, chats = self._read(state)
        if buckets:
            with self._lock:
                self._buckets, self._chats = buckets, chats

    def _read(self, state: Mapping[str, Any]) -> tuple[dict[int, list[int]], dict[int, Counter[str]]]:
        saved, chats = state.get("buckets"), state.get("chats")
        buckets: dict[int, list[int]] = {}
        by_chat: dict[int, Counter[str]] = {}
        if not isinstance(saved, Mapping) or _number(state.get("width")) != self._width:
            return buckets, by_chat
        for number, pair in saved.items():
            if str(number).lstrip("-").isdigit() and isinstance(pair, list) and len(pair) == 2:
                buckets[int(number)] = [int(_number(pair[0])), int(_number(pair[1]))]
                each = chats.get(number) if isinstance(chats, Mapping) else None
                each = each if isinstance(each, Mapping) else {}
                by_chat[int(number)] = Counter({str(chat): int(_number(calls)) for chat, calls in each.items()})
        return buckets, by_chat


def _add(buckets: dict[int, list[int]], n: int, calls: int, tokens: int) -> None:
    bucket = buckets.setdefault(n, [0, 0])
    bucket[0] += calls
    bucket[1] += tokens


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0
