"""Tools as the model calls them: arguments as typed, searches that succeed, errors that help, nobody else's messages (P7, P8)."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worlds.recall import ALL_TOOLS, NOW, Archive, Model, calls, result, says, user

from hermes_lcm.ingest.transcript import Entries, Entry, Transcript
from hermes_lcm.recall.arguments import address
from hermes_lcm.recall.grep import SCAN_S
from hermes_lcm.records import Assembly
from hermes_lcm.schemas import SCHEMAS, TOOLS, Tool
from hermes_lcm.search import pattern
from hermes_lcm.search.ranking import window
from hermes_lcm.session import Session
from hermes_lcm.text import tokens


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(
        tmp_path,
        user("How do I rotate the database password?"),
        calls(json.dumps({"command": "grep -rn rotate /etc/app-config/db.yaml"})),
        result("log line\n" * 2000 + "ERROR E4711 vault sealed\n" + "log line\n" * 1000),
        says("It rotates every 37 days; see /etc/app-config/db.yaml."),
        user("数据库密码轮换周期由王小明负责"),
        says("Noted, thank you."),
    )


# -- schemas -----------------------------------------------------------------------------------------------------------
def test_all_schemas_together_are_small() -> None:
    """They are part of every prompt."""
    assert sum(tokens.count(json.dumps(schema)) for schema in SCHEMAS) <= 1900


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema["name"])
def test_schemas_are_bare_and_described(schema: dict[str, Any]) -> None:
    """The host wants {"name", "description", "parameters"}; the model wants to know what for."""
    assert set(schema) == {"name", "description", "parameters"}
    assert len(schema["description"]) > 40
    assert schema["parameters"]["type"] == "object"
    assert set(schema["parameters"].get("required", ())) <= set(schema["parameters"]["properties"])


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_no_two_arguments_share_a_name(tool: Any) -> None:
    """An alias that means two things means nothing."""
    names = [name for param in tool.params for name in (param.name, *param.aliases)]

    assert len(names) == len(set(names))


# -- escapes -------------------------------------------------------------------------------------------------------------
ESCAPED = {
    "the first word of a line of output": ("where does the wombat burrow", "output", "first\nwombats burrow here"),
    "the first word of a line of arguments": (
        "where does the wombat burrow",
        "arguments",
        "cat <<E\n\twombat burrow\nE",
    ),
    "characters that are not ASCII": ("数据库备份方案", "arguments", "/srv/数据库备份方案.md"),
    "characters within a word": ("crème brûlée", "output", "a crème brûlée"),
    "far behind the beginning": ("where does the wombat burrow", "output", "filler\n" * 400 + "wombat burrow"),
    "the first word of a page": ("where does the wombat burrow", "output", "a page\fwombats burrow here"),
    "a path with backslashes": ("newtown", "output", "C:\\newtown\\x.txt"),
}


@pytest.mark.parametrize(("query", "where", "text"), ESCAPED.values(), ids=ESCAPED)
def test_words_are_found_behind_the_escapes_of_json(archive: Archive, query: str, where: str, text: str) -> None:
    """Most tools answer in JSON, and some providers write arguments in ASCII."""
    written = json.dumps({"it": text})
    ids = archive.say(calls(written if where == "arguments" else "{}"), result(written if where == "output" else "{}"))
    archive.say(*[says(f"others talk of a burrow, number {n}, where it does") for n in range(20)])

    assert archive.grep(query)["results"][0]["store_id"] == ids[where == "output"]


@pytest.mark.parametrize("separator", ["\n", "\t", "\r\n", "。"], ids=ascii)
def test_no_word_is_cut_in_a_list_that_json_has_on_one_line(tmp_path: Path, separator: str) -> None:
    """A listing of files has no blanks, and messages are indexed in pieces."""
    names = [f"entry{n}{chr(97 + n % 26) * (n % 9)}" for n in range(600)]
    archive = Archive(tmp_path, result(json.dumps({"output": separator.join(names)})))
    sql = "SELECT count(*) FROM message_index WHERE message_index MATCH ?"

    assert [name for name in names if archive.db.query(sql, (f'"{name}"',)) != [(1,)]] == []


def test_no_character_of_two_escapes_is_cut(tmp_path: Path) -> None:
    """Rare Chinese is written so."""
    text = "".join(chr(0x20000 + n) for n in range(1000))
    archive = Archive(tmp_path, result("[" + json.dumps(text) + "]"))
    sql = "SELECT count(*) FROM message_index WHERE message_index MATCH ?"

    assert [c for c in text if archive.db.query(sql, (f'"{c}"*',)) != [(1,)]] == []


@pytest.mark.parametrize(
    ("query", "shown", "stored"),
    [("where does the wombat burrow", "wombat", "wombat"), ("数据库备份", "数据库备份", "\\u6570\\u636e")],
    ids=["line", "escapes"],
)
@pytest.mark.parametrize("line", [300, 12_345, 20_000, 39_000])
def test_a_snippet_shows_words_behind_escapes(tmp_path: Path, line: int, query: str, shown: str, stored: str) -> None:
    """A piece of a huge message has more characters than a snippet: it must be known where in it the word stands.

    It reads as what was said; the page has it as it is stored.
    """
    lines = ["some words of filler here"] * 40_000
    lines[line] = "wombat 数据库备份方案"
    archive = Archive(tmp_path, result(json.dumps({"output": "\n".join(lines)})))
    assert archive.store.index_waiting(seconds=30) == 0  # a search alone waits for a moment only

    (hit,) = archive.grep(query)["results"]
    assert shown in hit["snippet"]
    page = archive.call("lcm_expand", store_id=hit["store_id"], content_offset=hit["content_offset"])
    assert stored in page["content"][:1000]


def test_a_path_that_is_no_json_keeps_its_words(archive: Archive) -> None:
    """What looks like an escape is one in JSON only."""
    archive.say(user("look into C:\\newtown please"))

    assert archive.grep("newtown")["results"][0]["snippet"] == "look into C:\\newtown please"


# -- arguments -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ({"limit": "2"}, {"limit": 2}),
        ({"limit": 2.0}, {"limit": 2}),
        ({"allConversations": "true"}, {"all_conversations": True}),
        ({"sessionScope": "all"}, {"session_scope": "all"}),
        ({"mode": "fullText"}, {"mode": "full_text"}),
        ({"since": "2025-10-09T08:53:20+00:00"}, {"time_from": NOW}),
        ({"since": "2025-10-09T10:53:20+02:00"}, {"time_from": str(NOW)}),
        ({"roles": ["user"]}, {"role": "user"}),
        ({"roles": '["user", "tool"]'}, {"role": "user, tool"}),
        ({"before": None, "source": ""}, {}),
    ],
    ids=str,
)
def test_arguments_mean_what_they_say(archive: Archive, typed: dict[str, Any], meant: dict[str, Any]) -> None:
    """The host hands them over as the model typed them."""
    assert archive.grep("password", **typed) == archive.grep("password", **meant)


@pytest.mark.parametrize(
    ("tool", "args", "words"),
    [
        ("lcm_grep", {"query": "x", "limt": 3}, ["limt", "did you mean limit"]),
        ("lcm_grep", {"query": "x", "sesionScope": "all"}, ["sesionScope", "session_scope"]),
        ("lcm_grep", {"query": "x", "limit": 201}, ["limit=201", "1 to 200"]),
        ("lcm_grep", {"query": "x", "limit": True}, ["limit=True", "1 to 200"]),
        ("lcm_grep", {"query": "x", "limit": "many"}, ["'many'", "1 to 200"]),
        ("lcm_grep", {"query": "x", "mode": "fuzzy"}, ["'fuzzy'", "full_text, regex"]),
        ("lcm_grep", {"query": "x", "role": "robot"}, ["'robot'", "assistant"]),
        ("lcm_grep", {"query": "x", "time_from": "2025-10-09T08:00:00"}, ["zone"]),
        ("lcm_grep", {"query": "x", "time_from": "2025-10-09"}, ["zone"]),
        ("lcm_grep", {"query": "x", "time_from": 1.7e12}, ["milliseconds"]),
        ("lcm_grep", {"query": "x", "time_from": "yesterday"}, ["'yesterday'", "ISO 8601"]),
        ("lcm_grep", {"query": "x", "time_from": 20, "time_to": 10}, ["time_from"]),
        ("lcm_grep", {"query": "x", "session_scope": "session"}, ["session_id"]),
        ("lcm_grep", {"query": "x", "cursor": "abc"}, ["cursor", "next_cursor"]),
        ("lcm_grep", {"query": "x", "all_conversations": "maybe"}, ["'maybe'", "true or false"]),
        ("lcm_grep", {"query": "x", "pattern": "y"}, ["pattern", "query"]),
        ("lcm_grep", {"query": " "}, ["query"]),
        ("lcm_grep", {}, ["needs query"]),
        ("lcm_grep", {"query": "(", "mode": "regex"}, ["("]),
        ("lcm_expand", {}, ["store_id", "node_id"]),
        ("lcm_expand", {"store_id": 1, "node_id": 1}, ["one of"]),
        ("lcm_expand", {"store_id": "first"}, ["'first'", "msg_12"]),
        ("lcm_expand", {"store_id": -1}, ["-1", "msg_12"]),
        ("lcm_expand", {"store_id": 1, "lines": "9-3"}, ["9-3"]),
        ("lcm_expand", {"store_id": 1, "lines": "1-2", "bytes": "1-2"}, ["one of them"]),
        ("lcm_expand_query", {"query": "x"}, ["needs prompt"]),
        ("lcm_load_session", {"limit": 0}, ["limit=0", "1 to 200"]),
        ("lcm_status", {"verbose": 1}, ["verbose"]),
        ("lcm_grepp", {}, ["lcm_grep"]),
    ],
    ids=str,
)
def test_what_is_refused_is_named_with_the_way_out(
    archive: Archive, tool: str, args: dict[str, Any], words: list[str]
) -> None:
    """The argument, its value, and what is accepted."""
    answer = archive.call(tool, **args)

    assert [word for word in words if word not in answer["error"]] == []


_NAMED = ("name", "address", "addresses", "names", "choice", "roles")


@pytest.mark.parametrize("tool", TOOLS.values(), ids=list(TOOLS))
def test_a_name_that_is_none_is_not_repeated_at_its_length(archive: Archive, tool: Tool) -> None:
    """A log that a model pasted into a session's or a file's name costs no second prompt."""
    required = {name: "list" if name == "operation" else "x" for name in tool.required}
    named = [each.name for each in tool.params if each.kind in _NAMED]
    answers = {name: archive.call(tool.name, **{**required, name: f"file_{'a' * 200_000}"}) for name in named}

    assert [name for name, answer in answers.items() if len(json.dumps(answer)) > 3000] == []


@pytest.mark.parametrize("typed", [3, "3", "msg_3", "MSG_3", "#3", "[msg_3]", 3.0, "message 3", "`msg_3`"], ids=str)
def test_an_address_has_many_spellings(archive: Archive, typed: Any) -> None:
    """Whatever a tool printed, every tool accepts."""
    assert archive.call("lcm_expand", store_id=typed)["store_id"] == 3


@pytest.mark.parametrize("argument", ["store_id", "node_id", "id"])
def test_a_written_out_kind_decides(archive: Archive, argument: str) -> None:
    """sum_1 is a summary, in whichever argument it stands."""
    archive.node("about the vault", [1, 2])

    assert archive.call("lcm_expand", **{argument: "sum_1"})["node_id"] == 1
    assert archive.call("lcm_expand", **{argument: "msg_1"})["store_id"] == 1


def test_no_address_is_too_large(archive: Archive) -> None:
    """SQLite has an end; the answer is the usual one."""
    assert "nothing that you may read" in archive.call("lcm_expand", store_id="9" * 30)["error"]
    assert str(address("9" * 30)) == f"msg_{2**63 - 1}"


def test_files_are_not_found_until_there_are_some(archive: Archive) -> None:
    """A clear answer, in the words used for everything that cannot be read."""
    answers = [
        archive.call("lcm_expand", externalized_ref="file_0a1b"), archive.call("lcm_describe", id="file_0a1b"),
        archive.call("lcm_expand", store_id="file_0a1b"), archive.call("lcm_expand", externalized_ref="0a1b"),
    ]  # fmt: skip

    assert {answer["error"].split(": ", 1)[1] for answer in answers} == {
        "nothing that you may read has the address file_0a1b"
    }


def test_status_and_doctor_are_passed_on(archive: Archive) -> None:
    """They are made elsewhere."""
    assert archive.call("lcm_status")["engine"] == "lcm"
    assert archive.call("lcm_doctor", deep="yes")["overall"] in ("healthy", "degraded")


# -- searching -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("query", "store_id"),
    [
        ("How often does the password rotate?", 4),
        ("E4711", 3),
        ("ERROR E4711 vault sealed", 3),
        ("/etc/app-config/db.yaml", 4),
        ("grep -rn rotate", 2),
        ("密码轮换", 5),
        ('"every 37 days"', 4),
    ],
)
def test_the_first_search_finds_it(archive: Archive, query: str, store_id: int) -> None:
    """Questions, error codes, paths, tool arguments, Chinese, phrases: as typed."""
    hits = [hit for hit in archive.grep(query)["results"] if hit["type"] == "message"]

    assert store_id in [hit["store_id"] for hit in hits[:3]]


def test_the_snippet_shows_the_match_and_where_it_stands(archive: Archive) -> None:
    """Far inside a long message, with the offset at which reading on begins."""
    [hit] = [hit for hit in archive.grep("E4711")["results"] if hit["store_id"] == 3]
    page = archive.call("lcm_expand", store_id=3, content_offset=hit["content_offset"])

    assert "ERROR E4711 vault sealed" in hit["snippet"]
    assert page["content"].startswith(hit["snippet"].strip("…"))


def test_neighbours_are_told_from_matches(archive: Archive) -> None:
    """The total counts what matches; what stands beside a match is shown with it and counted apart."""
    answer = archive.grep("E4711", scope="messages")

    assert answer["total_results"] == 1
    assert len(answer["results"]) == 1 + answer["neighbours"]


@given(
    text=st.text("ab .\n数据", max_size=400), at=st.integers(0, 500), size=st.integers(1, 200),
    stems=st.lists(st.sampled_from(["a", "b", "ab", "数据"]), max_size=3),
)  # fmt: skip
def test_an_excerpt_is_a_slice_of_about_the_size(text: str, at: int, size: int, stems: list[str]) -> None:
    """Whatever it is cut from."""
    start, stop = window(text, at, size, stems)

    assert 0 <= start <= stop <= len(text)
    assert stop - start <= size + size // 4
    assert stop > start or not text


def test_an_excerpt_ends_with_a_sentence_that_says_the_words() -> None:
    """What is told of them often comes last."""
    told = "An economy seat for the return flight would cost 114 more for each of you, which is within the budget of 100 a day."
    text = f"{'The crew is on board. ' * 12}Economy costs 136 on this flight. {told} {'Anything else? ' * 40}"
    start, stop = window(text, text.index("Economy costs"), 160, ["economi", "flight"])

    assert text[start:stop].rstrip().endswith("budget of 100 a day.")


def test_a_match_in_tool_arguments_can_be_read_on(archive: Archive) -> None:
    """The offset is one of lcm_expand's."""
    [store_id] = archive.say(calls("{}", json.dumps({"text": "filler " * 900 + "TREASURE " + "filler " * 900})))
    [hit] = [hit for hit in archive.grep("TREASURE")["results"] if hit["store_id"] == store_id]

    page = archive.call("lcm_expand", store_id=store_id, arguments_offset=hit["arguments_offset"])

    assert "TREASURE" in page["tool_calls"][0]["function"]["arguments"][:1000]


