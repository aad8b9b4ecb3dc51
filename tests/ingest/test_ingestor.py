"""Each message is stored once, in order, whatever the host does to its list (P1, P2)."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worlds.process import Chat, World, chat, digests, flatten, merge, reload, texts

from hermes_lcm.records import Flag
from hermes_lcm.text import content

TODO = "[Your active task list was preserved across context compression]\n- [>] 1. Fix the parser (in_progress)"


HERE = Path(__file__).resolve().parents[1]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(params=[False, True], ids=["running", "restarted"])
def meet(request: pytest.FixtureRequest, world: World) -> Callable[[Chat], World]:
    """Hand a changed list over: to the process that saw the old one, or to the next one after a restart."""

    def hand_over(messages: Chat) -> World:
        again = world.restart() if request.param else world
        again.take(reload(messages) if request.param else messages)
        return again

    return hand_over


# -- written twice -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("compacted", [False, True], ids=["plain", "compacted"])
def test_a_list_that_the_host_wrote_down_twice_is_stored_once(world: World, restart: bool, compacted: bool) -> None:
    """To look into two sessions in turn, without a word in either, is enough for host 0.19."""
    said = chat().turns(30)
    world.take(said)
    once = reload(world.compact(said) if compacted else said, at=1_700_000_000.25)
    world.take(once)
    before = Counter(digests(world.stored()))
    again = world.restart() if restart else world
    twice = Chat([*once, *copy.deepcopy(once)]).user("and now?")
    again.take(twice)

    assert Counter(digests(again.stored())) - before == Counter(digests(chat().user("and now?")))
    assert again.gaps(twice) == ([], [])


@pytest.mark.parametrize("first", [1_700_000_000, 1_700_000_000.25], ids=["whole second", "another time"])
def test_the_same_words_at_another_time_or_in_one_second_are_said_twice(world: World, first: float) -> None:
    """A platform that knows whole seconds only gives one to both of two fast messages."""
    said = chat().user("ok", timestamp=first).says("ok").user("ok", timestamp=first + first % 1).says("ok")
    world.take(said)

    assert texts(world.stored()) == ["ok"] * 4


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_a_host_may_give_one_time_to_a_whole_list(world: World, restart: bool) -> None:
    """As host 0.19 does where it writes a compacted list anew: the same words in it were said twice all the same."""
    said = chat().turns(30)
    for n in range(4):
        said.user("continue").says(f"part {n}").user("ok").says("done")
    world.take(said)
    live = world.compact(said)
    again = world.restart() if restart else world
    new = chat().user("and now?").says("Now nothing.")
    shown = Chat([{**message, "timestamp": 1_700_000_000.25} for message in [*reload(live), *new]])
    again.take(shown)

    assert digests(again.stored()) == digests([*said, *new])
    assert again.gaps(shown) == ([], [])


# -- one row changed ---------------------------------------------------------------------------------------------


def varied() -> Chat:
    return chat().turns(3).rounds(2).says("so far").turns(2, first=10)


def monotonous() -> Chat:
    """A session that says hardly anything but the same."""
    return Chat(copy.deepcopy([*chat().user("go").says("ok") * 6]))


def added(world: World, before: Chat) -> Counter[bytes]:
    """What is stored beyond ``before``."""
    found = Counter(digests(world.stored()))
    expected = Counter(digests(before))
    assert expected - found == Counter(), "something is gone"
    return found - expected


SESSIONS = pytest.mark.parametrize("said", [varied, monotonous], ids=["varied", "monotonous"])
PLACES = pytest.mark.parametrize("at", [0, 3, 6, 10], ids="at={}".format)


@pytest.mark.few(7)
@SESSIONS
@PLACES
def test_an_edited_row_is_one_new_row(world: World, meet: Any, said: Any, at: int) -> None:
    """The host changes one row in the middle: its new form is stored once, everything else not again."""
    messages = said()
    world.take(messages)
    changed = Chat([*messages[:at], {**messages[at], "content": f"changed {at}"}, *messages[at + 1 :]])

    world = meet(changed)

    assert added(world, messages) == Counter(digests([changed[at]]))


@pytest.mark.few(7)
@SESSIONS
@PLACES
def test_an_edited_row_is_one_new_row_even_if_the_list_grows(world: World, meet: Any, said: Any, at: int) -> None:
    """One edit and one new message are two new rows."""
    messages = said()
    world.take(messages)
    changed = Chat([*messages[:at], {**messages[at], "content": f"changed {at}"}, *messages[at + 1 :]]).user("new")

    world = meet(changed)

    assert added(world, messages) == Counter(digests([changed[at], changed[-1]]))


@pytest.mark.few(7)
@SESSIONS
@PLACES
def test_an_injected_row_is_one_new_row(world: World, meet: Any, said: Any, at: int) -> None:
    """The host inserts a row between old ones: it is stored once."""
    messages = said()
    world.take(messages)
    note = {"role": "user", "content": "[note of the host]"}
    changed = Chat([*messages[:at], note, *messages[at:]])

    world = meet(changed)

    assert added(world, messages) == Counter(digests([note]))


@pytest.mark.few(7)
@SESSIONS
@PLACES
def test_an_injected_row_is_not_stored_again(world: World, meet: Any, said: Any, at: int) -> None:
    """After an injection, restarts find the list as it is, the new row in its place."""
    messages = said()
    world.take(messages)
    changed = Chat([*messages[:at], {"role": "user", "content": "[note of the host]"}, *messages[at:]])
    world = meet(changed)
    world = world.restart()
    world.take(reload(changed))

    assert digests(world.thread()) == digests(changed)
    assert len(world.stored()) == len(changed)


@pytest.mark.parametrize("at", [2, 3])
@pytest.mark.parametrize("way", ["restart", "branch"])
def test_a_row_put_beside_a_request_that_stayed_is_stored_once(tmp_path: Path, at: int, way: str) -> None:
    """The tool round behind the request lies under a summary, so the row's neighbours in the list are none in the record."""
    world = World(tmp_path, fresh_tail_count=1, leaf_chunk_tokens=8000)
    said = (
        chat()
        .turns(6, words=30)
        .user("find the fault")
        .calls("a", "b")
        .results("a", "b", text="line " * 400)
        .says("found")
    )
    live = world.compact(said, threshold=1500)
    assert [message["content"] for message in live[2:]] == ["find the fault", "found"]
    changed = Chat([*live[:at], {"role": "user", "content": "[note of the host]"}, *live[at:]])
    world.take(changed)
    stored = len(world.stored())
    if way == "restart":
        world = world.restart()
        world.take(reload(changed))
    else:
        world.session("b", parent=world.session(), origin="branch", fork_seq=world.store.last_seq(1))
        world.take(changed, "b")

    assert stored == len(said) + 1
    assert len(world.stored()) == stored


