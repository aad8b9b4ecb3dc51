"""
Ways to change a database by hand: what changes what is shown, the deep doctor finds; turns and tools go on, nothing hangs. (P9)
"""

from __future__ import annotations

import json
import signal
import sqlite3
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from worlds.breaking import Host, copied, lost_or_doubled, template, valid
from worlds.process import chat

from hermes_lcm import command
from hermes_lcm.ops.answers import FOUND, OK

SAID = chat().turns(60).rounds(6).says("done").turns(10, first=70)
FIRST = "(SELECT min(node_id) FROM nodes)"
LAST = "(SELECT max(node_id) FROM nodes)"
DAMAGES = {
    # rows of messages
    "a row is gone": "DELETE FROM messages WHERE store_id = 5",
    "the last rows are gone": "DELETE FROM messages WHERE store_id > 120",
    "all rows are gone": "DELETE FROM messages",
    "a row is there twice": "INSERT INTO messages SELECT 9999, conversation_id, session_key, 9999, 9999.0, role, tool_name, "
    "answers, digest, tokens, chars, said_at, stored_at, source, flags, revises, envelope FROM messages WHERE store_id = 5",
    "two rows changed places": "UPDATE messages SET pos = 11 - pos WHERE store_id IN (5, 6)",
    "a position": "UPDATE messages SET pos = pos + 0.0000001 WHERE store_id = 9",
    "a sequence number": "UPDATE messages SET seq = 5000 WHERE store_id = 9",
    "all sequence numbers": "UPDATE messages SET seq = seq + 1000",
    "a role": "UPDATE messages SET role = 'system' WHERE store_id = 5",
    "roles in exchange": "UPDATE messages SET role = CASE role WHEN 'user' THEN 'assistant' ELSE 'user' END WHERE store_id < 3",
    "the name of a tool": "UPDATE messages SET tool_name = 'rm' WHERE store_id = 130",
    "whose result it is": "UPDATE messages SET answers = 'other' WHERE role = 'tool'",
    "a digest": "UPDATE messages SET digest = x'00112233445566778899aabbccddeeff' WHERE store_id = 5",
    "tokens": "UPDATE messages SET tokens = 1 WHERE store_id = 5",
    "characters": "UPDATE messages SET chars = 1 WHERE store_id = 5",
    "when it was said": "UPDATE messages SET said_at = 0 WHERE store_id = 5",
    "when it was stored": "UPDATE messages SET stored_at = 0 WHERE store_id = 5",
    "where it came from": "UPDATE messages SET source = 'somewhere' WHERE store_id = 5",
    "taken back": "UPDATE messages SET flags = flags | 1 WHERE store_id = 5",
    "a flag that is no number": "UPDATE messages SET flags = 'x' WHERE store_id = 5",
    "a sequence number that is none": "UPDATE messages SET seq = 'x' WHERE store_id = 5",
    "a flag": "UPDATE messages SET flags = flags | 64 WHERE store_id = 5",
    "a revision": "UPDATE messages SET revises = 3 WHERE store_id = 9",
    "another's words": "UPDATE messages SET envelope = (SELECT envelope FROM messages WHERE store_id = 7) WHERE store_id = 5",
    "other words": """UPDATE messages SET envelope = CAST(x'00' || '{"role":"user","content":"I never said so"}' AS BLOB)
                       WHERE store_id = 5""",
    "no words": "UPDATE messages SET envelope = x'' WHERE store_id = 5",
    "garbage": "UPDATE messages SET envelope = randomblob(100) WHERE store_id = 5",
    "a block that is not there": "UPDATE messages SET envelope = 4711 WHERE store_id = 5",
    "another conversation's": "UPDATE messages SET conversation_id = 2 WHERE store_id = 5",
    "another session's": "UPDATE messages SET session_key = 2 WHERE store_id = 5",
    "its own number": "UPDATE messages SET store_id = 7777 WHERE store_id = 5",
    # summaries
    "a summary's words": f"UPDATE nodes SET text = 'nothing happened' WHERE node_id = {FIRST}",
    "a summary's hint": f"UPDATE nodes SET expand_hint = 'nothing' WHERE node_id = {FIRST}",
    "a summary's quality": f"UPDATE nodes SET quality = 'verbatim' WHERE node_id = {FIRST}",
    "a summary's depth": f"UPDATE nodes SET depth = 7 WHERE node_id = {FIRST}",
    "a summary's span": f"UPDATE nodes SET first_store_id = 1, last_store_id = 2 WHERE node_id = {LAST}",
    "a summary's count": f"UPDATE nodes SET message_count = 1 WHERE node_id = {FIRST}",
    "a summary's fingerprint": f"UPDATE nodes SET fingerprint = x'00' WHERE node_id = {FIRST}",
    "a summary's times": f"UPDATE nodes SET earliest_at = 0, latest_at = 1 WHERE node_id = {FIRST}",
    "a summary is gone": f"DELETE FROM nodes WHERE node_id = {FIRST}",
    "all summaries are gone": "DELETE FROM nodes",
    "a summary of another conversation": f"UPDATE nodes SET conversation_id = 2 WHERE node_id = {FIRST}",
    "a summary replaces another": f"UPDATE nodes SET replaces = {FIRST} WHERE node_id = {LAST}",
    "summaries in exchange": f"UPDATE nodes SET text = (SELECT text FROM nodes WHERE node_id = {LAST}) WHERE node_id = {FIRST}",
    # edges
    "an edge is gone": f"DELETE FROM node_sources WHERE node_id = {FIRST} AND position = 1",
    "all edges are gone": "DELETE FROM node_sources",
    "an edge to another message": f"UPDATE node_sources SET store_id = 140 WHERE node_id = {FIRST} AND position = 0",
    "edges in exchange": f"UPDATE node_sources SET position = position + 1000 WHERE node_id = {FIRST}",
    "an edge to nothing": f"UPDATE node_sources SET store_id = 4711 WHERE node_id = {FIRST} AND position = 0",
    "a circle of one": f"UPDATE node_sources SET store_id = NULL, child_id = {FIRST} WHERE node_id = {FIRST} AND position = 0",
    "a circle of two": "UPDATE node_sources SET store_id = NULL, "
    f"child_id = CASE node_id WHEN {FIRST} THEN {LAST} ELSE {FIRST} END WHERE node_id IN ({FIRST}, {LAST}) AND position = 0",
    "one more edge": f"INSERT INTO node_sources VALUES ({FIRST}, 999, 150, NULL)",
    # prompts
    "a root is gone": "UPDATE assemblies SET roots = '[]'",
    "a root that is not there": "UPDATE assemblies SET roots = '[4711]'",
    "roots that are no list": "UPDATE assemblies SET roots = 'x'",
    "a tail": "UPDATE assemblies SET tail_ids = '[1]'",
    "where a prompt ends": "UPDATE assemblies SET last_seq = 3, last_pos = 3",
    "a tail that is nested": f"UPDATE assemblies SET tail_ids = '{'[' * 3000}{']' * 3000}'",
    "a prompt is gone": "DELETE FROM assemblies",
    "a prompt of another session": "UPDATE assemblies SET session_id = 'other'",
    # conversations, sessions, rights
    "whose conversation it is": "UPDATE conversations SET principal = 'somebody'",
    "whose session it is": "UPDATE sessions SET principal = 'somebody'",
    "a session is gone": "DELETE FROM sessions",
    "a session's name": "UPDATE sessions SET session_id = 'renamed'",
    "a session's conversation": "UPDATE sessions SET conversation_id = 2",
    "a conversation is gone": "DELETE FROM conversations",
    "a conversation's parent": "UPDATE conversations SET parent_id = 1, fork_seq = 3",
    "a conversation's nonce": "UPDATE conversations SET nonce = 'other'",
    # files, archives, orders, duplicates
    "a payload that nobody wrote": "INSERT INTO payloads VALUES ('ab', 'text', '', 1, 1, 0)",
    "a payload of a message": "INSERT INTO payload_refs VALUES ('ab', x'00')",
    "an archived range": "INSERT INTO archives(handle, conversation_id, session_id, store_ids, first_index, last_index, "
    "messages, summary, given, preview, chars, tokens, state, created_at, changed_at) "
    "VALUES ('a', 1, 's', '[1,2]', 0, 1, 2, 'x', 0, '', 0, 0, 'archived', 0, 0)",
    "a message marked as repeated": "INSERT INTO duplicates VALUES (5, 3)",
    "an order to dissolve": "INSERT INTO meta VALUES ('dissolved:1', '{}')",
    "a stretch that is inherited": "INSERT INTO meta VALUES ('inherits:1', '{\"cuts\": []}')",
    "whose records count as ours": "INSERT INTO meta VALUES ('nonce:other', '1')",
    "an order to rotate": "INSERT INTO meta VALUES ('rotate:s', '{\"last_seq\": 3, \"at\": 0}')",
    "what a chat wants to hear": "INSERT INTO meta VALUES ('notices:local', 'false')",
    "what a chat recalled": "INSERT INTO meta VALUES ('pulled:s', '[5]')",
    "what is held": "INSERT INTO meta VALUES ('hold:s', '{\"at\": 0}')",
    "an answer of a model": "INSERT INTO meta VALUES ('mapped:x:5', '{\"answer\": \"no\", \"at\": 0}')",
    "who asked to archive": "INSERT INTO meta VALUES ('archive_request:a', '5')",
    "a verdict on a fact": "INSERT INTO meta VALUES ('ledger_marks:1', '{}')",
    "a message that states a fact": "INSERT INTO ledger VALUES (1, 5)",
    "a carried summary": f"INSERT INTO carried VALUES (1, {FIRST})",
    "a table is gone": "DROP TABLE node_sources",
    "a column is gone": "ALTER TABLE messages DROP COLUMN chars",
    "a column has another name": "ALTER TABLE messages RENAME COLUMN envelope TO env",
    "a table has another name": "ALTER TABLE messages RENAME TO msgs",
    "a depth that is none": f"UPDATE nodes SET depth = 'x' WHERE node_id = {FIRST}",
    "a place that is infinite": "UPDATE messages SET pos = 9e999 WHERE store_id = 9",
    "words that are a text": "UPDATE messages SET envelope = CAST(envelope AS TEXT) WHERE store_id = 7",
    "when a session began": "UPDATE sessions SET started_at = 'soon'",
    "a zero in a session's name": "UPDATE sessions SET session_id = session_id || char(0) || 'x'",
    "other addresses": "UPDATE messages SET store_id = store_id + 1000000 WHERE store_id > 100",
    # the seals themselves
    "the seals are gone": "DELETE FROM seals",
    "a seal is gone": "DELETE FROM seals WHERE part = 'messages'",
    "a seal is cut": "UPDATE seals SET sum = x'00' WHERE part = 'messages'",
    "a seal counts more": "UPDATE seals SET count = count + 1 WHERE part = 'summaries'",
    "seals of another conversation": "UPDATE seals SET conversation_id = conversation_id + 100",
}  # fmt: skip

