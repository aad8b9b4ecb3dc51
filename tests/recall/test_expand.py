"""Reading back: exact, paged, continued from anywhere, whatever arrives in the meantime (P7)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worlds.recall import NOW, Archive, calls, result, says, user

from hermes_lcm.records import Flag
from hermes_lcm.store import NewRow
from hermes_lcm.text import content, tokens

ODD = [
    "", " outer blanks \n", "NUL \x00 inside", "lone \ud800 surrogate \udfff", "数据库密码轮换周期 " * 40,
    "\r\n\t\u2028 lines\n" * 30,
    '"quotes" and \\backslashes\\ ' * 50, "😀 astral 𝔘 " * 80, "x" * 40_000, "\x01\x02" * 3000,
]  # fmt: skip
texts = st.text(st.characters(), max_size=300) | st.sampled_from(ODD)
few = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


def following(call: Callable[..., dict[str, Any]], tool: str, **args: Any) -> Iterator[dict[str, Any]]:
    """The answer of a call, and those of the calls that it and they name: of the answer, or of its only message."""
    for _ in range(100):
        page = call(tool, **args)
        yield page
        item = next(iter(page.get("messages", [page])))
        handle = page.get("continue_with") or item.get("continue_with")
        if handle is None:
            return
        tool, args = handle["tool"], {name: value for name, value in handle.items() if name != "tool"}
    raise AssertionError(f"{tool} with {args} goes on without end")


# -- one message ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_any_text_comes_back_exactly(archive: Archive, text: str) -> None:
    """The pages of a message, joined, are the message: NUL, surrogates, CJK, 40 kB in one line."""
    [store_id] = archive.say(user(text))

    assert archive.read(store_id, max_tokens=400) == text


@few
@given(text=texts, size=st.integers(1, 3000))
def test_any_page_size_gives_the_same_text(tmp_path_factory: pytest.TempPathFactory, text: str, size: int) -> None:
    """Page size is a matter of room, not of content."""
    archive = Archive(tmp_path_factory.mktemp("a"), room=4000)
    [store_id] = archive.say(user(text[:5000]))

    assert archive.read(store_id, max_tokens=size) == text[:5000]


def test_a_message_of_two_megabytes_is_read_to_its_end(archive: Archive) -> None:
    """However long a tool result is, its last character can be reached."""
    text = "".join(f"line {n} of the log\n" for n in range(100_000)) + "NEEDLE"
    [store_id] = archive.say(result(text))

    page = archive.call("lcm_expand", store_id=store_id, content_offset=len(text) - 6)

    assert page["content"] == "NEEDLE"
    assert not page["content_truncated"]


def test_pages_do_not_change_while_messages_arrive(archive: Archive) -> None:
    """An offset is a place in a row, and rows never change."""
    text = "word " * 20_000
    [store_id] = archive.say(user(text))
    first = archive.call("lcm_expand", store_id=store_id)
    archive.say(*[says(f"later {n}") for n in range(50)])

    rest = archive.call("lcm_expand", **{k: v for k, v in first["continue_with"].items() if k != "tool"})

    assert text.startswith(first["content"] + rest["content"])


@few
@given(arguments=st.lists(st.text(max_size=4000), min_size=1, max_size=4), size=st.integers(1, 1500))
def test_huge_arguments_are_paged_like_content(
    tmp_path_factory: pytest.TempPathFactory, arguments: list[str], size: int
) -> None:
    """The arguments of all calls of a message, joined over the pages, are what the model wrote."""
    archive = Archive(tmp_path_factory.mktemp("a"))
    [store_id] = archive.say(calls(*arguments))
    got: dict[str, str] = {}
    page = archive.call("lcm_expand", store_id=store_id, max_tokens=size)
    while True:
        for call in page["tool_calls"]:
            got[call["id"]] = got.get(call["id"], "") + call["function"]["arguments"]
        if not page.get("arguments_truncated"):
            break
        page = archive.call(
            "lcm_expand", store_id=store_id, max_tokens=size, arguments_offset=page["next_arguments_offset"]
        )

    assert got == {f"call_{n}": each for n, each in enumerate(arguments)}


def test_huge_content_and_huge_arguments_both_come_back(archive: Archive) -> None:
    """The call that a page names goes on with both."""
    text, arguments = "said " * 10_000, json.dumps({"text": "written " * 5_000})
    archive.say(calls(arguments, name="write_file", text=text))
    read, written = "", ""
    for handle in following(archive.call, "lcm_load_session", max_content_chars=100):
        item = next(iter(handle.get("messages", [handle])))
        read += item.get("content") or ""
        written += "".join(call["function"]["arguments"] for call in item.get("tool_calls", ()))

    assert (read, written) == (text, arguments)


def test_content_parts_come_as_exact_json_and_as_text(archive: Archive) -> None:
    """An image is not lost, and a reader need not decode it."""
    parts = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "data:," + "A" * 9000}},
    ]
    [store_id] = archive.say(user(parts))

    page = archive.call("lcm_expand", store_id=store_id, max_tokens=300)

    assert page["text"] == "what is this?\n[screenshot]"
    assert json.loads(archive.read(store_id, max_tokens=300)) == parts


def test_the_whole_host_message_comes_back(archive: Archive) -> None:
    """Reasoning and keys nobody knows are stored, so they can be read."""
    message = says("done", reasoning="because " * 3000, finish_reason="stop", odd={"a": [1, None]})
    [store_id] = archive.say(message)
    text, handle = "", {"store_id": store_id, "part": "message"}
    while handle:
        page = archive.call("lcm_expand", **handle, max_tokens=900)
        text += page["content"]
        handle = {k: v for k, v in page.get("continue_with", {}).items() if k != "tool"}

    assert json.loads(text) == message


def test_lines_are_counted_from_one(archive: Archive) -> None:
    """As editors and error messages do."""
    [store_id] = archive.say(result("\n".join(f"line {n}" for n in range(1, 101))))

    page = archive.call("lcm_expand", store_id=store_id, lines="40-42")

    assert page["content"] == "line 40\nline 41\nline 42\n"
    assert page["lines_total"] == 100


def test_a_range_of_lines_longer_than_a_page_goes_on_within_the_range(archive: Archive) -> None:
    """The continuation of a piece ends where the piece ends."""
    lines = [f"line {n} {'x' * 60}\n" for n in range(1, 2001)]
    [store_id] = archive.say(result("".join(lines)))
    text, handle = "", {"store_id": store_id, "lines": "100-1900"}
    while handle:
        page = archive.call("lcm_expand", **handle)
        text += page["content"]
        handle = {k: v for k, v in page.get("continue_with", {}).items() if k != "tool"}

    assert text == "".join(lines[99:1900])


def test_bytes_begin_and_end_between_characters(archive: Archive) -> None:
    """Half a character is no text: one belongs to the range in which it begins."""
    [store_id] = archive.say(user("a数据b"))  # bytes: a 0, 数 1-3, 据 4-6, b 7

    assert archive.call("lcm_expand", store_id=store_id, bytes="2-4")["content"] == "据"
    assert archive.call("lcm_expand", store_id=store_id, bytes="7-99")["content"] == "b"


@pytest.mark.parametrize("step", [1, 3, 7])
def test_ranges_of_bytes_that_follow_each_other_are_the_text(archive: Archive, step: int) -> None:
    """Wherever the borders fall."""
    text = "aé漢👩‍👧\r\n\x00e\u0301 end"
    [store_id] = archive.say(user(text))
    size = len(text.encode())
    parts = [
        archive.call("lcm_expand", store_id=store_id, bytes=f"{at}-{at + step - 1}") for at in range(0, size, step)
    ]

    assert "".join(part["content"] for part in parts) == text


def test_a_superseded_message_says_so(archive: Archive) -> None:
    """A revision keeps both, and each names the other."""
    [old] = archive.say(user("first wording"))
    [new] = archive.store.append(
        archive.me.conversation_id,
        "main",
        1,
        [NewRow(content.read_message(user("second wording")), revises=old)],
        source="cli",
        now=NOW,
    )

    assert archive.call("lcm_expand", store_id=old)["superseded_by"] == f"msg_{new}"
    assert archive.call("lcm_expand", store_id=new)["revises"] == f"msg_{old}"
    assert archive.transcript()[0]["superseded_by"] == f"msg_{new}"


def test_a_retracted_message_says_so(archive: Archive) -> None:
    """What was taken back is kept, and marked."""
    [store_id] = archive.say(user("forget the zebra"))
    archive.store.flag([store_id], add=Flag.RETRACTED)

    assert archive.call("lcm_expand", store_id=store_id)["flags"] == ["retracted"]
    assert archive.grep("zebra")["results"][0]["retracted"] is True


@pytest.mark.parametrize(
    ("store_id", "past"),
    [
        (1, {"content_offset": 6}), (1, {"lines": "2-3"}), (1, {"bytes": "5-9"}), (1, {"arguments_offset": 9}),
        (2, {"arguments_offset": 99}),
    ],
)  # fmt: skip
def test_an_offset_behind_the_end_is_refused(archive: Archive, store_id: int, past: dict[str, Any]) -> None:
    """An empty page would look like the end of the text."""
    archive.say(user("hello"), calls("{}"))

    assert "error" in archive.call("lcm_expand", store_id=store_id, **past)


# -- ranges ----------------------------------------------------------------------------------------------------------
def test_a_range_of_messages_is_read_with_its_continuation(archive: Archive) -> None:
    """The ranges that the prompt prints can be read as they stand."""
    ids = archive.say(*[user(f"message {n} " + "text " * 300) for n in range(30)])
    got, handle = [], {"store_id": f"msg_{ids[4]}..msg_{ids[24]}"}
    while handle:
        page = archive.call("lcm_expand", **handle)
        got += [each["store_id"] for each in page["messages"]]
        handle = {k: v for k, v in page.get("continue_with", {}).items() if k != "tool"}

    assert got == ids[4:25]


# -- sessions --------------------------------------------------------------------------------------------------------
@few
@given(
    lengths=st.lists(st.integers(0, 6000), min_size=1, max_size=30),
    limit=st.integers(1, 200),
    most=st.integers(0, 8000),
)
def test_any_page_size_lists_every_message_once_in_order(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], limit: int, most: int
) -> None:
    """And what is cut of a message is the beginning of it, with a handle to the rest."""
    archive = Archive(tmp_path_factory.mktemp("a"), room=3000)
    said = [f"{n}:" + "ab " * (length // 3) for n, length in enumerate(lengths)]
    archive.say(*[user(text) for text in said])

    got = archive.transcript(limit=limit, max_content_chars=most)

    assert len(got) == len(said)
    for item, text in zip(got, said, strict=True):
        assert text.startswith(item["content"])
        assert item["content_truncated"] == (item["content"] != text)
        if item["content_truncated"]:
            assert item["continue_with"]["content_offset"] == len(item["content"])


def test_a_session_that_grows_is_paged_without_gap_or_repetition(archive: Archive) -> None:
    """A cursor is an address, not a count."""
    archive.say(*[user(f"message {n}") for n in range(25)])
    seen, cursor = [], 0
    for n in range(200):
        page = archive.call("lcm_load_session", limit=7, after_store_id=cursor)
        seen += [each["content"] for each in page["messages"]]
        if not page["has_more"]:
            break
        cursor = page["next_cursor"]
        if n < 10:
            archive.say(says(f"reply {n}"))

    assert seen[:25] == [f"message {n}" for n in range(25)]
    assert len(seen) == len(set(seen)) == archive.store.count("main")


def test_a_message_that_came_between_others_later_is_read_in_its_place(tmp_path: Path) -> None:
    """An import or a repair put it there. Cursors only grow: with small pages it comes with the newest."""
    archive = Archive(tmp_path, user("one"), says("two"), user("four"), says("five"), says("three"))
    archive.store.move([(5, 2.5)])
    whole = archive.call("lcm_load_session")
    pages = [archive.call("lcm_load_session", limit=3, after_store_id=cursor) for cursor in (0, 3)]

    assert [each["content"] for each in whole["messages"]] == ["one", "two", "three", "four", "five"]
    assert [page["next_cursor"] for page in (whole, *pages)] == [None, 3, None]
    assert [each["content"] for page in pages for each in page["messages"]] == ["one", "two", "four", "three", "five"]


def test_a_page_behind_the_end_says_where_the_end_is(archive: Archive) -> None:
    """An empty answer might be read as an empty session."""
    last = archive.say(user("last"))[0]
    pages = [archive.call("lcm_load_session", after_store_id=cursor) for cursor in (last, last + 100)]

    assert [page["messages"] for page in pages] == [[], []]
    assert [f"is msg_{last}" in str(page.get("notes")) for page in pages] == [False, True]


def test_filters_count_what_they_let_through(archive: Archive) -> None:
    """Role, time and source narrow the page and its total."""
    archive.say(user("a"), says("b"), at=NOW)
    archive.say(user("c"), says("d"), at=NOW + 100, source="telegram")

    page = archive.call("lcm_load_session", role="user", time_from=NOW + 50)

    assert [each["content"] for each in page["messages"]] == ["c"]
    assert page["total_messages"] == 1
    assert archive.call("lcm_load_session", source="telegram")["total_messages"] == 2


def test_the_page_before_a_rotation_is_named(archive: Archive) -> None:
    """A session that continues another one says which."""
    archive.say(user("before"))
    after = archive.open("rotated", parent=archive.me, origin="rotation")
    archive.say(user("after"), to="rotated")

    page = archive.call("lcm_load_session", after)

    assert page["continues"] == {"session_id": "main", "as": "rotation"}
    assert [each["content"] for each in page["messages"]] == ["after"]


def test_an_unknown_session_is_an_empty_one(archive: Archive) -> None:
    """Nothing stored and nothing readable look the same."""
    page = archive.call("lcm_load_session", session_id="nobody's")

    assert (page["messages"], page["total_messages"], page["has_more"]) == ([], 0, False)
    assert "nobody's" in page["notes"][0]


# -- summaries -------------------------------------------------------------------------------------------------------
@few
@given(
    lengths=st.lists(st.integers(0, 9000), min_size=1, max_size=12),
    size=st.integers(1, 4000),
    limit=st.integers(1, 12),
)
def test_the_sources_of_a_summary_come_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], size: int, limit: int
) -> None:
    """Whatever the page size, all sources in order, each of them whole."""
    archive = Archive(tmp_path_factory.mktemp("a"))
    said = [f"{n}:" + "word " * (length // 5) for n, length in enumerate(lengths)]
    node = archive.node("about words", archive.say(*[user(text) for text in said]))

    got = archive.sources(node.node_id, max_tokens=size, source_limit=limit)

    assert [item["content"] for item in got] == said


def _tree(archive: Archive) -> tuple[list[int], list[int], int]:
    ids = archive.say(*[user(f"fact {n}: {'detail ' * 200}") for n in range(12)])
    leaves = [archive.node(f"leaf {n}", ids[4 * n : 4 * n + 4]).node_id for n in range(3)]
    return ids, leaves, archive.node("all of it", leaves, depth=1).node_id


def test_a_condensed_summary_expands_to_its_children(archive: Archive) -> None:
    """One level at a time, each child with its text and its address."""
    _, leaves, root = _tree(archive)

    got = archive.sources(root)

    assert [item["node_id"] for item in got] == leaves
    assert [item["content"] for item in got] == ["leaf 0", "leaf 1", "leaf 2"]


@pytest.mark.parametrize("size", [300, 1000, 8000])
def test_recursive_expansion_walks_down_to_the_messages(archive: Archive, size: int) -> None:
    """In order, within the budget, and on the next page it goes on where it stopped."""
    ids, _, root = _tree(archive)

    got = archive.sources(f"sum_{root}", recursive=True, max_tokens=size)

    assert [item["store_id"] for item in got] == ids


def test_a_carried_summary_can_be_expanded(archive: Archive) -> None:
    """After /new the old conversation's summaries are shown, so their sources must be readable."""
    ids, _, root = _tree(archive)
    fresh = archive.open("fresh")
    archive.sessions.carry(fresh.conversation_id, [root])

    page = archive.call("lcm_expand", fresh, node_id=root, recursive=True)

    assert page["expanded"][0]["store_id"] == ids[0]


