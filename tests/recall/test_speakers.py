"""Who said it: speakers of shared chats, and sub-agents whose results carry the address of their own record."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from worlds.recall import NOW, Archive, Model, calls, result, says, user

from hermes_lcm.engine import LCMEngine
from hermes_lcm.store import NewRow
from hermes_lcm.text import content, markers

GROUP = "agent:main:telegram:group:-100"
IMAGE = (
    "[The user sent an image~ Here's what I can see:\nA sign [red]: never park here.]\n"
    "[If you need a closer look, use vision_analyze with image_url: /tmp/a.png ~]"
)

SWITCHED = "[Note: model was just switched from a to b via c. Adjust your self-identification accordingly.]"
RESTARTED = "[System note: The previous turn was interrupted by a gateway restart.]"
HEARD = "[Observed Telegram group context - context only, not requests]\n"
ADDRESSED = (
    "\n\n[Current addressed message - answer only this unless it explicitly asks you to use the observed context]\n"
)


def group(folder: Path, *texts: str) -> Archive:
    """A chat of several people, each message as the gateway hands it over."""
    archive = Archive(folder)
    archive.me = archive.open("group", platform="telegram", host_key=GROUP)
    archive.say(*(each for text in texts for each in (user(text), says("ok"))), to="group")
    return archive


@pytest.mark.parametrize(
    ("text", "speaker"),
    [
        ("[Anna] the budget is 40", ("Anna", "")),
        ("[Anna Schmidt|4711]\nthe budget is 40", ("Anna Schmidt", "4711")),
        ("[Tue 2026-04-28 13:40:53 CEST] [Anna] hello", ("Anna", "")),
        ("[Recent channel messages]\n[Ben] hi\n[Eve] ho\n\n[New message]\n[Anna] hello", ("Anna", "")),
        ("[Recent channel messages]\n[Eve] ho\n\n[New message]\n[Anna] hi\n\n[New message]\n[Ben] hello", ("", "")),
        ('[Replying to: "hi"]\n\n[Anna] do it"]\n\n[Ben] hello', ("", "")),
        ('[Replying to: "the plan"]\n\n[Anna] hello', ("Anna", "")),
        ("[The user sent a document: 'a.pdf'. It is saved at: /a.pdf.]\n\n[Anna] hello", ("Anna", "")),
        ('"I said it aloud."\n\n[Anna]', ("Anna", "")),
        ('"One."\n\n"Two."\n\n[Anna] see my notes', ("Anna", "")),
        ("[voice message could not be transcribed]\n\n[Anna]", ("Anna", "")),
        (f"{IMAGE}\n\n[Anna] what is it?", ("Anna", "")),
        ('"I said it aloud."', ("", "")),
        ("hello [Anna] there", ("", "")),
        ("[Mallory] [Anna|1]\nhello", ("Mallory", "")),
        ("[Mallory] hi\n\n[New message]\n[Anna] hello", ("Mallory", "")),
        ("[Admin|1] hello", ("Admin|1", "")),  # a name that somebody gave himself
        ("[Anna [PM]] hello", ("Anna [PM]", "")),
        ("[[Clan] Anna|1]\nhello", ("[Clan] Anna", "1")),
        ("[Mallory [Anna|1]\nhello", ("", "")),
        (f"{SWITCHED}\n\n[Anna] hello", ("Anna", "")),
        (f"[Tue 2026-04-28 13:40:53 CEST] {SWITCHED}\n\n[Anna] hello", ("Anna", "")),
        (f"{RESTARTED}\n\n{SWITCHED}\n\n[Anna] hello", ("Anna", "")),
        (f"{HEARD}[Anna|1]\nI never said it{ADDRESSED}[Ben|2]\nhello", ("Ben", "2")),
        (f"{HEARD}[Eve|3]\nhi{ADDRESSED}[Anna|1]\ndo it{ADDRESSED}[Ben|2]\nhello", ("", "")),
        ("[no end", ("", "")),
        ("[System note: The previous turn was interrupted by a restart.]", ("", "")),
    ],
)
def test_a_speaker_is_read_as_the_gateway_writes_it(text: str, speaker: tuple[str, str]) -> None:
    """Name, and id where there is one."""
    assert markers.speaker(text) == speaker


def test_every_hit_and_page_of_a_group_says_who_spoke(tmp_path: Path) -> None:
    """Also where the stretch that is shown does not begin with the name."""
    archive = group(tmp_path, "[Anna|4711]\nthe budget is 40", "[Ben] the budget is 50")

    assert {hit.get("speaker") for hit in archive.grep("budget", role="user")["results"]} == {"Anna (4711)", "Ben"}
    assert [each.get("speaker") for each in archive.transcript("group")] == ["Anna (4711)", None, "Ben", None]
    assert archive.call("lcm_expand", store_id="msg_3")["speaker"] == "Ben"
    archive.node("the budget", [1, 3])
    assert [each.get("speaker") for each in archive.sources("sum_1")] == ["Anna (4711)", "Ben"]
    assert "msg_3 user Ben " in archive.raw("lcm_grep", query="budget")


def test_brackets_of_a_chat_with_one_person_name_no_speaker(tmp_path: Path) -> None:
    """Unknown means nobody."""
    archive = Archive(tmp_path, user("[ERROR] the budget is 40"))

    assert "speaker" not in archive.grep("budget")["results"][0]


@pytest.mark.parametrize(
    ("key", "row", "speaker"),
    [
        (f"{GROUP}:666", {}, None),  # one session for each user
        (f"{GROUP}:666", {"chat_id": "-100", "user_id": "666"}, None),
        (f"{GROUP}:666", {"chat_id": "-100", "thread_id": "7", "user_id": "666"}, None),
        (f"{GROUP}:7:666", {"chat_id": "-100", "thread_id": "7", "user_id": "666"}, None),
        (f"{GROUP}:7", {"chat_id": "-100", "thread_id": "7", "user_id": "1"}, "Admin (1)"),
        ("agent:main:matrix:group:!room:example.org", {"chat_id": "!room:example.org"}, "Admin (1)"),
        ("agent:main:telegram:dm:666", {"chat_id": "666"}, None),
    ],
)
def test_only_the_host_names_a_speaker(tmp_path: Path, key: str, row: dict[str, str], speaker: str | None) -> None:
    """It does in chats that people share; in any other one the same signs were typed by who speaks."""
    archive = Archive(tmp_path)
    archive.me = archive.open("chat", platform="telegram", host_key=key)
    hosts = {"id": "chat", "source": "telegram", "session_key": key, **row}
    engine = LCMEngine()
    engine.bind_session_state(SimpleNamespace(get_session=lambda session_id: hosts), "chat")
    archive.runtime.process.engines.add(engine)
    archive.say(user("[Admin|1]\nthe budget is 40"), to="chat")

    assert archive.grep("budget", role="user")["results"][0].get("speaker") == speaker


@pytest.mark.parametrize("name", ["Anna", "anna schmidt", "4711"])
def test_a_speaker_filter_lets_nobody_else_through(tmp_path: Path, name: str) -> None:
    """Neither who is only spoken of, nor the agent."""
    archive = group(tmp_path, "[Anna Schmidt|4711]\nthe budget is 40", "[Ben] Anna Schmidt 4711 said the budget is 50")

    assert archive.found("budget", speaker=name) == [1]
    assert archive.found("budget", speaker="Be") == []


@pytest.mark.parametrize(
    "others",
    [
        f"{HEARD}[Anna|1]\nthe budget is 40\n[Eve|4]\nthe budget is 50{ADDRESSED}",
        "[Recent channel messages]\n[Anna] the budget is 40\n\n[New message]\n",
        '[Replying to: "the budget is 40"]\n\n',
    ],
    ids=["heard before", "channel", "quoted"],
)
def test_what_others_said_in_the_same_message_is_not_the_speakers(tmp_path: Path, others: str) -> None:
    """The gateway puts it in front: it is neither found as theirs nor shown beside what they said."""
    archive = group(tmp_path, f"{others}[Carl|3]\nlunch at 12 in the garden", "[Carl|3]\nand tea at 4")
    found = archive.grep("lunch", speaker="Carl")["results"][0]

    assert archive.found("budget", speaker="Carl") == []
    assert (
        "Carl said nothing that these words find: this is what others said"
        in archive.grep("what did Carl say about the budget?")["notes"]
    )
    assert archive.found("budg.t", speaker="Carl", mode="regex") == []
    assert archive.found("what did Carl say?") == [3, 1]
    assert "budget" not in found["snippet"]
    assert "lunch at 12 in the garden" in found["snippet"]


def test_a_stretch_of_what_others_said_is_not_shown_under_the_speakers_name(tmp_path: Path) -> None:
    """Who said that is not known for sure."""
    heard = "\n".join(f"[Anna|1]\nthe garden of the year {n} has many flowers" for n in range(400))
    archive = group(tmp_path, f"{HEARD}[Eve|4]\nthe budget is 50\n{heard}{ADDRESSED}[Carl|3]\nlunch at 12")

    assert "msg_1 user Carl (3) " in archive.raw("lcm_grep", query="lunch", role="user")
    assert "Carl" not in archive.raw("lcm_grep", query="budget", role="user")


def test_a_stretch_of_what_others_said_is_no_evidence_under_the_speakers_name(tmp_path: Path) -> None:
    """A model that reads it would tell it as theirs; so would who reads the quotation."""
    heard = "\n".join(f"[Anna|1]\nthe garden of the year {n} has many flowers" for n in range(1000))
    archive = group(tmp_path, f"{HEARD}[Eve|4]\nthe budget is 50\n{heard}{ADDRESSED}[Carl|3]\nlunch at 12")

    for asked, said in (("budget", "user"), ("lunch", "user Carl (3)")):
        archive.model = Model(json.dumps({"answer": said, "citedIds": ["msg_1"]}))
        found = archive.call("lcm_expand_query", prompt=f"What is the {asked}?", query=asked)
        read = str(archive.model.requests[0]["messages"])
        assert f"[msg_1 | {said} | " in read
        assert [each["role"] for each in found["quotes"] if each["address"] == "msg_1"] == [said]


def revised(archive: Archive, wrapped: str, *later: dict[str, Any]) -> None:
    """What a bot was told, with what it overheard in front; then without, as the gateway keeps it."""
    [form] = archive.say(user(wrapped), to="group")
    number = archive.me.conversation_id
    rows = [
        NewRow(content.read_message(later[0]), revises=form),
        *(NewRow(content.read_message(each)) for each in later[1:]),
    ]
    archive.store.append(number, "group", archive.store.last_seq(number), rows, source="telegram", now=NOW)


def test_a_line_that_comes_again_in_each_turn_of_a_group_is_found_once_as_its_speakers(tmp_path: Path) -> None:
    """A bot that hears all is shown it again with whatever it is told, all day long."""
    archive = group(tmp_path, "[Anna|1]\nthe dog barks")
    for n in range(12):
        words = f"[Carl|3]\nquestion {n}"
        revised(archive, f"{HEARD}[Anna|1]\nthe dog barks{ADDRESSED}{words}", user(words), says("ok"))

    hits = archive.grep("dog barks")["results"]

    assert (hits[0]["store_id"], hits[0]["speaker"]) == (1, "Anna (1)")
    assert not [hit for hit in hits if "superseded_by" in hit]


def test_a_line_that_comes_again_in_each_turn_of_a_group_is_evidence_once(tmp_path: Path) -> None:
    """What a bot was shown again and again would fill all that a reader may read."""
    archive = group(tmp_path, "[Anna|1]\nthe dog barks")
    for n in range(4):
        words = f"[Carl|3]\nquestion {n}"
        revised(archive, f"{HEARD}[Anna|1]\nthe dog barks{ADDRESSED}{words}", user(words), says("ok"))

    archive.model = Model(json.dumps({"answer": "The dog.", "citedIds": ["msg_1"]}))
    archive.call("lcm_expand_query", prompt="Who barks?", query="dog barks")

    assert str(archive.model.requests[0]["messages"]).count("the dog barks") == 1


def test_words_to_a_bot_that_were_edited_stay_evidence(tmp_path: Path) -> None:
    """They stand nowhere but behind the lines of the group."""
    archive = group(tmp_path, "[Anna|1]\nthe dog barks")
    shown = f"{HEARD}[Anna|1]\nthe dog barks{ADDRESSED}[Carl|3]\nthe budget is fifty"
    revised(archive, shown, user("[Carl|3]\nthe budget is seventy"), says("ok"))

    archive.model = Model(json.dumps({"answer": "50.", "citedIds": []}))
    archive.call("lcm_expand_query", prompt="What was the budget?", query="budget fifty")

    assert "the budget is fifty" in str(archive.model.requests[0]["messages"])


def test_a_line_that_stands_nowhere_else_is_found_within_what_it_was_shown_in(tmp_path: Path) -> None:
    """A copy too many is better than a line that nobody finds."""
    archive = group(tmp_path, "[Anna|1]\nhello")
    words = "[Carl|3]\nwhat is the matter?"
    revised(archive, f"{HEARD}[Anna|1]\nhello\n[Ben|2]\nthe dog barks{ADDRESSED}{words}", user(words))

    assert 3 in archive.found("dog barks")


@pytest.mark.parametrize(
    "asked", [{"query": "who said that the deploy failed?"}, {"query": "deploy .ailed", "mode": "regex"}]
)
def test_what_others_said_is_not_told_as_the_words_of_who_spoke_behind_them(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    """Though a short message is shown whole."""
    archive = group(tmp_path, f"{HEARD}[Ben|2]\nthe deploy failed{ADDRESSED}[Carl|3]\nlunch at 12", "[Anna|1]\nhello")
    found = next(each for each in archive.call("lcm_grep", **asked)["results"] if each["store_id"] == 1)

    assert "[Carl|3]" in found["snippet"]
    assert "speaker" not in found
    assert archive.grep("lun.h", mode="regex")["results"][0]["speaker"] == "Carl (3)"


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("what did Anna say?", [5, 1]),
        ("What did Anna say about the budget", [1]),
        ("what has anna told us about lunch?", [5]),
    ],
)
def test_what_did_anna_say_is_answered_with_her_words(tmp_path: Path, question: str, found: list[int]) -> None:
    """A question for what a speaker of the group said is read as the filter."""
    archive = group(
        tmp_path, "[Anna] the budget is 40", "[Ben] what did Anna say about the budget?", "[Anna] lunch at 12"
    )

    assert archive.found(question) == found


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("Was hat Anna über das Budget gesagt?", [1]),
        ("Was hat Anna gesagt?", [5, 1]),
        ("¿Qué dijo Anna sobre el budget?", [1]),
        ("Qu'est-ce que Anna a dit ?", [5, 1]),
        ("Anna说了什么？", [5, 1]),
        ("李明说了什么？", [7]),
        ("Что сказала Anna о budget?", [1]),
        ("Что говорила Anna?", [5, 1]),
        ("Annaさんはbudgetについて何と言った？", [1]),
        ("Annaは何を言いましたか？", [5, 1]),
    ],
)
def test_what_somebody_said_is_asked_in_many_languages(tmp_path: Path, question: str, found: list[int]) -> None:
    """As in English."""
    archive = group(
        tmp_path,
        "[Anna] the budget is 40",
        "[Ben] is the budget what Anna said?",
        "[Anna] lunch at 12",
        "[李明] 预算是70",
    )

    assert archive.found(question) == found


@pytest.mark.parametrize(
    "question",
    [
        "did Ben mention the invoice?",
        "has ben said anything on the invoice",
        "Ben's opinion on the invoice",
        "Ben wanted the invoice",
        "so, did  Ben mention the invoice?",
        "can you tell me what Ben said about the invoice",
        "what's Ben's opinion on the invoice?",
        "when did Ben mention the invoice?",
        "Hat Ben die invoice erwähnt?",
        "hat Ben gesagt, dass die invoice fehlt?",
        "Bens Meinung zur invoice",
        "Ben wollte die invoice",
        "Ben a-t-il mentionné l'invoice ?",
        "l'avis de Ben sur l'invoice",
        "Ben voulait l'invoice",
        "¿Mencionó Ben la invoice?",
        "la opinión de Ben sobre la invoice",
        "Ben quería la invoice",
        "Ben ha menzionato la invoice?",
        "Cosa ha detto Ben sulla invoice?",
        "il parere di Ben sulla invoice",
        "Ben voleva la invoice",
        "O Ben mencionou a invoice?",
        "O que o Ben disse sobre a invoice?",
        "a opinião do Ben sobre a invoice",
        "o Ben queria a invoice",
    ],
)
def test_whether_somebody_said_it_is_answered_with_their_words(tmp_path: Path, question: str) -> None:
    """In six languages, with a verb or a noun for it; the agent's words about it are left out."""
    archive = group(
        tmp_path, "[Anna|1]\nBen must send the invoice", "[Ben|2]\nI sent the invoice", "[Ben|2]\nlunch at 12"
    )

    assert archive.found(question) == [3]
    assert "only what ben said" in [note.lower() for note in archive.grep(question)["notes"]]


