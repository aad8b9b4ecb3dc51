"""The demonstration of the README: what its agent reads, and what the archive says of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from hermes_lcm.text.redact import Redactor

ROOT = Path(__file__).resolve().parents[2]
_PAGES = """
import json, sys
sys.path.insert(0, "scripts")
import demo
print(json.dumps([args for reply in demo.reading() for name, args in reply.calls if name == "read_file"]))
"""


def test_no_page_that_the_demo_reads_is_warned_of_as_a_secret() -> None:
    """A newcomer who keeps its home finds no problem in the status."""
    told = subprocess.run([sys.executable, "-c", _PAGES], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    read, redactor = json.loads(told), Redactor()

    def shown(page: dict[str, int]) -> str:
        lines = Path(str(page["path"])).read_text(encoding="utf-8").splitlines()
        rows = enumerate(lines[page["offset"] - 1 :][: page["limit"]], page["offset"])
        return json.dumps({"content": "\n".join(f"{number}|{line}" for number, line in rows)})

    assert len(read) > 100
    assert [page for page in read if redactor.text(shown(page)) != shown(page)] == []
