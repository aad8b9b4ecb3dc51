"""``scripts/import_lossless_claw.py``: messages under their provenance, once, after a look and a backup."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import sqlite3
import subprocess
import sys
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from worlds.home import ROOT, Home, digest

from hermes_lcm.command import REFUSED, run
from hermes_lcm.ingest.transcript import Transcripts
from hermes_lcm.ops.doctor.checks import doctor

SCRIPT = ROOT / "scripts" / "import_lossless_claw.py"
SCHEMA = """
CREATE TABLE conversations(
  conversation_id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, session_key TEXT, active INTEGER DEFAULT 1,
  title TEXT, created_at TEXT NOT NULL DEFAULT (datetime('now')), updated_at TEXT
);
CREATE TABLE messages(
  message_id INTEGER PRIMARY KEY AUTOINCREMENT, conversation_id INTEGER NOT NULL REFERENCES conversations, seq INTEGER NOT NULL,
  role TEXT NOT NULL, content TEXT NOT NULL, token_count INTEGER NOT NULL, created_at TEXT NOT NULL, UNIQUE(conversation_id, seq)
);
CREATE TABLE message_parts(
  part_id TEXT PRIMARY KEY, message_id INTEGER NOT NULL, session_id TEXT NOT NULL, part_type TEXT NOT NULL, ordinal INTEGER,
  text_content TEXT, tool_call_id TEXT, tool_name TEXT, tool_input TEXT, tool_output TEXT, metadata TEXT
);
CREATE TABLE summaries(
  summary_id TEXT PRIMARY KEY, conversation_id INTEGER NOT NULL, kind TEXT NOT NULL, depth INTEGER NOT NULL DEFAULT 0,
  content TEXT NOT NULL, token_count INTEGER NOT NULL, earliest_at TEXT, latest_at TEXT, created_at TEXT NOT NULL, file_ids TEXT
);
CREATE TABLE summary_messages(summary_id TEXT, message_id INTEGER, ordinal INTEGER, PRIMARY KEY(summary_id, message_id));
CREATE TABLE summary_parents(summary_id TEXT, parent_summary_id TEXT, ordinal INTEGER);
CREATE TABLE context_items(conversation_id INTEGER, ordinal INTEGER, item_type TEXT, message_id INTEGER, summary_id TEXT);
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two conversations under one session key, one with a tool round; two leaves and a summary of both."""
    path = tmp_path / "openclaw" / "lcm.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript(SCHEMA)
        for n, name in enumerate(("alpha", "beta"), 1):
            db.execute("INSERT INTO conversations(session_id, session_key) VALUES (?, 'agent:main')", (name,))
            for seq, (role, text) in enumerate(
                (("user", "look"), ("assistant", ""), ("tool", "4711 files"), ("assistant", "done")), 1
            ):
                db.execute(
                    "INSERT INTO messages(conversation_id, seq, role, content, token_count, created_at) VALUES (?,?,?,?,5,?)",
                    (n, seq, role, f"{text} {name}" if text else "", f"2026-01-0{n} 10:00:{seq * 10}"),
                )
            parts = (
                ("reasoning", 2, "thinking", None, None, None, None),
                ("tool", 2, None, f"c{n}", "terminal", '{"command": "ls"}', None),
                ("tool", 3, None, f"c{n}", "terminal", None, "4711 files"),
            )
            for kind, seq, text, call, tool, given, output in parts:
                db.execute(
                    "INSERT INTO message_parts VALUES (?,?,?,?,?,?,?,?,?,?,NULL)",
                    (f"{n}{kind}{seq}", (n - 1) * 4 + seq, name, kind, seq, text, call, tool, given, output),
                )
        for key, kind, depth in (("sum_a", "leaf", 0), ("sum_b", "leaf", 0), ("sum_c", "condensed", 1)):
            db.execute(
                "INSERT INTO summaries VALUES (?,1,?,?,?,9,NULL,NULL,'2026-01-01 11:00:00','[]')",
                (key, kind, depth, f"summary {key}"),
            )
        db.executemany(
            "INSERT INTO summary_messages VALUES (?,?,?)",
            [("sum_a", 1, 0), ("sum_a", 2, 1), ("sum_b", 3, 0), ("sum_b", 4, 1)],
        )
        db.executemany("INSERT INTO summary_parents VALUES (?,?,?)", [("sum_c", "sum_a", 0), ("sum_c", "sum_b", 1)])
    return path


def words_of(source: Path, target: Path, *words: str) -> list[str]:
    return [str(SCRIPT), "--source-db", str(source), "--target-db", str(target), "--json", *words]


def script(source: Path, target: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and data of the script, run in this process."""
    spec = importlib.util.spec_from_file_location("import_lossless_claw", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    out = io.StringIO()
    with patch.object(sys, "argv", words_of(source, target, *words)), redirect_stdout(out):
        code = module.main()
    return code, json.loads(out.getvalue())


def test_it_runs_from_anywhere(source: Path, tmp_path: Path) -> None:
    """As an operator types it."""
    command = [sys.executable, *words_of(source, tmp_path / "home" / "lcm.db", "--apply")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["added"] == 8


def test_looking_is_the_default_and_changes_nothing(source: Path, tmp_path: Path) -> None:
    """No target is made, the source stays as it is to the byte."""
    before = digest(source)
    code, said = script(source, tmp_path / "home" / "lcm.db", "--agent", "sammy")

    assert (code, said["added"], said["applied"]) == (0, 8, False)
    assert said["sessions"] == ["openclaw-lcm:agent:sammy:alpha", "openclaw-lcm:agent:sammy:beta"]
    assert digest(source) == before
    assert sorted(each.name for each in source.parent.iterdir()) == ["lcm.db"]
    assert not (tmp_path / "home" / "lcm.db").exists()


def test_messages_come_over_with_their_provenance(source: Path, tmp_path: Path) -> None:
    """In the session and the source; a tool round is a tool round; times are UTC."""
    world = Home(tmp_path / "home")
    script(source, world.path, "--agent", "sammy", "--apply")
    name = "openclaw-lcm:agent:sammy:alpha"
    rows = world.runtime.store.page(name, after=0, limit=9)

    assert [(row.head.role, row.text) for row in rows] == [
        ("user", "look alpha"), ("assistant", ""), ("tool", "4711 files alpha"), ("assistant", "done alpha"),
    ]  # fmt: skip
    assert {row.head.source for row in rows} == {name}
    assert [(call.id, call.name, call.arguments) for call in rows[1].calls] == [("c1", "terminal", '{"command": "ls"}')]
    assert (rows[2].head.tool_call_id, rows[2].head.tool_name) == ("c1", "terminal")
    assert rows[1].stored_json["reasoning"] == "thinking"
    assert rows[1].stored_json["lossless_claw"]["parts"][1]["tool_input"] == '{"command": "ls"}'  # type: ignore[index]
    assert rows[0].head.said_at == 1767261610.0
    assert world.runtime.dag.by_depth() == {}
    assert world.runtime.sessions.find(name).principal == f"session:{name}"  # type: ignore[union-attr]
    assert doctor(world.deps(None), deep=True)["counts"]["fail"] == 0


def test_again_adds_nothing_whatever_the_mapping(source: Path, tmp_path: Path) -> None:
    """The import id decides; another one is another import."""
    target = tmp_path / "home" / "lcm.db"
    first = script(source, target, "--apply")[1]
    again = script(
        source, target, "--apply", "--agent", "other", "--namespace", "elsewhere", "--session-identity", "session_key"
    )[1]
    moved = tmp_path / "copy.db"
    moved.write_bytes(source.read_bytes())
    copied = script(moved, target, "--apply", "--import-id", first["import_id"])[1]
    other = script(source, target, "--apply", "--agent", "other", "--import-id", "second")[1]

    assert (first["added"], first["backup"]) == (8, None)
    assert (again["added"], again["present"], copied["added"]) == (0, 8, 0)
    assert other["added"] == 8
    assert Path(other["backup"]).exists()


def test_conversations_of_one_key_can_be_one_session(source: Path, tmp_path: Path) -> None:
    """Only when it is asked for."""
    world = Home(tmp_path / "home")
    said = script(source, world.path, "--session-identity", "session_key", "--apply")[1]

    assert said["sessions"] == ["openclaw-lcm:agent:main"]
    assert [row.text for row in world.runtime.store.page("openclaw-lcm:agent:main", after=0, limit=9)][::4] == [
        "look alpha",
        "look beta",
    ]


def test_summaries_come_over_on_request(source: Path, tmp_path: Path) -> None:
    """Also after the messages; with their sources, and not verified."""
    world = Home(tmp_path / "home")
    script(source, world.path, "--apply")
    said = script(source, world.path, "--apply", "--summaries")[1]
    nodes = {node.text: node for batch in world.runtime.dag.node_batches() for node in batch}
    top = nodes["summary sum_c"]

    assert (said["added"], said["summaries"]) == (0, 3)
    assert {(node.depth, node.quality) for node in nodes.values()} == {(0, "provisional"), (1, "provisional")}
    below = [node.text for node in world.runtime.dag.nodes(world.runtime.dag.sources(top.node_id))]
    assert below == ["summary sum_a", "summary sum_b"]
    assert script(source, world.path, "--apply", "--summaries")[1]["summaries"] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--agent", "two words"), "--agent 'two words'"),
        (("--namespace", "a:b"), "--namespace 'a:b'"),
    ],
    ids=["agent", "namespace"],
)
def test_names_that_would_not_read_back_are_refused(
    words: tuple[str, str], said: str, source: Path, tmp_path: Path
) -> None:
    """A colon separates the parts of a provenance."""
    code, answer = script(source, tmp_path / "home" / "lcm.db", *words)

    assert code == REFUSED
    assert said in answer["error"]