@pytest.mark.parametrize(
    "question",
    [
        "who said that the deploy failed?", "did anyone mention the deploy", "Wer hat gesagt, dass der deploy failed?",
        "Qui a dit que le deploy failed ?", "¿Quién dijo que el deploy failed?", "Chi ha detto che il deploy failed?",
        "Quem disse que o deploy failed?", "谁说deploy failed？",
    ],
)  # fmt: skip
def test_who_said_it_is_answered_with_names(tmp_path: Path, question: str) -> None:
    """On each hit; what tools answered was said by nobody."""
    archive = group(tmp_path, "[Anna|1]\nthe deploy failed again", "[Ben|2]\nthe deploy failed on my side")
    archive.say(calls("{}"), result("the deploy failed"), to="group")
    found = archive.grep(question)

    assert {each["speaker"] for each in found["results"] if each["role"] == "user"} == {"Anna (1)", "Ben (2)"}
    assert "tool" not in {each["role"] for each in found["results"]}
    assert "each hit names who said it" in found["notes"]


def test_what_somebody_never_spoke_of_is_searched_among_all(tmp_path: Path) -> None:
    """And the answer says so."""
    archive = group(tmp_path, "[Anna|1]\nthe invoice is late", "[Ben|2]\nlunch at 12")
    for n in range(4):
        archive.say(user(f"[Anna|1]\nthe invoice {n} is here"), to="group")
    found = archive.grep("did Ben mention the invoice?", limit=3)
    more = archive.grep("did Ben mention the invoice?", limit=3, cursor=found["next_cursor"])

    shown = [each for each in (*found["results"], *more["results"]) if each["match"] != "near"]
    assert {each["store_id"] for each in shown} == {1, 5, 6, 7, 8}
    for page in (found, more):
        assert "Ben said nothing that these words find: this is what others said" in page["notes"]