@pytest.mark.few(7)
@SESSIONS
@PLACES
def test_a_dropped_row_costs_nothing(world: World, meet: Any, said: Any, at: int) -> None:
    """The host leaves out a row and goes on: the row stays, nothing is stored again."""
    messages = said()
    world.take(messages)
    changed = Chat([*messages[:at], *messages[at + 1 :]]).user("new")

    world = meet(changed)

    assert added(world, messages) == Counter(digests(changed[-1:]))


def test_edits_survive_restarts(world: World) -> None:
    """A row that was edited twice is the newest form in its place; the older forms are kept."""
    messages = varied()
    world.take(messages)
    for form in ("first", "second"):
        messages[3] = {**messages[3], "content": form}
        world.take(messages.copy())
        world = world.restart()
        world.take(reload(messages))

    assert digests(world.thread()) == digests(messages)
    assert len(world.stored()) == len(messages) + 2


def test_two_injections_at_one_place_keep_their_order(world: World) -> None:
    """A row that is inserted before another inserted row stands before it after a restart too."""
    messages = varied()
    world.take(messages)
    messages.insert(2, {"role": "user", "content": "second note"})
    world.take(messages.copy())
    messages.insert(2, {"role": "user", "content": "first note"})
    world.take(messages.copy())
    world = world.restart()
    world.take(reload(messages))

    assert digests(world.thread()) == digests(messages)
    assert len(world.stored()) == len(messages)


def test_a_content_list_that_changes_in_place_is_noticed(world: World) -> None:
    """The host edits a message's parts in the very object that it handed over before."""
    messages = chat().user([{"type": "text", "text": "look"}]).says("ok")
    world.take(messages)
    messages[0]["content"][0]["text"] = "look here"
    world.take(messages)

    assert [flatten(message["content"]) for message in world.stored()] == ["look", "ok", "look here"]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_audio", "input_audio": {"data": "AAAA"}},
        {"type": "text", "text": ""},
        {"type": "file", "file": {}},
    ],
    ids=["sound", "empty text", "file"],
)
def test_a_part_that_the_host_leaves_out_makes_no_second_message(world: World, part: dict[str, Any]) -> None:
    """After a restart the host shows the text and the images of a list, and nothing of its other parts."""
    messages = chat().turns(1).user([{"type": "text", "text": "listen"}, part, {"type": "text", "text": "well?"}])
    messages.says("heard").user([part]).says("again")
    world.take(messages)
    world = world.restart()
    world.take(reload(messages))

    assert world.stored() == messages