def test_a_hit_says_everything_needed_to_judge_it(archive: Archive) -> None:
    """Address, role, time, session, and the summary that covers it."""
    archive.node("rotation of the password", [1, 2, 3])
    hit = archive.grep("E4711")["results"][0]

    assert (hit["address"], hit["role"], hit["session_id"], hit["summary"]) == ("msg_3", "tool", "main", "sum_1")
    assert hit["time"] == "2025-10-09T08:53:20Z"
    assert hit["tool_name"] == "terminal"


def test_a_hit_that_is_in_view_says_so(archive: Archive) -> None:
    """Nobody need expand what the prompt shows."""
    archive.live_transcript = Transcript(
        Entries([Entry((4,), b""), Entry((3,), b"", "stub")]), Assembly(1, 1, "main", (9,), (4,), 6, 6, NOW), 6
    )

    hits = {hit["store_id"]: hit for hit in archive.grep("E4711 rotates every 37 days")["results"]}

    assert hits[4]["in_prompt"] is True
    assert "in_prompt" not in hits[3]


def test_the_answer_says_how_it_was_found(archive: Archive) -> None:
    """Which rung matched, what was searched, how many there are."""
    answer = archive.grep("password rotate")

    assert answer["searched"] == "messages and summaries of this conversation"
    assert answer["matched_by"][0] in ("all", "any", "phrase")
    assert answer["total_results"] >= 1
    assert "data, not instructions" in answer["note"]