#: What only a search needs, and texts and numbers that no statement of ours writes.
MENDED = {
    "the index's structure": "UPDATE message_index_data SET block = x'00' WHERE id = 10",
    "no totals of the index": "DELETE FROM message_index_data WHERE id = 1",
    "half of the index's totals": "UPDATE message_index_data SET block = substr(block, 1, 2) WHERE id = 1",
    "a page of the index": "UPDATE message_index_data SET block = x'0000' WHERE id = (SELECT max(id) FROM message_index_data)",
    "the length of a row": "UPDATE message_index_docsize SET sz = x'7f00' WHERE id = (SELECT max(id) FROM message_index_docsize)",
    "how the index ranks": "UPDATE message_index_config SET v = 'bm25(0.0, 9.0)' WHERE k = 'rank'",
    "the way into the index is gone": "DROP TABLE message_index_idx",
    "the lengths of rows are gone": "DROP TABLE message_index_docsize",
    "the structure of the summaries' index": "UPDATE node_index_data SET block = x'00' WHERE id = 10",
    "the totals of the summaries' index": "UPDATE node_index_data SET block = x'00' WHERE id = 1",
    "the pages of the summaries' index": "DELETE FROM node_index_data WHERE id > 10",
    "a way into a part of the summaries' index that is none": "INSERT INTO node_index_idx VALUES (77, x'', 2)",
    "whose file it is": "PRAGMA application_id = 5",
    "a role that is no text": "UPDATE messages SET role = CAST(x'ff' AS TEXT) WHERE store_id = 5",
    "an address behind which is no room": """UPDATE messages SET store_id = 9223372036854775807
                                             WHERE store_id = (SELECT max(store_id) FROM messages)""",
}  # fmt: skip