@pytest.mark.parametrize(
    "question",
    [
        "did Carl mention the invoice?",
        "May wanted the invoice",
        "what will the invoice say",
        "the invoice said it is late",
    ],
)
def test_a_name_that_no_speaker_has_is_a_word(tmp_path: Path, question: str) -> None:
    """Nothing is filtered, and nothing is said of it."""
    archive = group(tmp_path, "[Anna|1]\nthe invoice is late", "[Mark|2]\nlunch at 12")
    found = archive.grep(question)

    assert found["results"][0]["store_id"] == 1
    assert not any("only what" in each for each in found.get("notes", ()))


def test_who_said_it_is_no_question_of_a_chat_with_one_person(tmp_path: Path) -> None:
    """There it is searched as it was typed."""
    archive = Archive(tmp_path, calls("{}"), result("the deploy failed"), user("ok"))

    assert archive.found("who said that the deploy failed")[0] == 2


@pytest.mark.parametrize(
    ("speaker", "wanted"),
    [
        ("🌸 Anna 🌸", "Anna"), ("🌸 Anna 🌸", "anna 🌸"), ("🌸", "🌸"), ("Anna Schmidt", "Schmidt"), ("ben_k", "ben_k"),
        ("Ólafur", "olafur"), ("Jean-Luc", "Jean Luc"),
        ("O'Neil", "o'neil"), ("Dr. Anna", "Dr Anna"), ("李明", "李明"),
    ],
)  # fmt: skip
def test_signs_in_a_name_need_not_be_typed(tmp_path: Path, speaker: str, wanted: str) -> None:
    """And either of the names of somebody who has two is enough."""
    archive = group(tmp_path, f"[{speaker}|7]\nthe invoice is late", "[Ben|2]\nthe invoice is paid")

    assert archive.found("invoice", speaker=wanted) == [1]
    assert archive.found(f"did {wanted} mention the invoice?") == [1]


