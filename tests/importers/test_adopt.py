"""A database of the earlier hermes-lcm plugin becomes ours: everything in it, once, or it stays as it is."""

from __future__ import annotations

import base64
import json
import os
import signal
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds.earlier import LCM_X, PAYLOADS, SUMMARY, EarlierPlugin, talk, used
from worlds.home import ROOT, Holder, Home, digest, healthy

from hermes_lcm.command import FAILED, OK, REFUSED, VERBS, Words, answer
from hermes_lcm.errors import BadRequest, StoreBusy, StoreForeign
from hermes_lcm.importers import adopt
from hermes_lcm.importers.ledger import Ledger
from hermes_lcm.ingest.transcript import Transcripts
from hermes_lcm.ops.doctor.checks import doctor
from hermes_lcm.recall.access import Access, EngineState
from hermes_lcm.records import Flag, Row, Scope
from hermes_lcm.search import query as text_words
from hermes_lcm.storage import disk, foreign
from hermes_lcm.storage.connection import Database
from hermes_lcm.storage.payloads import folder_of


def terminal(home: Path, **settings: str) -> Access:
    """The parts as ``hermes lcm`` has them."""
    world = Home(home, **settings)
    runtime = world.runtime
    return replace(world.deps(None, trusted=True), store=runtime.view_store, clock=lambda: 1_700_000_000.0)


def idle(home: Path, **facts: Any) -> Access:
    """The same where no agent runs."""
    return replace(terminal(home), engine=EngineState(**facts))


def thread(deps: Access, session: str = "s1") -> list[Row]:
    """The conversation as it reads."""
    found = deps.sessions.find(session)
    assert found is not None
    return deps.store.rows([item.store_id for item in Transcripts(deps.store, deps.sessions).expected(found, None)])


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    """Everything in the tables of the earlier plugin."""
    with closing(sqlite3.connect(path)) as db:
        return [
            row
            for table in ("messages", "summary_nodes", "lcm_lifecycle_state")
            for row in db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
        ]


def found(deps: Access, query: str) -> list[int]:
    """What a search of everything finds."""
    hits = deps.index.search(text_words.parse(query), scope=Scope(), limit=500)
    return [hit.store_id for hit in hits.hits]


# -- before it is adopted ------------------------------------------------------------------------------
@pytest.mark.parametrize("wal", [True, False], ids=["wal", "journal"])
def test_the_file_is_not_touched_by_looking(wal: bool, tmp_path: Path) -> None:
    """A first message refuses it, status and doctor look at it, and no byte and no file beside it changes."""
    plugin = EarlierPlugin(tmp_path, wal=wal)
    plugin.store("s1", talk(6))
    path = plugin.close()
    before, files = digest(path), sorted(each.name for each in tmp_path.iterdir())
    deps = terminal(tmp_path)

    with pytest.raises(StoreForeign, match="earlier hermes-lcm"):
        deps.db.open()
    for verb in ("status", "doctor", "sessions", "search hello"):
        answer(verb, deps)
    assert adopt.plan(deps, None, None).taken.added == 6
    assert (digest(path), sorted(each.name for each in tmp_path.iterdir())) == (before, files)


def test_status_says_whose_file_it_is_and_that_an_agent_takes_it_over(tmp_path: Path) -> None:
    """That is no failure, and an archive in order it is not yet either."""
    plugin = EarlierPlugin(tmp_path)
    plugin.store("s1", talk(6))
    plugin.close()
    said = answer("status", idle(tmp_path))

    assert (said.code, said.data["database"]["state"], said.data["database"]["messages"]) == (OK, "earlier", 6)
    assert "This file was written by the earlier hermes-lcm plugin. Nothing in it was changed." in said.text
    assert "Its 6 messages are taken over when an agent starts." in said.text
    assert "`hermes lcm adopt --apply` does it now." in said.text
    assert said.data["problems"] == []
    assert not any(word in said.text for word in ("failed", "Problems", "healthy", "ready"))


def test_status_promises_no_agent_where_hermes_uses_another_engine(tmp_path: Path) -> None:
    """Then only the command takes the messages over."""
    used(tmp_path)[0].close()
    said = answer("status", idle(tmp_path, engine_name_in_use="compressor")).text

    assert "Hermes uses another engine" in said
    assert "when an agent starts" not in said
    assert "`hermes lcm adopt --apply` does it now." in said


