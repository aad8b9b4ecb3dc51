"""Pieces of purged texts: what looking for all of them at once finds is what looking for each alone finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lcm.ops.forget import proof
from hermes_lcm.text import content

CHARACTERS = st.text('ab cd_é漢"\\\n.', min_size=8, max_size=30)
FEW_WORDS = st.lists(st.sampled_from(["abba", "brücke", " ", "\n", '"', ", "]), min_size=4, max_size=12).map("".join)
WORDS = st.one_of(CHARACTERS, FEW_WORDS)


@given(st.lists(WORDS, max_size=6), st.data())
def test_pieces_are_found_together_as_they_are_alone(texts: list[str], data: st.DataObject) -> None:
    """Whatever stands before and behind them."""
    said = "".join(data.draw(st.lists(st.one_of(WORDS, st.sampled_from([*texts, ""])), max_size=6)))

    assert proof.Pieces(texts).in_text(said) == {form for form in proof.forms_of(texts) if form in said}


def test_all_of_very_many_pieces_are_looked_for_in_a_file(tmp_path: Path) -> None:
    """The last of 2,000 too, across the border of two parts that are read."""
    evidence, file = proof.Evidence(), tmp_path / "export.txt"
    for n in range(2_000):
        evidence.note(
            content.read_message({"role": "user", "content": f"they met number {n} on the old bridge of the é river"})
        )
    last = "met number 1999 on the old bridge of the é river"
    for padding in range(499_960, 500_010, 7):
        file.write_text("." * padding + last + "." * 100, encoding="utf-8")
        found = proof.search([file], evidence, lambda *_: None)

        assert found.holding
    assert (found.pieces, found.of) == (len(evidence.texts), len(evidence.texts))


def test_stored_bytes_are_found_across_the_border_of_two_parts(tmp_path: Path) -> None:
    """Wherever they lie in a file."""
    evidence, file = proof.Evidence(), tmp_path / "lcm.db"
    stored = bytes(range(96))
    evidence.note_stored([stored])
    for padding in range(499_900, 500_010, 10):
        file.write_bytes(b"\xff" * padding + stored + b"\xff" * 100)

        assert proof.search([file], evidence, lambda *_: None).holding, padding


def test_pieces_in_any_script_are_looked_for_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of all alphabets are words, also where little may be compared piece by piece."""
    monkeypatch.setattr(proof, "_WORK_BYTES", 0)
    evidence, file = proof.Evidence(), tmp_path / "export.txt"
    said = [f"они встретились у старого моста в день {n} после обеда" for n in range(500)]
    for text in said:
        evidence.note(content.read_message({"role": "user", "content": text}))
    for text in said[3:9]:
        file.write_bytes(b"\xd0\x00\xff" + text.encode() + b"\xbf" * 9)
        found = proof.search([file], evidence, lambda *_: None)

        assert found.holding
        assert found.pieces == found.of
