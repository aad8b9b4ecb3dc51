"""The trips of docs/how-it-works.md are those that the running engine makes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("message", "search", "compaction")


def printed(kind: str) -> list[str]:
    """The lines that the script prints."""
    done = subprocess.run([ROOT / "scripts" / "trip", kind], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_shows_each_trip_as_it_is_printed(kind: str) -> None:
    """A reader who follows the page finds these functions."""
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    shown = re.search(rf"<!-- trip {kind} -->\n```\n(.*?)```", page, re.DOTALL)

    assert shown is not None
    assert shown[1].splitlines() == printed(kind)
