"""The ledger of a conversation: each fact once, later values beside earlier ones, and what operators say of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from worlds.process import World, chat

from hermes_lcm.ledger.table import CORRECTED, PINNED, STRUCK, Entry, entries


def told(world: World, *said: str) -> list[Entry]:
    """The entries of a conversation in which a user said this."""
    live = chat()
    for text in said:
        live.user(text).says("Noted.")
    world.take(live)
    return read(world)


def read(world: World) -> list[Entry]:
    """The entries of the conversation as they are now."""
    ledger, conversation = world.runtime.ledger, world.session().conversation_id
    look = ledger.look([conversation], seconds=10)
    rows, _ = world.runtime.whole_store.legible(look.addresses)
    return entries(rows, ledger.marks([conversation]))


def test_a_fact_that_is_said_again_is_one_entry(tmp_path: Path) -> None:
    """Named after where it was said first, and quoted as it was said last."""
    (entry,) = told(World(tmp_path), "I'm using Flask 2.3.1 for it.", "As I said: I'm using Flask v2.3.1 for it.")

    assert (entry.times, entry.fact.value) == (2, "v2.3.1")
    assert entry.name.startswith("1.")


def test_what_was_spoken_is_an_entry_and_what_others_wrote_in_the_thread_is_none(tmp_path: Path) -> None:
    """Both as gateways hand them over."""
    thread = "[Thread context — prior messages in this thread (not yet in conversation history):]\n"
    thread += "[thread parent] Eve: Our budget is $700.\n[End of thread context]\n\n"
    world = World(tmp_path)
    world.session(platform="slack", host_key="agent:main:slack:group:C1")

    found = told(world, f"[Anna] {thread}Our rent is $300.", '"Our budget is $400."\n\n[Anna]', '"Our deposit is $50."')

    assert [each.fact.value for each in found] == ["$300", "$400", "$50"]


@pytest.mark.parametrize(
    ("once", "again"),
    [
        ("My friend Ivan is in.", "Invite my friend Ivan."),
        ("It runs on port 8080.", "The server still listens on port 8080."),
    ],
)
def test_a_name_or_a_value_that_is_said_in_other_words_is_one_entry(tmp_path: Path, once: str, again: str) -> None:
    """Though there may be several such things."""
    (entry,) = told(World(tmp_path), once, again)

    assert entry.times == 2


def test_a_name_with_a_title_is_the_name_without(tmp_path: Path) -> None:
    """It is one person, and nobody else's name."""
    (entry,) = told(World(tmp_path), "My boss is Prof. Dr. Anna Klein.", "My boss is Anna Klein.")

    assert (entry.times, entry.contradicts) == (2, "")


def test_a_later_value_contradicts_an_earlier_one(tmp_path: Path) -> None:
    """Both stand, each with the other's name."""
    old, new = told(World(tmp_path), "Our budget is $400.", "Our budget is $500.")

    assert (old.contradicts, new.contradicts) == (new.name, old.name)
    assert not old.replaced_by


def test_a_value_whose_words_speak_of_a_change_replaces_the_earlier_one(tmp_path: Path) -> None:
    """The earlier one stays, and says by what it was replaced."""
    old, new = told(World(tmp_path), "Our budget is $400.", "Our budget is now $500.")

    assert (old.replaced_by, new.replaces) == (new.name, old.name)
    assert not old.contradicts


def test_a_date_that_was_moved_replaces_the_earlier_one(tmp_path: Path) -> None:
    """In the form that says who moved it, too."""
    old, new = told(World(tmp_path), "Our wedding is on 14 June 2027.", "We moved the wedding to 21 June 2027.")

    assert (old.replaced_by, new.replaces) == (new.name, old.name)


def test_what_takes_back_one_rule_replaces_the_closest(tmp_path: Path) -> None:
    """The other rules of the same subject stand."""
    said = (
        "Before every commit, run the linter and the tests.",
        "Never squash commits.",
        "Forget the rule about commits.",
    )
    first, old, new = told(World(tmp_path), *said)

    assert (old.replaced_by, new.replaces, first.replaced_by) == (new.name, old.name, "")


