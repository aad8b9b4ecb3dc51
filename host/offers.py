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


class Late:
    """One registration, put off."""

    def __init__(self, kind: str, register: Callable[[str, Callback], Any] | None, callback: Callback) -> None:
        self._kind = kind
        self._register = register
        self._callback = callback
        self._done = False

    @property
    def possible(self) -> bool:
        """Does this host have such a place?"""
        return self._register is not None

    def want(self) -> bool:
        """Register, if that has not been done; is it registered?"""
        if self._register is not None and not self._done:
            self._register(self._kind, self._callback)
            self._done = True
        return self._done


class Offers:
    """Offers of one host. ``section_taken``: it shows our section of the system prompt."""

    def __init__(
        self, register: Callable[[str, Callback], Any] | None = None, callback: Callback = lambda **_: None
    ) -> None:
        self.middleware = Late("llm_request", register, callback)
        self.section_taken = False

    def take_section(self, register: Callable[..., Any], text: Callable[[], str]) -> None:
        """Register our section of the system prompt. Raises what a host raises that refuses it."""
        register("hermes-lcm.recall", lambda _info=None: text(), max_chars=_MOST_CHARS)
        self.section_taken = True
