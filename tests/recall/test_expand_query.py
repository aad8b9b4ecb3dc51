"""Questions about the past: a bounded reader answers with sources that it read, and when it fails, the evidence does."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as within
from hypothesis import strategies as st
from worlds.recall import Archive, Model, calls, result, says, user, wants

from hermes_lcm.errors import SummaryTooLong, SummaryUnavailable
from hermes_lcm.llm import replies
from hermes_lcm.llm.client import Reply
from hermes_lcm.recall.paging import Readers
from hermes_lcm.text import tokens

QUESTION = "How often does the database password rotate?"


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(
        tmp_path,
        user("Look into the database password, please."),
        calls(json.dumps({"command": "cat /etc/app-config/db.yaml"})),
        result("rotation_days: 37\nowner: wang"),
        says("The database password rotates every 37 days."),
        *[user(f"unrelated topic {n}") for n in range(20)],
    )


def ask(archive: Archive, *answers: Any, **args: Any) -> dict[str, Any]:
    archive.model = Model(*answers)
    return archive.call("lcm_expand_query", **{"prompt": QUESTION, **args})


def answered(text: str, *cited: str) -> str:
    return json.dumps({"answer": text, "citedIds": list(cited)})


def read(archive: Archive) -> str:
    """Everything the model was shown."""
    return json.dumps([request["messages"] for request in archive.model.requests], ensure_ascii=False)


# -- the answer ----------------------------------------------------------------------------------------------------------
def test_the_answer_comes_with_the_sources_that_hold_it(archive: Archive) -> None:
    """All fields of the specification."""
    archive.node("They looked into the password.", [1, 2, 3, 4])

    answer = ask(archive, answered("Every 37 days.", "msg_4", "sum_1"))

    assert answer["answer"] == "Every 37 days."
    assert answer["citedIds"] == answer["cited_ids"] == ["msg_4", "sum_1"]
    assert answer["expandedSummaryCount"] == 1
    assert answer["totalSourceTokens"] > 0
    assert (answer["truncated"], answer["sourceConversationId"], answer["conversation_ids"]) == (False, 1, [1])
    assert "degraded" not in answer


def test_plain_text_is_an_answer(archive: Archive) -> None:
    """Small models forget the JSON."""
    answer = ask(archive, "From the evidence: every 37 days (msg_4).")

    assert answer["answer"] == "From the evidence: every 37 days (msg_4)."
    assert answer["cited_ids"] == ["msg_4"]


def test_what_was_not_read_cannot_be_cited(archive: Archive) -> None:
    """Nor what does not exist."""
    answer = ask(archive, answered("Every 37 days.", "msg_4", "msg_999", "sum_5"))

    assert answer["cited_ids"] == ["msg_4"]
    assert answer["dropped_citations"] == 2


def test_the_cited_messages_are_quoted(archive: Archive) -> None:
    """So the answer can be checked without another call."""
    answer = ask(archive, answered("Every 37 days.", "msg_4"))

    assert answer["quotes"][0]["address"] == "msg_4"
    assert answer["quotes"][0]["text"] == "The database password rotates every 37 days."


def test_without_citations_the_evidence_is_named(archive: Archive) -> None:
    """And it says that the model did not name it."""
    answer = ask(archive, "Every 37 days.")

    assert "msg_4" in answer["cited_ids"]
    assert answer["cited_by"] == "evidence read"


@pytest.mark.parametrize("limit", [20, 100, 400])
def test_an_answer_is_no_longer_than_asked_for(archive: Archive, limit: int) -> None:
    """A cut is told."""
    answer = ask(archive, answered(" ".join(f"word{n}" for n in range(900))), max_tokens=limit)

    assert tokens.count(answer["answer"]) <= limit
    assert answer["truncated"] is True


def test_a_reply_that_was_cut_by_the_provider_says_so(archive: Archive) -> None:
    """finish_reason length."""
    assert ask(archive, Reply('{"answer": "Every 37 da', "length"))["truncated"] is True


# -- the evidence ----------------------------------------------------------------------------------------------------------
def test_evidence_is_whole_turns_in_a_fence(archive: Archive) -> None:
    """The best hit with what surrounds it, in order of time, marked as data."""
    ask(archive, "x")
    shown = str(archive.model.requests[0]["messages"][1]["content"])

    places = [shown.index(f"[msg_{n} | ") for n in (3, 4, 5)]
    assert places == sorted(places)
    assert "[msg_3 | tool terminal | 2025-10-09T08:53:20Z]\nrotation_days: 37" in shown
    assert 'trust="quoted data"' in shown


def test_the_reader_never_gets_more_than_its_budget(archive: Archive) -> None:
    """context_max_tokens bounds evidence and steps together."""
    archive.say(*[user(f"database password {n} " + "words " * 2000) for n in range(10)])

    answer = ask(
        archive, wants("search", query="password"), wants("expand", address="msg_30"), "done", context_max_tokens=3000
    )

    assert answer["totalSourceTokens"] <= 3300
    assert tokens.count(read(archive)) < 3 * 3000 + 3000  # three requests, each repeats what was read before


def test_the_reply_to_what_was_found_is_read_to_its_end(tmp_path: Path) -> None:
    """Of a long reply the beginning does not do."""
    reply = "The story begins here. " * 120 + "Its dragon is painted turquoise."
    archive = Archive(tmp_path, user("write the story of the password dragon"), says(reply))

    ask(archive, answered("Turquoise.", "msg_2"), prompt="Which story of the password dragon did I want?")

    assert "turquoise" in read(archive)


def test_later_hits_are_read_at_their_match(tmp_path: Path) -> None:
    said = [user(f"the harbour ferry timetable, version {n}") for n in range(100, 120)]
    archive = Archive(tmp_path, *said)

    ask(archive, answered("Twenty.", "msg_1"), prompt="harbour ferry timetable version")

    assert [n for n in range(100, 120) if f"version {n}" not in read(archive)] == []


def test_named_summaries_are_read_with_their_messages(archive: Archive) -> None:
    """No search is needed for what is named."""
    node = archive.node("Something about credentials.", [1, 2, 3, 4])

    answer = ask(archive, answered("37", "sum_1", "msg_3"), prompt="What is the value?", summaryIds=[node.address])

    assert "rotation_days: 37" in read(archive)
    assert "unrelated topic" not in read(archive)
    assert answer["cited_ids"] == ["sum_1", "msg_3"]
    assert answer["expandedSummaryCount"] == 1


def test_a_query_may_differ_from_the_question(archive: Archive) -> None:
    """It is what is searched for; the question is what is asked."""
    ask(archive, "x", prompt="What is the number?", query="rotation_days")

    assert "rotation_days: 37" in read(archive)
    assert "What is the number?" in read(archive)


def test_nothing_found_needs_no_model(archive: Archive) -> None:
    """And is no error."""
    answer = ask(archive, "x", prompt="zebra xylophone")

    assert archive.model.requests == []
    assert answer["found"] is False
    assert "Nothing stored matches" in answer["answer"]


def test_a_needle_in_the_middle_of_a_huge_message_is_shown(archive: Archive) -> None:
    """A long message is shown around the hit, not from its beginning."""
    archive.say(result("filler line\n" * 20_000 + "the zebra code is 4711\n" + "filler line\n" * 20_000))

    ask(archive, "x", prompt="What is the zebra code?")

    assert "the zebra code is 4711" in read(archive)


# -- steps -----------------------------------------------------------------------------------------------------------------
def test_the_reader_may_search_describe_and_expand(archive: Archive) -> None:
    """What it then reads can be cited."""
    archive.node("About owners.", [2, 3])
    answer = ask(
        archive,
        wants("search", query="owner wang"),
        wants("describe", address="sum_1"),
        wants("expand", address="msg_21"),
        answered("wang", "msg_3", "msg_21"),
    )

    assert answer["cited_ids"] == ["msg_3", "msg_21"]
    assert len(archive.model.requests) == 4
    assert archive.model.requests[3]["messages"][-1]["content"].startswith("[msg_21 | user")


@pytest.mark.parametrize(
    "step",
    [
        wants("lcm_expand_query", prompt="again"), wants("terminal", command="rm"), wants("expand", address="msg_999"),
        wants("expand"), wants("search"), Reply("", "tool_calls", tool_calls=({"name": "expand", "arguments": "{"},)),
        Reply("", "tool_calls", tool_calls=({"name": "expand", "arguments": "[]"},)),
        Reply("", "tool_calls", tool_calls=({"name": "search", "arguments": '{"query": ["a"], "limit": "x"}'},)),
    ],
    ids=lambda step: str(step.tool_calls[0])[:60],
)  # fmt: skip
def test_a_bad_step_is_answered_not_raised(archive: Archive, step: Reply) -> None:
    """There is no way to ask again from within, and no way to break the reader."""
    assert ask(archive, step, answered("Every 37 days.", "msg_4"))["answer"] == "Every 37 days."


def test_a_reader_that_never_answers_is_stopped(archive: Archive) -> None:
    """After a few steps it gets the evidence's answer."""
    answer = ask(archive, wants("search", query="password"))

    assert len(archive.model.requests) <= 6
    assert answer["degraded"] is True
    assert "37 days" in answer["answer"]


