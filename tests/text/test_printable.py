"""What a terminal would obey is shown as an escape; everything else stays as it is."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from hermes_lcm.text.printable import one_line, printable, printable_json

ANY = st.text(st.characters(categories=("L", "N", "P", "C", "Z")) | st.characters(max_codepoint=0xA0))
OBEYED = {"Cc", "Zl", "Zp", "Cs"}


@given(ANY)
def test_nothing_that_is_shown_is_obeyed(text: str) -> None:
    """No control character, line separator or direction mark is left, but tab and line feed."""
    left = {char for char in printable(text) if char not in "\n\t"}

    assert not {char for char in left if unicodedata.category(char) in OBEYED}
    assert not left & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")


@given(ANY)
def test_json_reads_back_to_the_same_value(text: str) -> None:
    """Escapes of JSON are the value itself."""
    shown = printable_json(json.dumps({"said": text}, ensure_ascii=False))

    assert json.loads(shown) == {"said": text}
    assert printable(shown) == shown


def test_an_escape_sequence_is_seen() -> None:
    """Whoever reads the answer sees that something was there."""
    assert printable("a\x1b[31mred\u202eder") == "a\\x1b[31mred\\u202eder"


def test_words_of_any_script_stay() -> None:
    """Joiners belong to scripts and emoji."""
    text = "naïve 漢字 \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 👩\u200d👧 e\u0301\tend\n"

    assert printable(text) == text


def test_a_name_stays_on_its_line() -> None:
    """An id with a line feed begins no line of its own."""
    assert one_line("s1\nFAILED everything") == "s1\\nFAILED everything"