@pytest.mark.parametrize("size", [4, 40_000], ids=["short", "long"])
@pytest.mark.parametrize("undone", [False, True], ids=["at once", "undone before"])
@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_another_recording_in_place_of_one_is_another_message(
    world: World, size: int, undone: bool, restarted: bool
) -> None:
    """The host will leave both out later; until then they are what the user said."""
    one, other = ({"type": "input_audio", "input_audio": {"data": letter * size}} for letter in "AB")
    world.take(chat().turns(1).user([one]).says("heard"))
    if undone:
        world.take(chat().turns(1))
    world = world.restart() if restarted else world
    world.take(chat().turns(1).user([other]))

    assert [message["content"] for message in world.stored() if isinstance(message["content"], list)] == [
        [one],
        [other],
    ]


@pytest.mark.parametrize("undone", [False, True], ids=["at once", "undone before"])
def test_the_same_words_with_a_recording_are_another_message(world: World, undone: bool) -> None:
    """Equal words are no proof where a message has more than its words."""
    words, sound = {"type": "text", "text": "listen"}, {"type": "input_audio", "input_audio": {"data": "AAAA"}}
    world.take(chat().turns(1).user([words]).says("to what?"))
    if undone:
        world.take(chat().turns(1))
    world.take(chat().turns(1).user([words, sound]).says("heard"))

    assert [words, sound] in [message["content"] for message in world.stored()]


