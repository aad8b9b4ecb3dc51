"""What a model writes is published only about what it has read (P4, P5, P8)."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_background import until
from worlds.process import WAIT_S, Script, World, chat

from hermes_lcm.errors import SourcesChanged
from hermes_lcm.ops import redaction
from hermes_lcm.ops.forget import purge
from hermes_lcm.records import Summary, SummaryTask
from hermes_lcm.search.scope import Rights
from hermes_lcm.storage.files import silent


class Slow(Script):
    """A model that answers, and well, when it is let."""

    def __init__(self) -> None:
        super().__init__("ok")
        self.let = threading.Event()

    def __call__(self, task: SummaryTask, **limits: Any) -> Summary:
        said = super().__call__(task, **limits)
        self.let.wait(WAIT_S)
        return said

    summarise = __call__


def replaced_by_another_chats_file(world: World) -> None:
    """A backup is put in its place, in which these addresses are those of somebody else's messages."""
    other = World(world.folder / "other")
    other.take(chat().turns(80, first=900), session_id="somebody else")
    other.db.close()
    world.db.close()
    shutil.move(world.folder / "other" / "lcm.db", world.folder / "lcm.db")


def emptied(world: World) -> None:
    """An operator removes the conversation."""
    with world.db.transaction():
        world.db.execute("DELETE FROM messages")


def purged(world: World) -> None:
    """An operator takes out what some of it says, for good."""
    purge.empty(world.runtime.access(world.session(), Rights(), trusted=True, home=world.folder), [3, 4])


def without_secrets(world: World) -> None:
    """An operator takes out the secrets of it."""
    redaction.apply(world.runtime.access(world.session(), Rights(), trusted=True, home=world.folder), [], silent)


def put_back(world: World) -> None:
    """A repair writes the same file anew."""
    world.db.backup(world.folder / "copy.db")
    world.db.close()
    shutil.move(world.folder / "copy.db", world.folder / "lcm.db")


def restored(world: World) -> None:
    """A backup of before is put in its place: it lacks nearly all of what is summarised."""
    world.db.close()
    shutil.move(world.folder / "before.db", world.folder / "lcm.db")


def ended(world: World) -> None:
    """The session is over for the host, as that of a sub-agent that has its result."""
    world.sessions.end("s", now=1.0, reason="subagent")
    world.ingest.ended("s")


def told() -> Any:
    """A conversation that begins with a password."""
    return chat().user("the login: password = Xk9_7qZ7w7v, keep it in mind").says("It is in mind.")


def meanwhile(folder: Path, happens: Callable[[World], None]) -> World:
    """While a model writes the first summary of a conversation."""
    world = World(folder, Slow(), leaf_chunk_tokens=2000, fresh_tail_count=8)
    world.take(told().turns(5))
    world.db.backup(folder / "before.db")
    messages = told().turns(80)
    world.preparer.after_turn(world.session(), world.request(messages))
    assert until(lambda: len(world.model.tasks) == 1)
    happens(world)
    world.preparer.stop()
    world.model.let.set()
    assert world.preparer.idle(WAIT_S)
    return world


@pytest.mark.parametrize("happens", [replaced_by_another_chats_file, emptied, restored, purged, without_secrets])
def test_a_summary_that_comes_back_too_late_covers_nothing(tmp_path: Path, happens: Callable[[World], None]) -> None:
    """What lies at its sources' addresses by then is not what it is about; that is no trouble either."""
    world = meanwhile(tmp_path, happens)

    assert world.nodes() == []
    assert {problem.topic for problem in world.health.problems()} <= {"secrets in messages"}


@pytest.mark.parametrize("happens", [put_back, ended])
def test_a_summary_of_messages_that_are_still_the_same_is_kept(
    tmp_path: Path, happens: Callable[[World], None]
) -> None:
    """Nobody need pay for it twice: the file was only written anew, or the session goes on after all."""
    world = meanwhile(tmp_path, happens)

    (kept,) = world.nodes()
    assert world.compressed(told().turns(80), force=True).reason == "compacted"
    shown = world.dag.latest_assembly(world.session().conversation_id)
    assert shown is not None
    assert kept.node_id in shown.roots


