"""Benchmarks keep running: they drive the code by names that no type checker reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
#: No benchmarks, or such that need what is not here: another engine, a person who reads.
LEFT_OUT = {"run", "kit", "driving", "material", "plots", "conformance", "pairs", "ledger", "hosted"}
NAMES = sorted(each.stem for each in BENCHMARKS.glob("*.py") if each.stem not in LEFT_OUT)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_runs_to_its_end_and_writes_its_figures(tmp_path: Path, name: str) -> None:
    """Whether its budgets hold is not asked here: other work on the machine may miss them."""
    out = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / f"{name}.py"), "--quick", "--json", str(out)],
        capture_output=True, text=True, timeout=1200, cwd=tmp_path,
    )  # fmt: skip

    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    assert out.exists(), done.stdout[-2000:]