def test_the_doctor_warns_of_it_and_names_the_command(tmp_path: Path) -> None:
    """Neither healthy nor unhealthy, and the rights of the file are not ours to change."""
    used(tmp_path)[0].close()
    (tmp_path / "lcm.db").chmod(0o644)
    said = doctor(terminal(tmp_path))
    (found,) = (each for each in said["checks"] if each["check"] == "database")

    assert (said["overall"], found["status"], found["command"]) == ("warnings", "warn", "/lcm adopt apply")
    assert "taken over when an agent starts" in found["remedy"]
    assert [each["status"] for each in said["checks"] if each["check"] == "file_modes"] == ["pass"]


def test_verbs_that_need_its_messages_say_how_they_come_over(tmp_path: Path) -> None:
    """The way out of the refusal is the same."""
    used(tmp_path)[0].close()
    said = answer("sessions", terminal(tmp_path))

    assert said.code == FAILED
    assert "its messages are taken over when an agent starts; `hermes lcm adopt --apply` does it now" in said.text


def test_a_log_that_was_left_behind_is_read_and_stays(tmp_path: Path) -> None:
    """That plugin was killed: its last rows are in the write-ahead log."""
    plugin = EarlierPlugin(tmp_path)
    plugin.store("s1", talk(6))
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("lcm.db", "lcm.db-wal"):
        (copy / name).write_bytes((tmp_path / name).read_bytes())
    before = digest(copy / "lcm.db", copy / "lcm.db-wal")
    deps = terminal(copy)

    assert adopt.plan(deps, None, None).found["messages"] == 6
    assert digest(copy / "lcm.db", copy / "lcm.db-wal") == before
    plugin.close()


def test_turns_are_stored_beside_it(tmp_path: Path) -> None:
    """The file stays as it is."""
    used(tmp_path)[0].close()
    world = Home(tmp_path)
    before = digest(world.path)
    world.say("hello", session="new")

    assert digest(world.path) == before
    assert world.runtime.store.count("new") == 1


# -- what becomes of it --------------------------------------------------------------------------------
def test_every_row_is_here_and_the_thread_reads_as_it_was_said(tmp_path: Path) -> None:
    """Each message once in the conversation; the repetitions kept, marked, pointing at what they repeat."""
    plugin, messages = used(tmp_path)
    count = len(rows_of(plugin.path)) - 3
    plugin.close()
    deps = terminal(tmp_path)
    done = adopt.adopt(deps, None, None)
    read = [row for row in thread(deps) if not row.head.flags & Flag.HOST_NOTE]

    assert [(row.head.role, row.text, [call.id for call in row.calls]) for row in read] == [
        (m["role"], m["content"], [call["id"] for call in m.get("tool_calls", ())]) for m in messages
    ]
    assert deps.store.count() == count == done.taken.added
    marked = Ledger(deps.db).duplicates()
    assert len(marked) == done.taken.copies == count - len(messages) - 1
    rows = {row.store_id: row for row in deps.store.rows([*marked, *marked.values()])}
    assert all(rows[copy].text == rows[original].text for copy, original in marked.items())
    assert doctor(deps, deep=True)["counts"]["fail"] == 0


def test_the_list_of_sessions_counts_every_message_once(tmp_path: Path) -> None:
    """As its transcript does; the repetitions are told apart."""
    used(tmp_path)[0].close()
    deps = terminal(tmp_path)
    done = adopt.adopt(deps, None, None)
    (listed,) = answer("sessions", deps).data["sessions"]

    assert listed["messages"] == len(thread(deps))
    assert (listed["repeats"], listed["summaries"]) == (done.taken.copies, 3)


def test_a_search_finds_every_message_once(tmp_path: Path) -> None:
    """Copies are not found; they can be read by their address."""
    plugin, messages = used(tmp_path)
    plugin.close()
    deps = terminal(tmp_path)
    adopt.adopt(deps, None, None)
    hits = found(deps, "zebra")
    texts = [row.text for row in deps.store.rows(hits)]

    assert sorted(texts) == sorted(m["content"] for m in messages if m["content"])
    copy = next(iter(Ledger(deps.db).duplicates()))
    assert deps.store.rows([copy])[0].head.flags & Flag.DUPLICATE