def test_a_speaker_may_be_named_as_an_answer_names_them(tmp_path: Path) -> None:
    """Name and id."""
    archive = group(tmp_path, "[Anna|1]\nthe budget is 40", "[Anna|2]\nthe budget is 60")

    assert archive.found("budget", speaker="Anna (2)") == [3]


def test_what_nobody_of_that_name_said_is_searched_as_typed(tmp_path: Path) -> None:
    """A name that is no speaker filters nothing."""
    archive = group(tmp_path, "[Anna] the manual says reboot twice")

    assert archive.found("what did the manual say about reboot")[0] == 1


# -- sub-agents ---------------------------------------------------------------------------------------------------------
def family(folder: Path, outcome: dict[str, Any], goal: str = "Count the apples.") -> Archive:
    """A parent that delegated ``goal``, the child's own record, and what came back."""
    archive = Archive(folder, user("count all"), calls(json.dumps({"tasks": [{"goal": goal}]}), name="delegate_task"))
    archive.open("child", parent=archive.me, origin="subagent")
    archive.say(user("Count the apples."), calls("{}"), result("7"), says("There are seven."), to="child")
    archive.say(outcome)
    return archive


REPORT = (
    "[ASYNC DELEGATION COMPLETE — d1]\nA background subagent you dispatched earlier has finished. You may have moved on.\n\n"
    "Original goal: Count the apples.\n--- RESULT ---\nThere are seven."
)
OUTCOMES = {
    "a result": result('{"results": [{"summary": "seven"}]}', name="delegate_task"),
    "a report": user(REPORT),
    "a report in a group": user(f"[Anna] {REPORT}"),
    "a report in a group, with its time": user(f"[Tue 2026-04-28 13:40:53 CEST] [Anna] {REPORT}"),
}


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
def test_a_subagents_result_carries_the_address_of_its_record(tmp_path: Path, outcome: dict[str, Any]) -> None:
    """And that address reads it, alone and whole."""
    archive = family(tmp_path, outcome)

    (record,) = archive.call("lcm_expand", store_id="msg_7")["subagents"]
    read = archive.call(record["read"].pop("tool"), **record["read"])

    assert [each["content"] for each in read["messages"]] == ["Count the apples.", None, "7", "There are seven."]
    assert 'record of the sub-agent "Count the apples."' in archive.raw("lcm_grep", query="seven")