def test_a_version_that_is_told_more_exactly_contradicts_nothing(tmp_path: Path) -> None:
    """2.3 and 2.3.1 may both be said of one thing."""
    found = told(World(tmp_path), "I'm using Flask 2.3 for it.", "I'm using Flask 2.3.1 for it.")

    assert [each.contradicts for each in found] == ["", ""]


@pytest.mark.parametrize("mark", [PINNED, STRUCK, CORRECTED])
def test_an_operators_verdict_is_kept(tmp_path: Path, mark: str) -> None:
    """In the next process too, until it is taken back."""
    world = World(tmp_path)
    (entry,) = told(world, "Our budget is $400.")
    world.runtime.ledger.mark(entry, mark, "$450", now=1.0)
    world = world.restart()
    (marked,) = world.runtime.ledger.marked([world.session().conversation_id])

    assert (marked.name, marked.mark, marked.correction) == (entry.name, mark, "$450")
    world.runtime.ledger.mark(marked, "", now=2.0)
    assert world.runtime.ledger.marked([world.session().conversation_id]) == []


def test_a_turn_from_a_rule_keeps_its_mark(tmp_path: Path) -> None:
    """Though what marked it is read without the rule that it replaced."""
    world = World(tmp_path)
    _, new = told(world, "Use npm, not pnpm.", "back to pnpm")
    world.runtime.ledger.mark(new, PINNED, now=1.0)
    (marked,) = world.runtime.ledger.marked([world.session().conversation_id])

    assert marked.name == new.name


def test_a_struck_entry_contradicts_nothing(tmp_path: Path) -> None:
    """Nobody says it any more."""
    world = World(tmp_path)
    old, _ = told(world, "Our budget is $400.", "Our budget is $500.")
    world.runtime.ledger.mark(old, STRUCK, now=1.0)

    assert [each.contradicts for each in read(world)] == ["", ""]


def test_what_was_kept_is_not_looked_at_again(tmp_path: Path) -> None:
    """Only what came since is."""
    world = World(tmp_path)
    told(world, "Our budget is $400.")
    ledger, conversations = world.runtime.ledger, [world.session().conversation_id]
    look = ledger.look(conversations, seconds=10)
    ledger.keep(look)

    assert look.looked == 1
    again = ledger.look(conversations, seconds=10)
    assert (again.looked, again.addresses) == (0, look.addresses)


def test_a_look_whose_time_is_up_says_so(tmp_path: Path) -> None:
    """And has not looked at the newest messages."""
    world = World(tmp_path)
    told(world, "Our budget is $400.")
    look = world.runtime.ledger.look([world.session().conversation_id], seconds=-1)

    assert (look.behind, look.looked) == (True, 0)


def test_a_rule_that_replaces_another_names_it(tmp_path: Path) -> None:
    """Both stand, dated; one that lifts nothing is none."""
    found = told(
        World(tmp_path),
        "Always use tabs.",
        "Never push to main.",
        "Never use tabs.",
        "You no longer need to run the tests.",
    )
    old, _, new = found

    assert [each.fact.text for each in found] == ["Always use tabs.", "Never push to main.", "Never use tabs."]
    assert (old.replaced_by, new.replaces) == (new.name, old.name)


@pytest.mark.parametrize("between", [0, 300], ids=["at once", "after what was kept"])
def test_what_the_next_message_takes_back_is_stated_no_longer(tmp_path: Path, between: int) -> None:
    """In words; a message between them is what is taken back instead."""
    world = World(tmp_path)
    live = chat()
    for n in range(between):
        live.user(f"note {n} of many").says("Noted.")
    for text in ("Our budget is $400.", "Look at the totals.", "never mind", "My deadline is on May 4."):
        live.user(text).says("Noted.")
    world.take(live)
    ledger, conversations = world.runtime.ledger, [world.session().conversation_id]
    ledger.keep(ledger.look(conversations, seconds=10))
    assert [each.fact.value for each in read(world)] == ["$400", "May 4"]

    world.take(live.user("never mind").says("ok"))

    assert [each.fact.value for each in read(world)] == ["$400"]


