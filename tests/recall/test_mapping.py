"""``lcm_map``: one question to many messages, in parallel under a budget; each answer with its source, joined at the end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds.recall import Archive, Model, calls, result, says, user

from hermes_lcm import command
from hermes_lcm.errors import StoreError, SummaryTooLong, SummaryUnavailable
from hermes_lcm.records import Flag
from hermes_lcm.session import Session
from hermes_lcm.store import NewRow
from hermes_lcm.text import content, tokens

PRICES = [user(f"Offer {n} costs {n}00 dollars.") for n in range(1, 7)]


def reader(request: dict[str, Any]) -> str:
    """A model that tells the price of an offer, and joins what it is given."""
    asked = request["messages"][1]["content"]
    if "into one answer" in request["messages"][0]["content"]:
        return f"{asked.count('msg_')} offers"
    return asked.split("costs ")[1].split(" dollars")[0] if "costs" in asked else "NOTHING"


def archive(folder: Path, *messages: dict[str, Any], **settings: Any) -> Archive:
    made = Archive(folder, *messages, **settings)
    made.model = Model(reader)
    return made


def asked(found: Archive, session: Session | None = None, **args: Any) -> dict[str, Any]:
    return found.call("lcm_map", session, prompt="What does the offer cost?", **args)


@pytest.mark.parametrize(
    "named", [{"query": "offer costs"}, {"store_ids": ["msg_1..msg_6"]}, {"store_ids": ["sum_1"]}], ids=str
)
def test_each_message_is_asked_and_the_answers_are_joined(tmp_path: Path, named: dict[str, Any]) -> None:
    """Every answer stands with the address of its message."""
    found = archive(tmp_path, *PRICES)
    found.node("offers", range(1, 7))

    answer = asked(found, **named)

    assert {each["address"]: each["answer"] for each in answer["answers"]} == {
        f"msg_{n}": f"{n}00" for n in range(1, 7)
    }
    assert (answer["asked"], answer["of"], answer["answer"]) == (6, 6, "6 offers")


def test_a_message_that_says_nothing_is_left_out(tmp_path: Path) -> None:
    """It was asked all the same."""
    answer = asked(archive(tmp_path, *PRICES[:2], says("offer noted")), store_ids=["msg_1..msg_3"])

    assert [each["address"] for each in answer["answers"]] == ["msg_1", "msg_2"]
    assert answer["asked"] == 3


def test_a_message_in_two_forms_is_asked_once(tmp_path: Path) -> None:
    """The later form stands for it; the earlier one is asked where it alone is named. A copy of a message is none besides it."""
    found = archive(tmp_path, user("Offer 1 costs 100 dollars."))
    rows = [
        NewRow(content.read_message(user("Offer 1 costs 900 dollars.")), revises=1),
        NewRow(content.read_message(user("Offer 1 costs 900 dollars.")), flags=Flag.DUPLICATE),
    ]
    found.store.append(found.me.conversation_id, "main", 1, rows, source="cli", now=1.0)

    both, earlier = asked(found, store_ids=["msg_1..msg_3"]), asked(found, store_ids=["msg_1"])

    assert [each["address"] for each in both["answers"]] == ["msg_2"]
    assert [each["answer"] for each in earlier["answers"]] == ["100"]


def test_the_same_call_goes_on_where_the_budget_ended(tmp_path: Path) -> None:
    """Nothing is asked twice, and the end is joined."""
    found = archive(tmp_path, *PRICES, expansion_context_tokens=800, summary_parallelism=1)
    first = asked(found, store_ids=["msg_1..msg_6"])
    assert 0 < first["asked"] < 6
    assert "same call goes on" in first["notes"][0]

    found.config = type(found.config)(expansion_context_tokens=32_000)
    second = asked(found, store_ids=["msg_1..msg_6"])

    assert (second["asked"], second["answer"]) == (6, "6 offers")
    assert len(found.model.requests) == 7


def test_a_budget_that_ends_before_the_joining_says_so(tmp_path: Path) -> None:
    """All were asked; the same call joins them."""
    found = archive(tmp_path, *PRICES, expansion_context_tokens=1800, summary_parallelism=1)
    first = asked(found, store_ids=["msg_1..msg_6"])
    second = asked(found, store_ids=["msg_1..msg_6"])

    assert (first["asked"], first["answer"]) == (6, None)
    assert "the answers are not joined" in first["notes"][-1]
    assert (second["answer"], len(found.model.requests)) == ("6 offers", 7)


def test_a_long_question_counts_for_each_message_that_is_asked(tmp_path: Path) -> None:
    """It goes to the model with every one of them."""
    found = archive(tmp_path, *PRICES, expansion_context_tokens=4000, summary_parallelism=1)

    answer = found.call(
        "lcm_map", prompt="What does the offer cost? " + "think of it well " * 300, store_ids=["msg_1..msg_6"]
    )

    sent = sum(tokens.count(each["messages"][1]["content"]) for each in found.model.requests)
    assert 0 < answer["asked"] < 3
    assert sent <= answer["used_tokens"]


def test_more_answers_than_a_request_holds_are_joined_as_far_as_it_does(tmp_path: Path) -> None:
    """The newest ones, since the later one holds; how many are left out is said."""
    found = archive(tmp_path, *PRICES, expansion_context_tokens=100, summary_parallelism=1)
    for _ in PRICES:
        answer = asked(found, store_ids=["msg_1..msg_6"])
    joining = found.model.requests[-1]["messages"][1]["content"]

    assert len(answer["answers"]) == 6
    assert ("msg_6" in joining, "msg_1" in joining) == (True, False)
    assert tokens.count(joining) < 200
    assert any("found no room in the joined one" in note for note in answer["notes"])


DIES = """
import os, sys
from pathlib import Path
from test_mapping import PRICES, archive, asked, reader
from worlds.recall import Model
found = archive(Path(sys.argv[1]), *PRICES, summary_parallelism=1)
found.model = Model(lambda request: os._exit(9) if len(found.model.requests) > 3 else reader(request))
asked(found, store_ids=["msg_1..msg_6"])
"""


def test_a_run_goes_on_after_its_process_was_killed(tmp_path: Path) -> None:
    """Each answer was noted on its own; status says how far it is; what is finished leaves nothing behind."""
    paths = os.pathsep.join([*sys.path, str(Path(__file__).parent)])
    died = subprocess.run([sys.executable, "-P", "-c", DIES, str(tmp_path)], env={**os.environ, "PYTHONPATH": paths})
    assert died.returncode == 9
    found = archive(tmp_path)

    assert "3 of 6 messages asked; the same call goes on" in command.run("status", found.deps())
    answer = asked(found, store_ids=["msg_1..msg_6"])

    assert (answer["asked"], answer["answer"]) == (6, "6 offers")
    assert len(found.model.requests) == 4
    assert "messages asked" not in command.run("status", found.deps())
    assert found.db.query("SELECT key FROM meta WHERE key LIKE 'mapp%'") == []


def unfinished(folder: Path) -> Archive:
    """An archive with three of six answers noted, opened by another process."""
    found = archive(folder, *PRICES, expansion_context_tokens=800, summary_parallelism=1)
    assert 0 < asked(found, store_ids=["msg_1..msg_6"])["asked"] < 6
    found.db.close()
    return archive(folder)


def test_answers_of_an_unfinished_run_are_those_of_who_asked(tmp_path: Path) -> None:
    """Another question, and another chat's, begin anew."""
    found = unfinished(tmp_path)
    theirs = found.open("theirs", platform="telegram", host_key="agent:main:telegram:dm:7")
    found.say(*PRICES, to="theirs")
    asked(found, theirs, store_ids=["msg_7..msg_12"])
    assert len(found.model.requests) == 7

    found.call("lcm_map", prompt="Which offer is it?", store_ids=["msg_1..msg_6"])

    assert len(found.model.requests) == 14


