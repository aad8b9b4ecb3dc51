"""Facts are read by rule out of what a user typed: quotations with subject and value, and nothing that only might be one."""

from __future__ import annotations

import pytest

from hermes_lcm.ledger.facts import Fact, stated

STATED = [
    ("Always use tabs in Makefiles.", "rule", "", "Always use tabs in Makefiles."),
    ("please never commit to main without asking", "rule", "", "please never commit to main without asking"),
    ("I prefer short answers.", "rule", "", "I prefer short answers."),
    ("始终用中文回答", "rule", "", "始终用中文回答"),
    ("My name is Anna Schmidt.", "name", "My name", "Anna Schmidt"),
    ("My sister Mia is coming too.", "name", "My sister", "Mia"),
    ("The launch party is on March 5, 2027.", "date", "The launch party", "March 5, 2027"),
    ("I have an interview with Greg on May 12 and no suit.", "date", "an interview", "May 12"),
    ("Our budget is $400.", "value", "Our budget", "$400"),
    ("change the upload limit from 5 MB to 20 MB", "value", "the upload limit", "20 MB"),
    ("I'm using Flask 2.3.1 for it.", "value", "Flask", "2.3.1"),
    ("it listens on port 8080", "value", "port", "8080"),
    ("Let's go with the blue one.", "decision", "go with", "the blue one"),
    ("We decided to drop Python 2.", "decision", "decided", "drop Python 2"),
    ("Mein Name ist Max Müller.", "name", "Mein Name", "Max Müller"),
    ("Unser Budget ist jetzt 500 €.", "value", "Unser Budget", "500 €"),
    ("Der Port ist 8080.", "value", "Der Port", "8080"),
    ("Der Termin ist am 04.05.2026.", "date", "Der Termin", "04.05.2026"),
    ("Ich habe mich für Postgres entschieden.", "decision", "entschieden", "Postgres"),
    ("Verwende immer Tabs.", "rule", "", "Verwende immer Tabs."),
    ("Mi nombre es Ana López.", "name", "Mi nombre", "Ana López"),
    ("Nuestro presupuesto es de $400.", "value", "Nuestro presupuesto", "$400"),
    ("La fecha límite es el 4 de mayo.", "date", "La fecha límite", "4 de mayo"),
    ("Hemos decidido usar Postgres.", "decision", "decidido", "usar Postgres"),
    ("Responde siempre en español.", "rule", "", "Responde siempre en español."),
    ("我的名字是李雷。", "name", "我的名字", "李雷"),
    ("我们的预算是400美元。", "value", "我们的预算", "400美元"),
    ("端口改为9090。", "value", "端口", "9090"),
    ("截止日期是5月4日。", "date", "截止日期", "5月4日"),
    ("我们决定用Postgres。", "decision", "决定", "用Postgres"),
]


@pytest.mark.parametrize(("text", "kind", "subject", "value"), STATED, ids=[each[0] for each in STATED])
def test_a_statement_is_a_fact(text: str, kind: str, subject: str, value: str) -> None:
    """Quoted as it was said."""
    assert stated(text) == (Fact(kind, subject, value, text),)


@pytest.mark.parametrize(
    "text",
    [
        "Do you always use tabs?",
        "It must be such an honor!",
        "Always happy to help.",
        "Never saw this coming.",
        "Is the budget $400?",
        "If the area is 30 cm, how long is it?",
        "The probability is 1/2.",
        "Thanks, that works.",
        "```\nport = 8080\nAlways use tabs.\n```",
        "[System note: The previous turn was interrupted by a restart. Always use tabs.]",
        "The tutorial says the port is 8080.",
        "Translate: my name is Bob Ross.",
        "Write a letter that says: our budget is $9000.",
        'Add the line "our budget is $9000" to the page.',
        "In the story, my name is Zork Blax.",
        "For example, the timeout is 30 seconds.",
        "Wenn der Port 8080 ist, geht es.",
        "Mein Mann ist Arzt.",
        "我叫你不要这样。",
    ],
)
def test_what_only_might_be_a_fact_is_none(text: str) -> None:
    """Questions, suppositions, courtesies, code, notes of the host."""
    assert stated(text) == ()


def test_a_long_sentence_is_quoted_around_its_value() -> None:
    """At whole words, and the value is in it."""
    text = f"{'so many words ' * 12}and my deadline is on April 15 {'as i said before ' * 12}"
    (fact,) = stated(text)

    assert fact.text in text
    assert len(fact.text) < 300
    assert "my deadline is on April 15" in fact.text