# -- describe --------------------------------------------------------------------------------------------------------
def test_the_overview_names_the_roots_and_nothing_else_as_node_id(archive: Archive) -> None:
    """What the prompt shows is what the overview lists."""
    _, _, root = _tree(archive)
    archive.dag.publish(archive.me.conversation_id, "main", [root], [], last_seq=12, last_pos=12, now=NOW)

    answer = archive.call("lcm_describe")

    assert [each["node_id"] for each in answer["roots"]] == [root]
    assert json.dumps(answer).count('"node_id"') == 1


def test_a_described_summary_shows_text_subtree_and_cost(archive: Archive) -> None:
    """Enough to decide what to expand."""
    ids, leaves, root = _tree(archive)

    answer = archive.call("lcm_describe", id=f"sum_{root}")
    leaf = archive.call("lcm_describe", id=f"sum_{leaves[0]}")

    assert answer["content"] == "all of it"
    assert answer["children"] == [f"sum_{each}" for each in leaves]
    assert [each["address"] for each in answer["subtree"]] == answer["children"]
    assert all(each["source_tokens"] > 0 for each in answer["subtree"])
    assert leaf["parents"] == [f"sum_{root}"]
    assert leaf["source_messages"] == [f"msg_{ids[0]}..msg_{ids[3]}"]


