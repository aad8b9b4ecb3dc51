"""``scripts/import_lossless_claw.py``: messages under their provenance, once, after a look and a backup."""

from __future__ import annotations

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
    assert (rows[2].head.answers, rows[2].head.tool_name) == ("c1", "terminal")
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


def test_the_verb_takes_a_database_of_lossless_claw_in(source: Path, tmp_path: Path) -> None:
    """With its summaries: one command for whoever switches."""
    deps = Home(tmp_path / "home").deps(None, trusted=True)

    assert "Dry run" in run(f"import {source}", deps)
    assert "8 messages added" in run(f"import {source} apply", deps)