def test_summaries_are_nodes_that_say_that_they_were_not_verified(tmp_path: Path) -> None:
    """With their depth, their sources and their time; found by a search, and never adopted by a compaction."""
    used(tmp_path)[0].close()
    deps = terminal(tmp_path)
    adopt.adopt(deps, None, None)
    nodes = [node for batch in deps.dag.node_batches() for node in batch]
    leaf, other, top = nodes

    assert [(node.depth, node.quality, node.rung) for node in nodes] == [
        (0, "provisional", "imported"), (0, "provisional", "imported"), (1, "provisional", "imported"),
    ]  # fmt: skip
    assert deps.dag.sources(top.node_id) == [leaf.node_id, other.node_id]
    below = deps.store.rows(deps.dag.sources(leaf.node_id))
    assert [row.text for row in below if row.text][:2] == [
        "message 0 about the zebra deployment",
        "message 1 about the zebra deployment",
    ]
    assert not any(row.head.flags & Flag.DUPLICATE for row in deps.store.rows(deps.dag.sources(other.node_id)))
    assert deps.dag.leaves_from(leaf.conversation_id, [leaf.first_store_id]) == []
    hits = deps.node_index.search(text_words.parse("first leaf"), scope=Scope(), limit=5).hits
    assert hits[0].node_id == leaf.node_id
    assert json.loads(leaf.checks)["verified"] is False


def test_a_database_of_lcm_x_is_adopted_with_what_only_it_has(tmp_path: Path) -> None:
    """It keeps the same schema 5; its columns stay with each message."""
    old = EarlierPlugin(tmp_path)
    old.db.executescript(LCM_X)
    said = talk(4)
    old.node("s1", old.store("s1", said), "what was said")
    old.close()
    deps = terminal(tmp_path)
    done = adopt.adopt(deps, None, None)
    rows = thread(deps)

    assert (done.found["messages"], done.found["nodes"]) == (len(said), 1)
    assert [row.head.role for row in rows] == [each["role"] for each in said]
    kept = rows[0].stored_json["hermes_lcm"]
    assert isinstance(kept, dict)
    assert (kept["conversation_id"], kept["observed_at_source"]) == ("c1", "host")
    assert rows[0].stored_json["timestamp"] == kept["observed_at"] == kept["ingested_at"] - 5


def test_a_session_that_goes_on_stores_only_what_is_new(tmp_path: Path) -> None:
    """The host's list begins with that plugin's summary; then with the messages themselves."""
    plugin, messages = used(tmp_path)
    plugin.close()
    adopt.adopt(terminal(tmp_path), None, None)
    world = Home(tmp_path)
    live = [{"role": "user", "content": SUMMARY}, *messages[12:]]

    assert world.runtime.ingest_list("s1", live).stored == 0
    assert world.restart().runtime.ingest_list("s1", [*live, {"role": "user", "content": "go on"}]).stored == 1


def test_the_original_is_kept_with_all_its_rows(tmp_path: Path) -> None:
    """As a database that the earlier plugin could open again."""
    plugin, _ = used(tmp_path)
    plugin.close()
    before = rows_of(plugin.path)
    done = adopt.adopt(terminal(tmp_path), None, None)

    assert done.kept is not None
    assert rows_of(done.kept) == before
    assert not list(tmp_path.glob(".*adopting*"))


def test_adopting_twice_is_adopting_once(tmp_path: Path) -> None:
    """The second time there is nothing to do, and the answer still says where the original is."""
    used(tmp_path)[0].close()
    deps = terminal(tmp_path)
    first = adopt.adopt(deps, None, None)
    count = deps.store.count()
    again = adopt.adopt(terminal(tmp_path), None, None)

    assert (again.finished, again.taken.added, again.kept) == (True, 0, first.kept)
    assert deps.store.count() == count


def test_nothing_to_adopt_is_said(tmp_path: Path) -> None:
    """Our own database, or none."""
    healthy(tmp_path).close()
    for home, said in ((tmp_path, "not a database of the earlier"), (tmp_path / "empty", "does not exist")):
        with pytest.raises(BadRequest, match=f"lcm.db .*{said}"):
            adopt.adopt(terminal(home), None, None)


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    """By what is in it, not by its name."""
    with sqlite3.connect(tmp_path / "lcm.db") as db:
        db.execute("CREATE TABLE notes(text)")
    db.close()

    with pytest.raises(BadRequest, match="not a database of the earlier"):
        adopt.adopt(terminal(tmp_path), None, None)