def test_another_session_that_asks_the_same_leaves_an_unfinished_run_as_it_is(tmp_path: Path) -> None:
    """Each is answered from the messages that it named, and the first one goes on where it was."""
    found = unfinished(tmp_path)
    second = found.open("second")
    found.say(user("Offer 7 costs 700 dollars."), user("Offer 8 costs 800 dollars."), to="second")

    theirs = asked(found, second, store_ids=["msg_7..msg_8"])
    requests = len(found.model.requests)
    mine = asked(found, store_ids=["msg_1..msg_6"])

    assert [each["address"] for each in theirs["answers"]] == ["msg_7", "msg_8"]
    assert [each["address"] for each in mine["answers"]] == [f"msg_{n}" for n in range(1, 7)]
    assert len(found.model.requests) - requests == 4


def test_a_speaker_is_asked_for_their_own_words_alone(tmp_path: Path) -> None:
    """Named by addresses, too; others' words in the same message are not given to the model."""
    found = archive(tmp_path)
    found.me = found.open("group", platform="telegram", host_key="agent:main:telegram:group:-100")
    heard = "[Recent channel messages]\n[Anna] Offer 1 costs 100 dollars.\n\n[New message]\n"
    found.say(
        user("[Ben|2]\nOffer 2 costs 200 dollars."), user(f"{heard}[Carl|3]\nOffer 3 costs 300 dollars."), to="group"
    )

    answer = asked(found, store_ids=["msg_1..msg_2"], speaker="Carl")

    assert [(each["address"], each["answer"]) for each in answer["answers"]] == [("msg_2", "300")]
    assert "Offer 1" not in str(found.model.requests)