def test_a_summary_of_summaries_is_one_of_their_words(tmp_path: Path) -> None:
    """A file that is put in place may give their addresses, and those of their messages, to others."""
    world = World(tmp_path, Script("ok"), leaf_chunk_tokens=2000, fresh_tail_count=8)
    world.compact(chat().turns(80))
    session, ids = world.session(), [node.node_id for node in world.nodes()[:2]]
    before = world.dag.witness(session.conversation_id, 1, ids, nonce=session.nonce)
    assert world.dag.witness(session.conversation_id, 1, ids) == before
    with world.db.transaction():
        world.db.execute("UPDATE nodes SET text = 'of other messages' WHERE node_id = ?", (ids[0],))

    assert world.dag.witness(session.conversation_id, 1, ids) != before


def test_what_is_taken_out_of_a_message_once_more_is_noticed_too(tmp_path: Path) -> None:
    """A second secret stands in the arguments of a call: the message is as long as before, and marked already."""
    world = World(tmp_path, Script("ok"))
    secrets = (
        chat()
        .user("read the file")
        .calls(
            "c1", text="api_key = sk-proj-Ab3dEf6hIj9kLm2nOp5q", arguments='{"command": "login --password=Xk9_7qZ7w7v"}'
        )
    )
    world.take(secrets)
    conversation = world.session().conversation_id
    access = world.runtime.access(world.session(), Rights(), trusted=True, home=world.folder)
    witnesses = []
    for kinds in (["api_key"], ["password_assignment"]):
        assert redaction.apply(access, kinds, silent).messages == 1
        witnesses.append(world.dag.witness(conversation, 0, [1, 2]))

    assert witnesses[0] != witnesses[1]


def test_words_that_an_operator_took_out_of_a_summary_are_not_condensed(tmp_path: Path) -> None:
    """They were read for the compaction before that."""
    world = World(tmp_path, Script("ok"), leaf_chunk_tokens=2000, fresh_tail_count=8)
    world.compact(chat().turns(80))
    read, asked = world.nodes()[:2], len(world.model.tasks)
    world.dag.overwrite(replace(read[0], text="taken out"))
    with pytest.raises(SourcesChanged):
        world.compactor.parent(world.session(), read, world.request(chat().turns(80)))

    assert len(world.model.tasks) == asked


def test_no_messages_of_another_chat_are_read_for_a_summary(tmp_path: Path) -> None:
    """The plan was made before the file was replaced: its addresses lead to somebody else's words now."""
    world = World(tmp_path, Script("ok"), leaf_chunk_tokens=2000, fresh_tail_count=8)
    session, request = world.session(), world.request(chat().turns(80))
    plan = world.compactor.chunks(session, world.compactor.view(session, request).backlog)
    replaced_by_another_chats_file(world)
    with pytest.raises(SourcesChanged):
        world.compactor.leaf(session, plan[0], request)

    assert world.model.tasks == []
    assert world.nodes() == []


@pytest.mark.parametrize(
    ("floor", "least", "most"), [(2000, 4000, 8000), (20_000, 20_000, 40_000), (90_000, 40_000, 60_000)]
)
def test_a_leaf_covers_what_its_setting_says(tmp_path: Path, floor: int, least: int, most: int) -> None:
    """Whoever asks for it, worker or compaction: both take the chunks from here."""
    world = World(tmp_path, leaf_chunk_tokens=floor, fresh_tail_count=8)
    messages = chat()
    for n in range(250):
        messages.user(f"go on {n}").says(f"step {n} " + "word " * 400)
    session, request = world.session(), world.request(messages)
    chunks = world.compactor.chunks(session, world.compactor.view(session, request).backlog)

    assert least < max(chunk.tokens for chunk in chunks) <= most


def test_a_prompt_is_not_published_into_another_chats_file(tmp_path: Path) -> None:
    """The file was replaced while the prompt was made: the host goes on with its own list."""
    world = World(tmp_path, fresh_tail_count=8)
    session, request = world.session(), world.request(chat().turns(80))
    view = world.compactor.view(session, request)
    roots = world.compactor.cover(session, view.backlog, request)
    replaced_by_another_chats_file(world)
    with pytest.raises(SourcesChanged):
        world.compress_pass.publish(session, view, roots, request)

    assert world.counts()["assemblies"] == 0