def test_what_is_no_such_database_is_refused(source: Path, tmp_path: Path) -> None:
    """Our own, or none."""
    Home(tmp_path / "home").say("hello")
    for path, said in (
        (tmp_path / "home" / "lcm.db", "an archive of this plugin"),
        (tmp_path / "nothing.db", "no such file"),
    ):
        code, answer = script(path, tmp_path / "home" / "lcm.db")
        assert code == REFUSED
        assert said in answer["error"]


def test_a_file_of_the_port_to_hermes_comes_over_with_its_tree(source: Path, tmp_path: Path) -> None:
    """lossless-hermes-py names the links of its summaries otherwise, and keeps no order of them."""
    with closing(sqlite3.connect(source, isolation_level=None)) as db:
        for table, own, other in (("messages", "summary_id", "message_id"), ("parents", "parent_id", "child_id")):
            of = "message_id" if table == "messages" else "parent_summary_id"
            db.executescript(
                f"CREATE TABLE t({own} TEXT, {other} TEXT); INSERT INTO t SELECT summary_id, {of} FROM summary_{table};"
                f"DROP TABLE summary_{table}; ALTER TABLE t RENAME TO summary_{table};"
            )
    world = Home(tmp_path / "home")
    script(source, world.path, "--summaries", "--apply")
    top = world.runtime.dag.node(3)

    assert top is not None
    assert (top.depth, top.message_count) == (1, 4)