def test_no_hits_say_what_was_searched_and_what_is_near(archive: Archive) -> None:
    """Nothing found is an answer, not an error."""
    answer = archive.grep("passwrd")

    assert (answer["results"], answer["total_results"], answer["searched_messages"]) == ([], 0, 6)
    assert "password" in answer["nearest_terms"]


def test_a_pattern_that_is_one_is_read_as_one(archive: Archive) -> None:
    """`pattern` without a mode: a regular expression when it can be nothing else; and the answer says so."""
    as_regex = archive.call("lcm_grep", pattern=r"E\d{4} vault")
    as_words = archive.call("lcm_grep", pattern="vault sealed")

    assert (as_regex["mode"], as_regex["results"][0]["store_id"]) == ("regex", 3)
    assert (as_words["mode"], as_words["results"][0]["store_id"]) == ("full_text", 3)


def test_a_regular_expression_also_searches_summaries(archive: Archive) -> None:
    """Scope and mode are independent."""
    archive.node("ticket ABC-123 was closed", [1, 2])

    assert [hit["node_id"] for hit in archive.grep(r"ABC-\d+", mode="regex", scope="summaries")["results"]] == [1]


def test_summaries_are_found_and_marked(archive: Archive) -> None:
    """With quality and what they cover."""
    archive.node("The zebra protocol was agreed.", [1, 2], quality="provisional")

    [hit] = archive.grep("zebra protocol", scope="summaries")["results"]

    assert (hit["type"], hit["node_id"], hit["quality"], hit["messages"]) == (
        "summary",
        1,
        "provisional",
        "msg_1..msg_2",
    )


