"""
The engine object that the host gets at registration: cheap, and replaced by a real engine for every agent.

The host registers one object per process and deep-copies it per agent. Importing the whole plugin for a process that
may never build an agent (``hermes --help``) would be a waste, so the copy is what imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.context_engine import ContextEngine

if TYPE_CHECKING:
    from .engine import LCMEngine


class Prototype(ContextEngine):
    """Stands for ``LCMEngine`` until somebody works with it."""

    def __init__(self) -> None:
        self._real: LCMEngine | None = None

    @property
    def name(self) -> str:
        return "lcm"

    def is_available(self) -> bool:
        """Nothing but the standard library is needed."""
        return True

    def __deepcopy__(self, memo: dict[int, Any]) -> LCMEngine:
        from .engine import LCMEngine

        return LCMEngine()

    def clone_for_agent(self, *_: Any, **__: Any) -> LCMEngine:
        """What newer hosts may ask for instead of a deep copy."""
        return self.__deepcopy__({})

    # -- for a host that uses the registered object itself -------------------------------------------------
    def _engine(self) -> LCMEngine:
        if self._real is None:
            self._real = self.__deepcopy__({})
        return self._real

    def update_from_response(self, usage: Mapping[str, Any]) -> None:
        """As the engine."""
        self._engine().update_from_response(usage)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """As the engine."""
        return self._engine().should_compress(prompt_tokens)

    def compress(self, messages: list[dict[str, Any]], *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        """As the engine."""
        return self._engine().compress(messages, *args, **kwargs)

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """As the engine."""
        return self._engine().get_tool_schemas()
