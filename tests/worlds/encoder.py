"""
The encoder of the extra ``semantic``, scripted.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hermes_lcm.search import semantic

Encode = Callable[[Sequence[str]], Any]


def install(monkeypatch: pytest.MonkeyPatch, encode: Encode, warm: Encode | None = None) -> None:
    """A package with this encoder, ready after its first batch, which ``warm`` answers, if it is given."""
    first = iter([warm or encode])

    def made(texts: Sequence[str]) -> Any:
        return next(first, encode)(texts)

    model = types.SimpleNamespace(encode=made)
    monkeypatch.setitem(sys.modules, semantic.PACKAGE, types.SimpleNamespace(USE=lambda threads: model))  # type: ignore[arg-type]
