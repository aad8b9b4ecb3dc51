"""Lines that fit the terminal, and what a pager shows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lcm.terminal import screen


@given(st.text(alphabet="ab  漢é\n", max_size=300), st.integers(min_value=40, max_value=90))
def test_no_word_is_lost_and_no_line_with_blanks_is_too_long(text: str, width: int) -> None:
    """Blanks may become line ends; nothing else changes."""
    fitted = screen.fitted(text, width)

    assert fitted.split() == text.split()
    for line in fitted.split("\n"):
        assert (
            screen.columns(line) <= width
            or " " not in line.strip()
            or screen.columns(line.strip().split()[0]) > width // 4
        )


def test_a_row_of_a_table_goes_on_below_its_last_column() -> None:
    """So the columns stay columns."""
    line = f"  backup      {'word ' * 30}".rstrip()
    first, *rest = screen.fitted(line, 80).split("\n")

    assert len(first) <= 80
    assert all(each.startswith(" " * 14 + "word") for each in rest)


def test_short_lines_stay_as_they_are() -> None:
    """Whatever blanks they have."""
    assert screen.fitted("a   b\n    c  d", 80) == "a   b\n    c  d"


def test_a_pager_gets_what_is_longer_than_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And only that; a pager that is not there is none."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "10")
    out = tmp_path / "out"
    pager = (sys.executable, "-c", f"import sys; open({str(out)!r}, 'w').write(sys.stdin.read())")

    assert not screen.paged("short", pager, {})
    assert not out.exists()
    assert not screen.paged("line\n" * 50, ("no-such-pager-here",), {})
    assert not screen.paged("line\n" * 50, (), {})
    assert screen.paged("line\n" * 50, pager, {})
    assert out.read_text() == "line\n" * 51 or out.read_text() == "line\n" * 50 + "\n"
