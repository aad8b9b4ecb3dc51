"""
The text interface: whether it can run here; the windows are in ``app``, what they show in ``shelf``.
"""

from __future__ import annotations

import importlib.util
from typing import Final

from ..errors import BadRequest
from ..recall.access import Access
from .shelf import Shelf

MISSING: Final = (
    "`hermes lcm browse` needs the package textual, which is not installed here. "
    "This gets it: pip install 'hermes-lcm[tui]' (or: pip install textual)"
)


def run(deps: Access, *, watched: bool) -> None:
    """Show it until it is left. Raises BadRequest where textual is missing, or nobody watches."""
    if importlib.util.find_spec("textual") is None:
        raise BadRequest(MISSING)
    if not watched:
        raise BadRequest(
            "`hermes lcm browse` needs a terminal; `hermes lcm sessions` and `hermes lcm search` print what it shows"
        )
    from .app import Browser

    Browser(Shelf(deps)).run()
