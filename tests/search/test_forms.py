"""The language of a question, and the forms of a word in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from worlds.recall import Archive, user

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


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("Ich bin nach München geflogen", "muenchen"),
        ("Ich bin nach Muenchen geflogen", "Wann war das mit München?"),
        ("Elle a reçu les œufs", "Combien de oeufs a-t-elle ?"),
        ("Это наш зелёный чайник, а новее нет", "Где зеленый?"),
        ("Это наш зеленый чайник, а новее нет", "Где зелёный?"),
        ("Los lápices están en el cajón", "¿Dónde está el lápiz?"),
        ("وبالسيارات وصلنا", "متى وصلت السيارة؟"),
        ("Der Datenbankserver läuft auf Port 5432", "Datenbank Server"),
    ],
)
def test_another_spelling_of_a_word_is_found(tmp_path: Path, said: str, asked: str) -> None:
    """As it is typed where a keyboard lacks the letter, or as a part of a longer word; never "not in this archive"."""
    archive = Archive(tmp_path, user("Das Wetter war schön"), user(said), user("Il faisait beau"))

    assert archive.found(asked)[:1] == [2]


def test_what_no_word_begins_with_is_not_in_the_archive(tmp_path: Path) -> None:
    archive = Archive(tmp_path, user("Das Wetter war schön"), user("Die Zebrastreifen sind weiß"))

    assert archive.found("Elefanten Nashörner") == []
    assert archive.found('"Zebra Streifen"') == []
