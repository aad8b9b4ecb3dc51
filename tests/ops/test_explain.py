"""Why something is in the prompt: any message or summary, from the chat and from a terminal (P9)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds.home import Home
from worlds.process import Chat, Script, chat, owner_rights
from worlds.process import World as Talk

from hermes_lcm import command
from hermes_lcm.command import run
from hermes_lcm.ops import explain, render
from hermes_lcm.recall.access import Access
from hermes_lcm.records import Flag


def deps(world: Talk, session_id: str | None, *, trusted: bool = True) -> Access:
    """What a command at a terminal works with: the newest session if none is named."""
    runtime = world.runtime
    found = runtime.sessions.find(session_id) if session_id else None
    return replace(runtime.access(found, owner_rights(found), home=world.folder, trusted=trusted), store=runtime.store)


@pytest.fixture
def world(tmp_path: Path) -> Talk:
    """Two conversations, each compacted; ``new`` is the newest."""
    world = Talk(tmp_path, condensation_fanin=2, fresh_tail_count=6)
    world.compact(chat().turns(30), "old")
    world.compact(chat().turns(30, first=500), "new")
    return world


def told(world: Talk, address: str, session_id: str | None = "new") -> dict[str, Any]:
    return explain.explain(deps(world, session_id), address)[0]


@pytest.mark.parametrize("asked_from", ["new", "old", None])
def test_a_message_is_explained_in_its_own_conversation(world: Talk, asked_from: str | None) -> None:
    """Whichever session is the newest: the prompt looked at is that of the conversation the address belongs to."""
    covered, raw = told(world, "msg_1", asked_from), told(world, "msg_60", asked_from)
    root = world.dag.latest_assembly(1).roots[0]  # type: ignore[union-attr]

    assert covered["in the prompt"] == f"as part of sum_{root}"
    assert "verified" in covered["shown by"]
    assert "by scripted" in covered["shown by"]
    assert raw["in the prompt"] == "word for word, among the newest messages"


def test_a_result_that_the_prompt_shows_by_its_ends_is_not_said_to_be_whole(world: Talk) -> None:
    """And how the rest comes back."""
    newest = world.dag.latest_assembly(1)
    assert newest is not None
    world.dag.take_over(replace(newest, stubs={60: 300}))

    said = "by 300 characters of its beginning and end, among the newest messages; all of it: lcm_expand(store_id=60)"
    assert told(world, "msg_60", "old")["in the prompt"] == said
    assert told(world, "msg_59", "old")["in the prompt"] == "word for word, among the newest messages"


@pytest.mark.parametrize("asked_from", ["new", "old", None])
def test_a_summary_is_explained_in_its_own_conversation(world: Talk, asked_from: str | None) -> None:
    """The same for summaries."""
    root = world.dag.latest_assembly(1).roots[0]  # type: ignore[union-attr]

    assert told(world, f"sum_{root}", asked_from)["in the prompt"] == "yes"


def test_a_branch_sees_its_parents_messages_in_its_own_prompt(world: Talk) -> None:
    """What the branch shows is what counts when it asks."""
    live = chat().turns(30)
    above = world.session("old")
    world.session("twig", parent=above, origin="branch", fork_seq=world.store.last_seq(above.conversation_id))
    world.take(live.copy(), "twig")
    world.compact(Chat(live).turns(30, first=900), "twig")
    root = world.dag.latest_assembly(world.session("twig").conversation_id).roots[0]  # type: ignore[union-attr]

    assert told(world, "msg_1", "twig")["in the prompt"] == f"as part of sum_{root}"
    assert told(world, "msg_60", "old")["in the prompt"] == "word for word, among the newest messages"


def test_a_condensed_leaf_says_what_it_is_part_of(tmp_path: Path) -> None:
    """And a message under it names both, with their checks."""
    world = Talk(tmp_path, Script("long"), condensation_fanin=2, fresh_tail_count=6, leaf_chunk_tokens=8_000)
    world.model.moves = ["long", "ok"] * 400
    live = chat()
    for n in range(10):
        live = world.compact(live.turns(20, first=100 * n))
    roots = world.dag.nodes(world.dag.latest_assembly(1).roots)  # type: ignore[union-attr]
    deep = next(root for root in roots if root.depth)
    first = world.dag.messages_below([deep.node_id])[0]
    leaf = world.dag.covering(first)[0]

    assert told(world, f"sum_{leaf}", "s")["in the prompt"] == (f"no, but it is part of {deep.address}")
    said = told(world, f"msg_{first}", "s")
    assert said["shown by"].startswith(f"{deep.address}, verified, depth {deep.depth}")
    assert said["first summary"].startswith(f"sum_{leaf}, ")


def test_checks_are_told_in_words(world: Talk) -> None:
    """What people read has no JSON in it; programs get it as it is kept."""
    verdict = {
        "ok": True,
        "reasons": [],
        "suspects": [],
        "struck": ["port 99"],
        "recall": 0.5,
        "recall_with_anchors": 0.75,
    }
    attempts = [
        {"route": "host", "rung": "detailed", "outcome": "it is empty"},
        {"route": "m", "rung": "retry", "outcome": "accepted"},
    ]
    said = render.checks_said(json.dumps({"attempts": attempts, "parts": [verdict]}))
    extract = render.checks_said(json.dumps({"attempts": [], "reasons": ["out of time"], "recall_with_anchors": 0.25}))

    assert said == (
        "detailed by host: it is empty; retry by m: accepted; keeps 50% of the names and numbers of its source, "
        "75% with its list of them; "
        "struck, because the source lacks it: port 99"
    )
    assert extract == "out of time; the extract keeps 25% of the names and numbers of its source"
    assert render.checks_said("{}") == "none were kept"
    assert render.checks_said("of an older release") == "of an older release"
    node = world.nodes()[0]
    shown = run(f"explain {node.address}", deps(world, "new"))
    assert told(world, node.address)["checks"] == node.checks
    assert "{" not in next(line for line in shown.splitlines() if line.startswith("checks"))


def test_programs_get_the_place_as_a_value_beside_the_words(world: Talk) -> None:
    """`in_prompt` is one of four words, and `in_prompt_by` an address."""
    root = world.dag.latest_assembly(1).roots[0]  # type: ignore[union-attr]
    folded, raw, summary = (explain.explain(deps(world, "old"), at)[1] for at in ("msg_1", "msg_60", f"sum_{root}"))

    assert [each["in_prompt"] for each in (folded, raw, summary)] == ["summary", "raw", "summary"]
    assert [each["in_prompt_by"] for each in (folded, raw, summary)] == [f"sum_{root}", None, f"sum_{root}"]
    assert folded["in_prompt_said"] == f"as part of sum_{root}"


def test_a_verified_summary_says_what_that_means(world: Talk) -> None:
    """A share of kept names beside the bare word "verified" reads like a contradiction."""
    shown = run(f"explain {world.nodes()[0].address}", deps(world, "new"))
    (line,) = [line for line in shown.splitlines() if line.startswith("verified")]

    assert "yes: every path, number and identifier in it stands in what it was made of" in line


def test_what_replaced_an_extract_is_named(tmp_path: Path) -> None:
    """Relations in both directions."""
    world = Talk(tmp_path, Script("provisional"))
    live = world.compact(chat().turns(30))
    poor = world.dag.latest_assembly(1).roots[0]  # type: ignore[union-attr]
    world = world.restart(Script("ok"))
    world.compact(live.turns(30, first=200))
    better = next(node for node in world.nodes() if node.replaces == poor)

    assert told(world, f"sum_{poor}", "s")["in the prompt"].endswith(f"{better.address} replaced it")
    assert told(world, better.address, "s")["replaces"] == f"sum_{poor}"


def test_what_the_user_took_back_is_said_to_be_out(world: Talk) -> None:
    """It is stored, and in no prompt."""
    world.take(chat().user("a").says("b").user("wrong").says("c"), "third")
    world.take(chat().user("a").says("b").user("right").says("d"), "third")
    undone = next(row.store_id for rows in world.store.row_batches() for row in rows if row.text == "wrong")

    assert told(world, f"msg_{undone}", None)["in the prompt"] == "no: the user took it back"


def test_dissolving_puts_the_sources_back(tmp_path: Path) -> None:
    """An operator's order: the next compaction shows the children; undone, the parent again. Nothing is deleted."""
    world = Talk(tmp_path, Script("long"), condensation_fanin=2, fresh_tail_count=6, leaf_chunk_tokens=8_000)
    world.model.moves = ["long", "ok"] * 400
    live = chat()
    for n in range(10):
        live = world.compact(live.turns(20, first=100 * n))
    deep = next(n for n in world.dag.nodes(world.dag.latest_assembly(1).roots) if n.depth)  # type: ignore[union-attr]
    before = len(world.nodes())
    said = explain.dissolve(deps(world, "s"), deep.address, apply=True)
    live = world.compact(live.turns(20, first=5000), threshold=8000)
    roots = world.take(live).assembly.roots  # type: ignore[union-attr]

    assert said["dissolved"] is True
    assert deep.node_id not in roots
    assert world.gaps(live) == ([], [])
    assert len(world.nodes()) >= before
    assert explain.dissolve(deps(world, "s"), deep.address, apply=False, undo=True)["dissolved"] is False