# -- parts and files ------------------------------------------------------------------------------------
LARGE = "CREATE TABLE large_files(file_id TEXT PRIMARY KEY, conversation_id INTEGER, file_name TEXT, mime_type TEXT, \
storage_uri TEXT, exploration_summary TEXT)"
PICTURE = b"\x89PNG" + bytes(range(256))
BODY = 'a "quoted" line, 漢字 🐙\n' * 2000


class Written:
    """More messages of ``alpha``, with parts and files as its program writes them."""

    def __init__(self, source: Path) -> None:
        self.files = source.parent / "lcm-files" / "1"
        self.db = sqlite3.connect(source, isolation_level=None)
        self.db.execute(LARGE)

    def file(self, number: int, name: str, mime: str, content: bytes, summary: str = "") -> str:
        """A large file; its id. Its program is on another machine, so the path in its row leads nowhere."""
        key = f"file_{number:016x}"
        self.files.mkdir(parents=True, exist_ok=True)
        (self.files / f"{key}.bin").write_bytes(content)
        where = f"/elsewhere/lcm-files/1/{key}.bin"
        self.db.execute("INSERT INTO large_files VALUES (?,1,?,?,?,?)", (key, name, mime, where, summary))
        return key

    def say(self, role: str, text: str, *parts: dict[str, Any]) -> int:
        """A message and its parts; ``about`` of a part is its metadata."""
        seq = self.db.execute("SELECT max(seq) + 1 FROM messages WHERE conversation_id = 1").fetchone()[0]
        sql = "INSERT INTO messages(conversation_id, seq, role, content, token_count, created_at) VALUES (1,?,?,?,5,?)"
        key = self.db.execute(sql, (seq, role, text, f"2026-01-01 12:00:{seq}")).lastrowid
        for n, part in enumerate(parts):
            row = {"part_type": "text", **part, "metadata": json.dumps(part.get("about", {}))}
            row.pop("about", None)
            names = ", ".join(row)
            self.db.execute(
                f"INSERT INTO message_parts(part_id, message_id, session_id, ordinal, {names}) "
                f"VALUES (?,?,'alpha',?,{','.join('?' * len(row))})",
                (f"p{key}-{n}", key, n, *row.values()),
            )
        return int(key or 0)


