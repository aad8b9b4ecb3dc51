"""A search shows what it found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from worlds.recall import Archive, calls, says, user

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
