"""The host's session database comes back from our record, as the host's own class reads it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hermes_state import SessionDB
from worlds.home import Home
from worlds.process import Chat, chat
from worlds.process import World as Live

from hermes_lcm import command
from hermes_lcm.command import FAILED, OK, REFUSED
from hermes_lcm.text import content


def ask(live: Live, words: str) -> command.Answer:
    return command.answer(words, replace(live.runtime.access(None, trusted=True), home=live.folder))


def host_list(home: Path, session_id: str = "s") -> list[dict[str, Any]]:
    database = SessionDB(db_path=home / "state.db")
    try:
        return list(database.get_messages_as_conversation(session_id))
    finally:
        database.close()


def digests(messages: Any) -> list[bytes]:
    return [content.canonical_core(message).digest for message in messages]


@pytest.fixture
def said() -> Chat:
    return chat().turns(6).calls("x", "y").results("x", "y", text="out").says("done").turns(1, first=50)


@pytest.fixture
def live(tmp_path: Path, said: Chat) -> Live:
    world = Live(tmp_path)
    world.take(said)
    return world


def test_a_dry_run_says_what_is_missing_and_writes_nothing(live):
    """Neither the file nor a folder."""
    answer = ask(live, "rescue")

    assert (answer.code, answer.data["state"], answer.data["sessions"]) == (OK, "missing", ["s"])
    assert not (live.folder / "state.db").exists()


def test_a_lost_file_comes_back_as_the_host_reads_it(live, said):
    """Every message in order, with calls and results; the times of the session are those that it had."""
    answer = ask(live, "rescue apply")

    assert (answer.code, answer.data["messages"], answer.data["differing"]) == (OK, len(said), [])
    assert digests(host_list(live.folder)) == digests(said)
    database = SessionDB(db_path=live.folder / "state.db")
    assert database.get_session("s")["started_at"] == live.sessions.find("s").started_at
    database.close()


def test_the_resumed_list_is_known_here(live):
    """The host resumes from the rescued file: nothing is stored twice, nothing taken back."""
    ask(live, "rescue apply")
    before = live.counts()["messages"]
    live.take(host_list(live.folder))
    live.restart().take([*host_list(live.folder), {"role": "user", "content": "and on"}])

    assert live.counts()["messages"] == before + 1
    assert live.db.query("SELECT count(*) FROM messages WHERE flags & 1") == [(0,)]


def test_a_damaged_file_is_kept_beside_the_new_one(live, said):
    """Nobody throws away what a specialist may still read."""
    (live.folder / "state.db").write_bytes(b"SQLite format 3\0" + b"\xde\xad" * 4000)
    answer = ask(live, "rescue apply")

    assert answer.data["state"] == "damaged"
    assert Path(answer.data["kept"]).read_bytes().startswith(b"SQLite format 3\0\xde\xad")
    assert digests(host_list(live.folder)) == digests(said)


def test_a_sound_file_is_only_added_to(live, said):
    """Sessions that it has stay as they are."""
    database = SessionDB(db_path=live.folder / "state.db")
    database.create_session("other", "cli")
    database.append_message("other", "user", "of the host alone")
    database.close()
    answer = ask(live, "rescue apply")

    assert (answer.data["state"], answer.data["sessions"]) == ("sound", ["s"])
    assert [each["content"] for each in host_list(live.folder, "other")] == ["of the host alone"]
    assert digests(host_list(live.folder)) == digests(said)
    assert ask(live, "rescue apply").data["sessions"] == []


def test_a_compacted_conversation_comes_back_whole(live, said):
    """The host's list had a context message of ours in front; the rescued one has every message."""
    more = Chat(said).turns(14, first=100)
    out = live.compact(more)
    live.take(Chat(out).turns(1, first=900))
    ask(live, "rescue apply")

    assert digests(host_list(live.folder)) == digests(Chat(more).turns(1, first=900))


def test_a_rotated_conversation_goes_on_in_its_newest_session(live, said):
    """Which shows the whole thread; the one before has what was said in it."""
    old = live.sessions.find("s")
    live.sessions.end("s", now=2.0, reason="compression")
    live.sessions.open("s2", now=3.0, parent=old, origin="rotation")
    live.ingest.ingest_list(live.sessions.find("s2"), [*said, {"role": "user", "content": "next"}], source="test")
    ask(live, "rescue apply")

    assert digests(host_list(live.folder, "s2")) == digests([*said, {"role": "user", "content": "next"}])
    assert digests(host_list(live.folder, "s")) == digests(said)


def test_and_the_other_way_round(live, said):
    """Our database is lost, the host's is there: its conversations come back with one command."""
    ask(live, "rescue apply")
    live.db.close()
    (live.folder / "lcm.db").unlink()
    lost = Home(live.folder)
    deps = replace(lost.deps(None), trusted=True)

    refused = command.answer("rescue", deps)
    assert refused.code in (REFUSED, FAILED)
    assert "hermes lcm import host --apply" in refused.text
    assert command.answer("import host apply", deps).code == OK
    assert digests(row.stored_json for rows in lost.runtime.store.row_batches() for row in rows) == digests(said)


def test_a_chat_writes_no_file_of_the_host(live):
    """At the terminal only."""
    deps = replace(live.runtime.access(None), home=live.folder)

    assert command.answer("rescue apply", deps).code == REFUSED