def test_a_message_with_parts_is_the_one_that_an_earlier_release_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its digest was of all parts; a client that shows them again says nothing new."""
    messages = (
        chat().turns(1).user([{"type": "text", "text": "a"}, {"type": "file", "file": {}}]).says("ok").turns(1, first=5)
    )
    with monkeypatch.context() as earlier:
        earlier.setattr(content, "kept_text", content.text_of)
        world.take(messages)
    world = world.restart()
    world.take(messages)

    assert world.stored() == messages


@pytest.mark.parametrize(
    "change",
    [{"role": "assistant"}, {"tool_call_id": "other"}],
    ids=["role", "answered call"],
)
def test_a_change_beside_the_text_is_noticed(world: World, change: dict[str, str]) -> None:
    """Role and answered call are part of what was said."""
    messages = chat().user("look").calls("a").results("a").says("end")
    world.take(messages)
    messages[2] = {**messages[2], **change}
    world.take(messages)

    assert digests([messages[2]])[0] in digests(world.stored())


# -- rows merged ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 7, 8, 9, 12], ids="rows={}".format)
def test_merged_user_rows_are_the_rows_they_were(world: World, meet: Any, count: int) -> None:
    """The host joins adjacent user rows in place: nothing is new."""
    messages = chat().turns(2)
    for n in range(count):
        messages.user(f"and another thing {n}")
    messages.says("fine").turns(1, first=20)
    world.take(messages)

    world = meet(Chat(merge(messages.copy())))

    assert world.stored() == messages


def test_merged_equal_user_rows_are_the_rows_they_were(world: World, meet: Any) -> None:
    """Three times "yes" joined is still three times "yes"."""
    messages = chat().user("start").says("ok").user("yes").user("yes").user("yes").says("fine")
    world.take(messages)

    world = meet(Chat(merge(messages.copy())))

    assert world.stored() == messages


def test_a_merge_with_a_new_message_stores_the_new_part(world: World, meet: Any) -> None:
    """The host joins a stored user row with one that nobody has seen: only that one is new."""
    messages = chat().turns(2).user("first half")
    world.take(messages)
    merged = Chat(merge(messages.copy().user("second half")))

    world = meet(merged)

    assert texts(world.stored()) == [*texts(messages), "second half"]


def test_a_merge_with_a_new_message_is_not_stored_again(world: World, meet: Any) -> None:
    """What was joined and stored in part is found again after more restarts."""
    messages = chat().turns(2).user("first half")
    world.take(messages)
    merged = Chat(merge(messages.copy().user("second half"))).says("I see")
    world = meet(merged)
    for _ in range(2):
        world = world.restart()
        world.take(reload(merged))

    assert len(world.stored()) == len(messages) + 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (chat().says("let me see"), chat().says("found it")),
        (chat().says("let me see"), chat().calls("c1").results("c1")),
        (chat().calls("c1", text="I look"), chat().says("and more").results("c1")),
        (chat().calls("c1"), chat().calls("c2").results("c1", "c2")),
        (chat().says("  spaced  "), chat().says("\nlines\n")),
    ],
    ids=["texts", "text and calls", "calls and text", "calls and calls", "blanks"],
)
def test_merged_assistant_rows_are_the_rows_they_were(world: World, meet: Any, first: Chat, second: Chat) -> None:
    """The host joins adjacent assistant rows and unites their calls: nothing is new."""
    messages = Chat([*chat().turns(2).user("go"), *first, *second]).turns(1, first=20)
    world.take(messages)

    world = meet(Chat(merge(copy.deepcopy(messages))))

    assert world.stored() == messages


def test_a_merge_in_an_equal_session_stores_nothing(world: World, meet: Any) -> None:
    """Joined neighbours are recognised where no text is unique."""
    messages = Chat(chat().user("go").says("ok") * 4).user("go").user("go").says("ok").user("go").says("ok")
    world.take(messages)

    world = meet(Chat(merge(messages.copy())))

    assert world.stored() == messages


# -- todo snapshots ------------------------------------------------------------------------------------------------


def test_an_appended_todo_snapshot_is_a_note_of_the_host(world: World) -> None:
    """The host appends its task list as a user message of its own: stored, and marked."""
    world.take(chat().turns(2).user(TODO, _todo_snapshot_synthetic=True))

    assert texts(world.flagged(Flag.HOST_NOTE)) == [TODO]


def test_a_merged_todo_snapshot_changes_nothing(world: World, meet: Any) -> None:
    """The task list that the host glued to a user message is decoration."""
    messages = chat().turns(2).user("go on")
    world.take(messages)
    decorated = Chat(merge(messages.copy().user(TODO)))

    world = meet(decorated)

    assert world.stored() == messages


def test_a_merged_todo_snapshot_that_was_seen_alone_changes_nothing(world: World, meet: Any) -> None:
    """Seen as a message of its own first and glued to its neighbour later, it is the same message."""
    messages = chat().turns(2).user("go on").user(TODO)
    world.take(messages)

    world = meet(Chat(merge(messages.copy())).says("right"))

    assert texts(world.stored()) == [*texts(messages), "right"]


# -- taken back, brought back ----------------------------------------------------------------------------------------


def test_undone_messages_are_marked(world: World, meet: Any) -> None:
    """/undo and a new message: what was undone stays, marked, and is no longer part of the thread."""
    messages = chat().turns(4)
    world.take(messages)
    changed = Chat(messages[:4]).user("something else")

    world = meet(changed)

    assert world.flagged(Flag.RETRACTED) == messages[4:]
    assert digests(world.thread()) == digests(changed)


def test_undone_messages_are_marked_when_the_short_list_is_seen_first(world: World) -> None:
    """/undo, then a hook that shows the shorter list, then a new message: the same."""
    messages = chat().turns(4)
    world.take(messages)
    world.take(messages[:4])
    changed = Chat(messages[:4]).user("something else")
    world.take(changed)

    assert world.flagged(Flag.RETRACTED) == messages[4:]


def test_an_undone_turn_is_no_foreign_list(world: World) -> None:
    """A list whose beginning is known is aligned, whatever follows it."""
    messages = chat().turns(4)
    world.take(messages)
    world.take(Chat(messages[:4]).user("something else"))

    assert world.flagged(Flag.UNALIGNED) == []


def test_a_redo_brings_the_rows_back(world: World, meet: Any) -> None:
    """What was taken back and is shown again is no new message."""
    messages = chat().turns(4)
    world.take(messages)
    world.take(Chat(messages[:4]).user("something else"))

    world = meet(messages)

    assert len(world.stored()) == len(messages) + 1
    assert digests(world.thread()) == digests(messages)


def test_a_redo_of_the_second_attempt_brings_its_rows_back(world: World) -> None:
    """Two attempts were undone; the later one is brought back."""
    start, first, second = chat().turns(2), chat().turns(1, first=10), chat().turns(1, first=20)
    world.take(start)
    for attempt in (first, second):
        world.take(Chat([*start, *attempt]))
    world.take(Chat([*start, {"role": "user", "content": "third"}]))
    world.take(Chat([*start, *second]))

    assert len(world.stored()) == 4 + 2 + 2 + 1


def test_words_that_were_taken_back_may_be_said_again_later(world: World, meet: Any) -> None:
    """After /undo and other words, the same words as before are a new message at the end."""
    messages = chat().turns(2).user("yes").says("fine")
    world.take(messages)
    changed = Chat(messages[:4]).user("no").says("then not")
    world = meet(changed)
    world.take(changed.user("yes").says("fine"))
    world = world.restart()
    world.take(reload(changed))

    assert len(world.stored()) == 4 + 2 + 2 + 2
    assert digests(world.thread()) == digests(changed)


def test_retry_keeps_the_request_and_both_answers(world: World, meet: Any) -> None:
    """/retry: the same request gets another answer."""
    messages = chat().turns(2).user("write it").says("first try")
    world.take(messages)
    changed = Chat(messages[:-1]).says("second try")

    world = meet(changed)

    assert texts(world.stored())[-3:] == ["write it", "first try", "second try"]
    assert texts(world.flagged(Flag.RETRACTED)) == ["first try"]


def test_a_stale_shorter_list_takes_nothing_back(world: World) -> None:
    """A caller that shows an old state of the list: when the full list comes again, nothing is stored again."""
    messages = chat().turns(5)
    world.take(messages)
    world.take(messages[:6])
    world.take(messages.copy().user("next"))

    assert texts(world.stored()) == [*texts(messages), "next"]
    assert world.flagged(Flag.RETRACTED) == []


@pytest.mark.parametrize("seed", range(8))
def test_lists_of_any_age_in_any_order_store_each_message_once(world: World, seed: int) -> None:
    """Callers hold states of different age of the one list that only grows."""
    rng = random.Random(seed)
    messages = monotonous().turns(3) if seed % 2 else varied()
    for _ in range(12):
        world.take(messages[: rng.randint(0, len(messages))])
        if rng.random() < 0.2:
            world = world.restart()
    world.take(messages)

    assert digests(world.stored()) == digests(messages)


@pytest.mark.parametrize("at", [0, 2, 5])
def test_a_list_from_before_a_drop_stores_nothing_again(world: World, at: int) -> None:
    """The host left out a row; a caller that still has it shows it again: nothing is new, and nothing is taken back."""
    messages = chat().turns(4)
    world.take(messages)
    changed = Chat([*messages[:at], *messages[at + 1 :]]).user("new")
    world.take(changed)
    world.take(messages)
    world.take(changed)

    assert texts(world.stored()) == [*texts(messages), "new"]
    assert world.flagged(Flag.RETRACTED) == []


def test_a_foreign_list_is_kept_and_takes_nothing_back(world: World, meet: Any) -> None:
    """A list that has nothing in common with what is stored is stored, marked, and retracts nothing."""
    messages, foreign = chat().turns(3), chat().turns(3, first=50)
    world.take(messages)

    world = meet(foreign)

    assert texts(world.stored()) == texts([*messages, *foreign])
    assert texts(world.flagged(Flag.UNALIGNED)) == texts(foreign)
    assert world.flagged(Flag.RETRACTED) == []


def test_a_foreign_list_is_not_stored_again(world: World) -> None:
    """Once stored, it is known."""
    messages, foreign = chat().turns(3), chat().turns(3, first=50)
    world.take(messages)
    world.take(foreign)
    for again in (messages, foreign, messages, foreign):
        world.take(again)
        world = world.restart()
        world.take(reload(again))

    assert len(world.stored()) == 12


def test_a_change_inside_an_old_message_is_noticed_by_the_next_thorough_look(world: World) -> None:
    """Hooks on the way to the model look at the newest messages only; the turn's end looks at all of them."""
    messages = chat().turns(300)
    world.take(messages)
    messages[3]["content"] += " and more"
    session = world.session()
    hasty = world.ingest.ingest_list(session, messages, source="test", thorough=False)
    thorough = world.ingest.ingest_list(session, messages, source="test")

    assert (hasty.stored, thorough.stored) == (0, 1)


