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
        ("Die Straßen sind gesperrt", "Wo war das mit der Strasse?"),
        ("Πάμε στην αγορά το Σάββατο", "αγορα"),
        ("Οι τιμές της αγοράς ανέβηκαν", "ΑΓΟΡΑΣ"),
        ("το ραντεβου ειναι αυριο", "ραντεβού"),
        ("Το προϊόν ήρθε", "προιον"),
        ("Πάμε στην αγορα\u0301 μας", "αγορά"),
        ("أحمد وصل إلى المطار", "احمد"),
        ("احمد وصل الى المطار", "أحمد"),
        ("الإجازة في مايو", "متى اجازة المدير؟"),
        ("سافرت إلى المستشفى", "المستشفي"),
        ("ذهبت إلى المدرسة", "المدرسه"),
        ("مسؤول القسم غائب", "مسوول"),
        ("السعر ١٢٣٤ ريال", "1234"),
        ("خرید کتاب خوب", "كتاب"),
        ("Anh Đức đến muộn", "Duc"),
        ("Łódź jest duża", "lodz"),
        ("Lodz jest duza", "Łódź"),
        ("Işıklı tabela bozuk", "isikli"),
        ("ISPARTA gülleri açtı", "ısparta"),
        ("Søren spiser æbler", "soren"),
        ("Vi tager til København", "koebenhavn"),
        ("Færgen til Ålborg sejler", "aalborg"),
        ("Guðrún hringdi í gær", "gudrun"),
        ("Herr Öztürk rief an", "Oeztuerk"),
        ("The lease is $7,250.00 a month", "$7250"),
        ("Nordwind zahlt 12.450,75 EUR", "12450"),
        ("They owe us 12450 euros", "12,450.75"),
        ("Save the file as UTF-8", "utf8"),
        ("Save the file as utf8", "UTF-8"),
        ("His office is 030/4455667", "0304455667"),
        ("The dial-in pin is 883 114", "883114"),
        ("IBAN DE44 5001 0517 5407 3249 31", "DE44500105175407324931"),
        ("DHL 00340434161094042557", "0034 0434 1610"),
    ],
)
def test_another_spelling_of_a_word_is_found(tmp_path: Path, said: str, asked: str) -> None:
    """As it is typed where a keyboard lacks the letter, or as a part of a longer word; never "not in this archive"."""
    archive = Archive(tmp_path, user("Das Wetter war schön"), user(said), user("Il faisait beau"))

    assert archive.found(asked)[:1] == [2]


def test_folded_text_has_the_same_places() -> None:
    text = "οι τιμές της αγοράς, أحمد في المستشفى, łódź, зелёный, ١٢"

    assert forms.folded(text) == "οι τιμεσ τησ αγορασ, احمد في المستشفي, lodz, зеленыи, 12"


def test_few_spellings_are_tried_of_a_word() -> None:
    """Each is looked up in the index."""
    tried = max(len(forms.spelt(word).words) for word in ("επιχειρηματικότητα", "الاستئنافية", "oddzialywanie"))

    assert tried <= 100


def test_the_stretch_that_is_shown_holds_the_word_in_its_other_spelling(tmp_path: Path) -> None:
    filler = "Κάτι άλλο που δεν ενδιαφέρει κανέναν εδώ. " * 60
    archive = Archive(tmp_path, user(f"{filler}Ο Γιώργος έφερε το συμβόλαιο. {filler}"))

    (hit,) = archive.grep("συμβολαιο")["results"]

    assert "συμβόλαιο" in hit["snippet"]


def test_what_no_word_begins_with_is_not_in_the_archive(tmp_path: Path) -> None:
    archive = Archive(tmp_path, user("Das Wetter war schön"), user("Die Zebrastreifen sind weiß"))

    assert archive.found("Elefanten Nashörner") == []
    assert archive.found('"Zebra Streifen"') == []