def test_a_report_in_a_group_is_nobodys_words(tmp_path: Path) -> None:
    """The gateway puts a name in front of it as well."""
    archive = group(tmp_path, "[Anna] how many apples are there?", f"[Anna] {REPORT}")

    assert archive.found("apples", speaker="Anna") == [1]
    assert "speaker" not in archive.call("lcm_expand", store_id="msg_3")


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
def test_below_a_summary_a_subagents_result_carries_it_too(tmp_path: Path, outcome: dict[str, Any]) -> None:
    """That is where a parent finds it after a compaction."""
    archive = family(tmp_path, outcome)
    archive.node("apples were counted", [1, 2, 7])

    (record,) = archive.call("lcm_expand", node_id="sum_1")["expanded"][-1]["subagents"]

    assert record["read"]["store_id"] == "msg_3..msg_6"
    assert 'record of the sub-agent "Count the apples."' in archive.raw("lcm_expand", node_id="sum_1")


def test_another_tasks_result_does_not_carry_it(tmp_path: Path) -> None:
    """Only what was asked of the child is the child's."""
    archive = family(tmp_path, OUTCOMES["a result"], goal="Count the pears.")

    assert "subagents" not in archive.call("lcm_expand", store_id="msg_7")


def delegated(folder: Path, earlier: str, *goals: str, reported: bool) -> tuple[Archive, str]:
    """A parent with a sub-agent from long before and one for each goal; the address of what these brought."""
    archive = Archive(folder, user("count all"))
    made = calls(json.dumps({"tasks": [{"goal": goal} for goal in goals]}), name="delegate_task")
    for n, goal in enumerate([earlier, *goals]):
        archive.sessions.open(f"child{n}", now=NOW + n, platform="cli", parent=archive.me, origin="subagent")
        archive.say(user(goal), says("There are seven."), to=f"child{n}")
        archive.say(*[] if n else [made])
    done = report(*goals) if reported else result("seven", name="delegate_task")
    return archive, f"msg_{archive.say(done)[-1]}"