def test_a_damaged_last_row_keeps_nothing_behind_it_from_being_stored(world: World, meet: Any) -> None:
    """The index lends its end to its successor, which does without."""
    messages = chat().turns(3)
    world.take(messages)
    with world.db.transaction():
        world.db.execute("UPDATE messages SET envelope = x'ffff' WHERE store_id = ?", (len(messages),))
    world = meet(messages.user("new").says("fine"))

    assert [row.text for row in world.store.rows([7, 8])] == ["new", "fine"]


@pytest.mark.parametrize("thorough", [True, False])
@pytest.mark.parametrize("at", [3, 599])
def test_a_part_that_changes_in_place_is_noticed_where_texts_are(world: World, at: int, thorough: bool) -> None:
    """A content of parts is the same object after the change: what it said is remembered, and looked at like any text."""
    messages = chat().turns(300)
    messages[at]["content"] = [{"type": "text", "text": "the whole answer"}]
    world.take(messages)
    messages[at]["content"][0]["text"] += ", and more"
    taken = world.ingest.ingest_list(world.session(), messages, source="test", thorough=thorough)

    assert taken.stored == (1 if thorough or at == 599 else 0)


# -- calls ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answered", [False, True], ids=["open", "answered"])
@pytest.mark.parametrize("arguments", ['{"command": "two"}', "{}"], ids=["changed", "emptied by the host's repair"])
def test_other_arguments_of_a_call_are_stored(world: World, meet: Any, answered: bool, arguments: str) -> None:
    """The same call with the same id asks for something else now: the new form stands in its place, the old one is kept."""
    messages = chat().user("do it").calls("c1", arguments='{"command": "one"}')
    if answered:
        messages.results("c1").says("fine").user("go on").says("ok")
    world.take(messages)
    changed = messages.copy()
    changed[1]["tool_calls"][0]["function"]["arguments"] = arguments

    world = meet(changed)

    assert added(world, messages) == Counter(digests([changed[1]]))
    assert digests(world.thread()) == digests(changed)