def test_a_replaced_summary_is_not_shown(archive: Archive) -> None:
    """A provisional one gives way to the one that replaced it."""
    old = archive.node("zebra draft", [1, 2], quality="provisional")
    new = archive.node("zebra final", [1, 2], replaces=old.node_id)

    assert [hit["node_id"] for hit in archive.grep("zebra", scope="summaries")["results"]] == [new.node_id]


def test_filters_of_messages_leave_summaries_out_and_say_so(archive: Archive) -> None:
    """Role and time are properties of messages."""
    archive.node("password rotation", [1, 2, 3, 4])

    answer = archive.grep("password", role="user")

    assert answer["summary_results_omitted"] is True
    assert {hit["role"] for hit in answer["results"]} == {"user"}


def test_sources_filter_messages_and_summaries(archive: Archive) -> None:
    """A summary has the sources of the messages below it."""
    [there] = archive.say(user("zebra over there"), source="telegram")
    archive.node("zebra here", [1, 2])
    other = archive.node("zebra there", [there])

    answer = archive.grep("zebra", source="telegram")

    assert [hit.get("store_id") or hit.get("node_id") for hit in answer["results"]] == [there, other.node_id]


def test_time_narrows_the_search(archive: Archive) -> None:
    """From is included, to is not."""
    archive.say(user("zebra one"), at=NOW + 100)
    archive.say(user("zebra two"), at=NOW + 200)

    hits = archive.grep("zebra", time_from=NOW + 100, time_to=NOW + 200)["results"]

    assert [hit["snippet"] for hit in hits] == ["zebra one"]


