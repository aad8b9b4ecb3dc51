"""A conversation leaves as a file and comes back exactly, once."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from ops_world import World, digest, healthy

from hermes_lcm.command import answer
from hermes_lcm.errors import BadRequest, NotFound
from hermes_lcm.ops import export, importers
from hermes_lcm.ops.checks import doctor
from hermes_lcm.ops.status import OpsDeps
from hermes_lcm.records import Flag

AWKWARD = (
    "plain",
    "two\nlines\r\n",
    'quotes " and \\ and "message": {}',
    "日本語 🦓",
    "\u2028 line separator",
    "",
    "x" * 5000,
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "here")
    world.say(*AWKWARD)
    world.runtime.store.flag([2], add=Flag.RETRACTED)
    return world


def elsewhere(tmp_path: Path) -> OpsDeps:
    """Another home, at its terminal."""
    return World(tmp_path / "there").deps(None, trusted=True)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """An export without what a database gives by itself."""
    out = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    return [{key: value for key, value in each.items() if key not in ("store_id", "revises")} for each in out]


def test_an_export_comes_back_exactly(world: World, tmp_path: Path) -> None:
    """Every envelope, time, flag, source and place; exporting it again gives the same file."""
    made = export.export(world.deps(), None, "jsonl")
    deps = elsewhere(tmp_path)
    importers.take_in(deps, made.path)
    again = export.export(deps, "s1", "jsonl")

    assert lines_of(again.path) == lines_of(made.path)
    assert doctor(deps, deep=True)["counts"]["fail"] == 0


def test_an_export_is_private_and_whole(world: World) -> None:
    """Readable by its owner, and no half of it is left behind."""
    made = export.export(world.deps(), None, "jsonl")

    assert stat.S_IMODE(made.path.stat().st_mode) == 0o600
    assert [path.name for path in made.path.parent.iterdir()] == ["s1.jsonl"]
    assert made.messages == len(AWKWARD)


def test_markdown_is_the_thread_as_it_reads(world: World) -> None:
    """Without what was taken back."""
    text = export.export(world.deps(), None, "markdown").path.read_text(encoding="utf-8")

    assert "## user · msg_1" in text
    assert "msg_2 " not in text
    assert "日本語 🦓" in text


def test_the_archive_is_not_changed_by_an_export(world: World) -> None:
    """Looking is looking."""
    world.close()
    before = digest(world.path)
    export.export(world.deps(), None, "jsonl")
    world.close()

    assert digest(world.path) == before


def test_only_what_may_be_read_is_exported(tmp_path: Path) -> None:
    """A chat exports its own conversation and no other."""
    world = World(tmp_path)
    for name in ("anna", "bert"):
        world.runtime.announce(name, platform="telegram", host_key=f"agent:main:telegram:dm:{name}")
        world.say("secret", session=name, platform="telegram")

    assert export.export(world.deps("anna"), None, "jsonl").messages == 1
    with pytest.raises(NotFound):
        export.export(world.deps("anna"), "bert", "jsonl")


def test_importing_twice_is_importing_once(world: World, tmp_path: Path) -> None:
    """The second time finds everything there and makes no backup."""
    made = export.export(world.deps(), None, "jsonl")
    deps = elsewhere(tmp_path)
    first, second = importers.take_in(deps, made.path), importers.take_in(deps, made.path)

    assert (first.present, first.added) == (0, len(AWKWARD))
    assert (second.present, second.added, second.backup) == (len(AWKWARD), 0, None)


def test_a_dry_run_creates_nothing(world: World, tmp_path: Path) -> None:
    """Not even the database."""
    made = export.export(world.deps(), None, "jsonl")
    deps = elsewhere(tmp_path)
    importers.plan(deps, made.path)

    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize("stop", [1, 2])
def test_an_interrupted_import_goes_on(stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are facts: what is stored stays, the rest follows."""
    monkeypatch.setattr(importers, "_BATCH", 30)
    made = export.export(healthy(tmp_path / "here").deps(), None, "jsonl")
    deps = elsewhere(tmp_path)
    calls = []

    def interrupted(what: str, _done: int, _total: int) -> None:
        calls.append(what)
        if calls.count("storing") == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        importers.take_in(deps, made.path, interrupted)
    assert deps.store.count() == 30 * stop
    assert importers.take_in(deps, made.path).added == 100 - 30 * stop
    assert lines_of(export.export(deps, "s1", "jsonl").path) == lines_of(made.path)


def test_another_conversation_under_the_same_name_is_refused(world: World, tmp_path: Path) -> None:
    """An import never mixes two."""
    made = export.export(world.deps(), None, "jsonl")
    other = World(tmp_path / "there")
    other.say("something", "else")

    with pytest.raises(BadRequest, match="other messages"):
        importers.take_in(other.deps(None, trusted=True), made.path)
    assert other.runtime.store.count() == 2


def test_an_incomplete_export_is_refused(world: World, tmp_path: Path) -> None:
    """A file that was cut off is no conversation."""
    made = export.export(world.deps(), None, "jsonl")
    lines = made.path.read_text(encoding="utf-8").split("\n")
    made.path.write_text("\n".join(lines[:4]), encoding="utf-8")

    with pytest.raises(BadRequest, match="not complete"):
        importers.plan(elsewhere(tmp_path), made.path)


TRANSCRIPT = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(json.dumps(each) for each in TRANSCRIPT),
        json.dumps(TRANSCRIPT),
        json.dumps(TRANSCRIPT, indent=2),
        json.dumps({"messages": TRANSCRIPT}),
        json.dumps({"messages": TRANSCRIPT}, indent=2),
    ],
    ids=["jsonl", "list", "indented-list", "object", "indented-object"],
)
def test_transcripts_of_openai_messages_are_taken_in(text: str, tmp_path: Path) -> None:
    """Whatever tool wrote them."""
    path = tmp_path / "chat.json"
    path.write_text(text)
    deps = elsewhere(tmp_path)
    done = importers.take_in(deps, path)

    assert (done.sessions, done.added) == (("import:chat",), 2)
    assert [row.text for row in deps.store.page("import:chat", after=0, limit=9)] == ["hello", "hi"]


@pytest.mark.parametrize(
    "text", ["", "{", "[1, 2]", "not json", '{"a": 1}'], ids=["empty", "cut", "numbers", "prose", "other"]
)
def test_a_file_without_messages_is_refused(text: str, tmp_path: Path) -> None:
    """In words."""
    path = tmp_path / "chat.json"
    path.write_text(text)

    with pytest.raises(BadRequest):
        importers.plan(elsewhere(tmp_path), path)


def test_a_chat_cannot_import(world: World) -> None:
    """It would read any file of this machine."""
    assert "at the terminal" in answer("import /etc/passwd", world.deps()).text
