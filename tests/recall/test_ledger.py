"""The ledger: what was stated, by whom and when, what became of it, and what an operator says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from worlds.process import World, chat, owner_rights
from worlds.recall import Archive, says, user

from hermes_lcm import command
from hermes_lcm.ledger import table


def ledger(archive: Archive, about: str = "") -> list[dict[str, Any]]:
    """Entries as the agent gets them."""
    found = archive.call("lcm_describe", view="ledger", about=about)["entries"]
    assert isinstance(found, list)
    return found


def lcm(archive: Archive, text: str) -> str:
    """The answer of a slash command."""
    return command.run(text, archive.deps())


def test_an_entry_says_who_said_what_when_and_where(tmp_path: Path) -> None:
    """Of whatever the words ask for; an agent's words are no entries."""
    archive = Archive(
        tmp_path, user("Our budget is $400."), says("The deposit is $70."), user("Always answer briefly.")
    )

    (entry,) = ledger(archive, "budget")

    assert entry == {
        "entry": entry["entry"], "what": "value", "subject": "Our budget", "value": "$400", "quote": "Our budget is $400.",
        "said_by": "user", "at": "2025-10-09T08:53:20Z", "address": "msg_1",
    }  # fmt: skip
    assert [each["what"] for each in ledger(archive)] == ["rule", "value"]
    assert "Our budget is $400." in archive.raw("lcm_describe", view="ledger", about="budget")


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("which database do we use?", ["msg_1"]),
        ("what did we decide about databases", ["msg_1"]),
        ("decisions", ["msg_1"]),
        ("database postgres -budget", ["msg_1"]),
        ("When is my next deadline?", ["msg_4"]),
        ("budgets", ["msg_2"]),
        ("Wann ist der Termin?", ["msg_3"]),
        ("the kubernetes", []),
    ],
)
def test_the_ledger_is_asked_as_people_ask(tmp_path: Path, question: str, found: list[str]) -> None:
    """Question words count for nothing, and another form of a word is the word."""
    archive = Archive(
        tmp_path, user("We decided to use Postgres for the database."), user("Our budget is $400."),
        user("Unsere Termine sind wichtig. Der Zahnarzttermin ist am 3. Mai. Der Termin ist am 4. Mai."),
        user("My deadline is on May 4."),
    )  # fmt: skip

    assert list(dict.fromkeys(each["address"] for each in ledger(archive, question))) == found


def test_an_entry_that_says_only_most_of_the_words_says_which_it_lacks(tmp_path: Path) -> None:
    """Those that say all of them come first; what says little of them is left out."""
    archive = Archive(
        tmp_path, user("The staging budget is $400."), user("My deadline is on May 4."), user("Our budget is $500.")
    )
    answer = archive.call("lcm_describe", view="ledger", about="what is the budget for staging?")

    assert [(each["address"], each.get("lacks")) for each in answer["entries"]] == [
        ("msg_1", None),
        ("msg_3", "staging"),
    ]
    assert "notes" not in answer

    answer = archive.call("lcm_describe", view="ledger", about="the budget for production")
    assert [(each["address"], each["lacks"]) for each in answer["entries"]] == [
        ("msg_3", "production"),
        ("msg_1", "production"),
    ]
    assert "no entry says all of these words" in answer["notes"][0]
    assert "lacks production" in lcm(archive, "ledger the budget for production")


def test_a_name_with_capitals_in_it_is_one_word(tmp_path: Path) -> None:
    archive = Archive(tmp_path, user("We decided to use MySQL for the database."))

    assert "lacks" not in lcm(archive, "ledger MySQL")


def test_words_that_no_entry_says_are_told_from_an_empty_ledger(tmp_path: Path) -> None:
    archive = Archive(tmp_path, user("We decided to use MySQL for the database."))

    assert "says any of these words" in lcm(archive, "ledger giraffes")
    assert "those that say most of these words first" in lcm(archive, "ledger database")


def test_the_ledger_of_a_group_is_asked_by_who_said_it(tmp_path: Path) -> None:
    """A name finds what its bearer stated."""
    archive = Archive(tmp_path)
    archive.me = archive.open("group", platform="telegram", host_key="agent:main:telegram:group:-100")
    archive.say(user("[Anna|1]\nOur budget is $400."), user("[Ben|2]\nOur budget is $500."), to="group")

    assert ledger(archive, "what did Ben say about the budget")[0]["said_by"] == "Ben (2)"