def taken(source: Path, tmp_path: Path, first: int) -> list[dict[str, Any]]:
    """Import all, and the messages of ``alpha`` from its ``first`` on."""
    deps = Home(tmp_path / "home").deps(None, trusted=True)
    assert run(f"import {source} apply", deps)
    session = deps.sessions.find("openclaw-lcm:alpha")
    assert session is not None
    thread = Transcripts(deps.store, deps.sessions).expected(session, None)
    return [deps.payloads.whole(row).stored_json for row in deps.store.rows([item.store_id for item in thread])][first:]


def test_what_was_put_into_files_is_back_in_its_messages(source: Path, tmp_path: Path) -> None:
    """A large answer, a picture between words, a file that the user attached, a whole message; wherever the files are now."""
    with closing((made := Written(source)).db):
        large = made.file(1, "read.txt", "text/plain", BODY.encode(), "a summary")
        picture = made.file(2, "chart.png", "image/png", PICTURE)
        sheet = made.file(3, "sheet.csv", "text/csv", BODY.encode(), "columns: 3")
        whole = made.file(4, "said.json", "application/json", json.dumps([{"type": "text", "text": BODY}]).encode())
        short = f"[Output: {large} | 9 bytes]\n\nIn short:\na summary"
        made.say("tool", short, {"tool_call_id": "c9", "text_content": short, "about": {"externalizedFileId": large}})
        mark = {
            "text_content": f"[Image: chart.png | {picture}]",
            "about": {"externalizedFileId": picture, "imageExternalized": True},
        }
        made.say("user", "x", {"text_content": "look"}, mark, {"text_content": "and say"})
        text = f"see [File: {sheet} | sheet.csv]\n\nIn short:\ncolumns: 3 and tell"
        made.say("user", text, {"text_content": text})
        made.say("assistant", f"[{whole}]", {"text_content": f"[{whole}]", "about": {"externalizedFileId": whole}})
    result, shown, attached, said = taken(source, tmp_path, 4)

    assert result["content"] == BODY
    url = "data:image/png;base64," + base64.b64encode(PICTURE).decode()
    image = {"type": "image_url", "image_url": {"url": url}}
    assert shown["content"] == [{"type": "text", "text": "look"}, image, {"type": "text", "text": "and say"}]
    assert attached["content"] == f'see <file name="sheet.csv" mime="text/csv">{BODY}</file> and tell'
    assert said["content"] == BODY


def test_a_file_that_is_gone_or_not_its_own_is_named_and_its_reference_stays(source: Path, tmp_path: Path) -> None:
    """A database does not decide which other files of this machine are read."""
    other = tmp_path / "secret.txt"
    other.write_text("nobody's business")
    with closing((made := Written(source)).db):
        gone, foreign = made.file(1, "a.txt", "text/plain", b"x"), made.file(2, "b.txt", "text/plain", b"y")
        for path in made.files.iterdir():
            path.unlink()
        made.db.execute("UPDATE large_files SET storage_uri = ? WHERE file_id = ?", (str(other), foreign))
        made.say("user", f"see [{gone}] and [{foreign}]")
    answer = run(f"import {source}", Home(tmp_path / "home").deps(None, trusted=True))

    assert f"2 large files cannot be read, their references stay: {gone}, {foreign}" in answer
    assert taken(source, tmp_path, 4)[0]["content"] == f"see [{gone}] and [{foreign}]"


