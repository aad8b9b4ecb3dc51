"""A search shows what it found."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from worlds.recall import Archive, calls, result, says, user

from hermes_lcm.recall import grep


def test_the_hits_are_read_however_long_the_index_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first search also indexes what waits; that must not cost the place of the words."""
    filler = "some words of filler here. " * 200
    archive = Archive(tmp_path, user(f"{filler} the wombat burrows. {filler}"))
    monkeypatch.setattr(grep, "SCAN_S", -1.0)

    (hit,) = archive.grep("wombat burrows")["results"]
    assert "wombat" in hit["snippet"]


def test_each_of_two_questions_has_its_answer_among_the_first(tmp_path: Path) -> None:
    """The words of one question must not outweigh those of the other."""
    budget = [user(f"the budget for team {n} was approved by the budget committee of team {n}") for n in range(12)]
    archive = Archive(tmp_path, *budget, user("we settled on port 8471"))

    found = archive.grep(
        "Who approved the budget of the team and its committee? And which port did we settle on?", limit=4
    )

    texts = [hit["snippet"] for hit in found["results"]]
    assert any("8471" in text for text in texts[:2])
    assert any("approved" in text for text in texts[:2])


def test_questions_together_are_paged_without_a_hit_twice(tmp_path: Path) -> None:
    said = [user(f"the harbour crane number {n} needs paint") for n in range(9)]
    archive = Archive(tmp_path, *said, *[user(f"invoice {n} of the tax office") for n in range(9)])
    asked = "Which harbour crane needs paint? Which invoice came from the tax office?"

    page = archive.grep(asked, limit=6)
    seen = [hit["store_id"] for hit in page["results"]]
    while page.get("next_cursor"):
        page = archive.grep(asked, limit=6, cursor=page["next_cursor"])
        seen += [hit["store_id"] for hit in page["results"]]

    assert len(seen) == len(set(seen))
    assert set(range(1, 19)) <= set(seen)


def test_a_busy_machine_ranks_what_it_finds_as_a_quiet_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts that wait for the processor are read all the same: a hit whose text is not known comes last."""
    said = [user(f"the ferry {n} to the island sails in the morning with mail") for n in range(120)]
    archive = Archive(tmp_path, *said, user("the island ferry sails on Sunday with mail and cattle"))
    asked = "Does the ferry sail on Sunday with cattle?"
    quiet = [hit["store_id"] for hit in archive.grep(asked)["results"]]

    ticks = iter(range(10**6))
    monkeypatch.setattr(grep.time, "monotonic", lambda: float(next(ticks)))

    assert [hit["store_id"] for hit in archive.grep(asked)["results"]] == quiet


def test_snippets_grow_while_the_answer_has_room(tmp_path: Path) -> None:
    """The end of a message of a few hundred characters is worth more than an answer half as long."""
    words = "we walked along the canal and talked about the weather and the garden and the neighbours. " * 8
    archive = Archive(tmp_path, *[user(f"gardening club evening {n}. {words}it cost {n} euros") for n in range(4)])

    found = archive.grep("gardening club evening")["results"]

    assert [f"{n} euros" for n in range(4)] == sorted(hit["snippet"][-7:] for hit in found)


def test_in_a_diary_the_note_beside_tells_which_of_many_alike_is_meant(tmp_path: Path) -> None:
    """Each fair has a note of its hall and one of its hour, with short replies between them."""
    said = []
    for number, fair in enumerate(
        ("Lantern", "Harbour", "Pottery", "Orchard", "Bicycle", "Clockwork", "Meadow", "Copper")
    ):
        said += [user(f"I signed up for the {fair} fair."), says("ok")]
        said += [user(f"The {fair} fair has {number + 20} stalls."), says("ok")]
        said += [user(f"The {fair} fair is in hall {'NESW'[number % 4]}."), says("ok")]
        said += [user(f"The {fair} fair begins at {number + 4} sharp."), says("ok")]
    found = Archive(tmp_path, *said).grep("Which hall is the fair in that begins at 7 sharp?", limit=3)

    assert any("Orchard fair is in hall" in hit["snippet"] for hit in found["results"])


def test_of_notes_alike_the_one_near_what_was_asked_in_the_same_go_is_meant(tmp_path: Path) -> None:
    """Each week has a note of what the stall costs; the cousin with the bassoon came in one of them."""
    said = []
    for week in range(8):
        said += [user(f"The stall at the market costs {week + 20} euros this time."), says("ok")]
        guest = "My cousin plays the bassoon." if week == 3 else f"Somebody rang about parcel {week}."
        said += [user(guest), says("ok")]
        said += [each for n in range(20) for each in (user(f"Weather of day {week}-{n} was as usual."), says("ok"))]
    archive = Archive(tmp_path, *said)

    alone = archive.grep("What does the stall at the market cost?", limit=1)["results"]
    both = archive.grep("What does the stall at the market cost? Who plays the bassoon?", limit=1)["results"]

    assert "23 euros" not in alone[0]["snippet"]
    assert "23 euros" in both[0]["snippet"]


def test_of_many_that_say_common_words_the_first_says_them_as_they_were_typed(tmp_path: Path) -> None:
    """Their other forms are words of the same stem, too; in a question the forms tell nothing."""
    asked = "Flight %d is cancelled by a change of plan, cancel it."
    done = (calls('{"id": 1}', name="cancel"), result("the booking is gone"), says("ok"))
    said = [each for n in range(40) for each in (user(asked % n), *done)]
    told = "To make changes you have to cancel, under the cancellation terms that stand in the ticket which was bought."
    archive = Archive(tmp_path, *said[:80], says(told), *said[80:])

    hit = archive.grep("cancellation cancel changes", limit=1)["results"][0]

    assert hit["address"] == "msg_81"


def test_an_earlier_search_does_not_stand_above_its_answer(tmp_path: Path) -> None:
    """The agent's own call repeats the question word for word; what it says beside the call is found."""
    asked = "which port did the wombat service settle on"
    archive = Archive(
        tmp_path,
        user("the wombat service settled on port 8471"),
        calls(json.dumps({"query": asked}), name="lcm_grep", text="I look into the archive for marsupials."),
        *[user(f"unrelated remark {n}") for n in range(30)],
    )

    assert archive.found(asked)[0] == 1
    assert archive.found("marsupials") == [2]