def test_a_reader_of_named_summaries_stays_below_them(archive: Archive) -> None:
    """The grant names nodes; other messages of the same conversation are not in it."""
    archive.node("Credentials.", [1, 2])
    ask(archive, wants("expand", address="msg_10"), wants("search", query="unrelated topic"), "x", node_ids=["sum_1"])

    assert "unrelated topic 5" not in read(archive).replace("unrelated topic\\", "")
    assert "nothing that you may read has the address msg_10" in read(archive)


def test_a_reader_sees_only_the_callers_conversations(tmp_path: Path) -> None:
    """The grant is made of the same scope as every other tool."""
    archive = Archive(tmp_path)
    theirs = archive.open("theirs", platform="telegram", host_key="agent:main:telegram:dm:1")
    mine = archive.open("mine", platform="telegram", host_key="agent:main:telegram:dm:2")
    [secret] = archive.say(user("the zebra code is 4711"), to="theirs")
    archive.say(user("which zebra code?"), to="mine")
    archive.node("code 4711", [secret], conversation_id=theirs.conversation_id)
    archive.model = Model(
        wants("search", query="zebra code"),
        wants("expand", address=f"msg_{secret}"),
        wants("describe", address="sum_1"),
        "x",
    )

    answer = archive.raw("lcm_expand_query", mine, prompt="which zebra code?", session_scope="all")

    assert "4711" not in read(archive) + answer


