"""The shell scripts refuse what they do not know, before they change anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("script", ["install.sh", "update.sh"])
@pytest.mark.parametrize("argument", ["--help", "-h", "/some/where", ""])
def test_an_argument_installs_nothing(tmp_path: Path, script: str, argument: str) -> None:
    """Whoever asks for help gets the usage."""
    environment = {**os.environ, "HERMES_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    done = subprocess.run(
        ["bash", str(ROOT / "scripts" / script), argument], capture_output=True, text=True, check=False, env=environment
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert "usage" in done.stderr
    assert list(tmp_path.iterdir()) == []