def test_a_described_message_names_the_summaries_over_it(archive: Archive) -> None:
    """From the leaf to the root."""
    ids, leaves, root = _tree(archive)

    assert archive.call("lcm_describe", id=f"msg_{ids[5]}")["summaries"] == [f"sum_{leaves[1]}", f"sum_{root}"]


@few
@given(size=st.integers(1, 2000))
def test_a_long_summary_is_described_page_by_page(tmp_path_factory: pytest.TempPathFactory, size: int) -> None:
    """No text that a tool shows is cut for good."""
    archive = Archive(tmp_path_factory.mktemp("a"))
    text = "".join(f"decision {n}. " for n in range(300))
    node = archive.node(text, archive.say(user("x")))
    got, offset = "", 0
    while offset is not None:
        page = archive.call("lcm_describe", id=node.address, content_offset=offset, max_tokens=size)
        got += page["content"]
        offset = page.get("next_content_offset")

    assert got == text


# -- room ------------------------------------------------------------------------------------------------------------
@pytest.mark.few(5)
@pytest.mark.parametrize("room", [1500, 4000, 8000])
@pytest.mark.parametrize(
    "text", ["plain words " * 5000, "数据" * 30_000, "\x00" * 30_000, '"\\' * 20_000], ids=range(4)
)
def test_no_answer_is_larger_than_its_room(tmp_path: Path, room: int, text: str) -> None:
    """The host cuts what is longer, and its cut has no handle."""
    archive = Archive(tmp_path, room=room)
    archive.say(*[user(f"short {n}") for n in range(400)])
    ids = archive.say(user(text), calls(text), result(text), says(text))
    node = archive.node(text[:20_000], ids)
    answers = [
        archive.raw("lcm_load_session", limit=200, max_content_chars=1_000_000),
        archive.raw("lcm_load_session", after_store_id=399, limit=200, max_content_chars=1_000_000),
        archive.raw("lcm_expand", store_id="msg_1..msg_400"),
        archive.raw("lcm_expand", node_id=archive.node("short ones", range(1, 401)).node_id),
        archive.raw("lcm_grep", query="short", limit=200),
        archive.raw("lcm_grep", query=text[:40], limit=200),
        archive.raw("lcm_describe", id=node.address),
        archive.raw("lcm_describe"),
        archive.raw("lcm_expand", node_id=node.node_id, max_tokens=1_000_000),
        *[archive.raw("lcm_expand", store_id=store_id, max_tokens=1_000_000) for store_id in ids],
    ]

    assert max(tokens.count(answer) for answer in answers) <= room + 150
    assert max(map(len, answers)) <= 30_000


