"""What users say and agents do in several of the tests."""

from __future__ import annotations

from collections.abc import Sequence

from host.model_server import Reply

LISTING = "seq -f 'line %g of the listing' 1 520"  # about 12,000 characters


def busy_turn(turn: int) -> Sequence[Reply]:
    """Two rounds of tools, the first with two calls at once: about 12,000 tokens, much of it the same every turn."""
    look = ("terminal", {"command": f"echo look {turn}; {LISTING}"})
    again = ("terminal", {"command": LISTING})
    return [Reply("I look.", [look, again]), Reply("", [("terminal", {"command": f"echo more {turn}; {LISTING}"})])]


def sayings(turn: int) -> str:
    """What the user says: some turns the very same word."""
    return "yes" if turn % 3 == 1 else f"Step {turn}: go on with part {turn * 7}.\n\n  Indented, and with blanks.  \n"