# -- failure ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "failure",
    [
        SummaryUnavailable("timed out"), SummaryTooLong("too long"), Reply(""), Reply("  \n"), Reply("", reasoning_only=True),
        Reply("I can't", "refusal"), "and then it went on " * 500, "I'm sorry, but I can't help with that request.",
        "Error code: 401 - {'error': {'message': 'Incorrect API key provided'}}",
        lambda request: request["messages"][1]["content"],
    ],
    ids=range(10),
)  # fmt: skip
def test_when_the_model_fails_the_evidence_is_the_answer(archive: Archive, failure: Any) -> None:
    """Marked degraded, with the reason; never an empty error."""
    answer = ask(archive, failure)

    assert answer["degraded"] is True
    assert answer["reason"]
    assert "The database password rotates every 37 days." in answer["answer"]
    assert "msg_4" in answer["cited_ids"]


def test_a_model_without_tools_gets_the_evidence_alone(archive: Archive) -> None:
    """Some providers refuse a request that has tools."""

    def refuses(request: dict[str, Any]) -> Any:
        return SummaryUnavailable("400") if request["tools"] else answered("Every 37 days.", "msg_4")

    assert ask(archive, refuses)["answer"] == "Every 37 days."


def test_a_prompt_that_is_too_long_is_halved(archive: Archive) -> None:
    """One attempt with the better half of the evidence."""
    answer = ask(archive, SummaryTooLong("too long"), answered("Every 37 days.", "msg_4"))

    assert answer["answer"] == "Every 37 days."
    assert len(str(archive.model.requests[1])) < len(str(archive.model.requests[0]))