def test_a_hint_that_is_too_long_is_read_to_its_end(archive: Archive) -> None:
    """As the last part of the summary's text: nothing of it is lost."""
    hint = " ".join(f"topic {n}" for n in range(2000))
    archive.room = 1500
    node = archive.node("A short summary.", archive.say(user("something")), expand_hint=hint)
    text, page = "", archive.call("lcm_describe", id=node.address)
    while True:
        text += page["content"]
        if not page["content_truncated"]:
            break
        handle = {name: value for name, value in page["continue_with"].items() if name != "tool"}
        page = archive.call("lcm_describe", **handle)

    assert text == f"A short summary.\nExpand for details about: {hint}"


def test_the_list_of_other_sessions_goes_on(archive: Archive) -> None:
    """Page by page, each session once."""
    for n in range(30):
        archive.open(f"other-{n}")
    seen: list[str] = []
    page = archive.call("lcm_describe")
    while True:
        seen += [each["session_id"] for each in page["other_sessions"]]
        handle = page.get("other_sessions_continue_with")
        if handle is None:
            break
        page = archive.call(handle["tool"], **{name: value for name, value in handle.items() if name != "tool"})

    assert sorted(seen) == sorted(f"other-{n}" for n in range(30))


def test_a_summary_is_paged_exactly_while_messages_and_summaries_arrive(archive: Archive) -> None:
    """Its sources are what they were when it was written."""
    ids = archive.say(*(user(f"message {n} " + "word " * 200) for n in range(12)))
    node = archive.node("twelve messages", ids)
    archive.room = 700
    texts, page = dict[int, str](), archive.call("lcm_expand", node_id=node.node_id)
    while True:
        for item in page["expanded"]:
            texts[item["store_id"]] = texts.get(item["store_id"], "") + item["content"]
        new = archive.say(user("and another one"))
        archive.node("a newer summary", [*ids[:2], *new])
        if not page["pagination"]["has_more"]:
            break
        handle = {name: value for name, value in page["continue_with"].items() if name != "tool"}
        page = archive.call("lcm_expand", **handle)

    assert list(texts.values()) == [f"message {n} " + "word " * 200 for n in range(12)]