def test_a_part_is_read_as_what_it_is(source: Path, tmp_path: Path) -> None:
    """Any part may carry an id; an answer may be in its block only, and a text may be stored as JSON."""
    call = {"part_type": "tool", "tool_call_id": "c9", "tool_name": "save", "tool_input": json.dumps('{"a": 1}')}
    block = {"type": "tool_result", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}
    with closing((made := Written(source)).db):
        made.say(
            "assistant", "Saving.", {"text_content": "Saving.", "tool_call_id": "msg_1"},
            {**call, "about": {"originalRole": "assistant", "topLevelReasoningContent": "quietly"}},
        )  # fmt: skip
        answer = {"part_type": "tool", "tool_call_id": "c9", "about": {"originalRole": "toolResult", "raw": block}}
        made.say("tool", "", answer)
        made.say("tool", "", {**answer, "tool_output": json.dumps('said "ok"')})
        made.say("user", "only this", {"text_content": '{"text": "only this", "n": 2}'})
    saving, block_of, output, typed = taken(source, tmp_path, 4)

    assert [(each["id"], each["function"]["arguments"]) for each in saving["tool_calls"]] == [("c9", '{"a": 1}')]
    assert (saving["content"], saving["reasoning_content"]) == ("Saving.", "quietly")
    assert (block_of["content"], block_of["tool_call_id"]) == ("one\ntwo", "c9")
    assert output["content"] == 'said "ok"'
    assert typed["content"] == '{"text": "only this", "n": 2}'


def test_what_was_purged_there_does_not_come_over(source: Path, tmp_path: Path) -> None:
    """Its purge hides rows from every reader; an import must not show them again."""
    with closing(sqlite3.connect(source, isolation_level=None)) as db:
        for table, key in (("messages", "message_id = 1"), ("summaries", "summary_id = 'sum_a'")):
            db.execute(f"ALTER TABLE {table} ADD COLUMN suppressed_at TEXT")
            db.execute(f"UPDATE {table} SET suppressed_at = '2026-02-01' WHERE {key}")
        db.executescript("CREATE TABLE briefs(text TEXT); INSERT INTO briefs VALUES ('x')")
    answer = run(f"import {source}", Home(tmp_path / "home").deps(None, trusted=True))

    assert "7 messages to add" in answer
    assert "2 summaries to add" in answer
    assert "1 message left out: suppressed there" in answer
    assert "tables that stay there: briefs" in answer
    assert "look alpha" not in str(taken(source, tmp_path, 0))


def test_a_summary_without_links_is_about_the_messages_of_its_time(source: Path, tmp_path: Path) -> None:
    """Its times are in ISO 8601, those of messages as SQLite writes them."""
    with closing(sqlite3.connect(source, isolation_level=None)) as db:
        db.execute("DELETE FROM summary_messages WHERE summary_id = 'sum_b'")
        span = ("2026-01-01T10:00:20.000Z", "2026-01-01T10:00:40.000Z")
        db.execute("UPDATE summaries SET earliest_at = ?, latest_at = ? WHERE summary_id = 'sum_b'", span)
    deps = Home(tmp_path / "home").deps(None, trusted=True)
    run(f"import {source} apply", deps)
    (node,) = [node for batch in deps.dag.node_batches() for node in batch if node.text == "summary sum_b"]

    assert [row.text for row in deps.store.rows(deps.dag.sources(node.node_id))][1:] == [
        "4711 files alpha",
        "done alpha",
    ]


def test_the_verb_takes_a_database_of_lossless_claw_in(source: Path, tmp_path: Path) -> None:
    """With its summaries: one command for whoever switches."""
    deps = Home(tmp_path / "home").deps(None, trusted=True)

    assert f"`hermes lcm import {source} --apply` does it." in run(f"import {source}", deps)
    assert "8 messages added" in run(f"import {source} apply", deps)
