"""The language of a question, and the forms of a word in it."""

from __future__ import annotations

import pytest

from hermes_lcm.search import forms


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Wann war die Lieferung?", ("de",)),
        ("What did I decide about the port?", ()),
        ("我用的手机是什么？", ()),
        ("Cuándo firmamos el contrato?", ("es",)),
    ],
)
def test_the_language_is_told_by_common_words(question: str, language: tuple[str, ...]) -> None:
    assert forms.languages(question) == language


def test_plain_text_has_the_same_places() -> None:
    """So what is found in it can be shown in the text itself."""
    text = "Él llegó à l’hôtel — Straße, ñandú, договой"

    assert (forms.plain(text), len(forms.plain(text))) == ("El llego a l’hotel — Straße, nandu, договой", len(text))


def test_forms_are_made_of_the_word_alone() -> None:
    """Whatever an archive holds."""
    assert {"vertrag", "vertragen", "vertragst"} <= {token for token, _ in forms.forms("Vertrag", "de").words}


def test_a_short_word_has_no_other_forms() -> None:
    """Its endings would make other words of it."""
    assert forms.forms("Tür", "de") == forms.Forms()