@pytest.mark.parametrize(
    ("filters", "passing"),
    [
        ({"role": ["user"]}, [1, 3]),
        ({"source": ["telegram"]}, [3]),
        ({"time_from": 150.0}, [3]),
        ({"time_to": 150.0}, [1, 2]),
    ],
    ids=str,
)
def test_filters_hold_for_messages_that_are_named_by_address(
    tmp_path: Path, filters: dict[str, Any], passing: list[int]
) -> None:
    """The call that goes on has them too."""
    found = archive(tmp_path)
    found.say(PRICES[0], says("Offer 2 costs 200 dollars."), at=100.0)
    found.say(*PRICES[2:4], to="main", source="telegram", at=200.0)

    answer = asked(found, store_ids=["msg_1..msg_4"], limit=3, **filters)

    assert [each["address"] for each in answer["answers"]] == [f"msg_{n}" for n in passing]
    handle = answer["continue_with"]
    assert handle["store_ids"] == ["msg_4..msg_4"]
    assert {name: handle.get(name) for name in filters} == filters


def test_answers_go_when_a_message_is_rewritten(tmp_path: Path) -> None:
    """What a model made of it must not outlive it."""
    found = unfinished(tmp_path)

    answer = command.answer("purge messages msg_1 apply", replace(found.deps(), trusted=True))

    assert answer.code == command.OK, answer.text
    assert found.db.query("SELECT key FROM meta WHERE key LIKE 'mapped:%'") == []


def purged(found: Archive, address: str) -> None:
    answer = command.answer(f"purge messages {address} apply", replace(found.deps(), trusted=True))
    assert answer.code == command.OK, answer.text


def test_an_answer_of_a_message_that_goes_meanwhile_is_not_noted(tmp_path: Path) -> None:
    """The model has read it before the purge, and answers behind it."""
    found = archive(tmp_path, *PRICES, expansion_context_tokens=800, summary_parallelism=1)

    def slow(request: dict[str, Any]) -> str:
        if "costs 200" in request["messages"][1]["content"]:
            purged(found, "msg_2")
        return reader(request)

    found.model = Model(slow)
    asked(found, store_ids=["msg_1..msg_6"])

    kept = found.db.query("SELECT value FROM meta WHERE key LIKE 'mapped:%'")
    assert kept
    assert not any("200" in value for (value,) in kept)


