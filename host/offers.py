"""
Offers of the host at registration that are taken up later: request middleware, and a section of the system prompt.

A host with any request middleware copies every request several times before it is sent, which a long conversation feels. So the
plugin asks for it only once some session has something to show otherwise. Sections are frozen into a session's prompt when it
begins; what the host shows there the context message need not say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Callback = Callable[..., Any]

#: The shape of requests that the middleware understands; "" is a host that does not tell.
CHAT: Final = ("", "chat_completions")
_MOST_CHARS: Final = 600


class Offers:
    """Offers of one host. ``has_middleware``: for requests; ``section_taken``: it shows our section of the system prompt."""

    def __init__(
        self, register: Callable[[str, Callback], Any] | None = None, middleware: Callback = lambda **_: None
    ) -> None:
        self._register = register
        self._middleware = middleware
        self._registered = False
        self.has_middleware = register is not None
        self.section_taken = False

    def take_middleware(self) -> None:
        """Register ours, if that has not been done."""
        if self._register is not None and not self._registered:
            self._register("llm_request", self._middleware)
            self._registered = True

    def take_section(self, register: Callable[..., Any], text: Callable[[], str]) -> None:
        """Register our section of the system prompt. Raises what a host raises that refuses it."""
        register("hermes-lcm.recall", lambda _info=None: text(), max_chars=_MOST_CHARS)
        self.section_taken = True