def test_the_deadline_holds_over_all_steps(archive: Archive) -> None:
    """Every request gets what is left of it."""
    now = [1000.0]
    archive.clock = lambda: now[0]

    def slow(request: dict[str, Any]) -> Any:
        now[0] += 50
        return wants("search", query="password")

    answer = ask(archive, slow)

    assert [round(request["timeout_s"]) for request in archive.model.requests] == [120, 70, 20]
    assert (answer["degraded"], answer["reason"]) == (True, "timed out")


def test_one_reader_at_a_time_per_session(archive: Archive) -> None:
    """A second question gets the evidence at once."""
    inside, go = threading.Event(), threading.Event()

    def waits(request: dict[str, Any]) -> Any:
        inside.set()
        go.wait(10)
        return answered("first", "msg_4")

    archive.model = Model(waits)
    got: list[dict[str, Any]] = []
    worker = threading.Thread(target=lambda: got.append(archive.call("lcm_expand_query", prompt=QUESTION)))
    worker.start()
    inside.wait(10)
    second = archive.call("lcm_expand_query", prompt=QUESTION)
    go.set()
    worker.join(10)
    third = archive.call("lcm_expand_query", prompt=QUESTION)

    assert (second["degraded"], got[0]["answer"], third["answer"]) == (True, "first", "first")


def test_the_expansion_model_is_used(tmp_path: Path) -> None:
    """Else the one that writes summaries, else the host's own."""
    for number, (settings, route) in enumerate(
        [({"expansion_model": "a/b", "summary_model": "c"}, "a/b"), ({"summary_model": "c"}, "c"), ({}, "")]
    ):
        (tmp_path / str(number)).mkdir()
        archive = Archive(tmp_path / str(number), user("zebra code 4711"), **settings)
        ask(archive, "x", prompt="zebra code?")

        assert archive.model.requests[0]["route"] == route


# -- replies ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "answer", "cited"),
    [
        ('{"answer": "a", "citedIds": ["msg_1"]}', "a", ("msg_1",)),
        ('```json\n{"answer": "a", "cited_ids": ["sum_2"]}\n```', "a", ("sum_2",)),
        ('Here you are: {"answer": "a (msg_3)"}', "a (msg_3)", ("msg_3",)),
        ('The file held {"answer": 42} then (msg_5).', 'The file held {"answer": 42} then (msg_5).', ("msg_5",)),
        ('{"answer": "broken off \\"here\\" and', 'broken off "here" and', ()),
        ('{"answer": ["x", 1], "citedIds": null}', '["x", 1]', ()),
        ("just text, see msg_4 and msg_4", "just text, see msg_4 and msg_4", ("msg_4",)),
        ('{"other": 1}', '{"other": 1}', ()),
        ("{not json", "{not json", ()),
    ],
)
def test_replies_are_salvaged(text: str, answer: str, cited: tuple[str, ...]) -> None:
    """JSON, JSON in a fence, JSON that broke off, text."""
    found = replies.parse(text)

    assert (found.answer, found.cited) == (answer, cited)


@given(st.text() | st.builds(lambda a, b: '{"answer": "' + a + b, st.text(), st.text()))
def test_no_reply_breaks_the_parser(text: str) -> None:
    """A model may write anything."""
    assert isinstance(replies.parse(text).answer, str)