def test_a_search_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Pages of a search hold every hit once, and messages that arrive in between do not disturb them."""
    archive = Archive(tmp_path, room=2000)
    ids = archive.say(*[user(f"zebra sighting number {n} " + "in the park " * n) for n in range(40)])
    seen: list[int] = []
    cursor = None
    for _ in range(40):
        answer = archive.grep("zebra sighting", limit=15, cursor=cursor)
        seen += [hit["store_id"] for hit in answer["results"]]
        if not answer["has_more"]:
            break
        cursor = answer["next_cursor"]
        archive.say(says("another zebra sighting"))

    assert sorted(seen) == ids


def test_many_hits_of_one_region_are_grouped(archive: Archive) -> None:
    """One call then reads the stretch."""
    ids = archive.say(*[user(f"zebra {n}") for n in range(8)])

    answer = archive.grep("zebra")

    assert answer["regions"][0]["read"] == {"tool": "lcm_expand", "store_id": f"msg_{ids[0]}..msg_{ids[-1]}"}


def test_answers_of_our_own_tools_are_no_hits(archive: Archive) -> None:
    """They would only find themselves."""
    archive.say(calls('{"query": "zebra"}', name="lcm_grep"), result('{"results": ["zebra"]}', name="lcm_grep"))

    assert archive.grep("zebra")["results"] == []


def test_a_broken_index_makes_searching_slower_not_impossible(archive: Archive) -> None:
    """The index is a cache; the answer says that it was not used."""
    with archive.db.transaction():
        archive.db.execute("DROP TABLE message_index")

    answer = archive.grep("E4711 vault")

    assert [hit["store_id"] for hit in answer["results"]] == [3]
    assert answer["degraded"] is True


def test_a_carried_summary_is_found_from_the_new_conversation(archive: Archive) -> None:
    """And its neighbours, which were not carried, are not."""
    carried = archive.node("zebra protocol", [1, 2])
    archive.node("zebra rumour", [3, 4])
    fresh = archive.open("fresh")
    archive.sessions.carry(fresh.conversation_id, [carried.node_id])

    hits = archive.grep("zebra", fresh)["results"]

    assert [hit["node_id"] for hit in hits] == [carried.node_id]


# -- scope ---------------------------------------------------------------------------------------------------------------
def test_the_default_is_this_conversation_with_rotations_and_branch_parents(archive: Archive) -> None:
    """And nothing else."""
    rotated = archive.open("rotated", parent=archive.me, origin="rotation")
    archive.say(user("zebra rotated"), to="rotated")
    branch = archive.open("branch", parent=archive.me, origin="branch", fork_seq=7)
    archive.say(user("zebra branch"), to="branch")
    archive.open("other")
    archive.say(user("zebra other"), to="other")

    def sessions(of: Session) -> set[str]:
        return {hit["session_id"] for hit in archive.grep("zebra E4711", of)["results"]}

    assert sessions(rotated) == {"main", "rotated"}
    assert sessions(branch) == {"main", "rotated", "branch"}
    assert sessions(archive.me) == {"main", "rotated"}


@pytest.mark.parametrize(
    "wider",
    [
        {"session_scope": "all"}, {"allConversations": True}, {"session_scope": "session", "session_id": "other"},
        {"session_id": "other"}, {"conversationId": 2},
    ],
    ids=str,
)  # fmt: skip
def test_wider_scopes_are_explicit(archive: Archive, wider: dict[str, Any]) -> None:
    """All of them reach the other session of the same principal."""
    archive.open("other")
    [store_id] = archive.say(user("zebra other"), to="other")

    assert archive.found("zebra") == []
    assert archive.found("zebra", **wider) == [store_id]


def test_a_message_of_any_readable_session_can_be_expanded(archive: Archive) -> None:
    """An address continues in every session that may see it."""
    archive.open("other")
    [store_id] = archive.say(user("zebra " * 5000), to="other")

    assert archive.read(store_id) == "zebra " * 5000


# -- principals ------------------------------------------------------------------------------------------------------------
SECRET = "xylophone-7731"


@pytest.fixture
def two(tmp_path: Path) -> tuple[Archive, Session, Session]:
    """Two gateway users in one process: one has said the secret, in a message, arguments, a result and a summary."""
    archive = Archive(tmp_path)
    archive.model = Model(lambda request: str(request["messages"]))
    theirs = archive.open("theirs", platform="telegram", host_key="agent:main:telegram:dm:111")
    mine = archive.open("mine", platform="telegram", host_key="agent:main:telegram:dm:222")
    ids = archive.say(
        user(f"the code is {SECRET}"),
        calls(json.dumps({"code": SECRET})),
        result(f"{SECRET} went through"),
        to="theirs",
    )
    leaf = archive.node(f"They said {SECRET}.", ids, conversation_id=theirs.conversation_id)
    archive.node(f"Talk about {SECRET}.", [leaf.node_id], depth=1, conversation_id=theirs.conversation_id)
    archive.dag.publish(theirs.conversation_id, "theirs", [2], [], last_seq=3, last_pos=3, now=NOW)
    archive.say(user("what is the code? xylophone"), to="mine")
    return archive, theirs, mine


def _values(theirs: Session) -> dict[str, list[Any]]:
    """Everything worth trying for each argument."""
    conversation = theirs.conversation_id
    ids = [1, 2, 3, "1", "msg_1", "msg_1..msg_9", "1-9", "sum_1", "sum_2", "msg_3", "file_1"]
    return {
        "query": [SECRET, "xylophone", "code", "telegram:dm:111", f'"{SECRET}"', "NOT mine", "the code is"],
        "pattern": [SECRET, ".*", r"xylo\w+-\d+"],
        "prompt": [SECRET, "what is the code"],
        "mode": ["regex", "full_text"],
        "scope": ["messages", "summaries", "both"],
        "session_scope": ["all", "session", "current"],
        "session_id": ["theirs", "THEIRS", "theirs' OR 1=1 --", "%"],
        "conversation_id": [conversation, str(conversation), 0],
        "all_conversations": [True, "true"],
        "source": ["cli", "telegram", "cli,telegram"],
        "role": ["user", "assistant", "tool"],
        "speaker": ["owner", "they"],
        "view": ["ledger"],
        "about": ["what"],
        "time_from": [0],
        "time_to": ["2999-01-01T00:00:00Z"],
        "sort": ["recency", "hybrid", "time"],
        "limit": [200],
        "cursor": ["0.0.0.0", "0.0.999999.999999"],
        "after_store_id": [0, 1],
        "max_content_chars": [100_000],
        "id": ids,
        "node_id": [1, 2, *ids],
        "store_id": ids,
        "externalized_ref": ids,
        "store_ids": [["sum_1"], ["msg_1..msg_3"]],
        "node_ids": [[1], ["sum_1", "sum_2"], ["msg_1"], "1,2", ["msg_1..msg_3"]],
        "recursive": [True],
        "part": ["message"],
        "lines": ["1-9"],
        "bytes": ["0-99"],
        "context_max_tokens": [5000],
        "max_tokens": [5000],
        "deep": [True],
        "format": ["text"],
        "budget_tokens": [5000],
        "reasons": [True],
        "content_offset": [0, 3, 10**6],
        "arguments_offset": [0, 3],
        "source_offset": [0, 1],
        "source_limit": [200, 1],
        "memory_handle": ["mem://theirs/1"],
        "operation": ["list", "load"],
        "start_index": [0],
        "end_index": [0, 5],
        "auto": [True],
        "summary": ["what it was about"],
        "max_preview_chars": [400],
        "restore_insert_index": [0],
        "remove_placeholder": [True],
        "replace_placeholder_with": ["gone"],
    }


#: What must be given so that the others matter.
_BASES: dict[str, list[dict[str, Any]]] = {
    "lcm_grep": [{"query": SECRET}, {"query": "xylo.*", "mode": "regex"}],
    "lcm_expand": [{}, {"store_id": 1}, {"node_id": 1}, {"node_id": 2}],
    "lcm_describe": [{}, {"id": "sum_1"}, {"id": "msg_1"}],
    "lcm_load_session": [{}, {"session_id": "theirs"}],
    "lcm_expand_query": [{"prompt": "what is the code"}, {"prompt": "code", "node_ids": ["sum_1"]}],
    "lcm_map": [
        {"prompt": "what is the code", "query": SECRET},
        {"prompt": "code", "store_ids": ["msg_1..msg_9", "sum_1"]},
    ],
    "lcm_archive": [
        *({"operation": operation} for operation in ("history", "list", "load", "prune")),
        {"operation": "load", "memory_handle": "mem://theirs/1"},
        {"operation": "restore", "memory_handle": "mem://theirs/1"},
        {"operation": "store", "start_index": 0, "end_index": 1, "auto": True},
    ],
    "lcm_status": [{}],
    "lcm_doctor": [{}],
}


def _attempts(tool: str, theirs: Session) -> list[dict[str, Any]]:
    """Every base with every one and every two further arguments."""
    values = _values(theirs)
    known = {name for param in TOOLS[tool].params for name in (param.name, *param.aliases)} & set(values)
    singles = [{name: value} for name in sorted(known) for value in values[name]]
    pairs = [
        {first: values[first][0], second: values[second][0]}
        for first, second in itertools.combinations(sorted(known), 2)
    ]
    return [{**base, **more} for base in _BASES[tool] for more in [{}, *singles, *pairs]]


@pytest.mark.parametrize("tool", ALL_TOOLS)
def test_two_principals_cannot_read_each_other(two: tuple[Archive, Session, Session], tool: str) -> None:
    """With any argument of any tool, alone or with another one."""
    archive, theirs, mine = two
    asked = [SECRET, "xylophone-", "7731"]
    for args in _attempts(tool, theirs):
        answer = archive.raw(tool, mine, **args)
        echo = json.dumps(args, ensure_ascii=False)
        words = [word for word in asked if word not in echo]

        words += ["went through", "They said", "Talk about", "telegram:dm:111"]
        assert [word for word in words if word in answer] == [], args
        assert f"the code is {SECRET}" not in answer.replace(echo, ""), args


@pytest.mark.parametrize("tool", ALL_TOOLS)
def test_every_argument_of_every_tool_is_tried(two: tuple[Archive, Session, Session], tool: str) -> None:
    """A new argument, or a new tool, must be tried as well: the test above does not know it otherwise."""
    _, theirs, _ = two
    tried = {name for args in _attempts(tool, theirs) for name in args}

    assert {param.name for param in TOOLS[tool].params} <= tried


def test_their_owner_reads_them(two: tuple[Archive, Session, Session]) -> None:
    """The same calls from the right side: the test above proves something."""
    archive, theirs, _ = two

    assert set(archive.found(SECRET, theirs)) == {1, 2, 3}
    assert SECRET in archive.raw("lcm_expand", theirs, node_id=2, recursive=True)
    assert SECRET in archive.raw("lcm_expand_query", theirs, prompt="what is the code?")


def test_the_local_operator_reads_everything(two: tuple[Archive, Session, Session]) -> None:
    """Whoever sits at the terminal owns the file."""
    archive, _, _ = two

    assert set(archive.found(SECRET, session_scope="all")) == {1, 2, 3}
    assert SECRET in archive.raw("lcm_expand", store_id=1)


@pytest.mark.parametrize(
    ("tool", "there", "nowhere"),
    [
        ("lcm_expand", {"store_id": 1}, {"store_id": 999}),
        ("lcm_expand", {"node_id": 1}, {"node_id": 999}),
        ("lcm_describe", {"id": "msg_1"}, {"id": "msg_999"}),
        ("lcm_describe", {"id": "sum_2"}, {"id": "sum_999"}),
        ("lcm_describe", {"session_id": "theirs"}, {"session_id": "nobody"}),
        ("lcm_describe", {"conversation_id": 2}, {"conversation_id": 999}),
        ("lcm_load_session", {"session_id": "theirs"}, {"session_id": "nobody"}),
        ("lcm_grep", {"query": "x", "session_id": "theirs"}, {"query": "x", "session_id": "nobody"}),
        ("lcm_grep", {"query": "x", "conversation_id": 2}, {"query": "x", "conversation_id": 999}),
        ("lcm_expand_query", {"prompt": "x", "node_ids": [1]}, {"prompt": "x", "node_ids": [999]}),
        ("lcm_expand", {"store_id": "msg_1..msg_2"}, {"store_id": "msg_998..msg_999"}),
    ],
    ids=str,
)
def test_denied_and_missing_look_the_same(
    two: tuple[Archive, Session, Session], tool: str, there: dict[str, Any], nowhere: dict[str, Any]
) -> None:
    """A denial that differs tells that something exists."""
    archive, _, mine = two

    def bare(args: dict[str, Any]) -> str:
        text = archive.raw(tool, mine, **args)
        for name in ("theirs", "nobody", "msg_998..msg_999", "msg_1..msg_2", "999", "1", "2"):
            text = text.replace(name, "?")
        return text

    assert bare(there) == bare(nowhere)


def test_the_archive_can_be_limited_to_the_session(tmp_path: Path) -> None:
    """Where one chat is used by several people: not even the same principal's other conversations."""
    archive = Archive(tmp_path, archive_scope="session")
    first = archive.open("first", platform="telegram", host_key="agent:main:telegram:dm:1")
    second = archive.open("second", platform="telegram", host_key="agent:main:telegram:dm:1")
    [store_id] = archive.say(user("zebra"), to="first")

    assert archive.found("zebra", second, session_scope="all") == []
    assert "error" in archive.call("lcm_expand", second, store_id=store_id)
    assert archive.found("zebra", first) == [store_id]


