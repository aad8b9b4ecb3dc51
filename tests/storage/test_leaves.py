"""Rows of a file whose pages are read without SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hermes_lcm.storage.leaves import Leaves


@pytest.mark.parametrize("left", [3, 7, 9, 4095])
def test_a_file_that_ends_in_its_list_of_free_pages_is_read_up_to_there(tmp_path: Path, left: int) -> None:
    """A file without a pointer map says there which pages are free; its log holds a page behind them."""
    path = tmp_path / "file.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("CREATE TABLE kept(text)")
        raw.execute("CREATE TABLE gone(text)")
        raw.execute("INSERT INTO kept VALUES ('a text that is kept')")
        raw.executemany("INSERT INTO gone VALUES (?)", [("x" * 3000,)] * 40)
        raw.execute("DELETE FROM gone")
    data = path.read_bytes()
    trunk = int.from_bytes(data[32:36], "big")
    assert trunk > 3

    cut = data[: 4096 * (trunk - 1) + left]
    frame = (trunk + 1).to_bytes(4, "big") * 2 + bytes(16 + 4096)
    log = bytes(8) + (4096).to_bytes(4, "big") + bytes(20) + frame

    assert ("a text that is kept",) in [tuple(cell.values) for cell in Leaves(cut, log).cells()]


def test_a_page_that_is_used_again_belongs_to_the_table_that_uses_it(tmp_path: Path) -> None:
    """A free page above it, of a table that was emptied, names it still."""
    path = tmp_path / "file.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA secure_delete=OFF")
        raw.execute("CREATE TABLE kept(text)")
        raw.execute("CREATE TABLE gone(text)")
        raw.executemany("INSERT INTO gone VALUES (?)", [("x" * 500,)] * 5000)
        raw.execute("DELETE FROM gone")
        raw.executemany("INSERT INTO kept VALUES (?)", [("y" * 500,)] * 2000)

    assert [cell.of for cell in Leaves(path.read_bytes()).cells() if cell.values == ("y" * 500,)] == ["kept"] * 2000