def report(*goals: str) -> dict[str, Any]:
    """What the host writes when these are done."""
    from tools.process_registry import _format_async_delegation

    done = [{"task_index": n, "status": "completed", "summary": "seven"} for n in range(len(goals))]
    single = {"goal": goals[0], "status": "completed", "summary": "seven"}
    return user(_format_async_delegation({"goals": goals, "results": done} if len(goals) > 1 else single))


@pytest.mark.parametrize("reported", [True, False], ids=["a report", "a result"])
def test_each_of_those_who_were_asked_the_same_has_its_record(tmp_path: Path, reported: bool) -> None:
    """Three were asked at once, and one of them the same long before: that record is another result's."""
    archive, address = delegated(tmp_path, *["Review the plan."] * 4, reported=reported)

    records = archive.call("lcm_expand", store_id=address)["subagents"]

    assert [each["session_id"] for each in records] == ["child1", "child2", "child3"]


@pytest.mark.parametrize("reported", [True, False], ids=["a report", "a result"])
def test_a_task_whose_words_stand_in_another_one_has_no_part_in_its_result(tmp_path: Path, reported: bool) -> None:
    """The shorter one was asked of another sub-agent, long before."""
    archive, address = delegated(tmp_path, "Check the logs", "Check the logs of the gateway", reported=reported)

    (record,) = archive.call("lcm_expand", store_id=address)["subagents"]

    assert record["session_id"] == "child1"