@pytest.mark.parametrize("sort", ["relevance", "recency", "hybrid", "time"])
def test_every_order_pages_through_all_that_is_ranked(tmp_path: Path, sort: str) -> None:
    """A timeline, too: behind that of the best comes one of the next best."""
    archive = Archive(tmp_path, *[user(f"the walnut of day {n} was heavy") for n in range(90)])

    page = archive.grep("walnut", limit=13, sort=sort)
    seen = [hit["store_id"] for hit in page["results"]]
    while page.get("next_cursor"):
        page = archive.grep("walnut", limit=13, sort=sort, cursor=page["next_cursor"])
        seen += [hit["store_id"] for hit in page["results"]]

    assert sorted(seen) == list(range(1, 91))


def test_the_end_of_what_is_ranked_says_what_leads_on(tmp_path: Path) -> None:
    """More match than a search ranks; the pages of a pattern reach the others. One that ran out of time may repeat hits."""
    archive = Archive(tmp_path, *[user(f"the walnut of day {n} was heavy") for n in range(260)])

    page = archive.grep("walnut", limit=200)
    while page.get("next_cursor"):
        page = archive.grep("walnut", limit=200, cursor=page["next_cursor"])
    seen: list[int] = []
    walk = archive.grep("walnut", limit=200, mode="regex")
    while True:
        seen += [hit["store_id"] for hit in walk["results"]]
        if not walk.get("next_cursor"):
            break
        walk = archive.grep("walnut", limit=200, mode="regex", cursor=walk["next_cursor"])

    assert "mode=regex pages through all" in " ".join(page["notes"])
    assert sorted({*seen}) == list(range(1, 261))


def pages(archive: Archive, query: str, **args: object) -> list[int]:
    """Messages on all pages of a search; between two of them the host stores the call and its answer."""
    seen: list[int] = []
    more: dict[str, object] = {}
    for _ in range(60):
        found = archive.grep(query, scope="messages", **args, **more)
        seen += [hit["store_id"] for hit in found["results"]]
        archive.say(
            calls(json.dumps({"query": query, **more}), name="lcm_grep"), result(json.dumps(found), name="lcm_grep")
        )
        if not found["has_more"]:
            return seen
        more = {"cursor": found["next_cursor"]}
    raise AssertionError("the pages have no end")


def test_calls_of_our_own_tools_beside_the_hits_end_no_list(tmp_path: Path) -> None:
    """They are found for their neighbours' sake, and are not shown; what lies behind them is."""
    archive = Archive(tmp_path)
    said = []
    for n in range(12):
        said += archive.say(user(f"harbour crane {n} needs paint"))
        archive.say(
            *[each for _ in range(3) for each in (calls("{}", name="lcm_grep"), result("nothing", name="lcm_grep"))]
        )

    assert set(said) <= set(pages(archive, "harbour crane", limit=2))