# -- what does not fit ---------------------------------------------------------------------------------------------------
def pages(archive: Archive, first: dict[str, Any], **args: Any) -> str:
    """An answer and all its continuations, joined."""
    text = first["answer"]
    page = first
    while "continue_with" in page:
        handle = dict(page["continue_with"])
        assert handle.pop("tool") == "lcm_expand_query"
        page = archive.call("lcm_expand_query", **{**handle, **args})
        assert "error" not in page, page
        assert page["content_offset"] == len(text)
        assert page["answer"]
        text += page["answer"]
    assert page["truncated"] is False
    return text


@given(st.text(alphabet='ab \n数é"\\', min_size=600, max_size=3000))
@within(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_an_answer_that_was_cut_goes_on_exactly_there(archive: Archive, text: str) -> None:
    """To its end, without another call of the model."""
    whole = f"x{text}x"
    first = ask(archive, answered(whole, "msg_4"), max_tokens=60)
    asked = len(archive.model.requests)

    assert first["truncated"] is True
    assert pages(archive, first, max_tokens=60) == whole
    assert len(archive.model.requests) == asked


def test_evidence_that_was_cut_goes_on_exactly_there(archive: Archive) -> None:
    """The first page and the rest are what one large page would have been."""
    archive.say(*(user(f"The database password rotates, note {n}: " + "details " * 60) for n in range(12)))
    failure = SummaryUnavailable("provider is down")
    whole = ask(archive, failure, max_tokens=100_000)["answer"]
    archive.room = 900
    first = ask(archive, failure)

    assert first["degraded"] is first["truncated"] is True
    joined = pages(archive, first)
    assert joined.split("best first:")[1][:3000] == whole.split("best first:")[1][:3000]
    assert len(joined) > 3000


def test_nobody_else_gets_the_rest_of_an_answer(tmp_path: Path) -> None:
    """A cursor is no key to another principal's past."""
    archive = Archive(tmp_path)
    mine = archive.open("mine", platform="telegram", host_key="agent:main:telegram:dm:1")
    theirs = archive.open("theirs", platform="telegram", host_key="agent:main:telegram:dm:2")
    archive.say(user("my secret plan"), to="mine")
    archive.model = Model(answered("the secret plan: " + " ".join(f"step {n}" for n in range(300)), "msg_1"))
    first = archive.call("lcm_expand_query", mine, prompt="What is the plan?", max_tokens=60)
    handle = {k: v for k, v in first["continue_with"].items() if k != "tool"}

    assert "step 299" in archive.call("lcm_expand_query", mine, **handle)["answer"]
    assert archive.call("lcm_expand_query", theirs, **handle) == archive.call(
        "lcm_expand_query", theirs, **{**handle, "cursor": "0123456789abcdef.3"}
    )
    assert "ask again" in archive.call("lcm_expand_query", theirs, **handle)["error"]


def test_cut_evidence_names_the_tools_that_the_agent_has(archive: Archive) -> None:
    """The reader's own tools are not the host's."""
    needle = archive.say(user("filler " * 9000 + "the vault is in Bremen " + "filler " * 9000))[0]
    archive.model = Model(SummaryUnavailable("provider is down"))
    answer = archive.call("lcm_expand_query", prompt="vault in Bremen", context_max_tokens=1500)

    assert f'lcm_expand(store_id="msg_{needle}", content_offset=' in answer["answer"]


@pytest.mark.parametrize("store_ids", [None, ["msg_2..msg_4"]], ids=["found", "named"])
def test_a_damaged_message_is_no_evidence_and_keeps_no_question_from_being_answered(
    archive: Archive, store_ids: list[str] | None
) -> None:
    """Which it is, the answer says."""
    with archive.db.transaction():
        archive.db.execute("UPDATE messages SET envelope = x'ffff' WHERE store_id = 3")
    answer = ask(archive, "Every 37 days [msg_4].", **({"ids": store_ids} if store_ids else {}))

    assert answer["answer"].startswith("Every 37 days")
    assert any("msg_3" in note for note in answer["notes"])


def test_nothing_of_a_damaged_result_is_quoted(archive: Archive) -> None:
    """Its row tells which tool it is of; that is not what it said."""
    with archive.db.transaction():
        archive.db.execute("UPDATE messages SET envelope = x'ffff' WHERE role = 'tool'")
    damaged = [
        f"msg_{store_id}" for (store_id,) in archive.db.query("SELECT store_id FROM messages WHERE role = 'tool'")
    ]
    answer = ask(archive, f"As it says [{damaged[0]}].", ids=damaged)

    assert not set(damaged) & {quote["address"] for quote in answer.get("quotes", ())}
    assert not set(damaged) & set(answer["cited_ids"])


# -- citations -------------------------------------------------------------------------------------------------------------
def test_a_citation_that_has_nothing_to_do_with_the_answer_is_dropped(archive: Archive) -> None:
    """Its text was read, but holds not one word of what is said."""
    ids = archive.say(user("the zebra lives in Lisbon"), says("zebra noted"))

    answer = ask(archive, answered("Lisbon", f"msg_{ids[0]}", f"msg_{ids[1]}"), prompt="Where does the zebra live?")

    assert answer["cited_ids"] == [f"msg_{ids[0]}"]
    assert answer["dropped_citations"] == 1


def test_what_stands_in_for_citations_has_to_do_with_the_answer(archive: Archive) -> None:
    """None of those that the model gave held a word of it."""
    ids = archive.say(user("where does the zebra live?"), says("It lives in Lisbon."), user("and does the zebra eat?"))

    answer = ask(archive, answered("Lisbon", f"msg_{ids[0]}"), prompt="Where does the zebra live?")

    assert (answer["cited_ids"], answer["cited_by"]) == ([f"msg_{ids[1]}"], "evidence read")


def test_the_message_that_holds_a_value_of_the_answer_is_cited_too(archive: Archive) -> None:
    """A small model cites the question, or one source of two."""
    asked, gateway, database, _ = archive.say(
        user("what port did we choose for the zebra gateway?"), says("The zebra gateway has port 7443."),
        says("The zebra database has port 5432."), user("room 7443 is where the party is"),
    )  # fmt: skip
    prompt = "Which ports have the zebra gateway and database?"

    one = ask(archive, answered("The zebra gateway has port 7443.", f"msg_{asked}"), prompt=prompt)
    two = ask(archive, answered("Port 7443 and for the database 5432.", f"msg_{gateway}"), prompt=prompt)

    assert one["cited_ids"] == [f"msg_{asked}", f"msg_{gateway}"]
    assert two["cited_ids"] == [f"msg_{gateway}", f"msg_{database}"]


@pytest.mark.parametrize(
    ("value", "told"), [("port 7443", []), ("port 7444", ["7444"]), ("src/gate_2.py", ["src/gate_2.py"])]
)
def test_a_value_that_was_not_read_is_named(archive: Archive, value: str, told: list[str]) -> None:
    """A helper model may invent; whoever asked can tell."""
    [store_id] = archive.say(user("the gateway zebra has port 7443"))

    answer = ask(archive, answered(f"It has {value}.", f"msg_{store_id}"), prompt="Which port has the gateway zebra?")

    assert answer.get("not_in_the_record", []) == told


def test_nobody_pushes_out_what_another_has_not_read_to_its_end() -> None:
    """Long answers are kept for each asker; of their own the newest ones."""
    readers = Readers()
    name = readers.keep("mine", "a long answer")
    for n in range(200):
        readers.keep("theirs", f"answer {n}")

    assert readers.kept_answer("mine", name) == "a long answer"
    assert readers.kept_answer("theirs", name) is None
    for n in range(40):
        readers.keep("mine", f"answer {n}")
    assert readers.kept_answer("mine", name) is None
