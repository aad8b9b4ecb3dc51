"""
The host's request middleware, registered when it is first needed.

A host with any request middleware copies every request several times before it is sent, which a long conversation feels. So the
plugin asks for it only once some session has something to show otherwise. Holds what the host offered at registration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Callback = Callable[..., Any]


class Late:
    """One registration, put off."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._register: Callable[[str, Callback], Any] | None = None
        self._callback: Callback | None = None
        self._done = False

    def offer(self, register: Callable[[str, Callback], Any] | None, callback: Callback) -> None:
        """The plugin is loaded (again): what was registered before is gone."""
        self._register, self._callback, self._done = register, callback, False

    @property
    def possible(self) -> bool:
        """Does this host have such a place?"""
        return self._register is not None

    def want(self) -> bool:
        """Register, if that has not been done; is it registered?"""
        if self._register is not None and self._callback is not None and not self._done:
            self._register(self._kind, self._callback)
            self._done = True
        return self._done


#: The shape of requests that the middleware understands; "" is a host that does not tell.
CHAT: Final = ("", "chat_completions")
#: One per process, as plugins are.
REQUEST_MIDDLEWARE = Late("llm_request")
