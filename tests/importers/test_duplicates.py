"""``doctor duplicates``: what another engine stored twice is marked, nothing is deleted, and live rows are left alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds.home import Home, healthy

from hermes_lcm.command import OK, answer
from hermes_lcm.importers import duplicates, transcripts
from hermes_lcm.importers.ledger import Ledger
from hermes_lcm.ingest.transcript import Transcripts
from hermes_lcm.ops.doctor.checks import doctor
from hermes_lcm.recall.access import Access
from hermes_lcm.records import Flag, Scope
from hermes_lcm.search import query


def damaged(home: Path, *, times: int = 3) -> Access:
    """A transcript in which an engine stored a list of eight several times, taken in as it is."""
    home.mkdir(exist_ok=True)
    path = home / "chat.jsonl"
    rows: list[dict[str, Any]] = []
    for n in range(times):
        rows += [
            {
                "role": ("user", "assistant")[k % 2],
                "content": f"word {k} about the zebra",
                "timestamp": 1e9 + 60 * n + k / 1000,
            }
            for k in range(8)
        ]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    deps = Home(home).deps(None, trusted=True)
    transcripts.take_in(deps, path)
    return deps


def thread(deps: Access, session: str = "import:chat") -> list[str]:
    found = deps.sessions.find(session)
    assert found is not None
    ids = [item.store_id for item in Transcripts(deps.store, deps.sessions).expected(found, None)]
    return [row.text for row in deps.store.rows(ids)]


def test_looking_changes_nothing(tmp_path: Path) -> None:
    """And says what would be done."""
    deps = damaged(tmp_path)
    said = answer("doctor duplicates", deps)

    assert said.code == OK
    assert said.data["duplicates"] == 16
    assert "Dry run" in said.text
    assert len(thread(deps)) == 24
    assert not (tmp_path / "lcm-backups").exists()


def test_copies_are_marked_and_stay(tmp_path: Path) -> None:
    """The conversation reads as it was said, a search finds each message once, every row is still there."""
    deps = damaged(tmp_path)
    done = duplicates.mark(deps)

    assert thread(deps) == [f"word {k} about the zebra" for k in range(8)]
    assert deps.store.count() == 24
    assert deps.store.text(24) == "word 7 about the zebra"
    assert deps.store.rows([24])[0].head.flags & Flag.DUPLICATE
    assert Ledger(deps.db).duplicates()[24] == 8
    assert len(deps.index.search(query.parse("zebra"), scope=Scope(), limit=99).hits) == 8
    assert done.backup is not None
    assert done.backup.exists()
    assert doctor(deps, deep=True)["counts"]["fail"] == 0


def test_a_damaged_message_keeps_no_copy_from_being_marked(tmp_path: Path) -> None:
    """A note of the host that cannot be read is no summary of another engine; the rest is what it was."""
    deps = damaged(tmp_path)
    with deps.db.transaction():
        deps.db.execute("UPDATE messages SET flags = flags | 2, envelope = x'deadbeef' WHERE store_id IN (3, 11, 19)")

    assert {9 + n: 1 + n for n in range(8)}.items() <= dict(duplicates.look(deps).found).items()


def test_the_answer_says_what_undoes_the_marks(tmp_path: Path) -> None:
    """The backup that was made before, by its name."""
    said = answer("doctor duplicates apply", damaged(tmp_path))

    assert f"`/lcm restore {Path(said.data['backup']).name} apply` undoes" in said.text


def test_marking_twice_is_marking_once(tmp_path: Path) -> None:
    """The second time there is nothing to do and no backup is made."""
    deps = damaged(tmp_path)
    duplicates.mark(deps)
    again = duplicates.mark(deps)

    assert (again.found, again.marked_before, again.backup) == ([], 16, None)


def test_an_interrupted_marking_goes_on(tmp_path: Path) -> None:
    """A conversation is marked as a whole: half of a replay proves nothing."""
    deps = damaged(tmp_path)
    (tmp_path / "other.jsonl").write_text((tmp_path / "chat.jsonl").read_text())
    transcripts.take_in(deps, tmp_path / "other.jsonl")

    def stop(what: str, _done: int, _total: int) -> None:
        if what == "marking":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        duplicates.mark(deps, stop)
    assert len(Ledger(deps.db).duplicates()) == 16
    assert len(duplicates.mark(deps).found) == 16
    assert thread(deps) == thread(deps, "import:other") == [f"word {k} about the zebra" for k in range(8)]


def test_rows_of_a_live_session_are_never_marked(tmp_path: Path) -> None:
    """What people say again and again is theirs."""
    world = Home(tmp_path)
    for n in range(1, 4):
        world.say(*(["yes", "ok"] * 6 * n))
    healthy_deps = replace(world.deps(None), trusted=True)

    assert duplicates.mark(healthy_deps).found == []
    assert world.runtime.store.count() == 36


def test_rows_without_a_proven_place_may_be(tmp_path: Path) -> None:
    """A list that had nothing in common with what was stored was kept whole; shown again, it is there twice."""
    world = Home(tmp_path)
    texts = [f"word {k}" for k in range(8)]
    world.say(*texts)
    world.raw("UPDATE messages SET said_at = 1e9 + store_id / 1000.0")
    world.raw(
        "INSERT INTO messages SELECT store_id + 8, conversation_id, session_key, seq + 8, pos + 8, role, tool_name, answers, "
        "digest, tokens, chars, said_at + 60, stored_at, source, flags | 8, revises, envelope FROM messages"
    )
    world.close()

    assert len(duplicates.mark(world.deps(None)).found) == 8
    assert thread(world.deps(None), "s1") == texts


def test_nothing_stored_is_nothing_to_mark(tmp_path: Path) -> None:
    """And makes no file."""
    assert answer("doctor duplicates apply", Home(tmp_path).deps(None)).data == {"stored": 0}
    assert list(tmp_path.iterdir()) == []
    assert answer("doctor duplicates", healthy(tmp_path).deps(None)).data["duplicates"] == 0
