"""Replies of a model: what is an answer, what cites what, and what is none."""

from __future__ import annotations

import pytest

from hermes_lcm.llm.replies import Parsed, parse, why_unusable

PROSE = " ".join(f"Part {n} listens on port {8000 + n}." for n in range(20))


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": "port 8080", "citedIds": ["msg_7"]}',
        '```json\n{"answer": "port 8080", "citations": ["msg_7"]}\n```',
        'The record says {it}:\n{"answer": "port 8080", "sources": ["msg_7"]}'.replace("{it}", "it"),
    ],
    ids=["json", "fenced", "behind prose"],
)
def test_an_answer_is_read_in_each_form_that_models_write(text: str) -> None:
    """With the addresses it cites, whatever the model calls them."""
    assert parse(text) == Parsed("port 8080", ("msg_7",))


def test_json_that_breaks_off_is_a_part_of_an_answer() -> None:
    """What was said is kept, and that it is not all."""
    assert parse('{"answer": "port \\"8080\\" of msg_7, and \\u00') == Parsed(
        'port "8080" of msg_7, and ', ("msg_7",), True
    )


def test_plain_text_is_an_answer() -> None:
    """Each address counts once, in the order of the text; an object that is no answer stays text."""
    assert parse("See sum_3 and msg_7, then sum_3.") == Parsed("See sum_3 and msg_7, then sum_3.", ("sum_3", "msg_7"))
    assert parse('{"port": 8080}').answer == '{"port": 8080}'


def test_an_answer_that_is_no_text_is_told_as_json() -> None:
    """Nothing of it is lost."""
    assert parse('{"answer": ["msg_1", "höher"], "truncated": true}') == Parsed('["msg_1", "höher"]', ("msg_1",), True)


@pytest.mark.parametrize(
    ("text", "finish_reason", "why"),
    [
        (" \n", "stop", "the model sent no text"),
        ("No.", "content_filter", "the model refused"),
        ("I'm sorry, but I can't help with that.", "stop", "the model refused"),
        ("<!DOCTYPE html><title>502</title>", "stop", "the model's answer is an error page"),
        ("and so on " * 400, "stop", "the model repeated itself"),
        (f"You asked: {PROSE}", "stop", "the model repeated the question"),
        (PROSE[40:], "stop", ""),
        ("I'm sorry, but the record does not say it. " + PROSE[50:], "stop", ""),
    ],
    ids=["empty", "filtered", "refused", "error page", "loop", "echo", "answer", "sorry, and an answer"],
)
def test_what_is_no_answer_is_told_why(text: str, finish_reason: str, why: str) -> None:
    """And an answer is none of it."""
    assert why_unusable(text, finish_reason, PROSE) == why