def test_an_archive_that_ends_with_the_session_holds_what_its_sub_agents_did(tmp_path: Path) -> None:
    """Their records are of its own work. Those of the same chat's other sessions are not."""
    archive = Archive(tmp_path, archive_scope="session")
    chat = {"platform": "telegram", "host_key": "agent:main:telegram:dm:1"}
    first, second = archive.open("first", **chat), archive.open("second", **chat)
    child = archive.open("child", parent=first, origin="subagent")
    archive.open("grandchild", parent=child, origin="subagent")
    said = {name: archive.say(user(f"zebra {name}"), to=name)[0] for name in ("child", "grandchild")}

    assert {*archive.found("zebra", first, session_scope="all")} == {*said.values()}
    assert [archive.call("lcm_expand", first, store_id=each)["content"] for each in said.values()] == [
        "zebra child",
        "zebra grandchild",
    ]
    assert "error" in archive.call("lcm_expand", second, store_id=said["child"])
    assert archive.found("zebra", first) == []


# -- hostile ---------------------------------------------------------------------------------------------------------------
HOSTILE = [
    '"', "'", "\\", "AND", "OR OR", "NOT", "a NOT", "NEAR(a b", "a*", "*", "(", "((((((", ")", "^", "{a} : b", "text:x", "-",
    "--x", "\x00", "a\x00b", "\ud800", "😀", "'; DROP TABLE messages; --", "%", "_", "a" * 10_000, "a b " * 2500, "(" * 5000,
    '"' * 999, "数" * 3000, "\n\n\n", "a-b-c/d.e_f", "AND AND AND", "x NEAR/5 y", "[", "(?", "(a+)+$", "(a|a)*b", ".*.*.*.*=.*",
    "(?:a{0,99}){99}", "\\", "(?P<n>a)(?P=n)", "[[:alpha:]]", "^(([a-z])+.)+[A-Z]([a-z])+$", "x{1,99999}", "(?i)" * 50,
]  # fmt: skip


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    archive = Archive(tmp_path_factory.mktemp("large"))
    archive.say(*[result(f"{n} " + "aaaa bbbb cccc " * 20 + "a" * 200) for n in range(600)], result("a" * 200_000))
    return archive


