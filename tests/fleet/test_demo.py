"""The demonstration of docs/fleet.md, as somebody would run it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_demo_of_the_fleet_holds() -> None:
    """Every step checks what it shows."""
    done = subprocess.run([ROOT / "scripts" / "demo-fleet"], capture_output=True, text=True, timeout=600, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("== Everything held\n")