# -- damage --------------------------------------------------------------------------------------------------------
def damaged(archive: Archive, store_id: int) -> None:
    """What is stored of a message cannot be read any more."""
    with archive.db.transaction():
        archive.db.execute("UPDATE messages SET envelope = x'ffff' WHERE store_id = ?", (store_id,))


def test_a_damaged_message_hides_no_other(archive: Archive) -> None:
    """In pages of a session, of a range, of a summary's sources: it has its place and says so, and the rest can be reached."""
    ids = archive.say(*(user(f"message {n}") for n in range(6)))
    leaf = archive.node("six messages", ids)
    above = archive.node("all of them", [leaf.node_id], depth=1)
    damaged(archive, ids[2])
    pages = (
        archive.transcript(limit=2),
        archive.call("lcm_expand", store_id=f"msg_{ids[0]}..msg_{ids[-1]}")["messages"],
        archive.sources(leaf.node_id),
        archive.call("lcm_expand", node_id=above.node_id, recursive=True)["expanded"],
    )

    said = [f"message {n}" if n != 2 else None for n in range(6)]
    assert [[item["content"] for item in page] for page in pages] == [said] * 4
    assert [[item["store_id"] for item in page if "unreadable" in item] for page in pages] == [[ids[2]]] * 4


def test_a_damaged_message_that_is_asked_for_is_an_error_with_a_remedy(archive: Archive) -> None:
    """Nothing else was wanted."""
    (store_id,) = archive.say(user("a message"))
    damaged(archive, store_id)
    answer = archive.call("lcm_expand", store_id=store_id)

    assert f"msg_{store_id} cannot be read" in answer["error"]
    assert answer["remedy"]


def test_lines_of_a_tools_output_are_those_that_it_shows(tmp_path: Path) -> None:
    """It is stored as JSON in one line; a search shows the numbers of its lines."""
    shown = "\n".join(f"{n:6d}|step({n})  # \\n is no line end" for n in range(1, 60))
    output = json.dumps({"content": shown, "total_lines": 59})
    archive = Archive(tmp_path, user("read it"), calls("{}"), result(output))

    parts = [archive.call("lcm_expand", store_id=3, lines=lines) for lines in ("1-39", "40-41", "42-99")]

    assert parts[1]["content"] == json.dumps("\n".join(shown.split("\n")[39:41]) + "\n")[1:-1]
    assert "".join(each["content"] for each in parts) == output
    assert parts[0]["lines_total"] == archive.call("lcm_describe", id="msg_3")["lines"] == 59
