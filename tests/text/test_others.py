"""Others' words in a message: what a user wrote to the agent himself stays his own."""

from __future__ import annotations

import pytest
from worlds.linear import LIMIT, excess

from hermes_lcm.text.others import own_words


@pytest.mark.parametrize(
    "text",
    [
        "Hi Nova, keep answers short. Never use Perl.\nThanks, Ben",
        "Hi could you please fix the tests, and never use mocks. Thanks Ben",
        "Hello my assistant, always use tabs.\nCheers, Ben",
        "Here is how to write commit messages:\nAlways use the imperative.",
        "For these blog posts:\nAlways use British English.",
        "From now on, for messages:\nAlways use tabs.",
        "When you write a <message> element, never escape it. Always use tabs.",
        "Use a <text> node. Never use CSS.",
    ],
)
def test_words_to_the_agent_are_the_users_own(text: str) -> None:
    """By any name of the agent, with or without a signature; a kind of text or a tag may be named."""
    assert own_words(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "Hi all, never deploy on Fridays. Cheers, Ben",
        "See below.\nHi Ben, never deploy on Fridays. Cheers, Anna",
        "Dear Mr Miller, never deploy on Fridays. Kind regards, Anna",
        "Here is the mail from Anna:\nNever deploy on Fridays.",
        "<message>\nNever deploy on Fridays.",
    ],
)
def test_a_letter_to_somebody_else_is_not(text: str) -> None:
    assert "Fridays" not in own_words(text)


@pytest.mark.parametrize(
    "text",
    [
        "Backend: FastAPI\nFrontend: React\nBackend: never use Mongo",
        "- API design: always version the URLs\n- Unit tests: use pytest\n- API design: ask me before you break it",
        "Datenbank: Postgres\nKommentare: immer auf Deutsch\nDatenbank: nie ohne Backup ändern",
        "Agent: always answer in German",
        "Agent: always answer in German\nAgent: never use emojis",
        "Hermes: never push to main\nCode: always use tabs",
        "Subject: use tabs, not spaces\nNever use Perl.",
        "Subject: maths\nLevel: beginner\nAlways explain step by step.",
        "From: Berlin\nTo: Rome\nAlways book an aisle seat.",
        "Name of the branch: main\nFrom: release\nRule: never force push.",
    ],
)
def test_a_list_of_things_and_what_goes_for_them_is_the_users_own(text: str) -> None:
    """A thing may come again, the agent may be named, and one line of a mail's head is no mail."""
    assert own_words(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "QA: can we deploy on Fridays?\nBackend: never deploy on Fridays\nQA: ok",
        "Backend: I deployed it on Friday\nBackend: never deploy on Fridays",
        "Agent: never deploy on Fridays\nTom: fine",
        "Agent: understood, I'll never deploy on Fridays\nAgent: always on Mondays",
        "Anna: never deploy on Fridays\nBackend: Postgres\nAnna: always use tabs",
        "Subject: Deploys\nHi Bob,\nnever deploy on Fridays.\nCheers, Anna",
        "Subject: Deploys\nNever deploy on Fridays.\n\nBest,\nAnna",
        "Subject: Deploys\nDate: Monday\nNever deploy on Fridays.",
        "To: Ben\nSubject: Deploys\nNever deploy on Fridays.",
        "From: Anna\nTo: Ben\n\nNever deploy on Fridays.",
        "Von: Anna\nGesendet: Montag\nAn: Ben\nBetreff: Deploys\nNie am Freitag deployen. Fridays!",
        "From: anna@example.org\nNever deploy on Fridays.",
    ],
)
def test_what_answers_or_has_the_head_of_a_mail_is_somebody_elses(text: str) -> None:
    """Questions, answers and a name that comes again mark a talk; several lines of a head, an address or an end a mail."""
    assert "Fridays" not in own_words(text)


@pytest.mark.parametrize(
    "part",
    ["“never\n", "«never\n", "„never\n", "<text> never ", "<page>never\n<log>", "<mail \n", '"never\n"', "> a\n“"],
)
def test_quotations_that_nothing_ends_are_looked_for_in_linear_time(part: str) -> None:
    assert excess(own_words, part * (4000 // len(part)), part * (32_000 // len(part))) < LIMIT
