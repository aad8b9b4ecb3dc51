"""Facts that a summariser names behind its record: they quote a user's line, or they are struck."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lcm.llm import stated
from hermes_lcm.records import SourceLine

SAID = 'We keep the staging machine in Oslo, by the way.\nIts  key is "blue heron". Never deploy on a Friday.'
LINES = (
    SourceLine("msg_1", "user", SAID),
    SourceLine("msg_2", "tool", "The staging machine listens on port 6543."),
    SourceLine("msg_3", "assistant", "I chose SQLite for the queue."),
)


def words(answer: str) -> list[tuple[str, str, str, str]]:
    """(kind, subject, value, quotation) of what is kept of an answer."""
    out = []
    for each in stated.found(stated.taken_out(answer)[1], LINES):
        quote = SAID[slice(*each.quote)]
        out.append((each.kind, quote[slice(*each.subject)], quote[slice(*each.value)], quote))
    return out


def test_a_fact_in_a_users_words_is_kept_by_its_place() -> None:
    """Whatever its letters' case and the blanks between its words are."""
    fact = 'FACT | Value | staging machine | oslo | "we keep the staging machine in Oslo"'

    assert words(f"The user told where it is.\n{fact}") == [
        ("value", "staging machine", "Oslo", "We keep the staging machine in Oslo")
    ]
    assert words("FACT | name | key | blue heron | Its key is “blue heron”")[0][3] == 'Its  key is "blue heron'


@pytest.mark.parametrize(
    "fact",
    [
        "FACT | value | staging machine | Bergen | We keep the staging machine in Oslo",
        "FACT | value | staging machine | Oslo | The staging machine is kept in Oslo",
        "FACT | value | staging machine | 6543 | The staging machine listens on port 6543.",
        "FACT | decision | queue | SQLite | I chose SQLite for the queue.",
        "FACT | opinion | staging machine | Oslo | We keep the staging machine in Oslo",
        "FACT | value | Oslo | We keep the staging machine in Oslo",
        "FACT | name | key | slo | slo",
    ],
    ids=["another value", "other words", "a tool's", "the assistant's", "no kind", "no subject", "part of a word"],
)
def test_what_no_user_said_in_these_words_is_struck(fact: str) -> None:
    """Nothing of it is stored."""
    assert words(fact) == []


def test_a_rule_is_its_own_value() -> None:
    """It needs no subject."""
    (rule,) = words("FACT | rule | deployment | Friday | Never deploy on a Friday.")

    assert rule == ("rule", "", "Never deploy on a Friday.", "Never deploy on a Friday.")


def test_the_record_keeps_no_line_of_facts() -> None:
    """Nor one that says nothing, or that is marked up."""
    record = "The user asked.\nExpand for details about: Oslo"
    facts = "\n**FACT** | value | a | b | c\n- FACT | kind | subject | value | the user's own sentence\nFACT | none"

    assert stated.taken_out(record + facts)[0] == record
    assert stated.taken_out(f"{record}\n") == (f"{record}\n", ())
    assert stated.taken_out(f"{record}\n| FACT | sales |")[0] == f"{record}\n| FACT | sales |"


@settings(max_examples=80, deadline=None)
@given(st.text(alphabet=st.sampled_from('FACT |\n"rulevalue*-.x'), max_size=300))
def test_any_answer_can_be_read(answer: str) -> None:
    """Whatever a model writes."""
    record, named = stated.taken_out(answer)

    assert len(record) <= len(answer)
    assert len(stated.found(named, LINES)) <= stated.MOST