def test_answers_of_a_finished_run_go_with_the_words_of_their_messages(tmp_path: Path) -> None:
    """They are kept in memory, where no purge looks."""
    found = archive(tmp_path, *PRICES)
    asked(found, store_ids=["msg_1..msg_6"])
    purged(found, "msg_3")

    answer = asked(found, store_ids=["msg_1..msg_6"])

    assert [each["answer"] for each in answer["answers"]] == ["100", "200", "400", "500", "600"]
    assert len(found.model.requests) == 6 + 1 + 1 + 1  # the emptied one again, and both ends


def test_a_run_that_cannot_be_noted_is_answered_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that it would begin anew."""
    found = archive(tmp_path, *PRICES)

    def full(*_: object) -> None:
        raise StoreError("disk full")

    monkeypatch.setattr("hermes_lcm.storage.meta.Meta.note", full)
    answer = asked(found, store_ids=["msg_1..msg_6"])

    assert answer["answer"] == "6 offers"
    assert "disk full" in answer["notes"][0]


@pytest.mark.parametrize("clock", [0.0, 1e9], ids=["in time", "too late"])
def test_a_job_ends_with_its_time(tmp_path: Path, clock: float) -> None:
    """Whatever is left waits for the next call."""
    found = archive(tmp_path, *PRICES)
    ticks = iter([0.0])
    found.clock = lambda: next(ticks, clock)

    assert asked(found, store_ids=["msg_1..msg_6"])["asked"] == (0 if clock else 6)


@pytest.mark.parametrize("tool", ["lcm_map", "lcm_expand_query"])
def test_a_model_that_does_not_return_is_not_waited_for(tmp_path: Path, tool: str) -> None:
    """The host asks it again when it was late, as long each time."""
    found = archive(tmp_path, *PRICES, expansion_timeout_ms=1500)
    gate = threading.Event()
    found.model = Model(lambda _: gate.wait(60))

    answer = found.call(tool, prompt="What does the offer cost?", query="offer")

    assert not gate.is_set()
    assert (answer["degraded"], answer["reason"]) == (True, "timed out")
    gate.set()


def test_without_a_model_the_call_is_refused_politely(tmp_path: Path) -> None:
    """After two requests, with what works without one."""
    found = archive(tmp_path, *PRICES)
    found.model = Model(SummaryUnavailable("no provider is configured"))

    answer = asked(found, query="offer")

    assert (answer["degraded"], answer["reason"], answer["answers"]) == (True, "no provider is configured", [])
    assert "lcm_grep" in answer["notes"][0]
    assert len(found.model.requests) == 2


@pytest.mark.parametrize(
    "failure", [SummaryUnavailable("400"), SummaryTooLong("too long")], ids=["refused", "too long"]
)
@pytest.mark.parametrize("at", [1, 4])
def test_a_message_that_a_provider_never_answers_is_not_in_the_way(tmp_path: Path, failure: Exception, at: int) -> None:
    """The others are asked and joined, and the answer says which one is missing."""

    def fails(request: dict[str, Any]) -> Any:
        return failure if f"Offer {at} costs" in request["messages"][1]["content"] else reader(request)

    found = archive(tmp_path, *PRICES)
    found.model = Model(fails)
    answer = asked(found, store_ids=["msg_1..msg_6"])

    assert [each["address"] for each in answer["answers"]] == [f"msg_{n}" for n in range(1, 7) if n != at]
    assert (answer["answer"], answer["reason"]) == ("5 offers", str(failure))
    assert f"of msg_{at} the model gave no answer" in answer["notes"][0]


def test_a_model_that_goes_away_leaves_the_rest_to_the_same_call(tmp_path: Path) -> None:
    """It is there again, and what was answered is not asked anew."""
    found = archive(tmp_path, *PRICES, summary_parallelism=1)
    found.model = Model(lambda request: reader(request) if len(found.model.requests) < 3 else SummaryUnavailable("503"))
    first = asked(found, store_ids=["msg_1..msg_6"])
    found.model = Model(reader)
    second = asked(found, store_ids=["msg_1..msg_6"])

    assert len(first["answers"]) == 2
    assert (
        "the model does not answer any more; the same call goes on with the 1 messages that are left" in first["notes"]
    )
    assert (second["asked"], second["answer"], len(found.model.requests)) == (6, "6 offers", 5)


def test_status_says_how_far_a_job_is(tmp_path: Path) -> None:
    """While it runs; a second one of the session is told to wait."""
    found = archive(tmp_path, *PRICES)
    began, go_on = threading.Event(), threading.Event()

    def slowly(request: dict[str, Any]) -> str:
        if "Offer 2" in request["messages"][1]["content"]:
            began.set()
            assert go_on.wait(10)
        return reader(request)

    found.model = Model(slowly)
    job = threading.Thread(target=asked, args=(found,), kwargs={"store_ids": ["msg_1..msg_6"]})
    job.start()
    try:
        assert began.wait(10)
        assert " of 6 messages asked" in command.run("status", found.deps())
        assert "still being answered" in asked(found, store_ids=["msg_1"])["error"]
    finally:
        go_on.set()
        job.join(10)
    assert "messages asked" not in command.run("status", found.deps())


def test_messages_of_others_are_not_asked(tmp_path: Path) -> None:
    """An address that may not be read is as if it were not there."""
    found = archive(tmp_path, *PRICES)
    theirs = found.open("theirs", platform="telegram", host_key="agent:main:telegram:dm:7")

    answer = asked(found, theirs, store_ids=["msg_1..msg_6"])

    assert (answer["of"], answer["answers"]) == (0, [])
    assert found.model.requests == []


@pytest.mark.parametrize("args", [{}, {"store_ids": ["file_ab12"]}])
def test_what_names_no_messages_is_refused(tmp_path: Path, args: dict[str, Any]) -> None:
    """With what would."""
    assert "msg_10..msg_20" in asked(archive(tmp_path, *PRICES), **args)["error"]


@pytest.mark.parametrize("name", ["query", "session_scope"])
def test_addresses_and_a_search_in_one_call_are_refused(tmp_path: Path, name: str) -> None:
    """The addresses name the messages: a search beside them would be ignored."""
    found = archive(tmp_path, *PRICES)
    error = asked(found, store_ids=["msg_1..msg_2"], **{name: "all" if name == "session_scope" else "offer"})["error"]

    assert f"takes no {name}: give either the addresses or a search" in error
    assert found.model.requests == []


def test_answers_that_do_not_fit_come_with_the_call_for_the_rest(tmp_path: Path) -> None:
    """No message is asked twice for it."""
    found = archive(tmp_path, *(user(f"Offer {n} costs {n}00 dollars. {'x ' * 90}") for n in range(60)), room=1200)
    answer = asked(found, store_ids=["msg_1..msg_60"], limit=60)
    seen = [each["address"] for each in answer["answers"]]
    requests = len(found.model.requests)
    while handle := answer.get("continue_with"):
        answer = found.call(handle["tool"], **{name: value for name, value in handle.items() if name != "tool"})
        seen += [each["address"] for each in answer["answers"]]

    assert seen == [f"msg_{n}" for n in range(1, 61)]
    assert {each["messages"][0]["content"][:20] for each in found.model.requests[requests:]} <= {"Below are answers to"}


def test_a_range_that_is_too_large_for_one_call_goes_on(tmp_path: Path) -> None:
    """No message is left out in silence; hits of a search besides the best are spoken of."""
    found = archive(tmp_path, *(user(f"Offer {n} costs {n}00 dollars.") for n in range(1, 61)))
    found.config = replace(found.config, expansion_context_tokens=100_000)
    assert asked(found, store_ids=["msg_1..msg_60"])["of"] == 60

    answer = asked(found, store_ids=["msg_1..msg_50", "msg_51..msg_60"], limit=45)
    handle = answer["continue_with"]

    assert (answer["of"], handle["store_ids"]) == (45, ["msg_46..msg_50", "msg_51..msg_60"])
    assert "msg_46..msg_50" in answer["notes"][0]
    assert asked(found, store_ids=handle["store_ids"])["of"] == 15
    assert "the best 40 hits" in asked(found, query="offer costs")["notes"][0]


def test_neighbours_of_hits_are_no_hits_besides(tmp_path: Path) -> None:
    """They are asked as well."""
    found = archive(tmp_path, *(each for price in PRICES for each in (price, says("Noted."))))
    found.say(
        user("Tell me."), calls('{"query": "offer costs"}', name="lcm_map"), result("offer costs", name="lcm_map")
    )

    assert "notes" not in asked(found, query="offer costs")


@pytest.mark.parametrize(
    "bad", ["", "I'm sorry, but I can't help with that.", "<html><body>502 Bad Gateway</body></html>"]
)
def test_answers_that_cannot_be_used_end_no_run(tmp_path: Path, bad: str) -> None:
    """However many there are: the others are asked and joined, and the answer says which are missing."""

    def partly(request: dict[str, Any]) -> str:
        text = request["messages"][1]["content"]
        return bad if any(f"Offer {n} costs" in text for n in range(2, 6)) else reader(request)

    found = archive(tmp_path, *PRICES, summary_parallelism=1)
    found.model = Model(partly)
    answer = asked(found, store_ids=["msg_1..msg_6"])

    assert [each["address"] for each in answer["answers"]] == ["msg_1", "msg_6"]
    assert (answer["answer"], answer["degraded"]) == ("2 offers", True)
    assert "msg_2..msg_5 the model gave no answer" in answer["notes"][0]
    assert "budget is used up" not in str(answer["notes"])


def test_one_message_that_the_model_refuses_is_not_in_the_way_of_the_others(tmp_path: Path) -> None:
    """It is the first one, in this call and in every other."""
    found = archive(tmp_path, *PRICES)
    found.model = Model(lambda request: "" if "Offer 1 " in request["messages"][1]["content"] else reader(request))

    answer = asked(found, store_ids=["msg_1..msg_6"])

    assert [each["address"] for each in answer["answers"]] == [f"msg_{n}" for n in range(2, 7)]
    assert "msg_1 the model gave no answer" in answer["notes"][0]


def test_a_model_that_says_nothing_at_all_is_not_asked_about_every_message(tmp_path: Path) -> None:
    """Nor is that the end of a budget."""
    found = archive(tmp_path, *PRICES, summary_parallelism=1)
    found.model = Model("")

    answer = asked(found, store_ids=["msg_1..msg_6"])

    assert len(found.model.requests) == 3
    assert "no model answers" in str(answer["notes"])


def test_what_was_not_read_of_a_long_message_is_told(tmp_path: Path) -> None:
    answer = asked(archive(tmp_path, user("x " * 20_000 + "it costs 700 dollars")), store_ids=["msg_1"])

    assert "of msg_1 only the first 24,000 characters were read" in answer["notes"][0]


def test_a_model_that_goes_on_and_on_fills_no_answer(tmp_path: Path) -> None:
    """It was asked for a few sentences."""
    found = archive(tmp_path, *PRICES)
    found.model = Model(lambda _: " ".join(f"word{n}" for n in range(20_000)))

    assert len(found.raw("lcm_map", prompt="What does it cost?", store_ids=["msg_1..msg_6"])) < 30_000