def test_other_arguments_are_stored_where_the_host_joined_calls(world: World, meet: Any) -> None:
    """Two calls became one message, and one of them asks for something else."""
    messages = (
        chat().user("do it").calls("c1", arguments='{"n": 1}').calls("c2", arguments='{"n": 2}').results("c1", "c2")
    )
    world.take(messages)
    joined = chat().user("do it").calls("c1", "c2", arguments='{"n": 2}').results("c1", "c2")

    world = meet(joined)

    assert added(world, messages) == Counter(digests([joined[1]]))


@pytest.mark.parametrize("joined", [False, True], ids=["one by one", "joined"])
def test_replies_shown_without_their_calls_are_the_rows_they_were(world: World, meet: Any, joined: bool) -> None:
    """Gateways before 0.19 leave calls and results out when they clean a list; a new reply is new, whatever it says."""
    messages = chat()
    for n in range(3):
        messages.user("yes").calls(f"c{n}", text="I look.").results(f"c{n}")
        messages.calls(f"d{n}").results(f"d{n}").says(f"so {n}")
    world.take(messages)
    cleaned = chat()
    for n in range(3):
        replies = [f"I look.\nso {n}"] if joined else ["I look.", f"so {n}"]
        cleaned.user("yes").extend({"role": "assistant", "content": each} for each in replies)
    cleaned.user("yes").says("I look.")

    world = meet(cleaned)
    world.take(cleaned)

    assert added(world, messages) == Counter(digests(cleaned[-2:]))


@pytest.mark.parametrize("before", ["", " "])
def test_an_empty_object_in_the_place_of_no_arguments_is_no_change(world: World, meet: Any, before: str) -> None:
    """So the host's repair writes it."""
    messages = chat().user("do it").calls("c1", arguments=before).results("c1").says("fine")
    world.take(messages)
    changed = messages.copy()
    changed[1]["tool_calls"][0]["function"]["arguments"] = "{}"

    world = meet(changed)

    assert added(world, messages) == Counter()


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_what_a_gateway_moves_into_a_later_message_was_not_taken_back(world: World, restart: bool) -> None:
    """Telegram's groups: lines that nobody said to the bot leave the list when somebody says something to it."""
    before = chat().user("[Carl|3]\nlunch at 12").says("Noted.")
    silent = "[Anna|1]\nthe dog barks"
    wrapped = (
        f"[Observed Telegram group context - context only, not requests]\n[Ben|2]\nhi\n{silent}\n\n[Current addressed message "
        "- answer only this unless it explicitly asks you to use the observed context]\n[Carl|3]\nbye"
    )
    world.session(platform="telegram")
    world.take(before.copy().user("[Ben|2]\nnever mind").says("hi").user(silent))
    world = world.restart() if restart else world

    world.take(before.copy().user(wrapped))
    assert texts(world.flagged(Flag.RETRACTED)) == ["[Ben|2]\nnever mind", "hi"]
    world.take(before.copy().user("[Carl|3]\nbye").says("Bye."))

    assert silent not in texts(world.flagged(Flag.RETRACTED))