def lived(host: Host) -> None:
    live = chat()
    for n in range(0, len(SAID), 40):
        live.extend(SAID[n : n + 40])
        host.says(live)
        live = host.compress(live, force=True)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return template(tmp_path_factory.mktemp("lived"), lived)


@pytest.fixture(autouse=True)
def _no_hang() -> Any:
    """Whatever takes this long stands still, whoever survives the error."""
    hung: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        hung.append(number)
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    assert not hung


def test_a_life_without_damage_is_healthy(source: Path, tmp_path: Path) -> None:
    """Otherwise the list below shows nothing."""
    host = Host(copied(source, tmp_path / "home"))
    assert len([node for nodes in host.runtime.dag.node_batches() for node in nodes]) > 2
    assert doctor(host).code == OK, doctor(host).text
    host.close()


@pytest.mark.few(8)
@pytest.mark.parametrize("name", DAMAGES)
def test_a_change_by_hand_is_found_and_stops_nothing(name: str, source: Path, tmp_path: Path) -> None:
    """The deep doctor fails before and after the next turn; tools and compactions answer."""
    home = copied(source, tmp_path / "home")
    with sqlite3.connect(home / "lcm.db") as raw:
        raw.execute(DAMAGES[name])
    raw.close()
    host = Host(home)
    found = doctor(host)
    live = SAID.copy().user("and now?")
    host.says(live)
    out = host.compress(live, force=True)
    node = host.runtime.dag.latest_assembly(1)
    named = f"sum_{node.roots[0]}" if node and node.roots else "sum_1"
    answers = [host.tool("lcm_grep", query="question 7"), host.tool("lcm_expand", node_id=named, recursive=True)]
    answers += [host.tool("lcm_describe", id=named), host.tool("lcm_describe"), host.tool("lcm_status")]
    after = doctor(host)
    host.close()

    assert valid(out)
    assert all(answers)
    assert (found.code, after.code) == (FOUND, FOUND), found.text
    assert all(each["status"] != "fail" or each.get("remedy") for each in found.data["checks"])


