"""Facts that a summariser found are entries of the ledger, as long as the same words stand in their message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds.process import Chat, Script, World, chat

from hermes_lcm import command
from hermes_lcm.ledger.table import PINNED, Entry, entries
from hermes_lcm.llm import stated
from hermes_lcm.records import Summary, SummaryTask
from hermes_lcm.search.scope import Rights
from hermes_lcm.session import Segment

SAID = "By the way, we keep the staging machine in Oslo, next to the old one."
PLACE = "FACT | value | staging machine | Oslo | we keep the staging machine in Oslo"


class Telling(Script):
    """A summariser whose answers name facts."""

    def __init__(self, *facts: str) -> None:
        super().__init__()
        self.facts = "\n".join(facts)

    def __call__(self, task: SummaryTask, **limits: Any) -> Summary:
        found = stated.found(stated.taken_out(self.facts)[1], task.lines)
        return replace(super().__call__(task, **limits), stated=found)

    summarise = __call__


def compacted(tmp_path: Path, *facts: str, said: str = SAID) -> tuple[World, Chat]:
    """A conversation in which a user said something early, and whose summariser named facts."""
    world = World(tmp_path, Telling(*facts))
    live = chat().user(said).says("Noted.")
    for n in range(30):
        live.user(f"and now look at part {n} of it").says("It is in order. " * 40)
    return world, world.compact(live)


def read(world: World) -> list[Entry]:
    """The entries of the conversation as they are now."""
    ledger, conversations = world.runtime.ledger, [world.session().conversation_id]
    rows, _ = world.runtime.whole_store.legible(ledger.look(conversations, seconds=10).addresses)
    return entries(rows, ledger.marks(conversations), told=ledger.told(conversations))


def told(world: World) -> list[tuple[str, str, str, str]]:
    """What of the entries a summariser found."""
    return [(e.fact.kind, e.fact.subject, e.fact.value, e.fact.text) for e in read(world) if e.fact.told]


def test_a_fact_that_no_rule_finds_is_an_entry_once_it_is_summarised(tmp_path: Path) -> None:
    """Quoted out of its message, in the next process too."""
    world, _ = compacted(tmp_path, PLACE)
    expected = [("value", "staging machine", "Oslo", SAID)]

    assert told(world) == expected
    assert told(world.restart()) == expected


def test_a_rule_that_a_summariser_found_is_its_own_quotation(tmp_path: Path) -> None:
    """It needs no word that rules are known by."""
    said = "In this project every figure is written with its unit."

    assert told(compacted(tmp_path, f"FACT | rule | | | {said}", said=said)[0]) == [("rule", "", said, said)]


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("In this project no figure goes without its unit.", "FACT | rule | | | figure goes without its unit"),
        ("I doubt that we keep the staging machine in Oslo.", PLACE),
    ],
    ids=["a rule", "a value"],
)
def test_a_part_of_a_sentence_is_quoted_with_all_of_it(tmp_path: Path, said: str, fact: str) -> None:
    """What the summariser left out of it may be its "never"."""
    assert {each.fact.text for each in read(compacted(tmp_path, fact, said=said)[0])} == {said}


def test_a_fact_in_words_without_blanks_is_an_entry(tmp_path: Path) -> None:
    """As Chinese ones, whose values stand right behind other words."""
    said = "我们把测试机放在奥斯陆机房，旁边是旧的那台。"
    world, _ = compacted(tmp_path, f"FACT | value | 测试机 | 奥斯陆机房 | {said}", said=said)

    assert told(world) == [("value", "测试机", "奥斯陆机房", said)]


@pytest.mark.parametrize(
    "checks",
    ['{"suspects": ["stated"]}', '{"stated": [[1e999, "value", [0, 1], [0, 1], [0, 1], ""]]}', '{"stated": [1]}'],
    ids=["a name in them", "a place beyond all numbers", "no places"],
)
def test_checks_of_a_summary_that_name_no_places_leave_the_ledger_legible(tmp_path: Path, checks: str) -> None:
    """Be they another program's, or a suspect name that is the same word."""
    world, _ = compacted(tmp_path, said="Our budget is $400.")
    with world.runtime.db.transaction():
        world.runtime.db.execute("UPDATE nodes SET checks = ?", (checks,))

    assert [each.fact.value for each in read(world)] == ["$400"]


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("Is it true that we keep the staging machine in Oslo?", PLACE),
        ("If we keep the staging machine in Oslo, it costs more.", PLACE),
        ('My colleague wrote: "we keep the staging machine in Oslo".', PLACE),
        ("Look:\n```\nwe keep the staging machine in Oslo\n```\n", PLACE),
        ("Can we deploy on Fridays?", "FACT | rule | | | Can we deploy on Fridays?"),
    ],
    ids=["asked", "supposed", "somebody else's", "a document", "a question as a rule"],
)
def test_words_that_state_nothing_are_no_entry(tmp_path: Path, said: str, fact: str) -> None:
    """Although they stand there."""
    assert told(compacted(tmp_path, fact, said=said)[0]) == []