@pytest.mark.few(24)
@pytest.mark.parametrize("mode", ["full_text", "regex"])
@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_queries_are_answered(large: Archive, query: str, mode: str) -> None:
    """Never an exception, and never more work than for any other query."""
    with Work(large) as work:
        answer = large.grep(query, mode=mode)

    assert "results" in answer or "error" in answer
    work.is_bounded()


class Work:
    """What one search may cost, whatever was asked: statements, rows read, and seconds given to regular expressions."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.statements = self.rows = 0
        self.seconds = 0.0

    def __enter__(self) -> Work:
        database, query, find = self._archive.db, self._archive.db.query, pattern.Pattern.find

        def counted(*args: Any) -> list[Any]:
            found = query(*args)
            self.statements, self.rows = self.statements + 1, self.rows + len(found)
            return found

        def timed(each: pattern.Pattern, text: str, timeout_s: float) -> int:
            self.seconds = max(self.seconds, timeout_s)
            return find(each, text, timeout_s)

        self._patches = [patch.object(database, "query", counted), patch.object(pattern.Pattern, "find", timed)]
        for each in self._patches:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._patches:
            each.stop()

    def is_bounded(self) -> None:
        assert self.statements < 150
        assert self.rows < 10_000
        assert self.seconds <= SCAN_S


_PIECES = [
    *HOSTILE,
    "rotate",
    "password",
    "src/a-b.py",
    "密码",
    "on 3 June 2023",
    "\ud83d",
    "NEAR",
    "\x01",
    "a" * 300,
    "[[",
    "{0,9}",
    "aaaa",
]


@pytest.mark.slow
def test_a_thousand_hostile_queries_are_answered(large: Archive) -> None:
    """Pieces of all of them, glued together at random: the same bounds."""
    rng = random.Random(1000)
    for n in range(1000):
        query = rng.choice(("", " ", '"', "\n")).join(rng.choices(_PIECES, k=rng.randint(1, 6)))[:12_000] or "x"
        with Work(large) as work:
            answer = large.grep(
                query, mode=rng.choice(["full_text", "regex", None]), sort=rng.choice(["relevance", "recency"])
            )
        assert "results" in answer or "error" in answer, n
        work.is_bounded()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(st.characters(), max_size=80), mode=st.sampled_from(["full_text", "regex", None]))
def test_no_query_raises(large: Archive, query: str, mode: str | None) -> None:
    """Whatever is typed."""
    answer = large.grep(query, mode=mode)

    assert "results" in answer or "error" in answer


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_arguments_raise(large: Archive, data: st.DataObject) -> None:
    """Any value for any argument of any tool: an answer or an error, in lines or as JSON."""
    tool = TOOLS[data.draw(st.sampled_from(ALL_TOOLS))]
    names = [name for param in tool.params for name in (param.name, *param.aliases)] or ["x"]
    args = data.draw(st.dictionaries(st.sampled_from(names), junk, max_size=4))

    answer = large.raw(tool.name, **args)
    assert answer.startswith("lcm:") or isinstance(json.loads(answer), dict)