def test_a_chat_adopts_only_what_may_be_read_there(tmp_path: Path) -> None:
    """The lifecycle tells whose session it was; one that nobody claims belongs to itself."""
    plugin = EarlierPlugin(tmp_path)
    plugin.store("a", talk(4), source="telegram")
    plugin.store("b", talk(4), source="telegram")
    plugin.store("c", talk(4), source="cli")
    plugin.lifecycle("agent:main:telegram:dm:42", "a")
    plugin.close()
    deps = terminal(tmp_path)
    adopt.adopt(deps, None, None)
    owners = {name: deps.sessions.find(name).principal for name in "abc"}  # type: ignore[union-attr]

    assert owners == {"a": "telegram:dm:42", "b": "session:b", "c": "local"}


@pytest.mark.host
def test_the_hosts_own_database_says_which_session_continues_which(tmp_path: Path) -> None:
    """Two sessions of one conversation: that plugin stored the tail again under the second; whose it is the host knows."""
    from hermes_state import SessionDB

    state = SessionDB(tmp_path / "state.db")
    state.create_session("a", "telegram", session_key="agent:main:telegram:dm:42")
    state.end_session("a", "compression")
    state.create_session("b", "telegram", session_key="agent:main:telegram:dm:42", parent_session_id="a")
    state.close()
    plugin = EarlierPlugin(tmp_path)
    messages = talk(24)
    plugin.store("a", messages[:16], source="telegram")
    plugin.store("b", [{"role": "user", "content": SUMMARY}, *messages[8:16], *messages[16:]], source="telegram")
    plugin.close()
    deps = terminal(tmp_path)
    adopt.adopt(deps, None, None)
    first, second = deps.sessions.find("a"), deps.sessions.find("b")
    read = [row.text for row in thread(deps, "b") if not row.head.flags & Flag.HOST_NOTE]

    assert first is not None
    assert second is not None
    assert first.conversation_id == second.conversation_id
    assert (first.principal, second.origin) == ("telegram:dm:42", "rotation")
    assert read == [m["content"] for m in messages]


def test_it_is_refused_in_a_chat(tmp_path: Path) -> None:
    """It reads files of this machine by name."""
    used(tmp_path)[0].close()
    with pytest.raises(BadRequest, match="at the terminal"):
        adopt.adopt(Home(tmp_path).deps(None), None, None)


# -- payload files -------------------------------------------------------------------------------------
IMAGE = "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 20).decode()


def test_payload_files_are_back_in_their_messages(tmp_path: Path) -> None:
    """A data URI inside a text, a whole output, arguments of a call; each again what was said, and ours to keep now."""
    plugin = EarlierPlugin(tmp_path)
    picture = plugin.payload("p1.json", IMAGE)
    output = plugin.payload("p2.json", "line of output\n" * 2000, tool_call_id="c1")
    blob = plugin.payload("p3.json", IMAGE.partition(",")[2])
    call = {"id": "c1", "type": "function", "function": {"name": "save", "arguments": f'{{"data": "{blob}"}}'}}
    plugin.store("s1", [
        {"role": "user", "content": f"look at {picture} please"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": output, "tool_call_id": "c1", "tool_name": "save"},
    ])  # fmt: skip
    plugin.node("s1", [1, 2, 3], "saved; see ref=p2.json")
    plugin.close()
    deps = terminal(tmp_path)
    done = adopt.adopt(deps, None, None)
    user, calls, result = (deps.payloads.whole(row) for row in thread(deps))

    assert user.stored_json["content"] == f"look at {IMAGE} please"
    assert json.loads(calls.calls[0].arguments) == {"data": IMAGE.partition(",")[2]}
    assert result.text == "line of output\n" * 2000
    assert (done.payloads, done.unused_payloads, done.missing_payloads) == (3, 0, ())
    assert list(folder_of(tmp_path / "lcm.db").rglob("*.z"))
    assert deps.dag.nodes([1])[0].expand_hint == f"p2.json is msg_{result.store_id}"
    assert (tmp_path / PAYLOADS / "p1.json").exists()


def test_payloads_with_quotes_and_lines_are_back_wherever_they_stood(tmp_path: Path) -> None:
    """All arguments of a call, one text of several parts; and a placeholder that shows words of its payload."""
    body = 'a "quoted" line\n' * 500
    arguments = json.dumps({"body": body})
    plugin = EarlierPlugin(tmp_path)
    shown = plugin.payload("a-name-as-long-as-it-is-there.json", body).replace(
        "ref=", f'preview="{"words " * 70}"; ref='
    )
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "save", "arguments": plugin.payload("p1.json", arguments)},
    }
    plugin.store("s1", [
        {"role": "user", "content": shown},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "user", "content": [{"type": "text", "text": plugin.payload("p2.json", body)}, {"type": "text", "text": "b"}]},
    ])  # fmt: skip
    plugin.close()
    deps = terminal(tmp_path)
    done = adopt.adopt(deps, None, None)
    user, calls, parts = (deps.payloads.whole(row) for row in thread(deps))

    assert user.stored_json["content"] == body
    assert calls.calls[0].arguments == arguments
    assert parts.stored_json["content"] == [{"type": "text", "text": body}, {"type": "text", "text": "b"}]
    assert (done.payloads, done.unused_payloads) == (3, 0)