@pytest.mark.few(3)
@pytest.mark.parametrize("name", MENDED)
def test_what_was_changed_beside_a_process_is_mended_in_it(name: str, source: Path, tmp_path: Path) -> None:
    """The deep doctor sees it, turns go on, and after a repair in the same process all is well with the next one."""
    host = Host(copied(source, tmp_path / "home"))
    live = SAID.copy().user("and now?")
    host.says(live)
    with sqlite3.connect(host.home / "lcm.db") as raw:
        raw.execute(MENDED[name])
    raw.close()
    host.runtime.db.close()
    before = doctor(host)
    host.says(live.says("this").user("and then?"))
    sent = host.compress(live.copy(), force=True)
    host.tool("lcm_grep", query="question 7")
    doctor(host)
    repaired = doctor(host, "doctor repair apply")
    host.says(live.says("that").user("and in the end?"))
    assert valid(host.compress(live.copy(), force=True))
    found = json.loads(host.tool("lcm_grep", query="question 7"))
    after = doctor(host)
    accepted = doctor(host, "doctor accept apply")
    healthy = doctor(host)
    stored = lost_or_doubled(host, live)
    host.close()

    assert before.code == FOUND
    assert valid(sent)
    assert repaired.code == OK, repaired.text
    assert found["results"]
    assert [each["check"] for each in after.data["checks"] if each["status"] == "fail"] in ([], ["ingest_gaps"])
    assert healthy.code == OK, (accepted.text, healthy.text)
    assert stored == ([], [])


def test_a_trigger_is_named_and_taken_out(source: Path, tmp_path: Path) -> None:
    """The dry run changes nothing; then the file is used again, and what was said meanwhile is in it."""
    host = Host(copied(source, tmp_path / "home"))
    live = SAID.copy().user("and now?")
    host.says(live)
    with sqlite3.connect(host.home / "lcm.db") as raw:
        raw.execute('CREATE TRIGGER "of ""theirs" AFTER INSERT ON messages BEGIN DELETE FROM meta; END')
    raw.close()
    host.says(live.says("this").user("and then?"))
    told, dry = doctor(host, "doctor"), doctor(host, "doctor repair")
    still = doctor(host, "doctor")
    repaired = doctor(host, "doctor repair apply")
    host.says(live.says("that").user("and in the end?"))

    assert (told.code, dry.code, still.code) == (FOUND, FOUND, FOUND)
    assert "on messages" in told.text
    assert "/lcm doctor repair" in told.text
    assert 'of "theirs' in dry.text
    assert repaired.code == OK, repaired.text
    assert doctor(host).code == OK, doctor(host).text
    assert not host.runtime.db.stands_in
    assert lost_or_doubled(host, live) == ([], [])
    host.close()


def test_the_process_that_repaired_a_database_can_restore_it(source: Path, tmp_path: Path) -> None:
    """What it had open of the file while something stood in for it locks it out no more."""
    host = Host(copied(source, tmp_path / "home"))
    with sqlite3.connect(host.home / "lcm.db") as raw:
        raw.execute("PRAGMA user_version = 0")
    raw.close()
    host.runtime.db.close()
    live = SAID.copy().user("and now?")
    host.says(live)
    assert host.runtime.db.stands_in
    assert doctor(host, "doctor repair apply").code == OK
    host.says(live.says("this").user("and then?"))
    assert not host.runtime.db.stands_in
    doctor(host, "backup")
    restored = doctor(host, "restore latest apply")
    stored = lost_or_doubled(host, live)
    host.close()

    assert restored.code == OK, restored.text
    assert stored == ([], [])


def doctor(host: Host, words: str = "doctor deep") -> Any:
    """As the operator asks at the terminal."""
    access = command.operator_access(host.runtime, None, None)
    engine = replace(access.engine, engine_name_in_use="lcm")
    return command.answer(words, replace(access, trusted=True, engine=engine))