def test_what_a_rule_found_is_not_told_again(tmp_path: Path) -> None:
    """It is one fact."""
    world, _ = compacted(tmp_path, "FACT | value | budget | $400 | Our budget is $400.", said="Our budget is $400.")

    assert [(each.fact.subject, each.fact.told) for each in read(world)] == [("Our budget", False)]


def test_a_fact_that_was_told_replaces_none(tmp_path: Path) -> None:
    """Its subject is the summariser's choice, so nobody knows whether another one is the same thing."""
    said = "We have a port for the old one, which is port 6543. We have a port for the new one, which is now port 7000."
    old, new = "FACT | value | port | 6543 | which is port 6543", "FACT | value | port | 7000 | which is now port 7000"
    world, _ = compacted(tmp_path, old, new, said=said)

    assert [each.replaced_by or each.contradicts for each in read(world)] == ["", ""]


def test_other_words_at_its_place_end_a_fact(tmp_path: Path) -> None:
    """As when a secret was taken out of the message since."""
    world, _ = compacted(tmp_path, PLACE)
    (place,) = world.runtime.ledger.told([world.session().conversation_id])
    row = world.store.rows([place])[0]
    (entry,) = (each for each in read(world) if each.fact.told)
    changed = replace(entry.row, text=row.text.replace("Oslo", "****"))

    ledger = world.runtime.ledger.told([world.session().conversation_id])
    assert entries([changed], {}, told=ledger) == []


def test_a_fact_behind_a_secret_that_was_taken_out_is_still_one(tmp_path: Path) -> None:
    """Its words moved."""
    world, _ = compacted(tmp_path, PLACE, said=f"My key is sk-abcdefghijklmnopqrstuvwxyz0123456789AB. {SAID}")
    (entry,) = (each for each in read(world) if each.fact.told)
    facts = world.runtime.ledger.told([world.session().conversation_id])
    for stands in ("[redacted:api_key:0123456789ab]", "[redacted:api_key]"):
        row = replace(entry.row, text=entry.row.text.replace("sk-abcdefghijklmnopqrstuvwxyz0123456789AB", stands))
        assert [(each.fact.value, each.fact.text) for each in entries([row], {}, told=facts)] == [("Oslo", SAID)]
    gone = replace(entry.row, text=entry.row.text.replace("Oslo", "[redacted:api_key]"))
    assert entries([gone], {}, told=facts) == []


def test_a_fact_stays_when_another_message_of_its_summary_is_purged(tmp_path: Path) -> None:
    """And goes with its own."""
    world, _ = compacted(tmp_path, PLACE)
    deps = world.runtime.access(None, Rights(), trusted=True)
    mine, other = (world.store.heads([Segment(world.session().conversation_id)])[n].store_id for n in (0, 3))

    command.answer(f"purge messages msg_{other} apply", deps)
    assert [value for _, _, value, _ in told(world)] == ["Oslo"]
    command.answer(f"purge messages msg_{mine} apply", deps)
    assert told(world) == []
    assert [node.checks for node in world.nodes() if "stated" in node.checks] == []


def test_a_pinned_fact_of_a_summariser_stays_in_the_prompt(tmp_path: Path) -> None:
    """As any other one."""
    world, live = compacted(tmp_path, PLACE)
    (entry,) = (each for each in read(world) if each.fact.told)
    world.runtime.ledger.mark(entry, PINNED, now=1.0)
    for n in range(30):
        live.user(f"and now look at page {n} of it").says("It is in order. " * 40)

    assert "we keep the staging machine in Oslo" in str(world.compact(live))


def test_the_words_of_a_fact_are_stored_once(tmp_path: Path) -> None:
    """A node keeps where they are, so that a purge has nothing more to take out."""
    world, _ = compacted(tmp_path, PLACE)
    (checks,) = {node.checks for node in world.nodes() if "stated" in node.checks}

    assert "Oslo" not in checks
    assert "staging" not in checks