def test_a_missing_payload_file_is_named_and_its_placeholder_stays(tmp_path: Path) -> None:
    """Nothing is invented."""
    plugin = EarlierPlugin(tmp_path)
    gone = plugin.payload("gone.json", "x" * 100)
    plugin.payload("spare.json", "nobody shows this")
    plugin.store("s1", [{"role": "user", "content": f"see {gone} and [ref=this is no placeholder]"}])
    (tmp_path / PAYLOADS / "gone.json").unlink()
    plugin.close()
    deps = terminal(tmp_path)
    done = adopt.adopt(deps, None, None)

    assert (done.missing_payloads, done.unused_payloads) == (("gone.json",), 1)
    assert gone in thread(deps)[0].text


def test_parts_are_parts_again_and_text_that_looks_like_them_stays_text(tmp_path: Path) -> None:
    """Only what reads back exactly is read at all."""
    plugin = EarlierPlugin(tmp_path)
    parts = [{"type": "text", "text": "what is this? ü"}, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]
    odd = '[{"type":   "text", "text": "typed by hand"}]'
    plugin.store(
        "s1",
        [
            {"role": "user", "content": parts},
            {"role": "assistant", "content": odd},
            {"role": "tool", "content": json.dumps(parts), "tool_call_id": "x"},
        ],
    )
    plugin.close()
    deps = terminal(tmp_path)
    adopt.adopt(deps, None, None)

    assert [row.stored_json["content"] for row in thread(deps)] == [parts, odd, json.dumps(parts)]


# -- damaged transcript -----------------------------------------------------------------------------------
def test_a_summary_whose_sources_are_gone_points_at_messages_of_its_time(tmp_path: Path) -> None:
    """/new deleted the leaves below it; or all messages of its session."""
    plugin = EarlierPlugin(tmp_path)
    plugin.store("s1", talk(6))
    plugin.node("s1", [901, 902], "its leaves were deleted", depth=2)
    plugin.node("ghost", [801], "its session was deleted")
    plugin.close()
    deps = terminal(tmp_path)
    done = adopt.adopt(deps, None, None)
    first, second = (node for batch in deps.dag.node_batches() for node in batch)

    assert (done.nodes.relinked, done.nodes.homeless) == (1, 1)
    assert len(deps.dag.sources(first.node_id)) == 6
    assert "its session was deleted" in deps.store.rows(deps.dag.sources(second.node_id))[0].text
    assert doctor(deps, deep=True)["counts"]["fail"] == 0


def test_columns_that_nobody_knows_are_kept(tmp_path: Path) -> None:
    """A later release of that plugin had more of them, an earlier one fewer."""
    plugin = EarlierPlugin(tmp_path)
    plugin.db.execute("ALTER TABLE messages ADD COLUMN ingest_hash TEXT DEFAULT 'abc'")
    plugin.db.execute("ALTER TABLE summary_nodes DROP COLUMN expand_hint")
    plugin.store("s1", talk(2))
    plugin.db.execute(
        "INSERT INTO summary_nodes(session_id, summary, source_ids, created_at) VALUES ('s1', 'short', '[1]', 5)"
    )
    plugin.close()
    deps = terminal(tmp_path)
    adopt.adopt(deps, None, None)

    assert thread(deps)[0].stored_json["hermes_lcm"] == {"ingest_hash": "abc"}


