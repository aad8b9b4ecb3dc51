"""The conformance kit finds what an engine breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = '''
from agent.context_engine import ContextEngine


class Careless(ContextEngine):
    """Throws the older half away, calls and all."""

    name = "careless"

    def __init__(self):
        self.threshold_tokens = 2000

    def update_from_response(self, usage):
        self.last_prompt_tokens = usage["prompt_tokens"]

    def should_compress(self, prompt_tokens=None):
        return (prompt_tokens or 0) >= self.threshold_tokens

    def compress(self, messages, current_tokens=None, **_):
        return messages[-3:]

    def update_model(self, model, context_length, **_):
        self.context_length = context_length


def register(ctx):
    ctx.register_context_engine(Careless())
'''


@pytest.mark.slow
def test_an_engine_that_breaks_the_contract_is_told_which_rule(tmp_path: Path) -> None:
    """Rules that it keeps are told as well, and what it loses is counted."""
    plugin = tmp_path / "careless"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(PLUGIN, encoding="utf-8")
    report = tmp_path / "report.json"
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "conformance.py"),
        str(plugin),
        "--quick",
        "--json",
        str(report),
    ]
    done = subprocess.run(
        [*command, "--markdown", str(tmp_path / "report.md")],
        env={**os.environ, "LCM_DATA": str(tmp_path)}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert done.returncode == 1, done.stderr
    tables = {table["title"]: table["rows"] for table in json.loads(report.read_text(encoding="utf-8"))["tables"]}
    contract = dict(tables["Contract"])
    assert contract["it is a ContextEngine with a name"] == "held"
    assert contract["every tool result stands behind its call"].startswith("broken")
    assert tables["Exam, at the end"][0][-1] > 0.5
    assert "| every tool result stands behind its call |" in (tmp_path / "report.md").read_text(encoding="utf-8")
