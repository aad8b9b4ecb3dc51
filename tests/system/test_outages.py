"""The short form of ``benchmarks/outages.py``: two processes with four chats each, and a fault every few messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(["--faults", "6", "--messages", "120"], id="some"),
        pytest.param([], id="more", marks=pytest.mark.slow),
    ],
)
def test_faults_all_the_time_lose_and_double_nothing(size: list[str], tmp_path: Path) -> None:
    """Kills, locks, full disks, lost logs, damaged pages, files deleted and replaced, folders renamed."""
    told = tmp_path / "told.json"
    words = [
        sys.executable,
        str(ROOT / "benchmarks" / "outages.py"),
        "--quick",
        *size,
        "--where",
        str(tmp_path),
        "--json",
        str(told),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240)

    assert done.returncode == 0, (done.stdout, done.stderr[-3000:])
    budgets = {each["what"]: each["value"] for each in json.loads(told.read_text())["budgets"]}
    assert (budgets["messages lost"], budgets["messages doubled"], budgets["faults that no status showed"]) == (0, 0, 0)