# -- interrupted ---------------------------------------------------------------------------------------
def in_child(work: Callable[[], None]) -> int:
    """The signal that ended a process which does this, or 0."""
    child = os.fork()
    if not child:
        try:
            work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


def killed_at(home: Path, statement: int) -> bool:
    """Adopt in a process that is killed before its n-th write; False: it got through."""
    count = 0

    def counting(self: Database, plain: Callable[..., Any], *args: Any) -> Any:
        nonlocal count
        count += 1
        if count == statement:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(self, *args)

    def work() -> None:
        execute, many = Database.execute, Database.executemany
        Database.execute = lambda self, *args: counting(self, execute, *args)  # type: ignore[method-assign,assignment]
        Database.executemany = lambda self, *args: counting(self, many, *args)  # type: ignore[method-assign,assignment]
        adopt.adopt(terminal(home), None, None)

    return in_child(work) == signal.SIGKILL


def whole(home: Path, messages: list[dict[str, Any]], rows: int) -> None:
    """The adoption is complete, whatever happened on the way."""
    deps = terminal(home)
    adopt.adopt(deps, None, None)
    assert deps.store.count() == rows
    assert len([row for row in thread(deps) if not row.head.flags & Flag.HOST_NOTE]) == len(messages)
    assert len([node for batch in deps.dag.node_batches() for node in batch]) == 3
    assert deps.db.query("SELECT count(*), count(DISTINCT key) FROM imported WHERE kind = 'message'") == [(rows, rows)]