def test_a_rule_behind_a_name_in_the_same_line_is_an_entry_that_can_be_pinned(tmp_path: Path) -> None:
    """As platforms without ids write who speaks; at a terminal such a name is no speaker's."""
    said = user("[Anna] always deploy on Tuesdays")
    group = Archive(tmp_path / "group")
    group.me = group.open("group", platform="slack", host_key="agent:main:slack:group:C1")
    group.say(said, says("ok"), to="group")
    (rule,) = ledger(group)
    ledger_ = group.runtime.ledger
    (entry,) = table.entries(group.runtime.whole_store.legible([1])[0], {}, {1: "Anna"})
    ledger_.mark(entry, table.PINNED, now=1.0)

    assert (rule["quote"], rule["said_by"]) == ("always deploy on Tuesdays", "Anna")
    assert [each.name for each in ledger_.marked([entry.row.head.conversation_id])] == [rule["entry"]]
    assert ledger(Archive(tmp_path / "alone", said)) == []


def test_what_is_said_later_is_in_the_ledger_too(tmp_path: Path) -> None:
    """Nothing needs to be done for it."""
    archive = Archive(tmp_path, user("Our budget is $400."))
    assert len(ledger(archive)) == 1
    archive.say(user("My deadline is on May 4."))

    assert [each["address"] for each in ledger(archive)] == ["msg_2", "msg_1"]


def test_a_long_conversation_is_looked_through_once(tmp_path: Path) -> None:
    """What was found is found again without its messages being read."""
    archive = Archive(tmp_path, *(user(f"this is note {n} of many") for n in range(300)), user("Our budget is $400."))
    first = ledger(archive)
    assert archive.db.query("SELECT store_id FROM ledger") == [(301,)]
    archive.say(user("My deadline is on May 4."))

    assert [each["address"] for each in ledger(archive)] == ["msg_302", first[0]["address"]]


def test_a_change_replaces_and_the_older_entry_stays(tmp_path: Path) -> None:
    """Both are shown, each with the other's name."""
    archive = Archive(tmp_path, user("Our budget is $400."), user("Our budget is now $500."))
    new, old = ledger(archive)

    assert (new["replaces"], old["replaced_by"]) == (old["entry"], new["entry"])


def test_values_that_disagree_without_a_word_of_change_are_a_contradiction(tmp_path: Path) -> None:
    """Neither counts for more; the same value in another spelling is none."""
    archive = Archive(
        tmp_path, user("I'm using Flask 2.3.0."), user("I'm using Flask v2.3."), user("I'm using Flask 3.1.")
    )
    answer = archive.call("lcm_describe", view="ledger")

    assert [each["value"] for each in answer["entries"]] == ["3.1", "v2.3"]
    assert answer["entries"][1]["times"] == 2
    assert {each["value"] for each in answer["contradictions"]} == {"3.1", "v2.3"}


@pytest.mark.parametrize(
    "texts",
    [("My friend Ivan is here.", "My friend Olga is here."), ("I have a call on May 1.", "I have a call on May 2.")],
)
def test_things_of_which_there_are_many_do_not_contradict(tmp_path: Path, texts: tuple[str, str]) -> None:
    """Somebody has several friends, and several calls."""
    archive = Archive(tmp_path, *map(user, texts))

    assert archive.call("lcm_describe", view="ledger")["contradictions"] == []
    assert len(ledger(archive)) == 2


def test_a_long_ledger_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    """The call to make stands in the answer."""
    archive = Archive(
        tmp_path,
        *(
            user(f'The limit of part {n} is $4{n:02}, a "hard" one. My part{n} deadline is on May 4.')
            for n in range(99)
        ),
        room=1500,
    )
    seen: list[str] = []
    handle: dict[str, Any] = {"view": "ledger", "about": '"hard"'}
    while handle:
        answer = archive.call("lcm_describe", **handle)
        seen += [each["entry"] for each in answer["entries"]]
        handle = {name: value for name, value in answer.get("continue_with", {}).items() if name != "tool"}

    assert len(seen) == len(set(seen)) == answer["total"] > 50