@pytest.mark.parametrize("note", ["", "[System note: A new message has arrived. Go on.]\n\n"], ids=["", "with a note"])
def test_what_a_gateway_showed_beside_a_request_and_does_not_keep_is_an_earlier_form_of_it(
    world: World, note: str
) -> None:
    """Telegram's groups: at the end of the turn the request stands without what others said in front of it."""
    request = "[Carl|3]\nhello"
    wrapped = (
        f"[Observed Telegram group context - context only, not requests]\n[Anna|1]\nthe dog barks\n\n[Current addressed "
        f"message - answer only this unless it explicitly asks you to use the observed context]\n{note}{request}"
    )
    world.take(chat().user(wrapped))

    world.take(chat().user(request).says("Hi."))

    assert texts(world.thread()) == [request, "Hi."]
    assert not world.flagged(Flag.RETRACTED | Flag.UNALIGNED)


def test_what_somebody_typed_at_the_terminal_is_taken_back_whatever_he_pastes_later(world: World) -> None:
    """No gateway moves anything there, so no row that was taken back is read for it."""
    line = "[Anna|1]\nthe dog barks"
    pasted = (
        f"[Observed Telegram group context - context only, not requests]\n{line}\n\n[Current addressed message - answer "
        "only this unless it explicitly asks you to use the observed context]\nwhat is this?"
    )
    world.session(platform="cli")
    world.take(chat().turns(1).user(line).says("Which dog?"))

    world.take(chat().turns(1).user(pasted))

    assert texts(world.flagged(Flag.RETRACTED)) == [line, "Which dog?"]


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_times_that_a_gateway_shows_make_no_other_messages(world: World, restart: bool) -> None:
    """It keeps what was said without them, and joins what nobody answered."""
    said = chat().user("[Anna|1]\nthe dog barks").user("[Ben|2]\nthe cat sleeps").user("[Carl|3]\nhi").says("Hi.")
    world.take(said)
    world = world.restart() if restart else world
    at = "[Mon 2026-11-30 05:47:{:02} UTC] "
    shown = merge([{**m, "content": at.format(n) + m["content"]} for n, m in enumerate(said[:3])])

    world.take(chat().user(shown[0]["content"]).says("Hi.").user(at.format(9) + "bye"))
    world.take([*said, *chat().user("bye")])

    assert texts(world.stored()) == [*texts(said), at.format(9) + "bye"]


def overhearing(addressed: str, *lines: str) -> str:
    """A message of a Telegram group whose bot hears all, as the model sees it."""
    heard = "\n".join(lines)
    return (
        f"[Observed Telegram group context - context only, not requests]\n{heard}\n\n[Current addressed message "
        f"- answer only this unless it explicitly asks you to use the observed context]\n{addressed}"
    )


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_lines_of_a_group_that_are_rows_are_not_stored_again_within_the_next_message(
    world: World, restart: bool
) -> None:
    """Its row holds what was said to the bot: the host itself keeps no more of it."""
    world.session(platform="telegram")
    line, ask = "[Anna|1]\nfu\u0308r\r\nden Hund", "[Mon 2026-11-30 05:47:32 UTC] [Carl|3]\nwhat?"
    world.take(chat().user(line))

    world.take(chat().user(overhearing(ask, line)))
    assert texts(world.stored()) == [line, ask]

    world = world.restart() if restart else world
    world.take(chat().user(overhearing(ask, line)).says("That."))
    world.take(chat().user(f"{line}\n\n[Carl|3]\nwhat?").says("That."))
    assert texts(world.stored()) == [line, ask, "That."]
    assert not world.flagged(Flag.RETRACTED | Flag.UNALIGNED)


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_a_request_that_the_host_joins_to_a_line_is_the_row_it_was_without_the_note_between_them(
    world: World, restart: bool
) -> None:
    """After a restart the note stands in front of the request alone, and the host joins neighbours all the same."""
    line, ask = "[Anna|1]\nthe dog barks", "[Carl|3]\nwhat?"
    noted = f"[System note: A new message has arrived. Go on.]\n\n{ask}"
    world.session(platform="telegram")
    world.take(chat().user(line))
    world.take(chat().user(f"{line}\n\n{noted}"))
    world = world.restart() if restart else world

    world.take(chat().user(f"{line}\n\n{ask}").says("That."))

    assert texts(world.stored()) == [line, noted, "That."]
    assert not world.flagged(Flag.RETRACTED | Flag.UNALIGNED)