def test_what_is_said_between_two_pages_brings_no_hit_twice_and_hides_none(tmp_path: Path) -> None:
    """A word that was rare is common then, so that the other one's hits come first."""
    archive = Archive(tmp_path)
    said = archive.say(*[user(f"{word} was seen {n} times") for n in range(6) for word in ("walrus", "zeppelin")])
    archive.say(*[user(f"the zeppelin number {n} was seen") for n in range(10)], to=archive.open("other").session_id)
    first = archive.grep("walrus zeppelin", limit=6)
    archive.say(*[user(f"one more walrus, {n}") for n in range(40)], to="other")
    second = archive.grep("walrus zeppelin", limit=6, cursor=first["next_cursor"])

    assert sorted(hit["store_id"] for page in (first, second) for hit in page["results"]) == said


@pytest.mark.parametrize("lost", [{9, 8, 7}, {8}, {9, 7, 5, 3, 1}])
@pytest.mark.parametrize("args", [{"sort": "recency"}, {"mode": "regex"}, {}], ids=str)
def test_messages_that_cannot_be_read_end_no_list_and_repeat_nothing(
    tmp_path: Path, lost: set[int], args: dict[str, str]
) -> None:
    """Whole pages of them, too."""
    archive = Archive(tmp_path, *[user(f"the harbour crane number {n} needs paint") for n in range(9)])
    with archive.db.transaction():
        archive.db.execute(f"UPDATE messages SET envelope = x'ffff' WHERE store_id IN ({','.join(map(str, lost))})")

    assert sorted(pages(archive, "harbour crane", limit=2, **args)) == sorted(set(range(1, 10)) - lost)


def test_the_cursor_of_another_search_is_refused(tmp_path: Path) -> None:
    """It would leave out the best of what is asked for now."""
    archive = Archive(tmp_path, *[user(f"the harbour crane {n}") for n in range(5)])
    cursor = archive.grep("harbour", limit=2)["next_cursor"]

    assert "results" in archive.grep("harbour", limit=3, cursor=cursor)
    for other in ({"query": "crane"}, {"query": "harbour", "role": "user"}, {"query": "harbour", "sort": "recency"}):
        assert "of another search" in archive.grep(**other, limit=2, cursor=cursor)["error"]


