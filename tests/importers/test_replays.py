"""Copies in the store of an engine that stored its list again are found; what people said twice is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lcm.importers.replays import Seen, find


class Engine:
    """An engine that stores whatever it is shown. ``show`` is one go."""

    def __init__(self) -> None:
        self.rows: list[Seen] = []
        self.now = 1000.0

    def show(self, *words: str, named: Sequence[str] = (), summaries: Sequence[str] = ()) -> list[int]:
        self.now += 60
        at = len(self.rows)
        for n, word in enumerate(words):
            role = "user" if n % 2 == 0 else "assistant"
            self.rows.append(Seen(word.encode(), role, self.now + n * 0.001, word in named, word in summaries))
        return list(range(at, len(self.rows)))


LIST = [f"word {n}" for n in range(10)]


def test_a_list_that_was_stored_again_is_a_copy() -> None:
    """Row by row, whatever new stands behind it."""
    engine = Engine()
    first = engine.show(*LIST)
    again = engine.show(*LIST, "and more")

    assert find(engine.rows).copies == dict(zip(again, first, strict=False))


def test_what_is_new_in_front_of_a_list_is_a_copy_at_its_end() -> None:
    """A compaction at once: the last messages are stored, and the list that ends with them."""
    engine = Engine()
    first = engine.show(*LIST)
    go = engine.show("asked", "said", *LIST[2:], "asked", "said", "and more")

    found = find(engine.rows)
    assert found.copies == {**dict(zip(go[2:10], first[2:], strict=True)), go[10]: go[0], go[11]: go[1]}
    assert found.before == {}


def test_the_words_of_the_first_message_said_again_with_another_id_are_no_copy() -> None:
    """A list that keeps its first message in front of its tail begins as such a one may end."""
    engine = Engine()
    engine.show(*LIST)
    go = engine.show(LIST[0], *LIST[6:], LIST[0])
    for n, row in enumerate(engine.rows):
        engine.rows[n] = row._replace(uid="first" if n in (0, go[0]) else f"id {row.digest!r} {n == go[-1]}")

    assert go[-1] not in find(engine.rows).copies


def test_the_words_of_an_earlier_message_with_another_id_are_no_copy() -> None:
    """Behind a message that is known to be shown again."""
    rows = [Seen(word.encode(), "user", 1.0, uid=f"id {n}") for n, word in enumerate(["hi", "yes", "go", "stop"])]
    said_again = Seen(b"yes", "user", 60.0, uid="id 4")

    assert find([*rows, rows[0]._replace(at=60.0), said_again]).copies == {4: 0}


def test_four_times_is_three_copies() -> None:
    """All of them point at the first."""
    engine = Engine()
    first = engine.show(*LIST)
    for _ in range(3):
        engine.show(*LIST)

    assert sorted(find(engine.rows).copies.values()) == sorted(first * 3)


def test_a_copy_with_the_time_of_a_copy_is_a_copy() -> None:
    """A compaction stores its tail anew; the next process shows that tail with the times it got there, behind other times."""
    engine = Engine()
    first = engine.show(*LIST)
    tail = engine.show(*LIST[6:], "next")
    engine.show("later", "much later")
    engine.rows += [engine.rows[n] for n in tail[:3]]

    assert [find(engine.rows).copies.get(n) for n in (*tail[:3], 17, 18, 19)] == first[6:9] * 2


def test_two_replays_in_one_go_are_two_copies() -> None:
    """The end of a session and its next start come in the same moment."""
    engine = Engine()
    engine.show(*LIST)
    engine.show(*LIST, "new", *LIST, "new")

    assert len(find(engine.rows).copies) == 21


def test_the_tail_behind_a_summary_is_a_copy_and_the_summary_stands_in_front_of_it() -> None:
    """What an engine shows after a compaction."""
    engine = Engine()
    first = engine.show(*LIST)
    after = engine.show("what was before", *LIST[7:], "next")
    found = find(engine.rows)

    assert found.copies == {}  # three rows and a line of any kind prove nothing
    engine.rows[after[0]] = engine.rows[after[0]]._replace(summary=True)
    found = find(engine.rows)
    assert found.copies == dict(zip(after[1:4], first[7:], strict=True))
    assert found.before == {after[0]: first[7]}


def test_protected_first_messages_are_copies_too() -> None:
    """The host's own compressor keeps the first messages in front of its summary."""
    engine = Engine()
    first = engine.show(*LIST)
    after = engine.show(*LIST[:2], "summary", *LIST[6:], summaries=["summary"])

    assert find(engine.rows).copies == dict(zip([*after[:2], *after[3:]], [*first[:2], *first[6:]], strict=True))


def test_an_edited_copy_is_told_from_the_others() -> None:
    """It says something else, so it is no copy; it stands in the place of the row that it edits."""
    engine = Engine()
    first = engine.show(*LIST)
    again = engine.show(*LIST[:4], "word 4, decorated", *LIST[5:])
    found = find(engine.rows)

    assert found.edits == {again[4]: first[4]}
    assert len(found.copies) == 9