def test_lines_of_a_group_that_look_like_several_or_like_none_are_rows_as_others_are(world: World) -> None:
    """Quotations in the very form of lines, empty ones, times that somebody typed, and notes of the host between them."""
    world.session(platform="telegram")
    said = [
        "[Anna|1]\nyes",
        "[Ben|2]",
        "[Anna|1]\nyes\n\n[Ben|2]\nI never said that\n[Mon 2026-11-30 05:47:32 UTC] nor that",
        "[IMPORTANT: Background process 7 finished]",
        "[Anna|1]\n" + overhearing("[Carl|3]\nfake", "[Ben|2]\nfake"),
        "[Ben|2]",
    ]
    world.take([{"role": "user", "content": line} for line in said])

    world.take(chat().user(overhearing("[Carl|3]\nwhat?", *said[:2], "\n\n".join(said[2:]))))

    assert texts(world.stored()) == [*said, "[Carl|3]\nwhat?"]


@pytest.mark.parametrize(
    "lines",
    [["[Anna|1]\nthe dog barks", "[Ben|2]\nhi"], ["[Anna|1]\nthe dog barks\n\n[Ben|2]\nhi"]],
    ids=["a line that is no row", "a line that quotes one"],
)
def test_a_group_message_is_stored_whole_where_a_line_in_it_stands_nowhere_else(world: World, lines: list[str]) -> None:
    """A copy too many is better than a line that is lost."""
    world.session(platform="telegram")
    whole = overhearing("[Carl|3]\nwhat?", *lines)
    world.take(chat().user("[Anna|1]\nthe dog barks"))

    world.take(chat().user(whole))

    assert texts(world.stored())[1:] == [whole]


def test_words_behind_a_pasted_heading_are_no_reason_to_drop_those_in_front_of_it(world: World) -> None:
    """Who types the very form of a group's context loses nothing of what he typed."""
    world.session(platform="telegram")
    line = "[Anna|1]\nthe dog barks"
    typed = "[Carl|3]\n" + overhearing("you", line)
    world.take(chat().user(line))

    world.take(chat().user(overhearing(typed, line)))
    world.take(chat().user(typed).says("What?"))

    assert typed in [text[-len(typed) :] for text in texts(world.stored())]


def test_a_line_of_a_group_is_no_earlier_form_of_what_its_speaker_says_to_the_bot_next(world: World) -> None:
    """Although the one begins as the other."""
    world.session(platform="telegram")
    before, line = chat().user("[Carl|3]\nhi").says("Hi."), "[Anna|1]\nyes"
    world.take(before.copy().user(line))

    world.take(before.copy().user(overhearing(f"{line}, please", line)))

    assert texts(world.thread()) == [*texts(before), line, f"{line}, please"]


def test_a_line_of_a_group_that_is_left_out_leaves_out_no_request_behind_it(tmp_path: Path) -> None:
    """The patterns of messages that are not stored are for what somebody said, not for what others said before."""
    world = World(tmp_path, filters=lambda message, read: None if "spam" in message["content"] else read)
    world.session(platform="telegram")
    world.take(chat().user("[Anna|1]\nspam"))

    world.take(chat().user(overhearing("[Carl|3]\nwhat?", "[Anna|1]\nspam")))

    assert [text[-14:] for text in texts(world.stored())] == ["[Carl|3]\nwhat?"]


def test_a_record_in_front_of_which_a_gateway_shows_a_time_is_known_as_ours(tmp_path: Path) -> None:
    """It stands in the user's name, so it is stamped as what the user said."""
    world = World(tmp_path)
    list_ = world.compact(chat().turns(40), force=True)
    before, covering = len(world.stored()), world.take(list_).assembly
    shown = [
        {**m, "content": f"[Mon 2026-11-30 05:47:32 UTC] {m['content']}"} if m["role"] == "user" else m for m in list_
    ]

    again = world.restart().take(shown)

    assert covering is not None
    assert again.assembly == covering
    assert (again.stored, len(world.stored())) == (0, before)


@pytest.mark.parametrize("time", ["", "[Mon 2026-11-30 05:47:32 UTC] "])
def test_a_group_message_that_a_compaction_kept_whole_is_the_row_it_was(tmp_path: Path, time: str) -> None:
    """The lines in front of it are in the record by then."""
    world = World(tmp_path)
    world.session(platform="telegram")
    line, ask = "[Anna|1]\nthe dog barks", "[Carl|3]\nwhat?"
    before = [*chat().turns(40), {"role": "user", "content": line}]
    world.take(before)
    live = [*chat().turns(40), *chat().user(overhearing(ask, line))]
    list_ = world.compact(live, force=True)
    rows = texts(world.stored())

    list_[-1] = {**list_[-1], "content": time + list_[-1]["content"]}
    world.restart().take([*list_, *chat().says("That.")])

    assert [each for each in texts(world.restart().stored()) if each not in rows] == ["That."]
