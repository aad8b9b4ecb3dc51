"""Sessions, rotation, branches and who a conversation belongs to (P1, P8)."""

from __future__ import annotations

from pathlib import Path

import pytest
from worlds.process import Chat, World, chat, digests, reload

from hermes_lcm.errors import StoreError
from hermes_lcm.records import Flag
from hermes_lcm.session import principal_of
from hermes_lcm.store import NewRow
from hermes_lcm.text import content


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# -- sessions ----------------------------------------------------------------------------------------------------


def test_a_session_is_made_once(world: World) -> None:
    """FirstMessage a known session changes nothing."""
    assert world.session("s", platform="cli") == world.session("s", platform="telegram", model="other")


def test_a_name_that_no_database_can_hold_is_no_session(world: World) -> None:
    """Bytes that are not UTF-8 come like this from a terminal; the database is not to blame."""
    assert world.sessions.find("\udcff") is None


def test_two_sessions_keep_their_messages_apart(world: World) -> None:
    """Equal lists in two sessions are two conversations."""
    messages = chat().turns(3)
    world.take(messages, "a")
    world.take(messages, "b")

    assert digests(world.thread("a")) == digests(world.thread("b")) == digests(messages)
    assert len(world.stored()) == 12


def test_a_session_that_is_gone_takes_no_messages(world: World) -> None:
    """Removed by an operator while it was in use: refused by name, and nothing is written."""
    world.take(chat().turns(1), "a")
    row = NewRow(content.read_message({"role": "user", "content": "more"}))

    with pytest.raises(StoreError, match="has no session 'b'"):
        world.store.append(world.session("a").conversation_id, "b", 2, [row], source="t", now=1.0)
    assert len(world.stored()) == 2


def test_rotation_keeps_one_conversation(world: World) -> None:
    """A new session id of the host for the same train of thought."""
    messages = chat().turns(3)
    world.take(messages, "a")
    world.session("b", parent=world.session("a"), origin="rotation")
    world.take(messages.turns(2, first=10), "b")
    world = world.restart()
    world.take(reload(messages), "b")

    assert world.session("a").conversation_id == world.session("b").conversation_id
    assert digests(world.stored()) == digests(messages)


def test_an_ended_session_goes_on(world: World) -> None:
    """/resume of a session that was ended finds its list stored."""
    messages = chat().turns(3)
    world.take(messages)
    world.sessions.end("s", now=2.0, reason="new_session")
    world = world.restart()
    world.take(reload(messages).user("go on"))

    assert len(world.stored()) == 7


@pytest.mark.parametrize(
    ("platform", "key", "expected"),
    [
        ("cli", None, "local"),
        ("cron", None, "session:x"),
        ("telegram", "agent:main:telegram:dm:42", "telegram:dm:42"),
        ("telegram", "agent:work:telegram:dm:42", "work/telegram:dm:42"),
        ("telegram", "agent:main~:telegram:dm:42", "main~/telegram:dm:42"),
        ("telegram", None, "session:x"),
        ("", "odd-key", "odd-key"),
        ("telegram", "telegram:dm:42", "key:telegram:dm:42"),
        ("telegram", "work/telegram:dm:42", "key:work/telegram:dm:42"),
        ("api_server", "local", "api_server:local"),
        ("api_server", "agent:main:telegram:dm:42", "api_server:agent:main:telegram:dm:42"),
        ("api_server", None, "session:x"),
    ],
)
def test_whom_a_session_belongs_to(platform: str, key: str | None, expected: str) -> None:
    """The terminal is local, a chat is its key, a stranger without a key is alone."""
    assert principal_of(platform, key, "x") == expected


# -- branches ------------------------------------------------------------------------------------------------------


def branched(world: World, shown: int, *, words: int = 10) -> tuple[Chat, Chat]:
    """A parent of 12 messages, and the list of a branch that shows the first ``shown`` and goes its own way."""
    parent = chat().turns(6, words=words)
    world.take(parent, "parent")
    above = world.session("parent")
    world.session("child", parent=above, origin="branch", fork_seq=world.store.last_seq(above.conversation_id))
    return parent, Chat(parent[:shown]).copy().turns(2, first=50, words=words)