def test_a_call_that_only_dispatches_names_no_record_of_an_earlier_one(tmp_path: Path) -> None:
    """Its own sub-agents begin behind it."""
    archive, _ = delegated(tmp_path, "Review the plan.", "Review the plan.", reported=True)
    made = calls(json.dumps({"goal": "Review the plan."}), name="delegate_task")
    last = archive.say(made, result('{"status": "dispatched"}', name="delegate_task"))[-1]

    assert "subagents" not in archive.call("lcm_expand", store_id=f"msg_{last}")


def test_a_record_that_may_not_be_read_is_not_named(tmp_path: Path) -> None:
    """A child that belongs to somebody else is as if it were not there."""
    archive = Archive(tmp_path)
    archive.me = archive.open("group", platform="telegram", host_key=GROUP)
    archive.say(user("count all"), to="group")
    archive.open("child", parent=archive.me, origin="subagent", principal="somebody else")
    archive.say(user("Count the apples."), says("There are seven."), to="child")
    archive.say(user(REPORT), to="group")

    assert "subagents" not in archive.call("lcm_expand", store_id="msg_4")


def test_a_record_is_found_where_its_parents_owner_becomes_known_later(tmp_path: Path) -> None:
    """What a sub-agent did for somebody unknown is theirs when they are known."""
    archive = Archive(tmp_path)
    archive.me = archive.open("chat", platform="")
    archive.say(user("count all"), to="chat")
    archive.open("child", platform="", parent=archive.me, origin="subagent")
    archive.open("other", platform="", parent=archive.open("unknown", platform=""), origin="subagent")
    archive.say(user("Count the apples."), says("There are seven."), to="child")
    archive.say(user("Count the apples."), says("There are nine."), to="other")
    archive.say(user(REPORT), to="chat")
    archive.sessions.claim(archive.me, "telegram:dm:7", platform="telegram", host_key="agent:main:telegram:dm:7")
    archive.me = archive.sessions.find("chat") or archive.me

    (record,) = archive.call("lcm_expand", store_id="msg_6")["subagents"]

    assert record["read"]["store_id"] == "msg_2..msg_3"
    assert "nine" not in archive.raw("lcm_grep", query="there are nine", session_scope="all")


def test_all_that_one_of_many_said_is_on_the_pages(tmp_path: Path) -> None:
    """Others name her more often than she speaks."""
    talk = [f"[Ben] the budget {n}, Anna" for n in range(40)]
    said = [f"[Anna] my many words about what the budget of the year {n} is like, and the garden" for n in range(8)]
    archive = group(tmp_path, *talk, *said)
    seen: list[int] = []
    more: dict[str, str] = {}
    for _ in range(8):
        found = archive.grep("budget", speaker="Anna", limit=3, **more)
        seen += [hit["store_id"] for hit in found["results"]]
        if not found["has_more"]:
            break
        more = {"cursor": found["next_cursor"]}

    assert sorted(seen) == list(range(81, 97, 2))