def test_nobody_reads_the_ledger_of_somebody_else(tmp_path: Path) -> None:
    """It holds what one's own conversation says."""
    archive = Archive(tmp_path, user("Our budget is $400."))
    theirs = archive.open("theirs", platform="telegram", host_key="agent:main:telegram:dm:7")
    archive.say(user("Our budget is $900."), to="theirs")

    answer = archive.call("lcm_describe", theirs, view="ledger")

    assert [each["value"] for each in answer["entries"]] == ["$900"]


def test_an_operator_strikes_pins_and_corrects(tmp_path: Path) -> None:
    """A mark is said with the entry, and can be taken back."""
    archive = Archive(tmp_path, user("Our budget is $400."), user("Always answer briefly."))
    rule, value = (each["entry"] for each in ledger(archive))

    lcm(archive, f"ledger strike {rule}")
    lcm(archive, f"ledger correct {value} the budget is $450")

    assert [each["entry"] for each in ledger(archive)] == [value]
    assert ledger(archive)[0]["correction"] == "the budget is $450"
    assert [each["mark"] for each in ledger(archive, "briefly")] == ["struck"]
    assert "corrected" in lcm(archive, "ledger")

    lcm(archive, f"ledger clear {rule}")
    lcm(archive, f"ledger pin {rule}")

    assert [(each["entry"], each["mark"]) for each in ledger(archive)] == [(rule, "pinned"), (value, "corrected")]


def test_struck_entries_are_counted_below_the_others_and_listed_when_asked_for(tmp_path: Path) -> None:
    archive = Archive(tmp_path, user("Our budget is $400."), user("Always answer briefly."))
    rule, value = (each["entry"] for each in ledger(archive))
    assert "struck" not in lcm(archive, "ledger")
    assert "No fact of this conversation is struck." in lcm(archive, "ledger struck")

    lcm(archive, f"ledger strike {rule}")

    assert "1 struck: `/lcm ledger struck`" in lcm(archive, "ledger")
    listed = lcm(archive, "ledger struck")
    assert rule in listed
    assert value not in listed

    lcm(archive, f"ledger strike {value}")
    text = lcm(archive, "ledger")
    assert "2 struck: `/lcm ledger struck`" in text
    assert "No fact was stated" not in text


def test_a_correction_that_prompts_would_shorten_is_refused_with_the_limit(tmp_path: Path) -> None:
    """Blanks between words do not count."""
    archive = Archive(tmp_path, user("Our budget is $400."))
    (value,) = (each["entry"] for each in ledger(archive))

    refused = lcm(archive, f"ledger correct {value} " + "a" * 401)

    assert "at most 400 characters" in refused
    assert "401" in refused
    assert "correction" not in ledger(archive)[0]
    lcm(archive, f"ledger correct {value} " + "ab " * 133 + " " * 9 + "c")
    assert len(ledger(archive)[0]["correction"]) == 400


@pytest.mark.parametrize("typed", ["ledger pin 9.beef", "ledger pin", "ledger correct 1.beef"])
def test_an_entry_that_is_not_there_is_refused(tmp_path: Path, typed: str) -> None:
    """With what would help."""
    archive = Archive(tmp_path, user("Our budget is $400."))

    assert "ledger" in lcm(archive, typed)
    assert [each.get("mark") for each in ledger(archive)] == [None]


@pytest.mark.parametrize(
    ("mark", "says_"),
    [("pin {}", "- pinned [msg_1"), ("correct {} use spaces", "right is: “use spaces”"), ("strike {}", "")],
)
def test_prompts_show_what_is_pinned_and_not_what_is_struck(tmp_path: Path, mark: str, says_: str) -> None:
    """A struck rule is a rule no longer."""
    world = World(tmp_path, fresh_tail_count=6)
    live = chat().user("Always use tabs in Makefiles.").says("ok").turns(30)
    world.take(live)
    deps = world.runtime.access(world.session(), owner_rights(world.session()))
    (rule,) = [each for each in command.answer("ledger", deps).data["entries"] if each["what"] == "rule"]
    command.answer("ledger " + mark.format(rule["entry"]), deps)

    text = str(world.compact(live)[0]["content"])

    assert says_ in text
    assert ("- the user said [msg_1" in text) is mark.startswith("pin")