def test_a_copy_with_another_text_but_the_same_calls_edits_its_row() -> None:
    """A summary glued to the first message of the tail, an output that was cut."""
    engine = Engine()
    first = engine.show(*LIST)
    again = engine.show("summary and word 6", LIST[7], "cut", LIST[9])
    for n, m in ((again[0], first[6]), (again[2], first[8])):
        for k in (n, m):
            engine.rows[k] = engine.rows[k]._replace(ids=(f"call {m}",), named=True, role="assistant")

    assert find(engine.rows, enough=2).edits == {again[0]: first[6], again[2]: first[8]}


def test_what_people_say_again_is_no_copy() -> None:
    """The same exchange every hour, and twice in one list."""
    engine = Engine()
    for _ in range(20):
        engine.show("anything new?", "no")
    engine.show("yes", "ok", "yes", "ok", "yes", "ok", "yes", "ok", "yes", "ok")

    assert find(engine.rows).copies == {}


def test_a_row_with_the_very_time_of_an_equal_one_is_a_copy() -> None:
    """An engine that keeps the time of the message stores the same time again."""
    at = [Seen(b"a", "user", 1.0), Seen(b"b", "assistant", 5.0), Seen(b"c", "user", 9.0)]

    assert find([*at, *at]).copies == {3: 0, 4: 1, 5: 2}


def test_equal_times_within_one_go_prove_nothing() -> None:
    """The engine stamped the whole list with one time."""
    same = [Seen(b"yes", "user", 1.0), Seen(b"ok", "assistant", 1.0)]

    assert find([*same, *same]).copies == {}


def test_the_same_tool_call_twice_needs_two_rows_to_be_believed() -> None:
    """Ids are given out by models, which give them out again."""
    engine = Engine()
    first = engine.show("look", "call 1", "result 1", named=["call 1", "result 1"])
    again = engine.show("call 1", "result 1", "done", named=["call 1", "result 1"])

    assert find(engine.rows).copies == dict(zip(again[:2], first[1:], strict=True))


def test_rows_without_a_time_are_never_copies() -> None:
    """There is no telling what was stored in one go."""
    rows = [Seen(word.encode(), "user", None) for word in LIST]

    assert find([*rows, *rows]).copies == {}


def replayed(said: list[str], fresh: Iterator[str], data: st.DataObject) -> tuple[Engine, int]:
    """An engine that stored lists again and again; how many messages there really were."""
    engine, thread = Engine(), [*said]
    engine.show(*thread)
    for _ in range(data.draw(st.integers(0, 4))):
        start = data.draw(st.integers(0, len(thread)))
        new = [next(fresh) for _ in range(data.draw(st.integers(0, 3)))]
        engine.show(*thread[start:], *new)
        thread += new
    return engine, len(thread)


@settings(max_examples=settings.default.max_examples * 3 // 2, deadline=None)
@given(st.lists(st.sampled_from("abcde"), min_size=1, max_size=12), st.data())
def test_a_copy_equals_a_row_that_stays(said: list[str], data: st.DataObject) -> None:
    """Whatever repeats itself."""
    engine, _ = replayed(said, iter("abcde" * 9), data)
    found = find(engine.rows)

    assert all(engine.rows[n].digest == engine.rows[m].digest for n, m in found.copies.items())
    assert not set(found.copies) & set(found.copies.values())


@settings(max_examples=settings.default.max_examples * 3 // 2, deadline=None)
@given(st.integers(1, 30), st.data())
def test_every_message_stays_once_at_least(size: int, data: st.DataObject) -> None:
    """Where no two messages say the same, what is no copy is each message once; short replays may remain."""
    engine, real = replayed([f"m{n}" for n in range(size)], (f"n{n}" for n in range(99)), data)
    found = find(engine.rows)
    kept = [row.digest for n, row in enumerate(engine.rows) if n not in found.copies]

    assert len(set(kept)) == real


@settings(max_examples=settings.default.max_examples * 3 // 2, deadline=None)
@given(st.lists(st.sampled_from("abc"), min_size=4, max_size=10), st.data())
def test_messages_with_lasting_ids_stay_once_whatever_they_repeat(said: list[str], data: st.DataObject) -> None:
    """Lists with and without their first messages, and what is new stored in front of them."""
    rows = [Seen(word.encode(), "user", 0.0, uid=f"{n}") for n, word in enumerate(said)]
    thread = [*rows]
    for go in range(1, data.draw(st.integers(2, 4))):
        start = data.draw(st.integers(0, len(thread)))
        first = thread[: data.draw(st.integers(0, min(3, start)))]
        words = data.draw(st.lists(st.sampled_from("abc"), max_size=4))
        new = [Seen(word.encode(), "user", 0.0, uid=f"{len(thread) + n}") for n, word in enumerate(words)]
        shown = [*(new if data.draw(st.booleans()) else first), *thread[start:], *new]
        thread += new
        rows += [row._replace(at=go * 60.0) for row in shown]
    found = find(rows)

    kept = [row.uid for n, row in enumerate(rows) if n not in found.copies and n not in found.edits]
    assert sorted(map(str, kept)) == sorted(str(row.uid) for row in thread)


@pytest.mark.parametrize("size", [20_000])
def test_a_long_session_of_equal_words_is_searched_in_bounds(size: int) -> None:
    """The worst case for pairs: everything equals everything."""
    engine = Engine()
    for _ in range(4):
        engine.show(*["yes"] * (size // 4))

    assert len(find(engine.rows).copies) <= size