def test_messages_are_taken_back_one_after_the_other(tmp_path: Path) -> None:
    """Those that state nothing count too, so that no older fact goes in their place."""
    world = World(tmp_path)
    live = chat()
    for text in ("Our budget is $400.", "Look at the totals.", "Then print them.", "never mind", "forget it"):
        live.user(text).says("Noted.")
    world.take(live)
    ledger = world.runtime.ledger
    ledger.keep(ledger.look([world.session().conversation_id], seconds=10))

    assert [each.fact.value for each in read(world)] == ["$400"]


def test_who_takes_back_and_states_a_fact_takes_back_the_message_before_it(tmp_path: Path) -> None:
    """And not the older fact; what is stated beside it stands."""
    world = World(tmp_path)
    live = chat()
    for text in ("Our budget is $400.", "Look at the totals.", "Never mind. My deadline is on May 4."):
        live.user(text).says("Noted.")
    world.take(live)

    assert [each.fact.value for each in read(world)] == ["$400", "May 4"]


def test_a_date_that_is_told_more_exactly_contradicts_nothing(tmp_path: Path) -> None:
    """The year may be left out."""
    found = told(World(tmp_path), "My deadline is on May 4.", "My deadline is on May 4, 2026.")

    assert [each.contradicts for each in found] == ["", ""]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("我叔叔的生日是8月7号。", "我同事的生日是12月10号。"),
        ("张伟是我的表弟，其生日是07月15日。", "李婷婷是我的表妹，其生日是06月23日。"),
        ("My interview with Greg is on May 4.", "My interview with Laura is on May 9."),
        ("The budget is $400.", "The budget of our new project is $900."),
        ("The release is on 3 May.", "The release meeting is on 4 May."),
        ("The backend listens on port 8080.", "The frontend now listens on port 3000."),
        ("I have a budget of $50 for a present to Mia.", "Now I have a budget of $80 for the party."),
    ],
)
def test_facts_of_different_things_stand_side_by_side(tmp_path: Path, old: str, new: str) -> None:
    """Whose a thing is and with whom is a part of it."""
    for each in told(World(tmp_path), old, new):
        assert (each.replaced_by, each.contradicts) == ("", "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Our budget is $400.", "Our new budget is $500."),
        ("My deadline is on May 4.", "My new deadline is May 9."),
        ("I'm using Flask 2.3 for it.", "I've been upgrading to Flask 3.0 for it."),
        ("The retention is 15 days.", "No, the retention should be 30 days."),
        ("The alert threshold is 5% of requests.", "The alert threshold is 3% of requests, not 5%."),
        ("My customer number is K-4710.", "my customer number changed, it's K-4711"),
        ("Meine Kundennummer ist K-4710.", "Meine Kundennummer hat sich geändert, sie lautet jetzt K-4711."),
        ("Mi número de cliente es K-4710.", "Mi número de cliente cambió, ahora es K-4711."),
        ("My phone number is +49 30 1234567.", "my phone number changed, it's +49 30 7654321"),
        ("The kickoff is on 3 May.", "The kick-off meeting was moved to 4 May."),
        ("締め切りは12月20日です。", "締め切りは12月25日に変更になりました。"),
    ],
)
def test_a_new_value_replaces_the_earlier_one(tmp_path: Path, old: str, new: str) -> None:
    """Its own words say that it was another one."""
    first, second = told(World(tmp_path), old, new)

    assert (first.replaced_by, second.replaces) == (second.name, first.name)


def test_a_no_that_corrects_nothing_replaces_no_value(tmp_path: Path) -> None:
    """It belongs to the words behind it."""
    old, new = told(World(tmp_path), "Our budget is $400.", "No problem, our budget is $500.")

    assert (old.replaced_by, old.contradicts) == ("", new.name)


def test_a_change_of_something_else_in_the_sentence_replaces_no_value(tmp_path: Path) -> None:
    """Both stand, as a contradiction."""
    text = "I now have three people on the team for the whole of the next year, as I told you, and our budget is $500."
    old, new = told(World(tmp_path), "Our budget is $400.", text)

    assert (old.replaced_by, old.contradicts) == ("", new.name)
