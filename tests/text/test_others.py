"""Others' words in a message: what a user wrote to the agent himself stays his own."""

from __future__ import annotations

import pytest

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
