"""What tests of several modules break: a home that was lived in."""

from __future__ import annotations

from pathlib import Path

import pytest
from worlds.breaking import Host, template
from worlds.process import chat

from hermes_lcm.storage import connection


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long work leaves nobody a turn: nobody else is there."""
    monkeypatch.setattr(connection, "_LONGEST_PAUSE_S", 0)


SAID = chat().turns(30).rounds(4).says("done")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a compaction, a backup, and a transcript to import."""

    def lived(host: Host) -> None:
        host.says(SAID)
        host.says(host.compress(SAID.copy()))
        host.command("backup")
        (host.home / "x.jsonl").write_text('{"role":"user","content":"hello"}\n', encoding="utf-8")

    return template(tmp_path_factory.mktemp("lived"), lived)
