"""
The host's sections of the system prompt, where it has them: frozen into a session's prompt when it begins.

Holds whether this process' host took ours, so that the context message need not say the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_MOST_CHARS: Final = 600


class Section:
    """One section of the system prompt. ``taken``: the host shows it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.taken = False

    def offer(self, register: Callable[..., Any] | None, text: Callable[[], str]) -> None:
        """The plugin is loaded (again): what was registered before is gone."""
        self.taken = False
        if register is not None:
            register(self._name, lambda _info=None: text(), max_chars=_MOST_CHARS)
            self.taken = True


#: One per process, as plugins are.
RECALL_SECTION: Final = Section("hermes-lcm.recall")