def killed_everywhere(tmp_path: Path, step: int) -> int:
    """Kill at every ``step``-th write until it gets through; how often."""
    statement = kills = 1
    while True:
        home = tmp_path / str(statement)
        plugin, messages = used(home, size=24)
        plugin.close()
        before = rows_of(plugin.path)
        rows = len([row for row in before if len(row) == 11])
        if not killed_at(home, statement):
            return kills
        assert rows_of(plugin.path) == before, f"write {statement} left the original changed"
        whole(home, messages, rows)
        statement, kills = statement + step, kills + 1


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven rows in a transaction, so that there are several."""
    monkeypatch.setattr(foreign, "_BATCH", 7)


@pytest.mark.usefixtures("small_batches")
def test_killed_at_some_writes_it_leaves_the_original_and_goes_on(tmp_path: Path) -> None:
    """A sample of what the slow test does everywhere."""
    assert killed_everywhere(tmp_path, 61) > 1


@pytest.mark.slow
@pytest.mark.usefixtures("small_batches")
def test_killed_at_any_write_it_leaves_the_original_and_goes_on(tmp_path: Path) -> None:
    """Before the swap the original is there; the next run completes it without storing a row twice."""
    assert killed_everywhere(tmp_path, 1) > 80


@pytest.mark.few(8)
@pytest.mark.parametrize(
    "stage", ["checking the original", "storing", "storing summaries", "comparing", "checking the new file"]
)
@pytest.mark.parametrize("times", [1, 3, 20])
@pytest.mark.usefixtures("small_batches")
def test_interrupted_at_any_stage_it_goes_on(stage: str, times: int, tmp_path: Path) -> None:
    """What progress shows is where it can be stopped, the first time or later."""
    seen: list[str] = []
    plugin, messages = used(tmp_path)
    plugin.close()
    before = rows_of(plugin.path)

    def stop(what: str, _done: int, _total: int) -> None:
        seen.append(what)
        if seen.count(stage) == times:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):  # a stage that shows less than that gets through
        adopt.adopt(terminal(tmp_path), None, None, stop)
    assert stage in seen
    if seen.count(stage) == times:
        assert rows_of(plugin.path) == before
    whole(tmp_path, messages, 78)


@pytest.mark.few(2)
@pytest.mark.parametrize("step", ["seal", "exchange", "second_name", "sync"])
def test_killed_around_the_swap_one_of_the_two_is_there(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new file takes its place in one step."""
    plugin, messages = used(tmp_path)
    plugin.close()

    def work() -> None:
        where = disk if step in ("second_name", "sync") else adopt.files
        monkeypatch.setattr(where, step, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        adopt.adopt(terminal(tmp_path), None, None)

    assert in_child(work) == signal.SIGKILL
    whole(tmp_path, messages, 78)


def test_a_difference_is_found_and_nothing_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that did not arrive as it is ends the adoption."""
    plugin, _ = used(tmp_path)
    plugin.close()
    before = rows_of(plugin.path)
    monkeypatch.setattr(adopt, "_same", lambda row, item: item.key != "7")

    with pytest.raises(adopt.StoreCorrupt, match="row 7"):
        adopt.adopt(terminal(tmp_path), None, None)
    assert rows_of(plugin.path) == before


def test_while_that_plugin_runs_nothing_is_replaced(tmp_path: Path) -> None:
    """Its process would go on writing into a file that is not the database any more."""
    used(tmp_path)[0].close()
    holder = Holder(tmp_path / "lcm.db", "SELECT count(*) FROM messages")
    try:
        with pytest.raises(StoreBusy, match="another process"):
            adopt.adopt(terminal(tmp_path), None, None)
    finally:
        holder.free()


def test_what_that_plugin_stores_meanwhile_is_not_lost(tmp_path: Path) -> None:
    """It wrote between the reading and the swap: nothing is replaced, and the next run takes it over."""
    plugin, _ = used(tmp_path)
    plugin.close()

    def meanwhile(what: str, _done: int, _total: int) -> None:
        if what == "checking the new file":
            with closing(sqlite3.connect(plugin.path)) as db, db:
                db.execute(
                    "INSERT INTO messages(session_id, role, content, timestamp) VALUES ('s1', 'user', 'late', 9e9)"
                )

    with pytest.raises(StoreBusy, match="has changed"):
        adopt.adopt(terminal(tmp_path), None, None, meanwhile)
    deps = terminal(tmp_path)
    assert adopt.adopt(deps, None, None).found["messages"] == 79
    assert thread(deps)[-1].text == "late"


# -- from another place --------------------------------------------------------------------------------
def test_a_database_from_elsewhere_joins_the_one_that_is_here(tmp_path: Path) -> None:
    """A session that went on here keeps its rows; what came before them goes in front, once."""
    plugin, messages = used(tmp_path / "old")
    plugin.close()
    world = Home(tmp_path / "new")
    live = [{"role": "user", "content": SUMMARY}, *messages[12:], {"role": "user", "content": "new here"}]
    world.runtime.ingest_list("s1", live)
    deps = terminal(tmp_path / "new")
    done = adopt.adopt(deps, str(plugin.path), None)
    read = [row.text for row in thread(deps) if not row.head.flags & Flag.HOST_NOTE and row.text != SUMMARY]

    assert read == [*(m["content"] for m in messages), "new here"]
    assert done.kept is not None
    assert adopt.adopt(deps, str(plugin.path), None).taken.added == 0
    assert (
        Home(tmp_path / "new").runtime.ingest_list("s1", [*live, {"role": "assistant", "content": "yes"}]).stored == 1
    )


# -- at the terminal -----------------------------------------------------------------------------------
def test_the_verb_says_what_it_found_and_did(tmp_path: Path) -> None:
    """Dry run, apply, and again."""
    used(tmp_path)[0].close()
    verb = next(each for each in VERBS if each.name == "adopt")
    said = [verb.run(terminal(tmp_path), Words(apply=apply)) for apply in (False, True, True, False)]

    assert [each.code for each in said] == [OK] * 4
    assert "78 rows to take in" in said[0].text
    assert "--apply` does it" in said[0].text
    assert "37 rows repeat others" in said[1].text
    assert said[1].data["kept"] in said[1].text
    assert "nothing is left to do" in said[3].text


@pytest.mark.host
def test_a_compaction_covers_what_was_adopted(hermes_home: Path) -> None:
    """The session goes on, is compacted, and every message is in the prompt, raw or under one summary of ours."""
    from worlds.process import Script

    from hermes_lcm import command
    from hermes_lcm.engine import LCMEngine
    from hermes_lcm.plugin import hooks

    plugin, messages = used(hermes_home, size=200)
    plugin.close()
    adopt.adopt(terminal(hermes_home), None, None)
    engine: Any = LCMEngine()
    engine.update_model("m", 70_000)
    engine.on_session_start("s1", hermes_home=str(hermes_home), platform="cli")
    engine.runtime.compactor._summarise = engine.runtime.ladder.summarise = Script()
    live = [
        {"role": "user", "content": SUMMARY},
        *messages[92:],
        {"role": "user", "content": "go on " + "word " * 20_000},
    ]
    hooks.pre_api_request(session_id="s1", conversation_history=live, platform="cli")
    count = engine.runtime.store.count()
    out = engine.compress(list(live), current_tokens=60_000, force=True)
    hooks.pre_api_request(session_id="s1", conversation_history=out, platform="cli")
    access = replace(command.operator_access(engine.runtime, engine.runtime.find_session("s1"), engine), trusted=True)
    checks = doctor(access)["checks"]

    assert len(out) < 20
    assert engine.runtime.store.count() == count
    assert {each["check"]: each["status"] for each in checks}["coverage"] == "pass"
    assert {each["check"]: each["status"] for each in checks}["provisional_nodes"] == "pass"
    engine.runtime.preparer.stop()
    engine.runtime.db.close()


@pytest.mark.host
def test_the_agents_tools_read_what_was_adopted(hermes_home: Path) -> None:
    """Search, load and expand in the session, as the host calls them on the real engine."""
    from hermes_lcm.engine import LCMEngine

    used(hermes_home)[0].close()
    adopt.adopt(terminal(hermes_home), None, None)
    engine: Any = LCMEngine()
    engine.update_model("m", 200_000)
    engine.on_session_start("s1", hermes_home=str(hermes_home), platform="cli")

    def ask(name: str, **arguments: Any) -> dict[str, Any]:
        return json.loads(engine.handle_tool_call(name, {**arguments, "format": "json"}, messages=[]))  # type: ignore[no-any-return]

    grep, page = ask("lcm_grep", query="zebra", limit=50), ask("lcm_load_session", session_id="s1", limit=100)

    assert {item["role"] for item in grep["results"]} >= {"user", "assistant", "tool", "summary"}
    assert sum("duplicate" in str(item.get("flags")) for item in page["messages"]) == 37
    assert "message 0 about" in json.dumps(ask("lcm_expand", node_id=1))
    assert "message 1 about" in json.dumps(ask("lcm_expand", store_id=2))
    engine.runtime.db.close()


@pytest.mark.host
def test_the_hosts_own_command_adopts(hermes_home: Path) -> None:
    """``hermes lcm adopt`` through the host's argument parser: looking, doing, and what is there afterwards."""
    (hermes_home / "plugins").mkdir()
    (hermes_home / "plugins" / "hermes-lcm").symlink_to(ROOT, target_is_directory=True)
    (hermes_home / "config.yaml").write_text("plugins:\n  enabled: [hermes-lcm]\ncontext:\n  engine: lcm\n")
    used(hermes_home)[0].close()
    code = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from hermes_cli.main import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["hermes", "lcm", *words, "--json"]
    out, code = io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(out):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, json.loads(out.getvalue()[out.getvalue().index("{"):])]))
"""
    words = [
        ["status"],
        ["adopt"],
        ["adopt", "--apply"],
        ["status"],
        ["import", "host"],
        ["export", "s1"],
        ["doctor", "duplicates"],
    ]
    command = [sys.executable, "-c", code, json.dumps(words)]
    env = {**os.environ, "HERMES_HOME": str(hermes_home)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=hermes_home, env=env, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    before, looked, did, after, host, made, marked = (
        json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")
    )

    assert (before[0] or 0, before[1]["database"]["state"], before[1]["problems"]) == (0, "earlier", [])
    assert "hermes lcm adopt" in before[1]["database"]["remedy"]
    assert (looked[1]["added"], looked[1]["applied"]) == (78, False)
    assert (did[0] or 0, did[1]["duplicates"], did[1]["finished"]) == (0, 37, True)
    assert after[1]["store"]["total_messages"] == 78
    assert (host[0], made[1]["messages"], marked[1]["marked_before"]) == (REFUSED, 78, 37)
