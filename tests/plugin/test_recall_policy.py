"""When to search is told to the model once, in few words, and where it does not move the prompt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worlds.process import World, chat

from hermes_lcm.host import facts
from hermes_lcm.host.offers import Offers
from hermes_lcm.plugin import registration
from hermes_lcm.prompt import context_message
from hermes_lcm.text import tokens
from hermes_lcm.text.markup import RECALL_POLICY


class Sections:
    """A host with sections of the system prompt: calls each when a session begins."""

    def __init__(self) -> None:
        self.texts: dict[str, Callable[[dict[str, Any]], str]] = {}

    def register_system_prompt_section(
        self, id: str, content: Any, *, position: str = "after_memory", max_chars: int = 4000
    ) -> None:
        assert len(content({})) <= max_chars
        self.texts[id] = content

    def shown(self) -> str:
        return "".join(content({"session_id": "s"}) for content in self.texts.values())


@pytest.fixture
def sections(monkeypatch: pytest.MonkeyPatch) -> Sections:
    monkeypatch.setattr(facts, "selected_engine", lambda: "lcm")
    monkeypatch.delenv("LCM_RECALL_POLICY", raising=False)
    return Sections()


def offer(offers: Offers, host: Sections) -> None:
    """Offer the policy to a host, as the registration does."""
    offers.take_section(host.register_system_prompt_section, registration.policy)


def test_it_is_three_lines_of_at_most_120_tokens() -> None:
    assert (len(RECALL_POLICY.splitlines()), tokens.count(RECALL_POLICY) <= 120) == (3, True)


def test_the_system_prompt_of_a_new_session_says_it(sections: Sections) -> None:
    offer(Offers(), sections)

    assert sections.shown() == RECALL_POLICY


def test_it_can_be_turned_off(sections: Sections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_RECALL_POLICY", "off")
    offer(Offers(), sections)

    assert sections.shown() == ""


def test_nothing_is_said_where_another_engine_was_chosen(sections: Sections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "selected_engine", lambda: "compressor")
    offer(Offers(), sections)

    assert sections.shown() == ""


def test_a_host_that_takes_the_section_is_known(sections: Sections) -> None:
    """So the context message does not say it again."""
    offers = Offers()
    offer(offers, sections)

    assert offers.section_taken


def test_a_host_that_refuses_the_section_has_not_taken_it(sections: Sections) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError("system prompt section is already registered")

    offers = Offers()
    with pytest.raises(ValueError, match="already"):
        offers.take_section(refuse, registration.policy)

    assert not offers.section_taken


def test_the_context_message_says_it_in_front_of_all_that_changes() -> None:
    """A compaction that only adds leaves what was sent before as it was."""
    before = context_message.context_text("0123456789abcdef", 1, [], [], 1000, "now", RECALL_POLICY)
    after = context_message.context_text("0123456789abcdef", 2, [], [], 1000, "later", RECALL_POLICY)

    end = before.index(RECALL_POLICY) + len(RECALL_POLICY)
    assert before[:end] == after[:end]


def test_turns_between_compactions_leave_the_prompt_as_it_is(tmp_path: Path) -> None:
    """The list that the host sends again begins as the one before."""
    world = World(tmp_path)
    world.compress_pass._policy = lambda: RECALL_POLICY
    compacted = world.compact(chat().turns(30))

    assert RECALL_POLICY in str(compacted[0]["content"])
    assert world.gaps(compacted) == ([], [])