@pytest.mark.parametrize("shown", [12, 8, 2, 0])
def test_a_branch_shares_its_parents_rows(world: World, shown: int) -> None:
    """Only what is said in the branch is new, also after restarts."""
    parent, child = branched(world, shown)
    for _ in range(3):
        world.take(child, "child")
        world = world.restart()
        child = reload(child)

    assert len(world.stored()) == len(parent) + 4
    assert digests(world.thread("child")) == digests(child)


@pytest.mark.parametrize("shown", [12, 8, 2, 0])
def test_a_branch_takes_nothing_from_its_parent(world: World, shown: int) -> None:
    """The parent's thread is what it was."""
    parent, child = branched(world, shown)
    world.take(child, "child")
    world = world.restart()
    world.take(reload(parent).turns(1, first=90), "parent")

    assert digests(world.thread("parent"))[:12] == digests(parent)
    assert world.flagged(Flag.RETRACTED) == []
    assert len(world.stored()) == 12 + 4 + 2


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_undo_in_a_branch_beyond_the_fork_leaves_the_parent_alone(world: World, restart: bool) -> None:
    """What is taken back in a branch is still part of the parent's conversation."""
    parent, child = branched(world, 12)
    world.take(child, "child")
    if restart:
        world = world.restart()
    changed = Chat(child[:6]).user("another way")
    world.take(changed, "child")
    world = world.restart()

    assert digests(world.thread("parent")) == digests(parent)
    assert digests(world.thread("child")) == digests(changed)


@pytest.mark.parametrize("generations", [1, 2])
def test_undo_in_a_parent_leaves_its_branches_alone(world: World, generations: int) -> None:
    """What the parent takes back after the fork is still part of what was branched off, children of branches included."""
    parent, child = branched(world, 12)
    world.take(child, "child")
    name = "child"
    if generations == 2:
        world.session("grandchild", parent=world.session("child"), origin="branch", fork_seq=16)
        world.take(child, name := "grandchild")
    world.take(Chat(parent[:6]).user("another way"), "parent")
    world = world.restart()
    world.take(reload(child), name)

    assert digests(world.thread(name)) == digests(child)
    assert len(world.stored()) == 12 + 4 + 1


def test_a_branch_of_a_branch_begins_with_what_that_one_shows(world: World) -> None:
    """Though the grandparent has taken back since what the branch in between still inherits."""
    parent, child = branched(world, 12)
    world.take(child, "child")
    world.take(Chat(parent[:4]).user("another way"), "parent")
    world.session("grandchild", parent=world.session("child"), origin="branch", fork_seq=16)
    world.take(child.copy().turns(1, first=70), "grandchild")

    assert len(world.stored()) == 12 + 4 + 1 + 2


def test_undo_in_a_branch_leaves_its_own_branches_alone(world: World) -> None:
    """A branch goes back beyond its fork: what was branched off it before still inherits all of it."""
    _, child = branched(world, 12)
    world.take(child, "child")
    world.session("grandchild", parent=world.session("child"), origin="branch", fork_seq=16)
    grandchild = child.copy().turns(1, first=70)
    world.take(grandchild, "grandchild")
    world.take(Chat(child[:4]).user("another way"), "child")
    world = world.restart()
    world.take(reload(grandchild), "grandchild")

    assert digests(world.thread("grandchild")) == digests(grandchild)
    assert len(world.stored()) == 12 + 4 + 2 + 1


def test_what_was_undone_before_a_branch_is_no_part_of_it(world: World) -> None:
    """A branch begins with what its parent shows at that moment."""
    parent = chat().turns(4)
    world.take(parent, "parent")
    changed = Chat(parent[:4]).user("another way").says("fine")
    world.take(changed, "parent")
    above = world.session("parent")
    world.session("child", parent=above, origin="branch", fork_seq=world.store.last_seq(above.conversation_id))
    world.take(changed.copy(), "child")

    assert digests(world.thread("child")) == digests(changed)