def test_a_file_is_explained_and_shown_by_its_name(tmp_path: Path) -> None:
    """As the doctor names it; where the file is gone, that is said."""
    settings = {"large_output_externalization_enabled": "true", "large_output_externalization_threshold_chars": "2000"}
    world = Home(tmp_path / "home", **settings)
    world.say("list it", "line of the listing\n" * 500)
    deps = world.deps("s1", trusted=True)
    (name,) = deps.payloads.names_of([row.digest for row in deps.store.heads_of([1, 2]).values()])

    told = command.answer(f"explain {name}", deps)
    assert "bytes, kept in a file of its own" in told.text
    assert (told.data["messages"], told.data["there"]) == (["msg_2"], True)
    assert command.answer(f"show {name}", deps).text.count("line of the listing") == 500
    assert "does not exist" in command.answer("explain file_0123456789abcdef", deps).text
    Path(told.data["path"]).unlink()
    assert "is missing" in command.answer(f"explain {name}", deps).text

    shown = command.answer("show msg_2", Home(tmp_path / "home", **settings).deps("s1", trusted=True))
    assert (shown.code, shown.data["missing"]) == (command.FOUND, [name])
    assert f"Placeholders stand for {name}, which cannot be read" in shown.text


def test_notes_on_a_message_are_words(tmp_path: Path) -> None:
    """What a flag tells only the plugin is not among them; programs get the flags."""
    world = Home(tmp_path)
    world.say("hello")
    said, data = explain.explain(world.deps(trusted=True), "msg_1")

    assert "flags" not in said
    bits = {name.lower(): bit for name, bit in vars(Flag).items() if name.isupper()}
    assert set(explain._NOTES) == {name for name, bit in bits.items() if bit.bit_count() == 1}
    assert all(words or name in ("own_call", "shown") for name, words in explain._NOTES.items())
    assert isinstance(data["flags"], list)


@pytest.mark.parametrize(
    ("address", "way"), [("msg_99", "`/lcm search`"), ("sum_99", "`/lcm explain`"), ("file_9", "`/lcm search`")]
)
def test_an_address_without_anything_behind_it_leads_to_the_right_one(tmp_path: Path, address: str, way: str) -> None:
    """At a terminal, which may read everything, it does not exist; elsewhere the right to it may be what lacks."""
    world = Home(tmp_path)
    world.say("hello")
    operator, chat = (
        command.answer(f"show {address}", deps).text for deps in (world.deps(trusted=True), world.deps("s1"))
    )

    assert f"{address} does not exist; {way}" in operator
    assert way in chat