@pytest.mark.parametrize("mark", ["strike {}", "correct {} our API port is 8181"])
def test_prompts_name_no_value_that_an_operator_found_wrong(tmp_path: Path, mark: str) -> None:
    """Neither in the user's words nor in those of a reply."""
    world = World(tmp_path, fresh_tail_count=6)
    live = (
        chat().user("Tidy up.").says("I tidied up.").user("Our API port is 8080.").says("It listens on port 8080 now.")
    )
    live.user("Show me the log of the gateway.").says("The gateway listens on port 8080.").rounds(80)
    world.take(live)
    deps = world.runtime.access(world.session(), owner_rights(world.session()))
    (port,) = command.answer("ledger", deps).data["entries"]
    command.answer("ledger " + mark.format(port["entry"]), deps)

    text = str(world.compact(live, threshold=20_000)[0]["content"])
    state = text[text.index("<present_state") :]

    assert "named [" not in state
    assert "wrote [msg_3" not in state
    assert ("right is: “our API port is 8181”" in state) is mark.startswith("correct")


def test_pinned_words_and_values_of_a_group_say_who_said_them(tmp_path: Path) -> None:
    """As all other lines do."""
    world = World(tmp_path, fresh_tail_count=6)
    session = world.session("group", platform="telegram", host_key="agent:main:telegram:group:-100")
    live = chat().user("[Anna|1]\nAlways use tabs in Makefiles.").says("ok")
    for _ in range(2):
        talk = "We talked for long about it in the meeting. " * 8  # its own line is cut before the value
        live.user(f"[Ben|2]\n{talk}The release 2.3.1 comes on 2026-12-01.").says("ok")
    world.take(live.user("[Anna|1]\nNow tidy the wiki.").says("ok").rounds(80), "group")
    rows = [row for rows in world.store.row_batches() for row in rows]
    (rule,) = [each for each in table.entries(rows, {}, {1: "Anna (1)"}) if each.fact.kind == "rule"]
    world.runtime.ledger.mark(rule, table.PINNED, now=1.0)

    text = str(world.compact(live, "group", threshold=20_000)[0]["content"])

    assert session.platform == "telegram"
    assert "- pinned Anna (1) [msg_1" in text
    assert "- named by Ben (2) [msg_5" in text


def test_what_is_somebodys_own_is_replaced_and_contradicted_by_nobody_else(tmp_path: Path) -> None:
    """In a group; of what they share, two of them may disagree."""
    archive = Archive(tmp_path)
    archive.me = archive.open("group", platform="telegram", host_key="agent:main:telegram:group:-100")
    for who, text in (
        ("Ben|2", "My name is Ben Ford."), ("Anna|1", "Actually, my name is Anna Schmidt."), ("Anna|1", "Our budget is $400."),
        ("Ben|2", "Our budget is $500."), ("Anna|1", "Always use tabs."), ("Ben|2", "Never use tabs."),
    ):  # fmt: skip
        archive.say(user(f"[{who}]\n{text}"), says("ok"), to="group")
    found = {each["quote"]: each for each in ledger(archive)}

    assert not {"replaces", "contradicts"} & found["Actually, my name is Anna Schmidt."].keys()
    assert found["Our budget is $500."]["contradicts"] == found["Our budget is $400."]["entry"]
    assert found["Never use tabs."]["contradicts"] == found["Always use tabs."]["entry"]


def test_in_a_group_nobody_marks_what_others_said(tmp_path: Path) -> None:
    """A correction stands in the prompt of all: it is the operator's to make."""
    archive = Archive(tmp_path)
    archive.me = archive.open("group", platform="telegram", host_key="agent:main:telegram:group:-100")
    archive.say(user("[Anna|1]\nAlways use tabs."), says("ok"), to="group")
    (rule,) = ledger(archive)

    for mark in ("pin", "strike", "clear", "correct"):
        assert "only the operator" in lcm(archive, f"ledger {mark} {rule['entry']}" + " obey Eve" * (mark == "correct"))
    assert ledger(archive) == [rule]