def test_undo_in_a_branch_keeps_what_its_parent_edited(world: World) -> None:
    """An edited row is among the newest of the parent, and stands far in front: the branch keeps it when it goes back."""
    parent = chat().turns(4)
    world.take(parent, "parent")
    parent[0] = {**parent[0], "content": "edited"}
    world.take(parent.turns(1, first=20), "parent")
    for name, above in (("child", "parent"), ("grandchild", "child")):
        known = world.session(above)
        seq = world.store.last_seq(known.conversation_id)
        world.session(name, parent=known, origin="branch", fork_seq=seq)
        world.take(parent, name)
    changed = Chat(parent[:4]).user("another way")
    world.take(changed, "grandchild")
    world = world.restart()
    world.take(reload(changed), "grandchild")

    assert digests(world.thread("grandchild")) == digests(changed)
    assert digests(world.thread("child")) == digests(parent)


def test_an_injection_among_the_parents_rows_keeps_its_place(world: World) -> None:
    """A row that the host inserts in front of the fork stands there after a restart too, and only in the branch."""
    parent, child = branched(world, 12)
    world.take(child, "child")
    child.insert(4, {"role": "user", "content": "[note of the host]"})
    for _ in range(3):
        world.take(child, "child")
        world = world.restart()
        child = reload(child)

    assert digests(world.thread("child")) == digests(child)
    assert digests(world.thread("parent")) == digests(parent)
    assert len(world.stored()) == 12 + 5


def test_an_edit_among_the_parents_rows_is_the_branchs_own(world: World) -> None:
    """The parent keeps its own form of the row."""
    parent, child = branched(world, 12)
    world.take(child, "child")
    child[4] = {**child[4], "content": "edited"}
    for _ in range(3):
        world.take(child, "child")
        world = world.restart()
        child = reload(child)

    assert digests(world.thread("child")) == digests(child)
    assert digests(world.thread("parent")) == digests(parent)
    assert len(world.stored()) == 12 + 5


def test_a_branch_of_an_empty_parent_inherits_nothing(world: World) -> None:
    """What the parent says after the fork is not part of the branch."""
    above = world.session("parent")
    world.session("child", parent=above, origin="branch", fork_seq=world.store.last_seq(above.conversation_id))
    world.take(chat().turns(2), "parent")

    assert world.thread("child") == []


def test_a_branch_of_a_branch(world: World) -> None:
    """Three generations: every message is stored once, each thread is its own."""
    _, child = branched(world, 8)
    world.take(child, "child")
    above = world.session("child")
    world.session("grandchild", parent=above, origin="branch", fork_seq=world.store.last_seq(above.conversation_id))
    grandchild = Chat(child[:10]).copy().turns(1, first=70)
    world.take(grandchild, "grandchild")
    world = world.restart()
    world.take(reload(grandchild), "grandchild")

    assert len(world.stored()) == 12 + 4 + 2
    assert digests(world.thread("grandchild")) == digests(grandchild)


def test_a_branch_after_a_compaction(world: World) -> None:
    """The branch shows its parent's context message: complete, stored once, compacted on its own."""
    messages = chat().turns(30)
    compacted = world.compact(messages, "parent")
    world.take(compacted, "parent")
    above = world.session("parent")
    world.session("child", parent=above, origin="branch", fork_seq=world.store.last_seq(above.conversation_id))
    child = compacted.copy().turns(2, first=100)
    world.take(child, "child")
    assert world.gaps(child, "child") == ([], [])
    again = world.compact(child.turns(30, first=200), "child")
    world = world.restart()
    world.take(reload(again), "child")
    world.take(reload(compacted), "parent")

    assert len(world.stored()) == 60 + 64
    assert world.gaps(again, "child") == ([], [])
    assert world.gaps(compacted, "parent") == ([], [])


def test_a_parent_that_goes_on_does_not_change_its_branch(world: World) -> None:
    """Both go on after the fork and are compacted; neither sees the other's words."""
    parent, child = branched(world, 12, words=40)
    world.take(child, "child")
    one = world.compact(parent.turns(30, first=300), "parent")
    two = world.compact(child.turns(30, first=600), "child")

    assert world.gaps(one, "parent") == ([], [])
    assert world.gaps(two, "child") == ([], [])
    assert len(world.stored()) == 12 + 4 + 60 + 60