def test_a_page_of_a_pattern_begins_where_the_last_one_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was looked at already takes none of its time."""
    archive = Archive(tmp_path, *[user(f"port {n}") for n in range(150)], room=20_000)
    first = archive.grep(r"port \d+", mode="regex", limit=100)
    monkeypatch.setattr(grep, "SCAN_S", -1.0)
    second = archive.grep(r"port \d+", mode="regex", limit=100, cursor=first["next_cursor"])

    assert [hit["store_id"] for hit in second["results"]] == list(range(50, 0, -1))
    assert second["total_results"] == 150


@pytest.mark.parametrize(
    ("args", "order"),
    [({"mode": "regex", "sort": "time"}, "newest"), ({"mode": "regex"}, "newest"), ({"sort": "recency"}, "newest"),
     ({"sort": "time"}, "oldest"), ({}, "best")],
    ids=str,
)  # fmt: skip
def test_an_answer_tells_the_order_that_it_has(tmp_path: Path, args: dict[str, str], order: str) -> None:
    """Matches of a pattern are newest first."""
    archive = Archive(tmp_path)
    for day in range(3):
        archive.say(user(f"port {day}"), at=1_760_000_000.0 + day * 86_400)

    answer = archive.raw("lcm_grep", query="port", **args)

    assert f"; {order} first" in answer
    if order != "best":
        assert re.findall(r"^msg_(\d)", answer, re.MULTILINE) == (
            ["1", "2", "3"] if order == "oldest" else ["3", "2", "1"]
        )
    assert "again oldest first" not in answer


@pytest.mark.parametrize("as_lines", [True, False])
def test_a_long_name_does_not_fill_an_answer(tmp_path: Path, as_lines: bool) -> None:
    """Whoever writes in a group chooses it."""
    archive = Archive(
        tmp_path, user("the harbour crane", name="N" * 9000), result("the harbour crane", name="t" * 9000)
    )

    answer = archive.raw("lcm_grep", query="harbour crane", **({} if as_lines else {"format": "json"}))

    assert len(answer) < 7000
    assert "msg_1" in answer
    assert "msg_2" in answer


def test_a_pasted_log_is_not_repeated_in_the_answer(tmp_path: Path) -> None:
    """What to try next names the words that are missing."""
    archive = Archive(tmp_path, user("the harbour crane"))
    log = " ".join(f"module{n} failed" for n in range(400))

    look = archive.grep(f"harbour {log}")["second_look"]

    assert len(json.dumps(look)) < 1000
    assert all("module" in call["query"] for call in look["next"] if "time_from" in call)


@pytest.mark.parametrize("long", [False, True])
def test_a_result_in_one_line_of_json_is_shown_as_it_reads(tmp_path: Path, long: bool) -> None:
    """Its line ends and quotation marks are no escapes; words of a user that look like escapes stay."""
    said = 'make test\nwombat "broke" here\n' + "and more\n" * (400 if long else 0)
    found = Archive(tmp_path, calls({"command": "x"}), result(json.dumps({"output": said, "error": None})))
    found.say(user(r'I typed "wombat\n" and {"a": "b\n"}'))
    shown = {hit["store_id"]: hit["snippet"] for hit in found.grep("wombat")["results"]}

    assert 'wombat "broke" here\n' in shown[2]
    assert "\\n" not in shown[2]
    assert r"wombat\n" in shown[3]


_SOURCE = 'import os\n\nLIMIT = 7\nNAME = "Grüße"\nraise Unready("try later")\n\treturn 3'


@pytest.mark.parametrize(
    "pattern",
    ['Unready\\("try later"\\)', "^LIMIT", "= \\d+$", "Grüße", "LIMIT = 7\\nNAME", "\\breturn\\b", '"exit_code":\\s*0'],
)
def test_a_pattern_sees_a_tools_output_as_it_reads(tmp_path: Path, pattern: str) -> None:
    """It is stored as JSON in one line, with escapes, and the numbers of lines that the host's tool adds."""
    numbered = "\n".join(f"{n:6d}|{line}" for n, line in enumerate(_SOURCE.split("\n"), 1))
    filler = "# filler\n" * 300
    said = {"output": f"{filler}{numbered}\nend", "exit_code": 0}
    archive = Archive(tmp_path, user("read it"), calls("{}"), result(json.dumps(said)), says("done"))

    (hit,) = [each for each in archive.grep(pattern, mode="regex")["results"] if each["role"] == "tool"]

    assert "LIMIT" in hit["snippet"] or "exit_code" in pattern


@pytest.mark.parametrize(("pattern", "found"), [("^Traceback", True), ("bad value$", True), ("^output$", False)])
def test_a_pattern_sees_where_a_tools_output_begins_and_ends(tmp_path: Path, pattern: str, *, found: bool) -> None:
    """Its first line stands behind a key, its last one before a quotation mark. The key itself is no line."""
    said = {"output": "Traceback:\n  File 'a.py'\nValueError: bad value", "exit_code": 1}
    archive = Archive(tmp_path, user("run it"), calls("{}"), result(json.dumps(said)))

    assert (archive.grep(pattern, mode="regex")["results"] != []) == found


def test_a_number_of_thousands_of_digits_is_a_word_like_others(tmp_path: Path) -> None:
    """Python makes no number of it."""
    archive = Archive(tmp_path, user("nothing"))

    assert archive.grep("5" * 5000)["results"] == []


def test_a_literal_text_of_digits_is_found_as_it_is_typed(tmp_path: Path) -> None:
    """Whatever signs stand in it: not only those that set a number apart."""
    archive = Archive(tmp_path, user("take a1+2+3+4+5b"), user("nothing"))

    assert archive.found("1+2+3+4+5") == [1]


def test_a_number_that_is_set_apart_otherwise_is_shown_where_it_stands(tmp_path: Path) -> None:
    """The text does not hold it as it was typed, so no other search in it finds the place."""
    filler = "batch done. " * 3000
    archive = Archive(tmp_path, user(f"{filler}call 030/4455667 today. {filler}"), user("call me"))

    assert "030/4455667" in archive.grep("0304455667")["results"][0]["snippet"]


def test_a_part_of_a_word_is_shown_where_it_stands(tmp_path: Path) -> None:
    """However far behind the beginning of its message."""
    log = "\n".join(f"2026-03-{day:02d}T08:15:00Z INFO batch {day} done" for day in [*range(1, 29)] * 40)
    archive = Archive(tmp_path, user(f"{log}\n2026-03-29T04:15:09Z ERROR upstream gone\n{log}"), user("at 09 or 15"))

    hit = archive.grep("04:15:09")["results"][0]

    assert "upstream gone" in hit["snippet"]
